"""Limits of a GPU and its cuBLASLt, and how to report them."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.dispatch import runtime
from ..base.dtypes import info
from ..base.layout import Layout
from ..errors import LayoutError
from .problem import GemmProblem, pitch, scales_rows

#: The lowest compute capability that can round inputs to 10 bits of mantissa.
_OLDEST_TF32 = (8, 0)
#: From this compute capability on, float8 and int8 matrices may be stored by rows or by columns.
_ANY_STORAGE = (10, 0)


def check_hardware(problem: GemmProblem) -> None:
    """Raise an error if the GPU cannot multiply the dtype, or not with matrices in this storage order."""
    a, row = problem.call.a, info(problem.call.a.dtype)
    name, oldest = row.name, max(row.oldest_capability, problem.types.oldest_capability)
    if problem.compute == "tf32":
        name, oldest = "tf32", _OLDEST_TF32
    runtime().check_capability(name, oldest, a.device)
    multiple = problem.types.multiple
    if multiple == 1 or runtime().capability(a.device) >= _ANY_STORAGE or not (problem.k and problem.matrix_out.size):
        return
    for array, what, by_rows in ((problem.matrix_a, "a", True), (problem.matrix_b, "b", False)):
        distance = pitch(array, by_rows)
        if distance is None:
            raise LayoutError(
                f"{what} has strides {array.strides}: with {name}, this GPU's tensor cores need a stored row by row "
                "and b column by column; pass b as w.T of an array w of shape (n, k)"
            )
        if distance % multiple:
            raise LayoutError(
                f"{what} has strides {array.strides}; with {name}, its rows (columns for b) must start at multiples of "
                f"{multiple} elements"
            )


def what_is_missing(problem: GemmProblem, alignment: Sequence[int]) -> str:
    """Return a message with the likely reasons why the library does not support a problem."""
    call, device = problem.call, problem.call.a.device
    where = "{} (compute capability {}.{})".format(runtime().device_name(device), *runtime().capability(device))
    reasons = []
    if (call.a.dtype.name, call.b.dtype.name) == ("float8_e5m2", "float8_e5m2"):
        reasons.append("float8_e5m2 can only be multiplied with float8_e4m3fn: convert one of the two")
    if problem.out.dtype.name == "float8_e5m2" and "float8_e5m2" not in (call.a.dtype.name, call.b.dtype.name):
        reasons.append("a float8_e5m2 result needs a float8_e5m2 input")
    if problem.types.multiple > 1 and min(alignment) < 16:
        reasons.append("int8 needs arrays that start at multiples of 16 bytes")
    if call.aux is not None:
        reasons.append("aux must start at a multiple of 16 bytes, and so must each of its rows")
    if scales_rows(call):
        reasons.append("one scale per row and column needs cuBLASLt 12.9 and compute capability 9.0, or newer")
    if call.amax_d is not None or isinstance(call.scale_c, Layout):
        reasons.append("amax_d and a scale_c in memory are not available with every float8 result")
    if not reasons:
        reasons.append("the library's version, the arrays' alignment or workspace_limit may be the reason")
    what = f"{call.a.dtype} x {call.b.dtype} -> {problem.out.dtype} with epilogue {problem.epilogue.value!r}"
    return f"cuBLASLt on {where} has no algorithm for {what} on these arrays. " + "; ".join(reasons)
