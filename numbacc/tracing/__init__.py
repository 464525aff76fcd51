"""A tracer and a debugger of kernels that run on the CPU (docs/tracer.md, docs/debugger.md)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ..base.keywords import explain
from ..errors import OptionError
from .simulators import require_simulator
from .traces import Trace

__all__ = ["Trace", "debug", "trace"]


def trace(*, max_threads: int | None = None, max_accesses: int = 2_000_000) -> Trace:
    """Count what the kernels that are launched inside of a `with` do to memory. No GPU is needed.

    Any `@cuda.jit` kernel, without a change. It is compiled for the CPU, and counts and checks its accesses while it
    runs. In a process that was started with NUMBA_ENABLE_CUDASIM=1, Numba's simulator runs it in Python instead: also
    kernels that cannot be compiled, and numbacc's own.

    Args:
        max_threads: the most threads of a launch. None: no limit, but 65,536 in Numba's simulator.
        max_accesses: the most accesses that are kept one by one, for `records` and `plot`. Counts have all
            accesses. Numba's simulator refuses a launch with more.

    Returns:
        A `Trace`: `table()`, `counts()`, `plot()`, `races`, `records`.

    Raises:
        DeviceError: on entry, where Numba is not installed.
        KernelError: at the launch: an index out of bounds, a misaligned view, a barrier that only some threads reach.
        UnsupportedError: a launch is larger than the limits, or the kernel cannot be compiled.

    Example:
        >>> t = numbacc.trace()        # then: with t: kernel[blocks, threads](x, y)
        >>> print(t.table())
        no kernel has accessed an array
    """
    return Trace(max_threads, max_accesses)


class Debugging:
    """What `numbacc.debug` gives: to be used in a `with`."""

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
    """Let debuggers stop in one thread of a kernel, in Numba's CUDA simulator.

    Inside of the `with`, pdb, `python -m pdb` and IPython stop at breakpoints in that thread of the kernel, and in no
    other. It runs first. The others run when it comes to a barrier, and when it has ended. Examples: docs/debugger.md.

    Args:
        thread: its number in the block, x first, or its index.
        block: the block's number in the grid, or its index.
        line: where to open pdb, a line of the kernel in its file or cell. None opens none.

    Raises:
        DeviceError: on entry, where the process has no simulator.
        OptionError: at the launch, where there is no such thread, block or line.

    Example:
        >>> numbacc.debug(thread=5, line=12)        # with ...: kernel[blocks, threads](x, y)
        debuggers stop in thread 5 of block 0, at line 12
    """
    for name, value in (("thread", thread), ("block", block)):
        numbers = value if isinstance(value, tuple) else (value,)
        if not 1 <= len(numbers) <= 3 or not all(isinstance(n, int) and n >= 0 for n in numbers):
            raise OptionError(f"{name}={value!r}: it must be a whole number, or a tuple of up to three")
    return Debugging(thread, block, line)


explain(__name__, __all__)
