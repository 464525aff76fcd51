"""Plans of what follows a matrix product: elementwise formulas, masks of bits, sums over rows.

A product's epilogue is composed of these where the library cannot fuse it, and so is the gradient of a bias. The
caller has checked shapes and dtypes; nothing is said here about what it got wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from math import gcd, prod
from typing import Any

import numpy as np

from ..base.dtypes import info
from ..base.layout import Layout, Merged, View, merge_dimensions, view
from ..device.geometry import Geometry, launcher_of, places_of, row_grid
from ..device.map_executable import MapSpec
from ..kernels.formulas import FORMULAS, SUM
from ..kernels.specs import MAX_THREADS, VECTOR_BYTES
from ..plan.cache import PlanCache
from ..plan.maps import MapPlan
from ..reference import epilogues

#: Blocks of `reduce_rows` are narrowed until there are so many of them, but to no fewer bytes than these.
_BLOCKS, _BLOCK_BYTES = 512, 64


# ---------------------------------------------------------------- plans

#: Plans of all threads and of all products, by the function that makes them and its arguments.
plans = PlanCache(lambda make, *arguments: make(*arguments), count=4096)


def _kept(make: Callable[..., MapPlan]) -> Callable[..., MapPlan]:
    """What makes a plan, once."""

    @wraps(make)
    def find(*arguments: Any) -> MapPlan:
        plan: MapPlan = plans.find((make, *arguments))
        return plan

    return find


@_kept
def map_plan(formula: str, inputs: tuple[Layout, ...], outputs: tuple[Layout, ...]) -> MapPlan:
    """The plan of an elementwise formula.

    Args:
        formula: a key of `kernels.formulas.FORMULAS` and of `reference.epilogues.MAPS`.
        inputs: layouts that broadcast, as NumPy has it, to the outputs'.
        outputs: layouts of one shape. All dtypes are the same; an output may be an input.
    """
    shape = outputs[0].shape
    assert all(array.shape == shape for array in outputs)
    assert len({array.dtype for array in (*inputs, *outputs)}) == 1
    return MapPlan(
        MapSpec(
            op=formula,
            formula=FORMULAS[formula],
            reference=epilogues.MAPS[formula],
            names=_names(inputs, outputs),
            inputs=inputs,
            outputs=outputs,
            shape=shape,
            reads=tuple(view(k, 0, _broadcast(array, shape), shape) for k, array in enumerate(inputs)),
            writes=tuple(view(k, 0, array.strides, shape) for k, array in enumerate(outputs)),
            out_given=True,
        )
    )


@_kept
def pack_plan(values: Layout, mask: Layout) -> MapPlan:
    """The plan of mask = 0 where values < 0, else 1, NaN's too, a bit an element.

    Args:
        values: matrices (..., rows, columns) of floats.
        mask: (..., rows, ceil(columns / 8)) of uint8; column c has bit c % 8, from the least significant, of byte
            c // 8, and bits behind the last column are 0.
    """
    assert mask.shape == _mask_shape(values)
    return MapPlan(_spec("pack_bits", lambda v: (epilogues.pack_bits(v),), (values,), (mask,), _bits_launcher))


@_kept
def select_plan(values: Layout, mask: Layout, out: Layout) -> MapPlan:
    """The plan of out = values where the mask has a 1, else 0.

    Args:
        values, out: matrices (..., rows, columns) of one float dtype; they may be the same array.
        mask: as `pack_plan` writes it.
    """
    assert mask.shape == _mask_shape(values) and values.shape == out.shape and values.dtype == out.dtype
    return MapPlan(_spec("select_bits", epilogues.select_bits, (values, mask), (out,), _bits_launcher))


@_kept
def sum_plan(x: Layout, axis: int, out: Layout) -> MapPlan:
    """The plan of the sum of matrices over their rows or columns, in a fixed order.

    Args:
        x: matrices (..., rows, columns) of floats.
        axis: what is summed over: -2 for the rows, -1 for the columns.
        out: (..., columns) or (..., rows), of x's dtype, or of the dtype that sums are added up in.
    """
    compute = info(x.dtype).compute
    assert axis in (-2, -1) and out.dtype.name in (x.dtype.name, compute)
    order = (-2, -1) if axis == -2 else (-1, -2)  # what is summed over becomes the rows
    shape, strides = ((*whole[:-2], *(whole[d] for d in order)) for whole in (x.shape, x.strides))
    assert out.shape == (*shape[:-2], shape[-1])
    spec = _spec("reduce_rows", partial(epilogues.sum_rows, dtype=out.dtype), (x,), (out,), reduction_launcher)
    reads = (_whole(0, shape, strides),)
    return MapPlan(spec._replace(op="epilogue.sum_rows", formula=SUM, reads=reads, accumulator=compute))


def _spec(
    algorithm: str, reference: Any, inputs: tuple[Layout, ...], outputs: tuple[Layout, ...], make_launcher: Any
) -> MapSpec:
    """One kernel whose operands are whole arrays of different shapes."""
    return MapSpec(
        op=f"epilogue.{algorithm}",
        formula=None,
        reference=reference,
        names=_names(inputs, outputs),
        inputs=inputs,
        outputs=outputs,
        shape=outputs[0].shape,
        reads=tuple(_whole(k, array.shape, array.strides) for k, array in enumerate(inputs)),
        writes=tuple(_whole(k, array.shape, array.strides) for k, array in enumerate(outputs)),
        out_given=True,
        launcher=partial(make_launcher, algorithm),
    )


def _names(inputs: Sequence[Layout], outputs: Sequence[Layout]) -> tuple[str, ...]:
    return (*(f"inputs[{k}]" for k in range(len(inputs))), *(f"outputs[{k}]" for k in range(len(outputs))))


def _mask_shape(values: Layout) -> tuple[int, ...]:
    return (*values.shape[:-1], -(-values.shape[-1] // 8))


def _broadcast(array: Layout, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in bytes, with which an array is read as one of this shape: 0 where it is repeated."""
    assert np.broadcast_shapes(array.shape, shape) == shape
    own = (0 if n == 1 else step for n, step in zip(array.shape, array.strides, strict=True))
    return (*(0,) * (len(shape) - array.ndim), *own)


def _whole(argument: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> View:
    """An operand that is all of an argument, in a shape of its own."""
    return view(argument, 0, strides, shape)._replace(shape=shape)


# ---------------------------------------------------------------- launchers, as `geometry.make_launcher` makes them


def _bits_launcher(
    algorithm: str, spec: Any, alignment: Sequence[int], device: int, pairs: Sequence[tuple[int, ...]]
) -> Any:
    """For masks of bits: rows along the grid's y; along its x one thread a byte (packing) or an access (selecting)."""
    values, steps = spec.inputs[0], _steps(spec)
    *shape, columns = values.shape
    rows, size, packing = prod(shape), values.itemsize, algorithm == "pack_bits"
    floats = [k for k, array in enumerate((*spec.inputs, *spec.outputs)) if array.dtype == values.dtype]
    access = size
    if all(steps[k][-1] == 1 for k in floats):
        places = places_of(spec, alignment)
        distances = [8 if packing else columns, *(n for k in floats for n in steps[k][:-1])]
        access = gcd(VECTOR_BYTES, *(places[k] for k in floats), *(size * n for n in distances))
    each = 8 if packing else access // size
    merged = merge_dimensions(shape, [step[:-1] for step in steps], 1, leader=0)
    items = -(-columns // each)
    # Neighbouring threads take neighbouring rows where those are next to each other in memory, and the grid, then of
    # a block an item, is not too wide.
    by_column = rows > 1 and 0 < abs(merged.strides[0][-1]) < abs(steps[0][-1]) and items < 2**31
    grid, block = row_grid(items, rows, 1, 1 if by_column else None)
    geometry = Geometry(algorithm, grid, block, merged.shape, (rows, columns), access // size)
    walks = [(*outer, step[-1]) for outer, step in zip(merged.strides, steps, strict=True)]
    return launcher_of(spec, geometry, walks, _is_wide(spec), alignment, device, pairs)


def reduction_launcher(
    algorithm: str, spec: Any, alignment: Sequence[int], device: int, pairs: Sequence[tuple[int, ...]]
) -> Any:
    """For reductions over rows: a block per few columns, all blocks along the grid's x."""
    steps, inputs = _steps(spec), len(spec.reads)
    sources, targets = steps[:inputs], steps[inputs:]
    *batch, rows, columns = spec.reads[0].shape
    count, sizes = prod(batch), [array.itemsize for array in spec.inputs]
    width = 1
    if all(source[-1] == 1 for source in sources):
        places = places_of(spec, alignment)
        whole = [gcd(place, *(size * n for n in (columns, *source[:-1]))) // size
                 for place, size, source in zip(places, sizes, sources, strict=False)]  # fmt: skip
        width = gcd(VECTOR_BYTES // max(sizes), *whole)
    access, leader = width * max(sizes), sources[0]
    most = _power_of_two(columns // width)
    # Neighbouring threads take neighbouring rows where those are next to each other in memory.
    x = 1 if 0 < abs(leader[-2]) < abs(leader[-1]) else min(32, most)
    while x * access > _BLOCK_BYTES and count * columns < _BLOCKS * x * width:
        x //= 2
    y = min(MAX_THREADS // x, _power_of_two(rows))
    x = min(MAX_THREADS // y, most)
    blocks = -(-columns // (x * width))
    span = x * width if blocks > 1 else 0
    outer = [*(source[:-2] for source in sources), *(target[:-1] for target in targets)]
    merged = merge_dimensions(batch, outer, 1, leader=inputs) if count > 1 else Merged((), ((),) * len(steps))
    geometry = Geometry(algorithm, (count * blocks, 1), (x, y), (*merged.shape, blocks), (rows, columns), width)
    walks = [
        (*step, span * own[-1], *(own[-2:] if k < inputs else (0, own[-1])))
        for k, (step, own) in enumerate(zip(merged.strides, steps, strict=True))
    ]
    return launcher_of(spec, geometry, walks, _is_wide(spec), alignment, device, pairs)


def _steps(spec: Any) -> list[tuple[int, ...]]:
    """Each operand's strides in elements, 0 along axes on which there is no step."""
    arrays = (*spec.inputs, *spec.outputs)
    return [
        tuple(step // array.itemsize if n > 1 else 0 for n, step in zip(each.shape, each.strides, strict=True))
        for each, array in zip((*spec.reads, *spec.writes), arrays, strict=True)
    ]


def _power_of_two(number: int) -> int:
    """The smallest power of two that is not less, and not less than 1."""
    return 1 << max(number - 1, 0).bit_length()


def _is_wide(spec: Any) -> bool:
    """True if an offset or an index could pass 2^31, those of the last block's threads beyond the end included."""
    reach = [(array.high - array.low) // array.itemsize for array in (*spec.inputs, *spec.outputs)]
    return bool(max(*reach, prod(spec.reads[0].shape)) >= 2**31 - 2**16)
