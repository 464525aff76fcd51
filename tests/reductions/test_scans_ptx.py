"""What kernels that scan compile to, without a GPU: accesses, precision, registers; on which grid."""

from __future__ import annotations

from itertools import product

import numpy as np
import ptx
import pytest
from row_ptx import FLOATS, H200, check, dense, orders_of, widest
from skips import skip_if

from numbacc.base.dispatch import simulated
from numbacc.base.dtypes import TABLE
from numbacc.base.layout import layout
from numbacc.elementwise import scans

pytestmark = [skip_if(simulated(), "not simulated"), pytest.mark.each_alone(paired=True, in_pairs=True)]

#: Kernels for float16 are those for bfloat16 but for two conversions, which the tests of reductions and vectors see.
KINDS = tuple(dtype for dtype in FLOATS if dtype != "float16")
#: A matrix along rows and along columns, few columns, and one long row.
CASES = [((8192, 4096), 1), ((8192, 4096), 0), ((1 << 20, 64), 0), ((1 << 24,), 0)]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape, axis", CASES, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.sampled(1)
def test_what_is_contiguous_moves_16_bytes_at_a_time(dtype, shape, axis, reverse):
    """Of columns that are taken by one block each as many elements as have parts of 16 bytes."""
    for order in orders_of(scans.planned("cumsum", dense(shape, dtype), axis, reverse=reverse)):
        # What full tiles need stays in registers; at edges some waits in memory.
        found = check(order.kernel, spilled=160)
        if order.kernel.stage == "chained":
            assert "cp.async.cg.shared.global" in found.text and order.kernel.access_bytes == 16
            assert len(shape) == 2 and axis == 0 and order.block[0] * order.kernel.access_bytes == 128
            assert widest(found, "st") == 16
            continue
        own = (
            16 if axis == 1 or len(shape) == 1 or order.kernel.stage == "second" else 4 * min(TABLE[dtype].itemsize, 4)
        )
        assert widest(found) == own
        if order.kernel.stage in ("whole", "last"):
            assert widest(found, "st") == own
        assert order.kernel.algorithm == ("scan_columns" if axis == 0 and len(shape) > 1 else "scan_rows")
        assert order.block[0] * order.block[1] == order.kernel.threads and order.kernel.near == order.block[0]


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (10, 0)], ids=str)
@pytest.mark.parametrize("shape, axis", [((64, 1 << 20), 1), ((64, 1 << 20), 0), ((1 << 20, 64), 0)], ids=str)
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.sampled(1)
def test_everywhere(name, shape, axis, capability):
    for order in orders_of(scans.planned(name, dense(shape, "float16"), axis)):
        check(order.kernel, capability, spilled=160)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64", "bool", "complex64", "complex128"])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("shape, axis", CASES[:2], ids=str)
@pytest.mark.sampled(1)
def test_other_dtypes(shape, axis, name, dtype):
    for order in orders_of(scans.planned(name, dense(shape, dtype), axis)):
        # Integers of 64 bits in all lanes: some wait in memory for a place in a register.
        check(order.kernel, spilled=256)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape, axis", CASES, ids=str)
@pytest.mark.sampled(1)
def test_the_gradient_of_products(dtype, shape, axis):
    for order in orders_of(scans.planned_gradient(dense(shape, dtype), axis)):
        check(order.kernel, spilled=256)
        kernel = order.kernel
        if kernel.algorithm == "scan_columns":  # the parts of a thread's columns have 16 bytes
            assert kernel.width * sum(TABLE[part].itemsize for part in kernel.parts) == 16
        else:
            assert kernel.access_bytes == 16 or kernel.stage == "second" or dtype in ("float16", "bfloat16")


def test_what_is_flattened_and_what_is_strided():
    x = layout((64, 32, 16), (8, 64 * 8 * 16, 64 * 8), np.dtype(np.float32), 0)
    for axis in (None, 0, 1):
        for order in orders_of(scans.planned("cumsum", x, axis)):
            # What 32 warps have made is joined by each thread, where all of a warp take one column.
            check(order.kernel, spilled=32)
            if order.kernel.stage != "second":
                assert order.kernel.algorithm == "scan_columns" and order.kernel.width == 1


@pytest.mark.parametrize("name, address", [("float32", 4), ("bfloat16", 2), ("int32", 4)])
def test_rows_that_start_anywhere_are_as_wide(name, address):
    """Where results start as x does, each access is of 16 bytes; else as wide as both are aligned."""
    x = dense((1000, 4097), name)
    if name != "int32":
        (order,) = orders_of(scans.planned("cumsum", x, 1), (address, address))
        assert order.kernel.width * x.itemsize == 16
    (order,) = orders_of(scans.planned("cumsum", x, 1), (address, 0))
    assert order.kernel.width == 1


@pytest.mark.parametrize(
    "shape, axis, stages",
    [((1 << 28, 1), 0, "first last"), ((1, 1 << 28), 1, "first last"), ((131072, 128), 1, "whole"),
     ((131072, 128), 0, "chained"), ((1 << 22, 4), 0, "first second last"), ((1024, 131072), 1, "whole"),
     ((1024, 131072), 0, "whole"), ((1 << 22, 3), 1, "whole"), ((8, 1 << 16, 16), 1, "chained")],
)  # fmt: skip
@pytest.mark.sampled(1)
def test_few_rows_are_shared(shape, axis, stages):
    """A GPU of 132 multiprocessors, eight blocks each, is busy."""
    for dtype in ("float32", "bfloat16"):
        orders = orders_of(scans.planned("cumsum", dense(shape, dtype), axis))
        assert [order.kernel.stage for order in orders] == stages.split()
        assert all(order.grid[0] * order.grid[1] >= 256 for order in orders[::2]), [order.grid for order in orders]
        # The passes before and behind see the same pieces.
        assert orders[0].grid == orders[-1].grid and orders[0].block == orders[-1].block


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8", "complex128"])
@pytest.mark.sampled(1)
def test_few_rows_of_one_tile_have_more_threads(dtype):
    """They have as many as one tile needs, up to 512, without spilled registers; or a cluster of blocks shares it."""
    for columns in (1 << 13, (1 << 13) - 1, 1 << 11):
        for order in orders_of(scans.planned("cumsum", dense((4, columns), dtype), 1)):
            kernel, tile = order.kernel, order.block[0] * order.kernel.width * order.kernel.runs
            assert order.block[1] == 1 and order.block[0] == kernel.threads <= 512
            if kernel.stage == "cluster":
                assert order.cluster <= 8 and order.grid == (4 * order.cluster, 1)
                assert tile * (order.cluster - 1) < columns <= tile * order.cluster
                continue
            if kernel.threads > 128:
                assert kernel.stage == "whole" and order.grid == (4, 1) and tile // 2 < columns <= tile
        check(kernel, spilled=160)
    if dtype == "float32":
        assert kernel.threads == 128  # of 2,048 elements


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", [(1024, 4096), (256, 16384), (1024, 131072), (64, 256, 8192)], ids=str)
@pytest.mark.sampled(1)
def test_columns_are_taken_by_one_block_where_that_keeps_a_gpu_busy(dtype, shape):
    """Or where they are short; by more threads of fewer columns, of 64 bytes of a row at least, in registers."""
    (order,) = orders_of(scans.planned("cumsum", dense(shape, dtype), len(shape) - 2))
    kernel, (x, y) = order.kernel, order.block
    assert (kernel.algorithm, kernel.stage, order.grid[1]) == ("scan_columns", "whole", 1)
    assert x * kernel.width * TABLE[dtype].itemsize >= 64 and x * y == kernel.threads <= 1024
    assert order.grid[0] * kernel.threads >= 0.9 * 132 * 1024
    check(kernel, spilled=160)


@pytest.mark.each_alone(names_apart=True, paired=True, in_pairs=True)
@pytest.mark.parametrize(
    "of, dtype",
    [*product(["gradient", "products"], KINDS), *product(["products"], ["int8", "int64", "complex64", "complex128"])],
)
@pytest.mark.sampled(1)
def test_blocks_that_share_columns_fit_a_multiprocessor(of, dtype):
    """Three of them, by registers and by shared memory: as much is on its way as memory takes to answer."""
    planned, what = (scans.planned_gradient, []) if of == "gradient" else (scans.planned, ["cumprod"])
    for order in orders_of(planned(*what, dense((1 << 20, 128), dtype), 0)):
        found, kernel = check(order.kernel, spilled=64), order.kernel
        assert kernel.stage == "chained" and kernel.threads == 256
        cells = kernel.width * kernel.threads * sum(TABLE[part].itemsize for part in kernel.parts)
        assert 3 * (order.shared + cells + 1024 + 16) <= 228 * 1024 and 3 * order.shared >= 108 * 1024
        if ptx.ptxas() is not None:
            assert found.usage(H200)[0] <= 80


@pytest.mark.parametrize("columns, width", [(128, 8), (4, 4), (132, 4), (130, 2), (129, 1)])
def test_accesses_of_shared_columns_are_as_wide_as_rows_are_aligned(columns, width):
    (order,) = orders_of(scans.planned("cumsum", dense((8, 1 << 16, columns), "bfloat16"), 1))[:1]
    assert (order.kernel.stage, order.kernel.width) == ("first" if columns == 4 else "chained", width)


def test_indices_of_64_bits_where_they_are_needed():
    for shape, wide in (((1 << 30,), False), ((1 << 33,), True)):
        orders = orders_of(scans.planned("cumsum", dense(shape, "float16"), 0))
        assert {order.kernel.wide for order in orders} == {wide}
    (chained,) = orders_of(scans.planned("cumsum", dense((1 << 26, 128), "float16"), 0))
    assert chained.kernel.wide and chained.kernel.stage == "chained"
    for order in (*orders, chained):
        check(order.kernel, spilled=256)
