"""One result of all rows, in the kernel that makes something of each: the mean of losses.

Each block brings together what its rows add, and tells it (see `look_back`); nothing of it is waited for. One more
block has no rows: it adds up what the others tell, in the order of their numbers, while they work, so that little is
left to do when the last has ended. It leaves words as it found them, 0, for the next launch. Only that block waits, so
that the others always find room; it begins first, but in Numba's simulator, where a block begins when the one before
has ended, it is the last.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ...base._numba import SIMULATED, cuda
from ..primitives.block_reduce import CELLS, settling_warps
from ..scan.decoupled_look_back import telling
from .spec import RowSpec
from .stages import reduction_of

#: Words that a thread of the adding block has asked for at once.
_AHEAD = 4


def _hearing(stage: SimpleNamespace, told: SimpleNamespace, many: int) -> Callable[..., Any]:
    """The device function (words, blocks, block, step) -> the parts of `many` blocks from that one on, `step` apart,
    merged; all are asked for before the first is waited for, and cleared when they are there."""
    ask, wait, clear, join, merge = told.ask, told.wait, told.clear, stage.join, stage.merge

    def hear(words, blocks, block, step):
        parts = wait(words, 0, blocks, block, ask(words, 0, blocks, block))
        clear(words, 0, blocks, block)
        return parts

    if many == 1:
        jitted: Callable[..., Any] = cuda.jit(device=True)(hear)
        return jitted
    others = _hearing(stage, told, many - 1)

    def hear_all(words, blocks, block, step):
        asked = ask(words, 0, blocks, block)
        behind = others(words, blocks, block + step, step)
        parts = wait(words, 0, blocks, block, asked)
        clear(words, 0, blocks, block)
        return join(merge, parts, behind)

    all_jitted: Callable[..., Any] = cuda.jit(device=True)(hear_all)
    return all_jitted


def adding(spec: RowSpec, note: Any) -> SimpleNamespace:
    """The device functions of kernels with a `RowSpec.total`, and of those without, where they do nothing.

    Returns:
        a namespace of
        ``cells``, ``parts``: cells that threads bring parts together in, and how many a row and block have of these;
        ``is_adding()``: whether this block is the one that adds;
        ``block()``: the number of another;
        ``nothing()``, ``of_row(results, known, more)``: the parts of no row, and of one of which the formula makes
        these results; of what it knows the last is the index;
        ``tell(outs, cells, thread, parts)``: those of a block's threads together;
        ``add(outs, at, cells, thread, rows, more)``: the result of all rows.
    """
    if spec.total is None:
        return SimpleNamespace(
            cells=0, parts=0, is_adding=_never, block=_block, nothing=none, of_row=none, tell=_nothing, add=_nothing
        )
    stage, place = reduction_of(spec, spec.total), len(spec.formula.stages) * CELLS
    told, settle = telling(stage, 1), settling_warps(stage, spec.warps)
    nothing, of_numbers, first, finish, done = stage.start(1), stage.function, stage.first, stage.finish, stage.done
    hear, hear_one, ahead = _hearing(stage, told, _AHEAD), _hearing(stage, told, 1), _AHEAD
    join, merge, tell_parts, own_block = stage.join, stage.merge, told.tell, _block_behind
    is_last = SIMULATED

    def is_adding():
        return cuda.blockIdx.x == (cuda.gridDim.x - 1 if is_last else 0)

    def of_row(results, known, more):
        return first(of_numbers, ((results[0],), (known[-1],)), more)

    def tell(outs, cells, thread, parts):
        parts = settle(parts, cells, place, thread, thread, cuda.blockDim.x * cuda.blockDim.y)
        if thread == 0:
            tell_parts(outs[-1], 0, cuda.gridDim.x - 1, own_block(), parts)

    def add(outs, at, cells, thread, rows, more):
        words, blocks, threads = outs[-1], cuda.gridDim.x - 1, cuda.blockDim.x * cuda.blockDim.y
        parts, block = nothing(), thread
        while block + (ahead - 1) * threads < blocks:
            parts = join(merge, parts, hear(words, blocks, block, threads))
            block += ahead * threads
        while block < blocks:
            parts = join(merge, parts, hear_one(words, blocks, block, threads))
            block += threads
        parts = settle(parts, cells, place, thread, thread, threads)
        if thread == 0:
            note(outs, at, finish(done, parts, rows, more))

    is_adding, of_row, tell, add = (cuda.jit(device=True)(each) for each in (is_adding, of_row, tell, add))
    return SimpleNamespace(
        cells=CELLS,
        parts=len(spec.total.start),
        is_adding=is_adding,
        block=own_block,
        nothing=nothing,
        of_row=of_row,
        tell=tell,
        add=add,
    )


@cuda.jit(device=True)
def _never():
    return False


@cuda.jit(device=True)
def _nothing(*ignored):
    pass


@cuda.jit(device=True)
def none(*ignored):
    """No parts: nothing is brought together."""
    return ()


@cuda.jit(device=True)
def _block():
    return cuda.blockIdx.x


_before = 0 if SIMULATED else 1


@cuda.jit(device=True)
def _block_behind():
    return cuda.blockIdx.x - _before
