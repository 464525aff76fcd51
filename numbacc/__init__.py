"""numbacc: GPU kernels and vendor libraries for Numba device arrays.

```
import numpy as np, numbacc
from numbacc import gated, gemm

x = numbacc.asarray(np.random.randn(8, 4096).astype("float32"))   # on the GPU, if there is one
y, saved = gated.forward(x, kind="geglu", return_saved=True)
dx = gated.backward(y, saved)
z = gemm.matmul(y, y.T, epilogue="gelu")
```

Importing numbacc loads no library and does not use the GPU. Each family is imported when it is first used.
"""

from __future__ import annotations

import os as _os
from importlib import import_module
from typing import TYPE_CHECKING, Any

import ml_dtypes

from numbacc_bindings import nvtx as _nvtx

from ._version import __version__
from .arrays.creation import (
    array,
    asarray,
    asnumpy,
    empty,
    empty_like,
    from_dlpack,
    full,
    peak_memory,
    release_memory,
    scratch_limit,
    zeros,
)
from .arrays.exchange import from_pointer, to_torch
from .arrays.files import load, load_metadata, save
from .arrays.lookup import computing as _computing
from .arrays.operands import device_arrays_by as _device_arrays_by
from .base import numba_hooks as _numba_hooks
from .base.dispatch import has_gpu
from .base.keywords import explain as _explain
from .compiled_steps import Compiled, compiled
from .errors import (
    CacheWarning,
    CompiledWarning,
    DeviceError,
    DTypeError,
    Error,
    KernelError,
    LayoutError,
    LibraryError,
    OptionError,
    PerformanceWarning,
    RankError,
    ShapeError,
    UnsupportedError,
)
from .runtime.events import Event, event
from .runtime.graphs import Graph, graph
from .runtime.streams import Stream, current_stream, portable, stream

if TYPE_CHECKING:
    from . import attention, conv, cuda, cudnn, distributed, elementwise, fft, gated, gemm, nn, random
    from . import device as device
    from . import jax as jax
    from . import torch as torch
    from .profiling import record
    from .simulator.compiled.launches import simulate
    from .tracing import debug, trace

bfloat16 = ml_dtypes.bfloat16
float8_e4m3fn = ml_dtypes.float8_e4m3fn
float8_e5m2 = ml_dtypes.float8_e5m2

__all__ = [
    "CacheWarning",
    "Compiled",
    "CompiledWarning",
    "DTypeError",
    "DeviceError",
    "Error",
    "Event",
    "Graph",
    "KernelError",
    "LayoutError",
    "LibraryError",
    "OptionError",
    "PerformanceWarning",
    "RankError",
    "ShapeError",
    "Stream",
    "UnsupportedError",
    "__version__",
    "array",
    "asarray",
    "asnumpy",
    "attention",
    "bfloat16",
    "compiled",
    "conv",
    "cuda",
    "cudnn",
    "current_stream",
    "debug",
    "distributed",
    "elementwise",
    "empty",
    "empty_like",
    "event",
    "fft",
    "float8_e4m3fn",
    "float8_e5m2",
    "from_dlpack",
    "from_pointer",
    "full",
    "gated",
    "gemm",
    "graph",
    "has_gpu",
    "load",
    "load_metadata",
    "nn",
    "peak_memory",
    "portable",
    "random",
    "record",
    "release_memory",
    "save",
    "scratch_limit",
    "simulate",
    "stream",
    "to_torch",
    "trace",
    "zeros",
]


def _function(name: str) -> Any:
    """Return the function that computes an operator or a function of NumPy on device arrays, by its name."""
    if name == "__array_namespace__":
        return import_module(".array_api", __name__)
    if name == "__numpy_functions__":
        return import_module(".numpy_functions", __name__).FUNCTIONS
    if name == "asarray":
        return asarray
    if name == "matmul":
        return import_module(".gemm", __name__).matmul
    return getattr(import_module(".elementwise", __name__), name, None)


_computing(_function)
_device_arrays_by(lambda: import_module(".arrays.device_array", __name__))
_explain(__name__, __all__)
_numba_hooks.install()
if _nvtx.is_profiled(_os.environ):
    import_module(".profiling.observers", __name__).name_ranges(_nvtx.load())


_MODULES = [
    "attention", "conv", "cuda", "cudnn", "device", "distributed", "elementwise", "fft", "gated", "gemm", "jax", "nn",
    "random", "torch",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # `device`, `jax` and `torch` are not in `__all__`: `from numbacc import *` works without Numba, JAX and torch.
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name in ("debug", "trace"):
        return getattr(import_module(".tracing", __name__), name)
    if name == "record":
        return import_module(".profiling", __name__).record
    if name == "simulate":
        return import_module(".simulator.compiled.launches", __name__).simulate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
