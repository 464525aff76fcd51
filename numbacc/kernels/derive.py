"""Derivatives of formulas, derived from the functions themselves.

The function is run on symbols in the place of numbers, once for each way through its branches; they note what is
computed of them. The chain rule then goes backward over what was noted, and value and derivatives together are written
down as a Python function: straight lines and branches, which kernels compile, and the CPU runs, as any other formula.

What is written down refers to nothing but `math` and `arithmetic`: what the function had from outside is in it as it
was when it was run on symbols.
"""

from __future__ import annotations

import inspect
import itertools
import linecache
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from . import derivatives
from .copies import copied

#: Ways through a function's branches, and branches on one, at most.
_MOST_WAYS = 64

_BINARY = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow,
}  # fmt: skip
_COMPARED = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


class Symbol:
    """A number that is not known: an argument, or what is computed of others.

    Attributes:
        trace: what it was noted in.
        made: the operator or function that it is computed by, or an argument's name.
        parts: what of, symbols and numbers.
    """

    __slots__ = ("made", "parts", "trace")
    # == compares the numbers that symbols stand for: they are told apart by `id`, and are not to be found in a set.
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, trace: Trace, made: Any, parts: tuple[Any, ...]):
        self.trace, self.made, self.parts = trace, made, parts

    def __bool__(self) -> bool:
        return self.trace.decide(self)

    def __neg__(self) -> Any:
        return self.trace.note("neg", self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self.trace.note(math.fabs, self)

    def __float__(self) -> Any:
        raise TypeError("it makes a Python float of a number that is only known when it runs")

    __int__ = __index__ = __complex__ = __float__


def _add_operators() -> None:
    for text in (*_BINARY, *_COMPARED):
        name = (_BINARY | _COMPARED)[text].__name__

        def forward(self: Symbol, other: Any, text: str = text) -> Any:
            return self.trace.note(text, self, other)

        def reflected(self: Symbol, other: Any, text: str = text) -> Any:
            return self.trace.note(text, other, self)

        setattr(Symbol, f"__{name}__", forward)
        if text in _BINARY:
            setattr(Symbol, f"__r{name}__", reflected)


_add_operators()


def _plain(part: Any, does: str) -> Any:
    """A symbol, or a number as Python's own."""
    if isinstance(part, Symbol):
        return part
    if isinstance(part, (bool, np.bool_)):
        return bool(part)
    if isinstance(part, (int, np.integer)):
        return int(part)
    if isinstance(part, (float, np.floating)):
        return float(part)
    raise TypeError(f"it {does} a {type(part).__name__}, which is not a real number")


class Trace:
    """What a function computes of symbols, on one way after the other."""

    def __init__(self, arguments: int, is_derived: bool):
        self.is_derived = is_derived
        self._noted: dict[Any, Symbol] = {}
        self.arguments = tuple(self._symbol(f"x{k}", ()) for k in range(arguments))
        self._script: list[bool] = []
        self.taken: list[tuple[Symbol, bool]] = []

    def _symbol(self, made: Any, parts: tuple[Any, ...]) -> Symbol:
        # Numbers that are equal, 1 and 1.0 or 0.0 and -0.0, are told apart by what they look like.
        key = (made, *(id(part) if isinstance(part, Symbol) else repr(part) for part in parts))
        if key not in self._noted:
            self._noted[key] = Symbol(self, made, parts)
        return self._noted[key]

    def note(self, made: Any, *parts: Any) -> Any:
        """What an operator or function makes of symbols and numbers."""
        return self._symbol(made, tuple([_plain(part, "computes with") for part in parts]))

    def decide(self, condition: Symbol) -> bool:
        """Which way is taken: that of the script, else the first."""
        for known, answer in self.taken:
            if known is condition:
                return answer
        number = len(self.taken)
        if number >= _MOST_WAYS:
            raise TypeError("it has a loop whose length the numbers decide, or too many branches")
        answer = self._script[number] if number < len(self._script) else True
        self.taken.append((condition, answer))
        return answer

    def ways(self, function: Callable[..., Any]) -> Iterator[tuple[list[tuple[Symbol, bool]], Any]]:
        """(the decisions, the result) of each way."""
        pending: list[list[bool]] = [[]]
        for _ in range(_MOST_WAYS):
            self._script, self.taken = pending.pop(), []
            result = function(*self.arguments)
            yield self.taken, result
            answers = [answer for _, answer in self.taken]
            pending += [[*answers[:k], False] for k in range(len(self._script), len(answers))]
            if not pending:
                return
        raise TypeError(f"there are more than {_MOST_WAYS} ways through it")


class _Module:
    """A module whose functions are for symbols."""

    def __init__(self, module: ModuleType, trace: Trace):
        self._module, self._trace = module, trace

    def __getattr__(self, name: str) -> Any:
        return _of_symbols(getattr(self._module, name), self._trace)


def _of_symbols(value: Any, trace: Trace) -> Any:
    """What a formula refers to, for symbols."""
    return copied(value, lambda each: _converted(each, trace))


def _converted(value: Any, trace: Trace) -> Any:
    """A module or a function that is noted as a whole; other functions as they are."""
    if isinstance(value, ModuleType):
        return _Module(value, trace)
    is_math = isinstance(value, BuiltinFunctionType) and value.__module__ == "math"
    if not is_math and not (isinstance(value, FunctionType) and value in derivatives.RULES):
        return value

    def call(*parts: Any) -> Any:
        if not any(isinstance(part, Symbol) for part in parts):
            return value(*parts)
        rule = derivatives.RULES.get(value)
        if trace.is_derived and (rule is None or len(inspect.signature(rule).parameters) != 1 + len(parts)):
            of = "" if rule is None else f" of {len(parts)} numbers"
            raise TypeError(f"no derivative of {value.__module__}.{value.__name__}{of} is known")
        return trace.note(value, *parts)

    return call


# ---------------------------------------------------------------- the chain rule


def _gradients(result: Any, arguments: Sequence[Symbol]) -> list[Any]:
    """The derivatives of a result with respect to each argument."""
    if not isinstance(result, Symbol):
        return [0.0] * len(arguments)
    adjoint: dict[int, Any] = {id(result): 1.0}
    for symbol in reversed(list(_order([result]))):
        own, rule = adjoint.get(id(symbol)), derivatives.RULES.get(symbol.made)
        if own is None or rule is None:
            continue  # an argument; or a comparison: a step, whose slope is 0
        for part, slope in zip(symbol.parts, rule(symbol, *symbol.parts), strict=True):
            if isinstance(part, Symbol) and not _is(slope, 0.0):
                more, before = _times(own, slope), adjoint.get(id(part))
                adjoint[id(part)] = more if before is None else before + more
    return [adjoint.get(id(argument), 0.0) for argument in arguments]


def _times(one: Any, other: Any) -> Any:
    if _is(one, 1.0):
        return other
    if _is(other, 1.0):
        return one
    if _is(other, -1.0):
        return -one
    return one * other


def _is(value: Any, number: float) -> bool:
    return not isinstance(value, Symbol) and value == number


def _order(symbols: Sequence[Any]) -> Iterator[Symbol]:
    """All symbols that these are computed of, each behind its parts."""
    seen: set[int] = set()
    stack = [(symbol, False) for symbol in reversed(symbols) if isinstance(symbol, Symbol)]
    while stack:
        symbol, is_ready = stack.pop()
        if is_ready:
            yield symbol
        elif id(symbol) not in seen:
            seen.add(id(symbol))
            stack.append((symbol, True))
            stack += [(part, False) for part in reversed(symbol.parts) if isinstance(part, Symbol)]


# ---------------------------------------------------------------- writing it down


class _Writer:
    """The text of a function of what was noted."""

    def __init__(self, arguments: Sequence[Symbol]):
        self.names: dict[str, Any] = {"math": math}
        self._texts = {id(argument): str(argument.made) for argument in arguments}
        self._counter = itertools.count()
        self.lines = [f"def derived({', '.join(self._texts.values())}):"]

    def write(self, ways: Sequence[tuple[list[tuple[Symbol, bool]], tuple[Any, ...]]], depth: int = 1) -> None:
        """The code that goes these ways, which have the first decisions in common, and returns their results."""
        kept = dict(self._texts)
        (decisions, results), *more = ways
        if not more:
            self._compute(results, depth)
            self._line(depth, f"return {', '.join(self._text(result) for result in results)},")
        else:
            condition = decisions[0][0]
            self._compute([condition], depth)
            self._line(depth, f"if {self._text(condition)}:")
            for answer in (True, False):
                chosen = [(taken[1:], found) for taken, found in ways if taken[0][1] is answer]
                self.write(chosen, depth + answer)
        self._texts = kept

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def _compute(self, symbols: Sequence[Any], depth: int) -> None:
        for symbol in _order(symbols):
            if id(symbol) not in self._texts:
                text = self._expression(symbol)
                name = self._texts[id(symbol)] = f"t{next(self._counter)}"
                self._line(depth, f"{name} = {text}")

    def _text(self, part: Any) -> str:
        if isinstance(part, Symbol):
            return self._texts[id(part)]
        if part != part:
            return "math.nan"
        text = repr(part) if abs(part) != math.inf else "-math.inf" if part < 0 else "math.inf"
        # -2.0 ** x is not what it looks like.
        return f"({text})" if text[0] == "-" else text

    def _expression(self, symbol: Symbol) -> str:
        parts = [self._number(part) for part in symbol.parts]
        if symbol.made == "neg":
            return f"-{parts[0]}"
        if isinstance(symbol.made, str):
            return f"{parts[0]} {symbol.made} {parts[1]}"
        function = symbol.made
        if function.__module__ == "math":
            return f"math.{function.__name__}({', '.join(parts)})"
        self.names[function.__name__] = function
        return f"{function.__name__}({', '.join(parts)})"

    def _number(self, part: Any) -> str:
        """A truth value that is computed with is 1 or 0."""
        if isinstance(part, bool):
            return "1.0" if part else "0.0"
        text, is_truth = self._text(part), isinstance(part, Symbol) and part.made in _COMPARED
        return f"(1.0 if {text} else 0.0)" if is_truth else text


class NotDerived(TypeError):
    """A formula does something of which no derivative is known."""


def takes_one(function: Any) -> bool:
    """True if it is a Python function that can be called with one number."""
    if not isinstance(getattr(function, "py_func", function), FunctionType):
        return False
    try:
        inspect.signature(function).bind(1.0)
    except TypeError:
        return False
    return True


def written(function: Callable[..., Any], name: str, *, gradient: bool) -> Callable[..., tuple[Any, ...]]:
    """The function of the same numbers that returns its value, and its derivative with respect to each.

    Args:
        function: a formula of one result: arithmetic, comparisons, branches, loops over known ranges, `math`, and calls
            of such functions. Parameters with defaults have these.
        name: what it is called in messages.
        gradient: whether the derivatives are wanted.

    Raises:
        TypeError: it does something else; the message names the line. NotDerived: that is so for derivatives.
    """
    empty = inspect.Parameter.empty
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    trace = Trace(sum(each.kind in kinds and each.default is empty for each in parameters), gradient)
    try:
        ways = [(list(taken), _result(found)) for taken, found in trace.ways(_of_symbols(function, trace))]
        writer = _Writer(trace.arguments)
        slopes = [_gradients(result, trace.arguments) if gradient else [] for _, result in ways]
        writer.write([(taken, (result, *more)) for (taken, result), more in zip(ways, slopes, strict=True)])
        text = "\n".join(writer.lines) + "\n"
        file = f"<{'derivative' if gradient else 'formula'} of {name!r}>"
        exec(compile(text, file, "exec"), writer.names)
    except Exception as error:
        text = f"{_said(error)}{_where(error)}"
        if gradient:
            raise NotDerived(f"{name} has no derivative that can be derived: {text}") from None
        raise TypeError(f"{name} has no form that kernels compile: {text}") from None
    # So that tracebacks and `inspect.getsource` show it.
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    derived: Callable[..., tuple[Any, ...]] = writer.names.pop("derived")
    return derived


def _result(found: Any) -> Any:
    if isinstance(found, tuple) and len(found) == 1:
        (found,) = found
    return _plain(found, "returns")


def _said(error: Exception) -> str:
    """An error's own words, with its kind where they alone say little."""
    return str(error) if isinstance(error, (TypeError, ArithmeticError)) else f"{type(error).__name__}: {error}"


#: The folder of what runs formulas on symbols.
_HERE = Path(__file__).parent


def _where(error: BaseException) -> str:
    """The line of the formula that an error comes from."""
    found, back = "", error.__traceback__
    while back is not None:
        name = back.tb_frame.f_code.co_filename
        if Path(name).parent != _HERE:
            line = linecache.getline(name, back.tb_lineno).strip()
            found = f"; line {back.tb_lineno} of {name}: {line}" if line else found
        back = back.tb_next
    return found
