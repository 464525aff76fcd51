"""Arrays whose elements depend on their position: ranges, identity matrices, triangles, one-hot codes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..arrays.operands import Array
from ..base import checks, dtypes
from ..base.docstrings import like
from ..base.dtypes import info
from ..base.layout import Layout, dense_like, layout, lengths_of, normalize_axis, row_major_strides, view
from ..errors import DTypeError, OptionError, ShapeError
from ..functions.positions import POSITIONS
from ..kernels.elementwise.launch import MapTask
from ..plan import calls
from ..runtime.streams import handle_of, target_of
from .calling import found, plans
from .planning import NumberedPlan, check_indices, outputs_of
from .type_promotion import kind_of


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: Any = None,
    device: int | str | None = None,
    stream: Any = None,
) -> Array:
    """Return start, start + step, start + 2 step, ..., up to but not including stop.

    Args:
        start, stop, step: real numbers. A single number is stop, and start is 0. A negative step counts down.
        dtype: the dtype of the result. By default, it is int64 for integers and float32 for floats. Floats are computed
            in float64.

    Returns:
        an array of rank 1 with ⌈(stop - start) / step⌉ numbers.

    Raises:
        OptionError: an argument is not a finite number, or step is 0.
        DTypeError: the dtype does not support arithmetic.

    Example:
        >>> numbacc.asnumpy(elementwise.arange(2, 8, 2))
        array([2, 4, 6])
    """
    first, last = (0, start) if stop is None else (start, stop)
    numbers = [_number(x, name) for x, name in ((first, "start"), (last, "stop"), (step, "step"))]
    if not numbers[2]:
        raise OptionError("step=0 is not supported: the range would never end")
    steps = (numbers[1] - numbers[0]) / numbers[2]
    if not math.isfinite(steps):
        raise OptionError(f"start={first}, stop={last}, step={step}: the number of steps is too large")
    count = max(math.ceil(steps), 0)
    is_whole = all(isinstance(x, int) for x in numbers)
    formula = "stepped" if is_whole else "stepped_real"
    return _made(formula, count, "start, stop, step", dtype, is_whole, device, stream, (numbers[0], numbers[2]))


def linspace(
    start: float,
    stop: float,
    num: int = 50,
    *,
    endpoint: bool = True,
    dtype: Any = None,
    device: int | str | None = None,
    stream: Any = None,
) -> Array:
    """Return `num` evenly spaced numbers from start to stop.

    Args:
        start, stop: real numbers.
        num: the number of elements, at least 0.
        endpoint: True if stop is the last number, False if stop would follow the last number.
        dtype: the dtype of the result; float32 by default. The numbers are computed in float64. For integer dtypes,
            they are rounded down, as in NumPy.

    Raises:
        OptionError: an argument is not a finite number, or `num` is negative.
        DTypeError: the dtype does not support arithmetic.

    Example:
        >>> numbacc.asnumpy(elementwise.linspace(0, 1, 5))
        array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    first, last = checks.real(start, "start"), checks.real(stop, "stop")
    count = checks.integer(num, "num", 0, 2**63 - 1)
    parts = count - 1 if checks.boolean(endpoint, "endpoint") else count
    step = (last - first) / parts if parts > 0 else 0.0
    at = count - 1 if endpoint and count > 1 else -1
    is_integer = dtype is not None and kind_of(info(dtypes.dtype(dtype)).name) in "iu"
    return _made(
        "spaced_below" if is_integer else "spaced", count, "num", dtype, False, device, stream, (first, step, at, last)
    )


def eye(
    n_rows: int,
    n_cols: int | None = None,
    *,
    k: int = 0,
    dtype: Any = None,
    device: int | str | None = None,
    stream: Any = None,
) -> Array:
    """Return a matrix with ones on a diagonal and zeros everywhere else.

    Args:
        n_rows, n_cols: the numbers of rows and columns. By default, they are equal.
        k: the diagonal: 0 for the main diagonal; positive numbers are above it.
        dtype: any dtype that supports arithmetic; float32 by default.

    Raises:
        ShapeError: a length is not an integer of at least 0.
        OptionError: k is not an integer.
        DTypeError: the dtype does not support arithmetic.

    Example:
        >>> numbacc.asnumpy(elementwise.eye(2))
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    rows = checks.integer(n_rows, "n_rows", 0, error=ShapeError)
    columns = rows if n_cols is None else checks.integer(n_cols, "n_cols", 0, error=ShapeError)
    made = _target((rows, columns), "n_rows, n_cols", "float32" if dtype is None else dtype, device)
    plan = plans.find((_eye, made, _diagonal(k)))
    return plan.run((), None, None, handle_of(stream))


def _number(value: Any, name: str) -> Any:
    """Return a 64-bit integer or a finite float."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return checks.integer(value, name, -(2**63), 2**63 - 1)
    return checks.real(value, name)


def _target(shape: tuple[int, ...], name: str, asked: Any, device: Any) -> Layout:
    """Return the layout of a new array, with a dtype that supports arithmetic. `name` is for messages."""
    row = info(dtypes.dtype(asked))
    if row.compute is None:
        raise DTypeError(
            f"dtype={row.name} does not support arithmetic: use another dtype, and convert with elementwise.astype"
        )
    shape = lengths_of(shape, row.itemsize, name)
    return layout(shape, row_major_strides(shape, row.itemsize), row.numpy, target_of(device))


def _made(
    formula: str, count: int, name: str, asked: Any, is_whole: bool, device: Any, stream: Any, numbers: tuple[Any, ...]
) -> Array:
    made = _target((count,), name, ("int64" if is_whole else "float32") if asked is None else asked, device)
    # 0 and -0.0 are equal, and so are 1 and 1.0. They give different ranges, so the key contains their text, too.
    plan = plans.find((_range, formula, made, is_whole, numbers, repr(numbers)))
    return plan.run((), None, None, handle_of(stream))


def _range(formula: str, made: Layout, is_whole: bool, numbers: tuple[Any, ...], written: str) -> NumberedPlan:
    compute = "int64" if is_whole else "float64"
    is_stepped = formula.startswith("stepped")
    scalars = (compute, compute) if is_stepped else (compute, compute, "int64", compute)

    def reference(*given: Any) -> tuple[Any, ...]:
        index = np.arange(made.size)
        with np.errstate(all="ignore"):
            found = numbers[0] + index * np.dtype(compute).type(numbers[1])
        if not is_stepped and numbers[2] >= 0:
            found[-1:] = numbers[3]
        return (np.floor(found) if formula == "spaced_below" else found,)

    return NumberedPlan(
        MapTask(
            op="elementwise.arange" if is_stepped else "elementwise.linspace",
            formula=POSITIONS[formula],
            reference=reference,
            names=("out",),
            inputs=(),
            outputs=(made,),
            shape=made.shape,
            reads=(),
            writes=(view(0, 0, made.strides, made.shape),),
            out_given=False,
            compute=compute,
            scalars=scalars,
            counters=((1,),),
        ),
        numbers,
    )


def _eye(made: Layout, k: int) -> NumberedPlan:
    compute = str(info(made.dtype).compute)
    return NumberedPlan(
        MapTask(
            op="elementwise.eye",
            formula=POSITIONS["on_diagonal"],
            reference=lambda: (np.eye(made.shape[0], made.shape[1], k, made.dtype),),
            names=("out",),
            inputs=(),
            outputs=(made,),
            shape=made.shape,
            reads=(),
            writes=(view(0, 0, made.strides, made.shape),),
            out_given=False,
            compute=compute,
            scalars=("int64", compute, compute),
            counters=((-1, 1),),
        ),
        (k, 1, 0),
    )


def _triangle(name: str, k: int, out: Layout | None, x: Layout) -> NumberedPlan:
    if not 2 <= x.ndim <= 8:
        raise ShapeError(f"x has rank {x.ndim} (shape {x.shape}); {name} needs matrices, of rank 2 to 8")
    row = info(x.dtype, "x")
    if row.compute is None:
        raise DTypeError(
            f"x has dtype {row.name}, which does not support arithmetic: convert it with elementwise.astype"
        )
    outputs = outputs_of(dense_like(x, x.shape), out)
    function = np.tril if name == "tril" else np.triu
    compute = str(row.compute)
    return NumberedPlan(
        MapTask(
            op=f"elementwise.{name}",
            formula=POSITIONS["up_to_diagonal" if name == "tril" else "from_diagonal"],
            reference=lambda seen: (function(seen, k),),
            names=("x", "out"),
            inputs=(x,),
            outputs=outputs,
            shape=x.shape,
            reads=(view(0, 0, x.strides, x.shape),),
            writes=(view(0, 0, outputs[0].strides, x.shape),),
            out_given=out is not None,
            compute=compute,
            scalars=("int64", compute),
            counters=((*(0,) * (x.ndim - 2), -1, 1),),
        ),
        (k, 0),
    )


def _diagonal(k: Any) -> int:
    """Return the option `k`, limited so that differences of k and positions fit into 64 bits. Results are the same."""
    return max(-(2**62), min(checks.integer(k, "k"), 2**62))


def _one_hot(
    name: str, classes: int, axis: int, asked: np.dtype[Any], out: Layout | None, indices: Layout
) -> NumberedPlan:
    check_indices(indices, "indices")
    if indices.ndim > 7:
        raise ShapeError(
            f"indices has rank {indices.ndim}; ranks 0 to 7 are supported, since the result has one more axis"
        )
    where, row = normalize_axis(axis, indices.ndim + 1, "the result"), info(asked)
    if row.compute is None:
        raise DTypeError(
            f"dtype={row.name} does not support arithmetic: use another dtype, and convert with elementwise.astype"
        )
    shape = (*indices.shape[:where], classes, *indices.shape[where:])
    lengths_of(shape, row.itemsize, "num_classes, and indices' shape,")
    result = layout(shape, row_major_strides(shape, row.itemsize), row.numpy, indices.device)
    outputs, compute = outputs_of(result, out), str(row.compute)

    def reference(seen: Any) -> tuple[Any, ...]:
        column = np.arange(classes).reshape(-1, *(1,) * (indices.ndim - where))
        return ((seen == column).astype(row.numpy),)

    return NumberedPlan(
        MapTask(
            op=f"elementwise.{name}",
            formula=POSITIONS["one_hot"],
            reference=reference,
            names=("indices", "out"),
            inputs=(indices,),
            outputs=outputs,
            shape=shape,
            reads=(view(0, 0, (*indices.strides[:where], 0, *indices.strides[where:]), shape),),
            writes=(view(0, 0, outputs[0].strides, shape),),
            out_given=out is not None,
            compute=compute,
            scalars=(compute, compute),
            counters=(tuple(int(d == where) for d in range(len(shape))),),
            indices=(0,),
        ),
        (1, 0),
    )


@calls.planned(plans, "NumberedPlan", "indices", make=_one_hot, forms={"dtype": dtypes.dtype})
def one_hot(
    indices: Any, num_classes: int, *, axis: int = -1, dtype: Any = "float32", out: Any = None, stream: Any = None
) -> Array:
    """Return one-hot codes: 1 at the position along a new axis that an index selects, and 0 at all others.

    Args:
        indices: array of integers with rank 0 to 7 and any strides. An index that is negative, or at least
            `num_classes`, gives only zeros.
        num_classes: the length of the new axis.
        axis: the position of the new axis in the result.
        dtype: the dtype of the result; any dtype that supports arithmetic.
        out: array that receives the result.

    Raises:
        DTypeError: the indices are not integers, or the dtype does not support arithmetic.
        ShapeError: the axis, the rank or the shape of out is wrong.
        OptionError: `num_classes` is not an integer of at least 0.

    Example:
        >>> elementwise.one_hot(np.array([1, 0]), 3, dtype="int8")
        array([[0, 1, 0],
               [1, 0, 0]], dtype=int8)
    """
    options = checks.integer(num_classes, "num_classes", 0), checks.integer(axis, "axis"), dtypes.dtype(dtype)
    return found(_one_hot, "one_hot", {"indices": indices}, options, out, stream)


@calls.planned(plans, "NumberedPlan", "x", make=_triangle)
def tril(x: Any, *, k: int = 0, out: Any = None, stream: Any = None) -> Array:
    """Return the lower triangles of matrices, with zeros above diagonal k.

    Args:
        x: array with rank 2 to 8 and any strides, of any dtype that supports arithmetic. Its last two axes are
            matrices.
        k: the highest diagonal that is kept: 0 for the main diagonal; positive numbers are above it.
        out: array that receives the result. It has x's shape, dtype and device, and may be x itself (in place).

    Raises:
        ShapeError: the rank or the shape of out is wrong.
        DTypeError: x is float8.
        OptionError: k is not an integer.
        LayoutError: out overlaps x partly, or is read-only.

    Example:
        >>> elementwise.tril(np.ones((2, 2)))
        array([[1., 0.],
               [1., 1.]])
    """
    return found(_triangle, "tril", {"x": x}, (_diagonal(k),), out, stream)


@calls.planned(plans, "NumberedPlan", "x", make=_triangle)
@like(tril)
def triu(x: Any, *, k: int = 0, out: Any = None, stream: Any = None) -> Array:
    """Return the upper triangles of matrices, with zeros below diagonal k.

    Args:
        k: the lowest diagonal that is kept: 0 for the main diagonal; positive numbers are above it.

    Example:
        >>> elementwise.triu(np.ones((2, 2)))
        array([[1., 1.],
               [0., 1.]])
    """
    return found(_triangle, "triu", {"x": x}, (_diagonal(k),), out, stream)


def everyday_blocks(matrix: Layout, tokens: Layout) -> Iterator[NumberedPlan]:
    """Yield plans of calls that make a matrix like this one, one-hot codes of tokens, or ranges."""
    yield from (_triangle(name, 0, None, matrix) for name in ("tril", "triu"))
    yield from (_eye(matrix, 0), _one_hot("one_hot", matrix.shape[-1], -1, matrix.dtype, None, tokens))
    row = layout((matrix.size,), (matrix.itemsize,), matrix.dtype, matrix.device)
    whole = layout((matrix.size,), (8,), np.dtype(np.int64), matrix.device)
    yield from (_range("stepped", made, True, (0, 1), "") for made in (whole, row))
    yield _range("stepped_real", row, False, (0.0, 1.0), "")
    yield _range("spaced", row, False, (0.0, 1.0, 0, 1.0), "")
