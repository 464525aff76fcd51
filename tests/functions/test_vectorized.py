"""Formulas on NumPy arrays, against the same formulas number by number."""

from __future__ import annotations

import inspect
import itertools
import linecache
import math
import sys

import numpy as np
import pytest

from numbacc.functions import arithmetic, epilogues, gates
from numbacc.functions.symbolic import derivatives
from numbacc.functions.symbolic.derive import backward, written
from numbacc.functions.symbolic.ieee_math import IEEE_MATH, copied
from numbacc.functions.symbolic.vectorized import vectorized
from numbacc.reference import c_library

TINY, LARGEST = 2.0**-1074, np.finfo(np.float64).max
SPECIAL = np.array(
    [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 40.5, 710.0, 1e5, 2.0**53, 1e200, LARGEST, math.inf, TINY, 1e-310, 1e-17]
)
SPECIAL = np.concatenate([SPECIAL, -SPECIAL, [math.nan]])
RANDOM = np.random.default_rng(3).standard_normal(300) * np.geomspace(1e-3, 1e3, 300)
ONE = np.concatenate([SPECIAL, RANDOM])
#: Units in the last place that NumPy's functions and the C library's may differ by. On processors with AVX-512 NumPy's
#: own are good to 4; those on others, and all operators, to 2 and 0.
ULPS = 4


def places(count):
    """Arrays of arguments: every pair, or triple, of special numbers, and random ones."""
    if count == 1:
        return (ONE,)
    special = SPECIAL if count == 2 else SPECIAL[::3]
    rng = np.random.default_rng(count)
    pairs = np.array(list(itertools.product(special, repeat=count)))
    return tuple(np.concatenate([column, rng.permutation(RANDOM)]) for column in pairs.T)


def number_by_number(function, arrays):
    """What kernels are given of a formula, of one number after the other, with `math` as a GPU has it."""
    own = copied(written(function, "own", gradient=False), lambda value: IEEE_MATH if value is math else value)
    with np.errstate(all="ignore"):
        return np.array([own(*numbers) for numbers in zip(*arrays, strict=True)], np.float64).T


def check(function, ulps=0, zeros=True):
    arrays = places(len(inspect.signature(function).parameters))
    found, wanted = vectorized(function, "own")(*arrays), number_by_number(function, arrays)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == np.float64 and one.shape == arrays[0].shape
        with np.errstate(all="ignore"):
            close = (one == other) | (np.abs(one - other) <= ulps * np.spacing(np.abs(other)))
        close |= np.isnan(one) & np.isnan(other)
        if zeros:
            close &= (np.signbit(one) == np.signbit(other)) | (one != 0) | np.isnan(other)
        assert close.all(), [(*(x[k] for x in arrays), one[k], other[k]) for k in np.flatnonzero(~close)[:5]]


# ---------------------------------------------------------------- operators and functions

#: Python makes integers of these, whose zeros have no sign.
WHOLE = (math.floor, math.ceil, math.trunc)
#: Python computes these in another way than NumPy and the C library do.
ROUGH = {arithmetic.cbrt: 200, math.gamma: 20, math.lgamma: 100}
#: Of exp(-x²/2) and of what is made of it Python's formula loses up to x²/2 units, which NumPy's is corrected for.
SQUARES = 1000
ROUGH |= {arithmetic.gaussian: SQUARES, arithmetic.normal_tail: SQUARES}


def tail(x):
    """`normal_tail` is for the e that belongs to x."""
    return arithmetic.normal_tail(x, arithmetic.gaussian(x))


FUNCTIONS = [f for f in derivatives.RULES if not isinstance(f, str)] + [math.gamma, math.lgamma]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_functions(function):
    names = ", ".join("xyzuv"[: derivatives.numbers_of(function)])
    formula = eval(f"lambda {names}: f({names})", {"f": function})
    if function is arithmetic.normal_tail:
        formula = tail
    check(formula, ROUGH.get(function, ULPS), zeros=function not in WHOLE)


def test_functions_that_only_some_pythons_have():
    for function in derivatives.OURS:
        (found,) = vectorized(lambda x: function(x), "own")(RANDOM[:200])  # noqa: B023
        np.testing.assert_allclose(found, [function(x) for x in RANDOM[:200].tolist()], rtol=1e-15)


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "==", "!="])
def test_operators(operator):
    for text in ("x {} y", "2.5 {} x", "x {} 3", "x {} -0.0", "-x {} -y"):
        names = "x, y" if "y" in text else "x"
        check(eval(f"lambda {names}: " + text.format(operator)))


@pytest.mark.parametrize("exponent", [-1, -0.5, 0, 0.5, 1, 2, 2.0, 3, 1 / 3, 65, math.inf, math.nan])
def test_powers(exponent):
    check(lambda x: x**exponent, 1)
    check(lambda x: exponent**x, 1)
    check(lambda x: math.pow(x, exponent), 1)


def test_powers_of_two_arrays():
    check(lambda x, y: x**y, 1)
    (found,) = vectorized(lambda x, y: x**y, "own")([[-math.inf], [-0.0], [4.0]], [0.5, 2.0])
    np.testing.assert_array_equal(found, [[math.inf, math.inf], [0, 0], [2, 16]])


# ---------------------------------------------------------------- branches


def nested(x, y):
    if x > 0:
        if y > x:
            return y - x
        return x - y if y != 0 else -x
    if not x <= -1.5 and (y < 2 or x == -1):
        return x * y
    return 3


def ranges(x):
    """Chained comparisons and values of `and` and `or`."""
    inside = -1 < x <= 2.5
    return (x or 7.0) + (inside and x * 2), 0 <= abs(x) < 1, not inside


def looping(x, y):
    total, sign = 0.0, 1
    for k in range(1, 4):
        if k % 2 and x > k:
            total += (x - y) / k
            continue
        total -= sign * min(x, k) * y
        sign = -sign
    return total


def closing(x, y):
    scale = 0.5

    def inner(z, by=3):
        return z * by + scale * helper(x)

    return inner(y) if x >= y else inner(x, by=-2), x


def helper(x):
    return -x if x < 0 else x


def constants(x, y):
    if x != x:
        return math.nan, y, True, -math.inf
    return 1, 2.5, False, x


BRANCHES = [
    nested, ranges, looping, closing, constants, helper, gates.relu, gates.reglu_backward, gates.reglu_forward,
    lambda x: x, lambda x, y: (y, x, x, -0.0), lambda x: 7, lambda x: (x > 0) + (x > 1) - (x < 0) * x,
    lambda x: -(x > 0), lambda x, y: (x < y) == (y < 1), lambda x: math.isnan(x) + math.isinf(x) * 2.0,
    lambda x: 1.0 if math.isfinite(x) and x else -1.0, lambda x: 2**70 * x + True, lambda x: math.sqrt(abs(x)) / x,
    lambda x, y: max(x, y) - min(x, y), lambda x, y: max(x, 0.0, y) * min(1, x), lambda x: 1.0 / (x * 0.0),
]  # fmt: skip


@pytest.mark.parametrize("function", BRANCHES, ids=lambda f: f.__name__)
def test_branches(function):
    check(function)


@pytest.mark.parametrize("name", [name for name in epilogues.FORMULAS if name != "copy"])
def test_numbaccs_own_formulas(name):
    """Products of what differs in the last places differ a little more."""
    check(epilogues.FORMULAS[name].function, SQUARES if name.endswith("geglu") else 64, zeros=False)


@pytest.mark.parametrize("function", [nested, looping, helper, lambda x, y: abs(x) * min(y, 2.0) % 3 + (x > y)])
def test_what_was_derived(function):
    check(written(function, "own", gradient=True))
    check(backward(function, "own"))


def test_truth_values_and_signs_that_were_written_down_are_no_branches():
    """Each would double the ways."""
    function = written(lambda x: sum((x > k) * abs(x - k) for k in range(20)), "own", gradient=True)
    (value, slope) = vectorized(function, "own")([3.5, -1.0])
    assert value.tolist() == [3.5 + 2.5 + 1.5 + 0.5, 0] and slope.tolist() == [4, 0]


def test_of_two_functions_that_have_many_ways_each():
    def first(x):
        return sum(x - k if x > k else -x for k in range(6))

    def second(x):
        return sum(x + k if x < -k else 2 * x for k in range(6))

    parts = [written(each, "own", gradient=False) for each in (first, second)]
    (found,) = vectorized(lambda x: parts[0](x)[0] * parts[1](x)[0], "own")(RANDOM)
    np.testing.assert_array_equal(found, [first(x) * second(x) for x in RANDOM])


# ---------------------------------------------------------------- arrays


def test_operands_broadcast_and_are_left_alone():
    formula = vectorized(lambda x, y, z: (x, x * y + z, z, 4), "own")
    x, y = np.arange(6.0).reshape(2, 3), np.float32([1, 2, 3])
    found = formula(x, y, 2)
    np.testing.assert_array_equal(found[1], x * y + 2)
    for one, value in zip(found, (x, x * y + 2, 2, 4), strict=True):
        assert (one.shape, one.dtype, one.base) == ((2, 3), np.float64, None) and one.flags.writeable
        np.testing.assert_array_equal(one, np.broadcast_to(value, (2, 3)))
        assert not np.shares_memory(one, x)
    assert not np.shares_memory(*vectorized(lambda x: (x, x), "own")(y))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (2, 1, 3)])
def test_shapes(shape):
    (found,) = vectorized(lambda x, y: x / y if x > y else y, "own")(np.full(shape, 3.0), 2.0)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, np.full(shape, 1.5))
    (found,) = vectorized(lambda: 3, "own")()
    assert (found.shape, found.dtype) == ((), np.float64)


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.T, lambda x: x[::-1, ::2], lambda x: x[:, :1]])
def test_large_arrays_are_computed_in_pieces(view):
    x = np.random.default_rng(0).standard_normal((300, 400))
    given, column = view(x), view(x)[:, -1:]
    (found,) = vectorized(lambda x, y, z: x * z if x > y else x - y, "own")(given, column, 2.0)
    np.testing.assert_array_equal(found, np.where(given > column, given * 2.0, given - column))


def test_narrow_floats_are_computed_in_float64():
    (found,) = vectorized(lambda x: x + 1e-9, "own")(np.ones(2, np.float16))
    np.testing.assert_array_equal(found, [1 + 1e-9] * 2)


def test_what_is_written_down_can_be_read():
    formula = written(lambda x: math.sin(x) if x > 0 else x**2, "sine", gradient=False)
    before = set(linecache.cache)
    function = vectorized(formula, "sine")
    assert function(np.float64(-2.0))[0] == 4.0
    (file,) = set(linecache.cache) - before
    assert file.startswith("<arrays of 'sine'")
    assert [line.rstrip() for line in linecache.getlines(file)] == [
        "def derived(x0):",
        "    t0 = x0 > 0.0",
        "    t1 = np.sin(x0)",
        "    t2 = power(x0, 2.0)",
        "    t3 = np.where(t0, t1, t2)",
        "    return t3,",
    ]


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: [x], "returns a list"),
        (
            lambda x: math.comb(x, 2),
            r"calls math.comb, which kernels do not support; line \d+ of .*test_vectorized.py: ",
        ),
        (lambda x: np.spacing(x), "calls numpy.spacing, which kernels do not support; line"),
        (lambda x: np.linspace(x, 1, num=x), r"line \d+ of .*test_vectorized.py: .*np.linspace"),
        (lambda x: x if x > 0 else (x, 1), "returns 1 numbers on one path and 2 on another"),
        (lambda x: (), "returns no number"),
        (lambda x: range(math.floor(x))[0], "only known when it runs"),
    ],
)
def test_what_cannot_be_written_is_told_with_its_line(function, message):
    with pytest.raises(TypeError, match=f"own has no form for arrays: .*{message}"):
        vectorized(function, "own")


# ---------------------------------------------------------------- the C library


@pytest.mark.parametrize("name", ["erf", "erfc", "gamma", "lgamma"])
def test_without_numba(name, monkeypatch):
    function = np.errstate(all="ignore")(getattr(c_library, name))
    compiled = function(ONE)
    monkeypatch.setitem(sys.modules, "numba", None)
    c_library._compiled.cache_clear()
    try:
        alone = function(ONE)
        assert function(np.float32([0.5])).dtype == np.float32
    finally:
        c_library._compiled.cache_clear()
    np.testing.assert_allclose(alone, compiled, rtol=1e-14)
    np.testing.assert_array_equal(np.signbit(alone), np.signbit(compiled))
