"""Find the source position of a simulated thread, and make errors that name the thread and end in the user's line."""

from __future__ import annotations

from functools import lru_cache
from types import CodeType, FrameType, TracebackType
from typing import Any

__all__ = ["failed", "instruction_at"]


#: Parts of the simulator's error messages -> advice.
_REMEDIES = {
    "is not usable in pure-python": (
        "the simulator runs Python, but an intrinsic is GPU code. Write a Python version of it for the simulator, "
        "`if numba.config.ENABLE_CUDASIM:`, or simulate a scalar form of the kernel that uses x[i] instead"
    ),
    "module 'numba.cuda' has no attribute": (
        "the simulator replaces the global `cuda` in a kernel's file while the kernel runs. Import it at the "
        "top of the file, `from numba import cuda`, not inside a function"
    ),
}

#: Modules without the user's code.
_WITHIN = ("numba.cuda.simulator", f"{__name__.rpartition('.')[0]}.", f"{__name__.partition('.')[0]}.tracing.")


def failed(error: BaseException, thread: Any) -> BaseException:
    """Return a thread's error: its message names the thread and block, and its traceback shows the kernel only."""
    traceback = _of_kernel(error.__traceback__)
    if not isinstance(error, Exception) or type(error).__module__ == "bdb":  # an interrupt, or the debugger's end
        return error.with_traceback(traceback)
    words = str(error)
    if isinstance(error, (AttributeError, NotImplementedError)):
        words += "".join(f": {remedy}" for known, remedy in _REMEDIES.items() if known in words)
    place = f"tid={list(thread.threadIdx)} ctaid={list(thread.block.blockIdx)}"
    try:
        made: Exception = type(error)(f"{place}: {words}" if words else place)
    except Exception:  # its class needs other arguments
        made = RuntimeError(f"{place}: {type(error).__name__}: {words}")
    made.__cause__, made.__suppress_context__ = error.__cause__, True
    return made.with_traceback(traceback)


def _of_kernel(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback of the kernel and the functions that it calls, without the simulator's own frames."""
    found, each = [], traceback
    while each is not None:
        if not str(each.tb_frame.f_globals.get("__name__", "")).startswith(_WITHIN):
            found.append(each)
        each = each.tb_next
    made = None
    for each in reversed(found):
        made = TracebackType(made, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return made or traceback


@lru_cache(maxsize=1024)
def _positions(code: CodeType) -> list[Any]:
    """Return the source position of each bytecode unit; an empty list if Python does not record positions."""
    return list(code.co_positions()) if hasattr(code, "co_positions") else []  # since Python 3.11


def instruction_at(frame: FrameType) -> tuple[CodeType, Any]:
    """Return a frame's instruction, as a source position. The bytecode offset does not serve, because Python may move
    instructions when it specializes a function."""
    positions = _positions(frame.f_code)
    where = positions[frame.f_lasti // 2] if positions else None
    return frame.f_code, frame.f_lasti if where is None or where[2] is None else where
