"""What tests of CUDA graphs on a GPU share."""

from __future__ import annotations

import numpy as np
from gpu_work import WORK

import numbacc
from numbacc import gated

RNG = np.random.default_rng(2)


ROWS, COLUMNS = 64, 256


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def direct(name, host):
    return numbacc.asnumpy(WORK[name](numbacc.asarray(host), None, None))


def assert_usable():
    host = normal(8, 16)
    x = numbacc.asarray(host)
    a, b = host[:, :8].astype(np.float64), host[:, 8:].astype(np.float64)
    np.testing.assert_allclose(numbacc.asnumpy(gated.forward(x)), a * b / (1 + np.exp(-b)), rtol=1e-5, atol=1e-6)
