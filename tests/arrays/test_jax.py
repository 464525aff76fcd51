"""JAX's arrays: every dtype both ways, what is immutable, and what cannot be traced."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import bits, refused
from foreign import EVERY_DTYPE, values
from skips import needed, skip

import numbacc
from numbacc import elementwise, gated


@pytest.fixture
def jax():
    jax = needed("jax", "jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield jax
    jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize("where", ["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
@EVERY_DTYPE
def test_every_dtype_that_jax_has(jax, where, dtype):
    host = values(dtype)
    try:
        theirs = jax.device_put(host, jax.devices(where)[0])
    except (RuntimeError, TypeError):
        skip("foreign dtype")
    array = numbacc.from_dlpack(theirs)
    assert array.dtype == dtype
    np.testing.assert_array_equal(bits(numbacc.asnumpy(array)), bits(host))
    if where == "gpu":
        back = jax.dlpack.from_dlpack(numbacc.asarray(host))
        np.testing.assert_array_equal(np.asarray(back).astype(np.float32), host.astype(np.float32))


@pytest.fixture(params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def jaxs_array(jax, request):
    """An array of JAX's, on the CPU or a GPU."""
    try:
        device = jax.devices(request.param)[0]
    except RuntimeError:
        skip("jax with a gpu")
    return jax.device_put(np.arange(1.0, 7.0, dtype="f4"), device)


def test_jaxs_arrays_are_not_written(jaxs_array):
    j, other = jaxs_array, numbacc.from_dlpack(jaxs_array)
    copy = numbacc.asarray(np.ones(6, "f4"), device="cpu" if isinstance(other, np.ndarray) else None)
    for run in (
        lambda: elementwise.exp(j, out=j),
        lambda: elementwise.exp(copy, out=j),
        lambda: elementwise.exp(copy, out=other),
        lambda: elementwise.add(copy[::2], 1, out=numbacc.from_dlpack(j)[::2]),
    ):
        refused(numbacc.LayoutError, "out is read-only", "JAX", "numbacc.array", run=run)
    with pytest.raises(ValueError, match="read-only"):  # on the CPU it is NumPy's own error
        other[...] = 7
    with pytest.raises(ValueError, match="read-only"):
        other[1:][0] = 7
    np.testing.assert_array_equal(np.asarray(j), np.arange(1.0, 7.0))
    np.testing.assert_allclose(numbacc.asnumpy(elementwise.exp(j)), np.exp(np.arange(1.0, 7.0)), rtol=1e-6)


@pytest.mark.parametrize("bf16", [False, True])
def test_an_immutable_class_whose_export_does_not_say_so(bf16):
    """DLPack before 1.0 cannot say it: older versions of JAX, and pyarrow."""
    array = np.ones(6, numbacc.bfloat16 if bf16 else np.float32)
    source = array.view(np.int16) if bf16 else array

    def export(self, stream=None):
        return source.__dlpack__()

    methods = {"__dlpack__": export, "__dlpack_device__": lambda self: (1, 0)}
    for module, name, immutable in (("jaxlib.xla_extension", "ArrayImpl", True), ("other", "Array", False)):
        theirs = type(name, (), {"__module__": module, **methods})()
        assert numbacc.from_dlpack(theirs).flags.writeable is not immutable
        if immutable:
            refused(numbacc.LayoutError, "read-only", run=lambda x=theirs: elementwise.negative(source, out=x))
            assert (numbacc.asnumpy(theirs) == source).all()


@pytest.mark.parametrize("transform", ["jit", "grad", "vmap"])
def test_jaxs_tracers_are_refused_with_what_to_do(jax, transform):
    j = jax.numpy.ones(3)

    def apply(function):
        getattr(jax, transform)(function)(j)

    for run in (
        lambda: apply(lambda x: elementwise.exp(x).sum()),
        lambda: apply(lambda x: elementwise.add(np.ones(3, "f4"), x).sum()),
        lambda: apply(lambda x: numbacc.asnumpy(x)),
        lambda: apply(lambda x: gated.forward.plan(x)),
    ):
        refused(numbacc.DTypeError, "traces a function", "jax.pure_callback", run=run)
    refused(numbacc.DTypeError, "obj is a", "cannot be traced", run=lambda: apply(numbacc.asarray))
    refused(numbacc.DTypeError, "obj is a", "cannot be traced", run=lambda: apply(numbacc.from_dlpack))


def test_numbacc_inside_jax_jit_by_callbacks(jax):
    """Follow the message for tracers."""

    def call(function, *arrays):
        shape = jax.ShapeDtypeStruct(arrays[-1].shape, arrays[-1].dtype)
        return jax.pure_callback(lambda *a: numbacc.asnumpy(function(*map(np.asarray, a))), shape, *arrays)

    @jax.custom_vjp
    def softplus(x):
        return call(elementwise.softplus, x)

    softplus.defvjp(lambda x: (softplus(x), x), lambda x, dy: (call(elementwise.softplus_backward, dy, x),))
    x = jax.numpy.linspace(-2, 2, 5, dtype="float32")
    np.testing.assert_allclose(jax.jit(softplus)(x), np.log1p(np.exp(np.linspace(-2, 2, 5))), rtol=1e-5)
    dx = jax.jit(jax.grad(lambda x: softplus(x).sum()))(x)
    np.testing.assert_allclose(dx, 1 / (1 + np.exp(-np.linspace(-2, 2, 5))), rtol=1e-5)
