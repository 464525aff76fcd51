"""Launches under a trace: replace the simulator's blocks, shared memory and `cuda` module."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from ..base._numba import DeviceNDArray, simulator_api, simulator_kernel
from ..errors import UnsupportedError
from ..kernels.primitives import simulated
from ..simulator import calls
from ..simulator.blocks import indices
from ..simulator.frames import instruction_at
from ..simulator.module import ALL, KernelModule
from .arrays import TracedArray, TracedAtomics
from .compile_errors import sample
from .recording import GLOBAL, READ, SHARED, WRITE, RecordedLaunch, Recorder, assigned_name

#: Arrays in shared memory start at these multiples, so that element 0 of each lies in bank 0.
_SHARED_ALIGNMENT = 128
#: The largest number of threads in a block (CUDA C++ Programming Guide, "Technical Specifications per Compute
#: Capability").
_MOST_THREADS = 1024


class TracedShared:
    """`cuda.shared`: each block gets new memory filled with NaN, so that a read before the first write shows."""

    def __init__(self, recorder: Recorder, nbytes: int):
        self._recorder, self._dynamic_bytes = recorder, nbytes
        self._arrays: dict[Any, TracedArray] = {}
        self._numbers: dict[Any, tuple[int, int]] = {}
        self._end = 0

    def array(self, shape: Any, dtype: Any, alignment: int | None = None) -> TracedArray:
        """Make an array, as Numba's `cuda.shared.array` does. Shape 0 means the launch's dynamic memory."""
        frame, block = sys._getframe(1), self._recorder.thread().block.number
        key = "dynamic" if shape == 0 else instruction_at(frame)
        found = self._arrays.get((block, key))
        kind = simulator_api.FakeCUDALocal().array(0, dtype).dtype
        if found is None:
            count = self._dynamic_bytes // kind.itemsize if shape == 0 else math.prod(_tuple(shape))
            lengths = (count,) if shape == 0 else _tuple(shape)
            view = np.empty(lengths, kind)
            if not kind.hasobject:  # replacements of intrinsics may store tuples
                view.reshape(-1).view(np.uint8)[...] = 0xFF
            # The array has the same address in all blocks, but each block has separate memory.
            if key not in self._numbers:
                number = self._recorder.named(assigned_name(frame), SHARED, self._end, view)
                self._numbers[key] = number, self._end
                self._end += -(-max(view.nbytes, 1) // _SHARED_ALIGNMENT) * _SHARED_ALIGNMENT
            found = self._arrays[block, key] = TracedArray(self._recorder, view, *self._numbers[key], tuple)
        return found if found.dtype == kind else found.view(kind)


class TracedModule(KernelModule):
    """The module `cuda` inside a kernel. The simulator makes it at each launch."""

    def __init__(self, recorder: Recorder, max_threads: int, grid: Any, block: Any, dynamic_bytes: int):
        count = math.prod(grid) * math.prod(block)
        if count > max_threads:
            raise UnsupportedError(
                f"a launch of {math.prod(grid):,} blocks of {math.prod(block):,} threads is too large to trace: the "
                f"{count:,} threads run one after the other in Python, about 10,000 a second, and the limit is "
                f"{max_threads:,}. Launch the kernel on a smaller array, which shows the same pattern, or give "
                "numbacc.trace a larger max_threads"
            )
        if math.prod(block) > _MOST_THREADS:
            raise UnsupportedError(
                f"a block of {math.prod(block):,} threads is too large: a GPU allows at most {_MOST_THREADS:,}. "
                "Launch more blocks of fewer threads"
            )
        super().__init__(grid, block, dynamic_bytes)
        self._recorder, recorder.module = recorder, self
        self._shared = TracedShared(recorder, dynamic_bytes)
        self._atomic = TracedAtomics(simulator_api.FakeCUDAAtomic())
        recorder.launches.append(RecordedLaunch("", tuple(grid), tuple(block)))

    def syncthreads(self) -> None:
        self._recorder.barrier(sys._getframe(1))
        super().syncthreads()
        self.thread.barriers += 1

    def syncthreads_count(self, value: Any) -> Any:
        self._recorder.barrier(sys._getframe(1))
        return self._passed(super().syncthreads_count(value))

    def syncthreads_and(self, value: Any) -> Any:
        self._recorder.barrier(sys._getframe(1))
        return self._passed(super().syncthreads_and(value))

    def syncthreads_or(self, value: Any) -> Any:
        self._recorder.barrier(sys._getframe(1))
        return self._passed(super().syncthreads_or(value))

    def syncwarp(self, mask: int = ALL) -> None:
        super().syncwarp(mask)
        self.thread.warp_barriers += 1

    def _passed(self, result: Any) -> Any:
        """Return the result of a voting barrier."""
        self.thread.barriers += 1
        return result


class TracedLaunch(calls.SimulatedLaunch):
    """A launch that records its accesses."""

    recorder: Recorder
    max_threads: int

    def make_module(self, dynamic_bytes: int) -> KernelModule:
        return TracedModule(self.recorder, self.max_threads, self.grid, self.block, dynamic_bytes)

    def begin(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        recorder, kernel = self.recorder, self.function
        recorder.launches[-1] = recorder.launches[-1]._replace(kernel=kernel.__name__)
        recorder.code = kernel.__code__
        return _traced_arguments(recorder, kernel, args)

    def run_block(self, index: calls.Index, args: tuple[Any, ...]) -> None:
        recorder, work = self.recorder, partial(self.function, *args)

        def thread() -> None:
            recorder.begin_thread()
            work()

        self.make_block(index, thread, indices(self.block)).run()


def _traced_arguments(recorder: Recorder, kernel: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arrays that record accesses to them, instead of the simulator's arrays."""
    parameters = inspect.signature(kernel).parameters.values()
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{k}]" for k in range(len(args) - len(names))]
        else:
            names.append(parameter.name)
    traced = tuple(_traced(recorder, name, arg) for name, arg in zip(names, args, strict=False))  # some have defaults
    recorder.kernels.append((kernel, tuple(_sample(each) for each in traced)))
    return traced


def _sample(arg: Any) -> Any:
    """Return a small argument of the same type for the compiler."""
    if isinstance(arg, tuple):
        return type(arg)(*map(_sample, arg)) if hasattr(arg, "_fields") else tuple(map(_sample, arg))
    return sample(arg._view) if isinstance(arg, TracedArray) else arg


def _traced(recorder: Recorder, name: str, arg: Any) -> Any:
    if isinstance(arg, tuple):
        return type(arg)(_traced(recorder, f"{name}[{k}]", each) for k, each in enumerate(arg))
    if isinstance(arg, (int, np.integer)) and not isinstance(arg, bool):
        start = _allocation_at(int(arg))
        if start is not None:  # an address, which numbacc's own kernels get
            memory = simulated.memory[start]
            recorder.named(name, GLOBAL, recorder.allocation(start, memory.nbytes, None) + int(arg) - start, memory)
        return arg
    fake = arg._item if isinstance(arg, simulator_kernel.FakeWithinKernelCUDAArray) else arg
    if isinstance(fake, np.ndarray):  # a 0-d array: the simulator passes it unchanged
        view, shapes = fake, tuple
    elif isinstance(fake, DeviceNDArray) and isinstance(fake._ary, np.ndarray):
        view, shapes = fake._ary, type(fake.shape)
    else:
        return arg
    address = int(view.__array_interface__["data"][0])
    start, nbytes, owner = _memory_of(view, address)
    start_of_view = recorder.allocation(start, nbytes, owner) + address - start
    number = recorder.named(name, GLOBAL, start_of_view, view)
    return TracedArray(recorder, view, number, start_of_view, shapes)


def _memory_of(view: np.ndarray[Any, Any], address: int) -> tuple[int, int, Any]:
    """Return (start, bytes, owner) of the allocation that holds a view."""
    start = _allocation_at(address)
    if start is not None:
        return start, simulated.memory[start].nbytes, None
    root = view
    while isinstance(root.base, np.ndarray):
        root = root.base
    return int(root.__array_interface__["data"][0]), root.nbytes, root


def _allocation_at(address: int) -> int | None:
    """Return the start of numbacc's allocation that holds an address; None if it lies in none of them."""
    for start, memory in list(simulated.memory.items()):
        if start <= address < start + max(memory.nbytes, 1):
            return start
    return None


def _tuple(shape: Any) -> tuple[int, ...]:
    return tuple(shape) if isinstance(shape, (tuple, list)) else (int(shape),)


@contextmanager
def watching(recorder: Recorder, max_threads: int) -> Iterator[None]:
    """Record the kernels that the simulator runs inside this context."""

    def touched(operand: int, address: int, nbytes: int, written: bool) -> None:
        """Record an access by one of numbacc's own kernels, which get addresses instead of arrays."""
        start = _allocation_at(address)
        if start is not None:
            base = recorder.allocation(start, simulated.memory[start].nbytes, None) - start
            number = recorder.operand(base + operand, written)
            recorder.seen(number, base + address, nbytes, WRITE if written else READ, sys._getframe(2))

    way = type("Way", (TracedLaunch,), {"recorder": recorder, "max_threads": max_threads})
    before, simulated.watcher = simulated.watcher, touched
    try:
        with calls.launching_as(way):
            yield
    finally:
        simulated.watcher = before
