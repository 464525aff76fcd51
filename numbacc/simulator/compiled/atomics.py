"""Atomic operations: real ones for arrays that several workers share, plain ones for shared memory of a block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def _pointer(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
    """Return the address of an element, given an array and an index or a tuple of them."""
    made = context.make_array(kinds[0])(context, builder, args[0])
    several = isinstance(kinds[1], types.BaseTuple)
    parts, given = (cgutils.unpack_tuple(builder, args[1]), kinds[1].types) if several else ([args[1]], [kinds[1]])
    parts = [context.cast(builder, part, kind, types.intp) for part, kind in zip(parts, given, strict=True)]
    return cgutils.get_item_pointer(context, builder, kinds[0], made, parts)


def _atomic(op_int: str, op_unsigned: str, op_float: str) -> Any:
    @intrinsic
    def rmw(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array_type, _, value_type = signature.args
            pointer = _pointer(context, builder, signature.args, args)
            new = context.cast(builder, args[2], value_type, array_type.dtype)
            real = isinstance(array_type.dtype, types.Float)
            op = op_float if real else op_int if getattr(array_type.dtype, "signed", True) else op_unsigned
            return builder.atomic_rmw(op, pointer, new, "monotonic")

        return array.dtype(array, index, value), codegen

    return rmw


def _plain(combine: Callable[..., Any]) -> Any:
    combine = register_jitable(combine)

    @njit(forceinline=True, **OPTIONS)
    def rmw(array, index, value):  # type: ignore[no-untyped-def]
        old = array[index]
        array[index] = combine(old, value)
        return old

    return rmw


@intrinsic
def _swap_if(typingctx: Any, array: Any, index: Any, old: Any, value: Any) -> Any:
    if not isinstance(array.dtype, types.Integer):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args, args)
        old, new = (context.cast(builder, args[k], signature.args[k], array.dtype) for k in (2, 3))
        return builder.extract_value(builder.cmpxchg(pointer, old, new, "monotonic", "monotonic"), 0)

    return array.dtype(array, index, old, value), codegen


GLOBAL: dict[str, Any] = {
    "add": _atomic("add", "add", "fadd"), "sub": _atomic("sub", "sub", "fsub"), "max": _atomic("max", "umax", "fmax"),
    "min": _atomic("min", "umin", "fmin"), "exch": _atomic("xchg", "xchg", "xchg"), "and_": _atomic("and", "and", "and"),
    "or_": _atomic("or", "or", "or"), "xor": _atomic("xor", "xor", "xor"), "cas": _swap_if,
}  # fmt: skip
SHARED: dict[str, Any] = {
    "add": _plain(lambda a, b: a + b), "sub": _plain(lambda a, b: a - b), "max": _plain(lambda a, b: max(a, b)),
    "min": _plain(lambda a, b: min(a, b)), "exch": _plain(lambda a, b: b), "and_": _plain(lambda a, b: a & b),
    "or_": _plain(lambda a, b: a | b), "xor": _plain(lambda a, b: a ^ b), "cas": _swap_if,
}  # fmt: skip
