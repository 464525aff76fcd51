"""numbacc's functions for torch tensors, with gradients. Each is a torch operator and a function that calls it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from .. import attention as _attention
from .. import conv as _conv
from .. import elementwise as _ew
from .. import gated as _gated
from .. import gemm as _gemm
from .. import nn as _nn
from ..errors import DTypeError, ShapeError
from .operators import FunctionCall, Operator, as_stored, call, like

__all__ = [
    "attention",
    "conv",
    "cross_entropy",
    "dropout",
    "gated",
    "layer_norm",
    "linear",
    "linear_cross_entropy",
    "log_softmax",
    "rms_norm",
    "rope",
    "softmax",
]


# ---------------------------------------------------------------- gated activations


def _half(x: Tensor, axis: int) -> Tensor:
    shape = list(x.shape)
    shape[axis] = shape[axis] // 2
    return x.new_empty(shape)


_gated_one = Operator(
    "gated(Tensor x, str kind, int axis, str gate) -> Tensor",
    lambda x, kind, axis, gate: (_half(x, axis),),
    lambda outs, x, kind, axis, gate: call(_gated.forward, x, kind, axis=axis, gate=gate, out=outs[0]),
)
_gated_one_backward = Operator(
    "gated_backward(Tensor dy, Tensor x, str kind, int axis, str gate) -> Tensor",
    lambda dy, x, *_: like(x),
    lambda outs, dy, x, kind, axis, gate: call(_gated.backward, dy, x, kind, axis=axis, gate=gate, out=outs[0]),
)
_gated_one.differentiable(
    lambda ctx, dy: (_gated_one_backward(dy, *ctx.saved_tensors, *ctx.options),),
    lambda inputs, y: inputs[:1],
    1,
)
_gated_pair = Operator(
    "gated_pair(Tensor a, Tensor b, str kind, str gate) -> Tensor",
    lambda a, *_: like(a),
    lambda outs, a, b, kind, gate: call(_gated.forward, (a, b), kind, gate=gate, out=outs[0]),
)
_gated_pair_backward = Operator(
    "gated_pair_backward(Tensor dy, Tensor a, Tensor b, str kind, str gate) -> (Tensor, Tensor)",
    lambda dy, a, b, *_: like(a, b),
    lambda outs, dy, a, b, kind, gate: call(_gated.backward, dy, (a, b), kind, gate=gate, out=outs),
)
_gated_pair.differentiable(
    lambda ctx, dy: _gated_pair_backward(dy, *ctx.saved_tensors, *ctx.options),
    lambda inputs, y: inputs[:2],
    2,
)


def gated(x: Tensor | tuple[Tensor, Tensor], kind: str = "swiglu", *, axis: int = -1, gate: str = "second") -> Tensor:
    """Compute y = a * g(b), where (a, b) are the two halves of x; differentiable.

    See `numbacc.gated.forward` for the arguments. A Llama MLP computes silu(gate) * up, which is
    `gated((gate, up), gate="first")`.

    Args:
        x: tensor of floats with even length along `axis`, or a pair of tensors of equal shape.
        kind: "glu", "reglu", "swiglu", "geglu" or "geglu_tanh".
        axis: the axis that is split; ignored for a pair.
        gate: which half passes through g: "second" or "first".

    Returns:
        a tensor with half of x's length along `axis`.
    """
    if isinstance(x, (tuple, list)):
        if len(x) != 2:
            raise ShapeError(f"x has {len(x)} tensors; it must be one tensor or a pair")
        return _gated_pair(*x, kind, gate)
    return _gated_one(x, kind, axis, gate)


# ---------------------------------------------------------------- products


_matmul = Operator(
    "matmul(Tensor a, Tensor b) -> Tensor",
    lambda a, b: (a.new_empty(a.shape[0], b.shape[1]),),
    lambda outs, a, b: call(_gemm.matmul, a, b, out=outs[0]),
)


_weight_gradients = Operator(
    "linear_weight_backward(Tensor dz, Tensor x) -> (Tensor, Tensor)",
    lambda dz, x: (dz.new_empty(dz.shape[1], x.shape[1]), dz.new_empty(dz.shape[1])),
    lambda outs, dz, x: call(_gemm.matmul, dz.T, x, epilogue="bgrada", out=outs),
)


def _matrix(x: Tensor) -> Tensor:
    """Return a matrix that products can read: x itself if its rows or its columns are contiguous, else a copy."""
    if x.is_contiguous() or x.ndim != 2:
        return x
    (m, n), (down, right) = x.shape, x.stride()
    stored = (right == 1 and (down >= n or m <= 1)) or (down == 1 and (right >= m or n <= 1))
    return x if stored else x.contiguous()


def _rows(x: Tensor, w: Tensor) -> Tensor:
    if w.dtype != x.dtype:
        raise DTypeError(
            f"weight has dtype {w.dtype} but x has {x.dtype}: convert one, x.to(weight.dtype), or use torch.autocast"
        )
    if w.ndim != 2 or w.shape[1] != x.shape[1]:
        raise ShapeError(
            f"weight has shape {tuple(w.shape)}; for x's rows of {x.shape[1]} it must be (out, {x.shape[1]})"
        )
    return x.new_empty(x.shape[0], w.shape[0])


def _call_of_linear(outs: Any, x: Any, w: Any, bias: Any, activation: str) -> FunctionCall:
    kind = "_".join(each for each in (activation, "" if bias is None else "bias") if each) or "none"
    return call(_gemm.matmul, x, w.T, bias=bias, epilogue=kind, out=outs[0])


_linear = Operator(
    "linear(Tensor x, Tensor w, Tensor? bias, str activation) -> Tensor",
    lambda x, w, *_: (_rows(x, w),),
    _call_of_linear,
    autocast="lower",
)


def _call_of_gelu(outs: Any, x: Any, w: Any, bias: Any) -> FunctionCall:
    kind = "gelu_aux" if bias is None else "gelu_aux_bias"
    return call(_gemm.matmul, x, w.T, bias=bias, aux=outs[1], epilogue=kind, out=outs[0])


_linear_gelu = Operator(
    "linear_gelu(Tensor x, Tensor w, Tensor? bias) -> (Tensor, Tensor)",
    lambda x, w, *_: (_rows(x, w), _rows(x, w)),
    _call_of_gelu,
    autocast="lower",
)
_slopes = Operator(
    "activation_backward(Tensor dy, Tensor z, str activation) -> Tensor",
    lambda dy, *_: like(dy),
    lambda outs, dy, z, activation: (
        call(_ew.relu_backward, dy, z, out=outs[0])
        if activation == "relu"
        else call(_ew.gelu_tanh_backward, dy, z, out=outs[0])
    ),
)


def _products(ctx: Any, dz: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradients with respect to x, w and bias that are needed, given dz for z = x wᵀ + bias."""
    dz = _matrix(dz)
    dx = _matmul(dz, w) if ctx.needs_input_grad[0] else None
    if ctx.needs_input_grad[2]:
        return (dx, *_weight_gradients(dz, x))
    return dx, _matmul(dz.t(), x) if ctx.needs_input_grad[1] else None, None


def _linear_backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    x, w, y = ctx.saved_tensors
    if ctx.options == ("gelu",):
        return cast("tuple[Any, ...]", _no_gradient(ctx))
    return _products(ctx, dy if y is None else _slopes(dy, y, "relu"), x, w)


def _linear_gelu_backward(ctx: Any, dy: Tensor, _: Tensor | None) -> tuple[Any, ...]:
    x, w, z = ctx.saved_tensors
    return _products(ctx, _slopes(dy, z, "gelu"), x, w)


# y is positive where z is, so that ReLU's gradient needs no z.
_linear.differentiable(_linear_backward, lambda inputs, y: (*inputs[:2], y if inputs[3] == "relu" else None), 3)
_linear_gelu.differentiable(_linear_gelu_backward, lambda inputs, results: (*inputs[:2], results[1]), 3)


def check_activation(activation: Any) -> None:
    """Raise ValueError unless `linear` has the activation."""
    if activation not in (None, "relu", "gelu"):
        raise ValueError(f'activation is {activation!r}; it is None, "relu" or "gelu"')


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str | None = None) -> Tensor:
    """Compute act(x weightᵀ + bias) as one product with its epilogue; differentiable.

    Args:
        x: (..., in) of floats.
        weight: (out, in), as in torch's Linear, of x's dtype.
        bias: (out,), or None.
        activation: None, "relu" or "gelu" (the tanh form).

    Returns:
        a tensor (..., out).
    """
    check_activation(activation)
    is_matrix = x.ndim == 2
    rows, w = _matrix(x if is_matrix else x.reshape(-1, x.shape[-1])), _matrix(weight)
    if activation == "gelu" and torch.is_grad_enabled() and _tracked(x, weight, bias):
        y, _ = _linear_gelu(rows, w, bias)
    else:
        y = _linear(rows, w, bias, activation or "")
    return y if is_matrix else y.reshape(*x.shape[:-1], weight.shape[0])


def _tracked(*tensors: Tensor | None) -> bool:
    """Return whether torch records gradients of a tensor."""
    for each in tensors:  # noqa: SIM110 - `any` takes twice as long
        if each is not None and each.requires_grad:
            return True
    return False


# ---------------------------------------------------------------- attention


_MASKS = (None, "causal", "causal_bottom_right")


_WINDOWS = {"window": _attention.SlidingWindow, "causal_window": _attention.CausalSlidingWindow}


def _named(mask: Any) -> tuple[str, int]:
    """Return a mask as the name and the length that operators take."""
    if mask is None:
        return "", 0
    if isinstance(mask, Tensor):
        raise TypeError(
            "mask is a tensor; numbacc adds bias= to the scores instead: bias=torch.where(mask, 0.0, -math.inf)"
        )
    for name, kind in _WINDOWS.items():
        if type(mask) is kind:
            return name + "_bottom_right" * mask.bottom_right, mask.length
    if mask not in _MASKS:
        raise ValueError(f"mask is {mask!r}; it is one of {', '.join(map(repr, _MASKS))}, or a window")
    return mask or "", 0


def _mask(name: str, window: int) -> Any:
    """Return the mask that `_named` named."""
    if not window:
        return name or None
    return _WINDOWS[name.removesuffix("_bottom_right")](window, bottom_right=name.endswith("_bottom_right"))


def _attended(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, ...]:
    """Return new tensors for the result, in q's memory order, and for the statistics of the rows."""
    wide = torch.float64 if q.dtype is torch.float64 else torch.float32
    return as_stored(q, (*q.shape[:-1], v.shape[-1])), q.new_empty(q.shape[:-1], dtype=wide)


def _call_of_attention(
    outs: Any, q: Any, k: Any, v: Any, bias: Any, offset: Any, mask: str, window: int, scale: float, p: float
) -> FunctionCall:
    more = {"return_stats": True, "out": outs} if len(outs) > 1 else {"out": outs[0]}
    return call(
        _attention.forward, q, k, v, mask=_mask(mask, window), bias=bias, scale=scale, dropout=p,
        offset=0 if offset is None else offset, **more,
    )  # fmt: skip


def _call_of_attention_backward(
    outs: Any, do: Any, q: Any, k: Any, v: Any, bias: Any, offset: Any, o: Any, stats: Any,
    mask: str, window: int, scale: float, p: float, needs_bias: bool,
) -> FunctionCall:  # fmt: skip
    return call(_attention.backward, do, q, k, v, o, stats, mask=_mask(mask, window), bias=bias, scale=scale, dropout=p,
        offset=0 if offset is None else offset, bias_grad=needs_bias, out=outs
    )  # fmt: skip


_OPTIONS = "str mask, int window, float scale, float p"
_attend = Operator(
    f"attention(Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor? offset, {_OPTIONS}) -> (Tensor, Tensor)",
    _attended,
    _call_of_attention,
    autocast="lower",
)
#: Attention without the statistics that gradients need.
_attend_only = Operator(
    f"attention_only(Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor? offset, {_OPTIONS}) -> Tensor",
    lambda *given: _attended(*given)[:1],
    _call_of_attention,
    autocast="lower",
)
_attend_backward = Operator(
    "attention_backward(Tensor do, Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor? offset, Tensor o, Tensor stats, "
    f"{_OPTIONS}, bool bias_grad) -> Tensor[]",
    lambda do, q, k, v, bias, offset, o, stats, *options: (
        *(as_stored(each, each.shape) for each in (q, k, v)),
        *(like(bias) if options[-1] else ()),
    ),
    _call_of_attention_backward,
)


def _no_gradient(ctx: Any, *_: Any) -> Any:
    raise RuntimeError("this result was computed without what its gradient needs: torch recorded no gradients then")


_attend_only.differentiable(_no_gradient, lambda inputs, y: (), 5)


def _attention_gradients(ctx: Any, do: Tensor, _: Tensor | None) -> tuple[Any, ...]:
    needs_bias = ctx.needs_input_grad[3]
    found = _attend_backward(do, *ctx.saved_tensors, *ctx.options, needs_bias)
    return (*found, None) if needs_bias else (*found, None, None)


_attend.differentiable(_attention_gradients, lambda inputs, results: (*inputs[:5], *results), 5)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Any = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Compute softmax(scale q kᵀ + bias, masked) v; differentiable.

    Args:
        q: queries (batch, heads, queries, d), of floats.
        k, v: keys (batch, heads_kv, keys, d) and values (batch, heads_kv, keys, d_v); heads is a multiple of heads_kv.
        mask: None, "causal", "causal_bottom_right", or numbacc.attention's `SlidingWindow(n)` or
            `CausalSlidingWindow(n)`.
        bias: broadcasts to (batch, heads, queries, keys); -inf masks.
        scale: factor of the scores; 1/√d if None.
        dropout: the probability that a weight becomes 0. torch's generator of q's device selects them.

    Returns:
        a tensor (batch, heads, queries, d_v).
    """
    offset = torch.randint(2**58, (1,), device=q.device) * 4 if dropout else None
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    given = (q, k, v, bias, offset, *_named(mask), scale, dropout)
    if torch.is_grad_enabled() and _tracked(q, k, v, bias):
        return _attend(*given)[0]
    return _attend_only(*given)


# ---------------------------------------------------------------- convolution


_LAYOUTS = {3: "NCW", 4: "NCHW", 5: "NCDHW"}
_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def _memory_format(x: Tensor) -> Any:
    kind = _LAST.get(x.ndim)
    return kind if kind and x.is_contiguous(memory_format=kind) and not x.is_contiguous() else torch.contiguous_format


def _pairs(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _convolved(x: Tensor, w: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> tuple[Tensor]:
    sizes = [
        (n + a + b - (taps - 1) * d - 1) // s + 1
        for n, taps, s, (a, b), d in zip(x.shape[2:], w.shape[2:], stride, _pairs(padding), dilation, strict=True)
    ]
    return (x.new_empty(x.shape[0], w.shape[0], *sizes).contiguous(memory_format=_memory_format(x)),)


def _how(x: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> dict[str, Any]:
    return {
        "stride": tuple(stride), "padding": _pairs(padding), "dilation": tuple(dilation), "groups": groups,
        "layout": _LAYOUTS[x.ndim],
    }  # fmt: skip


_HOW = "int[] stride, int[] padding, int[] dilation, int groups"
_convolve = Operator(
    f"conv(Tensor x, Tensor w, Tensor? bias, {_HOW}) -> Tensor",
    _convolved,
    lambda outs, x, w, bias, *how: call(_conv.forward, x, w, bias, **_how(x, *how), out=outs[0]),
    autocast="lower",
)
_convolve_data = Operator(
    f"conv_backward_data(Tensor dy, Tensor w, Tensor x, {_HOW}) -> Tensor",
    lambda dy, w, x, *_: (torch.empty_like(x),),
    lambda outs, dy, w, x, *how: call(_conv.backward_data, dy, w, tuple(x.shape), **_how(x, *how), out=outs[0]),
)
_convolve_filter = Operator(
    f"conv_backward_filter(Tensor dy, Tensor w, Tensor x, {_HOW}) -> Tensor",
    lambda dy, w, x, *_: (torch.empty_like(w),),
    lambda outs, dy, w, x, *how: call(_conv.backward_filter, x, dy, tuple(w.shape), **_how(x, *how), out=outs[0]),
)


def _conv_gradients(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    x, w = ctx.saved_tensors
    data, filters, bias = ctx.needs_input_grad[:3]
    return (
        _convolve_data(dy, w, x, *ctx.options) if data else None,
        _convolve_filter(dy, w, x, *ctx.options) if filters else None,
        dy.sum([0, *range(2, dy.ndim)]) if bias else None,
    )


_convolve.differentiable(_conv_gradients, lambda inputs, y: inputs[:2], 3)


def _each(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Return a number for each spatial dimension."""
    return (value,) * rank if isinstance(value, int) else tuple(value)


def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Compute a convolution in one, two or three dimensions, as torch's conv1d, conv2d and conv3d do; differentiable.

    Args:
        x: (N, C, ...) of floats, in torch's usual memory format or in channels_last.
        weight: (K, C/groups, ...).
        bias: (K,), or None.
        stride, dilation: an integer, or one for each spatial dimension.
        padding: zeros on both sides of each dimension: an integer, or one for each; "valid" or "same".
        groups: number of parts that the channels are divided into.

    Returns:
        a tensor (N, K, ...), in x's memory format.
    """
    rank = x.ndim - 2
    if x.ndim not in _LAYOUTS or weight.ndim != x.ndim:
        raise ShapeError(
            f"x has rank {x.ndim} and weight rank {weight.ndim}; both must be 3 (N, C, W), 4 (N, C, H, W) or 5: "
            "x[None] adds a batch axis"
        )

    strides, dilations = _each(stride, rank), _each(dilation, rank)
    if padding == "same":
        zeros = [d * (taps - 1) for d, taps in zip(dilations, weight.shape[2:], strict=True)]
        both = tuple(n for total in zeros for n in (total // 2, total - total // 2))
    else:
        both = tuple(n for n in _each(0 if padding == "valid" else padding, rank) for _ in "ab")  # type: ignore[arg-type]
    return _convolve(x, weight, bias, strides, both, dilations, groups)


# ---------------------------------------------------------------- norms and softmax


_norm = Operator(
    "rms_norm(Tensor x, Tensor? weight, float eps) -> Tensor",
    lambda x, *_: like(x),
    lambda outs, x, weight, eps: call(_ew.rms_norm, x, weight, eps=eps, out=outs[0]),
    autocast="float32",
)
_norm_backward = Operator(
    "rms_norm_backward(Tensor dy, Tensor x, Tensor? weight, float eps) -> Tensor[]",
    lambda dy, x, weight, eps: like(x) if weight is None else like(x, weight),
    lambda outs, dy, x, weight, eps: call(
        _ew.rms_norm_backward, dy, x, weight, eps=eps, out=outs if weight is not None else outs[0]
    ),
)


def _norm_gradients(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    found = _norm_backward(dy, *ctx.saved_tensors, *ctx.options)
    return (*found, None)[:2]


_norm.differentiable(_norm_gradients, lambda inputs, y: inputs[:2], 2)


def rms_norm(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    """Divide rows (the last axis) by their root mean square, and multiply them by weight; differentiable.

    Args:
        x: tensor of floats.
        weight: (n,), of x's dtype, or None.
        eps: added to the mean of squares.
    """
    return _norm(x, weight, eps)


_layers = Operator(
    "layer_norm(Tensor x, Tensor? weight, Tensor? bias, float eps) -> Tensor",
    lambda x, *_: like(x),
    lambda outs, x, weight, bias, eps: call(_ew.layer_norm, x, weight, bias, eps=eps, out=outs[0]),
    autocast="float32",
)
_layers_backward = Operator(
    "layer_norm_backward(Tensor dy, Tensor x, Tensor? weight, Tensor? bias, float eps) -> Tensor[]",
    lambda dy, x, weight, bias, eps: like(*(each for each in (x, weight, bias) if each is not None)),
    lambda outs, dy, x, weight, bias, eps: call(
        _ew.layer_norm_backward,
        dy,
        x,
        weight,
        bias=bias is not None,
        eps=eps,
        out=outs if weight is not None else outs[0],
    ),
)


def _layer_gradients(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    found = _layers_backward(dy, *ctx.saved_tensors, *ctx.options)
    return (*found, None, None)[:3]


_layers.differentiable(_layer_gradients, lambda inputs, y: inputs[:3], 3)


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5) -> Tensor:
    """Normalize rows (the last axis) to mean 0 and variance 1, times weight, plus bias; differentiable.

    Args:
        x: tensor of floats.
        weight, bias: (n,), of x's dtype, or None.
        eps: added to the variance.
    """
    return _layers(x, weight, bias, eps)


def _softmax_like(name: str, forward: Any, backward: Any) -> Any:
    made = Operator(
        f"{name}(Tensor x, int axis) -> Tensor",
        lambda x, axis: like(x),
        lambda outs, x, axis: call(forward, x, axis=axis, out=outs[0]),
        autocast="float32",
    )
    slopes = Operator(
        f"{name}_backward(Tensor dy, Tensor y, int axis) -> Tensor",
        lambda dy, y, axis: like(y),
        lambda outs, dy, y, axis: call(backward, dy, y, axis=axis, out=outs[0]),
    )
    made.differentiable(lambda ctx, dy: (slopes(dy, *ctx.saved_tensors, *ctx.options),), lambda inputs, y: (y,), 1)
    return made


_softmax = _softmax_like("softmax", _ew.softmax, _ew.softmax_backward)
_log_softmax = _softmax_like("log_softmax", _ew.log_softmax, _ew.log_softmax_backward)


def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Compute e^x / Σ e^x along an axis; differentiable."""
    return _softmax(x, axis)


def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Compute x - log Σ e^x along an axis; differentiable."""
    return _log_softmax(x, axis)


# ---------------------------------------------------------------- losses


def _losses(x: Tensor, target: Tensor, axis: int, reduction: str, *_: Any) -> tuple[Tensor, Tensor]:
    wide = torch.float64 if x.dtype is torch.float64 else torch.float32
    shape = target.shape if reduction == "none" else ()
    return x.new_empty(shape, dtype=wide), x.new_empty(*target.shape, 2, dtype=wide)


def _call_of_loss(
    outs: Any, x: Any, target: Any, axis: int, reduction: str, ignore_index: int, smoothing: float
) -> FunctionCall:
    return call(_ew.cross_entropy, x, target, axis=axis, reduction=reduction, ignore_index=ignore_index,
        label_smoothing=smoothing, return_stats=True, out=outs
    )  # fmt: skip


_LOSS = "int axis, str reduction, int ignore_index, float label_smoothing"
_loss = Operator(f"cross_entropy(Tensor x, Tensor target, {_LOSS}) -> (Tensor, Tensor)", _losses, _call_of_loss)
_loss_backward = Operator(
    f"cross_entropy_backward(Tensor dy, Tensor x, Tensor target, Tensor stats, {_LOSS}) -> Tensor",
    lambda dy, x, *_: like(x),
    lambda outs, dy, x, target, stats, axis, reduction, ignore_index, smoothing: call(
        _ew.cross_entropy_backward,
        dy,
        x,
        target,
        stats=stats,
        axis=axis,
        reduction=reduction,
        ignore_index=ignore_index,
        label_smoothing=smoothing,
        out=outs[0],
    ),
)
_loss.differentiable(
    lambda ctx, dy, _: (_loss_backward(dy, *ctx.saved_tensors, *ctx.options), None),
    lambda inputs, results: (*inputs[:2], results[1]),
    2,
)


def cross_entropy(
    x: Tensor,
    target: Tensor,
    *,
    axis: int | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross entropy of logits and target classes; differentiable.

    Args:
        x: logits, of floats: (N, classes), (N, classes, ...) or (classes,), as in torch.
        target: integers with x's shape without the axis of classes.
        axis: the axis of the classes; by default 1, or 0 for one row, as in torch.
        reduction: "mean" of the losses that are not ignored, "sum" or "none".
        ignore_index: targets with this value count nothing.
        label_smoothing: from 0 to 1.

    Returns:
        the loss in float32, or in float64 for float64 logits. torch's has the logits' dtype.
    """
    number = min(1, x.ndim - 1) if axis is None else axis
    return _loss(x, target, number, reduction, ignore_index, label_smoothing)[0]


def _gradients_too(x: Tensor, w: Tensor, target: Tensor, bias: Tensor | None, *options: Any) -> tuple[Tensor, ...]:
    wide = torch.float64 if x.dtype is torch.float64 else torch.float32
    loss = x.new_empty((), dtype=wide)
    if not options[-1]:
        return loss, *(x.new_empty(0) for _ in range(3))
    return loss, *like(x, w), x.new_empty(0) if bias is None else like(bias)[0]


def _fill_loss(outs: Any, x: Any, w: Any, target: Any, bias: Any, *options: Any, stream: Any) -> None:
    reduction, ignore_index, smoothing, gradients = options
    loss, dx, dw, dbias = outs
    found, _ = _nn.linear_cross_entropy(
        x, w.T, target, bias, reduction=reduction, ignore_index=ignore_index, label_smoothing=smoothing,
        gradients=gradients, out=(dx, dw.T, None if bias is None else dbias) if gradients else None, stream=stream,
    )  # fmt: skip
    _ew.copy(found, out=loss, stream=stream)


_linear_loss = Operator(
    "linear_cross_entropy(Tensor x, Tensor weight, Tensor target, Tensor? bias, str reduction, int ignore_index, "
    "float label_smoothing, bool gradients) -> (Tensor, Tensor, Tensor, Tensor)",
    _gradients_too,
    lambda outs, *arguments: call(_fill_loss, outs, *arguments),
    autocast="lower",
)
_linear_loss.differentiable(
    lambda ctx, dy, *_: tuple(
        (each * dy).to(each.dtype) if needed else None
        for each, needed in zip(_with_target(ctx.saved_tensors), ctx.needs_input_grad, strict=False)
    ),
    lambda inputs, results: results[1:],
    4,
)


def _with_target(gradients: Sequence[Tensor]) -> tuple[Tensor, ...]:
    dx, dw, dbias = gradients
    return dx, dw, dw, dbias  # target has no gradient


def linear_cross_entropy(
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    bias: Tensor | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross entropy of the logits x weightᵀ + bias, without an array of all logits; differentiable.

    The gradients are computed together with the loss, and are multiplied by the loss's gradient later. See
    `numbacc.nn.linear_cross_entropy`.

    Args:
        x: (..., in) of floats.
        weight: (classes, in), as in torch's Linear, of x's dtype.
        target: integers (...).
        bias: (classes,), or None.
        reduction: "mean" of the losses that are not ignored, or "sum".
        ignore_index, label_smoothing: the same as in `cross_entropy`.

    Returns:
        the loss in float32, or in float64 for float64.
    """
    tracks = torch.is_grad_enabled() and _tracked(x, weight, bias)
    rows, flat = _matrix(x if x.ndim == 2 else x.reshape(-1, x.shape[-1])), target.reshape(-1)
    if target.shape != x.shape[:-1]:
        raise ShapeError(f"target has shape {tuple(target.shape)}; for this x it must be {tuple(x.shape[:-1])}")
    return _linear_loss(rows, _matrix(weight), flat, bias, reduction, ignore_index, label_smoothing, tracks)[0]


# ---------------------------------------------------------------- rotary positions and dropout


_rope = Operator(
    "rope(Tensor x, Tensor cos, Tensor sin, bool interleaved) -> Tensor",
    lambda x, *_: (as_stored(x, x.shape),),
    lambda outs, x, cos, sin, interleaved: call(_ew.rope, x, cos, sin, interleaved=interleaved, out=outs[0]),
)
_rope_backward = Operator(
    "rope_backward(Tensor dy, Tensor cos, Tensor sin, bool interleaved) -> Tensor",
    lambda dy, *_: (as_stored(dy, dy.shape),),
    lambda outs, dy, cos, sin, interleaved: call(_ew.rope_backward, dy, cos, sin, interleaved=interleaved, out=outs[0]),
)
_rope.differentiable(
    lambda ctx, dy: (_rope_backward(dy, *ctx.saved_tensors, *ctx.options), None, None),
    lambda inputs, y: inputs[1:3],
    3,
)


def rope(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool = False) -> Tensor:
    """Rotate pairs of elements by angles that depend on the position; differentiable with respect to x.

    Args:
        x: (..., length, d) of floats.
        cos, sin: cosines and sines (length, d/2), as `numbacc.elementwise.rope_tables` returns them.
        interleaved: whether neighbours form a pair; otherwise, elements i and i + d/2 do.
    """
    return _rope(x, cos, sin, interleaved)


_drop = Operator(
    "dropout(Tensor x, Tensor offset, float p) -> Tensor",
    lambda x, *_: (as_stored(x, x.shape),),
    lambda outs, x, offset, p: call(_ew.dropout, x, p, seed=0, offset=offset, out=outs[0]),
)
_drop.differentiable(
    lambda ctx, dy: (_drop(dy, *ctx.saved_tensors, *ctx.options), None),
    lambda inputs, y: inputs[1:2],
    2,
)


def dropout(x: Tensor, p: float = 0.5, *, training: bool = True) -> Tensor:
    """Set elements of x to 0 with probability p, and divide the others by 1 - p; differentiable.

    The mask is not stored: the gradient computes it again. torch's generator of x's device selects it.

    Args:
        x: tensor of floats.
        p: the probability to drop an element.
        training: False returns x itself.
    """
    if not training or not p:
        return x
    return _drop(x, torch.randint(2**60, (1,), device=x.device), p)
