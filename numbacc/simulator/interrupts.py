"""Interrupts (Ctrl-C, Jupyter's stop button) of simulated launches.

Numba's simulator exchanges `cuda` in a kernel's modules while the kernel runs, and runs it in several threads. An
interrupt in the middle would leave both behind. So the handler here keeps the error until the launch has ended its
threads and has restored everything; then the error is raised.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..base._numba import simulator_api

__all__ = ["PATIENCE", "Interrupted", "check", "deferred", "end", "urge"]

#: Seconds that a thread has to end by itself, which it does before it runs another thread of the kernel.
PATIENCE = 1.0
_ATTEMPTS = 20


class Interrupted(SystemExit):
    """Raised in the threads of a launch that is to end. Python's threads end by a SystemExit without a message."""


class _Deferred:
    """The SIGINT handler of one launch, in front of another handler.

    Attributes:
        error: the exception that the other handler raised, if any.
        time: when it was raised.
    """

    def __init__(self, before: Any):
        self._before, self.time = before, 0.0
        self.error: BaseException | None = None

    def __call__(self, number: int, frame: Any) -> None:
        try:
            self._before(number, frame)
        except BaseException as error:
            self.error, self.time = error, time.monotonic()


_current: _Deferred | None = None


def check() -> None:
    """Raise Interrupted where the launch was interrupted."""
    if _current is not None and _current.error is not None:
        raise Interrupted


def urge(thread: threading.Thread) -> None:
    """Raise Interrupted in a thread of a launch that was interrupted, if the thread does not end by itself."""
    if _current is not None and _current.error is not None and time.monotonic() > _current.time + PATIENCE:
        _throw(thread)


@contextmanager
def deferred() -> Iterator[None]:
    """Inside, keep an interrupt's exception, and raise it at the end. Python interrupts the main thread only."""
    global _current
    before = signal.getsignal(signal.SIGINT)
    if _current is not None or threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    handler = _Deferred(before)
    signal.signal(signal.SIGINT, handler)
    _current = handler
    try:
        yield
    except Interrupted:
        pass
    finally:
        if handler.error is not None:
            _restore_modules()
        _current = None
        signal.signal(signal.SIGINT, before)
        if handler.error is not None:
            raise handler.error.with_traceback(None)


def _restore_modules() -> None:
    """Put back `cuda` in the modules where a thread was stopped while Numba exchanged it."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        before = simulator_api._swap_orig.pop(id(names), None)
        if before is not None:
            names.update(before)  # type: ignore[union-attr]
            simulator_api._swap_refcount.pop(id(names), None)


def _throw(thread: threading.Thread) -> None:
    """Raise Interrupted in a thread, as soon as it executes Python code."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Interrupted))


def end(thread: threading.Thread) -> None:
    """Wait for the end of a thread that has been told to end; raise Interrupted in it where it goes on."""
    for _ in range(_ATTEMPTS):
        thread.join(PATIENCE)
        if not thread.is_alive():
            return
        _throw(thread)
