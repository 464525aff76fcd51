"""Values of elementwise functions against the oracle: special values, all 16-bit numbers, random bits."""

from __future__ import annotations

import math

import elementwise_oracle as oracle
import mpmath
import numpy as np
import pytest
from elementwise_cases import CANCELS, LIMITS, NAMES, NUMPYS, OPTIONS, VANISHES, arrays_of, options_of
from in_one import in_one

import numbacc
from numbacc import elementwise, gated
from numbacc.elementwise.rows import TABLE

NARROW = [dtype for dtype in oracle.DTYPES if dtype != np.float64]


def inputs(name, dtype, slow):
    """Arguments of a function: special values, beside random ones; all numbers where they are few enough."""
    rng = np.random.default_rng(7)
    count = 300 if slow else 30000
    if len(arrays_of(name)) == 1 or name == "threshold":
        if dtype.itemsize == 2 and not slow:
            return [oracle.all_16_bit(dtype)]
        words = rng.integers(0, 2**dtype.itemsize * 8, count, np.uint64) if slow else _words(rng, dtype, 10 * count)
        found = [oracle.SPECIALS[dtype], rng.normal(0, 3, count).astype(dtype), rng.uniform(-1, 1, count).astype(dtype)]
        return [np.concatenate([*found, words.astype(f"u{dtype.itemsize}").view(dtype)])]
    names = arrays_of(name)
    specials = oracle.SPECIALS[dtype][:: (31 if slow else 3 if len(names) == 2 else 13)]
    grid = [each.ravel() for each in np.meshgrid(*[specials] * len(names))]
    return [np.concatenate([each, rng.normal(0, 4, count).astype(dtype)]) for each in grid]


def _words(rng, dtype, count):
    return rng.integers(0, 2 ** (8 * dtype.itemsize), count, dtype=np.uint64)


def arguments(name, dtype, slow):
    """(arrays, all arguments) of a call."""
    xs = inputs(name, dtype, slow)
    if name == "threshold":
        return xs, [*xs, 0.25, -2.0]
    if name == "where":
        xs = [xs[0] > 0, *xs[1:]]
    if name == "ldexp":
        xs = [xs[0], np.random.default_rng(3).integers(-300, 300, xs[0].size).astype(np.int32)]
    return xs, xs


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_values(place, name, dtype):
    xs, given = arguments(name, dtype, place.is_slow)
    with np.errstate(all="ignore"):
        options = {"threshold": 0.25, "value": -2.0} if name == "threshold" else options_of(name)
        wanted = oracle.vector(name, *xs, **options)
    found = place.get(getattr(elementwise, name)(*[place.put(x) if isinstance(x, np.ndarray) else x for x in given]))
    if wanted.dtype == bool:
        np.testing.assert_array_equal(found, wanted)
        return
    assert found.dtype == dtype
    off = oracle.ulps(found, wanted, dtype)
    if dtype == np.float32:
        limit = max(LIMITS.get(name, 2), 0 if place.name == "gpu" else NUMPYS.get(name, 0))
        # Of what is scaled, the simulator rounds the steps between.
        limit = limit + 2 if place.is_slow else limit
    else:
        limit = 0.6 if name in LIMITS or name in NUMPYS else 0.51
    wrong = off > limit
    if name in CANCELS:
        size = np.maximum.reduce([np.abs(np.asarray(x, np.float64)) for x in xs])
        with np.errstate(all="ignore"):
            near = np.abs(found.astype(np.float64) - wanted) <= CANCELS[name] * eps(dtype) * np.maximum(size, 1)
        wrong &= ~near & (size < largest(dtype) / 4) & np.isfinite(wanted)
    if name in VANISHES:
        with np.errstate(all="ignore"):
            wrong &= ~(np.abs(found.astype(np.float64) - wanted) < VANISHES[name])
    k = int(np.argmax(np.where(wrong, off, 0)))
    assert not wrong.any(), f"{off[k]} ulp at {[x[k] for x in xs]}: {found[k]}, not {wanted[k]}"


def eps(dtype):
    return {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype.name]


def largest(dtype):
    return 65504.0 if dtype == np.float16 else 3.38e38


@pytest.mark.parametrize("name", NAMES)
def test_float64(place, name):
    """A few hundred values, against 50 digits."""
    rng = np.random.default_rng(5)
    count = 40 if place.is_slow else 200
    xs = [rng.normal(0, 2, count) for _ in arrays_of(name)]
    if name in ("acosh", "log", "sqrt", "rsqrt", "log2", "log10", "pow"):
        xs[0] = np.abs(xs[0]) + 1.0
    if name in ("asin", "acos", "atanh", "erfinv"):
        xs[0] = np.tanh(xs[0])
    options = dict(TABLE[name].options.items())
    given = list(xs)
    if name == "threshold":
        given, options = [xs[0], 0.25, -2.0], {"threshold": 0.25, "value": -2.0}
        xs = xs[:1]
    if name == "where":
        given[0] = xs[0] = xs[0] > 0
    if name == "ldexp":
        given[1] = xs[1] = rng.integers(-300, 300, count)
    wanted = oracle.exact_array(name, *xs, **{OPTIONS.get(k, k): v for k, v in options.items()})
    found = place.get(getattr(elementwise, name)(*[place.put(x) if isinstance(x, np.ndarray) else x for x in given]))
    if found.dtype == bool:
        np.testing.assert_array_equal(found, wanted.astype(bool))
        return
    off = oracle.ulps(found, wanted, np.dtype(np.float64))
    # Where terms cancel an error is small beside 1, that of all arguments here.
    near = np.abs(found - wanted.astype(np.float64)) < 2e-15
    assert (near | (off < 40)).all(), f"{off.max()} ulp at {[x[off.argmax()] for x in xs]}"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "quick_gelu", "silu", "mish", "tanhshrink", "erfc", "sigmoid"])
def test_tails(place, name, dtype):
    """Where an exponential would multiply the rounding error of its argument."""
    low, high = {"erfc": (1, 8), "tanhshrink": (-1.5, 1.5)}.get(name, (-36, -1))
    if dtype == np.float32 or name == "gelu_tanh":
        low, high = max(low, -12), min(high, 8)
    x = np.random.default_rng(11).uniform(low, high, 60 if place.is_slow else 300).astype(dtype)
    off = oracle.ulps(place.get(getattr(elementwise, name)(place.put(x))), oracle.exact_array(name, x), dtype)
    assert off.max() < 6, f"{off.max()} ulp at {x[off.argmax()]}"


def _gelu_slope(x):
    """Φ + x φ."""
    with mpmath.workdps(60):
        return mpmath.ncdf(x) + x * mpmath.npdf(x)


def _gelu_tanh_slope(x):
    """σ + x σ (1 - σ) u', σ of u."""
    with mpmath.workdps(60):
        scale, cubic = 2 * mpmath.sqrt(2 / mpmath.pi), mpmath.mpf("0.044715")
        u = scale * (x + cubic * x**3)
        share = 1 / (1 + mpmath.exp(-u))
        return share + x * share / (1 + mpmath.exp(u)) * scale * (1 + 3 * cubic * x * x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind, slope", [("geglu", _gelu_slope), ("geglu_tanh", _gelu_tanh_slope)])
def test_tails_of_gated_gradients(place, kind, slope, dtype):
    # Further out kernels have subnormal numbers.
    b = np.random.default_rng(11).uniform(-9, -2, 60 if place.is_slow else 300).astype(dtype)
    wanted = np.array([slope(mpmath.mpf(float(each))) for each in b], object)
    one = np.ones_like(b)
    dx = place.get(gated.backward(place.put(one), place.put(np.concatenate([one, b])), kind=kind))
    off = oracle.ulps(dx[b.size :], wanted, dtype)
    assert off.max() < 8, f"{off.max()} ulp at {b[off.argmax()]}"


INTEGERS = [name for name in TABLE if "i" in TABLE[name].row.meanings and name not in ("clamp", "addcmul", "relu")]


@pytest.mark.parametrize("name", INTEGERS)
@in_one("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64", "int16", "uint16"])
def test_integers(place, name, dtype):
    """NumPy's own results: they wrap, and of what is divided by 0 there is 0."""
    kind = np.dtype(dtype)
    if kind.kind not in TABLE[name].row.meanings:
        with pytest.raises(numbacc.DTypeError):
            getattr(elementwise, name)(*[place.put(np.ones(2, kind)) for _ in arrays_of(name)])
        return
    bounds = np.iinfo(kind)
    few = np.array([0, 1, 2, 3, 7, bounds.max, bounds.max - 1, bounds.min, bounds.min + 1], kind)
    few = np.concatenate([few, -few[1:5] if kind.kind == "i" else few[1:5] * kind.type(9)])
    xs = [each.ravel() for each in np.meshgrid(*[few] * len(arrays_of(name)))]
    if name == "pow":
        keep = xs[1] >= 0
        xs = [x[keep] for x in xs]
    with np.errstate(all="ignore"):
        wanted = oracle.integer(name, kind, *xs)
    found = place.get(getattr(elementwise, name)(*map(place.put, xs)))
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", [name for name in TABLE if "c" in TABLE[name].row.meanings])
def test_complex(place, name, dtype):
    rng = np.random.default_rng(3)
    xs = [(rng.normal(0, 1, 300) + 1j * rng.normal(0, 1, 300)).astype(dtype) for _ in arrays_of(name)]
    if name == "where":
        xs[0] = xs[0].real > 0
    wanted = oracle.complex_(name, *xs)
    found = place.get(getattr(elementwise, name)(*map(place.put, xs)))
    assert found.dtype.kind == np.asarray(wanted).dtype.kind
    limit = 1e-5 if dtype == "complex64" else 1e-13
    np.testing.assert_allclose(found, wanted, rtol=limit, atol=limit)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_powers_of_0(place, dtype):
    exponents = np.array([0, 2, 0.5 + 2j, 1 - 1j, -1, -1 + 1j, 1j], dtype)
    found = place.get(elementwise.pow(place.put(np.zeros(7, dtype)), place.put(exponents)))
    np.testing.assert_array_equal(found, [1, 0, 0, 0, *[complex(math.nan, math.nan)] * 3])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_signs_of_infinite_numbers(place, dtype):
    """The direction of one infinite part, NaN of two: as NumPy has it."""
    parts = [0.0, -0.0, 3.0, math.inf, -math.inf, math.nan]
    x = np.array([complex(real, imaginary) for real in parts for imaginary in parts], dtype)
    with np.errstate(all="ignore"):
        wanted = np.sign(x)
    found = place.get(elementwise.sign(place.put(x)))
    np.testing.assert_allclose(found, wanted, rtol=2 * float(np.finfo(dtype).eps))


def test_negative_powers_of_integers(place):
    base = place.put(np.array([1, -1, -1, 2, 0, -3], np.int32))
    exponent = place.put(np.array([-3, -3, -2, -1, -1, -2], np.int32))
    assert place.get(elementwise.pow(base, exponent)).tolist() == [1, -1, 1, 0, 0, 0]


_INF, _NAN = math.inf, math.nan


@pytest.mark.parametrize("name", ["expm1", "log1p"])
def test_small_complex_numbers(device_place, name):
    """To the last digits of both parts, where 1 is not added first, or taken off last."""
    size = np.array([1e-12, 1e-6, 1e-3, 0.3])
    x = size * np.exp(1j * np.array([0.3, 1.2, 2.5, -0.7]))
    wanted = np.array([complex(getattr(mpmath, name)(mpmath.mpmathify(each))) for each in x])
    found = device_place.get(getattr(elementwise, name)(device_place.put(x)))
    for part in ("real", "imag"):
        np.testing.assert_allclose(getattr(found, part), getattr(wanted, part), rtol=1e-12)


#: Base, exponents, result: what C says of pow, and the array API standard.
_ODD, _EVEN, _FRACTIONS = [3.0, 1.0], [2.0, 4.0, 1024.0], [0.5, 1.5, 0.25]
POWERS = [
    *((base, [0.0, -0.0], 1.0) for base in (0.0, -0.0, 1.0, -1.0, 2.5, _INF, -_INF, _NAN)),
    *((base, [_NAN], _NAN) for base in (0.0, -0.0, -1.0, 2.5, _INF, -_INF, _NAN)),
    (1.0, [*_ODD, *_EVEN, *_FRACTIONS, _INF, -_INF, _NAN, -0.5], 1.0), (-1.0, [_INF, -_INF, *_EVEN], 1.0),
    (-1.0, _ODD, -1.0), (_NAN, [*_ODD, *_FRACTIONS, _INF, -_INF, -1.0], _NAN),
    *((base, [_INF], _INF) for base in (1.5, -1.5, _INF, -_INF)),
    *((base, [-_INF], 0.0) for base in (1.5, -1.5, _INF, -_INF)),
    *((base, [_INF], 0.0) for base in (0.5, -0.5, 0.0, -0.0)),
    *((base, [-_INF], _INF) for base in (0.5, -0.5, 0.0, -0.0)),
    (_INF, [*_ODD, *_EVEN, *_FRACTIONS], _INF), (_INF, [-1.0, -2.0, -0.5], 0.0),
    (-_INF, _ODD, -_INF), (-_INF, [*_EVEN, *_FRACTIONS], _INF), (-_INF, [-1.0, -3.0], -0.0),
    (-_INF, [-2.0, -0.5, -1.5], 0.0),
    (0.0, [*_ODD, *_EVEN, *_FRACTIONS], 0.0), (0.0, [-1.0, -2.0, -0.5], _INF),
    (-0.0, _ODD, -0.0), (-0.0, [*_EVEN, *_FRACTIONS], 0.0), (-0.0, [-1.0, -3.0], -_INF), (-0.0, [-2.0, -0.5], _INF),
    (-2.0, [*_FRACTIONS, -0.5], _NAN),
]  # fmt: skip


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("how", ["arrays", "number"])
def test_special_cases_of_powers(place, how, dtype):
    rows = [(base, exponent, wanted) for base, exponents, wanted in POWERS for exponent in exponents]
    base, exponent, wanted = np.array(rows).T
    if how == "arrays":
        found = place.get(elementwise.pow(place.put(base.astype(dtype)), place.put(exponent.astype(dtype))))
    else:
        # NumPy has ways of its own where all exponents are the same.
        each = {e: elementwise.pow(place.put(base[exponent == e].astype(dtype)), float(e)) for e in exponent if e == e}
        each[_NAN] = elementwise.pow(place.put(base[np.isnan(exponent)].astype(dtype)), _NAN)
        found = np.empty(base.shape, dtype)
        for e, part in each.items():
            found[(exponent == e) | (np.isnan(exponent) & (e != e))] = place.get(part)
    found = found.astype(np.float64)
    np.testing.assert_array_equal(found, wanted, err_msg=str(rows))
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(wanted)[known])


@pytest.mark.parametrize(
    "x, y, z, wanted",
    [
        (-0.0, 0.0, -0.0, -0.0), (-2.0, 0.0, -0.0, -0.0), (0.0, 1.0, -0.0, 0.0), (1.5e308, 2.0, -1.5e308, 1.5e308),
        (1.5e308, 1.5e308, -_INF, -_INF), (-1.5e308, 1.5e308, _INF, _INF), (1.5e308, 2.0, 1.0, _INF),
        (1.0, _NAN, 1.0, _NAN), (_INF, 1.0, -_INF, _NAN), (1.0 + 2.0**-52, 1.0 + 2.0**-52, -1.0 - 2.0**-51, 2.0**-104),
    ],
)  # fmt: skip
def test_products_within_fma_are_exact(place, x, y, z, wanted):
    one, two, three = (place.put(np.array([each])) for each in (x, y, z))
    found = place.get(elementwise.fma(one, two, three))
    np.testing.assert_array_equal(found, [wanted])
    assert np.signbit(found[0]) == np.signbit(wanted) or wanted != wanted


@pytest.mark.parametrize("name", ["hardtanh", "relu6", "relu", "quick_gelu", "gelu", "gelu_tanh"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ends_of_activations(place, name, dtype):
    top = np.finfo(dtype).max
    x = np.array([0.0, -0.0, top, -top, _INF, _NAN]).astype(dtype)
    options = {"min_val": 0.0, "max_val": 6.0} if name == "hardtanh" else {}
    found = place.get(getattr(elementwise, name)(place.put(x), **options))
    bounded = name in ("hardtanh", "relu6")
    zero, end = (0.0, 0.0) if bounded or name == "relu" else (-0.0, -0.0), 6.0 if bounded else top
    np.testing.assert_array_equal(found, np.array([0.0, zero[0], end, zero[1], 6.0 if bounded else _INF, _NAN], dtype))
    assert np.signbit(found[1]) == np.signbit(zero[0]) and np.signbit(found[3]) == np.signbit(zero[1])


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_lgamma_at_infinities(place, dtype):
    x = np.array([-_INF, _INF, -3.0, 0.0, -0.0]).astype(dtype)
    assert (place.get(elementwise.lgamma(place.put(x))).astype(np.float64) == _INF).all()


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("name", ["silu", "gelu", "gelu_tanh", "quick_gelu", "mish", "hardswish", "log_sigmoid"])
def test_signs_of_zeros(place, name, dtype):
    """As torch's: gates have their argument's sign, log_sigmoid that of a sum."""
    found = place.get(getattr(elementwise, name)(place.put(np.array([-0.0, 0.0, -6e4, 6e4]).astype(dtype))))
    wanted = [True, True, True, False] if name == "log_sigmoid" else [True, False, True, False]
    assert np.signbit(found.astype(np.float64)).tolist() == wanted
