"""The device array: Numba's `DeviceNDArray`, cheap to make, with views, DLPack and a readable form.

A user's own `@cuda.jit` kernel takes it as it takes Numba's own arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from . import _numba, dtypes, values
from .backend import backend
from .errors import DTypeError, LayoutError, ShapeError, UnsupportedError
from .layout import (
    Layout,
    basic_index,
    dense_like,
    index_parts,
    is_dense,
    layout,
    numpy_view,
    overlap,
    row_major_strides,
    shadow,
)
from .operators import Operators
from .streams import handle_of

#: Arrays up to this many elements print their values.
_PRINTED = 64

#: What is written by filling, at once.
_NUMBERS = (int, float, complex, np.number, np.bool_)


class DeviceArray(Operators, _numba.DeviceNDArray):  # type: ignore[misc]
    """An array in GPU memory.

    Attributes:
        shape, strides (bytes), dtype, ndim, size, nbytes: as in NumPy.
        device: the GPU's number.

    Views (basic indexing, `T`, `transpose`, `reshape`, `view`, `broadcast_to`) share memory and queue nothing.
    Indexing a single element, `copy_to_host` and printing copy values to the host and wait for them; operators,
    comparisons and NumPy's functions do not, and are refused. `copy.copy` gives a view, `copy.deepcopy` a copy on the
    GPU; a pickle holds the values, and loads onto the current GPU, or into NumPy where there is none.
    """

    # Numba's constructor costs 28 µs; everything it computes is derived here when it is asked for.
    def __init__(self, layout: Layout, address: int, storage: Any, readonly: bool = False):
        self._numbacc_layout = layout
        self._address = address
        self._storage = storage
        if readonly:
            self._readonly = True

    _readonly = False

    shape = property(lambda self: self._numbacc_layout.shape)
    strides = property(lambda self: self._numbacc_layout.strides)
    dtype = property(lambda self: self._numbacc_layout.dtype)
    ndim = property(lambda self: self._numbacc_layout.ndim)
    size = property(lambda self: self._numbacc_layout.size)
    nbytes = property(lambda self: self._numbacc_layout.nbytes)
    device = property(lambda self: self._numbacc_layout.device)

    # ------------------------------------------------------------ what Numba asks for

    @property
    def alloc_size(self) -> int:
        return self._numbacc_layout.high - self._numbacc_layout.low

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

    @property
    def stream(self) -> Any:
        """The stream that Numba uses this array on by default."""
        bound = self.__dict__.get("_bound_stream")
        return _numba.external_stream(self._storage.stream) if bound is None else bound

    @stream.setter
    def stream(self, stream: Any) -> None:
        self._bound_stream = stream

    def __getattr__(self, name: str) -> Any:
        # Called for what is not found, and where a property raises AttributeError. The simulator's own arrays would
        # hand the question on to NumPy's.
        if name == "__cuda_array_interface__":
            raise AttributeError(f"the CUDA array interface has no name for {self.dtype}; use DLPack (from_dlpack)")
        raise AttributeError(f"a device array has no attribute {name!r}; numbacc.asnumpy(x) gives NumPy's", name=name)

    if _numba.SIMULATED:

        @property
        def flags(self) -> dict[str, bool]:
            return {"C_CONTIGUOUS": self.is_c_contiguous(), "F_CONTIGUOUS": self.is_f_contiguous()}

    # ------------------------------------------------------------ views

    def _part(self, view: np.ndarray[Any, Any], dtype: np.dtype[Any] | None = None) -> DeviceArray:
        """The view of this array that corresponds to a view of its shadow."""
        made = layout(view.shape, view.strides, dtype or self.dtype, self.device)
        address = view.__array_interface__["data"][0] if self.size else self._address
        return DeviceArray(made, address, self._storage, self._readonly)

    def _shadow(self) -> np.ndarray[Any, Any]:
        return shadow(self._address, self._numbacc_layout)

    def __getitem__(self, index: Any) -> Any:
        """A view by basic indexing (integers, slices, None, Ellipsis); a single element as a NumPy scalar.

        Reading an element waits for the work queued on the array's stream.
        """
        part = self._part(self._shadow()[basic_index(index)])
        if part.ndim == 0 and self.ndim and None not in index_parts(index):
            return part.copy_to_host()[()]
        return part

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write a number, an array or a list into a part, queued on the default stream; it broadcasts as in NumPy.

        Numbers must fit the dtype (300 and NaN are no int8), NumPy's arrays are cast; an array on the GPU must have
        this dtype, and may overlap the part.

        Raises:
            OptionError: a number that does not fit. DTypeError: no number, a complex one where this array is not, or
            a GPU's array of another dtype. ShapeError: no broadcasting. LayoutError: this array is read-only, or its
            elements share memory. DeviceError: an array of another device.
        """
        part = self if index is Ellipsis else self._part(self._shadow()[basic_index(index)])
        part._assign(value, handle_of(None))

    def transpose(self, axes: Sequence[int] | None = None) -> DeviceArray:
        """A view with the axes reversed, or in the order of `axes`."""
        return self._part(self._shadow().transpose(axes))

    @property
    def T(self) -> DeviceArray:
        """A view with the axes reversed."""
        return self.transpose()

    def reshape(self, *shape: Any, order: str = "C") -> DeviceArray:
        """A view of another shape.

        Raises:
            LayoutError: the strides allow no such view; copy first.
            ShapeError: the sizes differ.
        """
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        if order != "C":
            raise LayoutError(f'order={order!r} is not supported: only "C"')
        try:
            # NumPy decides what -1 means and whether the strides allow the view.
            lengths = np.broadcast_to(np.uint8(0), self.shape).reshape(wanted).shape
        except ValueError as error:
            raise ShapeError(f"cannot reshape {self.shape} to {wanted}: {error}") from None
        if self.size == 0:
            strides = row_major_strides(lengths, self.dtype.itemsize)
            made = layout(lengths, strides, self.dtype, self.device)
            return DeviceArray(made, self._address, self._storage, self._readonly)
        try:
            return self._part(self._shadow().reshape(lengths, copy=False))
        except ValueError:
            raise LayoutError(
                f"an array of shape {self.shape} and strides {self.strides} cannot be seen as {lengths} without "
                "a copy: use numbacc.asarray(numbacc.asnumpy(x)) or copy it into numbacc.empty"
            ) from None

    def ravel(self, order: str = "C") -> DeviceArray:
        """A one-dimensional view; errors as in `reshape`."""
        return self.reshape(-1, order=order)

    def squeeze(self, axis: Any = None) -> DeviceArray:
        """A view without the axes of length 1."""
        return self._part(self._shadow().squeeze(axis))

    def broadcast_to(self, shape: Sequence[int]) -> DeviceArray:
        """A view repeated along new or length-1 axes (stride 0), not to be written."""
        return self._part(np.broadcast_to(self._shadow(), shape))

    def view(self, dtype: Any) -> DeviceArray:
        """The same bytes as another dtype of the same size.

        Raises:
            DTypeError: the sizes differ.
        """
        found = dtypes.dtype(dtype)
        if found.itemsize != self.dtype.itemsize:
            raise DTypeError(f"cannot view {self.dtype} as {found}: their sizes differ")
        return self._part(self._shadow(), found)

    def bind(self, stream: Any = 0) -> DeviceArray:
        """A view that Numba uses on `stream` by default."""
        view = self.__copy__()
        view.stream = stream
        return view

    # ------------------------------------------------------------ copies

    def __copy__(self) -> DeviceArray:
        """A view of all of it: `copy.copy` shares memory."""
        return DeviceArray(self._numbacc_layout, self._address, self._storage, self._readonly)

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceArray:
        """A copy of the elements on the same GPU, gapless, in this memory order, queued on the default stream."""
        return self._compact(handle_of(None), row_major=False)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle the values, by way of the host, which blocks: see `arrays.unpickled`."""
        from .arrays import unpickled

        host = self.copy_to_host()
        # NumPy keeps C and Fortran order only: any other travels as an order of the axes.
        axes = sorted(range(self.ndim), key=lambda d: -host.strides[d])
        return unpickled, (host.transpose(axes), tuple(sorted(range(self.ndim), key=axes.__getitem__)))

    def copy_to_host(self, ary: np.ndarray[Any, Any] | None = None, stream: Any = 0) -> Any:
        """The values as a NumPy array; `ary` if given. This blocks (see `numbacc.asnumpy` for one that need not)."""
        handle = handle_of(stream) if stream else self._usual_stream()
        host = self._copy_to_host(None, handle)
        if ary is None:
            return host
        np.copyto(ary, host)
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Write `ary`, a NumPy or device array of this shape, into this array."""
        self._assign(ary, handle_of(stream) if stream else self._usual_stream())

    def _usual_stream(self) -> int:
        """Where it costs least to use this array; but what is called inside a graph's capture belongs there."""
        default = handle_of(None)
        return default if default and backend().is_capturing(default) else self._storage.stream

    def _copy_to_host(self, out: np.ndarray[Any, Any] | None, handle: int) -> np.ndarray[Any, Any]:
        source = self
        if not is_dense(self._numbacc_layout) or (out is not None and not self.is_c_contiguous()):
            source = self._compact(handle, row_major=out is not None)
        host = out
        if host is None:
            memory = np.empty(self.nbytes, np.uint8)
            host = np.ndarray(self.shape, self.dtype, memory, 0, source.strides)
        if self.size:
            with backend().using(handle, self.device, (source,)):
                backend().copy_to_host(host, source._address, self.device, handle)
        return host

    def _compact(self, handle: int, *, row_major: bool) -> DeviceArray:
        """A gapless copy on the device."""
        from .arrays import empty_device
        from .copy import copy

        made = dense_like(self._numbacc_layout, self.shape)
        if row_major:
            strides = row_major_strides(self.shape, self.dtype.itemsize)
            made = layout(self.shape, strides, self.dtype, self.device)
        return copy(self, empty_device(made, handle), handle)  # type: ignore[no-any-return]

    def _assign(self, value: Any, handle: int, name: str = "value") -> None:
        """Write a number, or an array of the host or this GPU, into this array: see `values`."""
        from . import arrays
        from .copy import copy

        if self._readonly:
            raise LayoutError("this array is read-only")
        if isinstance(value, _NUMBERS) and is_dense(self._numbacc_layout):
            self._fill(value, handle, name)
            return
        source = value if values.is_on_host(value) else arrays.as_array(value, name, handle)
        if isinstance(source, DeviceArray):
            arrays.check_same_device(source._numbacc_layout, name, self._numbacc_layout, "the array")
            if source.dtype != self.dtype:
                raise DTypeError(
                    f"{name} has dtype {source.dtype} and the array {self.dtype}; convert it with its own library, or "
                    "on the host: numbacc.asnumpy(value)"
                )
            source = values.broadcast(source, self.shape, name)
            if self._overlaps(source):
                source = source._compact(handle, row_major=False)
        else:
            host = values.broadcast(values.converted(source, self.dtype, name), self.shape, name)
            # A graph reads an array of the host at every launch, also one of a single element.
            kept = isinstance(source, np.ndarray) and backend().is_capturing(handle)
            if host.size == 1 and not kept and is_dense(self._numbacc_layout):
                self._fill(host, handle, name)
                return
            source = arrays.to_device(host, self.device, handle)
        copy(source.broadcast_to(self.shape), self, handle)

    def _overlaps(self, source: DeviceArray) -> bool:
        """True if writing this array changes what is still to be read of another."""
        one, other = self._numbacc_layout, source._numbacc_layout
        if self._address == source._address and one is other:
            return False
        return overlap(self._address, one, source._address, other)

    def _fill(self, value: Any, handle: int, name: str = "value") -> None:
        """Write one number everywhere; the array must be dense."""
        pattern = values.converted(value, self.dtype, name).tobytes()
        if self.size:
            with backend().using(handle, self.device, writes=(self,)):
                backend().fill(self._address, pattern, self.size, self.device, handle)

    # ------------------------------------------------------------ sharing with other libraries

    def __dlpack_device__(self) -> tuple[int, int]:
        """(DLPack's number for CUDA devices, this array's GPU)."""
        from .dlpack import CUDA_DEVICE

        return (CUDA_DEVICE, self.device)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of this memory; the consumer's `stream` waits for what is queued on it.

        Raises:
            BufferError: a copy or another device is asked for, or the array is read-only and the consumer too old
                to be told.
        """
        from .dlpack import export_capsule

        return export_capsule(self, stream, max_version, dl_device, copy)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3. Not for bfloat16 and float8, which it cannot name: those cross by DLPack."""
        if self.dtype.type.__module__ != "numpy":
            raise AttributeError  # `__getattr__` says why
        return {
            "shape": self.shape,
            "strides": None if self.is_c_contiguous() else self.strides,
            "data": (self._address, self._readonly),
            "typestr": self.dtype.str,
            # The interface says 1 for the legacy default stream.
            "stream": backend().settle(self._storage) or 1,
            "version": 3,
        }

    def is_c_contiguous(self) -> bool:
        return bool(self.size == 0 or self._shadow().flags.c_contiguous)

    def is_f_contiguous(self) -> bool:
        return bool(self.size == 0 or self._shadow().flags.f_contiguous)

    # ------------------------------------------------------------ how it looks

    def __repr__(self) -> str:
        head = f"DeviceArray(shape={self.shape}, dtype={self.dtype}, device=cuda:{self.device})"
        if not 0 < self.size <= _PRINTED:
            return head
        try:
            return f"{head}\n{self.copy_to_host()}"
        except UnsupportedError:
            return head  # inside a graph's capture, where there are no values yet

    __str__ = __repr__

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of an array of rank 0")
        return int(self.shape[0])

    def __iter__(self) -> Any:
        return (self[k] for k in range(len(self)))

    def item(self) -> Any:
        """The value of an array of one element, as a Python number. This blocks."""
        if math.prod(self.shape) != 1:
            raise ShapeError(f"item() takes an array of one element; this has shape {self.shape}")
        return self.copy_to_host().item()
