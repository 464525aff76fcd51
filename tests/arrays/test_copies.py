"""Python's copies of arrays: views, real copies and pickles, never second owners; and what refuses to be copied."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pytest
from conftest import bits, refused
from skips import skip_if

import numbacc
from numbacc import attention, conv, fft, gated, gemm
from numbacc import elementwise as ew
from numbacc.base import dtypes
from numbacc.base.dispatch import simulated

# Of every size, and those that NumPy and buffers know less well.
DTYPES = [dtypes.dtype(name) for name in ("float32", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex128", "bool")]
DISTINCT = pytest.mark.parametrize("dtype", DTYPES, ids=str)

VIEWS = {
    "whole": lambda x: x,
    "transposed": lambda x: x.transpose((1, 2, 0)),
    "reversed": lambda x: x[:, ::-1, ::2],
    "one row": lambda x: x[1, 2],
    "element": lambda x: x[1:, 2:, 3:].reshape(()),
    "empty": lambda x: x[1:1],
}


def bounds(array):
    """First byte and the one behind the last."""
    layout = array._numbacc_layout
    return array._address + layout.low, array._address + layout.high


def assert_copied(copied, view, host):
    """A device array of its own memory, no larger than it must be, with these values in NumPy's memory order."""
    assert type(copied) is type(view)
    assert (copied.dtype, copied.shape, copied.device) == (host.dtype, host.shape, view.device)
    np.testing.assert_array_equal(bits(numbacc.asnumpy(copied)), bits(host))
    assert copied._storage is not view._storage and copied._storage.nbytes == host.nbytes
    (low, high), (first, last) = bounds(copied), bounds(view)
    assert high <= first or last <= low
    if host.size > 1:
        assert copied.strides == host.copy(order="K").strides


@DISTINCT
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_deep_copy_owns_as_much_as_it_holds(device_place, view, dtype):
    host = np.arange(24).reshape(2, 3, 4).astype(dtype)
    x = view(device_place.put(host))
    assert_copied(copy.deepcopy(x), x, view(host))


@DISTINCT
@pytest.mark.parametrize("protocol", [2, 5])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_pickle_lands_on_the_gpu(device_place, view, protocol, dtype):
    host = np.arange(24).reshape(2, 3, 4).astype(dtype)
    x = view(device_place.put(host))
    assert_copied(pickle.loads(pickle.dumps(x, protocol)), x, view(host))


@skip_if(not simulated(), "simulator")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn"])
def test_a_pickle_loads_without_a_gpu(dtype):
    host = np.arange(24).reshape(2, 3, 4).astype(dtypes.dtype(dtype)).transpose((1, 2, 0))
    code = (
        "import pickle, sys, numpy; x = pickle.load(sys.stdin.buffer); assert type(x) is numpy.ndarray; "
        "print(x.dtype, x.shape, [n // x.itemsize for n in x.strides], x.astype('f8').ravel().astype(int).tolist())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(numbacc.asarray(host)),
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "0", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        check=True,
    )
    assert run.stdout.decode().strip() == f"{dtype} (3, 4, 2) [4, 1, 12] {host.astype(int).ravel().tolist()}"


def test_a_shallow_copy_is_a_view(device_place):
    x = device_place.put(np.arange(6, dtype=np.float32))
    y = copy.copy(x[1:])
    y[0] = 9
    assert y._storage is x._storage
    assert numbacc.asnumpy(x).tolist() == [0, 9, 2, 3, 4, 5]
    x._readonly = True
    with pytest.raises(numbacc.LayoutError, match="read-only"):
        copy.copy(x)[0] = 1


def test_a_deep_copy_of_a_read_only_array_can_be_written(device_place):
    x = device_place.put(np.zeros(3, np.float32))
    x._readonly = True
    for made in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        made[0] = 1
        assert numbacc.asnumpy(made).tolist() == [1, 0, 0]
    assert numbacc.asnumpy(x).tolist() == [0, 0, 0]


@dataclass
class Layer:
    weight: Any
    bias: Any


def test_containers_copy_their_arrays(device_place):
    w, b = device_place.put(np.ones((2, 2), np.float32)), device_place.put(np.zeros(2, np.float32))
    layer = Layer(w, [w, b])
    for made in (asdict(layer), copy.deepcopy(layer).__dict__):
        assert_copied(made["weight"], w, np.ones((2, 2), np.float32))
        assert_copied(made["bias"][1], b, np.zeros(2, np.float32))
    # One array named twice stays one, as everywhere in copy.deepcopy.
    made = copy.deepcopy(layer)
    assert made.bias[0] is made.weight


def test_what_outlives_its_copies(device_place):
    """Memory is freed once: what the copy held is untouched when the array that it was made of is gone."""
    x = device_place.put(np.arange(4, dtype=np.float32))
    kept = [copy.copy(x), copy.deepcopy(x)]
    del x
    other = [numbacc.full(4, k) for k in range(8)]
    assert [numbacc.asnumpy(a).tolist() for a in kept] == [[0, 1, 2, 3]] * 2
    assert [numbacc.asnumpy(a).tolist() for a in other] == [[k] * 4 for k in range(8)]


def elementwise_plans(place, x):
    """A plan of each class that the family has."""
    y, z, w = (place.put(np.ones((4, 8), np.float32)) for _ in range(3))
    indices = place.put(np.array([1, 0]))
    return [
        ew.exp.plan(x), ew.exp_backward.plan(x, x), ew.sum.plan(x, axis=1), ew.softmax.plan(x), ew.cumsum.plan(x),
        ew.layer_norm_backward.plan(x, x), ew.take.plan(x, indices, axis=0), ew.dropout.plan(x, seed=0),
        ew.one_hot.plan(indices, 3), ew.adamw_step.plan(x, y, z, w, 1), ew.adamw_step.plan([x], [y], [z], [w], 1),
    ]  # fmt: skip


def owners(place):
    x = place.put(np.ones((4, 8), np.float32))
    plans = [gated.forward.plan(x), gemm.matmul.plan(x, x.T), fft.fft.plan(x), *elementwise_plans(place, x)]
    plans.append(conv.forward.plan(x.reshape((1, 4, 8)), x.reshape((2, 4, 4)), layout="NCW"))
    q = x.reshape((1, 2, 4, 4))
    plans += [attention.forward.plan(q, q, q), attention.backward.plan(q, q, q, q, q, q[..., 0])]
    streams = [numbacc.stream(), numbacc.current_stream()]
    return [*plans, *streams, *([x._storage] if place.is_device else [])]


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps, lambda o: asdict(Layer(o, o))])
def test_what_has_one_owner_refuses(place, way):
    for owner in owners(place):
        done = "pickled" if way is pickle.dumps else "copied"
        refused(numbacc.DTypeError, type(owner).__name__, done, ":", run=lambda owner=owner: way(owner))


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_masks_and_requests_are_plain_data(way):
    for mask in (attention.SlidingWindow(3), attention.CausalSlidingWindow(np.int64(3), bottom_right=True)):
        made = way(mask)
        assert type(made) is type(mask) and made == mask and hash(made) == hash(mask)
        q = (1, 2, 16, 8)
        assert (
            way(attention.forward.request(q, q, mask=mask)).graphs()
            == attention.forward.request(q, q, mask=made).graphs()
        )
    asked = conv.forward.request((2, 3, 8, 8), (4, 3, 3, 3), bias=True)
    assert way(asked).graphs() == asked.graphs() and way(asked).wants == asked.wants


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_handles_refuse(way):
    from numbacc.libraries.handles import Handle, Handles

    handle = Handle(lambda cell: None, lambda value: None, -1)
    for owner in (handle, Handles(None, "", "")):
        refused(numbacc.DTypeError, type(owner).__name__, run=lambda owner=owner: way(owner))


@pytest.mark.gpu
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_events_and_borrowed_memory_refuse(way):
    from numba import cuda

    from numbacc.runtime import device

    borrowed = numbacc.from_dlpack(numbacc.zeros(3))._storage
    theirs = numbacc.asarray(cuda.to_device(np.zeros(3)))._storage
    for owner in (device.DriverEvent(0), borrowed, theirs):
        refused(numbacc.DTypeError, type(owner).__name__, run=lambda owner=owner: way(owner))


@pytest.mark.gpu
def test_a_deep_copy_stays_on_its_stream_and_follows_it():
    with numbacc.stream() as busy:
        x = numbacc.zeros(1 << 26)
        for k in range(20):
            x[...] = k
    with numbacc.stream() as other:
        made = copy.deepcopy(x)
    assert made._storage.stream == other.handle != busy.handle
    assert (numbacc.asnumpy(made) == 19).all()


def test_bind_is_a_view_on_a_stream(device_place):
    x = device_place.put(np.arange(3, dtype=np.float32))
    stream = numbacc.stream()
    y = x.bind(stream)
    assert y.stream is stream and x.stream is not stream
    assert type(y) is type(x) and y._storage is x._storage
