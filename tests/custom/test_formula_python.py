"""What of Python and NumPy formulas take, and what is said of the rest: the user's line, and what to write instead."""

# ruff: noqa: E501
from __future__ import annotations

import math
import re

import numpy as np
import ptx
import pytest
from conftest import refused
from skips import skip_if

from numbacc import elementwise as ew
from numbacc.base.dispatch import simulated
from numbacc.errors import ArgumentsError, OptionError, UnsupportedError
from numbacc.functions.formula import Formula
from numbacc.functions.symbolic.derive import backward, written
from numbacc.functions.symbolic.trace import NAMESAKES
from numbacc.kernels.specs import KernelSpec
from numbacc.runtime.launch_order import VECTOR_BYTES

X, Y = np.array([0.3, -0.7, 1.6, 2.4, 4.1]), np.array([0.55, 2.1, 1.25, -3.2, 4.4])


def of_kind(x, y):
    if isinstance(x, float) and type(y) is float and not isinstance(x, (int, np.ndarray)):
        return x if isinstance(x > y, bool) and isinstance(x, float) else 0.0
    return y


#: Formula of two numbers -> the same of arrays.
TAKEN = {
    "round": (lambda x, y: round(x) + round(y), lambda x, y: np.rint(x) + np.rint(y)),
    "divmod": (lambda x, y: divmod(x, y), lambda x, y: (x // y, x % y)),
    "divmod of": (lambda x, y: divmod(7.0, y)[1] * x, lambda x, y: 7.0 % y * x),
    "and": (lambda x, y: ew.where((x > 0) & (y > 1), x, y), lambda x, y: np.where((x > 0) & (y > 1), x, y)),
    "or": (lambda x, y: (x > 2) | (y > 1), lambda x, y: (x > 2) | (y > 1)),
    "xor": (lambda x, y: (x > 0) ^ (y > 0), lambda x, y: (x > 0) ^ (y > 0)),
    "and known": (lambda x, y: (True & (x > 0)) | False | (y > 5), lambda x, y: (x > 0) | (y > 5)),
    "log to a base": (lambda x, y: math.log(y * y, 2) + math.log(3.0, y * y) + math.log(8, 2), lambda x, y: np.log2(y * y) + np.log(3) / np.log(y * y) + 3),
    "hypot": (lambda x, y: math.hypot(x, y, 1.0) + math.hypot(x), lambda x, y: np.sqrt(x * x + y * y + 1) + np.abs(x)),
    "gamma": (lambda x, y: math.gamma(y * y + x * x), lambda x, y: np.array([math.gamma(v) for v in y * y + x * x])),
    "kinds": (of_kind, lambda x, y: x),
    "truth of a number": (lambda x, y: y if math.floor(x) else x, lambda x, y: np.where(np.floor(x) != 0, y, x)),
    "where": (lambda x, y: np.where(x > y, x, 2.0), lambda x, y: np.where(x > y, x, 2.0)),
    "clip": (lambda x, y: np.clip(x, -0.5, y), lambda x, y: np.clip(x, -0.5, y)),
    "exp": (lambda x, y: np.exp(x) * np.sqrt(np.abs(y)), lambda x, y: np.exp(x) * np.sqrt(np.abs(y))),
    "maximum": (lambda x, y: np.maximum(x, y) + np.fmin(x, 1.0), lambda x, y: np.maximum(x, y) + np.fmin(x, 1.0)),
    "arcs": (lambda x, y: np.arctan2(x, y) + np.arcsinh(x), lambda x, y: np.arctan2(x, y) + np.arcsinh(x)),
    "round of NumPy's": (lambda x, y: np.round(x) + np.rint(y), lambda x, y: np.rint(x) + np.rint(y)),
    "operators": (lambda x, y: np.add(x, 1.0) * np.power(y * y, 1.5) - np.square(x) / np.negative(y), lambda x, y: (x + 1) * np.abs(y) ** 3 + x * x / y),
    "logic": (lambda x, y: np.logical_and(x > 0, y > 0) + 2.0 * np.logical_or(x > 3, np.logical_not(y > 0)), lambda x, y: ((x > 0) & (y > 0)) + 2.0 * ((x > 3) | ~(y > 0))),
    "known": (lambda x, y: np.sqrt(2.0) * x + np.maximum(1.0, 2.0) + np.clip(3, 0, 1) + float(np.sum([1.0, 2.0])), lambda x, y: np.sqrt(2) * x + 6),
}  # fmt: skip


def several(found):
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("name", TAKEN)
def test_what_formulas_take(place, name):
    function, meaning = TAKEN[name]
    own = ew.kernel(function)
    for found, wanted in zip(several(own(place.put(X), place.put(Y))), several(meaning(X, Y)), strict=True):
        assert (found.dtype == bool) == (wanted.dtype == bool)
        np.testing.assert_allclose(place.get(found), wanted, rtol=1e-13)
    count = 2 if name == "divmod" else 1
    slopes = own.backward((place.put(np.ones(X.shape)),) * count, place.put(X), place.put(Y))
    for slope, by_x, by_y in zip(slopes, (1e-6, 0.0), (0.0, 1e-6), strict=True):
        ahead, behind = (
            sum(np.asarray(each, float) for each in several(meaning(X + sign * by_x, Y + sign * by_y)))
            for sign in (1, -1)
        )
        np.testing.assert_allclose(place.get(slope), (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-6)


def test_halves_are_rounded_to_even(place):
    x = place.put(np.array([0.5, 1.5, 2.5, -0.5, -1.5, math.inf]))
    found = place.get(ew.kernel(lambda x: round(x))(x))
    np.testing.assert_array_equal(found, [0, 2, 2, -0.0, -2, math.inf])


def test_gradients_where_a_part_is_zero(place):
    """Of three lengths two may be 0."""
    zeros = place.put(np.zeros(2))
    found = ew.kernel(lambda x, y, z: math.hypot(x, y, z)).backward(
        place.put(np.ones(2)), zeros, zeros, place.put(np.array([2.0, -3.0]))
    )
    assert [place.get(each).tolist() for each in found] == [[0, 0], [0, 0], [1, -1]]


ONE = "one element of each array"
#: Formula -> what is said of it.
REFUSED = [
    (lambda x, y: round(x, 2), "round(x * 100) / 100"), (lambda x, y: np.round(x, 1), "round(x * 100) / 100"),
    (lambda x, y: x & y, "`and`"), (lambda x, y: 1 | x, "`and`"), (lambda x, y: (x > 0) & 1, "`and`"),
    (lambda x, y: ~(x > 0), "`not`"), (lambda x, y: x << 1, "power of 2.0"), (lambda x, y: 2 >> y, "power of 2.0"),
    (lambda x, y: x @ y, "gemm.matmul"), (lambda x, y: x[0], ONE), (lambda x, y: [1.0, 2.0][x], "elementwise.where"),
    (lambda x, y: [x + k for k in range(y)], "length of a loop"), (lambda x, y: len(x), ONE), (lambda x, y: sum(x), ONE),
    (lambda x, y: min(y), ONE), (lambda x, y: list(reversed(x)), ONE), (lambda x, y: y in x, ONE), (lambda x, y: next(x), ONE),
    (lambda x, y: int(x), "math.trunc"), (lambda x, y: float(x), "leave float() out"), (lambda x, y: np.float32(x), "leave float() out"),
    (lambda x, y: complex(x), "complex"), (lambda x, y: f"{x:.3f}", "py_func"), (lambda x, y: print(y) or x, "py_func"), (lambda x, y: {x: 1.0}[x], "compare with =="),
    (lambda x, y: x.sum(), "elementwise.reduction"), (lambda x, y: x.is_integer(), "x == math.floor(x)"), (lambda x, y: x.shape[0], ".shape"),
    (lambda x, y: pow(x, 2, 3), "x ** y % m"), (lambda x, y: x(y), "calls a number"), (lambda x, y: ord(x), "number found"),
    (lambda x, y: math.fsum([x, y]), "math.fsum"), (lambda x, y: math.dist([x, 0], [y, 0]), "math.hypot"), (lambda x, y: math.hypot(x, y, x, y), "sum of squares"),
    (lambda x, y: math.isclose(x, y), "tolerance"), (lambda x, y: math.frexp(x)[0], "math.log2"), (lambda x, y: math.ldexp(x, 2), "2.0 ** n"),
    (lambda x, y: math.factorial(x), "math.gamma"), (lambda x, y: math.comb(x, 2), "math.comb"), (lambda x, y: math.log(x, y, 2.0), "3 numbers"),
    (lambda x, y: np.sum(x), "numpy.sum"), (lambda x, y: np.heaviside(x, y), "numpy.heaviside"), (lambda x, y: np.exp(x, where=y > 0), "where="),
    (lambda x, y: ew.exp(x, out=y), "with out="), (lambda x, y: np.array([x, y]), "ndarray"), (lambda x, y: x + None, "NoneType"), (lambda x, y: setattr(x, "a", 1), "'a'"),
]  # fmt: skip


@pytest.mark.parametrize("function, hint", REFUSED, ids=lambda each: each if isinstance(each, str) else "")
def test_what_they_do_not_take_is_told_with_the_line_and_what_to_do(function, hint):
    for which in ("__call__", "backward"):
        arguments = (X,) * (which == "backward")
        with pytest.raises(UnsupportedError) as caught:
            getattr(ew.kernel(function), which)(*arguments, X, Y)
        message = str(caught.value)
        assert hint in message and re.search(r"; line \d+ of .*test_formula_python\.py: .*lambda x, y", message)
        assert "Symbol" not in message and "symbols" not in message


def test_attributes_can_be_asked_for(place):
    own = ew.kernel(lambda x: x * x.factor if hasattr(x, "factor") else 3.0 * getattr(x, "ndim", 2))
    assert place.get(own(place.put(X))).tolist() == [6.0] * 5


@pytest.mark.sampled(1)
@skip_if(simulated(), "not simulated")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("gradient", [False, True])
def test_kernels_have_all_of_them(dtype, gradient):
    """Of float32 nothing is computed in float64."""
    functions = {
        name: each
        for name, each in NAMESAKES.items()
        if hasattr(np, name) and not name.startswith(("arc", "sin", "cos", "tan"))
    }
    calls = [
        f"np.{name}({', '.join('xyz'[: 3 if name in ('where', 'clip') else getattr(getattr(np, name), 'nin', 1)])})"
        for name in functions
    ]
    calls += ["math.hypot(x, y, z)", "math.log(x, y)", "math.gamma(x)", "round(x)", "divmod(x, y)[1]"]
    calls = [call for call in calls if "np.logical" not in call]  # each is two ways more
    total = eval(f"lambda x, y, z: {' + '.join(calls)}", {"np": np, "math": math})
    made = backward(total, "own") if gradient else written(total, "own", gradient=False)
    width = VECTOR_BYTES // (4 if dtype == "float32" else 8)
    reads, writes = (dtype,) * (3 + gradient), (dtype,) * (3 if gradient else 1)
    spec = KernelSpec("vector", Formula("own", made), reads, writes, 1, False, width, width, compute=dtype)
    assert dtype == "float64" or ".f64" not in ptx.compiled(spec).text


# ---------------------------------------------------------------- parameters


@ew.kernel
def scaled(x, y=2.0, *, by=3.0, shifted=True):
    return x * y * by + shifted


def test_options_by_name_alone(place):
    x = place.put(X)
    for found, wanted in (
        (scaled(x), 6 * X + 1), (scaled(x, 1.0, by=2, shifted=False), 2 * X), (scaled(x, by=np.float32(0.5)), X + 1),
        (scaled.plan(x, by=5.0)(x, 1.0, 3.0, False), 3 * X), (scaled.backward(x, x, by=2.0)[0], 4 * X),
        (ew.kernel(lambda x: scaled(x, by=1.0) - 1)(x), 2 * X),
    ):  # fmt: skip
        np.testing.assert_allclose(place.get(found), wanted, rtol=1e-14)
    own = ew.reduction(lambda x, *, by=1.0: x * by, after=lambda total, n, *, eps=0.5: total / n + eps)
    np.testing.assert_allclose(place.get(own(x, by=2.0, eps=0.0)), 2 * X.mean())
    np.testing.assert_allclose(place.get(own.backward(place.put(np.array(5.0)), x, by=3.0)[0]), 3.0)
    given = ew.kernel(lambda x, *, by=2.0: x * by, backward=lambda dy, x, *, by=2.0: (dy * by * 10,))
    np.testing.assert_allclose(place.get(given.backward(x, x, by=3.0)[0]), 30 * X)
    assert "by=3.0" in repr(scaled)


@pytest.mark.parametrize(
    "default", [None, "a", (1.0,), np.ones(2), 1j, math.tanh], ids=lambda each: type(each).__name__
)
def test_options_that_are_no_numbers(place, default):
    def own(x, mode=default):
        return x

    for run in (lambda: ew.kernel(own), lambda: ew.reduction(own), lambda: ew.reduction(lambda x: x, after=own)):
        refused(OptionError, "mode=", type(default).__name__, "options are numbers", run=run)
    if default is None or isinstance(default, str):
        refused(OptionError, "by=", "must be a number", run=lambda: scaled(place.put(X), by=default))


def test_calls_with_other_arguments(place):
    x = place.put(X)
    own = ew.reduction(lambda x, y: x * y)
    for run, words in (
        (lambda: scaled(), ("scaled(x, y=2.0, *, by=3.0, shifted=True)", "'x'")), (lambda: scaled(x, 1, 2), ("scaled(", "too many")),
        (lambda: scaled(x, z=1), ("scaled(", "'z'")), (lambda: scaled.backward(x), ("scaled(", "'x'")), (lambda: scaled.plan(), ("scaled(",)),
        (lambda: own(x), ("<lambda>(x, y)", "'y'")), (lambda: own.backward(x, x, x, x), ("<lambda>(x, y)", "too many")),
    ):  # fmt: skip
        refused(ArgumentsError, *words, run=run)
        with pytest.raises(TypeError, match="argument"):
            run()


@pytest.mark.parametrize(
    "text, words",
    [
        ("ew.ldexp(x, 2)", ["in ldexp it calls math.ldexp", "2.0 ** n"]),
        ("ew.nextafter(x, 2.0)", ["it calls nextafter, which needs arrays, not numbers", "with arrays"]),
        ("ew.bitwise_and(x > 0, x > 1)", ["it calls bitwise_and, which needs arrays, not numbers"]),
        ("math.ldexp(x, 3)", ["it calls math.ldexp"]),
        ("math.nextafter(x, 3)", ["math.nextafter", "elementwise.nextafter"]),
        ("math.ulp(x)", ["math.ulp", "elementwise.nextafter"]),
    ],
)
def test_lines_whose_text_is_not_known(text, words):
    """What was typed: the line is named by its number, and no line of numbacc's in its place."""
    function = eval(compile(f"\n\nlambda x: {text}", "<typed>", "eval"), {"ew": ew, "math": math})
    with pytest.raises(UnsupportedError, match=r"; line 3 of <typed>$") as caught:
        ew.kernel(function)(X)
    for word in words:
        assert word in str(caught.value)


def test_exception_handlers_never_run():
    """As the documentation says: symbols raise nothing."""

    def guarded(x):
        try:
            return 1.0 / x
        except ZeroDivisionError:
            return 0.0

    with np.errstate(divide="ignore"):
        assert ew.kernel(guarded)(np.array([0.0, 2.0])).tolist() == [math.inf, 0.5]
