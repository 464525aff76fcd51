"""Atomic operations of kernels on the CPU.

`GLOBAL` holds real atomics, for arrays that several workers share. `SHARED` holds plain operations, for arrays that
belong to one block, because its threads run one after the other. Both use the names of `cuda.atomic`. Each function is
called with (array, index, value ...) and returns the old value. An index is an integer or a tuple; a negative one
counts from the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

#: Computes the new value: (builder, type of the elements, old value, value) -> new value.
_Combine = Callable[[Any, Any, Any, Any], Any]

_INTEGERS = (types.int32, types.int64, types.uint32, types.uint64)
_UNSIGNED = (types.uint32, types.uint64)
_NUMBERS = (*_INTEGERS, types.float32, types.float64)


def _pointer(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
    """Return the address of an element, given an array and an index or a tuple of them."""
    made = context.make_array(kinds[0])(context, builder, args[0])
    several = isinstance(kinds[1], types.BaseTuple)
    parts, given = (cgutils.unpack_tuple(builder, args[1]), kinds[1].types) if several else ([args[1]], [kinds[1]])
    parts = [context.cast(builder, part, kind, types.intp) for part, kind in zip(parts, given, strict=True)]
    return cgutils.get_item_pointer(context, builder, kinds[0], made, parts, wraparound=True)


def _check(name: str, array: Any, index: Any, values: tuple[Any, ...], allowed: tuple[Any, ...]) -> None:
    """Raise TypingError for operands that are not supported on a GPU either."""
    if not isinstance(array, types.Array) or array.dtype not in allowed:
        what = array.dtype if isinstance(array, types.Array) else array
        names = ", ".join(map(str, allowed))
        raise TypingError(f"cuda.atomic.{name} needs an array of {names}; the array has {what}")
    dimensions = len(index) if isinstance(index, types.BaseTuple) else 1
    if dimensions != array.ndim:
        raise TypingError(f"cuda.atomic.{name} needs {array.ndim} indices for this array; {dimensions} were given")
    parts = index.types if isinstance(index, types.BaseTuple) else (index,)
    if not all(isinstance(part, types.Integer) for part in parts):
        raise TypingError(f"cuda.atomic.{name} needs integers as indices; {index} was given")
    if not all(isinstance(value, (types.Number, types.Boolean)) for value in values):
        raise TypingError(f"cuda.atomic.{name} needs numbers as values; {values} were given")
    if not array.mutable:
        raise TypingError(f"cuda.atomic.{name} needs a writable array; this one is read-only")


def _bits(builder: Any, kind: Any, value: Any) -> Any:
    """Return a number as an integer with the same bits."""
    return builder.bitcast(value, ir.IntType(kind.bitwidth)) if isinstance(kind, types.Float) else value


def _by_comparing(builder: Any, kind: Any, pointer: Any, value: Any, combine: _Combine) -> Any:
    """Replace an element in a compare-and-swap loop, where LLVM lacks an instruction. Return the old value."""
    word = ir.IntType(kind.bitwidth)
    numbers = isinstance(kind, types.Float)
    address = builder.bitcast(pointer, word.as_pointer())
    first = builder.load(address)
    first_block = builder.block
    loop, end = builder.append_basic_block("atomic"), builder.append_basic_block("atomic.end")
    builder.branch(loop)
    builder.position_at_end(loop)
    seen = builder.phi(word)
    seen.add_incoming(first, first_block)
    old = builder.bitcast(seen, pointer.type.pointee) if numbers else seen
    new = _bits(builder, kind, combine(builder, kind, old, value))
    swapped = builder.cmpxchg(address, seen, new, "monotonic", "monotonic")
    seen.add_incoming(builder.extract_value(swapped, 0), builder.block)
    builder.cbranch(builder.extract_value(swapped, 1), end, loop)
    builder.position_at_end(end)
    return old


def _plainly(builder: Any, kind: Any, pointer: Any, value: Any, combine: _Combine) -> Any:
    old = builder.load(pointer)
    builder.store(combine(builder, kind, old, value), pointer)
    return old


def _operation(
    name: str, combine: _Combine, allowed: tuple[Any, ...], instruction: Callable[[Any], str], shared: bool
) -> Any:
    """Return the intrinsic of an operation.

    Args:
        name: its name in cuda.atomic.
        combine: computes the new value.
        allowed: the supported element types.
        instruction: LLVM's name of an atomic instruction for a type of elements; "" if LLVM lacks one.
        shared: whether the array belongs to one block.
    """

    @intrinsic
    def operation(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
        _check(name, array, index, (value,), allowed)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = signature.args[0].dtype
            pointer = _pointer(context, builder, signature.args, args)
            new = context.cast(builder, args[2], signature.args[2], kind)
            if shared:
                return _plainly(builder, kind, pointer, new, combine)
            if instruction(kind):
                return builder.atomic_rmw(instruction(kind), pointer, new, "monotonic")
            return _by_comparing(builder, kind, pointer, new, combine)

        return array.dtype(array, index, value), codegen

    operation.__name__ = f"atomic_{name}"
    return operation


def _swap(name: str, shared: bool) -> Any:
    """Return the intrinsic of compare-and-swap."""

    @intrinsic
    def swap(typingctx: Any, array: Any, index: Any, old: Any, value: Any) -> Any:
        _check(name, array, index, (old, value), _INTEGERS)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = signature.args[0].dtype
            pointer = _pointer(context, builder, signature.args, args)
            expected, new = (context.cast(builder, args[k], signature.args[k], kind) for k in (2, 3))
            if shared:
                found = builder.load(pointer)
                same = builder.icmp_unsigned("==", found, expected)
                builder.store(builder.select(same, new, found), pointer)
                return found
            return builder.extract_value(builder.cmpxchg(pointer, expected, new, "monotonic", "monotonic"), 0)

        return array.dtype(array, index, old, value), codegen

    return swap


# ---- how a new value is computed


def _arithmetic(integer: str, real: str) -> _Combine:
    def combine(builder: Any, kind: Any, old: Any, value: Any) -> Any:
        return getattr(builder, real if isinstance(kind, types.Float) else integer)(old, value)

    return combine


def _compare(builder: Any, kind: Any, symbol: str, a: Any, b: Any) -> Any:
    """Return a truth value; false where one of two floats is NaN."""
    if isinstance(kind, types.Float):
        return builder.fcmp_ordered(symbol, a, b)
    return (builder.icmp_signed if kind.signed else builder.icmp_unsigned)(symbol, a, b)


def _extreme(symbol: str, numbers_win: bool) -> _Combine:
    """Return the combination for a maximum or a minimum.

    On a GPU, Numba's `max` and `min` keep the old value unless the given one compares as larger or smaller. So a NaN
    in memory stays, and a NaN that is given does nothing. In `nanmax` and `nanmin` a number replaces NaN.
    """

    def combine(builder: Any, kind: Any, old: Any, value: Any) -> Any:
        takes = _compare(builder, kind, symbol, value, old)
        if numbers_win and isinstance(kind, types.Float):
            missing = builder.fcmp_unordered("uno", old, old)
            takes = builder.or_(takes, missing)
        return builder.select(takes, value, old)

    return combine


def _increment(builder: Any, kind: Any, old: Any, value: Any) -> Any:
    one = ir.Constant(old.type, 1)
    return builder.select(builder.icmp_unsigned(">=", old, value), ir.Constant(old.type, 0), builder.add(old, one))


def _decrement(builder: Any, kind: Any, old: Any, value: Any) -> Any:
    zero = ir.Constant(old.type, 0)
    wraps = builder.or_(builder.icmp_unsigned("==", old, zero), builder.icmp_unsigned(">", old, value))
    return builder.select(wraps, value, builder.sub(old, ir.Constant(old.type, 1)))


def _replace(builder: Any, kind: Any, old: Any, value: Any) -> Any:
    return value


def _named(integer: str, unsigned: str = "", real: str = "") -> Callable[[Any], str]:
    """Return which atomic instruction serves a type of elements."""

    def instruction(kind: Any) -> str:
        if isinstance(kind, types.Float):
            return real
        return integer if kind.signed or not unsigned else unsigned

    return instruction


_NONE = _named("")
_TABLE: dict[str, tuple[_Combine, tuple[Any, ...], Callable[[Any], str]]] = {
    "add": (_arithmetic("add", "fadd"), _NUMBERS, _named("add", real="fadd")),
    "sub": (_arithmetic("sub", "fsub"), _NUMBERS, _named("sub", real="fsub")),
    "max": (_extreme(">", False), _NUMBERS, _named("max", "umax")),
    "min": (_extreme("<", False), _NUMBERS, _named("min", "umin")),
    "nanmax": (_extreme(">", True), _NUMBERS, _named("max", "umax")),
    "nanmin": (_extreme("<", True), _NUMBERS, _named("min", "umin")),
    "and_": (_arithmetic("and_", ""), _INTEGERS, _named("and")),
    "or_": (_arithmetic("or_", ""), _INTEGERS, _named("or")),
    "xor": (_arithmetic("xor", ""), _INTEGERS, _named("xor")),
    "exch": (_replace, _INTEGERS, _named("xchg")),
    "inc": (_increment, _UNSIGNED, _NONE),
    "dec": (_decrement, _UNSIGNED, _NONE),
}  # fmt: skip


def _functions(shared: bool) -> dict[str, Any]:
    made = {n: _operation(n, c, allowed, i, shared) for n, (c, allowed, i) in _TABLE.items()}
    return made | {"cas": _swap("cas", shared), "compare_and_swap": _swap("compare_and_swap", shared)}


#: The operations on arrays that several workers share.
GLOBAL: dict[str, Any] = _functions(False)
#: The operations on arrays that belong to one block.
SHARED: dict[str, Any] = _functions(True)
