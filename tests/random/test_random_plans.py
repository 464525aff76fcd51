"""What draws decide once: plans, how they are found, and the short ways of the path behind them."""

from __future__ import annotations

import copy
from fractions import Fraction

import numpy as np
import pytest
from conftest import bits
from host_curand import HostCurand, philox
from skips import skip
from threads import run_threads

import numbacc
from numbacc import random
from numbacc.base.dtypes import info
from numbacc.base.layout import CPU
from numbacc.libraries.curand import SequenceKind
from numbacc.random import Generator
from numbacc.random.plans import plans
from numbacc.reference import random as reference

pytestmark = pytest.mark.usefixtures("poison")

NORMALS = ("normal", "lognormal")


def generator(place, *args, **kw):
    return Generator(*args, device=None if place.is_device else "cpu", **kw)


# ---------------------------------------------------------------- plans


def test_a_call_with_the_same_arguments_makes_no_plan(place):
    g, other = generator(place, 1), generator(place, 2)
    outs = [place.empty((30,), np.dtype("float32")).view for _ in range(2)]
    random.cache_clear()
    for out in outs:
        g.normal(0.5, 2.0, out=out)
        other.normal(0.5, 2.0, out=out)
        g.bits(3)
    found = random.cache_info()
    assert (found.misses, found.hits, found.currsize) == (2, 4, 2) and found.maxsize == 1024
    generator(place, "xorwow").normal(0.5, 2.0, out=outs[0])
    assert random.cache_info().misses == 3
    random.cache_clear()
    assert random.cache_info().currsize == 0


def test_what_is_no_number_is_refused_where_an_equal_number_has_a_plan(place):
    """1 + 0j equals 1, and True and 6.0 are found under 1 and 6 in a dictionary."""
    g = generator(place)
    g.normal(1.0, 1, 3), g.integers(0, 6, 3), g.dropout_mask(0.5, 3), g.poisson(1.0, 3), g.uniform(0.0, 1.0, 3)
    for call in (
        lambda: g.normal(1 + 0j, 1, 3),
        lambda: g.integers(0, 6.0, 3),
        lambda: g.integers(0, 6, 3, endpoint=0),
        lambda: g.dropout_mask(0.5 + 0j, 3),
        lambda: g.poisson(1 + 0j, 3),
        lambda: g.uniform(0.0, 1 + 0j, 3),
    ):
        with pytest.raises(numbacc.OptionError):
            call()
    with pytest.raises(numbacc.ShapeError):
        g.normal(1.0, 1.0, 3.0)
    assert g.normal(Fraction(1, 2), np.float32(1), 3).shape == (3,)
    assert g.normal(np.array(0.5), True, [3]).shape == (3,)


def test_a_plan_tells_what_was_decided(place):
    device = 0 if place.is_device else CPU
    kernel = {True: "simulator" if place.is_slow else "kernel", False: "numpy"}[place.is_device]
    kind = SequenceKind("philox", "default", 1, device)
    plan = plans.find(("normal", (0.0, 1.0), 10, "float64", None, kind))
    plan.prepare(())
    found = plan.info
    assert (found.op, found.dtypes, found.workspace_bytes) == ("random.normal", ("float64",), 0)
    assert found.backend == kernel and found.math_dtype == "float64" and found.deterministic
    empty = plans.find(("bits", (), 0, None, None, kind))
    empty.prepare(())
    assert empty.info.workspace_bytes == 0
    library = plans.find(("poisson", (3.0,), 10, "int64", None, kind))
    assert library.info.backend == ("simulator" if place.is_slow else "cuRAND")
    assert library.info.workspace_bytes == (48 if place.is_device else 0)
    with pytest.raises(numbacc.DTypeError, match="cannot be copied"):
        copy.copy(plan)


def test_what_a_plan_shows_has_no_inputs():
    plan = plans.find(("normal", (0.0, 1.0), (2, 3), "float64", None, SequenceKind("philox", "default", 1, CPU)))
    assert repr(plan) == "<plan of random.normal: -> float64 (2, 3), NumPy>"
    assert (plan.info.backend, plan.info.algorithm) == ("numpy", "reference")
    theirs = plans.find(("normal", (0.0, 1.0), 3, None, None, SequenceKind("xorwow", "default", 1, CPU)))
    assert (theirs.info.backend, theirs.info.algorithm) == ("cuRAND", "curandGenerateNormal")


def test_as_many_plans_are_kept_as_is_said(place):
    g = generator(place)
    random.cache_clear()
    count, nbytes = random.cache_limit()
    assert (count, nbytes) == (1024, None)
    try:
        random.cache_limit(count=2)
        for size in (1, 2, 3, 1):
            g.random(size)
        found = random.cache_info()
        assert (found.hits, found.misses, found.maxsize, found.currsize) == (0, 4, 2, 2)
    finally:
        random.cache_limit(count=count)


def test_plans_of_zeros_with_either_sign_are_one(place):
    """0.0 and -0.0 have one plan, whichever comes first."""
    for first in (0.0, -0.0):
        random.cache_clear()
        generator(place).normal(first, 0.0, 4)
        assert not np.signbit(place.get(generator(place).normal(0.0, 0.0, 40))).any()


# ---------------------------------------------------------------- positions, shapes, threads


@pytest.mark.parametrize("method", NORMALS)
@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 255, 257, 1029])
def test_float64_normals_are_curands_in_any_number(place, method, count):
    if place.is_slow and count > 300:
        skip("slow")
    function = {"normal": "GenerateNormalDouble", "lognormal": "GenerateLogNormalDouble"}[method]
    start = 3 * 524288
    want = HostCurand("philox", 2**40 + 1, start)(function, count + count % 2, 0.5, 0.25)[:count]
    # From the middle of a round on, a draw begins with the next.
    for position in (start, start - 5):
        g = generator(place, "philox", 2**40 + 1, position)
        out = place.empty((count,), np.dtype("float64"), margins=((1, 1),))
        getattr(g, method)(0.5, 0.25, out=out.view)
        np.testing.assert_allclose(out.now(), want, rtol=2.0**-46, atol=2.0**-48)
        assert g.state.position == start + 524288


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_normals_of_any_layout_are_one_sequence(place, dtype, order):
    row = numbacc.base.dtypes.dtype(dtype)
    whole = place.get(generator(place, 5).normal(1.0, 2.0, 30, dtype=dtype))
    out = place.empty((2, 3, 5), row, order=order)
    generator(place, 5).normal(1.0, 2.0, out=out.view)
    np.testing.assert_array_equal(bits(np.ascontiguousarray(out.now()).reshape(-1)), bits(whole))
    number = place.get(generator(place, 5).normal(1.0, 2.0, (), dtype=dtype))
    assert number.shape == () and number == whole[0]


def test_a_graph_holds_float64_normals_and_integers(device_place):
    place, stream = device_place, numbacc.stream()
    g, again = generator(place, 7, offset=3), generator(place, 7, offset=3)
    doubles, whole = numbacc.empty(33, "float64", stream=stream), numbacc.empty((5, 7), "int64", stream=stream)
    with numbacc.graph(stream) as graph:
        g.normal(0.0, 1.0, out=doubles)
        g.integers(1000, out=whole)
        with pytest.raises(numbacc.UnsupportedError, match="uses cuRAND's state"):
            g.poisson(3.0, 5)
    assert g.state.position == 3
    for k in range(2):
        doubles[...] = np.nan
        whole[...] = -1
        graph.launch()
        want = place.get(again.normal(0.0, 1.0, 33, dtype="float64")), place.get(again.integers(1000, size=(5, 7)))
        for array, values in zip((doubles, whole), want, strict=True):
            np.testing.assert_array_equal(numbacc.asnumpy(array, stream=stream), values)
        assert g.state.position == (2 + k) * 524288 + 70 + k * 524288


@pytest.mark.parametrize("kind", ["philox", "xorwow", "mtgp32", "scrambled_sobol32"])
def test_eight_threads_draw_into_arrays_with_one_generator(place, busy_collector, kind):
    """Into views of flat buffers, backwards, too, while others copy the generator."""
    turns, n = (1, 12) if place.is_slow else (30, 200)
    shared, found = generator(place, kind), [[] for _ in range(8)]

    def work(number):
        for turn in range(turns):
            step = -1 if turn % 2 else 1
            out = place.empty((n,), np.dtype("uint32"), margins=((number % 4, 1),), steps=(step,))
            shared.bits(out=out.view)
            copy.copy(shared)
            found[number].append(np.ascontiguousarray(out.now()))

    run_threads(work)
    parts = sorted(part.tobytes() for row in found for part in row)
    whole = Generator(kind, device="cpu").bits(8 * turns * n) if kind != "philox" else philox(0, 0, 8 * turns * n)
    assert parts == sorted(row.tobytes() for row in whole.reshape(-1, n))


# ---------------------------------------------------------------- the reference's short ways


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 2**64 - 1])
def test_a_few_words_are_what_the_paper_says(seed):
    """Python's long integers and NumPy's arrays make the same words, also around the turn of cuRAND's threads."""
    for first in (0, 1, 2, 3, 4 * 65536 - 7, 2**34 - 5, 2**50 + 1, 2**63 + 5, 2**64 - 600):
        for count in (1, 2, 3, 4, 5, 9, 509, 512, 515):
            np.testing.assert_array_equal(reference.philox(seed, first, count), philox(seed, first, count))


@pytest.mark.parametrize("position", [0, 2, 4 * 65536 - 6, 2**50 + 2])
def test_few_normals_begin_many(position, monkeypatch):
    """What is made of a few words is, to the last bit, the start of what is made of many."""
    many = reference.uniforms(9, position, 1000)
    for count in (1, 2, 3, 10, 254, 255, 256, 257):
        np.testing.assert_array_equal(reference.uniforms(9, position, count), many[:, :count])
    start = position // 524288 * 524288
    many = reference.uniforms_for_doubles(9, start, 0, 1000)
    for count in (1, 2, 3, 10, 127, 128, 129):
        np.testing.assert_array_equal(reference.uniforms_for_doubles(9, start, 0, count), many[:, :count])
    np.testing.assert_array_equal(reference.uniforms_for_doubles(9, start, 10, 90), many[:, 10:100])


def test_integers_of_few_values_are_the_long_products():
    words = philox(1, 0, 4000)
    row = info(np.dtype("int64"))
    for n in (1, 2, 6, 2**31 + 7, 2**32 - 1, 2**32):
        got = reference.integers(words, 2, row, n - 1, 2**64 - 5, 0.0, 0.0)
        assert got.tolist() == [(int(x) * n >> 64) - 5 for x in words.view(np.uint64)]


def test_what_may_overflow_is_quiet_in_numpy(recwarn):
    g = Generator(1, device="cpu")
    g.normal(1e308, 1e308, 100, dtype="float64")
    g.normal(3e38, 3e38, 100)
    g.normal(0.0, 1e6, 100, dtype="float16")
    g.lognormal(0.0, 1000.0, 100, dtype="float64")
    g.uniform(-1e6, 1e6, 100, dtype="float16")
    g.dropout_mask(1 - 2.0**-30, 100, dtype="float16")
    assert not recwarn.list
