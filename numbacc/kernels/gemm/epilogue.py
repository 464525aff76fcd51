"""The epilogue of a product: it maps 64 columns of a warpgroup's sums at a time and stores the results.

`finish(spec)` returns a device function. It is generated as text, since operands and results vary in number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitives.device import fill_fragment, fragment_map, fragment_part, unroll
from ..primitives.device.emitting import composed
from ..primitives.specialize import specialize
from .operands import FORMATS, SUMS, TILES, loaded_at_once, reader
from .results import store_box, store_direct, store_reduced
from .spec import COLUMNS, GemmSpec
from .transposed_results import store_transposed


def finish(spec: GemmSpec) -> tuple[Any, Any]:
    """Return begin(operands, ...) and finish(sums, words, ...), for 64 rows of a warpgroup.

    `begin` loads the operands of the first part, and those with few words, of all parts: the kernel calls it before it
    multiplies. `finish` processes one part of a thread's sums after the other, and loads the operands of the next one.
    The columns of a tile after its last whole part, if any, are a narrower part, which has the next tensor map.
    """
    parts, WHOLE, REST = spec.parts, COLUMNS * spec.parts, spec.rest
    begin_part, finish_part = _part(spec, TILES, parts, spec.own[1] // 2)
    begin_rest, finish_rest = _part(spec, REST // 8, 1, REST // 2) if REST else (begin_part, finish_part)
    rest_of = _last(spec.sums, spec.own[1] // 2, SUMS * parts)

    @composed
    def begin(operands, pitches, top, left, end, n, thread):
        row, column = top + 16 * (thread >> 5) + ((thread & 31) >> 2), left + 2 * (thread & 3)
        words = begin_part(operands, pitches, row, column, end - row, n - column)
        if REST:
            return words, begin_rest(operands, pitches, row, column + WHOLE, end - row, n - column - WHOLE)
        return words, ()

    @composed
    def finish_rows(
        sums, words, top, earlier, operands, pitches, numbers, outs, out_pitches, map_0, map_1, map_2, staging, at,
        left, end, n, layer, thread, group,
    ):  # fmt: skip
        row, column = top + 16 * (thread >> 5) + ((thread & 31) >> 2), left + 2 * (thread & 3)
        context = (
            operands, pitches, numbers, outs, out_pitches, map_0, map_1, map_2, staging, at, left, top, row, column,
            end - row, n - column, layer, thread, group, top + 16 * (thread >> 5) + 16 <= end, earlier,
        )  # fmt: skip
        unroll(finish_part, parts, (sums, *words[0]), context)
        if REST:
            context = (
                operands, pitches, numbers, outs, out_pitches, map_1, map_1, map_2, staging, at, left + WHOLE, top, row,
                column + WHOLE, end - row, n - column - WHOLE, layer, thread, group, True, earlier + parts,
            )  # fmt: skip
            unroll(finish_rest, 1, (rest_of(sums), *words[1]), context)

    return begin, finish_rows


def _last(sums: int, count: int, first: int) -> Any:
    """Return the function that returns the numbers from `first` on of each of some fragments of `count` numbers."""
    space: dict[str, Any] = {}
    items = "".join(f"sums[{count * half + k}], " for half in range(sums) for k in range(first, count))
    exec(f"def last(sums):\n    return ({items})\n", space)
    return composed(space["last"])


def _part(spec: GemmSpec, tiles: int, parts: int, count: int) -> tuple[Any, Any]:
    """Return the functions that load the operands of the first of some parts, and that finish one part.

    Args:
        tiles: 8-column tiles of a part.
        parts: the number of parts.
        count: how many sums of each half a thread has.
    """
    sums = [f"sum{k}" for k in range(spec.sums)]
    arrays, numbers = [f"x{k}" for k in range(len(spec.operands))], [f"number{k}" for k in range(spec.numbers)]
    space: dict[str, Any] = {
        "fragment_part": fragment_part, "fragment_map": fragment_map, "fill_fragment": fill_fragment, "SUMS": 4 * tiles,
        "HALF": count,
    }  # fmt: skip
    place, at_once = "operands, pitches, row, column, rows, columns", loaded_at_once(spec)
    lines = [
        "def finish(k, carried, operands, pitches, numbers, outs, out_pitches, map_0, map_1, map_2, staging, at, left,",
        "           top, row, column, rows, columns, layer, thread, group, is_whole, earlier):",
        "    sums = carried[0]",
    ]
    first = [f"def begin({place}):"]
    for number, (name, (kind, dtype)) in enumerate(zip(arrays, spec.operands, strict=True)):
        loaded = tiles * parts if number in at_once else tiles
        space[f"load_{name}"], space[f"values_{name}"] = reader(number, kind, dtype, parts - 1, tiles, loaded)
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
            space[f"WORDS_{name}"] = 2 * tiles * max(FORMATS[dtype][0] // 4, 1)
            words = f"fragment_part({words}, k, WORDS_{name})"
        lines.append(f"    {name} = values_{name}({words}, sum0)")
    lines += [f"    {name} = fill_fragment(numbers[{k}], SUMS)" for k, name in enumerate(numbers)]
    given, stored = ", ".join([*sums, *arrays, *numbers]), 0
    reduces = spec.reduces or ("",) * len(spec.outs)
    for number, (dtype, uses_map) in enumerate(spec.outs):
        space[f"map_of_{number}"] = _result(spec, number, sums, arrays, numbers)
        if reduces[number]:
            space[f"store_{number}"] = store_reduced(number, reduces[number])
        else:
            if spec.transposed:
                stores = store_transposed(spec, dtype, tiles)
            else:
                stores = store_box(spec, number, stored, dtype) if uses_map else store_direct(number, dtype)
            space[f"store_{number}"] = stores
        more = "outs, out_pitches, row, column, rows, columns"
        if uses_map:
            more += f", map_{stored}, staging, at, left, top, layer, thread, group, is_whole, earlier"
        stored += uses_map
        lines.append(f"    store_{number}(k, fragment_map(map_of_{number}, ({given},)), {more})")
    lines.append(f"    return (sums, {''.join(f'next_{name}, ' for name in arrays)})")
    first.append(f"    return ({''.join(f'{name}, ' for name in arrays)})")
    exec("\n".join([*first, *lines, ""]), space)
    return composed(space["begin"]), composed(space["finish"])


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
    return composed(space["result"])
