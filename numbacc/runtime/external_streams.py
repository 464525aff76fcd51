"""The streams that other libraries work on, as far as they tell: those that share memory with ours are its partners."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from .streams import owner_of


def stream_of(obj: Any, device: int) -> int | None:
    """The stream that the library of a foreign GPU array works on now; None where it does not say.

    Args:
        obj: the array.
        device: the GPU that it is on.
    """
    kind: Any = type(obj)
    current: Callable[[int], int] | None = _current(kind)
    return None if current is None else current(device)


@lru_cache(maxsize=256)
def _current(kind: Any) -> Callable[[int], int] | None:
    """Return a function that tells the stream that the library of a class of arrays works on."""
    # A subclass of torch's tensors is from anywhere.
    libraries = {base.__module__.partition(".")[0] for base in kind.__mro__}
    return torch_stream if "torch" in libraries else _cupy if "cupy" in libraries else None


def current(device: int) -> set[int]:
    """The streams of a GPU that libraries loaded in this process work on now."""
    found = set()
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
        found.add(torch_stream(device))
    if "cupy" in sys.modules:
        found.add(_cupy(device))
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


def torch_stream(device: int) -> int:
    """The stream of a GPU that torch works on now, in this thread."""
    return torch_streams()(device)


@lru_cache(maxsize=1)
def torch_streams() -> Callable[[int], int]:
    """Return a function that tells the stream of a GPU that torch works on now, in this thread."""
    torch = sys.modules["torch"]
    # What torch's own generated code asks; the public way makes an object of it.
    found: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return found or (lambda device: int(torch.cuda.current_stream(device).cuda_stream))


def _cupy(device: int) -> int:
    handle = int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    return 0 if handle == 1 else handle
