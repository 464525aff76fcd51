"""The specs of the kernels that make random numbers."""

from __future__ import annotations

from typing import NamedTuple

from ...base.dtypes import TABLE
from ...runtime.launch_order import Spec

#: Words of scalar arguments of a kernel of `draws`; halves of its formula's parameters, which are constant.
DRAW_WORDS, HALVES = 2, 8
#: The 64-bit words of a position on the GPU: the seed, the current draw's first output, and the next unused output.
SEED, START, NEXT, POSITION_WORDS = 0, 1, 2, 3


class _DrawFields(NamedTuple):
    source: str
    formula: str
    words: int
    dtype: str
    dense: bool
    rank: int
    access_bytes: int
    groups: int
    positioned: bool = False


class DrawSpec(_DrawFields, Spec):
    """Everything that determines the code of a kernel that makes random numbers.

    Attributes:
        source: the source of words: "philox"; "philox in turns", in the order of cuRAND's float64 normals; "memory".
        formula: a key of `draws.FORMULAS` or `draws.GROUP_FORMULAS`.
        words: 32-bit words per value.
        dtype: name of the result's dtype; for integers, the unsigned dtype of the same size.
        dense: True if the result is C-contiguous.
        rank: dimensions of the result, at least 1.
        access_bytes: width of one store.
        groups: groups of four words that one thread makes, an even number.
        positioned: True if the kernel reads the seed and its first output from a position on the GPU.
    """

    __slots__ = ()
    module = "kernels/random/draws"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Names of the dtypes of all operands."""
        return (self.dtype,)

    @property
    def needs_alignment(self) -> bool:
        """True if stores are wider than an element, so that the result should be aligned."""
        return self.access_bytes > TABLE[self.dtype].itemsize


class _AdvanceFields(NamedTuple):
    algorithm: str = "advance"


class AdvanceSpec(_AdvanceFields, Spec):
    """The kernel that advances a position on the GPU to the next draw: see `position`."""

    __slots__ = ()
    module = "kernels/random/position"


def groups_of(formula: str, words: int) -> int:
    """Return `DrawSpec.groups`, measured on an H200: more if arithmetic takes longer than memory."""
    return 4 if words == 2 and formula in ("normal", "lognormal", "integers", "few_integers") else 2
