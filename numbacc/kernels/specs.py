"""Descriptions of kernels and their launches, kept apart from the kernels so that plans need no Numba and no GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..base.dtypes import TABLE
from ..functions.formula import Formula
from ..runtime.launch_order import LAUNCH_BOUNDS, MAX_THREADS, VECTOR_BYTES, WORDS, Spec

#: A kernel as a Python function, ready to be compiled or simulated.
Kernel = Callable[..., None]

#: Bytes that one thread of `vector` and `uneven` reads from each input by default.
THREAD_BYTES = 32
#: The most elements, over all inputs, that a thread holds in compute-bound kernels: more do not fit into registers.
_HEAVY_NUMBERS = 32
#: Bytes before the words that blocks publish their partial results in (`look_back`). The first four are a ticket count.
HEAD_BYTES = 16
#: Bits of the inputs whose results `tabulated` keeps in shared memory, and bytes of the whole table.
PATTERN_BITS = 16
TABLE_BYTES = 2**PATTERN_BITS * PATTERN_BITS // 8
#: `LAUNCH_BOUNDS` of `tabulated`, and the percentage of a multiprocessor's memory that is shared memory: enough for one
#: table. The rest is cache for loads in flight.
_TABLE_BOUNDS, _TABLE_CARVEOUT = (1024, 1), 57
#: Threads of a block for one small row, and `LAUNCH_BOUNDS` of the kernel `flat`, which leave 64 registers per thread.
FLAT_THREADS = 256
_FLAT_BOUNDS = FLAT_THREADS, 4
#: The most threads of a block that combines partial results, and how many such blocks fit on a multiprocessor: this
#: leaves 64 registers per thread.
ROW_BOUNDS = (1024, 1)
#: The most elements whose partial results are computed together: they are held in registers.
CHUNK = 16
#: Rows and columns of a tile in `tiled`, and how many of its rows the threads handle in one step.
TILE, TILE_STEP = 32, MAX_THREADS // 32

#: The module of most kernels.
MAP = "kernels/elementwise/map"


class _KernelFields(NamedTuple):
    algorithm: str
    formula: Formula | None
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    rank: int
    wide: bool
    width: int = 1
    lanes: int = 1
    transposed: tuple[int, ...] = ()
    repeated: tuple[int, ...] = ()
    compute: str = ""
    scalars: tuple[str, ...] = ()
    counted: tuple[int, ...] = ()
    indices: tuple[int, ...] = ()
    module: str = MAP


class KernelSpec(_KernelFields, Spec):
    """Everything that determines a kernel's code. Compiled kernels are cached under this key.

    Attributes:
        algorithm: the name of a kernel of `module`.
        formula: the scalar function that it applies to one element of each array; None if it applies none.
        reads, writes: names of the inputs' and outputs' dtypes.
        rank: number of dimensions that are unravelled: all of them in `strided`, the outer ones in other kernels. With
            0, `vector` is the kernel `flat`.
        wide: True if offsets or sizes exceed 2^31 and need 64-bit integers.
        width: consecutive elements in one load or store, in kernels that come in several widths.
        lanes: elements that one thread of `vector`, `uneven`, `tabulated` and `tiled` handles at once.
        transposed: the inputs that are transposed in memory, for `tiled`.
        repeated: the inputs that are constant along a row.
        compute: name of the dtype that the formula computes in.
        scalars: names of the dtypes of the scalar arguments, which are passed at launch.
        counted: the inputs without memory: their elements are the offsets themselves.
        indices: the inputs that are int64 in the formula, not of its compute dtype. Counted inputs are int64, too.
        module: the module that builds the kernel, as `Spec.module`.
    """

    __slots__ = ()

    @property
    def is_flat(self) -> bool:
        """True for the kernel `flat`."""
        return self.algorithm == "vector" and not self.rank

    @property
    def loaded(self) -> int:
        """Number of inputs that are read along the whole row."""
        return len(self.reads) - len({*self.repeated, *self.counted})

    @property
    def narrow(self) -> bool:
        """True if every stored float has fewer bits than the compute dtype."""
        floats = [TABLE[name] for name in self.writes if TABLE[name].is_float]
        return bool(floats) and all(row.compute == self.compute != row.name for row in floats)

    @property
    def access_bytes(self) -> int:
        """Width of the widest load or store."""
        names = [name for k, name in enumerate(self.dtypes) if k not in self.counted]
        return max(min(self.width * TABLE[name].itemsize, VECTOR_BYTES) for name in names)

    @property
    def needs_alignment(self) -> bool:
        """True if the launch's last constant says whether the arrays are aligned to this kernel's accesses."""
        return self.width > 1 and self.algorithm not in ("vector", "uneven", "tabulated")

    @property
    def is_dynamic(self) -> bool:
        return self.algorithm == "tabulated"

    @property
    def carveout(self) -> int:
        return _TABLE_CARVEOUT

    @property
    def launch_bounds(self) -> tuple[int, int]:
        if self.is_flat:
            return _FLAT_BOUNDS
        return _TABLE_BOUNDS if self.algorithm == "tabulated" else LAUNCH_BOUNDS


def map_parameters(spec: KernelSpec, inner: int, scalars: int, has_words: bool = True) -> list[tuple[str, Any]]:
    """Return the parameters of a kernel of a `KernelSpec`, in the form of `runtime.kernel_code.parameters`.

    Args:
        spec: the kernel.
        inner: number of dimensions inside the outer ones.
        scalars: number of integers after the strides and the outer shape.
        has_words: True if the last parameter holds the words of scalar arguments.
    """
    integer = "int64" if spec.wide else "int32"
    counts = (len(spec.reads), len(spec.writes))
    return [
        *(("uint64", n) for n in counts),
        *((integer, (n, spec.rank + inner)) for n in counts),
        (integer, spec.rank),
        *[(integer, None)] * scalars,
        *[(WORDS, words_of(spec.scalars))] * has_words,
    ]


def compute_dtype(reads: Sequence[str], writes: Sequence[str]) -> str:
    """Return the dtype that a formula computes in by default: that of its widest operand.

    If any operand is a float or complex number, the integers do not count, however wide they are. Among integers the
    first input decides. Booleans count only if all operands are booleans.
    """
    rows = [TABLE[name] for name in (*reads, *writes)]
    floats = [row for row in rows if row.is_float or row.parts == 2]
    if floats:
        double = any(row.compute in ("float64", "complex128") for row in floats)
        if any(row.parts == 2 for row in floats):
            return "complex128" if double else "complex64"
        return "float64" if double else "float32"
    numbers = [row for row in rows if row.name != "bool"]
    return str((numbers or rows)[0].compute)


def words_told(names: Sequence[str], lanes: int) -> int:
    """Return how many 32-bit words blocks need to publish partial results of these dtypes, with this many lanes."""
    return lanes * sum(-(-TABLE[name].itemsize // 4) for name in names)


def words_of(scalars: Sequence[str]) -> int:
    """Return how many 64-bit words hold scalar arguments of these dtypes."""
    return sum(TABLE[name].parts for name in scalars)


def pieces_each(inputs: int, width: int) -> int:
    """Return how many pieces of a row a warp of `uneven` processes in turn, for runs of `width` elements.

    Shifted runs gain from a second piece because some work is shared by both. With more than two inputs, the values
    that must be kept between pieces do not fit into registers.
    """
    return 2 if width > 1 and inputs <= 2 else 1


def group_lanes(itemsize: int) -> int:
    """Return how many consecutive elements a thread of `dropout` handles.

    It handles whole groups of random words, and at least one access.
    """
    return max(VECTOR_BYTES // itemsize, 4)


def vector_thread_bytes(inputs: int, itemsize: int, is_heavy: bool = False, numbers: int | None = None) -> int:
    """Return how many bytes one thread of `vector` and `uneven` reads from each input, the best value on an H200.

    With up to two inputs a thread makes two loads per input, with three inputs one: more loads in flight cost more
    registers than they gain. A float64 load holds only two elements, so float64 always uses two loads. Compute-bound
    formulas run better with more elements per thread: common subexpressions are computed once, and the latency of one
    element hides behind another. `numbers` is the measured best number of elements over all inputs, see
    `Formula.heavy`.
    """
    if is_heavy:
        nbytes = 2 * THREAD_BYTES if numbers is None else numbers * itemsize
        while nbytes > VECTOR_BYTES and inputs * nbytes > (numbers or _HEAVY_NUMBERS) * itemsize:
            nbytes //= 2
        return nbytes
    return THREAD_BYTES if inputs < 3 or itemsize == 8 else VECTOR_BYTES
