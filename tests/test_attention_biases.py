"""Biases of attention that are repeated along any axes, and their gradients."""

from __future__ import annotations

import pytest
from attention_call import Call, small
from attention_oracle import HALF, SINGLE

pytestmark = pytest.mark.usefixtures("poison")


@pytest.mark.parametrize("gradient", [False, True], ids=["", "gradient"])
@pytest.mark.parametrize("dtype", [SINGLE, HALF], ids=str)
@pytest.mark.parametrize("repeated", [(), (0,), (1,), (2,), (3,), (0, 1, 2), (2, 3), (0, 1, 2, 3)], ids=str)
def test_biases_are_repeated_along_any_axes(place, dtype, repeated, gradient):
    """cuDNN reads those wrongly, without a word, that are repeated along queries."""
    whole = (2, 2, 5, 7) if place.is_slow else (2, 2, 64, 72)
    shape = tuple(1 if axis in repeated else n for axis, n in enumerate(whole))
    sizes = {"queries": whole[2], "keys": whole[3], "width": 32, "value_width": 32}
    Call(place, small(dtype=dtype, bias=shape, **sizes), bias_grad=gradient).check()


def test_a_bias_that_is_copied_keeps_to_the_limit(device_place):
    """Else gradients are unfused."""
    case = small(dtype=HALF, bias=(2, 1, 1, 72), queries=64, keys=72, width=32, value_width=32)
    for limit in (None, 2**16):
        Call(device_place, case, bias_grad=False, workspace_limit=limit).check()
