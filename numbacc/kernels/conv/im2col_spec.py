"""The description of the kernel of `windows`."""

from __future__ import annotations

from typing import NamedTuple

#: Threads of a block, and elements that one of them writes at once: 16 bytes.
WINDOW_THREADS, WINDOW_LANES = 128, 8


class WindowsSpec(NamedTuple):
    """All that decides the code of the kernel of `windows`.

    Attributes:
        rows, columns, channels: the elements that become channels: of so many rows, columns and channels of an image.
        pitch: how many channels they become, those behind the last being 0: a multiple of WINDOW_LANES.
    """

    rows: int
    columns: int
    channels: int
    pitch: int

    @property
    def wide(self) -> bool:
        """True: the integers of a launch have 64 bits. What is within an image is counted in 32."""
        return True

    @property
    def needs_alignment(self) -> bool:
        """False: images are read element by element, and what is written lies in scratch memory."""
        return False

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Those of all operands: elements are words of 16 bits."""
        return ("uint16",)

    @property
    def access_bytes(self) -> int:
        """Width of the widest access."""
        return 2 * WINDOW_LANES

    @property
    def launch_bounds(self) -> tuple[int, int]:
        """Threads of a block, and blocks that fit a multiprocessor together."""
        return WINDOW_THREADS, 10

    @property
    def sources(self) -> tuple[str, ...]:
        """As in `KernelSpec`."""
        return ("kernels/conv/im2col", "kernels/conv/im2col_spec")

    @property
    def identity(self) -> str:
        """As in `KernelSpec`."""
        return repr(self)
