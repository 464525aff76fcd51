"""What names a kernel and its launch, apart from the kernels: plans need it, and need neither Numba nor a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

#: A kernel as a Python function, ready to be compiled or simulated.
Kernel = Callable[..., None]

#: Bytes of the widest load or store.
VECTOR_BYTES = 16
#: Bytes that one thread of `vector` and `spread` reads from each input, where nothing else is said.
THREAD_BYTES = 32
#: Threads of a block, at most.
MAX_THREADS = 128
#: Threads of a block, and blocks that fit a multiprocessor together: the compiler gets 64 registers a thread. Left
#: to itself it takes fewer, for more blocks, and runs slower by up to 4 %.
LAUNCH_BOUNDS = (MAX_THREADS, 8)
#: Rows and columns of `tiled`'s tiles.
TILE = 32


class KernelSpec(NamedTuple):
    """All that decides a kernel's code: the key it is cached under.

    Attributes:
        algorithm: the name of a kernel in `maps`, `bits` or `sums`.
        formula: a key of `formulas.FORMULAS`; "" where the kernel applies none.
        dtype: name of the arrays' dtype.
        inputs, outputs: how many arrays.
        rank: dimensions that are unravelled: all of `strided`'s, the outer ones of the others.
        wide: True where offsets or sizes pass 2^31, so that they need 64-bit integers.
        access_bytes: width of one load or store, where the kernel has them in several widths.
        turned: which of the inputs lie transposed, for `tiled`.
        thread_bytes: bytes that one thread of `vector` and `spread` reads from each input.
        out_dtype: name of the outputs' dtype where it is another than the first input's, else "".
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
    thread_bytes: int = THREAD_BYTES
    out_dtype: str = ""


#: Arguments of a kernel of `draws` that change from call to call, beside the result's address; halves of the formula's.
CHANGING, HALVES = 2, 8


class DrawSpec(NamedTuple):
    """All that decides the code of a kernel that makes random numbers.

    Attributes:
        source: where words come from: "philox"; "philox in turns", in the order of cuRAND's float64 normals; "memory".
        formula: a key of `draws.FORMULAS` or `draws.GROUP_FORMULAS`.
        words: 32-bit words a value.
        dtype: name of the result's dtype; that of unsigned integers of its size where it is of integers.
        dense: True where the result is C-contiguous.
        rank: dimensions of the result, at least 1.
        access_bytes: width of one store.
        groups: groups of four words that one thread makes, an even number.
    """

    source: str
    formula: str
    words: int
    dtype: str
    dense: bool
    rank: int
    access_bytes: int
    groups: int

    @property
    def wide(self) -> bool:
        """True: its integers have 64 bits."""
        return True


def groups_of(formula: str, words: int) -> int:
    """`DrawSpec.groups`, measured on an H200: more where the arithmetic takes longer than the memory."""
    return 4 if words == 2 and formula in ("normal", "lognormal", "integers", "few_integers") else 2


class ArrangeSpec(NamedTuple):
    """All that decides the code of a kernel of `arrange`.

    Attributes:
        source, target: names of the dtypes of the arrays' numbers; a complex number is two of them.
        source_parts, target_parts: 1 where an array is real, 2 where it is complex.
        source_bytes, target_bytes: width of one load or store: a number, or both parts of a complex one.
        scale: what values are multiplied with: "" for nothing, a key of `arrange.SCALES`.
        conjugate: whether imaginary parts change their sign.
        padded: whether the target is longer than the source somewhere, and zero there.
        rank: dimensions.
        wide: as in `KernelSpec`.
    """

    source: str
    target: str
    source_parts: int
    target_parts: int
    source_bytes: int
    target_bytes: int
    scale: str
    conjugate: bool
    padded: bool
    rank: int
    wide: bool


class LaunchOrder(NamedTuple):
    """What a launcher is made from.

    Attributes:
        kernel: which kernel.
        device: the GPU.
        grid, block: blocks and threads along x and y.
        alignment: the address modulo 16 of each array.
        places: (array, bytes into it) of each of the kernel's pointers.
        constants: the integers that follow the pointers.
        pairs: (array, low, high, output, low, high, allowed to be equal): an output's bytes may not be another
            array's, unless the two start at one address and that is allowed.
    """

    kernel: KernelSpec | ArrangeSpec | DrawSpec
    device: int
    grid: tuple[int, int]
    block: tuple[int, int]
    alignment: tuple[int, ...]
    places: tuple[tuple[int, int], ...]
    constants: tuple[int, ...]
    pairs: tuple[tuple[int, ...], ...]


def vector_thread_bytes(inputs: int, itemsize: int) -> int:
    """Bytes that one thread of `vector` reads from each input: as many as keep memory busiest, measured on an H200.

    Two loads an input where there are two inputs, one where there are three: more in flight costs more in registers
    than it brings. Of float64 a load holds two numbers only, so there it is always two.
    """
    return THREAD_BYTES if inputs < 3 or itemsize == 8 else VECTOR_BYTES
