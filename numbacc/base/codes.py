"""Statuses that a launcher returns, other than 0 and the driver's own statuses, which are positive."""

from __future__ import annotations

from ..errors import ShapeError

#: No context, or another context, is current in this thread.
WRONG_CONTEXT = -1
#: The stream is being captured into a graph, which must record the arrays that the launch uses: nothing was done.
CAPTURING = -2
#: An address does not have the alignment that the kernel was chosen for.
WRONG_ALIGNMENT = -3
#: An output may overlap an input: this needs a precise check.
MAY_OVERLAP = -4
#: An allocation's CUresult is returned as FAILED - CUresult.
FAILED = -1024

#: Number of arrays with an alignment that cuBLASLt's algorithms depend on: a, b, c, out, bias or bias_grad, aux.
ARRAYS = 6
#: The most arrays and words of scalar arguments after them that a launch supports.
MANY_ARRAYS = 32

#: Arrays of a matrix product: a, b, c, out, bias or bias_grad, aux, and the scales of a, b, c, d and amax.
MATMUL_ARRAYS = ARRAYS + 5
#: cuBLASLt's algorithms depend on the greatest power of two, up to this one, that divides an address.
ALIGNED = 256


def check_count(count: int) -> None:
    """Raise ShapeError if an operation has more arrays and words of scalar arguments than a launch supports."""
    if count > MANY_ARRAYS:
        raise ShapeError(f"an operation on {count} arrays and scalars: at most {MANY_ARRAYS}")
