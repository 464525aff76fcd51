"""Find or make the plan of an elementwise call, and run it: dtypes, broadcasting, scalars among arrays, and `where=`.

Public functions call `run` if the fast path in their generated code does not apply. `find` returns their plans.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays import operands
from ..base.casts import cast
from ..base.dtypes import TABLE, info, words
from ..base.layout import Layout
from ..base.observing import observable
from ..errors import DTypeError, LayoutError, OptionError, shown
from ..plan.base import Plan, Result, outs_of
from ..plan.tasks import MapPlan
from ..plan.tensors import plan_of_tensors
from ..runtime.streams import handle_of
from .calling import last_of_tensors, plans
from .planning import STRONG, Planned, lacking, plan_of, with_none, without_none
from .rows import Arrangement, Row
from .type_promotion import WEAK, Types

# ---------------------------------------------------------------- scalars among the arguments

#: The number of scalars that a plan remembers.
_MOST_KNOWN = 1024


def sorted_out(row: Row, arguments: tuple[Any, ...], handle: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Return (the plan's key, the arrays, the scalars) of a call's arguments.

    Raises:
        DTypeError: all arguments are scalars, or an argument is neither an array nor a scalar.
    """
    keys: list[Any] = []
    arrays, numbers = [], []
    # This is the fast path for device arrays and Python scalars.
    importers = operands.importers
    for argument in arguments:
        kind = type(argument)
        if kind is float or kind is int:
            if row.truths:
                break
            keys.append(kind)
            numbers.append(argument)
            continue
        if kind in importers:
            argument = importers[kind](argument, row.names[len(keys)], handle)
        own = getattr(argument, "_numbacc_layout", None)
        if own is None:
            break
        keys.append(own)
        arrays.append(argument)
    else:
        if arrays:
            return keys, arrays, numbers
    keys, arrays, numbers = [], [], []
    arguments = with_rank_0(row, arguments)
    on_gpu = any(getattr(each, "_numbacc_layout", None) is not None for each in arguments)
    for k, (argument, name) in enumerate(zip(arguments, row.names, strict=True)):
        if on_gpu and type(argument) is np.ndarray and not argument.ndim:
            argument = argument[()]  # a scalar, as NumPy returns its own elements
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
        raise DTypeError(f"{row.name} got only scalars; at least one must be an array: numbacc.asarray makes one")
    return keys, arrays, numbers


def with_rank_0(row: Row, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a call with NumPy scalars converted to arrays of rank 0. Options stay scalars.

    NumPy made these scalars from arrays of rank 0. They are left unchanged next to arrays of a GPU or of another
    library, since those do not turn arrays of rank 0 into scalars.
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
    """Return whether an argument of a call is a Python or NumPy scalar."""
    return isinstance(argument, (*WEAK, np.generic))


class WithNumbers(Plan[Result]):
    """A plan whose calls accept scalars and arrays.

    Attributes:
        kinds: for each argument, None for an array, or the type of a scalar.
    """

    kinds: tuple[Any, ...]

    def _expect(self, row: Row, kinds: tuple[Any, ...], types: Types, arrangement: Arrangement) -> None:
        """Store the types of a call's scalars."""
        self.kinds = kinds
        common = types.common if row.rounded else types.compute
        # Signed and unsigned 64-bit integers lack a common dtype, so each is first rounded to its own dtype.
        own = {k: kind[1] for k, kind in enumerate(kinds) if types.mixed and isinstance(kind, tuple)}
        #: For each scalar: its name, the dtype that it is rounded to, and the dtype that it is passed as.
        self._numbers = [
            (row.names[k], "bool", "bool")
            if k in row.truths
            else (row.names[k], own.get(k, common) if k in row.meeting else types.compute, types.compute)
            for k in arrangement.numbers
        ]
        self._wrong, self._options = row.wrong, row.options
        #: Single scalar -> its passed form.
        self._known: dict[Any, Sequence[Any]] = {}

    def scalars(self, numbers: Sequence[Any]) -> Sequence[Any]:
        """Return scalars in the form that executables, or the reference, expect."""
        # 0.0 and -0.0 are equal, and so are complex numbers that contain them, so those are not looked up.
        if len(numbers) == 1:
            (number,) = numbers
            if number and (type(number) is float or type(number) is int):
                known = self._known.get(number)
                if known is None:
                    if len(self._known) >= _MOST_KNOWN:
                        self._known.clear()
                    known = self._known[number] = self._passed(numbers)
                return known
        return self._passed(numbers)

    def _passed(self, numbers: Sequence[Any]) -> Sequence[Any]:
        on_host, found = self.device < 0, []
        for value, (name, first, compute) in zip(numbers, self._numbers, strict=True):
            # This distinguishes -0.0 from 0.0.
            written = value.tobytes() if isinstance(value, np.generic) else repr(value)
            made = _number(value, written, name, first, compute)
            if on_host:
                found.append(made)
            else:
                found += words(made, compute)
        # Now the scalars are known to be real numbers.
        wrong = self._wrong and self._wrong(*numbers[-self._options :])
        if wrong:
            raise OptionError(wrong)
        return found

    def _split(self, arguments: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        if len(arguments) != len(self.kinds):
            raise LayoutError(
                f"this plan of {self.op} needs {len(self.kinds)} arguments; it was called with {len(arguments)}"
            )
        numbers, given = [], []
        for argument, kind in zip(arguments, self.kinds, strict=True):
            if kind is None:
                given.append(argument)
            elif type(argument) is kind or (isinstance(argument, np.generic) and _strong(argument) == kind):
                numbers.append(argument)
            else:
                wanted = kind[1] if isinstance(kind, tuple) else kind.__name__
                raise OptionError(
                    f"this plan of {self.op} was made for a {wanted}; it was called with {shown(argument)} instead"
                )
        try:
            return given, self.scalars(numbers)
        except DoesNotFit as error:
            raise OptionError(str(error)) from None


@lru_cache(maxsize=4096)
def _number(value: Any, written: Any, name: str, first: str, compute: str) -> Any:
    """Return a scalar in the compute dtype, after rounding it to `first`.

    `written` distinguishes -0.0 from 0.0.

    Raises:
        OptionError: it is an integer outside of the dtype's range.
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
    """The error of an integer that is out of range for the arrays' promoted dtype."""


def _strong(number: np.generic) -> tuple[str, str]:
    return STRONG, info(number.dtype).name


# ---------------------------------------------------------------- calls


def run(row: Row, arguments: tuple[Any, ...], out: Any, where: Any, stream: Any, *, ready: bool = False) -> Any:
    """Return the results of a function.

    Args:
        row: the function.
        arguments: arrays and scalars, in the order of the row's names.
        out, where, stream: the same as in the function's docstring.
        ready: True to return the plan, ready to run, instead of its results.
    """
    handle = handle_of(stream)
    if where is None and not ready and (last := last_of_tensors.get((row, out is None))) is not None:
        answer = last(arguments if out is None else (*arguments, out), out, handle)
        if answer is not None:
            return answer
    keys, arrays, numbers = sorted_out(row, arguments, handle)
    outs = masked = target = None
    if out is not None:
        try:
            target = getattr(out, "_numbacc_layout", None)
        except Exception:  # other libraries' objects may raise any error
            pass
    if target is not None and not row.gradients:
        outs = [out]
    elif out is not None:
        outs = outs_of(without_none(out, lacking(row, keys)) if row.gradients else out, handle)
        own = tuple(map(operands.layout_of, outs or ()))
        target = own[0] if len(own) == 1 else own
    if where is not None:
        if outs is None:
            raise OptionError(
                "where= needs out=, which keeps its values where the mask is False; or use elementwise.where"
            )
        mask = operands.as_input(where, "where", handle)
        arrays += [mask, *outs]
        masked = operands.layout_of(mask)
    plan = plans.find((_made, row, masked, target, *keys))
    if ready:
        plan.prepare(arrays, outs)
        return plan
    scalars: Sequence[Any] = ()
    if numbers:
        try:
            scalars = plan.scalars(numbers)
        except DoesNotFit as error:
            if not row.rounded:
                raise OptionError(str(error)) from None
            return run(row, _widened(arguments), out, where, stream)
    answer = plan.run(arrays, outs, out, handle, scalars)
    if type(arguments[0]) in operands.importers and where is None and len(plan.outputs) == 1 and not row.is_tuple:
        last = plan_of_tensors(plan, arguments if out is None else (*arguments, out))
        if last is not None:
            last_of_tensors[row, out is None] = last
    return plan.answered(answer) if row.is_tuple and type(out) is not tuple and type(out) is not list else answer


def find(row: Row, arguments: tuple[Any, ...], out: Any, where: Any, stream: Any = None) -> ElementwisePlan:
    """Return the plan of a call."""
    plan: ElementwisePlan = run(row, arguments, out, where, stream, ready=True)
    return plan


class ElementwisePlan(WithNumbers[Result], MapPlan[Result]):
    """A planned elementwise function. Call it with arrays and scalars like the ones that it was made for.

    Attributes:
        kinds: for each argument, None for an array, or the type of a scalar.
        masked: True if it was made with `where`.

    Example:
        >>> plan = elementwise.add.plan(np.ones(2), 1.0)
        >>> plan(np.ones(2), 3.0)
        array([4., 4.])
    """

    def __init__(self, row: Row, planned: Planned):
        super().__init__(planned.task)
        self.masked, self._row = planned.arrangement.masked, row
        #: Runs calls with torch's tensors; None before the first.
        self._lacks = planned.lacks
        self._expect(row, planned.kinds, planned.types, planned.arrangement)

    @observable("call", ".op")
    def __call__(self, *arguments: Any, out: Any = None, where: Any = None, stream: Any = None) -> Result:
        """Run on arguments like the ones that the plan was made for.

        Args:
            arguments: arrays with the same layouts, and scalars, in the same order as for the function.
            out, where: required if they were given when the plan was made.
            stream: the stream to run on; the default stream if None. The call does not wait for the result.

        Raises:
            LayoutError: an array has another layout. OptionError: a scalar is given instead of an array, or vice versa.
        """
        handle = handle_of(stream)
        if (out is not None, where is not None) != (self.out_given, self.masked):
            how = f"{'with' if self.out_given else 'without'} out and {'with' if self.masked else 'without'} where"
            raise LayoutError(f"this plan of {self.op} was made {how}: call it in the same way")
        arrays, scalars = self._split(arguments)
        outs = outs_of(without_none(out, self._lacks), handle)
        if where is not None:
            arrays = [*arrays, where, *(outs or ())]
        inputs = self._arrays(arrays, handle)
        self._check_fit(inputs, outs)
        answer = self.run(inputs, outs, out, handle, scalars)
        result: Result = answer if answer is out and type(out) in (tuple, list) else self.answered(answer)
        return result

    def answered(self, found: Any) -> Any:
        """Return results as the function does: several as a tuple, with None for missing ones."""
        if not self._row.is_tuple:
            return found
        return with_none(found if isinstance(found, (tuple, list)) else (found,), self._lacks)


def _widened(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a comparison's arguments with integers as NumPy scalars of dtypes that hold them, to change promotion."""

    def wide(argument: Any) -> Any:
        if type(argument) is not int:
            return argument
        if -(2**63) <= argument < 2**63:
            return np.int64(argument)
        return np.uint64(argument) if 0 <= argument < 2**64 else np.float64(math.copysign(math.inf, argument))

    return tuple(map(wide, arguments))


def planned(row: Row, given: tuple[Any, ...], outs: tuple[Layout, ...] | None = None) -> ElementwisePlan:
    """Return a plan for arrays (layouts) that need not exist and scalars (types), without caching it."""
    return _made(row, None, outs, *given)


def _made(row: Row, mask: Layout | None, outs: Layout | tuple[Layout, ...] | None, *given: Any) -> ElementwisePlan:
    # Keys contain a single layout without a tuple, which saves making one for each call.
    return ElementwisePlan(row, plan_of(row, given, mask, (outs,) if isinstance(outs, Layout) else outs))


#: The first element of the keys of these plans.
KEY = _made
