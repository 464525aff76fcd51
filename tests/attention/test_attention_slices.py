"""Unfused attention in slices of heads of queries, and of queries: right, and the same as at once."""

from __future__ import annotations

import re

import numpy as np
import pytest
from attention_call import Call, small
from attention_oracle import BFLOAT16, DOUBLE, HALF, MASKS, SINGLE
from requested import requested

from numbacc import attention
from numbacc.attention import executables, slices
from numbacc.attention.problem import AttentionProblem
from numbacc.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("poison")

#: What takes scratch memory in any case: lengths, arrays put in place, sums; and gaps between parts.
_BESIDE = 3 * 256


def least(call, direction="backward"):
    """(bytes that a call needs at least, those of them beside its scores), by its refusal."""
    refused = Call(call.place, call.case, call.layout, call.layouts, **{**call.options, "workspace_limit": 1})
    with pytest.raises(UnsupportedError, match="is too small") as found:
        if direction == "forward":
            refused.forward()
        else:
            refused.backward(*unwritten(refused))
    return numbers_of(found.value)


def unwritten(call):
    """(o, stats) of a call, where nobody looks at their values."""
    real = np.float64 if call.case.dtype == DOUBLE else np.float32
    kinds = {"out": call.case.dtype, "stats": real}
    return [call.place.put(np.zeros(call.shape(name), dtype)) for name, dtype in kinds.items()]


def numbers_of(refusal):
    needed, own = re.search(r"need (\d+) bytes of scratch memory, including (\d+) for", str(refusal)).groups()
    return int(needed), int(own) + _BESIDE


def limit_of(call, rows, direction="backward"):
    """A limit that leaves room for the scores of so many queries at once, and an eighth of it for products."""
    needed, own = least(call, direction)
    return own + rows * (needed - own) * 8 // 7 + 1


def run(call, direction="backward"):
    if direction == "forward":
        return call.forward()
    roomy = Call(call.place, call.case, call.layout, call.layouts, **{**call.options, "workspace_limit": None})
    return call.backward(*roomy.forward())


def plans(call):
    """The information of the plans of both directions."""
    keywords = {name: each for name, each in call.keywords.items() if name != "seed"}
    o, stats = unwritten(call)
    forward = attention.forward.plan(*call.views("q", "k", "v"), **keywords, return_stats=True)
    backward = attention.backward.plan(
        *call.views("do", "q", "k", "v"), o, stats, bias_grad=call.bias_grad, **keywords
    )  # fmt: skip
    return forward.info, backward.info


def sliced(place, case, heads, rows, layout="BHSD", **options):
    """A call whose gradients are taken in slices of so many heads of queries, or queries of one; checked."""
    limit = limit_of(Call(place, case, layout, **options), heads * rows)
    call = Call(place, case, layout, workspace_limit=limit, **options)
    found = call.check()
    for info in plans(call):
        assert info.workspace_bytes <= limit and info.deterministic
    what = "heads" if rows == case.queries else "queries"
    number = case.batch * case.heads * -(-case.groups // heads) * -(-case.queries // rows)
    assert info.algorithm.endswith(f", {number} slices of {what}"), info.algorithm
    assert "slices" not in plans(Call(place, case, layout, **options))[1].algorithm
    return found


def compare(place, case, heads, rows, layout="BHSD", **options):
    found = sliced(place, case, heads, rows, layout, **options)
    whole = Call(place, case, layout, **options).check()
    room = 1e-12 if case.dtype == DOUBLE else 2e-5
    for name, each in found.items():
        np.testing.assert_allclose(each, whole[name], rtol=room, atol=room, err_msg=name)


#: Heads of queries at once, of three that share one of keys, and queries at once, of seven.
SIZES = [(2, 7), (1, 7), (1, 3)]
each_size = pytest.mark.parametrize("heads, rows", SIZES, ids=["two heads", "a head", "queries"])


def shared(**more):
    return small(**{"groups": 3, "queries": 7, "keys": 6, "width": 8, **more})


@each_size
@pytest.mark.parametrize("mask", MASKS)
def test_masks(device_place, mask, heads, rows):
    compare(device_place, shared(mask=mask, batch=1), heads, rows)


@each_size
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.sampled(simulated=1)
def test_all_at_once(device_place, dtype, heads, rows):
    """Lengths, a bias with its gradient, slopes and dropout, whose mask is that of the whole."""
    case = shared(
        heads=1,
        dtype=dtype,
        mask="causal_bottom_right",
        bias=(2, 3, 7, 6),
        slopes=True,
        lengths=((7, 6), (4, 5)),
        dropout=0.3,
    )
    compare(device_place, case, heads, rows, "BSHD")


@each_size
@pytest.mark.parametrize("bias", [(1, 1, 7, 6), (2, 1, 1, 6), (1, 6, 7, 1), (1, 1, 1, 6)], ids=str)
@pytest.mark.sampled(simulated=2)
def test_gradients_of_biases_that_are_repeated(device_place, bias, heads, rows):
    compare(device_place, shared(bias=bias, slopes=True, mask="window"), heads, rows)


@pytest.mark.parametrize("scale", [0.0, -0.7])
def test_scales(device_place, scale):
    compare(device_place, shared(scale=scale, batch=1), 1, 3)


def test_a_head_of_its_own_keys_and_one_query_at_a_time(device_place):
    case = small(batch=1, heads=2, queries=3, keys=5, slopes=True, mask="causal")
    compare(device_place, case, 1, 1)
    compare(device_place, case._replace(queries=1, groups=2), 1, 1)


@pytest.mark.parametrize("name", ["q", "do", "dq", "dk", "dv", "out"])
def test_arrays_that_are_put_in_place(device_place, name):
    """With gaps, and off 16 bytes."""
    layouts = {name: {"margins": ((0, 0), (0, 0), (0, 1), (1, 2))}}
    case = shared(batch=1, heads=1, width=5, value_width=7)
    call = Call(device_place, case, layouts=layouts)
    limit = max(limit_of(call, 3, direction) for direction in ("forward", "backward"))
    Call(device_place, case, layouts=layouts, workspace_limit=limit).check()


@each_size
@pytest.mark.sampled(simulated=1)
def test_packed_sequences(device_place, heads, rows):
    place, (tokens, tokens_kv) = device_place, (9, 10)
    rng = np.random.default_rng(0)
    sizes = {"q": (tokens, 6), "do": (tokens, 6), "k": (tokens_kv, 2), "v": (tokens_kv, 2)}
    arrays = {name: place.put(rng.standard_normal((*shape, 8)).astype(np.float32)) for name, shape in sizes.items()}
    starts = {"seq_len_q": np.array([0, 7, 9], np.int32), "seq_len_kv": np.array([0, 4, 10], np.int32)}
    options = {name: place.put(each) for name, each in starts.items()}
    options |= {"layout": "THD", "max_len_q": 7, "max_len_kv": 6, "mask": "causal_bottom_right"}
    q, k, v, do = (arrays[name] for name in ("q", "k", "v", "do"))
    o, stats = attention.forward(q, k, v, **options, return_stats=True)
    for inputs, plan in (((q, k, v), attention.forward.plan), ((do, q, k, v, o, stats), attention.backward.plan)):
        whole = plan(*inputs, **options)
        with pytest.raises(UnsupportedError, match="is too small") as refusal:
            plan(*inputs, **options, workspace_limit=1)(*inputs, **starts_of(options))
        needed, own = numbers_of(refusal.value)
        limit = own + heads * rows * (needed - own) * 8 // 7 + 1
        parted = plan(*inputs, **options, workspace_limit=limit)
        number = 4 * -(-3 // heads) * -(-7 // rows)
        assert parted.info.algorithm.endswith(f"{number} slices of {'heads' if rows == 7 else 'queries'}")
        assert parted.info.workspace_bytes <= limit
        one, other = (each(*inputs, **starts_of(options)) for each in (whole, parted))
        for a, b in zip(*(each if isinstance(each, tuple) else (each,) for each in (one, other)), strict=True):
            np.testing.assert_allclose(place.get(a), place.get(b), rtol=2e-5, atol=2e-5)


def starts_of(options):
    return {name: options[name] for name in ("seq_len_q", "seq_len_kv")}


@pytest.fixture
def unfused(monkeypatch):
    """16-bit floats without cuDNN."""
    monkeypatch.setattr(executables, "is_worth_trying", lambda problem: False)
    attention.cache_clear()
    yield
    attention.cache_clear()


@pytest.mark.parametrize("heads, rows", SIZES[1:], ids=["a head", "queries"])
@pytest.mark.parametrize("dtype", [HALF, BFLOAT16], ids=str)
def test_sums_of_16_bits_are_rounded_once(device_place, unfused, dtype, heads, rows):
    """dk and dv are those of the whole, but for the order in which float32 is added up."""
    case = shared(dtype=dtype, lengths=((7, 6), (5, 4)))
    found = sliced(device_place, case, heads, rows)
    whole = Call(device_place, case).check()
    for name in ("dk", "dv"):
        one, other = (each[name].astype(np.float64) for each in (found, whole))
        assert (one != other).mean() < 0.05


@each_size
def test_two_runs_are_the_same(device_place, heads, rows):
    case = shared()
    limit = limit_of(Call(device_place, case), heads * rows)
    one, other = (run(Call(device_place, case, workspace_limit=limit, deterministic=True)) for _ in range(2))
    for name, each in one.items():
        np.testing.assert_array_equal(device_place.get(each), device_place.get(other[name]))


# ---------------------------------------------------------------- which slices


def problem(q, k, **options) -> AttentionProblem:
    return requested(attention, q, k, **{"dtype": "float32", "direction": "backward", **options}).problem


@pytest.mark.parametrize("q, k, dtype", [
    ((1, 8, 4096, 64), (1, 1, 4096, 64), "float32"), ((1, 64, 8192, 64), (1, 8, 8192, 64), "float32"),
    ((1, 1, 12000, 64), (1, 1, 12000, 64), "float32"), ((2, 32, 8192, 128), (2, 8, 8192, 128), "bfloat16"),
    ((1, 64, 16384, 128), (1, 8, 16384, 128), "bfloat16"), ((3, 4, 20000, 8), (3, 2, 30001, 8), "float64"),
], ids=str)  # fmt: skip
def test_each_score_is_in_one_slice_that_fits(q, k, dtype):
    asked, cell = problem(q, k, dtype=dtype), {"float32": 12, "float64": 24, "bfloat16": 10}[dtype]
    found = asked.geometry
    assert not slices.of_keys(asked, cell, 0) or found.queries == 4096
    taken = np.zeros((found.batch, found.heads, found.queries), np.int8)
    for part in slices.of_queries(asked, cell, 0):
        taken[part.batch : part.batch + part.batches, part.head : part.head + part.heads][
            ..., part.row : part.row + part.rows
        ] += 1
        assert part.batches * part.heads * part.rows * found.keys * cell <= asked.limit
        assert part.rows == found.queries or (part.heads == 1 and part.row % 128 == 0)
    assert (taken == 1).all()


def test_refusals_say_what_is_needed(device_place):
    """One byte less than what runs is refused, and the bytes it names run."""
    case = shared(batch=1, heads=1)
    for direction in ("forward", "backward"):
        limit, _ = least(Call(device_place, case), direction)
        run(Call(device_place, case, workspace_limit=limit), direction)
        with pytest.raises(UnsupportedError, match=f"one query of one head, with 6 keys, need {limit} bytes"):
            run(Call(device_place, case, workspace_limit=limit - 1), direction)


# ---------------------------------------------------------------- fused, of one sequence at a time


@pytest.mark.parametrize("bias", [None, (3, 4, 16, 16), (1, 1, 16, 16)], ids=str)
@pytest.mark.parametrize("groups, slopes", [(2, False), (4, True)])
def test_deterministic_gradients_of_one_sequence_at_a_time(device_place, bias, groups, slopes):
    """Where a head of all sequences needs more than the limit."""
    shape = bias and (bias[0], bias[1] if bias[1] == 1 else 2 * groups, 16, 16)
    case = small(
        batch=3, heads=2, groups=groups, queries=16, keys=16, dtype=HALF, bias=shape, slopes=slopes, mask="causal"
    )  # fmt: skip
    whole = Call(device_place, case, bias_grad=False, deterministic=True)
    wanted = {name: device_place.get(each) for name, each in whole.backward(*whole.forward()).items()}
    each, beside = groups * 16 * 16 * 2, 3 * 2 * groups * 16 * 4
    for heads in (2, 1):
        limit = heads * each + beside * (1 if bias is None else 2)
        for layout in ("BHSD", "BSHD"):
            call = Call(device_place, case, layout, bias_grad=False, deterministic=True, workspace_limit=limit)
            o, stats = call.forward()
            keywords = call.keywords
            plan = attention.backward.plan(*call.views("do", "q", "k", "v"), o, stats, **keywords)
            assert plan.info.algorithm.endswith(f", {3 * 2 // heads} slices of heads")
            for name, found in call.backward(o, stats).items():
                np.testing.assert_array_equal(call.turned(device_place.get(found)), wanted[name])
    call.check()


def test_gradients_of_biases_of_one_sequence_at_a_time(device_place):
    case = small(batch=3, heads=2, groups=2, queries=16, keys=16, dtype=HALF, bias=(3, 4, 16, 16))
    call = Call(device_place, case, workspace_limit=2 * 3 * 4 * 16 * 4 + 1024)
    o, stats = call.forward()
    info = attention.backward.plan(*call.views("do", "q", "k", "v"), o, stats, bias_grad=True, **call.keywords).info
    assert info.algorithm.endswith(", 6 slices of heads") and "unfused" not in info.algorithm
    call.check()


def test_slices_of_sequences_whose_lengths_are_told(device_place):
    """Though all are as long as they can be."""
    case = small(batch=3, heads=2, queries=16, keys=64, dtype=HALF)
    call = Call(device_place, case, deterministic=True, workspace_limit=2 * 16 * 64 + 3 * 2 * 16 * 4 + 1024)
    o, stats = call.forward()
    info = attention.backward.plan(*call.views("do", "q", "k", "v"), o, stats, **call.keywords).info
    assert info.algorithm.endswith(", 6 slices of heads") and "unfused" not in info.algorithm
    call.check()


@pytest.mark.parametrize("more", [
    {"bias_shape": (1, 4, 16, 16), "bias_grad": True}, {"dropout": 0.3}, {"lengths": True},
], ids=str)  # fmt: skip
def test_sequences_are_not_taken_one_at_a_time(more):
    """Slices would write the same gradients, drop others, or have lengths off 16 bytes."""
    asked = {"dtype": "float16", "deterministic": True, "workspace_limit": 3 * 4 * 64 * 2 + 2048}
    shapes = (3, 4, 16, 64), (3, 2, 16, 64)
    assert attention.backward.request(*shapes, **asked).graphs()
    with pytest.raises(UnsupportedError, match="bytes at once, more than workspace_limit"):
        attention.backward.request(*shapes, **asked, **more).graphs()
