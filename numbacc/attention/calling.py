"""Calls of `numbacc.attention`'s functions: plans are found, or made, and run."""

from __future__ import annotations

from typing import Any

from ..arrays import operands
from ..base.dispatch import graph_library, has_gpu
from ..plan.base import outs_of
from ..plan.cache import PlanCache, functions_of
from ..runtime.streams import handle_of
from .plans import AttentionPlan
from .problem import EXTRAS, OPERANDS, SCALES, AttentionCall, AttentionOptions, is_number, numbers, plain


def _forget() -> None:
    """Forget what cuDNN proposed, too, where there is a GPU: without Numba there is nothing that could."""
    if has_gpu():
        graph_library().algorithms.clear()


#: A call's scales where it has none.
NO_SCALES = (None,) * len(SCALES)
#: Its EXTRAS before the offset where it has none.
NO_EXTRAS = (None,) * (len(EXTRAS) - len(SCALES) - 1)
#: The layouts of its EXTRAS where it has none.
_NO_LAYOUTS = (None,) * len(EXTRAS)


def _made(direction: str, options: Any, extras: Any, has_out: bool, *layouts: Any) -> AttentionPlan:
    """The plan of a key: `layouts` are of the operands, and of the results where they are given."""
    count = len(OPERANDS[direction])
    outs = layouts[count:] if has_out else None
    return AttentionPlan(
        AttentionCall(direction, layouts[:count], extras or _NO_LAYOUTS, outs, AttentionOptions(*options))
    )


plans = PlanCache(_made, count=1024, forget=_forget)


def run(
    direction: str,
    arrays: tuple[Any, ...],
    extras: tuple[Any, ...],
    offset: Any,
    options: tuple[Any, ...],
    out: Any,
    seed: Any,
    stream: Any,
    scales: tuple[Any, ...],
) -> Any:
    """Run a plan, found or made.

    Args:
        direction: a key of `problem.OPERANDS`.
        arrays: its operands.
        extras: those of `problem.EXTRAS` before the offset, None where they are not given; NO_EXTRAS itself where there
            are none.
        offset: an array, or a number, which is no array of the plan: it is passed when it runs.
        options: the fields of `AttentionOptions`, as the user gave them. No more than a tuple, which is made in less
            time.
        out, seed, stream: as the user gave them.
        scales: the last of `problem.EXTRAS`; NO_SCALES itself where there are none.
    """
    handle = handle_of(stream)
    is_plain = type(seed) is int and type(offset) is int and not (seed or offset)
    pair = (0, 0) if is_plain else numbers(seed, offset)
    place = None if is_plain or is_number(offset) else offset
    # The short way, for numbacc's own arrays: the path where a tenth of a microsecond counts.
    if _is_usual(options):
        plan, outs, layouts, inputs, known = None, None, None, arrays, arrays
        try:
            if out is not None:
                outs = out if type(out) is tuple else (out,)
                known = arrays + outs
            if extras is not NO_EXTRAS or place is not None or scales is not NO_SCALES:
                given = (*extras, place, *scales)
                layouts = _without_none(tuple([None if each is None else each._numbacc_layout for each in given]))
                inputs = (*arrays, *[each for each in given if each is not None])
            key = (direction, options, layouts, outs is not None, *[each._numbacc_layout for each in known])
            plan = plans.hit(key)
        except Exception:  # NumPy's arrays have no such layout, and of what is foreign an attribute may raise anything
            pass
        if plan is not None:
            return plan.run(inputs, outs, out, handle, plan.passed(*pair) if plan.takes_scalars else ())
    plan, found, outs = _find(direction, arrays, (*extras, place, *scales), AttentionOptions(*options), out, handle)
    return plan.run(found, outs, out, handle, plan.passed(*pair))


def _without_none(extras: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The layouts of a call's EXTRAS as keys have them: None where there are none."""
    return None if extras == _NO_LAYOUTS else extras


def _is_usual(options: tuple[Any, ...]) -> bool:
    """Whether options are of the types that nearly all have: 1.0 is equal to 1, and may not find its plan."""
    _, scale, dropout, _, longest_q, longest_kv, stats, grad, deterministic, limit, amax = options
    return (
        (deterministic is False or deterministic is True)
        and (stats is False or stats is True)
        and (grad is False or grad is True)
        and type(dropout) is float
        and (scale is None or type(scale) is float)
        and (longest_q is None or type(longest_q) is int)
        and (longest_kv is None or type(longest_kv) is int)
        and (limit is None or type(limit) is int)
        and (amax is False or amax is True)
    )


def _find(
    direction: str, arrays: tuple[Any, ...], extras: tuple[Any, ...], options: AttentionOptions, out: Any, handle: int
) -> tuple[AttentionPlan, Any, Any]:
    """(plan, inputs, outputs) of a call."""
    inputs = [operands.as_array(array, name, handle) for array, name in zip(arrays, OPERANDS[direction], strict=True)]
    found = [
        None if each is None else operands.as_array(each, name, handle)
        for each, name in zip(extras, EXTRAS, strict=True)
    ]
    outs = outs_of(out, handle)
    layouts = _without_none(tuple(None if each is None else operands.layout_of(each) for each in found))
    known = [operands.layout_of(each) for each in (*inputs, *(outs or ()))]
    key = (direction, plain(options), layouts, outs is not None, *known)
    return plans.find(key), [*inputs, *(each for each in found if each is not None)], outs


def prepared(
    direction: str, arrays: tuple[Any, ...], extras: tuple[Any, ...], offset: Any, options: tuple[Any, ...], out: Any,
    seed: Any, stream: Any, scales: tuple[Any, ...],
) -> AttentionPlan:  # fmt: skip
    """A plan, ready to run. The arguments are those of `run`."""
    numbers(0, offset)
    given = (*extras, None if is_number(offset) else offset, *scales)
    plan, inputs, outs = _find(direction, arrays, given, AttentionOptions(*options), out, handle_of(None))
    plan.prepare(inputs, outs)
    return plan


cache_info, cache_clear, cache_limit = functions_of(plans, __name__)
