"""The device array: Numba's `DeviceNDArray`, but cheap to make, and with views, DLPack and a readable repr.

A user's own `@cuda.jit` kernel accepts it like Numba's arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dispatch import runtime
from ..base.layout import (
    Layout,
    check_same_device,
    dense_like,
    is_dense,
    layout,
    overlap,
    read_only,
    row_major_strides,
)
from ..errors import Error, UnsupportedError
from ..kernels.elementwise.copy import copy
from ..runtime.streams import handle_of
from . import dlpack, tensors, values
from .foreign import check_is_no_value
from .interop import import_array, tensor_taker
from .methods import Methods
from .numba_array import NumbaArray
from .operators import Operators
from .viewing import Views

#: Scalars that are written with a fill.
_NUMBERS = (int, float, complex, np.number, np.bool_)


class DeviceArray(Operators, Methods, Views, NumbaArray):
    """An array in GPU memory.

    Attributes:
        shape, strides (bytes), dtype, ndim, size, itemsize, nbytes: as in NumPy.
        device: the GPU's number.

    Views (basic indexing, `T`, `transpose`, `reshape`, `view`, `broadcast_to`) share memory and queue nothing. Indexing
    a single element, `copy_to_host` and printing copy values to the host and wait for them. Operators and NumPy's
    functions call `numbacc.elementwise` on the GPU. NumPy functions without a GPU version raise an error. `copy.copy`
    returns a view, and `copy.deepcopy` a copy on the GPU. A pickle holds the values, and loads onto the current GPU, or
    into NumPy without a GPU.
    """

    # Numba's constructor takes 28 µs. Everything that it computes is derived here on demand.
    def __init__(self, layout: Layout, address: int, storage: Any, readonly: bool = False):
        self._numbacc_layout = layout
        self._address = address
        self._storage = storage
        self._readonly = readonly

    # ------------------------------------------------------------ copies

    def __copy__(self) -> DeviceArray:
        """Return a view of the whole array, because `copy.copy` shares memory."""
        return DeviceArray(self._numbacc_layout, self._address, self._storage, self._readonly)

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceArray:
        """Return a contiguous copy on the same GPU, in this memory order, queued on the default stream."""
        return self._compact(handle_of(None), row_major=False)

    def copy_to_host(self, ary: np.ndarray[Any, Any] | None = None, stream: Any = 0) -> np.ndarray[Any, Any]:
        """Return the values as a NumPy array: `ary`, if given. This blocks; `numbacc.asnumpy` need not.

        Raises:
            DTypeError: ary is not a NumPy array, or has another dtype.
            ShapeError: ary has another shape.
            LayoutError: ary is read-only.
            OptionError: stream is not a stream.
        """
        if ary is not None:
            values.check_target(ary, "ary", self._numbacc_layout, "the array")
        host = self._copy_to_host(None, self._handle(stream), "copy_to_host()")
        if ary is None:
            return host
        np.copyto(ary, host)
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Write `ary`, a NumPy or device array of this shape, into this array. It raises the errors of assignments."""
        self._assign(ary, self._handle(stream), "ary")

    def _usual_stream(self) -> int:
        """Return the cheapest stream for this array. Inside a graph's capture this is the captured stream."""
        default = handle_of(None)
        return default if default and runtime().is_capturing(default) else self._storage.stream

    def _check_values(self) -> None:
        if runtime().is_capturing(self._usual_stream()):
            raise UnsupportedError("inside a graph's capture nothing has been computed yet: print it after g.launch()")

    def _copy_to_host(self, out: np.ndarray[Any, Any] | None, handle: int, call: str) -> np.ndarray[Any, Any]:
        """Copy the values to the host. `call` is the function that the user called, for messages."""
        source = self
        if not is_dense(self._numbacc_layout) or (out is not None and not self.is_c_contiguous()):
            source = self._compact(handle, row_major=out is not None)
        own, host = source._numbacc_layout, out
        if host is None:
            memory = np.empty(own.nbytes, np.uint8)
            host = np.ndarray(own.shape, own.dtype, memory, 0, own.strides)
        if own.size:
            gpu, made = runtime(), out is None
            with gpu.using(handle, own.device, (source,)) as capture:
                gpu.copy_to_host(host, source._address, own.device, handle, capture, call=call, ordinary=made)
        return host

    def _compact(self, handle: int, *, row_major: bool) -> DeviceArray:
        """Return a contiguous copy on the device."""
        made = dense_like(self._numbacc_layout, self.shape)
        if row_major:
            strides = row_major_strides(self.shape, self.dtype.itemsize)
            made = layout(self.shape, strides, self.dtype, self.device)
        return copy(self, _empty(made, handle), handle)  # type: ignore[no-any-return]

    def _assign(self, value: Any, handle: int, name: str = "value") -> None:
        """Write a scalar, or an array from the host or this GPU, into this array; see `values`."""
        if self._readonly:
            raise read_only("this array")
        if isinstance(value, _NUMBERS) and is_dense(self._numbacc_layout):
            self._fill(value, handle, name)
            return
        source = value
        if not isinstance(value, DeviceArray) and not values.is_on_host(value):
            check_is_no_value(value, name)
            source = imported(value, name, handle)
        if isinstance(source, DeviceArray):
            check_same_device(source._numbacc_layout, name, self._numbacc_layout, "the array")
            values.check_same_dtype(source.dtype, name, self.dtype)
            source = values.broadcast(source, self.shape, name)
            one, other = (self._address, self._numbacc_layout), (source._address, source._numbacc_layout)
            if one != other and overlap(*one, *other):  # writing would change data that is still to be read
                source = source._compact(handle, row_major=False)
        else:
            host = values.broadcast(values.converted(source, self.dtype, name), self.shape, name)
            # A graph reads a host array at every launch, even one with a single element.
            kept = isinstance(source, np.ndarray) and runtime().is_capturing(handle)
            if host.size == 1 and not kept and is_dense(self._numbacc_layout):
                self._fill(host, handle, name)
                return
            source = to_device(host, self.device, handle)
        copy(source.broadcast_to(self.shape), self, handle)

    def _clear(self, handle: int) -> None:
        """Write 0 to all elements of new memory."""
        storage, layout = self._storage, self._numbacc_layout
        if not self.size:
            return
        if storage.sole != handle or runtime().clear(self._address, layout.nbytes, layout.device, handle):
            self._fill(0, handle)

    def _fill(self, value: Any, handle: int, name: str = "value") -> None:
        """Write one scalar to all elements; the array must be dense."""
        pattern = values.converted(value, self.dtype, name).tobytes()
        if self.size:
            with runtime().using(handle, self.device, writes=(self,)):
                runtime().fill(self._address, pattern, self.size, self.device, handle)

    # ------------------------------------------------------------ sharing with other libraries

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return (DLPack's number for CUDA devices, this array's GPU)."""
        return (dlpack.CUDA_DEVICE, self._numbacc_layout.device)

    __dlpack__ = dlpack.export

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the CUDA array interface. It does not support bfloat16 and float8; use DLPack for these."""
        if self.dtype.type.__module__ != "numpy":
            raise AttributeError  # `__getattr__` raises the error with the reason
        return {
            "shape": self.shape,
            "strides": None if self.is_c_contiguous() else self.strides,
            "data": (self._address, self._readonly),
            "typestr": self.dtype.str,
            # The interface's number of the legacy default stream is 1.
            "stream": runtime().settle(self._storage) or 1,
            "version": 3,
        }


def _empty(made: Layout, handle: int) -> DeviceArray:
    """Return an uninitialized array of a dense layout."""
    storage = runtime().allocate(made.nbytes, made.device, handle)
    return DeviceArray(made, storage.address, storage)


def to_device(host: np.ndarray[Any, Any], target: int, handle: int) -> DeviceArray:
    """Copy a NumPy array to a GPU."""
    dense = values.gapless(host)
    array = _empty(layout(dense.shape, dense.strides, dense.dtype, target), handle)
    if dense.size:
        runtime().copy_from_host(array._storage, array._address, dense, handle)
    return array


def imported(obj: Any, name: str, handle: int) -> Any:
    """Import another library's array by `import_array`; an array in host memory becomes a NumPy array."""
    found = import_array(obj, name, handle)
    return DeviceArray(*found) if type(found) is tuple else found


def importer_of(kind: type) -> Callable[[Any, str, int], Any]:
    """Return `imported`, or a faster function for torch's tensors, for arrays of a type that was imported before."""
    known = tensors.kind_of(kind)
    if known is None or not known.plain:
        return imported

    take = tensor_taker(known, DeviceArray)

    def taken(tensor: Any, name: str, handle: int) -> Any:
        try:
            found = take(tensor, name, handle)
        except Error:
            raise
        except Exception:
            found = None  # `imported` finds out what is wrong
        return imported(tensor, name, handle) if found is None else found

    return taken
