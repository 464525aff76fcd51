"""The description of a launch, and what limits it: threads of a block, registers, bytes of an access."""

from __future__ import annotations

from typing import Any, NamedTuple

#: Bytes of the widest load or store.
VECTOR_BYTES = 16
#: Threads of a block, at most.
MAX_THREADS = 128
#: Threads of a block, and blocks that fit a multiprocessor together: the compiler gets 64 registers per thread. Left
#: to itself it takes fewer, for more blocks, and runs slower by up to 4 %.
LAUNCH_BOUNDS = (MAX_THREADS, 8)
#: Registers of a multiprocessor, and of a thread, at most.
REGISTERS, MOST_REGISTERS = 65536, 255
#: Threads of a warp.
WARP = 32
#: The type of scalar arguments among the parameters of a kernel: words of 64 bits, which come last.
WORDS = "words"
#: Blocks that a row has, at most: of a cluster every GPU that knows clusters takes so many.
ROW_BLOCKS = 8


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
