"""float16 and bfloat16 in compiled code, bit by bit against NumPy and ml_dtypes."""

import math
from fractions import Fraction

import ml_dtypes
import numba
import numpy as np
import pytest
from numba import njit, types

from numbacc.simulator.compiled import half
from numbacc.simulator.compiled.functions import FUNCTIONS

DTYPES = pytest.mark.parametrize("dtype", (np.float16, ml_dtypes.bfloat16), ids=("float16", "bfloat16"))
OPTIONS = {"error_model": "numpy", "fastmath": {"contract"}}  # as kernels have them


def call(function, *arguments):
    given = tuple(map(half.argument, arguments))
    return njit(function, **OPTIONS).compile(tuple(map(numba.typeof, given)))(*given)


def every(dtype):
    """Return all values of a type."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype)


def shuffled(dtype, seed):
    return every(dtype)[np.random.default_rng(seed).permutation(1 << 16)]


def same(found, answer):
    """Assert equal bits; any NaN equals any other."""
    found, answer = np.asarray(found), np.asarray(answer)
    assert found.dtype == answer.dtype
    wide = found.astype(np.float64), answer.astype(np.float64)
    equal = (found.view(np.uint16) == answer.view(np.uint16)) | (np.isnan(wide[0]) & np.isnan(wide[1]))
    assert equal.all(), (found[~equal][:5], answer[~equal][:5], np.flatnonzero(~equal)[:5])


@DTYPES
def test_arithmetic_of_all_values(dtype):
    a, b = every(dtype), shuffled(dtype, 1)
    out = np.full((7, a.size), 77, dtype)

    def run(a, b, out):
        for i in range(a.size):
            out[0, i] = a[i] + b[i]
            out[1, i] = a[i] - b[i]
            out[2, i] = a[i] * b[i]
            out[3, i] = a[i] / b[i]
            out[4, i] = a[i] * b[i] + a[i]  # rounded twice, also under contraction
            out[5, i] = -a[i]
            out[6, i] = abs(a[i])

    call(run, a, b, out)
    with np.errstate(all="ignore"):
        for found, answer in zip(out, (a + b, a - b, a * b, a / b, a * b + a, -a, np.abs(a)), strict=True):
            same(found, answer)


@DTYPES
def test_comparisons_and_extremes(dtype):
    a, b = shuffled(dtype, 2), shuffled(dtype, 3)
    b[::9] = a[::9]
    holds, out = np.full((7, a.size), 9, np.int8), np.full((2, a.size), 77, dtype)

    def run(a, b, holds, out):
        for i in range(a.size):
            holds[0, i] = a[i] < b[i]
            holds[1, i] = a[i] <= b[i]
            holds[2, i] = a[i] > b[i]
            holds[3, i] = a[i] >= b[i]
            holds[4, i] = a[i] == b[i]
            holds[5, i] = a[i] != b[i]
            holds[6, i] = 1 if a[i] else 0
            out[0, i] = max(a[i], b[i])
            out[1, i] = min(a[i], b[i])

    call(run, a, b, holds, out)
    with np.errstate(invalid="ignore"):
        for found, answer in zip(holds, (a < b, a <= b, a > b, a >= b, a == b, a != b, a != 0), strict=True):
            np.testing.assert_array_equal(found, answer)
        wide = a.astype(np.float32), b.astype(np.float32)
        same(out[0], extreme(np.maximum, *wide, dtype))
        same(out[1], extreme(np.minimum, *wide, dtype))


def extreme(choose, a, b, dtype):
    """Return the larger or smaller of two numbers; a number wins over NaN (np.fmax gives NaN for some)."""
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, choose(a, b))).astype(dtype)


def nearest(exact, dtype):
    """Return the nearest value of a type to a fraction: the even one of two."""
    guess = np.array(float(exact)).astype(dtype)
    bits = int(guess.view(np.uint16))
    around = np.array([max(bits - 1, 0), bits, bits + 1], np.uint16).view(dtype)
    around = [v for v in around if np.isfinite(float(v))]
    return min(around, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.uint16)) & 1))


@DTYPES
def test_conversions(dtype):
    rng = np.random.default_rng(4)
    x = every(dtype)
    finite = x[np.isfinite(x.astype(np.float32))].astype(np.float64)
    middles = (finite[:-1] + finite[1:]) / 2  # ties, and values that double rounding gets wrong
    doubles = np.concatenate([middles, middles * (1 + 2.0**-40), middles * (1 - 2.0**-40), [1e300, -1e300, 1e-310]])
    floats = np.concatenate([middles.astype(np.float32), rng.standard_normal(500).astype(np.float32), [np.inf, np.nan]])
    whole = np.array([0, 1, -1, 257, 2049, 65504, 65520, 2**31, -(2**40) - 1], np.int64)

    def run(x, wide, doubles, from_double, floats, from_float, whole, from_whole):
        for i in range(x.size):
            wide[i] = x[i]
        for i in range(doubles.size):
            from_double[i] = doubles[i]
        for i in range(floats.size):
            from_float[i] = floats[i]
        for i in range(whole.size):
            from_whole[i] = whole[i]

    wide = np.full(x.size, 5, np.float32)
    outs = [np.full(v.size, 77, dtype) for v in (doubles, floats, whole)]
    call(run, x, wide, doubles, outs[0], floats, outs[1], whole, outs[2])
    np.testing.assert_array_equal(wide, x.astype(np.float32))
    with np.errstate(over="ignore"):
        same(outs[1], floats.astype(dtype))
        if dtype is np.float16:  # ml_dtypes goes from float64 by way of float32
            same(outs[0], doubles.astype(dtype))
            same(outs[2], whole.astype(dtype))
    chosen = np.flatnonzero(np.abs(doubles) < 60000)[:: doubles.size // 700]
    same(outs[0][chosen], np.array([nearest(Fraction(float(doubles[k])), dtype) for k in chosen], dtype))


@DTYPES
def test_promotion_is_that_of_numba_cuda(dtype):
    """The types are those that cuda.compile returns for float16 and an operand."""
    kind = half.kind_of(np.dtype(dtype))
    for other, answer in (
        (kind, kind), (types.float32, types.float32), (types.float64, types.float64), (types.int64, types.float64),
        (types.int32, types.float64), (types.uint8, types.float32), (types.boolean, kind),
        (types.literal(1), types.float64),
    ):  # fmt: skip
        assert half.promoted(kind, other) == half.promoted(other, kind) == answer
    a, out = np.full(1, 0.1, dtype), np.full(6, -9.0)

    def run(a, f, out):
        out[0] = a[0] * f
        out[1] = a[0] + 1
        out[2] = a[0] * 0.1
        out[3] = 3 - a[0]
        out[4] = a[0] ** 2
        out[5] = int(a[0] * 0 + 2.5)

    call(run, a, np.float32(1.1), out)
    value = float(a[0])
    assert out[0] == np.float32(value) * np.float32(1.1)
    assert out[1:4].tolist() == [value + 1, value * 0.1, 3 - value]
    assert out[4] == pytest.approx(value**2, rel=1e-6) and out[5] == 2


@DTYPES
def test_functions(dtype):
    x = np.abs(shuffled(dtype, 5)[:2000])
    names = ("sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tanh", "floor", "ceil", "trunc")
    lines = "\n".join(f"        out[{k}, i] = math.{n}(x[i])" for k, n in enumerate(names))
    space = {"math": math}
    exec(f"def run(x, out):\n    for i in range(x.size):\n{lines}", space)
    out = np.full((len(names), x.size), 77, dtype)
    call(space["run"], x, out)
    with np.errstate(all="ignore"):
        for found, name in zip(out, names, strict=True):
            answer = getattr(np, name)(x.astype(np.float64)).astype(dtype)
            if name in ("sqrt", "floor", "ceil", "trunc"):
                same(found, answer)
            else:
                eps = float(ml_dtypes.finfo(dtype).eps)
                big = x.astype(np.float32) > 1e4  # the reduction of angles in float32
                pair = [v.astype(np.float64)[~big] for v in (found, answer)]
                np.testing.assert_allclose(*pair, rtol=eps, atol=float(ml_dtypes.finfo(dtype).smallest_subnormal))


@pytest.mark.sampled(1)
@DTYPES
def test_names_of_fp16_and_bf16(dtype):
    a, b, c = (shuffled(dtype, k)[:3000] for k in (6, 7, 8))
    names = ("hadd", "hmul", "hdiv", "hmax", "hmin")
    prefix = "cuda.fp16" if dtype is np.float16 else "cuda.bf16"
    space = {n: FUNCTIONS[f"{prefix}.{n}"] for n in (*names, "hfma", "hneg", "hrint", "hrcp", "hisnan", "hexp2")}
    lines = [f"out[{k}, i] = {n}(a[i], b[i])" for k, n in enumerate(names)]
    lines += ["out[5, i] = hfma(a[i], b[i], c[i])", "out[6, i] = hneg(a[i])", "out[7, i] = hrint(a[i])"]
    lines += ["out[8, i] = hrcp(a[i])", "out[9, i] = 1 if hisnan(a[i]) else 0", "out[10, i] = hexp2(a[i])"]
    exec("def run(a, b, c, out):\n    for i in range(a.size):\n        " + "\n        ".join(lines), space)
    out = np.full((11, a.size), 77, dtype)
    call(space["run"], a, b, c, out)
    with np.errstate(all="ignore"):
        wide = [v.astype(np.float32) for v in (a, b)]
        answers = (a + b, a * b, a / b, extreme(np.maximum, *wide, dtype), extreme(np.minimum, *wide, dtype))
        for found, answer in zip(out, answers, strict=False):
            same(found, answer)
        same(out[6], -a)
        same(out[7], np.rint(wide[0]).astype(dtype))
        same(out[9], np.isnan(wide[0]).astype(dtype))
    for k in range(a.size):
        parts = [float(v[k]) for v in (a, b, c)]
        if all(map(math.isfinite, parts)):
            exact = Fraction(parts[0]) * Fraction(parts[1]) + Fraction(parts[2])
            if 0 < abs(exact) < Fraction(60000):
                assert out[5, k] == nearest(exact, dtype)


@DTYPES
def test_scalars_and_arrays_that_code_makes(dtype):
    made, made_type = half.constructor(dtype), half.as_dtype(np.dtype(dtype))
    assert half.kind_of(np.dtype(np.float32)) is None and half.constructor(np.float32) is None

    def run(s, out):
        a = np.zeros(4, made_type)
        a[1] = s
        a[2] += made(0.1) + s
        a[3] = a[1] if a[2] > a[1] else 5.0
        for i in range(4):
            out[i] = a[i]

    out, s = np.full(4, 77, dtype), dtype(1.3)
    call(run, s, out)
    same(out, np.array([0, s, dtype(0.1) + s, s], dtype))


def test_other_arguments_stay():
    for value in (1, 2.0, np.float32(3), np.ones(3), np.zeros(2, np.uint16)):
        assert half.argument(value) is value
