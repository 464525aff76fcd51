"""Descriptions of kernels and of launches, and what limits these: threads of a block, registers, bytes of an access."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..base.dtypes import TABLE

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


class Spec:
    """All that decides a kernel's code: the key that it is cached under.

    Each kind of kernels has a subclass, made of a named tuple with its fields and of this class. The properties here
    are the defaults: a subclass defines those that differ. `kernel_code` finds the kernel.
    """

    __slots__ = ()

    @property
    def module(self) -> str:
        """The module that makes the kernel, as a path inside the package: see `kernel_code`."""
        raise NotImplementedError

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the inputs' dtypes."""
        return ()

    @property
    def writes(self) -> tuple[str, ...]:
        """Names of the outputs' dtypes."""
        return ()

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Those of all operands, which the GPU must know."""
        return (*self.reads, *self.writes)

    @property
    def compute(self) -> str:
        """Name of the dtype that is computed in."""
        return ""

    @property
    def narrow(self) -> bool:
        """True where every float that is stored has fewer bits than are computed with."""
        return False

    @property
    def wide(self) -> bool:
        """True where the integers of a launch, offsets and sizes, have 64 bits, not 32."""
        return True

    @property
    def width(self) -> int:
        """Elements next to each other that are loaded or stored together."""
        return 1

    @property
    def access_bytes(self) -> int:
        """Width of the widest load or store, 0 where `dtypes` are not known."""
        return max((min(self.width * TABLE[name].itemsize, VECTOR_BYTES) for name in self.dtypes), default=0)

    @property
    def needs_alignment(self) -> bool:
        """True if the launch's last constant says whether the arrays are aligned as this kernel's accesses are."""
        return False

    @property
    def launch_bounds(self) -> tuple[int, int]:
        """Threads of a block, at most, and blocks that fit a multiprocessor together."""
        return LAUNCH_BOUNDS

    @property
    def is_dynamic(self) -> bool:
        """True where each launch says how much shared memory it has."""
        return False

    @property
    def carveout(self) -> int:
        """What a multiprocessor has of its memory for blocks, not for its cache, in percent, where `is_dynamic`."""
        return 100

    def described(self, launch: str) -> str:
        """The text about a launch of the kernel. `launch` is the part about its grid."""
        kernel: Any = self
        is_by_element = kernel.algorithm in ("scalar", "strided", "tiled")
        accesses = "" if is_by_element else f"{8 * self.access_bytes}-bit accesses, "
        return f"{kernel.algorithm}, {accesses}{64 if self.wide else 32}-bit indices, {launch}"

    @property
    def identity(self) -> str:
        """A text that tells the kernel from every other one's code, wherever and whenever it was written."""
        fields: Any = self
        return repr(fields._replace(**{name: self._told(getattr(self, name)) for name in fields._fields}))

    def _told(self, value: Any) -> Any:
        """A field's value in `identity`: a formula is replaced by the digest of its code."""
        if isinstance(value, Spec):
            return value.identity
        return value.digest(self.compute, self.narrow) if hasattr(value, "digest") else value


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
    def described(self) -> str:
        """The text about the launch in `PlanInfo`."""
        clusters = f", clusters of {self.cluster}" if self.cluster > 1 else ""
        return str(self.kernel.described(f"grid {self.grid}, block {self.block}{clusters}"))

    @property
    def arguments(self) -> int:
        """How many arrays' addresses and words a launch is given."""
        return len(self.alignment) + self.words
