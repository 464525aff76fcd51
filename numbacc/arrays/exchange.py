"""Arrays over memory that is given by its address, and torch tensors over numbacc's memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import checks, dtypes
from ..base.dispatch import runtime, simulated
from ..base.layout import CPU, PORTABLE, integers_of, layout, lengths_of, name_of, row_major_strides
from ..errors import DeviceError, DTypeError, LayoutError, UnsupportedError
from ..runtime.streams import handle_of, target_of
from . import foreign, operands, portable
from .operands import Array

if TYPE_CHECKING:
    import torch


def from_pointer(
    address: int,
    shape: int | Sequence[int],
    dtype: Any = "float32",
    *,
    strides: Sequence[int] | None = None,
    owner: object = None,
    device: int | str | None = None,
    stream: Any = None,
    readonly: bool = False,
) -> Array:
    """Return an array over memory at an address, without a copy.

    Nothing can check that the memory is as large as the array: a wrong shape reads and writes other memory.

    Args:
        address: the address of the first element, a multiple of the element's size.
        shape: lengths of the dimensions; an integer for one dimension.
        dtype: any dtype of numbacc.
        strides: bytes from one element to the next along each dimension; by default the strides of C order.
        owner: an object that keeps the memory. The array and views of it keep this object, and on a GPU until the work
            on the memory is done. Otherwise you have to keep the memory.
        device: "cpu" for host memory; a GPU's number or "cuda:0". None means the GPU that the address belongs to, or
            host memory without a GPU.
        stream: the stream that the owner of the memory works on. Calls on other streams wait for its queued work, and
            its later work waits for them. None means the default stream.
        readonly: True to forbid writing to the array.

    Returns:
        a device array, or a NumPy array over host memory.

    Raises:
        OptionError: the address is not an integer, or stream is not a stream.
        ShapeError, DTypeError: shape, strides or dtype is invalid.
        LayoutError: the address or the strides are not multiples of the element's size, the address is null, or no GPU
            has memory there.
        DeviceError: the address belongs to another GPU than `device`, or the GPU does not exist.

    Example:
        >>> x = np.arange(6, dtype="float32")
        >>> y = numbacc.from_pointer(x.ctypes.data, (2, 3), owner=x, device="cpu")
        >>> y[1, 2], np.shares_memory(x, y)
        (np.float32(5.0), True)
    """
    start = checks.integer(address, "address", 0, 2**64 - 1)
    found, handle = dtypes.dtype(dtype), handle_of(stream)
    is_readonly = checks.boolean(readonly, "readonly")
    lengths = lengths_of(shape, found.itemsize)
    steps = row_major_strides(lengths, found.itemsize) if strides is None else integers_of(strides, "strides")
    if len(steps) != len(lengths) or any(step % found.itemsize for step in steps):
        raise LayoutError(
            f"strides={steps} must have one number of bytes for each of the {len(lengths)} dimensions, multiples of "
            f"the element size {found.itemsize}"
        )
    foreign.check_memory("the array", start, lengths, found.itemsize)
    target = target_of(device)
    if target < 0:
        host = foreign.host_array(owner, start, lengths, steps, found, is_readonly)
        return host if target == CPU else portable.of_host(host)
    from . import interop  # it imports Numba

    try:
        where = interop.device_of_address(start, "the array")
    except LayoutError:
        raise LayoutError(f'address={start:#x} belongs to no GPU: pass device="cpu" for host memory') from None
    if device is not None and where != target:
        raise DeviceError(f"address={start:#x} belongs to {name_of(where)}, and device= names {name_of(target)}")
    storage = runtime().borrow(owner, start, where, handle, handle, "address")
    made = operands.device_array()(layout(lengths, steps, found, where), start, storage)
    made._readonly = is_readonly
    return made


#: The dtypes that torch gets as they are. It gets others as integers, and views these in its own dtype.
_DIRECT = {
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128",
}  # fmt: skip


def to_torch(array: Any, *, stream: Any = None) -> torch.Tensor:
    """Return a torch tensor that shares an array's memory, on its GPU or on the CPU.

    Args:
        array: array of numbacc, NumPy or another library, of any dtype that torch has, bfloat16 and float8 included.
        stream: the stream that an array of another library is imported on.

    Returns:
        torch.Tensor without gradients. It keeps the memory alive. On a GPU, torch's current stream waits for the work
        that numbacc has queued on the array, and numbacc's later work waits for that stream.

    Raises:
        UnsupportedError: torch is not installed.
        DTypeError: array is not an array, or torch does not have its dtype.
        LayoutError: the array is read-only, or has negative strides; torch's tensors can be neither.

    Example:
        >>> import importlib.util
        >>> x = tensor = numbacc.asarray([1.5, 2.0])
        >>> if importlib.util.find_spec("torch"):
        ...     tensor = numbacc.to_torch(x)  # shares the memory of x
        >>> tuple(tensor.shape)
        (2,)
    """
    try:
        import torch
    except ModuleNotFoundError:
        raise UnsupportedError('numbacc.to_torch needs torch: pip install "numbacc[torch]"') from None
    given = operands.as_array(array, "array", handle_of(stream))
    found = operands.layout_of(given)
    if found.device == PORTABLE:
        given = given.host
    elif found.device != CPU and simulated():  # its memory is host memory
        own = given._storage, given._address, found.shape, found.strides, found.dtype, given._readonly
        given = foreign.host_array(*own)
    is_readonly = not given.flags.writeable if isinstance(given, np.ndarray) else given._readonly
    if is_readonly or any(step < 0 for step in found.strides):
        what = "is read-only" if is_readonly else f"has negative strides {found.strides}"
        raise LayoutError(f"array {what}, which torch's tensors cannot be: pass a copy, numbacc.array(x)")
    dtype = getattr(torch, found.dtype.name, None)
    if dtype is None:
        raise DTypeError(f"array has dtype {found.dtype}, which torch does not have: convert it first")
    is_direct = found.dtype.name in _DIRECT
    words = given if is_direct else given.view(f"int{8 * found.itemsize}")
    tensor = torch.from_numpy(words) if isinstance(words, np.ndarray) else torch.from_dlpack(words)
    return tensor if is_direct else tensor.view(dtype)
