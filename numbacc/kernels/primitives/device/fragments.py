"""Fragments: what one thread holds of a matrix, as a tuple of numbers.

A fragment of sums (accumulators of mma and wgmma) has `columns` tiles of 8 columns for each 16 rows of a warp. A thread
has four numbers of each tile: columns 2 (lane % 4) and the next of row lane / 4, then the same of row lane / 4 + 8. Two
neighbours, packed to 16 bits, make one 32-bit register.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ....base._numba import types
from .block_state import block, global_bytes, local, thread, together
from .emitting import Emitter, composed, generated, literal, ptx, tuple_type

__all__ = [
    "accumulator_as_a",
    "cvt_bf16x2",
    "cvt_e4m3x2",
    "cvt_e5m2x2",
    "cvt_f16x2",
    "fill_fragment",
    "fragment_bits",
    "fragment_column",
    "fragment_floats",
    "fragment_map",
    "fragment_map_positions",
    "fragment_map_rows",
    "fragment_part",
    "fragment_reduce_rows",
    "fragment_row",
    "ld_global_part",
    "pack_bf16",
    "pack_e4m3",
    "pack_e5m2",
    "pack_f16",
    "quad_reduce",
    "st_global_fragment",
    "st_global_part",
    "st_shared_part_8bit",
    "unpack_bf16",
    "unpack_f16",
    "unroll",
]  # fmt: skip

Fragment = tuple[Any, ...]


def unliteral(kind: Any) -> Any:
    """Return a type without the values of its constants, also those in a tuple."""
    return types.unliteral(kind)


def position(k: int, columns: int) -> tuple[int, int]:
    """Return (row, column) of item k of a fragment of sums, from the thread's first row and column."""
    return k // (4 * columns) * 16 + k % 4 // 2 * 8, k // 4 % columns * 8 + k % 2


def row_of(k: int, columns: int) -> int:
    """Return which of the thread's rows item k of a fragment of sums is in."""
    return k // (4 * columns) * 2 + k % 4 // 2


@composed
def fragment_row(k: Any, columns: int) -> Any:
    """Return the row of item k of a fragment of sums with `columns` tiles of 8 columns, from the thread's first row."""
    return k // (4 * columns) * 16 + k % 4 // 2 * 8


@composed
def fragment_column(k: Any, columns: int) -> Any:
    """Return the column of item k of a fragment of sums, from the thread's first column, 2 (lane % 4)."""
    return k // 4 % columns * 8 + k % 2


# ---------------------------------------------------------------- making and mapping


def _fill_fragment(value: Any, count: Any) -> Any:
    n = literal(count, "count")
    name = "i32" if isinstance(value, types.Integer) else "f32"
    result = tuple_type(name, n)
    return result(result.dtype, count), lambda e, value, _: e.tuple(result, [value] * n)


@generated(_fill_fragment, since=(5, 0))
def fill_fragment(value: Any, count: int) -> Fragment:
    """Return a fragment of `count` (a constant) equal numbers: float32, or int32 if `value` is an integer."""
    return ((np.int32 if isinstance(value, (int, np.integer)) else np.float32)(value),) * count


def _fragment_map(typing: Any, function: Any, fragments: Any) -> Any:
    call = function.get_call_type(typing, tuple(each.dtype for each in fragments), {})
    result = types.UniTuple(call.return_type, len(fragments[0]))

    def emit(e: Emitter, _: Any, values: Any) -> Any:
        code = e.function(function, call)
        rows = [e.items(each) for each in e.items(values)]
        return e.tuple(result, [code(each) for each in zip(*rows, strict=True)])

    return result(function, fragments), emit


@generated(_fragment_map, literals=False, since=(5, 0))
def fragment_map(function: Callable[..., Any], fragments: tuple[Fragment, ...]) -> Fragment:
    """Return the fragment of function(x, y, ...) for the numbers at each position of equally long fragments."""
    return tuple(function(*each) for each in zip(*fragments, strict=True))


def _unroll(typing: Any, function: Any, count: Any, carried: Any, more: Any) -> Any:
    n, carried, more = literal(count, "count"), unliteral(carried), unliteral(more)
    calls = [function.get_call_type(typing, (types.literal(k), carried, *more), {}) for k in range(n)]

    def emit(e: Emitter, _: Any, __: Any, value: Any, values: Any) -> Any:
        given = e.items(values)
        for k, call in enumerate(calls):
            rest = [
                e.context.cast(e.builder, each, a, b) for each, a, b in zip(given, more, call.args[2:], strict=True)
            ]
            found = e.function(function, call)([e.constant(k, e.i64), value, *rest])
            value = e.context.cast(e.builder, found, call.return_type, carried)
        return value

    return carried(function, count, carried, more), emit


@generated(_unroll, since=(5, 0))
def unroll(function: Callable[..., Any], count: int, carried: Any, more: tuple[Any, ...]) -> Any:
    """Run `carried = function(k, carried, *more)` for k in range(count), unrolled, and return `carried`.

    `count` is a constant, and so is k in each of the calls: functions that need constants accept it.
    """
    for k in range(count):
        carried = function(k, carried, *more)
    return carried


# ---------------------------------------------------------------- rows


def _fragment_reduce_rows(typing: Any, function: Any, fragment: Any, columns: Any) -> Any:
    wide, kind = literal(columns, "columns"), fragment.dtype
    call = function.get_call_type(typing, (kind, kind), {})
    result = types.UniTuple(kind, len(fragment) // (2 * wide))

    def emit(e: Emitter, _: Any, value: Any, __: Any) -> Any:
        code, items = e.function(function, call), e.items(value)
        rows = []
        for row in range(len(result)):
            found = [items[k] for k in range(len(items)) if row_of(k, wide) == row]
            while len(found) > 1:  # a tree: fewer steps wait for each other
                pairs = zip(found[::2], found[1::2], strict=False)
                found = [code(pair) for pair in pairs] + found[len(found) & ~1 :]
            rows.append(found[0])
        return e.tuple(result, rows)

    return result(function, fragment, columns), emit


@generated(_fragment_reduce_rows, since=(5, 0))
def fragment_reduce_rows(function: Callable[..., Any], fragment: Fragment, columns: int) -> Fragment:
    """Return each of the thread's rows of a fragment of sums, reduced by function(x, y) to one number.

    Four threads share a row: `quad_reduce` combines their numbers.

    Args:
        columns: tiles of 8 columns, a constant.
    """
    rows: list[list[Any]] = [[] for _ in range(len(fragment) // (2 * columns))]
    for k, x in enumerate(fragment):
        rows[row_of(k, columns)].append(x)
    return tuple(_tree(function, row) for row in rows)


def _tree(function: Callable[..., Any], found: list[Any]) -> Any:
    while len(found) > 1:
        pairs = zip(found[::2], found[1::2], strict=False)
        found = [function(*pair) for pair in pairs] + found[len(found) & ~1 :]
    return found[0]


def _quad_reduce(typing: Any, function: Any, rows: Any) -> Any:
    call = function.get_call_type(typing, (rows.dtype, rows.dtype), {})

    def emit(e: Emitter, _: Any, value: Any) -> Any:
        code, found = e.function(function, call), []
        for row in e.items(value):
            for mask in (1, 2):
                text = f"shfl.sync.bfly.b32 $0, $1, {mask}, 0x1f, 0xffffffff;"
                row = code([row, e.asm(text, [row], row.type)])
            found.append(row)
        return e.tuple(rows, found)

    return rows(function, rows), emit


@generated(_quad_reduce, literals=False, since=(7, 0))
def quad_reduce(function: Callable[..., Any], rows: Fragment) -> Fragment:
    """Reduce numbers by function(x, y) over the four threads that share rows; all four get the results."""
    for mask in (1, 2):

        def work(values: list[Any], mask: int = mask) -> list[Any]:
            return [tuple(map(function, values[k], values[k ^ mask])) for k in range(32)]

        rows = together(32, rows, work, "quad_reduce")
    return rows


def _fragment_map_rows(typing: Any, function: Any, fragment: Any, rows: Any, columns: Any) -> Any:
    wide = literal(columns, "columns")
    call = function.get_call_type(typing, (fragment.dtype, rows.dtype), {})
    result = types.UniTuple(call.return_type, len(fragment))

    def emit(e: Emitter, _: Any, value: Any, of_rows: Any, __: Any) -> Any:
        code, per_row = e.function(function, call), e.items(of_rows)
        return e.tuple(result, [code([x, per_row[row_of(k, wide)]]) for k, x in enumerate(e.items(value))])

    return result(function, fragment, rows, columns), emit


@generated(_fragment_map_rows, since=(5, 0))
def fragment_map_rows(function: Callable[..., Any], fragment: Fragment, rows: Fragment, columns: int) -> Fragment:
    """Return the fragment of function(x, the number of x's row) for all numbers x of a fragment of sums."""
    return tuple(function(x, rows[row_of(k, columns)]) for k, x in enumerate(fragment))


def _fragment_map_positions(typing: Any, function: Any, fragment: Any, columns: Any, more: Any) -> Any:
    wide, more = literal(columns, "columns"), unliteral(more)
    kinds = (fragment.dtype, types.int32, types.int32, *more)
    call = function.get_call_type(typing, kinds, {})
    result = types.UniTuple(call.return_type, len(fragment))

    def emit(e: Emitter, _: Any, value: Any, __: Any, values: Any) -> Any:
        code, given, found = e.function(function, call), e.items(values), []
        for k, x in enumerate(e.items(value)):
            row, column = position(k, wide)
            found.append(code([x, e.constant(row), e.constant(column), *given]))
        return e.tuple(result, found)

    return result(function, fragment, columns, more), emit


@generated(_fragment_map_positions, since=(5, 0))
def fragment_map_positions(
    function: Callable[..., Any], fragment: Fragment, columns: int, more: tuple[Any, ...]
) -> Fragment:
    """Return the fragment of `function(x, row, column, *more)` for all numbers x of a fragment of sums.

    `row` and `column` are relative to the thread's first row, lane / 4, and its first column, 2 (lane % 4).
    """
    return tuple(function(x, *position(k, columns), *more) for k, x in enumerate(fragment))


# ---------------------------------------------------------------- parts


def _fragment_part(fragment: Any, k: Any, count: Any) -> Any:
    n = literal(count, "count")
    first = n * literal(k, "k")
    result = types.UniTuple(fragment.dtype, n)
    return result(fragment, k, count), lambda e, value, *_: e.tuple(result, e.items(value)[first : first + n])


@generated(_fragment_part, since=(5, 0))
def fragment_part(fragment: Fragment, k: int, count: int) -> Fragment:
    """Return part number k of a fragment, in parts of `count` numbers. Both are constants."""
    return fragment[k * count : (k + 1) * count]


def _accumulator_as_a(pairs: Any, k: Any, columns: Any) -> Any:
    at, wide = literal(k, "k"), literal(columns, "columns")
    rows = len(pairs) // (2 * wide)
    result = tuple_type("u32", 4 * rows)

    def emit(e: Emitter, value: Any, *_: Any) -> Any:
        items = e.items(value)
        return e.tuple(result, [items[2 * wide * i + 4 * at + j] for i in range(rows) for j in range(4)])

    return result(pairs, k, columns), emit


@generated(_accumulator_as_a, since=(5, 0))
def accumulator_as_a(pairs: Fragment, k: int, columns: int) -> Fragment:
    """Return columns 16 k to 16 k + 15 of packed sums as the operand A of a product: the registers already fit.

    Args:
        pairs: sums packed by `pack_bf16` or `pack_f16`.
        k, columns: constants; the sums have `columns` tiles of 8 columns.
    """
    rows = len(pairs) // (2 * columns)
    return tuple(pairs[2 * columns * i + 4 * k + j] for i in range(rows) for j in range(4))


def _bits(name: str) -> Any:
    def typed(fragment: Any) -> Any:
        result = tuple_type(name, len(fragment))

        def emit(e: Emitter, value: Any) -> Any:
            kind = e.llvm(result.dtype)
            return e.tuple(result, [e.builder.bitcast(each, kind) for each in e.items(value)])

        return result(fragment), emit

    return typed


@generated(_bits("u32"), literals=False, since=(5, 0))
def fragment_bits(fragment: Fragment) -> Fragment:
    """Return the bits of a fragment's numbers, of 32 bits each, as unsigned integers."""
    return tuple(int(np.asarray(x).view(np.uint32)) for x in fragment)


@generated(_bits("f32"), literals=False, since=(5, 0))
def fragment_floats(words: Fragment) -> Fragment:
    """Return the float32 numbers that have the bits of these words."""
    return tuple(np.array([int(x) & 0xFFFFFFFF], np.uint32).view(np.float32)[0] for x in words)


def _st_global_fragment(pairs: Any, address: Any, pitch: Any, columns: Any) -> Any:
    wide = literal(columns, "columns")

    def emit(e: Emitter, value: Any, line: Any, pitch: Any, _: Any) -> None:
        items = e.items(value)
        step = e.builder.mul(pitch, e.constant(8, e.i64))
        for i in range(len(items) // (2 * wide)):
            for half in range(2):
                for j in range(wide):
                    e.asm(f"st.global.b32 [$0+{16 * j}], $1;", [line, items[2 * (i * wide + j) + half]])
                line = e.builder.add(line, step)

    return types.void(pairs, types.int64, types.int64, columns), emit


@generated(_st_global_fragment, since=(5, 0))
def st_global_fragment(pairs: Fragment, address: int, pitch: int, columns: int) -> None:
    """Store packed sums to a matrix of 16-bit numbers in global memory.

    Args:
        pairs: sums packed by `pack_bf16` or `pack_f16`.
        address: of the thread's first row and column: base + (lane / 4) pitch + 4 (lane % 4).
        pitch: bytes from one row to the next.
        columns: tiles of 8 columns, a constant.
    """
    for k, pair in enumerate(pairs):
        at = int(address) + (k // (2 * columns) * 16 + k % 2 * 8) * int(pitch) + k // 2 % columns * 16
        global_bytes(at, 4).view(np.uint32)[0] = int(pair)


def _pairs(e: Emitter, columns: int, address: Any, pitch: Any, rows: Any, width: Any) -> Any:
    """Yield (tile, half, address, whether it exists) of the neighbours in a fragment, in its order."""
    b = e.builder
    lines = [address, b.add(address, b.mul(pitch, e.constant(8, e.i64)))]
    exists = [b.icmp_signed(">", rows, e.constant(8 * half, e.i64)) for half in range(2)]
    for j in range(columns):
        fits = b.icmp_signed(">", width, e.constant(8 * j, e.i64))
        for half in range(2):
            yield j, half, lines[half], b.zext(b.and_(fits, exists[half]), e.i32)


def _ld_global_part(address: Any, pitch: Any, columns: Any, size: Any, rows: Any, width: Any, repeated: Any) -> Any:
    wide, nbytes = literal(columns, "columns"), literal(size, "size", (4, 8))
    once = literal(repeated, "repeated", (0, 1))
    result = tuple_type("u32", 2 * wide * (nbytes // 4))

    def emit(e: Emitter, address: Any, pitch: Any, _: Any, __: Any, rows: Any, width: Any, ___: Any) -> Any:
        words: list[Any] = []
        count = nbytes // 4
        names = ["$0", "$1"][:count]
        zeros = " ".join(f"mov.b32 {name}, 0;" for name in names)
        place = "{" + ",".join(names) + "}" if count == 2 else "$0"
        for j, half, line, exists in _pairs(e, wide, address, pitch, rows, width):
            if once and half:
                words += words[-count:]
                continue
            text = f"{{ .reg .pred p; setp.ne.b32 p, ${count + 1}, 0; {zeros}"
            text += f" @p ld.global.{'v2.' if count == 2 else ''}b32 {place}, [${count}+{4 * nbytes * j}]; }}"
            words += e.asm_many(text, [line, exists], e.i32, 2) if count == 2 else [e.asm(text, [line, exists], e.i32)]
        return e.tuple(result, words)

    i64 = types.int64
    return result(i64, i64, columns, size, i64, i64, repeated), emit


@generated(_ld_global_part, since=(5, 0))
def ld_global_part(address: int, pitch: int, columns: int, size: int, rows: int, width: int, repeated: int) -> Fragment:
    """Load a matrix in global memory as the words of a fragment of 16 rows. Some rows or columns may not exist.

    Elements of 16 bits make words as `pack_bf16` does, and elements of 32 bits as `fragment_bits` does. Words
    that do not exist are 0.

    Args:
        address: of the thread's first row and column, as in `st_global_fragment`.
        pitch: bytes from one row to the next.
        columns: tiles of 8 columns, a constant.
        size: bytes of two neighbours, 4 or 8, a constant. Addresses are multiples of it.
        rows, width: how many rows and columns of the matrix follow, from the thread's first ones on.
        repeated: 1 if all rows are the first one, a constant; the words of its second row are then not loaded.
    """
    words: list[int] = []
    for j in range(columns):
        for half in range(2):
            at = int(address) + 4 * size * j + (0 if repeated else 8 * half * int(pitch))
            exists = rows > (0 if repeated else 8 * half) and width > 8 * j
            words += [int(x) for x in global_bytes(at, size).view(np.uint32)] if exists else [0] * (size // 4)
    return tuple(words)


def _st_global_part(words: Any, address: Any, pitch: Any, columns: Any, size: Any, rows: Any, width: Any) -> Any:
    wide, nbytes = literal(columns, "columns"), literal(size, "size", (2, 4, 8))

    def emit(e: Emitter, value: Any, address: Any, pitch: Any, _: Any, __: Any, rows: Any, width: Any) -> None:
        items, count = e.items(value), max(nbytes // 4, 1)
        kind = {2: "u16", 4: "b32", 8: "v2.b32"}[nbytes]
        place = "{$2,$3}" if count == 2 else "$2"
        for k, (j, _half, line, exists) in enumerate(_pairs(e, wide, address, pitch, rows, width)):
            text = f"{{ .reg .pred p; setp.ne.b32 p, $1, 0; @p st.global.{kind} [$0+{4 * nbytes * j}], {place}; }}"
            e.asm(text, [line, exists, *items[count * k : count * k + count]])

    i64 = types.int64
    return types.void(words, i64, i64, columns, size, i64, i64), emit


@generated(_st_global_part, since=(5, 0))
def st_global_part(words: Fragment, address: int, pitch: int, columns: int, size: int, rows: int, width: int) -> None:
    """Store the words of a fragment of 16 rows to a matrix in global memory: the reverse of `ld_global_part`.

    With `size` 2, words hold two elements of 8 bits each, as `pack_e4m3` makes them.
    """
    count = max(size // 4, 1)
    for k in range(len(words) // count):
        j, half = k // 2, k % 2
        if rows > 8 * half and width > 8 * j:
            at = int(address) + 4 * size * j + 8 * half * int(pitch)
            values = np.array([int(x) & 0xFFFFFFFF for x in words[count * k : count * k + count]], np.uint32)
            global_bytes(at, size)[:] = values.view(np.uint8)[:size]


def _st_shared_part_8bit(words: Any, address: Any) -> Any:
    def emit(e: Emitter, value: Any, address: Any) -> None:
        for k, word in enumerate(e.items(value)):
            tile, half = k // 2, k % 2
            place = e.builder.xor(address, e.constant(16 * (tile // 2)))
            text = f"{{ .reg .b16 t; cvt.u16.u32 t, $1; st.shared.b16 [$0+{512 * half + 8 * (tile % 2)}], t; }}"
            e.asm(text, [place, word])

    return types.void(words, types.uint32), emit


@generated(_st_shared_part_8bit, literals=False, since=(5, 0))
def st_shared_part_8bit(words: Fragment, address: int) -> None:
    """Store 64 columns of a fragment of 16 rows to shared memory, as rows of 64 bytes with the swizzle of 64 bytes.

    Args:
        words: two elements of 8 bits each, as `pack_e4m3` makes them.
        address: of the thread's first row and column, r = lane / 4: base + 64 r + (16 (r / 2 % 4) + 2 (lane % 4)),
            where the base is a multiple of 512.
    """
    state, number = block(), thread().thread_id
    for k, word in enumerate(words):
        at = (local(address) ^ 16 * (k // 4)) + 512 * (k % 2) + 8 * (k // 2 % 2)
        state.write(slice(at, at + 2), np.array([int(word) & 0xFFFF], np.uint16).view(np.uint8), number, "st_shared")


# ---------------------------------------------------------------- conversions

BF16, F16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)


def _pair(low: Any, high: Any, kind: Any) -> int:
    with np.errstate(over="ignore"):
        values = np.array([low, high], np.float32)
        if kind.itemsize == 1:  # the GPU saturates
            most = float(ml_dtypes.finfo(kind).max)
            values = np.where(np.isnan(values), values, np.clip(values, -most, most))
        return int(values.astype(kind).view(np.uint16 if kind.itemsize == 1 else np.uint32)[0])


@ptx("cvt.rn.bf16x2.f32 $0, $2, $1;", "f32", "f32", result="u32", pure=True, since=(8, 0))
def cvt_bf16x2(low: float, high: float) -> int:
    """Return two float32 as bfloat16 in one word, the first in the low half."""
    return _pair(low, high, BF16)


@ptx("cvt.rn.f16x2.f32 $0, $2, $1;", "f32", "f32", result="u32", pure=True, since=(8, 0))
def cvt_f16x2(low: float, high: float) -> int:
    """Return two float32 as float16 in one word, the first in the low half."""
    return _pair(low, high, F16)


def _cvt_8_bits(name: str) -> str:
    return f"{{ .reg .b16 t; cvt.rn.satfinite.{name}x2.f32 t, $2, $1; cvt.u32.u16 $0, t; }}"


@ptx(_cvt_8_bits("e4m3"), "f32", "f32", result="u32", pure=True, since=(8, 9))
def cvt_e4m3x2(low: float, high: float) -> int:
    """Return two float32 as float8_e4m3fn in the low 16 bits of a word, saturated to ±448."""
    return _pair(low, high, E4M3)


@ptx(_cvt_8_bits("e5m2"), "f32", "f32", result="u32", pure=True, since=(8, 9))
def cvt_e5m2x2(low: float, high: float) -> int:
    """Return two float32 as float8_e5m2 in the low 16 bits of a word, saturated to ±57344."""
    return _pair(low, high, E5M2)


def _pack(name: str) -> Any:
    def typed(fragment: Any) -> Any:
        result = tuple_type("u32", len(fragment) // 2)

        def emit(e: Emitter, value: Any) -> Any:
            items, text = e.items(value), f"cvt.rn.{name}x2.f32 $0, $2, $1;"
            pairs = zip(items[::2], items[1::2], strict=True)
            return e.tuple(result, [e.asm(text, pair, e.i32, pure=True) for pair in pairs])

        return result(fragment), emit

    return typed


def _packed(fragment: Sequence[Any], kind: Any) -> Fragment:
    with np.errstate(over="ignore"):
        return tuple(int(x) for x in np.asarray(fragment, np.float32).astype(kind).view(np.uint32))


def _pack_8_bits(name: str) -> Any:
    def typed(fragment: Any) -> Any:
        result = tuple_type("u32", len(fragment) // 2)

        def emit(e: Emitter, value: Any) -> Any:
            items, text = e.items(value), _cvt_8_bits(name)
            pairs = zip(items[::2], items[1::2], strict=True)
            return e.tuple(result, [e.asm(text, pair, e.i32, pure=True) for pair in pairs])

        return result(fragment), emit

    return typed


@generated(_pack_8_bits("e4m3"), literals=False, since=(8, 9))
def pack_e4m3(fragment: Fragment) -> Fragment:
    """Return neighbours of a float32 fragment as pairs of float8_e4m3fn, in the low 16 bits of words."""
    return tuple(_pair(fragment[k], fragment[k + 1], E4M3) for k in range(0, len(fragment), 2))


@generated(_pack_8_bits("e5m2"), literals=False, since=(8, 9))
def pack_e5m2(fragment: Fragment) -> Fragment:
    """Return neighbours of a float32 fragment as pairs of float8_e5m2, in the low 16 bits of words."""
    return tuple(_pair(fragment[k], fragment[k + 1], E5M2) for k in range(0, len(fragment), 2))


@generated(_pack("bf16"), literals=False, since=(8, 0))
def pack_bf16(fragment: Fragment) -> Fragment:
    """Return neighbours of a float32 fragment as pairs of bfloat16, in 32-bit words."""
    return _packed(fragment, BF16)


@generated(_pack("f16"), literals=False, since=(8, 0))
def pack_f16(fragment: Fragment) -> Fragment:
    """Return neighbours of a float32 fragment as pairs of float16, in 32-bit words."""
    return _packed(fragment, F16)


def _unpack(low: str, high: str) -> Any:
    def typed(words: Any) -> Any:
        result = tuple_type("f32", 2 * len(words))

        def emit(e: Emitter, value: Any) -> Any:
            return e.tuple(result, [e.asm(t, [x], e.f32, pure=True) for x in e.items(value) for t in (low, high)])

        return result(words), emit

    return typed


def _unpacked(words: Sequence[Any], kind: Any) -> Fragment:
    values = np.array([int(x) & 0xFFFFFFFF for x in words], np.uint32).view(kind).astype(np.float32)
    return tuple(values)


@generated(
    _unpack(
        "{ .reg .b32 t; shl.b32 t, $1, 16; mov.b32 $0, t; }",
        "{ .reg .b32 t; and.b32 t, $1, 0xffff0000; mov.b32 $0, t; }",
    ),
    literals=False,
    since=(5, 0),
)
def unpack_bf16(words: Fragment) -> Fragment:
    """Return the two bfloat16 of each word as float32."""
    return _unpacked(words, BF16)


@generated(
    _unpack(
        "{ .reg .b16 l, h; mov.b32 {l, h}, $1; cvt.f32.f16 $0, l; }",
        "{ .reg .b16 l, h; mov.b32 {l, h}, $1; cvt.f32.f16 $0, h; }",
    ),
    literals=False,
    since=(5, 3),
)
def unpack_f16(words: Fragment) -> Fragment:
    """Return the two float16 of each word as float32."""
    return _unpacked(words, F16)
