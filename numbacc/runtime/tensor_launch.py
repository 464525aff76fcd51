"""Launch kernels that take tensor maps, run in clusters, or use large shared memory: one driver call each.

What a launch passes to the driver depends on its stream and on the arrays' addresses only. It is made at the first
launch with these, and kept.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from numbacc_bindings.driver import FunctionAttribute, LaunchAttribute, LaunchAttributeId, LaunchConfig, driver

from ..errors import DeviceError
from . import device as runtime
from . import tensor_maps
from .launch import is_loaded, load_function
from .launch_order import AddressOf, MapOf, Scalar, TensorOrder

__all__ = ["DriverCall", "TensorLauncher", "check_cluster"]

#: struct's letters of numbers by dtype.
_LETTERS = {
    "int64": "q", "uint64": "Q", "int32": "i", "uint32": "I", "int16": "h", "uint16": "H", "int8": "b", "uint8": "B",
    "float64": "d", "float32": "f", "float16": "e", "bool": "?",
}  # fmt: skip
#: The most prepared calls of a launcher.
_MOST = 256


class DriverCall:
    """The arguments of one driver call, in memory of their own that nobody changes.

    Args:
        arguments: the bytes of each of the kernel's parameters.
        keep: what must live as long as the call.
    """

    __slots__ = ("_kept", "config", "parameters")

    def __init__(
        self, grid: Sequence[int], block: Sequence[int], cluster: Sequence[int], shared: int, stream: int,
        arguments: Sequence[bytes], keep: Any = None,
    ):  # fmt: skip
        places, size = [], 0
        for each in arguments:
            size += -size % (64 if len(each) == tensor_maps.BYTES else 8)
            places.append(size)
            size += len(each)
        room = ctypes.create_string_buffer(size + 64)
        start = ctypes.addressof(room) + -ctypes.addressof(room) % 64
        for place, each in zip(places, arguments, strict=True):
            ctypes.memmove(start + place, each, len(each))
        pointers = (ctypes.c_void_p * max(len(places), 1))(*(start + place for place in places))
        clustered = tuple(cluster) != (1, 1, 1)
        attribute = LaunchAttribute(LaunchAttributeId.CLUSTER_DIMENSION, b"", tuple(cluster))
        config = LaunchConfig(
            *grid, *block, shared, stream or None, ctypes.addressof(attribute) if clustered else None, int(clustered)
        )
        self._kept = room, pointers, attribute, config, keep
        self.config, self.parameters = ctypes.addressof(config), ctypes.addressof(pointers)

    def launch(self, function: int) -> int:
        """Launch a kernel in the current context, and return the driver's status."""
        return int(_driver_launch()(self.config, function, self.parameters, None))


#: The most blocks of a cluster that every GPU with clusters runs.
_PORTABLE_CLUSTER = 8


def check_cluster(function: int, call: DriverCall, blocks: int, name: str, device: int) -> None:
    """Prepare a kernel for launches in clusters. A context of the GPU is current.

    Args:
        blocks: of a cluster.
        name: the kernel's name.

    Raises:
        DeviceError: the GPU cannot run such clusters.
    """
    capability = runtime.capability(device)
    if capability < (9, 0):
        raise DeviceError(
            f"{name} is launched in clusters of {blocks} blocks, which need compute capability 9.0 or newer; this GPU "
            f"has {capability[0]}.{capability[1]}"
        )
    if blocks <= _PORTABLE_CLUSTER:
        return
    driver.cuFuncSetAttribute(function, FunctionAttribute.NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
    most = runtime.call(driver.cuOccupancyMaxPotentialClusterSize, function, call.config)
    if most < blocks:
        raise DeviceError(
            f"{name} is launched in clusters of {blocks} blocks; with its threads, registers and shared memory this "
            f"GPU runs at most {most} blocks in a cluster. Every GPU that has clusters runs {_PORTABLE_CLUSTER} blocks "
            "that each fit a multiprocessor"
        )


@lru_cache(maxsize=1)
def _driver_launch() -> Any:
    pointer = ctypes.c_void_p
    return ctypes.CFUNCTYPE(ctypes.c_int, *[pointer] * 4)(driver.address("cuLaunchKernelEx"))


def number_bytes(dtype: str, number: Any) -> bytes:
    """Return a number of a dtype as the kernel reads it."""
    return struct.pack(f"<{_LETTERS[dtype]}", number)


def each_parameter(dtypes: Sequence[str], parameters: Sequence[Any]) -> list[tuple[str, Any]]:
    """Return the dtype and the entry of each parameter. A list holds the entries of a tuple's elements."""
    found: list[tuple[str, Any]] = []
    for dtype, each in zip(dtypes, parameters, strict=True):
        found += [(dtype, one) for one in each] if isinstance(each, list) else [(dtype, each)]
    return found


class TensorLauncher:
    """A kernel with its geometry, ready to be launched on arrays' addresses; an executable, like `launch.Launcher`."""

    backend = "kernel"
    algorithm = ""
    direct = True
    workspace_bytes = library_bytes = 0

    is_loaded = staticmethod(is_loaded)

    def __init__(self, order: TensorOrder):
        self.order = order
        self._function = load_function(order.kernel, order.device)
        self._calls: dict[Any, DriverCall] = {}
        parameters = order.kernel.parameters
        if parameters is None:
            from . import kernel_code

            parameters = kernel_code.parameters(order.kernel)
        self._dtypes = [name for name, _ in parameters]

    def launch(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Launch the kernel in the current context, and return the driver's status."""
        key = (stream, *addresses, *scalars)
        call = self._calls.get(key)
        if call is None:
            call = self._prepared(stream, addresses, scalars)
            if len(self._calls) >= _MOST:
                self._calls.clear()
            self._calls[key] = call
        return call.launch(self._function)

    launch_unchecked = launch

    def check(self, status: int) -> None:
        """Raise DriverError unless a launch's status is 0."""
        runtime.check_launch(status)

    def ready(self, addresses: Sequence[int]) -> None:
        """Do nothing: making the launcher has loaded the kernel."""

    def _prepared(self, stream: int, addresses: Sequence[int], scalars: Sequence[int]) -> DriverCall:
        order, arguments = self.order, []
        for dtype, each in each_parameter(self._dtypes, order.parameters):
            if isinstance(each, MapOf):
                arguments.append(tensor_maps.at_address(each.fields, addresses[each.array] + each.offset))
            elif isinstance(each, AddressOf):
                arguments.append(number_bytes(dtype, addresses[each.array] + each.offset))
            elif isinstance(each, Scalar):
                word = int(scalars[each.number]) % 2**64
                arguments.append(word.to_bytes(8, "little")[: struct.calcsize(_LETTERS[dtype])])
            else:
                arguments.append(number_bytes(dtype, each))
        return DriverCall(order.grid, order.block, order.cluster, order.shared, stream, arguments)
