"""Dropout, whose mask follows from a seed and a place in its sequence, so that it need not be kept."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ..arrays import operands
from ..arrays.operands import Array
from ..base import checks
from ..base.dtypes import FLOATS, info, words
from ..base.layout import Layout, check_rank, check_same_device, dense_like, layout, view
from ..errors import ArgumentsError, DTypeError, OptionError, ShapeError
from ..kernels.elementwise.launch import MapTask
from ..kernels.elementwise.other_launches import dropout_order
from ..plan.base import outs_of
from ..plan.saved import Saved, saves
from ..plan.tasks import MapPlan
from ..reference import dropping as reference
from ..runtime.streams import handle_of
from .caching import plans
from .calling import outputs_of


def dropout(
    x: Any,
    p: float = 0.5,
    *,
    seed: int,
    offset: Any = 0,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """x / (1 - p) with probability 1 - p, else 0. Source: Srivastava et al. 2014, "Dropout".

    Element number i, in C order, is dropped by word number offset + i of the generator philox of `seed`: the same that
    `numbacc.random.Generator("philox", seed).dropout_mask(p, x.shape)` drops, entered at `offset`. So the mask need not
    be kept: `dropout_backward` makes it again. Of a NaN that is dropped 0 comes, too.

    Args:
        x: array of float32, float64, float16 or bfloat16, of up to 8 dimensions, any strides.
        p: the probability to drop, 0 to 1, to a multiple of 2^-32. With p = 1 all are 0.
        seed: of the sequence, 0 to 2^64 - 1.
        offset: where the sequence is entered, a multiple of 4, 0 to 2^62; the next draw begins x.size
            behind it, rounded up. Or an array of one int64 on x's device, rounded down, which the GPU reads when
            it runs: a graph that is replayed drops others as often as the array is changed.
        return_saved: whether to return a second object, which carries p, seed and offset to
            `dropout_backward(dy, saved)`.
        out: array for the result, like x. It may be x itself: in place.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Raises:
        OptionError: p, seed or offset. DTypeError: x is not of floats; offset not of int64. ShapeError: rank; offset is
        not of one element. LayoutError: out overlaps x in part, or is read-only. DeviceError: several devices.

    Example:
        >>> elementwise.dropout(np.ones(8), 0.5, seed=3)
        array([2., 0., 2., 2., 0., 2., 2., 0.])
    """
    keeps, handle = saves(return_saved), handle_of(stream)
    plan, inputs, outs, scalars = _found(x, p, seed, offset, out, handle)
    y: Array = plan.run(inputs, outs, out, handle, scalars)
    return (y, Saved("elementwise.dropout", {}, {"p": p, "seed": seed, "offset": offset})) if keeps else y


def dropout_backward(
    dy: Any, p: Any = 0.5, *, seed: int | None = None, offset: Any = 0, out: Any = None, stream: Any = None
) -> Array:
    """The gradient with respect to x, given dy, that with respect to dropout(x): dy dropped alike.

    Args:
        dy: array of floats, of x's shape.
        p: the saved object of `dropout(..., return_saved=True)`, as in `dropout_backward(dy, saved)`. It holds p, seed
            and offset. Or p itself, with
        seed, offset: the same as in `dropout`. If p or offset is forgotten, the gradient is wrong and nothing reports
            it.
        out, stream: as in `dropout`, and so are the errors.

    Example:
        >>> y, saved = elementwise.dropout(np.ones(8), 0.5, seed=3, return_saved=True)
        >>> elementwise.dropout_backward(np.ones(8), saved)
        array([2., 0., 2., 2., 0., 2., 2., 0.])
    """
    if isinstance(p, Saved):
        given = {"seed": seed, "offset": offset}
        p, seed, offset = p.opened("elementwise.dropout", given, {"seed": None, "offset": 0})
    if seed is None:
        raise ArgumentsError(
            "seed is missing: call dropout_backward(dy, saved), or give p, seed and offset as to dropout"
        )
    dx: Array = dropout(dy, p, seed=seed, offset=offset, out=out, stream=stream)
    return dx


def dropout_plan(x: Any, p: float = 0.5, *, seed: int, offset: Any = 0, out: Any = None) -> DropoutPlan:
    """The plan that `dropout` runs for these arrays: call it as `plan(x, p, seed=..., offset=...)`.

    Example:
        >>> plan = elementwise.dropout_plan(np.ones(2), seed=0)
        >>> plan(np.ones(2), 1.0, seed=1)
        array([0., 0.])
    """
    plan, inputs, outs, _ = _found(x, p, seed, offset, out, handle_of(None))
    plan.prepare(inputs, outs)
    return plan


class DropoutPlan(MapPlan):
    """A planned dropout: probability, seed and offset are given to each run."""

    def __call__(  # type: ignore[override]
        self, x: Any, p: float = 0.5, *, seed: int, offset: Any = 0, out: Any = None, stream: Any = None
    ) -> Any:
        """Run on arrays laid out as those that the plan was made for, with any numbers.

        Raises:
            LayoutError: an array is laid out otherwise. As `dropout` besides.
        """
        handle = handle_of(stream)
        inputs, numbers = _arrays(x, offset, handle), _numbers(p, seed, offset)
        outs = outs_of(out, handle)
        self._check_fit(inputs, outs)
        return self.run(inputs, outs, out, handle, self.passed(numbers))

    def passed(self, numbers: tuple[Any, ...]) -> tuple[Any, ...]:
        """The numbers as executables, or the reference, take them."""
        if self.device < 0:
            return numbers
        return tuple(word for n, name in zip(numbers, self.task.scalars, strict=True) for word in words(n, name))


def everyday_blocks(matrix: Layout) -> Iterator[DropoutPlan]:
    """Plans of calls whose offset is a number, or on the GPU."""
    offset = layout((1,), (8,), np.dtype(np.int64), matrix.device)
    yield from (_plan((matrix,), None), _plan((matrix, offset), None))


def _found(x: Any, p: Any, seed: Any, offset: Any, out: Any, handle: int) -> tuple[DropoutPlan, Any, Any, Any]:
    inputs, outs = _arrays(x, offset, handle), outs_of(out, handle)
    own = None if outs is None else tuple(operands.layout_of(each) for each in outs)
    plan = plans.find((_plan, tuple(operands.layout_of(each) for each in inputs), own))
    return plan, inputs, outs, plan.passed(_numbers(p, seed, offset))


def _arrays(x: Any, offset: Any, handle: int) -> list[Any]:
    found = [operands.as_input(x, "x", handle)]
    return found if isinstance(offset, (int, np.integer)) else [*found, operands.as_input(offset, "offset", handle)]


def _numbers(p: Any, seed: Any, offset: Any) -> tuple[int, int, int, float]:
    """(seed, first group of words, the least word that is kept, 1 / (1 - p))."""
    dropped = checks.real(p, "p")
    if not 0.0 <= dropped <= 1.0:
        raise OptionError(f"p={p} is not a probability: it must be from 0 to 1")
    start = checks.integer(offset, "offset", 0, 2**62) if isinstance(offset, (int, np.integer)) else 0
    if start % 4:
        raise OptionError(f"offset={start} is no multiple of 4: words are made four at a time")
    key = checks.integer(seed, "seed", 0, 2**64 - 1)
    return key, start // 4, round(dropped * 2**32), 1.0 / (1.0 - dropped) if dropped < 1.0 else 0.0


def _plan(inputs: tuple[Layout, ...], outs: tuple[Layout, ...] | None) -> DropoutPlan:
    x = inputs[0]
    check_rank(x.shape or (1,), "x")
    row = info(x.dtype, "x")
    if not row.is_float:
        raise DTypeError(f"x has dtype {row.name}; it must be one of {', '.join(FLOATS)}")
    for each in inputs[1:]:
        check_same_device(each, "offset", x, "x")
        if each.dtype != np.int64:
            raise DTypeError(f"offset has dtype {each.dtype}; an array of it is of int64")
        if each.size != 1:
            raise ShapeError(f"offset has shape {each.shape}; it must have one element")
    outputs = outputs_of(dense_like(x, x.shape), outs)
    compute = str(row.compute)
    nowhere = (0,) * x.ndim
    spec = MapTask(
        op="elementwise.dropout",
        formula=None,
        reference=partial(reference.dropout, compute=compute),
        names=("x", *("offset",) * (len(inputs) - 1), "out"),
        inputs=inputs,
        outputs=outputs,
        shape=x.shape,
        reads=(view(0, 0, x.strides, x.shape), *(view(1, 0, nowhere, x.shape) for _ in inputs[1:])),
        writes=(view(0, 0, outputs[0].strides, x.shape),),
        out_given=outs is not None,
        order=dropout_order,
        compute=compute,
        scalars=("uint64", "uint64", "uint64", compute),
    )
    return DropoutPlan(spec)
