"""NumPy functions of device arrays that combine several of numbacc's: `np.zeros_like(d)`, `np.dot`, `np.fft.fft`.

Each accepts the arguments of NumPy's function that are supported on a GPU. Other arguments raise an error, as functions
without a GPU version do. Shape functions return views where NumPy's do. `np.allclose` and `np.array_equal` wait for one
truth value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from . import array_api as xp
from . import elementwise as ew
from . import fft
from .arrays import creation, operands
from .base.checks import integer as _whole
from .base.layout import axes_of, integers_of, is_sequence, normalize_axis
from .errors import DTypeError, IndexRangeError, OptionError, ShapeError, shown
from .numpy_ufuncs import (
    UFUNCS,
    allclose,
    angle,
    array_equal,
    array_equiv,
    arrays_of,
    copyto,
    isclose,
    iscomplex,
    isneginf,
    isposinf,
    isreal,
    nan_to_num,
    round,
)

# ---------------------------------------------------------------- making arrays


def zeros_like(a: Any, dtype: Any = None) -> Any:
    return xp.zeros_like(a, dtype=dtype)


def ones_like(a: Any, dtype: Any = None) -> Any:
    return xp.ones_like(a, dtype=dtype)


def empty_like(a: Any, dtype: Any = None) -> Any:
    return creation.empty_like(a, dtype=dtype)


def full_like(a: Any, fill_value: Any, dtype: Any = None) -> Any:
    return xp.full_like(a, fill_value, dtype=dtype)


# ---------------------------------------------------------------- products


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Return `matmul` of vectors and matrices; for higher ranks, sum over a's last axis and b's last but one."""
    if out is not None:
        raise OptionError("dot does not support out=: use numbacc.gemm.matmul(a, b, out=...)")
    a, b = arrays_of("dot", a, b)
    if not (a.ndim and b.ndim):
        return ew.multiply(a, b)
    return xp.matmul(a, b) if max(a.ndim, b.ndim) <= 2 else xp.tensordot(a, b, axes=((-1,), (-min(b.ndim, 2),)))


def inner(a: Any, b: Any) -> Any:
    a, b = arrays_of("inner", a, b)
    return xp.tensordot(a, b, axes=((-1,), (-1,))) if a.ndim and b.ndim else ew.multiply(a, b)


def outer(a: Any, b: Any) -> Any:
    a, b = arrays_of("outer", a, b)
    return ew.multiply(a.ravel()[:, None], b.ravel()[None, :])


def vdot(a: Any, b: Any) -> Any:
    a, b = arrays_of("vdot", a, b)
    return xp.matmul(ew.conj(a).ravel() if a.dtype.kind == "c" else a.ravel(), b.ravel())


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    a, b = arrays_of("tensordot", a, b)
    if not is_sequence(axes):
        return xp.tensordot(a, b, axes=_whole(axes, "axes", 0, min(a.ndim, b.ndim), ShapeError))
    if len(axes) != 2:
        raise ShapeError(f"axes={shown(axes)} must be a number of axes, or a pair: the axes of a, the axes of b")
    return xp.tensordot(a, b, axes=tuple(integers_of(each, "axes") for each in axes))


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the sum of products along an axis, which is counted separately in each array."""
    arrays = arrays_of("vecdot", x1, x2)
    return xp.vecdot(*(np.moveaxis(x, normalize_axis(axis, x.ndim, "an argument"), -1) for x in arrays))


def matvec(x1: Any, x2: Any, /) -> Any:
    x1, x2 = _of_ranks("matvec", x1, 2, x2, 1)
    return xp.matmul(x1, x2[..., None])[..., 0]


def vecmat(x1: Any, x2: Any, /) -> Any:
    x1, x2 = _of_ranks("vecmat", x1, 1, x2, 2)
    return xp.matmul(ew.conj(x1)[..., None, :] if x1.dtype.kind == "c" else x1[..., None, :], x2)[..., 0, :]


def _of_ranks(name: str, x1: Any, rank1: int, x2: Any, rank2: int) -> list[Any]:
    """Return two arrays with at least these ranks."""
    found = arrays_of(name, x1, x2)
    for x, least in zip(found, (rank1, rank2), strict=True):
        if x.ndim < least:
            raise ShapeError(f"an argument of {name} has shape {x.shape}; it must have {least} axes or more")
    return found


def _outer_of_vectors(x1: Any, x2: Any, /) -> Any:
    if np.ndim(x1) != 1 or np.ndim(x2) != 1:
        raise ShapeError("numpy.linalg.outer needs arrays of one axis; numpy.outer flattens others")
    return outer(x1, x2)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    return ew.norm(x, axis=axis, keepdims=keepdims, ord=ord)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Return the norm of order "fro", which treats the matrix as a vector; others are not supported on a GPU."""
    if ord != "fro":
        raise OptionError(f'ord={shown(ord)} is not supported for matrices: use "fro"')
    return ew.norm(x, axis=(-2, -1), keepdims=keepdims)


# ---------------------------------------------------------------- shapes


def flip(m: Any, axis: Any = None) -> Any:
    return xp.flip(m, axis=axis)


def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Return a view turned by k right angles, from the first axis toward the second."""
    places = axes_of(axes, m.ndim, "the array", "axes")
    if len(places) != 2:
        raise ShapeError(f"axes={shown(axes)} must name two axes")
    one, other = places
    turned = np.swapaxes(m, one, other)
    return (m[...], flip(turned, one), flip(flip(m, one), other), flip(turned, other))[_whole(k, "k") % 4]


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Shift by one number of positions along all axes, or by one number for each. Shifts of the same axis add up."""
    shifts = integers_of(shift, "shift")
    if axis is None:
        return xp.roll(a, sum(shifts))
    axes = integers_of(axis, "axis")
    count = max(len(shifts), len(axes)) if shifts and axes else 0
    if not {len(shifts), len(axes)} <= {1, count}:
        raise ShapeError(
            f"shift={shown(shift)} is {len(shifts)} numbers for {len(axes)} axes; pass one shift for each axis"
        )
    totals: dict[int, int] = {}
    for by, each in zip(shifts * (count // (len(shifts) or 1)), axes * (count // (len(axes) or 1)), strict=True):
        where = normalize_axis(each, a.ndim, "a")
        totals[where] = totals.get(where, 0) + by
    return xp.roll(a, tuple(totals.values()), axis=tuple(totals))


def tile(A: Any, reps: Any) -> Any:
    return xp.tile(A, integers_of(reps, "reps"))


def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    return xp.repeat(a, repeats, axis=axis)


def atleast(rank: int) -> Callable[..., Any]:
    """Return a function that returns views of at least this rank, for one array or for each of several."""

    def each(x: Any) -> Any:
        if x.ndim >= rank:
            return x
        # For rank 3, axes are added at both ends: a vector becomes one row.
        behind = 1 if rank == 3 and x.ndim else 0
        return x[(None,) * (rank - x.ndim - behind) + (..., *(None,) * behind)]

    def function(*arys: Any) -> Any:
        arrays = arrays_of(f"atleast_{rank}d", *arys)
        return each(arrays[0]) if len(arrays) == 1 else tuple(map(each, arrays))

    return function


_of_rank_1, _of_rank_2, _of_rank_3 = (atleast(rank) for rank in (1, 2, 3))


def _parts(name: str, tup: Any) -> list[Any]:
    """Return the arrays to be joined; an array stands for its rows."""
    return arrays_of(name, *(xp.unstack(tup) if hasattr(tup, "_numbacc_layout") else tup))


def vstack(tup: Sequence[Any]) -> Any:
    return ew.concatenate([_of_rank_2(each) for each in _parts("vstack", tup)], 0)


def hstack(tup: Sequence[Any]) -> Any:
    parts = [_of_rank_1(each) for each in _parts("hstack", tup)]
    return ew.concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1)


def dstack(tup: Sequence[Any]) -> Any:
    return ew.concatenate([_of_rank_3(each) for each in _parts("dstack", tup)], 2)


def column_stack(tup: Sequence[Any]) -> Any:
    parts = _parts("column_stack", tup)
    return ew.concatenate([_of_rank_2(each).T if each.ndim < 2 else each for each in parts], 1)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Return views of parts: a number of parts (the first ones may be longer by one), or split at indices."""
    where = normalize_axis(axis, ary.ndim, "the array")
    length = ary.shape[where]
    if is_sequence(indices_or_sections):
        ends = [0, *integers_of(indices_or_sections, "indices_or_sections"), length]
    else:
        count = _whole(indices_or_sections, "indices_or_sections", 1, error=ShapeError)
        short, longer = divmod(length, count)
        ends = [k * short + min(k, longer) for k in range(count + 1)]
    before = (slice(None),) * where
    return [ary[(*before, slice(start, end))] for start, end in pairwise(ends)]


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    if isinstance(indices_or_sections, (int, np.integer)):
        length = ary.shape[normalize_axis(axis, ary.ndim, "the array")]
        if indices_or_sections > 0 and length % indices_or_sections:
            raise ShapeError(f"{length} elements along axis {axis} are not {indices_or_sections} equal parts")
    return array_split(ary, indices_or_sections, axis)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    return split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    if ary.ndim < 2:
        raise ShapeError(f"ary has shape {ary.shape}; vsplit needs 2 axes or more")
    return split(ary, indices_or_sections, 0)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    return split(ary, indices_or_sections, 2)


def broadcast_arrays(*args: Any) -> tuple[Any, ...]:
    return tuple(xp.broadcast_arrays(*arrays_of("broadcast_arrays", *args)))


def meshgrid(*xi: Any, copy: bool = True, indexing: str = "xy") -> tuple[Any, ...]:
    """Return the coordinates of a grid: copies, as NumPy does, or views with copy=False."""
    arrays = arrays_of("meshgrid", *xi)
    for each in arrays:
        if each.ndim > 1:
            raise ShapeError(f"an argument of meshgrid has shape {each.shape}; each must have one axis")
    found = xp.meshgrid(*map(_of_rank_1, arrays), indexing=indexing)
    return tuple(xp.reshape(each, each.shape, copy=True) for each in found) if copy else tuple(found)


def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """Concatenate two arrays; without axis, both are flattened."""
    arrays = arrays_of("append", arr, values)
    if axis is None:
        return ew.concatenate([each.ravel() for each in arrays], 0)
    return ew.concatenate(arrays, axis)


def diag(v: Any, k: int = 0) -> Any:
    """Return a matrix's diagonal, as a view; or for a vector, the matrix that has it as its diagonal."""
    if v.ndim == 2:
        return v.diagonal(k)
    if v.ndim != 1:
        raise ShapeError(f"v has rank {v.ndim} (shape {v.shape}); diag supports ranks 1 and 2")
    found = creation.zeros((v.size + abs(k),) * 2, v.dtype, device=operands.device_of(v))
    found.diagonal(k)[...] = v
    return found


def take(a: Any, indices: Any, axis: Any = None, out: Any = None) -> Any:
    """Return elements by indices: `elementwise.take` for an array on the GPU; integers and lists are checked first.

    Raises:
        IndexRangeError: an integer or a list has an index that is out of range. Also the errors of `elementwise.take`.
    """
    if not isinstance(indices, (int, np.integer, list, tuple)):
        return ew.take(a, indices, axis=axis, out=out)
    flat, where = (xp.reshape(a, (-1,)), 0) if axis is None else (a, normalize_axis(axis, a.ndim, "a"))
    places, length = np.asarray(indices), flat.shape[where]
    if places.dtype.kind not in "iu":
        raise DTypeError(f"indices={shown(indices)} are not integers")
    if places.size and not (-length <= places.min() and places.max() < length):
        raise IndexRangeError(f"indices={shown(indices)} are out of range for {length} elements along axis={axis}")
    if not places.ndim:
        return ew.copy(flat[(*(slice(None),) * where, int(places), ...)], out=out)
    device = operands.device_of(a)
    return ew.take(flat, creation.asarray(places.astype(np.int64), device=device), axis=where, out=out)


# ---------------------------------------------------------------- numbers


def diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    return xp.diff(a, axis=normalize_axis(axis, a.ndim, "a"), n=n)


def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return xp.count_nonzero(a, axis=axis, keepdims=keepdims)


def ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Return the largest element minus the smallest."""
    return ew.subtract(ew.max(a, axis=axis, keepdims=keepdims), ew.min(a, axis=axis, keepdims=keepdims))


def average(a: Any, axis: Any = None, weights: Any = None, *, keepdims: bool = False) -> Any:
    """Return the mean, or the weighted mean: the sum of products with the weights, divided by the sum of the weights.

    Weights have a's shape, or the lengths of the axes in their order. If they sum to 0, the result is NaN or infinite.
    NumPy raises ZeroDivisionError then, but for this the host would have to wait for the sum. Integers are multiplied
    and summed as float64.
    """
    if weights is None:
        return ew.mean(a, axis=axis, keepdims=keepdims)
    (a, weights), axes = arrays_of("average", a, weights), None
    if axis is not None:
        axes = axes_of(axis, a.ndim, "a", "axis")
    if weights.shape != a.shape:
        wanted = a.shape if axes is None else tuple(a.shape[d] for d in axes)
        if axes is None or weights.shape != wanted:
            raise ShapeError(
                f"weights has shape {weights.shape} and a {a.shape}: weights must have a's shape, or with axis= the "
                "lengths of these axes"
            )
        weights = weights.transpose(tuple(sorted(range(len(axes)), key=axes.__getitem__)))
        weights = weights[tuple(slice(None) if d in axes else None for d in range(a.ndim))]
    if a.dtype.kind in "iub":
        a = ew.astype(a, np.float64)
    products = ew.multiply(a, weights)
    total = ew.sum(weights, axis=axes, dtype=products.dtype, keepdims=keepdims)
    return ew.divide(ew.sum(products, axis=axes, dtype=products.dtype, keepdims=keepdims), total)


#: NumPy's function -> the function that computes it.
FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{
        getattr(np, each.__name__): each
        for each in (
            zeros_like, ones_like, empty_like, full_like, dot, inner, outer, vdot, tensordot, flip, rot90, roll, tile,
            repeat, vstack, hstack, dstack, column_stack, array_split, split, hsplit, broadcast_arrays, meshgrid, diff,
            count_nonzero, ptp, average, nan_to_num, isclose, allclose, array_equal, array_equiv, append, vsplit,
            dsplit, diag, take, round, isposinf, isneginf, iscomplex, isreal, copyto,
        )
    },
    np.atleast_1d: _of_rank_1, np.atleast_2d: _of_rank_2, np.atleast_3d: _of_rank_3,
    np.fliplr: lambda m: flip(m, 1), np.flipud: lambda m: flip(m, 0),
    np.matrix_transpose: xp.matrix_transpose, np.angle: angle, np.astype: lambda x, dtype, /: ew.astype(x, dtype),
    np.unstack: xp.unstack, np.cumulative_sum: xp.cumulative_sum, np.cumulative_prod: xp.cumulative_prod,
    np.linalg.matmul: xp.matmul, np.linalg.outer: _outer_of_vectors,
    np.linalg.tensordot: lambda x1, x2, /, *, axes=2: tensordot(x1, x2, axes),
    np.linalg.vecdot: vecdot, np.linalg.vector_norm: vector_norm, np.linalg.matrix_norm: matrix_norm,
    np.around: round, np.fix: lambda x, out=None: ew.trunc(x, out=out),
    np.vecdot: vecdot, **{getattr(np, f.__name__): f for f in (matvec, vecmat) if hasattr(np, f.__name__)},
    **UFUNCS,
    np.linalg.matrix_transpose: xp.matrix_transpose,
    **{
        getattr(np.fft, name): getattr(fft, name)
        for name in fft.__all__
        if hasattr(np.fft, name) and not name.endswith("freq")
    },
}  # fmt: skip
