"""Blocks of Numba's simulator, run by as few threads as wait for each other.

Numba starts a thread for each of a GPU's, and asks all of them again and again whether they wait: most of the time that
a kernel takes in the simulator. Barriers and errors are as in its own `BlockManager`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any

import numpy as np

from ..base._numba import simulator_api, simulator_kernel
from . import interrupts


class Worker(simulator_kernel.BlockThread):  # type: ignore[misc]
    """One thread of a block after the other, up to one that comes to a barrier: that one it is from then on.

    Args:
        work: what each thread does.
        manager, block: the block.
        points: an iterator of the threads that have not been run; workers share it.

    Attributes:
        barriers, warp_barriers: how many the thread that it is has passed, of its block and of its warp alone.
        at_warp: whether it waits for its warp alone.
    """

    def __init__(self, work: Callable[[], Any], manager: Any, block: Any, points: Iterator[tuple[int, ...]]):
        super().__init__(work, manager, block, (0, 0, 0), manager._debug)
        self._points, self.barriers, self.warp_barriers, self.at_warp = points, 0, 0, False
        self._context = copy_context()  # NumPy's errstate is in it
        self._go, self._rests = threading.Semaphore(0), threading.Semaphore(0)

    def run(self) -> None:
        self._context.run(self._run)

    def _run(self) -> None:
        try:
            for point in self._points:
                if self.abort:
                    break
                become(self, self._manager, point)
                self._target()
        except Exception as error:
            self.exception = (placed(error, self), error.__traceback__)
        except interrupts.Interrupted as error:
            self.exception = (error, error.__traceback__)  # type: ignore[assignment]
        finally:
            del self._target
            self._rests.release()

    def is_waiting(self) -> bool:
        """Whether it has come to a barrier, once it does nothing; raise what it raised."""
        while not self._rests.acquire(timeout=interrupts.PATIENCE):
            if not self.is_alive():
                break
            interrupts.urge(self)  # a kernel may neither end nor come to a barrier
        if self.exception:
            raise self.exception[0].with_traceback(self.exception[1])
        return bool(self.syncthreads_blocked)

    def go_on(self) -> None:
        """Let it leave its barrier."""
        self.syncthreads_blocked = False
        self._go.release()

    def _wait(self) -> None:
        self.syncthreads_blocked = True
        self._rests.release()
        self._go.acquire()
        if self.abort:
            raise RuntimeError("another thread of the block has failed")

    def syncthreads(self) -> None:
        self._wait()
        self.barriers += 1

    def meet(self) -> None:
        """Wait for the threads of the warp, where they exchange values."""
        self.at_warp = True
        self._wait()
        self.at_warp = False

    def syncwarp(self) -> None:
        """As `meet`, and what was written before is seen behind."""
        self.meet()
        self.warp_barriers += 1


def become(worker: Any, manager: Any, point: tuple[int, ...]) -> None:
    """Make a thread of Python's the thread `point` of a block.

    Raises:
        Interrupted: the launch was interrupted.
    """
    interrupts.check()
    x, y, _ = manager._block_dim
    worker.threadIdx = simulator_api.Dim3(*point)
    worker.thread_id = point[0] + x * (point[1] + y * point[2])
    worker.barriers = worker.warp_barriers = 0


def placed(error: Exception, worker: Any) -> Exception:
    """The same error, with the thread and block in front."""
    place = f"tid={list(worker.threadIdx)} ctaid={list(worker.blockIdx)}"
    try:
        made: Exception = type(error)(f"{place}: {error}" if str(error) else place)
    except Exception:  # its class wants other arguments
        made = RuntimeError(f"{place}: {type(error).__name__}: {error}")
    return made


class Team:
    """The workers of a block.

    Args:
        manager: Numba's description of the block.
        block: its index in the grid.
        work: what each thread does.
        points: the threads to run.
    """

    def __init__(self, manager: Any, block: Any, work: Callable[[], Any], points: Iterator[tuple[int, ...]]):
        self._make = lambda: Worker(work, manager, block, points)
        self._waiting: list[Worker] = []
        self._running: Worker | None = None

    def start(self) -> bool:
        """Run all threads up to their first barriers; whether any waits there."""
        while self._ran(worker := self._started()):
            self._waiting.append(worker)
        return bool(self._waiting)  # a worker that ended has left no thread to run

    def _started(self) -> Worker:
        interrupts.check()
        worker = self._running = self._make()
        worker.start()
        return worker

    def _ran(self, worker: Worker) -> bool:
        """Wait until a worker rests; return whether it waits at a barrier."""
        waits = worker.is_waiting()
        interrupts.check()
        self._running = None
        return waits

    def step(self) -> bool:
        """Run those that wait up to their next barriers; whether any waits there. Those at barriers of their warps go
        first, alone: when none is left, all others have come to the block's.
        """
        going = {worker for worker in self._waiting if worker.at_warp} or {*self._waiting}
        self._waiting = [worker for worker in self._waiting if worker not in going or self._goes_on(worker)]
        return bool(self._waiting)

    def _goes_on(self, worker: Worker) -> bool:
        """Let a worker go on up to its next barrier; whether it waits there."""
        self._running = worker
        worker.go_on()
        return self._ran(worker)

    def at_warps(self) -> bool:
        """Whether any waits for its warp alone."""
        return any(worker.at_warp for worker in self._waiting)

    def abandon(self) -> None:
        """End the threads that wait, and the one that runs where the caller was interrupted."""
        left, running = self._waiting, self._running
        self._waiting, self._running = [], None
        if running is not None and running.is_alive():
            left = [running, *left]
        for worker in left:
            worker.abort = True
            worker.go_on()  # for its present barrier, or the next
        for worker in left:
            interrupts.end(worker)


def run(manager: Any, block: Any, *args: Any) -> None:
    """Run a block: `BlockManager.run`, with its arguments."""
    team = Team(manager, block, lambda: manager._f(*args), np.ndindex(*manager._block_dim))
    try:
        waits = team.start()
        while waits:
            waits = team.step()
    finally:
        team.abandon()
