"""Handle interrupts (Ctrl-C, Jupyter's stop button) of simulated launches.

A launch replaces `cuda` in the kernel's modules, and restores it at its end. An interrupt during either step would
leave it half done. So this handler raises at once only while the kernel runs. An earlier interrupt is raised before the
first block runs, a later one after everything is restored.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["check", "deferred"]


class _Deferred:
    """The SIGINT handler of one launch, which wraps another handler.

    Attributes:
        error: the exception that the wrapped handler raised, until it is raised again.
        in_kernel: whether the kernel runs. None after the launch.
    """

    def __init__(self, before: Any, in_kernel: Callable[[], bool]):
        self._before = before
        self.in_kernel: Callable[[], bool] | None = in_kernel
        self.error: BaseException | None = None

    def __call__(self, number: int, frame: Any) -> None:
        try:
            self._before(number, frame)
        except BaseException as error:
            if self.in_kernel is None or self.in_kernel():
                raise
            self.error = error

    def check(self) -> None:
        """Raise the kept exception, if any."""
        error, self.error = self.error, None
        if error is not None:
            raise error.with_traceback(None)


_current: _Deferred | None = None


def check() -> None:
    """Raise the interrupt that came before the kernel ran, if one did."""
    if _current is not None and threading.current_thread() is threading.main_thread():
        _current.check()


@contextmanager
def deferred(in_kernel: Callable[[], bool]) -> Iterator[None]:
    """Keep an interrupt's exception unless the kernel runs, and raise it at the end of this context.

    Python interrupts the main thread only.
    """
    global _current
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if not callable(before):
        yield
        return
    outer, handler = _current, _Deferred(before, in_kernel)
    signal.signal(signal.SIGINT, handler)
    _current = handler
    try:
        yield
    finally:
        _current = outer
        signal.signal(signal.SIGINT, before)
        handler.in_kernel = None
        handler.check()
