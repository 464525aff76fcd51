"""Attention and its gradients: masks, biases, dropout, shared heads, sequences of any lengths, pages; by cuDNN's fused
kernels, or unfused by products and kernels of ours.

What it means is written down in `numbacc.reference.attention`; `problem` checks what is asked, `fused` says what cuDNN
is asked for, `unfused` does without.
"""

from ..base.keywords import explain
from ..libraries.cudnn_support import asked as _asked
from ..libraries.cudnn_support import supports as _supports
from .attending import (
    backward,
    forward,
)
from .calling import cache_clear, cache_info, cache_limit
from .dropping import dropout_mask
from .masks import CausalSlidingWindow, SlidingWindow
from .requests import Request, prepare
from .requests import request as _request

__all__ = [
    "CausalSlidingWindow",
    "Request",
    "SlidingWindow",
    "backward",
    "cache_clear",
    "cache_info",
    "cache_limit",
    "dropout_mask",
    "forward",
    "prepare",
]

explain(__name__, __all__)

_OWN = "q_shape k_shape v_shape dtype bias_shape bias_dtype alibi lengths pages batch"
_SHAPES = '(2, 32, 4096, 128), (2, 8, 4096, 128), mask="causal"'
_SHOWN = "<attention.{} of bfloat16, BHSD: {}q (2, 32, 4096, 128), k (2, 8, 4096, 128), ...>"
for _each, _first in ((forward, ""), (backward, "do (2, 32, 4096, 128), ")):
    _asked(_each, _request, _supports, _OWN, shapes=_SHAPES, example=_SHOWN.format(_each.__name__, _first))
