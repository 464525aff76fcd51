"""Matrix products with fused epilogues by cuBLASLt, and layers built from them.

`matmul` follows NumPy's rules for shapes and reads transposed views without a copy. Before it stores the result, it can
add a bias, apply ReLU or GELU, keep the array that the backward pass needs, or compute the activation's gradient.
`linear` and `mlp` combine such products, forward and backward.
"""

from ..base.keywords import explain
from .epilogue import Epilogue
from .gradients import matmul_backward
from .grouped import grouped
from .grouped_gradients import grouped_backward
from .layers import linear, linear_backward, mlp, mlp_backward
from .product import algorithms, cache_clear, cache_info, cache_limit, matmul

__all__ = [
    "Epilogue",
    "algorithms",
    "cache_clear",
    "cache_info",
    "cache_limit",
    "grouped",
    "grouped_backward",
    "linear",
    "linear_backward",
    "matmul",
    "matmul_backward",
    "mlp",
    "mlp_backward",
]

explain(__name__, __all__)
