"""Conversions between 8-bit floats and float32, as LLVM code.

From compute capability 8.9 on they use the GPU's instructions, which convert pairs; older GPUs use generic instructions
with the same results. Stored values are rounded to nearest, ties to even. Values beyond the range, including
infinities, become the largest finite number, and NaN stays NaN. `base.casts` does the same in NumPy.
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
#: Stored bits of the significand of float32 and float16, and their exponent bias.
_SINGLE_STORED, _SINGLE_BIAS = 23, 127
_HALF_STORED, _HALF_BIAS = 10, 15
_INFINITY = 0x7F800000
_SIGN, _REST = 0x80, 0x7F


def _instructions(dtype: DTypeInfo) -> Conversion | None:
    """Return the dtype's instructions; None if the GPU that the code is compiled for lacks them."""
    found = dtype.conversion
    return found if found is not None and capability_compiled_for() >= found.pairs_from else None


def widen(builder: Any, dtype: DTypeInfo, elements: list[Any]) -> list[Any]:
    """Return elements (two if the GPU has instructions) as float32, which represents all of them exactly."""
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
    """Return float32 numbers (at most two if the GPU has instructions) as elements."""
    instructions = _instructions(dtype)
    if instructions is None:
        return [_narrowed(builder, dtype, number) for number in numbers]
    pair = assembly(builder, _I16, instructions.narrow_pair, "=h,f,f", [numbers[0], numbers[-1]])
    return [builder.trunc(builder.lshr(pair, _I16(8 * k)), _I8) for k in range(len(numbers))]


def _of_half(builder: Any, bits: Any) -> Any:
    """Return the bits of a float16 as a float32."""
    return assembly(builder, _FLOAT, "cvt.f32.f16 $0, $1;", "=f,h", [bits])


def _widened(builder: Any, dtype: DTypeInfo, element: Any) -> Any:
    """Return an element as a float32, by way of a float16 with the same bits and a correction of the exponent."""
    limits = ml_dtypes.finfo(dtype.numpy)
    bits = builder.zext(element, _I16)
    sign = builder.shl(builder.and_(bits, _I16(_SIGN)), _I16(8))
    rest = builder.and_(bits, _I16(_REST))
    half = builder.or_(sign, builder.shl(rest, _I16(_HALF_STORED - int(limits.nmant))))
    found = _of_half(builder, half)
    lacking = _HALF_BIAS - (1 - int(limits.minexp))
    if not lacking:  # infinities and NaN are encoded as in float16
        return found
    found = builder.fmul(found, _FLOAT(2.0**lacking))
    return builder.select(builder.icmp_unsigned("==", rest, _I16(_REST)), _FLOAT(float("nan")), found)


def _narrowed(builder: Any, dtype: DTypeInfo, number: Any) -> Any:
    """Return a float32 as an element, with its magnitude rounded in units of the last place."""
    limits = ml_dtypes.finfo(dtype.numpy)
    stored, lowest = int(limits.nmant), int(limits.minexp)
    spare = _SINGLE_STORED - stored
    bits = builder.bitcast(number, _I32)
    magnitude = builder.and_(bits, _I32(0x7FFFFFFF))
    largest = _I32(_bits_of(float(limits.max)))
    within = builder.select(builder.icmp_unsigned("<", magnitude, largest), magnitude, largest)
    # At or above the lowest exponent, adding half a unit to the bits rounds them (a bit less if the last place is
    # even).
    odd = builder.and_(builder.lshr(within, _I32(spare)), _I32(1))
    usual = builder.lshr(builder.add(builder.add(within, _I32((1 << spare - 1) - 1)), odd), _I32(spare))
    usual = builder.sub(usual, _I32(_SINGLE_BIAS + lowest - 1 << stored))
    # Below the lowest exponent the unit is constant: adding a float32 with this last place makes the hardware round to
    # it.
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
