"""Gated activations against a device-to-device copy of the same bytes, and against every peer installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import numbacc
from numbacc import gated
from numbacc.reference import gated as reference

from .. import dtypes
from . import peers
from .harness import Report, copy_ms, gpu_ms, host_us, table


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
            for kind in gated.KINDS:
                for direction in ("forward", "backward"):
                    _bandwidth(report, case, dtype, kind, direction, torch, quick)
    _host(report, torch)


def _arrays(case: Case, dtype: str) -> tuple[Any, Any, Any]:
    """x, dy and the layout-defying base of a case: standard normal numbers."""
    rng = np.random.default_rng(7)
    half = list(case.shape)
    half[case.axis] //= 2

    def normal(shape: Any) -> Any:
        # One random row block, repeated: filling gigabytes with fresh numbers takes longer than the benchmark.
        block = rng.standard_normal(1 << 20, np.float32).astype(dtypes.dtype(dtype))
        return np.resize(block, shape)

    if case.transposed:
        return numbacc.asarray(normal(case.shape[::-1])).T, numbacc.asarray(normal(half)), half
    return numbacc.asarray(normal(case.shape)), numbacc.asarray(normal(half)), half


def _bandwidth(report: Report, case: Case, dtype: str, kind: str, direction: str, torch: Any, quick: bool) -> None:
    x, dy, half = _arrays(case, dtype)
    out = numbacc.empty(half if direction == "forward" else case.shape, dtype)
    out._fill(float("nan"), 0)

    def work(_: int = 0) -> None:
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
    repeats = 10 if quick else 40
    moved = x.nbytes + out.nbytes + (dy.nbytes if direction == "backward" else 0)
    ours, copy = gpu_ms(work, repeats=repeats), copy_ms(moved, repeats=repeats)
    others = {}
    if case.peers and torch is not None:
        tx, tdy = torch.from_dlpack(x), torch.from_dlpack(dy)
        calls = peers.gated(torch, direction, kind, case.axis, tdy, tx, compiled=not quick)
        others = {
            peer: gpu_ms(lambda _, call=call: call(), repeats=repeats) / ours  # type: ignore[misc]
            for peer, call in calls.items()
        }
    ratio = copy / ours
    report.add(
        **what,
        right=True,
        ms=ours,
        TB_per_s=moved / ours / 1e9,
        error=error,
        ratio=ratio,
        bound=case.bound,
        peers=others,
        holds=ratio >= case.bound and all(times >= 1 for times in others.values()),
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
    """Host time of one call, against torch's own fused kernel."""
    if torch is None:
        return
    tx = torch.randn(8, 4096, device="cuda")
    tdy, tdx = torch.randn(8, 2048, device="cuda"), torch.empty_like(tx)
    x, dy = numbacc.from_dlpack(tx), numbacc.from_dlpack(tdy)
    x, dy = numbacc.asarray(numbacc.asnumpy(x)), numbacc.asarray(numbacc.asnumpy(dy))
    dx = numbacc.empty_like(x)
    glu_backward = torch.ops.aten.glu_backward
    peer = min(
        host_us(lambda: glu_backward(tdy, tx, -1)),
        host_us(lambda: glu_backward(tdy, tx, -1, grad_input=tdx)),
    )
    for name, bound, call in (
        ("host, backward(dy, x, out=dx), 8 x 2048", 0.7, lambda: gated.backward(dy, x, "glu", out=dx)),
        ("host, backward(dy, x), 8 x 2048", 1.0, lambda: gated.backward(dy, x, "glu")),
        (
            "host, backward(torch dy, torch x, out=torch dx), 8 x 2048",
            2.0,
            lambda: gated.backward(tdy, tx, "glu", out=tdx),
        ),
        ("host, backward(torch dy, torch x), 8 x 2048", 2.0, lambda: gated.backward(tdy, tx, "glu")),
    ):
        ours = host_us(call)
        ratio = ours / peer
        report.add(
            name=name,
            right=True,
            us=ours,
            ratio=ratio,
            bound=bound,
            peers={"torch us": peer},
            holds=ratio <= bound,
        )


def bandwidth_table() -> str:
    """A small table for people: part of copy bandwidth reached by each kind, bfloat16, both directions."""
    report = Report(quiet=True)
    for kind in gated.KINDS:
        for direction in ("forward", "backward"):
            _bandwidth(report, CASES[0], "bfloat16", kind, direction, None, quick=True)
    rows = [
        (f["kind"], f["direction"], f"{f['TB_per_s']:.2f}", f"{f['ratio']:.0%}")
        if f["right"]
        else (f["kind"], f["direction"], "wrong result", f"error {f['error']:.1e}")
        for f in report.figures
    ]
    return table(("kind", "direction", "TB/s", "of copy"), rows)
