"""Launches of kernels whose operands differ in shape: bit masks, reductions over rows, gathers, dropout.

Each function makes the launch of a `launch.MapTask` like `geometry.make_order`, but most have extra first arguments.
"""

from __future__ import annotations

from math import gcd, prod
from typing import Any

from ...base.layout import Merged, merge_dimensions, row_major_strides
from ...runtime.launch_order import MAX_THREADS, VECTOR_BYTES, LaunchOrder
from ..specs import group_lanes
from .geometry import Geometry, Pairs, order_of, power_of_two, row_grid

#: Blocks of `reduce_rows` are narrowed until there are this many, but not below this many bytes.
_BLOCKS, _BLOCK_BYTES = 512, 64
#: Threads that fill a large GPU.
_MANY = 2**19
#: Accesses of 16-bit floats for each thread of `dropout`.
_DROPOUT_PIECES = 4


def bits_order(algorithm: str, task: Any, key: tuple[int, ...], pairs: Pairs = ()) -> LaunchOrder:
    """Return the launch for bit masks: rows along y, bytes (packing) or accesses (selecting) along x."""
    values, steps = task.inputs[0], _steps(task)
    *shape, columns = values.shape
    rows, size, packing = prod(shape), values.itemsize, algorithm == "pack_bits"
    floats = [k for k, array in enumerate((*task.inputs, *task.outputs)) if array.dtype == values.dtype]
    access = size
    if all(steps[k][-1] == 1 for k in floats):
        alignments = task.alignments(key)
        distances = [8 if packing else columns, *(n for k in floats for n in steps[k][:-1])]
        access = gcd(VECTOR_BYTES, *(alignments[k] for k in floats), *(size * n for n in distances))
    each = 8 if packing else access // size
    merged = merge_dimensions(shape, [step[:-1] for step in steps], 1, leader=0)
    items = -(-columns // each)
    # Adjacent threads process adjacent rows if those are adjacent in memory, and if the grid, which then has a block
    # per item, is not too wide.
    by_column = rows > 1 and 0 < abs(merged.strides[0][-1]) < abs(steps[0][-1]) and items < 2**31
    grid, block = row_grid(items, rows, 1, 1 if by_column else None)
    module = "kernels/elementwise/sign_masks"
    geometry = Geometry(algorithm, grid, block, merged.shape, (rows, columns, 1), access // size, module=module)
    walks = [(*outer, step[-1]) for outer, step in zip(merged.strides, steps, strict=True)]
    return order_of(task, geometry, walks, _is_wide(task), key, pairs)


def reduction_order(algorithm: str, task: Any, key: tuple[int, ...], pairs: Pairs = ()) -> LaunchOrder:
    """Return the launch for reductions over rows: each block handles few columns, and all blocks are along x."""
    steps, inputs = _steps(task), len(task.reads)
    sources, targets = steps[:inputs], steps[inputs:]
    *batch, rows, columns = task.reads[0].shape
    count, sizes = prod(batch), [array.itemsize for array in task.inputs]
    width = 1
    if all(source[-1] == 1 for source in sources):
        alignments = task.alignments(key)
        whole = [gcd(aligned, *(size * n for n in (columns, *source[:-1]))) // size
                 for aligned, size, source in zip(alignments, sizes, sources, strict=False)]  # fmt: skip
        width = gcd(VECTOR_BYTES // max(sizes), *whole)
    access, leader = width * max(sizes), sources[0]
    most = power_of_two(columns // width)
    # Adjacent threads process adjacent rows if those are adjacent in memory.
    x = 1 if 0 < abs(leader[-2]) < abs(leader[-1]) else min(32, most)
    while x * access > _BLOCK_BYTES and count * columns < _BLOCKS * x * width:
        x //= 2
    y = min(MAX_THREADS // x, power_of_two(rows))
    x = min(MAX_THREADS // y, most)
    blocks = -(-columns // (x * width))
    span = x * width if blocks > 1 else 0
    outer = [*(source[:-2] for source in sources), *(target[:-1] for target in targets)]
    merged = merge_dimensions(batch, outer, 1, leader=inputs) if count > 1 else Merged((), ((),) * len(steps))
    geometry = Geometry(
        algorithm, (count * blocks, 1), (x, y), (*merged.shape, blocks), (rows, columns, 1), width,
        module="kernels/elementwise/bias_grad",
    )  # fmt: skip
    walks = [
        (*step, span * own[-1], *(own[-2:] if k < inputs else (0, own[-1])))
        for k, (step, own) in enumerate(zip(merged.strides, steps, strict=True))
    ]
    return order_of(task, geometry, walks, _is_wide(task), key, pairs)


def _steps(task: Any) -> list[tuple[int, ...]]:
    """Return each operand's strides in elements, with 0 along axes of length 1."""
    arrays = (*task.inputs, *task.outputs)
    return [
        tuple(step // array.itemsize if n > 1 else 0 for n, step in zip(task.shape_of(each), each.strides, strict=True))
        for each, array in zip((*task.reads, *task.writes), arrays, strict=True)
    ]


def _is_wide(task: Any) -> bool:
    return bool(task.is_wide(prod(task.shape_of(task.reads[0])), beyond=2**16))


def gather_order(length: int, apart: int, task: Any, key: tuple[int, ...], pairs: Pairs = ()) -> LaunchOrder:
    """Return the launch that gathers elements by indices along an axis of `length` elements, `apart` elements apart.

    The task's inputs are the array, viewed without that axis, and the indices, both in the result's shape.
    """
    size, steps = task.inputs[0].itemsize, _steps(task)
    merged = merge_dimensions(task.shape, steps, 1, leader=2)
    if len(merged.shape) == 1:
        merged = Merged((1, *merged.shape), tuple((0, *step) for step in merged.strides))
    (*outer, columns), (source, index, target) = merged.shape, merged.strides
    width, is_straight = 1, source[-1] == target[-1] == 1 and not index[-1]
    if is_straight:
        alignments = task.alignments(key)
        distances = (columns, apart, *source[:-1], *target[:-1])
        width = gcd(VECTOR_BYTES, alignments[0], alignments[2], *(size * n for n in distances)) // size
    width = max(width, 1)
    rows, items = prod(outer), columns // width
    # Several accesses per thread with one index hide the latency of loading the index and then the elements, provided
    # that enough threads remain to fill a GPU.
    most = min(rows * items // _MANY, 4) if is_straight else 1
    pieces = next(n for n in (4, 2, 1) if n == 1 or (n <= most and items % n == 0))
    grid, block = row_grid(items // pieces, rows, 1)
    scalars = (rows, columns, columns // pieces, length, apart, 1)
    module = "kernels/gather_scatter/gather"
    geometry = Geometry("gather", grid, block, tuple(outer), scalars, width, pieces * width, module=module)
    return order_of(task, geometry, merged.strides, _is_wide(task), key, pairs)


def dropout_order(task: Any, key: tuple[int, ...], pairs: Pairs = ()) -> LaunchOrder:
    """Return the launch of dropout, whose random words depend on an element's position in C order."""
    size, steps = task.inputs[0].itemsize, _steps(task)
    # The strides of C order, listed first, keep the dimensions in that order.
    merged = merge_dimensions(task.shape, [row_major_strides(task.shape, 1), *steps], 1, leader=0)
    _, source, *_, target = merged.strides
    lanes, width = group_lanes(size), 1
    if source == target == (1,):
        alignments = task.alignments(key)
        width = max(gcd(VECTOR_BYTES, alignments[0], alignments[-1]) // size, 1)
    count = prod(task.shape)
    # For 16-bit elements one access is short compared with its latency: have more in flight if there are enough
    # threads.
    many = lanes * _DROPOUT_PIECES
    if width == lanes == VECTOR_BYTES // 2 and 2 * count >= many * _MANY:
        lanes = many
    blocks = -(-count // (lanes * MAX_THREADS))
    geometry = Geometry(
        "dropout", (blocks, 1), (MAX_THREADS, 1), merged.shape, (count, int(source == target == (1,))), width, lanes,
        module="kernels/random/dropout",
    )  # fmt: skip
    return order_of(task, geometry, merged.strides[1:], _is_wide(task), key, pairs)
