"""Reductions, scans and rows, and what stands beside them in `places`: any dtypes, axes, layouts and options."""

from __future__ import annotations

import block_cases
import ml_dtypes
import numpy as np
import reduction_gradients as gradients
import reduction_oracle as oracle
import row_cases
import scan_cases
from oracle import DTYPES
from own_reductions import MEANINGS

from numbacc.base import dtypes

from . import blocks, empties, places
from .operands import anywhere, called, lay, neighbours, result_of, target_of

FLOATS = tuple(dtype.name for dtype in DTYPES)


def run(case):
    case.pick(
        [reduction] * 5 + [scan] * 3 + [reduction_backward, scan_backward] * 2 + [normalized] * 4
        + [normalized_backward] * 2 + [entropy, entropy, logsumexp, own_reduction, own_reduction]
        + [places.run] * 10 + [blocks.run] * 4 + [empties.run] * 2
    )(case)  # fmt: skip


# ---------------------------------------------------------------- reductions


def axes_of(case, rank, several=True):
    """None, an axis or several, and what they are as a tuple."""
    if case.chance(0.25) or not rank:
        return None
    if not several or case.chance(0.5):
        return case.integer(-rank, rank - 1)
    return tuple(int(d) for d in case.rng.permutation(rank)[: case.integer(0, rank)])


def reduction(case):
    name = case.pick(oracle.DTYPES)
    dtype, shape = case.pick(oracle.DTYPES[name]), case.shape(case.pick([0, 1, 1, 2, 2, 3, 4, 8]), empty=0)
    values = np.asarray(oracle.values(case.rng, shape, dtype, name))
    axis, keepdims = axes_of(case, len(shape), name not in oracle.INDICES), case.chance(0.4)
    x = lay(case, values)
    given, known = {}, {}
    if name in ("var", "std"):
        given = known = {"correction": case.pick([0, 0, 1])}
    elif name == "norm":
        order = case.pick([2, 2, 1, np.inf, -np.inf, 0, 3, 0.5, -1])
        given, known = {"ord": order}, {"order": order}
    read, more = np.array(x.values), {}
    result = oracle.result_dtype(name, read.dtype)
    if name in ("sum", "mean", "prod") and dtype in FLOATS and case.chance(0.2):
        wider = case.pick(["float32", "float64"]) if dtype != "float64" else "float64"
        more, read = {"dtype": wider}, read.astype(wider)
        result = np.dtype(wider)
    wanted = np.shape(oracle.exact(name, read, axis, keepdims, **known))
    out, options = target_of(case, wanted, result)
    answer = called(case, name, x.view, axis=axis, keepdims=keepdims, **given, **more, **options)
    found = result_of(case, answer, out)
    if read.size or name in ("sum", "prod", "any", "all"):
        oracle.assert_accurate(name, found, read, axis, keepdims, **known)
    x.assert_untouched()


def reduction_backward(case):
    which, dtype = case.pick(gradients.CALLS), dtypes.dtype(case.pick(FLOATS))
    shape = tuple(min(n, 12) for n in case.shape(case.pick([1, 2, 3]), empty=0))
    axis, keepdims = axes_of(case, len(shape)), case.chance(0.5)
    axes = gradients.axes_of(axis, len(shape))
    which, options = gradients.options_of(which, shape, axes)
    x = lay(case, gradients.values(case.rng, which, shape).astype(dtype))
    dy = lay(case, case.rng.standard_normal(np.sum(x.values, axis=axes, keepdims=keepdims).shape).astype(dtype))
    out, more = target_of(case, shape, dtype)
    name = f"{which.partition(',')[0]}_backward"
    answer = called(case, name, dy.view, x.view, axis=axis, keepdims=keepdims, **options, **more)
    read, kept = np.array(x.values, np.float64), [1 if d in axes else n for d, n in enumerate(shape)]
    wanted = gradients.gradient(which, np.array(dy.values, np.float64).reshape(kept), read, axes)
    # If all numbers are alike, their differences cancel in the gradients of a variance and of its root.
    size = float(np.abs(read).max() * np.abs(np.array(dy.values, np.float64)).max(initial=0))
    if which.startswith("std"):
        std = np.std(read, axes)
        size /= std.min(initial=np.inf, where=std > 0)
    cancelled = size if which.startswith(("var", "std")) else 0.0
    gradients.assert_near(result_of(case, answer, out), wanted, dtype, cancelled)
    for operand in (x, dy):
        operand.assert_untouched()


def logsumexp(case):
    dtype, shape = case.pick(FLOATS), case.shape(case.pick([1, 2, 3]), empty=0)
    axis, keepdims = axes_of(case, len(shape)), case.chance(0.5)
    x = lay(case, (case.pick([1, 50]) * case.rng.normal(size=shape)).astype(dtypes.dtype(dtype)))
    read = np.array(x.values, np.float64)
    largest = read.max(axis=axis, keepdims=True)
    wanted = largest + np.log(np.exp(read - largest).sum(axis=axis, keepdims=True))
    wanted = wanted if keepdims else wanted.reshape(np.sum(read, axis=axis).shape)
    out, options = target_of(case, wanted.shape, dtypes.dtype(dtype))
    found = result_of(case, called(case, "logsumexp", x.view, axis=axis, keepdims=keepdims, **options), out)
    block_cases.near(found, wanted, dtypes.dtype(dtype), ulps=4, scale=2)
    x.assert_untouched()


def own_reduction(case):
    """One of those that the tests have, of arrays that broadcast."""
    which = case.pick(MEANINGS)
    own, count, meaning = MEANINGS[which]
    dtype, shape = case.pick(["float32", "float64"]), case.shape(case.pick([1, 2, 3]), empty=0)
    second = tuple(case.pick([n, n, 1]) for n in shape)[case.integer(0, len(shape) - 1) if case.chance(0.3) else 0 :]
    operands = [lay(case, case.rng.standard_normal(s).astype(dtype)) for s in (shape, second)[:count]]
    axis, keepdims = axes_of(case, len(shape)), case.chance(0.5)
    wanted = meaning(*(np.array(o.values, np.float64) for o in operands), axis=axis, keepdims=keepdims)
    several = isinstance(wanted, tuple)
    wanted, outs, options = wanted if several else (wanted,), None, {}
    if case.where.chance(0.4) and not any(np.asarray(each).dtype == bool for each in wanted):
        outs = neighbours(case, [np.shape(each) for each in wanted], np.dtype(dtype))
        options["out"] = tuple(out.view for out in outs) if several else outs[0].view
    views = [o.view for o in operands]
    found = case.call(which, own, *views, axis=axis, keepdims=keepdims, **options, **case.stream())
    for one, out, other in zip(found if several else (found,), outs or [None] * len(wanted), wanted, strict=True):
        got = result_of(case, one, out)
        assert got.shape == np.shape(other)
        terms = 2e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(got.astype(float), other, rtol=terms, atol=terms * max(np.prod(shape), 8) ** 0.5)
    for operand in operands:
        operand.assert_untouched()


# ---------------------------------------------------------------- scans


def scan(case):
    name, dtype = case.pick(scan_cases.NAMES), case.pick(scan_cases.DTYPES_OF_ALL)
    shape = case.shape(case.pick([0, 1, 1, 2, 3, 8]), empty=0.05)
    axis = None if case.chance(0.25) or not shape else case.integer(-len(shape), len(shape) - 1)
    reverse = case.chance(0.5)
    x = lay(case, scan_cases.values_of(case.rng, shape, dtype, name))
    read, more = np.array(x.values), {}
    result = oracle.result_dtype("sum", read.dtype)
    if dtype in ("float16", "bfloat16", "float32") and case.chance(0.2):
        more, result = {"dtype": "float64"}, np.dtype(np.float64)
        read = read.astype(result)
    out, options = target_of(case, (read.size,) if axis is None else shape, result)
    answer = called(case, name, x.view, axis=axis, reverse=reverse, **more, **options)
    scan_cases.assert_right(name, result_of(case, answer, out), read, axis, reverse)
    x.assert_untouched()


def scan_backward(case):
    """By the Jacobian, which has ones, or products of the others, on one side of the diagonal."""
    name, dtype = case.pick(scan_cases.NAMES), dtypes.dtype(case.pick(FLOATS))
    shape = tuple(min(n, 40) for n in case.shape(case.pick([1, 2, 3]), empty=0))
    axis, reverse = case.integer(-len(shape), len(shape) - 1), case.chance(0.5)
    dy = lay(case, case.rng.standard_normal(shape).astype(dtype))
    x = np.sign(case.rng.standard_normal(shape)) * np.exp2(case.rng.standard_normal(shape) / 4)
    if case.chance(0.4):  # with zeros
        x = x * (case.rng.random(shape) > 0.1)
    x = lay(case, x.astype(dtype))
    arguments = (dy,) if name == "cumsum" else (dy, x)
    out, options = target_of(case, shape, dtype)
    views = [a.view for a in arguments]
    found = result_of(case, called(case, f"{name}_backward", *views, axis=axis, reverse=reverse, **options), out)
    d, rows = (np.moveaxis(np.array(a.values, np.float64), axis, -1) for a in (dy, x))
    d, rows = (a[..., ::-1] if reverse else a for a in (d, rows))
    wanted, scale = np.zeros_like(rows), np.zeros_like(rows)
    for j in range(rows.shape[-1]):
        others = np.array(rows) if name == "cumprod" else np.ones_like(rows)
        others[..., j] = 1
        terms = d[..., j:] * np.cumprod(others, -1)[..., j:]
        wanted[..., j], scale[..., j] = terms.sum(-1), np.abs(terms).sum(-1)
    wanted, scale = (np.moveaxis(a[..., ::-1] if reverse else a, -1, axis) for a in (wanted, scale))
    eps = np.finfo(dtypes.info(dtype).compute).eps
    bound = 4 * (shape[axis] + 4) * eps * scale + row_cases.spacing(wanted, dtype)
    inside = np.abs(wanted) + bound < float(ml_dtypes.finfo(dtype).max)  # others may be infinite
    assert found.dtype == dtype and (np.abs(found.astype(np.float64) - wanted) <= bound)[inside].all()
    for operand in arguments:
        operand.assert_untouched()


# ---------------------------------------------------------------- normalizations


def arguments_of(case, name, dtype):
    """x's shape, and values of x and of as many weights as there are to be."""
    shape = case.shape(case.pick([1, 2, 2, 3, 4]), empty=0)
    values = row_cases.values_of(case.rng, name, shape, dtype)
    return shape, values[: case.integer(1, len(values))]


def spread(name, wide, eps):
    """What the mean of a row is rounded beside."""
    if "softmax" in name:
        return 0
    return float((np.abs(wide) * row_cases.normal(name.split("_")[0], wide, eps)[1]).max(initial=0))


def normalized(case):
    name, dtype = case.pick(row_cases.FORWARD), case.pick(DTYPES)
    shape, values = arguments_of(case, name, dtype)
    axis = case.integer(-len(shape), len(shape) - 1)
    options = row_cases.options_of(name, axis)
    target = case.pick(["fresh", "given", "in place"])
    x = lay(case, values[0], target == "in place", 0.1 if target != "in place" else 0)
    weights = [lay(case, v) for v in values[1:]]
    wide = [np.array(o.values, np.float64) for o in (x, *weights)]
    wanted = row_cases.forward(name, wide, **options)
    out = x if target == "in place" else None
    if target == "given":
        out = case.place.empty(shape, dtype, **anywhere(case, shape, True))
    more = {} if out is None else {"out": out.view}
    answer = called(case, name, x.view, *(w.view for w in weights), **options, **more)
    found = result_of(case, answer, out)
    scale = np.abs(wanted).max(initial=0) + 3 * spread(name, wide[0], 1e-3)
    assert found.dtype == dtype
    row_cases.assert_near(found, wanted, scale)
    for operand in (x, *weights):
        if operand is not out:
            operand.assert_untouched()


def normalized_backward(case):
    name, dtype = case.pick(row_cases.FORWARD), case.pick(DTYPES)
    shape, values = arguments_of(case, name, dtype)
    options = row_cases.options_of(name, case.integer(-len(shape), len(shape) - 1))
    dy, x = lay(case, case.rng.standard_normal(shape).astype(dtype)), lay(case, values[0])
    weights, more = [lay(case, v) for v in values[1:2]], {"bias": True} if len(values) > 2 else {}
    d, wide = (np.array(o.values, np.float64) for o in (dy, x))
    second = x
    if "softmax" in name:
        second = lay(case, row_cases.forward(name, [wide], **options).astype(dtype))
        y, axis = np.array(second.values, np.float64), options["axis"]
        # Of the y that is given.
        total = (d if "log" in name else d * y).sum(axis, keepdims=True)
        wanted = [d - np.exp(y) * total if "log" in name else y * (d - total)]
    else:
        known = [wide, *(np.array(w.values, np.float64) for w in weights), *values[2:]]
        wanted = row_cases.gradients(name, d, known, **options)
    outs = neighbours(case, [each.shape for each in wanted], dtype) if case.where.chance(0.4) else None
    if outs:
        more["out"] = tuple(out.view for out in outs) if len(outs) > 1 else outs[0].view
    answer = called(case, f"{name}_backward", dy.view, second.view, *(w.view for w in weights), **options, **more)
    found = answer if isinstance(answer, tuple) else (answer,)
    assert len(found) == len(wanted)
    rows = max(wide.size // shape[-1], 1)
    for one, out, other in zip(found, outs or [None] * len(found), wanted, strict=True):
        size = np.abs(other).max(initial=0) + rows
        one = result_of(case, one, out)
        assert one.dtype == dtype
        row_cases.assert_near(one, other, 3 * size * (1 if "softmax" in name else 30))
    for operand in (dy, second, *weights):
        operand.assert_untouched()


# ---------------------------------------------------------------- cross entropy


def entropy(case):
    """The losses, their sum or mean; and the gradient of one of them."""
    dtype, shape = dtypes.dtype(case.pick(FLOATS)), case.shape(case.pick([1, 2, 2, 3]), empty=0)
    axis, smoothing = case.integer(-len(shape), len(shape) - 1), case.pick([0.0, 0.0, 0.1, 1.0])
    ignored = case.pick([-100, 0])
    classes = shape[axis]
    x = lay(case, (3 * case.rng.normal(size=shape)).astype(dtype))
    beside = tuple(n for d, n in enumerate(shape) if d != axis % len(shape))
    target = np.where(case.rng.random(beside) < 0.2, ignored, case.rng.integers(0, classes, beside))
    t = lay(case, np.asarray(target).astype(case.pick(["int64", "int32", "int16"])))
    target = np.array(t.values).astype(np.int64)
    wanted, log_p = row_cases.losses_of(np.array(x.values), target, axis, smoothing, ignored)
    count, compute = int((target != ignored).sum()), "float64" if dtype == np.float64 else "float32"
    reduction = case.pick(["none", "sum", "mean"]) if count else "none"
    options = {"axis": axis, "label_smoothing": smoothing, "ignore_index": ignored, "reduction": reduction}
    found, stats = called(case, "cross_entropy", x.view, t.view, return_stats=True, **options)
    case.place.settle()
    whole = {"none": wanted, "sum": wanted.sum(), "mean": wanted.sum() / max(count, 1)}[reduction]
    scale = 16 * (target.size if reduction == "sum" else 1)
    block_cases.near(case.place.get(found), whole, compute, scale=scale, ulps=8)
    hot = (np.arange(classes) == target[..., None]) * (1 - smoothing) + smoothing / classes
    slope = np.where((target == ignored)[..., None], 0.0, np.exp(log_p) - hot)
    factor = 0.5 / count if reduction == "mean" else 0.5
    dy = 0.5 if reduction != "none" else case.place.put(np.full(target.shape, 0.5, compute))
    stats = stats if case.chance(0.5) else None
    out, more = target_of(case, shape, dtype)
    if case.chance(0.2) and x.library is None and 0 not in x._steps:
        out, more = x, {"out": x.view}
    answer = called(case, "cross_entropy_backward", dy, x.view, t.view, stats=stats, **options, **more)
    dx = result_of(case, answer, out)
    block_cases.near(dx, np.moveaxis(slope * factor, -1, axis), dtype, scale=factor, ulps=16)
    t.assert_untouched()
    if out is not x:
        x.assert_untouched()
