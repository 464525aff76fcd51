"""Run functions on symbols instead of numbers, and record the operations on the symbols.

Operations that need numbers which are known only when a kernel runs raise errors; the messages name an alternative.
NumPy's functions and SciPy's ufuncs are recognized by their names.

A function runs once for each path through its branches. The recorded operations can be derived (`derive`) and are
written as source text again (`codegen`), for kernels or for arrays (`vectorized`).
"""

from __future__ import annotations

import builtins
import inspect
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NoReturn

import numpy as np

from .. import arithmetic, digamma, division, exponentials
from . import derivatives
from .captured import Refused, changing
from .ieee_math import Known, copied, known_math
from .opaque_functions import WHOLES, larger, smaller

# ---------------------------------------------------------------- operations that need known numbers

_WHEN = "a number that is only known when it runs"
#: The hint after Python's message that a number is not a sequence.
ELEMENTS = "a formula gets one element of each array: pass other elements as arguments, for example x[1:] and x[:-1]"
#: The message for & | ^ with operands that are not truth values.
COMBINES = (
    "it combines bits of numbers: for truth values, write `and`, `or`, `!=`; for arrays of integers, call "
    "elementwise.bitwise_and, bitwise_or, bitwise_xor"
)
_SHIFTS = "multiply by a power of 2.0, or call elementwise.left_shift or right_shift with arrays"
_MATRICES = "use * for numbers, and gemm.matmul for arrays"

#: Special method -> what it does and what to do instead, for messages.
_REFUSED = {
    "float": f"makes a Python float of {_WHEN}: leave float() out, the kernel's number is a float",
    "int": f"makes a Python integer of {_WHEN}: use math.trunc, math.floor or round",
    "index": f"uses {_WHEN} as an index or as the length of a loop: use comparisons or elementwise.where",
    "complex": f"makes a complex number of {_WHEN}: formulas compute with real numbers",
    "call": "calls a number",
    "enter": "enters a number, as if it were a context",
    "hash": f"looks up {_WHEN} in a set, a dict or a cache: compare with ==",
    "str": f"prints {_WHEN}: call the Python function itself (py_func) to see numbers",
    "format": f"prints {_WHEN}: call the Python function itself (py_func) to see numbers",
    "invert": "uses ~ on a number: write `not` for truth values; call elementwise.bitwise_not for arrays of integers",
    **dict.fromkeys(("lshift", "rlshift", "rshift", "rrshift"), f"shifts bits of numbers: {_SHIFTS}"),
    **dict.fromkeys(("matmul", "rmatmul"), f"multiplies matrices with @: {_MATRICES}"),
}
_REDUCTIONS = "use elementwise.reduction"
#: Attribute -> what to do instead.
_INSTEAD = {
    **dict.fromkeys(("sum", "mean", "max", "min", "prod", "any", "all", "std", "var"), _REDUCTIONS),
    **dict.fromkeys(("real", "conjugate", "conj", "copy", "item", "astype"), "leave it out"),
    "is_integer": "compare x == math.floor(x)",
    "clip": "use elementwise.clamp",
    "round": "use round(x)",
}
#: Function of `math` that kernels do not have -> what to do instead.
OTHERS = {
    "fsum": "use sum",
    "sumprod": "use sum",
    "dist": "use math.hypot of the differences",
    "isclose": "compare abs(x - y) <= tolerance",
    "modf": "math.trunc(x) is the whole part, x - math.trunc(x) the rest",
    "frexp": "math.floor(math.log2(abs(x))) is the exponent",
    "ldexp": "multiply by 2.0 ** n",
    **dict.fromkeys(("nextafter", "ulp"), "call elementwise.nextafter with arrays"),
    "factorial": "use math.gamma(x + 1)",
    "isqrt": "use math.floor(math.sqrt(x))",
    "hypot": "for more than three numbers, use math.sqrt of the sum of squares",
}


class Unknown:
    """A number that is known only when a kernel runs."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        hint = f": {_INSTEAD[name]}" if name in _INSTEAD else ""
        raise Refused(f"it uses .{name} of a number, which kernels do not support{hint}")

    def __repr__(self) -> str:
        return f"<{_WHEN}>"


def _refusing(does: str) -> Callable[..., NoReturn]:
    def refuse(*given: Any) -> NoReturn:
        raise Refused(f"it {does}")

    return refuse


for _name, _does in _REFUSED.items():
    setattr(Unknown, f"__{_name}__", _refusing(_does))


# ---------------------------------------------------------------- NumPy's functions of numbers


def rounded(x: Any, decimals: int = 0) -> Any:
    """Return the whole number nearest to x, with ties rounded to even."""
    if decimals:
        raise TypeError("it rounds to decimals: write round(x * 100) / 100")
    return arithmetic.rint(x)


def _both(a: Any, b: Any) -> Any:
    return (b != 0) if a != 0 else False


def _either(a: Any, b: Any) -> Any:
    return True if a != 0 else (b != 0)


#: Functions that have the same name in NumPy and in `math`.
_SAME = (
    "ceil", "copysign", "cos", "cosh", "degrees", "exp", "expm1", "floor", "fmod", "hypot", "isfinite", "isinf",
    "isnan", "log", "log10", "log1p", "log2", "radians", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
#: Name of a NumPy function -> the scalar function. Opaque functions are added to it.
NAMESAKES: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in _SAME},
    **{f"arc{name}": getattr(math, f"a{name}") for name in ["sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2"]},
    "absolute": math.fabs, "fabs": math.fabs, "rint": rounded, "round": rounded, "around": rounded,
    "cbrt": arithmetic.cbrt, "exp2": arithmetic.exp2, "square": lambda x: x * x, "reciprocal": lambda x: 1.0 / x,
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "true_divide": operator.truediv, "floor_divide": division.floor_divide, "remainder": division.remainder,
    "mod": division.remainder, "power": operator.pow, "negative": operator.neg, "positive": operator.pos,
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
    "equal": operator.eq, "not_equal": operator.ne, "deg2rad": math.radians, "rad2deg": math.degrees,
    "logical_and": _both, "logical_or": _either, "logical_not": lambda x: x == 0,
    "logical_xor": lambda a, b: (a != 0) != (b != 0),
    "erf": math.erf, "erfc": math.erfc, "gammaln": math.lgamma, "gamma": math.gamma, "psi": digamma.digamma,
    "expit": exponentials.sigmoid,
}  # fmt: skip
#: The types of NumPy's functions.
KINDS = (np.ufunc, type(np.where))
#: Names that need `elementwise`, which gates work without -> what to do.
LATER = dict.fromkeys(
    ("maximum", "minimum", "where", "clip", "sign"), ": import numbacc.elementwise, which provides it"
)

# ---------------------------------------------------------------- symbols

#: The maximum number of paths through a function's branches, and of branches on a path.
MOST_WAYS = 64

#: The decisions on one path through a function, and its results.
Way = tuple[list[tuple["Symbol", bool]], tuple[Any, ...]]

BINARY = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow,
}  # fmt: skip
COMPARED = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


class Symbol(Unknown):
    """A number that is not known: an argument, or the result of an operation.

    Attributes:
        trace: the trace that recorded it.
        made: the operator or function that computes it, or the name of an argument.
        parts: the operands, symbols and numbers.
        is_derived: whether its derivative is needed and not 0.
    """

    __slots__ = ("is_derived", "made", "parts", "trace")
    # == compares the numbers that symbols stand for. Symbols are distinguished by `id` and cannot be members of sets.
    __hash__ = Unknown.__hash__

    def __init__(self, trace: SymbolicTrace, made: Any, parts: tuple[Any, ...], is_derived: bool):
        self.trace, self.made, self.parts, self.is_derived = trace, made, parts, is_derived

    def __bool__(self) -> bool:
        return self.trace.decide(self)

    def __neg__(self) -> Any:
        # A false truth value counts as 0, and its negative must be 0, not -0.0.
        return self.trace.note("-", 0, self) if is_truth(self) else self.trace.note("neg", self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self.trace.note(math.fabs, self)

    def __round__(self, decimals: Any = None) -> Any:
        return self.trace.call(rounded, self, decimals or 0)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    # For truth values, these are `and` and `or`.
    def __and__(self, other: Any) -> Any:
        _check_truths(self, other)
        return other if self else False

    def __or__(self, other: Any) -> Any:
        _check_truths(self, other)
        return True if self else other

    def __xor__(self, other: Any) -> Any:
        _check_truths(self, other)
        return self != other

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__


def _check_truths(*parts: Any) -> None:
    if not all(map(is_truth, parts)):
        raise Refused(COMBINES)


def _add_operators() -> None:
    for text in (*BINARY, *COMPARED):
        name = (BINARY | COMPARED)[text].__name__

        def forward(self: Symbol, other: Any, *more: Any, text: str = text) -> Any:
            if more:
                raise Refused("it calls pow with a modulus, which is for integers: write x ** y % m")
            return self.trace.note(text, self, other)

        def reflected(self: Symbol, other: Any, *, text: str = text) -> Any:
            return self.trace.note(text, other, self)

        setattr(Symbol, f"__{name}__", forward)
        if text in BINARY:
            setattr(Symbol, f"__r{name}__", reflected)


_add_operators()


class SymbolicTrace:
    """The operations that a function performs on symbols, on one path after the other.

    Args:
        arguments: the number of the function's arguments.
        wanted: the number of first arguments to derive by.
        most: the maximum number of paths.
    """

    def __init__(self, arguments: int, wanted: int, most: int = MOST_WAYS):
        self._noted: dict[Any, Symbol] = {}
        self.arguments = tuple(self.unknown(f"x{k}", is_derived=k < wanted) for k in range(arguments))
        self._most = most
        self._script: list[bool] = []
        self.taken: list[tuple[Symbol, bool]] = []

    def unknown(self, name: str, *, is_derived: bool = False) -> Symbol:
        """Return a symbol for a given number."""
        return self._symbol(name, (), is_derived)

    def _symbol(self, made: Any, parts: tuple[Any, ...], is_derived: bool) -> Symbol:
        # Equal numbers such as 1 and 1.0 or 0.0 and -0.0 are distinguished by their representations.
        key = (made, *(id(part) if isinstance(part, Symbol) else repr(part) for part in parts))
        if key not in self._noted:
            self._noted[key] = Symbol(self, made, parts, is_derived)
        return self._noted[key]

    def note(self, made: Any, *parts: Any) -> Any:
        """Return the symbol for the result of an operator or function applied to symbols and numbers."""
        return self._symbol(made, tuple([_plain(part, "computes with") for part in parts]), any(map(is_derived, parts)))

    def call(self, function: Callable[..., Any], *parts: Any) -> Any:
        """Return the result of a function applied to symbols and numbers, as if a formula called it."""
        return copied(function, lambda each: _of_symbols(each, self))(*parts)

    def decide(self, condition: Symbol) -> bool:
        """Return which branch to take: the script's answer if it has one, else True."""
        for known, answer in self.taken:
            if known is condition:
                return answer
        number = len(self.taken)
        if number >= self._most:
            raise TypeError("it has a loop whose length depends on the numbers, or too many branches")
        answer = self._script[number] if number < len(self._script) else True
        self.taken.append((condition, answer))
        return answer

    def ways(self, function: Callable[..., Any]) -> Iterator[Way]:
        """Yield (the decisions, the results) of each path."""
        pending: list[list[bool]] = [[]]
        for _ in range(self._most):
            self._script, self.taken = pending.pop(), []
            results = _results(function(*self.arguments))
            yield self.taken, results
            answers = [answer for _, answer in self.taken]
            pending += [[*answers[:k], False] for k in range(len(self._script), len(answers))]
            if not pending:
                return
        raise TypeError(f"there are more than {self._most} paths through its branches")


def traced(
    function: Callable[..., Any], wanted: int | None = 0, *, most: int = MOST_WAYS, is_open: bool = False
) -> tuple[SymbolicTrace, list[Way]]:
    """Run a function on symbols. Return the trace and all paths through the function.

    Args:
        function: a function of numbers. Parameters with defaults have their defaults.
        wanted: the number of first arguments to derive by; None for all.
        most: the maximum number of paths.
        is_open: whether to look into `function` itself, even if traces record it as one operation when others call it.

    Raises:
        TypeError, or any error of the function itself: it cannot be run on symbols.
    """
    empty = inspect.Parameter.empty
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    arguments = sum(each.kind in kinds and each.default is empty for each in parameters)
    trace = SymbolicTrace(arguments, arguments if wanted is None else wanted, most)
    opened = function if is_open else None
    ways = list(trace.ways(copied(function, lambda each: each if each is opened else _of_symbols(each, trace))))
    counts = sorted({len(results) for _, results in ways})
    if len(counts) > 1:
        raise TypeError(f"it returns {counts[0]} numbers on one path and {counts[-1]} on another")
    return trace, ways


def _results(found: Any) -> tuple[Any, ...]:
    results = found if isinstance(found, tuple) else (found,)
    if not results:
        raise TypeError("it returns no number")
    return tuple([_plain(result, "returns") for result in results])


#: The largest integer that can become a float.
_LARGEST = int(1.7976931348623157e308)


def _plain(part: Any, does: str) -> Any:
    """Return a symbol unchanged, and a number as a Python number."""
    if isinstance(part, Symbol):
        return part
    if isinstance(part, (bool, np.bool_)):
        return bool(part)
    if isinstance(part, (int, np.integer)):
        if abs(int(part)) > _LARGEST:
            raise TypeError(f"it {does} an integer that float64 cannot represent")
        return int(part)
    if isinstance(part, (float, np.floating)):
        return float(part)
    raise TypeError(f"it {does} a {type(part).__name__}, which is not a real number")


def is_derived(part: Any) -> bool:
    """Return whether `part` is a symbol whose derivative is wanted."""
    return isinstance(part, Symbol) and part.is_derived


# ---------------------------------------------------------------- objects that functions refer to


class _Module:
    """A stand-in for a module. Its functions accept symbols."""

    def __init__(self, module: ModuleType, trace: SymbolicTrace):
        self._module, self._trace = module, trace

    def __getattr__(self, name: str) -> Any:
        return copied(getattr(self._module, name), lambda each: _of_symbols(each, self._trace))


def _of_symbols(value: Any, trace: SymbolicTrace) -> Any:
    """Return the stand-in for a module or an opaque function that accepts symbols; return other values unchanged."""
    if (refusing := changing(value)) is not None:
        return refusing
    if isinstance(value, ModuleType):
        return _Module(value, trace)
    if type(value) is float:
        return Known(value)
    if value is builtins.max or value is builtins.min:
        return _extreme(value, larger if value is builtins.max else smaller, trace)
    if value is builtins.isinstance or value is builtins.type:
        return _kind if value is builtins.type else _is_of_kind
    if value is derivatives.one_if:
        # A truth value in arithmetic is written as a number everywhere.
        return lambda condition: condition if isinstance(condition, Symbol) else value(condition)
    if isinstance(value, KINDS):
        return _numpys(value, trace)
    return _noting(value, trace) if is_whole(value) else value


def is_whole(value: Any) -> bool:
    """Return whether a trace records calls of the function as one operation."""
    if isinstance(value, FunctionType):
        return derivatives.numbers_of(value) is not None
    return isinstance(value, BuiltinFunctionType) and value.__module__ == "math"


def _kind(*given: Any) -> Any:
    """Return the result of `type`; for a symbol, the type that it stands for."""
    return (bool if is_truth(given[0]) else float) if isinstance(given[0], Symbol) else type(*given)


def _is_of_kind(value: Any, kinds: Any) -> bool:
    """Return the result of `isinstance`; for a symbol, that for the value that it stands for."""
    known = tuple(type if each is _kind else each for each in kinds) if isinstance(kinds, tuple) else kinds
    stands_for = (is_truth(value) or 0.5) if isinstance(value, Symbol) else value
    return isinstance(stands_for, type if known is _kind else known)


def _has_symbols(parts: Iterable[Any]) -> bool:
    return any(isinstance(part, Symbol) for part in parts)


def _known(found: Any) -> Any:
    return Known(found) if isinstance(found, (float, np.floating)) else found


def _numpys(function: Any, trace: SymbolicTrace) -> Callable[..., Any]:
    """Return a NumPy function that, for symbols, calls the scalar function of the same name."""

    def call(*parts: Any, **more: Any) -> Any:
        if not _has_symbols((*parts, *more.values())):
            return _known(function(*parts, **more))
        name, of_numbers = function.__name__, NAMESAKES.get(function.__name__)
        if of_numbers is None:
            raise Refused(f"it calls numpy.{name}, which formulas do not support{LATER.get(name, '')}")
        if more:
            raise Refused(f"it calls numpy.{name} with {next(iter(more))}=, which formulas do not support")
        return trace.call(of_numbers, *parts)

    return call


def _noting(function: Any, trace: SymbolicTrace) -> Callable[..., Any]:
    """Return a scalar function that records its call if it is called with symbols."""
    noted = derivatives.OURS.get(function, function)
    count, has_rule = derivatives.numbers_of(noted), derivatives.has_derivative(noted)
    of_numbers = known_math(function) if function.__module__ == "math" else function

    def call(*parts: Any, **more: Any) -> Any:
        inner = [each for part in parts if isinstance(part, (list, tuple)) for each in part]
        # math.prod multiplies the numbers in a list, so that symbols in it need no special treatment.
        if not _has_symbols((*parts, *more.values())) and (function is math.prod or not _has_symbols(inner)):
            return _known(of_numbers(*parts, **more))
        if (function, len(parts)) in _BY_COUNT and not more:
            return trace.call(_BY_COUNT[function, len(parts)], *parts)
        if noted in WHOLES and not has_rule and any(map(is_derived, parts)):
            return copied(noted, lambda each: each if each is noted else _of_symbols(each, trace))(*parts)
        name = f"{function.__module__}.{function.__name__}"
        fits = len(parts) == count and not more
        of = "" if fits or count is None else f" of {len(parts)} numbers"
        of = f" with {next(iter(more))}=" if more else of
        if any(map(is_derived, parts)) and not (fits and has_rule) and count is not None:
            raise Refused(f"no derivative of {name}{of} is known")
        if not fits:
            hint = f": {OTHERS[function.__name__]}" if function.__name__ in OTHERS else ""
            raise Refused(f"it calls {name}{of}, which kernels do not support{hint}")
        return trace.note(noted, *parts)

    return call


#: (function of `math`, number of its arguments) -> the function that it stands for.
_BY_COUNT: dict[Any, Callable[..., Any]] = {
    (math.log, 2): lambda x, base: math.log(x) / math.log(base),
    (math.hypot, 1): math.fabs,
    (math.hypot, 3): derivatives.hypot_of_three,
}


def _extreme(function: Any, of_two: Any, trace: SymbolicTrace) -> Callable[..., Any]:
    """Return Python's `max` or `min`. For symbols, it records functions of two arguments, one after the other."""

    def call(*parts: Any, **more: Any) -> Any:
        among = parts if len(parts) != 1 else tuple(parts[0])
        numbers = [part for part in among if not is_truth(part)]
        if more or not numbers or not any(isinstance(part, Symbol) for part in among):
            return function(*([among] if len(parts) == 1 else parts), **more)
        found = among[0]
        for part in among[1:]:
            found = trace.note(of_two, found, part)
        return found

    return call


# ---------------------------------------------------------------- noted operations


def is_truth(part: Any) -> bool:
    """Return whether `part` is a truth value."""
    return isinstance(part, bool) or (isinstance(part, Symbol) and (part.made in COMPARED or part.made in _PREDICATES))


_PREDICATES = (math.isnan, math.isinf, math.isfinite)


def order(symbols: Sequence[Any]) -> Iterator[Symbol]:
    """Yield all symbols that these depend on, each after its parts."""
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
