"""Plans of Fourier transforms and their cache; frequencies and shifts."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import bits

import numbacc
from numbacc import fft

pytestmark = pytest.mark.usefixtures("poison")

F, D = np.dtype(np.complex64), np.dtype(np.complex128)


def values(*shape, dtype=F):
    rng = np.random.default_rng(1)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


@pytest.fixture
def anew():
    """An empty cache, with its usual limits again afterwards."""
    limits = fft.cache_limit()
    fft.cache_clear()
    yield
    fft.cache_limit(*limits)
    fft.cache_clear()


# ---------------------------------------------------------------- plans


@pytest.mark.parametrize("function", ["fft", "irfft", "hfft", "ifft2", "irfftn"])
def test_a_plan_gives_the_same_bits_as_the_function(place, function):
    x, y = (place.put(values(3, 4, 6) * factor) for factor in (1, 2))
    plan = getattr(fft, function).plan(x, norm="ortho")
    for array in (x, y):
        want = place.get(getattr(fft, function)(array, norm="ortho"))
        np.testing.assert_array_equal(bits(place.get(plan(array))), bits(want))
    out = place.empty(want.shape, want.dtype)
    with_out = getattr(fft, function).plan(x, norm="ortho", out=out.view)
    assert with_out(y, out=out.view) is out.view
    np.testing.assert_array_equal(bits(out.now()), bits(want))


def test_plan_takes_what_the_function_takes(place):
    x = place.put(values(3, 4, 6))
    for function, n, axes in [("fft", 5, 1), ("irfft2", (4, 4), (0, 1)), ("fftn", None, (2, 0)), ("fft2", None, None)]:
        more = {} if axes is None else {"axis" if function == "fft" else "axes": axes}
        want = getattr(fft, function)(x, n, **more, overwrite_input=False)
        np.testing.assert_array_equal(place.get(getattr(fft, function).plan(x, n, **more)(x)), place.get(want))


def test_a_plan_refuses_other_arrays(place):
    x, out = place.put(values(4, 6)), place.empty((4, 6), F)
    plan, with_out = fft.fft.plan(x), fft.fft.plan(x, out=out.view)
    for wrong in (values(4, 7), values(6, 4).T, values(4, 6, dtype=D)):
        with pytest.raises(numbacc.LayoutError, match="was made for"):
            plan(place.put(wrong))
    with pytest.raises(numbacc.LayoutError, match="made without out"):
        plan(x, out=out.view)
    with pytest.raises(numbacc.LayoutError, match="made with out"):
        with_out(x)
    with pytest.raises(numbacc.LayoutError, match="was made for"):
        with_out(x, out=place.empty((4, 6), F, steps=(1, 2)).view)
    out.assert_untouched()


def test_info(place):
    info = fft.irfft.plan(place.put(values(4, 6)), norm="ortho").info
    assert info.op == "fft.irfft"
    assert info.dtypes == ("complex64", "float32")
    assert info.backend == {"numpy": "numpy", "simulator": "simulator", "gpu": "cufft+kernel"}[place.name]
    assert info.math_dtype == "complex64"
    assert info.accumulator_dtype is None and info.deterministic is True
    if place.is_device:
        assert info.algorithm == "repack, C2R 10, batch 4"
        assert info.workspace_bytes >= 4 * 6 * 8
    info = fft.fft.plan(place.put(values(0, 6))).info
    assert info.algorithm == ("no launch: the result is empty" if place.is_device else "reference")


def test_plans_outlive_the_cache(place, anew):
    x = place.put(values(4, 6))
    plan = fft.fft.plan(x)
    want = place.get(plan(x))
    fft.cache_clear()
    fft.cache_limit(0)
    np.testing.assert_array_equal(place.get(plan(x)), want)
    np.testing.assert_array_equal(place.get(fft.fft(x)), want)
    assert fft.cache_info().currsize == 0


# ---------------------------------------------------------------- the cache


def test_hits_and_misses(place, anew):
    x, y = place.put(values(4, 6)), place.put(values(4, 6))
    fft.fft(x)
    fft.fft(y)
    fft.fft(x, None, np.int64(-1))
    info = fft.cache_info()
    assert (info.hits, info.misses, info.currsize) == (2, 1, 1)
    fft.fft(x, norm="ortho")
    fft.fftn(x)
    fft.fftn(x, None, [0, 1])
    assert fft.cache_info().misses == 4
    assert fft.fft.plan(x) is fft.fft.plan(x)
    fft.cache_clear()
    assert fft.cache_info()[:2] == (0, 0) and fft.cache_info().currsize == 0


def test_the_longest_unused_go_first(place, anew):
    assert fft.cache_limit(2, 1 << 20) == (2, 1 << 20)
    assert fft.cache_limit() == (2, 1 << 20)
    a, b, c = (place.put(values(2, n)) for n in (3, 4, 5))
    first = fft.fft.plan(a)
    second = fft.fft.plan(b)
    assert fft.fft.plan(a) is first
    fft.fft.plan(c)
    assert fft.cache_info().currsize == 2
    assert fft.fft.plan(a) is first
    assert fft.fft.plan(b) is not second
    assert fft.cache_limit(count=1) == (1, 1 << 20)
    assert fft.cache_info().currsize == 1


def test_bytes_are_limited_too(place, anew, monkeypatch):
    init = fft.plans.FftPlan.__init__

    def init_with_work(self, request):
        init(self, request)
        self.library_bytes = 1000  # small transforms need none of their own

    monkeypatch.setattr(fft.plans.FftPlan, "__init__", init_with_work)
    fft.cache_limit(nbytes=2500)
    for n in (3, 4, 5, 6):
        fft.fft(place.put(values(2, n)))
    info = fft.cache_info()
    assert (info.currsize, info.currbytes, info.maxbytes) == (2, 2000, 2500)


@pytest.mark.parametrize("limits", [{"count": -1}, {"nbytes": -5}], ids=str)
def test_limits_are_not_negative(limits):
    with pytest.raises(numbacc.OptionError, match="at least 0"):
        fft.cache_limit(**limits)


# ---------------------------------------------------------------- frequencies and shifts


@pytest.mark.parametrize("n", [1, 2, 7, 8])
@pytest.mark.parametrize("d", [1.0, 0.25, 3])
def test_frequencies(n, d):
    """From 0 up to below half the sampling rate, then the negative ones; of real signals 0 to half of it."""
    cycles = {"fftfreq": [k if 2 * k < n else k - n for k in range(n)], "rfftfreq": range(n // 2 + 1)}
    for function, numbers in cycles.items():
        want = np.array([k / (n * d) for k in numbers])
        np.testing.assert_array_equal(numbacc.asnumpy(getattr(fft, function)(n, d)), want)
        result = getattr(fft, function)(n, d, device="cpu")
        assert isinstance(result, np.ndarray)
        np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize("dtype", [F, D, np.dtype(np.int8), np.dtype(numbacc.bfloat16), np.dtype(bool)], ids=str)
@pytest.mark.parametrize("axes", [None, 0, -1, (0, 1), [1, 1], (), np.int64(1)], ids=repr)
def test_shifts(place, dtype, axes):
    for shape in [(3, 4), (1, 5), (0, 3)]:
        x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        for function in ("fftshift", "ifftshift"):
            operand = place.operand(x)
            want = getattr(np.fft, function)(x, axes)
            result = getattr(fft, function)(operand.view, axes)
            np.testing.assert_array_equal(place.get(result), want)
            out = place.empty(shape, dtype, steps=(2, -1))
            assert getattr(fft, function)(operand.view, axes, out=out.view) is out.view
            np.testing.assert_array_equal(out.now(), want)
            operand.assert_untouched()


def test_shifts_that_are_refused(place):
    x = place.put(values(4, 6))
    for error, words, options in [
        (numbacc.ShapeError, "axes=2", {"axes": 2}),
        (numbacc.ShapeError, "axes='0'", {"axes": "0"}),
        (numbacc.ShapeError, "out has shape", {"out": place.put(values(4, 5))}),
        (numbacc.DTypeError, "out has dtype", {"out": place.put(values(4, 6, dtype=D))}),
        (numbacc.LayoutError, "out overlaps x", {"out": x}),
        (numbacc.OptionError, "stream", {"stream": "0"}),
    ]:
        for function in (fft.fftshift, fft.ifftshift):
            with pytest.raises(error, match=words):
                function(x, **options)


@pytest.mark.parametrize("n", [0, -1, 2.0, "4", None])
def test_numbers_of_points_that_are_none(n):
    for function in (fft.fftfreq, fft.rfftfreq):
        with pytest.raises(numbacc.ShapeError, match="n="):
            function(n)


@pytest.mark.parametrize("n", [2**60, 2**62, 10**400])
def test_more_points_than_have_addresses(n):
    for function in (fft.fftfreq, fft.rfftfreq):
        with pytest.raises(numbacc.ShapeError, match=r"n=.* 1 to 1152921504606846975"):
            function(n)


def test_more_points_than_there_is_memory_for():
    for function in (fft.fftfreq, fft.rfftfreq):
        with pytest.raises(numbacc.DeviceError, match="n=1125899906842624: out of host memory"):
            function(2**50)


def test_where_frequencies_cannot_be():
    """What is wrong is said before the first is computed, for which there would be no memory."""
    for function in (fft.fftfreq, fft.rfftfreq):
        with pytest.raises(numbacc.OptionError, match="stream='x'"):
            function(2**50, device="cpu", stream="x")
        with pytest.raises(numbacc.DeviceError, match="device='gpu'"):
            function(2**50, device="gpu")


@pytest.mark.parametrize("dtype", ["O", "U5", "M8[s]", ">f8", np.longdouble, [("f", "f4")]], ids=str)
def test_shifts_of_what_numbacc_has_not(numpy_place, dtype):
    x = np.zeros((3, 4), dtype)
    for function in (fft.fftshift, fft.ifftshift):
        with pytest.raises(numbacc.DTypeError, match="x has dtype"):
            function(x)


@pytest.mark.parametrize("d", [0, "x", None])
def test_distances_that_are_none(d):
    for function in (fft.fftfreq, fft.rfftfreq):
        with pytest.raises(numbacc.OptionError, match="d="):
            function(4, d)
