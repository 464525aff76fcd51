"""The machine code behind `lent`: functions without Python, which push what is given back on a list."""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import binding, ir

_WORD = ir.IntType(64)
_POINTER = _WORD.as_pointer()


class Code:
    """The compiled functions, and the list that they push on.

    Attributes:
        give_back: offset -> address of a C function void(*)(void *node), which pushes a node whose link to the next is
            at that offset.
        give_back_capsule: address of a destructor of PyCapsules with DLPack's names: it pushes what nobody took.
        take: returns the first node of the list, and empties it.
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
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        module.triple = binding.get_process_triple()
        parsed = binding.parse_assembly(str(module))
        machine = binding.Target.from_triple(module.triple).create_target_machine(jit=True)
        self._engine = binding.create_mcjit_compiler(parsed, machine)
        self._engine.finalize_object()
        address = self._engine.get_function_address
        self.give_back = {offset: address(f"give_back_{offset}") for offset in {0, *offsets.values()}}
        self.give_back_capsule = address("give_back_capsule")
        self.take = ctypes.PYFUNCTYPE(ctypes.c_uint64)(address("take"))
        # One reference too many: neither this object nor its engine is freed when the interpreter ends.
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
    _, builder = _function(module, "take", _WORD, 0)
    first = builder.inttoptr(ir.Constant(_WORD, head), _POINTER)
    builder.ret(builder.atomic_rmw("xchg", first, ir.Constant(_WORD, 0), "acq_rel"))


def _define_destructor(module: ir.Module, offsets: dict[int, int]) -> None:
    """void give_back_capsule(capsule): a consumer that has taken the tensor has renamed its capsule."""
    function, builder = _function(module, "give_back_capsule", ir.VoidType(), 1)
    capsule = function.args[0]

    def python(name: str, result: Any) -> Any:
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        kind = ir.FunctionType(result, [_WORD, _WORD])
        return builder.inttoptr(ir.Constant(_WORD, address), kind.as_pointer())

    is_valid = python("PyCapsule_IsValid", ir.IntType(32))
    pointer = python("PyCapsule_GetPointer", _WORD)
    for name, offset in offsets.items():
        word = ir.Constant(_WORD, name)
        valid = builder.icmp_signed("!=", builder.call(is_valid, [capsule, word]), ir.Constant(ir.IntType(32), 0))
        with builder.if_then(valid):
            builder.call(module.get_global(f"give_back_{offset}"), [builder.call(pointer, [capsule, word])])
    builder.ret_void()
