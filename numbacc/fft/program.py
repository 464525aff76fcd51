"""What a Fourier transform does, step by step: which cuFFT plans, and what must be rearranged before and after.

Everything here follows from layouts and options alone; nothing is allocated or run. A program uses as few steps as
the layouts allow, in this order of preference:

1. cuFFT walks the arrays as they are;
2. what it cannot take (padding, other dtypes, strides that do not nest) is first rearranged, into the result itself
   where the transform can then work in place, else into scratch memory;
3. a result that cuFFT cannot write is transformed in scratch memory and rearranged into place.

Scaling and conjugation are done by whichever rearrangement is needed anyway, else by one of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..base.layout import Layout, layout, repeats_elements, row_major_strides
from ..libraries.advanced_layout import MAX_RANK, TYPES, Walk, walk

#: Buffer numbers: the argument, the result; scratch memory follows.
ARGUMENT, RESULT = 0, 1
#: Scratch arrays start on multiples of this, as allocations do.
_ALIGNMENT = 256

_REAL = {"complex64": "float32", "complex128": "float64"}


class Request(NamedTuple):
    """A transform on given layouts, its options validated.

    Attributes:
        function: name of the public function.
        kind: "c2c", "r2c" or "c2r".
        inverse: the sign of the exponent: True for +.
        axes: the transformed axes, each once; the last one is the halved one.
        lengths: points along each.
        scale: what the result is multiplied with, a key of `kernels.arrange.SCALES`.
        conjugate: "", or "before" or "after" the transform.
        math: name of the complex dtype of the transform.
        array, result: layouts.
        overwrite: whether the argument may be destroyed.
        given: whether the result is the user's array.
        norm: as given, for NumPy.
    """

    function: str
    kind: str
    inverse: bool
    axes: tuple[int, ...]
    lengths: tuple[int, ...]
    scale: str
    conjugate: str
    math: str
    array: Layout
    result: Layout
    overwrite: bool
    given: bool
    norm: str | None


class Area(NamedTuple):
    """An array in a program: the number of its buffer, at whose start it begins, and its layout."""

    buffer: int
    layout: Layout


class Arrange(NamedTuple):
    """A pass of `kernels.arrange`."""

    source: Area
    target: Area
    scale: str
    conjugate: bool


class Execute(NamedTuple):
    """Calls of one cuFFT plan."""

    source: Area
    target: Area
    walk: Walk
    inverse: bool


@dataclass
class Program:
    """Steps, and the bytes from the start of scratch memory to each scratch array.

    Attributes:
        steps: in order.
        scratch: where buffers 2, 3, ... start.
        nbytes: of scratch memory.
    """

    steps: list[Arrange | Execute] = field(default_factory=list)
    scratch: list[int] = field(default_factory=list)
    nbytes: int = 0


def build(request: Request, aligned: bool) -> Program:
    """The program for a request.

    Args:
        aligned: whether both arrays start on a multiple of their complex number's size, which cuFFT asks for.
    """
    builder = _Builder(request, aligned)
    getattr(builder, request.kind)()
    return builder.program


class _Builder:
    def __init__(self, request: Request, aligned: bool):
        self.request, self.program = request, Program()
        self._complex: np.dtype[Any] = np.dtype(request.math)
        self._real: np.dtype[Any] = np.dtype(_REAL[request.math])
        #: What scaling and conjugation is still to be done.
        self._scale, self._conjugate = request.scale, request.conjugate
        # A transform of one point is the point.
        pairs = [(d, n) for d, n in zip(request.axes, request.lengths, strict=True) if n > 1]
        self._axes = [d for d, _ in pairs]
        self._lengths = dict(zip(request.axes, request.lengths, strict=True))
        self._result = Area(RESULT, request.result)
        wanted = request.array.dtype == (self._real if request.kind == "r2c" else self._complex)
        shape = self._spectrum if request.kind == "c2r" else self._points
        cut = tuple(min(n, m) for n, m in zip(request.array.shape, shape, strict=True))
        self._source = Area(ARGUMENT, layout(cut, request.array.strides, request.array.dtype, request.array.device))
        #: Whether cuFFT may read the argument as it is, if its strides allow it.
        self._direct = wanted and aligned and cut == shape
        #: Whether cuFFT may write the result, if its strides allow it.
        self._writable = aligned and request.result.dtype in (self._real, self._complex)

    # ------------------------------------------------------------ shapes

    @property
    def _points(self) -> tuple[int, ...]:
        """The shape on the side that has all points."""
        lengths = list(self.request.array.shape)
        for d, n in self._lengths.items():
            lengths[d] = n
        return tuple(lengths)

    @property
    def _spectrum(self) -> tuple[int, ...]:
        """The shape of the half spectrum."""
        lengths, last = list(self._points), self.request.axes[-1]
        lengths[last] = lengths[last] // 2 + 1
        return tuple(lengths)

    def _new(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Area:
        """A gapless scratch array, the transformed axes innermost, the others in the result's memory order."""
        steps = self.request.result.strides
        others = [d for d in range(len(shape)) if d not in self.request.axes]
        order = [*sorted(others, key=lambda d: -abs(steps[d])), *self.request.axes]
        dense = row_major_strides([shape[d] for d in order], dtype.itemsize)
        strides = tuple(dense[order.index(d)] for d in range(len(shape)))
        made = layout(shape, strides, dtype, self.request.array.device)
        program = self.program
        program.scratch.append(program.nbytes)
        program.nbytes += -(-made.nbytes // _ALIGNMENT) * _ALIGNMENT
        return Area(RESULT + len(program.scratch), made)

    # ------------------------------------------------------------ steps

    def _arrange(self, source: Area, target: Area, *, before: bool) -> None:
        """A rearrangement, before or after the transform, that does what may be done on that side."""
        conjugate = self._conjugate == ("before" if before else "after")
        self.program.steps.append(Arrange(source, target, self._scale, conjugate))
        self._scale = ""
        if conjugate:
            self._conjugate = ""

    def _rearranged(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Area:
        """The argument in scratch memory, as cuFFT can walk it."""
        scratch = self._new(shape, dtype)
        self._arrange(self._source, scratch, before=True)
        return scratch

    def _finish(self) -> None:
        """What scaling and conjugation is left, in place."""
        if self._scale or self._conjugate:
            self._arrange(self._result, self._result, before=False)

    def _passes(
        self, kind: str, source: Area, target: Area, axes: Sequence[int], patient: bool = False
    ) -> list[Execute] | None:
        """The calls that transform axes of one array into another, as few as can be, or None where there are none.

        One goes from source to target. The others are complex: before a transform to real numbers they work in the
        source, which such a transform destroys anyway, else in the target.
        """
        # Outermost first, as cuFFT wants them; of a real transform the last axis stays last.
        movable = len(axes) if kind == "c2c" else len(axes) - 1
        order = sorted(axes[:movable], key=lambda d: -abs(source.layout.strides[d])) + list(axes[movable:])
        made = TYPES[self.request.math][kind]
        for rank in range(min(MAX_RANK, len(order)), 0, -1):
            found = walk(made, source.layout, target.layout, order[-rank:], patient)
            if found is None:
                continue
            step, rest = Execute(source, target, found, self.request.inverse), order[:-rank]
            if not rest:
                return [step]
            place = source if kind == "c2r" else target
            others = self._passes("c2c", place, place, rest, patient)
            if others is not None:
                return [*others, step] if kind == "c2r" else [step, *others]
        return None

    def _run(self, kind: str, source: Area, target: Area, axes: Sequence[int], patient: bool = False) -> bool:
        """Append the calls that transform source into target; False where there are none."""
        steps = self._passes(kind, source, target, axes, patient)
        self.program.steps += steps or []
        return steps is not None

    def _insist(self, kind: str, source: Area, target: Area, axes: Sequence[int]) -> None:
        """`_run` for scratch arrays, which cuFFT can walk, be it in a long loop."""
        done = self._run(kind, source, target, axes) or self._run(kind, source, target, axes, patient=True)
        assert done, (kind, source, target, axes)

    # ------------------------------------------------------------ the three kinds

    def c2c(self) -> None:
        source, result, axes = self._source, self._result, self._axes
        if not axes:
            self._arrange(source, result, before=True)
        elif not (self._writable and self._direct and self._run("c2c", source, result, axes)):
            steps = self._passes("c2c", result, result, axes) if self._writable else None
            if steps is not None:
                self._arrange(source, result, before=True)
                self.program.steps += steps
            else:
                scratch = self._new(self._points, self._complex)
                if not (self._direct and self._run("c2c", source, scratch, axes)):
                    self._arrange(source, scratch, before=True)
                    self._insist("c2c", scratch, scratch, axes)
                self._arrange(scratch, result, before=False)
        self._finish()

    def r2c(self) -> None:
        if self.request.lengths[-1] == 1:  # nothing is halved: a complex transform of real numbers
            self._direct = False
            self.c2c()
            return
        source, result, axes = self._source, self._result, self._axes
        if not self._direct:
            source = self._rearranged(self._points, self._real)
        if not (self._writable and self._run("r2c", source, result, axes)):
            spectrum = self._new(self._spectrum, self._complex)
            if not self._run("r2c", source, spectrum, axes):
                if source.buffer == ARGUMENT:
                    source = self._rearranged(self._points, self._real)
                self._insist("r2c", source, spectrum, axes)
            self._arrange(spectrum, result, before=False)
        self._finish()

    def c2r(self) -> None:
        source, result, axes = self._source, self._result, self._axes
        if self.request.lengths[-1] == 1:  # nothing is halved: the real part of a complex transform
            self._conjugate = ""
            if axes:
                source = self._rearranged(self._spectrum, self._complex)
                self._insist("c2c", source, source, axes)
            self._arrange(source, result, before=False)
            self._finish()
            return
        destructible = (
            self._direct and self.request.overwrite and not self._conjugate and not repeats_elements(source.layout)
        )
        if not (destructible and self._writable and self._run("c2r", source, result, axes)):
            source = self._rearranged(self._spectrum, self._complex)
            if not (self._writable and self._run("c2r", source, result, axes)):
                points = self._new(self._points, self._real)
                self._insist("c2r", source, points, axes)
                self._arrange(points, result, before=False)
        self._finish()
