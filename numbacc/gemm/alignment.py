"""Where a product's arrays must start for cuBLASLt to be given them, and what it is given a copy of instead.

The library's heuristics do not look after all that its kernels need. NVIDIA wants every matrix of a float8 product, and
each of its rows, at a multiple of 16 bytes. The rest was measured, on an H200 with cuBLASLt 13.1 (what was found is in
docs/alignment.md, by tests/gemm/sweep_gemm_alignment.py): a 16-bit bias at 2 modulo 4 and a 16-bit GELU aux that is not
at a multiple of 16 end the CUDA context with some kernels, as does a C whose rows are better aligned than D's; a scale
that is not at a multiple of 16, and int8 matrices that are not at one of 4, are refused when the product is queued.
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

#: Bytes that everything of a float8 product must start at a multiple of, scales and amax_d too; and a GELU aux.
FLOAT8 = 16
#: And other biases of 16 bits, and int8 matrices.
NARROW_BIAS = INT8 = 4
_MATRICES = ((A, "a"), (B, "b"), (C, "c"), (OUT, "out"))
_PLACES = (*SCALES, "amax_d")


class Copied(NamedTuple):
    """A small array of which the library is given a copy, in scratch memory.

    Attributes:
        name: the argument.
        number: its number in a call of the library, as in `codes.MATMUL_ARRAYS`.
        nbytes: bytes of the copy.
        executable: what copies it; None for one stretch of bytes.
    """

    name: str
    number: int
    nbytes: int
    executable: MapExecutable | None = None


def is_float8(problem: GemmProblem) -> bool:
    """True if the matrices that are multiplied are of float8."""
    return info(problem.call.a.dtype).is_scaled


def check_layouts(problem: GemmProblem) -> None:
    """Raise LayoutError where rows or matrices of a float8 product are not multiples of 16 bytes apart."""
    if not is_float8(problem) or not (problem.k and problem.matrix_out.size):
        return
    call = problem.call
    c = problem.matrix_c if call.has_beta else None
    arrays = (problem.matrix_a, problem.matrix_b, c, problem.matrix_out)
    for (_, name), array in zip(_MATRICES, arrays, strict=True):
        if array is None:
            continue
        # C is read as D is stored, if it can be.
        by_rows = pitch(problem.matrix_out if array is c else array, True) is not None
        by_rows = by_rows if pitch(array, by_rows) is not None else not by_rows
        steps = [step for n, step in zip(array.shape[:-2], array.strides, strict=False) if n > 1]
        # A row with gaps is one of columns that are apart.
        if array.shape[-2 if by_rows else -1] > 1:
            steps.append((pitch(array, by_rows) or 0) * array.itemsize)
        if any(step % FLOAT8 for step in steps):
            raise LayoutError(
                f"{name} has strides {array.strides}; in a product of {call.a.dtype} the rows of every matrix, or its "
                f"columns, and the matrices of a batch must be multiples of {FLOAT8} bytes apart. Pass memory of "
                "numbacc.empty"
            )


def check_addresses(problem: GemmProblem, alignment: Sequence[int]) -> None:
    """Raise LayoutError where a matrix of a float8 or int8 product does not start where the library takes it."""
    needed = FLOAT8 if is_float8(problem) else INT8 if problem.call.a.itemsize == 1 else 1
    for number, name in _MATRICES:
        if alignment[number] < needed:
            raise LayoutError(
                f"{name} starts at a multiple of {alignment[number]} bytes only; in a product of "
                f"{problem.call.a.dtype} every matrix must start at a multiple of {needed}. Pass memory of "
                "numbacc.empty"
            )


def takes_aux(problem: GemmProblem, kind: Epilogue, alignment: Sequence[int]) -> bool:
    """False where the library would have an aux that starts where it cannot take it; `fuses` looks at its rows."""
    if not (kind.uses_aux or kind.produces_aux) or alignment[AUX] >= FLOAT8:
        return True
    return not is_float8(problem) and (kind.activation == "relu" or problem.call.a.itemsize > 2)


def loose_scales(addresses: Sequence[int]) -> tuple[int, ...]:
    """Which of the scales of a, b, c, d, and of amax_d, do not start where the library wants them."""
    return tuple(k for k, address in enumerate(addresses) if address % FLOAT8)


def copies_of(
    problem: GemmProblem, alignment: Sequence[int], loose: Sequence[int]
) -> tuple[GemmProblem, tuple[Copied, ...]]:
    """The problem as the library sees it, and the arrays to be copied.

    Args:
        problem: what is to be computed.
        alignment: the greatest power of two that divides each array's address.
        loose: what `loose_scales` found.
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
    """True if each bias of a batch lies gapless, and where the library takes it."""
    apart = (step for n, step in zip(bias.shape[:-2], bias.strides, strict=False) if n > 1)
    gapless = bias.shape[-1] == 1 or bias.strides[-1] == bias.itemsize
    return alignment >= needed and gapless and not any(step % needed for step in apart)


def _dense(bias: Layout) -> tuple[Layout, Layout, Layout]:
    """A bias (*batch, 1, n) with each row at a multiple of 16 bytes, and the copy's source and target.

    Where one bias serves many matrices it is copied once.
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
    """The alignment that the library's heuristics are told: that of every bias and aux of a batch, not of the first;
    and of C and D the lesser one."""
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
    """The greatest power of two up to ALIGNED that divides an address; of no array it is ALIGNED."""
    found = address | ALIGNED
    return found & -found
