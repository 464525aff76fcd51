"""Send launches of users' kernels to the compiled simulator: inside `numbacc.simulate()`, and without a GPU.

A kernel is any object that a library's `cuda.jit` returns. Its class is patched at its first launch
(`base.numba_hooks`); on a machine with a GPU, only after `simulate` is used. This module never imports `numba.cuda`.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache, partial, wraps
from types import ModuleType
from typing import Any

import numpy as np

from ...base import dispatch
from ...base.garbage import no_collections
from ...base.keywords import explain
from ...base.observing import observable
from ...errors import ArgumentsError, OptionError, UnsupportedError, shown
from . import arguments

__all__ = ["Configured", "Simulation", "check_arguments", "current", "launch", "simulate"]

#: The block size of `forall`. On a GPU, Numba asks the driver, which usually returns more.
THREADS_FOR_ALL = 128
#: The largest block along x, y and z, and the largest grid, on every GPU.
_LARGEST_BLOCK, _LARGEST_GRID = (1024, 1024, 64), (2**31 - 1, 65_535, 65_535)
_MOST_THREADS = 1024


# ---------------------------------------------------------------- which launches to simulate


@dataclass(frozen=True)
class SimulationOptions:
    """The options of `simulate`."""

    checked: bool | None = None
    workers: int | None = None
    contract: bool = True
    #: Set by a tracer: (function, arguments as given, in host memory, blocks, threads, bytes) -> `observe` of `Kernel`.
    tracer: Callable[..., Any] | None = None

    def checks(self) -> bool:
        return in_notebook() if self.checked is None else self.checked


#: Tracers of kernels with functions of `numbacc.device`, which run in Python. Each is called with a launch, and returns
#: a function that is called for each access of shared memory; see `BlockState.watcher`.
device_observers: list[Callable[[Any], Callable[..., None]]] = []

#: The `with numbacc.simulate()` blocks that this thread is inside.
_entered: ContextVar[tuple[SimulationOptions, ...]] = ContextVar("_entered", default=())
_DEFAULT = SimulationOptions()


def in_notebook() -> bool:
    """Return whether the process runs the cells of a notebook, or IPython."""
    shell = sys.modules.get("IPython")
    ask = getattr(shell, "get_ipython", None)
    return ask is not None and ask() is not None


def entered() -> SimulationOptions | None:
    """Return the options of this thread's innermost `with numbacc.simulate()`; None outside."""
    found = _entered.get()
    return found[-1] if found else None


@lru_cache(maxsize=8)
def _runs_on_gpu(package: str) -> bool:
    """Return whether kernels of a package, such as "numba.cuda", can run on a GPU."""
    driver = getattr(sys.modules.get(f"{package}.cudadrv.driver"), "driver", None)
    try:
        return bool(getattr(driver, "is_available", False)) or (not dispatch.simulated() and dispatch.has_gpu())
    except Exception:  # no driver, or one too old for the package
        return False


def current(package: str = "") -> SimulationOptions | None:
    """Return the options to simulate this thread's next launch with; None if a GPU runs it.

    Args:
        package: the package that made the kernel; "" for numbacc's own `cuda` module when numba.cuda is not installed.
    """
    found = entered()
    if found is None and not (package and _runs_on_gpu(package)):
        return _DEFAULT
    return found


def runs_on_host(has_numbas: bool) -> bool:
    """Return whether `numbacc.cuda` runs on the CPU, because the GPU or numba.cuda is missing."""
    return not (has_numbas and _runs_on_gpu("numba.cuda"))


class Simulation:
    """A context manager, as `numbacc.simulate` returns it."""

    def __init__(self, options: SimulationOptions):
        self._options = options

    def __enter__(self) -> None:
        _follow_waiting()
        around = entered()
        tracer = self._options.tracer or (around.tracer if around else None)
        _entered.set((*_entered.get(), replace(self._options, tracer=tracer)))

    def __exit__(self, *error: object) -> None:
        _entered.set(_entered.get()[:-1])

    def __repr__(self) -> str:
        from .host import cores

        how, count = "checked" if self._options.checks() else "unchecked", self._options.workers or cores()
        return f"kernels run on the CPU, {how}, on {count} core{'s' * (count != 1)}"


def simulate(*, checked: bool | None = None, workers: int | None = None, contract: bool = True) -> Simulation:
    """Run the kernels launched inside a `with` block on the CPU, compiled.

    Works with any unchanged `@cuda.jit` kernel of Numba. Arguments can be NumPy arrays, numbacc's arrays, or arrays on
    a GPU, which are copied to the host and back. On a machine without a GPU, kernels run this way by default. Blocks
    run in parallel on the CPU's cores. The `with` block affects only launches of the same Python thread. More:
    docs/simulator.md.

    Args:
        checked: find mistakes: indices out of bounds, races, reads of shared memory before a write, and barriers that
            only some threads reach. This is slower. None: on in notebooks, off in scripts.
        workers: how many blocks run at the same time, at most. None: one on each core.
        contract: round `a * b + c` once, as a GPU does. False: round the product first, as NumPy does.

    Raises:
        KernelError: at the launch, for a mistake in the kernel.
        UnsupportedError: at the launch, if the simulator cannot compile the kernel.

    Example:
        >>> numbacc.simulate(checked=True, workers=2)        # with ...: kernel[blocks, threads](x, y)
        kernels run on the CPU, checked, on 2 cores
    """
    if checked is not None and not isinstance(checked, (bool, np.bool_)):
        raise OptionError(f"checked={shown(checked)}: it must be True, False or None")
    if workers is not None:
        if isinstance(workers, bool) or not isinstance(workers, (int, np.integer)) or workers < 1:
            raise OptionError(f"workers={shown(workers)}: it must be a positive integer, or None for one on each core")
        workers = int(workers)
    if not isinstance(contract, (bool, np.bool_)):
        raise OptionError(f"contract={shown(contract)}: it must be True or False")
    return Simulation(SimulationOptions(None if checked is None else bool(checked), workers, bool(contract)))


# ---------------------------------------------------------------- a launch


class _Kernels(dict[tuple[bool, bool, bool], Any]):
    """The compiled kernels of a function: (checked, contract, traced) -> Kernel. Copies and pickles are empty."""

    def __reduce__(self) -> Any:
        return _Kernels, ()

    def __deepcopy__(self, memo: Any) -> _Kernels:
        return _Kernels()


_only_one = threading.Lock()


def _compiled(function: Callable[..., Any], options: SimulationOptions) -> Any:
    """Return the kernel that a function is compiled to. The function keeps it, so that both are freed together."""
    checked = options.checked
    key = in_notebook() if checked is None else checked, options.contract, options.tracer is not None
    made = function.__dict__.get("_numbacc_compiled")
    if made is None or key not in made:
        with no_collections:
            from .kernel import Kernel  # imports Numba

        with _only_one:
            made = function.__dict__.setdefault("_numbacc_compiled", _Kernels())
            if key not in made:
                made[key] = Kernel(function, checked=key[0], contract=key[1], traced=key[2])
    return made[key]


def dimensions(sizes: Any, name: str, largest: Sequence[int]) -> tuple[int, int, int]:
    """Return a grid's or a block's size along x, y and z.

    Raises:
        OptionError: it is not a size, or no GPU could launch it.
    """
    if type(sizes) is int and 1 <= sizes <= largest[0]:  # the usual case
        return sizes, 1, 1
    given = tuple(sizes) if isinstance(sizes, (tuple, list)) else (sizes,)
    if not 1 <= len(given) <= 3 or not all(isinstance(n, (int, np.integer)) for n in given):
        raise OptionError(f"{name} is {shown(sizes)}: it must be an integer, or a tuple of up to three")
    found = tuple(int(n) for n in (*given, 1, 1)[:3])
    for axis, size, most in zip("xyz", found, largest, strict=True):
        if not 1 <= size <= most:
            raise OptionError(f"{name} is {shown(sizes)}: its size along {axis} must be from 1 to {most:,}")
    return found  # type: ignore[return-value]


def check_arguments(kernel: Callable[..., Any], args: Sequence[Any]) -> None:
    """Raise ArgumentsError unless a kernel was given as many arguments as it has parameters."""
    code = kernel.__code__
    if len(args) == code.co_argcount and not code.co_kwonlyargcount:
        return
    parameters = inspect.signature(kernel)
    try:
        parameters.bind(*args)
    except TypeError:
        wanted = len(parameters.parameters)
        raise ArgumentsError(
            f"{kernel.__name__}{parameters} takes {wanted} argument{'s' * (wanted != 1)}, and was given {len(args)}"
        ) from None


@observable("user_kernel")
def launch(
    function: Callable[..., Any],
    grid: Any,
    block: Any,
    dynamic_bytes: int,
    given: Sequence[Any],
    options: SimulationOptions,
    extensions: Iterable[Any] = (),
) -> None:
    """Run a kernel on the CPU. Returns when all of its threads have ended.

    Args:
        function: the kernel's Python function.
        given: its arguments, as the caller passed them.
        extensions: objects that prepare arguments, as in `cuda.jit(extensions=...)`.
    """
    blocks = dimensions(grid, "the grid", _LARGEST_GRID)
    threads = dimensions(block, "the block", _LARGEST_BLOCK)
    if (count := threads[0] * threads[1] * threads[2]) > _MOST_THREADS:
        raise OptionError(f"the block {shown(block)} has {count:,} threads; a GPU allows at most {_MOST_THREADS:,}")
    check_arguments(function, given)
    kernel, size = _compiled(function, options), int(dynamic_bytes or 0)
    if not extensions and options.tracer is None and arguments.are_on_host(given):
        _run(function, kernel, blocks, threads, size, given, options.workers, None, given)  # the usual case, quickly
        return
    with arguments.on_host(given, extensions) as args:
        observe = options.tracer and options.tracer(function, given, args, blocks, threads, size)
        try:
            _run(function, kernel, blocks, threads, size, args, options.workers, observe, given)
        finally:
            if observe:
                observe.finish()


def _run(function: Callable[..., Any], kernel: Any, *launch: Any) -> None:
    """Run a compiled kernel, given the arguments of its method `launch`."""
    try:
        kernel.launch(*launch)
    except Exception as error:
        if type(error).__module__ != "numba.core.errors":
            raise
        raise _not_compiled(function, error) from error


def _not_compiled(function: Callable[..., Any], error: Exception) -> UnsupportedError:
    """Return the error for a kernel that Numba could not compile, naming Numba's line."""
    code, text = function.__code__, str(error)
    line = re.search(rf"{re.escape(os.path.basename(code.co_filename))}.{{0,8}}line (\d+)", text)
    place = f"{os.path.basename(code.co_filename)}:{line[1] if line else code.co_firstlineno}"
    said = [each.strip() for each in text.splitlines() if each.strip() and not each.startswith(("Failed in", "During"))]
    return UnsupportedError(
        f"{place}: {function.__name__} cannot be compiled: {said[0] if said else type(error).__name__} (Numba's whole "
        "message is above). NUMBA_ENABLE_CUDASIM=1 runs kernels without compiling them"
    )


class Configured:
    """A kernel with a grid and a block. Each call decides where it runs.

    Args:
        kernel: the object that `cuda.jit` made; `py_func` is its Python function.
        package: the same as for `current`.
        otherwise: returns the object that launches the kernel on a GPU.
    """

    def __init__(
        self,
        kernel: Any,
        package: str,
        otherwise: Callable[[], Any],
        grid: Any,
        block: Any,
        stream: Any,
        sharedmem: Any,
    ):
        self.dispatcher, self._package, self._otherwise = kernel, package, otherwise
        self.griddim, self.blockdim, self.stream, self.sharedmem = grid, block, stream, sharedmem

    def __call__(self, *args: Any) -> Any:
        entered = _entered.get()
        options = entered[-1] if entered else current(self._package)
        if options is None:
            return self._otherwise()(*args)
        kernel = self.dispatcher
        signature = signature_of(kernel)
        given = args if signature is None else arguments.cast(args, signature)
        launch(kernel.py_func, self.griddim, self.blockdim, self.sharedmem, given, options, extensions_of(kernel))
        return None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pickle and copy ask before there are attributes
            raise AttributeError(name)
        return getattr(self._otherwise(), name)  # an attribute of the library's own object


class ConfiguredForAll(Configured):
    """A kernel with at least one thread for each of `ntasks` tasks."""

    def __call__(self, *args: Any) -> Any:
        return super().__call__(*args) if self.griddim else None


def for_all(kernel: Any, package: str, otherwise: Callable[[], Any], ntasks: int, tpb: int, *rest: Any) -> Configured:
    """Return a kernel with blocks for `ntasks` threads, like the method `forall` of Numba's kernels.

    Raises:
        ValueError: ntasks is negative.
    """
    if ntasks < 0:
        raise OptionError(f"forall({shown(ntasks)}): the number of threads must not be negative")
    tpb = tpb or THREADS_FOR_ALL
    return ConfiguredForAll(kernel, package, otherwise, -(-ntasks // tpb), tpb, *rest)


def signature_of(kernel: Any) -> tuple[Any, ...] | None:
    """Return the types of the only signature that a kernel was declared with; None if it has no single signature."""
    found = kernel.__dict__.get("_numbacc_signatures")
    if not found:
        if not getattr(kernel, "_specialized", False):
            return None
        found = list(getattr(kernel, "overloads", ()))
    return tuple(found[0]) if len(found) == 1 else None


def extensions_of(kernel: Any) -> Iterable[Any]:
    return getattr(kernel, "targetoptions", {}).get("extensions") or ()


# ---------------------------------------------------------------- kernels of Numba

#: Functions to call when `simulate` is first used. They patch the classes of a package that has a GPU.
_waiting: list[Callable[[], None]] = []


def _follow_waiting() -> None:
    with _only_one:
        while _waiting:
            _waiting.pop()()


def follow(module: ModuleType, before: dict[tuple[str, str], Any]) -> None:
    """Patch the kernel class that a module defines: run kernels here inside `simulate` and without a GPU.

    Args:
        module: `numba.cuda.dispatcher`, or `numba_cuda_mlir.descriptor`.
        before: (class, method) -> the module's own function.
    """
    package = "numba.cuda" if module.__name__.startswith("numba.cuda.") else "numba_cuda_mlir.numba_cuda"

    def change() -> None:
        for (owner, name), method in before.items():
            setattr(getattr(module, owner), name, _REPLACED[name if name != "__call__" else owner](package, method))

    if entered() is not None or not _runs_on_gpu(package):
        change()
    else:
        _waiting.append(change)


def _configure(package: str, own: Any) -> Any:
    @wraps(own)
    def configure(kernel: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: Any = 0, **more: Any) -> Any:
        otherwise = partial(own, kernel, griddim, blockdim, stream, sharedmem)
        if more or current(package) is None:
            return otherwise(**more)
        return Configured(kernel, package, otherwise, griddim, blockdim, stream, sharedmem)

    return configure


def _forall(package: str, own: Any) -> Any:
    @wraps(own)
    def forall(kernel: Any, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Any:
        otherwise = partial(own, kernel, ntasks, tpb, stream, sharedmem)
        if current(package) is None:
            return otherwise()
        return for_all(kernel, package, otherwise, ntasks, tpb, stream, sharedmem)

    return forall


def _called(package: str, own: Any) -> Any:
    """Return the method that calls a kernel configured outside of `simulate`."""

    @wraps(own)
    def call(made: Any, *args: Any) -> Any:
        options = entered()
        if options is None:
            return own(made, *args)
        return Configured(
            made.dispatcher, package, lambda: own, made.griddim, made.blockdim, made.stream, made.sharedmem
        )(*args)

    return call


def _called_marshaller(package: str, own: Any) -> Any:
    """Return the method that calls a kernel of numba_cuda_mlir, which keeps configurations for later launches."""

    @wraps(own)
    def call(made: Any, *args: Any) -> Any:
        known = getattr(made, "_available_launch_config", None)
        if entered() is None or known is None:
            return own(made, *args)
        rest = known["grid"], known["block"], made._launch_stream, known.get("sharedmem") or 0
        return Configured(made._dispatcher, package, lambda: own, *rest)(*args)

    return call


def _called_for_all(package: str, own: Any) -> Any:
    @wraps(own)
    def call(made: Any, *args: Any) -> Any:
        if entered() is None:
            return own(made, *args)
        rest = made.ntasks, made.thread_per_block, made.stream, made.sharedmem
        return for_all(made.dispatcher, package, lambda: own, *rest)(*args)

    return call


def _compile(package: str, own: Any) -> Any:
    """Return the method that compiles for a given signature. Without a GPU, it waits for the first launch."""

    @wraps(own)
    def compile_signature(kernel: Any, signature: Any, *rest: Any) -> Any:
        try:
            return own(kernel, signature, *rest)
        except Exception as error:
            # Device functions are compiled without the type of their result.
            is_called = own.__name__ == "compile_device" and not rest
            if type(error).__name__ != "CudaSupportError" or is_called or _runs_on_gpu(package):
                raise
        vars(kernel).setdefault("_numbacc_signatures", []).append(signature)
        return None

    return compile_signature


def _disable_compile(package: str, own: Any) -> Any:
    @wraps(own)
    def disable_compile(kernel: Any, *rest: Any) -> None:
        if "_numbacc_signatures" not in vars(kernel):
            own(kernel, *rest)

    return disable_compile


def _specialize(package: str, own: Any) -> Any:
    @wraps(own)
    def specialize(kernel: Any, *args: Any) -> Any:
        return own(kernel, *args) if _runs_on_gpu(package) else kernel

    return specialize


_REPLACED = {
    "configure": _configure,
    "forall": _forall,
    "_LaunchConfiguration": _called,
    "ForAll": _called_for_all,
    "_ArgMarshaller": _called_marshaller,
    "compile": _compile,
    "compile_device": _compile,
    "disable_compile": _disable_compile,
    "specialize": _specialize,
}


def follow_interpreter(call: Any, interprets: Callable[[], bool]) -> Callable[..., Any]:
    """Return the method `__call__` of kernels in Numba's simulator: inside `simulate` they run here.

    Args:
        call: the method that runs them in the interpreter.
        interprets: returns whether the interpreter must run the next launch, as for a tracer.
    """

    @wraps(call)
    def compiled_call(kernel: Any, *args: Any) -> Any:
        # numbacc's own kernels have parts that only the interpreter supports.
        if (
            kernel._device
            or kernel.grid_dim is None
            or (options := entered()) is None
            or interprets()
            or kernel.fn.__module__.partition(".")[0] == "numbacc"
        ):
            return call(kernel, *args)
        launch(kernel.fn, kernel.grid_dim, kernel.block_dim, kernel.dynshared_size, args, options, kernel.extensions)
        return None

    return compiled_call


explain(__name__, ["simulate"])
