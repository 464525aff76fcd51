"""Score and mask functions: Python functions that change the scores of attention, or say which keys a query sees.

    S = f(scale q · k, batch, head, query, key, *elements)     where g(batch, head, query, key), else -inf

Both functions are traced, so kernels and NumPy run the same code, and the gradients are derived by the chain rule. A
mask function that cannot be traced, since it reads an array by position, is called once with arrays of positions; its
result is then an operand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from types import FunctionType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ..arrays import operands as arrays_of
from ..arrays.creation import asarray
from ..base.dtypes import info
from ..base.layout import Layout, check_same_device
from ..errors import DTypeError, OptionError, ShapeError, UnsupportedError, shown
from ..functions.formula import Formula, digest
from ..functions.symbolic.captured import Outside
from ..functions.symbolic.derive import backward
from ..functions.symbolic.trace import COMPARED, Symbol, order, traced
from ..functions.symbolic.vectorized import vectorized
from ..plan.python_functions import choosing_results, frozen, meaning_of, python_function, taken_by
from .masks import CausalSlidingWindow, SlidingWindow

#: Query positions that a mask function is evaluated for at once, with all keys.
_ROWS = 256
#: The queries and keys in a block of the map that NumPy uses.
_TALL, _WIDE = 128, 64
#: The parameters after the elements: the position of a score.
POSITION = ("batch", "head", "query", "key")
#: The states of a block of scores in a block map.
EMPTY, PARTIAL, FULL = 0, 1, 2


class _Traced:
    """A user's function with the current values of its globals and closures.

    Attributes:
        name: for messages.
        function: a copy of the function whose options have their defaults.
        count: the number of its parameters.
        outside: the values that it read.
        digest: equal for functions that compile to the same code; None if it cannot be traced.
        error: why it cannot be traced, or None.
    """

    def __init__(self, function: FunctionType, what: str):
        self.name = function.__name__
        numbers, options = taken_by(function, self.name)
        # First, so that a change during the tracing is noticed, too.
        self.outside, self.count = Outside([function]), len(numbers)
        if self.count < len(POSITION) + (what == "score"):
            wanted = "(score, batch, head, query, key, *elements)" if what == "score" else "(batch, head, query, key)"
            raise OptionError(f"{what}={self.name} has {self.count} parameters; it must take {wanted}")
        self.digest: str | None = None
        self.error: UnsupportedError | None = None
        try:
            fixed = frozen(function)
            assert isinstance(fixed, FunctionType)
            fixed.__defaults__ = tuple(options.values()) or None
            meaning, results = meaning_of(fixed, self.name)
        except (UnsupportedError, TypeError) as error:
            self.error = error if isinstance(error, UnsupportedError) else UnsupportedError(str(error))
            return
        if len(results) != 1:
            raise OptionError(f"{what}={self.name} returns {len(results)} results; it must return one")
        self.function: Callable[..., Any] = fixed
        self.digest = digest(meaning.scalar, "float32", False)
        self.numpy = meaning.numpy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Traced) and self.digest is not None and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


#: (function's role -> function -> its part). Functions that are gone are forgotten.
_known: dict[str, WeakKeyDictionary[Any, _Traced]] = {"score": WeakKeyDictionary(), "mask": WeakKeyDictionary()}


def _part(given: Any, what: str) -> _Traced:
    function = python_function(given, what)
    found = _known[what].get(function)
    if found is None or found.outside.changed():
        found = _known[what][function] = _Traced(function, what)
    return found


class ScoreFunction:
    """A score function and a mask function as one function of a score.

    Equal functions compile to the same code, so calls with equal lambdas share their plans.

    Attributes:
        name: for messages.
        count: the number of elements, one for each operand.
        scalar, numpy: (score, *elements, batch, head, query, key) -> (the new score,): for numbers, and for arrays.
        score, mask: the traced functions; None for each that does not exist.
        has_score: whether there is a score function.
        has_cells: whether the last element says whether the query sees the key.
    """

    def __init__(self, score: _Traced | None, mask: _Traced | None, has_cells: bool):
        self.name = "mask" if score is None and mask is None else (score or mask).name  # type: ignore[union-attr]
        self.count = (0 if score is None else score.count - 1 - len(POSITION)) + has_cells
        names = [f"x{k}" for k in range(self.count)]
        own = names[: len(names) - has_cells]
        # The mask comes first: the score function is not evaluated for hidden keys, and its gradient is 0 there.
        lines = [f"def combined({', '.join(['score', *names, *POSITION])}):"]
        if mask is not None:
            lines += [f"    if not mask({', '.join(POSITION)}):", "        return -inf"]
        if has_cells:
            lines += [f"    if {names[-1]} == 0:", "        return -inf"]
        value = "score" if score is None else f"function({', '.join(['score', *POSITION, *own])})"
        space: dict[str, Any] = {
            "function": score and score.function, "mask": mask and mask.function, "inf": math.inf,
        }  # fmt: skip
        exec("\n".join([*lines, f"    return {value}\n"]), space)
        self._function: Callable[..., Any] = space["combined"]
        (self.scalar, self.numpy), _ = meaning_of(self._function, self.name)
        self.score, self.mask, self.has_cells, self.has_score = score, mask, has_cells, score is not None
        self._derived = self.count - has_cells
        self.digest = f"{self.count} {digest(self.scalar, 'float32', False)}"
        self._gradients: dict[tuple[int, ...], Formula] = {}
        self._parts: dict[_Traced | None, FusedScore] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScoreFunction) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"<score function {self.name}>"

    @cached_property
    def formula(self) -> Formula:
        """The function for kernels, with three more arguments: the first batch, head and query of a launch."""
        return _shifted(f"attention.score.{self.name}", self.scalar, self.numpy, 1 + self.count)

    @cached_property
    def gradient(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """(dS, score, *elements, batch, head, query, key) -> gradients of score and elements: for numbers, for arrays.

        Raises:
            UnsupportedError: a derivative is unknown; the message names the line.
        """
        name = f"{self.name}'s gradient"
        try:
            scalar = backward(self._function, self.name, wanted=1 + self._derived)
            return scalar, vectorized(scalar, name, rounds_numbers=True)
        except TypeError as error:
            raise UnsupportedError(str(error)) from None

    def parts(self, mask: _Traced | None) -> FusedScore:
        """Return the score function and a mask function apart from each other.

        Args:
            mask: the traced mask function, or another one that hides the same keys; None if there is none, or if the
                last element says so.
        """
        found = self._parts.get(mask)
        if found is None:
            found = self._parts[mask] = _parts(self, mask)
        return found

    def seen(self, scores: tuple[int, int, int, int], operands: Sequence[Any]) -> Any:
        """Return (batch, head, rows) -> the first key that any of these queries sees, and the end of such keys.

        Args:
            scores: (batch, heads, queries, keys).
            operands: NumPy arrays of rank 4.

        Returns:
            None if there is no mask function.
        """
        if self.has_cells:
            cells = np.broadcast_to(operands[-1], scores)
            return lambda b, h, rows: _range(cells[b, h, rows].any(axis=0), 1, scores[3])
        if self.mask is None:
            return None
        found = _traced_map(self.mask, scores, (_TALL, _WIDE))
        found = np.broadcast_to(found, (*scores[:2], *found.shape[2:])) != EMPTY

        def seen(b: int, h: int, rows: slice) -> tuple[int, int]:
            some = found[b, h, rows.start // _TALL : -(-rows.stop // _TALL)].any(axis=0)
            return _range(some, _WIDE, scores[3])

        return seen

    def gradient_formula(self, wanted: tuple[int, ...]) -> Formula:
        """Return the gradients of the score and of some elements for kernels, with the arguments of `formula`."""
        found = self._gradients.get(wanted)
        if found is None:
            numbers = (0, *(1 + k for k in wanted))
            scalar, numpy = (choosing_results(each, numbers) for each in self.gradient)
            found = _shifted(f"attention.score.{self.name}.gradient", scalar, numpy, 2 + self.count)
            self._gradients[wanted] = found
        return found


class FusedScore:
    """A score function and a mask function for kernels that compute scores themselves, and do not store them.

    Attributes:
        score: the formula of (score, *elements, batch, head, query, key) -> (new score,), or None.
        mask: the formula of (*elements, batch, head, query, key) -> (whether the query sees the key,), or None if there
            is none that can be traced.
        mask_alone: the same without elements; or of (cell, batch, head, query, key), if an array says so.
        traced_mask: the traced mask function, or None.
        is_real: whether the score function may get positions as float32, if all elements are floats too.
    """

    def __init__(
        self, name: str, score: Formula | None, mask: Formula | None, alone: Formula | None, is_real: bool,
        traced_mask: _Traced | None,
    ):  # fmt: skip
        self.score, self.mask, self.mask_alone, self.is_real, self._name = score, mask, alone, is_real, name
        self.traced_mask = traced_mask

    @cached_property
    def slopes(self) -> Formula | None:
        """The formula of (dS, score, *elements, batch, head, query, key) -> gradients of score and elements.

        Raises:
            UnsupportedError: a derivative is unknown; the message names the line.
        """
        if self.score is None:
            return None
        try:
            count = self.score.function.__code__.co_argcount - len(POSITION)
            scalar = backward(self.score.function, self._name, wanted=count)
        except TypeError as error:
            raise UnsupportedError(str(error)) from None
        return Formula(f"attention.score.{self._name}.slopes", scalar)


def _parts(function: ScoreFunction, mask: _Traced | None) -> FusedScore:
    own = [f"x{k}" for k in range(function.count - function.has_cells)]

    def formula(what: str, given: Sequence[str], text: str, called: Any = None) -> Formula:
        space: dict[str, Any] = {"function": called}
        exec(f"def {what}({', '.join([*given, *POSITION])}):\n    return {text}\n", space)
        return Formula(f"attention.{what}.{function.name}", meaning_of(space[what], function.name)[0].scalar)

    score, is_real, seen, alone = None, True, None, None
    if function.score is not None:
        text = f"function({', '.join(['score', *POSITION, *own])})"
        score = formula("score", ["score", *own], text, function.score.function)
        is_real = _takes_real_positions(function.score)
    if function.has_cells:
        alone = formula("mask", ["cell"], "cell != 0")
    elif mask is not None:
        text = f"function({', '.join(POSITION)})"
        seen, alone = (formula("mask", given, text, mask.function) for given in (own, []))
    return FusedScore(function.name, score, seen, alone, is_real, mask)


def _takes_real_positions(part: _Traced) -> bool:
    """Return whether a score function computes the same from positions that are float32, if they are below 2^17.

    It may add and compare them, and combine them with floats.
    """
    trace, ways = traced(part.function)
    whole = {id(each) for each in trace.arguments[1 : 1 + len(POSITION)]}
    for symbol in order([one for taken, results in ways for one in (*(each for each, _ in taken), *results)]):
        parts = [each for each in symbol.parts if isinstance(each, Symbol)]
        if not any(id(each) in whole for each in parts):
            continue
        others = [each for each in symbol.parts if not (isinstance(each, Symbol) and id(each) in whole)]
        are_whole = all(type(each) is int and abs(each) < 2**17 for each in others)
        if symbol.made in ("+", "-", "neg", math.fabs) and are_whole:
            whole.add(id(symbol))
        elif symbol.made not in (*COMPARED, "/") and (are_whole or symbol.made not in ("+", "-", "*")):
            return False
    return True


def _range(some: Any, size: int, most: int) -> tuple[int, int]:
    """Return the start of the first true block of a size, and the end of the last one."""
    (where,) = np.nonzero(some)
    return (int(where[0]) * size, min((int(where[-1]) + 1) * size, most)) if where.size else (0, 0)


def _shifted(name: str, scalar: Callable[..., Any], numpy: Callable[..., Any], count: int) -> Formula:
    """Return a formula whose positions count from the start of a launch.

    Args:
        count: the number of arguments before the position.
    """
    first, starts = [f"x{k}" for k in range(count)], [f"first_{each}" for each in POSITION[:3]]
    given = [f"{each} + first_{each}" for each in POSITION[:3]]
    text = f"def shifted({', '.join([*first, *POSITION, *starts])}):\n"
    text += f"    return function({', '.join([*first, *given, 'key'])})\n"

    def made(function: Callable[..., Any]) -> Callable[..., Any]:
        space: dict[str, Any] = {"function": function}
        exec(text, space)
        found: Callable[..., Any] = space["shifted"]
        return found

    return Formula(name, made(scalar), made(numpy))


@lru_cache(maxsize=1024)
def _combined(score: _Traced | None, mask: _Traced | None, has_cells: bool) -> ScoreFunction:
    return ScoreFunction(score, mask, has_cells)


# ---------------------------------------------------------------- a call


class Scoring(NamedTuple):
    """The functions of a call of attention; a part of the key of its plan.

    Attributes:
        function: both functions as one.
        operands: the layouts of the operands, and of the evaluated mask as the last one if there is one.
        wanted: the operands whose gradients are wanted.
    """

    function: ScoreFunction
    operands: tuple[Layout, ...]
    wanted: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the operands among a plan's inputs."""
        return tuple(f"operands[{k}]" for k in range(len(self.operands)))

    def gradients(self) -> dict[str, Layout]:
        """Return the operands whose gradients are results, by the names of these results."""
        return {f"doperands[{k}]": self.operands[k] for k in self.wanted}

    def check(self, scores: tuple[int, int, int, int], q: Layout) -> None:
        """Raise the fitting error unless each operand is real, on q's device, and broadcasts to the scores."""
        for name, each in zip(self.names, self.operands, strict=True):
            check_same_device(each, name, q, "q")
            kind = info(each.dtype, name)
            if kind.parts == 2:
                raise DTypeError(f"{name} has dtype {kind.name}; operands must be real numbers")
            padded = (1,) * (4 - each.ndim) + each.shape
            if each.ndim > 4 or any(n not in (1, full) for n, full in zip(padded, scores, strict=True)):
                raise ShapeError(
                    f"{name} has shape {each.shape}; it must broadcast to (batch, heads, queries, keys) = {scores}"
                )


def fixed(given: Any, what: str) -> Any:
    """Return a function as it is now; it does not notice later changes of globals and closures.

    Functions without such values, masks that cannot be traced, and everything else are returned unchanged.
    """
    if given is None or not is_function(given):
        return given
    part = _part(given, what)
    return part.function if part.error is None and part.outside else given


def is_function(mask: Any) -> bool:
    """Return whether a mask is a Python function."""
    return isinstance(getattr(mask, "py_func", mask), FunctionType)


def parsed(
    score: Any,
    mask: Any,
    given: Any,
    gradients: Any,
    scores: Callable[[], tuple[int, int, int, int]],
    device: int,
    handle: int,
) -> tuple[Scoring | None, list[Any], Any]:
    """Return the functions of a call, the arrays of its operands, and the named mask to use instead of a function.

    A mask function without a score function that equals a named mask is replaced by it: cuDNN has kernels for it.

    Args:
        score, mask: the user's functions; one of them may be None.
        given: the user's operands, or None.
        gradients: `operand_grads`.
        scores: returns (batch, heads, queries, keys).
        device: the device of q.
        handle: the stream.

    Raises:
        OptionError: a function has the wrong parameters or results; operands or gradients do not fit it.
        UnsupportedError: a function uses something that kernels do not support; the message names the line.
    """
    one = None if score is None else _part(score, "score")
    other = None if mask is None else _part(mask, "mask")
    if one is not None and one.error is not None:
        raise one.error
    if other is not None and other.count != len(POSITION):
        raise OptionError(f"mask={other.name} has {other.count} parameters; it must take (batch, head, query, key)")
    if not isinstance(given, (tuple, list, type(None))):
        raise OptionError(f"operands={shown(given)} is a {type(given).__name__}; pass a tuple of arrays")
    arrays = [_operand(each, k, handle) for k, each in enumerate(given or ())]
    wanted = 0 if one is None else one.count - 1 - len(POSITION)
    if len(arrays) != wanted:
        taker = "without a score function there are none" if one is None else f"{one.name} takes {wanted}"
        raise OptionError(f"operands has {len(arrays)} arrays; {taker} after (score, batch, head, query, key)")
    own = _wanted(gradients, arrays)
    if one is None and other is not None and other.error is None:
        instead = named_mask(other, *scores()[2:])
        if instead is not None:
            return None, [], instead[0]
    has_cells = other is not None and other.error is not None
    if has_cells:
        assert other is not None
        arrays.append(_cells(mask, other, scores(), device, handle))
    function = _combined(one, None if has_cells else other, has_cells)
    return Scoring(function, tuple(map(arrays_of.layout_of, arrays)), own), arrays, None


def _operand(given: Any, number: int, handle: int) -> Any:
    if isinstance(given, (bool, int, float)):
        raise OptionError(
            f"operands[{number}]={given!r} is a number: use it in the function itself, or pass an array of one"
        )
    return arrays_of.as_array(given, f"operands[{number}]", handle)


def _wanted(given: Any, arrays: Sequence[Any]) -> tuple[int, ...]:
    """Return the numbers of the operands whose gradients are wanted."""
    floats = tuple(k for k, each in enumerate(arrays) if info(arrays_of.layout_of(each).dtype).is_float)
    if given is False or given is True:
        return floats if given else ()
    if not isinstance(given, (tuple, list)) or not all(type(each) is int for each in given):
        raise OptionError(f"operand_grads={shown(given)}; it is True, False, or a tuple of the operands' numbers")
    for each in given:
        if each not in floats:
            raise OptionError(
                f"operand_grads has {each}; gradients exist for operands of floats, here {', '.join(map(str, floats))}"
            )
    if len(set(given)) < len(given):
        raise OptionError(f"operand_grads={shown(given)} names an operand twice")
    return tuple(given)


# ---------------------------------------------------------------- masks that have a name


@lru_cache(maxsize=256)
def band_function(lower: int, upper: int | None) -> _Traced:
    """Return a mask function: a query sees the keys `lower` to `upper` after its own number."""

    def after(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return key - query >= lower

    def within(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return lower <= key - query <= upper

    return _Traced(after if upper is None else within, "mask")  # type: ignore[arg-type]


def depends_on(part: _Traced | None) -> tuple[bool, bool]:
    """Return whether a mask function reads the numbers of batch element and head."""
    used = set() if part is None else _used(part)
    return "batch" in used, "head" in used


#: Operations whose results are integers if their operands are.
_WHOLE = ("+", "-", "*", "//", "%", "neg", math.fabs)


@lru_cache(maxsize=256)
def named_mask(part: _Traced, queries: int, keys: int) -> tuple[Any] | None:
    """Return the named mask, or None, that equals a mask function, in a tuple; None if there is none.

    If the function depends only on the distance of query and key, its values for all distances show it.
    """
    if not _depends_on_distance(part):
        return None
    apart = np.arange(1 - keys, queries)
    (seen,) = np.nonzero(part.numpy(0, 0, np.maximum(apart, 0), np.maximum(-apart, 0))[0])
    if not seen.size or seen[-1] - seen[0] + 1 != seen.size:
        return None
    behind, ahead = int(apart[seen[-1]]), -int(apart[seen[0]])  # query - behind <= key <= query + ahead
    is_open_behind, is_open_ahead = behind == queries - 1, ahead == keys - 1
    if is_open_behind and is_open_ahead:
        return (None,)
    if ahead == 0:
        return ("causal" if is_open_behind else CausalSlidingWindow(behind + 1),)
    length = 1 + (ahead if is_open_behind else behind)
    if (is_open_behind or behind == length - 1) and (is_open_ahead or ahead == length - 1):
        fits = (not is_open_behind or length >= queries) and (not is_open_ahead or length >= keys)
        return (SlidingWindow(length),) if fits and length > 0 else None
    return None


def _depends_on_distance(part: _Traced) -> bool:
    """Return whether a traced mask function depends only on query - key."""
    trace, ways = traced(part.function)
    batch, head, query, key = map(id, trace.arguments)
    #: Symbol -> its form if it is a query + b key + a function of query - key: (a, b, whether it is an integer).
    forms: dict[int, tuple[int, int, bool] | None] = {
        batch: None, head: None, query: (1, 0, True), key: (0, 1, True),
    }  # fmt: skip

    def form(value: Any) -> tuple[int, int, bool] | None:
        return forms[id(value)] if isinstance(value, Symbol) else (0, 0, value == value // 1)

    def of(symbol: Symbol) -> tuple[int, int, bool] | None:
        known = [each for each in map(form, symbol.parts) if each is not None]
        if len(known) < len(symbol.parts):
            return None
        is_whole, is_compared = all(whole for *_, whole in known), symbol.made in COMPARED
        if all(a + b == 0 for a, b, _ in known):  # all parts are functions of query - key
            return 0, 0, is_compared or (is_whole and symbol.made in _WHOLE)
        if not is_whole or not (is_compared or symbol.made in ("+", "-")):
            return None  # a sum that is rounded depends on more than the distance
        (a, b, _), (c, d, _) = known
        sign = 1 if symbol.made == "+" else -1
        a, b = a + sign * c, b + sign * d
        return (a, b, True) if not is_compared else (0, 0, True) if a + b == 0 else None

    values = [one for taken, results in ways for one in (*(each for each, _ in taken), *results)]
    for symbol in order(values):
        if symbol.parts:
            forms[id(symbol)] = of(symbol)
    found = [form(each) for each in values]
    return all(each is not None and each[0] + each[1] == 0 for each in found)


# ---------------------------------------------------------------- evaluated masks

#: Mask function -> (its globals and closures, results by shape and device).
_evaluated: WeakKeyDictionary[Any, tuple[Outside, dict[Any, Any]]] = WeakKeyDictionary()


def _results_of(function: Any) -> dict[Any, Any]:
    """Return the dict of everything that was computed from a mask function with its present globals and closures."""
    function = python_function(function, "mask")
    found = _evaluated.get(function)
    if found is None or found[0].changed():
        found = _evaluated[function] = Outside([function]), {}
    return found[1]


def _cells(function: Any, part: _Traced, scores: tuple[int, ...], device: int, handle: int) -> Any:
    """Return the truth values of a mask function that cannot be traced, as an array on a device."""
    known = _results_of(function)
    if scores not in known:
        known[scores] = _called(python_function(function, "mask"), part, scores)
    if device < 0:
        return known[scores]
    if (scores, device) not in known:
        known[scores, device] = asarray(known[scores], device=device, stream=handle)
    return known[scores, device]


def cells_of(mask: Any, scores: tuple[int, int, int, int], device: int, handle: int) -> Any:
    """Return the truth values of a mask function that a plan was made with, and that is called with positions.

    Raises:
        OptionError: it is missing, or it is not a Python function.
    """
    if mask is None:
        raise OptionError("this plan was made with a mask function that reads arrays by position: pass mask=")
    return _cells(mask, _part(mask, "mask"), scores, device, handle)


def _called(function: FunctionType, part: _Traced, scores: tuple[int, ...]) -> Any:
    """Return the truth values of a function called with arrays of all positions. Unused axes have the length 1."""
    try:
        found = np.asarray(function(*np.ogrid[tuple(slice(n) for n in scores)]))
    except Exception as error:
        raise UnsupportedError(
            f"{part.error}. Called with NumPy arrays of positions instead, it raised {type(error).__name__}: {error}"
        ) from None
    found = found.reshape((1,) * (4 - found.ndim) + found.shape) if found.ndim <= 4 else found
    if any(n not in (1, full) for n, full in zip(found.shape, scores, strict=True)):
        raise OptionError(
            f"mask={part.name} returned an array of shape {found.shape}; it must broadcast to (batch, heads, queries, "
            f"keys) = {scores}"
        )
    return np.ascontiguousarray(found, np.bool_)


def block_map(mask: Any, scores: tuple[int, int, int, int], blocks: tuple[int, int]) -> Any:
    """Return which blocks of scores a mask function leaves.

    Args:
        mask: a Python function (batch, head, query, key) -> bool.
        scores: (batch, heads, queries, keys).
        blocks: the numbers of queries and keys in a block.

    Returns:
        uint8 (batch or 1, heads or 1, blocks of queries, blocks of keys): EMPTY, PARTIAL or FULL. The first lengths are
        1 if the function does not depend on batch or head. It is computed once for each function and shape.
    """
    part = _part(mask, "mask")
    if part.error is None:
        return _traced_map(part, scores, blocks)
    known, key = _results_of(mask), (scores, blocks)
    if key not in known:
        cells = _cells(mask, part, scores, -1, 0)
        known[key] = _blocks(
            lambda start, end: cells if cells.shape[2] == 1 else cells[:, :, start:end], scores, blocks
        )
    return known[key]


@lru_cache(maxsize=64)
def _traced_map(part: _Traced, scores: tuple[int, int, int, int], blocks: tuple[int, int]) -> Any:
    return _blocks(lambda start, end: _traced_rows(part, scores, start, end), scores, blocks)


def _traced_rows(part: _Traced, scores: tuple[int, ...], start: int, end: int) -> Any:
    """Return the truth values of some queries, for one batch or head if the function does not depend on it."""
    used = _used(part)
    batch, head = (np.arange(n if name in used else 1) for n, name in zip(scores, POSITION[:2], strict=False))
    grids = batch[:, None, None, None], head[:, None, None], np.arange(start, end)[:, None], np.arange(scores[3])
    return np.asarray(part.numpy(*grids)[0]) != 0


def _used(part: _Traced) -> set[str]:
    """Return which of batch and head a traced mask function reads."""
    trace, ways = traced(part.function)
    seen = {id(each) for decisions, results in ways for each in order([*[one for one, _ in decisions], *results])}
    return {name for name, symbol in zip(POSITION, trace.arguments, strict=True) if id(symbol) in seen}


def _blocks(rows: Callable[[int, int], Any], scores: tuple[int, ...], blocks: tuple[int, int]) -> Any:
    (_, _, queries, keys), (tall, wide) = scores, blocks
    step, starts, found = max(tall, _ROWS // tall * tall), np.arange(0, keys, wide), []
    for start in range(0, queries, step):
        end = min(start + step, queries)
        seen = rows(start, end)
        seen = np.broadcast_to(seen, (*seen.shape[:2], end - start, keys))
        edges = np.arange(0, end - start, tall)
        some, every = (
            each.reduceat(each.reduceat(seen, edges, axis=2), starts, axis=3)
            for each in (np.logical_or, np.logical_and)
        )
        found.append(np.where(every, FULL, np.where(some, PARTIAL, EMPTY)).astype(np.uint8))
    return np.concatenate(found, axis=2)
