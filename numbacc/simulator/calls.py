"""Launch kernels in Numba's simulator, both the user's and numbacc's.

`blocks` runs the threads. Arguments are converted as in Numba's simulator. The tracer and the debugger derive from
`SimulatedLaunch`; `launching_as` selects their classes.
"""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from threading import get_ident
from typing import Any

import numpy as np

from ..base._numba import FakeCUDAArray, InOut, cuda, simulator_kernel
from ..base.observing import observable
from . import interrupts
from .blocks import Block, Runners, Thread, indices
from .compiled.launches import check_arguments, follow_interpreter
from .module import KernelArray, KernelModule

__all__ = ["Index", "SimulatedLaunch", "install", "is_watched", "launching_as", "running"]

Index = tuple[int, ...]

#: Numba's simulator replaces `cuda` in a kernel's modules while the kernel runs. So only one kernel runs at a time in
#: the whole process.
_alone = threading.RLock()
#: The current launches. They are nested when the user launches a kernel from a debugger that stopped in another.
_active: list[SimulatedLaunch] = []
_FakeArray, _InOut = FakeCUDAArray, InOut
#: numbacc's module `cuda`.
_OWN_CUDA = f"{__name__.partition('.')[0]}.cuda"
#: The block size of `forall`. On a GPU, Numba asks the driver, which usually returns more.
_THREADS_FOR_ALL = 128


class SimulatedLaunch:
    """One launch of a kernel.

    Args:
        kernel: Numba's kernel, with its configuration.
    """

    def __init__(self, kernel: Any):
        self.function: Callable[..., Any] = kernel.fn
        self.grid, self.block = simulator_kernel.normalize_kernel_dimensions(kernel.grid_dim, kernel.block_dim)
        self._kernel, self._ident = kernel, threading.get_ident()
        self.module = self.make_module(kernel.dynshared_size)
        self.runners, self._running = Runners(), False
        #: Modules that have this launch's `cuda`: id -> (globals, names and their former values).
        self._exchanged: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}

    # ---------------------------------------------------------------- methods that a tracer and a debugger replace

    def make_module(self, dynamic_bytes: int) -> KernelModule:
        """Return the kernel's `cuda` module."""
        return KernelModule(self.grid, self.block, dynamic_bytes)

    def begin(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Prepare a launch. Return the kernel's arguments, given those that the simulator made."""
        return args

    def run_block(self, index: Index, args: tuple[Any, ...]) -> None:
        self.make_block(index, partial(self.function, *args), indices(self.block)).run()

    # ---------------------------------------------------------------- common methods

    def make_block(self, index: Index, work: Callable[[], Any], points: Iterable[tuple[Any, int]]) -> Block:
        return Block(self.module, self.runners, index, work, points)

    def runs_here(self) -> bool:
        """Return whether the caller is the kernel's own code."""
        return self._running and self._ident == get_ident()

    @observable("interpreted_kernel")
    def run(self, given: Sequence[Any]) -> None:
        """Run all blocks."""
        check_arguments(self.function, given)
        write_back: list[Callable[[], Any]] = []
        args = tuple(_simulated(self._kernel, each, write_back) for each in given)
        function = self.function
        if self._kernel._debug:
            self.function = _strict(function)
        with interrupts.deferred(lambda: self._running):
            _active.append(self)
            try:
                args = self.begin(args)
                self.exchange(function)
                self._running = True
                interrupts.check()
                x, y, z = map(range, self.grid)
                for k, j, i in product(z, y, x):
                    self.run_block((i, j, k), args)
                self._running = False
            except BaseException:
                self._running = False  # before anything is restored
                raise
            finally:
                self._end()
        for each in write_back:
            each()

    def exchange(self, function: Callable[..., Any]) -> None:
        """Replace `cuda` among a function's globals by the launch's module, until the launch ends."""
        names = function.__globals__
        if id(names) in self._exchanged:
            return
        own = {name: value for name, value in names.copy().items() if _is_cuda(value)}
        self._exchanged[id(names)] = names, own
        names.update(dict.fromkeys(own, self.module))

    def _end(self) -> None:
        self.module.thread = None
        try:
            self.runners.end()
        finally:
            for names, own in self._exchanged.values():
                names.update(own)
            self._exchanged.clear()
            _active.remove(self)


def _is_cuda(value: Any) -> bool:
    """Return whether a global is the module `cuda`: Numba's, numbacc's, or that of a running kernel."""
    return value is cuda or isinstance(value, KernelModule) or value is sys.modules.get(_OWN_CUDA)


def _simulated(kernel: Any, arg: Any, write_back: list[Callable[[], Any]]) -> Any:
    """Return an argument as the simulator passes it. Arrays are copied, and `write_back` copies their results."""
    for extension in kernel.extensions:
        _, arg = extension.prepare_args(None, arg, stream=0, retr=write_back)
    if isinstance(arg, simulator_kernel.ArgHint):
        arg = arg.to_device(write_back)
    elif isinstance(arg, np.ndarray) and arg.ndim:
        arg = _InOut(arg).to_device(write_back)
    elif isinstance(arg, np.void):
        arg = _FakeArray(arg)
    return KernelArray(arg) if isinstance(arg, _FakeArray) else arg


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel with `debug=True`: divisions by 0 raise."""

    def strict(*args: Any) -> None:
        with np.errstate(divide="raise"):
            function(*args)

    return strict


_way: type[SimulatedLaunch] = SimulatedLaunch


def is_watched() -> bool:
    """Return whether a tracer or a debugger runs launches now."""
    return _way is not SimulatedLaunch


@contextmanager
def launching_as(way: type[SimulatedLaunch]) -> Iterator[None]:
    """Use a class derived from `SimulatedLaunch` for all launches inside this context."""
    global _way
    before, _way = _way, way
    try:
        yield
    finally:
        _way = before


# ---------------------------------------------------------------- methods of Numba's kernels


def _launch(kernel: Any, *args: Any) -> Any:
    """Launch a kernel, or call a device function on the host."""
    if kernel._device:
        return kernel.fn(*args)
    with _alone:
        _way(kernel).run(args)
    return None


def _call(kernel: Any, *args: Any) -> Any:
    """Call a device function in a kernel, which happens thousands of times in each launch; else do as `_begin`."""
    if _active and (kernel._device or kernel.grid_dim is None):
        within = _active[-1]
        if within._running and within._ident == get_ident():
            function = kernel.fn
            if id(function.__globals__) not in within._exchanged:
                within.exchange(function)
            return function(*args)
    return _begin(kernel, *args)


#: Called with the kernel and its arguments where no kernel runs.
_begin: Callable[..., Any] = _launch


def _configured(kernel: Any, configuration: Any) -> Any:
    """Return a kernel with a configuration. Numba's simulator would keep it in the kernel, for all host threads."""
    made = copy.copy(kernel)
    made.grid_dim, made.block_dim = simulator_kernel.normalize_kernel_dimensions(*configuration[:2])
    made.dynshared_size = configuration[3] if len(configuration) == 4 else 0
    return made


def _forall(kernel: Any, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Any:
    """Return the kernel configured for `ntasks` threads, in blocks of several; Numba's simulator uses one each."""
    if ntasks < 0:
        raise ValueError(f"forall({ntasks}): the number of threads must not be negative")
    tpb = tpb or _THREADS_FOR_ALL
    return _configured(kernel, (max(-(-ntasks // tpb), 1), tpb, stream, sharedmem))


def running() -> Thread | None:
    """Return the kernel's thread that calls this; None on the host."""
    within = _active[-1] if _active else None
    return within.module.thread if within is not None and within.runs_here() else None


def call_device_function(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call a device function's Python code in a kernel that runs here."""
    within = _active[-1]
    if id(function.__globals__) not in within._exchanged:
        within.exchange(function)
    return function(*args)


def install() -> None:
    """Run all kernels of Numba's simulator with this module."""
    global _begin
    kernels = simulator_kernel.FakeCUDAKernel
    _begin = follow_interpreter(_launch, is_watched)
    kernels.__call__, kernels.__getitem__, kernels.forall = _call, _configured, _forall
