"""The epilogue of a product: it maps 64 columns of a warpgroup's sums at a time and stores the results.

`finish(spec)` returns a device function. It is generated as text, since operands and results vary in number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base._numba import SIMULATED, cuda
from ..primitives.device import (
    bar_warp_sync,
    cp_async_bulk_commit_group,
    cp_async_bulk_wait_group_read,
    fence_proxy_async,
    fill_fragment,
    fragment_bits,
    fragment_floats,
    fragment_map,
    fragment_map_positions,
    fragment_map_rows,
    fragment_part,
    fragment_reduce_rows,
    ld_global_part,
    pack_bf16,
    pack_e4m3,
    pack_e5m2,
    pack_f16,
    quad_reduce,
    st_global_b32,
    st_global_part,
    st_shared_part_8bit,
    stmatrix_x4_xor,
    tma_store,
    unpack_bf16,
    unpack_f16,
    unroll,
)
from ..primitives.specialize import specialize
from .spec import COLUMNS, PART, GemmSpec

#: 8-column tiles and sums of a thread in a part.
TILES, SUMS = COLUMNS // 8, COLUMNS // 2
#: The most words of operands that a thread keeps while it multiplies.
WORDS = 32
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


def finish(spec: GemmSpec) -> tuple[Any, Any]:
    """Return begin(operands, ...) and finish(sums, words, ...), for 64 rows of a warpgroup.

    `begin` loads the operands of the first part, and those with few words, of all parts: the kernel calls it before it
    multiplies. `finish` processes one part of a thread's sums after the other, and loads the operands of the next one.
    """
    sums = [f"sum{k}" for k in range(spec.sums)]
    arrays, numbers = [f"x{k}" for k in range(len(spec.operands))], [f"number{k}" for k in range(spec.numbers)]
    space: dict[str, Any] = {
        "fragment_part": fragment_part, "fragment_map": fragment_map, "fill_fragment": fill_fragment, "SUMS": SUMS,
        "HALF": spec.tile[1] // 2 // spec.sums,
    }  # fmt: skip
    place, at_once = "operands, pitches, row, column, rows, columns", _loaded_at_once(spec)
    lines = [
        "def finish(k, carried, operands, pitches, numbers, outs, out_pitches, map_0, map_1, map_2, staging, at, left,",
        "           top, row, column, rows, columns, layer, thread, group, is_whole, earlier):",
        "    sums = carried[0]",
    ]
    first = [f"def begin({place}):"]
    for number, (name, (kind, dtype)) in enumerate(zip(arrays, spec.operands, strict=True)):
        parts = spec.parts if number in at_once else 1
        space[f"load_{name}"], space[f"values_{name}"] = _reader(number, kind, dtype, spec.parts - 1, parts)
        first.append(f"    {name} = load_{name}(0, {place})")
        kept = number in at_once or kind in ("column", "scalar")
        lines.append(
            f"    next_{name} = carried[{1 + number}]" if kept else f"    next_{name} = load_{name}(k + 1, {place})"
        )
    for number, name in enumerate(sums):
        whole = "sums" if spec.sums == 1 else f"fragment_part(sums, {number}, HALF)"
        lines.append(f"    {name} = fragment_part({whole}, k, SUMS)")
    for number, (name, (_, dtype)) in enumerate(zip(arrays, spec.operands, strict=True)):
        words = f"carried[{1 + number}]"
        if number in at_once:
            space[f"WORDS_{name}"] = 2 * TILES * max(FORMATS[dtype][0] // 4, 1)
            words = f"fragment_part({words}, k, WORDS_{name})"
        lines.append(f"    {name} = values_{name}({words}, sum0)")
    lines += [f"    {name} = fill_fragment(numbers[{k}], SUMS)" for k, name in enumerate(numbers)]
    given, stored = ", ".join([*sums, *arrays, *numbers]), 0
    reduces = spec.reduces or ("",) * len(spec.outs)
    for number, (dtype, uses_map) in enumerate(spec.outs):
        space[f"map_of_{number}"] = _result(spec, number, sums, arrays, numbers)
        if reduces[number]:
            space[f"store_{number}"] = _store_reduced(number, reduces[number])
        else:
            direct = None if uses_map else _store_direct(number, dtype)
            space[f"store_{number}"] = direct or _store_box(spec, number, stored, dtype)
        more = "outs, out_pitches, row, column, rows, columns"
        if uses_map:
            more += f", map_{stored}, staging, at, left, top, layer, thread, group, is_whole, earlier"
        stored += uses_map
        lines.append(f"    store_{number}(k, fragment_map(map_of_{number}, ({given},)), {more})")
    lines.append(f"    return (sums, {''.join(f'next_{name}, ' for name in arrays)})")
    first.append(f"    return ({''.join(f'{name}, ' for name in arrays)})")
    exec("\n".join([*first, *lines, ""]), space)
    begin_part, finish_part, parts = inlined(space["begin"]), inlined(space["finish"]), spec.parts

    @inlined
    def begin(operands, pitches, top, left, end, n, thread):
        row, column = top + 16 * (thread >> 5) + ((thread & 31) >> 2), left + 2 * (thread & 3)
        return begin_part(operands, pitches, row, column, end - row, n - column)

    @inlined
    def finish_rows(
        sums, words, top, earlier, operands, pitches, numbers, outs, out_pitches, map_0, map_1, map_2, staging, at,
        left, end, n, layer, thread, group,
    ):  # fmt: skip
        row, column = top + 16 * (thread >> 5) + ((thread & 31) >> 2), left + 2 * (thread & 3)
        context = (
            operands, pitches, numbers, outs, out_pitches, map_0, map_1, map_2, staging, at, left, top, row, column,
            end - row, n - column, layer, thread, group, top + 16 * (thread >> 5) + 16 <= end, earlier,
        )  # fmt: skip
        unroll(finish_part, parts, (sums, *words), context)

    return begin, finish_rows


def _loaded_at_once(spec: GemmSpec) -> set[int]:
    """Return the numbers of the rows, among the operands, whose words fit into registers for all parts."""
    found: set[int] = set()
    words = 0
    if spec.halves * spec.tile[1] > 256:  # the sums take most registers
        return found
    for number, (kind, dtype) in enumerate(spec.operands):
        own = spec.parts * TILES * max(FORMATS[dtype][0] // 4, 1)
        if kind == "row" and words + own <= WORDS:
            found.add(number)
            words += own
    return found


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


def _reader(number: int, kind: str, dtype: str, last: int, parts: int) -> tuple[Any, Any]:
    """Return the functions that load the words of a part of an operand, and that make float32 of them.

    Args:
        number, kind, dtype: the operand.
        last: the number of the last part; nothing is loaded for parts after it.
        parts: how many parts are loaded at once.
    """
    size, unpack, _ = FORMATS[dtype]
    item, once, tiles = size // 2, int(kind == "row"), TILES * parts
    if kind in ("column", "scalar"):
        repeated = int(kind == "scalar")

        @inlined
        def second(x, y):
            return y

        @inlined
        def load_rows(k, operands, pitches, row, column, rows, columns):
            place = operands[number] + row * pitches[number]
            return ld_global_part(place, pitches[number], 1, 4, rows, 16, repeated)

        @inlined
        def values_of_rows(words, x):
            return fragment_map_rows(second, x, fragment_floats(words), TILES)

        return load_rows, values_of_rows

    @inlined
    def load(k, operands, pitches, row, column, rows, columns):
        place = operands[number] + row * pitches[number] + (column + COLUMNS * k) * item
        width = columns - COLUMNS * k if k <= last else np.int64(0)
        return ld_global_part(place, pitches[number], tiles, size, rows, width, once)

    @inlined
    def values(words, x):
        return unpack(words)

    return load, values


def _store_box(spec: GemmSpec, number: int, stored: int, dtype: str) -> Any:
    """Return the function that stores a part by the copy engine; it clips what is beyond the result's bounds.

    Each warp stores its 16 rows. The last rows of a group are stored by the threads, since the rows after them belong
    to the next group.

    Args:
        number: the number of the result.
        stored: its number among those that are stored so.
    """
    (size, _, pack), step, is_grouped = FORMATS[dtype], sum(is_mapped for _, is_mapped in spec.outs), spec.is_grouped
    # Parts alternate between two places, also from one tile to the next if their number is even.
    pending = 1 if step * spec.parts * spec.halves % 2 == 0 else 0
    store_direct, WARP = _store_direct(number, dtype), 16 * COLUMNS * size // 2

    @inlined
    def store(
        k, values, outs, out_pitches, row, column, rows, columns, tensor_map, staging, at, left, top, layer, thread,
        group, is_whole, earlier,
    ):  # fmt: skip
        if is_grouped and not is_whole:
            store_direct(k, values, outs, out_pitches, row, column, rows, columns)
        else:
            slot = ((step * (earlier + k) + stored) & 1) * PART
            warp, line = thread >> 5, (thread & 31) >> 2
            if thread & 31 == 0:
                cp_async_bulk_wait_group_read(pending)
            bar_warp_sync()
            if size == 4:
                stmatrix_x4_xor(at + slot, pack(values), 32)
            else:
                first = staging + slot + WARP * warp
                st_shared_part_8bit(pack(values), first + 64 * line + 16 * ((line >> 1) & 3) + 2 * (thread & 3))
            fence_proxy_async()
            bar_warp_sync()
            if thread & 31 == 0:
                tma_store(tensor_map, (left + COLUMNS * k, top + 16 * warp, layer), staging + slot + WARP * warp)
                cp_async_bulk_commit_group()

    return store


@inlined
def _sum(x, y):
    return x + y


@inlined
def _larger(x, y):
    return x if x > y or x != x else y


@inlined
def _smaller(x, y):
    return x if x < y or x != x else y


#: Reduction -> its function and the value that changes nothing.
REDUCTIONS = {"sum": (_sum, 0.0), "max": (_larger, -np.inf), "min": (_smaller, np.inf)}


def _store_reduced(number: int, name: str) -> Any:
    """Return the function that stores the reduction of each row of a part: a column of float32 for each part."""
    function, start = REDUCTIONS[name][0], np.float32(REDUCTIONS[name][1])

    @inlined
    def existing(x, row, column, width):
        return x if column < width else start

    @inlined
    def store(k, values, outs, out_pitches, row, column, rows, columns):
        width = columns - COLUMNS * k
        found = fragment_map_positions(existing, values, TILES, (width,))
        words = fragment_bits(quad_reduce(function, fragment_reduce_rows(function, found, TILES)))
        first = column & 7  # one of four threads stores
        place = outs[number] + row * out_pitches[number] + (column // COLUMNS + k) * 4
        if first == 0 and width > 0 and rows > 0:
            st_global_b32(place, words[0])
        if first == 0 and width > 0 and rows > 8:
            st_global_b32(place + 8 * out_pitches[number], words[1])

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
