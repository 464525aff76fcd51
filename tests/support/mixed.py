"""A map whose operands have a dtype each, with a scalar that comes at the launch: (x, n, mask), scale -> a float16."""

from __future__ import annotations

import numpy as np
from operand_cases import executable

import numbacc
from numbacc.arrays.operands import as_array
from numbacc.base.dtypes import words
from numbacc.functions.formula import Formula
from numbacc.plan.tasks import MapPlan
from numbacc.runtime.streams import handle_of

DTYPES = ("float32", "int32", "bool")
SHAPE = (24, 70)


def blend(x, n, mask, scale):
    return x * scale + n if mask else x - n


def reference(x, n, mask, scale):
    with np.errstate(all="ignore"):
        return (np.where(mask, x * np.float32(scale) + n.astype(np.float32), x - n.astype(np.float32)),)


BLEND = Formula("blend", blend, reference)


def hosts(seed=0, shape=SHAPE):
    """Small whole numbers: what comes of them is a float16, for scales that are multiples of a half."""
    rng = np.random.default_rng(seed)
    x, n = (rng.integers(-99, 100, shape) for _ in range(2))
    return x.astype("f4"), n.astype("i4"), rng.integers(0, 2, shape).astype(bool)


def expected(arrays, scale):
    return reference(*arrays, scale)[0].astype(np.float16)


class _Held:
    def __init__(self, view):
        self.view = view


def plan(arrays, out):
    """The plan for arrays laid out as these."""
    made = executable(BLEND, [_Held(a) for a in arrays], [_Held(out)], ("float32",))
    return MapPlan(made.task)


def run(made, arrays, out, scale, stream=None):
    """Run a plan as plans of families are: on whatever arrays they were given."""
    handle = handle_of(stream)
    names = made.names[: len(arrays)]
    taken = [as_array(a, name, handle) for a, name in zip(arrays, names, strict=True)]
    return made.run(taken, [as_array(out, "out", handle)], out, handle, words(scale, "float32"))


def put(arrays, device=None, stream=None):
    return [numbacc.asarray(a, device=device, stream=stream) for a in arrays]


def moved(shape, dtype, start, **where):
    """An array that starts so many elements behind a multiple of 256 bytes."""
    size = int(np.prod(shape))
    return numbacc.empty(size + start, dtype, **where)[start:].reshape(shape)
