"""From a checked problem to products in cuBLASLt's form.

cuBLASLt's matrices are column-major. It sees row-major memory as the transpose, and (A B)ᵀ = Bᵀ Aᵀ. So for a row-major
result A and B are swapped, and no data moves. The rows of D in cuBLASLt's terms are then numbacc's columns: it adds a
bias along the rows of D, which is numbacc's last axis, and its BGRADA is numbacc's bgradb.
"""

from __future__ import annotations

import itertools
from math import gcd, prod
from typing import Any, NamedTuple

from ..base.dtypes import TABLE
from ..base.layout import Layout, layout
from ..libraries.products import Matrix, Product
from .epilogue import Epilogue
from .problem import GemmProblem, pitch, scales_rows

#: The numbers of the arrays in a call of the library.
A, B, C, OUT, BIAS, AUX = range(6)


class LoweredProduct(NamedTuple):
    """A product, and the start of each of its runs in the arrays.

    Attributes:
        product: the product that each run computes.
        offsets: byte offsets into a, b, c, out, bias or bias_grad, aux, for each run.
        copies: arrays that the library gets as copies, see `alignment.Copied`.
    """

    product: Product
    offsets: tuple[tuple[int, ...], ...]
    copies: tuple[Any, ...] = ()


class _Axis(NamedTuple):
    """A dimension of a batch: its length, and the step in bytes from one matrix to the next in each array."""

    length: int
    steps: tuple[int, ...]


def row_major(problem: GemmProblem) -> bool:
    """Return True if the result is stored row by row."""
    return pitch(problem.matrix_out, True) is not None


def fuses(problem: GemmProblem, kind: Epilogue) -> bool:
    """Return True if cuBLASLt can express an epilogue on these layouts; it may still lack it for the dtypes."""
    out = problem.matrix_out
    if problem.types.accumulator == "float64" and kind.activation == "gelu":
        return False  # cuBLASLt has one, but with the precision of float32
    along_rows = kind.uses_bias or kind.uses_aux or kind.produces_aux
    if along_rows and not row_major(problem):
        return False
    _, _, _, _, bias, aux = _operands(problem, kind)
    if bias is not None and problem.n > 1 and bias.strides[-1] != bias.itemsize:
        return False
    if aux is None:
        return True
    found = pitch(aux, True)
    unit = 16 if kind.activation == "relu" else 8
    aligned = all(step % (unit * aux.itemsize) == 0 for step in aux.strides[:-2])
    return found is not None and aligned and (out.shape[-2] == 1 or found % unit == 0)


def lower(problem: GemmProblem, kind: Epilogue) -> LoweredProduct:
    """Return the product with an epilogue: the problem's own, or the part that the library computes."""
    operands = _operands(problem, kind)
    rows = problem.m
    folded = _fold(problem, operands, kind)
    if folded is not None:
        operands, rows = folded
        axes: list[_Axis] = []
    else:
        axes = _merge(problem.batch, operands)
    # The library's batch strides cannot be negative, and it needs separate row and column scales for each matrix. A
    # batch with negative steps, or with shared scales of this kind, becomes one call per matrix.
    forwards = axes and min(axes[-1].steps) >= 0 and not scales_rows(problem.call)
    inner = axes.pop() if forwards else _Axis(1, (0,) * len(operands))
    out = operands[OUT]
    assert out is not None
    by_rows = pitch(out, True) is not None
    narrow = problem.types.multiple > 1
    # A single row or column fits both storage orders: use the one that the library prefers.
    a_rows = _stored_by_rows(operands[A], preferred=kind is not Epilogue.BGRADA)
    b_rows = _stored_by_rows(operands[B], preferred=not narrow)
    ours = [
        _matrix(operands[A], a_rows, inner.steps[A]),
        _matrix(operands[B], b_rows, inner.steps[B]),
    ]
    transposed = [a_rows != by_rows, b_rows != by_rows]
    first = 1 if by_rows else 0
    d = _matrix(out, by_rows, inner.steps[OUT])
    c = operands[C]
    name = {Epilogue.NONE: "DEFAULT"}.get(kind, kind.name)
    if by_rows and kind in (Epilogue.BGRADA, Epilogue.BGRADB):
        name = "BGRADB" if kind is Epilogue.BGRADA else "BGRADA"
    product = Product(
        a=ours[first],
        b=ours[1 - first],
        c=_c_without(problem, d) if c is None else _matrix(c, by_rows, inner.steps[C]),
        d=d,
        transpose_a=transposed[first],
        transpose_b=transposed[1 - first],
        first=first,
        batch=inner.length,
        compute="float32" if problem.compute == "fast" else problem.compute,
        epilogue=name,
        fast=problem.compute == "fast",
        **_extras(problem, kind, operands, inner, rows, first),
    )
    runs = itertools.product(*(range(axis.length) for axis in axes))
    offsets = tuple(
        tuple(sum(i * axis.steps[k] for i, axis in zip(run, axes, strict=True)) for k in range(len(operands)))
        for run in runs
    )
    return LoweredProduct(product, offsets)


def c_fits(problem: GemmProblem) -> bool:
    """Return True if the library can read C in place, since it is stored as D is; else C is first copied into D.

    In 16 bits, C is also copied if its rows are better aligned than the rows of D, because some of cuBLASLt's kernels
    check the alignment of C only.
    """
    c = problem.matrix_c
    if c is None:
        return True
    by_rows = row_major(problem)
    if pitch(c, by_rows) is None:
        return False
    return problem.call.a.itemsize != 2 or _row_alignment(problem.matrix_out) >= _row_alignment(c)


def _row_alignment(array: Layout) -> int:
    """Return the greatest power of two up to 16 that divides the bytes between rows (or columns) and matrices."""
    steps = (step for n, step in zip(array.shape, array.strides, strict=True) if n > 1 and step != array.itemsize)
    return gcd(16, *steps)


def _operands(problem: GemmProblem, kind: Epilogue) -> list[Layout | None]:
    """Return the layouts of a, b, c, out, bias or bias_grad, aux: None for those that this product does not use."""
    c = problem.matrix_c if problem.call.has_beta else None
    if c is not None and not c_fits(problem):
        c = problem.matrix_out
    bias = problem.matrix_bias if kind.uses_bias else None
    if kind.produces_bias_grad and problem.matrix_grad is not None:
        bias = as_row(problem.matrix_grad)
    aux = problem.matrix_aux if kind.uses_aux or kind.produces_aux else None
    return [problem.matrix_a, problem.matrix_b, c, problem.matrix_out, bias, aux]


def as_row(vectors: Layout) -> Layout:
    """Return vectors (..., n) as matrices of one row (..., 1, n)."""
    shape, strides = vectors.shape, vectors.strides
    return layout((*shape[:-1], 1, shape[-1]), (*strides[:-1], 0, strides[-1]), vectors.dtype, vectors.device)


def _fold(
    problem: GemmProblem, operands: list[Layout | None], kind: Epilogue
) -> tuple[list[Layout | None], int] | None:
    """Stack matrices that share one B: the batch's dimensions become rows of one tall A. Return None if impossible."""
    a, b, _, out, bias, _ = operands
    assert a is not None and b is not None and out is not None
    if prod(problem.batch) == 1 or kind.produces_bias_grad or not row_major(problem) or pitch(a, True) is None:
        return None
    if scales_rows(problem.call):
        return None  # the scales belong to the rows of one matrix
    if any(any(array.strides[:-2]) for array in (b, bias) if array is not None):
        return None
    dimensions = [d for d, n in enumerate(a.shape[:-1]) if n > 1]
    stacked = {k: array for k, array in enumerate(operands) if array is not None and k not in (B, BIAS)}
    for array in stacked.values():
        for outer, inner in itertools.pairwise(dimensions):
            if array.strides[outer] != array.shape[inner] * array.strides[inner]:
                return None
        if array.strides[dimensions[-1]] < array.shape[-1] * array.itemsize:
            return None
    rows, last = prod(a.shape[:-1]), dimensions[-1]
    folded: list[Layout | None] = []
    for k, operand in enumerate(operands):
        if operand is None:
            folded.append(None)
            continue
        height, step = (rows, operand.strides[last]) if k in stacked else (operand.shape[-2], operand.strides[-2])
        columns, unit = operand.shape[-1], operand.strides[-1]
        folded.append(layout((height, columns), (step, unit), operand.dtype, operand.device))
    return folded, rows


def _merge(batch: tuple[int, ...], operands: list[Layout | None]) -> list[_Axis]:
    """Return the batch's dimensions, outermost first; neighbours are merged if they have a common stride everywhere."""
    axes: list[_Axis] = []
    for d, length in enumerate(batch):
        if length == 1:
            continue
        steps = tuple(0 if array is None else array.strides[d] for array in operands)
        if axes and axes[-1].steps == tuple(length * step for step in steps):
            axes[-1] = _Axis(axes[-1].length * length, steps)
        else:
            axes.append(_Axis(length, steps))
    return axes


def _stored_by_rows(array: Layout | None, preferred: bool) -> bool:
    assert array is not None
    return preferred if pitch(array, preferred) is not None else not preferred


def _matrix(array: Layout | None, by_rows: bool, step: int) -> Matrix:
    """Return matrices as cuBLASLt sees their memory: row-major ones as their transposes."""
    assert array is not None
    distance = pitch(array, by_rows)
    assert distance is not None
    rows, columns = array.shape[-2:]
    shape = (columns, rows) if by_rows else (rows, columns)
    return Matrix(array.dtype.name, *shape, distance, step // array.itemsize)


def _c_without(problem: GemmProblem, d: Matrix) -> Matrix:
    """Return a C for a product without one: D itself, or for float8, which is invalid for C, the same in 16 bits."""
    narrow = TABLE[d.dtype].is_scaled
    return d._replace(dtype="bfloat16") if narrow else d


def _extras(
    problem: GemmProblem, kind: Epilogue, operands: list[Layout | None], inner: _Axis, rows: int, first: int
) -> dict[str, Any]:
    """Return the fields of a `Product` that describe bias, aux and scales."""
    found: dict[str, Any] = {}
    bias, aux, call = operands[BIAS], operands[AUX], problem.call
    if bias is not None:
        found |= {"bias_dtype": bias.dtype.name, "bias_stride": inner.steps[BIAS] // bias.itemsize}
    if aux is not None:
        unit, least = (8, 128) if kind.activation == "relu" else (1, 8)
        distance = unit * (pitch(aux, True) or 0)
        if rows == 1:
            distance = -(-problem.n // least) * least
        narrow = problem.out.itemsize == 1
        found |= {
            "aux_pitch": distance,
            "aux_stride": unit * inner.steps[AUX] // aux.itemsize,
            "aux_dtype": aux.dtype.name if narrow and unit == 1 else "",
        }
    scales = [
        "" if not isinstance(each, Layout) else "scalar"
        for each in (call.scale_a, call.scale_b, call.scale_c, call.scale_d)
    ]
    if call.scale_d is not None:
        scales[3] = "scalar"
    if scales_rows(call):
        scales[:2] = "vector", "vector"
    if first:
        scales[:2] = scales[1::-1]
    found |= {"scales": tuple(scales), "amax": call.amax_d is not None}
    return found
