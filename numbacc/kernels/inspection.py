"""Inspection of a plan's compiled kernels: PTX, registers, local memory and bytes per thread. Needs no GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..base import html
from ..base.dispatch import has_gpu, launching_by, runtime, simulated
from ..base.dtypes import TABLE
from ..base.layout import Layout, layout
from ..runtime.launch_order import ROW_BLOCKS, LaunchOrder, Limits
from .specs import KernelSpec, pieces_each

#: The compute capability to compile for without a GPU: that of an H100.
DEFAULT_CAPABILITY = (9, 0)


class Noted:
    """A stand-in for a launcher that records which kernel it would launch."""

    backend, algorithm = "kernel", ""
    found: list[Any]

    @classmethod
    def into(cls, found: list[Any]) -> type[Noted]:
        """Return a subclass that records kernels in the given list."""
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
        """Return the limits of an H200. Everyday calls launch the same kernels on all GPUs."""
        return Limits(232448, ROW_BLOCKS)

    def launch(self, *words: int) -> int:
        return 0

    launch_unchecked = launch


class NotedOrder(Noted):
    """A `Noted` that records the whole launch, not only its kernel."""

    def _note(self, order: LaunchOrder) -> None:
        self.found.append(order)


@dataclass(frozen=True)
class CompiledKernel:
    """One kernel of a plan.

    Attributes:
        algorithm: which kernel it is, and how it is launched.
        bytes_per_thread: bytes that a thread loads and stores; for a reduction, bytes that it has in flight at once.
        ptx: the kernel's PTX; None if it could not be compiled.
        registers: registers per thread; None if the assembler did not run.
        local_bytes: bytes of (slow) local memory per thread; None if the assembler did not run.
        spilled_bytes: the part of `local_bytes` that is due to register spills; None if the assembler did not run.
        reason: why one of these is None; "" if all are known.
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
    """The compiled form of a user-defined function. `print` shows the source and the figures.

    Attributes:
        name: the function's name.
        source: the function as it is compiled, and its gradients if they are known, as Python source.
        capability: the compute capability that it was compiled for: this GPU's, or 9.0 without a GPU.
        kernels: all kernels that a call launches, in order.
        ptx, registers, local_bytes, spilled_bytes, bytes_per_thread: the figures of the first kernel, which reads the
            arrays.
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

    def _repr_html_(self) -> str:
        head = ["kernel", "bytes a thread", "registers", "local bytes", "spilled bytes"]
        rows = [
            [
                k.algorithm,
                k.bytes_per_thread,
                *("" if n is None else n for n in (k.registers, k.local_bytes, k.spilled_bytes)),
            ]
            for k in self.kernels
        ]
        title = f"{self.name}, for compute capability {self.capability[0]}.{self.capability[1]}"
        reasons = dict.fromkeys(k.reason for k in self.kernels if k.reason)
        return "\n".join([html.table(head, rows, title), *map(html.line, reasons), html.code(self.source)])


_NO_LAUNCH = CompiledKernel("no launch", 0, None, None, None, None, "the result is empty")


def inspected(name: str, source: str, plan: Any, addresses: Sequence[int]) -> Inspection:
    """Return the kernels that a plan compiles to.

    Args:
        name, source: as in `Inspection`.
        plan: a plan for layouts on a GPU, which need not exist; the plan is not run.
        addresses: the addresses of its first arrays; all other arrays are assumed to start at multiples of 256.
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
    """Return a layout with its device set to a GPU; return anything else unchanged."""
    return (
        layout(given.shape, given.strides, given.dtype, 0) if isinstance(given, Layout) and given.device < 0 else given
    )


def _compiled(order: LaunchOrder, capability: tuple[int, int]) -> CompiledKernel:
    ptx, (registers, local, spilled), reason = _figures(order.kernel, capability)
    return CompiledKernel(order.described, thread_bytes(order.kernel), ptx, registers, local, spilled, reason)


def thread_bytes(kernel: Any) -> int:
    """Return `CompiledKernel.bytes_per_thread` of an elementwise kernel or a reduction."""
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
    """Return (PTX, register and memory use, the reason if something is missing)."""
    if simulated():
        return None, _NOT_KNOWN, "the simulator does not compile kernels"
    try:
        from ..base import _numba
        from ..runtime.launch import most_registers, ptx_of

        with _numba.pretending(None if has_gpu() else capability):
            ptx, _ = ptx_of(kernel, capability)
    except Exception as error:  # a missing part of CUDA can raise anything
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
        return ptx, _NOT_KNOWN, f"the assembler did not run: {type(error).__name__}: {error}"


def _usage(log: str) -> _Usage:
    """Return the resources that a kernel and the functions it calls use, parsed from the assembler's log."""
    registers = re.search(r"Used (\d+) registers", log)
    stack = re.findall(r"(\d+) bytes stack frame", log)
    spilled = re.findall(r"(\d+) bytes spill", log)
    if registers is None or not stack:
        raise ValueError("its log does not mention registers")
    return int(registers.group(1)), sum(map(int, stack)), sum(map(int, spilled))
