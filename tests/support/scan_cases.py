"""Cumulative sums and products: values, and what they must give."""

from __future__ import annotations

import numpy as np
import pytest
import reduction_oracle as oracle
from oracle import spacing

from numbacc.base.dtypes import info

NAMES = ("cumsum", "cumprod")


DTYPES_OF_ALL = (*oracle.REAL, *oracle.COMPLEX)


each_name = pytest.mark.parametrize("name", NAMES)


def wide(x):
    return oracle.wide(x) if x.dtype.kind not in "biu" else x.astype(np.uint64 if x.dtype.kind == "u" else np.int64)


def exact(name, x, axis, reverse=False):
    """The scan in more precision than it is computed in; integers wrap."""
    with np.errstate(all="ignore"):
        if not reverse:
            return getattr(np, name)(x, axis=axis)
        return np.flip(getattr(np, name)(np.flip(x, axis), axis=axis), 0 if axis is None else axis)


def values_of(rng, shape, dtype, name):
    """Numbers of a dtype that have sums, or products."""
    return np.asarray(oracle.values(rng, shape, dtype, "prod" if name == "cumprod" else "sum"))


def assert_right(name, got, x, axis, reverse=False, dtype=None):
    """As near as the result's dtype, and the one that is computed in, allow."""
    dtype = oracle.result_dtype("sum", x.dtype) if dtype is None else dtype
    wanted = exact(name, wide(x), axis, reverse)
    assert got.dtype == dtype and got.shape == wanted.shape
    if dtype.kind in "iu":
        np.testing.assert_array_equal(got, wanted)
        return
    count = x.size if axis is None else x.shape[axis]
    scale = exact(name, np.abs(wide(x)), axis, reverse)
    # Tiles follow each other, and within one there are a tree and the elements of a thread.
    roundings = np.log2(max(count, 2)) + 20 + count / 1000
    bound = roundings * np.finfo(info(dtype).compute).eps * scale * (count if name == "cumprod" else 1)
    # Each product below the normal numbers is rounded to a multiple of the smallest one.
    bound += roundings * np.finfo(info(dtype).compute).smallest_subnormal
    own = np.dtype(f"float{4 * dtype.itemsize}") if dtype.kind == "c" else dtype
    parts = [(got.real, wanted.real), (got.imag, wanted.imag)] if dtype.kind == "c" else [(got, wanted)]
    for one, other in parts:
        found = one.astype(np.longdouble)
        with np.errstate(all="ignore"):
            is_right = np.abs(found - other) <= bound + spacing(np.asarray(other, np.longdouble), own) / 2
            # What is beyond the dtype is infinite there.
            is_right |= (found == other) | (np.isinf(found) & (one == other.astype(float).astype(own)))
        assert is_right.all(), (np.asarray(one)[~is_right][:9], np.asarray(other)[~is_right][:9], bound.max())
