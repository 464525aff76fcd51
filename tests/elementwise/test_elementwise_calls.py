"""Calls of elementwise functions: any layout, broadcast and dtype, out and where, against NumPy."""

# ruff: noqa: B023
from __future__ import annotations

import itertools

import numpy as np
import pytest
from conftest import bits, memory_layouts, refused, sentinel
from hypothesis import assume, given
from hypothesis import strategies as st
from mixed_dtypes import (
    NAMES,
    NUMBERS,
    REAL,
    dtype,
    met,
    one,
    values,
)

import numbacc
from numbacc import elementwise as ew
from numbacc.base import dtypes
from numbacc.errors import DeviceError, DTypeError, LayoutError, OptionError, ShapeError

pytestmark = pytest.mark.usefixtures("poison")

# ---------------------------------------------------------------- any layout

#: Name -> (meaning in NumPy, how many arguments, dtypes, dtype of the result where it is not where they meet).
FUNCTIONS = {
    "add": (np.add, 2, NAMES, None),
    "subtract": (np.subtract, 2, NUMBERS, None),
    "multiply": (np.multiply, 2, NAMES, None),
    "maximum": (np.maximum, 2, REAL, None),
    "fmin": (np.fmin, 2, REAL, None),
    "equal": (np.equal, 2, NAMES, "bool"),
    "less_equal": (np.less_equal, 2, REAL, "bool"),
    "logical_xor": (np.logical_xor, 2, NAMES, "bool"),
    "bitwise_or": (np.bitwise_or, 2, ["bool", *(n for n in NAMES if "int" in n)], None),
    "negative": (np.negative, 1, NUMBERS, None),
    "square": (np.square, 1, NUMBERS, None),
    "conj": (np.conj, 1, NUMBERS, None),
    "floor": (np.floor, 1, REAL, None),
    "isfinite": (np.isfinite, 1, NAMES, "bool"),
    "copy": (np.copy, 1, NAMES, None),
    "clamp": (np.clip, 3, [n for n in REAL if n != "bool"], None),
    "fma": (lambda a, b, c: a * b + c, 3, ["float32", "float64", "float16", "bfloat16"], None),
}


def expected(name, arrays):
    """What NumPy makes of the arrays (and numbers) in the dtype where they meet; exact, as the values are small."""
    function, _, _, result = FUNCTIONS[name]
    common = met(*(each.dtype.name if isinstance(each, np.ndarray) else type(each) for each in arrays))
    wide = np.float64 if dtypes.TABLE[common].is_float else dtype(common)
    found = function(*(np.asarray(each).astype(wide) for each in arrays))
    return found.astype(dtype(result or common))


class Scalar:
    """An operand of rank 0, in memory with elements around it."""

    def __init__(self, place, data):
        self._whole = place.operand(data.reshape(1), margins=((2, 1),))
        self.view, self.values = self._whole.view.reshape(()), self._whole.values.reshape(())
        self.base, self._initial, self.within = self._whole.base, self._whole._initial, self._whole.within
        self.assert_untouched = self._whole.assert_untouched

    def now(self):
        return self._whole.now().reshape(())


def operand(place, data, layout):
    return place.operand(data, **layout) if data.ndim else Scalar(place, data)


@st.composite
def calls(draw):
    """(function, its arguments as (values, layout) or numbers, out's layout or None, mask's shape or None)."""
    name = draw(st.sampled_from(list(FUNCTIONS)))
    _, count, known, _ = FUNCTIONS[name]
    shape = draw(st.lists(st.sampled_from([0, 1, 2, 3, 5] if draw(st.booleans()) else [1, 2, 3]), max_size=4))
    arguments = []
    for k in range(count):
        rank = draw(st.integers(0, len(shape))) if k else len(shape)
        own = [draw(st.sampled_from([n, n, 1])) for n in shape[len(shape) - rank :]]
        if k and draw(st.integers(0, 4)) == 0:
            arguments.append(draw(st.sampled_from([3, 1, 2.0])))
        else:
            data = values(own, draw(st.sampled_from(known)), draw(st.integers(0, 99)))
            arguments.append((data, draw(memory_layouts(rank, False))))
    if name == "bitwise_or":
        arguments = [int(each) if isinstance(each, float) else each for each in arguments]
    final = np.broadcast_shapes(*(each[0].shape for each in arguments if isinstance(each, tuple)))
    out = draw(st.none() | memory_layouts(len(final), True))
    mask = draw(st.none() | st.tuples(*(st.sampled_from([n, 1]) for n in final))) if out is not None else None
    return name, arguments, out, mask, draw(st.integers(0, 99))


@given(calls())
def test_any_layout(place, drawn):
    """Fresh results, and given ones, all or where a mask holds."""
    name, arguments, layout, mask, seed = drawn
    made = [operand(place, *each) if isinstance(each, tuple) else each for each in arguments]
    kinds = [each[0].dtype.name if isinstance(each, tuple) else type(each) for each in arguments]
    assume(met(*kinds) in FUNCTIONS[name][2])  # int64 and uint64 meet in float64
    wanted = expected(name, [each if isinstance(each, (int, float)) else np.array(each.values) for each in made])
    given = [each if isinstance(each, (int, float)) else each.view for each in made]
    function = getattr(ew, name)
    if layout is None:
        found = function(*given)
        assert type(found) is (type(numbacc.zeros(1)) if place.is_device else np.ndarray)
        found = place.get(found)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(found, wanted)
    else:
        out = operand(place, np.broadcast_to(sentinel(wanted.dtype), wanted.shape), layout)
        truth = np.ones(wanted.shape, bool)
        more = {}
        if mask is not None:
            host = values(mask, "bool", seed)
            more["where"], truth = place.put(host), np.broadcast_to(host, wanted.shape)
        before = np.array(out.values)
        assert function(*given, out=out.view, **more) is out.view
        now = np.array(out.now())
        np.testing.assert_array_equal(now[truth], wanted[truth])
        if now.dtype.itemsize == 2 and now.dtype.kind not in "iu":  # a NaN is one, with other bits
            np.testing.assert_array_equal(now[~truth].astype(float), before[~truth].astype(float))
        else:
            np.testing.assert_array_equal(bits(now)[~truth], bits(before)[~truth])
        around = place.get(out.base)
        out.within(around)[...] = before  # what lies around it is as it was
        np.testing.assert_array_equal(bits(around), bits(out._initial))
    for each in made:
        if not isinstance(each, (int, float)):
            each.assert_untouched()


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
def test_memory_order_of_results(place, order):
    """As NumPy has it: that of the first argument of the result's shape."""
    x = place.operand(values((2, 3, 4), "float32"), order=order, steps=(1, -1, 2))
    like = np.exp(x.values)
    plain = place.put(values((3, 1), "float32"))
    for found in (ew.exp(x.view), ew.add(x.view, 1), ew.add(plain, x.view), ew.isnan(x.view), ew.copy(x.view)):
        itemsize = found.dtype.itemsize
        assert tuple(found.strides) == tuple(step // 4 * itemsize for step in like.strides)


@pytest.mark.parametrize("target", ["float32", "float64", "int8"])
def test_copies_of_transposed_and_strided_arrays(place, target):
    host = values((4, 5, 3), "float32")
    x = place.put(host)
    for part in (lambda a: a.transpose((2, 0, 1)), lambda a: a[::-1, ::2, 1:], lambda a: a[1, :, None]):
        found = place.get(ew.astype(part(x), target))
        np.testing.assert_array_equal(found, part(host).astype(target))
        assert found.strides == part(host).astype(target).strides
        np.testing.assert_array_equal(place.get(ew.copy(part(x))), part(host))


def test_repeated_elements_are_read_but_not_written(place):
    row = place.put(values((4,), "float32"))
    wide = row.broadcast_to((3, 4)) if place.is_device else np.broadcast_to(row, (3, 4))
    found = ew.copy(wide)
    assert 0 not in found.strides
    np.testing.assert_array_equal(place.get(found), np.broadcast_to(place.get(row), (3, 4)))
    if not place.is_device:
        wide = np.lib.stride_tricks.as_strided(row, (3, 4), (0, 4))
    refused(LayoutError, "out", run=lambda: ew.exp(place.put(np.ones((3, 4), np.float32)), out=wide))


def test_eight_dimensions_and_no_more(place):
    x = values((1, 2, 1, 2, 1, 2, 1, 2), "float32")
    y = values((2, 1, 2, 1, 2, 1, 1, 2), "float32", 1)
    np.testing.assert_array_equal(place.get(ew.add(place.put(x), place.put(y))), x + y)
    many = np.ones((1,) * 9, np.float32)
    refused(ShapeError, "x has rank 9", "8", run=lambda: ew.exp(many))
    if not place.is_device:
        refused(ShapeError, "x2", "9", run=lambda: ew.add(x, many))


# ---------------------------------------------------------------- out


@pytest.mark.parametrize("source", NAMES)
def test_out_of_the_same_and_of_wider_kinds(place, source):
    """What NumPy's casting="same_kind" takes, and so with bfloat16."""
    x = values((5,), source)
    for target in NAMES:
        pair = ["float32" if name == "bfloat16" else name for name in (source, target)]
        out = place.empty((5,), dtype(target))
        if np.can_cast(*pair, "same_kind"):
            assert ew.copy(place.put(x), out=out.view) is out.view
            np.testing.assert_array_equal(out.now(), x.astype(dtype(target)))
            if target != "bool":  # whose sentinel is True
                out.assert_written_only()
        else:
            refused(DTypeError, "out", target, run=lambda: ew.copy(place.put(x), out=out.view))
            out.assert_untouched()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("target", ["int64", "float32"])
@pytest.mark.parametrize("source", ["uint8", "int8", "uint16", "int16", "int32"])
def test_integers_are_those_of_their_dtype_in_wider_ones_too(place, source, target, masked):
    """As in NumPy, whose loop is that of the inputs' dtype: what it cannot hold is cut off before it is stored."""
    least, most = np.iinfo(source).min, np.iinfo(source).max
    x, y = (np.array(numbers, source) for numbers in ([most, least, 100, 3], [most, 1, 100, 2]))
    mask = np.array([True, True, False, True]) if masked else True
    for name, theirs in (
        ("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply), ("left_shift", np.left_shift),
        ("negative", np.negative), ("abs", np.abs), ("square", np.square), ("bitwise_not", np.invert),
    ):  # fmt: skip
        given = (x, y)[: theirs.nin]
        want = np.where(mask, theirs(*given).astype(target), np.zeros(4, target))
        out = place.put(np.zeros(4, target))
        more = {"where": place.put(mask)} if masked else {}
        getattr(ew, name)(*map(place.put, given), out=out, **more)
        np.testing.assert_array_equal(place.get(out), want, name)


@pytest.mark.parametrize("name", ["float32", "int64", "complex128", "bool"])
def test_in_place(place, name):
    for order, steps in [((0, 1), (1, 1)), ((1, 0), (-2, 3))]:
        x = place.operand(values((3, 4), name), order=order, steps=steps)
        y = place.operand(values((4,), name, 1), steps=(-1,))
        wanted = np.array(x.values + y.values)
        assert ew.add(x.view, y.view, out=x.view) is x.view
        np.testing.assert_array_equal(x.now(), wanted)
        if name != "bool":
            x.assert_written_only()
        ew.add(y.view[None, :], x.view, out=x.view)
        np.testing.assert_array_equal(x.now(), wanted + y.values)


def test_in_place_where_a_mask_holds(place):
    host, mask = values((3, 4), "float32"), values((3, 1), "bool", 4)
    x = place.put(host)
    ew.add(x, x, out=x, where=place.put(mask))
    np.testing.assert_array_equal(place.get(x), np.where(mask, 2 * host, host))
    truth = place.put(mask)
    ew.logical_not(truth, out=truth, where=truth)
    assert not place.get(truth).any()


@pytest.mark.parametrize("target", [n for n in NAMES if n != "bool"])
@pytest.mark.parametrize("source", ["bool", "int8", "uint64", "int64", "float32", "bfloat16", "complex64"])
def test_where_the_mask_is_false_out_stays_whatever_it_holds(place, source, target):
    """Bit for bit, NaN's too, and of wider dtypes all that the result's has not."""
    if not np.can_cast(*("float32" if n == "bfloat16" else n for n in (source, target)), "same_kind"):
        return
    size = dtype(target).itemsize
    old = np.frombuffer(bytes(range(1, 1 + 6 * size)), dtype(target)).copy()
    old[4:] = np.frombuffer(b"\xff" * 2 * size, dtype(target))
    out, mask = place.put(old), np.arange(6) % 2 == 0
    ew.copy(place.put(np.ones(6, dtype(source))), out=out, where=place.put(mask))
    np.testing.assert_array_equal(place.get(out)[mask], np.ones(3, dtype(target)))
    np.testing.assert_array_equal(bits(place.get(out))[~mask], bits(old)[~mask])


@pytest.mark.parametrize("how", [{}, {"order": (1, 0)}, {"steps": (1, 2)}, {"margins": [(0, 0), (1, 2)]}])
@pytest.mark.parametrize(
    "source, target",
    [
        ("float32", "float64"), ("float32", "bfloat16"), ("float64", "float16"), ("int64", "int8"), ("bool", "int16"),
        ("uint64", "int64"), ("uint64", "float32"), ("int64", "float64"), ("float16", "complex64"),
        ("complex128", "complex64"),
    ],
)  # fmt: skip
def test_a_masked_result_is_that_without_mask_and_the_rest_stays(place, source, target, how):
    """In any layout, whatever other dtype `out` has."""
    shape = (37, 70)
    x, y = values(shape, source), place.put(values(shape, source, 1))
    rng = np.random.default_rng(3)
    old = rng.integers(0, 256, (*shape, dtype(target).itemsize), np.uint8).view(dtype(target)).reshape(shape)
    out, whole, mask = place.operand(old, **how), place.empty(shape, dtype(target)), rng.random(shape) < 0.5
    ew.add(place.put(x), y, out=whole.view)
    ew.add(place.put(x), y, out=out.view, where=place.put(mask))
    wanted = bits(np.where(mask, whole.now(), old))
    np.testing.assert_array_equal(bits(np.ascontiguousarray(out.now())), wanted)
    transposed = place.put(np.ascontiguousarray(x.T)).T
    again = place.operand(old)
    ew.add(transposed, y, out=again.view, where=place.put(mask))
    np.testing.assert_array_equal(bits(np.ascontiguousarray(again.now())), wanted)


def test_overlap_in_part_is_refused(place):
    x = place.put(values((8, 8), "float32"))
    before = place.get(x)
    cases = [
        lambda: ew.add(x[:4], 1, out=x[1:5]),
        lambda: ew.add(x, 1, out=x.T),
        lambda: ew.add(x, x[0], out=x),
        lambda: ew.exp(x[:, ::-1], out=x),
        lambda: ew.add(x[:4], x[3:7], out=x[:4], where=place.put(np.zeros((4, 8), bool))),
    ]
    for run in cases:
        refused(LayoutError, "out overlaps", run=run)
        np.testing.assert_array_equal(place.get(x), before)


def test_wrong_outs(place):
    x = one(place, "float32")
    refused(ShapeError, "out", "(3,)", run=lambda: ew.exp(x, out=place.put(np.ones(3, np.float32))))
    refused(ShapeError, "out", run=lambda: ew.exp(x, out=place.put(np.ones((1, 2), np.float32))))
    refused(ShapeError, "out", run=lambda: ew.exp(x, out=(x, x)))
    refused(DTypeError, "out", "int32", run=lambda: ew.exp(x, out=one(place, "int32")))
    refused(DTypeError, "out", run=lambda: ew.exp(x, out=[1.0, 2.0]))
    refused(DTypeError, "out", run=lambda: ew.exp(x, out=3.0))
    refused(DTypeError, "out", "float8", run=lambda: ew.exp(x, out=place.put(np.ones(2, numbacc.float8_e5m2))))
    if not place.is_device:
        x.flags.writeable = False
        refused(LayoutError, "out", "read-only", run=lambda: ew.exp(x, out=x))
        return
    refused(DeviceError, "out", run=lambda: ew.exp(x, out=np.ones(2, np.float32)))
    refused(DeviceError, "x2", run=lambda: ew.add(x, np.ones(2, np.float32)))
    refused(DeviceError, "where", run=lambda: ew.exp(x, out=x, where=np.ones(2, bool)))


def test_wrong_masks(place):
    x, mask = one(place, "float32"), place.put(np.array([True, False]))
    refused(OptionError, "where", "out", "elementwise.where", run=lambda: ew.exp(x, where=mask))
    refused(DTypeError, "where", "int8", "bool", run=lambda: ew.exp(x, out=x, where=one(place, "int8")))
    refused(DTypeError, "where", run=lambda: ew.exp(x, out=x, where=True))
    refused(ShapeError, "where", run=lambda: ew.exp(x, out=x, where=place.put(np.ones(3, bool))))
    wide = place.empty((3, 2), np.dtype("float32"))
    rows = place.put(np.array([[True], [False], [True]]))
    ew.add(x, 1, out=wide.view, where=rows)  # a mask may make it longer, as in NumPy
    np.testing.assert_array_equal(wide.now()[[0, 2]], 2)


def test_one_bound_is_named_as_it_is_given(place):
    x = one(place, "int8")
    refused(OptionError, "max=300", run=lambda: ew.clamp(x, None, 300))
    refused(OptionError, "min=-300", run=lambda: ew.clamp(x, -300))
    refused(DTypeError, "min is a str", run=lambda: ew.clamp(x, "a"))


def test_options_that_torch_refuses(place):
    """Kernels and NumPy would make different things of them."""
    x = one(place, "float32")
    for name, options, *words in (
        ("hardtanh", {"min_val": 2.0}, "min_val=2.0", "above max_val=1.0"),
        ("softshrink", {"lambd": -1}, "lambd=-1", "negative"),
        ("celu", {"alpha": 0}, "alpha", "0"),
    ):
        refused(OptionError, *words, run=lambda: getattr(ew, name)(x, **options))
        refused(OptionError, *words, run=lambda: getattr(ew, f"{name}_backward")(x, x, **options))
        plan = getattr(ew, name).plan(x, **{each: float(value) for each, value in options.items()})
        given = [2.0, 1.0] if name == "hardtanh" else [float(value) for value in options.values()]
        refused(OptionError, *words, run=lambda: plan(x, *given))
    assert place.get(ew.hardtanh(x, min_val=0.5, max_val=0.5)).tolist() == [0.5] * 2
    assert place.get(ew.softshrink(x, lambd=0)).tolist() == [1.0] * 2
