"""The benchmark of torch models runs on small tensors, wherever there is torch. Without a GPU nothing is timed."""

import numpy as np
import pytest
from skips import needed, skip

torch = needed("torch", "torch")

from benchmarks import harness, llama, peers, small  # noqa: E402
from benchmarks import torch as bench  # noqa: E402
from numbacc.base.dispatch import has_gpu  # noqa: E402


def once(works, **_):
    """Replace the timers: run everything once, and return made-up times."""
    for work in works.values():
        work()
    return {name: 1.0 if name == "ours" else 0.5 for name in works}


@pytest.fixture
def report(monkeypatch):
    if has_gpu():
        skip("no gpu")
    for name, value in {"gpu_ms": once, "host_times": once, "_DEVICE": "cpu", "_BATCH": 2, "_LENGTH": 8}.items():
        monkeypatch.setattr(bench, name, value)
    monkeypatch.setattr(peers, "import_torch", lambda: torch)
    small = llama.Config(64, 96, 4, 2, 16)
    monkeypatch.setattr(llama, "Config", lambda: small)
    return harness.Report(quiet=True, on_gpu=False)


def test_all_figures_are_right(report):
    bench.run(report, quick=True)
    names = [figure["name"] for figure in report.figures]
    assert len(names) == len(set(names)) == 12 * 3 + 4 * 2
    assert report.all_right, [figure for figure in report.figures if not figure.get("right", True)]
    assert all(figure["ratio"] == 2.0 and not figure["holds"] for figure in report.figures)


def test_a_wrong_result_is_not_timed(report, monkeypatch):
    code = bench.page_code()
    wrong = code["use_numbacc"]

    def use_wrong(module):
        wrong(module)
        module.LlamaMLP.forward = lambda self, x: 1.1 * code["mlp"](self, x)

    monkeypatch.setattr(bench, "page_code", lambda: {"use_numbacc": use_wrong})
    report._only = ["llama 8B mlp, forward and"]
    bench.run(report, quick=True)
    (figure,) = report.figures
    assert not figure["right"] and "ms" not in figure
    # The methods that were replaced are in their places again.
    assert llama.LlamaMLP.forward.__module__ == "benchmarks.llama"


def test_small_kernels(report, monkeypatch):
    monkeypatch.setattr(small, "_DEVICE", "cpu")
    monkeypatch.setattr(small, "_MAPS", (("float32", (5, 9)),))
    monkeypatch.setattr(small, "_SCANS", (7,))
    monkeypatch.setattr(small, "_times", lambda torch, works, repeats: dict.fromkeys(works, 1.0))
    small.run(report)
    assert report.all_right and [figure["ratio"] for figure in report.figures] == [1.0] * 7
    monkeypatch.setattr(small.elementwise, "exp", lambda x, out=None: np.exp(x) if out is None else out.fill_(2.0))
    report._only = ["exp float32, 9"]
    report.figures.clear()
    small.run(report)
    assert [figure["right"] for figure in report.figures] == [False] and "us" not in report.figures[0]
