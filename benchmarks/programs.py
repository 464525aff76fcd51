"""The programs of notebooks/programs against the same in torch, from their first line to their last result."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import numbacc
from numbacc.base.dispatch import runtime
from numbacc.random import Generator

from . import peers, torch_programs
from .harness import Report

FOLDER = Path(__file__).parents[1] / "notebooks" / "programs"
_STEPS, _PATHS = 100, 2**18


class Case(NamedTuple):
    """A program.

    Attributes:
        name: of its file.
        iterations: what it repeats, so many times.
        ours: the call, ready to be run again.
        theirs: torch -> peer -> what makes its call.
        alike: whether two results are the same; results are arrays, one or several.
    """

    name: str
    iterations: int
    ours: Callable[[], Any]
    theirs: Callable[[Any], dict[str, Callable[[], Callable[[], Any]]]]
    alike: Callable[[Any, Any], bool]


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of programs."""
    torch = peers.import_torch()
    for name, make in {"adam_digits": _adam, "denoise": _denoise, "options": _options}.items():
        label = f"program {name}"
        if not report.wants(label):
            continue
        try:
            case = make(_program(name))
        except (ImportError, OSError) as error:
            # A wheel has no notebooks; a program may need what is not installed.
            report.add(name=label, skipped=f"{type(error).__name__}: {error}")
            continue
        _figure(report, label, case, torch, 5 if quick else 15)


def _program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _figure(report: Report, label: str, case: Case, torch: Any, repeats: int) -> None:
    start = time.perf_counter()
    found = case.ours()
    _wait()
    first = time.perf_counter() - start
    makers = {} if torch is None else case.theirs(torch)
    works, missing = peers.those_that_run(makers, partial(case.alike, found))
    times = _seconds({"ours": case.ours, **works}, repeats)
    ours = times.pop("ours")
    ratio = ours / min(times.values()) if times else None
    report.add(
        name=label, right=_finite(found), first_s=first, s=ours, us_per_iteration=1e6 * ours / case.iterations,
        iterations=case.iterations, ratio=ratio, peers=times, **peers.told(missing),
        bound=1.0, holds=ratio is None or ratio <= 1.0,
    )  # fmt: skip


def _wait() -> None:
    runtime().synchronize(0, runtime().current_device())


def _seconds(works: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median time of each work to the end of what it queued, in seconds. They take turns, each once before."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(repeats):
        for name, work in works.items():
            _wait()
            start = time.perf_counter()
            work()
            _wait()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def _arrays(found: Any) -> list[Any]:
    """Results in NumPy, where a mean is a number."""
    each = found if isinstance(found, tuple) else (found,)
    return [np.asarray(one) if isinstance(one, np.generic) else numbacc.asnumpy(one) for one in each]


def _finite(found: Any) -> bool:
    return all(bool(np.isfinite(each).all()) for each in _arrays(found))


def _alike(ours: Any, theirs: Any, most: tuple[float, ...]) -> bool:
    """True if the norms of what results differ by are at most so much of their own."""
    pairs = zip(_arrays(ours), _arrays(theirs), most, strict=True)
    return all(np.linalg.norm(a - b) <= part * np.linalg.norm(b) for a, b, part in pairs)


def _adam(program: ModuleType) -> Case:
    digits = program.load_digits()
    x, labels = numbacc.asarray((digits.data / 16).astype(np.float32)), numbacc.asarray(digits.target.astype(np.int64))
    classes = numbacc.asarray(np.arange(10))

    def ours() -> Any:
        layers, accuracy = program.train(x, labels, classes, steps=_STEPS)
        return layers[0][0], layers[2][0], accuracy

    def theirs(torch: Any) -> dict[str, Callable[[], Callable[[], Any]]]:
        def work(train: Callable[..., Any]) -> Callable[[], Any]:
            tensors = torch.from_dlpack(x), torch.from_dlpack(labels)

            def call() -> Any:
                layers, accuracy = train(torch, *tensors, _STEPS)
                return layers[0], layers[2], accuracy

            return call

        return {
            "torch, by hand": partial(work, torch_programs.train_by_hand),
            "torch, autograd and optim.Adam": partial(work, torch_programs.train_by_autograd),
        }

    # Steps of Adam amplify roundings where a gradient is near 0.
    return Case("adam_digits", _STEPS, ours, theirs, partial(_alike, most=(0.05, 0.05, 0.02)))


def _denoise(program: ModuleType) -> Case:
    wanted = program.clean_signals()
    noisy = wanted + 1.5 * Generator(seed=1).normal(size=wanted.shape, dtype="float32")

    def theirs(torch: Any) -> dict[str, Callable[[], Callable[[], Any]]]:
        return {"torch": lambda: partial(torch_programs.denoise, torch, torch.from_dlpack(noisy))}

    return Case("denoise", 1, lambda: program.denoise(noisy), theirs, partial(_alike, most=(1e-2,)))


def _options(program: ModuleType) -> Case:
    share = numbacc.asarray(np.linspace(80, 120, 16, dtype=np.float32))
    strike, one = numbacc.asarray(np.full(16, 100, np.float32)), numbacc.asarray(np.ones(16, np.float32))

    def ours() -> Any:
        exact = program.call_price(share, strike, 0.2)
        delta, _ = program.call_price.backward(one, share, strike, 0.2)
        return exact, delta, program.simulated(share, strike, 0.2, paths=_PATHS)

    def theirs(torch: Any) -> dict[str, Callable[[], Callable[[], Any]]]:
        tensors = torch.from_dlpack(share), torch.from_dlpack(strike)
        return {"torch": lambda: partial(torch_programs.options, torch, *tensors, 0.2, _PATHS)}

    # Of paths the peers draw others.
    return Case("options", 1, ours, theirs, partial(_alike, most=(1e-5, 1e-5, 1e-2)))
