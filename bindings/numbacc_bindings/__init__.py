"""Thin ctypes bindings over NVIDIA's libraries: raw integers in, exceptions out.

One module per library. Nothing is loaded until a function is first called.
"""

from .errors import Error, LibraryError

__all__ = ["Error", "LibraryError"]
