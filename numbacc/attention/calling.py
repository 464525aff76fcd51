"""Calls of the functions of `numbacc.attention`: find or make a plan, and run it."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..arrays import operands
from ..base.dispatch import graph_library, has_gpu
from ..errors import OptionError
from ..plan.base import outs_of
from ..plan.cache import PlanCache, functions_of
from ..plan.calls import PlannedCall, planned
from ..runtime.streams import handle_of
from .geometry import geometry
from .plans import AttentionPlan
from .problem import EXTRAS, OPERANDS, SCALES, AttentionCall, is_number, numbers, options_of, plain
from .score_functions import Scoring, is_function, parsed


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
    """Make the plan of a key: options, then the layouts of `out` and EXTRAS (None if not given), and of operands.

    The last part is the call's `Scoring` if it has score or mask functions.
    """
    names, scoring = OPTIONS[direction], None
    if isinstance(given[-1], Scoring):
        *given, scoring = given  # type: ignore[assignment]
    outs, extras, *layouts = given[len(names) :]
    options = options_of(dict(zip(names, given, strict=False)))
    known = extras or ()
    padded = (*known, *(None,) * (len(EXTRAS) - len(known)))
    return AttentionPlan(AttentionCall(direction, tuple(layouts), padded, outs, options, scoring))


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
    names, mask, scoring, elements = OPTIONS[direction], given["mask"], None, []
    has_function = mask is not None and is_function(mask)
    if has_function or given["score"] is not None or given["operands"] is not None:
        scoring, elements, named = _scoring(given, inputs, more, direction, handle)
        if has_function:
            given = {**given, "mask": named}
    options = plain(options_of(given))
    also = [None if each is None else operands.layout_of(each) for each in extras]
    key = (
        direction,
        *(getattr(options, name) for name in names),
        None if outs is None else tuple(map(operands.layout_of, outs)),
        None if also == [None] * len(also) else tuple(also),
        *map(operands.layout_of, inputs),
        *([] if scoring is None else [scoring]),
    )
    plan = plans.find(key)
    return plan, [*inputs, *(each for each in extras if each is not None), *elements], outs, handle, plan.passed(*pair)


def _scoring(given: dict[str, Any], inputs: list[Any], more: dict[str, Any], direction: str, handle: int) -> Any:
    """Return the result of `score_functions.parsed` for a call.

    Args:
        given: its arguments, by name.
        inputs: its arrays.
        more: its optional arrays, by name.
        direction: the function's name.
    """
    known = dict(zip(OPERANDS[direction], map(operands.layout_of, inputs), strict=True))

    def scores() -> tuple[int, int, int, int]:
        options = plain(options_of({**given, "mask": None}))
        starts_q, starts_kv, table = (
            None if more[name] is None else operands.layout_of(operands.as_array(more[name], name, handle))
            for name in ("seq_len_q", "seq_len_kv", "page_table_k")
        )
        q, k, v = (known[name] for name in ("q", "k", "v"))
        longest = options.max_len_q, options.max_len_kv
        return geometry(q, k, v, options.layout, (starts_q, starts_kv), table, longest).scores

    score, mask = given["score"], given["mask"]
    mask = mask if is_function(mask) else None
    if score is None and mask is None:
        raise OptionError("operands are the arrays of a score function: pass score=")
    return parsed(score, mask, given["operands"], given.get("operand_grads", False), scores, known["q"].device, handle)


#: A decorator that makes a function and its plan from the function's signature.
planned_attention = partial(planned, plans, "AttentionPlan", calls_only="seed", passes=("seed offset", passed))

cache_info, cache_clear, cache_limit = functions_of(plans, __name__)
