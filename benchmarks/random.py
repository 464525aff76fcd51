"""Random numbers against a fill of the same bytes, against cuRAND called directly, torch and CuPy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import numbacc
from numbacc.libraries.curand import Engine
from numbacc.random import KINDS, Generator
from numbacc.runtime import device as runtime

from . import peers
from .harness import RESOLUTION, Report, add_host_times, gpu_ms, host_times

#: How much is drawn.
NBYTES = 1 << 30
SEED = 7
#: How many microseconds a draw of ten values into NumPy arrays may take beyond NumPy's own generator.
SMALL_US = 15.0


class Case(NamedTuple):
    """A draw that is measured.

    Attributes:
        method, dtype, arguments: the call, with `out`.
        bound: the promised part of the bandwidth of a fill, if one is promised.
        function, parameters: cuRAND's own function, with its last arguments.
        outputs: outputs of the sequence per value.
        tolerance: how far from the CPU's: uniforms and integers are the same bits, normals have the GPU's sines in
            float32, and Poisson numbers may be neighbours.
    """

    method: str
    dtype: str
    arguments: tuple[Any, ...]
    bound: float | None
    function: str
    parameters: tuple[float, ...]
    outputs: int
    tolerance: float


CASES = (
    Case("random", "float32", (), 0.8, "curandGenerateUniform", (), 1, 0.0),
    Case("normal", "float32", (0.0, 1.0), None, "curandGenerateNormal", (0.0, 1.0), 1, 2.0**-17),
    Case("normal", "float64", (0.0, 1.0), None, "curandGenerateNormalDouble", (0.0, 1.0), 2, 2.0**-47),
    Case("integers", "int64", (peers.HIGH,), None, "", (), 2, 0.0),
    Case("poisson", "int64", (peers.MEAN,), None, "", (), 1, 1.0),
)


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of random numbers."""
    for case in CASES:
        _bandwidth(report, case, quick)
    if report.wants("host time"):
        _host_times(report)
        _small_draws(report)
    if report.wants(*(_FIRST.format(kind) for kind in KINDS)):
        _first_number(report)


def _bandwidth(report: Report, case: Case, quick: bool) -> None:
    device, method = runtime.current_device(), case.method
    count = NBYTES // np.dtype(case.dtype).itemsize
    name = f"{method} {case.dtype}, 2^{count.bit_length() - 1}"
    if not report.wants(name):
        return
    out = numbacc.empty(count, case.dtype)
    # Bits that are NaN, and integers far beyond any that are drawn.
    runtime.fill(out._address, b"\xff\xff\xff\x7f", out.nbytes // 4, device, 0)
    generator = Generator("philox", SEED)
    getattr(generator, method)(*case.arguments, out=out)
    error = _error(case, out)
    right = error <= case.tolerance
    if not right:
        report.add(name=name, right=False, error=error)
        return
    works = {
        "ours": lambda: getattr(generator, method)(*case.arguments, out=out),
        "fill": lambda: runtime.fill(out._address, b"\x5a\xa5\x3c\xc3", out.nbytes // 4, device, 0),
        **({"cuRAND": _direct(case, out, device)} if case.function else {}),
        **peers.draws(peers.import_torch(), peers.import_cupy(), method, case.dtype, count, SEED),
    }
    times = gpu_ms(works, repeats=10 if quick else 40)
    ours, fill = times.pop("ours"), times.pop("fill")
    others = {peer: t / ours for peer, t in times.items()}
    ratio = fill / ours
    promise = {} if case.bound is None else {"bound": case.bound}
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
        holds=ratio >= (case.bound or 0) and all(other >= 1 - RESOLUTION for other in rivals),
    )


def _direct(case: Case, out: Any, device: int) -> Callable[[], None]:
    """A call of cuRAND's own function, which goes on in its sequence."""
    engine, at = Engine(Generator("philox", SEED).state, device), [0]

    def direct() -> None:
        first, at[0] = at[0], at[0] + out.size * case.outputs
        engine.generate(case.function, out._address, out.size, case.parameters, first, at[0], 0)

    return direct


def _error(case: Case, out: Any) -> float:
    """The largest difference from what is made on the CPU, at the start, in the middle and at the end."""
    n = 1 << 20
    worst = 0.0
    for start in (0, out.size // 2, out.size - n):
        there = Generator("philox", SEED, offset=start * case.outputs, device="cpu")
        want = getattr(there, case.method)(*case.arguments, size=n, dtype=case.dtype).astype(np.float64)
        got = numbacc.asnumpy(out[start : start + n]).astype(np.float64)
        error = float(np.abs(got - want).max())
        worst = max(worst, error if error == error else float("inf"))
    return worst


def _host_times(report: Report) -> None:
    """Measure the host time of calls with `out`, over torch's."""
    torch, generator, n = peers.import_torch(), Generator("philox", SEED), 1000
    if torch is None:
        return
    for method, dtype in (("normal", "float32"), ("random", "float32"), ("integers", "int64")):
        out = numbacc.empty(n, dtype)
        arguments = (peers.HIGH,) if method == "integers" else ()
        draw = getattr(generator, method)
        theirs = peers.draws(torch, None, method, dtype, n, SEED)
        call = {f"{method} with out": (1.0, lambda draw=draw, a=arguments, out=out: draw(*a, out=out))}
        add_host_times(report, call, theirs, f"{n} {dtype}")


def _small_draws(report: Report) -> None:
    """Measure the time of ten values in NumPy beyond NumPy's own generator."""
    g, n = Generator("philox", SEED, device="cpu"), np.random.default_rng(SEED)
    out = np.empty(10)
    calls = {
        "normal float64": (lambda: g.normal(size=10, dtype="float64"), lambda: n.standard_normal(10)),
        "normal float64, out": (lambda: g.normal(out=out), lambda: n.standard_normal(out=out)),
        "normal float32": (lambda: g.normal(size=10), lambda: n.standard_normal(10, dtype=np.float32)),
        "random float64": (lambda: g.random(10, dtype="float64"), lambda: n.random(10)),
        "random float32": (lambda: g.random(10), lambda: n.random(10, dtype=np.float32)),
        "uniform float64": (lambda: g.uniform(-1.0, 1.0, 10, dtype="float64"), lambda: n.uniform(-1.0, 1.0, 10)),
        "integers int64": (lambda: g.integers(6, size=10), lambda: n.integers(6, size=10)),
    }
    for name, (ours, numpys) in calls.items():
        times = host_times({"ours": ours, "NumPy": numpys})
        above = times["ours"] - times["NumPy"]
        report.add(
            name=f"host time, ten of {name}, NumPy arrays",
            us=times["ours"],
            NumPy_us=times["NumPy"],
            above_us=above,
            bound=SMALL_US,
            holds=above <= SMALL_US,
        )


_FIRST = "first number of a new generator, {}"


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
        report.add(name=_FIRST.format(kind), host_ms=ms, **promise)
