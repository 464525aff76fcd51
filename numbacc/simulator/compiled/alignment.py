"""Check accesses through views of another dtype, which a GPU needs aligned: `x[1:].view(float64)[i]`."""

from __future__ import annotations

import ast
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .syntax import array_of, walk

#: The code of this error, different from those of `checks`.
MISALIGNED = 6


@intrinsic
def aligned(typingctx: Any, array: Any, index: Any, whole: Any, offset: Any, error: Any, where: Any) -> Any:
    """Return an index, and report an error if a GPU could not access the element because it is misaligned.

    Args:
        whole: the array that the view is made of.
        offset: the bytes from a multiple of 256 to its start, on a GPU.
        where: place in the source, number of the array, thread, block.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, _, whole_kind, offset_kind, error_kind, where_kind = signature.args
        parts = 2 if isinstance(kind.dtype, types.Complex) else 1
        size = context.get_abi_sizeof(context.get_data_type(kind.dtype)) // parts
        if size & (size - 1) or not kind.aligned or not isinstance(whole_kind, types.Array):
            return args[1]
        word = context.get_value_type(types.int64)
        made = context.make_array(kind)(context, builder, args[0])
        given = cgutils.unpack_tuple(builder, args[1])
        pointer = builder.ptrtoint(cgutils.get_item_pointer(context, builder, kind, made, given), word)
        begin = builder.ptrtoint(context.make_array(whole_kind)(context, builder, args[2]).data, word)
        distance = builder.add(builder.sub(pointer, begin), context.cast(builder, args[3], offset_kind, types.int64))
        rest = builder.and_(distance, word(size - 1))
        noted = context.make_array(error_kind)(context, builder, args[4]).data
        bad = builder.and_(
            builder.icmp_signed("!=", rest, word(0)), builder.icmp_signed("==", builder.load(noted), word(0))
        )
        with builder.if_then(bad, likely=False):
            place, name, thread, block = (
                context.cast(builder, v, k, types.int64)
                for v, k in zip(cgutils.unpack_tuple(builder, args[5]), where_kind, strict=True)
            )
            numbers = [word(MISALIGNED), place, name, thread, block, word(0), word(size), word(0), word(len(given))]
            for k, number in enumerate([*numbers, *given]):
                builder.store(number, builder.gep(noted, [word(k)]))
        return args[1]

    return index(array, index, whole, offset, error, where), codegen


def is_view(node: ast.AST) -> bool:
    """Return whether an expression is `array.view(dtype)`."""
    func = getattr(node, "func", None)
    return isinstance(func, ast.Attribute) and func.attr == "view" and bool(array_of(func.value))


def views(body: list[ast.stmt]) -> dict[str, str]:
    """Return the variables that are views of another dtype: the array that each is made of."""
    found: dict[str, str] = {}
    for n in walk(body):
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name):
            name, value = n.targets[0].id, n.value
            if is_view(value):
                found[name] = array_of(value.func.value)  # type: ignore[attr-defined]
            elif (root := array_of(value)) in found:
                found[name] = found[root]
    return found
