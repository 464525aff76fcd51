"""numbacc's functions for JAX arrays, with gradients and batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_derivatives import SymbolicZero

from .. import bridges
from ..errors import DTypeError, ShapeError
from .calls import Batch, Call, differentiable, to_front

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

# ---------------------------------------------------------------- batches


def _leading(call: Callable[[], Call], alike: int, axis: int | None = None) -> Batch:
    """Return the `Batch` of a call whose first arrays may have more leading axes.

    Args:
        call: returns the call.
        alike: how many arrays get the batch as their first axis. The others must not have it.
        axis: the number of the option that counts an axis from the front, if there is one.
    """

    def batch(size: int, is_batched: Sequence[bool], arrays: Sequence[Any], options: tuple[Any, ...]) -> Any:
        if any(is_batched[alike:]):
            return None
        return call()(*_fronts(size, is_batched, arrays)[:alike], *arrays[alike:], *_moved(options, axis))

    return batch


def _moved(options: tuple[Any, ...], number: int | None) -> tuple[Any, ...]:
    """Return options for arrays with one more axis in front."""
    if number is None or options[number] < 0:
        return options
    return (*options[:number], options[number] + 1, *options[number + 1 :])


def _fronts(size: int, is_batched: Sequence[bool], arrays: Sequence[Any]) -> list[Any]:
    pairs = zip(is_batched, arrays, strict=True)
    return [None if each is None else to_front(size, is_own, each) for is_own, each in pairs]


def _folded(call: Callable[[], Call], alike: Sequence[int]) -> Batch:
    """Return the `Batch` of a call that gets a batch as a part of the first axis of these arrays and of its results.

    The other arrays must not have it.
    """

    def batch(size: int, is_batched: Sequence[bool], arrays: Sequence[Any], options: tuple[Any, ...]) -> Any:
        if any(each for k, each in enumerate(is_batched) if k not in alike):
            return None
        fronts = _fronts(size, is_batched, arrays)
        given = [_merge(fronts[k]) if k in alike else each for k, each in enumerate(arrays)]
        return [_split(each, size) for each in call()(*given, *options)]

    return batch


def _merge(x: Any) -> Any:
    """Merge the first two axes."""
    return None if x is None else x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


def _split(x: Any, size: int) -> Any:
    """Split the first axis into `size` parts."""
    return x.reshape(size, x.shape[0] // size, *x.shape[1:])


def _sum(x: Any, axes: Sequence[int]) -> Any:
    """Return a sum in at least single precision, in x's dtype."""
    wide = x.dtype if x.dtype == jnp.float64 else jnp.float32
    return x.astype(wide).sum(tuple(axes)).astype(x.dtype)


# ---------------------------------------------------------------- gated activations


_gated_call: Call = Call("gated", 1, _leading(lambda: _gated_call, 1, 1))
_gated_slopes: Call = Call("gated_backward", 2, _leading(lambda: _gated_slopes, 2, 1), of="gated")
_gated = differentiable(
    lambda options, x: _gated_call(x, *options)[0],
    lambda options, x: (_gated_call(x, *options)[0], x),
    lambda options, x, dy: _gated_slopes(dy, x, *options),
)
_pair_call: Call = Call("gated_pair", 2, _leading(lambda: _pair_call, 2), of="gated")
_pair_slopes: Call = Call("gated_pair_backward", 3, _leading(lambda: _pair_slopes, 3), of="gated", results=2)
_gated_pair = differentiable(
    lambda options, a, b: _pair_call(a, b, *options)[0],
    lambda options, a, b: (_pair_call(a, b, *options)[0], (a, b)),
    lambda options, ab, dy: _pair_slopes(dy, *ab, *options),
)


def gated(x: Array | tuple[Array, Array], kind: str = "swiglu", *, axis: int = -1, gate: str = "second") -> Array:
    """Compute y = a * g(b), where (a, b) are the two halves of x; differentiable.

    See `numbacc.gated.forward` for the arguments. A Llama MLP computes silu(gate) * up, which is
    `gated((gate, up), gate="first")`.

    Args:
        x: array of floats with even length along `axis`, or a pair of arrays of equal shape.
        kind: "glu", "reglu", "swiglu", "geglu" or "geglu_tanh".
        axis: the axis that is split; ignored for a pair.
        gate: which half passes through g: "second" or "first".

    Returns:
        an array with half of x's length along `axis`.
    """
    if isinstance(x, (tuple, list)):
        if len(x) != 2:
            raise ShapeError(f"x has {len(x)} arrays; it must be one array or a pair")
        return _gated_pair((kind, gate), *x)
    return _gated((kind, axis, gate), x)


# ---------------------------------------------------------------- products


def _batch_of_products(size: int, is_batched: Sequence[bool], arrays: Sequence[Any], options: Any) -> Any:
    if is_batched[0] and not is_batched[1] and arrays[0].ndim == 3:
        return [_split(_matmul(_merge(arrays[0]), arrays[1])[0], size)]
    return _matmul(*_fronts(size, is_batched, arrays))


_matmul: Call = Call("matmul_of", 2, _batch_of_products, of="linear")


def _batch_of_weight_gradients(size: int, is_batched: Sequence[bool], arrays: Sequence[Any], options: Any) -> Any:
    dz, x = _fronts(size, is_batched, arrays)
    return _matmul(jnp.swapaxes(dz, 1, 2), x)[0], _sum(dz, [1])


_weight_gradients: Call = Call("linear_weight_backward", 2, _batch_of_weight_gradients, of="linear", results=2)
_linear_call: Call = Call("linear", 3, _folded(lambda: _linear_call, [0]))
_linear_gelu: Call = Call("linear_gelu", 3, _folded(lambda: _linear_gelu, [0]), of="linear", results=2)
_slopes: Call = Call("activation_backward", 2, _leading(lambda: _slopes, 2), of="linear")


def _linear_saved(options: tuple[Any, ...], x: Array, w: Array, bias: Array | None) -> Any:
    (activation,) = options
    if activation == "gelu":
        y, z = _linear_gelu(x, w, bias)
        return y, (x, w, () if bias is not None else None, z)
    (y,) = _linear_call(x, w, bias, activation)
    # y is positive where z is, so that ReLU's gradient needs no z.
    return y, (x, w, () if bias is not None else None, y if activation else None)


def _linear_gradients(options: tuple[Any, ...], saved: Any, dy: Array) -> Any:
    x, w, has_bias, z = saved
    dz = dy if z is None else _slopes(dy, z, *options)[0]
    (dx,) = _matmul(dz, w)
    if has_bias is None:
        return dx, _matmul(dz.T, x)[0], None
    return (dx, *_weight_gradients(dz, x))


_linear = differentiable(
    lambda options, x, w, bias: _linear_call(x, w, bias, *options)[0], _linear_saved, _linear_gradients
)


def linear(x: Array, weight: Array, bias: Array | None = None, activation: str | None = None) -> Array:
    """Compute act(x weightᵀ + bias) as one product with its epilogue; differentiable.

    Args:
        x: (..., in) of floats.
        weight: (out, in), as in torch's Linear, of x's dtype.
        bias: (out,), or None.
        activation: None, "relu" or "gelu" (the tanh form).

    Returns:
        an array (..., out).
    """
    bridges.check_activation(activation)
    x, weight = jnp.asarray(x), jnp.asarray(weight)
    if weight.dtype != x.dtype:
        raise DTypeError(f"weight has dtype {weight.dtype} but x has {x.dtype}: convert one, x.astype(weight.dtype)")
    if weight.ndim != 2 or not x.ndim or weight.shape[1] != x.shape[-1]:
        wanted = f"for x's rows of {x.shape[-1]} it must be (out, {x.shape[-1]})" if x.ndim else "x must have rows"
        raise ShapeError(f"weight has shape {weight.shape}; {wanted}")
    rows = x if x.ndim == 2 else x.reshape(-1, x.shape[-1])
    y = _linear((activation or "",), rows, weight, bias)
    return y if x.ndim == 2 else y.reshape(*x.shape[:-1], weight.shape[0])


# ---------------------------------------------------------------- attention


def _biases(size: int, is_batched: bool, bias: Any, batch: int, is_whole: bool) -> Any:
    """Return the bias for a batch of attentions that are merged with their own batch, in four dimensions."""
    if bias is None:
        return None
    own = bias.shape[1:] if is_batched else bias.shape
    padded = (1,) * (4 - len(own)) + tuple(own)
    if not is_batched and padded[0] == 1 and not is_whole:
        return bias.reshape(padded)
    spread = jnp.broadcast_to(
        bias.reshape(size if is_batched else 1, *padded), (size, max(batch, padded[0]), *padded[1:])
    )
    return _merge(spread)


def _batch_of_attention(call: Callable[[], Call], first: int) -> Batch:
    """Return the `Batch` of attention, forward or backward. The queries are array number `first`."""

    def batch(size: int, is_batched: Sequence[bool], arrays: Sequence[Any], options: tuple[Any, ...]) -> Any:
        bias, offset = first + 3, first + 4
        if arrays[offset] is not None:
            return None  # a mask of dropout depends on the positions of elements
        fronts = _fronts(size, is_batched, arrays)
        given = [_merge(each) for each in fronts]
        needs_bias = bool(first and options[-1])
        given[bias] = _biases(size, is_batched[bias], arrays[bias], fronts[first].shape[1], needs_bias)
        found = [_split(each, size) for each in call()(*given, *options)]
        if needs_bias:
            own = arrays[bias].shape[1:] if is_batched[bias] else arrays[bias].shape
            padded = (1,) * (4 - len(own)) + tuple(own)
            slope = found[3] if padded[0] > 1 else _sum(found[3], [1])
            found[3] = slope.reshape(size, *own)
        return found

    return batch


_attend: Call = Call("attention", 5, _batch_of_attention(lambda: _attend, 0), results=2)
#: Attention without the statistics that gradients need.
_attend_only: Call = Call("attention", 5, _batch_of_attention(lambda: _attend_only, 0))
_attend_backward: Call = Call(
    "attention_backward", 8, _batch_of_attention(lambda: _attend_backward, 1), of="attention",
    results=lambda present, options: 4 if options[-1] else 3,
)  # fmt: skip


def _attention_saved(options: tuple[Any, ...], *given: Any) -> Any:
    values = [None if each is None else each.value for each in given]
    o, stats = _attend(*values, *options)
    needs_bias = () if given[3] is not None and given[3].perturbed else None  # as the structure of a pytree
    return o, (*values, o, stats, needs_bias)


def _attention_gradients(options: tuple[Any, ...], saved: Any, do: Any) -> Any:
    *arrays, needs_bias = saved
    if isinstance(do, SymbolicZero):
        do = jnp.zeros(do.shape, do.dtype)
    found = _attend_backward(do, *arrays, *options, needs_bias is not None)
    bias = arrays[3]
    slope = found[3] if needs_bias is not None else None if bias is None else jnp.zeros_like(bias)
    return *found[:3], slope, None


_attention = differentiable(
    lambda options, *given: _attend_only(*given, *options)[0], _attention_saved, _attention_gradients,
    symbolic_zeros=True,
)  # fmt: skip


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    mask: Any = None,
    bias: Array | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    key: Array | None = None,
) -> Array:
    """Compute softmax(scale q kᵀ + bias, masked) v; differentiable.

    Args:
        q: queries (batch, heads, queries, d), of floats.
        k, v: keys (batch, heads_kv, keys, d) and values (batch, heads_kv, keys, d_v); heads is a multiple of heads_kv.
        mask: None, "causal", "causal_bottom_right", or numbacc.attention's `SlidingWindow(n)` or
            `CausalSlidingWindow(n)`.
        bias: broadcasts to (batch, heads, queries, keys); -inf masks.
        scale: factor of the scores; 1/√d if None.
        dropout: the probability that a weight becomes 0.
        key: a key of `jax.random`, which selects these weights.

    Returns:
        an array (batch, heads, queries, d_v).
    """
    offset = _offset(key, 2**26) if dropout else None
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    options = (*bridges.named_mask(mask), scale, float(dropout))
    return _attention(options, q, k, v, bias, offset)


def _offset(key: Any, highest: int) -> Array:
    """Return where a mask of dropout starts in the generator's sequence: a multiple of 4, as two uint32 numbers.

    The upper one is below `highest`, the lower one comes first in memory.
    """
    if key is None:
        raise TypeError("dropout needs key=, a key of jax.random: key=jax.random.key(0)")
    low, high = jax.random.bits(key, (2,), jnp.uint32)
    return jnp.stack([low & jnp.uint32(0xFFFFFFFC), high % jnp.uint32(highest)])


# ---------------------------------------------------------------- convolution


_convolve: Call = Call("conv", 3, _folded(lambda: _convolve, [0]))
_convolve_data: Call = Call("conv_backward_data", 3, _folded(lambda: _convolve_data, [0, 2]), of="conv")
_convolve_filter: Call = Call("conv_backward_filter", 3, of="conv")


def _conv_gradients(options: tuple[Any, ...], saved: Any, dy: Array) -> Any:
    x, w, has_bias = saved
    return (
        _convolve_data(dy, w, x, *options)[0],
        _convolve_filter(dy, w, x, *options)[0],
        None if has_bias is None else _sum(dy, [0, *range(2, dy.ndim)]),
    )


_conv = differentiable(
    lambda options, x, w, bias: _convolve(x, w, bias, *options)[0],
    lambda options, x, w, bias: (_convolve(x, w, bias, *options)[0], (x, w, None if bias is None else ())),
    _conv_gradients,
)


def conv(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """Compute a convolution in one, two or three dimensions, with torch's arguments; differentiable.

    Args:
        x: (N, C, ...) of floats.
        weight: (K, C/groups, ...).
        bias: (K,), or None.
        stride, dilation: an integer, or one for each spatial dimension.
        padding: zeros on both sides of each dimension: an integer, or one for each; "valid" or "same".
        groups: number of parts that the channels are divided into.

    Returns:
        an array (N, K, ...).
    """
    options = (*bridges.conv_options(x, weight, stride, padding, dilation), groups)
    return _conv(options, x, weight, bias)


# ---------------------------------------------------------------- norms and softmax


def _rows_axes(x: Any) -> range:
    """Return the axes of the rows of one example."""
    return range(1, x.ndim - 1)


def _batch_of_norm_gradients(call: Callable[[], Call]) -> Batch:
    """Return the `Batch` of gradients of RMSNorm. Their first array is dy, the last are the rows and the weight."""

    def batch(size: int, is_batched: Sequence[bool], arrays: Sequence[Any], options: tuple[Any, ...]) -> Any:
        dy, *rows, weight = _fronts(size, is_batched, arrays)
        if weight is None:
            return call()(dy, *rows, None, *options)
        scaled = dy * weight.reshape(size, *[1] * (dy.ndim - 2), -1)
        normalized = _norm_call(rows[-1], None, *options)[0]
        return call()(scaled, *rows, None, *options)[0], _products(dy, normalized)

    return batch


def _products(dy: Any, y: Any) -> Any:
    """Return the sums of products over the rows of each example."""
    wide = y.dtype if y.dtype == jnp.float64 else jnp.float32
    return (dy.astype(wide) * y.astype(wide)).sum(tuple(_rows_axes(y))).astype(y.dtype)


_norm_call: Call = Call("rms_norm", 2, _leading(lambda: _norm_call, 1))
_norm_slopes: Call = Call(
    "rms_norm_backward", 3, _batch_of_norm_gradients(lambda: _norm_slopes), of="rms_norm",
    results=lambda present, _: sum(present) - 1,
)  # fmt: skip
_norm = differentiable(
    lambda options, x, weight: _norm_call(x, weight, *options)[0],
    lambda options, x, weight: (_norm_call(x, weight, *options)[0], (x, weight)),
    lambda options, saved, dy: (*_norm_slopes(dy, *saved, *options), None)[:2],
)


def rms_norm(x: Array, weight: Array | None = None, *, eps: float = 1e-6) -> Array:
    """Divide rows (the last axis) by their root mean square, and multiply them by weight; differentiable.

    Args:
        x: array of floats.
        weight: (n,), of x's dtype, or None.
        eps: added to the mean of squares.
    """
    return _norm((float(eps),), x, weight)


def _batch_of_layer_gradients(call: Callable[[], Call]) -> Batch:
    """Return the `Batch` of gradients of LayerNorm. Their first array is dy, the last are the rows, weight and bias."""

    def batch(size: int, is_batched: Sequence[bool], arrays: Sequence[Any], options: tuple[Any, ...]) -> Any:
        dy, *rows, weight, bias = _fronts(size, is_batched, arrays)
        scaled = dy if weight is None else dy * weight.reshape(size, *[1] * (dy.ndim - 2), -1)
        found = [*call()(scaled, *rows, None, None, *options)]
        if weight is not None:
            found.append(_products(dy, _layer_call(rows[-1], None, None, *options)[0]))
        if bias is not None:
            found.append(_sum(dy, _rows_axes(dy)))
        return found

    return batch


_layer_call: Call = Call("layer_norm", 3, _leading(lambda: _layer_call, 1))
_layer_slopes: Call = Call(
    "layer_norm_backward", 4, _batch_of_layer_gradients(lambda: _layer_slopes), of="layer_norm",
    results=lambda present, _: sum(present) - 1,
)  # fmt: skip
_layers = differentiable(
    lambda options, x, weight, bias: _layer_call(x, weight, bias, *options)[0],
    lambda options, x, weight, bias: (_layer_call(x, weight, bias, *options)[0], (x, weight, bias)),
    lambda options, saved, dy: (*_layer_slopes(dy, *saved, *options), None, None)[:3],
)


def layer_norm(x: Array, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5) -> Array:
    """Normalize rows (the last axis) to mean 0 and variance 1, times weight, plus bias; differentiable.

    Args:
        x: array of floats.
        weight, bias: (n,), of x's dtype, or None.
        eps: added to the variance.
    """
    return _layers((float(eps),), x, weight, bias)


_add_norm_call: Call = Call("add_rms_norm", 3, _leading(lambda: _add_norm_call, 2), results=2)
_add_norm_slopes: Call = Call(
    "add_rms_norm_backward", 4, _batch_of_norm_gradients(lambda: _add_norm_slopes), of="add_rms_norm",
    results=lambda present, _: sum(present) - 2,
)  # fmt: skip
_add_layer_call: Call = Call("add_layer_norm", 4, _leading(lambda: _add_layer_call, 2), results=2)
_add_layer_slopes: Call = Call(
    "add_layer_norm_backward", 5, _batch_of_layer_gradients(lambda: _add_layer_slopes), of="add_layer_norm",
    results=lambda present, _: sum(present) - 2,
)  # fmt: skip


def _norm_of_sum(forward: Call, alone: Call, both: Call) -> Any:
    """Return the function of a norm of x + residual, whose results are the norm and the sum; one may be unused.

    Args:
        forward: the call that computes both.
        alone: the norm's gradient with respect to the sum and the weights.
        both: the same, with the gradient of the sum added.
    """

    def saved(options: tuple[Any, ...], *given: Any) -> Any:
        arrays = [None if each is None else each.value for each in given]
        y, total = forward(*arrays, *options)
        return (y, total), (total, *arrays[2:])

    def gradients(options: tuple[Any, ...], kept: Any, slopes: Any) -> Any:
        total, *weights = kept
        dy, dtotal = slopes
        if isinstance(dy, SymbolicZero):
            dx = jnp.zeros_like(total) if isinstance(dtotal, SymbolicZero) else dtotal
            return dx, dx, *[None if each is None else jnp.zeros_like(each) for each in weights]
        if isinstance(dtotal, SymbolicZero):
            found = iter(alone(dy, total, *weights, *options))
        else:
            found = iter(both(dy, dtotal, total, *weights, *options))
        dx = next(found)
        return dx, dx, *[None if each is None else next(found) for each in weights]

    return differentiable(
        lambda options, *arrays: tuple(forward(*arrays, *options)), saved, gradients, symbolic_zeros=True
    )


_add_norm = _norm_of_sum(_add_norm_call, _norm_slopes, _add_norm_slopes)
_add_layers = _norm_of_sum(_add_layer_call, _layer_slopes, _add_layer_slopes)


def add_rms_norm(x: Array, residual: Array, weight: Array | None = None, *, eps: float = 1e-6) -> tuple[Array, Array]:
    """Return `rms_norm` of x + residual, and x + residual, computed by one kernel; differentiable.

    Args:
        x: array of floats.
        residual: array of x's shape and dtype.
        weight: (n,), of x's dtype, or None.
        eps: added to the mean of squares.

    Returns:
        (the norm, the sum). The backward pass is one kernel, too, and adds the gradient with respect to the sum.
    """
    y, total = _add_norm((float(eps),), x, residual, weight)
    return y, total


def add_layer_norm(
    x: Array, residual: Array, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5
) -> tuple[Array, Array]:
    """Return `layer_norm` of x + residual, and x + residual, computed by one kernel; differentiable.

    Args:
        x: array of floats.
        residual: array of x's shape and dtype.
        weight, bias: (n,), of x's dtype, or None.
        eps: added to the variance.

    Returns:
        (the norm, the sum). The backward pass is one kernel, too, and adds the gradient with respect to the sum.
    """
    y, total = _add_layers((float(eps),), x, residual, weight, bias)
    return y, total


def _softmax_like(name: str) -> Any:
    forward: Call = Call(name, 1, _leading(lambda: forward, 1, 0))
    slopes: Call = Call(f"{name}_backward", 2, _leading(lambda: slopes, 2, 0), of=name)

    def saved(options: tuple[Any, ...], x: Array) -> Any:
        (y,) = forward(x, *options)
        return y, y

    return differentiable(
        lambda options, x: forward(x, *options)[0], saved, lambda options, y, dy: slopes(dy, y, *options)
    )


_softmax = _softmax_like("softmax")
_log_softmax = _softmax_like("log_softmax")


def softmax(x: Array, *, axis: int = -1) -> Array:
    """Compute e^x / Σ e^x along an axis; differentiable."""
    return _softmax((axis,), x)


def log_softmax(x: Array, *, axis: int = -1) -> Array:
    """Compute x - log Σ e^x along an axis; differentiable."""
    return _log_softmax((axis,), x)


# ---------------------------------------------------------------- losses


def _counts(target: Any, ignore_index: int) -> Any:
    """Return how many targets of each example are not ignored."""
    return (target != ignore_index).sum(tuple(range(1, target.ndim)))


def _batch_of_losses(size: int, is_batched: Sequence[bool], arrays: Sequence[Any], options: tuple[Any, ...]) -> Any:
    x, target = _fronts(size, is_batched, arrays)
    axis, reduction, ignore_index, smoothing = _moved(options, 0)
    loss, stats = _loss_call(x, target, axis, "none", ignore_index, smoothing)
    if reduction != "none":
        loss = loss.sum(tuple(range(1, loss.ndim)))
    if reduction == "mean":
        loss = loss / _counts(target, ignore_index)
    return loss, stats


def _batch_of_loss_gradients(
    size: int, is_batched: Sequence[bool], arrays: Sequence[Any], options: tuple[Any, ...]
) -> Any:
    dy, x, target, stats = _fronts(size, is_batched, arrays)
    axis, reduction, ignore_index, smoothing = _moved(options, 0)
    if reduction == "mean":
        dy = dy / _counts(target, ignore_index)
    if reduction != "none":
        dy = jnp.broadcast_to(dy.reshape(size, *[1] * (target.ndim - 1)), target.shape)
    return _loss_slopes(dy, x, target, stats, axis, "none", ignore_index, smoothing)


_loss_call: Call = Call(
    "cross_entropy", 2, _batch_of_losses, results=2,
    # The plan's result still has the axis of the classes.
    shapes=lambda arrays, options: [arrays[1].shape] if options[1] == "none" else [],
)  # fmt: skip
_loss_slopes: Call = Call("cross_entropy_backward", 4, _batch_of_loss_gradients, of="cross_entropy")


def _loss_saved(options: tuple[Any, ...], x: Array, target: Array) -> Any:
    loss, stats = _loss_call(x, target, *options)
    return loss, (x, target, stats)


_loss = differentiable(
    lambda options, x, target: _loss_call(x, target, *options)[0],
    _loss_saved,
    lambda options, saved, dy: (_loss_slopes(dy, *saved, *options)[0], None),
)


def cross_entropy(
    x: Array,
    target: Array,
    *,
    axis: int | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Array:
    """Return the cross entropy of logits and target classes; differentiable.

    Args:
        x: logits, of floats: (N, classes), (N, classes, ...) or (classes,), as in torch.
        target: integers with x's shape without the axis of classes.
        axis: the axis of the classes; by default 1, or 0 for one row, as in torch.
        reduction: "mean" of the losses that are not ignored, "sum" or "none".
        ignore_index: targets with this value count nothing.
        label_smoothing: from 0 to 1.

    Returns:
        the loss in float32, or in float64 for float64 logits.
    """
    x = jnp.asarray(x)
    number = min(1, x.ndim - 1) if axis is None else axis
    options = (number, reduction, ignore_index, float(label_smoothing))
    return _loss(options, x, target)


def _gradients_too(arrays: Sequence[Any]) -> list[Any]:
    x, weight, _, bias = arrays
    loss = jax.ShapeDtypeStruct((), jnp.float64 if x.dtype == jnp.float64 else jnp.float32)
    return [loss, x, weight, jax.ShapeDtypeStruct((0,), x.dtype) if bias is None else bias]


_linear_loss_call: Call = Call(
    "linear_cross_entropy", 4, results=4, like=_gradients_too,
    shapes=lambda arrays, options: [] if options[-1] else [(), (0,), (0,), (0,)],
)  # fmt: skip


def _linear_loss_saved(options: tuple[Any, ...], *arrays: Any) -> Any:
    loss, *gradients = _linear_loss_call(*arrays, *options, True)
    return loss, gradients[: 2 if arrays[3] is None else 3]


def _scaled_gradients(options: tuple[Any, ...], saved: Any, dy: Array) -> tuple[Any, ...]:
    dx, dw, *dbias = ((each * dy).astype(each.dtype) for each in saved)
    return dx, dw, None, dbias[0] if dbias else None


_linear_loss = differentiable(
    lambda options, *arrays: _linear_loss_call(*arrays, *options, False)[0], _linear_loss_saved, _scaled_gradients
)


def linear_cross_entropy(
    x: Array,
    weight: Array,
    target: Array,
    bias: Array | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Array:
    """Return the cross entropy of the logits x weightᵀ + bias, without an array of all logits; differentiable.

    See `numbacc.nn.linear_cross_entropy`.

    Args:
        x: (..., in) of floats.
        weight: (classes, in), of x's dtype.
        target: integers (...).
        bias: (classes,), or None.
        reduction: "mean" of the losses that are not ignored, or "sum".
        ignore_index, label_smoothing: the same as in `cross_entropy`.

    Returns:
        the loss in float32, or in float64 for float64.
    """
    x, target = jnp.asarray(x), jnp.asarray(target)
    if target.shape != x.shape[:-1]:
        raise ShapeError(f"target has shape {target.shape}; for this x it must be {x.shape[:-1]}")
    options = (reduction, ignore_index, float(label_smoothing))
    return _linear_loss(options, x.reshape(-1, x.shape[-1]), weight, target.reshape(-1), bias)


# ---------------------------------------------------------------- rotary positions and dropout


_rope_call: Call = Call("rope", 3, _leading(lambda: _rope_call, 1))
_rope_slopes: Call = Call("rope_backward", 3, _leading(lambda: _rope_slopes, 1), of="rope")
_rope = differentiable(
    lambda options, x, cos, sin: _rope_call(x, cos, sin, *options)[0],
    lambda options, x, cos, sin: (_rope_call(x, cos, sin, *options)[0], (cos, sin)),
    lambda options, saved, dy: (
        _rope_slopes(dy, *saved, *options)[0],
        jnp.zeros_like(saved[0]),
        jnp.zeros_like(saved[1]),
    ),
)


def rope(x: Array, cos: Array, sin: Array, *, interleaved: bool = False) -> Array:
    """Rotate pairs of elements by angles that depend on the position; differentiable with respect to x.

    Args:
        x: (..., length, d) of floats.
        cos, sin: cosines and sines (length, d/2), as `numbacc.elementwise.rope_tables` returns them.
        interleaved: whether neighbours form a pair; otherwise, elements i and i + d/2 do.
    """
    return _rope((interleaved,), x, cos, sin)


_drop_call: Call = Call("dropout", 2)
_drop = differentiable(
    lambda options, x, offset: _drop_call(x, offset, *options)[0],
    lambda options, x, offset: (_drop_call(x, offset, *options)[0], offset),
    lambda options, offset, dy: (_drop_call(dy, offset, *options)[0], None),
)


def dropout(x: Array, p: float = 0.5, *, key: Array | None = None, training: bool = True) -> Array:
    """Set elements of x to 0 with probability p, and divide the others by 1 - p; differentiable.

    The mask is not stored: the gradient computes it again.

    Args:
        x: array of floats.
        p: the probability to drop an element.
        key: a key of `jax.random`, which selects the elements.
        training: False returns x itself.
    """
    if not training or not p:
        return x
    return _drop((float(p),), x, _offset(key, 2**28))
