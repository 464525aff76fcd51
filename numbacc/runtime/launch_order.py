"""Descriptions of kernels and launches, and their limits: threads per block, registers, bytes per access."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..base.dtypes import TABLE

#: Bytes of the widest load or store.
VECTOR_BYTES = 16
#: The most threads per block.
MAX_THREADS = 128
#: Blocks of `MAX_THREADS` threads that keep an H200 busy.
BUSY_BLOCKS = 1056
#: Threads per block, and blocks per multiprocessor: the compiler then gets 64 registers per thread. Without this it
#: uses fewer registers, to fit more blocks, and kernels run up to 4 % slower.
LAUNCH_BOUNDS = (MAX_THREADS, 8)
#: Registers of a multiprocessor, and the most registers of a thread.
REGISTERS, MOST_REGISTERS = 65536, 255
#: Threads of a warp.
WARP = 32
#: The type of scalar arguments among a kernel's parameters: 64-bit words, which come last.
WORDS = "words"
#: The most blocks that share a row: every GPU with clusters supports clusters of this size.
ROW_BLOCKS = 8


class Spec:
    """Everything that a kernel's code depends on. It is also the key under which the kernel is cached.

    Each kind of kernels has a subclass, which derives from a named tuple with its fields and from this class. The
    properties here are the defaults, and a subclass overrides those that differ. `kernel_code` finds the kernel.
    """

    __slots__ = ()

    @property
    def module(self) -> str:
        """The module that makes the kernel, as a path inside the package; see `kernel_code`."""
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
        """Names of all operands' dtypes. The GPU must support them."""
        return (*self.reads, *self.writes)

    @property
    def compute(self) -> str:
        """Name of the dtype that the kernel computes in."""
        return ""

    @property
    def narrow(self) -> bool:
        """True if every float that is stored has fewer bits than the dtype of the computation."""
        return False

    @property
    def wide(self) -> bool:
        """True if a launch's integers (offsets and sizes) have 64 bits, not 32."""
        return True

    @property
    def width(self) -> int:
        """Number of adjacent elements that one access loads or stores."""
        return 1

    @property
    def access_bytes(self) -> int:
        """Bytes of the widest load or store; 0 if `dtypes` are unknown."""
        return max((min(self.width * TABLE[name].itemsize, VECTOR_BYTES) for name in self.dtypes), default=0)

    @property
    def needs_alignment(self) -> bool:
        """True if the launch's last constant says whether the arrays are aligned for this kernel's accesses."""
        return False

    @property
    def launch_bounds(self) -> tuple[int, int]:
        """The most threads per block, and the number of blocks that fit a multiprocessor together."""
        return LAUNCH_BOUNDS

    @property
    def parameters(self) -> Sequence[tuple[str, Any]] | None:
        """What `kernel_code.parameters` returns, for launches that do not import the kernel's module and Numba.

        None if only that module knows.
        """
        return None

    @property
    def is_specific(self) -> bool:
        """True if the kernel uses instructions of one architecture only, such as wgmma of sm_90a."""
        return False

    @property
    def is_dynamic(self) -> bool:
        """True if each launch sets the size of its shared memory."""
        return False

    @property
    def carveout(self) -> int:
        """The percentage of a multiprocessor's memory to use as shared memory instead of L1 cache, if `is_dynamic`."""
        return 100

    def described(self, launch: str) -> str:
        """Describe a launch of the kernel in words. `launch` is the part about its grid."""
        kernel: Any = self
        is_by_element = kernel.algorithm in ("scalar", "strided", "tiled")
        accesses = "" if is_by_element else f"{8 * self.access_bytes}-bit accesses, "
        return f"{kernel.algorithm}, {accesses}{64 if self.wide else 32}-bit indices, {launch}"

    @property
    def identity(self) -> str:
        """A text that identifies the kernel's code, independent of process and machine."""
        fields: Any = self
        return repr(fields._replace(**{name: self._told(getattr(self, name)) for name in fields._fields}))

    def _told(self, value: Any) -> Any:
        """Return a field's value for `identity`. A scalar function is replaced by the digest of its code."""
        if isinstance(value, Spec):
            return value.identity
        return value.digest(self.compute, self.narrow) if hasattr(value, "digest") else value


class WarpgroupSpec(Spec):
    """Defaults for kernels of warpgroups: tensor cores of one architecture, sums in float32, one block at a time."""

    __slots__ = ()

    @property
    def threads(self) -> int:
        """Threads of a block."""
        raise NotImplementedError

    @property
    def compute(self) -> str:
        return "float32"

    @property
    def is_specific(self) -> bool:
        return True

    @property
    def is_dynamic(self) -> bool:
        return True

    @property
    def launch_bounds(self) -> tuple[int, int]:
        return (self.threads, 1)


class Limits(NamedTuple):
    """The limits of a GPU.

    Attributes:
        shared: the most bytes of shared memory per block.
        cluster: the most blocks per cluster; blocks of a cluster run together and see each other's shared memory.
        multiprocessors: the number of multiprocessors.
    """

    shared: int
    cluster: int
    multiprocessors: int = 132


class LaunchOrder(NamedTuple):
    """The description of a launch, for making a launcher.

    Attributes:
        kernel: the kernel's spec.
        device: the GPU.
        grid, block: blocks and threads along x and y.
        alignment: the address modulo 16 of each array.
        pointers: (array, byte offset in it) for each of the kernel's pointers.
        constants: the integers that follow the pointers.
        pairs: (array, low, high, output, low, high, allowed to be equal): an output may not share bytes with
            another array, unless both start at the same address and that is allowed.
        words: number of 64-bit words of scalar arguments, which each launch passes.
        shared: bytes of shared memory per block, in addition to the kernel's static shared memory.
        cluster: number of adjacent blocks along x that run together, and see each other's shared memory.
        follows: True if the kernel itself waits for the stream's previous kernel, and may start before that has ended.
            GPUs that cannot do this start it later.
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
    follows: bool = False

    @property
    def described(self) -> str:
        """The text about the launch for `PlanInfo`."""
        clusters = f", clusters of {self.cluster}" if self.cluster > 1 else ""
        return str(self.kernel.described(f"grid {self.grid}, block {self.block}{clusters}"))

    @property
    def arguments(self) -> int:
        """Number of arguments that a launch gets: the arrays' addresses and the scalar words."""
        return len(self.alignment) + self.words


# ---------------------------------------------------------------- launches with tensor maps


class AddressOf(NamedTuple):
    """A kernel's parameter that is an array's address, as int64.

    Attributes:
        array: the array's number.
        offset: bytes from the array's first element.
    """

    array: int
    offset: int = 0


class MapOf(NamedTuple):
    """A kernel's parameter that is a tensor map of an array.

    Attributes:
        array: the array's number.
        fields: the map, without its address; see `tensor_maps.fields_of`.
        offset: bytes from the array's first element.
    """

    array: int
    fields: Any
    offset: int = 0


class Scalar(NamedTuple):
    """A kernel's parameter that each launch passes, as a 64-bit word whose low bytes are the number.

    Attributes:
        number: its position among the launch's scalars.
    """

    number: int


class TensorOrder(NamedTuple):
    """The description of a launch of a kernel that takes addresses and tensor maps.

    Attributes:
        kernel: the kernel's spec.
        device: the GPU.
        grid, block, cluster: blocks, threads and blocks of a cluster along x, y and z.
        shared: bytes of dynamic shared memory.
        parameters: an AddressOf, MapOf, Scalar or number for each of the kernel's parameters.
    """

    kernel: Any
    device: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared: int
    parameters: tuple[Any, ...]

    @property
    def described(self) -> str:
        """The text about the launch for `PlanInfo`."""
        clusters = f", clusters of {self.cluster}" if self.cluster != (1, 1, 1) else ""
        return f"grid {self.grid}, block {self.block}{clusters}, {self.shared} bytes of shared memory"
