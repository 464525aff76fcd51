"""Arrays of each dtype for operators, and the comparison with NumPy's result."""

from __future__ import annotations

import numpy as np
import pytest

import numbacc

FLOATS = np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]])


VALUES = {
    "float64": FLOATS,
    "float32": FLOATS.astype(np.float32),
    "float16": FLOATS.astype(np.float16),
    "int32": np.array([[1, -2, 3], [7, 4, -5]], np.int32),
    "uint8": np.array([[1, 2, 3], [250, 4, 5]], np.uint8),
    "bool": np.array([[True, False, True], [False, False, True]]),
    "complex128": FLOATS + 1j * FLOATS[::-1],
}


each_dtype = pytest.mark.parametrize("name", VALUES)


def same(place, found, wanted, rtol=None):
    """A device array of NumPy's dtype, shape and values."""
    assert type(found) is (type(numbacc.zeros(1)) if place.is_device else type(wanted))
    wanted = np.asarray(wanted)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if rtol is None:
        exact = found.dtype.kind in "biu"
        # Complex powers go by logarithm and angle.
        rtol = 0 if exact else (256 if found.dtype.kind == "c" else 8) * float(np.finfo(found.dtype).eps)
    atol = rtol if found.dtype.kind == "c" else 0
    np.testing.assert_allclose(place.get(found), wanted, rtol=rtol, atol=atol)


def numpys(run):
    """What NumPy answers, None where it does not."""
    try:
        with np.errstate(all="ignore"):
            return run()
    except (TypeError, ValueError, OverflowError):
        return None
