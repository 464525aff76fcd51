"""Descriptions of kernels and their launches, apart from the kernels: plans need them without Numba or a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..base.dtypes import TABLE
from .formula import Formula, Reduction

#: A kernel as a Python function, ready to be compiled or simulated.
Kernel = Callable[..., None]

#: Bytes of the widest load or store.
VECTOR_BYTES = 16
#: Bytes that one thread of `vector` and `uneven` reads from each input, where nothing else is said.
THREAD_BYTES = 32
#: Numbers of all inputs that a thread has where arithmetic takes the time, at most: more do not fit into registers.
_HEAVY_NUMBERS = 32
#: Threads of a block, at most.
MAX_THREADS = 128
#: Threads of a block, and blocks that fit a multiprocessor together: the compiler gets 64 registers per thread. Left
#: to itself it takes fewer, for more blocks, and runs slower by up to 4 %.
LAUNCH_BOUNDS = (MAX_THREADS, 8)
#: Registers of a multiprocessor, and of a thread, at most.
REGISTERS, MOST_REGISTERS = 65536, 255
#: Threads of a warp.
WARP = 32
#: Bytes before the words of parts that blocks tell each other (`look_back`), of which the first four count tickets.
HEAD_BYTES = 16
#: Bits of the numbers whose results `tabulated` keeps in shared memory; bytes of all of them.
PATTERN_BITS = 16
TABLE_BYTES = 2**PATTERN_BITS * PATTERN_BITS // 8
#: `LAUNCH_BOUNDS` of `tabulated`, and what a multiprocessor has of its memory for blocks, in percent: room for a table,
#: and the rest for loads under way.
_TABLE_BOUNDS, _TABLE_CARVEOUT = (1024, 1), 57
#: Accesses of 16 bytes that a thread of `folds` has under way.
_LOADED = 4
#: Numbers whose parts are made together, at most: they are in registers.
CHUNK = 16
#: Bytes of the parts of what a thread of `folds` has under way, at most: they are in registers.
_PARTS_BYTES = 400
#: Rows and columns of `tiled`'s tiles, and how many of them its threads take at once.
TILE, TILE_STEP = 32, MAX_THREADS // 32

#: Kernel -> the modules that write it, where that is not `maps`.
_MODULES = {
    "pack_bits": ("bits",),
    "select_bits": ("bits",),
    "reduce_rows": ("reductions",),
    "gather": ("gathers",),
    "dropout": ("dropout", "philox"),
    "tabulated": ("tabulated", "tabulated_lanes", "row_lanes"),
}


class KernelSpec(NamedTuple):
    """All that decides a kernel's code: the key it is cached under.

    Attributes:
        algorithm: the name of a kernel of `maps` or the modules of `_MODULES`.
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
    """

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

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Those of all operands."""
        return (*self.reads, *self.writes)

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
        """True where each launch says how much shared memory it has."""
        return self.algorithm == "tabulated"

    @property
    def carveout(self) -> int:
        """What a multiprocessor has of its memory for blocks, not for its cache, in percent, where `is_dynamic`."""
        return _TABLE_CARVEOUT

    @property
    def launch_bounds(self) -> tuple[int, int]:
        """Threads of a block, at most, and blocks that fit a multiprocessor together."""
        return _TABLE_BOUNDS if self.algorithm == "tabulated" else LAUNCH_BOUNDS

    @property
    def sources(self) -> tuple[str, ...]:
        """The modules of this folder that write the kernel."""
        return _MODULES.get(self.algorithm, ("maps",))

    @property
    def identity(self) -> str:
        """A text that tells it from every other kernel's code, wherever and whenever it was written."""
        digest = None if self.formula is None else self.formula.digest(self.compute, self.narrow)
        return repr((digest, self._replace(formula=None)))


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


class RepackSpec(NamedTuple):
    """All that decides the code of a kernel of `repack`.

    Attributes:
        algorithm: "straight", "tiled" or "hermitian".
        source, target: names of the dtypes of the arrays' numbers; a complex number is two of them.
        source_parts, target_parts: 1 where an array is real, 2 where it is complex.
        source_bytes, target_bytes: width of one load or store.
        lanes: neighbouring elements that are taken together.
        pieces: how many times so many one thread of `straight` takes.
        scale: what values are multiplied with: "" for nothing, a key of `repack.SCALES`.
        conjugate: whether imaginary parts change their sign.
        padded: whether the target is longer than the source somewhere, and zero there.
        rank: dimensions; of `tiled` at least 3.
        wide: as in `KernelSpec`.
        ends: where imaginary parts are dropped: (the halved dimension, 1 for its first element, 2 for both), or empty.
    """

    algorithm: str
    source: str
    target: str
    source_parts: int
    target_parts: int
    source_bytes: int
    target_bytes: int
    lanes: int
    pieces: int
    scale: str
    conjugate: bool
    padded: bool
    rank: int
    wide: bool
    ends: tuple[int, ...] = ()

    @property
    def needs_alignment(self) -> bool:
        """As in `KernelSpec`."""
        return self.source_bytes > TABLE[self.source].itemsize or self.target_bytes > TABLE[self.target].itemsize

    @property
    def sources(self) -> tuple[str, ...]:
        """As in `KernelSpec`."""
        return ("repack",)

    @property
    def identity(self) -> str:
        """As in `KernelSpec`."""
        return repr(self)


class FoldSpec(NamedTuple):
    """All that decides the code of a kernel of `folds`, which reduces arrays.

    Attributes:
        algorithm: "fold_rows" or "fold_columns".
        formula: the reduction.
        reads, writes: names of the inputs' and outputs' dtypes; of what several passes exchange the parts' dtypes.
        parts: names of the parts' dtypes.
        kept, reduced: dimensions of the results, and dimensions that are reduced, at least one each.
        wide, width, compute, scalars: as in `KernelSpec`.
        repeated: which of the inputs are the same for neighbouring elements.
        narrow: as in `KernelSpec`, of what the last pass stores.
        stage: "whole", or of two passes "first" or "second".
        ordered: whether of what follows in memory indices do, too, where the formula is given them.
    """

    algorithm: str
    formula: Reduction
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    parts: tuple[str, ...]
    kept: int
    reduced: int
    wide: bool
    width: int = 1
    compute: str = ""
    repeated: tuple[int, ...] = ()
    scalars: tuple[str, ...] = ()
    narrow: bool = False
    stage: str = "whole"
    ordered: bool = True

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Those of all operands."""
        return (*self.reads, *self.writes)

    @property
    def indexed(self) -> bool:
        """True if the formula is given the elements' index."""
        return self.formula.indexed and self.stage != "second"

    @property
    def runs(self) -> int:
        """Accesses of each input that a thread has under way at once: 64 bytes, fewer where parts need registers."""
        widths = [1 if k in self.repeated else self.width for k in range(len(self.reads))]
        nbytes = sum(width * TABLE[name].itemsize for width, name in zip(widths, self.reads, strict=True))
        parts = [max(TABLE[name].itemsize, 4) for name in self.parts]
        most = min(max(_LOADED * VECTOR_BYTES // nbytes, 2), 16, max(_PARTS_BYTES // (self.width * sum(parts)), 1))
        is_large = self.stage == "second" or sum(parts) > 24
        if self.formula.chunk is None and self.formula.place is None:
            is_large = is_large or self.indexed
        else:
            # All numbers are looked at twice. While those of one chunk are, or pairs, as many more are on their way.
            at_once = CHUNK if self.formula.place is not None and not self.in_words else 2 * CHUNK
            most = min(most, max(at_once // self.width, 1))
        return max(int(1 << most.bit_length() - 1) >> is_large, 1)

    @property
    def in_words(self) -> bool:
        """Whether what is looked for is looked for in pairs, which two numbers of 16 bits are in a word."""
        is_pair = self.reads[0] in ("bfloat16", "float16") and self.width > 1 and not self.repeated
        return is_pair and self.formula.place is not None and self.stage != "second" and self.ordered

    @property
    def access_bytes(self) -> int:
        """Width of the widest load."""
        return max(min(self.width * TABLE[name].itemsize, VECTOR_BYTES) for name in self.reads)

    @property
    def needs_alignment(self) -> bool:
        """As in `KernelSpec`; of one input's rows the kernel itself finds where they are aligned."""
        return self.width > 1 and (self.algorithm == "fold_columns" or len(self.reads) > 1)

    @property
    def sources(self) -> tuple[str, ...]:
        """As in `KernelSpec`."""
        return ("folds", "fold_lanes", "chunks", "places", "pairs", "groups")

    @property
    def identity(self) -> str:
        """As in `KernelSpec`."""
        return repr((self.formula.digest(self.compute, self.narrow), self._replace(formula=None)))  # type: ignore[arg-type]


class Limits(NamedTuple):
    """What a GPU allows.

    Attributes:
        shared: bytes of shared memory that a block may ask for.
        cluster: blocks that may run together, and see each other's shared memory.
        multiprocessors: how many it has.
    """

    shared: int
    cluster: int
    multiprocessors: int = 132


class LaunchOrder(NamedTuple):
    """The description of a launch, from which a launcher is made.

    Attributes:
        kernel: which kernel: its spec.
        device: the GPU.
        grid, block: blocks and threads along x and y.
        alignment: the address modulo 16 of each array.
        pointers: (array, bytes into it) of each of the kernel's pointers.
        constants: the integers that follow the pointers.
        pairs: (array, low, high, output, low, high, allowed to be equal): an output's bytes may not be another
            array's, unless the two start at one address and that is allowed.
        words: 64-bit words of scalar arguments, which each launch brings.
        shared: bytes of shared memory of each block, beside what the kernel has always.
        cluster: how many blocks next to each other along x run together, and see each other's shared memory.
    """

    kernel: Any
    device: int
    grid: tuple[int, int]
    block: tuple[int, int]
    alignment: tuple[int, ...]
    pointers: tuple[tuple[int, int], ...]
    constants: tuple[int, ...]
    pairs: tuple[tuple[int, ...], ...]
    words: int = 0
    shared: int = 0
    cluster: int = 1

    @property
    def arguments(self) -> int:
        """How many arrays' addresses and words a launch is given."""
        return len(self.alignment) + self.words


def launch_bounds(spec: Any) -> tuple[int, int]:
    """A kernel's `LAUNCH_BOUNDS`."""
    found: tuple[int, int] = getattr(spec, "launch_bounds", LAUNCH_BOUNDS)
    return found


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
