"""Load a shared library. Its functions are declared once, bound at the first use, and checked at every call."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import IntEnum
from typing import Any

from .errors import LibraryError

#: Letters of a declaration -> C types.
TYPES: dict[str, Any] = {
    "p": ctypes.c_void_p,  # any pointer or handle, passed as an integer address
    "i": ctypes.c_int,
    "u": ctypes.c_uint,
    "L": ctypes.c_ulonglong,
    "z": ctypes.c_size_t,
    "s": ctypes.c_char_p,
    "b": ctypes.c_ubyte,
    "h": ctypes.c_ushort,
    "q": ctypes.c_longlong,
    "d": ctypes.c_double,
    "f": ctypes.c_float,
}


def wheel(package: str) -> str:
    """Return the code that installs a missing or outdated library of numbacc's extras."""
    return (
        f'pip install "numbacc[cu12]" installs it ({package}-cu12); with a CUDA 13 driver, pip install "numbacc[cu13]"'
    )


class Library:
    """One vendor library.

    Functions are attributes. Each one accepts integers (addresses for pointers), returns nothing, and raises `error` if
    the library returns a status other than 0. The library is loaded when a function is first used. No function is bound
    if the library is too old.

    Args:
        name: the library's name in cuda-pathfinder.
        error: the exception class of this library.
        functions: C name -> a letter of `TYPES` for each parameter. A few functions do not return a status, or return
            one that must not be checked. Their letters end in ">" and the letter of the result, if any.
        describe: (library, status) -> (the status's name, a sentence); both may be empty.
        remedy: what to do if the library is missing or too old.
        version: library -> its version as one number, in the format of its headers.
        oldest: the oldest supported version.
        since: enum -> member -> the first version that supports it, for members that the oldest supported version
            lacks.
        out_of_memory: statuses that mean, or may mean, that memory is short.
    """

    def __init__(
        self,
        name: str,
        error: type[LibraryError],
        functions: Mapping[str, str],
        describe: Callable[[Library, int], tuple[str, str]],
        remedy: str,
        version: Callable[[Library], int] | None = None,
        oldest: int = 0,
        since: Mapping[type[IntEnum], Mapping[Any, int]] | None = None,
        out_of_memory: Collection[int] = (),
    ):
        self._name = name
        self._error = error
        self._functions = functions
        self._describe = describe
        self._remedy = remedy
        self._version = version
        self._oldest = oldest
        self._since = since or {}
        self._loaded: ctypes.CDLL | None = None
        self._out_of_memory = out_of_memory
        self._refusal: Callable[[], Exception] | None = None
        # Reentrant: the version is queried while the library is being loaded, by a function that itself loads the
        # library.
        self._lock = threading.RLock()

    def load(self) -> ctypes.CDLL:
        """Load the library, and return it.

        Raises:
            the library's error class, with every searched path if it is missing, or with both versions if it is too
            old.
        """
        with self._lock:
            if self._loaded is None:
                try:
                    # Imported here: `import numbacc` loads no library, and not even the library loader.
                    from cuda.pathfinder import load_nvidia_dynamic_lib

                    path = load_nvidia_dynamic_lib(self._name).abs_path
                except (ImportError, RuntimeError) as error:
                    # The library or pathfinder is missing, or CUDA does not support this system.
                    raise self._error(
                        f"{self._name} was not found: {self._remedy}. The search failed with:\n{error}"
                    ) from None
                self._loaded = ctypes.CDLL(path)
                try:
                    self._refuse_old(path)
                except LibraryError:
                    self._loaded = None
                    raise
            return self._loaded

    def _refuse_old(self, path: str | None) -> None:
        if self._version and (found := self._version(self)) < self._oldest:
            raise self._error(
                f"numbacc needs {self._name} {self._oldest} or newer, but {path} is {found}: {self._remedy}"
            )

    def __getattr__(self, function: str) -> Callable[..., Any]:
        if function.startswith("_") or function not in self._functions:
            raise AttributeError(f"{self._name} does not declare the function {function!r}")
        if self._refusal:
            raise self._refusal()
        with self._lock:
            # Threads that waited for the load use the function that the first thread bound. ctypes has one object per
            # function, and a running call uses its types without a reference to them, so setting the types again would
            # free them.
            if function in vars(self):
                return vars(self)[function]  # type: ignore[no-any-return]
            bound = self._find(function)
            letters, unchecked, result = self._functions[function].partition(">")
            bound.argtypes = arguments(letters)
            # ctypes passes the status to `restype` and returns its result, so the check costs one call.
            bound.restype = TYPES.get(result) if unchecked else lambda status: self.check(function, status)
            setattr(self, function, bound)
            return bound  # type: ignore[no-any-return]

    def refuse(self, error: Callable[[], Exception]) -> None:
        """Make every call from now on raise this error."""
        for function in self._functions.keys() & vars(self).keys():
            delattr(self, function)
        self._refusal = error

    def _find(self, function: str) -> Any:
        try:
            return getattr(self.load(), function)
        except AttributeError:
            raise self._error(
                f"the loaded {self._name} lacks the function {function}: it is older than numbacc supports"
            ) from None

    def address(self, function: str) -> int:
        """Return the address of a declared function, for compiled callers; they pass its status to `check`."""
        if function not in self._functions:
            raise AttributeError(f"{self._name} does not declare the function {function!r}")
        return ctypes.cast(self._find(function), ctypes.c_void_p).value or 0

    def version(self) -> int:
        """Return the loaded library's version, as one number."""
        assert self._version is not None
        self.load()
        return self._version(self)

    def knows(self, member: IntEnum) -> bool:
        """Return True if the loaded library is new enough for an enum's member."""
        first = self._first_version(member)
        return not first or self.version() >= first

    def _first_version(self, member: IntEnum) -> int:
        # Members of different enums are equal if their numbers are, so each enum has a separate table.
        return self._since.get(type(member), {}).get(member, 0)

    def require(self, member: IntEnum) -> None:
        """Raise the library's error, naming both versions, unless the library is new enough for an enum's member."""
        if not self.knows(member):
            raise self._error(
                f"{type(member).__name__}.{member.name} needs {self._name} {self._first_version(member)} or newer; "
                f"{self.version()} is loaded"
            )

    def check(self, function: str, status: int) -> None:
        """Raise the library's error unless the status is 0."""
        if status:
            name, text = self._describe(self, status)
            name = name or "unknown status"
            raise self._error(
                f"{function} failed with status {status} ({name})" + (f": {text}" if text else ""),
                function=function,
                status=status,
                status_name=name,
                out_of_memory=status in self._out_of_memory,
            )


def by_table(statuses: type[IntEnum], texts: Mapping[Any, str]) -> Callable[[Library, int], tuple[str, str]]:
    """Return a `describe` function that reads a table, for a library without such a function."""
    names = {int(status): status.name for status in statuses}
    return lambda library, status: (names.get(status, ""), texts.get(status, ""))


def written_by(function: str) -> Callable[[Library], int]:
    """Return a `version` function for a library that writes its version to an int."""

    def version(library: Library) -> int:
        found = ctypes.c_int()
        getattr(library, function)(ctypes.addressof(found))
        return found.value

    return version


def arguments(letters: str) -> Sequence[Any]:
    """Return the ctypes types of a declaration."""
    return [TYPES[letter] for letter in letters]
