"""What names a kernel, apart from the kernels: plans need it, and need neither Numba nor a GPU."""

from __future__ import annotations

from typing import NamedTuple

#: Bytes of the widest load or store.
VECTOR_BYTES = 16
#: Bytes that one thread of `vector` and `spread` reads from each input.
THREAD_BYTES = 32
#: Threads of a block, at most.
MAX_THREADS = 128
#: Rows and columns of `tiled`'s tiles.
TILE = 32


class KernelSpec(NamedTuple):
    """All that decides a kernel's code: the key it is cached under.

    Attributes:
        algorithm: the name of a kernel in `maps`.
        formula: a key of `formulas.FORMULAS`.
        dtype: name of the arrays' dtype.
        inputs, outputs: how many arrays.
        rank: dimensions that are unravelled: all of `strided`'s, the outer ones of the others.
        wide: True where offsets or sizes pass 2^31, so that they need 64-bit integers.
        access_bytes: width of one load or store of `vector` and `spread`.
        turned: which of the inputs lie transposed, for `tiled`.
    """

    algorithm: str
    formula: str
    dtype: str
    inputs: int
    outputs: int
    rank: int
    wide: bool
    access_bytes: int = VECTOR_BYTES
    turned: tuple[int, ...] = ()
