"""How Numba's compiler goes about numbacc's kernels, which are made of tens of small device functions each.

Of what Numba does for any function of a user's, three things take most of a kernel's compilation and change nothing in
its PTX. Inside `short_cuts` they are left out; outside, Numba is as it was.

* Passes for closures, `with` and lists, and the checks of a function between passes: kernels have none of these.
  Formulas, which users write, go through all passes.
* Device functions that are equal to the last constant, as one that places elements is in every kernel, and those that
  are called with the number 0 here and a variable there: each is compiled once in a process. Kernels alone have shared
  memory of their own: functions that are one would have one array of it.
* Which of Python's operators are meant by types that have been asked for before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from itertools import count
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numba.cuda import types
from numba.cuda.compiler import CreateLibrary, CUDABackend, CUDACompiler, CUDANativeLowering, CUDATranslateBytecode
from numba.cuda.core.compiler_lock import global_compiler_lock
from numba.cuda.core.compiler_machinery import PassManager, _pass_registry
from numba.cuda.core.typed_passes import IRLegalization, NopythonTypeInference, PreLowerStripPhis
from numba.cuda.core.untyped_passes import (
    DeadBranchPrune,
    FixupArgs,
    GenericRewrites,
    IRProcessing,
    ReconstructSSA,
    RewriteSemanticConstants,
)
from numba.cuda.descriptor import cuda_target
from numba.cuda.dispatcher import CUDADispatcher
from numba.cuda.extending import _Intrinsic
from numba.cuda.target import CUDATargetContext, CUDATypingContext

__all__ = ["short_cuts"]

#: Device functions of so many kinds are kept to be found again; then all are forgotten.
_MOST = 1024


@contextmanager
def short_cuts(capability: tuple[int, int]) -> Iterator[None]:
    """Inside, this thread compiles kernels of numbacc for a compute capability, and no other thread compiles."""
    with global_compiler_lock, ExitStack() as undo:
        _load_registries()
        _functions.begin(capability)
        for owner, name, changed in (
            (CUDACompiler, "define_pipelines", _define_pipelines),
            (CUDADispatcher, "get_call_template", _get_call_template),
            (CUDADispatcher, "get_overload", _get_overload),
            (CUDATypingContext, "resolve_function_type", _resolve_function_type),
            (CUDATypingContext, "load_additional_registries", _load_nothing),
            (CUDATargetContext, "load_additional_registries", _load_intrinsics),
        ):
            undo.callback(_restore, owner, name, vars(owner).get(name))
            setattr(owner, name, changed)
        yield


def _restore(owner: type, name: str, before: Any) -> None:
    if before is None:
        delattr(owner, name)  # inherited
    else:
        setattr(owner, name, before)


@lru_cache(maxsize=1)
def _load_registries() -> None:
    """Have Numba load all functions that its CUDA target knows, as it does for the first kernel, whatever that is.

    More than half of what it takes is the import of SciPy, where it is installed, to see whether it can multiply
    matrices: none of its functions runs on a GPU.
    """
    from numba.cuda.np import linalg

    before = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        from numba.cuda.np import arraymath  # noqa: F401
    finally:
        linalg.ensure_blas = before
    cuda_target.typing_context.refresh()
    cuda_target.target_context.refresh()


def _load_nothing(context: Any) -> None:
    """Instead of looking into each of tens of registries for what is new, at every call of an intrinsic."""


def _load_intrinsics(context: Any) -> None:
    """As `_load_nothing`, but for the one registry that intrinsics are put into when they are called."""
    context.install_registry(next(iter(context._registries)))


# -------------------------------------------------------------------- passes


class _Passes(PassManager):  # type: ignore[misc]
    """Passes that run one after the other, and nothing between them."""

    def run(self, state: Any) -> None:
        for each, _ in self.passes:
            instance = _pass_registry.get(each).pass_inst
            instance.analysis = self._analysis
            instance.run_pass(state)


@lru_cache(maxsize=1)
def _short_pipeline() -> PassManager:
    found = _Passes("numbacc")
    for each in (
        CUDATranslateBytecode,
        FixupArgs,
        IRProcessing,
        RewriteSemanticConstants,
        DeadBranchPrune,
        GenericRewrites,
        ReconstructSSA,
        NopythonTypeInference,
        PreLowerStripPhis,
        IRLegalization,
        CreateLibrary,
        CUDANativeLowering,
        CUDABackend,
    ):
        found.add_pass(each, each.__name__)
    found.finalize()
    return found


_all_pipelines = CUDACompiler.define_pipelines


def _define_pipelines(compiler: Any) -> list[PassManager]:
    module = compiler.state.func_id.func.__module__
    # Copies of formulas are in no module.
    return [_short_pipeline()] if module and module.startswith("numbacc.kernels.") else _all_pipelines(compiler)


# -------------------------------------------------------------------- device functions


class _Same:
    """A value that is equal to itself alone."""

    def __init__(self, value: Any):
        self._value = value  # alive, so that nothing else gets its id

    def __hash__(self) -> int:
        return id(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._value is other._value


class _DeviceFunctions:
    """The device functions that have been compiled, by what they do."""

    def __init__(self) -> None:
        self._capability = (0, 0)
        self._numbers = count()
        #: What a function is made of -> its number.
        self._known: dict[Hashable, int] = {}
        self._numbered: WeakKeyDictionary[Any, Hashable] = WeakKeyDictionary()
        #: (number of a function, compute capability) -> the dispatcher that compiles it.
        self._dispatchers: dict[tuple[Hashable, tuple[int, int]], Any] = {}

    def begin(self, capability: tuple[int, int]) -> None:
        """Begin a kernel."""
        self._capability = capability
        if len(self._dispatchers) > _MOST:
            self._known.clear()
            self._numbered.clear()
            self._dispatchers.clear()

    def first(self, dispatcher: Any) -> Any:
        """The first dispatcher of a function that does the same."""
        # Kept by all that use it: what a dispatcher has compiled is forgotten when it dies.
        firsts = dispatcher.__dict__.setdefault("_numbacc_first", {})
        found = firsts.get(self._capability)
        if found is None:
            key = self._number(dispatcher.py_func), self._capability
            found = firsts[self._capability] = self._dispatchers.setdefault(key, dispatcher)
        return found

    def _number(self, function: Any) -> Hashable:
        """Equal functions have equal numbers."""
        number = self._numbered.get(function)
        if number is None:
            self._numbered[function] = _Same(function)  # what calls itself equals no other
            made = (
                function.__code__,
                tuple(self._key(cell.cell_contents) for cell in function.__closure__ or ()),
                self._key(function.__defaults__),
                self._key(getattr(function, "_numbacc_convert", None)),
                _Same(function.__globals__),
            )
            number = self._known.get(made)
            if number is None:
                number = self._known[made] = next(self._numbers)
            self._numbered[function] = number
        return number

    def _key(self, value: Any) -> Hashable:
        """Equal for values that are compiled to the same."""
        kind = type(value)
        if isinstance(value, CUDADispatcher):
            return CUDADispatcher, self._number(value.py_func)
        if isinstance(value, _Intrinsic):
            return _Intrinsic, self._number(value._defn)
        if kind is FunctionType:
            return FunctionType, self._number(value)
        if isinstance(value, (tuple, list)):
            return (kind, *map(self._key, value))
        if kind is dict:
            return (kind, *((self._key(name), self._key(item)) for name, item in value.items()))
        if isinstance(value, np.generic):
            return kind, value.dtype.str, value.tobytes()
        if kind in (float, complex):
            return kind, repr(value)  # -0.0 is not 0.0
        if kind in (int, bool, str, bytes, type(None), CodeType) or isinstance(value, (np.dtype, types.Type, type)):
            return kind, value
        return _Same(value)


_functions = _DeviceFunctions()
_call_template, _overload = CUDADispatcher.get_call_template, CUDADispatcher.get_overload


def _get_call_template(dispatcher: Any, args: Any, kws: Any) -> Any:
    # A number that is known is an argument like others: what is inlined knows it again.
    plain = tuple(types.unliteral(each) for each in args)
    return _call_template(_functions.first(dispatcher), plain, kws)


def _get_overload(dispatcher: Any, signature: Any) -> Any:
    return _overload(_functions.first(dispatcher), signature)


# -------------------------------------------------------------------- operators

_resolve: Callable[..., Any] = CUDATypingContext.resolve_function_type
#: (operator, builtin function or type; types of arguments) -> the signature of the call.
_resolved: dict[tuple[Any, Any], Any] = {}


def _resolve_function_type(context: Any, function: Any, args: Any, kws: Any) -> Any:
    """As `CUDATypingContext.resolve_function_type`, which tries tens of overloads for each `+` and each `if`, and
    compares the compiler's flags with those of every earlier attempt."""
    if kws or not isinstance(getattr(function, "typing_key", None), (BuiltinFunctionType, type)):
        return _resolve(context, function, args, kws)
    found = _resolved.get((function, args))
    if found is None:
        found = _resolve(context, function, args, kws)
        if found is not None:
            _resolved[function, args] = found
    return found
