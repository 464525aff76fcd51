"""Gated activations against a device-to-device copy of the same bytes, and against every peer installed."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import numbacc

from .. import gated
from ..base import dtypes
from ..reference import gated as reference
from . import peers
from .harness import Report, add_host_times, copy_of, gpu_ms, table


class Case(NamedTuple):
    """A shape of x and how it lies: `bound` is the promised part of copy bandwidth."""

    name: str
    shape: tuple[int, ...]
    axis: int
    bound: float
    dtypes: tuple[str, ...]
    peers: bool
    transposed: bool = False


_NARROW = ("float32", "float16", "bfloat16")

CASES = (
    Case("rows 8192 x 2*14336", (8192, 28672), -1, 0.95, _NARROW, True),
    Case("middle 4096 x 2*4096 x 4", (4096, 8192, 4), 1, 0.95, _NARROW, True),
    Case("rows 8192 x 2*14336", (8192, 28672), -1, 0.85, ("float64",), False),
    Case("odd rows 8192 x 2*4097", (8192, 8194), -1, 0.75, _NARROW, False),
    Case("axis 0, 2*8192 x 4097", (16384, 4097), 0, 0.75, _NARROW, False),
    Case("transposed 8192 x 2*4096", (8192, 8192), -1, 0.5, _NARROW, False, True),
)


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of the gated activations."""
    torch = peers.import_torch()
    for case in CASES:
        for dtype in case.dtypes:
            x, dy = _arrays(case, dtype)
            for kind in gated.KINDS:
                for direction in ("forward", "backward"):
                    _bandwidth(report, case, dtype, kind, direction, x, dy, torch, quick)
    _host(report, torch)
    _startup(report)


def _half(case: Case) -> tuple[int, ...]:
    """The shape of y."""
    half = list(case.shape)
    half[case.axis] //= 2
    return tuple(half)


def _arrays(case: Case, dtype: str) -> tuple[Any, Any]:
    """x and dy of a case: standard normal numbers."""
    rng = np.random.default_rng(7)

    def normal(shape: Any) -> Any:
        # One random block, repeated: filling gigabytes with fresh numbers takes longer than the benchmark.
        block = rng.standard_normal(1 << 20, np.float32).astype(dtypes.dtype(dtype))
        return numbacc.asarray(np.resize(block, shape))

    x = normal(case.shape[::-1]).T if case.transposed else normal(case.shape)
    return x, normal(_half(case))


def _bandwidth(
    report: Report,
    case: Case,
    dtype: str,
    kind: str,
    direction: str,
    x: Any,
    dy: Any,
    torch: Any,
    quick: bool,
) -> None:
    out = numbacc.empty(_half(case) if direction == "forward" else case.shape, dtype)
    out._fill(float("nan"), 0)

    def work() -> None:
        if direction == "forward":
            gated.forward(x, kind, axis=case.axis, out=out)
        else:
            gated.backward(dy, x, kind, axis=case.axis, out=out)

    work()
    error = _error(case, kind, direction, x, dy, out)
    right = error < 2 * _eps(dtype)
    name = f"{kind} {direction} {dtype}, {case.name}"
    what = {"name": name, "kind": kind, "direction": direction, "dtype": dtype, "layout": case.name}
    if not right:
        report.add(**what, right=False, error=error)
        return
    moved = x.nbytes + out.nbytes + (dy.nbytes if direction == "backward" else 0)
    works = {"ours": work, "copy": copy_of(moved)}
    if case.peers and torch is not None:
        tx, tdy = torch.from_dlpack(x), torch.from_dlpack(dy)
        works |= peers.gated(torch, direction, kind, case.axis, tdy, tx, compiled=not quick)
    times = gpu_ms(works, repeats=10 if quick else 40)
    ours = times.pop("ours")
    ratio = times.pop("copy") / ours
    others = {peer: time / ours for peer, time in times.items()}
    report.add(
        **what,
        right=True,
        ms=ours,
        TB_per_s=moved / ours / 1e9,
        error=error,
        ratio=ratio,
        bound=case.bound,
        peers=others,
        holds=ratio >= case.bound and all(other >= 1 for other in others.values()),
    )


def _eps(dtype: str) -> float:
    """The distance from 1 to the next number."""
    return float(ml_dtypes.finfo(dtypes.dtype(dtype)).eps)


def _error(case: Case, kind: str, direction: str, x: Any, dy: Any, out: Any) -> float:
    """‖out - exact‖ / ‖exact‖ over a sample of rows, the first and last among them, in float64."""
    axis = case.axis % len(case.shape)
    length = case.shape[0]
    total = exact_norm = 0.0
    picks = [0, 1, length // 2 - 1, length // 3] if axis == 0 else [0, 1, length // 2, length - 1]
    for row in picks:
        if axis == 0:
            rows = [row, row + length // 2]
            a, b = (numbacc.asnumpy(x[r]).astype(np.float64) for r in rows)
        else:
            rows = [row]
            a, b = np.split(numbacc.asnumpy(x[row]).astype(np.float64), 2, axis - 1)
        want: Sequence[Any]
        if direction == "forward":
            want = reference.forward(a, b, kind=kind)
            got = [numbacc.asnumpy(out[row])]
        else:
            want = reference.backward(numbacc.asnumpy(dy[row]).astype(np.float64), a, b, kind=kind)
            got = (
                [numbacc.asnumpy(out[r]) for r in rows]
                if axis == 0
                else np.split(numbacc.asnumpy(out[row]), 2, axis - 1)
            )
        for exact, ours in zip(want, got, strict=True):
            total += float(np.sum((ours.astype(np.float64) - exact) ** 2))
            exact_norm += float(np.sum(exact**2))
    return float(np.sqrt(total / exact_norm))


def _host(report: Report, torch: Any) -> None:
    """Host time of one call, against the faster of torch's two ways to its own fused kernel."""
    if torch is None:
        return
    tx = torch.randn(8, 4096, device="cuda")
    tdy, tdx = torch.randn(8, 2048, device="cuda"), torch.empty_like(tx)
    x, dy = (numbacc.asarray(t.cpu().numpy()) for t in (tx, tdy))
    dx = numbacc.empty_like(x)
    glu_backward = torch.ops.aten.glu_backward
    theirs = {
        "torch us": lambda: glu_backward(tdy, tx, -1),
        "torch us, out given": lambda: glu_backward(tdy, tx, -1, grad_input=tdx),
    }
    ours = {
        "backward(dy, x, out=dx)": (0.7, lambda: gated.backward(dy, x, "glu", out=dx)),
        "backward(dy, x)": (1.0, lambda: gated.backward(dy, x, "glu")),
        "backward, torch tensors, out given": (2.0, lambda: gated.backward(tdy, tx, "glu", out=tdx)),
        "backward, torch tensors": (2.0, lambda: gated.backward(tdy, tx, "glu")),
    }
    add_host_times(report, ours, theirs, "8 x 2048")


_IMPORT = "import numpy, time; t = time.perf_counter(); import numbacc; print(time.perf_counter() - t)"
_FIRST_CALL = """
import time, numpy, numbacc
x = numbacc.asarray(numpy.ones((8, 64), numpy.float32))  # the context exists
start = time.perf_counter()
numbacc.asnumpy(numbacc.gated.forward(x, "geglu"))
print(time.perf_counter() - start)
"""
_FIRST_CALL_OF_ALL = """
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


def _startup(report: Report) -> None:
    """Seconds that a new process takes, its kernels in the disk cache."""
    for name, bound, script in (
        ("import numbacc after numpy", 0.5, _IMPORT),
        ("first call of a process, after its first array", 1.0, _FIRST_CALL),
        ("import, first array and first call, after the context", None, _FIRST_CALL_OF_ALL),
    ):
        runs = [
            float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)
            for _ in range(6)
        ]
        seconds = statistics.median(runs[1:])  # the first may have filled the caches
        promise = {} if bound is None else {"bound": bound, "holds": seconds <= bound}
        report.add(name=name, seconds=seconds, **promise)


def bandwidth_table() -> str:
    """A small table for people: part of copy bandwidth reached by each kind, bfloat16, both directions."""
    report = Report(quiet=True)
    x, dy = _arrays(CASES[0], "bfloat16")
    for kind in gated.KINDS:
        for direction in ("forward", "backward"):
            _bandwidth(report, CASES[0], "bfloat16", kind, direction, x, dy, None, quick=True)
    rows = [
        (f["kind"], f["direction"], f"{f['TB_per_s']:.2f}", f"{f['ratio']:.0%}")
        if f["right"]
        else (f["kind"], f["direction"], "wrong result", f"error {f['error']:.1e}")
        for f in report.figures
    ]
    return table(("kind", "direction", "TB/s", "of copy"), rows)
