"""Compiled steps: all calls return the same as the plain function, with and without a graph."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import warnings
import weakref
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
from conftest import refused
from threads import run_threads

import numbacc
from numbacc import elementwise as ew
from numbacc import gated

Pair = namedtuple("Pair", "first second")
RNG = np.random.default_rng(3)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def graphs(step):
    return step.cache_info().currsize


def records(place):
    """Whether calls there are recorded."""
    return place.name in ("simulator", "gpu")


@pytest.fixture
def compiled(place):
    """`numbacc.compiled` for steps on the place: with a GPU, NumPy arrays would go there."""
    return functools.partial(numbacc.compiled, device=None if place.is_device else "cpu")


def test_calls_are_those_of_the_function(place, compiled):
    """Arguments and results in containers; new arrays in each call; results stay as they are."""

    @compiled
    def step(batch, *, state, rate):
        """Move the state."""
        h = ew.multiply(batch["x"], state[0][1])
        moved = ew.subtract(batch["x"], ew.multiply(h, rate))
        return OrderedDict(loss=h.sum(), more=[Pair(moved, None), (batch["x"], "text", 3)])

    assert step.__name__ == "step" and step.__doc__ == "Move the state."
    losses, wanted = [], []
    for k in range(5):
        x, w, rate = normal(4, 8), normal(8), np.array(0.1 * k, np.float32)
        given = place.put(x) if k % 2 else x  # of NumPy or here
        found = step({"x": given}, state=(["text", place.put(w)],), rate=rate)
        assert type(found) is OrderedDict and type(found["more"][0]) is Pair
        (moved, nothing), (same, text, three) = found["more"]
        assert (nothing, text, three) == (None, "text", 3) and (same is given or k % 2 == 0)
        np.testing.assert_array_equal(place.get(same), x)
        np.testing.assert_allclose(place.get(moved), x - x * w * rate, rtol=1e-5, atol=1e-6)
        losses.append(found["loss"])
        wanted.append((x.astype(np.float64) * w).sum())
    np.testing.assert_allclose([float(each) for each in losses], wanted, rtol=1e-5, atol=1e-5)
    info = step.cache_info()
    assert (info.hits, info.misses) == ((3, 2) if records(place) else (0, 5)) and graphs(step) == records(place)
    step.cache_clear()
    assert step.cache_info() == (0, 0, 8, 0)


def test_what_the_function_writes_is_in_the_arguments(place, compiled):
    """Arguments that stay, that take turns, and views of a flat buffer, strided and not aligned."""
    step = compiled(lambda w, x: ew.add(w, x, out=w))
    kept, buffer = place.put(np.zeros(6, np.float32)), place.put(np.zeros((3, 31), np.float32))
    wanted = [np.zeros(6, np.float32), np.zeros((3, 31), np.float32)]
    turns = [(kept, wanted[0]), *[(b[k % 3, 1 + k : 13 + 2 * k : 2], v[k % 3, 1 + k : 13 + 2 * k : 2])
             for b, v in [(buffer, wanted[1])] for k in range(1)]]  # fmt: skip
    turns += [(buffer[1, 1:7], wanted[1][1, 1:7]), (buffer[2, 8:2:-1], wanted[1][2, 8:2:-1])]
    for k in [0, 0, 0, 1, 1, 2, 3, 0, 2, 2, 1, 3]:
        x = normal(6)
        assert step(turns[k][0], x) is turns[k][0]
        turns[k][1][...] += x
    np.testing.assert_array_equal(place.get(kept), wanted[0])
    np.testing.assert_array_equal(place.get(buffer), wanted[1])
    assert graphs(step) == records(place)


def test_arguments_that_share_memory(place, compiled):
    step = compiled(lambda a, b: ew.add(a, b, out=a))
    x, y = (place.put(np.full(4, k, np.float32)) for k in (1, 2))
    for _ in range(4):
        step(x, x)
        step(x, y)
    assert place.get(x).tolist() == [((((1 * 2 + 2) * 2 + 2) * 2 + 2) * 2 + 2)] * 4 and place.get(y).tolist() == [2] * 4
    flat = place.put(np.arange(12, dtype=np.float32))
    apart = compiled(lambda a, b: ew.multiply(a, ew.add(b, 0), out=a))
    for k in range(3):
        apart(flat[k : k + 4], flat[k + 4 : k + 8])
        if place.is_device and k == 1:
            refused(numbacc.UnsupportedError, "args[0]", "args[1]", run=lambda: apart(flat[8:12], flat[7:11]))
    wanted = np.arange(12, dtype=np.float32)
    for k in range(3):
        wanted[k : k + 4] *= wanted[k + 4 : k + 8]
    np.testing.assert_array_equal(place.get(flat), wanted)


def test_read_only_arguments_stay_so(device_place):
    step = numbacc.compiled(lambda a: ew.add(a, 1, out=a))
    x = device_place.put(np.zeros(3, np.float32))
    step(x)
    x._readonly = True
    other = device_place.put(np.zeros(3, np.float32))
    other._readonly = True
    for each in (x, other):
        refused(numbacc.LayoutError, "read-only", run=lambda given=each: step(given))
    assert device_place.get(other).tolist() == [0] * 3


def test_copies_are_an_option(place, compiled):
    step, weights = compiled(copy=False)(lambda x: (x + 1, weights)), place.put(np.ones(2, np.float32))
    found = [step(np.full(2, k, np.float32)) for k in range(4)]
    assert all(each is weights for _, each in found)
    last = [place.get(each)[0] for each, _ in found]
    assert last == ([1, 4, 4, 4] if records(place) else [1, 2, 3, 4])


def test_results_that_are_views(place, compiled):
    """Views of arguments that stay or change, and of new arrays: strided, empty and of rank 0."""
    step = compiled(lambda x, y: [(a[:, ::2], a.T[1:], a[:0], a[0, 0:1].reshape(())) for a in (x, y, x + y)])
    x, results = place.put(normal(3, 4)), []
    for _ in range(4):
        y = place.put(normal(3, 4))
        hosts = [place.get(x), place.get(y), place.get(x) + place.get(y)]
        results.append((step(x, y), [(a[:, ::2], a.T[1:], a[:0], a[0, 0]) for a in hosts]))
    for found, wanted in results:
        for one, other in zip([a for each in found for a in each], [a for each in wanted for a in each], strict=True):
            assert one.shape == other.shape
            np.testing.assert_array_equal(place.get(one), other)


def test_each_kind_of_arguments_has_its_graph(place, compiled):
    step = compiled(lambda x, flag=True, scale=2.0: x * scale if flag else x, maxsize=3)
    cases = [(normal(3), True, 2.0), (normal(4), True, 2.0), (normal(3).astype("f8"), False, 2.0)]
    for _ in range(4):
        for x, flag, scale in cases:
            np.testing.assert_array_equal(place.get(step(place.put(x), flag, scale)), x * scale if flag else x)
    assert graphs(step) == 2 * records(place)  # there is nothing to record if the argument is returned
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(lambda x, r: x * r)(place.put(normal(3)), 1.0)


def test_changing_numbers_make_no_graphs_and_warn(place, compiled):
    step = compiled(lambda x, rate: x * rate)
    x = place.put(np.ones(3, np.float32))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(20):
            assert place.get(step(x, rate=0.5 * k)).tolist() == [0.5 * k] * 3
    assert graphs(step) == 0
    if records(place):
        (warning,) = caught
        assert warning.category is numbacc.CompiledWarning and warning.filename == __file__
        assert "kwargs['rate'] is 4.0" in str(warning.message) and "numbacc.asarray(4.0)" in str(warning.message)
        for _ in range(3):
            step(x, rate=float("nan")), step(x, rate=0.0), step(x, rate=-0.0)
        assert graphs(step) == 3
        assert np.signbit(place.get(step(x, rate=-0.0))).all() and not np.signbit(place.get(step(x, rate=0.0))).any()


def test_reading_a_value_names_the_line(device_place):
    def clipped(x):
        total = x.sum()
        if total > 3:  # this line
            return x / total
        return x

    step, x = numbacc.compiled(clipped), device_place.put(np.ones(4, np.float32))
    assert device_place.get(step(x)).tolist() == [0.25] * 4
    for _ in range(2):
        refused(
            numbacc.UnsupportedError,
            "clipped cannot be recorded",
            __file__,
            "if total > 3:  # this line",
            run=lambda: step(x),
        )
    assert graphs(step) == 0 and device_place.get(x + 1).tolist() == [2] * 4


def test_errors_of_the_function(place, compiled):
    fails = [False]

    @compiled
    def step(x):
        y = gated.forward(x, "reglu")
        if fails[0]:
            raise KeyError("mine")
        return y

    x = place.put(normal(4, 8))
    wanted = place.get(step(x))
    fails[0] = True
    with pytest.raises(KeyError, match="mine"):
        step(x)
    fails[0] = False
    for _ in range(3):
        np.testing.assert_array_equal(place.get(step(x)), wanted)
    with pytest.raises(TypeError):
        step(x, 1)
    refused(numbacc.DTypeError, "args[0]['a']", run=lambda: step({"a": np.ma.masked_array([1.0])}))


def test_wrong_options(place):
    for options in ({"warmup": 0}, {"maxsize": 0}, {"copy": 2}, {"warmup": 1.5}):
        (name,) = options
        refused(numbacc.OptionError, name, run=lambda given=options: numbacc.compiled(**given))
    refused(numbacc.OptionError, "step=3", run=lambda: numbacc.compiled(3))
    refused(numbacc.DeviceError, "device", run=lambda: numbacc.compiled(device="x"))
    refused(numbacc.OptionError, "no argument warm_up", "warmup", run=lambda: numbacc.compiled(warm_up=1))


@pytest.fixture
def make_model(place, compiled):
    class Model:
        def __init__(self):
            self.w = place.put(np.zeros(3, np.float32))

        @compiled(warmup=2)
        def train(self, x):
            ew.add(self.w, x, out=self.w)
            return self

    return Model


def test_methods_have_the_graphs_of_their_object(place, make_model):
    models = [make_model() for _ in range(2)]
    for k in range(5):
        for number, model in enumerate(models):
            assert model.train(np.full(3, k + number, np.float32)) is model
    assert [place.get(model.w)[0] for model in models] == [10, 15]
    assert graphs(models[0].train) == 2 * records(place)
    again = copy.deepcopy(models[0])
    again.train(np.ones(3, np.float32))
    assert [place.get(each.w)[0] for each in (again, models[0])] == [11, 10]
    alive = weakref.ref(models.pop())
    del model, again
    gc.collect()
    assert alive() is None and graphs(make_model.train) == records(place)


def double(x):
    return x * 2


doubled = numbacc.compiled(double, warmup=3)


@numbacc.compiled
def decorated(x):
    return x + 1


def test_copies_and_pickles_begin_anew(place, compiled, make_model):
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    x = place.put(np.ones(3, np.float32))
    for _ in range(5):
        doubled(x)
    for each in (copy.copy(doubled), copy.deepcopy(doubled), pickle.loads(pickle.dumps(doubled))):
        assert each is not doubled and each.cache_info() == (0, 0, 8, 0) and each.__wrapped__ is double
        assert place.get(each(x)).tolist() == [2] * 3
    model = make_model()
    bound = copy.deepcopy(compiled(model.train))
    bound(np.ones(3, np.float32))
    assert place.get(model.w).tolist() == [0] * 3  # the copy is bound to a copy of the object


def test_inside_other_graphs(device_place):
    x = device_place.put(np.ones(3, np.float32))
    inner = numbacc.compiled(lambda x: x * 2)
    outer = numbacc.compiled(lambda x: inner(x) + inner(x + 1))
    for k in range(4):
        x[...] = k
        assert device_place.get(outer(x)).tolist() == [4 * k + 2] * 3
        inner(x)
    with numbacc.graph() as g:
        y = inner(x)
    x[...] = 7
    g.launch()
    assert device_place.get(y).tolist() == [14] * 3


def test_steps_on_the_cpu_are_not_recorded(place):
    calls = []

    def step(x):
        calls.append(type(x))
        return x + 1

    weights = np.zeros(3)
    alone = numbacc.compiled(lambda: np.add(weights, 1, out=weights).sum())
    assert [alone() for _ in range(4)] == [3, 6, 9, 12]  # nothing to record
    there = numbacc.compiled(step, device="cpu")
    for k in range(4):
        assert there(np.full(2, k)).tolist() == [k + 1] * 2
    assert calls == [np.ndarray] * 4 and there.cache_info()[:2] == (0, 4)


def test_random_numbers_go_on(place, compiled):
    generators = [numbacc.random.Generator(seed=7, device="cuda:0" if place.is_device else "cpu") for _ in range(2)]
    step = compiled(lambda: generators[0].normal(size=(4, 8), dtype="float32"))
    for _ in range(5):
        np.testing.assert_array_equal(place.get(step()), place.get(generators[1].normal(size=(4, 8), dtype="float32")))
    assert generators[0].state == generators[1].state


def test_threads_share_a_step(place, compiled):
    step = compiled(lambda x: gated.forward(x, "reglu"))

    def work(k):
        for n in range(10):
            x = np.full((4, 8), 1 + k + 10 * n, np.float32)
            assert (place.get(step(place.put(x))) == x[:, :4] ** 2).all()

    run_threads(work, 4)
    assert graphs(step) == records(place)
