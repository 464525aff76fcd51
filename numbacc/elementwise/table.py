"""The table of elementwise functions, made from the objects in `functions.unary`, `binary` and `activations`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..functions import activations, binary, unary
from ..functions.function import Function
from ..functions.symbolic.arithmetic_intensity import LONG
from .rows import NAMED, Row


class Entry(NamedTuple):
    """A function and its row."""

    row: Row
    function: Function

    @property
    def says(self) -> str:
        """One line of documentation."""
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
