"""Reductions, scans, softmax, norms and cross entropy: against a copy of the same bytes, torch, Liger and quack."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import numbacc
from numbacc import elementwise
from numbacc.random import Generator

from . import peers
from .harness import Report, add_bandwidth, copy_of, is_close, wide

_SIZE = 2**27
_COLUMNS = (128, 1024, 4096, 16384, 131072)
#: As many classes as losses have.
_CLASSES = (4096, 131072)
#: Columns of rows so few that several blocks share one.
_LONG = (2**23, 2**25)
#: Rows that start anywhere, as long as GPT-2's vocabulary.
_UNALIGNED = (4096, 50257)
#: Part of copy bandwidth that is promised.
_BOUND = 0.90
#: So many results are looked at.
_FEW = 4
_REDUCTIONS = ("sum", "mean", "max", "argmax", "var", "cumsum")
#: Name -> how many weights a row has.
_MAPS = {"softmax": 0, "log_softmax": 0, "rms_norm": 1, "layer_norm": 2}
#: The same for norms of a sum with a residual, and their rows' lengths.
_SUMS, _SUM_COLUMNS = {"add_rms_norm": 1, "add_layer_norm": 2}, (1024, 4096, 16384)


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of reductions, scans and functions of rows."""
    torch = peers.import_torch()
    for dtype in ("float32", "bfloat16"):
        reductions = {
            f"{name} {dtype} over axis {axis}, {_SIZE // n} x {n}": (name, axis, n)
            for name in _REDUCTIONS for axis in (1, 0) for n in _COLUMNS
        }  # fmt: skip
        maps = {f"{name} {dtype}, {_SIZE // n} x {n}": (name, n) for name in _MAPS for n in _columns()}
        sums = {f"{name} {dtype}, {_SIZE // n} x {n}": (name, n) for name in _SUMS for n in _SUM_COLUMNS}
        losses = {f"cross entropy {dtype}, {_SIZE // n} x {n}": n for n in _CLASSES}
        if not report.wants(*reductions, *maps, *sums, *losses):
            continue
        whole = Generator("philox", seed=7).normal(size=_SIZE, dtype=dtype)
        for label, (name, axis, columns) in reductions.items():
            if report.wants(label):
                _reduction(report, label, name, axis, whole.reshape(_SIZE // columns, columns), torch, quick)
        for label, (name, columns) in maps.items():
            if report.wants(label):
                _map(report, label, name, whole.reshape(_SIZE // columns, columns), torch, quick)
        for label, (name, columns) in sums.items():
            if report.wants(label):
                _sum(report, label, name, whole.reshape(_SIZE // columns, columns), torch, quick)
        for label, columns in losses.items():
            if report.wants(label):
                _cross_entropy(report, label, whole.reshape(_SIZE // columns, columns), torch, quick)
    for name in ("softmax", "log_softmax"):
        for dtype in ("bfloat16", "float32"):
            label = f"{name} {dtype}, {_UNALIGNED[0]} x {_UNALIGNED[1]}"
            if report.wants(label):
                x = Generator("philox", seed=7).normal(size=_UNALIGNED, dtype=dtype)
                _map(report, label, name, x, torch, quick)


def _columns() -> tuple[int, ...]:
    return tuple(n for n in (*_COLUMNS, *_LONG) if n <= _SIZE)


def _reduction(report: Report, label: str, name: str, axis: int, x: Any, torch: Any, quick: bool) -> None:
    function = partial(getattr(elementwise, name), axis=axis)
    out = function(x)
    part = (slice(None), slice(_FEW)) if axis == 0 else slice(_FEW)
    size = np.sqrt(x.shape[axis]) if name in ("sum", "cumsum") else 1.0
    if not is_close(out[part if name == "cumsum" else slice(_FEW)], function(wide(x[part])), size):
        report.add(name=label, right=False)
        return
    works: dict[str, Callable[[], Any]] = {"ours": lambda: function(x, out=out), "copy": copy_of(x.nbytes + out.nbytes)}
    if torch is not None:
        works["torch"] = _torchs(torch, name, axis, torch.from_dlpack(x))
    add_bandwidth(report, label, works, _BOUND, 7 if quick else 15, right=True)


def _torchs(torch: Any, name: str, axis: int, x: Any) -> Callable[[], Any]:
    """torch's reduction of the same."""
    return {
        "sum": lambda: torch.sum(x, axis), "mean": lambda: torch.mean(x, axis), "max": lambda: torch.amax(x, axis),
        "argmax": lambda: torch.argmax(x, axis), "var": lambda: torch.var(x, axis, correction=0),
        "cumsum": lambda: torch.cumsum(x, axis),
    }[name]  # fmt: skip


def _map(report: Report, label: str, name: str, x: Any, torch: Any, quick: bool) -> None:
    function = getattr(elementwise, name)
    draws, columns = Generator("philox", seed=8), x.shape[-1]
    weights = [draws.uniform(0.5, 1.5, size=columns, dtype=str(x.dtype)) for _ in range(_MAPS[name])]
    out = function(x, *weights)
    wanted = function(wide(x[:_FEW]), *map(wide, weights))
    if not is_close(out[:_FEW], wanted):
        report.add(name=label, right=False)
        return
    works: dict[str, Callable[[], Any]] = {}
    missing: dict[str, str] = {}
    if torch is not None:
        tensors = [torch.from_dlpack(each) for each in weights] + [None, None]
        makers = peers.rows(torch, name, torch.from_dlpack(x), *tensors[:2])
        works, missing = peers.those_that_run(makers, lambda found: is_close(found[:_FEW], wanted))
    works |= {"ours": lambda: function(x, *weights, out=out), "copy": copy_of(2 * x.nbytes)}
    add_bandwidth(report, label, works, _BOUND, 7 if quick else 15, right=True, **peers.told(missing))


def _sum(report: Report, label: str, name: str, x: Any, torch: Any, quick: bool) -> None:
    """The norm of a sum with a residual, and the sum. Another peer is the same in two calls."""
    function, draws, columns = getattr(elementwise, name), Generator("philox", seed=8), x.shape[-1]
    residual = draws.normal(size=x.shape, dtype=str(x.dtype))
    weights = [draws.uniform(0.5, 1.5, size=columns, dtype=str(x.dtype)) for _ in range(_SUMS[name])]
    out = function(x, residual, *weights)
    wanted = function(wide(x[:_FEW]), wide(residual[:_FEW]), *map(wide, weights))
    norm = getattr(elementwise, name.removeprefix("add_"))

    def is_right(found: Any) -> bool:
        return all(is_close(one[:_FEW], other, 4) for one, other in zip(found, wanted, strict=True))

    def apart() -> Any:
        elementwise.add(x, residual, out=out[1])
        return norm(out[1], *weights, out=out[0])

    if not is_right(out):
        report.add(name=label, right=False)
        return
    works: dict[str, Callable[[], Any]] = {}
    missing: dict[str, str] = {}
    if torch is not None:
        own, other, *more = map(torch.from_dlpack, (x, residual, *weights))
        works, missing = peers.those_that_run(peers.sum_norms(torch, name, own, other, more), is_right)
    works |= {"two calls": apart, "ours": lambda: function(x, residual, *weights, out=out)}
    works["copy"] = copy_of(4 * x.nbytes)
    add_bandwidth(report, label, works, _BOUND, 7 if quick else 15, right=True, **peers.told(missing))


def _cross_entropy(report: Report, label: str, x: Any, torch: Any, quick: bool) -> None:
    """Each row's loss: x is read once."""
    rows, columns = x.shape
    host = np.random.default_rng(9).integers(0, columns, rows)
    labels = numbacc.asarray(host)

    def work() -> Any:
        return elementwise.cross_entropy(x, labels, reduction="none")

    wanted = -elementwise.log_softmax(wide(x[:_FEW]))[np.arange(_FEW), host[:_FEW]]
    if not is_close(work()[:_FEW], wanted):
        report.add(name=label, right=False)
        return
    works: dict[str, Callable[[], Any]] = {}
    missing: dict[str, str] = {}
    if torch is not None:
        makers = peers.cross_entropy(torch, torch.from_dlpack(x), torch.from_dlpack(labels))
        works, missing = peers.those_that_run(makers, lambda found: is_close(found[:_FEW], wanted))
    works |= {"ours": work, "copy": copy_of(x.nbytes)}
    add_bandwidth(report, label, works, _BOUND, 7 if quick else 15, right=True, **peers.told(missing))
