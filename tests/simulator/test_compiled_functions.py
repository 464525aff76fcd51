"""CUDA's scalar functions in the compiled simulator, against Python's integers, fractions and NumPy in float64."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numba import cuda, njit, typeof, types
from numba.core.compiler import run_frontend
from numba.core.errors import TypingError
from numba.core.registry import cpu_target
from numba.core.typed_passes import type_inference_stage
from skips import needed

from numbacc.simulator.compiled.functions import FUNCTIONS
from numbacc.simulator.compiled.kernel import Kernel
from numbacc.simulator.compiled.short_cuts import short_cuts

INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
MODES = ("rn", "rd", "ru", "rz")


def function(name):
    return FUNCTIONS[f"cuda.{name}"]


def called(names, *arrays):
    """Return the results of functions for each element: one compilation serves all names."""
    parameters = ", ".join(f"a{k}" for k in range(len(arrays)))
    results = ", ".join(f"f{k}({parameters})" for k in range(len(names)))
    space = {f"f{k}": function(n) for k, n in enumerate(names)}
    exec(f"def one({parameters}):\n    return ({results},)", space)
    with short_cuts():
        one = njit(space["one"], error_model="numpy")
        one.compile(tuple(typeof(each[0]) for each in arrays))
    return list(zip(*(one(*each) for each in zip(*arrays, strict=True)), strict=True))


def values(dtype):
    information = np.iinfo(dtype)
    some = [0, 1, 2, 3, 12, 100, information.max, information.max - 1, information.min, information.max // 3]
    return np.array(some, dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits(dtype):
    x, width = values(dtype), np.dtype(dtype).itemsize * 8
    popc, clz, ffs, brev = called(["popc", "clz", "ffs", "brev"], x)
    for k, value in enumerate(x.tolist()):
        bits = value & ((1 << width) - 1)
        assert popc[k] == bits.bit_count()
        assert clz[k] == width - bits.bit_length()
        assert ffs[k] == (bits & -bits).bit_length()
        wide = 64 if dtype is np.uint64 else 32  # Numba types all others as uint32 on a GPU
        assert brev[k] == int(f"{value & ((1 << wide) - 1):0{wide}b}"[::-1], 2)


def test_select_and_fuse():
    selp, fma, cbrt = function("selp"), function("fma"), function("cbrt")

    @njit
    def run(x, y, z, selected, fused, roots):
        for i in range(x.size):
            selected[i] = selp(x[i] > 0, x[i], y[i])
            fused[i] = fma(x[i], y[i], z[i])
            roots[i] = cbrt(x[i])

    rng = np.random.default_rng(1)
    for dtype in (np.float32, np.float64):
        x, y, z = (rng.standard_normal(200).astype(dtype) for _ in range(3))
        x[0], y[0] = dtype(1) + np.finfo(dtype).eps, dtype(1) - np.finfo(dtype).eps
        z[0] = -1  # the product has to be exact for this
        out = [np.full_like(x, 9) for _ in range(3)]
        run(x, y, z, *out)
        np.testing.assert_array_equal(out[0], np.where(x > 0, x, y))
        exact = [Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)) for a, b, c in zip(x, y, z, strict=True)]
        assert out[1].tolist() == [float(nearest(e, dtype)) for e in exact]
        np.testing.assert_allclose(out[2], np.cbrt(x.astype(np.longdouble)).astype(dtype), rtol=np.finfo(dtype).eps)


def nearest(exact, dtype):
    """Return the nearest number to a fraction; float32 must not be rounded by way of float64."""
    near = dtype(float(exact))
    around = [np.nextafter(near, dtype(-math.inf)), near, np.nextafter(near, dtype(math.inf))]
    return min(around, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(f"u{v.itemsize}")) & 1))


def directed(exact, dtype, mode):
    """Return a fraction rounded as a mode says."""
    near = nearest(exact, dtype)
    if mode == "rn" or Fraction(float(near)) == exact:
        return near
    down = mode == "rd" or (mode == "rz" and exact > 0)
    above = Fraction(float(near)) > exact
    if above == down:
        return np.nextafter(near, dtype(-math.inf if down else math.inf))
    return near


@pytest.mark.parametrize("letter, dtype", (("f", np.float32), ("d", np.float64)))
@pytest.mark.sampled(1)
def test_directions_of_rounding(letter, dtype):
    rng = np.random.default_rng(2)
    x, y = ((rng.standard_normal(60) * 2.0 ** rng.integers(-30, 30, 60)).astype(dtype) for _ in range(2))
    rules = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b}
    if letter == "f":
        rules["sub"] = lambda a, b: a - b
    pairs = [(Fraction(float(a)), Fraction(float(b))) for a, b in zip(x, y, strict=True)]
    names = [(rule, mode) for rule in rules for mode in MODES]
    for (rule, mode), found in zip(names, called([f"libdevice.{letter}{r}_{m}" for r, m in names], x, y), strict=True):
        assert list(found) == [directed(rules[rule](a, b), dtype, mode) for a, b in pairs], (rule, mode)
    recip = called([f"libdevice.{letter}rcp_{m}" for m in MODES], x)
    for mode, found in zip(MODES, recip, strict=True):
        assert list(found) == [directed(1 / a, dtype, mode) for a, _ in pairs]
    for mode, found in zip(MODES, called([f"libdevice.{letter}sqrt_{m}" for m in MODES], abs(x)), strict=True):
        for root, (a, _) in zip(found, pairs, strict=True):
            square, up = Fraction(float(root)) ** 2, Fraction(float(np.nextafter(dtype(root), dtype(math.inf)))) ** 2
            below = Fraction(float(np.nextafter(dtype(root), dtype(0)))) ** 2
            assert square <= abs(a) < up if mode in ("rd", "rz") else below < abs(a)
            assert mode != "ru" or square >= abs(a)


@pytest.mark.parametrize("name, dtype", (("fmaf", np.float32), ("fma", np.float64)))
def test_directions_of_fused_products(name, dtype):
    rng, count = np.random.default_rng(3), 120
    x, y, z = ((rng.standard_normal(count) * 2.0 ** rng.integers(-30, 30, count)).astype(dtype) for _ in range(3))
    z[:40] = -(x[:40] * y[:40])  # only the product's error is left
    z[40:60] = np.nextafter(z[:20], dtype(1))
    z[60:70] *= dtype(2.0**-100)
    if dtype is np.float64:
        x[70:80] *= 2.0**-520
        y[70:80] *= 2.0**-500
        z[70:80] *= 2.0**-1050
    trios = [tuple(Fraction(float(v)) for v in trio) for trio in zip(x, y, z, strict=True)]
    for mode, found in zip(MODES, called([f"libdevice.{name}_{m}" for m in MODES], x, y, z), strict=True):
        assert list(found) == [directed(a * b + c, dtype, mode) for a, b, c in trios], mode
    large, three = np.array([np.finfo(dtype).max] * 2), np.array([3, -3], dtype)
    beyond = called([f"libdevice.{name}_{m}" for m in MODES], large, three, three)
    most = float(np.finfo(dtype).max)
    wanted = {"rn": [math.inf, -math.inf], "rd": [most, -math.inf], "ru": [math.inf, -most], "rz": [most, -most]}
    assert {mode: list(map(float, found)) for mode, found in zip(MODES, beyond, strict=True)} == wanted


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.sampled(1)
def test_conversions(mode):
    rounded = {"rn": round, "rd": math.floor, "ru": math.ceil, "rz": math.trunc}[mode]
    some = [
        0.0,
        0.5,
        1.5,
        2.5,
        -0.5,
        -1.5,
        -2.25,
        3e9,
        -3e9,
        5e9,
        1e18,
        1e19,
        -1e19,
        2e19,
        math.inf,
        -math.inf,
        math.nan,
    ]
    kinds = {"int": (-(2**31), 2**31 - 1), "uint": (0, 2**32 - 1), "ll": (-(2**63), 2**63 - 1), "ull": (0, 2**64 - 1)}
    for source, dtype in (("double", np.float64), ("float", np.float32)):
        x = np.array(some, dtype)
        results = called([f"libdevice.{source}2{k}_{mode}" for k in kinds], x)
        for (kind, (low, high)), found in zip(kinds.items(), results, strict=True):
            bits = 64 if "ll" in kind else 32
            for value, got in zip(x.tolist(), found, strict=True):
                if math.isnan(value):
                    answer = 0 if source == "float" and bits == 32 else 1 << (bits - 1)
                else:
                    answer = min(max(rounded(value), low), high) if math.isfinite(value) else low if value < 0 else high
                assert got & ((1 << bits) - 1) == answer & ((1 << bits) - 1), (source, kind, value)
    x = np.array([0, 1, -1, 2**53 + 1, 2**62 + 12345, -(2**62) - 99, 2**63 - 1, -(2**63)], np.int64)
    for signed, prefix in ((True, "ll"), (False, "ull")):
        to_double, to_float = called([f"libdevice.{prefix}2double_{mode}", f"libdevice.{prefix}2float_{mode}"], x)
        for k, value in enumerate(x.tolist()):
            exact = Fraction(value if signed else value & (2**64 - 1))
            assert to_double[k] == directed(exact, np.float64, mode)
            assert to_float[k] == directed(exact, np.float32, mode)
    x = np.random.default_rng(3).standard_normal(50)
    (found,) = called([f"libdevice.double2float_{mode}"], x)
    assert list(found) == [directed(Fraction(v), np.float32, mode) for v in x.tolist()]


def wrap(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def test_integers_of_libdevice():
    x, y = (np.random.default_rng(k).integers(-(2**31), 2**31, 40) for k in (1, 2))
    x[:4], y[:4] = (0, -1, 2**31 - 1, -(2**31)), (-1, -1, 5, 2**31 - 1)
    rules = {
        "max": max, "min": min, "mulhi": lambda a, b: a * b >> 32, "hadd": lambda a, b: a + b >> 1,
        "rhadd": lambda a, b: a + b + 1 >> 1, "mul24": lambda a, b: wrap(a << 8, 32) // 256 * (wrap(b << 8, 32) // 256),
    }  # fmt: skip
    unsigned = {
        "umax": max, "umin": min, "umulhi": lambda a, b: a * b >> 32, "uhadd": lambda a, b: a + b >> 1,
        "urhadd": lambda a, b: a + b + 1 >> 1, "umul24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    }  # fmt: skip
    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    results = called([f"libdevice.{n}" for n in (*rules, *unsigned)], x, y)
    for name, found in zip((*rules, *unsigned), results, strict=True):
        if name in rules:
            answer = [wrap(rules[name](a, b), 32) for a, b in pairs]
        else:
            answer = [wrap(unsigned[name](a & 0xFFFFFFFF, b & 0xFFFFFFFF), 32) for a, b in pairs]
        assert list(found) == answer, name
    x64, y64 = (np.random.default_rng(k).integers(-(2**63), 2**63 - 1, 40) for k in (1, 2))
    high, uhigh, most, umost = called([f"libdevice.{n}" for n in ("mul64hi", "umul64hi", "llmax", "ullmin")], x64, y64)
    full = 2**64 - 1
    for k, (a, b) in enumerate(zip(x64.tolist(), y64.tolist(), strict=True)):
        assert high[k] == a * b >> 64 and uhigh[k] == wrap((a & full) * (b & full) >> 64, 64)
        assert most[k] == max(a, b) and umost[k] == wrap(min(a & full, b & full), 64)


def test_bytes_and_absolute_differences():
    rng = np.random.default_rng(7)
    x, y, z = (rng.integers(-(2**31), 2**31, 40) for _ in range(3))
    permuted, sad, usad = called(["libdevice.byte_perm", "libdevice.sad", "libdevice.usad"], x, y, z)
    full = 2**32 - 1
    for k, (a, b, c) in enumerate(zip(x.tolist(), y.tolist(), z.tolist(), strict=True)):
        source = ((a & full) | (b & full) << 32).to_bytes(8, "little")
        nibbles = [(c & full) >> 4 * j & 15 for j in range(4)]
        chosen = [source[n & 7] if n < 8 else 255 * (source[n & 7] >> 7) for n in nibbles]
        assert permuted[k] == int.from_bytes(bytes(chosen), "little", signed=True)
        assert sad[k] == wrap(abs(a - b) + (c & full), 32)
        assert usad[k] == wrap(abs((a & full) - (b & full)) + (c & full), 32)


NEAR_ZERO = ("acos", "asin", "atanh", "atan", "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "expm1", "log1p")
POSITIVE = ("log", "log2", "log10", "sqrt", "lgamma", "erf", "erfc", "asinh")
#: Functions of libdevice -> (NumPy's or math's function of float64, range of arguments).
REAL = {
    **{n: (getattr(math, n), -0.95, 0.95) for n in NEAR_ZERO},
    **{n: (getattr(math, n), 0.1, 20.0) for n in POSITIVE},
    "acosh": (math.acosh, 1.1, 9.0), "cbrt": (np.cbrt, -9.0, 9.0), "rcbrt": (lambda v: 1 / np.cbrt(v), 0.1, 9.0),
    "rsqrt": (lambda v: v**-0.5, 0.1, 9.0), "exp2": (np.exp2, -9.0, 9.0), "exp10": (lambda v: 10.0**v, -9.0, 9.0),
    "tgamma": (math.gamma, 0.5, 9.0), "normcdf": (lambda v: math.erfc(-v / math.sqrt(2)) / 2, -5.0, 5.0),
    "cospi": (lambda v: math.cos(math.pi * v), -0.4, 0.4), "sinpi": (lambda v: math.sin(math.pi * v), -0.4, 0.4),
    "ceil": (math.ceil, -9.0, 9.0), "floor": (math.floor, -9.0, 9.0), "trunc": (math.trunc, -9.0, 9.0),
    "rint": (np.rint, -9.0, 9.0), "fabs": (abs, -9.0, 9.0),
    "erfcx": (lambda v: math.exp(v * v) * math.erfc(v), -2.0, 5.0),
}  # fmt: skip


@pytest.mark.parametrize("ending, dtype", (("", np.float64), ("f", np.float32)))
@pytest.mark.sampled(1)
def test_real_functions(ending, dtype):
    tolerance = 4 * np.finfo(dtype).eps
    points = np.linspace(0, 1, 29)
    for low, high in {(low, high) for _, low, high in REAL.values()}:
        x = (low + (high - low) * points).astype(dtype)
        names = [n for n, (_, a, b) in REAL.items() if (a, b) == (low, high)]
        for name, found in zip(names, called([f"libdevice.{n}{ending}" for n in names], x), strict=True):
            answer = [REAL[name][0](float(v)) for v in x]
            np.testing.assert_allclose(found, answer, rtol=4 * tolerance, atol=tolerance / 4, err_msg=name)


def test_inverses():
    y = np.array([1e-300, 1e-20, 1e-5, 0.1, 0.49, 0.5, 0.9, 0.999, 1.0, 1.3, 1.9, 1.99999])
    inverse, quantile = called(["libdevice.erfcinv", "libdevice.normcdfinv"], y)
    np.testing.assert_allclose([math.erfc(v) for v in inverse], y, rtol=3e-13)
    inside = y < 1
    back = [math.erfc(-v / math.sqrt(2)) / 2 for v in np.array(quantile)[inside]]
    np.testing.assert_allclose(back, y[inside], rtol=3e-13)
    z = np.array([-0.9999, -0.5, 1e-300, 1e-10, 0.0, 0.3, 0.7, 0.999999])
    (found,) = called(["libdevice.erfinv"], z)
    np.testing.assert_allclose([math.erf(v) for v in found], z, rtol=1e-15)
    (exact,) = called(["libdevice.cospi"], np.array([0.5, 1.0, 1.5, 2.0, 1e15]))
    assert exact == (0, -1, 0, 1, 1)


def test_results_of_several_numbers():
    x = np.array([0.0, 0.75, -3.5, 1e10, 6.25e-5])
    sincos, modf, frexp = called(["libdevice.sincos", "libdevice.modf", "libdevice.frexp"], x)
    for k, value in enumerate(x.tolist()):
        assert sincos[k] == pytest.approx((math.sin(value), math.cos(value)), rel=1e-15)
        assert modf[k] == math.modf(value)
        assert frexp[k] == math.frexp(value)
    y = np.array([1.0, 0.5, -2.0, 7.0, 2e-5])
    remquo, remainder = called(["libdevice.remquo", "libdevice.remainder"], x, y)
    for k, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        assert remquo[k][0] == remainder[k] == math.remainder(a, b)
        quotient = round(Fraction(a) / Fraction(b))
        assert remquo[k][1] == math.copysign(1, quotient) * (abs(quotient) & 7)


def test_functions_of_math_that_only_the_gpu_target_has():
    @njit
    def run(x, y):
        return math.fmod(x, y), math.remainder(x, y), math.modf(x)

    for x, y in ((7.25, -2.0), (-7.5, 2.0), (-0.25, 3.0)):
        assert run(x, y) == (math.fmod(x, y), math.remainder(x, y), math.modf(x))
        assert run(np.float32(x), np.float32(y)) == (math.fmod(x, y), math.remainder(x, y), math.modf(x))


def test_vectors():
    four, two, pair = function("float32x4"), function("float32x2"), function("int2")

    @njit
    def run(x, out):
        v = four(x[0], 2, two(x[1], x[2]))
        w = four(v)
        i = pair(x[1], 7)
        out[0], out[1], out[2], out[3] = v.x, v.y, w.z, w.w
        out[4], out[5] = i.x, i.y

    x, out = np.array([0.1, 1.7, 3.5]), np.full(6, np.nan)
    run(x, out)
    assert out.tolist() == [np.float32(0.1), 2, np.float32(1.7), 3.5, 1, 7]
    assert function("float4") is four
    with pytest.raises(TypingError, match="needs 4 numbers; 2 were given"):
        njit(lambda a: four(a, a))(1.0)


def test_bessel_functions():
    """Bessel's equation of the integral: J_n(x) is the mean of cos(n t - x sin t)."""
    x, t = np.array([0.5, 1.0, 7.5]), (np.arange(2000) + 0.5) * np.pi / 2000
    if "cuda.libdevice.j0" not in FUNCTIONS:
        return  # nor has the C library
    for n, found in zip((0, 1), called(["libdevice.j0", "libdevice.j1"], x), strict=True):
        np.testing.assert_allclose(found, [np.cos(n * t - v * np.sin(t)).mean() for v in x], rtol=1e-12)
    (third,) = called(["libdevice.jn"], np.full(3, 3), x)
    np.testing.assert_allclose(third, [np.cos(3 * t - v * np.sin(t)).mean() for v in x], rtol=1e-12)
    y0, y1, j0, j1 = called(["libdevice.y0", "libdevice.y1", "libdevice.j0", "libdevice.j1"], x)
    wronskian = [j1[k] * y0[k] - j0[k] * y1[k] for k in range(3)]
    np.testing.assert_allclose(wronskian, 2 / (np.pi * x), rtol=1e-13)


def test_exponents_and_neighbours():
    x = np.array([1.0, 0.3, -1024.0, 5e-324, 1e300])
    ilogb, logb = called(["libdevice.ilogb", "libdevice.logb"], x)
    assert list(ilogb) == list(logb) == [math.frexp(v)[1] - 1 for v in x.tolist()]
    for ending, dtype in (("", np.float64), ("f", np.float32)):
        a = np.array([0.0, 1.0, -1.0, 1.0, 3.0, np.finfo(dtype).max, -0.0], dtype)
        b = np.array([1.0, 2.0, 0.0, 1.0, math.nan, math.inf, -1.0], dtype)
        after, most, least, gap = called(
            [f"libdevice.{n}{ending}" for n in ("nextafter", "fmax", "fmin", "fdim")], a, b
        )
        np.testing.assert_array_equal(np.array(after, dtype), np.nextafter(a, b))
        np.testing.assert_array_equal(most, np.fmax(a, b))
        np.testing.assert_array_equal(least, np.fmin(a, b))
        np.testing.assert_array_equal(gap, np.where(np.isnan(b), np.nan, np.maximum(a - b, 0)))
    scaled, power = called(["libdevice.scalbn", "libdevice.powi"], np.array([1.5, -2.0, 3.0]), np.array([4, -3, 2]))
    assert list(scaled) == [24.0, -0.25, 12.0] and list(power) == [5.0625, -0.125, 9.0]
    far, even = called(["libdevice.llround", "libdevice.llrint"], np.array([0.5, 1.5, 2.5, -2.5, 1e30]))
    assert list(far) == [1, 2, 3, -3, 2**63 - 1] and list(even) == [0, 2, 2, -2, 2**63 - 1]


def test_bits_of_floats():
    x = np.array([1.0, -2.5, 0.0, math.inf])
    high, low, whole = called([f"libdevice.{n}" for n in ("double2hiint", "double2loint", "double_as_longlong")], x)
    assert list(whole) == x.view(np.int64).tolist()
    assert [(h << 32) | (v & 0xFFFFFFFF) for h, v in zip(high, low, strict=True)] == list(whole)
    (joined,) = called(["libdevice.hiloint2double"], np.array(high), np.array(low))
    assert list(joined) == x.tolist()
    (bits,) = called(["libdevice.float_as_int"], x.astype(np.float32))
    assert list(bits) == x.astype(np.float32).view(np.int32).tolist()
    (halves,) = called(["libdevice.float2half_rn"], np.array([1.0, 1e-7, 70000.0, 0.1], np.float32))
    assert list(halves) == np.array([1.0, 1e-7, np.inf, 0.1], np.float16).view(np.int16).tolist()
    (finite, missing, infinite, sign) = called(
        [f"libdevice.{n}" for n in ("isfinited", "isnand", "isinfd", "signbitd")], x
    )
    assert (list(finite), list(missing), list(infinite), list(sign)) == (
        [1, 1, 1, 0],
        [0] * 4,
        [0, 0, 0, 1],
        [0, 1, 0, 0],
    )


def test_each_name_of_libdevice_has_a_function():
    libdevice = needed("numba.cuda.libdevicefuncs", "library")
    known = {path.removeprefix("cuda.libdevice.") for path in FUNCTIONS if path.startswith("cuda.libdevice.")}
    missing = {name.removeprefix("__nv_") for name in libdevice.functions} - known
    assert not missing


@pytest.mark.slow
def test_each_function_compiles():
    """Every function of libdevice compiles for the types that it has on a GPU, and returns its type."""
    libdevice = needed("numba.cuda.libdevicefuncs", "library")
    for name, (result, arguments) in libdevice.functions.items():
        path = f"cuda.libdevice.{name.removeprefix('__nv_')}"
        if path not in FUNCTIONS or any(a.is_ptr for a in arguments):
            continue
        kinds = tuple(getattr(types, str(a.ty)) for a in arguments)
        given = ", ".join("abc"[: len(kinds)])
        space = {"f": FUNCTIONS[path]}
        exec(f"def run({given}):\n    return f({given})", space)
        typing, target = cpu_target.typing_context, cpu_target.target_context
        typing.refresh()
        target.refresh()
        found = type_inference_stage(typing, target, run_frontend(space["run"]), kinds, None)[1]
        assert str(found) == str(result), path


def test_exponentials_of_float32():
    """numbacc's own code has an error of at most 0.51 units in the last place."""

    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        y[i] = math.exp(x[i])

    rng = np.random.default_rng(7)
    ends = [0, -0.0, np.inf, -np.inf, np.nan, 88.72284, 88.72283, -103.97, -103.972084, -87.33655]
    some = rng.integers(0, 1 << 32, 1 << 17, dtype=np.uint32).view(np.float32), rng.uniform(-105, 90, (1 << 17) - 10)
    x = np.concatenate([*some, ends]).astype(np.float32)
    y = np.full_like(x, 7)
    Kernel(kernel).launch((1024, 1, 1), (256, 1, 1), 0, (x, y))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        exact = np.exp(x.astype(np.float64))
        answer = exact.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(x))
    usual = np.isfinite(answer)
    np.testing.assert_array_equal(y[np.isinf(answer)], np.inf)
    unit = np.spacing(np.maximum(answer[usual], np.float32(1e-45))).astype(np.float64)
    assert (np.abs(y[usual] - exact[usual]) / unit).max() < 0.51
