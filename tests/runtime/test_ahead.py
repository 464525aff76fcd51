"""Everyday calls launch what `python -m numbacc compile` has compiled ahead."""

from __future__ import annotations

import math

import numpy as np
import pytest

import numbacc
from numbacc import compiling, conv
from numbacc import elementwise as ew
from numbacc.base import dtypes
from numbacc.base.dispatch import launching_by
from numbacc.conv import lowering
from numbacc.elementwise.casting import NARROW
from numbacc.kernels.elementwise import copy

ROWS, POSITIONS, HEADS, WIDTH = 256, 64, 16, 128


@pytest.fixture(scope="module")
def ahead():
    return set(compiling.kernels(["blocks", "elementwise", "reductions"]))


def launched(call):
    """The kernels of a call, which are not launched."""
    found = []
    ew.cache_clear()
    with launching_by(compiling.Noted.into(found)):
        call()
    ew.cache_clear()  # of plans that launch nothing
    return set(found)


@pytest.mark.parametrize("dtype", dtypes.FLOATS)
@pytest.mark.parametrize("columns", [4096, 4097])
def test_blocks(device_place, ahead, dtype, columns):
    compute = dtypes.TABLE[dtype].compute
    x, row, q = (numbacc.empty(n, dtype) for n in ((ROWS, columns), columns, (2, HEADS, POSITIONS, WIDTH)))
    by_position, by_head = (numbacc.empty((*n, WIDTH // 2), compute) for n in ((POSITIONS,), (HEADS, 1)))
    tokens, places, offset = (numbacc.empty(n, "int64") for n in (ROWS, (ROWS, 1), 1))
    of_rows, stats = numbacc.empty(ROWS, compute), numbacc.empty((ROWS, 2), compute)
    calls = (
        lambda: (ew.tril(x), ew.triu(x, k=1), ew.eye(ROWS, columns, dtype=dtype)),
        lambda: (ew.arange(4096), ew.arange(4096, dtype=dtype), ew.arange(0.5, 4096, dtype=dtype)),
        lambda: (ew.linspace(0, 1, 4096, dtype=dtype), ew.one_hot(tokens, columns, dtype=dtype)),
        lambda: (ew.take(x, tokens, axis=0), ew.take_along_axis(x, places, axis=1)),
        lambda: (ew.dropout(x, 0.1, seed=1), ew.dropout_backward(x, 0.1, seed=1, offset=offset)),
        lambda: (ew.bias_activation(x, row, activation="gelu"), ew.residual_activation(x, x, activation="silu")),
        lambda: ew.bias_activation_backward(x, x, row, activation="gelu_tanh"),
        lambda: ew.residual_activation_backward(x, x, x),
        lambda: (ew.rope(q, by_position, by_position), ew.rope_backward(q, by_head, by_head, interleaved=True)),
        lambda: (ew.cross_entropy(x, tokens), ew.cross_entropy(x, tokens, label_smoothing=0.1, return_stats=True)),
        lambda: ew.cross_entropy_backward(1.0, x, tokens),
        lambda: ew.cross_entropy_backward(of_rows, x, tokens, reduction="none", stats=stats),
        lambda: ew.logsumexp(x, axis=1),
    )
    for call in calls:
        kernels = launched(call)
        assert kernels and not kernels - ahead


@pytest.mark.parametrize("dtype", [*dtypes.FLOATS, *NARROW])
@pytest.mark.parametrize("columns", [4096, 4097])
def test_copies_and_conversions(device_place, ahead, dtype, columns):
    """Of floats, into floats, those of 8 bits at either end."""
    x = numbacc.empty((ROWS, columns), dtype)
    assert launched(lambda: ew.copy(x)) and not launched(lambda: ew.copy(x)) - ahead
    for target in {*dtypes.FLOATS, *NARROW} - {dtype}:
        kernels = launched(lambda target=target: ew.astype(x, target))
        assert kernels and not kernels - ahead, target


@pytest.fixture(scope="module")
def ahead_of_convolutions():
    return set(compiling.kernels(["conv"]))


def launched_by_convolutions(call):
    """As `launched`."""
    found = []
    conv.cache_clear()
    copy.executable.cache_clear()
    with launching_by(compiling.Noted.into(found)):
        call()
    conv.cache_clear()
    copy.executable.cache_clear()
    return set(found)


@pytest.mark.parametrize("dtype", dtypes.FLOATS)
@pytest.mark.parametrize("side", [32, 5])
def test_what_follows_convolutions(device_place, ahead_of_convolutions, dtype, side):
    """Where channels are not the innermost, and in float64, cuDNN leaves activations to us."""
    x, w, bias = (numbacc.empty(shape, dtype) for shape in ((2, 8, side, side), (16, 8, 1, 1), 16))
    calls = [
        lambda: conv.forward(x, w, bias, activation="gelu"),
        lambda: conv.forward(x, w, activation="relu"),
        lambda: conv.forward(x.reshape(2, 8, side * side), w[..., 0], activation="silu", layout="NCW"),
    ]
    if dtype == "float64":
        last = x.reshape(2, side, side, 8), w.reshape(16, 1, 1, 8)
        calls += [lambda: conv.forward(*last, bias, activation="relu", layout="NHWC"), lambda: conv.forward(x, w, bias)]
    for call in calls:
        kernels = launched_by_convolutions(call)
        assert kernels and not kernels - ahead_of_convolutions


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_copies_before_fused_convolutions(device_place, ahead_of_convolutions, dtype):
    """Of arrays that start off multiples of 16 bytes."""
    x, w, bias = (
        numbacc.empty(1 + math.prod(shape), dtype)[1:].reshape(shape)
        for shape in ((2, 8, 32, 32), (16, 8, 1, 1), (16,))
    )
    kernels = launched_by_convolutions(lambda: conv.forward(x, w, bias))
    assert kernels and not kernels - ahead_of_convolutions


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_copies_of_kernels_of_gradients(device_place, ahead_of_convolutions, order, monkeypatch):
    """Where they are computed as convolutions, which large ones of float32 are."""
    monkeypatch.setattr(lowering, "is_faster", lambda problem: True)
    shape, kernels = ((2, 8, 9, 9), (16, 8, 3, 3)) if order == "NCHW" else ((2, 9, 9, 8), (16, 3, 3, 8))
    w = numbacc.full(kernels, 1.0)
    dy = numbacc.full(conv.output_shape(shape, kernels, layout=order), 1.0)
    kernels = launched_by_convolutions(lambda: conv.backward_data(dy, w, shape, layout=order))
    assert kernels and not kernels - ahead_of_convolutions


def test_what_is_seldom_called_is_not_there(device_place, ahead):
    x = numbacc.empty((4, 6, 8), "float16")
    assert launched(lambda: ew.bias_activation(x, numbacc.empty(6, "float16"), activation="mish", axis=1)) - ahead
    np.testing.assert_array_equal(numbacc.asnumpy(ew.tril(numbacc.full((2, 2), 1.0))), [[1, 0], [1, 1]])
