"""How the operands of a convolution become those that cuDNN gets, and its result the convolution's."""

from __future__ import annotations

from typing import NamedTuple

from ..base.layout import Layout
from ..kernels.elementwise import copy
from ..kernels.elementwise.launch import MapExecutable


class PartCopy(NamedTuple):
    """A copy of a part of an array.

    Attributes:
        executable: what copies it.
        offsets: bytes into the source, and into the target.
    """

    executable: MapExecutable
    offsets: tuple[int, int] = (0, 0)


class Copies:
    """Operands that are copied element for element, for the convolution as it was asked for.

    Attributes:
        name: what plans say before the engine where cuDNN gets another convolution.
        title: the same, as `python -m tools.check conv` says it.
        numbers: the operands that are always copied, inputs first.
    """

    name = title = ""
    numbers: tuple[int, ...] = ()

    def into(self, number: int, own: Layout, dense: Layout) -> MapExecutable:
        """What makes cuDNN's operand `number` of the convolution's."""
        return copy.executable(own, dense)

    def back(self, number: int, dense: Layout, own: Layout) -> list[PartCopy]:
        """What makes the convolution's result, operand `number`, of cuDNN's."""
        return [PartCopy(copy.executable(dense, own))]


PLAIN = Copies()
