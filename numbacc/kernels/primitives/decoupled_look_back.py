"""Words in memory through which blocks of a running kernel publish partial results to each other.

A 64-bit word holds 32 bits of a number and, above them, a flag that they are valid. A word is written and read at once,
so the words need neither an order nor a fence. Words are 0 before the kernel starts.

A block that waits for another must not prevent it from starting. Therefore blocks take tickets when they start, and
wait only for blocks with lower tickets. In Numba's simulator, which runs one block after the other, the same names are
plain Python.

Source: Merrill and Garland 2016, "Single-pass parallel prefix scan with decoupled look-back".
"""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import SIMULATED, cuda, types
from ...base.dtypes import TABLE
from ..specs import HEAD_BYTES, words_told

if SIMULATED:
    from .simulated import _element
else:
    from ...base._numba import intrinsic, ir
    from .formats import I32, I64, number_of_registers, register_words
    from .instructions import assembly
    from .load_store import resized

__all__ = ["take_ticket", "telling"]

#: Nanoseconds between two polls.
_PAUSE = 64


def telling(parts: SimpleNamespace, lanes: int) -> SimpleNamespace:
    """Return the functions for partial results of this many lanes, in rows of `count` results.

    Returns:
        a namespace of
        ``tell(address, row, count, place, parts)``: publish partial results at this place, after the head;
        ``look(address, row, count, place)``: wait for the partial results at this place and return them;
        ``ask(address, row, count, place)``, ``wait(address, row, count, place, asked)``: the same in two steps;
        ``clear(address, row, count, place)``: reset this place to 0.
    """
    read, tell, clear = make_telling(parts, lanes)

    def wait(address, row, count, place, asked):
        while not asked[1]:
            # Without a pause, waiting threads would compete with working ones for the cache.
            cuda.nanosleep(_PAUSE)
            asked = read(address, row, count, place)
        return asked[0]

    waited = cuda.jit(device=True)(wait)

    def look(address, row, count, place):
        return waited(address, row, count, place, read(address, row, count, place))

    return SimpleNamespace(tell=tell, look=cuda.jit(device=True)(look), ask=read, wait=waited, clear=clear)


def _counts(parts: SimpleNamespace) -> list[int]:
    """Return how many 32-bit words each partial result of a lane needs."""
    return [-(-np.dtype(name).itemsize // 4) for name in parts.names]


if SIMULATED:

    def take_ticket(address: Any) -> int:
        """Return the counter at an address and increment it."""
        cell = _element(address, 0, TABLE["int32"], 1, True)
        cell[0] += 1
        return int(cell[0]) - 1

    def make_telling(parts: SimpleNamespace, lanes: int) -> tuple[Any, Any, Any]:
        """Return the functions of `telling`."""
        tools, dtypes, counts = parts.tools, [np.dtype(name) for name in parts.names], _counts(parts)
        there, each = np.uint64(1 << 32), lanes * sum(counts)

        def words_at(address: int, row: int, count: int, place: int, is_written: bool) -> Any:
            # Places follow the two words of the head.
            first = 2 + (row * count + place) * each
            return iter([_element(address, first + k, TABLE["uint64"], 1, is_written) for k in range(each)])

        def read(address: int, row: int, count: int, place: int) -> Any:
            words, numbers = words_at(address, row, count, place, False), []
            for _ in range(lanes):
                lane = []
                for dtype, many in zip(dtypes, counts, strict=True):
                    found = np.array([next(words)[0] for _ in range(many)])
                    # Blocks run one after the other: words that are missing now would never arrive.
                    if not (found & there).all():
                        raise RuntimeError("a block waits for one that has not started")
                    lane.append(found.astype(np.uint32).view(np.uint8)[: dtype.itemsize].view(dtype)[0])
                numbers.append(tuple(lane))
            return tools.by_part(numbers), True

        def tell(address: int, row: int, count: int, place: int, given: Any) -> None:
            words = words_at(address, row, count, place, True)
            for numbers in tools.by_lane(given):
                for number, dtype, many in zip(numbers, dtypes, counts, strict=True):
                    bits = np.zeros(4 * many, np.uint8)
                    bits[: dtype.itemsize] = np.asarray(number, dtype).reshape(1).view(np.uint8)
                    for half in bits.view(np.uint32):
                        next(words)[0] = np.uint64(half) | there

        def clear(address: int, row: int, count: int, place: int) -> None:
            for word in words_at(address, row, count, place, True):
                word[0] = 0

        return read, tell, clear

else:
    #: Keeps the compiler from moving memory accesses across the instruction.
    _ORDERED = "~{memory}"
    #: The flag above a number's 32 bits.
    _THERE = 1 << 32

    @intrinsic
    def take_ticket(typing: Any, address: Any) -> Any:
        """Return the counter at an address and increment it atomically."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            text = "atom.relaxed.gpu.global.add.u32 $0, [$1], 1;"
            return assembly(builder, I32, text, f"=r,l,{_ORDERED}", [args[0]], "convergent")

        return types.int32(address), generate

    def make_telling(parts: SimpleNamespace, lanes: int) -> tuple[Any, Any, Any]:
        tools, each, counts = parts.tools, words_told(parts.names, lanes), _counts(parts)
        # Access two words at once if all places start at multiples of 16 bytes.
        pair = 2 if each % 2 == 0 else 1
        pairs = range(0, each, pair)

        def start(builder: Any, args: Any) -> Any:
            row, count, place = (resized(builder, each, I64) for each in args[1:4])
            index = builder.add(builder.mul(row, count), place)
            return builder.add(args[0], builder.add(I64(HEAD_BYTES), builder.mul(index, I64(8 * each))))

        @intrinsic
        def read(typing: Any, address: Any, row: Any, count: Any, place: Any) -> Any:
            result = types.Tuple([tools.parts_type(lanes), types.boolean])

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                first, words = start(builder, args), []
                for k in pairs:
                    given = [builder.add(first, I64(8 * k))]
                    if pair == 1:
                        text, many = "ld.relaxed.gpu.global.u64 $0, [$1];", I64
                        words.append(assembly(builder, many, text, f"=l,l,{_ORDERED}", given, "convergent"))
                        continue
                    text, many = "ld.relaxed.gpu.global.v2.u64 {$0, $1}, [$2];", ir.LiteralStructType([I64, I64])
                    both = assembly(builder, many, text, f"=l,=l,l,{_ORDERED}", given, "convergent")
                    words += [builder.extract_value(both, j) for j in range(2)]
                seen = I64(_THERE)
                for word in words:
                    seen = builder.and_(seen, word)
                halves = iter([builder.trunc(word, I32) for word in words])
                kinds = [context.get_value_type(kind.dtype) for kind in tools.parts_type(lanes)]
                found = [
                    [
                        number_of_registers(builder, list(islice(halves, many)), kind)
                        for kind, many in zip(kinds, counts, strict=True)
                    ]
                    for _ in range(lanes)
                ]
                both = ir.Constant(context.get_value_type(result), ir.Undefined)
                both = builder.insert_value(both, tools.packed(context, builder, found), 0)
                is_there = builder.icmp_unsigned("!=", seen, I64(0))
                return builder.insert_value(both, is_there, 1)

            return result(address, row, count, place), generate

        @intrinsic
        def tell(typing: Any, address: Any, row: Any, count: Any, place: Any, parts: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                numbers = [number for lane in tools.unpacked(builder, args[4], lanes) for number in lane]
                halves = [half for number in numbers for half in register_words(builder, number)]
                put(builder, args, [builder.or_(builder.zext(half, I64), I64(_THERE)) for half in halves])
                return context.get_dummy_value()

            return types.void(address, row, count, place, parts), generate

        def put(builder: Any, args: Any, words: list[Any]) -> None:
            first = start(builder, args)
            for k in pairs:
                given = [builder.add(first, I64(8 * k)), *words[k : k + pair]]
                text = ("st.relaxed.gpu.global.u64 [$0], $1;", "st.relaxed.gpu.global.v2.u64 [$0], {$1, $2};")
                letters = ",".join(["l"] * len(given))
                assembly(builder, ir.VoidType(), text[pair - 1], f"{letters},{_ORDERED}", given, "convergent")

        @intrinsic
        def clear(typing: Any, address: Any, row: Any, count: Any, place: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                put(builder, args, [I64(0)] * each)
                return context.get_dummy_value()

            return types.void(address, row, count, place), generate

        return read, tell, clear
