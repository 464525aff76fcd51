"""Launches of `kernels.fft.layout`: their elements, dimensions and geometry."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from ..base.dtypes import info
from ..base.layout import Layout, merge_dimensions
from ..kernels.elementwise.geometry import Pairs
from ..kernels.elementwise.launch import MapExecutable, MapTask, moved
from ..kernels.fft.spec import RepackSpec
from ..kernels.specs import TILE
from ..runtime.launch_order import MAX_THREADS, VECTOR_BYTES, LaunchOrder
from .steps import Repack

#: Added to a padded dimension's length in the source, so that the dimension does not merge with others; see `_merge`.
_APART = 1 << 40
#: Groups of elements per thread if there are at least `_BUSY` groups, which keep every multiprocessor busy.
_PIECES, _BUSY = 4, 1 << 18
#: If either dimension is shorter than this, a tile is mostly empty.
_SHORTEST_TILE = 16


class _Walked(NamedTuple):
    """The common dimensions along which both arrays are traversed.

    Attributes:
        shape: the target's lengths.
        inside: the source's lengths.
        in_steps, out_steps: steps of source and target, in numbers.
        halved: 1 for the dimension whose ends lose their imaginary parts, else 0.
    """

    shape: tuple[int, ...]
    inside: tuple[int, ...]
    in_steps: tuple[int, ...]
    out_steps: tuple[int, ...]
    halved: tuple[int, ...]


@lru_cache(maxsize=1024)
def executable(step: Repack, count: int) -> MapExecutable:
    """Make the executable of a repacking pass. Its arrays are its source and target. Threads share it.

    `count` is the number of points for the step's scale.
    """
    source, target = step.source.layout, step.target.layout
    make = _make_order if step.mirrored is None else _make_hermitian
    return moved("fft", source, target, partial(make, step, count))


def _make_order(step: Repack, count: int, task: MapTask, key: tuple[int, ...], pairs: Pairs = ()) -> LaunchOrder:
    """Return the launch of a copying pass. `pairs` is not checked: the program knows which arrays share memory."""
    source, target = step.source.layout, step.target.layout
    walked = _merge(source, target, step.ends)
    row = _tile_rows(walked, source, target)
    lanes = 1 if row is not None else _lanes(walked, source, target, key)
    walked = _in_groups(walked, lanes) if row is None else _with_rows(walked, row)
    size = prod(walked.shape)
    if row is None:
        pieces = _PIECES if size >= _BUSY else 1
        blocks, block = -(-size // (pieces * MAX_THREADS)), (MAX_THREADS, 1)
    else:
        pieces, block = 1, (TILE, MAX_THREADS // TILE)
        blocks = prod(walked.shape[:-2]) * prod(-(-n // TILE) for n in walked.shape[-2:])
    reach = max(_reach(steps, walked.shape) for steps in (walked.in_steps, walked.out_steps))
    kernel = RepackSpec(
        algorithm="straight" if row is None else "tiled",
        source=_number(source)[0].name,
        target=_number(target)[0].name,
        source_parts=_number(source)[1],
        target_parts=_number(target)[1],
        source_bytes=_access_bytes(source, key[0], lanes),
        target_bytes=_access_bytes(target, key[1], lanes),
        lanes=lanes,
        pieces=pieces,
        scale=step.scale,
        conjugate=step.conjugate,
        padded=walked.inside != walked.shape,
        rank=len(walked.shape),
        wide=max(reach, size + pieces * MAX_THREADS, count) >= 2**31,
        ends=(walked.halved.index(1), _ends(step)) if step.ends else (),
    )
    return _order(kernel, walked, size, count, blocks, block, key, target.device)


def _order(
    kernel: RepackSpec, walked: _Walked, size: int, count: int, blocks: int, block: tuple[int, int],
    key: tuple[int, ...], device: int,
) -> LaunchOrder:  # fmt: skip
    return LaunchOrder(
        kernel=kernel,
        device=device,
        grid=(blocks, 1),
        block=block,
        alignment=key,
        pointers=((0, 0), (1, 0)),
        constants=(*walked.in_steps, *walked.out_steps, *walked.shape, *walked.inside, size, count, 1),
        pairs=(),
    )


def _ends(step: Repack) -> int:
    """Return how many ends of the halved axis hold a real number.

    The last one does if the length is even and the source contains it. (Missing elements are zero anyway.)
    """
    axis, length = step.ends
    return 2 if length % 2 == 0 and step.source.layout.shape[axis] == length // 2 + 1 else 1


def _make_hermitian(step: Repack, count: int, task: MapTask, key: tuple[int, ...], pairs: Pairs = ()) -> LaunchOrder:
    """Return the launch of a step that makes the ends of a half spectrum hermitian, in place."""
    array, (axis, length) = step.target.layout, step.ends
    itemsize = _number(array)[0].itemsize
    shape, steps = list(array.shape), [step // itemsize for step in array.strides]
    shape[axis], steps[axis] = _ends(step), steps[axis] * (length // 2)
    lengths = [n if d in (step.mirrored or ()) else 0 for d, n in enumerate(shape)]
    walked = _Walked(tuple(shape), tuple(lengths), tuple(steps), tuple(steps), ())
    size = prod(shape)
    kernel = RepackSpec(
        algorithm="hermitian",
        source=_number(array)[0].name,
        target=_number(array)[0].name,
        source_parts=2,
        target_parts=2,
        source_bytes=_access_bytes(array, key[0], 1),
        target_bytes=_access_bytes(array, key[1], 1),
        lanes=1,
        pieces=1,
        scale="",
        conjugate=False,
        padded=False,
        rank=len(shape),
        wide=max(_reach(steps, shape), size + MAX_THREADS) >= 2**31,
    )
    blocks = -(-size // MAX_THREADS)
    return _order(kernel, walked, size, 1, blocks, (MAX_THREADS, 1), key, array.device)


def _tile_rows(walked: _Walked, source: Layout, target: Layout) -> int | None:
    """Return the source's contiguous dimension, if it is transposed to the target and tiles are faster; else None."""
    one, other = _number(source)[1], _number(target)[1]
    if walked.out_steps[-1] != other or walked.in_steps[-1] == one:
        return None
    for d, n in enumerate(walked.shape[:-1]):
        if walked.in_steps[d] == one:
            return d if min(n, walked.shape[-1]) >= _SHORTEST_TILE else None
    return None


def _with_rows(walked: _Walked, row: int) -> _Walked:
    """Move the dimension `row` next to the last one, with at least one dimension before it."""

    def moved(numbers: tuple[int, ...], fill: int) -> tuple[int, ...]:
        outer = [n for d, n in enumerate(numbers[:-1]) if d != row]
        return (*(outer or [fill]), numbers[row], numbers[-1])

    return _Walked(*(moved(numbers, fill) for numbers, fill in zip(walked, (1, 1, 0, 0, 0), strict=True)))


def _lanes(walked: _Walked, source: Layout, target: Layout, alignment: Sequence[int]) -> int:
    """Return how many adjacent elements fit one access of the wider array, and one of the other array."""
    if walked.halved[-1]:
        return 1
    most = VECTOR_BYTES // max(source.itemsize, target.itemsize)
    for array, steps, aligned in ((source, walked.in_steps, alignment[0]), (target, walked.out_steps, alignment[1])):
        dtype, parts = _number(array)
        # Accessors load and store integers narrower than a word in whole words.
        if steps[-1] != parts or (dtype.kind in "iu" and dtype.itemsize < 4):
            return 1
        common = gcd(VECTOR_BYTES, aligned, *(n * dtype.itemsize for n in steps[:-1]))
        most = max(min(most, common // array.itemsize), 1)
    return gcd(most, walked.shape[-1], walked.inside[-1])


def _in_groups(walked: _Walked, lanes: int) -> _Walked:
    """Count the last dimension in groups of elements."""
    shape, inside, in_steps, out_steps, halved = walked
    return _Walked(
        (*shape[:-1], shape[-1] // lanes),
        (*inside[:-1], inside[-1] // lanes),
        (*in_steps[:-1], in_steps[-1] * lanes),
        (*out_steps[:-1], out_steps[-1] * lanes),
        halved,
    )


def _number(array: Layout) -> tuple[np.dtype[Any], int]:
    """Return the dtype of an array's numbers, and how many numbers form an element."""
    if array.dtype.kind == "c":
        return np.dtype(f"float{4 * array.itemsize}"), 2
    # A bool is a byte, 0 or 1.
    return (np.dtype(np.uint8) if array.dtype.kind == "b" else info(array.dtype).numpy), 1


def _access_bytes(array: Layout, address: int, lanes: int) -> int:
    """Return the bytes of an access of `lanes` elements; if aligned, one access has both parts of a complex number."""
    dtype, parts = _number(array)
    whole = parts * dtype.itemsize
    aligned = address % whole == 0 and all(step % whole == 0 for step in array.strides)
    return lanes * whole if aligned else dtype.itemsize


def _merge(source: Layout, target: Layout, ends: tuple[int, ...]) -> _Walked:
    """Merge the target's dimensions into as few as possible for both arrays.

    If the source is shorter along a dimension, that dimension is not merged. To achieve this, its length in the source
    takes part in the merge like the steps of a third array. `_APART` is added to it, so that it is not the product of a
    length and another one. The halved axis, the first of `ends`, takes part in the same way.
    """
    kept = [n < m or (d,) == ends[:1] for d, (n, m) in enumerate(zip(source.shape, target.shape, strict=True))]
    lengths = [n + _APART if keep else 0 for n, keep in zip(source.shape, kept, strict=True)]
    halved = [int((d,) == ends[:1]) for d in range(target.ndim)]
    steps = [[step // _number(array)[0].itemsize for step in array.strides] for array in (source, target)]
    shape, found = merge_dimensions(target.shape, [*steps, lengths, halved], 1, leader=1)
    in_steps, out_steps, marks, at = found
    if not source.size:
        return _Walked(shape, (0,) * len(shape), in_steps, out_steps, at)
    inside = tuple(mark - _APART if mark >= _APART else n for mark, n in zip(marks, shape, strict=True))
    return _Walked(shape, inside, in_steps, out_steps, at)


def _reach(steps: Sequence[int], shape: Sequence[int]) -> int:
    """Return the distance from an array's first element to its last one."""
    return sum((n - 1) * abs(step) for n, step in zip(shape, steps, strict=True))
