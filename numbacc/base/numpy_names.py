"""`numpy.row_stack` for numba-cuda, which NumPy 2.5 removed.

numba-cuda 0.30.4 reads this name when it imports its module `arrayobj`: at the first compilation of any kernel, the
user's own included. `install` waits for that import without importing Numba.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["install"]

_MODULE = "numba.cuda.np.arrayobj"


class _Finder(MetaPathFinder):
    """Finds the one module that needs the name, by asking the other finders."""

    numbacc_row_stack = True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _MODULE:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader(Loader):
    """Executes a module while NumPy has `row_stack`; everything else is left to the module's own loader."""

    def __init__(self, own: Any):
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        missing = not hasattr(np, "row_stack")
        if missing:
            np.row_stack = np.vstack  # the same function up to NumPy 2.4
        try:
            self._own.exec_module(module)
        finally:
            if missing:
                del np.row_stack


def install() -> None:
    """Let numba-cuda compile kernels where NumPy lacks `row_stack`, whether or not it has been imported."""
    installed = any(hasattr(finder, "numbacc_row_stack") for finder in sys.meta_path)
    if not installed and not hasattr(np, "row_stack"):
        sys.meta_path.insert(0, _Finder())
