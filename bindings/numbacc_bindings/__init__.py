"""Thin ctypes bindings for NVIDIA's libraries: arguments are integers, and errors raise exceptions.

There is one module per library. A library is loaded when one of its functions is first called.
"""

from .errors import Error, LibraryError

__all__ = ["Error", "LibraryError"]
