"""numbacc in torch models: functions of tensors with gradients, and modules.

Tensors on a GPU and on the CPU work alike. The functions are torch operators: torch allocates their results, records
their gradients, and compiles models that call them, by `torch.compile(fullgraph=True)`, with CUDA graphs, too.
`torch.autocast` casts as it does for torch's own functions.

`pip install "numbacc[torch]"` installs torch, too. `import numbacc` does not import it.
"""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        'numbacc.torch needs torch, which is not installed: run pip install "numbacc[torch]", or install torch as '
        "https://pytorch.org/get-started/locally says for your GPU",
        name="torch",
    ) from None

from ..base.keywords import list_only
from .functions import (
    add_layer_norm,
    add_rms_norm,
    attention,
    conv,
    cross_entropy,
    dropout,
    gated,
    layer_norm,
    linear,
    linear_cross_entropy,
    log_softmax,
    rms_norm,
    rope,
    softmax,
)
from .modules import (
    Attention,
    Conv1d,
    Conv2d,
    Conv3d,
    CrossEntropyLoss,
    Dropout,
    Gated,
    LayerNorm,
    Linear,
    LogSoftmax,
    RMSNorm,
    RotaryEmbedding,
    Softmax,
)
from .optimizers import AdamW, adamw_step, clip_grad_norm, muon_step
from .wrapping import wrap

__all__ = [
    "AdamW",
    "Attention",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "CrossEntropyLoss",
    "Dropout",
    "Gated",
    "LayerNorm",
    "Linear",
    "LogSoftmax",
    "RMSNorm",
    "RotaryEmbedding",
    "Softmax",
    "adamw_step",
    "add_layer_norm",
    "add_rms_norm",
    "attention",
    "clip_grad_norm",
    "conv",
    "cross_entropy",
    "dropout",
    "gated",
    "layer_norm",
    "linear",
    "linear_cross_entropy",
    "log_softmax",
    "muon_step",
    "rms_norm",
    "rope",
    "softmax",
    "wrap",
]

list_only(__name__, __all__)
