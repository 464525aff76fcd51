"""Benchmarks report nothing of a wrong result: what their checks see, on arrays of the CPU. How results are kept."""

from __future__ import annotations

import json
import re

import numpy as np
import oracle
import pytest
from conftest import doubled
from skips import needed

from benchmarks import gated as bench
from benchmarks import keep, peers, training
from benchmarks.harness import as_json
from numbacc import gated

#: The exact result by NumPy, and by torch.
LIBRARIES = ("numpy", "torch")


@pytest.fixture(params=LIBRARIES)
def library(request):
    return None if request.param == "numpy" else needed("torch", "torch")


def arguments(case, dtype):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(case.shape[::-1] if case.transposed else case.shape)
    dy = rng.standard_normal(bench._half(case))
    return (x.T if case.transposed else x).astype(dtype), dy.astype(dtype)


def small(shape, axis, transposed=False):
    return bench.Case("small", shape, axis, 1.0, (), False, transposed)


def run(case, kind, direction, x, dy):
    if direction == "forward":
        return gated.forward(x, kind, axis=case.axis)
    return gated.backward(dy, x, kind, axis=case.axis)


CASES = [small((60, 34), -1), small((34, 5, 4), 0), small((7, 12, 4), 1), small((40, 20), -1, True)]


@pytest.mark.sampled(4)
@pytest.mark.each_alone(in_pairs=True)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.shape} {case.axis}")
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("kind", oracle.KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_every_element_is_checked(library, case, direction, kind, dtype):
    """Wherever a single one is wrong, by little or not a number, also where the part's end is no round one."""
    x, dy = arguments(case, dtype)
    check = bench._Check(case, kind, direction, x, dy, library)
    check._step = 7
    y = run(case, kind, direction, x, dy)
    error, right = check(y)
    assert right and error < 2 * bench._eps(dtype)
    rng = np.random.default_rng(0)
    for value in (np.nan, np.inf, 9.0):
        for index in (0, -1, *rng.integers(0, y.size, 3)):
            wrong = y.copy()
            wrong.flat[index] = value
            assert not check(wrong)[1]
    wrong = y.copy()
    largest = np.abs(y.astype(np.float64)).argmax()
    wrong.flat[largest] *= 1 + (4 if dtype == "float16" else 200) * bench._eps(dtype)  # of a number above 1
    assert not check(wrong)[1]
    assert not check(np.zeros_like(y))[1]


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("kind", oracle.KINDS)
def test_torchs_exact_results_are_the_oracles(direction, kind):
    torch = needed("torch", "torch")
    case = small((6, 8), -1)
    x, dy = arguments(case, "float32")
    found = peers.exact_gated(torch, direction, kind, -1, *map(torch.from_dlpack, (dy, x))).numpy()
    a, b = np.split(x, 2, -1)
    wanted = oracle.forward(a, b, kind) if direction == "forward" else oracle.backward(dy, a, b, kind)
    wanted = wanted if direction == "forward" else np.concatenate(wanted, -1)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)


def test_cases_are_split_in_two():
    for case in bench.CASES:
        assert doubled(bench._half(case), case.axis) == case.shape


# ---------------------------------------------------------------- results

STORED = sorted(keep.RESULTS.glob("*.json"))


def test_there_is_one_file_for_each_subject_and_gpu():
    names = [re.fullmatch(r"\d{4}-\d\d-\d\d[a-z]?-((?:cpu|h\d+)-[a-z-]+)", path.stem)[1] for path in STORED]
    assert len(set(names)) == len(names) >= 14
    assert all(keep.stored(name.partition("-")[2], name.partition("-")[0]) in STORED for name in names)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_results_name_each_figure_once_and_its_run(path):
    results = json.loads(path.read_text())
    figures, runs = results.pop("figures"), results.get("earlier_runs", [])
    assert len({figure["name"] for figure in figures}) == len(figures)
    used = {figure["earlier_run"] for figure in figures if "earlier_run" in figure}
    assert used == set(range(len(runs))) and path.stem.startswith(results["date"])
    assert all(run["date"] <= results["date"] for run in runs)
    assert path.read_text() == as_json(results, figures)


def test_new_results_replace_figures_of_the_same_name(tmp_path):
    def results(date, **figures):
        told = [{"name": name, "ms": ms} for name, ms in figures.items()]
        return {"gpu": "NVIDIA H200", "date": date, "commit": date[-2:], "figures": told}

    def found(path):
        read = json.loads(path.read_text())
        return {f["name"]: (f["ms"], {**read, **read["earlier_runs"][f["earlier_run"]]}["commit"])
                if "earlier_run" in f else (f["ms"], read["commit"]) for f in read["figures"]}  # fmt: skip

    path = keep.keep(results("2026-01-01", a=1, b=2, c=3), "rows", tmp_path)
    assert path.name == "2026-01-01-h200-rows.json"
    path = keep.keep(results("2026-01-02", b=4), "rows", tmp_path)
    assert found(path) == {"a": (1, "01"), "c": (3, "01"), "b": (4, "02")}
    path = keep.keep(results("2026-01-02", a=5), "rows", tmp_path)
    assert path.name == "2026-01-02b-h200-rows.json"
    keep.keep(results("2026-01-02", a=5), "row-gradients", tmp_path)
    path = keep.keep(results("2026-01-03", d=6), "rows", tmp_path)
    assert found(path) == {"c": (3, "01"), "b": (4, "02"), "a": (5, "02"), "d": (6, "03")}
    path = keep.keep(results("2026-01-04", c=7), "rows", tmp_path)
    assert len(json.loads(path.read_text())["earlier_runs"]) == 3  # runs without a figure are dropped
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "2026-01-02-h200-row-gradients.json", "2026-01-04-h200-rows.json",
    ]  # fmt: skip


def test_training_steps_by_hand_and_by_modules_agree():
    """Both have the same losses and the same parameters after each step, up to the tables' rounding to float32."""
    config = training.Config(2, 32, 4, 2, 50, 16, 4, 64, 1e-3)
    steps = [kind(config, "float64") for kind in (training.ByHand, training.ByModules)]
    for batch in training._batches(config)[:3]:
        given = np.ascontiguousarray(batch[:, :-1]), np.ascontiguousarray(batch[:, 1:])
        one, other = (float(each.step(*given)) for each in steps)
        assert one == pytest.approx(other, rel=1e-9)
        values = [each.optimizer.buffers.values for each in steps]
        np.testing.assert_allclose(*values, rtol=0, atol=1e-6)
