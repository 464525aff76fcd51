"""The transforms of `numbacc.fft`. Each finds a plan and runs it."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..arrays import operands
from ..arrays.operands import Array
from ..base import checks
from ..base.docstrings import like
from ..base.layout import Layout
from ..errors import ShapeError
from ..plan.cache import PlanCache, functions_of
from ..plan.calls import planned
from ..runtime.streams import handle_of
from .arguments import axes_and_lengths, base, integers, names_of, request
from .plans import FftPlan

#: The default axes of transforms in two dimensions.
LAST_TWO = (-2, -1)


def _is_usual_n(n: Any) -> bool:
    """Return whether a number of points has one of the types of nearly all calls."""
    return n is None or type(n) is int


def _are_usual_axes(axes: Any) -> bool:
    return axes is None or axes is LAST_TWO


def _plan(
    function: str, n: Any, axes: Any, norm: Any, overwrite: bool, target: Layout | None, array: Layout
) -> FftPlan | None:
    """Return the plan of a transform; None if an axis is named twice."""
    found, lengths = axes_and_lengths(function, array, n, axes)
    if len(set(found)) < len(found):
        return None
    return FftPlan(request(function, array, found, lengths, norm, overwrite, target))


#: Plans hold tables and kernels of some megabytes, but no work area. The size of the area shows how large a plan is.
_plans = PlanCache(_plan, count=256, nbytes=16 << 30)
#: Decorates a signature to make its function, and the function's `plan`.
_transform = planned(
    _plans,
    "FftPlan",
    "a",
    guards={"n": _is_usual_n, "s": _is_usual_n, "axis": lambda axis: False, "axes": _are_usual_axes},
    note="A ShapeError is also raised if an axis is named twice, since each pass along it needs a separate plan.",
    example="""
>>> a = np.ones((2, 4))
>>> plan = fft.NAME.plan(a)
>>> bool((plan(a) == fft.NAME(a)).all())
True
""",
)


@_transform
def fft(
    a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None, *,
    overwrite_input: bool = False, stream: Any = None,
) -> Array:  # fmt: skip
    """Compute the discrete Fourier transform along one axis: X[k] = Σ_j x[j] exp(-2πi jk/n), scaled by `norm`.

    Args:
        a: array of rank 1 to 8 with any strides. float16, bfloat16, float32 and complex64 are computed in single
            precision; float64, complex128, integer types and bool in double precision.
        n: number of points: a is truncated, or padded with zeros at its end, to that length. None means a's length.
        axis: the transformed axis.
        norm: "backward" (the default, as None): the inverse divides by n. "forward": the forward transform divides by
            n. "ortho": both divide by √n.
        out: array for the result, with its shape and dtype, on a's device, with any strides. It may be a itself if
            shape and dtype are equal; other overlap raises LayoutError.
        overwrite_input: whether a's contents may be destroyed, which saves a copy in transforms to real numbers.

    Returns:
        complex array of a's shape, but n along `axis`: a device array if a is one, a NumPy array if a is one; `out` if
        given. Without `out` it has the memory order of a. Results of 1 MiB or more may have the transformed axis
        innermost instead, if that is faster.

    Raises:
        ShapeError: the rank or axis is invalid, n is below 1, or out has another shape.
        DTypeError: a has an unsupported dtype or is not an array, or out has another dtype than the result.
        OptionError: norm or stream is unknown, or overwrite_input is neither True nor False.
        LayoutError: out is read-only, overlaps a, or has elements that share memory.
        LibraryError: cuFFT is missing or failed.

    Results are the same to the last bit on every run on one GPU model. The first call of a kind makes a cuFFT plan,
    also inside `numbacc.graph`; call `fft.plan` to make it earlier.

    Example:
        >>> fft.fft(np.ones(4)).real
        array([4., 0., 0., 0.])
    """
    return _planned("fft", a, n, axis, norm, out, overwrite_input, stream)


@_transform
@like(fft)
def ifft(
    a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None, *,
    overwrite_input: bool = False, stream: Any = None,
) -> Array:  # fmt: skip
    """Compute the inverse of `fft`: x[j] = 1/n Σ_k X[k] exp(+2πi jk/n), scaled by `norm`.

    Returns:
        complex array of a's shape, but n along `axis`: a device array if a is one, a NumPy array if a is one;
        `out` if given.

    Example:
        >>> fft.ifft(np.array([4.0, 0.0, 0.0, 0.0])).real
        array([1., 1., 1., 1.])
    """
    return _planned("ifft", a, n, axis, norm, out, overwrite_input, stream)


@_transform
@like(fft)
def rfft(
    a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None, *,
    overwrite_input: bool = False, stream: Any = None,
) -> Array:  # fmt: skip
    """Compute the Fourier transform of a real array: the first n//2 + 1 elements of its `fft`.

    The other elements of the `fft` are the conjugates of these.

    Args:
        a: real array of rank 1 to 8 with any strides. float16, bfloat16 and float32 are computed in single precision;
            float64, integer types and bool in double precision. A complex array raises DTypeError.

    Returns:
        complex array of a's shape, but n//2 + 1 along `axis`: a device array if a is one, a NumPy array if a is one;
        `out` if given.

    Example:
        >>> fft.rfft(np.ones(4)).real
        array([4., 0., 0.])
    """
    return _planned("rfft", a, n, axis, norm, out, overwrite_input, stream)


@_transform
@like(fft)
def irfft(
    a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None, *,
    overwrite_input: bool = False, stream: Any = None,
) -> Array:  # fmt: skip
    """Compute the inverse of `rfft`: n real numbers from n//2 + 1 complex ones.

    Imaginary parts that the spectrum of a real signal cannot have are ignored. The result is float32 for single
    precision, float16 for float16, else float64.

    Args:
        n: number of points of the result; 2 (a's length - 1) if None. The first n//2 + 1 elements of a are used;
            a shorter a is padded with zeros.

    Returns:
        real array of a's shape, but n along `axis`: a device array if a is one, a NumPy array if a is one;
        `out` if given.

    Example:
        >>> fft.irfft(np.array([4.0, 0.0, 0.0]))
        array([1., 1., 1., 1.])
    """
    return _planned("irfft", a, n, axis, norm, out, overwrite_input, stream)


@_transform
@like(fft)
def hfft(
    a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None, *,
    overwrite_input: bool = False, stream: Any = None,
) -> Array:  # fmt: skip
    """Compute the real `fft` of a signal that equals its own mirrored conjugate, given the signal's first half, a.

    The result is float32 for single precision, float16 for float16, else float64.

    Args:
        n: number of points of the spectrum; 2 (a's length - 1) if None. The first n//2 + 1 elements of a are used;
            a shorter a is padded with zeros.

    Returns:
        real array of a's shape, but n along `axis`: a device array if a is one, a NumPy array if a is one;
        `out` if given.

    Example:
        >>> fft.hfft(np.array([1.0, 1.0, 1.0]))
        array([4., 0., 0., 0.])
    """
    return _planned("hfft", a, n, axis, norm, out, overwrite_input, stream)


@_transform
@like(fft)
def ihfft(
    a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None, *,
    overwrite_input: bool = False, stream: Any = None,
) -> Array:  # fmt: skip
    """Compute the inverse of `hfft`: the first n//2 + 1 elements of the `ifft` of a real array.

    Args:
        a: real array of rank 1 to 8 with any strides. float16, bfloat16 and float32 are computed in single precision;
            float64, integer types and bool in double precision. A complex array raises DTypeError.

    Returns:
        complex array of a's shape, but n//2 + 1 along `axis`: a device array if a is one, a NumPy array if a is one;
        `out` if given.

    Example:
        >>> fft.ihfft(np.array([4.0, 0.0, 0.0, 0.0])).real
        array([1., 1., 1.])
    """
    return _planned("ihfft", a, n, axis, norm, out, overwrite_input, stream)


@_transform
@like(fft)
def fftn(
    a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None, *,
    overwrite_input: bool = False, stream: Any = None,
) -> Array:  # fmt: skip
    """Compute the discrete Fourier transform along several axes.

    Args:
        s: number of points along each of `axes`; -1 keeps a's length. None keeps all lengths.
        axes: the transformed axes; an axis that is named twice is transformed twice. None means all axes, or if s is
            given, as many of the last axes as s has lengths.
        norm: "backward" (the default, as None): the inverse divides by n, the product of all lengths. "forward": the
            forward transform divides by n. "ortho": both divide by √n.

    Returns:
        complex array of a's shape, but s along `axes`: a device array if a is one, a NumPy array if a is one;
        `out` if given.

    Example:
        >>> fft.fftn(np.ones((2, 3)), s=(2, 4)).shape
        (2, 4)
    """
    return _planned("fftn", a, s, axes, norm, out, overwrite_input, stream)


@_transform
@like(fftn)
def fft2(
    a: Any, s: Any = None, axes: Any = LAST_TWO, norm: Any = None, out: Any = None, *,
    overwrite_input: bool = False, stream: Any = None,
) -> Array:  # fmt: skip
    """Compute the discrete Fourier transform along two axes, by default the last two.

    Returns:
        complex array of a's shape, but s along `axes`: a device array if a is one, a NumPy array if a is one;
        `out` if given.

    Example:
        >>> fft.fft2(np.ones((2, 2))).real.tolist()
        [[4.0, 0.0], [0.0, 0.0]]
    """
    return _planned("fft2", a, s, axes, norm, out, overwrite_input, stream)


@_transform
@like(fftn)
def ifft2(
    a: Any, s: Any = None, axes: Any = LAST_TWO, norm: Any = None, out: Any = None, *,
    overwrite_input: bool = False, stream: Any = None,
) -> Array:  # fmt: skip
    """Compute the inverse of `fft2`, by default along the last two axes.

    Returns:
        complex array of a's shape, but s along `axes`: a device array if a is one, a NumPy array if a is one;
        `out` if given.

    Example:
        >>> fft.ifft2(np.ones((2, 2))).real.tolist()
        [[1.0, 0.0], [0.0, 0.0]]
    """
    return _planned("ifft2", a, s, axes, norm, out, overwrite_input, stream)


@_transform
@like(fftn)
def rfft2(
    a: Any, s: Any = None, axes: Any = LAST_TWO, norm: Any = None, out: Any = None, *,
    overwrite_input: bool = False, stream: Any = None,
) -> Array:  # fmt: skip
    """Compute the Fourier transform of a real array along two axes, by default the last two.

    Args:
        a: real array of rank 1 to 8 with any strides. float16, bfloat16 and float32 are computed in single precision;
            float64, integer types and bool in double precision. A complex array raises DTypeError.

    Returns:
        complex array of a's shape, but s along `axes`, and s[-1]//2 + 1 along the last of them: a device
        array if a is one, a NumPy array if a is one; `out` if given.

    Example:
        >>> fft.rfft2(np.ones((2, 4))).shape
        (2, 3)
    """
    return _planned("rfft2", a, s, axes, norm, out, overwrite_input, stream)


@_transform
@like(fftn)
def irfft2(
    a: Any, s: Any = None, axes: Any = LAST_TWO, norm: Any = None, out: Any = None, *,
    overwrite_input: bool = False, stream: Any = None,
) -> Array:  # fmt: skip
    """Compute the inverse of `rfft2`, by default along the last two axes.

    Args:
        s: number of points of the result along each of `axes`; -1 keeps a's length. None keeps all lengths, except that
            the last of `axes` gets 2 (a's length - 1) points.

    Returns:
        real array of a's shape, but s along `axes`: a device array if a is one, a NumPy array if a is one;
        `out` if given.

    Example:
        >>> fft.irfft2(np.ones((2, 3))).shape
        (2, 4)
    """
    return _planned("irfft2", a, s, axes, norm, out, overwrite_input, stream)


@_transform
@like(fftn)
def ifftn(
    a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None, *,
    overwrite_input: bool = False, stream: Any = None,
) -> Array:  # fmt: skip
    """Compute the inverse of `fftn`, the discrete Fourier transform along several axes.

    Returns:
        complex array of a's shape, but s along `axes`: a device array if a is one, a NumPy array if a is one;
        `out` if given.

    Example:
        >>> fft.ifftn(fft.fftn(np.eye(2))).real.tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    return _planned("ifftn", a, s, axes, norm, out, overwrite_input, stream)


@_transform
@like(fftn)
def rfftn(
    a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None, *,
    overwrite_input: bool = False, stream: Any = None,
) -> Array:  # fmt: skip
    """Compute the Fourier transform of a real array along several axes: `rfft` along the last, `fft` along the others.

    Args:
        a: real array of rank 1 to 8 with any strides. float16, bfloat16 and float32 are computed in single precision;
            float64, integer types and bool in double precision. A complex array raises DTypeError.

    Returns:
        complex array of a's shape, but s along `axes`, and s[-1]//2 + 1 along the last of them: a device
        array if a is one, a NumPy array if a is one; `out` if given.

    Example:
        >>> fft.rfftn(np.ones((2, 3, 4))).shape
        (2, 3, 3)
    """
    return _planned("rfftn", a, s, axes, norm, out, overwrite_input, stream)


@_transform
@like(fftn)
def irfftn(
    a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None, *,
    overwrite_input: bool = False, stream: Any = None,
) -> Array:  # fmt: skip
    """Compute the inverse of `rfftn`: a real array from the first half of its spectrum.

    The result is float32 for single precision, float16 for float16, else float64.

    Args:
        s: number of points of the result along each of `axes`; -1 keeps a's length. None keeps all lengths, except that
            the last of `axes` gets 2 (a's length - 1) points.

    Returns:
        real array of a's shape, but s along `axes`: a device array if a is one, a NumPy array if a is one;
        `out` if given.

    Example:
        >>> fft.irfftn(np.ones((2, 3, 3))).shape
        (2, 3, 4)
    """
    return _planned("irfftn", a, s, axes, norm, out, overwrite_input, stream)


cache_info, cache_clear, cache_limit = functions_of(_plans, __name__)


def _planned(function: str, a: Any, n: Any, axes: Any, norm: Any, out: Any, overwrite: Any, stream: Any) -> Any:
    """Return the plan and the arguments of a function's call."""
    handle = handle_of(stream)
    array, result = _arrays(a, out, handle)
    layout, target = operands.layout_of(array), None if result is None else operands.layout_of(result)
    plan = None
    # The fast path for NumPy arrays.
    if _is_usual_n(n) and (type(axes) is int or _are_usual_axes(axes)) and (overwrite is False or overwrite is True):
        try:
            plan = _plans.hit((function, n, axes, norm, overwrite, target, layout))
        except TypeError:  # an option that cannot be hashed; the checks below raise the error
            pass
    if plan is None:
        overwrite = checks.boolean(overwrite, "overwrite_input")
        n, axes = _numbers(function, n, axes)
        plan = _plans.find((function, n, axes, norm, overwrite, target, layout))
    if plan is None:
        plan = _AxisPasses(function, n, axes, norm, overwrite)
    return plan, (array,), None if result is None else (result,), handle, ()


class _AxisPasses(NamedTuple):
    """A stand-in for the plan of a transform that names an axis twice: it runs several plans one after the other."""

    function: str
    n: Any
    axes: Any
    norm: Any
    overwrite: bool

    def run(self, inputs: Any, outs: Any, out: Any, handle: int, scalars: Any) -> Any:
        """Run all passes."""
        return _one_by_one(self.function, inputs[0], self.n, self.axes, self.norm, out, self.overwrite, handle)

    def prepare(self, inputs: Any, outs: Any) -> None:
        """Raise ShapeError."""
        raise ShapeError(f"axes={self.axes} names an axis twice: each pass along it needs a separate plan")


def _arrays(a: Any, out: Any, handle: int) -> tuple[Any, Any]:
    return operands.as_array(a, "a", handle), None if out is None else operands.as_array(out, "out", handle)


def _numbers(function: str, n: Any, axes: Any) -> tuple[Any, Any]:
    """Convert points and axes to integers, or to tuples of integers."""
    names = names_of(function)
    if function == base(function):
        n = None if n is None else checks.integer(n, names[0], error=ShapeError)
        return n, checks.integer(axes, names[1], error=ShapeError)
    return integers(n, names[0]), integers(axes, names[1])


def _one_by_one(function: str, a: Any, n: Any, axes: Any, norm: Any, out: Any, overwrite: Any, handle: int) -> Any:
    """Run a transform that names an axis twice, in NumPy's order: a real pass at one end, or the last axis first."""
    one = base(function)
    order = list(zip(*axes_and_lengths(function, operands.layout_of(a), *_numbers(function, n, axes)), strict=True))
    if one == "irfft":
        passes = [("ifft", pair) for pair in order[:-1]] + [(one, order[-1])]
    else:
        passes = [("fft" if one == "rfft" else one, pair) for pair in reversed(order)]
        passes[0] = (one, order[-1])
    for number, (name, (axis, length)) in enumerate(passes):
        last = number == len(passes) - 1
        given = out if last else None
        plan, inputs, outs, _, _ = _planned(name, a, length, axis, norm, given, overwrite or number > 0, handle)
        a = plan.run(inputs, outs, given, handle)
    return a
