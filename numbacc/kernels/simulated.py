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

from ..base.dtypes import TABLE, DTypeInfo

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


def _element(address: int, offset: int, dtype: DTypeInfo, count: int) -> np.ndarray[Any, Any]:
    """The elements of one access as an array, bounds and alignment checked."""
    target, nbytes = int(address) + int(offset) * dtype.itemsize, count * dtype.itemsize
    found = behind(target)
    if found.nbytes < nbytes:
        raise IndexError(f"access of {nbytes} bytes at {target:#x} lies outside every device array")
    # One complex number is aligned as its parts are.
    if target % (nbytes if count > 1 else nbytes // dtype.parts):
        raise IndexError(f"access of {nbytes} bytes at {target:#x} is misaligned")
    return found[:nbytes].view(dtype.numpy)


def _unravel(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    coordinates = []
    for n in reversed(shape[1:]):
        index, rest = divmod(int(index), n)
        coordinates.append(rest)
    return (int(index), *reversed(coordinates))


def _offsets(coordinates: tuple[int, ...], steps: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    return tuple(sum(x * s for x, s in zip(coordinates, row, strict=True)) for row in steps)


def _tuple(answer: Any) -> tuple[Any, ...]:
    return answer if isinstance(answer, tuple) else (answer,)


def _apply(formula: Callable[..., Any], values: tuple[Any, ...], scalars: tuple[Any, ...]) -> Any:
    # The formulas define overflow and NaN; NumPy's warnings about them would be noise.
    with np.errstate(all="ignore"):
        return _tuple(formula(*values, *scalars))


def _map_lanes(formula: Callable[..., Any], values: tuple[tuple[Any, ...], ...], scalars: tuple[Any, ...]) -> Any:
    answers = [_apply(formula, numbers, scalars) for numbers in zip(*values, strict=True)]
    return tuple(zip(*answers, strict=True))


def make_scalar_reader(names: tuple[str, ...]) -> Any:
    """See `intrinsics.scalar_reader`."""
    rows = [TABLE[name] for name in names]

    def scalars(words: tuple[int, ...]) -> Any:
        numbers, rest = [], iter(words)
        for row in rows:
            size = row.itemsize // row.parts
            data = b"".join(int(next(rest)).to_bytes(8, "little", signed=True)[:size] for _ in range(row.parts))
            numbers.append(np.frombuffer(data, row.numpy)[0])
        return tuple(numbers)

    return scalars


def make_accessors(rows: tuple[Any, ...], lanes: int, width: int, turned: tuple[int, ...]) -> dict[str, Any]:
    """See `intrinsics.operands`."""

    def row(k: int) -> Any:
        return rows[k] if len(rows) > 1 else rows[0]

    def number(k: int, value: Any) -> Any:
        return np.dtype(row(k).number).type(value)

    def put(target: Any, value: Any) -> None:
        target[...] = np.asarray(value).astype(target.dtype)

    def load(addresses: Any, at: Any) -> Any:
        found = []
        for k, (address, offset) in enumerate(zip(addresses, at, strict=True)):
            dtype = row(k).dtype
            found.append(number(k, _element(address, offset, dtype, 1)[0]))
        return tuple(found)

    def store(addresses: Any, at: Any, values: Any) -> None:
        with np.errstate(all="ignore"):
            for k, (address, offset, value) in enumerate(zip(addresses, at, values, strict=True)):
                put(_element(address, offset, row(k).dtype, 1), value)

    def accesses(k: int, offset: int, step: int) -> list[tuple[int, int]]:
        return [(start, offset + start // width * step + start % width) for start in range(0, lanes, row(k).access)]

    def load_lanes(addresses: Any, at: Any, step: int) -> Any:
        found = []
        for k, (address, offset) in enumerate(zip(addresses, at, strict=True)):
            dtype, access = row(k).dtype, row(k).access
            if row(k).repeated:
                found.append((number(k, _element(address, offset, dtype, 1)[0]),) * lanes)
                continue
            parts = [_element(address, place, dtype, access) for _, place in accesses(k, offset, step)]
            found.append(tuple(number(k, value) for part in parts for value in part))
        return tuple(found)

    def store_lanes(addresses: Any, at: Any, step: int, values: Any) -> None:
        with np.errstate(all="ignore"):
            for k, (address, offset, numbers) in enumerate(zip(addresses, at, values, strict=True)):
                access = row(k).access
                for start, place in accesses(k, offset, step):
                    put(_element(address, place, row(k).dtype, access), numbers[start : start + access])

    def stage(tile: Any, i: int, j: int, addresses: Any, straight: Any, crosswise: Any) -> None:
        at = [(crosswise if k in turned else straight)[k] for k in range(len(rows))]
        for k, value in enumerate(load(addresses, at)):
            tile[k, i, j] = value

    def fetch(tile: Any, i: int, j: int) -> Any:
        return tuple(number(k, tile[(k, j, i) if k in turned else (k, i, j)]) for k in range(len(rows)))

    return {
        "unravel": _unravel,
        "offsets": _offsets,
        "load": load,
        "store": store,
        "load_lanes": load_lanes,
        "store_lanes": store_lanes,
        "map_lanes": _map_lanes,
        "apply": _apply,
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
