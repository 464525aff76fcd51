"""What gated activations must give, and how far off a result may be. Independent of numbacc.

**Values.** Each formula is written down once, as a function of arrays, and evaluated twice:

* the *oracle* evaluates it in a wider dtype, from the exact values of the inputs: float64 for float32 and
  16-bit inputs, with SciPy's expit and erfc; long double for float64 inputs, with SciPy's expit in that dtype
  and, since SciPy has no wider erfc, a normal distribution summed here (`_normal_tail`);
* the *trusted* version evaluates it in the compute dtype (float32 for 16-bit and float32, else float64) with
  NumPy and SciPy, and rounds once to the storage dtype.

**Tolerance.** error(ours, oracle) must stay under 2 x error(trusted, oracle) + one rounding of the compute
dtype. Three things make that sharp where errors are small and fair where they cannot be:

* errors count in units of the place: the spacing of the storage dtype at the true value, plus one rounding of
  the compute dtype at the scale of the formula's terms (where g' crosses zero its terms cancel, and no
  precision helps; what is smaller than the smallest normal number may be rounded to 0);
* the trusted error is the largest over a sample of thousands of values, not over the few at hand, so that
  luck with one value decides nothing;
* it is taken apart for each sign and power of two of b, so that a poor exp(-50) excuses nothing at b = 1.

Where long double is float64 (Windows, some ARM), the float64 oracle is itself a few units off, and four more
are allowed.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import ml_dtypes
import numpy as np
from scipy.special import erfc, expit

from numbacc import gated
from numbacc.reference import gated as reference

DTYPES = tuple(np.dtype(t) for t in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16))

_PI = np.longdouble("3.14159265358979323846264338327950288")
#: How far the 16-bit kernels' normal distribution may be off, relatively: a hundredth of float16's rounding error. It
#: shows where terms cancel.
_NARROW_TAIL = 5e-6
_ORACLE_UNITS = 0 if np.finfo(np.longdouble).eps < np.finfo(np.float64).eps else 4


class Term(NamedTuple):
    """A value, the sum of the magnitudes of its terms, and what an underflow may be multiplied by."""

    value: np.ndarray
    scale: np.ndarray
    reach: np.ndarray


def compute_dtype(dtype):
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def wide_dtype(dtype):
    return np.dtype(np.longdouble if dtype == np.float64 else np.float64)


# ---------------------------------------------------------------- the formulas, in their argument's dtype


def _normal_tail(x):
    """Φ(-x) for x >= 0: the power series of Φ below 2, Laplace's continued fraction above."""
    near, far, ratio = np.minimum(x, 2), np.maximum(x, 2), np.zeros_like(x)
    for k in range(160, 0, -1):
        ratio = k / (far + ratio)
    total = term = near
    for k in range(3, 62, 2):
        term = term * near * near / k
        total = total + term
    density = np.exp(-x * x / 2) / np.sqrt(2 * _PI)
    return np.where(x < 2, 0.5 - density * total, density / (far + ratio))


def normal(b):
    """Φ(b) and φ(b)."""
    real = b.dtype.type
    density = np.exp(-b * b / 2) / np.sqrt(2 * real(_PI))
    if b.dtype == np.longdouble:
        tail = _normal_tail(np.abs(b))
        return np.where(b > 0, 1 - tail, tail), density
    return erfc(-b / np.sqrt(real(2))) / 2, density


class Gate(NamedTuple):
    """g(b), g'(b), and the sum of the magnitudes of the terms of g'."""

    value: np.ndarray
    slope: np.ndarray
    scale: np.ndarray


def _glu(b):
    s, rest = expit(b), expit(-b)
    return Gate(s, s * rest, s * rest)


def _reglu(b):
    step = (b > 0).astype(b.dtype)
    return Gate(np.where(np.isnan(b), b, step * np.where(b > 0, b, 0)), step, step)


def _swiglu(b):
    s, rest = expit(b), expit(-b)
    return Gate(b * s, s * (1 + b * rest), s * (1 + np.abs(b) * rest))


def _geglu(b):
    cdf, density = normal(b)
    return Gate(b * cdf, cdf + b * density, cdf + np.abs(b) * density)


def _geglu_tanh(b):
    """½(1 + tanh u) is σ(2u). Beyond |b| = 100 both are constant; the clip keeps b³ finite in every dtype."""
    real = b.dtype.type
    c, cubic, root = np.clip(b, -100, 100), real(np.longdouble("0.044715")), np.sqrt(2 / real(_PI))
    u, du = root * (c + cubic * c * c * c), root * (1 + 3 * cubic * c * c)
    s, rest = expit(2 * u), expit(-2 * u)
    second = b * s * rest * 2 * du
    return Gate(b * s, s + second, s + np.abs(second))


_GATES = {"glu": _glu, "reglu": _reglu, "swiglu": _swiglu, "geglu": _geglu, "geglu_tanh": _geglu_tanh}
#: The kinds that are written down here; of any other the oracle is the reference in a wider dtype, whose slopes are
#: compared with differences of its values.
WRITTEN = tuple(_GATES)
KINDS = (*WRITTEN, *(kind for kind in gated.KINDS if kind not in WRITTEN))


def gate(kind, b):
    """g and its slope at b, in b's dtype."""
    if kind in _GATES:
        return _GATES[kind](b)
    value, slope = reference.KINDS[kind].with_slope(b)
    return Gate(value, slope, np.abs(slope))


def _size(x):
    """|x|, but 0 for infinity and NaN."""
    return np.where(np.isfinite(x), np.abs(x), 0)


#: The highest power of b that a formula multiplies an intermediate result by.
_POWERS = {"glu": 0, "reglu": 0, "swiglu": 1, "geglu": 1, "geglu_tanh": 3}


def evaluate(direction, kind, operands, dtype):
    """The results for operands (a, b) or (dy, a, b), every step in `dtype`: [y], or [da, db]."""
    *dy, a, b = (np.asarray(x).astype(dtype) for x in operands)
    with np.errstate(all="ignore"):
        g = gate(kind, b)
        reach = (1 + _size(a)) * (1 + np.minimum(_size(b), 128)) ** _POWERS.get(kind, 3)
        if direction == "forward":
            y = a * g.value
            return [Term(y, np.abs(y), reach)]
        reach = reach * _size(dy[0])
        if kind == "reglu":  # a selection, not a product
            results = [np.where(b > 0, dy[0] * other, 0).astype(dtype) for other in (b, a)]
            return [Term(x, np.abs(x), reach) for x in results]
        da, db = dy[0] * g.value, dy[0] * (a * g.slope)
        return [Term(da, np.abs(da), reach), Term(db, np.abs(dy[0] * (a * g.scale)), reach)]


def forward(a, b, kind):
    """y in the wide dtype."""
    return evaluate("forward", kind, (a, b), wide_dtype(a.dtype))[0].value


def backward(dy, a, b, kind):
    """(da, db) in the wide dtype."""
    return tuple(t.value for t in evaluate("backward", kind, (dy, a, b), wide_dtype(a.dtype)))


def trusted(direction, kind, operands):
    """The results in the operands' dtype: the same formulas in the compute dtype, rounded once."""
    dtype = operands[0].dtype
    with np.errstate(all="ignore"):
        return [t.value.astype(dtype) for t in evaluate(direction, kind, operands, compute_dtype(dtype))]


# ---------------------------------------------------------------- how far off a result may be


def spacing(values, dtype):
    """The distance between neighbours of `dtype` at the given values of a wider dtype."""
    info = ml_dtypes.finfo(dtype)
    real = values.dtype.type
    _, exponent = np.frexp(np.where(np.isfinite(values) & (values != 0), values, real(info.tiny)))
    return np.maximum(np.ldexp(real(info.eps), exponent - 1), real(info.smallest_subnormal))


def _rounding(expected, dtype):
    """One rounding of the compute dtype, at the scale of the formula's terms."""
    info = ml_dtypes.finfo(compute_dtype(dtype))
    real = expected.value.dtype.type
    return real(info.eps) / 2 * expected.scale + real(info.tiny) * expected.reach


def _unit(expected, dtype):
    """The unit of the place that errors count in."""
    return spacing(expected.value, dtype) + _rounding(expected, dtype)


def _error(result, expected):
    return np.abs(result.astype(expected.value.dtype) - expected.value)


_LOWEST, _HIGHEST = -3, 8  # exponents of b that are told apart


def _bins(b):
    _, exponent = np.frexp(np.where(np.isfinite(b), b, 0).astype(np.float64))
    return np.clip(exponent, _LOWEST, _HIGHEST) - _LOWEST, (b < 0).astype(int)


@cache
def calibration(direction, kind, dtype):
    """For each result, the trusted version's largest error, by the exponent and sign of b."""
    rng = np.random.default_rng(20240611)
    count = 8000 * (_HIGHEST - _LOWEST + 1)
    exponents = rng.uniform(_LOWEST - 4, _HIGHEST, count)
    b = (rng.choice([-1.0, 1.0], count) * 2.0**exponents).astype(dtype)
    operands = [*(rng.standard_normal((2, count)).astype(dtype)), b]
    operands = operands[1:] if direction == "forward" else operands
    found = []
    expectations = evaluate(direction, kind, operands, wide_dtype(dtype))
    for result, expected in zip(trusted(direction, kind, operands), expectations, strict=True):
        # At least what makes a correctly rounded result pass: half the spacing, which is less than a unit.
        table = np.full((_HIGHEST - _LOWEST + 1, 2), 0.25)
        units = _error(result, expected) / _unit(expected, dtype)
        np.maximum.at(table, _bins(b), units.astype(np.float64))
        found.append(table)
    return found


def sample(dtype, count=4001):
    """dy, a and b: b dense around 0, and out to where everything saturates."""
    rng = np.random.default_rng(5)
    far = np.geomspace(12, 200, count // 8)
    b = np.concatenate([np.linspace(-12, 12, count), far, -far, [0.0, -0.0]])
    return [x.astype(dtype) for x in (*rng.standard_normal((2, b.size)), b)]


def assert_accurate(direction, kind, results, operands, gate="second"):
    """Check results against the oracle, by the rule at the top.

    Args:
        direction, kind: of the operation.
        results: [y], or [da, db], in the operands' dtype.
        operands: (a, b) or (dy, a, b), all NumPy arrays of one dtype.
        gate: which half passed through g.
    """
    *dy, a, b = operands
    if gate == "first":
        a, b, results = b, a, results[::-1]
    dtype = b.dtype
    expectations = evaluate(direction, kind, (*dy, a, b), wide_dtype(dtype))
    names = ("y",) if direction == "forward" else ("dy g(b)", "dy a g'(b)")
    for k, (name, result, expected) in enumerate(zip(names, results, expectations, strict=True)):
        assert result.dtype == dtype and result.shape == expected.value.shape
        with np.errstate(all="ignore"):
            rounded = expected.value.astype(dtype).astype(np.float64)
            units = 2 * calibration(direction, kind, dtype)[k][_bins(b)] + _ORACLE_UNITS
            allowed = units * _unit(expected, dtype) + _rounding(expected, dtype)
            if kind == "geglu" and dtype.itemsize == 2:
                allowed = allowed + _NARROW_TAIL * expected.scale
            error = _error(result, expected)
        got = result.astype(np.float64)
        finite = np.isfinite(rounded)
        wrong = np.where(finite, ~(error <= allowed), ~((got == rounded) | (np.isnan(got) & np.isnan(rounded))))
        if wrong.any():
            where = tuple(np.argwhere(wrong)[0])
            inputs = ", ".join(
                f"{n}={x[where]!r}" for n, x in zip(("dy", "a", "b")[-len(operands) :], (*dy, a, b), strict=True)
            )
            raise AssertionError(
                f"{direction} {kind} {dtype}: {name} is wrong in {wrong.sum()} of {wrong.size} elements; at "
                f"{where}, with {inputs}, it is {got[where]!r}, should be {expected.value[where]!r}: "
                f"error {error[where]:.3g}, allowed {allowed[where]:.3g}"
            )
