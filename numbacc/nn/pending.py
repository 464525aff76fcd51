"""Gradients that add to what is there, made of functions that overwrite."""

from __future__ import annotations

from typing import Any

from .. import elementwise


def _finish(found: Any, out: Any, accumulate: Any) -> tuple[Any, ...]:
    made = []
    for new, target, adds in zip(found, out, accumulate, strict=True):
        if target is None:
            made.append(new)
        elif adds:
            made.append(elementwise.add(target, new, out=target))
        else:
            made.append(elementwise.copy(new, out=target))
    return tuple(made)


def rms_norm_backward(dy: Any, x: Any, weight: Any, *, eps: float, out: Any, accumulate: Any) -> Any:
    return _finish(elementwise.rms_norm_backward(dy, x, weight, eps=eps), out, accumulate)


def layer_norm_backward(dy: Any, x: Any, weight: Any, *, bias: bool, eps: float, out: Any, accumulate: Any) -> Any:
    return _finish(elementwise.layer_norm_backward(dy, x, weight, bias=bias, eps=eps), out, accumulate)


def take_backward(dy: Any, x: Any, indices: Any, *, axis: int, out: Any, accumulate: bool) -> Any:
    if out is not None and not accumulate and out.dtype == dy.dtype:
        return elementwise.take_backward(dy, x, indices, axis=axis, out=out)
    return _finish([elementwise.take_backward(dy, x, indices, axis=axis)], [out], [accumulate])[0]


def adamw_step(
    p: Any, g: Any, m: Any, v: Any, step: Any, *, weight_decay: Any, factor: Any, copy: Any, **options: Any
) -> None:
    for k, decay in enumerate(weight_decay):
        gradient = g[k] if factor is None else elementwise.multiply(elementwise.astype(g[k], "float32"), factor)
        elementwise.adamw_step(p[k], gradient, m[k], v[k], step, weight_decay=decay, **options)
        if copy is not None:
            elementwise.copy(p[k], out=copy[k])


def clip_grad_norm(g: Any, max_norm: float, *, factor: Any, write: bool) -> Any:
    norm = elementwise.sqrt(elementwise.sum(elementwise.square(elementwise.astype(g, "float32"))))
    if factor is not None:
        norm = elementwise.multiply(norm, factor)
    scale = elementwise.minimum(elementwise.divide(max_norm, elementwise.add(norm, 1e-6)), 1.0)
    return norm, scale if factor is None else elementwise.multiply(scale, factor)
