"""What was noted of symbols (see `symbols`), written down as Python functions; and what is said where that fails."""

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
from ..arithmetic import quotient, square_root
from ..division import floor_divide, fmod_of_floats, remainder
from .captured import Refused
from .derivatives import one_if
from .trace import ELEMENTS, Symbol, Way, is_truth, order

_FILES = itertools.count(1)


class Text:
    """The text of a function of numbers that are given; how it computes, those derived from this say.

    Attributes:
        names: what it refers to.
        lines: its lines so far.
    """

    def __init__(self, given: Sequence[Symbol]):
        self.names: dict[str, Any] = {"math": math}
        self._texts = {id(symbol): str(symbol.made) for symbol in given}
        self._counter = itertools.count()
        self.lines = [f"def derived({', '.join(self._texts.values())}):"]

    def function(self, file: str) -> Callable[..., tuple[Any, ...]]:
        """The function that was written down, as if it were in a file of this name."""
        text = "\n".join(self.lines) + "\n"
        # Functions may have one name: each has a file of its own.
        file = f"{file[:-1]} {next(_FILES)}>"
        define(text, file, self.names)
        derived: Callable[..., tuple[Any, ...]] = self.names.pop("derived")
        weakref.finalize(derived, linecache.cache.pop, file, None)
        return derived

    def _named(self, value: Any, name: str) -> str:
        """The name that the text has for a function: this one, or one like it that stands for no other function."""
        names = itertools.chain([name], (f"{name}_{k}" for k in itertools.count(2)))
        found = next(each for each in names if self.names.get(each, value) is value)
        self.names[found] = value
        return found

    def write(self, ways: Sequence[Way]) -> None:
        """The code that goes these ways and returns their results."""
        raise NotImplementedError

    def _expression(self, symbol: Symbol) -> str:
        raise NotImplementedError

    def _line(self, text: str, depth: int = 1) -> None:
        self.lines.append("    " * depth + text)

    def _kept(self, text: str, depth: int = 1) -> str:
        """The name of a variable that is this."""
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
        # -2.0 ** x is not what it looks like.
        return f"({text})" if text[0] == "-" else text


#: Of infinities what Numba makes of the first two is NaN; and of the others kernels have quicker ones, where results
#: are narrow.
_CALLED: dict[Any, Any] = {
    "%": remainder, "//": floor_divide, "/": quotient, math.fmod: fmod_of_floats, math.sqrt: square_root
}  # fmt: skip


class ScalarText(Text):
    """A function of numbers, with branches: what kernels compile, and Python runs."""

    def write(self, ways: Sequence[Way], depth: int = 1) -> None:
        """The code that goes these ways, which have the first decisions in common, and returns their results."""
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
        """A truth value that is computed with is 1 or 0."""
        if isinstance(part, bool):
            return "1.0" if part else "0.0"
        return f"{self._callee(one_if)}({self._text(part)})" if is_truth(part) else self._text(part)


def taking(ways: Sequence[Way], answer: bool) -> list[Way]:
    """Those of the ways on which the first decision is this, from there on."""
    return [(taken[1:], results) for taken, results in ways if taken[0][1] is answer]


# ---------------------------------------------------------------- messages


@contextmanager
def told(what: str, function: Callable[..., Any], raised: type[TypeError] = TypeError) -> Iterator[None]:
    """Whatever fails within is raised as one error that says what, why and where in the formula."""
    try:
        yield
    except Exception as error:
        code = getattr(function, "py_func", function).__code__
        raise raised(f"{what}: {_said(error, _called(error))}{_where(error) or _begins(code)}") from None


def _said(error: Exception, called: str) -> str:
    """An error's own words, with its kind where they alone say little; `called` is the function that fails."""
    if isinstance(error, Refused):
        return f"in {called} {error}" if called else str(error)
    if type(error).__module__.startswith("numbacc."):  # only functions of arrays raise such
        name = called or "a function"
        return f"it calls {name}, which in formulas takes no numbers: call it with arrays, and pass what it returns"
    # What stands for numbers has a name that no formula knows.
    text = re.sub(rf"\b{Symbol.__name__}\b", "number", str(error))
    if re.search(r"'number' .*(subscriptable|iterable|reversible|iterator|len\(\))", text):
        text += f": {ELEMENTS}"
    return text if isinstance(error, (TypeError, ArithmeticError)) else f"{type(error).__name__}: {text}"


#: How the files of numbacc's own functions begin, which a formula may call; some are written down, as here.
_OWN = (str(Path(__file__).parents[2]), "<numbacc.", "<formula of ", "<derivative of ", "<gradient of ", "<arrays of ")


def _frames(error: BaseException) -> Iterator[tuple[CodeType, int, bool]]:
    """(code, line, whether it is numbacc's own) of what was run on symbols when an error was raised, from outside."""
    back = error.__traceback__
    while back is not None:
        code = back.tb_frame.f_code
        # What runs on symbols is a copy, which has the names that it uses, and no module's own.
        if "__name__" not in back.tb_frame.f_globals:
            yield code, back.tb_lineno, code.co_filename.startswith(_OWN)
        back = back.tb_next


def _called(error: BaseException) -> str:
    """The name of the function of numbacc's that a formula calls, where that fails; "" where the formula does."""
    found = ""
    for code, _, is_own in _frames(error):
        found = (found or code.co_name) if is_own else ""
    return found


def _where(error: BaseException) -> str:
    """The line of the formula that an error comes from: of a function of numbacc's that it calls, the call."""
    found = own = ""
    for code, number, is_own in _frames(error):
        line = _line(code.co_filename, number)
        if is_own:
            own = line or own
        else:
            found = line
    return found or own


def _begins(code: CodeType) -> str:
    """The line that a function begins with, behind its decorators."""
    number = code.co_firstlineno
    while linecache.getline(code.co_filename, number).lstrip().startswith("@"):
        number += 1
    return _line(code.co_filename, number)


def _line(file: str, number: int) -> str:
    """A line by its number, with its text where that is known; "" of numbacc's own where it is not."""
    text = linecache.getline(file, number).strip()
    if not text and file.startswith(_OWN):
        return ""
    return f"; line {number} of {file}{text and ': '}{text}"
