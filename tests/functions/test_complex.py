"""Functions of complex numbers: the special cases of the array API standard, and errors of each part in ulp."""

from __future__ import annotations

import math

import complex_oracle as oracle
import numpy as np
import pytest

from numbacc import elementwise

DTYPES = (np.complex64, np.complex128)
#: Errors of a part in ulp that functions may have.
LIMITS = {"tan": 5, "tanh": 5}
#: Functions with a small real part that is the difference of two terms. It counts in units of the imaginary part.
CANCELS = {"expm1"}


def part_of(dtype):
    return np.finfo(dtype).dtype.type


def edges(dtype):
    """Finite parts: the ends of the dtype, and numbers near branch points."""
    real, limits = part_of(dtype), np.finfo(dtype)
    top, epsilon = float(limits.max), float(limits.eps)
    log = math.log(top)
    found = [0.0, float(limits.smallest_subnormal), float(limits.smallest_normal), 1e-20, epsilon, 0.5, 0.8, 1.0]
    found += [1 - epsilon / 2, 1 + epsilon, math.pi / 2, 3.0, 12.0, 100.0, log - 0.01, log + 0.2, log + 30, 2.1 * log]
    return [float(real(each)) for each in (*found, math.sqrt(top), top / 8, top / 2, top)]


def points(name, dtype):
    """Pairs of edges, numbers near ±1 and the unit circles about 0 and -1, and any; signs in turn."""
    parts, rng, real = edges(dtype), np.random.default_rng(3), part_of(dtype)
    pairs = [(a, b) for k, a in enumerate(parts) for m, b in enumerate(parts) if (7 * k + 3 * m + len(name)) % 13 == 0]
    turns = rng.uniform(0, 2 * math.pi, (8, 1))
    near = np.concatenate([1 + 10 ** rng.uniform(-6, -1, (8, 1)), 10 ** rng.uniform(-12, -1, (8, 1))], 1)
    circle = np.concatenate([np.cos(turns), np.sin(turns)], 1)
    some = np.concatenate([circle, circle - [1, 0], near, rng.normal(0, 2, (8, 2))]).astype(real)
    pairs += [(float(a), float(b)) for a, b in some]
    if name == "exp2":
        # b ln 2 has two parts, so it is known to twice the precision.
        pairs = [(a, b if abs(b) < 1e5 else 1.5) for a, b in pairs]
    return [((1, -1, 1, -1)[k % 4] * a, (1, 1, -1, -1)[k % 4] * b) for k, (a, b) in enumerate(pairs)]


def numbers(pairs, dtype):
    z = np.empty(len(pairs), dtype)
    z.real, z.imag = zip(*pairs, strict=True)
    return z


def computed(place, name, z):
    out = place.put(np.full_like(z, complex(-7, 7)))
    getattr(elementwise, name)(place.put(z), out=out)
    return place.get(out)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", oracle.NAMES)
def test_special_cases(place, name, dtype):
    large = 100.0 if name == "exp2" else float(np.finfo(dtype).max)
    positive = [float(np.finfo(dtype).smallest_subnormal), 0.5, 1.0, 2.0, 4.0, large]
    cases = oracle.specials(name, positive)
    z = numbers([x for x, _ in cases], dtype)
    tolerance = 4 * float(np.finfo(dtype).eps)
    wrong = [
        f"{name}({x}) is {y}, not {wanted}"
        for x, y, (_, wanted) in zip(z, computed(place, name, z), cases, strict=True)
        if not all(oracle.is_special(float(p), w, tolerance) for p, w in zip((y.real, y.imag), wanted, strict=True))
    ]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(cases)}", *wrong[:8]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", oracle.NAMES)
def test_errors_of_both_parts(place, name, dtype):
    pairs, real = points(name, dtype), part_of(dtype)
    z, wrong = numbers(pairs, dtype), []
    for x, y, (a, b) in zip(z, computed(place, name, z), pairs, strict=True):
        wanted = oracle.exact(name, a, b)
        off = [oracle.ulps(float(p), w, real) for p, w in zip((y.real, y.imag), wanted, strict=True)]
        if name in CANCELS:
            one, other = (abs(float(part)) for part in wanted)
            if one < other < 1:
                off[0] = abs(float(y.real) - float(wanted[0])) / (other * float(np.finfo(real).eps))
        if max(off) > LIMITS.get(name, 4):
            wrong.append(f"{off} ulp: {name}({x}) is {y}, not {tuple(map(float, wanted))}")
    assert not wrong, "\n".join([f"{len(wrong)} of {len(pairs)}", *wrong[:8]])


@pytest.mark.parametrize("dtype", DTYPES)
def test_signs_of_tiny_and_huge_numbers(place, dtype):
    limits = np.finfo(dtype)
    z = numbers(
        [(size * a, size * b)
         for size in map(float, (limits.smallest_subnormal, limits.smallest_normal, 1, limits.max))
         for a, b in ((1, 1), (-1, 1), (1, -1), (1, 0), (0, -1))],
        dtype,
    )  # fmt: skip
    root = math.sqrt(0.5)
    wanted = numbers([(root, root), (-root, root), (root, -root), (1, 0), (0, -1)] * 4, np.complex128)
    np.testing.assert_allclose(computed(place, "sign", z), wanted, rtol=4 * float(limits.eps))


@pytest.mark.parametrize("dtype", DTYPES)
def test_reciprocals_of_huge_numbers(place, dtype):
    top = float(np.finfo(dtype).max)
    z = numbers([(top, top), (-top / 2, top / 2), (top, 0), (0, -top)], dtype)
    wanted = numbers([(0.5 / top, -0.5 / top), (-1 / top, -1 / top), (1 / top, 0), (0, 1 / top)], np.complex128)
    tiny = float(np.finfo(dtype).smallest_subnormal)
    found = computed(place, "reciprocal", z)
    for part in ("real", "imag"):
        np.testing.assert_allclose(getattr(found, part), getattr(wanted, part), rtol=1e-6, atol=tiny)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding(place, dtype):
    z = numbers([(2.5, -3.5), (math.nan, math.inf), (-0.5, 0.5)], dtype)
    found = computed(place, "round", z)
    wanted = numbers([(2, -4), (math.nan, math.inf), (-0.0, 0.0)], dtype)
    for part in ("real", "imag"):
        np.testing.assert_array_equal(getattr(found, part), getattr(wanted, part))
        np.testing.assert_array_equal(np.signbit(getattr(found, part)), np.signbit(getattr(wanted, part)))
