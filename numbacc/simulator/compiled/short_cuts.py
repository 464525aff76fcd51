"""Faster compilation of kernels for the CPU by Numba.

A kernel is compiled together with tens of small functions: numbacc's helpers and Numba's implementations of operators.
Only the kernel is called from Python. Inside `short_cuts`, Numba skips work that does not change the kernel. Outside,
Numba is unchanged.

* Machine code of functions that only compiled code calls, and its optimization: the kernel's module contains their LLVM
  code, which is optimized and translated with the kernel.
* Wrappers that convert Python objects for such functions.
* Passes over functions that are only declared, and a new pass manager for each function.
* The search for the overload of a function for types that were searched before.
* Lifetimes of variables that no pass reads.
* The search for single assignments in blocks that do not name the variable.
* Memory of LLVM's pass managers, which llvmlite does not free.
* Events of the lock around LLVM's functions, which only Numba's own profiling reads.

`load_without_scipy` skips the import of SciPy when Numba's array functions are loaded. Linear algebra imports it when
it is compiled.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numba
from llvmlite.binding.newpassmanagers import FunctionPassManager, ModulePassManager, NewPassManager
from numba import _dynfunc
from numba.core import event, ssa, transforms
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu import CPUContext
from numba.core.environment import lookup_environment
from numba.core.errors import NumbaError
from numba.core.postproc import PostProcessor, VariableLifetime
from numba.core.target_extension import get_local_target
from numba.core.types.functions import BaseFunction, _unlit_non_poison  # type: ignore[attr-defined]
from numba.core.typing.templates import _OverloadFunctionTemplate
from numba.core.utils import order_by_target_specificity

from ...base.replacing import settling, single_assignment, with_attributes

__all__ = ["load_without_scipy", "short_cuts"]

#: Versions of Numba whose functions are replaced. With others, kernels are the same, but take longer to compile.
_KNOWN = ("0.68.",)


@contextmanager
def short_cuts() -> Iterator[None]:
    """Compile a kernel in this thread, while no other thread compiles."""
    if not numba.__version__.startswith(_KNOWN):
        yield
        return
    changes = (
        (CPUContext, "get_executable", _get_executable),
        (CPUCodeLibrary, "add_linking_library", _add_linking_library),
        (CPUCodeLibrary, "_optimize_functions", _optimize_functions),
        (_OverloadFunctionTemplate, "_get_jit_decorator", _get_jit_decorator),
        (BaseFunction, "get_call_type", _get_call_type),
        (PostProcessor, "run", _settle),
        # llvmlite's classes inherit a `_dispose` that does nothing, so each manager would keep 15 to 60 kB forever.
        (FunctionPassManager, "_dispose", NewPassManager._dispose),
        (ModulePassManager, "_dispose", NewPassManager._dispose),
        (event, "start_event", _do_nothing),
        (event, "end_event", _do_nothing),
        *_single_assignment,
    )
    with global_compiler_lock, with_attributes(changes):
        yield


def load_without_scipy() -> None:
    """Import Numba's array functions. They import SciPy to see whether it is installed, which takes 0.2 s."""
    from numba.np import linalg

    is_new = numba.__version__.startswith(_KNOWN) and "numba.np.arraymath" not in sys.modules
    changes = [(linalg, "ensure_blas", _do_nothing)] if is_new and importlib.util.find_spec("scipy") else []
    with with_attributes(changes):
        from numba.np import arraymath  # waits if another thread imports it now
    if changes:
        arraymath.ensure_blas = linalg.ensure_blas


def _do_nothing(*ignored: Any, **options: Any) -> None:
    """Report no event."""


_jit_decorator = _OverloadFunctionTemplate._get_jit_decorator


def _get_jit_decorator(template: Any) -> Any:
    """Return the decorator of an overload's implementation. Python never calls implementations."""
    return partial(_jit_decorator(template), no_cpython_wrapper=True, no_cfunc_wrapper=True)


_call_type = BaseFunction.get_call_type
#: (function, types of arguments) -> the template that matches, and whether it takes the types of literals.
_matching: dict[tuple[Any, Any], tuple[Any, bool]] = {}
#: The most entries of `_matching`; beyond this number all are forgotten.
_MOST = 1 << 14


def _get_call_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """Return a call's signature, as `BaseFunction.get_call_type` does. Try the template first that matched before."""
    if kws:
        return _call_type(function, context, args, kws)
    key = function, args
    if key in _matching:
        candidates = [_matching[key]]
    else:
        ordered = order_by_target_specificity(get_local_target(context), function.templates, fnkey=function.key[0])
        candidates = [(each, first) for each in ordered for first in (each.prefer_literal, not each.prefer_literal)]
    plain = tuple(map(_unlit_non_poison, args))
    for template, takes_literals in candidates:
        made = template(context)
        try:
            found = made.apply(args if takes_literals else plain, {})
        except NumbaError:
            continue
        if found is not None:
            if len(_matching) > _MOST:
                _matching.clear()
            _matching[key] = template, takes_literals
            function._impl_keys[found.args] = made.get_impl_key(found)
            return found
    return _call_type(function, context, args, kws)  # raises the error, unless the types have become more precise


_single_assignment = single_assignment(ssa)
_settle = settling(PostProcessor.run, transforms.canonicalize_cfg, VariableLifetime)
_executable = CPUContext.get_executable


def _get_executable(context: Any, library: Any, fndesc: Any, env: Any) -> Any:
    """Return the function that Python calls, as `CPUContext.get_executable` does.

    Numba's function without a wrapper must not be called, so it needs no machine code. A function that refers to Python
    objects is an exception, because its machine code tells where they are.
    """
    wrappers = {fndesc.llvm_cpython_wrapper_name, fndesc.llvm_cfunc_wrapper_name}
    kept = library._finalized or env.consts
    if not kept and wrappers.isdisjoint(each.name for each in library._final_module.functions):
        name = fndesc.qualname.split(".")[-1]
        return _dynfunc.make_function(fndesc.lookup_module(), name, "", 0, env, (library,))
    made = _executable(context, library, fndesc, env)
    for variable in library._final_module.global_variables:
        if variable.name.startswith("_ZN08NumbaEnv") and (found := lookup_environment(variable.name)) is not None:
            library.codegen.set_env(variable.name, found)
    return made


def _add_linking_library(library: Any, other: Any) -> None:
    """Link another library into a library. If nobody needed the other's machine code so far, nobody will."""
    if not other._finalized:
        for each in dict.fromkeys(other._linking_libraries):
            other._reload_init.update(each._reload_init)
            other._final_module.link_in(each._get_module_for_linking(), preserve=True)
        other._finalize_dynamic_globals()
        other._finalized = True
    library._linking_libraries.append(other)


def _optimize_functions(library: Any, module: Any) -> None:
    """Run the passes for functions, as `CPUCodeLibrary._optimize_functions` does."""
    module.data_layout = library._codegen._data_layout
    functions = [each for each in module.functions if not each.is_declaration]
    if functions:
        manager, builder = library._codegen._function_pass_manager()
        for each in functions:
            manager.run(each, builder)
