"""Numbers in another dtype: rounded once, saturated, and the same in kernels, in the simulator and in NumPy."""

from __future__ import annotations

import math
import re

import numpy as np
import ptx
import pytest
from cast_oracle import assert_same, cast, hard_floats, hard_for_integers, hard_integers
from conftest import Operand
from operand_cases import SHAPE, check, each_layout, poisoned
from skips import skip_if

import numbacc
from numbacc import elementwise as ew
from numbacc.base import casts, dtypes
from numbacc.base.dispatch import simulated
from numbacc.base.dtypes import TABLE, words
from numbacc.functions.formula import Formula
from numbacc.kernels.specs import KernelSpec, compute_dtype

COUNT = SHAPE[0] * SHAPE[1]
FLOATS = ("float64", "float32", "float16", "bfloat16")
NARROW = ("float16", "bfloat16")
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
WIDE = ("int32", "int64", "uint32", "uint64")

compiles = skip_if(simulated(), "not simulated")


def identity(x):
    return x


def run(place, values, target, layouts=({}, {}), compute=""):
    """An array cast by a kernel."""
    values = values.reshape(SHAPE)
    wanted = cast(values, target)
    one, out = Operand(place, values, **layouts[0]), poisoned(place, target, layouts[1], SHAPE)
    with np.errstate(all="ignore"):
        check(place, identity, [one], [out], [wanted], compute=compute)
    assert_same(out.now(), wanted)


# ---------------------------------------------------------------- one rounding


@each_layout
@pytest.mark.parametrize("target", [*NARROW, *FLOAT8, "float32"])
def test_a_float64_is_rounded_once(device_place, target, layouts):
    run(device_place, hard_floats(target, COUNT), target, layouts)


@each_layout
@pytest.mark.parametrize("target", [*NARROW, *FLOAT8, "float32", "float64"])
@pytest.mark.parametrize("source", WIDE)
def test_an_integer_is_rounded_once(device_place, source, target, layouts):
    run(device_place, hard_integers(source, target, COUNT), target, layouts, compute=source)


@pytest.mark.parametrize("target", [*NARROW, "float32"])
@pytest.mark.parametrize("source", INTEGERS)
def test_an_integer_that_meets_floats_is_rounded_to_what_is_computed_in(device_place, source, target):
    values = hard_integers(source, "float32", COUNT).reshape(SHAPE)
    wanted = cast(cast(values, "float32"), target)
    one, out = Operand(device_place, values), poisoned(device_place, target, {})
    check(device_place, identity, [one], [out], [wanted])


@pytest.mark.parametrize("target", [*NARROW, *FLOAT8])
def test_a_result_is_rounded_once(device_place, target):
    """Not a copy alone: whatever float64 a formula comes to."""
    x, y = hard_floats(target, COUNT).reshape(SHAPE), np.full(SHAPE, 3.0)
    one, two = Operand(device_place, x), Operand(device_place, y)
    with np.errstate(all="ignore"):
        wanted = cast(x * y, target)
    check(device_place, lambda v, w: v * w, [one, two], [poisoned(device_place, target, {})], [wanted])


@pytest.mark.parametrize("target", [*NARROW, *FLOAT8, "float32"])
def test_numpy_rounds_once(target):
    dtype = dtypes.dtype(target)
    for values in (hard_floats(target, 2000), *(hard_integers(source, target, 500) for source in WIDE)):
        assert_same(casts.cast(values, dtype), cast(values, target))
        assert_same(casts.cast(values[7], dtype).reshape(1), cast(values[7:8], target))


@pytest.mark.parametrize("target", [*NARROW, *FLOAT8])
def test_values_of_an_array_are_rounded_once(place, target):
    dtype = dtypes.dtype(target)
    values = np.array([1 + 2.0 ** -(TABLE[target].significand_bits) * (1 + way * 2.0**-30) for way in (-1, 0, 1)])
    wanted = cast(values, target)
    array = place.put(np.zeros(3, dtype))
    device = None if place.is_device else "cpu"
    assert_same(place.get(numbacc.asarray(values, dtype, device=device)), wanted)
    assert_same(place.get(numbacc.asarray(values.tolist(), dtype, device=device)), wanted)
    for k, value in enumerate(values):
        assert_same(place.get(numbacc.full(1, value, dtype, device=device)), wanted[k : k + 1])
    if place.is_device:
        array[...] = values
        assert_same(place.get(array), wanted)


@pytest.mark.parametrize("target", NARROW)
def test_scalar_arguments_are_rounded_once(target):
    for value in hard_floats(target, 300).tolist():
        (word,) = words(value, target)
        got = np.array([word]).astype(np.int16).view(dtypes.dtype(target))
        assert_same(got, cast(np.array([value]), target))


# ---------------------------------------------------------------- integers of floats


@each_layout
@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
def test_what_no_integer_holds_is_saturated(device_place, source, target, layouts):
    run(device_place, hard_for_integers(source, target, COUNT), target, layouts)


@pytest.mark.parametrize("target", WIDE)
@pytest.mark.parametrize("source", FLOATS)
def test_floats_that_are_computed_with_as_integers_are_saturated(device_place, source, target):
    run(device_place, hard_for_integers(source, target, COUNT), target, compute=target)


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", [*FLOATS, *FLOAT8])
def test_numpy_saturates(source, target):
    values = hard_for_integers(source, target, 400)
    assert_same(casts.cast(values, np.dtype(target)), cast(values, target))
    assert_same(casts.cast(values[:1].reshape(()), np.dtype(target)).reshape(1), cast(values[:1], target))


@pytest.mark.parametrize("target", INTEGERS)
def test_arrays_that_are_assigned_are_saturated(place, target):
    values = hard_for_integers("float32", target, 100)
    device = None if place.is_device else "cpu"
    assert_same(place.get(numbacc.asarray(values, target, device=device)), cast(values, target))


@each_layout
@pytest.mark.parametrize("source", [*FLOATS, "complex64"])
def test_all_but_zero_is_true(device_place, source, layouts):
    values = np.resize([0.0, -0.0, math.nan, math.inf, -math.inf, 1e-7, 0.5, -3.0], COUNT).astype(dtypes.dtype(source))
    if source == "complex64":
        values.imag, values.real[::3] = np.roll(values.real, 1), 0
    run(device_place, values, "bool", layouts)


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", INTEGERS)
def test_integers_wrap(device_place, source, target):
    values = hard_integers(source, "float16", COUNT)
    wanted = values.astype(target)
    np.testing.assert_array_equal(casts.cast(values, np.dtype(target)), wanted)
    run(device_place, values, target, compute=source)
    np.testing.assert_array_equal(cast(values, target), wanted)


# ---------------------------------------------------------------- what it compiles to


def text(source, target, algorithm="vector", compute="", capability=(9, 0)):
    lanes = 16 // max(TABLE[source].itemsize, TABLE[target].itemsize)
    compute = compute or compute_dtype((source,), (target,))
    more = {"width": lanes, "lanes": lanes} if algorithm == "vector" else {}
    spec = KernelSpec(algorithm, Formula("cast", identity), (source,), (target,), 1, False, compute=compute, **more)
    return ptx.compiled(spec, capability).text


@compiles
@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (9, 0), (10, 0)], ids=str)
@pytest.mark.parametrize("algorithm", ["vector", "scalar"])
def test_an_instruction_makes_float16_of_float64(algorithm, capability):
    found = text("float64", "float16", algorithm, capability=capability)
    assert "cvt.rn.f16.f64" in found and ".f32" not in found


@compiles
@pytest.mark.parametrize("algorithm", ["vector", "scalar"])
@pytest.mark.parametrize("source, name", [("float64", "f64"), ("int64", "s64"), ("uint32", "u32")])
def test_bfloat16_is_made_of_float32_rounded_to_odd(source, name, algorithm):
    found = text(source, "bfloat16", algorithm, source)
    assert f"cvt.rz.f32.{name}" in found and f"cvt.rn.f32.{name}" not in found
    assert ("cvt.rn.bf16x2.f32" if algorithm == "vector" else "cvt.rn.bf16.f32") in found


@compiles
@pytest.mark.parametrize("target", ["float32", "float16", "bfloat16"])
def test_of_float32_nothing_is_looked_at_twice(target):
    found = text("float32", target)
    assert ".f64" not in found and ".rz" not in found and not re.search(r"setp\.\w+\.f32", found)


@compiles
@pytest.mark.parametrize("source, name", [("int64", "s64"), ("uint64", "u64")])
def test_an_integer_becomes_float32_in_one_instruction(source, name):
    found = text(source, "float32", compute=source)
    assert f"cvt.rn.f32.{name}" in found and ".f64" not in found


@compiles
@pytest.mark.parametrize("target, name", [("int32", "s32"), ("uint32", "u32"), ("int8", "s32"), ("uint16", "u32")])
def test_an_instruction_makes_32_bits_of_float32(target, name):
    found = text("float32", target)
    assert f"cvt.rzi.{name}.f32" in found and "nan" not in found


@compiles
@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)], ids=str)
@pytest.mark.parametrize(
    "source, target, compute",
    [
        ("float64", "float16", "float64"),
        ("float64", "bfloat16", "float64"),
        ("uint64", "bfloat16", "uint64"),
        ("float64", "int8", "float64"),
        ("bfloat16", "uint64", "float32"),
    ],
)
def test_each_instruction_is_one_of_the_gpu_s(source, target, compute, capability):
    spec = KernelSpec("scalar", Formula("cast", identity), (source,), (target,), 1, False, compute=compute)
    _, cubin = ptx.cubin(spec, capability)
    assert cubin.startswith(b"\x7fELF")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_copies_have_the_same_bits(place, dtype):
    """All 65,536 patterns, NaN with any payload too: dense, strided, under a mask, joined; not in a wider dtype."""
    kind = TABLE[dtype].numpy
    bits = np.arange(65536, dtype=np.uint16)[:: 16 if place.is_slow else 1].copy()
    bits[:4] = 0x7F81, 0xFF81, 0x7C01, 0xFC01  # signalling NaN
    x = place.put(bits.view(kind))

    def same(found, wanted):
        np.testing.assert_array_equal(np.ascontiguousarray(place.get(found)).view(np.uint16), wanted)

    same(ew.copy(x), bits)
    same(ew.copy(x[::-2]), bits[::-2])
    same(ew.astype(x, dtype), bits)
    same(ew.concatenate([x, x[:3]]), np.append(bits, bits[:3]))
    same(ew.stack([x, x], 1), np.stack([bits, bits], 1))
    out, mask = place.put(np.zeros(bits.size, kind)), np.arange(bits.size) % 3 == 0
    ew.copy(x, out=out, where=place.put(mask))
    same(out, np.where(mask, bits, 0))
    wide = place.empty(bits.shape, np.dtype(np.float32)).view
    ew.copy(x, out=wide)
    np.testing.assert_array_equal(place.get(wide), bits.view(kind).astype(np.float32))
