"""What Fourier transforms refuse, with which error and message, and that nothing is written then."""

from __future__ import annotations

import inspect

import ml_dtypes
import numpy as np
import pytest
from conftest import refused

import numbacc
from numbacc import fft

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
MANY = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")
REAL = ("rfft", "ihfft", "rfft2", "rfftn")
F, C = np.dtype(np.float32), np.dtype(np.complex64)


def operand(place, function, shape=(4, 6)):
    return place.operand(np.ones(shape, F if function in REAL else C))


def refused_by(functions, place, error, *words, **options):
    """The functions and their plans refuse, and write nothing."""
    for function in functions:
        x = operand(place, function)
        refused(error, *words, run=lambda f=function, a=x: getattr(fft, f)(a.view, **options))
        if "stream" not in options:
            refused(error, *words, run=lambda f=function, a=x: getattr(fft, f).plan(a.view, **options))
        x.assert_untouched()


@pytest.mark.parametrize("norm", ["Ortho", "", 1, b"ortho", ["ortho"], {}], ids=repr)
def test_unknown_norm(place, norm):
    refused_by(ONE + MANY, place, numbacc.OptionError, "norm", repr(norm), "backward", "ortho", "forward", norm=norm)


@pytest.mark.parametrize("n", [0, -1, -5])
def test_no_points(place, n):
    refused_by(ONE, place, numbacc.ShapeError, "points", "at least 1", f"n={n}", n=n)
    if n != -1:  # which keeps the length that is there
        refused_by(MANY, place, numbacc.ShapeError, "points", f"s=({n}, 4)", s=(n, 4), axes=(0, 1))


@pytest.mark.parametrize("n", [2.0, "4", [4], np.float32(4)], ids=repr)
def test_n_is_no_integer(place, n):
    refused_by(ONE, place, numbacc.ShapeError, "n=", "integer", n=n)


@pytest.mark.parametrize("s", [4, "44", (4, None), (4.0, 4), {"a": 1}], ids=repr)
def test_s_is_no_sequence_of_integers(place, s):
    refused_by(MANY, place, numbacc.ShapeError, "s=", "integer", s=s, axes=(0, 1))


@pytest.mark.parametrize("axis", [2, -3, 100])
def test_axis_out_of_range(place, axis):
    refused_by(ONE, place, numbacc.ShapeError, f"axis={axis}", "out of range", axis=axis)
    refused_by(MANY, place, numbacc.ShapeError, f"axes={axis}", "out of range", axes=(0, axis))


@pytest.mark.parametrize("axis", [1.0, "1", (1,), [1]], ids=repr)
def test_axis_is_no_integer(place, axis):
    refused_by(ONE, place, numbacc.ShapeError, "axis=", "integer", axis=axis)


@pytest.mark.parametrize("axes", [1, "01", (0, 1.0), (None, 1), {0, 1}, (True, 0)], ids=repr)
def test_axes_are_no_sequence_of_integers(place, axes):
    refused_by(MANY, place, numbacc.ShapeError, "axes=", "integer", axes=axes)


def test_axes_do_not_fit(place):
    refused_by(MANY, place, numbacc.ShapeError, "axes is empty", axes=())
    refused_by(MANY, place, numbacc.ShapeError, "2 lengths for 1 axes", s=(4, 4), axes=(0,))
    with pytest.raises(numbacc.ShapeError, match="names an axis twice"):
        fft.fftn.plan(operand(place, "fftn").view, axes=(0, 0))


@pytest.mark.parametrize("rank", [0, 9])
def test_rank(place, rank):
    for function in ONE + MANY:
        x = place.put(np.ones((1,) * rank, F if function in REAL else C))
        options = {} if function in ONE else {"axes": (0,)}
        refused(numbacc.ShapeError, "rank", rank, run=lambda f=function, a=x, o=options: getattr(fft, f)(a, **o))


def test_lengths_that_give_no_points(place):
    for function in ("irfft", "hfft", "irfft2", "irfftn"):
        x = operand(place, function, (3, 1))
        refused(numbacc.ShapeError, "points", run=lambda f=function, a=x: getattr(fft, f)(a.view))
    for function in ONE:
        x = operand(place, function, (3, 0))
        refused(numbacc.ShapeError, "points", run=lambda f=function, a=x: getattr(fft, f)(a.view))


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_dtypes_that_have_no_transform(place, dtype):
    x = place.put(np.ones((4, 6), dtype))
    for function in ONE + MANY:
        refused(numbacc.DTypeError, "a has dtype", "float8", run=lambda f=function: getattr(fft, f)(x))


@pytest.mark.parametrize("function", REAL)
def test_complex_numbers_where_real_ones_are_asked_for(place, function):
    x = place.put(np.ones((4, 6), C))
    refused(numbacc.DTypeError, "complex64", function, "real", run=lambda: getattr(fft, function)(x))


@pytest.mark.parametrize("wrong", [None, 3, [1.0, 2.0], "x"], ids=repr)
def test_no_array(place, wrong):
    for function in ONE + MANY:
        refused(numbacc.DTypeError, "a is a", run=lambda f=function: getattr(fft, f)(wrong))
    x = operand(place, "fft").view
    if wrong is not None:
        refused(numbacc.DTypeError, "out is a", run=lambda: fft.fft(x, out=wrong))


@pytest.mark.parametrize("stream", ["0", -1, 1.5, True, object], ids=repr)
def test_unknown_stream(place, stream):
    refused_by(ONE[:1] + MANY[:1], place, numbacc.OptionError, "stream", stream=stream)


ZERO_RANK = [np.array(1), np.array(1.0), np.array("x"), np.array(None)]


@pytest.mark.parametrize("wrong", [[1], [], "x", 1, 0, None, 1.5, np.array([1.0]), np.ones(3), slice(1)], ids=repr)
def test_overwrite_input_is_true_or_false(place, wrong):
    words = ("overwrite_input=", "neither True nor False")
    refused_by(ONE[:3] + MANY[:1], place, numbacc.OptionError, *words, overwrite_input=wrong)
    x = operand(place, "fft").view
    fft.fft(x, overwrite_input=True)  # 1 has the hash of True: the plan that is there now must not be found
    refused(numbacc.OptionError, "overwrite_input=", run=lambda: fft.fft(x, overwrite_input=wrong))
    assert fft.fft(x, overwrite_input=np.True_).shape == (4, 6)


@pytest.mark.parametrize("wrong", ZERO_RANK, ids=repr)
def test_arrays_without_axes_are_no_sequences(place, wrong):
    refused_by(MANY[:2], place, numbacc.ShapeError, "s=", "integer", s=wrong)
    refused_by(MANY[:2], place, numbacc.ShapeError, "axes=", "integer", axes=wrong)
    x = operand(place, "fft").view
    assert fft.fftn(x, s=np.array([2, 3]), axes=np.array([0, 1])).shape == (2, 3)


@pytest.mark.parametrize("wrong", ["x", 1.5, [1.5], ["x"], *ZERO_RANK[1:], np.ones(1), np.ones(2), len], ids=repr)
def test_axes_of_shifts(place, wrong):
    for function in (fft.fftshift, fft.ifftshift):
        x = operand(place, "fft")
        refused(numbacc.ShapeError, "axes=", "integer", run=lambda f=function, a=x: f(a.view, axes=wrong))
        np.testing.assert_array_equal(place.get(function(x.view, axes=np.array(1))), x.values)


def test_results_that_no_memory_could_hold(place):
    for function in ("fft", "ifft", "irfft", "rfft"):
        x = operand(place, function)
        words = ("result", "too large", "bytes", "n asks for")
        refused(numbacc.ShapeError, *words, run=lambda f=function, a=x: getattr(fft, f)(a.view, n=2**63))
    for function, n in (("fftn", (2**40, 2**40)), ("irfftn", (2**40, 2**40)), ("rfftn", (2**40, 2**41))):
        x = operand(place, function)
        words = ("result", "too large", "bytes", "s asks for")
        refused(numbacc.ShapeError, *words, run=lambda f=function, a=x, s=n: getattr(fft, f)(a.view, s=s))


@pytest.mark.parametrize("function", ONE + MANY)
def test_plans_take_what_the_functions_take(function):
    theirs = inspect.signature(getattr(fft, function).plan).parameters
    ours = {name: p for name, p in inspect.signature(getattr(fft, function)).parameters.items() if name != "stream"}
    assert theirs == ours
    assert getattr(fft, function).plan.__qualname__ == f"{function}.plan"


# ---------------------------------------------------------------- out


def refused_out(place, error, *words, out, function="fft", x=None):
    x = operand(place, function) if x is None else x
    refused(error, *words, run=lambda: getattr(fft, function)(x.view, out=out.view))
    refused(error, *words, run=lambda: getattr(fft, function).plan(x.view, out=out.view)(x.view, out=out.view))
    out.assert_untouched()


def test_out_of_another_shape_or_dtype(place):
    refused_out(place, numbacc.ShapeError, "out", "(4, 5)", "(4, 6)", out=place.empty((4, 5), C))
    refused_out(place, numbacc.ShapeError, "out", "(4, 4)", out=place.empty((4, 6), C), function="rfft")
    refused_out(place, numbacc.DTypeError, "out", "float32", "complex64", out=place.empty((4, 6), F))
    refused_out(place, numbacc.DTypeError, "out", "complex128", out=place.empty((4, 6), np.dtype(np.complex128)))
    refused_out(place, numbacc.DTypeError, "out", out=place.empty((4, 10), np.dtype(np.float64)), function="irfft")


HALVED = ("irfft", "hfft", "irfft2", "irfftn")
COMPLEX = ("complex64", "complex128")
IN_PLACE = [
    *((function, dtype) for function in (*ONE, *MANY) if function not in (*REAL, *HALVED) for dtype in COMPLEX),
    *((function, dtype) for function in HALVED for dtype in ("float32", "float64")),
    *((function, "float16") for function in ("irfft", "hfft")),
]


def points_of(function, shape):
    """The options with which a result has a's shape."""
    return {} if function not in HALVED else {"n": shape[-1]} if function in ONE else {"s": shape, "axes": (0, 1)}


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("function", HALVED)
def test_real_numbers_do_not_go_into_complex_ones(place, function, dtype):
    x = place.operand(np.ones((4, 6), dtype))
    options = {"out": x.view, **points_of(function, (4, 6))}
    refused(numbacc.DTypeError, "out", run=lambda: getattr(fft, function)(x.view, **options))
    x.assert_untouched()


@pytest.mark.parametrize("function, dtype", IN_PLACE)
@pytest.mark.parametrize("shape", [(4, 6), (3, 1), (1, 1), (5, 7)], ids=str)
def test_in_place_wherever_the_result_has_as_shape_and_dtype(place, function, dtype, shape):
    """Also what makes real numbers of real ones; with other lengths than a's, the shape says no."""
    values = np.random.default_rng(1).integers(-9, 9, shape).astype(dtype)
    options = points_of(function, shape)
    want = getattr(np.fft, function)(values.astype("complex128"), **options)
    for order, overwrite in (((0, 1), False), ((1, 0), False), ((0, 1), True)):
        x = place.operand(values, order=order)
        more = {**options, "out": x.view, "overwrite_input": overwrite}
        assert getattr(fft, function)(x.view, **more) is x.view
        tolerance = 2.0**-8 if dtype == "float16" else 1e-5
        np.testing.assert_allclose(x.now(), want, rtol=tolerance, atol=tolerance * np.abs(want).max())


def test_out_that_overlaps(place):
    base = place.operand(np.ones((5, 12), C))
    for a, out in [
        (base.view[:4, :6], base.view[1:, :6]),
        (base.view[:4, :6], base.view[:4, 1:7]),
        (base.view[:4, :6], base.view[:4, :12:2]),
        (base.view[:4, :6], base.view[:4, 5::-1]),
    ]:
        refused(numbacc.LayoutError, "out overlaps a", run=lambda a=a, out=out: fft.fft(a, out=out))
    base.assert_untouched()
    for function, options in (("irfft", {"n": 6}), ("hfft", {"n": 6}), ("irfftn", {"s": (4, 6)})):
        real = place.operand(np.ones((5, 12), F))
        a, out = real.view[:4, :6], real.view[1:, :6]
        words = ("out overlaps a", "in place")
        refused(
            numbacc.LayoutError, *words, run=lambda f=function, a=a, o=options, b=out: getattr(fft, f)(a, out=b, **o)
        )
        real.assert_untouched()
    spectrum, points = base.view[:4, :6], base.view[:4, 6:]
    assert fft.fft(spectrum, out=points) is points


def test_out_with_elements_that_share_memory(place):
    out = place.operand(np.ones((4, 6), C), steps=(0, 1))
    refused(numbacc.LayoutError, "out", "share memory", run=lambda: fft.fft(operand(place, "fft").view, out=out.view))


def test_arrays_that_cannot_be_written(place):
    x, out = place.put(np.ones((4, 6), C)), place.put(np.ones((4, 6), C))
    wrong = place.put(np.ones((4, 6), C))
    if place.is_device:
        wrong._readonly = True
    else:
        wrong.flags.writeable = False
    refused(numbacc.LayoutError, "out is read-only", run=lambda: fft.fft(x, out=wrong))
    refused(numbacc.LayoutError, "a is read-only", run=lambda: fft.irfft(wrong, overwrite_input=True))
    assert fft.fft(wrong, out=out) is out


def test_host_and_device_do_not_mix(device_place):
    here, host = numbacc.asarray(np.ones((4, 6), C)), np.ones((4, 6), C)
    for a, out in ((here, host.copy()), (host, here)):
        refused(numbacc.DeviceError, "out", run=lambda a=a, out=out: fft.fft(a, out=out))


def test_what_follows_out_is_named():
    with pytest.raises(TypeError):
        fft.fft(np.ones(4), None, -1, None, None, True)
