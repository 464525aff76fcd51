"""What foreign code holds of ours and gives back by calling a function: DLPack's consumers, and the driver's graphs.

They may call from any thread, without Python's lock, and after the interpreter has ended. So the functions that they
get are machine code made here that knows nothing of Python and is never freed: it pushes what is given back on a list,
which Python empties now and then (`collect`).
"""

from __future__ import annotations

import ctypes
import threading
from functools import lru_cache
from typing import Any

from llvmlite import binding, ir

_WORD = ir.IntType(64)
_POINTER = _WORD.as_pointer()


class _Code:
    """The compiled functions, and the list that they push on.

    Attributes:
        give_back: offset -> address of a C function void(*)(void *node), which pushes a node whose link to the next is
            at that offset.
        give_back_capsule: address of a destructor of PyCapsules with DLPack's names: it pushes what nobody took.
        take: returns the first node of the list, and empties it.
    """

    def __init__(self, offsets: dict[bytes, int]):
        # Never freed, as the code is not.
        self._head = ctypes.create_string_buffer(8)
        self._names = {name: ctypes.create_string_buffer(name) for name in offsets}
        head = ctypes.addressof(self._head)
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
        self.take = ctypes.CFUNCTYPE(ctypes.c_uint64)(address("take"))
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


#: Names of DLPack's capsules -> where their structures have a word that is the producer's: `manager_ctx`.
CAPSULES = {b"dltensor": 48, b"dltensor_versioned": 8}

#: Address of a node -> (offset of its link, what must live until it is given back).
_lent: dict[int, tuple[int, Any]] = {}
_lock = threading.Lock()
_made: list[_Code] = []


@lru_cache(maxsize=1)
def _code() -> _Code:
    # Threads that come here together, which the cache lets in, must get the same: of another's list nothing is taken.
    with _lock:
        if not _made:
            _made.append(_Code(CAPSULES))
        return _made[0]


def lend(node: int, offset: int, owner: Any) -> int:
    """Keep `owner`, which holds the memory of `node`, until the function whose address this returns is called on it."""
    function: int = _code().give_back[offset]
    _lent[node] = offset, owner
    return function


def capsule_destructor() -> int:
    """The address of the destructor of capsules that hold what was lent."""
    function: int = _code().give_back_capsule
    return function


def collect() -> None:
    """Let go of what was given back."""
    if not _lent:
        return
    node = _code().take()
    while node:
        offset, owner = _lent.pop(node)
        node = ctypes.c_uint64.from_address(node + offset).value
        del owner  # not before its memory has been read
