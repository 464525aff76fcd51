"""Kernels and reductions of one's own against torch, torch.compile, and CuPy's own kernels of the same formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numbacc
from numbacc import elementwise
from numbacc.random import Generator

from . import peers
from .harness import RESOLUTION, Report, copy_of, gpu_ms, is_close, is_right, wide

#: The length of rows that are reduced, and how many results are looked at.
_COLUMNS, _FEW = 4096, 4
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


class RowCase(NamedTuple):
    """A reduction of rows, and the same for the peers.

    Attributes:
        function, options: what `elementwise.reduction` takes.
        theirs: a library -> the reduction of a matrix's rows in its functions.
    """

    name: str
    function: Callable[..., Any]
    options: dict[str, Any]
    theirs: Callable[[Any], Callable[..., Any]]


def _root_of_mean(total: float, count: float) -> float:
    return math.sqrt(total / count + _EPS)


def _largest_and_sum(a: float, s: float, b: float, t: float) -> tuple[float, float]:
    """Of two sets of numbers, with s = Σ e^(x - a) and t = Σ e^(x - b)."""
    return max(a, b), s + t * math.exp(b - a) if a >= b else s * math.exp(a - b) + t


def _log_of_sum(a: float, s: float) -> float:
    return a + math.log(s)


ROW_CASES = (
    RowCase(
        "rms", lambda x: x * x, {"after": _root_of_mean},
        lambda library: lambda x: library.sqrt((x * x).mean(-1) + _EPS),
    ),
    # Beside the smallest number nothing is added; -inf less -inf would be NaN.
    RowCase(
        "logsumexp", lambda x: (x, 1.0),
        {"merge": _largest_and_sum, "start": (-3e38, 0.0), "after": _log_of_sum},
        lambda library: lambda x: library.logsumexp(x, -1),
    ),
)  # fmt: skip


def add_own(report: Report, dtype: str, size: int, torch: Any, cupy: Any, quick: bool) -> None:
    """Report own kernels and reductions of a dtype, on arrays of so many numbers.

    Args:
        torch, cupy: the libraries, or None.
        quick: whether there are few repeats, and no torch.compile.
    """
    for case in CASES:
        label = f"own kernel {case.name} {dtype}, 2^{size.bit_length() - 1}"
        if report.wants(label):
            _kernel(report, case, label, dtype, size, torch, cupy, quick)
    for row_case in ROW_CASES:
        label = f"own reduction {row_case.name} {dtype}, {size // _COLUMNS} x {_COLUMNS}"
        if report.wants(label):
            _reduction(report, row_case, label, dtype, size, torch, quick)


def _kernel(report: Report, case: Case, label: str, dtype: str, size: int, torch: Any, cupy: Any, quick: bool) -> None:
    draws = Generator("philox", seed=7)
    arrays = [draws.normal(size=size, dtype=dtype) for _ in range(case.arrays - 1)]
    # The last one is positive: Adam takes its root.
    arrays.append(draws.uniform(0.0, 1.0, size=size, dtype=dtype))
    given = (*arrays, *case.numbers)
    kernel: Any = elementwise.kernel(case.formula)
    outs = tuple(numbacc.empty_like(arrays[0]) for _ in range(case.results))
    ours = partial(kernel, *given, out=outs if case.results > 1 else outs[0])
    makers = peers.formula(torch, cupy, case.theirs, case.text, given)
    moved = (case.arrays + case.results) * arrays[0].nbytes
    _figure(report, label, ours, makers, partial(is_right, kernel, given), moved, quick)


def _reduction(report: Report, case: RowCase, label: str, dtype: str, size: int, torch: Any, quick: bool) -> None:
    x = Generator("philox", seed=7).normal(size=size, dtype=dtype).reshape(size // _COLUMNS, _COLUMNS)
    reduction: Any = elementwise.reduction(case.function, **case.options)
    out = reduction(x, axis=1)
    wanted = reduction(wide(x[:_FEW]), axis=1)
    makers = peers.formula(torch, None, case.theirs, ("", "", ""), (x,))
    ours = partial(reduction, x, axis=1, out=out)
    _figure(report, label, ours, makers, lambda found: is_close(found[:_FEW], wanted), x.nbytes + out.nbytes, quick)


def _figure(
    report: Report,
    label: str,
    ours: Callable[[], Any],
    makers: dict[str, peers.Work],
    right: Callable[[Any], bool],
    moved: int,
    quick: bool,
) -> None:
    """A call against those of peers, and a copy of as many bytes as it moves."""
    if not right(ours()):
        report.add(name=label, right=False)
        return
    if quick:
        makers.pop("torch.compile", None)
    works, missing = peers.those_that_run(makers, right)
    works |= {"ours": ours, "copy": copy_of(moved)}
    times = gpu_ms(works, repeats=7 if quick else 15)
    own, copy = times.pop("ours"), times.pop("copy")
    ratio = own / min(times.values()) if times else None
    report.add(
        name=label, right=True, ms=own, bandwidth=copy / own, ratio=ratio, peers=times,
        **peers.told(missing),
        bound=1.0, holds=ratio is None or ratio <= 1.0 + RESOLUTION,
    )  # fmt: skip
