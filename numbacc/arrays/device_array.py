"""The device array: Numba's `DeviceNDArray`, cheap to make, with views, DLPack and a readable form.

A user's own `@cuda.jit` kernel takes it as it takes Numba's own arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base import checks, dtypes, views
from ..base.dispatch import runtime
from ..base.layout import (
    Layout,
    axes_of,
    check_same_device,
    dense_like,
    integers_of,
    is_dense,
    layout,
    lengths_of,
    overlap,
    read_only,
    row_major_strides,
)
from ..device.copying import copy
from ..device.streams import handle_of
from ..errors import DTypeError, Error, LayoutError, ShapeError, UnsupportedError, shown
from . import dlpack, tensors, values
from .foreign import check_is_no_value
from .interop import import_array, tensor_taker
from .methods import Methods
from .numba_array import NumbaArray, is_given
from .operators import Operators

#: Arrays up to this many elements print their values.
_PRINTED = 64

#: What is written by filling, at once.
_NUMBERS = (int, float, complex, np.number, np.bool_)


class DeviceArray(Operators, Methods, NumbaArray):
    """An array in GPU memory.

    Attributes:
        shape, strides (bytes), dtype, ndim, size, itemsize, nbytes: as in NumPy.
        device: the GPU's number.

    Views (basic indexing, `T`, `transpose`, `reshape`, `view`, `broadcast_to`) share memory and queue nothing.
    Indexing a single element, `copy_to_host` and printing copy values to the host and wait for them. Operators and
    NumPy's functions are those of `numbacc.elementwise`, on the GPU; what has no function is refused. `copy.copy`
    gives a view, `copy.deepcopy` a copy on the GPU; a pickle holds the values, and loads onto the current GPU, or into
    NumPy where there is none.
    """

    # Numba's constructor costs 28 µs; everything it computes is derived here when it is asked for.
    def __init__(self, layout: Layout, address: int, storage: Any, readonly: bool = False):
        self._numbacc_layout = layout
        self._address = address
        self._storage = storage
        self._readonly = readonly

    shape = property(lambda self: self._numbacc_layout.shape)
    strides = property(lambda self: self._numbacc_layout.strides)
    dtype = property(lambda self: self._numbacc_layout.dtype)
    ndim = property(lambda self: self._numbacc_layout.ndim)
    size = property(lambda self: self._numbacc_layout.size)
    itemsize = property(lambda self: self._numbacc_layout.itemsize)
    nbytes = property(lambda self: self._numbacc_layout.nbytes)
    device = property(lambda self: self._numbacc_layout.device)

    # ------------------------------------------------------------ views

    def _seen(self, made: Layout, offset: int = 0) -> DeviceArray:
        """A view of this array's memory, so many bytes behind its address."""
        return DeviceArray(made, self._address + offset, self._storage, self._readonly)

    def _at(self, index: Any) -> DeviceArray:
        return self._seen(*views.part(self._numbacc_layout, index))

    def __getitem__(self, index: Any) -> Any:
        """A view by basic indexing (integers, slices, None, Ellipsis); a single element, unless by Ellipsis, as a NumPy
        scalar.

        Reading an element waits for the work queued on the array's stream.

        Raises:
            LayoutError: another kind of index. IndexRangeError: an index is out of range.
        """
        made, offset = views.part(self._numbacc_layout, index)
        if made.ndim:
            return DeviceArray(made, self._address + offset, self._storage, self._readonly)
        return self.getitem(index)

    def getitem(self, item: Any, stream: Any = 0) -> Any:
        """As `array[item]`: an element is read on `stream`, which a view is bound to; 0 stands for the array's own."""
        part = self._at(item)
        # As in NumPy: with None or ... it is an array, of rank 0.
        if part.ndim == 0 and self.ndim and not any(e is None or e is Ellipsis for e in views.index_parts(item)):
            return part._copy_to_host(None, part._handle(stream), "reading an element")[()]
        return part.bind(stream) if is_given(stream) else part

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write a number, an array or a list into a part, queued on the default stream; it broadcasts as in NumPy.

        Numbers must fit the dtype (300 and NaN are not int8), NumPy's arrays are cast; an array on the GPU must have
        this dtype, and may overlap the part.

        Raises:
            OptionError: a number that does not fit. DTypeError: no number, a complex one where this array is not, or
            a GPU's array of another dtype. ShapeError: no broadcasting. LayoutError: this array is read-only, or its
            elements share memory. DeviceError: an array of another device. As indexing besides.
        """
        if isinstance(value, DeviceArray) and value._storage is self._storage:
            values.check_is_no_exchange()
        self.setitem(index, value)

    def setitem(self, key: Any, value: Any, stream: Any = 0) -> None:
        """As `array[key] = value`, queued on `stream`; 0 stands for the default stream."""
        part = self if key is Ellipsis else self._at(key)
        part._assign(value, handle_of(stream if is_given(stream) else None))

    _do_getitem, _do_setitem = getitem, setitem  # as Numba's own methods call them

    def transpose(self, *order_of_axes: Any, axes: Sequence[int] | None = None) -> DeviceArray:
        """A view with the axes reversed, or in another order: x.transpose((1, 0)), x.transpose(1, 0).

        Raises:
            ShapeError: axes does not name each axis once.
        """
        if order_of_axes:
            axes = order_of_axes[0] if len(order_of_axes) == 1 else order_of_axes
        order = None if axes is None else axes_of(axes, self.ndim, "the array", "axes")
        if order is not None and len(order) != self.ndim:
            raise ShapeError(f"axes={shown(axes)} must name each axis of shape {self.shape}")
        return self._seen(views.transposed(self._numbacc_layout, order))

    @property
    def T(self) -> DeviceArray:
        """A view with the axes reversed."""
        return self._seen(views.transposed(self._numbacc_layout))

    @property
    def mT(self) -> DeviceArray:
        """A view with the last two axes exchanged.

        Raises:
            ShapeError: there are none.
        """
        if self.ndim < 2:
            raise ShapeError(f"the array has rank {self.ndim}; mT exchanges the last two axes")
        return self._seen(views.transposed(self._numbacc_layout, (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)))

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> DeviceArray:
        """Return a view of another shape; with copy=True a C-contiguous copy of it, on the default stream.

        Raises:
            LayoutError: the strides allow no such view: pass copy=True.
            ShapeError: it is not a shape, or the sizes differ.
        """
        wanted = integers_of(shape[0] if len(shape) == 1 else shape, "shape")
        if not isinstance(order, str) or order != "C":
            raise LayoutError(f'order={shown(order)} is not supported: only "C"')
        if copy is not None and checks.boolean(copy, "copy"):
            return self._compact(handle_of(None), row_major=True).reshape(*wanted)
        return self._seen(views.reshaped(self._numbacc_layout, wanted))

    def ravel(self, order: str = "C") -> DeviceArray:
        """The elements in one dimension: a view of a C-contiguous array, else a copy. Errors as in `reshape`."""
        contiguous = views.is_contiguous(self._numbacc_layout) or order != "C"
        return self.reshape(-1, order=order) if contiguous else self.flatten()

    def squeeze(self, axis: int | Sequence[int] | None = None) -> DeviceArray:
        """A view without the axes of length 1, or without those that `axis` names.

        Raises:
            ShapeError: axis is none of this array, or its length is not 1.
        """
        found = None if axis is None else axes_of(axis, self.ndim, "the array", "axis")
        if any(self.shape[d] != 1 for d in found or ()):
            raise ShapeError(f"axis={shown(axis)} must name axes of length 1; the array has shape {self.shape}")
        return self._seen(views.squeezed(self._numbacc_layout, found))

    def broadcast_to(self, shape: int | Sequence[int]) -> DeviceArray:
        """A view repeated along new or length-1 axes (stride 0), not to be written.

        Raises:
            ShapeError: it is not a shape, or one that this array does not broadcast to.
        """
        lengths = lengths_of(shape, self.dtype.itemsize)
        return self._seen(views.broadcast(self._numbacc_layout, lengths))

    def view(self, dtype: Any = None) -> DeviceArray:
        """The same bytes, as another dtype of the same size if one is given.

        Raises:
            DTypeError: the sizes differ.
        """
        found = self.dtype if dtype is None else dtypes.dtype(dtype)
        if found.itemsize != self.dtype.itemsize:
            raise DTypeError(f"cannot view {self.dtype} as {found}: their sizes differ")
        own = self._numbacc_layout
        return self._seen(layout(own.shape, own.strides, found, own.device))

    # ------------------------------------------------------------ copies

    def __copy__(self) -> DeviceArray:
        """A view of all of it: `copy.copy` shares memory."""
        return DeviceArray(self._numbacc_layout, self._address, self._storage, self._readonly)

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceArray:
        """A copy of the elements on the same GPU, gapless, in this memory order, queued on the default stream."""
        return self._compact(handle_of(None), row_major=False)

    def copy_to_host(self, ary: np.ndarray[Any, Any] | None = None, stream: Any = 0) -> np.ndarray[Any, Any]:
        """The values as a NumPy array; `ary` if given. This blocks (see `numbacc.asnumpy` for one that need not).

        Raises:
            DTypeError: ary is not a NumPy array, or has another dtype. ShapeError: another shape. LayoutError: it is
            read-only. OptionError: stream is none.
        """
        if ary is not None:
            values.check_target(ary, "ary", self._numbacc_layout, "the array")
        host = self._copy_to_host(None, self._handle(stream), "copy_to_host()")
        if ary is None:
            return host
        np.copyto(ary, host)
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Write `ary`, a NumPy or device array of this shape, into this array. Errors as in assignments."""
        self._assign(ary, self._handle(stream), "ary")

    def _handle(self, stream: Any) -> int:
        return handle_of(stream) if is_given(stream) else self._usual_stream()

    def _usual_stream(self) -> int:
        """Where it costs least to use this array; but what is called inside a graph's capture belongs there."""
        default = handle_of(None)
        return default if default and runtime().is_capturing(default) else self._storage.stream

    def _copy_to_host(self, out: np.ndarray[Any, Any] | None, handle: int, call: str) -> np.ndarray[Any, Any]:
        """The values; `call` is what the user called, for messages."""
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
        """A gapless copy on the device."""
        made = dense_like(self._numbacc_layout, self.shape)
        if row_major:
            strides = row_major_strides(self.shape, self.dtype.itemsize)
            made = layout(self.shape, strides, self.dtype, self.device)
        return copy(self, _empty(made, handle), handle)  # type: ignore[no-any-return]

    def _assign(self, value: Any, handle: int, name: str = "value") -> None:
        """Write a number, or an array of the host or this GPU, into this array: see `values`."""
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
            if source.dtype != self.dtype:
                raise DTypeError(
                    f"{name} has dtype {source.dtype} and the array {self.dtype}; convert it: "
                    f"numbacc.elementwise.astype({name}, {self.dtype.name!r})"
                )
            source = values.broadcast(source, self.shape, name)
            one, other = (self._address, self._numbacc_layout), (source._address, source._numbacc_layout)
            if one != other and overlap(*one, *other):  # writing would change what is still to be read
                source = source._compact(handle, row_major=False)
        else:
            host = values.broadcast(values.converted(source, self.dtype, name), self.shape, name)
            # A graph reads an array of the host at every launch, also one of a single element.
            kept = isinstance(source, np.ndarray) and runtime().is_capturing(handle)
            if host.size == 1 and not kept and is_dense(self._numbacc_layout):
                self._fill(host, handle, name)
                return
            source = to_device(host, self.device, handle)
        copy(source.broadcast_to(self.shape), self, handle)

    def _fill(self, value: Any, handle: int, name: str = "value") -> None:
        """Write one number everywhere; the array must be dense."""
        pattern = values.converted(value, self.dtype, name).tobytes()
        if self.size:
            with runtime().using(handle, self.device, writes=(self,)):
                runtime().fill(self._address, pattern, self.size, self.device, handle)

    # ------------------------------------------------------------ sharing with other libraries

    def __dlpack_device__(self) -> tuple[int, int]:
        """(DLPack's number for CUDA devices, this array's GPU)."""
        return (dlpack.CUDA_DEVICE, self._numbacc_layout.device)

    __dlpack__ = dlpack.export

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
            "stream": runtime().settle(self._storage) or 1,
            "version": 3,
        }

    def is_c_contiguous(self) -> bool:
        return views.is_contiguous(self._numbacc_layout)

    def is_f_contiguous(self) -> bool:
        return views.is_contiguous(views.transposed(self._numbacc_layout))

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


def _empty(made: Layout, handle: int) -> DeviceArray:
    """An uninitialized array of a dense layout."""
    storage = runtime().allocate(made.nbytes, made.device, handle)
    return DeviceArray(made, storage.address, storage)


def to_device(host: np.ndarray[Any, Any], target: int, handle: int) -> DeviceArray:
    """A copy of a NumPy array on a GPU."""
    dense = values.gapless(host)
    array = _empty(layout(dense.shape, dense.strides, dense.dtype, target), handle)
    if dense.size:
        runtime().copy_from_host(array._storage, array._address, dense, handle)
    return array


def imported(obj: Any, name: str, handle: int) -> Any:
    """Another library's array, as `import_array` takes it; NumPy's where it is in host memory."""
    found = import_array(obj, name, handle)
    return DeviceArray(*found) if type(found) is tuple else found


def importer_of(kind: type) -> Callable[[Any, str, int], Any]:
    """`imported` for arrays of one type, of which one was taken before: torch's tensors by a shorter way."""
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
