"""Calls of `numbacc.jax`, each with the same in `jax.numpy`, for the tests of JAX functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from skips import needed

jax = needed("jax", "jax")
import jax.numpy as jnp  # noqa: E402

import numbacc.jax as nj  # noqa: E402
from numbacc import attention  # noqa: E402


class Case(NamedTuple):
    """A call.

    Attributes:
        ours, theirs: functions of the same arrays.
        shapes: of the arrays that have gradients.
    """

    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]


def _gated(gate: Callable[..., Any], axis: int = -1) -> Callable[..., Any]:
    def call(x: Any) -> Any:
        a, b = jnp.split(x, 2, axis)
        return a * gate(b)

    return call


_exact_gelu, _tanh_gelu = partial(jax.nn.gelu, approximate=False), partial(jax.nn.gelu, approximate=True)


def _linear(activation: Callable[..., Any] = lambda x: x) -> Callable[..., Any]:
    return lambda x, w, b=0.0: activation(x @ w.T + b)


def _attention(mask: Any = None, scale: float | None = None) -> Callable[..., Any]:
    def call(q: Any, k: Any, v: Any, bias: Any = 0.0) -> Any:
        k, v = (jnp.repeat(each, q.shape[1] // each.shape[1], 1) for each in (k, v))
        scores = q @ jnp.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
        if mask is not None:
            i, j = jnp.arange(q.shape[2])[:, None], jnp.arange(k.shape[2])
            scores = jnp.where(mask(i, j), scores, -jnp.inf)
        return jax.nn.softmax(scores, -1) @ v

    return call


def _conv(stride: Any = 1, padding: Any = 0, dilation: int = 1, groups: int = 1) -> Callable[..., Any]:
    def call(x: Any, w: Any, b: Any = None) -> Any:
        rank = x.ndim - 2
        each = lambda n: (n,) * rank if isinstance(n, int) else n  # noqa: E731
        zeros = [(n, n) for n in each(padding)] if padding != "same" else "SAME"
        y = jax.lax.conv_general_dilated(
            x, w, each(stride), zeros, rhs_dilation=each(dilation), feature_group_count=groups, precision="highest"
        )
        return y if b is None else y + b.reshape(-1, *[1] * rank)

    return call


def _rms_norm(x: Any, w: Any = 1.0) -> Any:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w


def _layer_norm(x: Any, w: Any = 1.0, b: Any = 0.0) -> Any:
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * w + b


def _target(x: Any, shape: tuple[int, ...]) -> Any:
    made = np.arange(1, 1 + int(np.prod(shape))).reshape(shape) * 7 % x.shape[min(1, x.ndim - 1)]
    made.flat[0] = -100
    return jnp.asarray(made.astype(np.int32))


def _cross_entropy(x: Any, target: Any, axis: int, reduction: str, smoothing: float) -> Any:
    logs = jax.nn.log_softmax(x, axis)
    there = target != -100
    own = -jnp.take_along_axis(logs, jnp.expand_dims(jnp.where(there, target, 0), axis), axis).squeeze(axis)
    losses = jnp.where(there, (1 - smoothing) * own - smoothing * logs.mean(axis), 0)
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / there.sum()}[reduction]


def _angles(x: Any) -> tuple[Any, Any]:
    angles = jnp.arange(x.shape[-2])[:, None] * jnp.linspace(1, 0.1, x.shape[-1] // 2)
    return jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)


def _rotated(x: Any) -> Any:
    cos, sin = _angles(x)
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate((a * cos - b * sin, a * sin + b * cos), -1)


QKV = ((2, 4, 6, 8), (2, 2, 6, 8), (2, 2, 6, 8))
CASES = {
    "gated": Case(lambda x: nj.gated(x), _gated(jax.nn.silu), ((5, 16),)),
    "gated, exact gelu": Case(lambda x: nj.gated(x, "geglu"), _gated(_exact_gelu), ((2, 3, 8),)),
    "gated, first axis": Case(lambda x: nj.gated(x, "glu", axis=0), _gated(jax.nn.sigmoid, 0), ((4, 3),)),
    "gated, a pair": Case(
        lambda a, b: nj.gated((a, b), gate="first"), lambda a, b: jax.nn.silu(a) * b, ((3, 8), (3, 8))
    ),
    "linear": Case(lambda x, w, b: nj.linear(x, w, b), _linear(), ((2, 3, 8), (16, 8), (16,))),
    "linear without bias": Case(lambda x, w: nj.linear(x, w), _linear(), ((3, 8), (16, 8))),
    "linear, relu": Case(lambda x, w, b: nj.linear(x, w, b, "relu"), _linear(jax.nn.relu), ((3, 8), (16, 8), (16,))),
    "linear, gelu": Case(lambda x, w, b: nj.linear(x, w, b, "gelu"), _linear(_tanh_gelu), ((3, 8), (16, 8), (16,))),
    "linear, gelu without bias": Case(
        lambda x, w: nj.linear(x, w, activation="gelu"), _linear(_tanh_gelu), ((3, 8), (16, 8))
    ),
    "attention": Case(lambda q, k, v: nj.attention(q, k, v), _attention(), QKV),
    "attention, causal": Case(
        lambda q, k, v: nj.attention(q, k, v, mask="causal", scale=0.5), _attention(lambda i, j: j <= i, 0.5), QKV
    ),
    "attention, window": Case(
        lambda q, k, v: nj.attention(q, k, v, mask=attention.CausalSlidingWindow(3)),
        _attention(lambda i, j: (j <= i) & (j > i - 3)),
        (QKV[0],) * 3,
    ),
    "attention, bias": Case(lambda q, k, v, b: nj.attention(q, k, v, bias=b), _attention(), (*QKV, (4, 6, 6))),
    "conv1d": Case(
        lambda x, w: nj.conv(x, w, stride=2, padding=1, groups=2), _conv(2, 1, 1, 2), ((2, 8, 9), (8, 4, 3))
    ),
    "conv2d": Case(
        lambda x, w, b: nj.conv(x, w, b, stride=(2, 1), padding=(1, 0)),
        _conv((2, 1), (1, 0)),
        ((2, 8, 7, 6), (8, 8, 3, 3), (8,)),
    ),
    "conv2d, same": Case(
        lambda x, w, b: nj.conv(x, w, b, padding="same", dilation=2),
        _conv(1, "same", 2),
        ((2, 8, 7, 6), (8, 8, 3, 2), (8,)),
    ),
    "conv3d": Case(lambda x, w: nj.conv(x, w), _conv(), ((1, 8, 4, 4, 4), (8, 8, 2, 2, 2))),
    "rms_norm": Case(lambda x, w: nj.rms_norm(x, w), _rms_norm, ((3, 16), (16,))),
    "rms_norm without weight": Case(lambda x: nj.rms_norm(x), _rms_norm, ((2, 3, 16),)),
    "layer_norm": Case(lambda x, w, b: nj.layer_norm(x, w, b), _layer_norm, ((3, 16), (16,), (16,))),
    "layer_norm without bias": Case(lambda x, w: nj.layer_norm(x, w), _layer_norm, ((3, 16), (16,))),
    "add_rms_norm": Case(
        lambda x, r, w: jnp.concatenate(nj.add_rms_norm(x, r, w)),
        lambda x, r, w: jnp.concatenate((_rms_norm(x + r, w), x + r)),
        ((3, 16), (3, 16), (16,)),
    ),
    "add_layer_norm": Case(
        lambda x, r, w, b: jnp.concatenate(nj.add_layer_norm(x, r, w, b)),
        lambda x, r, w, b: jnp.concatenate((_layer_norm(x + r, w, b), x + r)),
        ((2, 3, 16), (2, 3, 16), (16,), (16,)),
    ),
    "add_rms_norm, norm alone": Case(
        lambda x, r: nj.add_rms_norm(x, r)[0], lambda x, r: _rms_norm(x + r), ((3, 16), (3, 16))
    ),
    "add_layer_norm, sum alone": Case(
        lambda x, r, w: nj.add_layer_norm(x, r, w)[1] * w.mean(),
        lambda x, r, w: (x + r) * w.mean(),
        ((3, 16), (3, 16), (16,)),
    ),
    "softmax": Case(lambda x: nj.softmax(x, axis=0), lambda x: jax.nn.softmax(x, 0), ((4, 6),)),
    "log_softmax": Case(lambda x: nj.log_softmax(x), jax.nn.log_softmax, ((4, 6),)),
    "cross_entropy": Case(
        lambda x: nj.cross_entropy(x, _target(x, (5,)), label_smoothing=0.1),
        lambda x: _cross_entropy(x, _target(x, (5,)), 1, "mean", 0.1),
        ((5, 12),),
    ),
    "cross_entropy, sum": Case(
        lambda x: nj.cross_entropy(x, _target(x, (5,)), reduction="sum"),
        lambda x: _cross_entropy(x, _target(x, (5,)), 1, "sum", 0.0),
        ((5, 12),),
    ),
    "cross_entropy of pixels": Case(
        lambda x: nj.cross_entropy(x, _target(x, (2, 3)), reduction="none"),
        lambda x: _cross_entropy(x, _target(x, (2, 3)), 1, "none", 0.0),
        ((2, 6, 3),),
    ),
    "linear_cross_entropy": Case(
        lambda x, w, b: nj.linear_cross_entropy(x, w, _target(x[..., :7], (5,)), b, label_smoothing=0.1),
        lambda x, w, b: _cross_entropy(x @ w.T + b, _target(x[..., :7], (5,)), 1, "mean", 0.1),
        ((5, 8), (12, 8), (12,)),
    ),
    "linear_cross_entropy without bias": Case(
        lambda x, w: nj.linear_cross_entropy(x, w, _target(x, (2, 3)), reduction="sum"),
        lambda x, w: _cross_entropy(x @ w.T, _target(x, (2, 3)), 2, "sum", 0.0),
        ((2, 3, 8), (12, 8)),
    ),
    "rope": Case(lambda x: nj.rope(x, *_angles(x)), _rotated, ((2, 3, 4, 8),)),
}


def arrays(case: Case, dtype: str, batch: tuple[int, ...] = ()) -> list[Any]:
    """Return the arrays of a call, with further axes in front."""
    drawn = np.random.default_rng(7)
    return [jnp.asarray(drawn.standard_normal((*batch, *shape)), dtype) for shape in case.shapes]
