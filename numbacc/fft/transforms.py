"""The transforms of `numbacc.fft`: each is a look-up of a plan, and the plan's run."""

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
    """Whether points are of the types that nearly all calls have."""
    return n is None or type(n) is int


def _are_usual_axes(axes: Any) -> bool:
    return axes is None or axes is LAST_TWO


def _plan(
    function: str, n: Any, axes: Any, norm: Any, overwrite: bool, target: Layout | None, array: Layout
) -> FftPlan | None:
    """The plan of a transform; None where an axis is named twice."""
    found, lengths = axes_and_lengths(function, array, n, axes)
    if len(set(found)) < len(found):
        return None
    return FftPlan(request(function, array, found, lengths, norm, overwrite, target))


#: Plans hold tables and kernels of some megabytes, and no work area; but its size tells how large a plan is.
_plans = PlanCache(_plan, count=256, nbytes=16 << 30)
#: What makes each transform, and its plan, of its signature.
_transform = planned(
    _plans,
    "FftPlan",
    "a",
    guards={"n": _is_usual_n, "s": _is_usual_n, "axis": lambda axis: False, "axes": _are_usual_axes},
    note="Also a ShapeError where an axis is named twice: each pass along it is a plan of its own.",
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
    """The discrete Fourier transform along one axis: X[k] = Σ_j x[j] exp(-2πi jk/n), scaled as `norm` says.

    Args:
        a: array of float16, bfloat16, float32, complex64 (computed in single precision), float64, complex128, an
            integer type or bool (double), rank 1 to 8, any strides.
        n: points: a is truncated, or padded with zeros at its end, to that length. None: a's length.
        axis: the transformed axis.
        norm: "backward" (as None): the inverse divides by n. "forward": the forward transform does so. "ortho": both
            divide by √n.
        out: array for the result, of its shape and dtype, on a's device, with any strides. It may be a itself where
            shape and dtype are equal; other overlap is refused.
        overwrite_input: whether a's contents may be destroyed, which saves transforms to real numbers a copy.

    Returns:
        complex array of a's shape, but n along `axis`: a device array if a is one, a NumPy array if a is; `out` if
        given. Without `out` it has the memory order of a; from 1 MiB on the transformed axis may be innermost instead,
        where that is faster.

    Raises:
        ShapeError: rank, axis, n below 1, shape of out.
        DTypeError: a dtype not named above, an `out` of another dtype than the result's; not an array.
        OptionError: unknown norm or stream; overwrite_input is neither True nor False.
        LayoutError: out is read-only, overlaps a, or has elements that share memory.
        LibraryError: cuFFT is missing or failed.

    The same call gives the same bits on every run on one GPU model. A call that finds no cuFFT plan makes one, in
    `numbacc.graph` too; `fft.plan` makes it before.

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
    """The inverse of `fft`: x[j] = 1/n Σ_k X[k] exp(+2πi jk/n). Arguments and errors as for it.

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
    """The first n//2 + 1 elements of the `fft` of a real array: the others are their conjugates.

    Arguments and errors as in `fft`; DTypeError also where a is complex.

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
    """The inverse of `rfft`: n real numbers from n//2 + 1 complex ones; n is 2 (a's length - 1) by default.

    Imaginary parts that a real signal's spectrum cannot have are ignored. The result is float32 for single precision,
    float16 for float16, else float64. Other arguments and errors as in `fft`.

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
    """The `fft` of a signal that is its own mirrored conjugate, of which a is the first half: a real spectrum.

    n, the points of the spectrum, is 2 (a's length - 1) by default. Other arguments and errors as in `irfft`.

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
    """The inverse of `hfft`: the first n//2 + 1 elements of the `ifft` of a real array.

    Arguments and errors as in `rfft`.

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
    """The `fft` along several axes.

    Args:
        s: points along each of `axes`; -1 keeps a's length. None keeps all lengths.
        axes: the transformed axes; one that is named twice is transformed twice. None: all, or where s is given as
            many as it has lengths, the last ones.

    Other arguments and errors as in `fft`; `norm` refers to the product of all lengths.

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
    """`fftn` over the last two axes.

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
    """`ifftn` over the last two axes.

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
    """`rfftn` over the last two axes.

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
    """`irfftn` over the last two axes.

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
    """The inverse of `fftn`. Arguments and errors as for it.

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
    """`rfft` along the last of `axes`, then `fft` along the others. Arguments and errors as in `fftn` and `rfft`.

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
    """The inverse of `rfftn`; without `s` there are 2 (a's length - 1) points along the last of `axes`.

    Arguments and errors as in `fftn` and `irfft`.

    Example:
        >>> fft.irfftn(np.ones((2, 3, 3))).shape
        (2, 3, 4)
    """
    return _planned("irfftn", a, s, axes, norm, out, overwrite_input, stream)


cache_info, cache_clear, cache_limit = functions_of(_plans, __name__)


def _planned(function: str, a: Any, n: Any, axes: Any, norm: Any, out: Any, overwrite: Any, stream: Any) -> Any:
    """Return the planned call of a function."""
    handle = handle_of(stream)
    array, result = _arrays(a, out, handle)
    layout, target = operands.layout_of(array), None if result is None else operands.layout_of(result)
    plan = None
    # The short path of NumPy's arrays.
    if _is_usual_n(n) and (type(axes) is int or _are_usual_axes(axes)) and (overwrite is False or overwrite is True):
        try:
            plan = _plans.hit((function, n, axes, norm, overwrite, target, layout))
        except TypeError:  # an option that cannot be hashed: what follows says what is wrong
            pass
    if plan is None:
        overwrite = checks.boolean(overwrite, "overwrite_input")
        n, axes = _numbers(function, n, axes)
        plan = _plans.find((function, n, axes, norm, overwrite, target, layout))
    if plan is None:
        plan = _AxisPasses(function, n, axes, norm, overwrite)
    return plan, (array,), None if result is None else (result,), handle, ()


class _AxisPasses(NamedTuple):
    """The plan of a transform that names an axis twice: there is none, it runs one pass after the other."""

    function: str
    n: Any
    axes: Any
    norm: Any
    overwrite: bool

    def run(self, inputs: Any, outs: Any, out: Any, handle: int, scalars: Any) -> Any:
        """Run the passes."""
        return _one_by_one(self.function, inputs[0], self.n, self.axes, self.norm, out, self.overwrite, handle)

    def prepare(self, inputs: Any, outs: Any) -> None:
        """Raise ShapeError."""
        raise ShapeError(f"axes={self.axes} names an axis twice: each pass along it is a plan of its own")


def _arrays(a: Any, out: Any, handle: int) -> tuple[Any, Any]:
    return operands.as_array(a, "a", handle), None if out is None else operands.as_array(out, "out", handle)


def _numbers(function: str, n: Any, axes: Any) -> tuple[Any, Any]:
    """Points and axes as integers, or as tuples of them."""
    names = names_of(function)
    if function == base(function):
        n = None if n is None else checks.integer(n, names[0], error=ShapeError)
        return n, checks.integer(axes, names[1], error=ShapeError)
    return integers(n, names[0]), integers(axes, names[1])


def _one_by_one(function: str, a: Any, n: Any, axes: Any, norm: Any, out: Any, overwrite: Any, handle: int) -> Any:
    """A transform that names an axis twice, in NumPy's order: real numbers first or last, else from the last axis."""
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
