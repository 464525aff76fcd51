"""Everyday calls launch what `python -m numbacc compile` has compiled ahead."""

from __future__ import annotations

import numpy as np
import pytest

import numbacc
from numbacc import compiling
from numbacc import elementwise as ew
from numbacc.base import dtypes
from numbacc.base.dispatch import launching_by
from numbacc.elementwise.casting import NARROW

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
    of_rows = numbacc.empty(ROWS, compute)
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
        lambda: ew.cross_entropy_backward(of_rows, x, tokens, reduction="none", stats=of_rows),
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


def test_what_is_seldom_called_is_not_there(device_place, ahead):
    x = numbacc.empty((4, 6, 8), "float16")
    assert launched(lambda: ew.bias_activation(x, numbacc.empty(6, "float16"), activation="mish", axis=1)) - ahead
    np.testing.assert_array_equal(numbacc.asnumpy(ew.tril(numbacc.full((2, 2), 1.0))), [[1, 0], [1, 1]])
