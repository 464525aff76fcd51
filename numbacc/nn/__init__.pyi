# Written by `python -m tools.stubs`: do not edit.
# mypy: disable-error-code="overload-overlap"
"""Models and their training: a tape of closures, modules over ordinary arrays, optimizers, and losses of a product."""

from collections.abc import Sequence
from typing import Any, Literal, overload
from numbacc.typing import (
    AnyArray,
    DeviceArray,
    NumPyArray,
)
from numbacc.nn.losses import LinearGradients

__all__ = [
    "AdamW",
    "Attention",
    "Buffers",
    "Conv",
    "CrossEntropy",
    "Dropout",
    "Embedding",
    "GatedMLP",
    "KVCache",
    "LayerNorm",
    "Linear",
    "LinearCrossEntropy",
    "Module",
    "Parameter",
    "RMSNorm",
    "Sequential",
    "Tape",
    "Transformer",
    "Variable",
    "checkpoint",
    "cross_entropy",
    "generate",
    "linear_cross_entropy",
    "mean_squared_error",
    "muon_step",
    "no_grad",
    "normal",
    "record",
    "value_of",
    "wrap",
]


from numbacc.nn.optimizers import AdamW as AdamW
from numbacc.nn.transformer import Attention as Attention
from numbacc.nn.modules import Buffers as Buffers
from numbacc.nn.modules import Conv as Conv
from numbacc.nn.modules import CrossEntropy as CrossEntropy
from numbacc.nn.modules import Dropout as Dropout
from numbacc.nn.modules import Embedding as Embedding
from numbacc.nn.modules import GatedMLP as GatedMLP
from numbacc.nn.transformer import KVCache as KVCache
from numbacc.nn.modules import LayerNorm as LayerNorm
from numbacc.nn.modules import Linear as Linear
from numbacc.nn.modules import LinearCrossEntropy as LinearCrossEntropy
from numbacc.nn.modules import Module as Module
from numbacc.nn.tape import Parameter as Parameter
from numbacc.nn.modules import RMSNorm as RMSNorm
from numbacc.nn.modules import Sequential as Sequential
from numbacc.nn.tape import Tape as Tape
from numbacc.nn.transformer import Transformer as Transformer
from numbacc.nn.tape import Variable as Variable
from numbacc.nn.tape import checkpoint as checkpoint
from numbacc.nn.functions import cross_entropy as cross_entropy
from numbacc.nn.transformer import generate as generate
from numbacc.nn.functions import mean_squared_error as mean_squared_error
from numbacc.nn.tape import no_grad as no_grad
from numbacc.nn.modules import normal as normal
from numbacc.nn.tape import record as record
from numbacc.nn.tape import value_of as value_of
from numbacc.nn.tape import wrap as wrap

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
