"""numbacc's functions for torch tensors, with gradients. Each is a torch operator and a function that calls it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from .. import bridges
from ..errors import DTypeError, ShapeError
from .fast_calls import is_traced, is_watched
from .operators import Operator, as_stored, like

__all__ = [
    "add_layer_norm",
    "add_rms_norm",
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
    bridges.gated,
)
_gated_one_backward = Operator(
    "gated_backward(Tensor dy, Tensor x, str kind, int axis, str gate) -> Tensor",
    lambda dy, x, *_: like(x),
    bridges.gated_backward,
)
_gated_one.differentiable_by(_gated_one_backward, (0,), 1)
_gated_pair = Operator(
    "gated_pair(Tensor a, Tensor b, str kind, str gate) -> Tensor",
    lambda a, *_: like(a),
    bridges.gated_pair,
)
_gated_pair_backward = Operator(
    "gated_pair_backward(Tensor dy, Tensor a, Tensor b, str kind, str gate) -> (Tensor, Tensor)",
    lambda dy, a, b, *_: like(a, b),
    bridges.gated_pair_backward,
)
_gated_pair.differentiable_by(_gated_pair_backward, (0, 1), 2)


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
        return _gated_pair.call(*x, kind, gate)
    return _gated_one.call(x, kind, axis, gate)


# ---------------------------------------------------------------- products


_matmul = Operator(
    "matmul(Tensor a, Tensor b) -> Tensor",
    lambda a, b: (a.new_empty(a.shape[0], b.shape[1]),),
    bridges.matmul_of,
)


_weight_gradients = Operator(
    "linear_weight_backward(Tensor dz, Tensor x) -> (Tensor, Tensor)",
    lambda dz, x: (dz.new_empty(dz.shape[1], x.shape[1]), dz.new_empty(dz.shape[1])),
    bridges.linear_weight_backward,
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


_linear = Operator(
    "linear(Tensor x, Tensor w, Tensor? bias, str activation) -> Tensor",
    lambda x, w, *_: (_rows(x, w),),
    bridges.linear,
    autocast="lower",
)


_linear_gelu = Operator(
    "linear_gelu(Tensor x, Tensor w, Tensor? bias) -> (Tensor, Tensor)",
    lambda x, w, *_: (_rows(x, w), _rows(x, w)),
    bridges.linear_gelu,
    autocast="lower",
    first_only=True,
)
_slopes = Operator(
    "activation_backward(Tensor dy, Tensor z, str activation) -> Tensor",
    lambda dy, *_: like(dy),
    bridges.activation_backward,
)


def _products(ctx: Any, dz: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradients with respect to x, w and bias that are needed, given dz for z = x wᵀ + bias."""
    dz = _matrix(dz)
    dx = _matmul.call(dz, w) if ctx.needs_input_grad[0] else None
    if ctx.needs_input_grad[2]:
        return (dx, *_weight_gradients.call(dz, x))
    return dx, _matmul.call(dz.t(), x) if ctx.needs_input_grad[1] else None, None


def _linear_backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    x, w, y = ctx.saved_tensors
    if ctx.options == ("gelu",):
        return cast("tuple[Any, ...]", _no_gradient(ctx))
    return _products(ctx, dy if y is None else _slopes.call(dy, y, "relu"), x, w)


def _linear_gelu_backward(ctx: Any, dy: Tensor, *_: Any) -> tuple[Any, ...]:
    x, w, z = ctx.saved_tensors
    return _products(ctx, _slopes.call(dy, z, "gelu"), x, w)


# y is positive where z is, so that ReLU's gradient needs no z.
_linear.differentiable(_linear_backward, lambda options: (0, 1, ~0 if options[0] == "relu" else None), 3)
_linear_gelu.differentiable(_linear_gelu_backward, (0, 1, ~1), 3)


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
    if activation is not None:
        bridges.check_activation(activation)
    is_matrix = x.ndim == 2
    rows = x if is_matrix else x.reshape(-1, x.shape[-1])
    # Calls of `_matrix` take time.
    rows = rows if rows.is_contiguous() else _matrix(rows)
    w = weight if weight.is_contiguous() else _matrix(weight)
    if activation == "gelu" and torch.is_grad_enabled() and _tracked(x, weight, bias):
        y = _linear_gelu.call(rows, w, bias)
    else:
        y = _linear.call(rows, w, bias, activation or "")
    return y if is_matrix else y.reshape(*x.shape[:-1], weight.shape[0])


def _tracked(*tensors: Tensor | None) -> bool:
    """Return whether torch records gradients of a tensor."""
    for each in tensors:  # noqa: SIM110 - `any` takes twice as long
        if each is not None and each.requires_grad:
            return True
    return False


# ---------------------------------------------------------------- attention


def _attended(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, ...]:
    """Return new tensors for the result, in q's memory order, and for the statistics of the rows."""
    wide = torch.float64 if q.dtype is torch.float64 else torch.float32
    return as_stored(q, (*q.shape[:-1], v.shape[-1])), q.new_empty(q.shape[:-1], dtype=wide)


_OPTIONS = "str mask, int window, float scale, float p"
_attend = Operator(
    f"attention(Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor? offset, {_OPTIONS}) -> (Tensor, Tensor)",
    _attended,
    bridges.attention,
    autocast="lower",
    first_only=True,
)
#: Attention without the statistics that gradients need.
_attend_only = Operator(
    f"attention_only(Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor? offset, {_OPTIONS}) -> Tensor",
    lambda *given: _attended(*given)[:1],
    bridges.attention,
    autocast="lower",
)
_attend_backward = Operator(
    "attention_backward(Tensor do, Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor? offset, Tensor o, Tensor stats, "
    f"{_OPTIONS}, bool bias_grad) -> Tensor[]",
    lambda do, q, k, v, bias, offset, o, stats, *options: (
        *(as_stored(each, each.shape) for each in (q, k, v)),
        *(like(bias) if options[-1] else ()),
    ),
    bridges.attention_backward,
)


def _no_gradient(ctx: Any, *_: Any) -> Any:
    raise RuntimeError("this result was computed without what its gradient needs: torch recorded no gradients then")


_attend_only.differentiable(_no_gradient, (), 5)


_attend.differentiable_by(_attend_backward, (0, 1, 2, 3, 4, ~0, ~1), 5, needs=(3,))


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
    offset = _drawn_offset(q) if dropout else None
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    given = (q, k, v, bias, offset, *bridges.named_mask(mask), scale, dropout)
    if torch.is_grad_enabled() and _tracked(q, k, v, bias):
        return _attend.call(*given)
    return _attend_only.call(*given)


# ---------------------------------------------------------------- convolution


_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def _memory_format(x: Tensor) -> Any:
    kind = _LAST.get(x.ndim)
    return kind if kind and x.is_contiguous(memory_format=kind) and not x.is_contiguous() else torch.contiguous_format


def _convolved(x: Tensor, w: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> tuple[Tensor]:
    sizes = bridges.conv_lengths(x, w, stride, padding, dilation)
    return (x.new_empty(x.shape[0], w.shape[0], *sizes).contiguous(memory_format=_memory_format(x)),)


_HOW = "int[] stride, int[] padding, int[] dilation, int groups"
_convolve = Operator(
    f"conv(Tensor x, Tensor w, Tensor? bias, {_HOW}) -> Tensor",
    _convolved,
    bridges.conv,
    autocast="lower",
)
_convolve_data = Operator(
    f"conv_backward_data(Tensor dy, Tensor w, Tensor x, {_HOW}) -> Tensor",
    lambda dy, w, x, *_: (torch.empty_like(x),),
    bridges.conv_backward_data,
)
_convolve_filter = Operator(
    f"conv_backward_filter(Tensor dy, Tensor w, Tensor x, {_HOW}) -> Tensor",
    lambda dy, w, x, *_: (torch.empty_like(w),),
    bridges.conv_backward_filter,
)


def _conv_gradients(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    x, w = ctx.saved_tensors
    data, filters, bias = ctx.needs_input_grad[:3]
    return (
        _convolve_data.call(dy, w, x, *ctx.options) if data else None,
        _convolve_filter.call(dy, w, x, *ctx.options) if filters else None,
        dy.sum([0, *range(2, dy.ndim)]) if bias else None,
    )


_convolve.differentiable(_conv_gradients, (0, 1), 3)


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
    how = bridges.conv_options(x, weight, stride, padding, dilation)
    return _convolve.call(x, weight, bias, *how, groups)


# ---------------------------------------------------------------- norms and softmax


_norm = Operator(
    "rms_norm(Tensor x, Tensor? weight, float eps) -> Tensor",
    lambda x, *_: like(x),
    bridges.rms_norm,
    autocast="float32",
)
_norm_backward = Operator(
    "rms_norm_backward(Tensor dy, Tensor x, Tensor? weight, float eps) -> Tensor[]",
    lambda dy, x, weight, eps: like(x) if weight is None else like(x, weight),
    bridges.rms_norm_backward,
)


_norm.differentiable_by(_norm_backward, (0, 1), 2)


@_norm.inlined
def rms_norm(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    """Divide rows (the last axis) by their root mean square, and multiply them by weight; differentiable.

    Args:
        x: tensor of floats.
        weight: (n,), of x's dtype, or None.
        eps: added to the mean of squares.
    """
    return _norm.call(x, weight, eps)


_layers = Operator(
    "layer_norm(Tensor x, Tensor? weight, Tensor? bias, float eps) -> Tensor",
    lambda x, *_: like(x),
    bridges.layer_norm,
    autocast="float32",
)
_layers_backward = Operator(
    "layer_norm_backward(Tensor dy, Tensor x, Tensor? weight, Tensor? bias, float eps) -> Tensor[]",
    lambda dy, x, weight, bias, eps: like(*(each for each in (x, weight, bias) if each is not None)),
    bridges.layer_norm_backward,
)


_layers.differentiable_by(_layers_backward, (0, 1, 2), 3)


@_layers.inlined
def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5) -> Tensor:
    """Normalize rows (the last axis) to mean 0 and variance 1, times weight, plus bias; differentiable.

    Args:
        x: tensor of floats.
        weight, bias: (n,), of x's dtype, or None.
        eps: added to the variance.
    """
    return _layers.call(x, weight, bias, eps)


_add_norm = Operator(
    "add_rms_norm(Tensor x, Tensor residual, Tensor? weight, float eps) -> (Tensor, Tensor)",
    lambda x, *_: like(x, x),
    bridges.add_rms_norm,
    autocast="float32",
)
_add_norm_backward = Operator(
    "add_rms_norm_backward(Tensor dy, Tensor dtotal, Tensor total, Tensor? weight, float eps) -> Tensor[]",
    lambda dy, dtotal, total, weight, eps: like(*(each for each in (total, weight) if each is not None)),
    bridges.add_rms_norm_backward,
)
_add_layers = Operator(
    "add_layer_norm(Tensor x, Tensor residual, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor)",
    lambda x, *_: like(x, x),
    bridges.add_layer_norm,
    autocast="float32",
)
_add_layers_backward = Operator(
    "add_layer_norm_backward(Tensor dy, Tensor dtotal, Tensor total, Tensor? weight, Tensor? bias, float eps) "
    "-> Tensor[]",
    lambda dy, dtotal, total, weight, bias, eps: like(*(each for each in (total, weight, bias) if each is not None)),
    bridges.add_layer_norm_backward,
)


def _sum_gradients(alone: Operator, both: Operator, weights: int) -> Any:
    """Return the gradient of a norm of x + residual, whose results are the norm and the sum; one may be unused."""

    def gradients(ctx: Any, dy: Tensor | None, dtotal: Tensor | None) -> tuple[Any, ...]:
        if dy is None:
            return (dtotal, dtotal, *(None,) * weights)
        slopes = (dy,) if dtotal is None else (dy, dtotal)
        dx, *others = (both if len(slopes) > 1 else alone)(*slopes, *ctx.saved_tensors, *ctx.options)
        return (dx, dx, *others, *(None,) * weights)[: 2 + weights]

    return gradients


_add_norm.differentiable(
    _sum_gradients(_norm_backward, _add_norm_backward, 1),
    (~1, 2),
    3,
    needs_first=False,
)
_add_layers.differentiable(
    _sum_gradients(_layers_backward, _add_layers_backward, 2),
    (~1, 2, 3),
    4,
    needs_first=False,
)


def add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """Return `rms_norm` of x + residual, and x + residual, computed by one kernel; differentiable.

    Args:
        x: tensor of floats.
        residual: tensor of x's shape and dtype.
        weight: (n,), of x's dtype, or None.
        eps: added to the mean of squares.

    Returns:
        (the norm, the sum). The backward pass is one kernel, too, and adds the gradient with respect to the sum.
    """
    y, total = _add_norm(x, residual, weight, eps)
    return y, total


def add_layer_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
) -> tuple[Tensor, Tensor]:
    """Return `layer_norm` of x + residual, and x + residual, computed by one kernel; differentiable.

    Args:
        x: tensor of floats.
        residual: tensor of x's shape and dtype.
        weight, bias: (n,), of x's dtype, or None.
        eps: added to the variance.

    Returns:
        (the norm, the sum). The backward pass is one kernel, too, and adds the gradient with respect to the sum.
    """
    y, total = _add_layers(x, residual, weight, bias, eps)
    return y, total


def _softmax_like(name: str) -> Any:
    made = Operator(
        f"{name}(Tensor x, int axis) -> Tensor",
        lambda x, axis: like(x),
        bridges.CALLS[name],
        autocast="float32",
    )
    slopes = Operator(
        f"{name}_backward(Tensor dy, Tensor y, int axis) -> Tensor",
        lambda dy, y, axis: like(y),
        bridges.CALLS[f"{name}_backward"],
    )
    made.differentiable_by(slopes, (~0,), 1)
    return made


_softmax = _softmax_like("softmax")
_log_softmax = _softmax_like("log_softmax")


@_softmax.inlined
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Compute e^x / Σ e^x along an axis; differentiable."""
    return _softmax.call(x, axis)


@_log_softmax.inlined
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Compute x - log Σ e^x along an axis; differentiable."""
    return _log_softmax.call(x, axis)


# ---------------------------------------------------------------- losses


def _dtype_of_loss(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype is torch.float64 else torch.float32


def _losses(x: Tensor, target: Tensor, axis: int, reduction: str, *_: Any) -> tuple[Tensor, Tensor]:
    wide = _dtype_of_loss(x)
    shape = target.shape if reduction == "none" else ()
    return x.new_empty(shape, dtype=wide), x.new_empty(*target.shape, 2, dtype=wide)


_LOSS = "int axis, str reduction, int ignore_index, float label_smoothing"
_loss = Operator(
    f"cross_entropy(Tensor x, Tensor target, {_LOSS}) -> (Tensor, Tensor)",
    _losses,
    bridges.cross_entropy,
    first_only=True,
)
_loss_backward = Operator(
    f"cross_entropy_backward(Tensor dy, Tensor x, Tensor target, Tensor stats, {_LOSS}) -> Tensor",
    lambda dy, x, *_: like(x),
    bridges.cross_entropy_backward,
)
_loss_share = Operator(
    "cross_entropy_share(Tensor dy, Tensor target, int ignore_index) -> Tensor",
    lambda dy, *_: (dy.new_empty(()),),
    bridges.cross_entropy_share,
)


def _loss_gradients(ctx: Any, dy: Tensor, *_: Any) -> tuple[Any, ...]:
    x, target, stats = ctx.saved_tensors
    axis, reduction, ignore_index, smoothing = ctx.options
    if reduction == "mean":
        # Two operators with one kernel each take less host time than one with two.
        dy, reduction = _loss_share.call(dy, target, ignore_index), "sum"
    return _loss_backward.call(dy, x, target, stats, axis, reduction, ignore_index, smoothing), None


_loss.differentiable(
    _loss_gradients,
    (0, 1, ~1),
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
    return _loss.call(x, target, number, reduction, ignore_index, label_smoothing)


def _gradients_too(x: Tensor, w: Tensor, target: Tensor, bias: Tensor | None, *options: Any) -> tuple[Tensor, ...]:
    loss = x.new_empty((), dtype=_dtype_of_loss(x))
    if not options[-1]:
        return loss, *(x.new_empty(0) for _ in range(3))
    return loss, *like(x, w), x.new_empty(0) if bias is None else like(bias)[0]


_linear_loss = Operator(
    "linear_cross_entropy(Tensor x, Tensor weight, Tensor target, Tensor? bias, str reduction, int ignore_index, "
    "float label_smoothing, bool gradients) -> (Tensor, Tensor, Tensor, Tensor)",
    _gradients_too,
    bridges.linear_cross_entropy,
    autocast="lower",
    first_only=True,
)


def _scaled_gradients(ctx: Any, dy: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    """Return the gradients with respect to x, weight, target (which has no gradient) and bias."""
    needed = ctx.needs_input_grad
    dx, dw, dbias = (
        (each * dy).to(each.dtype) if needed[number] else None
        for each, number in zip(ctx.saved_tensors, (0, 1, 3), strict=True)
    )
    return dx, dw, None, dbias


_linear_loss.differentiable(_scaled_gradients, (~1, ~2, ~3), 4)


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
    return _linear_loss.call(rows, _matrix(weight), flat, bias, reduction, ignore_index, label_smoothing, tracks)


# ---------------------------------------------------------------- rotary positions and dropout


_rope = Operator(
    "rope(Tensor x, Tensor cos, Tensor sin, bool interleaved) -> Tensor",
    lambda x, *_: (as_stored(x, x.shape),),
    bridges.rope,
)
_rope_backward = Operator(
    "rope_backward(Tensor dy, Tensor cos, Tensor sin, bool interleaved) -> Tensor",
    lambda dy, *_: (as_stored(dy, dy.shape),),
    bridges.rope_backward,
)
_rope.differentiable_by(_rope_backward, (1, 2), 3)


@_rope.inlined
def rope(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool = False) -> Tensor:
    """Rotate pairs of elements by angles that depend on the position; differentiable with respect to x.

    Args:
        x: (..., length, d) of floats.
        cos, sin: cosines and sines (length, d/2), as `numbacc.elementwise.rope_tables` returns them.
        interleaved: whether neighbours form a pair; otherwise, elements i and i + d/2 do.
    """
    return _rope.call(x, cos, sin, interleaved)


_drop = Operator(
    "dropout(Tensor x, Tensor offset, float p) -> Tensor",
    lambda x, *_: (as_stored(x, x.shape),),
    bridges.dropout,
)
_drop.differentiable_by(_drop, (1,), 2)
#: Dropout by a seed that the host knows, which takes one kernel less.
_drop_by_seed = Operator(
    "dropout_by_seed(Tensor x, int seed, float p) -> Tensor",
    lambda x, *_: (as_stored(x, x.shape),),
    bridges.dropout_by_seed,
    seeded=True,
)
_drop_by_seed.differentiable_by(_drop_by_seed, (), 1)
_lock = threading.Lock()
#: An odd number, so that different offsets give different seeds.
_FACTOR = 0xD1342543DE82EF95


def _drawn_seed(device: int) -> int:
    """Return a seed that depends on the seed and the offset of a GPU's generator in torch, and advance the offset."""
    generator: Any = torch.cuda.default_generators[device]
    with _lock:
        offset: int = generator.get_offset()
        generator.set_offset(offset + 4)
    start: int = generator.initial_seed()
    return (start + offset // 4 * _FACTOR) % 2**63


def _host_draws(x: Tensor) -> bool:
    """Return whether the host draws random numbers for x.

    Compiled functions and CUDA graphs draw other numbers in each run, on the GPU.
    """
    return not is_traced() and x.is_cuda and not is_watched() and not torch._C._cuda_isCurrentStreamCapturing()


def _drawn_offset(x: Tensor) -> Tensor:
    """Return a random multiple of 4 on x's device, from torch's generator of the device."""
    if _host_draws(x):
        return torch.full((1,), _drawn_seed(x.get_device()) % 2**58 * 4, device=x.device)
    return torch.randint(2**58, (1,), device=x.device) * 4


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
    if _host_draws(x):
        return _drop_by_seed.call(x, _drawn_seed(x.get_device()), p)
    return _drop.call(x, torch.randint(2**60, (1,), device=x.device), p)
