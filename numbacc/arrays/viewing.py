"""What follows from an array's layout: its attributes, and views of parts, other shapes and orders of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import checks, dtypes, views
from ..base.layout import Layout, axes_of, integers_of, layout, lengths_of
from ..errors import DTypeError, LayoutError, ShapeError, UnsupportedError, shown
from ..runtime.streams import handle_of
from . import lookup, values

#: Arrays up to this many elements print their values.
_PRINTED = 64


def is_given(stream: Any) -> bool:
    """True unless a `stream=` of Numba's methods stands for the array's own: 0, or None."""
    return stream is not None and not (type(stream) is int and stream == 0)


def no_attribute(name: str) -> AttributeError:
    """The error for an attribute that device arrays have not."""
    instead = lookup.instead_of(name)
    if instead:
        return AttributeError(f"a device array has no attribute {name!r}; write {instead}", name=name)
    theirs = f"numbacc.asnumpy(x).{name} is" if hasattr(np.ndarray, name) else "numbacc.asnumpy(x) gives"
    return AttributeError(f"a device array has no attribute {name!r}; {theirs} NumPy's", name=name)


class Views:
    """Base of arrays that have a layout, an address, a storage, and are read-only or not.

    What is made of them, by whatever class has these four.
    """

    _numbacc_layout: Layout
    _address: int
    _storage: Any
    _readonly: bool

    shape = property(lambda self: self._numbacc_layout.shape)
    strides = property(lambda self: self._numbacc_layout.strides)
    dtype = property(lambda self: self._numbacc_layout.dtype)
    ndim = property(lambda self: self._numbacc_layout.ndim)
    size = property(lambda self: self._numbacc_layout.size)
    itemsize = property(lambda self: self._numbacc_layout.itemsize)
    nbytes = property(lambda self: self._numbacc_layout.nbytes)
    device = property(lambda self: self._numbacc_layout.device)

    # ------------------------------------------------------------ views

    def _seen(self, made: Layout, offset: int = 0) -> Any:
        """A view of this array's memory, so many bytes behind its address."""
        return type(self)(made, self._address + offset, self._storage, self._readonly)  # type: ignore[call-arg]

    def _at(self, index: Any) -> Any:
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
            return type(self)(made, self._address + offset, self._storage, self._readonly)  # type: ignore[call-arg]
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
        if isinstance(value, Views) and value._storage is self._storage:
            values.check_is_no_exchange()
        self.setitem(index, value)

    def setitem(self, key: Any, value: Any, stream: Any = 0) -> None:
        """As `array[key] = value`, queued on `stream`; 0 stands for the default stream."""
        part: Any = self if key is Ellipsis else self._at(key)
        part._assign(value, handle_of(stream if is_given(stream) else None))

    _do_getitem, _do_setitem = getitem, setitem  # as Numba's own methods call them

    def transpose(self, *order_of_axes: Any, axes: Sequence[int] | None = None) -> Any:
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
    def T(self) -> Any:
        """A view with the axes reversed."""
        return self._seen(views.transposed(self._numbacc_layout))

    @property
    def mT(self) -> Any:
        """A view with the last two axes exchanged.

        Raises:
            ShapeError: there are none.
        """
        if self.ndim < 2:
            raise ShapeError(f"the array has rank {self.ndim}; mT exchanges the last two axes")
        return self._seen(views.transposed(self._numbacc_layout, (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)))

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        """Return a view of another shape; with copy=True a C-contiguous copy of it, on the default stream.

        Raises:
            LayoutError: the strides allow no such view: pass copy=True.
            ShapeError: it is not a shape, or the sizes differ.
        """
        wanted = integers_of(shape[0] if len(shape) == 1 else shape, "shape")
        if not isinstance(order, str) or order != "C":
            raise LayoutError(f'order={shown(order)} is not supported: only "C"')
        if copy is not None and checks.boolean(copy, "copy"):
            own: Any = self
            return own.copy("C").reshape(wanted)
        return self._seen(views.reshaped(self._numbacc_layout, wanted))

    def ravel(self, order: str = "C") -> Any:
        """The elements in one dimension: a view of a C-contiguous array, else a copy. Errors as in `reshape`."""
        contiguous = views.is_contiguous(self._numbacc_layout) or order != "C"
        own: Any = self
        return own.reshape(-1, order=order) if contiguous else own.flatten()

    def squeeze(self, axis: int | Sequence[int] | None = None) -> Any:
        """A view without the axes of length 1, or without those that `axis` names.

        Raises:
            ShapeError: axis is none of this array, or its length is not 1.
        """
        found = None if axis is None else axes_of(axis, self.ndim, "the array", "axis")
        if any(self.shape[d] != 1 for d in found or ()):
            raise ShapeError(f"axis={shown(axis)} must name axes of length 1; the array has shape {self.shape}")
        return self._seen(views.squeezed(self._numbacc_layout, found))

    def broadcast_to(self, shape: int | Sequence[int]) -> Any:
        """A view repeated along new or length-1 axes (stride 0), not to be written.

        Raises:
            ShapeError: it is not a shape, or one that this array does not broadcast to.
        """
        lengths = lengths_of(shape, self.dtype.itemsize)
        return self._seen(views.broadcast(self._numbacc_layout, lengths))

    def view(self, dtype: Any = None) -> Any:
        """The same bytes, as another dtype of the same size if one is given.

        Raises:
            DTypeError: the sizes differ.
        """
        found = self.dtype if dtype is None else dtypes.dtype(dtype)
        if found.itemsize != self.dtype.itemsize:
            raise DTypeError(f"cannot view {self.dtype} as {found}: their sizes differ")
        own = self._numbacc_layout
        return self._seen(layout(own.shape, own.strides, found, own.device))

    def _handle(self, stream: Any) -> int:
        own: Any = self
        return handle_of(stream) if is_given(stream) else own._usual_stream()

    def is_c_contiguous(self) -> bool:
        return views.is_contiguous(self._numbacc_layout)

    def is_f_contiguous(self) -> bool:
        return views.is_contiguous(views.transposed(self._numbacc_layout))

    # ------------------------------------------------------------ how it looks

    def __repr__(self) -> str:
        head = f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype}, device=cuda:{self.device})"
        if not 0 < self.size <= _PRINTED:
            return head
        own: Any = self
        try:
            return f"{head}\n{own.copy_to_host()}"
        except UnsupportedError:
            return head  # inside a graph's capture, where there are no values yet

    __str__ = __repr__

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of an array of rank 0")
        return int(self.shape[0])

    def __iter__(self) -> Any:
        return (self[k] for k in range(len(self)))
