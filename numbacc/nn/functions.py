"""The functions that modules are made of: numbacc's functions, put on the tape with their gradients.

Each takes variables or arrays. The kernels that compute gradients of parameters write or add them to the flat buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from .. import attention as attending
from .. import conv as convolution
from .. import elementwise, gemm
from .. import gated as gating
from ..arrays import creation, operands
from ..arrays.operands import Array
from ..elementwise.norms import rms_norm_backward_and_forward
from ..errors import OptionError
from ..gemm.layers import linear_gradients
from .losses import linear_cross_entropy as loss_and_gradients
from .tape import ArrayOrVariable, Variable, record, recording, value_of, wrap

#: The most bytes of logits that are kept for the backward pass, which is faster than chunks.
_WHOLE = 2**30


def _destinations(*inputs: Any) -> tuple[list[Any], list[bool]]:
    """Return `out` and `accumulate` for gradients: None and False for inputs that are not variables."""
    found = [each.destination() if isinstance(each, Variable) else (None, False) for each in inputs]
    return [out for out, _ in found], [adds for _, adds in found]


class NormBefore(NamedTuple):
    """The norm of rows as a function with gradients: RMSNorm, or LayerNorm if there is a bias."""

    weight: Any
    bias: Any
    eps: float

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The parameters."""
        return (self.weight,) if self.bias is None else (self.weight, self.bias)

    def forward(self, x: Array) -> Array:
        """Return the normalized rows."""
        function = elementwise.rms_norm if self.bias is None else elementwise.layer_norm
        return function(x, *map(value_of, self.inputs), eps=self.eps)

    def backward(self, dy: Array, x: Any) -> Sequence[Any]:
        """Return the gradients of x and of the parameters."""
        out, adds = _destinations(x, *self.inputs)
        function, given = elementwise.rms_norm_backward, (dy, value_of(x), self.weight.value)
        options: dict[str, Any] = {"eps": self.eps, "out": out, "accumulate": adds}
        if self.bias is not None:
            function, options["bias"] = elementwise.layer_norm_backward, True
        found: Sequence[Any] = function(*given, **options)
        return found

    def again(self, dy: Array, x: Any) -> tuple[Sequence[Any], Array]:
        """Return the gradients, and the result of `forward`."""
        if self.bias is not None:
            return self.backward(dy, x), self.forward(value_of(x))
        (out, *outs), (adds, *more) = _destinations(x, *self.inputs)
        dx, y, dweight = rms_norm_backward_and_forward(
            dy, value_of(x), self.weight.value, eps=self.eps, out=(out, None, *outs), accumulate=(adds, False, *more)
        )
        return (dx, dweight), y


class GateBefore(NamedTuple):
    """gate(a) b of the halves (a, b) of rows as a function with gradients; see `gated.forward`."""

    kind: str

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The parameters: none."""
        return ()

    def forward(self, x: Array) -> Array:
        """Return gate(a) b."""
        return gating.forward(x, self.kind, gate="first")

    def backward(self, dy: Array, x: Any) -> Sequence[Any]:
        """Return the gradient of x, which overwrites x."""
        u = value_of(x)
        return (gating.backward(dy, u, self.kind, gate="first", out=u),)

    def again(self, dy: Array, x: Any) -> tuple[Sequence[Any], Array]:
        """Return the gradient of x, which overwrites x, and the result of `forward`, which overwrites dy."""
        u = value_of(x)
        dx, y = gating.backward_and_forward(dy, u, self.kind, gate="first", out=(u, dy))
        return (dx,), y


def linear(
    x: Any,
    weight: Any,
    bias: Any = None,
    activation: str | None = None,
    residual: Any = None,
    *,
    before: NormBefore | GateBefore | None = None,
    transposed: bool = False,
    tune: bool = False,
) -> Any:
    """Compute act(h w + bias) + residual as one product; see `gemm.linear`. `transposed` is for a weight (out, in).

    h is x, or the result of `before`, which is not kept for the backward pass: that computes it again.
    """
    w = value_of(weight)
    h, more = (value_of(x), ()) if before is None else (before.forward(value_of(x)), before.inputs)
    given = h, w.T if transposed else w, value_of(bias)
    y, saved = gemm.linear(*given, activation, residual=value_of(residual), tune=tune)
    saved = saved if before is None else saved._replace(x=value_of(x))
    found: list[Any] = []

    def again(dh: Any) -> Any:
        assert before is not None
        gradients, h = before.again(dh, x)
        found.extend(gradients)
        return h

    def backward(dy: Any) -> Sequence[Any]:
        out, adds = _destinations(x, weight, bias)
        if transposed and out[1] is not None:
            out[1] = out[1].T
        options: dict[str, Any] = {"of_rows": isinstance(x, Variable)}  # the first layer of a model needs no dx
        if before is not None:
            out[0], adds[0], options = None, False, {"again": again}
        dx, dw, dbias = linear_gradients(dy, saved, adds, tune, out, **options)
        dx, *others = (dx,) if before is None else found
        return dx, _turned(weight, dw, out[1]) if transposed else dw, dbias, dy, *others

    return record(y, (x, weight, bias, residual, *more), backward)


def _turned(weight: Any, dw: Any, out: Any) -> Any:
    """Return the gradient of a weight, given that of its transpose, which `out` holds unless it is None."""
    return dw.T if out is None else weight.gradient


def embedding(tokens: Any, weight: Any) -> Any:
    """Return the rows of a weight (rows, width) that an array of integers selects."""

    def backward(dy: Any) -> Sequence[Any]:
        (out,), (adds,) = _destinations(weight)
        return (elementwise.take_backward(dy, weight.value, tokens, axis=0, out=out, accumulate=adds),)

    return record(elementwise.take(value_of(weight), tokens, axis=0), (weight,), backward)


def applied(before: NormBefore | GateBefore, x: Any) -> Any:
    """Return the result of a norm or a gate, which is kept for the backward pass."""
    return record(before.forward(value_of(x)), (x, *before.inputs), lambda dy: before.backward(dy, x))


def split_heads(x: Any, heads: int, kv_heads: int) -> tuple[Any, Any, Any]:
    """Return queries, keys and values, given the array (batch, length, heads + 2 kv_heads, d) that holds all."""
    return x[:, :, :heads], x[:, :, heads : heads + kv_heads], x[:, :, heads + kv_heads :]


def rotated_heads(packed: Any, heads: int, kv_heads: int, tables: Any) -> Any:
    """Return the array for `split_heads`, given (batch, length, (heads + 2 kv_heads) d), whose memory it shares.

    Queries and keys are rotated in place by `tables`, unless these are None.
    """
    x = packed.reshape((*packed.shape[:2], heads + 2 * kv_heads, -1))
    if tables is not None:
        rotated = x[:, :, : heads + kv_heads]
        elementwise.rope(rotated, *tables, out=rotated)
    return x


def attention(qkv: Any, heads: int, kv_heads: int, tables: Any, **options: Any) -> Any:
    """Compute attention, given queries, keys and values side by side, (batch, length, (heads + 2 kv_heads) d).

    Queries and keys are rotated in place: nothing else may read `qkv`.

    Args:
        tables: cosines and sines (length, 1, d/2) for `elementwise.rope`, or None.
        options: of `attention.forward`, such as mask, bias and dropout. A bias has no gradient.
    """
    packed = value_of(qkv)
    x, flat = rotated_heads(packed, heads, kv_heads, tables), (*packed.shape[:2], -1)
    parts, options = split_heads(x, heads, kv_heads), {"layout": "BSHD", **options}
    if recording() is None or not isinstance(qkv, Variable):
        only: Any = attending.forward(*parts, **options)
        return only.reshape(flat)
    o, saved = attending.forward(*parts, return_saved=True, **options)

    def backward(dy: Any) -> Sequence[Any]:
        dx = creation.empty_like(x)
        attending.backward(dy.reshape(o.shape), saved, out=split_heads(dx, heads, kv_heads))
        if tables is not None:
            rotated = dx[:, :, : heads + kv_heads]
            elementwise.rope_backward(rotated, *tables, out=rotated)
        return (dx.reshape(packed.shape),)

    return record(o.reshape(flat), (qkv,), backward)


def conv(x: Any, weight: Any, bias: Any, **options: Any) -> Any:
    """Compute a convolution with its bias; see `conv.forward`."""
    given = value_of(x), value_of(weight)
    if recording() is None or not any(isinstance(each, Variable) for each in (x, weight, bias)):
        return convolution.forward(*given, value_of(bias), **options)
    y, saved = convolution.forward(*given, value_of(bias), return_saved=True, **options)

    def backward(dy: Any) -> Sequence[Any]:
        # The tape adds what cuDNN cannot add, to a buffer of another dtype.
        before = weight.gradient if isinstance(weight, Variable) else None
        (out,), (adds,) = _destinations(weight if before is not None and before.dtype == dy.dtype else None)
        dw = convolution.backward_filter(saved, dy, out=out, beta=float(adds))
        dx = convolution.backward_data(dy, saved) if isinstance(x, Variable) else None
        channel = options["layout"].index("C")
        axes = tuple(axis for axis in range(dy.ndim) if axis != channel)
        return dx, dw, elementwise.sum(dy, axis=axes) if isinstance(bias, Variable) else None

    return record(y, (x, weight, bias), backward)


def cross_entropy(logits: Any, target: Any, **options: Any) -> ArrayOrVariable:
    """Return the mean cross entropy of logits (..., classes) and target classes (...), a loss.

    Args:
        logits: a variable or array of floats.
        target: an array of integers.
        options: reduction ("mean" or "sum"), ignore_index and label_smoothing, as in `elementwise.cross_entropy`.

    Example:
        >>> float(nn.cross_entropy(np.zeros((2, 4)), np.array([1, 3])).round(4))
        1.3863
    """
    return wrap(elementwise.cross_entropy)(logits, target, **options)


def fused_cross_entropy(
    x: Any,
    weight: Any,
    target: Any,
    bias: Any = None,
    *,
    transposed: bool = False,
    tune: bool = False,
    **options: Any,
) -> Any:
    """Return the cross entropy of the logits x w + bias without an array of all logits; see `linear_cross_entropy`.

    Up to 1 GiB of logits, their gradients overwrite them, and the backward pass computes the others as for `linear`.
    More logits are computed in chunks, the gradients with them. The backward pass multiplies the gradients by dloss,
    unless that is the number 1.0.
    """
    w = value_of(weight)
    given = value_of(x), w.T if transposed else w, target, value_of(bias)
    inputs = x, weight, bias
    if recording() is None or not any(isinstance(each, Variable) for each in inputs):
        return loss_and_gradients(*given, gradients=False, **options)[0]
    if prod(given[0].shape[:-1]) * given[1].shape[1] * given[0].dtype.itemsize <= _WHOLE:
        logits = linear(x, weight, bias, transposed=transposed, tune=tune)
        z = value_of(logits)
        loss, dz = elementwise.cross_entropy_and_gradient(z, target, out=(None, z), **options)
        return record(loss, (logits,), lambda dy: _multiplied((dz,), dy), takes_number=True)
    loss, (dx, dw, dbias) = loss_and_gradients(*given, **options)
    found = dx, dw.T if transposed else dw, dbias
    return record(loss, inputs, lambda dy: _multiplied(found, dy), takes_number=True)


def _multiplied(gradients: Sequence[Any], dy: Any) -> Sequence[Any]:
    """Return gradients that were computed for a dy of 1, in place multiplied by dy."""
    if type(dy) is float and dy == 1.0:
        return gradients
    return [None if each is None else elementwise.multiply(each, dy, out=each) for each in gradients]


def mean_squared_error(x: Any, target: Any) -> ArrayOrVariable:
    """Return the mean of (x - target)², a loss, in float32 or float64.

    Args:
        x, target: variables or arrays of floats with the same shape.

    Example:
        >>> float(nn.mean_squared_error(np.array([1.0, 2.0]), np.array([1.0, 4.0])))
        2.0
    """
    one, other = value_of(x), value_of(target)
    difference = elementwise.subtract(one, other)
    wide = "float64" if difference.dtype == "float64" else "float32"
    loss = elementwise.mean(elementwise.square(difference), dtype=wide)
    count = max(operands.layout_of(difference).size, 1)

    def backward(dy: Any) -> Sequence[Any]:
        dx = elementwise.multiply(difference, elementwise.multiply(dy, 2.0 / count))
        return dx, elementwise.negative(dx) if isinstance(target, Variable) else None

    return record(loss, (x, target), backward)


def dropout(x: Any, p: float, seed: int, offset: Any) -> Any:
    """Set elements of x to 0 with probability p; see `elementwise.dropout`."""
    y = elementwise.dropout(value_of(x), p, seed=seed, offset=offset)
    return record(y, (x,), lambda dy: (elementwise.dropout_backward(dy, p, seed=seed, offset=offset),))


def check_probability(p: float) -> float:
    """Return a probability to drop elements."""
    if not 0.0 <= p < 1.0:
        raise OptionError(f"dropout={p}: it must be at least 0 and below 1")
    return float(p)
