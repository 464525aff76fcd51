"""Executables that write random numbers into device arrays: kernels that compute Philox, or cuRAND and a kernel.

Each is an `Executable` for one draw into arrays of one layout. The scalars differ from call to call; see `DrawPlan`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.codes import WRONG_ALIGNMENT
from ..base.dispatch import launcher_class, runtime, simulated
from ..base.dtypes import info
from ..base.layout import Layout, round_up
from ..kernels.elementwise.geometry import for_any_alignment
from ..kernels.random.spec import DRAW_WORDS, AdvanceSpec, DrawSpec, groups_of
from ..runtime.launch_order import MAX_THREADS, LaunchOrder
from .draw import Draw, in_order

#: Number of values that go through scratch memory at a time, if the sequence can be generated in pieces.
PIECE = 1 << 24
_LOW = 0xFFFFFFFF


class KernelDraw:
    """Kernels that make values from Philox's words, for arrays at any address.

    There is one kernel for each alignment of the array and each position of the first word in its group of four: at
    most 64.
    """

    workspace_bytes = library_bytes = 0
    deterministic = direct = True

    def __init__(self, draw: Draw, made: Layout):
        source = "philox in turns" if draw.in_turns else "philox"
        self._kernel, self._size = _Kernel(draw, made, source, draw.own), made.size
        self.backend = "simulator" if simulated() else "kernel"
        #: Describes the kernel that was loaded last.
        self.algorithm = _described(self._kernel.order(0, 0, 0, made.size))
        self._launchers: list[Any] = [None] * 64
        #: The functions that launch these.
        self._launches: list[Any] = [_unknown] * 64
        #: All launchers: two threads may each make the same one, and call either.
        self._made: list[Any] = []

    def ready(self, addresses: Sequence[int]) -> None:
        """Compile and load the kernel for a new generator's first draw."""
        self._launcher(addresses[0], 0)

    def _launcher(self, address: int, first: int) -> Any:
        number = (address & 15) << 2 | first & 3
        found = self._launchers[number]
        if found is None:
            order = self._kernel.order(address & 15, first & 3, 0, self._size)
            found = launcher_class()(order)
            self._made.append(found)
            self._launchers[number], self._launches[number] = found, found.launch
            self.algorithm = _described(order)
        return found

    def launch(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[Any]) -> Any:
        """Do what `Executable.launch` does."""
        seed, first, _, _ = scalars
        address = addresses[0]
        return self._launches[(address & 15) << 2 | first & 3](stream, scratch, addresses, (seed, first >> 2))

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[Any]) -> Any:
        """Do what `Executable.launch_unchecked` does."""
        (address,), (seed, first, _, _) = addresses, scalars
        return self._launcher(address, first).launch_unchecked(stream, scratch, addresses, (seed, first >> 2))

    def check(self, status: int) -> None:
        """Raise DriverError unless a launch's status is 0."""
        runtime().check_launch(status)


class PositionedDraw:
    """A `KernelDraw` whose position is on the GPU: one kernel advances the position, the next makes the values.

    Its arrays are the result and the position. There is a kernel for each alignment of the result.
    """

    workspace_bytes = library_bytes = 0
    deterministic, direct = True, False

    def __init__(self, draw: Draw, made: Layout):
        source = "philox in turns" if draw.in_turns else "philox"
        self._kernel, self._size = _Kernel(draw, made, source, draw.own, positioned=True), made.size
        self.backend = "simulator" if simulated() else "kernel"
        span = draw.round * draw.outputs
        #: The most words of a group that may precede the draw's first word.
        self._most_skipped = 4 - math.gcd(4, span)
        self._advance = launcher_class()(_advance(made.device, span, draw.length(made.size)))
        self._launchers: dict[int, Any] = {}
        self.algorithm = _described(self._order(0))

    def _order(self, aligned: int) -> LaunchOrder:
        return self._kernel.order(aligned, self._most_skipped, 0, self._size)

    def ready(self, addresses: Sequence[int]) -> None:
        """Do what `Executable.ready` does."""
        self._launcher(addresses[0] & 15, None)

    def _launcher(self, aligned: int, stream: int | None) -> Any:
        found = self._launchers.get(aligned)
        if found is None:
            order, others = self._order(aligned), list(self._launchers.values())
            if others and stream is not None and runtime().is_capturing(stream):
                # In a capture, avoid unnecessary compilation.
                if not launcher_class().is_loaded(order.kernel, order.device):
                    order = for_any_alignment(order._replace(kernel=others[0].order.kernel), order.alignment)
                return launcher_class()(order)
            found = self._launchers[aligned] = launcher_class()(order)
            self.algorithm = _described(order)
        return found

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[Any]) -> Any:
        """Do what `Executable.launch_unchecked` does."""
        address, position = addresses
        # Made before any work is queued.
        launcher = self._launcher(address & 15, stream)
        status = self._advance.launch_unchecked(stream, 0, (position,), ())
        return status or launcher.launch_unchecked(stream, 0, (address,), (position, 0))

    def check(self, status: int) -> None:
        """Do what `KernelDraw.check` does."""
        runtime().check_launch(status)


def _advance(device: int, span: int, length: int) -> LaunchOrder:
    """Return the launch that moves a position to the next multiple of `span`, and past a draw of `length` outputs."""
    return LaunchOrder(
        kernel=AdvanceSpec(),
        device=device,
        grid=(1, 1),
        block=(1, 1),
        alignment=(0,),
        pointers=((0, 0),),
        constants=(span, length),
        pairs=(),
    )


def _unknown(stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
    """Report that a kernel for this alignment and position in a group is still missing."""
    return WRONG_ALIGNMENT


class LibraryDraw:
    """A function of cuRAND that writes the array itself, or writes scratch memory that a kernel turns into values.

    It runs only after all other checks: cuRAND works in the current context, and not in a capture.
    """

    library_bytes = 0
    deterministic, direct = True, False

    def __init__(self, draw: Draw, made: Layout, aligned: int):
        self._draw, self._size, self._aligned = draw, made.size, aligned
        self._kernel = _Kernel(draw, made, "memory", draw.formula)
        #: How many values cuRAND writes directly into the array; 0 if it cannot, since it may store several values at
        #: once.
        self._done = 0
        if in_order(made) and draw.direct == info(made.dtype).name and not aligned:
            self._done = made.size if draw.whole or not draw.pads else made.size // draw.round * draw.round
        self._piece = made.size if draw.whole else max(PIECE // draw.round, 1) * draw.round
        rest = min(self._piece, made.size - self._done)
        self.workspace_bytes = round_up(4 * draw.words * self._made(rest), 16)
        self.backend = "simulator" if simulated() else "cuRAND"
        behind = f", {_described(self._kernel.order(aligned, 0, self._done, rest))}" if rest else ""
        self.algorithm = draw.function + behind
        #: Number of a piece's first value -> the launcher of the kernel that turns scratch memory into the piece.
        self._launchers: dict[int, Any] = {}

    def _made(self, values: int) -> int:
        """Return how many values cuRAND generates to provide `values` of them."""
        return round_up(values, self._draw.round) if self._draw.pads else values

    def ready(self, addresses: Sequence[int]) -> None:
        """Compile and load the kernel that a run needs."""
        if self._done < self._size:
            self._launcher(self._done)

    def _launcher(self, start: int) -> Any:
        found = self._launchers.get(start)
        if found is None:
            order = self._kernel.order(self._aligned, 0, start, min(self._piece, self._size - start))
            found = self._launchers[start] = launcher_class()(order)
        return found

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[Any]) -> int:
        """Write the array piece by piece, in memory order; see `Executable.launch_unchecked`."""
        (address,), (_, first, _, generator) = addresses, scalars
        draw, engine = self._draw, generator._live()
        if self._done:
            generate(draw, engine, address, first, 0, self._done, stream)
        for start in range(self._done, self._size, self._piece):
            values = min(self._piece, self._size - start)
            generate(draw, engine, scratch, first, start, self._made(values), stream)
            status: int = self._launcher(start).launch_unchecked(stream, 0, (address,), (scratch, 0))
            if status:
                return status
        return 0

    def check(self, status: int) -> None:
        """Raise DriverError for a kernel's status; cuRAND's failures have raised their errors already."""
        runtime().check_launch(status)


def generate(draw: Draw, engine: Any, address: int, position: int, start: int, values: int, stream: int) -> None:
    """Generate cuRAND's values from number `start` on, at an address; value 0 is at `position`."""
    first = position + start * draw.outputs
    # cuRAND counts points, not coordinates, so a call for all coordinates does not determine the next position.
    end = None if draw.whole or values % draw.round else first + values * draw.outputs
    engine.generate(draw.function, address, values * draw.makes, draw.arguments, first, end, stream)


class _Kernel(NamedTuple):
    """The kernel that makes values from groups of words, for each part of an array.

    Attributes:
        draw, made: the draw, and the array's layout.
        source, formula, positioned: as in `DrawSpec`.
    """

    draw: Draw
    made: Layout
    source: str
    formula: str
    positioned: bool = False

    def order(self, aligned: int, skipped: int, start: int, count: int) -> LaunchOrder:
        """Return the launch for `count` values from number `start` on.

        The first value begins at word `skipped` of a group. If the kernel reads its position, `skipped` is the largest
        possible value. `aligned` is the array's address modulo 16.
        """
        draw, made = self.draw, self.made
        row, words, itemsize = info(made.dtype), draw.words, made.itemsize
        index = start if self.positioned else start - skipped // words
        # Integers are stored as unsigned integers, since only the bits matter; booleans, too.
        dtype = row.name if row.compute in ("float32", "float64") else f"uint{row.bits}"
        shape, steps = made.shape or (1,), tuple(step // itemsize for step in made.strides) or (1,)
        if in_order(made):
            shape, steps = (made.size,), (1,)
        # `accessors` stores integers narrower than a word in accesses of at most 2 bytes, or in whole words.
        widest = 2 if row.bits < 32 and dtype.startswith("uint") else 16
        access = math.gcd(widest, 4 // words * itemsize, (aligned + index * itemsize) % 16)
        groups = -(-(skipped + count * words) // 4)
        u, v, a, b = draw.parameters
        real = _bits_of_double if row.compute == "float64" else _bits_of_single
        formula = "few_integers" if self.formula == "integers" and words == 2 and u < 2**32 else self.formula
        spec = DrawSpec(
            source=self.source,
            formula=formula,
            words=words,
            dtype=dtype,
            dense=in_order(made),
            rank=len(shape),
            access_bytes=max(access, itemsize),
            groups=groups_of(formula, words),
            positioned=self.positioned,
        )
        halves = tuple(half for n in (u, v, real(a), real(b)) for half in (n & _LOW, n >> 32))
        return LaunchOrder(
            kernel=spec,
            device=made.device,
            grid=(-(-groups // (MAX_THREADS * spec.groups)), 1),
            block=(MAX_THREADS, 1),
            alignment=(aligned,),
            pointers=((0, 0),),
            constants=(groups, index, made.size, *halves, *steps, *shape, 1),
            pairs=(),
            words=DRAW_WORDS,
        )


def _described(order: LaunchOrder) -> str:
    """Describe a kernel and its launch in words."""
    spec: Any = order.kernel
    return f"{spec.source}, {spec.formula}, {8 * spec.access_bytes}-bit stores, grid {order.grid[0]}"


def _bits_of_single(number: float) -> int:
    """Return the bits of a number in float32; values out of range become infinite."""
    with np.errstate(over="ignore"):
        return int(np.float32(number).view(np.uint32))


def _bits_of_double(number: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", number))[0])
