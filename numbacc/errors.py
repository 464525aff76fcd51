"""The exceptions of numbacc, each derived from the built-in exception that a NumPy user expects, and its warning."""

import functools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from numpy import exceptions

from numbacc_bindings.errors import Error, LibraryError

__all__ = [
    "ArgumentsError",
    "AxisError",
    "CacheWarning",
    "CompiledWarning",
    "DTypeError",
    "DeviceError",
    "Error",
    "IndexRangeError",
    "KernelError",
    "LayoutError",
    "LibraryError",
    "OptionError",
    "PerformanceWarning",
    "RankError",
    "ShapeError",
    "UnsupportedError",
    "nearest",
    "shown",
    "unknown",
]


class ShapeError(Error, ValueError):
    """An argument has the wrong rank, shape or axis.

    Example:
        >>> gated.forward(np.ones(3))
        Traceback (most recent call last):
        numbacc.errors.ShapeError: x has shape (3,): its length along axis 0 is 3, which is odd, ...
    """


class IndexRangeError(ShapeError, IndexError):
    """An index is out of range, or there are more indices than axes."""


class AxisError(ShapeError, exceptions.AxisError):
    """An axis is out of range. This is also NumPy's error, and so an IndexError."""


class LayoutError(Error, ValueError):
    """An argument's memory cannot be used as requested: it is read-only, overlaps, or has unsupported strides.

    Example:
        >>> gated.forward(np.ones(4), out=np.broadcast_to(1.0, (2,)))
        Traceback (most recent call last):
        numbacc.errors.LayoutError: out has elements that share memory (shape (2,), strides (0,)), ...
    """


class OptionError(Error, ValueError):
    """An option has an unsupported value.

    Example:
        >>> gated.forward(np.ones(4), "gelu")
        Traceback (most recent call last):
        numbacc.errors.OptionError: kind='gelu' is unknown; the kinds are glu, ...; did you mean "geglu"?
    """


class ArgumentsError(OptionError, TypeError):
    """A function was called with missing, unknown or too many arguments."""


class DTypeError(Error, TypeError):
    """An argument has an unsupported type or dtype.

    Example:
        >>> gated.forward(np.ones(4, int))
        Traceback (most recent call last):
        numbacc.errors.DTypeError: x has dtype int64; gated activations support float32, float64, float16 and bfloat16
    """


class DeviceError(Error, RuntimeError):
    """No usable GPU, arrays on different devices, or a GPU out of memory.

    Example:
        >>> numbacc.empty(3, device=99)
        Traceback (most recent call last):
        numbacc.errors.DeviceError: ...
    """


class RankError(DeviceError):
    """Another process of a program that runs on several GPUs has ended; see `numbacc.distributed`.

    The message has that process's traceback.

    Example:
        >>> issubclass(numbacc.RankError, numbacc.DeviceError)
        True
    """

    #: Returns the message of an error that is raised without one, from another thread.
    news: ClassVar[Callable[[], str]] = staticmethod(lambda: "another rank has ended")

    def __init__(self, message: str = ""):
        super().__init__(message or RankError.news())


class UnsupportedError(Error, NotImplementedError):
    """The library or the GPU lacks a feature that the call needs, and numbacc does not replace it.

    Example:
        >>> numbacc.random.Generator("sobol32", device="cpu").bits(3, dtype="uint64")
        Traceback (most recent call last):
        numbacc.errors.UnsupportedError: sobol32 has outputs of 32 bits, not of 64: use sobol64
    """


class KernelError(Error, RuntimeError):
    """A mistake in a kernel, found while the compiled simulator ran it.

    Attributes:
        file: the path of the kernel's file.
        line: the line of the mistake.
        thread: the indices (x, y, z) of the thread, or None if the mistake concerns several threads.
        block: the indices (x, y, z) of its block.

    Example:
        >>> error = numbacc.KernelError("line 3: index 9 is out of bounds", line=3, thread=(1, 0, 0))
        >>> error.line, error.thread
        (3, (1, 0, 0))
    """

    def __init__(
        self,
        message: str,
        *,
        file: str = "",
        line: int = 0,
        thread: tuple[int, int, int] | None = None,
        block: tuple[int, int, int] | None = None,
    ):
        super().__init__(message)
        self.file, self.line, self.thread, self.block = file, line, thread, block

    def __reduce__(self) -> Any:
        return functools.partial(KernelError, **vars(self)), self.args


class CacheWarning(RuntimeWarning):
    """Compiled code cannot be stored on disk, so every process compiles it again.

    Example:
        >>> issubclass(numbacc.CacheWarning, RuntimeWarning)  # so that warnings.simplefilter can silence it
        True
    """


class PerformanceWarning(RuntimeWarning):
    """A kernel's machine code is slower than its source allows; the message says why.

    Example:
        >>> issubclass(numbacc.PerformanceWarning, RuntimeWarning)  # so that warnings.simplefilter can silence it
        True
    """


class CompiledWarning(RuntimeWarning):
    """The arguments of a compiled function change so much that its calls run without a graph.

    Example:
        >>> issubclass(numbacc.CompiledWarning, RuntimeWarning)  # so that warnings.simplefilter can silence it
        True
    """


#: The most characters of a wrong value in a message, and the most elements of an array.
_SHOWN, _ROW = 200, 8


def shown(value: Any) -> str:
    """Return a wrong value for a message: its repr, shortened if it is long, or its type's name if repr fails.

    For arrays this is the dtype and the shape, except for short NumPy arrays of rank 1. Showing the elements of a GPU
    array would wait for the GPU.
    """
    try:
        short = _array(value)
        text = short or repr(value)
    except Exception:  # an integer of thousands of digits, or an error in another library
        return f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _array(value: Any) -> str:
    """Describe an array without its elements; "" for other values and for short NumPy arrays."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if not isinstance(shape, tuple) or dtype is None:
        return ""
    if type(value).__module__ == "numpy" and (not shape or (len(shape) == 1 and shape[0] <= _ROW)):
        return ""
    return f"<{type(value).__name__} of {dtype}, shape {tuple(shape)}>"


#: Other libraries' names of an option's value, as `_plain` returns them -> numbacc's possible names.
_OTHER_NAMES = {
    "swish": "silu swiglu", "sigmoid": "glu", "relu": "reglu", "silu": "swiglu", "gelu": "geglu",
    "gelutanh": "gelu_tanh geglu_tanh gelu", "gelunew": "gelu_tanh", "geluapproximate": "gelu_tanh",
    "relu2": "squared_relu", "bf16": "bfloat16", "fp16": "float16", "f16": "float16", "half": "float16",
    "fp32": "float32", "f32": "float32", "single": "float32", "fp64": "float64", "f64": "float64", "double": "float64",
    "fp8": "float8_e4m3fn", "e4m3": "float8_e4m3fn", "e4m3fn": "float8_e4m3fn", "fp8e4m3": "float8_e4m3fn",
    "float8e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "fp8e5m2": "float8_e5m2", "i8": "int8", "i32": "int32",
    "i64": "int64", "long": "int64", "u8": "uint8", "channelslast": "NHWC", "channelsfirst": "NCHW",
    "channelslast3d": "NDHWC", "bnsh": "BHSD", "bsnh": "BSHD", "tnh": "THD", "nlc": "NWC", "ncl": "NCW",
    "batchmean": "mean", "avg": "mean", "average": "mean", "add": "sum", "mul": "prod", "product": "prod",
    "tril": "causal", "fwd": "forward", "bwd": "backward",
}  # fmt: skip


def nearest(value: Any, known: Iterable[Any]) -> str:
    """Return "; did you mean ...?" for an option's wrong value; "" if no known value is near.

    Values are near if case, separators or a few letters differ, or if another library has that name.
    """
    by_plain = {_plain(each): each for each in known if isinstance(each, str)}
    plain = _plain(value) if isinstance(value, str) else ""
    found = by_plain.get(plain)
    if found is None and plain:
        found = next((each for each in _OTHER_NAMES.get(plain, "").split() if each in by_plain.values()), None)
    if found is None and plain:
        from difflib import get_close_matches  # needed only for wrong calls

        begins = [each for each in by_plain if len(each) > 2 and (each.startswith(plain) or plain.startswith(each))]
        close = get_close_matches(plain, by_plain, 1, 0.7) or sorted(begins, key=len)[-1:] * (len(plain) > 2)
        found = by_plain.get(close[0]) if close else None
    return "" if found is None else f'; did you mean "{found}"?'


def unknown(name: str, value: Any, known: Iterable[Any], words: str) -> OptionError:
    """Return the error for an option with an unknown value; `words` lists the known values."""
    return OptionError(f"{name}={shown(value)} is unknown; {words}{nearest(value, known)}")


def _plain(text: str) -> str:
    """Return a value's letters and digits, in lower case."""
    return "".join(each for each in text[:_SHOWN].casefold().rpartition("torch.")[2] if each.isalnum())
