"""Fourier transforms: all functions, lengths, axes, norms, dtypes; given results and in place, any strides."""

from __future__ import annotations

import numpy as np
from conftest import bits
from fft_oracle import FLOATS, MANY, NORMS, ONE, OTHERS, scipys, takes, to_real, values, verify

from numbacc import fft

from .operands import anywhere

_PRIMES = (127, 521, 1009)


def run(case):
    case.pick([transform] * 9 + [rearrange])(case)


def transform(case):
    rank = case.pick([1, 2, 2, 3, 3, 4, 5])
    function = case.pick(ONE + MANY)
    if rank == 1 and function.endswith("2"):
        rank = 2
    dtype = case.pick([d for d in (*FLOATS, *FLOATS, *OTHERS) if takes(function, d)])
    shape = case.shape(rank, empty=0)
    if rank == 1 and case.chance(0.1) and not case.place.is_slow:
        shape = (case.pick(_PRIMES),)
    options, axes, n = lengths(case, function, shape)
    if n is None and to_real(function):
        last = axes if isinstance(axes, int) else axes[-1]
        if shape[last] == 1:  # no points
            n = 4 if function in ONE else (4,) * len(axes)
            options["n" if function in ONE else "s"] = n
    norm, overwrite = case.pick(NORMS), case.chance(0.3)
    result = getattr(np.fft, function)(np.zeros(shape, dtype if dtype.kind in "fc" else "f8"), n, axes)
    made = scipys(function, np.zeros((2,) * rank, dtype if dtype.kind in "fc" else "f8"), None, axes, None).dtype
    if dtype.name in ("bfloat16", "float16"):
        made = np.dtype(np.float32 if to_real(function) else np.complex64)
        if to_real(function) and dtype == np.float16 and np.size(axes) == 1:
            made = dtype
    target = case.pick(["fresh", "given", "in place"])
    if target == "in place" and (result.shape != shape or dtype != made):
        target = "given"
    loose = target != "in place" and not overwrite
    layout = anywhere(case, shape, not loose, 0.1 * loose)
    operand = case.place.operand(values(shape, dtype, case.seed_of_values()), **layout)
    x, out, written = np.array(operand.values), None, None
    if target == "given":
        written = case.place.empty(result.shape, made, **anywhere(case, result.shape, True))
        out = written.view
    elif target == "in place":
        written, out = operand, operand.view
    run = getattr(fft, function)
    answer = case.call(
        f"fft.{function}", run, operand.view, **options, norm=norm, out=out, overwrite_input=overwrite, **case.stream()
    )
    case.place.settle()
    if out is not None:
        assert answer is out, "not `out` is returned"
        written.assert_written_only()
        answer = written.ours
    verify(function, case.place.get(answer), x, n, axes, norm)
    if loose:
        operand.assert_untouched()
    else:
        operand.assert_untouched_around()


def lengths(case, function, shape):
    """Options for n or s and axis or axes, and what they stand for."""
    rank = len(shape)
    if function in ONE:
        axis, n = case.integer(-rank, rank - 1), None
        if case.chance(0.4):
            n = case.integer(1, shape[axis] + 3)
        return {"n": n, "axis": axis}, axis, n
    if function.endswith("2"):
        axes = tuple(int(d) for d in case.rng.permutation(rank)[:2]) if case.chance(0.5) else (-2, -1)
    else:
        axes = tuple(int(d) for d in case.rng.permutation(rank)[: case.integer(1, rank)])
    s = tuple(case.integer(1, shape[d] + 3) for d in axes) if case.chance(0.4) else None
    return {"s": s, "axes": axes}, axes, s


def rearrange(case):
    """fftshift and its inverse, and the frequencies: NumPy's, element for element."""
    if case.chance(0.3):
        function, n, d = case.pick(["fftfreq", "rfftfreq"]), case.integer(1, 50), case.pick([1.0, 0.5, 3, -2.0])
        device = None if case.place.is_device else "cpu"
        result = case.call(f"fft.{function}", getattr(fft, function), n, d, device)
        cycles = range(n // 2 + 1) if function == "rfftfreq" else [k if 2 * k < n else k - n for k in range(n)]
        want = np.array(cycles) / (n * d)
        assert case.place.get(result).shape == want.shape
        np.testing.assert_allclose(case.place.get(result), want, rtol=1e-6)
        return
    rank = case.integer(1, 4)
    shape = case.shape(rank)
    function, dtype = case.pick(["fftshift", "ifftshift"]), case.pick([*FLOATS, *OTHERS])
    axes = case.pick([None, case.integer(-rank, rank - 1), tuple(range(case.integer(1, rank)))])
    operand = case.place.operand(values(shape, dtype, case.seed_of_values()), **anywhere(case, shape, False))
    want = getattr(np.fft, function)(np.array(operand.values), axes)
    out = case.place.empty(shape, dtype, **anywhere(case, shape, True)) if case.chance(0.5) else None
    given = {} if out is None else {"out": out.view}
    answer = case.call(f"fft.{function}", getattr(fft, function), operand.view, axes, **given, **case.stream())
    case.place.settle()
    if out is not None:
        assert answer is out.view
        out.assert_untouched_around()
        answer = out.ours
    result = case.place.get(answer)
    assert result.dtype == dtype
    np.testing.assert_array_equal(bits(result), bits(want))
    operand.assert_untouched()
