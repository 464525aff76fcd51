"""The steps of a Fourier transform: the cuFFT plans to run, and the repacking passes before and after them.

Everything here follows from layouts and options; nothing is allocated or run. There are several ways:

1. cuFFT reads and writes the arrays as they are.
2. The argument is first repacked into the result, if the transform can then work in place there, or else into scratch
   memory. This serves arrays that cuFFT does not support (padding, other dtypes, strides that do not nest), and columns
   that cuFFT transforms slower than numbacc's kernel transposes them.
3. The transform writes to scratch memory, and its result is repacked.

The fastest possible way is chosen by measured costs; see `advanced_layout`. Scaling and conjugation are part of a
repacking pass if there is one, or else a separate pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.layout import layout, repeats_elements
from ..libraries.advanced_layout import MAX_RANK, TYPES, walk
from .steps import ARGUMENT, RESULT, Area, Execute, Program, Repack, TransformRequest, dense, inner_axes

__all__ = ["Execute", "Program", "Repack", "TransformRequest", "build", "with_result"]

#: Scratch arrays start at multiples of this, as allocations do.
_ALIGNMENT = 256

#: Results of at least this size in bytes get the memory order that is fastest to write.
_LARGE = 1 << 20

_REAL = {"complex64": "float32", "complex128": "float64"}


def build(request: TransformRequest, aligned: bool) -> Program:
    """Return the program for a request.

    Args:
        aligned: whether both arrays start at a multiple of the size of their complex number, as cuFFT requires.
    """
    programs = []
    for way in _WAYS[request.kind]:
        builder = _Builder(request, aligned)
        if way(builder):
            builder.finish()
            programs.append(builder.program)
    return min(programs, key=lambda program: program.cost)


def with_result(request: TransformRequest) -> TransformRequest:
    """Choose the memory order of a new result that is written fastest: the argument's, or with the axes innermost.

    Small results have the argument's order.
    """
    result = request.result
    other = request._replace(result=dense(result.shape, inner_axes(request), result))
    if result.nbytes < _LARGE or other.result.strides == result.strides:
        return request
    return min(request, other, key=lambda asked: build(asked, True).cost)


class _Builder:
    def __init__(self, request: TransformRequest, aligned: bool):
        self.request, self.program = request, Program()
        self._complex: np.dtype[Any] = np.dtype(request.math)
        self._real: np.dtype[Any] = np.dtype(_REAL[request.math])
        #: The scaling and conjugation that are still to be done.
        self._scale, self._conjugate = request.scale, request.conjugate
        # A transform of one point does nothing.
        pairs = [(d, n) for d, n in zip(request.axes, request.lengths, strict=True) if n > 1]
        self._axes = [d for d, _ in pairs]
        self._lengths = dict(zip(request.axes, request.lengths, strict=True))
        self._result = Area(RESULT, request.result)
        wanted = request.array.dtype == (self._real if request.kind == "r2c" else self._complex)
        shape = self._spectrum if request.kind == "c2r" else self._points
        cut = tuple(min(n, m) for n, m in zip(request.array.shape, shape, strict=True))
        self._source = Area(ARGUMENT, layout(cut, request.array.strides, request.array.dtype, request.array.device))
        #: Whether cuFFT may read the argument as it is, if it supports the strides.
        self._direct = wanted and aligned and cut == shape
        #: Whether cuFFT may write the result, if it supports the strides.
        self._writable = aligned and request.result.dtype in (self._real, self._complex)

    # ------------------------------------------------------------ shapes

    @property
    def _points(self) -> tuple[int, ...]:
        """The shape with all points."""
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
        """Allocate a contiguous scratch array: transformed axes innermost, the others in the result's memory order."""
        made = dense(shape, inner_axes(self.request), self.request.result, dtype)
        program = self.program
        program.scratch.append(program.nbytes)
        program.nbytes += -(-made.nbytes // _ALIGNMENT) * _ALIGNMENT
        return Area(RESULT + len(program.scratch), made)

    # ------------------------------------------------------------ steps

    def _repack(self, source: Area, target: Area, *, before: bool) -> None:
        """Append a repacking pass before or after the transform, with the scaling and conjugation possible there."""
        conjugate = self._conjugate == ("before" if before else "after")
        self.program.steps.append(Repack(source, target, self._scale, conjugate))
        self._scale = ""
        if conjugate:
            self._conjugate = ""

    def _repacked(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Area:
        """Repack the argument into scratch memory that cuFFT supports."""
        scratch = self._new(shape, dtype)
        self._repack(self._source, scratch, before=True)
        return scratch

    def finish(self) -> None:
        """Append the remaining scaling and conjugation, in place."""
        if self._scale or self._conjugate:
            self._repack(self._result, self._result, before=False)

    def _passes(
        self, kind: str, source: Area, target: Area, axes: Sequence[int], patient: bool = False
    ) -> list[Execute] | None:
        """Return the fewest calls that transform axes of one array into another, or None if that is impossible.

        One call goes from source to target. The others are complex transforms in place: in the source, before a
        transform to real numbers (which destroys the source anyway), or else in the target.
        """
        # Outermost first, as cuFFT requires. In a real transform the last axis stays last.
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
            area = source if kind == "c2r" else target
            others = self._passes("c2c", area, area, rest, patient)
            if others is not None:
                return [*others, step] if kind == "c2r" else [step, *others]
        return None

    def _run(self, kind: str, source: Area, target: Area, axes: Sequence[int], patient: bool = False) -> bool:
        """Append the calls that transform source into target; return False if that is impossible."""
        steps = self._passes(kind, source, target, axes, patient)
        self.program.steps += steps or []
        return steps is not None

    def _insist(self, kind: str, source: Area, target: Area, axes: Sequence[int]) -> None:
        """Call `_run` for scratch arrays, which cuFFT supports, if need be with many calls."""
        done = self._run(kind, source, target, axes) or self._run(kind, source, target, axes, patient=True)
        assert done, (kind, source, target, axes)

    # ------------------------------------------------------------ ways from complex to complex numbers

    def nothing(self) -> bool:
        """Only repack, because no axis is transformed."""
        if not self._axes:
            self._repack(self._source, self._result, before=True)
        return not self._axes

    def direct(self) -> bool:
        """Transform the argument into the result."""
        able = self._axes and self._direct and self._writable
        return bool(able and self._run(self.request.kind, self._source, self._result, self._axes))

    def in_result(self) -> bool:
        """Repack into the result, and transform there."""
        steps = self._passes("c2c", self._result, self._result, self._axes) if self._writable and self._axes else None
        if steps is None:
            return False
        self._repack(self._source, self._result, before=True)
        self.program.steps += steps
        return True

    def into_scratch(self) -> bool:
        """Transform the argument into scratch memory, and repack from there."""
        scratch = self._new(self._points, self._complex)
        if not (self._axes and self._direct and self._run("c2c", self._source, scratch, self._axes)):
            return False
        self._repack(scratch, self._result, before=False)
        return True

    def in_scratch(self) -> bool:
        """Repack into scratch memory, transform there, and repack from there."""
        if not self._axes:
            return False
        scratch = self._repacked(self._points, self._complex)
        self._insist("c2c", scratch, scratch, self._axes)
        self._repack(scratch, self._result, before=False)
        return True

    # ------------------------------------------------------------ ways from real to complex numbers

    @property
    def _halved(self) -> bool:
        return self.request.lengths[-1] > 1

    def real_as_complex(self) -> bool:
        """Use a complex transform for one point, since a half spectrum does not exist then."""
        self._direct = False
        return not self._halved and (self.nothing() or self.in_result() or self.in_scratch())

    def real_direct(self) -> bool:
        return self._halved and self.direct()

    def real_from_scratch(self) -> bool:
        """Repack into scratch memory, and transform from there into the result."""
        if not (self._halved and self._writable):
            return False
        return self._run("r2c", self._repacked(self._points, self._real), self._result, self._axes)

    def real_into_scratch(self) -> bool:
        """Transform the argument into a spectrum in scratch memory, and repack from there."""
        spectrum = self._new(self._spectrum, self._complex)
        if not (self._halved and self._direct and self._run("r2c", self._source, spectrum, self._axes)):
            return False
        self._repack(spectrum, self._result, before=False)
        return True

    def real_in_scratch(self) -> bool:
        """Repack into scratch memory, transform into a spectrum there, and repack from there."""
        if not self._halved:
            return False
        source, spectrum = self._repacked(self._points, self._real), self._new(self._spectrum, self._complex)
        self._insist("r2c", source, spectrum, self._axes)
        self._repack(spectrum, self._result, before=False)
        return True

    # ------------------------------------------------------------ ways from complex to real numbers

    def one_point(self) -> bool:
        """Use the real part of a complex transform for one point, since a half spectrum does not exist then."""
        if self._halved:
            return False
        self._conjugate, source = "", self._source
        if self._axes:
            source = self._repacked(self._spectrum, self._complex)
            self._insist("c2c", source, source, self._axes)
        self._repack(source, self._result, before=False)
        return True

    def destroying(self) -> bool:
        """Transform the argument into the result, which destroys the argument."""
        able = self._halved and self._direct and self._writable and self.request.overwrite and not self._conjugate
        if not able or repeats_elements(self._source.layout):
            return False
        self._make_hermitian(self._source)
        return self._run("c2r", self._source, self._result, self._axes)

    def spectrum_in_scratch(self) -> bool:
        """Repack into scratch memory, and transform from there into the result."""
        if not (self._halved and self._writable):
            return False
        return self._run("c2r", self._spectrum_copy(), self._result, self._axes)

    def spectrum_and_points(self) -> bool:
        """Repack into scratch memory, transform to real numbers there, and repack from there."""
        if not self._halved:
            return False
        source, points = self._spectrum_copy(), self._new(self._points, self._real)
        self._insist("c2r", source, points, self._axes)
        self._repack(points, self._result, before=False)
        return True

    def _spectrum_copy(self) -> Area:
        """Repack the argument into scratch memory, without imaginary parts that a real signal's spectrum cannot have.

        The transform ignores these by definition. Most of cuFFT's kernels do, but not all.
        """
        scratch = self._repacked(self._spectrum, self._complex)
        if len(self._axes) > 1:
            self._make_hermitian(scratch)
        else:
            step = self.program.steps[-1]
            assert isinstance(step, Repack)
            self.program.steps[-1] = step._replace(ends=self._ends)
        return scratch

    def _make_hermitian(self, spectrum: Area) -> None:
        """Make a spectrum's ends hermitian, in place, for transforms along the other axes and then to real numbers."""
        self.program.steps.append(Repack(spectrum, spectrum, "", False, self._ends, mirrored=tuple(self._axes[:-1])))

    @property
    def _ends(self) -> tuple[int, int]:
        return self.request.axes[-1], self.request.lengths[-1]


#: The ways for each kind of transform. If two take the same time, the first one is chosen.
_WAYS = {
    "c2c": (_Builder.nothing, _Builder.direct, _Builder.in_result, _Builder.into_scratch, _Builder.in_scratch),
    "r2c": (
        _Builder.real_as_complex,
        _Builder.real_direct,
        _Builder.real_from_scratch,
        _Builder.real_into_scratch,
        _Builder.real_in_scratch,
    ),
    "c2r": (_Builder.one_point, _Builder.destroying, _Builder.spectrum_in_scratch, _Builder.spectrum_and_points),
}
