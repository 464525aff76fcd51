"""Launchers: they turn a kernel's spec and geometry into one driver call.

A launcher owns a template: the launch configuration, where the kernel's pointers point to in the arrays, and its other
arguments. `native.launch` checks the arrays' addresses against the template, packs the arguments on its stack and calls
the driver. A launch does not write to the template, so any number of threads may use one launcher.
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
    entry, cubin = found
    with runtime.on_device(device), relaxed():
        module = with_room(lambda: runtime.call(driver.cuModuleLoadData, address_of(cubin)), device)
        function: int = runtime.call(driver.cuModuleGetFunction, module, entry.encode())
        if spec.is_dynamic:
            # Let launches use all of the GPU's shared memory. Unless the spec says otherwise, prefer shared memory to
            # L1 cache.
            own = runtime.call(driver.cuFuncGetAttribute, FunctionAttribute.SHARED_SIZE_BYTES, function)
            most = runtime.device_attribute(DeviceAttribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device) - own
            driver.cuFuncSetAttribute(function, FunctionAttribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, most)
            driver.cuFuncSetAttribute(function, FunctionAttribute.PREFERRED_SHARED_MEMORY_CARVEOUT, spec.carveout)
    _loaded.add((spec, device))
    return function


def address_of(data: bytes) -> int:
    """Return the address of bytes. The driver copies them, whether they are machine code or arguments."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def compile_cubin(spec: Spec, capability: tuple[int, int]) -> tuple[str, bytes]:
    """Compile a kernel for a compute capability: (entry point, machine code). Needs no GPU."""
    from cuda.core import Program, ProgramOptions

    ptx, entry = ptx_of(spec, capability)
    options = ProgramOptions(arch="sm_{}{}".format(*capability), max_register_count=most_registers(spec, ptx))
    return entry, bytes(Program(ptx, "ptx", options).compile("cubin").code)


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


class Launcher:
    """A kernel with its geometry and constants, ready to be launched on arrays' addresses.

    If the GPU does not support one of the dtypes, making a launcher raises DeviceError.

    Call `launcher.launch(stream, scratch, addresses, scalars)`, as with `Executable.launch`; kernels have no scratch
    memory. It returns 0, the driver's status, or one of `codes` if the arrays must be checked.
    """

    backend = "kernel"
    algorithm = ""

    @staticmethod
    def is_loaded(kernel: Any, device: int) -> bool:
        """Return True if making a launcher of this kernel compiles and loads nothing."""
        return (kernel, device) in _loaded

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
        self._cluster = LaunchAttribute(LaunchAttributeId.CLUSTER_DIMENSION, b"", (order.cluster, 1, 1))
        checked = self._template(order.pairs, driver.address("cuStreamIsCapturing"))
        # A plain attribute, not a method, so that a call goes straight to compiled code.
        self.launch = bound_to_arrays(native.launch, checked, self._cluster)
        #: The compiled function that `launch` calls, and the template that is its first argument.
        self.compiled = native.launch, checked

    @cached_property
    def launch_unchecked(self) -> Any:
        """The function `launch` without checks of overlap and capture, for arrays and streams already checked."""
        return bound_to_arrays(native.launch, self._template((), 0), self._cluster)

    def _template(self, pairs: Sequence[tuple[int, ...]], is_capturing: int) -> Any:
        order = self.order
        gpu = runtime.gpu(order.device)
        letter = "q" if order.kernel.wide else "i"
        constants = struct.pack(f"<{len(order.constants)}{letter}", *order.constants)
        packed = constants + bytes(-len(constants) % 8)
        # Scalar arguments are 64-bit words, and start at a multiple of 8.
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
    """Pack integers into 64-bit words."""
    return b"".join(number.to_bytes(8, "little", signed=number < 0) for number in numbers)
