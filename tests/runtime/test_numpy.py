"""numba-cuda 0.30.4 asks for `numpy.row_stack`, which NumPy 2.5 has no more: kernels compile all the same."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from paths import pythonpath
from skips import skip_if

from numbacc.base.dispatch import simulated

pytestmark = skip_if(simulated(), "not simulated")

COMPILE = """
import numba.np.arrayobj  # Numba itself asks for it only where NumPy's version had it
import numpy as np

if vars(np).pop("row_stack", None):
    np.__all__.remove("row_stack")
{before}
import numbacc

from numba import cuda, types

@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2

text, _ = cuda.compile(double.py_func, (types.float32[:],), device=False, abi="numba", cc=(9, 0))
assert ".entry" in text
assert not hasattr(np, "row_stack"), "it was left behind"

import ptx

assert ".entry" in ptx.compiled(ptx.spec("vector", "gated.forward.swiglu", "float32")).source
"""
#: NumPy 2.5 lacks the function, and older versions have it.
IMPORT = """
import sys
import numpy as np

before = hasattr(np, "row_stack")
import numbacc

assert not [name for name in sys.modules if name.partition(".")[0] in ("numba", "numba_cuda")], "Numba was imported"
import importlib
from numba import cuda

importlib.reload(numbacc)
module = importlib.import_module("numba.cuda.np.arrayobj")
assert hasattr(np, "row_stack") == before
assert module.__spec__.loader.get_source(module.__name__).startswith("#")
"""
#: A user's kernel and numbacc's own, on a GPU.
RUN = """
import numba.np.arrayobj
import numpy as np

if vars(np).pop("row_stack", None):
    np.__all__.remove("row_stack")
from numba import cuda

@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2

import numbacc

x = numbacc.asarray(np.arange(32, dtype="float32"))
double[1, 32](x)
assert (numbacc.asnumpy(x) == 2 * np.arange(32)).all()
y = numbacc.asnumpy(numbacc.gated.forward(x, kind="reglu"))
assert (y == 4 * np.arange(16) * np.arange(16, 32)).all()
"""
#: What a notebook does before it uses numbacc.
BEFORE = {
    "nothing": "",
    "numba.cuda imported": "import numba.cuda",
    "a kernel that failed": """
from numba import cuda, types

try:
    cuda.compile(lambda x: None, (types.float32[:],), device=False, abi="numba", cc=(9, 0))
except AttributeError as error:
    assert "row_stack" in str(error)
""",
}


@pytest.mark.parametrize(
    "before",
    # One that failed imported numba.cuda, too.
    [pytest.param(code, marks=[pytest.mark.slow] * ("imported" in name), id=name) for name, code in BEFORE.items()],
)
def test_kernels_compile_without_row_stack(before):
    environment = {**os.environ, "PYTHONPATH": pythonpath()}
    subprocess.run([sys.executable, "-c", COMPILE.format(before=before)], check=True, env=environment)


def test_numba_is_not_imported_for_it():
    subprocess.run([sys.executable, "-c", IMPORT], check=True)


@pytest.mark.gpu
def test_kernels_run_without_row_stack():
    subprocess.run([sys.executable, "-c", RUN], check=True)
