"""What all plans share: their cache, what they say of themselves, and what the base refuses for them."""

from __future__ import annotations

import itertools
import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from threads import run_threads

import numbacc
from numbacc import attention, conv, elementwise, fft, gated, gemm
from numbacc.plan.cache import PlanCache

FAMILIES = {"gated": gated, "gemm": gemm, "conv": conv, "attention": attention, "fft": fft}
each_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


class Made:
    """What a cache takes for a plan."""

    def __init__(self, key, nbytes=0):
        self.key, self.library_bytes = key, nbytes


# ---------------------------------------------------------------- the cache


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_the_longest_unused_is_dropped(count):
    """Against a list in the order of use."""
    cache, kept, made = PlanCache(lambda key: Made(key), count), [], []
    drawn = random.Random(count)
    hits = misses = 0
    for _ in range(3000):
        key = drawn.randrange(12)
        if key in kept:
            kept.remove(key)
            hits += 1
        else:
            misses += 1
            made.append(key)
        kept = [*kept, key][-count:] if count else []
        assert cache.find((key,)).key == key
        assert cache.info() == (hits, misses, count, len(kept), None, 0)
    assert {key for (key,) in cache.known} == set(kept)
    assert cache.hit((99,)) is None
    assert cache.info().misses == misses == len(made)


def test_bytes_are_bounded_also_when_they_become_known_later():
    cache = PlanCache(lambda key: Made(key), 10, nbytes=100)
    plans = [cache.find((k,)) for k in range(4)]
    cache.find((0,))
    for plan in plans[:3]:
        plan.library_bytes = 50
        plan.cache.trim()
    assert {key for (key,) in cache.known} == {0, 2, 3}
    assert cache.info()[2:] == (10, 3, 100, 100)
    assert cache.limit(None, 60) == (10, 60)
    assert {key for (key,) in cache.known} == {0, 3}
    assert cache.limit(0, None) == (0, 60)
    assert cache.info().currsize == 0
    plans[3].library_bytes = 1000  # dropped, and known to it
    plans[3].cache.trim()


def test_what_is_refused_is_asked_for_once_and_not_kept():
    asked = []

    def make(key):
        asked.append(key)
        if key == "wrong":
            raise numbacc.OptionError("wrong")
        return None if key == "none" else Made(key)

    cache = PlanCache(make, 10)
    for _ in range(2):
        with pytest.raises(numbacc.OptionError):
            cache.find(("wrong",))
        assert cache.find(("none",)) is None
    assert asked == ["wrong", "none"] * 2
    assert cache.info() == (0, 4, 10, 0, None, 0)
    # What cannot be hashed is looked at by what makes plans.
    assert cache.find(([1],)).key == [1]
    assert cache.info().currsize == 0


def test_a_mistake_in_a_comparison_is_not_taken_for_what_cannot_be_hashed():
    """Planned once, though what makes the plan raises a TypeError itself."""
    asked = []

    def make(key):
        asked.append(key)
        raise TypeError("a mistake")

    with pytest.raises(TypeError, match="a mistake"):
        PlanCache(make, 10).find((1,))
    assert asked == [1]


def test_threads_share_a_cache():
    cache, found = PlanCache(lambda key: Made(key), 8), []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def work(k):
        drawn = random.Random(k)
        for number in range(2000):
            if number % 500 == 7:
                cache.limit(drawn.randrange(4, 12), None)
            key = drawn.randrange(16)
            plan = cache.find((key,))
            if plan.key != key:
                found.append((plan.key, key))

    try:
        run_threads(work)
    finally:
        sys.setswitchinterval(interval)
    assert not found
    info = cache.info()
    assert info.currsize == len(cache.known) <= info.maxsize


def test_threads_that_make_a_plan_at_once_get_the_same():
    cache, got, n = PlanCache(lambda key: Made(key), 8), [], 4
    inside = itertools.count()

    def make(key):
        plan = Made(key)
        if next(inside) < n - 1:  # the last one is let through by the others, which then find its plan
            run_threads(lambda k: got.append(cache.find((key,))), 1)
        return plan

    cache = PlanCache(make, 8)
    got.append(cache.find((1,)))
    assert len(set(map(id, got))) == 1 and len(got) == n


@each_family
def test_all_families_have_the_same_functions(family):
    for name in ("cache_info", "cache_clear", "cache_limit"):
        one, other = getattr(family, name), getattr(gated, name)
        own = family.__name__.rpartition(".")[2]
        assert (
            one.__doc__ == other.__doc__.replace("gated.", f"{own}.").replace("import gated", f"import {own}")
            and one.__name__ == name
            and name in family.__all__
        )
        assert one.__module__.startswith(family.__name__)
    before = family.cache_limit()
    try:
        assert family.cache_limit(3, 1 << 30) == (3, 1 << 30)
        assert family.cache_info()._fields[:4] == ("hits", "misses", "maxsize", "currsize")
        assert family.cache_info()[2] == 3 and family.cache_info().maxbytes == 1 << 30
        for wrong in ({"count": -1}, {"nbytes": 1.5}, {"count": "many"}):
            with pytest.raises(numbacc.OptionError):
                family.cache_limit(**wrong)
    finally:
        family.cache_limit(*before)


# ---------------------------------------------------------------- what plans say


def numbers(place, *shape, dtype="float32"):
    return place.put(np.ones(shape, dtype))


def test_plans_say_what_they_are(place):
    where = "NumPy" if not place.is_device else "on cuda:0"
    plan = gated.backward.plan(numbers(place, 8, 4), numbers(place, 8, 8))
    text = "<plan of gated.backward: dy float32 (8, 4), x float32 (8, 8) -> float32 (8, 8), "
    assert repr(plan).startswith(text) and repr(plan).endswith(f"{where}>")
    plan = fft.rfft.plan(numbers(place, 3, 8))
    assert repr(plan).startswith("<plan of fft.rfft: a float32 (3, 8) -> complex64 (3, 5), ")
    more = {"bias": numbers(place, 6), "epilogue": "relu_aux_bias"}
    plan = gemm.matmul.plan(numbers(place, 3, 8), numbers(place, 8, 6), **more)
    text = "a float32 (3, 8), b float32 (8, 6), bias float32 (6,) -> float32 (3, 6), aux uint8 (3, 1), "
    assert repr(plan).startswith(f"<plan of gemm.matmul.relu_aux_bias: {text}") and repr(plan).endswith(f"{where}>")
    plan = attention.forward.plan(*[numbers(place, 1, 2, 3, 8) for _ in range(3)], return_stats=True)
    text = "q float32 (1, 2, 3, 8), k float32 (1, 2, 3, 8), v float32 (1, 2, 3, 8) -> float32 (1, 2, 3, 8), stats "
    assert repr(plan).startswith(f"<plan of attention.forward: {text}") and repr(plan).endswith(f"{where}>")


def test_inputs_come_before_outputs(place):
    x, w, c = numbers(place, 3, 8), numbers(place, 8, 6), numbers(place, 3, 6)
    plan = gemm.matmul.plan(x, w, c=c, beta=1.0, epilogue="bgradb", out=numbers(place, 3, 6))
    assert plan.names == ("a", "b", "c", "out", "bias_grad")
    assert gemm.matmul.plan(x, w, c=c).names == ("a", "b", "out")  # beta is 0: c is not looked at
    q, stats = numbers(place, 1, 2, 3, 8), numbers(place, 1, 2, 3)
    plan = attention.backward.plan(q, q, q, q, q, stats, bias=numbers(place, 3, 3), bias_grad=True)
    assert plan.names == ("do", "q", "k", "v", "o", "stats", "bias", "dq", "dk", "dv", "dbias")
    pair = numbers(place, 3, 4), numbers(place, 3, 4)
    assert gated.backward.plan(numbers(place, 3, 4), pair).names == ("dy", "x[0]", "x[1]", "out[0]", "out[1]")


def test_plans_are_neither_copied_nor_pickled(place):
    import copy
    import pickle

    plans = gated.forward.plan(numbers(place, 4)), fft.fft.plan(numbers(place, 4))
    for plan in (*plans, gemm.matmul.plan(numbers(place, 2, 2), numbers(place, 2, 2))):
        for act in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(numbacc.DTypeError, match="Plan cannot be"):
                act(plan)


# ---------------------------------------------------------------- what is refused


def read_only(place, *shape, dtype="float32"):
    if not place.is_device:
        host = np.ones(shape, dtype)
        host.flags.writeable = False
        return host
    array = numbers(place, *shape, dtype=dtype)
    array._readonly = True
    return array


def test_what_is_read_only_is_named(place):
    x, square, q = numbers(place, 4, 4), numbers(place, 4, 4), numbers(place, 1, 2, 3, 8)
    for name, call in {
        "out": lambda: gated.forward(x, out=read_only(place, 4, 2)),
        r"out\[1\]": lambda: gated.backward(x, (x, x), out=(square, read_only(place, 4, 4))),
        "out is": lambda: fft.fft(x, out=read_only(place, 4, 4, dtype="complex64")),
        "aux": lambda: gemm.matmul(x, x, epilogue="gelu_aux", aux=read_only(place, 4, 4)),
        "dv": lambda: attention.backward(
            *[q] * 5, q[..., 0], out=(numbers(place, *q.shape), numbers(place, *q.shape), read_only(place, *q.shape))
        ),
        "overwrite_input": lambda: fft.fft(read_only(place, 4, 4), overwrite_input=True),
    }.items():
        with pytest.raises(numbacc.LayoutError, match=rf"{name}.*read-only|read-only.*{name}"):
            call()


def test_the_largest_number_may_not_be_written_over_an_input(place):
    """amax_d, too, is written: in NumPy, on a GPU, again and again."""
    float8 = numbacc.float8_e4m3fn
    a, b = place.put(np.ones((16, 16), float8)), place.put(np.ones((16, 16), float8).T)
    scale = numbers(place, 1)
    for _ in range(2):
        with pytest.raises(numbacc.LayoutError, match="amax_d shares memory with scale_d"):
            gemm.matmul(a, b, out_dtype=float8, scale_d=scale, amax_d=scale)


def test_results_in_numpy_are_new_and_laid_out_as_said(numpy_place):
    """They need not be copied, and so are not."""
    for x in (np.ones((6, 8), np.float32), np.ones((8, 6), np.float32).T, np.ones((6, 16), np.float32)[:, ::2]):
        plan = gated.forward.plan(x)
        y = plan(x)
        assert y.flags.owndata and (y.strides, y.dtype) == (plan.outputs[0].strides, x.dtype)
        assert not np.shares_memory(x, y)


def test_a_subclass_of_numpys_arrays_may_be_written(numpy_place):
    class Subclass(np.ndarray):
        pass

    x, out = np.ones((3, 3), np.float32), np.empty((3, 3), np.float32).view(Subclass)
    assert gemm.matmul(x, x, out=out) is out
    np.testing.assert_array_equal(numbacc.asnumpy(out), x @ x)


def test_a_reference_that_returns_its_argument_is_copied(numpy_place):
    from numbacc.gemm.epilogue_plans import _task
    from numbacc.plan.tasks import MapPlan

    x = np.ones((2, 3), np.float32)
    made = gated.forward.plan(np.ones((2, 6), np.float32)).outputs
    plan = MapPlan(_task("same", lambda array: (array,), made, made, SimpleNamespace))
    y = plan.run((x,), None, None, 0)
    assert y is not x and not np.shares_memory(x, y)


@pytest.mark.parametrize("run", [lambda x: fft.fft(x), lambda x: gated.forward(x), lambda x: elementwise.sum(x)])
def test_the_short_path_raises_nothing(place, run):
    """The error of an attribute that NumPy arrays lack would take longer than the test of their type."""
    raised = []

    def trace(frame, event, _):
        if event == "exception":
            raised.append(frame.f_code)
        return trace

    x = place.put(np.ones((2, 4), np.float32))
    run(x)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run(x)
    finally:
        sys.settrace(before)
    assert not [code for code in raised if code.co_filename.startswith("<numbacc.")]
