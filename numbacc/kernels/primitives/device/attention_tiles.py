"""Elements of arrays and tiles of sums in the registers of attention kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base import _numba
from ....base._numba import types
from .block_state import block, global_bytes, local, together
from .emitting import Emitter, composed, generated, literal, ptx
from .fragments import accumulator_as_a, fragment_bits, fragment_floats, position, unliteral
from .matrices import stmatrix_x4_xor
from .memory import cp_async_zfill, ld_shared_v4, st_shared_b32, st_shared_v4

__all__ = [
    "ELEMENT_LOADS", "cp_async_tile", "ld_float32", "ld_int32", "ld_shared_fragment", "map_tile", "plus", "red_add",
    "red_columns", "red_fragment", "st_shared_fragment", "store_bricks", "store_rows", "times", "unroll_columns",
    "warp_any",
]  # fmt: skip


# ---------------------------------------------------------------- elements


def _load(dtype: str) -> Any:
    kind = np.dtype("uint16" if dtype == "bfloat16" else dtype)
    is_real = kind.kind == "f" or dtype == "bfloat16"
    result = types.float32 if is_real else types.int64 if kind.itemsize == 8 else types.int32

    def typed(address: Any) -> Any:
        def emit(e: Emitter, address: Any) -> Any:
            stored = {"float32": e.f32, "float64": e.f64}.get(dtype, _numba.ir.IntType(8 * kind.itemsize))
            value = e.builder.load(e.builder.inttoptr(address, _numba.ir.PointerType(stored, 1)))
            if dtype == "bfloat16":
                word = e.builder.shl(e.builder.zext(value, e.i32), e.constant(16))
                return e.builder.bitcast(word, e.f32)
            if dtype == "float16":
                return e.asm("cvt.f32.f16 $0, $1;", [value], e.f32, pure=True)
            if dtype == "float64":
                return e.builder.fptrunc(value, e.f32)
            if kind.kind in "iu" and kind.itemsize < 4:
                return (e.builder.sext if kind.kind == "i" else e.builder.zext)(value, e.i32)
            return value

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


@generated(_load("int64"), literals=False)
def ld_int64(address: int) -> Any:
    """Load an int64, as `ld_float32` does."""
    return global_bytes(address, 8).view(np.int64)[0]


@generated(_load("int16"), literals=False)
def ld_int16(address: int) -> Any:
    """Load an int16 as int32, as `ld_float32` does."""
    return np.int32(global_bytes(address, 2).view(np.int16)[0])


@generated(_load("int8"), literals=False)
def ld_int8(address: int) -> Any:
    """Load an int8 as int32, as `ld_float32` does."""
    return np.int32(global_bytes(address, 1).view(np.int8)[0])


@generated(_load("uint16"), literals=False)
def ld_uint16(address: int) -> Any:
    """Load a uint16 as int32, as `ld_float32` does."""
    return np.int32(global_bytes(address, 2).view(np.uint16)[0])


@generated(_load("uint8"), literals=False)
def ld_uint8(address: int) -> Any:
    """Load a uint8 as int32, as `ld_float32` does."""
    return np.int32(global_bytes(address, 1).view(np.uint8)[0])


@generated(_load("float64"), literals=False)
def ld_float64(address: int) -> Any:
    """Load a float64 as float32, as `ld_float32` does."""
    return np.float32(global_bytes(address, 8).view(np.float64)[0])


@generated(_load("bfloat16"), literals=False)
def ld_bfloat16(address: int) -> Any:
    """Load a bfloat16 as float32, as `ld_float32` does."""
    return np.array([int(global_bytes(address, 2).view(np.uint16)[0]) << 16], np.uint32).view(np.float32)[0]


@generated(_load("float16"), literals=False)
def ld_float16(address: int) -> Any:
    """Load a float16 as float32, as `ld_float32` does."""
    return np.float32(global_bytes(address, 2).view(np.float16)[0])


#: The load of an element by the dtype's name. It returns float32, int32 or int64.
ELEMENT_LOADS = {
    "float32": ld_float32, "float64": ld_float64, "bfloat16": ld_bfloat16, "float16": ld_float16, "int64": ld_int64,
    "int32": ld_int32, "int16": ld_int16, "int8": ld_int8, "uint16": ld_uint16, "uint8": ld_uint8,
}  # fmt: skip


@ptx("red.global.add.f32 [$0], $1;", "i64", "f32")
def red_add(address: int, x: float) -> None:
    """Add to a float32 in global memory."""
    global_bytes(address, 4).view(np.float32)[0] += np.float32(x)


# ---------------------------------------------------------------- tiles of rows


def _cp_async_tile(shared: Any, source: Any, count: Any, step: Any, shared_step: Any, pitch: Any, rows: Any) -> Any:
    n, apart, bytes_apart = literal(count, "count"), literal(step, "step"), literal(shared_step, "shared_step")

    def emit(e: Emitter, shared: Any, source: Any, _: Any, __: Any, ___: Any, pitch: Any, rows: Any) -> None:
        lines = ["{ .reg .pred p; .reg .b32 n; .reg .u64 a; mov.u64 a, $1;"]
        for k in range(n):
            lines.append(f"setp.gt.s32 p, $2, {k * apart}; selp.b32 n, 16, 0, p;")
            lines.append(f"cp.async.cg.shared.global [$0+{k * bytes_apart}], [a], 16, n; add.u64 a, a, $3;")
        e.asm("\n".join([*lines, "}"]), [shared, source, rows, e.builder.mul(pitch, e.constant(apart, e.i64))])

    i32, i64 = types.int32, types.int64
    return types.void(types.uint32, i64, count, step, shared_step, i64, i32), emit


@generated(_cp_async_tile, since=(8, 0))
def cp_async_tile(shared: int, source: int, count: int, step: int, shared_step: int, pitch: int, rows: int) -> None:
    """Begin a thread's part of the copy of a tile: `count` copies of 16 bytes, `step` rows apart.

    Args:
        shared, source: addresses of the first copy.
        count, step, shared_step: constants; the k-th copy is `k shared_step` bytes further in shared memory.
        pitch: bytes from one row of the source to the next.
        rows: how many rows the source has from the first copy's on. Zeros are stored for rows beyond them.
    """
    for k in range(count):
        valid = 16 if rows > k * step else 0
        cp_async_zfill(shared + k * shared_step, source + k * step * int(pitch), valid)


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
    heads = [np.ascontiguousarray(block().read((local(at) + places).ravel(), "ld.shared")) for at in columns]
    for k in range(len(fragments[0])):
        row, column = position(k, tiles)
        numbers = [each[k] for each in fragments]
        numbers += [each.view(np.float32)[column // 8 * 2 + column % 8] for each in heads]
        rows.append(function(*numbers, row, column, *more))
    return tuple(zip(*rows, strict=True))


def _unroll_columns(typing: Any, function: Any, columns: Any, carried: Any, pairs: Any, more: Any) -> Any:
    wide, more = literal(columns, "columns"), unliteral(more)
    rows = len(pairs) // (2 * wide)
    words = types.UniTuple(types.uint32, 4 * rows)
    call = function.get_call_type(typing, (types.int64, carried, words, *more), {})

    def emit(e: Emitter, _: Any, __: Any, value: Any, pairs: Any, values: Any) -> Any:
        code, items, given = e.function(function, call), e.items(pairs), e.items(values)
        for k in range(wide // 2):
            own = [items[2 * wide * i + 4 * k + j] for i in range(rows) for j in range(4)]
            value = code([e.constant(k, e.i64), value, e.tuple(words, own), *given])
        return value

    return carried(function, columns, carried, pairs, more), emit


@generated(_unroll_columns)
def unroll_columns(function: Any, columns: int, carried: Any, pairs: Any, more: Any) -> Any:
    """Run `carried = function(k, carried, a, *more)` for each 16 columns of packed sums, and return `carried`.

    Args:
        columns: tiles of 8 columns, a constant.
        pairs: sums packed by `pack_bf16` or `pack_f16`; `a` has columns 16 k to 16 k + 15, as `accumulator_as_a`
            returns them.
    """
    for k in range(columns // 2):
        carried = function(k, carried, accumulator_as_a(pairs, k, columns), *more)
    return carried


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


def _store_rows(address: Any, words: Any, step: Any) -> Any:
    apart = literal(step, "step")

    def emit(e: Emitter, address: Any, value: Any, _: Any) -> None:
        for k, word in enumerate(e.items(value)):
            place = e.builder.xor(address, e.constant(k // 2 * 16))
            e.asm(f"st.shared.b32 [$0+{k % 2 * apart}], $1;", [place, word])

    return types.void(types.uint32, words, step), emit


@generated(_store_rows, since=(8, 0))
def store_rows(address: int, words: tuple[int, ...], step: int) -> None:
    """Store packed sums of 16 rows to swizzled rows in shared memory: tile j of 8 columns at address ^ (16 j).

    Args:
        step: bytes from a row to the one 8 further, a constant.
    """
    for k, word in enumerate(words):
        st_shared_b32((int(address) ^ k // 2 * 16) + k % 2 * step, word)


def _red_columns(sums: Any, address: Any) -> Any:
    def emit(e: Emitter, sums: Any, address: Any) -> None:
        for k, x in enumerate(e.items(sums)):
            e.asm(f"red.global.add.f32 [$0+{k // 4 * 2048 + k % 4 * 128}], $1;", [address, x])

    return types.void(sums, types.int64), emit


@generated(_red_columns, literals=False, since=(8, 0))
def red_columns(sums: tuple[Any, ...], address: int) -> None:
    """Add sums of 16 rows to float32 in global memory. A warp adds to 128 adjacent bytes at once.

    64 rows of 8 columns are 2048 bytes: for each 16 rows, the first numbers of all threads, then the second, and so on.

    Args:
        address: of the thread's first number.
    """
    for k, x in enumerate(sums):
        global_bytes(address + k // 4 * 2048 + k % 4 * 128, 4).view(np.float32)[0] += x


def _red_fragment(sums: Any, address: Any, step: Any) -> Any:
    apart = literal(step, "step")

    def emit(e: Emitter, sums: Any, address: Any, _: Any) -> None:
        items = e.items(sums)
        for k in range(len(items) // 4):
            text = f"red.global.add.v4.f32 [$0+{k * apart}], {{$1, $2, $3, $4}};"
            e.asm(text, [address, *items[4 * k : 4 * k + 4]])

    return types.void(sums, types.int64, step), emit


@generated(_red_fragment, since=(9, 0))
def red_fragment(sums: tuple[Any, ...], address: int, step: int) -> None:
    """Add a fragment to float32 in global memory, four numbers at a time.

    Args:
        address: of the thread's first four numbers, a multiple of 16.
        step: bytes from one group of four to the next, a constant.
    """
    for k, x in enumerate(sums):
        global_bytes(address + k // 4 * step + k % 4 * 4, 4).view(np.float32)[0] += x


def _st_shared_fragment(address: Any, sums: Any, step: Any) -> Any:
    apart = literal(step, "step")

    def emit(e: Emitter, address: Any, sums: Any, _: Any) -> None:
        items = e.items(sums)
        for k in range(len(items) // 4):
            e.asm(f"st.shared.v4.f32 [$0+{k * apart}], {{$1, $2, $3, $4}};", [address, *items[4 * k : 4 * k + 4]])

    return types.void(types.uint32, sums, step), emit


@generated(_st_shared_fragment, since=(7, 0))
def st_shared_fragment(address: int, sums: tuple[Any, ...], step: int) -> None:
    """Store a fragment of float32 to shared memory, four numbers at a time.

    Args:
        address: of the thread's first four numbers, a multiple of 16.
        step: bytes from one group of four to the next, a constant.
    """
    words = fragment_bits(sums)
    for k in range(len(words) // 4):
        st_shared_v4(address + k * step, words[4 * k : 4 * k + 4])


def _ld_shared_fragment(address: Any, count: Any, step: Any) -> Any:
    number, apart = literal(count, "count"), literal(step, "step")
    result = types.UniTuple(types.float32, number)

    def emit(e: Emitter, address: Any, *_: Any) -> Any:
        found: list[Any] = []
        for k in range(number // 4):
            text = f"ld.shared.v4.f32 {{$0, $1, $2, $3}}, [$4+{k * apart}];"
            found += e.asm_many(text, [address], e.f32, 4)
        return e.tuple(result, found)

    return result(types.uint32, count, step), emit


@generated(_ld_shared_fragment, since=(7, 0))
def ld_shared_fragment(address: int, count: int, step: int) -> tuple[Any, ...]:
    """Load `count` float32, a constant, that `st_shared_fragment` stored."""
    words = [word for k in range(count // 4) for word in ld_shared_v4(address + k * step)]
    found: tuple[Any, ...] = fragment_floats(tuple(words))
    return found


@composed
def plus(x, y):
    """Return x + y, for reductions and maps of fragments."""
    return x + y


@composed
def times(x, y):
    """Return x * y, for maps of fragments."""
    return x * y


@composed
def larger(x, y):
    """Return the larger of two integers, for reductions."""
    return max(x, y)


@composed
def smaller(x, y):
    """Return the smaller of two integers, for reductions."""
    return min(x, y)


@ptx(
    "{ .reg .pred p, q; setp.ne.s32 p, $1, 0; vote.sync.any.pred q, p, 0xffffffff; selp.s32 $0, 1, 0, q; }",
    "i32",
    result="i32",
    since=(7, 0),
)
def warp_any(x: int) -> Any:
    """Return 1 if x is not 0 in any thread of the warp, else 0."""

    def work(values: list[Any]) -> list[Any]:
        return [np.int32(any(values))] * 32

    return together(32, int(x), work, "warp_any")
