"""Copies between the operands and the result of a convolution and those that cuDNN gets."""

from __future__ import annotations

from typing import NamedTuple

from ..base.layout import Layout
from ..kernels.elementwise import copy
from ..kernels.elementwise.launch import MapExecutable


class PartCopy(NamedTuple):
    """A copy of a part of an array.

    Attributes:
        executable: copies the part.
        offsets: bytes into the source, and into the target.
    """

    executable: MapExecutable
    offsets: tuple[int, int] = (0, 0)


class Copies:
    """Copies of operands element by element: cuDNN gets the convolution of the call.

    Attributes:
        name: text that plans show before the engine if cuDNN gets another convolution.
        title: the same for `python -m tools.check conv`.
        numbers: the operands that are always copied, inputs first.
    """

    name = title = ""
    numbers: tuple[int, ...] = ()

    def into(self, number: int, own: Layout, dense: Layout) -> MapExecutable:
        """Return the executable that copies operand `number` of the convolution to cuDNN's."""
        return copy.executable(own, dense)

    def back(self, number: int, dense: Layout, own: Layout) -> list[PartCopy]:
        """Return the copies from cuDNN's result to the convolution's result, operand `number`."""
        return [PartCopy(copy.executable(dense, own))]


PLAIN = Copies()
