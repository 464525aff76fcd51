"""Numbers among the arguments of a call: what tells them from arrays, and how plans pass them to kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays import operands
from ..base.casts import cast
from ..base.dtypes import TABLE, info, words
from ..errors import DTypeError, LayoutError, OptionError, shown
from ..plan.base import Plan
from .planning import STRONG
from .rows import Arrangement, Row
from .type_promotion import WEAK, Types

#: How many numbers a plan remembers.
_MOST_KNOWN = 1024


def sorted_out(row: Row, arguments: tuple[Any, ...], handle: int) -> tuple[list[Any], list[Any], list[Any]]:
    """(what decides a plan, the arrays, the numbers) of a call's arguments.

    Raises:
        DTypeError: there is no array, or something that is neither.
    """
    keys: list[Any] = []
    arrays, numbers = [], []
    arguments = with_rank_0(row, arguments)
    on_gpu = any(getattr(each, "_numbacc_layout", None) is not None for each in arguments)
    for k, (argument, name) in enumerate(zip(arguments, row.names, strict=True)):
        if on_gpu and type(argument) is np.ndarray and not argument.ndim:
            argument = argument[()]  # one number, as NumPy hands its own over
        if isinstance(argument, np.bool_) or (k in row.truths and is_number(argument)):
            argument = bool(argument)
        if type(argument) in WEAK:
            keys.append(type(argument))
            numbers.append(argument)
        elif isinstance(argument, np.generic):
            info(argument.dtype, name)
            keys.append(_strong(argument))
            numbers.append(argument)
        else:
            if k >= len(row.names) - row.options and not hasattr(argument, "shape"):
                raise OptionError(f"{name}={shown(argument)} is a {type(argument).__name__}; it must be a number")
            array = operands.as_array(argument, name, handle)
            keys.append(operands.layout_of(array))
            arrays.append(array)
    if not arrays:
        raise DTypeError(f"{row.name} got numbers alone; pass an array: numbacc.asarray makes one")
    return keys, arrays, numbers


def with_rank_0(row: Row, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """NumPy's numbers among a call's arguments as the arrays of rank 0 that NumPy made them of; options stay numbers.

    Beside arrays of a GPU, or of another library, they are numbers: those arrays make none of rank 0.
    """
    if not any(isinstance(each, np.generic) for each in arguments):
        return arguments
    if not all(isinstance(each, (np.ndarray, np.generic, *WEAK)) for each in arguments):
        return arguments
    count, found = len(row.names) - row.options, list(arguments)
    for k, (each, name) in enumerate(zip(arguments[:count], row.names, strict=False)):
        if isinstance(each, np.generic):
            found[k] = operands.as_input(np.bool_(each) if k in row.truths else each, name, 0)
    return tuple(found)


def is_number(argument: Any) -> bool:
    """Whether an argument of a call is a number, Python's or NumPy's."""
    return isinstance(argument, (*WEAK, np.generic))


class WithNumbers(Plan):
    """A plan whose calls take numbers beside arrays.

    Attributes:
        kinds: for each argument None where it is an array, else the type of the number.
    """

    kinds: tuple[Any, ...]

    def _expect(self, row: Row, kinds: tuple[Any, ...], types: Types, arrangement: Arrangement) -> None:
        """Take what the numbers of a call are."""
        self.kinds = kinds
        common = types.common if row.rounded else types.compute
        # Of integers that meet in no dtype each has its own first.
        own = {k: kind[1] for k, kind in enumerate(kinds) if types.mixed and isinstance(kind, tuple)}
        #: (name, dtype that it is rounded to, dtype that it is passed in) of each number.
        self._numbers = [
            (row.names[k], "bool", "bool")
            if k in row.truths
            else (row.names[k], own.get(k, common) if k in row.meeting else types.compute, types.compute)
            for k in arrangement.numbers
        ]
        self._wrong, self._options = row.wrong, row.options
        #: What single numbers are passed as.
        self._known: dict[Any, Sequence[Any]] = {}

    def scalars(self, numbers: Sequence[Any]) -> Sequence[Any]:
        """Numbers as executables, or the reference, take them."""
        # 0.0 and -0.0 are equal, and so are complex numbers that have them.
        if len(numbers) == 1 and type(numbers[0]) in (int, float) and numbers[0]:
            known = self._known.get(numbers[0])
            if known is None:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                known = self._known[numbers[0]] = self._passed(numbers)
            return known
        return self._passed(numbers)

    def _passed(self, numbers: Sequence[Any]) -> Sequence[Any]:
        on_host, found = self.device < 0, []
        for value, (name, first, compute) in zip(numbers, self._numbers, strict=True):
            # What tells -0.0 from 0.0.
            written = value.tobytes() if isinstance(value, np.generic) else repr(value)
            made = _number(value, written, name, first, compute)
            if on_host:
                found.append(made)
            else:
                found += words(made, compute)
        # By now the numbers are known to be real.
        wrong = self._wrong and self._wrong(*numbers[-self._options :])
        if wrong:
            raise OptionError(wrong)
        return found

    def _split(self, arguments: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        if len(arguments) != len(self.kinds):
            raise LayoutError(
                f"this plan of {self.op} takes {len(self.kinds)} arguments; it was called with {len(arguments)}"
            )
        numbers, given = [], []
        for argument, kind in zip(arguments, self.kinds, strict=True):
            if kind is None:
                given.append(argument)
            elif type(argument) is kind or (isinstance(argument, np.generic) and _strong(argument) == kind):
                numbers.append(argument)
            else:
                wanted = kind[1] if isinstance(kind, tuple) else kind.__name__
                raise OptionError(f"this plan of {self.op} was made with a {wanted} where it got {shown(argument)}")
        try:
            return given, self.scalars(numbers)
        except DoesNotFit as error:
            raise OptionError(str(error)) from None


@lru_cache(maxsize=4096)
def _number(value: Any, written: Any, name: str, first: str, compute: str) -> Any:
    """A number in the dtype that is computed in, by way of the one that it is rounded to.

    `written` tells -0.0 from 0.0.

    Raises:
        OptionError: it is an integer that the dtype has not.
    """
    if first == "bool":
        return bool(value)
    if isinstance(value, complex) and TABLE[compute].parts == 1:
        raise OptionError(f"{name}={value} is complex; it must be a real number")
    if TABLE[first].numpy.kind in "iu":
        if value != value or value in (math.inf, -math.inf) or int(value) != value:
            raise OptionError(f"{name}={value} is not a whole number; the arguments are {first}")
        bounds = np.iinfo(TABLE[first].numpy)
        if not bounds.min <= int(value) <= bounds.max:
            raise DoesNotFit(f"{name}={shown(value)} does not fit into {first}")
    try:
        return cast(cast(value, TABLE[first].numpy), TABLE[compute].numpy)[()]
    except OverflowError:
        raise OptionError(f"{name}={shown(value)} is too large for a float") from None


class DoesNotFit(OptionError):
    """An integer is beyond the dtype that arrays meet in."""


def _strong(number: np.generic) -> tuple[str, str]:
    return STRONG, info(number.dtype).name
