"""Convolutions and their gradients: geometry, dtypes, what follows, results fresh and given, by functions and plans."""

from __future__ import annotations

import math
from contextlib import contextmanager
from unittest import mock

import conv_oracle
import numpy as np
from conv_call import LIBRARY_ERROR, shape_of_gradient, taken
from conv_oracle import ACTIVATIONS, DIRECTIONS, FLOATS, INT8, LAYOUTS, Case, Inputs

from numbacc import conv

from .operands import anywhere, assert_written


def run(case):
    drawn = geometry(case)
    values = conv_oracle.inputs(drawn)
    overflows = drawn.dtype == np.float16 and is_plain(drawn) and case.chance(0.1)
    if overflows:
        case.note("values of some hundred: sums beyond float16's range")
        values = values._replace(first=values.first * np.float16(150), second=values.second * np.float16(150))
    operands = [case.place.operand(array, **anywhere(case, array.shape, False)) for array in values[:2]]
    bias = None
    if drawn.biased:
        bias = case.place.operand(values.bias, **anywhere(case, values.bias.shape, False))
    out = None
    if drawn.beta:
        out = case.place.operand(values.before, **anywhere(case, drawn.result_shape, True))
    elif case.where.chance(0.4):
        out = case.place.empty(drawn.result_shape, drawn.out_dtype, **anywhere(case, drawn.result_shape, True))
    options = options_of(case, drawn)
    if bias is not None:
        options["bias"] = bias.view
    if out is not None:
        options["out"] = out.view
    answer, composed = called(case, drawn, [operand.view for operand in operands], options)
    case.place.settle()
    if out is not None:
        assert answer is out.view, "not `out` is returned"
        out.assert_untouched_around()
        answer = out.ours
    given = Inputs(*(np.array(operand.values) for operand in operands), bias and np.array(bias.values), values.before)
    on_library = case.place.name == "gpu" and drawn.activation not in (None, "relu")
    result = np.array(case.place.get(answer))
    assert_written(result)
    if overflows:
        assert_overflow(drawn, given, result)
    else:
        with mock.patch.object(conv_oracle, "sums", sums), told_apart(drawn):
            conv_oracle.assert_right(
                drawn, given, result, compute=options.get("compute"), composed=composed,
                slack=LIBRARY_ERROR if on_library else 0.0, in_any_order=case.place.is_device,
            )  # fmt: skip
    for operand in (*operands, *([bias] if bias else [])):
        operand.assert_untouched()


def is_plain(drawn):
    """Whether nothing follows the sums: a rounding between could overflow where the result does not."""
    return drawn.alpha == 1 and drawn.beta == 0 and not drawn.biased and drawn.activation is None


def assert_overflow(drawn, given, result):
    """Sums beyond the range are infinite, and others are near what they must be."""
    exact, size = (
        sums(drawn, *(change(np.asarray(a, np.float64)) for a in given[:2])) for change in (np.array, np.abs)
    )
    found, beyond, inside = result.astype(np.float64), np.abs(exact) > 66000, np.abs(exact) < 65000
    wrong = beyond & ~(np.isinf(found) & (np.sign(found) == np.sign(exact)))
    assert not wrong.any(), (
        f"{drawn.direction}: {wrong.sum()} sums of {wrong.size} overflow and are not infinite: "
        + str(list(zip(found[wrong][:3], exact[wrong][:3], strict=True)))
    )
    off = np.abs(found - exact)[inside] > 2e-3 * np.abs(exact)[inside] + 1e-5 * size[inside]
    assert not off.any(), f"{drawn.direction}: {off.sum()} of {off.size} large sums are wrong"


@contextmanager
def told_apart(drawn):
    """Failures are alike where direction, layout and dtype are."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{drawn.direction} of {drawn.dtype} as {drawn.layout} is wrong: {error}") from None


def called(case, drawn, views, options):
    """(what a function or its plan returns, whether a kernel of ours may have rounded, too)."""
    shape = shape_of_gradient(drawn)
    name = drawn.direction
    plan = getattr(conv, name).plan
    if case.chance(0.75):
        answer = case.call(f"conv.{name}", getattr(conv, name), *views, *shape, **options, **case.stream())
        found = plan(*views, *shape, **options)
    else:
        found = case.call(f"conv.{name}.plan", plan, *views, *shape, **options)
        more = [options["bias"]] if "bias" in options else []
        given = {"out": options["out"]} if "out" in options else {}
        answer = found(*views, *more, **given, **case.stream())
    case.note(f"plan: {found.info}")
    return answer, case.place.is_device and "kernel" in found.info.backend


def options_of(case, drawn):
    """Keywords of the function, but for arrays."""
    options = {**drawn.geometry, "alpha": drawn.alpha, "beta": drawn.beta}
    if drawn.direction == "forward":
        options["activation"] = drawn.activation
        if drawn.out_dtype != drawn.dtype:
            options["out_dtype"] = drawn.out_dtype
    if case.chance(0.25):
        options["deterministic"] = True
    if case.chance(0.05):
        options["tune"] = True
    if case.chance(0.1):
        options["workspace_limit"] = case.pick([1 << 20, 1 << 25])
    if drawn.dtype == FLOATS[0] and case.chance(0.2):
        options["compute"] = "tf32"
    return options


def geometry(case):
    """A convolution that is one."""
    layout = case.pick(LAYOUTS)
    count = len(layout) - 2
    dtype = case.pick([*FLOATS, *FLOATS, INT8])
    direction = "forward" if dtype == INT8 else case.pick(DIRECTIONS)
    is_large = not case.place.is_slow and case.chance(0.5 if case.place.name == "gpu" else 0.05)
    longest = {1: 12, 2: 6, 3: 3}[count] if case.place.is_slow else {1: 40, 2: 12, 3: 6}[count]
    if is_large:
        longest = {1: 3000, 2: 60, 3: 20}[count]
    taps = tuple(
        case.integer(1, {1: 25 if is_large else 7, 2: 7 if is_large else 4, 3: 3}[count]) for _ in range(count)
    )
    apart = tuple(case.integer(1, 3) for _ in range(count)) if case.chance(0.3) else 1
    stride = tuple(case.integer(1, 3) for _ in range(count)) if case.chance(0.4) else case.integer(1, 2)
    steps = apart if isinstance(apart, tuple) else (apart,) * count
    reach = [1 + (r - 1) * d for r, d in zip(taps, steps, strict=True)]
    wide = case.chance(0.3)  # with windows that see nothing but zeros
    sides = tuple(tuple(case.integer(0, r + 2 if wide else 3) for _ in range(2)) for r in reach)
    padding = case.pick(["same", "valid", 0, 1, 2, sides, sides])
    groups, channels, filters = channels_of(case, is_large)
    lengths = tuple(n + case.integer(0, longest) for n in reach)
    batch = 0 if case.chance(0.05) else case.integer(1, 16 if is_large else 3)
    if is_large:
        batch, lengths = within_reason(batch, lengths, reach, groups * channels * filters * math.prod(taps), dtype)
    is_forward = direction == "forward"
    return taken(
        Case(
            direction=direction,
            layout=layout,
            batch=batch,
            groups=groups,
            channels=channels,
            filters=filters,
            lengths=lengths,
            taps=taps,
            stride=stride,
            padding=padding,
            dilation=apart,
            flip=case.chance(0.2),
            dtype=dtype,
            out_dtype=np.dtype(case.pick(["int32", "float32"])) if dtype == INT8 else dtype,
            alpha=case.pick([1.0, 1.0, 1.0, 0.5, -2.0, 0.0]),
            beta=case.pick([0.0, 0.0, 1.0, -0.5]),
            activation=case.pick([None, *ACTIVATIONS]) if is_forward else None,
            biased=is_forward and case.chance(0.5),
            seed=case.seed_of_values(),
        )
    )


def channels_of(case, is_large):
    """Groups, and the channels and filters of each: few, many, or depthwise."""
    if case.chance(0.2):
        return case.pick([1, 3, 8, 17, 64] if is_large else [1, 2, 3, 8]), 1, case.pick([1, 1, 2])
    if is_large and case.chance(0.6):
        many = [8, 12, 16, 17, 32, 48, 64, 128]
        return case.pick([1, 1, 1, 2, 4]), case.pick(many), case.pick(many)
    return case.pick([1, 1, 1, 2, 3]), case.integer(1, 8), case.integer(1, 8)


def within_reason(batch, lengths, least, each, dtype):
    """Batch and lengths, made less until the oracle has few products to add."""
    most = 2e6 if dtype == np.float64 else 3e7
    while batch * math.prod(lengths) * each > most:
        if batch > 1:
            batch -= batch // 2
            continue
        longest = max(range(len(lengths)), key=lambda d: lengths[d] - least[d])
        if lengths[longest] <= least[longest]:
            break
        lengths = tuple(max(n // 2, least[d]) if d == longest else n for d, n in enumerate(lengths))
    return batch, lengths


# ---------------------------------------------------------------- large sums


def sums(drawn, first, second):
    """As `conv_oracle.sums`, which takes long where channels are many."""
    is_small = drawn.batch * drawn.groups * drawn.channels * drawn.filters < 500
    return (_SUMS if is_small else by_taps)(drawn, first, second)


def by_taps(drawn, first, second):
    """The sums as one product of matrices for each tap."""
    last = drawn.layout.endswith("C")
    first, second = (np.moveaxis(a, -1, 1) if last else a for a in (first, second))
    n, g, c, k = drawn.batch, drawn.groups, drawn.channels, drawn.filters
    pixels, taps = math.prod(drawn.places), list(np.ndindex(*drawn.taps))
    inside = (..., *(slice(b, b + m) for (b, _), m in zip(drawn.zeros, drawn.lengths, strict=True)))
    whole = np.zeros((n, g * c, *drawn.padded), first.dtype)
    axes = range(2, first.ndim)
    if drawn.direction != "backward_data":
        whole[inside] = first

    def met(tap):
        """The part of the padded input that a tap sees."""
        ways = zip(tap, drawn.apart, drawn.places, drawn.steps, strict=True)
        return (..., *(slice(t * d, t * d + (p - 1) * s + 1, s) for t, d, p, s in ways))

    if drawn.direction == "backward_filter":
        slopes, found = second.reshape(n, g, k, pixels), np.zeros((g * k, c, *drawn.taps), first.dtype)
        for tap in taps:
            seen = whole[met(tap)].reshape(n, g, c, pixels)
            found[(..., *tap)] = (slopes @ seen.swapaxes(-1, -2)).sum(0).reshape(g * k, c)
        found = np.flip(found, axes) if drawn.flip else found
        return np.moveaxis(found, 1, -1) if last else found
    weights = np.flip(second, axes) if drawn.flip else second
    found = np.zeros((n, g, k, pixels), first.dtype)
    for tap in taps:
        matrix = weights[(..., *tap)].reshape(g, k, c)
        if drawn.direction == "forward":
            found += matrix @ whole[met(tap)].reshape(n, g, c, pixels)
        else:
            part = matrix.swapaxes(-1, -2) @ first.reshape(n, g, k, pixels)
            whole[met(tap)] += part.reshape(n, g * c, *drawn.places)
    found = found.reshape(n, g * k, *drawn.places) if drawn.direction == "forward" else whole[inside]
    return np.moveaxis(found, 1, -1) if last else found


_SUMS = conv_oracle.sums
