"""The description of a kernel that converts arrays to and from the layout of a Fourier transform."""

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
    """All that decides the code of a kernel of `repack`.

    Attributes:
        algorithm: "straight", "tiled" or "hermitian".
        source, target: names of the dtypes of the arrays' numbers; a complex number is two of them.
        source_parts, target_parts: 1 where an array is real, 2 where it is complex.
        source_bytes, target_bytes: width of one load or store.
        lanes: neighbouring elements that are taken together.
        pieces: how many times so many one thread of `straight` takes.
        scale: what values are multiplied with: "" for nothing, a key of `layout.SCALES`.
        conjugate: whether imaginary parts change their sign.
        padded: whether the target is longer than the source somewhere, and zero there.
        rank: dimensions; of `tiled` at least 3.
        wide: as in `KernelSpec`.
        ends: where imaginary parts are dropped: (the halved dimension, 1 for its first element, 2 for both), or empty.
    """

    __slots__ = ()
    module = "kernels/fft/layout"

    def described(self, launch: str) -> str:
        """As in `Spec`."""
        return self.algorithm

    @property
    def needs_alignment(self) -> bool:
        """As in `KernelSpec`."""
        return self.source_bytes > TABLE[self.source].itemsize or self.target_bytes > TABLE[self.target].itemsize
