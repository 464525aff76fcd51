"""Plans of draws: what follows from a method, its arguments, the result's layout and the kind of generator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays import operands
from ..base import dtypes
from ..base.backend import backend, simulated
from ..base.layout import (
    CPU,
    Layout,
    check_rank,
    check_same_device,
    check_writable,
    layout,
    lengths_of,
    read_only,
    row_major_strides,
)
from ..base.ownership import PLAN_INSTEAD, NotCopied
from ..errors import DTypeError, OptionError, ShapeError, UnsupportedError
from ..libraries.curand import SequenceKind, State, check_outputs
from ..plan.base import PlanInfo
from .draw import Draw
from .executables import KernelDraw, LibraryDraw
from .host import HostDraw
from .methods import DRAWS, DTYPES


class DrawPlan(NotCopied):
    """A planned draw into arrays of one layout.

    Attributes:
        layout: the result's.
        round, length: the draw begins at a multiple of `round` outputs and takes `length`.
    """

    _instead = PLAN_INSTEAD

    def __init__(self, op: str, draw: Draw, sequence: SequenceKind, made: Layout, scalar: bool):
        self.op, self.layout, self.scalar = op, made, scalar
        self._draw, self._kind = draw, sequence.row
        self._device = made.device
        self._empty = not made.size
        self.round = 1 if self._empty else draw.round * draw.outputs
        self.length = draw.length(made.size) // sequence.dimensions
        # What is wrong on some devices, or inside captures, is looked at by each call; but most draws are right
        # everywhere.
        outputs = self._kind.host_outputs if made.device == CPU or simulated() else self._kind.outputs
        self._last = min(outputs, self._kind.outputs)
        self._captures = made.device == CPU or (bool(draw.own) and not scalar)
        self.executable = self._select()

    def _select(self) -> Any:
        """What writes the values; None where there are none."""
        draw, made = self._draw, self.layout
        if self._empty:
            return None
        if made.device == CPU:
            return HostDraw(draw, made)
        check_rank(made.shape or (1,), "the result")
        if draw.own:
            return KernelDraw(draw, made, "philox in turns" if draw.in_turns else "philox", draw.own)
        return LibraryDraw(draw, made)

    @property
    def info(self) -> PlanInfo:
        """What the plan decided."""
        row, made = dtypes.info(self.layout.dtype), self.executable
        backend, algorithm = "numpy" if self._device == CPU else "kernel", "no launch: the result is empty"
        if made is not None:
            backend, algorithm = made.backend, made.algorithm
        return PlanInfo(
            op=self.op,
            dtypes=(row.name,),
            backend="simulator" if self._device != CPU and simulated() else backend,
            algorithm=algorithm,
            workspace_bytes=0 if made is None else made.workspace_bytes,
            math_dtype=row.compute or row.name,
            accumulator_dtype=None,
            deterministic=True,
        )

    def prepare(self) -> None:
        """Compile and load what a run needs, for a result that starts at a multiple of 16 and a new generator."""
        if not self._empty:
            self.executable.prepare(0, 0)

    def _raise_end(self, position: int, end: int) -> None:
        kind, count = self._kind, self.layout.size
        if end > kind.outputs:
            raise OptionError(
                f"{count} values from position {position} on end at {end}, but {kind.name} has "
                f"{kind.outputs} {'points' if kind.quasi else 'outputs'}: use another generator"
            )
        check_outputs(kind, end, self._device, f"{count} values from position {position} on")

    def run(self, state: State, position: int, array: Any, stream: int, live: Any) -> tuple[Any, int]:
        """Draw into an array of the plan's layout, or a new one.

        Args:
            state: the generator's; its position is of no meaning here.
            position: how many outputs, or points, the generator has behind it.
            array: where to write; None for a new array.
            stream: a handle.
            live: returns the generator of cuRAND's.

        Returns:
            (the array, the generator's next position).

        Raises:
            OptionError: the sequence ends before. UnsupportedError: so does the part that cuRAND has right; or the
            stream is being captured, and the draw is none for a graph. LayoutError: the array is read-only.
        """
        first = -(-position // self.round) * self.round
        end = first + self.length
        if end > self._last:
            self._raise_end(position, end)
        if not self._captures and backend().is_capturing(stream):
            self._raise_capture()
        if self._device == CPU:
            if array is None:
                array = operands.host_memory(self.layout.shape, self.layout.dtype)
            elif not array.flags.writeable:
                raise read_only("out")
        elif array is None:
            array = operands.empty_device(self.layout, stream)
        elif array._readonly:
            raise read_only("out")
        if not self._empty:
            self.executable.run(array, state, first, stream, live)
        return array, end

    def _raise_capture(self) -> None:
        """A graph would step cuRAND's state at every replay, and nobody would know where its sequence then is."""
        if self.scalar:
            raise UnsupportedError(
                "a draw of one number inside a graph's capture, where it has no value yet: pass size=() for an array "
                "of it"
            )
        raise UnsupportedError(
            "this draw goes through cuRAND, whose state a graph cannot hold: draw before the capture and copy inside "
            'it, or draw bits, uniforms, integers, masks or normals of kind "philox"'
        )


@lru_cache(maxsize=1024)
def plan_of(
    method: str, arguments: tuple[Any, ...], size: Any, dtype: Any, out: Layout | None, sequence: SequenceKind
) -> DrawPlan:
    """The plan of a method's call.

    Args:
        arguments: the method's own.
        size, dtype: as given, but for a sequence of lengths, which is a tuple.
        out: the layout of `out`, if it is given.
        sequence: what kind of generator.

    Raises:
        what the methods say.
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
    return DrawPlan(f"random.{method}", draw, sequence, out or made, size is None and out is None)


def cache_info() -> Any:
    """Hits, misses, maximum and current size of the cache of plans, as `functools.lru_cache` names them."""
    return plan_of.cache_info()


def cache_clear() -> None:
    """Forget all plans."""
    plan_of.cache_clear()


def _shape_and_dtype(
    size: Any, dtype: Any, out: Layout | None, supported: Sequence[str]
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of a result: those given, else those of `out`, else () and the first supported.

    Raises:
        ShapeError: size is no shape, or not that of out. DTypeError: dtype is not supported, or not that of out.
    """
    asked = supported[0] if dtype is None and out is None else dtype
    found = out.dtype if asked is None and out is not None else dtypes.dtype(asked)
    name = dtypes.info(found, "out").name
    if name not in supported:
        where = "out has dtype" if dtype is None else "dtype is"
        raise DTypeError(f"{where} {name}; supported: {', '.join(supported)}")
    if out is not None and out.dtype != found:
        raise DTypeError(f"out has dtype {out.dtype}; dtype={name} was asked for")
    if size is None:
        return (() if out is None else out.shape), found
    lengths = lengths_of(size, name="size")
    if out is not None and out.shape != lengths:
        raise ShapeError(f"out has shape {out.shape}; size={lengths} was asked for")
    return lengths, found
