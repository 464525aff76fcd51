"""Operations on pairs of 16-bit floats, in the 32-bit words that they are loaded in: half an instruction per element.

Words take half the registers of unpacked numbers, so they are unpacked again wherever they are needed. In Numba's
simulator the intrinsics are plain Python, and numbers replace words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ...base._numba import SIMULATED
from ...base.dtypes import TABLE
from .operands import Operand

if SIMULATED:
    from .runs import numbers_at
else:
    from ...base._numba import capability_compiled_for, intrinsic, ir, types
    from . import formats
    from .formats import I32
    from .instructions import assembly
    from .load_store import address_of, aggregate, lanes_type, pointer_to


class Pair(NamedTuple):
    """Two floats of a dtype in a word.

    Attributes:
        name: the dtype's name in instructions.
        lowest: a pair of negative infinities.
        compared_from: the first compute capability with an instruction that compares two pairs.
    """

    name: str
    lowest: int
    compared_from: tuple[int, int]


PAIRS = {"float16": Pair("f16x2", 0xFC00FC00, (5, 3)), "bfloat16": Pair("bf16x2", 0xFF80FF80, (9, 0))}
#: The first compute capability with an instruction for the elementwise maximum of two pairs that propagates NaN.
_EXTREMES_FROM = (8, 0)


@lru_cache(maxsize=256)
def in_words(name: str, compute: str, width: int, runs: int) -> SimpleNamespace:
    """Return the intrinsics for an array of 16-bit floats, for `runs` accesses of `width` elements per thread.

    Returns:
        a namespace of
        ``words(addresses, at)``: the words, given the offset for each run, possibly followed by other offsets;
        ``numbers(words)``: the numbers in them, of dtype `compute`, as a tuple for the one array;
        ``largest(words, inside)``: two numbers, the larger of which (or a NaN) is the largest of the runs that are
        inside; `inside` has one bool for each run, or one for all.
    """
    return SimpleNamespace(**make_words(Operand(TABLE[name], compute, width, False), width, runs))


if SIMULATED:

    def make_words(operand: Any, width: int, runs: int) -> dict[str, Any]:
        """Return the functions of `in_words`."""

        def words(addresses: Any, at: Any) -> Any:
            return tuple([n for offsets in at for n in numbers_at(operand, addresses[0], offsets[0], width, False)])

        def largest(words: Any, inside: Any) -> Any:
            each = len(words) // len(inside)
            own = [n if inside[k // each] else np.float32(-np.inf) for k, n in enumerate(words)]
            return ((np.max(own[::2]), np.max(own[1::2])),)

        return {"words": words, "numbers": lambda words: (words,), "largest": largest}

else:

    def have_extremes() -> bool:
        """Return whether the target GPU has the instruction of `extreme`."""
        return capability_compiled_for() >= _EXTREMES_FROM

    def are_compared(pair: Pair) -> bool:
        """Return whether the target GPU has the instructions of `extreme` and `compared`."""
        return have_extremes() and capability_compiled_for() >= pair.compared_from

    def extreme(builder: Any, pair: Pair, which: str, one: Any, other: Any) -> Any:
        """Return the elementwise maximum or minimum (`which`) of two pairs; NaN if either element is NaN."""
        return assembly(builder, I32, f"{which}.NaN.{pair.name} $0, $1, $2;", "=r,r,r", [one, other], "readnone")

    def compared(builder: Any, pair: Pair, how: str, one: Any, other: Any) -> Any:
        """Return a mask of the halves of two pairs that are equal ("eq"), or where one is NaN ("nan")."""
        return assembly(builder, I32, f"set.{how}.u32.{pair.name} $0, $1, $2;", "=r,r,r", [one, other], "readnone")

    def turned(builder: Any, word: Any) -> Any:
        """Return a word with its halves exchanged."""
        return assembly(builder, I32, "prmt.b32 $0, $1, $1, 0x1032;", "=r,r", [word], "readnone")

    def first_bit(builder: Any, word: Any) -> Any:
        """Return how many bits precede the highest one that is set; undefined for 0."""
        return assembly(builder, I32, "bfind.shiftamt.u32 $0, $1;", "=r,r", [word], "readnone")

    def tree(merge: Callable[[Any, Any], Any], items: Sequence[Any]) -> Any:
        """Return the items merged in a tree, branch by branch."""
        return items[0] if len(items) == 1 else merge(tree(merge, items[::2]), tree(merge, items[1::2]))

    def anew(builder: Any, words: Sequence[Any]) -> list[Any]:
        """Return copies of words that the compiler treats as new values, so that it does not reuse results."""
        return [assembly(builder, I32, "mov.b32 $0, $1;", "=r,r", [word]) for word in words]

    def numbers_in(context: Any, builder: Any, operand: Operand, words: Sequence[Any], each: int) -> list[Any]:
        """Return an operand's numbers from words that were loaded in accesses of `each` words."""
        found = []
        for start in range(0, len(words), each):
            own = words[start : start + each]
            vector = ir.Constant(ir.VectorType(I32, len(own)), ir.Undefined)
            for k, word in enumerate(own):
                vector = builder.insert_element(vector, word, I32(k))
            access = Operand(operand.dtype, operand.number, 2 * len(own), False)
            found += formats.unpack(context, builder, access, vector)
        return found

    def make_words(operand: Any, width: int, runs: int) -> dict[str, Any]:
        each, pair = width // 2, PAIRS[operand.dtype.name]

        def all_of(builder: Any, words: Any) -> list[Any]:
            return [builder.extract_value(words, k) for k in range(runs * each)]

        @intrinsic
        def words(typing: Any, addresses: Any, at: Any) -> Any:
            kind = types.UniTuple(types.uint32, runs * each)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                items: dict[Any, Any] = {}
                for run in range(runs):
                    offsets = builder.extract_value(args[1], run)
                    address = address_of(builder, (args[0], offsets), 0, operand.dtype.itemsize)
                    pointer = pointer_to(builder, address, ir.VectorType(I32, each))
                    bits = builder.load(pointer, align=2 * width)
                    items |= {run * each + k: builder.extract_element(bits, I32(k)) for k in range(each)}
                return aggregate(context, builder, kind, items)

            return kind(addresses, at), generate

        @intrinsic
        def numbers(typing: Any, words: Any) -> Any:
            kind = lanes_type([operand], 1, runs * width)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                found = numbers_in(context, builder, operand, all_of(builder, args[0]), each)
                return aggregate(context, builder, kind, {(0, k): number for k, number in enumerate(found)})

            return kind(words), generate

        @intrinsic
        def largest(typing: Any, words: Any, inside: Any) -> Any:
            kind, parts = lanes_type([operand], 1, 2), len(inside)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                def larger_pair(one: Any, other: Any) -> Any:
                    return extreme(builder, pair, "max", one, other)

                def larger(one: Any, other: Any) -> Any:
                    own = builder.or_(builder.fcmp_ordered(">", one, other), builder.fcmp_unordered("uno", one, one))
                    return builder.select(own, one, other)

                found, has_pairs = all_of(builder, args[0]), have_extremes()
                share, every = len(found) // parts, []
                for part in range(parts):
                    own, is_in = found[part * share : (part + 1) * share], builder.extract_value(args[1], part)
                    own = [tree(larger_pair, own)] if has_pairs else own
                    every += [builder.select(is_in, word, I32(pair.lowest)) for word in own]
                if has_pairs:
                    two = numbers_in(context, builder, operand, [tree(larger_pair, every)], each)
                else:
                    numbers = numbers_in(context, builder, operand, every, each)
                    two = [tree(larger, numbers[k::2]) for k in range(2)]
                return aggregate(context, builder, kind, {(0, k): number for k, number in enumerate(two)})

            return kind(words, inside), generate

        return {"words": words, "numbers": numbers, "largest": largest}
