"""`python -m numbacc compile`: which kernels it makes, and that calls find them."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest
from skips import skip_if
from threads import run_threads

from numbacc import compiling, elementwise, gated
from numbacc.__main__ import main
from numbacc.base import _numba, garbage
from numbacc.base.dispatch import simulated
from numbacc.base.dtypes import TABLE
from numbacc.functions.epilogues import FORMULAS
from numbacc.functions.formula import Formula
from numbacc.kernels.random.spec import AdvanceSpec, DrawSpec
from numbacc.kernels.specs import KernelSpec
from numbacc.reference.conv import ACTIVATIONS
from numbacc.runtime import disk_cache

pytestmark = skip_if(simulated(), "not simulated")


@pytest.mark.parametrize("family", compiling.FAMILIES)
def test_everyday_kernels_are_found_without_a_gpu(family):
    found = compiling.kernels([family])
    assert found and len(set(found)) == len(found)
    assert pickle.loads(pickle.dumps(found)) == found


def test_modules_say_themselves_what_is_compiled_of_their_functions(monkeypatch):
    """A function `everyday_<family>` is found in any module of a family, and is given the arrays that it names."""
    made, seen = compiling.kernels(["reductions"]), []

    def everyday_reductions(matrix, row):
        assert matrix.shape[1:] == row.shape and matrix.dtype == row.dtype
        seen.append((row.dtype.name, row.size))
        yield elementwise.reduction_plan.planned("prod", matrix, None, None)

    everyday_reductions.__module__ = elementwise.positions.__name__
    monkeypatch.setattr(elementwise.positions, "everyday_reductions", everyday_reductions, raising=False)
    monkeypatch.setattr(compiling, "FAMILIES", compiling.everyday())
    found = compiling.kernels(["reductions"])
    assert set(found) > set(made) and {spec.formula.name for spec in set(found) - set(made)} == {"prod"}
    floats = [name for name, row in TABLE.items() if row.is_float]
    assert sorted(seen) == sorted((name, columns) for name in floats for columns in (4096, 4097))


def test_what_is_compiled_names_no_module_of_functions():
    """Nobody edits the command for a new function: its module has all. None is forgotten, as one that is not loaded."""
    root = Path(compiling.__file__).parent
    lines = (root / "compiling.py").read_text().splitlines()
    assert [line for line in lines if line.startswith("from .elementwise")] == ["from .elementwise import operation"]
    written = [line for path in root.rglob("*.py") for line in path.read_text().splitlines()]
    written = [line for line in written if line.startswith("def everyday_")]
    assert len(written) == sum(map(len, compiling.FAMILIES.values())) > 15


def test_each_kind_direction_and_dtype_of_gates_is_there_in_few_kernels():
    found = compiling.kernels(["gated"])
    floats = [name for name, row in TABLE.items() if row.is_float]
    for kind in gated.KINDS:
        for direction in ("forward", "backward"):
            for dtype in floats:
                own = [
                    spec.algorithm
                    for spec in found
                    if spec.formula is FORMULAS[f"gated.{direction}.{kind}"] and spec.reads[0] == dtype
                ]
                assert {"vector", "uneven"} <= set(own) and len(own) <= 8


def test_draws_are_there_for_calls_and_for_graphs():
    found = [spec for spec in compiling.kernels(["random"]) if isinstance(spec, DrawSpec)]
    assert {spec._replace(positioned=True) for spec in found} <= set(found)
    assert AdvanceSpec() in compiling.kernels(["random"])


def around_convolutions():
    """The maps that go with cuDNN's convolutions."""
    return [
        spec for spec in compiling.kernels(["conv"]) if isinstance(spec, KernelSpec) and spec.formula.name != "copy"
    ]


def test_all_that_may_follow_a_convolution_is_there_in_each_dtype():
    found = around_convolutions()
    names = {f"conv.{activation}{bias}" for activation in ("identity", *ACTIVATIONS) for bias in ("", "+bias")}
    for dtype in (name for name, row in TABLE.items() if row.is_float):
        own = [spec for spec in found if spec.reads[0] == spec.writes[0] == dtype]
        assert {spec.formula.name for spec in own} - {"conv.identity"} == names - {"conv.identity"}
        # Channels of as many pixels as fit words of 16 bytes, and others.
        assert {spec.algorithm for spec in own if "bias" in spec.formula.name} == {"vector", "scalar"}


def test_all_that_is_around_a_convolution_of_int8_is_there():
    found = around_convolutions()
    converted = {(spec.reads[0], spec.writes[0]) for spec in found if spec.formula.name == "conv.identity"}
    floats = ("float32", "float64")
    assert converted >= {*(("int8", name) for name in floats), *((name, "int32") for name in floats)}
    assert ("float64", "float32") in converted
    follows = {spec.formula.name for spec in found if spec.reads[0] == "int32"}
    assert follows == {"conv.relu", "conv.relu+bias", "conv.identity+bias"}


def test_formulas_of_users_have_no_pickle():
    with pytest.raises(TypeError, match="not one of numbacc's own"):
        pickle.dumps(Formula("gated.forward.glu", lambda a, b: a))


def test_what_was_compiled_is_found_again(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    import ptx

    kernel = next(spec for spec in compiling.kernels(["copies"]) if spec.algorithm == "strided")
    with ptx.pretended((9, 0)):
        assert compiling.compile_kernel(kernel, (9, 0))
        assert not compiling.compile_kernel(kernel, (9, 0))
        assert compiling.compile_kernel(kernel, (8, 0))
    entry, code = disk_cache.load(disk_cache.key(kernel, (9, 0)))
    assert code.startswith(b"\x7fELF") and entry.encode() in code


@pytest.mark.slow
def test_the_command_compiles_in_processes_and_says_how_many(tmp_path):
    command = [sys.executable, "-m", "numbacc", "compile", "copies", "--capability", "9.0", "--processes", "2"]
    environment = {**os.environ, "NUMBACC_CACHE_DIR": str(tmp_path)}
    run = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2)]
    count = len(compiling.kernels(["copies"]))
    assert run[0].stdout.startswith(f"{count} kernels compiled, 0 were already cached")
    assert run[1].stdout.startswith(f"0 kernels compiled, {count} were already cached")
    assert str(count) in run[0].stderr


def test_what_cannot_be_compiled_is_said(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        main(["compile", "sorting"])
    assert "unknown: sorting; there are blocks, conv, copies, elementwise, " in capsys.readouterr().err
    monkeypatch.setattr(compiling, "has_gpu", lambda: False)
    assert main(["compile"]) == 1
    assert "--capability 9.0" in capsys.readouterr().out


def test_what_a_program_has_frozen_is_counted_once(monkeypatch):
    """Python walks over all of it, which took as long as a compilation. It stays frozen."""
    counted = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: counted.append(1) or 1_000_000)
    monkeypatch.setattr(gc, "unfreeze", lambda: pytest.fail("it was unfrozen"))
    without, before = garbage.NoCollections(), gc.isenabled()
    try:
        gc.enable()
        for _ in range(3):
            with without:
                pass
        assert counted == [1] and gc.isenabled()
    finally:
        (gc.enable if before else gc.disable)()


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_not_looked_for_while_kernels_are_compiled(collects, monkeypatch):
    """In any of several threads, whichever ends last, and whether it fails; then as it was before."""
    together, seen = threading.Barrier(4), []

    def compiled(kernel, *given, **options):
        together.wait()
        seen.append(gc.isenabled())
        together.wait()
        raise ValueError(kernel)

    def work(k):
        with pytest.raises(ValueError, match=str(k)):
            _numba.compile_ptx(k, None, (9, 0), (1, 1))

    monkeypatch.setattr(_numba.cuda, "compile", compiled)
    # Which lets in one thread at a time.
    monkeypatch.setattr(_numba, "short_cuts", lambda capability: nullcontext())
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        run_threads(work, 4)
        assert seen == [False] * 4 and gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()
