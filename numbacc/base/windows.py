"""How a small array walks over a large one: the windows of convolutions.

Tap r of a kernel at output position p meets the element

    i = p stride + r dilation - lead

of the input, in each spatial dimension by itself; outside of the input there are zeros. Nothing is checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Lengths = tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """Which elements of an array meet which taps of a kernel.

    Attributes:
        stride: for each spatial dimension, elements from the window of one output to that of the next.
        padding: for each, (zeros before the first element, zeros behind the last).
        dilation: for each, elements from one tap to the next.
        groups: parts that channels are divided into, each of which meets kernels of its own.
        flip: True if taps are counted from the last: a convolution as in mathematics, not a cross-correlation.
        channels_last: True if channels come behind the spatial dimensions, False if before them.
    """

    stride: Lengths
    padding: tuple[tuple[int, int], ...]
    dilation: Lengths
    groups: int
    flip: bool
    channels_last: bool

    @property
    def dimensions(self) -> int:
        """The number of spatial dimensions."""
        return len(self.stride)

    def reach(self, taps: Sequence[int]) -> Lengths:
        """Elements from a kernel's first tap to its last, both counted."""
        return tuple((r - 1) * d + 1 for r, d in zip(taps, self.dilation, strict=True))

    def padded(self, lengths: Sequence[int]) -> Lengths:
        """An input's spatial lengths with the zeros on both sides."""
        return tuple(n + lead + trail for n, (lead, trail) in zip(lengths, self.padding, strict=True))

    def places(self, lengths: Sequence[int], taps: Sequence[int]) -> Lengths:
        """The output's spatial lengths: (padded length - reach) // stride + 1."""
        rooms = zip(self.padded(lengths), self.reach(taps), self.stride, strict=True)
        return tuple((n - reach) // step + 1 for n, reach, step in rooms)

    def parted(self, shape: Sequence[int]) -> tuple[int, int, Lengths]:
        """(length of the first axis, channels, spatial lengths) of an input's, a kernel's or an output's shape."""
        first, *rest = shape
        channels = rest.pop(-1 if self.channels_last else 0)
        return first, channels, tuple(rest)

    def shape(self, first: int, channels: int, lengths: Sequence[int]) -> Lengths:
        """The shape that `parted` takes apart."""
        return (first, *lengths, channels) if self.channels_last else (first, channels, *lengths)
