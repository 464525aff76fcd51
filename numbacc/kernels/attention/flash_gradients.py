"""The derivative of a score function in the registers of the backward kernel, and sums in global memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitives.device.attention_tiles import plus, red_add
from ..primitives.device.collectives import shfl_bfly
from ..primitives.device.emitting import composed
from ..primitives.device.fragments import fragment_reduce_rows, quad_reduce
from ..primitives.specialize import specialize
from .flash_scores import loads_of, place_of, positions_of
from .flash_spec import FlashSpec

__all__ = ["adding", "chain"]


def chain(spec: FlashSpec, is_partial: bool) -> Any:
    """Return the device function that multiplies the gradient of a score by the score function's derivatives.

    It is f(x, dy, key, query, first_query, first_key, batch, head, starts, query_steps, key_steps, scale, rows,
    columns, ends, end_queries, end_keys) -> (dx, ...). `ends` are addresses of the gradients of operands. Gradients of
    arrays with an element for each query are added there; the others are returned.
    """
    lines = [
        "def graded(x, dy, key, query, first_query, first_key, batch, head, starts, query_steps, key_steps, scale,",
        "           rows, columns, ends, end_queries, end_keys):",
    ]
    if spec.slopes is None:
        lines.append("    return (dy,)")
        space: dict[str, Any] = {}
    else:
        slopes = specialize(spec.slopes.function, "float32", True, inline=True)
        space = {"slopes": slopes, "real": np.float32, "ZERO": np.float32(0), "red_add": red_add}
        loads, elements = loads_of(spec, is_partial, space)
        lines += [*loads, f"    found = slopes(dy, x * scale, {elements}{positions_of(spec)})"]
        results = ["real(found[0])"]
        for k, (operand, along) in enumerate(spec.gradients):
            if along[0] != "0":
                place = place_of(along, k, 4, ("query", "key"), ("end_queries", "end_keys"))
                # Where the score has no gradient, as beyond the arrays, there is nothing to add.
                lines += ["    if dy != ZERO:", f"        red_add(ends[{k}] + {place}, real(found[{1 + operand}]))"]
            else:
                results.append(f"real(found[{1 + operand}])")
        shown = [f"{each} if dy != ZERO else ZERO" if is_partial else each for each in results]
        lines.append(f"    return ({', '.join(shown)},)")
    exec("\n".join([*lines, ""]), space)
    return composed(space["graded"])


def adding(spec: FlashSpec, tiles: int) -> Any:
    """Return the device function that adds a tile's gradients of operands that are the same for all queries.

    It is f(found, ends, end_keys, key, columns, lane): `found` are the results of `chain` for all numbers of a thread.
    """

    @composed
    def add_by_key(sums, address, step, key, columns, lane):
        two = quad_reduce(plus, fragment_reduce_rows(plus, sums, tiles))
        if lane & 3 == 0:
            if columns > 0:
                red_add(address + key * step, two[0])
            if columns > 8:
                red_add(address + (key + 8) * step, two[1])

    @composed
    def add_by_head(sums, address, lane):
        two = fragment_reduce_rows(plus, sums, tiles)
        total = two[0] + two[1]
        for bit in range(5):
            total += shfl_bfly(total, 1 << bit)
        if lane == 0:
            red_add(address, total)

    lines, taken = ["def add_sums(found, ends, end_keys, key, columns, lane):", "    pass"], 1
    for k, (_, along) in enumerate(spec.gradients):
        if along[0] == "0" and along[1] != "0":
            lines.append(f"    add_by_key(found[{taken}], ends[{k}], end_keys[{k}], key, columns, lane)")
        elif along == "00":
            lines.append(f"    add_by_head(found[{taken}], ends[{k}], lane)")
        taken += along[0] == "0"
    space = {"add_by_key": add_by_key, "add_by_head": add_by_head}
    exec("\n".join([*lines, ""]), space)
    return composed(space["add_sums"])
