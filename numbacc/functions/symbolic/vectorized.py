"""Formulas on NumPy arrays. A formula runs on symbols, and the recorded operations are written as array expressions.

Both sides of every branch are computed, and the results are chosen element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...reference import c_library, gated
from ...reference.c_library import in_pieces, numpys, of_math, power
from .. import arithmetic, digamma, division
from .codegen import Text, taking, told
from .opaque_functions import WHOLES
from .trace import MOST_WAYS, Symbol, SymbolicTrace, Way, is_truth, traced

Array = NDArray[Any]

#: A formula may consist of several generated functions with branches.
_MOST_WAYS = MOST_WAYS**2


def vectorized(
    function: Callable[..., Any], name: str, *, rounds_numbers: bool = False
) -> Callable[..., tuple[Array, ...]]:
    """Return a formula as a function of arrays or numbers that broadcast. It returns new float64 arrays.

    It computes in float64 and as a GPU does: it gives infinity or NaN where Python raises an error.

    Args:
        function: a formula with one or several results, or a function that `derive` generated.
        name: the name to use in messages.
        rounds_numbers: whether constants of the formula and scalar arguments are rounded to float32 if the arrays are
            float32. Kernels do the same; for example, x == 0.1 then gives the same results.

    Raises:
        TypeError: the same as in `derive.written`.
    """
    with told(f"{name} has no form for arrays", function):
        noted = traced(function, most=_MOST_WAYS)
        computed = lru_cache(partial(_written, *noted, f"<arrays of {name!r}>"))
        computed(float)  # formulas that cannot be written fail here

    def of_arrays(*operands: Any) -> tuple[Array, ...]:
        given = [np.asarray(operand) for operand in operands]
        kinds = {x.dtype for x, operand in zip(given, operands, strict=True) if type(operand) not in _PYTHONS}
        is_single = rounds_numbers and kinds == {np.dtype(np.float32)}
        if is_single:
            with np.errstate(over="ignore"):
                given = [x.astype(np.float32, copy=False) for x in given]
        compute, shape = computed(_single if is_single else float), np.broadcast_shapes(*(x.shape for x in given))

        def piece(*parts: Array) -> tuple[Array, ...]:
            wide = iter(parts)
            numbers = [np.asarray(next(wide) if x.ndim else x, np.float64) for x in given]
            return tuple([_new(y, parts[0].shape if parts else ()) for y in compute(*numbers)])

        # Numbers stay numbers, so that expressions of numbers alone are computed once.
        arrays = [np.broadcast_to(x, shape) for x in given if x.ndim]
        with np.errstate(all="ignore"):
            return in_pieces(piece, *arrays) if arrays else piece()

    return of_arrays


def _new(values: Any, shape: tuple[int, ...]) -> Array:
    """Return a new array, since a result may be an argument, a constant or another result."""
    return np.array(np.broadcast_to(values, shape), np.float64, order="C")


_PYTHONS = (bool, int, float)


def _single(number: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def _written(
    trace: SymbolicTrace, ways: Sequence[Way], file: str, number: Callable[[float], float] = float
) -> Callable[..., tuple[Any, ...]]:
    text = _ArrayText(trace.arguments, number)
    text.write(ways)
    return text.function(file)


class _ArrayText(Text):
    """A function of arrays, without branches. `number` converts the constants of the formula."""

    def __init__(self, given: Sequence[Symbol], number: Callable[[float], float]):
        super().__init__(given)
        self._as_written = number
        self.names |= {"np": np, "power": power}

    def write(self, ways: Sequence[Way]) -> None:
        """Write the code that computes all these paths and selects, for each element, the results of its path."""
        self._line(f"return {', '.join(self._chosen(ways))},")

    def _chosen(self, ways: Sequence[Way]) -> list[str]:
        (decisions, results), *more = ways
        if not more:
            self._compute(results)
            return [self._number(result) for result in results]
        condition = decisions[0][0]
        self._compute([condition])
        pairs = zip(self._chosen(taking(ways, True)), self._chosen(taking(ways, False)), strict=True)
        return [
            one if one == other else self._kept(f"np.where({self._text(condition)}, {one}, {other})")
            for one, other in pairs
        ]

    def _expression(self, symbol: Symbol) -> str:
        parts = [self._number(part) for part in symbol.parts]
        if symbol.made == "neg":
            return f"-{parts[0]}"
        if symbol.made == "**":
            return f"power({parts[0]}, {parts[1]})"
        if isinstance(symbol.made, str):
            return f"{parts[0]} {symbol.made} {parts[1]}"
        return f"{self._callee(symbol.made)}({', '.join(parts)})"

    def _callee(self, function: Any) -> str:
        name = str(function.__name__)
        if function.__module__ != "math":
            return self._named(_counterpart(function), name)
        if name == "pow":
            return "power"
        if numpys(name):
            return f"np.{numpys(name)}"
        return self._named(of_math(name), name)

    def _number(self, part: Any) -> str:
        """Write a truth value as 1 or 0, since it is used as a number, and a constant as a float64."""
        if isinstance(part, Symbol):
            return f"({self._text(part)} * 1.0)" if is_truth(part) else self._text(part)
        return self._text(self._as_written(part))


@lru_cache(maxsize=64)
def _counterpart(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the NumPy version of a function that traces record as one operation."""
    known: Callable[..., Any] | None = _NUMPYS.get(function)
    if known is not None:
        return known
    if function in WHOLES:
        return WHOLES[function].numpy
    computed = _written(*traced(function, is_open=True), f"<arrays of {function.__name__!r}>")
    return lambda *numbers: computed(*numbers)[0]


#: Functions that NumPy or the reference provides.
_NUMPYS: dict[Any, Any] = {
    arithmetic.cbrt: np.cbrt,
    arithmetic.exp: np.exp,
    arithmetic.exp2: np.exp2,
    arithmetic.gaussian: gated.gaussian,
    arithmetic.normal_tail: gated.normal_tail,
    arithmetic.inverse: np.reciprocal,
    arithmetic.square_root: np.sqrt,
    arithmetic.reciprocal_root: c_library.reciprocal_root,
    arithmetic.rint: np.rint,
    arithmetic.erfinv: c_library.inverse_error,
    division.remainder: np.remainder,
    division.floor_divide: np.floor_divide,
    digamma.digamma: c_library.digamma,
    digamma.trigamma: c_library.trigamma,
}
