"""Floats of 8 bits to and from all other dtypes: every one of them, every number of 16 bits, and what lies halfway."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import ptx
import pytest
from cast_oracle import assert_same, cast, hard_floats, hard_integers
from conftest import bits, refused, sentinel
from row_ptx import dense
from skips import skip_if

import numbacc
from numbacc import elementwise as ew
from numbacc.base import casts
from numbacc.base.dispatch import launching_by, simulated
from numbacc.base.dtypes import TABLE
from numbacc.compiling import Noted
from numbacc.elementwise import casting, operation, planning
from numbacc.errors import DTypeError, LayoutError
from numbacc.functions.formula import Formula
from numbacc.kernels.specs import KernelSpec

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
FLOATS = ("float64", "float32", "float16", "bfloat16")
INTEGERS = tuple(name for name in TABLE if "int" in name)
OLDER, NEWER = [(7, 5), (8, 0), (8, 6)], [(8, 9), (9, 0), (10, 0)]

compiles = skip_if(simulated(), "not simulated")
each_float8 = pytest.mark.parametrize("name", FLOAT8)


def dtype(name):
    return TABLE[name].numpy


def every(name):
    """All numbers of a dtype of 8 or 16 bits."""
    size = dtype(name).itemsize
    return np.arange(256**size, dtype=f"u{size}").view(dtype(name))


def halfway(name):
    """float32s on what lies between two neighbours, and just beside; what lies between the largest and what follows."""
    numbers = every(name).astype(np.float64)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    middle = (numbers[:-1] + numbers[1:]) / 2
    beyond = LARGEST[name] + (numbers[-1] - numbers[-2]) / 2
    middle = np.concatenate([middle, [beyond, -beyond]]).astype(np.float32)
    ways = [np.nextafter(middle, np.float32(way)) for way in (-math.inf, math.inf)]
    smallest = np.array([1e-45, -1e-45, 0.0, -0.0, 3.4e38, -3.4e38, math.inf, -math.inf, math.nan], np.float32)
    return np.concatenate([middle, *ways, smallest])


# ---------------------------------------------------------------- conversions


@pytest.mark.parametrize("target", [*FLOATS, *FLOAT8, *INTEGERS, "bool"])
@each_float8
def test_every_number_to_other_dtypes(place, name, target):
    found = place.get(ew.astype(place.put(every(name)), target))
    assert_same(found, every(name) if name == target else cast(every(name), target))


@each_float8
def test_every_number_is_exact_in_wider_floats(place, name):
    x = place.put(every(name))
    for target in ("float64", "float32", "bfloat16", "float16"):
        assert_same(place.get(ew.astype(ew.astype(x, target), "float64")), every(name).astype(np.float64))
    parts = place.get(ew.astype(x, "complex64"))
    assert_same(parts.real.copy(), every(name).astype(np.float32))


@pytest.mark.parametrize("source", ["float16", "bfloat16"])
@each_float8
@pytest.mark.sampled(2)
def test_every_number_of_16_bits(place, name, source):
    values = every(source)
    if place.is_slow:  # those whose last bits decide nothing are left out
        values = values[np.unique(np.concatenate([np.arange(0, 65536, 61), np.arange(0x3800, 0x3D00, 3)]))]
    with np.errstate(all="ignore"):
        wanted = cast(values, name)
    assert_same(place.get(ew.astype(place.put(values), name)), wanted)


@each_float8
def test_halfway_numbers_become_even_ones(place, name):
    values = halfway(name)
    found = place.get(ew.astype(place.put(values), name))
    assert_same(found, cast(values, name))
    for source in ("float64", "float32"):
        x = values.astype(source)
        assert_same(place.get(ew.astype(place.put(x), name)), cast(x, name))


@each_float8
def test_what_is_beyond_the_range_becomes_the_largest_number(place, name):
    for source in ("float64", "float32", "float16", "bfloat16"):
        with np.errstate(all="ignore"):
            x = np.array([math.inf, -math.inf, 1e300, -1e300, 60000, -60000, math.nan]).astype(dtype(source))
        found = place.get(ew.astype(place.put(x), name)).astype(np.float64)
        most = LARGEST[name]
        np.testing.assert_array_equal(found, [most, -most] * 3 + [math.nan])
    assert place.get(ew.astype(place.put(np.array([2**62, -(2**62)])), name)).astype(float).tolist() == [most, -most]


@pytest.mark.parametrize("source", ["int32", "int64", "uint32", "uint64", "float64"])
@each_float8
def test_wide_numbers_are_rounded_once(place, name, source):
    with np.errstate(all="ignore"):
        values = hard_floats(name, 500) if source == "float64" else hard_integers(source, name, 300)
        assert_same(place.get(ew.astype(place.put(values), name)), cast(values, name))


def test_infinities_of_e5m2_are_numbers_of_e4m3fn(place):
    x = place.put(np.array([math.inf, -math.inf, 57344, math.nan]).astype(dtype("float8_e5m2")))
    found = place.get(ew.astype(x, "float8_e4m3fn")).astype(float)
    np.testing.assert_array_equal(found, [448, -448, 448, math.nan])


@each_float8
def test_arrays_are_made_of_numbers_alike(place, name):
    device = None if place.is_device else "cpu"
    values = np.array([1e9, -math.inf, 464.0, 0.1])
    wanted = cast(values, name)
    assert_same(place.get(numbacc.asarray(values, name, device=device)), wanted)
    assert_same(place.get(numbacc.asarray(values.tolist(), name, device=device)), wanted)
    assert_same(place.get(numbacc.full(1, 1e9, name, device=device)), wanted[:1])


@each_float8
def test_the_same_numbers_as_torch_within_the_range(numpy_place, torch, name):
    values = np.concatenate([halfway(name), every("float16").astype(np.float32)])
    values = values[np.abs(values) <= LARGEST[name]]
    theirs = torch.from_numpy(values).to(getattr(torch, name)).view(torch.uint8).numpy()
    np.testing.assert_array_equal(bits(ew.astype(values, name)), theirs)


# ---------------------------------------------------------------- layouts, out, where


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 15, 16, 17, 63, 129, 1027])
@pytest.mark.parametrize("source, target", [
    *((source, name) for name in FLOAT8 for source in ("float32", "bfloat16", "float64", "int8")),
    *((name, target) for name in FLOAT8 for target in ("float32", "float16", "uint8")),
    FLOAT8,
])  # fmt: skip
def test_any_length_from_any_address(place, source, target, count):
    values = cast(np.resize(halfway("float8_e4m3fn")[::5], count), source)
    for first in (0, 1, 3):
        x = place.operand(values, margins=[(first, 2)])
        out = place.empty((count,), dtype(target), margins=[(2 * first, 1)])
        assert ew.astype(x.view, target, out=out.view) is out.view
        assert_same(out.now(), cast(values, target))
        around = np.delete(bits(place.get(out.base)), np.s_[2 * first : 2 * first + count])
        np.testing.assert_array_equal(around, bits(np.asarray(sentinel(dtype(target)))))


@pytest.mark.parametrize(
    "how", [{"order": (1, 0)}, {"steps": (2, -3)}, {"steps": (0, 1)}, {"margins": [(0, 0), (1, 2)]}]
)
@pytest.mark.parametrize("source, target", [("float32", "float8_e4m3fn"), ("float8_e5m2", "bfloat16"), FLOAT8])
def test_strided_arrays(place, source, target, how):
    values = cast(np.resize(halfway("float8_e5m2"), (40, 37)), source)
    x = place.operand(values, **how)
    wanted = cast(np.ascontiguousarray(x.values), target)
    assert_same(place.get(ew.astype(x.view, target)), wanted)
    out = place.empty((40, 37), dtype(target), steps=(1, 2))
    ew.astype(x.view, target, out=out.view)
    assert_same(out.now(), wanted)


@pytest.mark.parametrize("how", [{}, {"order": (1, 0)}, {"steps": (2, -3)}, {"margins": [(0, 0), (1, 2)]}])
@each_float8
def test_copies_have_the_same_bits(place, name, how):
    """Infinities and NaNs, too."""
    x = place.operand(every(name).reshape(8, 32), **how)
    for found in (ew.copy(x.view), ew.astype(x.view, name), ew.copy.plan(x.view)(x.view)):
        np.testing.assert_array_equal(bits(place.get(found)), bits(np.array(x.values)))
    out = place.empty((8, 32), dtype(name), steps=(1, 2))
    ew.copy(x.view, out=out.view)
    np.testing.assert_array_equal(bits(out.now()), bits(np.array(x.values)))
    assert ew.astype(x.view, name, copy=False) is x.view


@each_float8
def test_where_a_mask_holds(place, name):
    old, x = every(name), np.roll(every(name), 1)
    mask = np.arange(256) % 3 == 0
    out = place.put(old)
    ew.copy(place.put(x), out=out, where=place.put(mask))
    np.testing.assert_array_equal(bits(place.get(out)), np.where(mask, bits(x), bits(old)))


@each_float8
def test_a_plan_is_called_again(place, name):
    x = np.array([0.3, -1e9, 7.7], np.float32)
    plan = ew.astype.plan(place.put(x), name)
    for values in (x, x * 2):
        assert_same(place.get(plan(place.put(values))), cast(values, name))
    assert plan.info.dtypes == ("float32", name)


def test_rows_put_together(place):
    x = np.array([math.inf, 1.5, math.nan]).astype(dtype("float8_e5m2"))
    found = place.get(ew.concatenate([place.put(x), place.put(x)]))
    np.testing.assert_array_equal(bits(found), np.tile(bits(x), 2))


# ---------------------------------------------------------------- what stays refused


@each_float8
def test_nothing_is_computed_with_them(place, name):
    x = place.put(np.ones(3, dtype(name)))
    single = place.put(np.ones(3, np.float32))
    for run in (
        lambda: ew.add(x, x), lambda: ew.exp(x), lambda: ew.equal(x, x), lambda: ew.where(True, x, x),
        lambda: ew.multiply(x, single), lambda: ew.multiply(x, 2.0),
    ):  # fmt: skip
        refused(DTypeError, name, "elementwise.astype", run=run)
    for run in (lambda: ew.sum(x), lambda: ew.max(x), lambda: ew.softmax(x), lambda: ew.sum(single, dtype=name)):
        refused(DTypeError, name, run=run)
    refused(DTypeError, "out", name, run=lambda: ew.copy(x, out=single))
    refused(DTypeError, "out", name, run=lambda: ew.exp(single, out=x))
    refused(DTypeError, "complex64", "real", run=lambda: ew.astype(place.put(np.ones(3, np.complex64)), name))
    refused(LayoutError, "out overlaps", run=lambda: ew.copy(x[1:], out=x[:2]))


# ---------------------------------------------------------------- what it compiles to


def text(source, target, algorithm="vector", capability=(9, 0)):
    lanes = 16 // max(TABLE[source].itemsize, TABLE[target].itemsize)
    more = {"width": lanes, "lanes": lanes} if algorithm == "vector" else {}
    formula = Formula("cast", lambda x: x)
    compute = str(TABLE[source].number)
    spec = KernelSpec(algorithm, formula, (source,), (target,), 1, False, compute=compute, **more)
    assert ptx.cubin(spec, capability)[1].startswith(b"\x7fELF")
    return ptx.compiled(spec, capability)


@compiles
@pytest.mark.each_alone(paired=True)
@pytest.mark.parametrize("capability", NEWER, ids=str)
@pytest.mark.parametrize("algorithm", ["vector", "scalar"])
@each_float8
def test_the_gpu_converts_pairs(name, algorithm, capability):
    short = f"{name.removeprefix('float8_').removesuffix('fn')}x2"
    pairs = 2 if algorithm == "vector" else 1
    down = text("float32", name, algorithm, capability).text
    assert down.count(f"cvt.rn.satfinite.{short}.f32") >= pairs and "setp.gt.u32" not in down
    up = text(name, "float32", algorithm, capability).text
    assert up.count(f"cvt.rn.f16x2.{short}") >= pairs
    assert ".f64" not in down + up


@compiles
@pytest.mark.each_alone(paired=True)
@pytest.mark.parametrize("capability", OLDER, ids=str)
@pytest.mark.parametrize("algorithm", ["vector", "scalar"])
@each_float8
def test_older_gpus_convert_by_arithmetic(name, algorithm, capability):
    for source, target in (("float32", name), (name, "float32")):
        found = text(source, target, algorithm, capability)
        assert "x2" not in found.text and ".f64" not in found.text and ".ftz" not in found.text


@compiles
@pytest.mark.parametrize(
    "source, target", [("float32", FLOAT8[0]), (FLOAT8[1], "bfloat16"), FLOAT8, (FLOAT8[0], "bool")]
)
def test_accesses_are_wide(source, target):
    """16 bytes of the wider one."""
    found = text(source, target)
    lanes = 16 // max(TABLE[source].itemsize, TABLE[target].itemsize)
    wanted = {lanes * TABLE[each].itemsize for each in (source, target)}
    assert wanted <= {access.nbytes for access in found.accesses}


@pytest.mark.sampled(1)
@compiles
@pytest.mark.parametrize(
    "shape, steps, algorithm",
    [
        ((256, 4096), (4096, 1), "vector"),
        ((257, 4097), (4100, 1), "uneven"),
        ((256, 4096), (1, 256), "tiled"),
        ((256, 4096), (8192, 2), "strided"),
        ((9, 7), (9, 1), "scalar"),
    ],
)
@pytest.mark.parametrize("source, target", [("bfloat16", FLOAT8[0]), (FLOAT8[1], "float32"), FLOAT8, FLOAT8[:1] * 2])
def test_every_kernel_converts(source, target, shape, steps, algorithm):
    x, out = dense(shape, source, steps), dense(shape, target)
    row, found = casting._row(target), []
    with launching_by(Noted.into(found)):
        operation.ElementwisePlan(row, planning.plan_of(row, (x,), None, (out,))).choose([0, 0])
    spec = found[-1]
    assert spec.algorithm == algorithm
    for capability in ((8, 0), (9, 0)):
        assert ptx.cubin(spec, capability)[1].startswith(b"\x7fELF")
        found = ptx.compiled(spec, capability).text
        # A copy is one of bytes.
        assert source != target or "cvt.rn" not in found


@compiles
@pytest.mark.parametrize("source, target", [("float64", FLOAT8[0]), ("uint64", FLOAT8[1])])
def test_wide_numbers_are_first_rounded_to_odd(source, target):
    assert "cvt.rz.f32." in text(source, target).text


# ---------------------------------------------------------------- the arithmetic of older GPUs, run on the CPU


def on_the_host(convert, source, target):
    """A function of arrays that applies LLVM code to each element, compiled for the CPU.

    Args:
        convert: (builder, value) -> value.
        source, target: LLVM's types of both.
    """
    import llvmlite.binding as llvm
    from llvmlite import ir

    word, module = ir.IntType(64), ir.Module()
    kind = ir.FunctionType(ir.VoidType(), [source.as_pointer(), target.as_pointer(), word])
    function = ir.Function(module, kind, "each")
    before, loop, behind = (function.append_basic_block() for _ in range(3))
    ir.IRBuilder(before).branch(loop)
    builder = ir.IRBuilder(loop)
    k = builder.phi(word)
    value = builder.load(builder.gep(function.args[0], [k]))
    builder.store(convert(builder, value), builder.gep(function.args[1], [k]))
    following = builder.add(k, word(1))
    k.add_incoming(word(0), before)
    k.add_incoming(following, loop)
    builder.cbranch(builder.icmp_unsigned("<", following, function.args[2]), loop, behind)
    ir.IRBuilder(behind).ret_void()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    target_machine = llvm.Target.from_default_triple().create_target_machine(llvm.get_host_cpu_name(), features)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), target_machine)
    engine.finalize_object()
    called = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)

    def run(values, dtype):
        out = np.empty(values.shape, dtype)
        called(engine.get_function_address("each"))(values.ctypes.data, out.ctypes.data, values.size)
        return out

    return run


@pytest.fixture
def older_gpu(monkeypatch):
    """Code is made for a GPU without the instructions; its own conversion of float16 is the CPU's."""
    from llvmlite import ir

    from numbacc.kernels.primitives import float8

    monkeypatch.setattr(float8, "capability_compiled_for", lambda: (8, 0))
    monkeypatch.setattr(
        float8, "_of_half", lambda builder, bits: builder.fpext(builder.bitcast(bits, ir.HalfType()), ir.FloatType())
    )
    return float8, ir


@compiles
@each_float8
def test_older_gpus_widen_every_number(older_gpu, name):
    float8, ir = older_gpu
    run = on_the_host(lambda builder, x: float8.widen(builder, TABLE[name], [x])[0], ir.IntType(8), ir.FloatType())
    assert_same(run(every(name), np.float32), every(name).astype(np.float32))


@compiles
@each_float8
def test_older_gpus_round_as_the_others(older_gpu, name):
    float8, ir = older_gpu
    run = on_the_host(lambda builder, x: float8.narrow(builder, TABLE[name], [x])[0], ir.FloatType(), ir.IntType(8))
    exact = halfway(name)
    assert_same(run(exact, np.uint8).view(dtype(name)), cast(exact, name))
    # Against the host's conversion, which has been compared with the oracle: one in 997 of all float32.
    many = np.arange(0, 2**32, 997, dtype=np.uint64).astype(np.uint32).view(np.float32)
    assert_same(run(many, np.uint8).view(dtype(name)), casts.cast(many, dtype(name)))
