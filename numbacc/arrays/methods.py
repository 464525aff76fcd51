"""Methods of device arrays: NumPy's, with the arguments that are supported on a GPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import views
from ..base.layout import argument_of
from ..errors import DTypeError, OptionError, ShapeError, nearest, shown
from . import lookup, protocols


class Methods:
    """A base class of device arrays that adds the methods; `Operators` adds the operators."""

    __slots__ = ()

    def astype(
        self,
        dtype: Any,
        order: str = "K",
        casting: Any = "unsafe",
        subok: bool = True,
        copy: bool = True,
        *,
        stream: Any = None,
    ) -> Any:
        """Return a copy in another dtype; see `numbacc.elementwise.astype`.

        With copy=False an array that has this dtype is returned itself.

        Raises:
            OptionError: order is not "K" (keep the memory order).
            DTypeError: the rule `casting`, one of NumPy's, forbids it.
        """
        _check_order(order, "K")
        own: Any = self
        if casting != "unsafe" and not np.can_cast(own.dtype, dtype, casting):
            raise DTypeError(f"cannot cast {own.dtype} to {np.dtype(dtype)} by casting={shown(casting)}")
        return lookup.function("astype")(self, dtype, copy=bool(copy), stream=stream)

    def copy(self, order: str = "K", *, stream: Any = None) -> Any:
        """Return a contiguous copy on the same GPU; see `numbacc.elementwise.copy`.

        Args:
            order: "K" keeps the memory order; "C" makes it C-contiguous (the default of NumPy's method).
            stream: the stream to run on; the default stream if None.

        Raises:
            OptionError: order is neither "K" nor "C", or stream is not a stream.
        """
        _check_order(order, "K", "C")
        if order == "C":
            own: Any = self
            namespace: Any = lookup.function("__array_namespace__")
            out = namespace.empty(own.shape, dtype=own.dtype, device=argument_of(own._numbacc_layout.device))
            return lookup.function("copy")(self, out=out, stream=stream)
        return lookup.function("copy")(self, stream=stream)

    def flatten(self, order: str = "C") -> Any:
        """Return a one-dimensional copy in C order, or with order="F" in Fortran order.

        Raises:
            OptionError: order is neither "C" nor "F".
        """
        _check_order(order, "C", "F")
        own: Any = self
        return (own if order == "C" else own.T).copy("C").reshape(-1)

    def fill(self, value: Any) -> None:
        """Write one scalar to all elements, as x[...] = value does.

        Raises:
            ShapeError: value is an array or a list with more than one element.
        """
        if np.ndim(value):
            raise ShapeError(f"value={shown(value)} is not a scalar; write x[...] = value for arrays and lists")
        self[...] = value  # type: ignore[index]

    def clip(self, min: Any = None, max: Any = None, out: Any = None, *, stream: Any = None) -> Any:
        """Limit values to a range; see `numbacc.elementwise.clamp`."""
        return lookup.function("clamp")(self, min, max, out=out, stream=stream)

    def round(self, decimals: int = 0, out: Any = None) -> Any:
        """Round to a number of decimals, halves to even, as `numpy.round` does."""
        if type(decimals) is int and not decimals:
            return lookup.function("round")(self, out=out)
        return _numpys(np.round, self, decimals, out=out)

    def __round__(self, digits: Any = None) -> Any:
        return self.round(0 if digits is None else digits)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """Return `numbacc.asarray(x, device=device)`: the array itself, a copy, or a NumPy array for "cpu"."""
        return lookup.function("asarray")(self, device=device, stream=stream)

    def conj(self, *, stream: Any = None) -> Any:
        """Return the complex conjugate, as `numbacc.elementwise.conj`; a real array is returned itself."""
        own: Any = self
        return lookup.function("conj")(self, stream=stream) if own.dtype.kind == "c" else self

    conjugate = conj

    @property
    def real(self) -> Any:
        """A view of the real parts, or a real array itself; `x.real = value` writes them."""
        own: Any = self
        return own._seen(*views.component(own._numbacc_layout, False)) if own.dtype.kind == "c" else self

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Any:
        """A view of the imaginary parts, or read-only zeros for a real array; `x.imag = value` writes them."""
        own: Any = self
        if own.dtype.kind == "c":
            return own._seen(*views.component(own._numbacc_layout, True))
        zeros = lookup.function("imag")(self)
        zeros._readonly = True
        return zeros

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag[...] = value

    def item(self, *index: Any) -> Any:
        """Return an element as a Python scalar: the one at an index, or the only one of an array.

        A single number as the index counts elements in C order. This blocks.

        Raises:
            ShapeError: the index does not name a single element.
            IndexRangeError: an index is out of range.
        """
        own: Any = self
        array = own._at(views.of_element(own.shape, index)) if index else own
        if math.prod(array.shape) != 1:
            raise ShapeError(f"item() needs an array of one element, or an index; this has shape {array.shape}")
        return array._copy_to_host(None, own._usual_stream(), "item()").item()

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """Return a view with two axes exchanged.

        Raises:
            ShapeError: an axis does not exist.
        """
        return protocols.swapped(self, axis1, axis2)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """Return a view of the diagonals of two axes, as the last axis. As `numpy.diagonal`, but the view is writable.

        Raises:
            ShapeError: an axis does not exist, or the two are the same.
        """
        own: Any = self
        return own._seen(*views.diagonal(own._numbacc_layout, offset, axis1, axis2))

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
        """Return the sum of the elements on a diagonal of two axes; see `diagonal`."""
        return self.diagonal(offset, axis1, axis2).sum(-1, dtype, out)

    def take(self, indices: Any, axis: int | None = None, out: Any = None) -> Any:
        """Return elements by their indices, as `numpy.take`; for index arrays see `numbacc.elementwise.take`."""
        return _numpys(np.take, self, indices, axis, out)

    def repeat(self, repeats: int, axis: int | None = None) -> Any:
        """Repeat each element `repeats` times, as `numpy.repeat`."""
        return _numpys(np.repeat, self, repeats, axis)

    def dot(self, b: Any, out: Any = None) -> Any:
        """Return the product with an array or a scalar, as `numpy.dot`."""
        return _numpys(np.dot, self, b, **({} if out is None else {"out": out}))


def _numpys(theirs: Any, *arguments: Any, **options: Any) -> Any:
    """Call the replacement of a function of NumPy."""
    return lookup.called(theirs.__name__, lookup.made_of_others(theirs), arguments, options)


def _check_order(order: Any, *known: str) -> None:
    if order not in known:
        names = " or ".join(map(repr, known))
        raise OptionError(f"order={shown(order)} is not supported: it is {names}{nearest(order, known)}")


def _add_reductions() -> None:
    for name, order in protocols.METHODS.items():

        def method(self: Any, *arguments: Any, name: str = name, **options: Any) -> Any:
            found = lookup.function(name)
            if arguments or options:
                return lookup.called(name, found, (self,), protocols.of_method(name, arguments, options))
            return found(self)

        method.__name__ = name
        method.__doc__ = (
            f"Return `numbacc.elementwise.{name}(x)` of this array x.\n\n"
            f"The arguments {', '.join(order)} may be positional, in NumPy's order. Others are passed by keyword."
        )
        setattr(Methods, name, method)


_add_reductions()
