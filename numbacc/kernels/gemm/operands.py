"""Loads of a part of an operand: the words of a thread's elements, and float32 of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitives.device import (
    fragment_bits,
    fragment_floats,
    fragment_map_rows,
    ld_global_part,
    pack_bf16,
    pack_e4m3,
    pack_e5m2,
    pack_f16,
    unpack_bf16,
    unpack_f16,
)
from ..primitives.device.attention_tiles import ELEMENT_LOADS
from ..primitives.device.emitting import composed
from .spec import COLUMNS, GemmSpec

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


def moving(count: int) -> Any:
    """Return the function that adds a multiple of steps to addresses: both are tuples of this length."""
    space: dict[str, Any] = {}
    items = "".join(f"addresses[{k}] + batch * steps[{k}], " for k in range(count))
    exec(f"def moved(addresses, steps, batch):\n    return ({items})\n", space)
    return composed(space["moved"])


def loaded_at_once(spec: GemmSpec) -> set[int]:
    """Return the numbers of the rows, among the operands, whose words fit into registers for all parts."""
    found: set[int] = set()
    words = 0
    if spec.halves * spec.tile[1] > 256:  # the sums take most registers
        return found
    for number, (kind, dtype) in enumerate(spec.operands):
        own = spec.own[1] // 8 * max(FORMATS[dtype][0] // 4, 1)
        if kind == "row" and words + own <= WORDS:
            found.add(number)
            words += own
    return found


def reader(number: int, kind: str, dtype: str, last: int, tiles: int, loaded: int) -> tuple[Any, Any]:
    """Return the functions that load the words of a part of an operand, and that make float32 of them.

    Args:
        number, kind, dtype: the operand.
        last: the number of the last part; nothing is loaded for parts after it.
        tiles, loaded: 8-column tiles of a part, and of the parts that are loaded at once.
    """
    size, unpack, _ = FORMATS[dtype]
    item, once = size // 2, int(kind == "row")
    if kind in ("column", "scalar"):
        repeated = int(kind == "scalar")

        @composed
        def second(x, y):
            return y

        load_one = ELEMENT_LOADS[dtype]

        @composed
        def load_16_bits(k, operands, pitches, row, column, rows, columns):
            place = operands[number] + row * pitches[number]
            upper = load_one(place) if rows > 0 else np.float32(0)
            lower = load_one(place + 8 * pitches[number]) if rows > 8 else np.float32(0)
            return fragment_bits((upper, lower))

        @composed
        def load_rows(k, operands, pitches, row, column, rows, columns):
            place = operands[number] + row * pitches[number]
            return ld_global_part(place, pitches[number], 1, 4, rows, 16, repeated)

        @composed
        def values_of_rows(words, x):
            return fragment_map_rows(second, x, fragment_floats(words), tiles)

        return load_rows if size == 8 else load_16_bits, values_of_rows

    @composed
    def load(k, operands, pitches, row, column, rows, columns):
        place = operands[number] + row * pitches[number] + (column + COLUMNS * k) * item
        width = columns - COLUMNS * k if k <= last else np.int64(0)
        return ld_global_part(place, pitches[number], loaded, size, rows, width, once)

    @composed
    def values(words, x):
        return unpack(words)

    return load, values
