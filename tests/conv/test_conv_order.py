"""Order and ownership of convolutions: threads, streams, graphs, other libraries' arrays, nothing through the host."""

from __future__ import annotations

import conv_oracle
import numpy as np
import pytest
from conftest import host_never_waits
from conv_call import Call, small
from conv_oracle import DIRECTIONS, FLOATS, Inputs
from few_channels import few, is_other, preferring
from foreign import OnlyDlpack
from skips import skip
from threads import run_threads

import numbacc
from numbacc import conv

pytestmark = pytest.mark.usefixtures("poison")

each_direction = pytest.mark.parametrize("direction", DIRECTIONS)
each_kind = pytest.mark.parametrize("made", [small, few])
SINGLE, DOUBLE, HALF, BFLOAT16 = FLOATS


@pytest.fixture
def anew():
    """An empty cache; what can be computed as another convolution is."""
    with preferring():
        yield


@each_kind
@each_direction
def test_threads_share_arrays_and_a_plan(place, anew, direction, made, busy_collector):
    """Each computes from arrays that all read, on a stream of its own; a plan of cuDNN's is each thread's own."""
    call = Call(place, made(direction), deterministic=True)
    wanted, plan = place.get(call.run()), call.plan()
    assert is_other(call) is (made is few and place.is_device)

    def work(k):
        with numbacc.stream():
            for _ in range(1 if place.is_slow else 5):
                np.testing.assert_array_equal(place.get(call.run()), wanted)
                np.testing.assert_array_equal(place.get(plan(*call.views)), wanted)

    run_threads(work, 2 if place.is_slow else 8)


def test_streams_add_up_in_turn(place):
    """Gradients into one array: whoever comes next waits for the one before."""
    case = small("backward_filter", beta=1.0, dtype=DOUBLE, out_dtype=DOUBLE)
    call = Call(place, case)
    before, added = call.given.before.copy(), place.get(Call(place, case._replace(beta=0.0)).run())
    for stream in (None, numbacc.stream(), numbacc.stream(), None):
        assert call.run(stream=stream) is call.out.view
    np.testing.assert_allclose(call.out.now(), before + 4 * added, rtol=1e-12, atol=1e-12)


@each_kind
@each_direction
def test_streams(place, anew, direction, made):
    call = Call(place, made(direction, biased=direction == "forward"), {"out": {}})
    assert is_other(call) is (made is few and place.is_device)
    for stream in (numbacc.stream(), None, numbacc.stream().handle):
        call.verify(call.run(stream=stream))
        call.verify(call.plan()(*call.views, out=call.out.view, stream=stream))
    with numbacc.stream():
        call.verify(call.run())


CAPTURED = {
    "plain": (small(), {}),
    "fused": (small(layout="NHWC", biased=True, activation="relu"), {}),
    "a kernel behind": (small(biased=True, activation="gelu", dtype=DOUBLE, out_dtype=DOUBLE), {}),
    "copies": (small(), {"x": {"steps": (1, 1, -1, 1)}, "out": {"steps": (1, 1, -1, 2)}}),
    "dx": (small("backward_data"), {}),
    "dw, into wider rows": (small("backward_filter"), {"out": {"margins": ((0, 0), (0, 0), (0, 0), (1, 2))}}),
    "of nothing": (small("backward_filter", batch=0), {"out": {}}),
}
#: Those that are computed as other convolutions.
OTHERS = {
    "windows as channels": (few(biased=True, activation="relu"), {}),
    "dx, space to depth": (few("backward_data"), {}),
    "dw, windows as channels": (few("backward_filter"), {"out": {}}),
}
CAPTURED |= OTHERS


@pytest.mark.parametrize("known", [False, True], ids=["first", "again"])
@pytest.mark.parametrize("name", CAPTURED)
def test_a_graph_is_replayed_with_new_inputs(device_place, anew, name, known):
    """Its plans are dropped before; they may be made inside it."""
    place, (case, layouts) = device_place, CAPTURED[name]
    call = Call(place, case, layouts)
    if known:
        call.run()
    with numbacc.graph() as graph:
        answer = call.run()
    conv.cache_clear()
    for seed in (5, 6):
        values = conv_oracle.inputs(case._replace(seed=seed))
        fresh = [values.first, values.second, *([values.bias] if case.biased else [])]
        for view, host in zip(call.views, fresh, strict=True):
            view[...] = host
        graph.launch()
        found = place.get(answer) if call.out is None else call.out.now()
        conv_oracle.assert_right(case, Inputs(*values[:3]), np.array(found), composed=True)
    assert is_other(call) is (name in OTHERS)


def test_a_graph_of_a_training_step(device_place):
    """The gradient is added up in an array that the graph keeps."""
    place = device_place
    x, w = np.ones((2, 3, 5, 5), np.float32), np.ones((4, 3, 3, 3), np.float32)
    image, kernels, total = place.put(x), place.put(w), place.put(np.zeros_like(w))
    with numbacc.graph() as graph:
        y = conv.forward(image, kernels, activation="relu")
        conv.backward_filter(image, y, w.shape, beta=1.0, out=total)
        dx = conv.backward_data(y, kernels, x.shape)
    for count in (1, 2):
        graph.launch()
        np.testing.assert_allclose(place.get(total), np.full_like(w, 27 * 9 * 2 * count))
    assert place.get(dx)[0, 0, 2, 2] == 27 * 9 * 4


# ---------------------------------------------------------------- arrays of others


@each_direction
def test_arrays_of_other_libraries(numpy_place, direction):
    call = Call(numpy_place, small(direction), {"out": {}})
    (a, b, *shape), options = call.arguments
    out = OnlyDlpack(options["out"])
    assert getattr(conv, direction)(OnlyDlpack(a), OnlyDlpack(b), *shape, **{**options, "out": out}) is out
    call.verify(options["out"])


@pytest.mark.parametrize("dtype", [SINGLE, BFLOAT16], ids=str)
@each_direction
def test_tensors(place, direction, dtype, torch):
    """Of torch, on the CPU or the GPU, as inputs and as results."""
    if place.name == "simulator":
        skip("not simulated")
    call = Call(place, small(direction, dtype=dtype, out_dtype=dtype), {"out": {}})
    (a, b, *shape), options = call.arguments
    if dtype == BFLOAT16 and not place.is_device:
        a, b, out = (
            torch.from_numpy(each.view(np.uint16).copy()).view(torch.bfloat16) for each in (a, b, options["out"])
        )
    else:
        a, b, out = (torch.from_dlpack(each) for each in (a, b, options["out"]))
    assert getattr(conv, direction)(a, b, *shape, **{**options, "out": out}) is out
    found = out.float().cpu().numpy().astype(dtype)
    conv_oracle.assert_right(call.case, call.given, found)


def test_nothing_is_copied_to_the_host(device_place):
    """Nor waited for: with all ways to the host blocked, everything runs."""
    calls = [Call(device_place, case, layouts) for case, layouts in CAPTURED.values()]
    for call in calls:
        call.plan()

    with host_never_waits():
        answers = [call.run() for call in calls]
    for call, answer in zip(calls, answers, strict=True):
        call.verify(answer)
