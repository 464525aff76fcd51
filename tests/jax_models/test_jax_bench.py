"""The benchmark of JAX programs runs on small arrays, wherever there is JAX. Without a GPU its times mean nothing."""

import itertools

import pytest
from skips import needed, skip

jax = needed("jax", "jax")

from benchmarks import harness  # noqa: E402
from benchmarks import jax as bench  # noqa: E402
from numbacc.base.dispatch import has_gpu  # noqa: E402


@pytest.fixture
def report(monkeypatch):
    if has_gpu():
        skip("no gpu")
    # Made-up times, which grow.
    times = itertools.count(1)
    for name, value in {"_DEVICE": "cpu", "_SHRINK": 256, "_CHAIN": 2}.items():
        monkeypatch.setattr(bench, name, value)
    monkeypatch.setattr(bench, "_us", lambda work, _: (work(), float(next(times)))[1])
    # XLA compiles twice as fast where it leaves most optimizations out.
    jax.config.update("jax_disable_most_optimizations", True)
    yield harness.Report(quiet=True, on_gpu=False)
    jax.config.update("jax_disable_most_optimizations", False)


def test_all_figures_are_right(report):
    bench.run(report, quick=True)
    names = [figure["name"] for figure in report.figures]
    assert len(names) == len(set(names)) == 6 + 6 * 2
    assert report.all_right, [figure for figure in report.figures if not figure["right"]]


def test_a_wrong_result_is_not_timed(report, monkeypatch):
    import numbacc.jax as nj

    right = nj.softmax
    monkeypatch.setattr(nj, "softmax", lambda x: 1.1 * right(x))
    report._only = ["softmax"]
    bench.run(report, quick=True)
    assert len(report.figures) == 3
    assert not any(figure["right"] or "ms" in figure or "us" in figure for figure in report.figures)
