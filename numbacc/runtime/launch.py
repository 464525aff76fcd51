"""From a kernel's specification to one driver call.

A launcher owns a template: the launch configuration, how the kernel's pointers lie in the arrays, and its other
arguments. `native.launch` checks the arrays' addresses against it, packs the arguments on its stack and calls
the driver. Nothing is written in the template, so any number of threads may use one launcher.
"""

from __future__ import annotations

import ctypes
import struct
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
from . import device as runtime
from . import disk_cache, native
from .builtin import bound_to_arrays
from .contexts import relaxed
from .launch_order import MOST_REGISTERS, REGISTERS, ROW_BLOCKS, LaunchOrder, Limits, Spec
from .memory import with_room

#: Kernels that have been loaded, with their GPU.
_loaded: set[tuple[Any, int]] = set()


@lru_cache(maxsize=4096)
def load_function(spec: Spec, device: int) -> int:
    """The handle of a kernel on a GPU: from the disk cache, or compiled and put there."""
    capability = runtime.capability(device)
    key = disk_cache.key(spec, capability)
    found = disk_cache.load(key)
    if found is None:
        found = compile_cubin(spec, capability)
        disk_cache.save(key, *found)
    entry, cubin = found
    with runtime.on_device(device), relaxed():
        module = with_room(lambda: runtime.call(driver.cuModuleLoadData, address_of(cubin)), device)
        function: int = runtime.call(driver.cuModuleGetFunction, module, entry.encode())
        if spec.is_dynamic:
            # All that the GPU has may be asked for, and where nothing is said as much as can be is for blocks, not for
            # its cache.
            own = runtime.call(driver.cuFuncGetAttribute, FunctionAttribute.SHARED_SIZE_BYTES, function)
            most = runtime.device_attribute(DeviceAttribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device) - own
            driver.cuFuncSetAttribute(function, FunctionAttribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, most)
            driver.cuFuncSetAttribute(function, FunctionAttribute.PREFERRED_SHARED_MEMORY_CARVEOUT, spec.carveout)
    _loaded.add((spec, device))
    return function


def address_of(data: bytes) -> int:
    """The address of bytes; the driver copies what it is given, be it machine code or arguments."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def compile_cubin(spec: Spec, capability: tuple[int, int]) -> tuple[str, bytes]:
    """(entry point, machine code) of a kernel for a compute capability. Needs no GPU."""
    from cuda.core import Program, ProgramOptions

    ptx, entry = ptx_of(spec, capability)
    options = ProgramOptions(arch="sm_{}{}".format(*capability), max_register_count=most_registers(spec, ptx))
    return entry, bytes(Program(ptx, "ptx", options).compile("cubin").code)


def ptx_of(spec: Spec, capability: tuple[int, int]) -> tuple[str, str]:
    """(PTX, entry point) of a kernel for a compute capability. Needs no GPU."""
    from ..base import _numba
    from . import kernel_code

    return _numba.compile_ptx(kernel_code.make(spec), kernel_code.signature(spec), capability, spec.launch_bounds)


def most_registers(spec: Spec, ptx: str) -> int | None:
    """What the assembler must be told of registers; None where the kernel's own bounds say it.

    They say nothing of functions that the compiler has left functions, for their length: these may take no more than
    the kernel that calls them.
    """
    if ".func" not in ptx:
        return None
    threads, blocks = spec.launch_bounds
    return min(REGISTERS // (threads * blocks), MOST_REGISTERS)


class Launcher:
    """A kernel with its geometry and constants, ready to be given arrays' addresses.

    A GPU that does not know one of the dtypes is a DeviceError.

    Call `launcher.launch(stream, scratch, addresses, scalars)`, as `Executable.launch`: kernels have no scratch memory.
    It returns 0, the driver's status, or a number of `codes` where the arrays must be checked.
    """

    backend = "kernel"
    algorithm = ""

    @staticmethod
    def is_loaded(kernel: Any, device: int) -> bool:
        """True if a launcher of this kernel compiles and loads nothing."""
        return (kernel, device) in _loaded

    @staticmethod
    def limits(device: int) -> Limits:
        """What a GPU allows."""
        shared = runtime.device_attribute(DeviceAttribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device)
        count = runtime.device_attribute(DeviceAttribute.MULTIPROCESSOR_COUNT, device)
        return Limits(shared, ROW_BLOCKS if runtime.capability(device) >= (9, 0) else 1, count)

    def __init__(self, order: LaunchOrder):
        for name in order.kernel.dtypes:
            runtime.check_capability(name, TABLE[name].oldest_capability, order.device)
        self.order = order
        check_count(order.arguments)
        self._function = load_function(order.kernel, order.device)
        self._cluster = LaunchAttribute(LaunchAttributeId.CLUSTER_DIMENSION, b"", (order.cluster, 1, 1))
        checked = self._template(order.pairs, driver.address("cuStreamIsCapturing"))
        # A plain attribute, not a method: the call goes straight to compiled code.
        self.launch = bound_to_arrays(native.launch, checked, self._cluster)

    @cached_property
    def launch_unchecked(self) -> Any:
        """`launch` without a check of overlap and capture, for arrays and streams that have been checked."""
        return bound_to_arrays(native.launch, self._template((), 0), self._cluster)

    def _template(self, pairs: Sequence[tuple[int, ...]], is_capturing: int) -> Any:
        order = self.order
        gpu = runtime.gpu(order.device)
        letter = "q" if order.kernel.wide else "i"
        constants = struct.pack(f"<{len(order.constants)}{letter}", *order.constants)
        packed = constants + bytes(-len(constants) % 8)
        # Scalar arguments are words of 64 bits, and start at a multiple of 8.
        size = 8 * (len(order.pointers) + order.words) + len(packed if order.words else constants)
        assert size <= native.ARGUMENT_BYTES
        attributes = ctypes.addressof(self._cluster) if order.cluster > 1 else None
        head = (
            gpu.get_current,
            gpu.context,
            is_capturing,
            driver.address("cuLaunchKernelEx"),
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
            + bytes(LaunchConfig(*order.grid, 1, *order.block, 1, order.shared, None, attributes, order.cluster > 1))
            + _words(order.alignment)
            + _words(n for pointer in order.pointers for n in pointer)
            + packed
            + _words(n for pair in pairs for n in pair)
        )


def _words(numbers: Iterable[int]) -> bytes:
    """64-bit words."""
    return b"".join(number.to_bytes(8, "little", signed=number < 0) for number in numbers)
