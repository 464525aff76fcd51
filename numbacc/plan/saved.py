"""What forward functions keep for their gradients: operands and options, in one object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays import operands
from ..errors import DTypeError, LayoutError, OptionError, shown
from .base import outs_of


class Saved(NamedTuple):
    """What a function keeps for its gradients.

    Attributes:
        op: the function.
        arrays: by the names that the gradients' function has for them; they must not change until then.
        options: by their names.
    """

    op: str
    arrays: Mapping[str, Any]
    options: Mapping[str, Any]

    def __repr__(self) -> str:
        options = [f"{name}={shown(value)}" for name, value in self.options.items()]
        return f"<saved by {self.op}: {', '.join([*self.arrays, *options])}>"

    def check(self, op: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        """Raise unless a call of the gradients' function adds nothing to what is saved.

        Args:
            op: the function that must have saved it.
            given: arguments of the call that are saved.
            defaults: their values where they are not given.

        Raises:
            DTypeError: another function saved it. OptionError: an argument is given, and not as it is saved.
        """
        if self.op != op:
            raise DTypeError(f"saved is what {self.op} returned; this function needs what {op} returned")
        kept = {**self.arrays, **self.options}
        for name, value in given.items():
            if not (_is(value, defaults[name]) or _is(value, kept[name])):
                raise OptionError(
                    f"{name} is given, and not as {op} was given it, which is saved already: leave {name} out"
                )


def check_kept(names: Sequence[str], arrays: Sequence[Any], out: Any, handle: int) -> None:
    """Raise LayoutError where `out` would be written over what is kept for the gradients."""
    for target in outs_of(out, handle) or ():
        for name, array in zip(names, arrays, strict=True):
            if operands.overlap(operands.as_array(array, name, handle), target):
                raise LayoutError(f"out shares memory with {name}, which backward needs: pass memory of its own")


def _is(value: Any, other: Any) -> bool:
    """Whether two arguments are the same; arrays are where they are one object."""
    if value is other:
        return True
    plain = (bool, int, float, str, np.number)
    if isinstance(value, plain) and isinstance(other, plain):
        return bool(value == other)
    return not hasattr(value, "shape") and type(value) is type(other) and bool(value == other)
