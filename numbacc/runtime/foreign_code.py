"""The machine code behind `lent`: functions without Python, which push what is given back on a list."""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import ir

from .builtin import builtin, compiled_forever, python

_WORD = ir.IntType(64)
_POINTER = _WORD.as_pointer()


class Code:
    """The compiled functions, and the list that they push on.

    Attributes:
        give_back: offset -> address of a C function void(*)(void *node), which pushes a node whose link to the next is
            at that offset.
        take: returns the first node of the list, and empties it.
        new_capsule: name of DLPack's -> what makes a PyCapsule of that name of an address; its destructor pushes what
            nobody took.
    """

    def __init__(self, offsets: dict[bytes, int]):
        # Never freed, as the code is not.
        self.head = ctypes.c_uint64()
        self._names = {name: ctypes.create_string_buffer(name) for name in offsets}
        head = ctypes.addressof(self.head)
        module = ir.Module("numbacc_lent")
        for offset in {0, *offsets.values()}:
            _define_push(module, f"give_back_{offset}", head, offset)
        _define_take(module, head)
        _define_destructor(module, {ctypes.addressof(self._names[name]): n for name, n in offsets.items()})
        for name in offsets:
            _define_new_capsule(module, name.decode(), ctypes.addressof(self._names[name]))
        address = compiled_forever(module).get_function_address
        self.give_back = {offset: address(f"give_back_{offset}") for offset in {0, *offsets.values()}}
        self.take = builtin("take", address("take"), 0)
        self.new_capsule = {name: builtin("new_capsule", address(f"new_{name.decode()}"), 0) for name in offsets}
        # One reference too many: what the code refers to is not freed when the interpreter ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))


def _function(module: ir.Module, name: str, result: Any, parameters: int) -> tuple[Any, Any]:
    function = ir.Function(module, ir.FunctionType(result, [_WORD] * parameters), name)
    return function, ir.IRBuilder(function.append_basic_block("entry"))


def _define_push(module: ir.Module, name: str, head: int, offset: int) -> None:
    function, builder = _function(module, name, ir.VoidType(), 1)
    node = function.args[0]
    first = builder.inttoptr(ir.Constant(_WORD, head), _POINTER)
    link = builder.inttoptr(builder.add(node, ir.Constant(_WORD, offset)), _POINTER)
    again, done = function.append_basic_block("again"), function.append_basic_block("done")
    builder.branch(again)
    builder.position_at_end(again)
    seen = builder.load_atomic(first, "acquire", 8)
    builder.store(seen, link)
    swapped = builder.cmpxchg(first, seen, node, "acq_rel", "acquire")
    builder.cbranch(builder.extract_value(swapped, 1), done, again)
    builder.position_at_end(done)
    builder.ret_void()


def _define_take(module: ir.Module, head: int) -> None:
    """PyObject *take(self, arguments, count)"""
    _, builder = _function(module, "take", _WORD, 3)
    first = builder.inttoptr(ir.Constant(_WORD, head), _POINTER)
    node = builder.atomic_rmw("xchg", first, ir.Constant(_WORD, 0), "acq_rel")
    builder.ret(python(builder, "PyLong_FromLongLong", node))


def _define_destructor(module: ir.Module, offsets: dict[int, int]) -> None:
    """void give_back_capsule(capsule): a consumer that has taken the tensor has renamed its capsule."""
    function, builder = _function(module, "give_back_capsule", ir.VoidType(), 1)
    capsule = function.args[0]
    for name, offset in offsets.items():
        word = ir.Constant(_WORD, name)
        valid = python(builder, "PyCapsule_IsValid", capsule, word)
        with builder.if_then(builder.icmp_signed("!=", valid, ir.Constant(ir.IntType(32), 0))):
            pointer = python(builder, "PyCapsule_GetPointer", capsule, word)
            builder.call(module.get_global(f"give_back_{offset}"), [pointer])
    builder.ret_void()


def _define_new_capsule(module: ir.Module, name: str, name_address: int) -> None:
    """PyObject *new(self, arguments, count): the one argument is an address; the name is at `name_address`."""
    function, builder = _function(module, f"new_{name}", _WORD, 3)
    argument = builder.load(builder.inttoptr(function.args[1], _POINTER))
    address = python(builder, "PyLong_AsUnsignedLongLongMask", argument)
    destructor = builder.ptrtoint(module.get_global("give_back_capsule"), _WORD)
    builder.ret(python(builder, "PyCapsule_New", address, ir.Constant(_WORD, name_address), destructor))
