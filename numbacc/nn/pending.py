"""A step of AdamW with a factor and a copy in another dtype, and a norm of gradients, from separate functions."""

from __future__ import annotations

from typing import Any

from .. import elementwise


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
