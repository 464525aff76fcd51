"""Tensor maps of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import operands
from ..base.dispatch import runtime
from ..errors import OptionError, shown
from ..runtime import tensor_maps
from ..runtime.streams import handle_of

__all__ = ["TensorMap", "tensor_map"]


class TensorMap:
    """A description of an array for the copy engine, which kernels take as an argument; `tensor_map` makes it.

    Attributes:
        array: the array, which lives as long as this.
        box: lengths of the part that one copy moves, in the order of the array's axes.
        swizzle: bytes.
        nbytes: bytes of a box: what `mbarrier_arrive_expect_tx` announces.
    """

    def __init__(self, array: Any, fields: tensor_maps.MapFields):
        self.array, self.fields = array, fields
        self.box, self.swizzle = fields.box[::-1], fields.swizzle
        self.nbytes = int(np.prod(fields.box)) * fields.itemsize

    def encoded(self) -> bytes:
        """Return the 128 bytes that the GPU reads."""
        if isinstance(self.array, np.ndarray):
            return tensor_maps.encode(self.fields)
        # The driver needs a context, which a new thread does not have.
        with runtime().on_device(self.array._numbacc_layout.device):
            return tensor_maps.encode(self.fields)

    def __reduce__(self) -> Any:
        return tensor_map, (self.array, self.box, self.swizzle)

    def __repr__(self) -> str:
        return (
            f"TensorMap(shape={self.fields.shape[::-1]}, {self.fields.dtype}, box={self.box}, swizzle={self.swizzle})"
        )


def tensor_map(x: Any, box: Sequence[int], swizzle: int = 128) -> TensorMap:
    """Describe an array for the copy engine: `tma_load` and `tma_store` move one box of it.

    Args:
        x: an array of 1 to 5 axes, whose last is contiguous; the other strides and the address are multiples of 16
            bytes.
        box: lengths of a box along the array's axes, at most 256. Along the last, it has a multiple of 16 bytes.
        swizzle: 128, 64, 32 or 0: the bytes of the pattern in which rows of a box lie in shared memory. Rows of a box
            have at most that many bytes, unless it is 0.

    Returns:
        a `TensorMap`, to be passed to a kernel of `device.jit`. It describes the array's memory: make a new one for
        another array.

    Raises:
        LayoutError: the engine cannot read the array.
        OptionError: a wrong box or swizzle.

    Example:
        >>> device.tensor_map(np.zeros((256, 64), np.float16), (128, 64))
        TensorMap(shape=(256, 64), float16, box=(128, 64), swizzle=128)
    """
    array = operands.as_array(x, "x", handle_of(None))
    made = operands.layout_of(array)
    try:
        lengths = tuple(int(n) for n in box)
    except TypeError:
        raise OptionError(f"box={shown(box)}: it must be a tuple of lengths") from None
    fields = tensor_maps.fields_of(made.dtype.name, made.itemsize, made.shape, made.strides, lengths, swizzle)
    address = array.ctypes.data if isinstance(array, np.ndarray) else array._address
    return TensorMap(array, fields._replace(address=int(address)))
