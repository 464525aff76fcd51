"""Calls of `numbacc.torch`, each with torch's own function, for the tests of torch models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from skips import needed

torch = needed("torch", "torch")
import torch.nn.functional as F  # noqa: E402

import numbacc.torch as nt  # noqa: E402
from numbacc import attention  # noqa: E402


class Case(NamedTuple):
    """A call.

    Attributes:
        ours, theirs: functions of the same tensors.
        shapes: of the tensors that have gradients.
        under_autocast: the dtype of the result under autocast to bfloat16.
    """

    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    under_autocast: str = "bfloat16"


def _gated(gate: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Any) -> Any:
        a, b = x.chunk(2, -1)
        return a * gate(b)

    return call


def _target(x: Any, shape: tuple[int, ...]) -> Any:
    made = (
        torch.arange(1, 1 + torch.Size(shape).numel(), device=x.device).reshape(shape) * 7 % x.shape[min(1, x.ndim - 1)]
    )
    made.view(-1)[:1].fill_(-100)  # works in a graph, too
    return made


def _rotated(x: Any) -> Any:
    cos, sin = _angles(x)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def _angles(x: Any) -> tuple[Any, Any]:
    angles = torch.arange(x.shape[-2], device=x.device)[:, None] * torch.linspace(
        1, 0.1, x.shape[-1] // 2, device=x.device
    )
    return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def _windowed(q: Any, k: Any, v: Any) -> Any:
    i, j = torch.arange(q.shape[2], device=q.device)[:, None], torch.arange(k.shape[2], device=q.device)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(j <= i) & (j > i - 3))


def _same(x: Any, w: Any, b: Any) -> Any:
    return F.conv2d(x, w, b, padding="same", dilation=2)


QKV = ((2, 4, 6, 8), (2, 2, 6, 8), (2, 2, 6, 8))
CASES = {
    "gated": Case(lambda x: nt.gated(x), _gated(F.silu), ((5, 16),), "float32"),
    "gated, exact gelu": Case(lambda x: nt.gated(x, "geglu"), _gated(F.gelu), ((2, 3, 8),), "float32"),
    "gated, first axis": Case(lambda x: nt.gated(x, "glu", axis=0), lambda x: F.glu(x, 0), ((4, 3),), "float32"),
    "gated, a pair": Case(
        lambda a, b: nt.gated((a, b), gate="first"), lambda a, b: F.silu(a) * b, ((3, 8), (3, 8)), "float32"
    ),
    "linear": Case(lambda x, w, b: nt.linear(x, w, b), F.linear, ((2, 3, 8), (16, 8), (16,))),
    "linear without bias": Case(lambda x, w: nt.linear(x, w), F.linear, ((3, 8), (16, 8))),
    "linear, relu": Case(
        lambda x, w, b: nt.linear(x, w, b, "relu"), lambda *t: F.linear(*t).relu(), ((3, 8), (16, 8), (16,))
    ),
    "linear, gelu": Case(
        lambda x, w, b: nt.linear(x, w, b, "gelu"),
        lambda *t: F.gelu(F.linear(*t), approximate="tanh"),
        ((3, 8), (16, 8), (16,)),
    ),
    "attention": Case(
        lambda q, k, v: nt.attention(q, k, v), lambda *t: F.scaled_dot_product_attention(*t, enable_gqa=True), QKV
    ),
    "attention, causal": Case(
        lambda q, k, v: nt.attention(q, k, v, mask="causal", scale=0.5),
        lambda *t: F.scaled_dot_product_attention(*t, is_causal=True, scale=0.5, enable_gqa=True),
        QKV,
    ),
    "attention, window": Case(
        lambda q, k, v: nt.attention(q, k, v, mask=attention.CausalSlidingWindow(3)), _windowed, (QKV[0],) * 3
    ),
    "attention, bias": Case(
        lambda q, k, v, b: nt.attention(q, k, v, bias=b),
        lambda q, k, v, b: F.scaled_dot_product_attention(q, k, v, attn_mask=b, enable_gqa=True),
        (*QKV, (4, 6, 6)),
    ),
    "conv1d": Case(
        lambda x, w: nt.conv(x, w, stride=2, padding=1, groups=2),
        lambda x, w: F.conv1d(x, w, stride=2, padding=1, groups=2),
        ((2, 8, 9), (8, 4, 3)),
    ),
    "conv2d": Case(
        lambda x, w, b: nt.conv(x, w, b, stride=(2, 1), padding=(1, 0)),
        lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=(1, 0)),
        ((2, 8, 7, 6), (8, 8, 3, 3), (8,)),
    ),
    "conv2d, same": Case(
        lambda x, w, b: nt.conv(x, w, b, padding="same", dilation=2), _same, ((2, 8, 7, 6), (8, 8, 3, 2), (8,))
    ),
    "conv3d": Case(lambda x, w: nt.conv(x, w), lambda x, w: F.conv3d(x, w), ((1, 8, 4, 4, 4), (8, 8, 2, 2, 2))),
    "rms_norm": Case(
        lambda x, w: nt.rms_norm(x, w), lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6), ((3, 16), (16,)), "float32"
    ),
    "rms_norm without weight": Case(
        lambda x: nt.rms_norm(x), lambda x: F.rms_norm(x, x.shape[-1:], None, 1e-6), ((2, 3, 16),), "float32"
    ),
    "layer_norm": Case(
        lambda x, w, b: nt.layer_norm(x, w, b),
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
        ((3, 16), (16,), (16,)),
        "float32",
    ),
    "layer_norm without bias": Case(
        lambda x, w: nt.layer_norm(x, w), lambda x, w: F.layer_norm(x, x.shape[-1:], w), ((3, 16), (16,)), "float32"
    ),
    "add_rms_norm": Case(
        lambda x, r, w: torch.cat(nt.add_rms_norm(x, r, w)),
        lambda x, r, w: torch.cat((F.rms_norm(x + r, x.shape[-1:], w, 1e-6), x + r)),
        ((3, 16), (3, 16), (16,)),
        "float32",
    ),
    "add_layer_norm": Case(
        lambda x, r, w, b: torch.cat(nt.add_layer_norm(x, r, w, b)),
        lambda x, r, w, b: torch.cat((F.layer_norm(x + r, x.shape[-1:], w, b), x + r)),
        ((3, 16), (3, 16), (16,), (16,)),
        "float32",
    ),
    "add_rms_norm, norm alone": Case(
        lambda x, r: nt.add_rms_norm(x, r)[0],
        lambda x, r: F.rms_norm(x + r, x.shape[-1:], None, 1e-6),
        ((2, 3, 16), (2, 3, 16)),
        "float32",
    ),
    "add_layer_norm, sum alone": Case(
        lambda x, r, w: nt.add_layer_norm(x, r, w)[1] * w.mean(),
        lambda x, r, w: (x + r) * w.mean(),
        ((3, 16), (3, 16), (16,)),
        "float32",
    ),
    "softmax": Case(lambda x: nt.softmax(x, axis=0), lambda x: x.softmax(0), ((4, 6),), "float32"),
    "log_softmax": Case(lambda x: nt.log_softmax(x), lambda x: x.log_softmax(-1), ((4, 6),), "float32"),
    "cross_entropy": Case(
        lambda x: nt.cross_entropy(x, _target(x, (5,)), label_smoothing=0.1),
        lambda x: F.cross_entropy(x, _target(x, (5,)), label_smoothing=0.1),
        ((5, 12),),
        "float32",
    ),
    "cross_entropy of pixels": Case(
        lambda x: nt.cross_entropy(x, _target(x, (2, 3)), reduction="none"),
        lambda x: F.cross_entropy(x, _target(x, (2, 3)), reduction="none"),
        ((2, 6, 3),),
        "float32",
    ),
    "linear_cross_entropy": Case(
        lambda x, w, b: nt.linear_cross_entropy(x, w, _target(x, (5,)), b, label_smoothing=0.1),
        lambda x, w, b: F.cross_entropy(F.linear(x, w, b), _target(x, (5,)), label_smoothing=0.1),
        ((5, 8), (12, 8), (12,)),
        "float32",
    ),
    "linear_cross_entropy without bias": Case(
        lambda x, w: nt.linear_cross_entropy(x, w, _target(x, (2, 3)), reduction="sum"),
        lambda x, w: F.cross_entropy((x @ w.T).flatten(0, 1), _target(x, (2, 3)).flatten(), reduction="sum"),
        ((2, 3, 8), (12, 8)),
        "float32",
    ),
    "rope": Case(lambda x: nt.rope(x, *_angles(x)), _rotated, ((2, 3, 4, 8),), "float32"),
}


def tensors(case: Case, dtype: str, device: str) -> list[Any]:
    """Return the tensors of a call, which require gradients."""
    made = torch.Generator().manual_seed(7)
    kind = getattr(torch, dtype)
    drawn = (torch.randn(shape, generator=made, dtype=torch.float64) for shape in case.shapes)
    return [each.to(device, kind).requires_grad_() for each in drawn]
