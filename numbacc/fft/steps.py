"""The parts of programs of Fourier transforms: requests, arrays, steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..base.layout import Layout, layout, row_major_strides
from ..libraries.advanced_layout import CALL_BYTES, LayoutWalk

#: Buffer numbers: the argument, the result; scratch memory follows.
ARGUMENT, RESULT = 0, 1


class TransformRequest(NamedTuple):
    """A transform on given layouts, its options validated.

    Attributes:
        function: name of the public function.
        kind: "c2c", "r2c" or "c2r".
        inverse: the sign of the exponent: True for +.
        axes: the transformed axes, each once; the last one is the halved one.
        lengths: points along each.
        scale: what the result is multiplied with, a key of `kernels.fft.layout.SCALES`.
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


class Repack(NamedTuple):
    """A pass of `kernels.fft.layout`.

    Attributes:
        source, target: arrays.
        scale: what values are multiplied with, a key of `kernels.fft.layout.SCALES`.
        conjugate: whether imaginary parts change their sign.
        ends: (axis, points) of a half spectrum's halved axis: imaginary parts that a transform to real numbers ignores
            are dropped; or empty.
        mirrored: None, or the pass is in place and makes the ends of the halved axis hermitian along these axes.
    """

    source: Area
    target: Area
    scale: str
    conjugate: bool
    ends: tuple[int, ...] = ()
    mirrored: tuple[int, ...] | None = None

    @property
    def cost(self) -> float:
        """As that of a `LayoutWalk`."""
        return CALL_BYTES + (0 if self.mirrored is not None else self.source.layout.nbytes + self.target.layout.nbytes)


class Execute(NamedTuple):
    """Calls of one cuFFT plan."""

    source: Area
    target: Area
    walk: LayoutWalk
    inverse: bool

    @property
    def cost(self) -> float:
        """That of its `LayoutWalk`."""
        return self.walk.cost


@dataclass
class Program:
    """Steps, and the bytes from the start of scratch memory to each scratch array.

    Attributes:
        steps: in order.
        scratch: where buffers 2, 3, ... start.
        nbytes: of scratch memory.
    """

    steps: list[Repack | Execute] = field(default_factory=list)
    scratch: list[int] = field(default_factory=list)
    nbytes: int = 0

    @property
    def cost(self) -> float:
        """The time it takes, in bytes that a copy reads and writes in that time."""
        return sum(step.cost for step in self.steps)


def inner_axes(request: TransformRequest) -> list[int]:
    """The transformed axes as they follow each other in the argument's memory; the halved one is the last."""
    kept = () if request.kind == "c2c" else request.axes[-1:]
    movable = request.axes[: len(request.axes) - len(kept)]
    return [*sorted(movable, key=lambda d: -abs(request.array.strides[d])), *kept]


def dense(shape: tuple[int, ...], axes: Sequence[int], like: Layout, dtype: np.dtype[Any] | None = None) -> Layout:
    """A gapless array, some axes innermost, the others in the memory order of another array of that rank."""
    dtype = like.dtype if dtype is None else dtype
    others = [d for d in range(len(shape)) if d not in axes]
    order = [*sorted(others, key=lambda d: -abs(like.strides[d])), *axes]
    strides = row_major_strides([shape[d] for d in order], dtype.itemsize)
    return layout(shape, tuple(strides[order.index(d)] for d in range(len(shape))), dtype, like.device)
