"""Elementwise functions against a copy of the same bytes, and against torch and CuPy on the same arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import numbacc
from numbacc import elementwise
from numbacc.elementwise.gradients import DIFFERENTIABLE
from numbacc.elementwise.rows import TABLE
from numbacc.random import Generator

from . import custom_kernels, peers
from .harness import Report, add_bandwidth, add_host_times, copy_of, is_right

_SIZE, _QUICK_SIZE, _SIDE = 2**28, 2**26, 8192
_NARROW = ("float32", "float16", "bfloat16")
#: Part of copy bandwidth that is promised.
_BOUND, _BROADCAST_BOUND, _TRANSPOSED_BOUND = 0.95, 0.90, 0.85
#: What torch calls functions, and where: where the names differ.
_TORCHS = {
    "gelu_tanh": lambda torch: lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "quick_gelu": lambda torch: None,
    "cbrt": lambda torch: None,
    "squared_relu": lambda torch: None,
    "log_sigmoid": lambda torch: torch.nn.functional.logsigmoid,
    "floor_divide": lambda torch: torch.floor_divide,
    "threshold": lambda torch: lambda x: torch.nn.functional.threshold(x, 0.25, -2.0),
}
#: Functions of numbers between -1 and 1, and of numbers above 1.
_INSIDE, _ABOVE = ("asin", "acos", "atanh", "erfinv"), ("acosh", "lgamma", "digamma", "log", "log2", "log10", "rsqrt")


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of elementwise functions."""
    torch, cupy = peers.import_torch(), peers.import_cupy()
    size = _QUICK_SIZE if quick else _SIZE
    for dtype in _NARROW:
        names = [f"{name}{of}" for of in ("", "_backward") for name in TABLE if _is_timed(name, of)]
        labels = {name: f"{name} {dtype}, 2^{size.bit_length() - 1}" for name in names}
        if report.wants(*labels.values()):
            arrays = _arrays(dtype, size)
            for name, label in labels.items():
                if report.wants(label):
                    _contiguous(report, name, label, arrays, torch, cupy, quick)
    for dtype in _NARROW:
        _broadcast(report, dtype, torch, quick)
    for dtype in ("float32", "bfloat16"):
        custom_kernels.add_own(report, dtype, size // 2, torch, cupy, quick)
    if report.wants("host time"):
        _host(report, torch)


def _is_timed(name: str, of: str) -> bool:
    entry = TABLE[name]
    if of:
        return name in DIFFERENTIABLE and len(entry.row.names) - len(entry.options) == 1
    return "f" in entry.row.meanings and name not in ("ldexp", "where", "real", "imag", "angle", "conj")


def _arrays(dtype: str, size: int) -> dict[str, Any]:
    """Arguments: of any sign, within (-1, 1), above 1; and memory for results."""
    draws = Generator("philox", seed=7)
    inside = draws.uniform(-1.0, 1.0, size=size, dtype=dtype)
    return {
        "any": draws.normal(size=size, dtype=dtype),
        "other": draws.normal(size=size, dtype=dtype),
        "inside": inside,
        "above": draws.uniform(1.0, 9.0, size=size, dtype=dtype),
    }


def _given(name: str, arrays: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a function: arrays, and the numbers of those that have more than two."""
    if name.endswith("_backward"):
        return (arrays["other"], *_given(name.removesuffix("_backward"), arrays))
    entry = TABLE[name]
    names = [each for each in entry.row.names if each not in entry.options]
    first = arrays["inside" if name in _INSIDE else "above" if name in _ABOVE else "any"]
    if name == "threshold":
        return (first, 0.25, -2.0)
    if name == "pow":
        return (arrays["above"], arrays["other"])
    if name in ("clamp", "lerp", "fma"):
        return (first, -0.5, 0.5) if name == "clamp" else (first, arrays["other"], 0.25)
    return (first, *[arrays["other"]] * (len(names) - 1))


def _contiguous(
    report: Report, name: str, label: str, arrays: dict[str, Any], torch: Any, cupy: Any, quick: bool
) -> None:
    given = _given(name, arrays)
    dtype, function = str(given[0].dtype), getattr(elementwise, name)
    out = function(*given)
    if not is_right(function, given, out):
        report.add(name=label, right=False)
        return
    # An array that is given twice is read once.
    moved = out.nbytes + sum({id(x): x.nbytes for x in given if not isinstance(x, float)}.values())
    works = {"ours": lambda: function(*given, out=out), "copy": copy_of(moved)}
    theirs = _torchs(torch, name, given)
    if theirs is not None:
        works["torch"] = theirs
    missing: dict[str, str] = {}
    if cupy is not None and hasattr(cupy, name) and dtype != "bfloat16":
        found, missing = peers.those_that_run({"CuPy": lambda: _cupys(cupy, name, given, out)}, lambda _: True)
        works |= found
    add_bandwidth(report, label, works, _BOUND, 7 if quick else 15, right=True, **peers.told(missing))


def _cupys(cupy: Any, name: str, given: tuple[Any, ...], out: Any) -> Callable[[], Any]:
    """CuPy's function of the same arguments."""
    taken = [x if isinstance(x, float) else cupy.from_dlpack(x) for x in given]
    result = cupy.from_dlpack(out) if out.dtype != np.bool_ else cupy.empty(out.shape, bool)
    return lambda: getattr(cupy, name)(*taken, out=result)


def _torchs(torch: Any, name: str, given: tuple[Any, ...]) -> Callable[[], Any] | None:
    """torch's function of the same arguments, None where it has none."""
    if torch is None:
        return None
    found = _TORCHS[name](torch) if name in _TORCHS else None
    if name not in _TORCHS:
        found = getattr(torch, name, None) or getattr(torch.nn.functional, name, None)
    if found is None:
        return None
    tensors = [x if isinstance(x, float) else torch.from_dlpack(x) for x in given]
    try:
        with torch.no_grad():
            found(*tensors)
    except (TypeError, RuntimeError):
        return None

    def work() -> Any:
        with torch.no_grad():
            return found(*tensors)

    return work


def _broadcast(report: Report, dtype: str, torch: Any, quick: bool) -> None:
    """A matrix and a row, a matrix and a column, and a copy of a transposed matrix."""
    n = _SIDE
    names = {kind: f"{kind} {dtype}, {n} x {n}" for kind in ("add a row", "add a column", "copy of a transposed")}
    if not report.wants(*names.values()):
        return
    draws = Generator("philox", seed=7)
    x, row = draws.normal(size=(n, n), dtype=dtype), draws.normal(size=n, dtype=dtype)
    column, out, turned = row.reshape(n, 1), numbacc.empty_like(x), x.T
    moved = 2 * x.nbytes
    cases: dict[str, tuple[Callable[[], Any], float]] = {
        "add a row": (lambda: elementwise.add(x, row, out=out), _BROADCAST_BOUND),
        "add a column": (lambda: elementwise.add(x, column, out=out), _BROADCAST_BOUND),
        "copy of a transposed": (lambda: elementwise.copy(turned, out=out), _TRANSPOSED_BOUND),
    }
    peer: dict[str, Callable[[], Any]] = {}
    if torch is not None:
        tx, trow, tcolumn, tout = (torch.from_dlpack(each) for each in (x, row, column, out))
        peer = {
            "add a row": lambda: torch.add(tx, trow, out=tout),
            "add a column": lambda: torch.add(tx, tcolumn, out=tout),
            "copy of a transposed": lambda: tout.copy_(tx.T),
        }
    for kind, (work, bound) in cases.items():
        works = {"ours": work, "copy": copy_of(moved)} | ({"torch": peer[kind]} if peer else {})
        add_bandwidth(report, names[kind], works, bound, 10 if quick else 30)


def _host(report: Report, torch: Any) -> None:
    """The time of a call on small arrays, of which Python is all."""
    if torch is None:
        report.add(name="host time of elementwise functions", skipped="needs torch")
        return
    draws = Generator("philox", seed=7)
    x, y = (draws.normal(size=(64, 64), dtype="float32") for _ in range(2))
    out = numbacc.empty_like(x)
    tx, ty, tout = (torch.from_dlpack(each) for each in (x, y, out))
    for name, ours, theirs in (
        ("exp(x, out=)", lambda: elementwise.exp(x, out=out), lambda: torch.exp(tx, out=tout)),
        ("add(x, y, out=)", lambda: elementwise.add(x, y, out=out), lambda: torch.add(tx, ty, out=tout)),
        ("multiply(x, 2.0, out=)", lambda: elementwise.multiply(x, 2.0, out=out), lambda: torch.mul(tx, 2.0, out=tout)),
    ):
        add_host_times(report, {name: (0.8, ours)}, {"torch": theirs}, "64 x 64 float32")
    # The arrays are torch's own.
    for name, ours, theirs in (
        ("add(t, u, out=)", lambda: elementwise.add(tx, ty, out=tout), lambda: torch.add(tx, ty, out=tout)),
        ("add(t, u)", lambda: elementwise.add(tx, ty), lambda: torch.add(tx, ty)),
    ):
        add_host_times(report, {name: (1.2, ours)}, {"torch": theirs}, "64 x 64 float32 tensors")
    add_host_times(report, {"x + y": (None, lambda: x + y)}, {"torch": lambda: tx + ty}, "64 x 64 float32")
    add_host_times(report, {"x * 2": (None, lambda: x * 2)}, {"torch": lambda: tx * 2}, "64 x 64 float32")
