"""Where in its source a simulated thread is, and errors that name the thread and end in the user's line."""

from __future__ import annotations

from functools import lru_cache
from types import CodeType, FrameType, TracebackType
from typing import Any

__all__ = ["failed", "instruction_at"]


#: Words of the simulator's errors -> advice.
_REMEDIES = {
    "is not usable in pure-python": (
        "an intrinsic is code for a GPU, and the simulator runs Python. Give it a form in Python for the simulator, "
        "`if numba.config.ENABLE_CUDASIM:`, or simulate a scalar form of the kernel, with x[i] in its place"
    ),
    "module 'numba.cuda' has no attribute": (
        "the simulator exchanges `cuda` among the globals of a kernel's file while the kernel runs. Import it at the "
        "top of the file, `from numba import cuda`, not inside of a function"
    ),
}

#: Modules without lines of the user's.
_WITHIN = ("numba.cuda.simulator", f"{__name__.rpartition('.')[0]}.", f"{__name__.partition('.')[0]}.tracing.")


def failed(error: BaseException, thread: Any) -> BaseException:
    """Return the error of a thread, with the thread and its block in front and a traceback of the kernel alone."""
    traceback = _of_kernel(error.__traceback__)
    if not isinstance(error, Exception) or type(error).__module__ == "bdb":  # an interrupt, or the debugger's end
        return error.with_traceback(traceback)
    words = str(error)
    if isinstance(error, (AttributeError, NotImplementedError)):
        words += "".join(f": {remedy}" for known, remedy in _REMEDIES.items() if known in words)
    place = f"tid={list(thread.threadIdx)} ctaid={list(thread.block.blockIdx)}"
    try:
        made: Exception = type(error)(f"{place}: {words}" if words else place)
    except Exception:  # its class wants other arguments
        made = RuntimeError(f"{place}: {type(error).__name__}: {words}")
    made.__cause__, made.__suppress_context__ = error.__cause__, True
    return made.with_traceback(traceback)


def _of_kernel(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback of the kernel and the functions that it calls, without the simulator's own."""
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
    """Where in the source each unit of a function's code comes from; nothing where Python does not know."""
    return list(code.co_positions()) if hasattr(code, "co_positions") else []  # since Python 3.11


def instruction_at(frame: FrameType) -> tuple[CodeType, Any]:
    """The instruction that a frame is at, as a place in the source: where Python has made a function faster, it may
    stand elsewhere in the code of the same place."""
    positions = _positions(frame.f_code)
    where = positions[frame.f_lasti // 2] if positions else None
    return frame.f_code, frame.f_lasti if where is None or where[2] is None else where
