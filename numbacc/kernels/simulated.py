"""The kernels' intrinsics in plain Python, for Numba's simulator.

Memory is the host's: addresses are real, and every access is checked against the arrays that exist, so a
kernel that strays out of bounds raises where on a GPU it would corrupt. Step through a kernel with pdb and
these are the functions you step into.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..base.dtypes import DTypeInfo

#: Address -> the bytes there, of every live allocation.
memory: dict[int, np.ndarray[Any, Any]] = {}


def behind(address: int) -> np.ndarray[Any, Any]:
    """The bytes from an address to the end of the allocation that it lies in.

    There are none where it lies behind one; before all, that is an IndexError.
    """
    # Sorted into a list at once: wherever Python code runs, garbage collection may free an allocation.
    starts = sorted(memory)
    where = bisect_right(starts, address) - 1
    if where < 0:
        raise IndexError(f"access at {address:#x} lies outside every device array")
    return memory[starts[where]][address - starts[where] :]


def _element(address: int, offset: int, dtype: DTypeInfo, width: int) -> np.ndarray[Any, Any]:
    """The bytes of one access as an array of `width // itemsize` elements, bounds and alignment checked."""
    target = int(address) + int(offset) * dtype.itemsize
    found = behind(target)
    if found.nbytes < width:
        raise IndexError(f"access of {width} bytes at {target:#x} lies outside every device array")
    if target % width:
        raise IndexError(f"access of {width} bytes at {target:#x} is misaligned")
    return found[:width].view(dtype.numpy)


def _unravel(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    coordinates = []
    for n in reversed(shape[1:]):
        index, rest = divmod(int(index), n)
        coordinates.append(rest)
    return (int(index), *reversed(coordinates))


def _offsets(coordinates: tuple[int, ...], steps: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    return tuple(sum(x * s for x, s in zip(coordinates, row, strict=True)) for row in steps)


def _map_lanes(formula: Callable[..., Any], values: tuple[tuple[Any, ...], ...]) -> Any:
    answers = [formula(*operands) for operands in zip(*values, strict=True)]
    return tuple(zip(*answers, strict=True))


def make_accessors(
    dtype: DTypeInfo, lanes: int, access_bytes: int, inputs: int, turned: tuple[int, ...]
) -> dict[str, Any]:
    """See `intrinsics.accessors`."""
    per_access = access_bytes // dtype.itemsize
    real = np.dtype(dtype.compute).type

    def load(addresses: Any, at: Any) -> Any:
        return tuple(
            real(_element(address, offset, dtype, dtype.itemsize)[0])
            for address, offset in zip(addresses, at, strict=True)
        )

    def store(addresses: Any, at: Any, values: Any) -> None:
        with np.errstate(all="ignore"):
            for address, offset, value in zip(addresses, at, values, strict=True):
                _element(address, offset, dtype, dtype.itemsize)[0] = value

    def accesses(offset: int, step: int) -> list[tuple[int, int]]:
        return [(start, offset + start // per_access * step) for start in range(0, lanes, per_access)]

    def load_lanes(addresses: Any, at: Any, step: int) -> Any:
        return tuple(
            tuple(
                real(number)
                for _, place in accesses(offset, step)
                for number in _element(address, place, dtype, access_bytes)
            )
            for address, offset in zip(addresses, at, strict=True)
        )

    def store_lanes(addresses: Any, at: Any, step: int, values: Any) -> None:
        with np.errstate(all="ignore"):
            for address, offset, numbers in zip(addresses, at, values, strict=True):
                for start, place in accesses(offset, step):
                    _element(address, place, dtype, access_bytes)[:] = numbers[start : start + per_access]

    def stage(tile: Any, i: int, j: int, addresses: Any, straight: Any, crosswise: Any) -> None:
        at = [(crosswise if k in turned else straight)[k] for k in range(inputs)]
        for k, value in enumerate(load(addresses, at)):
            tile[k, i, j] = value

    def fetch(tile: Any, i: int, j: int) -> Any:
        return tuple(real(tile[(k, j, i) if k in turned else (k, i, j)]) for k in range(inputs))

    return {
        "unravel": _unravel,
        "offsets": _offsets,
        "load": load,
        "store": store,
        "load_lanes": load_lanes,
        "store_lanes": store_lanes,
        "map_lanes": _map_lanes,
        "stage": stage,
        "fetch": fetch,
    }


def _exp(x: float) -> float:
    # As on a GPU: overflow is infinity, not an exception.
    return math.exp(x) if not x > 709.782712893384 else math.inf


hardware = SimpleNamespace(
    fma=lambda x, y, z: x * y + z,
    fma_double=lambda x, y, z: x * y + z,
    multiply_add=lambda x, y, z: x * y + z,
    multiply_add_double=lambda x, y, z: x * y + z,
    exp=_exp,
    exp_approximate=_exp,
    reciprocal_approximate=lambda x: 1.0 / x,
    sqrt_approximate=math.sqrt,
    sin_approximate=math.sin,
    cos_approximate=math.cos,
    product=lambda x, y: np.uint64(x) * np.uint64(y),
    product_low=lambda x, y: np.uint64(int(x) * int(y) % 2**64),
    product_high=lambda x, y: np.uint64(int(x) * int(y) >> 64),
    sum_low=lambda x, y: np.uint64((int(x) + int(y)) % 2**64),
    float_of_bits=lambda x: np.uint32(x).view(np.float32),
    double_of_bits=lambda x: np.uint64(x).view(np.float64),
    bits_of_double=lambda x: np.float64(x).view(np.uint64),
    reciprocal_rough=lambda x: 1.0 / x,
    reciprocal_root_rough=lambda x: 1.0 / math.sqrt(x),
)
