"""Trace and debug kernels on the CPU (docs/tracer.md, docs/debugger.md)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ..base.keywords import explain
from ..errors import OptionError
from .simulators import require_simulator
from .traces import Trace

__all__ = ["Trace", "debug", "trace"]


def trace(*, max_threads: int | None = None, max_accesses: int = 2_000_000) -> Trace:
    """Record the memory accesses of the kernels launched inside a `with` block. No GPU is needed.

    Works with any unchanged `@cuda.jit` kernel. The kernel is compiled for the CPU and counts and checks its accesses
    while it runs. If the process was started with NUMBA_ENABLE_CUDASIM=1, Numba's simulator runs the kernel in Python
    instead. It also runs kernels that cannot be compiled, and numbacc's own kernels.

    Args:
        max_threads: the largest number of threads that a launch may have. None means no limit; in Numba's simulator it
            means 65,536.
        max_accesses: how many single accesses to keep for `records` and `plot`. Counts always include all accesses. In
            Numba's simulator, a launch with more accesses raises an error.

    Returns:
        A `Trace`: `table()`, `counts()`, `plot()`, `races`, `records`.

    Raises:
        DeviceError: on entry, if Numba is not installed.
        KernelError: at the launch, for an index out of bounds, a misaligned view, or a barrier that only some threads
            reach.
        UnsupportedError: at the launch, if it exceeds a limit or the kernel cannot be compiled.

    Example:
        >>> t = numbacc.trace()        # then: with t: kernel[blocks, threads](x, y)
        >>> print(t.table())
        no kernel has accessed an array
    """
    return Trace(max_threads, max_accesses)


class Debugging:
    """A context manager, as `numbacc.debug` returns it: debuggers stop in one thread of each kernel inside."""

    def __init__(self, thread: int | tuple[int, ...], block: int | tuple[int, ...], line: int | None):
        self._options = (thread, block, line)
        self._inside: AbstractContextManager[None] | None = None

    def __enter__(self) -> None:
        require_simulator("numbacc.debug()")
        from .debugging import leading

        self._inside = leading(*self._options)
        self._inside.__enter__()

    def __exit__(self, *error: Any) -> bool | None:
        assert self._inside is not None
        return self._inside.__exit__(*error)

    def __repr__(self) -> str:
        thread, block, line = self._options
        where = "" if line is None else f", at line {line}"
        return f"debuggers stop in thread {thread} of block {block}{where}"


def debug(thread: int | tuple[int, ...] = 0, block: int | tuple[int, ...] = 0, *, line: int | None = None) -> Debugging:
    """Let a debugger stop in one thread of a kernel, in Numba's CUDA simulator.

    Inside the `with` block, pdb, `python -m pdb` and IPython stop at breakpoints in this thread only. It runs before
    the other threads of its block. They run when it reaches a barrier or ends. Examples: docs/debugger.md.

    Args:
        thread: the thread's index in its block, as a tuple or as a single number that counts along x first.
        block: the block's index in the grid, as a tuple or as a single number.
        line: the line of the kernel, in its file or notebook cell, where pdb opens. None opens no debugger.

    Raises:
        DeviceError: on entry, if the process does not run Numba's simulator.
        OptionError: at the launch, if the thread, block or line does not exist.

    Example:
        >>> numbacc.debug(thread=5, line=12)        # with ...: kernel[blocks, threads](x, y)
        debuggers stop in thread 5 of block 0, at line 12
    """
    for name, value in (("thread", thread), ("block", block)):
        numbers = value if isinstance(value, tuple) else (value,)
        if not 1 <= len(numbers) <= 3 or not all(isinstance(n, int) and n >= 0 for n in numbers):
            raise OptionError(f"{name}={value!r}: it must be an integer of at least 0, or a tuple of up to three")
    return Debugging(thread, block, line)


explain(__name__, __all__)
