"""Weights of a tile and gradients of its scores, in the registers of the backward kernels of flash attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitives import device
from ..primitives.device.attention_tiles import map_tile, plus, red_add
from ..primitives.device.collectives import shfl_bfly
from ..primitives.device.emitting import composed
from ..primitives.device.fragments import fragment_reduce_rows, quad_reduce
from ..primitives.specialize import specialize
from .flash_scores import loads_of, place_of, positions_of, scoring, starts_of
from .flash_spec import FlashSpec

__all__ = ["weighing"]


def weighing(spec: FlashSpec) -> tuple[Any, Any]:
    """Return device functions: the weights of a tile's scores, and the gradients of the scores.

    Weights are 2^(y factor - top) inverse for scores y after functions and mask. `stats` is the shared address of the
    thread's statistics.
    """
    HAS_SCORE, TILES = spec.score is not None, spec.queries // 8
    score, partial_score = scoring(spec, False), scoring(spec, True)
    ends_at = starts_of([("", along) for _, along in spec.gradients])
    graded, partial_graded, add_sums = _chain(spec, False), _chain(spec, True), _adding(spec, TILES)

    @composed
    def probability(y, top, inverse, key, query, factor):
        return (device.ex2_approx(device.fma_rn(y, factor, -top)) * inverse,)

    @composed
    def slope(p, dp, delta, key, query):
        return (p * (dp - delta),)

    @composed
    def weights(sums, is_partial, given, stats, factor):
        """Return the weights of products of keys and queries. `given` are arguments of the score function."""
        y = sums
        if is_partial:
            y = device.fragment_map_positions(partial_score, sums, TILES, given)
        elif HAS_SCORE:
            y = device.fragment_map_positions(score, sums, TILES, given)
        return map_tile(probability, (y,), (stats, stats + 256), TILES, (factor,))[0]

    @composed
    def gradients(sums, p, dp, is_partial, where, targets, stats, lane):
        """Return the gradients of scores, and add the gradients of the score function's operands to arrays."""
        ds = map_tile(slope, (p, dp), (stats + 512,), TILES, ())[0]
        if HAS_SCORE:
            key, batch, head, columns = where[1], where[2], where[3], where[9]
            ends, batch_steps, head_steps, end_queries, end_keys = targets
            to = ends_at(ends, batch_steps, head_steps, batch, head)
            more = where + (to, end_queries, end_keys)
            if is_partial:
                found = map_tile(partial_graded, (sums, ds), (), TILES, more)
            else:
                found = map_tile(graded, (sums, ds), (), TILES, more)
            ds = found[0]
            add_sums(found, to, end_keys, key, columns, lane)
        return ds

    return weights, gradients


def _chain(spec: FlashSpec, is_partial: bool) -> Any:
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


def _adding(spec: FlashSpec, tiles: int) -> Any:
    """Return the device function that adds a tile's gradients of operands that are the same for all queries.

    It is f(found, ends, end_keys, key, columns, lane): `found` are the results of `_chain` for all numbers of a thread.
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
