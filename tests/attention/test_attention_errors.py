"""What attention refuses, with which error, and that it says what to do."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from attention_call import Call, small
from attention_float8_oracle import E4M3
from attention_oracle import DOUBLE, HALF, SINGLE
from conftest import bits, refused

from numbacc import attention
from numbacc.attention import executables
from numbacc.errors import (
    ArgumentsError,
    DeviceError,
    DTypeError,
    LayoutError,
    OptionError,
    ShapeError,
    UnsupportedError,
)

pytestmark = pytest.mark.usefixtures("poison")


def arrays(place, *shapes, dtype=SINGLE):
    return [place.put(np.ones(shape, dtype)) for shape in shapes]


Q, K = (2, 4, 5, 8), (2, 2, 7, 8)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ((Q[1:], K, K), ("q has shape (4, 5, 8)", "rank 4")),
        ((Q, K[1:], K[1:]), ("k has shape (2, 7, 8)", "rank 4")),
        ((Q, K, (2, 2, 6, 8)), ("k has shape (2, 2, 7, 8) and v (2, 2, 6, 8)",)),
        ((Q, (2, 2, 7, 9), K), ("vectors must have the same length",)),
        ((Q, (3, 2, 7, 8), (3, 2, 7, 8)), ("same batch size",)),
        ((Q, (2, 3, 7, 8), (2, 3, 7, 8)), ("q has 4 heads and k 3", "multiple")),
        ((Q, (2, 0, 7, 8), (2, 0, 7, 8)), ("only the batch may be empty",)),
        (((2, 4, 0, 8), K, K), ("only the batch may be empty",)),
        ((Q, (2, 2, 0, 8), (2, 2, 0, 8)), ("only the batch may be empty",)),
        (((2, 4, 5, 257), (2, 2, 7, 257), K), ("257 elements", "1 to 256")),
        ((Q, K, (2, 2, 7, 0)), ("vectors of v have 0 elements",)),
    ],
    ids=str,
)
def test_shapes(place, shapes, words):
    q, k, v = arrays(place, *shapes)
    refused(ShapeError, *words, run=lambda: attention.forward(q, k, v))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mask": "diagonal"}, ("mask='diagonal' is unknown", "'causal'", "SlidingWindow(n)")),
        ({"mask": np.ones((5, 7))}, ("is a bias",)),
        ({"mask": 3}, ("mask=3",)),
        ({"dropout": 1.0}, ("dropout=1.0", "less than 1")),
        ({"dropout": -0.1}, ("dropout=-0.1",)),
        ({"dropout": "much"}, ("dropout='much' is not a number",)),
        ({"dropout": float("nan")}, ("dropout=nan",)),
        ({"scale": float("inf")}, ("scale=inf must be finite",)),
        ({"scale": float("nan")}, ("scale=nan must be finite",)),
        ({"scale": 1e39}, ("scale=1e+39 is infinite in float32", "attention of float32", "float64")),
        ({"scale": -4e38}, ("scale=-4e+38 is infinite in float32",)),
        ({"scale": 10**400}, ("too large for a float",)),
        ({"scale": 1j}, ("scale=1j is not a number",)),
        ({"scale": np.ones(1)}, ("is not a number",)),
        ({"scale": "1"}, ("scale='1'",)),
        ({"seed": -1}, ("seed=-1",)),
        ({"seed": 1.5}, ("seed=1.5",)),
        ({"offset": 3}, ("offset=3 must be a multiple of 4",)),
        ({"offset": -4}, ("offset=-4",)),
        ({"offset": None}, ("offset=None must be an integer or an array",)),
        ({"layout": "SBHD"}, ("layout='SBHD' is unknown", "BSHD")),
        ({"layout": 4}, ("layout=4",)),
        ({"return_stats": 1}, ("return_stats=1 is neither True nor False",)),
        ({"deterministic": None}, ("deterministic=None",)),
        ({"workspace_limit": -1}, ("workspace_limit=-1",)),
        ({"workspace_limit": 1.0}, ("workspace_limit=1.0",)),
        ({"max_len_q": 5}, ('need layout="THD"',)),
    ],
    ids=str,
)
def test_options(place, options, words):
    q, k, v = arrays(place, Q, K, K)
    # An array is unlike everything: it must not be looked for among plans.
    refused(OptionError, *words, run=lambda: attention.forward(q, k, v, **options))


def test_scales_that_only_float64_holds(place):
    """Of 16 bits as of float32, since the arithmetic is float32's; plans and requests, too."""
    for dtype in (SINGLE, HALF):
        q, k, v = arrays(place, Q, K, K, dtype=dtype)
        o, stats = attention.forward(q, k, v, return_stats=True)
        words = ("scale=1e+39 is infinite in float32", f"attention of {dtype}")
        refused(OptionError, *words, run=lambda: attention.forward.plan(q, k, v, scale=1e39))  # noqa: B023
        refused(OptionError, *words, run=lambda: attention.backward(o, q, k, v, o, stats, scale=1e39))  # noqa: B023
        refused(OptionError, *words, run=lambda: attention.forward.request(Q, K, dtype=dtype, scale=1e39))  # noqa: B023
    q, k, v = arrays(place, Q, K, K, dtype=DOUBLE)
    np.testing.assert_allclose(place.get(attention.forward(q, k, v, scale=1e39)), 1.0, rtol=1e-12)
    q, k, v = arrays(place, Q, K, K)
    # The largest that is finite; every key is the same.
    np.testing.assert_allclose(place.get(attention.forward(q, k * 0, v, scale=3.4e38)), 1.0, rtol=1e-6)


@pytest.mark.parametrize("make", [attention.SlidingWindow, attention.CausalSlidingWindow])
def test_windows(place, make):
    for length in (0, -3, 1.5, "3", None):
        refused(OptionError, f"{make.__name__} length={length!r}", run=lambda length=length: make(length))
    refused(OptionError, "bottom_right=1", run=lambda: make(3, bottom_right=1))
    far = Call(place, small(dtype=HALF, mask=None))
    for window in (2**31 - 1, 2**31 - 5, 13, 12, 7):  # of 5 queries and 7 keys
        for bottom_right in (False, True):
            wide = make(window, bottom_right=bottom_right)
            o = attention.forward(*far.views("q", "k", "v"), mask=wide)
            causal = {False: "causal", True: "causal_bottom_right"}[bottom_right]
            plain = attention.forward(
                *far.views("q", "k", "v"), mask=causal if make is attention.CausalSlidingWindow else None
            )
            np.testing.assert_array_equal(place.get(o), place.get(plain))
    assert make(3) == make(np.int64(3)) and make(3) != make(3, bottom_right=True) and hash(make(3)) == hash(make(3))


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "error", "words"),
    [
        ("bias", (3, 5, 7), SINGLE, ShapeError, ("bias has shape (3, 5, 7)", "(2, 4, 5, 7)")),
        ("bias", (1, 2, 4, 5, 7), SINGLE, ShapeError, ("must broadcast",)),
        ("bias", (5, 6), SINGLE, ShapeError, ("must broadcast",)),
        ("bias", (5, 7), HALF, DTypeError, ("bias has dtype float16", "float32")),
        ("alibi", (3,), SINGLE, ShapeError, ("a slope for each head: (4,)",)),
        ("alibi", (4,), DOUBLE, DTypeError, ("alibi has dtype float64",)),
        ("seq_len_q", (3,), np.dtype(np.int32), ShapeError, ("a length for each sequence: (2,)",)),
        ("seq_len_kv", (2,), SINGLE, DTypeError, ("seq_len_kv has dtype float32", "int32")),
        ("page_table_k", (2, 3), np.dtype(np.int32), OptionError, ("page_table_v", "is missing")),
    ],
    ids=str,
)
def test_further_arrays(place, name, shape, dtype, error, words):
    q, k, v = arrays(place, Q, K, K)
    more = place.put(np.ones(shape, dtype))
    refused(error, *words, run=lambda: attention.forward(q, k, v, **{name: more}))


def test_dtypes(place):
    q, k, v = arrays(place, Q, K, K)
    (half,) = arrays(place, K, dtype=HALF)
    refused(DTypeError, "k has dtype float16", "float32", run=lambda: attention.forward(q, half, v))
    numbers = [place.put(np.ones(shape, np.int32)) for shape in (Q, K, K)]
    refused(DTypeError, "q has dtype int32", "bfloat16", run=lambda: attention.forward(*numbers))
    refused(DTypeError, "v is a list", run=lambda: attention.forward(q, k, [1.0]))
    if not place.is_device:
        # Other bytes come first: no kernel reads them so.
        for name, other in (("bias", np.ones((5, 7), ">f4")), ("seq_len_q", np.ones(2, ">i4"))):
            refused(DTypeError, f"{name} has dtype >", run=lambda n=name, a=other: attention.forward(q, k, v, **{n: a}))


def test_pages(place):
    q, k, v = arrays(place, (2, 4, 1, 8), (6, 2, 4, 8), (6, 2, 4, 8))
    table, lengths = place.put(np.zeros((2, 3), np.int32)), place.put(np.array([3, 12], np.int32))
    given = {"page_table_k": table, "page_table_v": table, "seq_len_kv": lengths}
    assert attention.forward(q, k, v, **given).shape == (2, 4, 1, 8)
    for name in given:
        refused(OptionError, name, "is missing", run=lambda n=name: attention.forward(q, k, v, **{**given, n: None}))
    other = place.put(np.zeros((3, 3), np.int32))
    both = {**given, "page_table_k": other, "page_table_v": other}
    refused(ShapeError, "page_table_k has shape (3, 3)", "2 seq", run=lambda: attention.forward(q, k, v, **both))
    longer = place.put(np.zeros((2, 4), np.int32))
    refused(ShapeError, "the same shape", run=lambda: attention.forward(q, k, v, **{**given, "page_table_v": longer}))
    floats = place.put(np.zeros((2, 3), np.float32))
    refused(DTypeError, "page_table_v has dtype float32",
            run=lambda: attention.forward(q, k, v, **{**given, "page_table_v": floats}))  # fmt: skip
    o, stats = attention.forward(q, k, v, **given, return_stats=True)
    for run in (attention.backward, attention.backward.plan):
        refused(OptionError, "do not support gradients", run=lambda run=run: run(o, q, k, v, o, stats, **given))
    none = place.put(np.ones((0, 2, 4, 8), SINGLE))
    refused(
        ShapeError,
        "k has shape (0, 2, 4, 8)",
        "at least one page",
        run=lambda: attention.forward(q, none, none, **given),
    )
    nothing = {name: each[:0] for name, each in given.items()}
    assert attention.forward(q[:0], none, none, **nothing).shape == (0, 4, 1, 8)


def test_no_packed_sequences(place):
    starts, (q,) = place.put(np.zeros(1, np.int32)), arrays(place, (0, 2, 8))
    given = {"layout": "THD", "seq_len_q": starts, "seq_len_kv": starts}
    o, stats = attention.forward(q, q, q, **given, return_stats=True)
    assert o.shape == q.shape and stats.shape == (0, 2, 0)
    assert [each.shape for each in attention.backward(o, q, q, q, o, stats, **given)] == [q.shape] * 3


def test_numbers_that_the_cpu_can_see(numpy_place):
    """On a GPU each counts as the nearest that is possible."""
    q, k, v = arrays(numpy_place, (2, 4, 1, 8), (6, 2, 4, 8), (6, 2, 4, 8))
    table = np.zeros((2, 3), np.int32)
    for lengths in ([3, 13], [-1, 3]):
        refused(OptionError, "the page table has", run=lambda n=lengths: attention.forward(
            q, k, v, page_table_k=table, page_table_v=table, seq_len_kv=np.array(n)))  # fmt: skip
    for number in (-1, 6):
        refused(OptionError, "0 to 5", run=lambda n=number: attention.forward(
            q, k, v, page_table_k=table + n, page_table_v=table, seq_len_kv=np.array([1, 2])))  # fmt: skip
    q, k = np.ones(Q), np.ones(K)
    refused(OptionError, "lengths are 0 to 5, as many as q has", run=lambda: attention.forward(
        q, k, k, seq_len_q=np.array([1, 6])))  # fmt: skip
    q = np.ones((9, 2, 4))
    wrapped = [0, 2**62, 2**63 - 1, -(2**63), -(2**62), -1, 9]  # whose differences are all above 0
    for starts in ([0, 5, 10], [-1, 4, 9], [0, 6, 5], wrapped):
        refused(OptionError, "it must not decrease", run=lambda n=starts: attention.forward(
            q, q, q, layout="THD", seq_len_q=np.array(n), seq_len_kv=np.arange(len(n))))  # fmt: skip
    for many, x, more in ((3000, np.ones((3000, 1, 5, 4)), {}), (3001, q, {"layout": "THD"})):
        with pytest.raises(OptionError, match="seq_len_q is") as caught:
            attention.forward(x, x, x, seq_len_q=np.full(many, 10), seq_len_kv=np.zeros(many, int), **more)
        assert len(str(caught.value)) < 300
    starts = np.array([0, 5, 9])
    refused(OptionError, "max_len_kv=4", run=lambda: attention.forward(
        q, q, q, layout="THD", seq_len_q=starts, seq_len_kv=starts, max_len_kv=4))  # fmt: skip


def test_packed(place):
    (q,) = arrays(place, (9, 2, 4))
    starts, other = place.put(np.array([0, 5, 9], np.int32)), place.put(np.array([0, 9], np.int32))
    refused(OptionError, "needs seq_len_q and seq_len_kv", run=lambda: attention.forward(q, q, q, layout="THD"))
    refused(ShapeError, "seq_len_kv has shape (2,)", run=lambda: attention.forward(
        q, q, q, layout="THD", seq_len_q=starts, seq_len_kv=other))  # fmt: skip
    refused(OptionError, "max_len_q=10", "9", run=lambda: attention.forward(
        q, q, q, layout="THD", seq_len_q=starts, seq_len_kv=starts, max_len_q=10))  # fmt: skip
    given = dict.fromkeys(("seq_len_q", "seq_len_kv", "page_table_k", "page_table_v"), starts)
    refused(OptionError, "page tables need", run=lambda: attention.forward(q, q, q, layout="THD", **given))


def test_backward(place):
    call = Call(place, small())
    o, stats = call.forward()
    do, q, k, v = call.views("do", "q", "k", "v")
    refused(TypeError, "stats", run=lambda: attention.backward(do, q, k, v, o))
    refused(ArgumentsError, "stats", run=lambda: attention.backward(do, q, k, v, o, None))
    refused(ShapeError, "stats has shape", "return_stats=True", run=lambda: attention.backward(do, q, k, v, o, q))
    refused(ShapeError, "do has shape", run=lambda: attention.backward(k, q, k, v, o, stats))
    refused(ShapeError, "o has shape", run=lambda: attention.backward(do, q, k, v, k, stats))
    wrong = place.put(np.ones((2, 2, 5), np.float64))
    refused(DTypeError, "stats has dtype float64", run=lambda: attention.backward(do, q, k, v, o, wrong))
    refused(OptionError, "needs a bias", run=lambda: attention.backward(do, q, k, v, o, stats, bias_grad=True))


def test_out(place):
    call = Call(place, small(), layouts={"out": {}, "dq": {}})
    out, stats = call.results("out", "stats")
    q, k, v = call.views("q", "k", "v")
    refused(ShapeError, "out must be one array", run=lambda: attention.forward(q, k, v, out=(out.view, stats.view)))
    refused(ShapeError, "out must be 2 arrays: out, stats",
            run=lambda: attention.forward(q, k, v, out=out.view, return_stats=True))  # fmt: skip
    refused(ShapeError, "out has shape", run=lambda: attention.forward(q, k, v, out=k))
    refused(DTypeError, "out has dtype float64",
            run=lambda: attention.forward(q, k, v, out=place.put(np.zeros(out.shape))))  # fmt: skip
    refused(LayoutError, "out overlaps q", run=lambda: attention.forward(q, k, v, out=q))
    out.assert_untouched()
    do = call.views("do")[0]
    o, level = attention.forward(q, k, v, return_stats=True)
    dq = call.results("dq", "dk", "dv")[0]
    refused(LayoutError, "overlap", run=lambda: attention.backward(
        do, q, k, v, o, level, out=(dq.view, k, v)))  # fmt: skip
    refused(ShapeError, "out must be 3 arrays", run=lambda: attention.backward(do, q, k, v, o, level, out=dq.view))


def test_dropout_masks(place):
    q, k, v = arrays(place, Q, K, K)
    refused(OptionError, "drops nothing", run=lambda: attention.dropout_mask(q, k, v))
    numbers = place.put(np.zeros(2, np.int64))
    refused(ShapeError, "one element", run=lambda: attention.forward(q, k, v, dropout=0.5, offset=numbers))
    refused(OptionError, "dropout is 0", run=lambda: attention.forward(q, k, v, offset=numbers[:1]))
    floats = place.put(np.zeros(1, np.float32))
    refused(DTypeError, "offset has dtype float32", run=lambda: attention.forward(q, k, v, dropout=0.5, offset=floats))


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (-4, ("offset=-4 is out of range",)),
        (-(2**63), ("is out of range",)),
        (6, ("offset=6 must be a multiple of 4",)),
        (2**62 + 4, ("is out of range",)),
        (2**63 - 4, ("is out of range",)),
    ],
)
def test_offsets_in_arrays_are_as_those_that_are_numbers(numpy_place, offset, words):
    """A GPU's cannot be looked at without a copy."""
    q, k, v = arrays(numpy_place, Q, K, K)
    o, stats = attention.forward(q, k, v, dropout=0.5, return_stats=True)
    for array in (np.array([offset]), np.array(offset)):
        for given in (array, offset):
            more = {"dropout": 0.5, "offset": given}
            refused(OptionError, *words, run=lambda: attention.forward(q, k, v, **more))  # noqa: B023
            refused(OptionError, *words, run=lambda: attention.dropout_mask(q, k, v, **more))  # noqa: B023
            refused(OptionError, *words, run=lambda: attention.backward(o, q, k, v, o, stats, **more))  # noqa: B023


def test_seeds_in_arrays(place):
    """No array but NumPy's of rank 0 is a number: reading a GPU's would wait for it."""
    q, k, v = arrays(place, Q, K, K)
    for shape in ((1,), ()):
        if place.is_device or shape:
            seed = place.put(np.full(shape, 3))
            refused(OptionError, "seed", run=lambda seed=seed: attention.forward(q, k, v, dropout=0.5, seed=seed))
    refused(OptionError, "seed=-3", run=lambda: attention.forward(q, k, v, dropout=0.5, seed=np.array(-3)))
    wanted = place.get(attention.forward(q, k, v, dropout=0.5, seed=3))
    np.testing.assert_array_equal(place.get(attention.forward(q, k, v, dropout=0.5, seed=np.array(3))), wanted)


def test_plans_and_offsets(place):
    """An array that the plan has no place for was ignored, and a plan made for an offset that no call takes."""
    q, k, v = arrays(place, Q, K, K)
    later, out = place.put(np.array([8])), place.put(np.full(Q, np.nan, SINGLE))
    plan = attention.forward.plan(q, k, v, dropout=0.5)
    refused(LayoutError, "made with no further arrays", "with offset", run=lambda: plan(q, k, v, offset=later))
    refused(OptionError, "offset=None", run=lambda: plan(q, k, v, offset=None))
    refused(OptionError, "offset=-4", run=lambda: plan(q, k, v, offset=-4))
    refused(OptionError, "offset=6", run=lambda: attention.forward.plan(q, k, v, dropout=0.5, offset=6))
    refused(OptionError, "offset=None", run=lambda: attention.forward.plan(q, k, v, dropout=0.5, offset=None))
    entered = attention.forward.plan(q, k, v, dropout=0.5, offset=later, out=out)
    refused(DTypeError, "offset is a int", run=lambda: entered(q, k, v, offset=8, out=out))
    wanted = place.get(attention.forward(q, k, v, dropout=0.5, seed=3, offset=8))
    np.testing.assert_array_equal(place.get(entered(q, k, v, seed=3, offset=later, out=out)), wanted)


def test_devices(device_place):
    q, k, v = arrays(device_place, Q, K, K)
    host = np.ones(K, np.float32)
    refused(DeviceError, "v is in host memory", run=lambda: attention.forward(q, k, host))
    refused(DeviceError, "bias is in host memory", run=lambda: attention.forward(q, k, v, bias=np.ones((5, 7), "f4")))


def test_a_gpu_that_is_too_old(device_place, monkeypatch):
    """16-bit floats and float8 say what they need; float32 runs."""

    def pretend(*capability):
        attention.cache_clear()
        told = SimpleNamespace(capability=lambda device: capability, device_name=lambda device: "a GPU")
        monkeypatch.setattr(executables, "runtime", lambda: told)

    pretend(7, 5)
    half, single, narrow = (arrays(device_place, Q, K, K, dtype=kind) for kind in (HALF, SINGLE, E4M3))
    words = ("attention of float16 needs compute capability 8.0", "a GPU has 7.5", "float32 and float64 run")
    refused(UnsupportedError, *words, run=lambda: attention.forward(*half))
    refused(UnsupportedError, "attention of float8_e4m3fn needs compute capability 9.0",
            run=lambda: attention.forward(*narrow))  # fmt: skip
    # Every key is the same: all weigh alike.
    np.testing.assert_allclose(device_place.get(attention.forward(*single)), 1.0, rtol=1e-6)
    pretend(9, 0)
    refused(UnsupportedError, "diagonal ends at the last key", "compute capability 10.0", "from 9.0 on",
            run=lambda: attention.forward(*narrow, mask="causal_bottom_right"))  # fmt: skip
    attention.cache_clear()


# ---------------------------------------------------------------- plans


def test_plans(place):
    case = small(bias=(1, 2, 5, 7), dropout=0.5, dtype=DOUBLE)
    call = Call(place, case)
    views, keywords = call.views("q", "k", "v"), call.keywords
    plan = attention.forward.plan(*views, **{name: each for name, each in keywords.items() if name != "seed"})
    wanted = place.get(attention.forward(*views, **keywords))
    bias = call.operands["bias"].view
    found = plan(*views, bias=bias, seed=keywords["seed"], offset=keywords["offset"])
    np.testing.assert_array_equal(bits(place.get(found)), bits(wanted))
    assert plan.info.op == "attention.forward" and plan.info.dtypes == ("float64",) * 5
    assert plan.info.math_dtype == "float64" and plan.info.deterministic
    assert repr(plan).startswith("<plan of attention.forward: q float64 (2, 2, 5, 8), k float64 (2, 2, 7, 8), ")
    refused(LayoutError, "made with bias", "with none", run=lambda: plan(*views))
    refused(LayoutError, "was made for", run=lambda: plan(*views[:2], bias=bias))
    refused(LayoutError, "made without out", run=lambda: plan(*views, bias=bias, out=views[0]))
    refused(OptionError, "seed=-1", run=lambda: plan(*views, bias=bias, seed=-1))
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        refused(DTypeError, "AttentionPlan cannot be", run=lambda act=act: act(plan))


def test_the_cache(place):
    limits = attention.cache_limit()
    attention.cache_clear()
    call = Call(place, small())
    views = call.views("q", "k", "v")
    for _ in range(3):
        attention.forward(*views)
    assert attention.cache_info()[:2] == (2, 1) and attention.cache_info().currsize == 1
    attention.forward(*views, scale=1.0)
    refused(OptionError, "return_stats=0", run=lambda: attention.forward(*views, return_stats=0))
    attention.forward(*views, scale=True)  # a number like any other
    assert attention.cache_info().currsize == 2
    attention.cache_limit(*limits)
