"""What the kernels of models' blocks compile to, without a GPU: all that `python -m numbacc compile blocks` makes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from functools import cache

import pytest
from row_ptx import check, widest
from skips import skip_if

from numbacc import compiling
from numbacc.base.dispatch import simulated

pytestmark = [skip_if(simulated(), "not simulated"), pytest.mark.each_alone(paired=True, in_pairs=True)]

#: Formulas and kernels -> what is read, or written, 16 bytes at a time where arrays allow it.
VECTORS = {
    "up_to_diagonal": "ld st",
    "from_diagonal": "ld st",
    "on_diagonal": "st",
    "one_hot": "st",
    "stepped": "st",
    "spaced": "st",
    "rope": "ld st",
    "rope_backward": "ld st",
    "loss_slope": "ld st",
    "log_sum": "ld",
    "log_sum_and_mean": "ld",
    "gather": "ld st",
    "scatter_chunks": "ld st",
    "scatter_rows": "ld st",
    "dropout": "ld st",
    "elementwise.astype": "ld st",
    **{f"elementwise.{name}_of_sum": "ld st" for name in ("relu", "gelu", "gelu_tanh", "silu")},
    **{f"elementwise.{name}_of_sum_backward": "ld st" for name in ("relu", "gelu", "gelu_tanh", "silu")},
}


@cache
def kernels(dtype):
    """name -> those for arrays of a dtype, without conversions to float64."""
    found = {}
    for kernel in compiling.kernels(["blocks"]):
        own = (kernel.reads if kernel.reads[0] != "int64" else kernel.writes)[0]
        if own == dtype and "float64" not in kernel.writes:
            formula = getattr(kernel, "formula", None)
            name = kernel.algorithm if formula is None else formula.name
            # Of 16 bits it is a formula of its own.
            name = name.removesuffix("_narrow")
            found.setdefault(name, []).append(kernel)
    return found


def test_nothing_is_forgotten():
    for dtype in ("float32", "bfloat16"):
        assert kernels(dtype).keys() >= VECTORS.keys()


@pytest.mark.each_alone(in_pairs=True)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.sampled(1)
def test_whole_accesses(name, dtype):
    """And no float64 in float32's arithmetic, no local memory, no calls."""
    whole = []
    for kernel in kernels(dtype)[name]:
        algorithm = getattr(kernel, "algorithm", "row_maps")
        # Of rows that start anywhere a thread takes 16 elements of 16 bits: some wait in memory for a register.
        found = check(kernel, spilled=208 if algorithm == "uneven" else 0)
        if algorithm in ("vector", "reduce_contiguous") or (kernel.width > 1 and algorithm != "uneven"):
            whole.append([widest(found, operation) for operation in VECTORS[name].split()])
            # What is narrower than what is beside it, bfloat16 beside float32's tables, has less in an access.
            assert max(whole[-1]) == 16
            assert min(whole[-1]) == 16 or len({*kernel.reads, *kernel.writes}) > 1
    assert whole


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["loss", "scatter_few", "mean_of_counted", "share_of_counted"])
def test_what_is_small(name):
    for dtype in ("float32", "bfloat16"):
        for kernel in kernels(dtype).get(name, ()):
            check(kernel)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["row_loss", "smoothed_row_loss"])
@pytest.mark.sampled(1)
def test_losses_read_rows_once_in_few_instructions(name, dtype):
    """One exponential a number and, of 16 bits, half a comparison, so that memory is what takes the time."""
    (kernel,) = (each for each in kernels(dtype)[name] if each.total is None)
    found, numbers = check(kernel), kernel.runs * kernel.width
    assert numbers == (32 if dtype == "float32" else 64) and kernel.whole
    # The index and all of a row are on their way at once, and the element is read behind them.
    assert found.runs()[0] == ("ld", [8] + [16] * kernel.runs) and found.text.count("ld.global") == kernel.runs + 2
    exponentials, largest, pairs = map(found.text.count, ("ex2.approx", "max.NaN.f32", "f16x2"))
    # Threads of a row merge theirs in 9 more.
    assert exponentials == numbers and (pairs, largest) == ((0, numbers + 8) if dtype == "float32" else (31, 10))
    registers, spilled = found.usage((9, 0))
    assert registers <= 64 and not spilled


@pytest.mark.slow
def test_losses_on_gpus_that_compare_no_pairs():
    for kernel in kernels("bfloat16")["row_loss"]:
        assert "bf16x2" not in check(kernel, (7, 5)).text


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["row_loss", "smoothed_row_loss"])
@pytest.mark.sampled(1)
def test_means_of_losses_wait_for_nothing(name, dtype):
    """A block tells what its rows bring by one store, and ends; the one that adds has four words under way."""
    (alone,) = (each for each in kernels(dtype)[name] if each.total is None)
    means = [each for each in kernels(dtype)[name] if each.total is not None and each.writes == alone.writes]
    assert means
    for kernel in means:
        found, others = check(kernel), check(alone)
        pair = "v2" if "mean" in kernel.total.name else "u64"
        assert kernel._replace(total=None) == alone
        assert found.text.count("st.relaxed.gpu.global") == 1 + 1 + 4
        assert "atom" not in found.text and "membar" not in found.text and f"ld.relaxed.gpu.global.{pair}" in found.text
        assert found.text.count("ld.global") == others.text.count("ld.global")
        assert found.text.count("ex2.approx") == others.text.count("ex2.approx")
        registers, spilled = found.usage((9, 0))
        assert registers <= 64 and not spilled


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (10, 0)], ids=str)
@pytest.mark.parametrize(
    "name", ["rope", "loss_slope", "gather", "scatter_rows", "dropout", "one_hot", "elementwise.gelu_of_sum"]
)
@pytest.mark.sampled(2)
def test_everywhere(name, capability):
    for kernel in kernels("float16")[name]:
        check(kernel, capability)


def test_they_travel_to_processes_that_have_made_none(tmp_path):
    """Rows of sums and conversions are in no table: another process makes them again."""
    found = compiling.kernels(["blocks"])
    (tmp_path / "kernels").write_bytes(pickle.dumps(found))
    script = "import pickle, sys; print(len(set(pickle.load(open(sys.argv[1], 'rb')))))"
    run = [sys.executable, "-c", script, tmp_path / "kernels"]
    assert int(subprocess.run(run, capture_output=True, text=True, check=True).stdout) == len(found)
