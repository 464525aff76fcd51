"""The part of a device array that Numba uses: the attributes that it reads, and its own arrays' methods."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from ..base import _numba, checks
from ..base.layout import numpy_view
from ..errors import ShapeError, UnsupportedError
from ..runtime.streams import handle_of
from .viewing import is_given, no_attribute


class NumbaArray(_numba.DeviceNDArray):  # type: ignore[misc]
    """A base class of device arrays: Numba's class, with all methods replaced that would bypass the memory order."""

    @property
    def alloc_size(self) -> int:
        return int(self._numbacc_layout.high - self._numbacc_layout.low)

    @cached_property
    def _dummy(self) -> Any:
        return _numba.dummy_array(self.shape, self.strides, self.dtype.itemsize)

    @cached_property
    def gpu_data(self) -> Any:
        return _numba.memory_pointer(self._address, self.alloc_size, self.device, self._storage)

    @cached_property
    def _ary(self) -> np.ndarray[Any, Any]:
        # The simulator's arrays wrap this NumPy array.
        whole = self._storage._memory
        offset = self._address - self._storage.address
        return numpy_view(whole, offset, self.shape, self.strides, self.dtype)

    if _numba.SIMULATED:

        @property
        def flags(self) -> dict[str, bool]:
            return {"C_CONTIGUOUS": self.is_c_contiguous(), "F_CONTIGUOUS": self.is_f_contiguous()}

    def __getattr__(self, name: str) -> Any:
        # Called for missing attributes, and if a property raises AttributeError. The simulator's own class would look
        # the name up in its NumPy array.
        if name == "__cuda_array_interface__":
            raise AttributeError(f"the CUDA array interface does not support {self.dtype}; use DLPack (from_dlpack)")
        raise no_attribute(name)

    @property
    def stream(self) -> Any:
        """The stream that Numba uses this array on by default."""
        bound = self.__dict__.get("_bound_stream")
        return _numba.external_stream(self._storage.stream) if bound is None else bound

    @stream.setter
    def stream(self, stream: Any) -> None:
        handle_of(stream)  # raises the error for an object that is not a stream
        self._bound_stream = stream

    def bind(self, stream: Any = 0) -> Any:
        """Return a view that Numba uses on `stream` by default.

        Raises:
            OptionError: stream is not a stream.
        """
        view = self.__copy__()
        view.stream = stream
        return view

    def split(self, section: int, stream: Any = 0) -> Iterator[Any]:
        """Return consecutive views of `section` elements each; the last one may be shorter.

        Args:
            section: elements per view, at least 1.
            stream: the stream that Numba uses the views on by default; 0 for this array's own.

        Raises:
            ShapeError: the rank is not 1.
            OptionError: section is not an integer of at least 1, or stream is not a stream.
        """
        if self.ndim != 1:
            raise ShapeError(f"split needs an array of rank 1; this has shape {self.shape}: use x.ravel()")
        section = checks.integer(section, "section", 1)
        bound = self.bind(stream) if is_given(stream) else self
        return (bound.getitem(slice(k, k + section), stream) for k in range(0, bound.size, section))

    def get_ipc_handle(self) -> NoReturn:
        """Raise UnsupportedError: CUDA cannot make such handles for memory from a pool.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            "get_ipc_handle: numbacc's memory comes from a pool, for which CUDA cannot make handles for other "
            "processes; pickle the array, which copies its values"
        )
