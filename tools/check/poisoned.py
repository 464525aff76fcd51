"""Arrays in poisoned memory, with gaps or in an unusual order of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import numbacc
from numbacc.base.layout import Layout, layout

from .conv_cases import MemoryLayout

#: Elements before and behind an array that must stay as they are: of 16 bits a multiple of 16 bytes.
_MARGIN = 64


def poison(shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
    """An array of what no result is."""
    return np.full(shape, -77777 if dtype.kind == "i" else np.nan).astype(dtype)


def with_layout(array: Layout, named: str, memory: MemoryLayout) -> Layout:
    """Return an array's layout with the memory layout `memory`.

    Args:
        array: an image, or kernels with K in the place of N.
        named: its axes, as `numbacc.conv` names layouts.
    """
    pixels = [k for k, letter in enumerate(named) if letter not in "NC"]
    ahead = [k for letter in memory.order for k in (pixels if letter == "P" else [named.index(letter)])]
    order = [*ahead, *(k for k in range(array.ndim) if k not in ahead)]
    strides, reach = [0] * array.ndim, 1
    for place, k in enumerate(reversed(order)):
        strides[k] = reach * array.itemsize
        # Elements next to each other stay so.
        reach = array.shape[k] * reach + memory.gap * (place > 0 or named.endswith("C"))
    return layout(array.shape, tuple(strides), array.dtype, array.device)


class PoisonedArray:
    """Values on the GPU, laid out as is said, poison around and between them.

    Args:
        offset: elements between a multiple of 16 bytes and the first element.
    """

    def __init__(self, values: Any, array: Layout, offset: int = 0):
        steps = [step // array.itemsize for step in array.strides]
        self._at = (
            _MARGIN
            + offset
            + sum(
                (np.arange(n).reshape(-1, *(1,) * (array.ndim - 1 - k)) * step)
                for k, (n, step) in enumerate(zip(array.shape, steps, strict=True))
            )
        )
        self._before = poison((2 * _MARGIN + offset + (array.high - array.low) // array.itemsize,), array.dtype)
        self._before[self._at] = values
        self._memory = numbacc.asarray(self._before)
        self._start = (_MARGIN + offset) * array.itemsize

    @property
    def address(self) -> int:
        """That of the first element."""
        return int(self._memory._address) + self._start

    def now(self) -> tuple[Any, bool]:
        """(the present values, whether all around them is as it was)."""
        found = numbacc.asnumpy(self._memory)
        values = found[self._at]
        rest, before = found.copy(), self._before.copy()
        rest[self._at] = before[self._at] = 0
        return values, rest.tobytes() == before.tobytes()
