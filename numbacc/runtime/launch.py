"""Launchers: they turn a kernel's spec and geometry into one driver call.

A launcher owns a template: the launch configuration, where the kernel's pointers point to in the arrays, and its other
arguments. `native.launch` checks the arrays' addresses against the template, packs the arguments on its stack and calls
the driver. A launch does not write to the template, so any number of threads may use one launcher.
"""

from __future__ import annotations

import ctypes
import re
import struct
import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Any

from numbacc_bindings.driver import (
    DeviceAttribute,
    FunctionAttribute,
    LaunchAttribute,
    LaunchAttributeId,
    LaunchConfig,
    driver,
)

from ..base.codes import check_count
from ..base.dtypes import TABLE
from ..errors import DeviceError, PerformanceWarning
from . import device as runtime
from . import disk_cache, kernel_reports, native
from .builtin import bound_to_arrays, bound_to_words
from .contexts import relaxed
from .launch_order import MOST_REGISTERS, REGISTERS, ROW_BLOCKS, LaunchOrder, Limits, Spec
from .memory import with_room

#: The variable of kernels that holds the address for their reports; see `kernels.primitives.device.barriers`.
_REPORT = "numbacc_report"
#: Loaded kernels, each with its GPU.
_loaded: set[tuple[Any, int]] = set()


@lru_cache(maxsize=4096)
def load_function(spec: Spec, device: int) -> int:
    """Load a kernel on a GPU, from the disk cache or after compiling it, and return its handle."""
    capability = runtime.capability(device)
    key = disk_cache.key(spec, capability)
    found = disk_cache.load(key)
    if found is None:
        found = compile_cubin(spec, capability)
        disk_cache.save(key, *found)
    function = load_cubin(*found, device, spec.carveout if spec.is_dynamic else None, spec.module)
    _loaded.add((spec, device))
    return function


def load_cubin(entry: str, cubin: bytes, device: int, carveout: int | None, name: str) -> int:
    """Load machine code on a GPU and return the kernel's handle.

    Args:
        carveout: the percentage of a multiprocessor's memory to use as shared memory, -1 to leave it to the driver.
            Launches may then use all of the GPU's shared memory. None: launches use the kernel's own only.
        name: the kernel's name in error messages.
    """
    with runtime.on_device(device), relaxed():
        module = with_room(lambda: runtime.call(driver.cuModuleLoadData, address_of(cubin)), device)
        function: int = runtime.call(driver.cuModuleGetFunction, module, entry.encode())
        reports = _REPORT.encode() in cubin
        if reports or carveout is not None:
            own = runtime.call(driver.cuFuncGetAttribute, FunctionAttribute.SHARED_SIZE_BYTES, function)
        if reports:
            kernel_reports.connect(module, _REPORT, name, own)
        if carveout is not None:
            most = runtime.device_attribute(DeviceAttribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device) - own
            driver.cuFuncSetAttribute(function, FunctionAttribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, most)
            driver.cuFuncSetAttribute(function, FunctionAttribute.PREFERRED_SHARED_MEMORY_CARVEOUT, carveout)
    return function


def address_of(data: bytes) -> int:
    """Return the address of bytes. The driver copies them, whether they are machine code or arguments."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def compile_cubin(spec: Spec, capability: tuple[int, int]) -> tuple[str, bytes]:
    """Compile a kernel for a compute capability: (entry point, machine code). Needs no GPU."""
    from cuda.core import Program, ProgramOptions

    if spec.is_specific:
        from ..base import _numba
        from . import kernel_code

        code = _numba.compile_ltoir(kernel_code.make(spec), kernel_code.signature(spec), capability, spec.launch_bounds)
        return linked(code, capability, spec.module)[:2]
    ptx, entry = ptx_of(spec, capability)
    options = ProgramOptions(arch="sm_{}{}".format(*capability), max_register_count=most_registers(spec, ptx))
    return entry, bytes(Program(ptx, "ptx", options).compile("cubin").code)


#: ptxas's notes about slow code -> what to do.
_SLOW_CODE = {
    "C7504": "setmaxnreg is ignored: give the kernel launch_bounds=(threads, blocks)",
    "C7509": "wgmma instructions wait for each other, because the kernel calls functions that are not inlined: use "
    "device.function for these",
    "C7510": "wgmma instructions wait for each other: their sums are used in a way that the compiler cannot follow",
    "C7514": "wgmma instructions wait for each other: their sums are read before wgmma_wait_group",
}
#: Beginnings of PTX instructions -> the compute capability that they need.
_NEEDS = (
    ("wgmma", "9.0 exactly (H100, H200): wgmma exists on Hopper only; use mma_bf16 elsewhere"),
    ("setmaxnreg", "9.0 exactly (H100, H200), like wgmma"),
    ("cp.async.bulk", "9.0 or newer"),
    ("cp.reduce.async.bulk", "9.0 or newer"),
    ("mbarrier", "8.0 or newer, and 9.0 for parity waits and arrivals of bytes"),
    ("stmatrix", "9.0 or newer"),
    ("mapa", "9.0 or newer"),
    ("barrier.cluster", "9.0 or newer"),
    ("fence.proxy", "9.0 or newer"),
    ("elect", "9.0 or newer"),
    ("cp.async", "8.0 or newer"),
    ("ldmatrix", "7.5 or newer"),
    ("mma", "8.0 or newer, and 8.9 for float8"),
    ("cvt", "8.0 or newer for pairs, and 8.9 for float8"),
)


def linked(codes: Sequence[bytes], capability: tuple[int, int], name: str) -> tuple[str, bytes, bool]:
    """Make machine code of a kernel's LTO-IR: (entry point, machine code, whether it is fast). Needs no GPU.

    PTX would be assembled as a part of a larger program, in which wgmma instructions wait for each other.

    Raises:
        DeviceError: the architecture lacks an instruction.
    """
    from cuda.core import Linker, LinkerOptions, ObjectCode

    arch = "sm_{}{}".format(*capability) + ("a" if capability >= (9, 0) else "")
    linker = Linker(*map(ObjectCode.from_ltoir, codes), options=LinkerOptions(arch=arch, link_time_optimization=True))
    try:
        cubin = bytes(linker.link("cubin").code)
    except Exception as error:
        raise _not_linked(name, capability, f"{error}\n{linker.get_error_log()}") from error
    entry = re.search(rb"\.nv\.constant0\.([\w$]+)\0", cubin)
    if entry is None:
        raise _not_linked(name, capability, "there is no kernel in it")
    slow = _slow_code(linker.get_info_log() + linker.get_error_log())
    for note in slow:
        warnings.warn(f"{name} is slower than it could be: {note}", PerformanceWarning, stacklevel=4)
    return entry.group(1).decode(), cubin, not slow


def _slow_code(log: str) -> list[str]:
    """Return what ptxas says about slow code."""
    found = {}
    for number, said in re.findall(r"\((C75\d\d)\)([^\n]*)", log):
        if number in _SLOW_CODE or "Performance Loss" in said:
            found[number] = _SLOW_CODE.get(number) or re.sub(r" in (?:the )?function '.*", "", said).strip()
    return [f"{text} (ptxas {number})" for number, text in sorted(found.items())]


def _not_linked(name: str, capability: tuple[int, int], said: str) -> DeviceError:
    """Return the error for code that an architecture cannot run, which names what is missing."""
    lacking = re.findall(r"(?:Instruction|Feature|Modifier) '([.\w:]+)'", said)
    for start, need in _NEEDS:
        if any(each.lstrip(".").startswith(start) for each in lacking):
            return DeviceError(
                f"{name} uses {start}, which needs compute capability {need}; this GPU has {capability[0]}."
                f"{capability[1]}"
            )
    return DeviceError(f"{name} cannot be assembled for compute capability {capability[0]}.{capability[1]}: {said}")


def ptx_of(spec: Spec, capability: tuple[int, int]) -> tuple[str, str]:
    """Compile a kernel to PTX for a compute capability: (PTX, entry point). Needs no GPU."""
    from ..base import _numba
    from . import kernel_code

    return _numba.compile_ptx(kernel_code.make(spec), kernel_code.signature(spec), capability, spec.launch_bounds)


def most_registers(spec: Spec, ptx: str) -> int | None:
    """Return the register limit to pass to the assembler; None if the kernel's launch bounds are enough.

    Launch bounds do not apply to functions that the compiler did not inline because they are long. These may not use
    more registers than the kernel that calls them.
    """
    if ".func" not in ptx:
        return None
    threads, blocks = spec.launch_bounds
    return min(REGISTERS // (threads * blocks), MOST_REGISTERS)


def is_loaded(kernel: Any, device: int) -> bool:
    """Return True if making a launcher of this kernel compiles and loads nothing."""
    return (kernel, device) in _loaded


#: The first compute capability whose kernels can start before the previous one has ended, and the first version of the
#: driver (CUDA 12.3) that captures them in graphs.
_FOLLOWS_FROM, _FOLLOWS_DRIVER = (9, 0), 12030


@lru_cache(maxsize=64)
def _can_follow(device: int) -> bool:
    """Return whether a kernel can start on a GPU before the previous one has ended."""
    return runtime.capability(device) >= _FOLLOWS_FROM and runtime.call(driver.cuDriverGetVersion) >= _FOLLOWS_DRIVER


class Launcher:
    """A kernel with its geometry and constants, ready to be launched on arrays' addresses.

    If the GPU does not support one of the dtypes, making a launcher raises DeviceError.

    Call `launcher.launch(stream, scratch, addresses, scalars)`, as with `Executable.launch`; kernels have no scratch
    memory. It returns 0, the driver's status, or one of `codes` if the arrays must be checked.
    """

    backend = "kernel"
    algorithm = ""

    is_loaded = staticmethod(is_loaded)

    @staticmethod
    def limits(device: int) -> Limits:
        """Return the limits of a GPU."""
        shared = runtime.device_attribute(DeviceAttribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device)
        count = runtime.device_attribute(DeviceAttribute.MULTIPROCESSOR_COUNT, device)
        return Limits(shared, ROW_BLOCKS if runtime.capability(device) >= (9, 0) else 1, count)

    def __init__(self, order: LaunchOrder):
        for name in order.kernel.dtypes:
            runtime.check_capability(name, TABLE[name].oldest_capability, order.device)
        self.order = order
        check_count(order.arguments)
        self._function = load_function(order.kernel, order.device)
        #: The attribute of launches, if any. No kernel has both.
        self._attribute: LaunchAttribute | None = None
        if order.cluster > 1:
            self._attribute = LaunchAttribute(LaunchAttributeId.CLUSTER_DIMENSION, b"", (order.cluster, 1, 1))
        elif order.follows and _can_follow(order.device):
            self._attribute = LaunchAttribute(LaunchAttributeId.PROGRAMMATIC_STREAM_SERIALIZATION, b"", (1,))
        checked = self._template(order.pairs, driver.address("cuStreamIsCapturing"))
        # A plain attribute, not a method, so that a call goes straight to compiled code.
        self.launch = bound_to_arrays(native.launch, checked, self._attribute)
        #: `launch` with (stream, scratch, *addresses, *scalars), which takes less time.
        self.launch_words = bound_to_words(native.launch, checked, self._attribute)
        #: The compiled function that `launch` calls, and the template that is its first argument.
        self.compiled = native.launch, checked

    @cached_property
    def launch_unchecked(self) -> Any:
        """The function `launch` without checks of overlap and capture, for arrays and streams already checked."""
        return bound_to_arrays(native.launch, self._template((), 0), self._attribute)

    def _template(self, pairs: Sequence[tuple[int, ...]], is_capturing: int) -> Any:
        order = self.order
        gpu = runtime.gpu(order.device)
        letter = "q" if order.kernel.wide else "i"
        constants = struct.pack(f"<{len(order.constants)}{letter}", *order.constants)
        packed = constants + bytes(-len(constants) % 8)
        # Scalar arguments are 64-bit words, and start at a multiple of 8.
        size = 8 * (len(order.pointers) + order.words) + len(packed if order.words else constants)
        assert size <= native.ARGUMENT_BYTES
        attributes = None if self._attribute is None else ctypes.addressof(self._attribute)
        head = (
            gpu.get_current,
            gpu.context,
            is_capturing,
            driver.address("cuLaunchKernelEx" if attributes else "cuLaunchKernel"),
            self._function,
            len(order.alignment),
            len(order.pointers),
            len(packed) // 8,
            order.words,
            size,
            len(pairs),
        )
        return ctypes.create_string_buffer(
            _words(head)
            + bytes(
                LaunchConfig(*order.grid, 1, *order.block, 1, order.shared, None, attributes, attributes is not None)
            )
            + _words(order.alignment)
            + _words(n for pointer in order.pointers for n in pointer)
            + packed
            + _words(n for pair in pairs for n in pair)
        )


def _words(numbers: Iterable[int]) -> bytes:
    """Pack integers into 64-bit words."""
    return b"".join(number.to_bytes(8, "little", signed=number < 0) for number in numbers)
