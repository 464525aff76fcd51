"""Kernels of one's own against torch, torch.compile, CuPy's `fuse` and `ElementwiseKernel` of the same formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numbacc

from .. import elementwise
from ..random import Generator
from . import peers
from .checking import is_right
from .harness import RESOLUTION, Report, copy_of, gpu_ms

_RATE, _BETA1, _BETA2, _EPS = 1e-3, 0.9, 0.999, 1e-8


def _capped(x: float, s: float) -> float:
    return s * math.tanh(x / s)


def _gated(x: float, y: float, z: float) -> float:
    return x / (1.0 + math.exp(-y)) + z


def _adam(p: float, g: float, m: float, v: float) -> tuple[float, float, float]:
    m = _BETA1 * m + (1.0 - _BETA1) * g
    v = _BETA2 * v + (1.0 - _BETA2) * g * g
    return p - _RATE * m / (math.sqrt(v) + _EPS), m, v


def _adams(library: Any) -> Callable[..., Any]:
    """A step of Adam in the functions of torch or CuPy."""

    def adam(p: Any, g: Any, m: Any, v: Any) -> Any:
        m = _BETA1 * m + (1.0 - _BETA1) * g
        v = _BETA2 * v + (1.0 - _BETA2) * g * g
        return p - _RATE * m / (library.sqrt(v) + _EPS), m, v

    return adam


class Case(NamedTuple):
    """A formula, and the same for the peers.

    Attributes:
        formula: of numbers, as numbacc takes it.
        arrays, results: how many it takes, the last one of numbers in (0, 1), and how many it has.
        numbers: what stands behind the arrays.
        theirs: a library -> the formula in its functions.
        text: arguments, results and lines of CuPy's `ElementwiseKernel`.
    """

    name: str
    formula: Callable[..., Any]
    arrays: int
    results: int
    numbers: tuple[float, ...]
    theirs: Callable[[Any], Callable[..., Any]]
    text: tuple[str, str, str]


CASES = (
    Case(
        "tanh", _capped, 1, 1, (30.0,), lambda library: lambda x, s: s * library.tanh(x / s),
        ("x", "out", "out = 30.0f * tanhf((float)x / 30.0f)"),
    ),
    Case(
        "gate", _gated, 3, 1, (), lambda library: lambda x, y, z: x / (1.0 + library.exp(-y)) + z,
        ("x y z", "out", "out = (float)x / (1.0f + expf(-(float)y)) + (float)z"),
    ),
    Case(
        "adam", _adam, 4, 3, (), _adams,
        (
            "p g m v", "q n w",
            f"float a = {_BETA1}f * m + (1 - {_BETA1}f) * g, b = {_BETA2}f * v + (1 - {_BETA2}f) * g * g;"
            f"q = p - {_RATE}f * a / (sqrtf(b) + {_EPS}f); n = a; w = b",
        ),
    ),
)  # fmt: skip


def add_own(report: Report, dtype: str, size: int, torch: Any, cupy: Any, quick: bool) -> None:
    """Report own kernels of a dtype, on arrays of so many numbers.

    Args:
        torch, cupy: the libraries, or None.
        quick: whether there are few repeats, and no torch.compile.
    """
    for case in CASES:
        label = f"own kernel {case.name} {dtype}, 2^{size.bit_length() - 1}"
        if report.wants(label):
            _figure(report, case, label, dtype, size, torch, cupy, quick)


def _figure(report: Report, case: Case, label: str, dtype: str, size: int, torch: Any, cupy: Any, quick: bool) -> None:
    draws = Generator("philox", seed=7)
    arrays = [draws.normal(size=size, dtype=dtype) for _ in range(case.arrays - 1)]
    # The last one is positive: Adam takes its root.
    arrays.append(draws.uniform(0.0, 1.0, size=size, dtype=dtype))
    given = (*arrays, *case.numbers)
    kernel: Any = elementwise.kernel(case.formula)
    outs = tuple(numbacc.empty_like(arrays[0]) for _ in range(case.results))
    out = outs if case.results > 1 else outs[0]
    kernel(*given, out=out)
    right = partial(is_right, kernel, given)
    if not right(out):
        report.add(name=label, right=False)
        return
    makers = peers.formula(torch, cupy, case.theirs, case.text, given)
    if quick:
        makers.pop("torch.compile", None)
    works, missing = peers.those_that_run(makers, right)
    works["ours"] = lambda: kernel(*given, out=out)
    works["copy"] = copy_of((case.arrays + case.results) * arrays[0].nbytes)
    times = gpu_ms(works, repeats=7 if quick else 15)
    ours, copy = times.pop("ours"), times.pop("copy")
    ratio = ours / min(times.values()) if times else None
    report.add(
        name=label, right=True, ms=ours, bandwidth=copy / ours, ratio=ratio, peers=times,
        **peers.told(missing),
        bound=1.0, holds=ratio is None or ratio <= 1.0 + RESOLUTION,
    )  # fmt: skip
