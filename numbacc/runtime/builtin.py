"""Python builtins in machine code that call compiled host functions, with a first argument bound to them.

Numba's dispatcher checks the type of every argument and unboxes it: 50 ns per argument, and 200 ns for the call. The
functions that operations call have integer parameters only, so a builtin made here needs no type checks and takes 100
ns in all. Launches pass the existing lists of addresses, without spreading them over arguments first.

The machine code that `foreign_owners` uses is here, too: functions that run without Python and push nodes on a list.
"""

from __future__ import annotations

import ctypes
import struct
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils

from ..base.codes import MANY_ARRAYS

_WORD, _INT = ir.IntType(64), ir.IntType(32)
_FASTCALL = 0x80  # METH_FASTCALL: the arguments come as a C array

#: Python's functions that the machine code calls -> (result, parameters)
_PYTHON = {
    "PyLong_AsUnsignedLongLongMask": (_WORD, 1),
    "PyLong_FromLongLong": (_WORD, 1),
    "PyErr_Occurred": (_WORD, 0),
    "PyErr_BadArgument": (_INT, 0),
    "PyBytes_AsString": (_WORD, 1),
    "PySequence_Size": (_WORD, 1),
    "PySequence_GetItem": (_WORD, 2),
    "Py_DecRef": (ir.VoidType(), 1),
    "PyEval_SaveThread": (_WORD, 0),
    "PyEval_RestoreThread": (ir.VoidType(), 1),
    "PyCapsule_IsValid": (_INT, 2),
    "PyCapsule_GetPointer": (_WORD, 2),
    "PyCapsule_New": (_WORD, 3),
}


class _Method(ctypes.Structure):
    """The C structure PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


#: The most integers that a compiled function accepts in addition to the one that is bound to it.
_MOST = 8


def bound(function: Any, first: int) -> Callable[..., int]:
    """Return `functools.partial(function, first)`, but faster, for a compiled function with up to 8 further integers.

    Other threads run during the call, as they do when Numba calls the function. Integers of more than 64 bits lose
    their upper bits. A wrong number of arguments goes unnoticed.
    """
    return builtin(function.__name__, _code(_define_words), _bound_words(function, first))


def bound_to_arrays(
    function: Any, template: Any, kept: Any = None
) -> Callable[[int, int, Sequence[int], Sequence[int]], int]:
    """Bind a template to a compiled function(template, stream, scratch, words), for calls like `Executable.launch`.

    The function receives two addresses: that of the template (memory of ctypes), and that of the words. The words are
    the arrays' addresses followed by the scalars, in a buffer of `MANY_ARRAYS` words that is padded with zeros. More
    words than fit raise TypeError. As with `bound`, other threads run during the call.

    The returned builtin keeps `template` and `kept` alive, since their creator may be gone when it is called.
    """
    own = _bound_words(function, ctypes.addressof(template))
    return builtin(function.__name__, _code(_define_arrays), own, (template, kept))


def bound_to_words(function: Any, template: Any, kept: Any = None) -> Callable[..., int]:
    """Do what `bound_to_arrays` does, for calls with (stream, scratch, *words): the caller makes no lists."""
    own = _bound_words(function, ctypes.addressof(template))
    return builtin(function.__name__, _code(_define_spread), own, (template, kept))


def _bound_words(function: Any, first: int) -> bytes:
    """Pack the data that a bound function's machine code reads: the function's address and the first argument."""
    return struct.pack("<2Q", address_of(function), first % 2**64)


@lru_cache(maxsize=64)
def address_of(function: Any) -> int:
    """Return the address of a function compiled by Numba. It is never freed: finalizers may call it at exit."""
    (compiled,) = function.overloads.values()
    _immortal(compiled)
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


def builtin(name: str, code: int, self: Any, kept: Any = None) -> Callable[..., Any]:
    """Make a Python function of machine code that has the signature of METH_FASTCALL.

    Args:
        name, code: the function's name, and the machine code's address.
        self: the object that the machine code receives as its first argument.
        kept: an object that lives as long as the function; it is passed in the slot for the module's name.
    """
    made: Callable[..., Any] = _maker()(_method(name, code), self, kept)
    return made


@lru_cache(maxsize=1)
def _maker() -> Any:
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(
        ("PyCFunction_NewEx", ctypes.pythonapi)
    )


@lru_cache(maxsize=64)
def _method(name: str, code: int) -> int:
    """Return the address of a PyMethodDef."""
    method = _Method(name.encode(), code, _FASTCALL, None)
    # Not freed at interpreter exit: builtins that still exist then use their method.
    _immortal(method)
    return ctypes.addressof(method)


def _immortal(kept: Any) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


_lock = threading.Lock()


@lru_cache(maxsize=3)
def _code(define: Callable[[ir.Module], None]) -> int:
    """Return the address of a METH_FASTCALL function that calls the bound function."""
    module = ir.Module("numbacc_builtin")
    define(module)
    return int(compiled_forever(module).get_function_address("call"))


def compiled_forever(module: ir.Module) -> Any:
    """Compile a module and return the engine that holds its machine code, which is never freed, not even at exit."""
    with _lock:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        module.triple = binding.get_process_triple()
        parsed = binding.parse_assembly(str(module))
        # Without optimization, compiling takes 2 ms instead of 6. The code is as fast: the calls in it take the time.
        machine = binding.Target.from_triple(module.triple).create_target_machine(opt=0, jit=True)
        engine = binding.create_mcjit_compiler(parsed, machine)
        engine.finalize_object()
    _immortal(engine)
    return engine


def python(builder: ir.IRBuilder, name: str, *arguments: Any) -> Any:
    """Emit a call of a function of Python's C API; pointers are passed as words."""
    result, parameters = _PYTHON[name]
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    kind = ir.FunctionType(result, [_WORD] * parameters)
    return builder.call(builder.inttoptr(ir.Constant(_WORD, address), kind.as_pointer()), arguments)


def _define_words(module: ir.Module) -> None:
    """Define PyObject *call(PyObject *self, PyObject *const *arguments, Py_ssize_t count) for integers."""
    builder, self, arguments, count = _begun(module)
    # Missing arguments become 0: C's calling conventions let a function leave its last parameters unread.
    table = _zeros(builder, _MOST)
    most = ir.Constant(_WORD, _MOST)
    given = builder.select(builder.icmp_unsigned("<", count, most), count, most)
    with cgutils.for_range(builder, given) as each:
        value = _integer(builder, builder.load(builder.gep(arguments, [each.index])))
        builder.store(value, builder.gep(table, [each.index]))
    _call(builder, self, [builder.load(builder.gep(table, [ir.Constant(_WORD, k)])) for k in range(_MOST)])


def _define_arrays(module: ir.Module) -> None:
    """Define the same `call` for four arguments: stream, scratch, and two lists."""
    builder, self, arguments, count = _begun(module)
    zero, room = ir.Constant(_WORD, 0), ir.Constant(_WORD, MANY_ARRAYS)
    _refuse(builder, builder.icmp_unsigned("!=", count, ir.Constant(_WORD, 4)))
    stream, scratch, *lists = (builder.load(builder.gep(arguments, [ir.Constant(_WORD, k)])) for k in range(4))
    words = [_integer(builder, stream), _integer(builder, scratch)]
    table, filled = _zeros(builder, MANY_ARRAYS), builder.alloca(_WORD)
    builder.store(zero, filled)
    for numbers in lists:
        length = python(builder, "PySequence_Size", numbers)
        _fail(builder, builder.icmp_signed("<", length, zero))
        before = builder.load(filled)
        after = builder.add(before, length)
        _refuse(builder, builder.icmp_unsigned(">", after, room))
        with cgutils.for_range(builder, length) as each:
            item = python(builder, "PySequence_GetItem", numbers, each.index)
            _fail(builder, builder.icmp_unsigned("==", item, zero))
            value = python(builder, "PyLong_AsUnsignedLongLongMask", item)
            python(builder, "Py_DecRef", item)
            _fail_of_minus_one(builder, value)
            builder.store(value, builder.gep(table, [builder.add(before, each.index)]))
        builder.store(after, filled)
    _call(builder, self, [*words, builder.ptrtoint(table, _WORD)])


def _define_spread(module: ir.Module) -> None:
    """Define the same `call` for at least two arguments: stream, scratch, and words."""
    builder, self, arguments, count = _begun(module)
    most = MANY_ARRAYS + 2
    _refuse(builder, builder.icmp_unsigned("<", count, ir.Constant(_WORD, 2)))
    _refuse(builder, builder.icmp_unsigned(">", count, ir.Constant(_WORD, most)))
    table = _zeros(builder, most)
    with cgutils.for_range(builder, count) as each:
        value = _integer(builder, builder.load(builder.gep(arguments, [each.index])))
        builder.store(value, builder.gep(table, [each.index]))
    stream, scratch = (builder.load(builder.gep(table, [ir.Constant(_WORD, k)])) for k in range(2))
    words = builder.ptrtoint(builder.gep(table, [ir.Constant(_WORD, 2)]), _WORD)
    _call(builder, self, [stream, scratch, words])


def _begun(module: ir.Module) -> tuple[ir.IRBuilder, Any, Any, Any]:
    """Begin the function: return (builder, self, arguments, count)."""
    function = ir.Function(module, ir.FunctionType(_WORD, [_WORD, _WORD.as_pointer(), _WORD]), "call")
    return ir.IRBuilder(function.append_basic_block("entry")), *function.args


def _zeros(builder: ir.IRBuilder, count: int) -> Any:
    """Allocate `count` words of 0 on the stack."""
    table = builder.bitcast(builder.alloca(ir.ArrayType(_WORD, count)), _WORD.as_pointer())
    for k in range(count):
        builder.store(ir.Constant(_WORD, 0), builder.gep(table, [ir.Constant(_WORD, k)]))
    return table


def _integer(builder: ir.IRBuilder, given: Any) -> Any:
    """Convert a Python integer to a word."""
    value = python(builder, "PyLong_AsUnsignedLongLongMask", given)
    _fail_of_minus_one(builder, value)
    return value


def _fail_of_minus_one(builder: ir.IRBuilder, value: Any) -> None:
    """Return NULL if a value of -1 signals an error: the object was not an integer."""
    with builder.if_then(builder.icmp_unsigned("==", value, ir.Constant(_WORD, -1)), likely=False):
        _fail(builder, builder.icmp_unsigned("!=", python(builder, "PyErr_Occurred"), ir.Constant(_WORD, 0)))


def _fail(builder: ir.IRBuilder, failed: Any) -> None:
    """Return NULL if `failed`; the Python exception is already set."""
    with builder.if_then(failed, likely=False):
        builder.ret(ir.Constant(_WORD, 0))


def _refuse(builder: ir.IRBuilder, refused: Any) -> None:
    """Raise TypeError if `refused`."""
    with builder.if_then(refused, likely=False):
        python(builder, "PyErr_BadArgument")
        builder.ret(ir.Constant(_WORD, 0))


def _call(builder: ir.IRBuilder, self: Any, values: list[Any]) -> None:
    """Call the bound function while other threads run, and return its result."""
    pointer = _WORD.as_pointer()
    words = builder.inttoptr(python(builder, "PyBytes_AsString", self), pointer)
    address, first = (builder.load(builder.gep(words, [ir.Constant(_WORD, k)])) for k in (0, 1))
    # Numba's calling convention: an address for the result, one for the exception (never set), then the arguments.
    result, raised = builder.alloca(_WORD), builder.alloca(pointer)
    kind = ir.FunctionType(_INT, [pointer, pointer.as_pointer(), *[_WORD] * (1 + len(values))])
    state = python(builder, "PyEval_SaveThread")
    builder.call(builder.inttoptr(address, kind.as_pointer()), [result, raised, first, *values])
    python(builder, "PyEval_RestoreThread", state)
    builder.ret(python(builder, "PyLong_FromLongLong", builder.load(result)))


class Door:
    """A door to Python for threads of other libraries, which closes when the interpreter exits.

    A thread that waits for Python while the interpreter exits waits forever, and the library waits for its thread.
    """

    def __init__(self) -> None:
        #: The number of threads inside; whether the door is closed.
        self.words = (ctypes.c_int64 * 2)()
        _immortal(self.words)

    def close(self) -> None:
        """Let no more threads in, and wait until all are out."""
        self.words[1] = 1
        while self.words[0]:
            time.sleep(0.001)  # other threads run


def handler(door: Door, python: int, words: int, handle: Any = None, state: Any = None) -> int:
    """Return the address of a handler of XLA's calls, void *(void *frame), which lives until the process ends.

    Args:
        door: the door. When it is closed, the handler returns XLA's error object.
        python: the address of a C function void *(frame, address of `words` words), whose result is returned.
        words: the number of words.
        handle: a compiled function (address of `state`, frame, address of the words), which is called first; the
            handler is done if it returns 0.
        state: memory of ctypes.
    """
    module = ir.Module("numbacc_handler")
    function, builder = _function(module, "handler", _WORD, 1)
    (frame,) = function.args
    pointer, zero = _WORD.as_pointer(), ir.Constant(_WORD, 0)
    out = builder.ptrtoint(builder.alloca(ir.ArrayType(_WORD, words)), _WORD)
    if handle is not None:
        _immortal(state)
        result, raised = builder.alloca(_WORD), builder.alloca(pointer)
        kind = ir.FunctionType(_INT, [pointer, pointer.as_pointer(), *[_WORD] * 3])
        code = builder.inttoptr(ir.Constant(_WORD, address_of(handle)), kind.as_pointer())
        builder.call(code, [result, raised, ir.Constant(_WORD, ctypes.addressof(state)), frame, out])
        with builder.if_then(builder.icmp_unsigned("==", builder.load(result), zero)):
            builder.ret(zero)
    inside, closed = (
        builder.inttoptr(ir.Constant(_WORD, ctypes.addressof(door.words) + 8 * k), pointer) for k in range(2)
    )
    one = ir.Constant(_WORD, 1)
    builder.atomic_rmw("add", inside, one, "seq_cst")
    with builder.if_then(builder.icmp_unsigned("!=", builder.load_atomic(closed, "seq_cst", 8), zero), likely=False):
        builder.atomic_rmw("sub", inside, one, "seq_cst")
        # The structure that creates an error: its size, no extension, the message, the code of an aborted call.
        message = ctypes.create_string_buffer(b"numbacc: the Python interpreter exits")
        made = struct.pack("<4Q", 32, 0, ctypes.addressof(message), 10)
        arguments = ctypes.create_string_buffer(made, len(made))
        for each in (message, arguments):
            _immortal(each)
        api = builder.load(builder.gep(builder.inttoptr(frame, pointer), [ir.Constant(_WORD, 2)]))
        create = builder.load(builder.gep(builder.inttoptr(api, pointer), [ir.Constant(_WORD, 6)]))
        kind = ir.FunctionType(_WORD, [_WORD])
        error = ir.Constant(_WORD, ctypes.addressof(arguments))
        builder.ret(builder.call(builder.inttoptr(create, kind.as_pointer()), [error]))
    other = builder.inttoptr(ir.Constant(_WORD, python), ir.FunctionType(_WORD, [_WORD, _WORD]).as_pointer())
    found = builder.call(other, [frame, out])
    builder.atomic_rmw("sub", inside, one, "seq_cst")
    builder.ret(found)
    return int(compiled_forever(module).get_function_address("handler"))


# ---------------------------------------------------------------- objects that foreign code releases

_POINTER = _WORD.as_pointer()


class GiveBack:
    """The compiled functions of `foreign_owners`, and the list that they push nodes on.

    Attributes:
        give_back: offset -> address of a C function void(*)(void *node). It pushes a node that has its link to the next
            node at that offset.
        take: returns the first node of the list, and empties the list.
        new_capsule: DLPack's name of a capsule -> a function that makes a PyCapsule of that name for an address. The
            capsule's destructor gives back a tensor that no consumer has taken.
    """

    def __init__(self, offsets: dict[bytes, int]):
        # Never freed, because the machine code is not.
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
        # One reference too many on purpose: the objects that the code refers to must survive interpreter exit.
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
    """Define PyObject *take(self, arguments, count)."""
    _, builder = _function(module, "take", _WORD, 3)
    first = builder.inttoptr(ir.Constant(_WORD, head), _POINTER)
    node = builder.atomic_rmw("xchg", first, ir.Constant(_WORD, 0), "acq_rel")
    builder.ret(python(builder, "PyLong_FromLongLong", node))


def _define_destructor(module: ir.Module, offsets: dict[int, int]) -> None:
    """Define void give_back_capsule(capsule). A consumer that has taken the tensor has renamed its capsule."""
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
    """Define PyObject *new(self, arguments, count): its one argument is an address; the name is at `name_address`."""
    function, builder = _function(module, f"new_{name}", _WORD, 3)
    argument = builder.load(builder.inttoptr(function.args[1], _POINTER))
    address = python(builder, "PyLong_AsUnsignedLongLongMask", argument)
    destructor = builder.ptrtoint(module.get_global("give_back_capsule"), _WORD)
    builder.ret(python(builder, "PyCapsule_New", address, ir.Constant(_WORD, name_address), destructor))
