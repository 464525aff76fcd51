"""Views of layouts: where the parts of an array lie, against NumPy's own arrays."""

from __future__ import annotations

import numpy as np
from conftest import refused
from hypothesis import given
from hypothesis import strategies as st
from layout_views import views

import numbacc
from numbacc.base import views as found
from numbacc.base.layout import layout_of
from numbacc.errors import IndexRangeError


def place(array):
    return array.__array_interface__["data"][0]


def bounds(n):
    return st.none() | st.integers(-n - 2, n + 2) | st.integers(-n, n).map(np.int64)


@st.composite
def indices(draw, shape):
    """Anything that NumPy's basic indexing takes, and what is out of range."""
    parts = []
    for n in shape[: draw(st.integers(0, len(shape)))]:
        steps = st.none() | st.sampled_from([-3, -2, -1, 1, 2, 3])
        slices = st.builds(slice, bounds(n), bounds(n), steps)
        parts.append(draw(slices | st.integers(-n, n) | st.integers(-n, n).map(np.int32)))
    for one in draw(st.lists(st.sampled_from([None, ..., slice(None), 0]), max_size=2)):
        parts.insert(draw(st.integers(0, len(parts))), one)
    return parts[0] if len(parts) == 1 and draw(st.booleans()) else tuple(parts)


@given(views(), st.data())
def test_parts_are_numpys(array, data):
    index = data.draw(indices(array.shape))
    try:
        # With an Ellipsis NumPy gives a view and no scalar.
        want = array[index if index is ... or ... in (parts := found.index_parts(index)) else (*parts, ...)]
    except IndexError:
        refused(IndexRangeError, "index", array.shape, run=lambda: found.part(layout_of(array), index))
        return
    made, offset = found.part(layout_of(array), index)
    assert made is layout_of(want)
    if want.size:
        assert place(array) + offset == place(want)
    elif not array.size:
        assert offset == 0


@given(views(), st.data())
def test_orders_of_axes_are_numpys(array, data):
    made = layout_of(array)
    order = tuple(data.draw(st.permutations(range(array.ndim))))
    assert found.transposed(made) is layout_of(array.T)
    assert found.transposed(made, order) is layout_of(array.transpose(order))
    assert found.squeezed(made, None) is layout_of(array.squeeze())
    ones = tuple(d for d, n in enumerate(array.shape) if n == 1 and data.draw(st.booleans()))
    assert found.squeezed(made, ones) is layout_of(array.squeeze(ones))
    assert found.is_contiguous(made) == array.flags.c_contiguous


@given(views(), st.data())
def test_shapes_are_numpys(array, data):
    made = layout_of(array)
    sizes = [n for n in range(1, array.size + 1) if array.size % n == 0] or [0, 1, 3]
    first = data.draw(st.sampled_from(sizes))
    for wanted in ((first, -1), (-1,), (1, *array.shape), array.shape[::-1], (first, 7)):
        try:
            want = array.reshape(wanted)
        except ValueError:
            refused(numbacc.ShapeError, array.shape, "shape=", run=lambda wanted=wanted: found.reshaped(made, wanted))
            continue
        if want.size and not np.shares_memory(want, array):
            refused(numbacc.LayoutError, "copy", want.shape, run=lambda wanted=wanted: found.reshaped(made, wanted))
            continue
        got = found.reshaped(made, wanted)
        assert got.shape == want.shape
        if want.size:
            assert place(want) == place(array)
            assert [s for n, s in zip(got.shape, got.strides, strict=True) if n > 1] == [
                s for n, s in zip(want.shape, want.strides, strict=True) if n > 1
            ]


def test_shapes_that_arrays_broadcast_to():
    array = np.zeros((3, 1, 4), np.float32)[::-1]
    for lengths in ((3, 1, 4), (3, 5, 4), (2, 3, 0, 4), (1, 3, 1, 4)):
        assert found.broadcast(layout_of(array), lengths) is layout_of(np.broadcast_to(array, lengths))
    for lengths in ((3, 4), (4, 1, 4), (3, 5, 2), ()):
        refused(numbacc.ShapeError, (3, 1, 4), run=lambda lengths=lengths: found.broadcast(layout_of(array), lengths))


def test_what_only_looks_like_an_everyday_index():
    """What is refused, or counts axes otherwise, is left to NumPy."""
    made = layout_of(np.zeros(3))
    for index in ((..., 0, 0), (..., ...), (..., 0, ...), (None, 0, 0)):
        refused(IndexRangeError, "index", run=lambda index=index: found.part(made, index))
    for index in ((True, 0), ((0,),), slice("a"), slice(None, None, 0), (..., True)):
        refused(numbacc.LayoutError, "index", run=lambda index=index: found.part(made, index))
    assert found.part(made, (..., None))[0].shape == (3, 1)
    assert found.part(made, (..., None, 1)) == (layout_of(np.zeros(3)[..., None, 1]), 8)
