"""A tracer for kernels: which thread touches which element, and what that costs a GPU. See docs/tracer.md."""

from __future__ import annotations

from .traces import Trace

__all__ = ["Trace", "trace"]


def trace(*, max_threads: int = 65_536, max_accesses: int = 2_000_000) -> Trace:
    """Watch the kernels that are launched inside of a `with`, in Numba's CUDA simulator.

    Any `@cuda.jit` kernel, without a change. The simulator is chosen when a process starts, by NUMBA_ENABLE_CUDASIM=1
    in its environment.

    Args:
        max_threads: the most threads of a launch.
        max_accesses: the most accesses that are kept.

    Returns:
        A `Trace`: `table()`, `counts()`, `plot()`, `races`, `records`.

    Raises:
        DeviceError: on entry, where the process has no simulator.
        UnsupportedError: a launch is larger than the limits.

    Example:
        >>> t = numbacc.trace()        # then: with t: kernel[blocks, threads](x, y)
        >>> print(t.table())
        no kernel has accessed an array
    """
    return Trace(max_threads, max_accesses)
