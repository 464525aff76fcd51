"""Loads and stores of several accesses at once, each of consecutive elements.

In Numba's simulator the same names are plain Python. `make_loads(rows, width, runs, index)` returns the intrinsics that
load the operands `rows`: `runs` accesses of `width` consecutive elements of each. `index` is the dtype of their
indices, or "" if the indices are not needed.

    load_runs(addresses, at, step)   elements, given the offsets into all inputs for each run; then their indices: the
                                     last offset, increased by `step` for each lane of a run
    load_words(addresses, at, step)  the same for a 16-bit input, in words of two elements
    load_loose(addresses, at, step)  as `load_runs`, without alignment
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import SIMULATED, types
from ...base.dtypes import TABLE
from .operands import Operand

if SIMULATED:
    from ...base.casts import cast, quietly
    from .simulated import _element

    def numbers_at(operand: Any, address: int, offset: int, width: int, is_loose: bool) -> list[Any]:
        """Return `width` consecutive elements as numbers."""
        if operand.repeated:
            found = [_element(address, offset, operand.dtype, 1)[0]] * width
        else:
            access = 1 if is_loose else operand.access
            parts = [_element(address, offset + start, operand.dtype, access) for start in range(0, width, access)]
            found = [value for part in parts for value in part]
        # Differences of bools are integers, as in compiled code.
        kind = np.dtype("int8" if operand.number == "bool" else operand.number)
        return [cast(value, kind)[()] for value in found]

    def put_numbers(operand: Any, address: int, offset: int, numbers: Sequence[Any]) -> None:
        """Store consecutive numbers, in the operand's accesses."""
        for start in range(0, len(numbers), operand.access):
            target = _element(address, offset + start, operand.dtype, operand.access, True)
            with quietly():
                target[...] = cast(np.asarray(numbers[start : start + operand.access]), target.dtype)

    def make_loads(rows: Sequence[Any], width: int, runs: int, index: str) -> dict[str, Any]:
        def load(addresses: Any, at: Any, step: int, is_loose: bool = False) -> Any:
            found: list[list[Any]] = [[] for _ in range(len(rows) + bool(index))]
            for offsets in at:
                for k, operand in enumerate(rows):
                    found[k] += numbers_at(operand, addresses[k], offsets[k], width, is_loose)
                if index:
                    found[-1] += [np.dtype(index).type(offsets[-1] + lane * step) for lane in range(width)]
            return tuple(map(tuple, found))

        # Elements replace words here.
        return {"load_runs": load, "load_words": load, "load_loose": partial(load, is_loose=True)}

    def make_stores(rows: Sequence[Any], width: int, runs: int) -> Any:
        """Return the function `store_runs` or `store_loose` of `runs_of`."""

        def store(addresses: Any, at: Any, values: Any, left: int, step: int) -> None:
            first = len(values) - len(rows)
            for run in range(runs):
                if run * step <= left:
                    for k, operand in enumerate(rows):
                        numbers = values[first + k][run * width : (run + 1) * width]
                        put_numbers(operand, addresses[k], at[run][k], numbers)

        return store

else:
    from ...base._numba import intrinsic
    from . import formats
    from .formats import I64, numba_type
    from .load_store import address_of, aggregate, lane_address, lanes_type, load_one, pointer_to, resized

    def numbers_of(context: Any, builder: Any, operand: Any, bits: Any, width: int) -> list[Any]:
        """Return the numbers of one access, or of one element."""
        if width == 1:
            return [formats.widen(context, builder, operand, bits)]
        return list(formats.unpack(context, builder, operand, bits))

    def words_at(builder: Any, operand: Any, address: Any, width: int) -> list[Any]:
        """Return the words of `width` consecutive 16-bit elements, loaded in one access."""
        kind = formats.access_type(operand.dtype, width)
        vector = builder.load(pointer_to(builder, address, kind), align=width * operand.dtype.itemsize)
        return [builder.extract_element(vector, formats.I32(k)) for k in range(kind.count)]

    def run_at(context: Any, builder: Any, operand: Any, address: Any, width: int, is_loose: bool) -> list[Any]:
        """Return `width` consecutive elements as numbers."""
        itemsize = operand.dtype.itemsize
        if operand.repeated:
            return [load_one(context, builder, operand, address)] * width
        if is_loose or width == 1:
            lanes = [lane_address(builder, address, I64(0), lane, width, itemsize) for lane in range(width)]
            return [load_one(context, builder, operand, lane) for lane in lanes]
        found, kind = [], formats.access_type(operand.dtype, operand.access)
        for start in range(0, width, operand.access):
            pointer = pointer_to(builder, lane_address(builder, address, I64(0), start, width, itemsize), kind)
            vector = builder.load(pointer, align=operand.access * itemsize)
            found += numbers_of(context, builder, operand, vector, operand.access)
        return found

    def put_run(context: Any, builder: Any, operand: Any, kind: Any, address: Any, numbers: list[Any]) -> None:
        """Store consecutive numbers of Numba's type `kind`, in the operand's accesses."""
        dtype, access = operand.dtype, operand.access
        for start in range(0, len(numbers), access):
            if access == 1:
                bits = formats.narrow(context, builder, dtype, kind, numbers[start])
            else:
                bits = formats.pack(context, builder, dtype, kind, numbers[start : start + access])
            place = builder.add(address, I64(start * dtype.itemsize))
            align = access * dtype.itemsize if access > 1 else dtype.itemsize // dtype.parts
            builder.store(bits, pointer_to(builder, place, bits.type), align=align)

    def make_loads(rows: Sequence[Any], width: int, runs: int, index: str) -> dict[str, Any]:
        def loading(is_loose: bool = False, in_words: bool = False) -> Any:
            @intrinsic
            def load(typing: Any, addresses: Any, at: Any, step: Any) -> Any:
                kinds = list(lanes_type(rows, len(rows), runs * width))
                if in_words:
                    kinds = [types.UniTuple(types.uint32, runs * width // 2)]
                if index:
                    kinds.append(types.UniTuple(numba_type(index), runs * width))
                result = types.Tuple(kinds)

                def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                    items: dict[Any, Any] = {}
                    for run in range(runs):
                        offsets = builder.extract_value(args[1], run)
                        for k, operand in enumerate(rows):
                            address = address_of(builder, (args[0], offsets), k, operand.dtype.itemsize)
                            if in_words:
                                numbers = words_at(builder, operand, address, width)
                            else:
                                numbers = run_at(context, builder, operand, address, width, is_loose)
                            items |= {(k, run * len(numbers) + lane): n for lane, n in enumerate(numbers)}
                        if index:
                            place = builder.extract_value(offsets, len(rows))
                            more = resized(builder, args[2], place.type)
                            for lane in range(width):
                                items[len(rows), run * width + lane] = place
                                place = builder.add(place, more)
                    return aggregate(context, builder, result, items)

                return result(addresses, at, step), generate

            return load

        return {"load_runs": loading(), "load_words": loading(in_words=True), "load_loose": loading(is_loose=True)}

    def make_stores(rows: Sequence[Any], width: int, runs: int) -> Any:
        @intrinsic
        def store(typing: Any, addresses: Any, at: Any, values: Any, left: Any, step: Any) -> Any:
            first = len(values) - len(rows)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                left, step = (resized(builder, each, I64) for each in args[3:])
                for run in range(runs):
                    is_there = builder.icmp_signed("<=", builder.mul(step, I64(run)), left)
                    offsets = builder.extract_value(args[1], run)
                    with builder.if_then(is_there):
                        for k, operand in enumerate(rows):
                            address = address_of(builder, (args[0], offsets), k, operand.dtype.itemsize)
                            places = [(first + k, run * width + j) for j in range(width)]
                            numbers = [builder.extract_value(args[2], place) for place in places]
                            put_run(context, builder, operand, values[first + k].dtype, address, numbers)
                return context.get_dummy_value()

            return types.void(addresses, at, values, left, step), generate

        return store


@lru_cache(maxsize=256)
def runs_of(names: tuple[str, ...], compute: str, width: int, runs: int) -> SimpleNamespace:
    """Return the intrinsics that move `runs` times `width` elements of arrays of these dtypes.

    Returns:
        a namespace of
        ``load_runs(addresses, at, 0)``, ``load_loose(addresses, at, 0)``: as in `make_loads`;
        ``store_runs(addresses, at, values, left, step)``: store the last values, one for each array, given the offsets
        into all arrays for each run; run k is stored only if k step <= left; ``store_loose``: the same without
        alignment.
    """
    aligned, loose = (tuple(Operand(TABLE[name], compute, n, False) for name in names) for n in (width, 1))
    return SimpleNamespace(
        **make_loads(aligned, width, runs, ""),
        store_runs=make_stores(aligned, width, runs),
        store_loose=make_stores(loose, width, runs),
    )
