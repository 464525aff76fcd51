"""Run kernels with functions of `numbacc.device` in Python, thread by thread. The blocks of a cluster take turns."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..base import _numba
from ..base.casts import quiet
from ..base.layout import layout_of
from ..kernels.primitives.device import block_state
from ..kernels.primitives.simulated import memory as global_memory
from ..runtime import kernel_code, tensor_maps
from ..runtime.launch_order import AddressOf, MapOf, Scalar, TensorOrder
from . import calls
from .blocks import Block, indices
from .calls import Index, SimulatedLaunch, call_device_function, running
from .compiled.launches import device_observers
from .device import queued
from .frames import instruction_at
from .module import KernelModule, Shared, numpy_dtype

__all__ = ["DeviceLaunch", "MapArgument", "TensorLauncher", "run"]

block_state.running[:] = [running]
_numba.call_in_kernels(call_device_function, lambda: running() is not None)


class MapArgument:
    """A tensor map as a kernel sees it in the simulator.

    Attributes:
        array: the array in host memory; None if it is known by its address.
    """

    def __init__(self, fields: tensor_maps.MapFields, array: Any = None):
        self.fields, self.array = fields, array


class _SharedOfBlock(Shared):
    """`cuda.shared` of kernels with device functions: its arrays have addresses."""

    def array(self, shape: Any, dtype: Any, alignment: int | None = None) -> Any:
        state, kind = block_state.block(), numpy_dtype(dtype)
        if shape == 0:
            count = self._dynshared_size // kind.itemsize
            return state.array(block_state.SHARED_BASE, (count,), kind)
        key = instruction_at(sys._getframe(1))
        found = state.arrays.get(key)
        if found is None:
            found = state.arrays[key] = state.static_array(shape, kind, alignment or 16)
        return found


class DeviceLaunch(SimulatedLaunch):
    """One launch of a kernel in clusters of blocks.

    Args:
        cluster: blocks of a cluster along x, y and z.
    """

    def __init__(self, kernel: Any, cluster: Sequence[int] = (1, 1, 1)):
        super().__init__(kernel)
        self._cluster = tuple(cluster)
        self._held: dict[tuple[int, ...], list[Block]] = {}
        self._watchers = [begin(self) for begin in device_observers]

    def make_module(self, dynamic_bytes: int) -> KernelModule:
        made = super().make_module(dynamic_bytes)
        made._shared = _SharedOfBlock(dynamic_bytes)
        return made

    def run_block(self, index: Index, args: tuple[Any, ...]) -> None:
        """Run a block when all blocks of its cluster are there."""
        key = tuple(i // n for i, n in zip(index, self._cluster, strict=True))
        blocks = self._held.setdefault(key, [])
        blocks.append(self.make_block(index, partial(self.function, *args), indices(self.block)))
        if len(blocks) == prod(self._cluster):
            del self._held[key]
            self._run_cluster(blocks)

    def _run_cluster(self, blocks: list[Block]) -> None:
        block_state.modules.append(self.module)
        try:
            self._run_together(blocks)
        finally:
            block_state.modules.pop()

    def _run_together(self, blocks: list[Block]) -> None:
        threads = prod(self.block)
        states = [block_state.BlockState() for _ in blocks]
        together = block_state.Mbarrier(threads * len(blocks))
        for rank, (block, state) in enumerate(zip(blocks, states, strict=True)):
            state.join(states, rank, together)
            state.runner = block
            state.watcher = self._watchers[-1] if self._watchers else None
            block.device_state = state  # type: ignore[attr-defined]
        waiting = [block for block in blocks if self._goes_on(block, block.start())]
        while waiting:
            waiting = [block for block in waiting if self._step(block)]

    def _step(self, block: Block) -> bool:
        self.module.blockIdx = block.blockIdx
        return self._goes_on(block, block.step())

    def _goes_on(self, block: Block, waits: bool) -> bool:
        block.device_state.has_ended = not waits  # type: ignore[attr-defined]
        return waits


def run(
    function: Callable[..., Any],
    grid: Sequence[int],
    block: Sequence[int],
    cluster: Sequence[int],
    shared: int,
    args: Sequence[Any],
) -> DeviceLaunch:
    """Run a kernel in Python, and return its launch.

    Args:
        args: NumPy arrays, which the kernel works on in place, tensor maps, addresses and numbers.
    """
    kernel = SimpleNamespace(
        fn=function, grid_dim=tuple(grid), block_dim=tuple(block), dynshared_size=shared, extensions=(), _debug=False
    )
    launch = DeviceLaunch(kernel, cluster)
    given = [_numba.FakeCUDAArray(each) if isinstance(each, np.ndarray) else each for each in args]
    arrays = [each.array if isinstance(each, MapArgument) else each for each in args]
    with calls._alone, _known([each for each in arrays if isinstance(each, np.ndarray)]), quiet():
        launch.run(given)
    return launch


@contextmanager
def _known(arrays: Sequence[np.ndarray[Any, Any]]) -> Iterator[None]:
    """Let kernels access arrays by address for a while. Arrays that share memory count as one."""
    ranges: list[list[int]] = []
    for low, high in sorted(_extent(each) for each in arrays if each.size):
        if ranges and low < ranges[-1][1]:
            ranges[-1][1] = max(ranges[-1][1], high)
        elif not _is_known(low, high):
            ranges.append([low, high])
    for low, high in ranges:
        global_memory[low] = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
    try:
        yield
    finally:
        for low, _ in ranges:
            global_memory.pop(low, None)


def _extent(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Return the addresses before and after an array's bytes."""
    made = layout_of(array)
    return array.ctypes.data + made.low, array.ctypes.data + made.high


def _is_known(low: int, high: int) -> bool:
    try:
        start = global_memory.before(low)
    except IndexError:
        return False
    return high <= start + global_memory[start].nbytes


class TensorLauncher:
    """A kernel with its geometry, like `tensor_launch.TensorLauncher`; it runs in Python."""

    backend = "simulator"
    algorithm = ""
    direct = True
    workspace_bytes = library_bytes = 0

    @staticmethod
    def is_loaded(kernel: Any, device: int) -> bool:
        """Return True: there is nothing to compile."""
        return True

    def __init__(self, order: TensorOrder):
        self.order = order
        self._function = kernel_code.make(order.kernel)
        self._dtypes = [name for name, _ in kernel_code.parameters(order.kernel)]

    def launch(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Run the kernel, or record it if the stream is captured. Return 0."""
        order = self.order

        def argument(dtype: str, each: Any) -> Any:
            if isinstance(each, list):
                return tuple([argument(dtype, one) for one in each])
            if isinstance(each, MapOf):
                return MapArgument(each.fields._replace(address=addresses[each.array] + each.offset))
            if isinstance(each, AddressOf):
                return addresses[each.array] + each.offset
            if isinstance(each, Scalar):
                return np.array([int(scalars[each.number]) % 2**64], np.uint64).view(dtype)[0]
            return np.dtype(dtype).type(each)

        args = [argument(dtype, each) for dtype, each in zip(self._dtypes, order.parameters, strict=True)]
        queued(stream, lambda: run(self._function, order.grid, order.block, order.cluster, order.shared, args))
        return 0

    launch_unchecked = launch

    def check(self, status: int) -> None:
        """Do nothing: a launch fails by raising."""

    def ready(self, addresses: Sequence[int]) -> None:
        """Do nothing: there is nothing to compile."""
