"""Elementwise functions and their gradients: any dtypes, layouts and broadcasting, numbers beside arrays, fresh
results, given ones and in place, all elements or where a mask holds, by the function or its plan.
"""

from __future__ import annotations

import elementwise_oracle as oracle
import ml_dtypes
import numpy as np
from cast_oracle import assert_same, cast
from conftest import bits
from elementwise_cases import CANCELS, LIMITS, NUMPYS, OPEN, OPTIONS, ROUGH, VANISHES
from elementwise_oracle import GRADIENTS
from oracle import spacing

import numbacc
from numbacc import elementwise as ew
from numbacc.base import dtypes
from numbacc.elementwise.gradients import DIFFERENTIABLE
from numbacc.elementwise.rows import TABLE

from .arguments import NAMES, Drawn, drawn, kind, wide
from .operands import anywhere, neighbours

COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
#: Of complex numbers these are real.
PARTS = {"complex64": "float32", "complex128": "float64"}
#: Ulps in float64: the oracle computes in it, too.
_ULPS = 400


def run(case):
    case.pick([forward] * 6 + [gradient] * 3 + [conversion])(case)


# ---------------------------------------------------------------- results


def expected(name, args, options):
    """The result as exactly as it is known, and its dtype."""
    values, common = args.values, args.common
    result = "bool" if TABLE[name].row.rule == "bool" else common
    if TABLE[name].row.rule in ("real", "angle"):
        result = PARTS.get(common, common)
    integers = all(k in (int, bool) or (isinstance(k, str) and kind(k) in "uib") for k in args.kinds)
    if name in COMPARISONS and integers:
        return getattr(np, name)(*values), "bool"  # exact, whatever they are
    if kind(common) in "uib":
        return oracle.integer(name, dtypes.dtype(common), *values, **options), result
    if kind(common) == "c":
        return oracle.complex_(name, *values, **options), result
    rounded = TABLE[name].row.rounded
    xs = []
    for k, each in enumerate(values):
        is_number = type(each) in (int, float)
        if is_number and rounded:
            each = np.asarray(each).astype(dtypes.dtype(common))
        # Numbers are of the dtype that is computed in, whatever they decide.
        as_computed = is_number or k in args.meeting
        xs.append(np.asarray(each).astype(wide(common)).astype(np.float64) if as_computed else np.asarray(each))
    with np.errstate(all="ignore"):
        if name == "nextafter":
            return oracle.nextafter(common, *xs), result
        if name in ("real", "imag", "conj", "angle"):
            return getattr(np, name)(xs[0]), result
        return oracle.vector(name, *xs, **options), result


def verify(case, name, found, wanted, result, args, where=None):
    """As near as the tests of values ask for; `found` may be stored in a wider kind of dtype, or a narrower one."""
    where = np.ones(wanted.shape, bool) if where is None else np.broadcast_to(where, wanted.shape)
    found, wanted = found[where], wanted[where]
    if kind(found.dtype.name) in "uib" or kind(result) in "uib" or wanted.dtype.kind in "uib":
        np.testing.assert_array_equal(found, wanted.astype(dtypes.dtype(result)).astype(found.dtype))
        return
    names = {result, found.dtype.name}
    if kind(args.common) == "c":
        narrow = "complex64" in names or "float32" in names
        limit = 2e-2 if names & {"float16", "bfloat16"} else 2e-5 if narrow else 1e-12
        np.testing.assert_allclose(found, wanted, rtol=limit, atol=limit)
        return
    found = found.real if found.dtype.kind == "c" else found
    coarse = max((PARTS.get(n, n) for n in names), key=lambda n: float(ml_dtypes.finfo(dtypes.dtype(n)).eps))
    eps = float(ml_dtypes.finfo(dtypes.dtype(coarse)).eps)
    wanted = wanted.astype(np.float64)
    off = oracle.ulps(found, wanted, dtypes.dtype(coarse))
    if coarse == "float64":
        limit = _ULPS
    elif coarse == "float32":
        limit = max(LIMITS.get(name, 2), 0 if case.place.name == "gpu" else NUMPYS.get(name, 0))
        limit += 2 if case.place.is_slow else 0
    else:
        limit = 0.6 if name in LIMITS or name in NUMPYS else 0.51
        limit += 0.5 if len(names) > 1 else 0
    wrong = off > limit
    values = [np.broadcast_to(np.asarray(x, np.float64), where.shape)[where] for x in args.values]
    size = np.maximum.reduce([np.abs(x) for x in values]) if values else 1
    with np.errstate(all="ignore"):
        error = np.abs(found.astype(np.float64) - wanted)
        if name in CANCELS:
            near = error <= CANCELS[name] * eps * np.maximum(size, 1)
            wrong &= ~near & (size < float(ml_dtypes.finfo(dtypes.dtype(coarse)).max) / 4) & np.isfinite(wanted)
        if coarse == "float64":  # where terms cancel
            wrong &= ~(error <= 1e-13 * np.maximum(size, 1) ** len(values))
        if name in VANISHES:
            wrong &= ~(error < VANISHES[name])
        if len(names) > 1:  # a wider array has what the narrower dtype has not
            wrong &= np.abs(wanted) < float(ml_dtypes.finfo(dtypes.dtype(coarse)).max)
    k = int(np.argmax(np.where(wrong, off, 0))) if wrong.size else 0
    assert not wrong.any(), f"{off[k]} ulp at {[x[k] for x in values]}: {found[k]}, not {wanted[k]}"


def is_stored(result, out):
    """What NumPy's casting="same_kind" takes; beside bfloat16 not float16, which is narrower in one way or another."""
    pair = ["float32" if name == "bfloat16" else name for name in (result, out)]
    return np.can_cast(*pair, "same_kind") and {result, out} != {"float16", "bfloat16"}


def mask_of(case, shape):
    """A mask that broadcasts, as an operand."""
    own = tuple(1 if case.chance(0.3) else n for n in shape)
    own = own[case.integer(0, len(own)) if case.chance(0.3) else 0 :]
    return case.place.operand(case.rng.random(own) < 0.6, **anywhere(case, own, False, 0.1))


def options_of(case, name):
    """Options of a call, and by the oracle's names."""
    given = dict(TABLE[name].options)
    if given and case.chance(0.5):
        given = {key: case.pick([0.5, 1.0, 2.0]) if abs(v) < 10 else v for key, v in given.items()}
        if name == "hardtanh":
            given = {"min_val": -0.5, "max_val": 2.0}
    return given, {OPTIONS.get(key, key): v for key, v in given.items()}


# ---------------------------------------------------------------- calls


def planned(name):
    """The function, by way of its plan."""

    def function(*arguments, stream=None, **options):
        given = {key: value for key, value in options.items() if key in ("out", "where")}
        plan = getattr(ew, name).plan(*arguments, **options)
        numbers = [value for key, value in options.items() if key not in given]
        return plan(*arguments, *numbers, **given, stream=stream)

    return function


def function_of(case, name, args):
    # The plan of `where` is for conditions of bool.
    has_plan = name != "where" or args.kinds[0] in ("bool", bool)
    return planned(name) if has_plan and case.chance(0.2) else getattr(ew, name)


def forward(case):
    name = case.pick(TABLE)
    target = case.pick(["fresh", "fresh", "given", "given", "in place"])
    args = Drawn(case, name, target == "in place")
    given, theirs = options_of(case, name)
    options, function = {**given, **case.stream()}, function_of(case, name, args)
    if kind(args.common) not in TABLE[name].row.meanings and not is_mixed(name, args):
        refused(case, numbacc.DTypeError, name, function, args, options)
        return
    if kind(args.common) in "ui" and not float(given.get("value", 1)).is_integer():
        refused(case, numbacc.OptionError, name, function, args, options)
        return
    if wide(args.common) == np.float32:
        theirs = {key: float(np.float32(value)) for key, value in theirs.items()}
    wanted, result = expected(name, args, theirs)
    if target == "fresh":
        found = case.call(f"elementwise.{name}", function, *args.views, **options)
        case.place.settle()
        found = case.place.get(found)
        assert (found.dtype, found.shape) == (dtypes.dtype(result), args.shape), (found.dtype, found.shape)
        verify(case, name, found, wanted, result, args)
        untouched(args)
        return
    into(case, name, function, args, options, wanted, result, target)


def is_mixed(name, args):
    """Signed integers compared with unsigned ones of 64 bits."""
    return name in COMPARISONS and sorted(kind(k) for k in args.kinds if isinstance(k, str)) == ["i", "u"]


def refused(case, error, name, function, args, options):
    try:
        case.call(f"elementwise.{name}", function, *args.views, **options)
    except error as refusal:
        case.refused(refusal)
        untouched(args)
    else:
        raise AssertionError(f"{name} of {args.kinds} was taken")


def into(case, name, function, args, options, wanted, result, target):
    """Into an array that is there, all of it or where a mask holds."""
    out = args.target
    if target == "given":
        stored = case.pick([n for n in NAMES if is_stored(result, n)]) if case.chance(0.3) else result
        old = case.rng.integers(0, 100, args.shape).astype(dtypes.dtype(stored))
        out = case.place.operand(old, **anywhere(case, args.shape, True))
    options["out"] = out.view
    if not is_stored(result, out.values.dtype.name):
        if "bfloat16" not in (result, out.values.dtype.name):
            refused(case, numbacc.DTypeError, name, function, args, options)
        return
    mask = mask_of(case, args.shape) if case.chance(0.3) else None
    if mask is not None:
        options["where"] = mask.view
    old = np.array(out.values)
    answer = case.call(f"elementwise.{name}", function, *args.views, **options)
    case.place.settle()
    assert answer is out.view
    now, truth = np.array(out.now()), None if mask is None else np.broadcast_to(mask.values, args.shape)
    with np.errstate(all="ignore"):
        verify(case, name, now, wanted, result, args, truth)
    if truth is not None:
        np.testing.assert_array_equal(bits(now)[~truth], bits(old)[~truth])
        mask.assert_untouched()
    out.assert_untouched_around()
    untouched(args, out)


def untouched(args, *written):
    for operand in args.arrays:
        if operand not in written:
            operand.assert_untouched()


# ---------------------------------------------------------------- gradients


def gradient(case):
    """Of floats of one dtype; summed where an argument was repeated."""
    name = case.pick(DIFFERENTIABLE)
    args = Drawn(case, name, False, floats=True)
    given, theirs = options_of(case, name)
    common = args.common
    if wide(common) == np.float32:
        theirs = {key: float(np.float32(value)) for key, value in theirs.items()}
    dy = case.place.operand((2 * case.rng.standard_normal(args.shape)).astype(dtypes.dtype(common)),
                            **anywhere(case, args.shape, False))  # fmt: skip
    by = [k for k, each in enumerate(args.given) if k in args.meeting and hasattr(each, "view")]
    options, outs = {**given, **case.stream()}, None
    if case.where.chance(0.3):
        outs = neighbours(case, [args.given[k].shape for k in by], dtypes.dtype(common))
        options["out"] = outs[0].view if len(outs) == 1 else tuple(o.view for o in outs)
    function = getattr(ew, f"{name}_backward")
    found = case.call(f"elementwise.{name}_backward", function, dy.view, *args.views, **options)
    case.place.settle()
    found = [np.array(o.now()) for o in outs] if outs else found if isinstance(found, tuple) else (found,)
    wide_values = [np.asarray(x).astype(wide(common)).astype(np.float64) for x in args.values]
    with np.errstate(all="ignore"):
        slopes = [s for s in GRADIENTS[name](*wide_values, **theirs) if s is not None]
        xs = np.broadcast_arrays(*(x for x, g in zip(wide_values, args.given, strict=True) if hasattr(g, "view")))
        open_ = np.broadcast_to(OPEN[name](*xs) if name in OPEN else False, args.shape)
        open_ = np.logical_or.reduce([open_, *map(np.isnan, xs)])
    assert len(found) == len(by)
    for k, mine, slope in zip(by, found, slopes, strict=False):
        mine = mine if outs else case.place.get(mine)
        assert (mine.dtype, mine.shape) == (dtypes.dtype(common), args.given[k].shape)
        compare(name, mine, np.asarray(dy.values, np.float64), np.broadcast_to(slope, args.shape), open_, common)
    for operand in [*args.arrays, dy]:
        operand.assert_untouched()
    for operand in outs or ():
        operand.assert_untouched_around()


def compare(name, mine, dy, slope, open_, common):
    """Within some roundings of what is computed in of each term, and one of the result's dtype."""
    eps = float(ml_dtypes.finfo(wide(common)).eps)
    with np.errstate(all="ignore"):
        terms = dy * slope
        # Slopes that pass 0 are off by some roundings of what they are a difference of.
        size = np.abs(terms) + np.abs(dy)
        skip = open_ | ~np.isfinite(terms) | (np.abs(slope) > 1e5)
        ways = tuple(d for d in range(dy.ndim) if d < dy.ndim - mine.ndim or mine.shape[d - dy.ndim + mine.ndim] == 1)
        total, bound = (a.sum(ways).reshape(mine.shape) for a in (terms, size))
        left_out = skip.any(ways).reshape(mine.shape)
        allowed = (ROUGH.get(name, 8) + 16) * eps * bound + 2 * spacing(total, mine.dtype)
        if mine.dtype.itemsize == 2:  # kernels of 16 bits have the hardware's exponential
            allowed += 2e-5 * bound
        error = np.abs(mine.astype(np.float64) - total)
        limit = float(ml_dtypes.finfo(dtypes.dtype(common)).max) / 2
        wrong = ~(error <= allowed) & ~left_out & (np.abs(total) < limit)
    assert not wrong.any(), f"{mine[wrong][:3]}, not {total[wrong][:3]}; {allowed[wrong][:3]} allowed"


# ---------------------------------------------------------------- conversions


def conversion(case):
    """astype and copy, to the bit."""
    source, target = case.pick(dtypes.TABLE), case.pick(dtypes.TABLE)
    shape = case.shape(case.pick([0, 1, 2, 3]), {1: 60, 2: 8, 3: 4}.get(1))
    shape = tuple(min(n, 8) for n in shape)
    if kind(source) == "c" or kind(target) == "c":
        source = target = case.pick(["complex64", "complex128"])
    values = drawn(case, shape, source, "astype", source)
    x = case.place.operand(values, **anywhere(case, shape, False))
    copied = source == target
    if copied:
        found = case.call("elementwise.copy", ew.copy, x.view, **case.stream())
    else:
        found = case.call("elementwise.astype", ew.astype, x.view, target, **case.stream())
    case.place.settle()
    found = case.place.get(found)
    if copied:
        np.testing.assert_array_equal(bits(found), bits(np.array(x.values)))
    else:
        assert_same(found, cast(np.array(x.values), target))
    x.assert_untouched()
