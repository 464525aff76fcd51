"""Conversions between a dtype's memory format and a kernel's numbers, as LLVM code.

The table's row for a dtype contains all that a new dtype must define.
"""

from __future__ import annotations

from typing import Any

from ...base._numba import capability_compiled_for, ir, types
from ...base.dtypes import DTypeInfo
from . import float8
from .casts import converted, rounded_to_odd
from .instructions import assembly

I16, I32, I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_TYPES = {"float16": ir.HalfType(), "float32": ir.FloatType(), "float64": ir.DoubleType()}
_FLOAT = _TYPES["float32"]


def numba_type(name: str) -> Any:
    """Return Numba's type for a dtype of the table that kernels compute in."""
    return types.boolean if name == "bool" else getattr(types, name)


def number_type(operand: Any) -> Any:
    """Return the type of an operand's elements in a formula."""
    return numba_type(operand.number)


def _bits_type(dtype: DTypeInfo) -> Any:
    """Return the type of one number's bits; a complex element has two."""
    real = f"float{dtype.bits // 2}" if dtype.parts == 2 else dtype.name
    return _TYPES[real] if real in _TYPES and dtype.conversion is None else ir.IntType(dtype.bits // dtype.parts)


def memory_type(dtype: DTypeInfo) -> Any:
    """Return the type of one element in memory."""
    bits = _bits_type(dtype)
    return ir.VectorType(bits, 2) if dtype.parts == 2 else bits


def access_type(dtype: DTypeInfo, count: int) -> Any:
    """Return the type that a load or store of `count` elements moves: 32-bit words, or elements if it is narrower."""
    nbytes = count * dtype.itemsize
    return ir.VectorType(I32, nbytes // 4) if nbytes >= 4 else ir.VectorType(_bits_type(dtype), count)


def moved_type(dtype: DTypeInfo, count: int) -> Any:
    """Return the type that an access of `count` elements moves; for one element, its type in memory."""
    return access_type(dtype, count) if count > 1 else memory_type(dtype)


def widen(context: Any, builder: Any, operand: Any, bits: Any) -> Any:
    """Return an element from memory as a number of the formula."""
    if operand.as_it_is:
        return bits
    return _as_number(context, builder, operand, _number(builder, operand.dtype, bits))


def _number(builder: Any, dtype: DTypeInfo, bits: Any) -> Any:
    """Return an element as a number of the dtype that kernels use for it."""
    if dtype.parts == 2:
        real = bits.type.element
        pair = ir.Constant(ir.LiteralStructType([real, real]), ir.Undefined)
        for k in range(2):
            pair = builder.insert_value(pair, builder.extract_element(bits, I32(k)), k)
        return pair
    if dtype.name == "bool":
        return builder.icmp_unsigned("!=", bits, bits.type(0))
    if dtype.conversion is None:
        return bits
    if dtype.is_scaled:
        return float8.widen(builder, dtype, [bits])[0]
    if not dtype.conversion.widen:
        return builder.bitcast(builder.shl(builder.zext(bits, I32), I32(16)), _FLOAT)
    return assembly(builder, _FLOAT, dtype.conversion.widen, "=f,h", [bits])


def _as_number(context: Any, builder: Any, operand: Any, own: Any) -> Any:
    """Return an operand's number in the type that the formula uses."""
    return converted(context, builder, own, numba_type(str(operand.dtype.number)), number_type(operand))


def unpack(context: Any, builder: Any, operand: Any, vector: Any) -> list[Any]:
    """Return the numbers in the words of one access."""
    dtype, count = operand.dtype, operand.access
    if operand.as_it_is:
        return _elements(builder, dtype, vector, count)
    if dtype.conversion is not None and not dtype.conversion.widen and vector.type.element == I32:
        # bfloat16 is the upper half of a float32: one instruction for each number.
        words = [builder.extract_element(vector, I32(j)) for j in range(vector.type.count)]
        halves = [half for word in words for half in (builder.shl(word, I32(16)), builder.and_(word, I32(0xFFFF0000)))]
        own = [builder.bitcast(half, _FLOAT) for half in halves]
        return [_as_number(context, builder, operand, number) for number in own]
    elements = _elements(builder, dtype, vector, count)
    if dtype.is_scaled:
        own = [n for j in range(0, count, 2) for n in float8.widen(builder, dtype, elements[j : j + 2])]
        return [_as_number(context, builder, operand, number) for number in own]
    return [widen(context, builder, operand, bits) for bits in elements]


def _elements(builder: Any, dtype: DTypeInfo, vector: Any, count: int) -> list[Any]:
    """Return the elements in the words of one access."""
    bits = _bits_type(dtype)
    if vector.type.element == I32 and dtype.itemsize < 4:
        # Shift the elements out of the words: for vectors of small elements the compiler would generate narrower loads.
        # It does the same for shifted integers, unless an opaque instruction forces it to load whole words.
        words = [builder.extract_element(vector, I32(j)) for j in range(vector.type.count)]
        if dtype.conversion is None or dtype.is_scaled:
            words = [assembly(builder, I32, "mov.b32 $0, $1;", "=r,r", [word]) for word in words]
        return [
            builder.trunc(builder.lshr(word, I32(shift)), bits) for word in words for shift in range(0, 32, dtype.bits)
        ]
    items = builder.bitcast(vector, ir.VectorType(bits, count * dtype.parts))
    numbers = [builder.extract_element(items, I32(j)) for j in range(count * dtype.parts)]
    if dtype.parts == 1:
        return numbers
    return [_pair(builder, *numbers[j : j + 2]) for j in range(0, len(numbers), 2)]


def _pair(builder: Any, real: Any, imaginary: Any) -> Any:
    pair = ir.Constant(ir.VectorType(real.type, 2), ir.Undefined)
    pair = builder.insert_element(pair, real, I32(0))
    return builder.insert_element(pair, imaginary, I32(1))


def narrow(context: Any, builder: Any, dtype: DTypeInfo, kind: Any, number: Any) -> Any:
    """Return an element for memory that holds a formula's result of Numba's type `kind`, rounded once.

    If the result is a tuple, its second item says whether the first is stored; otherwise the third, the old value, is.
    """
    if isinstance(kind, types.BaseTuple):
        made, is_stored, kept = (builder.extract_value(number, k) for k in range(3))
        made = narrow(context, builder, dtype, kind[0], made)
        kept = kept if dtype.is_converted else narrow(context, builder, dtype, kind[2], kept)
        return builder.select(is_stored, made, kept)
    direct = _direct(dtype, kind)
    if direct:
        return assembly(builder, I16, direct, "=h,d", [number])
    number = _computed(context, builder, dtype, kind, number)
    if dtype.parts == 2:
        return _pair(builder, *(builder.extract_value(number, k) for k in range(2)))
    if dtype.name == "bool":
        return builder.zext(number, ir.IntType(8))
    if dtype.conversion is None:
        return number
    if dtype.is_scaled:
        return float8.narrow(builder, dtype, [number])[0]
    return assembly(builder, I16, dtype.conversion.narrow, "=h,f", [number])


def _direct(dtype: DTypeInfo, kind: Any) -> str:
    """Return the instruction that converts a result directly, bypassing its compute dtype; "" if none exists."""
    return dtype.conversion.narrow_double if dtype.conversion is not None and kind == types.float64 else ""


def _computed(context: Any, builder: Any, dtype: DTypeInfo, kind: Any, number: Any) -> Any:
    """Return a result in the dtype's compute dtype; if that is wider than the dtype, it is safe to round again."""
    if dtype.conversion is not None:
        return rounded_to_odd(context, builder, number, kind)
    return converted(context, builder, number, kind, numba_type(str(dtype.compute)))


def pack(context: Any, builder: Any, dtype: DTypeInfo, kind: Any, numbers: list[Any]) -> Any:
    """Return the words of one access that hold results."""
    target = access_type(dtype, len(numbers))
    one_by_one = isinstance(kind, types.BaseTuple)
    in_words = target.element == I32 and not _direct(dtype, kind) and not dtype.is_scaled and not one_by_one
    if in_words and dtype.conversion is not None and capability_compiled_for() >= dtype.conversion.pairs_from:
        own = [_computed(context, builder, dtype, kind, number) for number in numbers]
        vector = ir.Constant(target, ir.Undefined)
        for j in range(target.count):
            word = assembly(builder, I32, dtype.conversion.narrow_pair, "=r,f,f", own[2 * j : 2 * j + 2])
            vector = builder.insert_element(vector, word, I32(j))
        return vector
    if dtype.is_scaled and not one_by_one:
        own = [_computed(context, builder, dtype, kind, number) for number in numbers]
        bits = [found for j in range(0, len(own), 2) for found in float8.narrow(builder, dtype, own[j : j + 2])]
    else:
        bits = [narrow(context, builder, dtype, kind, number) for number in numbers]
    if dtype.itemsize < 4 and target.element == I32:
        vector, per = ir.Constant(target, ir.Undefined), 4 // dtype.itemsize
        for j in range(target.count):
            word = I32(0)
            for k, number in enumerate(bits[per * j : per * (j + 1)]):
                word = builder.or_(word, builder.shl(builder.zext(number, I32), I32(dtype.bits * k)))
            vector = builder.insert_element(vector, word, I32(j))
        return vector
    if dtype.parts == 2:
        bits = [builder.extract_element(pair, I32(k)) for pair in bits for k in range(2)]
    items = ir.Constant(ir.VectorType(_bits_type(dtype), len(bits)), ir.Undefined)
    for j, number in enumerate(bits):
        items = builder.insert_element(items, number, I32(j))
    return builder.bitcast(items, target)


def number_of_words(builder: Any, dtype: DTypeInfo, words: Any) -> Any:
    """Return a scalar argument, read from the lowest bits of its next words."""
    kind = _bits_type(dtype)
    size = dtype.bits // dtype.parts
    found = []
    for _ in range(dtype.parts):
        word = next(words)
        bits = word if size == 64 else builder.trunc(word, ir.IntType(size))
        found.append(builder.bitcast(bits, kind))
    if dtype.parts == 2:
        return _number(builder, dtype, _pair(builder, *found))
    return _number(builder, dtype, found[0])


def register_words(builder: Any, number: Any) -> list[Any]:
    """Return the 32-bit words of a number in a register."""
    kind = number.type
    if isinstance(kind, ir.LiteralStructType):  # a complex number
        return [word for k in range(2) for word in register_words(builder, builder.extract_value(number, k))]
    if isinstance(kind, ir.IntType) and kind.width < 32:
        return [builder.zext(number, I32)]
    if kind in (ir.DoubleType(), I64):
        pair = builder.bitcast(number, ir.VectorType(I32, 2))
        return [builder.extract_element(pair, I32(k)) for k in range(2)]
    return [builder.bitcast(number, I32)]


def number_of_registers(builder: Any, words: list[Any], kind: Any) -> Any:
    """Return the number of an LLVM type that these 32-bit words hold."""
    if isinstance(kind, ir.LiteralStructType):
        each, made = len(words) // 2, ir.Constant(kind, ir.Undefined)
        for k, part in enumerate(kind.elements):
            made = builder.insert_value(made, number_of_registers(builder, words[k * each : (k + 1) * each], part), k)
        return made
    if isinstance(kind, ir.IntType) and kind.width < 32:
        return builder.trunc(words[0], kind)
    if len(words) == 1:
        return builder.bitcast(words[0], kind)
    pair = ir.Constant(ir.VectorType(I32, 2), ir.Undefined)
    for k, word in enumerate(words):
        pair = builder.insert_element(pair, word, I32(k))
    return builder.bitcast(pair, kind)
