"""Arrays in the memory of torch's tensors, for numbacc's functions, and torch's current stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from ..arrays import operands
from ..arrays.tensors import layout_of
from ..base import dtypes
from ..errors import DeviceError, DTypeError
from ..runtime.streams import foreign, handle_of, torch_streams

__all__ = [
    "SUPPORTED",
    "address",
    "as_layout",
    "borrowed",
    "device_of",
    "host",
    "numpy_dtype",
    "raw_stream",
    "stream_of",
    "taken",
    "taker",
]

#: The devices that numbacc runs on.
SUPPORTED = ("cpu", "cuda")

#: The number of a GPU -> the handle of torch's current stream.
raw_stream = torch_streams()


class _TensorMemory:
    """The memory of a tensor on the CPU, for NumPy."""

    def __init__(self, tensor: torch.Tensor, dtype: Any):
        self.tensor = tensor  # NumPy keeps this object, and with it the memory
        self.__array_interface__ = {
            "version": 3,
            "data": (tensor.data_ptr(), False),
            "shape": tuple(tensor.shape),
            "strides": tuple(each * dtype.itemsize for each in tensor.stride()),
            "typestr": f"V{dtype.itemsize}" if dtype.kind == "V" else dtype.str,
        }


def host(tensor: torch.Tensor) -> Any:
    """Return a NumPy array in the memory of a tensor on the CPU, which must live longer.

    Unlike `Tensor.numpy`, it takes bfloat16, and leaves the tensor's storage resizable, which FSDP needs.
    """
    tensor = tensor.detach().resolve_conj().resolve_neg()
    dtype = numpy_dtype(tensor.dtype)
    return np.asarray(_TensorMemory(tensor, dtype)).view(dtype)


def taker(device: Any, stream: int) -> Callable[[torch.Tensor], Any]:
    """Return a function that returns device arrays in the memory of tensors.

    torch's current stream orders all work on the tensors, and torch's allocator keeps the memory until that work is
    done. So these arrays own nothing and wait for nothing: a graph that torch captures keeps no tensor alive.
    """
    make, memory = _classes()[0], borrowed(device.index, stream)

    def take(tensor: torch.Tensor) -> Any:
        if tensor.is_neg() or tensor.is_conj():
            tensor = tensor.resolve_conj().resolve_neg()
        made = layout_of(tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        address = tensor.data_ptr()
        if made is None or address % made.itemsize:
            raise DTypeError(
                f"a tensor has dtype {tensor.dtype} and starts at {address:#x}: numbacc does not support the dtype, or "
                "the address is not a multiple of the element size. Convert it, x.to(torch.float32), or clone it"
            )
        return make(made, address, memory)

    return take


def borrowed(device: int, stream: int) -> Any:
    """Return memory that a stream orders, and that numbacc does not own."""
    return _classes()[1](None, 0, device, stream, stream)


@cache
def _classes() -> tuple[Any, Any]:
    """Return the classes of device arrays and of borrowed memory, which load Numba."""
    from ..runtime.sharing import Borrowed

    return operands.device_array(), Borrowed


def numpy_dtype(kind: torch.dtype) -> Any:
    """Return NumPy's dtype of torch's, ml_dtypes' bfloat16 included."""
    name = str(kind).removeprefix("torch.")
    if name not in dtypes.TABLE:
        raise DTypeError(f"a tensor has dtype {kind}, which numbacc does not support: convert it, x.to(torch.float32)")
    return dtypes.TABLE[name].numpy


def as_layout(tensor: torch.Tensor, layout: Any, memory: Any) -> Any:
    """Return a tensor as an array of a layout that starts where the tensor does."""
    if memory is None:
        return np.lib.stride_tricks.as_strided(host(tensor), layout.shape, layout.strides)
    return _classes()[0](layout, tensor.data_ptr(), memory)


def address(array: Any) -> int:
    """Return the address of a NumPy array or a device array."""
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array._address)


def stream_of(device: Any) -> int:
    """Return the handle of torch's current stream."""
    handle = raw_stream(device.index)
    # A stream that torch did not make must live as long as numbacc uses it.
    return handle if not handle or handle in foreign else handle_of(torch.cuda.current_stream(device))


def device_of(tensors: Sequence[torch.Tensor], name: str) -> Any:
    """Return the device of tensors that the function `name` got.

    Raises:
        DeviceError: they are on several devices, or on none that is supported.
    """
    device = tensors[0].device if tensors else None
    if device is None or device.type not in SUPPORTED:
        raise DeviceError(
            f"numbacc.torch.{name} got a tensor on {device}; it runs on CPUs and CUDA GPUs: call x.to('cuda')"
        )
    for each in tensors:
        if each.device != device:
            raise DeviceError(
                f"numbacc.torch.{name} got tensors on {device} and {each.device}: move them to one device, "
                f"x.to({str(device)!r})"
            )
    return device


def taken(tensors: Sequence[torch.Tensor], name: str) -> tuple[list[Any], int]:
    """Return arrays in the memory of tensors that the function `name` got, and the handle of the stream for them.

    Raises:
        DeviceError: the tensors are on several devices, or on none that is supported.
    """
    device = device_of(tensors, name)
    stream = 0 if device.type == "cpu" else stream_of(device)
    take = host if device.type == "cpu" else taker(device, stream)
    return [take(each) for each in tensors], stream
