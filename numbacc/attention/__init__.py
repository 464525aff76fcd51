"""Attention and its gradients, with masks, biases, dropout, grouped heads, packed sequences and paged keys.

cuDNN's fused kernels run it where they can; matrix products and numbacc's own kernels run it unfused otherwise.

`numbacc.reference.attention` defines the results, `problem` checks a call, `fused` draws cuDNN's graph, and `unfused`
computes without cuDNN.
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
