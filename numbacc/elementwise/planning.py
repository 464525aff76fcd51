"""Resolve the arguments of an elementwise call: dtypes, broadcasting, scalars among arrays, and `where=`.

`SeveralPlan` is the base of plans that run several plans, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple

import numpy as np

from ..arrays import operands
from ..base.dtypes import TABLE, info, words
from ..base.layout import MAX_RANK, Layout, check_same_device, dense_like, layout, row_major_strides, same_layout, view
from ..base.observing import observable
from ..base.ownership import PLAN_INSTEAD, NotCopied
from ..errors import DTypeError, LayoutError, OptionError, ShapeError
from ..kernels.elementwise.launch import MapTask
from ..plan.base import Plan, PlanInfo, Result, check_out, plan_html
from ..plan.tasks import MapPlan
from ..runtime.streams import handle_of
from .rows import Arrangement, Row, formula_of
from .type_promotion import Types, is_stored_as, kind_of

#: Marks the type of a NumPy scalar, whose dtype takes part in promotion: (this, name of the dtype).
STRONG = "number of"


class Planned(NamedTuple):
    """The properties of a planned call.

    Attributes:
        task: the task of its kernel.
        types: its dtypes.
        arrangement: the arrangement of its operands.
        kinds: for each argument, None for an array, or the type of a scalar.
        lacks: the result of `lacking`.
    """

    task: MapTask
    types: Types
    arrangement: Arrangement
    kinds: tuple[Any, ...]
    lacks: tuple[bool, ...]


def plan_of(row: Row, given: tuple[Any, ...], mask: Layout | None, outs: tuple[Layout, ...] | None) -> Planned:
    """Validate a call and return its properties. Everything here depends only on layouts and types.

    Args:
        row: the function.
        given: for each argument, the array's layout, the type of a Python scalar, or (`STRONG`, dtype).
        mask: the layout of `where`.
        outs: the layouts of the arrays for results, if given.
    """
    named, dtypes, types, shape = resolved(row, given, mask)
    arrays = [array for _, array in named]
    # Gradients with respect to scalars and integers are left out of the tuple. The others have their argument's dtype.
    several = list(enumerate(row.results or ()))
    wanted = tuple(n for n, each in several if not isinstance(each, int) or has_gradient(given[each]))
    if row.gradients:
        _check_gradients(row, given, dtypes)
    names = [dtypes[each] if isinstance(each, int) else each or types.result for n, each in several if n in wanted]
    results = [_result(name, shape, arrays) for name in names or [types.result]]
    outputs = results if outs is None else list(outs)
    called = out_names(len(results))
    check_given(outputs, results, called)
    if any(own.dtype != made.dtype for own, made in zip(outputs, results, strict=True)):
        types = types._replace(copied=False)
    arrangement = arrangement_of(row, given, dtypes, types, wanted, mask is not None)
    if kind_of(types.result) in "iu" and any(
        own.dtype != made.dtype for own, made in zip(outputs, results, strict=True)
    ):
        arrangement = arrangement._replace(whole=types.result)
    named += zip(called, outputs, strict=True) if mask is not None else []
    inputs = tuple(array for _, array in named)
    task = MapTask(
        op=f"elementwise.{row.name}",
        formula=(formula := formula_of(row, types, arrangement)),
        reference=formula.reference,
        names=(*(name for name, _ in named), *called),
        inputs=inputs,
        outputs=tuple(outputs),
        shape=shape,
        reads=tuple(view(k, 0, broadcast_strides(array, shape), shape) for k, array in enumerate(inputs)),
        writes=tuple(view(k, 0, array.strides, shape) for k, array in enumerate(outputs)),
        out_given=outs is not None,
        compute=types.compute,
        scalars=tuple("bool" if k in row.truths else types.compute for k in arrangement.numbers),
        as_bits=types.as_bits,
    )
    return Planned(task, types, arrangement, kinds_of(given), lacking(row, given))


def resolved(
    row: Row, given: tuple[Any, ...], mask: Layout | None = None
) -> tuple[list[tuple[str, Layout]], list[Any], Types, tuple[int, ...]]:
    """Check the arguments of a call and return their properties.

    Args:
        row, given, mask: the same as in `plan_of`.

    Returns:
        the arrays' layouts by name; for each argument, the name of its dtype or the type of a scalar; the dtypes of the
        call; and the shape that the arrays broadcast to.
    """
    named = [(name, each) for name, each in zip(row.names, given, strict=True) if isinstance(each, Layout)]
    if mask is not None:
        named.append(("where", mask))
        if mask.dtype != np.bool_:
            raise DTypeError(f"where has dtype {mask.dtype}; it must be bool")
    last_name, last = named[0]
    for name, array in named:
        check_same_device(array, name, last, last_name)
    dtypes = [_dtype_of(each, name) for each, name in zip(given, row.names, strict=True)]
    _check_others(row, given, dtypes)
    return named, dtypes, row.types(dtypes), broadcast_shapes(named)


def arrangement_of(
    row: Row, given: Sequence[Any], dtypes: Sequence[Any], types: Types, wanted: tuple[int, ...], masked: bool = False
) -> Arrangement:
    """Return the arrangement of a call's operands, given the results of `resolved`."""
    is_array = [isinstance(each, Layout) for each in given]
    return Arrangement(
        tuple(each if is_array[k] else bool if k in row.truths else float for k, each in enumerate(dtypes)),
        masked,
        wanted,
        tuple(k for k in row.meeting if is_array[k] and dtypes[k] == "bool" and types.compute != "bool"),
        types.compute,
    )


def kinds_of(given: Sequence[Any]) -> tuple[Any, ...]:
    """Return for each argument None for an array, or the type of a scalar."""
    return tuple(None if isinstance(each, Layout) else each for each in given)


def check_given(outputs: Sequence[Layout], results: Sequence[Layout], names: Sequence[str]) -> None:
    """Raise an error unless results with these layouts may be written to the given arrays."""
    fitting = results
    if len(outputs) == len(results):
        fitting = [_as_given(made, own) for made, own in zip(results, outputs, strict=True)]
    check_out(outputs, fitting, names)


def out_names(count: int) -> tuple[str, ...]:
    """Return the names of the arrays for this number of results."""
    return ("out",) if count == 1 else tuple(f"out[{n}]" for n in range(count))


def has_gradient(argument: Any) -> bool:
    """Return whether an argument has a gradient: it is an array's layout, but not of integers or bool."""
    return isinstance(argument, Layout) and kind_of(info(argument.dtype).name) not in "bui"


def lacking(row: Row, given: Sequence[Any]) -> tuple[bool, ...]:
    """Return which gradients are None because of integers or bool; () if this applies to no array, or to all."""
    found = tuple(not has_gradient(given[k]) for k in row.gradients if isinstance(given[k], Layout))
    return found if any(found) and not all(found) else ()


def without_none(out: Any, lacks: tuple[bool, ...]) -> Any:
    """Return `out` for several gradients, without the entries that are None.

    Raises:
        ShapeError: other entries are None.
    """
    if out is None or not lacks:
        return out
    given = out if isinstance(out, (tuple, list)) else (out,)
    if tuple(each is None for each in given) != lacks:
        wanted = ", ".join("None" if each else "an array" for each in lacks)
        raise ShapeError(f"out must be ({wanted}): integers and bool do not have a gradient")
    return tuple(each for each in given if each is not None)


def with_none(found: Sequence[Any], lacks: tuple[bool, ...]) -> tuple[Any, ...]:
    """Return gradients with None for the missing ones."""
    rest = iter(found)
    return tuple(None if each else next(rest) for each in lacks) if lacks else tuple(found)


def _check_others(row: Row, given: Sequence[Any], dtypes: Sequence[Any]) -> None:
    """Raise an error if an argument that takes no part in promotion (option, condition, exponent) is invalid."""
    for k, (each, name) in enumerate(zip(given, row.names, strict=True)):
        if k in row.meeting:
            continue
        is_array = isinstance(each, Layout)
        if is_array and k >= len(given) - row.options:
            raise OptionError(f"{name} of {row.name} is an array; it must be a number")
        if is_array and k in row.truths and dtypes[k] != "bool":
            raise DTypeError(f"{name} has dtype {dtypes[k]}; it must be bool: elementwise.not_equal({name}, 0)")
        if is_array and k not in row.truths and kind_of(dtypes[k]) not in "bui":
            raise DTypeError(f"{name} has dtype {dtypes[k]}; {row.name} needs integers")


def _check_gradients(row: Row, given: Sequence[Any], dtypes: Sequence[Any]) -> None:
    """Raise an error unless a float array has a gradient and dy has the result's shape."""
    arrays = [k for k in row.gradients if isinstance(given[k], Layout)]
    if not arrays:
        raise DTypeError(f"{row.name} got only scalars; gradients need an array")
    floats = [k for k in arrays if has_gradient(given[k])]
    for k in floats or arrays:
        if kind_of(dtypes[k]) != "f":
            raise DTypeError(
                f"{row.names[k]} has dtype {dtypes[k]}; {row.name} needs floats: convert with elementwise.astype"
            )
    # A condition comes before the arguments that have gradients, and so do the gradients of the results.
    slopes = [k for k in range(row.gradients[0]) if k not in row.truths]
    rest = [(row.names[k], each) for k, each in enumerate(given) if isinstance(each, Layout) and k not in slopes]
    wanted = broadcast_shapes(rest)
    for k in slopes:
        if not isinstance(given[k], Layout):
            raise DTypeError(f"{row.names[k]} is a number; it must be an array of the result's shape, {wanted}")
        if given[k].shape != wanted:
            raise ShapeError(f"{row.names[k]} has shape {given[k].shape}; the result has shape {wanted}")


def _dtype_of(each: Any, name: str) -> Any:
    """Return the name of an argument's dtype, or the type of a scalar."""
    if isinstance(each, Layout):
        return info(each.dtype, name).name
    return each[1] if isinstance(each, tuple) else each


def _as_given(made: Layout, own: Layout) -> Layout:
    """Return a result's layout with the dtype of the array that receives it, if that dtype can hold the result."""
    if is_stored_as(info(made.dtype).name, info(own.dtype, "out").name):
        return layout(made.shape, made.strides, own.dtype, made.device)
    return made


def _result(dtype: str, shape: tuple[int, ...], inputs: Sequence[Layout]) -> Layout:
    """Return the layout of a new result, in the memory order of the first input with its shape and no broadcasting."""
    row = TABLE[dtype]
    for array in inputs:
        if (
            array.shape == shape
            and array.ndim
            and all(step or n < 2 for n, step in zip(shape, array.strides, strict=True))
        ):
            alike = dense_like(array, shape)
            strides = tuple(step // array.itemsize * row.itemsize for step in alike.strides)
            return layout(shape, strides, row.numpy, array.device)
    return layout(shape, row_major_strides(shape, row.itemsize), row.numpy, inputs[0].device)


def broadcast_shapes(named: Sequence[tuple[str, Layout]]) -> tuple[int, ...]:
    """Return the shape that arrays broadcast to.

    Raises:
        ShapeError: they do not broadcast, or the shape has more than 8 dimensions.
    """
    shapes = [array.shape for _, array in named]
    if len(set(shapes)) == 1:
        shape = shapes[0]
    else:
        try:
            shape = np.broadcast_shapes(*shapes)
        except ValueError:
            told = ", ".join(f"{name} has shape {array.shape}" for name, array in named)
            raise ShapeError(f"{told}: they do not broadcast") from None
    if len(shape) > MAX_RANK:
        name, array = max(named, key=lambda pair: pair[1].ndim)
        raise ShapeError(f"{name} has rank {array.ndim} (shape {array.shape}); ranks up to {MAX_RANK} are supported")
    return shape


def broadcast_strides(array: Layout, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in bytes, of an array that is broadcast to a shape: 0 where it is repeated."""
    own = (0 if n == 1 else step for n, step in zip(array.shape, array.strides, strict=True))
    return (*(0,) * (len(shape) - array.ndim), *own)


def check_indices(indices: Layout, name: str) -> None:
    """Raise DTypeError unless an array has an integer dtype."""
    if kind_of(info(indices.dtype, name).name) not in "iu":
        raise DTypeError(f"{name} has dtype {indices.dtype}; indices must be integers: convert with elementwise.astype")


class NumberedPlan(MapPlan[Result]):
    """A planned map with fixed scalar arguments.

    Args:
        task: the map. Its reference includes these scalars.
        numbers: one for each of its scalars.
    """

    def __init__(self, task: MapTask, numbers: Sequence[Any]):
        pairs = zip(numbers, task.scalars, strict=True)
        super().__init__(task, [word for number, name in pairs for word in words(number, name)])


def outputs_of(result: Layout, out: Layout | None) -> tuple[Layout]:
    """Return the layout of a plan's only result: that of `out` if given, else `result`.

    Raises:
        ShapeError, DTypeError, DeviceError: `out` does not fit.
    """
    outputs = (result if out is None else out,)
    check_out(outputs, (result,), ("out",))
    return outputs


# ---------------------------------------------------------------- several plans


def run_several(plan: SeveralPlan, arrays: Sequence[Any], target: Any, out: Any, handle: int) -> Any:
    """Return the results of a plan, or `out` if given. `target` is `out` as an array."""
    result = plan.run(arrays, target, handle)
    return result if out is None else out


def prepared(plan: SeveralPlan, *given: Any) -> SeveralPlan:
    """Return the plan, ready to run."""
    plan.prepare()
    return plan


class SeveralPlan(NotCopied, Generic[Result]):
    """A plan that runs several plans. Call it with arrays that have the layouts it was made for.

    Args:
        op, names: the names of the operation and its arrays in messages.
        inputs: the arrays' layouts.
        outputs: the results' layouts.
        plans: the plans that it runs, in order.
        out_given: whether the result is written to the user's array.

    Attributes:
        used, cache, library_bytes: the same as in every plan.
        order: if there is only one plan, and it takes the same arrays in another order: the number of the array that is
            its first, second, ... input.
    """

    _instead = PLAN_INSTEAD
    used, library_bytes = 0, 0
    cache: Any = None
    order: tuple[int, ...] = ()

    def __init__(
        self,
        op: str,
        names: Sequence[str],
        inputs: Sequence[Layout],
        outputs: Sequence[Layout],
        plans: Sequence[Plan],
        out_given: bool = False,
    ):
        self.op, self.names, self.inputs, self.outputs = op, tuple(names), tuple(inputs), tuple(outputs)
        self.plans, self.out_given, self.device = tuple(plans), out_given, inputs[0].device

    def run(self, arrays: Sequence[Any], out: Any, handle: int) -> Any:
        """Return the results for arrays with the plan's layouts. `out` is an array or None."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Compile and load everything that a run needs, for arrays that start at multiples of 256 bytes."""
        for plan in self.plans:
            plan.ready(())

    @observable("call", ".op")
    def _call(self, arrays: Sequence[Any], out: Any, stream: Any) -> Result:
        """Return the results for arrays that may have other layouts or come from other libraries."""
        handle = handle_of(stream)
        if (out is not None) != self.out_given:
            how = "with" if self.out_given else "without"
            raise LayoutError(f"this plan of {self.op} was made {how} out: call it {how} out, too")
        if len(arrays) != len(self.inputs):
            raise LayoutError(
                f"this plan of {self.op} was made for {', '.join(self.names)}; it was called with {len(arrays)} arrays"
            )
        found = [operands.as_input(array, name, handle) for array, name in zip(arrays, self.names, strict=True)]
        target = None if out is None else operands.as_array(out, "out", handle)
        wanted = [*self.inputs, *self.outputs[: out is not None]]
        given = [operands.layout_of(array) for array in (*found, *([] if target is None else [target]))]
        self._check_layouts(wanted, given)
        result: Result = self.run(found, target, handle)
        return result if out is None else out

    def _check_layouts(self, wanted: Sequence[Layout | None], given: Sequence[Layout | None]) -> None:
        """Raise LayoutError unless arrays have the layouts that the plan was made for; None if there is no array."""
        for one, other in zip(wanted, given, strict=True):
            if one is not other and (one is None or other is None or not same_layout(one, other)):
                raise LayoutError(
                    f"this plan of {self.op} was made for {wanted}; it was called with {given}. Make a new plan for "
                    "these arrays, or call the function, which does"
                )

    @property
    def info(self) -> PlanInfo:
        """The decisions of all its plans. The scratch memory is the maximum of all, without intermediate results."""
        infos = [plan.info for plan in self.plans]
        sums = [each.accumulator_dtype for each in infos if each.accumulator_dtype]
        return PlanInfo(
            op=self.op,
            dtypes=tuple(each.dtype.name for each in (*self.inputs, *self.outputs)),
            backend=infos[0].backend,
            algorithm="reference" if self.device < 0 else "; ".join(each.algorithm for each in infos),
            workspace_bytes=max(each.workspace_bytes for each in infos),
            math_dtype=infos[-1].math_dtype,
            accumulator_dtype=sums[0] if sums else None,
            deterministic=all(each.deterministic for each in infos),
        )

    def __repr__(self) -> str:
        arrays = ", ".join(f"{n} {a.dtype} {a.shape}" for n, a in zip(self.names, self.inputs, strict=True))
        results = ", ".join(f"{each.dtype} {each.shape}" for each in self.outputs)
        where = "NumPy" if self.device < 0 else f"{self.info.backend} on cuda:{self.device}"
        return f"<plan of {self.op}: {arrays} -> {results}, {where}>"

    def _repr_html_(self) -> str:
        names = ["out" if len(self.outputs) == 1 else f"out[{k}]" for k in range(len(self.outputs))]
        return plan_html(self, [*zip((*self.names, *names), (*self.inputs, *self.outputs), strict=True)])
