"""The description of the kernel of `windows`."""

from __future__ import annotations

from typing import NamedTuple

from ...runtime.launch_order import Spec

#: Threads of a block, and elements that one of them writes at once: 16 bytes.
WINDOW_THREADS, WINDOW_LANES = 128, 8


class _WindowsFields(NamedTuple):
    rows: int
    columns: int
    channels: int
    pitch: int


class WindowsSpec(_WindowsFields, Spec):
    """All that decides the code of the kernel of `windows`.

    Attributes:
        rows, columns, channels: the elements that become channels: of so many rows, columns and channels of an image.
        pitch: how many channels they become, those behind the last being 0: a multiple of WINDOW_LANES.
    """

    __slots__ = ()
    module = "kernels/conv/im2col"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Those of all operands: elements are words of 16 bits."""
        return ("uint16",)

    def described(self, launch: str) -> str:
        """As in `Spec`."""
        return "neighbours as channels"

    @property
    def access_bytes(self) -> int:
        """Width of the widest access."""
        return 2 * WINDOW_LANES

    @property
    def launch_bounds(self) -> tuple[int, int]:
        """Threads of a block, and blocks that fit a multiprocessor together."""
        return WINDOW_THREADS, 10
