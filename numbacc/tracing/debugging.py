"""Run one thread of a kernel in the thread that launched it, where debuggers stop (docs/debugger.md)."""

from __future__ import annotations

import math
import os
import pdb
import sys
import threading
from bdb import BdbQuit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from ..errors import OptionError
from ..simulator import calls
from ..simulator.blocks import Block, Thread, indices
from ..simulator.calls import Index
from ..simulator.frames import failed


class Leading(Thread):
    """A thread of a block that runs in the caller's stack, where debuggers stop.

    It runs before all other threads of the block. When it reaches a barrier, the others run up to that barrier. When it
    ends, they run to their ends.

    Args:
        block: the block, which holds the other threads.
        point: the thread's index and its number.
    """

    def __init__(self, block: Block, point: tuple[Any, int]):
        self.block, (self.threadIdx, self.thread_id) = block, point
        self._started, self._at_block = False, False
        self._of_others: BaseException | None = None

    def run(self, work: Callable[[], Any]) -> None:
        """Run the kernel in this thread, and then the other threads to their ends."""
        self._enter()
        error = self._error_of(work)
        if error is not None:
            raise error
        waits = self._started or self._others(self.block.start)
        while waits:
            waits = self._others(self.block.step)

    def _error_of(self, work: Callable[[], Any]) -> BaseException | None:
        try:
            work()
        except BaseException as error:
            return error if error is self._of_others else failed(error, self)
        return None

    def _enter(self) -> None:
        module = self.block.module
        module.blockIdx, module.threadIdx, module.thread = self.block.blockIdx, self.threadIdx, self

    def _others(self, run: Callable[[], bool]) -> bool:
        """Run the other threads up to their next barriers."""
        try:
            with _untraced():
                return run()
        except BaseException as error:
            self._of_others = error
            raise
        finally:
            self._enter()

    def wait(self) -> None:
        block = self.block
        if not self._started:
            self._others(block.start)
        elif self._at_block or block.at_warps > self.at_warp:
            self._others(block.step)
        self._started, self._at_block = True, False
        if not self.at_warp:
            while block.at_warps:
                self._others(block.step)
            self._at_block = True


class DebuggedLaunch(calls.SimulatedLaunch):
    """A launch in which debuggers can stop in one thread."""

    chosen_thread: int | Index
    chosen_block: int | Index
    line: int | None

    def begin(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self._in_block = _index("block", self.chosen_block, self.grid)
        self._in_thread = _index("thread", self.chosen_thread, self.block)
        if self.line is not None:
            _check_line(self.function, self.line)
        return args

    def run_block(self, index: Index, args: tuple[Any, ...]) -> None:
        if index != self._in_block:
            with _untraced():
                super().run_block(index, args)
            return
        points = indices(self.block)
        others = [point for point in points if tuple(point[0]) != self._in_thread]
        (chosen,) = (point for point in points if tuple(point[0]) == self._in_thread)
        work = partial(self.function, *args)
        leading = Leading(self.make_block(index, work, others), chosen)
        if self.line is None:
            leading.run(work)
        else:
            leading.run(partial(_stopping, self.line, self.function, args))


@contextmanager
def _untraced() -> Iterator[None]:
    """Hide everything that runs inside this context from debuggers."""
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)


def _index(name: str, value: int | Index, lengths: Index) -> Index:
    """Return the index of a thread or block, given as an index or as a number that counts along x first."""
    if isinstance(value, tuple):
        index = (*value, 0, 0)[:3]
    else:
        x, y, _ = lengths
        index = (value % x, value // x % y, value // (x * y))
    if not all(0 <= i < n for i, n in zip(index, lengths, strict=True)):
        raise OptionError(
            f"{name}={value}: it must be within the launch, which has {math.prod(lengths)} of them, {tuple(lengths)}"
        )
    return index


def _check_line(kernel: Callable[..., Any], line: int) -> None:
    lines = {number for *_, number in kernel.__code__.co_lines() if number}
    if line not in lines - {min(lines)}:
        raise OptionError(
            f"line={line}: {kernel.__name__} has code in lines {', '.join(map(str, sorted(lines - {min(lines)})))} of "
            f"{kernel.__code__.co_filename}"
        )


def _stopping(line: int, kernel: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Call a kernel, and open the debugger when it reaches a line."""
    debugger, outer, ended = pdb.Pdb(nosigint=True), sys.gettrace(), []

    def called() -> None:
        kernel(*args)
        ended.append(True)

    refusal = debugger.set_break(kernel.__code__.co_filename, line)
    if refusal:  # Python has no source, for example for code given to exec
        raise OptionError(f"line={line}: {refusal}")
    debugger.rcLines += ["continue"]  # pdb also stops at the first line
    try:
        debugger.runcall(called)
    finally:
        debugger.clear_all_breaks()
        sys.settrace(outer)
    if not ended:  # pdb hides that the user has quit
        raise BdbQuit


@contextmanager
def _breakpoints_of_one() -> Iterator[None]:
    """Let `breakpoint()` open the debugger in the chosen thread of a kernel only."""
    chosen, before = threading.current_thread(), sys.breakpointhook

    def hook(*args: Any, **options: Any) -> Any:
        running = calls.running()
        if threading.current_thread() is not chosen or not (running is None or isinstance(running, Leading)):
            return None
        if before is sys.__breakpointhook__ and "PYTHONBREAKPOINT" not in os.environ:
            return pdb.Pdb(nosigint=True).set_trace(sys._getframe(1))  # in the kernel, not here
        return before(*args, **options)

    sys.breakpointhook = hook
    try:
        yield
    finally:
        sys.breakpointhook = before


@contextmanager
def leading(thread: int | Index, block: int | Index, line: int | None) -> Iterator[None]:
    """Run one thread of each kernel inside this context in the thread that launches it."""
    options = {"chosen_thread": thread, "chosen_block": block, "line": line}
    try:
        with _breakpoints_of_one(), calls.launching_as(type("Way", (DebuggedLaunch,), options)):
            yield
    except BdbQuit:
        if line is None:  # a debugger that runs the whole script
            raise
