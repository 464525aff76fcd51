"""`linear` and `mlp` against training steps written out by hand in float64."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import bits, refused, sentinel
from gemm_call import combinations
from gemm_oracle import GELU_SLOPE_ERROR
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


#: How x, residual and results may lie in memory: rows evenly spaced or not, and in any order.
LAYOUTS = {
    "dense": {},
    "rows apart": {"margins": ((0, 0), (0, 0), (2, 3))},
    "rows uneven": {"margins": ((0, 0), (0, 1), (0, 0))},
    "turned": {"order": (1, 0, 2)},
    "columns": {"order": (0, 2, 1)},
}


@pytest.mark.each_alone
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("out_layout", LAYOUTS)
@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
def test_rows_lie_anywhere(place, layout, out_layout, activation):
    """linear and mlp read and write what `matmul` does, forward and backward, also x[:, :-1]."""
    shapes = [(2, 3, OUT), (2, 3, IN), (IN, OUT), (OUT,)]
    corner = lambda dy, x, w, bias: x @ w + bias  # noqa: E731
    step = Step(place, linear_by_hand, shapes, "float32", activation, corner)
    dy, x = (place.operand(each.astype(np.float32), **LAYOUTS[layout]).view for each in step.values[:2])
    w, bias = step.arrays[2:]
    out = place.empty((2, 3, OUT), np.dtype(np.float32), **LAYOUTS[out_layout])
    y, saved = gemm.linear(x, w, bias, activation, out=out.view)
    dx = place.empty((2, 3, IN), np.dtype(np.float32), **LAYOUTS[out_layout])
    found = gemm.linear_backward(dy, saved, out=(dx.view, None, None))
    assert y is out.view and found[0] is dx.view
    step.verify([y, *found], ["y", "dx", "dw", "dbias"])
    out.assert_written_only()
    dx.assert_written_only()
    if activation is None:
        return
    step = Step(place, mlp_by_hand, mlp_shapes((2, 3)), "float32", activation, mlp_corner)
    dy, x = (place.operand(each.astype(np.float32), **LAYOUTS[layout]).view for each in step.values[:2])
    out = place.empty((2, 3, OUT), np.dtype(np.float32), **LAYOUTS[out_layout])
    dx = place.empty((2, 3, IN), np.dtype(np.float32), **LAYOUTS[out_layout])
    y, saved = gemm.mlp(x, *step.arrays[2:], activation=activation, out=out.view)
    found = gemm.mlp_backward(dy, saved, out=(dx.view, *[None] * 4))
    step.verify([y, *found], ["y", "dx", "dw1", "db1", "dw2", "db2"])
    out.assert_written_only()
    dx.assert_written_only()


@pytest.mark.each_alone
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("in_place", [False, True])
def test_residual_is_added(place, dtype, activation, has_bias, layout, in_place):
    shapes = [(2, 3, OUT), (2, 3, IN), (IN, OUT), (OUT,) if has_bias else None]
    corner = lambda dy, x, w, bias: x @ w + (0 if bias is None else bias)  # noqa: E731
    step = Step(place, linear_by_hand, shapes, dtype, activation, corner)
    dy, x, w, bias = step.arrays
    values = np.random.default_rng(1).standard_normal((2, 3, OUT)).astype(step.dtype)
    residual = place.operand(values, **LAYOUTS[layout])
    y, saved = gemm.linear(x, w, bias, activation, residual=residual.view, out=residual.view if in_place else None)
    assert (y is residual.view) == in_place
    if not in_place:
        residual.assert_untouched()
    for each in (step.exact, step.rounded):
        each[0] = each[0] + values.astype(np.float64)
    step.rounded[0] = step.rounded[0].astype(step.dtype).astype(np.float64)
    step.verify([y, *gemm.linear_backward(dy, saved)], ["y", "dx", "dw", "dbias"])


def flat_views(place, shapes, dtype, values):
    """Arrays of these shapes that follow each other in one buffer, and the buffer. All hold the same value at first."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    buffer = place.operand(np.full(sum(sizes), values, dtypes.dtype(dtype)), margins=((8, 8),))
    ends = np.cumsum(sizes)
    parts = zip(shapes, sizes, ends, strict=True)
    return [buffer.view[int(end - size) : int(end)].reshape(shape) for shape, size, end in parts], buffer


@pytest.mark.each_alone
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
@pytest.mark.parametrize("layer", ["linear", "mlp"])
@pytest.mark.parametrize("adds", ["none", "all", "weights"])
def test_gradients_are_written_or_added_to_a_flat_buffer(place, dtype, wide, activation, layer, adds):
    """Twice: an added gradient has twice the value, and is not rounded to 16 bits if the buffer is float32."""
    if layer == "linear":
        shapes = [(2, 3, OUT), (2, 3, IN), (IN, OUT), (OUT,)]
        corner = lambda dy, x, w, bias: x @ w + bias  # noqa: E731
        step = Step(place, linear_by_hand, shapes, dtype, activation, corner)
        _, saved = gemm.linear(*step.arrays[1:], activation)
        backward = gemm.linear_backward
    else:
        activation = activation or "relu"
        step = Step(place, mlp_by_hand, mlp_shapes((2, 3)), dtype, activation, mlp_corner)
        _, saved = gemm.mlp(*step.arrays[1:], activation=activation)
        backward = gemm.mlp_backward
    dy, *arrays = step.arrays
    sums = (adds == "all", *[adds != "none"] * (len(arrays) - 1))
    kept = "float32" if wide and step.dtype.itemsize == 2 else dtype
    shapes = [tuple(each.shape) for each in arrays]
    outs, buffer = flat_views(place, shapes, kept, np.where(sums[-1], 0, np.nan))
    if not sums[0]:
        outs[0] = place.empty(shapes[0], dtypes.dtype(kept)).view
    given = tuple(outs)
    for _ in range(2):
        found = backward(dy, saved, out=given, accumulate=all(sums) if len({*sums}) == 1 else sums)
        assert all(one is other for one, other in zip(found, given, strict=True))
    memory = place.get(buffer.base)
    unwritten = bits(np.asarray(sentinel(memory.dtype)))
    assert (bits(memory[:8]) == unwritten).all() and (bits(memory[-8:]) == unwritten).all()
    for number, twice in enumerate(sums):
        for each in (step.exact, step.rounded):
            each[1 + number] = each[1 + number] * (1 + twice)
    if kept == dtype:
        step.verify([None, *found], ["y", *"12345"[: len(found)]])
        return
    for result, exact, rounded in zip(found, step.exact[1:], step.rounded[1:], strict=True):
        now = place.get(result)
        assert now.dtype == np.float32
        # The sums themselves are not rounded to 16 bits; intermediate arrays are.
        allowed = 2 * np.abs(rounded - exact).max() + 2e-6 + GELU_SLOPE_ERROR
        assert np.abs(now - exact).max() <= allowed


def test_what_is_not_accumulated_is_new(place):
    x, w, dy = (place.put(np.ones(shape, np.float32)) for shape in ((3, IN), (IN, OUT), (3, OUT)))
    _, saved = gemm.linear(x, w)
    total = place.put(np.full((IN, OUT), 5, np.float32))
    dx, dw, dbias = gemm.linear_backward(dy, saved, out=(None, total, None), accumulate=True)
    assert dw is total and dbias is None
    np.testing.assert_array_equal(place.get(dw), 8)
    np.testing.assert_array_equal(place.get(dx), OUT)


def test_gradients_that_do_not_fit_are_refused(place):
    def new(*shape, dtype=np.float32):
        return place.put(np.zeros(shape, dtype))

    x, w, bias, dy = new(3, IN), new(IN, OUT), new(OUT), new(3, OUT)
    _, saved = gemm.linear(x, w, bias)
    backward, (_, plain) = gemm.linear_backward, gemm.linear(x, w)
    refused(OptionError, "out must have 3 entries", run=lambda: backward(dy, saved, out=(None, None)))
    refused(OptionError, "out must have 3 entries", run=lambda: backward(dy, saved, out=new(IN, OUT)))
    refused(OptionError, "no bias", run=lambda: backward(dy, plain, out=(None, None, new(OUT))))
    for wrong in (1, "dw", (True, False), (True, False, 1)):
        refused(OptionError, "accumulate", run=lambda wrong=wrong: backward(dy, saved, accumulate=wrong))
    refused(ShapeError, "dw has shape", run=lambda: backward(dy, saved, out=(None, new(OUT, IN), None)))
    double = new(IN, OUT, dtype=np.float64)
    refused(DTypeError, "dw has dtype float64", run=lambda: backward(dy, saved, out=(None, double, None)))
    half = dtypes.dtype("bfloat16")
    narrow = [place.put(np.ones(shape, half)) for shape in ((3, IN), (IN, OUT), (OUT,), (3, OUT))]
    _, of_half = gemm.linear(*narrow[:3])
    mixed = (None, new(IN, OUT), place.put(np.zeros(OUT, half)))
    refused(DTypeError, "dw has dtype float32", "dbias", run=lambda: backward(narrow[3], of_half, out=mixed))
    for name, out in (("x", (x, None, None)), ("w", (None, w, None))):
        refused(LayoutError, "shares memory with", name, run=lambda out=out: backward(dy, saved, out=out))
    flat = new(IN * OUT + OUT)
    both = (None, flat[: IN * OUT].reshape(IN, OUT), flat[:OUT])
    refused(LayoutError, "dbias shares memory with dw", run=lambda: backward(dy, saved, out=both))
    strided = new(2 * OUT)[::2]
    refused(LayoutError, "dbias", "contiguous", run=lambda: backward(dy, saved, out=(None, None, strided)))
    refused(ShapeError, "residual has shape", run=lambda: gemm.linear(x, w, residual=new(OUT, 3)))
    wide = new(3, OUT, dtype=np.float64)
    refused(DTypeError, "residual has dtype float64", run=lambda: gemm.linear(x, w, residual=wide))


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
    uneven = whole[:, ::2, ::2]
    refused(LayoutError, "x has strides", run=lambda: gemm.linear(uneven, w))
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
