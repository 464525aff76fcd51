"""Executables that write random numbers into device arrays: kernels of Philox's words, or cuRAND, then a kernel.

Each is an `Executable` of one draw into arrays of one layout; what differs from call to call are its scalars, as
`DrawPlan` has them.
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

#: Values that go through scratch memory at a time, where the sequence can be had in pieces.
PIECE = 1 << 24
_LOW = 0xFFFFFFFF


class KernelDraw:
    """Kernels that make values of Philox's words, for arrays that start anywhere.

    There is one for each alignment of the array and each position of the first word in its group of four: 64 at most.
    """

    workspace_bytes = library_bytes = 0
    deterministic = direct = True

    def __init__(self, draw: Draw, made: Layout):
        source = "philox in turns" if draw.in_turns else "philox"
        self._kernel, self._size = _Kernel(draw, made, source, draw.own), made.size
        self.backend = "simulator" if simulated() else "kernel"
        #: What was loaded last, in words.
        self.algorithm = _described(self._kernel.order(0, 0, 0, made.size))
        self._launchers: list[Any] = [None] * 64
        #: What is called of these.
        self._launches: list[Any] = [_unknown] * 64
        #: All that were made: two threads may make one, and call either.
        self._made: list[Any] = []

    def ready(self, addresses: Sequence[int]) -> None:
        """Compile and load what a new generator's first draw needs."""
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
        """As `Executable.launch`."""
        seed, first, _, _ = scalars
        address = addresses[0]
        return self._launches[(address & 15) << 2 | first & 3](stream, scratch, addresses, (seed, first >> 2))

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[Any]) -> Any:
        """As `Executable.launch_unchecked`."""
        (address,), (seed, first, _, _) = addresses, scalars
        return self._launcher(address, first).launch_unchecked(stream, scratch, addresses, (seed, first >> 2))

    def check(self, status: int) -> None:
        """Raise DriverError unless a launch's status is 0."""
        runtime().check_launch(status)


class PositionedDraw:
    """`KernelDraw` from a position on the GPU: a kernel moves it to the draw, the next one makes the values.

    Its arrays are the result and the position. There is a kernel for each alignment of the result.
    """

    workspace_bytes = library_bytes = 0
    deterministic, direct = True, False

    def __init__(self, draw: Draw, made: Layout):
        source = "philox in turns" if draw.in_turns else "philox"
        self._kernel, self._size = _Kernel(draw, made, source, draw.own, positioned=True), made.size
        self.backend = "simulator" if simulated() else "kernel"
        span = draw.round * draw.outputs
        #: Words of a group that may come before the draw's first.
        self._most_skipped = 4 - math.gcd(4, span)
        self._advance = launcher_class()(_advance(made.device, span, draw.length(made.size)))
        self._launchers: dict[int, Any] = {}
        self.algorithm = _described(self._order(0))

    def _order(self, aligned: int) -> LaunchOrder:
        return self._kernel.order(aligned, self._most_skipped, 0, self._size)

    def ready(self, addresses: Sequence[int]) -> None:
        """As `Executable.ready`."""
        self._launcher(addresses[0] & 15, None)

    def _launcher(self, aligned: int, stream: int | None) -> Any:
        found = self._launchers.get(aligned)
        if found is None:
            order, others = self._order(aligned), list(self._launchers.values())
            if others and stream is not None and runtime().is_capturing(stream):
                # Nothing is compiled in a capture that need not be.
                if not launcher_class().is_loaded(order.kernel, order.device):
                    order = for_any_alignment(order._replace(kernel=others[0].order.kernel), order.alignment)
                return launcher_class()(order)
            found = self._launchers[aligned] = launcher_class()(order)
            self.algorithm = _described(order)
        return found

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[Any]) -> Any:
        """As `Executable.launch_unchecked`."""
        address, position = addresses
        # Made before anything is queued.
        launcher = self._launcher(address & 15, stream)
        status = self._advance.launch_unchecked(stream, 0, (position,), ())
        return status or launcher.launch_unchecked(stream, 0, (address,), (position, 0))

    def check(self, status: int) -> None:
        """As `KernelDraw.check`."""
        runtime().check_launch(status)


def _advance(device: int, span: int, length: int) -> LaunchOrder:
    """The launch that moves a position to the next multiple of `span` outputs, for a draw of `length` outputs."""
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
    """The answer where there is no kernel for such an array and position in a group yet."""
    return WRONG_ALIGNMENT


class LibraryDraw:
    """A function of cuRAND's, which writes the array itself, or scratch memory that a kernel makes values of.

    It is launched behind a look at everything else: cuRAND works in the current context, and in no capture.
    """

    library_bytes = 0
    deterministic, direct = True, False

    def __init__(self, draw: Draw, made: Layout, aligned: int):
        self._draw, self._size, self._aligned = draw, made.size, aligned
        self._kernel = _Kernel(draw, made, "memory", draw.formula)
        #: How many values cuRAND writes into the array, where it may: it may store several at once.
        self._done = 0
        if in_order(made) and draw.direct == info(made.dtype).name and not aligned:
            self._done = made.size if draw.whole or not draw.pads else made.size // draw.round * draw.round
        self._piece = made.size if draw.whole else max(PIECE // draw.round, 1) * draw.round
        rest = min(self._piece, made.size - self._done)
        self.workspace_bytes = round_up(4 * draw.words * self._made(rest), 16)
        self.backend = "simulator" if simulated() else "cuRAND"
        behind = f", {_described(self._kernel.order(aligned, 0, self._done, rest))}" if rest else ""
        self.algorithm = draw.function + behind
        #: The number of a piece's first value -> what makes its values of scratch memory.
        self._launchers: dict[int, Any] = {}

    def _made(self, values: int) -> int:
        """How many values cuRAND makes where so many are wanted."""
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
        """As `Executable.launch_unchecked`: write the array, piece by piece, in the order of its memory."""
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
        """Raise DriverError of a kernel's status; what fails of cuRAND has raised its error."""
        runtime().check_launch(status)


def generate(draw: Draw, engine: Any, address: int, position: int, start: int, values: int, stream: int) -> None:
    """cuRAND's values from number `start` on, at an address; value 0 is that of a position."""
    first = position + start * draw.outputs
    # Points are counted, not their coordinates: what is generated at once then tells no position by itself.
    end = None if draw.whole or values % draw.round else first + values * draw.outputs
    engine.generate(draw.function, address, values * draw.makes, draw.arguments, first, end, stream)


class _Kernel(NamedTuple):
    """The kernel that makes values of groups of words, by the part of an array that it writes.

    Attributes:
        draw, made: what is drawn, and the array's layout.
        source, formula, positioned: as in `DrawSpec`.
    """

    draw: Draw
    made: Layout
    source: str
    formula: str
    positioned: bool = False

    def order(self, aligned: int, skipped: int, start: int, count: int) -> LaunchOrder:
        """The launch for `count` values from number `start` on, the first of a group's word number `skipped`.

        `aligned` is the array's address modulo 16. Where the kernel reads its position, `skipped` is the most.
        """
        draw, made = self.draw, self.made
        row, words, itemsize = info(made.dtype), draw.words, made.itemsize
        index = start if self.positioned else start - skipped // words
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
    """A kernel and its launch, to be read."""
    spec: Any = order.kernel
    return f"{spec.source}, {spec.formula}, {8 * spec.access_bytes}-bit stores, grid {order.grid[0]}"


def _bits_of_single(number: float) -> int:
    """The bits of a number as float32 has it; infinite where it is beyond."""
    with np.errstate(over="ignore"):
        return int(np.float32(number).view(np.uint32))


def _bits_of_double(number: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", number))[0])
