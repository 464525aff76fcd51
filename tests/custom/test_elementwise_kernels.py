"""Kernels of one's own: `elementwise.kernel` on every dtype, layout and broadcast, against the formula itself."""

# ruff: noqa: B023, E501, SIM300
from __future__ import annotations

import copy
import functools
import math
import pickle
import sys

import numpy as np
import pytest
from conftest import memory_layouts, refused
from hypothesis import given
from hypothesis import strategies as st
from own_kernels import (
    DTYPES,
    FLOATS,
    bent,
    bent_by_numpy,
    capped,
    close,
    numbers,
)
from threads import run_threads

import numbacc
from numbacc import elementwise as ew
from numbacc.errors import DTypeError, LayoutError, OptionError, ShapeError, UnsupportedError

pytestmark = pytest.mark.usefixtures("poison")

scale = 3.0


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(place, name):
    """Integers are computed as floats: 8 bits in float16, 32 and more in float64."""
    x, y = abs(numbers((3, 5), name)), abs(numbers((5,), name, 1))
    value, truth = bent(place.put(x), place.put(y))
    wide = {"int32": "float64", "uint8": "float16", "bool": "float16", "int64": "float64"}.get(name, name)
    assert value.dtype == DTYPES.get(wide, np.dtype(wide)) and truth.dtype == bool
    wanted = bent_by_numpy(x, y)
    close(place, value, wanted[0], name)
    np.testing.assert_array_equal(place.get(truth), wanted[1])
    close(place, capped(place.put(x), 3), 3 * np.tanh(x.astype(np.float64) / 3), name)


def test_complex_numbers_are_refused(place):
    refused(DTypeError, "bent", "x", "complex64", run=lambda: bent(place.put(np.ones(2, np.complex64)), 1))
    refused(DTypeError, "complex", run=lambda: bent(place.put(np.ones(2, np.float32)), 1j))


@st.composite
def calls(draw):
    shape = draw(st.lists(st.sampled_from([0, 1, 2, 3]), max_size=3, min_size=1))
    second = [draw(st.sampled_from([n, 1])) for n in shape]
    layouts = [draw(memory_layouts(len(shape), False)) for _ in range(2)]
    return shape, second, layouts, draw(st.sampled_from(FLOATS)), draw(st.sampled_from([None, 0.5, -2]))


@given(calls())
def test_any_layout(place, drawn):
    shape, second, layouts, name, slope = drawn
    x, y = (place.operand(numbers(s, name), **own) for s, own in zip((shape, second), layouts, strict=True))
    more = {} if slope is None else {"slope": slope}
    found = bent(x.view, y.view, **more)
    wanted = bent_by_numpy(np.array(x.values), np.array(y.values), **more)
    assert isinstance(found, tuple) and len(found) == 2
    close(place, found[0], wanted[0], name)
    np.testing.assert_array_equal(place.get(found[1]), wanted[1])
    x.assert_untouched(), y.assert_untouched()


def test_results_are_given(place):
    x, y = numbers((4, 5), "float32"), numbers((5,), "float32", 1)
    first, second = (place.empty(x.shape, np.dtype(d), steps=(2, -1)) for d in ("float32", "bool"))
    out = (first.view, second.view)
    assert bent(place.put(x), place.put(y), out=out) is out
    np.testing.assert_array_equal(first.now(), bent_by_numpy(x, y)[0])
    np.testing.assert_array_equal(second.now(), bent_by_numpy(x, y)[1])
    mask = np.arange(20).reshape(4, 5) % 3 == 0
    d = place.put(x)
    assert capped(d, 2.0, out=d, where=place.put(mask)) is d
    close(place, d, np.where(mask, 2 * np.tanh(x / 2), x))
    refused(ShapeError, "out", run=lambda: bent(place.put(x), place.put(y), out=first.view))
    refused(
        DTypeError, "out[1]", run=lambda: bent(place.put(x), place.put(y), out=(first.view, place.put(mask * 1)))
    ) if (False) else None
    truth = place.put(mask)
    refused(LayoutError, "overlap", run=lambda: bent(d[1:], 1, out=(d[:-1], truth[1:])))
    value = place.put(x)
    bent(value, 1, out=(value, truth), where=truth)
    close(place, value, np.where(mask, bent_by_numpy(x, 1)[0], x))
    np.testing.assert_array_equal(place.get(truth), mask & bent_by_numpy(x, 1)[1])


def test_options_and_arguments(place):
    x = numbers((4,), "float32")
    d = place.put(x)
    for call, slope in [
        (lambda: bent(d, 1.0), 0.25), (lambda: bent(d, 1.0, 0.5), 0.5), (lambda: bent(d, 1.0, slope=0.5), 0.5),
        (lambda: bent(d, y=1.0, slope=2), 2), (lambda: bent(x=d, y=1.0), 0.25), (lambda: bent(d, 1.0), 0.25),
    ]:  # fmt: skip
        close(place, call()[0], bent_by_numpy(x, 1.0, slope)[0])
    close(place, bent(2.0, d)[0], bent_by_numpy(2.0, x)[0])
    for wrong in (lambda: bent(d), lambda: bent(d, 1, 2, 3), lambda: bent(d, 1, other=2), lambda: bent()):
        with pytest.raises(TypeError, match="argument"):
            wrong()
    refused(DTypeError, "only scalars", run=lambda: bent(1.0, 2.0))
    refused(DTypeError, "y", run=lambda: bent(d, "a"))
    plan = bent.plan(d, 1.0, slope=0.5)
    close(place, plan(d, 1.0, 3.0)[0], bent_by_numpy(x, 1.0, 3.0)[0])


FORMULAS = {
    "constant": (lambda x: 7.0, lambda x: np.full_like(x, 7)),
    "integer constant": (lambda x: 7, lambda x: np.full_like(x, 7)),
    "argument": (lambda x: x, lambda x: x),
    "integer powers": (lambda x: x**2 + x**3 - x**0 + x**1, lambda x: x**2 + x**3 - 1 + x),
    "negative power": (lambda x: x**-2, lambda x: x**-2.0),
    "power of": (lambda x: 2**x, lambda x: 2.0**x),
    "%": (lambda x: x % 3, lambda x: x % 3), "//": (lambda x: x // 3, lambda x: x // 3),
    "% of": (lambda x: 3 % x, lambda x: np.mod(3.0, x)), "// of": (lambda x: 3 // x, lambda x: np.floor_divide(3.0, x)),
    "% negative": (lambda x: x % -2.5, lambda x: x % -2.5), "/ 0": (lambda x: x / 0, lambda x: x / 0.0),
    "1 /": (lambda x: 1 / x, lambda x: 1 / x), "comparison": (lambda x: x > 1, lambda x: x > 1),
    "chain": (lambda x: -1 < x <= 2, lambda x: (x > -1) & (x <= 2)), "not": (lambda x: not x > 1, lambda x: ~(x > 1)),
    "and or": (lambda x: x < -1 or (x > 1 and x < 3), lambda x: (x < -1) | ((x > 1) & (x < 3))),
    "truth as number": (lambda x: (x > 1) * x + (x < 0), lambda x: (x > 1) * x + (x < 0)),
    "is NaN": (lambda x: 0.0 if x != x else x, lambda x: np.where(np.isnan(x), 0, x)),
    "NaN branch": (lambda x: 1.0 if x > 0 else 2.0, lambda x: np.where(x > 0, 1, 2)),
    "not above": (lambda x: 1.0 if not x > 0 else 2.0, lambda x: np.where(x > 0, 2, 1)),
    "nan": (lambda x: math.nan if x > 0 else math.inf, lambda x: np.where(x > 0, np.nan, np.inf)),
    "max": (lambda x: max(x, 0), lambda x: np.where(0 > x, 0, x)), "abs": (lambda x: abs(x), np.abs),
    "log": (lambda x: math.log(x), np.log), "sqrt": (lambda x: math.sqrt(x), np.sqrt),
    "exp": (lambda x: math.exp(500 * x), lambda x: np.exp(500 * x)),
    "floor": (lambda x: math.floor(x) + math.ceil(x) + math.trunc(x), lambda x: np.floor(x) + np.ceil(x) + np.trunc(x)),
    "loop": (lambda x: sum(x**k for k in range(4)), lambda x: 1 + x + x**2 + x**3),
    "numpy's": (lambda x: ew.sigmoid(x) + ew.maximum(x, 1.0), lambda x: 1 / (1 + np.exp(-x)) + np.maximum(x, 1)),
    "where": (lambda x: ew.where(x > 0, x, -1.0), lambda x: np.where(x > 0, x, -1)),
    "exp2": (lambda x: ew.exp2(x) + ew.rsqrt(x * x + 1), lambda x: np.exp2(x) + 1 / np.sqrt(x * x + 1)),
    "kernel": (lambda x: capped(x, 2.0) + 1, lambda x: 2 * np.tanh(x / 2) + 1),
    "pow": (lambda x: ew.pow(x, 2.0) + math.pow(x, 3), lambda x: x**2 + x**3),
    "clamp": (lambda x: ew.clamp(x, -1.0, 1.0) + ew.gelu(x * 0), lambda x: np.clip(x, -1, 1) + x * 0),
    "remainder": (lambda x: ew.remainder(x, 3.0) + ew.floor_divide(x, 3.0), lambda x: np.mod(x, 3) + np.floor_divide(x, 3)),
    "round": (lambda x: ew.round(x) + ew.sign(x), lambda x: np.rint(x) + np.sign(x)),
    "options": (lambda x: ew.leaky_relu(x) + ew.leaky_relu(x, negative_slope=0.25), lambda x: np.where(x > 0, 2 * x, 0.26 * x)),
    "some options": (lambda x: ew.hardtanh(x, max_val=2) + ew.addcmul(x, x, 2.0), lambda x: np.clip(x, -1, 2) + x + 2 * x),
    "bounds": (lambda x: ew.clamp(x, min=-1) + ew.clamp(x, max=2.0), lambda x: np.maximum(x, -1) + np.minimum(x, 2)),
}  # fmt: skip
SPECIAL = np.array([0.0, -0.0, 0.5, 1.0, -1.5, 2.5, -3.0, 6.0, math.nan, math.inf, -math.inf])


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_formulas(place, name, kind):
    function, meaning = FORMULAS[name]
    x = SPECIAL.astype(kind)
    with np.errstate(all="ignore"):
        wanted = meaning(x.astype(np.float64))
        limit = np.abs(wanted) > np.finfo(kind).max
        wanted = np.where(limit, wanted * np.inf, wanted) if wanted.dtype != bool else wanted
    found = place.get(ew.kernel(function)(place.put(x)))
    assert found.dtype == (np.dtype(bool) if wanted.dtype == bool else np.dtype(kind))
    np.testing.assert_allclose(found, wanted, rtol=1e-5 if kind == "float32" else 1e-13)


# ---------------------------------------------------------------- what functions refer to


def test_forward_backward_and_source_have_the_same_values_from_outside(place, monkeypatch):
    """Also after a change, whichever is asked for first; `test_formula_outside` has more."""
    here = sys.modules[__name__]
    own = ew.kernel(lambda x: scale * x)
    x = place.put(np.array([1.0, 2.0]))
    close(place, own(x), [3, 6])
    monkeypatch.setattr(here, "scale", 100.0)
    (dx,) = own.backward(place.put(np.ones(2)), x)
    close(place, dx, [100, 100])
    close(place, own(x), [100, 200])
    close(place, own(place.put(np.ones((2, 2), np.float32))), 100)
    assert own.inspect().source.count("100") == 2
    close(place, ew.kernel(own.py_func)(x), [100, 200])


def test_closures(place):
    x = place.put(np.array([1.0, 2.0]))

    def times(k):
        return ew.kernel(lambda x: k * x)

    made = [times(k) for k in (2, 3, 4)]
    for k, own in zip((2, 3, 4), made, strict=True):
        close(place, own(x), k * np.array([1, 2]))
    for k in (1, 1.0, True, -0.0, 0.0):  # constants that are equal
        found = place.get(ew.kernel((lambda k: lambda x: math.copysign(x, k))(k))(x))
        np.testing.assert_array_equal(found, math.copysign(1, k) * np.array([1, 2]))


def test_a_kernel_is_defined_anew(place):
    x = place.put(np.array([1.0, 2.0]))

    def define(text):
        space = {"ew": ew}
        exec(compile(text, "<cell>", "exec"), space)
        return space["own"]

    first = define("own = ew.kernel(lambda x: x + 1)")
    close(place, first(x), [2, 3])
    second = define("own = ew.kernel(lambda x: x + 2)")
    close(place, second(x), [3, 4])
    close(place, first(x), [2, 3])
    assert "+ 1" in first.inspect().source and "+ 2" in second.inspect().source
    ew.cache_clear()
    assert "+ 1" in first.inspect().source


def test_recursion_and_nesting(place):
    x = np.array([0.5, -1.0, 3.0])

    def power(x, n):
        return 1.0 if n == 0 else x * power(x, n - 1)

    inner = ew.kernel(lambda x: (x, 2 * x))

    @ew.kernel
    def outer(x):
        a, b = inner(x)
        return a * b + power(x, 3)

    close(place, outer(place.put(x)), 2 * x * x + x**3)


@pytest.mark.parametrize(
    "wrong",
    [math.tanh, np.tanh, "tanh", None.__class__, 3, functools.partial(math.pow, 2.0), [].append, FORMULAS, object()],
    ids=lambda each: type(each).__name__,
)
def test_what_is_no_function_is_refused(wrong):
    refused(OptionError, "function=", run=lambda: ew.kernel(wrong))
    refused(OptionError, "backward=", run=lambda: ew.kernel(lambda x: x, backward=wrong))


def test_signatures_that_are_refused():
    class Own:
        def method(self, x):
            return x

    refused(OptionError, "function=", run=lambda: ew.kernel(Own().method))
    refused(OptionError, "must be positional", run=lambda: ew.kernel(lambda *x: x[0]))
    refused(OptionError, "must be positional", run=lambda: ew.kernel(lambda x, *, s: x * s))
    refused(OptionError, "must be positional", run=lambda: ew.kernel(lambda x, **more: x))
    refused(OptionError, "at least one", run=lambda: ew.kernel(lambda: 1.0))
    refused(OptionError, "at least one", run=lambda: ew.kernel(lambda x=1.0: x))


def loops(x):
    while x > 1:
        x = x / 2
    return x


def indexes(x):
    return [1.0, 2.0][x]


def makes_an_int(x):
    y = x + 1
    return int(y)


def raises(x):
    if x > 1:
        raise ValueError("too large")
    return x


def generates(x):
    yield x


def several(x):
    if x > 0:
        return x, x
    return x


def adds_up(x):
    y = x * x
    return ew.sum(y)


BAD = {
    loops: "while x > 1", indexes: "[1.0, 2.0][x]", makes_an_int: "int(y)", raises: "raise ValueError",
    generates: "def generates(x)", several: "2", adds_up: "it calls sum, which", (lambda x: np.spacing(x)): "np.spacing", (lambda x: "a"): "str", (lambda x: None): "None",
    (lambda x: [x]): "list", (lambda x: x * 1j): "complex", (lambda x: math.gcd(x, 2)): "math.gcd",
    (lambda x: missing(x)): "missing", (lambda x: round(x, 2)): "round", (lambda x: float(x)): "float(x)",  # noqa: F821
    (lambda x: x * 10**400): "10**400", (lambda x: ()): "no number", (lambda x: math.tanh(x, x)): "math.tanh", (lambda x: x @ x): "@", (lambda x: ~x): "~",
}  # fmt: skip


@pytest.mark.parametrize("function", BAD, ids=BAD.values())
def test_what_kernels_cannot_is_told_with_the_line(place, function):
    """At the call, in one error, which names the function and the user's line; again at the next call."""
    own = ew.kernel(function)
    for _ in range(2):
        with pytest.raises(UnsupportedError) as caught:
            own(place.put(np.ones(2)))
        message = str(caught.value)
        assert BAD[function] in message and function.__name__ in message
        assert "numba" not in message.replace("numbacc", "")
        assert "test_elementwise_kernels.py: " in message
    assert "Traceback" not in message and caught.value.__cause__ is None


def test_the_line_is_the_users_own():
    """Not one of the functions that the formula calls; nor the decorator, where no line alone is wrong."""
    with pytest.raises(UnsupportedError, match=r"needs arrays, not numbers: .*; line \d+ of .*: return ew\.sum\(y\)$"):
        ew.kernel(adds_up)(np.ones(2))

    @ew.kernel
    def nothing(x):
        x + 1.0

    with pytest.raises(UnsupportedError, match=r"NoneType, .*; line \d+ of .*: def nothing\(x\):$"):
        nothing(np.ones(2))


def test_functions_with_options_become_kernels(place):
    x = np.array([-1.0, 0.5, 3.0])
    softplus = ew.kernel(ew.softplus)
    for more in ({}, {"beta": 2.0}):
        close(place, softplus(place.put(x), **more), numbacc.asnumpy(ew.softplus(x, **more)))


# ---------------------------------------------------------------- the object


def test_what_a_kernel_is(place):
    assert capped.__name__ == "capped" and capped.__doc__ == "s tanh(x / s)." and "capped(x, s)" in repr(capped)
    assert pickle.loads(pickle.dumps(capped)) is capped
    assert copy.copy(capped) is capped and copy.deepcopy([capped])[0] is capped
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(ew.kernel(lambda x: x))
    text = capped.inspect().source
    assert "hyperbolic_tangent" in text and text.count("def ") == 2
    assert "math.gamma" in ew.kernel(lambda x: math.gamma(x)).inspect().source
    assert capped.py_func(0.0, 1.0) == 0.0
    plan = capped.plan(place.put(np.ones(3)), 2.0)
    assert plan.info.op == "elementwise.capped" and "capped" in repr(plan)
    assert ew.kernel(backward=lambda dy, x: (dy,))(lambda x: x).__name__ == "<lambda>"


def test_threads_make_it_once(place):
    for _ in range(3 if place.is_slow else 20):
        own = ew.kernel(lambda x, s: x * s if x > 0 else x - s)
        x = place.put(np.array([1.0, -1.0]))

        def work(k, own=own, x=x):
            close(place, own(x, float(k)), [k, -1 - k])
            close(place, own.backward(x, x, 2.0)[0], [2, -1])

        run_threads(work)
