"""Tensor maps: descriptions of arrays in global memory for Hopper's copy engine (TMA)."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import NamedTuple

from numbacc_bindings.driver import driver

from ..errors import LayoutError, OptionError, shown

__all__ = ["BYTES", "MapFields", "at_address", "encode", "fields_of"]

#: Bytes of a tensor map.
BYTES = 128
#: CUtensorMapDataType by dtype; types that the engine does not know are copied as integers of the same size.
_TYPES = {
    "uint8": 0, "int8": 0, "bool": 0, "float8_e4m3fn": 0, "float8_e5m2": 0, "uint16": 1, "int16": 1, "uint32": 2,
    "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
}  # fmt: skip
#: CUtensorMapSwizzle by bytes.
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
#: CUtensorMapL2promotion: 128 bytes.
_PROMOTION = 2


class MapFields(NamedTuple):
    """What a tensor map says, with the innermost axis first.

    Attributes:
        dtype: the elements' dtype, by name.
        itemsize: bytes of an element.
        shape: lengths of the array's axes.
        strides: bytes from one element to the next along each axis; that of the first is `itemsize`.
        box: lengths of the part that one copy moves.
        swizzle: 128, 64, 32, or 0 bytes: how the rows of a box lie in shared memory.
        address: where the array begins.
    """

    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    address: int = 0


def fields_of(
    dtype: str, itemsize: int, shape: tuple[int, ...], strides: tuple[int, ...], box: tuple[int, ...], swizzle: int
) -> MapFields:
    """Return the fields of a tensor map of an array, whose axes are given as the array's, outermost first.

    Args:
        strides: in bytes.

    Raises:
        LayoutError: the engine cannot read the array.
        OptionError: a wrong box or swizzle.
    """
    if dtype not in _TYPES:
        raise LayoutError(f"a tensor map cannot describe elements of {dtype}")
    if not 1 <= len(shape) <= 5:
        raise LayoutError(f"the array has shape {shape}: a tensor map describes 1 to 5 axes")
    if swizzle not in _SWIZZLES:
        raise OptionError(f"swizzle={shown(swizzle)}: it must be 128, 64, 32 or 0 bytes")
    if len(box) != len(shape) or not all(1 <= n <= 256 for n in box):
        raise OptionError(
            f"box={shown(box)}: it needs a length from 1 to 256 for each of the array's {len(shape)} axes"
        )
    if strides[-1] != itemsize and shape[-1] > 1:
        raise LayoutError(
            f"the array's elements along the last axis are {strides[-1]} bytes apart: a tensor map needs a contiguous "
            "last axis. Pass a contiguous copy, or the transposed view if that has one"
        )
    for axis, step in enumerate(strides[:-1]):
        if shape[axis] > 1 and (step % 16 or not 0 < step < 2**40):
            raise LayoutError(
                f"the array's stride along axis {axis} is {step} bytes: a tensor map needs a positive multiple of 16"
            )
    width = box[-1] * itemsize
    if width % 16:
        raise OptionError(f"box={shown(box)}: its last axis has {width} bytes, and needs a multiple of 16")
    if swizzle and width > swizzle:
        raise OptionError(
            f"box={shown(box)}: its last axis has {width} bytes; with swizzle={swizzle} it may have at most {swizzle}"
        )
    # Strides of axes of length 1 are never used, and the driver wants multiples of 16.
    steps = [
        step if n > 1 and k < len(shape) - 1 else 16 for k, (n, step) in enumerate(zip(shape, strides, strict=True))
    ]
    return MapFields(dtype, itemsize, shape[::-1], (itemsize, *steps[-2::-1]), box[::-1], swizzle)


@lru_cache(maxsize=1024)
def encode(fields: MapFields) -> bytes:
    """Return the 128 bytes of a tensor map.

    Raises:
        DriverError: the driver is too old, or the GPU has no copy engine for boxes.
    """
    if fields.address % 16:
        raise LayoutError(f"the array starts at address {fields.address:#x}: a tensor map needs a multiple of 16")
    rank = len(fields.shape)
    room = ctypes.create_string_buffer(BYTES + 64)
    place = ctypes.addressof(room) + -ctypes.addressof(room) % 64
    shape = (ctypes.c_uint64 * rank)(*fields.shape)
    strides = (ctypes.c_uint64 * rank)(*fields.strides[1:])
    box, steps = (ctypes.c_uint32 * rank)(*fields.box), (ctypes.c_uint32 * rank)(*[1] * rank)
    driver.cuTensorMapEncodeTiled(
        place, _TYPES[fields.dtype], rank, fields.address, ctypes.addressof(shape), ctypes.addressof(strides),
        ctypes.addressof(box), ctypes.addressof(steps), 0, _SWIZZLES[fields.swizzle], _PROMOTION, 0,
    )  # fmt: skip
    return ctypes.string_at(place, BYTES)


def at_address(fields: MapFields, address: int) -> bytes:
    """Return the 128 bytes of the map of an equal array at another address."""
    return encode(fields._replace(address=address))
