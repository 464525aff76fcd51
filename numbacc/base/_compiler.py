"""Faster compilation of numbacc's kernels by Numba; such a kernel consists of tens of small device functions.

Inside `short_cuts`, Numba skips work that takes most of a kernel's compilation time and does not change its PTX.
Outside, Numba is unchanged.

* Compiler passes for closures, `with` and lists, and the checks of a function between passes: kernels use none of
  these. Formulas, which users write, go through all passes.
* Repeated compilation of equal device functions. Functions are equal if their code and all constants are: every kernel
  has one that computes an element's offset, for example. A function that is called with the constant 0 in one place and
  with a variable in another is also compiled only once per process. Only kernels declare shared memory: equal device
  functions would share one array.
* The search for the implementation of Python's operators for types that were searched before, and the error texts of
  rejected candidates.
* Work that is repeated for each function call or each pass: the modules of a library, the lifetimes of variables, and
  the search for single assignments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import lru_cache
from types import BuiltinFunctionType
from typing import Any

from llvmlite import ir as llvm
from numba import cuda
from numba.cuda import cgutils, types, utils
from numba.cuda.codegen import CUDACodeLibrary, ExternalCodeLibrary
from numba.cuda.compiler import (
    CreateLibrary,
    CUDABackend,
    CUDABytecodeInterpreter,
    CUDACompiler,
    CUDANativeLowering,
    CUDATranslateBytecode,
)
from numba.cuda.core import config, errors, imputils, ir, ssa, transforms
from numba.cuda.core.compiler_lock import global_compiler_lock
from numba.cuda.core.compiler_machinery import PassManager, _pass_registry, register_pass
from numba.cuda.core.postproc import PostProcessor, VariableLifetime
from numba.cuda.core.typed_passes import IRLegalization, NopythonTypeInference, PreLowerStripPhis
from numba.cuda.core.untyped_passes import (
    DeadBranchPrune,
    FixupArgs,
    GenericRewrites,
    IRProcessing,
    ReconstructSSA,
    RewriteSemanticConstants,
)
from numba.cuda.cudadrv import nvvm
from numba.cuda.descriptor import cuda_target
from numba.cuda.dispatcher import CUDADispatcher
from numba.cuda.extending import _Intrinsic
from numba.cuda.lowering import CUDALower
from numba.cuda.target import CUDATargetContext, CUDATypingContext
from numba.cuda.typing import templates

from .function_identity import Numbers, signature_of
from .replacing import settling, single_assignment, with_attributes

__all__ = ["load_all", "short_cuts"]


#: The most kinds of device functions to remember; beyond this number all are forgotten.
_MOST = 1024


@contextmanager
def short_cuts(capability: tuple[int, int]) -> Iterator[None]:
    """Compile numbacc's kernels for a compute capability in this thread, while no other thread compiles."""
    with global_compiler_lock:
        _load_registries()
        _functions.begin(capability)
        with with_attributes(
            (
                (CUDACompiler, "define_pipelines", _define_pipelines),
                (CUDADispatcher, "get_call_template", _get_call_template),
                (CUDADispatcher, "get_overload", _get_overload),
                (CUDATypingContext, "load_additional_registries", _do_nothing),
                (CUDATypingContext, "_load_builtins", _load_templates),
                (CUDATargetContext, "load_additional_registries", _load_intrinsics),
                (PassManager, "_runPass", _run_pass),
                (PostProcessor, "run", _settle),
                (CUDACodeLibrary, "llvm_strs", property(_texts)),
                (CUDACodeLibrary, "modules", property(_modules)),
                (CUDACodeLibrary, "finalize", _finalize),
                (_BaseFunction, "get_call_type", _get_call_type),
                (CUDABytecodeInterpreter, "post_process", _rewrite_some),
                (config, "reload_config", _do_nothing),
                (utils, "pysignature", signature_of),
                (nvvm, "llvm_replace", _replaced),
                (nvvm.CompilationUnit, "verify", _do_nothing),
                *_single_assignment,
            )
        ):
            yield


#: Numba modules that take a third of the loading time; kernels never use their numbers, or only as bits.
_UNUSED = ("fp16", "bf16", "fp8", "vector_types")


@lru_cache(maxsize=1)
def _load_registries() -> None:
    """Load the functions of Numba's CUDA target, as Numba does for the first kernel of any kind.

    This skips SciPy: if it is installed, Numba would import it to look for matrix products, but none of its functions
    runs on a GPU. `load_all` loads the skipped functions, and Numba itself does for kernels that are not numbacc's.
    """
    from numba.cuda.np import linalg

    unused = [(cuda, name, _NoFunctions) for name in _UNUSED if f"numba.cuda.{name}" not in sys.modules]
    # Skip refreshing: each of more than a hundred attributes would check for new functions.
    changes = (linalg, "ensure_blas", _do_nothing), (CUDATargetContext, "refresh", _do_nothing)
    with with_attributes([*changes, *unused]):
        cuda_target.target_context.load_additional_registries()
        cuda_target.typing_context.refresh()
    _load_intrinsics(cuda_target.target_context)


class _NoFunctions:
    """A stand-in for a module of Numba's functions."""

    typing_registry = templates.Registry()
    target_registry = impl_registry = imputils.Registry()


def load_all() -> bool:
    """Load all functions of Numba's CUDA target; return False if that was done before."""
    found: bool = _load_all.cache_info().currsize == 0
    _load_all()
    return found


@lru_cache(maxsize=1)
def _load_all() -> None:
    cuda_target.typing_context.refresh()
    cuda_target.target_context.refresh()
    _resolved.clear()


def _do_nothing(*ignored: Any) -> None:
    """Skip the search through tens of registries for new functions at every call of an intrinsic."""


def _load_intrinsics(context: Any) -> None:
    """Load only the one registry that intrinsics are added to when they are called."""
    context.install_registry(next(iter(context._registries)))


def _load_templates(context: Any) -> None:
    """Load only the one registry that intrinsics are added to when they are defined."""
    context.install_registry(templates.builtin_registry)


# -------------------------------------------------------------------- passes


class _Passes(PassManager):  # type: ignore[misc]
    """Passes that run one after the other, with nothing in between."""

    def run(self, state: Any) -> None:
        for each, _ in self.passes:
            instance = _pass_registry.get(each).pass_inst
            instance.analysis = self._analysis
            instance.run_pass(state)


def _run_pass(manager: Any, index: int, instance: Any, state: Any) -> None:
    """Run a pass as `PassManager._runPass` does, but without timing notes that nobody reads."""
    instance.analysis = manager._analysis
    mutated = False
    for step in (instance.run_initialization, instance.run_pass, instance.run_finalizer):
        mutated |= step(state)
    if mutated and _pass_registry.get(type(instance)).mutates_CFG:
        PostProcessor(state.func_ir).run()


class _Lower(CUDALower):  # type: ignore[misc]
    """Lowering of functions to LLVM code, without debug texts and without reference counts of variables."""

    def lower_block(self, block: Any) -> None:
        self._cur_ir_block = block
        for each in block.body:
            self.loc = each.loc
            if isinstance(each, ir.del_types):
                self.delvar(each.value)
            elif isinstance(each, ir.assign_types):
                self.storevar(self.lower_assign(self.typeof(each.target.name), each), each.target.name)
            else:
                self.lower_inst(each)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        if name not in self._blk_local_varmap:
            self._singly_assigned_vars.discard(name)
            pointer = self.getvar(name)
            # The value is not needed, but without a last read of the variable, loops would compile to different code.
            self.builder.load(pointer)
            self.builder.store(llvm.Constant(pointer.type.pointee, None), pointer)

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        return cgutils.alloca_once(self.builder, lltype, name=name)

    def lower_call(self, wanted: Any, call: Any) -> Any:
        function, signature = self.typeof(call.func.name), self.fndesc.calltypes[call]
        if not isinstance(function, _CALLED) or isinstance(signature.return_type, types.Phantom):
            return super().lower_call(wanted, call)
        values = self.fold_call_args(function, signature, call.args, call.vararg, call.kws)
        found = self.context.get_function(function, signature)(self.builder, values, self.loc)
        if found is None:
            found = self.context.get_dummy_value()
        return self.context.cast(self.builder, found, signature.return_type, wanted)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(CUDANativeLowering):  # type: ignore[misc]
    _name = "numbacc_lowering"
    lowering_class = _Lower


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
        _Lowering,
        CUDABackend,
    ):
        found.add_pass(each, each.__name__)
    found.finalize()
    return found


_single_assignment = single_assignment(ssa)
_settle = settling(PostProcessor.run, transforms.canonicalize_cfg, VariableLifetime)
_rewrite = CUDABytecodeInterpreter.post_process
#: Rewrites of `with` and of dictionaries.
_REWRITES = ("peep_hole_delete_with_exit", "peep_hole_fuse_dict_add_updates")


def _rewrite_some(interpreter: Any, rewrites: Any, function: Any) -> Any:
    """Process a function as `Interpreter.post_process` does, without rewrites of code that kernels do not contain."""
    is_ours = _is_ours(interpreter.func_id.func)
    return _rewrite(interpreter, [each for each in rewrites if not (is_ours and each.__name__ in _REWRITES)], function)


_all_pipelines = CUDACompiler.define_pipelines


def _is_ours(function: Any) -> bool:
    """Return True for the functions of kernels, but not for formulas, whose copies are in no module."""
    return str(function.__module__).startswith("numbacc.kernels.")


def _define_pipelines(compiler: Any) -> list[PassManager]:
    is_short = _is_ours(compiler.state.func_id.func) and not compiler.state.flags.debuginfo
    return [_short_pipeline()] if is_short else _all_pipelines(compiler)


# -------------------------------------------------------------------- device functions


def _function_of(value: Any) -> Any:
    """Return the Python function of a dispatcher or an intrinsic; None for other values."""
    if isinstance(value, CUDADispatcher):
        return value.py_func
    return value._defn if isinstance(value, _Intrinsic) else None


class _DeviceFunctions:
    """The device functions that have been compiled; equal functions are compiled once."""

    def __init__(self) -> None:
        self._capability = (0, 0)
        self._numbers = Numbers(_function_of, types.Type)
        #: (number of a function, compute capability) -> the dispatcher that compiles it.
        self._dispatchers: dict[tuple[Hashable, tuple[int, int]], Any] = {}

    def begin(self, capability: tuple[int, int]) -> None:
        """Start a kernel."""
        self._capability = capability
        if len(self._dispatchers) > _MOST:
            self._numbers.clear()
            self._dispatchers.clear()

    def first(self, dispatcher: Any) -> Any:
        """Return the first dispatcher of an equal function, for this compute capability.

        Numba compiles a device function once for all GPUs. Code for one GPU may be too new, or slow, for another.
        """
        # All its users hold a reference: when a dispatcher dies, its compiled code is lost.
        firsts = dispatcher.__dict__.setdefault("_numbacc_first", {})
        found = firsts.get(self._capability)
        if found is None:
            key = self._numbers.of(dispatcher.py_func), self._capability
            found = self._dispatchers.get(key)
            if found is None:
                found = dispatcher
                if dispatcher.overloads:  # for another GPU, or outside of `short_cuts`
                    found = CUDADispatcher(dispatcher.py_func, dispatcher.targetoptions)
                self._dispatchers[key] = found
            firsts[self._capability] = found
        return found


_functions = _DeviceFunctions()
_call_template, _overload = CUDADispatcher.get_call_template, CUDADispatcher.get_overload


def _get_call_template(dispatcher: Any, args: Any, kws: Any) -> Any:
    if _is_ours(dispatcher.py_func):
        # Treat a constant argument like any other: inlining recovers the constant. This is not done for users' and
        # Numba's functions, whose types may depend on a constant, such as a tuple's element at a constant index.
        args = tuple(types.unliteral(each) for each in args)
    return _call_template(_functions.first(dispatcher), args, kws)


def _get_overload(dispatcher: Any, signature: Any) -> Any:
    found = _functions.first(dispatcher)
    if tuple(signature) not in found.overloads:
        # An intrinsic calls it, whose types Numba found earlier, when it compiled for another GPU.
        found.compile_device(tuple(signature))
    return _overload(found, signature)


# -------------------------------------------------------------------- operators

#: The class of functions that have several overloads.
_BaseFunction: Any = next(each for each in types.Function.__mro__ if "get_call_type" in vars(each))
#: Types that are called without further processing.
_CALLED = (types.Dispatcher, _BaseFunction)
_call_type: Callable[..., Any] = _BaseFunction.get_call_type
#: (operator, builtin function or type; types of arguments) -> the signature of the call, or the error.
_resolved: dict[tuple[Any, Any], Any] = {}


def _get_call_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """Return a call's signature, as `BaseFunction.get_call_type` does, but cached.

    Numba's function tries tens of overloads for each `+` and each `if`, and compares the compiler's flags with those of
    every earlier attempt.
    """
    if kws or not isinstance(getattr(function, "typing_key", None), (BuiltinFunctionType, type)):
        return _call_type(function, context, args, kws)
    found = _resolved.get((function, args))
    if found is None:
        try:
            found = _call_type(function, context, args, kws)
        except errors.TypingError as error:
            found = error
        _resolved[function, args] = found
    if isinstance(found, errors.TypingError):
        raise copy(found)  # passes write into messages
    return found


# -------------------------------------------------------------------- texts

_replace = nvvm.llvm_replace
#: Texts that `llvm_replace` searches for.
_REPLACED = ("___numba_", "immarg", "attributes #")


def _replaced(text: str) -> str:
    """Return the text after `nvvm.llvm_replace`, which first generates tens of functions, even if none is needed."""
    replaced: str = _replace(text) if any(each in text for each in _REPLACED) else text
    return replaced


# ---------------------------------------------------------------- the LLVM code of kernels: each piece once


def _modules(library: Any) -> list[Any]:
    """Return a library's modules without duplicates; `CUDACodeLibrary.modules` repeats those that are linked twice."""
    found, waiting = {}, [library]
    while waiting:
        each = waiting.pop()
        if each not in found and not isinstance(each, ExternalCodeLibrary):  # which has no LLVM code
            found[each] = each._module
            waiting.extend(each._linking_libraries)
    return list(found.values())


def _texts(library: Any) -> list[str]:
    """Return the LLVM code of a library; device functions, which several kernels share, are printed once."""
    if library._llvm_strs is None:
        own, *others = library.modules
        for each in others:
            if not hasattr(each, "_numbacc_text"):
                each._numbacc_text = str(each)
        library._llvm_strs = [str(own), *(each._numbacc_text for each in others)]
    found: list[str] = library._llvm_strs
    return found


def _finalize(library: Any) -> None:
    """Finalize a library; `CUDACodeLibrary.finalize` would visit libraries linked by linked libraries repeatedly."""
    library._raise_if_finalized()
    linkage = "weak_odr" if "g" in library._nvvm_options else "linkonce_odr"
    for each in library._linking_libraries:
        if isinstance(each, ExternalCodeLibrary):
            continue
        for function in each._module.functions:
            if not function.is_declaration:
                function.linkage = linkage
    library._finalized = True
