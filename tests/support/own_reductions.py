"""Reductions of one's own for tests, with what they must give."""

# ruff: noqa: E501

from __future__ import annotations

import math

import numpy as np

from numbacc import elementwise as ew


@ew.reduction(after=lambda total, count, eps=0.0: math.sqrt(total / count + eps))
def rms(x):
    """√(mean of x² + eps)."""
    return x * x


dot = ew.reduction(lambda x, y: x * y)


distance = ew.reduction(lambda x, y, p=2.0: abs(x - y) ** p, after=lambda total, p=2.0: total ** (1 / p))


cosine = ew.reduction(lambda x, y: (x * y, x * x, y * y), after=lambda xy, xx, yy: xy / math.sqrt(xx * yy + 1.0))


moments = ew.reduction(lambda x: (x, x * x), after=lambda s, q, n: (s / n, q / n - (s / n) ** 2))


above = ew.reduction(lambda x, limit=0.0: x > limit, after=lambda n, count: (n / count, n > 2))


def _merged(m, s, n, t):
    high = max(m, n)
    one = s * math.exp(m - high) if m > -math.inf else 0.0
    return high, one + (t * math.exp(n - high) if n > -math.inf else 0.0)


logsumexp = ew.reduction(
    lambda x: (x, 1.0), merge=_merged, start=(-math.inf, 0.0), after=lambda m, s: m + math.log(s) if s > 0.0 else m
)


#: Reduction -> (arrays, the same of NumPy in float64: (arrays, axes as a tuple, keepdims) -> results).
MEANINGS = {
    "rms": (rms, 1, lambda x, **o: np.sqrt(np.mean(x * x, **o))),
    "dot": (dot, 2, lambda x, y, **o: np.sum(x * y, **o)),
    "distance": (distance, 2, lambda x, y, **o: np.sqrt(np.sum((x - y) ** 2, **o))),
    "cosine": (cosine, 2, lambda x, y, **o: np.sum(x * y, **o) / np.sqrt(np.sum(x * x + 0 * y, **o) * np.sum(y * y + 0 * x, **o) + 1)),
    "moments": (moments, 1, lambda x, **o: (np.mean(x, **o), np.mean(x * x, **o) - np.mean(x, **o) ** 2)),
    "above": (above, 1, lambda x, **o: (np.mean(x > 0, **o), np.sum(x > 0, **o) > 2)),
    "logsumexp": (logsumexp, 1, lambda x, **o: np.log(np.sum(np.exp(x), **o))),
}  # fmt: skip


def same(place, found, wanted, name):
    """Results, one or several, are as they should be."""
    found, wanted = ([each] if not isinstance(each, tuple) else each for each in (found, wanted))
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == np.shape(other)
        if one.dtype == bool:
            np.testing.assert_array_equal(place.get(one), other)
        else:
            tolerance = {2: 2e-2 if name == "bfloat16" else 3e-3, 4: 2e-6, 8: 1e-12}[one.dtype.itemsize]
            np.testing.assert_allclose(place.get(one).astype(float), other, rtol=tolerance, atol=tolerance)
