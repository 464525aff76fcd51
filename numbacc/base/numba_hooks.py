"""Change Numba and numba-cuda before their first use, also for kernels that never call numbacc.

`install` changes their modules when they are imported. It does not import Numba itself.

* numba-cuda 0.30.4 reads `numpy.row_stack`, which NumPy 2.5 removed, when it imports `arrayobj` at its first
  compilation. The name exists during that import.
* From its first launch on, the simulator lets numbacc run kernels (`numbacc.simulator.launches`).
* At their first launch, kernels for GPUs let the compiled simulator run them: without a GPU, and inside of
  `numbacc.simulate()` (`numbacc.simulator.compiled.launches`).
* `numba.cuda.random` makes the states of its generators without a GPU, too.
* Before its first compilation, Numba goes through the names of `builtins`. In a thread, it failed if IPython, which
  stores results as `_` there, added a name at that moment. Numba does this at its import now, again if it failed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
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
    """Provide `row_stack` in NumPy for a while."""
    missing = not hasattr(np, "row_stack")
    if missing:
        np.row_stack = np.vstack  # the same function up to NumPy 2.4
    try:
        yield
    finally:
        if missing:
            del np.row_stack


def _at_first_call(module: ModuleType, methods: dict[str, tuple[str, ...]], install: Callable[..., None]) -> None:
    """Make methods of a module's classes call `install` at their first call, with these methods; it may replace them.

    numbacc's code needs modules that are not imported yet, so it is imported at that time.

    Args:
        methods: class -> its methods. Methods that a version of the module does not have are skipped.
    """
    before: dict[tuple[str, str], Any] = {}
    for owner, names in methods.items():
        held = vars(module).get(owner)
        before.update({(owner, name): getattr(held, name) for name in names if hasattr(held, name)})
    mine: dict[tuple[str, str], Any] = {}
    only_one = threading.Lock()

    def restore() -> None:
        for (owner, name), method in mine.items():
            if vars(getattr(module, owner))[name] is method:
                setattr(getattr(module, owner), name, before[owner, name])

    def first(owner: str, name: str) -> Callable[..., Any]:
        def method(this: Any, *args: Any, **options: Any) -> Any:
            with only_one:
                if vars(getattr(module, owner))[name] is method:
                    with suppress(DeviceError):  # numbacc raises it again where it is used
                        install(before)
                    restore()
            return getattr(getattr(module, owner), name)(this, *args, **options)

        return method

    for owner, name in before:
        mine[owner, name] = first(owner, name)
        setattr(getattr(module, owner), name, mine[owner, name])


@contextmanager
def _own_launches(module: ModuleType) -> Iterator[None]:
    """After the import, make the simulator's kernels let numbacc run them."""
    yield
    _at_first_call(module, {"FakeCUDAKernel": ("__call__", "__getitem__", "forall")}, dispatch.simulate_launches)


@contextmanager
def _compiled_launches(module: ModuleType) -> Iterator[None]:
    """After the import, make GPU kernels let numbacc run them, inside `numbacc.simulate()` and without a GPU."""
    yield
    _at_first_call(module, _DISPATCHERS, partial(dispatch.compile_launches, module))


@contextmanager
def _own_arrays(module: ModuleType) -> Iterator[None]:
    """After the import, make a module create its arrays by `numbacc.cuda`, which needs no GPU."""
    yield
    module.cuda = dispatch.names_of_cuda()  # type: ignore[attr-defined]


@contextmanager
def _exceptions_known(module: ModuleType) -> Iterator[None]:
    """After the import, let Numba find the exceptions among the builtins, which it does once."""
    yield
    find: Any = getattr(module, "_load_global_helpers", int)  # a private name of Numba 0.68
    for _ in range(_TRIES):
        with suppress(RuntimeError):  # dictionary changed size during iteration
            find()
            break


#: More often than this, no other thread adds a builtin while Numba goes through them.
_TRIES = 100
#: The methods that launch or compile kernels, in Numba and in its successor: class -> names.
_DISPATCHERS = {
    "CUDADispatcher": ("configure", "forall", "compile", "compile_device", "disable_compile", "specialize"),
    "MLIRDispatcher": ("configure", "forall", "specialize"),
    "_LaunchConfiguration": ("__call__",),
    "ForAll": ("__call__",),
    "_ArgMarshaller": ("__call__",),
}

_AROUND: dict[str, Callable[[ModuleType], AbstractContextManager[None]]] = {
    "numba.core.base": _exceptions_known,
    "numba.cuda.np.arrayobj": _row_stack,
    "numba.cuda.simulator.kernel": _own_launches,
    "numba.cuda.dispatcher": _compiled_launches,
    "numba.cuda.random": _own_arrays,
    "numba_cuda_mlir.descriptor": _compiled_launches,
}


class _Finder(MetaPathFinder):
    """A finder of the modules that change; it asks the other finders."""

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
    """A loader that executes a module inside a context; the module's own loader does everything else."""

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
    """Change Numba and numba-cuda, whether or not they have been imported."""
    if any(hasattr(finder, "is_numbaccs") for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    for name, around in _AROUND.items():
        imported = sys.modules.get(name)
        if imported is not None and around is not _row_stack:
            with around(imported):
                pass
