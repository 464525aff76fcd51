"""Compiled host functions as builtins of Python, with a first argument bound to them.

Numba's dispatcher looks at the type of every argument and boxes them one by one: 50 ns each, and 200 for the call. What
operations call takes integers only, so that a builtin made here, in machine code, need not look: 100 ns for all of it.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils

_WORD, _INT = ir.IntType(64), ir.IntType(32)
_FASTCALL = 0x80  # METH_FASTCALL: the arguments come as a C array

#: Python's functions that the machine code calls -> (result, parameters)
_PYTHON = {
    "PyLong_AsUnsignedLongLongMask": (_WORD, 1),
    "PyLong_FromLongLong": (_WORD, 1),
    "PyErr_Occurred": (_WORD, 0),
    "PyEval_SaveThread": (_WORD, 0),
    "PyEval_RestoreThread": (ir.VoidType(), 1),
    "PyCapsule_IsValid": (_INT, 2),
    "PyCapsule_GetPointer": (_WORD, 2),
    "PyCapsule_New": (_WORD, 3),
}


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


#: Integers that a compiled function takes beside the one that is bound to it, at most.
_MOST = 8


def bound(function: Any, first: int) -> Callable[..., int]:
    """`functools.partial(function, first)` of a compiled function that takes up to 8 integers more, only faster.

    As the function does when Numba calls it, it lets other threads run. It is never freed. Integers of more than 64
    bits lose the others; the wrong number of arguments is not noticed.
    """
    (compiled,) = function.overloads.values()
    address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    words = (ctypes.c_uint64 * 2)(address, first % 2**64)
    _immortal((compiled, words))  # finalizers may call it when the interpreter ends
    return builtin(function.__name__, _code(), ctypes.addressof(words))


def builtin(name: str, code: int, self: int) -> Callable[..., Any]:
    """The function of Python that machine code with the signature of METH_FASTCALL is; `self` is its first argument."""
    method = _Method(name.encode(), code, _FASTCALL, None)
    # The end of the interpreter does not free it: builtins that are still there look at their method.
    _immortal(method)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
        ("PyCFunction_NewEx", ctypes.pythonapi)
    )
    made: Callable[..., Any] = make(ctypes.addressof(method), self, None)
    return made


def _immortal(kept: Any) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


_lock = threading.Lock()


@lru_cache(maxsize=1)
def _code() -> int:
    """The address of a METH_FASTCALL function that calls what is bound."""
    module = ir.Module("numbacc_builtin")
    _define(module)
    return int(compiled_forever(module).get_function_address("call"))


def compiled_forever(module: ir.Module) -> Any:
    """The engine that holds a module's machine code, which is never freed, not even when the interpreter ends."""
    with _lock:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        module.triple = binding.get_process_triple()
        parsed = binding.parse_assembly(str(module))
        # Unoptimized it is made in 2 ms instead of 6, and as fast: what it calls takes the time.
        machine = binding.Target.from_triple(module.triple).create_target_machine(opt=0, jit=True)
        engine = binding.create_mcjit_compiler(parsed, machine)
        engine.finalize_object()
    _immortal(engine)
    return engine


def python(builder: ir.IRBuilder, name: str, *arguments: Any) -> Any:
    """A call of a function of Python's C API; pointers are words."""
    result, parameters = _PYTHON[name]
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    kind = ir.FunctionType(result, [_WORD] * parameters)
    return builder.call(builder.inttoptr(ir.Constant(_WORD, address), kind.as_pointer()), arguments)


def _define(module: ir.Module) -> None:
    """PyObject *call(PyObject *self, PyObject *const *arguments, Py_ssize_t count): self is the words' address."""
    pointer, zero = _WORD.as_pointer(), ir.Constant(_WORD, 0)
    function = ir.Function(module, ir.FunctionType(_WORD, [_WORD, pointer, _WORD]), "call")
    self, arguments, count = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    # Those that are not given are 0: C's calling conventions let a function leave its last parameters unread.
    table = builder.bitcast(builder.alloca(ir.ArrayType(_WORD, _MOST)), pointer)
    slots = [builder.gep(table, [ir.Constant(_WORD, k)]) for k in range(_MOST)]
    for slot in slots:
        builder.store(zero, slot)
    # Numba's own convention: an address for the result, one for what is raised (nothing), and the arguments.
    result, raised = builder.alloca(_WORD), builder.alloca(pointer)
    most = ir.Constant(_WORD, _MOST)
    given = builder.select(builder.icmp_unsigned("<", count, most), count, most)
    with cgutils.for_range(builder, given) as each:
        k = each.index
        value = python(builder, "PyLong_AsUnsignedLongLongMask", builder.load(builder.gep(arguments, [k])))
        with builder.if_then(builder.icmp_unsigned("==", value, ir.Constant(_WORD, -1)), likely=False):
            failed = builder.icmp_unsigned("!=", python(builder, "PyErr_Occurred"), zero)
            with builder.if_then(failed, likely=False):
                builder.ret(zero)
        builder.store(value, builder.gep(table, [k]))
    words = builder.inttoptr(python(builder, "PyLong_AsUnsignedLongLongMask", self), pointer)
    address, bound_one = (builder.load(builder.gep(words, [ir.Constant(_WORD, k)])) for k in (0, 1))
    kind = ir.FunctionType(_INT, [pointer, pointer.as_pointer(), *[_WORD] * (1 + _MOST)])
    values = [builder.load(slot) for slot in slots]
    state = python(builder, "PyEval_SaveThread")
    builder.call(builder.inttoptr(address, kind.as_pointer()), [result, raised, bound_one, *values])
    python(builder, "PyEval_RestoreThread", state)
    builder.ret(python(builder, "PyLong_FromLongLong", builder.load(result)))
