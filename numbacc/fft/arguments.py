"""Check the arguments of `numbacc.fft`, fill in defaults, and find the results' shapes and dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from ..base.dtypes import info
from ..base.layout import Layout, check_rank, dense_like, integers_of, is_sequence, layout, normalize_axis
from ..errors import DTypeError, ShapeError, shown, unknown
from ..plan.base import check_out
from ..reference import fft as reference
from .program import TransformRequest, with_result

NORMS = ("backward", "ortho", "forward")


class CufftMeaning(NamedTuple):
    """A function expressed by cuFFT's transforms.

    Attributes:
        kind: "c2c", "r2c" or "c2r".
        inverse: the sign of cuFFT's exponent: True for +.
        scaled: True if norm="backward" divides by the number of points.
        conjugate: "", or "before" or "after": when values are conjugated, relative to cuFFT's transform.
    """

    kind: str
    inverse: bool
    scaled: bool
    conjugate: str = ""


#: One-dimensional functions. The transform of a conjugated spectrum is the conjugate of the transform with the opposite
#: sign. So `hfft` and `ihfft` are cuFFT's transforms from and to half spectra, with a conjugation.
MEANINGS = {
    "fft": CufftMeaning("c2c", False, False),
    "ifft": CufftMeaning("c2c", True, True),
    "rfft": CufftMeaning("r2c", False, False),
    "irfft": CufftMeaning("c2r", True, True),
    "hfft": CufftMeaning("c2r", True, False, "before"),
    "ihfft": CufftMeaning("r2c", False, True, "after"),
}


def base(function: str) -> str:
    """Return the one-dimensional function of a family: "fft" for "fft2" and "fftn"."""
    return function.rstrip("2n")


def integers(numbers: Any, name: str) -> tuple[int, ...] | None:
    """Convert a sequence of integers to a tuple; None stays None."""
    if numbers is None:
        return None
    if not is_sequence(numbers):
        raise ShapeError(f"{name}={shown(numbers)} is not a sequence of integers")
    return integers_of(numbers, name)


def names_of(function: str) -> tuple[str, str]:
    """Return a function's names for the number of points, and for the axes."""
    return ("n", "axis") if function == base(function) else ("s", "axes")


def axes_and_lengths(
    function: str,
    array: Layout,
    n: int | tuple[int, ...] | None,
    axes: int | tuple[int, ...] | None,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the transformed axes, counted from 0, and the number of points along each.

    Args:
        n: the number of points for one-dimensional functions, the numbers along each axis for the others, or None.
        axes: the axis, or the axes. None means all axes, or if n is given, the last ones.
    """
    name, axes_name = names_of(function)
    check_rank(array.shape, "a")
    given: tuple[int, ...] | None
    found: tuple[int, ...]
    from_half = MEANINGS[base(function)].kind == "c2r"
    if isinstance(axes, int):
        given = (n,) if isinstance(n, int) else None
        found = (normalize_axis(axes, array.ndim, "a", axes_name),)
    else:
        given = n if isinstance(n, tuple) else None
        if axes is None:
            axes = tuple(range(-len(given), 0)) if given is not None else tuple(range(array.ndim))
        found = tuple(normalize_axis(axis, array.ndim, "a", axes_name) for axis in axes)
        if not found:
            raise ShapeError("axes is empty; name at least one axis")
        if given is not None and len(given) != len(found):
            raise ShapeError(f"{name}={given} has {len(given)} lengths for {len(found)} axes, axes={axes}")
    lengths = [array.shape[axis] for axis in found]
    if given is not None:
        # -1 stands for the array's own length, but not in one-dimensional functions, as in NumPy.
        several = function != base(function)
        lengths = [there if asked == -1 and several else asked for asked, there in zip(given, lengths, strict=True)]
    elif from_half:
        lengths[-1] = 2 * (lengths[-1] - 1)
    for axis, length in zip(found, lengths, strict=True):
        if length < 1:
            raise ShapeError(
                f"{function} along axis {axis} has {length} points; it needs at least 1: a has shape {array.shape}, "
                f"{name}={n}"
            )
    return found, tuple(lengths)


def _scale(meaning: CufftMeaning, norm: str | None, count: int) -> str:
    """Return the factor that a transform is multiplied by, as a key of `kernels.fft.layout.SCALES`."""
    if count == 1:
        return ""
    if norm == "ortho":
        return "reciprocal root"
    return "reciprocal" if (norm == "forward") != meaning.scaled else ""


def request(
    function: str,
    array: Layout,
    axes: Sequence[int],
    lengths: Sequence[int],
    norm: Any,
    overwrite: bool,
    out: Layout | None,
) -> TransformRequest:
    """Check the arguments of a transform along axes, each named once, and return its request."""
    if norm is not None and (not isinstance(norm, str) or norm not in NORMS):
        raise unknown("norm", norm, NORMS, f"it is None, {', '.join(map(repr, NORMS))}")
    meaning, row = MEANINGS[base(function)], info(array.dtype, "a")
    if row.compute is None and row.numpy.kind not in "bc":
        raise DTypeError(
            f"a has dtype {row.name}; Fourier transforms support 16- to 64-bit floats, complex, int and bool"
        )
    if meaning.kind == "r2c" and array.dtype.kind == "c":
        raise DTypeError(f"a has dtype {row.name}; {function} needs a real array: pass a.real, or use fft")
    math = reference.math_dtype(array.dtype)
    shape = list(array.shape)
    for axis, length in zip(axes, lengths, strict=True):
        shape[axis] = length
    if meaning.kind == "r2c":
        shape[axes[-1]] = lengths[-1] // 2 + 1
    dtype = reference.real_dtype(array.dtype, len(axes)) if meaning.kind == "c2r" else math
    like = layout(array.shape, array.strides, dtype, array.device)
    result = dense_like(like, tuple(shape))
    if result.nbytes >= 2**63:
        name, _ = names_of(function)
        raise ShapeError(
            f"{function}'s result of shape {shown(result.shape)} is too large: at most 2^63 - 1 bytes; a has shape "
            f"{array.shape}, and {name} asks for {shown(tuple(lengths))} points"
        )
    if out is not None:
        check_out((out,), (result,), ("out",))
        result = out
    asked = TransformRequest(
        function=function,
        kind=meaning.kind,
        inverse=meaning.inverse,
        axes=tuple(axes),
        lengths=tuple(lengths),
        scale=_scale(meaning, norm, prod(lengths)),
        conjugate=meaning.conjugate,
        math=math.name,
        array=array,
        result=result,
        overwrite=overwrite,
        given=out is not None,
        norm=norm,
    )
    return asked if out is not None or array.device < 0 else with_result(asked)
