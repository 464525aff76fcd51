"""Attention of float8 in float64, with explicit masks, and how far roundings may move results."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from numbacc import attention

E4M3, E5M2 = DTYPES = [np.dtype(each) for each in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)]
MASKS = {
    "none": None,
    "causal": "causal",
    "window": attention.SlidingWindow(7),
    "causal window": attention.CausalSlidingWindow(3),
}
SCALES = {
    "descale_q": 0.5, "descale_k": 2.0, "descale_v": 0.25, "scale_s": 256.0, "descale_s": 1 / 256, "scale_o": 16.0,
}  # fmt: skip


class Values(NamedTuple):
    """What is attended to, and how."""

    q: Any
    k: Any
    v: Any
    mask: Any = None
    scales: Any = SCALES


def values(dtype, mask=None, *, heads=(4, 2), queries=6, keys=7, width=16, value_width=32, scales=None, seed=0):
    rng = np.random.default_rng(seed)
    shapes = ((2, heads[0], queries, width), (2, heads[1], keys, width), (2, heads[1], keys, value_width))
    arrays = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    return Values(*arrays, mask, SCALES if scales is None else scales)


def sees(mask, i, j):
    if mask is None:
        return True
    if isinstance(mask, str):
        return j <= i
    after = 0 if isinstance(mask, attention.CausalSlidingWindow) else mask.length - 1
    return -after <= i - j < mask.length


#: A Hopper's tensor cores add products of float8 in 14 bits, cut off, whatever the dtype of the sum (DeepSeek-AI 2024,
#: arXiv:2412.19437, section 3.3.2): so far a score may be off, in parts of the sum of its products' magnitudes.
_SUMS_IN_14_BITS = 2.0**-12


class Exact(NamedTuple):
    """Results in float64, and how far roundings to float8 may move o, and sums of the first product the statistics."""

    o: Any
    room: Any
    stats: Any
    stats_room: Any
    amax_s: float
    amax_o: float
    amax_room: float


def exact(case, on_gpu):
    """Whole matrices in float64, nothing rounded between the products."""
    scale = dict.fromkeys(SCALES, 1.0) | case.scales
    q, k, v = (each.astype(np.float64) for each in case[:3])
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(each, group, axis=1) for each in (k, v))
    factor = scale["descale_q"] * scale["descale_k"] * q.shape[3] ** -0.5
    scores = q @ k.swapaxes(2, 3) * factor
    moved = (np.abs(q) @ np.abs(k).swapaxes(2, 3) * factor).max(-1, keepdims=True) * (_SUMS_IN_14_BITS * on_gpu)
    visible = [[sees(case.mask, i, j) for j in range(k.shape[2])] for i in range(q.shape[2])]
    scores = np.where(visible, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    total = weights.sum(-1, keepdims=True)
    stats = (scores.max(-1, keepdims=True) + np.log(total))[..., 0]
    weights = weights / total
    kind = ml_dtypes.finfo(case.q.dtype)
    half, least = float(kind.eps) / 2, float(kind.smallest_subnormal) / 2
    back = scale["descale_s"] * scale["descale_v"]
    o = scale["scale_s"] * weights @ v * back
    # Each weight is rounded once, with few bits for the small ones; then o.
    off = ((half + 2 * moved) * scale["scale_s"] * weights + least * (weights > 0)) @ np.abs(v) * back
    off += 1e-5 * np.abs(o)
    stored = np.clip(o * scale["scale_o"], -float(kind.max), float(kind.max))
    room = off * scale["scale_o"] * (1 + half) + half * np.abs(stored) + least
    stats_room = 1e-5 * (1 + np.abs(stats)) + moved[..., 0]
    return Exact(stored, room, stats, stats_room, weights.max(), np.abs(o).max(), off.max())


def check(place, case, o, stats=None, amax_s=None, amax_o=None):
    wanted = exact(case, place.name == "gpu")
    assert (o.dtype, o.shape) == (case.q.dtype, wanted.o.shape)
    error = np.abs(o.astype(np.float64) - wanted.o)
    assert (error <= wanted.room).all(), (error / wanted.room).max()
    if stats is not None:
        assert (np.abs(stats - wanted.stats) <= wanted.stats_room).all()
    if amax_s is not None:
        assert amax_s.shape == amax_o.shape == (1,) and amax_s.dtype == amax_o.dtype == np.float32
        np.testing.assert_allclose(amax_s, wanted.amax_s, rtol=1e-4 + 2 * wanted.stats_room.max())
        error = abs(amax_o[0] - wanted.amax_o)
        assert error <= wanted.amax_room, (amax_o[0], wanted.amax_o, wanted.amax_room)
