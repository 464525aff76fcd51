"""Run the blocks of a kernel in Numba's simulator. A block's threads are greenlets of one operating system thread.

Numba's own scheduler starts a Python thread for each thread of the kernel and polls all of them, which takes most of a
launch's time. Here one thread runs until it reaches a barrier, and then the next one runs. Threads that have ended do
not count at barriers, as in Numba's simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from functools import lru_cache, partial
from typing import Any

from greenlet import getcurrent, greenlet

from ..base._numba import simulator_api
from .frames import failed

__all__ = ["WARP", "Block", "Runners", "Thread", "ThreadRunner", "indices"]

WARP = 32
_ATTEMPTS = 100


class Thread:
    """A thread of a block that can wait for the others.

    Attributes:
        block: the block.
        threadIdx, thread_id: its index, and its number, counted along x first.
        at_warp: whether it waits only for its warp.
    """

    block: Block
    threadIdx: Any = None
    thread_id = 0
    at_warp = False

    #: Wait at a barrier: let the other threads of the block run up to it.
    wait: Callable[[], Any]

    def meet(self) -> None:
        """Wait for the threads of the warp, which exchange values here."""
        self.at_warp = True
        self.block.at_warps += 1
        self.wait()
        self.block.at_warps -= 1
        self.at_warp = False

    def vote(self, value: Any) -> tuple[int, int]:
        """Wait for the block; return how many threads have voted yes, and how many have voted."""
        block = self.block
        block.votes[self.thread_id] = bool(value)
        self.wait()
        counted = block.counted = block.counted or (sum(block.votes.values()), len(block.votes))
        self.wait()  # all threads have read the votes
        block.counted = None
        del block.votes[self.thread_id]
        return counted

    def brought(self, value: Any) -> dict[int, Any]:
        """Exchange a value with the threads of the warp; return all values by lane."""
        warp, lane = divmod(self.thread_id, WARP)
        board = self.block.boards.setdefault(warp, {})
        board[lane] = value
        self.meet()
        found = dict(board)
        self.meet()  # all threads have read the values
        del board[lane]
        return found


class ThreadRunner(greenlet, Thread):  # type: ignore[misc]
    """A greenlet that runs a block's threads one after the other; the first that reaches a barrier stays in it.

    Attributes:
        error: the exception that the thread raised, if any.
    """

    def __init__(self, runners: Runners):
        super().__init__()
        self._runners, self._to_launch = runners, getcurrent().switch
        self.wait = partial(self._to_launch, True)
        self.error: BaseException | None = None
        self.gr_context = copy_context()  # the context includes NumPy's errstate

    def begin(self, block: Block, work: Callable[[], Any], points: Iterator[tuple[Any, int]]) -> None:
        """Begin a block. `points` yields the threads that have not run yet; each of them calls `work`."""
        self.block, self._module, self._work, self._points = block, block.module, work, points

    def run(self) -> None:
        runners = self._runners
        while not runners.ended:
            module, work, points = self._module, self._work, self._points
            try:
                for self.threadIdx, self.thread_id in points:
                    module.threadIdx = self.threadIdx
                    work()
            except BaseException as error:
                if not runners.ended:
                    self.error = error
            self._to_launch(False)

    def rest(self) -> None:
        """Become idle after a block, and raise the exception of its last thread."""
        if self.error is not None:
            raise failed(self.error, self)
        self._runners.idle.append(self)


class Runners:
    """The greenlets of a launch. Blocks reuse them, and they end with the launch."""

    def __init__(self, make: Callable[[Runners], ThreadRunner] = ThreadRunner):
        self.ended, self.idle = False, list[ThreadRunner]()
        self._make, self._all = make, list[ThreadRunner]()

    def one(self) -> ThreadRunner:
        """Return an idle runner."""
        if self.idle:
            return self.idle.pop()
        self._all.append(made := self._make(self))
        return made

    def end(self) -> None:
        """End all greenlets, including those that wait at a barrier."""
        self.ended = True
        for runner in self.idle:
            runner.switch()
        for runner in self._all:
            for _ in range(_ATTEMPTS):  # one may reach another barrier while it ends
                if not runner.dead:
                    runner.throw()


class Block:
    """The threads of a block.

    Args:
        module: the kernel's `cuda` module.
        runners: the launch's greenlets.
        index: the block's index in the grid.
        work: the function that each thread calls.
        points: (index, number) of the threads to run, in order.

    Attributes:
        number: the block's number in the grid, counted along x first.
        at_warps: how many threads wait only for their warps.
        barriers: how many barriers of the whole block have been passed.
        boards: warp -> lane -> the value that it exchanges.
        votes, counted: each thread's vote; then how many threads voted yes, and how many voted, until all have read
            both.
    """

    def __init__(
        self, module: Any, runners: Runners, index: tuple[int, ...], work: Callable[[], Any],
        points: Iterable[tuple[Any, int]],
    ):  # fmt: skip
        x, y, z = index
        self.module, self.blockIdx = module, simulator_api.Dim3(x, y, z)
        self.number = x + module.gridDim.x * (y + module.gridDim.y * z)
        self.at_warps = self.barriers = 0
        self.boards: dict[int, dict[int, Any]] = {}
        self.votes: dict[int, bool] = {}
        self.counted: tuple[int, int] | None = None
        self._runners, self._work, self._points = runners, work, iter(points)
        self._waiting: list[ThreadRunner] = []

    @property
    def waiting(self) -> list[ThreadRunner]:
        """The threads that wait at a barrier, of the block or of their warps."""
        return self._waiting

    def run(self) -> None:
        """Run all threads to their ends."""
        waits = self.start()
        while waits:
            waits = self.step()

    def start(self) -> bool:
        """Run all threads up to their first barriers. Return whether any of them waits there."""
        module = self.module
        module.blockIdx = self.blockIdx
        while True:
            runner = module.thread = self._runners.one()
            runner.begin(self, self._work, self._points)
            if not runner.switch():
                runner.rest()
                return bool(self._waiting)  # this one had no thread left to run
            self._waiting.append(runner)

    def step(self) -> bool:
        """Run the waiting threads up to their next barriers. Return whether any of them waits there.

        Threads at barriers of their warps go first. When none of them is left, all others have reached the block's
        barrier.
        """
        module, going, ended = self.module, self._waiting, set()
        if self.at_warps:
            going = [runner for runner in going if runner.at_warp]
        else:
            self.barriers += 1
        for runner in going:
            module.threadIdx = runner.threadIdx
            module.thread = runner
            if not runner.switch():
                runner.rest()
                ended.add(runner)
        if ended:
            self._waiting = [runner for runner in self._waiting if runner not in ended]
        return bool(self._waiting)


@lru_cache(maxsize=32)
def indices(lengths: tuple[int, int, int]) -> list[tuple[Any, int]]:
    """Return (index, number) of all threads of a block, counted along x first."""
    x, y, z = map(range, lengths)
    return [(simulator_api.Dim3(i, j, k), i + len(x) * (j + len(y) * k)) for k in z for j in y for i in x]
