"""Attention and its gradients: masks, biases, dropout, shared heads, sequences of any lengths, pages; by cuDNN's fused
kernels, or unfused by products and kernels of ours.

What it means is written down in `numbacc.reference.attention`; `problem` checks what is asked, `fused` says what cuDNN
is asked for, `unfused` does without.
"""

from ..base.keywords import explain
from .attending import (
    backward,
    forward,
)
from .calling import cache_clear, cache_info, cache_limit
from .dropping import dropout_mask
from .masks import CausalSlidingWindow, SlidingWindow
from .requests import Request, prepare

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
