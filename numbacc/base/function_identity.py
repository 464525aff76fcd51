"""Detection of functions that compile to the same code: their bytecode and all constants are equal."""

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
    """A value that is equal only to itself."""

    def __init__(self, value: Any):
        self._value = value  # kept alive, so that nothing else gets its id

    def __hash__(self) -> int:
        return id(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._value is other._value


class Numbers:
    """Numbers for functions; equal functions have equal numbers.

    Args:
        function_of: returns the function of a compiled object; None for other values.
        plain: a class of values that are interchangeable if they are equal.
    """

    def __init__(self, function_of: Callable[[Any], Any], plain: type) -> None:
        self._function_of, self._plain = function_of, plain
        self._numbers = count()
        #: The parts of a function -> its number.
        self._known: dict[Hashable, int] = {}
        self._numbered: WeakKeyDictionary[Any, Hashable] = WeakKeyDictionary()

    def clear(self) -> None:
        """Drop all functions."""
        self._known.clear()
        self._numbered.clear()

    def of(self, function: Any) -> Hashable:
        """Return the number of a function; equal functions have equal numbers."""
        number = self._numbered.get(function)
        if number is None:
            self._numbered[function] = _Same(function)  # a recursive function is equal only to itself
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
        """Return a key that is equal for values that compile to the same code."""
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
    """Return `inspect.signature`, computed only once for functions that are created repeatedly from the same code."""
    if type(function) is not FunctionType or function.__defaults__ or function.__kwdefaults__ or function.__dict__:
        return signature(function)
    found = _signatures.get(function.__code__)
    if found is None:
        found = _signatures[function.__code__] = signature(function)
    return found
