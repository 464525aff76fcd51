"""`linear` and `mlp` against training steps written out by hand in float64."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import refused
from gemm_call import combinations
from layer_oracle import Step, linear_by_hand, mlp_by_hand

import numbacc
from numbacc import gemm
from numbacc.base import dtypes
from numbacc.errors import DeviceError, DTypeError, LayoutError, OptionError, ShapeError

pytestmark = pytest.mark.usefixtures("poison")

DTYPES = ("float32", "float64", "float16", "bfloat16")
#: Leading dimensions of x.
BATCHES = {"rank 1": (), "rank 2": (5,), "rank 3": (2, 3)}
IN, HIDDEN, OUT = 6, 11, 4


# ---------------------------------------------------------------- linear


@combinations(5, activation=(None, "relu", "gelu"), has_bias={"": False, "bias": True}, batch=BATCHES, dtype=DTYPES)
def test_linear(place, activation, has_bias, batch, dtype):
    shapes = [(*batch, OUT), (*batch, IN), (IN, OUT), (OUT,) if has_bias else None]

    def corner(dy, x, w, bias):
        return x @ w + (0 if bias is None else bias)

    step = Step(place, linear_by_hand, shapes, dtype, activation, corner)
    dy, x, w, bias = step.arrays
    y, saved = gemm.linear(x, w, bias, activation)
    dx, dw, dbias = gemm.linear_backward(dy, saved)
    assert (dbias is None) == (bias is None)
    step.verify([y, dx, dw, dbias], ["y", "dx", "dw", "dbias"])
    assert type(y) is type(x)


def test_linear_writes_to_out(place):
    x, w = (place.put(np.ones(shape, np.float32)) for shape in ((2, 3, IN), (IN, OUT)))
    out = place.empty((2, 3, OUT), np.dtype(np.float32))
    y, _ = gemm.linear(x, w, activation="relu", out=out.view)
    assert y is out.view
    np.testing.assert_array_equal(out.now(), np.full((2, 3, OUT), IN))


def test_out_that_lies_on_what_is_kept_is_refused(place):
    """The first product has read x and w1 when the second writes, but mlp_backward needs them."""
    x, w1, w2 = (place.put(np.ones((IN, IN), np.float32)) for _ in range(3))
    b1, b2 = (place.put(np.ones(IN, np.float32)) for _ in range(2))
    for name, out in (("x", x), ("w1", w1), ("w2", w2)):
        refused(LayoutError, "out shares memory", name, run=lambda out=out: gemm.mlp(x, w1, b1, w2, b2, out=out))
    for array in (x, w1, w2):
        np.testing.assert_array_equal(place.get(array), 1)


def test_out_that_is_no_rows_is_refused(place):
    """It is never written to a copy."""
    x, w = (place.put(np.ones(shape, np.float32)) for shape in ((2, 3, IN), (IN, OUT)))
    w2, b1, b2 = (place.put(np.ones(shape, np.float32)) for shape in ((OUT, OUT), (OUT,), (OUT,)))
    for layout in ({"order": (1, 0, 2)}, {"margins": ((0, 0), (0, 1), (0, 0))}):
        out = place.empty((2, 3, OUT), np.dtype(np.float32), **layout)
        refused(LayoutError, "strides", run=lambda out=out: gemm.linear(x, w, out=out.view))
        refused(LayoutError, "strides", run=lambda out=out: gemm.mlp(x, w, b1, w2, b2, out=out.view))
        out.assert_untouched()


def test_rows_of_x_may_be_apart(place):
    wide = place.put(np.arange(4 * 8, dtype=np.float32).reshape(4, 8))
    w = place.put(np.eye(5, 3, dtype=np.float32))
    y, saved = gemm.linear(wide[:, 1:6], w)
    np.testing.assert_array_equal(place.get(y), place.get(wide)[:, 1:4])
    _, dw, _ = gemm.linear_backward(place.put(np.ones((4, 3), np.float32)), saved)
    np.testing.assert_array_equal(place.get(dw), np.repeat(place.get(wide)[:, 1:6].sum(0)[:, None], 3, 1))


# ---------------------------------------------------------------- mlp


def mlp_shapes(batch):
    return [(*batch, OUT), (*batch, IN), (IN, HIDDEN), (HIDDEN,), (HIDDEN, OUT), (OUT,)]


def mlp_corner(dy, x, w1, b1, w2, b2):
    return x @ w1 + b1


@combinations(5, activation=("gelu", "relu"), batch=BATCHES, dtype=DTYPES)
def test_mlp(place, activation, batch, dtype):
    step = Step(place, mlp_by_hand, mlp_shapes(batch), dtype, activation, mlp_corner)
    dy, *arguments = step.arrays
    y, saved = gemm.mlp(*arguments, activation=activation)
    grads = gemm.mlp_backward(dy, saved)
    step.verify([y, *grads], ["y", "dx", "dw1", "db1", "dw2", "db2"])


def test_mlp_writes_to_out(place):
    step = Step(place, mlp_by_hand, mlp_shapes((2, 3)), "float32", "gelu", mlp_corner)
    out = place.empty((2, 3, OUT), np.dtype(np.float32))
    y, _ = gemm.mlp(*step.arrays[1:], out=out.view)
    assert y is out.view
    step.verify([out.view, *[None] * 5], ["y", *"....."])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_mlp_is_six_products_and_no_other_kernel(dtype, activation):
    rng = np.random.default_rng(0)

    def put(*shape):
        return numbacc.asarray(rng.standard_normal(shape, np.float32).astype(dtypes.dtype(dtype)))

    x, dy, w1, b1, w2, b2 = put(32, 64), put(32, 16), put(64, 128), put(128), put(128, 16), put(16)
    gemm.cache_clear()
    y, saved = gemm.mlp(x, w1, b1, w2, b2, activation)
    gemm.mlp_backward(dy, saved)
    chosen = gemm.algorithms()
    assert all(algorithm is not None for _, algorithm in chosen)
    name = activation.upper()
    # A row-major bgradb is cuBLASLt's BGRADA.
    wanted = [f"{name}_AUX_BIAS", "BIAS", "BGRADA", f"D{name}", "BGRADA", "DEFAULT"]
    assert sorted(choice.product.epilogue for choice, _ in chosen) == sorted(wanted)
    plans = (
        gemm.matmul.plan(x, w1, bias=b1, epilogue=f"{activation}_aux_bias"),
        gemm.matmul.plan(dy, w2.T, aux=saved.aux, epilogue=f"d{activation}"),
        gemm.matmul.plan(saved.hidden.T, dy, epilogue="bgradb"),
    )
    assert [plan.info.backend for plan in plans] == ["cublasLt"] * 3
    del y


# ---------------------------------------------------------------- training


@pytest.mark.parametrize("dtype, close", [("float64", 1e-11), ("float32", 2e-4)])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_steps_of_gradient_descent(place, activation, dtype, close):
    """Weights of an mlp and a linear layer on top, after a few steps, as by hand in float64."""
    rng = np.random.default_rng(4)
    rows, steps, rate = 7, 2 if place.is_slow else 10, 0.05
    x, target = rng.standard_normal((rows, IN)), rng.standard_normal((rows, 3))
    shapes = ((IN, HIDDEN), (HIDDEN,), (HIDDEN, OUT), (OUT,), (OUT, 3), (3,))
    exact = [0.5 * rng.standard_normal(shape) for shape in shapes]
    ours = [w.astype(dtype) for w in exact]
    first = last = None
    for _ in range(steps):
        device = [place.put(w) for w in ours]
        h, saved_mlp = gemm.mlp(place.put(x.astype(dtype)), *device[:4], activation=activation)
        y, saved = gemm.linear(h, *device[4:], activation)
        error = place.get(y) - target.astype(dtype)
        dh, dw, db = gemm.linear_backward(place.put(error), saved)
        _, *grads = gemm.mlp_backward(dh, saved_mlp)
        ours = [w - dtypes.dtype(dtype).type(rate) * place.get(g) for w, g in zip(ours, (*grads, dw, db), strict=True)]

        keep = lambda array: array  # noqa: E731
        zeros = np.zeros((rows, OUT))
        h, *_ = mlp_by_hand(zeros, x, *exact[:4], activation, keep)
        y, *_ = linear_by_hand(target, h, *exact[4:], activation, keep)
        last = ((y - target) ** 2).sum()
        first = last if first is None else first
        _, dh, dw, db = linear_by_hand(y - target, h, *exact[4:], activation, keep)
        _, _, *grads = mlp_by_hand(dh, x, *exact[:4], activation, keep)
        exact = [w - rate * g for w, g in zip(exact, (*grads, dw, db), strict=True)]
    assert last < first
    for one, other in zip(ours, exact, strict=True):
        np.testing.assert_allclose(one, other, rtol=close, atol=close)


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("activation", ["GELU", "tanh", "", 3, ["relu"]], ids=repr)
def test_unknown_activation(place, activation):
    x, w, b = (place.put(np.ones(shape, np.float32)) for shape in ((3, 4), (4, 4), (4,)))
    words = ("activation", repr(activation), "relu", "gelu")
    refused(OptionError, *words, run=lambda: gemm.linear(x, w, b, activation))
    refused(OptionError, *words, run=lambda: gemm.mlp(x, w, b, w, b, activation))


def test_mlp_needs_an_activation_and_biases(place):
    x, w, b = (place.put(np.ones(shape, np.float32)) for shape in ((3, 4), (4, 4), (4,)))
    refused(OptionError, "activation=None", run=lambda: gemm.mlp(x, w, b, w, b, None))
    refused(OptionError, "bias", run=lambda: gemm.mlp(x, w, None, w, b))
    refused(OptionError, "bias", run=lambda: gemm.mlp(x, w, b, w, None))


def test_shapes_of_layers(place):
    x, w, b, scalar = (place.put(np.ones(shape, np.float32)) for shape in ((3, 4), (4, 5), (5,), ()))
    refused(ShapeError, (4, 3), (4, 5), run=lambda: gemm.linear(place.put(np.ones((4, 3), np.float32)), w))
    refused(ShapeError, "bias", (4,), (5,), run=lambda: gemm.linear(x, w, place.put(np.ones(4, np.float32))))
    refused(ShapeError, "x has rank 0", run=lambda: gemm.linear(scalar, w))
    refused(ShapeError, "x has rank 0", run=lambda: gemm.mlp(scalar, w, b, w, b))


def test_strides_of_no_matrix_are_told_by_name(place):
    """The message has the name of the layer's argument, not of the product's."""
    whole = place.put(np.ones((2, 6, 8)))
    x, w, bias, square = whole[0, :, :4], *(place.put(np.ones(s)) for s in ((4, 3), (3,), (3, 3)))
    apart, wide = place.put(np.ones((8, 6)))[::2, ::2], place.put(np.ones(4))
    refused(LayoutError, "w has strides", run=lambda: gemm.linear(x, apart))
    refused(LayoutError, "w1 has strides", run=lambda: gemm.mlp(x, apart, bias, square, bias))
    refused(LayoutError, "w2 has strides", run=lambda: gemm.mlp(x, place.put(np.ones((4, 4))), wide, apart, bias))
    uneven = whole[:, :3, :4]
    refused(LayoutError, "x has strides", "evenly spaced", run=lambda: gemm.linear(uneven, w))
    dy, saved = place.put(np.ones((12, 6)))[::2, ::2], gemm.linear(x, w)[1]
    refused(LayoutError, "dy has strides", run=lambda: gemm.linear_backward(dy, saved))
    saved = gemm.mlp(x, w, bias, square, bias)[1]
    refused(LayoutError, "dy has strides", run=lambda: gemm.mlp_backward(dy, saved))


@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
def test_dy_is_as_y_was(place, activation):
    x, w = (place.put(np.ones(shape, np.float32)) for shape in ((3, 4), (4, 5)))
    w2, b1, b2 = (place.put(np.ones(shape, np.float32)) for shape in ((5, 5), (5,), (5,)))
    _, saved = gemm.linear(x, w, activation=activation)
    cases = [(lambda dy: gemm.linear_backward(dy, saved))]
    if activation:
        _, saved_mlp = gemm.mlp(x, w, b1, w2, b2, activation)
        cases.append(lambda dy: gemm.mlp_backward(dy, saved_mlp))
    for backward in cases:
        for shape in ((5, 3), (15,), (1, 3, 5)):
            dy = place.put(np.ones(shape, np.float32))
            refused(ShapeError, "dy", shape, (3, 5), run=lambda dy=dy, backward=backward: backward(dy))
        for dtype in ("float64", "bfloat16", "int32"):
            dy = place.put(np.ones((3, 5), dtypes.dtype(dtype)))
            with pytest.raises(DTypeError, match=dtype):
                backward(dy)
        with pytest.raises(DTypeError, match="dy"):
            backward(1.0)
        if place.is_device:
            with pytest.raises(DeviceError):
                backward(np.ones((3, 5), np.float32))
