"""Activations of sums, gradients of log-sum-exps, and filling."""

from __future__ import annotations

import elementwise_oracle as oracle
import ml_dtypes
import numpy as np
import test_blocks
from conftest import bits
from elementwise_oracle import GRADIENTS

from numbacc import elementwise as ew
from numbacc.base import dtypes
from numbacc.elementwise.transformer import ACTIVATIONS

from .arrays import values as any_values
from .elementwise import mask_of
from .operands import called, lay, neighbours, result_of, target_of

FLOATS = ("float32", "float64", "float16", "bfloat16")
#: Allowed roundings of the compute dtype, at the scale of the terms.
_ROUGH = 64


def run(case):
    case.pick([activated, activated_backward, logsumexp_backward, fill])(case)


def sums(case, dtype):
    """Return which function, x, the other operand, the sum of the two in float64, and options."""
    which = case.pick(["bias", "residual"])
    shape = case.shape(case.pick([1, 2, 2, 3, 4]))
    axis = case.integer(-len(shape), len(shape) - 1)
    other = (shape[axis],) if which == "bias" else shape
    # Away from corners, where a rounding decides.
    x, b = (
        lay(case, (case.rng.integers(-40, 40, s) / 8 + off).astype(dtype)) for s, off in ((shape, 1 / 64), (other, 0))
    )
    spread = np.array(b.values, np.float64)
    if which == "bias":
        spread = spread.reshape([-1 if d == axis % len(shape) else 1 for d in range(len(shape))])
    options = {"activation": case.pick(ACTIVATIONS), **({"axis": axis} if which == "bias" else {})}
    return which, x, b, np.array(x.values, np.float64) + spread, options


def room(dtype, size, wanted):
    compute = np.float64 if dtype == np.float64 else np.float32
    eps = float(np.finfo(compute).eps) if dtype.itemsize > 2 else 2.0**-17  # the hardware's exponential
    stored = ml_dtypes.finfo(dtype)
    return _ROUGH * eps * size + float(stored.eps) * np.abs(wanted) + float(stored.smallest_subnormal)


def assert_near(found, wanted, size, dtype, what):
    assert (found.dtype, found.shape) == (dtype, wanted.shape)
    error = np.abs(found.astype(np.float64) - wanted)
    wrong = ~(error <= room(dtype, size, wanted))
    assert not wrong.any(), f"{what}: {found[wrong][:3]}, not {wanted[wrong][:3]}"


def activated(case):
    dtype = dtypes.dtype(case.pick(FLOATS))
    which, x, b, z, options = sums(case, dtype)
    wanted = oracle.vector(options["activation"], z)
    out, target = target_of(case, z.shape, dtype)
    name = f"{which}_activation"
    # A plan would need the bias with trailing axes of length 1.
    function = getattr(ew, name)
    answer = case.call(f"elementwise.{name}", function, x.view, b.view, **options, **target, **case.stream())
    found = result_of(case, answer, out)
    assert_near(found, wanted, np.abs(z) + np.abs(wanted), dtype, options["activation"])
    x.assert_untouched(), b.assert_untouched()


def activated_backward(case):
    dtype = dtypes.dtype(case.pick(FLOATS))
    which, x, b, z, options = sums(case, dtype)
    dy = lay(case, case.rng.standard_normal(z.shape).astype(dtype))
    d = np.array(dy.values, np.float64)
    (slope,) = GRADIENTS[options["activation"]](z)
    wanted, size = d * slope, np.abs(d) * (1 + np.abs(slope)) * (1 + np.abs(z))
    shapes = [z.shape, b.values.shape] if which == "bias" else [z.shape]
    outs = neighbours(case, shapes, dtype) if case.where.chance(0.5) else [None] * len(shapes)
    if outs[0] is not None:
        options["out"] = tuple(out.view for out in outs) if which == "bias" else outs[0].view
    name = f"{which}_activation_backward"
    answer = case.call(f"elementwise.{name}", getattr(ew, name), dy.view, x.view, b.view, **options, **case.stream())
    parts = [result_of(case, *each) for each in zip(answer if which == "bias" else (answer,), outs, strict=True)]
    assert_near(parts[0], wanted, size, dtype, options["activation"])
    if which == "bias":
        ways = tuple(d for d in range(z.ndim) if d != options["axis"] % z.ndim)
        total = parts[0].astype(np.float64).sum(ways)  # of dx as it was rounded
        terms = np.abs(parts[0].astype(np.float64)).sum(ways)
        assert_near(parts[1], total, terms * max(z.size, 1) ** 0.5, dtype, "dbias")
    for operand in (dy, x, b):
        operand.assert_untouched()


def logsumexp_backward(case):
    dtype, shape = dtypes.dtype(case.pick(FLOATS)), case.shape(case.pick([1, 2, 3]), empty=0)
    rank = len(shape)
    axis, keepdims = case.pick([None, case.integer(-rank, rank - 1)]), case.chance(0.5)
    x = lay(case, (3 * case.rng.standard_normal(shape)).astype(dtype))
    read = np.array(x.values, np.float64)
    p = np.exp(read - read.max(axis=axis, keepdims=True))
    p /= p.sum(axis=axis, keepdims=True)
    dy = lay(case, np.asarray(case.rng.standard_normal(p.sum(axis=axis, keepdims=keepdims).shape)).astype(dtype))
    d = np.array(dy.values, np.float64).reshape(p.sum(axis=axis, keepdims=True).shape)
    out, target = target_of(case, shape, dtype)
    answer = called(case, "logsumexp_backward", dy.view, x.view, axis=axis, keepdims=keepdims, **target)
    wide = "float64" if dtype == np.float64 else "float32"
    allowed = 64 * test_blocks.rounding(np.dtype(wide)) * np.abs(d) * (p * (1 + np.abs(read)) + 1e-30)
    found = result_of(case, answer, out)
    stored = ml_dtypes.finfo(dtype)
    allowed = allowed + float(stored.eps) * np.abs(d * p) + float(stored.smallest_subnormal)
    assert found.dtype == dtype and (np.abs(found.astype(np.float64) - d * p) <= allowed).all()
    x.assert_untouched(), dy.assert_untouched()


def fill(case):
    """In place, by a number or an array, all of it or where a mask holds."""
    name = case.pick([name for name, row in dtypes.TABLE.items() if not row.is_scaled])
    shape = case.shape(case.pick([0, 1, 2, 3, 4]))
    x = lay(case, any_values(case, shape, name), True)
    old = np.array(x.values)
    if case.chance(0.5):
        value = given = case.pick([0, 1])
        source = None
    else:
        own = tuple(1 if case.chance(0.3) else n for n in shape)
        source = lay(case, any_values(case, own, name))
        value, given = np.array(source.values), source.view
    mask = mask_of(case, shape) if case.chance(0.4) else None
    options = {} if mask is None else {"where": mask.view}
    assert case.call("elementwise.fill", ew.fill, x.view, given, **options, **case.stream()) is x.view
    case.place.settle()
    wanted = np.broadcast_to(np.asarray(value).astype(old.dtype), shape)
    wanted = np.where(True if mask is None else np.broadcast_to(mask.values, shape), wanted, old)
    now = np.array(x.now())
    np.testing.assert_array_equal(bits(now), bits(np.array(wanted, order="C")))
    x.assert_untouched_around()
    for operand in (source, mask):
        if operand is not None:
            operand.assert_untouched()
