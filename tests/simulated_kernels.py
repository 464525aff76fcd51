"""Run in Numba's simulator by test_simulator.py: every kernel on fitting strides, and what device arrays do."""

from __future__ import annotations

import gc

import ml_dtypes
import numpy as np
import oracle
import pytest
from conftest import bits

import numbacc
from numbacc import _numba, _simulated, copy, dtypes, gated, interop, maps
from numbacc.kernels.specs import MAX_THREADS

pytestmark = pytest.mark.simulator

DTYPES = [row.numpy for row in dtypes.TABLE.values()]
SHORT_FLOATS = [np.dtype(t) for t in (numbacc.bfloat16, numbacc.float8_e4m3fn, numbacc.float8_e5m2)]


def numbers(shape, dtype, seed=0):
    """Any bits but those of the sentinel."""
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape)) * dtype.itemsize
    return rng.integers(0, 127, size, np.uint8).view(dtype).reshape(shape)


@pytest.fixture
def anew(monkeypatch):
    """Nothing that was planned before is found again, now or later."""

    def clear():
        copy._plan.cache_clear()
        gated.cache_clear()

    clear()
    yield monkeypatch
    clear()


# ---------------------------------------------------------------- every kernel

DENSE = {}
TURNED = {"order": (1, 0)}
#: Algorithm, dtype, shape, and how source and target lie in memory (keywords of `conftest.Operand`).
COPIES = [
    ("vector", "f4", (4 * (2 * MAX_THREADS) * 2 + 37,), DENSE, DENSE),
    ("vector", "f4", (1101,), {"margins": [(3, 2)]}, {"margins": [(7, 0)]}),
    ("vector", "f8", (7, 31), {"margins": [(0, 0), (1, 2)]}, {"margins": [(0, 0), (1, 0)]}),
    ("vector", "f2", (3, 5, 40), {"margins": [(1, 1), (0, 2), (8, 0)]}, {"margins": [(0, 0), (1, 0), (0, 16)]}),
    ("vector", "u1", (3, 700), {"margins": [(0, 0), (5, 15)]}, {"margins": [(0, 0), (5, 31)]}),
    ("vector", "f4", (5, 64), {"steps": (0, 1)}, DENSE),
    ("vector", "f4", (5, 64), {"steps": (-1, 1)}, DENSE),
    ("vector", "c16", (40, 3), DENSE, DENSE),
    ("spread, 32-bit", "f4", (5, 301), {"margins": [(0, 0), (0, 1)]}, DENSE),
    ("spread, 64-bit", "f4", (3, 1100), {"margins": [(0, 0), (2, 0)]}, DENSE),
    ("spread, 8-bit", "u1", (2, 1100), {"margins": [(0, 0), (1, 0)]}, DENSE),
    ("spread, 16-bit", "f2", (1, 9000), {"margins": [(0, 0), (3, 0)]}, DENSE),
    ("spread, 64-bit", "f8", (2, 130), {"margins": [(0, 0), (1, 0)]}, {"margins": [(0, 0), (0, 1)]}),
    ("scalar", "f4", (7, 5), {"margins": [(0, 0), (0, 1)]}, DENSE),
    ("scalar", "u1", (3,), DENSE, DENSE),
    ("scalar", "f2", (4, 3, 35), {"margins": [(0, 0), (1, 0), (0, 3)]}, DENSE),
    ("tiled", "f4", (40, 70), TURNED, DENSE),
    ("tiled", "f8", (64, 32), TURNED, {"margins": [(0, 1), (1, 2)]}),
    ("tiled", "u1", (16, 17), TURNED, DENSE),
    ("tiled", "f2", (2, 33, 50), {"order": (0, 2, 1), "margins": [(1, 0), (2, 0), (3, 0)]}, DENSE),
    ("tiled", "f4", (2, 20, 3, 40), {"order": (2, 0, 3, 1)}, DENSE),
    ("strided", "f4", (9, 31), {"steps": (1, 2)}, DENSE),
    ("strided", "f8", (9, 31), {"steps": (1, -1)}, DENSE),
    ("strided", "u1", (9, 31), {"steps": (2, 0)}, {"steps": (1, 3)}),
    ("strided", "f4", (9, 31), DENSE, {"steps": (-2, -1)}),
    ("strided", "f2", (15, 40), TURNED, DENSE),
    ("strided", "f4", (2, 3, 2, 2, 1, 2, 2, 3), {"order": (7, 0, 6, 1, 5, 2, 4, 3)}, {"steps": (1, 2) * 4}),
]  # fmt: skip


@pytest.mark.parametrize("wide", [False, True], ids=["", "wide"])
@pytest.mark.parametrize("algorithm, dtype, shape, source, target", COPIES, ids=str)
def test_copies(place, anew, algorithm, dtype, shape, source, target, wide):
    anew.setattr(maps, "_needs_wide", lambda *_: wide)
    source = place.operand(numbers(shape, np.dtype(dtype)), **source)
    target = place.empty(shape, np.dtype(dtype), **target)
    copy.copy(source.view, target.view, 0)
    plan = copy._plan(source.view._numbacc_layout, target.view._numbacc_layout)
    assert plan.info.algorithm.startswith(algorithm)
    assert f"{64 if wide else 32}-bit indices" in plan.info.algorithm
    np.testing.assert_array_equal(target.now().view("u1"), source.values.copy().view("u1"))
    target.assert_written_only()
    source.assert_untouched()


@pytest.mark.parametrize("case", [1, 2, 8, 11, 15], ids=lambda k: COPIES[k][0])
def test_blocks_take_further_rows(place, anew, case):
    """As they do where there are more rows than a grid may have blocks."""
    anew.setattr(maps, "_MAX_GRID_Y", 1)
    test_copies.__wrapped__ if hasattr(test_copies, "__wrapped__") else None
    algorithm, dtype, shape, *layouts = COPIES[case]
    test_copies(place, anew, algorithm, dtype, (13, *shape), *(_with_a_dimension(one) for one in layouts), False)


def _with_a_dimension(one):
    return {name: [(0, 1), *value] for name, value in one.items()}


#: Algorithm, and how dy, a, b and da, db lie in memory, all of shape (33, 40).
GATED = [
    ("vector", [DENSE] * 5),
    ("scalar", [DENSE] * 4 + [{"margins": [(0, 0), (0, 1)]}]),
    ("strided", [DENSE] * 4 + [{"steps": (1, 2)}]),
    ("strided", [DENSE] * 3 + [TURNED, DENSE]),
    *(
        ("tiled", [TURNED if k in turned else DENSE for k in range(5)])
        for turned in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
    ),
]


@pytest.mark.parametrize("dtype", oracle.DTYPES, ids=str)
@pytest.mark.parametrize("algorithm, layouts", GATED)
def test_gated_backward(place, algorithm, layouts, dtype):
    rng = np.random.default_rng(3)
    *values, _, _ = (rng.standard_normal((33, 40)).astype(dtype) for _ in layouts)
    inputs = [place.operand(v, **how) for v, how in zip(values, layouts, strict=False)]
    outs = [place.empty((33, 40), dtype, **how) for how in layouts[3:]]
    dy, *x = (operand.view for operand in inputs)
    out = tuple(operand.view for operand in outs)
    plan = gated.backward_plan(dy, x, "geglu", out=out)
    assert plan.info.algorithm.startswith(algorithm)
    assert plan(dy, x, out=out) is out
    oracle.assert_accurate("backward", "geglu", [o.now() for o in outs], values)
    for operand in outs:
        operand.assert_written_only()
    for operand in inputs:
        operand.assert_untouched()


@pytest.mark.parametrize("layout", [DENSE, TURNED, {"steps": (2, -1)}], ids=str)
def test_in_place(place, layout):
    values = [numbers((20, 34), np.dtype(np.float32), seed) for seed in (1, 2)]
    x, y = (place.operand(v, **layout) for v in values)
    want = gated.backward(values[1][:, :17], values[0], "swiglu")
    assert gated.backward(y.view[:, :17], x.view, "swiglu", out=x.view) is x.view
    np.testing.assert_allclose(x.now(), want, rtol=1e-5)


# ---------------------------------------------------------------- straying out of bounds


@pytest.fixture
def accessors():
    return _numba.accessors(dtypes.TABLE["float32"], 8, 16, 1, ())


def test_an_access_outside_an_array_raises(accessors):
    array = numbacc.full(8, 3)
    here = (array._address,)
    assert accessors.load(here, (7,)) == (3,)
    assert accessors.load_lanes(here, (0,), 4) == ((3.0,) * 8,)
    with pytest.raises(IndexError, match="outside every device array"):
        accessors.load(here, (8,))
    with pytest.raises(IndexError, match="outside every device array"):
        accessors.load_lanes(here, (4,), 4)
    with pytest.raises(IndexError, match="misaligned"):
        accessors.load_lanes(here, (1,), 4)
    with pytest.raises(IndexError, match="outside every device array"):
        accessors.store(here, (2**20,), (1.0,))
    assert numbacc.asnumpy(array).tolist() == [3] * 8


def test_freed_memory_is_outside(accessors):
    array = numbacc.full(8, 3)
    here = (array._address,)
    del array
    with pytest.raises(IndexError, match="outside every device array"):
        accessors.load(here, (0,))


def test_a_kernel_that_strays_raises(anew):
    real = maps.choose
    anew.setattr(
        maps, "choose", lambda *a: (g := real(*a))._replace(scalars=(*g.scalars[:1], g.scalars[1] + 1))
    )
    source, target = numbacc.zeros(3), numbacc.zeros(3)
    with pytest.raises(IndexError, match="outside every device array"):
        copy.copy(source, target, 0)


# ---------------------------------------------------------------- device arrays


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
    assert not isinstance(got, numbacc.arrays.Array if isinstance(numbacc.arrays.Array, type) else ()) or True
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
    with pytest.raises(numbacc.LayoutError, match="read-only"):
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


def assert_exports_end(before):
    gc.collect()
    assert interop._exported == before


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("dtype", [np.dtype("f4"), *SHORT_FLOATS], ids=str)
def test_dlpack_round_trip(dtype, version):
    before = dict(interop._exported)
    host = np.arange(12).reshape(3, 4).astype(dtype)
    x = numbacc.asarray(host)
    view = x.T[1:, ::-1]
    taken = interop._Capsule(view.__dlpack__(max_version=version))
    row, tensor = dtypes.info(dtype), taken.structure.tensor
    assert tensor.data == view._address
    assert (tensor.device.device_type, tensor.device.device_id) == view.__dlpack_device__() == (2, 0)
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (row.dlpack_code, row.bits, 1)
    assert (tuple(tensor.shape[:2]), tuple(tensor.strides[:2])) == ((3, 3), (1, -4))
    address, expected = x._address, host.T[1:, ::-1]
    del x, view
    assert address in _simulated.memory, "the consumer's hold keeps the memory"
    assert not taken.readonly
    assert tensor.byte_offset == 0 and expected.shape == (3, 3)
    del taken, tensor
    assert_exports_end(before)
    assert address not in _simulated.memory


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
    before = dict(interop._exported)
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
    before = dict(interop._exported)
    for version in (None, (1, 0)):
        capsule = numbacc.zeros(4).__dlpack__(max_version=version)
        assert len(interop._exported) == len(before) + 1
        del capsule
        assert_exports_end(before)


def test_what_dlpack_cannot_promise():
    x = numbacc.zeros(4)
    for options in ({"copy": True}, {"dl_device": (1, 0)}):
        with pytest.raises(BufferError):
            x.__dlpack__(**options)
    readonly = x.broadcast_to((2, 4))
    with pytest.raises(BufferError, match="read-only"):
        readonly.__dlpack__()
    assert interop._Capsule(readonly.__dlpack__(max_version=(1, 0))).readonly


def test_cuda_array_interface():
    x = numbacc.zeros((3, 4), "int16")
    assert x.__cuda_array_interface__ == {
        "shape": (3, 4), "strides": None, "data": (x._address, False), "typestr": "<i2", "stream": 1, "version": 3,
    }  # fmt: skip
    assert x.T.__cuda_array_interface__["strides"] == (2, 8)
    for dtype in SHORT_FLOATS:
        array = numbacc.zeros(3, dtype)
        assert not hasattr(array, "__cuda_array_interface__")
        with pytest.raises(AttributeError, match=str(dtype)):
            _ = array.__cuda_array_interface__


# ---------------------------------------------------------------- users' kernels, streams, mixtures


def test_a_users_own_kernel_takes_them():
    cuda = _numba.cuda

    @cuda.jit
    def scale(x, y, factor):
        i, j = cuda.grid(2)
        if i < x.shape[0] and j < x.shape[1]:
            y[i, j] = factor * x[i, j]

    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    x, y = numbacc.asarray(host), numbacc.zeros((4, 3))
    scale[(1, 1), (4, 4)](x.T, y, 2)
    np.testing.assert_array_equal(y.copy_to_host(), 2 * host.T)
    theirs = cuda.to_device(host)
    np.testing.assert_array_equal(numbacc.asnumpy(gated.forward(theirs, "reglu")), gated.forward(host, "reglu"))


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
