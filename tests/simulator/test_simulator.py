"""What must run in Numba's CUDA simulator, which is chosen when a process starts: in processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from paths import ROOT, TESTS
from skips import skip_if

from numbacc.base.dispatch import simulated

#: No two have the same name.
FILES = {path.name: path for path in TESTS.glob("*/*.py")}
pytestmark = skip_if(simulated(), "not simulated")


#: Files that run there in the fast tests: they test kernels. Files whose tests take long come first.
FAST = (
    "test_attention.py test_attention_errors.py test_attention_sequences.py test_attention_float8.py "
    "test_attention_biases.py test_attention_fused.py test_score_functions.py test_attention_parts.py "
    "test_flash_kernels.py test_flash.py test_positions.py test_blocks.py test_losses.py test_row_precision.py "
    "test_ahead.py test_optimizers.py test_optimizer_calls.py test_clipping.py test_muon.py simulated_kernels.py "
    "test_uneven.py test_tabulated.py test_elementwise.py test_complex.py test_elementwise_gradients.py "
    "test_rank_zero.py test_reductions.py test_reductions_calls.py test_places.py test_rows.py test_joining.py "
    "test_array_api.py test_ulp.py test_operands.py test_family_order.py test_scans.py test_scans_calls.py "
    "test_scans_chained.py test_index_gradients.py test_row_gradients.py test_clusters.py test_long_rows.py "
    "test_reduction_gradients.py test_maps.py test_unaligned_rows.py test_residual_norms.py test_gated.py "
    "test_gated_register.py test_gated_linear.py test_derive.py test_epilogue_kernels.py test_saved.py "
    "test_gemm.py test_gemm_shapes.py test_gemm_narrow.py test_gemm_alignment.py test_gemm_gradients.py "
    "test_python_epilogues.py test_gemm_plans.py test_gemm_layers.py test_gemm_masks.py test_epilogue_kernel.py "
    "simulated_arrays.py simulated_launches.py test_captured_alignment.py test_tracing.py test_tracing_kernels.py "
    "test_puzzles.py test_compiled_launches.py test_compiled_names.py test_events.py test_compiled_steps.py "
    "test_files.py test_exchange.py test_device_copies.py test_device_kernels.py test_elementwise_inspect.py "
    "test_elementwise_reductions_own.py test_elementwise_reductions_object.py test_extreme_gradients.py "
    "test_conv_depthwise.py test_device_array.py test_copies.py test_elementwise_kernels.py test_operators.py "
    "test_casts.py test_box_muller.py test_random_copies.py"
)
#: Files that run there in the slow tests only. They test arguments, plans and errors, functions that NVIDIA's libraries
#: compute, and functions whose kernels the other files test.
SLOW = (
    "test_conv.py test_conv_calls.py test_conv_errors.py test_conv_lowering.py test_conv_order.py "
    "test_conv_turned.py test_conv_windows.py test_conv_depth.py test_conv_few_channels.py test_conv_copies.py "
    "test_conv_interleaved.py test_random.py test_random_arrays.py test_random_engine.py test_random_plans.py "
    "test_random_reach.py test_random_graphs.py test_nextafter.py test_elementwise_calls.py "
    "test_elementwise_dtypes.py test_elementwise_plans.py test_numpy_functions.py test_numpy_calls.py "
    "test_portable.py test_array_methods.py test_elementwise_kernel_gradients.py test_formula_calls.py "
    "test_formula_python.py test_formula_outside.py test_fft.py test_fft_plans.py test_fft_errors.py "
    "test_plan_base.py test_casts_float8.py test_specialize.py test_shown.py test_html.py test_arguments.py "
    "test_array_arguments.py test_argument_names.py test_stream_arguments.py test_refusals.py test_foreign.py "
    "test_docs.py test_docstrings.py test_creation.py test_keywords.py test_messages.py test_jax.py "
    "test_bench_runs.py test_programs.py test_debugger.py test_modules.py test_tape.py "
    "test_linear_cross_entropy.py test_attention_order.py test_attention_slices.py test_attention_versions.py "
    "test_distributed.py test_gated_errors.py test_gemm_errors.py test_gemm_arguments.py test_compile_errors.py "
    "test_record.py"
)


@pytest.mark.parametrize(
    "files, which",
    [
        (FAST.split(), "not slow"),
        pytest.param(SLOW.split(), "slow or not slow", marks=pytest.mark.slow),
        # Two processes that take equally long.
        *(pytest.param(FAST.split()[k::2], "slow", marks=pytest.mark.slow) for k in range(2)),
    ],
    ids=["fast", "others", "half of the slow", "other half"],
)
def test_in_the_simulator(files, which):
    paths = [str(FILES[name]) for name in files]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        which,
        "--disable-warnings",
        "-p",
        "no:cacheprovider",
        *paths,
    ]
    run = subprocess.run(
        command, env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}, cwd=ROOT, capture_output=True, text=True
    )
    report = run.stdout[-6000:] + run.stderr[-2000:]
    assert run.returncode == 0, report
    assert " passed" in report


def test_all_that_takes_a_place_runs_there():
    """What the fixture `place` is for runs by NumPy, in the simulator and on a GPU."""
    takes = re.compile(r"^def test_\w+\(place\b", re.MULTILINE)
    texts = {name: path.read_text() for name, path in FILES.items() if name.startswith("test_")}
    files = {name for name, text in texts.items() if takes.search(text) and 'parametrize("place' not in text}
    assert files and files <= {*FAST.split(), *SLOW.split()}


@pytest.mark.parametrize("raw", [False, True], ids=["matmul", "raw"])
def test_the_sweep_of_alignments_sees_what_goes_wrong(raw):
    """`gemm.matmul` gets through it; without its protection a bias that starts anywhere does not."""
    command = [sys.executable, str(FILES["sweep_gemm_alignment.py"]), "--quick", "--workers", "1", "--seconds", "120"]
    command += ["--only", "e4m3 > bf16 fast:relu_bias", "--again", "1", *["--raw"] * raw]
    run = subprocess.run(
        command, env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}, cwd=ROOT, capture_output=True, text=True
    )
    report = run.stdout[-6000:] + run.stderr[-2000:]
    assert run.returncode == 0, report
    assert "NOT EVERYTHING" not in report
    assert ("bias.start                   2E 4E 16." in report) is raw, report
    assert ("0 runs went wrong" in report) is not raw, report


def test_the_simulator_is_a_device():
    code = (
        "import numpy, numbacc; from numbacc import gated; x = numbacc.asarray(numpy.ones((2, 4), 'f4')); "
        "assert numbacc.has_gpu() and type(x).__name__ == 'DeviceArray'; "
        "print(gated.forward.plan(x).info.backend, gated.forward(x, 'reglu').copy_to_host().tolist())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.split(maxsplit=1) == ["simulator", "[[1.0, 1.0], [1.0, 1.0]]\n"]
