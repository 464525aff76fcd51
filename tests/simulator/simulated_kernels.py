"""Run in Numba's simulator by test_simulator.py: every kernel on strides that call for it, and out of bounds."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from conftest import any_bits, bits

import numbacc
from numbacc import gated
from numbacc.base import dtypes
from numbacc.base.dispatch import launcher_class
from numbacc.kernels.elementwise import copy, geometry
from numbacc.kernels.primitives import operands
from numbacc.runtime.launch_order import MAX_THREADS

pytestmark = pytest.mark.simulator


@pytest.fixture
def anew(monkeypatch):
    """Nothing that was planned before is found again, now or later."""

    def clear():
        copy.executable.cache_clear()
        gated.cache_clear()

    clear()
    yield monkeypatch
    clear()


# ---------------------------------------------------------------- every kernel

DENSE = {}
TURNED = {"order": (1, 0)}
#: Algorithm, dtype, shape, and how source and target lie in memory (keywords of `conftest.Operand`).
COPIES = [
    ("vector", "f4", (4 * (2 * MAX_THREADS) * 2 + 37,), DENSE, DENSE),
    ("vector", "f4", (1101,), {"margins": [(3, 2)]}, {"margins": [(7, 0)]}),
    ("vector", "f8", (7, 31), {"margins": [(0, 0), (1, 2)]}, {"margins": [(0, 0), (1, 0)]}),
    ("vector", "f2", (3, 5, 40), {"margins": [(1, 1), (0, 2), (8, 0)]}, {"margins": [(0, 0), (1, 0), (0, 16)]}),
    ("vector", "u1", (3, 700), {"margins": [(0, 0), (5, 15)]}, {"margins": [(0, 0), (5, 31)]}),
    ("vector", "f4", (5, 64), {"steps": (0, 1)}, DENSE),
    ("vector", "f4", (5, 64), {"steps": (-1, 1)}, DENSE),
    ("uneven", "f4", (5, 301), {"margins": [(0, 0), (0, 1)]}, DENSE),
    ("uneven", "f4", (3, 1100), {"margins": [(0, 0), (2, 0)]}, DENSE),
    ("uneven, 32-bit", "u1", (2, 1100), {"margins": [(0, 0), (1, 0)]}, DENSE),
    ("uneven, 32-bit", "f2", (1, 9000), {"margins": [(0, 0), (3, 0)]}, DENSE),
    ("uneven, 64-bit", "f8", (2, 130), {"margins": [(0, 0), (1, 0)]}, {"margins": [(0, 0), (0, 1)]}),
    ("scalar", "f4", (7, 5), {"margins": [(0, 0), (0, 1)]}, DENSE),
    ("scalar", "u1", (3,), DENSE, DENSE),
    ("scalar", "f2", (4, 3, 35), {"margins": [(0, 0), (1, 0), (0, 3)]}, DENSE),
    ("tiled", "f4", (40, 70), TURNED, DENSE),
    ("tiled", "f8", (64, 32), TURNED, {"margins": [(0, 1), (1, 2)]}),
    ("tiled", "u1", (16, 17), TURNED, DENSE),
    ("tiled", "f2", (2, 33, 50), {"order": (0, 2, 1), "margins": [(1, 0), (2, 0), (3, 0)]}, DENSE),
    ("tiled", "f4", (2, 20, 3, 40), {"order": (2, 0, 3, 1)}, DENSE),
    ("strided", "f4", (9, 31), {"steps": (1, 2)}, DENSE),
    ("strided", "f8", (9, 31), {"steps": (1, -1)}, DENSE),
    ("strided", "u1", (9, 31), {"steps": (2, 0)}, {"steps": (1, 3)}),
    ("strided", "f4", (9, 31), DENSE, {"steps": (-2, -1)}),
    ("strided", "f2", (15, 40), TURNED, DENSE),
    ("strided", "f4", (2, 3, 2, 2, 1, 2, 2, 3), {"order": (7, 0, 6, 1, 5, 2, 4, 3)}, {"steps": (1, 2) * 4}),
]  # fmt: skip


def check_copy(place, algorithm, dtype, shape, source, target):
    source = place.operand(any_bits(shape, np.dtype(dtype)), **source)
    target = place.empty(shape, np.dtype(dtype), **target)
    copy.copy(source.view, target.view, 0)
    launcher = copy.executable(source.view._numbacc_layout, target.view._numbacc_layout).last
    assert launcher.algorithm.startswith(algorithm)
    np.testing.assert_array_equal(bits(target.now()), bits(source.values))
    target.assert_written_only()
    source.assert_untouched()
    return launcher


@pytest.mark.parametrize("case", COPIES, ids=str)
def test_copies(place, case):
    assert "32-bit indices" in check_copy(place, *case).algorithm


one_of_each = pytest.mark.parametrize("case", {case[0].split(",")[0]: case for case in COPIES}.values(), ids=str)


@one_of_each
def test_copies_with_64_bit_indices(place, anew, case):
    anew.setattr(geometry, "_needs_wide", lambda *_: True)
    assert "64-bit indices" in check_copy(place, *case).algorithm


@pytest.mark.parametrize("case", [COPIES[k] for k in (2, 3, 7, 12, 14)], ids=str)
def test_blocks_take_further_rows(place, anew, case):
    """As they do where there are more rows than a grid may have blocks."""
    algorithm, dtype, shape, *layouts = case
    taller = [{name: [(0, 1), *value] for name, value in one.items()} for one in layouts]
    anew.setattr(geometry, "_MAX_GRID_Y", 1)
    launcher = check_copy(place, algorithm, dtype, (13, *shape), *taller)
    assert ", 1), block" in launcher.algorithm


#: Algorithm, and how dy, a, b and da, db lie in memory, all of one shape.
GATED = [
    ("vector", [DENSE] * 5),
    ("scalar", [DENSE] * 4 + [{"margins": [(0, 0), (0, 1)]}]),
    ("strided", [DENSE] * 4 + [{"steps": (1, 2)}]),
    ("strided", [DENSE] * 3 + [TURNED, DENSE]),
    *(
        ("tiled", [TURNED if k in transposed else DENSE for k in range(5)])
        for transposed in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
    ),
]


@pytest.mark.parametrize("dtype", [np.dtype(np.float64), np.dtype(numbacc.bfloat16)], ids=str)
@pytest.mark.parametrize("algorithm, layouts", GATED)
def test_gated_backward(place, algorithm, layouts, dtype):
    rng = np.random.default_rng(3)
    *values, _, _ = (rng.standard_normal((17, 36)).astype(dtype) for _ in layouts)
    inputs = [place.operand(v, **how) for v, how in zip(values, layouts, strict=False)]
    outs = [place.empty((17, 36), dtype, **how) for how in layouts[3:]]
    dy, *x = (operand.view for operand in inputs)
    out = tuple(operand.view for operand in outs)
    plan = gated.backward.plan(dy, x, "geglu", out=out)
    assert plan.info.algorithm.startswith(algorithm)
    assert plan(dy, x, out=out) is out
    oracle.assert_accurate("backward", "geglu", [o.now() for o in outs], values)
    for operand in outs:
        operand.assert_written_only()
    for operand in inputs:
        operand.assert_untouched()


@pytest.mark.parametrize("layout", [DENSE, TURNED, {"steps": (2, -1)}], ids=str)
def test_in_place(place, layout):
    values, dy = np.random.default_rng(0).standard_normal((2, 20, 34)).astype(np.float32)
    x = place.operand(values, **layout)
    assert gated.backward(place.operand(dy[:, :17]).view, x.view, "swiglu", out=x.view) is x.view
    halves = np.split(values, 2, 1)
    oracle.assert_accurate("backward", "swiglu", np.split(x.now(), 2, 1), [dy[:, :17], *halves])
    x.assert_written_only()


# ---------------------------------------------------------------- straying out of bounds


@pytest.fixture
def accessors():
    return operands.accessors(dtypes.TABLE["float32"], 8, 16)


@pytest.mark.parametrize("start", [(0, 0), (1, 0), (0, 3), (2, 1), (1, 1)], ids=str)
@pytest.mark.parametrize("columns", [64, 130, 1001])
@pytest.mark.parametrize("dtype", ["f4", "f2", "u1"])
def test_a_kernel_for_aligned_arrays_can_be_launched_on_others(place, dtype, columns, start):
    shape, kind = (3, columns), np.dtype(dtype)
    source, target = ({"margins": [(0, 0), (n, 16 - n)]} for n in start)
    aligned = [place.operand(any_bits(shape, kind), margins=[(0, 0), (0, 16)]) for _ in range(2)]
    order = copy.executable(*(o.view._numbacc_layout for o in aligned)).choose((0, 0)).launcher.order
    one = place.operand(any_bits(shape, kind), **source)
    other = place.empty(shape, kind, **target)
    places = one.view._address, other.view._address
    launcher = launcher_class()(geometry.for_any_alignment(order, [place % 16 for place in places]))
    check_launched(launcher, places, one, other)


@pytest.mark.parametrize("start", [(0, 0), (1, 0), (0, 1), (1, 1)], ids=str)
def test_a_kernel_for_pairs_can_be_launched_on_others(place, start):
    """Of transposed elements of two bytes; as it is it moves words, which must be aligned."""
    shape, kind = (70, 40), np.dtype("f2")
    layouts = [{"order": (1, 0), "margins": [(n, 2 - n), (0, 0)]} for n in start[:1]]
    layouts += [{"margins": [(0, 0), (n, 2 - n)]} for n in start[1:]]
    aligned = [place.operand(any_bits(shape, kind), **{**how, "margins": [(0, 2 * (1 - k)), (0, 2 * k)]})
               for k, how in enumerate(layouts)]  # fmt: skip
    order = copy.executable(*(o.view._numbacc_layout for o in aligned)).choose((0, 0)).launcher.order
    assert (order.kernel.algorithm, order.kernel.width) == ("tiled", 2)
    one, other = place.operand(any_bits(shape, kind), **layouts[0]), place.empty(shape, kind, **layouts[1])
    places = one.view._address, other.view._address
    alignment = [place % 16 for place in places]
    check_launched(launcher_class()(geometry.for_any_alignment(order, alignment)), places, one, other)
    if any(start):
        with pytest.raises(IndexError, match="misaligned"):
            launcher_class()(order._replace(alignment=tuple(alignment))).launch(0, 0, places, ())


def check_launched(launcher, places, one, other):
    base = other.place.get(other.base)
    assert not launcher.launch(0, 0, places, ())
    np.testing.assert_array_equal(bits(other.now()), bits(one.values))
    other.within(base)[...] = one.values
    np.testing.assert_array_equal(bits(other.place.get(other.base)), bits(base))


def test_an_access_outside_an_array_raises(accessors):
    array = numbacc.full(8, 3)
    here = (array._address,)
    assert accessors.load(here, (7,)) == (3,)
    assert accessors.load_lanes(here, (0,), 4) == ((3.0,) * 8,)
    with pytest.raises(IndexError, match="outside every device array"):
        accessors.load(here, (8,))
    with pytest.raises(IndexError, match="outside every device array"):
        accessors.load_lanes(here, (4,), 4)
    with pytest.raises(IndexError, match="misaligned"):
        accessors.load_lanes(here, (1,), 4)
    with pytest.raises(IndexError, match="outside every device array"):
        accessors.store(here, (2**20,), (1.0,))
    assert numbacc.asnumpy(array).tolist() == [3] * 8


def test_freed_memory_is_outside(accessors):
    array = numbacc.full(8, 3)
    here = (array._address,)
    del array
    with pytest.raises(IndexError, match="outside every device array"):
        accessors.load(here, (0,))


def test_a_kernel_that_strays_raises(anew):
    real = geometry.choose
    anew.setattr(geometry, "choose", lambda *a: (g := real(*a))._replace(scalars=(*g.scalars[:1], g.scalars[1] + 1)))
    source, target = numbacc.zeros(3), numbacc.zeros(3)
    with pytest.raises(IndexError, match="outside every device array"):
        copy.copy(source, target, 0)
