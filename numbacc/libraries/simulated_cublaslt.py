"""cuBLASLt's part in Numba's simulator: plain products in NumPy, on the simulated memory.

It has no epilogue, so that in the simulator our own kernels compute all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import simulator
from ..dtypes import dtype
from ..reference.gemm import product as multiply
from ..reference.gemm import round_to
from .products import Algorithm, Matrix, Product

#: As in `cublaslt`; here nothing is chosen.
algorithms: OrderedDict[Any, Any] = OrderedDict()


def choose(product: Product, alignment: tuple[int, ...], device: int, limit: int) -> Algorithm | None:
    """NumPy, for products without epilogue."""
    plain = product.epilogue == "DEFAULT" and not any(product.scales) and not product.amax
    return Algorithm(b"", 0, "matmul") if plain else None


def tune(product: Product, alignment: tuple[int, ...], device: int, limit: int, *trial: Any) -> Algorithm | None:
    """As `choose`: there is nothing to measure."""
    return choose(product, alignment, device, limit)


def check(status: int) -> None:
    """A simulated call fails by an exception."""


class Runner:
    """A product, ready to be given arrays' addresses: as `cublaslt.Runner`."""

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
        """Leave it to `launch_unchecked`, behind a closer look."""
        return -1

    launch_plain = launch

    def launch_unchecked(self, stream: int, workspace: int, alpha: int, beta: int, *addresses: int) -> int:
        """Compute the product of the arrays at these addresses."""
        simulator.queued(stream, lambda: self._compute(alpha, beta, addresses))
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
        with np.errstate(all="ignore"):
            result = factors[0] * multiply(a, b, scale)
            if factors[1]:
                result = result + factors[1] * _view(addresses[2], product.c, product.batch).astype(scale)
            d[...] = round_to(result, d.dtype)


def _number(word: int, scale: np.dtype[Any]) -> Any:
    return np.frombuffer(word.to_bytes(8, "little", signed=True), scale)[0]


def _view(address: int, matrix: Matrix, batch: int) -> NDArray[Any]:
    """A matrix, or a batch of them, in simulated memory."""
    kind = dtype(matrix.dtype)
    size = kind.itemsize
    strides = (matrix.batch_stride * size, size, matrix.pitch * size)
    return simulator.view_at(address, (batch, matrix.rows, matrix.columns), strides, kind)
