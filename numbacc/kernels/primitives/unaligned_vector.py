"""Loads and stores of runs of small elements at any alignment, in 32-bit accesses, as LLVM code.

See `operands.operands`. A run of four bytes spans two adjacent words unless it is aligned. Each word is loaded once, by
the thread whose run begins in it. A thread gets the other word of its run from its neighbor by a shuffle, and shifts
the two. Words at both ends of an array may contain bytes of other arrays; memory is readable in whole words. To store a
run, a thread gets the part of its word that belongs to the previous run from the thread that holds it. Elements of four
or more bytes are always aligned, and are loaded and stored one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base._numba import intrinsic, ir, types
from ...runtime.launch_order import WARP
from . import formats
from .formats import I32, I64
from .instructions import assembly
from .load_store import (
    aggregate,
    behind,
    bits_at,
    lane_address,
    lanes_type,
    place_of,
    pointer_to,
    resized,
    row_of,
    store_one,
    under_way,
)

_WORD = 4


def _is_word(operand: Any, width: int) -> bool:
    """Return True if a run is a word of several elements."""
    return width > 1 and width * operand.dtype.itemsize == _WORD


def _parts(builder: Any, args: Any, k: int, operand: Any) -> tuple[Any, Any, Any]:
    """Return (address, its bytes after the start of a word, that word's address) of operand k's first run.

    Runs are moved by whole words, so the second item can be computed before.
    """
    address, itemsize = place_of(builder, args, k, operand), operand.itemsize
    beyond = builder.and_(builder.trunc(address, I32), I32(_WORD - 1))
    aligned = builder.and_(address, I64(-_WORD))
    return (behind(builder, address, args[2], 1, itemsize), beyond, behind(builder, aligned, args[2], 1, itemsize))


def _load_word(builder: Any, address: Any) -> Any:
    return builder.load(pointer_to(builder, address, I32), align=_WORD)


def _middle(builder: Any, low: Any, high: Any, nbytes: Any) -> Any:
    """Return four of the eight bytes of two words, after the first `nbytes`, at most three."""
    bits = builder.shl(nbytes, I32(3))
    return assembly(builder, I32, "shf.r.wrap.b32 $0, $1, $2, $3;", "=r,r,r,r", [low, high, bits])


def _vector(builder: Any, word: Any) -> Any:
    return builder.insert_element(ir.Constant(ir.VectorType(I32, 1), ir.Undefined), word, I32(0))


def from_thread(builder: Any, word: Any, source: Any) -> Any:
    """Return the word of another thread of the warp; all threads must call this."""
    kind = ir.FunctionType(I32, [I32, I32])
    # Side effects keep the compiler from moving it to a branch that only some threads enter.
    code = ir.InlineAsm(kind, "shfl.sync.idx.b32 $0, $1, $2, 31, -1;", "=r,r,r", side_effect=True)
    return builder.call(code, [word, source], attrs=("convergent",))


def _shifted(
    builder: Any, words: Sequence[Any], nbytes: Any, is_first: Any, next_thread: Any, skips: bool
) -> list[Any]:
    """Return the words `nbytes` after the starts of these words; the next thread of the warp holds their ends.

    The ends for the last thread are in the first thread's next word. If `skips`, aligned words are not shifted.
    """
    given = words[:-1]

    def shift() -> list[Any]:
        ends = [
            from_thread(builder, builder.select(is_first, words[run + 1], word), next_thread)
            for run, word in enumerate(given)
        ]
        return [_middle(builder, word, end, nbytes) for word, end in zip(given, ends, strict=True)]

    if not skips:
        return shift()
    before = builder.block
    # The branch is uniform: all threads of a warp have the same alignment.
    with builder.if_then(builder.icmp_unsigned("!=", nbytes, I32(0))):
        moved = shift()
        after = builder.block
    found = []
    for word, other in zip(given, moved, strict=True):
        either = builder.phi(I32)
        either.add_incoming(word, before)
        either.add_incoming(other, after)
        found.append(either)
    return found


def make_uneven(rows: Sequence[Any], lanes: int, width: int) -> dict[str, Any]:
    """Return `load_uneven` and `store_uneven`: elements of each operand, in runs of `width` that start anywhere."""
    found = _make(rows, lanes, width, _is_word)
    for name, twin in _make(rows, lanes, width, _never).items():
        found[name].numbacc_twin = twin
    return found


def _never(operand: Any, width: int) -> bool:
    """Replace `_is_word` where threads exchange nothing, as in the compiled simulator."""
    return False


def _make(rows: Sequence[Any], lanes: int, width: int, _is_word: Callable[[Any, int], bool]) -> dict[str, Any]:
    """Return `make_uneven`. `_is_word` says which runs threads combine from words."""
    runs = lanes // width

    @intrinsic
    def load_uneven(typing: Any, addresses: Any, at: Any, moved: Any, step: Any, thread: Any) -> Any:
        result = lanes_type(rows, len(addresses), lanes)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            number = resized(builder, args[4], I32)
            is_first = builder.icmp_unsigned("==", number, I32(0))
            behind_it = builder.and_(builder.add(number, I32(1)), I32(WARP - 1))
            bits: dict[Any, Any] = {}
            words: dict[int, tuple[Any, list[Any]]] = {}
            # With more operands, the values that both branches share do not fit into registers.
            few = len(addresses) <= 2
            for k in range(len(addresses)):
                operand = row_of(rows, k)
                itemsize = operand.itemsize
                address, beyond, aligned = _parts(builder, args, k, operand)
                if operand.repeated:
                    number = bits_at(builder, operand, place_of(builder, args, k, operand))
                    bits |= {(k, lane): number for lane in range(lanes)}
                elif _is_word(operand, width):
                    starts = [behind(builder, aligned, args[3], run, itemsize) for run in range(runs + 1)]
                    # A warp needs only the first of the words after the runs, and only if the runs are not aligned.
                    is_needed = builder.and_(is_first, builder.icmp_unsigned("!=", beyond, I32(0)))
                    last = builder.select(is_needed, builder.sub(starts[runs], aligned), I64(0))
                    starts[runs] = builder.add(aligned, last)
                    words[k] = beyond, [_load_word(builder, start) for start in starts]
                else:
                    for lane in range(lanes):
                        there = lane_address(builder, address, args[3], lane, width, itemsize)
                        bits[k, lane] = bits_at(builder, operand, there)
            under_way(builder, [*bits.values(), *(word for _, loaded in words.values() for word in loaded)])
            items = {at: formats.widen(context, builder, row_of(rows, at[0]), found) for at, found in bits.items()}
            for k, (beyond, loaded) in words.items():
                for run, word in enumerate(_shifted(builder, loaded, beyond, is_first, behind_it, few)):
                    for j, found in enumerate(
                        formats.unpack(context, builder, row_of(rows, k), _vector(builder, word))
                    ):
                        items[k, run * width + j] = found
            return aggregate(context, builder, result, items)

        return result(addresses, at, moved, step, thread), generate

    @intrinsic
    def store_uneven(typing: Any, addresses: Any, at: Any, moved: Any, step: Any, values: Any, thread: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            number = resized(builder, args[5], I32)
            is_first = builder.icmp_unsigned("==", number, I32(0))
            is_last = builder.icmp_unsigned("==", number, I32(WARP - 1))
            before = builder.and_(builder.sub(number, I32(1)), I32(WARP - 1))
            for k, kind in enumerate(values):
                operand = row_of(rows, k)
                itemsize = operand.itemsize
                address, beyond, aligned = _parts(builder, args, k, operand)
                numbers = [builder.extract_value(args[4], (k, lane)) for lane in range(lanes)]

                def put(
                    lane: int, operand: Any = operand, kind: Any = kind, numbers: Any = numbers, address: Any = address
                ) -> None:
                    bits = formats.narrow(context, builder, operand.dtype, kind.dtype, numbers[lane])
                    there = lane_address(builder, address, args[3], lane, width, operand.dtype.itemsize)
                    store_one(builder, operand, there, bits)  # fmt: skip

                if not _is_word(operand, width):
                    for lane in range(lanes):
                        put(lane)
                    continue
                words = []
                for run in range(runs):
                    part = numbers[run * width : (run + 1) * width]
                    vector = formats.pack(context, builder, operand.dtype, kind.dtype, part)
                    words.append(builder.extract_element(vector, I32(0)))
                targets = [pointer_to(builder, behind(builder, aligned, args[3], run, itemsize), I32)
                           for run in range(runs)]  # fmt: skip
                # The branch is uniform: all threads of a warp have the same alignment.
                with builder.if_else(builder.icmp_unsigned("==", beyond, I32(0))) as (is_aligned, is_shifted):
                    with is_aligned:
                        for word, target in zip(words, targets, strict=True):
                            builder.store(word, target, align=_WORD)
                    with is_shifted:
                        room = builder.sub(I32(_WORD), beyond)
                        for run, (word, target) in enumerate(zip(words, targets, strict=True)):
                            # The first thread's word begins with the end of the last thread's previous run.
                            given = builder.select(is_last, words[run - 1], word) if run else word
                            shifted = _middle(builder, from_thread(builder, given, before), word, room)
                            if run:
                                builder.store(shifted, target, align=_WORD)
                                continue
                            with builder.if_then(builder.not_(is_first)):
                                builder.store(shifted, target, align=_WORD)
                        # The elements at both ends share a word with elements of other warps.
                        for j in range(width):
                            is_head = builder.icmp_unsigned("<", I32(j * itemsize), room)
                            if j < width - 1:
                                with builder.if_then(builder.and_(is_first, is_head)):
                                    put(j)
                            if j:
                                with builder.if_then(builder.and_(is_last, builder.not_(is_head))):
                                    put(lanes - width + j)
            return context.get_dummy_value()

        return types.void(addresses, at, moved, step, values, thread), generate

    return {"load_uneven": load_uneven, "store_uneven": store_uneven}
