"""log Σ e^x over any axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arrays.operands import Array
from ..plan.saved import Saved, saves
from .reduction_plan import ReducePlan, find, run


def logsumexp(
    x: Any,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """log Σ e^x, without overflow between; -inf of nothing.

    Args:
        x: array of floats of 16 bits and more, integers or bool, rank 0 to 8, any strides. It is read once.
        axis: the axes that are reduced: None for all, an integer, or a tuple of integers.
        keepdims: True if these axes stay, with length 1.
        return_saved: whether to return a second object, which carries x and the options to
            `logsumexp_backward(dy, saved)`. x must not change until then.
        out: array for the result, of its shape, dtype and device; it shares no memory with x.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        an array of x's dtype, float64 of integers and bool; `out` if given. With return_saved, (y, saved).

    Raises:
        as `mean`.

    Example:
        >>> elementwise.logsumexp(np.array([1000.0, 1000.0]))
        array(1000.69314718)
    """
    keeps = saves(return_saved)
    y: Array = run("logsumexp", x, axis, keepdims, None, out, stream)
    return (y, Saved("elementwise.logsumexp", {"x": x}, {"axis": axis, "keepdims": keepdims})) if keeps else y


def logsumexp_plan(
    x: Any, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, out: Any = None
) -> ReducePlan:
    """The plan that `logsumexp` runs for these arrays: call it as `plan(x, out=None, stream=None)`.

    Example:
        >>> elementwise.logsumexp_plan(np.zeros((2, 3)), axis=0)(np.zeros((2, 3))).round(4)
        array([0.6931, 0.6931, 0.6931])
    """
    return find("logsumexp", x, axis, keepdims, None, out)
