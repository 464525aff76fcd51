"""The kernels' intrinsics in plain Python, for Numba's simulator.

Memory is the host's and addresses are real. Every access is checked against the arrays that exist, so a kernel that
goes out of bounds raises an error instead of corrupting memory as on a GPU. When you step through a kernel with pdb,
these are the functions that you step into.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base.casts import cast, is_quiet, quietly
from ...base.dtypes import TABLE, DTypeInfo
from ...functions import arithmetic, powers
from ..specs import TILE_STEP


class Allocations(dict[int, "np.ndarray[Any, Any]"]):
    """A dict from the address of each live allocation to its bytes."""

    #: The first is replaced whenever an allocation is made or freed; the second is (`_state` when sorted, sorted
    #: addresses).
    _state: object = None
    _sorted: tuple[object, list[int]] = (object(), [])

    def __setitem__(self, address: int, found: np.ndarray[Any, Any]) -> None:
        super().__setitem__(address, found)
        self._state = object()

    def pop(self, *arguments: Any) -> Any:
        found = super().pop(*arguments)
        self._state = object()
        return found

    def before(self, address: int) -> int:
        """Return the start of the last allocation at or before an address; raise IndexError if none exists."""
        state, (known, starts) = self._state, self._sorted
        if known is not state:
            # `sorted` builds the list in one call: during Python code, garbage collection could free an allocation.
            starts = sorted(self)
            self._sorted = state, starts
        where = bisect_right(starts, address) - 1
        if where < 0:
            raise IndexError(f"access at {address:#x} is outside every device array")
        return starts[where]


memory = Allocations()

#: `numbacc.trace` sets this; called with (address of the operand, address of the access, bytes, whether it is written).
watcher: Callable[[int, int, int, bool], None] | None = None


def behind(address: int) -> np.ndarray[Any, Any]:
    """Return the bytes from an address to the end of its allocation.

    The result is empty if the address is after an allocation; an address before all allocations raises IndexError.
    """
    start = memory.before(address)
    return memory[start][address - start :]


def _element(
    address: int, offset: int, dtype: DTypeInfo, count: int, written: bool | None = False
) -> np.ndarray[Any, Any]:
    """Return an access's elements as an array, checked for bounds and alignment; `written` is None to only check."""
    kind = dtype.numpy
    size = kind.itemsize
    target, nbytes = int(address) + int(offset) * size, count * size
    start = memory.before(target)
    begin = target - start
    found = memory[start][begin : begin + nbytes]
    if found.size < nbytes:
        raise IndexError(f"access of {nbytes} bytes at {target:#x} is outside every device array")
    # A complex element is aligned as its parts are.
    if target % nbytes and (count > 1 or target % (nbytes // dtype.parts)):
        raise IndexError(f"access of {nbytes} bytes at {target:#x} is misaligned")
    if watcher is not None and written is not None:
        watcher(int(address), target, nbytes, written)
    return found.view(kind)


def _unravel(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) == 1:
        return (int(index),)
    coordinates = []
    for n in reversed(shape[1:]):
        index, rest = divmod(int(index), n)
        coordinates.append(rest)
    return (int(index), *reversed(coordinates))


def _offsets(coordinates: tuple[int, ...], steps: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    if len(coordinates) == 1:
        (x,) = coordinates
        return tuple([x * s for (s,) in steps])
    return tuple([sum([x * s for x, s in zip(coordinates, row, strict=True)]) for row in steps])


def _apply(formula: Callable[..., Any], values: tuple[Any, ...], scalars: tuple[Any, ...]) -> Any:
    # The formulas define overflow and NaN, so NumPy's warnings about them would only be noise.
    if is_quiet():
        answer = formula(*values, *scalars)
    else:
        with quietly():
            answer = formula(*values, *scalars)
    return answer if isinstance(answer, tuple) else (answer,)


def _map_lanes(formula: Callable[..., Any], values: tuple[tuple[Any, ...], ...], scalars: tuple[Any, ...]) -> Any:
    answers = [_apply(formula, numbers, scalars) for numbers in zip(*values, strict=True)]
    return tuple(zip(*answers, strict=True))


def make_scalar_reader(names: tuple[str, ...]) -> Any:
    """Return the function of `operands.scalar_reader`."""
    rows = [TABLE[name] for name in names]

    @lru_cache(maxsize=64)
    def scalars(words: tuple[int, ...]) -> Any:
        numbers, rest = [], iter(words)
        for row in rows:
            size = row.itemsize // row.parts
            data = b"".join(int(next(rest)).to_bytes(8, "little", signed=True)[:size] for _ in range(row.parts))
            numbers.append(np.frombuffer(data, row.numpy)[0])
        return tuple(numbers)

    return scalars


def make_accessors(rows: tuple[Any, ...], lanes: int, width: int, transposed: tuple[int, ...]) -> dict[str, Any]:
    """Return the functions of `operands.operands`."""

    def row(k: int) -> Any:
        return rows[k] if len(rows) > 1 else rows[0]

    numbers_of = [None if each.as_it_is else np.dtype(each.number) for each in rows]

    def number(k: int, value: Any) -> Any:
        dtype = numbers_of[k if len(rows) > 1 else 0]
        return value if dtype is None or value.dtype == dtype else cast(value, dtype)[()]

    def put(target: Any, values: Any) -> None:
        if not isinstance(values[0], tuple):
            target[...] = cast(values, target.dtype)
            return
        for k, (made, is_stored, kept) in enumerate(values):
            target[k] = cast(made, target.dtype) if is_stored else kept

    def one(k: int, address: int, offset: int) -> Any:
        return number(k, np.int64(offset) if row(k).counted else _element(address, offset, row(k).dtype, 1)[0])

    def load(addresses: Any, at: Any) -> Any:
        return tuple([one(k, *each) for k, each in enumerate(zip(addresses, at, strict=True))])

    def store(addresses: Any, at: Any, values: Any) -> None:
        if not is_quiet():
            with quietly():
                return store_quietly(addresses, at, values)
        return store_quietly(addresses, at, values)

    def store_quietly(addresses: Any, at: Any, values: Any) -> None:
        for k, (address, offset, value) in enumerate(zip(addresses, at, values, strict=True)):
            put(_element(address, offset, row(k).dtype, 1, True), (value,))

    def accesses(k: int, offset: int, step: int) -> list[tuple[int, int]]:
        return [(start, offset + start // width * step + start % width) for start in range(0, lanes, row(k).access)]

    def load_lanes(addresses: Any, at: Any, step: int) -> Any:
        found = []
        for k, (address, offset) in enumerate(zip(addresses, at, strict=True)):
            dtype, access = row(k).dtype, row(k).access
            if row(k).repeated:
                found.append((one(k, address, offset),) * lanes)
                continue
            if row(k).counted:
                there = (offset + lane // width * step + lane % width for lane in range(lanes))
                found.append(tuple(one(k, address, each) for each in there))
                continue
            parts = [_element(address, start, dtype, access) for _, start in accesses(k, offset, step)]
            found.append(tuple(number(k, value) for part in parts for value in part))
        return tuple(found)

    def store_lanes(addresses: Any, at: Any, step: int, values: Any) -> None:
        with quietly():
            for k, (address, offset, numbers) in enumerate(zip(addresses, at, values, strict=True)):
                access = row(k).access
                for first, start in accesses(k, offset, step):
                    put(_element(address, start, row(k).dtype, access, True), numbers[first : first + access])

    def one_by_one(at: Any, moved: int, step: int, lane: int) -> list[int]:
        """Return the offsets of a lane."""
        return [offset + moved + lane // width * step + lane % width for offset in at]

    def load_uneven(addresses: Any, at: Any, moved: int, step: int, thread: int) -> Any:
        found = []
        for lane in range(lanes):
            there = one_by_one(at, moved, step, lane)
            found.append(load(addresses, [at[k] if row(k).repeated else there[k] for k in range(len(at))]))
        return tuple(zip(*found, strict=True))

    def store_uneven(addresses: Any, at: Any, moved: int, step: int, values: Any, thread: int) -> None:
        for lane in range(lanes):
            store(addresses, one_by_one(at, moved, step, lane), [numbers[lane] for numbers in values])

    def load_some(addresses: Any, at: Any, step: int, count: int) -> Any:
        found = [
            load(
                addresses,
                [o if row(k).repeated else o + (lane * step if lane < count else 0) for k, o in enumerate(at)],
            )
            for lane in range(lanes)
        ]
        return tuple(zip(*found, strict=True))

    def store_some(addresses: Any, at: Any, step: int, values: Any, count: int) -> None:
        for lane in range(min(lanes, count)):
            store(addresses, [offset + lane * step for offset in at], [numbers[lane] for numbers in values])

    def only(operands: Any, addresses: Any, at: Any) -> dict[int, Any]:
        return {k: one(k, addresses[k], at[k]) for k in operands}

    straight = [k for k in range(len(rows)) if k not in transposed]
    #: (row, column) of each lane of `load_down`, relative to the first, in elements.
    blocks = [
        (n * TILE_STEP * width**2 + i, j) for n in range(lanes // width**2) for i in range(width) for j in range(width)
    ]

    def moved(at: Any, strides: Any, rows: int, columns: int) -> list[int]:
        return [o + rows * steps[-2] + columns * steps[-1] for o, steps in zip(at, strides, strict=True)]

    def taken(tile: Any, column: int, row: int) -> dict[int, Any]:
        return {k: number(k, tile[n, column, row]) for n, k in enumerate(transposed)}

    def stage(tile: Any, column: int, row: int, addresses: Any, at: Any) -> None:
        for n, value in enumerate(only(transposed, addresses, at).values()):
            tile[n, column, row] = value

    def fetch(tile: Any, column: int, row: int, addresses: Any, at: Any) -> Any:
        found = taken(tile, column, row) | only(straight, addresses, at)
        return tuple(found[k] for k in range(len(rows)))

    def check_words(operands: Any, addresses: Any, at: Any) -> None:
        """Raise IndexError if a combined access is not aligned."""
        for k in operands:
            if row(k).counted:
                continue
            _element(addresses[k], at[k], row(k).dtype, width, None)

    def stage_lanes(tile: Any, column: int, cell: int, addresses: Any, at: Any, strides: Any) -> None:
        for n in range(0, lanes // width * TILE_STEP, TILE_STEP):
            check_words(transposed, addresses, moved(at, strides, 0, n))
            for i in range(width):
                stage(tile, column + n, cell * width + i, addresses, moved(at, strides, i, n))

    def load_down(addresses: Any, at: Any, strides: Any) -> Any:
        for block in blocks[::width]:
            check_words(straight, addresses, moved(at, strides, *block))
        found = [only(straight, addresses, moved(at, strides, *block)) for block in blocks]
        return tuple(tuple(each[k] for each in found) for k in straight)

    def fetch_lanes(tile: Any, column: int, cell: int, loaded: Any) -> Any:
        found = [taken(tile, column + j, cell * width + i) for i, j in blocks]
        return tuple(
            tuple(each[k] for each in found) if k in transposed else loaded[straight.index(k)] for k in range(len(rows))
        )

    def store_down(addresses: Any, at: Any, strides: Any, values: Any) -> None:
        for lane, block in enumerate(blocks):
            if lane % width == 0:
                check_words(range(len(addresses)), addresses, moved(at, strides, *block))
            store(addresses, moved(at, strides, *block), [numbers[lane] for numbers in values])

    return {
        "unravel": _unravel,
        "offsets": _offsets,
        "load": load,
        "store": store,
        "load_lanes": load_lanes,
        "store_lanes": store_lanes,
        "map_lanes": _map_lanes,
        "apply": _apply,
        "load_some": load_some,
        "store_some": store_some,
        "load_uneven": load_uneven,
        "store_uneven": store_uneven,
        "stage": stage,
        "stage_lanes": stage_lanes,
        "fetch": fetch,
        "fetch_lanes": fetch_lanes,
        "load_down": load_down,
        "store_down": store_down,
    }


def _exp(x: float) -> float:
    # Overflow gives infinity, as on a GPU, not an exception.
    return math.exp(x) if not x > 709.782712893384 else math.inf


def _double(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes in float64 and returns infinity on overflow."""

    def call(*numbers: Any) -> Any:
        try:
            return np.float64(function(*map(float, numbers)))
        except (OverflowError, ZeroDivisionError):
            return np.float64(math.copysign(math.inf, numbers[0]))
        except ValueError:
            return np.float64(math.nan)

    return call


_THEIRS = (
    arithmetic.cbrt,
    arithmetic.erfinv,
    arithmetic.exp2,
    arithmetic.reciprocal_root,
    arithmetic.rint,
    arithmetic.scaled,
)


def _fma_double(x: Any, y: Any, z: Any) -> Any:
    """Return x y + z, rounded once."""
    found = np.float64(x) * y + z
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        # If x and y are finite, so is their product.
        return np.float64(z) if math.isfinite(x) and math.isfinite(y) else found
    # Python rounds a quotient of integers once.
    (a, below_a), (b, below_b), (c, below_c) = (float(each).as_integer_ratio() for each in (x, y, z))
    exact, below = a * b * below_c + c * below_a * below_b, below_a * below_b * below_c
    if not exact:
        return found  # has the right sign of zero
    try:
        return np.float64(exact / below)
    except OverflowError:
        return np.float64(math.inf if exact > 0 else -math.inf)


hardware = SimpleNamespace(
    **{name: _double(each) for each in _THEIRS for name in (each.__name__, f"{each.__name__}_double")},
    stepped=lambda x, n: (np.float32(x).view(np.int32) + np.int32(n)).view(np.float32),
    stepped_double=lambda x, n: (np.float64(x).view(np.int64) + np.int64(n)).view(np.float64),
    power_of_bits=lambda x: (np.float32(x).view(np.uint32) << np.uint32(23)).view(np.float32),
    times_power_of_bits=lambda x, n: (
        np.float32(x).view(np.uint32) + (np.float32(n).view(np.uint32) << np.uint32(23))
    ).view(np.float32),
    to_float16=lambda x: cast(np.float32(x), np.dtype(np.float16)).astype(np.float32)[()],
    to_bfloat16=lambda x: cast(np.float32(x), TABLE["bfloat16"].numpy).astype(np.float32)[()],
    # In float64 the product of two float32 is exact.
    fma=lambda x, y, z: np.float32(np.float64(x) * y + z),
    fma_double=_fma_double,
    multiply_add=lambda x, y, z: x * y + z,
    multiply_add_double=lambda x, y, z: x * y + z,
    greatest=arithmetic.greatest,
    least=arithmetic.least,
    exp=_exp,
    exp_approximate=_exp,
    exp2_approximate=lambda x: 2.0**x,
    log2_approximate=lambda x: np.float32(powers.log2_rough(x)),
    reciprocal_approximate=lambda x: 1.0 / x,
    inverse_approximate=lambda x: 1.0 / x,
    reciprocal_root_approximate=lambda x: 1.0 / np.sqrt(x),
    sqrt_approximate=np.sqrt,
    quotient_approximate=lambda x, y: x / y,
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
