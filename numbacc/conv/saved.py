"""The saved object that carries a convolution's operands and options to its gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ArgumentsError, OptionError, shown
from ..plan.saved import Saved

_OP = "conv.forward"
#: Options that must be the same in `forward` and in the gradients.
_SHARED = ("stride", "padding", "dilation", "groups", "layout", "flip", "alpha", "compute")
#: Options that do not change the result; a call of the gradients may override them.
_OWN = ("deterministic", "tune", "workspace_limit")
#: Direction -> (the shape that a call without a saved object needs, the call with one, the call without one).
_CALLS = {
    "backward_data": ("x_shape", "backward_data(dy, saved)", "backward_data(dy, w, x_shape)"),
    "backward_filter": ("w_shape", "backward_filter(saved, dy)", "backward_filter(x, dy, w_shape)"),
}


def check_activation(activation: Any) -> None:
    """Raise OptionError where a call of `forward` that returns a saved object has an activation."""
    if activation is not None:
        raise OptionError(
            f"return_saved=True with activation={shown(activation)}: the gradients do not include the activation. "
            "Leave activation out and call its function of numbacc.elementwise after the convolution"
        )


def saved(given: Mapping[str, Any]) -> Saved:
    """Make the saved object of a call of `forward` with these arguments."""
    options = {name: given[name] for name in (*_SHARED, *_OWN)}
    return Saved(_OP, {"x": given["x"], "w": given["w"]}, options)


def opened(kept: Saved, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Return x, w and the options of a call of the gradients, given all of its arguments and their defaults.

    Raises:
        DTypeError: another function made the object. OptionError: an argument differs from the saved one.
    """
    kept.check(_OP, {name: given[name] for name in _SHARED}, defaults)
    x, w = kept.arrays["x"], kept.arrays["w"]
    for name, array in (("x_shape", x), ("w_shape", w)):
        shape = given.get(name)
        if not (shape is None or tuple(shape) == tuple(array.shape)):
            raise OptionError(f"{name} is given, and saved has another {name} from {_OP}: leave {name} out")
    options = {name: kept.options[name] for name in _SHARED}
    for name in _OWN:
        options[name] = kept.options[name] if given[name] is defaults[name] else given[name]
    return x, w, options


def check_shape(shape: Any, direction: str) -> None:
    """Raise ArgumentsError where the gradients are given neither a saved object nor a shape."""
    if shape is None:
        name, short, full = _CALLS[direction]
        raise ArgumentsError(
            f"{name} is missing: call {short}, with saved from forward(..., return_saved=True); or {full} with the "
            "options of forward"
        )
