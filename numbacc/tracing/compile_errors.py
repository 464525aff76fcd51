"""Compile the kernels that ran in the simulator for a GPU, and collect the compiler's errors.

The simulator runs any Python, so a kernel can work there and fail to compile. The compiler runs in another process,
without the simulator, and needs no GPU. Kernels are sent to it together with the values that they refer to.
"""

from __future__ import annotations

import atexit
import base64
import dis
import marshal
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..errors import UnsupportedError
from ..functions.symbolic.ieee_math import names_in
from ..simulator.compiled.source import is_device, plain


class CompileError(NamedTuple):
    """An error that the compiler found in a kernel.

    Attributes:
        kernel: the kernel's name.
        line: the line in its file or cell; 0 if the compiler does not say.
        words: the cause and the fix.
    """

    kernel: str
    line: int
    words: str

    def __str__(self) -> str:
        return f"{self.kernel} cannot be compiled for a GPU{f': line {self.line}' * bool(self.line)}: {self.words}"


def sample(view: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a small array that has the same type for the compiler."""
    shape = tuple(min(n, 2) for n in view.shape)
    if view.flags.c_contiguous or view.flags.f_contiguous:
        return np.empty(shape, view.dtype, "C" if view.flags.c_contiguous else "F")
    return np.empty(tuple(2 * max(n, 2) for n in shape), view.dtype)[(slice(None, None, 2),) * view.ndim]


def error_of(kernel: Callable[..., Any], samples: Sequence[Any]) -> CompileError | None:
    """Compile a kernel for arguments like these, and return the error; None if it compiles.

    Raises:
        UnsupportedError: this kernel, or any kernel, cannot be compiled on this machine. The message has the reason.
    """
    job = {"functions": packed(kernel), "samples": [pickle.dumps(each) for each in samples]}
    verdict, text = _compiler.answer(job)
    if verdict == "unable":
        raise UnsupportedError(
            f"{kernel.__name__} was not compiled for a GPU: {text.splitlines()[0]}. It needs no GPU, but Numba's CUDA "
            'compiler: pip install "numbacc[cu12]"'
        )
    if verdict == "compiled":
        return None
    code = kernel.__code__
    words, pattern = _words(text)
    return CompileError(kernel.__name__, _line(text, code) or _line_of(code, pattern), words)


def prepare() -> None:
    """Start the compiler's process. It loads its libraries while this process goes on."""
    _compiler.start()


def errors_of(kernels: Sequence[tuple[Callable[..., Any], Sequence[Any]]]) -> list[CompileError]:
    """Compile users' kernels, each for arguments like its samples, and return the errors."""
    found: dict[Any, CompileError | None] = {}
    for kernel, samples in kernels:
        key = kernel, *(_kind(each) for each in samples)
        if key not in found and not kernel.__code__.co_filename.startswith(_OURS):
            found[key] = error_of(kernel, samples)
    return [each for each in found.values() if each is not None]


_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def _kind(argument: Any) -> Any:
    """Return a key that is equal for arguments of one type."""
    if isinstance(argument, np.ndarray):
        return str(argument.dtype), argument.ndim, argument.flags.c_contiguous, argument.flags.f_contiguous
    return tuple(map(_kind, argument)) if isinstance(argument, tuple) else type(argument)


# ---------------------------------------------------------------- send a kernel to the compiler's process


def packed(kernel: Any) -> list[dict[str, Any]]:
    """Return a kernel and all functions that it calls, as bytes, numbers and strings. The kernel comes first."""
    functions: list[dict[str, Any]] = []
    numbers: dict[int, int] = {}

    def number(function: FunctionType) -> int:
        if id(function) not in numbers:
            numbers[id(function)] = len(functions)
            own: dict[str, Any] = {}
            functions.append(own)
            held = function.__globals__
            own.update(
                name=function.__name__,
                code=marshal.dumps(function.__code__),
                defaults=pickle.dumps(function.__defaults__),
                closure=[value(cell.cell_contents) for cell in function.__closure__ or ()],
                globals={name: value(held[name]) for name in sorted(names_in(function.__code__)) if name in held},
            )
        return numbers[id(function)]

    def value(found: Any) -> tuple[str, Any]:
        if is_device(found):
            return "device", number(plain(found))
        if isinstance(found, ModuleType):
            return "module", found.__name__
        if isinstance(found, FunctionType) and found.__module__ in ("__main__", None, kernel.__module__):
            return "function", number(found)
        return "pickled", pickle.dumps(found)

    try:
        number(kernel)
    except Exception as error:  # a value that cannot be pickled
        raise UnsupportedError(
            f"{kernel.__name__} was not compiled for a GPU: a value in it cannot be sent to the compiler: {error}"
        ) from None
    return functions


class _Compiler:
    """The process that compiles. It starts with the first kernel."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def answer(self, job: dict[str, Any]) -> tuple[str, str]:
        line = base64.b64encode(pickle.dumps(job)) + b"\n"
        with self._lock:
            for _ in range(2):  # the process ends when it was idle for long
                process = self._running()
                assert process.stdin is not None and process.stdout is not None
                try:
                    process.stdin.write(line)
                    process.stdin.flush()
                    found = process.stdout.readline()
                except OSError:
                    found = b""
                if found:
                    verdict, text = pickle.loads(base64.b64decode(found))
                    return str(verdict), str(text)
                self.end()
        return "unable", "the compiler's process ended"

    def start(self) -> None:
        with self._lock:
            self._running()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            environment = {name: text for name, text in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
            environment["PYTHONPATH"] = os.pathsep.join(each for each in sys.path if each)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "numbacc.tracing.compiler"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        return self._process

    def end(self) -> None:
        """End the process if it runs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


_compiler = _Compiler()
atexit.register(_compiler.end)


# ---------------------------------------------------------------- the compiler's messages


_MEMORY = "a kernel cannot allocate memory. Use single variables, a tuple, cuda.local.array or cuda.shared.array"
#: Pattern of a compiler's message, the text for the user, and the bytecode instruction to blame if the compiler names
#: no line.
_SAID: tuple[tuple[str, str, str], ...] = (
    (
        r"set_try_status|exception_match",
        "it catches exceptions, which kernels do not support: use if",
        "SETUP|PUSH_EXC",
    ),
    (r"yield", "it contains yield, which kernels do not support: write a loop", "MAKE_FUNCTION"),
    (
        r"unicode_type",
        "it formats a string, which kernels do not support: pass numbers and constant strings to print",
        "FORMAT|BUILD_STRING",
    ),
    (
        r"function (dot|vdot|matmul|sorted)>",
        "kernels have no {0} of arrays: a thread computes with single elements, in a loop",
        r"LOAD_\w+ {0}\b",
    ),
    (r"built-in function (zeros|ones|empty|full)", f"it makes an array by np.{{0}}, and {_MEMORY}", r"LOAD_\w+ {0}\b"),
    (r"build_list|list\(|ListType|reflected list", f"it makes a list, and {_MEMORY}", "BUILD_LIST"),
    (r"build_set|\bset\(|Set\(", f"it makes a set, and {_MEMORY}", "BUILD_SET"),
    (r"DictType|build_map", f"it makes a dict, and {_MEMORY}", "BUILD_(CONST_KEY_)?MAP"),
    (
        r"function (shared|local)\.array",
        "the shape of cuda.{0}.array must be known when the kernel is compiled: write a number, or a global name",
        r"LOAD_\w+ {0}\b",
    ),
    (r"_ol_array_allocate|NRT required|addrspace", f"it makes an array, and {_MEMORY}; or loop over elements", ""),
    (r"No conversion from .* to none for '\$\w*return", "it returns a value: write it to an array", "RETURN_VALUE"),
    (r"KeyError: <ufunc '(\w+)'>", "kernels have no np.{0} of these arguments: use math.{0}", r"LOAD_\w+ {0}\b"),
    (
        r"Untyped global name '(\w+)': Cannot determine Numba type of <class 'function'>",
        "it calls {0}, a plain Python function: decorate it with @cuda.jit(device=True)",
        r"LOAD_GLOBAL {0}\b",
    ),
    (r"(NameError: name '(\w+)' is not defined)", "{0}", r"LOAD_GLOBAL {1}\b"),
    (
        r"No implementation of function Function\(<(?:built-in )?(?:function|class) '?([\w.]+)",
        "kernels have no {0} of these arguments: loop over the elements",
        r"LOAD_\w+ {0}\b",
    ),
)


def _words(text: str) -> tuple[str, str]:
    """Return the text for a compiler's message, and the instruction to blame."""
    for pattern, words, instruction in _SAID:
        match = re.search(pattern, text)
        if match:
            return words.format(*match.groups()), instruction.format(*match.groups())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if not re.match(r"\w+Error: Failed in |Failed in |During: |File ", line)]
    return f"Numba says: {(told or lines)[0]}", ""


def _line(text: str, code: CodeType) -> int:
    """Return the last line of a kernel that a compiler's message names; 0 if it names none of its lines."""
    last = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
    found = re.findall(r"(?:line |\()(\d+)(?:\)|:|\b)", text)
    inside = [int(each) for each in found if code.co_firstlineno < int(each) <= last]
    return inside[-1] if inside else 0


def _line_of(code: CodeType, instruction: str) -> int:
    """Return the line of the first such instruction; 0 if the code lacks it."""
    line = 0
    for each in dis.get_instructions(code):
        line = each.starts_line if type(each.starts_line) is int else getattr(each, "line_number", None) or line
        if instruction and re.match(instruction, f"{each.opname} {each.argval}"):
            return line
    return 0
