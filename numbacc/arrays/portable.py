"""Arrays in host memory with the behaviour of device arrays: the same methods, operators, functions and errors.

`numbacc.portable` makes them, so that a program raises the same errors on a laptop as on a GPU. NumPy computes, through
the same plans. Portable arrays and device arrays have the same base classes, so this module needs no list of errors.
"""

from __future__ import annotations

import copyreg
from typing import Any, NoReturn

import numpy as np

from ..base.layout import PORTABLE, Layout, check_same_device, dense_like, layout, overlap, read_only
from ..errors import DeviceError
from . import foreign, values
from .methods import Methods
from .operators import Operators
from .viewing import Views, no_attribute


class _Memory:
    """The owner of host memory, used like a device array's storage."""

    __slots__ = ("owner", "stream")

    def __init__(self, owner: object):
        self.owner, self.stream = owner, 0


class PortableArray(Operators, Methods, Views):
    """An array in host memory with the methods, operators, functions and errors of a device array.

    Attributes:
        host: a NumPy array over the same memory.
    """

    def __init__(self, layout: Layout, address: int, storage: Any, readonly: bool = False):
        self._numbacc_layout = layout
        self._address = address
        self._storage = storage
        self._readonly = readonly

    #: The number of the GPU that it stands in for.
    device = property(lambda self: 0)

    @property
    def host(self) -> np.ndarray[Any, Any]:
        own = self._numbacc_layout
        return foreign.host_array(self._storage, self._address, own.shape, own.strides, own.dtype, self._readonly)

    def __getattr__(self, name: str) -> NoReturn:
        raise no_attribute(name)

    def __copy__(self) -> PortableArray:
        return PortableArray(self._numbacc_layout, self._address, self._storage, self._readonly)

    def __deepcopy__(self, memo: dict[int, Any]) -> PortableArray:
        return self._compact()

    def copy_to_host(self, ary: np.ndarray[Any, Any] | None = None, stream: Any = 0) -> np.ndarray[Any, Any]:
        """Return the values as a NumPy array: `ary`, if given."""
        if ary is not None:
            values.check_target(ary, "ary", self._numbacc_layout, "the array")
        return self._copy_to_host(ary, self._handle(stream), "copy_to_host()")

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Write `ary`, a NumPy or device array of this shape, into this array. It raises the errors of assignments."""
        self._assign(ary, self._handle(stream), "ary")

    def _usual_stream(self) -> int:
        return 0

    def _copy_to_host(self, out: np.ndarray[Any, Any] | None, handle: int, call: str) -> np.ndarray[Any, Any]:
        if out is None:
            return self._compact().host
        np.copyto(out, self.host)
        return out

    def _compact(self) -> PortableArray:
        """Return a contiguous copy in this memory order."""
        made = empty(dense_like(self._numbacc_layout, self.shape))
        np.copyto(made.host, self.host)
        return made

    def _assign(self, value: Any, handle: int, name: str = "value") -> None:
        """Write a scalar, a host array or a portable array into this array, as `DeviceArray._assign` does."""
        if self._readonly:
            raise read_only("this array")
        if isinstance(value, PortableArray):
            check_same_device(value._numbacc_layout, name, self._numbacc_layout, "the array")
            values.check_same_dtype(value.dtype, name, self.dtype)
            source = values.broadcast(value, self.shape, name)
            if overlap(self._address, self._numbacc_layout, source._address, source._numbacc_layout):
                source = source._compact()
            np.copyto(self.host, source.host)
            return
        if not values.is_on_host(value):
            foreign.check_is_no_value(value, name)
            value = _imported(value, name)
        self.host[...] = values.broadcast(values.converted(value, self.dtype, name), self.shape, name)

    def _clear(self, handle: int) -> None:
        self.host[...] = 0

    def _fill(self, value: Any, handle: int, name: str = "value") -> None:
        self.host[...] = values.converted(value, self.dtype, name)

    def __dlpack__(self, **options: Any) -> Any:
        """Return the capsule of this memory, which is host memory."""
        return self.host.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.host.__dlpack_device__()


def _imported(value: Any, name: str) -> np.ndarray[Any, Any]:
    """Return another library's array in host memory as a NumPy array."""
    try:
        return np.from_dlpack(value)
    except Exception as error:
        raise foreign.unreadable(value, name, error) from error


def empty(made: Layout) -> PortableArray:
    """Return an uninitialized array of a dense layout.

    Raises:
        DeviceError: out of memory.
    """
    try:
        memory = np.empty(made.nbytes, np.uint8)
    except MemoryError as error:
        raise DeviceError(f"out of host memory: {error}") from None
    return PortableArray(made, int(memory.ctypes.data), _Memory(memory))


def of_host(host: np.ndarray[Any, Any]) -> PortableArray:
    """Return a portable array over a NumPy array's memory."""
    made = layout(host.shape, host.strides, host.dtype, PORTABLE)
    return PortableArray(made, int(host.ctypes.data), _Memory(host), not host.flags.writeable)


def _restored(host: np.ndarray[Any, Any]) -> PortableArray:
    return of_host(host)


copyreg.pickle(PortableArray, lambda array: (_restored, (array.copy_to_host(),)))
