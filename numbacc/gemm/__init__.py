"""Matrix products with everything that may follow them, by cuBLASLt, and layers made of them.

`matmul` has NumPy's semantics of shapes, reads transposed views where they lie, and can add a bias, apply ReLU or
GELU, keep what the backward pass needs, or compute their gradients, before the result is stored. `linear` and `mlp`
put such products together, forward and backward.
"""

from ..base.keywords import explain
from .epilogue import Epilogue
from .layers import linear, linear_backward, mlp, mlp_backward
from .product import algorithms, cache_clear, cache_info, cache_limit, matmul

__all__ = [
    "Epilogue",
    "algorithms",
    "cache_clear",
    "cache_info",
    "cache_limit",
    "linear",
    "linear_backward",
    "matmul",
    "mlp",
    "mlp_backward",
]

explain(__name__, __all__)
