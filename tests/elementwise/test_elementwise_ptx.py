"""What the kernels of elementwise functions are compiled to, without a GPU: every row of the table."""

from __future__ import annotations

import re

import ptx
import pytest
from elementwise_ptx import launched_by, spec_of
from row_ptx import dense
from skips import skip_if

import numbacc
from numbacc.base.dispatch import simulated
from numbacc.elementwise import gradients, operation, planning
from numbacc.elementwise.rows import TABLE

pytestmark = [skip_if(simulated(), "not simulated"), pytest.mark.each_alone(in_pairs=True)]

#: What reduces large angles: CUDA's own functions do it in float64, with a table in local memory.
ANGLES = {"sin", "cos", "tan", "sin_backward", "cos_backward", "tan_backward", "digamma_backward"}
COMPLEX_ANGLES = {"exp", "exp2", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "pow"}
#: What does not depend on the integers that it is given, and does not load them.
CONSTANT = {"isnan", "isinf", "isfinite", "frac", "imag"}


def check(name, spec, *, is_loaded=True):
    found = ptx.compiled(spec)
    accesses = [access for access in found.accesses if access.space != "local"]
    loads = {access.nbytes for access in accesses if access.operation == "ld"}
    assert not is_loaded or 16 in loads, "no 128-bit load"
    if name not in ANGLES:
        assert len(accesses) == len(found.accesses), "local memory"
        if "float64" not in (spec.compute, *spec.dtypes):
            assert not re.search(r"\.f64", found.text), "float64 in float32's arithmetic"
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", [name for name in TABLE if "f" in TABLE[name].row.meanings])
@pytest.mark.sampled(8)
def test_functions(name, dtype):
    check(name, spec_of(TABLE[name].row, dtype), is_loaded=name != "imag")


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "quick_gelu"])
def test_long_formulas_of_many_numbers(name):
    """A thread has 32 of them in registers."""
    spec = spec_of(TABLE[name].row, "float32")
    assert spec.algorithm == "vector" and spec.lanes == 32
    registers, spilled = check(name, spec).usage((9, 0))
    assert registers <= 64 and not spilled


@pytest.mark.parametrize("name", gradients.DIFFERENTIABLE)
@pytest.mark.sampled(4)
def test_gradients(name):
    row = gradients.gradient_row(TABLE[name].row)
    check(row.name, spec_of(row, "bfloat16"))


@pytest.mark.parametrize("name", [name for name in TABLE if "i" in TABLE[name].row.meanings])
@pytest.mark.sampled(4)
def test_integers(name):
    spec = spec_of(TABLE[name].row, "int32")
    found = check(name, spec, is_loaded=name not in CONSTANT)
    if name not in ("divide", "floor", "ceil", "trunc", "round"):
        assert not re.search(r"\.f(32|64)\s", found.text) or TABLE[name].row.rule in ("float", "divide")


@pytest.mark.parametrize("name", [name for name in TABLE if "c" in TABLE[name].row.meanings])
@pytest.mark.sampled(4)
def test_complex(name):
    """Single precision but where CUDA reduces large angles."""
    found = ptx.compiled(spec_of(TABLE[name].row, "complex64"))
    loads = [access for access in found.accesses if access.space != "local" and access.operation == "ld"]
    assert max(access.nbytes for access in loads) == 16
    if name not in COMPLEX_ANGLES:
        assert ".f64" not in found.text and not any(access.space == "local" for access in found.accesses)


@pytest.mark.parametrize("name", ["exp", "add", "where", "gelu", "elu"])
@pytest.mark.parametrize("steps", [(8192, 2), (1, 256), (4097, 1)], ids=["gaps", "transposed", "odd"])
def test_other_layouts(name, steps):
    shape = (256, 4096) if steps != (4097, 1) else (256, 4097)
    spec = spec_of(TABLE[name].row, "bfloat16", shape, steps)
    assert ptx.compiled(spec).usage((9, 0))[1] == 0 if ptx.ptxas() else ptx.compiled(spec)


def test_numbers_are_passed_not_compiled_in():
    """Another number is no other kernel."""
    row = TABLE["multiply"].row
    assert operation.planned(row, (dense((256,), "float32"), float)).task.scalars == ("float32",)
    with pytest.raises(numbacc.DTypeError, match="scalars and float8"):
        operation.planned(row, (dense((256,), "float8_e5m2"), float))


@pytest.mark.parametrize("names", [("int64", "uint64"), ("uint64", "int8")])
@pytest.mark.parametrize("name", ["equal", "less", "greater_equal"])
def test_integers_that_meet_in_no_integer_are_compared_as_integers(name, names):
    plan = operation.planned(TABLE[name].row, tuple(dense((4096,), each) for each in names))
    text = ptx.compiled(launched_by(plan)).text
    assert ".f64" not in text and ("setp.gt.s64" in text or "setp.lt.s64" in text or "setp.eq.s64" in text)


def masked_spec(source, target, shape, steps):
    """The kernel of a sum where a mask holds: x transposed where the steps say so."""
    x, y, mask, out = dense(shape, source, steps), *(dense(shape, each) for each in (source, "bool", target))
    planned = planning.plan_of(TABLE["add"].row, (x, y), mask, (out,))
    plan = operation.ElementwisePlan(TABLE["add"].row, planned)
    return launched_by(plan)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "left_shift", "square", "pow"])
def test_narrow_integers_are_cut_off_before_they_widen(name):
    x, out = dense((4096,), "uint8"), dense((4096,), "int64")
    row = TABLE[name].row
    given = (x,) * len(row.names)
    plan = operation.ElementwisePlan(row, planning.plan_of(row, given, None, (out,)))
    stores = re.findall(r"st\.global\.v2\.u64 .*\{(%rd\d+), (%rd\d+)\}", (text := ptx.compiled(launched_by(plan)).text))
    assert stores
    for register in (each for pair in stores for each in pair):
        assert re.search(rf"and\.b64\s+{register}, %rd\d+, 255;", text) or f"selp.b64 \t{register}," in text, register


@pytest.mark.parametrize("source", ["int8", "int16", "int32"])
def test_the_least_integer_keeps_its_sign(source):
    """ptxas widens what abs.s16 gives as if it had no sign."""
    x, out = dense((4096,), source), dense((4096,), "int64")
    row = TABLE["abs"].row
    plan = operation.ElementwisePlan(row, planning.plan_of(row, (x,), None, (out,)))
    assert not re.search(r"\babs\.", ptx.compiled(launched_by(plan)).text)


@pytest.mark.parametrize(
    "shape, steps, algorithm",
    [
        ((256, 4096), (4096, 1), "vector"),
        ((257, 4097), (4097, 1), "vector"),
        ((257, 4097), (4100, 1), "uneven"),
        ((256, 4096), (1, 256), "tiled"),
        ((256, 4096), (8192, 2), "strided"),
        ((9, 7), (8, 1), "scalar"),
    ],
)
@pytest.mark.parametrize(
    "source, target",
    [
        ("float32", "float64"), ("float16", "float16"), ("bfloat16", "float32"), ("float64", "bfloat16"),
        ("int64", "int8"), ("bool", "int32"), ("bool", "bool"), ("uint64", "int64"), ("complex64", "complex128"),
    ],
)  # fmt: skip
@pytest.mark.sampled(3)
def test_masked_results_keep_bits(source, target, shape, steps, algorithm):
    spec = masked_spec(source, target, shape, steps)
    # Elements of 16 bytes always lie on 16 bytes, and tiles of three arrays of them are too large.
    assert spec.algorithm == algorithm or (target == "complex128" and spec.algorithm in ("vector", "strided"))
    assert spec.formula.kept == (3,)
    found = ptx.compiled(spec)
    assert "local" not in {access.space for access in found.accesses} and "call" not in found.text
    # A kernel's code has no more shared memory: with more it is not linked.
    assert sum(map(int, re.findall(r"\.shared .*\[(\d+)\]", found.text))) <= 48 * 1024
    if ptx.ptxas():
        # Four inputs, one of them the old values, are a lot for `uneven`, and for tiles of 16 bytes.
        assert found.usage((9, 0))[1] <= {"uneven": 128, "tiled": 128}.get(algorithm, 0)
    if algorithm == "vector":
        assert "ld" in {access.operation for access in found.accesses if access.nbytes == 16}
    if "float64" not in (source, target) and target != "complex128":
        assert ".f64" not in found.text
    if target in ("float16", "bfloat16"):
        # What is kept is no number.
        assert "cvt.f32.f16" not in found.text or source == "float16"


def kernel_of(name, x, y, result=None):
    """The PTX of a function of two arrays, or an array and a number, of these dtypes."""
    arrays = [each if each is float else dense((4096,), each) for each in (x, y, result or x)]
    row = TABLE[name].row
    outs = None if result is None else (arrays[2],)
    plan = operation.ElementwisePlan(row, planning.plan_of(row, tuple(arrays[:2]), None, outs))
    return ptx.compiled(launched_by(plan)).text


#: Functions, and the instruction that only their short forms have.
SHORT = pytest.mark.parametrize(
    "name, short", [("pow", "lg2.approx"), ("atan2", "rcp.approx"), ("floor_divide", "rcp.approx")]
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@SHORT
def test_arrays_of_16_bits_have_short_forms(name, short, dtype):
    assert short in kernel_of(name, dtype, dtype)


@pytest.mark.parametrize(
    "x, y, result",
    [
        ("bfloat16", float, None),
        ("bfloat16", "float32", None),
        ("bfloat16", "float16", None),
        ("bfloat16", "int8", None),
        ("bfloat16", "bfloat16", "float32"),
        ("float32", "float32", None),
    ],
)
@SHORT
@pytest.mark.sampled(2)
def test_no_other_arrays_have_them(name, short, x, y, result):
    """Where one argument has more bits, or what is stored."""
    assert short not in kernel_of(name, x, y, result)
