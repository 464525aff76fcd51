"""Attributes that follow from an array's layout, and views: parts, other shapes, other orders of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import checks, dtypes, html, views
from ..base.layout import Layout, axes_of, integers_of, is_dense, layout, lengths_of
from ..errors import DTypeError, LayoutError, ShapeError, UnsupportedError, shown
from ..runtime.streams import handle_of
from . import lookup, values

#: The largest array whose repr shows its values.
_PRINTED = 64
#: A notebook shows this many elements at both ends of an axis.
_AT_EDGE = 4
#: The most bytes of a dense array that are copied together to be shown; of a larger one, elements are read one by one.
_COPIED = 4096


def is_given(stream: Any) -> bool:
    """Return True unless a `stream=` of Numba's methods is 0 or None, which mean the array's own stream."""
    return stream is not None and not (type(stream) is int and stream == 0)


def no_attribute(name: str) -> AttributeError:
    """Return the error for an attribute that device arrays lack."""
    instead = lookup.instead_of(name)
    if instead:
        return AttributeError(f"a device array has no attribute {name!r}; write {instead}", name=name)
    theirs = f"numbacc.asnumpy(x).{name} is" if hasattr(np.ndarray, name) else "numbacc.asnumpy(x) gives"
    return AttributeError(f"a device array has no attribute {name!r}; {theirs} NumPy's", name=name)


def _no_values(error: Exception) -> str:
    """Return the text that an array's repr shows instead of values that cannot be read."""
    return f"no values: {type(error).__name__}: {error}"


def _edges(length: int) -> list[int | None]:
    """Return the indices that a notebook shows of an axis, with None for those left out."""
    if length <= 2 * _AT_EDGE:
        return [*range(length)]
    return [*range(_AT_EDGE), None, *range(length - _AT_EDGE, length)]


def _text(source: Any, index: tuple[int | None, ...]) -> str:
    """Return the text of an element, or "\u2026" for those left out."""
    if None in index:
        return "\u2026"
    value = source[index]
    if isinstance(value, (np.integer, np.bool_)):
        return str(value)
    digits = 6 if value.dtype.itemsize > 2 else 4
    number = complex(value) if isinstance(value, np.complexfloating) else float(value)
    return f"{number:.{digits}g}"


class Views:
    """A base class of arrays that are defined by a layout, an address, a storage, and whether they are read-only.

    Views are made with these four arguments, in the array's own class.
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
        """Return a view of this array's memory that starts `offset` bytes after its address."""
        return type(self)(made, self._address + offset, self._storage, self._readonly)  # type: ignore[call-arg]

    def _at(self, index: Any) -> Any:
        return self._seen(*views.part(self._numbacc_layout, index))

    def __getitem__(self, index: Any) -> Any:
        """Return a view by basic indexing (integers, slices, None, Ellipsis), or a single element as a NumPy scalar.

        An index with Ellipsis always returns a view, as in NumPy. Reading an element waits for the work queued on the
        array's stream.

        Raises:
            LayoutError: the index is of another kind, such as an array or a list.
            IndexRangeError: an index is out of range.
        """
        made, offset = views.part(self._numbacc_layout, index)
        if made.ndim:
            return type(self)(made, self._address + offset, self._storage, self._readonly)  # type: ignore[call-arg]
        return self.getitem(index)

    def getitem(self, item: Any, stream: Any = 0) -> Any:
        """Return `array[item]`: read an element on `stream`, or bind a view to it; 0 means the array's own stream."""
        part = self._at(item)
        # An index with None or ... returns an array of rank 0, as in NumPy.
        if part.ndim == 0 and self.ndim and not any(e is None or e is Ellipsis for e in views.index_parts(item)):
            return part._copy_to_host(None, part._handle(stream), "reading an element")[()]
        return part.bind(stream) if is_given(stream) else part

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write a scalar, an array or a list into a part, queued on the default stream; it broadcasts as in NumPy.

        Scalars must fit the dtype (300 and NaN do not fit int8). NumPy arrays are cast. An array on the GPU must have
        this dtype, and may overlap the part.

        Raises:
            OptionError: a scalar does not fit the dtype.
            DTypeError: the value is not a number, is complex while this array is not, or is a GPU array of another
                dtype.
            ShapeError: the value does not broadcast.
            LayoutError: this array is read-only, its elements share memory, or the index is of an unsupported kind.
            IndexRangeError: an index is out of range.
            DeviceError: the array is on another device.
        """
        if isinstance(value, Views) and value._storage is self._storage:
            values.check_is_no_exchange()
        self.setitem(index, value)

    def setitem(self, key: Any, value: Any, stream: Any = 0) -> None:
        """Write `array[key] = value` on `stream`; 0 means the default stream."""
        part: Any = self if key is Ellipsis else self._at(key)
        part._assign(value, handle_of(stream if is_given(stream) else None))

    _do_getitem, _do_setitem = getitem, setitem  # the names that Numba's own methods call

    def transpose(self, *order_of_axes: Any, axes: Sequence[int] | None = None) -> Any:
        """Return a view with the axes reversed, or in another order: x.transpose((1, 0)), x.transpose(1, 0).

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
            ShapeError: the array has fewer than two axes.
        """
        if self.ndim < 2:
            raise ShapeError(f"the array has rank {self.ndim}; mT exchanges the last two axes")
        return self._seen(views.transposed(self._numbacc_layout, (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)))

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        """Return a view of another shape; with copy=True a C-contiguous copy, on the default stream.

        Raises:
            LayoutError: the strides do not allow such a view: pass copy=True.
            ShapeError: shape is not a shape, or the sizes differ.
        """
        wanted = integers_of(shape[0] if len(shape) == 1 else shape, "shape")
        if not isinstance(order, str) or order != "C":
            raise LayoutError(f'order={shown(order)} is not supported: use "C"')
        if copy is not None and checks.boolean(copy, "copy"):
            own: Any = self
            return own.copy("C").reshape(wanted)
        return self._seen(views.reshaped(self._numbacc_layout, wanted))

    def ravel(self, order: str = "C") -> Any:
        """Return the elements in one dimension: a view of a C-contiguous array, else a copy. Errors as in `reshape`."""
        contiguous = views.is_contiguous(self._numbacc_layout) or order != "C"
        own: Any = self
        return own.reshape(-1, order=order) if contiguous else own.flatten()

    def squeeze(self, axis: int | Sequence[int] | None = None) -> Any:
        """Return a view without the axes of length 1, or without the axes in `axis`.

        Raises:
            ShapeError: this array lacks an axis of `axis`, or its length is not 1.
        """
        found = None if axis is None else axes_of(axis, self.ndim, "the array", "axis")
        if any(self.shape[d] != 1 for d in found or ()):
            raise ShapeError(f"axis={shown(axis)} must name axes of length 1; the array has shape {self.shape}")
        return self._seen(views.squeezed(self._numbacc_layout, found))

    def broadcast_to(self, shape: int | Sequence[int]) -> Any:
        """Return a view repeated along new axes or axes of length 1 (stride 0). Do not write to it.

        Raises:
            ShapeError: shape is not a shape, or this array does not broadcast to it.
        """
        lengths = lengths_of(shape, self.dtype.itemsize)
        return self._seen(views.broadcast(self._numbacc_layout, lengths))

    def view(self, dtype: Any = None) -> Any:
        """Return a view of the same bytes, as another dtype of the same size if one is given.

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

    # ------------------------------------------------------------ repr

    def _check_values(self) -> None:
        """Raise UnsupportedError in a graph's capture. Otherwise copying the values would become part of the graph."""

    def __repr__(self) -> str:
        head = f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype}, device=cuda:{self.device})"
        if not 0 < self.size <= _PRINTED:
            return head
        own: Any = self
        try:
            self._check_values()
            return f"{head}\n{own.copy_to_host()}"
        except UnsupportedError:
            return head  # inside a graph's capture, where there are no values yet
        except Exception as error:  # such as that of a kernel before, after which the GPU does nothing more
            return f"{head}\n{_no_values(error)}"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return the array's attributes and values for a notebook: of a long axis, the first and the last elements.

        This waits for the work queued on the array, except during a graph's capture: then there are no values. It
        copies little: small arrays, or the elements that it shows. An array with more than two axes shows one matrix.
        """
        order = views.memory_order(self._numbacc_layout) + ", read-only" * self._readonly
        facts = [str(self.shape), self.dtype, f"cuda:{self.device}", order, self.nbytes]
        head = html.table(["shape", "dtype", "device", "layout", "bytes"], [facts], type(self).__name__)
        try:
            return f"{head}\n{self._values_html() if self.size else html.line('no elements')}"
        except Exception as error:
            return f"{head}\n{html.line(_no_values(error))}"

    def _values_html(self) -> str:
        """Return a table of the values at the edges of the last two axes."""
        self._check_values()
        own: Any = self
        source = own.copy_to_host() if self.nbytes <= _COPIED and is_dense(self._numbacc_layout) else self
        columns = _edges(self.shape[-1]) if self.ndim else ()
        names = ["" if k is None else str(k) for k in columns]
        if self.ndim < 2:
            values = [_text(source, (k,)) for k in columns] if self.ndim else [_text(source, ())]
            return html.table(names or ["value"], [values])
        before, rows = (0,) * (self.ndim - 2), _edges(self.shape[-2])
        texts = [["" if i is None else str(i), *(_text(source, (*before, i, k)) for k in columns)] for i in rows]
        where = f"x[{'0, ' * len(before)}:, :]" if before else None
        return html.table(["", *names], texts, where)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of an array of rank 0: use x.size, or x.item() for the value")
        return int(self.shape[0])

    def __iter__(self) -> Any:
        return (self[k] for k in range(len(self)))
