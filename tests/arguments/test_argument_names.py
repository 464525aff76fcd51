"""Messages call a wrong argument what the user calls it, of functions and of their plans."""

from __future__ import annotations

import re

import numpy as np
import pytest
from wrong_arguments import HUGE

import numbacc
from numbacc import conv, fft, gated, gemm


def says(error, start, run):
    with pytest.raises(error, match="^" + re.escape(start)):
        run()


@pytest.fixture
def x(place):
    return place.put(np.ones((2, 4), np.float32))


@pytest.fixture
def square(place):
    return place.put(np.ones((2, 2), np.float32))


@pytest.mark.parametrize("function", [gemm.matmul, gemm.matmul.plan])
def test_dtypes_that_a_product_has_not(place, square, function):
    wide = place.put(np.ones((2, 2)))
    says(numbacc.DTypeError, "out has dtype float64; the result of float32", lambda: function(square, square, out=wide))
    says(numbacc.DTypeError, "out_dtype is float64; the", lambda: function(square, square, out_dtype="float64"))


@pytest.mark.parametrize(
    "wrong", [10**400, HUGE, 1, 1.5, True, np.float32(1), [1], "x"], ids=lambda w: type(w).__name__
)
def test_arrays_of_a_products_plan(square, wrong):
    plan = gemm.matmul.plan(square, square)
    given = gemm.matmul.plan(square, square, out=square[:] if isinstance(square, np.ndarray) else square)
    for name, run in {
        "a": lambda: plan(wrong, square), "b": lambda: plan(square, wrong), "c": lambda: plan(square, square, c=wrong),
        "bias": lambda: plan(square, square, bias=wrong), "aux": lambda: plan(square, square, aux=wrong),
        "out": lambda: given(square, square, out=wrong), "amax_d": lambda: plan(square, square, amax_d=wrong),
    }.items():  # fmt: skip
        says(numbacc.DTypeError, f"{name} is a {type(wrong).__name__}; it must be an array", run)


@pytest.mark.parametrize("name", ["alpha", "beta", "scale_a"])
def test_numbers_beyond_a_float64(square, name):
    for function in (gemm.matmul, gemm.matmul.plan(square, square)):
        for number in (10**400, HUGE, -HUGE):
            says(numbacc.OptionError, f"{name}=", lambda f=function, n=number: f(square, square, **{name: n}))


@pytest.mark.parametrize("wrong", [10**400, 1, True, [1], "x"], ids=lambda w: type(w).__name__)
def test_arrays_of_plans_of_convolutions(place, wrong):
    x, w, dy, bias = (place.put(np.ones(s, np.float32)) for s in ((1, 2, 6), (3, 2, 3), (1, 3, 4), (3,)))
    forward = conv.forward.plan(x, w, bias, layout="NCW")
    given = conv.forward.plan(x, w, layout="NCW", out=dy)
    data = conv.backward_data.plan(dy, w, x.shape, layout="NCW")
    kernels = conv.backward_filter.plan(x, dy, w.shape, layout="NCW")
    for name, run in {
        "x": lambda: forward(wrong, w, bias), "w": lambda: forward(x, wrong, bias),
        "bias": lambda: forward(x, w, wrong), "out": lambda: given(x, w, out=wrong), "dy": lambda: data(wrong, w),
    }.items():  # fmt: skip
        says(numbacc.DTypeError, f"{name}{'[0]' * (name == 'out' and type(wrong) is list)} is a", run)
    says(numbacc.DTypeError, "dy is a", lambda: kernels(x, wrong))


def test_axes_of_transforms_and_their_plans(x):
    for function in (fft.fft, fft.ifft, fft.fft.plan, fft.ifft.plan):
        says(numbacc.ShapeError, "axis='x'", lambda f=function: f(x, axis="x"))
        says(numbacc.ShapeError, "axis=2 is out of range", lambda f=function: f(x, axis=2))
    for function in (fft.fftn, fft.ifft2, fft.fftn.plan, fft.ifft2.plan):
        says(numbacc.ShapeError, "axes='x'", lambda f=function: f(x, axes="x"))
        says(numbacc.ShapeError, "axes=5 is out of range", lambda f=function: f(x, axes=(0, 5)))
        says(numbacc.ShapeError, "s='x'", lambda f=function: f(x, s="x"))
        says(numbacc.ShapeError, "s=(4,) has", lambda f=function: f(x, s=(4,), axes=(0, 1)))
    for function in (fft.fftshift, fft.ifftshift):
        for axes in (2, (0, 2)):
            says(numbacc.ShapeError, "axes=2 is out of range", lambda f=function, a=axes: f(x, axes=a))
        says(numbacc.ShapeError, "axes='x'", lambda f=function: f(x, axes="x"))


@pytest.mark.parametrize("wrong", [[1], (1,), [], [[1, 2], [3, 4]], 1, "x", None], ids=str)
def test_arrays_of_plans_of_activations(place, x, wrong):
    half = place.put(np.ones((2, 2), np.float32))
    kind = type(wrong).__name__
    plan, back = gated.forward.plan(x), gated.backward.plan(half, x)
    says(numbacc.DTypeError, f"x is a {kind}", lambda: plan(wrong))
    says(numbacc.DTypeError, f"dy is a {kind}", lambda: back(wrong, x))
    says(numbacc.DTypeError, f"x is a {kind}", lambda: back(half, wrong))
    paired = gated.backward.plan(half, (half, half))
    says(numbacc.DTypeError, f"x[1] is a {kind}", lambda: paired(half, (half, wrong)))
    says(numbacc.LayoutError, "this plan of gated.forward was made for x; it", lambda: plan(x, x))
    says(
        numbacc.LayoutError,
        "this plan of gated.backward was made for dy, x[0], x[1]; it",
        lambda: paired(half, (half,)),
    )


@pytest.mark.parametrize("wrong", [1, "x", None, {}], ids=str)
def test_out_in_a_list(place, x, wrong):
    """Where there is one result, a list of one is taken, too."""
    half = place.put(np.ones((2, 2), np.float32))
    kind = type(wrong).__name__
    says(numbacc.DTypeError, f"out[0] is a {kind}", lambda: gated.forward(x, out=[wrong]))
    says(numbacc.DTypeError, f"out[1] is a {kind}", lambda: gated.backward(half, (half, half), out=(half, wrong)))
    plan = gated.forward.plan(x, out=half)
    says(numbacc.DTypeError, f"out[0] is a {kind}", lambda: plan(x, out=[wrong]))
    for out in ([half], (half,)):
        assert gated.forward(x, out=out) is out and plan(x, out=out) is out
