"""The GELU that cuBLASLt fuses into products, on a real GPU: as exact as the docs say."""

from __future__ import annotations

import numpy as np
import pytest
from gemm_oracle import GELU_ERROR, GELU_SLOPE_ERROR

import numbacc
from numbacc import gemm

pytestmark = pytest.mark.gpu


def test_the_librarys_gelu_is_as_exact_as_is_documented():
    """Over arguments of every size: densely where it bends, and from 1e-17 to 1e17."""
    rng = np.random.default_rng(17)
    dense, any_size = (
        np.linspace(-12, 12, 1 << 21),
        np.exp(rng.uniform(-40, 40, 1 << 21)) * rng.choice([-1, 1], 1 << 21),
    )
    z = np.concatenate([dense, any_size]).astype(np.float32).reshape(-1, 64)
    x, dy = numbacc.asarray(z), numbacc.full(z.shape, 1.0)
    same, bias = numbacc.asarray(np.eye(64, dtype=np.float32)), numbacc.full(64, 0.0)
    wide = z.astype(np.float64)
    u = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
    tanh, bend = np.tanh(u), np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * wide**2)
    gelu = 0.5 * wide * (1 + tanh)
    slope = 0.5 * (1 + tanh) + 0.5 * wide * (1 - tanh**2) * bend
    assert gemm.matmul.plan(x, same, bias=bias, epilogue="gelu_bias").info.backend == "cublasLt"
    got = numbacc.asnumpy(gemm.matmul(x, same, bias=bias, epilogue="gelu_bias"))
    assert (np.abs(got - gelu) <= GELU_ERROR * np.maximum(1, np.abs(gelu))).all()
    assert gemm.matmul.plan(dy, same, epilogue="dgelu", aux=x).info.backend == "cublasLt"
    got = numbacc.asnumpy(gemm.matmul(dy, same, epilogue="dgelu", aux=x))
    assert (np.abs(got - slope) <= GELU_SLOPE_ERROR).all()
