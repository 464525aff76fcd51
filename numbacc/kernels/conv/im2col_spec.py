"""The spec of the im2col kernel."""

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
    """Everything that determines the code of the im2col kernel.

    Attributes:
        rows, columns, channels: size of the window of an image that becomes channels.
        pitch: number of resulting channels, a multiple of WINDOW_LANES; those after the last are 0.
    """

    __slots__ = ()
    module = "kernels/conv/im2col"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Names of the dtypes of all operands: elements are treated as 16-bit words."""
        return ("uint16",)

    def described(self, launch: str) -> str:
        """Return the kernel's description."""
        return "neighbours as channels"

    @property
    def access_bytes(self) -> int:
        """Width of the widest access."""
        return 2 * WINDOW_LANES

    @property
    def launch_bounds(self) -> tuple[int, int]:
        """Threads of a block, and how many blocks fit on a multiprocessor."""
        return WINDOW_THREADS, 10
