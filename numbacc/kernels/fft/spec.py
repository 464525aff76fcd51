"""The spec of a kernel that converts arrays to and from the layout of a Fourier transform."""

from __future__ import annotations

from typing import NamedTuple

from ...base.dtypes import TABLE
from ...runtime.launch_order import Spec


class _RepackFields(NamedTuple):
    algorithm: str
    source: str
    target: str
    source_parts: int
    target_parts: int
    source_bytes: int
    target_bytes: int
    lanes: int
    pieces: int
    scale: str
    conjugate: bool
    padded: bool
    rank: int
    wide: bool
    ends: tuple[int, ...] = ()


class RepackSpec(_RepackFields, Spec):
    """Everything that determines the code of a kernel of `layout`.

    Attributes:
        algorithm: "straight", "tiled" or "hermitian".
        source, target: names of the dtypes of the arrays' numbers; a complex element has two of them.
        source_parts, target_parts: 1 if an array is real, 2 if it is complex.
        source_bytes, target_bytes: width of one load or store.
        lanes: adjacent elements that are handled together.
        pieces: number of such groups for one thread of `straight`.
        scale: the factor of values: "" for none, or a key of `layout.SCALES`.
        conjugate: True if imaginary parts change their sign.
        padded: True if the target is longer than the source along an axis, and zero there.
        rank: number of dimensions, at least 3 for `tiled`.
        wide: as in `KernelSpec`.
        ends: where imaginary parts are dropped: (the halved dimension, 1 for its first element, 2 for both), or empty.
    """

    __slots__ = ()
    module = "kernels/fft/layout"

    def described(self, launch: str) -> str:
        """Return the kernel's description."""
        return self.algorithm

    @property
    def needs_alignment(self) -> bool:
        """True if accesses are wider than a number, so that arrays should be aligned."""
        return self.source_bytes > TABLE[self.source].itemsize or self.target_bytes > TABLE[self.target].itemsize
