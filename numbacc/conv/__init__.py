"""Convolutions of one, two and three dimensions, forward and backward, channels first or last, in groups, by cuDNN.

What they mean is written down in `numbacc.reference.conv`; `geometry` checks options and gives the shapes, `lowering`
says what cuDNN is asked for.
"""

from ..base.keywords import explain
from ..libraries.cudnn_support import asked as _asked
from ..libraries.cudnn_support import supports as _supports
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
from .requests import request as _request

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

_SHAPES = '(8, 56, 56, 64), (64, 3, 3, 64), layout="NHWC", dtype="float16", padding=1'
_SHOWN = "<conv.{} of float16, NHWC: x (8, 56, 56, 64), w (64, 3, 3, 64), y (8, 56, 56, 64)>"
for _each in (forward, backward_data, backward_filter):
    _own = "x_shape w_shape dtype" + " bias" * (_each is forward)
    _asked(_each, _request, _supports, _own, shapes=_SHAPES, example=_SHOWN.format(_each.__name__))
