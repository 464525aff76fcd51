"""Arrays as traced kernels see them: like the simulator's, but they record every access to an element."""

from __future__ import annotations

import sys
from itertools import product
from types import FrameType
from typing import Any

import numpy as np

from .recording import ATOMIC, READ, WRITE, Recorder

#: For each kind of access out of bounds: the verb for the message, and what a GPU would do.
_OUTSIDE = {
    READ: ("reads", "reads whatever lies there"),
    WRITE: ("writes", "overwrites whatever lies there"),
    ATOMIC: ("updates", "overwrites whatever lies there"),
}

#: Methods that return the same elements in another order or shape.
_VIEWS = ("reshape", "view", "ravel", "transpose")


class TracedArray:
    """An array, or a view of one, inside a kernel.

    Args:
        recorder: records the accesses.
        view: the elements, as a NumPy array.
        number: the array's number in the recorder.
        start: the address of the view's element 0.
        shapes: the class of `shape`. It raises on negative indices, as on a GPU.
    """

    def __init__(self, recorder: Recorder, view: np.ndarray[Any, Any], number: int, start: int, shapes: Any):
        set_ = self.__dict__.update
        set_(_recorder=recorder, _view=view, _number=number, _start=start, _shapes=shapes)
        # Numba loads and stores the two parts of a complex number one after the other.
        parts = 2 if view.dtype.kind == "c" else 1
        set_(_steps=view.strides, _lengths=view.shape, _parts=parts, _size=view.itemsize // parts)

    @property
    def shape(self) -> Any:
        return self._shapes(self._view.shape)

    @property
    def T(self) -> TracedArray:
        return self._part(self._view.T)

    def _part(self, view: np.ndarray[Any, Any]) -> TracedArray:
        """Return a traced view of the same memory."""
        moved = _address(view) - _address(self._view)
        return TracedArray(self._recorder, view, self._number, self._start + moved, self._shapes)

    def __getattr__(self, name: str) -> Any:
        if self._view.dtype.names and name in self._view.dtype.names:
            return self._part(self._view[name])
        if name == "flat":
            return TracedFlat(self)
        value = getattr(self._view, name)
        if isinstance(value, np.ndarray):  # real, imag
            return self._part(value)
        if not callable(value):
            return value

        def rearranged(*args: Any, **options: Any) -> TracedArray:
            made = value(*args, **options)
            if not np.may_share_memory(made, self._view):
                raise ValueError(f"{name} would copy the array, which no kernel can")
            return self._part(made)

        def of_all(*args: Any, **options: Any) -> Any:  # sum, fill, ...
            self._all(self._view, WRITE if name == "fill" else READ, sys._getframe(1))
            return value(*args, **options)

        return rearranged if name in _VIEWS else of_all

    def __setattr__(self, name: str, value: Any) -> None:
        self._write(getattr(self, name), value, sys._getframe(1))

    def __len__(self) -> int:
        return len(self._view)

    def __getitem__(self, index: Any) -> Any:
        try:
            value = self._view[index]
        except IndexError as error:
            raise self._outside(index, READ, sys._getframe(1), error) from None
        if isinstance(value, np.ndarray):
            return self._part(value)
        if type(value) is np.void:
            return TracedRecord(self._part(self._view[(*_tuple(index), ...)]))
        self._note(self._address_of(index), READ, sys._getframe(1))
        return value

    def __setitem__(self, index: Any, value: Any) -> None:
        frame = sys._getframe(1)
        if isinstance(index, str) or any(not _is_integer(i) for i in _tuple(index)):
            self._write(self[index], value, frame)
            return
        value = read(value, frame)
        try:
            self._view[index] = value
        except IndexError as error:
            raise self._outside(index, WRITE, frame, error) from None
        if len(_tuple(index)) < len(self._lengths):
            self._all(self._view[index], WRITE, frame)
            return
        self._note(self._address_of(index), WRITE, frame)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **options: Any) -> Any:
        """Record that a ufunc reads all elements of its inputs and writes all of `out`."""
        frame, out = sys._getframe(1), options.get("out", ())
        args = tuple(read(each, frame) for each in args)
        if out:
            options["out"] = tuple(each._view if isinstance(each, TracedArray) else each for each in out)
        result = getattr(ufunc, method)(*args, **options)
        for each in out:
            if isinstance(each, TracedArray):
                each._all(each._view, WRITE, frame)
        return result

    def _address_of(self, index: Any) -> int:
        """Return the address of one element."""
        address = self._start
        if not isinstance(index, tuple):
            return address + int(index + self._lengths[0] if index < 0 else index) * self._steps[0]  # type: ignore[no-any-return]
        for i, length, step in zip(index, self._lengths, self._steps, strict=True):
            address += int(i + length if i < 0 else i) * step
        return address  # type: ignore[no-any-return]

    def _note(self, address: int, access: int, frame: FrameType) -> None:
        """Record an access to one element."""
        for part in range(self._parts):
            self._recorder.seen(self._number, address + part * self._size, self._size, access, frame)

    def _all(self, view: np.ndarray[Any, Any], access: int, frame: FrameType) -> None:
        """Record an access to every element of a view, in the order of a loop."""
        start = self._start + _address(view) - _address(self._view)
        for index in product(*map(range, view.shape)):
            address = start + sum(i * step for i, step in zip(index, view.strides, strict=True))
            self._note(address, access, frame)

    def _write(self, target: Any, value: Any, frame: FrameType) -> None:
        """Assign to all elements of a view of this array."""
        value = read(value, frame)
        if isinstance(target, TracedRecord):
            target = target._fields
        target._view[...] = value
        target._all(target._view, WRITE, frame)

    def touch(self, index: Any, access: int, frame: FrameType) -> np.ndarray[Any, Any]:
        """Record an access to one element that the caller makes, and return the array to make it on."""
        try:
            self._view[index]
        except IndexError as error:
            raise self._outside(index, access, frame, error) from None
        self._note(self._address_of(index), access, frame)
        return self._view  # type: ignore[no-any-return]

    def _outside(self, index: Any, access: int, frame: FrameType, error: IndexError) -> IndexError:
        """Return an error that names the element and says what a GPU would do."""
        if not all(map(_is_integer, _tuple(index))):
            return error
        name = self._recorder.arrays[self._number].name
        shown = ", ".join(str(int(i)) for i in _tuple(index))
        does, finds = _OUTSIDE[access]
        return IndexError(
            f"line {frame.f_lineno} {does} {name}[{shown}], but the shape of {name} is {tuple(self._lengths)}. A GPU "
            f"raises nothing here: it {finds}. Put the access inside an if that tests the index"
        )


class TracedFlat:
    """`array.flat`: elements by their position in C order."""

    def __init__(self, array: TracedArray):
        self._array = array

    def __len__(self) -> int:
        return int(self._array.size)

    def __getitem__(self, k: Any) -> Any:
        index = self._index(k)
        return self._array.touch(index, READ, sys._getframe(1))[index]

    def __setitem__(self, k: Any, value: Any) -> None:
        index = self._index(k)
        self._array.touch(index, WRITE, sys._getframe(1))[index] = value

    def _index(self, k: Any) -> tuple[int, ...]:
        count = len(self)
        if not -count <= k < count:
            raise IndexError(f"flat[{k}] of an array of {count} elements")
        return tuple(int(i) for i in np.unravel_index(int(k) % count, self._array.shape))


class TracedRecord:
    """An element of a structured array. Its fields are accessed one by one."""

    def __init__(self, fields: TracedArray):
        self.__dict__["_fields"] = fields

    def __getattr__(self, name: str) -> Any:
        field = self._fields._part(self._fields._view[name])
        if field._view.ndim:
            return field
        if field._view.dtype.names:
            return TracedRecord(field)
        return read(field, sys._getframe(1))[()]

    __getitem__ = __getattr__

    def __setattr__(self, name: str, value: Any) -> None:
        fields = self._fields
        fields._write(fields._part(fields._view[name]), value, sys._getframe(1))

    __setitem__ = __setattr__


class TracedAtomics:
    """`cuda.atomic`: each of its functions counts as one access."""

    def __init__(self, atomics: Any):
        self._atomics = atomics

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._atomics, name)

        def once(array: Any, *rest: Any) -> Any:
            if isinstance(array, TracedArray):
                index = (0,) * array.ndim if name == "compare_and_swap" else rest[0]
                array = array.touch(index, ATOMIC, sys._getframe(1))
            return function(array, *rest)

        return once


def read(value: Any, frame: FrameType) -> Any:
    """Return a value to assign from, and record that all elements of an array are read."""
    if isinstance(value, TracedRecord):
        value = value._fields
    if isinstance(value, TracedArray):
        value._all(value._view, READ, frame)
        return value._view
    return value


def _address(view: np.ndarray[Any, Any]) -> int:
    return int(view.__array_interface__["data"][0])


def _tuple(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _is_integer(index: Any) -> bool:
    return isinstance(index, (int, np.integer))
