"""The streams that other libraries work on, as far as they tell: those that share memory with ours are its partners."""

from __future__ import annotations

import sys
from typing import Any

from .streams import owner_of


def stream_of(obj: Any, device: int) -> int | None:
    """The stream that the library of a foreign GPU array works on now; None where it does not say.

    Args:
        obj: the array.
        device: the GPU that it is on.
    """
    library = type(obj).__module__.partition(".")[0]
    if library == "torch":
        return _torch(device)
    if library == "cupy":
        return _cupy()
    return None


def current(device: int) -> set[int]:
    """The streams of a GPU that libraries loaded in this process work on now."""
    found = set()
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
        found.add(_torch(device))
    if "cupy" in sys.modules:
        found.add(_cupy())
    return found


def owner(stream: int) -> Any:
    """The foreign object that a stream ends with, to be kept as long as it is used; None where there is none.

    torch's streams never end.
    """
    found = owner_of(stream)
    if found is None and stream and "cupy" in sys.modules:
        theirs = sys.modules["cupy"].cuda.get_current_stream()
        if theirs.ptr == stream:
            return theirs
    return found


def _torch(device: int) -> int:
    torch = sys.modules["torch"]
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return int(torch.cuda.current_stream(device).cuda_stream if raw is None else raw(device))


def _cupy() -> int:
    handle = int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    return 0 if handle == 1 else handle
