"""The exceptions of numbacc, each also the built-in exception that a NumPy user would expect, and its warning."""

from typing import Any

from numbacc_bindings.errors import Error, LibraryError

__all__ = [
    "CacheWarning",
    "DTypeError",
    "DeviceError",
    "Error",
    "IndexRangeError",
    "LayoutError",
    "LibraryError",
    "OptionError",
    "ShapeError",
    "UnsupportedError",
    "shown",
]


class ShapeError(Error, ValueError):
    """An argument has the wrong rank, shape or axis."""


class IndexRangeError(ShapeError, IndexError):
    """An index lies outside of an array, or there are more than it has axes."""


class LayoutError(Error, ValueError):
    """An argument's memory cannot be used as asked: read-only, overlapping, or wrongly strided."""


class OptionError(Error, ValueError):
    """An option has a value that the operation does not know."""


class DTypeError(Error, TypeError):
    """An argument has a type or dtype that the operation does not take."""


class DeviceError(Error, RuntimeError):
    """No usable GPU, arrays on different devices, or a GPU out of memory."""


class UnsupportedError(Error, NotImplementedError):
    """The library or the GPU lacks what the call needs, and nothing else computes it."""


class CacheWarning(RuntimeWarning):
    """Compiled code cannot be kept on disk, so every process compiles it anew."""


#: Characters of a wrong value that a message shows.
_SHOWN = 200


def shown(value: Any) -> str:
    """The repr of a wrong value, in a message: cut off where it is long, the type's name where there is none."""
    try:
        text = repr(value)
    except Exception:  # an integer of thousands of digits, or another's mistake
        return f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
