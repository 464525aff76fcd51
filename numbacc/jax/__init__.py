"""numbacc in JAX programs: functions of JAX arrays with gradients.

Arrays on a GPU and on the CPU work alike. The functions work under `jax.jit`, `jax.grad` and `jax.vmap`: XLA calls
numbacc through its typed FFI, and allocates the results.

`pip install "numbacc[jax]"` installs JAX, too. `import numbacc` does not import it.
"""

try:
    import jax  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "jax":
        raise
    raise ModuleNotFoundError(
        'numbacc.jax needs JAX, which is not installed: run pip install "numbacc[jax]", or install JAX as '
        "https://docs.jax.dev/en/latest/installation.html says for your GPU",
        name="jax",
    ) from None

from ..base.keywords import list_only
from .ffi import register

register()

from .functions import (  # noqa: E402 - jaxlib's version is checked first
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
from .wrapping import wrap  # noqa: E402

__all__ = [
    "add_layer_norm",
    "add_rms_norm",
    "attention",
    "conv",
    "cross_entropy",
    "dropout",
    "gated",
    "layer_norm",
    "linear",
    "linear_cross_entropy",
    "log_softmax",
    "rms_norm",
    "rope",
    "softmax",
    "wrap",
]

list_only(__name__, __all__)
