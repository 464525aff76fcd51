"""Device functions for kernels of your own: tensor cores, the copy engine, mbarriers, clusters, warps and blocks.

```
import numpy as np, numbacc
from numbacc import cuda, device

@device.jit
def copy(x, y):
    thread, shared = cuda.threadIdx.x, device.dynamic_shared()
    barrier = shared + 1024
    if thread == 0:
        device.mbarrier_init(barrier, 1)
        device.fence_mbarrier_init()
    cuda.syncthreads()
    if thread == 0:
        device.mbarrier_arrive_expect_tx(barrier, 1024)
        device.cp_async_bulk_load(shared, device.address_of(x), 1024, barrier)
    device.mbarrier_wait_parity(barrier, 0)
    y[thread] = x[thread]

x = numbacc.asarray(np.arange(256, dtype="float32"))
y = numbacc.zeros(256)
copy[1, 256, None, 2048](x, y)
```

Names follow PTX and CUDA C++. On a GPU of compute capability 9.0 all functions work; the page docs/device.md says which
older GPUs have which. Without a GPU, kernels run in Python, and mistakes raise errors.
"""

from __future__ import annotations

from contextlib import suppress as _suppress

from ..base import _numba
from ..base.keywords import explain as _explain
from ..base.keywords import list_only as _list_only
from ..kernels.primitives import device as _functions
from ..kernels.primitives.device import *  # noqa: F403
from .kernels import DeviceKernel, function, jit
from .maps import TensorMap, tensor_map

if _numba.SIMULATED:
    with _suppress(ImportError):  # without greenlet, kernels of cuda.jit cannot call these functions
        from ..simulator import device_kernels as _device_kernels  # noqa: F401

__all__ = ["DeviceKernel", "TensorMap", "function", "jit", "tensor_map", *_functions.__all__]

_explain(__name__, ["function", "jit", "tensor_map"])
_list_only(__name__, __all__)
