"""Values and options of the wrong kind: numbacc's own errors, the same on the CPU and on GPUs."""

from __future__ import annotations

import math
import operator
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from conftest import bits, refused
from wrong_arguments import HUGE, OBJECT, STREAMS, Broken, full, made

import numbacc
from numbacc import gated
from numbacc.base.dtypes import TABLE

NAN = math.nan


# ---------------------------------------------------------------- values


def assigned(place, shape, value, dtype="float32"):
    array = made(place, shape, dtype)
    array[...] = value
    return array


FITTING = {
    "int": (7, "int8"), "truncated": (-2.75, "int8"), "bool": (True, "float16"), "to bool": (0.5, "bool"),
    "NumPy's arrays wrap": (np.array([300]), "int8"), "large": (2**63, "uint64"), "nan": (NAN, "float8_e4m3fn"),
    "complex": (1 - 2j, "complex64"), "fraction": (Fraction(1, 4), "float32"), "decimal": (Decimal("1.5"), "float64"),
    "bfloat16": (numbacc.bfloat16(1.5), "float32"), "to bfloat16": (np.float64(1 / 3), "bfloat16"),
    "rank 0": (np.array(5.0), "int32"), "row": ([1, 2, 3], "float32"), "column": ([[1.5], [2.5]], "int16"),
    "leading ones": (np.ones((1, 1, 2, 3)), "float32"), "transposed": (np.arange(6).reshape(3, 2).T, "float16"),
    "float8": (np.array([1, 2, 3], numbacc.float8_e5m2), "bfloat16"), "Fortran": (np.arange(6.0).reshape(2, 3), "int8"),
}  # fmt: skip


@pytest.mark.parametrize("value, dtype", FITTING.values(), ids=FITTING)
def test_values_become_what_numpy_makes_of_them(place, value, dtype):
    wanted = np.zeros((2, 3), TABLE[dtype].numpy)
    wanted[...] = value
    if not isinstance(value, np.ndarray) or value.ndim <= 2:  # np.full takes no leading ones
        np.testing.assert_array_equal(bits(numbacc.asnumpy(full(place, (2, 3), value, dtype))), bits(wanted))
    np.testing.assert_array_equal(bits(numbacc.asnumpy(assigned(place, (2, 3), value, dtype))), bits(wanted))


def test_large_integers_fit_short_floats(place):
    for name in ("bfloat16", "float32"):
        assert float(numbacc.asnumpy(full(place, 1, 2**70, name))[0]) == 2**70


NOT_FITTING = {
    "too large": (300, "int8"), "NumPy's": (np.int64(300), "int8"), "NumPy's nan": (np.float32(NAN), "int8"),
    "negative": (-1, "uint8"), "huge": (HUGE, "int64"), "huge float": (HUGE, "float32"),
    "huge bfloat16": (HUGE, "bfloat16"), "float too large": (300.5, "int8"), "nan": (NAN, "int32"),
    "infinity": (math.inf, "uint64"), "list": ([1, 2, 300], "int8"), "list of nan": ([1, 2, NAN], "int8"),
}  # fmt: skip


@pytest.mark.parametrize("value, dtype", NOT_FITTING.values(), ids=NOT_FITTING)
def test_numbers_that_do_not_fit(place, value, dtype):
    refused(numbacc.OptionError, "fill_value", dtype, run=lambda: full(place, (2, 3), value, dtype))
    if place.is_device:
        refused(numbacc.OptionError, "value", dtype, run=lambda: assigned(place, (2, 3), value, dtype))
    refused(numbacc.OptionError, "obj", dtype, run=lambda: numbacc.asarray(value, dtype))


COMPLEX = {
    "Python": 1j, "NumPy": np.complex64(1j), "array": np.full((2, 3), 1j), "list": [1j, 2, 3],
    "list of NumPy's": [np.complex128(1j)] * 3,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize("value", COMPLEX.values(), ids=COMPLEX)
def test_complex_values_do_not_lose_their_imaginary_part(place, value, dtype):
    refused(numbacc.DTypeError, "fill_value", dtype, run=lambda: full(place, (2, 3), value, dtype))
    refused(numbacc.DTypeError, "obj", dtype, run=lambda: numbacc.asarray(value, dtype))
    if place.is_device:
        refused(numbacc.DTypeError, "value", dtype, run=lambda: assigned(place, (2, 3), value, dtype))


@pytest.mark.parametrize(
    "value", [np.ones(2), [1, 2], np.ones((3, 3)), np.ones((2, 2, 3)), [], np.ones((3, 1))], ids=str
)
def test_values_that_do_not_broadcast_name_both_shapes(place, value):
    words = (np.shape(value), (2, 3))
    refused(numbacc.ShapeError, "fill_value", *words, run=lambda: full(place, (2, 3), value))
    if place.is_device:
        refused(numbacc.ShapeError, "value", *words, run=lambda: assigned(place, (2, 3), value))
        refused(numbacc.ShapeError, "value", run=lambda: assigned(place, (2, 3), numbacc.full(np.shape(value), 1)))


def test_full_writes_no_more_than_its_memory(place):
    before, after = full(place, 3, 0), full(place, 3, 0)
    assert numbacc.asnumpy(full(place, 3, np.ones(3))).tolist() == [1, 1, 1]
    assert numbacc.asnumpy(before).tolist() == numbacc.asnumpy(after).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "value",
    [
        "x", b"x", "5", None, OBJECT, {}, {1}, [[1], [2, 3]], ["a"], [None, {}], range, np.str_("5"),
        # What NumPy would make numbers of.
        ["5"], ["5", 1], [None, 1], np.array(["5", 1], object), np.array([None]), np.array(["5"]),
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_value(place, value):
    with pytest.raises(numbacc.Error, match="fill_value"):
        full(place, 3, value)
    if place.is_device:
        with pytest.raises(numbacc.Error, match="value"):
            assigned(place, 3, value)


def test_elements_and_parts_are_assigned(device_place):
    host = np.zeros((3, 4), np.float32)
    x = device_place.put(host)
    for index, value in [
        ((1, 2), np.array(5.0)), ((0, 0), 3), ((0, 1), np.ones((1, 1))), (slice(1, 3), [[7], [8]]),
        ((slice(None), 3), np.arange(3, dtype=np.int64)), ((slice(0, 0),), 9), ((Ellipsis, slice(None, None, 2)), 2.5),
    ]:  # fmt: skip
        x[index] = value
        host[index] = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
        np.testing.assert_array_equal(numbacc.asnumpy(x), host)


def test_device_arrays_are_assigned(device_place):
    x = device_place.put(np.arange(8, dtype=np.float32))
    host = np.arange(8, dtype=np.float32)
    # What overlaps is read before it is written, as in NumPy.
    x[1:], host[1:] = x[:-1], host[:-1]
    np.testing.assert_array_equal(numbacc.asnumpy(x), host)
    x[...], host[...] = x[::-1], host[::-1].copy()
    np.testing.assert_array_equal(numbacc.asnumpy(x), host)
    x[2:5] = device_place.put(np.ones((1, 1), np.float32))
    assert numbacc.asnumpy(x)[1:6].tolist() == [host[1], 1, 1, 1, host[5]]
    whole = device_place.put(np.ones(8, np.int32))
    refused(numbacc.DTypeError, "value", "int32", "float32", run=lambda: operator.setitem(x, ..., whole))


def test_fill_value_on_a_device(place):
    on_device = place.put(np.arange(3, dtype=np.float32))
    made = numbacc.asnumpy(full(place, (2, 3), on_device))
    assert made.tolist() == [[0, 1, 2]] * 2
    if place.is_device:
        refused(numbacc.DeviceError, "fill_value", run=lambda: numbacc.full((2, 3), on_device, device="cpu"))


# ---------------------------------------------------------------- nothing is copied or compared silently


SILENT = {
    "asarray": np.asarray, "array": lambda d: np.array([d, d]), "in": lambda d: 1.0 in d, "sort": np.sort,
    "into": lambda d: np.zeros(3).__setitem__(..., d), "float32": np.float32, "unique": np.unique,
}  # fmt: skip
#: What a GPU's arrays and NumPy's would have to meet for.
MIXED = {
    "right": lambda d: np.ones(3) + d, "left": lambda d: d + np.ones(3), "!=": lambda d: d != np.ones(3),
    "matmul": lambda d: np.ones((3, 3), np.float32) @ d, "out": lambda d: np.exp(np.ones(3), out=d),
    "where": lambda d: np.where(np.ones(3), d, 1), "concatenate": lambda d: np.concatenate([d, np.ones(3)]),
}  # fmt: skip


@pytest.mark.parametrize("use", SILENT.values(), ids=SILENT)
def test_device_arrays_do_not_reach_the_host_silently(device_place, use):
    refused(numbacc.DTypeError, "asnumpy", run=lambda: use(device_place.put(np.ones(3, np.float32))))


@pytest.mark.parametrize("use", MIXED.values(), ids=MIXED)
def test_device_arrays_do_not_meet_those_of_the_host(device_place, use):
    refused(numbacc.DeviceError, "asnumpy", run=lambda: use(device_place.put(np.ones(3, np.float32))))


def test_what_is_no_array_is_not_equal(device_place):
    """No element is, as of NumPy's arrays."""
    x = device_place.put(np.ones(3))
    for run, other, wanted in ((operator.eq, None, False), (operator.ne, "x", True)):
        assert device_place.get(run(x, other)).tolist() == [wanted] * 3


def test_device_arrays_are_not_hashed(device_place):
    with pytest.raises(TypeError, match="unhashable"):
        hash(device_place.put(np.ones(3)))


def test_numpy_may_ask_for_the_shape(device_place):
    x = device_place.put(np.ones((2, 3)))
    assert (np.shape(x), np.ndim(x), np.size(x)) == ((2, 3), 2, 6)


@pytest.mark.parametrize("name", ["tolist", "sort", "__array_interface__", "__array_struct__", "put", "nonsense"])
def test_attributes_are_no_hidden_copies(device_place, name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
        getattr(device_place.put(np.ones(3)), name)


def test_one_element_is_a_number(device_place):
    for shape in ((), (1,), (1, 1)):
        x = device_place.put(np.full(shape, 2.5, np.float32))
        assert (float(x), int(x), bool(x), complex(x)) == (2.5, 2, True, 2.5)
    for number in (float, int, bool, complex):
        refused(numbacc.ShapeError, (3,), run=lambda number=number: number(device_place.put(np.ones(3))))


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    "device",
    [[], {}, "x", "cuda:x", "cuda:", "²", -1, 1.5, True, HUGE, OBJECT, "cuda:99", 99],
    ids=lambda d: str(d)[:9] if d is not HUGE else "huge",
)
def test_devices_that_are_none(place, device):
    for run in (
        lambda: numbacc.empty(3, device=device),
        lambda: numbacc.zeros(3, device=device),
        lambda: numbacc.full(3, 1, device=device),
        lambda: numbacc.asarray([1], device=device),
        lambda: numbacc.empty_like(np.ones(3), device=device),
    ):
        refused(numbacc.DeviceError, run=run)
    if device not in (99, "cuda:99"):
        refused(numbacc.DeviceError, "device", run=lambda: numbacc.stream(device=device))
        refused(numbacc.DeviceError, "device", run=lambda: numbacc.release_memory(device))
        refused(numbacc.DeviceError, "device", run=lambda: numbacc.peak_memory(device))
        refused(numbacc.OptionError, "reset", run=lambda: numbacc.peak_memory(reset="yes"))
        assert numbacc.peak_memory("cpu") == 0


@pytest.mark.parametrize("stream", STREAMS, ids=lambda s: type(s).__name__)
def test_streams_that_are_none(place, stream):
    x = place.put(np.ones((2, 4), np.float32))
    for run in (
        lambda: numbacc.empty(3, stream=stream),
        lambda: numbacc.zeros(3, stream=stream),
        lambda: numbacc.full(3, 1, stream=stream),
        lambda: numbacc.empty_like(x, stream=stream),
        lambda: numbacc.asarray([1], stream=stream),
        lambda: numbacc.asarray(x, stream=stream),
        lambda: numbacc.asnumpy(x, stream=stream),
        lambda: numbacc.from_dlpack(x, stream=stream),
        lambda: numbacc.stream(stream),
        lambda: gated.forward(x, stream=stream),
    ):
        refused(numbacc.OptionError, "stream=", run=run)


def test_out_of_asnumpy(place):
    x = place.put(np.ones(3, np.float32))
    for out in ([1], 1, "x", numbacc.zeros(3), np.float32(1)):
        if not (isinstance(out, np.ndarray)):
            refused(numbacc.DTypeError, "out", type(out).__name__, run=lambda out=out: numbacc.asnumpy(x, out=out))


LISTS = [[1.0, 2.0, 3.0], (1.0,), 3.0, "x", None, {"a": 1}, np.float32(1), range(3)]


@pytest.mark.parametrize("value", LISTS, ids=str)
def test_arguments_are_called_as_the_user_calls_them(place, value):
    for run in (
        lambda: numbacc.asnumpy(value),
        lambda: numbacc.empty_like(value),
    ):
        if isinstance(value, np.generic):
            assert run().shape == ()  # one of NumPy's numbers is an array of rank 0
            continue
        refused(numbacc.DTypeError, "obj", type(value).__name__, run=run)
    x = place.put(np.ones((2, 4), np.float32))
    with pytest.raises(numbacc.Error, match=r"^x is a") as caught:
        gated.forward(value)
    assert type(value).__name__ in str(caught.value) and "numbacc.asarray" in str(caught.value)
    with pytest.raises(numbacc.DTypeError, match=r"^dy is a"):
        gated.backward(value, x)
    with pytest.raises(numbacc.DTypeError, match=r"^x\[1\] is a"):
        gated.forward((x, value))


@pytest.mark.parametrize(
    "error", [KeyError("layout"), ValueError("no"), RuntimeError("gone"), TypeError("what")], ids=repr
)
def test_objects_that_fail_are_the_cause(place, error):
    x = place.put(np.ones((2, 4), np.float32))
    for run in (
        lambda: numbacc.asarray(Broken(error)),
        lambda: numbacc.asnumpy(Broken(error)),
        lambda: numbacc.empty_like(Broken(error)),
        lambda: numbacc.from_dlpack(Broken(error)),
        lambda: gated.forward(Broken(error)),
        lambda: gated.forward(x, out=Broken(error)),
        lambda: numbacc.full(3, Broken(error)),
    ):
        with pytest.raises(numbacc.DTypeError, match="Broken") as caught:
            run()
        assert caught.value.__cause__ is error


def test_masks_are_not_lost(place):
    masked = np.ma.masked_equal(np.ones((2, 4), np.float32), 1)
    for run in (
        lambda: numbacc.asarray(masked),
        lambda: numbacc.asarray(masked, "float64"),
        lambda: gated.forward(masked),
        lambda: full(place, (2, 4), masked),
    ):
        refused(numbacc.DTypeError, "masked", "filled", run=run)


@pytest.mark.parametrize("kind", ["glu" * 5000, list(range(9999)), HUGE], ids=lambda a: type(a).__name__)
def test_messages_do_not_print_whole_books(place, kind):
    with pytest.raises(numbacc.OptionError, match=r"^kind=.* is unknown") as caught:
        gated.forward(place.put(np.ones((2, 4), np.float32)), kind)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("axis", ["x", None, 1.5, [0], np.zeros(2), HUGE, -HUGE], ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("function", [gated.forward, gated.forward.plan], ids=["call", "plan"])
def test_axes_that_are_none(place, axis, function):
    x = place.put(np.ones((2, 4), np.float32))
    refused(numbacc.ShapeError, "axis=", run=lambda: function(x, axis=axis))


@pytest.mark.parametrize(
    "value", [5, [], {}, None, HUGE, "x", np.ones(2), np.array(["glu", "first"])], ids=lambda v: type(v).__name__
)
def test_kinds_and_gates_that_are_none(place, value):
    x = place.put(np.ones((2, 4), np.float32))
    for function in (gated.forward, gated.forward.plan):
        refused(numbacc.OptionError, "kind=", run=lambda function=function: function(x, kind=value))
        refused(numbacc.OptionError, "gate=", run=lambda function=function: function(x, gate=value))


@pytest.mark.parametrize(
    "value",
    [[], None, "1", 1j, np.complex64(1), np.array([1.0]), HUGE, NAN, math.inf, OBJECT],
    ids=lambda v: type(v).__name__,
)
def test_numbers_that_are_none(value):
    from numbacc.base import checks

    refused(numbacc.OptionError, "alpha=", run=lambda: checks.real(value, "alpha"))


def test_a_devices_number_is_not_read_silently(device_place):
    from numbacc.base import checks

    refused(numbacc.OptionError, "alpha=", run=lambda: checks.real(device_place.put(np.ones(())), "alpha"))
