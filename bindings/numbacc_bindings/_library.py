"""A shared library whose functions are declared once, bound on first use, and checked on every call."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import IntEnum
from typing import Any

from .errors import LibraryError

#: How the letters of a declaration map to C types.
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
    """The remedy where a library of numbacc's extras, which come as wheels, is missing or too old."""
    return f'pip install "numbacc[cu12]" brings it ({package}-cu12), for a CUDA 13 driver pip install "numbacc[cu13]"'


class Library:
    """One vendor library.

    Functions are attributes. Each takes integers (addresses for pointers), returns nothing, and raises
    `error` where the library returns a status other than 0. Nothing is loaded until the first is used, and no
    function is bound of a library that is too old.

    Args:
        name: the name that cuda-pathfinder knows the library by.
        error: the exception class of this library.
        functions: C name -> a letter of `TYPES` for each parameter; behind a ">" that of the result, for the
            few functions that return something else than a status, or one that is not to be checked, or nothing.
        describe: (library, status) -> the status's name and a sentence, either possibly empty.
        remedy: what to do when the library is not found, or too old.
        version: library -> its version as one number, as its headers spell it.
        oldest: the oldest version supported.
        since: enum -> member -> the first version that knows it, for members younger than the oldest version supported.
        out_of_memory: statuses that say, or may mean, that memory is short.
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
        # The version is asked for while the library is loaded, by a function that wants it loaded.
        self._lock = threading.RLock()

    def load(self) -> ctypes.CDLL:
        """The loaded library.

        Raises:
            the library's error class, with every path searched, where it is not found, or with both versions
            where it is too old.
        """
        with self._lock:
            if self._loaded is None:
                try:
                    # Imported here: `import numbacc` loads no library, and no library loader either.
                    from cuda.pathfinder import load_nvidia_dynamic_lib

                    path = load_nvidia_dynamic_lib(self._name).abs_path
                except (ImportError, RuntimeError) as error:
                    # Found nowhere, no pathfinder, or a system that CUDA does not run on.
                    raise self._error(
                        f"{self._name} was not found: {self._remedy}. The search for it ended with:\n{error}"
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
                f"numbacc needs {self._name} {self._oldest} or newer, and {path} is {found}: {self._remedy}"
            )

    def __getattr__(self, function: str) -> Callable[..., Any]:
        if function.startswith("_") or function not in self._functions:
            raise AttributeError(f"{self._name} has no declared function {function!r}")
        if self._refusal:
            raise self._refusal()
        with self._lock:
            # Threads that waited for the library to load find what the first of them bound. ctypes has one object a
            # function, and a call under way uses its types without holding them: to set them anew would free them.
            if function in vars(self):
                return vars(self)[function]  # type: ignore[no-any-return]
            bound = self._find(function)
            letters, unchecked, result = self._functions[function].partition(">")
            bound.argtypes = arguments(letters)
            # ctypes hands the status to `restype` and returns what that returns: the check costs one call.
            bound.restype = TYPES.get(result) if unchecked else lambda status: self.check(function, status)
            setattr(self, function, bound)
            return bound  # type: ignore[no-any-return]

    def refuse(self, error: Callable[[], Exception]) -> None:
        """Let every call from now on raise this error."""
        for function in self._functions.keys() & vars(self).keys():
            delattr(self, function)
        self._refusal = error

    def _find(self, function: str) -> Any:
        try:
            return getattr(self.load(), function)
        except AttributeError:
            raise self._error(
                f"the loaded {self._name} has no function {function}: it is older than numbacc supports"
            ) from None

    def address(self, function: str) -> int:
        """The address of a declared function, for compiled callers; they pass its status to `check`."""
        if function not in self._functions:
            raise AttributeError(f"{self._name} has no declared function {function!r}")
        return ctypes.cast(self._find(function), ctypes.c_void_p).value or 0

    def version(self) -> int:
        """The loaded library's version, as one number."""
        assert self._version is not None
        self.load()
        return self._version(self)

    def knows(self, member: IntEnum) -> bool:
        """True if the loaded library is young enough for an enum's member."""
        first = self._first_version(member)
        return not first or self.version() >= first

    def _first_version(self, member: IntEnum) -> int:
        # Members of different enums are equal where their numbers are, so each enum has a table of its own.
        return self._since.get(type(member), {}).get(member, 0)

    def require(self, member: IntEnum) -> None:
        """Raise the library's error, naming both versions, unless the library is young enough for an enum's member."""
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
    """`describe` of a library that has no function for it."""
    names = {int(status): status.name for status in statuses}
    return lambda library, status: (names.get(status, ""), texts.get(status, ""))


def written_by(function: str) -> Callable[[Library], int]:
    """`version` of a library that writes it to an int."""

    def version(library: Library) -> int:
        found = ctypes.c_int()
        getattr(library, function)(ctypes.addressof(found))
        return found.value

    return version


def arguments(letters: str) -> Sequence[Any]:
    """The ctypes of a declaration."""
    return [TYPES[letter] for letter in letters]
