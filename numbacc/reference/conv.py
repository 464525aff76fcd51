"""Convolutions and their gradients in NumPy.

In each spatial dimension let s be the stride, d the dilation, and `lead` the number of zeros before the first element.
Inputs x have C channels, and so have the K kernels w. They give the outputs y, or x * w for short:

    y[n, k, p] = Σ_c Σ_r w[k, c, r] x[n, c, p s + r d - lead]

Here r runs over the taps of a kernel, and x is 0 outside of its lengths. In several dimensions p, r, s, d and lead are
vectors. This is a cross-correlation; `flip` numbers the taps from the last, which makes it a convolution. With G
groups, the first K/G kernels see the first C/G channels, the next K/G the next C/G, and so on. If dy is the gradient of
a loss with respect to y, the gradients with respect to w and x are the same products, summed over the other indices:

    dw[k, c, r] = Σ_n Σ_p dy[n, k, p] x[n, c, p s + r d - lead]
    dx[n, c, i] = Σ_k Σ_(p, r) dy[n, k, p] w[k, c, r]   over the p and r with p s + r d - lead = i

The result is alpha times these, plus beta times the previous content of the result. The forward pass adds a bias and an
activation:

    y = activation(alpha (x * w) + beta before + bias)

Floats of 16 bits are computed in float32 and rounded once, when the result is stored. Sums of int8 are int32.

Sources: Dumoulin and Visin 2016 (arXiv:1603.07285), strides, dilation and gradients; Chellapilla, Puri and Simard 2006,
windows as the columns of a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.casts import cast
from ..base.dtypes import dtype, info
from ..base.windows import Window
from . import activations as act
from .gemm import product

Array = NDArray[Any]

#: The activations after the sums. The slope of leaky_relu is 0.01, elu's factor is 1.
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": act.relu,
    "leaky_relu": lambda z: act.leaky_relu(z, 0.01),
    "gelu": act.geglu_gate,
    "gelu_tanh": act.geglu_tanh_gate,
    "silu": act.swiglu_gate,
    "sigmoid": act.sigmoid,
    "tanh": np.tanh,
    "elu": lambda z: act.elu(z, 1.0),
}
#: Elements of windows that are copied at a time. Windows overlap, so all of them may be many times the input.
_COLUMNS = 1 << 24


def forward(
    x: Array,
    w: Array,
    window: Window,
    *,
    out_dtype: np.dtype[Any],
    bias: Array | None = None,
    activation: str | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    before: Array | None = None,
) -> Array:
    """Return y = activation(alpha (x * w) + beta before + bias).

    Args:
        x: (N, C, ...), or with channels last (N, ..., C).
        w: (K, C/groups, ...), or with channels last (K, ..., C/groups).
        window: the position of w's taps on x.
        out_dtype: y's dtype. If it is int32, alpha and beta are integers, and the activation is "relu" or None.
        bias: (K,).
        activation: a name in ACTIVATIONS.
        alpha: a factor; if it is 0, x and w do not affect the result, even if they are NaN, as in BLAS.
        beta: a factor of `before`, which is read only if beta is not 0.
        before: an array of y's shape, (N, K, ...).
    """
    with np.errstate(all="ignore"):
        sums = _sums_of(x.dtype)
        windows = _windows(_channels_first(_wide(x, sums), window), window, window.parted(w.shape)[2])
        kernels = _in_groups(_taps(_wide(w, sums), window), window.groups)
        y = np.zeros((*kernels.shape[:2], *windows.shape[-window.dimensions - 1 :]), sums)
        if kernels.shape[2] == 1 and sums.kind == "f":
            # With one channel in a group, a product and a sum for each tap are faster than copies of all windows.
            factors = kernels[:, :, 0].reshape(*y.shape[:2], *kernels.shape[3:], *(1,) * (window.dimensions + 1))
            scaled = np.empty_like(y)
            for tap in np.ndindex(*kernels.shape[3:]):
                at = (slice(None), slice(None), *tap)
                y += np.multiply(factors[at], windows[at], out=scaled)
        else:
            kernels = kernels.reshape(*kernels.shape[:2], -1)
            for part, columns in _pieces(windows, window.dimensions):
                found = y[part]
                found[...] = product(kernels, columns, sums).reshape(found.shape)
        z = _blended(_batch_first(y), window, out_dtype, alpha, beta, before)
        if bias is not None:
            z = z + bias.astype(z.dtype).reshape(-1, *(1,) * window.dimensions)
        if activation is not None:
            z = ACTIVATIONS[activation](z)
        return _stored(z, window, out_dtype)


def backward_filter(
    x: Array,
    dy: Array,
    w_shape: tuple[int, ...],
    window: Window,
    *,
    out_dtype: np.dtype[Any],
    alpha: float = 1.0,
    beta: float = 0.0,
    before: Array | None = None,
) -> Array:
    """Return alpha dw + beta before, where dw is the gradient with respect to w, for y = x * w.

    Args:
        x: (N, C, ...), or with channels last (N, ..., C).
        dy: the gradient with respect to y: (N, K, ...), or with channels last (N, ..., K).
        w_shape: (K, C/groups, ...), or with channels last (K, ..., C/groups).
        window: as in `forward`.
        out_dtype, alpha, beta, before: as in `forward`.
    """
    with np.errstate(all="ignore"):
        sums = _sums_of(x.dtype)
        filters, each, taps = window.parted(w_shape)
        windows = _windows(_channels_first(_wide(x, sums), window), window, taps)
        slopes = _batch_third(_channels_first(_wide(dy, sums), window), window.groups)
        dw = np.zeros((window.groups, filters // window.groups, each * math.prod(taps)), sums)
        for part, columns in _pieces(windows, window.dimensions):
            dw += product(slopes[part].reshape(*dw.shape[:2], -1), columns.swapaxes(1, 2), sums)
        z = _flipped(dw.reshape(filters, each, *taps), window)
        return _stored(_blended(z, window, out_dtype, alpha, beta, before), window, out_dtype)


def backward_data(
    dy: Array,
    w: Array,
    x_shape: tuple[int, ...],
    window: Window,
    *,
    out_dtype: np.dtype[Any],
    alpha: float = 1.0,
    beta: float = 0.0,
    before: Array | None = None,
) -> Array:
    """Return alpha dx + beta before, where dx is the gradient with respect to x, for y = x * w.

    Each tap adds to elements that are a stride apart, so no windows are copied.

    Args:
        dy: the gradient with respect to y: (N, K, ...), or with channels last (N, ..., K).
        w: (K, C/groups, ...), or with channels last (K, ..., C/groups).
        x_shape: (N, C, ...), or with channels last (N, ..., C).
        window: as in `forward`.
        out_dtype, alpha, beta, before: as in `forward`.
    """
    with np.errstate(all="ignore"):
        sums = _sums_of(dy.dtype)
        batch, channels, lengths = window.parted(x_shape)
        kernels = _in_groups(_taps(_wide(w, sums), window), window.groups)
        slopes = _batch_third(_channels_first(_wide(dy, sums), window), window.groups)
        groups, filters, *places = slopes.shape
        rows = slopes.reshape(groups, filters, math.prod(places))
        # Includes the zeros of the padding, which are cut off at the end.
        dx = np.zeros((groups, channels // groups, batch, *window.padded(lengths)), sums)
        # A product of a column and a row takes NumPy five times as long as the same numbers one by one.
        times = np.multiply if filters == 1 else np.matmul
        scaled = np.empty((groups, channels // groups, rows.shape[-1]), sums)
        for tap in np.ndindex(*kernels.shape[3:]):
            target = dx[_last(*_reached(tap, places[1:], window))]
            target += times(kernels[_last(*tap)].swapaxes(1, 2), rows, out=scaled).reshape(target.shape)
        inside = (slice(lead, lead + n) for n, (lead, _) in zip(lengths, window.padding, strict=True))
        z = _blended(_batch_first(dx[_last(*inside)]), window, out_dtype, alpha, beta, before)
        return _stored(z, window, out_dtype)


# ---------------------------------------------------------------- windows


def _windows(x: Array, window: Window, taps: tuple[int, ...]) -> Array:
    """Return the elements of x (N, C, ...) at all taps, as a view of the padded x: (G, C/G, *taps, N, *places)."""
    padded = np.pad(x, ((0, 0), (0, 0), *window.padding))
    spatial = tuple(range(2, x.ndim))
    found = np.lib.stride_tricks.sliding_window_view(padded, window.reach(taps), spatial)
    found = found[_last(*(slice(None, None, step) for step in (*window.stride, *window.dilation)))]
    batch, channels, *rest = found.shape
    found = found.reshape(batch, window.groups, channels // window.groups, *rest)
    places, tap_axes = range(3, 3 + len(spatial)), range(3 + len(spatial), found.ndim)
    ordered: Array = found.transpose(1, 2, *tap_axes, 0, *places)
    return ordered


def _pieces(windows: Array, dimensions: int) -> Iterator[tuple[Any, Array]]:
    """Yield the windows as matrices (G, C/G taps, N places), for a part of the batch or of the first dimension.

    Each comes with the index of its part in an array (G, ..., N, *places).
    """
    batch, rows = windows.shape[-dimensions - 1 : windows.ndim - dimensions + 1]
    row = max(windows.size // max(batch * rows, 1), 1)
    samples, lines = max(_COLUMNS // (row * rows), 1), max(_COLUMNS // row, 1)
    for n in range(0, batch, samples):
        for line in range(0, rows, lines):
            inner = (slice(n, n + samples), slice(line, line + lines), *(slice(None),) * (dimensions - 1))
            columns = windows[_last(*inner)]
            height = math.prod(columns.shape[1 : -dimensions - 1])
            yield (slice(None), slice(None), *inner), columns.reshape(len(columns), height, -1)


def _last(*parts: Any) -> tuple[Any, ...]:
    """Return an index of the last axes."""
    return (..., *parts)


def _reached(tap: tuple[int, ...], places: list[int], window: Window) -> Iterator[slice]:
    """Yield slices for the elements of the padded input that a tap sees."""
    for r, count, step, apart in zip(tap, places, window.stride, window.dilation, strict=True):
        yield slice(r * apart, r * apart + (count - 1) * step + 1, step)


# ---------------------------------------------------------------- axes


def _channels_first(array: Array, window: Window) -> Array:
    return np.moveaxis(array, -1, 1) if window.channels_last else array


def _flipped(kernels: Array, window: Window) -> Array:
    """Return the kernels (K, C/G, *taps) of the cross-correlation."""
    return np.flip(kernels, tuple(range(2, kernels.ndim))) if window.flip else kernels


def _taps(w: Array, window: Window) -> Array:
    """Return w as (K, C/G, *taps), as the kernels of a cross-correlation."""
    return _flipped(_channels_first(w, window), window)


def _in_groups(kernels: Array, groups: int) -> Array:
    """Reshape (K, C/G, *taps) to (G, K/G, C/G, *taps)."""
    return kernels.reshape(groups, len(kernels) // groups, *kernels.shape[1:])


def _batch_third(array: Array, groups: int) -> Array:
    """Reorder (N, channels, ...) to (G, channels/G, N, ...)."""
    batch, channels, *rest = array.shape
    return np.moveaxis(array.reshape(batch, groups, channels // groups, *rest), 0, 2)


def _batch_first(array: Array) -> Array:
    """Reorder (G, channels/G, N, ...) to (N, channels, ...)."""
    groups, each, batch, *rest = array.shape
    return np.moveaxis(array, 2, 0).reshape(batch, groups * each, *rest)


# ---------------------------------------------------------------- dtypes, and the steps after the sums


def _sums_of(given: np.dtype[Any]) -> np.dtype[Any]:
    """Return the accumulator's dtype for products of a dtype."""
    types = info(given).products
    assert types is not None
    return dtype(types.accumulator)


def _wide(array: Array, sums: np.dtype[Any]) -> Array:
    """Convert floats to the dtype of their sums; integers stay unchanged, since `product` converts them to float64."""
    return array.astype(sums, copy=False) if sums.kind == "f" else array


def _blended(
    z: Array, window: Window, out_dtype: np.dtype[Any], alpha: float, beta: float, before: Array | None
) -> Array:
    """Return alpha z + beta before, channels first, in the compute dtype of the result's dtype."""
    z = z.astype(info(out_dtype).compute, copy=False)
    real = z.dtype.type
    if alpha != 1:
        z = z * real(alpha) if alpha else np.zeros_like(z)
    if beta:
        assert before is not None
        z = z + real(beta) * _channels_first(before, window).astype(z.dtype, copy=False)
    return z


def _stored(z: Array, window: Window, out_dtype: np.dtype[Any]) -> Array:
    """Return the contiguous result in its layout and dtype."""
    return np.ascontiguousarray(cast(np.moveaxis(z, 1, -1) if window.channels_last else z, out_dtype))
