"""The two base classes of every exception that numbacc raises."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, TypeVar

_PACKAGES = ("numbacc", "numbacc_bindings")
_Own = TypeVar("_Own", bound="Error")


def _hide_frames() -> None:
    """Hide numbacc's frames in IPython's tracebacks, so that they end with the user's own frames.

    IPython and pytest skip frames with a local variable of this name. It is set only here, so that calls cost nothing.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    if shell is None or shell() is None:
        return
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _PACKAGES:
            frame.f_locals["__tracebackhide__"] = True
        frame = frame.f_back


class Error(Exception):
    """The base class of all errors raised by numbacc and its bindings.

    Example:
        >>> issubclass(numbacc.ShapeError, numbacc.Error)
        True
    """

    def __new__(cls: type[_Own], *arguments: Any, **options: Any) -> _Own:
        _hide_frames()
        return super().__new__(cls, *arguments, **options)


class LibraryError(Error, RuntimeError):
    """A vendor library is missing, or one of its functions failed.

    Attributes:
        function: the C function that failed, or None if no call was made.
        status: its status number, or None.
        status_name: the library's name of that number, or ``"unknown status"``.
        out_of_memory: whether the status means, or in this library may mean, that memory is short.

    Example:
        >>> numbacc.LibraryError("the library failed", status=7).status
        7
    """

    def __init__(
        self,
        message: str,
        *,
        function: str | None = None,
        status: int | None = None,
        status_name: str | None = None,
        out_of_memory: bool = False,
    ):
        super().__init__(message)
        self.function = function
        self.status = status
        self.status_name = status_name
        self.out_of_memory = out_of_memory
