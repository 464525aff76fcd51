"""Correct programs with custom kernels and reductions, with and without annotations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import numbacc
from numbacc import elementwise as ew

if TYPE_CHECKING:
    from typing_extensions import assert_type
else:

    def assert_type(value: Any, kind: Any) -> Any:
        return value


x = numbacc.asarray(np.array([-4.0, 0.0, 4.0], np.float32))


@ew.kernel
def soft_clip(x: float, limit: float = 1.0) -> float:
    return limit * math.tanh(x / limit)


def cube_gradient(dy: float, x: float) -> tuple[float]:
    return (3 * dy * x * x,)


@ew.kernel(backward=cube_gradient)
def cube(x: float) -> float:
    return x * x * x


@ew.kernel
def gated_sum(a: float, b: float) -> float:
    # numbacc's own functions of numbers
    return ew.gelu(a) + ew.softplus(b, beta=2.0) + ew.maximum(a, b)


@ew.reduction(after=lambda total, count: math.sqrt(total / count))
def rms(x: float) -> float:
    return x * x


assert_type(soft_clip, ew.Kernel)
assert_type(cube, ew.Kernel)
assert_type(rms, ew.Reduction)
assert_type(ew.kernel(lambda x: x * x), ew.Kernel)
assert_type(ew.reduction(lambda x, y: x * y, merge="sum"), ew.Reduction)
y, saved = soft_clip(x, limit=2.0, return_saved=True)
(dx,) = soft_clip.backward(numbacc.full(3, 1.0), saved)
print(numbacc.asnumpy(dx), cube(x), cube.backward(x, x)[0], gated_sum(x, 1.0))
print(rms(x, axis=0, keepdims=True), soft_clip.plan(x).info.backend, rms.plan(x).info.op)
total, kept = rms(x, return_saved=True)
print(rms.backward(total, kept)[0], soft_clip.py_func)


def flagged(saves: bool) -> Any:
    return soft_clip(x, return_saved=saves)
