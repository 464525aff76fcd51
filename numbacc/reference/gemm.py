"""Matrix products with epilogues in NumPy: D = epilogue(alpha A B + beta C (+ bias)).

The product and everything after it are computed in the accumulator's dtype (float32 for 16-bit floats and float8), and
rounded once, when the result is stored.

Sources: the epilogues of cuBLASLt (cublasLtEpilogue_t); GELU in its tanh form, Hendrycks and Gimpel 2016
(arXiv:1606.08415).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.casts import cast
from .epilogues import dgelu, gelu, pack_bits, unpack_bits

Array = NDArray[Any]


class ProductResult(NamedTuple):
    """The results of a product.

    Attributes:
        out: the matrix D.
        second: aux or bias_grad, if the epilogue has one.
        amax: the largest |out| before scaling; 0 if it was not requested.
    """

    out: Array
    second: Array | None
    amax: Array


def product(a: Array, b: Array, accumulator: np.dtype[Any]) -> Array:
    """Return A B in the accumulator's dtype. Integers wrap, as on the hardware."""
    if accumulator.kind == "i":
        # Sums of products of 8-bit integers are exact in float64, and its BLAS is fast.
        exact: Array = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64).astype(accumulator)
        return exact
    result: Array = a.astype(accumulator, copy=False) @ b.astype(accumulator, copy=False)
    return result


def round_to(values: Array, dtype: np.dtype[Any]) -> Array:
    """Round `values` to a dtype. In float8, values out of range become the largest number, as in cuBLASLt.

    This is used for `out` and for the second result.
    """
    return cast(values, dtype)


def matmul(
    a: Array,
    b: Array,
    *,
    epilogue: str,
    accumulator: np.dtype[Any],
    out_dtype: np.dtype[Any],
    second_dtype: np.dtype[Any],
    c: Array | None = None,
    bias: Array | None = None,
    aux: Array | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    scale_a: Any = 1.0,
    scale_b: Any = 1.0,
    scale_d: Any = 1.0,
    amax: bool = True,
) -> ProductResult:
    """Compute D for matrices A (..., m, k) and B (..., k, n), whose leading dimensions broadcast.

    Args:
        a, b: arrays of rank 2 and more.
        epilogue: name of one of the sixteen epilogues.
        accumulator: dtype of the arithmetic.
        out_dtype, second_dtype: dtypes of the results.
        c: (..., m, n), read if beta is not 0.
        bias: (n,) or (..., 1, n).
        aux: for "drelu" (..., m, ceil(n/8)) bits in uint8, for "dgelu" (..., m, n).
        alpha, beta, scale_a, scale_b, scale_d: factors; scale_a may be (m, 1), scale_b (1, n).
        amax: whether to compute the largest |out|.
    """
    with np.errstate(all="ignore"):
        real = accumulator.type
        z = product(a, b, accumulator)
        if not alpha:  # BLAS's rule: A and B are not read
            z = np.zeros_like(z)
        if accumulator.kind == "f":
            if not (alpha == 1 and _is_one(scale_a) and _is_one(scale_b)):
                z = z * (real(alpha) * np.asarray(scale_a, accumulator) * np.asarray(scale_b, accumulator))
        elif alpha != 1:
            z = z * real(alpha)
        if beta:
            assert c is not None
            z = z + real(beta) * c.astype(accumulator)
        if bias is not None:
            z = z + bias.astype(accumulator)
        second: Array | None = None
        n = z.shape[-1]
        if "_aux" in epilogue:
            second = pack_bits(z) if "relu" in epilogue else z.astype(second_dtype)
        if epilogue.startswith("relu"):
            z = np.maximum(z, 0)
        elif epilogue.startswith("gelu"):
            z = gelu(z)
        elif epilogue.startswith("drelu"):
            assert aux is not None
            z = np.where(unpack_bits(aux, n), z, 0)
        elif epilogue.startswith("dgelu"):
            assert aux is not None
            z = z * dgelu(aux.astype(accumulator))
        if epilogue == "bgrada":
            second = _sum(a, -1, z.shape[:-2], accumulator, second_dtype)
        elif epilogue == "bgradb":
            second = _sum(b, -2, z.shape[:-2], accumulator, second_dtype)
        elif epilogue.endswith("bgrad"):
            second = round_to(z.sum(axis=-2), second_dtype)
        largest = np.abs(z).max(initial=0) if amax and accumulator.kind == "f" else 0
        if accumulator.kind == "f" and not _is_one(scale_d):
            z = z * np.asarray(scale_d, accumulator)
        return ProductResult(round_to(z, out_dtype), second, np.asarray(largest, np.float32))


def _is_one(factor: Any) -> bool:
    return isinstance(factor, float) and factor == 1


def _sum(x: Array, axis: int, batch: tuple[int, ...], accumulator: np.dtype[Any], dtype: np.dtype[Any]) -> Array:
    total = x.astype(accumulator).sum(axis=axis)
    return round_to(np.broadcast_to(total, (*batch, total.shape[-1])), dtype)
