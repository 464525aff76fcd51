"""Biases of attention that are repeated along any axes, and their gradients."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from attention_call import Call, small
from attention_oracle import BFLOAT16, HALF, SINGLE, inputs
from conftest import refused

import numbacc
from numbacc import attention
from numbacc.attention import versions
from numbacc.errors import DTypeError, OptionError

pytestmark = pytest.mark.usefixtures("poison")


@pytest.mark.parametrize("gradient", [False, True], ids=["", "gradient"])
@pytest.mark.parametrize("dtype", [SINGLE, HALF], ids=str)
@pytest.mark.parametrize("repeated", [(), (0,), (1,), (2,), (3,), (0, 1, 2), (2, 3), (0, 1, 2, 3)], ids=str)
def test_biases_are_repeated_along_any_axes(place, dtype, repeated, gradient):
    """cuDNN reads those wrongly, without a word, that are repeated along queries."""
    whole = (2, 2, 5, 7) if place.is_slow else (2, 2, 64, 72)
    shape = tuple(1 if axis in repeated else n for axis, n in enumerate(whole))
    sizes = {"queries": whole[2], "keys": whole[3], "width": 32, "value_width": 32}
    Call(place, small(dtype=dtype, bias=shape, **sizes), bias_grad=gradient).check()


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("lengths", [(1, 1), (2, 1), (9, 1), (1, 9)], ids=str)
def test_biases_of_one_query_or_key(place, lengths, heads):
    """cuDNN reads those of one number a head wrongly, without a word: only the statistics show it."""
    whole = (2, heads, *lengths)
    for repeated in product((False, True), repeat=4):
        shape = tuple(1 if is_one else n for is_one, n in zip(repeated, whole, strict=True))
        Call(place, small(dtype=HALF, bias=shape, heads=heads, queries=lengths[0], keys=lengths[1])).check()


@pytest.mark.parametrize("dtype", [SINGLE, HALF], ids=str)
def test_a_bias_of_rank_0(place, dtype):
    """One number for all scores moves no weight: its gradient is 0, of rank 0."""
    call = Call(place, small(dtype=dtype))
    q, k, v, do = call.views("q", "k", "v", "do")
    bias = place.put(np.array(0.5, dtype))
    plain = place.get(attention.forward(q, k, v))
    o, stats = attention.forward(q, k, v, bias=bias, return_stats=True)
    close = {"rtol": 1e-6, "atol": 1e-6} if dtype.itemsize > 2 else {"rtol": 2e-3, "atol": 2e-3}
    np.testing.assert_allclose(place.get(o).astype(np.float64), plain.astype(np.float64), **close)
    *_, found = attention.backward(do, q, k, v, o, stats, bias=bias, bias_grad=True)
    assert found.shape == () and found.dtype == dtype and abs(float(place.get(found))) < 0.1
    out = place.put(np.full((), np.nan, dtype))
    given = (*(place.put(np.full(each.shape, np.nan, dtype)) for each in (q, k, v)), out)
    assert attention.backward(do, q, k, v, o, stats, bias=bias, bias_grad=True, out=given)[3] is out
    np.testing.assert_array_equal(place.get(out), place.get(found))


@pytest.mark.too_long(lambda case: case.keys > 7)
@pytest.mark.parametrize("dropout", [0.0, 0.25])
@pytest.mark.parametrize("dtype", [HALF, BFLOAT16], ids=str)
@pytest.mark.parametrize("batch, heads", [(2, 2), (1, 2), (2, 1), (1, 1)])
@pytest.mark.parametrize("keys", [7, 71, 72, 205])
def test_gradients_of_any_number_of_keys(place, dtype, batch, heads, keys, dropout):
    """Whose rows start anywhere: cuDNN takes no gaps behind them."""
    queries = 5 if place.is_slow else 67
    shape, sizes = (batch, heads, queries, keys), {"queries": queries, "keys": keys, "width": 32, "value_width": 32}
    Call(place, small(dtype=dtype, bias=shape, batch=2, heads=2, dropout=dropout, **sizes)).check()


@pytest.mark.parametrize("shape", [(2, 2, 64, 71), (1, 2, 64, 250), (1, 1, 64, 76)], ids=str)
def test_biases_whose_rows_are_not_aligned_are_not_copied(device_place, shape):
    """Where that was tried, also in both directions; other GPUs get a copy whose rows are padded."""
    sizes = {"queries": shape[2], "keys": shape[3], "width": 32, "value_width": 32}
    call = Call(device_place, small(dtype=HALF, bias=shape, **sizes), bias_grad=False)
    call.check()
    names = ("q", "k", "v")
    bytes_of = [
        attention.forward.plan(*call.views(*names), **call.keywords | more).info.workspace_bytes
        for more in (
            {},
            {"bias": device_place.put(np.zeros((*shape[:3], shape[3] // 8 * 8 + 8), HALF))[..., : shape[3]]},
        )
    ]
    assert not versions.reads_unaligned_biases(0) or bytes_of[0] == bytes_of[1]


def hiding(case):
    """Inputs whose bias hides keys: all of a row, its first tiles, all but the last, others, and the rows of a tile."""
    values, hidden = inputs(case), -np.inf
    rows = values.bias
    rows[:, :, 0], rows[:, :, 1, : case.keys // 2], rows[:, :, 2, :-1] = hidden, hidden, hidden
    rows[:, :, 3, case.keys // 3 :], rows[:, :, 4, ::2] = hidden, hidden
    rows[:, 0, case.queries // 2 :] = hidden
    return values


#: (what the case has, layouts of arrays).
HIDING = {
    "no mask": ({}, {}),
    "strided results": ({"dtype": BFLOAT16}, {"stats": {"steps": (1, 1, -2)}, "out": {"steps": (1, 1, -2, 1)}}),
    "causal, shared heads": ({"mask": "causal", "heads": 1, "groups": 2, "width": 128, "value_width": 128}, {}),
    "dropout": ({"dropout": 0.25}, {}),
    "wide heads": ({"width": 256, "value_width": 256}, {}),
    "more queries": ({"mask": "causal_bottom_right", "queries": 205, "keys": 136}, {}),
    "lengths": ({"lengths": ((141, 205), (70, 100))}, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", HIDING)
def test_rows_that_a_bias_hides(place, name):
    """Their results are 0, and their statistics -inf. cuDNN's kernels on Hopper write these, others' are corrected."""
    options, layouts = HIDING[name]
    lengths = {"queries": 141, "keys": 205, "width": 64, "value_width": 64, "dtype": HALF}
    if place.name != "gpu":
        lengths |= {"queries": 14, "keys": 20, "width": 8, "value_width": 8}
        options = {key: value for key, value in options.items() if key not in lengths or key == "dtype"}
        options |= {"lengths": ((14, 20), (7, 10))} if "lengths" in options else {}
    case = small(**{**lengths, **options})
    case = case._replace(bias=(2, case.heads * case.groups, case.queries, case.keys))
    Call(place, case, layouts=layouts, values=hiding(case)).check()


@pytest.mark.parametrize("dtype", [SINGLE, HALF], ids=str)
def test_a_bias_hides_no_nan(place, dtype):
    queries, keys = (70, 205) if place.name == "gpu" else (5, 9)
    case = small(queries=queries, keys=keys, dtype=dtype, bias=(1, 2, queries, keys))
    values = inputs(case)
    values.bias[:, :, 1:3], values.bias[0, 1, 3, 5] = -np.inf, np.nan
    values.q[0, 0, 0, 2], values.q[0, 0, 1, 2] = np.nan, np.nan
    given = {name: place.put(getattr(values, name)) for name in ("q", "k", "v", "bias")}
    o, stats = (place.get(each) for each in attention.forward(**given, return_stats=True))
    wanted = np.zeros(stats.shape, np.bool_)
    wanted[0, 0, :2], wanted[:, 1, 3] = True, True
    np.testing.assert_array_equal(np.isnan(stats), wanted)
    np.testing.assert_array_equal(np.isnan(o).all(-1), wanted)
    hidden = ~wanted[:, :, 1:3]
    assert (o[:, :, 1:3][hidden] == 0).all() and np.isneginf(stats[:, :, 1:3][hidden]).all()


def test_a_bias_that_is_copied_keeps_to_the_limit(device_place):
    """Else gradients are unfused."""
    case = small(dtype=HALF, bias=(2, 1, 1, 72), queries=64, keys=72, width=32, value_width=32)
    for limit in (None, 2**16):
        Call(device_place, case, bias_grad=False, workspace_limit=limit).check()


def test_boolean_masks(place):
    """The error's recipe makes a bias that masks."""
    call = Call(place, small())
    arrays = call.views("q", "k", "v")
    mask = place.put(np.tril(np.ones((5, 7), np.bool_)))
    recipe = "bias=numbacc.elementwise.where(mask, 0.0, -numpy.inf).astype(q.dtype)"
    refused(DTypeError, "bias has dtype bool", recipe, run=lambda: attention.forward(*arrays, bias=mask))
    refused(OptionError, "is unknown", recipe, run=lambda: attention.forward(*arrays, mask=mask))
    refused(OptionError, "as bias=", run=lambda: attention.forward(*arrays, mask=arrays[0]))
    bias = eval(recipe.removeprefix("bias="), {"numbacc": numbacc, "numpy": np, "mask": mask, "q": arrays[0]})
    found, wanted = (place.get(attention.forward(*arrays, **more)) for more in ({"bias": bias}, {"mask": "causal"}))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_a_mask_hides_must_be_finite(place, bad, dtype):
    """As the docs say: a value at a masked key reaches queries that may not see it."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 1, 8, 8)).astype(dtype) for _ in range(3))
    v[0, 0, 7, 2] = bad
    o = place.get(attention.forward(*(place.put(each) for each in (q, k, v)), mask="causal"))
    assert np.isnan(o[0, 0, :7, 2]).all() and np.isfinite(np.delete(o, 2, axis=3)).all()
