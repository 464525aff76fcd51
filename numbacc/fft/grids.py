"""The frequencies of the elements of transforms, and the order that has frequency 0 in the middle."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from ..arrays import operands
from ..arrays.operands import Array
from ..base import checks
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
    """The frequencies of the elements of an `fft`: [0, 1, ..., (n-1)//2, -(n//2), ..., -1] / (d n).

    Args:
        n: points.
        d: distance of two samples; the frequencies are in cycles per unit of d.
        device: a GPU's number or "cuda:0", or "cpu"; by default the current GPU, or NumPy without one.
        stream: the stream that the copy to the GPU is queued on.

    Returns:
        float64 array of n elements.

    Raises:
        ShapeError: n is not an integer, below 1, or of more bytes than can be addressed. OptionError: d is 0 or not a
        number, or stream is not a stream. DeviceError: no such GPU, or not enough memory.

    Example:
        >>> fft.fftfreq(4, d=0.5, device="cpu")
        array([ 0. ,  0.5, -1. , -0.5])
    """
    return _frequencies(np.fft.fftfreq, n, d, device, stream)


def rfftfreq(n: int, d: float = 1.0, device: Any = None, *, stream: Any = None) -> Array:
    """The frequencies of the elements of an `rfft`: [0, 1, ..., n//2] / (d n). Arguments as in `fftfreq`.

    Example:
        >>> fft.rfftfreq(4, d=0.5, device="cpu")
        array([0. , 0.5, 1. ])
    """
    return _frequencies(np.fft.rfftfreq, n, d, device, stream)


def fftshift(x: Any, axes: Any = None, out: Any = None, *, stream: Any = None) -> Array:
    """x with frequency 0 in the middle: element k of an axis of length n goes to (k + n//2) modulo n.

    Args:
        x: array of any dtype that numbacc supports, rank 1 to 8.
        axes: an axis or several; None for all.
        out: array for the result, of x's shape, dtype and device, that shares no memory with x.
        stream: where the copies are queued; the default stream if None.

    Returns:
        array of x's shape and dtype; `out` if given.

    Raises:
        ShapeError: rank, axes, shape of out. DTypeError: dtype of out, or an unsupported one of x. LayoutError:
        out overlaps x or cannot be written. DeviceError: arrays on different devices.

    Example:
        >>> fft.fftshift(np.array([0, 1, 2, -2, -1]))
        array([-2, -1,  0,  1,  2])
    """
    return _shift(x, axes, out, stream, inverse=False)


def ifftshift(x: Any, axes: Any = None, out: Any = None, *, stream: Any = None) -> Array:
    """The inverse of `fftshift`. Arguments as there.

    Example:
        >>> fft.ifftshift(np.array([-2, -1, 0, 1, 2]))
        array([ 0,  1,  2, -2, -1])
    """
    return _shift(x, axes, out, stream, inverse=True)


def _frequencies(function: Any, n: Any, d: Any, device: Any, stream: Any) -> Any:
    """NumPy's frequencies on a device, all arguments checked before the first is computed."""
    points = checks.integer(n, "n", 1, _MOST_POINTS, error=ShapeError)
    distance = checks.real(d, "d")
    if not distance:
        raise OptionError("d=0 is not a distance of samples")
    target, handle = target_of(device), handle_of(stream)
    try:
        host = function(points, distance)
    except MemoryError as error:
        raise DeviceError(f"n={n}: out of host memory: {error}") from None
    return host if target == CPU else operands.to_device(host, target, handle)


#: Float64 numbers of 2^63 - 1 bytes.
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
    # Along each axis what is in front of the cut goes behind it, and the other way round.
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
    """How far each axis is shifted: several shifts of one axis add up."""
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
        raise LayoutError("out overlaps x: pass memory that shares nothing with it")
