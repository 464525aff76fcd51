"""The steps of a Fourier transform: which cuFFT plans, and what must be repacked before and after.

Everything here follows from layouts and options alone; nothing is allocated or run. There are several ways:

1. cuFFT walks the arrays as they are;
2. the argument is first repacked, into the result itself where the transform can then work in place, else into
   scratch memory: for what cuFFT cannot take (padding, other dtypes, strides that do not nest), and for columns that it
   would transform slower than our own kernel transposes them;
3. the result is transformed in scratch memory and repacked into place.

Of those that can be the one that takes least time is chosen, by measured costs: see `advanced_layout`. Scaling and
conjugation are done by whichever repacking pass is needed anyway, else by one of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.layout import layout, repeats_elements
from ..libraries.advanced_layout import MAX_RANK, TYPES, walk
from .steps import ARGUMENT, RESULT, Area, Execute, Program, Repack, TransformRequest, dense, inner_axes

__all__ = ["Execute", "Program", "Repack", "TransformRequest", "build", "with_result"]

#: Scratch arrays start on multiples of this, as allocations do.
_ALIGNMENT = 256

#: Bytes from which on a result's memory order follows from what is fast.
_LARGE = 1 << 20

_REAL = {"complex64": "float32", "complex128": "float64"}


def build(request: TransformRequest, aligned: bool) -> Program:
    """The program for a request.

    Args:
        aligned: whether both arrays start on a multiple of their complex number's size, which cuFFT asks for.
    """
    programs = []
    for way in _WAYS[request.kind]:
        builder = _Builder(request, aligned)
        if way(builder):
            builder.finish()
            programs.append(builder.program)
    return min(programs, key=lambda program: program.cost)


def with_result(request: TransformRequest) -> TransformRequest:
    """The request with a result in the memory order that is written fastest: the argument's, or the axes innermost.

    Small results have the argument's.
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
        made = dense(shape, inner_axes(self.request), self.request.result, dtype)
        program = self.program
        program.scratch.append(program.nbytes)
        program.nbytes += -(-made.nbytes // _ALIGNMENT) * _ALIGNMENT
        return Area(RESULT + len(program.scratch), made)

    # ------------------------------------------------------------ steps

    def _repack(self, source: Area, target: Area, *, before: bool) -> None:
        """A repacking pass, before or after the transform, that does what may be done on that side."""
        conjugate = self._conjugate == ("before" if before else "after")
        self.program.steps.append(Repack(source, target, self._scale, conjugate))
        self._scale = ""
        if conjugate:
            self._conjugate = ""

    def _repacked(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Area:
        """The argument in scratch memory, as cuFFT can walk it."""
        scratch = self._new(shape, dtype)
        self._repack(self._source, scratch, before=True)
        return scratch

    def finish(self) -> None:
        """Append the scaling and conjugation that are left, in place."""
        if self._scale or self._conjugate:
            self._repack(self._result, self._result, before=False)

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
            area = source if kind == "c2r" else target
            others = self._passes("c2c", area, area, rest, patient)
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

    # ------------------------------------------------------------ the ways from complex to complex numbers

    def nothing(self) -> bool:
        """No axis is transformed."""
        if not self._axes:
            self._repack(self._source, self._result, before=True)
        return not self._axes

    def direct(self) -> bool:
        """From the argument into the result."""
        able = self._axes and self._direct and self._writable
        return bool(able and self._run(self.request.kind, self._source, self._result, self._axes))

    def in_result(self) -> bool:
        """Repacked into the result, and transformed there."""
        steps = self._passes("c2c", self._result, self._result, self._axes) if self._writable and self._axes else None
        if steps is None:
            return False
        self._repack(self._source, self._result, before=True)
        self.program.steps += steps
        return True

    def into_scratch(self) -> bool:
        """From the argument into scratch memory, and repacked from there."""
        scratch = self._new(self._points, self._complex)
        if not (self._axes and self._direct and self._run("c2c", self._source, scratch, self._axes)):
            return False
        self._repack(scratch, self._result, before=False)
        return True

    def in_scratch(self) -> bool:
        """Repacked into scratch memory, transformed there, and repacked from there."""
        if not self._axes:
            return False
        scratch = self._repacked(self._points, self._complex)
        self._insist("c2c", scratch, scratch, self._axes)
        self._repack(scratch, self._result, before=False)
        return True

    # ------------------------------------------------------------ the ways from real numbers

    @property
    def _halved(self) -> bool:
        return self.request.lengths[-1] > 1

    def real_as_complex(self) -> bool:
        """Of one point nothing is halved: a complex transform."""
        self._direct = False
        return not self._halved and (self.nothing() or self.in_result() or self.in_scratch())

    def real_direct(self) -> bool:
        return self._halved and self.direct()

    def real_from_scratch(self) -> bool:
        """Repacked into scratch memory, and from there into the result."""
        if not (self._halved and self._writable):
            return False
        return self._run("r2c", self._repacked(self._points, self._real), self._result, self._axes)

    def real_into_scratch(self) -> bool:
        """From the argument into a spectrum in scratch memory, and repacked from there."""
        spectrum = self._new(self._spectrum, self._complex)
        if not (self._halved and self._direct and self._run("r2c", self._source, spectrum, self._axes)):
            return False
        self._repack(spectrum, self._result, before=False)
        return True

    def real_in_scratch(self) -> bool:
        """Repacked into scratch memory, into a spectrum there, and repacked from there."""
        if not self._halved:
            return False
        source, spectrum = self._repacked(self._points, self._real), self._new(self._spectrum, self._complex)
        self._insist("r2c", source, spectrum, self._axes)
        self._repack(spectrum, self._result, before=False)
        return True

    # ------------------------------------------------------------ the ways to real numbers

    def one_point(self) -> bool:
        """Of one point nothing is halved: the real part of a complex transform."""
        if self._halved:
            return False
        self._conjugate, source = "", self._source
        if self._axes:
            source = self._repacked(self._spectrum, self._complex)
            self._insist("c2c", source, source, self._axes)
        self._repack(source, self._result, before=False)
        return True

    def destroying(self) -> bool:
        """From the argument, which is lost, into the result."""
        able = self._halved and self._direct and self._writable and self.request.overwrite and not self._conjugate
        if not able or repeats_elements(self._source.layout):
            return False
        self._make_hermitian(self._source)
        return self._run("c2r", self._source, self._result, self._axes)

    def spectrum_in_scratch(self) -> bool:
        """Repacked into scratch memory, and from there into the result."""
        if not (self._halved and self._writable):
            return False
        return self._run("c2r", self._spectrum_copy(), self._result, self._axes)

    def spectrum_and_points(self) -> bool:
        """Repacked into scratch memory, to real numbers there, and repacked from there."""
        if not self._halved:
            return False
        source, points = self._spectrum_copy(), self._new(self._points, self._real)
        self._insist("c2r", source, points, self._axes)
        self._repack(points, self._result, before=False)
        return True

    def _spectrum_copy(self) -> Area:
        """The argument in scratch memory, without the imaginary parts that real numbers' spectra cannot have.

        The transform is defined to ignore them. cuFFT does in most of its kernels, but not in all.
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
        """Make a spectrum's ends, in place, what the transform along the other axes and then to real numbers sees."""
        self.program.steps.append(Repack(spectrum, spectrum, "", False, self._ends, mirrored=tuple(self._axes[:-1])))

    @property
    def _ends(self) -> tuple[int, int]:
        return self.request.axes[-1], self.request.lengths[-1]


#: The ways to do each kind of transform; where two take the same time, the first one is taken.
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
