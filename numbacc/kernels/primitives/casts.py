"""Conversions between dtypes in kernels, as LLVM code.

Numbers are rounded once, to nearest, ties to even. A float becomes an integer by truncation, with saturation, and NaN
becomes 0. `base.casts` does the same in NumPy.
"""

from __future__ import annotations

from typing import Any

from ...base._numba import ir, types
from .instructions import assembly

_I32 = ir.IntType(32)
_FLOAT, _DOUBLE = ir.FloatType(), ir.DoubleType()
#: Bits of a float32's precision.
_PRECISION = 24


def converted(context: Any, builder: Any, number: Any, kind: Any, wanted: Any) -> Any:
    """Return a number of Numba's type `kind` converted to type `wanted`."""
    if kind == wanted:
        return number
    if wanted == types.boolean:
        return _truth(context, builder, number, kind)
    if isinstance(kind, types.Float) and isinstance(wanted, types.Integer):
        return _whole(builder, number, wanted.bitwidth, wanted.signed)
    return context.cast(builder, number, kind, wanted)


def rounded_to_odd(context: Any, builder: Any, number: Any, kind: Any) -> Any:
    """Return a number as the float32 that rounds to fewer bits in the same way as the number itself.

    If it lies between two float32 values, the result is the one whose last bit is set, which is never a midpoint of a
    narrower format.
    """
    if kind == types.float32 or not _is_wide(kind):
        return converted(context, builder, number, kind, types.float32)
    near = assembly(builder, _FLOAT, f"cvt.rz.f32.{_ptx(kind)} $0, $1;", f"=f,{_letter(number.type)}", [number])
    back = converted(context, builder, near, types.float32, kind)
    # Both comparisons are false for NaN.
    compare = builder.fcmp_ordered if isinstance(kind, types.Float) else builder.icmp_signed
    inexact = builder.zext(compare("!=", back, number), _I32)
    return builder.bitcast(builder.or_(builder.bitcast(near, _I32), inexact), _FLOAT)


def _is_wide(kind: Any) -> bool:
    """Return True for a type with values that float32 cannot represent exactly."""
    return kind == types.float64 or (isinstance(kind, types.Integer) and kind.bitwidth > _PRECISION)


def _truth(context: Any, builder: Any, number: Any, kind: Any) -> Any:
    """Return whether a number is not 0; NaN counts as not 0."""
    if isinstance(kind, types.Complex):
        parts = [_truth(context, builder, builder.extract_value(number, k), kind.underlying_float) for k in range(2)]
        return builder.or_(*parts)
    compare = builder.fcmp_unordered if isinstance(kind, types.Float) else builder.icmp_unsigned
    return compare("!=", number, context.get_constant(kind, 0))


def _whole(builder: Any, number: Any, bits: int, signed: bool) -> Any:
    """Return a float as an integer. LLVM leaves out-of-range values undefined, PTX's instruction saturates."""
    word = ir.IntType(max(bits, 32))
    sign, source, target = "s" if signed else "u", number.type, _letter(word)
    text = f"cvt.rzi.{sign}{word.width}.{'f64' if source == _DOUBLE else 'f32'} $0, $1;"
    found = assembly(builder, word, text, f"={target},{_letter(source)}", [number])
    if word.width == 64 or source == _DOUBLE:
        # NaN becomes 0 only in the conversion from float32 to 32 bits.
        found = builder.select(builder.fcmp_unordered("uno", number, number), word(0), found)
    if bits == word.width:
        return found
    compare = builder.icmp_signed if signed else builder.icmp_unsigned
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    found = builder.select(compare("<", found, word(high)), found, word(high))
    if signed:
        found = builder.select(compare(">", found, word(low)), found, word(low))
    return builder.trunc(found, ir.IntType(bits))


def _ptx(kind: Any) -> str:
    """Return PTX's name of float64 or of a wide integer type."""
    if kind == types.float64:
        return "f64"
    return f"{'s' if kind.signed else 'u'}{kind.bitwidth}"


def _letter(register: Any) -> str:
    """Return LLVM's constraint letter for a register."""
    if isinstance(register, ir.IntType):
        return "l" if register.width == 64 else "r"
    return "d" if register == _DOUBLE else "f"
