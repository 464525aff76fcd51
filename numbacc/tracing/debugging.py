"""One thread of a kernel in the thread that launches it, where debuggers look. See docs/debugger.md."""

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

import numpy as np

from ..base._numba import simulator_api, simulator_kernel
from ..errors import OptionError
from ..simulator import threads
from .explaining import ExplainingModule, check_arguments, explaining

Index = tuple[int, ...]


class Leading:
    """Makes the Python thread that it is used in one of a block's threads, before all others of the block.

    Those run where it comes to a barrier, up to that barrier, and after its end.

    Args:
        manager: Numba's description of the block.
        block, thread: indices.
        work: what each of the others does.
    """

    def __init__(self, manager: Any, block: Any, thread: Index, work: Callable[[], Any]):
        others = (point for point in np.ndindex(*manager._block_dim) if point != thread)
        self._team, self._started, self._at_block = threads.Team(manager, block, work, others), False, False
        self._manager, self._block, self._thread = manager, block, thread

    def __enter__(self) -> None:
        me: Any = threading.current_thread()
        self._before = dict(vars(me))
        threads.become(me, self._manager, self._thread)
        me.blockIdx, me._manager, me.syncthreads = simulator_api.Dim3(*self._block), self._manager, self._barrier
        me.meet, me.syncwarp = self._meet, self._barrier_of_warp
        for name in ("syncthreads_count", "syncthreads_and", "syncthreads_or"):
            setattr(me, name, partial(getattr(simulator_kernel.BlockThread, name), me))

    def __exit__(self, kind: Any, *rest: Any) -> None:
        try:
            waits = kind is None and (self._started or self._team.start())
            while waits:
                waits = self._team.step()
        finally:
            self._team.abandon()
            me = vars(threading.current_thread())
            me.clear()
            me.update(self._before)

    def _meet(self) -> None:
        """Run the others up to their next barriers, of the block or of their warps."""
        if not self._started:
            self._team.start()
        elif self._at_block or self._team.at_warps():
            self._team.step()
        self._started, self._at_block = True, False

    def _barrier_of_warp(self) -> None:
        self._meet()
        threading.current_thread().warp_barriers += 1  # type: ignore[attr-defined]

    def _barrier(self) -> None:
        self._meet()
        while self._team.at_warps():
            self._team.step()
        self._at_block = True
        threading.current_thread().barriers += 1  # type: ignore[attr-defined]


class DebuggedBlocks(simulator_kernel.BlockManager):  # type: ignore[misc]
    """A block of a launch, one thread of which may be the one that is debugged."""

    _f: Callable[..., Any]
    in_caller = True
    thread: int | Index
    block: int | Index
    line: int | None

    def run(self, grid_point: Any, *args: Any) -> None:
        check_arguments(self._f, args)
        block = _index("block", self.block, self._grid_dim)
        thread = _index("thread", self.thread, self._block_dim)
        if self.line is not None:
            _check_line(self._f, self.line)
        if tuple(grid_point) != block:
            threads.run(self, grid_point, *args)
            return
        with explaining(), Leading(self, grid_point, thread, lambda: self._f(*args)):
            if self.line is None:
                self._f(*args)
            else:
                _stopping(self.line, self._f, args)


def _index(name: str, value: int | Index, lengths: Index) -> Index:
    """The index of a thread or block that is given as a number, x first, or as an index."""
    if isinstance(value, tuple):
        index = (*value, 0, 0)[:3]
    else:
        x, y, _ = lengths
        index = (value % x, value // x % y, value // (x * y))
    if not all(0 <= i < n for i, n in zip(index, lengths, strict=True)):
        raise OptionError(f"{name}={value}: the launch has {math.prod(lengths)} of them, {tuple(lengths)}")
    return index


def _check_line(kernel: Callable[..., Any], line: int) -> None:
    lines = {number for *_, number in kernel.__code__.co_lines() if number}
    if line not in lines - {min(lines)}:
        raise OptionError(
            f"line={line}: {kernel.__name__} has code in lines {', '.join(map(str, sorted(lines - {min(lines)})))} of "
            f"{kernel.__code__.co_filename}"
        )


def _stopping(line: int, kernel: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Call a kernel, and open the debugger where it comes to a line."""
    debugger, outer, ended = pdb.Pdb(nosigint=True), sys.gettrace(), []

    def called() -> None:
        kernel(*args)
        ended.append(True)

    refusal = debugger.set_break(kernel.__code__.co_filename, line)
    if refusal:  # there is no source, as of code given to exec
        raise OptionError(f"line={line}: {refusal}")
    debugger.rcLines += ["continue"]  # it stops at the first line, too
    try:
        debugger.runcall(called)
    finally:
        debugger.clear_all_breaks()
        sys.settrace(outer)
    if not ended:  # pdb has kept to itself that the user has seen enough
        raise BdbQuit


@contextmanager
def _breakpoints_of_one() -> Iterator[None]:
    """Inside, `breakpoint()` opens the debugger in the thread that enters, and does nothing in all others."""
    chosen, before = threading.current_thread(), sys.breakpointhook

    def hook(*args: Any, **options: Any) -> Any:
        if threading.current_thread() is not chosen:
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
    """Inside, one thread of each kernel runs in the thread that launches it."""
    options = {"thread": thread, "block": block, "line": line}
    before = simulator_kernel.FakeCUDAModule, simulator_kernel.BlockManager
    simulator_kernel.FakeCUDAModule = ExplainingModule
    simulator_kernel.BlockManager = type("Blocks", (DebuggedBlocks,), options)
    try:
        with _breakpoints_of_one():
            yield
    except BdbQuit:
        if line is None:  # of a debugger around all of the script
            raise
    finally:
        simulator_kernel.FakeCUDAModule, simulator_kernel.BlockManager = before
