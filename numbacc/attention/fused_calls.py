"""Calls of cuDNN's fused kernels: which graph, in how many slices, and whether it can apply dropout."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..base.codes import MANY_ARRAYS
from ..base.dispatch import graph_library
from ..errors import UnsupportedError
from ..libraries.cudnn_graph import CudnnGraph, Wants
from ..runtime.steps import Step, Steps, WithScratch
from . import biases, splitting, versions
from .fused import Drawn
from .fusing import Fused
from .problem import OPERANDS, AttentionCall, AttentionProblem, resolve
from .staging import dense


def drawing(problem: AttentionProblem) -> Drawn:
    """Return the graph of a problem with aligned arrays.

    Raises:
        UnsupportedError: as `_drawn`.
    """
    return _drawn(Fused(problem, (0,) * (len(problem.inputs) + len(problem.outputs))))[0]


def _drawn(fused: Fused) -> tuple[Drawn, tuple[int, int]]:
    """Return the graph, and the result of `_at_once`.

    Raises:
        UnsupportedError: no graph stays within workspace_limit or has few enough arrays; or numbacc does not use this
            version of cuDNN for it.
    """
    versions.check(fused.problem)
    taken = _at_once(fused)
    drawn = fused.drawn(*taken)
    if len(drawn.graph.memory) + len(drawn.graph.numbers) > MANY_ARRAYS:
        raise UnsupportedError(f"cuDNN's graph has more than {MANY_ARRAYS} arrays and scalars, the limit of a call")
    return drawn, taken


def _at_once(fused: Fused) -> tuple[int, int]:
    """Return how many key heads, and sequences, a graph has if they are processed in slices; (0, 0) for all.

    Raises:
        UnsupportedError: no slices stay within workspace_limit.
    """
    problem, found = fused.problem, fused.problem.geometry
    if not (fused.is_backward and fused.is_direct):
        return 0, 0
    room = problem.limit - fused.stage.scratch.nbytes
    shape = fused.stage.arrays["dbias"].lies.shape if "dbias" in problem.outputs else found.scores
    heads, batches = fused.heads_within(room), found.batch
    # Try one sequence at a time. All must be full, since the lengths of a slice would not start at 16-byte multiples.
    if not heads and shape[0] == found.batch and not problem.has_lengths:
        heads, batches = fused.heads_within(room, 1), 1
    if heads == found.heads_kv and batches == found.batch:
        return 0, 0
    shares_bias = heads < found.heads_kv and shape[1] == 1 < found.heads
    if not heads or problem.options.dropout or shares_bias:
        needed = fused.stage.scratch.nbytes + math.prod(found.scores) * problem.dtype.itemsize
        # Each slice would drop the same weights as the first.
        why = "; with dropout they cannot run in slices" if problem.options.dropout else ""
        raise UnsupportedError(
            f"cuDNN's gradients, deterministic or with that of a bias, need about {needed} bytes at once, more than "
            f"workspace_limit={problem.limit}{why}"
        )
    return heads, batches


def drops(problem: AttentionProblem) -> bool:
    """Return whether cuDNN supports both attention and its gradients with dropout, since each backend has its own mask.

    Only the simplest gradients are checked: a later call with other options, such as deterministic, cannot choose
    another mask.
    """
    library, device = graph_library(), problem.inputs["q"].device
    try:
        for drawn in _both_ways(problem):
            library.choose(drawn.graph, Wants(), device)
    except UnsupportedError:
        return False
    return True


def _both_ways(problem: AttentionProblem) -> list[Drawn]:
    """Return the graphs of attention and, if it has gradients, of these, with a problem's options.

    Raises:
        UnsupportedError: as `_drawn`.
    """
    directions = ("forward",) if problem.geometry.page else ("forward", "backward")
    return [drawing(_on_dense(problem, direction)) for direction in directions]


def needed(problem: AttentionProblem, device: int | None = None) -> list[CudnnGraph]:
    """Return the graphs whose plans a call needs: its own, and with dropout those that `drops` checks.

    With a device, these are the graphs for that GPU, which may split the keys.

    Raises:
        UnsupportedError: as `_drawn`.
    """
    cut = None if device is None else splitting.cut_on(problem, device)
    if cut:
        return splitting.graphs(problem, cut)
    others = _both_ways(problem) if problem.options.dropout else []
    return [drawn.graph for drawn in (drawing(problem), *others)]


def _on_dense(problem: AttentionProblem, direction: str) -> AttentionProblem:
    """Return attention or its gradients with a problem's options on contiguous arrays; pages and lengths stay as is."""
    call, found, device = problem.call, problem.geometry, problem.inputs["q"].device
    arrays = []
    for name in OPERANDS[direction]:
        if name == "stats":
            arrays.append(dense(found.stats_shape, problem.compute, device))
        elif found.page and name in ("k", "v"):
            arrays.append(problem.inputs[name])
        else:
            arrays.append(dense(found.shape(name), problem.dtype, device))
    options = call.options._replace(return_stats=direction == "forward", bias_grad=False, deterministic=False)
    return resolve(AttentionCall(direction, tuple(arrays), call.extras, None, options))


def executable(
    problem: AttentionProblem,
    key: Sequence[int],
    close: Sequence[tuple[int, ...]],
    pairs: Sequence[tuple[int, ...]],
    fits: Callable[[Sequence[int]], bool],
) -> Any:
    """Return the executable of a problem that runs on cuDNN.

    Raises:
        UnsupportedError: cuDNN does not support it, or it needs more scratch memory than it may use.
    """
    library, device = graph_library(), problem.inputs["q"].device
    if cut := splitting.cut_on(problem, device):
        try:
            return splitting.executable(problem, key, cut, close, fits)
        except UnsupportedError:
            pass  # cuDNN may have an engine for all keys at once
    fused = Fused(problem, key)
    drawn, taken = _drawn(fused)
    algorithm = library.choose(drawn.graph, Wants(), device)
    return _assembled(fused, drawn, algorithm, taken, close, pairs, fits)


def _assembled(
    fused: Fused,
    drawn: Drawn,
    algorithm: Any,
    taken: tuple[int, int],
    close: Sequence[tuple[int, ...]],
    pairs: Sequence[tuple[int, ...]],
    fits: Callable[[Sequence[int]], bool],
) -> Any:
    stage, library = fused.stage, graph_library()
    operands, device = fused.operands(), stage.device
    is_alone = not (stage.steps or stage.behind or stage.scratch.nbytes or fused.is_mended)
    if is_alone:
        return library.Runner(drawn.graph, algorithm, device, operands, pairs, drawn.values)
    count = len(fused.problem.inputs) + len(fused.problem.outputs)
    is_plain = not (stage.steps or stage.behind or taken[0] or fused.is_mended)
    if is_plain and operands == list(range(count + len(stage.scratch.starts))):
        # Compiled code checks which arrays share memory: these are the operands, followed by scratch memory.
        runner = library.Runner(drawn.graph, algorithm, device, pairs=pairs, values=drawn.values)
        return WithScratch(runner, stage.scratch, fused.is_direct or not fused.is_backward)
    runner = library.Runner(drawn.graph, algorithm, device, values=drawn.values)
    runs = fused.runs(*taken) if taken[0] else ((),)
    before = len(stage.steps)
    stage.steps.append(Step(runner, tuple(operands), runs))
    fused.mend()
    has_kernels = before or stage.behind or len(stage.steps) > before + 1
    return Steps(
        [*stage.steps, *[biases.chosen(stage, step) for step in stage.behind]],
        stage.scratch,
        close,
        fits,
        backend=runner.backend + "+kernel" * bool(has_kernels),
        algorithm=runner.algorithm + (f", {len(runs)} slices of heads" if taken[0] else ""),
        deterministic=fused.is_direct or not fused.is_backward,
    )
