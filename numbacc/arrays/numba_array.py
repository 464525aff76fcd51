"""The side of device arrays that Numba sees: what it asks of an array, and its own arrays' methods on ours."""

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
    """Base of device arrays: Numba's, with every method replaced that would go past the order of memory."""

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
        # What the simulator's arrays wrap.
        whole = self._storage._memory
        offset = self._address - self._storage.address
        return numpy_view(whole, offset, self.shape, self.strides, self.dtype)

    if _numba.SIMULATED:

        @property
        def flags(self) -> dict[str, bool]:
            return {"C_CONTIGUOUS": self.is_c_contiguous(), "F_CONTIGUOUS": self.is_f_contiguous()}

    def __getattr__(self, name: str) -> Any:
        # Called for what is not found, and where a property raises AttributeError. The simulator's own arrays would
        # hand the question on to NumPy's.
        if name == "__cuda_array_interface__":
            raise AttributeError(f"the CUDA array interface has no name for {self.dtype}; use DLPack (from_dlpack)")
        raise no_attribute(name)

    @property
    def stream(self) -> Any:
        """The stream that Numba uses this array on by default."""
        bound = self.__dict__.get("_bound_stream")
        return _numba.external_stream(self._storage.stream) if bound is None else bound

    @stream.setter
    def stream(self, stream: Any) -> None:
        handle_of(stream)  # raises the error of what is not a stream
        self._bound_stream = stream

    def bind(self, stream: Any = 0) -> Any:
        """A view that Numba uses on `stream` by default.

        Raises:
            OptionError: stream is not a stream.
        """
        view = self.__copy__()
        view.stream = stream
        return view

    def split(self, section: int, stream: Any = 0) -> Iterator[Any]:
        """Views of `section` elements each, one behind the other; the last is shorter where the sizes do not divide.

        Args:
            section: elements of a part, at least 1.
            stream: what Numba uses the parts on by default; 0 for this array's own.

        Raises:
            ShapeError: the rank is not 1. OptionError: section is not such a number, or stream not a stream.
        """
        if self.ndim != 1:
            raise ShapeError(f"split takes an array of rank 1; this has shape {self.shape}")
        section = checks.integer(section, "section", 1)
        bound = self.bind(stream) if is_given(stream) else self
        return (bound.getitem(slice(k, k + section), stream) for k in range(0, bound.size, section))

    def get_ipc_handle(self) -> NoReturn:
        """Refused: CUDA makes no such handles of memory from a pool.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            "get_ipc_handle: numbacc's memory comes from a pool, of which CUDA makes no handles for other processes; "
            "pickle the array, which copies its values"
        )
