"""Shapes and strides, against NumPy and against counting every element."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from layout_views import views

import numbacc
from numbacc.base import layout as lay
from numbacc.base.dtypes import TABLE
from numbacc.base.layout import Layout, layout_of


def offsets(shape, strides):
    """The offset of every element, in C order, by its definition."""
    return [
        sum(x * step for x, step in zip(place, strides, strict=True)) for place in product(*(range(n) for n in shape))
    ]


def bytes_of(array):
    """The address of every byte of every element."""
    starts = offsets(array.shape, array.strides)
    return [array.ctypes.data + start + k for start in starts for k in range(array.itemsize)]


# ---------------------------------------------------------------- layouts


@given(views())
def test_bounds_are_the_bytes_touched(view):
    found, touched = layout_of(view), bytes_of(view)
    assert (found.shape, found.strides, found.dtype) == (view.shape, view.strides, view.dtype)
    assert (found.ndim, found.size, found.nbytes, found.itemsize) == (
        view.ndim, view.size, view.nbytes, view.itemsize,
    )  # fmt: skip
    assert found.device == lay.CPU
    if touched:
        assert view.ctypes.data + found.low == min(touched)
        assert view.ctypes.data + found.high == max(touched) + 1
    else:
        assert found.low == found.high == 0


def test_layouts_are_interned():
    one, two = np.zeros((3, 4)), np.ones((3, 4))
    assert layout_of(one) is layout_of(two)
    assert layout_of(one) is not layout_of(one.T)
    assert layout_of(one) is not layout_of(one.astype("f4"))
    assert lay.layout((3,), (4,), np.dtype("f4"), 0) is not lay.layout((3,), (4,), np.dtype("f4"), 1)
    assert "(3, 4)" in repr(layout_of(one)) and "float64" in repr(layout_of(one))


@given(st.lists(st.integers(0, 4), max_size=5), st.sampled_from([1, 2, 4, 8]))
def test_row_major_strides(shape, itemsize):
    strides = lay.row_major_strides(shape, itemsize)
    if 0 not in shape:
        assert strides == np.empty(shape, f"u{itemsize}").strides
    made = Layout(tuple(shape), strides, np.dtype(f"u{itemsize}"), lay.CPU)
    assert lay.is_dense(made) and not lay.repeats_elements(made)


@given(views(), st.data())
def test_dense_like_is_numpys_order_k(view, data):
    """Also for a shape that is shorter along one axis, as a half is."""
    shape = list(view.shape)
    axis = data.draw(st.integers(0, view.ndim - 1))
    shape[axis] = (shape[axis] + 1) // 2
    made = lay.dense_like(layout_of(view), tuple(shape))
    assert made.shape == tuple(shape)
    assert (made.dtype, made.device) == (view.dtype, lay.CPU)
    assert lay.is_dense(made)
    if made.size and 0 not in view.strides:
        half = view[tuple(slice(n) for n in shape)]
        like = np.empty_like(half).strides
        assert [s for n, s in zip(shape, made.strides, strict=True) if n > 1] == [
            s for n, s in zip(shape, like, strict=True) if n > 1
        ]


def test_dense_like_puts_broadcast_dimensions_outermost():
    row = np.broadcast_to(np.zeros(3, "f4"), (2, 3))
    assert lay.dense_like(layout_of(row), (2, 3)).strides == (12, 4)
    column = np.broadcast_to(np.zeros((2, 1), "f4"), (2, 3))
    assert lay.dense_like(layout_of(column), (2, 3)).strides == (4, 8)


@given(views())
def test_is_dense_is_one_stretch_each_byte_once(view):
    touched = sorted(bytes_of(view))
    stretch = not touched or touched == list(range(touched[0], touched[0] + view.nbytes))
    forwards = all(step >= 0 for n, step in zip(view.shape, view.strides, strict=True) if n > 1)
    if lay.is_dense(layout_of(view)):
        assert stretch
    else:
        assert not (stretch and forwards)


@given(views())
def test_repeats_elements_of_views(view):
    """Exact for whatever slicing, transposing and broadcasting make of an array without overlap."""
    places = offsets(view.shape, view.strides)
    assert lay.repeats_elements(layout_of(view)) == (len(set(places)) < len(places))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-6, 6)), min_size=1, max_size=4))
def test_repeats_elements_misses_nothing(dimensions):
    """Strides that nobody slices together: a false alarm is allowed there, a miss is not."""
    shape, strides = tuple(zip(*dimensions, strict=True))
    made = Layout(shape, strides, np.dtype("u2"), lay.CPU)
    touched = [start + k for start in offsets(shape, strides) for k in range(2)]
    if len(set(touched)) < len(touched):
        assert lay.repeats_elements(made)
        with pytest.raises(numbacc.LayoutError, match="out has elements that share memory"):
            lay.check_writable(made, "out")


def test_what_may_be_written():
    lay.check_writable(layout_of(np.zeros((3, 4))[::-1, ::2].T), "out")
    with pytest.raises(numbacc.LayoutError, match="out"):
        lay.check_writable(layout_of(np.broadcast_to(np.zeros(3), (2, 3))), "out")


# ---------------------------------------------------------------- views of memory


@given(views(), st.data())
def test_shadow_does_numpys_view_arithmetic(view, data):
    """Slicing the shadow moves its address as slicing the array does."""
    shadow = lay.shadow(view.ctypes.data, layout_of(view))
    assert (shadow.shape, shadow.strides, shadow.itemsize) == (view.shape, view.strides, view.itemsize)
    index = tuple(
        slice(data.draw(st.integers(0, n)), data.draw(st.integers(0, n)), data.draw(st.sampled_from([1, -1, 2])))
        for n in view.shape
    )
    part, same = view[index].T, shadow[index].T
    assert (part.shape, part.strides) == (same.shape, same.strides)
    if part.size:
        assert same.__array_interface__["data"][0] == part.__array_interface__["data"][0]


@pytest.mark.parametrize("name", TABLE)
def test_shadow_of_every_dtype(name):
    """Also of those without a type string, and of an empty array at address 0."""
    dtype = TABLE[name].numpy
    made = Layout((2, 0), (4 * dtype.itemsize, dtype.itemsize), dtype, 0)
    assert lay.shadow(0, made).shape == (2, 0)
    assert lay.shadow(4096, Layout((3,), (dtype.itemsize,), dtype, 0))[1:].ctypes.data == 4096 + dtype.itemsize


@given(views(broadcast=False))
def test_numpy_view_is_a_view(view):
    assume(view.size)
    same = lay.numpy_view(view, 0, view.shape, view.strides)
    np.testing.assert_array_equal(same, view)
    assert same.dtype == view.dtype and np.shares_memory(same, view)
    last = (np.array(view.shape) - 1) @ np.array(view.strides)
    one = lay.numpy_view(view, int(last), (1,), (view.itemsize,))
    assert one[0] == view[tuple(n - 1 for n in view.shape)]


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "float64"])
def test_numpy_view_keeps_dtype_memory_and_permission(name):
    array = np.arange(6).astype(TABLE[name].numpy)
    array.flags.writeable = False
    address = array.ctypes.data
    view = lay.numpy_view(array, 2 * array.itemsize, (2,), (array.itemsize,))
    del array  # the view keeps the memory
    assert view.dtype == TABLE[name].numpy
    assert view.ctypes.data == address + 2 * view.itemsize
    assert view.tolist() == [2, 3]
    assert not view.flags.writeable


# ---------------------------------------------------------------- overlap


@given(st.data())
def test_overlap_of_two_views_of_one_array(data):
    base = np.zeros(data.draw(st.sampled_from([(24,), (6, 5), (3, 4, 2)])), "u2")
    one, other = (data.draw(views(base)) for _ in range(2))
    found = lay.overlap(one.ctypes.data, layout_of(one), other.ctypes.data, layout_of(other))
    assert found == bool(set(bytes_of(one)) & set(bytes_of(other)))
    assert found == np.shares_memory(one, other)


@given(views(), views())
def test_separate_arrays_do_not_overlap(one, other):
    other = other.copy()
    assert not lay.overlap(one.ctypes.data, layout_of(one), other.ctypes.data, layout_of(other))


def test_an_undecided_overlap_counts_as_one():
    """A problem that is too hard to solve within reason: nine coprime strides."""
    primes = (9973, 9967, 9949, 9941, 9931, 9929, 9923, 9907)
    shape = (60,) * 8
    one = Layout(shape, primes, np.dtype("u1"), lay.CPU)
    other = Layout(shape, tuple(p + 2 for p in primes), np.dtype("u1"), lay.CPU)
    with pytest.raises(np.exceptions.TooHardError):
        np.shares_memory(lay.shadow(1 << 20, one), lay.shadow((1 << 20) + 5, other), max_work=100_000)
    assert lay.overlap(1 << 20, one, (1 << 20) + 5, other)


# ---------------------------------------------------------------- merging


@st.composite
def operands(draw):
    """A shape, and several operands' strides for it: dense in any order, with gaps, or broadcast."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    orders = [draw(st.permutations(range(len(shape)))) for _ in range(draw(st.integers(1, 2)))]
    strides = []
    for _ in range(draw(st.integers(1, 4))):
        steps, step = [0] * len(shape), 1
        for d in draw(st.sampled_from(orders)):
            steps[d] = step * draw(st.sampled_from([1, 1, 1, -1])) * draw(st.sampled_from([1, 1, 1, 1, 0]))
            step *= shape[d] + draw(st.sampled_from([0, 0, 0, 1]))
        strides.append(steps)
    return shape, strides, draw(st.integers(0, len(strides) - 1))


@given(operands(), st.sampled_from([1, 2, 4, 8]))
def test_merged_dimensions_visit_the_same_elements(drawn, itemsize):
    shape, strides, leader = drawn
    in_bytes = [tuple(step * itemsize for step in steps) for steps in strides]
    merged = lay.merge_dimensions(shape, in_bytes, itemsize, leader)
    before = sorted(zip(*(offsets(shape, steps) for steps in strides), strict=True))
    after = sorted(zip(*(offsets(merged.shape, steps) for steps in merged.strides), strict=True))
    assert before == after
    assert len(merged.shape) <= max(1, sum(n > 1 for n in shape))
    assert 1 not in merged.shape or merged.shape == (1,)
    assert all(len(steps) == len(merged.shape) for steps in merged.strides)
    steps = [abs(step) for step in merged.strides[leader]]
    assert steps == sorted(steps, reverse=True)
    for outer, inner in zip(range(len(steps)), range(1, len(steps)), strict=False):
        walked = [row[inner] * merged.shape[inner] == row[outer] for row in merged.strides]
        assert not all(walked), "two neighbours could still be merged"


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.data())
def test_dense_arrays_of_one_memory_order_merge_to_one_dimension(shape, data):
    order = data.draw(st.permutations(range(len(shape))))
    array = np.zeros([shape[d] for d in order], "f4").transpose([int(d) for d in np.argsort(order)])
    merged = lay.merge_dimensions(shape, [array.strides] * 3, 4, 0)
    assert merged.shape == (array.size,)
    assert merged.strides == ((1,),) * 3


def test_halves_of_contiguous_rows_keep_two_dimensions():
    x = np.zeros((2, 3, 8), "f4")
    y = np.zeros((2, 3, 4), "f4")
    merged = lay.merge_dimensions(y.shape, [x.strides, x.strides, y.strides], 4, 2)
    assert merged == ((6, 4), ((8, 1), (8, 1), (4, 1)))


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "lengths, itemsize, wanted",
    [
        ((2**60 - 1,), 8, False), ((2**60,), 8, True), ((2**31, 2**32), 1, True), ((2**31, 2**32 - 1), 1, False),
        # Strides are made of the lengths that are not 0.
        ((2**40, 0, 2**40), 1, True), ((2**40, 0, 2**20), 1, False), ((1,) * 64, 1, False), ((1,) * 65, 1, True),
    ],
    ids=str,
)  # fmt: skip
def test_what_no_memory_can_hold(lengths, itemsize, wanted):
    assert lay.too_large(lengths, itemsize) is wanted
    if wanted:
        with pytest.raises(numbacc.ShapeError, match="too large"):
            lay.lengths_of(lengths, itemsize)
    else:
        assert lay.lengths_of(lengths, itemsize) == lengths


def test_normalize_axis():
    for ndim in range(1, 9):
        for axis in range(-ndim, ndim):
            assert lay.normalize_axis(np.int8(axis), ndim, "x") == axis % ndim
        for axis in (ndim, -ndim - 1):
            with pytest.raises(numbacc.ShapeError, match=f"axis={axis} .* x of rank {ndim}: use {-ndim} to {ndim - 1}"):
                lay.normalize_axis(axis, ndim, "x")
    for axis in (None, 1.0, "0", [0]):
        with pytest.raises(numbacc.ShapeError, match="not an integer"):
            lay.normalize_axis(axis, 2, "x")


def test_check_rank():
    for rank in range(1, 9):
        lay.check_rank((1,) * rank, "x")
    for rank in (0, 9):
        with pytest.raises(numbacc.ShapeError, match=f"x has rank {rank}"):
            lay.check_rank((1,) * rank, "x")
