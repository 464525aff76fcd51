"""The description of kernels of depthwise convolutions, and which places of a tile meet which taps."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from ...base.dtypes import TABLE
from ...functions.formula import digest
from ...runtime.launch_order import MOST_REGISTERS, REGISTERS, Spec
from .epilogue import linear

#: Threads of a block.
DEPTHWISE_THREADS = 128
#: Threads of a block of `combine` that have one element, each some of its parts.
COMBINE_PARTS = 16
#: Registers of a thread for addresses, counters and predicates, about.
_OTHERS = 36
#: Registers for weights that are kept, at most.
_KEPT = 36


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


class DepthwiseSpec(_DepthwiseFields, Spec):
    """All that decides the code of a kernel of `depthwise`.

    Attributes:
        algorithm: "convolve", "filter" or "combine".
        dtype: name of the arrays' dtype.
        compute: name of the dtype of sums.
        taps: rows and columns of a kernel.
        stride, dilation: along rows and columns.
        upward: True where a tile's places lie `stride` times as dense as what they are computed from: the gradient of
            the input.
        tile: rows and columns of places that a thread takes at once: of results, for "filter" of dy.
        width: channels that a thread takes, next to each other.
        across: threads of a block whose channels lie next to each other, a power of two.
        activation: what follows, "" for nothing.
        biased: whether there is a bias.
        scaled: whether sums have a factor.
        adds: whether what is in the result's place is added, with a factor.
    """

    __slots__ = ()
    module = "kernels/conv/depthwise"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Those of all operands."""
        return (self.dtype,)

    @property
    def narrow(self) -> bool:
        """As in `KernelSpec`."""
        return self.compute != self.dtype

    @property
    def identity(self) -> str:
        """As in `Spec`, with the digest of what follows."""
        follows = linear(self.activation or None, self.scaled, self.adds, self.biased)
        return repr((digest(follows, self.compute, self.narrow), self))

    @property
    def keeps_weights(self) -> bool:
        """True where a thread has its weights in registers, all the time."""
        return self._words(self.width * prod(self.taps)) <= _KEPT

    @property
    def sums(self) -> int:
        """Numbers that a thread adds up to at once."""
        if self.algorithm == "filter":
            return self.width * prod(self.taps)
        # Rows of a tile are put away when all of their taps are done.
        return self.width * self.tile[1] * min(self.tile[0], self._overlap)

    @property
    def _overlap(self) -> int:
        """How many rows of places meet one row of elements, at most."""
        return max(len({place for place, _ in met}) for met in meetings(self, 0).values())

    def _words(self, numbers: int) -> int:
        """Registers of so many numbers."""
        return numbers * TABLE[self.compute].itemsize // 4

    @property
    def launch_bounds(self) -> tuple[int, int]:
        """Threads of a block, and blocks that fit a multiprocessor together, of as many registers as are needed.

        Beside the sums these are a row of x and the rows of dy, or the weights, that it meets.
        """
        if self.algorithm == "combine":
            return DEPTHWISE_THREADS, 8
        if self.algorithm == "filter":
            others = self.tile[1] * min(self.tile[0], self._overlap)
        else:
            others = prod(self.taps) if self.keeps_weights else self._overlap * self.taps[1]
        # Beside x "filter" walks through dy.
        addresses = 2 * (len(meetings(self, 1)) + self.tile[1]) * (self.algorithm == "filter")
        numbers = self.sums + self.width * (len(meetings(self, 1)) + others)
        registers = min(self._words(numbers) + addresses + _OTHERS, MOST_REGISTERS)
        return DEPTHWISE_THREADS, max(min(REGISTERS // (registers * DEPTHWISE_THREADS), 8), 2)


def meetings(spec: DepthwiseSpec, axis: int) -> dict[int, list[tuple[int, int]]]:
    """Along an axis, for each element that a tile is computed from the pairs (place in the tile, tap) that meet there.

    Elements are counted from that which tap 0 meets at place 0. In order.
    """
    step, apart, found = spec.stride[axis], spec.dilation[axis], {}  # type: ignore[var-annotated]
    for place in range(spec.tile[axis]):
        for tap in range(spec.taps[axis]):
            if not spec.upward:
                found.setdefault(place * step + tap * apart, []).append((place, tap))
            elif (place - tap * apart) % step == 0:
                found.setdefault((place - tap * apart) // step, []).append((place, tap))
    return dict(sorted(found.items()))
