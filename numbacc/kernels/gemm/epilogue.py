"""The epilogue of a product: it maps 64 columns of a warpgroup's sums at a time and stores the results.

`finish(spec)` returns a device function. It is generated as text, since operands and results vary in number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base._numba import SIMULATED, cuda
from ..primitives.device import (
    bar_sync,
    cp_async_bulk_commit_group,
    cp_async_bulk_wait_group_read,
    fence_proxy_async,
    fill_fragment,
    fragment_bits,
    fragment_floats,
    fragment_map,
    fragment_map_rows,
    fragment_part,
    ld_global_part,
    pack_bf16,
    pack_e4m3,
    pack_e5m2,
    pack_f16,
    st_global_part,
    stmatrix_x4_xor,
    tma_store,
    unpack_bf16,
    unpack_f16,
)
from ..primitives.specialize import specialize
from .spec import COLUMNS, PART, GemmSpec

#: 8-column tiles and sums of a thread in a part.
TILES, SUMS = COLUMNS // 8, COLUMNS // 2
#: dtype -> (bytes of two elements, words to float32, float32 to words).
FORMATS = {
    "bfloat16": (4, unpack_bf16, pack_bf16),
    "float16": (4, unpack_f16, pack_f16),
    "float32": (8, fragment_floats, fragment_bits),
    "float8_e4m3fn": (2, None, pack_e4m3),
    "float8_e5m2": (2, None, pack_e5m2),
}


def inlined(function: Any) -> Any:
    """Return an inlined device function: wgmma does not overlap with calls of other functions."""
    return function if SIMULATED else cuda.jit(device=True, forceinline=True)(function)


def finish(spec: GemmSpec) -> Any:
    """Return finish(k, sums, ...), which processes part k of a thread's sums, and returns the sums."""
    sums = [f"sum{k}" for k in range(spec.sums)]
    arrays, numbers = [f"x{k}" for k in range(len(spec.operands))], [f"number{k}" for k in range(spec.numbers)]
    space: dict[str, Any] = {
        "fragment_part": fragment_part, "fragment_map": fragment_map, "fill_fragment": fill_fragment, "SUMS": SUMS,
        "HALF": spec.tile[1] // 2 // spec.sums,
    }  # fmt: skip
    lines = [
        "def finish(k, sums, operands, pitches, numbers, outs, out_pitches, map_0, map_1, map_2, staging, at, left,",
        "           top, row, column, rows, columns, layer, thread, group, is_whole):",
    ]
    for number, name in enumerate(sums):
        whole = "sums" if spec.sums == 1 else f"fragment_part(sums, {number}, HALF)"
        lines.append(f"    {name} = fragment_part({whole}, k, SUMS)")
    for number, (name, (kind, dtype)) in enumerate(zip(arrays, spec.operands, strict=True)):
        space[f"read_{name}"] = _reader(number, kind, dtype)
        lines.append(f"    {name} = read_{name}(k, sum0, operands, pitches, row, column, rows, columns)")
    for number, name in enumerate(numbers):
        lines.append(f"    {name} = fill_fragment(numbers[{number}], SUMS)")
    given = ", ".join([*sums, *arrays, *numbers])
    stored = 0
    for number, (dtype, uses_map) in enumerate(spec.outs):
        space[f"map_of_{number}"] = _result(spec, number, sums, arrays, numbers)
        space[f"store_{number}"] = _store_box(spec, number, stored, dtype) if uses_map else _store_direct(number, dtype)
        place = "outs, out_pitches, row, column, rows, columns"
        if uses_map:
            place += f", map_{stored}, staging, at, left, top, layer, thread, group, is_whole"
        stored += uses_map
        lines.append(f"    store_{number}(k, fragment_map(map_of_{number}, ({given},)), {place})")
    exec("\n".join([*lines, "    return sums", ""]), space)
    return inlined(space["finish"])


def _result(spec: GemmSpec, number: int, sums: list[str], arrays: list[str], numbers: list[str]) -> Any:
    """Return the function of numbers that computes one of the results, with alpha, scales and C."""
    function = specialize(spec.formula.function, "float32", spec.narrow, inline=True)
    own, taken = spec.factors + spec.has_c, 1 + spec.has_c
    products = [" * ".join([each, numbers[0], *arrays[: spec.factors]]) for each in sums]
    if spec.has_c:
        products = [f"{each} + {numbers[1]} * {arrays[spec.factors]}" for each in products]
    given = ", ".join([*products, *arrays[own:], *numbers[taken:]])
    space: dict[str, Any] = {"function": function, "float32": np.float32}
    taking = ", ".join([*sums, *arrays, *numbers])
    exec(f"def result({taking}):\n    return float32(function({given})[{number}])\n", space)
    return inlined(space["result"])


def moving(count: int) -> Any:
    """Return the function that adds a multiple of steps to addresses: both are tuples of this length."""
    space: dict[str, Any] = {}
    items = "".join(f"addresses[{k}] + batch * steps[{k}], " for k in range(count))
    exec(f"def moved(addresses, steps, batch):\n    return ({items})\n", space)
    return inlined(space["moved"])


def _reader(number: int, kind: str, dtype: str) -> Any:
    """Return the function that loads a part of an operand as a fragment of float32."""
    size, unpack, _ = FORMATS[dtype]
    item, once = size // 2, int(kind == "row")
    if kind in ("column", "scalar"):
        repeated = int(kind == "scalar")

        @inlined
        def second(x, y):
            return y

        @inlined
        def read_rows(k, x, operands, pitches, row, column, rows, columns):
            place = operands[number] + row * pitches[number]
            values = fragment_floats(ld_global_part(place, pitches[number], 1, 4, rows, 16, repeated))
            return fragment_map_rows(second, x, values, TILES)

        return read_rows

    @inlined
    def read(k, x, operands, pitches, row, column, rows, columns):
        place = operands[number] + row * pitches[number] + (column + COLUMNS * k) * item
        return unpack(ld_global_part(place, pitches[number], TILES, size, rows, columns - COLUMNS * k, once))

    return read


def _store_box(spec: GemmSpec, number: int, stored: int, dtype: str) -> Any:
    """Return the function that stores a part by the copy engine; it clips what is beyond the result's bounds.

    The last rows of a group are stored by the threads, since the rows after them belong to the next group.

    Args:
        number: the number of the result.
        stored: its number among those that are stored so.
    """
    pack, step, is_grouped = FORMATS[dtype][2], sum(is_mapped for _, is_mapped in spec.outs), spec.is_grouped
    # Parts alternate between two places, also from one tile to the next if their number is even.
    pending = 1 if step * (spec.tile[1] // COLUMNS // spec.sums) % 2 == 0 else 0
    store_direct = _store_direct(number, dtype)

    @inlined
    def store(
        k, values, outs, out_pitches, row, column, rows, columns, tensor_map, staging, at, left, top, layer, thread,
        group, is_whole,
    ):  # fmt: skip
        if is_grouped and not is_whole:
            store_direct(k, values, outs, out_pitches, row, column, rows, columns)
        else:
            slot = ((step * k + stored) & 1) * PART
            if thread == 0:
                cp_async_bulk_wait_group_read(pending)
            bar_sync(group + 1, 128)
            stmatrix_x4_xor(at + slot, pack(values), 32)
            fence_proxy_async()
            bar_sync(group + 1, 128)
            if thread == 0:
                tma_store(tensor_map, (left + COLUMNS * k, top, layer), staging + slot)
                cp_async_bulk_commit_group()

    return store


def _store_direct(number: int, dtype: str) -> Any:
    """Return the function that stores a part from the threads' registers."""
    size, _, pack = FORMATS[dtype]
    item = size // 2

    @inlined
    def store(k, values, outs, out_pitches, row, column, rows, columns):
        place = outs[number] + row * out_pitches[number] + (column + COLUMNS * k) * item
        st_global_part(pack(values), place, out_pitches[number], TILES, size, rows, columns - COLUMNS * k)

    return store
