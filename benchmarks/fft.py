"""Fourier transforms against torch and CuPy, which call cuFFT too: GPU time of large ones, host time of a small one.

torch and CuPy lay out results as is fastest for them, and so does numbacc; "to C order" are those that go into a
C-contiguous array.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import numbacc
from numbacc import fft, random
from numbacc.base import dtypes
from numbacc.runtime import device as runtime
from numbacc_bindings.cufft import cufft

from . import peers
from .harness import Report, add_host_times, gpu_ms

#: Our time may be so much of the best peer's.
_GPU_BOUND, _HOST_BOUND = 1.02, 0.7


class Case(NamedTuple):
    """A transform: the function of `numbacc.fft`, of an array of this shape and dtype.

    Attributes:
        name: what is transformed.
        function, shape, dtype: see above.
        options: of the function, beside the array.
        transposed: whether the array is the transpose of a C-contiguous one.
        into: whether the result goes into a C-contiguous array, whatever is faster; else it lies as the function
            lays out a new one.
    """

    name: str
    function: str
    shape: tuple[int, ...]
    dtype: str
    options: dict[str, Any] = {}
    transposed: bool = False
    into: bool = False


CASES = (
    Case("4096 rows of 4096", "fft", (4096, 4096), "complex64"),
    Case("4096 rows of 4096", "fft", (4096, 4096), "complex128"),
    Case("real to complex, 8192 x 8192", "rfft2", (8192, 8192), "float32"),
    Case("512 x 512 x 512", "fftn", (512, 512, 512), "complex64"),
    Case("256 rows of the prime 65537", "fft", (256, 65537), "complex64"),
    Case("one row of 2^26", "fft", (1 << 26,), "complex64"),
    # What is scaled.
    Case("4096 rows of 4096", "ifft", (4096, 4096), "complex64"),
    Case("4096 rows of 4096, ortho", "fft", (4096, 4096), "complex64", {"norm": "ortho"}),
    Case("4096 rows of 4096", "ifft", (4096, 4096), "complex128"),
    Case("2048 rows of 2048", "ifft", (2048, 2048), "complex64"),
    Case("10000 rows of 1000", "ifft", (10000, 1000), "complex64"),
    Case("2^18 rows of 64", "ifft", (1 << 18, 64), "complex64"),
    Case("4096 x 4096", "ifft2", (4096, 4096), "complex64"),
    # Real numbers.
    Case("8192 rows of 8192", "irfft", (8192, 4097), "complex64"),
    Case("8192 rows of 8192, forward", "irfft", (8192, 4097), "complex64", {"norm": "forward"}),
    Case("4096 rows of 8192", "irfft", (4096, 4097), "complex128"),
    Case("2^19 rows of 128", "irfft", (1 << 19, 65), "complex64"),
    Case("8192 rows of 8192, ortho", "rfft", (8192, 8192), "float32", {"norm": "ortho"}),
    Case("8192 rows of 8192", "hfft", (8192, 4097), "complex64"),
    Case("8192 rows of 8192", "ihfft", (8192, 8192), "float32"),
    Case("8192 x 8192", "irfft2", (8192, 4097), "complex64"),
    Case("512 x 512 x 512", "irfftn", (512, 512, 257), "complex64"),
    # What is converted or padded.
    Case("4096 rows of 4096", "fft", (4096, 4096), "float32"),
    Case("4096 rows of 4096, as 8192", "fft", (4096, 4096), "complex64", {"n": 8192}),
    Case("4096 rows of 4096, as 8192", "rfft", (4096, 4096), "float32", {"n": 8192}),
    # Columns.
    Case("4096 columns of 4096", "fft", (4096, 4096), "complex64", {"axis": 0}),
    Case("4096 columns of 4096", "ifft", (4096, 4096), "complex64", {"axis": 0}),
    Case("4096 columns of 4096", "fft", (4096, 4096), "complex128", {"axis": 0}),
    Case("4096 x 4096, transposed", "fft", (4096, 4096), "complex64", {}, True),
    Case("2^18 columns of 64", "fft", (64, 1 << 18), "complex64", {"axis": 0}),
    Case("10000 columns of 1000", "fft", (1000, 10000), "complex64", {"axis": 0}),
    Case("2048 columns of 8192", "fft", (8192, 2048), "complex64", {"axis": 0}),
    Case("256 columns of 65536", "fft", (65536, 256), "complex64", {"axis": 0}),
    Case("8192 columns of 4096", "rfft", (4096, 8192), "float32", {"axis": 0}),
    Case("8192 columns of 4096", "irfft", (2049, 8192), "complex64", {"axis": 0}),
    Case("64 x 4096 x 256, axis 1", "fft", (64, 4096, 256), "complex64", {"axis": 1}),
    Case("64 x 2048 x 256, axis 1", "fft", (64, 2048, 256), "complex128", {"axis": 1}),
    Case("16 x 1024 x 4096, axis 1", "fft", (16, 1024, 4096), "complex64", {"axis": 1}),
    Case("4096 x 64 x 64, axis 1", "fft", (4096, 64, 64), "complex64", {"axis": 1}),
    Case("512 x 512 x 512, axis 0", "fft", (512, 512, 512), "complex64", {"axis": 0}),
    Case("512 x 512 x 512, axis 1", "fft", (512, 512, 512), "complex64", {"axis": 1}),
    Case("512 x 512 x 64, axes 0 and 1", "fftn", (512, 512, 64), "complex64", {"axes": (0, 1)}),
    Case("256 x 256 x 256, axes 0 and 2", "fftn", (256, 256, 256), "complex64", {"axes": (0, 2)}),
    Case("512 x 512 x 64, axes 0 and 1", "rfftn", (512, 512, 64), "float32", {"axes": (0, 1)}),
    # Columns to columns, for those who want the result so.
    Case("4096 columns of 4096 to C order", "fft", (4096, 4096), "complex64", {"axis": 0}, into=True),
    Case("4096 columns of 4096 to C order", "ifft", (4096, 4096), "complex64", {"axis": 0}, into=True),
    Case("256 columns of 65536 to C order", "fft", (65536, 256), "complex64", {"axis": 0}, into=True),
    Case("8192 columns of 4096 to C order", "rfft", (4096, 8192), "float32", {"axis": 0}, into=True),
    Case("8192 columns of 4096 to C order", "irfft", (2049, 8192), "complex64", {"axis": 0}, into=True),
    Case("512 x 512 x 64, axes 0 and 1, to C order", "fftn", (512, 512, 64), "complex64", {"axes": (0, 1)}, into=True),
    Case("64 x 4096 x 256, axis 1, to C order", "fft", (64, 4096, 256), "complex64", {"axis": 1}, into=True),
)


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of Fourier transforms."""
    report.environment["cufft"] = cufft.version()
    torch, cupy = peers.import_torch(), peers.import_cupy()
    for case in CASES:
        _gpu(report, case, torch, cupy, quick)
        fft.cache_clear()
        numbacc.release_memory()
        if torch is not None:
            torch.backends.cuda.cufft_plan_cache.clear()
            torch.cuda.empty_cache()
        if cupy is not None:
            cupy.fft.config.get_plan_cache().clear()
            cupy.get_default_memory_pool().free_all_blocks()
    if report.wants("host time"):
        _host(report, torch, cupy)


def _normal(shape: tuple[int, ...], dtype: str) -> Any:
    """Standard normal numbers, on the GPU."""
    kind = dtypes.dtype(dtype)
    if kind.kind != "c":
        return random.Generator(seed=7).normal(size=shape, dtype=kind)
    numbers = random.Generator(seed=7).normal(size=(*shape, 2), dtype=f"float{4 * kind.itemsize}")
    found = numbacc.empty(shape, kind)
    runtime.copy_on_device(found._address, numbers._address, found.nbytes, runtime.current_device(), 0)
    return found


def _gpu(report: Report, case: Case, torch: Any, cupy: Any, quick: bool) -> None:
    name = f"{case.function} {case.dtype}, {case.name}"
    if not report.wants(name):
        return
    x = _normal(case.shape, case.dtype)
    if case.transposed:
        x = x.T
    function = getattr(fft, case.function)
    out = function(x, **case.options)
    if case.into:
        out = numbacc.empty(out.shape, out.dtype)
    out._fill(float("nan"), 0)
    function(x, out=out, **case.options)
    error = _error(case, torch, x, out)
    what = {"name": name, "function": case.function, "dtype": case.dtype, "layout": case.name, "error": error}
    points = max(np.prod(case.shape), out.size)
    if not error < 4 * float(np.finfo(case.dtype).eps) * np.log2(points):
        report.add(**what, right=False)
        return
    works = {"ours": lambda: function(x, out=out, **case.options)}
    works |= peers.fourier(torch, cupy, case.function, x, out, case.options, case.into)
    times = gpu_ms(works, repeats=10 if quick else 40)
    ours = times.pop("ours")
    figure = {**what, "right": True, "ms": ours, "peers": {peer: time / ours for peer, time in times.items()}}
    if times:
        ratio = ours / min(times.values())
        figure |= {"ratio": ratio, "bound": _GPU_BOUND, "holds": ratio <= _GPU_BOUND}
    report.add(**figure)


def _error(case: Case, torch: Any, x: Any, out: Any) -> float:
    """‖out - exact‖ / ‖exact‖ of the whole result, against a transform in double precision.

    That is torch's for arrays in single precision, where there is torch: NumPy's takes seconds.
    """
    if torch is not None and np.dtype(out.dtype) in (np.float32, np.complex64):
        named = {{"axis": "dim", "axes": "dim"}.get(key, key): value for key, value in case.options.items()}
        tx, found = torch.from_dlpack(x), torch.from_dlpack(out)
        exact = getattr(torch.fft, case.function)(
            tx.to(torch.complex128 if tx.is_complex() else torch.float64), **named
        )
        norm = torch.linalg.vector_norm
        return float(norm(found - exact) / norm(exact))
    host, result = numbacc.asnumpy(x), numbacc.asnumpy(out)
    exact = getattr(np.fft, case.function)(
        host.astype(np.complex128 if host.dtype.kind == "c" else np.float64), **case.options
    )
    return float(np.linalg.norm((result - exact).ravel()) / np.linalg.norm(exact.ravel()))


def _host(report: Report, torch: Any, cupy: Any) -> None:
    """Host time of one call on 64 points."""
    x = _normal((64,), "complex64")
    out = numbacc.empty_like(x)
    theirs = {f"{peer} us": work for peer, work in peers.fourier(torch, cupy, "fft", x, out).items()}
    if not theirs:
        return
    ours = {
        "fft(x, out=out)": (_HOST_BOUND, lambda: fft.fft(x, out=out)),
        "fft(x)": (None, lambda: fft.fft(x)),
    }
    if torch is not None:
        tensor = torch.from_dlpack(x)
        ours["fft, torch's tensor"] = (1.0, lambda: fft.fft(tensor))
    add_host_times(report, ours, theirs, "64 points")
