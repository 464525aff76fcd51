"""Copies between images with channels first and last, by kernels that transpose 16-bit elements."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import bits

import numbacc
from numbacc.conv import operand_copies
from numbacc.kernels.conv.transposition_spec import TranspositionSpec

pytestmark = pytest.mark.usefixtures("poison")

#: Images, channels, pixels, and whether the channels fill accesses of 16 elements.
SHAPES = [
    (2, 16, (7, 7), True),
    (1, 32, (5, 9), True),
    (3, 48, (1, 1), True),
    (1, 16, (3, 4, 5), True),
    (5, 64, (33,), True),
    (2, 16, (128,), True),
    (2, 24, (7, 7), False),
    (2, 3, (6, 6), False),
]


def kernel_of(executable):
    """The specs of the kernels of a copy."""
    return executable._orders((0, 0))[0].kernel


@pytest.mark.parametrize("count, channels, pixels, ours", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("offset", [0, 1])
def test_transposed_images(device_place, count, channels, pixels, ours, dtype, offset):
    """To the end and back, also from and to arrays that are not aligned."""
    place, shape = device_place, (count, channels, *pixels)
    words = np.random.default_rng(5).integers(0, 2**16, (count * channels * np.prod(pixels)), np.uint16)
    values = words.reshape(shape).view(numbacc.base.dtypes.dtype(dtype))
    margins = [(0, 0)] * len(shape)
    margins[0] = (0, 0)
    whole = numbacc.asarray(np.concatenate([np.zeros(offset, values.dtype), values.reshape(-1)]))
    source = whole[offset:].reshape(shape)
    last = numbacc.empty((count, *pixels, channels), dtype)
    moved = last.transpose(0, len(shape) - 1, *range(1, len(shape) - 1))
    into = operand_copies.copied(source._numbacc_layout, moved._numbacc_layout, "gather")
    into.run((source,), (moved,), moved, 0)
    np.testing.assert_array_equal(bits(numbacc.asnumpy(moved)), bits(values))
    space = numbacc.full((values.size + offset + 1,), float("nan"), dtype)
    back = space[offset:-1].reshape(shape)
    out = operand_copies.copied(moved._numbacc_layout, back._numbacc_layout, "scatter")
    out.run((moved,), (back,), back, 0)
    np.testing.assert_array_equal(bits(numbacc.asnumpy(back)), bits(values))
    around = numbacc.asnumpy(space).astype(np.float32)
    assert np.isnan(around[-1]) and np.isnan(around[:offset]).all()
    if channels > 1 and np.prod(pixels) > 1:
        assert isinstance(kernel_of(into), TranspositionSpec) is isinstance(kernel_of(out), TranspositionSpec) is ours
    assert place.is_device
