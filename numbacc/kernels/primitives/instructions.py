"""Single GPU instructions as functions that kernels call. In Numba's simulator they are plain Python."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import SIMULATED, cuda, types
from ...base.dtypes import TABLE
from ...runtime.launch_order import VECTOR_BYTES

if SIMULATED:
    from .simulated import hardware

    @cuda.jit(device=True)
    def kept_memory() -> Any:
        """Return the dynamic shared memory of a launch."""
        return cuda.shared.array(0, np.dtype(np.uint8))

    def hidden_successor(number: int) -> int:
        """Return number + 1; on the GPU the compiler cannot see this value."""
        return number + 1

    @cuda.jit(device=True)
    def wait_for_previous() -> None:
        """Wait until the stream's previous kernel has ended, in a launch that `follows` it."""

    @cuda.jit(device=True)
    def let_next_start() -> None:
        """Let the stream's next kernel start if its launch `follows` this one, once all blocks have come here."""

else:
    from ...base._numba import capability_compiled_for, intrinsic, ir

__all__ = [
    "ALL_THREADS", "assembly", "copies_ahead", "copy_ahead", "hardware", "hidden_successor", "kept_memory",
    "kept_pointer", "let_next_start", "tell_copies", "wait_for_previous",
]  # fmt: skip

#: The mask of a whole warp.
ALL_THREADS = 0xFFFFFFFF
#: The first compute capability whose kernels can start before the previous one has ended.
_FOLLOWS_FROM = (9, 0)
#: The first compute capability that copies to shared memory asynchronously, without registers.
_COPIES_AHEAD_FROM = (8, 0)

if not SIMULATED:
    _I32, _I64 = ir.IntType(32), ir.IntType(64)
    _FLOAT, _DOUBLE = ir.FloatType(), ir.DoubleType()

    def assembly(builder: Any, result: Any, text: str, constraints: str, args: list[Any], what: str = "") -> Any:
        """Return a call of inline assembly, whose operands follow LLVM's constraints.

        `what` is "convergent" if threads execute it together, "readnone" if equal operands give equal results, so that
        the compiler may reuse them.
        """
        kind = ir.FunctionType(result, [arg.type for arg in args])
        text_of = ir.InlineAsm(kind, text, constraints, side_effect=what == "convergent")
        return builder.call(text_of, args, attrs=(what,) if what else ())

    def _between_kernels(text: str) -> Any:
        """Return an instruction that concerns the previous or the next kernel of a stream, if the GPU has it."""

        @intrinsic
        def instruction(typing: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                if capability_compiled_for() >= _FOLLOWS_FROM:
                    assembly(builder, ir.VoidType(), text, "~{memory}", [], "convergent")
                return context.get_dummy_value()

            return types.void(), generate

        @cuda.jit(device=True)
        def nothing():
            return None

        instruction.numbacc_twin = nothing
        return instruction

    wait_for_previous = _between_kernels("griddepcontrol.wait;")
    let_next_start = _between_kernels("griddepcontrol.launch_dependents;")

    def copies_ahead(nbytes: int) -> bool:
        """Return whether the target GPU copies accesses of this width to shared memory asynchronously."""
        return nbytes >= 4 and capability_compiled_for() >= _COPIES_AHEAD_FROM

    def copy_ahead(builder: Any, source: Any, target: Any, nbytes: int) -> None:
        """Start to copy an access from an address in global memory to a pointer to shared memory."""
        # 16-byte copies bypass the L1 cache, which would not help.
        how = "cg" if nbytes == VECTOR_BYTES else "ca"
        place = builder.trunc(builder.ptrtoint(target, _I64), _I32)
        text = f"cp.async.{how}.shared.global [$0], [$1], {nbytes};"
        assembly(builder, ir.VoidType(), text, "r,l,~{memory}", [place, source], "convergent")

    def tell_copies(builder: Any, text: str) -> None:
        """Emit an instruction that concerns a thread's asynchronous copies, if the GPU supports them."""
        if capability_compiled_for() >= _COPIES_AHEAD_FROM:
            assembly(builder, ir.VoidType(), text, "~{memory}", [], "convergent")

    @cuda.jit(device=True)
    def kept_memory():
        """Return a placeholder for the simulator's shared memory; on a GPU that memory is accessed by name."""
        return 0

    @cuda.jit(device=True)
    def _kept_array():
        return cuda.shared.array(0, types.uint8)

    kept_memory.numbacc_twin = _kept_array

    def _kept_place(builder: Any) -> Any:
        """Return the dynamic shared memory of a launch."""
        module, name = builder.module, "numbacc_kept"
        if name in module.globals:
            return module.globals[name]
        memory = ir.GlobalVariable(module, ir.ArrayType(ir.IntType(8), 0), name, addrspace=3)
        memory.linkage, memory.align = "external", VECTOR_BYTES
        return memory

    def kept_pointer(builder: Any, start: Any, kind: Any) -> Any:
        """Return a pointer to a value of an LLVM type in that memory, `start` bytes after its start."""
        simulated = getattr(builder, "numbacc_kept", None)  # in the compiled simulator
        if simulated is not None:
            place = builder.bitcast(builder.gep(simulated, [start]), kind.as_pointer())
            return builder.addrspacecast(place, ir.PointerType(kind, addrspace=3))
        place = builder.gep(_kept_place(builder), [_I32(0), start])
        return builder.bitcast(place, ir.PointerType(kind, addrspace=3))

    #: LLVM's type of a number in a register, and the letter for such a register in assembly.
    _REGISTERS = {
        types.float32: (_FLOAT, "f"),
        types.float64: (_DOUBLE, "d"),
        types.uint32: (_I32, "r"),
        types.uint64: (_I64, "l"),
        types.int64: (_I64, "l"),
    }

    def _instruction(text: str, result: Any, *operands: Any, what: str = "") -> Any:
        """Return a GPU instruction as a function of one to three numbers of Numba types; `what` as in `assembly`."""
        kind, letter = _REGISTERS[result]
        constraints = ",".join([f"={letter}", *(_REGISTERS[operand][1] for operand in operands)])

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return assembly(builder, kind, text, constraints, list(args), what)

        typed = result(*operands), generate

        # Numba derives an intrinsic's parameters from its signature.
        def one(typing: Any, x: Any) -> Any:
            return typed

        def two(typing: Any, x: Any, y: Any) -> Any:
            return typed

        def three(typing: Any, x: Any, y: Any, z: Any) -> Any:
            return typed

        return intrinsic((one, two, three)[len(operands) - 1])

    #: A counter's next value, hidden from the compiler so that it does not unroll the loop and run out of registers.
    hidden_successor = _instruction("add.s64 $0, $1, 1;", types.int64, types.int64, what="convergent")

    def _extreme(text: str, compare: str) -> Any:
        """Return the larger or smaller of two float32, NaN if one is: one instruction since compute capability 8.0."""

        @intrinsic
        def extreme(typing: Any, x: Any, y: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                if capability_compiled_for() >= (8, 0):
                    return assembly(builder, _FLOAT, f"{text} $0, $1, $2;", "=f,f,f", list(args))
                own = builder.or_(builder.fcmp_ordered(compare, *args), builder.fcmp_unordered("uno", args[0], args[0]))
                return builder.select(own, *args)

            return types.float32(types.float32, types.float32), generate

        return extreme

    def _rounding(name: str) -> Any:
        """Return a float32 rounded to a dtype of 16 bits, as a float32."""
        conversion = TABLE[name].conversion
        assert conversion is not None
        widen, narrow = conversion.widen, conversion.narrow

        @intrinsic
        def rounded(typing: Any, x: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                half = assembly(builder, ir.IntType(16), narrow, "=h,f", list(args), "readnone")
                if widen:
                    return assembly(builder, _FLOAT, widen, "=f,h", [half], "readnone")
                return builder.bitcast(builder.shl(builder.zext(half, _I32), _I32(16)), _FLOAT)

            return types.float32(types.float32), generate

        return rounded

    @cuda.jit(device=True)
    def _exp(x):
        return math.exp(x)

    _theirs = cuda.libdevice

    @cuda.jit(device=True)
    def _scaled(x, exponent):
        return _theirs.ldexpf(x, np.int32(exponent))

    @cuda.jit(device=True)
    def _scaled_double(x, exponent):
        return _theirs.ldexp(x, np.int32(exponent))

    _f32, _f64, _u32, _u64 = types.float32, types.float64, types.uint32, types.uint64
    hardware = SimpleNamespace(
        exp=_exp,
        cbrt=_theirs.cbrtf,
        cbrt_double=_theirs.cbrt,
        erfinv=_theirs.erfinvf,
        erfinv_double=_theirs.erfinv,
        exp2=_theirs.exp2f,
        exp2_double=_theirs.exp2,
        reciprocal_root=_theirs.rsqrtf,
        reciprocal_root_double=_theirs.rsqrt,
        rint=_theirs.rintf,
        rint_double=_theirs.rint,
        scaled=_scaled,
        scaled_double=_scaled_double,
        fma=_instruction("fma.rn.f32 $0, $1, $2, $3;", _f32, _f32, _f32, _f32, what="readnone"),
        fma_double=_instruction("fma.rn.f64 $0, $1, $2, $3;", _f64, _f64, _f64, _f64, what="readnone"),
        # x y + z rounded twice, as in NumPy: explicit rounding modes keep the compiler from fusing them.
        multiply_add=_instruction(
            "{ .reg .f32 t; mul.rn.f32 t, $1, $2; add.rn.f32 $0, t, $3; }", _f32, _f32, _f32, _f32
        ),
        multiply_add_double=_instruction(
            "{ .reg .f64 t; mul.rn.f64 t, $1, $2; add.rn.f64 $0, t, $3; }", _f64, _f64, _f64, _f64
        ),
        greatest=_extreme("max.NaN.f32", ">"),
        least=_extreme("min.NaN.f32", "<"),
        # e^x as 2^(x log2 e): the constant is 0x3FB8AA3B.
        exp_approximate=_instruction(
            "{ .reg .f32 t; mul.ftz.f32 t, $1, 0f3FB8AA3B; ex2.approx.ftz.f32 $0, t; }", _f32, _f32, what="readnone"
        ),
        exp2_approximate=_instruction("ex2.approx.ftz.f32 $0, $1;", _f32, _f32),
        log2_approximate=_instruction("lg2.approx.ftz.f32 $0, $1;", _f32, _f32, what="readnone"),
        reciprocal_approximate=_instruction("rcp.approx.ftz.f32 $0, $1;", _f32, _f32, what="readnone"),
        # Unlike `reciprocal_approximate`, this supports subnormal numbers.
        inverse_approximate=_instruction("rcp.approx.f32 $0, $1;", _f32, _f32),
        reciprocal_root_approximate=_instruction("rsqrt.approx.f32 $0, $1;", _f32, _f32),
        # Accurate to two units in the last place, for all numbers.
        quotient_approximate=_instruction("div.full.f32 $0, $1, $2;", _f32, _f32, _f32),
        sqrt_approximate=_instruction("sqrt.approx.f32 $0, $1;", _f32, _f32),
        # Accurate to 2^-21 for |x| <= π, less for larger x: the equivalent of CUDA's __sinf and __cosf.
        sin_approximate=_instruction("sin.approx.f32 $0, $1;", _f32, _f32),
        cos_approximate=_instruction("cos.approx.f32 $0, $1;", _f32, _f32),
        # Adds an integer to the bits of a float.
        stepped=_instruction(
            "{ .reg .b32 t; .reg .b32 n; cvt.rni.s32.f32 n, $2; mov.b32 t, $1; add.s32 t, t, n; mov.b32 $0, t; }",
            *(_f32, _f32, _f32),
        ),
        stepped_double=_instruction(
            "{ .reg .b64 t; .reg .b64 n; cvt.rni.s64.f64 n, $2; mov.b64 t, $1; add.s64 t, t, n; mov.b64 $0, t; }",
            *(_f64, _f64, _f64),
        ),
        # The float whose exponent consists of the lowest bits of another float.
        power_of_bits=_instruction(
            "{ .reg .b32 t; mov.b32 t, $1; shl.b32 t, t, 23; mov.b32 $0, t; }", _f32, _f32, what="readnone"
        ),
        to_float16=_rounding("float16"),
        to_bfloat16=_rounding("bfloat16"),
        # Adds these exponent bits to the first number.
        times_power_of_bits=_instruction(
            "{ .reg .b32 t; .reg .b32 n; mov.b32 t, $1; mov.b32 n, $2; mad.lo.s32 t, n, 8388608, t; mov.b32 $0, t; }",
            *(_f32, _f32, _f32),
            what="readnone",
        ),
        # The full 64-bit product of 32-bit integers.
        product=_instruction("mul.wide.u32 $0, $1, $2;", _u64, _u32, _u32),
        # The low and the high half of a 128-bit product, and a sum modulo 2^64.
        product_low=_instruction("mul.lo.u64 $0, $1, $2;", _u64, _u64, _u64),
        product_high=_instruction("mul.hi.u64 $0, $1, $2;", _u64, _u64, _u64),
        sum_low=_instruction("add.u64 $0, $1, $2;", _u64, _u64, _u64),
        # Reinterprets an integer's bits as a float.
        float_of_bits=_instruction("mov.b32 $0, $1;", _f32, _u32),
        double_of_bits=_instruction("mov.b64 $0, $1;", _f64, _u64),
        bits_of_double=_instruction("mov.b64 $0, $1;", _u64, _f64),
        # These use only the high word and are accurate to 20 bits.
        reciprocal_rough=_instruction("rcp.approx.ftz.f64 $0, $1;", _f64, _f64),
        reciprocal_root_rough=_instruction("rsqrt.approx.ftz.f64 $0, $1;", _f64, _f64),
    )
