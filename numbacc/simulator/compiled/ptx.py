"""Inline PTX on a CPU: each instruction that numbacc's primitives use, as LLVM code.

`replace_assembly` changes a function after Numba has made its LLVM code. The GPU's code of a primitive then runs on a
CPU with other instructions, which `INSTRUCTIONS` lists. Instructions through which threads meet are not among them,
because a function of one thread cannot wait for others: see `intrinsics.on_cpu`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding
from llvmlite import ir

from ...errors import UnsupportedError
from . import half
from .watching import unused, watched

_I1, _I16, _I32, _I64 = (ir.IntType(n) for n in (1, 16, 32, 64))
_F32, _F64 = ir.FloatType(), ir.DoubleType()

#: (builder, operands, type of the result) -> the result; None for an instruction without one.
Instruction = Callable[[Any, Sequence[Any], Any], Any]

# ---------------------------------------------------------------- helpers


def _call(builder: Any, name: str, *operands: Any) -> Any:
    """Return a call of an intrinsic function of LLVM whose operands have one type."""
    kind = operands[0].type
    width = "f32" if kind == _F32 else "f64" if kind == _F64 else f"i{kind.width}"
    function = builder.module.declare_intrinsic(f"llvm.{name}", [kind], ir.FunctionType(kind, [kind] * len(operands)))
    assert function.name.endswith(width)
    return builder.call(function, operands)


def _llvm(name: str) -> Instruction:
    return lambda builder, operands, result: _call(builder, name, *operands)


def _bits(builder: Any, operands: Sequence[Any], result: Any) -> Any:
    """Return the same bits as another type."""
    return builder.bitcast(operands[0], result)


def _reciprocal(builder: Any, value: Any) -> Any:
    return builder.fdiv(value.type(1.0), value)


def _halves(builder: Any, word: Any) -> list[Any]:
    """Return the low and the high 16 bits of a word."""
    return [builder.trunc(builder.lshr(word, _I32(shift)), _I16) for shift in (0, 16)]


def _word(builder: Any, low: Any, high: Any) -> Any:
    """Return the word of two values of 16 bits."""
    wide = [builder.zext(each, _I32) for each in (low, high)]
    return builder.or_(wide[0], builder.shl(wide[1], _I32(16)))


_SMALL = {"f16": half.FLOAT16, "bf16": half.BFLOAT16}


def _rounded(builder: Any, name: str, value: Any) -> Any:
    """Return a float in 16 bits, rounded once."""
    return half._rounded(builder, _SMALL[name], half._odd(builder, value) if value.type == _F64 else value)


# ---------------------------------------------------------------- conversions


def _narrow(match: re.Match[str]) -> Instruction:
    """cvt.rn.f16.f32 and the like; the first of two operands becomes the low half of a word."""
    name = match[1]

    def one(builder: Any, operands: Sequence[Any], result: Any) -> Any:
        return _rounded(builder, name, operands[0])

    def two(builder: Any, operands: Sequence[Any], result: Any) -> Any:
        return _word(builder, *(_rounded(builder, name, each) for each in operands))

    return two if match[2] else one


def _whole(match: re.Match[str]) -> Instruction:
    """cvt.rzi: a float as an integer, saturated; NaN becomes 0, or the lowest integer."""
    sign, width = match[1], int(match[2])

    def convert(builder: Any, operands: Sequence[Any], result: Any) -> Any:
        (value,), word = operands, ir.IntType(width)
        source = "f32" if value.type == _F32 else "f64"
        name = f"llvm.fpto{sign}i.sat.i{width}.{source}"
        kind = ir.FunctionType(word, [value.type])
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        found = builder.call(function, [value])
        if width == 64 or source == "f64":
            missing = builder.fcmp_unordered("uno", value, value)
            found = builder.select(missing, word(1 << width - 1), found)
        return found

    return convert


def _toward_zero(match: re.Match[str]) -> Instruction:
    """cvt.rz.f32: a number as float32, rounded toward zero."""

    def convert(builder: Any, operands: Sequence[Any], result: Any) -> Any:
        (value,) = operands
        if value.type == _F64:
            near = builder.fptrunc(value, _F32)
            sizes = [_call(builder, "fabs", each) for each in (builder.fpext(near, _F64), value)]
            beyond = builder.fcmp_ordered(">", *sizes)
            bits = builder.bitcast(near, _I32)
            return builder.bitcast(builder.select(beyond, builder.sub(bits, _I32(1)), bits), _F32)
        signed = match[1][0] == "s"
        negative = builder.icmp_signed("<", value, value.type(0)) if signed else _I1(0)
        wide = ir.IntType(128)  # for the float32 2^64
        size = builder.zext(builder.select(negative, builder.neg(value), value), wide)
        near = builder.uitofp(size, _F32)
        bits = builder.bitcast(near, _I32)
        beyond = builder.icmp_unsigned(">", builder.fptoui(near, wide), size)
        near = builder.bitcast(builder.select(beyond, builder.sub(bits, _I32(1)), bits), _F32)
        return builder.select(negative, builder.fneg(near), near)

    return convert


# ---------------------------------------------------------------- pairs of 16 bits


def _pairwise(of_halves: Callable[[Any, Any, Any], Any]) -> Instruction:
    """Return the instruction that combines the low and the high halves of two words."""

    def convert(builder: Any, operands: Sequence[Any], result: Any) -> Any:
        pairs = zip(*(_halves(builder, each) for each in operands), strict=True)
        return _word(builder, *(of_halves(builder, *pair) for pair in pairs))

    return convert


def _extreme_of_halves(match: re.Match[str]) -> Instruction:
    """max.NaN.f16x2, min.NaN.bf16x2: NaN if one of the two is."""
    symbol, kind = (">" if match[1] == "max" else "<"), _SMALL[match[2]]

    def choose(builder: Any, one: Any, other: Any) -> Any:
        a, b = (half._widened(builder, kind, each) for each in (one, other))
        equal = builder.fcmp_ordered("==", a, b)  # of zeros, the maximum is 0.0 and the minimum -0.0
        zero = builder.and_(one, other) if symbol == ">" else builder.or_(one, other)
        chosen = builder.select(builder.fcmp_ordered(symbol, a, b), one, other)
        missing = builder.fcmp_unordered("uno", a, b)
        return builder.select(missing, _I16(0x7FFF), builder.select(equal, zero, chosen))

    return _pairwise(choose)


def _set_of_halves(match: re.Match[str]) -> Instruction:
    """set.eq.u32.f16x2, set.nan.u32.bf16x2: all bits of a half where the comparison holds."""
    how, kind = match[1], _SMALL[match[2]]

    def compare(builder: Any, one: Any, other: Any) -> Any:
        a, b = (half._widened(builder, kind, each) for each in (one, other))
        holds = builder.fcmp_unordered("uno", a, b) if how == "nan" else builder.fcmp_ordered("==", a, b)
        return builder.sext(holds, _I16)

    return _pairwise(compare)


def _turned(builder: Any, operands: Sequence[Any], result: Any) -> Any:
    return _word(builder, *reversed(_halves(builder, operands[0])))


def _shift_to_first(builder: Any, operands: Sequence[Any], result: Any) -> Any:
    """bfind.shiftamt: the distance of the highest bit from the left; all bits for 0."""
    (word,) = operands
    count = builder.ctlz(word, _I1(0))
    return builder.select(builder.icmp_unsigned("==", word, _I32(0)), _I32(-1), count)


# ---------------------------------------------------------------- arithmetic


def _extreme(symbol: str) -> Instruction:
    """max.NaN and min.NaN of float32."""

    def choose(builder: Any, operands: Sequence[Any], result: Any) -> Any:
        x, y = operands
        own = builder.or_(builder.fcmp_ordered(symbol, x, y), builder.fcmp_unordered("uno", x, x))
        return builder.select(own, x, y)

    return choose


#: The letters of registers for floats in inline assembly, by architectures.
_REGISTERS = {"x86_64": "x", "aarch64": "w", "arm64": "w"}


def _rounded_twice(builder: Any, operands: Sequence[Any], result: Any) -> Any:
    """x y + z, where the product is rounded, too."""
    x, y, z = operands
    return builder.fadd(_rounded_product(builder, [x, y], result), z)


def _rounded_product(builder: Any, operands: Sequence[Any], result: Any) -> Any:
    """x y, which the compiler does not combine with a sum."""
    product = builder.fmul(*operands)
    letter = _REGISTERS.get(llvmlite.binding.get_process_triple().partition("-")[0])
    if letter is None:
        return product
    kind = ir.FunctionType(product.type, [product.type])
    return builder.call(ir.InlineAsm(kind, "", f"={letter},0"), [product])


def _exponential(builder: Any, operands: Sequence[Any], result: Any) -> Any:
    """e^x as 2^(x log2 e)."""
    return _call(builder, "exp2", builder.fmul(operands[0], _F32(1.4426950216293335)))


def _tanh(builder: Any, operands: Sequence[Any], result: Any) -> Any:
    """tanh x = 1 - 2 / (e^2x + 1), in float64; x if it is small."""
    (x,) = operands
    most = _F64(20.0)
    wide = _call(builder, "minnum", _call(builder, "maxnum", builder.fpext(x, _F64), _F64(-20.0)), most)
    power = _call(builder, "exp", builder.fmul(wide, _F64(2.0)))
    found = builder.fdiv(builder.fsub(power, _F64(1.0)), builder.fadd(power, _F64(1.0)))
    small = builder.fcmp_ordered("<", _call(builder, "fabs", x), _F32(2.0**-13))
    keeps = builder.or_(small, builder.fcmp_unordered("uno", x, x))
    return builder.select(keeps, x, builder.fptrunc(found, _F32))


def _stepped(builder: Any, operands: Sequence[Any], result: Any) -> Any:
    """Add an integer, given as a float, to a float's bits."""
    x, n = operands
    word = _I32 if x.type == _F32 else _I64
    step = builder.fptosi(_call(builder, "rint", n), word)
    return builder.bitcast(builder.add(builder.bitcast(x, word), step), x.type)


def _exponent_of_bits(builder: Any, operands: Sequence[Any], result: Any) -> Any:
    return builder.bitcast(builder.shl(builder.bitcast(operands[0], _I32), _I32(23)), _F32)


def _scaled_by_bits(builder: Any, operands: Sequence[Any], result: Any) -> Any:
    x, n = (builder.bitcast(each, _I32) for each in operands)
    return builder.bitcast(builder.add(x, builder.shl(n, _I32(23))), _F32)


def _product(high: bool) -> Instruction:
    """A half of the product of two integers in twice their bits."""

    def multiply(builder: Any, operands: Sequence[Any], result: Any) -> Any:
        width = result.width
        wide = ir.IntType(2 * width)
        found = builder.mul(*(builder.zext(each, wide) for each in operands))
        return builder.trunc(builder.lshr(found, wide(width)) if high else found, result)

    return multiply


def _place(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _counted(builder: Any, operands: Sequence[Any], result: Any) -> Any:
    """Increment a counter that all blocks share."""
    return builder.atomic_rmw("add", _place(builder, operands[0], _I32), _I32(1), "monotonic")


def _published(builder: Any, operands: Sequence[Any], result: Any) -> Any:
    """Load one word or two that other blocks write."""
    count = 1 if result == _I64 else 2
    words = []
    for k in range(count):
        pointer = _place(builder, builder.add(operands[0], _I64(8 * k)), _I64)
        words.append(builder.load_atomic(pointer, "acquire", 8))
    if count == 1:
        return words[0]
    both = ir.Constant(result, ir.Undefined)
    for k, word in enumerate(words):
        both = builder.insert_value(both, word, k)
    return both


def _publish(builder: Any, operands: Sequence[Any], result: Any) -> Any:
    """Store words that other blocks read."""
    first, *words = operands
    for k, word in enumerate(words):
        builder.store_atomic(word, _place(builder, builder.add(first, _I64(8 * k)), _I64), "release", 8)


def _vector_of(builder: Any, address: Any, word: Any, count: int, holds: Any) -> Any:
    """Return a pointer to words in memory if a condition holds, else to memory that nobody uses."""
    kind = ir.VectorType(word, count) if count > 1 else word
    nowhere = unused(builder)
    if nowhere is None:
        name = "numbacc_unused"
        held = builder.module.globals.get(name)
        if held is None:
            held = ir.GlobalVariable(builder.module, ir.ArrayType(_I64, 2), name)
            held.linkage, held.align = "internal", 16
            held.initializer = ir.Constant(held.value_type, None)
        nowhere = builder.ptrtoint(held, _I64)
    return _place(builder, builder.select(holds, address, nowhere), kind)


def _words(builder: Any, found: Any, result: Any) -> Any:
    """Return a vector's words as the result of an instruction."""
    if not isinstance(result, ir.LiteralStructType):
        return found
    words = ir.Constant(result, ir.Undefined)
    for k in range(len(result.elements)):
        words = builder.insert_value(words, builder.extract_element(found, _I32(k)), k)
    return words


def _load(builder: Any, operands: Sequence[Any], result: Any) -> Any:
    """Load words, or zeros if an operand that follows the address is 0."""
    address, *condition = operands
    count = len(result.elements) if isinstance(result, ir.LiteralStructType) else 1
    word = result.elements[0] if count > 1 else result
    holds = builder.icmp_unsigned("!=", condition[0], _I32(0)) if condition else _I1(1)
    pointer = _vector_of(builder, address, word, count, holds)
    found = builder.load(pointer, align=count * word.width // 8)
    return _words(builder, builder.select(holds, found, ir.Constant(found.type, None)), result)


def _load_in_image(builder: Any, operands: Sequence[Any], result: Any) -> Any:
    """Load the element at an offset of 16-bit elements if a row is inside the image, else 0."""
    first, offset, row, rows = operands
    address = builder.add(first, builder.shl(builder.sext(offset, _I64), _I64(1)))
    return _load(builder, [address, builder.zext(builder.icmp_unsigned("<", row, rows), _I32)], result)


def _store(builder: Any, operands: Sequence[Any], result: Any) -> None:
    """Store words if the operand before them is not 0."""
    address, condition, *words = operands
    holds = builder.icmp_unsigned("!=", condition, _I32(0))
    pointer = _vector_of(builder, address, words[0].type, len(words), holds)
    value = words[0]
    if len(words) > 1:
        value = ir.Constant(pointer.type.pointee, ir.Undefined)
        for k, word in enumerate(words):
            value = builder.insert_element(value, word, _I32(k))
    builder.store(value, pointer, align=len(words) * words[0].type.width // 8)


_IF = r"\{\.reg \.pred %p0; setp\.ne\.b32 %p0, \$\d+, 0; @%p0 "


def _nothing(builder: Any, operands: Sequence[Any], result: Any) -> Any:
    """An instruction that only keeps a compiler from changing code."""


#: (pattern of the text, function from a match to the instruction). Space in texts is one blank.
INSTRUCTIONS: Sequence[tuple[str, Callable[[re.Match[str]], Instruction]]] = (
    ("", lambda match: _nothing),
    (r"mov\.b(?:16|32|64) \$0, \$1;", lambda match: _bits),
    (r"cvt\.f32\.(f16) \$0, \$1;", lambda match: lambda b, args, r: half._widened(b, _SMALL[match[1]], args[0])),
    (r"cvt\.rn\.(b?f16)(x2)?\.f(?:32|64) \$0, (?:\$2, )?\$1;", _narrow),
    (r"cvt\.rzi\.([su])(32|64)\.f(?:32|64) \$0, \$1;", _whole),
    (r"cvt\.rz\.f32\.(f64|[su](?:32|64)) \$0, \$1;", _toward_zero),
    (r"(max|min)\.NaN\.(b?f16)x2 \$0, \$1, \$2;", _extreme_of_halves),
    (r"set\.(eq|nan)\.u32\.(b?f16)x2 \$0, \$1, \$2;", _set_of_halves),
    (r"prmt\.b32 \$0, \$1, \$1, 0x1032;", lambda match: _turned),
    (r"bfind\.shiftamt\.u32 \$0, \$1;", lambda match: _shift_to_first),
    (r"add\.s64 \$0, \$1, 1;", lambda match: lambda b, args, r: b.add(args[0], _I64(1))),
    (r"add\.u64 \$0, \$1, \$2;", lambda match: lambda b, args, r: b.add(*args)),
    (r"add\.f32 \$0, \$1, \$2;", lambda match: lambda b, args, r: b.fadd(*args)),
    (r"atom\.relaxed\.gpu\.global\.add\.u32 \$0, \[\$1\], 1;", lambda match: _counted),
    (r"ld\.relaxed\.gpu\.global\.(?:v2\.)?u64 .*;", lambda match: _published),
    (r"st\.relaxed\.gpu\.global\.(?:v2\.)?u64 .*;", lambda match: _publish),
    (rf"(?:mov\.b(?:16|32) \$\d+, 0; )+{_IF}ld\.global(?:\.nc)?\.(?:v\d\.)?b(?:16|32) [^;]*; \}}", lambda match: _load),
    (rf"{_IF}st\.global\.(?:v\d\.)?b(?:16|32) [^;]*; \}}", lambda match: _store),
    (r"\{.* setp\.lt\.u32 %p0, \$3, \$4; mad\.wide\.s32 %rd0, \$2, 2, \$1; .*\}", lambda match: _load_in_image),
    (r"ld\.global\.nc\.v\d\.b32 \{.*\}, \[\$\d\];", lambda match: _load),
    (r"mov\.b32 \$0, \{\$1, \$2\};", lambda match: lambda b, args, r: _word(b, *args)),
    (r"mul\.(?:wide\.u32|lo\.u64) \$0, \$1, \$2;", lambda match: _product(False)),
    (r"mul\.hi\.u64 \$0, \$1, \$2;", lambda match: _product(True)),
    (r"fma\.rn\.f(?:32|64) \$0, \$1, \$2, \$3;", lambda match: _llvm("fma")),
    (r"\{ \.reg \.f(32|64) t; mul\.rn\.f\1 t, .* add\.rn\.f\1 .*\}", lambda match: _rounded_twice),
    (r"max\.NaN\.f32 \$0, \$1, \$2;", lambda match: _extreme(">")),
    (r"min\.NaN\.f32 \$0, \$1, \$2;", lambda match: _extreme("<")),
    (r"\{ \.reg \.f32 t; mul\.ftz\.f32 t, \$1, 0f3FB8AA3B; ex2\..*\}", lambda match: _exponential),
    (r"ex2\.approx\.ftz\.f32 \$0, \$1;", lambda match: _llvm("exp2")),
    (r"lg2\.approx\.ftz\.f32 \$0, \$1;", lambda match: _llvm("log2")),
    (r"rcp\.approx(?:\.ftz)?\.f(?:32|64) \$0, \$1;", lambda match: lambda b, args, r: _reciprocal(b, args[0])),
    (
        r"rsqrt\.approx(?:\.ftz)?\.f(?:32|64) \$0, \$1;",
        lambda match: lambda b, args, r: _reciprocal(b, _call(b, "sqrt", args[0])),
    ),
    (r"rcp\.rn\.f32 \$0, \$1;", lambda match: lambda b, args, r: _reciprocal(b, args[0])),
    (r"sqrt\.rn\.f32 \$0, \$1;", lambda match: _llvm("sqrt")),
    (r"add\.rn\.f32 \$0, \$1, \$2;", lambda match: lambda b, args, r: b.fadd(*args)),
    (r"mul\.rn\.f32 \$0, \$1, \$2;", lambda match: _rounded_product),
    (r"div\.rn\.f32 \$0, \$1, \$2;", lambda match: lambda b, args, r: b.fdiv(*args)),
    (r"(max|min)\.f32 \$0, \$1, \$2;", lambda match: _llvm(f"{match[1]}num")),
    (r"tanh\.approx\.f32 \$0, \$1;", lambda match: _tanh),
    (r"sqrt\.approx\.f32 \$0, \$1;", lambda match: _llvm("sqrt")),
    (r"div\.full\.f32 \$0, \$1, \$2;", lambda match: lambda b, args, r: b.fdiv(*args)),
    (r"sin\.approx\.f32 \$0, \$1;", lambda match: _llvm("sin")),
    (r"cos\.approx\.f32 \$0, \$1;", lambda match: _llvm("cos")),
    (r"\{ .* cvt\.rni\.s(?:32\.f32|64\.f64) n, \$2; .* add\.s(?:32|64) t, t, n; .*\}", lambda match: _stepped),
    (r"\{ \.reg \.b32 t; mov\.b32 t, \$1; shl\.b32 t, t, 23; .*\}", lambda match: _exponent_of_bits),
    (r"\{ .* mad\.lo\.s32 t, n, 8388608, t; .*\}", lambda match: _scaled_by_bits),
)


def instruction(text: str) -> Instruction:
    """Return what stands for inline PTX on a CPU.

    Raises:
        UnsupportedError: nothing does.
    """
    plain = " ".join(text.split())
    for pattern, make in INSTRUCTIONS:
        if match := re.fullmatch(pattern, plain):
            return make(match)
    raise UnsupportedError(
        f"the PTX instruction `{plain}` is not supported by the compiled simulator; set NUMBA_ENABLE_CUDASIM=1 before "
        "Python starts to run numbacc's kernels in Numba's simulator"
    )


def replace_assembly(context: Any, function: Any) -> None:
    """Replace inline PTX in the LLVM code of a function.

    Raises:
        UnsupportedError: it has an instruction that is not in `INSTRUCTIONS`, or memory that it names.
    """
    if "numbacc_kept" in function.module.globals:
        raise UnsupportedError(
            "shared memory that a kernel's intrinsic names is not supported by the compiled simulator; set "
            "NUMBA_ENABLE_CUDASIM=1 before Python starts to run numbacc's kernels in Numba's simulator"
        )
    made: dict[int, Any] = {}
    kept: list[Any] = []  # so that no id is used again
    for block in function.blocks:
        for each in list(block.instructions):
            if not isinstance(each, ir.instructions.CallInstr) or not isinstance(each.callee, ir.InlineAsm):
                continue
            operands = [made.get(id(value), value) for value in each.args]
            # Numba's code for a call goes to the end of the block, after a look at the function's first block.
            k, terminator = block.instructions.index(each), block.terminator
            rest, block.instructions[k:], block.terminator = block.instructions[k + 1 :], [], None
            builder = ir.IRBuilder(block)
            with watched(context, builder):
                made[id(each)] = instruction(each.callee.asm)(builder, operands, each.type)
            assert builder.block is block
            block.instructions += rest
            block.terminator = terminator
            kept.append(each)
    if not made:
        return
    for block in function.blocks:
        for each in block.instructions:
            for value in {id(v): v for v in _operands(each)}.values():
                if (new := made.get(id(value))) is not None:
                    each.replace_usage(value, new)
                    for name, held in vars(each).items():  # some keep an operand as an attribute, too
                        if held is value:
                            setattr(each, name, new)


def _operands(each: Any) -> list[Any]:
    """Return the values that an instruction uses."""
    if isinstance(each, ir.instructions.PhiInstr):
        return [value for value, _ in each.incomings]
    return [*each.operands]
