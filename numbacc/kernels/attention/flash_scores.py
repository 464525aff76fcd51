"""Score functions and masks in the registers of a flash attention kernel, and the elements that they use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dtypes import TABLE
from ..primitives import device
from ..primitives.device.attention_tiles import ELEMENT_LOADS, ld_int32
from ..primitives.device.emitting import composed
from ..primitives.specialize import specialize
from .flash_spec import WIDE, FlashSpec

__all__ = [
    "NOTHING", "bit_of", "loads_of", "place_of", "positions_of", "products", "scoring", "starts_of", "tiles_of",
    "warp_product", "warpgroup_product",
]  # fmt: skip

#: The score of a key that a query does not see.
NOTHING = np.float32(-math.inf)
#: The last arguments of a score function, as float32 or as int32.
_REALS = "real(batch), real(head), real(first_query) + real(query), real(first_key) + real(key)"
_WHOLES = "whole(batch), whole(head), whole(first_query + query), whole(first_key + key)"


def positions_of(spec: FlashSpec) -> str:
    """Return the last arguments of a score function. float32 saves conversions, and is exact up to 2^24."""
    return _REALS if spec.is_real else _WHOLES


def place_of(along: str, k: int, size: int, names: tuple[str, str], steps: tuple[str, str]) -> str:
    """Return the offset of an array's element for a query and a key from the first of the head, as text.

    Args:
        along: as in `FlashSpec.operands`.
        k: the array's number.
        size: bytes of an element.
        names: of the query and the key from the thread's first ones.
        steps: the names of the tuples of steps along queries and keys.
    """
    terms = []
    for axis, name, first, own in zip(along, names, ("first_query", "first_key"), steps, strict=True):
        if axis != "0":
            step = str(size) if axis == "1" else f"{own}[{k}]"
            # The second product has a constant factor.
            terms.append(f"{first} * {step} + {name} * {step}")
    return " + ".join(terms) or "0"


def products(spec: FlashSpec, numbers: int, a_brick: int, b_brick: int) -> Any:
    """Return the device function (a, b) -> the sums A B^T along the head dimension, which it begins to compute.

    Args:
        numbers: of a thread's sums.
        a_brick, b_brick: bytes of 64 columns of A and of B in shared memory.
    """
    multiply, _ = warpgroup_product(spec)
    MORE, A_STEP, B_STEP = spec.head_dim // WIDE - 1, a_brick // 16, b_brick // 16

    @composed
    def multiply_part(part, sums, a, b):
        return multiply(sums, a + part * A_STEP, b + part * B_STEP, 4, 2, 2, 0, 0)

    @composed
    def multiplied(a, b):
        sums = multiply(numbers, a, b, 4, 2, 2, 0, 0)
        return device.unroll(multiply_part, MORE, sums, (a + A_STEP, b + B_STEP))

    return multiplied


def warpgroup_product(spec: FlashSpec) -> tuple[Any, Any]:
    """Return wgmma for the spec's dtype, and the function that packs sums as its left factor."""
    if spec.dtype == "bfloat16":
        return device.wgmma_bf16, device.pack_bf16
    return device.wgmma_f16, device.pack_f16


def warp_product(spec: FlashSpec) -> tuple[Any, Any]:
    """Return mma.sync for the spec's dtype, and the function that packs sums as its left factor."""
    if spec.dtype == "bfloat16":
        return device.mma_bf16, device.pack_bf16
    return device.mma_f16, device.pack_f16


# ---------------------------------------------------------------- score functions


def scoring(spec: FlashSpec, is_partial: bool) -> Any:
    """Return the device function of one score.

    It is f(x, query, key, first_query, first_key, batch, head, starts, query_steps, key_steps, scale, rows, columns,
    ahead, words) -> the new score. `query` and `key` count from the first ones of the thread's tile; in the backward
    kernel, the key comes first. `starts` are as `starts_of` returns them, and the steps those along queries and keys.
    `rows` and `columns` count queries and keys from the thread's first ones to the last; with a causal mask, a query
    sees keys up to `ahead` more than its own number. `words` have the bits of the thread's scores, see `bit_of`.
    """
    order = "query, key" if spec.direction == "forward" else "key, query"
    lines = [
        f"def scored(x, {order}, first_query, first_key, batch, head, starts, query_steps, key_steps, scale, rows,",
        "           columns, ahead, words):",
    ]
    space: dict[str, Any] = {"real": np.float32, "whole": np.int32, "NOTHING": NOTHING}
    if is_partial:
        # Bits are 0 beyond the arrays.
        is_within = (
            "True" if spec.has_bits and not spec.has_lengths else "(query < whole(rows)) & (key < whole(columns))"
        )
        lines.append(f"    visible = {is_within}")
        if spec.is_causal:
            lines.append("    visible = visible & (key - query <= whole(ahead))")
        if spec.has_bits:
            row, column = order.split(", ")
            second = f"{row} >= 16" if spec.tiles else f"{column} >= 64"
            lines.append(f"    word = words[1] if {second} else words[0]")
            lines.append(f"    visible = visible & (word & (whole(1) << whole({bit_of(row, column)})) != 0)")
    loads, elements = loads_of(spec, is_partial, space)
    lines += loads
    if is_partial and spec.mask is not None:
        space["mask"] = specialize(spec.mask.function, "float32", True, inline=True)
        lines.append(f"    visible = visible & bool(mask({elements}{_WHOLES})[0])")
    y = "x"
    if spec.score is not None:
        space["score"] = specialize(spec.score.function, "float32", True, inline=True)
        y = f"real(score(x * scale, {elements}{positions_of(spec)})[0])"
    lines.append(f"    y = {y}")
    lines.append("    return y if visible else NOTHING" if is_partial else "    return y")
    exec("\n".join([*lines, ""]), space)
    return composed(space["scored"])


def loads_of(spec: FlashSpec, is_partial: bool, space: dict[str, Any]) -> tuple[list[str], str]:
    """Return (lines that load the operands' elements, their names as arguments). The functions are put into `space`."""
    lines, names = [], [f"x{k}" for k in range(len(spec.operands))]
    near, space["whole"] = ("query", "key"), np.int32
    if is_partial and any(along != "00" for _, along in spec.operands):  # elements beyond the arrays do not exist
        near = "near_query", "near_key"
        lines += [
            "    near_query = max(min(whole(query), whole(rows) - whole(1)), whole(-first_query))",
            "    near_key = max(min(whole(key), whole(columns) - whole(1)), whole(-first_key))",
        ]
    for k, (name, (dtype, along)) in enumerate(zip(names, spec.operands, strict=True)):
        if along == "00":
            lines.append(f"    {name} = starts[{k}]")
            continue
        space[f"load_{name}"] = ELEMENT_LOADS[dtype]
        place = place_of(along, k, TABLE[dtype].itemsize, near, ("query_steps", "key_steps"))
        lines.append(f"    {name} = load_{name}(starts[{k}] + {place})")
    return lines, "".join(f"{name}, " for name in names)


# ---------------------------------------------------------------- which tiles


def bit_of(row: str, column: str) -> str:
    """Return the number of a score's bit in a thread's word, as text; rows and columns count from the thread's first.

    A word is for 16 rows of a warp and 64 columns: 8 tiles of 8 columns, and four numbers of a thread in each.
    """
    return f"4 * ({column} % 64 // 8) + 2 * ({row} % 16 // 8) + {column} % 2"


def tiles_of(spec: FlashSpec, parts: int) -> Any:
    """Return the device function that says which tile is the k-th of a list of blocks, and whether it is partial.

    Args:
        parts: tiles of a block.
    """
    has_map = spec.has_map

    @composed
    def tile_at(k, blocks):
        if has_map:
            entry = np.int64(ld_int32(blocks + 4 * (k // parts)))
            return (entry >> 1) * parts + k % parts, entry & 1
        return k, np.int64(0)

    return tile_at


def starts_of(arrays: Sequence[tuple[str, str]]) -> Any:
    """Return the device function (addresses, batch_steps, head_steps, batch, head) -> a tuple with an item an array.

    The item is the address of the first element of a batch element and head; or the element itself, if the array has
    only one for each head.

    Args:
        arrays: the dtype of each, and its axes as in `FlashSpec.operands`. An empty dtype stands for addresses only.
    """
    space: dict[str, Any] = {}
    items = [f"addresses[{k}] + batch * batch_steps[{k}] + head * head_steps[{k}]" for k in range(len(arrays))]
    for k, (dtype, along) in enumerate(arrays):
        if along == "00" and dtype:
            space[f"load_{k}"] = ELEMENT_LOADS[dtype]
            items[k] = f"load_{k}({items[k]})"
    text = ", ".join([*items, ""]) or "np.int64(0),"
    space["np"] = np
    exec(f"def starts(addresses, batch_steps, head_steps, batch, head):\n    return ({text})\n", space)
    return composed(space["starts"])
