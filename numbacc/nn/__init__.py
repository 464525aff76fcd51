"""Models and their training: a tape of closures, modules over ordinary arrays, optimizers, and losses of a product.

Inside `with Tape() as tape`, modules return variables; `tape.backward(loss)` computes the gradients. Without a tape,
the same modules take and return arrays.
"""

from ..base.keywords import explain
from .functions import cross_entropy, mean_squared_error
from .losses import linear_cross_entropy
from .modules import (
    Buffers,
    Conv,
    CrossEntropy,
    Dropout,
    Embedding,
    GatedMLP,
    LayerNorm,
    Linear,
    LinearCrossEntropy,
    Module,
    RMSNorm,
    Sequential,
    normal,
)
from .muon import muon_step
from .optimizers import AdamW
from .tape import Parameter, Tape, Variable, checkpoint, no_grad, record, value_of, wrap
from .transformer import Attention, KVCache, Transformer, generate

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

explain(__name__, __all__)
