"""What `cuda` is inside of a simulated kernel: Numba's, with the functions of warps, which it lacks."""

from __future__ import annotations

import sys
from threading import get_ident
from typing import Any

import numpy as np

from ..base._numba import cuda, simulator_api, types
from ..errors import UnsupportedError
from .blocks import WARP, Thread
from .instructions import instruction_at

__all__ = ["KernelModule", "Shared"]

_ALL = 0xFFFFFFFF


class Shared(simulator_api.FakeCUDAShared):  # type: ignore[misc]
    """`cuda.shared`. Numba's finds its caller by reading the files of all callers."""

    def array(self, shape: Any, dtype: Any, alignment: int | None = None) -> Any:
        """As Numba's; of shape 0 it is the launch's dynamic memory."""
        if shape == 0 or alignment is not None:
            return super().array(shape, dtype, alignment)
        key = instruction_at(sys._getframe(1))
        found = self._allocations.get(key)
        if found is None:
            kind = simulator_api.numpy_support.as_dtype(dtype) if isinstance(dtype, types.Type) else dtype
            found = self._allocations[key] = np.empty(shape, kind)
        return found


class Grid:
    """`cuda.cg.this_grid()`."""

    def __init__(self, module: KernelModule):
        self._module = module

    def sync(self) -> None:
        """Wait for all threads: those of the block, which is the only one."""
        blocks = tuple(self._module.gridDim)
        if blocks != (1, 1, 1):
            raise UnsupportedError(
                f"grid.sync() of a grid of {blocks} blocks: the simulator runs one block after the other. Launch one "
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
    """What `cuda` is inside of a kernel. Each launch makes its own.

    A warp's threads wait for all of its threads that have not ended and do not wait for the whole block: masks are not
    looked at. Semantics are those of the CUDA C++ Programming Guide, "Warp Shuffle Functions", "Warp Vote Functions".

    Attributes:
        thread: the thread that runs; None before and after all of them.
        threadIdx, blockIdx: its index, and its block's.
    """

    # Numba's properties ask for the Python thread each time.
    threadIdx: Any = None
    blockIdx: Any = None

    def __init__(self, grid: Any, block: Any, dynamic_bytes: int):
        super().__init__(grid, block, dynamic_bytes)
        self._shared, self._cg, self._ident = Shared(dynamic_bytes), _Groups(self), get_ident()
        self.thread: Thread | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if get_ident() != self._ident:
            # Another thread of the host, while the kernel's file has this module in place of numba.cuda.
            return getattr(cuda, name)
        raise AttributeError(
            f"Numba's simulator has no cuda.{name}: it runs one thread after the other in Python, and knows no "
            "intrinsics. Simulate a scalar form of the kernel, with x[i], shared memory and cuda.syncthreads() "
            f"in place of cuda.{name}; it shows the same indices"
        )

    @property
    def laneid(self) -> int:
        return self._thread().thread_id % WARP

    def _thread(self) -> Thread:
        assert self.thread is not None
        return self.thread

    def grid(self, n: int) -> Any:
        block, lengths, thread = self.blockIdx, self.blockDim, self.threadIdx
        x = block.x * lengths.x + thread.x
        if n == 1:
            return x
        if n == 2:
            return x, block.y * lengths.y + thread.y
        return super().grid(n)

    def syncthreads(self) -> None:
        self.thread.syncthreads()  # type: ignore[union-attr]

    def syncthreads_count(self, value: Any) -> int:
        return self._thread().vote(value)[0]

    def syncthreads_and(self, value: Any) -> int:
        yes, votes = self._thread().vote(value)
        return int(yes == votes)

    def syncthreads_or(self, value: Any) -> int:
        return int(self._thread().vote(value)[0] > 0)

    def syncwarp(self, mask: int = _ALL) -> None:
        self._thread().syncwarp()

    def nanosleep(self, nanoseconds: int) -> None:
        """Nobody waits for anybody's clock here."""

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
        return _bits(lane for lane, each in self._thread().brought(predicate).items() if each)

    def all_sync(self, mask: int, predicate: Any) -> bool:
        return all(self._thread().brought(predicate).values())

    def any_sync(self, mask: int, predicate: Any) -> bool:
        return any(self._thread().brought(predicate).values())

    def eq_sync(self, mask: int, predicate: Any) -> bool:
        return len({bool(each) for each in self._thread().brought(predicate).values()}) == 1

    def match_any_sync(self, mask: int, value: Any) -> Any:
        return _bits(lane for lane, each in self._thread().brought(value).items() if each == value)

    def match_all_sync(self, mask: int, value: Any) -> Any:
        brought = self._thread().brought(value)
        alike = all(each == value for each in brought.values())
        return _bits(brought if alike else ()), alike

    def _value_of(self, lane: int, value: Any) -> Any:
        """The value that another lane brings; the thread's own where there is no such lane, as on a GPU."""
        found = self._thread().brought(value)
        if not 0 <= lane < WARP:
            return value
        return found[lane] if lane in found else _undefined(value)


def _undefined(value: Any) -> Any:
    """What a lane gives that no thread is in: all bits set, which is NaN of a float."""
    kind = np.asarray(value).dtype
    return np.full(kind.itemsize, 0xFF, np.uint8).view(kind)[0]


def _bits(lanes: Any) -> Any:
    return np.uint32(sum(1 << lane for lane in lanes))
