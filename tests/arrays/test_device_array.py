"""Methods of device arrays: their arguments, and what they have of Numba's arrays."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import refused
from wrong_arguments import HUGE, OBJECT, STREAMS

import numbacc
from numbacc.base.dispatch import simulated
from numbacc.errors import IndexRangeError, shown
from numbacc.runtime import foreign_owners

#: What Numba's launcher and its own arrays' copies read of ours; none of it queues work.
READ_BY_NUMBA = {
    "__cuda_memory__", "__cuda_ndarray__", "_default_stream", "_numba_type_", "_strided_memory_view_shim",
    "as_cuda_arg", "device_ctypes_pointer", "flags",
}  # fmt: skip


def short(value):
    return shown(value)[:30]


def test_nothing_that_numba_does_goes_past_the_order_of_memory():
    """All that is inherited of the real class, or of the simulator's, is replaced."""
    from numbacc.arrays.device_array import DeviceArray
    from numbacc.base._numba import DeviceNDArray

    theirs = [base for base in DeviceArray.__mro__ if base in DeviceNDArray.__mro__]
    assert theirs[0].__name__ == ("FakeCUDAArray" if simulated() else "DeviceNDArray")
    names = {name for name in dir(DeviceNDArray) if not hasattr(object, name)} - {"__weakref__"}
    names |= {name for base in theirs[:-1] for name in vars(base) if name in ("__eq__", "__repr__", "__str__")}
    inherited = {n for n in names if next(base for base in DeviceArray.__mro__ if n in vars(base)) in theirs}
    assert {"split", "copy_to_host", "bind", "T", "__getitem__"} <= names
    assert inherited <= READ_BY_NUMBA


@pytest.fixture
def x(device_place):
    return device_place.put(np.arange(6, dtype=np.float32).reshape(2, 1, 3))


# ---------------------------------------------------------------- shapes and axes

SHAPES = ["a", "", None, 1.5, True, (1, True), (2, "a"), (2, 1.5), {6}, iter([6]), OBJECT, [[6]], b"x", np.ones(2)]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
def test_shapes_that_are_none(x, shape):
    refused(numbacc.ShapeError, "shape=", "integer", run=lambda: x.reshape(shape))
    refused(numbacc.ShapeError, "shape=", "integer", run=lambda: x.reshape(2, shape))
    refused(numbacc.ShapeError, "shape=", "integer", run=lambda: x.broadcast_to(shape))


def test_reshape_copies_where_it_is_asked_to(x):
    host = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    for array, mirror in ((x, host), (x.T, host.T), (x[:, :, ::2], host[:, :, ::2])):
        made = array.reshape(-1, copy=True)
        np.testing.assert_array_equal(numbacc.asnumpy(made), mirror.reshape(-1))
        np.testing.assert_array_equal(numbacc.asnumpy(np.reshape(array, (-1, 1), copy=True)), mirror.reshape(-1, 1))
        made[...] = 9
        np.testing.assert_array_equal(numbacc.asnumpy(x), host)
    view = x.reshape((3, 2), copy=False)
    view[0, 0] = 7
    assert x[0, 0, 0] == 7
    for copy in (None, False):
        refused(numbacc.LayoutError, "without a copy", run=lambda copy=copy: x.T.reshape(-1, copy=copy))
    refused(numbacc.OptionError, "copy", run=lambda: x.reshape(6, copy="yes"))
    refused(numbacc.ShapeError, "shape", run=lambda: x.reshape(5, copy=True))


@pytest.mark.parametrize(
    "shape", [7, (-1, 4), (-2, -3), (-1, -1), (3, 3), (), HUGE, (2**40, 2**40), (1,) * 99], ids=short
)
def test_shapes_of_other_sizes(x, shape):
    refused(numbacc.ShapeError, (2, 1, 3), "shape=", run=lambda: x.reshape(shape))


@pytest.mark.parametrize("shape", [3, (), (3, 3), (2, 1, 4), (2, 3, 1), (2, 1, -3), (0, 1, 3), HUGE, 2**62], ids=short)
def test_shapes_that_nothing_broadcasts_to(x, shape):
    refused(numbacc.ShapeError, "shape", run=lambda: x.broadcast_to(shape))


@pytest.mark.parametrize(
    "axes", ["a", "012", 1.5, True, (0, 1, 2.0), {0, 1, 2}, (0, 1, None), OBJECT, (0, 1, True)], ids=short
)
def test_axes_that_are_none(x, axes):
    refused(numbacc.ShapeError, "axes=", "integer", run=lambda: x.transpose(axes))
    refused(numbacc.ShapeError, "axis=", "integer", run=lambda: x.squeeze(axes))


def test_axes_that_do_not_fit(x):
    for axes in ((0, 0, 1), (0, 1, -2)):
        refused(numbacc.ShapeError, "axes=", "twice", run=lambda axes=axes: x.transpose(axes))
    for axes in ((0, 1), (), 0, [1]):
        refused(numbacc.ShapeError, "axes=", "each axis", run=lambda axes=axes: x.transpose(axes))
    for axes in ((0, 1, 3), (0, 1, -4), (0, 1, HUGE)):
        refused(numbacc.ShapeError, "axes=", "out of range", run=lambda axes=axes: x.transpose(axes))
    refused(numbacc.ShapeError, "axis=0", (2, 1, 3), "length 1", run=lambda: x.squeeze(0))
    refused(numbacc.ShapeError, "axis=(1, 2)", "length 1", run=lambda: x.squeeze((1, 2)))
    refused(numbacc.ShapeError, "axis=3", "out of range", run=lambda: x.squeeze(3))
    refused(numbacc.ShapeError, "axis=(1, 1)", "twice", run=lambda: x.squeeze((1, 1)))


def test_axes_of_all_kinds(x):
    assert x.squeeze().shape == x.squeeze(1).shape == x.squeeze((-2,)).shape == x.squeeze([np.int8(1)]).shape == (2, 3)
    assert x.squeeze(()).shape == (2, 1, 3)
    assert x.transpose([2, -3, 1]).shape == x.transpose(np.array([2, 0, 1])).shape == (3, 2, 1)
    assert x.reshape(np.int64(6)).shape == x.reshape(np.array([6])).shape == x.reshape([-1]).shape == (6,)
    assert x[:0].reshape(0, 4).shape == (0, 4)
    assert x[0, 0].broadcast_to([2, np.int32(3)]).shape == x[0, 0].broadcast_to(np.array([2, 3])).shape == (2, 3)


@pytest.mark.parametrize("shape", [6, (), (-1, 0), (0, 2**40, 2**40), (0, 2**64), (0,) * 99], ids=short)
def test_shapes_of_nothing(x, shape):
    refused(numbacc.ShapeError, "shape", run=lambda: x[:0].reshape(shape))


@pytest.mark.parametrize("order", ["F", 1, None, [], np.array(["C", "C"])], ids=short)
def test_other_orders(x, order):
    refused(numbacc.LayoutError, "order=", run=lambda: x.reshape(6, order=order))
    refused(numbacc.LayoutError, "order=", run=lambda: x.ravel(order))


# ---------------------------------------------------------------- indices


def used(x, index):
    """All that takes an index."""
    return (
        lambda: x[index], lambda: x.getitem(index), lambda: x.__setitem__(index, 1), lambda: x.setitem(index, 1)
    )  # fmt: skip


@pytest.mark.parametrize(
    "index",
    [2, -3, HUGE, -HUGE, (0, 1), (0, 0, 0, 0), (..., 3), (..., 0, ...)],
    ids=short,
)
def test_indices_out_of_range(x, index):
    for run in used(x, index):
        refused(IndexRangeError, "index", (2, 1, 3), run=run)
    assert issubclass(IndexRangeError, IndexError) and issubclass(IndexRangeError, numbacc.ShapeError)


@pytest.mark.parametrize(
    "index",
    [
        slice(None, None, 0),
        slice("a"),
        slice(1.5),
        slice(0, "b"),
        slice(None, None, "c"),
        "a",
        1.5,
        [0],
        OBJECT,
        True,
        (0, slice(0, 1, 0)),
    ],
    ids=short,
)
def test_indices_that_are_none(x, index):
    for run in used(x, index):
        refused(numbacc.LayoutError, "index", run=run)


# ---------------------------------------------------------------- copies to and from the host


def frozen(array):
    array.flags.writeable = False
    return array


TARGETS = [
    (numbacc.DTypeError, [1]), (numbacc.DTypeError, "x"), (numbacc.DTypeError, 0), (numbacc.DTypeError, False),
    (numbacc.DTypeError, np.float32(1)), (numbacc.ShapeError, np.zeros((2, 3), "f4")),
    (numbacc.ShapeError, np.zeros((2, 2, 1, 3), "f4")), (numbacc.DTypeError, np.zeros((2, 1, 3), "f8")),
    (numbacc.DTypeError, np.zeros((2, 1, 3), "i4")), (numbacc.LayoutError, frozen(np.zeros((2, 1, 3), "f4"))),
]  # fmt: skip


@pytest.mark.parametrize("error, target", TARGETS, ids=lambda t: t.__name__ if isinstance(t, type) else repr(t))
def test_targets_of_copies(x, error, target):
    refused(error, "ary", run=lambda: x.copy_to_host(target))
    refused(error, "out", run=lambda: numbacc.asnumpy(x, out=target))


def test_sources_of_copies(x):
    refused(numbacc.DTypeError, "ary", run=lambda: x.copy_to_device("x"))
    refused(numbacc.ShapeError, "ary", run=lambda: x.copy_to_device(np.ones(4)))


@pytest.mark.parametrize("stream", [*STREAMS, "", (), 0.0, False, 2], ids=short)
def test_streams_that_are_none(x, stream):
    for run in (
        lambda: x.bind(stream), lambda: setattr(x, "stream", stream), lambda: x.copy_to_host(stream=stream),
        lambda: x.copy_to_device(np.ones(3), stream), lambda: x.getitem((0, 0, 0), stream),
        lambda: x.getitem(0, stream), lambda: x.setitem(0, 1, stream), lambda: x.ravel().split(2, stream),
    ):  # fmt: skip
        refused(numbacc.OptionError, "stream", run=run)


# ---------------------------------------------------------------- Numba's own methods


def test_parts_are_views_in_this_order(x):
    whole = x.ravel()
    stream = numbacc.stream()
    for given in (0, None, stream):
        parts = list(whole.split(4, given))
        assert [type(part) for part in parts] == [type(x)] * 2
        assert [numbacc.asnumpy(part).tolist() for part in parts] == [[0, 1, 2, 3], [4, 5]]
        assert all(part._storage is x._storage and (part.stream is stream) == (given is stream) for part in parts)
    next(whole.split(3))[...] = 7
    assert numbacc.asnumpy(whole).tolist() == [7, 7, 7, 3, 4, 5]
    assert [part.shape for part in whole[:0].split(3)] == []
    assert [numbacc.asnumpy(part).tolist() for part in whole[::-2].split(2)] == [[5, 3], [7]]
    refused(numbacc.DTypeError, "asnumpy", run=lambda: np.sort(next(whole.split(3))))


@pytest.mark.parametrize("section", [0, -1, 1.5, "x", None, [2]], ids=short)
def test_sections_that_are_none(x, section):
    refused(numbacc.OptionError, "section=", run=lambda: x.ravel().split(section))
    refused(numbacc.ShapeError, "rank 1", (2, 1, 3), run=lambda: x.split(2))


def test_elements_and_parts_on_a_stream(x):
    stream = numbacc.stream()
    x.setitem((0, 0), [3, 4, 5], stream)
    assert x.getitem((0, 0, 1), stream) == x.getitem((0, 0, 1)) == x._do_getitem((0, 0, 1)) == x[0, 0, 1] == 4
    part = x.getitem(slice(0, 1), stream)
    assert (part.shape, part.stream, part._storage) == ((1, 1, 3), stream, x._storage)
    x._do_setitem(..., 8)
    assert numbacc.asnumpy(part).tolist() == [[[8, 8, 8]]]


def test_memory_of_a_pool_has_no_handle_for_other_processes(x):
    refused(numbacc.UnsupportedError, "get_ipc_handle", "pool", run=x.get_ipc_handle)


# ---------------------------------------------------------------- DLPack


@pytest.mark.parametrize("stream", ["x", OBJECT, 1.5, -2, 2**64, HUGE, True, False, [0], (0, 0)], ids=short)
def test_consumers_streams_that_are_none(x, stream):
    refused(numbacc.OptionError, "stream=", run=lambda: x.__dlpack__(stream=stream))


@pytest.mark.parametrize(
    "wrong", ["x", "10", 1, (1,), (1, 0, 0), (1.0, 0), ("1", 0), (None, 0), OBJECT, {1, 0}], ids=short
)
def test_pairs_of_dlpack_that_are_none(x, wrong):
    refused(numbacc.OptionError, "max_version=", run=lambda: x.__dlpack__(max_version=wrong))
    refused(numbacc.OptionError, "dl_device=", run=lambda: x.__dlpack__(dl_device=wrong))


def test_what_dlpack_says_is_exported(x):
    for stream in (None, -1, 0, 1, np.int64(1), numbacc.stream().handle):
        for version in (None, (0, 8), (1, 0), [1, 1], (7, 3)):
            for device in (None, x.__dlpack_device__(), list(x.__dlpack_device__())):
                for copy in (None, False, np.False_):
                    x.__dlpack__(stream=stream, max_version=version, dl_device=device, copy=copy)
    foreign_owners.collect()  # the last capsules, which nobody has taken
    refused(numbacc.OptionError, "copy=", run=lambda: x.__dlpack__(copy="x"))
    # DLPack's word for what cannot be done.
    refused(BufferError, "copy", run=lambda: x.__dlpack__(copy=True))
    refused(BufferError, "per-thread", run=lambda: x.__dlpack__(stream=2))
