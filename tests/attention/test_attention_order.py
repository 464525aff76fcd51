"""Order and ownership of attention: threads, streams, graphs, other libraries' arrays, nothing through the host."""

from __future__ import annotations

import attention_oracle
import numpy as np
import pytest
from attention_call import Call, small
from attention_oracle import BFLOAT16, DOUBLE, HALF, SINGLE
from conftest import host_never_waits
from foreign import OnlyDlpack
from skips import skip
from threads import run_threads

import numbacc
from numbacc import attention
from numbacc.attention import attending, dropping
from numbacc.errors import OptionError

pytestmark = pytest.mark.usefixtures("poison")

each_dtype = pytest.mark.parametrize("dtype", [SINGLE, HALF], ids=str)


@pytest.fixture
def anew():
    """An empty cache."""
    attention.cache_clear()
    yield
    attention.cache_clear()


@each_dtype
def test_threads_share_arrays_and_a_plan(place, dtype, busy_collector):
    """Each computes from arrays that all read, on a stream of its own; a plan of cuDNN's is each thread's own."""
    call = Call(place, small(dtype=dtype, mask="causal"), deterministic=True)
    o, stats = call.forward()
    wanted = {name: place.get(each) for name, each in call.backward(o, stats).items()}
    wanted["o"] = place.get(o)

    def work(k):
        with numbacc.stream():
            for _ in range(1 if place.is_slow else 5):
                o, stats = call.forward()
                np.testing.assert_array_equal(place.get(o), wanted["o"])
                for name, each in call.backward(o, stats).items():
                    np.testing.assert_array_equal(place.get(each), wanted[name])

    run_threads(work, 2 if place.is_slow else 8)


@each_dtype
def test_streams(place, dtype):
    """What one stream makes another reads: the GPU waits."""
    call = Call(place, small(dtype=dtype), layouts={"out": {}, "dq": {}})
    for stream in (numbacc.stream(), None, numbacc.stream().handle):
        o, stats = call.forward(stream=stream)
        found = {name: place.get(each) for name, each in call.backward(o, stats).items()}
        found |= {"o": place.get(o), "stats": place.get(stats)}
        attention_oracle.assert_right(
            call.case, call.given, found, o=found["o"], narrow=place.is_device and dtype == HALF, slack=1e-5
        )
    with numbacc.stream():
        call.check()


CAPTURED = {
    "fused": (small(dtype=HALF, mask="causal"), {}),
    "fused, with copies": (small(dtype=HALF, width=5, lengths=((5, 7), (2, 3))), {"q": {"steps": (1, 1, -1, 1)}}),
    "fused, with dropout": (small(dtype=HALF, dropout=0.5), {}),
    "unfused": (small(mask="causal", bias=(1, 1, 5, 7)), {}),
    "unfused, with dropout": (small(dtype=DOUBLE, dropout=0.5, groups=2), {"out": {"steps": (1, 1, 1, 2)}}),
}


@pytest.mark.parametrize("known", [False, True], ids=["first", "again"])
@pytest.mark.parametrize("name", CAPTURED)
def test_a_graph_is_replayed_with_new_inputs(device_place, anew, name, known):
    """Its plans are dropped before; they may be made inside it."""
    place, (case, layouts) = device_place, CAPTURED[name]
    call = Call(place, case, layouts=layouts)
    kept = call.kept()
    if known:
        call.backward(*call.forward())
    attention.cache_clear()
    outs = call.results("out", "stats")
    given = None if outs is None else tuple(each.view for each in outs)
    with numbacc.graph() as graph:
        o, stats = attention.forward(
            *call.views("q", "k", "v"), **{**call.keywords, "return_stats": True, "out": given}
        )
        grads = call.backward(o, stats)
    attention.cache_clear()
    for seed in (5, 6):
        values = attention_oracle.inputs(case._replace(seed=seed))
        for name in ("q", "k", "v", "do", *["bias"] * (case.bias is not None)):
            call.operands[name].view[...] = getattr(values, name)
        graph.launch()
        found = {"o": place.get(o), "stats": place.get(stats)} | {n: place.get(each) for n, each in grads.items()}
        attention_oracle.assert_right(
            case, values, found, kept=kept, o=found["o"], narrow=case.dtype == HALF, slack=1e-5
        )


def test_a_graph_that_drops_others_at_each_launch(device_place, anew):
    """The offset is an array, which the GPU reads when it runs."""
    place = device_place
    for dtype in (SINGLE, HALF):
        call = Call(place, small(dtype=dtype, dropout=0.5, queries=8, keys=8))
        offset = place.put(np.array([0], np.int64))
        keywords = {**call.keywords, "offset": offset}
        views = call.views("q", "k", "v")
        attention.dropout_mask(*views, **keywords)
        with numbacc.graph() as graph:
            kept = attention.dropout_mask(*views, **keywords)
        graph.launch()
        first = place.get(kept)
        offset[...] = np.array([1024], np.int64)
        graph.launch()
        assert (place.get(kept) != first).any()
        offset[...] = np.array([0], np.int64)
        graph.launch()
        np.testing.assert_array_equal(place.get(kept), first)


# ---------------------------------------------------------------- arrays of others


def test_arrays_of_other_libraries(numpy_place):
    call = Call(numpy_place, small(), layouts={"out": {}})
    out, stats = call.results("out", "stats")
    pair = OnlyDlpack(out.view), OnlyDlpack(stats.view)
    given = [OnlyDlpack(each) for each in call.views("q", "k", "v")]
    assert attention.forward(*given, return_stats=True, out=pair) is pair
    attention_oracle.assert_right(call.case, call.given, {"o": out.now(), "stats": stats.now()})


@pytest.mark.parametrize("dtype", [SINGLE, BFLOAT16], ids=str)
def test_tensors(place, dtype, torch):
    """Of torch, on the CPU or the GPU, against its own attention in float64."""
    if place.name == "simulator":
        skip("not simulated")
    kind = {SINGLE: torch.float32, BFLOAT16: torch.bfloat16}[dtype]
    device = "cuda" if place.is_device else "cpu"
    q, k, v = (torch.randn(2, 4, n, 16, dtype=kind, device=device) for n in (6, 9, 9))
    if dtype == BFLOAT16 and not place.is_device:
        skip("numpy")
    found = torch.from_dlpack(attention.forward(q, k, v)).double()
    wanted = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())
    room = 1e-5 if dtype == SINGLE else 2e-2
    torch.testing.assert_close(found.cpu(), wanted.cpu(), rtol=room, atol=room)


def test_nothing_is_copied_to_the_host(device_place):
    """Nor waited for: with all ways to the host blocked, everything runs."""
    calls = [Call(device_place, case, layouts=layouts) for case, layouts in CAPTURED.values()]
    for call in calls:
        call.backward(*call.forward())

    with host_never_waits():
        for call in calls:
            views = call.views("q", "k", "v")
            o, stats = attention.forward(*views, **call.keywords, return_stats=True)
            call.backward(o, stats, out=None)


SHORT = {
    "plain": {},
    "mask": {"mask": attention.CausalSlidingWindow(3), "scale": 0.5, "layout": "BSHD", "deterministic": True},
    "bias": {"bias": (1, 1, 4, 4), "alibi": (4,)},
    "lengths": {"seq_len_q": (2,), "seq_len_kv": (2,), "return_stats": True},
    "dropout": {"dropout": 0.5, "seed": 2**63, "offset": 4},
}


@pytest.mark.parametrize("name", SHORT)
def test_second_calls_take_the_short_path(device_place, monkeypatch, name):
    """Calls that `planned` looks up itself, with all kinds of options, extra arrays, seeds and outs."""
    rng, dtypes = np.random.default_rng(4), {"seq_len_q": np.int32, "seq_len_kv": np.int32}
    q, k, v, do = (device_place.put(rng.standard_normal((2, 4, 4, 4)).astype(np.float32)) for _ in range(4))
    options = {
        key: device_place.put(np.full(value, 2, dtypes.get(key, np.float32)))
        if key in {"bias", "alibi", *dtypes}
        else value
        for key, value in SHORT[name].items()
    }
    plain = {key: value for key, value in options.items() if key not in ("return_stats", "return_saved")}
    with_stats = {**plain, "return_stats": True}
    o, stats = attention.forward(q, k, v, **with_stats)
    outs = tuple(device_place.put(np.full((2, 4, 4, 4), np.nan, np.float32)) for _ in range(3))
    calls = [
        lambda: attention.forward(q, k, v, **options),
        lambda: attention.forward(q, k, v, **plain, out=outs[0]),
        lambda: attention.forward(q, k, v, **plain, return_saved=True)[0],
        lambda: attention.backward(do, q, k, v, o, stats, **plain),
        lambda: attention.backward(do, q, k, v, o, stats, **plain, out=outs),
    ]
    if name == "dropout":
        calls.append(lambda: attention.dropout_mask(q, k, v, **plain))
        place_of = device_place.put(np.array([4], np.int64))
        calls.append(lambda: attention.forward(q, k, v, **{**plain, "offset": place_of}))

    def arrays(found):
        return [device_place.get(each).copy() for each in (found if isinstance(found, tuple) else (found,))]

    first = [each for call in calls for each in arrays(call())]
    for module in (attending, dropping):
        monkeypatch.setattr(module, "found", None)
    second = [each for call in calls for each in arrays(call())]
    assert all(np.allclose(*pair, rtol=1e-5, atol=1e-6) for pair in zip(first, second, strict=True))
    # A seed that is no seed raises although the plan is known.
    monkeypatch.undo()
    with pytest.raises(OptionError, match="seed"):
        attention.forward(q, k, v, **{**plain, "seed": -1})
