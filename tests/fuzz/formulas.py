"""Kernels, reductions and gates of one's own, of formulas that are drawn: values and gradients as Python's arithmetic
has them (`near`), of any dtypes, layouts and broadcasting, fresh or into arrays that are there.
"""

from __future__ import annotations

import math
import re

import numpy as np

import numbacc
from numbacc import elementwise as ew
from numbacc import gated
from numbacc.base import dtypes

from .arguments import FLOATS
from .formula_cases import SLACK, SLOPE_SLACK, Given, call_options, compare, defined, operand
from .formula_text import Drawing
from .near import computed
from .operands import anywhere, neighbours


def run(case):
    try:
        with np.errstate(all="ignore"):
            case.pick([values] * 4 + [gradients] * 3 + [reduction] * 2 + [gate])(case)
    except numbacc.UnsupportedError as error:
        # Of numbers that are known Python makes no integers, where there are none.
        if not re.search("division by zero|cannot convert float|integer division", str(error)):
            raise
        case.refused(error)


def kernel_call(case, smooth):
    """A drawn formula's kernel, arguments for it, options as they are given and by name, what Python makes of them."""
    drawing = Drawing(case, smooth=smooth)
    ours, pythons = defined(case, drawing)
    args = Given(case, drawing.count, smooth)
    more, options, theirs = call_options(case, drawing)
    found = computed(pythons, args.elements(), args.eps, drawing.count, **theirs)
    return drawing, ew.kernel(ours), args, more, options, theirs, found


# ---------------------------------------------------------------- values


def values(case):
    drawing, made, args, more, options, theirs, found = kernel_call(case, False)
    if found is None:
        return
    names = ["bool" if is_truth else args.common for is_truth in drawing.truths]
    outs = None
    if case.where.chance(0.4):
        kinds = [dtypes.dtype(name) for name in names]
        if len(set(kinds)) == 1:
            outs = neighbours(case, [args.shape] * len(kinds), kinds[0])
        else:
            outs = [case.place.empty(args.shape, each, **anywhere(case, args.shape, True)) for each in kinds]
        options["out"] = tuple(out.view for out in outs) if len(outs) > 1 else outs[0].view
    if case.chance(0.2):
        plan = made.plan(*args.views, *more, **options)
        s = [theirs.get("s", 0.5)] if drawing.has_option else []
        given = {"out": options["out"]} if outs else {}
        answer = case.call("plan", plan, *args.views, *s, **given)
    else:
        answer = case.call("kernel", made, *args.views, *more, **options, **case.stream())
    case.place.settle()
    answers = answer if len(names) > 1 else (answer,)
    assert len(answers) == len(names)
    for k, (each, name) in enumerate(zip(answers, names, strict=True)):
        if outs:
            assert each is outs[k].view
            outs[k].assert_untouched_around()
        mine = np.array(outs[k].now()) if outs else case.place.get(each)
        assert (mine.dtype, mine.shape) == (dtypes.dtype(name), args.shape), (mine.dtype, mine.shape, name, args.shape)
        compare(mine, [f and (f[k].value, SLACK * f[k].off) for f in found], args.eps)
    for each in args.arrays:
        each.assert_untouched()


# ---------------------------------------------------------------- gradients


def gradients(case):
    drawing, made, args, more, options, _, found = kernel_call(case, True)
    if found is None:
        return
    dys = [operand(case, args.shape, args.common) for _ in drawing.truths]
    by, outs = [k for k, each in enumerate(args.given) if hasattr(each, "view")], None
    if case.where.chance(0.3):
        outs = neighbours(case, [args.given[k].shape for k in by], dtypes.dtype(args.common))
        options["out"] = tuple(out.view for out in outs)
    dy = tuple(each.view for each in dys)
    answer = case.call("backward", made.backward, dy if len(dy) > 1 or case.chance(0.3) else dy[0], *args.views, *more,
                       **options, **case.stream())  # fmt: skip
    case.place.settle()
    assert isinstance(answer, tuple) and len(answer) == len(by)
    seeds = [np.asarray(np.array(each.values), np.float64).ravel() for each in dys]
    for k, each in zip(by, range(len(by)), strict=True):
        mine = np.array(outs[each].now()) if outs else case.place.get(answer[each])
        judge_gradient(mine, k, args, seeds, found)
    for each in [*args.arrays, *dys]:
        each.assert_untouched()
    for out in outs or ():
        out.assert_untouched_around()


def judge_gradient(mine, k, args, seeds, found):
    """The gradient with respect to argument k, given those with respect to each result of each element."""
    assert (mine.dtype, mine.shape) == (dtypes.dtype(args.common), args.given[k].shape)
    terms, sizes = (np.full(len(found), math.nan) for _ in range(2))
    for n, results in enumerate(found):
        if results is None or any(r.is_rough for r in results) or not all(math.isfinite(s[n]) for s in seeds):
            continue
        terms[n] = sum(s[n] * r.slopes[k][0] for s, r in zip(seeds, results, strict=True))
        sizes[n] = sum(abs(s[n]) * r.slopes[k][1] for s, r in zip(seeds, results, strict=True))
    shape = (1,) * (len(args.shape) - mine.ndim) + mine.shape
    ways = tuple(d for d, n in enumerate(shape) if n == 1)
    total, size = (each.reshape(args.shape).sum(ways, keepdims=True).ravel() for each in (terms, sizes))
    compare(mine, [finite(SLOPE_SLACK * s, t) for t, s in zip(total, size, strict=True)], args.eps)


def finite(off, value):
    """What `compare` takes; None where something is not known."""
    return (float(value), float(off)) if math.isfinite(value) and math.isfinite(off) else None


# ---------------------------------------------------------------- reductions


#: What may follow a sum: (what is made of the total and the count, its derivative with respect to the total).
AFTER = (
    (lambda t, n: math.tanh(t / n), lambda t, n: 1 / math.cosh(t / n) ** 2 / n),
    (lambda t, n: math.sqrt(1.0 + t * t), lambda t, n: t / math.sqrt(1.0 + t * t)),
    (lambda t, n: t / n, lambda t, n: 1 / n),
    (lambda t, n: math.log1p(abs(t) / n), lambda t, n: math.copysign(1 / (n + abs(t)), t)),
    (lambda t, n: max(t, 0.5) * 2.0, lambda t, n: 2.0 * (t > 0.5)),
)  # fmt: skip


def reduction(case):
    """A drawn map, merged along axes; of sums what follows, and gradients."""
    drawing = Drawing(case, smooth=case.chance(0.5), results=1, option=False, truths=False)
    ours, pythons = defined(case, drawing)
    merge, args = case.pick(["sum", "sum", "max", "min"]), Given(case, drawing.count, True)
    rank = len(args.shape)
    axis = case.pick([None, *([] if rank == 0 else [case.integer(-rank, rank - 1), (0,), (rank - 1,)])])
    axes = tuple(range(rank)) if axis is None else tuple(a % rank for a in np.atleast_1d(axis))
    if 0 in [args.shape[a] for a in axes]:
        return
    found = computed(pythons, args.elements(), args.eps, drawing.count)
    if found is None:
        return
    after, slope = case.pick(AFTER) if merge == "sum" and case.chance(0.5) else (None, None)
    made, keep = ew.reduction(ours, merge=merge, after=after), case.chance(0.3)
    answer = case.call(f"reduction, {merge}", made, *args.views, axis=axis, keepdims=keep, **case.stream())
    case.place.settle()
    mine, count = case.place.get(answer), math.prod(args.shape[a] for a in axes)
    totals, bounds = (each.ravel() for each in merged(merge, found, args.shape, axes))
    results, offs = totals, bounds
    if after is not None:
        case.note(f"after is number {[one for one, _ in AFTER].index(after)}")
        known = [math.isfinite(t) for t in totals]
        results = np.array([float(after(t, count)) if k else math.nan for t, k in zip(totals, known, strict=True)])
        offs = [abs(slope(t, count)) * b + abs(r) if k else math.nan
                for t, b, r, k in zip(totals, bounds, results, known, strict=True)]  # fmt: skip
    wanted = tuple(1 if d in axes else n for d, n in enumerate(args.shape))
    assert mine.dtype == dtypes.dtype(args.common)
    assert mine.shape == (wanted if keep else tuple(n for d, n in enumerate(args.shape) if d not in axes))
    compare(mine, [finite(SLACK * o, r) for r, o in zip(results, offs, strict=True)], args.eps)
    if merge == "sum" and drawing.smooth and not np.isnan(totals).any():
        slopes = np.array([1.0 if slope is None else slope(t, count) for t in totals]).reshape(wanted)
        # What the total is off by, its slope is off by, too.
        rough = np.array(bounds).reshape(wanted) * args.eps > 1e-3 * np.maximum(np.abs(totals), 1).reshape(wanted)
        bends = (np.abs(totals * (totals - 0.5)) < 1e-2).reshape(wanted) | rough
        options = {"axis": axis, "keepdims": keep}
        reduction_gradients(case, made, args, found, np.where(bends, math.nan, slopes), options, mine.shape)
    for each in args.arrays:
        each.assert_untouched()


def merged(merge, found, shape, axes):
    """(the totals, how far off they may be), NaN where it is not known; axes stay."""
    terms, offs = (np.array([math.nan if f is None else get(f[0]) for f in found]).reshape(shape)
                   for get in (lambda r: r.value, lambda r: r.off + abs(r.value)))  # fmt: skip
    with np.errstate(all="ignore"):
        if merge == "sum":
            return terms.sum(axes, keepdims=True), offs.sum(axes, keepdims=True)
        total = getattr(terms, merge)(axes, keepdims=True)
        return total, np.where(np.isnan(total), math.nan, offs.max(axes, keepdims=True))


def reduction_gradients(case, made, args, found, slopes, options, shape):
    dy = operand(case, shape, args.common)
    answer = case.call("backward", made.backward, dy.view, *args.views, **options, **case.stream())
    case.place.settle()
    seeds = np.array(dy.values).astype(np.float64).reshape(slopes.shape) * slopes
    seeds = np.broadcast_to(seeds, args.shape).ravel()
    by = [k for k, each in enumerate(args.given) if hasattr(each, "view")]
    for k, mine in zip(by, map(case.place.get, answer), strict=True):
        judge_gradient(mine, k, args, [seeds], found)
    dy.assert_untouched()


# ---------------------------------------------------------------- gates


def gate(case):
    """A gated unit of a kind of one's own."""
    drawing = Drawing(case, smooth=True, results=1, option=False, count=1)
    ours, pythons = defined(case, drawing)
    gated.register("drawn", getattr(ours, "py_func", ours))
    dtype, half, rows = case.pick(FLOATS), case.integer(1, 20), case.integer(1, 5)
    x, dy = operand(case, (rows, 2 * half), dtype), operand(case, (rows, half), dtype)
    y = case.place.get(case.call("gated.forward", gated.forward, x.view, "drawn"))
    dx = case.place.get(case.call("gated.backward", gated.backward, dy.view, x.view, "drawn"))
    case.place.settle()
    wide = np.array(x.values).astype(np.float64)
    a, b, seeds = wide[:, :half].ravel(), wide[:, half:].ravel(), np.array(dy.values).astype(np.float64).ravel()
    eps = {"float64": 2.0**-52, "float32": 2.0**-23}.get(dtype, 2.0**-19)
    found = computed(pythons, ((each,) for each in b), eps, 1)
    if found is None:
        return
    values, firsts, seconds = [], [], []
    for one, seed, results in zip(a, seeds, found, strict=True):
        g = results and results[0]
        is_known = g is not None and all(map(math.isfinite, (one, seed, g.value)))
        values.append((one * g.value, SLACK * abs(one) * (g.off + abs(g.value))) if is_known else None)
        firsts.append((seed * g.value, SLACK * abs(seed) * (g.off + abs(g.value))) if is_known else None)
        slope, size = g.slopes[0] if is_known and not g.is_rough else (0, 0)
        seconds.append(
            (seed * one * slope, SLOPE_SLACK * abs(seed * one) * size) if is_known and not g.is_rough else None
        )
    compare(y, values, eps)
    compare(dx[:, :half], firsts, eps)
    compare(dx[:, half:], seconds, eps)
    x.assert_untouched(), dy.assert_untouched()
