"""The fuzzer: a few cases of each family on the CPU, and that it tells of failures and of processes that end."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from types import SimpleNamespace

import conv_call
import conv_oracle
import numpy as np
import pytest
from conftest import Place
from fuzz import conv as fuzz_conv
from fuzz import formula_cases, worker
from fuzz.__main__ import FAMILIES, Totals
from fuzz.arguments import shapes_of
from fuzz.case import Case
from fuzz.memory import GUARD, Buffers
from fuzz.operands import FuzzPlace, anywhere, neighbours
from paths import ROOT

from numbacc import elementwise as ew
from numbacc.base import dtypes


def fuzz(*options):
    command = [sys.executable, "-m", "tests.fuzz", "--place", "cpu", "--seconds", "300", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
def test_cases_of_every_family(tmp_path):
    report = tmp_path / "report.json"
    run = fuzz("--seed", "1", "--cases", "10", "--json", str(report))
    assert run.returncode == 0, run.stdout + run.stderr
    found = json.loads(report.read_text())
    assert found["failures"] == [] and found["place"] == "numpy"
    # There are no graphs on the CPU.
    assert found["cases"] == {family: 10 for family in FAMILIES if family != "graphs"}


def test_a_case_is_its_family_and_seed():
    """Whatever ran before it."""
    first, second, other = (
        Case(family, seed, Place("numpy")) for family, seed in [("fft", 7), ("fft", 7), ("gemm", 7)]
    )
    draws = [[case.shape(3), case.pick("abcdef"), case.integer(0, 10**6)] for case in (first, second, other)]
    assert draws[0] == draws[1] != draws[2]


def test_ways_of_a_case_differ_in_where_arrays_lie_alone():
    shapes, strides = [], []
    for way in range(3):
        case = Case("fft", 8, FuzzPlace("numpy"), way)
        shapes.append(case.shape(3))
        case.place.operand(np.zeros(shapes[-1], np.float32), **anywhere(case, shapes[-1], False, 0))
        strides.append(case.place.operand(np.zeros((3, 4, 5)), **anywhere(case, (3, 4, 5), False, 0)).view.strides)
        shapes[-1] += (case.integer(0, 10**6),)
    assert shapes[0] == shapes[1] == shapes[2] and len(set(strides)) == 3


def test_python_computes_small_formulas_alone():
    """Shapes on a GPU have up to 160,000 elements. Python's arithmetic takes too long for these."""
    place = SimpleNamespace(name="gpu", is_slow=False)
    sizes = []
    for seed in range(300):
        bounded, free = (shapes_of(Case("formulas", seed, place), 3, *most) for most in ((formula_cases.MOST,), ()))
        sizes.append((math.prod(bounded[1]), math.prod(free[1])))
        assert np.broadcast_shapes(*bounded[0]) == bounded[1] and len(bounded[1]) == len(free[1])
    assert max(small for small, _ in sizes) <= formula_cases.MOST < max(large for _, large in sizes)
    assert all(small == large for small, large in sizes if large <= formula_cases.MOST)


def test_integers_of_formulas_become_numpys_floats():
    integers = ("int8", "int16", "int32", "int64", "uint8", "bool")
    for one, other in itertools.product(integers, repeat=2):
        wanted = np.hypot(np.ones(1, one), np.ones(1, other)).dtype
        assert formula_cases.meeting([one, other]) == wanted, (one, other)
        assert ew.kernel(lambda x, y: x + y)(np.ones(1, one), np.ones(1, other)).dtype == wanted


def test_a_failure_is_told_and_the_next_case_runs(tmp_path, capsys):
    def run(case):
        case.call("float", float, "1" * 10)
        if case.seed % 2:
            raise RuntimeError(f"number {case.seed}")

    progress = tmp_path / "progress"
    found = worker.Worker("numpy", {"gated": 0}, 1, str(progress), str(tmp_path / "report"))
    found._run["gated"] = run
    found.run(60, 6)
    told = capsys.readouterr().out
    for words in ("FAILED gated, seed 1", "float('1111111111')", "number 1", "--only gated --seed 1 --cases 1"):
        assert words in told
    figures = found.figures()
    assert figures["cases"] == {"gated": 6}
    (alike,) = figures["failures"].values()
    assert alike["seeds"] == [1, 3, 5]
    assert progress.read_text().split() == ["gated", "5"]


def test_a_process_that_ends_is_a_failure_of_its_case(tmp_path):
    """Another goes on with the next case."""
    report = tmp_path / "report.json"
    code = (
        "import os, signal, sys; sys.argv[1:] = ['--place', 'cpu', '--only', 'gated', '--seed', '3', '--cases', '2',"
        f" '--json', {str(report)!r}]\n"
        "from tests.fuzz import __main__ as fuzz\n"
        "start, started = fuzz.Process.start, []\n"
        "def killed(self):\n"
        "    start(self)\n"
        "    if not started:\n"
        "        started.append(1)\n"
        "        self.process.kill(); self.process.wait(); self.progress.write_text('gated 3'.ljust(80))\n"
        "        open(f'{self.progress}.lines', 'wb').write(b'gated.forward(x)\\n' + bytes(1) + b'before')\n"
        "fuzz.Process.start = killed\n"
        "sys.exit(fuzz.main())\n"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "FAILED gated, seed 3: the process ended, signal SIGKILL\n  gated.forward(x)\n" in run.stdout
    assert "before" not in run.stdout
    assert json.loads(report.read_text())["cases"]["gated"] == 2


def test_a_lost_gpu_is_a_failure_of_its_case(tmp_path, capsys):
    """The worker notices a late error before the next case and ends, so that a fresh process continues there."""

    class Lost:
        name, is_device, is_slow, settled = "gpu", True, False, 0

        def settle(self):
            self.settled += 1
            if self.settled > 4:  # the first case is run three times
                raise RuntimeError("CUDA_ERROR_MISALIGNED_ADDRESS")

    found = worker.Worker("numpy", {"conv": 7}, 2, str(tmp_path / "progress"), str(tmp_path / "report"))
    found.place, found._run["conv"] = Lost(), lambda case: case.call("conv.forward", float, "1")
    with pytest.raises(SystemExit) as ended:
        found.run(60, None)
    assert ended.value.code == worker.GPU_LOST
    told = capsys.readouterr().out
    for words in ("FAILED conv, seed 9, on gpu", "conv.forward('1')", "MISALIGNED", "no longer answers after conv"):
        assert words in told
    figures = found.figures()
    assert (figures["cases"], figures["next"]) == ({"conv": 2}, {"conv": 11})
    (failure,) = figures["failures"].values()
    assert failure["seeds"] == [9]


@pytest.mark.gpu
def test_a_context_that_a_kernel_ends_is_lost(tmp_path):
    """A kernel that reads from a misaligned address ends the CUDA context; the worker says which case it was."""
    code = (
        "import sys\n"
        "import tests.fuzz\n"
        "from tests.fuzz import worker\n"
        "import numbacc\n"
        "from numbacc import elementwise as ew\n"
        "from numbacc.arrays.device_array import DeviceArray\n"
        "def run(case):\n"
        "    x = numbacc.zeros(64)\n"
        "    y = DeviceArray(x._numbacc_layout, x._address + (case.seed == 1), x._storage)\n"
        "    case.call('elementwise.exp', ew.exp, y)\n"
        f"paths = {str(tmp_path / 'progress')!r}, {str(tmp_path / 'report')!r}\n"
        "found = worker.Worker('gpu', {'gated': 0}, 1, *paths)\n"
        "found._run['gated'] = run\n"
        "found.run(60, 5)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == worker.GPU_LOST, run.stdout + run.stderr
    assert "FAILED gated, seed 1, on gpu\n  elementwise.exp(" in run.stdout
    assert "The GPU no longer answers after gated, seed 1" in run.stdout


def test_a_function_that_refuses_everything_is_a_failure():
    totals = Totals()
    calls = {"gemm": {"gemm.matmul": 40, "gemm.linear": 40}, "wrong": {"gemm.matmul": 40}}
    refusals = {"gemm": {"gemm.matmul: LayoutError: a": 39, "gemm.linear: LayoutError: x": 30}, "wrong": {}}
    refusals["gemm"]["gemm.linear: LayoutError: w"] = 10
    refusals["wrong"]["gemm.matmul: LayoutError: a"] = 40
    totals.add({"calls": calls, "refusals": refusals})
    ((alike, failure),) = totals.refused()
    assert alike == "gemm: gemm.linear refused all of 40 calls" and failure["family"] == "gemm"


# ---------------------------------------------------------------- where arrays lie


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex128", "bool"])
def test_what_is_written_between_arrays_of_a_buffer_is_noticed(dtype):
    place, buffers = FuzzPlace("numpy"), Buffers()
    values = np.zeros((2, 3), dtypes.dtype(dtype))
    first, second = (buffers.take(place, values, skip, True) for skip in (3, 1))
    assert np.shares_memory(first.base, second.base)
    first[...] = second[...] = 1
    buffers.assert_untouched()
    memory = buffers.all[0].array.view(np.uint8).reshape(-1, first.itemsize)
    for at in (-1, 6):  # before the first, and between the two
        memory[GUARD + 3 + at, -1] ^= 1
        with pytest.raises(AssertionError, match="between arrays"):
            buffers.assert_untouched()
        memory[GUARD + 3 + at, -1] ^= 1
        buffers.assert_untouched()


def test_arrays_lie_in_all_ways():
    """Packed and off, in any order of axes, in rows with gaps, reversed, repeated, as neighbours and parts."""
    seen, shape = set(), (3, 4, 5)
    for seed in range(300):
        case = Case("layouts", seed, FuzzPlace("numpy"))
        x = case.place.operand(np.zeros(shape, np.float32), **anywhere(case, shape, False, 0)).view
        order = np.argsort([-abs(step) for step in x.strides])
        is_packed = x.transpose(order).flags.c_contiguous
        kind = "reversed" if min(x.strides) < 0 else "repeated" if 0 in x.strides else "apart"
        if is_packed:
            kind = "packed" if x.flags.c_contiguous else "permuted"
        seen.add((kind, x.ctypes.data % 16 != 0))
        outs = neighbours(case, [(3, 4)] * 3, np.dtype(np.float32))
        starts = np.diff([out.ours.ctypes.data for out in outs]).tolist()
        kinds = {(48, 48): "neighbours", (16, 16): "columns"}
        seen.add((kinds.get(tuple(starts), "elsewhere"), None))
        for out in outs:
            out.ours[...] = 1
            out.assert_written_only()
        case.buffers.assert_untouched()
    ways = ("packed", "permuted", "apart", "reversed", "repeated")
    assert seen == {(way, off) for way in ways for off in (False, True)} | {
        (way, None) for way in ("neighbours", "columns", "elsewhere")
    }


def test_an_interrupted_run_prints_its_figures():
    code = (
        "import json, os, signal, sys; sys.argv[1:] = ['--place', 'cpu', '--only', 'fft', '--seconds', '300']\n"
        "from tests.fuzz import __main__ as fuzz\n"
        "poll = fuzz.Process.poll\n"
        "def interrupted(self):\n"
        "    if self.report.exists() and json.loads(self.report.read_text())['cases']:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return poll(self)\n"
        "fuzz.Process.poll = interrupted\n"
        "sys.exit(fuzz.main())\n"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Interrupted" in run.stdout and "0 failed" in run.stdout
    assert int(run.stdout.rpartition("fft")[2].split()[0]) > 0


def test_unknown_families_are_refused():
    run = fuzz("--only", "gated,jam")
    assert run.returncode == 2 and "'jam' is no family" in run.stderr


@pytest.mark.parametrize("direction", conv_oracle.DIRECTIONS)
def test_sums_of_convolutions_by_taps(direction):
    """They equal the sums of the tests' oracle."""
    for layout, more in (
        ("NCHW", {"stride": (2, 1), "padding": ((0, 3), (1, 0)), "dilation": (1, 2)}),
        ("NHWC", {"padding": "same", "flip": True}),
        ("NDHWC", {"stride": 2}),
    ):
        case = conv_call.small(direction, layout, **more)
        first, second, *_ = (None if a is None else a.astype(np.float64) for a in conv_oracle.inputs(case))
        wanted = conv_oracle.sums(case, first, second)
        np.testing.assert_allclose(fuzz_conv.by_taps(case, first, second), wanted, atol=1e-12)
