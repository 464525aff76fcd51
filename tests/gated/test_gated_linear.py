"""`gated.linear` and its gradients against the product and the gate, in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import refused

from numbacc import gated
from numbacc.base import dtypes
from numbacc.errors import DTypeError, LayoutError, OptionError, ShapeError

pytestmark = pytest.mark.usefixtures("poison")

#: dtype -> error of a result, relative to the largest.
ERRORS = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 0.03}


def normal(shape, dtype, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtypes.dtype(dtype))


def close(place, found, exact, name):
    assert found.dtype == dtypes.dtype(name) and found.shape == exact.shape
    assert np.abs(place.get(found).astype(np.float64) - exact).max() <= ERRORS[name] * np.abs(exact).max()


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("kind", gated.KINDS)
def test_every_kind(place, name, kind):
    """Saved or not, both orders of the gate, batches; results in given arrays."""
    for gate, lengths in (("second", (5,)), ("first", (2, 3))):
        x, w, dy = (normal(shape, name, k) for k, shape in enumerate(((*lengths, 7), (7, 12), (*lengths, 6))))
        wide = [each.astype(np.float64) for each in (x, w, dy)]
        product = wide[0] @ wide[1]
        forward = gated.forward(product, kind, gate=gate)
        slopes = gated.backward(wide[2], product, kind, gate=gate)
        exact = slopes @ wide[1].T, wide[0].reshape(-1, 7).T @ slopes.reshape(-1, 12)
        given = [place.put(each) for each in (x, w, dy)]
        out = place.empty(
            (*lengths, 6), dtypes.dtype(name), **({"margins": ((1, 0), (0, 3))} if gate == "second" else {})
        )
        assert gated.linear(*given[:2], kind, gate=gate, out=out.view) is out.view
        close(place, out.view, forward, name)
        out.assert_written_only()
        y, saved = gated.linear(*given[:2], kind, gate=gate, return_saved=True)
        close(place, y, forward, name)
        dw = place.empty(w.shape, w.dtype)
        for found in (
            gated.linear_backward(given[2], saved),
            gated.linear.backward(given[2], *given[:2], kind, gate=gate, out=(None, dw.view)),
        ):
            for one, other in zip(found, exact, strict=True):
                close(place, one, other, name)
        assert found[1] is dw.view


def test_registered_kinds(place, monkeypatch):
    for name in ("_own", "_outside"):
        monkeypatch.setattr(gated, name, {})
    gated.register("sineglu", lambda b: b * math.sin(b))
    x, w = normal((5, 7), "float32", 0), normal((7, 12), "float32", 1)
    found = gated.linear(place.put(x), place.put(w), "sineglu")
    close(place, found, gated.forward(x.astype(np.float64) @ w.astype(np.float64), "sineglu"), "float32")


def test_errors(place):
    x, w, dy = (place.put(normal(shape, "float32", 0)) for shape in ((5, 7), (7, 12), (5, 6)))
    odd, other = place.put(np.ones((7, 5), np.float32)), place.put(np.ones((7, 12), np.float64))
    refused(ShapeError, "w has shape (7, 5)", "two halves", run=lambda: gated.linear(x, odd))
    refused(ShapeError, "x has shape (5, 7)", "w.T", run=lambda: gated.linear(x, w.T))
    refused(DTypeError, "w has dtype float64", run=lambda: gated.linear(x, other))
    refused(OptionError, "kind", "swiglu", run=lambda: gated.linear(x, w, "swigul"))
    refused(ShapeError, "out has shape", run=lambda: gated.linear(x, w, out=w))
    square = place.put(np.ones((7, 14), np.float32))
    rows = place.put(np.ones((7, 7), np.float32))
    refused(
        LayoutError, "out shares memory with x", run=lambda: gated.linear(rows, square, out=rows, return_saved=True)
    )
    _, saved = gated.linear(x, w, return_saved=True)
    refused(ShapeError, "dy has shape", "(5, 6)", run=lambda: gated.linear_backward(x, saved))
    refused(OptionError, "w is missing", run=lambda: gated.linear_backward(dy, x))
    refused(OptionError, "kind is given", run=lambda: gated.linear_backward(dy, saved, kind="glu"))
    refused(OptionError, "2 entries", run=lambda: gated.linear_backward(dy, saved, out=dy))
