"""The executables of attention on a GPU: cuDNN's fused kernels, or matrix products and numbacc's kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.dispatch import runtime, simulated
from ..errors import UnsupportedError
from ..runtime.steps import Steps
from . import fused_calls, unfused
from .fusing import is_worth_trying
from .problem import AttentionProblem
from .staging import Stage

#: The lowest compute capability whose tensor cores cuDNN's fused kernels use.
_OLDEST_FUSED = (8, 0)
#: The lowest compute capability for float8, and for float8 with the diagonal at the end. NVIDIA's own cudnn-frontend
#: also rejects older ones.
_OLDEST_SCALED, _OLDEST_SHIFTED = (9, 0), (10, 0)

#: The most elements of a float8 head. With more, cuDNN 9.19 reads out of bounds on an H200.
_WIDEST_SCALED = 128

#: On Hopper, the flash kernels compute gradients faster than cuDNN for these lengths of queries and keys, this many
#: elements of a head, and at least this many rows in all. In bfloat16 on an H200, 64 x 4 heads of 256 x 64 take 0.81
#: (causal) and 0.85 of cuDNN's time; lengths of 128 take 0.99 to 1.02, 384 and 512 1.01 to 1.04, heads of 32 with 64
#: queries 1.25.
_LENGTHS, _WIDTH, _MANY = range(129, 257), 64, 2**15


def check_hardware(problem: AttentionProblem) -> None:
    """Raise UnsupportedError where the GPU is too old for the dtype, or cuDNN's results are wrong."""
    capability, found = runtime().capability(problem.inputs["q"].device), problem.geometry
    oldest, instead = (0, 0), "float32 and float64 run on it"
    what = f"attention of {problem.dtype}"
    if problem.dtype.itemsize == 2:
        oldest = _OLDEST_FUSED
    if problem.is_scaled:
        oldest = _OLDEST_SCALED
        if problem.band.bottom_right and found.queries != found.keys:
            oldest, instead = _OLDEST_SHIFTED, "masks whose diagonal starts at the first key run from 9.0 on"
            what += ", with a mask whose diagonal ends at the last key,"
    if capability < oldest:
        numbers = (*oldest, runtime().device_name(problem.inputs["q"].device), *capability)
        raise UnsupportedError(f"{what} needs compute capability " + "{}.{}; {} has {}.{}: ".format(*numbers) + instead)
    if not problem.is_scaled or simulated():
        return
    if max(found.width, found.value_width) > _WIDEST_SCALED:
        raise UnsupportedError(
            f"{what} with heads of {max(found.width, found.value_width)} elements: cuDNN 9.19 reads out of bounds; "
            f"use at most {_WIDEST_SCALED} elements, or a 16-bit dtype"
        )
    if problem.options.return_amax and problem.band.upper:
        raise UnsupportedError(
            "return_amax with a window on both sides: cuDNN 9.19 computes a wrong amax_s for it, although o and "
            "amax_o are right. Leave return_amax out, or use CausalSlidingWindow"
        )


def executable(
    problem: AttentionProblem,
    key: Sequence[int],
    close: Sequence[tuple[int, ...]],
    pairs: Sequence[tuple[int, ...]],
    fits: Callable[[Sequence[int]], bool],
) -> Any:
    """Return the executable of a problem.

    Args:
        key: `staging.key_of` the addresses of its arrays.
        close, fits: as in `Steps`.
        pairs: as `Operation._pairs` returns them.

    Raises:
        UnsupportedError: cuDNN does not support it, and it cannot run unfused either; the message says why.
    """
    untaken = ""
    if _is_short(problem) and (made := _by_flash(problem, key, close, fits)):
        return made
    is_tried = is_worth_trying(problem)
    if is_tried and problem.is_scaled:
        return fused_calls.executable(problem, key, close, pairs, fits)
    if is_tried and problem.options.dropout:
        # Gradients must drop the same weights as attention, so both must run on the same path.
        if fused_calls.drops(problem):
            return fused_calls.executable(problem, key, close, pairs, fits)
        is_tried = False
    if is_tried:
        try:
            return fused_calls.executable(problem, key, close, pairs, fits)
        except UnsupportedError as error:
            untaken = f"{error}; "
    if (problem.call.scoring is not None or untaken) and (made := _by_flash(problem, key, close, fits)):
        return made
    stage, taken = Stage(problem, key), ""
    try:
        if not problem.geometry.batch:
            for name in problem.outputs:
                if stage.arrays[name].lies.size:
                    stage.zero(stage.returned(name))
        else:
            taken = unfused.build(stage, problem)
    except UnsupportedError as error:
        raise UnsupportedError(f"{untaken}{error}") from None
    return Steps(
        [*stage.steps, *stage.behind],
        stage.scratch,
        close,
        fits,
        backend="simulator+kernel" if simulated() else "cublasLt+kernel",
        algorithm="unfused: products, and numbacc's kernels between them" + (taken and f", {taken}"),
        deterministic=all(getattr(step.executable, "deterministic", True) for step in stage.steps),
    )


def _is_short(problem: AttentionProblem) -> bool:
    """Return whether the flash kernels are faster than cuDNN."""
    found = problem.geometry
    return (
        problem.call.direction == "backward"
        and problem.call.scoring is None
        and runtime().capability(problem.inputs["q"].device) == (9, 0)
        and found.queries in _LENGTHS
        and found.keys in _LENGTHS
        and found.width == found.value_width == _WIDTH
        and found.batch * found.heads * found.queries >= _MANY
        and problem.band.lower is None
        and not (problem.rows_may_be_empty or found.is_packed or found.page)
    )


def _by_flash(
    problem: AttentionProblem,
    key: Sequence[int],
    close: Sequence[tuple[int, ...]],
    fits: Callable[[Sequence[int]], bool],
) -> Steps | None:
    """Return the executable of the flash kernels; None if they do not run the problem."""
    # They need Numba, which is not loaded for NumPy arrays.
    from . import flash

    if not (problem.geometry.batch and flash.runs(problem)):
        return None
    stage = Stage(problem, key)
    taken = flash.build(stage)
    return Steps(
        [*stage.steps, *stage.behind],
        stage.scratch,
        close,
        fits,
        backend="simulator" if simulated() else "kernel",
        algorithm=taken,
        deterministic=problem.call.direction == "forward",
    )
