"""Random numbers against a fill of the same bytes, against cuRAND called directly, torch and CuPy."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

import numbacc

from ..device import runtime
from ..libraries.curand import Engine
from ..random import KINDS, Generator
from . import peers
from .harness import Report, gpu_ms

#: How many numbers: 1 GiB of them.
COUNT = 1 << 28
SEED = 7
#: Method -> (its arguments, promised part of fill bandwidth, cuRAND's function with its arguments).
METHODS: dict[str, tuple[tuple[float, ...], float | None, str, tuple[float, ...]]] = {
    "random": ((), 0.8, "curandGenerateUniform", ()),
    "normal": ((0.0, 1.0), None, "curandGenerateNormal", (0.0, 1.0)),
}
#: How far from the CPU's: uniforms are the same bits, normals have the GPU's sines.
TOLERANCE = {"random": 0.0, "normal": 2.0**-17}


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of random numbers."""
    for method in METHODS:
        _bandwidth(report, method, quick)
    _first_number(report)


def _bandwidth(report: Report, method: str, quick: bool) -> None:
    arguments, bound, function, parameters = METHODS[method]
    device = runtime.current_device()
    out = numbacc.empty(COUNT, "float32")
    out._fill(float("nan"), 0)
    generator = Generator("philox", SEED)
    getattr(generator, method)(*arguments, out=out)
    error = _error(method, arguments, out)
    name = f"{method} float32, 2^28"
    right = error <= TOLERANCE[method]
    if not right:
        report.add(name=name, right=False, error=error)
        return
    engine, state = Engine(generator.state, device), {"position": 0}

    def direct() -> None:
        first = state["position"]
        state["position"] = first + COUNT
        engine.generate(function, out._address, COUNT, parameters, first, first + COUNT, 0)

    works = {
        "ours": lambda: getattr(generator, method)(*arguments, out=out),
        "fill": lambda: runtime.fill(out._address, b"\x5a\xa5\x3c\xc3", COUNT, device, 0),
        "cuRAND": direct,
        **peers.draws(peers.import_torch(), peers.import_cupy(), method, COUNT, SEED),
    }
    times = gpu_ms(works, repeats=10 if quick else 40)
    ours, fill = times.pop("ours"), times.pop("fill")
    others = {peer: t / ours for peer, t in times.items()}
    ratio = fill / ours
    promise = {} if bound is None else {"bound": bound}
    rivals = [other for peer, other in others.items() if peer != "cuRAND"]
    report.add(
        name=name,
        right=True,
        ms=ours,
        TB_per_s=out.nbytes / ours / 1e9,
        error=error,
        ratio=ratio,
        **promise,
        peers=others,
        holds=ratio >= (bound or 0) and all(other >= 1 for other in rivals),
    )


def _error(method: str, arguments: tuple[float, ...], out: Any) -> float:
    """The largest difference from what cuRAND makes on the CPU, at the start, around 2^27 and at the end."""
    n = 1 << 20
    worst = 0.0
    for start in (0, COUNT // 2, COUNT - n):
        there = Generator("philox", SEED, offset=start, device="cpu")
        want = getattr(there, method)(*arguments, n).astype(np.float64)
        got = numbacc.asnumpy(out[start : start + n]).astype(np.float64)
        worst = max(worst, float(np.abs(got - want).max()))
    return worst


def _first_number(report: Report) -> None:
    """Milliseconds from making a generator to its first number on the host, with everything loaded."""
    for kind in KINDS:
        times = []
        for _ in range(6):
            start = time.perf_counter()
            numbacc.asnumpy(Generator(kind).random(1))
            times.append((time.perf_counter() - start) * 1e3)
        ms = statistics.median(times[1:])  # the first loads the kernel
        promise = {"bound": 5.0, "holds": ms <= 5.0} if kind == "philox" else {}
        report.add(name=f"first number of a new generator, {kind}", host_ms=ms, **promise)
