"""16-bit floats two by two, in the words of 32 bits that they are loaded in: half an instruction for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...base._numba import capability_compiled_for, ir
from . import formats
from .formats import I32
from .instructions import assembly
from .operands import Operand


class Pair(NamedTuple):
    """Two floats of a dtype in a word.

    Attributes:
        name: what instructions call them.
        lowest: two of the infinity below all numbers.
        compared_from: compute capability from which on an instruction compares two pairs.
    """

    name: str
    lowest: int
    compared_from: tuple[int, int]


PAIRS = {"float16": Pair("f16x2", 0xFC00FC00, (5, 3)), "bfloat16": Pair("bf16x2", 0xFF80FF80, (9, 0))}
#: Compute capability from which on there is an instruction for the larger ones of two pairs, NaN where one is.
_EXTREMES_FROM = (8, 0)


def have_extremes() -> bool:
    """Whether the GPU compiled for has the instruction of `extreme`."""
    return capability_compiled_for() >= _EXTREMES_FROM


def are_compared(pair: Pair) -> bool:
    """Whether the GPU compiled for has the instructions of `extreme` and `compared`."""
    return have_extremes() and capability_compiled_for() >= pair.compared_from


def extreme(builder: Any, pair: Pair, which: str, one: Any, other: Any) -> Any:
    """The larger or the smaller ones of two pairs, `which` "max" or "min"; NaN where one is."""
    return assembly(builder, I32, f"{which}.NaN.{pair.name} $0, $1, $2;", "=r,r,r", [one, other], "readnone")


def compared(builder: Any, pair: Pair, how: str, one: Any, other: Any) -> Any:
    """All bits of the halves of two pairs that compare so: "eq", or "nan" where one is."""
    return assembly(builder, I32, f"set.{how}.u32.{pair.name} $0, $1, $2;", "=r,r,r", [one, other], "readnone")


def turned(builder: Any, word: Any) -> Any:
    """A word with its halves exchanged."""
    return assembly(builder, I32, "prmt.b32 $0, $1, $1, 0x1032;", "=r,r", [word], "readnone")


def first_bit(builder: Any, word: Any) -> Any:
    """How many bits are before the first that is set, the highest one; of 0 anything."""
    return assembly(builder, I32, "bfind.shiftamt.u32 $0, $1;", "=r,r", [word], "readnone")


def tree(merge: Callable[[Any, Any], Any], items: Sequence[Any]) -> Any:
    """Items merged in a tree, branch by branch."""
    return items[0] if len(items) == 1 else merge(tree(merge, items[::2]), tree(merge, items[1::2]))


def anew(builder: Any, words: Sequence[Any]) -> list[Any]:
    """Words of which the compiler does not know that they are the same, nor then what is made of them."""
    return [assembly(builder, I32, "mov.b32 $0, $1;", "=r,r", [word]) for word in words]


def numbers_in(context: Any, builder: Any, operand: Operand, words: Sequence[Any], each: int) -> list[Any]:
    """The numbers of an operand in words, accesses of `each`."""
    found = []
    for start in range(0, len(words), each):
        own = words[start : start + each]
        vector = ir.Constant(ir.VectorType(I32, len(own)), ir.Undefined)
        for k, word in enumerate(own):
            vector = builder.insert_element(vector, word, I32(k))
        access = Operand(operand.dtype, operand.number, 2 * len(own), False)
        found += formats.unpack(context, builder, access, vector)
    return found
