"""The exceptions of numbacc, each also the built-in exception that a NumPy user would expect, and its warning."""

from typing import Any

from numpy import exceptions

from numbacc_bindings.errors import Error, LibraryError

__all__ = [
    "ArgumentsError",
    "AxisError",
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
    """An argument has the wrong rank, shape or axis.

    Example:
        >>> gated.forward(np.ones(3))
        Traceback (most recent call last):
        numbacc.errors.ShapeError: x has shape (3,): its length along axis 0 is 3, which is odd, ...
    """


class IndexRangeError(ShapeError, IndexError):
    """An index lies outside of an array, or there are more than it has axes."""


class AxisError(ShapeError, exceptions.AxisError):
    """An array has no such axis: NumPy's error, and so an IndexError, too."""


class LayoutError(Error, ValueError):
    """An argument's memory cannot be used as asked: read-only, overlapping, or wrongly strided.

    Example:
        >>> gated.forward(np.ones(4), out=np.broadcast_to(1.0, (2,)))
        Traceback (most recent call last):
        numbacc.errors.LayoutError: out has elements that share memory (shape (2,), strides (0,)), ...
    """


class OptionError(Error, ValueError):
    """An option has a value that the operation does not know.

    Example:
        >>> gated.forward(np.ones(4), "gelu")
        Traceback (most recent call last):
        numbacc.errors.OptionError: kind='gelu' is unknown; gelu is the gate of "geglu"; the kinds are glu, reglu, ...
    """


class ArgumentsError(OptionError, TypeError):
    """A function of one's own is called with more, fewer or other arguments than it has."""


class DTypeError(Error, TypeError):
    """An argument has a type or dtype that the operation does not take.

    Example:
        >>> gated.forward(np.ones(4, int))
        Traceback (most recent call last):
        numbacc.errors.DTypeError: x has dtype int64; gated activations take float32, float64, float16 and bfloat16
    """


class DeviceError(Error, RuntimeError):
    """No usable GPU, arrays on different devices, or a GPU out of memory.

    Example:
        >>> numbacc.empty(3, device=99)
        Traceback (most recent call last):
        numbacc.errors.DeviceError: ...
    """


class UnsupportedError(Error, NotImplementedError):
    """The library or the GPU lacks what the call needs, and nothing else computes it.

    Example:
        >>> numbacc.random.Generator("sobol32", device="cpu").bits(3, dtype="uint64")
        Traceback (most recent call last):
        numbacc.errors.UnsupportedError: sobol32 has outputs of 32 bits, not of 64: use sobol64
    """


class CacheWarning(RuntimeWarning):
    """Compiled code cannot be kept on disk, so every process compiles it again.

    Example:
        >>> issubclass(numbacc.CacheWarning, RuntimeWarning)  # so that warnings.simplefilter can silence it
        True
    """


#: Characters of a wrong value that a message shows, and elements of an array.
_SHOWN, _ROW = 200, 8


def shown(value: Any) -> str:
    """A wrong value in a message: its repr, cut off where it is long, the type's name where there is none; of an array
    that is no short row of NumPy's the dtype and the shape, since a GPU's elements would have to be waited for."""
    try:
        short = _array(value)
        text = short or repr(value)
    except Exception:  # an integer of thousands of digits, or another's mistake
        return f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _array(value: Any) -> str:
    """What an array is, without its elements; "" of what is none, and of a short one of NumPy's."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if not isinstance(shape, tuple) or dtype is None:
        return ""
    if type(value).__module__ == "numpy" and (not shape or (len(shape) == 1 and shape[0] <= _ROW)):
        return ""
    return f"<{type(value).__name__} of {dtype}, shape {tuple(shape)}>"
