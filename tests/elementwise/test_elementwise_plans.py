"""Plans of elementwise functions, and calls in several threads, on several streams, in graphs, of torch's tensors."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from conftest import refused
from mixed_dtypes import one, values
from threads import run_threads

import numbacc
from numbacc import elementwise as ew
from numbacc.errors import LayoutError, OptionError

pytestmark = pytest.mark.usefixtures("poison")


def test_plans_without_a_call_first(place):
    """They are prepared: what they are called with gives what the function does."""
    x = values((3, 4), "float16")
    for plan, wanted in [
        (ew.clamp.plan(place.put(x), 1, 5.0), np.clip(x, 1, 5)),
        (ew.where.plan(place.put(x > 2), 1.0, place.put(x)), None),
    ]:
        if wanted is None:
            np.testing.assert_array_equal(place.get(plan(place.put(x > 2), 2.0, place.put(x))), np.where(x > 2, 2, x))
        else:
            np.testing.assert_array_equal(place.get(plan(place.put(x), 1, 5.0)), wanted)


def test_plans(place):
    x, y = values((3, 4), "float32"), values((4,), "float32", 1)
    plan = ew.add.plan(place.put(x), place.put(y))
    np.testing.assert_array_equal(place.get(plan(place.put(x + 1), place.put(y))), x + 1 + y)
    assert "elementwise.add" in repr(plan) and "x1 float32 (3, 4)" in repr(plan)
    assert plan.info.op == "elementwise.add" and plan.info.dtypes == ("float32",) * 3
    assert plan.info.backend == {"numpy": "numpy", "simulator": "simulator", "gpu": "kernel"}[place.name]
    refused(LayoutError, "elementwise.add", run=lambda: plan(place.put(x.T.copy()), place.put(y)))
    refused(LayoutError, "elementwise.add", run=lambda: plan(place.put(x), place.put(y.astype("float64"))))
    refused(LayoutError, "2 arguments", run=lambda: plan(place.put(x)))
    refused(LayoutError, "without out", run=lambda: plan(place.put(x), place.put(y), out=place.put(x)))
    with pytest.raises(numbacc.Error):
        plan(place.put(x), 2.0)
    masked = ew.add.plan(place.put(x), 2, out=place.put(x), where=place.put(x > 3))
    out = place.put(x)
    assert masked(place.put(x), 5, out=out, where=place.put(x > 3)) is out
    np.testing.assert_array_equal(place.get(out), np.where(x > 3, x + 5, x))
    refused(LayoutError, "where", run=lambda: masked(place.put(x), 5, out=out))


def test_the_numbers_of_plans_are_of_the_kind_that_they_were_made_for(place):
    i, x = one(place, "int32"), one(place, "float32")
    plan = ew.add.plan(i, 2)
    for wrong in (1.5, 1j, np.float64(1.5), None, "a", x):
        with pytest.raises(numbacc.Error):
            plan(i, wrong)
    np.testing.assert_array_equal(place.get(plan(i, 40)), 41)
    refused(OptionError, "x2", "int32", run=lambda: plan(i, 2**31))


def test_the_cache_counts_hits(place):
    x = one(place, "float32")
    ew.cache_clear()
    for _ in range(3):
        ew.add(x, x), ew.add(x, 2.0), ew.exp(x, out=x)
    info = ew.cache_info()
    assert (info.hits, info.misses, info.currsize) == (6, 3, 3)
    ew.add(x, np.float32(2)), ew.add(x, 3), ew.add(x, True)
    assert ew.cache_info().misses == 6


def test_eight_threads(place):
    ew.cache_clear()
    x = values((4, 5), "float32")
    inputs = SimpleNamespace(x=place.put(x), row=place.put(x[0]))
    own = ew.kernel(lambda a, s: a * s + 1 if a > s else a - s)

    def work(k):
        for n in range(4 if place.is_slow else 40):
            np.testing.assert_array_equal(place.get(ew.multiply(inputs.x, float(k + n))), x * np.float32(k + n))
            np.testing.assert_array_equal(place.get(ew.add(inputs.x, inputs.row)), x + x[0])
            np.testing.assert_array_equal(place.get(own(inputs.x, float(k))), np.where(x > k, x * k + 1, x - k))

    run_threads(work)


def test_streams(place):
    x, streams = place.put(values((4, 5), "float32")), [None, numbacc.stream(), numbacc.stream()]
    y = x
    for k in range(9):
        y = ew.add(y, 1.0, stream=streams[k % 3], **({"out": y} if k % 2 else {}))
    np.testing.assert_array_equal(place.get(y), values((4, 5), "float32") + 9)


@pytest.mark.gpu
def test_a_graph_is_replayed_with_new_inputs():
    x, y = numbacc.zeros((8, 9)), numbacc.zeros(9)
    with numbacc.graph() as g:
        z = ew.add(ew.multiply(x, 3.0), y)
        ew.exp(z, out=x, where=ew.greater(z, 100.0))
    for k in range(4):
        host = values((8, 9), "float32", k)
        x[...], y[...] = host, host[0]
        g.launch()
        np.testing.assert_array_equal(numbacc.asnumpy(z), 3 * host + host[0])


def test_torch_tensors(place, torch):
    x = values((3, 4), "float32")
    target = "cuda" if place.name == "gpu" else "cpu"
    tensor = torch.tensor(x, device=target)
    if place.name == "simulator":
        return
    found = ew.add(tensor, 2.0)
    np.testing.assert_array_equal(place.get(found), x + 2)
    ew.multiply(tensor.T, 2, out=tensor.T)
    np.testing.assert_array_equal(tensor.cpu().numpy(), 2 * x)


X = ((3, 4), "float32")
#: Function -> arguments, arrays by their shapes and dtypes, and options of a call whose second run
#: takes the short path.
SHORT = {
    "exp": ((X,), {}),
    "add": ((X, X), {}),
    "subtract": ((X, 2), {}),
    "leaky_relu": ((X,), {"negative_slope": 0.5}),
    "fma": ((X, 2.0, X), {}),
    "lerp": ((X, X, 0.5), {}),
    "copy": ((X,), {}),
    "sum": ((X,), {"axis": 1, "dtype": "float64"}),
    "mean": ((X,), {"keepdims": True}),
    "var": ((X,), {"axis": 0, "correction": 1}),
    "norm": ((X,), {"ord": 3}),
    "logsumexp": ((X,), {"axis": 1}),
    "argmax": ((X,), {"axis": 0}),
    "softmax": ((X,), {"axis": 0}),
    "log_softmax_backward": ((X, X), {}),
    "rms_norm": ((X,), {"eps": 0}),
    "layer_norm": ((X, ((4,), "float32"), ((4,), "float32")), {}),
    "rms_norm_backward": ((X, X), {}),
    "layer_norm_backward": ((X, X, ((4,), "float32")), {"bias": True}),
    "cumsum": ((X,), {"axis": 1}),
    "cumprod": ((X,), {"axis": 0, "dtype": "float64", "reverse": True}),
    "cumsum_backward": ((X,), {"axis": 1}),
    "cumprod_backward": ((X, X), {"axis": 1}),
    "take": ((X, ((2,), "int64")), {"axis": 0}),
    "take_along_axis": ((X, ((3, 1), "int64")), {}),
    "rope": ((X, ((3, 2), "float32"), ((3, 2), "float32")), {}),
    "rope_backward": ((X, ((3, 2), "float32"), ((3, 2), "float32")), {"interleaved": True}),
    "one_hot": ((((2,), "int64"), 4), {"dtype": "int8"}),
    "tril": ((X,), {"k": -1}),
}


@pytest.mark.parametrize("name", SHORT)
def test_calls_find_their_plan_on_the_short_path(device_place, name, monkeypatch):
    """What checks arguments is not called again, with `out` or without."""
    given, options = SHORT[name]
    put = [device_place.put(np.ones(*each)) if isinstance(each, tuple) else each for each in given]
    function = getattr(ew, name)
    wanted, space = function(*put, **options), function.__globals__
    outs = [{}] if isinstance(wanted, tuple) else [{}, {"out": device_place.put(np.zeros(wanted.shape, wanted.dtype))}]
    for out in outs:
        function(*put, **options, **out)
    for checking in ("body", "run"):
        if checking in space and space[checking] is not None:
            monkeypatch.setitem(space, checking, None)
    for out in outs:
        again = function(*put, **options, **out)
        assert again is out.get("out", again)
        for found, known in zip(
            *(each if isinstance(each, tuple) else (each,) for each in (again, wanted)), strict=True
        ):
            np.testing.assert_array_equal(device_place.get(found), device_place.get(known))
