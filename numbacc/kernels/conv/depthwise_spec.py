"""The spec of kernels of depthwise convolutions, and the taps that each position of a tile uses."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from ...base.dtypes import TABLE
from ...functions.formula import digest
from ...runtime.launch_order import MOST_REGISTERS, REGISTERS, Spec
from .epilogue import linear

#: Threads of a block.
DEPTHWISE_THREADS = 128
#: Threads of a block of `combine` that share one element, each summing some of its parts.
COMBINE_PARTS = 16
#: Approximate number of a thread's registers for addresses, counters and predicates.
_OTHERS = 36
#: The most registers for weights that are kept; and in planar kernels, whose threads have one channel.
_KEPT, _KEPT_PLANAR = 36, 50


class _DepthwiseFields(NamedTuple):
    algorithm: str
    dtype: str
    compute: str
    taps: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    upward: bool = False
    tile: tuple[int, int] = (1, 1)
    width: int = 1
    across: int = 1
    activation: str = ""
    biased: bool = False
    scaled: bool = False
    adds: bool = False
    planar: bool = False
    span: int = 1
    lead: int = 0


class DepthwiseSpec(_DepthwiseFields, Spec):
    """Everything that determines the code of a kernel of `depthwise`.

    Attributes:
        algorithm: "convolve", "filter" or "combine".
        dtype: name of the arrays' dtype.
        compute: name of the dtype of sums.
        taps: rows and columns of a filter.
        stride, dilation: along rows and columns.
        upward: True if a tile's positions are `stride` times as dense as the elements that they are computed from: for
            the gradient of the input.
        tile: rows and columns of positions that a thread handles at once: of results, or of dy for "filter".
        width: adjacent channels that a thread handles.
        across: channels of a block, divided by `width`; a power of two.
        activation: the activation that follows, "" for none.
        biased: whether there is a bias.
        scaled: whether sums have a factor.
        adds: whether the result's previous elements are added, with a factor.
        planar: whether adjacent threads handle adjacent columns of a channel, which are contiguous, instead of adjacent
            channels. Then `width` is 1.
        span, lead: as in `primitives.stencil.Stencil`.
    """

    __slots__ = ()
    module = "kernels/conv/depthwise"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Name of the arrays' dtype, as a tuple."""
        return (self.dtype,)

    @property
    def narrow(self) -> bool:
        """True if the arrays are narrower than the compute dtype."""
        return self.compute != self.dtype

    @property
    def identity(self) -> str:
        """The spec's identity (see `Spec`), including the digest of the operations that follow."""
        follows = linear(self.activation or None, self.scaled, self.adds, self.biased)
        return repr((digest(follows, self.compute, self.narrow), self))

    @property
    def access_bytes(self) -> int:
        """Width of the widest access."""
        return self.width * self.span * TABLE[self.dtype].itemsize

    @property
    def keeps_weights(self) -> bool:
        """True if a thread keeps its weights in registers throughout."""
        return self._words(self.width * prod(self.taps)) <= (_KEPT_PLANAR if self.planar else _KEPT)

    @property
    def sums(self) -> int:
        """Number of sums that a thread accumulates at once."""
        if self.algorithm == "filter":
            return self.width * prod(self.taps)
        # A tile's row is stored as soon as all of its taps are done.
        return self.width * self.tile[1] * min(self.tile[0], self._overlap)

    @property
    def _overlap(self) -> int:
        """The largest number of rows of positions that use the same row of elements."""
        return max(len({place for place, _ in met}) for met in meetings(self, 0).values())

    def _words(self, numbers: int) -> int:
        """Return how many registers this many elements need."""
        return numbers * TABLE[self.compute].itemsize // 4

    @property
    def launch_bounds(self) -> tuple[int, int]:
        """Threads of a block, and how many blocks fit on a multiprocessor with the registers that are needed.

        A thread needs registers for the sums, a row of x, and the rows of dy, or the weights, that this row uses.
        """
        if self.algorithm == "combine":
            return DEPTHWISE_THREADS, 8
        if self.algorithm == "filter":
            others = self.tile[1] * min(self.tile[0], self._overlap)
        else:
            others = prod(self.taps) if self.keeps_weights else self._overlap * self.taps[1]
        # "filter" also steps through dy, in addition to x.
        addresses = 2 * (len(meetings(self, 1)) + self.tile[1]) * (self.algorithm == "filter")
        numbers = self.sums + self.width * (len(meetings(self, 1)) + others)
        registers = min(self._words(numbers) + addresses + _OTHERS, MOST_REGISTERS)
        return DEPTHWISE_THREADS, max(min(REGISTERS // (registers * DEPTHWISE_THREADS), 8), 2)


def meetings(spec: DepthwiseSpec, axis: int) -> dict[int, list[tuple[int, int]]]:
    """Return, for each element along an axis that a tile uses, the pairs (position in the tile, tap) that use it.

    Elements are counted from the one that tap 0 uses at position 0, in increasing order.
    """
    step, apart, found = spec.stride[axis], spec.dilation[axis], {}  # type: ignore[var-annotated]
    for place in range(spec.tile[axis]):
        for tap in range(spec.taps[axis]):
            if not spec.upward:
                found.setdefault(place * step + tap * apart, []).append((place, tap))
            elif (place - tap * apart) % step == 0:
                found.setdefault((place - tap * apart) // step, []).append((place, tap))
    return dict(sorted(found.items()))
