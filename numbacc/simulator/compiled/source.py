"""Read a kernel: its syntax tree, and the meaning of its names."""

from __future__ import annotations

import ast
import inspect
import os
import re
import textwrap
from types import FunctionType
from typing import Any

from numba import types
from numba.core.errors import NumbaError

from ...errors import UnsupportedError
from .syntax import PREFIX, named

#: Names that a kernel may have imported from numba.cuda one by one.
DIRECT = {
    "threadIdx", "blockIdx", "blockDim", "gridDim", "grid", "gridsize", "syncthreads", "syncwarp", "shared", "local",
    "const", "atomic", "laneid", "warpsize", "popc", "ffs", "clz", "brev", "selp", "fma", "cg", "libdevice",
    "activemask", "lanemask_lt", "shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync", "all_sync",
    "any_sync", "eq_sync", "ballot_sync", "match_any_sync", "match_all_sync", "syncthreads_count", "syncthreads_and",
    "syncthreads_or", "threadfence", "threadfence_block", "threadfence_system", "fp16", "nanosleep", "cbrt",
}  # fmt: skip

#: The classes of dispatchers of device functions.
_DISPATCHERS = ("CUDADispatcher", "Dispatcher", "FakeCUDAKernel", "DeviceFunction")


def own(value: Any) -> Any:
    """Return Numba's type for a type of numba.cuda's or numba_cuda_mlir's own copy; any other value unchanged."""
    if isinstance(value, (types.Type, type)):
        return value
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
    if not isinstance(function, FunctionType):
        raise UnsupportedError(f"{function!r} is not a kernel: pass a function or the result of @cuda.jit")
    return function


def is_device(value: Any) -> bool:
    """Return whether a value is a device function, or a function that Numba compiles."""
    if isinstance(value, type):
        return False
    return type(value).__name__ in _DISPATCHERS or isinstance(getattr(value, "py_func", None), FunctionType)


class Source:
    """The syntax tree of a Python function, and the meaning of its names.

    Attributes:
        file: the file's path as Python knows it; for a notebook's cell the name that IPython gave it.
        names: globals and closure variables by name.
        parameters: the names of the parameters.
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
        tree = ast.parse(textwrap.dedent("".join(lines)))
        ast.increment_lineno(tree, max(first, 1) - 1)
        found = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
        if not found:
            self.line = first
            raise self.unsupported(first, f"{self.name} is not a function written with `def`", "write it with `def`")
        self.tree = found[0]
        self.line = self.tree.lineno
        closure = inspect.getclosurevars(self.function).nonlocals
        self.names = {name: own(value) for name, value in {**self.function.__globals__, **closure}.items()}
        arguments = self.tree.args
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
            raise self.unsupported(self.line, "a parameter with * or **", "name each parameter")
        self.parameters = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
        self.body: list[ast.stmt] = self.tree.body
        if isinstance(self.body[0], ast.Expr) and isinstance(self.body[0].value, ast.Constant):
            self.body = self.body[1:] or [ast.copy_location(ast.Pass(), self.body[0])]
        if wrong := sorted(n for n in (*named(self.body), *self.parameters) if n.startswith(PREFIX)):
            raise self.unsupported(self.line, f"the name {wrong[0]}", f"choose one that does not begin with {PREFIX}")

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

    def uncompiled(self, error: NumbaError) -> UnsupportedError:
        """Return the error for code that Numba does not compile."""
        text = re.sub(r"\x1b\[\d+m", "", str(error))
        found = re.findall(r'File "([^"]*)", line (\d+)', text)
        here = [int(line) for file, line in found if os.path.basename(file) == os.path.basename(self.file)]
        loc = getattr(error, "loc", None)
        line = here[-1] if here else getattr(loc, "line", None) or self.line
        text = re.sub(r"^Failed in nopython mode pipeline .*\n", "", text)
        words = re.sub(r"\s+", " ", re.split(r"There are |During: |\n\s*File ", text)[0]).strip()
        return UnsupportedError(
            f"{self.place(line)}: {self.name} cannot be compiled: {words[:400]}\nCorrect this line, or set "
            "NUMBA_ENABLE_CUDASIM=1 before Python starts to run the kernel in Numba's simulator"
        )

    def path(self, node: ast.AST) -> str:
        """Return "cuda.threadIdx.x" for an expression that means it; "" for others."""
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
        if isinstance(value, type(ast)) and value.__name__.split(".")[-1] in ("libdevice", "cg", "fp16"):
            return f"cuda.{value.__name__.split('.')[-1]}"
        module = getattr(value, "__module__", "") or type(value).__module__
        if ".libdevice" in module:
            return f"cuda.libdevice.{value.__name__}"
        named_so = node.id if node.id in DIRECT else getattr(value, "__name__", "")
        return f"cuda.{named_so}" if "cuda" in module.split(".") and named_so in DIRECT else ""

    def _is_module(self, node: ast.Attribute) -> bool:
        """Return whether an expression is a module of CUDA's names, as `numba.cuda` after `import numba`."""
        found = self.names.get(node.value.id) if isinstance(node.value, ast.Name) else None
        return isinstance(found, type(ast)) and node.attr == "cuda" and hasattr(getattr(found, "cuda", None), "jit")

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression of constants.

        Raises:
            UnsupportedError: it is not constant.
        """
        try:
            return own(eval(compile(ast.Expression(node), "<constant>", "eval"), dict(self.names)))
        except Exception as error:
            raise self.unsupported(
                node.lineno, f"`{ast.unparse(node)}`, which is not a constant ({type(error).__name__}: {error}),"
            ) from None
