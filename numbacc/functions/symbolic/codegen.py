"""Write the recorded operations of a trace as Python functions, and raise errors that name the formula's line."""

from __future__ import annotations

import itertools
import linecache
import math
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

from ...base.keywords import define
from ..arithmetic import hyperbolic_cosine, hyperbolic_tangent, quotient, square_root
from ..division import floor_divide, fmod_of_floats, remainder
from .captured import Refused
from .derivatives import one_if
from .trace import ELEMENTS, Symbol, Way, is_truth, order

_FILES = itertools.count(1)


class Text:
    """The source text of a function of numbers. Subclasses decide how it computes.

    Attributes:
        names: the objects that the text refers to, by name.
        lines: the lines so far.
    """

    def __init__(self, given: Sequence[Symbol]):
        self.names: dict[str, Any] = {"math": math}
        self._texts = {id(symbol): str(symbol.made) for symbol in given}
        self._counter = itertools.count()
        self.lines = [f"def derived({', '.join(self._texts.values())}):"]

    def function(self, file: str) -> Callable[..., tuple[Any, ...]]:
        """Return the generated function, with this name as its file."""
        text = "\n".join(self.lines) + "\n"
        # Several functions may have the same name; each gets its own file name.
        file = f"{file[:-1]} {next(_FILES)}>"
        define(text, file, self.names)
        derived: Callable[..., tuple[Any, ...]] = self.names.pop("derived")
        weakref.finalize(derived, linecache.cache.pop, file, None)
        return derived

    def _named(self, value: Any, name: str) -> str:
        """Return the name for a function in the text: the given name, or a similar one if that is in use."""
        names = itertools.chain([name], (f"{name}_{k}" for k in itertools.count(2)))
        found = next(each for each in names if self.names.get(each, value) is value)
        self.names[found] = value
        return found

    def write(self, ways: Sequence[Way]) -> None:
        """Write the code that follows these paths and returns their results."""
        raise NotImplementedError

    def _expression(self, symbol: Symbol) -> str:
        raise NotImplementedError

    def _line(self, text: str, depth: int = 1) -> None:
        self.lines.append("    " * depth + text)

    def _kept(self, text: str, depth: int = 1) -> str:
        """Return the name of a new variable with this value."""
        name = f"t{next(self._counter)}"
        self._line(f"{name} = {text}", depth)
        return name

    def _compute(self, symbols: Sequence[Any], depth: int = 1) -> None:
        for symbol in order(symbols):
            if id(symbol) not in self._texts:
                self._texts[id(symbol)] = self._kept(self._expression(symbol), depth)

    def _text(self, part: Any) -> str:
        if isinstance(part, Symbol):
            return self._texts[id(part)]
        if part != part:
            return "math.nan"
        text = repr(part) if abs(part) != math.inf else "-math.inf" if part < 0 else "math.inf"
        # Python reads -2.0 ** x as -(2.0 ** x).
        return f"({text})" if text[0] == "-" else text


#: Operators and functions -> the functions to call instead. Numba's % and // give NaN for infinities. For the others,
#: kernels have faster versions if results are narrow.
_CALLED: dict[Any, Any] = {
    "%": remainder, "//": floor_divide, "/": quotient, math.fmod: fmod_of_floats, math.sqrt: square_root,
    math.tanh: hyperbolic_tangent, math.cosh: hyperbolic_cosine,
}  # fmt: skip


class ScalarText(Text):
    """A function of numbers, with branches. Kernels compile it, and Python can run it."""

    def write(self, ways: Sequence[Way], depth: int = 1) -> None:
        """Write the code that follows these paths, which share their first decisions, and returns their results."""
        kept = dict(self._texts)
        (decisions, results), *more = ways
        if not more:
            self._compute(results, depth)
            self._line(f"return {', '.join(map(self._number, results))},", depth)
        else:
            condition = decisions[0][0]
            self._compute([condition], depth)
            self._line(f"if {self._text(condition)}:", depth)
            for answer in (True, False):
                self.write(taking(ways, answer), depth + answer)
        self._texts = kept

    def _expression(self, symbol: Symbol) -> str:
        parts = [self._number(part) for part in symbol.parts]
        if symbol.made == "neg":
            return f"-{parts[0]}"
        if isinstance(symbol.made, str) and symbol.made not in _CALLED:
            return f"{parts[0]} {symbol.made} {parts[1]}"
        return f"{self._callee(_CALLED.get(symbol.made, symbol.made))}({', '.join(parts)})"

    def _callee(self, function: Any) -> str:
        if function.__module__ == "math":
            return f"math.{function.__name__}"
        return self._named(function, function.__name__)

    def _number(self, part: Any) -> str:
        """Write a truth value as 1 or 0, since it is used as a number."""
        if isinstance(part, bool):
            return "1.0" if part else "0.0"
        return f"{self._callee(one_if)}({self._text(part)})" if is_truth(part) else self._text(part)


def taking(ways: Sequence[Way], answer: bool) -> list[Way]:
    """Return the paths whose first decision has this answer, without that decision."""
    return [(taken[1:], results) for taken, results in ways if taken[0][1] is answer]


# ---------------------------------------------------------------- messages


@contextmanager
def told(what: str, function: Callable[..., Any], raised: type[TypeError] = TypeError) -> Iterator[None]:
    """Turn any error inside this context into one that names the problem, its reason and the formula's line."""
    try:
        yield
    except Exception as error:
        code = getattr(function, "py_func", function).__code__
        raise raised(f"{what}: {_said(error, _called(error))}{_where(error) or _begins(code)}") from None


def _said(error: Exception, called: str) -> str:
    """Return an error's text, with its type if the text alone is unclear. `called` is the function that fails."""
    if isinstance(error, Refused):
        return f"in {called} {error}" if called else str(error)
    if type(error).__module__.startswith("numbacc."):  # only functions of arrays raise these errors
        name = called or "a function"
        return (
            f"it calls {name}, which needs arrays, not numbers: call it with arrays and pass its result as an argument"
        )
    # Users do not know the class that stands for numbers.
    text = re.sub(rf"\b{Symbol.__name__}\b", "number", str(error))
    if re.search(r"'number' .*(subscriptable|iterable|reversible|iterator|len\(\))", text):
        text += f": {ELEMENTS}"
    return text if isinstance(error, (TypeError, ArithmeticError)) else f"{type(error).__name__}: {text}"


#: The beginnings of file names of numbacc's own functions, which a formula may call. Some functions are generated.
_OWN = (str(Path(__file__).parents[2]), "<numbacc.", "<formula of ", "<derivative of ", "<gradient of ", "<arrays of ")


def _frames(error: BaseException) -> Iterator[tuple[CodeType, int, bool]]:
    """Yield (code, line, whether it is numbacc's own) of the functions that ran on symbols, the outermost first."""
    back = error.__traceback__
    while back is not None:
        code = back.tb_frame.f_code
        # Code that runs on symbols is a copy; its globals lack the module's `__name__`.
        if "__name__" not in back.tb_frame.f_globals:
            yield code, back.tb_lineno, code.co_filename.startswith(_OWN)
        back = back.tb_next


def _called(error: BaseException) -> str:
    """Return the name of numbacc's function that a formula calls and that fails; "" if the formula itself fails."""
    found = ""
    for code, _, is_own in _frames(error):
        found = (found or code.co_name) if is_own else ""
    return found


def _where(error: BaseException) -> str:
    """Return the line of the formula that an error comes from. In a function of numbacc, it is the call's line."""
    found = own = ""
    for code, number, is_own in _frames(error):
        line = _line(code.co_filename, number)
        if is_own:
            own = line or own
        else:
            found = line
    return found or own


def _begins(code: CodeType) -> str:
    """Return the first line of a function, after its decorators."""
    number = code.co_firstlineno
    while linecache.getline(code.co_filename, number).lstrip().startswith("@"):
        number += 1
    return _line(code.co_filename, number)


def _line(file: str, number: int) -> str:
    """Return a description of a line: its number, and its text if known; "" for numbacc's lines without text."""
    text = linecache.getline(file, number).strip()
    if not text and file.startswith(_OWN):
        return ""
    return f"; line {number} of {file}{text and ': '}{text}"
