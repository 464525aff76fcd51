"""Blocks of Numba's simulator, run by as few threads as wait for each other.

Numba starts a thread for each of a GPU's, and asks all of them again and again whether they wait: most of the time that
tests in the simulator took. Barriers and errors are as in its own `BlockManager`.
"""

from __future__ import annotations

import threading
from collections import deque

import numpy as np


def install(patch):
    """Let blocks be run so. `patch` sets attributes, as setattr."""
    from numba.cuda.simulator import kernel, kernelapi

    class Worker(kernel.BlockThread):
        """One thread of a block after the other, up to one that comes to a barrier: that one it is from then on.

        Args:
            work: what each thread does.
            manager, block: the block.
            points: an iterator of the threads that have not been run; workers share it.
        """

        def __init__(self, work, manager, block, points):
            super().__init__(work, manager, block, (0, 0, 0), manager._debug)
            self._points = points
            self._go, self._rests = threading.Semaphore(0), threading.Semaphore(0)

        def run(self):
            try:
                for point in self._points:
                    x, y, _ = self._manager._block_dim
                    self.threadIdx = kernelapi.Dim3(*point)
                    self.thread_id = point[0] + x * (point[1] + y * point[2])
                    self._target()
            except Exception as error:
                place = f"tid={list(self.threadIdx)} ctaid={list(self.blockIdx)}"
                made = type(error)(f"{place}: {error}" if str(error) else place)
                self.exception = (made, error.__traceback__)
            finally:
                del self._target
                self._rests.release()

        def is_waiting(self):
            """Whether it has come to a barrier, once it does nothing; raise what it raised."""
            self._rests.acquire()
            if self.exception:
                raise self.exception[0].with_traceback(self.exception[1])
            return self.syncthreads_blocked

        def go_on(self):
            """Let it leave its barrier."""
            self.syncthreads_blocked = False
            self._go.release()

        def syncthreads(self):
            self.syncthreads_blocked = True
            self._rests.release()
            self._go.acquire()
            if self.abort:
                raise RuntimeError("another thread of the block has failed")

    def run(self, grid_point, *args):
        points, waiting = np.ndindex(*self._block_dim), deque()

        def started():
            worker = Worker(lambda: self._f(*args), self, grid_point, points)
            worker.start()
            return worker

        try:
            # A worker that ends has left no thread to run.
            while (worker := started()).is_waiting():
                waiting.append(worker)
            while waiting:
                for _ in range(len(waiting)):
                    worker = waiting.popleft()
                    worker.go_on()
                    if worker.is_waiting():
                        waiting.append(worker)
        finally:
            for worker in waiting:
                worker.abort = True
                worker.go_on()

    patch(kernel.BlockManager, "run", run)
