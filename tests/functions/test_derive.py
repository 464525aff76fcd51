"""Derivatives that are derived from functions, against differences of these and against those written by hand."""

from __future__ import annotations

import inspect
import math

import numpy as np
import ptx
import pytest
from skips import skip_if

from numbacc.base.dispatch import simulated
from numbacc.functions import arithmetic, digamma, division, exponentials, gates
from numbacc.functions.formula import Formula
from numbacc.functions.symbolic.derivatives import OURS, RULES, hypot_of_three, if_any, is_less, numbers_of
from numbacc.functions.symbolic.derive import backward, written
from numbacc.kernels.specs import KernelSpec
from numbacc.runtime.launch_order import VECTOR_BYTES


def with_gradient(function, name):
    return written(function, name, gradient=True)


#: Where functions of one number are tried: the usual places, and those of functions that are defined elsewhere only.
USUAL = (-2.3, -0.7, 0.4, 1.9)
WHERE = {
    math.log: (0.2, 3.0), math.log2: (0.2, 3.0), math.log10: (0.2, 3.0), math.log1p: (-0.5, 3.0),
    math.sqrt: (0.3, 7.0), math.asin: (-0.6, 0.3), math.acos: (-0.6, 0.3), math.atanh: (-0.6, 0.3),
    math.acosh: (1.4, 9.0), arithmetic.reciprocal: (1.5, 8.0), arithmetic.gaussian: (0.3, 4.0),
    arithmetic.square_root: (0.3, 7.0), arithmetic.reciprocal_root: (0.3, 7.0), arithmetic.erfinv: (-0.6, 0.3),
}  # fmt: skip
#: Functions of several numbers.
SEVERAL = {
    math.atan2: [(0.3, -1.2), (-2.0, 0.5)], math.hypot: [(3.0, 4.0)], math.pow: [(1.7, 2.2), (0.4, -1.5)],
    math.copysign: [(0.3, 1.2), (2.0, -0.5), (-1.5, -0.5)], math.fmod: [(7.3, 2.0), (-7.3, 2.0), (7.3, -0.9)],
    division.remainder: [(7.3, 2.0), (-7.3, 2.0)], division.floor_divide: [(7.3, 2.0), (-7.3, 2.0)],
    math.remainder: [(7.3, 2.0), (-7.3, 2.0), (6.3, -2.0)], is_less: [(0.3, 0.9), (2.0, -1.0)],
    if_any: [(2.0, 0.7)], arithmetic.minimum: [(0.3, 0.9), (2.0, -1.0)], arithmetic.fma: [(1.5, -2.0, 0.7)],
    hypot_of_three: [(3.0, 4.0, -12.0), (0.0, 0.0, 2.0)],
    exponentials.weighted_ratio: [(1.5, 0.7, 0.0, 1.9, 0.0), (-0.4, 1.3, 0.0, 4.0, 0.0)],
}  # fmt: skip


def differences(function, numbers):
    """The derivatives by central differences, good to some 1e-9 of the function's size."""
    found = []
    for k in range(len(numbers)):
        step = 1e-5 * max(abs(numbers[k]), 1.0)
        ahead, back = ([x + sign * step * (j == k) for j, x in enumerate(numbers)] for sign in (1, -1))
        found.append((function(*ahead) - function(*back)) / (2 * step))
    return found


def check(function, *places):
    derived = with_gradient(function, "it")
    for place in places:
        numbers = place if isinstance(place, tuple) else (place,)
        value, *slopes = derived(*numbers)
        assert value == function(*numbers)
        np.testing.assert_allclose(slopes, differences(function, numbers), rtol=1e-7, atol=1e-8)
    return derived


ONE = [f for f in RULES if not isinstance(f, str) and f not in SEVERAL and f is not arithmetic.normal_tail]


@pytest.mark.parametrize("function", ONE, ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_functions_of_one_number(function):
    check(lambda x: function(x) * 1.0, *WHERE.get(function, USUAL))


@pytest.mark.parametrize("function", SEVERAL, ids=lambda f: f.__name__)
def test_functions_of_several(function):
    names = ", ".join("xyzuv"[: len(SEVERAL[function][0])])
    check(eval(f"lambda {names}: f({names})", {"f": function}), *SEVERAL[function])


@pytest.mark.parametrize("operator", [o for o in RULES if isinstance(o, str) and o != "neg"])
def test_operators(operator):
    for text in ("x {} y", "2.5 {} x + y", "x {} 3 - y", "(x + y) {} (y * y + 1)"):
        check(eval("lambda x, y: " + text.format(operator)), (1.7, 0.6), (2.2, 1.4))


SINES = {math.sin, math.cos, math.tan, digamma.trigamma}
FUNCTIONS = {*(f for f in RULES if not isinstance(f, str)), digamma.trigamma, *OURS}


def test_functions_that_only_some_pythons_have():
    for function, ours in OURS.items():
        check(lambda x: ours(x) * 1.0, *USUAL)  # noqa: B023
        for x in USUAL:
            slopes = [with_gradient(lambda x: f(x), "it")(x) for f in (function, ours)]  # noqa: B023
            assert slopes[0] == slopes[1]


def softplus_like(b, sharpness):
    """A loop, a branch, a nested function, and what is bound from outside."""
    total = 0.0
    for k in range(1, 4):
        total += scaled(b, k) / k
    if total > 1.0 and b < 3.0:
        return math.log1p(total)
    return -total if b < -1.0 else sharpness * max(total, 0.1) * abs(b)


def scaled_up(b, sharpness):
    return math.log1p(b * b) if b > 1.0 else sharpness * scaled(b) * abs(b)


def scaled(x, by=2):
    inner = by + 1

    def nested(y):
        return y * inner

    return nested(x) if x > 0 else nested(x) / 2


def test_branches_loops_and_calls():
    check(softplus_like, *((b, s) for b in (-3.1, -0.6, 0.03, 0.7, 2.9, 5.5) for s in (0.5, 2.0)))
    assert with_gradient(lambda x: 3.0, "it")(0.3) == (3.0, 0.0)
    assert with_gradient(lambda x: (x > 0) * x**3, "it")(2.0) == (8.0, 12.0)
    check(lambda x: math.tanh(+x) if x == x and not x >= 9 else -x, 0.3, 12.0)


def test_where_it_bends_it_is_one_side_or_zero():
    assert with_gradient(abs_of, "it")(0.0) == (0.0, 0.0)
    assert with_gradient(lambda x: max(x, 0.0), "it")(0.0)[1] in (0.0, 1.0)
    assert math.isnan(with_gradient(abs_of, "it")(math.nan)[1])


def abs_of(x):
    return abs(x)


@pytest.mark.parametrize("kind", gates.GATES)
def test_the_gates_own_derivatives(kind):
    """In the middle, where nothing overflows, they are what is written by hand."""
    gate = {k: getattr(gates, k) for k in ("glu", "swiglu", "geglu", "geglu_tanh")}.get(kind, lambda b: max(b, 0.0))
    derived, dy, a = with_gradient(gate, kind), 0.7, -1.3
    for b in np.linspace(-9, 9, 181) + 1e-3:
        value, slope = derived(b)
        da, db = gates.GATES[kind].backward(dy, a, b)
        np.testing.assert_allclose([dy * value, dy * (a * slope)], [da, db], rtol=1e-11, atol=1e-15)


# ---------------------------------------------------------------- several results, and fewer gradients


def polar(r, angle, scale):
    if r <= 0:
        return 0.0, r * scale, 1
    return r * math.cos(angle) * scale, r * math.sin(angle), abs(angle)


def test_several_results():
    plain = written(polar, "it", gradient=False)
    for place in ((1.3, -0.4, 2.0), (-1.0, 0.5, 3.0)):
        assert plain(*place) == polar(*place)
        rows = np.transpose(differences(lambda *x: np.array(polar(*x)), place))
        seeds = (0.7, -1.2, 3.0)
        for wanted in (None, 3, 2, 1):
            found = backward(polar, "it", wanted=wanted)(*seeds, *place)
            np.testing.assert_allclose(found, (seeds @ rows)[:wanted], rtol=1e-7, atol=1e-8)
            assert len(found) == (3 if wanted is None else wanted)


def test_one_pass_goes_back_from_all_results():
    text = inspect.getsource(backward(lambda x, y: (math.exp(x * y), math.exp(x * y) + y, x), "it"))
    assert text.count("math.exp") == 1
    assert backward(lambda x: (x, x, 2 * x), "it")(1.0, 10.0, 100.0, 5.0) == (211.0,)


def test_back_from_one_result_is_the_slope_times_the_seed():
    for function, exact in ((softplus_like, False), (scaled_up, True)):
        back = backward(function, "it")
        for b in (-3.1, -0.6, 0.03, 2.9, 5.5):
            _, *slopes = with_gradient(function, "it")(b, 0.5)
            found, wanted = back(-1.5, b, 0.5), tuple(-1.5 * slope for slope in slopes)
            assert found == wanted if exact else found == pytest.approx(wanted, rel=1e-15)
    # A small slope keeps a large product finite.
    assert backward(lambda x: (1e-200 * x) ** 2, "it")(1e300, 1e50) == (1e300 * (1e-200 * (2.0 * (1e-200 * 1e50))),)


@pytest.mark.parametrize("dy", [math.inf, math.nan])
def test_what_does_not_depend_on_an_argument_gets_nothing_of_any_seed(dy):
    for function in (gates.relu, lambda x: max(x, 0.0), lambda x: 3.0, lambda x: math.floor(x), lambda x: x > 1.0):
        assert backward(function, "it")(dy, -1.0) == (0.0,)
    two = backward(lambda x, y: (x * y if x > 0 else 1.0, y), "it")
    assert two(dy, 2.0, -1.0, 5.0) == (0.0, 2.0)


def test_gradients_of_the_first_arguments_alone():
    assert written(polar_length, "it", gradient=True, wanted=1)(3.0, 4.0) == (5.0, 0.6)
    text = inspect.getsource(backward(lambda x, alpha: x * math.exp(alpha), "it", wanted=1))
    assert text.splitlines()[1:] == ["    t0 = math.exp(x1)", "    t1 = dy0 * t0", "    return t1,"]
    # What has no derivative may be computed of the others.
    own = written(lambda x, k: x * digamma.trigamma(k), "it", gradient=True, wanted=1)
    assert own(2.0, 4.0) == (2 * digamma.trigamma(4.0), digamma.trigamma(4.0))
    with pytest.raises(TypeError, match=r"no derivative of .*digamma\.trigamma is known"):
        written(lambda x, k: x * digamma.trigamma(k), "it", gradient=True)
    with pytest.raises(TypeError, match=r"no derivative of .*digamma\.trigamma is known"):
        backward(lambda x, k: k * digamma.trigamma(x), "it", wanted=1)


def polar_length(x, y):
    return math.hypot(x, y)


def test_minima_and_maxima_are_pythons():
    check(lambda x, y: max(x, y, 0.5) * min(x, 2.0, y), (0.3, 1.2), (3.0, 2.5), (-1.0, 0.1), (2.2, -0.4))
    plain = written(lambda x, y: (max(x, y), min(x, y)), "it", gradient=False)
    for place in ((1.0, 2.0), (2.0, 1.0), (math.nan, 1.0), (1.0, math.nan), (0.0, -0.0), (-0.0, 0.0)):
        found, wanted = plain(*place), (max(place), min(place))
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_what_was_derived_is_derived_again():
    first = with_gradient(lambda x: abs(x) ** 3 + (x > 1) * x, "it")
    second = with_gradient(lambda x: first(x)[1], "it")
    assert second(-2.0) == (-12.0, 12.0) and second(2.0) == (13.0, 12.0)


def test_powers():
    polynomial = with_gradient(lambda b: sum(c * b**k for k, c in enumerate((1.0, 2.0, 3.0))), "it")
    assert polynomial(0.0) == (1.0, 2.0) and polynomial(2.0) == (17.0, 14.0)
    assert with_gradient(lambda b: (-2.0) ** math.floor(b) * b, "it")(2.0) == (8.0, 4.0)
    assert with_gradient(lambda b: 0.0**b, "it")(2.0) == (0.0, 0.0)
    check(lambda b: 2.0**b + b**-2, 0.7, 3.0)


def test_truth_values_that_are_computed_with_are_numbers():
    gate = with_gradient(lambda b: b * ((b > 0) + (b > 1)) - -(b > 3) + ((b > 0) - (b < 0)), "it")
    assert gate(2.0) == (5.0, 2.0) and gate(-2.0) == (-1.0, 0.0)


def test_what_comes_from_outside_is_as_it_was():
    made = [with_gradient(lambda b: b * k, "it") for k in (1.0, np.float32(2.0), np.int64(3))]  # noqa: B023
    assert [each(2.0) for each in made] == [(2.0, 1.0), (4.0, 2.0), (6.0, 3.0)]
    assert with_gradient(lambda b, factor=2.0, *, more=1.0: b * factor + more, "it")(3.0) == (7.0, 2.0)
    assert with_gradient(lambda b: gates.swiglu(b), "it")(0.0) == (0.0, 0.5)
    assert with_gradient(lambda b: gates.geglu(b) if b > np.sqrt(2.0) else b * np.pi, "it")(1.0)[1] == np.pi


def test_what_is_derived_can_be_read():
    text = inspect.getsource(with_gradient(lambda b: b * math.sin(b), "sine"))
    assert text.splitlines() == [
        "def derived(x0):",
        "    t0 = math.sin(x0)",
        "    t1 = x0 * t0",
        "    t2 = math.cos(x0)",
        "    t3 = x0 * t2",
        "    t4 = t0 + t3",
        "    return t1, t4,",
    ]


def test_what_has_no_slope_is_not_written_down():
    text = inspect.getsource(with_gradient(lambda b: 2 * b + math.floor(b) * 3.0, "step"))
    assert text.splitlines()[-1] == "    return t3, 2," and "+ 0.0" not in text


def looks_up(x):
    table = (1.0, 2.0)
    return table[int(x)]


def loops(x):
    while x > 1.0:
        x = x / 2
    return x


def branches_much(x):
    for k in range(8):
        if x > k:
            x = x * 1.5
        if x < -k:
            x = x - 1
    return x


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: digamma.trigamma(x), r"no derivative of .*digamma.trigamma is known; line \d+ of .*test_derive.py"),
        (looks_up, r"when it runs: use math.trunc.*; line \d+ of .*test_derive.py: return table\[int\(x\)\]"),
        (loops, "loop whose length"),
        (branches_much, "paths through its branches|too many branches"),
        (lambda x: [x], "returns a list"),
        (lambda x: (x, x), "returns a tuple"),
        (lambda x: ((x, x), x), "returns a tuple"),
        (lambda x: (), "returns no number"),
        (lambda x: np.heaviside(x, 0), "numpy.heaviside"),
        (lambda x: x * "2", "computes with a str"),
        (lambda x: x + 1 // 0, "division"),
        (lambda x: (1, 2)[5] * x, r"IndexError: tuple index out of range; line \d+ of .*test_derive.py"),
        (lambda x: x * missing, "NameError: name 'missing' is not defined"),  # noqa: F821
        (lambda x: math.log(x, 2, 3), "math.log of 3 numbers"),
        (lambda x: x * 1j, "computes with a complex"),
    ],
)
def test_what_has_none_is_told_with_its_line(function, message):
    with pytest.raises(TypeError, match=f"own has no derivative that can be derived: .*(?:{message})"):
        with_gradient(function, "own")


@pytest.mark.parametrize("gradient", [backward, with_gradient, lambda *it: written(*it, gradient=False)])
@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: math.comb(x, 2), r"math.comb.*; line \d+ of .*test_derive.py: \(lambda x: math.comb"),
        (lambda x: math.isclose(x, 2, rel_tol=x), "math.isclose"),
        (lambda x: np.heaviside(x, 1), r"numpy.heaviside.*; line \d+ of .*test_derive.py"),
        (lambda x: math.hypot(x, 2, 3, 4), "math.hypot of 4 numbers.*: for more than three"),
        (lambda x: np.linspace(x, 1, num=x), r"; line \d+ of .*test_derive.py: \(lambda x: np.linspace"),
        (lambda x: (x, 1) if x > 0 else (x, 1, 2), "returns 2 numbers on one path and 3 on another"),
        (lambda x: x.hex(), r"\.hex of a number.*; line \d+ of .*test_derive.py"),
    ],
)
def test_what_kernels_do_not_have_is_told_with_its_line(function, message, gradient):
    with pytest.raises(TypeError, match=f"own has no .*{message}"):
        gradient(function, "own")


@pytest.mark.sampled(1)
@skip_if(simulated(), "not simulated")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("functions", [SINES, FUNCTIONS - SINES], ids=["sines", "others"])
def test_kernels_have_all_functions(functions, dtype):
    """For float32 none of them is float64's, but what reduces large angles of sines."""
    names = {f"f{k}": function for k, function in enumerate(functions)}
    calls = (f"{name}({', '.join('xyzxy'[: numbers_of(OURS.get(f, f))])})" for name, f in names.items())
    total = eval(f"lambda x, y, z: {' + '.join(calls)}", names)
    text = ptx.compiled(vector_spec(Formula("own", written(total, "own", gradient=False)), dtype, 3, 1)).text
    assert dtype == "float64" or functions is SINES or ".f64" not in text


def vector_spec(formula, dtype, inputs, outputs):
    size = {"float64": 8, "float32": 4}.get(dtype, 2)
    compute, width = "float64" if dtype == "float64" else "float32", VECTOR_BYTES // size
    reads, writes = (dtype,) * inputs, (dtype,) * outputs
    return KernelSpec("vector", formula, reads, writes, 1, False, width, width, compute=compute)


@pytest.mark.sampled(1)
@skip_if(simulated(), "not simulated")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    "gate",
    [lambda b: b * math.tanh(b), gates.geglu, softplus_like, lambda b: -(b > 0) * b**3 + math.fabs(b) * np.pi],
    ids=["tanh", "geglu", "soft", "steps"],
)
def test_kernels_compute_in_the_dtype(gate, dtype):
    """No number of a derivative drags float32 up to float64, and nothing spills."""
    own = (lambda b: softplus_like(b, 2.0)) if gate is softplus_like else gate
    made = gates.own_gate("own", own)["backward"]
    found = ptx.compiled(vector_spec(made, dtype, 3, 2))
    assert (".f64" in found.text) == (dtype == "float64")
    if ptx.ptxas() is not None and gate is not softplus_like:
        assert found.usage((9, 0))[1] == 0
