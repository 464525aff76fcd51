"""The oracle of elementwise functions against itself, NumPy and SciPy."""

from __future__ import annotations

import math
import operator

import elementwise_oracle as oracle
import numpy as np
import pytest
import scipy.special
from elementwise_oracle import GRADIENTS, LIMITS, differences, mp

FLOAT32, FLOAT64, FLOAT16, BFLOAT16 = (oracle.DTYPES[k] for k in range(4))
OPTIONS = {"threshold": {"threshold": 0.1, "value": 20.0}}
#: What else to try than the defaults.
MORE_OPTIONS = {
    "leaky_relu": {"negative_slope": 0.25},
    "elu": {"alpha": 1.5},
    "celu": {"alpha": 0.75},
    "softplus": {"beta": 2.0, "threshold": 10.0},
    "hardtanh": {"low": -2.0, "high": 0.5},
    "softshrink": {"lambd": 1.25},
    "hardshrink": {"lambd": 0.0},
    "addcmul": {"value": -0.75},
    "addcdiv": {"value": 3.0},
}
CASES = [(name, OPTIONS.get(name, {})) for name in oracle.VALUES] + list(MORE_OPTIONS.items())
NAMES = [name + "+" * bool(options) for name, options in CASES]
#: Of equal zeros any may come back.
ANY_ZERO = {"maximum", "minimum", "fmax", "fmin", "clamp", "relu", "relu6", "softshrink", "threshold"}
PREDICATES = {"isnan", "isinf", "isfinite", "logical_not", "equal", "not_equal", "less", "less_equal", "greater"}
PREDICATES |= {"greater_equal", "logical_and", "logical_or", "logical_xor"}


def count_of(name):
    return 1 + (name in oracle.BINARY) + 2 * (name in oracle.TERNARY)


def arguments(name, dtype, number=1500):
    """Special values, all of them or mixed with each other, and random ones of every size."""
    rng, special, count = np.random.default_rng(3), oracle.SPECIALS[dtype], count_of(name)
    scales = 2.0 ** rng.integers(-12, 13, (count, number))
    close = (rng.standard_normal((count, number)) * rng.choice([1.0, 3.0, 20.0], (count, number))).astype(dtype)
    wide = (rng.standard_normal((count, number)) * scales).astype(dtype)
    if count == 1:
        found = [np.concatenate([special, close[0][:200], wide[0][:200]])]
    else:
        mixed = rng.choice(special, (count, number))
        found = [np.concatenate(row) for row in zip(mixed, close, wide, strict=True)]
    if name == "ldexp":
        found[1] = rng.integers(-300, 300, found[1].shape)
    return found


# ---------------------------------------------------------------- values


def test_the_tables_have_the_same_names():
    assert set(oracle.VALUES) == set(oracle.VECTORS) == set(oracle.UNARY + oracle.BINARY + oracle.TERNARY)
    assert set(GRADIENTS) == set(oracle.VALUES) - PREDICATES


def assert_close(found, wanted, signs=True, tolerance=1e-13):
    assert found.shape == wanted.shape
    for mine, theirs in zip(found, wanted, strict=True):
        if isinstance(theirs, bool):
            assert isinstance(mine, np.bool_) and mine == theirs
        elif isinstance(theirs, float):
            assert mine == theirs or (math.isnan(mine) and math.isnan(theirs))
            assert not signs or theirs or math.copysign(1, mine) == math.copysign(1, theirs)
        elif math.isinf(mine):
            assert mine * mp.sign(theirs) > 0 and abs(theirs) > 1.797e308
        else:
            assert abs(mine - theirs) <= tolerance * abs(theirs) + mp.mpf(10) ** -300, (mine, theirs)


@pytest.mark.each_alone(paired=True)
@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16], ids=str)
@pytest.mark.parametrize("name, options", CASES, ids=NAMES)
def test_vectors_are_the_exact_values(name, options, dtype):
    inputs = arguments(name, dtype, 400)
    found, wanted = oracle.vector(name, *inputs, **options), oracle.exact_array(name, *inputs, **options)
    assert_close(found, wanted, signs=name not in ANY_ZERO)


def test_vectors_where_terms_cancel():
    a, b = np.float32(np.random.default_rng(2).uniform(0.1, 3, (2, 200)))
    a = np.float32(a - 3)
    third = 1 / 3
    cases = {
        "logaddexp": ((a, np.float32(np.log(-np.expm1(np.float64(a))))), {}),
        "addcmul": ((np.float32(-a * b / 3), a, b), {"value": third}),
        "addcdiv": ((np.float32(-a / b / 3), a, b), {"value": third}),
        "lerp": ((a, b, np.float32(a / (a - b))), {}),
        "lgamma": ((np.float32(np.concatenate([1 + a / 1000, 2 - b / 1e5, -2.4570247 + a / 1e6])),), {}),
        "digamma": ((np.float32(np.concatenate([1.4616321 + a / 1e6, -0.50408304 + b / 1e6])),), {}),
        "tanhshrink": ((a / 1000,), {}),
        "fma": ((a, b, -a * b), {}),
    }
    for name, (inputs, options) in cases.items():
        assert_close(oracle.vector(name, *inputs, **options), oracle.exact_array(name, *inputs, **options))


@pytest.mark.parametrize(
    "name", ["add", "subtract", "multiply", "divide", "fmod", "sqrt", "rsqrt", "reciprocal", "square"]
)
def test_one_rounding_of_float64(name):
    """The tables of float64: NumPy rounds these functions once, so the rest of the error would be the oracle's."""
    inputs = arguments(name, FLOAT64, 400)
    found = oracle.vector(name, *inputs)
    errors = oracle.ulps(found, oracle.exact_array(name, *inputs), FLOAT64, zeros=True)
    assert errors.max() <= (0 if name == "fmod" else 1.5 if name == "rsqrt" else 0.5)


NUMPYS = [
    name
    for name in oracle.VALUES
    if isinstance(getattr(np, name, None), np.ufunc) and oracle.VECTORS[name] is getattr(np, name)
]


@pytest.mark.parametrize("name", NUMPYS)
def test_float64_is_numpys(name):
    inputs = arguments(name, FLOAT64, 300)
    with np.errstate(all="ignore"):
        found, wanted = getattr(np, name)(*inputs), oracle.exact_array(name, *inputs)
    if name in PREDICATES:
        np.testing.assert_array_equal(found, wanted)
    elif name == "floor_divide":
        # NumPy's own is off where the quotient needs more than 53 bits.
        assert_close(found, wanted, tolerance=1e-15)
    else:
        assert oracle.ulps(found, wanted, FLOAT64, zeros=name not in ANY_ZERO).max() <= 8


@pytest.mark.parametrize(
    "name, scipys",
    [
        *((name, getattr(scipy.special, name)) for name in ("erf", "erfc", "erfinv")),
        ("lgamma", scipy.special.gammaln),
        ("digamma", scipy.special.digamma),
        ("sigmoid", scipy.special.expit),
        ("log_sigmoid", scipy.special.log_expit),
        ("logaddexp", np.logaddexp),
    ],
)
def test_special_functions_are_scipys(name, scipys):
    inputs = [x[np.isfinite(x) & (np.abs(x) < 1e5)] for x in arguments(name, FLOAT32, 300)]
    inputs = [x[: min(map(len, inputs))].astype(np.float64) for x in inputs]
    # SciPy is off near the zeros of the gamma functions.
    np.testing.assert_allclose(oracle.vector(name, *inputs), scipys(*inputs), rtol=1e-9, atol=1e-12)


def test_log_gamma_is_maths():
    for x in oracle.SPECIALS[FLOAT64]:
        if abs(x) < 1e300 and (x > 0 or x != np.floor(x)):
            assert abs(oracle.exact("lgamma", x) - math.lgamma(x)) <= 1e-13 * max(1, abs(math.lgamma(x)))


@pytest.mark.parametrize(
    "name, numbers, wanted",
    [
        ("exp", (1,), "2.7182818284590452353602874713526624977572470937"),
        ("erfinv", (0.5,), "0.476936276204469873381418353643130559808969749059"),
        ("lgamma", (0.5,), "0.57236494292470008707171367567652935582364740645766"),
        ("digamma", (1,), "-0.57721566490153286060651209008240243104215933593992"),
        ("atan2", (math.inf, -math.inf), "2.3561944901923449288469825374596271631478770495313"),
        ("tanhshrink", (2.0**-300,), None),
        ("fma", (1e308, 1e308, -math.inf), -math.inf),
        ("fma", (0.0, -1.0, -0.0), -0.0),
        ("fma", (1.0, -1.0, 1.0), 0.0),
        ("lerp", (1.0, 1e-30, 1.0), None),
        ("pow", (-8.0, 3.0), "-512"),
        ("pow", (-1.0, math.inf), "1"),
        ("pow", (-0.0, -3.0), -math.inf),
        ("remainder", (-1.0, math.inf), math.inf),
        ("remainder", (-4.0, 2.0), 0.0),
        ("fmod", (-4.0, 2.0), -0.0),
        ("floor_divide", (-1.0, math.inf), "-1"),
        ("floor_divide", (1.0, -0.0), -math.inf),
        ("round", (2.5,), "2"),
        ("round", (-0.5,), -0.0),
        ("fmax", (math.nan, 1.0), "1"),
        ("rsqrt", (-0.0,), -math.inf),
        ("digamma", (-0.0,), math.inf),
        ("selu", (-math.inf,), "-1.75809934084737685994021752081231"),
    ],
)
def test_known_values(name, numbers, wanted):
    found = oracle.exact(name, *numbers)
    if wanted is None:
        wanted = {"lerp": mp.mpf(1e-30), "tanhshrink": mp.mpf(2) ** -900 / 3}[name]
    if isinstance(wanted, float):
        assert isinstance(found, float) and found == wanted and math.copysign(1, found) == math.copysign(1, wanted)
    else:
        assert abs(found - mp.mpf(wanted)) <= abs(found) * mp.mpf(10) ** -30


def test_limits_are_those_the_formulas_miss():
    for name, limits in LIMITS.items():
        for end, limit in limits.items():
            assert math.isnan(oracle.exact(name, end)) and math.isnan(oracle.vector(name, end))
            assert abs(float(oracle.exact(name, math.copysign(1e20, end))) - limit) < 1e-15


# ---------------------------------------------------------------- gradients

#: Where functions are defined; inputs are drawn from here, (low, high) for each.
DOMAINS = {
    **dict.fromkeys(("sqrt", "rsqrt", "log", "log2", "log10"), ((0.01, 20),)),
    **dict.fromkeys(("asin", "acos", "atanh", "erfinv"), ((-0.98, 0.98),)),
    "log1p": [(-0.98, 20)],
    "acosh": [(1.02, 20)],
    "pow": [(0.1, 5), (-4, 4)],
    "where": [(0, 1), (-3, 3), (-3, 3)],
    "ldexp": [(-3, 3), (-5, 5)],
    "clamp": [(-4, 4), (-3, -0.01), (0, 3)],
    "erf": [(-5, 5)],
    "erfc": [(-5, 5)],
}
#: Functions of one number with kinks or jumps, and where.
KINKS = {
    **dict.fromkeys(("abs", "sign", "relu", "leaky_relu", "elu", "selu", "celu", "squared_relu"), (0,)),
    **dict.fromkeys(("floor", "ceil", "trunc", "frac", "cbrt", "reciprocal"), range(-9, 10)),
    "round": [k + 0.5 for k in range(-9, 9)],
    "relu6": [0, 6],
    "hardtanh": [-2, -1, 0.5, 1],
    "softshrink": [-0.5, 0.5, -1.25, 1.25],
    "hardshrink": [-0.5, 0.5, 0],
    "threshold": [0.1],
    "hardsigmoid": [-3, 3],
    "hardswish": [-3, 3],
    "softplus": [5, 20],
    "lgamma": range(-9, 1),
    "digamma": range(-9, 1),
    "tan": [k * np.pi / 2 for k in (-5, -3, -1, 1, 3, 5)],
}
#: Functions of more numbers that have one where a quotient is whole, where numbers are equal, or where one is 0.
WHOLE, EQUAL, ZERO = (
    {"floor_divide", "remainder", "fmod"},
    {"maximum", "minimum", "fmax", "fmin"},
    {"copysign", "prelu"},
)


def smooth_points(name, number):
    rng = np.random.default_rng(7)
    domain = DOMAINS.get(name, [(-8, 8)] * count_of(name))
    rows = [np.float32(rng.uniform(low, high, number)) for low, high in domain]
    if name in ("ldexp", "where"):
        k = {"ldexp": 1, "where": 0}[name]
        rows[k] = np.rint(rows[k])
    good = np.all([np.abs(row) > 0.01 for k, row in enumerate(rows) if (name, k) != ("where", 0)], axis=0)
    if name not in ("ldexp", "where", "clamp"):
        good &= np.all([np.abs(row) < 100 for row in rows], axis=0)
    for kink in KINKS.get(name, ()):
        good &= np.abs(rows[0] - kink) > 0.01
    if name in WHOLE:
        quotient = rows[0] / rows[1]
        good &= (np.abs(quotient - np.rint(quotient)) > 0.01) & (np.abs(quotient) < 50)
    if name in EQUAL:
        good &= np.abs(rows[0] - rows[1]) > 0.01
    if name == "clamp":
        good &= (np.abs(rows[0] - rows[1]) > 0.01) & (np.abs(rows[0] - rows[2]) > 0.01)
    return [row[good] for row in rows]


@pytest.mark.parametrize(
    "name, options",
    [case for case in CASES if case[0] in GRADIENTS],
    ids=[n for n in NAMES if n.strip("+") in GRADIENTS],
)
def test_gradients_are_differences(name, options):
    points = smooth_points(name, 40)
    assert len(points[0]) > 20
    found = GRADIENTS[name](*points, **options)
    assert len(found) == count_of(name)
    for k, point in enumerate(zip(*points, strict=True)):
        for part, wanted in zip(found, differences(name, *point, **options), strict=True):
            assert (part is None) == (wanted is None)
            if part is not None:
                # Terms that cancel are of the size of 1 in all of these.
                assert abs(part[k] - wanted) <= 1e-12 * abs(wanted) + 2e-15, (point, part[k], wanted)


@pytest.mark.parametrize(
    "name, point, wanted",
    [
        *((name, (0.0,), (0,)) for name in ("relu", "abs", "relu6", "squared_relu", "sign", "floor")),
        ("relu6", (6.0,), (0,)),
        ("hardtanh", (1.0,), (0,)),
        ("hardtanh", (-1.0,), (0,)),
        ("softshrink", (0.5,), (0,)),
        ("hardshrink", (-0.5,), (0,)),
        ("hardsigmoid", (3.0,), (0,)),
        ("hardswish", (-3.0,), (0,)),
        ("hardswish", (3.0,), (1,)),
        ("maximum", (2.0, 2.0), (0.5, 0.5)),
        ("minimum", (-0.0, 0.0), (0.5, 0.5)),
        ("fmax", (2.0, 2.0), (1, 0)),
        ("fmin", (2.0, math.nan), (1, 0)),
        ("fmax", (math.nan, 2.0), (0, 1)),
        ("clamp", (1.0, 1.0, 2.0), (1, 0, 0)),
        ("clamp", (2.0, 1.0, 2.0), (1, 0, 0)),
        ("clamp", (0.0, 1.0, 2.0), (0, 1, 0)),
        ("clamp", (0.0, 2.0, 1.0), (0, 0, 1)),
        ("pow", (0.0, 0.0), (0, 0)),
        ("pow", (0.0, 2.0), (0, 0)),
        ("copysign", (0.0, -1.0), (0, 0)),
        ("elu", (0.0,), (1,)),
        ("leaky_relu", (0.0,), (0.01,)),
    ],
)
def test_gradients_at_kinks(name, point, wanted):
    assert tuple(float(part) for part in GRADIENTS[name](*point)) == wanted


# ---------------------------------------------------------------- integers and complex numbers

WHOLES = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "floor_divide": lambda a, b: a // b if b else 0,
    "remainder": lambda a, b: a % b if b else 0,
    "fmod": lambda a, b: int(math.copysign(1, a)) * (abs(a) % abs(b)) if b else 0,
    "maximum": max,
    "fmin": min,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
}


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64])
def test_integers_are_pythons(dtype):
    limits, bits = np.iinfo(dtype), 8 * np.dtype(dtype).itemsize
    some = [limits.min, limits.min + 1, limits.max - 1, limits.max, *range(max(limits.min, -20), 21)]
    a, b = (np.array(x.ravel(), dtype) for x in np.meshgrid(*[np.array(some, dtype)] * 2))

    def wrapped(number):
        return np.array(number % 2**bits, f"u{bits // 8}").view(dtype)

    for name, formula in WHOLES.items():
        wanted = [wrapped(formula(int(x), int(y))) for x, y in zip(a, b, strict=True)]
        found = oracle.integer(name, dtype, a, b)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, wanted, err_msg=name)
    for count in (0, 1, bits - 1, bits, bits + 1, 100):
        left, right = (oracle.integer(f"{way}_shift", dtype, a, np.full_like(a, count)) for way in ("left", "right"))
        np.testing.assert_array_equal(left, [wrapped(int(x) << count) for x in a])
        np.testing.assert_array_equal(right, [int(x) >> count for x in a])
    assert oracle.integer("clamp", dtype, [5, 1], [2, 2], [3, 3]).tolist() == [3, 2]
    assert oracle.integer("where", dtype, [True, False], [5, 1], [7, 8]).tolist() == [5, 8]


def test_bools_and_complex_numbers():
    assert oracle.integer("logical_xor", bool, [True, True], [False, True]).tolist() == [True, False]
    assert oracle.integer("add", bool, [True], [True]).dtype == bool
    rng = np.random.default_rng(5)
    z = (rng.standard_normal(50) + 1j * rng.standard_normal(50)).astype(np.complex64)
    for name in ("exp", "log", "sqrt", "sin", "tanh", "asinh", "expm1", "square"):
        wanted = [complex(getattr(mp, name, lambda v: v * v)(complex(v))) for v in z]
        np.testing.assert_allclose(oracle.complex_(name, z), wanted, rtol=1e-13)
    assert oracle.complex_("abs", z).dtype == np.float64 and oracle.complex_("equal", z, z).all()
    np.testing.assert_allclose(oracle.complex_("rsqrt", z) ** 2 * z, 1, rtol=1e-13)
