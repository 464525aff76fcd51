"""The NumPy meaning of gated activations against the oracle, and the oracle against what is known."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import oracle
import pytest
from oracle import DTYPES, KINDS, sample
from scipy.special import log_ndtr, ndtr

from numbacc import gated
from numbacc.reference import gated as reference

each_kind = pytest.mark.parametrize("kind", KINDS)
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)

#: Φ to 30 digits, on both sides of where the oracle changes its method.
KNOWN = {
    -1.0: "0.158655253931457051414767454368",
    -0.5: "0.308537538725986896362295389392",
    -3.0: "0.00134989803163009452665181476759",
    -10.0: "7.61985302416052606597334325154e-24",
    1.0: "0.841344746068542948585232545632",
}


def run(direction, kind, operands):
    return list(getattr(reference, direction)(*operands[-(2 + (direction == "backward")) :], kind=kind))


@pytest.mark.parametrize("direction", ["forward", "backward"])
@each_kind
@each_dtype
def test_against_the_oracle(direction, kind, dtype):
    operands = sample(dtype)[direction == "forward" :]
    oracle.assert_accurate(direction, kind, run(direction, kind, operands), operands)


@pytest.mark.parametrize("direction", ["forward", "backward"])
@each_kind
@each_dtype
def test_every_float_of_b_near_zero_and_near_the_ends(direction, kind, dtype):
    """Subnormal and nearly largest b."""
    info = oracle.ml_dtypes.finfo(dtype)
    ends = np.array([info.smallest_subnormal, info.tiny, info.max], dtype).astype(np.float64)
    b = np.concatenate([ends, -ends]).astype(dtype)
    operands = [np.full(6, 0.5, dtype)] * (1 + (direction == "backward")) + [b]
    oracle.assert_accurate(direction, kind, run(direction, kind, operands), operands)


def strided(values, how):
    """The same values in another memory order."""
    return {"rows": values, "columns": np.asfortranarray(values), "reversed": values[::-1].copy()[::-1]}[how]


@pytest.mark.parametrize("how", ["rows", "columns", "reversed"])
@pytest.mark.parametrize("shape", [(300, 500), (2, 70_001), (140_003,), (3, 5, 9001)], ids=str)
@each_kind
def test_large_arrays_are_computed_in_pieces_to_the_same_values(kind, shape, how):
    rng = np.random.default_rng(4)
    dy, a, b = (strided(rng.standard_normal(shape, np.float32), how) for _ in range(3))
    small = 64  # elements, below which nothing is cut
    for direction, operands in (("forward", (a, b)), ("backward", (dy, a, b))):
        whole = run(direction, kind, operands)
        flat = [np.ascontiguousarray(x).reshape(-1) for x in operands]
        for start in range(0, flat[0].size, flat[0].size // 7):
            piece = run(direction, kind, [x[start : start + small] for x in flat])
            for result, part in zip(whole, piece, strict=True):
                np.testing.assert_allclose(result.reshape(-1)[start : start + small], part, rtol=1e-6)


@each_kind
@pytest.mark.parametrize("dtype", DTYPES[2:], ids=str)
def test_16_bit_results_are_rounded_once_to_nearest(kind, dtype):
    """Save where float32's own error takes them over a tie, they are the neighbour nearest to the truth."""
    dy, a, b = sample(dtype)
    pieces = [("forward", (a, b)), ("backward", (dy, a, b))]
    for direction, operands in pieces:
        for result, expected in zip(
            run(direction, kind, operands),
            oracle.evaluate(direction, kind, operands, np.float64),
            strict=True,
        ):
            nearest = expected.value.astype(dtype)
            assert np.mean(result != nearest) < 0.01


@each_dtype
@each_kind
def test_no_warnings_and_the_same_dtype_and_shape(kind, dtype):
    values = np.array([[np.nan, np.inf, -np.inf], [0, 1, 2], [1e4, -1e4, 3]]).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = run("forward", kind, (values, values)) + run("backward", kind, (values,) * 3)
    for result in results:
        assert result.dtype == dtype and result.shape == (3, 3)


@each_kind
def test_operands_are_only_read(kind):
    operands = sample(np.dtype(np.float64))
    for operand in operands:
        operand.flags.writeable = False
    before = [x.copy() for x in operands]
    run("backward", kind, operands)
    run("forward", kind, operands[1:])
    for operand, copy in zip(operands, before, strict=True):
        np.testing.assert_array_equal(operand, copy)


def test_the_kinds_are_those_of_the_module():
    assert gated.KINDS[: len(oracle.WRITTEN)] == oracle.WRITTEN


# ---------------------------------------------------------------- the oracle itself


def test_the_normal_distribution_is_known():
    eps = float(np.finfo(np.longdouble).eps)
    for b, digits in KNOWN.items():
        found, _ = oracle.normal(np.array([b], np.longdouble))
        true = np.longdouble(digits)
        assert abs(found[0] - true) <= 64 * eps * true


def test_the_normal_distribution_is_scipys():
    b = np.concatenate([np.linspace(-37, 8, 2001), [-2.0, np.nextafter(-2.0, 0), np.nextafter(-2.0, -3)]])
    found, density = oracle.normal(b.astype(np.longdouble))
    np.testing.assert_allclose(found.astype(float), ndtr(b), rtol=4e-13)
    np.testing.assert_allclose(density.astype(float), np.exp(-b * b / 2) / np.sqrt(2 * np.pi), rtol=1e-12)
    np.testing.assert_allclose(np.log(found).astype(float), log_ndtr(b), rtol=1e-14, atol=1e-15)


@each_kind
def test_slopes_are_those_of_the_values(kind):
    """Central differences in long double; the corner of reglu apart."""
    b, step = np.linspace(-9.05, 9.05, 400).astype(np.longdouble), np.longdouble(2.0**-20)
    gate = partial(oracle.gate, kind)
    slope = (gate(b + step).value - gate(b - step).value) / (2 * step)
    np.testing.assert_allclose(gate(b).slope.astype(float), slope.astype(float), rtol=1e-8, atol=1e-11)
    assert np.all(gate(b).scale >= np.abs(gate(b).slope) * (1 - 1e-15))


@each_kind
@each_dtype
def test_the_rule_catches_a_result_that_is_off(kind, dtype):
    """One element in thousands that is off by 2 units in the last place (16 bits) or 8 does not pass."""
    operands = [x[:4001] for x in sample(dtype)]
    expected = oracle.forward(*operands[1:], kind)
    (result,) = oracle.trusted("forward", kind, operands[1:])
    oracle.assert_accurate("forward", kind, [result], operands[1:])
    where = 2500
    assert operands[2][where] > 1
    off = expected + (2 if dtype.itemsize == 2 else 8) * oracle.spacing(expected, dtype) * (np.arange(4001) == where)
    with pytest.raises(AssertionError, match="wrong in 1 of 4001"):
        oracle.assert_accurate("forward", kind, [off.astype(dtype)], operands[1:])
