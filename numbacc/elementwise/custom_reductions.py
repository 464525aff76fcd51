"""Reductions of one's own: a map of numbers, what merges its results along axes, and what follows."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..errors import OptionError, UnsupportedError, shown, unknown
from ..kernels.inspection import Inspection, inspected
from ..kernels.reduce import functions
from . import fold_gradients, folding
from .fold_gradients import Gradient, gradient_of, opened
from .folding import After, Combine, Fold, ReductionPlan, by_ufunc, choosing, in_a_tree, unchanged
from .measuring import Benchmark, benchmark
from .rows import Meaning, Row
from .signatures import Own, meaning_of, python_function, taken_by

#: Name -> (what merges two numbers, the start, NumPy's).
_MERGES: dict[str, tuple[Callable[..., tuple[Any, ...]], float, np.ufunc]] = {
    "sum": (functions.add, 0.0, np.add),
    "prod": (functions.multiply, 1.0, np.multiply),
    "max": (functions.larger, -math.inf, np.maximum),
    "min": (functions.smaller, math.inf, np.minimum),
}
_EXTREMES = ("max", "min")
#: What calls take beside a reduction's own options.
_RESERVED = ("axis", "keepdims", "out", "stream")
#: The shape of arrays that need not exist.
_USUAL_SHAPE = (4096, 4096)


def reduction(
    function: Callable[..., Any] | None = None,
    *,
    merge: str | Callable[..., Any] = "sum",
    start: float | tuple[float, ...] | None = None,
    after: Callable[..., Any] | None = None,
) -> Reduction | Callable[[Callable[..., Any]], Reduction]:
    """Make a reduction over axes of Python functions of numbers: after(Σ function(x), count). A decorator.

    Args:
        function: the map: of the numbers at one place of each array; it returns the part that this place adds, or a
            tuple of several. It may do what a `kernel`'s function may; parameters with defaults are options.
        merge: "sum", "prod", "max" or "min", of each part by itself; or a function of two parts, of several first all
            of one then all of the other: (a0, a1, b0, b1) -> (c0, c1). Parts come in any order and grouping.
        start: with such a function, the parts of nothing: a number, or a tuple. Merged with any others it gives these.
        after: of the totals, then of how many elements there were if it takes one number more; it returns the result,
            or a tuple of several. Parameters with defaults are options, those of the map's names the same. By default
            the totals are the results.

    Returns:
        a `Reduction`: call it with arrays and numbers, `axis=` and `keepdims=`, as `elementwise.sum`. One kernel reads
        the arrays once, a second one merges what few rows were shared out as. Of NumPy arrays NumPy computes it.

    Raises:
        OptionError: something is not a Python function, merge is unknown, start is missing or too much, options of the
            two functions have the same name and other defaults, or one that calls have: axis, keepdims, out, stream.
        UnsupportedError: when it is called, not here: a function does what kernels cannot; the message names the line.

    Example:
        >>> import math
        >>> rms = elementwise.reduction(lambda x: x * x, after=lambda total, count: math.sqrt(total / count))
        >>> rms(np.array([[1.0, 7.0], [6.0, 8.0]]), axis=1).round(3)
        array([5.   , 7.071])
    """
    if function is None:
        return lambda each: Reduction(each, merge, start, after)
    return Reduction(function, merge, start, after)


class Reduction(Own):
    """A reduction of one's own: what `reduction` makes. Call it with arrays and numbers.

    Example:
        >>> dot = elementwise.reduction(lambda x, y: x * y)
        >>> dot(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 10.0]), axis=-1)
        array([21., 43.])
    """

    _kind = "reduction"

    def __init__(
        self,
        function: Callable[..., Any],
        merge: str | Callable[..., Any] = "sum",
        start: float | tuple[float, ...] | None = None,
        after: Callable[..., Any] | None = None,
    ):
        self._after = None if after is None else python_function(after, "after")
        self._after_takes, more = ([], {}) if self._after is None else taken_by(self._after, "after")
        own = taken_by(python_function(function, "function"), "function")[1]
        for name in own.keys() & more.keys():
            if own[name] is not more[name] and own[name] != more[name]:
                raise OptionError(
                    f"{name} is {shown(own[name])} by default in the map and {shown(more[name])} in after"
                )
        super().__init__(function, more)
        if taken := [name for name in self._signature.parameters if name in _RESERVED]:
            raise OptionError(f"{taken[0]} is a parameter of {self.__name__}, and of every call: name it otherwise")
        if isinstance(merge, str) and merge not in _MERGES:
            raise unknown("merge", merge, _MERGES, f"it is {', '.join(_MERGES)}, or a function")
        self._merge = merge if isinstance(merge, str) else python_function(merge, "merge")
        self._start = _starting(start, isinstance(merge, str))

    # ------------------------------------------------------------ what it computes

    @cached_property
    def _functions(self) -> tuple[Callable[..., Any], Callable[..., Any] | None, Callable[..., Any] | None]:
        """Copies of the map, of the merge if it is a function, and of `after`; made again after a change."""
        function, merge, after = self._frozen(
            self._function, None if isinstance(self._merge, str) else self._merge, self._after
        )
        return function, merge, after

    @cached_property
    def _taken(self) -> range:
        """The numbers of the arguments that the map takes: options of `after` alone are behind them."""
        return range(len(inspect.signature(self._function).parameters))

    @cached_property
    def _map(self) -> tuple[Meaning, list[str]]:
        """What the map means; its parts."""
        return meaning_of(self._functions[0], self.__name__)

    @cached_property
    def _fold(self) -> Fold:
        name, names, taken = self.__name__, tuple(self._signature.parameters), len(self._taken)
        meaning, parts = self._map
        row = Row(
            name,
            names,
            "divide",
            {
                "f": Meaning(
                    choosing(meaning.scalar, names, names[:taken]), lambda *given: meaning.numpy(*given[:taken])
                )
            },
            meeting=range(self._count),
            results=[""] * len(parts),
            options=len(names) - self._count,
        )
        start, merge, combine = self._merging(len(parts))
        return Fold(row, start, merge, combine, self._ending(len(parts)))

    def _merging(self, parts: int) -> tuple[tuple[float, ...], Callable[..., tuple[Any, ...]], Combine]:
        """(the parts of nothing, what merges numbers, what merges arrays)."""
        if isinstance(self._merge, str):
            merge, start, ufunc = _MERGES[self._merge]
            return (start,) * parts, functions.side_by_side(merge, parts), by_ufunc(ufunc, start)
        name, function, starts = self.__name__, self._functions[1], self._start
        assert function is not None
        if len(starts) != parts:
            raise OptionError(f"start is {len(starts)} numbers; {name} has {parts} parts")
        numbers, _ = taken_by(self._merge, "merge")
        if len(numbers) != 2 * parts:
            raise OptionError(f"merge takes {len(numbers)} numbers; it must take {2 * parts}: two parts of {parts}")
        meaning, merged = meaning_of(function, f"{name}'s merge")
        if len(merged) != parts:
            raise OptionError(
                f"merge returns {len(merged)} numbers; it must return {parts}, as many as {name} has parts"
            )
        return starts, meaning.scalar, in_a_tree(meaning.numpy, starts)

    def _ending(self, parts: int) -> After:
        """What follows."""
        takes = len(self._after_takes)
        if (function := self._functions[2]) is None:
            return unchanged(parts)
        if takes not in (parts, parts + 1):
            raise OptionError(
                f"after takes {takes} numbers without default; it must take {parts}, the totals, or one more, the count"
            )
        meaning, results = meaning_of(function, f"{self.__name__}'s after")
        names = list(self._signature.parameters)
        options = [names.index(name) for name in list(inspect.signature(function).parameters)[takes:]]
        return After(meaning, takes > parts, tuple(options), tuple(results))

    @cached_property
    def _gradient(self) -> Gradient:
        if self._merge not in ("sum", *_EXTREMES):
            merge = repr(self._merge) if isinstance(self._merge, str) else "a function"
            raise UnsupportedError(
                f'{self.__name__} has no gradient: merge is {merge}; with "sum", "max" and "min" there is one'
            )
        extreme = "" if self._merge == "sum" else str(self._merge)
        mapped, _, after = self._functions
        try:
            return gradient_of(self._fold, extreme, mapped, after, self._taken)
        except TypeError as error:
            raise UnsupportedError(str(error)) from None

    # ------------------------------------------------------------ calls

    def __call__(
        self,
        *arguments: Any,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        out: Any = None,
        stream: Any = None,
        **options: Any,
    ) -> Any:
        """The reduction of arrays and numbers, at least one an array, that broadcast.

        Args:
            arguments, options: as the map takes them, and those of `after`: arrays of floats, integers or bool (both
                taken for float64), or numbers. Rank 0 to 8, any strides.
            axis: the axes of the broadcast shape that are reduced: None for all, an integer, or a tuple of integers.
            keepdims: True if these axes stay, with length 1.
            out: array for the result, of its shape and device, its dtype or another float; it shares no memory with the
                arguments. Of several results a tuple.
            stream: where the work is queued; the default stream if None. Nothing waits for it.

        Returns:
            an array of the dtype in which the arguments meet, bool where a truth value is returned; of rank 0 where all
            axes are reduced. A tuple where there are several. Floats of 16 bits are computed in float32 and rounded
            once. Of no elements it is what follows the start.

        Raises:
            ShapeError: shapes that do not broadcast, rank, axis, shape of out.
            DTypeError: complex numbers, not an array, numbers alone.
            OptionError: keepdims, stream, an option that is an array. ArgumentsError: other parameters.
            UnsupportedError: a function does what kernels cannot.
            LayoutError: out is read-only, overlaps an argument, or has elements that share memory.
            DeviceError: arrays on different devices; not enough memory.
        """
        bound = self._bound(arguments, options)
        return folding.run(self._fold, bound, axis, keepdims, out, stream)

    def backward(
        self,
        dy: Any,
        *arguments: Any,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        out: Any = None,
        stream: Any = None,
        **options: Any,
    ) -> Any:
        """The gradients of a loss with respect to the arguments that are arrays: dy · after'(totals) · map'(arguments).

        Of "max" and "min" all parts that are equal to the total share it, as in `max_backward`.

        Args:
            dy: an array of the result's shape; a tuple of them where there are several results.
            arguments, axis, keepdims, options: those of the call.
            out: a tuple of arrays for the gradients, with None where these are.
            stream: as everywhere.

        Returns:
            a tuple: of each argument that is an array, in its shape and dtype; None of integers and bool. What was
            repeated gets the sum.

        Raises:
            UnsupportedError: no derivative is known, or merge is "prod" or a function. As the call besides.
        """
        bound = self._bound(arguments, options)
        fold = self._fold
        return fold_gradients.run(fold, self._gradient, opened(dy, fold), bound, axis, keepdims, out, stream)

    def plan(
        self,
        *arguments: Any,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        out: Any = None,
        **options: Any,
    ) -> ReductionPlan:
        """The plan of a call with these arguments: call it with all of them in order, options too."""
        bound = self._bound(arguments, options)
        return folding.find(self._fold, bound, axis, keepdims, out)

    # ------------------------------------------------------------ what it became

    def _written(self) -> Sequence[Callable[..., Any]]:
        fold, (_, merge, after) = self._fold, self._functions
        found = [self._map[0].scalar]
        found += [fold.merge] if merge is not None else []
        return found + ([fold.after.meaning.scalar] if after is not None else [])

    def _written_gradients(self) -> Sequence[Callable[..., Any]]:
        return self._gradient.written

    def inspect(
        self, *arguments: Any, axis: int | Sequence[int] | None = None, keepdims: bool = False, **options: Any
    ) -> Inspection:
        """What a call with these arguments is compiled to: as `Kernel.inspect`.

        Args:
            arguments, axis, keepdims, options: those of a call; by default rows of 4096 x 4096 numbers of float32.

        Returns:
            an `Inspection`; where few results are made there are two `kernels`, of which the second merges what the
            blocks of the first have made.

        Raises:
            As the call.
        """
        self._notice()
        fold = self._fold
        keys, addresses = self._inspected(fold.row, arguments, options, _USUAL_SHAPE)
        if axis is None and not (arguments or options):
            axis = -1
        plan = folding.planned(fold, keys, axis, keepdims)
        return inspected(self.__name__, self._source(), plan, addresses)

    def benchmark(
        self,
        shape: int | Sequence[int],
        dtype: Any = "float32",
        *,
        axis: int | Sequence[int] | None = None,
        repeats: int = 30,
        **numbers: float,
    ) -> Benchmark:
        """The speed of a call on a GPU: as `Kernel.benchmark`, of arrays that are reduced along `axis`.

        All results are checked, by NumPy, which takes its time.
        """
        options = {**self._options, **numbers}
        names = list(self._signature.parameters)
        call = partial(self, axis=axis)
        return benchmark(self.__name__, call, names, shape, dtype, repeats, options, is_local=False)


def _starting(start: Any, is_named: bool) -> tuple[float, ...]:
    """The option `start` in one form.

    Raises:
        OptionError: it is missing or too much, or not of real numbers.
    """
    if is_named:
        if start is not None:
            raise OptionError(f"start={shown(start)} is for a merge that is a function: one by name has its own")
        return ()
    found = start if isinstance(start, tuple) else (start,)
    for number in found:
        is_number = isinstance(number, (int, float, np.integer, np.floating)) and not isinstance(number, bool)
        if not is_number:
            raise OptionError(
                f"start={shown(start)} is not a number or a tuple of numbers; a merge that is a function needs what "
                "changes nothing that it is merged with"
            )
    return tuple(float(number) for number in found)
