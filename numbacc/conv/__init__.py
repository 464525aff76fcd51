"""Convolutions in one, two and three dimensions with cuDNN: forward and backward, channels first or last, with groups.

`numbacc.reference.conv` defines the results; `geometry` checks options and computes shapes; `lowering` draws cuDNN's
graphs.
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
