"""Convolutions of one, two and three dimensions, forward and backward, channels first or last, in groups, by cuDNN.

What they mean is written down in `numbacc.reference.conv`; `geometry` checks options and gives the shapes, `lowering`
says what cuDNN is asked for.
"""

from ..base.keywords import explain
from .convolving import (
    backward_data,
    backward_filter,
    cache_clear,
    cache_info,
    cache_limit,
    forward,
)
from .geometry import output_shape
from .requests import Request

__all__ = [
    "Request",
    "backward_data",
    "backward_filter",
    "cache_clear",
    "cache_info",
    "cache_limit",
    "forward",
    "output_shape",
]

explain(__name__, __all__)
