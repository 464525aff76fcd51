"""Products of matrices by warps (ldmatrix, mma.sync) and fragments of `numbacc.device` on a CPU.

Threads meet in these functions, as in a shuffle: each stores its part on a board, and after all have done so, each
reads the parts of the others. A board has the factors as float32 or int32, so that sums need no further conversion.
"""

from __future__ import annotations

import ast
import functools
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable

from . import by_address
from .syntax import EXCHANGE, assignment, duplicate, expression, statements
from .watching import READ

__all__ = ["DEPTHS", "get", "is_known", "load", "multiply", "put", "put_factors", "repeated", "rewritten"]

_MODULES = {
    "numbacc.kernels.primitives.device.matrices": (
        "ldmatrix_x4", "ldmatrix_x4_trans", "ldmatrix_x4_xor", "ldmatrix_x4_trans_xor",
        "mma_bf16", "mma_f16", "mma_tf32", "mma_s8", "mma_u8",
    ),
    "numbacc.kernels.primitives.device.fragments": ("fill_fragment", "unroll"),
}  # fmt: skip
#: Numbers of a factor in a 32-bit word, by the name of the function that multiplies them.
DEPTHS = {"mma_bf16": 2, "mma_f16": 2, "mma_tf32": 1, "mma_s8": 4, "mma_u8": 4}


def is_known(value: Any) -> bool:
    """Return whether a value is a function of `numbacc.device` that this module translates."""
    return getattr(value, "__name__", "") in _MODULES.get(getattr(value, "__module__", ""), ())


def repeated(text: str, count: int) -> str:
    """Return the text of a tuple of one expression. Numba supports no longer ones than 30 elements, but their sums."""
    parts = [f"({f'{text}, ' * min(16, count - k)})" for k in range(0, count, 16)]
    return " + ".join(parts)


# ---------------------------------------------------------------- syntax


def rewritten(normal: Any, node: ast.Call, name: str) -> Any:
    """Return what replaces a call of a function, in a kernel that `normal` rewrites."""
    line, source = node.lineno, normal.source
    if name == "fill_fragment":
        value, count = normal.positional(node, "value", "count")
        number = source.value(value)
        kind = "int32" if isinstance(number, (int, np.integer)) else "float32"
        return expression(repeated(f"_nb_np.{kind}({number!r})", int(source.value(count))), line)
    if name == "unroll":
        function, count, carried, more = normal.positional(node, "function", "count", "carried", "more")
        if not isinstance(more, ast.Tuple):
            raise source.unsupported(line, "device.unroll with a tuple in a variable", "write the tuple in the call")
        made, rest = normal.fresh("carried"), [normal.fresh("more") for _ in more.elts]
        first = [*statements(f"{made} = A", line, A=carried)]
        first += [assignment(n, e, line) for n, e in zip(rest, more.elts, strict=True)]
        for k in range(int(source.value(count))):
            call = expression(f"F({k}, {', '.join([made, *rest])})", line, F=duplicate(function))
            first.append(assignment(made, call, line))
        normal._locals |= {made, *rest}
        normal.hoisted += normal.block(first)
        return expression(made, line)
    result, names = normal.fresh("met"), []
    if name.startswith("mma"):
        for each in normal.in_order(normal.positional(node, "sums", "a", "b")):
            names.append(normal.fresh("factor"))
            normal.hoisted.append(assignment(names[-1], each, line))
        normal.hoisted += statements(f"{result} = {EXCHANGE}({name!r}, {', '.join(names)})", line)
        return expression(result, line)
    address, count, step = normal.positional(node, "address", "count", "step")
    what = f"ldmatrix {int(source.value(count))} {int(source.value(step))} {'trans' in name:d} {'xor' in name:d}"
    normal.by_address = True
    (place,) = normal.in_order([address])
    text = f"{result} = {EXCHANGE}({what!r}, PLACE, {by_address.ADDRESSED})"
    normal.hoisted += statements(text, line, PLACE=place)
    return expression(result, line)


# ---------------------------------------------------------------- code


def _item(context: Any, builder: Any, kind: Any, board: Any, *index: Any) -> Any:
    """Return a pointer to an element of a board."""
    made = context.make_array(kind)(context, builder, board)
    return cgutils.get_item_pointer(context, builder, kind, made, [*index])


def _half(builder: Any, bits: Any) -> Any:
    """Return a float16, given as the bits of a 32-bit word, as float32."""
    word, single = ir.IntType(32), ir.FloatType()
    shifted = builder.shl(builder.and_(bits, word(0x7FFF)), word(13))
    usual = builder.fmul(builder.bitcast(shifted, single), single(2.0**112))
    high = builder.icmp_unsigned(">=", shifted, word(0x0F800000))  # infinity or NaN
    found = builder.select(high, builder.or_(shifted, word(0x7F800000)), builder.bitcast(usual, word))
    sign = builder.shl(builder.and_(bits, word(0x8000)), word(16))
    return builder.bitcast(builder.or_(found, sign), single)


def _numbers(builder: Any, name: str, value: Any) -> list[Any]:
    """Return the numbers in a 32-bit word of a factor, as float32 or int32."""
    word = ir.IntType(32)
    if name == "mma_tf32":  # the tensor cores ignore the lowest 13 bits
        return [builder.bitcast(builder.and_(value, word(0xFFFFE000)), ir.FloatType())]
    if name == "mma_bf16":
        both = builder.shl(value, word(16)), builder.and_(value, word(0xFFFF0000))
        return [builder.bitcast(each, ir.FloatType()) for each in both]
    if name == "mma_f16":
        return [_half(builder, value), _half(builder, builder.lshr(value, word(16)))]
    parts = [builder.trunc(builder.lshr(value, word(8 * k)), ir.IntType(8)) for k in range(4)]
    return [builder.sext(each, word) if name == "mma_s8" else builder.zext(each, word) for each in parts]


@functools.cache
def put_factors(name: str) -> Any:
    """Return the function that stores a thread's words of a factor on a board, as numbers."""

    @intrinsic
    def stores(typingctx: Any, board: Any, slot: Any, words: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind, slot_kind, words_kind = signature.args
            at = context.cast(builder, args[1], slot_kind, types.intp)
            place = 0
            for value, of in zip(cgutils.unpack_tuple(builder, args[2]), words_kind, strict=True):
                for number in _numbers(builder, name, context.cast(builder, value, of, types.uint32)):
                    builder.store(number, _item(context, builder, kind, args[0], at, at.type(place)))
                    place += 1
            return context.get_dummy_value()

        return types.void(board, slot, words), codegen

    return stores


@intrinsic
def put(typingctx: Any, board: Any, slot: Any, values: Any) -> Any:
    """Store a thread's tuple in its row of a board."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, slot_kind, of = signature.args
        at = context.cast(builder, args[1], slot_kind, types.intp)
        for k, value in enumerate(cgutils.unpack_tuple(builder, args[2])):
            number = context.cast(builder, value, of[k], kind.dtype)
            builder.store(number, _item(context, builder, kind, args[0], at, at.type(k)))
        return context.get_dummy_value()

    return types.void(board, slot, values), codegen


@functools.cache
def get(count: int) -> Any:
    """Return the function that reads a thread's row of a board as a tuple."""

    @intrinsic
    def reads(typingctx: Any, board: Any, slot: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind, slot_kind = signature.args
            at = context.cast(builder, args[1], slot_kind, types.intp)
            found = [builder.load(_item(context, builder, kind, args[0], at, at.type(k))) for k in range(count)]
            return context.make_tuple(builder, signature.return_type, found)

        return types.UniTuple(board.dtype, count)(board, slot), codegen

    return reads


@register_jitable
def multiply(sums, a, b, slot, t, per_word):  # type: ignore[no-untyped-def]
    """Add the products of a warp's factors to a thread's sums, as mma.sync does.

    Args:
        sums, a, b: boards.
        slot: the thread's row of these; t: its number in the block.
        per_word: the numbers of a factor in a 32-bit word.
    """
    rows, columns = a.shape[1] // (4 * per_word), b.shape[1] // (2 * per_word)
    lane = t % 32
    first = slot - lane
    if first + 32 > len(sums):  # a GPU needs whole warps
        return
    for i in range(rows):
        for j in range(columns):
            for k in range(4):
                row, column = lane // 4 + k // 2 * 8, lane % 4 * 2 + k % 2
                at = 4 * (i * columns + j) + k
                total = sums[slot, at]
                for half in range(2):
                    left, right = (4 * i + row // 8 + 2 * half) * per_word, (2 * j + half) * per_word
                    for quad in range(4):
                        of_row, of_column = first + row % 8 * 4 + quad, first + column * 4 + quad
                        for part in range(per_word):
                            total += a[of_row, left + part] * b[of_column, right + part]
                sums[slot, at] = total


@functools.cache
def load(count: int, step: int, transposed: int, toggles: int) -> Any:
    """Return the function that loads matrices of 8 x 8 16-bit numbers, given a board with the addresses of rows."""

    def reads(typingctx: Any, board: Any, slot: Any, t: Any, arrays: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kinds = signature.args
            word, part = context.get_value_type(types.int64), context.get_value_type(types.uint32)
            at, thread = (context.cast(builder, args[k], kinds[k], types.intp) for k in (1, 2))
            lane = builder.and_(thread, word(31))
            first, of_row, of_column = builder.sub(at, lane), builder.lshr(lane, word(2)), builder.and_(lane, word(3))
            rows = [of_row]
            if transposed:
                rows = [builder.add(builder.shl(of_column, word(1)), word(k)) for k in range(2)]
            found = []
            for k in range(count):
                for matrix in range(4):
                    value = part(0)
                    for low, row in enumerate(rows):
                        owner = builder.add(first, builder.add(row, word(8 * matrix)))
                        place = builder.load(_item(context, builder, kinds[0], args[0], owner))
                        place = (builder.xor if toggles else builder.add)(place, word(k * step))
                        start = by_address.shared(context, builder, place, types.int64, args[3], kinds[3], 16, READ)
                        if transposed:
                            start = builder.add(start, builder.shl(of_row, word(1)))
                            pointer = builder.inttoptr(start, ir.IntType(16).as_pointer())
                            each = builder.zext(builder.load(pointer), part)
                            value = builder.or_(value, builder.shl(each, part(16 * low)))
                        else:
                            start = builder.add(start, builder.shl(of_column, word(2)))
                            value = builder.load(builder.inttoptr(start, part.as_pointer()))
                    found.append(value)
            return context.make_tuple(builder, signature.return_type, found)

        return types.UniTuple(types.uint32, 4 * count)(board, slot, t, arrays), codegen

    return by_address.of_kernel(reads)
