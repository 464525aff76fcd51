"""Gradients of elementwise functions: against closed forms, and summed where an argument was repeated."""

from __future__ import annotations

import elementwise_oracle as oracle
import numpy as np
import pytest
from elementwise_cases import OPEN, OPTIONS, ROUGH, arrays_of
from elementwise_oracle import GRADIENTS
from in_one import in_one

import numbacc
from numbacc import elementwise
from numbacc.elementwise.gradients import DIFFERENTIABLE
from numbacc.elementwise.rows import TABLE
from numbacc.errors import OptionError

#: Rounding of a dtype, and what an error may be beside it where terms cancel.
EPS = {
    "float32": (2.0**-23, 1e-8),
    "float16": (2.0**-10, 1e-8),
    "bfloat16": (2.0**-7, 1e-8),
    "float64": (2.0**-52, 1e-16),
}


#: On a GPU, where arguments of exponentials keep what rounding takes from them.
ROUGH_KERNELS = {"gelu": 40, "gelu_tanh": 40, "quick_gelu": 40}


def _given(name, dtype, count):
    rng = np.random.default_rng(11)
    names = arrays_of(name)
    xs = [rng.normal(0, 2, count).astype(dtype) for _ in names]
    if len(names) < 3:
        special = oracle.SPECIALS[dtype][:: (1 if len(names) == 1 else 11)]
        grid = np.meshgrid(*[special] * len(names))
        xs = [np.concatenate([x, each.ravel()]) for x, each in zip(xs, grid, strict=True)]
    if name == "threshold":
        return [xs[0], 0.25, -2.0], {"threshold": 0.25, "value": -2.0}
    if name == "where":
        xs[0] = xs[0] > 0
    if name == "ldexp":
        xs[1] = rng.integers(-20, 20, xs[0].size).astype(np.int32)
    options = TABLE[name].options
    if dtype != np.float64:
        options = {k: float(np.float32(v)) for k, v in options.items()}
    return xs, {OPTIONS.get(k, k): v for k, v in options.items()}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@in_one("dtype", oracle.DTYPES)
def test_closed_forms(place, name, dtype):
    given, options = _given(name, dtype, 100 if place.is_slow else 5000)
    xs = [x for x in given if isinstance(x, np.ndarray)]
    wide = [x.astype(np.float64) if x.dtype == dtype else x for x in xs]
    with np.errstate(all="ignore"):
        wanted = [each for each in GRADIENTS[name](*wide, **options) if each is not None]
        left_out = OPEN[name](*wide) if name in OPEN else np.zeros(xs[0].size, bool)
    dy = place.put(np.full(xs[0].size, 2, dtype))
    found = getattr(elementwise, f"{name}_backward")(
        dy, *[place.put(x) if isinstance(x, np.ndarray) else x for x in given]
    )
    found = found if isinstance(found, tuple) else (found,)
    eps, floor = EPS[dtype.name]
    rough = (ROUGH | ROUGH_KERNELS if place.name == "gpu" else ROUGH).get(name, 8)
    for mine, exact in zip(map(place.get, found), wanted, strict=True):
        assert mine.dtype == dtype
        with np.errstate(all="ignore"):
            rounded = (2.0 * np.broadcast_to(exact, mine.shape)).astype(dtype).astype(np.float64)
            off = np.abs(mine.astype(np.float64) - rounded) / (np.abs(rounded) * eps + floor)
            same = (mine.astype(np.float64) == rounded) | (np.isnan(mine.astype(np.float64)) & np.isnan(rounded))
            tiny = (np.abs(rounded) < 1e-30) & (np.abs(mine.astype(np.float64)) < 1e-30)
        wrong = ~(same | left_out | tiny | (off < rough))
        k = int(np.argmax(wrong))
        assert not wrong.any(), f"{wrong.sum()} wrong: at {[x[k] for x in xs]} {mine[k]}, not {rounded[k]}"


@pytest.mark.parametrize(
    "shapes", [((3, 4), (4,)), ((4,), (3, 4)), ((3, 1), (1, 4)), ((2, 3, 4), (3, 1)), ((1,), (5,))]
)
def test_what_was_repeated_gets_the_sum(place, shapes):
    rng = np.random.default_rng(2)
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    dy = rng.normal(size=np.broadcast_shapes(*shapes)).astype(np.float32)
    found = elementwise.multiply_backward(*map(place.put, (dy, a, b)))
    for mine, whole, shape in zip(found, (dy.astype(np.float64) * b, dy.astype(np.float64) * a), shapes, strict=True):
        axes = tuple(d for d in range(dy.ndim) if d < dy.ndim - len(shape) or shape[d - dy.ndim + len(shape)] == 1)
        kept = tuple(d for d in axes if dy.shape[d] != 1)
        np.testing.assert_allclose(place.get(mine), whole.sum(kept).reshape(shape), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 1), (4,), (), (3, 4)])
def test_conditions_may_be_repeated(place, shape):
    """Alone, and with what they choose from."""
    rng = np.random.default_rng(4)
    condition, dy = rng.random(shape) < 0.5, rng.normal(size=(3, 4))
    for a, b in ((dy + 1, dy - 1), (dy[:1], dy)):
        found = elementwise.where_backward(*map(place.put, (dy, condition, a, b)))
        wanted = [np.where(condition, dy, 0), np.where(condition, 0, dy)]
        wanted[0] = wanted[0] if a.shape == dy.shape else wanted[0].sum(0, keepdims=True)
        for mine, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(place.get(mine), theirs, rtol=1e-12)
    numbers = np.array([[1.5, 2.0]])
    (found,) = elementwise.where_backward(place.put(numbers), place.put(np.array([True])), place.put(numbers), 0.0)
    assert place.get(found).tolist() == [[1.5, 2.0]]


def test_what_has_dlpack_alone(numpy_place):
    """Its shape is known only when it is taken."""

    class OnlyDlpack:
        def __init__(self, owner):
            self.__dlpack__, self.__dlpack_device__ = owner.__dlpack__, owner.__dlpack_device__

    dy, row = np.ones((3, 4)), np.arange(4.0)
    found = elementwise.multiply_backward(dy, dy, OnlyDlpack(row))
    np.testing.assert_array_equal(found[0], np.broadcast_to(row, (3, 4)))
    np.testing.assert_array_equal(found[1], [3.0] * 4)
    assert elementwise.where(OnlyDlpack(row), 1.0, OnlyDlpack(row)).tolist() == [0, 1, 1, 1]
    with pytest.raises(numbacc.DTypeError, match="x2"):
        elementwise.multiply_backward(dy, dy, np.ndarray)


def test_sums_of_16_bits_are_rounded_once(place):
    """Of 4096 terms of 1 bfloat16's own sum would stop at 256."""
    x = place.put(np.ones((4096, 2), numbacc.bfloat16))
    _, by_row = elementwise.add_backward(x, x, place.put(np.ones(2, numbacc.bfloat16)))
    assert by_row.dtype == numbacc.bfloat16
    assert place.get(by_row).astype(float).tolist() == [4096.0, 4096.0]


def test_numbers_have_no_gradient(place):
    x = place.put(np.array([1.0, 2.0]))
    (found,) = elementwise.multiply_backward(x, x, 3.0)
    assert place.get(found).tolist() == [3.0, 6.0]
    (found,) = elementwise.subtract_backward(x, 3.0, x)
    assert place.get(found).tolist() == [-1.0, -2.0]


@pytest.mark.parametrize("kind", ["int", "array", "float32", "text", "none"])
@pytest.mark.parametrize("name", [name for name in DIFFERENTIABLE if TABLE[name].row.options])
def test_options_are_numbers(place, name, kind):
    """As those of the function itself: an array would be computed with element by element."""
    row = TABLE[name].row
    x = place.put(np.ones(4, np.float32))
    wrong = {"int": place.put(np.arange(4)), "array": place.put(np.arange(8).reshape(2, 4)), "float32": x}
    for option in row.names[-row.options :]:
        numbers = dict.fromkeys(row.names[-row.options :], 1.0) | {option: wrong.get(kind)}
        if kind == "text":
            numbers[option] = "a"
        for function, arrays in ((name, (x,)), (f"{name}_backward", (x, x))):
            # Those that have no default have their places.
            by_place = () if TABLE[name].options else tuple(numbers.values())
            by_name = numbers if TABLE[name].options else {}
            more = arrays[:1] * (len(row.names) - row.options - 1)
            with pytest.raises(OptionError, match=rf"^{option}.*it must be a number"):
                getattr(elementwise, function)(*arrays, *more, *by_place, **by_name)


def test_options_of_ones_own_kernels_are_numbers(place):
    x = place.put(np.ones(4, np.float32))
    scaled = elementwise.kernel(lambda x, by=2.0: x * by)
    for wrong in (place.put(np.arange(4)), "a", None):
        for run in (lambda by: scaled(x, by=by), lambda by: scaled.backward(x, x, by=by)):
            with pytest.raises(OptionError, match=r"^by.*it must be a number"):
                run(wrong)
    (dx,) = scaled.backward(x, x, by=np.float64(3))
    assert dx.dtype == np.float32 and place.get(dx).tolist() == [3.0] * 4


def test_out(place):
    """Into arrays that are given: of a sum, of another memory order, in place."""
    a, row = place.put(np.full((2, 3), 2.0, np.float32)), place.put(np.ones(3, np.float32))
    dy = place.put(np.ones((2, 3), np.float32))
    outs = (place.empty((2, 3), np.dtype(np.float32)).view, place.empty((3,), np.dtype(np.float32)).view)
    found = elementwise.multiply_backward(dy, a, row, out=outs)
    assert place.get(outs[0]).tolist() == [[1.0] * 3] * 2
    assert place.get(outs[1]).tolist() == [4.0] * 3
    assert found[0] is outs[0]
    elementwise.exp_backward(dy, a, out=dy)
    np.testing.assert_allclose(place.get(dy), np.exp(2.0), rtol=1e-6)


def test_integers_have_none(place):
    x = place.put(np.array([1, 2]))
    with pytest.raises(numbacc.DTypeError, match=r"x has dtype int64.*exp_backward supports floats"):
        elementwise.exp_backward(x, x)


def test_of_integers_and_bool_beside_floats_there_is_none(place):
    """The function takes them, and so does its gradient, with None in their places, as torch has it."""
    x, dy, counts = np.array([[1.5, -2.0], [0.5, 3.0]]), np.ones((2, 2)), np.array([2, -3])
    d, n = place.put(x), place.put(counts)
    for given in (n, place.put(np.array([[True, False]])), place.put(np.uint8([[1], [7]])), place.put(np.array(3))):
        for arguments in ((d, given), (given, d)):
            found = elementwise.multiply_backward(place.put(dy), *arguments)
            dx, none = found if arguments[0] is d else found[::-1]
            assert none is None and len(found) == 2
            np.testing.assert_array_equal(place.get(dx), np.broadcast_to(place.get(given), (2, 2)))
    # One that is repeated, beside one that is whole, and in the dtype of the argument.
    by_row = elementwise.divide_backward(
        place.put(dy), place.put(np.int32([[2, 4], [6, 8]])), place.put(np.float32([1, 2]))
    )
    assert by_row[0] is None and by_row[1].dtype == np.float32 and place.get(by_row[1]).tolist() == [-8.0, -3.0]
    three = elementwise.where_backward(place.put(dy), place.put(x > 0), n, d)
    assert three[0] is None and place.get(three[1]).tolist() == [[0, 1], [0, 0]]
    plan = elementwise.multiply_backward.plan(place.put(dy), n, d)
    found = plan(place.put(dy), n, d)
    assert found[0] is None and place.get(found[1]).tolist() == [[2, -3], [2, -3]]


def test_what_is_none_is_so_in_out(place):
    x, n, row = place.put(np.ones((2, 3))), place.put(np.array([1, 2, 3])), place.put(np.ones(3))
    out, row_out = place.empty((2, 3), np.dtype(float)).view, place.empty((3,), np.dtype(float)).view
    given = (None, out)
    assert elementwise.multiply_backward(x, n, x, out=given) is given
    assert place.get(out).tolist() == [[1, 2, 3]] * 2
    wide = place.put(np.ones((2, 3), int))
    for given in ((row_out, None), [row_out, None]):
        assert elementwise.multiply_backward(x, row, wide, out=given) is given
        assert place.get(row_out).tolist() == [2, 2, 2]
        row_out[...] = 0.0
    plan = elementwise.multiply_backward.plan(x, n, x, out=(None, out))
    given = (None, out)
    assert plan(x, n, x, out=given) is given
    for wrong in ((out, None), (out, out), (out,), out, (None, out, None)):
        with pytest.raises(numbacc.ShapeError, match=r"out must be \(None, an array\)"):
            elementwise.multiply_backward(x, n, x, out=wrong)
    with pytest.raises(numbacc.ShapeError, match="out must be"):
        elementwise.multiply_backward(x, row, wide, out=(out, out))
    with pytest.raises(numbacc.DTypeError, match=r"x1 has dtype int64.*needs floats"):
        elementwise.multiply_backward(x, n, wide, out=(out, out))
    with pytest.raises(numbacc.DTypeError, match=r"x1 has dtype int64.*needs floats"):
        elementwise.multiply_backward(x, wide, wide)
    with pytest.raises(numbacc.DTypeError, match="x2 has dtype complex128"):
        elementwise.multiply_backward(x, x, place.put(np.ones((2, 3), complex)))


def test_clamp_backward_takes_none_for_a_bound(place):
    dy, x = place.put(np.array([1.0, 2.0, 3.0])), place.put(np.array([0.0, 1.5, 4.0]))
    for bounds, wanted in (((1.0, None), [0, 2, 3]), ((None, 1.0), [1, 0, 0]), ((1.0, 2.0), [0, 2, 0])):
        np.testing.assert_array_equal(place.get(elementwise.clamp_backward(dy, x, *bounds)[0]), wanted)
    with pytest.raises(OptionError, match="both None"):
        elementwise.clamp_backward(dy, x, None, None)


def test_prelu_of_a_scalar_has_its_shape(place):
    x, weight = place.put(np.array(-2.0)), place.put(np.array([0.25]))
    y = elementwise.prelu(x, weight)
    assert y.shape == () and place.get(y) == -0.5
    dx, dweight = elementwise.prelu_backward(y, x, weight)
    assert dx.shape == () and dweight.shape == (1,)
    assert place.get(dx) == -0.125 and place.get(dweight) == 1.0
