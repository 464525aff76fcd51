"""The scalar formulas as plain Python, the polynomials behind them, and the copies that kernels get."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import oracle
import pytest
from scipy.special import erfc, expit, ndtr
from skips import skip_if

from numbacc.base.dispatch import simulated
from numbacc.base.dtypes import TABLE
from numbacc.functions import arithmetic, exponentials, gates
from numbacc.functions.epilogues import FORMULAS
from numbacc.kernels.primitives import specialize

EPS = np.finfo(np.float64).eps
LARGEST = np.finfo(np.float64).max
MAGNITUDES = np.concatenate(
    [np.logspace(-30, 30, 601), np.linspace(0.0, 45.0, 2001), [1e100, 1e200, 1e300, LARGEST / 4, LARGEST, math.inf]]
)
NUMBERS = np.concatenate([-MAGNITUDES[::-1], MAGNITUDES, [math.nan]])


class Gate(NamedTuple):
    """g(b) and g'(b) in float64.

    Attributes:
        terms: the sum of the magnitudes of what g' is added up from.
        exponent: what an exponential is taken of, where that is itself rounded: its error is the result's.
    """

    value: np.ndarray
    slope: np.ndarray
    terms: np.ndarray
    exponent: np.ndarray


def sigmoid(b):
    # SciPy's expit is 0 where it could still be a subnormal number.
    return np.where(b < -60, np.exp(np.minimum(b, 0)), expit(b))


def _glu(b):
    slope = sigmoid(b) * sigmoid(-b)
    return Gate(sigmoid(b), slope, slope, np.zeros_like(b))


def _swiglu(b):
    s, second = sigmoid(b), sigmoid(b) * b * sigmoid(-b)
    return Gate(b * s, s + second, s + np.abs(second), np.zeros_like(b))


def _geglu(b):
    density = np.exp(-b * b / 2) / math.sqrt(2 * math.pi)
    normal = np.where(b < 0, erfc(-b / math.sqrt(2)) / 2, ndtr(b))
    return Gate(b * normal, normal + b * density, normal + np.abs(b) * density, 2 * b * b)


def _geglu_tanh(b):
    root = math.sqrt(2 / math.pi)
    c = np.clip(b, -100, 100)  # beyond it tanh is 1 or -1, and b³ overflows
    u, du = root * (c + 0.044715 * c**3), root * (1 + 3 * 0.044715 * c**2)
    s, second = sigmoid(2 * u), b * sigmoid(2 * u) * sigmoid(-2 * u) * 2 * du
    return Gate(b * s, s + second, s + np.abs(second), 4 * u)


GATES = {"glu": _glu, "swiglu": _swiglu, "geglu": _geglu, "geglu_tanh": _geglu_tanh}
each_gate = pytest.mark.parametrize("kind", GATES)


def function(kind, numbers=NUMBERS):
    """g as the formulas have it."""
    return np.array([getattr(gates, kind)(b) for b in numbers.tolist()])


def pair(kind, numbers=NUMBERS):
    """g and g' as the formulas have them."""
    return np.array([getattr(gates, f"{kind}_pair")(b) for b in numbers.tolist()]).T


def assert_close(got, wanted, scale, exponent):
    """Equal to a few roundings of `scale`, more where the exponent is large; NaN and infinity where wanted."""
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(got[~finite], wanted[~finite])
    # Where σ(b) is a subnormal number b may lift its product above that.
    allowed = EPS * (8 + np.minimum(np.abs(exponent), 3000)) * scale + 64 * np.finfo(np.float64).tiny
    assert (np.abs(got - wanted) <= allowed)[finite].all()


# ---------------------------------------------------------------- values and derivatives


@each_gate
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_gates_are_what_scipy_says(kind):
    expected = GATES[kind](NUMBERS)
    assert_close(function(kind), expected.value, np.abs(expected.value), expected.exponent)
    value, slope = pair(kind)
    assert_close(value, expected.value, np.abs(expected.value), expected.exponent)
    assert_close(slope, expected.slope, expected.terms, expected.exponent)


def test_the_tanh_form_is_half_of_1_plus_tanh():
    """Written with the hyperbolic tangent, as its authors do, which keeps no digits where that is -1."""
    b = np.linspace(-12, 12, 4001)
    u = math.sqrt(2 / math.pi) * (b + 0.044715 * b**3)
    np.testing.assert_allclose(function("geglu_tanh", b), 0.5 * b * (1 + np.tanh(u)), rtol=1e-14, atol=1e-14)


@each_gate
def test_slopes_are_central_differences(kind):
    b = np.linspace(-30, 30, 6001)
    h = 2.0**-18
    difference = (pair(kind, b + h)[0] - pair(kind, b - h)[0]) / (2 * h)
    np.testing.assert_allclose(pair(kind, b)[1], difference, rtol=0, atol=2e-9)


def test_the_slope_of_sigmoid_keeps_its_digits():
    """It is no difference from 1."""
    b = np.linspace(-700, 700, 4001)
    value, slope = np.array([gates.sigmoid_pair(x) for x in b]).T
    np.testing.assert_allclose(value, expit(b), rtol=8 * EPS)
    np.testing.assert_allclose(slope, expit(b) * expit(-b), rtol=8 * EPS)


def test_reglu_selects():
    a, b = (x.ravel() for x in np.meshgrid(NUMBERS[::23], NUMBERS[::19]))
    a, b = np.append(a, [1.0, -2.0, math.inf]), np.append(b, [math.nan, 0.0, -0.0])
    dy = np.resize([1.5, -math.inf, math.nan, 0.0], a.shape)
    forward, backward = FORMULAS["gated.forward.reglu"], FORMULAS["gated.backward.reglu"]
    places = list(zip(dy.tolist(), a.tolist(), b.tolist(), strict=True))
    with np.errstate(invalid="ignore"):
        expected = a * np.maximum(b, 0), np.where(b > 0, dy * b, 0), np.where(b > 0, dy * a, 0)
    np.testing.assert_array_equal([forward(a, b)[0] for _, a, b in places], expected[0])
    np.testing.assert_array_equal([backward(*place) for place in places], np.transpose(expected[1:]))


@each_gate
def test_products_with_the_gate(kind):
    forward, backward = FORMULAS[f"gated.forward.{kind}"], FORMULAS[f"gated.backward.{kind}"]
    for b in (-3.0, 0.25, 7.0):
        g, slope = getattr(gates, f"{kind}_pair")(b)
        assert forward(-1.75, b) == (-1.75 * getattr(gates, kind)(b),)
        assert backward(0.5, -1.75, b) == (0.5 * g, 0.5 * (-1.75 * slope))


def test_a_small_slope_keeps_a_large_product_finite():
    _, db = FORMULAS["gated.backward.swiglu"](1e200, 1e200, -300.0)
    assert math.isfinite(db) and db != 0


def test_each_kind_has_both_directions():
    assert {name for name in FORMULAS if name.startswith("gated")} == {
        f"gated.{direction}.{kind}" for direction in ("forward", "backward") for kind in oracle.KINDS
    }
    assert FORMULAS["copy"](7) == (7,)


def epilogue(name, *columns):
    """The results of an epilogue's formula for rows of numbers."""
    return np.array([FORMULAS[f"epilogue.{name}"](*row) for row in zip(*columns, strict=True)]).T


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_epilogues():
    v, b = NUMBERS.tolist(), np.resize([0.0, 1.5, -2.0], NUMBERS.shape).tolist()
    z = np.add(v, b)
    expected, at_v = GATES["geglu_tanh"](z), GATES["geglu_tanh"](NUMBERS)
    np.testing.assert_array_equal(epilogue("bias", v, b), [z])
    np.testing.assert_array_equal(epilogue("relu", v), [np.maximum(v, 0)])
    np.testing.assert_array_equal(epilogue("relu_bias", v, b), [np.maximum(z, 0)])
    np.testing.assert_array_equal(epilogue("gelu_aux", v)[1], v)
    np.testing.assert_array_equal(epilogue("gelu_aux_bias", v, b)[1], z)
    for name in ("gelu", "gelu_aux"):
        assert_close(epilogue(name, v)[0], at_v.value, np.abs(at_v.value), at_v.exponent)
    for name in ("gelu_bias", "gelu_aux_bias"):
        assert_close(epilogue(name, v, b)[0], expected.value, np.abs(expected.value), expected.exponent)
    assert_close(epilogue("dgelu", b, v)[0], b * at_v.slope, np.abs(b) * at_v.terms, at_v.exponent)


# ---------------------------------------------------------------- the polynomials

WIDER = {np.float32: np.float64, np.float64: np.longdouble}
needs_long_double = skip_if(np.finfo(np.longdouble).eps == EPS, "long double")

#: Φ(-x)'s approximations, the relative error that each states, how far out, what it is computed in, and the roundings
#: that computing it there may add.
tails = pytest.mark.parametrize(
    "tail, stated, reach, dtype, roundings",
    [
        (arithmetic.normal_tail_degree_9, 5e-8, 38, np.float32, 4),
        (arithmetic.normal_tail_degree_7, 5e-8, 6, np.float32, 8),
        (arithmetic.normal_tail_degree_7, 1e-5, 38, np.float32, 4),
        pytest.param(arithmetic.normal_tail_degree_22, 6e-16, 38, np.float64, 2, marks=needs_long_double),
    ],
)


def samples(dtype, reach=38):
    """x >= 0 up to where Φ(-x) is no longer a normal number, and Φ(-x) and exp(-x²/2) in long double."""
    x = np.concatenate([[0.0], np.logspace(-20, 0, 2001), np.linspace(0, reach, 100001)]).astype(dtype)
    exact = x.astype(np.longdouble)
    tail, _ = oracle.normal(-exact)
    normal = tail > np.finfo(dtype).tiny
    return x[normal], tail[normal], np.exp(-exact * exact / 2)[normal]


@pytest.fixture
def computing_in(monkeypatch):
    """Called with a dtype: formulas compute in it, as a GPU does, their multiply-add and exp rounding once."""

    def begin(dtype):
        def fma(*numbers):
            x, y, z = (np.asarray(number, dtype).astype(WIDER[dtype]) for number in numbers)
            return (x * y + z).astype(dtype)

        for module in (arithmetic, exponentials):
            monkeypatch.setattr(module, "fma", fma)
            monkeypatch.setattr(module, "exp", lambda x: np.exp(x.astype(np.longdouble)).astype(dtype))
        monkeypatch.setattr(
            exponentials, "power_of_bits", lambda x: (x.view(np.uint32) << np.uint32(23)).view(np.float32)
        )

    return begin


def relative_error(got, wanted):
    return float(np.abs(got / wanted - 1).max())


@tails
def test_tails_fit_as_well_as_they_state(tail, stated, reach, dtype, roundings):
    x, wanted, e = samples(dtype, reach)
    got = tail(x.astype(np.longdouble), e)
    assert relative_error(got, wanted) < 1.1 * stated  # stated to one digit


@tails
def test_tails_in_their_own_dtype(tail, stated, reach, dtype, roundings, computing_in):
    x, wanted, e = samples(dtype, reach)
    computing_in(dtype)
    got = tail(x, e.astype(dtype))
    assert got.dtype == dtype
    assert relative_error(got, wanted) < stated + roundings * np.finfo(dtype).eps / 2


def test_tails_oracle_is_scipys():
    x, wanted, _ = samples(np.float32)
    np.testing.assert_allclose(wanted.astype(float), erfc(x.astype(float) / math.sqrt(2)) / 2, rtol=1e-13)


@pytest.mark.parametrize(
    "gaussian, dtype",
    [
        (exponentials.gaussian_single, np.float32),
        pytest.param(exponentials.gaussian_double, np.float64, marks=needs_long_double),
    ],
)
def test_the_density_gets_its_argument_s_rounding_error_back(gaussian, dtype, computing_in):
    x, _, wanted = (each[::9] for each in samples(dtype))
    computing_in(dtype)
    allowed = 2 * np.finfo(dtype).eps
    found = np.array([gaussian(number) for number in x])
    assert relative_error(found, wanted) < allowed < relative_error(arithmetic.gaussian(x), wanted)


# ---------------------------------------------------------------- the copies that kernels get

compiles = skip_if(simulated(), "not simulated")


@compiles
def test_specialize_replaces_functions_by_precision():
    narrow, wide, double = (
        specialize.specialize(gates.normal_pair, *precision).py_func.__globals__
        for precision in (("float32", True), ("float32", False), ("float64", False))
    )
    degrees = [names["normal_tail"].py_func.__name__ for names in (narrow, wide, double)]
    assert degrees == [f"normal_tail_degree_{n}" for n in (7, 9, 22)]
    assert narrow["gaussian"].py_func.__name__ == "gaussian_approximate"
    assert narrow["gaussian"].py_func.__globals__["exp2"] is specialize.hardware.exp2_approximate
    single, exact = (
        specialize.specialize(exponentials.sigmoid, *p).py_func for p in (("float32", False), ("float64", False))
    )
    assert single.__globals__["decay"].py_func.__name__ == "decay_single"
    assert exact.__globals__["decay"].py_func.__globals__["exp"] is specialize.hardware.exp


@compiles
def test_specialize_makes_one_copy_a_precision():
    one = specialize.specialize_for(gates.glu, TABLE["float16"])
    assert one is specialize.specialize_for(gates.glu, TABLE["bfloat16"])
    assert one is not specialize.specialize_for(gates.glu, TABLE["float32"])


def test_the_logarithm_of_one_and_a_share():
    """In float32, of shares of any size."""
    x = np.concatenate([np.linspace(0, 1, 100001)[1:], np.exp(-np.linspace(0, 80, 50001))]).astype(np.float32)
    found, wanted = arithmetic.log1p_of_share_degree_10(x), np.log1p(x.astype(np.float64))
    assert found.dtype == np.float32 and np.abs(found / wanted - 1).max() < 2.5e-7
    assert arithmetic.log1p_of_share_degree_10(0.0) == 0.0
