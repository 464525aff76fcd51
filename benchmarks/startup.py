"""What a new process waits for: the import, and first calls of functions, compiled from source or found on disk."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

from .harness import Report

_IMPORT = "import numpy, time; t = time.perf_counter(); import numbacc; print(time.perf_counter() - t)"
_CALL = """
import time, numpy, numbacc
from numbacc import elementwise, gated
x = numbacc.asarray(numpy.ones((8, 64), numpy.float32))  # the context exists
{before}
start = time.perf_counter()
numbacc.asnumpy({call})
print(time.perf_counter() - start)
"""
_ALL = """
import ctypes, time, numpy
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
start = time.perf_counter()
import numbacc
x = numbacc.asarray(numpy.ones((8, 64), numpy.float32))
numbacc.asnumpy(numbacc.gated.forward(x, "geglu"))
print(time.perf_counter() - start)
"""
_ATTENTION = """
import time, numbacc
from numbacc import attention
from numbacc_bindings.cudnn import cudnn
q = numbacc.zeros((1, 4, 512, 64), "bfloat16")  # the context exists
{before}
start = time.perf_counter()
numbacc.asnumpy(attention.forward(q, q, q, mask="causal"))
print(time.perf_counter() - start)
"""
_EPILOGUE = """
import time, numbacc
from numbacc import gemm
from benchmarks.gemm_epilogues import squared
a, bias = numbacc.zeros((512, 512), "float16"), numbacc.zeros(512, "float16")  # the context exists
start = time.perf_counter()
numbacc.asnumpy(gemm.matmul(a, a, epilogue=squared, operands=(bias,)))
print(time.perf_counter() - start)
"""
_LARGE = "x = numbacc.asarray(numpy.ones((256, 4096), numpy.float32))"


class Case(NamedTuple):
    """What a new process does, and the seconds that it may take.

    Attributes:
        script: prints the seconds.
        from_source: whether nothing is found on disk: numbacc's cache and the driver's are empty.
    """

    name: str
    bound: float | None
    script: str
    from_source: bool = False


CASES = (
    Case("import numbacc after numpy", 0.5, _IMPORT),
    Case(
        "first call of a process, after its first array", 1.0,
        _CALL.format(before="", call='gated.forward(x, "geglu")'),
    ),
    Case("import, first array and first call, after the context", None, _ALL),
    Case("first call of exp, from the disk cache", None, _CALL.format(before="", call="elementwise.exp(x)")),
    Case("first call of exp, from source", 0.6, _CALL.format(before="", call="elementwise.exp(x)"), True),
    Case(
        "first call of tanh after another function's, from source", None,
        _CALL.format(before="elementwise.exp(x)", call="elementwise.tanh(x)"), True,
    ),
    Case("first call of attention, its plan on disk", 0.02, _ATTENTION.format(before="")),
    Case(
        "first call of attention, its plan on disk, cuDNN loaded before", None,
        _ATTENTION.format(before="cudnn.version()"),
    ),
    Case("first call of a product with a Python epilogue, its kernel on disk", 0.03, _EPILOGUE),
    Case("first call of a product with a Python epilogue, from source", 3.0, _EPILOGUE, True),
    # Those whose kernels take longest to compile, one of each kind.
    *(
        Case(
            "first call of {}, from source".format(call.partition("(")[0]), 0.6,
            _CALL.format(before=_LARGE, call=f"elementwise.{call}"), True,
        )
        for call in (
            "softmax(x)",
            "cumsum(x, axis=1)",
            "argmax(x, axis=1)",
            "cross_entropy(x, numbacc.asarray(numpy.arange(256)))",
            "take_backward(x, x.shape, numbacc.asarray(numpy.arange(256)), axis=0)",
            "layer_norm_backward(x, x)",
        )
    ),
)  # fmt: skip


def run(report: Report, *, quick: bool = False) -> None:
    """Seconds that a new process takes."""
    with tempfile.TemporaryDirectory() as bytecode:
        # As where a package was installed; elsewhere modules may be compiled anew in each process.
        kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": bytecode}
        for case in CASES:
            if not report.wants(case.name):
                continue
            runs = [_seconds(case, kept) for _ in range(3 if case.from_source else 4 if quick else 6)]
            seconds = statistics.median(runs[1:])  # the first may have filled the caches
            promise = {} if case.bound is None else {"bound": case.bound, "holds": seconds <= case.bound}
            report.add(name=case.name, seconds=seconds, **promise)


def _seconds(case: Case, kept: dict[str, str]) -> float:
    with tempfile.TemporaryDirectory() as empty:
        # $CUDA_CACHE_DISABLE is the driver's, for PTX that it compiles itself.
        caches = {"NUMBACC_CACHE_DIR": empty, "CUDA_CACHE_DISABLE": "1"} if case.from_source else {}
        command = [sys.executable, "-c", case.script]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **kept, **caches})
    return float(done.stdout)
