"""Maps whose operands differ, and the check of what they write."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import Operand, bits

from numbacc.arrays.operands import layout_of
from numbacc.base import dtypes
from numbacc.base.dtypes import words
from numbacc.base.layout import view
from numbacc.functions.formula import Formula
from numbacc.kernels.elementwise.launch import MapExecutable, MapTask


def executable(formula, inputs, outs, scalars=(), compute=""):
    """The map of a formula over operands that broadcast to the outputs' shape."""
    shape = outs[0].view.shape
    ins, results = ([layout_of(o.view) for o in each] for each in (inputs, outs))

    def seen(k, array):
        lead = len(shape) - array.ndim
        steps = [0 if n == 1 else step for n, step in zip(array.shape, array.strides, strict=True)]
        return view(k, 0, (*[0] * lead, *steps), shape)

    return MapExecutable(
        MapTask(
            op="own", formula=formula, reference=formula.reference,
            names=tuple(f"operand {k}" for k in range(len(ins) + len(results))),
            inputs=tuple(ins), outputs=tuple(results), shape=shape,
            reads=tuple(seen(k, a) for k, a in enumerate(ins)), writes=tuple(seen(k, a) for k, a in enumerate(results)),
            out_given=True, compute=compute, scalars=tuple(scalars),
        )
    )  # fmt: skip


def check(place, function, inputs, outs, wanted, scalars=(), values=(), compute=""):
    """Run a map. Nothing but the outputs' elements may change."""
    made = executable(Formula("own", function), inputs, outs, scalars, compute)
    before = [o.place.get(o.base) for o in outs]
    packed = [word for name, value in zip(scalars, values, strict=True) for word in words(value, name)]
    made.run([o.view for o in inputs], [o.view for o in outs], None, 0, packed)
    for operand, base, result in zip(outs, before, wanted, strict=True):
        got = operand.now()
        assert got.dtype == result.dtype
        np.testing.assert_array_equal(plain(got), plain(result))
        operand.within(base)[...] = got
        np.testing.assert_array_equal(bits(operand.place.get(operand.base)), bits(base))
    for operand in inputs:
        operand.assert_untouched()
    return made


def plain(array):
    """Floats of ml_dtypes as float64: of theirs NumPy holds no two NaN for equal."""
    return array if array.dtype.type.__module__ == "numpy" else array.astype(np.float64)


SHAPE = (3, 70)


#: How operands lie: rows at multiples of 16 bytes, rows that share no alignment, transposed, with gaps.
LAYOUTS = {
    "dense": ({}, {}),
    "odd": ({"margins": [(0, 0), (1, 2)]}, {"margins": [(0, 0), (0, 1)]}),
    "transposed": ({"order": (1, 0)}, {}),
    "gaps": ({"steps": (1, 2)}, {"steps": (2, -3)}),
}


each_layout = pytest.mark.parametrize("layouts", LAYOUTS.values(), ids=LAYOUTS)


def operand(place, values, how):
    if values.shape != SHAPE and how.get("margins"):
        how = {"margins": [(0, 0), (2, 1)]}
    return Operand(place, values, **how)


def poisoned(place, dtype, how, shape=SHAPE):
    return place.empty(shape, dtypes.dtype(dtype), **how)
