"""Values that formulas read from outside: what changes from call to call is refused, other changes count at once."""

from __future__ import annotations

import builtins
import datetime
import itertools
import math
import os
import random
import secrets
import sys
import time
import timeit
import types
import uuid

import numpy as np
import pytest
from conftest import refused

import numbacc
from numbacc import elementwise as ew
from numbacc import gated
from numbacc.errors import UnsupportedError
from numbacc.functions.symbolic import captured
from numbacc.functions.symbolic.captured import Outside

X = np.array([[0.5, -1.0, 2.0, 3.0]], np.float32)
scale, table, module = 2.0, [1.0, 2.0], types.ModuleType("mine")


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """What tests change is as it was behind them; kinds do not outlive their test."""
    for name, value in (("scale", 2.0), ("table", [1.0, 2.0]), ("helper", helper)):
        monkeypatch.setattr(sys.modules[__name__], name, value)
    for name in ("_own", "_outside"):
        monkeypatch.setattr(gated, name, {})
    gated.cache_clear()
    yield
    gated.cache_clear()


def helper(x):
    return x * scale


def change(name, value):
    globals()[name] = value


# ---------------------------------------------------------------- refused by name

rng, legacy, own = np.random.default_rng(0), np.random.RandomState(0), random.Random(0)
now, clock, draw = datetime.datetime.now, time.perf_counter, random.random

#: What is called -> formula.
CHANGING = {
    "random.random": lambda x: x + random.random(),
    "random.gauss": lambda x: x + random.gauss(0.0, 1.0),
    "random.Random": lambda x: x + random.Random().random(),
    "random.Random.uniform": lambda x: x + own.uniform(0.0, 1.0),
    "random.random,": lambda x: x + draw(),
    "time.time": lambda x: x * time.time(),
    "time.perf_counter": lambda x: x * clock(),
    "datetime.datetime.now": lambda x: x * datetime.datetime.now().timestamp(),
    "datetime.datetime.now,": lambda x: x * now().second,
    "datetime.date.today": lambda x: x * datetime.date.today().day,
    "numpy.random.rand": lambda x: x + np.random.rand(),
    "numpy.random.default_rng": lambda x: x + np.random.default_rng(0).random(),
    "numpy.random.Generator.random": lambda x: x + rng.random(),
    "numpy.random.RandomState.normal": lambda x: x + legacy.normal(),
    "os.urandom": lambda x: x + os.urandom(1)[0],
    "os.getenv": lambda x: x + float(os.getenv("SCALE", "1")),
    "os.environ": lambda x: x + float(os.environ["SCALE"]),
    "secrets.randbelow": lambda x: x + secrets.randbelow(3),
    "uuid.uuid4": lambda x: x + uuid.uuid4().int,
    "input": lambda x: x + float(input()),
    "open": lambda x: x + float(open("/dev/zero").fileno()),  # noqa: SIM115
    "id": lambda x: x + id(np),
}


@pytest.mark.parametrize("called", CHANGING)
def test_what_changes_at_each_call_is_refused_with_the_line(place, called):
    formula = CHANGING[called]
    line = f"line {formula.__code__.co_firstlineno} of {__file__}"
    name = f"it calls {called.rstrip(',')}, which returns another value each time"
    x = place.put(X)
    refused(UnsupportedError, name, "as an argument", line, run=lambda: ew.kernel(formula)(x))
    refused(
        UnsupportedError,
        name,
        line,
        run=lambda: ew.kernel(lambda x: x + 1.0, backward=lambda dy, x: formula(x)).backward(x, x),
    )
    refused(UnsupportedError, name, line, run=lambda: ew.reduction(formula)(x))
    refused(UnsupportedError, name, line, run=lambda: ew.reduction(lambda x: x, after=lambda total: formula(total))(x))
    refused(UnsupportedError, name, line, run=lambda: gated.register("mine", formula))
    refused(UnsupportedError, name, line, run=lambda: gated.register("mine", lambda b: b, slope=formula))


@pytest.mark.parametrize("called", ["random.random", "time.time"])
def test_it_is_refused_in_functions_that_are_called(place, called):
    inner = CHANGING[called]
    outer = ew.kernel(lambda x: 2.0 * inner(x))
    refused(UnsupportedError, called, f"line {inner.__code__.co_firstlineno} of", run=lambda: outer(place.put(X)))


def test_values_of_such_modules_are_values(place):
    began, day = datetime.datetime(2020, 1, 2), time.gmtime(0)
    formula = ew.kernel(lambda x: x + began.year + day.tm_year + len(os.sep) + datetime.MINYEAR)
    np.testing.assert_array_equal(place.get(formula(place.put(X))), X + np.float32(2020 + 1970 + 1 + 1))


def test_other_changing_values_are_noticed_when_it_is_noted():
    counter = itertools.count(1)
    refused(UnsupportedError, "run again", "as an argument", run=lambda: ew.kernel(lambda x: x * next(counter))(X))
    seen = []
    refused(UnsupportedError, "run again", run=lambda: ew.kernel(lambda x: x * (seen.append(x) or len(seen)))(X))


# ---------------------------------------------------------------- changes are noticed


def check(place, made, change):
    """`made(x)` follows the change, as the Python function does."""
    x = place.put(X)
    expected = made.py_func(X)
    np.testing.assert_allclose(place.get(made(x)), expected, 1e-6)
    change()
    changed = made.py_func(X)
    assert (changed != expected).all()
    np.testing.assert_allclose(place.get(made(x)), changed, 1e-6)
    np.testing.assert_allclose(place.get(made(x)), changed, 1e-6)


class Settings:
    def __init__(self):
        self.inner = types.SimpleNamespace(factor=2.0)

    def of(self, x):
        return x * scale


def cases():
    Settings.scale = 3.0
    cell, settings, values = 3.0, Settings(), np.array([1.0, 2.0], np.float32)
    nested, mapping = {"a": [1.0, (2.0, [3.0])]}, {"k": 4.0}
    module.scale = 5.0

    def set_cell():
        nonlocal cell
        cell = 4.0

    return {
        "a global": (lambda x: x * scale, lambda: change("scale", 3.0)),
        "a closure": (lambda x: x * cell, set_cell),
        "a global of a function that is called": (lambda x: 1.0 + helper(x), lambda: change("scale", 3.0)),
        "a function that is called": (lambda x: 1.0 + helper(x), lambda: change("helper", lambda x: x * 9.0)),
        "a list": (lambda x: x * table[1], lambda: table.__setitem__(1, 7.0)),
        "a dict": (lambda x: x * mapping["k"], lambda: mapping.update(k=7.0)),
        "a nested list": (lambda x: x * nested["a"][1][1][0], lambda: nested["a"][1][1].insert(0, 8.0)),
        "an array": (lambda x: x * values[1], lambda: values.__setitem__(1, 7.0)),
        "an attribute": (lambda x: x * settings.inner.factor, lambda: setattr(settings.inner, "factor", 7.0)),
        "an attribute of the class": (lambda x: x * settings.scale, lambda: setattr(Settings, "scale", 4.0)),
        "a global of a method": (lambda x: x * settings.of(1.0), lambda: change("scale", 3.0)),
        "a module's": (lambda x: x * module.scale, lambda: setattr(module, "scale", 7.0)),
        "the sign of 0": (lambda x: math.copysign(2.0, scale - 2.0) * x, lambda: change("scale", 1.0)),
    }  # fmt: skip


@pytest.mark.parametrize("case", cases())
def test_a_change_counts_at_the_next_call(place, case):
    function, changes = cases()[case]
    check(place, ew.kernel(function), changes)


def test_kernels_that_call_kernels_follow_both(place):
    inner = ew.kernel(lambda x: x * scale)
    outer = ew.kernel(lambda x: inner(x) + 1.0)
    x = place.put(X)
    np.testing.assert_allclose(place.get(outer(x)), X * 2.0 + 1.0)
    change("scale", 5.0)
    np.testing.assert_allclose(place.get(outer(x)), X * 5.0 + 1.0)
    inner = ew.kernel(lambda x: x - scale)
    np.testing.assert_allclose(place.get(outer(x)), X - 5.0 + 1.0)


def test_gradients_plans_and_sources_follow(place):
    made = ew.kernel(lambda x: x * scale)
    given = ew.kernel(lambda x: x * scale, backward=lambda dy, x: dy * scale + table[0])
    x = place.put(X)
    plan = made.plan(x)
    for own, more in ((made, 0.0), (given, 1.0)):
        np.testing.assert_array_equal(place.get(own.backward(x, x)[0]), X * 2.0 + np.float32(more))
    change("scale", 5.0)
    np.testing.assert_array_equal(place.get(made.plan(x)(x)), X * 5.0)
    for own, more in ((made, 0.0), (given, 1.0)):
        np.testing.assert_array_equal(place.get(own.backward(x, x)[0]), X * 5.0 + np.float32(more))
    np.testing.assert_array_equal(place.get(plan(x)), X * 2.0)
    table[0] = 3.0
    np.testing.assert_array_equal(place.get(given.backward(x, x)[0]), X * 5.0 + np.float32(3.0))


def test_sources_follow():
    made = ew.kernel(lambda x: x * scale)
    assert "2.0" in made._source()
    change("scale", 5.0)
    assert "5.0" in made.inspect().source


def test_reductions_follow(place):
    made = ew.reduction(
        lambda x: x * scale, merge=lambda a, b: a + b * table[0], start=0.0, after=lambda total: total + table[1]
    )
    summed = ew.reduction(lambda x: x * scale, after=lambda total: total * table[1])
    x, total = place.put(X), X.sum()
    one = place.put(np.ones((), np.float32))
    np.testing.assert_allclose(place.get(made(x)), 2.0 * total + 2.0)
    np.testing.assert_allclose(place.get(summed.backward(one, x)[0]), np.full_like(X, 4.0))
    change("scale", 3.0)
    np.testing.assert_allclose(place.get(made(x)), 3.0 * total + 2.0)
    np.testing.assert_allclose(place.get(made.plan(x)(x)), 3.0 * total + 2.0)
    table[1] = 5.0
    np.testing.assert_allclose(place.get(made(x)), 3.0 * total + 5.0)
    np.testing.assert_allclose(place.get(summed.backward(one, x)[0]), np.full_like(X, 15.0))


def test_gated_kinds_follow(place):
    gated.register("mine", lambda b: b * scale)
    gated.register("given", lambda b: b * scale, slope=lambda b: helper(1.0))
    x, dy = place.put(X), place.put(X[:, :2])
    for factor in (2.0, 3.0, 2.0):
        change("scale", factor)
        a, b = X[:, :2], X[:, 2:]
        for kind in ("mine", "given"):
            np.testing.assert_allclose(place.get(gated.forward(x, kind)), a * b * factor)
            np.testing.assert_allclose(place.get(gated.forward.plan(x, kind)(x)), a * b * factor)
            expected = np.concatenate([a * b * factor, a * a * factor], -1)
            np.testing.assert_allclose(place.get(gated.backward(dy, x, kind)), expected)


def test_a_global_that_is_gone_is_said(place):
    made = ew.kernel(lambda x: x * scale)
    made(place.put(X))
    del globals()["scale"]
    refused(UnsupportedError, "name 'scale' is not defined", run=lambda: made(place.put(X)))
    change("scale", 3.0)
    np.testing.assert_array_equal(place.get(made(place.put(X))), X * 3.0)


def test_equal_values_make_nothing_anew():
    made = ew.kernel(lambda x: x * scale * table[0])
    made(X)
    row = made._row
    change("scale", float("2.0"))
    table[0] = float("1.0")
    made(X)
    assert made._row is row
    change("scale", 2)
    made(X)
    assert made._row is not row


def test_libraries_are_taken_as_constant():
    assert not Outside([lambda x: math.tanh(x) + np.exp(x) + ew.where(x > 0, x, 0.0) + max(x, 1.0) + os.path.altsep])
    assert not Outside([lambda x: builtins.max(x, 0.0)])
    assert Outside([lambda x: x * scale])


def test_large_containers_are_not_compared_element_by_element():
    large = np.zeros(10**6)
    found = Outside([lambda x: x * large.size])
    seconds = min(timeit.repeat(found.changed, number=100, repeat=5)) / 100
    assert not found.changed() and seconds < 1e-4


def test_without_outside_values_noticing_costs_nothing():
    """Calls whose functions read nothing from outside look at one attribute: under 0.2 µs, with much to spare."""
    made = ew.kernel(lambda x: math.tanh(x))
    made(X)
    assert made._outside is None

    def bound():
        made._bound((X,), {})

    assert min(timeit.repeat(bound, number=2000, repeat=20)) / 2000 < 2e-6


def test_what_is_a_library():
    """Python's modules, installed ones, and all of numbacc's own."""
    for module in (math, np, numbacc, numbacc.elementwise, numbacc.errors):
        assert captured._is_library(module)
    assert not captured._is_library(sys.modules[__name__])
