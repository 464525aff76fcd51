"""The launch of `kernels.arrange`: on which elements, in how many dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..base.backend import launcher_class
from ..base.dtypes import info
from ..base.layout import Layout, merge_dimensions, view
from ..device import copying
from ..device.map_executable import MapExecutable, MapSpec
from ..kernels.specs import MAX_THREADS, ArrangeSpec, LaunchOrder
from .program import Arrange

#: Added to a padded dimension's length in the source, so that it merges with no other: see `_merge`.
_APART = 1 << 40


def executable(step: Arrange, count: int) -> MapExecutable:
    """What launches a rearrangement: `launch(stream, (address of source, address of target))`.

    `count` is the number of points that the step's scale refers to.
    """
    source, target = step.source.layout, step.target.layout
    if (source.shape, source.dtype) == (target.shape, target.dtype) and not (step.scale or step.conjugate):
        return copying.executable(source, target)  # which knows how to transpose
    return MapExecutable(
        MapSpec(
            op="fft",
            formula=None,
            reference=lambda x: (x,),
            names=("source", "target"),
            inputs=(source,),
            outputs=(target,),
            shape=target.shape,
            reads=(view(0, 0, source.strides, source.shape),),
            writes=(view(0, 0, target.strides, target.shape),),
            out_given=True,
            launcher=partial(_make_launcher, step, count),
        )
    )


def _make_launcher(
    step: Arrange, count: int, spec: MapSpec, alignment: Sequence[int], device: int, pairs: Sequence[Any]
) -> Any:
    """As `geometry.make_launcher`. The program knows which arrays may share memory: `pairs` need not be looked at."""
    source, target = step.source.layout, step.target.layout
    shape, inside, in_steps, out_steps = _merge(source, target)
    reach = max(_reach(steps, shape) for steps in (in_steps, out_steps))
    kernel = ArrangeSpec(
        source=_number(source)[0].name,
        target=_number(target)[0].name,
        source_parts=_number(source)[1],
        target_parts=_number(target)[1],
        source_bytes=_access_bytes(source, alignment[0]),
        target_bytes=_access_bytes(target, alignment[1]),
        scale=step.scale,
        conjugate=step.conjugate,
        padded=inside != shape,
        rank=len(shape),
        wide=max(reach, prod(shape) + MAX_THREADS, count) >= 2**31,
    )
    blocks = -(-prod(shape) // MAX_THREADS)
    launcher = launcher_class()(
        LaunchOrder(
            kernel=kernel,
            device=device,
            grid=(blocks, 1),
            block=(MAX_THREADS, 1),
            alignment=tuple(alignment),
            places=((0, 0), (1, 0)),
            constants=(*in_steps, *out_steps, *shape, *inside, prod(shape), count),
            pairs=(),
        )
    )
    launcher.algorithm = "arrange"
    return launcher


def _number(array: Layout) -> tuple[np.dtype[Any], int]:
    """The dtype of an array's numbers, and how many of them are an element."""
    if array.dtype.kind == "c":
        return np.dtype(f"float{4 * array.itemsize}"), 2
    # A bool is a byte, 0 or 1.
    return (np.dtype(np.uint8) if array.dtype.kind == "b" else info(array.dtype).numpy), 1


def _access_bytes(array: Layout, place: int) -> int:
    """Width of a load or store: both parts of a complex number at once where it is aligned to them."""
    dtype, parts = _number(array)
    whole = parts * dtype.itemsize
    return whole if place % whole == 0 and all(step % whole == 0 for step in array.strides) else dtype.itemsize


def _merge(source: Layout, target: Layout) -> tuple[tuple[int, ...], ...]:
    """The target's shape in as few dimensions as both arrays can be walked by, the source's lengths in them, and
    the steps of both, in numbers.

    Where the source is shorter a dimension stays as it is. To that end its length there takes part in the merge like
    the steps of a third array, `_APART` added so that it is no product of a length and another.
    """
    lengths = [n + _APART if n < m else 0 for n, m in zip(source.shape, target.shape, strict=True)]
    steps = [[step // _number(array)[0].itemsize for step in array.strides] for array in (source, target)]
    shape, (in_steps, out_steps, marks) = merge_dimensions(target.shape, [*steps, lengths], 1, leader=1)
    if not source.size:
        return shape, (0,) * len(shape), in_steps, out_steps
    inside = tuple(mark - _APART if mark >= _APART else n for mark, n in zip(marks, shape, strict=True))
    return shape, inside, in_steps, out_steps


def _reach(steps: Sequence[int], shape: Sequence[int]) -> int:
    """How far an array reaches from its first element."""
    return sum((n - 1) * abs(step) for n, step in zip(shape, steps, strict=True))
