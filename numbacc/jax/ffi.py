"""Calls from XLA: its typed FFI calls a handler with the addresses of arrays, and the handler runs numbacc.

The structures are declared in xla/ffi/api/c_api.h, which is part of jaxlib. A call has two attributes: `call`, its name
and options, and `key`, a digest of that text. On a GPU, compiled code (`runtime.native_ffi`) reads the structures, and
looks for a record of the call. A record with one kernel is launched without Python. For other records, Python gets a
list of addresses. Only the first call of each kind on each GPU is analyzed.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import json
import re
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from .. import bridges
from ..arrays import operands
from ..base import dtypes, observing
from ..base.codes import MANY_ARRAYS
from ..base.dispatch import runtime
from ..base.layout import layout, row_major_strides
from ..errors import DTypeError, ShapeError, UnsupportedError
from ..runtime import builtin
from ..runtime.steps import IN_SCRATCH, compiled_steps

__all__ = ["TARGET", "Description", "as_operand", "attributes", "register", "register_gpu"]

#: XLA's name of the handler.
TARGET = "numbacc"
#: Versions (major, minor) of the FFI whose structures are as below.
KNOWN = ((0, 3), (0, 4))
#: XLA must not capture the calls into CUDA graphs: the first call compiles and measures, and plans of libraries use
#: scratch memory that a graph would have to keep.
TRAITS = 0

# ---------------------------------------------------------------- structures

_Pointer, _Size, _Integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64


def _structure(name: str, *fields: tuple[str, Any]) -> Any:
    return type(name, (ctypes.Structure,), {"_fields_": list(fields)})


_Extension = _structure("Extension", ("size", _Size), ("type", ctypes.c_int), ("next", _Pointer))
_Version = _structure(
    "Version", ("size", _Size), ("extension", _Pointer), ("major", ctypes.c_int), ("minor", ctypes.c_int)
)
_Metadata = _structure("Metadata", ("size", _Size), ("version", _Version), ("traits", ctypes.c_uint32))
_MetadataExtension = _structure("MetadataExtension", ("base", _Extension), ("metadata", ctypes.POINTER(_Metadata)))
_Array = _structure(
    "Array", ("size", _Size), ("extension", _Pointer), ("dtype", ctypes.c_int), ("data", _Pointer), ("rank", _Integer),
    ("shape", ctypes.POINTER(_Integer)),
)  # fmt: skip
_Arrays = _structure(
    "Arrays", ("size", _Size), ("extension", _Pointer), ("count", _Integer), ("types", _Pointer),
    ("arrays", ctypes.POINTER(ctypes.POINTER(_Array))),
)  # fmt: skip
_Text = _structure("Text", ("data", _Pointer), ("length", _Size))
_Attributes = _structure(
    "Attributes", ("size", _Size), ("extension", _Pointer), ("count", _Integer),
    ("types", ctypes.POINTER(ctypes.c_int)), ("names", ctypes.POINTER(ctypes.POINTER(_Text))),
    ("values", ctypes.POINTER(_Pointer)),
)  # fmt: skip
_Api = _structure(
    "Api", ("size", _Size), ("extension", _Pointer), ("version", _Version), ("internal", _Pointer),
    ("create_error", _Pointer), ("read_error", _Pointer), ("destroy_error", _Pointer), ("register", _Pointer),
    ("stream", _Pointer),
)  # fmt: skip
_Frame = _structure(
    "Frame", ("size", _Size), ("extension", _Pointer), ("api", ctypes.POINTER(_Api)), ("context", _Pointer),
    ("stage", ctypes.c_int), ("arguments", _Arrays), ("results", _Arrays), ("attributes", _Attributes),
)  # fmt: skip
_ErrorArguments = _structure(
    "ErrorArguments", ("size", _Size), ("extension", _Pointer), ("message", ctypes.c_char_p), ("code", ctypes.c_int)
)
_METADATA_EXTENSION, _EXECUTE, _STRING = 1, 3, 4
_Function = ctypes.CFUNCTYPE(_Pointer, _Pointer)
_Handler = ctypes.CFUNCTYPE(_Pointer, _Pointer, _Pointer)

#: XLA's number of a dtype -> its name.
_DTYPES = {
    1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "uint16", 8: "uint32", 9: "uint64",
    10: "float16", 11: "float32", 12: "float64", 15: "complex64", 16: "bfloat16", 18: "complex128", 19: "float8_e5m2",
    20: "float8_e4m3fn",
}  # fmt: skip
#: XLA's codes of errors.
_CODES = ((UnsupportedError, 12), (MemoryError, 8), (ValueError, 3), (TypeError, 3))
_INTERNAL = 13


def check_version() -> None:
    """Raise ImportError unless numbacc knows the FFI of the installed jaxlib."""
    path = Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    found = re.findall(r"#define XLA_FFI_API_(?:MAJOR|MINOR) (\d+)", path.read_text())
    _check_version(tuple(int(each) for each in found))


def _check_version(found: Sequence[int]) -> None:
    if tuple(found) not in KNOWN:
        known = " and ".join(f"{major}.{minor}" for major, minor in KNOWN)
        raise ImportError(
            f"numbacc.jax knows XLA's FFI in the versions {known}, and jaxlib {jax.lib.__version__} has "
            f"{'.'.join(map(str, found)) or 'an unknown one'}: install a version of jax that docs/jax.md names",
            name="jax",
        )


# ---------------------------------------------------------------- descriptions of calls


class Description(NamedTuple):
    """The name and options of a call.

    Attributes:
        name: of one of `bridges.CALLS`, or of a user's kernel.
        present: for each array argument, whether it is given.
        options: the further arguments.
    """

    name: str
    present: tuple[bool, ...]
    options: tuple[Any, ...]

    def call(self, outs: Sequence[Any], given: Sequence[Any]) -> bridges.FunctionCall:
        """Return the call for arrays.

        Raises:
            UnsupportedError: a user's kernel has not been wrapped in this process.
        """
        make = bridges.CALLS.get(self.name)
        if make is None:
            raise UnsupportedError(
                f"a compiled JAX function calls {self.name!r}, a kernel that this process has not wrapped: call "
                "numbacc.jax.wrap before the function"
            )
        rest = iter(given)
        return make(tuple(outs), *[next(rest) if each else None for each in self.present], *self.options)


def attributes(described: Description) -> dict[str, Any]:
    """Return the attributes of a call."""
    text = json.dumps(described, default=lambda number: number.item())  # NumPy's numbers, such as an axis
    key = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little", signed=True)
    return {"call": text, "key": np.int64(key)}


@lru_cache(maxsize=4096)
def _described(text: str) -> Description:
    name, present, options = json.loads(text)
    return Description(name, tuple(present), tuple(tuple(o) if isinstance(o, list) else o for o in options))


def as_operand(array: Any) -> Any:
    """Return an array as numbacc's functions take it: two uint32 numbers stand for an int64 offset of dropout.

    JAX supports int64 only if the user enables it.
    """
    if array.dtype != np.uint32 or array.shape != (2,):
        return array
    if isinstance(array, np.ndarray):
        return array.view(np.int64)
    made = layout((1,), (8,), np.dtype(np.int64), array._numbacc_layout.device)
    return type(array)(made, array._address, array._storage)


class _Call(NamedTuple):
    """A call, as a frame describes it."""

    described: Description
    arguments: int
    arrays: list[tuple[str, tuple[int, ...], int]]  # dtype, shape, address; arguments before results


def _read(frame: Any) -> _Call:
    named = frame.attributes
    text = None
    for k in range(named.count):
        name = named.names[k].contents
        if ctypes.string_at(name.data, name.length) == b"call" and named.types[k] == _STRING:
            text = ctypes.cast(named.values[k], ctypes.POINTER(_Text)).contents
    if text is None:
        raise UnsupportedError("this custom call of numbacc was made by another version: compile the function again")
    described = _described(ctypes.string_at(text.data, text.length).decode())
    arrays = []
    for each in (frame.arguments, frame.results):
        for k in range(each.count):
            array = each.arrays[k].contents
            if array.dtype not in _DTYPES:
                raise DTypeError(f"numbacc does not support XLA's dtype number {array.dtype}")
            arrays.append((_DTYPES[array.dtype], tuple(array.shape[: array.rank]), array.data or 0))
    return _Call(described, frame.arguments.count, arrays)


def _error(frame: Any, error: BaseException) -> Any:
    """Return XLA's error object for an exception."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), _INTERNAL)
    text = f"{type(error).__name__}: {error}".encode()
    made = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, text, code)
    return _Function(frame.api.contents.create_error)(ctypes.addressof(made))


def _answered(frame: Any) -> bool:
    """Handle a call that only asks for metadata, or for another stage, and return True; else False."""
    if frame.extension:
        extension = ctypes.cast(frame.extension, ctypes.POINTER(_MetadataExtension)).contents
        if extension.base.type == _METADATA_EXTENSION:
            metadata = extension.metadata.contents
            version = frame.api.contents.version if frame.api else None
            metadata.version.major, metadata.version.minor = (version.major, version.minor) if version else KNOWN[-1]
            metadata.traits = TRAITS
            return True
    return bool(frame.stage != _EXECUTE)


# ---------------------------------------------------------------- the CPU


def _host_array(kind: str, shape: tuple[int, ...], address: int) -> Any:
    dtype = dtypes.TABLE[kind].numpy
    count = int(np.prod(shape, dtype=np.int64))
    if not count:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memory, dtype).reshape(shape)  # type: ignore[call-overload]


def _on_cpu(address: int, _: int) -> Any:
    frame = _Frame.from_address(address)
    try:
        if _answered(frame):
            return None
        call = _read(frame)
        arrays = [_host_array(*each) for each in call.arrays]
        given, outs = arrays[: call.arguments], arrays[call.arguments :]
        called = call.described.call(outs, [as_operand(each) for each in given])
        called.function(*called.arguments, **called.options)
    except BaseException as error:
        return _error(frame, error)
    return None


# ---------------------------------------------------------------- GPUs


class _GpuHandler:
    """The handler for GPUs: its table of records, and the part of it that is Python."""

    #: The number of places in the table, and of records, which are kept until the process ends.
    places, most = 1 << 14, 1 << 12

    def __init__(self) -> None:
        from numbacc_bindings.driver import driver

        from ..runtime import native_ffi
        from ..runtime.sharing import Borrowed

        self._words, self._borrowed = native_ffi, Borrowed
        self._address_of = builtin.address_of
        self._array = operands.device_array()
        self._table = (ctypes.c_int64 * self.places)()
        self._state = (ctypes.c_int64 * 5)()
        thread = ctypes.cast(ctypes.pythonapi.PyThread_get_thread_ident, ctypes.c_void_p)
        self._state[native_ffi.GET_THREAD] = thread.value or 0
        self._state[native_ffi.GET_CURRENT] = driver.address("cuCtxGetCurrent")
        self._state[native_ffi.MASK] = self.places - 1
        self._state[native_ffi.TABLE] = ctypes.addressof(self._table)
        self._prepared: list[_KnownCall | _Unplanned] = []
        self._kept: list[Any] = []
        self._lock = threading.Lock()
        self._thread = threading.local()
        self._clients: Any = None
        self._slow = _Handler(self._python)
        slow = ctypes.cast(self._slow, ctypes.c_void_p).value or 0
        self.address = builtin.handler(_door, slow, native_ffi.OUT_WORDS, native_ffi.handle, self._state)
        self._out = ctypes.c_int64 * native_ffi.OUT_WORDS
        observing.watchers.append(self._watch)
        self._watch(observing._observers is not None)

    def _watch(self, is_observed: bool) -> None:
        self._state[self._words.OBSERVED] = is_observed

    def _python(self, address: int, out: int) -> Any:
        try:
            words = self._out.from_address(out)
            number = words[0]
            if not hasattr(self._thread, "kept"):
                # Python would delete its state of this thread after each call, and with it the handles of libraries
                # that belong to the thread. So one reference is never released.
                ctypes.pythonapi.PyGILState_Ensure()
                self._thread.kept = True
            if number:
                self._prepared[number - 1].run(words)
                return None
        except BaseException as error:
            return _error(_Frame.from_address(address), error)
        return self._first(address, words)

    def _first(self, address: int, words: Any) -> Any:
        frame = _Frame.from_address(address)
        try:
            if _answered(frame):
                return None
            if self._clients is None:
                self._clients = jax.devices("cuda")  # keeps XLA's streams alive: they order the frees of scratch memory
            self._run(_read(frame), words)
        except BaseException as error:
            return _error(frame, error)
        return None

    def _run(self, call: _Call, words: Any) -> None:
        """Run a call for the first time, or while calls are observed, and keep its plan."""
        names = self._words
        length = words[names.OUT_KEY]
        if not length:
            raise ShapeError(f"{call.described.name}: too many arrays, or too many dimensions")
        stream = words[names.OUT_STREAM]
        device = self._device(call)
        memories = [self._borrowed(None, place, device, stream, stream) for _, _, place in call.arrays]
        arrays = [
            self._array(each, memory.address, memory)
            for each, memory in zip(_layouts(call, device), memories, strict=True)
        ]
        given, outs = arrays[: call.arguments], arrays[call.arguments :]
        called = call.described.call(outs, [as_operand(each) for each in given])
        if self._state[names.OBSERVED]:
            called.function(*called.arguments, **called.options, stream=stream)
            return
        found = bridges.ran(called, stream)
        numbers = {id(memory): k for k, memory in enumerate(memories)}
        if found is None or any(id(getattr(array, "_storage", None)) not in numbers for array in found.arrays):
            self._keep(_Unplanned(self, call, device), words)
            return
        rows = []
        for array in found.arrays:
            number = numbers[id(array._storage)]
            rows.append((number, array._address - memories[number].address))
        self._keep(_KnownCall(self, found, rows, device), words)

    def _device(self, call: _Call) -> int:
        """Return the GPU that the arrays of a call are on."""
        from numbacc_bindings.driver import PointerAttribute

        from ..runtime.contexts import current_device, device_count, on_device
        from ..runtime.transfers import pointer_attribute

        if device_count() == 1:
            return 0
        first = current_device()
        with on_device(first):
            for _, shape, address in call.arrays:
                if address and 0 not in shape:
                    found = pointer_attribute(PointerAttribute.DEVICE_ORDINAL, address, first)
                    if found is not None:
                        return found
        return first

    def _keep(self, prepared: _KnownCall | _Unplanned, words: Any) -> None:
        names = self._words
        length = words[names.OUT_KEY]
        key = words[names.OUT_KEY + 1 : names.OUT_KEY + 1 + length]
        with self._lock:
            if len(self._prepared) == self.most:
                return  # further calls are analyzed each time
            place = words[names.OUT_PLACE]
            while self._table[place]:
                record = (ctypes.c_int64 * (names.RECORD_KEY + length)).from_address(self._table[place])
                if record[names.KEY_LENGTH] == length and record[names.RECORD_KEY :] == key:
                    return  # another thread was faster
                place = (place + 1) % self.places
            self._prepared.append(prepared)
            made = _row([len(self._prepared), 0, length, *key])
            self._kept.append(made)
            prepared.record = made
        # Another thread's reads of the record come after this store, since releasing the lock orders the stores.
        self._table[place] = ctypes.addressof(made)
        prepared.compile(words)

    def publish(self, record: Any, program: Sequence[int]) -> None:
        """Let the handler run a record's calls by a program."""
        made = _row(program)
        with self._lock:
            self._kept.append(made)
        record[self._words.PROGRAM] = ctypes.addressof(made)


def _row(numbers: Sequence[int]) -> Any:
    """Return memory that holds numbers as 64-bit words."""
    return (ctypes.c_int64 * len(numbers))(*(n - 2**64 if n >= 2**63 else n for n in numbers))


def _layouts(call: _Call, device: int) -> list[Any]:
    made = []
    for kind, shape, _ in call.arrays:
        dtype = dtypes.TABLE[kind].numpy
        made.append(layout(shape, row_major_strides(shape, dtype.itemsize), dtype, device))
    return made


class _Unplanned:
    """A call that no plan describes, such as the gradient of a user's kernel, for arrays at other addresses."""

    record: Any = None

    def __init__(self, gpu: _GpuHandler, call: _Call, device: int):
        self._gpu, self._device = gpu, device
        self._layouts, self._described, self._count = _layouts(call, device), call.described, call.arguments

    def compile(self, words: Any) -> None:
        """Do nothing, unlike `_KnownCall.compile`: these calls need Python."""

    def run(self, words: Any) -> None:
        """Run on the arrays at the addresses that the handler has found."""
        stream, first = words[1], self._gpu._words.OUT_ARRAYS
        arrays = []
        for k, each in enumerate(self._layouts):
            address = words[first + k]
            arrays.append(
                self._gpu._array(each, address, self._gpu._borrowed(None, address, self._device, stream, stream))
            )
        given, outs = arrays[: self._count], arrays[self._count :]
        function, arguments, options = self._described.call(outs, [as_operand(each) for each in given])
        function(*arguments, **options, stream=stream)


class _KnownCall:
    """A plan of a call, for arrays at other addresses.

    Attributes:
        rows: for each of the plan's arrays its number in the frame, and a byte offset.
        scalars: of the plan's runs.
        record: the handler's record of the call.
    """

    #: The most programs for different threads and streams, and the most bytes of scratch memory that one keeps.
    _most_programs, _most_scratch = 16, 1 << 22

    def __init__(self, gpu: _GpuHandler, ran: bridges.Ran, rows: Sequence[tuple[int, int]], device: int):
        self._gpu, self.rows, self._device = gpu, tuple(rows), device
        self._plan, self._count, self._is_list = ran.plan, len(ran.inputs), ran.is_list
        self.scalars = ran.scalars or getattr(ran.plan, "_scalars", ())
        self._layouts = tuple(operands.layout_of(each) for each in ran.arrays) if ran.is_several else ()
        self._first = gpu._words.OUT_ARRAYS
        self.record: Any = None
        self._programs = 0
        self._kept: list[Any] = []

    def compile(self, words: Any) -> None:
        """Make a program for the handler from the plan's last run, if the run was compiled code only.

        Work with scratch memory, or with a library's handle, gets a program for this thread and this stream.
        """
        if self._layouts or self._plan.empty or self._programs == self._most_programs:
            return
        self._programs += 1
        names, found, stream = self._gpu._words, self._plan.chosen.direct, words[1]
        places = self.rows
        steps = None if found is None else compiled_steps(found, places, 0, self.scalars)
        if steps is None or found.workspace_bytes > self._most_scratch or not self._fit(steps):
            self._programs = self._most_programs
            return
        scratch, is_own = 0, self._plan.per_thread or found.workspace_bytes > 0
        if found.workspace_bytes:
            memory = runtime().allocate(found.workspace_bytes, self._device, stream)
            scratch = memory.address
            if self._plan.clear:
                runtime().fill(scratch, b"\0", found.workspace_bytes, self._device, stream)
            self._kept.append(memory)
        self._kept += [found, steps]
        # A single step checks the alignment itself.
        arrays = sorted({number for number, _ in places}) if len(steps) > 1 else []
        row = [threading.get_ident() if is_own else 0, stream if is_own else -1, len(arrays), len(steps)]
        for number in arrays:
            row += [number, words[names.OUT_ARRAYS + number] % names.ALIGNMENT]
        for each in steps:
            own = 0 if each.scratch is None else scratch + each.scratch
            template = ctypes.addressof(each.template)
            row += [self._gpu._address_of(each.function), template, own, len(each.places), len(each.scalars)]
            for number, offset in each.places:
                row += [number, offset] if number >= 0 else [-1, scratch + offset if number == IN_SCRATCH else 0]
            row += each.scalars
        self._gpu.publish(self.record, row)

    @staticmethod
    def _fit(steps: Sequence[Any]) -> bool:
        """Return whether the steps' words fit into the handler's memory."""
        return all(len(each.places) + len(each.scalars) <= MANY_ARRAYS for each in steps)

    def run(self, words: Any) -> None:
        """Run on the arrays at the addresses that the handler has found."""
        stream = words[1]
        first = self._first
        addresses = [words[first + number] + offset for number, offset in self.rows]
        if not self._layouts and self._plan.queued(addresses, stream, self.scalars):
            if self._programs < self._most_programs:
                self.compile(words)
            return
        memory = self._gpu._borrowed(None, 0, self._device, stream, stream)
        count = self._count
        arrays: list[Any]
        if self._layouts:
            pairs = zip(self._layouts, addresses, strict=True)
            arrays = [self._gpu._array(layout, address, memory) for layout, address in pairs]
            self._plan.run(arrays[:count], arrays[count:] if self._is_list else arrays[-1], stream)
        else:
            arrays = [bridges.LightArray(address, memory) for address in addresses]
            self._plan.run(arrays[:count], arrays[count:], True, stream, self.scalars)


#: Objects that XLA calls, which live until the process ends.
_kept: list[Any] = []
_door = builtin.Door()
_lock = threading.Lock()


def register() -> None:
    """Register the handler for CPUs with XLA.

    Raises:
        ImportError: numbacc does not know this jaxlib's FFI.
    """
    check_version()
    handler = _Handler(_on_cpu)
    _kept.append(handler)
    address = builtin.handler(_door, ctypes.cast(handler, ctypes.c_void_p).value or 0, 1)
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(address), platform="cpu", api_version=1)
    atexit.register(_door.close)


@lru_cache(maxsize=1)
def register_gpu() -> None:
    """Register the handler for GPUs, if JAX has any. This loads Numba and initializes JAX's devices."""
    with _lock:
        try:
            jax.devices("cuda")
        except RuntimeError:
            return
        if len(_kept) == 1:
            gpu = _GpuHandler()
            _kept.append(gpu)
            jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(gpu.address), platform="CUDA", api_version=1)
