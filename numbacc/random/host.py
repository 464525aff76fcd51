"""What writes random numbers into NumPy arrays: NumPy itself, of Philox's words, or cuRAND's host generators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dtypes import info
from ..base.layout import Layout
from ..base.ownership import PLAN_INSTEAD, NotCopied
from ..libraries.curand import STARTING, State, installed
from ..reference.random import philox, philox_for_doubles
from .draw import Draw, in_order, round_up
from .executables import PIECE, generate

#: Values that NumPy makes at a time, an even number: what it works on stays in the cache.
_CHUNK = 1 << 15
#: Words from which on a call of cuRAND's host generator is cheap.
_MANY = 1 << 14


class HostDraw(NotCopied):
    """A draw into arrays of one layout."""

    _instead = PLAN_INSTEAD
    workspace_bytes = 0

    def __init__(self, draw: Draw, made: Layout):
        self._draw, self._layout, self._row = draw, made, info(made.dtype)
        self._in_order = in_order(made)
        self.backend = "numpy" if draw.own else "cuRAND"
        self.algorithm = "reference" if draw.own else draw.function
        # Normals are NumPy's in any case, since they need not be the same to the last bit; in float32 they take it
        # less time.
        self._may_be_curands = not draw.own or (draw.formula == draw.own and made.size * draw.words >= _MANY)

    def prepare(self, address: int, position: int) -> None:
        """Nothing is compiled."""

    def run(self, array: Any, state: State, position: int, stream: int, live: Callable[[], Any]) -> None:
        """Write the array, of the outputs from `position` on. `live()` is cuRAND's generator."""
        flat = array.reshape(-1) if self._in_order else np.empty(self._layout.size, self._layout.dtype)
        if self._may_be_curands and self._curand_is_faster(position - state.offset):
            self._by_curand(flat, live(), position)
        else:
            self._by_numpy(flat, state.seed, position)
        if not self._in_order:
            array[...] = flat.reshape(self._layout.shape)

    def _curand_is_faster(self, drawn: int) -> bool:
        """Whether cuRAND's host generator, where it is installed, should make Philox's words: the same to the last bit.

        It makes one in 4 ns and NumPy in 10, but begins with 10 ms of starting its threads' states, and each call with
        0.1. `drawn` is how many outputs were drawn before.
        """
        draw = self._draw
        return not draw.own or (drawn + self._layout.size * draw.words > STARTING and installed())

    def _by_numpy(self, flat: Any, seed: int, position: int) -> None:
        draw, size = self._draw, len(flat)
        for start in range(0, size, _CHUNK):
            count = min(size - start, _CHUNK)
            if draw.in_turns:
                words = philox_for_doubles(seed, position, start // 2, -(-count // 2))
            else:
                words = philox(seed, position + start * draw.words, draw.length(count))
            flat[start : start + count] = self._values(draw.own, words, count)

    def _by_curand(self, flat: Any, engine: Any, position: int) -> None:
        draw, size = self._draw, len(flat)
        done = 0
        if draw.direct == self._row.name:
            done = size if draw.whole or not draw.pads else size // draw.round * draw.round
            if done:
                generate(draw, engine, flat.ctypes.data, position, 0, done, 0)
        piece = size if draw.whole else max(PIECE // draw.round, 1) * draw.round
        for start in range(done, size, piece):
            count = min(piece, size - start)
            made = round_up(count, draw.round) if draw.pads else count
            memory = np.empty(round_up(4 * draw.words * made, 16) // 4, np.uint32)
            generate(draw, engine, memory.ctypes.data, position, start, made, 0)
            flat[start : start + count] = self._values(draw.formula, memory[: count * draw.words], count)

    def _values(self, formula: str, words: Any, count: int) -> Any:
        draw = self._draw
        with np.errstate(all="ignore"):
            return draw.reference(formula, words, draw.words, self._row, draw.parameters)[:count]
