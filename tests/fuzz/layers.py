"""`linear` and `mlp`, forward and backward, against the same written out by hand."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from gemm_oracle import GELU_SLOPE_ERROR
from layer_oracle import linear_by_hand, mlp_by_hand

import numbacc
from numbacc import gemm
from numbacc.base import dtypes

from .gemm import is_stored
from .operands import anywhere, in_a_buffer

DTYPES = ("float32", "float64", "float16", "bfloat16")


def run(case):
    dtype = dtypes.dtype(case.pick(DTYPES))
    count, inside, out = (case.integer(1, 4 if case.place.is_slow else 12) for _ in range(3))
    batch = case.pick([(), (case.integer(1, 7),), (2, case.integer(1, 4)), (2, 1, 3)])
    if case.chance(0.5):
        activation, by_hand = case.pick([None, "relu", "gelu"]), linear_by_hand
        bias = (inside,) if case.chance(0.6) else None
        shapes = [(*batch, inside), (*batch, count), (count, inside), bias]
    else:
        activation, by_hand = case.pick(["gelu", "relu"]), mlp_by_hand
        shapes = [(*batch, out), (*batch, count), (count, inside), (inside,), (inside, out), (out,)]
    odd = case.where.integer(0, len(shapes)) if case.where.chance(0.2) else None  # of an operand, or of `out`
    operands = [None if s is None else lay(case, s, dtype, k == odd) for k, s in enumerate(shapes)]
    for _ in range(1000):  # until no z is near 0, where ReLU has a corner
        dy, x, w, bias, *_ = (None if o is None else o.values.astype(np.float64) for o in operands)
        z = x @ w + (0 if bias is None else bias)
        if activation != "relu" or np.abs(z).min(initial=1) > 0.02:
            break
        operands[1] = lay(case, shapes[1], dtype, odd == 1)
    dy, *arguments = (None if o is None else o.view for o in operands)
    options, target = case.stream(), None
    if case.where.chance(0.4):
        is_odd = odd == len(shapes)
        there = anywhere(case, shapes[0], True) if is_odd else as_rows(case, shapes[0])
        target = case.place.empty(shapes[0], dtype, **there)
        options["out"] = target.view
    name = "linear" if by_hand is linear_by_hand else "mlp"
    try:
        y, saved = case.call(f"gemm.{name}", getattr(gemm, name), *arguments, activation=activation, **options)
        grads = case.call(f"gemm.{name}_backward", getattr(gemm, f"{name}_backward"), dy, saved, **case.stream())
    except numbacc.LayoutError as error:
        given = [*operands, target][odd] if odd is not None else None
        assert given is not None and not is_matrix(given.values), error
        case.refused(error)
        return
    case.place.settle()
    if target is not None:
        assert y is target.view
        target.assert_written_only()
        y = target.ours
    verify(case, [y, *grads], by_hand, [None if o is None else o.values for o in operands], activation, dtype)
    for operand in operands:
        if operand is not None:
            operand.assert_untouched()


def as_rows(case, shape):
    """The layout of rows evenly spaced, which start anywhere."""
    margins = [(0, 0)] * (len(shape) - 1) + [case.where.pick([(0, 0), (1, 2), (4, 4)])]
    start = {"memory": in_a_buffer(case)} if case.where.chance(0.6) else {}
    return {**start, "margins": margins} if case.where.chance(0.7) else start


def is_matrix(array):
    """Whether rows of features are a matrix, without a copy."""
    try:
        return array.ndim > 1 and is_stored(array.reshape((-1, array.shape[-1]), copy=False))
    except ValueError:
        return False


def lay(case, shape, dtype, is_odd=False):
    """An operand as layers want it, or anywhere."""
    values = (0.7 * case.rng.standard_normal(shape)).astype(dtype)
    if is_odd:
        return case.place.operand(values, **anywhere(case, shape, False))
    if len(shape) == 1:
        layout = anywhere(case, shape, False) if shape[0] > 1 else {}
        return case.place.operand(values, **{**layout, "steps": [abs(s) or 1 for s in layout.get("steps", [1])]})
    layout = as_rows(case, shape)
    if len(shape) == 2 and case.where.chance(0.4):
        layout |= {"order": (1, 0), "margins": [case.where.pick([(0, 0), (2, 1)]), (0, 0)]}
    return case.place.operand(values, **layout)


def verify(case, results, by_hand, values, activation, dtype):
    """Each element is off by a few roundings of the sum of the magnitudes of what it is made of."""
    wide = [None if v is None else v.astype(np.float64) for v in values]
    exact = by_hand(*wide, activation, lambda array: array)
    sizes = by_hand(*(None if v is None else np.abs(v) for v in wide), None, lambda array: array)
    terms = max(max(v.shape) for v in values if v is not None)
    eps = float(ml_dtypes.finfo(dtype).eps)
    # In 16 bits sums are in float32, so that only what is stored is rounded.
    units = 8 * eps + (terms * eps if dtype.itemsize >= 4 else 0)
    if activation == "gelu" and case.place.name == "gpu" and dtype.itemsize < 8:
        units += 4 * GELU_SLOPE_ERROR
    for number, (result, want, size) in enumerate(zip(results, exact, sizes, strict=True)):
        if result is None:
            assert by_hand is linear_by_hand and number == 3 and values[3] is None
            continue
        found = case.place.get(result)
        assert (found.shape, found.dtype) == (want.shape, dtype), f"result {number}"
        error = np.abs(found.astype(np.float64) - want)
        allowed = units * (size + 1e-30) + float(ml_dtypes.finfo(dtype).tiny)
        assert (error <= allowed).all(), f"result {number} is off by {np.max(error / allowed):.3g} of what is allowed"
