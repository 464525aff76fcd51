"""Correct programs with arrays: making them, parts, operators, methods, NumPy's functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import numbacc
from numbacc import elementwise as ew
from numbacc.typing import Array, DeviceArray, NumPyArray

if TYPE_CHECKING:
    from typing_extensions import assert_type
else:

    def assert_type(value: Any, kind: Any) -> Any:
        return value


host = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)
x = numbacc.asarray(host)
assert_type(x, DeviceArray)
assert_type(numbacc.asarray(host, device="cpu"), NumPyArray)
assert_type(numbacc.zeros((2, 3), "bfloat16"), DeviceArray)
assert_type(numbacc.empty(3, numbacc.bfloat16), DeviceArray)
assert_type(numbacc.full(3, 0.5, np.float64, device="cpu"), NumPyArray)
assert_type(numbacc.empty_like(x), DeviceArray)
assert_type(numbacc.from_dlpack(host), NumPyArray)
assert_type(numbacc.asnumpy(x), NumPyArray)
memory = np.zeros(6)
assert_type(numbacc.from_pointer(memory.ctypes.data, (2, 3), "float64", owner=memory, device="cpu"), NumPyArray)
assert_type(x.shape, tuple[int, ...])
assert_type(x.dtype, np.dtype[Any])

# Operators, also with numbers of Python and NumPy on either side.
assert_type(x + 1, DeviceArray)
assert_type(2 * x, DeviceArray)
assert_type(1.0 / (x + 3), DeviceArray)
assert_type(np.float32(2) - x, DeviceArray)
assert_type(x @ x.T, DeviceArray)
assert_type(-x, DeviceArray)
assert_type(abs(x) ** 2, DeviceArray)
assert_type((x > 0) & (x <= 1), DeviceArray)
assert_type(x == 0, DeviceArray)
assert_type(x != x, DeviceArray)
assert_type(divmod(x, 2.0), tuple[DeviceArray, DeviceArray])
y = x.copy()
y += x
y *= 2
assert_type(y, DeviceArray)

# Parts.
y[0, 1] = 7
y[1:3] = x[0:2]
y[..., 0] = 0.0
y[2] = host[2]
y[:, None]
first = y[0, 0]
print(float(first), int(y[0, 1].item()), len(y), [row.shape for row in y])

# Methods.
assert_type(x.sum(axis=-1), DeviceArray)
assert_type(x.mean(), DeviceArray)
assert_type(x.max(axis=(0, 1), keepdims=True), DeviceArray)
assert_type(x.reshape(8, 4).T.copy(), DeviceArray)
assert_type(x.reshape((2, -1)).astype("float64"), DeviceArray)
assert_type(x.copy_to_host(), NumPyArray)
assert_type(float(x.std()), float)
if x.any():
    print(f"{x.sum():.3f}", bool(x[0, 0] < 0), round(float(x.var(correction=1)), 3))

# NumPy's functions.
print(np.exp(x).shape, np.sum(x), np.maximum(x, 0.0).dtype)


def normalized(array: DeviceArray) -> DeviceArray:
    return (array - array.mean(-1, keepdims=True)) / array.std(-1, keepdims=True)


def scaled(array: Array, by: float) -> Array:
    return ew.multiply(array, by)


def absolute(array: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    return ew.abs(array)


assert_type(normalized(x), DeviceArray)
print(scaled(x, 2.0), scaled(host, 2.0), absolute(host))
with numbacc.stream() as s:
    ew.exp(x, out=y, stream=s)


@numbacc.compiled
def step(batch: DeviceArray, rate: float = 0.5) -> tuple[DeviceArray, None]:
    return batch * rate, None


@numbacc.compiled(copy=False, maxsize=2)
def again(batch: DeviceArray) -> DeviceArray:
    return batch + 1


assert_type(step(x), tuple[DeviceArray, None])
assert_type(again(x), DeviceArray)
assert_type(numbacc.compiled(normalized)(x), DeviceArray)
print(step.cache_info().hits, again.__wrapped__(x).shape)
start = numbacc.event(timing=True).record(numbacc.stream(priority=-1))
assert_type(start.elapsed_time(numbacc.event().record()), float)
