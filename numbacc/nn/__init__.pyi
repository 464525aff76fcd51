# Written by `python -m tools.stubs`: do not edit.
# mypy: disable-error-code="overload-overlap"
"""Parts of a model's training step that are made of several families: losses of a product, and Muon."""

from collections.abc import Sequence
from typing import Any, Literal, overload
from numbacc.typing import (
    AnyArray,
    DeviceArray,
    NumPyArray,
)
from numbacc.nn.losses import LinearGradients

__all__ = [
    "linear_cross_entropy",
    "muon_step",
]


@overload
def linear_cross_entropy(
    x: NumPyArray, w: NumPyArray, target: NumPyArray, bias: NumPyArray | None = None, *,
    reduction: Literal["mean", "sum"] = 'mean', ignore_index: int = -100, label_smoothing: float = 0.0,
    dloss: float | NumPyArray = 1.0, gradients: bool = True, accumulate: bool | Sequence[bool] = False,
    chunk: int | None = None, out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
) -> tuple[NumPyArray, LinearGradients]: ...
@overload
def linear_cross_entropy(
    x: AnyArray, w: AnyArray, target: AnyArray, bias: AnyArray | None = None, *,
    reduction: Literal["mean", "sum"] = 'mean', ignore_index: int = -100, label_smoothing: float = 0.0,
    dloss: float | AnyArray = 1.0, gradients: bool = True, accumulate: bool | Sequence[bool] = False,
    chunk: int | None = None, out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
) -> tuple[DeviceArray, LinearGradients]: ...

def muon_step(
    p: AnyArray | Sequence[AnyArray], g: AnyArray | Sequence[AnyArray], m: AnyArray | Sequence[AnyArray], *,
    rate: float = 0.001, momentum: float = 0.95, nesterov: bool = True, weight_decay: float = 0.0, iterations: int = 5,
    dtype: str = 'bfloat16', factor: float | AnyArray | None = None, copy: AnyArray | Sequence[AnyArray] | None = None,
    stream: Any = None,
) -> tuple[Any, Any]: ...
