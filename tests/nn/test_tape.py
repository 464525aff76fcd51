"""The tape of `numbacc.nn`: gradients against central differences in float64, and what a tape records."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from conftest import refused

import numbacc
from numbacc import elementwise as ew
from numbacc import gated, nn
from numbacc.errors import DTypeError, OptionError, ShapeError, UnsupportedError

pytestmark = pytest.mark.usefixtures("poison")

CAP = ew.kernel(lambda x, s: s * math.tanh(x / s))
PAIR = ew.kernel(lambda x, y: (x * y, math.exp(x)))
LENGTH = ew.reduction(lambda x: x * x, after=lambda total: math.sqrt(total))

#: Functions of two variables (3, 4) and (4,), all entries of which are at least 0.5.
FUNCTIONS = {
    "operators": lambda x, y: (2.0 - x) * y / (x + 1.5) - (3.0 / y - -x) * 0.5,
    "shared": lambda x, y: (x + x) * x + y + y,
    "reshape, sum, mean": lambda x, y: x.reshape(4, 3).sum(axis=0) * 2.0 + (x * y).mean(axis=1, keepdims=True),
    "sum of all": lambda x, y: x.sum() * y,
    "own kernel": lambda x, y: nn.wrap(CAP)(x, 2.0) + nn.wrap(CAP)(x, y),
    "several results": lambda x, y: nn.wrap(PAIR)(x, y)[0] * x,
    "own reduction": lambda x, y: nn.wrap(LENGTH)(x, axis=1, keepdims=True) * y,
    "softmax": lambda x, y: nn.wrap(ew.softmax)(x, axis=0) * y,
    "gated": lambda x, y: nn.wrap(gated.forward)(x, "geglu") * 3.0,
    "functions": lambda x, y: nn.wrap(ew.maximum)(x, nn.wrap(ew.log)(y)) + nn.wrap(ew.gelu)(x),
    "loss": lambda x, y: nn.mean_squared_error(x, x * y) + 0.5 * nn.mean_squared_error(x, x.mean() + x),
    "cross entropy": lambda x, y: nn.cross_entropy(x * y, TARGET) * 2.0 + nn.cross_entropy(x, TARGET),
}
TARGET = np.array([1, 3, 0])


def difference(f, arrays, directions, step=1e-6):
    """The slope of f along directions, by central differences."""
    ends = [f(*(x + s * d for x, d in zip(arrays, directions, strict=True))) for s in (step, -step)]
    return (ends[0] - ends[1]) / (2 * step)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(place, name, monkeypatch):
    monkeypatch.setitem(globals(), "TARGET", place.put(np.array([1, 3, 0])))
    rng, function = np.random.default_rng(0), FUNCTIONS[name]
    arrays = [0.5 + rng.random(shape) for shape in ((3, 4), (4,))]
    with nn.Tape() as tape:
        variables = [nn.Variable(place.put(each)) for each in arrays]
        y = function(*variables)
        weights = rng.standard_normal(y.shape)
        loss = (y * place.put(weights)).sum() if y.ndim else y * float(weights)
    assert loss.shape == () and loss.dtype == np.float64
    tape.backward(loss)
    given = [0 if each.gradient is None else place.get(each.gradient) for each in variables]

    def on_numpy(*arrays):
        """Without a tape, by NumPy: the functions take variables whose arithmetic is NumPy's."""
        monkeypatch.setitem(globals(), "TARGET", np.array([1, 3, 0]))
        with nn.Tape():
            found = function(*map(nn.Variable, arrays)).value
        return float((found * weights).sum())

    for _ in range(2):
        directions = [rng.standard_normal(each.shape) for each in arrays]
        slope = sum((g * d).sum() for g, d in zip(given, directions, strict=True))
        assert slope == pytest.approx(difference(on_numpy, arrays, directions), rel=1e-7, abs=1e-8)


def test_what_is_recorded(place):
    """Results are variables where a variable is among the inputs and a tape records; else arrays."""
    x = nn.Variable(place.put(np.ones(2)))
    double = nn.wrap(ew.multiply)
    plain = type(x.value)
    assert type(double(x, 2.0)) is plain
    with nn.Tape() as tape:
        assert type(double(x.value, 2.0)) is plain and type(double(x, 2.0)) is nn.Variable
        with nn.no_grad():
            assert type(double(x, 2.0)) is plain
        y = double(x, 2.0)
        assert "Variable" in repr(y) and y.ndim == 1 and y.dtype == np.float64
        with nn.Tape() as inner:
            z = (y * 3.0).sum()
        inner.backward(z)
    assert type(double(x, 2.0)) is plain
    np.testing.assert_array_equal(place.get(y.gradient), 3.0)
    assert x.gradient is None
    tape.backward(y, place.put(np.array([1.0, 5.0])))
    np.testing.assert_array_equal(place.get(x.gradient), [2.0, 10.0])


def test_own_functions(place):
    """A closure gets arrays, also for the loss's gradient and for results that nothing depends on."""
    seen = []

    def halves(x):
        v = nn.value_of(x)

        def backward(dy, dz):
            seen.append((dy.shape, dz.shape))
            return ew.multiply(dy, 0.5), None, None

        return nn.record((v * 0.5, v * 2.0), (x, "no array", 3), backward)

    x = nn.Variable(place.put(np.array(4.0)))
    with nn.Tape() as tape:
        y, z = halves(x)
    tape.backward(y, 3.0)
    assert seen == [((), ())] and float(place.get(x.gradient)) == 1.5 and z.gradient is None


def test_a_gradient_has_one_owner(place):
    """A closure may return the array that it got, for several inputs: they do not share memory."""
    first, second = (nn.Variable(place.put(np.full(3, v))) for v in (1.0, 2.0))
    with nn.Tape() as tape:
        total = nn.record(first.value + second.value, (first, second), lambda dy: (dy, dy))
        loss = (total * first).sum()
    tape.backward(loss)
    np.testing.assert_array_equal(place.get(first.gradient), 4.0)
    np.testing.assert_array_equal(place.get(second.gradient), 1.0)


class Twice(nn.Module):
    """A model that uses one parameter twice, one once, and one never."""

    def __init__(self):
        self.table, self.scale, self.unused = nn.Embedding(5, 3), nn.Parameter((3,), 2.0), nn.Parameter((2, 2), 1.0)

    def __call__(self, tokens):
        return nn.cross_entropy(self.table.logits(self.table(tokens) * self.scale), tokens)


def test_accumulation_and_readiness(place):
    tokens = place.put(np.array([1, 4, 1]))
    model = Twice().initialize("float64", seed=1)
    where = {each: name for name, each in model.parameters().items()}

    def run(**options):
        ready = []
        with nn.Tape() as tape:
            loss = model(tokens)
        tape.backward(loss, ready=lambda each: ready.append(where[each]), **options)
        assert sorted(ready) == sorted(where.values()) and ready.index("scale") < ready.index("table.weight")
        return place.get(model.buffers.gradients)

    model.buffers.gradients[...] = np.nan
    once = run()
    assert np.isfinite(once[: model.parameters()["unused"].span.stop]).any()
    np.testing.assert_array_equal(place.get(model.unused.gradient), 0)
    np.testing.assert_allclose(run(), once, rtol=1e-13, atol=0, equal_nan=True)
    np.testing.assert_allclose(run(accumulate=True), 2 * once, rtol=1e-13, atol=0, equal_nan=True)
    np.testing.assert_allclose(run(accumulate=True, dloss=0.5), 2.5 * once, rtol=1e-13, atol=0, equal_nan=True)
    dloss = place.put(np.array(4.0))
    np.testing.assert_allclose(run(dloss=dloss), 4 * once, rtol=1e-13, atol=0, equal_nan=True)


def test_checkpoint(place):
    """Gradients are the same, dropout included; only inputs are kept."""
    rng, kept = np.random.default_rng(2), []

    class Layer(nn.Module):
        def __init__(self):
            self.linear, self.dropout = nn.Linear(4, 4, activation="relu"), nn.Dropout(0.25)

        def __call__(self, x):
            y = self.dropout(self.linear(self.dropout(x)))
            if isinstance(y, nn.Variable):
                kept.append(y)
            return x + y

    class Model(nn.Module):
        def __init__(self):
            self.layers, self.first = [Layer(), Layer()], nn.Parameter((4,), 0.5)

        def __call__(self, x, call):
            x = x * self.first
            for layer in self.layers:
                x = call(layer, x)
            return (x * x).sum()

    x, found = place.put(rng.standard_normal((6, 4))), []
    for call in (lambda layer, x: layer(x), nn.checkpoint):
        model, order = Model().initialize("float64", seed=3), []
        for _ in range(2):
            with nn.Tape() as tape:
                loss = model(x, call)
            tape.backward(loss, ready=order.append)
            found.append(place.get(model.buffers.gradients))
        assert len(order) == 2 * 5 and order[4] is model.first
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[1], found[3])
    assert (found[0] != found[1]).any()  # the next step drops others
    assert type(nn.checkpoint(model.layers[0], x)) is type(x)
    assert len(kept) == 2 * 2 + 2 * 4  # twice as many calls with checkpoints


def test_threads():
    """Each thread has its own tape."""
    found, barrier = {}, threading.Barrier(2)

    def work(number):
        x = nn.Variable(np.full(3, float(number)))
        with nn.Tape() as tape:
            barrier.wait()
            y = (x * x).sum()
            barrier.wait()
        tape.backward(y)
        found[number] = x.gradient

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for number in (1, 2):
        np.testing.assert_array_equal(found[number], 2.0 * number)


def test_errors():
    x = nn.Variable(np.ones((2, 2)))
    with nn.Tape() as tape:
        y = (x * x).sum(axis=0)
    refused(ShapeError, "dloss has shape", run=lambda: tape.backward(y, np.ones(3)))
    refused(OptionError, "this tape is empty", run=lambda: tape.backward(y))
    with nn.Tape() as tape:
        y = (x * x).sum()
    refused(OptionError, "accumulate", run=lambda: tape.backward(y, accumulate=1))
    refused(OptionError, "loss is no variable", run=lambda: tape.backward(1.0))
    refused(OptionError, "initialize", run=lambda: nn.Parameter((2,)).value)
    refused(DTypeError, "an attribute `backward`", run=lambda: nn.wrap(np.exp))
    with nn.Tape() as tape:
        refused(OptionError, "out, where", run=lambda: nn.wrap(ew.exp)(x, out=np.ones((2, 2))))
        refused(UnsupportedError, "several variables", run=lambda: nn.checkpoint(lambda x: (x * 2.0, x), x))
        cos = nn.Variable(np.ones((2, 1)))
        y = nn.wrap(ew.rope)(x, cos, np.zeros((2, 1))).sum()
    refused(UnsupportedError, "rope has gradients of its first 1 arrays", run=lambda: tape.backward(y))


@pytest.mark.gpu
def test_on_streams_and_in_graphs():
    """Gradients on another stream, and in a graph that is launched with other inputs, are those of a plain call."""
    rng = np.random.default_rng(4)
    model = nn.Transformer(11, width=32, layers=2, heads=4, kv_heads=2, length=16).initialize("bfloat16")
    tokens = numbacc.asarray(rng.integers(0, 11, (3, 16), dtype=np.int32))

    def step():
        with nn.Tape() as tape:
            loss = model(tokens[:, :-1], tokens[:, 1:])
        tape.backward(loss)
        return loss.value

    loss = float(numbacc.asnumpy(step()))
    wanted = numbacc.asnumpy(model.buffers.gradients)
    with numbacc.graph() as graph:
        captured = step()
    for run in (lambda: numbacc.asnumpy(step()), lambda: (graph.launch(), numbacc.asnumpy(captured))[1]):
        for stream in (numbacc.stream(), numbacc.current_stream()):
            model.buffers.gradients[...] = np.nan
            with stream:
                assert float(run()) == pytest.approx(loss, rel=1e-6)
            found = numbacc.asnumpy(model.buffers.gradients).astype(np.float64)
            for each in model.buffers.parameters:  # the padding stays NaN
                exact = wanted[each.span].astype(np.float64)
                np.testing.assert_allclose(found[each.span], exact, rtol=2**-6, atol=1e-4)
