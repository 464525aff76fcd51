"""float16 and bfloat16 in compiled code on the CPU.

Numba's CPU target has neither. Here both are Numba types, stored as 16-bit integers. An operation converts its operands
to float32, computes, and rounds the result to the nearest value, half to even, as a GPU does. Mixed operands promote as
in numba-cuda: to float32 or float64 with one of these, and to float64 with an integer of more than 16 bits.

`argument` prepares an array or scalar of NumPy or ml_dtypes for a call of compiled code. `as_dtype` gives the
dtype that `np.empty` accepts there.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import PrimitiveModel
from numba.core.errors import TypingError
from numba.core.extending import (
    NativeValue,
    intrinsic,
    lower_builtin,
    lower_cast,
    register_jitable,
    register_model,
    typeof_impl,
    unbox,
)
from numba.core.imputils import lower_constant
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.np.numpy_support import as_dtype as _numba_as_dtype

_I1, _I16, _I32, _I64 = (ir.IntType(n) for n in (1, 16, 32, 64))
_F32, _F64 = ir.FloatType(), ir.DoubleType()


class SmallFloat(types.Number):  # type: ignore[misc]
    """float16 or bfloat16 as a Numba type."""

    def __init__(self, name: str) -> None:
        super().__init__(f"numbacc_{name}")
        self.short = name

    bitwidth = 16

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        """Return how well a value converts to another type."""
        if isinstance(other, types.Float):
            return Conversion.promote if other.bitwidth == 32 else Conversion.safe
        return Conversion.unsafe if isinstance(other, (types.Integer, SmallFloat, types.Complex)) else None

    def can_convert_from(self, typingctx: Any, other: Any) -> Any:
        """Return how well a value of another type converts to this one."""
        return Conversion.unsafe if isinstance(other, (types.Number, types.Boolean)) else None

    def unify(self, typingctx: Any, other: Any) -> Any:
        """Return the type of a variable that holds both types."""
        return promoted(self, other)

    def cast_python_value(self, value: Any) -> Any:
        """Return a Python value as a float."""
        return float(value)


FLOAT16, BFLOAT16 = SmallFloat("float16"), SmallFloat("bfloat16")
register_model(SmallFloat)(
    type("_Model", (PrimitiveModel,), {"__init__": lambda s, m, t: PrimitiveModel.__init__(s, m, t, _I16)})
)


def promoted(a: Any, b: Any) -> Any:
    """Return the type that an operation of two types computes in; None if they cannot be combined."""
    a, b = types.unliteral(a), types.unliteral(b)
    if not isinstance(a, SmallFloat):
        a, b = b, a
    if a == b or isinstance(b, types.Boolean):
        return a
    if isinstance(b, SmallFloat):
        return types.float32
    if isinstance(b, types.Integer):
        return types.float32 if b.bitwidth <= 16 else types.float64
    return b if isinstance(b, (types.Float, types.Complex)) else None


def fits_float32(kind: Any) -> bool:
    """Return whether float32 holds all values of a float type."""
    return isinstance(kind, SmallFloat) or kind == types.float32


_unify_numbers = types.Number.unify


def _unify(self: Any, typingctx: Any, other: Any) -> Any:
    """Unify numbers: Numba's own rule asks NumPy, which fails for the types of this module."""
    return promoted(other, self) if isinstance(other, SmallFloat) else _unify_numbers(self, typingctx, other)


types.Number.unify = _unify  # a variable that holds a float in one branch and a float16 in the other

# ---- from and to NumPy


class Dtype:
    """The dtype of arrays that compiled code makes: `np.empty(n, dtype)`."""

    itemsize = 2

    def __init__(self, kind: SmallFloat):
        self.kind = kind

    def __repr__(self) -> str:
        return f"<{self.kind.short}>"


_DTYPES = {FLOAT16: Dtype(FLOAT16), BFLOAT16: Dtype(BFLOAT16)}


class _Float16Array(np.ndarray[Any, Any]):
    """An array of uint16 that holds float16."""


class _BFloat16Array(np.ndarray[Any, Any]):
    """An array of uint16 that holds bfloat16."""


class _Scalar:
    """A float16 or bfloat16 by its bits."""

    def __init__(self, kind: SmallFloat, bits: int):
        self.kind, self.bits = kind, bits

    def __repr__(self) -> str:
        return f"{self.kind.short}({self.bits:#06x})"


_ARRAYS: dict[Any, Any] = {FLOAT16: _Float16Array, BFLOAT16: _BFloat16Array}


def kind_of(dtype: Any) -> SmallFloat | None:
    """Return the type of a dtype of NumPy or ml_dtypes, of Numba's types or of this module; None for other dtypes."""
    if isinstance(dtype, SmallFloat):
        return dtype
    if isinstance(dtype, Dtype):
        return dtype.kind
    name = (
        dtype.name if isinstance(dtype, np.dtype) else getattr(dtype, "__name__", None) or getattr(dtype, "name", None)
    )
    if not isinstance(name, str) or (callable(dtype) and not isinstance(dtype, (type, types.Type))):
        return None
    return {"float16": FLOAT16, "bfloat16": BFLOAT16, "__nv_bfloat16": BFLOAT16}.get(name)


def as_dtype(kind: Any) -> Any:
    """Return the dtype for `np.empty` in compiled code, from a Numba type or a dtype."""
    small = kind_of(kind)
    if small is not None:
        return _DTYPES[small]
    return _numba_as_dtype(kind) if isinstance(kind, types.Type) else np.dtype(kind)


def argument(value: Any) -> Any:
    """Return an array or scalar for a call of compiled code: float16 and bfloat16 as their bits, others unchanged.

    `numba.typeof` gives the type of the result. Call the function that `dispatcher.compile(types)` returns, because the
    dispatcher itself would treat the array as uint16.
    """
    dtype = getattr(value, "dtype", None)
    if not isinstance(dtype, np.dtype) or dtype.itemsize != 2 or (kind := kind_of(dtype)) is None:
        return value
    if isinstance(value, np.ndarray):
        return value.view(np.uint16).view(_ARRAYS[kind])
    return _Scalar(kind, int(np.asarray(value).view(np.uint16)))


def constructor(value: Any) -> Any:
    """Return the function that converts to a float16 or bfloat16 class or type; None for other classes and types."""
    kind = kind_of(value) if isinstance(value, (type, types.Type, SmallFloat)) else None
    return None if kind is None else {FLOAT16: to_float16, BFLOAT16: to_bfloat16}[kind]


@typeof_impl.register(Dtype)
def _typeof_dtype(value: Dtype, context: Any) -> Any:
    return types.DType(value.kind)


@typeof_impl.register(_Scalar)
def _typeof_scalar(value: _Scalar, context: Any) -> Any:
    return value.kind


def _typeof_array(kind: SmallFloat) -> Callable[[Any, Any], Any]:
    def typeof(value: Any, context: Any) -> Any:
        flags = value.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return types.Array(kind, value.ndim, layout, readonly=not flags.writeable, aligned=flags.aligned)

    return typeof


for _kind, _class in _ARRAYS.items():
    typeof_impl.register(_class)(_typeof_array(_kind))


@lower_constant(SmallFloat)
def _constant(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return _I16(value.bits)


@unbox(SmallFloat)
def _unbox(kind: Any, value: Any, c: Any) -> Any:
    bits = c.pyapi.object_getattr_string(value, "bits")
    number = c.builder.trunc(c.pyapi.number_as_ssize_t(bits), _I16)
    c.pyapi.decref(bits)
    return NativeValue(number, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


# ---- conversions, as LLVM code


def _widened(builder: Any, kind: Any, bits: Any) -> Any:
    """Return 16 bits as the float32 of the same value."""
    x = builder.zext(bits, _I32)
    if kind == BFLOAT16:
        return builder.bitcast(builder.shl(x, _I32(16)), _F32)
    size = builder.and_(x, _I32(0x7FFF))
    sign = builder.shl(builder.and_(x, _I32(0x8000)), _I32(16))
    shifted = builder.shl(size, _I32(13))
    scale = builder.bitcast(_I32(0x77800000), _F32)  # 2**112
    number = builder.bitcast(builder.fmul(builder.bitcast(shifted, _F32), scale), _I32)
    special = builder.icmp_unsigned(">=", size, _I32(0x7C00))
    number = builder.select(special, builder.or_(shifted, _I32(0x7F800000)), number)
    return builder.bitcast(builder.or_(number, sign), _F32)


def _rounded(builder: Any, kind: Any, value: Any) -> Any:
    """Return a float32 rounded to 16 bits, half to even. NaN becomes 0x7fff, as on a GPU."""
    x = builder.bitcast(value, _I32)
    if kind == BFLOAT16:
        odd = builder.and_(builder.lshr(x, _I32(16)), _I32(1))
        number = builder.lshr(builder.add(x, builder.add(odd, _I32(0x7FFF))), _I32(16))
        missing = builder.icmp_unsigned(">", builder.and_(x, _I32(0x7FFFFFFF)), _I32(0x7F800000))
        return builder.trunc(builder.select(missing, _I32(0x7FFF), number), _I16)
    sign = builder.lshr(builder.and_(x, _I32(0x80000000)), _I32(16))
    size = builder.and_(x, _I32(0x7FFFFFFF))
    odd = builder.and_(builder.lshr(size, _I32(13)), _I32(1))
    bias = _I32((0xFFF - (112 << 23)) & 0xFFFFFFFF)
    normal = builder.lshr(builder.add(builder.add(size, bias), odd), _I32(13))
    half_ = _I32(0x3F000000)
    small = builder.fadd(builder.bitcast(size, _F32), builder.bitcast(half_, _F32))
    small = builder.sub(builder.bitcast(small, _I32), half_)
    number = builder.select(builder.icmp_unsigned("<", size, _I32(0x38800000)), small, normal)
    number = builder.select(builder.icmp_unsigned(">=", size, _I32(0x47800000)), _I32(0x7C00), number)
    number = builder.or_(number, sign)
    missing = builder.icmp_unsigned(">", size, _I32(0x7F800000))
    return builder.trunc(builder.select(missing, _I32(0x7FFF), number), _I16)


def _odd(builder: Any, value: Any) -> Any:
    """Return a float64 as float32, rounded to odd, so that a second rounding stays correct."""
    near = builder.fptrunc(value, _F32)
    back = builder.fpext(near, _F64)
    inexact = builder.fcmp_ordered("!=", back, value)
    size = [builder.and_(builder.bitcast(v, _I64), _I64((1 << 63) - 1)) for v in (back, value)]
    above = builder.icmp_unsigned(">", *size)
    bits = builder.bitcast(near, _I32)
    down = builder.select(above, builder.sub(bits, _I32(1)), bits)
    return builder.bitcast(builder.select(inexact, builder.or_(down, _I32(1)), bits), _F32)


@lower_cast(SmallFloat, types.Float)
@lower_cast(SmallFloat, types.Integer)
@lower_cast(SmallFloat, types.Complex)
@lower_cast(SmallFloat, SmallFloat)
@lower_cast(SmallFloat, types.Boolean)
def _from_small(context: Any, builder: Any, source: Any, target: Any, value: Any) -> Any:
    if source == target:
        return value
    wide = _widened(builder, source, value)
    if isinstance(target, types.Boolean):
        return builder.fcmp_unordered("!=", wide, _F32(0.0))
    return context.cast(builder, wide, types.float32, target)


@lower_cast(types.Float, SmallFloat)
def _from_float(context: Any, builder: Any, source: Any, target: Any, value: Any) -> Any:
    return _rounded(builder, target, _odd(builder, value) if source.bitwidth == 64 else value)


@lower_cast(types.Integer, SmallFloat)
@lower_cast(types.Boolean, SmallFloat)
def _from_integer(context: Any, builder: Any, source: Any, target: Any, value: Any) -> Any:
    wide = context.cast(builder, value, source, types.float64)
    return _rounded(builder, target, _odd(builder, wide))


@lower_cast(types.IntegerLiteral, SmallFloat)
@lower_cast(types.BooleanLiteral, SmallFloat)
def _from_literal(context: Any, builder: Any, source: Any, target: Any, value: Any) -> Any:
    number = context.get_constant(types.float64, float(source.literal_value))
    return _rounded(builder, target, _odd(builder, number))


# ---- operators


def _typed(function: Any, result: Callable[[Any], Any], computes: Callable[[Any], Any] = lambda kind: kind) -> None:
    """Register the types of an operator or function.

    Args:
        function: the operator or function.
        result: maps the type that the operation computes in to the type of its result.
        computes: maps the promoted operand type to the type that the operation computes in.
    """

    class Template(AbstractTemplate):  # type: ignore[misc]
        key = function
        metadata = {"target": "cpu"}  # Numba asks these templates before its own, which convert to float32

        def generic(self, args: Any, kws: Any) -> Any:
            kinds = [types.unliteral(a) for a in args]
            if kws or len(kinds) > 2 or not any(isinstance(k, SmallFloat) for k in kinds):
                return None
            kind = kinds[0] if len(kinds) == 1 else promoted(*kinds)
            if kind is None:
                return None
            kind = computes(kind)
            return signature(result(kind), *[kind] * len(kinds))

    infer_global(function)(Template)


def _float32(kind: Any) -> Any:
    return types.float32 if isinstance(kind, SmallFloat) else kind


def _arithmetic(function: Any, instruction: str) -> None:
    def lowered(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        values = [_widened(builder, k, v) for k, v in zip(sig.args, args, strict=True)]
        return _rounded(builder, sig.return_type, getattr(builder, instruction)(*values))

    _typed(function, lambda kind: kind)
    lower_builtin(function, SmallFloat, SmallFloat)(lowered)


def _comparison(function: Any, symbol: str) -> None:
    def lowered(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        compare = builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered
        return compare(symbol, *[_widened(builder, k, v) for k, v in zip(sig.args, args, strict=True)])

    _typed(function, lambda kind: types.boolean)
    lower_builtin(function, SmallFloat, SmallFloat)(lowered)


def _extreme(function: Any, symbol: str) -> None:
    """Register `max` or `min` of two: a number wins over NaN, as on a GPU, and 0.0 is larger than -0.0."""

    def lowered(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a, b = (_widened(builder, k, v) for k, v in zip(sig.args, args, strict=True))
        missing = builder.fcmp_unordered("uno", a, a)
        takes = builder.or_(missing, builder.fcmp_ordered(symbol, b, a))
        negative = builder.icmp_signed("<", args[0] if symbol == ">" else args[1], _I16(0))
        equal = builder.and_(builder.fcmp_ordered("==", a, b), negative)
        return builder.select(builder.or_(takes, equal), args[1], args[0])

    _typed(function, lambda kind: kind)
    lower_builtin(function, SmallFloat, SmallFloat)(lowered)


for _operators, _instruction in (
    ((operator.add, operator.iadd), "fadd"),
    ((operator.sub, operator.isub), "fsub"),
    ((operator.mul, operator.imul), "fmul"),
    ((operator.truediv, operator.itruediv), "fdiv"),
):
    for _operator in _operators:
        _arithmetic(_operator, _instruction)
for _operator, _symbol in (
    (operator.eq, "=="),
    (operator.ne, "!="),
    (operator.lt, "<"),
    (operator.le, "<="),
    (operator.gt, ">"),
    (operator.ge, ">="),
):
    _comparison(_operator, _symbol)
for _operator in (operator.floordiv, operator.ifloordiv, operator.mod, operator.imod, operator.pow, operator.ipow):
    _typed(_operator, _float32, _float32)
_extreme(max, ">")
_extreme(min, "<")


@lower_builtin(operator.neg, SmallFloat)
def _negated(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.xor(args[0], _I16(0x8000))


@lower_builtin(abs, SmallFloat)
@lower_builtin(math.fabs, SmallFloat)
def _absolute(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.and_(args[0], _I16(0x7FFF))


@lower_builtin(operator.pos, SmallFloat)
@lower_builtin(float, SmallFloat)
def _same(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return args[0]


@lower_builtin(bool, SmallFloat)
@lower_builtin(operator.truth, SmallFloat)
def _truth(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.icmp_unsigned("!=", builder.and_(args[0], _I16(0x7FFF)), _I16(0))


@lower_builtin(operator.not_, SmallFloat)
def _not(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.icmp_unsigned("==", builder.and_(args[0], _I16(0x7FFF)), _I16(0))


@lower_builtin(int, SmallFloat)
def _integer(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return context.cast(builder, args[0], sig.args[0], sig.return_type)


for _function in (operator.neg, operator.pos, abs, math.fabs, float):
    _typed(_function, lambda kind: kind)
for _function in (bool, operator.truth, operator.not_):
    _typed(_function, lambda kind: types.boolean)
_typed(int, lambda kind: types.int64)

#: Functions of `math` that return the type of their argument on a GPU; all others convert it to float32.
_MATH = ("trunc", "ceil", "floor", "sqrt", "log", "log2", "log10", "exp", "tanh", "cos", "sin")


def _mathematical(name: str) -> None:
    function = getattr(math, name)
    instruction = name if name in ("trunc", "ceil", "floor") else ""

    def lowered(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        wide = _widened(builder, sig.args[0], args[0])
        if instruction:  # NumPy's functions of these names return integers
            result = builder.call(builder.module.declare_intrinsic(f"llvm.{instruction}", [_F32]), [wide])
        else:
            inner = signature(types.float32, types.float32)
            result = context.get_function(function, inner)(builder, [wide])
        return _rounded(builder, sig.return_type, result)

    _typed(function, lambda kind: kind)
    lower_builtin(function, SmallFloat)(lowered)


for _name in _MATH:
    _mathematical(_name)

# ---- functions that kernels call


def _conversion(kind: SmallFloat) -> Any:
    @intrinsic
    def convert(typingctx: Any, x: Any) -> Any:
        if not isinstance(types.unliteral(x), (types.Number, types.Boolean)):
            raise TypingError(f"{kind.short}(...) needs a number; {x} was given")

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return context.cast(builder, args[0], sig.args[0], kind)

        return kind(x), codegen

    return convert


def _of_bits(kind: Any, bits: Any) -> Any:
    @intrinsic
    def convert(typingctx: Any, x: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return context.cast(builder, args[0], sig.args[0], bits)

        return kind(x), codegen

    return convert


@intrinsic
def bits_of(typingctx: Any, x: Any) -> Any:
    """Return the bits of a float16 or bfloat16 as int16."""
    if not isinstance(x, SmallFloat):
        raise TypingError(f"bits_of needs float16 or bfloat16; {x} was given")
    return types.int16(x), lambda context, builder, sig, args: args[0]


@intrinsic
def like(typingctx: Any, x: Any, other: Any) -> Any:
    """Return x converted to the type of another value."""
    kind = types.unliteral(other)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return context.cast(builder, args[0], sig.args[0], kind)

    return kind(x, other), codegen


@intrinsic
def as_float_of(typingctx: Any, y: Any, x: Any) -> Any:
    """Return y as float32 if float32 holds x, else as float64."""
    kind = types.float32 if fits_float32(types.unliteral(x)) else types.float64

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return context.cast(builder, args[0], sig.args[0], kind)

    return kind(y, x), codegen


@intrinsic
def odd_sum(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the sum of two float64 values, rounded to odd, so that a second rounding stays correct."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a, b = args
        total = builder.fadd(a, b)
        t = builder.fsub(total, a)
        rest = builder.fadd(builder.fsub(a, builder.fsub(total, t)), builder.fsub(b, t))
        inexact = builder.fcmp_ordered("!=", rest, _F64(0.0))
        bits = builder.bitcast(total, _I64)
        above = builder.xor(builder.fcmp_ordered("<", rest, _F64(0.0)), builder.icmp_signed("<", bits, _I64(0)))
        down = builder.or_(builder.select(above, builder.sub(bits, _I64(1)), bits), _I64(1))
        return builder.bitcast(builder.select(inexact, down, bits), _F64)

    return types.float64(a, b), codegen


to_float16, to_bfloat16 = _conversion(FLOAT16), _conversion(BFLOAT16)
float16_of_bits, bfloat16_of_bits = _of_bits(FLOAT16, types.uint16), _of_bits(BFLOAT16, types.uint16)


@register_jitable
def float32_of_bits(x):  # type: ignore[no-untyped-def]
    """Return the float32 value of a float16's bits."""
    return types.float32(float16_of_bits(x))


@register_jitable
def bits_of_float32(x):  # type: ignore[no-untyped-def]
    """Return the bits of the float16 that is nearest to a float32."""
    return bits_of(to_float16(x))  # type: ignore[call-arg]


#: Names of cuda.fp16 and cuda.bf16 with the expression of float32 operands x and y; the result has the operands' type.
_ROUNDED = {
    "hrcp": "1.0 / types.float64(x)", "hrsqrt": "1.0 / math.sqrt(types.float64(x))",
    "hexp2": "math.pow(2.0, types.float64(x))", "hexp10": "math.pow(10.0, types.float64(x))",
    "hrint": "_nearest(x)", "htanh_approx": "math.tanh(x)",
    **{f"h{n}": f"math.{n}(x)" for n in _MATH if n not in ("trunc", "ceil", "floor")},
}  # fmt: skip
#: Names with the expression of the operands themselves.
_PLAIN = {
    "hadd": "a + b", "hsub": "a - b", "hmul": "a * b", "hdiv": "a / b", "hneg": "-a", "habs": "abs(a)",
    "hadd_rn": "a + b", "hsub_rn": "a - b", "hmul_rn": "a * b", "hfma": "_fused(a, b, c)",
    "heq": "a == b", "hne": "a == a and b == b and a != b", "hge": "a >= b",
    "hgt": "a > b", "hle": "a <= b", "hlt": "a < b",
    "hequ": "not a < b and not a > b", "hneu": "a != b", "hgeu": "not a < b", "hgtu": "not a <= b",
    "hleu": "not a > b", "hltu": "not a >= b",
    "hmax": "max(a, b)", "hmin": "min(a, b)", "hmax_nan": "a + b if a != a or b != b else max(a, b)",
    "hmin_nan": "a + b if a != a or b != b else min(a, b)",
    "hadd_sat": "_saturated(a + b)", "hsub_sat": "_saturated(a - b)", "hmul_sat": "_saturated(a * b)",
    "hfma_sat": "_saturated(_fused(a, b, c))", "hfma_relu": "_positive(_fused(a, b, c))",
    "hisnan": "a != a", "hisinf": "_infinite(a)", "htrunc": "math.trunc(a)",
    "hceil": "math.ceil(a)", "hfloor": "math.floor(a)",
}  # fmt: skip


@intrinsic
def _nearest(typingctx: Any, x: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.call(builder.module.declare_intrinsic("llvm.rint", [args[0].type]), args)

    return x(x), codegen


@register_jitable
def _fused(a, b, c):  # type: ignore[no-untyped-def]
    """Return a * b + c rounded once: the product is exact in float64."""
    product = types.float64(a) * types.float64(b)
    return like(odd_sum(product, types.float64(c)), a)  # type: ignore[call-arg]


@register_jitable
def _saturated(x):  # type: ignore[no-untyped-def]
    if not x > like(0.0, x):  # type: ignore[call-arg]
        return like(0.0, x)
    return like(1.0, x) if x > like(1.0, x) else x


@register_jitable
def _positive(x):  # type: ignore[no-untyped-def]
    return like(0.0, x) if x < like(0.0, x) else x  # type: ignore[call-arg]


@register_jitable
def _infinite(x):  # type: ignore[no-untyped-def]
    return types.int32(1 if types.float32(x) == math.inf else -1 if types.float32(x) == -math.inf else 0)


def _functions() -> dict[str, Any]:
    """Return the functions of cuda.fp16 and cuda.bf16 by path."""
    made: dict[str, Any] = {}
    lines = []
    for name, expression in _ROUNDED.items():
        lines.append(f"def {name}(a):\n    x = types.float32(a)\n    return like({expression}, a)")
    for name, expression in _PLAIN.items():
        few = [p for p in "abc" if f"{p} " in expression + " " or f"{p})" in expression or f"{p}," in expression]
        lines.append(f"def {name}({', '.join(few)}):\n    return {expression}")
    space: dict[str, Any] = dict(globals())
    exec(compile("\n".join(lines), "<cuda.fp16>", "exec"), space)
    for name in (*_ROUNDED, *_PLAIN):
        made[f"cuda.fp16.{name}"] = made[f"cuda.bf16.{name}"] = register_jitable(space[name])
    made |= {
        "cuda.fp16.float16": to_float16, "cuda.bf16.bfloat16": to_bfloat16,
        "cuda.bf16.float32_to_bfloat16": to_bfloat16, "cuda.bf16.float64_to_bfloat16": to_bfloat16,
        "cuda.bf16.float32_to_bfloat16_rn": to_bfloat16, "cuda.bf16.bfloat16_to_float32": _to_float32,
        "cuda.bf16.bfloat16_as_int16": bits_of, "cuda.bf16.int16_as_bfloat16": bfloat16_of_bits,
        "cuda.bf16.uint16_as_bfloat16": bfloat16_of_bits,
        **{f"cuda.bf16.{u}int{n}_to_bfloat16_rn": to_bfloat16 for u in ("", "u") for n in (16, 32, 64)},
    }  # fmt: skip
    return made


@register_jitable
def _to_float32(x):  # type: ignore[no-untyped-def]
    return types.float32(x)


#: Path -> function for compiled code.
FUNCTIONS: dict[str, Any] = _functions()
