"""Rows of 16-bit floats that a thread keeps as words of two, which take half the registers that their numbers do.

Numbers are made of them anew wherever they are needed. In Numba's simulator the same names are plain Python.
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from ...base._numba import SIMULATED, types
from ...base.dtypes import TABLE
from ..primitives.operands import Operand
from .spec import RowSpec

if SIMULATED:
    from .simulated import make_words
else:
    from ...base._numba import intrinsic, ir
    from ..primitives import packed_16bit
    from ..primitives.formats import I32
    from ..primitives.load_store import address_of, aggregate, lanes_type, pointer_to

__all__ = ["in_words"]


@lru_cache(maxsize=256)
def in_words(spec: RowSpec) -> SimpleNamespace:
    """The intrinsics of a kernel's one input, of whose rows a thread has `spec.runs` accesses.

    Returns:
        a namespace of
        ``words(addresses, at)``: the words, given for each run the offsets into all inputs;
        ``numbers(words)``: the numbers in them, as `load_store.keeping`'s ``first`` returns them;
        ``largest(words, inside)``: two numbers of which the larger one, or a NaN, is the largest of those of the runs
        that are inside: one truth value for each, or one for all.
    """
    operand = Operand(TABLE[spec.reads[0]], spec.compute, spec.width, False)
    return SimpleNamespace(**make_words(spec, operand))


if not SIMULATED:

    def make_words(spec: Any, operand: Any) -> dict[str, Any]:
        each, runs, pair = spec.access_bytes // 4, spec.runs, packed_16bit.PAIRS[spec.reads[0]]

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
                    bits = builder.load(pointer, align=spec.access_bytes)
                    items |= {run * each + k: builder.extract_element(bits, I32(k)) for k in range(each)}
                return aggregate(context, builder, kind, items)

            return kind(addresses, at), generate

        @intrinsic
        def numbers(typing: Any, words: Any) -> Any:
            kind = lanes_type([operand], 1, runs * spec.width)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                found = packed_16bit.numbers_in(context, builder, operand, all_of(builder, args[0]), each)
                return aggregate(context, builder, kind, {(0, k): number for k, number in enumerate(found)})

            return kind(words), generate

        @intrinsic
        def largest(typing: Any, words: Any, inside: Any) -> Any:
            kind, parts = lanes_type([operand], 1, 2), len(inside)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                def larger_pair(one: Any, other: Any) -> Any:
                    return packed_16bit.extreme(builder, pair, "max", one, other)

                def larger(one: Any, other: Any) -> Any:
                    own = builder.or_(builder.fcmp_ordered(">", one, other), builder.fcmp_unordered("uno", one, one))
                    return builder.select(own, one, other)

                found, has_pairs = all_of(builder, args[0]), packed_16bit.have_extremes()
                share, every = len(found) // parts, []
                for part in range(parts):
                    own, is_in = found[part * share : (part + 1) * share], builder.extract_value(args[1], part)
                    own = [packed_16bit.tree(larger_pair, own)] if has_pairs else own
                    every += [builder.select(is_in, word, I32(pair.lowest)) for word in own]
                if has_pairs:
                    two = packed_16bit.numbers_in(
                        context, builder, operand, [packed_16bit.tree(larger_pair, every)], each
                    )
                else:
                    numbers = packed_16bit.numbers_in(context, builder, operand, every, each)
                    two = [packed_16bit.tree(larger, numbers[k::2]) for k in range(2)]
                return aggregate(context, builder, kind, {(0, k): number for k, number in enumerate(two)})

            return kind(words, inside), generate

        return {"words": words, "numbers": numbers, "largest": largest}
