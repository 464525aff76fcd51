"""Python's operators on device arrays: what NumPy gives."""

# ruff: noqa: B023
from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from conftest import refused
from operator_cases import FLOATS, VALUES, each_dtype, numpys, same

import numbacc
from numbacc.errors import DeviceError, DTypeError, LayoutError, ShapeError

BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]


#: What NumPy makes int8 of truth values, and numbacc refuses; complex numbers, which NumPy puts in an order, likewise.
REFUSED = {("bool", name) for name in ("floordiv", "mod", "pow", "lshift", "rshift")}
REFUSED |= {("complex128", name) for name in ("lt", "le", "gt", "ge")}


def check(place, run, host):
    """`run` of arrays here gives what it gives of NumPy's; where there is no answer, an error of numbacc's."""
    wanted, arrays = (
        numpys(lambda: run(*host)),
        [place.put(each) if isinstance(each, np.ndarray) else each for each in host],
    )
    if wanted is None:
        with pytest.raises((TypeError, numbacc.Error)):
            run(*arrays)
    else:
        same(place, run(*arrays), wanted)


# ---------------------------------------------------------------- operators


@each_dtype
@pytest.mark.parametrize("name_of", BINARY + COMPARISONS)
def test_of_two_arrays(device_place, name, name_of):
    x, run = VALUES[name], getattr(operator, name_of)
    y = x[:1] * 0 + x.dtype.type(2) if name != "bool" else x[:1]
    if (name, name_of) in REFUSED:
        return refused(DTypeError, name, run=lambda: run(device_place.put(x), device_place.put(y)))
    check(device_place, run, (x, y))
    check(device_place, run, (y, x)) if name_of not in ("pow", "lshift", "rshift") else None
    return None


@each_dtype
@pytest.mark.parametrize("name_of", BINARY + COMPARISONS)
@pytest.mark.parametrize("number", [2, 2.0, True, np.int8(2), np.float32(2), 2j], ids=repr)
def test_of_an_array_and_a_number(device_place, name, name_of, number):
    x, run = VALUES[name], getattr(operator, name_of)
    for host in ((x, number), (number, x)):
        if name_of == "pow" and isinstance(number, (bool, int, np.integer)) and host[0] is number and name == "int32":
            continue  # negative powers of integers
        met = "complex128" if isinstance(number, complex) else name
        if (met, name_of) in REFUSED and (met == "complex128" or isinstance(number, bool)):
            refused(DTypeError, "x1", "x2", run=lambda: run(*(device_place.put(x) if a is x else a for a in host)))
            continue
        if (name, name_of, number) == ("bool", "pow", 2) and host[0] is x and type(number) is int:
            continue  # NumPy makes it a square, in int8
        check(device_place, run, host)


@each_dtype
@pytest.mark.parametrize("name_of", BINARY)
def test_in_place(device_place, name, name_of):
    run = getattr(operator, "i" + name_of.rstrip("_"))
    for number in (2, 2.0, 1j, np.float64(2)):
        host, x = VALUES[name].copy(), device_place.put(VALUES[name])
        wanted = numpys(lambda: run(host, number))
        before = x
        if wanted is None or (name == "bool" and name_of in ("floordiv", "mod", "pow", "lshift", "rshift")):
            with pytest.raises((TypeError, numbacc.Error)):
                run(x, number)
            np.testing.assert_array_equal(device_place.get(x), VALUES[name])
            continue
        x = run(x, number)
        assert x is before
        same(device_place, x, wanted)


@each_dtype
@pytest.mark.parametrize("run", [operator.neg, operator.pos, abs, operator.invert], ids=lambda f: f.__name__)
def test_of_one_array(device_place, name, run):
    if (name, run) != ("bool", operator.pos):
        check(device_place, run, (VALUES[name],))
    assert run is not operator.pos or run(x := device_place.put(VALUES[name])) is not x


@each_dtype
def test_divmod_and_whole_numbers(device_place, name):
    x, place = VALUES[name], device_place
    if name in ("bool", "complex128"):
        refused(DTypeError, "floor_divide", run=lambda: divmod(place.put(x), place.put(x)))
        return
    two = x.dtype.type(2)
    for found, wanted in [(divmod(place.put(x), two), divmod(x, two)), (divmod(two, place.put(x)), divmod(two, x))]:
        for one, other in zip(found, wanted, strict=True):
            same(place, one, other)
    same(place, round(place.put(x)), np.rint(x).astype(x.dtype))
    for run in (math.floor, math.ceil, math.trunc):
        same(place, run(place.put(x)), getattr(np, run.__name__)(x))
    same(place, round(place.put(x), 2), np.round(x, 2))
    with pytest.raises(TypeError):
        divmod(place.put(x), "a")


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "int32", "complex128"])
@pytest.mark.parametrize("power", [0, 1, 2, 3, 0.5, -1, 2.5, -0.5, 1.0, 2.0, True, 1j])
def test_powers(device_place, name, power):
    x = VALUES[name]
    if name == "int32" and power == -1:
        return  # NumPy refuses these
    wanted = numpys(lambda: x**power)
    same(device_place, device_place.put(x) ** power, wanted, 1e-3 if wanted.dtype.itemsize == 2 else 1e-5)
    same(device_place, 2.0 ** device_place.put(x), 2.0**x, 1e-3 if x.dtype.itemsize == 2 else 1e-5)


def test_powers_of_zeros_and_infinities(device_place):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan])
    for power in (0, 0.0, 0.5, 1, 2, 3, -1, -2.0):
        with np.errstate(all="ignore"):
            wanted = x**power
        found = device_place.get(device_place.put(x) ** power)
        np.testing.assert_array_equal(found, wanted, str(power))
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(wanted)[numbers], str(power))


def test_matmul(device_place):
    x, w = VALUES["float32"], VALUES["float32"].T.copy()
    same(device_place, device_place.put(x) @ device_place.put(w), x @ w, 1e-5)
    same(device_place, np.matmul(device_place.put(x), device_place.put(w)), x @ w, 1e-5)
    for run in (lambda: device_place.put(x) @ w, lambda: x @ device_place.put(w)):
        with pytest.raises(DeviceError):
            run()
    with pytest.raises((TypeError, numbacc.Error)):
        device_place.put(x) @ 2
    square = device_place.put(FLOATS[:, :2])
    try:
        found = operator.imatmul(square, device_place.put(FLOATS[:, 1:]))
    except LayoutError:
        return  # it would have to be copied first
    assert found is square
    same(device_place, square, FLOATS[:, :2] @ FLOATS[:, 1:])


# ---------------------------------------------------------------- what is no operand


def test_comparisons_with_what_is_no_number(device_place):
    x = device_place.put(VALUES["float32"])
    for other in (None, "a", b"a", object()):
        for found, wanted in ((x == other, False), (other == x, False), (x != other, True), (other != x, True)):
            same(device_place, found, np.full(x.shape, wanted))
        for run in (operator.lt, operator.ge, operator.add, operator.iadd, operator.pow):
            with pytest.raises(TypeError):
                run(x, other)
            with pytest.raises(TypeError):
                run(other, x)


def test_comparisons_that_the_other_answers(device_place):
    """What knows of equality itself is asked, as by NumPy's numbers."""

    class Any:
        def __eq__(self, other):
            return "any"

    assert (device_place.put(VALUES["float32"]) == Any()) == "any"


@pytest.mark.parametrize("other", [[1, 2, 3], (1, 2, 3)])
def test_lists_are_refused_not_unequal(device_place, other):
    """NumPy would compare element by element: that they are "not equal" would be wrong."""
    x = device_place.put(np.array([1, 2, 3]))
    for run in (operator.eq, operator.ne, operator.lt, operator.add, operator.matmul):
        with pytest.raises(TypeError):
            run(x, other)


@pytest.mark.parametrize("other", [[1, 2], (1, 2), "ab", b"ab", bytearray(b"ab")], ids=repr)
@pytest.mark.parametrize("values", [3, [3], [1, 2]], ids=str)
@pytest.mark.parametrize("name", [*BINARY, "matmul", "divmod"])
def test_lists_and_texts_are_no_operands(device_place, name, values, other):
    """An array of one integer is an index as well: Python would repeat the list."""
    x, compute = device_place.put(np.array(values)), divmod if name == "divmod" else getattr(operator, name)
    runs = [lambda: compute(x, other)]
    # Texts have a % of their own, which is asked first.
    if name != "mod" or isinstance(other, (list, tuple)):
        runs.append(lambda: compute(other, x))
    if name != "divmod":
        in_place = getattr(operator, f"i{name.rstrip('_')}")
        runs.append(lambda: in_place(x, other))
    if name == "mul":
        runs.append(lambda: operator.imul(other, x))
    for run in runs:
        refused(DTypeError, "an array is combined with", run=run)


def test_arrays_of_the_host_are_refused(device_place):
    x, host = device_place.put(VALUES["float32"]), VALUES["float32"]
    for name in [*BINARY[:7], *COMPARISONS, "iadd"]:
        run = getattr(operator, name)
        refused(DeviceError, "x1", "x2", run=lambda: run(x, host))
        refused(DeviceError, run=lambda: run(host.copy(), x))
    refused(DeviceError, run=lambda: np.exp(x, out=host))
    refused(DeviceError, run=lambda: np.exp(host, out=x))


def test_numbers_of_one_element(device_place):
    def one(number, dtype):
        return device_place.put(np.array([[number]], dtype))

    assert bool(one(0.5, "float32")) is True and bool(one(0, "int8")) is False
    assert float(one(0.5, "float16")) == 0.5 and int(one(-2.7, "float64")) == -2
    assert complex(one(1j, "complex64")) == 1j and operator.index(one(2**60 + 1, "int64")) == 2**60 + 1
    assert [10, 20][one(1, "uint8")] == 20
    for run in (bool, int, float, complex, operator.index):
        refused(
            ShapeError,
            "ambiguous" if run is bool else "one element",
            run=lambda: run(device_place.put(np.ones(2, int))),
        )
        refused(ShapeError, run=lambda: run(device_place.put(np.ones(0, int))))
    with pytest.raises(TypeError):
        operator.index(one(1.0, "float32"))
    with pytest.raises(TypeError):
        float(one(1j, "complex64"))
    with pytest.raises(TypeError):
        hash(one(1.0, "float32"))


def test_one_number_is_formatted_as_such(place):
    """As NumPy's arrays of rank 0: what a program prints of a loss."""
    for name in ("float32", "bfloat16"):
        loss = place.put(np.ones(3).astype(numbacc.bfloat16 if name == "bfloat16" else name)).sum()
        assert f"{loss:.3f}" == "3.000"
    assert f"{place.put(np.array(7)):>3d}" == "  7"
    with pytest.raises(TypeError, match="format"):
        f"{place.put(np.ones(1)):.3f}"


def test_masks_are_no_index(device_place):
    x = device_place.put(VALUES["float32"])
    refused(LayoutError, "where", run=lambda: x[x > 0])
    with pytest.raises(LayoutError, match="where"):
        x[x > 0] = 0
    refused(DTypeError, "in", run=lambda: 1.5 in x)


def test_methods(device_place):
    x, place = VALUES["float32"], device_place
    d = place.put(x)
    same(place, d.astype("int8"), x.astype("int8"))
    assert d.astype("float32", copy=False) is d and d.astype("float32") is not d
    same(place, d.T.copy(), x.T)
    assert d.T.copy().is_f_contiguous()
    for options in ({"min": 0, "max": 1}, {"min": 0}, {"max": 1}):
        same(place, d.clip(**options), x.clip(**options))
    c = place.put(VALUES["complex128"])
    same(place, c.real, VALUES["complex128"].real)
    same(place, c.imag, VALUES["complex128"].imag)
    same(place, c.conj(), VALUES["complex128"].conj())
    same(place, d.real, x)
