"""Track values that formulas read from globals and closures, and reject calls that return changing values."""

from __future__ import annotations

import builtins
import dis
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NoReturn

import numpy as np

from .ieee_math import names_in


class Refused(TypeError, AttributeError):
    """The error of a formula that uses an unsupported feature. It is an AttributeError, so that `hasattr` works."""


# ---------------------------------------------------------------- calls whose value changes

_DRAW = "draw the numbers before the call, with numbacc.random or NumPy, and pass them as an argument"
_READ = "read it before the call, and pass it as an argument"
#: Module -> what to do instead of calling its functions.
_CHANGING = {
    **dict.fromkeys(("random", "numpy.random", "secrets", "uuid"), _DRAW),
    **dict.fromkeys(("time", "datetime", "os"), _READ),
}
#: Private modules -> the public modules that contain them.
_PARTS = {"_random": "random", "_datetime": "datetime", "posix": "os", "nt": "os"}
_BUILTINS = ("input", "open", "id")
#: Modules with objects whose methods draw numbers. Objects of other modules count as values.
_DRAWING = ("random", "numpy.random")


class _ChangingCalls:
    """A stand-in for a module, class or function whose calls give changing values. Only calls raise an error."""

    def __init__(self, name: str, value: Any, instead: str):
        self._name, self._value, self._instead = name, value, instead

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._value, name)
        if isinstance(value, (bool, int, float, str)):
            return value  # a constant of the module
        return _ChangingCalls(f"{self._name}.{name}", value, self._instead)

    def _refuse(self, *given: Any, **more: Any) -> NoReturn:
        raise Refused(
            f"it calls {self._name}, which returns another value each time, but a formula is compiled once: "
            f"{self._instead}"
        )

    __call__ = __getitem__ = __iter__ = __enter__ = _refuse


def changing(value: Any) -> Any:
    """Return a stand-in for a value whose calls return changing values, and None for all other values."""
    for name in _BUILTINS:
        if value is getattr(builtins, name, None):
            return _ChangingCalls(name, value, _READ)
    if isinstance(value, ModuleType):
        name = home = _module(value.__name__)
    elif callable(value) and isinstance(own := getattr(value, "__module__", None) or "", str):
        owner = getattr(value, "__self__", None)
        if isinstance(owner, type):
            home, called = _module(owner.__module__), f"{owner.__name__}.{value.__name__}"
        elif owner is not None and not isinstance(owner, ModuleType):
            home, called = _module(type(owner).__module__), getattr(value, "__name__", "")
        else:
            home, called = _module(own), getattr(value, "__name__", "")
        name = f"{home}.{called}"
    else:
        home = _module(type(value).__module__)
        name = f"{home}.{type(value).__name__}"
        if home not in _DRAWING and value is not os.environ:
            return None
    instead = _CHANGING.get(home)
    return None if instead is None else _ChangingCalls(name, value, instead)


def _module(name: Any) -> str:
    """Return the public module that contains a module."""
    return "numpy.random" if str(name).startswith("numpy.random.") else _PARTS.get(str(name), str(name))


# ---------------------------------------------------------------- values that were read

_GONE = object()
#: Lists and arrays up to this length are compared element by element; longer lists by length, longer arrays by address.
_COMPARED = 4096
_NUMBERS = (bool, int, float, complex, str, bytes, np.generic)


class Outside:
    """The values of globals and closures that functions read, as they were when this object was made.

    These include the globals and closures of called functions, and the attributes and elements of modules, objects,
    lists and small arrays that the functions may read. Values of libraries count as constant.

    Args:
        functions: Python functions.
    """

    def __init__(self, functions: Iterable[Callable[..., Any]]):
        self._names: list[tuple[Mapping[str, Any], str, Any]] = []
        self._cells: list[tuple[CellType, Any]] = []
        self._pictures: list[tuple[Any, Any]] = []
        self._seen: set[tuple[int, Any]] = set()
        for function in functions:
            self._read(function, frozenset())

    def __bool__(self) -> bool:
        return bool(self._names or self._cells or self._pictures)

    def changed(self) -> bool:
        """Return whether a value has changed."""
        for names, name, value in self._names:
            if names.get(name, _GONE) is not value:
                return self._differs()
        for cell, value in self._cells:
            if _content(cell) is not value:
                return self._differs()
        return bool(self._pictures) and any(_picture(value) != before for value, before in self._pictures)

    def _differs(self) -> bool:
        """Compare by value. An equal object replaces the old one, so that the next comparison is fast."""
        for k, (names, name, value) in enumerate(self._names):
            now = names.get(name, _GONE)
            if now is not value:
                if not _are_equal(now, value):
                    return True
                self._names[k] = names, name, now
        for k, (cell, value) in enumerate(self._cells):
            now = _content(cell)
            if now is not value:
                if not _are_equal(now, value):
                    return True
                self._cells[k] = cell, now
        return any(_picture(value) != before for value, before in self._pictures)

    # ------------------------------------------------------------ looking

    def _read(self, value: Any, names: frozenset[str]) -> None:
        """Record what a value holds, as far as code that uses these names reads it."""
        if isinstance(value, (*_NUMBERS, type(None), CodeType, BuiltinFunctionType, np.ufunc)):
            return
        value = getattr(value, "py_func", value)
        value = value.__func__ if isinstance(value, MethodType) else value
        key = id(value), None if isinstance(value, FunctionType) else names
        if key in self._seen:
            return
        self._seen.add(key)
        if isinstance(value, FunctionType):
            if not _is_librarys(value.__code__.co_filename):
                self._read_function(value)
        elif isinstance(value, ModuleType):
            if not _is_library(value):
                self._read_names(vars(value), names)
        elif isinstance(value, (list, dict, set, bytearray, np.ndarray)):
            self._pictures.append((value, _picture(value)))
            elements = value.values() if isinstance(value, dict) else () if isinstance(value, np.ndarray) else value
            for each in list(elements)[:_COMPARED]:
                self._read(each, names)
        elif isinstance(value, tuple):
            for each in value[:_COMPARED]:
                self._read(each, names)
        else:
            for held in _attributes(value):
                self._read_names(held, names)

    def _read_function(self, function: FunctionType) -> None:
        names, held = frozenset(names_in(function.__code__)), function.__globals__
        for name in sorted(_globals_in(function.__code__)):
            if name in held:
                self._read_name(held, name, names)
            elif not hasattr(builtins, name):
                self._names.append((held, name, _GONE))  # the call fails until the name is defined
        for cell in function.__closure__ or ():
            value = _content(cell)
            self._cells.append((cell, value))
            self._read(value, names)

    def _read_names(self, held: Mapping[str, Any], names: frozenset[str]) -> None:
        for name in sorted(names):
            if name in held:
                self._read_name(held, name, names)

    def _read_name(self, held: Mapping[str, Any], name: str, names: frozenset[str]) -> None:
        value = held[name]
        if not isinstance(value, ModuleType) or not _is_library(value):
            self._names.append((held, name, value))
        self._read(value, names)


def _globals_in(code: CodeType) -> set[str]:
    """Return the names of the globals that a function reads. `names_in` also returns names of attributes."""
    found = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return found.union(*(_globals_in(each) for each in code.co_consts if isinstance(each, CodeType)))


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return _GONE


def _are_equal(one: Any, other: Any) -> bool:
    """Return whether both are equal numbers or strings of one type; -0.0 differs from 0.0."""
    return type(one) is type(other) and isinstance(one, _NUMBERS) and repr(one) == repr(other)


class _Itself:
    """An object in a snapshot that is equal only to itself."""

    __slots__ = ("_value",)

    def __init__(self, value: Any):
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self._value is other._value

    __hash__ = None  # type: ignore[assignment]


def _picture(value: Any, depth: int = 0) -> Any:
    """Return the contents of a container in a form that can be compared later."""
    if isinstance(value, _NUMBERS):
        return type(value), repr(value)
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value.dtype, value.shape, value.tobytes() if value.size <= _COMPARED else value.ctypes.data
    if isinstance(value, (list, tuple, set, dict, bytearray)) and depth < 8:
        if len(value) > _COMPARED:
            return type(value), len(value)
        if isinstance(value, bytearray):
            return bytes(value)
        if isinstance(value, dict):
            return [(_picture(key, depth + 1), _picture(each, depth + 1)) for key, each in value.items()]
        return type(value), [_picture(each, depth + 1) for each in value]
    return _Itself(value)


def _attributes(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the attributes of an object and of its classes, except for libraries' classes."""
    try:
        own = vars(value)
    except TypeError:  # it does not have attributes
        own = {}
    if isinstance(own, Mapping):
        yield own
    for each in type(value).__mro__:
        if not _is_library(sys.modules.get(each.__module__)):
            yield each.__dict__


_PLACES = tuple({os.path.dirname(os.path.realpath(os.__file__)), os.path.dirname(os.__file__)})
_OURS = str(Path(__file__).absolute().parents[2]) + os.sep


def _is_library(module: ModuleType | None) -> bool:
    """Return whether a module belongs to Python, to an installed package or to numbacc."""
    file = getattr(module, "__file__", None)
    # Built-in modules do not have a file, nor do notebooks and modules that a program made.
    return getattr(module, "__spec__", None) is not None if file is None else _is_librarys(file)


def _is_librarys(file: str) -> bool:
    return file.startswith((*_PLACES, _OURS)) or "site-packages" in file or "dist-packages" in file
