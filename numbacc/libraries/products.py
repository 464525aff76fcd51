"""Matrix products in cuBLASLt's form: the contents of its descriptors as plain data that can be compared and stored."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np


class Matrix(NamedTuple):
    """A column-major matrix, or a batch of them.

    Attributes:
        dtype: name of the dtype.
        rows, columns: its shape.
        pitch: elements from one column to the next ("leading dimension").
        batch_stride: elements from one matrix of the batch to the next; 0 if all are the same.
    """

    dtype: str
    rows: int
    columns: int
    pitch: int
    batch_stride: int = 0


class Product(NamedTuple):
    """The product D = epilogue(alpha op(A) op(B) + beta C), all column-major.

    Attributes:
        a, b, c, d: the matrices, as they are stored.
        transpose_a, transpose_b: whether op transposes.
        first: which of numbacc's arrays is A: 0 or 1; B is the other. (A row-major product is the column-major product
            of the transposes, with the two swapped.)
        batch: number of products.
        compute: "float32", "tf32", "float64" or "int32".
        epilogue: name of a cublasLtEpilogue_t.
        bias_dtype, bias_stride: dtype of bias or bias_grad, "" without one, and the step in elements between
            neighbouring matrices of the batch.
        aux_dtype, aux_pitch, aux_stride: likewise; for ReLU's bits the dtype is "" and an element is a bit.
        scales: for a, b, c, d: "", "scalar" or "vector" (one element per row of A, or per column of B).
        amax: whether to compute the largest |D|.
        fast: whether float8 products may be accumulated with fewer bits.
    """

    a: Matrix
    b: Matrix
    c: Matrix
    d: Matrix
    transpose_a: bool
    transpose_b: bool
    first: int
    batch: int
    compute: str
    epilogue: str = "DEFAULT"
    bias_dtype: str = ""
    bias_stride: int = 0
    aux_dtype: str = ""
    aux_pitch: int = 0
    aux_stride: int = 0
    scales: tuple[str, str, str, str] = ("", "", "", "")
    amax: bool = False
    fast: bool = False


@lru_cache(maxsize=4096)
def bits(value: float, dtype: str) -> int:
    """Return the bits of a number of the scale type as a word, which is how alpha and beta are passed."""
    with np.errstate(over="ignore"):
        return int.from_bytes(np.asarray(value, dtype).tobytes(), "little", signed=True)
