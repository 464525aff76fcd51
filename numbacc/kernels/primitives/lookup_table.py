"""A table in shared memory of a function's results, indexed by the 16 bits of its argument, and loads from it.

In Numba's simulator the same names are plain Python.
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import SIMULATED, cuda
from ...base.casts import cast, quietly
from ...base.dtypes import TABLE
from ..specs import PATTERN_BITS
from .operands import Operand

if SIMULATED:
    from .simulated import _element
else:
    from ...base._numba import capability_compiled_for, intrinsic, ir, types
    from . import formats
    from .formats import I16, I32, I64
    from .instructions import assembly, kept_pointer
    from .load_store import address_of, aggregate, lane_address, lanes_type, pointer_to, resized, under_way

__all__ = ["PATTERNS", "tabulating"]

#: Number of table entries.
PATTERNS = 2**PATTERN_BITS


@lru_cache(maxsize=64)
def tabulating(read: str, write: str, compute: str, width: int, pieces: int) -> SimpleNamespace:
    """Return the intrinsics of a table for one array's elements, all of 16 bits.

    Args:
        read, write: names of the dtypes of the array and of the result.
        compute: name of the dtype that elements are converted to.
        width: elements of an access.
        pieces: accesses that a thread makes at once.

    Returns:
        a namespace of
        ``patterns(group)``: the numbers with the bits `width` · group and the next ones, in the format of `map_lanes`;
        ``packed(values)``: the formula's results for them, packed into words for memory;
        ``put(tile, group, words, block)``: store the words to the table of a block of the cluster;
        ``arrive()``, ``wait()``: the two halves of a barrier for all threads of the cluster;
        ``look_up(tile, addresses, at, targets, to, step)``: replace the elements of `pieces` accesses, `step` elements
        apart, by their table entries; all loads are in flight before the first is used;
        ``look_up_element(tile, addresses, at, targets, to)``: the same for one element.
    """
    own, result = Operand(TABLE[read], compute, width, False), Operand(TABLE[write], "", width, False)
    return SimpleNamespace(**make_tabulating(own, result, width, pieces))


if SIMULATED:

    def make_tabulating(read: Any, write: Any, width: int, pieces: int) -> dict[str, Any]:
        """Return the functions of `tabulating`; each block builds its own table."""

        def patterns(group: int) -> Any:
            bits = np.arange(group * width, (group + 1) * width).astype(np.uint16)
            return (tuple(cast(bits.view(read.dtype.numpy), np.dtype(read.number))),)

        def packed(values: Any) -> Any:
            with quietly():
                return cast(np.asarray(values[0]), write.dtype.numpy)

        def put(tile: Any, group: int, results: Any, block: int) -> None:
            start = group * results.nbytes
            tile[start : start + results.nbytes] = results.view(np.uint8)

        def replace(tile: Any, source: tuple[int, int], target: tuple[int, int], count: int) -> None:
            bits = _element(*source, read.dtype, count).view(np.uint16)
            _element(*target, write.dtype, count, True)[...] = tile.view(write.dtype.numpy)[bits]

        def look_up(tile: Any, addresses: Any, at: Any, targets: Any, to: Any, step: int) -> None:
            for start in range(0, pieces * step, step):
                replace(tile, (addresses[0], at[0] + start), (targets[0], to[0] + start), width)

        def look_up_element(tile: Any, addresses: Any, at: Any, targets: Any, to: Any) -> None:
            replace(tile, (addresses[0], at[0]), (targets[0], to[0]), 1)

        @cuda.jit(device=True)
        def meet() -> None:
            cuda.syncthreads()

        return {
            "patterns": patterns,
            "packed": packed,
            "put": put,
            "arrive": meet,
            "wait": meet,
            "look_up": look_up,
            "look_up_element": look_up_element,
        }

else:
    #: Bits of a word, and of an element.
    _WORD_BITS, _HALF_BITS = 32, 16
    #: Shift that turns an element's bits into a byte offset in the table.
    _SHIFT = 1
    _MASK = (PATTERNS - 1) << _SHIFT
    #: The first compute capability with shared memory that a whole cluster can access.
    _CLUSTERS_FROM = (9, 0)

    def _meeting(of_clusters: Any) -> Any:
        """Return one half of a cluster's barrier; a block's full barrier on GPUs without clusters."""

        @intrinsic
        def meet(typing: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                text = of_clusters if capability_compiled_for() >= _CLUSTERS_FROM else "bar.sync 0;"
                assembly(builder, ir.VoidType(), text, "~{memory}", [], "convergent")
                return context.get_dummy_value()

            return types.void(), generate

        meet.numbacc_twin = _met
        return meet

    # In the compiled simulator each block has a table.
    @cuda.jit(device=True)
    def _met():
        cuda.syncthreads()

    def _looked_up(builder: Any, offset: Any) -> Any:
        """Return the table's element at an offset in bytes."""
        return builder.load(kept_pointer(builder, offset, I16), align=2)

    def _replaced(builder: Any, word: Any) -> Any:
        """Return the table's entries for the two elements in a word."""
        low = builder.and_(builder.shl(word, I32(_SHIFT)), I32(_MASK))
        high = builder.and_(builder.lshr(word, I32(_HALF_BITS - _SHIFT)), I32(_MASK))
        first, second = (builder.zext(_looked_up(builder, offset), I32) for offset in (low, high))
        return builder.or_(first, builder.shl(second, I32(_HALF_BITS)))

    def make_tabulating(read: Any, write: Any, width: int, pieces: int) -> dict[str, Any]:
        size = read.dtype.itemsize
        count = width * size * 8 // _WORD_BITS
        words_type, access = types.UniTuple(types.uint32, count), ir.VectorType(I32, count)

        @intrinsic
        def patterns(typing: Any, group: Any) -> Any:
            result = lanes_type((read,), 1, width)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                first = builder.mul(resized(builder, args[0], I32), I32(width))
                pair = builder.or_(first, builder.shl(builder.add(first, I32(1)), I32(_HALF_BITS)))
                vector = ir.Constant(access, ir.Undefined)
                for k in range(count):
                    both = builder.add(pair, I32(2 * k * (1 + (1 << _HALF_BITS))))
                    vector = builder.insert_element(vector, both, I32(k))
                numbers = formats.unpack(context, builder, read, vector)
                return aggregate(context, builder, result, {(0, k): number for k, number in enumerate(numbers)})

            return result(group), generate

        @intrinsic
        def packed(typing: Any, values: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                numbers = [builder.extract_value(args[0], (0, k)) for k in range(width)]
                vector = formats.pack(context, builder, write.dtype, values[0].dtype, numbers)
                items = {k: builder.extract_element(vector, I32(k)) for k in range(count)}
                return aggregate(context, builder, words_type, items)

            return words_type(values), generate

        @intrinsic
        def put(typing: Any, tile: Any, group: Any, words: Any, block: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                offset = builder.mul(resized(builder, args[1], I32), I32(width * size))
                place = kept_pointer(builder, offset, I32)
                found = [builder.extract_value(args[2], k) for k in range(count)]
                names, letters = ", ".join(f"${k + 1}" for k in range(count)), ",r" * count
                space, where = "shared", builder.trunc(builder.ptrtoint(place, I64), I32)
                if capability_compiled_for() >= _CLUSTERS_FROM:
                    given = [where, resized(builder, args[3], I32)]
                    space = "shared::cluster"
                    where = assembly(builder, I32, "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", given)
                text = f"st.{space}.v{count}.b32 [$0], {{{names}}};"
                assembly(builder, ir.VoidType(), text, f"r{letters},~{{memory}}", [where, *found], "convergent")
                return context.get_dummy_value()

            return types.void(tile, group, words, block), generate

        @intrinsic
        def put_here(typing: Any, tile: Any, group: Any, words: Any, block: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                offset = builder.mul(resized(builder, args[1], I32), I32(width * size))
                vector = ir.Constant(access, ir.Undefined)
                for k in range(count):
                    vector = builder.insert_element(vector, builder.extract_value(args[2], k), I32(k))
                builder.store(vector, kept_pointer(builder, offset, access), align=width * size)
                return context.get_dummy_value()

            return types.void(tile, group, words, block), generate

        put.numbacc_twin = put_here

        @intrinsic
        def look_up(typing: Any, tile: Any, addresses: Any, at: Any, targets: Any, to: Any, step: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                first, target = (address_of(builder, args[k : k + 2], 0, size) for k in (1, 3))
                starts = range(0, pieces * width, width)
                loaded = []
                for start in starts:
                    source = lane_address(builder, first, args[5], start, width, size)
                    loaded.append(builder.load(pointer_to(builder, source, access), align=width * size))
                under_way(builder, loaded)
                for start, vector in zip(starts, loaded, strict=True):
                    for k in range(count):
                        word = builder.extract_element(vector, I32(k))
                        vector = builder.insert_element(vector, _replaced(builder, word), I32(k))
                    place = lane_address(builder, target, args[5], start, width, size)
                    builder.store(vector, pointer_to(builder, place, access), align=width * size)
                return context.get_dummy_value()

            return types.void(tile, addresses, at, targets, to, step), generate

        @intrinsic
        def look_up_element(typing: Any, tile: Any, addresses: Any, at: Any, targets: Any, to: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                source, target = (
                    pointer_to(builder, address_of(builder, args[k : k + 2], 0, size), I16) for k in (1, 3)
                )
                bits = builder.zext(builder.load(source, align=size), I32)
                builder.store(_looked_up(builder, builder.shl(bits, I32(_SHIFT))), target, align=size)
                return context.get_dummy_value()

            return types.void(tile, addresses, at, targets, to), generate

        return {
            "patterns": patterns,
            "packed": packed,
            "put": put,
            "arrive": _meeting("barrier.cluster.arrive.release;"),
            "wait": _meeting("barrier.cluster.wait.acquire;"),
            "look_up": look_up,
            "look_up_element": look_up_element,
        }
