"""Gathers of 16-bit elements from arbitrary addresses, with 0 for missing ones, and the opposite: scatters.

A gather ends with a single store, and a scatter begins with a single load.

In Numba's simulator the same names are plain Python.
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import SIMULATED
from ...base.dtypes import TABLE

if SIMULATED:
    from .simulated import _element
else:
    from ...base._numba import intrinsic, ir, types
    from .formats import I16, I32, I64
    from .instructions import assembly
    from .load_store import aggregate, pointer_to, resized

__all__ = ["gathering"]


@lru_cache(maxsize=16)
def gathering(lanes: int) -> SimpleNamespace:
    """Return the intrinsics that move this many 16-bit elements of any dtype.

    Returns:
        a namespace of
        ``gather(address, offsets, places, first, limit)``: the elements at these offsets from an address, in words of
        two. Element k is 0, and is not read, unless 0 <= first + places[k] < limit;
        ``put(address, words)``: store the words to memory in one access;
        ``take(address)``: load words from memory in one access, through the cache for data that no kernel writes;
        ``scatter(address, offsets, words)``: store the elements at these offsets from an address.
    """
    return SimpleNamespace(**make_gathering(lanes))


if SIMULATED:

    def make_gathering(lanes: int) -> dict[str, Any]:
        """Return the functions of `gathering`, where elements replace the words of two."""
        element = TABLE["uint16"]

        def gather(address: int, offsets: Any, places: Any, first: int, limit: int) -> Any:
            found = np.zeros(lanes, np.uint16)
            for k, place in enumerate(places):
                if 0 <= first + int(place) < limit:
                    found[k] = _element(address, int(offsets[k]), element, 1)[0]
            return found

        def put(address: int, words: Any) -> None:
            _element(address, 0, element, lanes, True)[...] = words

        def take(address: int) -> Any:
            return np.array(_element(address, 0, element, lanes))

        def scatter(address: int, offsets: Any, words: Any) -> None:
            for k, offset in enumerate(offsets):
                _element(address, int(offset), element, 1, True)[0] = words[k]

        return {"gather": gather, "put": put, "take": take, "scatter": scatter}

else:

    def make_gathering(lanes: int) -> dict[str, Any]:
        count = lanes // 2

        @intrinsic
        def gather(typing: Any, address: Any, offsets: Any, places: Any, first: Any, limit: Any) -> Any:
            result = types.UniTuple(types.uint32, count)
            # Predicated loads instead of branches, so that all loads are in flight at once.
            text = "{.reg .pred %p0;\n\t.reg .b64 %rd0;\n\tsetp.lt.u32 %p0, $3, $4;\n\tmad.wide.s32 %rd0, $2, 2, $1;"
            text += "\n\tmov.b16 $0, 0;\n\t@%p0 ld.global.nc.b16 $0, [%rd0];\n\t}"

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                top, length = (resized(builder, each, I32) for each in args[3:])
                found = []
                for lane in range(lanes):
                    offset, place = (resized(builder, builder.extract_value(each, lane), I32) for each in args[1:3])
                    given = [args[0], offset, builder.add(top, place), length]
                    found.append(assembly(builder, I16, text, "=&h,l,r,r,r", given, "readnone"))
                words = {
                    k: assembly(builder, I32, "mov.b32 $0, {$1, $2};", "=r,h,h", found[2 * k : 2 * k + 2])
                    for k in range(count)
                }
                return aggregate(context, builder, result, words)

            return result(address, offsets, places, first, limit), generate

        @intrinsic
        def put(typing: Any, address: Any, words: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                vector = ir.Constant(ir.VectorType(I32, count), ir.Undefined)
                for k in range(count):
                    vector = builder.insert_element(vector, builder.extract_value(args[1], k), I32(k))
                builder.store(vector, pointer_to(builder, args[0], vector.type), align=4 * count)
                return context.get_dummy_value()

            return types.void(address, words), generate

        @intrinsic
        def take(typing: Any, address: Any) -> Any:
            result = types.UniTuple(types.uint32, count)
            names = ", ".join(f"${k}" for k in range(count))
            text = f"ld.global.nc.v{count}.b32 {{{names}}}, [${count}];"

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                kind = ir.FunctionType(ir.LiteralStructType([I32] * count), [args[0].type])
                call = ir.InlineAsm(kind, text, ",".join(["=r"] * count + ["l"]))
                found = builder.call(call, [args[0]], attrs=("readnone",))
                return aggregate(context, builder, result, {k: builder.extract_value(found, k) for k in range(count)})

            return result(address), generate

        @intrinsic
        def scatter(typing: Any, address: Any, offsets: Any, words: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                for lane in range(lanes):
                    offset = resized(builder, builder.extract_value(args[1], lane), I64)
                    there = builder.add(args[0], builder.mul(offset, I64(2)))
                    word = builder.extract_value(args[2], lane // 2)
                    half = builder.trunc(builder.lshr(word, I32(16 * (lane % 2))), I16)
                    builder.store(half, pointer_to(builder, there, I16), align=2)
                return context.get_dummy_value()

            return types.void(address, offsets, words), generate

        return {"gather": gather, "put": put, "take": take, "scatter": scatter}
