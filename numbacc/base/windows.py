"""The windows of convolutions: how a small array steps over a large one.

Tap r of a kernel at output position p is multiplied with the element

    i = p stride + r dilation - lead

of the input, in each spatial dimension separately. The input is 0 outside. Nothing is checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Lengths = tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """The elements of an array that the taps of a kernel are multiplied with.

    Attributes:
        stride: for each spatial dimension, elements from the window of one output to that of the next.
        padding: for each, (zeros before the first element, zeros after the last).
        dilation: for each, elements from one tap to the next.
        groups: number of groups of channels, each with its own kernels.
        flip: True if taps are counted from the last: a mathematical convolution, not a cross-correlation.
        channels_last: True if channels come after the spatial dimensions, False if before them.
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
        """Return the number of elements from a kernel's first tap to its last, inclusive."""
        return tuple((r - 1) * d + 1 for r, d in zip(taps, self.dilation, strict=True))

    def padded(self, lengths: Sequence[int]) -> Lengths:
        """Return an input's spatial lengths including the zeros on both sides."""
        return tuple(n + lead + trail for n, (lead, trail) in zip(lengths, self.padding, strict=True))

    def places(self, lengths: Sequence[int], taps: Sequence[int]) -> Lengths:
        """Return the output's spatial lengths: (padded length - reach) // stride + 1."""
        rooms = zip(self.padded(lengths), self.reach(taps), self.stride, strict=True)
        return tuple((n - reach) // step + 1 for n, reach, step in rooms)

    def parted(self, shape: Sequence[int]) -> tuple[int, int, Lengths]:
        """Return (length of the first axis, channels, spatial lengths) of the shape of an input, kernel or output."""
        first, *rest = shape
        channels = rest.pop(-1 if self.channels_last else 0)
        return first, channels, tuple(rest)

    def shape(self, first: int, channels: int, lengths: Sequence[int]) -> Lengths:
        """Return the shape with these parts, the inverse of `parted`."""
        return (first, *lengths, channels) if self.channels_last else (first, channels, *lengths)
