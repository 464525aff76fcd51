"""AdamW's step over the 200 parameters of a transformer, against the speed of copies and torch's fused optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import numbacc
from numbacc import elementwise
from numbacc.random import Generator

from . import peers
from .harness import RESOLUTION, Report, add_host_times, copy_of, gpu_ms

_WIDTH, _INNER, _LAYERS = 2048, 5632, 22
_RATE, _DECAY = 1e-3, 0.01


def _shapes(layers: int) -> list[tuple[int, ...]]:
    """Nine parameters a layer, an embedding of 100 MB and a last one of 1 KB, in float32."""
    square, narrow, wide = (_WIDTH, _WIDTH), (_WIDTH // 4, _WIDTH), (_INNER, _WIDTH)
    layer = [(_WIDTH,), square, narrow, narrow, square, (_WIDTH,), wide, wide, (_WIDTH, _INNER)]
    return [(12800, _WIDTH), *layer * layers, (256,)]


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of AdamW."""
    torch = peers.import_torch()
    shapes = _shapes(4 if quick else _LAYERS)
    for dtype in ("float32", "bfloat16"):
        label = f"adamw {dtype}, {len(shapes)} parameters"
        if report.wants(label):
            _step(report, label, shapes, dtype, torch, quick)
    if report.wants("host time"):
        _host(report, torch)


def _made(shapes: list[tuple[int, ...]], dtype: str) -> tuple[list[Any], ...]:
    """p, g, m and v."""
    draws = Generator("philox", seed=7)
    p, g = ([draws.normal(size=shape, dtype=dtype) for shape in shapes] for _ in range(2))
    m, v = ([numbacc.zeros(shape, dtype) for shape in shapes] for _ in range(2))
    return p, g, m, v


def _torchs(torch: Any, p: list[Any], g: list[Any]) -> Any:
    """torch's optimizer of the same parameters and gradients, with moments of its own."""
    parameters = [torch.nn.Parameter(torch.from_dlpack(x)) for x in p]
    for parameter, x in zip(parameters, g, strict=True):
        parameter.grad = torch.from_dlpack(x)
    return torch.optim.AdamW(parameters, lr=_RATE, weight_decay=_DECAY, fused=True)


def _step(report: Report, label: str, shapes: list[tuple[int, ...]], dtype: str, torch: Any, quick: bool) -> None:
    p, g, m, v = _made(shapes, dtype)
    if not _is_right(p, g, m, v):
        report.add(name=label, right=False)
        return
    count = numbacc.full(1, 2, "int64")
    nbytes = 7 * sum(x.nbytes for x in p)
    works: dict[str, Callable[[], Any]] = {
        "ours": lambda: elementwise.adamw_step(p, g, m, v, 2, rate=_RATE, weight_decay=_DECAY),
        "counted": lambda: elementwise.adamw_step(p, g, m, v, count, rate=_RATE, weight_decay=_DECAY),
        "copy": copy_of(nbytes),
    }
    if torch is not None:
        works["torch"] = _torchs(torch, p, g).step
    times = gpu_ms(works, repeats=7 if quick else 15)
    copy = times.pop("copy")
    for kind, name in (("ours", label), ("counted", f"{label}, steps counted on the GPU")):
        ours, theirs = times[kind], {peer: time for peer, time in times.items() if peer == "torch"}
        ratio = ours / theirs["torch"] if theirs else None
        report.add(
            name=name, right=True, ms=ours, bandwidth=copy / ours, ratio=ratio, peers=theirs, bound=1.0,
            holds=ratio is None or ratio <= 1.0 + RESOLUTION,
        )  # fmt: skip


def _is_right(p: list[Any], g: list[Any], m: list[Any], v: list[Any]) -> bool:
    """True if a step does to the first elements of each parameter what NumPy does, which has the same step."""
    few = 64
    heads = [[numbacc.asnumpy(x.reshape(-1)[:few]).copy() for x in each] for each in (p, g, m, v)]
    elementwise.adamw_step(heads[0], heads[1], heads[2], heads[3], 1, rate=_RATE, weight_decay=_DECAY)
    elementwise.adamw_step(p, g, m, v, 1, rate=_RATE, weight_decay=_DECAY)
    eps = {2: 2.0**-7, 4: 2.0**-20}[p[0].dtype.itemsize]
    return all(
        np.allclose(numbacc.asnumpy(x.reshape(-1)[:few]).astype(np.float64), head.astype(np.float64), eps, eps)
        for each, own in zip((p, m, v), (heads[0], *heads[2:]), strict=True)
        for x, head in zip(each, own, strict=True)
    )


def _host(report: Report, torch: Any) -> None:
    """The time of a call on 200 small parameters, of which Python is all."""
    if torch is None:
        report.add(name="host time of AdamW", skipped="needs torch")
        return
    p, g, m, v = _made([(16 + k % 5, 16) for k in range(200)], "float32")
    others = [_made([(16 + k % 5, 16) for k in range(200)], "float32")[1] for _ in range(32)]
    optimizer = _torchs(torch, p, g)
    turns = iter(range(10**9))
    add_host_times(
        report,
        {
            "adamw_step": (1.0, lambda: elementwise.adamw_step(p, g, m, v, 2)),
            # More gradients than tables are kept for: each call writes one.
            "adamw_step, new gradients": (1.0, lambda: elementwise.adamw_step(p, others[next(turns) % 32], m, v, 2)),
        },
        {"torch": optimizer.step},
        "200 parameters float32",
    )
