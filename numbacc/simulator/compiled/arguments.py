"""Pass a launch's arguments to the compiled simulator in host memory, and copy results back.

NumPy arrays, portable arrays and arrays of Numba's simulator are in host memory: kernels work on them in place. Arrays
on a GPU are copied to the host and back. Arrays that share memory on the GPU share it on the host, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from ...arrays import operands
from ...arrays.creation import asarray, asnumpy
from ...arrays.portable import PortableArray
from ...base.layout import row_major_strides
from ...errors import DTypeError, shown

__all__ = ["allocation", "cast", "offset", "on_host"]

#: The alignment of allocations on a GPU.
_ALIGNMENT = 256
#: Arguments of these types are passed unchanged.
_NUMBERS = (bool, int, float, complex, np.generic)


def cast(given: Sequence[Any], signature: Sequence[Any] | None) -> Sequence[Any]:
    """Return the arguments, with scalars converted to the types of the only declared signature, as on a GPU."""
    if signature is None or len(signature) != len(given):
        return given
    return [_number(each, str(kind)) for each, kind in zip(given, signature, strict=True)]


def _number(value: Any, kind: str) -> Any:
    if not isinstance(value, _NUMBERS) or isinstance(value, np.void):
        return value
    try:
        return np.asarray(value).astype(kind)[()]  # too large integers lose their upper bits
    except TypeError:  # not the name of a scalar type
        return value


#: The types of arguments that kernels use unchanged.
_AS_GIVEN = frozenset({np.ndarray, bool, int, float, complex})


def on_host(given: Sequence[Any], extensions: Iterable[Any] = ()) -> AbstractContextManager[tuple[Any, ...]]:
    """Return a context with a kernel's arguments in host memory. Its end copies results back, unless it is an error's.

    Raises:
        DTypeError: kernels do not support an argument of this type.
    """
    if not extensions and are_on_host(given):
        return nullcontext(tuple(given))
    return _converted_to_host(given, extensions)


def are_on_host(given: Sequence[Any]) -> bool:
    """Return whether a kernel uses its arguments as they are."""
    return _AS_GIVEN.issuperset(map(type, given))


@contextmanager
def _converted_to_host(given: Sequence[Any], extensions: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    after: list[Any] = []
    prepared = [_prepared(each, list(extensions), after) for each in given]
    gpu = _GPUArrays()
    for each in prepared:
        gpu.find(each)
    gpu.copy_to_host()
    yield tuple(_converted(each, f"argument {k}", gpu, after) for k, each in enumerate(prepared))
    gpu.copy_back()
    for work in after:
        work()


def allocation(own: Any, arg: np.ndarray[Any, Any]) -> tuple[int, int, Any]:
    """Return (start, bytes, owner) of the memory that holds an argument, which on a GPU is an allocation.

    Args:
        own: the argument as it was given.
        arg: the same in host memory.
    """
    low, high = placement(arg).extent()
    if isinstance(own, PortableArray):
        root = own._storage.owner
        while isinstance(root, np.ndarray) and isinstance(root.base, np.ndarray):
            root = root.base
        if isinstance(root, np.ndarray):
            return _address(root), root.nbytes, root
    if not isinstance(own, np.ndarray) and hasattr(own, "__cuda_array_interface__"):
        aligned = _address(arg) - (own.__cuda_array_interface__["data"][0] or 0) % _ALIGNMENT
        start = low - (low - aligned) % _ALIGNMENT
        return start, high - start, arg
    return low, high - low, arg  # a launch copies it to the start of an allocation


def placement(array: np.ndarray[Any, Any] | np.void) -> _Placement:
    """Return the place of a NumPy array's elements, or of a record."""
    return _Placement(_address(array), array.shape, array.strides, array.dtype, False)


def _address(array: np.ndarray[Any, Any] | np.void) -> int:
    return int(array.__array_interface__["data"][0])


def offset(own: Any, arg: Any) -> int:
    """Return the distance in bytes from the start of an allocation to an array in it; 0 for other arguments."""
    if not isinstance(arg, np.ndarray) or (own is arg and arg.flags.c_contiguous):
        return 0  # an array of NumPy is copied to the start of an allocation
    return _address(arg) - allocation(own, arg)[0]


def _prepared(value: Any, extensions: Sequence[Any], after: list[Any]) -> Any:
    """Return an argument as the user's extensions prepare it, in Numba's order."""
    kind = None
    for extension in reversed(extensions):
        kind, value = extension.prepare_args(kind, value, stream=0, retr=after)
    return value


def _converted(value: Any, name: str, gpu: _GPUArrays, after: list[Any]) -> Any:
    """Return one argument in host memory. Functions added to `after` copy results back."""
    if isinstance(value, (np.ndarray, *_NUMBERS)):
        return value
    if value is None:
        raise DTypeError(f"{name} is None; a kernel on a GPU accepts no None: pass a number, or write a second kernel")
    if isinstance(value, tuple):
        parts = [_converted(each, f"{name}[{k}]", gpu, after) for k, each in enumerate(value)]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, PortableArray):
        return value.host
    if (hint := _hint(value)) is not None:
        return _hinted(value.value, hint, name, gpu, after)
    if id(value) in gpu:
        return gpu.host(value)
    own = getattr(value, "_ary", None)  # set by Numba's simulator
    if isinstance(own, (np.ndarray, np.void)):
        return own
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    if isinstance(value, (str, bytes, list, dict, set)) or callable(value):
        raise DTypeError(
            f"{name} is {shown(value)}, a {type(value).__name__}; a kernel accepts arrays, numbers, records and tuples "
            "of these: np.array(...) makes an array"
        )
    return value  # Numba knows its type, or raises an error


def _hint(value: Any) -> str | None:
    """Return "In", "Out" or "InOut" for the results of `cuda.In(x)` and the like."""
    name = type(value).__name__
    return name if name in ("In", "Out", "InOut") and hasattr(value, "value") else None


def _hinted(value: Any, hint: str, name: str, gpu: _GPUArrays, after: list[Any]) -> Any:
    host = _converted(value, name, gpu, after)
    if hint == "InOut" or host is not value or not isinstance(host, np.ndarray):
        return host  # a hint changes nothing for device arrays
    if hint == "In":
        return host.copy("K")
    # On a GPU this memory is uninitialized. Bytes of 255 read as NaN and -1, so that a mistake shows.
    made = np.empty_like(host)
    made.reshape(-1, order="A").view(np.uint8)[...] = 255
    after.append(lambda: np.copyto(host, made))
    return made


class _Span:
    """A span of a GPU's memory, and its copy on the host."""

    def __init__(self, begin: int, end: int):
        self.begin, self.end = begin, end

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        shape = (self.end - self.begin,)
        return {"data": (self.begin, False), "shape": shape, "strides": None, "typestr": "|u1", "version": 3}

    def copy_to_host(self) -> None:
        self._device = asarray(self)
        self.host = asnumpy(self._device)

    def copy_back(self) -> None:
        self._device.copy_to_device(self.host)


class _Placement(NamedTuple):
    """The address, shape and strides of an array's elements."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    readonly: bool

    def extent(self) -> tuple[int, int]:
        """Return the address of the first byte, and the one after the last."""
        if 0 in self.shape:
            return self.address, self.address
        reach = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        end = self.address + sum(each for each in reach if each > 0) + self.dtype.itemsize
        return self.address + sum(each for each in reach if each < 0), end


def _memory_of(value: Any) -> _Placement:
    try:
        array = operands.as_array(value, "an argument", 0)
    except DTypeError:  # a record, or a dtype that numbacc does not support
        return _of_interface(value)
    return _Placement(array._address, array.shape, array.strides, array.dtype, array._readonly)


def _of_interface(value: Any) -> _Placement:
    found = value.__cuda_array_interface__
    dtype, shape = np.dtype(getattr(value, "dtype", found["typestr"])), tuple(found["shape"])
    strides = found.get("strides") or row_major_strides(shape, dtype.itemsize)
    return _Placement(int(found["data"][0] or 0), shape, tuple(strides), dtype, bool(found["data"][1]))


class _GPUArrays:
    """The arguments that are arrays on a GPU, and host copies of their memory."""

    def __init__(self) -> None:
        self._arrays: dict[int, _Placement] = {}
        self._spans: list[_Span] = []

    def __contains__(self, key: int) -> bool:
        return key in self._arrays

    def find(self, value: Any) -> None:
        """Add an argument, or the parts of one."""
        if isinstance(value, tuple):
            for each in value:
                self.find(each)
        elif _hint(value) is not None:
            self.find(value.value)
        elif _is_on_gpu(value):
            self._arrays[id(value)] = _memory_of(value)

    def copy_to_host(self) -> None:
        # Addresses of different GPUs differ, so that they can be sorted together.
        for begin, end in sorted(each.extent() for each in self._arrays.values()):
            if self._spans and begin < self._spans[-1].end:
                self._spans[-1].end = max(self._spans[-1].end, end)
            elif end > begin:
                self._spans.append(_Span(begin, end))
        for span in self._spans:
            span.copy_to_host()

    def copy_back(self) -> None:
        for span in self._spans:
            span.copy_back()

    def host(self, value: Any) -> np.ndarray[Any, Any]:
        """Return the host copy of an argument, with its shape and strides."""
        own = self._arrays[id(value)]
        made: np.ndarray[Any, Any] = np.empty(own.shape, own.dtype)  # the array has no elements
        for span in self._spans:
            if span.begin <= own.address < span.end and made.size:
                made = np.ndarray(own.shape, own.dtype, span.host.data, own.address - span.begin, own.strides)
        made.flags.writeable = not own.readonly
        return made


def _is_on_gpu(value: Any) -> bool:
    """Return whether an argument is an array on a GPU, of any library."""
    if isinstance(value, (np.ndarray, PortableArray, *_NUMBERS)) or hasattr(value, "_ary"):
        return False
    try:
        if hasattr(value, "__cuda_array_interface__"):
            return True
        return hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] in (2, 13)
    except Exception:  # other libraries raise various errors here
        return False
