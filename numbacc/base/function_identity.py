"""Which functions are compiled to the same: those that are equal to the last constant."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from inspect import Signature, signature
from itertools import count
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

__all__ = ["Numbers", "signature_of"]


class _Same:
    """A value that is equal to itself alone."""

    def __init__(self, value: Any):
        self._value = value  # alive, so that nothing else gets its id

    def __hash__(self) -> int:
        return id(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._value is other._value


class Numbers:
    """Numbers of functions, which are equal where the functions are.

    Args:
        function_of: what a value that is compiled is made of; None of values that are none.
        plain: a class of values that are the same where they are equal.
    """

    def __init__(self, function_of: Callable[[Any], Any], plain: type) -> None:
        self._function_of, self._plain = function_of, plain
        self._numbers = count()
        #: What a function is made of -> its number.
        self._known: dict[Hashable, int] = {}
        self._numbered: WeakKeyDictionary[Any, Hashable] = WeakKeyDictionary()

    def clear(self) -> None:
        """Forget all functions."""
        self._known.clear()
        self._numbered.clear()

    def of(self, function: Any) -> Hashable:
        """Equal functions have equal numbers."""
        number = self._numbered.get(function)
        if number is None:
            self._numbered[function] = _Same(function)  # what calls itself equals no other
            made = (
                function.__code__,
                tuple(self._key(cell.cell_contents) for cell in function.__closure__ or ()),
                self._key(function.__defaults__),
                self._key(getattr(function, "_numbacc_convert", None)),
                _Same(function.__globals__),
            )
            number = self._known.get(made)
            if number is None:
                number = self._known[made] = next(self._numbers)
            self._numbered[function] = number
        return number

    def _key(self, value: Any) -> Hashable:
        """Equal for values that are compiled to the same."""
        kind = type(value)
        if kind is FunctionType:
            return FunctionType, self.of(value)
        function = self._function_of(value)
        if function is not None:
            return kind, self.of(function)
        if isinstance(value, (tuple, list)):
            return (kind, *map(self._key, value))
        if kind is dict:
            return (kind, *((self._key(name), self._key(item)) for name, item in value.items()))
        if isinstance(value, np.generic):
            return kind, value.dtype.str, value.tobytes()
        if kind in (float, complex):
            return kind, repr(value)  # -0.0 is not 0.0
        if kind in (int, bool, str, bytes, type(None), CodeType) or isinstance(value, (np.dtype, self._plain, type)):
            return kind, value
        return _Same(value)


_signatures: dict[CodeType, Signature] = {}


def signature_of(function: Any) -> Signature:
    """As `inspect.signature`; of functions that are made again and again it is found once."""
    if type(function) is not FunctionType or function.__defaults__ or function.__kwdefaults__ or function.__dict__:
        return signature(function)
    found = _signatures.get(function.__code__)
    if found is None:
        found = _signatures[function.__code__] = signature(function)
    return found
