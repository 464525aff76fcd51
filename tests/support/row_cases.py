"""Softmax and norms in float64: values, options, and what errors are allowed."""

from __future__ import annotations

import numpy as np
from conftest import memory_layouts
from hypothesis import settings
from hypothesis import strategies as st
from oracle import DTYPES, spacing

from numbacc.base.dispatch import simulated
from numbacc.base.dtypes import info
from numbacc.elementwise import norms


def losses_of(x, target, axis, smoothing, ignored):
    """The losses of all rows, in float64, by the definition."""
    rows = np.moveaxis(np.asarray(x, np.float64), axis, -1)
    largest = rows.max(axis=-1, keepdims=True)
    log_p = rows - largest - np.log(np.exp(rows - largest).sum(axis=-1, keepdims=True))
    safe = np.where(target == ignored, 0, target)
    right = np.take_along_axis(log_p, safe[..., None], axis=-1)[..., 0]
    found = -(1 - smoothing) * right - smoothing * log_p.mean(axis=-1)
    return np.where(target == ignored, 0.0, found), log_p


FEW = 20 if simulated() else settings.default.max_examples


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def factor(d, eps):
    return 1 / np.sqrt((d * d).mean(-1, keepdims=True) + eps)


def normal(kind, x, eps):
    """(x - mean, or x, its factor)."""
    d = x - x.mean(-1, keepdims=True) if kind == "layer" else x
    return d, factor(d, eps)


def forward(name, arrays, axis=-1, eps=None):
    if name == "softmax":
        return softmax(arrays[0], axis)
    if name == "log_softmax":
        return np.log(softmax(arrays[0], axis))
    d, r = normal(name.split("_")[0], arrays[0], eps)
    y = d * r
    for array, merge in zip(arrays[1:], (np.multiply, np.add), strict=False):
        y = merge(y, array)
    return y


def gradients(name, dy, arrays, axis=-1, eps=None):
    """All gradients, written from the Jacobian of a row."""
    if name == "softmax":
        y = softmax(arrays[0], axis)
        return [y * dy - y * (y * dy).sum(axis, keepdims=True)]
    if name == "log_softmax":
        return [dy - softmax(arrays[0], axis) * dy.sum(axis, keepdims=True)]
    kind, n = name.split("_")[0], arrays[0].shape[-1]
    d, r = normal(kind, arrays[0], eps)
    g = dy * arrays[1] if len(arrays) > 1 else dy
    jacobian = r[..., None] * np.eye(n) - d[..., :, None] * d[..., None, :] * r[..., None] ** 3 / n
    if kind == "layer":
        jacobian = jacobian - jacobian.mean(-2, keepdims=True)
    found = [np.einsum("...ij,...j->...i", jacobian, g)]
    if len(arrays) > 1:
        found.append((dy * d * r).reshape(-1, n).sum(0))
    if len(arrays) > 2:
        found.append(dy.reshape(-1, n).sum(0))
    return found


def assert_near(got, wanted, scale=1.0):
    """As near as rounding once allows, and some roundings in what is computed in."""
    dtype = got.dtype
    assert got.shape == wanted.shape
    error = np.abs(got.astype(float) - wanted)
    bound = 60 * np.finfo(info(dtype).compute).eps * (np.abs(wanted) + scale) + spacing(wanted, dtype)
    # The hardware's exponential in kernels of 16 bits: 22 bits of the argument's.
    bound += (1e-5 * (np.abs(wanted) + scale)) if dtype.itemsize == 2 else 0
    assert (error <= bound).all(), (error.max(), got[error > bound], wanted[error > bound])


FORWARD = {"softmax": 1, "log_softmax": 1, "rms_norm": 2, "layer_norm": 3}


def values_of(rng, name, shape, dtype):
    """x, weight and bias."""
    return [rng.standard_normal(s).astype(dtype) for s in (shape, shape[-1:], shape[-1:])[: FORWARD[name]]]


@st.composite
def calls(draw):
    name = draw(st.sampled_from(sorted(FORWARD)))
    rank = draw(st.integers(1, 4))
    longest = (60, 24, 8, 4)[rank - 1] * (1 if simulated() else 5)
    shape = tuple(draw(st.lists(st.integers(1, longest), min_size=rank, max_size=rank)))
    return {
        "name": name,
        "shape": shape,
        "dtype": draw(st.sampled_from(DTYPES)),
        "axis": draw(st.integers(-rank, rank - 1)) if "softmax" in name else -1,
        "many": draw(st.integers(1, FORWARD[name])),
        "layouts": [draw(memory_layouts(rank, writable)) for writable in (False, True)],
        "seed": draw(st.integers(0, 2**32 - 1)),
    }


def options_of(name, axis=-1):
    return {"axis": axis} if "softmax" in name else {"eps": 1e-3}


def assert_backward(place, drawn):
    name, shape, dtype, axis = (drawn[key] for key in ("name", "shape", "dtype", "axis"))
    rng = np.random.default_rng(drawn["seed"])
    values = values_of(rng, name, shape, dtype)[: drawn["many"]]
    dy = place.operand(rng.standard_normal(shape).astype(dtype), **drawn["layouts"][0])
    x = place.operand(values[0], **drawn["layouts"][1])
    options, wide = options_of(name, axis), [x.values.astype(float), *[v.astype(float) for v in values[1:]]]
    wanted = gradients(name, dy.values.astype(float), wide, **options)
    second = x.view
    if "softmax" in name:
        y = forward(name, wide, axis).astype(dtype)
        second = place.put(y)
        # Of the y that is given.
        d, y = dy.values.astype(float), y.astype(float)
        total = (d if "log" in name else d * y).sum(axis, keepdims=True)
        wanted = [d - np.exp(y) * total if "log" in name else y * (d - total)]
    weights = [place.put(v) for v in values[1:2]]
    more = {"bias": True} if len(values) > 2 else {}
    got = getattr(norms, f"{name}_backward")(dy.view, second, *weights, **options, **more)
    got = got if isinstance(got, tuple) else (got,)
    assert len(got) == len(wanted)
    rows = max(x.values.size // shape[-1], 1)
    for one, other in zip(got, wanted, strict=True):
        size = np.abs(other).max(initial=0) + rows
        assert one.dtype == dtype
        assert_near(place.get(one), other, 3 * size * (30 if name == "rms_norm" or name == "layer_norm" else 1))
