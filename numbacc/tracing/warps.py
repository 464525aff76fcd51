"""What the threads of a warp do together, which Numba's simulator lacks: barriers, shuffles and votes."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ..base._numba import simulator_api

_LANES = 32
_ALL = 0xFFFFFFFF


class ModuleWithWarps(simulator_api.FakeCUDAModule):  # type: ignore[misc]
    """What `cuda` is inside of a kernel, with the functions of warps.

    A warp's threads wait for all of its threads that have not ended and do not wait for the whole block: masks are not
    looked at. Semantics are those of the CUDA C++ Programming Guide, "Warp Shuffle Functions", "Warp Vote Functions".
    """

    def syncwarp(self, mask: int = _ALL) -> None:
        _worker().syncwarp()

    def nanosleep(self, nanoseconds: int) -> None:
        """Nobody waits for anybody's clock here."""

    def lanemask_lt(self) -> Any:
        return np.uint32((1 << _lane()) - 1)

    def shfl_sync(self, mask: int, value: Any, src_lane: int) -> Any:
        return _value_of(int(src_lane) % _LANES, value)

    def shfl_up_sync(self, mask: int, value: Any, delta: int) -> Any:
        return _value_of(_lane() - int(delta), value)

    def shfl_down_sync(self, mask: int, value: Any, delta: int) -> Any:
        return _value_of(_lane() + int(delta), value)

    def shfl_xor_sync(self, mask: int, value: Any, lane_mask: int) -> Any:
        return _value_of(_lane() ^ int(lane_mask), value)

    def ballot_sync(self, mask: int, predicate: Any) -> Any:
        return _bits(lane for lane, each in _brought(predicate).items() if each)

    def all_sync(self, mask: int, predicate: Any) -> bool:
        return all(_brought(predicate).values())

    def any_sync(self, mask: int, predicate: Any) -> bool:
        return any(_brought(predicate).values())

    def eq_sync(self, mask: int, predicate: Any) -> bool:
        return len({bool(each) for each in _brought(predicate).values()}) == 1

    def match_any_sync(self, mask: int, value: Any) -> Any:
        return _bits(lane for lane, each in _brought(value).items() if each == value)

    def match_all_sync(self, mask: int, value: Any) -> Any:
        brought = _brought(value)
        alike = all(each == value for each in brought.values())
        return _bits(brought if alike else ()), alike


def _worker() -> Any:
    return threading.current_thread()


def _lane() -> int:
    return int(_worker().thread_id) % _LANES


def _brought(value: Any) -> dict[int, Any]:
    """What the warp's threads bring to where all of them meet, by lane."""
    worker, lane = _worker(), _lane()
    board = vars(worker._manager).setdefault("warps", {}).setdefault(worker.thread_id // _LANES, {})
    board[lane] = value
    worker.meet()
    found = dict(board)
    worker.meet()  # all have looked
    del board[lane]
    return found


def _value_of(lane: int, value: Any) -> Any:
    """The value that another lane brings; the thread's own where there is no such lane, as on a GPU."""
    found = _brought(value)
    if not 0 <= lane < _LANES:
        return value
    return found[lane] if lane in found else _undefined(value)


def _undefined(value: Any) -> Any:
    """What a lane gives that no thread is in: all bits set, which is NaN of a float."""
    kind = np.asarray(value).dtype
    return np.full(kind.itemsize, 0xFF, np.uint8).view(kind)[0]


def _bits(lanes: Any) -> Any:
    return np.uint32(sum(1 << lane for lane in lanes))
