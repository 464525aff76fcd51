"""The benches of elementwise functions, rows, gates, programs and new processes run on small arrays, wherever tests do.

Without a GPU nothing is timed: each work runs once.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
from types import SimpleNamespace

import numpy as np
import ptx
import pytest
from scipy import special
from skips import needed, skip

from benchmarks import __main__ as command
from benchmarks import (
    blocks,
    custom_kernels,
    flat_softmax,
    gemm_epilogues,
    harness,
    peers,
    programs,
    row_gradients,
    rows,
    startup,
    torch_programs,
)
from benchmarks import conv as conv_bench
from benchmarks import elementwise as elementwise_bench
from benchmarks import gated as gated_bench
from numbacc import elementwise
from numbacc.base.dispatch import has_gpu, simulated
from numbacc.base.dtypes import TABLE

#: Sizes of blocks of which all elements are looked at.
_SMALL_BLOCKS = {"_SIZE": 64, "_LARGE": 64, "_COLUMNS": 8, "_CLASSES": (4, 16), "_TABLE": (5, 8), "_TOKENS": 6}
_SMALL_BLOCKS["_QUERIES"] = (1, 5, 2, 8)


def timed_once(works, **_):
    """In place of `gpu_ms`: peers take half the time."""
    for work in works.values():
        work()
    return {name: 1.0 if name in ("ours", "copy") else 0.5 for name in works}


@pytest.fixture
def report(place, monkeypatch):
    """A report of what is measured on arrays of this place, with little to measure."""
    if place.name == "numpy" and has_gpu() and not simulated():
        skip("no gpu")  # numbers are drawn on the GPU
    if place.name != "gpu":
        for module in (harness, custom_kernels, gated_bench, gemm_epilogues):
            monkeypatch.setattr(module, "gpu_ms", timed_once)
        for module in (custom_kernels, gated_bench, elementwise_bench, rows, row_gradients, blocks):
            monkeypatch.setattr(module, "copy_of", lambda nbytes: lambda: None)
        monkeypatch.setattr(programs, "_wait", lambda: None)
    side = 4 if place.is_slow else 64
    for name, value in (("_SIZE", side**2), ("_QUICK_SIZE", side**2), ("_SIDE", side)):
        monkeypatch.setattr(elementwise_bench, name, value)
    monkeypatch.setattr(custom_kernels, "_COLUMNS", side)
    monkeypatch.setattr(rows, "_SIZE", side**2)
    monkeypatch.setattr(rows, "_COLUMNS", (side,))
    monkeypatch.setattr(rows, "_SUM_COLUMNS", (side,))
    monkeypatch.setattr(rows, "_CLASSES", (side,))
    monkeypatch.setattr(rows, "_LONG", (side**2,))
    monkeypatch.setattr(rows, "_UNALIGNED", (side, side + 1))
    monkeypatch.setattr(row_gradients, "_SIZE", side**2)
    monkeypatch.setattr(row_gradients, "_COLUMNS", (side,))
    monkeypatch.setattr(row_gradients, "_SUM_COLUMNS", (side,))
    monkeypatch.setattr(row_gradients, "_CLASSES", (side,))
    for name, value in _SMALL_BLOCKS.items():
        monkeypatch.setattr(blocks, name, value)
    return harness.Report(quiet=True, on_gpu=place.name == "gpu")


def all_right(report):
    assert report.figures
    wrong = [figure for figure in report.figures if not figure.get("right", True)]
    assert not wrong
    return {figure["name"]: figure for figure in report.figures}


def test_layers_of_convolutions():
    """ResNet-50's are distinct; where it is to be quick there are few, but some of each group."""
    every, few = list(conv_bench.layers()), list(conv_bench.layers(quick=True))
    resnet = [layer for layer in every if layer.name.startswith("resnet50") and not layer.is_first]
    assert len({(layer.x, layer.w, str(layer.options)) for layer in resnet}) == len(resnet) == 23
    assert len({(layer.name, layer.compute or layer.dtype) for layer in every}) == len(every)
    assert [layer for layer in every if layer in few] == few and len(few) < len(every) / 2
    for only in ("1x1", "depthwise", "u-net", "wavenet", "tf32", "256 3x3"):
        assert any(only in f"{layer.name} {layer.compute or layer.dtype}" for layer in few)
    for width, side in ((128, 28), (256, 14), (512, 7)):
        strided = [layer for layer in resnet if f"{width}->{width} 3x3 /2" in layer.name]
        assert [layer.x[1] for layer in strided] == [2 * side]


def test_products_with_epilogues(place, report, monkeypatch):
    sizes = {"ROWS": (24,), "WIDTHS": ((16, 8),), "GATED": ((8, 16, 8),), "FLOAT8": ((16, 16, 16),)}
    for name, value in (sizes | {"GROUPED": ((8, 2, 16, 8, True), (9, 3, 16, 8, False))}).items():
        monkeypatch.setattr(gemm_epilogues, name, value)
    gemm_epilogues.run(report, quick=True)
    found = all_right(report)
    assert len(found) == 6 and "grid: relu(x + b)^2 bfloat16 24x16x8" in found


def test_elementwise(place, report):
    report._only = ("sigmoid",) if place.is_device else None  # on a GPU each is compiled
    elementwise_bench.run(report, quick=True)
    found = all_right(report)
    assert "sigmoid_backward bfloat16, 2^" + ("4" if place.is_slow else "12") in found
    if not place.is_device:
        assert {"add a row float16, 64 x 64", "own kernel adam bfloat16, 2^11"} <= found.keys()


def test_own_kernels_and_reductions(place, report):
    size = custom_kernels._COLUMNS * 4
    for dtype in ("float32", "bfloat16"):
        custom_kernels.add_own(report, dtype, size, peers.import_torch(), peers.import_cupy(), quick=True)
    found = all_right(report)
    assert len(found) == 2 * (len(custom_kernels.CASES) + len(custom_kernels.ROW_CASES))
    assert f"own reduction logsumexp bfloat16, 4 x {custom_kernels._COLUMNS}" in found
    for figure in report.figures:
        assert figure["ms"] > 0 and figure["bound"] == 1.0 and "holds" in figure


@pytest.mark.parametrize("case", custom_kernels.CASES, ids=lambda case: case.name)
def test_own_formulas_are_those_of_the_peers(case):
    """In NumPy's functions, whose names torch and CuPy share; and a wrong one is seen."""
    arrays = [np.random.default_rng(k).uniform(0, 1, 50).astype(np.float32) for k in range(case.arrays)]
    given, kernel = (*arrays, *case.numbers), elementwise.kernel(case.formula)
    found = case.theirs(np)(*given)
    assert len(found if isinstance(found, tuple) else (found,)) == case.results
    assert len(case.text[0].split()) == case.arrays and len(case.text[1].split()) == case.results
    assert harness.is_right(kernel, given, found)
    first = found[0] if isinstance(found, tuple) else found
    first[7] += 0.01
    assert not harness.is_right(kernel, given, found)


@pytest.mark.parametrize("case", custom_kernels.ROW_CASES, ids=lambda case: case.name)
def test_own_reductions_are_those_of_the_peers(place, report, monkeypatch, case):
    """In NumPy's and SciPy's functions; numbers that are large, too, overflow nowhere; and a wrong one is seen."""
    library = SimpleNamespace(sqrt=np.sqrt, logsumexp=special.logsumexp)
    x = np.random.default_rng(0).normal(size=(6, 50), scale=[[1.0], [1], [10], [300], [1e-3], [9000]])
    reduction = elementwise.reduction(case.function, **case.options)
    found = place.get(reduction(place.put(x), axis=1))
    np.testing.assert_allclose(found, case.theirs(library)(x), rtol=1e-12)
    monkeypatch.setattr(custom_kernels.elementwise, "reduction", lambda function, **_: wrong)

    def wrong(x, axis, out=None):
        return reduction(x, axis=axis) + (0.1 if out is not None else 0)

    custom_kernels._reduction(report, case, "wrong", "float32", custom_kernels._COLUMNS, None, True)
    assert report.figures == [{"name": "wrong", "right": False}]


#: `rows.run` compiles for most of a minute on a GPU. Each part has labels that contain the key, among them the value.
ROWS = {
    "over axis 1": "cumsum bfloat16 over axis 1",
    "over axis 0": "var float32 over axis 0",
    "softmax": "softmax bfloat16",
    "norm": "layer_norm bfloat16",
    "cross entropy": "cross entropy float32",
}


@pytest.mark.parametrize("part", ROWS)
def test_rows(place, report, part):
    report._only = (part,)
    rows.run(report, quick=True)
    n = 4 if place.is_slow else 64
    assert f"{ROWS[part]}, {n} x {n}" in all_right(report)


def test_row_gradients(place, report):
    row_gradients.run(report, quick=True)
    assert len(all_right(report)) == 20


def test_blocks(place, report):
    blocks.run(report, quick=True)
    found = all_right(report)
    for name in ("rope bfloat16, BHSD, tables bfloat16", "dropout float32, 64", "take bfloat16, 6 rows of 8"):
        assert name in found
    assert found["bias_activation_backward gelu float32, 8 x 8"].keys() & {"bound", "holds"} == set()
    assert len(found) == 12 + 14 + 4 + 1


def test_blocks_see_what_is_wrong(numpy_place, report):
    """One wrong element of a result, or one of another library's."""
    for label, make in blocks._cases():
        case = make()
        found = case.ours()
        first = np.array(found[0] if isinstance(found, tuple) else found)
        place = (0,) * first.ndim if "rope" not in label else tuple(n - 1 for n in first.shape)
        first[place if "take" not in label and "one_hot" not in label else (-1, 0)] = 7
        wrong = (first, *found[1:]) if isinstance(found, tuple) else first
        assert case.is_right(case.ours()) and not case.is_right(wrong), label
        if "float8" not in label:
            assert case.is_alike is None or (case.is_alike(case.ours()) and not case.is_alike(wrong)), label


def test_cross_entropy(place, report):
    x = place.put(np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32))
    rows._cross_entropy(report, "loss", x, None, True)
    assert all_right(report)["loss"]["ratio"] is None


def wrong_softmax(monkeypatch, report, numbers, **theirs):
    """The figure of softmax against a library that has these functions, on NumPy arrays."""
    library = SimpleNamespace(from_dlpack=np.asarray, nn=SimpleNamespace(functional=None), **theirs)
    monkeypatch.setitem(sys.modules, "liger_kernel", None)
    monkeypatch.setitem(sys.modules, "quack", None)
    rows._map(report, "softmax", "softmax", numbers, library, True)
    return report.figures[-1]


def test_peers_that_are_missing_or_wrong_are_named(numpy_place, report, monkeypatch):
    numbers = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    found = wrong_softmax(monkeypatch, report, numbers, softmax=lambda x, axis: elementwise.softmax(x, axis=axis))
    assert found["right"] and found["peers"] == {"torch": 0.5} and found["ratio"] == 2.0
    assert found["missing"].keys() == {"Liger", "quack"}
    assert all(why.startswith("ModuleNotFoundError: ") for why in found["missing"].values())
    found = wrong_softmax(monkeypatch, report, numbers, softmax=lambda x, axis: x)
    assert found["missing"]["torch"] == "its result is wrong" and not found["peers"] and found["ratio"] is None
    line = harness._line(found)
    assert "no torch (its result is wrong)" in line and "no quack (ModuleNotFoundError" in line


def test_a_peer_that_fails_ends_nothing():
    def fails():
        raise RuntimeError("no kernel image\nis available")

    makers = {"a": lambda: lambda: 1, "b": lambda: fails, "c": fails, "d": lambda: lambda: 2, "e": lambda: lambda: "x"}
    works, missing = peers.those_that_run(makers, lambda found: math.sqrt(found) == 1)
    assert works.keys() == {"a"}
    assert missing["b"] == missing["c"] == "RuntimeError: no kernel image" and "wrong" in missing["d"]
    assert missing["e"].startswith("TypeError")


def test_own_gates(place, report, monkeypatch):
    case = gated_bench.Case("rows 3 x 2*8", (3, 16), -1, 0.9, ("float32", "bfloat16"), False)
    for dtype in case.dtypes:
        gated_bench._own(report, case, dtype, None, True)
    found = all_right(report)
    assert len(found) == 4 * len(gated_bench.OWN)
    assert all("built-in" in figure["peers"] and figure["error"] < 1e-2 for figure in found.values())


def test_gates(place, report, monkeypatch):
    case = gated_bench.Case("rows 3 x 2*8", (3, 16), -1, 0.9, ("float32",), False)
    monkeypatch.setattr(gated_bench, "CASES", (case,))
    report._only = ("glu",)
    gated_bench.run(report, quick=True)
    assert "own geglu backward bfloat16, rows 3 x 2*8" in all_right(report)


@pytest.mark.parametrize("name", ["adam_digits", "denoise", "options"])
def test_programs(place, report, monkeypatch, name):
    if place.is_slow:
        skip("slow")
    monkeypatch.setattr(programs, "_STEPS", 3)
    monkeypatch.setattr(programs, "_PATHS", 2**10)
    report._only = (name,)
    programs.run(report, quick=True)
    figure = all_right(report)[f"program {name}"]
    assert figure["s"] > 0 and figure["first_s"] > 0
    assert figure["us_per_iteration"] == pytest.approx(1e6 * figure["s"] / figure["iterations"])


def test_programs_that_are_not_there(report, monkeypatch, tmp_path):
    monkeypatch.setattr(programs, "FOLDER", tmp_path)
    programs.run(report, quick=True)
    assert len(report.figures) == 3 and all("FileNotFoundError" in figure["skipped"] for figure in report.figures)


@pytest.mark.parametrize("name", ["adam_digits", "denoise", "options"])
def test_torchs_programs_are_the_same(numpy_place, monkeypatch, name):
    """On torch's CPU tensors; what draws other numbers differs by what they do."""
    torch = needed("torch", "torch")
    if has_gpu():
        skip("no gpu")
    monkeypatch.setattr(programs, "_STEPS", 20)
    monkeypatch.setattr(programs, "_PATHS", 2**16)
    make = {"adam_digits": programs._adam, "denoise": programs._denoise, "options": programs._options}[name]
    case = make(programs._program(name))
    found = case.ours()
    works, missing = peers.those_that_run(case.theirs(torch), lambda theirs: case.alike(found, theirs))
    assert works and not missing
    first = (found if isinstance(found, tuple) else (found,))[0]
    first += 0.1 * np.abs(first).max()
    for work in works.values():
        assert not case.alike(found, work())


def test_torchs_digits_are_those_by_hand():
    """Autograd and `torch.optim.Adam` do what is written out."""
    torch = needed("torch", "torch")
    x, labels = torch.rand(30, 64), torch.arange(30) % 10
    (hand, _), (auto, _) = (
        train(torch, x, labels, 5) for train in (torch_programs.train_by_hand, torch_programs.train_by_autograd)
    )
    for a, b in zip(hand, auto, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_rows_of_torch():
    """torch's functions are asked for what ours give, and are right."""
    torch = needed("torch", "torch")
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.uniform(0.5, 1.5, shape).astype(np.float32) for shape in ((5, 12), 12, 12))
    tensors = [torch.from_dlpack(each) for each in (x, weight, bias)]
    for name, count in rows._MAPS.items():
        given = tensors[1 : 1 + count] + [None] * (2 - count)
        found = peers.rows(torch, name, tensors[0], *given)["torch"]()()
        wanted = getattr(elementwise, name)(x.astype(np.float64), *(weight, bias)[:count])
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-5)
    labels = rng.integers(0, 12, 5)
    found = peers.cross_entropy(torch, tensors[0], torch.from_dlpack(labels))["torch"]()()
    wanted = -elementwise.log_softmax(x.astype(np.float64))[np.arange(5), labels]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)


def test_blocks_of_torch(numpy_place, report):
    """On its CPU tensors, which share NumPy's memory."""
    torch = needed("torch", "torch")
    for label, make in blocks._cases():
        if "bfloat16" not in label:  # which NumPy's arrays do not lend
            case = make()
            makers = {name: work for name, work in case.theirs(torch).items() if name == "torch"}
            works, missing = peers.those_that_run(makers, case.is_alike or case.is_right)
            assert works.keys() == {"torch"} and not missing, label


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("columns", [64, 512])
def test_flat_softmax(report, place, monkeypatch, dtype, columns):
    """Of rows of some threads and of some warps: in each way, and where a warp has -infinity alone."""
    if place.name not in ("gpu", "simulator"):
        skip("device")
    monkeypatch.setattr(flat_softmax, "_SIZE", 8 * columns)
    monkeypatch.setattr(flat_softmax, "ways", lambda *_: tried)
    if place.name != "gpu":
        monkeypatch.setattr(flat_softmax, "multiprocessors", lambda: 1)
        monkeypatch.setattr(harness, "copy_of", lambda nbytes: lambda: None)
    threads = columns // 8
    runs = 1 if dtype == "bfloat16" else 2
    tried = [flat_softmax.Way(threads, runs, groups, ahead, 2) for groups, ahead in ((2, False), (1, True))]
    x = np.random.default_rng(1).normal(size=(8, columns)).astype(np.float32) * 4
    x[1, : columns // 2] = -np.inf
    x[3, columns // 2] = 60
    given = [place.put(each.astype(TABLE[dtype].numpy)) for each in (x, x[::-1].copy(), x)]
    figures = list(flat_softmax.measure(dtype, columns, given, math.inf))
    assert len(figures) == len(tried) and all(figure["right"] for figure in figures)
    assert all(figure["ulp_flat"] <= figure["ulp_numbacc"] + 2 for figure in figures)


def test_flat_softmax_has_its_loads_under_way():
    if simulated():
        skip("not simulated")
    for dtype in ("float32", "bfloat16"):
        for way in flat_softmax.ways(dtype, 1024):
            found = ptx.Ptx(flat_softmax.flat_ptx(dtype, 1024, way))
            assert found.runs()[0] == ("ld", [16] * way.runs * (1 + way.ahead)) and ".local" not in found.text
            assert ".f64" not in found.text


@pytest.mark.slow
def test_new_processes(numpy_place, report):
    """An import, and a call from source: without a GPU by NumPy."""
    for name in ("import numbacc after numpy", "first call of exp, from source"):
        report._only = (name,)
        startup.run(report, quick=True)
    found = all_right(report)
    assert len(found) == 2 and all(0 < figure["seconds"] < 60 and "holds" in figure for figure in found.values())


def test_from_source_nothing_is_on_disk():
    script = "import os; d = os.environ.get('NUMBACC_CACHE_DIR'); print(len(os.listdir(d)) if d else 7)"
    assert startup._seconds(startup.Case("", None, script, True), {}) == 0
    if "NUMBACC_CACHE_DIR" not in os.environ:
        assert startup._seconds(startup.Case("", None, script), {}) == 7


def test_subjects_are_modules_that_run():
    for name in command.SUBJECTS:
        assert callable(importlib.import_module(f"benchmarks.{name}").run)


def test_help_lists_subjects_and_options(capsys):
    with pytest.raises(SystemExit):
        command.main(["--help"])
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in command.SUBJECTS)
    assert all(option in out for option in ("--json", "--only", "--quick"))
