"""Arguments of the functions of `numbacc.fft`: options checked, defaults filled in, results' shapes and dtypes."""

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
    """A function in terms of cuFFT's transforms.

    Attributes:
        kind: "c2c", "r2c" or "c2r".
        inverse: the sign of cuFFT's exponent: True for +.
        scaled: True where norm="backward" is the one that divides by the number of points.
        conjugate: "", or whether values are conjugated "before" or "after" cuFFT's transform.
    """

    kind: str
    inverse: bool
    scaled: bool
    conjugate: str = ""


#: One-dimensional functions. The sum over a spectrum's conjugate is the conjugate of the sum with the other sign, so
#: `hfft` and `ihfft` are cuFFT's transforms from and to half spectra with a conjugation.
MEANINGS = {
    "fft": CufftMeaning("c2c", False, False),
    "ifft": CufftMeaning("c2c", True, True),
    "rfft": CufftMeaning("r2c", False, False),
    "irfft": CufftMeaning("c2r", True, True),
    "hfft": CufftMeaning("c2r", True, False, "before"),
    "ihfft": CufftMeaning("r2c", False, True, "after"),
}


def base(function: str) -> str:
    """The one-dimensional function of a family: "fft" of "fft2" and "fftn"."""
    return function.rstrip("2n")


def integers(numbers: Any, name: str) -> tuple[int, ...] | None:
    """A sequence of integers as a tuple; None stays None."""
    if numbers is None:
        return None
    if not is_sequence(numbers):
        raise ShapeError(f"{name}={shown(numbers)} is not a sequence of integers")
    return integers_of(numbers, name)


def names_of(function: str) -> tuple[str, str]:
    """A function's names of the number of points, and of the axes."""
    return ("n", "axis") if function == base(function) else ("s", "axes")


def axes_and_lengths(
    function: str,
    array: Layout,
    n: int | tuple[int, ...] | None,
    axes: int | tuple[int, ...] | None,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The transformed axes, counted from 0, and the number of points along each.

    Args:
        n: of one-dimensional functions the points or None, of the others those along each axis or None.
        axes: likewise; None is all axes, or where n is given the last ones.
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
        # -1 stands for the length that is there, except for one-dimensional functions, as in NumPy.
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
    """The factor that a transform is multiplied with, as a key of `kernels.fft.layout.SCALES`."""
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
    """A transform along axes, each named once, its arguments checked."""
    if norm is not None and (not isinstance(norm, str) or norm not in NORMS):
        raise unknown("norm", norm, NORMS, f"it is None, {', '.join(map(repr, NORMS))}")
    meaning, row = MEANINGS[base(function)], info(array.dtype, "a")
    if row.compute is None and row.numpy.kind not in "bc":
        raise DTypeError(f"a has dtype {row.name}; Fourier transforms take floats from 16 bits, complex, int and bool")
    if meaning.kind == "r2c" and array.dtype.kind == "c":
        raise DTypeError(f"a has dtype {row.name}; {function} takes real arrays: pass its real part, or use fft")
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
