"""The spec of the kernels that transpose many matrices of 16-bit elements."""

from __future__ import annotations

from typing import NamedTuple

from ...runtime.launch_order import Spec
from .im2col_spec import WINDOW_LANES

#: Threads of a block, and elements that one of them moves: two accesses of 16 bytes, which fill a sector of a cache.
TRANSPOSITION_THREADS, TRANSPOSITION_ELEMENTS = 128, 2 * WINDOW_LANES


class _TranspositionFields(NamedTuple):
    algorithm: str


class TranspositionSpec(_TranspositionFields, Spec):
    """Everything that determines the code of the kernels of `transposition`.

    Attributes:
        algorithm: "gather" or "scatter".
    """

    __slots__ = ()
    module = "kernels/conv/transposition"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Names of the dtypes of all operands: elements are treated as 16-bit words."""
        return ("uint16",)

    def described(self, launch: str) -> str:
        """Return the kernel's description."""
        return "transposed"

    @property
    def access_bytes(self) -> int:
        """Width of the widest access."""
        return 2 * WINDOW_LANES

    @property
    def launch_bounds(self) -> tuple[int, int]:
        """Threads of a block, and how many blocks fit on a multiprocessor."""
        return TRANSPOSITION_THREADS, 10
