"""Attention and its gradients on every place, against whole matrices of scores."""

from __future__ import annotations

import attention_oracle
import numpy as np
import pytest
from attention_call import Call, small
from attention_oracle import DOUBLE, FLOATS, HALF, MASKS, SINGLE
from conftest import bits, in_parts, memory_layouts
from hypothesis import given
from hypothesis import strategies as st

from numbacc import attention
from numbacc.attention.staging import Stage, key_of
from numbacc.base.dispatch import simulated
from numbacc.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("poison")


@in_parts(8)
@given(case=attention_oracle.cases(longest=4 if simulated() else 9), layout=st.sampled_from(["BHSD", "BSHD"]))
def test_random(place, part, case, layout):
    Call(place, case, layout).check()


@given(data=st.data())
def test_strides(place, data):
    """Anywhere in memory, forwards and backwards, results too."""
    case = small(groups=2, bias=(2, 1, 5, 7), dtype=data.draw(st.sampled_from(FLOATS)))
    names = data.draw(st.sets(st.sampled_from(["q", "k", "v", "do", "bias", "out", "dq", "dk", "dv", "dbias"])))
    layouts = {name: data.draw(memory_layouts(4, name in ("out", "dq", "dk", "dv", "dbias"))) for name in sorted(names)}
    Call(place, case, data.draw(st.sampled_from(["BHSD", "BSHD"])), layouts).check()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("mask", MASKS)
def test_masks(place, mask, dtype):
    Call(place, small(mask=mask, dtype=dtype, keys=9 if mask == "window" else 4)).check()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {"groups": 3},
        {"heads": 1, "groups": 4},
        {"queries": 1, "keys": 12},
        {"queries": 12, "keys": 1},
        {"width": 5, "value_width": 3},
        {"width": 16, "value_width": 40},
        {"bias": (1, 1, 5, 7)},
        {"bias": (2, 2, 1, 7), "slopes": True},
        {"slopes": True, "mask": "causal"},
        {"lengths": ((5, 7), (2, 3))},
        {"lengths": ((0, 7), (5, 0)), "mask": "causal_bottom_right"},
        {"dropout": 0.4},
        {"dropout": 0.4, "mask": "causal", "groups": 2, "lengths": ((5, 7), (4, 3))},
        {"scale": -0.7},
        {"scale": -0.7, "slopes": True, "bias": (1, 1, 5, 7), "mask": "causal", "groups": 2, "width": 5},
        {"scale": -2.0, "lengths": ((5, 7), (2, 0)), "dropout": 0.4},
        {"scale": 0.0, "mask": "causal", "bias": (1, 1, 5, 7)},
        {"scale": 0.0, "lengths": ((5, 7), (2, 3))},
        {"batch": 0},
    ],
    ids=str,
)
def test_options(place, options, dtype):
    Call(place, small(dtype=dtype, **options)).check()


def test_packed_qkv(place):
    """Queries, keys and values that are next to each other in one array are read where they are."""
    case = small(keys=5)
    values = attention_oracle.inputs(case)
    together = place.put(np.ascontiguousarray(np.stack([values.q, values.k, values.v], 3).transpose(0, 2, 3, 1, 4)))
    q, k, v = (together[:, :, number] for number in range(3))
    o, stats = attention.forward(q, k, v, layout="BSHD", return_stats=True)
    found = {"o": place.get(o).swapaxes(1, 2), "stats": place.get(stats)}
    attention_oracle.assert_right(case, values, found, slack=1e-5)


def test_packed_qkv_is_not_copied(device_place):
    """Nor are gradients, which lie in one array, too: cuDNN's kernel is all that runs."""
    together, grads = (device_place.put(np.ones((2, 5, 3, 2, 8), HALF)) for _ in range(2))
    q, k, v = (together[:, :, number] for number in range(3))
    o, stats = attention.forward(q, k, v, layout="BSHD", return_stats=True)
    outs = tuple(grads[:, :, number] for number in range(3))
    forward = attention.forward.plan(q, k, v, layout="BSHD", return_stats=True)
    backward = attention.backward.plan(o, q, k, v, o, stats, layout="BSHD", out=outs)
    assert forward.info.backend == backward.info.backend == ("simulator" if simulated() else "cudnn")
    assert attention.forward.plan(q, k, v[..., ::-1], layout="BSHD").info.backend.endswith("+kernel")


@pytest.mark.parametrize("dtype", [SINGLE, HALF], ids=str)
def test_companions_of_other_dtypes(place, dtype):
    """A bias of float32 with its gradient, lengths and tables of int64, one kind of lengths alone."""
    case = small(dtype=dtype, bias=(1, 2, 5, 7))
    call = Call(place, case)
    bias = place.put(call.given.bias.astype(np.float32))
    arrays, options = call.views("q", "k", "v"), {"bias": bias}
    o, stats = attention.forward(*arrays, **options, return_stats=True)
    grads = attention.backward(*call.views("do"), *arrays, o, stats, **options, bias_grad=True)
    found = {"o": place.get(o), "stats": place.get(stats)}
    found |= {name: place.get(each) for name, each in zip(("dq", "dk", "dv", "dbias"), grads, strict=True)}
    assert found["dbias"].dtype == np.float32 and found["dbias"].shape == case.bias
    found["dbias"] = found["dbias"].astype(dtype)
    attention_oracle.assert_right(
        case, call.given, found, o=found["o"], narrow=place.is_device and dtype == HALF, slack=1e-5
    )
    for name, most in (("seq_len_q", 5), ("seq_len_kv", 7)):
        lengths = np.array([2, most])
        pairs = tuple((n, 7) if name == "seq_len_q" else (5, n) for n in (2, most))
        alone = Call(place, small(dtype=dtype, lengths=pairs))
        wanted, _ = alone.forward()
        found = attention.forward(*alone.views("q", "k", "v"), **{name: place.put(lengths)})
        np.testing.assert_array_equal(bits(place.get(found)), bits(place.get(wanted)))
    pages, table = place.put(np.ones((3, 2, 4, 8), dtype)), np.array([[2, 0], [1, 1]])
    tables = {"page_table_k": place.put(table), "page_table_v": place.put(table), "seq_len_kv": place.put(table[:, 0])}
    np.testing.assert_array_equal(place.get(attention.forward(arrays[0], pages, pages, **tables)).astype(float), 1.0)


def test_no_packed_sequence(place):
    """Tokens that belong to none: results are zeros."""
    q, starts = place.put(np.ones((4, 2, 8), SINGLE)), place.put(np.array([0], np.int32))
    options = {"layout": "THD", "seq_len_q": starts, "seq_len_kv": starts}
    o, stats = attention.forward(q, q, q, **options, return_stats=True)
    assert stats.shape == (0, 2, 4) and not place.get(o).any()
    for each in attention.backward(o, q, q, q, o, stats, **options):
        assert each.shape == (4, 2, 8) and not place.get(each).any()


def test_without_statistics(place):
    """The same output, whether the statistics are returned or not."""
    call = Call(place, small(mask="causal", dtype=DOUBLE))
    o, _ = call.forward()
    alone = attention.forward(*call.views("q", "k", "v"), **call.keywords)
    np.testing.assert_array_equal(bits(place.get(o)), bits(place.get(alone)))


def test_a_bias_of_minus_infinity(place):
    """It masks; where it masks all, the output is 0."""
    values = attention_oracle.inputs(small(bias=(1, 1, 5, 7)))
    values.bias[...] = 0
    values.bias[..., 2, :] = -np.inf
    values.bias[..., 3, 1:] = -np.inf
    found = Call(place, small(bias=(1, 1, 5, 7)), values=values).check()
    assert not found["o"][:, :, 2].any() and not found["dq"][:, :, 2].any()
    assert np.isneginf(found["stats"][:, :, 2]).all() and not np.isneginf(found["stats"][:, :, 3]).any()


def test_padding_is_not_looked_at(place):
    """Whatever lies there, NaN too."""
    case = small(lengths=((3, 4), (5, 2)), dtype=DOUBLE)
    values = attention_oracle.inputs(case)
    wanted = Call(place, case, values=values).check()
    arrays = {name: getattr(values, name).copy() for name in ("q", "k", "v", "do")}
    for b, pair in enumerate(case.lengths):
        for name, array in arrays.items():
            array[b, :, pair[name in ("k", "v")] :] = np.nan
    call = Call(place, case, values=values._replace(**arrays))
    o, stats = call.forward()
    found = {"o": o, "stats": stats, **call.backward(o, stats)}
    for name, array in found.items():
        np.testing.assert_array_equal(place.get(array), wanted[name])


def packed_arrays(case, values):
    """A case's sequences one behind the other, with tokens of none before, between and behind."""
    starts = [
        np.concatenate([[1], 1 + np.cumsum([pair[number] for pair in case.lengths])]).astype(np.int32)
        for number in range(2)
    ]
    found = {}
    for name in ("q", "k", "v", "do"):
        array, own = getattr(values, name), int(name in ("k", "v"))
        found[name] = np.full((starts[own][-1] + 2, array.shape[1], array.shape[3]), np.nan, array.dtype)
        for b, pair in enumerate(case.lengths):
            found[name][starts[own][b] : starts[own][b + 1]] = array[b, :, : pair[own]].swapaxes(0, 1)
    return found, starts


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("mask", [None, "causal_bottom_right"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_packed_equals_padded(place, dtype, mask, dropout):
    lengths = ((5, 7), (0, 3), (4, 6))
    scale = None if mask is None else -0.4
    case = small(batch=3, groups=2, lengths=lengths, dtype=dtype, mask=mask, dropout=dropout, scale=scale)
    call = Call(place, case)
    wanted = call.check()
    arrays, starts = packed_arrays(case, call.given)
    views = {name: place.put(array) for name, array in arrays.items()}
    keywords = {**call.keywords, "layout": "THD", "max_len_q": case.queries, "max_len_kv": case.keys}
    keywords |= {"seq_len_q": place.put(starts[0]), "seq_len_kv": place.put(starts[1])}
    o, stats = attention.forward(views["q"], views["k"], views["v"], **keywords, return_stats=True)
    grads = attention.backward(views["do"], views["q"], views["k"], views["v"], o, stats, **keywords)
    np.testing.assert_allclose(place.get(stats), wanted["stats"], rtol=1e-6, atol=1e-6)
    for name, array in zip(("o", "dq", "dk", "dv"), (o, *grads), strict=True):
        own, found = int(name in ("dk", "dv")), place.get(array)
        outside = np.ones(len(found), bool)
        for b, pair in enumerate(case.lengths):
            rows = slice(starts[own][b], starts[own][b + 1])
            outside[rows] = False
            np.testing.assert_allclose(
                found[rows].swapaxes(0, 1).astype(np.float64), wanted[name][b, :, : pair[own]].astype(np.float64),
                rtol=1e-6 if dtype.itemsize > 2 else 2e-2, atol=1e-6 if dtype.itemsize > 2 else 2e-2,
            )  # fmt: skip
        assert not found[outside].any(), name


@pytest.mark.parametrize("layout", ["BHSD", "BSHD"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_pages_equal_a_whole(place, dtype, layout):
    case = small(batch=2, groups=2, queries=1, keys=12, lengths=((1, 11), (1, 4)), dtype=dtype)
    call = Call(place, case)
    wanted, _ = call.forward()
    table = np.array([[4, 0, 2], [1, 3, 3]], np.int32)
    pages = {}
    for name in ("k", "v"):
        array = getattr(call.given, name)
        pages[name] = np.full((6, case.heads, 4, array.shape[3]), np.nan, dtype)
        for b, n in ((0, 0), (0, 1), (0, 2), (1, 0)):
            pages[name][table[b, n]] = array[b, :, 4 * n : 4 * n + 4]
        # What lies behind a sequence's end is not looked at.
        pages[name][2, :, 3:] = np.nan
    pages = {name: place.put(np.ascontiguousarray(call.turned(array))) for name, array in pages.items()}
    if layout == "BSHD":
        pages = {name: place.put(np.ascontiguousarray(place.get(each).swapaxes(1, 2))) for name, each in pages.items()}
    q = place.put(np.ascontiguousarray(call.given.q if layout == "BHSD" else call.given.q.swapaxes(1, 2)))
    tables = {name: place.put(table) for name in ("page_table_k", "page_table_v")}
    lengths = {name: call.operands[name].view for name in ("seq_len_q", "seq_len_kv")}
    found = place.get(attention.forward(q, pages["k"], pages["v"], layout=layout, **tables, **lengths))
    found = found if layout == "BHSD" else found.swapaxes(1, 2)
    close = {"rtol": 1e-6, "atol": 1e-6} if dtype.itemsize > 2 else {"rtol": 2e-2, "atol": 2e-2}
    np.testing.assert_allclose(found.astype(np.float64), place.get(wanted).astype(np.float64), **close)


def test_dropout_follows_seed_and_offset(place):
    case = small(queries=8, keys=8, dropout=0.5)
    call = Call(place, case)
    views = call.views("q", "k", "v")

    def kept(**numbers):
        return place.get(attention.dropout_mask(*views, **{**call.keywords, **numbers}))

    first = kept()
    np.testing.assert_array_equal(first, kept())
    assert 0.25 < first.mean() < 0.75
    assert (first != kept(seed=6)).any() and (first != kept(offset=12)).any()
    later = place.put(np.array([8], np.int64))
    np.testing.assert_array_equal(first, kept(offset=later))


def test_gradients_by_differences(place):
    """The slopes of the loss Σ o do along random directions, in float64."""
    case = small(groups=2, dtype=DOUBLE, mask="causal_bottom_right", bias=(1, 4, 5, 7), dropout=0.3)
    call = Call(place, case)
    grads = {name: place.get(each) for name, each in call.backward(*call.forward()).items()}
    rng = np.random.default_rng(1)
    for name in ("q", "k", "v", "bias"):
        array = getattr(call.given, name)
        way = rng.standard_normal(array.shape)
        losses = []
        for step in (1e-5, -1e-5):
            moved = Call(place, case, values=call.given._replace(**{name: array + step * way}))
            losses.append(float((place.get(moved.forward()[0]) * call.given.do).sum()))
        np.testing.assert_allclose(
            (grads[f"d{name}"] * way).sum(), (losses[0] - losses[1]) / 2e-5, rtol=1e-6, atol=1e-8
        )


# ---------------------------------------------------------------- scratch memory, and what runs it


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.sampled(simulated=1)
def test_slices_of_heads_keep_to_the_limit(device_place, dropout):
    """Unfused, the same bits whatever the limit; a head that does not fit is refused."""
    case = small(batch=2, heads=2, groups=2, bias=(1, 4, 5, 7), slopes=True, lengths=((5, 7), (4, 6)), dropout=dropout)
    results = []
    for limit in (None, 12000, 9000):
        call = Call(device_place, case, workspace_limit=limit)
        results.append(call.check())
        info = attention.backward.plan(
            *call.views("do", "q", "k", "v"), *call.forward(), bias_grad=True,
            **{name: each for name, each in call.keywords.items() if name != "seed"},
        ).info  # fmt: skip
        assert info.backend in ("simulator+kernel", "cublasLt+kernel")
        assert info.workspace_bytes > 0 and (limit is None or info.workspace_bytes <= limit)
        for name, each in results[-1].items():
            np.testing.assert_allclose(each, results[0][name], rtol=1e-5, atol=1e-6)
    call = Call(device_place, case, workspace_limit=100)
    with pytest.raises(UnsupportedError, match="is too small"):
        call.forward()


def test_deterministic_gradients_in_slices_of_heads(device_place):
    """Fused, of 16-bit floats: slices where the gradients of all scores are more than the limit."""
    case = small(heads=4, groups=2, queries=16, keys=16, dtype=HALF)
    views = Call(device_place, case)
    whole = {
        name: device_place.get(each) for name, each in views.backward(*views.forward(), deterministic=True).items()
    }
    call = Call(device_place, case, deterministic=True, workspace_limit=6000)
    plan = attention.backward.plan(*call.views("do", "q", "k", "v"), *call.forward(), **call.keywords)
    assert plan.info.deterministic and "slices of heads" in plan.info.algorithm
    for name, each in call.backward(*call.forward()).items():
        np.testing.assert_array_equal(device_place.get(each), whole[name])
    call.check()
    # Slices would drop others than forward did.
    dropping = Call(device_place, case._replace(dropout=0.4), deterministic=True, workspace_limit=6000)
    with pytest.raises(UnsupportedError, match="at once, more than workspace_limit=6000; with dropout"):
        dropping.backward(*dropping.forward())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_info(place, dtype):
    call = Call(place, small(dtype=dtype))
    forward = attention.forward.plan(*call.views("q", "k", "v"), **call.keywords, return_stats=True).info
    backward = attention.backward.plan(*call.views("do", "q", "k", "v"), *call.forward(), **call.keywords).info
    assert forward.op == "attention.forward" and backward.op == "attention.backward"
    assert forward.math_dtype == ("float64" if dtype == DOUBLE else "float32") == forward.accumulator_dtype
    assert forward.deterministic
    if place.is_device:
        library = "simulator" if place.name == "simulator" else "cudnn" if dtype.itemsize == 2 else "cublasLt"
        assert forward.backend == library + "+kernel" * (dtype.itemsize > 2)
        assert ("unfused" in forward.algorithm) is (dtype.itemsize > 2)
        assert backward.workspace_bytes > 0
        # Fused, dq is added up in whatever order.
        assert backward.deterministic is (dtype.itemsize > 2)
        kept = attention.backward.plan(
            *call.views("do", "q", "k", "v"), *call.forward(), **call.keywords, deterministic=True
        )
        assert kept.info.deterministic


@pytest.mark.parametrize("name", ["q", "k", "v", "do", "out", "dq", "dk", "dv", "bias", "dbias"])
def test_addresses_off_16_bytes_are_copied(place, name):
    """cuDNN would compute wrong numbers without a word."""
    margins = ((0, 0), (0, 0), (0, 0), (1, 0))
    layouts = {name: {"margins": margins}}
    for dtype in (HALF, SINGLE):
        Call(place, small(dtype=dtype, keys=8, bias=(1, 2, 5, 8)), "BHSD", layouts).check()
        # The same rows, wider by what keeps them aligned but for their start.
        wide = {name: {"margins": ((0, 0), (0, 0), (0, 0), (1, 7))}}
        Call(place, small(dtype=dtype, keys=8, bias=(1, 2, 5, 8)), "BSHD", wide).check()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_numbers_that_are_out_of_range_end_nothing(device_place, dtype):
    """Each counts as the nearest that is possible: no kernel leaves its arrays."""
    place = device_place
    call = Call(place, small(dtype=dtype))
    views = call.views("q", "k", "v")
    wanted = place.get(attention.forward(*views))
    far = place.put(np.array([10**9, 10**6], np.int32))
    np.testing.assert_array_equal(place.get(attention.forward(*views, seq_len_q=far, seq_len_kv=far)), wanted)
    none = place.put(np.array([-5, -(10**9)], np.int32))
    assert not place.get(attention.forward(*views, seq_len_kv=none)).any()
    pages = [place.put(np.ones((6, 2, 4, 8), dtype)) for _ in range(2)]
    q, tables = place.put(np.ones((2, 4, 1, 8), dtype)), place.put(np.array([[-9, 10**9], [5, 6]], np.int32))
    found = attention.forward(q, *pages, page_table_k=tables, page_table_v=tables, seq_len_kv=far)
    np.testing.assert_array_equal(place.get(found).astype(np.float64), 1.0)
    packed = [place.put(np.ones((20, 2, 8), dtype)) for _ in range(3)]
    starts = place.put(np.array([9, -7, 10**9], np.int32))
    o = attention.forward(*packed, layout="THD", seq_len_q=starts, seq_len_kv=starts)
    assert np.isfinite(place.get(o).astype(np.float64)).all()


def test_alignment_is_what_is_known_of_addresses(place):
    """Whatever an array's address with this key, and however far into it: aligned no worse than is said."""
    stage = Stage.__new__(Stage)
    stage._count = 1
    for address in range(0, 1024, 4):
        stage._key = (key_of(address),)
        for offset in (0, 4, 12, 16, 28, 48, 56, 64, 100, 256, 320):
            said = stage.address(0, offset)
            true = address + offset
            assert (true - said) % 16 == 0
            low = said & -said or 256
            assert true % low == 0
