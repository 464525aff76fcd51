"""Layers written out by hand, and how far off a result may be. Independent of numbacc."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from gemm_oracle import GELU_SLOPE_ERROR

from numbacc.base import dtypes


def activate(z, activation):
    """act(z) and act'(z)."""
    if activation == "relu":
        return np.maximum(z, 0), (z > 0) * 1.0
    if activation is None:
        return z, np.ones_like(z)
    root = np.sqrt(2 / np.pi)
    t = np.tanh(root * (z + 0.044715 * z**3))
    return z * (1 + t) / 2, (1 + t) / 2 + z * (1 - t * t) / 2 * root * (1 + 3 * 0.044715 * z * z)


def linear_by_hand(dy, x, w, bias, activation, store):
    """y, dx, dw, dbias; `store` is what keeping an array in memory does to it."""
    z = x @ w + (0 if bias is None else bias)
    y, slope = activate(store(z) if activation == "gelu" else z, activation)
    dz = store(dy * slope)
    rows, grads = x.reshape(-1, x.shape[-1]), dz.reshape(-1, w.shape[1])
    return [store(each) for each in (y, dz @ w.T, rows.T @ grads, grads.sum(0))]


def mlp_by_hand(dy, x, w1, b1, w2, b2, activation, store):
    """y, dx, dw1, db1, dw2, db2."""
    z = x @ w1 + b1
    hidden, slope = activate(store(z) if activation == "gelu" else z, activation)
    hidden = store(hidden)
    y = hidden @ w2 + b2
    dz = store((dy @ w2.T) * slope)
    rows, middle, grads = (each.reshape(-1, each.shape[-1]) for each in (x, dz, dy))
    dw1, dw2 = rows.T @ middle, hidden.reshape(-1, w2.shape[0]).T @ grads
    return [store(each) for each in (y, dz @ w1.T, dw1, middle.sum(0), dw2, grads.sum(0))]


class Step:
    """Values of a layer's arrays, and what they must give.

    Args:
        by_hand: one of the functions above.
        shapes: of dy, x, w and so on; None for what is not there.
        corner: gives z, which must be nowhere near 0, where ReLU has a corner.
    """

    def __init__(self, place, by_hand, shapes, dtype, activation, corner):
        self.place, self.dtype, self.activation = place, dtypes.dtype(dtype), activation
        for seed in range(10_000):
            rng = np.random.default_rng(seed)
            values = [None if s is None else (0.7 * rng.standard_normal(s)).astype(self.dtype) for s in shapes]
            self.values = [None if v is None else v.astype(np.float64) for v in values]
            if activation != "relu" or np.abs(corner(*self.values)).min() > 0.03:
                break
        self.arrays = [None if v is None else place.put(v) for v in values]
        self.exact = by_hand(*self.values, activation, lambda array: array)
        self.rounded = by_hand(*self.values, activation, lambda array: array.astype(self.dtype).astype(np.float64))

    def verify(self, results, names):
        """Each result is as near, in the largest norm, as if all in memory were rounded, twice over."""
        eps = float(ml_dtypes.finfo(self.dtype).eps)
        for name, result, exact, rounded in zip(names, results, self.exact, self.rounded, strict=True):
            if result is None:
                continue
            found = self.place.get(result)
            assert (found.shape, found.dtype) == (exact.shape, self.dtype), name
            scale = np.abs(exact).max() + 0.1
            error = np.abs(found.astype(np.float64) - exact).max()
            # cuBLASLt's GELU is off by more than a rounding of float32, its derivative most.
            fused = self.activation == "gelu" and self.place.name == "gpu" and self.dtype != np.float64
            allowed = 2 * np.abs(rounded - exact).max() + max(4 * eps, GELU_SLOPE_ERROR * fused) * scale
            assert error <= allowed, f"{name} is off by {error:.3g}, allowed are {allowed:.3g}"
