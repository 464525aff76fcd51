"""Operators that give other results on a GPU than in Numba's CPU code.

* `max` and `min` of two floats return the operand that is not NaN, and 0.0 counts as larger than -0.0.
* A float converted to an integer becomes the nearest integer in range. NaN becomes 0, or the lowest integer.
* A shift by more than the operand's bits gives 0, or all sign bits for a signed operand.

The exponential of float32 is numbacc's own, because LLVM cannot vectorize the C library's.

`NAMES` replaces the functions in the names of generated code. `Compiler` compiles it: the class changes the
instructions that Numba makes, because a kernel converts floats in many places, such as assignments to elements. It also
gives numbacc's scalar functions their numbers in the kernel's dtype, and replaces inline PTX.
"""

from __future__ import annotations

import functools
import math
import operator
from types import CodeType
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core import ir as numba_ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import TypingError
from numba.core.extending import intrinsic, lower_builtin, overload
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering, NopythonRewrites
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.core.untyped_passes import GenericRewrites, InlineClosureLikes

from .ptx import replace_assembly

# ---- max and min


def largest(*values):  # type: ignore[no-untyped-def]
    """Return the largest value, as `max` in a kernel for a GPU; for compiled code."""
    raise NotImplementedError


def smallest(*values):  # type: ignore[no-untyped-def]
    """Return the smallest value, as `min` in a kernel for a GPU; for compiled code."""
    raise NotImplementedError


def whole(value):  # type: ignore[no-untyped-def]
    """Return a number as int64, as `int` in a kernel for a GPU; for compiled code."""
    raise NotImplementedError


def _numbers(args: Any, allowed: tuple[Any, ...]) -> list[Any]:
    """Return the types of arguments without literals; an empty list if one has another class than `allowed`."""
    kinds = [types.unliteral(a) for a in args]
    return kinds if all(isinstance(k, allowed) for k in kinds) else []


def _register_extreme(function: Any, builtin: Any, compare: Any, symbol: str) -> None:
    class Template(AbstractTemplate):  # type: ignore[misc]
        key = function

        def generic(self, args: Any, kws: Any) -> Any:
            kinds = _numbers(args, (types.Float, types.Integer))
            if kws or len(kinds) < 2:
                return None
            result = functools.reduce(self.context.unify_pairs, kinds)
            return None if result is None else signature(result, *kinds)

    def of_floats(builder: Any, a: Any, b: Any) -> Any:
        word = ir.IntType(32 if isinstance(a.type, ir.FloatType) else 64)
        takes = builder.or_(builder.fcmp_ordered(symbol, b, a), builder.fcmp_unordered("uno", a, a))
        bits = [builder.bitcast(v, word) for v in (a, b)]
        joined = builder.and_(*bits) if symbol == ">" else builder.or_(*bits)  # combines zeros of either sign
        equal = builder.fcmp_ordered("==", a, b)
        return builder.select(equal, builder.bitcast(joined, a.type), builder.select(takes, b, a))

    def lowered(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind, found = sig.args[0], args[0]
        for other, value in zip(sig.args[1:], args[1:], strict=True):
            both = context.typing_context.unify_pairs(kind, other)
            a, b = context.cast(builder, found, kind, both), context.cast(builder, value, other, both)
            if len(args) == 2 and all(isinstance(k, types.Float) for k in sig.args):
                return of_floats(builder, a, b)
            # Numba compares all others as Python does, on a GPU, too.
            takes = context.get_function(compare, signature(types.boolean, both, both))(builder, (b, a))
            kind, found = both, builder.select(takes, b, a)
        return context.cast(builder, found, kind, sig.return_type)

    infer_global(function)(Template)
    lower_builtin(function, types.VarArg(types.Any))(lowered)

    @overload(function, strict=False)
    def of_others(*values: Any) -> Any:
        if len(values) == 1:
            return lambda *values: builtin(values[0])
        if len(values) == 2 and not _numbers(values, (types.Float, types.Integer)):
            return lambda *values: builtin(values[0], values[1])
        return None


_register_extreme(largest, max, operator.gt, ">")
_register_extreme(smallest, min, operator.lt, "<")


@infer_global(whole)
class _IntTemplate(AbstractTemplate):  # type: ignore[misc]
    key = whole

    def generic(self, args: Any, kws: Any) -> Any:
        kinds = _numbers(args, (types.Float,))
        return signature(types.int64, *kinds) if len(kinds) == 1 and not kws else None


@lower_builtin(whole, types.Float)
def _of_float(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return context.cast(builder, args[0], sig.args[0], sig.return_type)


@overload(whole, strict=False)
def _of_others(value: Any) -> Any:
    return None if isinstance(value, types.Float) else lambda value: int(value)


@intrinsic
def predicate(typingctx: Any, value: Any) -> Any:
    """Return the predicate of a block's vote as int32. It serves only to find the types of variables."""
    if not isinstance(value, types.Integer):
        raise TypingError(f"cuda.syncthreads_count, _and and _or need an integer, and {value} was given: int(...)")
    return types.int32(value), lambda context, builder, sig, args: context.get_constant(types.int32, 0)


#: Names that mean something else in kernels than in Python, and names of helpers.
@intrinsic
def number(typingctx: Any, value: Any) -> Any:
    """Return a number. Numba fixes the type of a variable that is assigned a global number itself."""
    kind = types.unliteral(value)
    return kind(kind), lambda context, builder, signature, args: args[0]


NAMES: dict[str, Any] = {
    "max": largest, "min": smallest, "int": whole, "_nb_predicate": predicate, "_nb_number": number,
}  # fmt: skip


# ---- instructions


def _convert(instruction: Any) -> None:
    """Give a conversion of a float to an integer the results of a GPU's instruction."""
    value, target = instruction.operands[0], instruction.type
    builder = ir.IRBuilder(instruction.parent)
    builder.position_before(instruction)
    wide = ir.IntType(max(target.width, 16))  # a GPU converts to at least 16 bits
    name = f"llvm.{instruction.opname}.sat.i{wide.width}.{'f32' if isinstance(value.type, ir.FloatType) else 'f64'}"
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(wide, [value.type]), name)
    result = builder.call(function, [value])
    if isinstance(value.type, ir.DoubleType) or wide.width == 64:  # for other types, NaN becomes 0
        missing = builder.fcmp_unordered("uno", value, value)
        result = builder.select(missing, ir.Constant(wide, 1 << (wide.width - 1)), result)
    # Other instructions refer to this one, so it must stay.
    instruction.opname = "trunc" if wide.width > target.width else "bitcast"
    instruction.operands = [result]


def _shift(instruction: Any) -> None:
    """Give a shift by any distance the results of a GPU's instruction."""
    value, distance = instruction.operands
    width = value.type.width
    if isinstance(distance, ir.Constant) and isinstance(distance.constant, int) and 0 <= distance.constant < width:
        return
    builder = ir.IRBuilder(instruction.parent)
    builder.position_before(instruction)
    if width == 64:  # the GPU's shift distance has 32 bits
        distance = builder.and_(distance, ir.Constant(distance.type, 0xFFFFFFFF))
    fits = builder.icmp_unsigned("<", distance, ir.Constant(distance.type, width))
    most = ir.Constant(distance.type, width - 1)
    if instruction.opname == "ashr":
        instruction.operands = [value, builder.select(fits, distance, most)]
    else:
        shifted = getattr(builder, instruction.opname)(value, builder.and_(distance, most))
        instruction.opname, instruction.operands = "and", [shifted, builder.sext(fits, value.type)]


def _define_exp(module: Any) -> None:
    """Define the exponential of float32 that a module declares, if it does, as code that LLVM can vectorize.

    A call of the C library's function takes three times as long. With x = k log(2) + r, exp(x) = 2^k exp(r), and a
    polynomial of degree 8 in double precision gives exp(r) with a relative error of 2e-10.
    """
    function = module.globals.get("llvm.exp.f32")
    if function is None or function.blocks:
        return
    function.name = "_nb_exp"  # calls refer to the function itself
    function.linkage = "internal"
    function.attributes.add("alwaysinline")
    double, word = ir.DoubleType(), ir.IntType(64)
    builder = ir.IRBuilder(function.append_basic_block())
    x = builder.fpext(function.args[0], double)
    low, high = double(-104.0), double(89.0)  # whose exponentials are 0 and infinity in float32
    inside = builder.select(builder.fcmp_ordered("<", x, low), low, x)
    inside = builder.select(builder.fcmp_ordered(">", inside, high), high, inside)
    shift = double(1.5 * 2.0**52)  # an addition rounds to a whole number, which is then in the lower bits
    k = builder.fadd(builder.fmul(inside, double(1 / math.log(2))), shift)
    r = builder.fsub(inside, builder.fmul(builder.fsub(k, shift), double(math.log(2))))
    sum_ = double(1 / math.factorial(8))
    for n in range(7, -1, -1):
        product = builder.fmul(sum_, r, flags=["contract"])
        sum_ = builder.fadd(product, double(1 / math.factorial(n)), flags=["contract"])
    scaled = builder.add(builder.bitcast(sum_, word), builder.shl(builder.bitcast(k, word), word(52)))
    result = builder.fptrunc(builder.bitcast(scaled, double), ir.FloatType())
    is_nan = builder.fcmp_unordered("uno", function.args[0], function.args[0])
    builder.ret(builder.select(is_nan, function.args[0], result))


class _GPULower(Lower):  # type: ignore[misc]
    """Generate LLVM code for a function."""

    def lower_normal_function(self, fndesc: Any) -> None:
        super().lower_normal_function(fndesc)
        _define_exp(self.module)
        replace_assembly(self.context, self.function)
        for block in self.function.blocks:
            for instruction in list(block.instructions):
                name = getattr(instruction, "opname", "")
                if name in ("fptosi", "fptoui") and instruction.type.width <= 64:
                    _convert(instruction)
                elif name in ("shl", "lshr", "ashr"):
                    _shift(instruction)


@register_pass(mutates_CFG=True, analysis_only=False)
class _GPUResults(NativeLowering):  # type: ignore[misc]
    _name = "numbacc_gpu_results"

    @property
    def lowering_class(self) -> Any:
        return _GPULower


@register_pass(mutates_CFG=False, analysis_only=False)
class _NumbersOfDtype(FunctionPass):  # type: ignore[misc]
    """Gives the numbers in a scalar function of numbacc the dtype that the kernel computes in."""

    _name = "numbacc_numbers"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        from ...base.literal_typing import convert_numbers  # there is such a function, so it is loaded

        convert_numbers(state.func_ir, state.args, numba_ir)
        return True


def _needed(passes: list[Any], code: CodeType) -> list[Any]:
    """Return Numba's passes without those for whole-array expressions and closures, which do nothing here."""
    left_out = {NopythonRewrites}
    if not any(isinstance(constant, CodeType) for constant in code.co_consts):
        left_out.add(InlineClosureLikes)
    return [each for each in passes if each[0] not in left_out]


class Compiler(CompilerBase):  # type: ignore[misc]
    """Compiles kernels for the CPU."""

    def define_pipelines(self) -> list[Any]:
        """Return the needed passes, with another one to generate LLVM code."""
        made = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes = _needed(made.passes, self.state.func_id.code)
        made.passes = [(_GPUResults, text) if each is NativeLowering else (each, text) for each, text in passes]
        if hasattr(self.state.func_id.func, "_numbacc_convert"):
            first = [each for each, _ in made.passes].index(GenericRewrites)
            made.passes.insert(first, (_NumbersOfDtype, "numbers in the kernel's dtype"))
        made._finalized = False
        made.finalize()
        return [made]
