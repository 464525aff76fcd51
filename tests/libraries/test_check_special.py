"""Further checks of convolutions: functions behind exact sums, and NaN. Engines run on a GPU only."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from skips import skip_if

from numbacc.base.dispatch import simulated
from numbacc.conv.lowering import Way, ways
from numbacc.reference.conv import ACTIVATIONS
from numbacc_bindings.cudnn import NumericalNote
from tools.check import conv_worker as worker
from tools.check.conv_cases import activation_cases, nan_cases
from tools.check.conv_worker import Attempt, findings, judge, judge_nan, prepare, request_of

pytestmark = skip_if(simulated(), "not simulated")
PLAIN, WHOLE = Way(False, False), Way(True, True)
ACTIVATION, NAN = list(activation_cases()), list(nan_cases())


def named(every, name):
    (case,) = [case for case in every if case.name == name]
    return case


@pytest.mark.parametrize("case", ACTIVATION[::11], ids=lambda case: case.name)
def test_short_numbers_have_sums_that_every_float_has(case):
    arrays = prepare(case)
    for wanted in arrays.wanted.values():
        narrow = arrays.problem.out.dtype.name if case.dtype == "float16" else "float32"
        np.testing.assert_array_equal(wanted.astype(narrow).astype(np.float64), wanted)
        assert (np.rint(wanted * 64) == wanted * 64).all() and np.abs(wanted).max() < 2**4  # 11 bits


@pytest.mark.parametrize("activation", ["tanh", "gelu_tanh"])
def test_a_function_of_11_bits_is_right_of_tensor_cores_and_of_narrow_floats_alone(activation):
    for dtype, notes, is_right in (
        ("float32", [], False),
        ("float32", [NumericalNote.TENSOR_CORE], True),
        ("tf32", [NumericalNote.TENSOR_CORE], True),
        ("float16", [], True),
        ("bfloat16", [], True),
    ):
        arrays = prepare(named(ACTIVATION, f"forward short NHWC {dtype} {activation}"))
        exactly = ACTIVATIONS[activation](arrays.wanted[True])
        for rounding, expected in ((0, True), (2.0**-12, is_right), (2.0**-7, False)):
            found = (exactly * (1 + rounding)).astype(arrays.problem.out.dtype)
            assert judge(arrays, found, WHOLE, frozenset(notes))[0] is expected


def test_every_activation_is_checked_fused_and_alone():
    assert {case.epilogue for case in ACTIVATION} == {case.epilogue for case in NAN} - {"", "bias"} == {*ACTIVATIONS}
    for case in (case for case in ACTIVATION if case.dtype == "float16" and case.options["layout"] == "NHWC"):
        assert Way(not case.alone, True) in ways(request_of(case).problem)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("direction", ["forward", "backward_data", "backward_filter"])
def test_nan_that_is_kept_lost_and_spread(direction, dtype):
    arrays = prepare(named(NAN, f"{direction} nan 2-d NHWC {dtype}"))
    with np.errstate(invalid="ignore"):
        found = arrays.wanted[False].astype(arrays.problem.out.dtype)
    special = ~np.isfinite(found)
    count = int(special.sum())
    assert 0 < count < found.size and judge_nan(arrays, found, PLAIN) == ("kept", str(count))
    without = np.where(special, found.dtype.type(0), found)
    assert judge_nan(arrays, without, PLAIN) == ("lost", f"{count} of {count}")
    every = np.full_like(found, np.nan)
    assert judge_nan(arrays, every, PLAIN) == ("spread", f"to {found.size - count} beside {count}")


def test_a_relu_that_gives_0_for_nan_is_seen():
    arrays = prepare(named(NAN, "forward nan 2-d NCHW float32 relu"))
    kept = ACTIVATIONS["relu"](arrays.wanted[True]).astype(np.float32)
    assert judge_nan(arrays, kept, WHOLE)[0] == "kept" and np.isinf(kept).any()
    finding, detail = judge_nan(arrays, np.fmax(kept, 0), WHOLE)
    assert finding == "lost" and int(detail.split()[0]) == np.isnan(kept).sum()


@pytest.mark.parametrize(
    "algorithm, finding, known",
    [
        ("engine 41", "kept", False),
        ("engine 41", "lost", False),
        ("engine 11; its ReLU gives 0 for NaN", "lost", True),
        ("engine 47; it loses some infinities of images", "lost", True),
    ],
)
def test_what_is_told_of_nan(monkeypatch, algorithm, finding, known):
    """Apart from whether numbers are right; what a plan tells of itself is known."""
    case = named(NAN, "forward nan 2-d NCHW float32 relu")
    kept = ACTIVATIONS["relu"](prepare(case).wanted[True]).astype(np.float32)
    values = kept if finding == "kept" else np.fmax(kept, 0)
    told = {"engine": "engine 1", "way": [], "notes": [], "known": False}
    executable = SimpleNamespace(algorithm=algorithm, deterministic=True)
    attempt = Attempt(told, lambda: executable, None, WHOLE, frozenset())
    monkeypatch.setattr(worker, "_engine_attempts", lambda arrays: iter([attempt]))
    monkeypatch.setattr(worker, "_numbacc_attempts", lambda arrays, case: iter(()))
    monkeypatch.setattr(worker, "run", lambda *given: (values, True))
    begins, found = findings(case, ())
    assert begins["finding"] == "begins" and (found["finding"], found["known"]) == (finding, known)
    (left_out,) = [list(findings(case, (1,)))]
    assert left_out == []
