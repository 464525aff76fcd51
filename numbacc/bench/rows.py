"""Reductions, softmax and norms against a copy of the same bytes, and against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import numbacc

from .. import elementwise
from ..random import Generator
from . import peers
from .harness import Report, add_bandwidth, copy_of

_SIZE = 2**27
_COLUMNS = (128, 1024, 4096, 16384, 131072)
#: Part of copy bandwidth that is promised.
_BOUND = 0.90
_REDUCTIONS = ("sum", "mean", "max", "argmax", "var")
_MAPS = ("softmax", "log_softmax", "rms_norm", "layer_norm")


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of reductions and functions of rows."""
    torch = peers.import_torch()
    for dtype in ("float32", "bfloat16"):
        names = {
            **{f"{name} {dtype} over axis {axis}, {_SIZE // n} x {n}": (name, axis, n) for name in _REDUCTIONS
               for axis in (1, 0) for n in _COLUMNS},
            **{f"{name} {dtype}, {_SIZE // n} x {n}": (name, None, n) for name in _MAPS for n in _COLUMNS},
        }  # fmt: skip
        if not report.wants(*names):
            continue
        whole = Generator("philox", seed=7).normal(size=_SIZE, dtype=dtype)
        for label, (name, axis, columns) in names.items():
            if report.wants(label):
                _figure(report, label, name, axis, whole.reshape(_SIZE // columns, columns), torch, quick)


def _figure(report: Report, label: str, name: str, axis: int | None, x: Any, torch: Any, quick: bool) -> None:
    function = getattr(elementwise, name)
    out = function(x) if axis is None else function(x, axis=axis)
    if not _is_right(function, axis, x, out):
        report.add(name=label, right=False)
        return
    work: Callable[[], Any] = lambda: function(x, out=out)  # noqa: E731
    if axis is not None:
        work = lambda: function(x, axis=axis, out=out)  # noqa: E731
    works = {"ours": work, "copy": copy_of(x.nbytes + out.nbytes)}
    if torch is not None:
        works["torch"] = _torchs(torch, name, axis, torch.from_dlpack(x))
    add_bandwidth(report, label, works, _BOUND, 7 if quick else 15, right=True)


def _torchs(torch: Any, name: str, axis: int | None, x: Any) -> Callable[[], Any]:
    """torch's function of the same."""
    functional, columns = torch.nn.functional, x.shape[-1]
    return {
        "sum": lambda: torch.sum(x, axis), "mean": lambda: torch.mean(x, axis), "max": lambda: torch.amax(x, axis),
        "argmax": lambda: torch.argmax(x, axis), "var": lambda: torch.var(x, axis, correction=0),
        "softmax": lambda: torch.softmax(x, -1), "log_softmax": lambda: torch.log_softmax(x, -1),
        "rms_norm": lambda: functional.rms_norm(x, (columns,), eps=1e-6),
        "layer_norm": lambda: functional.layer_norm(x, (columns,)),
    }[name]  # fmt: skip


def _is_right(function: Callable[..., Any], axis: int | None, x: Any, out: Any) -> bool:
    """True if the first results are those of NumPy in float64."""
    few = 4
    part = x[:, :few] if axis == 0 else x[:few]
    host, found = numbacc.asnumpy(part).astype(np.float64), numbacc.asnumpy(out[:few]).astype(np.float64)
    wanted = function(host) if axis is None else function(host, axis=axis)
    eps = {2: 2.0**-7, 4: 2.0**-20}[x.dtype.itemsize]
    size = np.sqrt(x.shape[axis]) if function is elementwise.sum else 1.0
    return bool(np.isclose(found, wanted, rtol=eps, atol=eps * size).all())
