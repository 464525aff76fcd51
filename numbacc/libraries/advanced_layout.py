"""cuFFT's advanced data layout: which strided arrays one plan can walk, and the numbers that say how.

cuFFT finds element (x, y, z) of transform number b at (cuFFT's manual, section Advanced Data Layout)

    b * dist + ((x * embed[1] + y) * embed[2] + z) * stride

in elements, for input and output separately. So the transformed axes must have strides that divide one another, the
last the smallest; of the other axes all that merge into one make the batch, and what is left is walked in a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from numbacc_bindings.cufft import Type

from ..base.layout import Layout, merge_dimensions

#: Complex dtype -> kind of transform -> its type.
TYPES = {
    "complex64": {"c2c": Type.C2C, "r2c": Type.R2C, "c2r": Type.C2R},
    "complex128": {"c2c": Type.Z2Z, "r2c": Type.D2Z, "c2r": Type.Z2D},
}
#: Dimensions that one plan transforms, at most.
MAX_RANK = 3
#: A loop is short up to this many calls;
_FEW = 16
#: a longer one still pays where each call has this many bytes to write, so that the GPU is busy longer than the host.
_BUSY = 4 << 20


class AdvancedLayout(NamedTuple):
    """What cufftMakePlanMany64 is told.

    Attributes:
        type: a member of `Type`.
        lengths: of the transformed axes, those of the real side where there is one.
        in_embed, in_stride, in_dist, out_embed, out_stride, out_dist: see above.
        batch: how many transforms.
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


class Walk(NamedTuple):
    """A layout, and the bytes into input and output at which each call of its plan starts."""

    layout: AdvancedLayout
    starts: tuple[tuple[int, int], ...]


def walk(kind: Type, source: Layout, target: Layout, axes: Sequence[int], patient: bool = False) -> Walk | None:
    """How plans of cuFFT transform some axes of an array into another, or None where they cannot.

    Args:
        kind: the type; of a real transform the last of `axes` is the halved one.
        source, target: the arrays, alike in all other axes; along the transformed ones each has its side's length.
        axes: up to `MAX_RANK`, all longer than 1.
        patient: whether a loop may take longer than rearranging the arrays would.
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
    # The longest row makes the batch; the loop over the others may also go backwards.
    batch = max((row for row in rows if min(row) > 0), default=(1, 1, 1))
    if batch in rows:
        rows.remove(batch)
    lengths = tuple(max(source.shape[d], target.shape[d]) for d in axes)
    width = max(source.itemsize, target.itemsize)
    if not patient and prod(row[0] for row in rows) > _FEW and prod(lengths) * batch[0] * width < _BUSY:
        return None
    starts = tuple(
        (
            source.itemsize * sum(k * row[1] for k, row in zip(place, rows, strict=True)),
            target.itemsize * sum(k * row[2] for k, row in zip(place, rows, strict=True)),
        )
        for place in product(*(range(row[0]) for row in rows))
    )
    # cuFFT wants every address it is given aligned to a complex number, real arrays' too.
    if any(start % width for pair in starts for start in pair):
        return None
    (_, in_stride, in_embed), (_, out_stride, out_embed) = sides
    made = AdvancedLayout(kind, lengths, in_embed, in_stride, batch[1], out_embed, out_stride, batch[2], batch[0])
    return Walk(made, starts)


def _embed(steps: Sequence[int], lengths: Sequence[int]) -> tuple[int, tuple[int, ...]] | None:
    """(stride, embedding lengths) of the transformed axes of one array, or None where their strides do not nest."""
    if min(steps) <= 0:
        return None
    embed = [lengths[0]]
    for outer, inner, length in zip(steps, steps[1:], lengths[1:], strict=False):
        size, rest = divmod(outer, inner)
        if rest or size < length:
            return None
        embed.append(size)
    return steps[-1], tuple(embed)
