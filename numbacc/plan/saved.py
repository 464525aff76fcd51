"""Objects that carry operands and options from forward functions to their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays import operands
from ..base.checks import boolean
from ..errors import DTypeError, LayoutError, OptionError, shown
from .base import outs_of


class Saved(NamedTuple):
    """Operands and options of a forward function, for its gradients.

    Attributes:
        op: the name of the forward function.
        arrays: argument name of the gradients -> array. They must not change until the gradients are computed.
        options: name -> value.
        maker: the user-defined kernel or reduction that made the object, and its gradient at that time; None for other
            functions.
    """

    op: str
    arrays: Mapping[str, Any]
    options: Mapping[str, Any]
    maker: tuple[Any, Any] | None = None

    def __repr__(self) -> str:
        options = [f"{name}={shown(value)}" for name, value in self.options.items()]
        return f"<saved by {self.op}: {', '.join([*self.arrays, *options])}>"

    def check(self, op: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        """Raise an error unless a call of the gradients repeats no argument, or repeats it with the same value.

        Args:
            op: the forward function of these gradients.
            given: arguments of the call that the object holds, too.
            defaults: name -> the value of an argument that is not given.

        Raises:
            DTypeError: another function made the object. OptionError: an argument differs.
        """
        if self.op != op:
            raise DTypeError(f"saved comes from {self.op}; pass the object that {op}(..., return_saved=True) returned")
        for name, value in given.items():
            default = defaults[name]
            if value is default or _is(value, default):
                continue
            if not _is(value, self.arrays[name] if name in self.arrays else self.options[name]):
                raise OptionError(f"{name} is given, and saved has another {name} from {op}: leave {name} out")

    def opened(self, op: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the arrays and options in order; arguments and errors are those of `check`."""
        self.check(op, given, defaults)
        return (*self.arrays.values(), *self.options.values())


def saves(return_saved: Any) -> bool:
    """Return whether a forward function returns a saved object. Call it before anything is written.

    Raises:
        OptionError: return_saved is neither True nor False.
    """
    return return_saved is not False and boolean(return_saved, "return_saved")


def check_kept(names: Sequence[str], arrays: Sequence[Any], out: Any, handle: int) -> None:
    """Raise LayoutError if writing to `out` would change arrays that the gradients need. Some arrays may be None."""
    for target in outs_of(out, handle) or ():
        for name, array in zip(names, arrays, strict=True):
            if array is not None and operands.overlap(operands.as_array(array, name, handle), target):
                raise LayoutError(f"out shares memory with {name}, which backward needs: pass other memory")


def _is(value: Any, other: Any) -> bool:
    """Return whether two arguments are equal. Arrays are compared by identity."""
    if value is other:
        return True
    plain = (bool, int, float, str, np.number)
    if isinstance(value, plain) and isinstance(other, plain):
        return bool(value == other)
    return not hasattr(value, "shape") and type(value) is type(other) and bool(value == other)
