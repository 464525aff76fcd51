"""Random numbers in NumPy arrays, from Philox's words in NumPy, or from cuRAND's host generators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.dtypes import DTypeInfo, info
from ..base.layout import Layout, round_up
from ..libraries.curand import STARTING, installed
from ..reference.random import FORMULAS, philox, uniforms, uniforms_for_doubles
from .draw import Draw, in_order
from .executables import generate

#: Number of values that NumPy makes at a time, so that intermediate results stay in the cache. It is even.
_CHUNK = 1 << 15
#: Number of cuRAND's values that go through a temporary array at a time.
PIECE = 1 << 20
#: From this number of words on, a call of cuRAND's host generator is cheap.
_MANY = 1 << 14


class HostDraw:
    """A draw into arrays of one layout.

    Attributes:
        backend, algorithm: as in `PlanInfo`.
    """

    def __init__(self, draw: Draw, made: Layout):
        self._draw, self._layout, self._row = draw, made, info(made.dtype)
        self._in_order, self._is_flat = in_order(made), in_order(made) and made.ndim == 1
        self.backend = "numpy" if draw.own else "cuRAND"
        self.algorithm = "reference" if draw.own else draw.function
        self._is_quiet = _is_quiet(draw, self._row)
        self._size, self._of_words = made.size, draw.formula == draw.own
        self._arguments = (draw.words, self._row, *draw.parameters)
        self._own = FORMULAS[draw.own] if draw.own else None
        # NumPy always makes normals, which need not be equal to the last bit. In float32 it is faster than cuRAND.
        self._may_be_curands = not draw.own or (self._of_words and made.size * draw.words >= _MANY)

    def run(self, array: Any, scalars: Sequence[Any]) -> None:
        """Write the array, given the scalars of a `DrawPlan`."""
        seed, position, start, generator = scalars
        if self._is_flat:
            flat = array
        else:
            flat = array.reshape(-1) if self._in_order else np.empty(self._size, self._layout.dtype)
        if self._may_be_curands and self._curand_is_faster(position - start):
            self._by_curand(flat, generator._live(), position)
        elif self._size <= _CHUNK:
            self._put(flat, self._own, self._made(seed, position, 0, self._size), self._size)
        else:
            for done in range(0, self._size, _CHUNK):
                count = min(self._size - done, _CHUNK)
                made = self._made(seed, position, done, count)
                self._put(flat[done : done + count], self._own, made, count)
        if not self._in_order:
            array[...] = flat.reshape(self._layout.shape)

    def _curand_is_faster(self, drawn: int) -> bool:
        """Return whether cuRAND's host generator, if installed, makes Philox's words faster; they are the same.

        cuRAND makes a word in 4 ns, NumPy in 10 ns. But cuRAND takes 10 ms to start its threads' states, and 0.1 ms per
        call. `drawn` is the number of outputs that were drawn before.
        """
        draw = self._draw
        return not draw.own or (drawn + self._size * draw.words > STARTING and installed())

    def _made(self, seed: int, position: int, start: int, count: int) -> Any:
        """Return the words or uniforms for `count` values, from number `start` on."""
        if self._of_words:
            words = self._draw.words
            return philox(seed, position + start * words, count * words)
        if self._draw.in_turns:
            return uniforms_for_doubles(seed, position, start >> 1, count + 1 >> 1)
        return uniforms(seed, position + start, count + 1 >> 1)

    def _by_curand(self, flat: Any, engine: Any, position: int) -> None:
        draw, size = self._draw, self._size
        done = 0
        # cuRAND stores float64 normals 16 bytes at a time, and crashes the process if memory is not aligned for that.
        if draw.direct == self._row.name and flat.ctypes.data % 16 == 0:
            done = size if draw.whole or not draw.pads else size // draw.round * draw.round
            if done:
                generate(draw, engine, flat.ctypes.data, position, 0, done, 0)
        piece = size if draw.whole else max(PIECE // draw.round, 1) * draw.round
        for start in range(done, size, piece):
            count = min(piece, size - start)
            made = round_up(count, draw.round) if draw.pads else count
            memory = np.empty(round_up(4 * draw.words * made, 16) // 4, np.uint32)
            generate(draw, engine, memory.ctypes.data, position, start, made, 0)
            self._put(flat[start : start + count], FORMULAS[draw.formula], memory[: count * draw.words], count)

    def _put(self, part: Any, formula: Any, made: Any, count: int) -> None:
        words, row, u, v, a, b = self._arguments
        if self._is_quiet:
            part[...] = formula(made, words, row, u, v, a, b)[:count]
        else:
            with np.errstate(all="ignore"):
                part[...] = formula(made, words, row, u, v, a, b)[:count]


def _is_quiet(draw: Draw, row: DTypeInfo) -> bool:
    """Return True if no value can overflow, so that NumPy emits no warnings."""
    if row.compute not in ("float32", "float64"):
        return True
    _, _, a, b = draw.parameters
    # The absolute value of a standard normal number is below 9 in float64.
    return row.name == row.compute and draw.own != "lognormal" and abs(a) + 9 * abs(b) < float(np.finfo(row.name).max)
