"""On what grid masks and sums are computed, for arrays that need not exist."""

from __future__ import annotations

from math import ceil, prod

import numpy as np
import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from numbacc.base.dtypes import TABLE
from numbacc.base.layout import layout, row_major_strides
from numbacc.gemm.epilogue_plans import pack_plan, select_plan, sum_plan
from numbacc.runtime.kernel_code import parameters
from numbacc.runtime.launch_order import MAX_THREADS

DTYPES = ("float64", "float32", "bfloat16")
LENGTHS = [1, 2, 3, 7, 8, 16, 33, 250, 1024, 4100, 65536, 10**6, 2**24 + 1, 2**31 + 7]


class Launch:
    """What a plan decided for arrays at addresses that are `alignment` modulo 16, the constants told apart."""

    def __init__(self, plan, alignment):
        self.order = plan.task.order(plan.task, alignment)
        kernel = self.kernel = self.order.kernel
        self.grid, self.block = self.order.grid, self.order.block
        described, rest = parameters(kernel), list(self.order.constants)
        (_, (_, dimensions)), scalars = described[2], [shape for _, shape in described if shape is None]
        count = (len(kernel.reads) + len(kernel.writes)) * dimensions
        self.steps = np.reshape(rest[:count], (-1, dimensions))
        self.outer, self.scalars = tuple(rest[count:][: kernel.rank]), rest[count + kernel.rank :]
        assert len(self.scalars) == len(scalars)
        self.width = kernel.width
        assert kernel.access_bytes == kernel.width * TABLE[kernel.reads[0]].itemsize

    def check_limits(self):
        (grid_x, grid_y), (block_x, block_y) = self.grid, self.block
        assert 1 <= grid_x < 2**31 and 1 <= grid_y <= 65535
        assert 1 <= block_x * block_y <= MAX_THREADS
        if not self.kernel.wide:
            assert all(abs(n) < 2**31 for n in self.order.constants)


def strides_of(draw, shape, size):
    """In any order of dimensions, with gaps between them."""
    found, step = [0] * len(shape), size
    for d in draw(st.sampled_from([list(range(len(shape)))[::-1], draw(st.permutations(range(len(shape))))])):
        found[d] = step
        step = step * shape[d] + size * draw(st.sampled_from([0, 0, 0, 1, 16]))
    return tuple(found)


@st.composite
def any_matrices(draw, elements=2**34):
    """The layout of matrices, and the place of their first within 16 bytes."""
    shape = []
    batch = draw(st.lists(st.sampled_from(LENGTHS[:-4]), max_size=2))
    for n in (*batch, draw(st.sampled_from(LENGTHS)), draw(st.sampled_from(LENGTHS))):
        shape.append(min(n, elements))
        elements //= shape[-1]
    row = TABLE[draw(st.sampled_from(DTYPES))]
    place = draw(st.sampled_from([0, 0, row.itemsize]))
    return layout(tuple(shape), strides_of(draw, shape, row.itemsize), row.numpy, 0), place % 16


def dense(shape, dtype):
    return layout(tuple(shape), row_major_strides(shape, dtype.itemsize), dtype, 0)


@given(any_matrices(), st.booleans())
@example((layout((2, 2**31 + 7), (8, 16), np.dtype(np.float64), 0), 0), False)
def test_masks(drawn, packing):
    values, place = drawn
    *shape, columns = values.shape
    mask = dense((*shape, ceil(columns / 8)), np.dtype(np.uint8))
    if packing:
        found, each = Launch(pack_plan(values, mask), (place, 0)), 8
    else:
        found = Launch(select_plan(values, mask, values), (place, 0, place))
        each = found.width
        assert columns % each == 0
    event(f"{each} columns a thread, blocks {found.block}")
    found.check_limits()
    rows = prod(shape)
    assert (found.scalars, prod(found.outer)) == ([rows, columns, 1], rows)
    items = ceil(columns / each)
    assert (found.grid[0] - 1) * found.block[0] < items <= found.grid[0] * found.block[0]
    assert found.grid[1] == min(ceil(rows / found.block[1]), 65535)
    if found.width > 1:
        assert found.steps[0][-1] == 1 and place % found.kernel.access_bytes == 0
        walked = [step for n, step in zip(found.outer, found.steps[0], strict=False) if n > 1]
        assert all(step * values.itemsize % found.kernel.access_bytes == 0 for step in walked)


@given(any_matrices(), st.sampled_from([-2, -1]))
def test_sums(drawn, axis):
    x, place = drawn
    out = dense(np.delete(x.shape, axis).tolist(), x.dtype)
    found = Launch(sum_plan(x, axis, out), (place, 0))
    event(f"{found.width} columns a thread, blocks {found.block}")
    found.check_limits()
    rows, columns = x.shape[axis], x.shape[-3 - axis]
    assert found.scalars == [rows, columns, 1] and columns % found.width == 0
    *batch, across = found.outer
    assert prod(batch) == prod(x.shape[:-2]) and found.grid == (prod(found.outer), 1)
    span = found.block[0] * found.width
    assert (across - 1) * span < columns <= across * span
    assert found.block[1] & (found.block[1] - 1) == 0, "a power of two is halved to the end"
    if across > 1:
        # A block's first column, and a column in it.
        np.testing.assert_array_equal(found.steps[:, -3], span * found.steps[:, -1])


@pytest.mark.parametrize("rows, wide", [(2**15 - 16, False), (2**16, True)])
def test_64_bit_indices_from_2_31_on(rows, wide):
    values = dense((rows, 2**15), np.dtype(np.float16))
    mask = dense((rows, 2**12), np.dtype(np.uint8))
    for plan, count in [
        (pack_plan(values, mask), 2),
        (select_plan(values, mask, values), 3),
        (sum_plan(values, -2, dense((2**15,), np.dtype(np.float16))), 2),
        (sum_plan(values, -1, dense((rows,), np.dtype(np.float16))), 2),
    ]:
        assert Launch(plan, (0,) * count).kernel.wide == wide


@pytest.mark.parametrize(
    "shape, axis, block, nbytes",
    [
        ((8192, 8192), -2, (4, 32), 16),
        ((8192, 8192), -1, (1, 128), 2),
        ((8192, 8193), -2, (32, 4), 2),
        ((64, 1 << 20), -2, (32, 4), 16),
        ((4, 1 << 20), -2, (32, 4), 16),
        ((2, 1 << 20), -2, (64, 2), 16),
        ((1 << 20, 3), -1, (32, 4), 2),
        ((8192, 1), -2, (1, 128), 2),
    ],
)
def test_blocks_of_sums(shape, axis, block, nbytes):
    """Wide where there are columns for many blocks, else tall: as many threads as there is work for."""
    dtype = TABLE["bfloat16"].numpy
    found = Launch(sum_plan(dense(shape, dtype), axis, dense(np.delete(shape, axis).tolist(), dtype)), (0, 0))
    assert (found.block, found.kernel.access_bytes) == (block, nbytes)
