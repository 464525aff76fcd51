"""numbacc's functions, and Python's own, called by formulas: with their own values and gradients."""

from __future__ import annotations

import itertools
import math

import numpy as np
import ptx
import pytest
from elementwise_cases import arrays_of
from skips import skip_if

from numbacc import elementwise as ew
from numbacc.base.dispatch import simulated
from numbacc.elementwise.gradients import DIFFERENTIABLE
from numbacc.elementwise.public import WHOLE_FUNCTIONS
from numbacc.elementwise.rows import TABLE
from numbacc.errors import UnsupportedError
from numbacc.functions.formula import Formula
from numbacc.functions.symbolic.derive import backward, written
from numbacc.functions.symbolic.opaque_functions import larger, smaller
from numbacc.kernels.specs import KernelSpec
from numbacc.runtime.launch_order import VECTOR_BYTES

pytestmark = pytest.mark.usefixtures("poison")

SPECIAL = (
    0.0,
    -0.0,
    0.3,
    -0.7,
    1.0,
    -1.0,
    2.5,
    3.0,
    -3.0,
    6.0,
    20.5,
    -40.0,
    800.0,
    -800.0,
    math.inf,
    -math.inf,
    math.nan,
)
FEW = (0.0, -0.0, 0.3, -0.7, 1.0, -3.0, 800.0, math.inf, -math.inf, math.nan)
#: Arguments that are no arrays of floats.
CONDITIONS, NUMBERS = {"where": 0}, {"threshold": {"threshold": 0.5, "value": -2.0}}
FUNCTIONS = [name for name in TABLE if "f" in TABLE[name].row.meanings and hasattr(getattr(ew, name), "py_func")]
#: What kernels of one's own do not take: a count of bits.
FUNCTIONS.remove("ldexp")


def called(name):
    """(a kernel of one's own that calls a function of `elementwise`, arrays for it)."""
    names = [each for each in arrays_of(name) if each not in NUMBERS.get(name, {})]
    more = "".join(f", {key}={value}" for key, value in NUMBERS.get(name, {}).items())
    arguments = ", ".join(names)
    kernel = ew.kernel(eval(f"lambda {arguments}: ew.{name}({arguments}{more})", {"ew": ew}))
    values = [SPECIAL] if len(names) == 1 else [FEW if simulated() is False else FEW[::3]] * len(names)
    arrays = [np.array(column) for column in zip(*itertools.product(*values), strict=True)]
    if name in CONDITIONS:
        arrays[CONDITIONS[name]] = arrays[CONDITIONS[name]] > 0
    return kernel, arrays


def same(found, wanted, name):
    """To the last bits: they are computed alike, but on NumPy in float64, whatever the arrays are of."""
    rtol = 1e-13 if found.dtype == np.float64 else 2e-6
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=0 if found.dtype == np.float64 else 1e-37, err_msg=name)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_and_gradients_are_the_functions_own(place, name, dtype):
    """At zeros, ties, bounds, infinities and NaN, where those derived from how it is computed would be others."""
    kernel, arrays = called(name)
    arrays = [each if each.dtype == bool else each.astype(dtype) for each in arrays]
    given, more = [place.put(each) for each in arrays], NUMBERS.get(name, {})
    same(place.get(kernel(*given)), place.get(getattr(ew, name)(*given, **more)), name)
    if name not in DIFFERENTIABLE:
        return
    # A condition takes no part in what is derived: it is computed with as a number.
    floats = [place.put(each.astype(dtype)) for each in arrays]
    dy = place.put(np.linspace(-2, 2, arrays[0].size).astype(dtype))
    found = kernel.backward(dy, *floats)
    wanted = getattr(ew, f"{name}_backward")(dy, *given, **more)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for k, each in enumerate(found[len(found) - len(wanted) :]):
        same(place.get(each), place.get(wanted[k]), name)


def test_of_float64_they_are_float64s_own(place):
    """Functions that have another form of float64 have it in formulas, too."""
    x = np.linspace(-3, 3, 41)
    found = place.get(ew.kernel(lambda x: ew.tanhshrink(x))(place.put(x)))
    np.testing.assert_allclose(found[np.abs(x) > 0.2], (x - np.tanh(x))[np.abs(x) > 0.2], rtol=3e-14)


def test_functions_that_are_imported_by_name_are_the_same(place):
    """Their gradients are their own, at ties too; so it is where a function holds them, or another one calls them."""
    maximum, digamma = ew.maximum, ew.digamma
    x = np.array([1.0, 2.0, -1.0])

    def higher(x):
        return maximum(x, 1.0) + digamma(x * x)

    for own in (higher, lambda x: ew.maximum(x, 1.0) + ew.digamma(x * x), lambda x: higher(x)):
        kernel = ew.kernel(own)
        (dx,) = kernel.backward(place.put(np.ones(3)), place.put(x))
        wanted = np.array([0.5, 1, 0]) + 2 * x * ew.digamma_backward(np.ones(3), x * x)
        np.testing.assert_allclose(place.get(dx), wanted, rtol=1e-13)
        assert "if " not in kernel.inspect(x).source.split("def derived", 1)[1]


CHOOSING = {
    "where": (lambda x: ew.where(x > 0, math.log(x), 0.5 * x), lambda x: 1 / x if x > 0 else 0.5),
    "max": (lambda x: max(math.sqrt(x), 2.0), lambda x: 0.5 / math.sqrt(x) if x > 4 else 0.0),
    "min": (lambda x: min(1 / (x * x), 3.0, 2 - x), lambda x: -2 / x**3 if x and 1 / (x * x) < 2 - x else -1.0),
    "maximum": (lambda x: ew.maximum(ew.rsqrt(x), 2.0), lambda x: -0.5 * x**-1.5 if 0 < x < 0.25 else 0.0),
    "relu": (lambda x: ew.relu(x) * 1.0 + ew.relu(-math.exp(800 * x * x)), lambda x: float(x > 0)),
    "branch": (lambda x: math.log(x) if x > 0 else 0.5 * x, lambda x: 1 / x if x > 0 else 0.5),
    "clamp": (lambda x: ew.clamp(1 / (x * x), 0.1, 9.0), lambda x: -2 / x**3 if 1 / 3 <= abs(x) <= 10**0.5 else 0.0),
}


@pytest.mark.parametrize("name", CHOOSING)
def test_what_is_not_chosen_adds_nothing_to_a_gradient(place, name):
    """Though its slope is infinite or NaN there; torch's `where` has NaN."""
    function, slope = CHOOSING[name]
    x = np.array([0.0, -1.5, 0.1, 0.5, 1.25, 5.0, 2.0, -0.0])
    if name in ("max", "maximum"):
        x = np.abs(x)
        x = x[x > 0] if name == "maximum" else x
    (found,) = ew.kernel(function).backward(place.put(np.full(x.size, 3.0)), place.put(x))
    np.testing.assert_allclose(place.get(found), [3 * slope(each) for each in x], rtol=1e-13)


def test_bounds_that_are_left_out(place):
    x = np.array([-3.0, 0.5, math.nan, math.inf])
    own = ew.kernel(lambda x: (ew.clamp(x, min=-1.0), ew.clamp(x, max=1.0)))
    for found, wanted in zip(own(place.put(x)), (np.maximum(x, -1), np.minimum(x, 1)), strict=True):
        np.testing.assert_array_equal(place.get(found), wanted)
    with pytest.raises(UnsupportedError, match=r"without bounds.*; line \d+ of .*: .*ew\.clamp\(x\)"):
        ew.kernel(lambda x: ew.clamp(x))(place.put(x))


def test_many_choices_are_one_way(place):
    """Twelve bounds and as many maxima, where branches would be half a million ways."""

    def bounded(x, y):
        for k in range(12):
            x = ew.clamp(x + 0.125, -k, 2.0 + k) * 0.5 + max(y, x, 0.25 * k)
        return ew.leaky_relu(x) + ew.where(x > y, x, ew.minimum(y, 1.0))

    def plain(x, y):
        for k in range(12):
            x = np.clip(x + 0.125, -k, 2.0 + k) * 0.5 + np.maximum(np.maximum(y, x), 0.25 * k)
        return np.where(x > 0, x, 0.01 * x) + np.where(x > y, x, np.minimum(y, 1.0))

    x, y = np.linspace(-3, 3, 7), np.linspace(2.03, -1.9, 7)
    own = ew.kernel(bounded)
    np.testing.assert_allclose(place.get(own(place.put(x), place.put(y))), plain(x, y), rtol=1e-13)
    assert "if " not in own.inspect(x, y).source.split("def derived")[1]
    dx, dy = own.backward(place.put(np.ones(7)), place.put(x), place.put(y))
    step = 1e-6
    for found, (by_x, by_y) in ((dx, (step, 0)), (dy, (0, step))):
        slopes = (plain(x + by_x, y + by_y) - plain(x - by_x, y - by_y)) / (2 * step)
        np.testing.assert_allclose(place.get(found), slopes, rtol=1e-7, atol=1e-7)


def test_numbers_that_are_known_make_infinities(place):
    """Where Python raises: on the way that is not taken, or on all."""
    x = np.array([-2.0, 0.5])

    def shares(x):
        positive = x if x > 0 else 0.0
        return 1.0 / positive + math.log(positive) + math.log(0.0) * 0.5 - math.sqrt(2.0)

    with np.errstate(all="ignore"):
        wanted = [math.nan, -math.inf]
    np.testing.assert_array_equal(place.get(ew.kernel(shares)(place.put(x))), wanted)
    found = place.get(ew.kernel(lambda x: 2.0 / (x if x > 0 else 0.0))(place.put(x)))
    np.testing.assert_array_equal(found, [math.inf, 4.0])
    (found,) = ew.kernel(lambda x: x / 0 - (x > 0) / 2).backward(place.put(np.array([1.0, -1.0])), place.put(x))
    np.testing.assert_array_equal(place.get(found), [math.inf, -math.inf])
    # What counts stays an integer, and what is compared a truth value.
    own = ew.kernel(lambda x: sum(x for _ in range(math.floor(2.9))) - (2 > 0.5) * 1.5)
    np.testing.assert_array_equal(place.get(own(place.put(x))), 2 * x - 1.5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_numbers_have_the_dtype_that_is_computed_in(place, dtype):
    """x == 0.1 holds where x was made of 0.1 in float32, on the CPU as on a GPU."""
    x = np.array([0.1, 0.25, 0.3], dtype)
    wanted = [dtype != "float16", True, False]
    own = ew.kernel(lambda x, s=0.1: (x == 0.1 or x == 0.25, x == s or x == 0.25))
    for found in own(place.put(x)):
        np.testing.assert_array_equal(place.get(found), wanted)
    (dx,) = ew.kernel(lambda x: x if x == 0.1 else 2 * x).backward(place.put(np.ones(3, dtype)), place.put(x))
    np.testing.assert_array_equal(place.get(dx), [1 if dtype != "float16" else 2, 2, 2])


def test_truth_values_are_numbers_of_python(place):
    """-False is 0, not -0; two that hold are 2."""
    x = np.array([-1.0, 2.0])
    found = place.get(ew.kernel(lambda x: math.atan2(0.0, -(x > 0)) + ((x < 0) + (x < 1)) * 8)(place.put(x)))
    np.testing.assert_allclose(found, [16, math.pi])


def test_whole_numbers_keep_their_sign(place):
    found = place.get(ew.kernel(lambda x: math.copysign(1.0, math.ceil(x)))(place.put(np.array([-0.5, 0.5, -0.0]))))
    np.testing.assert_array_equal(found, [-1, 1, -1])


def test_powers_of_zero(place):
    """What a power is that stays 0, or 1, has no slope, as in `pow_backward`."""
    x, y = np.array([0.0, 0.0, 2.0, 0.0]), np.array([2.0, 0.0, 3.0, 1.0])
    dx, dy = ew.kernel(lambda x, y: x**y).backward(place.put(np.ones(4)), place.put(x), place.put(y))
    wanted = ew.pow_backward(np.ones(4), x, y)
    np.testing.assert_allclose(place.get(dx), wanted[0]), np.testing.assert_allclose(place.get(dy), wanted[1])


def test_minima_and_maxima_of_several_and_of_tuples(place):
    x = np.array([-1.0, 0.5, math.nan])
    own = ew.kernel(lambda x: (max((x, 0.25, -x)), min([x, 2.0]), max(1.0, 2.0) * x, max(x > 0, x < -3) + 0.0))
    found = [place.get(each) for each in own(place.put(x))]
    for mine, wanted in zip(found, ([1.0, 0.5, math.nan], [-1.0, 0.5, math.nan], 2 * x, [0, 1, 0]), strict=True):
        np.testing.assert_array_equal(mine, wanted)
    text = own.inspect(x).source
    assert "max(" in text and "min(" in text
    with pytest.raises(UnsupportedError, match="line"):
        ew.kernel(lambda x: max(x))(place.put(x))


def test_gradients_of_gradients():
    """What a gradient is computed by can be derived in turn."""

    def slope(x):
        return written(lambda x: ew.softplus(x) + ew.relu(x) * x + max(x, 0.5), "it", gradient=True)(x)[1]

    first = written(lambda x: ew.softplus(x) + ew.relu(x) * x + max(x, 0.5), "it", gradient=True)
    second = written(lambda x: first(x)[1], "it", gradient=True)
    for x in (-1.3, 0.3, 2.2):
        assert second(x)[1] == pytest.approx((slope(x + 1e-5) - slope(x - 1e-5)) / 2e-5, rel=1e-7)


def test_a_name_stands_for_one_function():
    """`minimum` is a function of formulas here, and another one of `elementwise`."""
    text = ew.kernel(lambda x: ew.minimum(ew.gelu_tanh(x), 1.0))
    plain = text.backward(np.ones(3), np.array([-1.0, 0.5, 3.0]))[0]
    wanted = ew.gelu_tanh_backward(np.ones(3), np.array([-1.0, 0.5, 3.0])) * np.array([1, 1, 0])
    np.testing.assert_allclose(plain, wanted, rtol=1e-13)


@pytest.mark.sampled(1)
@skip_if(simulated(), "not simulated")
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_kernels_have_all_of_them(direction, dtype):
    names = {f"f{k}": each for k, each in enumerate([*WHOLE_FUNCTIONS.values(), larger, smaller])}
    calls = [f"{name}({', '.join('xyzxy'[: each.__code__.co_argcount])})" for name, each in names.items()]
    total = eval(f"lambda x, y, z: {' + '.join(calls)}", names)
    made = written(total, "own", gradient=False) if direction == "forward" else backward(total, "own")
    inputs, outputs = (3, 1) if direction == "forward" else (4, 3)
    compute = "float64" if dtype == "float64" else "float32"
    width = VECTOR_BYTES // {"float64": 8, "float32": 4}.get(dtype, 2)
    reads, writes = (dtype,) * inputs, (dtype,) * outputs
    spec = KernelSpec("vector", Formula("own", made), reads, writes, 1, False, width, width, compute=compute)
    assert dtype == "float64" or ".f64" not in ptx.compiled(spec).text
