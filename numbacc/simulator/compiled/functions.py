"""Scalar functions that kernels call by CUDA names, for the CPU.

`FUNCTIONS` maps a path such as "cuda.popc" or "cuda.libdevice.rsqrtf" to a function for compiled code. The first lookup
makes the function, and Numba compiles it when a kernel uses it. Arguments are converted to the types that the function
has on a GPU, and results have the GPU's types.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload, overload_method, register_jitable

from . import half

# ---- intrinsics: single instructions, so that a kernel that calls them compiles as fast as one that adds


def _integer(name: str, kind: Any) -> Any:
    kind = types.unliteral(kind)
    if isinstance(kind, types.Boolean):
        return types.int64
    if not isinstance(kind, types.Integer):
        raise TypingError(f"cuda.{name} needs an integer; {kind} was given")
    return kind


def _bit_count(name: str, instruction: str) -> Any:
    """Return the intrinsic of an instruction on the bits of an integer."""

    @intrinsic
    def count(typingctx: Any, x: Any) -> Any:
        kind = _integer(name, x)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = context.cast(builder, args[0], signature.args[0], kind)
            zero_counts = [ir.Constant(ir.IntType(1), 0)] if instruction in ("ctlz", "cttz") else []
            return getattr(builder, instruction)(value, *zero_counts)

        return kind(x), codegen

    return count


@intrinsic
def _ffs(typingctx: Any, x: Any) -> Any:
    """Return the position of the lowest bit that is set, counted from 1; 0 for 0."""
    kind = _integer("ffs", x)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = context.cast(builder, args[0], signature.args[0], kind)
        position = builder.add(builder.cttz(value, ir.Constant(ir.IntType(1), 0)), ir.Constant(value.type, 1))
        found = builder.select(
            builder.icmp_unsigned("==", value, ir.Constant(value.type, 0)), ir.Constant(value.type, 0), position
        )
        return context.cast(builder, found, kind, types.uint32)

    return types.uint32(x), codegen


@intrinsic
def _brev(typingctx: Any, x: Any) -> Any:
    """Return the bits in reverse order: 64 for uint64; else 32, as Numba types it on a GPU."""
    given = _integer("brev", x)
    kind = types.uint64 if given == types.uint64 else types.uint32

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitreverse(context.cast(builder, args[0], signature.args[0], kind))

    return kind(x), codegen


@intrinsic
def _fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once: float32 where all operands fit into it, else float64."""
    small = all(half.fits_float32(types.unliteral(k)) for k in (a, b, c))
    kind = types.float32 if small else types.float64

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = [context.cast(builder, v, t, kind) for v, t in zip(args, signature.args, strict=True)]
        return builder.fma(*values)

    return kind(a, b, c), codegen


@intrinsic
def _selp(typingctx: Any, test: Any, a: Any, b: Any) -> Any:
    """Return a if the test is true, else b. Both are computed."""
    kind = typingctx.unify_types(types.unliteral(a), types.unliteral(b))
    if kind is None:
        raise TypingError(f"cuda.selp needs two values of one type; {a} and {b} were given")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        holds = context.cast(builder, args[0], signature.args[0], types.boolean)
        first, second = (context.cast(builder, args[k], signature.args[k], kind) for k in (1, 2))
        return builder.select(holds, first, second)

    return kind(test, a, b), codegen


def _rounding(name: str) -> Any:
    """Return the intrinsic of LLVM's floor, ceil, trunc, rint (half to even) or round (half away from zero)."""

    @intrinsic
    def rounded(typingctx: Any, x: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = args[0].type
            function = builder.module.declare_intrinsic(f"llvm.{name}", [kind])
            return builder.call(function, [args[0]])

        return x(x), codegen

    return rounded


@intrinsic
def _fmod(typingctx: Any, x: Any, y: Any) -> Any:
    """Return the remainder of a truncating division, as C's fmod does."""
    return x(x, y), lambda context, builder, signature, args: builder.frem(*args)


def _reinterpreted(result: Any) -> Any:
    """Return the intrinsic that gives a number's bits another type of the same size."""

    @intrinsic
    def bits(typingctx: Any, x: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], context.get_value_type(result))

        return result(x), codegen

    return bits


def _high_product(unsigned: bool) -> Any:
    """Return the intrinsic of the upper half of an integer product."""

    @intrinsic
    def product(typingctx: Any, x: Any, y: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            width = args[0].type.width
            wide = ir.IntType(2 * width)
            a, b = ((builder.zext if unsigned else builder.sext)(v, wide) for v in args)
            return builder.trunc(builder.lshr(builder.mul(a, b), ir.Constant(wide, width)), args[0].type)

        return x(x, y), codegen

    return product


def _library(name: str) -> Any:
    """Return the intrinsic that calls a C library function of a float64, or of an int32 and a float64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = [types.float64] if len(args) == 1 else [types.int32, types.float64]
        values = [context.cast(builder, v, t, k) for v, t, k in zip(args, signature.args, kinds, strict=True)]
        kind = ir.FunctionType(ir.DoubleType(), [v.type for v in values])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"numbacc_{name}"), values)

    @intrinsic
    def one(typingctx: Any, x: Any) -> Any:
        return types.float64(x), codegen

    @intrinsic
    def two(typingctx: Any, n: Any, x: Any) -> Any:
        return types.float64(n, x), codegen

    return two if name.endswith("n") else one


def _in_library(name: str) -> bool:
    """Make a function of the C library known to LLVM. Return whether the library has it."""
    for library, prefix in ((None, ""), ("libm.so.6", ""), ("ucrtbase", "_")):
        try:
            address = ctypes.cast(getattr(ctypes.CDLL(library), prefix + name), ctypes.c_void_p).value
        except (OSError, TypeError, AttributeError):
            continue
        llvmlite.binding.add_symbol(f"numbacc_{name}", address)
        return True
    return False


_floor, _ceil, _trunc = _rounding("floor"), _rounding("ceil"), _rounding("trunc")
_rint, _round = _rounding("rint"), _rounding("round")
_fused = _fma
_float_bits, _double_bits = _reinterpreted(types.int32), _reinterpreted(types.int64)
_bits_float, _bits_double = _reinterpreted(types.float32), _reinterpreted(types.float64)
_signed_high, _unsigned_high = _high_product(False), _high_product(True)
_popc, _clz = _bit_count("popc", "ctpop"), _bit_count("clz", "ctlz")

# ---- Python code for compiled code. Constants and casts keep each function in the precision of its arguments.


@register_jitable
def _up(x):  # type: ignore[no-untyped-def]
    """Return the next larger float64; infinity and NaN stay."""
    if math.isnan(x) or x == math.inf:
        return x
    if x == 0.0:
        return 5e-324
    bits = _double_bits(x)
    return _bits_double(bits + 1 if x > 0.0 else bits - 1)


@register_jitable
def _up_float(x):  # type: ignore[no-untyped-def]
    """Return the next larger float32; infinity and NaN stay."""
    if math.isnan(x) or x == math.inf:
        return x
    if x == types.float32(0.0):
        return _bits_float(types.int32(1))
    bits = _float_bits(x)
    return _bits_float(types.int32(bits + 1 if x > types.float32(0.0) else bits - 1))


@register_jitable
def _directed(r, error, mode):  # type: ignore[no-untyped-def]
    """Return a float64 result that was rounded to nearest, rounded down (mode 1), up (2) or toward zero (3) instead.

    `error` has the sign of the exact result minus r.
    """
    down = mode == 1 or (mode == 3 and r > 0.0)
    up = mode == 2 or (mode == 3 and r < 0.0)
    if down and error < 0.0:
        return -_up(-r)
    return _up(r) if up and error > 0.0 else r


@register_jitable
def _directed_float(r, error, mode):  # type: ignore[no-untyped-def]
    """Return `_directed` of float32."""
    down = mode == 1 or (mode == 3 and r > types.float32(0.0))
    up = mode == 2 or (mode == 3 and r < types.float32(0.0))
    if down and error < 0.0:
        return -_up_float(-r)
    return _up_float(r) if up and error > 0.0 else r


@register_jitable
def _beyond(r):  # type: ignore[no-untyped-def]
    """Return the error of a finite computation that overflowed."""
    return -1.0 if r > 0.0 else 1.0


@register_jitable
def _sum(a, b, mode):  # type: ignore[no-untyped-def]
    r = a + b
    if math.isinf(r) and math.isfinite(a) and math.isfinite(b):
        return _directed(r, _beyond(r), mode)
    t = r - a
    return _directed(r, (a - (r - t)) + (b - t), mode)


@register_jitable
def _product(a, b, mode):  # type: ignore[no-untyped-def]
    r = a * b
    if math.isinf(r) and math.isfinite(a) and math.isfinite(b):
        return _directed(r, _beyond(r), mode)
    if math.fabs(r) < 1e-260:  # the error may underflow: scale
        return _directed(
            r,
            _fused(
                a * 1.2676506002282294e30, b * 1.2676506002282294e30, -r * 1.2676506002282294e30 * 1.2676506002282294e30
            ),
            mode,
        )
    return _directed(r, _fused(a, b, -r), mode)


@register_jitable
def _fused_to(a, b, c, mode):  # type: ignore[no-untyped-def]
    """Return a * b + c rounded once. Boldo and Muller, "Exact and approximated error of the FMA" (2011)."""
    r = _fused(a, b, c)
    if math.isinf(r) and math.isfinite(a) and math.isfinite(b) and math.isfinite(c):
        return _directed(r, _beyond(r), mode)
    if not math.isfinite(r):
        return r
    scale = 1.2676506002282294e30 if math.fabs(r) < 1e-260 and math.fabs(c) < 1e-200 else 1.0
    a, c, near = a * scale, c * scale, r * scale
    product = a * b
    low = _fused(a, b, -product)
    part = c + low
    t = part - c
    tail = (c - (part - t)) + (low - t)
    total = product + part
    t = total - product
    rest = (product - (total - t)) + (part - t)
    return _directed(r, ((total - near) + rest) + tail, mode)


@register_jitable
def _quotient(a, b, mode):  # type: ignore[no-untyped-def]
    r = a / b
    if not math.isfinite(a) or not math.isfinite(b) or b == 0.0:
        return r
    if math.isinf(r):
        return _directed(r, _beyond(r), mode)
    scale = 1.2676506002282294e30 if math.fabs(a) < 1e-260 else 1.0
    rest = _fused(-r * scale, b, a * scale)
    return _directed(r, rest if b > 0.0 else -rest, mode)


@register_jitable
def _root(a, mode):  # type: ignore[no-untyped-def]
    r = math.sqrt(a)
    if not math.isfinite(r):
        return r
    scale = 1.2676506002282294e30 if a < 1e-260 else 1.0
    return _directed(r, _fused(-r * scale, r, a * scale), mode)


@register_jitable
def _narrowed(x, mode):  # type: ignore[no-untyped-def]
    """Return a float64 as float32, rounded as the mode says."""
    r = types.float32(x)
    if math.isinf(x):
        return r
    return _directed_float(r, x - types.float64(r), mode)


@register_jitable
def _narrowed_sum(a, b, mode):  # type: ignore[no-untyped-def]
    """Return a + b of float64 as float32 with one rounding, as long as the sum is in range."""
    return _narrowed(half.odd_sum(a, b), mode) if mode != 0 else types.float32(half.odd_sum(a, b))  # type: ignore[call-arg]


@register_jitable
def _narrowed_quotient(a, b, mode):  # type: ignore[no-untyped-def]
    r = types.float32(a / b)
    if mode == 0 or not math.isfinite(a) or not math.isfinite(b) or b == 0.0:
        return r
    if math.isinf(r):
        return _directed_float(r, _beyond(r), mode)
    rest = _fused(-types.float64(r), b, a)
    return _directed_float(r, rest if b > 0.0 else -rest, mode)


@register_jitable
def _narrowed_root(a, mode):  # type: ignore[no-untyped-def]
    r = types.float32(math.sqrt(a))
    if mode == 0 or not math.isfinite(r):
        return r
    return _directed_float(r, _fused(-types.float64(r), types.float64(r), a), mode)


@register_jitable
def _of_long(high, low, mode):  # type: ignore[no-untyped-def]
    """Return a 64-bit integer as float64; high * 2**32 and low are exact in float64."""
    return _sum(high * 4294967296.0, low, mode)


@register_jitable
def _quarter(x):  # type: ignore[no-untyped-def]
    """Return the quarter of the circle that is nearest to pi x, 0 to 3, and the angle from there, for a finite x."""
    r = x - 2.0 * _rint(x / 2.0)
    n = _rint(2.0 * r)
    return types.int64(n) & 3, math.pi * (r - n / 2.0)


@register_jitable
def _cos_pi(x):  # type: ignore[no-untyped-def]
    """Return cos(pi x) in float64."""
    if not math.isfinite(x):
        return math.nan
    quarter, t = _quarter(x)
    if quarter == 0:
        return math.cos(t)
    if quarter == 1:
        return 0.0 - math.sin(t)
    return -math.cos(t) if quarter == 2 else 0.0 + math.sin(t)


@register_jitable
def _sin_pi(x):  # type: ignore[no-untyped-def]
    """Return sin(pi x) in float64."""
    if not math.isfinite(x):
        return math.nan
    quarter, t = _quarter(x)
    if quarter == 0:
        return math.sin(t) if t != 0.0 else math.copysign(0.0, x)
    if quarter == 1:
        return math.cos(t)
    if quarter == 2:
        return -math.sin(t) if t != 0.0 else math.copysign(0.0, x)
    return -math.cos(t)


@register_jitable
def _erfcx(x):  # type: ignore[no-untyped-def]
    """Return exp(x * x) * erfc(x)."""
    if x < 20.0:
        square = x * x
        return math.exp(square) * (1.0 + _fused(x, x, -square)) * math.erfc(x) if x > -27.0 else math.inf
    q = 1.0 / (2.0 * x * x) if x < 1e150 else 0.0  # the asymptotic series
    return (
        1.0
        / (x * 1.7724538509055160273)
        * (1.0 - q * (1.0 - 3.0 * q * (1.0 - 5.0 * q * (1.0 - 7.0 * q * (1.0 - 9.0 * q)))))
    )


@register_jitable
def _erfc_inverse(y):  # type: ignore[no-untyped-def]
    """Return x with erfc(x) = y, by an estimate and steps of Halley's method."""
    if not 0.0 <= y <= 2.0:
        return math.nan
    if y == 0.0 or y == 2.0:
        return math.inf if y == 0.0 else -math.inf
    tail = y if y < 1.0 else 2.0 - y
    if tail > 0.9:
        x = (1.0 - tail) * 0.88622692545275801365
    else:
        t = math.sqrt(-2.0 * math.log(tail / 2.0))
        x = 0.70710678118654752 * (t - (2.30753 + t * 0.27061) / (1.0 + t * (0.99229 + t * 0.04481)))
    for _ in range(4):
        slope = 1.1283791670955126 * math.exp(-x * x)
        step = (math.erfc(x) - tail) / slope if slope > 0.0 else 0.0
        if tail > 0.5:
            step = ((1.0 - tail) - math.erf(x)) / slope
        x += step / (1.0 + x * step)
    return x if y < 1.0 else -x


@register_jitable
def _erf_inverse(y):  # type: ignore[no-untyped-def]
    """Return x with erf(x) = y."""
    if math.fabs(y) > 0.5:
        x = _erfc_inverse(1.0 - math.fabs(y))
        return math.copysign(x, y)
    x = y * 0.88622692545275801365
    for _ in range(4):
        step = (y - math.erf(x)) / (1.1283791670955126 * math.exp(-x * x))
        x += step / (1.0 + x * step)
    return x if y != 0.0 else y


@register_jitable
def _logb(x):  # type: ignore[no-untyped-def]
    if x == 0.0:
        return -math.inf
    if not math.isfinite(x):
        return math.fabs(x)
    return types.float64(math.frexp(x)[1] - 1)


@register_jitable
def _ilogb(x):  # type: ignore[no-untyped-def]
    if x == 0.0 or math.isnan(x):
        return types.int32(-2147483648)
    if math.isinf(x):
        return types.int32(2147483647)
    return types.int32(math.frexp(x)[1] - 1)


@register_jitable
def _power(x, n):  # type: ignore[no-untyped-def]
    """Return x ** n for an integer n."""
    return math.pow(x, types.float64(n))


@register_jitable
def _remainder(x, y):  # type: ignore[no-untyped-def]
    """Return IEEE's remainder of x and y, and the lowest bits of the quotient with its sign."""
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0.0:
        return math.nan, types.int32(0)
    if math.isinf(y):
        return x, types.int32(0)
    size, step = math.fabs(x), math.fabs(y)
    rest = _fmod(size, 8.0 * step) if step < 2e307 else size
    quotient = types.int64(rest / step)
    if quotient * step > rest:
        quotient -= 1
    rest = _fmod(rest, step)
    if rest > step - rest or (rest == step - rest and quotient & 1):
        rest -= step
        quotient += 1
    quotient &= 7
    negative = (x < 0.0) != (y < 0.0)
    signed = rest if math.copysign(1.0, x) > 0.0 else -rest
    return signed, types.int32(-quotient if negative else quotient)


@register_jitable
def _permuted(x, y, selector):  # type: ignore[no-untyped-def]
    """Return four of eight bytes. Each 4 bits of the selector name one byte; the highest of them repeats its sign."""
    source = types.uint64(x) | (types.uint64(y) << types.uint64(32))
    result = types.uint64(0)
    for k in range(4):
        nibble = (types.uint64(selector) >> types.uint64(4 * k)) & types.uint64(15)
        byte = (source >> (types.uint64(8) * (nibble & types.uint64(7)))) & types.uint64(255)
        if nibble & types.uint64(8):
            byte = types.uint64(255) if byte & types.uint64(128) else types.uint64(0)
        result |= byte << types.uint64(8 * k)
    return types.uint32(result)


@register_jitable
def _to_integer(x, lowest, highest, missing):  # type: ignore[no-untyped-def]
    """Return a rounded float as an integer: the nearest bound if out of range, and `missing` for NaN."""
    if math.isnan(x):
        return missing
    if x <= types.float64(lowest):
        return lowest
    return highest if x >= types.float64(highest) else type_as(x, lowest)


@intrinsic
def type_as(typingctx: Any, x: Any, like: Any) -> Any:
    """Return x as the type of another value."""
    kind = types.unliteral(like)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.cast(builder, args[0], signature.args[0], kind)

    return kind(x, like), codegen


# ---- the table of libdevice

#: Letters of types: float64, float32, and integers; capital letters are unsigned inside, signed outside.
_CASTS = {
    "d": "float64({})", "f": "float32({})", "i": "int32({})", "l": "int64({})", "h": "int16({})",
    "U": "uint32(int32({}))", "L": "uint64(int64({}))",
}  # fmt: skip
_RESULTS = {**_CASTS, "U": "int32({})", "L": "int64({})", "": "{}"}

#: Functions of one float with the same name in `math`.
_SAME_AS_MATH = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "exp", "expm1", "fabs", "lgamma",
    "log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
#: Functions of floats that exist as `name` for float64 and `namef` for float32: parameters and expression.
_PAIRS: dict[str, tuple[str, str]] = {
    **{
        n: ("x", f"math.{n}(x)")
        for n in _SAME_AS_MATH
    },
    **{n: ("xy", f"math.{n}(x, y)") for n in ["atan2", "copysign", "fmod", "hypot", "pow"]},
    "ceil": ("x", "_ceil(x)"), "floor": ("x", "_floor(x)"), "trunc": ("x", "_trunc(x)"), "rint": ("x", "_rint(x)"),
    "nearbyint": ("x", "_rint(x)"), "round": ("x", "_round(x)"), "tgamma": ("x", "math.gamma(x)"),
    "exp2": ("x", "math.pow(float64(2.0), float64(x))"), "exp10": ("x", "math.pow(float64(10.0), float64(x))"),
    "cbrt": ("x", "_cbrt(float64(x))"), "rcbrt": ("x", "1.0 / _cbrt(float64(x))"),
    "rsqrt": ("x", "1.0 / math.sqrt(float64(x))"),
    "cospi": ("x", "_cos_pi(float64(x))"), "sinpi": ("x", "_sin_pi(float64(x))"),
    "erfcx": ("x", "_erfcx(float64(x))"), "erfinv": ("x", "_erf_inverse(float64(x))"),
    "erfcinv": ("x", "_erfc_inverse(float64(x))"),
    "normcdf": ("x", "0.5 * math.erfc(float64(x) * -0.70710678118654752440)"),
    "normcdfinv": ("x", "-1.4142135623730950488 * _erfc_inverse(2.0 * float64(x))"),
    "logb": ("x", "_logb(float64(x))"), "fma": ("xyz", "_fused(x, y, z)"),
    "fmod": ("xy", "_fmod(x, y)"),
    "fdim": ("xy", "x - y if x > y else (x + y if x != x or y != y else x - x if x - x == x - x else 0.0)"),
    "fmax": ("xy", "y if x != x or (y > x) or (x == y and math.copysign(1.0, x) < 0.0) else x"),
    "fmin": ("xy", "y if x != x or (y < x) or (x == y and math.copysign(1.0, y) < 0.0) else x"),
    "remainder": ("xy", "_remainder(float64(x), float64(y))[0]"),
}  # fmt: skip

#: Functions with other types: result type, argument types, and expression. {f} is the float type.
_MIXED: dict[str, tuple[str, str, str]] = {
    "ilogb": ("i", "x", "_ilogb(float64(x))"), "powi": ("x", "xi", "_power(float64(x), y)"),
    "ldexp": ("x", "xi", "math.ldexp(float64(x), y)"), "scalbn": ("x", "xi", "math.ldexp(float64(x), y)"),
    "llrint": ("l", "x", f"_to_integer(_rint(float64(x)), int64({-2**63}), int64({2**63 - 1}), int64({-2**63}))"),
    "llround": ("l", "x", f"_to_integer(_round(float64(x)), int64({-2**63}), int64({2**63 - 1}), int64({-2**63}))"),
    "sincos": ("", "x", "({f}(math.sin(x)), {f}(math.cos(x)))"),
    "sincospi": ("", "x", "({f}(_sin_pi(float64(x))), {f}(_cos_pi(float64(x))))"),
    "modf": (
        "", "x", "({f}(math.copysign(x - _trunc(x) if x - x == x - x else (x if x != x else 0.0), x)), _trunc(x))"
    ),
    "frexp": ("", "x", "_frexp(x)"), "remquo": ("", "xy", "_remquo_{f}(x, y)"),
}  # fmt: skip

#: Functions by name: result type, argument types, and the expression of x, y and z.
_OTHERS: dict[str, tuple[str, str, str]] = {
    "abs": ("i", "i", "-x if x < 0 else x"), "llabs": ("l", "l", "-x if x < 0 else x"),
    "max": ("i", "ii", "x if x > y else y"), "min": ("i", "ii", "x if x < y else y"),
    "umax": ("U", "UU", "x if x > y else y"), "umin": ("U", "UU", "x if x < y else y"),
    "llmax": ("l", "ll", "x if x > y else y"), "llmin": ("l", "ll", "x if x < y else y"),
    "ullmax": ("L", "LL", "x if x > y else y"), "ullmin": ("L", "LL", "x if x < y else y"),
    "brev": ("i", "U", "_brev(x)"), "brevll": ("l", "L", "_brev(x)"),
    "clz": ("i", "i", "_clz(x)"), "clzll": ("i", "l", "_clz(x)"),
    "ffs": ("i", "i", "_ffs(x)"), "ffsll": ("i", "l", "_ffs(x)"),
    "popc": ("i", "i", "_popc(x)"), "popcll": ("i", "l", "_popc(x)"),
    "byte_perm": ("i", "UUU", "_permuted(x, y, z)"),
    "mulhi": ("i", "ii", "_signed_high(x, y)"), "umulhi": ("U", "UU", "_unsigned_high(x, y)"),
    "mul64hi": ("l", "ll", "_signed_high(x, y)"), "umul64hi": ("L", "LL", "_unsigned_high(x, y)"),
    "mul24": ("i", "ii", "int64(int32(x << 8) >> 8) * int64(int32(y << 8) >> 8)"),
    "umul24": ("U", "UU", "uint64(x & 0xFFFFFF) * uint64(y & 0xFFFFFF)"),
    "hadd": ("i", "ii", "(int64(x) + int64(y)) >> 1"), "rhadd": ("i", "ii", "(int64(x) + int64(y) + 1) >> 1"),
    "uhadd": ("U", "UU", "(int64(x) + int64(y)) >> 1"), "urhadd": ("U", "UU", "(int64(x) + int64(y) + 1) >> 1"),
    "sad": ("i", "iiU", "abs(int64(x) - int64(y)) + int64(z)"),
    "usad": ("U", "UUU", "abs(int64(x) - int64(y)) + int64(z)"),
    "saturatef": ("f", "f", "float32(0.0) if not x > 0 else (float32(1.0) if x > 1 else x)"),
    "finitef": ("i", "f", "x - x == 0"), "isfinited": ("i", "d", "x - x == 0"),
    "isinff": ("i", "f", "x == math.inf or x == -math.inf"), "isinfd": ("i", "d", "x == math.inf or x == -math.inf"),
    "isnanf": ("i", "f", "x != x"), "isnand": ("i", "d", "x != x"),
    "signbitf": ("i", "f", "math.copysign(1.0, x) < 0"), "signbitd": ("i", "d", "math.copysign(1.0, x) < 0"),
    "nextafter": ("d", "dd", "x + y if x != x or y != y else (y if x == y else (_up(x) if y > x else -_up(-x)))"),
    "nextafterf": (
        "f", "ff", "x + y if x != x or y != y else (y if x == y else (_up_float(x) if y > x else -_up_float(-x)))"
    ),
    "float_as_int": ("i", "f", "_float_bits(x)"), "int_as_float": ("f", "i", "_bits_float(x)"),
    "double_as_longlong": ("l", "d", "_double_bits(x)"), "longlong_as_double": ("d", "l", "_bits_double(x)"),
    "double2hiint": ("i", "d", "_double_bits(x) >> 32"), "double2loint": ("i", "d", "_double_bits(x) & 0xFFFFFFFF"),
    "hiloint2double": ("d", "iU", "_bits_double((int64(x) << 32) | int64(y))"),
    "float2half_rn": ("h", "f", "half.bits_of_float32(x)"), "half2float": ("f", "h", "half.float32_of_bits(x)"),
    "int2double_rn": ("d", "i", "x"), "uint2double_rn": ("d", "U", "x"),
    "frsqrt_rn": ("f", "f", "1.0 / math.sqrt(float64(x))"),
    "fast_fdividef": ("f", "ff", "x / y"), "fast_powf": ("f", "ff", "math.pow(x, y)"),
    "fast_sincosf": ("", "f", "(math.sin(x), math.cos(x))"),
    **{f"fast_{n}f": ("f", "f", f"math.{n}(x)") for n in ["cos", "exp", "log10", "log2", "log", "sin", "tan"]},
    "fast_exp10f": ("f", "f", "math.pow(float64(10.0), float64(x))"),
}  # fmt: skip
_MODES = {"rn": 0, "rd": 1, "ru": 2, "rz": 3}
_ROUND = {"rn": "_rint", "rd": "_floor", "ru": "_ceil", "rz": "_trunc"}


def _rounded() -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yield the functions whose names end with a rounding direction."""
    for end, m in _MODES.items():
        yield f"dadd_{end}", ("d", "dd", f"_sum(x, y, {m})")
        yield f"dmul_{end}", ("d", "dd", f"_product(x, y, {m})")
        yield f"ddiv_{end}", ("d", "dd", f"_quotient(x, y, {m})")
        yield f"drcp_{end}", ("d", "d", f"_quotient(1.0, x, {m})")
        yield f"dsqrt_{end}", ("d", "d", f"_root(x, {m})")
        yield f"fadd_{end}", ("f", "ff", f"_narrowed_sum(float64(x), float64(y), {m})")
        yield f"fsub_{end}", ("f", "ff", f"_narrowed_sum(float64(x), -float64(y), {m})")
        yield f"fmul_{end}", ("f", "ff", f"_narrowed(float64(x) * float64(y), {m})")
        yield f"fdiv_{end}", ("f", "ff", f"_narrowed_quotient(float64(x), float64(y), {m})")
        yield f"frcp_{end}", ("f", "f", f"_narrowed_quotient(1.0, float64(x), {m})")
        yield f"fsqrt_{end}", ("f", "f", f"_narrowed_root(float64(x), {m})")
        yield f"fmaf_{end}", ("f", "fff", f"_narrowed_sum(float64(x) * float64(y), float64(z), {m})")
        yield f"double2float_{end}", ("f", "d", f"_narrowed(x, {m})")
        for name, kind in (("int", "i"), ("uint", "U")):
            yield f"{name}2float_{end}", ("f", kind, f"_narrowed(float64(x), {m})")
        for name, kind in (("ll", "l"), ("ull", "L")):
            whole = "float64(x >> 32), float64(x & 0xFFFFFFFF)"
            if kind == "L":
                whole = "float64(x >> uint64(32)), float64(x & uint64(0xFFFFFFFF))"
            upper, lower = whole.split(", ")
            yield f"{name}2double_{end}", ("d", kind, f"_of_long({whole}, {m})")
            yield f"{name}2float_{end}", ("f", kind, f"_narrowed_sum({upper} * 4294967296.0, {lower}, {m})")
        for source, letter in (("double", "d"), ("float", "f")):
            for target, bits, signed in (("int", 32, True), ("uint", 32, False), ("ll", 64, True), ("ull", 64, False)):
                kind = f"{'' if signed else 'u'}int{bits}"
                low = -(1 << (bits - 1)) if signed else 0
                high = (1 << (bits - signed)) - 1
                missing = 0 if source == "float" and bits == 32 else low if signed else 1 << (bits - 1)
                expression = f"_to_integer({_ROUND[end]}(float64(x)), {kind}({low}), {kind}({high}), {kind}({missing}))"
                result = {(32, True): "i", (32, False): "U", (64, True): "l", (64, False): "L"}[bits, signed]
                yield f"{source}2{target}_{end}", (result, letter, expression)
        yield f"fma_{end}", ("d", "ddd", f"_fused_to(x, y, z, {m})" if m else "_fused(x, y, z)")


def _specifications() -> dict[str, tuple[str, str, str]]:
    """Return the functions of libdevice by name: result type, argument types and expression."""
    out = dict(_OTHERS)
    for ending, letter, kind in (("", "d", "float64"), ("f", "f", "float32")):
        for name, (arguments, expression) in _PAIRS.items():
            out[name + ending] = (letter, letter * len(arguments), expression)
        for name, (result, arguments, expression) in _MIXED.items():
            out[name + ending] = (
                result.replace("x", letter),
                arguments.replace("x", letter).replace("y", letter),
                expression.replace("{f}", kind),
            )
        for name in ("j0", "j1", "y0", "y1", "jn", "yn"):
            if _in_library(name):
                several = name.endswith("n")
                out[name + ending] = (
                    letter,
                    ("i" if several else "") + letter,
                    f"_{name}({'x, y' if several else 'x'})",
                )
    return out | dict(_rounded())


@register_jitable
def _frexp(x):  # type: ignore[no-untyped-def]
    fraction, exponent = math.frexp(x)
    return type_as(fraction, x), types.int32(exponent)


@register_jitable
def _remquo_float64(x, y):  # type: ignore[no-untyped-def]
    return _remainder(x, y)


@register_jitable
def _remquo_float32(x, y):  # type: ignore[no-untyped-def]
    rest, quotient = _remainder(types.float64(x), types.float64(y))
    return types.float32(rest), quotient


@register_jitable
def _cbrt(x):  # type: ignore[no-untyped-def]
    """Return the cube root of a float64: a power, and a step of Newton's method."""
    if x == 0.0 or not math.isfinite(x):
        return x
    fraction, exponent = math.frexp(math.fabs(x))
    third = (exponent + 3000) // 3 - 1000
    fraction = math.ldexp(fraction, exponent - 3 * third)
    root = math.pow(fraction, 0.33333333333333333)
    root -= (_fused(root * root, root, -fraction)) / (3.0 * root * root)
    return math.copysign(math.ldexp(root, third), x)


@register_jitable
def _cuda_cbrt(x):  # type: ignore[no-untyped-def]
    return half.as_float_of(_cbrt(types.float64(x)), x)  # type: ignore[call-arg]


_SPECIFICATIONS = _specifications()


def _made(name: str) -> Any:
    """Return a function of libdevice for compiled code."""
    result, arguments, expression = _SPECIFICATIONS[name]
    parameters = "xyz"[: len(arguments)]
    lines = [f"    {p} = {_CASTS[k].format(p + '_')}" for p, k in zip(parameters, arguments, strict=True)]
    inner = f"libdevice_{name}"
    given = ", ".join(f"{p}_" for p in parameters)
    text = (
        f"def {inner}({given}):\n" + "\n".join(lines) + f"\n    return {_RESULTS[result].format(f'({expression})')}\n"
    )
    space: dict[str, Any] = dict(globals())
    space |= {n: getattr(types, n) for n in ["float32", "float64", "int16", "int32", "int64", "uint32", "uint64"]}
    space |= {f"_{n}": _library(n) for n in ("j0", "j1", "y0", "y1", "jn", "yn") if f"_{n}(" in expression}
    exec(compile(text, f"<cuda.libdevice.{name}>", "exec"), space)
    return register_jitable(space[inner])


@overload_method(types.Integer, "bit_count")
def _bit_count_of(x):  # type: ignore[no-untyped-def]
    """Do what int.bit_count does; Numba for the CPU lacks it."""
    return lambda x: _popc(x)


@overload(math.fmod)
def _math_fmod(x, y):  # type: ignore[no-untyped-def]
    """Do what math.fmod does; Numba for the CPU lacks it."""
    if all(isinstance(types.unliteral(k), (types.Float, types.Integer)) for k in (x, y)):
        if x == y == types.float32:
            return lambda x, y: _fmod(x, y)
        return lambda x, y: _fmod(types.float64(x), types.float64(y))
    return None


@overload(math.remainder)
def _math_remainder(x, y):  # type: ignore[no-untyped-def]
    """Do what math.remainder does; Numba for the CPU lacks it."""
    if all(isinstance(types.unliteral(k), (types.Float, types.Integer)) for k in (x, y)):
        if x == y == types.float32:
            return lambda x, y: types.float32(_remainder(types.float64(x), types.float64(y))[0])
        return lambda x, y: _remainder(types.float64(x), types.float64(y))[0]
    return None


@overload(math.modf)
def _math_modf(x):  # type: ignore[no-untyped-def]
    """Do what math.modf does; Numba for the CPU lacks it."""
    if isinstance(x, types.Float):
        name = "libdevice.modff" if x == types.float32 else "libdevice.modf"
        function = FUNCTIONS[f"cuda.{name}"]
        return lambda x: function(x)
    return None


# ---- vectors: named tuples with the fields x, y, z and w

#: Names of CUDA C for types of elements.
_ALIASES = {
    "int8": ("char",), "int16": ("short",), "int32": ("int",), "int64": ("longlong",), "uint8": ("uchar",),
    "uint16": ("ushort",), "uint32": ("uint",), "uint64": ("ulonglong",), "float32": ("float",), "float64": ("double",),
}  # fmt: skip


def _vector(element: str, count: int) -> Any:
    """Return the function that makes a vector of numbers and smaller vectors."""
    name = f"{element}x{count}"
    made = namedtuple(name, list("xyzw"[:count]))  # type: ignore[misc]
    space = {"made": made, "kind": getattr(types, element)}

    def vector(a, b=None, c=None, d=None):  # type: ignore[no-untyped-def]
        raise NotImplementedError  # compiled code uses the overload

    vector.__name__ = name

    @overload(vector)
    def _overload(a, b=None, c=None, d=None):  # type: ignore[no-untyped-def]
        parts: list[str] = []
        for parameter, given in zip("abcd", (a, b, c, d), strict=True):
            if isinstance(given, types.BaseTuple):
                parts += [f"kind({parameter}[{k}])" for k in range(len(given))]
            elif isinstance(given, (types.Number, types.Boolean)):
                parts.append(f"kind({parameter})")
        if len(parts) != count:
            raise TypingError(f"cuda.{name} needs {count} numbers; {len(parts)} were given")
        exec(f"def make(a, b=None, c=None, d=None):\n    return made({', '.join(parts)})", space)
        return space["make"]

    return vector


def _vectors() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the names of vector types, each with a function that makes its constructor."""
    for element, aliases in _ALIASES.items():
        for count in range(1, 5):
            make = functools.cache(functools.partial(_vector, element, count))
            yield f"{element}x{count}", make
            for alias in aliases:
                yield f"{alias}{count}", make


_DIRECT: dict[str, Callable[[], Any]] = {
    "popc": lambda: _popc, "clz": lambda: _clz, "ffs": lambda: _ffs, "brev": lambda: _brev, "fma": lambda: _fma,
    "selp": lambda: _selp, "cbrt": lambda: _cuda_cbrt,
}  # fmt: skip


class _Functions(Mapping[str, Any]):
    """Functions by path, each made when it is first looked up."""

    def __init__(self) -> None:
        self._makers = {f"cuda.{n}": make for n, make in _DIRECT.items()}
        self._makers |= {f"cuda.{n}": make for n, make in _vectors()}
        self._makers |= {f"cuda.libdevice.{n}": lambda n=n: _made(n) for n in _SPECIFICATIONS}  # type: ignore[misc]
        self._makers |= {path: lambda f=f: f for path, f in half.FUNCTIONS.items()}  # type: ignore[misc]
        self._done: dict[str, Any] = {}

    def __getitem__(self, path: str) -> Any:
        if path not in self._done:
            self._done[path] = self._makers[path]()
        return self._done[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


#: Path -> function for compiled code.
FUNCTIONS: Mapping[str, Any] = _Functions()
