"""Correct programs with custom kernels and reductions, with and without annotations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import numbacc
from numbacc import elementwise as ew
from numbacc.typing import DeviceArray, NumPyArray

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


@ew.kernel
def halves(x: float) -> tuple[float, float]:
    return soft_clip(x, limit=2.0), x - soft_clip(x, limit=2.0)


@ew.kernel
def without_annotations(x, limit=1.0):  # type: ignore[no-untyped-def]
    return min(x, limit)


@ew.reduction
def moments(x: float) -> tuple[float, float]:
    return x, x * x


assert_type(soft_clip, ew.Kernel[float])
assert_type(cube, ew.Kernel[float])
assert_type(rms, ew.Reduction[float])
assert_type(halves, ew.Kernel[tuple[float, float]])
square: ew.Kernel = ew.kernel(lambda x: x * x)
inner: ew.Reduction = ew.reduction(lambda x, y: x * y, merge="sum")

# Results: a device array or a NumPy array, or a tuple of them.
host = np.linspace(-4.0, 4.0, 3)
assert_type(soft_clip(x), DeviceArray)
assert_type(soft_clip(host, limit=2.0), NumPyArray)
assert_type(gated_sum(1.0, host), NumPyArray)
assert_type(halves(x), tuple[DeviceArray, ...])
assert_type(halves(host), tuple[NumPyArray, ...])
assert_type(without_annotations(x), DeviceArray)
assert_type(without_annotations(host, 2.0), NumPyArray)
assert_type(square(x), DeviceArray)
assert_type(inner(x, x), DeviceArray)
assert_type(rms(x, axis=0, keepdims=True), DeviceArray)
assert_type(rms(host), NumPyArray)
assert_type(moments(x, axis=0), tuple[DeviceArray, ...])
assert_type(soft_clip.backward(x, x), tuple[DeviceArray, ...])
assert_type(rms.backward(np.ones(1), host.reshape(3, 1), axis=0), tuple[NumPyArray, ...])
assert_type(soft_clip.plan(x), ew.ElementwisePlan[DeviceArray])
assert_type(soft_clip.plan(x)(x, 1.0), DeviceArray)
assert_type(halves.plan(host)(host), tuple[NumPyArray, ...])
assert_type(without_annotations.plan(host)(host, 1.0), NumPyArray)
assert_type(rms.plan(x)(x), DeviceArray)
low, high = without_annotations(x), halves(x)[1]
assert_type(halves(x, return_saved=True)[0], tuple[DeviceArray, ...])
print(low, high)
y, saved = soft_clip(x, limit=2.0, return_saved=True)
(dx,) = soft_clip.backward(numbacc.full(3, 1.0), saved)
print(numbacc.asnumpy(dx), cube(x), cube.backward(x, x)[0], gated_sum(x, 1.0))
print(rms(x, axis=0, keepdims=True), soft_clip.plan(x).info.backend, rms.plan(x).info.op)
total, kept = rms(x, return_saved=True)
print(rms.backward(total, kept)[0], soft_clip.py_func)


def flagged(saves: bool) -> Any:
    return soft_clip(x, return_saved=saves)
