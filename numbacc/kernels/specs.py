"""Descriptions of kernels and their launches, apart from the kernels: plans need them without Numba or a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..base.dtypes import TABLE
from ..functions.formula import Formula
from ..runtime.launch_order import LAUNCH_BOUNDS, MAX_THREADS, VECTOR_BYTES, WORDS, Spec

#: A kernel as a Python function, ready to be compiled or simulated.
Kernel = Callable[..., None]

#: Bytes that one thread of `vector` and `uneven` reads from each input, where nothing else is said.
THREAD_BYTES = 32
#: Numbers of all inputs that a thread has where arithmetic takes the time, at most: more do not fit into registers.
_HEAVY_NUMBERS = 32
#: Bytes before the words of parts that blocks tell each other (`look_back`), of which the first four count tickets.
HEAD_BYTES = 16
#: Bits of the numbers whose results `tabulated` keeps in shared memory; bytes of all of them.
PATTERN_BITS = 16
TABLE_BYTES = 2**PATTERN_BITS * PATTERN_BITS // 8
#: `LAUNCH_BOUNDS` of `tabulated`, and what a multiprocessor has of its memory for blocks, in percent: room for a table,
#: and the rest for loads under way.
_TABLE_BOUNDS, _TABLE_CARVEOUT = (1024, 1), 57
#: Threads of a block that brings parts together, at most, and blocks that fit a multiprocessor then: 64 registers per
#: thread.
ROW_BOUNDS = (1024, 1)
#: Numbers whose parts are made together, at most: they are in registers.
CHUNK = 16
#: Rows and columns of `tiled`'s tiles, and how many of them its threads take at once.
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
    """All that decides a kernel's code: the key it is cached under.

    Attributes:
        algorithm: the name of a kernel of `module`.
        formula: what it computes of one element of each array; None where it is not a formula.
        reads, writes: names of the inputs' and outputs' dtypes.
        rank: dimensions that are unravelled: all of `strided`'s, the outer ones of the others.
        wide: True where offsets or sizes pass 2^31, so that they need 64-bit integers.
        width: elements next to each other that are loaded or stored together, where the kernel has several widths.
        lanes: elements that one thread of `vector`, `uneven`, `tabulated` and `tiled` handles at once.
        transposed: which of the inputs lie transposed, for `tiled`.
        repeated: which of the inputs are the same along a row.
        compute: name of the dtype that the formula computes in.
        scalars: names of the dtypes of the scalar arguments, which are passed at launch.
        counted: which of the inputs are no memory: their numbers are the offsets themselves.
        indices: which of the inputs are int64 in the formula, whatever it computes in; those counted are, too.
        module: what makes the kernel, as `Spec.module`.
    """

    __slots__ = ()

    @property
    def loaded(self) -> int:
        """How many of the inputs are read all along a row."""
        return len(self.reads) - len({*self.repeated, *self.counted})

    @property
    def narrow(self) -> bool:
        """True where every float that is stored has fewer bits than are computed with."""
        floats = [TABLE[name] for name in self.writes if TABLE[name].is_float]
        return bool(floats) and all(row.compute == self.compute != row.name for row in floats)

    @property
    def access_bytes(self) -> int:
        """Width of the widest load or store."""
        names = [name for k, name in enumerate(self.dtypes) if k not in self.counted]
        return max(min(self.width * TABLE[name].itemsize, VECTOR_BYTES) for name in names)

    @property
    def needs_alignment(self) -> bool:
        """True if the launch's last constant says whether the arrays are aligned as this kernel's accesses are."""
        return self.width > 1 and self.algorithm not in ("vector", "uneven", "tabulated")

    @property
    def is_dynamic(self) -> bool:
        return self.algorithm == "tabulated"

    @property
    def carveout(self) -> int:
        return _TABLE_CARVEOUT

    @property
    def launch_bounds(self) -> tuple[int, int]:
        return _TABLE_BOUNDS if self.algorithm == "tabulated" else LAUNCH_BOUNDS


def map_parameters(spec: KernelSpec, inner: int, scalars: int, has_words: bool = True) -> list[tuple[str, Any]]:
    """Return the parameters of a kernel of a `KernelSpec`: see `runtime.kernel_code.parameters`.

    Args:
        spec: the kernel.
        inner: how many dimensions are inside the outer ones.
        scalars: how many integers follow the steps and the outer shape.
        has_words: True if the last parameter is the words of scalar arguments.
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
    """The dtype that a formula computes in where nothing else is said: that of the widest number.

    Of floats and complex numbers it is theirs, be the integers beside them as wide as they may; of integers that of the
    first input. Truth values count only where there is nothing else.
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
    """Words of parts of these dtypes that blocks tell each other, in so many lanes."""
    return lanes * sum(-(-TABLE[name].itemsize // 4) for name in names)


def words_of(scalars: Sequence[str]) -> int:
    """How many words of 64 bits hold scalar arguments of these dtypes."""
    return sum(TABLE[name].parts for name in scalars)


def pieces_each(inputs: int, width: int) -> int:
    """Pieces of a row that a warp of `uneven` takes in turn, of so many inputs in runs of `width` elements.

    Where runs are shifted, what is computed once for two pieces counts; but more than two inputs leave no registers for
    what must be kept between them.
    """
    return 2 if width > 1 and inputs <= 2 else 1


def group_lanes(itemsize: int) -> int:
    """Elements that a thread of `dropout` has next to each other: whole groups of random words, an access or more."""
    return max(VECTOR_BYTES // itemsize, 4)


def vector_thread_bytes(inputs: int, itemsize: int, is_heavy: bool = False, numbers: int | None = None) -> int:
    """Bytes that one thread of `vector` and `uneven` reads from each input: as many as keep an H200's memory busiest.

    Two loads per input where there are two inputs, one where there are three: more in flight costs more in registers
    than it brings. Of float64 a load holds two numbers only, so there it is always two. Where arithmetic takes the time
    more elements a thread are better: what they have in common is computed once, and one's latency hides another's.
    `numbers` are what was measured to be best of all inputs, see `Formula.heavy`.
    """
    if is_heavy:
        nbytes = 2 * THREAD_BYTES if numbers is None else numbers * itemsize
        while nbytes > VECTOR_BYTES and inputs * nbytes > (numbers or _HEAVY_NUMBERS) * itemsize:
            nbytes //= 2
        return nbytes
    return THREAD_BYTES if inputs < 3 or itemsize == 8 else VECTOR_BYTES
