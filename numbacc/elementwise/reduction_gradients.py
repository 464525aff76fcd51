"""Gradients of reductions, for example `mean_backward(dy, x)` for `mean`.

Each gradient is a map of dy, x, and totals over the reduced axes. The totals are computed again, in the compute dtype,
since the results of the reduction may have been rounded to 16 bits.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..arrays import operands
from ..arrays.creation import empty
from ..base.dtypes import TABLE, info
from ..base.layout import Layout, argument_of, layout
from ..errors import DTypeError
from ..kernels.reduce import functions as slopes
from ..plan.calls import opening
from ..plan.saved import Saved
from ..runtime.streams import handle_of
from . import operation, reduction_plan
from .calling import compiled
from .custom_reductions import EXTREME, reduction, repeated, seen, slope_row
from .rows import Row
from .type_promotion import kind_of

_FACTORS = reduction(slopes.factor, merge=slopes.factors, start=(1.0, 0.0))


class _Reduced(NamedTuple):
    """A reduction whose gradient is computed.

    Attributes:
        x, axes, stream: the array, the reduced axes, and the stream to run on.
        size: the number of elements in each total.
        option: the function's option, or None for functions without one.
    """

    x: Any
    axes: tuple[int, ...]
    stream: Any
    size: int
    option: Any

    def total(self, name: str, option: Any = None) -> Any:
        return reduction_plan.total(name, self.x, self.axes, option, self.stream)

    def pair(self, name: str, option: Any = None) -> tuple[Any, ...]:
        """Return two totals from one pass over x."""
        return tuple(reduction_plan.total(name, self.x, self.axes, option, self.stream))

    def own(self, reduction: Any, results: int, *more: Any) -> Any:
        """Return the totals of a custom reduction. `results` is their number."""
        kept = tuple(1 if d in self.axes else n for d, n in enumerate(self.x.shape))
        compute, device = info(self.x.dtype, "x").compute, operands.layout_of(self.x).device
        where = argument_of(device)
        out = tuple([empty(kept, compute, device=where, stream=self.stream) for _ in range(results)])
        given_to = out if results > 1 else out[0]
        return reduction(self.x, *more, axis=self.axes, keepdims=True, out=given_to, stream=self.stream)

    def divisor(self) -> float:
        """Return the divisor of the squared differences to the mean, as in NumPy."""
        return max(float(self.size - self.option), 0.0)

    def spread(self) -> tuple[Any, float]:
        """Return the mean and `divisor`."""
        return self.total("mean"), self.divisor()


class _Gradient(NamedTuple):
    """The gradient of a function.

    Attributes:
        row: the map of dy, x, arrays of totals, and scalars.
        totals: returns the totals and scalars of a reduction.
        says: the formula, as a sentence for the docstring, without its full stop.
        example: x, and the printed gradient.
    """

    row: Row
    totals: Callable[[_Reduced], tuple[Any, ...]]
    says: str
    example: tuple[str, str]


def _ties(name: str) -> Callable[[_Reduced], tuple[Any, ...]]:
    return lambda given: given.pair(f"{name}_ties")


def _spread_and_std(given: _Reduced) -> tuple[Any, ...]:
    return *given.pair("mean_std", given.option), given.divisor()


def _described(name: str, slope: slopes.Slope) -> _Gradient:
    """Return the gradient in a public function's description."""
    more = list(inspect.signature(slope.function).parameters)[2:]
    totals = [each for each in more if each != "count"]
    row = slope_row(name, slope.function, " ".join(totals), "count" if "count" in more else "")

    def found(given: _Reduced) -> tuple[Any, ...]:
        count = [float(given.size)] * ("count" in more)
        return *(given.total(name if each == "y" else each) for each in totals), *count

    return _Gradient(row, found, slope.says, slope.example)


_SHARED = "gets dy, and the others get 0. If several elements are equal to it, they share dy, as in torch.amax"
#: Function, or function and order -> its gradient.
_GRADIENTS: dict[Any, _Gradient] = {
    **{name: _described(name, each.slope) for name, each in slopes.FUNCTIONS.items() if each.slope is not None},
    "var": _Gradient(
        slope_row("var", slopes.of_var, "mean", "divisor"),
        _Reduced.spread,
        "dx = 2 dy (x - mean) / (n - correction)",
        ("[1.0, 3.0]", "array([-1.,  1.])"),
    ),
    "std": _Gradient(
        slope_row("std", slopes.of_std, "mean std", "divisor"),
        _spread_and_std,
        "dx = dy (x - mean) / ((n - correction) std), or 0 where std is 0",
        ("[1.0, 3.0]", "array([-0.5,  0.5])"),
    ),
    "max": _Gradient(
        EXTREME,
        _ties("max"),
        f"The largest element {_SHARED}",
        ("[1.0, 3.0, 3.0]", "array([0. , 0.5, 0.5])"),
    ),
    "min": _Gradient(
        EXTREME,
        _ties("min"),
        f"The smallest element {_SHARED}",
        ("[1.0, 3.0, 3.0]", "array([1., 0., 0.])"),
    ),
    "prod": _Gradient(
        slope_row("prod", slopes.of_prod, "product zeros"),
        lambda given: given.own(_FACTORS, 2),
        "dx is dy times the product of all other elements, also where some of them are 0",
        ("[2.0, 0.0, 3.0]", "array([0., 6., 0.])"),
    ),
    "norm": _Gradient(
        slope_row("norm", slopes.of_norm_2, "norm"),
        lambda given: (given.total("norm", 2.0),),
        "dx = dy sign(x) |x / y|^(ord - 1), where y is the norm. For ord=math.inf (or -math.inf), the elements with\n"
        "the largest (or smallest) |x| share dy sign(x). dx is 0 for ord=0, where all elements are 0, and where x is 0",
        ("[3.0, -4.0]", "array([ 0.6, -0.8])"),
    ),
    ("norm", 1.0): _Gradient(slope_row("norm 1", slopes.of_norm_1), lambda given: (), "", ("", "")),
    ("norm", math.inf): _Gradient(
        (_largest := slope_row("norm inf", slopes.of_norm_inf, "norm ties")), _ties("norm"), "", ("", "")
    ),
    ("norm", -math.inf): _Gradient(_largest, _ties("norm_least"), "", ("", "")),
    ("norm", 0.0): _Gradient(slope_row("norm 0", slopes.of_norm_0), lambda given: (), "", ("", "")),
    ("norm", None): _Gradient(
        slope_row("norm p", slopes.of_norm_p, "norm", "order"),
        lambda given: (given.total("norm", given.option), given.option),
        "",
        ("", ""),
    ),
    "logsumexp": _Gradient(
        slope_row("logsumexp", slopes.of_logsumexp, "base total"),
        lambda given: given.pair("log_sum"),
        "dx = dy exp(x - y), where y is the result. For one axis, this is dy times softmax",
        ("[0.0, 0.0]", "array([0.5, 0.5])"),
    ),
}


def _run(name: str, dy: Any, x: Any, axis: Any, option: Any, keepdims: Any, out: Any, stream: Any) -> Any:
    """Return the gradient of a reduction. `option` has a unique form."""
    handle = handle_of(stream)
    axis, keepdims = reduction_plan.checked(axis, keepdims)
    x = operands.as_input(x, "x", handle)
    shape, dtype = tuple(x.shape), info(x.dtype, "x").name
    if kind_of(dtype) != "f":
        raise DTypeError(f"x has dtype {dtype}; {name}_backward needs floats: convert with elementwise.astype")
    axes = reduction_plan.axes_in(axis, len(shape), "x")
    (seed,) = seen((dy,), shape, axes, keepdims, handle)
    is_usual = name != "norm" or option == 2
    found = _GRADIENTS[name] if is_usual else _GRADIENTS.get((name, option), _GRADIENTS[name, None])
    given = _Reduced(x, axes, stream, math.prod(shape[d] for d in axes), option)
    totals = found.totals(given) if 0 not in shape else _of_nothing(found.row, x)
    return operation.run(found.row, (repeated(seed, shape), x, *totals), out, None, stream)


def _of_nothing(row: Row, x: Any) -> tuple[Any, ...]:
    """Return placeholders for totals of no elements, since extremes do not exist then."""
    numbers = row.options
    return *[x] * (len(row.names) - 2 - numbers), *[1.0] * numbers


#: Function -> its option, the default as source text, and the function that brings it into a unique form.
_OPTIONS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "var": ("correction", "0", reduction_plan.correction_of),
    "std": ("correction", "0", reduction_plan.correction_of),
    "norm": ("ord", "2", reduction_plan.order_of),
}
#: Functions that return saved objects: without their options, a gradient would be wrong or raise an error.
_SAVING = ("var", "std", "norm", "logsumexp")


def functions() -> dict[str, Callable[..., Any]]:
    """Return the public functions `sum_backward` and so on."""
    return {f"{name}_backward": _function(name) for name in _GRADIENTS if isinstance(name, str)}


def _function(name: str) -> Callable[..., Any]:
    option, default, form = _OPTIONS.get(name, ("", "", None))
    takes = f"{option}: float = {default}, " if option else ""
    given = f"form({option})" if option else "None"
    names = ["axis", *[option] * bool(option), "keepdims"]
    defaults = {"axis": None, **({option: int(default)} if option else {}), "keepdims": False}
    source = (
        f"def {name}_backward(\n"
        f"    dy: Any, x: Any, *, axis: int | Sequence[int] | None = None, {takes}keepdims: bool = False, "
        "out: Any = None, stream: Any = None\n) -> Array:\n"
        f"{opening(f'elementwise.{name}', ['x', *names]) if name in _SAVING else ''}\n"
        f'    return run("{name}", dy, x, axis, {given}, keepdims, out, stream)\n'
    )
    space = {"run": _run, "form": form, "Saved": Saved, "defaults": defaults}
    made: Callable[..., Any] = compiled(f"{name}_backward", source, space)[f"{name}_backward"]
    made.__doc__ = _text(name, option)
    return made


def _text(name: str, option: str) -> str:
    """Return a function's docstring."""
    gradient = _GRADIENTS[name]
    x, printed = gradient.example
    told = f"axis, {option}, keepdims" if option else "axis, keepdims"
    array = "array of floats (16 bits or wider) with rank 0 to 8 and any strides"
    operands = f"    x: {array}.\n    {told}: the same values as in `{name}`.\n"
    example = f"    >>> elementwise.{name}_backward(np.array(1.0), np.array({x}))\n"
    if name in _SAVING:
        danger = f" If you forget {option},\n        the gradient is wrong and no error is raised." if option else ""
        operands = (
            f"    x: the object saved by `{name}(..., return_saved=True)`. It holds x, {told}.\n"
            f"        Or x itself, an {array}.\n"
            f"    {told}: the same values as in `{name}`, if no saved object is given.{danger}\n"
        )
        example = (
            f"    >>> y, saved = elementwise.{name}(np.array({x}), return_saved=True)\n"
            f"    >>> elementwise.{name}_backward(np.array(1.0), saved)\n"
        )
    return (
        f"Return dx, the gradient of {name}(x) with respect to x, multiplied by dy.\n\n"
        f"{gradient.says}.\n\n"
        f"Args:\n    dy: array of floats with the shape of {name}(x, ...), called with the same options.\n"
        f"{operands}"
        "    out: array that receives the result. It has x's shape, dtype and device, and may be x.\n\n"
        "Returns:\n    dx, an array with x's shape and dtype; `out` if given. 16-bit floats are computed in float32\n"
        "    and rounded once.\n\n"
        "Raises:\n    DTypeError: x is not an array, or holds integers or complex numbers.\n"
        "    ShapeError: the rank or the axis is wrong, or dy or out has the wrong shape.\n"
        "    OptionError: an option is invalid, or differs from the saved one.\n"
        "    LayoutError: out is read-only, overlaps an argument partly, or has elements that share memory.\n"
        "    DeviceError: the arrays are on different devices.\n\n"
        f"Example:\n{example}    {printed}\n"
    )


def everyday_reductions(matrix: Layout) -> Iterator[operation.ElementwisePlan]:
    """Yield the maps of all functions for the rows of a matrix with this layout."""
    x, compute = matrix, TABLE[str(info(matrix.dtype).compute)].numpy
    column = layout((x.shape[0], 1), (compute.itemsize, compute.itemsize), compute, x.device)
    repeated_dy = layout(x.shape, (x.itemsize, 0), x.dtype, x.device)
    for row in dict.fromkeys(gradient.row for gradient in _GRADIENTS.values()):
        totals = len(row.names) - 2 - row.options
        yield operation.planned(row, (repeated_dy, x, *[column] * totals, *[float] * row.options))
