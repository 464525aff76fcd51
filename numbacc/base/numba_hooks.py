"""Change numba-cuda before its first use, also for kernels that never call numbacc.

`install` changes two modules of numba-cuda when they are imported. It does not import Numba itself.

* numba-cuda 0.30.4 reads `numpy.row_stack`, which NumPy 2.5 removed, when it imports `arrayobj` at its first
  compilation. The name exists during that import.
* From its first launch on, the simulator lets numbacc run kernels (`numbacc.simulator.launches`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np

from ..errors import DeviceError
from . import dispatch

__all__ = ["install"]


@contextmanager
def _row_stack(module: ModuleType) -> Iterator[None]:
    """Inside, NumPy has `row_stack`."""
    missing = not hasattr(np, "row_stack")
    if missing:
        np.row_stack = np.vstack  # the same function up to NumPy 2.4
    try:
        yield
    finally:
        if missing:
            del np.row_stack


#: The methods of the simulator's kernels that numbacc replaces.
_METHODS = ("__call__", "__getitem__", "forall")


@contextmanager
def _own_launches(module: ModuleType) -> Iterator[None]:
    """Afterwards, the simulator's kernels let numbacc run them.

    numbacc's code needs numba.cuda, which is not imported yet. So the methods replace themselves at their first call.
    """
    yield
    kernels: Any = module.FakeCUDAKernel
    before = {name: getattr(kernels, name) for name in _METHODS}
    only_one = threading.Lock()

    def first(name: str) -> Callable[..., Any]:
        def method(kernel: Any, *args: Any, **options: Any) -> Any:
            with only_one:
                if vars(kernels)[name] is method:
                    with suppress(DeviceError):  # numbacc raises it again where it is used
                        dispatch.simulate_launches()
                if vars(kernels)[name] is method:
                    for each, function in before.items():
                        setattr(kernels, each, function)
            return getattr(kernels, name)(kernel, *args, **options)

        return method

    for name in _METHODS:
        setattr(kernels, name, first(name))


_AROUND: dict[str, Callable[[ModuleType], AbstractContextManager[None]]] = {
    "numba.cuda.np.arrayobj": _row_stack,
    "numba.cuda.simulator.kernel": _own_launches,
}


class _Finder(MetaPathFinder):
    """Finds the modules that change, by asking the other finders."""

    is_numbaccs = True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _AROUND:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                spec.loader = _Loader(spec.loader, _AROUND[fullname])
                return spec
        return None


class _Loader(Loader):
    """Executes a module inside of a context; everything else is left to the module's own loader."""

    def __init__(self, own: Any, around: Callable[[ModuleType], AbstractContextManager[None]]):
        self._own, self._around = own, around

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        with self._around(module):
            self._own.exec_module(module)


def install() -> None:
    """Change numba-cuda, whether or not it has been imported."""
    if any(hasattr(finder, "is_numbaccs") for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    simulator = sys.modules.get("numba.cuda.simulator.kernel")
    if simulator is not None:
        with _own_launches(simulator):
            pass
