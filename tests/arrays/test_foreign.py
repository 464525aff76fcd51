"""Arrays of other libraries: what they leave unsaid, what is refused with a remedy, and every dtype both ways."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest
from conftest import bits, refused
from foreign import EVERY_DTYPE, values
from skips import needed, skip

import numbacc
from numbacc import gated
from numbacc.base.dispatch import simulated


@pytest.fixture
def torch():
    if simulated():
        skip("not simulated")
    return needed("torch", "torch")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def where(request):
    """torch's device."""
    return request.param


# ---------------------------------------------------------------- torch


def takers(x):
    """Whatever takes foreign arrays."""
    return {
        "obj": [lambda: numbacc.asarray(x), lambda: numbacc.from_dlpack(x), lambda: numbacc.asnumpy(x)],
        "x": [lambda: gated.forward(x), lambda: gated.forward.plan(x)],
        "fill_value": [lambda: numbacc.full(3, x)],
    }


def assert_refused(x, *words):
    for name, runs in takers(x).items():
        for run in runs:
            refused(numbacc.DTypeError, name, *words, run=run)


CANNOT = {
    "conjugate": (lambda t, d: t.ones(2, 4, dtype=t.complex64, device=d).conj(), "resolve_conj()"),
    "adjoint": (lambda t, d: t.ones(4, 2, dtype=t.complex128, device=d).mH, "resolve_conj()"),
    "negative": (lambda t, d: t.ones(2, 4, dtype=t.complex64, device=d).conj().imag, "resolve_neg()"),
    "sparse": (lambda t, d: t.eye(4, device=d).to_sparse(), "to_dense()"),
    "sparse rows": (lambda t, d: t.eye(4, device=d).to_sparse_csr(), "to_dense()"),
    "quantized": (lambda t, d: t.quantize_per_tensor(t.ones(2, 4, device=d), 0.5, 0, t.qint8), "dequantize()"),
    "meta": (lambda t, d: t.ones(2, 4, device="meta"), "empty_like"),
    "nested": (lambda t, d: t.nested.nested_tensor([t.ones(2), t.ones(4)], device=d), "to_padded_tensor"),
    "ragged": (
        lambda t, d: t.nested.nested_tensor([t.ones(2), t.ones(4)], device=d, layout=t.jagged), "to_padded_tensor",
    ),
    "gradients": (lambda t, d: t.ones(2, 4, device=d, requires_grad=True), "detach()"),
    "parameter": (lambda t, d: t.nn.Parameter(t.ones(2, 4, device=d)), "detach()"),
    "result": (lambda t, d: 2 * t.ones(2, 4, device=d, requires_grad=True), "detach()"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # torch announces the end of quantized, and the beta state of sparse tensors
@pytest.mark.parametrize("make, remedy", CANNOT.values(), ids=CANNOT)
def test_tensors_whose_memory_says_something_else(torch, where, make, remedy):
    assert_refused(make(torch, where), remedy)


def test_the_remedies_help(torch, where):
    z = torch.complex(torch.arange(8.0), 1 + torch.arange(8.0)).reshape(2, 4).to(where)
    np.testing.assert_array_equal(numbacc.asnumpy(z.conj().resolve_conj()), z.cpu().numpy().conj())
    np.testing.assert_array_equal(numbacc.asnumpy(z.conj().imag.resolve_neg()), -z.cpu().numpy().imag)
    np.testing.assert_array_equal(numbacc.asnumpy(torch.eye(3, device=where).to_sparse().to_dense()), np.eye(3))


def test_gradients_are_taken_where_torch_records_none(torch, where):
    x = torch.nn.Parameter(torch.ones(2, 4, device=where))
    with torch.no_grad():
        shared = numbacc.from_dlpack(x)
        assert numbacc.asnumpy(gated.forward(x)).shape == (2, 2)
        x.mul_(3)
    np.testing.assert_array_equal(numbacc.asnumpy(shared), np.full((2, 4), 3))

    class Squared(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return torch.from_numpy(numbacc.asnumpy(x) ** 2)

    np.testing.assert_array_equal(Squared.apply(x).detach().numpy(), np.full((2, 4), 9))


def in_torch(torch, host, where):
    """A tensor with these values, of the dtype's name."""
    return torch.from_numpy(host.astype(np.float32)).to(getattr(torch, host.dtype.name)).to(where)


@EVERY_DTYPE
def test_every_dtype_comes_from_torch(torch, where, dtype):
    host = values(dtype)
    tensor = in_torch(torch, host, where)
    for part in (lambda a: a, lambda a: a.T, lambda a: a[1:, ::2], lambda a: a[0, 1]):
        view, wanted = part(tensor), part(host)
        for take in (numbacc.from_dlpack, numbacc.asarray):
            if take is numbacc.asarray and where == "cpu" and numbacc.has_gpu():
                continue
            array = take(view)
            assert (array.dtype, array.shape) == (dtype, wanted.shape)
            address = array.ctypes.data if where == "cpu" else array._address
            assert address == view.data_ptr()
            np.testing.assert_array_equal(bits(numbacc.asnumpy(array)), bits(np.asarray(wanted)))


@EVERY_DTYPE
def test_memory_of_host_tensors_is_shared_and_kept(torch, dtype):
    tensor = in_torch(torch, values(dtype), "cpu")
    array = numbacc.from_dlpack(tensor)
    tensor[0, 0] = 1
    assert array[0, 0] == 1
    array[0, 1] = 0
    assert tensor[0, 1].item() == 0
    del tensor
    gc.collect()
    again = torch.zeros(3, 4)  # would take the memory, had it been freed
    assert array[1, 0] == 1 and again.sum() == 0


@pytest.mark.gpu
@EVERY_DTYPE
def test_every_dtype_goes_to_torch(torch, dtype):
    host = values(dtype)
    array = numbacc.asarray(host)
    tensor = torch.from_dlpack(array)
    assert (tensor.data_ptr(), tensor.dtype) == (array._address, getattr(torch, dtype.name))
    np.testing.assert_array_equal(tensor.float().cpu().numpy(), host.astype(np.float32))


def test_a_float8_tensor_is_no_key_error(torch, where):
    tensor = torch.ones(3, device=where).to(torch.float8_e4m3fn)
    assert numbacc.asarray(tensor).dtype == numbacc.float8_e4m3fn
    assert numbacc.asnumpy(tensor).dtype == numbacc.float8_e4m3fn


def test_empty_and_scalar_tensors(torch, where):
    for shape in ((0,), (3, 0), (), (1, 1)):
        array = numbacc.from_dlpack(torch.ones(shape, dtype=torch.bfloat16, device=where))
        assert (array.shape, array.dtype) == (shape, numbacc.bfloat16)


@pytest.mark.gpu
def test_pinned_tensors_are_host_arrays(torch):
    tensor = torch.ones(3).pin_memory()
    array = numbacc.from_dlpack(tensor)
    assert isinstance(array, np.ndarray) and array.ctypes.data == tensor.data_ptr()


# ---------------------------------------------------------------- CuPy and JAX


def strides_that_count(array):
    """The strides of axes longer than 1; of others a library may say anything."""
    return [stride for n, stride in zip(array.shape, array.strides, strict=True) if n > 1]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex128", "uint16"])
def test_cupys_negative_strides(cupy, dtype):
    host = np.arange(24).reshape(2, 3, 4).astype(dtype)
    x = cupy.asarray(host)

    class Interface:  # without DLPack
        def __init__(self, array):
            self.__cuda_array_interface__ = array.__cuda_array_interface__

    for view in (lambda a: a[::-1], lambda a: a[:, ::-2, ::-1], lambda a: a.T[::-1], lambda a: a[::-1][:1]):
        for wrap in (lambda a: a, Interface):
            array = numbacc.asarray(wrap(view(x)))
            wanted = view(host)
            assert array._address == view(x).data.ptr
            assert strides_that_count(array) == strides_that_count(wanted)
            np.testing.assert_array_equal(numbacc.asnumpy(array), wanted)


@pytest.mark.gpu
@EVERY_DTYPE
def test_every_dtype_that_cupy_has(cupy, dtype):
    host = values(dtype)
    try:
        theirs = cupy.asarray(host)
    except Exception:
        skip("foreign dtype")
    array = numbacc.asarray(theirs)
    assert (array.dtype, array._address) == (dtype, theirs.data.ptr)
    np.testing.assert_array_equal(bits(numbacc.asnumpy(array)), bits(host))
    if dtype.type.__module__ == "numpy":
        assert cupy.from_dlpack(array).data.ptr == cupy.asarray(array).data.ptr == array._address


# ---------------------------------------------------------------- producers made up for the purpose


class Producer:
    """An object that exports a device array's memory by DLPack, after `change(tensor)` has had its way with it."""

    def __init__(self, array, change=lambda tensor: None):
        self._array, self._change = array, change

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    def __dlpack__(self, *, stream=None, max_version=None):
        from numbacc.arrays import dlpack

        capsule = self._array.__dlpack__(stream=stream)
        self._change(dlpack.STRUCTURES[dlpack.OLD].from_address(dlpack.pointer(capsule, dlpack.OLD)).tensor)
        return capsule


class Interface:
    """An object with nothing but the array interface."""

    def __init__(self, array, **changes):
        self.__cuda_array_interface__ = {
            "shape": array.shape, "strides": array.strides, "typestr": array.dtype.str,
            "data": (array._address, False), "version": 3, **changes,
        }  # fmt: skip


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex128"])
def test_strides_divided_as_unsigned_numbers_are_negative(dtype):
    """As CuPy's are."""
    host = np.arange(12).reshape(3, 4).astype(dtype)
    x = numbacc.asarray(host)

    def as_cupy_does(tensor):
        for d in range(2):
            unsigned = ctypes.c_uint64(tensor.strides[d] * x.dtype.itemsize).value
            tensor.strides[d] = ctypes.c_int64(unsigned // x.dtype.itemsize).value

    for view in (lambda a: a[::-1], lambda a: a[:, ::-1], lambda a: a.T[::-1, ::-2]):
        for theirs in (Producer(view(x), as_cupy_does), Interface(view(x))):
            array = numbacc.asarray(theirs)
            assert (array.shape, array.strides) == (view(host).shape, view(host).strides)
            np.testing.assert_array_equal(numbacc.asnumpy(array), view(host))


def with_length(tensor):
    tensor.shape[0] = -2


def without_memory(tensor):
    tensor.data = None


def with_type(tensor):
    tensor.dtype.bits = 4


@pytest.mark.simulator
def test_what_no_memory_has():
    x = numbacc.zeros((2, 4))
    cases = [
        (numbacc.ShapeError, "negative", Producer(x, with_length)),
        (numbacc.ShapeError, "negative", Interface(x, shape=(-2, 4))),
        *((numbacc.ShapeError, "shape", Interface(x, shape=s)) for s in [(2.5,), (True,), "24", None, {2, 4}, 4]),
        (numbacc.ShapeError, "integer", Interface(x, strides=(16.0, 4))),
        *((numbacc.ShapeError, "too large", Interface(x, shape=s)) for s in [(2**62, 2**62), (2**61,), (2**64,)]),
        *((numbacc.DTypeError, "stream", Interface(x, stream=s)) for s in ["x", -1, 1.5, True, 2**64, [0]]),
        (numbacc.UnsupportedError, "per-thread", Interface(x, stream=2)),
        (numbacc.LayoutError, "null", Producer(x, without_memory)),
        (numbacc.LayoutError, "null", Interface(x, data=(0, False))),
        (numbacc.LayoutError, "null", Interface(x, data=(None, False))),
        (numbacc.LayoutError, "multiple", Interface(x, data=(x._address + 2, False))),
        (numbacc.LayoutError, "multiples", Interface(x, strides=(6, 4))),
        (numbacc.LayoutError, "strides", Interface(x, strides=(4,))),
        (numbacc.DTypeError, "4 bits", Producer(x, with_type)),
        (numbacc.DTypeError, ">f4", Interface(x, typestr=">f4")),
        (numbacc.DTypeError, "cannot", Interface(x, typestr="nonsense")),
        (numbacc.DTypeError, "mask", Interface(x, mask=x)),
    ]
    before = numbacc.asnumpy(x)
    for error, word, theirs in cases:
        refused(error, "x", word, run=lambda theirs=theirs: gated.forward(theirs))
        refused(error, word, run=lambda theirs=theirs: gated.forward(x, out=theirs))
        refused(error, word, run=lambda theirs=theirs: numbacc.asarray(theirs))
    np.testing.assert_array_equal(numbacc.asnumpy(x), before)


@pytest.mark.simulator
def test_null_memory_of_nothing_is_fine():
    x = numbacc.zeros((0, 4))
    for theirs in (Producer(x, without_memory), Interface(x, data=(0, False))):
        assert numbacc.asarray(theirs).shape == (0, 4)


@pytest.mark.simulator
def test_the_array_interface_is_read_as_it_says():
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = numbacc.asarray(host)
    for theirs in (Interface(x, strides=None), Interface(x, stream=1), Interface(x, stream=None)):
        y = numbacc.asarray(theirs)
        assert (y._address, y.strides) == (x._address, (16, 4))
    fixed = numbacc.asarray(Interface(x, data=(x._address, True)))
    with pytest.raises(numbacc.LayoutError, match="read-only"):
        fixed[0] = 1
    short = numbacc.full((3, 4), 1.5, "bfloat16")
    theirs = Interface(short, typestr="<V2")
    refused(numbacc.DTypeError, "V2", run=lambda: numbacc.asarray(theirs))
    theirs.dtype = np.dtype(numbacc.bfloat16)  # as CuPy's bfloat16 arrays are
    assert numbacc.asarray(theirs).dtype == numbacc.bfloat16


class Failing:
    """An array of which something fails in its own way."""

    def __init__(self, what, error):
        self._what, self._error = what, error

    def __getattr__(self, name):
        if name == self._what:
            raise self._error
        if name == "__dlpack_device__":
            return lambda: (1, 0)
        if name == "__dlpack__":
            return lambda **options: self._fail()
        raise AttributeError(name)

    def _fail(self):
        raise self._error


ERRORS = [KeyError("dtype"), BufferError("no"), RuntimeError("gone"), TypeError("?")]


@pytest.mark.parametrize("what", ["__dlpack_device__", "__dlpack__", "the call"])
@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_what_a_foreign_array_raises_is_the_cause(what, error):
    for run in (lambda: gated.forward(Failing(what, error)), lambda: numbacc.from_dlpack(Failing(what, error))):
        with pytest.raises(numbacc.DTypeError, match="Failing") as caught:
            run()
        assert caught.value.__cause__ is error
