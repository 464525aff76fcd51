"""Plans of draws: all that follows from a method, its arguments, the result's layout and the generator's kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ..arrays import operands
from ..base import dtypes
from ..base.dispatch import runtime, simulated
from ..base.layout import (
    Layout,
    check_rank,
    check_same_device,
    check_writable,
    layout,
    lengths_of,
    row_major_strides,
)
from ..base.observing import observable
from ..errors import DTypeError, OptionError, ShapeError, UnsupportedError
from ..libraries.curand import SequenceKind, check_outputs
from ..plan.base import Plan, PlanInfo
from ..plan.cache import PlanCache, functions_of
from .draw import Draw
from .executables import KernelDraw, LibraryDraw, PositionedDraw
from .host import HostDraw
from .methods import DRAWS, DTYPES
from .position import Position


class DrawingGenerator(Protocol):
    """The part of a generator that plans use."""

    def _live(self) -> Any:
        """Return cuRAND's generator of the sequence."""

    def _positioned(self, capture: Any) -> Position:
        """Move the generator's position to the GPU and return it; `capture` records the first draw from it."""


class DrawPlan(Plan):
    """A planned draw into arrays of one layout.

    A generator's method runs it with four scalars: the generator's seed (on a GPU as a signed 64-bit word); the number
    of the draw's first output or point; the number of the generator's own first one; and the generator, a
    `DrawingGenerator`. The generator owns cuRAND's generator of the sequence, and the position on the GPU that captured
    draws move.

    Attributes:
        round, length: the draw begins at a multiple of `round` outputs and uses `length` outputs.
        reach: a draw that ends at a later output must be checked by `check`.
        scalar: True if the user asked for one number, not an array.
    """

    def __init__(self, op: str, draw: Draw, sequence: SequenceKind, made: Layout, out_given: bool, scalar: bool):
        super().__init__(op, ("out",), (), (made,))
        row, host = dtypes.info(made.dtype), made.device < 0
        self.out_given, self.scalar, self.empty = out_given, scalar, not made.size
        self.backend, self.math_dtype = "kernel" if draw.own else "cuRAND", row.compute or row.name
        self._draw, self._kind = draw, sequence.row
        self.round = 1 if self.empty else draw.round * draw.outputs
        self.length = draw.length(made.size) // sequence.dimensions
        # Each call checks for errors that occur only on some devices or inside captures. Most draws cannot cause such
        # errors.
        self._captures = host or (bool(draw.own) and not scalar)
        outputs = self._kind.host_outputs if host or simulated() else self._kind.outputs
        self.reach = min(outputs, self._kind.outputs) if self._captures else -1
        self._positioned: PositionedDraw | None = None
        if host:
            self._host = HostDraw(draw, made)
        elif not self.empty:
            check_rank(made.shape or (1,), "the result")

    @property
    def info(self) -> PlanInfo:
        """The plan's decisions; on a GPU as `Plan.info`."""
        found = super().info
        if self.device >= 0 or self.empty:
            return found
        return replace(found, backend=self._host.backend, algorithm=self._host.algorithm)

    def _key(self, addresses: Sequence[int]) -> int:
        # One executable holds the kernels of all alignments, so that arrays of different alignments all use the fast
        # path.
        return 0 if self._draw.own else addresses[0] % 16

    def _make(self, key: int, trial: Any) -> Any:
        draw, made = self._draw, self.outputs[0]
        return KernelDraw(draw, made) if draw.own else LibraryDraw(draw, made, key)

    def _queue(self, stream: int, addresses: Sequence[int], scalars: Sequence[Any], capture: Any) -> None:
        if capture is None:
            super()._queue(stream, addresses, scalars, capture)
            return
        # Every launch of the graph draws other numbers, and the host cannot pass it the position.
        position = scalars[3]._positioned(capture)
        self._queue_at(position, stream, addresses[0], capture)

    @observable("run_at")
    def run_at(self, position: Position, array: Any, stream: int) -> Any:
        """Draw from a position on the GPU into `array` or new memory, and return it; in a graph, at every launch."""
        self.check_capture(stream)
        (made,) = self._complete((array,), stream)
        if not self.empty:
            used = ((position.storage, True),)
            with runtime().using(stream, self.device, (), (made,), used) as capture:
                self._queue_at(position, stream, made._address, capture)
        return made

    @observable("queue_at")
    def _queue_at(self, position: Position, stream: int, address: int, capture: Any) -> None:
        found = self.drawing_from_gpu
        if capture is not None:
            position.use(stream, capture)
            capture.keep(found)
        status = found.launch_unchecked(stream, 0, (address, position.storage.address), ())
        if status:
            found.check(status)

    @property
    def drawing_from_gpu(self) -> PositionedDraw:
        """The executable that draws from a position on the GPU, made when it is first needed."""
        if self._positioned is None:
            self._positioned = PositionedDraw(self._draw, self.outputs[0])
        return self._positioned

    @property
    def has_kernel(self) -> bool:
        """Whether the draw needs no cuRAND, so that the position may be on the GPU."""
        return bool(self._draw.own) or self.empty

    def _compute(self, inputs: Sequence[Any], outs: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
        array = outs[0]
        if array is None:
            made = self.outputs[0]
            array = operands.host_memory(made.shape, made.dtype)
            outs = (array,)
        if not self.empty:
            self._host.run(array, scalars)
        return outs

    def check(self, position: int, end: int, stream: int) -> None:
        """Raise an error unless a generator at a position can draw up to output (or point) `end` on a stream.

        Raises:
            OptionError: the sequence ends before.
            UnsupportedError: the part of the sequence that cuRAND generates correctly ends before; or the stream is
                being captured, and the draw cannot be part of a graph.
        """
        kind, count = self._kind, self.outputs[0].size
        if end > kind.outputs:
            raise OptionError(
                f"{count} values from position {position} on end at {end}, but {kind.name} has "
                f"{kind.outputs} {'points' if kind.quasi else 'outputs'}: use another generator"
            )
        check_outputs(kind, end, self.device, f"{count} values from position {position} on")
        self.check_capture(stream)

    def check_capture(self, stream: int) -> None:
        """Raise UnsupportedError if a stream is being captured and a graph cannot contain the draw.

        A graph would advance cuRAND's state at every launch, so its position in the sequence would be unknown.
        """
        if self._captures or not runtime().is_capturing(stream):
            return
        if self.scalar:
            raise UnsupportedError(
                "a draw of one number inside a graph's capture, before its value is computed: pass size=() to draw it "
                "into an array"
            )
        kind, what = self._kind.name, self.op.removeprefix("random.")
        instead = "draw before the capture into an array that the graph reads, and again between launches"
        if kind != "philox":
            instead = f'make the generator of kind "philox", whose position can be on the GPU, or {instead}'
        raise UnsupportedError(
            f"{what} of kind {kind!r} inside a graph's capture: the draw uses cuRAND's state, which a graph "
            f"cannot hold. Instead, {instead}"
        )


def _plan(
    method: str, arguments: tuple[Any, ...], size: Any, dtype: Any, out: Layout | None, sequence: SequenceKind
) -> DrawPlan:
    """Make the plan of a method's call.

    Args:
        arguments: the method's own arguments.
        size, dtype: as given by the user, but a sequence of lengths is a tuple.
        out: the layout of `out`, if it is given.
        sequence: the kind of the generator.

    Raises:
        the errors that the methods document.
    """
    shape, found = _shape_and_dtype(size, dtype, out, DTYPES[method])
    draw = DRAWS[method](sequence, found, *arguments)
    if sequence.dimensions > 1 and (not shape or shape[0] != sequence.dimensions):
        wanted = f"its first length must be {sequence.dimensions}, one for each coordinate"
        raise ShapeError(f"size={shape} of points in {sequence.dimensions} dimensions: {wanted}")
    made = layout(shape, row_major_strides(shape, found.itemsize), found, sequence.device)
    if made.nbytes >= 2**63:
        raise ShapeError(f"size={shape} is too large: at most 2^63 - 1 bytes")
    if out is not None:
        check_same_device(out, "out", made, "the generator")
        check_writable(out, "out")
    return DrawPlan(f"random.{method}", draw, sequence, out or made, out is not None, size is None and out is None)


def planned(method: str, arguments: tuple[Any, ...], size: Any, dtype: Any, sequence: SequenceKind) -> DrawPlan:
    """Make a plan without a generator and without the cache."""
    return _plan(method, arguments, size, dtype, None, sequence)


def _shape_and_dtype(
    size: Any, dtype: Any, out: Layout | None, supported: Sequence[str]
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and dtype of a result: as given, else as in `out`, else () and the first supported dtype.

    Raises:
        ShapeError: size is not a shape, or not out's shape.
        DTypeError: dtype is not supported, or not out's dtype.
    """
    asked = supported[0] if dtype is None and out is None else dtype
    found = out.dtype if asked is None and out is not None else dtypes.dtype(asked)
    name = dtypes.info(found, "out").name
    if name not in supported:
        where = "out has dtype" if dtype is None else "dtype is"
        raise DTypeError(f"{where} {name}; supported: {', '.join(supported)}")
    if out is not None and out.dtype != found:
        raise DTypeError(f"out has dtype {out.dtype}; dtype={name} was requested")
    if size is None:
        return (() if out is None else out.shape), found
    lengths = lengths_of(size, name="size")
    if out is not None and out.shape != lengths:
        raise ShapeError(f"out has shape {out.shape}; size={lengths} was requested")
    return lengths, found


plans = PlanCache(_plan, count=1024)
cache_info, cache_clear, cache_limit = functions_of(plans, __name__)
