"""Measure the errors of elementwise functions in units in the last place, on the GPU at hand or in NumPy.

python -m benchmarks.ulp --json benchmarks/results/2026-11-23-h200-ulp.json

What is exact comes from the tests' oracle: in float64 for float32 and 16 bits, to 50 digits for float64. Of functions
of one number all 65,536 of 16 bits are tried; of float32, bit patterns evenly over all, the neighbours of special
numbers, and everyday numbers; of functions of several numbers drawn ones, special ones among them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import starmap
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

ROOT = Path(__file__).parents[1]
_FOLDERS = [str(ROOT / name) for name in ("bindings", "tests/support", "tests/oracles")]
sys.path[:0] = [path for path in _FOLDERS if path not in sys.path]

import elementwise_oracle as oracle  # noqa: E402
from elementwise_cases import CANCELS, NAMES, VANISHES, arrays_of, options_of  # noqa: E402
from elementwise_cases import LIMITS as ALLOWED  # noqa: E402
from elementwise_cases import OPTIONS as ORACLES_OPTIONS  # noqa: E402

import numbacc  # noqa: E402
from numbacc import elementwise  # noqa: E402
from numbacc.base.dispatch import has_gpu, simulated  # noqa: E402
from numbacc.elementwise.rows import TABLE  # noqa: E402

from .harness import Report  # noqa: E402

#: What CUDA's documentation has as the largest error of its function in float32, in ulp beside the rounded exact
#: result: CUDA Programming Guide, "Mathematical Functions", float; of lgamma outside (-10.001, -2.264). Others round
#: once.
CUDAS = {
    "rsqrt": 2, "cbrt": 1, "hypot": 3, "exp": 2, "exp2": 2, "expm1": 1, "log": 1, "log2": 1, "log10": 2, "log1p": 1,
    "sin": 2, "cos": 2, "tan": 4, "asin": 2, "acos": 2, "atan": 2, "atan2": 3, "sinh": 3, "cosh": 2, "tanh": 2,
    "asinh": 3, "acosh": 4, "atanh": 3, "pow": 4, "erf": 2, "erfc": 4, "erfinv": 2, "lgamma": 6,
}  # fmt: skip
#: A formula that is made of such a function, and `exponentials.normal_gelu_single`.
CUDAS |= {"selu": 1.7581 * CUDAS["expm1"], "gelu": 5}
#: What is asked of a function in float32, where CUDA's own does not err by more.
ASKED = 2.0
#: How far special numbers' neighbours reach, in bit patterns.
_REACH = 256


def functions() -> list[str]:
    """The functions of floats that have floats as results."""
    return [name for name in NAMES if TABLE[name].row.rule != "bool"]


def bound(name: str, dtype: str, asked: float | None = None) -> float | None:
    """The largest error in ulp that is aimed at; None for float64. A rounding to the nearest counts for a half.

    In 16 bits it is a half, of the float32 result that may itself be off.

    Args:
        asked: what is asked in float32, if not `ASKED` and what CUDA's own function may err.
    """
    if dtype == "float64":
        return None
    single = max(ASKED, CUDAS.get(name, 0) + 0.5) if asked is None else asked
    if dtype == "float32":
        return single
    digits = ml_dtypes.finfo(np.float32).nmant - ml_dtypes.finfo(np.dtype(dtype)).nmant
    return 0.5 + single * 2.0**-digits


#: Where what is rounded in float32 is the argument of an exponential, a little more.
NARROW = {"quick_gelu": 0.5004}


def allowed(name: str, dtype: str) -> float | None:
    """The largest error that tests let pass: where it is above the bound, the function misses that, and is said to."""
    asked = bound(name, "float32")
    assert asked is not None
    most = bound(name, dtype, max(asked, ALLOWED.get(name, 0.0)))
    return most if most is None or dtype not in ("float16", "bfloat16") else max(most, NARROW.get(name, 0.0))


# ---------------------------------------------------------------- arguments


def _spread(dtype: np.dtype, count: int, rng: np.random.Generator) -> np.ndarray:
    """Bit patterns, one at random out of each of `count` equal parts of all; where they are fewer, all repeatedly."""
    kind, step = np.dtype(f"u{dtype.itemsize}"), 2 ** (8 * dtype.itemsize) // count
    if step == 0:
        return np.resize(oracle.all_16_bit(dtype), count)
    parts = np.arange(count, dtype=np.uint64) * np.uint64(step)
    return (parts + rng.integers(0, step, count, np.uint64)).astype(kind).view(dtype)


def _near(dtype: np.dtype, reach: int) -> np.ndarray:
    """The special numbers and their neighbours."""
    kind = np.dtype(f"i{dtype.itemsize}")
    return (oracle.SPECIALS[dtype].view(kind)[:, None] + np.arange(-reach, reach + 1, dtype=kind)).ravel().view(dtype)


def arguments(name: str, dtype: np.dtype, count: int) -> list[np.ndarray]:
    """The arrays of a call, each of about `count` numbers, or of all there are."""
    rng, arrays = np.random.default_rng(7), arrays_of(name)
    if len(arrays) == 1 or name == "threshold":
        if dtype.itemsize == 2:
            return [oracle.all_16_bit(dtype)]
        everyday = [rng.normal(0, 3, count // 8), rng.uniform(-1, 1, count // 8)]
        reach = min(_REACH, count // 8000)
        return [np.concatenate([_spread(dtype, count, rng), _near(dtype, reach), *(x.astype(dtype) for x in everyday)])]
    found = []
    for _ in arrays:
        every, everyday = rng.permutation(_spread(dtype, count // 2, rng)), rng.normal(0, 4, count // 4).astype(dtype)
        drawn = np.concatenate([every, everyday, rng.choice(oracle.SPECIALS[dtype], count // 4)])
        with np.errstate(all="ignore"):
            # C's functions of two numbers tell signalling NaN from others.
            drawn[np.isnan(drawn)] = np.nan
        found.append(drawn)
    if name == "where":
        found[0] = rng.random(found[0].size) < 0.5
    if name == "ldexp":
        found[1] = rng.integers(-300, 300, found[0].size).astype(np.int32)
    return found


def _numbers(name: str, dtype: np.dtype) -> tuple[tuple[float, ...], dict[str, float]]:
    """What stands behind the arrays of a call, and what the oracle takes it as."""
    if name == "threshold":
        return (0.25, -2.0), {"threshold": 0.25, "value": -2.0}
    if dtype == np.float64:
        return (), {ORACLES_OPTIONS.get(key, key): value for key, value in TABLE[name].options.items()}
    return (), options_of(name)


# ---------------------------------------------------------------- errors


def errors(name: str, dtype: np.dtype, xs: list[np.ndarray], found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """How far off each result is; where terms cancel, in units at the largest of 1, the arguments and the result."""
    limits, single = ml_dtypes.finfo(dtype), ml_dtypes.finfo(np.float32)
    with np.errstate(all="ignore"):
        off = oracle.ulps(found, wanted, dtype)
        rough = wanted.astype(np.float64)
        absolute = np.abs(found.astype(np.float64) - rough)
        if name in CANCELS:
            size = np.maximum.reduce([np.ones(found.shape), *(np.abs(x.astype(np.float64)) for x in [*xs, rough])])
            off = np.minimum(off, np.where(np.isnan(absolute), np.inf, absolute / (float(limits.eps) * size)))
            # What overflows between, may.
            off = np.where((size < float(limits.max) / 4) & np.isfinite(rough), off, 0.0)
        if name in VANISHES:
            # Of float64 there are as many smaller numbers.
            scale = float(limits.smallest_normal) / float(single.smallest_normal) if dtype == np.float64 else 1.0
            off = np.where(absolute < VANISHES[name] * scale, 0.0, off)
    return off


def measure(name: str, dtype: np.dtype, count: int, on_device: bool) -> dict[str, Any]:
    """A figure: the largest error of a function in a dtype, and where it is."""
    xs = arguments(name, dtype, count)
    numbers, options = _numbers(name, dtype)
    with np.errstate(all="ignore"):
        given = [numbacc.asarray(x) for x in xs] if on_device else xs
        found = numbacc.asnumpy(getattr(elementwise, name)(*given, *numbers))
        exact = oracle.exact_array if dtype == np.float64 else oracle.vector
        wanted = exact(name, *xs, **options)
    off = errors(name, dtype, xs, found, wanted)
    worst = int(np.argmax(off))
    return {
        "name": f"{name} {dtype.name}", "ulp": float(off[worst]), "at": [str(x[worst]) for x in xs],
        "found": str(found[worst]), "exact": str(wanted[worst]), "count": off.size,
    }  # fmt: skip


def _task(task: tuple[str, np.dtype, int, bool]) -> dict[str, Any]:
    return measure(*task)


def run(report: Report, count: int, exactly: int, on_device: bool, processes: int) -> None:
    """All figures that the report wants."""
    every = [(name, dtype) for name in functions() for dtype in oracle.DTYPES if report.wants(f"{name} {dtype.name}")]
    tasks = [(name, dtype, exactly if dtype == np.float64 else count, on_device) for name, dtype in every]
    with ExitStack() as stack:
        figures: Iterable[dict[str, Any]] = starmap(measure, tasks)
        if processes > 1:
            # A process that uses a GPU cannot be forked.
            figures = stack.enter_context(multiprocessing.get_context("spawn").Pool(processes)).imap(_task, tasks)
        for (name, dtype), figure in zip(every, figures, strict=True):
            most = bound(name, dtype.name)
            # NumPy's functions are not ours.
            aim = {} if most is None or not on_device else {"bound": most, "holds": figure["ulp"] <= most}
            report.add(**figure, **aim)


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="write every figure to this file")
    parser.add_argument(
        "--only", metavar="TEXT", nargs="+", help="only figures with one of these in their names, such as 'exp float32'"
    )
    parser.add_argument("--count", type=int, default=2**22, help="numbers that a function is tried with")
    parser.add_argument("--exactly", type=int, default=4000, help="numbers of float64, which take 50 digits")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="how many share the work")
    parser.add_argument("--numpy", action="store_true", help="the functions of NumPy arrays, which need no GPU")
    options = parser.parse_args(argv)
    on_device = not options.numpy
    if on_device and not has_gpu():
        parser.error("there is no GPU; --numpy measures the functions of NumPy arrays")
    report = Report(only=options.only, on_gpu=on_device and not simulated())
    try:
        run(report, options.count, options.exactly, on_device, options.processes)
    finally:  # what was measured, also where it was interrupted
        print(report.summary())
        if options.json:
            report.write(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
