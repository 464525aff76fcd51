"""Score functions and masks in the registers of a flash attention kernel, and the elements that they use."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import _numba
from ...base._numba import types
from ..primitives.device.block_state import block, global_bytes
from ..primitives.device.emitting import Emitter, composed, generated, literal, ptx
from ..primitives.device.fragments import position, unliteral
from ..primitives.device.matrices import stmatrix_x4_xor
from ..primitives.specialize import specialize
from .flash_spec import BLOCK, FlashSpec

__all__ = [
    "NOTHING",
    "ld_int32",
    "map_tile",
    "red_add",
    "red_add_pair",
    "scoring",
    "starts_of",
    "store_bricks",
    "tiles_of",
]

NOTHING = np.float32(-math.inf)


# ---------------------------------------------------------------- elements


def _load(dtype: str) -> Any:
    result = types.int32 if dtype == "int32" else types.float32

    def typed(address: Any) -> Any:
        def emit(e: Emitter, address: Any) -> Any:
            stored = {"int32": e.i32, "float32": e.f32}.get(dtype, e.i16)
            value = e.builder.load(e.builder.inttoptr(address, _numba.ir.PointerType(stored, 1)))
            if dtype == "bfloat16":
                word = e.builder.shl(e.builder.zext(value, e.i32), e.constant(16))
                return e.builder.bitcast(word, e.f32)
            return e.asm("cvt.f32.f16 $0, $1;", [value], e.f32, pure=True) if dtype == "float16" else value

        return result(types.int64), emit

    return typed


@generated(_load("float32"), literals=False)
def ld_float32(address: int) -> Any:
    """Load a float32 that no thread writes meanwhile; equal loads are done once."""
    return global_bytes(address, 4).view(np.float32)[0]


@generated(_load("int32"), literals=False)
def ld_int32(address: int) -> Any:
    """Load an int32, as `ld_float32` does."""
    return global_bytes(address, 4).view(np.int32)[0]


@generated(_load("bfloat16"), literals=False)
def ld_bfloat16(address: int) -> Any:
    """Load a bfloat16 as float32, as `ld_float32` does."""
    return np.array([int(global_bytes(address, 2).view(np.uint16)[0]) << 16], np.uint32).view(np.float32)[0]


@generated(_load("float16"), literals=False)
def ld_float16(address: int) -> Any:
    """Load a float16 as float32, as `ld_float32` does."""
    return np.float32(global_bytes(address, 2).view(np.float16)[0])


LOADS = {"float32": ld_float32, "int32": ld_int32, "bfloat16": ld_bfloat16, "float16": ld_float16}


@ptx("red.global.add.f32 [$0], $1;", "i64", "f32")
def red_add(address: int, x: float) -> None:
    """Add to a float32 in global memory."""
    global_bytes(address, 4).view(np.float32)[0] += np.float32(x)


@ptx("red.global.add.v2.f32 [$0], {$1, $2};", "i64", "f32", "f32")
def red_add_pair(address: int, x: float, y: float) -> None:
    """Add to two float32 in global memory, whose address is a multiple of 8."""
    global_bytes(address, 8).view(np.float32)[:] += np.array([x, y], np.float32)


# ---------------------------------------------------------------- tiles of sums


def _map_tile(typing: Any, function: Any, fragments: Any, columns: Any, tiles: Any, more: Any) -> Any:
    wide, more = literal(tiles, "tiles"), unliteral(more)
    count, heads = len(fragments[0]), types.UniTuple(types.uint32, len(columns))
    kinds = [*[each.dtype for each in fragments], *[types.float32] * len(columns), types.int32, types.int32, *more]
    call = function.get_call_type(typing, tuple(kinds), {})
    results = len(call.return_type)
    result = types.UniTuple(types.UniTuple(types.float32, count), results)

    def emit(e: Emitter, _: Any, values: Any, addresses: Any, __: Any, rest: Any) -> Any:
        code, given, items = e.function(function, call), e.items(rest), [e.items(each) for each in e.items(values)]
        found: list[list[Any]] = [[] for _ in range(results)]
        for k in range(count):
            row, column = position(k, wide)
            if k % 4 == 0:  # only now, so that few registers hold them
                text = f"ld.shared.v2.f32 {{$0, $1}}, [$2+{column * 4}];"
                pairs = [e.asm_many(text, [each], e.f32, 2) for each in e.items(addresses)]
            numbers = [*[each[k] for each in items], *[each[column % 8] for each in pairs]]
            made = code([*numbers, e.constant(row), e.constant(column), *given])
            for target, each in zip(found, e.items(made), strict=True):
                target.append(each)
        return e.tuple(result, [e.tuple(result.dtype, each) for each in found])

    return result(function, fragments, heads, tiles, more), emit


@generated(_map_tile)
def map_tile(function: Any, fragments: Any, columns: Any, tiles: int, more: Any) -> Any:
    """Return a tuple of fragments: those of the results of a function for all numbers of fragments of sums.

    The function gets a number of each fragment, one of each row of numbers in shared memory, the row and the column
    from the thread's first, and `more`. It returns a tuple of float32.

    Args:
        columns: shared addresses of the float32 for the thread's first column, 2 (lane % 4).
        tiles: number of tiles of 8 columns, a constant.
    """
    rows, places = [], 32 * np.arange(tiles)[:, None] + np.arange(8)
    heads = [np.ascontiguousarray(block().read((int(at) + places).ravel(), "ld.shared")) for at in columns]
    for k in range(len(fragments[0])):
        row, column = position(k, tiles)
        numbers = [each[k] for each in fragments]
        numbers += [each.view(np.float32)[column // 8 * 2 + column % 8] for each in heads]
        rows.append(function(*numbers, row, column, *more))
    return tuple(zip(*rows, strict=True))


def _store_bricks(address: Any, words: Any, brick: Any) -> Any:
    apart = literal(brick, "brick")

    def emit(e: Emitter, address: Any, value: Any, _: Any) -> None:
        items = e.items(value)
        for k in range(len(items) // 4):
            place = e.builder.xor(e.builder.add(address, e.constant(k // 4 * apart)), e.constant(k % 4 * 32))
            text = "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1,$2,$3,$4};"
            e.asm(text, [place, *items[4 * k : 4 * k + 4]])

    return types.void(types.uint32, words, brick), emit


@generated(_store_bricks)
def store_bricks(address: int, words: tuple[int, ...], brick: int) -> None:
    """Store packed sums to swizzled bricks of 64 columns, `brick` bytes (a constant) apart, by stmatrix."""
    for part in range(len(words) // 16):
        stmatrix_x4_xor(address + part * brick, words[16 * part : 16 * part + 16], 32)


# ---------------------------------------------------------------- score functions


def scoring(spec: FlashSpec, is_partial: bool) -> Any:
    """Return the device function of one score.

    It is f(x, query, key, first_query, first_key, batch, head, starts, query_steps, key_steps, scale, rows, columns,
    ahead) -> the new score. `query` and `key` count from the first ones of the thread's tile; in the backward kernel,
    the key comes first. `starts` are addresses of the operands' elements of this batch element and head, and the steps
    those along queries and keys. `rows` and `columns` count queries and keys from the tile's first to the last; with a
    causal mask, a query sees keys up to `ahead` more than its own number.
    """
    forward, names = spec.direction == "forward", [f"x{k}" for k in range(len(spec.operands))]
    order = "query, key" if forward else "key, query"
    lines = [
        f"def scored(x, {order}, first_query, first_key, batch, head, starts, query_steps, key_steps, scale, rows,",
        "           columns, ahead):",
    ]
    space: dict[str, Any] = {"real": np.float32, "whole": np.int32, "NOTHING": NOTHING}
    if is_partial:
        lines.append("    visible = (query < rows) & (key < columns)")
        if spec.is_causal:
            lines.append("    visible = visible & (key - query <= ahead)")
        if spec.operands:  # elements beyond the arrays do not exist
            lines += [
                "    query = max(min(query, rows - 1), -first_query)",
                "    key = max(min(key, columns - 1), -first_key)",
            ]
    for k, (name, dtype) in enumerate(zip(names, spec.operands, strict=True)):
        space[f"load_{name}"] = LOADS[dtype]
        place = f"(first_query + query) * query_steps[{k}] + (first_key + key) * key_steps[{k}]"
        lines.append(f"    {name} = load_{name}(starts[{k}] + {place})")
    elements = "".join(f"{name}, " for name in names)
    if is_partial and spec.mask is not None:
        space["mask"] = specialize(spec.mask.function, "float32", True, inline=True)
        given = "whole(batch), whole(head), whole(first_query + query), whole(first_key + key)"
        lines.append(f"    visible = visible & bool(mask({elements}{given})[0])")
    y = "x"
    if spec.score is not None:
        space["score"] = specialize(spec.score.function, "float32", True, inline=True)
        # Indices are float32, which is exact up to 2^24: the product of an integer and a float32 would be a float64.
        given = "real(batch), real(head), real(first_query) + real(query), real(first_key) + real(key)"
        y = f"real(score(x * scale, {elements}{given})[0])"
    lines.append(f"    y = {y}")
    lines.append("    return y if visible else NOTHING" if is_partial else "    return y")
    exec("\n".join([*lines, ""]), space)
    return composed(space["scored"])


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
