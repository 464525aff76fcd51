"""Backward products against central differences through the real forward, in float64."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import refused
from gemm_call import Call

import numbacc
from numbacc import gemm

pytestmark = pytest.mark.usefixtures("poison")

STEP = 2.0**-17
M, N, K, OUT = 3, 4, 5, 2


class Layer:
    """loss = the sum of w * (act(a b + c + bias) v): numbers for all of them, and its differences."""

    def __init__(self, place, activation, has_bias):
        rng = np.random.default_rng(7)
        self.place, self.activation = place, activation
        self.kind = f"{activation}_aux" + "_bias" * has_bias
        shapes = {"a": (M, K), "b": (K, N), "c": (M, N), "bias": (N,), "v": (N, OUT), "w": (M, OUT)}
        self.values = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
        if not has_bias:
            self.values["bias"] = np.zeros(N)
        # ReLU has a corner at 0, which no difference may step across.
        z = self.values["a"] @ self.values["b"] + self.values["c"] + self.values["bias"]
        self.values["c"][np.abs(z) < 0.05] += 0.2
        self.options = {"bias": place.put(self.values["bias"])} if has_bias else {}

    def forward(self, c):
        """The product for one c, or for a batch of them."""
        a = np.broadcast_to(self.values["a"], (*c.shape[:-2], M, K))
        a, b = (self.place.put(np.ascontiguousarray(array)) for array in (a, self.values["b"]))
        return gemm.matmul(a, b, c=self.place.put(c), beta=1.0, epilogue=self.kind, **self.options)

    def losses(self, changes):
        """The loss for each of some changes of c, all in one batch."""
        hidden = self.place.get(self.forward(self.values["c"] + changes).out)
        return np.einsum("smo,mo->s", hidden @ self.values["v"], self.values["w"])

    def slopes(self, directions):
        """The derivatives of the loss along some directions of c."""
        ahead, behind = (self.losses(sign * STEP * directions) for sign in (1, -1))
        return (ahead - behind) / (2 * STEP)


@pytest.mark.parametrize("has_bias", [False, True], ids=["without bias", "bias"])
@pytest.mark.parametrize("with_bgrad", [False, True], ids=["", "bgrad"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_derivative_of_an_activation(place, activation, with_bgrad, has_bias):
    """aux of the forward feeds the backward; c's gradient is that of z, and bias's its sum over rows."""
    layer = Layer(place, activation, has_bias)
    aux = layer.forward(layer.values["c"]).aux
    w, v = (place.put(layer.values[name]) for name in "wv")
    answer = gemm.matmul(w, v.T, aux=aux, epilogue=f"d{activation}" + "_bgrad" * with_bgrad)
    dz = place.get(answer.out if with_bgrad else answer)
    elements = np.eye(M * N).reshape(-1, M, N)
    np.testing.assert_allclose(dz.ravel(), layer.slopes(elements), rtol=1e-8, atol=1e-9)
    if with_bgrad:
        columns = np.broadcast_to(np.eye(N)[:, None, :], (N, M, N))
        np.testing.assert_allclose(place.get(answer.bias_grad), layer.slopes(columns), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kind", ["bgrada", "bgradb"])
def test_the_gradient_of_a_bias_rides_on_that_of_the_weights(place, kind):
    """y = x w + bias, loss = the sum of dy * y: bias is differentiated through the "bias" epilogue."""
    rng = np.random.default_rng(8)
    x, w, bias, dy = (rng.standard_normal(shape) for shape in ((M, K), (K, N), (N,), (M, N)))

    def loss(x, w, bias):
        y = gemm.matmul(place.put(x), place.put(w), bias=place.put(bias), epilogue="bias")
        return (dy * place.get(y)).sum()

    def slope(argument, index):
        values = [x, w, bias]
        sides = []
        for sign in (1, -1):
            changed = values[argument].copy()
            changed[index] += sign * STEP
            sides.append(loss(*values[:argument], changed, *values[argument + 1 :]))
        return (sides[0] - sides[1]) / (2 * STEP)

    if kind == "bgradb":  # dw = xᵀ dy, and dy's sum over k, its rows
        dw, dbias = gemm.matmul(place.put(x).T, place.put(dy), epilogue=kind)
        dw = place.get(dw)
    else:  # its transpose
        dw, dbias = gemm.matmul(place.put(dy).T, place.put(x), epilogue=kind)
        dw = place.get(dw).T
    want = np.array([slope(2, i) for i in range(N)])
    np.testing.assert_allclose(place.get(dbias), want, rtol=1e-8, atol=1e-9)
    indices = [(0, 0), (K - 1, N - 1)] if place.is_slow else list(np.ndindex(K, N))
    np.testing.assert_allclose([dw[i] for i in indices], [slope(1, i) for i in indices], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_forward_with_aux_is_forward(place, activation):
    """Keeping aux changes nothing in the result; GELU's aux is what the plain product gives."""
    for dtype in ("float32", "float64"):
        call = Call(place, (3, 10, 4), f"{activation}_aux_bias", dtype)
        bias, a, b = (call.operands[name].view for name in ("bias", "a", "b"))
        out, aux = call.results(call.run())
        plain = place.get(gemm.matmul(a, b, bias=bias, epilogue=f"{activation}_bias"))
        z = place.get(gemm.matmul(a, b, bias=bias, epilogue="bias"))
        close = {"rtol": 1e-5 if dtype == "float32" else 1e-13, "atol": 1e-6 if dtype == "float32" else 1e-13}
        np.testing.assert_allclose(out, plain, **close)
        if activation == "gelu":
            np.testing.assert_allclose(aux, z, **close)


@pytest.mark.parametrize("kind", ["bgrada", "bgradb", "drelu_bgrad", "dgelu_bgrad"])
def test_the_gradient_of_a_bias_is_written_to_a_given_array(place, kind):
    """With the product or without, and by plans."""
    rng = np.random.default_rng(9)
    a, b = (place.put(rng.standard_normal(shape).astype(np.float32)) for shape in ((6, 5), (5, 8)))
    more = {"epilogue": kind}
    if kind[0] == "d":
        more["aux"] = gemm.matmul(a, b, epilogue=f"{kind[1:5]}_aux").aux
    wanted = [place.get(each) for each in gemm.matmul(a, b, **more)]
    out, grad = place.empty(wanted[0].shape, np.dtype("f4")), place.empty(wanted[1].shape, np.dtype("f4"))
    plan = gemm.matmul.plan(a, b, out=(out.view, grad.view), **more)
    for call in (lambda **o: gemm.matmul(a, b, **more, **o), lambda **o: plan(a, b, aux=more.get("aux"), **o)):
        out, grad = place.empty(wanted[0].shape, np.dtype("f4")), place.empty(wanted[1].shape, np.dtype("f4"))
        found = call(out=(out.view, grad.view))
        assert found.out is out.view and found.bias_grad is grad.view
        for each, values in zip((out, grad), wanted, strict=True):
            np.testing.assert_array_equal(each.now(), values)
            each.assert_written_only()
    grad = place.empty(wanted[1].shape, np.dtype("f4"))
    found = gemm.matmul(a, b, out=(None, grad.view), **more)
    assert found.bias_grad is grad.view
    for each, values in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(place.get(each), values)
    assert gemm.matmul(a, b, out=(out.view, None), **more).out is out.view
    right, (n,) = out.view, wanted[1].shape
    refused(numbacc.ShapeError, "out[1]", run=lambda: call(out=(right, place.empty((n + 1,), np.dtype("f4")).view)))
    refused(numbacc.DTypeError, "out[1]", run=lambda: call(out=(right, place.empty((n,), np.dtype("f8")).view)))
    strided = place.empty((n,), np.dtype("f4"), steps=(2,)).view
    refused(numbacc.LayoutError, "contiguous", run=lambda: call(out=(right, strided)))
    refused(numbacc.DTypeError, "out is a tuple", run=lambda: call(out=(right, grad.view, grad.view)))
    refused(numbacc.OptionError, "no bias_grad", run=lambda: gemm.matmul(a, b, out=(right, grad.view)))
