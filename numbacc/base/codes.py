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

#: Arrays, and words of scalar arguments behind them, that a launch takes; what is not there is 0. Few operations have
#: more, and each further argument makes a call slower.
ARRAYS = 6
MANY_ARRAYS = 24

#: Arrays of a matrix product: a, b, c, out, bias or bias_grad, aux, and the scales of a, b, c, d and amax.
MATMUL_ARRAYS = ARRAYS + 5
#: cuBLASLt's algorithms depend on the greatest power of two, up to this one, that divides an address.
ALIGNED = 256


def capacity_for(count: int) -> int:
    """How many words a call takes whose kernel needs this many.

    Raises:
        ShapeError: there are more than any call takes.
    """
    if count > MANY_ARRAYS:
        raise ShapeError(f"an operation on {count} arrays and scalars: at most {MANY_ARRAYS}")
    return ARRAYS if count <= ARRAYS else MANY_ARRAYS
