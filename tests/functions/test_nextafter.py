"""`nextafter`: the next number of each dtype, against the oracle's, which counts bits."""

from __future__ import annotations

import math

import elementwise_oracle as oracle
import numpy as np
import ptx
import pytest
from cast_oracle import assert_same
from conftest import refused
from elementwise_ptx import spec_of
from skips import skip_if

import numbacc
from numbacc import elementwise as ew
from numbacc.base.dispatch import simulated
from numbacc.elementwise.rows import TABLE
from numbacc.errors import DTypeError

BY_NAME = {dtype.name: dtype for dtype in oracle.DTYPES}
each_dtype = pytest.mark.parametrize("dtype", oracle.DTYPES, ids=str)
each_narrow = pytest.mark.parametrize("dtype", [BY_NAME["float16"], BY_NAME["bfloat16"]], ids=str)


def check(place, x, y):
    found = place.get(ew.nextafter(place.put(x), place.put(y)))
    wanted = oracle.nextafter(x.dtype, x, y)
    assert_same(found, wanted)


@each_narrow
@pytest.mark.parametrize("toward", [-math.inf, 0.0, -0.0, 1.5, math.inf, math.nan])
def test_every_number_of_16_bits(place, dtype, toward):
    x = oracle.all_16_bit(dtype)
    if place.is_slow:
        ends = [0, 1, 2, 0x3FF, 0x400, 0x401, 0x7F, 0x80, 0x81, 0x7BFF, 0x7C00, 0x7C01, 0x7F7F, 0x7F80, 0x7F81]
        chosen = np.concatenate([ends, np.arange(0, 0x8000, 131)])
        x = x[np.concatenate([chosen, chosen + 0x8000])]
    check(place, x, np.full_like(x, toward))


@each_dtype
def test_special_numbers_towards_each_other(place, dtype):
    specials = oracle.SPECIALS[dtype][:: 23 if place.is_slow else 3]
    x, y = (each.ravel() for each in np.meshgrid(specials, specials))
    check(place, x, y)


@each_dtype
def test_random_bits(place, dtype):
    words = np.random.default_rng(1).integers(0, 2**64, (2, 400 if place.is_slow else 40000), np.uint64)
    x, y = words.astype(f"u{dtype.itemsize}").view(dtype)
    check(place, x, y)
    check(place, x, np.roll(x, 1))


@each_dtype
def test_there_and_back(place, dtype):
    limits = np.array([0.0, -0.0, 1.0, -1.0, 2.0**-14, 6e-5, 3.0]).astype(dtype)
    x = place.put(limits)
    beyond = ew.nextafter(ew.nextafter(x, math.inf), -math.inf)
    np.testing.assert_array_equal(place.get(beyond).astype(float), limits.astype(float))


@each_dtype
def test_numbers_are_rounded_to_the_dtype(place, dtype):
    """So that the array made of a number and the number are equal, as in NumPy."""
    x = place.put(np.array([0.1, -0.1]).astype(dtype))
    found = place.get(ew.nextafter(x, 0.1))
    assert_same(found[:1], place.get(x)[:1])
    assert_same(place.get(ew.nextafter(0.0, x)), oracle.nextafter(dtype, 0.0, place.get(x)))
    assert_same(place.get(ew.nextafter(x, -np.inf)), oracle.nextafter(dtype, place.get(x), np.full(2, -np.inf)))


@pytest.mark.parametrize("how", [{"order": (1, 0)}, {"steps": (2, -3)}, {"margins": [(1, 0), (3, 2)]}])
@each_dtype
def test_layouts_and_out(place, dtype, how):
    data = np.resize(oracle.SPECIALS[dtype], (9, 40))
    x, y = place.operand(data, **how), place.operand(np.roll(data, 7)[:1])
    out = place.empty((9, 40), dtype, steps=(1, 2))
    assert ew.nextafter(x.view, y.view, out=out.view) is out.view
    assert_same(out.now(), oracle.nextafter(dtype, np.array(x.values), np.array(y.values)))


def test_wider_results_are_those_of_the_arguments_dtype(place):
    """Infinity behind float16's largest number, not float32's next."""
    x = place.put(np.array([65504, 1.0, 6e-8], np.float16))
    out = place.put(np.full(3, np.nan, np.float32))
    ew.nextafter(x, np.inf, out=out)
    wanted = oracle.nextafter(np.float16, place.get(x), np.full(3, np.inf, np.float16))
    np.testing.assert_array_equal(place.get(out), wanted.astype(np.float32))


@pytest.mark.parametrize("names", [("float16", "float32"), ("int8", "int8"), ("int32", "float32"), ("bool", "float16")])
def test_dtypes_meet_as_in_numpy(place, names):
    x, y = np.array([1, 0, 1]).astype(names[0]), np.array([0, 1, 1]).astype(names[1])
    wanted = np.nextafter(x, y)
    assert_same(place.get(ew.nextafter(place.put(x), place.put(y))), wanted)


def test_the_protocols(device_place):
    x = device_place.put(np.array([1.0, -1.0], np.float32))
    for function in (np.nextafter, x.__array_namespace__().nextafter):
        found = function(x, np.float32(2))
        assert isinstance(found, type(x))
        assert_same(device_place.get(found), np.nextafter(np.array([1, -1], np.float32), np.float32(2)))


def test_of_complex_numbers_there_is_none(place):
    x = place.put(np.ones(2, np.complex64))
    refused(DTypeError, "nextafter", "complex64", run=lambda: ew.nextafter(x, x))


def test_a_kernel_of_one_s_own_has_no_dtype_to_step_in(place):
    @ew.kernel
    def following(x):
        return ew.nextafter(x, math.inf)

    with pytest.raises(numbacc.Error, match="following has no form"):
        following(place.put(np.ones(2, np.float32)))


@pytest.mark.sampled(1)
@skip_if(simulated(), "not simulated")
@each_dtype
def test_it_is_compiled_to_steps_of_integers(dtype):
    """Numbers that are very small are not taken for 0."""
    spec = spec_of(TABLE["nextafter"].row, dtype.name)
    found = ptx.compiled(spec).text
    assert ".ftz" not in found and ("add.s64" if dtype == np.float64 else "add.s32") in found
    assert dtype == np.float64 or ".f64" not in found
    assert "call" not in found
    assert ptx.cubin(spec, (8, 0))[1].startswith(b"\x7fELF")
