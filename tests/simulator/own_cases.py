"""Calls of numbacc's functions whose kernels run in a simulator, as a process: `python own_cases.py FILE NAME ...`.

The process writes the results of these cases to a file. With NUMBACC_SIMULATE=1 the compiled simulator runs the
kernels, with NUMBA_ENABLE_CUDASIM=1 Numba's. With CHECKED=1 all accesses are checked.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import numbacc
from numbacc import conv, elementwise, gated

bfloat16 = np.dtype(ml_dtypes.bfloat16)


class Case(NamedTuple):
    """A call.

    Attributes:
        call: the function, of arrays on a device.
        inputs: NumPy arrays.
        wanted: the same of float64 arrays.
        exact: whether both simulators do the same arithmetic, so that results have equal bits.
        is_slow: whether compilation takes more than some seconds.
        tolerance: relative to the largest result.
    """

    call: Any
    inputs: tuple[np.ndarray, ...]
    wanted: Any
    exact: bool = False
    is_slow: bool = True
    tolerance: float = 1e-5


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def rms_norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight


def layer_norm(x, weight):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight


def reglu(x):
    a, b = np.split(x, 2, -1)
    return a * np.maximum(b, 0)


def swiglu(x):
    a, b = np.split(x, 2, -1)
    return a * b / (1 + np.exp(-b))


def depthwise(x, w):
    """A convolution of channels, which are last, by 3 x 3 taps each, with one zero around the image."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    n, m = x.shape[1:3]
    return sum(padded[:, i : i + n, j : j + m] * w[:, i, j, 0] for i in range(3) for j in range(3))


def depthwise_slopes(x, dy):
    """The gradient of the weights of `depthwise`."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    n, m = x.shape[1:3]
    parts = [[(padded[:, i : i + n, j : j + m] * dy).sum((0, 1, 2)) for j in range(3)] for i in range(3)]
    return np.moveaxis(np.array(parts), 2, 0)[..., None]


def of_channels(x, w):
    return conv.forward(x, w, groups=8, padding=1, layout="NHWC")


rows, square = normal(37, 64), normal(37, 37, seed=1)
whole = np.arange(-60, 60, dtype=np.int8).reshape(4, 30)

CASES = {
    "gated: vector": Case(lambda x: gated.forward(x, kind="reglu"), (normal(37, 128),), reglu, True, False),
    "gated: exponential": Case(lambda x: gated.forward(x, kind="swiglu"), (normal(37, 128),), swiglu, is_slow=False),
    "gated: float16": Case(
        lambda x: gated.forward(x, kind="swiglu"), (normal(7, 34, dtype=np.float16),), swiglu, tolerance=2e-3
    ),
    "gated: bfloat16": Case(
        lambda x: gated.forward(x, kind="swiglu"), (normal(7, 128, dtype=bfloat16),), swiglu, tolerance=2e-2
    ),
    "map: int8": Case(elementwise.add, (whole, whole), lambda x, y: x + y, True),
    "map: strided": Case(lambda x: elementwise.add(x[::2, ::3], 1.0), (rows,), lambda x: x[::2, ::3] + 1, True),
    "map: tiled": Case(lambda x, y: elementwise.multiply(x, y.T), (square, square), lambda x, y: x * y.T, True, False),
    "map: tiled words": Case(
        lambda x: elementwise.copy(x.T), (normal(96, 128, dtype=np.float16),), lambda x: x.T, True
    ),
    "map: complex": Case(elementwise.multiply, (rows.astype(np.complex64),) * 2, lambda x, y: x * y),
    "map: tanh": Case(elementwise.tanh, (rows,), np.tanh),
    "map: to integers": Case(
        lambda x: elementwise.astype(x, "int32"), (rows * np.float32(1e6),), lambda x: np.trunc(x), True
    ),
    "map: to bfloat16": Case(
        lambda x: elementwise.astype(x, bfloat16), (normal(5, 8, dtype=np.float64),), lambda x: x, True, tolerance=1e-2
    ),
    "map: where": Case(lambda x: elementwise.where(x > 0, x, 0.0), (rows,), lambda x: np.where(x > 0, x, 0), True),
    "optimizer": Case(
        lambda p, g: adamw(p, g),
        (rows, normal(37, 64, seed=2)),
        lambda p, g: p * (1 - 1e-3) - 0.1 * np.sign(g),
    ),
    "reduce: rows": Case(lambda x: elementwise.sum(x, axis=1), (rows,), lambda x: x.sum(1), True, False),
    "reduce: columns": Case(lambda x: elementwise.sum(x, axis=0), (rows,), lambda x: x.sum(0), True),
    "reduce: blocks": Case(elementwise.sum, (normal(300, 1000),), np.sum, True),
    "reduce: variance": Case(lambda x: elementwise.var(x, axis=1), (rows,), lambda x: x.var(1)),
    "reduce: argmax": Case(lambda x: elementwise.argmax(x, axis=1), (rows,), lambda x: x.argmax(1), True),
    "reduce: argmax of words": Case(
        lambda x: elementwise.argmax(x, axis=1), (normal(37, 64, dtype=np.float16),), lambda x: x.argmax(1), True
    ),
    "rows: softmax": Case(elementwise.softmax, (rows,), lambda x: softmax(x, -1)),
    "rows: softmax of float16": Case(
        elementwise.softmax, (normal(37, 64, dtype=np.float16),), lambda x: softmax(x, -1), tolerance=2e-3
    ),
    "rows: softmax of columns": Case(lambda x: elementwise.softmax(x, axis=0), (rows,), lambda x: softmax(x, 0)),
    "rows: rms_norm": Case(elementwise.rms_norm, (rows, rows[0]), rms_norm),
    "rows: layer_norm": Case(elementwise.layer_norm, (rows, rows[0]), layer_norm),
    "rows: in shared memory": Case(elementwise.softmax, (normal(3, 20000),), lambda x: softmax(x, -1)),
    "scan: rows": Case(lambda x: elementwise.cumsum(x, axis=1), (rows,), lambda x: x.cumsum(1), True),
    "scan: blocks that wait for each other": Case(
        lambda x: elementwise.cumsum(x), (normal(100_000),), lambda x: x.cumsum(), tolerance=1e-4
    ),
    "scatter: sorted": Case(
        lambda dy, x, i: elementwise.take_backward(dy, x, i, axis=0),
        (normal(3000, 8, seed=3), normal(100, 8), np.arange(3000) % 100),
        lambda dy, x, i: dy.reshape(30, 100, 8).sum(0),
    ),
    "conv: depthwise": Case(of_channels, (normal(2, 9, 7, 8), normal(8, 3, 3, 1, seed=1)), depthwise),
    "conv: depthwise of float16": Case(
        of_channels,
        (normal(2, 9, 7, 8, dtype=np.float16), normal(8, 3, 3, 1, dtype=np.float16, seed=1)),
        depthwise,
        tolerance=2e-3,
    ),
    "conv: weights": Case(
        lambda x, dy: conv.backward_filter(x, dy, (8, 3, 3, 1), groups=8, padding=1, layout="NHWC"),
        (normal(2, 9, 7, 8), normal(2, 9, 7, 8, seed=1)),
        depthwise_slopes,
    ),
    "gather": Case(
        lambda x, i: elementwise.take(x, i, axis=0), (rows, np.int64([5, 0, 36])), lambda x, i: x[i.astype(int)], True
    ),
    "scatter": Case(
        lambda dy, x, i: elementwise.take_backward(dy, x, i, axis=0),
        (rows[:3], rows, np.int64([5, 0, 5])),
        lambda dy, x, i: np.add.reduce([np.eye(37)[:, [int(k)]] * row for k, row in zip(i, dy, strict=True)]),
        True,
    ),
}


def adamw(p, g):
    """The parameters after the first step."""
    m, v = (numbacc.array(np.zeros(p.shape, np.float32), device="cuda:0") for _ in range(2))
    elementwise.adamw_step(p, g, m, v, 1, rate=0.1)
    return p


def main(file, *names):
    found = {}
    for name in names:
        inputs = [numbacc.array(each, device="cuda:0") for each in CASES[name].inputs]
        with numbacc.simulate(checked=True) if os.environ.get("CHECKED") else nullcontext():
            made = numbacc.asnumpy(CASES[name].call(*inputs))
        found[name] = made.astype(np.float32) if made.dtype == bfloat16 else made
        print(name, flush=True)
    np.savez(file, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
