"""Floats of 8 bits as float32 and back, as LLVM code.

By the GPU's instructions, which take pairs, from compute capability 8.9 on; before, by those that every GPU has, with
the same results. Stored numbers are rounded to the nearest, ties to even; what is beyond the range, infinities too,
becomes the largest finite number, and NaN stays NaN. `base.casts` says the same in NumPy.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ...base._numba import capability_compiled_for, ir
from ...base.dtypes import Conversion, DTypeInfo
from .instructions import assembly

_I8, _I16, _I32 = ir.IntType(8), ir.IntType(16), ir.IntType(32)
_HALF, _FLOAT = ir.HalfType(), ir.FloatType()
#: Bits of a float32's and of a float16's significand that are stored, and what is added to their exponents.
_SINGLE_STORED, _SINGLE_BIAS = 23, 127
_HALF_STORED, _HALF_BIAS = 10, 15
_INFINITY = 0x7F800000
_SIGN, _REST = 0x80, 0x7F


def _instructions(dtype: DTypeInfo) -> Conversion | None:
    """The dtype's instructions; None where the GPU that is compiled for has them not."""
    found = dtype.conversion
    return found if found is not None and capability_compiled_for() >= found.pairs_from else None


def widen(builder: Any, dtype: DTypeInfo, elements: list[Any]) -> list[Any]:
    """Elements, two where the GPU has instructions, as float32. Every number is one exactly."""
    instructions = _instructions(dtype)
    if instructions is None:
        return [_widened(builder, dtype, element) for element in elements]
    pair = _I16(0)
    for k, element in enumerate(elements):
        pair = builder.or_(pair, builder.shl(builder.zext(element, _I16), _I16(8 * k)))
    both = assembly(builder, _I32, instructions.widen, "=r,h", [pair])
    halves = [builder.trunc(builder.lshr(both, _I32(16 * k)), _I16) for k in range(len(elements))]
    return [_of_half(builder, half) for half in halves]


def narrow(builder: Any, dtype: DTypeInfo, numbers: list[Any]) -> list[Any]:
    """float32 numbers, at most two where the GPU has instructions, as elements."""
    instructions = _instructions(dtype)
    if instructions is None:
        return [_narrowed(builder, dtype, number) for number in numbers]
    pair = assembly(builder, _I16, instructions.narrow_pair, "=h,f,f", [numbers[0], numbers[-1]])
    return [builder.trunc(builder.lshr(pair, _I16(8 * k)), _I8) for k in range(len(numbers))]


def _of_half(builder: Any, bits: Any) -> Any:
    """The bits of a float16 as a float32."""
    return assembly(builder, _FLOAT, "cvt.f32.f16 $0, $1;", "=f,h", [bits])


def _widened(builder: Any, dtype: DTypeInfo, element: Any) -> Any:
    """An element as a float16 of the same sign, exponent and significand, whose exponent is put right in float32."""
    limits = ml_dtypes.finfo(dtype.numpy)
    bits = builder.zext(element, _I16)
    sign = builder.shl(builder.and_(bits, _I16(_SIGN)), _I16(8))
    rest = builder.and_(bits, _I16(_REST))
    half = builder.or_(sign, builder.shl(rest, _I16(_HALF_STORED - int(limits.nmant))))
    found = _of_half(builder, half)
    lacking = _HALF_BIAS - (1 - int(limits.minexp))
    if not lacking:  # infinities and NaN are float16's, too
        return found
    found = builder.fmul(found, _FLOAT(2.0**lacking))
    return builder.select(builder.icmp_unsigned("==", rest, _I16(_REST)), _FLOAT(float("nan")), found)


def _narrowed(builder: Any, dtype: DTypeInfo, number: Any) -> Any:
    """A float32 as an element, its magnitude rounded as a whole number of the last place's units."""
    limits = ml_dtypes.finfo(dtype.numpy)
    stored, lowest = int(limits.nmant), int(limits.minexp)
    spare = _SINGLE_STORED - stored
    bits = builder.bitcast(number, _I32)
    magnitude = builder.and_(bits, _I32(0x7FFFFFFF))
    largest = _I32(_bits_of(float(limits.max)))
    within = builder.select(builder.icmp_unsigned("<", magnitude, largest), magnitude, largest)
    # Floats of one exponent and less are as many units apart as their bits are: half a unit is added, a little less
    # where the last place is even.
    odd = builder.and_(builder.lshr(within, _I32(spare)), _I32(1))
    usual = builder.lshr(builder.add(builder.add(within, _I32((1 << spare - 1) - 1)), odd), _I32(spare))
    usual = builder.sub(usual, _I32(_SINGLE_BIAS + lowest - 1 << stored))
    # Below the lowest exponent the unit stays: beside a float32 whose last place it is, the hardware rounds to it.
    beside = 2.0 ** (lowest - stored + _SINGLE_STORED)
    shifted = builder.bitcast(builder.fadd(builder.bitcast(within, _FLOAT), _FLOAT(beside)), _I32)
    small = builder.sub(shifted, _I32(_bits_of(beside)))
    is_small = builder.icmp_unsigned("<", within, _I32(_bits_of(2.0**lowest)))
    found = builder.select(is_small, small, usual)
    found = builder.select(builder.icmp_unsigned(">", magnitude, _I32(_INFINITY)), _I32(_REST), found)
    sign = builder.and_(builder.lshr(bits, _I32(24)), _I32(_SIGN))
    return builder.trunc(builder.or_(found, sign), _I8)


def _bits_of(number: float) -> int:
    return int(np.float32(number).view(np.uint32))
