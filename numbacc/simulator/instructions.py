"""Where in a kernel a thread is."""

from __future__ import annotations

from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

__all__ = ["instruction_at"]


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
