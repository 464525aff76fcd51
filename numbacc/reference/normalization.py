"""Softmax, RMSNorm and LayerNorm of rows in NumPy, forward and backward.

16-bit floats are computed in float32 and rounded once, when the result is stored. Sources: Zhang and Sennrich 2019
(arXiv:1910.07467), RMSNorm; Ba, Kiros and Hinton 2016 (arXiv:1607.06450), LayerNorm.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.casts import cast
from ..base.dtypes import info

Array = NDArray[Any]
Rows = Callable[..., tuple[Array, ...]]


def computed(function: Rows) -> Rows:
    """Make a function of arrays in the first array's compute dtype accept arrays in their own dtypes."""

    @wraps(function)
    def of_any(*arrays: Array | None, **options: Any) -> tuple[Array, ...]:
        assert arrays[0] is not None
        compute = np.dtype(info(arrays[0].dtype).compute)
        # The definitions include overflow and NaN, so NumPy's warnings are suppressed.
        with np.errstate(all="ignore"):
            return function(*(None if a is None else cast(a, compute) for a in arrays), **options)

    return of_any


def _largest(x: Array, axis: int) -> Array:
    return np.asarray(x.max(axis=axis, keepdims=True, initial=-np.inf))


@computed
def softmax(x: Array, *, axis: int) -> tuple[Array]:
    """Return (e^(x - max) / Σ e^(x - max),)."""
    e = np.exp(x - _largest(x, axis))
    return (e / e.sum(axis=axis, keepdims=True),)


@computed
def log_softmax(x: Array, *, axis: int) -> tuple[Array]:
    """Return (x - max - log Σ e^(x - max),)."""
    apart = x - _largest(x, axis)
    return (apart - np.log(np.exp(apart).sum(axis=axis, keepdims=True)),)


@computed
def softmax_backward(dy: Array, y: Array, *, axis: int) -> tuple[Array]:
    """Return (y (dy - Σ dy y),)."""
    return (y * (dy - (dy * y).sum(axis=axis, keepdims=True)),)


@computed
def log_softmax_backward(dy: Array, y: Array, *, axis: int) -> tuple[Array]:
    """Return (dy - e^y Σ dy,)."""
    return (dy - np.exp(y) * dy.sum(axis=axis, keepdims=True),)


def _mean(x: Array) -> Array:
    """Return the mean of each row, even if its sum overflows; NaN for an empty row."""
    part = x.dtype.type(2.0**-32)
    return np.asarray((x * part).sum(axis=-1, keepdims=True) / x.dtype.type(x.shape[-1]) / part)


def _centered(x: Array) -> Array:
    """Return x - mean. If all numbers of a row are equal, the result is 0, even if their mean was rounded."""
    if not x.shape[-1]:
        return x
    first = x[..., :1]
    is_even = np.isfinite(first) & (x == first).all(axis=-1, keepdims=True)
    d = x - np.where(is_even, first, _mean(x))
    # The rounded mean may be far from the numbers if they are close to each other.
    return np.asarray(d - _mean(d))


def _factor(apart: Array, eps: float) -> Array:
    """Return 1 / √(mean of d² + eps). Numbers with squares that overflow are scaled down first."""
    number, is_single = apart.dtype.type, apart.dtype == np.float32
    largest = np.abs(apart).max(axis=-1, keepdims=True, initial=0)
    scale = np.where(largest > (1e10 if is_single else 1e100), number(2.0 ** (-80 if is_single else -560)), number(1))
    small = apart * scale
    variance = (small * small).sum(axis=-1, keepdims=True) / number(apart.shape[-1])
    return np.asarray(scale / np.sqrt(variance + number(eps) * scale * scale))


def _scaled(normal: Array, weight: Array | None, bias: Array | None = None) -> Array:
    scaled = normal if weight is None else normal * weight
    return scaled if bias is None else scaled + bias


@computed
def rms_norm(x: Array, weight: Array | None = None, *, eps: float) -> tuple[Array]:
    """Return (x r w,), with r = 1 / √(mean of x² + eps)."""
    return (_scaled(x * _factor(x, eps), weight),)


@computed
def layer_norm(x: Array, weight: Array | None = None, bias: Array | None = None, *, eps: float) -> tuple[Array]:
    """Return (d r w + b,), with d = x - mean and r = 1 / √(mean of d² + eps)."""
    d = _centered(x)
    return (_scaled(d * _factor(d, eps), weight, bias),)


def _of_weights(*terms: Array) -> tuple[Array, ...]:
    return tuple(term.sum(axis=tuple(range(term.ndim - 1))) for term in terms)


@computed
def rms_norm_backward(dy: Array, x: Array, weight: Array | None = None, *, eps: float) -> tuple[Array, ...]:
    """Return (r (g - x r² mean of g x),), with g = dy w; and with a weight also Σ dy x r over all rows."""
    r, g = _factor(x, eps), _scaled(dy, weight)
    dx = r * (g - x * (r * (r * _mean(g * x))))
    return (dx,) if weight is None else (dx, *_of_weights(dy * (x * r)))


@computed
def rms_norm_backward_and_forward(dy: Array, x: Array, weight: Array, *, eps: float) -> tuple[Array, ...]:
    """Return (the gradient of x, `rms_norm`, the gradient of the weight)."""
    r, g = _factor(x, eps), _scaled(dy, weight)
    dx = r * (g - x * (r * (r * _mean(g * x))))
    return (dx, _scaled(x * r, weight), *_of_weights(dy * (x * r)))


@computed
def layer_norm_backward(
    dy: Array, x: Array, weight: Array | None = None, *, eps: float, bias: bool = False
) -> tuple[Array, ...]:
    """Return (r (g - mean of g - d r² mean of g d),), g = dy w; with weight and bias also Σ dy d r and Σ dy."""
    d = _centered(x)
    r, g = _factor(d, eps), _scaled(dy, weight)
    dx = r * (g - _mean(g) - d * (r * (r * _mean(g * d))))
    return (dx,) if weight is None else (dx, *_of_weights(dy * (d * r), *([dy] if bias else [])))


def _of_total(norm: Rows) -> Rows:
    """Return the function (x, residual, weights) -> (norm of x + residual, x + residual), rounded to x's dtype."""

    def normalized(x: Array, residual: Array, *weights: Array, eps: float) -> tuple[Array, ...]:
        compute = np.dtype(info(x.dtype).compute)
        with np.errstate(all="ignore"):
            total = cast(cast(x, compute) + cast(residual, compute), x.dtype)
        return (*norm(total, *weights, eps=eps), total)

    return normalized


add_rms_norm, add_layer_norm = _of_total(rms_norm), _of_total(layer_norm)


def _with_gradient(backward: Rows) -> Rows:
    """Return the function (dy, dtotal, total, weight) -> the norm's gradients, with dtotal added to the first."""

    def gradients(dy: Array, dtotal: Array, total: Array, *weight: Array, **options: Any) -> tuple[Array, ...]:
        dx, *others = backward(dy, total, *weight, **options)
        with np.errstate(all="ignore"):
            return (dx + cast(dtotal, dx.dtype), *others)

    return gradients


add_rms_norm_backward_and_forward = _with_gradient(rms_norm_backward_and_forward)
add_rms_norm_backward, add_layer_norm_backward = _with_gradient(rms_norm_backward), _with_gradient(layer_norm_backward)
