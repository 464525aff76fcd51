"""Kinds of gated units that users bring, on every place that there is."""

from __future__ import annotations

import copy
import math

import ml_dtypes
import numpy as np
import pytest
from oracle import DTYPES
from threads import run_threads

import numbacc
from numbacc import gated
from numbacc.functions import digamma


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """Kinds do not outlive their test."""
    for name in ("_own", "_outside"):
        monkeypatch.setattr(gated, name, {})
    gated.cache_clear()
    yield
    gated.cache_clear()


def sine(b):
    return b * math.sin(b)


def inputs(place, dtype, columns=34):
    rng = np.random.default_rng(4)
    rows = 3 if place.is_slow else 70
    return [rng.standard_normal((rows, n)).astype(dtype) for n in (columns // 2, columns)]


def exact(dy, x):
    dy, a, b = dy.astype(np.float64), *(np.split(x.astype(np.float64), 2, -1))
    g, slope = b * np.sin(b), np.sin(b) + b * np.cos(b)
    return a * g, np.concatenate([dy * g, dy * a * slope], -1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [34, 66])
def test_forward_and_backward(place, dtype, columns):
    dy, x = inputs(place, dtype, columns)
    gated.register("sineglu", sine)
    y, dx = exact(dy, x)
    given = place.put(x)
    eps = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(place.get(gated.forward(given, "sineglu")).astype(np.float64), y, 8 * eps, 8 * eps)
    answer = gated.backward(place.put(dy), given, "sineglu", out=given)
    assert answer is given
    np.testing.assert_allclose(place.get(given).astype(np.float64), dx, 8 * eps, 8 * eps)


def test_where_python_would_raise_there_are_infinities(place):
    gated.register("expglu", lambda b: math.exp(b) / b, slope=lambda b: math.exp(b))
    x = np.array([1.0, 1.0, 1.0, 1000.0, 0.0, math.nan], np.float64)
    found = place.get(gated.forward(place.put(x), "expglu"))
    np.testing.assert_array_equal(found, [np.inf, np.inf, np.nan])


@pytest.mark.parametrize(
    "gate, b, y, da",
    [
        (lambda b: math.sqrt(abs(b)), 0.0, 0.0, 0.0),
        (lambda b: 1.0 / math.sin(b), 0.0, np.inf, np.inf),
        (lambda b: math.exp(b) ** 2, 400.0, np.inf, np.inf),
        (lambda b: math.sin(b) ** 0.5, -1.0, np.nan, np.nan),
        (lambda b: b * ((b > 0) + (b > 1)), 2.0, 4.0, 4.0),
        (lambda b: b * -(b > 0), 2.0, -2.0, -2.0),
        (lambda b: max(b, 0.0), np.nan, np.nan, np.nan),
    ],
)
def test_the_same_where_numbers_are_not_usual(place, gate, b, y, da):
    gated.register("own", gate)
    x = place.put(np.array([1.0, b]))
    assert place.get(gated.forward(x, "own")).tolist() == pytest.approx([y], nan_ok=True)
    assert place.get(gated.backward(place.put(np.ones(1)), x, "own"))[0] == pytest.approx(da, nan_ok=True)


def test_kinds_of_a_loop_are_each_their_own(place):
    x = place.put(np.array([1.0, 3.0]))
    for k in (1.0, 2.0):
        gated.register(f"line{int(k)}", lambda b: b * k)  # noqa: B023
    assert len({gated._own[kind]["forward"].digest("float32", False) for kind in gated._own}) == 2
    for k in (1.0, 2.0):
        assert place.get(gated.forward(x, f"line{int(k)}")).tolist() == [3.0 * k]
        assert place.get(gated.backward(place.put(np.ones(1)), x, f"line{int(k)}")).tolist() == [3.0 * k, k]


def test_a_kind_that_is_replaced_while_it_is_planned_is_not_kept(monkeypatch):
    gated.register("own", lambda b: b)
    made, x = gated.MapPlan, np.array([1.0, 3.0])

    def replacing(spec):
        monkeypatch.setattr(gated, "MapPlan", made)
        gated.register("own", lambda b: 2.0 * b)
        return made(spec)

    monkeypatch.setattr(gated, "MapPlan", replacing)
    gated.forward(x, "own")
    assert gated.forward(x, "own").tolist() == [6.0]


def test_a_cell_that_is_run_again_replaces_the_kind(place):
    x = place.put(np.array([2.0, 3.0], np.float32))
    for factor in (1.0, 2.0):
        gated.register("line", lambda b, factor=factor: b * factor)
        assert place.get(gated.forward(x, "line")).tolist() == [6.0 * factor]
        dx = gated.backward(place.put(np.ones(1, np.float32)), x, "line")
        assert place.get(dx).tolist() == [3.0 * factor, 2.0 * factor]
        assert gated.forward.plan(x, "line").info.op == "gated.forward"
    gated.register("line", lambda b: b, slope=lambda b: 5.0)
    assert place.get(gated.backward(place.put(np.ones(1, np.float32)), x, "line")).tolist() == [3.0, 10.0]


def test_plans_of_a_kind_that_was_replaced_keep_theirs(place):
    x = place.put(np.array([2.0, 3.0], np.float32))
    gated.register("line", lambda b: b)
    plan = gated.forward.plan(x, "line")
    gated.register("line", lambda b: 2.0 * b)
    assert place.get(plan(x)).tolist() == [6.0] and place.get(gated.forward(x, "line")).tolist() == [12.0]


def test_threads_call_it_while_it_is_replaced(place):
    """Each call is of one of the kinds that had the name, wherever it is."""
    x = place.put(np.array([2.0, 3.0]))
    gated.register("line", lambda b: b)

    def each(k):
        for n in range(5):
            if k == 0:
                gated.register("line", (lambda b: b) if n % 2 else (lambda b: 2.0 * b))
            assert place.get(gated.forward(x, "line")).tolist() in ([6.0], [12.0])
            slopes = place.get(gated.backward(place.put(np.ones(1)), x, "line")).tolist()
            assert slopes in ([3.0, 2.0], [6.0, 4.0])

    run_threads(each)


def test_strided_arrays(place):
    gated.register("line", lambda b: 2.0 * b)
    x = np.arange(48.0).reshape(4, 12)
    found = gated.forward(place.put(x)[:, ::2].T, "line", axis=0)
    np.testing.assert_array_equal(place.get(found), 2.0 * x.T[0:6:2] * x.T[6:12:2])


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (("geglu", sine), numbacc.OptionError, "kind='geglu' is not a new name"),
        (("", sine), numbacc.OptionError, "not a new name"),
        ((3, sine), numbacc.OptionError, "not a new name"),
        (("own", 3), numbacc.OptionError, "gate=3 is not a Python function of one number"),
        (("own", np.exp), numbacc.OptionError, "gate="),
        (("own", lambda a, b: a), numbacc.OptionError, "gate="),
        (("own", sine, 4), numbacc.OptionError, "slope=4 is not"),
        (
            ("own", lambda b: digamma.trigamma(b)),
            numbacc.UnsupportedError,
            "own has no derivative that can be derived: no",
        ),
    ],
)
def test_what_is_no_kind_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        gated.register(*arguments)
    assert gated._own == {}


def test_unknown_kinds_are_told_all_there_are():
    gated.register("own", sine)
    with pytest.raises(numbacc.OptionError, match="geglu_tanh, own"):
        gated.forward(np.zeros(2), "another")


def test_its_formulas_are_not_pickled():
    gated.register("own", sine)
    formula = gated._own["own"]["forward"]
    with pytest.raises(TypeError, match="cannot be pickled"):
        copy.copy(formula)


@pytest.mark.gpu
def test_a_graph_replays_it():
    gated.register("own", sine)
    x = numbacc.asarray(np.ones(8, np.float32))
    gated.forward(x, "own")
    with numbacc.graph() as g:
        y = gated.forward(x, "own")
    x[...] = np.full(8, 2.0, np.float32)
    g.launch()
    np.testing.assert_allclose(numbacc.asnumpy(y), 4 * np.sin(2.0), rtol=1e-6)
