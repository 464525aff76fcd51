"""The alignment that cuBLASLt needs for the arrays of a product, and aligned copies where it is missing.

The library's heuristics do not check everything that its kernels need. NVIDIA requires every matrix of a float8
product, and each of its rows, at a multiple of 16 bytes. The other rules were measured on an H200 with cuBLASLt 13.1
(results in docs/alignment.md, by tests/gemm/sweep_gemm_alignment.py). These end the CUDA context with some kernels:

- a 16-bit bias at 2 modulo 4,
- a 16-bit GELU aux that is not at a multiple of 16,
- a C with better aligned rows than D.

These return an error when the product is queued: a scale that is not at a multiple of 16, and int8 matrices that are
not at a multiple of 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..base.codes import ALIGNED, ARRAYS
from ..base.dtypes import info
from ..base.layout import Layout, layout
from ..errors import LayoutError
from ..kernels.elementwise import copy
from ..kernels.elementwise.launch import MapExecutable
from .epilogue import Epilogue
from .lowering import AUX, BIAS, OUT, A, B, C
from .problem import SCALES, GemmProblem, pitch

#: The alignment in bytes of all arrays of a float8 product, including scales and amax_d; and of a GELU aux.
FLOAT8 = 16
#: The alignment in bytes of other 16-bit biases, and of int8 matrices.
NARROW_BIAS = INT8 = 4
_MATRICES = ((A, "a"), (B, "b"), (C, "c"), (OUT, "out"))
_PLACES = (*SCALES, "amax_d")


class Copied(NamedTuple):
    """A small array that the library gets as a copy in scratch memory.

    Attributes:
        name: the argument.
        number: its number in a call of the library, as in `codes.MATMUL_ARRAYS`.
        nbytes: bytes of the copy.
        executable: copies the array; None if it is one contiguous range of bytes.
    """

    name: str
    number: int
    nbytes: int
    executable: MapExecutable | None = None


def is_float8(problem: GemmProblem) -> bool:
    """Return True if the product multiplies float8 matrices."""
    return info(problem.call.a.dtype).is_scaled


def check_layouts(problem: GemmProblem) -> None:
    """Raise LayoutError if the distances between rows or matrices of a float8 product are not multiples of 16 bytes."""
    if not is_float8(problem) or not (problem.k and problem.matrix_out.size):
        return
    call = problem.call
    c = problem.matrix_c if call.has_beta else None
    arrays = (problem.matrix_a, problem.matrix_b, c, problem.matrix_out)
    for (_, name), array in zip(_MATRICES, arrays, strict=True):
        if array is None:
            continue
        # C is read in the storage order of D, if possible.
        by_rows = pitch(problem.matrix_out if array is c else array, True) is not None
        by_rows = by_rows if pitch(array, by_rows) is not None else not by_rows
        steps = [step for n, step in zip(array.shape[:-2], array.strides, strict=False) if n > 1]
        # A strided row is treated as a column whose elements are apart.
        if array.shape[-2 if by_rows else -1] > 1:
            steps.append((pitch(array, by_rows) or 0) * array.itemsize)
        if any(step % FLOAT8 for step in steps):
            raise LayoutError(
                f"{name} has strides {array.strides}; in a product of {call.a.dtype} the rows of every matrix, or its "
                f"columns, and the matrices of a batch must be multiples of {FLOAT8} bytes apart. Use arrays from "
                "numbacc.empty"
            )


def check_addresses(problem: GemmProblem, alignment: Sequence[int]) -> None:
    """Raise LayoutError if a matrix of a float8 or int8 product is not aligned as the library needs it."""
    needed = FLOAT8 if is_float8(problem) else INT8 if problem.call.a.itemsize == 1 else 1
    for number, name in _MATRICES:
        if alignment[number] < needed:
            raise LayoutError(
                f"{name} is aligned to {alignment[number]} bytes; in a product of {problem.call.a.dtype} every matrix "
                f"must start at a multiple of {needed} bytes. Use arrays from numbacc.empty"
            )


def takes_aux(problem: GemmProblem, kind: Epilogue, alignment: Sequence[int]) -> bool:
    """Return whether the epilogue's aux is aligned as the library needs it. `fuses` checks its rows."""
    if not (kind.uses_aux or kind.produces_aux) or alignment[AUX] >= FLOAT8:
        return True
    return not is_float8(problem) and (kind.activation == "relu" or problem.call.a.itemsize > 2)


def loose_scales(addresses: Sequence[int]) -> tuple[int, ...]:
    """Return the indices of the scales of a, b, c, d, and of amax_d, that are not aligned as the library needs it."""
    return tuple(k for k, address in enumerate(addresses) if address % FLOAT8)


def copies_of(
    problem: GemmProblem, alignment: Sequence[int], loose: Sequence[int]
) -> tuple[GemmProblem, tuple[Copied, ...]]:
    """Return the problem after misaligned arrays are replaced by copies, and these copies.

    Args:
        problem: the product to compute.
        alignment: the greatest power of two that divides each array's address.
        loose: the result of `loose_scales`.
    """
    given, copies = problem, []
    bias = problem.matrix_bias
    needed = FLOAT8 if is_float8(problem) else NARROW_BIAS
    if bias is not None and bias.itemsize == 2 and not _fits(bias, alignment[BIAS], needed):
        dense, source, target = _dense(bias)
        given = problem._replace(matrix_bias=dense)
        copies.append(Copied("bias", BIAS, target.high, copy.executable(source, target)))
    call = problem.call
    scales = (call.scale_a, call.scale_b, call.scale_c, call.scale_d, call.amax_d)
    for k in loose:
        scale = scales[k]
        assert isinstance(scale, Layout)
        copies.append(Copied(_PLACES[k], ARRAYS + k, scale.nbytes))
    return given, tuple(copies)


def _fits(bias: Layout, alignment: int, needed: int) -> bool:
    """Return True if each bias of a batch is contiguous and aligned."""
    apart = (step for n, step in zip(bias.shape[:-2], bias.strides, strict=False) if n > 1)
    gapless = bias.shape[-1] == 1 or bias.strides[-1] == bias.itemsize
    return alignment >= needed and gapless and not any(step % needed for step in apart)


def _dense(bias: Layout) -> tuple[Layout, Layout, Layout]:
    """Return a bias (*batch, 1, n) whose rows are aligned to 16 bytes, and the copy's source and target.

    If one bias serves many matrices, it is copied once.
    """
    n, size = bias.shape[-1], bias.itemsize
    own = [d for d, length in enumerate(bias.shape[:-2]) if length > 1 and bias.strides[d]]
    row = -(-n * size // FLOAT8) * FLOAT8
    steps, step = dict.fromkeys(range(bias.ndim - 1), 0), row
    for d in reversed(own):
        steps[d] = step
        step *= bias.shape[d]
    shape = (*(bias.shape[d] for d in own), n)
    source, target = (
        layout(shape, (*(strides[d] for d in own), last), bias.dtype, bias.device)
        for strides, last in ((bias.strides, bias.strides[-1]), (steps, size))
    )
    return layout(bias.shape, (*steps.values(), size), bias.dtype, bias.device), source, target


def told(problem: GemmProblem, alignment: Sequence[int], copies: Sequence[Copied]) -> tuple[int, ...]:
    """Return the alignment to pass to the library's heuristics.

    For bias and aux it holds for every matrix of a batch, not only the first. For C and D it is the smaller of the two.
    """
    found = list(alignment)
    if problem.call.has_beta:
        found[C] = found[OUT] = min(found[C], found[OUT])
    for each in copies:
        if each.number == BIAS:
            found[BIAS] = ALIGNED
    for number, array in ((BIAS, problem.matrix_bias), (AUX, problem.matrix_aux)):
        if array is not None:
            steps = [step for n, step in zip(array.shape[:-2], array.strides, strict=False) if n > 1]
            found[number] = min([found[number], *map(alignment_of, steps)])
    return tuple(found)


def alignment_of(address: int) -> int:
    """Return the greatest power of two up to ALIGNED that divides an address; ALIGNED for a missing array."""
    found = address | ALIGNED
    return found & -found
