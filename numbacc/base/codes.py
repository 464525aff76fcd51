"""Statuses that a launcher returns besides 0 and the driver's own, which are positive."""

from __future__ import annotations

from ..errors import ShapeError

#: Another context is current in this thread, or none.
WRONG_CONTEXT = -1
#: The stream is being captured into a graph, which must be told what it uses: nothing was done.
CAPTURING = -2
#: An address is not aligned as the kernel was chosen for.
WRONG_ALIGNMENT = -3
#: An output's bytes may be an input's: to be checked closely.
MAY_OVERLAP = -4
#: An allocation's CUresult comes back as FAILED - CUresult.
FAILED = -1024

#: Arrays that cuBLASLt's algorithms look at the alignment of: a, b, c, out, bias or bias_grad, aux.
ARRAYS = 6
#: Arrays, and words of scalar arguments behind them, that a launch takes.
MANY_ARRAYS = 32

#: Arrays of a matrix product: a, b, c, out, bias or bias_grad, aux, and the scales of a, b, c, d and amax.
MATMUL_ARRAYS = ARRAYS + 5
#: cuBLASLt's algorithms depend on the greatest power of two, up to this one, that divides an address.
ALIGNED = 256


def check_count(count: int) -> None:
    """Raise ShapeError where an operation has more arrays and words of scalar arguments than a launch takes."""
    if count > MANY_ARRAYS:
        raise ShapeError(f"an operation on {count} arrays and scalars: at most {MANY_ARRAYS}")
