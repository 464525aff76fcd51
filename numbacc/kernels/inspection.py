"""What plans compile to, to be read: PTX, registers, local memory, bytes a thread moves. Needs no GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..base.dispatch import has_gpu, launching_by, runtime, simulated
from ..base.dtypes import TABLE
from ..base.layout import Layout, layout
from ..runtime.launch_order import ROW_BLOCKS, LaunchOrder, Limits
from .specs import KernelSpec, pieces_each

#: What kernels are compiled for where there is no GPU: an H100's compute capability.
DEFAULT_CAPABILITY = (9, 0)


class Noted:
    """Stands in for a launcher, and keeps which kernel it would launch."""

    backend, algorithm = "kernel", ""
    found: list[Any]

    @classmethod
    def into(cls, found: list[Any]) -> type[Noted]:
        """One that keeps kernels in a list."""
        return type("Noted", (cls,), {"found": found})

    def __init__(self, order: LaunchOrder):
        self.order = order
        self._note(order)

    def _note(self, order: LaunchOrder) -> None:
        self.found.append(order.kernel)

    @staticmethod
    def is_loaded(kernel: Any, device: int) -> bool:
        return True

    @staticmethod
    def limits(device: int) -> Limits:
        """Those of an H200: what everyday calls launch is the same on all."""
        return Limits(232448, ROW_BLOCKS)

    def launch(self, *words: int) -> int:
        return 0

    launch_unchecked = launch


class NotedOrder(Noted):
    """`Noted`, which keeps all of a launch."""

    def _note(self, order: LaunchOrder) -> None:
        self.found.append(order)


@dataclass(frozen=True)
class CompiledKernel:
    """One kernel of a plan.

    Attributes:
        algorithm: which kernel, and how it is launched.
        bytes_per_thread: what a thread loads and stores; of a reduction, what it has under way at once.
        ptx: the kernel in PTX; None where that could not be made.
        registers: of a thread; None where the assembler could not be asked.
        local_bytes: of a thread's local memory, which is slow; likewise.
        spilled_bytes: of these, stored and loaded for want of registers; likewise.
        reason: why something is None; "" where nothing is.
    """

    algorithm: str
    bytes_per_thread: int
    ptx: str | None
    registers: int | None
    local_bytes: int | None
    spilled_bytes: int | None
    reason: str

    def __str__(self) -> str:
        used = self.reason
        if self.registers is not None:
            used = f"{self.registers} registers, {self.local_bytes} bytes of local memory"
            used += f" ({self.spilled_bytes} bytes spilled)" if self.spilled_bytes else ""
        return f"{self.algorithm}: {self.bytes_per_thread} bytes a thread; {used}"


@dataclass(frozen=True)
class Inspection:
    """What a function of one's own became. `print` shows the source and the figures.

    Attributes:
        name: the function's.
        source: the function as it is compiled, and its gradients where they are known: Python text.
        capability: the compute capability that it was compiled for: this GPU's, 9.0 without one.
        kernels: all that a call launches, in order.
        ptx, registers, local_bytes, spilled_bytes, bytes_per_thread: those of the first, which reads the arrays.
    """

    name: str
    source: str
    capability: tuple[int, int]
    kernels: tuple[CompiledKernel, ...]

    @property
    def ptx(self) -> str | None:
        return self.kernels[0].ptx

    @property
    def registers(self) -> int | None:
        return self.kernels[0].registers

    @property
    def local_bytes(self) -> int | None:
        return self.kernels[0].local_bytes

    @property
    def spilled_bytes(self) -> int | None:
        return self.kernels[0].spilled_bytes

    @property
    def bytes_per_thread(self) -> int:
        return self.kernels[0].bytes_per_thread

    def __str__(self) -> str:
        lines = [f"# for compute capability {self.capability[0]}.{self.capability[1]}"]
        lines += [f"# {kernel}" for kernel in self.kernels]
        return "\n".join([self.source, *lines])

    def __repr__(self) -> str:
        return f"<inspection of {self.name}: {'; '.join(map(str, self.kernels))}>"


_NO_LAUNCH = CompiledKernel("no launch", 0, None, None, None, None, "the result is empty")


def inspected(name: str, source: str, plan: Any, addresses: Sequence[int]) -> Inspection:
    """What a plan compiles to.

    Args:
        name, source: as in `Inspection`.
        plan: of layouts on a GPU, which need not exist; it is not to be run.
        addresses: of its first arrays; those of the others are multiples of 256.
    """
    found: list[LaunchOrder] = []
    unknown = len(plan.inputs) + len(plan.outputs) - len(addresses)
    if not plan.empty:
        with launching_by(NotedOrder.into(found)):
            plan.choose([*addresses, *[0] * unknown])
    capability = DEFAULT_CAPABILITY
    if not found:
        return Inspection(name, source, capability, (_NO_LAUNCH,))
    if has_gpu() and not simulated():
        capability = runtime().capability(runtime().current_device())
    return Inspection(name, source, capability, tuple([_compiled(order, capability) for order in found]))


def on_gpu(given: Any) -> Any:
    """A layout as it is on a GPU; what is none as it is."""
    return (
        layout(given.shape, given.strides, given.dtype, 0) if isinstance(given, Layout) and given.device < 0 else given
    )


def _compiled(order: LaunchOrder, capability: tuple[int, int]) -> CompiledKernel:
    ptx, (registers, local, spilled), reason = _figures(order.kernel, capability)
    return CompiledKernel(order.described, thread_bytes(order.kernel), ptx, registers, local, spilled, reason)


def thread_bytes(kernel: Any) -> int:
    """`CompiledKernel.bytes_per_thread` of an elementwise kernel or a reduction."""
    sizes = [TABLE[name].itemsize for name in kernel.reads]
    if isinstance(kernel, KernelSpec):
        straight = len(sizes) - len(kernel.repeated)
        each = kernel.lanes * (pieces_each(straight, kernel.width) if kernel.algorithm == "uneven" else 1)
        stored = each * sum(TABLE[name].itemsize for name in kernel.writes)
        return stored + sum(size * (1 if k in kernel.repeated else each) for k, size in enumerate(sizes))
    width = kernel.width
    return int(kernel.runs * sum(size * (1 if k in kernel.repeated else width) for k, size in enumerate(sizes)))


#: Registers, bytes of local memory, bytes spilled.
_Usage = tuple[int | None, int | None, int | None]
_NOT_KNOWN: _Usage = (None, None, None)


@lru_cache(maxsize=256)
def _figures(kernel: Any, capability: tuple[int, int]) -> tuple[str | None, _Usage, str]:
    """(PTX, what it uses, why something is missing)."""
    if simulated():
        return None, _NOT_KNOWN, "the simulator compiles nothing"
    try:
        from ..base import _numba
        from ..runtime.launch import most_registers, ptx_of

        with _numba.pretending(None if has_gpu() else capability):
            ptx, _ = ptx_of(kernel, capability)
    except Exception as error:  # whatever a missing part of CUDA raises
        return None, _NOT_KNOWN, f"not compiled: {type(error).__name__}: {error}"
    try:
        from cuda.core import Linker, LinkerOptions, ObjectCode

        arch = "sm_{}{}".format(*capability)
        most = most_registers(kernel, ptx)
        options = LinkerOptions(arch=arch, max_register_count=most, ptxas_options=["-v"])
        linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=options)
        linker.link("cubin")
        return ptx, _usage(linker.get_info_log()), ""
    except Exception as error:
        return ptx, _NOT_KNOWN, f"the assembler was not asked: {type(error).__name__}: {error}"


def _usage(log: str) -> _Usage:
    """What a kernel uses, with the functions it calls, as the assembler's log has it."""
    registers = re.search(r"Used (\d+) registers", log)
    stack = re.findall(r"(\d+) bytes stack frame", log)
    spilled = re.findall(r"(\d+) bytes spill", log)
    if registers is None or not stack:
        raise ValueError("its log says nothing of registers")
    return int(registers.group(1)), sum(map(int, stack)), sum(map(int, spilled))
