"""Reductions of one's own: `elementwise.reduction` on every dtype, layout, axis and broadcast, against float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import memory_layouts, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from own_kernels import DTYPES, FLOATS, numbers
from own_reductions import MEANINGS, above, cosine, distance, dot, logsumexp, moments, rms, same

from numbacc import elementwise as ew
from numbacc.base.dispatch import simulated
from numbacc.errors import DTypeError, LayoutError, OptionError, ShapeError

pytestmark = pytest.mark.usefixtures("poison", "small_reductions")
few = settings(max_examples=20 if simulated() else 100)


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("which", MEANINGS)
def test_every_dtype(place, which, name):
    """Integers and bool are taken for float64."""
    own, count, meaning = MEANINGS[which]
    arrays = [abs(numbers((3, 4, 5), name, k)) for k in range(count)]
    wide = [array.astype(float) for array in arrays]
    for axis, keepdims in ((None, False), (0, False), (-1, True), ((2, 0), False), ((), True)):
        found = own(*map(place.put, arrays), axis=axis, keepdims=keepdims)
        wanted = meaning(*wide, axis=axis, keepdims=keepdims)
        same(place, found, wanted, name)
        first = found[0] if isinstance(found, tuple) else found
        assert first.dtype == (DTYPES[name] if name in FLOATS else np.float64)


@st.composite
def calls(draw):
    shapes = st.lists(st.sampled_from([1, 2, 3, 17, 40]), max_size=3, min_size=1)
    # Numba's simulator takes a second for 40,000 elements.
    shape = draw(shapes.filter(lambda lengths: math.prod(lengths) <= 2000) if simulated() else shapes)
    second = [draw(st.sampled_from([n, 1])) for n in shape][draw(st.integers(0, len(shape) - 1)) :]
    layouts = [draw(memory_layouts(len(each), False)) for each in (shape, second)]
    axes = draw(st.sets(st.sampled_from(range(len(shape)))))
    return shape, second, layouts, tuple(axes), draw(st.booleans()), draw(st.booleans())


@few
@given(calls(), st.sampled_from(["float32", "bfloat16"]), st.sampled_from(["float32", "float64"]))
def test_any_layout_and_broadcast(place, drawn, name, other):
    shape, second, layouts, axes, keepdims, turned = drawn
    x = place.operand(numbers(shape, name), **layouts[0])
    y = place.operand(numbers(second, other, 1), **layouts[1])
    given, values = (x.view, y.view), (np.array(x.values, float), np.array(y.values, float))
    if turned:
        given, values = given[::-1], values[::-1]
    found = cosine(*given, axis=axes, keepdims=keepdims)
    assert found.dtype == DTYPES[other]
    same(place, found, MEANINGS["cosine"][2](*values, axis=axes, keepdims=keepdims), name)
    x.assert_untouched(), y.assert_untouched()


@pytest.mark.parametrize("start", [0, 1, 3])
@pytest.mark.parametrize("names", [("float32", "float32"), ("float16", "float32"), ("bfloat16", "float64")])
def test_rows_beside_what_is_the_same_along_them(place, names, start):
    """Wide accesses of the one, one load of the other: whichever comes first, wherever rows start."""
    x, m = numbers((5, 260), names[0]), numbers((5, 1), names[1], 1)
    d, own = place.put(x)[:, start:], place.put(m)
    spread = ew.reduction(lambda x, m: (x - m) * (x - m), after=lambda total, n: total / n)
    turned = ew.reduction(lambda m, x: (x - m) * (x - m), after=lambda total, n: total / n)
    wanted = ((x[:, start:].astype(float) - m.astype(float)) ** 2).mean(-1)
    same(place, spread(d, own, axis=-1), wanted, names[0])
    same(place, turned(own, d, axis=-1), wanted, names[0])
    same(place, spread(d, own), ((x[:, start:].astype(float) - m.astype(float)) ** 2).mean(), names[0])


@pytest.mark.parametrize("shape, axis", [((3, 300), 1), ((300, 3), 0), ((700,), None), ((2, 40, 9), (0, 1))])
@pytest.mark.parametrize("which", ["dot", "moments", "logsumexp"])
def test_results_that_blocks_share(place, which, shape, axis):
    own, count, meaning = MEANINGS[which]
    if not place.is_slow:
        shape = tuple(n * 37 if n >= 40 else n for n in shape)
    arrays = [np.random.default_rng(k).standard_normal(shape).astype(np.float32) for k in range(count)]
    found = own(*map(place.put, arrays), axis=axis)
    wanted = meaning(*(array.astype(float) for array in arrays), axis=axis)
    for one, other in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, wanted)), strict=True):
        np.testing.assert_allclose(place.get(one), other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("merge", ["sum", "prod", "max", "min"])
def test_merges_by_name(place, merge):
    meaning = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}[merge]
    own = ew.reduction(lambda x: (x + 1, -x), merge=merge)
    x = numbers((4, 5), "float64")
    x[1, 2], x[2, 2] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        wanted = tuple(meaning(part, axis=1) for part in (x + 1, -x))
    same(place, own(place.put(x), axis=1), wanted, "float64")
    starts = {"sum": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}
    for found in own(place.put(np.ones((3, 0), np.float32)), axis=1):
        np.testing.assert_array_equal(place.get(found), np.full(3, starts[merge], np.float32))


def test_nothing_and_ranks(place):
    empty = place.put(np.ones((0, 3), np.float32))
    found = rms(empty, axis=0)
    assert found.shape == (3,) and np.isnan(place.get(found)).all()  # 0 / 0
    assert rms(empty, axis=1).shape == (0,)
    np.testing.assert_array_equal(place.get(logsumexp(empty, axis=0)), np.full(3, -np.inf, np.float32))
    np.testing.assert_array_equal(place.get(dot(empty, empty)), 0)
    np.testing.assert_array_equal(place.get(dot(place.put(np.array(3.0)), 2.0)), 6)
    np.testing.assert_array_equal(place.get(dot(place.put(np.array(3.0)), 2.0, axis=())), 6)
    x = numbers((1, 2, 1, 3, 1, 2, 2, 1), "float32")
    same(place, rms(place.put(x), axis=(1, 6)), np.sqrt((x * x).mean((1, 6))), "float32")
    refused(ShapeError, "rank 9", run=lambda: rms(place.put(np.ones((1,) * 9))))


# ---------------------------------------------------------------- arguments


def test_options_and_numbers(place):
    x, y = numbers((4, 5), "float32"), numbers((4, 5), "float32", 1)
    d, e = place.put(x), place.put(y)
    for call, p in [
        (lambda: distance(d, e), 2), (lambda: distance(d, e, 1.0), 1), (lambda: distance(d, e, p=3), 3),
        (lambda: distance(d, y=e, p=np.float32(1.0)), 1), (lambda: distance(d, e), 2),
    ]:  # fmt: skip
        same(place, call(), (np.abs(x - y) ** p).sum() ** (1 / p), "float32")
    same(place, rms(d, axis=1, eps=2.0), np.sqrt((x * x).mean(1) + 2), "float32")
    same(place, rms(d, 2.0), np.sqrt((x * x).mean() + 2), "float32")
    same(place, dot(d, 2.0, axis=0), 2 * x.sum(0), "float32")
    same(place, dot(2, d, axis=0), 2 * x.sum(0), "float32")
    same(place, above(d, limit=1.5)[0], (x > 1.5).mean(), "float32")
    for wrong in (lambda: dot(d), lambda: dot(d, d, d), lambda: rms(d, other=1), lambda: rms()):
        with pytest.raises(TypeError, match="argument"):
            wrong()
    refused(DTypeError, "only scalars", run=lambda: dot(1.0, 2.0))
    refused(DTypeError, "y", run=lambda: dot(d, "a"))
    refused(OptionError, "eps", "array", run=lambda: rms(d, eps=d))
    refused(OptionError, "keepdims", run=lambda: rms(d, keepdims=1))
    refused(ShapeError, "axis", "x", run=lambda: rms(d, axis=2))
    refused(ShapeError, "axis", "twice", run=lambda: rms(d, axis=(0, 0)))
    refused(ShapeError, "axis", run=lambda: rms(d, axis=1.0))
    refused(ShapeError, "broadcast", "y", run=lambda: dot(d, place.put(np.ones(3))))
    refused(DTypeError, "x", "complex64", run=lambda: rms(place.put(np.ones(2, np.complex64))))
    refused(DTypeError, "complex", run=lambda: dot(d, 1j))
    refused(OptionError, "eps", run=lambda: rms(d, eps=1j))


def test_results_are_given(place):
    x = numbers((4, 5), "float16")
    d = place.put(x)
    out = place.empty((4,), np.dtype(np.float16), steps=(-2,), margins=((1, 2),))
    assert rms(d, axis=1, out=out.view) is out.view
    out.assert_written_only()
    wanted = np.sqrt((x.astype(float) ** 2).mean(1))
    np.testing.assert_allclose(out.now(), wanted, rtol=1e-3)
    wide = place.empty((4, 1), np.dtype(np.float32))
    rms(d, axis=1, keepdims=True, out=wide.view)
    np.testing.assert_allclose(wide.now()[:, 0], wanted, rtol=1e-6)
    pair = tuple(place.empty((5,), np.dtype(np.float16)).view for _ in range(2))
    assert moments(d, axis=0, out=pair) is pair
    same(place, pair, MEANINGS["moments"][2](x.astype(float), axis=0), "float16")
    refused(ShapeError, "out", run=lambda: rms(d, axis=0, out=out.view))
    refused(DTypeError, "out", run=lambda: rms(d, axis=1, out=place.put(np.ones(4, int))))
    refused(ShapeError, "out", "2", run=lambda: moments(d, axis=0, out=pair[0]))
    refused(LayoutError, "overlap", run=lambda: rms(d, axis=1, out=d[:, 0]))
    refused(LayoutError, "overlap", run=lambda: moments(d, axis=0, out=(pair[0], pair[0])))
    if not place.is_device:
        frozen = np.ones(4, np.float16)
        frozen.flags.writeable = False
        refused(LayoutError, "read-only", run=lambda: rms(d, axis=1, out=frozen))


def test_plans(place):
    x = numbers((4, 5), "float32")
    d = place.put(x)
    plan = rms.plan(d, axis=1, eps=1.0)
    same(place, plan(d, 0.0), np.sqrt((x * x).mean(1)), "float32")
    same(place, plan(d, 2.0), np.sqrt((x * x).mean(1) + 2), "float32")
    assert plan.info.op == "elementwise.rms" and plan.info.accumulator_dtype == "float32" and "rms" in repr(plan)
    assert plan.info.backend == {"numpy": "numpy", "simulator": "simulator", "gpu": "kernel"}[place.name]
    refused(LayoutError, "2 arguments", run=lambda: plan(d))
    refused(LayoutError, "elementwise.rms", run=lambda: plan(place.put(x.T.copy()), 0.0))
    refused(OptionError, "float", run=lambda: plan(d, 1))
    refused(LayoutError, "without out", run=lambda: plan(d, 0.0, out=d))
    out = place.empty((4,), np.dtype(np.float32)).view
    given = rms.plan(d, axis=1, out=out)
    assert given(d, 0.0, out=out) is out
    ew.cache_clear()
    for eps in (0.0, 1.0, -0.0):
        rms(d, axis=1, eps=eps)
    info = ew.cache_info()
    assert (info.hits, info.misses) == (2, 1)
