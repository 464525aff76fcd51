"""Time work, check results and report figures.

Times are medians of many repeats, measured with events on the GPU. Results are checked by NumPy in float64.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import numbacc
from numbacc.runtime import device as runtime
from numbacc.runtime.timing import copy_of, gpu_ms
from numbacc_bindings.driver import driver

__all__ = [
    "RESOLUTION", "Report", "add_bandwidth", "add_host_times", "copy_of", "gpu_ms", "host_times", "is_close",
    "is_right", "wide",
]  # fmt: skip

#: Two medians of the same work in one run differ by up to so much: see the figure of that name.
RESOLUTION = 0.005


def host_times(works: Mapping[str, Callable[[], Any]], *, batches: int = 51, calls: int = 100) -> dict[str, float]:
    """Median host time of one call of each work in microseconds: batches of calls, the GPU idle before each batch.

    The works take turns, batch by batch, so that what else slows the machine slows all of them.
    """
    device = runtime.current_device()
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        for _ in range(2 * calls):
            work()
    for _ in range(batches):
        for name, work in works.items():
            runtime.synchronize(0, device)
            start = time.perf_counter()
            for _ in range(calls):
                work()
            times[name].append((time.perf_counter() - start) / calls * 1e6)
    runtime.synchronize(0, device)
    return {name: statistics.median(found) for name, found in times.items()}


def add_host_times(
    report: Report,
    ours: Mapping[str, tuple[float | None, Callable[[], Any]]],
    theirs: Mapping[str, Callable[[], Any]],
    what: str,
) -> None:
    """Report the host time of one call of each of ours, over the fastest of theirs, all taking turns.

    Args:
        ours: name -> (what the ratio is to be at most, or None; the call).
        theirs: the peers' calls.
        what: what is behind the name.
    """
    times = host_times({**theirs, **{name: call for name, (_, call) in ours.items()}})
    peer_times = {name: times[name] for name in theirs}
    for name, (bound, _) in ours.items():
        ratio = times[name] / min(peer_times.values())
        aim = {} if bound is None else {"bound": bound, "holds": ratio <= bound}
        report.add(name=f"host time, {name}, {what}", us=times[name], ratio=ratio, peers=peer_times, **aim)


def add_bandwidth(
    report: Report, name: str, works: Mapping[str, Callable[[], Any]], bound: float | None, repeats: int, **more: Any
) -> None:
    """Report the time of ours: part of a copy's speed, at least `bound` of it, and over the fastest peer's.

    Args:
        works: "ours", "copy" of the same bytes, and peers.
        name, bound, repeats: as in `Report.add` and `gpu_ms`; no bound where none is promised.
        more: what else the figure says: right=True where results were checked.
    """
    times = gpu_ms(works, repeats=repeats)
    ours, copy = times.pop("ours"), times.pop("copy")
    aim = {} if bound is None else {"bound": bound, "holds": copy / ours >= bound}
    report.add(
        name=name, **more, ms=ours, bandwidth=copy / ours, **aim,
        ratio=ours / min(times.values()) if times else None, peers=times,
    )  # fmt: skip


#: Distributions that a figure may depend on.
OURS = ("numbacc", "numba", "numba-cuda", "numpy")
PEERS = ("torch", "triton", "liger-kernel", "quack-kernels", "nvmath-python", "cupy-cuda12x", "cupy-cuda13x", "cupy")


def versions() -> dict[str, str]:
    """Versions of everything that a figure may depend on."""
    found = {}
    for name in (*OURS, *PEERS):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def commit() -> str | None:
    """The commit of the checkout that is measured: $NUMBACC_COMMIT, or what git says; "+" where files were changed.

    None where there is no checkout.
    """
    named = os.environ.get("NUMBACC_COMMIT")
    if named:
        return named
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + "+" * bool(changed)


def _gpu() -> dict[str, Any]:
    """What the GPU at hand is."""
    device = runtime.current_device()
    return {
        "gpu": runtime.device_name(device),
        "compute_capability": "{}.{}".format(*runtime.capability(device)),
        "driver_cuda": runtime.call(driver.cuDriverGetVersion),
    }


class Report:
    """Figures as they come in, each with the bound that it was promised to keep.

    Args:
        quiet: whether nothing is printed.
        only: texts of which the names of all figures have one; None for all figures.
        on_gpu: whether the GPU is what is measured.
    """

    def __init__(self, *, quiet: bool = False, only: Sequence[str] | None = None, on_gpu: bool = True) -> None:
        self._quiet, self._only = quiet, only
        self.environment: dict[str, Any] = {
            **(_gpu() if on_gpu else {"gpu": None}),
            "versions": versions(),
            "date": time.strftime("%Y-%m-%d"),
            "commit": commit(),
        }
        self.figures: list[dict[str, Any]] = []

    def add(self, **figure: Any) -> None:
        """A figure: `name`, what was measured, and where one was promised `ratio`, `bound` and `holds`."""
        self.figures.append(figure)
        if not self._quiet:
            print(_line(figure), flush=True)

    def wants(self, *names: str) -> bool:
        """True if one of the figures of these names is to be measured."""
        return self._only is None or any(text in name for text in self._only for name in names)

    @property
    def all_right(self) -> bool:
        """True if every result that was checked is right."""
        return all(figure.get("right", True) for figure in self.figures)

    def summary(self) -> str:
        promised = [figure for figure in self.figures if "holds" in figure]
        broken = [figure for figure in promised if not figure["holds"]]
        lines = [f"{len(promised) - len(broken)} of {len(promised)} bounds hold"]
        return "\n".join([*lines, *("  not: " + _line(figure) for figure in broken)])

    def write(self, path: str) -> None:
        Path(path).write_text(as_json(self.environment, self.figures))


def as_json(environment: Mapping[str, Any], figures: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a results file: the machine and the versions, then one figure on each line."""
    head = json.dumps(dict(environment), indent=1).removesuffix("\n}")
    lines = ",\n".join(f"  {json.dumps(figure)}" for figure in figures)
    return f'{head},\n "figures": [\n{lines}\n ]\n}}\n'


def _line(figure: dict[str, Any]) -> str:
    parts = []
    for key, value in figure.items():
        if key == "name":
            parts.append(f"{value:58s}")
        elif key == "missing":
            parts += [f"no {peer} ({why})" for peer, why in value.items()]
        elif key == "peers":
            parts += [f"{peer} {number:.4g}" for peer, number in value.items()]
        elif key == "holds":
            parts.append("ok" if value else "MISSED")
        elif isinstance(value, float):
            parts.append(f"{key} {value:.4g}")
        elif key not in ("right", "direction", "kind", "dtype", "layout"):
            parts.append(f"{key} {value}")
    return "  ".join(parts)


# ---------------------------------------------------------------- right or wrong

#: So many results are looked at.
_FEW = 1 << 16


def is_right(function: Callable[..., Any], given: tuple[Any, ...], out: Any) -> bool:
    """Return True if the first results of an elementwise function agree with NumPy in float64.

    Args:
        given: arrays and numbers that it was called with.
        out: its result, or a tuple of results; device arrays, of numbacc or another library.
    """
    host = [x if isinstance(x, float) else numbacc.asnumpy(x[:_FEW]).astype(np.float64) for x in given]
    wanted = function(*host)
    if not isinstance(out, (tuple, list)):
        return _close(numbacc.asnumpy(out[:_FEW]), wanted)
    return all(_close(numbacc.asnumpy(o[:_FEW]), w) for o, w in zip(out, wanted, strict=True))


def _close(found: Any, wanted: Any) -> bool:
    if found.dtype == np.bool_:
        return bool((found == wanted).all())
    eps = {2: 2.0**-7, 4: 2.0**-23}[found.dtype.itemsize]
    with np.errstate(all="ignore"):
        # Where NumPy's float64 is beyond a narrower dtype, that has infinity.
        narrow = wanted.astype(found.dtype).astype(np.float64)
    return bool(np.isclose(found.astype(np.float64), narrow, rtol=64 * eps, atol=64 * eps, equal_nan=True).all())


def wide(array: Any) -> Any:
    """An array of any library in NumPy, in float64."""
    return numbacc.asnumpy(array).astype(np.float64)


def is_close(found: Any, wanted: Any, size: float = 1.0) -> bool:
    """Return True if results agree with NumPy in float64.

    Args:
        size: the magnitude of the sums, which scales the absolute tolerance.
    """
    eps = {2: 2.0**-7, 4: 2.0**-20}.get(found.dtype.itemsize, 2.0**-20)
    return bool(np.isclose(wide(found), wanted, rtol=eps, atol=eps * size).all())
