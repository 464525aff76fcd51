"""A disk cache of functions that Numba compiles for the host, in the same folder as the compiled kernels.

Numba's own `cache=True` stores them in the package's folder or the user's home, and raises an error if neither can be
written. It also compiles again only when the function's own file changes, although constants of other files are part of
the machine code. Here the name of an entry's folder is a digest of all these files. If the folder cannot be written,
the functions are compiled in memory.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from llvmlite import binding
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import Environment, lookup_environment
from numba.core.runtime import nrtdynmod, rtsys

from . import disk_cache

#: The files of the package that the machine code of functions compiled for the host depends on.
SOURCES = (
    "runtime/native.py",
    "runtime/native_graphs.py",
    "runtime/native_ffi.py",
    "base/codes.py",
    "runtime/host_cache.py",
)


def compiled(signature: Any) -> Callable[[Callable[..., int]], Any]:
    """Decorate a function to be compiled for one signature at import, or loaded from disk. It releases the GIL."""

    def decorate(function: Callable[..., int]) -> Any:
        dispatcher = numba.njit(nogil=True)(function)
        try:
            dispatcher._cache = Cache(function)
        except OSError as error:
            disk_cache.warn_of(error)
        dispatcher.compile(signature)
        dispatcher.disable_compile()
        return dispatcher

    return decorate


@lru_cache(maxsize=1)
def folder() -> Path:
    """Return the folder for functions of these sources, this Python and this Numba.

    Raises:
        OSError: no directory is known, or the sources cannot be read.
    """
    digest = hashlib.sha256(f"{sys.version} {numba.__version__} {llvmlite.__version__}".encode())
    for name in SOURCES:
        digest.update((Path(__file__).parents[1] / name).read_bytes())
    return disk_cache.directory() / "host" / digest.hexdigest()[:32]


class _Locator:
    """The directory of a cache's entries, with the methods that Numba's cache calls."""

    def __init__(self, place: Path):
        self.place = place

    def get_cache_path(self) -> str:
        return str(self.place)

    def get_source_stamp(self) -> str:
        return ""  # the folder's name contains it

    def ensure_cache_path(self) -> None:
        os.makedirs(self.place, exist_ok=True)


def _names(module: Any) -> bytes:
    """Return an LLVM module with the names of the functions and variables that a module defines."""
    functions = (f'define void @"{f.name}"() {{ ret void }}' for f in module.functions if not f.is_declaration)
    variables = (f'@"{v.name}" = global i8 0' for v in module.global_variables if not v.is_declaration)
    made: bytes = binding.parse_assembly("\n".join([*functions, *variables])).as_bitcode()
    return made


def _parts(environment: Any) -> tuple[str, list[Any], str]:
    return environment.globals.get("__name__"), list(environment.consts), environment.env_name


def _environment(module: str, constants: list[Any], name: str) -> Any:
    """Return the environment of a function of a module, which need not be imported."""
    found = lookup_environment(name)
    if found is None:
        known = sys.modules.get(module)
        found = Environment({"__name__": module} if known is None else known.__dict__)
        found.consts[:] = constants
        found.env_name = name
        Environment._memo[name] = found
    return found


def _runtime_library(target: Any) -> Any:
    """Return the library of the functions of Numba's runtime, which machine code calls; from disk if possible."""
    codegen = target.codegen()
    key = codegen.magic_tuple()
    file = None
    try:
        folder().mkdir(parents=True, exist_ok=True)
        file = IndexDataCacheFile(str(folder()), "numba_runtime", "")
        if (kept := file.load(key)) is not None:
            return codegen.unserialize_library(kept)
    except OSError as error:
        disk_cache.warn_of(error)
    except Exception:  # the entry is damaged; it is replaced below
        pass
    module, library = nrtdynmod.create_nrt_module(target)
    library.enable_object_caching()
    library.add_ir_module(module)
    library.finalize()
    try:
        if file is not None:
            file.save(key, library.serialize_using_object_code())
    except Exception:  # a full disk, or a damaged index
        pass
    return library


def _start_runtime(target: Any) -> None:
    """Initialize Numba's runtime, unless it is."""
    with global_compiler_lock:
        before, nrtdynmod.compile_nrt_functions = nrtdynmod.compile_nrt_functions, _runtime_library
        try:
            rtsys.initialize(target)
        finally:
            nrtdynmod.compile_nrt_functions = before


class _Entry(CompileResultCacheImpl):  # type: ignore[misc]
    """The format and file name of a function's entry. It lies in the function's folder `kept_in`, if it has one."""

    def __init__(self, function: Callable[..., int]):
        # Not found by Numba's own search, which an environment variable can redirect.
        self._locator = _Locator(getattr(function, "kept_in", None) or folder())
        self._filename_base = function.__qualname__

    def reduce(self, cres: Any) -> Any:
        """Return what is kept of compiled code.

        Environments hold the modules of the functions in it. Only Python objects in compiled code need them, so they
        are not imported when the code is loaded. The code is not linked into other functions, so only the names in its
        LLVM module are kept.
        """
        (name, kind, (machine_code, _)), fndesc, own, *rest, environments = cres._reduce()
        names = _names(cres.library._get_module_for_linking())
        kept = (own, *(e for e in environments if e is not own))
        return (name, kind, (machine_code, names)), fndesc, [_parts(e) for e in kept], rest

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        library, fndesc, kept, rest = payload
        own, *environments = [_environment(*parts) for parts in kept]
        made = super().rebuild(target_context, (library, fndesc, own, *rest, tuple(environments)))
        made.library._shared_module = None  # linking it into another function would raise an error
        return made

    def check_cachable(self, cres: Any) -> bool:
        """Return whether code can be kept: not if it has the address of an array of more than a megabyte."""
        return not (cres.library.has_dynamic_globals or any(not each.can_cache for each in cres.lifted))


class Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache for one function. A faulty disk or a damaged entry only makes it compile the function again."""

    _impl_class = _Entry

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # Not by Numba's own method, which first loads all that compilation needs: 0.3 s for the first function.
        try:
            _start_runtime(target_context)
            with self._guard_against_spurious_io_errors():
                return self._load_overload(sig, target_context)
        except OSError as error:
            disk_cache.warn_of(error)
        except Exception:
            # The entry is damaged. Empty its index, so that the new code replaces it.
            try:
                self.flush()
            except OSError as error:
                disk_cache.warn_of(error)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            disk_cache.warn_of(error)
