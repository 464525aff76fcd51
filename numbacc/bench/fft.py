"""Fourier transforms against torch and CuPy, which call cuFFT too: GPU time of large ones, host time of a small one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import numbacc
from numbacc_bindings.cufft import cufft

from .. import fft
from ..base import dtypes
from . import peers
from .harness import Report, add_host_times, gpu_ms

#: Our time may be so much of the best peer's.
_GPU_BOUND, _HOST_BOUND = 1.02, 0.7


class Case(NamedTuple):
    """A transform: the function of `numbacc.fft`, of an array of this shape and dtype, over its default axes."""

    name: str
    function: str
    shape: tuple[int, ...]
    dtype: str


CASES = (
    Case("4096 rows of 4096", "fft", (4096, 4096), "complex64"),
    Case("4096 rows of 4096", "fft", (4096, 4096), "complex128"),
    Case("real to complex, 8192 x 8192", "rfft2", (8192, 8192), "float32"),
    Case("512 x 512 x 512", "fftn", (512, 512, 512), "complex64"),
    Case("256 rows of the prime 65537", "fft", (256, 65537), "complex64"),
    Case("one row of 2^26", "fft", (1 << 26,), "complex64"),
)


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of Fourier transforms."""
    report.environment["cufft"] = cufft.version()
    torch, cupy = peers.import_torch(), peers.import_cupy()
    for case in CASES:
        _gpu(report, case, torch, cupy, quick)
        fft.cache_clear()
        numbacc.release_memory()
    _host(report, torch, cupy)


def _normal(shape: tuple[int, ...], dtype: str) -> Any:
    """Standard normal numbers, in NumPy."""
    kind = dtypes.dtype(dtype)
    single = kind.itemsize // (2 if kind.kind == "c" else 1) == 4
    numbers = (*shape, 2) if kind.kind == "c" else shape
    drawn = np.random.default_rng(7).standard_normal(numbers, np.float32 if single else np.float64)
    return drawn.view(kind)[..., 0] if kind.kind == "c" else drawn


def _gpu(report: Report, case: Case, torch: Any, cupy: Any, quick: bool) -> None:
    host = _normal(case.shape, case.dtype)
    x = numbacc.asarray(host)
    transform = getattr(fft, case.function)
    out = transform(x)
    out._fill(float("nan"), 0)
    transform(x, out=out)
    error = _error(case.function, host, numbacc.asnumpy(out))
    name = f"{case.function} {case.dtype}, {case.name}"
    what = {"name": name, "function": case.function, "dtype": case.dtype, "layout": case.name, "error": error}
    del host
    points = np.prod(case.shape[-1:] if case.function == "fft" else case.shape)
    if not error < 4 * float(np.finfo(case.dtype).eps) * np.log2(points):
        report.add(**what, right=False)
        return
    works = {"ours": lambda: transform(x, out=out)} | peers.fourier(torch, cupy, case.function, x, out)
    times = gpu_ms(works, repeats=10 if quick else 40)
    ours = times.pop("ours")
    figure = {**what, "right": True, "ms": ours, "peers": {peer: time / ours for peer, time in times.items()}}
    if times:
        ratio = ours / min(times.values())
        figure |= {"ratio": ratio, "bound": _GPU_BOUND, "holds": ratio <= _GPU_BOUND}
    report.add(**figure)


def _error(function: str, host: Any, out: Any) -> float:
    """‖out - exact‖ / ‖exact‖ in float64; of the first, a middle and the last row where rows are transformed."""
    if function == "fft" and host.ndim > 1:
        rows = [0, len(host) // 3, -1]
        host, out = host[rows], out[rows]
    exact = getattr(np.fft, function)(host.astype(np.complex128 if host.dtype.kind == "c" else np.float64))
    return float(np.linalg.norm((out - exact).ravel()) / np.linalg.norm(exact.ravel()))


def _host(report: Report, torch: Any, cupy: Any) -> None:
    """Host time of one call on 64 points."""
    x = numbacc.asarray(_normal((64,), "complex64"))
    out = numbacc.empty_like(x)
    theirs = {f"{peer} us": work for peer, work in peers.fourier(torch, cupy, "fft", x, out).items()}
    if not theirs:
        return
    ours = {
        "fft(x, out=out)": (_HOST_BOUND, lambda: fft.fft(x, out=out)),
        "fft(x)": (None, lambda: fft.fft(x)),
    }
    add_host_times(report, ours, theirs, "64 points")
