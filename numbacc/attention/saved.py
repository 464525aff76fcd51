"""The saved object that carries attention's operands and options to its gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.checks import boolean
from ..errors import ArgumentsError, OptionError
from ..plan.saved import Saved
from .problem import SCALES
from .score_functions import fixed, is_function

_OP = "attention.forward"
ARRAYS = ("q", "k", "v", "o", "stats")
#: Options that must be the same in `forward` and `backward`.
_SHARED = (
    "mask", "bias", "alibi", "scale", "dropout", "seed", "offset", "seq_len_q", "seq_len_kv", "page_table_k",
    "page_table_v", "layout", "max_len_q", "max_len_kv", "score", "operands",
)  # fmt: skip
#: Options and arrays that are passed to a plan's call.
_OF_CALLS = ("operands", "bias", "alibi", "seq_len_q", "seq_len_kv", "seed", "offset")


def check_saved(given: Mapping[str, Any]) -> bool:
    """Return whether a call of `forward` with these arguments and a saved object also returns stats.

    Raises:
        OptionError: return_stats is neither True nor False; or gradients do not support an argument.
    """
    for name in ("page_table_k", "page_table_v", *SCALES):
        if given[name] is not None:
            raise OptionError(
                f"return_saved=True is for backward, which does not support {name}: leave one of the two out"
            )
    if given["return_amax"]:
        raise OptionError(
            "return_saved=True is for backward, but return_amax is for float8, which does not support gradients: "
            "leave one of the two out"
        )
    return boolean(given["return_stats"], "return_stats")


def saved(found: Sequence[Any], given: Mapping[str, Any]) -> Saved:
    """Make the saved object of a call of `forward` with these arguments and results (o, stats)."""
    arrays = (given["q"], given["k"], given["v"], *found)
    names = (*_SHARED, "deterministic", "workspace_limit")
    options = {name: given[name] for name in names}
    options |= {name: fixed(given[name], name) for name in ("score", "mask")}
    return Saved(_OP, dict(zip(ARRAYS, arrays, strict=True)), options)


def opened(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arrays and options of `backward(do, saved)`, or of its plan.

    Args:
        given: all arguments of the call.
        defaults: the defaults of the function's arguments.

    Raises:
        DTypeError: another function made the object. OptionError: an argument differs from the saved one.
    """
    kept: Saved = given["q"]
    shared = [name for name in _SHARED if name in given]
    more = {name: given[name] for name in (*ARRAYS[1:], *shared)}
    kept.check(_OP, more, defaults)
    options = {name: kept.options[name] for name in shared}
    options["deterministic"] = given["deterministic"] or kept.options["deterministic"]
    options["workspace_limit"] = given["workspace_limit"]
    if options["workspace_limit"] is None:
        options["workspace_limit"] = kept.options["workspace_limit"]
    return tuple(kept.arrays.values()), options


def of_call(kept: Saved) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the named arguments for a call of the plan of `backward`."""
    kept.check(_OP, {}, {})
    own = {name: kept.options[name] for name in _OF_CALLS}
    if is_function(kept.options["mask"]):
        own["mask"] = kept.options["mask"]
    return tuple(kept.arrays.values()), own


def check_complete(given: Mapping[str, Any]) -> None:
    """Raise ArgumentsError where `backward` is given neither a saved object nor all of its arrays."""
    missing = [name for name in ARRAYS if given[name] is None]
    if missing:
        raise ArgumentsError(
            f"{missing[0]} is missing: call backward(do, saved), with saved from forward(..., return_saved=True); or "
            "backward(do, q, k, v, o, stats) with the options of forward"
        )
