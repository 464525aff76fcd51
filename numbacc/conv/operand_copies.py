"""Copies between the operands and the result of a convolution and those that cuDNN gets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from ..base.layout import Layout, merge_dimensions
from ..kernels.conv.transposition_spec import TRANSPOSITION_ELEMENTS, TRANSPOSITION_THREADS, TranspositionSpec
from ..kernels.elementwise import copy
from ..kernels.elementwise.geometry import Pairs
from ..kernels.elementwise.launch import MapExecutable, MapTask, moved
from ..runtime.launch_order import WARP, LaunchOrder

#: The most pixels of images that the kernels of `kernels.conv.transposition` copy. Images of 7 x 7 pixels and 512
#: channels took 9 µs less than with tiles in shared memory, 28 x 28 took as long, and 56 x 56 more (H100).
MOST_PIXELS = 256
#: A bound on pixels, threads, and elements between the first and the last access of a thread: 32 bits count them.
_REACH = 2**30


class PartCopy(NamedTuple):
    """A copy of a part of an array.

    Attributes:
        executable: copies the part.
        offsets: bytes into the source, and into the target.
    """

    executable: MapExecutable
    offsets: tuple[int, int] = (0, 0)


def copied(source: Layout, target: Layout, algorithm: str) -> MapExecutable:
    """Return a copy between layouts of one shape and dtype.

    Args:
        algorithm: the kernel of `kernels.conv.transposition` to use if it supports the layouts: "gather" if the target
            is aligned to 16 bytes, "scatter" if the source is.
    """
    counts = _matrices(source, target)
    channels, pixels = counts[1:] if algorithm == "gather" else counts[:0:-1]
    if (
        channels % TRANSPOSITION_ELEMENTS
        or pixels > MOST_PIXELS
        or max(TRANSPOSITION_ELEMENTS, counts[0]) * max(counts[1:]) >= _REACH
        or source.size >= 8 * _REACH
    ):
        return copy.executable(source, target)
    return moved("conv", source, target, partial(_make_order, TranspositionSpec(algorithm), counts))


def _matrices(source: Layout, target: Layout) -> tuple[int, ...]:
    """Return (matrices, rows, columns of one) if a copy of 16-bit elements transposes contiguous matrices.

    For other copies, rows and columns are 1.
    """
    if source.itemsize != 2:
        return 0, 1, 1
    merged = merge_dimensions(source.shape, (source.strides, target.strides), 2, leader=0)
    shape = (1,) * (3 - len(merged.shape)) + merged.shape
    if len(shape) > 3 or len(merged.shape) < 2:
        return 0, 1, 1
    (count, rows, columns), strides = shape, [(0,) * (3 - len(step)) + step for step in merged.strides]
    wanted = (rows * columns, columns, 1), (rows * columns, 1, rows)
    is_transposed = all(
        n == 1 or own == step
        for mine, yours in zip(strides, wanted, strict=True)
        for n, own, step in zip(shape, mine, yours, strict=True)
    )
    return (count, rows, columns) if is_transposed else (0, 1, 1)


def _make_order(
    spec: TranspositionSpec, counts: tuple[int, ...], task: MapTask, key: tuple[int, ...], pairs: Pairs
) -> LaunchOrder:
    """Make the launch order, as `geometry.make_order` does. One array is scratch memory, so `pairs` are unused."""
    count, rows, columns = counts
    groups, pixels = (rows, columns) if spec.algorithm == "gather" else (columns, rows)
    threads = groups // TRANSPOSITION_ELEMENTS * -(-count * pixels // WARP) * WARP
    return LaunchOrder(
        kernel=spec,
        device=task.outputs[0].device,
        grid=(-(-threads // TRANSPOSITION_THREADS), 1),
        block=(TRANSPOSITION_THREADS, 1),
        alignment=key,
        pointers=((0, 0), (1, 0)),
        constants=counts,
        pairs=(),
    )


def divided(length: int, step: int) -> Iterator[tuple[int, int, int]]:
    """Yield (first step, steps, elements of each) for the whole steps of a length, and for the rest."""
    whole, left = divmod(length, step)
    yield from ((0, whole, step),) if whole else ()
    yield from ((whole, 1, left),) if left else ()


class Copies:
    """Copies of operands element by element: cuDNN gets the convolution of the call.

    Attributes:
        name: text that plans show before the engine if cuDNN gets another convolution.
        title: the same for `python -m tools.check conv`.
        numbers: the operands that are always copied, inputs first.
        filled: the operands whose copies are set to 0 first.
    """

    name = title = ""
    numbers: tuple[int, ...] = ()
    filled: tuple[int, ...] = ()

    def into(self, number: int, own: Layout, dense: Layout) -> list[PartCopy]:
        """Return the copies of operand `number` of the convolution to cuDNN's."""
        return [PartCopy(copied(own, dense, "gather"))]

    def back(self, number: int, dense: Layout, own: Layout) -> list[PartCopy]:
        """Return the copies from cuDNN's result to the convolution's result, operand `number`."""
        return [PartCopy(copied(dense, own, "scatter"))]


PLAIN = Copies()
