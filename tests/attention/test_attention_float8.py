"""Attention of float8 with its scales: against float64, what it refuses, and that cuDNN has plans for it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from attention_float8_oracle import DTYPES, E4M3, E5M2, MASKS, SCALES, check, exact, values
from conftest import memory_layouts, refused
from cudnn_cases import need_planning
from hypothesis import given
from hypothesis import strategies as st
from skips import skip

from numbacc import attention, cudnn
from numbacc.attention.fusing import Fused
from numbacc.base.dispatch import simulated
from numbacc.errors import DTypeError, OptionError, ShapeError, UnsupportedError

pytestmark = pytest.mark.usefixtures("poison")

each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def keywords(place, case):
    scales = {name: place.put(np.array([number], np.float32)) for name, number in case.scales.items()}
    return {"mask": case.mask, **scales}


def attend(place, case, **more):
    arrays = [place.put(each) for each in case[:3]]
    found = attention.forward(*arrays, **keywords(place, case), **more)
    return [place.get(each) for each in found] if isinstance(found, tuple) else place.get(found)


def check_all(place, case):
    """All that can be returned."""
    asked = {"return_stats": True, "return_amax": True}
    # A window that no query and key are apart from is no window.
    is_cut = type(case.mask) is attention.SlidingWindow and case.mask.length < max(
        len(case[0][0, 0]), len(case[1][0, 0])
    )
    if place.name == "gpu" and is_cut:
        refused(UnsupportedError, "return_amax", "both sides", run=lambda: attend(place, case, **asked))
        asked = {"return_stats": True}
    check(place, case, *attend(place, case, **asked))


@each_dtype
@pytest.mark.parametrize("name", MASKS)
def test_masks(place, name, dtype):
    for sizes in ({}, {"queries": 3, "keys": 9}, {"heads": (3, 1), "queries": 2, "keys": 2}):
        check_all(place, values(dtype, MASKS[name], **sizes))


@each_dtype
@pytest.mark.parametrize("sizes", [(16, 16), (20, 12), (8, 40), (64, 128)], ids=str)
def test_widths(place, sizes, dtype):
    """cuDNN gets multiples of 16."""
    case = values(dtype, "causal", width=sizes[0], value_width=sizes[1])
    check(place, case, attend(place, case))


@each_dtype
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.sampled(simulated=1)
def test_several_tiles(place, name, dtype):
    case = values(dtype, MASKS[name], queries=141, keys=205 if name != "window" else 141, width=64, value_width=64)
    check_all(place, case)


@each_dtype
@pytest.mark.parametrize("given", [(), ("descale_q",), ("scale_s", "descale_s"), ("scale_o", "descale_v"), SCALES])
def test_scales_that_are_not_given_are_1(place, given, dtype):
    case = values(dtype, scales={name: SCALES[name] for name in given})
    check(place, case, *attend(place, case, return_amax=True)[:1])
    check(place, case, *attend(place, case, return_stats=True))


@each_dtype
def test_a_key_alone_is_exact(place, dtype):
    """Its weight is 1: what is left are the scales, and the range of float8."""
    scales = {"descale_v": 2.0, "scale_s": 64.0, "descale_s": 1 / 64, "scale_o": 0.5}
    case = values(dtype, keys=1, scales=scales)
    np.testing.assert_array_equal(attend(place, case), np.repeat(case.v, 2, 1).repeat(6, 2))
    beyond = case._replace(scales=scales | {"scale_o": 1e12})
    largest = ml_dtypes.finfo(dtype).max
    found = attend(place, beyond).astype(np.float64)
    np.testing.assert_array_equal(np.abs(found[found != 0]), float(largest))


@given(data=st.data())
def test_strides(place, data):
    case = values(data.draw(st.sampled_from(DTYPES)), "causal", width=16, value_width=16)
    names, layout = ("q", "k", "v", "out"), data.draw(st.sampled_from(["BHSD", "BSHD"]))
    layouts = {name: data.draw(memory_layouts(4, name == "out")) for name in names}

    def turned(array):
        return array if layout == "BHSD" else array.swapaxes(1, 2)

    views = [place.operand(turned(each), **layouts[name]) for each, name in zip(case[:3], names, strict=False)]
    case = case._replace(**{name: turned(view.values) for view, name in zip(views, names, strict=False)})
    out = place.empty(turned(exact(case, False).o).shape, case.q.dtype, **layouts["out"])
    more = {**keywords(place, case), "layout": layout, "out": out.view}
    assert attention.forward(*(each.view for each in views), **more) is out.view
    out.assert_written_only()
    check(place, case, turned(out.now()))


def test_amax_goes_where_it_is_asked_for(place):
    """Also where what was there is larger, and off 16 bytes."""
    case = values(E4M3)
    arrays = [place.put(each) for each in case[:3]]
    for skip_ in (0, 1):
        many = place.put(np.full(8, 1e9, np.float32))
        o = place.put(np.zeros((2, 4, 6, 32), E4M3))
        outs = (o, many[skip_ : skip_ + 1], many[skip_ + 4 : skip_ + 5])
        assert attention.forward(*arrays, **keywords(place, case), return_amax=True, out=outs) is outs
        found = place.get(many)
        check(place, case, place.get(o), None, found[skip_ : skip_ + 1], found[skip_ + 4 : skip_ + 5])
        assert (found == 1e9).sum() == 6


@pytest.mark.parametrize("skip_", [0, 1])
def test_o_starts_anywhere_beside_the_maxima(place, skip_):
    """Where cuDNN cannot write it, and where it has rows of its own behind the last query."""
    case = values(E4M3)
    arrays = [place.put(each) for each in case[:3]]
    flat = place.put(np.full(2 * 4 * 6 * 32 + 2, -3.0, E4M3))
    o, maxima = flat[skip_ : -2 + skip_].reshape(2, 4, 6, 32), place.put(np.zeros(2, np.float32))
    outs = (o, maxima[:1], maxima[1:])
    assert attention.forward(*arrays, **keywords(place, case), return_amax=True, out=outs) is outs
    check(place, case, place.get(o), None, *np.split(place.get(maxima), 2))
    assert (place.get(flat)[[*range(skip_), *range(skip_ - 2, 0)]] == -3).all()


@pytest.mark.each_alone
@pytest.mark.parametrize("name", ["none", "causal", "causal window", "causal_bottom_right"])
@pytest.mark.parametrize("queries", [1, 4, 127, 128, 129, 257])
@pytest.mark.sampled(simulated=2)
def test_amax_o_counts_no_row_behind_the_last_query(place, queries, name):
    """Every query sees small values, but the average of all values is large."""
    mask = MASKS.get(name, name)
    keys = 300 if name == "none" else queries
    case = values(E4M3, mask, queries=queries, keys=keys, scales={})
    q, k, v = (each.astype(np.float32) for each in case[:3])
    small = np.arange(keys) % 8 == 0
    q, k = q / 4 + 2, k / 8 + np.where(small, 1, -1)[:, None]
    v = np.where(small[:, None], v / 8, v + 8)
    case = case._replace(**{key: each.astype(E4M3) for key, each in zip("qkv", (q, k, v), strict=True)})
    wanted = case._replace(mask="causal") if name == "causal_bottom_right" else case
    check(place, wanted, *attend(place, case, return_stats=True, return_amax=True))


def test_a_plan_takes_scales_by_name(place):
    case = values(E5M2, "causal")
    arrays, more = [place.put(each) for each in case[:3]], keywords(place, case)
    plan = attention.forward.plan(*arrays, **more)
    more.pop("mask")
    check(place, case, place.get(plan(*arrays, **more)))
    assert plan.info.dtypes[0] == "float8_e5m2" and plan.info.math_dtype == "float32"


def test_an_empty_batch(place):
    empty = place.put(np.zeros((0, 2, 3, 16), E4M3))
    o, amax_s, amax_o = attention.forward(empty, empty, empty, return_amax=True)
    assert o.shape == empty.shape and amax_s.shape == amax_o.shape == (1,)


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bias": (1, 1, 6, 7)}, ("bias is not supported with float8_e4m3fn",)),
        ({"alibi": (4,)}, ("alibi is not supported",)),
        ({"seq_len_q": (2,)}, ("seq_len_q is not supported",)),
        ({"dropout": 0.5}, ("dropout is not supported",)),
        ({"scale": -1.0}, ("scale=-1.0", "above 0")),
        ({"scale": 0.0}, ("scale=0.0", "above 0")),
        ({"mask": "causal_bottom_right", "queries": 9}, ("queries see no key",)),
        ({"mask": attention.SlidingWindow(1), "queries": 9}, ("queries see no key",)),
    ],
    ids=str,
)
def test_what_does_not_go_together(place, options, words):
    options = dict(options)
    arrays = [place.put(each) for each in values(E4M3, queries=options.pop("queries", 6))[:3]]
    kinds = {"bias": np.float32, "alibi": np.float32, "seq_len_q": np.int32}
    given = {n: place.put(np.ones(each, kinds[n])) if n in kinds else each for n, each in options.items()}
    refused(OptionError, *words, run=lambda: attention.forward(*arrays, **given))


def test_scales_are_checked(place):
    arrays = [place.put(each) for each in values(E4M3)[:3]]
    wide = [place.put(each.astype(np.float16)) for each in values(E4M3)[:3]]
    one, two = place.put(np.ones(1, np.float32)), place.put(np.ones(2, np.float32))
    double, mixed = place.put(np.ones(1, np.float64)), place.put(values(E5M2).v)
    refused(ShapeError, "scale_s has shape (2,)", run=lambda: attention.forward(*arrays, scale_s=two))
    refused(DTypeError, "descale_k has dtype float64", run=lambda: attention.forward(*arrays, descale_k=double))
    refused(DTypeError, "v has dtype float8_e5m2", run=lambda: attention.forward(*arrays[:2], mixed))
    refused(OptionError, "scale_o is for float8", "float16", run=lambda: attention.forward(*wide, scale_o=one))
    refused(OptionError, "return_amax is for float8", run=lambda: attention.forward(*wide, return_amax=True))
    refused(OptionError, "return_amax=1", run=lambda: attention.forward(*arrays, return_amax=1))
    o, stats = attention.forward(*arrays, return_stats=True)
    refused(DTypeError, "only `forward` supports", run=lambda: attention.backward(o, *arrays, o, stats))
    refused(DTypeError, "only `forward` supports", run=lambda: attention.dropout_mask(*arrays, dropout=0.1))


# ---------------------------------------------------------------- cuDNN


@pytest.fixture(scope="module")
def planner():
    if simulated():
        skip("not simulated")
    need_planning()


Q = (2, 8, 128, 64)
CASES = {f"mask {name}": {"mask": mask} for name, mask in MASKS.items()}
CASES |= {
    "e5m2": {"dtype": "float8_e5m2"},
    "grouped": {"k": (2, 2, 256, 64), "mask": "causal"},
    "odd lengths": {"q": (2, 8, 77, 64), "k": (2, 8, 201, 64), "mask": "causal"},
    "two queries": {"q": (2, 8, 2, 64)},
    "one query": {"q": (2, 8, 1, 64)},
    "maxima": {"q": (2, 8, 77, 64), "mask": "causal", "return_amax": True},
    "vectors of 20": {"q": (2, 8, 128, 20), "k": (2, 8, 256, 20)},
    "vectors of 128": {"q": (2, 8, 128, 128), "k": (2, 8, 256, 128)},
    "BSHD": {"q": (2, 128, 8, 64), "k": (2, 256, 8, 64), "layout": "BSHD"},
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name, device", [*((name, ("H200", "B200")[number % 2]) for number, name in enumerate(CASES)), ("e5m2", "A100")]
)
def test_there_is_a_plan(planner, name, device):
    """Not for an A100, which is too old."""
    options = {"q": Q, "k": (2, 8, 256, 64), "dtype": "float8_e4m3fn", **CASES[name]}
    asked = attention.forward.request(options.pop("q"), options.pop("k"), **options)
    found = cudnn.supports(asked, device)
    assert bool(found) is (device != "A100"), found.reason


def test_the_graph():
    """Descales behind the first product, and behind the second; the numbers that are not given are one."""
    asked = attention.forward.request(Q, Q, dtype="float8_e4m3fn")
    fused = Fused(asked.problem, (0,) * 5)
    graph = fused.drawn().graph
    modes = [dict(node.settings).get("mode", node.kind) for node in graph.nodes]
    assert modes[:4] == ["matmul", "MUL", "MUL", "MUL"]
    assert modes[-6:] == ["MUL", "matmul", "MUL", "MUL", "MUL", "AMAX"]
    numbers = fused.operands()
    assert len(numbers) - len({*numbers}) == len(SCALES) - 1
    # A weight has the dtype of q in the second product.
    products = [node for node in graph.nodes if node.kind == "matmul"]
    assert graph.tensors[dict(products[1].tensors)["a"]].dtype == "float8_e4m3fn"


def test_a_request_may_have_the_maxima(planner):
    """They make another graph, which `prepare` plans when it is asked for it."""
    usual, more = (attention.forward.request(Q, Q, dtype="float8_e4m3fn", return_amax=each) for each in (False, True))
    (graph,), (other,) = usual.graphs(), more.graphs()
    assert len(other.nodes) == len(graph.nodes) + 1 and "amax_s" in more.problem.outputs
    for device in ("H200", "B200"):
        assert cudnn.supports(more, device)
    refused(OptionError, "return_amax is for float8", run=lambda: attention.forward.request(Q, Q, return_amax=True))
