"""Loads and stores by address, and asynchronous copies (cp.async), of `numbacc.device` on a CPU.

An address of shared memory has 32 bits. Here its upper 8 bits are the number of an array and the others the bytes from
its start, so `shared` finds the memory. An address of global memory is one of the CPU's.

A copy is made at once, which a GPU may do, too. In checked mode its bytes count as on the way until the thread waits
for them: see `begin_copy` of `reached`.
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from . import reached, watching
from .stamps import call
from .syntax import array_of, expression, statements
from .variables import address
from .watching import MEMORY, READ, WRITE

__all__ = ["ADDRESSED", "DYNAMIC", "OF_DYNAMIC", "PIECE", "is_known", "of_kernel", "rewritten", "shared", "with_arrays"]

_MODULE = "numbacc.kernels.primitives.device.memory"
#: The array of dynamic shared memory, and the name that stands for a tuple of all arrays with addresses.
DYNAMIC, ADDRESSED = "_nb_dynamic_shared", "_nb_addressed"
#: The name of dynamic shared memory in messages, and the bytes of each of its stamps: no access has fewer.
OF_DYNAMIC, PIECE = "dynamic shared memory", 4
#: The bits of an address of shared memory below the number of the array.
_BITS = 24
#: Loads and stores: the 32-bit words that each accesses.
_WORDS = {
    f"{what}_{suffix}": count
    for what in ("ld_global", "st_global", "ld_shared", "st_shared")
    for suffix, count in (("b32", 1), ("v2", 2), ("v4", 4), ("v4_cs", 4), ("v4_nc", 4))
}
_NAMES = {
    *_WORDS, "address_of", "shared_address", "dynamic_shared", "cp_async", "cp_async_zfill", "cp_async_rows",
    "cp_async_commit_group", "cp_async_wait_group",
}  # fmt: skip


def is_known(value: Any) -> bool:
    """Return whether a value is a function of `numbacc.device` that this module translates."""
    return getattr(value, "__module__", "") == _MODULE and getattr(value, "__name__", "") in _NAMES


# ---------------------------------------------------------------- syntax


def rewritten(normal: Any, node: ast.Call, name: str) -> Any:
    """Return what replaces a call of a function.

    Args:
        normal: the `Normalize` that rewrites the kernel.
        name: the function's.
    """
    line = node.lineno
    normal.by_address = True
    if name == "dynamic_shared":
        normal.shared[DYNAMIC] = (0,), np.dtype(np.uint8)
        normal.space[f"_nb_dtype_{DYNAMIC}"] = np.dtype(np.uint8)
        normal.written[DYNAMIC] = OF_DYNAMIC
        return expression(f"_nb_np.uint32({_number(normal, DYNAMIC) << _BITS})", line)
    if name in ("address_of", "shared_address"):
        (given,) = normal.positional(node, "array")
        array = normal.visit(given)
        normal.space.update({"_nb_address": address, "_nb_device_shared_address": _shared_address})
        if name == "address_of":
            return expression("_nb_address(ARRAY)", line, ARRAY=array)
        root = array_of(array)
        if root not in normal.shared:
            what = f"the address of `{ast.unparse(given)}`, which is not an array of cuda.shared.array by its name,"
            raise normal.source.unsupported(line, what)
        text = f"_nb_device_shared_address({_number(normal, root)}, {root}, ARRAY)"
        return expression(text, line, ARRAY=array)
    made = f"_nb_device_{name}"
    if name in _WORDS:
        names = ("address", "words" if _WORDS[name] > 1 else "word")[: 1 + name.startswith("st")]
        given = normal.in_order(normal.positional(node, *names))
        normal.space[made] = _access(name)
        arrays = [expression(ADDRESSED, line)] if "shared" in name else []
        found = expression(f"{made}()", line)
        found.args = [*given, *arrays]
        if not name.startswith("st"):
            return found
        normal.hoisted.append(ast.copy_location(ast.Expr(found), node))
        return expression("None", line)
    if name == "cp_async_commit_group":
        normal.space[made] = _commit
        normal.hoisted += statements(f"{made}()", line)
        return expression("None", line)
    if name == "cp_async_wait_group":
        (pending,) = normal.positional(node, "pending")
        normal.space[made] = _wait
        normal.hoisted += statements(f"{made}({int(normal.source.value(pending))})", line)
        return expression("None", line)
    names = {
        "cp_async": ("shared", "source", "nbytes"),
        "cp_async_zfill": ("shared", "source", "valid"),
        "cp_async_rows": ("shared", "source", "count", "shared_step", "source_step"),
    }[name]
    given = normal.positional(node, *names)
    constants = {"cp_async": (2,), "cp_async_rows": (2, 3)}.get(name, ())
    numbers = [int(normal.source.value(given[k])) for k in constants]
    if name == "cp_async" and numbers[0] not in (4, 8, 16):
        raise normal.source.unsupported(line, f"a copy of {numbers[0]} bytes", "copy 4, 8 or 16")
    found = expression(f"{made}_{'_'.join(map(str, numbers))}()", line)
    found.args = [*normal.in_order([g for k, g in enumerate(given) if k not in constants]), expression(ADDRESSED, line)]
    normal.space[found.func.id] = _copy(name, *numbers)
    normal.hoisted.append(*statements("CALL", line, CALL=found))
    return expression("None", line)


def _number(normal: Any, name: str) -> int:
    """Return the number of a shared array with addresses."""
    arrays: list[str] = normal.addressed
    if name not in arrays:
        arrays.append(name)
    return arrays.index(name) + 1


class _Arrays(ast.NodeTransformer):
    def __init__(self, names: list[str]):
        self.text = f"({''.join(f'{n}, ' for n in names)})"

    def visit_Name(self, node: ast.Name) -> Any:
        return expression(self.text, node.lineno) if node.id == ADDRESSED else node


def with_arrays(body: list[ast.stmt], names: list[str]) -> list[ast.stmt]:
    """Replace the name `ADDRESSED` in a kernel's statements by a tuple of the arrays that have addresses."""
    return [_Arrays(names).visit(s) for s in body]


# ---------------------------------------------------------------- code


def _memory(builder: Any) -> Any:
    """Return the address of the launch's memory in checked mode, or None."""
    return next((each for each in builder.function.args if each.name == f"arg.{MEMORY}"), None)


def _integer(context: Any, builder: Any, value: Any, kind: Any) -> Any:
    return context.cast(builder, value, kind, types.int64)


def shared(
    context: Any, builder: Any, place: Any, kind: Any, arrays: Any, array_kinds: Any, nbytes: int, how: int
) -> Any:
    """Return the CPU's address that an access to shared memory may use."""
    word = context.get_value_type(types.int64)
    place, start, memory = _integer(context, builder, place, kind), None, _memory(builder)
    for k, (each, of) in enumerate(zip(cgutils.unpack_tuple(builder, arrays), array_kinds, strict=True)):
        here = builder.icmp_unsigned("==", builder.lshr(place, word(_BITS)), word(k + 1))
        data = builder.ptrtoint(context.make_array(of)(context, builder, each).data, word)
        if start is None:  # unchecked, an address without an array must not end the process
            start = data if memory is None else word(0)
        start = builder.select(here, data, start)
    offset = builder.and_(place, word((1 << _BITS) - 1))
    if memory is None:
        return builder.add(start, offset)
    return call(builder, reached.in_array, [memory, start, offset, word(nbytes), word(nbytes), word(how)])


def _global(context: Any, builder: Any, place: Any, nbytes: Any, alignment: int, how: int) -> Any:
    """Return the address that an access to global memory may use."""
    memory, word = _memory(builder), place.type
    if memory is None:
        return place
    return watching.reach(context, builder, memory, place, nbytes, word(alignment), word(how))


def of_kernel(define: Any) -> Any:
    """Return an intrinsic. Checked kernels record the place before each statement that calls one."""
    made = intrinsic(define)
    made._numbacc_of = define
    return made


@of_kernel
def _shared_address(typingctx: Any, number: Any, root: Any, array: Any) -> Any:
    """Return the address of a view of a shared array, given the array's number."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = context.get_value_type(types.int64)
        whole, part = (
            builder.ptrtoint(context.make_array(kind)(context, builder, value).data, word)
            for kind, value in zip(signature.args[1:], args[1:], strict=True)
        )
        base = builder.shl(_integer(context, builder, args[0], signature.args[0]), word(_BITS))
        return builder.trunc(builder.add(base, builder.sub(part, whole)), context.get_value_type(types.uint32))

    return types.uint32(number, root, array), codegen


def _access(name: str) -> Any:
    """Return the intrinsic for a load or a store of 32-bit words."""
    stores, in_block, count = name.startswith("st"), "shared" in name, _WORDS[name]
    words = types.uint32 if count == 1 else types.UniTuple(types.uint32, count)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        size, how = 4 * count, WRITE if stores else READ
        if in_block:
            place = shared(context, builder, args[0], kinds[0], args[-1], kinds[-1], size, how)
        else:
            place = _integer(context, builder, args[0], kinds[0])
            place = _global(context, builder, place, place.type(size), size, how)
        word = context.get_value_type(types.uint32)
        pointers = [builder.inttoptr(builder.add(place, place.type(4 * k)), word.as_pointer()) for k in range(count)]
        if not stores:
            found = [builder.load(each, align=4) for each in pointers]
            return found[0] if count == 1 else context.make_tuple(builder, words, found)
        values = [args[1]] if count == 1 else cgutils.unpack_tuple(builder, args[1])
        of = [kinds[1]] if count == 1 else [*kinds[1]]
        for value, kind, pointer in zip(values, of, pointers, strict=True):
            builder.store(context.cast(builder, value, kind, types.uint32), pointer, align=4)
        return context.get_dummy_value()

    def load(typingctx: Any, place: Any) -> Any:
        return words(place), codegen

    def load_shared(typingctx: Any, place: Any, arrays: Any) -> Any:
        return words(place, arrays), codegen

    def store(typingctx: Any, place: Any, values: Any) -> Any:
        return types.void(place, values), codegen

    def store_shared(typingctx: Any, place: Any, values: Any, arrays: Any) -> Any:
        return types.void(place, values, arrays), codegen

    return of_kernel(((load, load_shared), (store, store_shared))[stores][in_block])


def _begin(context: Any, builder: Any, room: Any, source: Any, nbytes: int, valid: Any = None) -> None:
    """Emit one copy, given the CPU's addresses. `valid`: how many bytes are read; the others become 0."""
    word, memory = source.type, _memory(builder)
    byte = context.get_value_type(types.uint8).as_pointer()
    target = builder.inttoptr(room, byte)

    def copy(size: Any) -> None:
        given = _global(context, builder, source, size, nbytes, READ)
        cgutils.raw_memmove(builder, target, builder.inttoptr(given, byte), size, 1)

    if valid is None:
        copy(word(nbytes))
    else:
        cgutils.memset(builder, target, word(nbytes), 0)
        size = builder.select(builder.icmp_unsigned("<", valid, word(nbytes)), valid, word(nbytes))
        with builder.if_then(builder.icmp_signed("!=", size, word(0))):
            copy(size)
    if memory is not None:
        call(builder, reached.begin_copy, [memory, room, word(nbytes)])


def _copy(name: str, *numbers: int) -> Any:
    """Return the intrinsic for a function that begins copies, given its constant arguments."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        source, *more = (_integer(context, builder, v, k) for v, k in zip(args[1:-1], kinds[1:-1], strict=True))

        def room(offset: int, nbytes: int) -> Any:
            to = builder.add(_integer(context, builder, args[0], kinds[0]), source.type(offset))
            return shared(context, builder, to, types.int64, args[-1], kinds[-1], nbytes, WRITE)

        if name == "cp_async_rows":
            count, step = numbers
            for k in range(count):
                at = builder.add(source, builder.mul(more[0], source.type(k)))
                _begin(context, builder, room(k * step, 16), at, 16)
        else:
            nbytes = numbers[0] if numbers else 16
            _begin(context, builder, room(0, nbytes), source, nbytes, *more)
        return context.get_dummy_value()

    def plain(typingctx: Any, shared: Any, source: Any, arrays: Any) -> Any:
        return types.void(shared, source, arrays), codegen

    def with_number(typingctx: Any, shared: Any, source: Any, more: Any, arrays: Any) -> Any:
        return types.void(shared, source, more, arrays), codegen

    return of_kernel(plain if name == "cp_async" else with_number)


@of_kernel
def _commit(typingctx: Any) -> Any:
    """End a thread's group of copies."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if (memory := _memory(builder)) is not None:
            call(builder, reached.end_group, [memory])
        return context.get_dummy_value()

    return types.void(), codegen


@of_kernel
def _wait(typingctx: Any, pending: Any) -> Any:
    """Wait for all but some of a thread's groups."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if (memory := _memory(builder)) is not None:
            call(builder, reached.wait_group, [memory, _integer(context, builder, args[0], signature.args[0])])
        return context.get_dummy_value()

    return types.void(pending), codegen
