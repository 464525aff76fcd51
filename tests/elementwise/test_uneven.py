"""Rows that start anywhere, and tiles that turn around, at every alignment and length that the kernels tell apart."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from conftest import any_bits, bits

import numbacc
from numbacc import gated
from numbacc.base.dispatch import simulated
from numbacc.base.dtypes import TABLE
from numbacc.kernels.specs import TILE, vector_thread_bytes
from numbacc.runtime.launch_order import WARP

pytestmark = pytest.mark.usefixtures("device_place")

DTYPES = ("uint8", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")
#: What a row may have behind its pieces, in elements: nothing, less and more than a warp takes at once, nearly a piece.
RESTS = (0, 1, WARP - 1, WARP, WARP + 1, 3 * WARP + 5, -1, -2, -5)


def copied(place, values, source, target):
    """Copy values from memory laid out one way to memory laid out another."""
    given, out = place.operand(values, **source), place.empty(values.shape, values.dtype, **target)
    out.view[...] = given.view
    np.testing.assert_array_equal(bits(out.now()), bits(values))
    out.assert_written_only()
    given.assert_untouched()


@pytest.mark.parametrize("rest", RESTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_every_length(device_place, dtype, rest):
    size = TABLE[dtype].itemsize
    piece = WARP * vector_thread_bytes(1, size) // size
    columns = (1 if simulated() else 3) * piece + rest
    for rows in (1,) if simulated() else (1, 3, 70):
        values = any_bits((rows, columns), TABLE[dtype].numpy, rows)
        copied(device_place, values, {"margins": [(0, 0), (1, 0)]}, {"margins": [(0, 0), (0, 1)]})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.sampled(simulated=2)
def test_rows_that_start_anywhere(device_place, dtype):
    """The source and the target, independently of each other."""
    size = TABLE[dtype].itemsize
    starts = range(min(16 // size, 5) + 1)
    columns = WARP * vector_thread_bytes(1, size) // size + 7
    values = any_bits((2, columns), TABLE[dtype].numpy)
    for source in starts:
        for target in starts:
            layouts = ({"margins": [(0, 0), (start, 3 - start % 3)]} for start in (source, target))
            copied(device_place, values, *layouts)


@pytest.mark.parametrize("pieces", [2, 3])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32"])
def test_what_is_repeated_along_uneven_rows(device_place, dtype, pieces):
    """It is the same for all pieces of a row, also for those that a warp takes in turn."""
    size = TABLE[dtype].itemsize
    columns = pieces * WARP * vector_thread_bytes(1, size) // size + 5
    values = any_bits((3, 1), TABLE[dtype].numpy)
    given = device_place.operand(values)
    out = device_place.empty((3, columns), values.dtype, margins=[(0, 0), (0, 1)])
    out.view[...] = given.view
    np.testing.assert_array_equal(bits(out.now()), bits(np.broadcast_to(values, (3, columns))))
    out.assert_written_only()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("columns", [257, 1111, 2049])
def test_uneven_rows_in_place(device_place, columns, dtype):
    """The gradient over the halves that it is of: none is read after it was written."""
    rows = 2 if simulated() else 37
    rng = np.random.default_rng(columns)
    dy, x = (rng.standard_normal((rows, n)).astype(dtype) for n in (columns, 2 * columns))
    given = device_place.operand(x.copy())
    answer = gated.backward(device_place.put(dy), given.view, "geglu", out=given.view)
    assert answer is given.view
    halves = [given.now()[:, :columns], given.now()[:, columns:]]
    oracle.assert_accurate("backward", "geglu", halves, [dy, x[:, :columns], x[:, columns:]])


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "complex128"])
@pytest.mark.parametrize("more", [(0, 0), (1, 0), (0, 1), (-1, -1), (TILE, 2)], ids=str)
@pytest.mark.sampled(simulated=2)
def test_tiles_and_their_edges(device_place, dtype, more):
    """Of whole tiles, and one row or column more or less; from and to memory that lies on words, and that does not."""
    shape = tuple((TILE if simulated() else 3 * TILE) * 2 + n for n in more)
    values = any_bits(shape, TABLE[dtype].numpy)
    for source, target in (((0, 0), (0, 0)), ((1, 1), (0, 0)), ((0, 0), (1, 1)), ((2, 2), (0, 2)), ((0, 1), (0, 0))):
        turned = {"order": (1, 0), "margins": [source, (0, 0)]}
        copied(device_place, values, turned, {"margins": [(0, 0), target]})


def test_transposed_pairs_captured_at_another_alignment(device_place):
    """The kernel that is there moves words; what starts between two of them it takes element by element."""
    base = numbacc.asarray(np.random.default_rng(0).standard_normal(2 * 64 * 64 + 1).astype(np.float16))
    x, moved = (base[k : 2 * 64 * 64 + k].reshape((2 * 64, 64)).T for k in (0, 1))
    y, z = numbacc.empty((64, 64), "float16"), numbacc.empty((64, 64), "float16")
    gated.forward(x, "glu", out=y)
    with numbacc.graph() as g:
        gated.forward(moved, "glu", out=z)
    g.launch()
    halves = np.split(numbacc.asnumpy(moved), 2, axis=1)
    oracle.assert_accurate("forward", "glu", [numbacc.asnumpy(z)], halves)
