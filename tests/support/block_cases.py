"""Dtypes and roundings for tests of transformers' blocks."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

FLOATS = ["float32", "float64", "float16", ml_dtypes.bfloat16]


floats = pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: np.dtype(dtype).name)


def rounding(dtype):
    """Half the distance from 1 to the next number."""
    return float(ml_dtypes.finfo(dtype).eps) / 2


def near(found, wanted, dtype, scale=1.0, ulps=4):
    """Errors within a few roundings of the dtype, of terms of this size."""
    assert found.dtype == np.dtype(dtype)
    allowed = ulps * rounding(dtype) * np.maximum(np.abs(wanted), scale)
    error = np.abs(found.astype(np.float64) - wanted)
    assert np.all((error <= allowed) | (np.isnan(found) & np.isnan(wanted)) | (found == wanted)), error.max()
