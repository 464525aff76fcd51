"""Run in Numba's simulator by test_simulator.py: what device arrays do, and how they are shared."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from conftest import bits

import numbacc
from numbacc import gated
from numbacc.arrays import dlpack, interop
from numbacc.base import _numba, dtypes
from numbacc.kernels.primitives import simulated
from numbacc.runtime import foreign_owners, streams

pytestmark = pytest.mark.simulator

cuda = _numba.cuda

DTYPES = [row.numpy for row in dtypes.TABLE.values()]
SHORT_FLOATS = [np.dtype(t) for t in (numbacc.bfloat16, numbacc.float8_e4m3fn, numbacc.float8_e5m2)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_is_held(dtype):
    zeros, ones = numbacc.zeros((2, 3), dtype), numbacc.full((2, 3), 1, dtype)
    assert zeros.dtype == ones.dtype == numbacc.empty((), dtype).dtype == dtype
    np.testing.assert_array_equal(bits(zeros.copy_to_host()) if dtype.itemsize < 16 else zeros.copy_to_host(), 0)
    np.testing.assert_array_equal(ones.copy_to_host(), np.ones((2, 3), dtype))
    like = numbacc.empty_like(ones)
    assert (like.shape, like.dtype, like.device) == ((2, 3), dtype, 0)
    like[...] = ones
    like[0, 1:] = 0
    expected = np.ones((2, 3), dtype)
    expected[0, 1:] = 0
    np.testing.assert_array_equal(numbacc.asnumpy(like), expected)
    np.testing.assert_array_equal(numbacc.asnumpy(numbacc.asarray(expected.T)), expected.T)


VIEWS = {
    "element": lambda x: x[1, 2, 3],
    "row": lambda x: x[1],
    "slices": lambda x: x[:, 1:3, ::2],
    "backwards": lambda x: x[::-1, :, ::-2],
    "new axis": lambda x: x[None, 0, ..., None],
    "last": lambda x: x[..., -1],
    "nothing": lambda x: x[1:1],
    "T": lambda x: x.T,
    "transpose": lambda x: x.transpose((1, 2, 0)),
    "reshape": lambda x: x.reshape(6, -1),
    "reshape a part": lambda x: x[:, 1].reshape((2, 2, 2)),
    "ravel": lambda x: x.ravel(),
    "squeeze": lambda x: x[:, :1].squeeze(1),
}


@pytest.mark.parametrize("dtype", [np.dtype("f4"), *SHORT_FLOATS], ids=str)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_are_numpys(view, dtype):
    host = np.arange(24).reshape(2, 3, 4).astype(dtype)
    got, want = view(numbacc.asarray(host)), view(host)
    assert got.shape == want.shape
    np.testing.assert_array_equal(numbacc.asnumpy(got) if want.shape else got, want)
    if want.shape:
        assert got.strides == want.strides or not want.size
        assert got.dtype == dtype


def test_views_share_memory():
    x = numbacc.zeros((3, 4))
    x.T[1] = 5
    x[::2].reshape(2, 4)[0, 0] = 7
    x[1, ::-1][0:2] = np.array([1.0, 2.0])
    x.view("int32")[2, 3] = np.float32(9).view(np.int32)
    want = [[7, 5, 0, 0], [0, 5, 2, 1], [0, 5, 0, 9]]
    assert x.copy_to_host().tolist() == want
    repeated = x[0].broadcast_to((2, 4))
    assert repeated.strides == (0, 4)
    assert numbacc.asnumpy(repeated).tolist() == [want[0]] * 2
    with pytest.raises(numbacc.LayoutError, match="share memory"):
        repeated[...] = np.ones((2, 4), np.float32)
    with pytest.raises(numbacc.LayoutError, match="share memory"):
        repeated[...] = 1
    with pytest.raises(numbacc.DTypeError, match="sizes differ"):
        x.view("float64")
    with pytest.raises(numbacc.LayoutError, match="without"):
        x.T.reshape(12)
    with pytest.raises(numbacc.ShapeError):
        x.reshape(5)
    with pytest.raises(numbacc.LayoutError, match="not supported"):
        x[[0, 1]]


def test_values_on_the_host():
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = numbacc.asarray(host)
    out = np.empty((4, 3), np.float32)
    assert numbacc.asnumpy(x.T, out=out) is out
    np.testing.assert_array_equal(out, host.T)
    out = np.empty((3, 2), np.float32)
    assert x[:, ::-2].copy_to_host(out) is out
    np.testing.assert_array_equal(out, host[:, ::-2])
    x.copy_to_device(host + 1)
    assert [row.copy_to_host().tolist() for row in x] == (host + 1).tolist()
    assert (len(x), x[2, 3].item(), x[:1, 0].item()) == (3, 12, 1)
    with pytest.raises(numbacc.ShapeError):
        x.item()
    with pytest.raises(TypeError):
        len(numbacc.zeros(()))


def test_small_arrays_show_their_values():
    assert repr(numbacc.full((2, 2), 1.5)) == (
        "DeviceArray(shape=(2, 2), dtype=float32, device=cuda:0)\n[[1.5 1.5]\n [1.5 1.5]]"
    )
    assert repr(numbacc.zeros(65)) == "DeviceArray(shape=(65,), dtype=float32, device=cuda:0)"
    assert "\n[1 1]" in str(numbacc.full(2, 1, "float8_e5m2"))


# ---------------------------------------------------------------- sharing


@pytest.fixture(scope="module", autouse=True)
def few_objects():
    """Exclude earlier objects from collections. To visit the objects of thousands of tests takes 0.6 s each time."""
    gc.collect()
    gc.freeze()


def assert_exports_end(before):
    gc.collect()
    foreign_owners.collect()
    assert foreign_owners._lent == before


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("dtype", [np.dtype("f4"), *SHORT_FLOATS], ids=str)
def test_dlpack_round_trip(dtype, version):
    before = dict(foreign_owners._lent)
    x = numbacc.zeros((3, 4), dtype)
    view = x.T[1:, ::-1]
    taken = interop._Capsule(view.__dlpack__(max_version=version))
    row, tensor = dtypes.info(dtype), taken.structure.tensor
    assert tensor.data == view._address
    assert (tensor.device.device_type, tensor.device.device_id) == view.__dlpack_device__() == (2, 0)
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (row.dlpack_code, row.bits, 1)
    assert (tuple(tensor.shape[:2]), tuple(tensor.strides[:2])) == ((3, 3), (1, -4))
    address = x._address
    del x, view
    assert address in simulated.memory, "the consumer's hold keeps the memory"
    assert not taken.readonly
    del taken, tensor
    assert_exports_end(before)
    assert address not in simulated.memory


class Foreign:
    """Another library's array."""

    def __init__(self, array):
        self._array = array

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("u1"), *SHORT_FLOATS], ids=str)
def test_foreign_arrays_share_their_memory(dtype):
    before = dict(foreign_owners._lent)
    x = numbacc.zeros((3, 4), dtype)
    y = numbacc.from_dlpack(Foreign(x.T))
    assert (y.shape, y.strides, y.dtype, y._address) == (x.T.shape, x.T.strides, dtype, x._address)
    y[1] = 1
    expected = np.zeros((3, 4), dtype)
    expected[:, 1] = 1
    del y
    np.testing.assert_array_equal(numbacc.asnumpy(x), expected)
    assert_exports_end(before)


def test_a_capsule_that_nobody_takes_lets_go():
    before = dict(foreign_owners._lent)
    for version in (None, (1, 0)):
        capsule = numbacc.zeros(4).__dlpack__(max_version=version)
        assert len(foreign_owners._lent) == len(before) + 1
        del capsule
        assert_exports_end(before)


@pytest.mark.parametrize(
    "options", [{"copy": True}, {"dl_device": (1, 0), "copy": False}, {"dl_device": (2, 1)}], ids=str
)
def test_what_dlpack_cannot_do(options):
    with pytest.raises(BufferError):
        numbacc.zeros(4).__dlpack__(**options)


def test_dlpack_copies_to_the_cpu_where_that_is_asked_for():
    x = numbacc.asarray(np.arange(6.0).reshape(2, 3))[:, ::2]
    for found in (np.from_dlpack(x, device="cpu"), np.from_dlpack(x, device="cpu", copy=True)):
        np.testing.assert_array_equal(found, [[0, 2], [3, 5]])
    x[...] = 7
    assert found[0, 0] == 0


class ReadOnly(Foreign):
    """Another library's array that says it must not be written."""

    def __dlpack__(self, **options):
        capsule = super().__dlpack__(**options)
        address = dlpack.pointer(capsule, dlpack.NEW)
        dlpack.STRUCTURES[dlpack.NEW].from_address(address).flags = 1
        return capsule


def test_read_only_arrays_stay_so():
    x = numbacc.full((2, 4), 2)
    y = numbacc.from_dlpack(ReadOnly(x))
    for refused in (lambda: y.__setitem__(0, 1), lambda: gated.forward(x, out=y[:, :2])):
        with pytest.raises(numbacc.LayoutError, match="read-only"):
            refused()
    with pytest.raises(BufferError, match="read-only"):
        y.T.__dlpack__()
    assert interop._Capsule(y[1:].__dlpack__(max_version=(1, 0))).readonly
    np.testing.assert_array_equal(x.copy_to_host(), np.full((2, 4), 2))


def test_cuda_array_interface():
    x = numbacc.zeros((3, 4), "int16")
    assert x.__cuda_array_interface__ == {
        "shape": (3, 4), "strides": None, "data": (x._address, False), "typestr": "<i2", "stream": 1, "version": 3,
    }  # fmt: skip
    assert x.T.__cuda_array_interface__["strides"] == (2, 8)
    for dtype in SHORT_FLOATS:
        array = numbacc.zeros(3, dtype)
        assert not hasattr(array, "__cuda_array_interface__")
        with pytest.raises(AttributeError):
            _ = array.__cuda_array_interface__


# ---------------------------------------------------------------- users' kernels, streams, mixtures


def test_a_users_own_kernel_takes_them():
    @cuda.jit
    def scale(x, y, factor):
        i, j = cuda.grid(2)
        if i < x.shape[0] and j < x.shape[1]:
            y[i, j] = factor * x[i, j]

    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    x, y = numbacc.asarray(host), numbacc.zeros((4, 3))
    scale[(1, 1), (4, 4)](x.T, y, 2)
    np.testing.assert_array_equal(y.copy_to_host(), 2 * host.T)
    with numbacc.stream():
        z = numbacc.asarray(host.T)
    scale[(1, 1), (4, 4), z.stream](x.T, z, 3)
    np.testing.assert_array_equal(z.copy_to_host(), 3 * host.T)


def test_numbas_own_arrays_are_taken():
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    x, out = cuda.to_device(host), cuda.device_array((3, 2), np.float32)
    np.testing.assert_array_equal(numbacc.asnumpy(x), host)
    np.testing.assert_array_equal(numbacc.asnumpy(gated.forward(x, "reglu")), gated.forward(host, "reglu"))
    assert gated.forward(x, "reglu", out=out) is out
    np.testing.assert_array_equal(out.copy_to_host(), gated.forward(host, "reglu"))


def test_streams():
    x = numbacc.full((2, 8), 0.5)
    assert numbacc.current_stream().handle == 0
    with numbacc.stream() as outer:
        assert numbacc.current_stream() is outer
        with numbacc.stream(7) as inner:
            assert numbacc.current_stream() is inner and inner.handle == 7
            y = gated.forward(x)
        assert numbacc.current_stream() is outer
        outer.wait(inner)
    assert numbacc.current_stream().handle == 0
    outer.synchronize()
    np.testing.assert_allclose(y.copy_to_host(), gated.forward(np.full((2, 8), 0.5, np.float32)), rtol=1e-6)


def test_numpy_and_device_arrays_do_not_mix():
    host = np.ones((4, 6), np.float32)
    here = numbacc.asarray(host)
    for call in (
        lambda: gated.backward(host[:, :3], here),
        lambda: gated.backward(here[:, :3], host),
        lambda: gated.forward((here, host)),
        lambda: gated.forward(here, out=np.empty((4, 3), np.float32)),
        lambda: gated.forward(host, out=numbacc.empty((4, 3))),
    ):
        with pytest.raises(numbacc.DeviceError, match="host memory"):
            call()
    with pytest.raises(numbacc.DeviceError, match="cuda:1"):
        numbacc.zeros(3, device=1)


def test_a_foreign_stream_is_remembered_whatever_its_type():
    class Slotted:
        __slots__ = ()

        def __cuda_stream__(self):
            return (0, 0x5EED)

    stream = Slotted()
    y = gated.forward(numbacc.asarray(np.ones((2, 4), np.float32)), stream=stream)
    assert y._storage.stream == 0x5EED
    assert streams.owner_of(0x5EED) is stream


@pytest.mark.parametrize("part", [slice(None), slice(0, 2), slice(1, 3)], ids=str)
def test_arrays_of_numba_are_taken_more_than_once(part):
    """One that is taken anew, or a part of it, and let go of leaves the memory to the first."""
    theirs = cuda.to_device(np.ones((4, 8), np.float32))
    first = numbacc.asarray(theirs)
    second = numbacc.asarray(theirs[part])
    expected = numbacc.asnumpy(gated.forward(first))
    assert (numbacc.asnumpy(gated.forward(second)) == expected[part]).all()
    del second
    gc.collect()
    assert (numbacc.asnumpy(gated.forward(first)) == expected).all()
