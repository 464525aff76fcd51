"""AdamW and the norm of gradients, over the 200 parameters of a transformer, against the speed of copies and torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import numbacc
from numbacc import elementwise
from numbacc.random import Generator

from . import peers
from .harness import RESOLUTION, Report, add_bandwidth, add_host_times, copy_of, gpu_ms

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
    names = [
        f"clip and adamw, float32 master, bfloat16 gradients, {each}" for each in (f"{len(shapes)} parameters", "flat")
    ]
    for name in names:
        if report.wants(name):
            _mixed(report, name, [(sum(map(math.prod, shapes)),)] if name.endswith("flat") else shapes, torch, quick)
    label = f"clip_grad_norm bfloat16, {len(shapes)} parameters"
    if report.wants(label):
        _clip(report, label, shapes, torch, quick)
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


def _mixed(report: Report, label: str, shapes: list[tuple[int, ...]], torch: Any, quick: bool) -> None:
    """The norm of 16-bit gradients, and a step of float32 parameters that writes 16-bit copies. Two decays."""
    draws = Generator("philox", seed=7)
    p, m, v = ([numbacc.zeros(shape, "float32") for shape in shapes] for _ in range(3))
    g, copies = ([draws.normal(size=shape, dtype="bfloat16") for shape in shapes] for _ in range(2))
    decays = [_DECAY * (len(shape) > 1) for shape in shapes]
    count = numbacc.full(1, 2, "int64")

    def work() -> Any:
        _, factor = elementwise.clip_grad_norm(g, 1.0, write=False)
        options: dict[str, Any] = {"rate": _RATE, "weight_decay": decays if len(shapes) > 1 else _DECAY}
        return elementwise.adamw_step(p, g, m, v, count, factor=factor, copy=copies, **options)

    few = [numbacc.asnumpy(x.reshape(-1)[:64]).astype(np.float64) for x in g]
    norm = _norm(g)
    work()
    found = [numbacc.asnumpy(x.reshape(-1)[:64]) for x in m]
    right = all(np.allclose(one, 0.1 * x / norm, 1e-4, 1e-9) for one, x in zip(found, few, strict=True))
    if not right:
        report.add(name=label, right=False)
        return
    size = sum(x.size for x in p)
    works: dict[str, Callable[[], Any]] = {"ours": work, "copy": copy_of(30 * size)}
    if torch is not None:
        gradients, halves = ([torch.from_dlpack(x) for x in each] for each in (g, copies))
        if len(shapes) > 1:
            works["torch"] = _torchs_mixed(torch, shapes, gradients, halves)
        elif not quick:
            works["torch compiled"] = _compiled(torch, shapes[0], gradients[0], halves[0])
    add_bandwidth(report, label, works, 0.9, 7 if quick else 15, right=True)


def _norm(g: list[Any]) -> float:
    """The norm of all gradients, by sums in float64 of squares in float32."""
    squares = (elementwise.square(elementwise.astype(x, "float32")) for x in g)
    return float(np.sqrt(sum(float(numbacc.asnumpy(elementwise.sum(x, dtype="float64"))) for x in squares)))


def _torchs_mixed(torch: Any, shapes: list[tuple[int, ...]], g: list[Any], copies: list[Any]) -> Callable[[], Any]:
    """The same by torch's functions of lists and its fused optimizer, which needs float32 gradients."""
    parameters = [torch.nn.Parameter(torch.zeros(shape, device="cuda")) for shape in shapes]
    for each in parameters:
        each.grad = torch.zeros_like(each)
    groups = [
        {"params": [each for each in parameters if (each.ndim > 1) == is_matrix], "weight_decay": _DECAY * is_matrix}
        for is_matrix in (True, False)
    ]
    optimizer = torch.optim.AdamW(groups, lr=_RATE, fused=True)
    wide = [each.grad for each in parameters]

    def work() -> None:
        torch._foreach_copy_(wide, g)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        optimizer.step()
        with torch.no_grad():
            torch._foreach_copy_(copies, parameters)

    return work


def _compiled(torch: Any, shape: tuple[int, ...], g: Any, copy: Any) -> Callable[[], Any]:
    """The same by torch.compile, of flat arrays, without casts of gradients in memory."""
    p, m, v = (torch.zeros(shape, device="cuda") for _ in range(3))
    count = torch.full((), 2.0, device="cuda")

    def step(p: Any, g: Any, m: Any, v: Any, copy: Any, t: Any) -> None:
        wide = g.float()
        wide = wide * torch.clamp(1.0 / (torch.linalg.vector_norm(wide) + 1e-6), max=1.0)
        m.lerp_(wide, 0.1)
        v.mul_(0.999).addcmul_(wide, wide, value=0.001)
        p.mul_(1 - _RATE * _DECAY)
        p.sub_(_RATE / (1 - 0.9**t) * m / ((v / (1 - 0.999**t)).sqrt() + 1e-8))
        copy.copy_(p)

    compiled = torch.compile(step)
    return lambda: compiled(p, g, m, v, copy, count)


def _clip(report: Report, label: str, shapes: list[tuple[int, ...]], torch: Any, quick: bool) -> None:
    """Gradients that are read for their norm, and multiplied."""
    draws = Generator("philox", seed=7)
    g = [draws.normal(size=shape, dtype="bfloat16") for shape in shapes]
    norm, _ = elementwise.clip_grad_norm(g, 1.0, write=False)
    if not np.isclose(float(numbacc.asnumpy(norm)), _norm(g), 1e-5):
        report.add(name=label, right=False)
        return
    works: dict[str, Callable[[], Any]] = {
        "ours": lambda: elementwise.clip_grad_norm(g, 1.0), "copy": copy_of(6 * sum(x.size for x in g))
    }  # fmt: skip
    if torch is not None:
        parameters = [torch.nn.Parameter(torch.from_dlpack(x)) for x in g]
        for parameter, x in zip(parameters, g, strict=True):
            parameter.grad = torch.from_dlpack(x)
        works["torch"] = lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
    add_bandwidth(report, label, works, 0.9, 7 if quick else 15, right=True)


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
