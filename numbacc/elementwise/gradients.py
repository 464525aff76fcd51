"""Gradients of elementwise functions, for example `exp_backward(dy, x)` for `exp`.

Most gradients are derived from the function's formula. Where the derivative has a shorter or more accurate form, the
function's description in `functions` contains it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..arrays import operands
from ..arrays.creation import empty
from ..base import docstrings
from ..base.dtypes import info
from ..base.layout import argument_of
from ..errors import OptionError, ShapeError
from ..functions.function import DERIVED
from ..functions.symbolic.derive import backward
from ..functions.symbolic.opaque_functions import give_gradients
from ..functions.symbolic.vectorized import vectorized
from ..runtime.streams import handle_of
from .casting import astype
from .operation import run, with_rank_0
from .planning import has_gradient, lacking, with_none, without_none
from .public import WHOLE_FUNCTIONS, listed, make_function
from .reductions import sum as sum_of
from .rows import NAMED, TABLE, Entry, Meaning, Row
from .type_promotion import WEAK

_NUMBERS = (*WEAK, np.generic)

#: The functions that have gradients.
DIFFERENTIABLE = tuple(name for name in TABLE if TABLE[name].function.gradient is not None)


def gradient_row(row: Row) -> Row:
    """Return the row of a function's gradients."""
    name, arrays = row.name, len(row.names) - row.options
    function, numpys, by = TABLE[name].function.gradient or DERIVED
    by = by or tuple(range(1, 1 + arrays))
    if function is None:
        function = backward(_as_python(row.meanings["f"].scalar, len(row.names)), name, wanted=arrays)
    meaning = Meaning(function, numpys or vectorized(function, f"{name}_backward"))
    return Row(
        f"{name}_backward",
        ("dy", *row.names),
        "keep",
        {"f": meaning},
        meeting=(0, *(k + 1 for k in row.meeting)),
        results=by,
        is_tuple=len(by) > 1,
        options=row.options,
        truths=tuple(k + 1 for k in row.truths),
        wrong=row.wrong,
    )


def _as_python(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Return a function of `math` as a Python function whose signature shows the number of its parameters."""
    if getattr(function, "__module__", "") != "math":
        return function
    one, two = (lambda x: function(x)), (lambda a, b: function(a, b))
    return one if count == 1 else two


def run_backward(row: Row, arguments: tuple[Any, ...], out: Any, stream: Any) -> Any:
    """Return the gradients of a call: one array or a tuple of them, summed where an argument was broadcast."""
    if row.name == "clamp_backward":
        arguments = _with_bounds(*arguments)
    if row.name == "prelu_backward" and _shape(arguments[1]) == () and _shape(arguments[2]) == (1,):
        return _of_scalar(row, arguments, out, stream)
    handle, arguments = handle_of(stream), with_rank_0(row, arguments)
    # An object that has only DLPack shows its shape after it is imported. `run` checks that options are scalars.
    count = len(arguments) - row.options
    taken = (
        operands.as_array(each, name, handle) if _shape(each) is None and not isinstance(each, _NUMBERS) else each
        for each, name in zip(arguments[:count], row.names, strict=False)
    )
    arguments = (*taken, *arguments[count:])
    shapes = {_shape(arguments[k]) for k in range(row.gradients[0])} | {_shape(arguments[k]) for k in row.gradients}
    shapes -= {None}
    if len(shapes) <= 1:
        return run(row, arguments, out, None, stream)
    given = tuple(
        operands.as_array(each, name, handle) if _shape(each) is not None else each
        for each, name in zip(arguments, row.names, strict=True)
    )
    return _summed(row, given, out, stream)


def _of_scalar(row: Row, arguments: tuple[Any, ...], out: Any, stream: Any) -> Any:
    """Return prelu's gradients for x of rank 0 and a weight of shape (1,). dx has rank 0, as x and the result have."""
    dy, x, weight = arguments
    if _shape(dy) != ():
        raise ShapeError(f"dy has shape {_shape(dy)}; the result has shape ()")
    outs = None if out is None else (out[0].reshape((1,)), *out[1:])
    dx, dweight = run(row, (dy.reshape((1,)), x.reshape((1,)), weight), outs, None, stream)
    return (dx.reshape(()), dweight) if out is None else out


def _with_bounds(dy: Any, x: Any, low: Any, high: Any) -> tuple[Any, ...]:
    """Return the arguments of `clamp_backward`, with infinite bounds instead of None."""
    if low is None and high is None:
        raise OptionError("min and max are both None; pass one bound or both")
    return dy, x, -math.inf if low is None else low, math.inf if high is None else high


def _shape(argument: Any) -> tuple[int, ...] | None:
    """Return the shape of an array, and None for scalars and other objects."""
    found = None if isinstance(argument, np.generic) else getattr(argument, "shape", None)
    # A class has a property here, not a tuple.
    return tuple(found) if isinstance(found, (tuple, list)) else None


def _summed(row: Row, given: tuple[Any, ...], out: Any, stream: Any) -> Any:
    """Return gradients of broadcast arguments: computed in the full shape and the dtype of sums, then summed."""
    keys = [None if _shape(each) is None else operands.layout_of(each) for each in given]
    lacks, wanted = lacking(row, keys), [k for k in row.gradients if has_gradient(keys[k])]
    if not wanted:
        return run(row, given, out, None, stream)  # it raises: no argument has a gradient
    to = without_none(out, lacks)
    if isinstance(to, (tuple, list)) and len(to) != len(wanted):
        raise ShapeError(f"out must be {len(wanted)} arrays; got {len(to)}")
    outs = list(to) if isinstance(to, (tuple, list)) else [to] * len(wanted)
    try:
        shape = np.broadcast_shapes(*(each.shape for each in given if _shape(each) is not None))
    except ValueError:
        return run(row, given, out, None, stream)  # it raises: the shapes do not broadcast
    whole = []
    for k, own in zip(wanted, outs, strict=True):
        array, repeated = given[k], _shape(given[k]) != shape
        name = str(info(array.dtype).compute) if repeated else array.dtype
        device = operands.layout_of(array).device
        where = argument_of(device)
        whole.append(empty(shape, name, device=where, stream=stream) if repeated or own is None else own)
    several = with_none(whole, lacks)
    run(row, given, whole[0] if len(several) == 1 else several, None, stream)
    found = tuple(
        full if _shape(given[k]) == shape else _reduced(full, given[k], own, stream)
        for k, full, own in zip(wanted, whole, outs, strict=True)
    )
    if out is not None:
        return out
    return with_none(found, lacks) if row.is_tuple else found[0]


def _reduced(full: Any, array: Any, out: Any, stream: Any) -> Any:
    """Return a gradient summed over the axes along which the argument was broadcast, in its shape and dtype."""
    extra = full.ndim - array.ndim
    axes = tuple(d for d in range(full.ndim) if d < extra or array.shape[d - extra] != full.shape[d])
    total = sum_of(full, axis=axes, keepdims=True, stream=stream).reshape(array.shape)
    return astype(total, array.dtype, copy=False, out=out, stream=stream)


def function_of(name: str) -> Callable[..., Any]:
    """Return the public function `<name>_backward`."""
    entry = TABLE[name]
    row = gradient_row(entry.row)
    NAMED[row.name] = row
    if name in WHOLE_FUNCTIONS:
        meaning = row.meanings["f"]
        give_gradients(WHOLE_FUNCTIONS[name], meaning.scalar, meaning.numpy, [each - 1 for each in row.gradients])
    return make_function(row, entry.options, partial(_text, name, entry), run_backward)


_DOC = """Return the {of} of {name}({arrays}) with respect to {by}, multiplied by dy.

`{name}` returns {says}

Args:
    dy: array of floats with the shape of {name}'s result: the gradient of the loss with respect to that result.
{told}
    out: {out}
{stream}

Returns:
    {returned}

Raises:
    the same errors as `{name}`.

Example:
{example}
"""
_OUT = "array that receives the result. It has the result's shape, dtype and device."
_OUTS = """tuple of arrays that receive the results, with their shapes, dtypes and devices. It has None where the tuple
        of results has None."""
_RETURNED = """dx, an array with {x}'s shape and dtype; `out` if given."""
_RETURNED_TUPLE = """a tuple with one gradient for each such argument that is an array; it is None for integers or bool.
    Each gradient has the dtype of its argument. If an argument was broadcast, its gradient is summed to its shape."""
_SAVED = """    {first}: the object saved by `{name}(..., return_saved=True)`. It holds {all}.
        Or {first} itself.
    {others}: the same values as in `{name}`, if no saved object is given. If you forget {options},
        the gradient is wrong and no error is raised."""


def _text(name: str, entry: Entry) -> str:
    """Return a gradient's docstring."""
    names, options = entry.row.names, list(entry.options)
    arrays = [each for each in names if each not in options]
    told = f"    {', '.join(names)}: the same as in `{name}`."
    if options:
        told = _SAVED.format(
            name=name, first=names[0], others=", ".join(names[1:]), options=" or ".join(options), all=listed(names)
        )
    by = [names[each - 1] for each in NAMED[f"{name}_backward"].gradients]
    is_tuple = NAMED[f"{name}_backward"].is_tuple
    return _DOC.format(
        of="gradients" if is_tuple else "gradient",
        name=name,
        arrays=", ".join(arrays),
        by=listed(by),
        says=entry.says,
        told=told,
        out=_OUTS if is_tuple else _OUT,
        returned=_RETURNED_TUPLE if is_tuple else _RETURNED.format(x=by[0]),
        stream=docstrings.entry("stream", docstrings.COMMON["stream"]),
        example=_example(name, entry),
    )


def _example(name: str, entry: Entry) -> str:
    """Return the lines of the example."""
    arguments, printed = entry.function.gradient_example
    dy = f"np.ones({arguments.partition(']')[0].count(',') + 1})"
    lines = [f">>> elementwise.{name}_backward({dy}, {arguments})"]
    if entry.options:
        lines = [f">>> y, saved = elementwise.{name}({arguments}, return_saved=True)"]
        lines += [f">>> elementwise.{name}_backward({dy}, saved)"]
    return "\n".join(f"    {line}" for line in [*lines, *printed.splitlines()])
