"""Score functions and masks in the registers of a flash attention kernel, and the elements that they use."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..primitives.device.attention_tiles import ELEMENT_LOADS, ld_int32
from ..primitives.device.emitting import composed
from ..primitives.specialize import specialize
from .flash_spec import BLOCK, FlashSpec

__all__ = ["INDICES", "NOTHING", "PLACE", "loads_of", "scoring", "starts_of", "tiles_of"]

#: The score of a key that a query does not see.
NOTHING = np.float32(-math.inf)
#: The last arguments of a score function. They are float32, which is exact up to 2^24: the product of an integer and a
#: float32 would be a float64.
INDICES = "real(batch), real(head), real(first_query) + real(query), real(first_key) + real(key)"
#: The offset of an operand's element for a query and a key, or of its gradient's, from the first of the head.
PLACE = "(first_query + query) * {queries}[{k}] + (first_key + key) * {keys}[{k}]"


# ---------------------------------------------------------------- score functions


def scoring(spec: FlashSpec, is_partial: bool) -> Any:
    """Return the device function of one score.

    It is f(x, query, key, first_query, first_key, batch, head, starts, query_steps, key_steps, scale, rows, columns,
    ahead) -> the new score. `query` and `key` count from the first ones of the thread's tile; in the backward kernel,
    the key comes first. `starts` are addresses of the operands' elements of this batch element and head, and the steps
    those along queries and keys. `rows` and `columns` count queries and keys from the tile's first to the last; with a
    causal mask, a query sees keys up to `ahead` more than its own number.
    """
    order = "query, key" if spec.direction == "forward" else "key, query"
    lines = [
        f"def scored(x, {order}, first_query, first_key, batch, head, starts, query_steps, key_steps, scale, rows,",
        "           columns, ahead):",
    ]
    space: dict[str, Any] = {"real": np.float32, "whole": np.int32, "NOTHING": NOTHING}
    if is_partial:
        lines.append("    visible = (query < rows) & (key < columns)")
        if spec.is_causal:
            lines.append("    visible = visible & (key - query <= ahead)")
    loads, elements = loads_of(spec, is_partial, space)
    lines += loads
    if is_partial and spec.mask is not None:
        space["mask"] = specialize(spec.mask.function, "float32", True, inline=True)
        given = "whole(batch), whole(head), whole(first_query + query), whole(first_key + key)"
        lines.append(f"    visible = visible & bool(mask({elements}{given})[0])")
    y = "x"
    if spec.score is not None:
        space["score"] = specialize(spec.score.function, "float32", True, inline=True)
        y = f"real(score(x * scale, {elements}{INDICES})[0])"
    lines.append(f"    y = {y}")
    lines.append("    return y if visible else NOTHING" if is_partial else "    return y")
    exec("\n".join([*lines, ""]), space)
    return composed(space["scored"])


def loads_of(spec: FlashSpec, is_partial: bool, space: dict[str, Any]) -> tuple[list[str], str]:
    """Return (lines that load the operands' elements, their names as arguments). The functions are put into `space`."""
    lines, names = [], [f"x{k}" for k in range(len(spec.operands))]
    if is_partial and names:  # elements beyond the arrays do not exist
        lines += [
            "    query = max(min(query, rows - 1), -first_query)",
            "    key = max(min(key, columns - 1), -first_key)",
        ]
    for k, (name, dtype) in enumerate(zip(names, spec.operands, strict=True)):
        space[f"load_{name}"] = ELEMENT_LOADS[dtype]
        place = PLACE.format(queries="query_steps", keys="key_steps", k=k)
        lines.append(f"    {name} = load_{name}(starts[{k}] + {place})")
    return lines, "".join(f"{name}, " for name in names)


# ---------------------------------------------------------------- which tiles


def tiles_of(spec: FlashSpec, size: int) -> Any:
    """Return the device function that says which tile is the k-th of a list of blocks, and whether it is partial.

    Args:
        size: queries or keys of a tile.
    """
    has_map, parts = spec.has_map, BLOCK // size

    @composed
    def tile_at(k, blocks):
        if has_map:
            entry = np.int64(ld_int32(blocks + 4 * (k // parts)))
            return (entry >> 1) * parts + k % parts, entry & 1
        return k, np.int64(0)

    return tile_at


def starts_of(count: int) -> Any:
    """Return the device function of the addresses of operands' elements of one batch element and head."""
    space: dict[str, Any] = {}
    items = "".join(f"addresses[{k}] + batch * batch_steps[{k}] + head * head_steps[{k}], " for k in range(count))
    exec(f"def starts(addresses, batch_steps, head_steps, batch, head):\n    return ({items})\n", space)
    return composed(space["starts"])
