"""Functions that Numba compiles for the host, kept on disk between processes: beside the compiled kernels.

Numba's own `cache=True` keeps them in the package's folder or the user's home, and refuses to compile where neither can
be written. It also compiles again only when the function's own file changes, though constants of other files are part
of the machine code. Here an entry's folder is named by a digest of all of them, and what cannot be kept is compiled in
memory.
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
from numba.core.caching import CompileResultCacheImpl, FunctionCache

from . import disk_cache

#: The files of the package that decide the machine code of functions compiled for the host.
SOURCES = (
    "runtime/native.py",
    "runtime/native_graphs.py",
    "base/codes.py",
    "runtime/host_cache.py",
)


def compiled(signature: Any) -> Callable[[Callable[..., int]], Any]:
    """Decorate a function that is compiled at import for one signature, or taken from disk; it releases the GIL."""

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
    """Where the functions of these sources are kept, by this Python and this Numba.

    Raises:
        OSError: no directory is known, or the sources cannot be read.
    """
    digest = hashlib.sha256(f"{sys.version} {numba.__version__} {llvmlite.__version__}".encode())
    for name in SOURCES:
        digest.update((Path(__file__).parents[1] / name).read_bytes())
    return disk_cache.directory() / "host" / digest.hexdigest()[:32]


class _Locator:
    """The directory of a cache's entries, as Numba's cache asks for it."""

    def __init__(self, place: Path):
        self.place = place

    def get_cache_path(self) -> str:
        return str(self.place)

    def get_source_stamp(self) -> str:
        return ""  # the folder's name says it

    def ensure_cache_path(self) -> None:
        os.makedirs(self.place, exist_ok=True)


class _Entry(CompileResultCacheImpl):  # type: ignore[misc]
    """How a function is written down, and under what name: in the folder `kept_in` of the function, if it has one."""

    def __init__(self, function: Callable[..., int]):
        # Not by Numba's own search, which an environment variable can turn elsewhere.
        self._locator = _Locator(getattr(function, "kept_in", None) or folder())
        self._filename_base = function.__qualname__

    def check_cachable(self, cres: Any) -> bool:
        """Return whether code can be kept: not if it has the address of an array of more than a megabyte."""
        return not (cres.library.has_dynamic_globals or any(not each.can_cache for each in cres.lifted))


class Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of a function, which is compiled whatever is wrong with the disk or with what lies there."""

    _impl_class = _Entry

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except OSError as error:
            disk_cache.warn_of(error)
        except Exception:
            # The entry is damaged. Its index is emptied, so that what is compiled now replaces it.
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
