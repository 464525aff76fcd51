"""Where none of CUDA's packages can be installed, numbacc runs on NumPy."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

BLOCK = """
import sys
for name in {names}:
    sys.modules[name] = None
"""
#: What cuda-pathfinder answers on a system that it does not know.
UNKNOWN_SYSTEM = """
import cuda.pathfinder

def search(name):
    raise RuntimeError("_load_lib() is not supported on platform 'darwin'")

cuda.pathfinder.load_nvidia_dynamic_lib = search
"""
WORK = """
import math
import numpy as np
import numbacc
from numbacc import conv, fft, gated, gemm

assert not numbacc.has_gpu()
x = numbacc.asarray(np.linspace(-3, 3, 32, dtype="float32").reshape(4, 8))
assert isinstance(x, np.ndarray)
a, b = x[:, :4], x[:, 4:]
for kind in ("glu", "reglu", "swiglu", "geglu_tanh", "geglu"):
    y = gated.forward(x, kind=kind)
    assert gated.backward(y, x, kind=kind).shape == x.shape
# The last one, geglu, has a reference of its own here.
normal = np.array([[math.erfc(-v / math.sqrt(2)) / 2 for v in row] for row in b.astype(float)])
np.testing.assert_allclose(y, a * b * normal, rtol=1e-5, atol=1e-7)
assert y.dtype == x.dtype
w, bias = np.ones((8, 4), "float32"), numbacc.zeros(4)
np.testing.assert_allclose(gemm.matmul(x, w), x @ w, rtol=1e-5)
z, saved = gemm.linear(x, w, bias, activation="gelu", tune=True)
assert [g.shape for g in gemm.linear_backward(z, saved)] == [(4, 8), (8, 4), (4,)]
np.testing.assert_allclose(fft.irfft(fft.rfft(x)), x, rtol=1e-5, atol=1e-6)
image, kernels = x.reshape(1, 4, 8), np.ones((2, 4, 3), "float32")
y = conv.forward(image, kernels, layout="NCW", activation="relu", tune=True)
np.testing.assert_allclose(y[0, 0, 0], max(x[:, :3].sum(), 0), rtol=1e-5)
assert conv.backward_data(y, kernels, (1, 4, 8), layout="NCW").shape == (1, 4, 8)
for family in (conv, gemm, fft):
    family.cache_clear()
with numbacc.stream() as stream:
    stream.synchronize()
from numbacc import attention, elementwise
assert elementwise.softmax(x).shape == x.shape and elementwise.cumsum(x, axis=1).shape == x.shape
with numbacc.portable():
    p = numbacc.asarray(x)
    assert (p + 1).shape == x.shape
    try:
        p + x
    except numbacc.DeviceError:
        pass
    else:
        raise AssertionError("an array of the host was taken")
try:
    numbacc.asarray(x, device=7)
except numbacc.DeviceError:
    pass
else:
    raise AssertionError("there is no GPU 7")
from numbacc.__main__ import main
assert main(["info"]) == 0
"""
MACHINES = {
    "nothing of NVIDIA's": BLOCK.format(names=("cuda", "numba_cuda")),
    "no Numba either": BLOCK.format(names=("cuda", "numba_cuda", "numba", "llvmlite")),
    "no cuda-core, no numba-cuda": BLOCK.format(names=("cuda.core", "cuda.bindings", "numba_cuda", "numba.cuda"))
    + UNKNOWN_SYSTEM,
}


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_numpy_is_enough(machine):
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "0"}
    run = subprocess.run([sys.executable, "-c", machine + WORK], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    assert "runs on: NumPy" in run.stdout


#: A machine without a library that numbacc has a bridge to, or without a part of it.
WITHOUT_LIBRARY = """
import sys
import numbacc
from numbacc import *
assert "LIBRARY" not in sys.modules and "numbacc.LIBRARY" not in sys.modules
sys.modules["LIBRARY"] = None
for attempt in ("numbacc.LIBRARY", "from numbacc import LIBRARY", "import numbacc.LIBRARY"):
    try:
        exec(attempt)
    except ImportError as error:
        assert 'pip install "numbacc[LIBRARY]"' in str(error), error
        assert error.__suppress_context__
    else:
        raise AssertionError(attempt)
try:
    numbacc.torhc
except AttributeError as error:
    print(error)
"""


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_without_a_library_numbacc_says_what_to_install(library):
    """`import numbacc` does not import it, even where it is installed."""
    code = WITHOUT_LIBRARY.replace("LIBRARY", library)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "has no attribute 'torhc'" in run.stdout
