"""What is decided of a product without a GPU: what the library reads where it lies, and what it leaves to kernels."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import refused
from skips import skip_if

from numbacc.base import dtypes
from numbacc.base.dispatch import simulated
from numbacc.base.layout import layout, row_major_strides
from numbacc.errors import DeviceError, LayoutError
from numbacc.gemm import Epilogue
from numbacc.gemm.alignment import takes_aux
from numbacc.gemm.compose import ways
from numbacc.gemm.hardware import check_hardware
from numbacc.gemm.lowering import c_fits, fuses
from numbacc.gemm.problem import GemmCall, resolve
from numbacc.runtime import contexts, device

E4 = "float8_e4m3fn"


def rows(shape, dtype, pitch=None):
    """The layout of a matrix on a GPU whose rows are `pitch` elements apart."""
    found = dtypes.dtype(dtype)
    strides = row_major_strides(shape, found.itemsize)
    return layout(shape, strides if pitch is None else (pitch * found.itemsize, strides[1]), found, 0)


def problem(kind="none", dtype="float32", shape=(32, 32, 32), compute=None, **arrays):
    """A product of matrices without gaps; `arrays` are others of its operands."""
    m, n, k = shape
    uses, narrow = Epilogue(kind), "bfloat16" if dtype == E4 else dtype
    found = {"c": None, "bias": None, "aux": None, "out": None} | arrays
    if uses.uses_bias and found["bias"] is None:
        found["bias"] = layout((n,), (dtypes.dtype(narrow).itemsize,), dtypes.dtype(narrow), 0)
    if uses.uses_aux and found["aux"] is None:
        found["aux"] = rows((m, -(-n // 8)), "uint8") if uses.activation == "relu" else rows((m, n), narrow)
    b = rows((n, k), dtype)
    b = layout((k, n), b.strides[::-1], b.dtype, 0)
    scales = dict.fromkeys(("scale_a", "scale_b", "scale_c", "scale_d", "amax_d"))
    options = {"epilogue": kind, "out_dtype": None, "compute": compute, "workspace_limit": None, "tune": False}
    return resolve(GemmCall(rows((m, k), dtype), b, **found, **scales, **options, has_beta=found["c"] is not None))


@pytest.mark.parametrize(
    "dtype, kind, start, wanted",
    [
        ("float16", "gelu_aux", 16, True), ("float16", "gelu_aux", 8, False), ("bfloat16", "dgelu", 8, False),
        ("bfloat16", "gelu_aux_bias", 2, False), ("float32", "gelu_aux", 4, True), ("float32", "dgelu_bgrad", 4, True),
        ("float16", "relu_aux", 1, True), ("bfloat16", "drelu", 1, True), (E4, "relu_aux", 8, False),
        (E4, "relu_aux", 16, True), (E4, "gelu_aux", 8, False), ("float16", "gelu_bias", 2, True),
    ],
)  # fmt: skip
def test_where_an_aux_must_start(dtype, kind, start, wanted):
    assert takes_aux(problem(kind, dtype), Epilogue(kind), [256] * 5 + [start]) is wanted


@pytest.mark.parametrize(
    "dtype, out, c, wanted",
    [
        ("bfloat16", 40, 40, True), ("bfloat16", 36, 36, True), ("bfloat16", 40, 36, True),
        # 72 bytes are a multiple of 8, and 80 of 16; 66 of 2.
        ("bfloat16", 36, 40, False), ("float16", 33, 36, False), ("float16", 33, 33, True), ("float32", 33, 40, True),
    ],
)  # fmt: skip
def test_rows_of_c_are_no_better_aligned_than_those_of_out_in_16_bits(dtype, out, c, wanted):
    arrays = {name: rows((32, 32), dtype, pitch) for name, pitch in (("out", out), ("c", c))}
    assert c_fits(problem(dtype=dtype, **arrays)) is wanted


def test_c_is_stored_as_out_is():
    by_columns = layout((32, 32), (4, 128), np.dtype(np.float32), 0)
    assert not c_fits(problem(c=by_columns, out=rows((32, 32), "float32")))
    assert c_fits(problem(c=by_columns, out=by_columns))
    assert c_fits(problem())


@pytest.mark.parametrize(
    "kind, dtype, pitch, wanted",
    [
        # ReLU's rows are a multiple of 128 bits, GELU's of 8 elements.
        ("relu_aux", "float32", 16, True), ("relu_aux", "float32", 24, False), ("drelu", "bfloat16", 32, True),
        ("drelu", "bfloat16", 40, False), ("gelu_aux", "float32", 40, True), ("gelu_aux", "float32", 36, False),
        ("dgelu", "bfloat16", 48, True), ("dgelu", "bfloat16", 33, False),
    ],
)  # fmt: skip
def test_which_rows_of_an_aux_the_library_takes(kind, dtype, pitch, wanted):
    shape, held = ((32, 4), "uint8") if "relu" in kind else ((32, 32), dtype)
    given = problem(kind, dtype, aux=rows(shape, held, pitch))
    assert fuses(given, Epilogue(kind)) is wanted
    assert fuses(problem(kind, dtype, (1, 32, 32), aux=rows((1, shape[1]), held, pitch)), Epilogue(kind))


def test_what_the_library_does_of_an_epilogue():
    """On large results it leaves the sum to a kernel first, and our kernels know no float8."""
    small, large = ((2048, 2040, 32), (2048, 2048, 32))
    forms = [Epilogue.DGELU_BGRAD, Epilogue.DGELU, Epilogue.NONE]
    assert ways(problem("dgelu_bgrad", "bfloat16", small)) == forms
    assert ways(problem("dgelu_bgrad", "bfloat16", large)) == [forms[1], forms[0], forms[2]]
    assert ways(problem("drelu_bgrad", "float32", large))[0] is Epilogue.DRELU
    assert ways(problem("gelu_aux_bias", "float32", large)) == [Epilogue.GELU_AUX_BIAS, Epilogue.NONE]
    assert ways(problem("relu_bias", E4)) == [Epilogue.RELU_BIAS]
    assert ways(problem()) == [Epilogue.NONE]


def test_gelu_of_float64_is_ours():
    for kind in ("gelu", "gelu_bias", "gelu_aux", "dgelu"):
        assert not fuses(problem(kind, "float64"), Epilogue(kind))
    assert fuses(problem("relu_bias", "float64"), Epilogue.RELU_BIAS)


# ---------------------------------------------------------------- GPUs that are too old, of which none is needed

OLDEST = [
    (E4, None, (8, 9), (8, 6)), ("float8_e5m2", None, (8, 9), (8, 6)), ("int8", None, (7, 5), (7, 2)),
    ("float32", "tf32", (8, 0), (7, 5)), ("bfloat16", None, (8, 0), (7, 5)), ("float16", None, (5, 0), (3, 7)),
]  # fmt: skip


@pytest.fixture
def gpu(monkeypatch):
    """A GPU of the compute capability that is put into the list."""
    found = []
    for module in (contexts, device):
        monkeypatch.setattr(module, "capability", lambda device: found[0])
    monkeypatch.setattr(contexts, "device_name", lambda device: "GPU")
    return found


@skip_if(simulated(), "not simulated")
@pytest.mark.parametrize("dtype, compute, oldest, older", OLDEST, ids=str)
def test_what_a_gpu_is_too_old_for(gpu, dtype, compute, oldest, older):
    """By NVIDIA's tables of which tensor cores multiply what."""
    given = problem(dtype=dtype, compute=compute)
    gpu[:] = [oldest]
    check_hardware(given)
    gpu[:] = [older]
    words = (compute or dtype, "{}.{} or newer".format(*oldest), "GPU", "{}.{}".format(*older))
    refused(DeviceError, *words, run=lambda: check_hardware(given))


@skip_if(simulated(), "not simulated")
@pytest.mark.parametrize("dtype, multiple", [(E4, 16), ("int8", 4)])
def test_how_older_tensor_cores_want_matrices_stored(gpu, dtype, multiple):
    """a row by row, b column by column, both in steps of so many elements; from 10.0 on as they like."""
    by_columns = layout((32, 32), (1, 32), dtypes.dtype(dtype), 0)
    given = problem(dtype=dtype)
    cases = {
        "row by row": {"a": by_columns, "b": given.call.b},
        "column by column": {"a": given.call.a, "b": rows((32, 32), dtype)},
        f"multiples of {multiple}": {"a": rows((32, 32), dtype, 32 + multiple // 2), "b": given.call.b},
    }
    for words, arrays in cases.items():
        wrong = resolve(given.call._replace(**arrays))
        gpu[:] = [(9, 0)]
        refused(LayoutError, words, run=lambda wrong=wrong: check_hardware(wrong))
        gpu[:] = [(10, 0)]
        check_hardware(wrong)
