"""Elementwise functions of arrays, on the GPU for device arrays, by NumPy for NumPy arrays.

```
from numbacc import elementwise as ew

y = ew.exp(x)                               # in x's dtype; integers as in NumPy
z = ew.add(y, 2.0, out=y)                   # in place; arrays and scalars broadcast
ew.multiply(z, w, out=z, where=mask)        # z keeps its values where the mask is False
```

Each function also returns plans: `exp.plan(x)`. Mixed dtypes follow NumPy 2's promotion rules: int32 with float32 gives
float64, and Python scalars never widen an array's dtype. Where NumPy has no rule, for bfloat16 with float16 or with
wide integers, torch's rule applies. Names and edge cases are NumPy's; those of activations are torch's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base.keywords import explain
from . import gradients, norms, reduction_gradients, reductions, scans
from .calling import cache_clear, cache_info, cache_limit
from .casting import astype, copy
from .clipping import clip_grad_norm
from .custom_kernels import Kernel, kernel
from .custom_reductions import Reduction, reduction
from .indexing import take, take_along_axis, take_along_axis_backward, take_backward
from .joining import concatenate, stack
from .losses import cross_entropy, cross_entropy_and_gradient, cross_entropy_backward
from .operation import ElementwisePlan
from .optimizers import StepPlan, adamw_step
from .positions import (
    arange,
    eye,
    linspace,
    one_hot,
    tril,
    triu,
)
from .public import function_of
from .rows import NAMED, TABLE, Row
from .transformer import (
    ACTIVATIONS,
    bias_activation,
    bias_activation_backward,
    dropout,
    dropout_backward,
    residual_activation,
    residual_activation_backward,
    rope,
    rope_backward,
    rope_tables,
)
from .where_clamp import clamp, fill, of_numbers, where

_FUNCTIONS = {name: function_of(name, entry) for name, entry in TABLE.items()}
_FUNCTIONS |= {f"{_name}_backward": gradients.function_of(_name) for _name in gradients.DIFFERENTIABLE}
# These functions accept more than their rows describe.
of_numbers()
_FUNCTIONS |= {"where": where, "clamp": clamp}
for _module in (reductions, norms, scans):
    _FUNCTIONS |= {name: getattr(_module, name) for name in _module.__all__}
_FUNCTIONS |= reduction_gradients.functions()
globals().update(_FUNCTIONS)


def rows() -> list[Row]:
    """Return the rows of all functions, including gradients."""
    return [NAMED[name] for name in _FUNCTIONS if name in NAMED]


__all__ = [
    "ACTIVATIONS",
    "ElementwisePlan",
    "Kernel",
    "Reduction",
    "StepPlan",
    "adamw_step",
    "arange",
    "astype",
    "bias_activation",
    "bias_activation_backward",
    "cache_clear",
    "cache_info",
    "cache_limit",
    "clip_grad_norm",
    "concatenate",
    "copy",
    "cross_entropy",
    "cross_entropy_and_gradient",
    "cross_entropy_backward",
    "dropout",
    "dropout_backward",
    "eye",
    "fill",
    "kernel",
    "linspace",
    "one_hot",
    "reduction",
    "residual_activation",
    "residual_activation_backward",
    "rope",
    "rope_backward",
    "rope_tables",
    "stack",
    "take",
    "take_along_axis",
    "take_along_axis_backward",
    "take_backward",
    "tril",
    "triu",
    *_FUNCTIONS,
]

explain(__name__, __all__)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
