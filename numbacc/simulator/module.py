"""The module `cuda` of a simulated kernel: Numba's, with the warp functions that Numba's simulator lacks."""

from __future__ import annotations

import sys
from functools import lru_cache
from threading import get_ident
from typing import Any

import numpy as np

from ..base._numba import FakeCUDAArray, cuda, simulator_api, simulator_kernel, types
from ..errors import UnsupportedError
from .blocks import WARP
from .frames import instruction_at

__all__ = ["ALL", "KernelArray", "KernelModule", "Shared"]

#: The mask of a whole warp.
ALL = 0xFFFFFFFF


@lru_cache(maxsize=256)
def numpy_dtype(dtype: Any) -> Any:
    """Return NumPy's dtype for a Numba type or a dtype."""
    return simulator_api.numpy_support.as_dtype(dtype) if isinstance(dtype, types.Type) else np.dtype(dtype)


class Shared(simulator_api.FakeCUDAShared):  # type: ignore[misc]
    """`cuda.shared`. Numba's version is slow: it finds its caller by reading the files of all callers."""

    def array(self, shape: Any, dtype: Any, alignment: int | None = None) -> Any:
        """Make an array, as Numba does. Shape 0 means the launch's dynamic memory."""
        if alignment is not None:
            return super().array(shape, dtype, alignment)
        key = dtype if shape == 0 else instruction_at(sys._getframe(1))
        found = self._allocations.get(key)
        if found is None:
            kind = numpy_dtype(dtype)
            found = super().array(0, kind) if shape == 0 else np.empty(shape, kind)
            self._allocations[key] = found
        return found


class _Local(simulator_api.FakeCUDALocal):  # type: ignore[misc]
    """`cuda.local`."""

    def array(self, shape: Any, dtype: Any, alignment: int | None = None) -> Any:
        return super().array(shape, numpy_dtype(dtype), alignment)


class KernelArray(simulator_kernel.FakeWithinKernelCUDAArray):  # type: ignore[misc]
    """An array inside a kernel: Numba's, with faster access to elements and lengths."""

    def __init__(self, item: Any):
        names = self.__dict__
        names["_item"], names["_view"] = item, item._ary

    def __getitem__(self, index: Any) -> Any:
        value = self._view[index]
        return KernelArray(FakeCUDAArray(value)) if type(value) in (np.ndarray, np.void) else value

    def __setitem__(self, index: Any, value: Any) -> None:
        self._view[index] = value

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        if name in ("shape", "size", "ndim", "dtype"):
            self.__dict__[name] = value
        return KernelArray(value._item) if type(value) is simulator_kernel.FakeWithinKernelCUDAArray else value


class Grid:
    """`cuda.cg.this_grid()`."""

    def __init__(self, module: KernelModule):
        self._module = module

    def sync(self) -> None:
        """Wait for all threads of the grid, which has one block."""
        blocks = tuple(self._module.gridDim)
        if blocks != (1, 1, 1):
            raise UnsupportedError(
                f"grid.sync() of a grid of {blocks} blocks: the simulator runs blocks one after the other. Launch one "
                "block, as the kernel's max_cooperative_grid_blocks says"
            )
        self._module.syncthreads()


class _Groups:
    """`cuda.cg`."""

    def __init__(self, module: KernelModule):
        self._module = module

    def this_grid(self) -> Grid:
        return Grid(self._module)


class KernelModule(simulator_api.FakeCUDAModule):  # type: ignore[misc]
    """The module `cuda` of a kernel. Each launch makes its own.

    A warp's threads wait for all of its threads that have not ended and do not wait for the whole block; masks are
    ignored. The semantics follow the CUDA C++ Programming Guide, "Warp Shuffle Functions", "Warp Vote Functions".

    Attributes:
        thread: the running thread; None before and after all of them.
        threadIdx, blockIdx: the thread's index, and its block's.
    """

    # Numba's properties look up the Python thread each time.
    threadIdx: Any = None
    blockIdx: Any = None

    def __init__(self, grid: Any, block: Any, dynamic_bytes: int):
        super().__init__(grid, block, dynamic_bytes)
        self._cg, self._ident = _Groups(self), get_ident()
        self._shared: Any = Shared(dynamic_bytes)
        self._local = _Local()
        self.thread: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if get_ident() != self._ident:
            # Another host thread uses `cuda` of the kernel's file, which is this module during the launch.
            return getattr(cuda, name)
        raise AttributeError(
            f"Numba's simulator has no cuda.{name}: it runs one thread after the other in Python, without "
            "intrinsics. Simulate a scalar form of the kernel, with x[i], shared memory and cuda.syncthreads() "
            f"in place of cuda.{name}; it shows the same indices"
        )

    @property
    def laneid(self) -> int:
        return int(self.thread.thread_id % WARP)

    def grid(self, n: int) -> Any:
        block, lengths, thread = self.blockIdx, self.blockDim, self.threadIdx
        x = block.x * lengths.x + thread.x
        if n == 1:
            return x
        if n == 2:
            return x, block.y * lengths.y + thread.y
        return super().grid(n)

    def syncthreads(self) -> None:
        self.thread.wait()

    def syncthreads_count(self, value: Any) -> int:
        return int(self.thread.vote(value)[0])

    def syncthreads_and(self, value: Any) -> int:
        yes, votes = self.thread.vote(value)
        return int(yes == votes)

    def syncthreads_or(self, value: Any) -> int:
        return int(self.thread.vote(value)[0] > 0)

    def syncwarp(self, mask: int = ALL) -> None:
        self.thread.meet()

    def nanosleep(self, nanoseconds: int) -> None:
        """Do nothing: threads run one after the other, so no thread waits for a clock."""

    def lanemask_lt(self) -> Any:
        return np.uint32((1 << self.laneid) - 1)

    def shfl_sync(self, mask: int, value: Any, src_lane: int) -> Any:
        return self._value_of(int(src_lane) % WARP, value)

    def shfl_up_sync(self, mask: int, value: Any, delta: int) -> Any:
        return self._value_of(self.laneid - int(delta), value)

    def shfl_down_sync(self, mask: int, value: Any, delta: int) -> Any:
        return self._value_of(self.laneid + int(delta), value)

    def shfl_xor_sync(self, mask: int, value: Any, lane_mask: int) -> Any:
        return self._value_of(self.laneid ^ int(lane_mask), value)

    def ballot_sync(self, mask: int, predicate: Any) -> Any:
        return _bits(lane for lane, each in self.thread.brought(predicate).items() if each)

    def all_sync(self, mask: int, predicate: Any) -> bool:
        return all(self.thread.brought(predicate).values())

    def any_sync(self, mask: int, predicate: Any) -> bool:
        return any(self.thread.brought(predicate).values())

    def eq_sync(self, mask: int, predicate: Any) -> bool:
        return len({bool(each) for each in self.thread.brought(predicate).values()}) == 1

    def match_any_sync(self, mask: int, value: Any) -> Any:
        return _bits(lane for lane, each in self.thread.brought(value).items() if each == value)

    def match_all_sync(self, mask: int, value: Any) -> Any:
        brought = self.thread.brought(value)
        alike = all(each == value for each in brought.values())
        return _bits(brought if alike else ()), alike

    def _value_of(self, lane: int, value: Any) -> Any:
        """Return the value of another lane; the thread's own value if the lane does not exist, as on a GPU."""
        found = self.thread.brought(value)
        if not 0 <= lane < WARP:
            return value
        return found[lane] if lane in found else _undefined(value)


def _undefined(value: Any) -> Any:
    """Return the value of a lane without a thread: all bits set, which is NaN for floats."""
    kind = np.asarray(value).dtype
    return np.full(kind.itemsize, 0xFF, np.uint8).view(kind)[0]


def _bits(lanes: Any) -> Any:
    return np.uint32(sum(1 << lane for lane in lanes))
