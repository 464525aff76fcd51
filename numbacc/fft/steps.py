"""The parts of a Fourier transform's program: requests, arrays, steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..base.layout import Layout, layout, row_major_strides
from ..libraries.advanced_layout import CALL_BYTES, LayoutWalk

#: Buffer numbers: the argument, the result. Scratch arrays follow.
ARGUMENT, RESULT = 0, 1


class TransformRequest(NamedTuple):
    """A transform of given layouts, with validated options.

    Attributes:
        function: name of the public function.
        kind: "c2c", "r2c" or "c2r".
        inverse: the sign of the exponent: True for +.
        axes: the transformed axes, each once; the last one is the halved one.
        lengths: number of points along each axis.
        scale: the factor of the result, a key of `kernels.fft.layout.SCALES`.
        conjugate: "", or "before" or "after" the transform.
        math: name of the complex dtype of the transform.
        array, result: layouts.
        overwrite: whether the argument may be destroyed.
        given: whether the result is the user's array.
        norm: the user's argument, for NumPy.
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
    """An array in a program: its layout, and the number of the buffer that it starts."""

    buffer: int
    layout: Layout


class Repack(NamedTuple):
    """A pass of `kernels.fft.layout`.

    Attributes:
        source, target: arrays.
        scale: the factor of all values, a key of `kernels.fft.layout.SCALES`.
        conjugate: whether imaginary parts change their sign.
        ends: (axis, points) of a half spectrum's halved axis, to drop imaginary parts that a transform to real numbers
            ignores; or empty.
        mirrored: None, or the axes along which the ends of the halved axis are made hermitian; the pass is then in
            place.
    """

    source: Area
    target: Area
    scale: str
    conjugate: bool
    ends: tuple[int, ...] = ()
    mirrored: tuple[int, ...] | None = None

    @property
    def cost(self) -> float:
        """The cost, in the unit of a `LayoutWalk`'s cost."""
        return CALL_BYTES + (0 if self.mirrored is not None else self.source.layout.nbytes + self.target.layout.nbytes)


class Execute(NamedTuple):
    """Calls of one cuFFT plan."""

    source: Area
    target: Area
    walk: LayoutWalk
    inverse: bool

    @property
    def cost(self) -> float:
        """The cost of its `LayoutWalk`."""
        return self.walk.cost


@dataclass
class Program:
    """Steps, and the scratch arrays that they use.

    Attributes:
        steps: the steps, in order.
        scratch: byte offsets in scratch memory of buffers 2, 3, ...
        nbytes: bytes of scratch memory.
    """

    steps: list[Repack | Execute] = field(default_factory=list)
    scratch: list[int] = field(default_factory=list)
    nbytes: int = 0

    @property
    def cost(self) -> float:
        """The time that the program takes, as the bytes that a copy reads and writes in the same time."""
        return sum(step.cost for step in self.steps)


def inner_axes(request: TransformRequest) -> list[int]:
    """Return the transformed axes in the order of the argument's memory; the halved axis is the last."""
    kept = () if request.kind == "c2c" else request.axes[-1:]
    movable = request.axes[: len(request.axes) - len(kept)]
    return [*sorted(movable, key=lambda d: -abs(request.array.strides[d])), *kept]


def dense(shape: tuple[int, ...], axes: Sequence[int], like: Layout, dtype: np.dtype[Any] | None = None) -> Layout:
    """Return a contiguous layout with some axes innermost, and the others in the memory order of another array."""
    dtype = like.dtype if dtype is None else dtype
    others = [d for d in range(len(shape)) if d not in axes]
    order = [*sorted(others, key=lambda d: -abs(like.strides[d])), *axes]
    strides = row_major_strides([shape[d] for d in order], dtype.itemsize)
    return layout(shape, tuple(strides[order.index(d)] for d in range(len(shape))), dtype, like.device)
