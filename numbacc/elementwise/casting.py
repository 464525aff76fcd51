"""Copies of arrays, in another dtype or the same, gapless."""

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
    """The row of copies, in a process that loads its kernels."""
    return _COPY


_COPY = Row("copy", ("x",), "keep", _SAME, origin=(_copies, ()))


def _run(row: Row | None, arguments: tuple[Any, ...], out: Any, where: Any, stream: Any) -> Any:
    """As `operation.run`; without a row the argument itself."""
    return arguments[0] if row is None else run(row, arguments, out, where, stream)


@calls.planned(plans, "ElementwisePlan", "x", call="plan(x)", short=False, calls_only="copy", run=_run, prepare=find)
@like(SHARED)
def astype(x: Any, dtype: Any, *, copy: bool = True, out: Any = None, where: Any = None, stream: Any = None) -> Array:
    """x in another dtype.

    Args:
        x: array of up to 8 dimensions, any strides, of any dtype.
        dtype: any that arrays have.
        copy: False to return x itself where it has that dtype.

    Returns:
        an array of that dtype, in the memory order of x. Floats are rounded once, to the nearest, ties to even. Of a
        float an integer takes what lies before the point: the nearest that it holds of what is out of range, and 0 of
        NaN. Integers wrap. All but 0 is True, so is NaN. In float8_e4m3fn and float8_e5m2 what is beyond the range,
        infinities too, becomes the largest finite number, 448 or 57344, with its sign, and NaN stays NaN: as quantized
        training wants it, and NVIDIA's `cvt.satfinite` has it. torch's `to` and ml_dtypes's `astype` make NaN of it in
        float8_e4m3fn, infinities in float8_e5m2. A copy in x's own dtype has its bits.

    Raises:
        DTypeError: an unknown dtype; complex numbers that are to become real (see `real`).

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
    """A copy of x, gapless, in its memory order; or into `out`, in that one's.

    Args:
        x: array of up to 8 dimensions, any strides, of any dtype.
        out: array of x's shape, and its dtype or a wider kind; of the floats of 8 bits its dtype.

    Example:
        >>> x = np.array([[1.0, 2.0], [3.0, 4.0]])
        >>> elementwise.copy(x.T).flags.f_contiguous
        True
    """
    return _COPY, (x,), out, where, stream


def planned_copy(x: Layout, out: Layout) -> ElementwisePlan:
    """The plan of a copy into an array, of arrays that need not exist, in no cache."""
    return planned(_COPY, (x,), (out,))


def everyday_blocks(stored: Layout) -> Iterator[ElementwisePlan]:
    """Plans of calls that copy an array of floats, and that make other floats of it; narrow ones at either end."""
    yield planned(_COPY, (stored,))
    for target in (*dtypes.FLOATS, *NARROW):
        if target != stored.dtype.name:
            yield planned(_row(target), (stored,))


#: Floats that are copied and converted, not computed with.
NARROW = ("float8_e4m3fn", "float8_e5m2")


@lru_cache(maxsize=64)
def _row(target: str) -> Row:
    """The row of conversions to a dtype."""

    def rule(common: str) -> Types:
        if kind_of(common) == "c" and kind_of(target) not in "cb":
            raise DTypeError(f"x is {common}, and cannot become {target}; take elementwise.real(x), or abs(x)")
        return Types(common, target)

    return Row("astype", ("x",), rule, _SAME, origin=(_row, (target,)))
