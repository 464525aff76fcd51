"""Make device functions: Numba compiles them to PTX, and in the simulator they are plain Python.

A device function is written as a Python function that does in the simulator what the GPU does. A decorator above it
adds the code for a GPU: `ptx` one statement of PTX, `generated` a function that emits code for given types. NVVM passes
inline PTX on unseen, so instructions that its LLVM does not know work, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ....base import _numba
from ....base._numba import COMPILES, cuda, types

if COMPILES:
    from .. import instructions

__all__ = ["HOPPER", "Emitter", "composed", "generated", "literal", "ptx", "tuple_type"]

#: The compute capability of instructions that only Hopper has (sm_90a).
HOPPER = "9.0a"

#: Names of operands' types -> Numba's types.
_TYPES = {
    "u32": types.uint32, "i32": types.int32, "u64": types.uint64, "i64": types.int64, "map": types.int64,
    "f32": types.float32, "f64": types.float64, None: types.void,
}  # fmt: skip


class Emitter:
    """Emits the code of one call of a device function.

    Args:
        location: the call's position in the source, if it is known.
    """

    def __init__(self, context: Any, builder: Any, location: Any = None):
        self.context, self.builder, self._location = context, builder, location
        ir = _numba.ir
        self.i16, self.i32, self.i64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
        self.f32, self.f64, self.none = ir.FloatType(), ir.DoubleType(), ir.VoidType()
        self._letters = {self.i16: "h", self.i32: "r", self.i64: "l", self.f32: "f", self.f64: "d"}

    def llvm(self, kind: Any) -> Any:
        """Return LLVM's type of a Numba type."""
        return self.context.get_value_type(kind)

    def letter(self, kind: Any) -> str:
        """Return the letter of a register for an LLVM type in inline assembly."""
        return self._letters[kind]

    def asm(self, text: str, operands: Sequence[Any] = (), result: Any = None, *, pure: bool = False) -> Any:
        """Emit PTX with at most one result, which is $0 if there is one; the operands follow.

        Args:
            result: the result's LLVM type.
            pure: the result depends on the operands only. Other code is not moved, repeated or dropped, and may read
                and write memory.
        """
        letters = [f"={self.letter(result)}"] if result is not None else []
        letters += [self.letter(each.type) for each in operands]
        return self._call(text, letters, list(operands), result or self.none, pure)

    def asm_many(
        self, text: str, operands: Sequence[Any], kind: Any, count: int, *, tied: Sequence[Any] = (), pure: bool = False
    ) -> list[Any]:
        """Emit PTX with several results of one type, $0 to $(count - 1), and return them.

        Args:
            operands: they follow the results and the tied operands.
            tied: former values of the results, in the same registers; they have numbers of their own, too.
        """
        letters = [f"={self.letter(kind)}"] * count + [str(k) for k in range(len(tied))]
        letters += [self.letter(each.type) for each in operands]
        # NVVM does not accept a structure of one result.
        results = _numba.ir.LiteralStructType([kind] * count) if count > 1 else kind
        found = self._call(text, letters, [*tied, *operands], results, pure)
        if count == 1:
            return [found]
        return [self.builder.extract_value(found, k) for k in range(count)]

    def _call(self, text: str, letters: list[str], operands: list[Any], result: Any, pure: bool) -> Any:
        if not pure:
            letters = [*letters, "~{memory}"]
        return instructions.assembly(
            self.builder, result, text, ",".join(letters), operands, "" if pure else "convergent"
        )

    def items(self, value: Any) -> list[Any]:
        """Return the items of a tuple."""
        kind = value.type
        count = kind.count if hasattr(kind, "count") else len(kind.elements)
        return [self.builder.extract_value(value, k) for k in range(count)]

    def tuple(self, kind: Any, items: Sequence[Any]) -> Any:
        """Return a tuple of a Numba type."""
        value = _numba.ir.Constant(self.llvm(kind), _numba.ir.Undefined)
        for k, item in enumerate(items):
            value = self.builder.insert_value(value, item, k)
        return value

    def constant(self, number: int, kind: Any = None) -> Any:
        return _numba.ir.Constant(kind or self.i32, number)

    def global_word(self, name: str) -> None:
        """Define a 64-bit variable in global memory, 0 at first, which inline PTX and the host find by its name."""
        ir, module = _numba.ir, self.builder.module
        if name in module.globals:
            return
        word = ir.GlobalVariable(module, self.i64, name, addrspace=1)
        word.linkage, word.align = "linkonce_odr", 8
        word.initializer = ir.Constant(self.i64, 0)
        used = ir.GlobalVariable(module, ir.ArrayType(ir.IntType(8).as_pointer(), 1), "llvm.compiler.used")
        used.linkage, used.section = "appending", "llvm.metadata"
        generic = ir.FormattedConstant(
            used.type.pointee.element,
            f"bitcast (i64* addrspacecast (i64 addrspace(1)* @{name} to i64*) to i8*)",
        )
        used.initializer = ir.Constant(used.type.pointee, [generic])

    def line(self) -> int:
        """Return the line of the call in its file; 0 if it is not known."""
        return int(getattr(self._location, "line", None) or 0)

    def function(self, called: Any, signature: Any) -> Callable[[Sequence[Any]], Any]:
        """Return a function that emits calls of another device function."""
        code = self.context.get_function(called, signature)
        return lambda given: code(self.builder, list(given))


def tuple_type(name: str, count: int) -> Any:
    """Return the type of a tuple of numbers, such as a fragment."""
    return types.UniTuple(_TYPES[name], count)


def literal(kind: Any, name: str, allowed: Sequence[int] | None = None) -> int:
    """Return the value of an argument that must be known when the kernel is compiled.

    Args:
        kind: the argument's type, or its value if it is a default.
    """
    if isinstance(kind, (bool, int)):
        found = int(kind)
    elif isinstance(kind, (types.IntegerLiteral, types.BooleanLiteral)):
        found = int(kind.literal_value)
    else:
        raise TypeError(
            f"{name} must be a constant that is known when the kernel is compiled: a number, or a variable of an "
            "enclosing function or module that holds one"
        )
    if allowed is not None and found not in allowed:
        raise ValueError(f"{name} is {found}: it must be one of {', '.join(map(str, allowed))}")
    return found


if not COMPILES:
    _made: Callable[..., Any] = lambda twin, typed, prefer_literal, since: twin  # noqa: E731
else:

    class DeviceFunction(_numba.Intrinsic):  # type: ignore[misc]
        """A function that kernels call. The simulator calls it in Python.

        Attributes:
            capability: the oldest compute capability that has the instruction.
            numbacc_scalar: whether it is a function of numbers, which the compiled simulator translates.
        """

        numbacc_scalar = False

        def __init__(self, twin: Callable[..., Any], typed: Callable[..., Any], prefer_literal: bool, since: Any):
            definition = _definition(twin, typed)
            super().__init__(twin.__name__, definition, prefer_literal=prefer_literal)
            self._twin, self.capability = twin, since
            self.__doc__, self.__module__ = twin.__doc__, twin.__module__
            self.__wrapped__ = twin
            self._register()

        def __call__(self, *args: Any, **options: Any) -> Any:
            return self._twin(*args, **options)

        def __reduce__(self) -> str:
            return str(self.__name__)

        def __repr__(self) -> str:
            return f"<device function {self.__name__}>"

    def _definition(twin: Callable[..., Any], typed: Callable[..., Any]) -> Any:
        """Return what Numba calls with the types of a call's arguments, by the names of the twin's parameters."""
        parameters = inspect.signature(twin).parameters.values()
        written = ", ".join(
            each.name if each.default is each.empty else f"{each.name}={each.default!r}" for each in parameters
        )
        passed = ", ".join(each.name for each in parameters)

        wants_typing = next(iter(inspect.signature(typed).parameters), "") == "typing"

        def of_call(typing: Any, *kinds: Any) -> Any:
            signature, emit = typed(typing, *kinds) if wants_typing else typed(*kinds)

            def generate(context: Any, builder: Any, signature: Any, args: Any, loc: Any = None) -> Any:
                found = emit(Emitter(context, builder, loc), *args)
                return context.get_dummy_value() if found is None else found

            return signature, generate

        scope = {"of_call": of_call, "__name__": twin.__module__}
        name = twin.__name__
        exec(
            f"def {name}(typing{', ' * bool(written)}{written}): return of_call(typing{', ' * bool(passed)}{passed})",
            scope,
        )
        return scope[name]

    _made = DeviceFunction


def generated(
    typed: Callable[..., Any], *, literals: bool = True, since: tuple[int, int] | str = (9, 0)
) -> Callable[[Callable[..., Any]], Any]:
    """Make a device function from its Python twin and a function that emits its code.

    Args:
        typed: called with the types of a call's arguments. It returns (signature, emit): Numba's signature of the call,
            and a function of an Emitter and the arguments' values that emits code and returns the result. If its first
            parameter is `typing`, it gets Numba's typing context there.
        literals: whether the types of constants hold their values.
        since: the oldest compute capability.
    """
    return lambda twin: _made(twin, typed, literals, since)


def composed(function: Callable[..., Any]) -> Any:
    """Make a device function of other device functions: Numba compiles it, and the simulator runs it as it is.

    It is inlined: wgmma does not overlap with calls of other functions.
    """
    return cuda.jit(device=True, forceinline=True)(function) if COMPILES else cuda.jit(device=True)(function)


def ptx(
    text: str,
    *operands: str,
    result: str | None = None,
    pure: bool = False,
    since: tuple[int, int] | str = (9, 0),
    in_memory: bool = False,
    scalar: bool = False,
) -> Callable[[Callable[..., Any]], Any]:
    """Make a device function that is one piece of PTX.

    Args:
        text: $0 is the result, if there is one; the operands follow.
        operands: types by name. "map" is a tensor map: a parameter of the kernel, or an address.
        in_memory: do nothing for a tensor map that is a parameter.
        scalar: whether the compiled simulator translates it.
    """

    def typed(*kinds: Any) -> Any:
        taken = [
            given if name == "map" and given == _numba.TENSOR_MAP else _TYPES[name]
            for given, name in zip(kinds, operands, strict=True)
        ]

        def emit(e: Emitter, *args: Any) -> Any:
            if in_memory and _numba.TENSOR_MAP in taken:
                return None
            found = e.asm(text, addresses(e, taken, args), e.llvm(_TYPES[result]) if result else None, pure=pure)
            return found if result else None

        return _TYPES[result](*taken), emit

    def noted(twin: Callable[..., Any]) -> Any:
        made = generated(typed, literals=False, since=since)(twin)
        if COMPILES:
            made.numbacc_scalar = scalar
        return made

    return noted


def addresses(e: Emitter, kinds: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Return arguments, with the addresses of tensor maps in place of these."""
    return [
        e.builder.ptrtoint(x, e.i64) if kind == _numba.TENSOR_MAP else x for x, kind in zip(args, kinds, strict=True)
    ]
