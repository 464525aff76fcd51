"""Code for a GPU that is not Python, on a CPU: intrinsics of numba.cuda, and numbacc's scalar functions.

An intrinsic makes LLVM code, which is the same on a CPU but for inline PTX (see `ptx`). Where threads meet in an
intrinsic, the primitive has a twin: a device function that says the same with CUDA's names (`numbacc_twin`).

A scalar function is compiled from its bytecode, not from its source: `specialize` has replaced names and numbers in it.
"""

from __future__ import annotations

import functools
import inspect
from types import FunctionType, ModuleType
from typing import Any

from numba import extending, njit, types

from . import arithmetic
from .functions import FUNCTIONS
from .watching import watched

__all__ = ["is_intrinsic", "is_opaque", "is_scalar", "on_cpu", "scalar_function"]

#: The attribute of an intrinsic that holds its form for the CPU.
_KEPT = "_numbacc_on_cpu"


def mark(value: Any, name: str) -> Any:
    """Return an attribute of a function, or None. Stand-ins for modules of CUDA have attributes of all names."""
    return getattr(value, "__dict__", {}).get(name)


def is_intrinsic(value: Any) -> bool:
    """Return whether a value is an intrinsic of numba.cuda, or a scalar function of `numbacc.device`."""
    if mark(value, "numbacc_scalar"):
        return True
    return type(value).__name__ == "_Intrinsic" and type(value).__module__.startswith("numba.cuda.")


def on_cpu(value: Any) -> Any:
    """Return an intrinsic of numba.cuda for the CPU, or a function's twin; other values unchanged."""
    twin = mark(value, "numbacc_twin")
    if twin is not None:
        return on_cpu(twin)
    if not is_intrinsic(value):
        return value
    if _KEPT not in vars(value):
        made = extending.intrinsic(_watched(_with_tile(value._defn)))
        made._numbacc_of = value
        setattr(value, _KEPT, made)
    return vars(value)[_KEPT]


def _with_tile(define: Any) -> Any:
    """Return an intrinsic's definition whose code finds dynamic shared memory by its argument `tile`.

    On a GPU that memory has a name. Here it is an array, which `instructions.kept_pointer` gets with the builder.
    """
    parameters = [*inspect.signature(define).parameters][1:]
    if "tile" not in parameters:
        return define
    k = parameters.index("tile")

    @functools.wraps(define)
    def defined(typing: Any, *kinds: Any) -> Any:
        signature, generate = define(typing, *kinds)
        if not (isinstance(kinds[k], types.Array) and kinds[k].dtype == types.uint8):
            return signature, generate

        def generate_here(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.numbacc_kept = context.make_array(kinds[k])(context, builder, args[k]).data
            try:
                return generate(context, builder, signature, args)
            finally:
                del builder.numbacc_kept

        return signature, generate_here

    return defined


def _watched(define: Any) -> Any:
    """Return an intrinsic's definition whose accesses are checked in kernels that check addresses."""

    @functools.wraps(define)
    def defined(typing: Any, *kinds: Any) -> Any:
        found = define(typing, *kinds)
        if found is None:
            return None
        signature, generate = found

        def generate_here(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            with watched(context, builder):
                return generate(context, builder, signature, args)

        return signature, generate_here

    return defined


def is_opaque(value: Any) -> bool:
    """Return whether a value is an intrinsic that `on_cpu` made."""
    return mark(value, "_numbacc_of") is not None


def is_scalar(value: Any) -> bool:
    """Return whether a value is a scalar function of numbacc, as `specialize` makes it."""
    return hasattr(getattr(value, "py_func", None), "_numbacc_convert")


class _Library(ModuleType):
    """`cuda.libdevice` for the CPU."""

    def __getattr__(self, name: str) -> Any:
        try:
            return FUNCTIONS[f"cuda.libdevice.{name}"]
        except KeyError:
            raise AttributeError(name) from None


_library = _Library("libdevice")


def scalar_function(function: Any, options: dict[str, Any]) -> Any:
    """Return a device function of scalars for the CPU, and the functions that it calls.

    Args:
        function: the Python function, or its dispatcher.
        options: Numba's.
    """
    function = getattr(function, "py_func", function)
    made: dict[str, Any] = vars(function).setdefault(_KEPT, {})
    key = repr(sorted((name, str(option)) for name, option in options.items()))
    if key not in made:
        from ...functions.symbolic.ieee_math import copied

        def convert(item: Any) -> Any:
            if item is function:
                return item
            if isinstance(item, ModuleType) and item.__name__.split(".")[-1] == "libdevice":
                return _library
            if is_intrinsic(item):
                return on_cpu(item)
            if getattr(item, "__module__", None) == "numba.cuda.libdevice":
                return FUNCTIONS[f"cuda.libdevice.{item.__name__}"]
            if isinstance(item, FunctionType):
                return scalar_function(item, options)
            try:
                return _BUILTINS.get(item, item)
            except TypeError:  # it has no hash
                return item

        copy = copied(function, convert)
        if hasattr(function, "_numbacc_convert"):
            copy._numbacc_convert = function._numbacc_convert
        made[key] = njit(forceinline=True, no_cpython_wrapper=True, **options)(copy)
    return made[key]


#: Builtin functions with other results on a GPU.
_BUILTINS = {max: arithmetic.largest, min: arithmetic.smallest, int: arithmetic.whole}
