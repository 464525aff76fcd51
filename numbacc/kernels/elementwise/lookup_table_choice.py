"""Where results of 16-bit numbers are looked up in a table, not computed one by one: one function to adjust after
measuring."""

from __future__ import annotations

from typing import Any

from ...base.dispatch import launcher_class
from ...base.dtypes import TABLE
from ...functions.symbolic.arithmetic_intensity import is_long
from ..specs import PATTERN_BITS, TABLE_BYTES, KernelSpec

#: Elements from which on a table pays: to make it takes as long as to compute some millions.
_LEAST = 2**25
#: Bytes that a thread has under way, and threads of a block, which has a multiprocessor to itself.
_THREAD_BYTES, _THREADS = 64, 1024
#: Blocks that share the making of a table, at most: clusters of more leave multiprocessors idle.
_CLUSTER = 2


def tabulated(kernel: KernelSpec, geometry: Any, device: int) -> tuple[KernelSpec, Any]:
    """A kernel and its `geometry.Geometry`; where a table pays `vector` becomes `tabulated`."""
    if not _fits(kernel, geometry):
        return kernel, geometry
    limits = launcher_class().limits(device)
    if limits.shared < TABLE_BYTES:
        return kernel, geometry
    cluster = min(_CLUSTER, limits.cluster)
    _, columns, head, vectors = geometry.scalars
    lanes = 8 * _THREAD_BYTES // PATTERN_BITS
    found = geometry._replace(
        algorithm="tabulated",
        grid=(limits.multiprocessors // cluster * cluster, 1),
        block=(_THREADS, 1),
        scalars=(cluster, columns, head, vectors),
        lanes=lanes,
        shared=TABLE_BYTES,
        cluster=cluster,
    )
    return kernel._replace(algorithm="tabulated", lanes=lanes), found


def _fits(kernel: KernelSpec, geometry: Any) -> bool:
    """True for large gapless arrays, one of 16 bits in and one out, of a formula that takes longer than memory does."""
    if geometry.algorithm != "vector" or kernel.formula is None or kernel.formula.kept:
        return False
    rows, columns, *_ = geometry.scalars
    if rows > 1 or columns < _LEAST or len(kernel.reads) != 1 or len(kernel.writes) != 1 or kernel.repeated:
        return False
    return all(TABLE[name].bits == PATTERN_BITS for name in kernel.dtypes) and is_long(
        kernel.formula.function, kernel.compute, kernel.narrow
    )
