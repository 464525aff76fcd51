"""NumPy's functions of device arrays that are made of others: `np.zeros_like(d)`, `np.dot`, `np.vstack`, `np.fft.fft`.

Each has NumPy's arguments that mean something on a GPU; with others it is refused, as what is not here. Shapes are
views where NumPy's are. `np.allclose` and `np.array_equal` wait for one truth value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from . import array_api as xp
from . import elementwise as ew
from . import fft
from .arrays import creation
from .base.checks import integer as _whole
from .base.layout import normalize_axis
from .errors import DTypeError, IndexRangeError, OptionError, ShapeError, shown
from .numpy_ufuncs import UFUNCS

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
    """Of vectors and matrices as `matmul`; of more axes over the last of a and the last but one of b."""
    if out is not None:
        raise OptionError("out= of dot: numbacc.gemm.matmul has one")
    if not (_rank(a) and _rank(b)):
        return ew.multiply(a, b)
    return xp.matmul(a, b) if max(a.ndim, b.ndim) <= 2 else xp.tensordot(a, b, axes=((-1,), (-min(b.ndim, 2),)))


def inner(a: Any, b: Any) -> Any:
    return xp.tensordot(a, b, axes=((-1,), (-1,))) if _rank(a) and _rank(b) else ew.multiply(a, b)


def outer(a: Any, b: Any) -> Any:
    return ew.multiply(a.ravel()[:, None], b.ravel()[None, :])


def vdot(a: Any, b: Any) -> Any:
    return xp.matmul(ew.conj(a).ravel() if a.dtype.kind == "c" else a.ravel(), b.ravel())


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    if not isinstance(axes, int):
        axes = tuple((each,) if isinstance(each, int) else tuple(each) for each in axes)
    return xp.tensordot(a, b, axes=axes)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Along an axis of the first, and the one as far from the end of the second."""
    return xp.vecdot(x1, x2, axis=axis if axis < 0 else normalize_axis(axis, x1.ndim, "x1") - x1.ndim)


def matvec(x1: Any, x2: Any, /) -> Any:
    return xp.matmul(x1, x2[..., None])[..., 0]


def vecmat(x1: Any, x2: Any, /) -> Any:
    return xp.matmul(ew.conj(x1)[..., None, :] if x1.dtype.kind == "c" else x1[..., None, :], x2)[..., 0, :]


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    return ew.norm(x, axis=axis, keepdims=keepdims, ord=ord)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Of the order "fro", which is a vector's; others need what is not here."""
    if ord != "fro":
        raise OptionError(f'ord={shown(ord)} is not supported: of matrices only "fro"')
    return ew.norm(x, axis=(-2, -1), keepdims=keepdims)


def _rank(x: Any) -> int:
    return int(np.ndim(x))


# ---------------------------------------------------------------- shapes


def flip(m: Any, axis: Any = None) -> Any:
    return xp.flip(m, axis=axis)


def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Turned by so many right angles, from the first axis toward the second."""
    one, other = (normalize_axis(axis, m.ndim, "the array") for axis in axes)
    if one == other:
        raise ShapeError(f"axes={axes} names an axis twice")
    turned = np.swapaxes(m, one, other)
    return (m, flip(turned, one), flip(flip(m, one), other), flip(turned, other))[k % 4]


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    return xp.roll(a, shift, axis=axis)


def tile(A: Any, reps: Any) -> Any:
    return xp.tile(A, (reps,) if isinstance(reps, int) else tuple(reps))


def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    return xp.repeat(a, repeats, axis=axis)


def atleast(rank: int) -> Callable[..., Any]:
    """The function that gives views of this rank at least, of one array or of each of several."""

    def each(x: Any) -> Any:
        if x.ndim >= rank:
            return x
        # What has depth has rows and columns first: a vector is a row there, too.
        behind = 1 if rank == 3 and x.ndim else 0
        return x[(None,) * (rank - x.ndim - behind) + (..., *(None,) * behind)]

    def function(*arys: Any) -> Any:
        return each(arys[0]) if len(arys) == 1 else tuple(map(each, arys))

    return function


_of_rank_1, _of_rank_2, _of_rank_3 = (atleast(rank) for rank in (1, 2, 3))


def vstack(tup: Sequence[Any]) -> Any:
    return ew.concatenate([_of_rank_2(each) for each in tup], 0)


def hstack(tup: Sequence[Any]) -> Any:
    parts = [_of_rank_1(each) for each in tup]
    return ew.concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1)


def dstack(tup: Sequence[Any]) -> Any:
    return ew.concatenate([_of_rank_3(each) for each in tup], 2)


def column_stack(tup: Sequence[Any]) -> Any:
    return ew.concatenate([each[:, None] if each.ndim == 1 else each for each in tup], 1)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Views of parts: so many, the first ones longer by one where they are not equal, or between these places."""
    where = normalize_axis(axis, ary.ndim, "the array")
    length = ary.shape[where]
    if isinstance(indices_or_sections, (int, np.integer)):
        count = int(indices_or_sections)
        if count <= 0:
            raise ShapeError(f"{count} parts; there must be one at least")
        short, longer = divmod(length, count)
        ends = [k * short + min(k, longer) for k in range(count + 1)]
    else:
        ends = [0, *map(int, indices_or_sections), length]
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


def broadcast_arrays(*args: Any) -> tuple[Any, ...]:
    return tuple(xp.broadcast_arrays(*args))


def meshgrid(*xi: Any, indexing: str = "xy") -> tuple[Any, ...]:
    return tuple(xp.meshgrid(*xi, indexing=indexing))


def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """Without axis of both as if they were flat."""
    if axis is None:
        return ew.concatenate([xp.reshape(each, (-1,)) for each in (arr, values)], 0)
    return ew.concatenate([arr, values], axis)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    return split(ary, indices_or_sections, 2)


def diag(v: Any, k: int = 0) -> Any:
    """A matrix's diagonal, as a view; of a vector the matrix that has it there."""
    if v.ndim == 2:
        return v.diagonal(k)
    if v.ndim != 1:
        raise ShapeError(f"v has rank {v.ndim} (shape {v.shape}); diag takes 1 or 2")
    found = creation.zeros((v.size + abs(k),) * 2, v.dtype, device=f"cuda:{v.device}")
    found.diagonal(k)[...] = v
    return found


def take(a: Any, indices: Any, axis: Any = None, out: Any = None) -> Any:
    """By an array of indices on the GPU as `elementwise.take`; by a number or a list of the host's, which are checked.

    Raises:
        IndexRangeError: one of the host's is out of range. As `elementwise.take` besides.
    """
    if not isinstance(indices, (int, np.integer, list, tuple)):
        return ew.take(a, indices, axis=axis, out=out)
    flat, where = (xp.reshape(a, (-1,)), 0) if axis is None else (a, normalize_axis(axis, a.ndim, "a"))
    places, length = np.asarray(indices), flat.shape[where]
    if places.dtype.kind not in "iu":
        raise DTypeError(f"indices={shown(indices)} are no integers")
    if places.size and not (-length <= places.min() and places.max() < length):
        raise IndexRangeError(f"indices={shown(indices)} are out of range for {length} elements along axis={axis}")
    if not places.ndim:
        return ew.copy(flat[(*(slice(None),) * where, int(places), ...)], out=out)
    device = f"cuda:{a.device}"
    return ew.take(flat, creation.asarray(places.astype(np.int64), device=device), axis=where, out=out)


# ---------------------------------------------------------------- numbers


def round(a: Any, decimals: Any = 0, out: Any = None) -> Any:
    """As NumPy does it: times a power of ten, to whole numbers, and back."""
    places = _whole(decimals, "decimals")
    whole = a.dtype.kind in "iub"
    if not places or (whole and places > 0):
        return ew.round(a, out=out)
    if whole:
        raise DTypeError(f"a has dtype {a.dtype} and decimals={places}: only floats are rounded to tens")
    there, back = (ew.multiply, ew.divide) if places > 0 else (ew.divide, ew.multiply)
    factor = 10.0 ** abs(places)
    return back(ew.round(there(a, factor)), factor, out=out)


def diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    return xp.diff(a, axis=axis, n=n)


def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return xp.count_nonzero(a, axis=axis, keepdims=keepdims)


def ptp(a: Any, axis: Any = None) -> Any:
    """The largest less the smallest."""
    return ew.subtract(ew.max(a, axis=axis), ew.min(a, axis=axis))


def average(a: Any, axis: Any = None, weights: Any = None) -> Any:
    """The mean, or the sum of each times its weight over that of the weights."""
    if weights is None:
        return ew.mean(a, axis=axis)
    return ew.divide(ew.sum(ew.multiply(a, weights), axis=axis), ew.sum(weights, axis=axis))


def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """x with these numbers for NaN and infinities; the dtype's largest and smallest by default."""
    if x.dtype.kind == "c":
        raise DTypeError(f"x has dtype {x.dtype}; nan_to_num takes real numbers")
    out = x if not copy else ew.copy(x)
    if x.dtype.kind in "iub":
        return out
    limits = xp.finfo(x.dtype)
    high, low = limits.max if posinf is None else posinf, limits.min if neginf is None else neginf
    for value, mask in ((nan, ew.isnan(x)), (high, ew.equal(x, math.inf)), (low, ew.equal(x, -math.inf))):
        ew.fill(out, value, where=mask)
    return out


def isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """|a - b| <= atol + rtol |b|, or both the same infinity; with equal_nan both NaN, too."""
    near = ew.less_equal(ew.abs(ew.subtract(a, b)), ew.add(ew.multiply(ew.abs(b), rtol), atol))
    found = ew.logical_or(ew.logical_and(near, ew.isfinite(b)), ew.equal(a, b))
    return ew.logical_or(found, ew.logical_and(ew.isnan(a), ew.isnan(b))) if equal_nan else found


def isposinf(x: Any, out: Any = None) -> Any:
    return ew.equal(x, math.inf, out=out)


def isneginf(x: Any, out: Any = None) -> Any:
    return ew.equal(x, -math.inf, out=out)


def iscomplex(x: Any) -> Any:
    return ew.not_equal(ew.imag(x), 0) if x.dtype.kind == "c" else xp.zeros_like(x, dtype=bool)


def isreal(x: Any) -> Any:
    return ew.equal(ew.imag(x), 0) if x.dtype.kind == "c" else xp.ones_like(x, dtype=bool)


def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """Written where `where` is True."""
    ew.fill(dst, src, where=None if where is True else where)


def allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    return bool(ew.all(isclose(a, b, rtol, atol, equal_nan)))


def array_equal(a1: Any, a2: Any) -> bool:
    return np.shape(a1) == np.shape(a2) and bool(ew.all(ew.equal(a1, a2)))


def array_equiv(a1: Any, a2: Any) -> bool:
    try:
        np.broadcast_shapes(np.shape(a1), np.shape(a2))
    except ValueError:
        return False
    return bool(ew.all(ew.equal(a1, a2)))


#: NumPy's function -> what computes it.
FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{
        getattr(np, each.__name__): each
        for each in (
            zeros_like, ones_like, empty_like, full_like, dot, inner, outer, vdot, tensordot, flip, rot90, roll, tile,
            repeat, vstack, hstack, dstack, column_stack, array_split, split, hsplit, broadcast_arrays, meshgrid, diff,
            count_nonzero, ptp, average, nan_to_num, isclose, allclose, array_equal, array_equiv, append, dsplit, diag,
            take, round, isposinf, isneginf, iscomplex, isreal, copyto,
        )
    },
    np.atleast_1d: _of_rank_1, np.atleast_2d: _of_rank_2, np.atleast_3d: _of_rank_3,
    np.fliplr: lambda m: flip(m, 1), np.flipud: lambda m: flip(m, 0),
    np.vsplit: lambda ary, indices_or_sections: split(ary, indices_or_sections, 0),
    np.matrix_transpose: xp.matrix_transpose, np.astype: lambda x, dtype, /: ew.astype(x, dtype),
    np.unstack: xp.unstack, np.cumulative_sum: xp.cumulative_sum, np.cumulative_prod: xp.cumulative_prod,
    np.linalg.matmul: xp.matmul, np.linalg.outer: lambda x1, x2, /: outer(x1, x2),
    np.linalg.tensordot: lambda x1, x2, /, *, axes=2: tensordot(x1, x2, axes),
    np.linalg.vecdot: xp.vecdot, np.linalg.vector_norm: vector_norm, np.linalg.matrix_norm: matrix_norm,
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
