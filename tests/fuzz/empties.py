"""Arrays without elements, and sums over them: NumPy's result, or one of numbacc's errors."""

from __future__ import annotations

import warnings

import numpy as np
from own_reductions import MEANINGS

import numbacc
from numbacc.base import dtypes

from .operands import called, lay, result_of, target_of

FLOATS = ("float32", "float64", "float16", "bfloat16")
#: Reductions of nothing -> what they are.
_OF_NOTHING = {"sum": 0, "prod": 1, "mean": np.nan, "var": np.nan, "std": np.nan, "norm": 0, "logsumexp": -np.inf}
_UNDEFINED = ("max", "min", "argmax", "argmin")
_ROWS = ("softmax", "log_softmax", "layer_norm", "rms_norm")


def run(case):
    ways = [rows, rows_backward, scan, take, take_backward, entropy, dropout, rope, transform, own]
    case.pick([reduction] * 3 + [reduction_backward] * 2 + ways)(case)


def empty(case, rank, axis=None):
    """A shape with a 0, perhaps along an axis."""
    shape = [case.integer(1, 9) for _ in range(rank)]
    shape[case.integer(0, rank - 1) if axis is None else axis] = 0
    return tuple(shape)


def zeros(case, shape, dtype):
    return lay(case, np.zeros(shape, dtypes.dtype(dtype)))


def compared(case, answer, out, wanted, dtype):
    found = result_of(case, answer, out)
    assert (found.shape, found.dtype) == (np.shape(wanted), dtypes.dtype(dtype)), (found.shape, found.dtype)
    np.testing.assert_array_equal(found.astype(np.float64), np.asarray(wanted, np.float64))


def reduction(case):
    name, dtype, rank = case.pick([*_OF_NOTHING, *_UNDEFINED]), case.pick(FLOATS), case.integer(1, 4)
    shape, axis = empty(case, rank), case.pick([None, case.integer(-rank, rank - 1)])
    keepdims = case.chance(0.4)
    is_of_nothing = axis is None or shape[axis] == 0
    result = np.sum(np.zeros(shape), axis=axis, keepdims=keepdims).shape
    kind = "int64" if name.startswith("arg") else dtype
    x, (out, options) = zeros(case, shape, dtype), target_of(case, result, dtypes.dtype(kind))
    try:
        answer = called(case, name, x.view, axis=axis, keepdims=keepdims, **options)
    except numbacc.ShapeError as error:
        assert name in _UNDEFINED and is_of_nothing, error
        case.refused(error)
    else:
        assert name not in _UNDEFINED or not is_of_nothing, f"{name} of nothing was computed"
        compared(case, answer, out, np.full(result, _OF_NOTHING.get(name, 0), np.float64), kind)
    x.assert_untouched()


def reduction_backward(case):
    """Gradients without elements, whatever was reduced."""
    name, dtype, rank = case.pick([*_OF_NOTHING, "max", "min"]), case.pick(FLOATS), case.integer(1, 4)
    shape, keepdims = empty(case, rank), case.chance(0.4)
    kept = [axis for axis in range(rank) if shape[axis]]
    # Of nothing there is no maximum, so that there is no gradient of one.
    axis = case.pick([None, *range(rank)]) if name not in _UNDEFINED else case.pick(kept) if kept else 0
    x = zeros(case, shape, dtype)
    dy = zeros(case, np.sum(np.zeros(shape), axis=axis, keepdims=keepdims).shape, dtype)
    out, options = target_of(case, shape, dtypes.dtype(dtype))
    function = getattr(numbacc.elementwise, f"{name}_backward")
    try:
        answer = case.call(f"elementwise.{name}_backward", function, dy.view, x.view, axis=axis, keepdims=keepdims,
                           **options, **case.stream())  # fmt: skip
    except numbacc.ShapeError as error:
        assert name in _UNDEFINED and not kept, error
        case.refused(error)
        return
    compared(case, answer, out, np.zeros(shape), dtype)


def rows(case):
    name, dtype, shape = case.pick(_ROWS), case.pick(FLOATS), empty(case, case.integer(1, 4))
    x, (out, options) = zeros(case, shape, dtype), target_of(case, shape, dtypes.dtype(dtype))
    if "softmax" in name:
        options["axis"] = case.integer(-len(shape), len(shape) - 1)
    compared(case, called(case, name, x.view, **options), out, np.zeros(shape), dtype)
    x.assert_untouched()


def rows_backward(case):
    """Without rows the gradients of weights are 0."""
    name, dtype = case.pick(_ROWS), case.pick(FLOATS)
    shape = empty(case, case.integer(2, 4), 0)
    dy, x = zeros(case, shape, dtype), zeros(case, shape, dtype)
    weights = [] if "softmax" in name or case.chance(0.5) else [zeros(case, shape[-1:], dtype)]
    answer = called(case, f"{name}_backward", dy.view, x.view, *(w.view for w in weights))
    answer = answer if isinstance(answer, tuple) else (answer,)
    for each, wanted in zip(answer, (shape, shape[-1:])[: 1 + len(weights)], strict=True):
        compared(case, each, None, np.zeros(wanted), dtype)


def scan(case):
    name, dtype, rank = case.pick(["cumsum", "cumprod"]), case.pick(FLOATS), case.integer(1, 3)
    shape, axis = empty(case, rank), case.integer(-rank, rank - 1)
    x, (out, options) = zeros(case, shape, dtype), target_of(case, shape, dtypes.dtype(dtype))
    answer = called(case, name, x.view, axis=axis, reverse=case.chance(0.5), **options)
    compared(case, answer, out, np.zeros(shape), dtype)


def take(case):
    """Take no elements; or some from an axis without elements, which raises an error."""
    dtype, rank = case.pick(FLOATS), case.integer(1, 3)
    axis = case.integer(0, rank - 1)
    from_nothing = case.chance(0.5)
    shape = empty(case, rank, axis) if from_nothing else tuple(case.integer(1, 9) for _ in range(rank))
    count = case.integer(0, 4) if from_nothing else 0
    x, indices = zeros(case, shape, dtype), lay(case, np.zeros(count, np.int64))
    wanted = (*shape[:axis], count, *shape[axis + 1 :])
    out, options = target_of(case, wanted, dtypes.dtype(dtype))
    try:
        answer = called(case, "take", x.view, indices.view, axis=axis, **options)
    except numbacc.ShapeError as error:
        assert from_nothing and count, error
        case.refused(error)
        return
    assert not (from_nothing and count), "something was taken from nothing"
    compared(case, answer, out, np.zeros(wanted), dtype)


def take_backward(case):
    """Rows that no index names have a gradient of 0."""
    dtype, rank = case.pick(FLOATS), case.integer(1, 3)
    axis, shape = case.integer(0, rank - 1), tuple(case.integer(0, 9) for _ in range(rank))
    dy, indices = zeros(case, (*shape[:axis], 0, *shape[axis + 1 :]), dtype), lay(case, np.zeros(0, np.int32))
    out, options = target_of(case, shape, dtypes.dtype(dtype))
    name = "elementwise.take_backward"
    function = numbacc.elementwise.take_backward
    answer = case.call(name, function, dy.view, shape, indices.view, axis=axis, **options, **case.stream())
    compared(case, answer, out, np.zeros(shape), dtype)


def entropy(case):
    dtype, classes, reduction = case.pick(FLOATS), case.integer(1, 9), case.pick(["none", "sum", "mean"])
    x, target = zeros(case, (0, classes), dtype), lay(case, np.zeros(0, np.int64))
    answer = called(case, "cross_entropy", x.view, target.view, reduction=reduction)
    wanted = {"none": np.zeros(0), "sum": 0.0, "mean": np.nan}[reduction]
    compared(case, answer, None, wanted, "float64" if dtype == "float64" else "float32")
    dy = 0.5 if reduction != "none" else zeros(case, (0,), "float64" if dtype == "float64" else "float32").view
    function, options = numbacc.elementwise.cross_entropy_backward, {"reduction": reduction, **case.stream()}
    answer = case.call("elementwise.cross_entropy_backward", function, dy, x.view, target.view, **options)
    compared(case, answer, None, np.zeros((0, classes)), dtype)


def dropout(case):
    dtype, shape = case.pick(FLOATS), empty(case, case.integer(1, 3))
    x, (out, options) = zeros(case, shape, dtype), target_of(case, shape, dtypes.dtype(dtype))
    function = numbacc.elementwise.dropout
    answer = case.call("elementwise.dropout", function, x.view, 0.5, seed=3, **options, **case.stream())
    compared(case, answer, out, np.zeros(shape), dtype)


def rope(case):
    dtype = case.pick(FLOATS)
    *places, half = empty(case, case.integer(2, 4))
    table = "float64" if dtype == "float64" else "float32"
    x, cos, sin = zeros(case, (*places, 2 * half), dtype), *(zeros(case, (*places, half), table) for _ in range(2))
    out, options = target_of(case, (*places, 2 * half), dtypes.dtype(dtype))
    compared(
        case, called(case, "rope", x.view, cos.view, sin.view, **options), out, np.zeros((*places, 2 * half)), dtype
    )


def transform(case):
    """Of no rows: only the transformed axis must have elements."""
    rank = case.integer(2, 4)
    shape = list(empty(case, rank, case.integer(0, rank - 2)))
    shape[-1] = case.integer(2, 9)
    name, dtype = case.pick([("fft", "complex64"), ("rfft", "float32"), ("ifft", "complex128"), ("irfft", "complex64")])
    wanted = getattr(np.fft, name)(np.zeros(shape, dtype))
    kind = {"float32": "complex64", "complex64": "float32" if name == "irfft" else "complex64"}.get(dtype, dtype)
    x, (out, options) = zeros(case, shape, dtype), target_of(case, wanted.shape, dtypes.dtype(kind))
    function = getattr(numbacc.fft, name)
    found = result_of(case, case.call(f"fft.{name}", function, x.view, **options, **case.stream()), out)
    assert (found.shape, found.dtype) == (wanted.shape, np.dtype(kind))


def own(case):
    """A custom reduction."""
    which, dtype, rank = (
        case.pick(["rms", "moments", "logsumexp"]),
        case.pick(["float32", "float64"]),
        case.integer(1, 3),
    )
    shape, axis = empty(case, rank), case.pick([None, case.integer(-rank, rank - 1)])
    function, _, meaning = MEANINGS[which]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = meaning(np.zeros(shape), axis=axis)
    answer = case.call(which, function, zeros(case, shape, dtype).view, axis=axis, **case.stream())
    several = isinstance(wanted, tuple)
    for one, other in zip(answer if several else (answer,), wanted if several else (wanted,), strict=True):
        compared(case, one, None, other, dtype)
