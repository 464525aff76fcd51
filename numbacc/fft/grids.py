"""The frequencies of a transform's elements, and shifts that move frequency 0 to the middle."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from ..arrays import operands
from ..arrays.operands import Array
from ..base import checks
from ..base.docstrings import like
from ..base.dtypes import info
from ..base.layout import (
    CPU,
    Layout,
    check_rank,
    check_writable,
    dense_like,
    integers_of,
    normalize_axis,
    overlap,
    read_only,
)
from ..errors import DeviceError, LayoutError, OptionError, ShapeError
from ..kernels.elementwise.copy import copy
from ..plan.base import check_out
from ..runtime.streams import handle_of, target_of


def fftfreq(n: int, d: float = 1.0, device: Any = None, *, stream: Any = None) -> Array:
    """Return the frequencies of the elements of an `fft`: [0, 1, ..., (n-1)//2, -(n//2), ..., -1] / (d n).

    Args:
        n: number of points.
        d: distance between samples; the frequencies are in cycles per unit of d.
        device: a GPU's number or "cuda:0", or "cpu"; by default the current GPU, or NumPy without one.
        stream: the stream that the copy to the GPU is queued on.

    Returns:
        float64 array of n elements.

    Raises:
        ShapeError: n is not an integer, is below 1, or gives more bytes than can be addressed.
        OptionError: d is 0 or not a number, or stream is not a stream.
        DeviceError: the GPU does not exist, or memory is too small.

    Example:
        >>> fft.fftfreq(4, d=0.5, device="cpu")
        array([ 0. ,  0.5, -1. , -0.5])
    """
    return _frequencies(np.fft.fftfreq, n, d, device, stream)


def rfftfreq(n: int, d: float = 1.0, device: Any = None, *, stream: Any = None) -> Array:
    """Return the frequencies of the elements of an `rfft`: [0, 1, ..., n//2] / (d n).

    Args:
        n: number of points of the signal.
        d: distance between samples; the frequencies are in cycles per unit of d.
        device: a GPU's number or "cuda:0", or "cpu"; by default the current GPU, or NumPy without one.
        stream: the stream that the copy to the GPU is queued on.

    Returns:
        float64 array of n//2 + 1 elements.

    Raises:
        ShapeError: n is not an integer, is below 1, or gives more bytes than can be addressed.
        OptionError: d is 0 or not a number, or stream is not a stream.
        DeviceError: the GPU does not exist, or memory is too small.

    Example:
        >>> fft.rfftfreq(4, d=0.5, device="cpu")
        array([0. , 0.5, 1. ])
    """
    return _frequencies(np.fft.rfftfreq, n, d, device, stream)


def fftshift(x: Any, axes: Any = None, out: Any = None, *, stream: Any = None) -> Array:
    """Move frequency 0 to the middle: element k of an axis of length n goes to index (k + n//2) modulo n.

    Args:
        x: array of any dtype that numbacc supports, rank 1 to 8.
        axes: an axis or several; None for all.
        out: array for the result, of x's shape, dtype and device, that shares no memory with x.
        stream: the stream that the copies are queued on; the default stream if None.

    Returns:
        array of x's shape and dtype; `out` if given.

    Raises:
        ShapeError: the rank or axes are invalid, or out has another shape.
        DTypeError: x has an unsupported dtype, or out has another one.
        LayoutError: out overlaps x or cannot be written.
        DeviceError: arrays on different devices.

    Example:
        >>> fft.fftshift(np.array([0, 1, 2, -2, -1]))
        array([-2, -1,  0,  1,  2])
    """
    return _shift(x, axes, out, stream, inverse=False)


@like(fftshift)
def ifftshift(x: Any, axes: Any = None, out: Any = None, *, stream: Any = None) -> Array:
    """Undo `fftshift`: move frequency 0 from the middle of each axis back to index 0.

    Returns:
        array of x's shape and dtype; `out` if given.

    Example:
        >>> fft.ifftshift(np.array([-2, -1, 0, 1, 2]))
        array([ 0,  1,  2, -2, -1])
    """
    return _shift(x, axes, out, stream, inverse=True)


def _frequencies(function: Any, n: Any, d: Any, device: Any, stream: Any) -> Any:
    """Return NumPy's frequencies on a device, after checking all arguments."""
    points = checks.integer(n, "n", 1, _MOST_POINTS, error=ShapeError)
    distance = checks.real(d, "d")
    if not distance:
        raise OptionError("d=0: the distance between samples must not be 0")
    target, handle = target_of(device), handle_of(stream)
    try:
        host = function(points, distance)
    except MemoryError as error:
        raise DeviceError(f"n={n}: out of host memory: {error}") from None
    return host if target == CPU else operands.to_device(host, target, handle)


#: The number of float64 values in 2^63 - 1 bytes.
_MOST_POINTS = 2**60 - 1


def _shift(x: Any, axes: Any, out: Any, stream: Any, *, inverse: bool) -> Any:
    handle = handle_of(stream)
    array = operands.as_array(x, "x", handle)
    made = operands.layout_of(array)
    info(made.dtype, "x")
    check_rank(made.shape, "x")
    shifts = _shifts(made, axes, inverse)
    wanted = dense_like(made, made.shape)
    if out is None:
        out = result = operands.empty_host(wanted) if made.device < 0 else operands.empty_device(wanted, handle)
    else:
        result = operands.as_array(out, "out", handle)
        _check_out(array, made, result, wanted)
    # Along each axis, the part before the cut and the part after it change places.
    cuts = [((0, n - k, k), (n - k, n, k - n)) if k else ((0, n, 0),) for n, k in zip(made.shape, shifts, strict=True)]
    for pieces in product(*cuts):
        source = array[tuple(slice(start, stop) for start, stop, _ in pieces)]
        target = result[tuple(slice(start + by, stop + by) for start, stop, by in pieces)]
        if made.device < 0:
            target[...] = source
        else:
            copy(source, target, handle)
    return out


def _shifts(made: Layout, axes: Any, inverse: bool) -> list[int]:
    """Return how far each axis is shifted. Several shifts of one axis add up."""
    found = tuple(range(made.ndim)) if axes is None else integers_of(axes, "axes")
    shifts = [0] * made.ndim
    for axis in found:
        d = normalize_axis(axis, made.ndim, "x", "axes")
        half, n = made.shape[d] // 2, max(made.shape[d], 1)
        shifts[d] = (shifts[d] + (-half if inverse else half)) % n
    return shifts


def _check_out(array: Any, made: Layout, result: Any, wanted: Layout) -> None:
    found = operands.layout_of(result)
    check_out((found,), (wanted,), ("out",))
    check_writable(found, "out")
    host = isinstance(array, np.ndarray)
    if not result.flags.writeable if host else result._readonly:
        raise read_only("out")
    starts = [a.ctypes.data if host else a._address for a in (array, result)]
    if overlap(starts[0], made, starts[1], found):
        raise LayoutError("out overlaps x: pass memory that does not overlap it")
