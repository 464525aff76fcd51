"""Replace cuBLASLt in Numba's simulator: compute products in NumPy, on the simulated memory.

It supports no epilogues, so that numbacc's kernels compute them in the simulator. Only float8 products, whose results
numbacc's kernels cannot read, support forward epilogues and scales. Their addresses must meet cuBLASLt's rules for a
GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.dtypes import TABLE, dtype
from ..libraries.choices import Algorithm, Choices
from ..libraries.products import Matrix, Product
from ..reference.epilogues import gelu, relu
from ..reference.gemm import product as multiply
from ..reference.gemm import round_to
from .device import queued, view_at

#: As in `cublaslt`; the simulator has nothing to choose from.
algorithms = Choices("simulator")


#: Epilogues of float8 products: the function that each applies after the bias.
_ACTIVATIONS = {"DEFAULT": None, "BIAS": None, "RELU": relu, "RELU_BIAS": relu, "GELU": gelu, "GELU_BIAS": gelu}
#: Arrays of a call, by their number in `codes.MATMUL_ARRAYS`.
_BIAS, _SCALES, _AMAX = 4, 6, 10
#: Alignment in bytes that all arrays of a float8 product need.
_ALIGNED = 16


def choose(product: Product, alignment: tuple[int, ...], device: int, limit: int) -> Algorithm | None:
    """Return NumPy's algorithm, for products without an epilogue and for float8 products with a few of them."""
    plain = product.epilogue == "DEFAULT" and not any(product.scales) and not product.amax
    plain = plain or (_is_float8(product) and product.epilogue in _ACTIVATIONS)
    return Algorithm(b"", 0, "matmul") if plain else None


def tune(product: Product, alignment: tuple[int, ...], device: int, limit: int, *trial: Any) -> Algorithm | None:
    """Return what `choose` returns: there is nothing to measure."""
    return choose(product, alignment, device, limit)


def is_stand_in(product: Product, algorithm: Algorithm, device: int) -> bool:
    """Return False: the simulator has one algorithm only."""
    return False


def check(status: int) -> None:
    """Do nothing: a simulated call fails by raising."""


class Runner:
    """A product to compute on given addresses, like `cublaslt.Runner`."""

    backend = "simulator"

    def __init__(
        self,
        product: Product,
        algorithm: Algorithm,
        alignment: tuple[int, ...],
        device: int,
        pairs: Sequence[tuple[int, ...]] = (),
    ):
        self._product = product
        self.algorithm = algorithm
        self.workspace_bytes = 0

    def launch(self, *arguments: int) -> int:
        """Compute the product by `launch_unchecked`, which the simulator always checks."""
        return -1

    launch_plain = launch

    def launch_unchecked(self, stream: int, workspace: int, alpha: int, beta: int, *addresses: int) -> int:
        """Compute the product of the arrays at these addresses."""
        queued(stream, lambda: self._compute(alpha, beta, addresses))
        return 0

    def _compute(self, alpha: int, beta: int, addresses: Sequence[int]) -> None:
        product = self._product
        scale = dtype("float32" if product.compute == "tf32" else product.compute)
        first = product.first
        a = _view(addresses[first], product.a, product.batch)
        b = _view(addresses[1 - first], product.b, product.batch)
        a = a.swapaxes(-1, -2) if product.transpose_a else a
        b = b.swapaxes(-1, -2) if product.transpose_b else b
        d = _view(addresses[3], product.d, product.batch)
        factors = [_number(word, scale) for word in (alpha, beta)]
        if _is_float8(product):
            _check_alignment(product, addresses)
            factors[0] = factors[0] * _scale(product, addresses, 0) * _scale(product, addresses, 1)
            factors[1] = factors[1] * _scale(product, addresses, 2)
        with np.errstate(all="ignore"):
            result = factors[0] * multiply(a, b, scale)
            if factors[1]:
                result = result + factors[1] * _view(addresses[2], product.c, product.batch).astype(scale)
            if product.bias_dtype:
                result = result + _bias(product, addresses[_BIAS]).astype(scale)
            activation = _ACTIVATIONS[product.epilogue]
            result = result if activation is None else activation(result)
            if product.amax:
                amax = view_at(addresses[_AMAX], (1,), (4,), np.dtype(np.float32))
                amax[...] = np.abs(result).max(initial=0)
            d[...] = round_to(result * _scale(product, addresses, 3), d.dtype)


def _is_float8(product: Product) -> bool:
    return TABLE[product.a.dtype].is_scaled


def _check_alignment(product: Product, addresses: Sequence[int]) -> None:
    """Raise IndexError if a GPU would return an error for an array, or lose its context."""
    steps = [
        step * dtype(matrix.dtype).itemsize
        for matrix in (product.a, product.b, product.c, product.d)
        for step in (matrix.pitch if matrix.columns > 1 else 0, matrix.batch_stride)
    ]
    steps += [product.bias_stride * dtype(product.bias_dtype).itemsize] if product.bias_dtype else []
    for number in (*addresses, *steps):
        if number % _ALIGNED:
            raise IndexError(f"a float8 product's array is misaligned: {number:#x} must be a multiple of {_ALIGNED}")


def _scale(product: Product, addresses: Sequence[int], which: int) -> Any:
    """Return the scale of A, B, C or D: a scalar, or one value per row of A or per column of B."""
    kind = product.scales[which]
    if not kind:
        return np.float32(1)
    address = addresses[_SCALES + (which ^ product.first if which < 2 else which)]
    a = product.a.columns if product.transpose_a else product.a.rows
    b = product.b.rows if product.transpose_b else product.b.columns
    shape = () if kind == "scalar" else (a, 1) if which == 0 else (1, b)
    return view_at(address, shape, tuple(4 * (n > 1) for n in shape), np.dtype(np.float32))


def _bias(product: Product, address: int) -> NDArray[Any]:
    """Return the bias of each matrix of the batch, along D's rows."""
    kind = dtype(product.bias_dtype)
    strides = (product.bias_stride * kind.itemsize, kind.itemsize, 0)
    return view_at(address, (product.batch, product.d.rows, 1), strides, kind)


def _number(word: int, scale: np.dtype[Any]) -> Any:
    return np.frombuffer(word.to_bytes(8, "little", signed=True), scale)[0]


def _view(address: int, matrix: Matrix, batch: int) -> NDArray[Any]:
    """Return a matrix, or a batch of matrices, in simulated memory."""
    kind = dtype(matrix.dtype)
    size = kind.itemsize
    strides = (matrix.batch_stride * size, size, matrix.pitch * size)
    return view_at(address, (batch, matrix.rows, matrix.columns), strides, kind)
