"""Host memory of other libraries, taken over by DLPack: where it starts, what it holds, and when it is given back."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import numpy as np
from foreign import EVERY_DTYPE, values
from skips import skip

import numbacc


def later(host):
    """An object that exports NumPy's memory but for the first row, as so many bytes behind its start."""
    from numbacc.arrays import dlpack

    def export(stream=None, max_version=None):
        capsule = host.__dlpack__()
        tensor = dlpack.STRUCTURES[dlpack.OLD].from_address(dlpack.pointer(capsule, dlpack.OLD)).tensor
        tensor.byte_offset, tensor.shape[0] = host.strides[0], len(host) - 1
        return capsule

    return SimpleNamespace(__dlpack__=export, __dlpack_device__=host.__dlpack_device__)


def test_memory_may_start_behind_its_address():
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    array = numbacc.from_dlpack(later(host))
    np.testing.assert_array_equal(array, host[1:])
    assert array.ctypes.data == host[1:].ctypes.data


def test_memory_is_given_back():
    host = np.arange(12.0).reshape(3, 4)
    array, alive = numbacc.from_dlpack(later(host)), weakref.ref(host)
    del host
    gc.collect(1)
    assert alive() is not None and array[0, 0] == 4
    del array
    gc.collect(1)
    assert alive() is None


@EVERY_DTYPE
def test_host_arrays_of_other_libraries(dtype):
    """Of NumPy's dtypes NumPy exports itself; read-only ones stay so."""
    if dtype.type.__module__ != "numpy":
        skip("foreign dtype")

    class Host:
        def __init__(self, array):
            self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__

    host = values(dtype)
    for view in (host, host.T, host[::-1, ::2], host[:0], host[0, 0, ...]):
        array = numbacc.from_dlpack(Host(view))
        assert (type(array) is np.ndarray and array.dtype == dtype and array.strides == view.strides) or not view.size
        np.testing.assert_array_equal(array, view)
        assert np.shares_memory(array, view) or not view.size
    host.flags.writeable = False
    assert not numbacc.from_dlpack(Host(host)).flags.writeable
