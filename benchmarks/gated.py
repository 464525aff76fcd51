"""Gated activations against a device-to-device copy of the same bytes, and against every peer installed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import numbacc
from numbacc import gated
from numbacc.base import dtypes
from numbacc.random import Generator
from numbacc.reference import gated as reference

from . import peers
from .harness import RESOLUTION, Report, add_host_times, copy_of, gpu_ms


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
    Case("odd rows 8192 x 2*4097", (8192, 8194), -1, 0.92, _NARROW, False),
    Case("odd rows 333 x 2*7777", (333, 15554), -1, 0.92, _NARROW, True),
    Case("axis 0, 2*8192 x 4097", (16384, 4097), 0, 0.92, _NARROW, False),
    Case("transposed 8192 x 2*4096", (8192, 8192), -1, 0.8, _NARROW, False, True),
    Case("small rows 1024 x 2*2048", (1024, 4096), -1, 0.0, _NARROW, True),
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
    for dtype in ("float32", "bfloat16"):
        _own(report, CASES[0], dtype, torch, quick)
    if report.wants("host time"):
        _host(report, torch)


def _half(case: Case) -> tuple[int, ...]:
    """The shape of y."""
    half = list(case.shape)
    half[case.axis] //= 2
    return tuple(half)


def _arrays(case: Case, dtype: str) -> tuple[Any, Any]:
    """x and dy of a case: standard normal numbers, none of them a copy of others far away."""
    draws = Generator("philox", seed=7)
    x = draws.normal(size=case.shape[::-1] if case.transposed else case.shape, dtype=dtype)
    return x.T if case.transposed else x, draws.normal(size=_half(case), dtype=dtype)


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
    name = f"{kind} {direction} {dtype}, {case.name}"
    if not report.wants(name):
        return
    work = _Call(case, kind, direction, x, dy)
    work()
    check = _Check(case, kind, direction, x, dy, torch)
    error, right = check(work.out)
    what = {"name": name, "kind": kind, "direction": direction, "dtype": dtype, "layout": case.name}
    if not right:
        report.add(**what, right=False, error=error)
        return
    works: dict[str, Callable[[], Any]] = {"ours": work, "copy": copy_of(work.moved)}
    left_out = {}
    if case.peers and torch is not None:
        tx, tdy = torch.from_dlpack(x), torch.from_dlpack(dy)
        found = peers.gated(torch, direction, kind, case.axis, tdy, tx, compiled=not quick)
        # They may round to 16 bits after every operation, which where terms cancel is much of an element.
        errors = {peer: check(theirs())[0] for peer, theirs in found.items()}
        wrong = {peer: off for peer, off in errors.items() if not off < 16 * _eps(dtype)}
        left_out = {"wrong_peers": wrong} if wrong else {}
        works |= {peer: theirs for peer, theirs in found.items() if peer not in wrong}
    times = gpu_ms(works, repeats=10 if quick else 40)
    ours = times.pop("ours")
    ratio = times.pop("copy") / ours
    others = {peer: time / ours for peer, time in times.items()}
    report.add(
        **what,
        **left_out,
        right=True,
        ms=ours,
        TB_per_s=work.moved / ours / 1e9,
        error=error,
        ratio=ratio,
        bound=case.bound,
        peers=others,
        holds=ratio >= case.bound and all(other >= 1 - RESOLUTION for other in others.values()),
    )


class _Call:
    """A call, ready to be run again.

    Attributes:
        out: what it writes; NaN before.
        moved: bytes that it reads and writes.
    """

    def __init__(self, case: Case, kind: str, direction: str, x: Any, dy: Any):
        forward = direction == "forward"
        self.out = numbacc.full(_half(case) if forward else case.shape, float("nan"), dtype=x.dtype)
        self.moved = x.nbytes + self.out.nbytes + (0 if forward else dy.nbytes)
        function: Callable[..., Any] = gated.forward if forward else gated.backward
        self._run = partial(function, *((x,) if forward else (dy, x)), kind, axis=case.axis, out=self.out)

    def __call__(self) -> None:
        self._run()


class _Check:
    """A comparison of whole results with the exact one, computed in float64 a part at a time: by torch on the GPU, by
    NumPy where torch is missing.

    Args:
        x, dy: the arguments of the call.
    """

    def __init__(self, case: Case, kind: str, direction: str, x: Any, dy: Any, torch: Any):
        self._kind, self._direction, self._torch = kind, direction, torch
        self._axis = case.axis % len(case.shape)
        # Cut along an axis that is not split.
        self._along = 0 if self._axis else 1
        self._length = case.shape[self._along]
        self._step = max((1 << 24) * self._length // int(np.prod(case.shape)), 1)
        self._given = [x, dy] if torch is None else [torch.from_dlpack(array) for array in (x, dy)]

    def __call__(self, result: Any) -> tuple[float, bool]:
        """‖result - exact‖ / ‖exact‖, and whether each element is right: off by two roundings of its dtype at most.

        `result` is an array of ours, a tensor, or two tensors that make up one.
        """
        torch = self._torch
        if isinstance(result, tuple):
            result = torch.cat(result, self._axis)
        elif torch is not None and not isinstance(result, torch.Tensor):
            result = torch.from_dlpack(result)
        narrow = _eps(str(result.dtype).removeprefix("torch."))
        # What the arithmetic's own roundings amount to where terms cancel; the numbers are a few units large.
        floor = 128 * max(_eps("float64"), min(narrow, _eps("float32")))

        def compare(part: tuple[Any, Any, Any]) -> tuple[float, float, bool]:
            x, dy, got = part
            exact = self._exact(dy, x)
            got = got.astype(np.float64) if torch is None else got.double()
            error = abs(got - exact)
            # NaN is not below anything.
            right = bool((error <= 2 * narrow * abs(exact) + floor).all())
            return float((error**2).sum()), float((exact**2).sum()), right

        if torch is None:
            with ThreadPoolExecutor() as pool:
                sums = list(pool.map(compare, self._parts(result)))
        else:
            sums = [compare(part) for part in self._parts(result)]
        errors, norms, right = zip(*sums, strict=True)
        return float(np.sqrt(sum(errors) / sum(norms))), all(right)

    def _parts(self, result: Any) -> Iterator[tuple[Any, Any, Any]]:
        """x, dy and the result, part by part."""
        for start in range(0, self._length, self._step):
            part = (*[slice(None)] * self._along, slice(start, start + self._step))
            arrays = [array[part] for array in (*self._given, result)]
            x, dy, got = map(numbacc.asnumpy, arrays) if self._torch is None else arrays
            yield x, dy, got

    def _exact(self, dy: Any, x: Any) -> Any:
        if self._torch is not None:
            return peers.exact_gated(self._torch, self._direction, self._kind, self._axis, dy, x)
        a, b = np.split(x.astype(np.float64), 2, self._axis)
        if self._direction == "forward":
            return reference.forward(a, b, kind=self._kind)[0]
        return np.concatenate(reference.backward(dy.astype(np.float64), a, b, kind=self._kind), self._axis)


def _eps(dtype: str) -> float:
    """The distance from 1 to the next number."""
    return float(ml_dtypes.finfo(dtypes.dtype(dtype)).eps)


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
        "backward, torch tensors, out given": (1.2, lambda: gated.backward(tdy, tx, "glu", out=tdx)),
        "backward, torch tensors": (1.2, lambda: gated.backward(tdy, tx, "glu")),
    }
    add_host_times(report, ours, theirs, "8 x 2048")
    glu, y = torch.nn.functional.glu, numbacc.empty((8, 2048))
    forward = {
        "forward(x, out=y)": (None, lambda: gated.forward(x, "glu", out=y)),
        "forward(x)": (1.0, lambda: gated.forward(x, "glu")),
        "forward, torch's tensor": (1.2, lambda: gated.forward(tx, "glu")),
    }
    add_host_times(report, forward, {"torch F.glu us": lambda: glu(tx)}, "8 x 2048")


#: Gates that one may write oneself, of formulas that numbacc has: kind -> g.
OWN: dict[str, Callable[[float], float]] = {
    "swiglu": lambda b: b / (1.0 + math.exp(-b)),
    "geglu": lambda b: b * 0.5 * math.erfc(-b * 0.7071067811865476),
}


def _own(report: Report, case: Case, dtype: str, torch: Any, quick: bool) -> None:
    """Gates of one's own against the built-in ones of the same formulas."""
    names = {
        (kind, direction): f"own {kind} {direction} {dtype}, {case.name}"
        for kind in OWN for direction in ("forward", "backward")
    }  # fmt: skip
    if not report.wants(*names.values()):
        return
    x, dy = _arrays(case, dtype)
    for kind, gate in OWN.items():
        gated.register(f"own_{kind}", gate)
    for (kind, direction), name in names.items():
        if not report.wants(name):
            continue
        own, built_in = (_Call(case, each, direction, x, dy) for each in (f"own_{kind}", kind))
        own()
        error, right = _Check(case, kind, direction, x, dy, torch)(own.out)
        if not right:
            report.add(name=name, right=False, error=error)
            continue
        works: dict[str, Callable[[], Any]] = {"ours": own, "built-in": built_in, "copy": copy_of(own.moved)}
        times = gpu_ms(works, repeats=10 if quick else 40)
        ratio = times["ours"] / times["built-in"]
        report.add(
            name=name, right=True, ms=times["ours"], error=error, bandwidth=times["copy"] / times["ours"], ratio=ratio,
            peers={"built-in": times["built-in"]}, bound=1.0, holds=ratio <= 1.0 + 2 * RESOLUTION,
        )  # fmt: skip
