"""Elementwise functions: rows of a table, and their formulas with operands in the kernel's order.

The table is made from the objects in `functions.unary`, `binary` and `activations`.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import lru_cache
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ..base import dtypes
from ..base.casts import cast
from ..functions import activations, binary, unary
from ..functions.formula import Formula, Heavy
from ..functions.function import Function
from ..functions.function import Meaning as Meaning
from ..functions.symbolic.arithmetic_intensity import LONG
from .type_promotion import RULES, WEAK, Types, as_floats, mixed_integers, promoted, refused

#: Dtypes that may have a special form of a function -> the kind of that form.
FORMS = {"float64": "d", "float16": "h", "bfloat16": "g"}
#: The kinds of 16-bit dtypes. Form "n" is for calls where all arguments are arrays of one such dtype, without scalars.
_NARROW = ("h", "g")


class Row:
    """An elementwise function.

    Attributes:
        name: the name of the public function.
        names: the names of its arguments, including options.
        rule: a key of `type_promotion.RULES`, or a function like those.
        meanings: kinds of dtypes ("f", "iu", ...) -> the function for these dtypes. `FORMS` names kinds of single
            dtypes.
        meeting: the indices of the arguments that take part in promotion; by default all.
        rounded: True if Python scalars are rounded to the arrays' dtype first, so that x == 0.1 is True where x was
            made from 0.1.
        results: if the function returns a tuple, a description of each result: the index of the argument whose gradient
            it is, "bool", or "" for the dtype of the rule. None if it returns one number.
        gradients: the indices of the arguments whose gradients are the results.
        is_tuple: True if results are returned as a tuple, even a single one.
        options: how many of its last arguments are options.
        heavy: the same as in `Formula`.
        truths: the indices of the arguments that are always booleans.
        wrong: takes the options and returns what is wrong with them, "" if nothing is. None if any scalar is valid.
        origin: (function, arguments) that make the row again in another process, if it is not in `NAMED`.
    """

    def __init__(
        self,
        name: str,
        names: Sequence[str],
        rule: str | Callable[[str], Types],
        meanings: dict[str, Meaning],
        *,
        meeting: Sequence[int] | None = None,
        rounded: bool = False,
        results: Sequence[Any] | None = None,
        is_tuple: bool = False,
        options: int = 0,
        heavy: Heavy = (),
        truths: Sequence[int] = (),
        wrong: Callable[..., str] | None = None,
        origin: tuple[Callable[..., Row], tuple[Any, ...]] | None = None,
    ):
        self.name, self.names, self.rule, self.rounded = name, tuple(names), rule, rounded
        self.meanings = {kind: meaning for kinds, meaning in meanings.items() for kind in kinds}
        self.meeting = tuple(range(len(self.names))) if meeting is None else tuple(meeting)
        self.results = None if results is None else tuple(results)
        self.gradients = tuple([each for each in self.results or () if isinstance(each, int)])
        self.is_tuple, self.options, self.heavy = is_tuple, options, heavy
        self.truths, self.wrong, self.origin = tuple(truths), wrong, origin

    def called(self, names: Sequence[str]) -> Row:
        """Return the same row with other names of the arguments."""
        found = copy(self)
        found.names, found.origin = tuple(names), (_named, (self.name,))
        return found

    def __repr__(self) -> str:
        return f"<elementwise.{self.name}>"

    def types(self, given: Sequence[Any]) -> Types:
        """Return the dtypes of a call, given the names of arrays' dtypes and the types of scalars.

        Raises:
            DTypeError: the function does not support them.
        """
        meeting = [given[k] for k in self.meeting]
        rule = RULES[self.rule] if isinstance(self.rule, str) else self.rule
        if self.rule == "float":
            meeting = as_floats(meeting)
        found = rule(promoted(tuple(meeting)))
        mixed = mixed_integers(meeting) if "m" in self.meanings else ""
        if mixed:
            found = Types("int64", found.result, mixed)
        if found.kind not in self.meanings:
            raise refused(self.name, [self.names[k] for k in self.meeting], meeting, "".join(self.meanings))
        return found


class Arrangement(NamedTuple):
    """The arrangement of a call's operands.

    Attributes:
        given: for each argument, the name of its array's dtype, or the type of a scalar.
        masked: True if the results keep the old values unless a mask is True.
        wanted: the indices of the wanted numbers of a tuple.
        truths: the indices of truth values that are used as 1 and 0.
        compute: the name of the compute dtype.
        whole: the name of the results' integer dtype if they are stored as another dtype, else "".
    """

    given: tuple[Any, ...]
    masked: bool
    wanted: tuple[int, ...]
    truths: tuple[int, ...]
    compute: str
    whole: str = ""

    @property
    def arrays(self) -> list[int]:
        """The indices of the arguments that are arrays."""
        return [k for k, each in enumerate(self.given) if each not in WEAK]

    @property
    def numbers(self) -> list[int]:
        """The indices of the arguments that are scalars."""
        return [k for k, each in enumerate(self.given) if each in WEAK]


@lru_cache(maxsize=4096)
def formula_of(row: Row, types: Types, arrangement: Arrangement) -> Formula:
    """Return the formula of a call. Its operands are the arrays' elements, then mask and old values, then scalars."""
    found = row.origin or ((_named, (row.name,)) if NAMED.get(row.name) is row else None)
    origin = None if found is None else (_again, (*found, types, arrangement))
    behind, olds = len(arrangement.arrays) + 1, len(arrangement.wanted) or 1
    kinds = [FORMS.get(types.common, ""), types.kind]
    if kinds[0] in _NARROW and set(arrangement.given) == {types.common}:
        kinds.insert(0, "n")
    meaning = next(row.meanings[kind] for kind in kinds if kind in row.meanings)
    return Formula(
        f"elementwise.{row.name}",
        arranged(meaning.scalar, arrangement, row.results or ()),
        _reference(row, meaning.numpy, types, arrangement),
        origin=origin,
        heavy=row.heavy,
        kept=range(behind, behind + olds) if arrangement.masked else (),
    )


#: Name -> numbacc's own row. Another process finds rows by these names.
NAMED: dict[str, Row] = {}


def _named(name: str) -> Row:
    return NAMED[name]


def _again(make: Callable[..., Row], given: tuple[Any, ...], types: Types, arrangement: Arrangement) -> Formula:
    """Return a formula that was made in another process."""
    return formula_of(make(*given), types, arrangement)


def arranged(function: Callable[..., Any], arrangement: Arrangement, results: Sequence[Any]) -> Callable[..., Any]:
    """Return a formula with its operands in the kernels' order. `results` is the same as in `Row`.

    It is generated as source text, since the number of its parameters varies.
    """
    arrays, numbers, masked = arrangement.arrays, arrangement.numbers, arrangement.masked
    in_order = arrays == [*range(len(arrays))] and not masked and not arrangement.truths
    # Only Python functions can be compiled; math.exp is not one.
    if (
        in_order
        and not arrangement.whole
        and len(arrangement.wanted) == len(results)
        and isinstance(function, FunctionType)
    ):
        return function
    names = [f"x{k}" for k in range(len(arrangement.given))]
    olds = [f"old{n}" for n in range(len(arrangement.wanted) or 1)]
    operands = [names[k] for k in arrays] + (["mask", *olds] if masked else []) + [names[k] for k in numbers]
    given = [f"(one if {name} else none)" if k in arrangement.truths else name for k, name in enumerate(names)]
    found = [f"found[{k}]" for k in arrangement.wanted] or ["found"]
    if arrangement.whole:
        # Kernels compute with more bits than narrow integers have. Only a store in the integer's own dtype truncates.
        kinds = [results[k] for k in arrangement.wanted] or [""]
        found = [number if kind == "bool" else f"whole({number})" for number, kind in zip(found, kinds, strict=True)]
    if masked:
        found = [f"({new}, mask, {old})" for new, old in zip(found, olds, strict=True)]
    module = getattr(function, "__module__", "")
    called = f"{module}.{function.__name__}" if module in ("math", "cmath") else "function"
    text = f"def arranged({', '.join(operands)}):\n    found = {called}({', '.join(given)})\n"
    text += f"    return {', '.join(found)}" + ("," if results or masked else "") + "\n"
    # Use NumPy numbers in the compute dtype: Python numbers would raise errors where they divide by 0.
    number = dtypes.TABLE[arrangement.compute].numpy.type
    space: dict[str, Any] = {"function": function, "math": math, "cmath": cmath, "one": number(1), "none": number(0)}
    if arrangement.whole:
        space["whole"] = dtypes.TABLE[arrangement.whole].numpy.type
    exec(text, space)
    arranged: Callable[..., Any] = space["arranged"]
    return arranged


def _reference(
    row: Row, function: Callable[..., Any], types: Types, arrangement: Arrangement
) -> Callable[..., tuple[Any, ...]]:
    """Return the NumPy version: computed in the kernels' compute dtype, and rounded once."""
    compute = dtypes.TABLE[types.compute].numpy
    arrays, count = arrangement.arrays, len(arrangement.arrays)
    places = [*arrays, *arrangement.numbers]
    behind = count + (1 + (len(arrangement.wanted) or 1) if arrangement.masked else 0)

    def reference(*operands: Any) -> tuple[Any, ...]:
        given: list[Any] = [None] * len(places)
        for k, value in zip(places, (*operands[:count], *operands[behind:]), strict=True):
            given[k] = cast(value, compute) if k in row.meeting else value
        with np.errstate(all="ignore"):
            found = function(*given)
        results = [found[k] for k in arrangement.wanted] if row.results else [found]
        if arrangement.masked:
            mask, *olds = operands[count:behind]
            results = [np.where(mask, cast(new, old.dtype), old) for new, old in zip(results, olds, strict=True)]
        return tuple(map(np.asarray, results))

    return reference


# ---------------------------------------------------------------- the table


class Entry(NamedTuple):
    """A function's description and its row."""

    row: Row
    function: Function

    @property
    def says(self) -> str:
        """The returned value in words, for docstrings."""
        return self.function.says

    @property
    def options(self) -> Mapping[str, Any]:
        """The names of its options and their defaults. Options are the last arguments."""
        return self.function.options


def _entry(function: Function) -> Entry:
    names = (*function.arguments, *function.options)
    row = Row(
        function.name,
        names,
        function.rule,
        dict(function.meanings),
        meeting=range(len(function.arguments)) if function.meeting is None else function.meeting,
        rounded=function.rounded,
        heavy=function.heavy,
        options=len(function.options) + function.numbers,
        truths=function.truths,
        wrong=function.wrong,
    )
    if function.is_long:
        LONG.add(row.meanings["f"].scalar)
    return Entry(row, function)


#: Name -> entry.
TABLE = {each.name: _entry(each) for module in (unary, binary, activations) for each in module.FUNCTIONS}
NAMED.update((name, entry.row) for name, entry in TABLE.items())
