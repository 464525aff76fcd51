"""Correct programs with kernels of `numbacc.cuda`."""

from __future__ import annotations

from typing import Any

import numpy as np

import numbacc
from numbacc import cuda


@cuda.jit
def scaled(factor: float, x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        y[i] = factor * x[i]


@cuda.jit(device=True)
def square(x: float) -> float:
    return x * x


@cuda.jit
def transposed(x: Any, y: Any) -> None:
    tile = cuda.shared.array((4, 4), "float32")
    i, j = cuda.grid(2)
    tile[cuda.threadIdx.y, cuda.threadIdx.x] = x[j, i]
    cuda.syncthreads()
    y[i, j] = square(tile[cuda.threadIdx.y, cuda.threadIdx.x])


x = numbacc.asarray(np.arange(16, dtype=np.float32), device="cpu")
y = numbacc.empty(16, device="cpu")
if not numbacc.has_gpu():
    with numbacc.portable():
        a = cuda.to_device(x)
        b = cuda.device_array_like(a)
        scaled[2, 8](2.0, a, b)
        transposed[1, (4, 4)](a.reshape(4, 4), b.reshape(4, 4))
        cuda.synchronize()
        print(b.copy_to_host())
