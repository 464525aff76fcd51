"""cuFFT's advanced data layout: which strided arrays one plan can process, and the parameters that describe them.

cuFFT finds element (x, y, z) of transform number b at (cuFFT's manual, section Advanced Data Layout)

    b * dist + ((x * embed[1] + y) * embed[2] + z) * stride

in elements, for input and output separately. So the strides of the transformed axes must divide one another, and the
last must be the smallest. The other axes that merge into one axis form the batch, and the rest is processed in a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import inf, prod
from typing import NamedTuple

from numbacc_bindings.cufft import Type

from ..base.layout import Layout, merge_dimensions

#: Complex dtype -> kind of transform -> cuFFT's type.
TYPES = {
    "complex64": {"c2c": Type.C2C, "r2c": Type.R2C, "c2r": Type.C2R},
    "complex128": {"c2c": Type.Z2Z, "r2c": Type.D2Z, "c2r": Type.Z2D},
}
#: The most dimensions that one plan transforms.
MAX_RANK = 3
#: The overhead of a call, in bytes that a copy reads and writes in that time. Measured on an H200, like times below.
CALL_BYTES = 24 << 20
#: The time of a transform along rows, relative to a copy of its arrays.
_ROWS = 1.1


class _Columns(NamedTuple):
    """The time of transforms along columns, relative to a copy, up to a length.

    Attributes:
        nbytes: the longest transform, in bytes of complex numbers.
        power: the longest transform in points instead, for complex numbers whose count is a power of 2.
        both, reading, writing: the times if input and output have columns, or only the input, or only the output.
    """

    nbytes: float
    power: float
    both: float
    reading: float
    writing: float


_COMPLEX = (
    _Columns(1 << 10, 128, 1.1, 4, 1.4),
    _Columns(8 << 10, 1024, 1.4, 1.35, 1.4),
    _Columns(12 << 10, 4096, 2.05, 1.85, 1.75),
    _Columns(inf, inf, 8, 3, 7),
)
_REAL = (
    _Columns(1 << 10, 0, 1.15, 4, 1.5),
    _Columns(2 << 10, 0, 1.25, 2.2, 1.5),
    _Columns(8 << 10, 0, 1.9, 2.2, 2),
    _Columns(inf, 0, 10, 4, 8),
)
#: The time for each axis of transforms of two axes or three.
_PLANES = _Columns(inf, inf, 8, 2.5, 6)
#: Added to `_ROWS`, for input and for output, if rows of one transform lie between rows of another.
_INTERLEAVED = 0.05
#: The most calls in a loop: with more there is always a faster way.
_MOST_CALLS = 4096


class AdvancedLayout(NamedTuple):
    """The arguments of cufftMakePlanMany64.

    Attributes:
        type: a member of `Type`.
        lengths: lengths of the transformed axes, on the real side of real transforms.
        in_embed, in_stride, in_dist, out_embed, out_stride, out_dist: as in the module's docstring.
        batch: number of transforms.
    """

    type: Type
    lengths: tuple[int, ...]
    in_embed: tuple[int, ...]
    in_stride: int
    in_dist: int
    out_embed: tuple[int, ...]
    out_stride: int
    out_dist: int
    batch: int

    @property
    def rank(self) -> int:
        return len(self.lengths)


class LayoutWalk(NamedTuple):
    """A layout, and the byte offsets into input and output for each call of its plan."""

    layout: AdvancedLayout
    starts: tuple[tuple[int, int], ...]

    @property
    def cost(self) -> float:
        """The estimated time, in bytes that a copy reads and writes in that time."""
        made = self.layout
        points = prod(made.lengths) * made.batch * len(self.starts)
        real = made.type not in (Type.C2C, Type.Z2Z)
        width = 16 if made.type in (Type.Z2Z, Type.D2Z, Type.Z2D) else 8
        nbytes = (1 if real else 2) * width * points
        return len(self.starts) * CALL_BYTES + nbytes * made.rank * self._copies(real, width)

    def _copies(self, real: bool, width: int) -> float:
        """Return the time of transforming along one axis, relative to a copy."""
        made = self.layout
        apart = [dist < stride for dist, stride in ((made.in_dist, made.in_stride), (made.out_dist, made.out_stride))]
        if made.batch == 1:
            return _ROWS
        if made.rank > 1 and any(apart):
            return _PLANES.both if all(apart) else _PLANES.reading if apart[0] else _PLANES.writing
        if not any(apart):
            span = prod(made.lengths)
            return _ROWS + _INTERLEAVED * sum(
                made.rank > 1 and dist < span // 2 for dist in (made.in_dist, made.out_dist)
            )
        n = made.lengths[0]
        if real:
            found = next(row for row in _REAL if n * width <= row.nbytes)
        elif n.bit_count() == 1:
            found = next(row for row in _COMPLEX if n <= row.power)
        else:
            found = next(row for row in _COMPLEX if n * width <= row.nbytes)
        return found.both if all(apart) else found.reading if apart[0] else found.writing


def walk(kind: Type, source: Layout, target: Layout, axes: Sequence[int], patient: bool = False) -> LayoutWalk | None:
    """Return how plans of cuFFT transform some axes of an array into another, or None if they cannot.

    Args:
        kind: the type; in a real transform, the last of `axes` is the halved one.
        source, target: the arrays. Along the transformed axes each has its own length; the others are equal.
        axes: up to `MAX_RANK`, all longer than 1.
        patient: whether to accept any number of calls.
    """
    sides = []
    for array in (source, target):
        steps = [step // array.itemsize for step in array.strides]
        embedded = _embed([steps[d] for d in axes], [array.shape[d] for d in axes])
        if embedded is None:
            return None
        sides.append((steps, *embedded))
    batched = [d for d in range(target.ndim) if d not in axes]
    shape, steps_of_batches = [target.shape[d] for d in batched], [[side[0][d] for d in batched] for side in sides]
    merged = merge_dimensions(shape, steps_of_batches, 1, leader=1)
    rows = list(zip(merged.shape, *merged.strides, strict=True))
    # The longest axis forms the batch. The loop over the other axes may also go backwards.
    batch = max((row for row in rows if min(row) > 0), default=(1, 1, 1))
    if batch in rows:
        rows.remove(batch)
    lengths = tuple(max(source.shape[d], target.shape[d]) for d in axes)
    width = max(source.itemsize, target.itemsize)
    if not patient and prod(row[0] for row in rows) > _MOST_CALLS:
        return None
    starts = tuple(
        (
            source.itemsize * sum(k * row[1] for k, row in zip(index, rows, strict=True)),
            target.itemsize * sum(k * row[2] for k, row in zip(index, rows, strict=True)),
        )
        for index in product(*(range(row[0]) for row in rows))
    )
    # cuFFT needs every address aligned to a complex number, even for real arrays.
    if any(start % width for pair in starts for start in pair):
        return None
    (_, in_stride, in_embed), (_, out_stride, out_embed) = sides
    # cuFFT mistakes rows of real results with this pitch for rows of an in-place transform, and writes past their end.
    pitch = out_embed[-1] if len(axes) > 1 else batch[2]
    if kind in (Type.C2R, Type.Z2D) and out_stride == 1 and pitch == 2 * (lengths[-1] // 2 + 1):
        return None
    made = AdvancedLayout(kind, lengths, in_embed, in_stride, batch[1], out_embed, out_stride, batch[2], batch[0])
    return LayoutWalk(made, starts)


def _embed(steps: Sequence[int], lengths: Sequence[int]) -> tuple[int, tuple[int, ...]] | None:
    """Return (stride, embedding lengths) of the transformed axes of an array; None if their strides do not nest."""
    if min(steps) <= 0:
        return None
    embed = [lengths[0]]
    for outer, inner, length in zip(steps, steps[1:], lengths[1:], strict=False):
        size, rest = divmod(outer, inner)
        if rest or size < length:
            return None
        embed.append(size)
    return steps[-1], tuple(embed)
