"""Elementwise functions: the dtypes that arguments meet in, conversions, and numbers beside arrays."""

# ruff: noqa: B023
from __future__ import annotations

import itertools
import math

import cast_oracle
import numpy as np
import pytest
from conftest import refused
from in_one import in_one
from mixed_dtypes import NAMES, NUMBERS, REAL, dtype, met, one, values

import numbacc
from numbacc import elementwise as ew
from numbacc.base import dtypes
from numbacc.errors import DTypeError, OptionError

# ---------------------------------------------------------------- dtypes


@pytest.mark.parametrize("first", NAMES)
def test_where_dtypes_meet(place, first):
    for second in NAMES:
        assert ew.add(one(place, first), one(place, second)).dtype == dtype(met(first, second)), second
        if second != "bfloat16":  # NumPy's numbers count as arrays do
            found = ew.add(one(place, first), dtype(second).type(1)).dtype
            # A NumPy truth value is one of Python's.
            assert found == dtype(met(first, second)), second
    for number in (True, 1, 1.0, 1j):
        want = dtype(met(first, type(number)))
        assert ew.add(one(place, first), number).dtype == want, number
        assert ew.add(number, one(place, first)).dtype == want, number
        assert ew.where(place.put(np.array([True, False])), number, one(place, first)).dtype == want


def test_where_three_dtypes_meet(numpy_place):
    """As NumPy's own ternary function has it, whatever their order."""
    known = [name for name in NUMBERS if name in REAL and name != "bfloat16"]
    for names in itertools.product(known, repeat=3):
        want = np.result_type(*names)
        assert ew.clamp(*(np.ones(2, name) for name in names)).dtype == want, names


@pytest.mark.parametrize(
    "function, theirs", [("exp", np.exp), ("divide", np.divide), ("atan2", np.arctan2), ("angle", np.angle)]
)
@pytest.mark.parametrize("name", [n for n in NAMES if n != "bfloat16"])
def test_result_dtypes_of_other_rules(place, function, theirs, name):
    if function == "atan2" and name.startswith("complex"):
        return refused(DTypeError, "atan2", "complex", run=lambda: ew.atan2(one(place, name), one(place, name)))
    count = 1 if function in ("exp", "angle") else 2
    # NumPy has no angle of truth values.
    want = np.dtype("float16") if (function, name) == ("angle", "bool") else theirs(*[np.ones(2, name)] * count).dtype
    assert getattr(ew, function)(*[one(place, name)] * count).dtype == want
    return None


def hard(source, target):
    """Values of a dtype that are hard to convert."""
    if source == "bool":
        return np.array([True, False])
    if source.startswith("complex"):
        return np.array([0, 1j, -2.5 + 3j, complex(np.nan, 1), complex(-0.0, -np.inf)], source)
    if target.startswith("complex"):
        target = "float32" if target == "complex64" else "float64"
    kind, other = dtypes.TABLE[source], dtypes.TABLE[target]
    is_float = other.is_float or other.is_scaled
    if kind.is_float or kind.is_scaled:
        if "int" in target:
            return cast_oracle.hard_for_integers(source, target, 60)
        floats = cast_oracle.hard_floats(target if is_float else source, 80)
        return cast_oracle.cast(floats, source)
    return cast_oracle.hard_integers(source, target if is_float else "float32", 60)


@pytest.mark.parametrize("source", dtypes.TABLE)
@in_one("target", dtypes.TABLE)
def test_astype(place, source, target):
    x = hard(source, target)
    if source.startswith("complex") and not target.startswith(("complex", "bool")):
        return refused(DTypeError, source, target, "real", run=lambda: ew.astype(place.put(x), target))
    with np.errstate(all="ignore"):
        if "complex" in target:
            wanted = x.astype(dtype(target)) if "complex" in source else None
            part = "float32" if target == "complex64" else "float64"
            wanted = cast_oracle.cast(x, part).astype(target) if wanted is None else wanted
        else:
            wanted = cast_oracle.cast(x, target)
    found = place.get(ew.astype(place.put(x), target))
    assert found.dtype == wanted.dtype
    for part, other in zip((found.real, found.imag), (wanted.real, wanted.imag), strict=True):
        cast_oracle.assert_same(np.asarray(part), np.asarray(other))
    return None


def test_astype_without_a_copy(place):
    x = one(place, "float32")
    assert ew.astype(x, np.float32, copy=False) is x
    assert ew.astype(x, np.float32) is not x
    refused(DTypeError, "dtype", "wrong", run=lambda: ew.astype(x, "wrong"))
    mask = place.put(np.array([True, False]))
    refused(OptionError, "out", run=lambda: ew.astype(x, "float32", copy=False, where=mask))


# ---------------------------------------------------------------- numbers


def put(place, numbers, name):
    return place.put(np.array(numbers).astype(dtype(name)))


def test_zeros_keep_their_signs(place):
    """Also one after the other, where caches would take them for the same."""
    x = put(place, [1.0, 2.0], "float32")
    for zero in (0.0, -0.0, 0.0, -0.0, 0):
        np.testing.assert_array_equal(place.get(ew.copysign(x, zero)), math.copysign(1, zero) * np.array([1, 2]))
        np.testing.assert_array_equal(np.signbit(place.get(ew.where(put(place, [1, 0], "bool"), zero, x))), [
            math.copysign(1, zero) < 0, False
        ])  # fmt: skip


@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_parts_of_complex_numbers_keep_their_signs(place, name):
    x, mask = put(place, [2j, 3], name), put(place, [True, False], "bool")
    for number in (complex(0.0, 1), complex(-0.0, 1), complex(1, 0.0), complex(1, -0.0), complex(-0.0, -0.0)):
        for given in (number, dtype(name).type(number)):
            found = place.get(ew.where(mask, given, x))[0]
            signs = np.signbit([found.real, found.imag])
            np.testing.assert_array_equal(signs, np.signbit([number.real, number.imag]), str(number))


def test_equal_numbers_of_several_kinds(place):
    """1, True, 1.0, 1+0j and NumPy's are not taken for each other."""
    x = put(place, [1, 2], "int8")
    numbers = [1, True, 1.0, 1 + 0j, np.int16(1), np.float32(1), np.uint8(1), np.True_]
    for number in [*numbers, *reversed(numbers)]:
        found = place.get(ew.add(x, number))
        assert found.dtype == np.add(np.ones(1, np.int8), number).dtype, repr(number)
        np.testing.assert_array_equal(found, [2, 3])


def test_numbers_in_any_place(place):
    x, host = put(place, [1, 2, 3], "float32"), np.array([1, 2, 3], np.float32)
    mask = put(place, [1, 0, 1], "bool")
    for found, wanted in [
        (ew.pow(2.0, x), 2**host),
        (ew.subtract(1, x), 1 - host),
        (ew.divide(1, x), 1 / host),
        (ew.where(mask, 1.0, x), np.where([1, 0, 1], 1, host)),
        (ew.where(mask, x, -1), np.where([1, 0, 1], host, -1)),
        (ew.where(mask, 7.5, x * 0 if place.is_device else host * 0), [7.5, 0, 7.5]),
        (ew.where(True, x, 5.0), host),
        (ew.where(0, x, 5.0), [5, 5, 5]),
        (ew.clamp(x, 2, 2.5), [2, 2, 2.5]),
        (ew.clamp(2.0, x, 9), [2, 2, 3]),
        (ew.fma(2, x, 1), 2 * host + 1),
        (ew.fma(2, 3.0, x), 6 + host),
        (ew.lerp(0.0, x, 0.5), host / 2),
        (ew.less(2, x), host > 2),
    ]:
        np.testing.assert_allclose(place.get(found), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "number", [0.5, 1e-300, math.nan, 300, -1, 2**70, 1j, np.int64(256), np.float64(0.25), True, 0, 0.0]
)
@pytest.mark.parametrize("name", ["uint8", "float16", "complex64", "bool"])
def test_a_number_as_condition(place, name, number):
    """What is not 0 holds, whatever the dtype of what is chosen from."""
    x, y = put(place, [1, 0, 1], name), put(place, [0, 1, 1], name)
    np.testing.assert_array_equal(place.get(ew.where(number, x, y)), place.get(x if number else y))


@pytest.mark.parametrize("condition", [n for n in NAMES if n != "bool"])
@pytest.mark.parametrize("name", ["uint8", "float16", "int64"])
def test_an_array_as_condition(place, name, condition):
    """Likewise: halves beside integers, 256 beside 8 bits, what is tiny in float64, imaginary numbers."""
    tests = {"f": [0.5, 0, math.nan, -0.0], "i": [1, 0, 64, -128], "u": [1, 0, 64, 128], "c": [1j, 0, 0.5, -0.0]}
    kind = "f" if condition == "bfloat16" else dtype(condition).kind
    host = np.array([*tests[kind], {"int64": 2**40, "uint64": 2**40, "float64": 1e-300}.get(condition, 0)])
    host = host.astype(dtype(condition))
    x, y = values((5,), name, 1, 0, 3), values((5,), name, 2, 4, 8)
    found = place.get(ew.where(place.put(host), place.put(x), place.put(y)))
    np.testing.assert_array_equal(found, np.where(host != 0, x, y))


def test_numbers_that_a_dtype_has_not(place):
    for name, number in [("int8", 128), ("uint8", -1), ("int64", 2**63), ("uint64", -1), ("uint64", 2**64)]:
        x = one(place, name)
        for run in (lambda: ew.add(x, number), lambda: ew.add(number, x), lambda: ew.clamp(x, 0, number)):
            refused(OptionError, str(number), name, run=run)
    x = one(place, "float32")
    with pytest.raises(numbacc.Error, match="x2"):
        ew.add(x, 10**400)
    refused(DTypeError, "complex", run=lambda: ew.less(x, 1j))
    refused(DTypeError, "complex", run=lambda: ew.atan2(1j, x))
    refused(OptionError, "negative_slope", "real", run=lambda: ew.leaky_relu(x, negative_slope=1j))
    refused(DTypeError, "only scalars", "asarray", run=lambda: ew.add(1, 2.0))
    for wrong in ("1", None, [1.0], object()):
        refused(DTypeError, "x2", run=lambda: ew.add(x, wrong))


@pytest.mark.parametrize("name", ["int8", "uint8", "int64", "uint64"])
def test_comparisons_with_integers_beyond_the_dtype(place, name):
    """As in NumPy, they have an answer."""
    x = np.array([0, 1, 127], name)
    for number in (300, -1, -129, 2**31, 2**63, 2**64 + 1, -(2**63) - 1):
        for function in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
            wanted = getattr(np, function)(x, number)
            np.testing.assert_array_equal(place.get(getattr(ew, function)(place.put(x), number)), wanted)


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("function", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
def test_signed_and_unsigned_integers_of_64_bits_are_compared_exactly(place, function, name):
    """Though they meet in float64, which has not all of either."""
    limits = np.iinfo(name)
    ends = [limits.min, limits.min + 1, -2, -1, 0, 1, limits.max - 1, limits.max]
    a = [*ends, *([2**62 + 1, 2**53 + 1, -(2**53) - 1] if name == "int64" else [])]
    b = [0, 1, limits.max, limits.max + 1, 2**53, 2**53 + 1, 2**62, 2**62 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 2]
    x, y = np.array(a, name)[:, None], np.array(b, np.uint64)
    compared = {
        "equal": int.__eq__, "not_equal": int.__ne__, "less": int.__lt__, "less_equal": int.__le__,
        "greater": int.__gt__, "greater_equal": int.__ge__,
    }[function]  # fmt: skip
    wanted = np.array([[compared(one, other) for other in b] for one in a])
    ours, theirs = getattr(ew, function), np.array([[compared(other, one) for other in b] for one in a])
    np.testing.assert_array_equal(place.get(ours(place.put(x), place.put(y))), wanted)
    np.testing.assert_array_equal(place.get(ours(place.put(y), place.put(x))), theirs)
    for k, number in enumerate(y):
        np.testing.assert_array_equal(place.get(ours(place.put(x), number)), wanted[:, k : k + 1])
        np.testing.assert_array_equal(place.get(ours(number, place.put(x))), theirs[:, k : k + 1])
    for k, number in enumerate(x[:, 0]):
        np.testing.assert_array_equal(place.get(ours(place.put(y), number)), theirs[k])
    mask, out = place.put(y % 2 == 0), place.put(np.full(wanted.shape, True))
    ours(place.put(x), place.put(y), out=out, where=mask)
    np.testing.assert_array_equal(place.get(out), wanted | (y % 2 == 1))
    # What gives one of the two has to have a dtype for it.
    assert ew.maximum(place.put(x), place.put(y)).dtype == np.float64


def test_options_that_the_dtype_has_not(place):
    """Half of a product of integers is no integer."""
    x = one(place, "int32")
    np.testing.assert_array_equal(place.get(ew.addcmul(x, x, x, value=3)), 4)
    with pytest.raises(numbacc.Error, match="value"):
        ew.addcmul(x, x, x, value=0.5)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_a_decimal_fraction_equals_the_array_made_of_it(place, name):
    for number in (0.1, 1 / 3, 1e-7, -2.7, 3):
        x = put(place, [number, 2.0], name)
        np.testing.assert_array_equal(place.get(ew.equal(x, number)), [True, False])
        np.testing.assert_array_equal(place.get(ew.not_equal(number, x)), [False, True])
        np.testing.assert_array_equal(place.get(ew.less(x, number)), [False, number > 2.0])
        wanted = np.array([number] * 2).astype(dtype(name))
        np.testing.assert_array_equal(place.get(ew.clamp(x, number, number)), wanted)


def test_integers_of_64_bits_are_exact(place):
    big = np.array([2**53 + 1, -(2**62) - 1, 2**63 - 1])
    wide = np.array([2**53 + 1, 2**64 - 1, 2**63], np.uint64)
    with np.errstate(all="ignore"):
        for x in (big, wide):
            for number in (1, 2**53 + 1, 2**62 + 3):
                for function in ("add", "subtract", "multiply", "maximum", "floor_divide", "equal", "less", "pow"):
                    if function == "pow" and number > 1:
                        continue
                    theirs = getattr(np, {"pow": "power"}.get(function, function))
                    found = place.get(getattr(ew, function)(place.put(x), number))
                    np.testing.assert_array_equal(found, theirs(x, number), (function, number))


def test_nan_and_infinities(place):
    x = put(place, [1, math.nan, math.inf, -math.inf], "float32")
    host = place.get(x)
    with np.errstate(all="ignore"):
        for number in (math.nan, math.inf, -math.inf, np.float32(math.nan)):
            for function in ("add", "multiply", "maximum", "fmax", "minimum", "fmin", "equal", "less", "copysign"):
                found = place.get(getattr(ew, function)(x, number))
                np.testing.assert_array_equal(found, getattr(np, function)(host, number), (function, number))
            for low, high in ((number, 1.0), (-1.0, number)):
                np.testing.assert_array_equal(place.get(ew.clamp(x, low, high)), np.clip(host, low, high))


@pytest.mark.parametrize("function", ["angle", "imag", "real", "conj", "sign", "frac", "square", "abs"])
def test_what_has_no_imaginary_part(place, function):
    """0, not 0 times the number."""
    x = np.array([1.0, -1.0, 0.0, -0.0, math.inf, -math.inf, math.nan])
    with np.errstate(all="ignore"):
        wanted = (x - np.trunc(x)) if function == "frac" else getattr(np, function)(x)
    found = place.get(getattr(ew, function)(place.put(x)))
    np.testing.assert_array_equal(found, wanted)
    if function in ("imag", "real", "angle"):
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_gradients_with_respect_to_integers(place):
    """There are none: what would be cut off is refused, or a float."""
    x, dy = put(place, [1, 2], "int32"), put(place, [1, 1], "float32")
    try:
        found = place.get(ew.exp_backward(dy, x))
    except DTypeError:
        return
    np.testing.assert_allclose(found, np.exp([1.0, 2.0]), rtol=1e-6)


def test_gradients_are_of_the_result(place):
    """dy of another shape than the result's is a mistake."""
    x = put(place, [1, 2, 3], "float32")
    for wrong in (np.ones(1, np.float32), np.ones((2, 3), np.float32)):
        with pytest.raises(numbacc.ShapeError, match="dy"):
            ew.exp_backward(place.put(wrong), x)


@pytest.mark.parametrize(
    "run",
    [
        lambda x, c: ew.ldexp(x, c),
        lambda x, c: ew.threshold(x, c, 0.0),
        lambda x, c: ew.leaky_relu(x, negative_slope=c),
        lambda x, c: ew.addcmul(x, x, x, value=c),
    ],
)
def test_what_does_not_decide_the_dtype_is_checked_too(place, run):
    """Exponents, thresholds and options: no complex array reaches the compiler."""
    with pytest.raises(numbacc.Error):
        run(one(place, "float32"), one(place, "complex64"))
