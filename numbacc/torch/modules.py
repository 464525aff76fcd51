"""torch modules of numbacc's functions.

Those that torch has, too, are subclasses of torch's, with the same weights.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import bridges
from . import functions

__all__ = [
    "Attention",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "CrossEntropyLoss",
    "Dropout",
    "Gated",
    "LayerNorm",
    "Linear",
    "LogSoftmax",
    "RMSNorm",
    "RotaryEmbedding",
    "Softmax",
]


class Gated(torch.nn.Module):
    """A gated activation: `functions.gated` with its options.

    Args:
        kind, axis, gate: as in `functions.gated`.
    """

    def __init__(self, kind: str = "swiglu", *, axis: int = -1, gate: str = "second"):
        super().__init__()
        self.kind, self.axis, self.gate = kind, axis, gate

    def forward(self, x: Tensor | tuple[Tensor, Tensor]) -> Tensor:
        return functions.gated(x, self.kind, axis=self.axis, gate=self.gate)

    def extra_repr(self) -> str:
        return f"{self.kind!r}, axis={self.axis}, gate={self.gate!r}"


class Linear(torch.nn.Linear):
    """torch's Linear, followed by an activation in the same product.

    Args:
        in_features, out_features, bias, device, dtype: as in torch.
        activation: None, "relu" or "gelu" (the tanh form).
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, activation: str | None = None, **where: Any
    ):
        super().__init__(in_features, out_features, bias, **where)
        bridges.check_activation(activation)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return functions.linear(x, self.weight, self.bias, self.activation)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, activation={self.activation!r}"


class _Conv:
    """The base of the convolutions. Only padding with zeros is supported."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        if self.padding_mode != "zeros":  # type: ignore[attr-defined]
            raise ValueError(f"padding_mode is {self.padding_mode!r}; numbacc pads with zeros")  # type: ignore[attr-defined]

    def forward(self, x: Tensor) -> Tensor:
        how = {name: getattr(self, name) for name in ("stride", "padding", "dilation", "groups")}
        return functions.conv(x, self.weight, self.bias, **how)


class Conv1d(_Conv, torch.nn.Conv1d):
    """torch's Conv1d by numbacc. Inputs have a batch axis."""


class Conv2d(_Conv, torch.nn.Conv2d):
    """torch's Conv2d by numbacc. Inputs have a batch axis."""


class Conv3d(_Conv, torch.nn.Conv3d):
    """torch's Conv3d by numbacc. Inputs have a batch axis."""


def _check_last_axis(shape: tuple[int, ...]) -> None:
    if len(shape) != 1:
        raise ValueError(f"normalized_shape is {tuple(shape)}; numbacc normalizes the last axis alone")


class LayerNorm(torch.nn.LayerNorm):
    """torch's LayerNorm over the last axis."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        _check_last_axis(self.normalized_shape)

    def forward(self, x: Tensor) -> Tensor:
        return functions.layer_norm(x, self.weight, self.bias, eps=self.eps)


class RMSNorm(torch.nn.RMSNorm):
    """torch's RMSNorm over the last axis."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        _check_last_axis(self.normalized_shape)

    def forward(self, x: Tensor) -> Tensor:
        eps = torch.finfo(x.dtype).eps if self.eps is None else self.eps
        return functions.rms_norm(x, self.weight, eps=eps)


class CrossEntropyLoss(torch.nn.CrossEntropyLoss):
    """torch's CrossEntropyLoss of class indices, without weights of classes."""

    def __init__(self, weight: Tensor | None = None, **options: Any):
        super().__init__(weight, **options)
        if weight is not None:
            raise ValueError("weight is given; numbacc's cross entropy has no weights of classes")

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return functions.cross_entropy(
            x, target, reduction=self.reduction, ignore_index=self.ignore_index, label_smoothing=self.label_smoothing
        )


class Dropout(torch.nn.Dropout):
    """torch's Dropout, whose mask is not stored."""

    def forward(self, x: Tensor) -> Tensor:
        return functions.dropout(x, self.p, training=self.training)


class Attention(torch.nn.Module):
    """Attention of queries, keys and values, as `numbacc.torch.attention` computes it. It has no weights.

    Args:
        mask, scale: as in `numbacc.torch.attention`.
        dropout: the probability that a weight becomes 0 in training.
    """

    def __init__(self, *, mask: Any = None, scale: float | None = None, dropout: float = 0.0):
        super().__init__()
        self.mask, self.scale, self.dropout = mask, scale, dropout

    def forward(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        return functions.attention(q, k, v, mask=self.mask, bias=bias, scale=self.scale, dropout=dropout)

    def extra_repr(self) -> str:
        return f"mask={self.mask!r}, scale={self.scale}, dropout={self.dropout}"


class Softmax(torch.nn.Softmax):
    """torch's Softmax."""

    def forward(self, x: Tensor) -> Tensor:
        return functions.softmax(x, axis=_axis_of(self.dim, x))


class LogSoftmax(torch.nn.LogSoftmax):
    """torch's LogSoftmax."""

    def forward(self, x: Tensor) -> Tensor:
        return functions.log_softmax(x, axis=_axis_of(self.dim, x))


def _axis_of(dim: int | None, x: Tensor) -> int:
    """Return the axis; without a dimension the one that torch chooses."""
    return (0 if x.ndim in (0, 1, 3) else 1) if dim is None else dim


class RotaryEmbedding(torch.nn.Module):
    """Rotate queries or keys by their positions.

    Args:
        d: the length of the last axis.
        length: the largest number of positions.
        base, interleaved: as in `numbacc.elementwise.rope_tables` and `numbacc.torch.rope`.
        device: of the tables.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, d: int, length: int, *, base: float = 10000.0, interleaved: bool = False, device: Any = None):
        super().__init__()
        rates = base ** -(torch.arange(0, d, 2, dtype=torch.float64) / d)
        angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
        self.register_buffer("cos", angles.cos().to(device, torch.float32), persistent=False)
        self.register_buffer("sin", angles.sin().to(device, torch.float32), persistent=False)
        self.interleaved = interleaved

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Rotate x, (..., length, d), whose first element has the position `start`."""
        part = slice(start, start + x.shape[-2])
        return functions.rope(x, self.cos[part], self.sin[part], interleaved=self.interleaved)
