"""Whether results are right: by NumPy in float64, on some of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import numbacc

#: So many results are looked at.
_FEW = 1 << 16


def is_right(function: Callable[..., Any], given: tuple[Any, ...], out: Any) -> bool:
    """True if the first results of an elementwise function are those of NumPy in float64.

    Args:
        given: arrays and numbers that it was called with.
        out: its result, or a tuple of results; device arrays, of numbacc or another library.
    """
    host = [x if isinstance(x, float) else numbacc.asnumpy(x[:_FEW]).astype(np.float64) for x in given]
    wanted = function(*host)
    if not isinstance(out, (tuple, list)):
        return _close(numbacc.asnumpy(out[:_FEW]), wanted)
    return all(_close(numbacc.asnumpy(o[:_FEW]), w) for o, w in zip(out, wanted, strict=True))


def _close(found: Any, wanted: Any) -> bool:
    if found.dtype == np.bool_:
        return bool((found == wanted).all())
    eps = {2: 2.0**-7, 4: 2.0**-23}[found.dtype.itemsize]
    with np.errstate(all="ignore"):
        # Where NumPy's float64 is beyond a narrower dtype, that has infinity.
        narrow = wanted.astype(found.dtype).astype(np.float64)
    return bool(np.isclose(found.astype(np.float64), narrow, rtol=64 * eps, atol=64 * eps, equal_nan=True).all())


def wide(array: Any) -> Any:
    """An array of any library in NumPy, in float64."""
    return numbacc.asnumpy(array).astype(np.float64)


def is_close(found: Any, wanted: Any, size: float = 1.0) -> bool:
    """True if results are those of NumPy in float64.

    Args:
        size: what numbers are added up to, beside those that there are.
    """
    eps = {2: 2.0**-7, 4: 2.0**-20}.get(found.dtype.itemsize, 2.0**-20)
    return bool(np.isclose(wide(found), wanted, rtol=eps, atol=eps * size).all())
