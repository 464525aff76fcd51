"""ReLU's mask at 0, -0 and NaN: one rule on NumPy, in our own kernels and in cuBLASLt.

But for NaN's bits beside narrow results in cuBLASLt, which depend on its algorithm.
"""

from __future__ import annotations

import gemm_oracle
import numpy as np
import pytest
from gemm_call import BY_COLUMNS, BY_ROWS, DTYPES, PADDED, Call, is_fused

import numbacc
from numbacc import gemm
from numbacc.base import dtypes

pytestmark = pytest.mark.usefixtures("poison")

each_dtype = pytest.mark.parametrize("dtypes", [v for k, v in DTYPES.items() if k != "tf32"], ids=str)
#: Where out and aux lie: the library's own way, and ways in which only our kernels can follow a product.
WAYS = {
    "allocated": {},
    "rows apart": {"out": PADDED},
    "columns": {"out": BY_COLUMNS, "aux": BY_COLUMNS},
    "aux anywhere": {"out": BY_ROWS, "aux": {"margins": ((0, 0), (1, 2))}},
}
each_way = pytest.mark.parametrize("way", WAYS)
#: What each row of z is, and its bits.
ROWS = {
    "zero": (0.0, True),
    "negative zero": (-0.0, True),
    "positive": (0.5, True),
    "negative": (-0.5, False),
    "infinite": (np.inf, True),
    "minus infinite": (-np.inf, False),
    "NaN": (np.nan, True),
}


def run(place, dtypes, way, n, biased, batch=()):
    """A product whose rows of z are ROWS': out, the bits, and the rows whose bits are specified."""
    dtype, out_dtype, compute = dtypes
    values = np.array([value for value, _ in ROWS.values()])
    m, k = len(ROWS), 4
    a = np.zeros((*batch, m, k))
    a[..., 0] = values
    # 0 * -1 is -0, and so is the sum of nothing but such.
    a[..., 1, :] = -0.0
    b = np.zeros((*batch, k, n))
    b[..., 0, :] = 1
    b[..., 1:, :] = 1
    inputs = {"a": a, "b": b, "bias": np.full(n, -0.0)}
    kind = "relu_aux_bias" if biased else "relu_aux"
    call = Call(
        place,
        (m, n, k),
        kind,
        dtype,
        out_dtype,
        compute,
        batch_a=batch,
        batch_b=batch,
        layouts=WAYS[way],
        inputs=inputs,
    )
    out, mask = call.results(call.run())
    unspecified = place.name == "gpu" and out.itemsize < 4 and is_fused(call.plan())
    rows = {name: row for row, name in enumerate(ROWS) if not (unspecified and name == "NaN")}
    return out, gemm_oracle.unpack(mask, n), rows


@each_dtype
@each_way
@pytest.mark.parametrize("biased", [False, True], ids=["", "bias"])
def test_bits_are_of_z_not_below_0(place, dtypes, way, biased):
    for n in (9,) if place.is_slow else (8, 9, 64, 136):
        out, bits, rows = run(place, dtypes, way, n, biased)
        for name, row in rows.items():
            value, kept = ROWS[name]
            np.testing.assert_array_equal(bits[row], kept, err_msg=f"{name}, n={n}")
            if name != "NaN":  # what the library's ReLU makes of it is its own business
                np.testing.assert_array_equal(out[row].astype(np.float64), max(value, 0.0), err_msg=f"{name}, n={n}")


@each_dtype
def test_bits_in_batches(place, dtypes):
    _, bits, rows = run(place, dtypes, "allocated", 16, True, (2, 2))
    for name, row in rows.items():
        np.testing.assert_array_equal(bits[..., row, :], ROWS[name][1], err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_gradients_of_rows_of_zeros_pass(place, dtype):
    """A row of x that is 0 gives z = 0: `drelu` and the layers let its gradient through, wherever they run."""
    x, w = np.zeros((2, 8), dtypes.dtype(dtype)), np.ones((8, 16), dtypes.dtype(dtype))
    x[1] = -1
    x, w = place.put(x), place.put(w)
    out, aux = gemm.matmul(x, w, epilogue="relu_aux")
    one = place.put(np.ones((2, 1), dtypes.dtype(dtype)))
    row = place.put(np.ones((1, 16), dtypes.dtype(dtype)))
    found = place.get(gemm.matmul(one, row, aux=aux, epilogue="drelu")).astype(np.float64)
    np.testing.assert_array_equal(found, np.repeat([[1.0], [0.0]], 16, 1))
    y, saved = gemm.linear(x, w, activation="relu")
    dx, _, _ = gemm.linear_backward(place.put(np.ones((2, 16), dtypes.dtype(dtype))), saved)
    np.testing.assert_array_equal(place.get(dx).astype(np.float64), np.repeat([[16.0], [0.0]], 8, 1))
    assert not numbacc.asnumpy(y).any() and not numbacc.asnumpy(out).any()
