"""A call of each kind of kernel that `elementwise` has, for tests of order and ownership."""

from __future__ import annotations

import math

import numbacc
from numbacc import elementwise as ew


@ew.kernel
def squashed(x):
    return math.tanh(x) + 0.5 * x


@ew.reduction(after=lambda total, count: math.sqrt(total / count))
def spread(x):
    return x * x


def _map(x, out, stream):
    return ew.exp(x, out=out, stream=stream)


def _own_kernel(x, out, stream):
    return squashed(x, out=out, stream=stream)


def _reduction(x, out, stream):
    return ew.sum(x, axis=1, out=out, stream=stream)


def _reduction_of_all(x, out, stream):
    """Of so few results that several blocks share each, in two passes."""
    return ew.sum(x, axis=(0, 1), keepdims=True, out=out, stream=stream)


def _own_reduction(x, out, stream):
    return spread(x, axis=0, out=out, stream=stream)


def _scan(x, out, stream):
    return ew.cumsum(x, axis=1, out=out, stream=stream)


def _scan_of_all(x, out, stream):
    return ew.cumsum(x, out=out, stream=stream)


def _row(x, out, stream):
    return ew.softmax(x, out=out, stream=stream)


def _gather(x, out, stream):
    """By indices that were computed just before."""
    return ew.take(x, ew.argmax(x, axis=1, stream=stream), axis=1, out=out, stream=stream)


def _scatter(x, out, stream):
    """Back to rows by indices that were computed just before: many launches, with parts in scratch memory."""
    named = ew.argmax(x, axis=1, stream=stream)
    return ew.take_backward(x, (x.shape[1], x.shape[1]), named, axis=0, out=out, stream=stream)


def _reduction_gradient(x, out, stream):
    """By totals that are computed just before."""
    return ew.std_backward(ew.sum(x, axis=1, stream=stream), x, axis=1, out=out, stream=stream)


def _triangle(x, out, stream):
    return ew.triu(x, k=1, out=out, stream=stream)


def _dropout(x, out, stream):
    """From an offset that the GPU reads."""
    return ew.dropout(x, 0.25, seed=3, offset=ew.argmax(x, stream=stream), out=out, stream=stream)


def _cross_entropy(x, out, stream):
    """The losses, into a row, and their gradient."""
    target = ew.argmin(x, axis=1, stream=stream)
    loss = ew.cross_entropy(x, target, stream=stream)
    return ew.cross_entropy_backward(loss, x, target, out=out, stream=stream)


def _adamw(x, out, stream):
    """A step of two parameters, in place."""
    p = ew.copy(x, out=out, stream=stream)
    m, v = (numbacc.zeros(x.shape, x.dtype, device=x.device, stream=stream) for _ in range(2))
    half = x.shape[0] // 2
    lists = ([each[:half], each[half:]] for each in (p, x, m, v))
    ew.adamw_step(*lists, 1, rate=0.1, stream=stream)
    return p


def _clipped_step(x, out, stream):
    """Gradients added to a buffer, in place, and a step whose factor their norm has left on the GPU."""
    p, total = ew.copy(x, out=out, stream=stream), ew.copy(x, stream=stream)
    m, v, sums = (numbacc.zeros(x.shape, x.dtype, device=x.device, stream=stream) for _ in range(3))
    (y, _), saved = ew.add_rms_norm(x, total, x[0], out=(None, total), return_saved=True, stream=stream)
    out = (y, sums[1])
    dx, _ = ew.add_rms_norm_backward(y, x, saved, out=out, accumulate=(False, True), stream=stream)
    _, factor = ew.clip_grad_norm([dx, sums], 0.5, write=False, stream=stream)
    ew.adamw_step([p], [dx], [m], [v], 1, rate=0.1, factor=factor, stream=stream)
    return p


#: Kind of kernel -> (x, out, stream) -> the result, for a float32 x of two dimensions; `out` is the result, if given.
FAMILY = {
    "map": _map,
    "own kernel": _own_kernel,
    "reduction": _reduction,
    "reduction of all": _reduction_of_all,
    "own reduction": _own_reduction,
    "scan": _scan,
    "scan of all": _scan_of_all,
    "row": _row,
    "gather": _gather,
    "scatter": _scatter,
    "reduction gradient": _reduction_gradient,
    "triangle": _triangle,
    "dropout": _dropout,
    "cross entropy": _cross_entropy,
    "adamw": _adamw,
    "clipped step": _clipped_step,
}
