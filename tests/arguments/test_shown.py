"""What messages show of a wrong value."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import refused

import numbacc
from numbacc import attention, conv, fft, gemm
from numbacc.errors import shown


def messages(array):
    """What is said where an array comes for a shape, a number, True or False, a name."""
    x, w, dy = np.ones((1, 1, 4, 4)), np.ones((1, 1, 3, 3)), np.ones((1, 1, 2, 2))
    calls = {
        "x_shape": lambda: conv.backward_data(dy, w, array),
        "w_shape": lambda: conv.backward_filter(x, dy, array),
        "q_shape": lambda: attention.forward.request(array, (1, 1, 4, 8)),
        "shape": lambda: numbacc.zeros(array),
        "groups": lambda: conv.forward(x, w, groups=array),
        "alpha": lambda: conv.forward(x, w, alpha=array),
        "deterministic": lambda: conv.forward(x, w, deterministic=array),
        "layout": lambda: conv.forward(x, w, layout=array),
        "compute": lambda: gemm.matmul(dy, dy, compute=array),
        "workspace_limit": lambda: gemm.matmul(dy, dy, workspace_limit=array),
        "epilogue": lambda: gemm.matmul(dy, dy, epilogue=array),
        "axis": lambda: numbacc.elementwise.sum(x, axis=array),
        "norm": lambda: fft.fft(x, norm=array),
    }
    for name, run in calls.items():
        with pytest.raises(numbacc.Error) as caught:
            run()
        yield name, str(caught.value)


def test_arrays_are_shown_by_dtype_and_shape(place):
    """Not by their elements, which of a GPU's would have to be waited for."""
    array = place.put(np.zeros((2, 3, 40, 50), np.float32))
    for name, text in messages(array):
        assert f"{name}=<{type(array).__name__} of float32, shape (2, 3, 40, 50)>" in text and len(text) < 250, text


def test_short_rows_are_shown_by_their_elements():
    """Of NumPy's arrays: what is wrong with them is what they hold."""
    refused(numbacc.ShapeError, "shape=array([1.5, 2. ])", run=lambda: numbacc.zeros(np.array([1.5, 2.0])))
    refused(numbacc.ShapeError, "shape=np.float64(1.5)", run=lambda: numbacc.zeros(np.float64(1.5)))
    assert shown(np.arange(9)) == "<ndarray of int64, shape (9,)>" and shown(np.array(3.0)) == "array(3.)"
    mute = type("Mute", (), {"shape": property(lambda self: 1 / 0), "__repr__": lambda self: "mute"})()
    assert shown(mute) == "<Mute>" and shown(10**5000) == "<int>"
