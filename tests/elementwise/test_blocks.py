"""Transformers' blocks beside products and norms: rotary embedding, dropout, activations of sums."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from block_cases import (
    FLOATS,
    floats,
    near,
)
from conftest import refused
from hypothesis import given
from hypothesis import strategies as st

import numbacc
from numbacc import elementwise as ew
from numbacc.elementwise.transformer import ACTIVATIONS
from numbacc.kernels.elementwise import other_launches

pytestmark = pytest.mark.usefixtures("small_reductions")

# ---------------------------------------------------------------- rotary embedding


@floats
@pytest.mark.parametrize("interleaved", [False, True])
def test_rope(place, dtype, interleaved):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 10, 16)).astype(dtype)
    angle = np.arange(10)[:, None] * 10000.0 ** (-2 * np.arange(8) / 16)
    table = "float64" if dtype == "float64" else "float32"
    cos, sin = ew.rope_tables(10, 16, dtype=table, device=None if place.is_device else "cpu")
    np.testing.assert_allclose(place.get(cos), np.cos(angle), atol=1e-7)
    np.testing.assert_allclose(place.get(sin), np.sin(angle), atol=1e-7)
    wide = x.astype(np.float64)
    a, b = (wide[..., 0::2], wide[..., 1::2]) if interleaved else (wide[..., :8], wide[..., 8:])
    turned = (a + 1j * b) * (place.get(cos).astype(float) + 1j * place.get(sin))
    wanted = np.stack([turned.real, turned.imag], axis=-1)
    wanted = wanted.reshape(x.shape) if interleaved else np.concatenate([turned.real, turned.imag], axis=-1)
    here = place.put(x)
    found = ew.rope(here, cos, sin, interleaved=interleaved)
    near(place.get(found), wanted, dtype, ulps=4)
    # Turned back, it is what it was; and positions before heads are the same.
    near(place.get(ew.rope_backward(found, cos, sin, interleaved=interleaved)), wide, dtype, ulps=8)
    moved = ew.rope(here.transpose((0, 2, 1, 3)), cos[:, None], sin[:, None], interleaved=interleaved)
    np.testing.assert_array_equal(place.get(moved).transpose((0, 2, 1, 3)), place.get(found))
    assert ew.rope(here, cos, sin, interleaved=interleaved, out=here) is here
    np.testing.assert_array_equal(place.get(here), place.get(found))


def test_what_cannot_be_turned(place):
    x, table = place.put(np.ones((3, 6))), place.put(np.ones((3, 3)))
    refused(numbacc.ShapeError, "odd length", run=lambda: ew.rope(x[:, :5], table, table))
    refused(numbacc.ShapeError, "cos", run=lambda: ew.rope(x, table[:2], table))
    refused(numbacc.ShapeError, "sin", "broadcast to", run=lambda: ew.rope(x[:1], table[:1], table))
    refused(numbacc.DTypeError, "x has dtype", run=lambda: ew.rope(place.put(np.ones((3, 6), int)), table, table))
    refused(numbacc.LayoutError, "in part", run=lambda: ew.rope(x[:, :4], table[:, :2], table[:, :2], out=x[:, 1:5]))
    refused(numbacc.OptionError, "dim=3", run=lambda: ew.rope_tables(4, 3))


# ---------------------------------------------------------------- dropout


@given(st.data())
def test_dropout_drops_what_the_generator_drops(place, data):
    shape = data.draw(st.lists(st.integers(0, 9 if place.is_slow else 70), min_size=1, max_size=3))
    dtype = np.dtype(data.draw(st.sampled_from(FLOATS)))
    seed, p = data.draw(st.integers(0, 2**64 - 1)), data.draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    offset = data.draw(st.sampled_from([0, 4, 1000, 2**40]))
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    generator = numbacc.random.Generator("philox", seed, device="cpu", offset=offset)
    mask = generator.dropout_mask(p, tuple(shape), dtype="bool")
    real = np.float64 if dtype == np.float64 else np.float32
    scale = real(1 / (1 - p)) if p < 1 else real(0)
    wanted = np.where(mask, (x.astype(real) * scale).astype(dtype), dtype.type(0))
    here = place.put(x)
    out = place.empty(tuple(shape), dtype)
    ew.dropout(here, p, seed=seed, offset=offset, out=out.view)
    np.testing.assert_array_equal(place.get(out.view), wanted)
    # By an array of the offset; backwards; of a view whose C order is another one than memory's; in place.
    later = place.put(np.array([offset + 3]))
    np.testing.assert_array_equal(place.get(ew.dropout(here, p, seed=seed, offset=later)), wanted)
    np.testing.assert_array_equal(place.get(ew.dropout_backward(here, p, seed=seed, offset=offset)), wanted)
    turned = place.put(np.asfortranarray(x))
    np.testing.assert_array_equal(place.get(ew.dropout(turned, p, seed=seed, offset=offset)), wanted)
    if x.size:
        assert ew.dropout(here, p, seed=seed, offset=offset, out=here) is here
        np.testing.assert_array_equal(place.get(here), wanted)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("more", [-9, 0, 1, 37])
@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
def test_dropout_in_pieces_apart(place, monkeypatch, dtype, more, p):
    """Of 16 bits a thread has four accesses, a block's width apart, up to where the array ends in one of them."""
    monkeypatch.setattr(other_launches, "_MANY", 1)
    if place.is_slow:
        monkeypatch.setattr(other_launches, "MAX_THREADS", 4)
    ew.cache_clear()
    size = 3 * (64 if place.is_slow else 2048) + more
    x = np.random.default_rng(0).normal(size=size).astype(dtype)
    x[::5] = np.nan
    mask = numbacc.random.Generator("philox", 5, device="cpu", offset=8).dropout_mask(p, size, dtype="bool")
    scale = np.float32(1 / (1 - p)) if p < 1 else np.float32(0)
    wanted = np.where(mask, (x.astype(np.float32) * scale).astype(dtype), dtype(0))
    out = place.empty((size,), np.dtype(dtype))
    ew.dropout(place.put(x), p, seed=5, offset=8, out=out.view)
    np.testing.assert_array_equal(place.get(out.view).astype(np.float32), wanted.astype(np.float32))
    ew.cache_clear()


def test_dropout_of_what_is_not_aligned(place):
    x = np.random.default_rng(0).normal(size=1001).astype(np.float16)
    whole, part = place.put(x), place.put(x)[1:]
    one, other = (place.get(ew.dropout(each, 0.5, seed=9)) for each in (whole[:1000], part))
    assert ((one != 0) == (other != 0)).all()
    plan = ew.dropout.plan(whole, seed=0)
    np.testing.assert_array_equal(place.get(plan(whole, 0.5, seed=9))[:1000], one)


def test_what_cannot_be_dropped(place):
    x = place.put(np.ones(3))
    refused(numbacc.OptionError, "p=2", run=lambda: ew.dropout(x, 2, seed=0))
    refused(numbacc.OptionError, "seed", run=lambda: ew.dropout(x, seed=-1))
    refused(numbacc.OptionError, "offset=3", "multiple of 4", run=lambda: ew.dropout(x, seed=0, offset=3))
    refused(numbacc.DTypeError, "offset has dtype", run=lambda: ew.dropout(x, seed=0, offset=x[:1]))
    two = place.put(np.zeros(2, int))
    refused(numbacc.ShapeError, "offset has shape", run=lambda: ew.dropout(x, seed=0, offset=two))
    refused(numbacc.DTypeError, "x has dtype", run=lambda: ew.dropout(two, seed=0))


# ---------------------------------------------------------------- activations of sums


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_of_sums(place, activation):
    rng = np.random.default_rng(0)
    x, residual, dy = (2 * rng.normal(size=(3, 4, 9)).astype(np.float32) for _ in range(3))
    bias = rng.normal(size=4).astype(np.float32)
    function, slope = getattr(ew, activation), getattr(ew, f"{activation}_backward")
    for other, spread, forward, backward, more in (
        (bias, bias[:, None], ew.bias_activation, ew.bias_activation_backward, {"axis": 1}),
        (residual, residual, ew.residual_activation, ew.residual_activation_backward, {}),
    ):
        given = place.put(x), place.put(other)
        found = forward(*given, activation=activation, **more)
        whole = place.put(x + spread)
        np.testing.assert_array_equal(place.get(found), place.get(function(whole)))
        found = backward(place.put(dy), *given, activation=activation, **more)
        dx = place.get(slope(place.put(dy), whole))
        if not more:
            np.testing.assert_array_equal(place.get(found), dx)
            continue
        np.testing.assert_array_equal(place.get(found[0]), dx)
        np.testing.assert_allclose(place.get(found[1]), dx.astype(float).sum(axis=(0, 2)), rtol=1e-5, atol=1e-5)


def test_activations_of_sums_are_rounded_once(place):
    x, bias = np.array([[2048.0, 1.0]], np.float16), np.array([1.0, 2.0**-11], np.float16)
    found = place.get(ew.bias_activation(place.put(x), place.put(bias), activation="hardtanh"))
    np.testing.assert_array_equal(found, [[1, 1]])
    found = place.get(ew.bias_activation(place.put(-x), place.put(bias), activation="leaky_relu"))
    np.testing.assert_array_equal(found, np.float16([[-20.47, -0.00999511718]]))


def test_activations_refuse(place):
    x, bias = place.put(np.ones((2, 3))), place.put(np.ones(3))
    refused(numbacc.OptionError, "activation='x'", "gelu", run=lambda: ew.bias_activation(x, bias, activation="x"))
    refused(numbacc.ShapeError, "bias has shape (3,)", run=lambda: ew.bias_activation(x, bias, axis=0))
    refused(numbacc.ShapeError, "residual has shape", run=lambda: ew.residual_activation(x, bias))
    refused(numbacc.ShapeError, "pair", run=lambda: ew.bias_activation_backward(x, x, bias, out=x))


# ---------------------------------------------------------------- fill


def test_what_x_is_filled_with(place):
    """Numbers, lists, and arrays that meet x in its dtype: alike on every place."""
    x = place.put(np.zeros((2, 3), np.float32))
    for value in ([1, 2, 3], place.put(np.array([1, 2, 3], np.int8)), place.put(np.array([1, 2, 3], np.float32))):
        ew.fill(x, 0.0)
        assert place.get(ew.fill(x, value)).tolist() == [[1, 2, 3]] * 2
    ew.fill(x[:, 1:], x[:, :-1])
    assert place.get(x).tolist() == [[1, 1, 2]] * 2
    for value in (place.put(np.ones(3, np.int32)), place.put(np.ones(3)), None, "a"):
        refused(numbacc.DTypeError, "value", run=lambda value=value: ew.fill(x, value))
        refused(
            numbacc.DTypeError, "value", run=lambda value=value: ew.fill(x, value, where=place.put(np.ones(3, bool)))
        )
    refused(numbacc.ShapeError, "value", run=lambda: ew.fill(x, place.put(np.ones((3, 2, 3), np.float32))))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool", "complex64"])
def test_fill(place, dtype):
    x, mask = np.zeros((3, 4), dtype), np.arange(12).reshape(3, 4) % 3 == 0
    here = place.put(x)
    assert ew.fill(here, 1) is here
    np.testing.assert_array_equal(place.get(here), np.ones((3, 4), dtype))
    ew.fill(here[:, ::2], 0)
    x[:, 1::2] = 1
    np.testing.assert_array_equal(place.get(here), x)
    assert ew.fill(here, 1, where=place.put(mask)) is here
    x[mask] = 1
    np.testing.assert_array_equal(place.get(here), x)
