"""Read a kernel: its syntax tree, and what its names refer to."""

from __future__ import annotations

import ast
import functools
import inspect
import os
import re
import textwrap
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import FunctionType
from typing import Any

import numpy as np
from numba import types
from numba.core.errors import NumbaError

from ...errors import UnsupportedError
from . import half
from .intrinsics import is_opaque, mark, on_cpu
from .syntax import PREFIX, assignment, expression, named, stored, walk

#: Names that a kernel may have imported from numba.cuda one by one.
DIRECT = {
    "threadIdx", "blockIdx", "blockDim", "gridDim", "grid", "gridsize", "syncthreads", "syncwarp", "shared", "local",
    "const", "atomic", "laneid", "warpsize", "popc", "ffs", "clz", "brev", "selp", "fma", "cg", "libdevice",
    "activemask", "lanemask_lt", "shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync", "all_sync",
    "any_sync", "eq_sync", "ballot_sync", "match_any_sync", "match_all_sync", "syncthreads_count", "syncthreads_and",
    "syncthreads_or", "threadfence", "threadfence_block", "threadfence_system", "fp16", "nanosleep", "cbrt",
    "ldca", "ldcg", "ldcs", "ldlu", "ldcv", "stcg", "stcs", "stwb", "stwt",
}  # fmt: skip

#: Names of vector types.
_VECTOR = re.compile("(u?int(8|16|32|64)|float(32|64))x[1-4]|(u?(char|short|int|long|longlong)|float|double)[1-4]")
#: The prefix of a parameter whose name is a variable.
GIVEN = f"{PREFIX}given_"
#: What generated names have before the user's: for assigned parameters, and for variables of several types.
_BEFORE = re.compile(rf"{GIVEN}|{PREFIX}v\d+_")
#: The classes of dispatchers of device functions.
_DISPATCHERS = ("CUDADispatcher", "Dispatcher", "FakeCUDAKernel", "DeviceFunction")


def as_written(text: str) -> str:
    """Return a text without the prefixes of assigned parameters and of variables of several types."""
    return _BEFORE.sub("", text)


def own(value: Any) -> Any:
    """Return the value of a kernel's global name in the form that Numba for the CPU supports.

    A type from numba.cuda or numba_cuda_mlir becomes Numba's. Scalars and arrays of float16 and bfloat16 become types
    of `half`.
    """
    if isinstance(value, (np.generic, np.ndarray)) or type(value).__module__ == "ml_dtypes":
        return half.argument(value)
    if isinstance(value, tuple) and not isinstance(value, type):
        parts = [own(each) for each in value]
        if all(a is b for a, b in zip(parts, value, strict=True)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, (types.Type, type)):
        return value
    if type(value).__name__ in ("_Intrinsic", *_DISPATCHERS) or mark(value, "numbacc_twin") is not None:
        return on_cpu(value)
    if any(base.__name__ == "Type" and ".types" in base.__module__ for base in type(value).__mro__):
        twin = getattr(types, str(value), None)
        if isinstance(twin, types.Type):
            return twin
    return value


def plain(function: Any) -> FunctionType:
    """Return the Python function of a dispatcher."""
    for name in ("py_func", "fn", "_func"):
        inner = getattr(function, name, None)
        if isinstance(inner, FunctionType):
            return inner
    if type(function).__name__ == "DeviceFunction":
        raise UnsupportedError(
            f"device.{function.__name__} is not compiled for the CPU: make the kernel by @device.jit instead of "
            "@cuda.jit, which runs it in Python"
        )
    if not isinstance(function, FunctionType):
        raise UnsupportedError(f"{function!r} is not a kernel: pass a function or the result of @cuda.jit")
    return function


def is_device(value: Any) -> bool:
    """Return whether a value is a device function, or a function that Numba compiles."""
    if isinstance(value, type) or is_opaque(value):
        return False
    return type(value).__name__ in _DISPATCHERS or isinstance(getattr(value, "py_func", None), FunctionType)


def _functions(function: FunctionType, text: str, first: int) -> list[ast.FunctionDef]:
    """Return the functions that a text defines, or its `lambda` with a function's parameters as a function.

    Args:
        first: the number of the text's first line.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:  # lines within an expression
        return []
    ast.increment_lineno(tree, first - 1)
    if function.__name__ != "<lambda>":
        return [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    code = function.__code__
    found = []
    for n in ast.walk(tree):
        if isinstance(n, ast.Lambda) and [a.arg for a in n.args.args] == [*code.co_varnames[: code.co_argcount]]:
            made = ast.parse("def of_lambda(): return 0").body[0]
            assert isinstance(made, ast.FunctionDef)
            made.args, made.body = n.args, [ast.copy_location(ast.Return(n.body), n)]
            found.append(ast.copy_location(made, n))
    return found


class Source:
    """The syntax tree of a Python function, and the meaning of its names.

    Attributes:
        file: the file's path as Python knows it; for a notebook cell, the name that IPython gave it.
        names: globals and closure variables by name.
        parameters: the names of the parameters; assigned ones have the prefix `GIVEN`.
        body: the statements, without the docstring.
    """

    def __init__(self, function: Any):
        self.function = plain(function)
        self.name = self.function.__name__
        self.file = self.function.__code__.co_filename
        try:
            lines, first = inspect.getsourcelines(self.function)
        except (OSError, TypeError):
            raise UnsupportedError(
                f"the source of {self.name} cannot be found ({self.file}): write the kernel in a file or in a "
                "notebook's cell"
            ) from None
        found = _functions(self.function, textwrap.dedent("".join(lines)), max(first, 1))
        if len(found) != 1:
            self.line = first
            what = "one of several lambdas in a line" if found else f"{self.name}, which is not written with `def`,"
            raise self.unsupported(first, what, "write it with `def`")
        self.tree = found[0]
        self.name = self.tree.name
        self.line = self.tree.lineno
        closure = inspect.getclosurevars(self.function).nonlocals
        self.names = {name: own(value) for name, value in {**self.function.__globals__, **closure}.items()}
        arguments = self.tree.args
        unused = arguments.vararg is not None and arguments.vararg.arg not in named(self.tree.body)
        if (arguments.vararg and not unused) or arguments.kwarg or arguments.kwonlyargs:
            raise self.unsupported(self.line, "a parameter with * or **", "name each parameter")
        self.parameters = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
        self.body: list[ast.stmt] = self.tree.body
        if isinstance(self.body[0], ast.Expr) and isinstance(self.body[0].value, ast.Constant):
            self.body = self.body[1:] or [ast.copy_location(ast.Pass(), self.body[0])]
        if wrong := sorted(n for n in (*named(self.body), *self.parameters) if n.startswith(PREFIX)):
            raise self.unsupported(self.line, f"the name {wrong[0]}", f"use a name that does not begin with {PREFIX}")
        # Threads of a block share the parameters. A parameter that is assigned becomes a variable.
        assigned = stored(self.body) & {*self.parameters}
        self.body = [assignment(n, expression(GIVEN + n), self.body[0].lineno) for n in sorted(assigned)] + self.body
        self.parameters = [GIVEN + n if n in assigned else n for n in self.parameters]

    @functools.cached_property
    def constants(self) -> dict[str, Any]:
        """The variables that are assigned once, in the function's outermost block, to constants: name -> value."""
        counts = Counter(n.id for n in walk(self.body) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        found: dict[str, Any] = {}
        for s in self.body:
            target = s.targets[0] if isinstance(s, ast.Assign) else None
            if isinstance(target, ast.Name) and counts[target.id] == 1:
                value = s.value  # type: ignore[attr-defined]
                free = named(value)
                if any(isinstance(n, ast.Call) for n in ast.walk(value)):
                    continue
                if free <= self.names.keys() | found.keys() and not free & (counts.keys() - found.keys()):
                    with suppress(Exception):  # it is not constant
                        made = eval(compile(ast.Expression(value), "<constant>", "eval"), {**self.names, **found})
                        if isinstance(made, (int, float, tuple, np.generic)):
                            found[target.id] = made
        return found

    def meaning(self, node: ast.AST) -> Any:
        """Return the value of a global name, or of an attribute of a module; None for other expressions."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Attribute) and inspect.ismodule(owner := self.meaning(node.value)):
            return own(getattr(owner, node.attr, None))
        return None

    def typed(self) -> set[str]:
        """Return the parameters whose `x.dtype` decides the type of a shared or local array."""
        arrays = ("cuda.shared.array", "cuda.local.array")
        calls = [n for n in walk(self.body) if isinstance(n, ast.Call) and self.path(n.func) in arrays]
        dtypes = [n.value for n in walk(calls) if isinstance(n, ast.Attribute) and n.attr == "dtype"]
        return {n.id for n in dtypes if isinstance(n, ast.Name) and n.id in self.parameters}

    def is_index(self, node: ast.expr) -> bool:
        """Return whether an expression is a thread's or block's index, or a variable assigned only such an index."""
        if isinstance(node, ast.Name) and node.id not in self.names:
            values = []
            for s in walk(self.body):
                if isinstance(s, ast.Assign):
                    for target in s.targets:
                        pairs = [(target, s.value)]
                        if isinstance(target, ast.Tuple) and isinstance(s.value, ast.Tuple):
                            pairs = [*zip(target.elts, s.value.elts, strict=False)]
                        values += [v for t, v in pairs if isinstance(t, ast.Name) and t.id == node.id]
            stores = [n for n in walk(self.body) if isinstance(n, ast.Name) and n.id == node.id and n.id in stored(n)]
            return len(values) == len(stores) == 1 and isinstance(values[0], ast.Attribute) and self.is_index(values[0])
        path = self.path(node).split(".")
        index = len(path) == 3 and path[1] in ("threadIdx", "blockIdx", "blockDim", "gridDim")
        return index or path[1:] == ["laneid"]

    def place(self, line: int) -> str:
        """Return "file.py:line"."""
        return f"{os.path.basename(self.file)}:{line}"

    def unsupported(self, line: int, what: str, instead: str = "") -> UnsupportedError:
        """Return the error for a construct that cannot be compiled."""
        advice = f"{instead}, or " if instead else ""
        return UnsupportedError(
            f"{self.place(line)}: {self.name}: {what} is not supported by the compiled simulator; {advice}set "
            "NUMBA_ENABLE_CUDASIM=1 before Python starts to run the kernel in Numba's simulator"
        )

    def uncompiled(self, error: NumbaError, written: Callable[[str], str]) -> UnsupportedError:
        """Return the error for code that Numba cannot compile. `written` gives variables the user's names."""
        text = written(re.sub(r"\x1b\[\d+m", "", str(error)))
        found = re.findall(r'File "([^"]*)", line (\d+)', text)
        here = [int(line) for file, line in found if os.path.basename(file) == os.path.basename(self.file)]
        loc = getattr(error, "loc", None)
        line = here[-1] if here else getattr(loc, "line", None) or self.line
        text = re.sub(r"^Failed in nopython mode pipeline .*\n", "", text)
        words = re.sub(r"\s+", " ", re.split(r"There are |During: |\n\s*File ", text)[0]).strip()
        if told := re.search(r"TypingError: (cuda\..*)", text):  # raised by a function of the simulator
            words = told[1]
        return UnsupportedError(
            f"{self.place(line)}: {self.name} cannot be compiled: {words[:400]}\nCorrect this line, or set "
            "NUMBA_ENABLE_CUDASIM=1 before Python starts to run the kernel in Numba's simulator"
        )

    def path(self, node: ast.AST) -> str:
        """Return "cuda.threadIdx.x" for an expression that refers to it; "" for other expressions."""
        if isinstance(node, ast.Attribute):
            base = self.path(node.value)
            return f"{base}.{node.attr}" if base else "cuda" if self._is_module(node) else ""
        if not isinstance(node, ast.Name) or node.id not in self.names:
            return ""
        value = self.names[node.id]
        if getattr(value, "__name__", "").split(".")[-1] == "cuda" and hasattr(value, "jit"):
            return "cuda"
        if isinstance(path := getattr(value, "numbacc_path", None), str):
            return path
        if isinstance(value, type(ast)) and value.__name__.split(".")[-1] in ("libdevice", "cg", "fp16", "bf16"):
            return f"cuda.{value.__name__.split('.')[-1]}"
        module = getattr(value, "__module__", "") or type(value).__module__
        if ".libdevice" in module:
            return f"cuda.libdevice.{value.__name__}"
        if kind := re.search(r"cuda\..*(fp16|bf16)$", module):
            path = f"cuda.{kind[1]}.{getattr(value, '__name__', '').lstrip('_')}"
            return path if path in half.FUNCTIONS else ""
        named_so = node.id if node.id in DIRECT else getattr(value, "__name__", "")
        if "cuda" not in module.split("."):
            return ""
        return f"cuda.{named_so}" if named_so in DIRECT or _VECTOR.fullmatch(named_so) else ""

    def _is_module(self, node: ast.Attribute) -> bool:
        """Return whether an expression is a module in CUDA's namespace, such as `numba.cuda` after `import numba`."""
        found = self.names.get(node.value.id) if isinstance(node.value, ast.Name) else None
        return isinstance(found, type(ast)) and node.attr == "cuda" and hasattr(getattr(found, "cuda", None), "jit")

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression of constants.

        Raises:
            UnsupportedError: it is not constant.
        """
        try:
            return own(eval(compile(ast.Expression(node), "<constant>", "eval"), {**self.names, **self.constants}))
        except Exception as error:
            raise self.unsupported(
                node.lineno, f"`{ast.unparse(node)}`, which is not a constant ({type(error).__name__}: {error}),"
            ) from None
