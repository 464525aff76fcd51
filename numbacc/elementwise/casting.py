"""Contiguous copies of arrays, in another dtype or in the same one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays.operands import Array
from ..base import checks, dtypes
from ..base.docstrings import like
from ..base.layout import Layout
from ..errors import DTypeError
from ..functions.unary import same
from ..plan import calls
from ..reference import activations as reference
from .calling import SHARED, plans
from .operation import KEY, ElementwisePlan, find, planned, run
from .rows import Meaning, Row
from .type_promotion import Types, kind_of

_SAME = {"fiubc8": Meaning(same, reference.same)}


def _copies() -> Row:
    """Return the row of copies. A process that loads its kernels calls this."""
    return _COPY


def _unchanged(common: str) -> Types:
    """Return the dtypes of a copy."""
    return Types(common, common, copied=True)


_COPY = Row("copy", ("x",), _unchanged, _SAME, origin=(_copies, ()))


def _run(row: Row | None, arguments: tuple[Any, ...], out: Any, where: Any, stream: Any) -> Any:
    """Return the result of `operation.run`, or the argument itself if the row is None."""
    return arguments[0] if row is None else run(row, arguments, out, where, stream)


@calls.planned(plans, "ElementwisePlan", "x", call="plan(x)", short=False, calls_only="copy", run=_run, prepare=find)
@like(SHARED)
def astype(x: Any, dtype: Any, *, copy: bool = True, out: Any = None, where: Any = None, stream: Any = None) -> Array:
    """Return x converted to another dtype.

    Args:
        x: array of any dtype, with up to 8 dimensions and any strides.
        dtype: any dtype that arrays can have.
        copy: False to return x itself if it already has that dtype.

    Returns:
        an array of that dtype, in x's memory order. A copy in x's own dtype has the same bits. Conversions follow these
        rules:

        - Float to float: rounded once, to nearest, ties to even.
        - Float to integer: the fraction is dropped. Values out of range give the nearest integer in range; NaN gives 0.
        - Integer to integer: wraps around.
        - To bool: everything but 0 is True, including NaN.
        - To float8_e4m3fn and float8_e5m2: values out of range, including infinities, become the largest finite number
          (448 or 57344) with their sign; NaN stays NaN. Quantized training needs this, and NVIDIA's `cvt.satfinite`
          does the same. torch's `to` and ml_dtypes's `astype` give NaN in float8_e4m3fn and infinities in float8_e5m2.

    Raises:
        DTypeError: the dtype is unknown, or x is complex and the dtype is real (see `real`).

    Example:
        >>> elementwise.astype(np.array([1.5, -2.7, 300.0]), "int8")
        array([  1,  -2, 127], dtype=int8)
        >>> elementwise.astype(np.array([1.1, -2.7, 1e9]), "float8_e4m3fn")
        array([1.125, -2.75, 448], dtype='float8_e4m3fn')
    """
    wanted = dtypes.dtype(dtype)
    as_it_is = copy is not True and not checks.boolean(copy, "copy") and out is None and where is None
    if as_it_is and not isinstance(x, np.generic) and getattr(x, "dtype", None) == wanted:
        return None, (x,), out, where, stream
    return _row(dtypes.info(wanted).name), (x,), out, where, stream


@calls.planned(
    plans, "ElementwisePlan", "x", call="plan(x)", make=(KEY, _COPY, None), defaults="where", run=run, prepare=find
)
@like(SHARED)
def copy(x: Any, *, out: Any = None, where: Any = None, stream: Any = None) -> Array:
    """Return a contiguous copy of x in its memory order, or copy x into `out`, in the memory order of `out`.

    Args:
        x: array of any dtype, with up to 8 dimensions and any strides.
        out: array with x's shape, and x's dtype or one of a wider kind. An 8-bit float needs its own dtype.

    Example:
        >>> x = np.array([[1.0, 2.0], [3.0, 4.0]])
        >>> elementwise.copy(x.T).flags.f_contiguous
        True
    """
    return _COPY, (x,), out, where, stream


def planned_copy(x: Layout, out: Layout) -> ElementwisePlan:
    """Return a plan to copy into an array, for arrays that need not exist, without caching it."""
    return planned(_COPY, (x,), (out,))


def everyday_blocks(stored: Layout) -> Iterator[ElementwisePlan]:
    """Yield plans of calls that copy a float array or convert it to other floats, including 8-bit floats."""
    yield planned(_COPY, (stored,))
    for target in (*dtypes.FLOATS, *NARROW):
        if target != stored.dtype.name:
            yield planned(_row(target), (stored,))


#: Floats that can be copied and converted, but not used in arithmetic.
NARROW = ("float8_e4m3fn", "float8_e5m2")


@lru_cache(maxsize=64)
def _row(target: str) -> Row:
    """Return the row of conversions to a dtype."""

    def rule(common: str) -> Types:
        if kind_of(common) == "c" and kind_of(target) not in "cb":
            raise DTypeError(
                f"x is {common}, and cannot become {target}; use elementwise.real(x) or elementwise.abs(x)"
            )
        return Types(common, target, copied=True)

    return Row("astype", ("x",), rule, _SAME, origin=(_row, (target,)))
