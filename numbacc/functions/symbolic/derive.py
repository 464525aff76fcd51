"""Derivatives of formulas, derived from the functions themselves.

The function runs on symbols instead of numbers, once for each path through its branches. The symbols record the
operations on them (`trace`). Then the chain rule goes backward over the operations, and value and derivatives are
written together as a Python function: straight lines and branches. Kernels compile it and the CPU runs it like any
other formula.

The generated function refers only to `math`, `arithmetic` and `derivatives`. The values of the original function's
globals and closures are part of it, as they were when the function ran on symbols.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from . import derivatives
from .codegen import ScalarText, told
from .opaque_functions import WHOLES
from .trace import Symbol, is_derived, order, traced


class NotDerived(TypeError):
    """The error of a formula that does something whose derivative is unknown."""


def takes_one(function: Any) -> bool:
    """Return whether `function` is a Python function that can be called with one number."""
    if not isinstance(getattr(function, "py_func", function), FunctionType):
        return False
    try:
        inspect.signature(function).bind(1.0)
    except TypeError:
        return False
    return True


def written(
    function: Callable[..., Any], name: str, *, gradient: bool, wanted: int | None = None
) -> Callable[..., tuple[Any, ...]]:
    """Return a function of the same numbers that returns the values, or the value and its derivative by each argument.

    Args:
        function: a formula: arithmetic, comparisons, branches, loops over known ranges, `math`, and calls of such
            functions. Parameters with defaults have their defaults. With `gradient`, it has one result; without it, any
            number of results.
        name: the name to use in messages.
        gradient: whether to return the derivatives, too.
        wanted: the number of first arguments to derive by; None for all.

    Raises:
        TypeError: the function does something else; the message names the line. NotDerived: the same for derivatives.
    """
    if gradient:
        with told(f"{name} has no derivative that can be derived", function, NotDerived):
            trace, ways = traced(function, wanted)
            text = ScalarText(trace.arguments)
            text.write(
                [(taken, (_one(results), *_slopes(results, trace.arguments[:wanted]))) for taken, results in ways]
            )
            return text.function(f"<derivative of {name!r}>")
    with told(f"{name} has no form that kernels compile", function):
        text, again = _noted(function), _noted(function)
        if text.lines != again.lines or text.names != again.names:
            raise TypeError(
                "it gives another result when it is run again: a formula is compiled once, so pass values that change "
                "as arguments"
            )
        return text.function(f"<formula of {name!r}>")


def _noted(function: Callable[..., Any]) -> ScalarText:
    trace, ways = traced(function)
    text = ScalarText(trace.arguments)
    text.write(ways)
    return text


def backward(
    function: Callable[..., Any], name: str, *, wanted: int | None = None, is_chosen: bool = False
) -> Callable[..., tuple[Any, ...]]:
    """Return the function that turns gradients with respect to a formula's results into gradients of its arguments.

    For a formula (x_1, ..., x_n) -> (r_1, ..., r_m), it is (dy_1, ..., dy_m, x_1, ..., x_n) -> (dx_1, ..., dx_k), where
    dx_i is the sum of dy_j dr_j/dx_i over j. If, on the executed path, a result does not depend on an argument, it adds
    0 to that argument's gradient, even where dy is infinite or NaN.

    Args:
        function, name: the same as in `written`.
        wanted: k, the number of first arguments; None for all.
        is_chosen: whether dy is 0 where another value was chosen. Then the gradients are 0 there, even if a slope is
            infinite.

    Raises:
        NotDerived: a derivative is unknown; the message names the line.
    """
    with told(f"{name} has no derivative that can be derived", function, NotDerived):
        trace, ways = traced(function, wanted)
        seeds = [trace.unknown(f"dy{k}") for k in range(len(ways[0][1]))]
        text = ScalarText([*seeds, *trace.arguments])
        text.write([(taken, _back(results, seeds, trace.arguments[:wanted], is_chosen)) for taken, results in ways])
        return text.function(f"<gradient of {name!r}>")


def _one(results: Sequence[Any]) -> Any:
    if len(results) > 1:
        raise TypeError(f"it returns a tuple of {len(results)} numbers, not one number")
    return results[0]


# ---------------------------------------------------------------- the chain rule


def _back(
    results: Sequence[Any], seeds: Sequence[Symbol], arguments: Sequence[Symbol], is_chosen: bool
) -> tuple[Any, ...]:
    if is_chosen or len(results) > 1 or any(symbol.made in WHOLES for symbol in order(results)):
        # If a function's gradient does not choose an argument, that argument gets nothing from any seed.
        return _gradients(results, seeds, arguments, is_chosen)
    # The seed is multiplied last: a small slope keeps a large product finite.
    return tuple([_times(seeds[0], slope) for slope in _slopes(results, arguments)])


def _slopes(results: Sequence[Any], arguments: Sequence[Symbol]) -> tuple[Any, ...]:
    return _gradients(results, [1.0], arguments)


def _gradients(
    results: Sequence[Any], seeds: Sequence[Any], arguments: Sequence[Symbol], is_chosen: bool = False
) -> tuple[Any, ...]:
    """Return the derivatives of the sum of the results, each times its seed, with respect to each argument."""
    adjoint: dict[int, Any] = {}
    #: Symbols that a choosing function may ignore. Then their slopes do not count, even if they are infinite.
    chosen = set(map(id, results)) if is_chosen else set()

    def add(part: Any, more: Any) -> None:
        if isinstance(part, Symbol) and not _is(more, 0.0):
            before = adjoint.get(id(part))
            adjoint[id(part)] = more if before is None else before + more

    for result, seed in zip(results, seeds, strict=True):
        add(result, seed)
    for symbol in reversed(list(order(results))):
        own, rule = adjoint.get(id(symbol)), derivatives.RULES.get(symbol.made)
        if own is None or not symbol.parts:
            continue
        if symbol.made in WHOLES:
            whole = WHOLES[symbol.made]
            terms = [
                0.0 if gradient is None or not is_derived(part) else symbol.trace.note(gradient, own, *symbol.parts)
                for gradient, part in zip(whole.gradients or (), symbol.parts, strict=True)
            ]
            if whole.is_choosing:
                chosen |= set(map(id, symbol.parts))
        elif rule is not None:
            terms = [_times(own, slope) for slope in rule(symbol, *symbol.parts)]
        else:
            continue  # it is a comparison: a step, whose slope is 0
        for part, term in zip(symbol.parts, terms, strict=True):
            if id(symbol) in chosen and isinstance(term, Symbol) and term is not own:
                term = symbol.trace.note(derivatives.if_any, own, term)
            add(part, term)
        if id(symbol) in chosen:
            chosen |= set(map(id, symbol.parts))
    return tuple([adjoint.get(id(argument), 0.0) for argument in arguments])


def _times(one: Any, other: Any) -> Any:
    if _is(one, 0.0) or _is(other, 0.0):
        return 0.0
    if _is(one, 1.0):
        return other
    if _is(other, 1.0):
        return one
    if _is(other, -1.0):
        return -one
    return one * other


def _is(value: Any, number: float) -> bool:
    return not isinstance(value, Symbol) and value == number
