"""Calls of the functions of `numbacc.attention`: find or make a plan, and run it."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..arrays import operands
from ..base.dispatch import graph_library, has_gpu
from ..plan.base import outs_of
from ..plan.cache import PlanCache, functions_of
from ..plan.calls import PlannedCall, planned
from ..runtime.streams import handle_of
from .plans import AttentionPlan
from .problem import EXTRAS, OPERANDS, SCALES, AttentionCall, is_number, numbers, options_of, plain


def _forget() -> None:
    """Forget cuDNN's proposals, too. Without a GPU there is nothing to forget, and Numba may be missing."""
    if has_gpu():
        graph_library().algorithms.clear()


#: The extra arrays of all functions; `forward` also has scales.
SHARED_EXTRAS = EXTRAS[: -len(SCALES)]
_SHARED = ("mask", "scale", "dropout", "layout", "max_len_q", "max_len_kv")
#: Function -> the options that its plan depends on, in the order of its signature.
OPTIONS = {
    "forward": (*_SHARED, "return_stats", "return_amax", "deterministic", "workspace_limit"),
    "backward": (*_SHARED, "bias_grad", "deterministic", "workspace_limit"),
    "dropout_mask": (*_SHARED, "deterministic", "workspace_limit"),
}


def _made(direction: str, *given: Any) -> AttentionPlan:
    """Make the plan of a key: options, then the layouts of `out` and EXTRAS (None if not given), and of operands."""
    names = OPTIONS[direction]
    outs, extras, *layouts = given[len(names) :]
    options = options_of(dict(zip(names, given, strict=False)))
    known = extras or ()
    padded = (*known, *(None,) * (len(EXTRAS) - len(known)))
    return AttentionPlan(AttentionCall(direction, tuple(layouts), padded, outs, options))


plans = PlanCache(_made, count=1024, forget=_forget)


def passed(plan: AttentionPlan, seed: Any, offset: Any) -> tuple[int, ...]:
    """Return seed and offset in the form that a plan's run takes."""
    return plan.passed(*numbers(seed, offset))


def found(direction: str, given: dict[str, Any]) -> PlannedCall:
    """Return the plan of a call, and the arrays it runs on, for `plan.calls.planned`.

    Args:
        direction: the function's name.
        given: its arguments, by name.
    """
    handle = handle_of(given["stream"])
    pair = numbers(given["seed"], given["offset"])
    inputs = [operands.as_array(given[name], name, handle) for name in OPERANDS[direction]]
    more = {name: given[name] for name in (EXTRAS if direction == "forward" else SHARED_EXTRAS)}
    more["offset"] = None if is_number(given["offset"]) else given["offset"]
    extras = [None if each is None else operands.as_array(each, name, handle) for name, each in more.items()]
    outs = outs_of(given["out"], handle)
    names = OPTIONS[direction]
    options = plain(options_of(given))
    also = [None if each is None else operands.layout_of(each) for each in extras]
    key = (
        direction,
        *(getattr(options, name) for name in names),
        None if outs is None else tuple(map(operands.layout_of, outs)),
        None if also == [None] * len(also) else tuple(also),
        *map(operands.layout_of, inputs),
    )
    plan = plans.find(key)
    return plan, [*inputs, *(each for each in extras if each is not None)], outs, handle, plan.passed(*pair)


#: A decorator that makes a function and its plan from the function's signature.
planned_attention = partial(planned, plans, "AttentionPlan", calls_only="seed", passes=("seed offset", passed))

cache_info, cache_clear, cache_limit = functions_of(plans, __name__)
