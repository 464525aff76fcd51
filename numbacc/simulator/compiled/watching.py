"""Watch the loads and stores that intrinsics make: each asks first for the address that it may use.

Only functions with the parameter `MEMORY` do so: kernels in checked mode whose arguments hold addresses. `reached`
sets `reach` and `scratch`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types

__all__ = ["ACQUIRE", "ATOMIC", "BOTH", "EXCHANGE", "MEMORY", "OBSERVE", "READ", "WRITE", "watched"]

#: How an access uses an element.
READ, WRITE, BOTH = 1, 2, 3
#: How an atomic access does: it changes the element, replaces its value, uses the old value, or only loads it. The last
#: two can observe other blocks' work.
ATOMIC, EXCHANGE, ACQUIRE, OBSERVE = 4, 5, 6, 7
#: The name of the parameter that holds the address of a launch's memory.
MEMORY = "_nb_memory"


def scratch(builder: Any, memory: Any) -> Any:
    """Return the address of a launch's scratch memory."""
    raise NotImplementedError


def reach(context: Any, builder: Any, memory: Any, *access: Any) -> Any:
    """Return the address that an access may use, given its address, bytes, alignment and how it uses them."""
    raise NotImplementedError


def unused(builder: Any) -> Any:
    """Return the address of memory for accesses that do not happen; None if accesses are not watched."""
    return getattr(builder, "numbacc_unused", None)


def _owns(pointer: Any) -> bool:
    """Return whether a pointer is to a variable of the function or of the module."""
    while isinstance(pointer, (ir.instructions.GEPInstr, ir.instructions.CastInstr)):
        pointer = pointer.operands[0]
    return isinstance(pointer, (ir.instructions.AllocaInstr, ir.GlobalVariable, ir.Constant))


@contextmanager
def watched(context: Any, builder: Any) -> Iterator[None]:
    """Watch the accesses that a builder makes meanwhile, if its function has the parameter for it."""
    memory = next((each for each in builder.function.args if each.name == f"arg.{MEMORY}"), None)
    if memory is None or "load" in vars(builder):
        yield
        return
    word, plain = context.get_value_type(types.int64), type(builder)

    def place(pointer: Any, how: int, align: int | None) -> Any:
        if _owns(pointer):
            return pointer
        kind = pointer.type.pointee
        alignment = align or kind.get_abi_alignment(context.target_data)
        numbers = [word(n) for n in (kind.get_abi_size(context.target_data), alignment, how)]
        found = reach(context, builder, memory, plain.ptrtoint(builder, pointer, word), *numbers)
        return plain.inttoptr(builder, found, pointer.type)

    def load(pointer: Any, name: str = "", align: int | None = None, **more: Any) -> Any:
        return plain.load(builder, place(pointer, READ, align), name=name, align=align, **more)

    def store(value: Any, pointer: Any, align: int | None = None) -> Any:
        return plain.store(builder, value, place(pointer, WRITE, align), align=align)

    def atomic_rmw(op: str, pointer: Any, *rest: Any) -> Any:
        return plain.atomic_rmw(builder, op, place(pointer, ACQUIRE, None), *rest)

    def load_atomic(pointer: Any, ordering: str, align: int, *rest: Any) -> Any:
        return plain.load_atomic(builder, place(pointer, OBSERVE, align), ordering, align, *rest)

    def store_atomic(value: Any, pointer: Any, ordering: str, align: int) -> Any:
        return plain.store_atomic(builder, value, place(pointer, EXCHANGE, align), ordering, align)

    changed = {each.__name__: each for each in (load, store, atomic_rmw, load_atomic, store_atomic)}
    vars(builder).update(changed, numbacc_unused=scratch(builder, memory))
    try:
        yield
    finally:
        for name in (*changed, "numbacc_unused"):
            del vars(builder)[name]
