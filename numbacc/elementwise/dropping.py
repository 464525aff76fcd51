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
from ..plan.calls import planned
from ..plan.saved import Saved
from ..plan.tasks import MapPlan
from ..reference import random as reference
from ..runtime.streams import handle_of
from .calling import found, plans
from .planning import outputs_of


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


def _plan(name: str, out: Layout | None, *inputs: Layout) -> DropoutPlan:
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
    outputs = outputs_of(dense_like(x, x.shape), out)
    compute = str(row.compute)
    nowhere = (0,) * x.ndim
    task = MapTask(
        op=f"elementwise.{name}",
        formula=None,
        reference=partial(reference.dropout, compute=compute),
        names=("x", *("offset",) * (len(inputs) - 1), "out"),
        inputs=inputs,
        outputs=outputs,
        shape=x.shape,
        reads=(view(0, 0, x.strides, x.shape), *(view(1, 0, nowhere, x.shape) for _ in inputs[1:])),
        writes=(view(0, 0, outputs[0].strides, x.shape),),
        out_given=out is not None,
        order=dropout_order,
        compute=compute,
        scalars=("uint64", "uint64", "uint64", compute),
    )
    return DropoutPlan(task)


@planned(plans, "DropoutPlan", "x", short=False, keep="p seed offset", call="plan(x, p, seed=..., offset=...)")
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
    arrays = {"x": x} if isinstance(offset, (int, np.integer)) else {"x": x, "offset": offset}
    plan, inputs, outs, handle, _ = found(_plan, "dropout", arrays, (), out, stream)
    return plan, inputs, outs, handle, plan.passed(_numbers(p, seed, offset))


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


def everyday_blocks(matrix: Layout) -> Iterator[DropoutPlan]:
    """Plans of calls whose offset is a number, or on the GPU."""
    offset = layout((1,), (8,), np.dtype(np.int64), matrix.device)
    yield from (_plan("dropout", None, matrix), _plan("dropout", None, matrix, offset))
