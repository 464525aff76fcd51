"""Methods of device arrays: NumPy's, with those of NumPy's arguments that mean something on a GPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import views
from ..base.layout import argument_of
from ..errors import DTypeError, OptionError, ShapeError, nearest, shown
from . import lookup, protocols


class Methods:
    """Base of device arrays, beside that of operators."""

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
        """A copy in another dtype: see `numbacc.elementwise.astype`. With copy=False itself where it has that dtype.

        Raises:
            OptionError: order is not "K", this memory order. DTypeError: casting, one of NumPy's rules, forbids it.
        """
        _check_order(order, "K")
        own: Any = self
        if casting != "unsafe" and not np.can_cast(own.dtype, dtype, casting):
            raise DTypeError(f"cannot cast {own.dtype} to {np.dtype(dtype)} by casting={shown(casting)}")
        return lookup.function("astype")(self, dtype, copy=bool(copy), stream=stream)

    def copy(self, order: str = "K", *, stream: Any = None) -> Any:
        """A gapless copy on the same GPU: see `numbacc.elementwise.copy`.

        Args:
            order: "K" for this memory order, "C" for rows one after the other (as NumPy's method by default).
            stream: where it is queued; the default stream if None.

        Raises:
            OptionError: another order, or stream is none.
        """
        _check_order(order, "K", "C")
        if order == "C":
            own: Any = self
            namespace: Any = lookup.function("__array_namespace__")
            out = namespace.empty(own.shape, dtype=own.dtype, device=argument_of(own._numbacc_layout.device))
            return lookup.function("copy")(self, out=out, stream=stream)
        return lookup.function("copy")(self, stream=stream)

    def flatten(self, order: str = "C") -> Any:
        """A one-dimensional copy, in C order, or with order="F" the first axis fastest.

        Raises:
            OptionError: another order.
        """
        _check_order(order, "C", "F")
        own: Any = self
        return (own if order == "C" else own.T).copy("C").reshape(-1)

    def fill(self, value: Any) -> None:
        """Write one number everywhere, as x[...] = value does.

        Raises:
            ShapeError: value is an array or a list of several.
        """
        if np.ndim(value):
            raise ShapeError(f"value={shown(value)} is not one number; x[...] = value writes arrays and lists")
        self[...] = value  # type: ignore[index]

    def clip(self, min: Any = None, max: Any = None, out: Any = None, *, stream: Any = None) -> Any:
        """As `numbacc.elementwise.clamp`."""
        return lookup.function("clamp")(self, min, max, out=out, stream=stream)

    def round(self, decimals: int = 0, out: Any = None) -> Any:
        """Rounded to so many decimals, to even numbers from between two: as `numpy.round`."""
        if type(decimals) is int and not decimals:
            return lookup.function("round")(self, out=out)
        return _numpys(np.round, self, decimals, out=out)

    def __round__(self, digits: Any = None) -> Any:
        return self.round(0 if digits is None else digits)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """As `numbacc.asarray(x, device=device)`: itself, or a copy by way of the host, a NumPy array for "cpu"."""
        return lookup.function("asarray")(self, device=device, stream=stream)

    def conj(self, *, stream: Any = None) -> Any:
        """As `numbacc.elementwise.conj`; a real array itself."""
        own: Any = self
        return lookup.function("conj")(self, stream=stream) if own.dtype.kind == "c" else self

    conjugate = conj

    @property
    def real(self) -> Any:
        """A view of the real parts, of a real array itself; `x.real = value` writes them."""
        own: Any = self
        return own._seen(*views.component(own._numbacc_layout, False)) if own.dtype.kind == "c" else self

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Any:
        """A view of the imaginary parts; of a real array zeros that are read-only. `x.imag = value` writes them."""
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
        """The element at an index (a number counts in C order), else that of an array of one, as a Python number.

        This blocks.

        Raises:
            ShapeError: it is no single element. IndexRangeError: an index is out of range.
        """
        own: Any = self
        array = own._at(views.of_element(own.shape, index)) if index else own
        if math.prod(array.shape) != 1:
            raise ShapeError(f"item() takes an array of one element; this has shape {array.shape}")
        return array._copy_to_host(None, own._usual_stream(), "item()").item()

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """A view with two axes exchanged.

        Raises:
            ShapeError: there is no such axis.
        """
        return protocols.swapped(self, axis1, axis2)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """A view of the diagonals of two axes, which comes last: as `numpy.diagonal`, but it can be written.

        Raises:
            ShapeError: there are no such two axes.
        """
        own: Any = self
        return own._seen(*views.diagonal(own._numbacc_layout, offset, axis1, axis2))

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
        """The sum of `diagonal`."""
        return self.diagonal(offset, axis1, axis2).sum(-1, dtype, out)

    def take(self, indices: Any, axis: int | None = None, out: Any = None) -> Any:
        """Elements by their indices: as `numpy.take`, of an array of indices as `numbacc.elementwise.take`."""
        return _numpys(np.take, self, indices, axis, out)

    def repeat(self, repeats: int, axis: int | None = None) -> Any:
        """Each element so many times: as `numpy.repeat`."""
        return _numpys(np.repeat, self, repeats, axis)

    def dot(self, b: Any, out: Any = None) -> Any:
        """The product with an array or a number: as `numpy.dot`."""
        return _numpys(np.dot, self, b, **({} if out is None else {"out": out}))


def _numpys(theirs: Any, *arguments: Any, **options: Any) -> Any:
    """What stands for a function of NumPy's, called."""
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
        method.__doc__ = f"As `numbacc.elementwise.{name}` of this array; {', '.join(order)} in NumPy's order, too."
        setattr(Methods, name, method)


_add_reductions()
