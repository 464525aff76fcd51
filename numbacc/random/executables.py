"""What writes random numbers into device arrays: a kernel of Philox's words, or cuRAND and a kernel of its memory.

Each is made for one draw and one layout, and launched with what differs from call to call: the array's address, the
seed, the position in the sequence.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.backend import backend, launcher_class
from ..base.codes import CAPTURING
from ..base.dtypes import info
from ..base.layout import Layout
from ..base.ownership import PLAN_INSTEAD, NotCopied
from ..device import workspace
from ..kernels.specs import MAX_THREADS, DrawSpec, LaunchOrder, groups_of
from ..libraries.curand import State
from .draw import Draw, in_order, round_up

#: Values that go through scratch memory at a time, where the sequence can be had in pieces.
PIECE = 1 << 24
_LOW = 0xFFFFFFFF
#: A seed as an address, which is signed; and what of a seed a launcher is for: its highest bit and its low four.
_NO_SIGN, _SEED_KEY = 2**63 - 1, 2**63 + 15
#: Launchers that a plan keeps.
_MOST_LAUNCHERS = 512


class KernelDraw(NotCopied):
    """A kernel that makes values of Philox's words.

    Attributes:
        workspace_bytes: 0.
    """

    _instead = PLAN_INSTEAD
    backend, workspace_bytes = "kernel", 0

    def __init__(self, draw: Draw, made: Layout, source: str, formula: str):
        self._draw, self._layout = draw, made
        self._kernel = _Kernel(draw, made, source, formula)
        #: (address modulo 16, what counts of the seed, position modulo 64) -> the launcher.
        self._launchers: dict[tuple[int, int, int], Any] = {}

    def prepare(self, address: int, position: int, seed: int = 0) -> Any:
        """Compile and load what a run needs."""
        made = self._kernel.launcher(address, seed, position >> 2, position & 3, 0, self._layout.size)
        if len(self._launchers) >= _MOST_LAUNCHERS:
            self._launchers.clear()
        self._launchers[address & 15, seed & _SEED_KEY, position & 63] = made
        return made

    @property
    def algorithm(self) -> str:
        """Which kernel."""
        return self._kernel.algorithm

    def run(self, array: Any, state: State, position: int, stream: int, live: Callable[[], Any]) -> None:
        """Write the array, of the words from `position` on, in the order of its memory."""
        # The path where a tenth of a microsecond counts.
        address, storage, seed = array._address, array._storage, state.seed
        launcher = self._launchers.get((address & 15, seed & _SEED_KEY, position & 63))
        if (
            launcher is not None
            and storage.sole == stream
            and not launcher.launch(stream, seed & _NO_SIGN, position >> 2, address, 0, 0, 0)
        ):
            if storage.sole != stream:
                backend().note(stream, self._layout.device, (), (array,))
            return
        with backend().using(stream, self._layout.device, writes=(array,)):
            launcher = launcher or self.prepare(address, position, seed)
            _launch(launcher, stream, seed, position >> 2, address)


class LibraryDraw(NotCopied):
    """A function of cuRAND's, which writes the array itself, or scratch memory that a kernel makes values of."""

    _instead = PLAN_INSTEAD
    backend = "cuRAND"

    def __init__(self, draw: Draw, made: Layout):
        self._draw, self._layout = draw, made
        self._kernel = _Kernel(draw, made, "memory", draw.formula)
        #: Whether cuRAND may write into an array that starts at a multiple of 16: it may store several values at once.
        self._direct = in_order(made) and draw.direct == info(made.dtype).name
        self._piece = made.size if draw.whole else max(PIECE // draw.round, 1) * draw.round
        self.workspace_bytes = 0 if self._direct and draw.pads else self._bytes(min(self._piece, made.size))

    @property
    def algorithm(self) -> str:
        """The function, and which kernel follows."""
        return self._draw.function + ("" if self._direct else f", {self._kernel.algorithm}")

    def prepare(self, address: int, position: int) -> None:
        """Compile and load the kernel that a run needs."""
        if not self._direct:
            self._kernel.launcher(address, 0, 0, 0, 0, min(self._piece, self._layout.size))

    def _bytes(self, values: int) -> int:
        return round_up(4 * self._draw.words * self._made(values), 16)

    def _made(self, values: int) -> int:
        """How many values cuRAND makes where so many are wanted."""
        return round_up(values, self._draw.round) if self._draw.pads else values

    def run(self, array: Any, state: State, position: int, stream: int, live: Callable[[], Any]) -> None:
        """Write the array, of the outputs from `position` on, in the order of its memory. `live()` is the generator."""
        draw, made, engine = self._draw, self._layout, live()
        with backend().using(stream, made.device, writes=(array,)):
            done = 0
            if self._direct and array._address % 16 == 0:
                done = made.size if draw.whole or not draw.pads else made.size // draw.round * draw.round
                if done:
                    generate(draw, engine, array._address, position, 0, done, stream)
            for start in range(done, made.size, self._piece):
                values = min(self._piece, made.size - start)
                self._fill(array, engine, position, start, values, stream)

    def _fill(self, array: Any, engine: Any, position: int, start: int, values: int, stream: int) -> None:
        """Values from number `start` on, by way of scratch memory."""

        def launch(scratch: int) -> None:
            generate(self._draw, engine, scratch, position, start, self._made(values), stream)
            launcher = self._kernel.launcher(array._address, scratch, 0, 0, start, values)
            _launch(launcher, stream, scratch, 0, array._address)

        workspace.run(launch, self._bytes(values), self._layout.device, stream)


def generate(draw: Draw, engine: Any, address: int, position: int, start: int, values: int, stream: int) -> None:
    """cuRAND's values from number `start` on, at an address; value 0 is that of a position."""
    first = position + start * draw.outputs
    # Points are counted, not their coordinates: what is generated at once then tells no position by itself.
    end = None if draw.whole or values % draw.round else first + values * draw.outputs
    engine.generate(draw.function, address, values * draw.makes, draw.arguments, first, end, stream)


def _launch(launcher: Any, stream: int, name: int, group: int, address: int) -> None:
    words = name & _NO_SIGN, group, address, 0, 0, 0
    status = launcher.launch(stream, *words)
    if status == CAPTURING:
        status = launcher.launch_unchecked(stream, *words)
    backend().check_launch(status)


class _Kernel:
    """The kernel that makes values of groups of words, by the part of an array that it writes."""

    def __init__(self, draw: Draw, made: Layout, source: str, formula: str):
        self._draw, self._layout, self._source, self._formula = draw, made, source, formula
        row = info(made.dtype)
        backend().check_capability(row.name, row.oldest_capability, made.device)
        self._launchers: dict[tuple[int, ...], Any] = {}
        #: What was launched last, in words.
        self.algorithm = f"{source}, {formula}"

    def launcher(self, address: int, name: int, group: int, skipped: int, start: int, count: int) -> Any:
        """What makes `count` values from number `start` on, the first of a group's word number `skipped`.

        A launcher takes what changes from call to call as arrays' addresses, and looks at their low four bits: there is
        one for each of those of the seed and of the first group, which then need not be unpacked by every thread.
        """
        key = address & 15, name & 15, name >> 63, group & 15, skipped, start, count
        found = self._launchers.get(key)
        if found is None:
            if len(self._launchers) >= _MOST_LAUNCHERS:
                self._launchers.clear()
            found = self._launchers[key] = self._make(*key)
        return found

    def _make(self, aligned: int, named: int, highest: int, grouped: int, skipped: int, start: int, count: int) -> Any:
        draw, made = self._draw, self._layout
        row, words, itemsize = info(made.dtype), draw.words, made.itemsize
        index = start - skipped // words
        # Integers are stored as unsigned ones, since all that matters is their bits; so are booleans.
        dtype = row.name if row.compute in ("float32", "float64") else f"uint{row.bits}"
        shape, steps = made.shape or (1,), tuple(step // itemsize for step in made.strides) or (1,)
        if in_order(made):
            shape, steps = (made.size,), (1,)
        # `accessors` stores integers narrower than a word in accesses of 2 bytes at most, or as words.
        widest = 2 if row.bits < 32 and dtype.startswith("uint") else 16
        access = math.gcd(widest, 4 // words * itemsize, (aligned + index * itemsize) % 16)
        groups = -(-(skipped + count * words) // 4)
        u, v, a, b = draw.parameters
        real = _bits_of_double if row.compute == "float64" else _bits_of_single
        formula = "few_integers" if self._formula == "integers" and words == 2 and u < 2**32 else self._formula
        spec = DrawSpec(
            source=self._source,
            formula=formula,
            words=words,
            dtype=dtype,
            dense=in_order(made),
            rank=len(shape),
            access_bytes=max(access, itemsize),
            groups=groups_of(formula, words),
        )
        halves = tuple(half for n in (u, v, real(a), real(b)) for half in (n & _LOW, n >> 32))
        blocks = -(-groups // (MAX_THREADS * spec.groups))
        order = LaunchOrder(
            kernel=spec,
            device=made.device,
            grid=(blocks, 1),
            block=(MAX_THREADS, 1),
            alignment=(named, grouped, aligned),
            places=((0, 0), (1, 0), (2, 0)),
            constants=(groups, index, made.size, highest << 31, *halves, *steps, *shape),
            pairs=(),
        )
        self.algorithm = f"{spec.source}, {spec.formula}, {8 * spec.access_bytes}-bit stores, grid {blocks}"
        return launcher_class()(order)


def _bits_of_single(number: float) -> int:
    """The bits of a number as float32 has it; infinite where it is beyond."""
    with np.errstate(over="ignore"):
        return int(np.float32(number).view(np.uint32))


def _bits_of_double(number: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", number))[0])
