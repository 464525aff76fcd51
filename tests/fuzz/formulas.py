"""Kernels and reductions of one's own, of formulas that are drawn: values and gradients as Python's own arithmetic has
them (`near`), of any dtypes, layouts and broadcasting, fresh or into arrays that are there.
"""

from __future__ import annotations

import linecache
import math
import re

import ml_dtypes
import numpy as np
from test_elementwise_calls import met

import numbacc
from numbacc import elementwise as ew
from numbacc.base import dtypes

from .arguments import FLOATS, kind, shapes_of, wide
from .formula_text import Drawing
from .near import Ew, Math, computed
from .operands import anywhere

#: How many roundings more than the first-order bound: what is of second order, and functions that are off by some ulps.
_SLACK = 16
_SLOPE_SLACK = 4096


def run(case):
    try:
        case.pick([values] * 4 + [gradients] * 3 + [reduction])(case)
    except numbacc.UnsupportedError as error:
        # Of numbers that are known Python makes no integers, where there are none.
        if not re.search("division by zero|cannot convert float|integer division", str(error)):
            raise
        case.refused(error)


# ---------------------------------------------------------------- formulas


def defined(case, drawing):
    """The drawn function: for kernels, and for Python's numbers."""
    text, file = drawing.source, f"<formula {case.seed}>"
    case.note(text.rstrip())
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    code, spaces = compile(text, file, "exec"), ({"math": math, "ew": ew}, {"math": Math, "ew": Ew})
    for space in spaces:
        exec(code, space)
        if "inner" in space and space["ew"] is ew and case.chance(0.5):
            space["inner"] = ew.kernel(space["inner"])  # of its own, or a plain function
    return [space["formula"] for space in spaces]


def meeting(names):
    """The dtype of the results of arguments of these; that of the arrays where numbers stand beside."""
    found = met(*names)
    return found if kind(found) == "f" else {1: "float16", 2: "float32"}.get(dtypes.dtype(found).itemsize, "float64")


class Given:
    """Arguments of a call.

    Attributes:
        given: operands and numbers.
        shape: what they broadcast to.
        common: the dtype of results.
        eps: of what is computed in.
    """

    def __init__(self, case, count, floats):
        shapes, self.shape = shapes_of(case, count)
        names = [case.pick(FLOATS)] * count
        if not floats and case.chance(0.3):
            names = [case.pick([*FLOATS, "int8", "int16", "int32", "int64", "uint8", "bool"]) for _ in range(count)]
        number = case.integer(0, count - 1) if count > 1 and case.chance(0.2) else None
        if number is not None:
            shapes[number - 1] = self.shape
        self.given = [
            case.pick([2, -1, 0.5, 1.75]) if k == number else operand(case, shapes[k], names[k]) for k in range(count)
        ]
        kinds = [type(each) if k == number else names[k] for k, each in enumerate(self.given)]
        self.common = meeting(kinds)
        self.arrays = [each for each in self.given if hasattr(each, "view")]
        self.views = [getattr(each, "view", each) for each in self.given]
        # Kernels of 16 bits have the hardware's exponential.
        self.eps = 2.0**-52 if self.common == "float64" else 2.0**-23 if self.common == "float32" else 2.0**-19

    def elements(self):
        """The arguments of each element, as they are computed with."""
        values = [np.array(each.values) if hasattr(each, "view") else np.asarray(each) for each in self.given]
        rounded = [each.astype(wide(self.common)).astype(np.float64) for each in values]
        return zip(*(each.ravel().tolist() for each in np.broadcast_arrays(*rounded)), strict=True)


def operand(case, shape, name):
    dtype = dtypes.dtype(name)
    if kind(name) == "b":
        values = case.rng.random(shape) < 0.5
    elif kind(name) in "ui":
        values = case.rng.integers(0 if kind(name) == "u" else -4, 5, shape).astype(dtype)
    else:
        values = case.rng.normal(0, 1.5, shape).astype(dtype)
        if case.chance(0.15):
            values = case.rng.choice(np.array([0.0, -0.0, 1.0, -2.0, math.inf, -math.inf, math.nan]), shape).astype(
                dtype
            )
    return case.place.operand(values, **anywhere(case, shape, False))


def call_options(case, drawing):
    """Arguments behind the arrays, and options, as the formula's parameter with a default takes them; and its value."""
    if not drawing.has_option or case.chance(0.4):
        return [], {}, {}
    value = case.pick([0.25, 2.0, -1])
    return ([value], {}, {"s": value}) if case.chance(0.5) else ([], {"s": value}, {"s": value})


# ---------------------------------------------------------------- values


def values(case):
    drawing = Drawing(case)
    ours, pythons = defined(case, drawing)
    made, args = ew.kernel(ours), Given(case, drawing.count, False)
    more, options, theirs = call_options(case, drawing)
    found = computed(pythons, args.elements(), args.eps, drawing.count, **theirs)
    if found is None:
        return
    names = ["bool" if is_truth else args.common for is_truth in drawing.truths]
    outs = None
    if case.chance(0.4):
        outs = [case.place.empty(args.shape, dtypes.dtype(name), **anywhere(case, args.shape, True)) for name in names]
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
        assert (mine.dtype, mine.shape) == (dtypes.dtype(name), args.shape)
        compare(mine, [f and (f[k].value, _SLACK * f[k].off) for f in found], args.eps)
    for each in args.arrays:
        each.assert_untouched()


def compare(mine, wanted, eps):
    """Results, given (what they are, how many roundings they may be off) or None where it is not known."""
    flat, info = mine.ravel(), None if mine.dtype == bool else ml_dtypes.finfo(mine.dtype)
    for k, each in enumerate(wanted):
        if each is None:
            continue
        value, off = each
        got = float(flat[k])
        if info is None:
            assert got == bool(value), f"element {k} is {got}, not {value}"
            continue
        if math.isnan(value) or math.isinf(value):
            right = got == value or (math.isnan(got) and math.isnan(value))
        else:
            allowed = eps * off + float(info.eps) * abs(value) + float(info.smallest_subnormal) + _tiny(eps)
            right = abs(got - value) <= allowed or abs(value) + allowed >= float(info.max)
        assert right, f"element {k} is {got!r}, not {value!r}; {eps * off:.3g} allowed"


def _tiny(eps):
    """What is lost where float32 loses its smallest numbers."""
    return 0.0 if eps < 2.0**-50 else 1e-36


# ---------------------------------------------------------------- gradients


def gradients(case):
    drawing = Drawing(case, smooth=True)
    ours, pythons = defined(case, drawing)
    made, args = ew.kernel(ours), Given(case, drawing.count, True)
    more, options, theirs = call_options(case, drawing)
    found = computed(pythons, args.elements(), args.eps, drawing.count, **theirs)
    if found is None:
        return
    dys = [operand(case, args.shape, args.common) for _ in drawing.truths]
    by, outs = [k for k, each in enumerate(args.given) if hasattr(each, "view")], None
    if case.chance(0.3):
        outs = [case.place.empty(args.given[k].shape, dtypes.dtype(args.common),
                                 **anywhere(case, args.given[k].shape, True)) for k in by]  # fmt: skip
        options["out"] = tuple(out.view for out in outs)
    dy = tuple(each.view for each in dys)
    answer = case.call("backward", made.backward, dy if len(dy) > 1 or case.chance(0.3) else dy[0], *args.views, *more,
                       **options, **case.stream())  # fmt: skip
    case.place.settle()
    assert isinstance(answer, tuple) and len(answer) == len(by)
    seeds = [np.asarray(np.array(each.values), np.float64).ravel() for each in dys]
    for k, each in zip(by, range(len(by)), strict=True):
        mine = np.array(outs[each].now()) if outs else case.place.get(answer[each])
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
        known = [
            (t, _SLOPE_SLACK * s) if math.isfinite(t) and math.isfinite(s) else None
            for t, s in zip(total.tolist(), size.tolist(), strict=True)
        ]
        compare(mine, known, args.eps)
    for each in [*args.arrays, *dys]:
        each.assert_untouched()
    for out in outs or ():
        out.assert_untouched_around()


# ---------------------------------------------------------------- reductions


def reduction(case):
    """A drawn map, merged along axes."""
    drawing = Drawing(case, results=1, option=False, truths=False)
    ours, pythons = defined(case, drawing)
    merge, args = case.pick(["sum", "sum", "max", "min"]), Given(case, drawing.count, True)
    rank = len(args.shape)
    axis = case.pick([None, *([] if rank == 0 else [case.integer(-rank, rank - 1), (0,), (rank - 1,)])])
    axes = tuple(range(rank)) if axis is None else tuple(a % rank for a in np.atleast_1d(axis))
    keep = case.chance(0.3)
    if merge != "sum" and 0 in [args.shape[a] for a in axes]:
        return
    made = ew.reduction(ours, merge=merge)
    found = computed(pythons, args.elements(), args.eps, drawing.count)
    if found is None:
        return
    answer = case.call(f"reduction, {merge}", made, *args.views, axis=axis, keepdims=keep, **case.stream())
    case.place.settle()
    mine = case.place.get(answer)
    terms, offs = (np.array([math.nan if f is None else get(f[0]) for f in found]).reshape(args.shape)
                   for get in (lambda r: r.value, lambda r: r.off + abs(r.value)))  # fmt: skip
    if merge == "sum":
        with np.errstate(all="ignore"):
            total, bound = (each.sum(axes, keepdims=keep) for each in (terms, offs))
    else:
        total, bound = (getattr(each, merge)(axes, keepdims=keep) for each in (terms, terms))
        bound = np.where(np.isnan(terms).any(axes, keepdims=keep), math.nan, offs.max(axes, keepdims=keep))
    name = args.common
    assert (mine.dtype, mine.shape) == (dtypes.dtype(name), total.shape)
    known = [
        (t, _SLACK * b) if math.isfinite(t) and math.isfinite(b) else None
        for t, b in zip(total.ravel().tolist(), bound.ravel().tolist(), strict=True)
    ]
    compare(mine, known, args.eps)
    for each in args.arrays:
        each.assert_untouched()
