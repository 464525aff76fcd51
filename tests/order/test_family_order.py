"""Order and ownership of the elementwise family: threads on shared arrays, graphs, full memory, large arrays.

What streams of several libraries do to it, two GPUs, and processes that end is in `test_order_gpu`, `test_graph_gpu`,
`test_devices_gpu` and `test_exit_gpu`, of which `family_work.FAMILY` is part.
"""

from __future__ import annotations

import numpy as np
import pytest
from conftest import bits
from family_work import FAMILY
from skips import skip
from threads import run_threads

import numbacc
from numbacc import elementwise as ew
from numbacc.base.dispatch import runtime
from numbacc.elementwise import norms
from numbacc.kernels.rows import launch
from numbacc.random import Generator

pytestmark = pytest.mark.usefixtures("poison", "small_everywhere")
each_kind = pytest.mark.parametrize("kind", FAMILY)


def values(place, seed=0):
    shape = (2, 9) if place.is_slow else (64, 256)
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def direct(place, kind, host):
    return place.get(FAMILY[kind](place.put(host), None, None))


# ---------------------------------------------------------------- threads


@each_kind
def test_threads_share_arrays(place, busy_collector, kind):
    """Each computes from an array that all read, and from one of its own, on a stream of its own."""
    host = values(place)
    wanted, shared = direct(place, kind, host), place.put(host)

    def work(k):
        with numbacc.stream():
            own = place.put(host)
            for _ in range(1 if place.is_slow else 3):
                for x in (shared, own):
                    np.testing.assert_array_equal(place.get(FAMILY[kind](x, None, None)), wanted)

    run_threads(work, 2 if place.is_slow else 8)
    np.testing.assert_array_equal(place.get(shared), host)


def test_threads_write_to_parts_of_one_array(place):
    """The rows of a matrix, each by a thread, by all kinds of functions whose result is like x."""
    host = values(place)
    like = [kind for kind in FAMILY if direct(place, kind, host).shape == host.shape]
    result = place.put(np.full((len(like), *host.shape), np.nan, np.float32))
    x = place.put(host)
    run_threads(lambda k: FAMILY[like[k]](x, result[k], None), len(like))
    for kind, found in zip(like, place.get(result), strict=True):
        np.testing.assert_array_equal(found, direct(place, kind, host))


# ---------------------------------------------------------------- graphs


@pytest.mark.parametrize("given", [False, True], ids=["allocated", "given"])
@each_kind
def test_a_graph_is_replayed_with_new_inputs(device_place, kind, given):
    """Its plans are dropped before."""
    place = device_place
    x = place.put(values(place))
    like = direct(place, kind, values(place))
    out = place.put(np.full_like(like, np.nan)) if given else None
    with numbacc.graph() as graph:
        y = FAMILY[kind](x, out, None)
    ew.cache_clear()
    for seed in (1, 2):
        x[...] = values(place, seed)
        graph.launch()
        np.testing.assert_array_equal(place.get(y), direct(place, kind, values(place, seed)))


def test_a_graph_of_few_rows_is_replayed(device_place, monkeypatch):
    """Rows that all blocks share: reductions, and an elementwise function of their results."""
    monkeypatch.setattr(launch, "_LONG_BYTES", 1)
    place, functions = device_place, (ew.softmax, ew.layer_norm)
    norms.plans.clear()
    x = place.put(values(place)[:2])
    with numbacc.graph() as graph:
        found = [function(x) for function in functions]
    for seed in (1, 2):
        host = values(place, seed)[:2]
        x[...] = host
        graph.launch()
        for y, function in zip(found, functions, strict=True):
            np.testing.assert_array_equal(place.get(y), place.get(function(place.put(host))))
    norms.plans.clear()


def test_a_graph_drops_others_at_each_launch(device_place):
    place = device_place
    x, offset = place.put(np.ones(40, np.float32)), place.put(np.array([0]))
    with numbacc.graph() as graph:
        y = ew.dropout(x, 0.5, seed=5, offset=offset)
        ew.add(offset, 40, out=offset)
    for k in range(3):
        graph.launch()
        mask = Generator("philox", 5, device="cpu", offset=40 * k).dropout_mask(0.5, 40, dtype="bool")
        np.testing.assert_array_equal(place.get(y), 2.0 * mask)


# ---------------------------------------------------------------- full memory


def test_results_that_the_host_has_no_memory_for(numpy_place):
    x = np.broadcast_to(np.float32(1), (1 << 24, 1 << 22))
    for function in (ew.exp, ew.tril, lambda x: ew.add(x, 1), lambda x: ew.dropout(x, seed=0)):
        with pytest.raises(numbacc.DeviceError, match="out of host memory"):
            function(x)


@pytest.mark.gpu
@pytest.mark.fills_memory
@pytest.mark.parametrize("kind", ["map", "own kernel", "scan", "row", "triangle", "dropout", "cross entropy", "adamw"])
def test_full_memory_and_nothing_lost(kind):
    host = np.random.default_rng(0).standard_normal((1 << 13, 1 << 13)).astype(np.float32)
    x = numbacc.asarray(host)
    wanted = numbacc.asnumpy(FAMILY[kind](x, None, None))
    runtime().synchronize(0, 0)
    numbacc.release_memory()
    held = numbacc.empty(runtime().memory_info(0)[0] - (128 << 20), "uint8")
    with pytest.raises(numbacc.DeviceError, match="out of memory"):
        FAMILY[kind](x, None, None)
    np.testing.assert_array_equal(numbacc.asnumpy(x), host)
    del held
    np.testing.assert_array_equal(bits(numbacc.asnumpy(FAMILY[kind](x, None, None))), bits(wanted))


# ---------------------------------------------------------------- more than 2^31 elements

N = (1 << 31) + 8
large = [pytest.mark.gpu, pytest.mark.fills_memory]


def room(nbytes):
    if runtime().memory_info(0)[0] < nbytes:
        skip("gpu memory")


class TestMoreThan2ToThe31:
    pytestmark = large

    def test_map(self):
        room(6 * N)
        x = numbacc.zeros(N, "float16")
        x[-3:] = [1, 2, 3]
        y = ew.add(x, 1.0)
        assert numbacc.asnumpy(y[:3]).tolist() == [1, 1, 1] and numbacc.asnumpy(y[-4:]).tolist() == [1, 2, 3, 4]

    def test_reduction(self):
        room(3 * N)
        x = numbacc.full(N, 1, "int8")
        x[-2] = 3
        assert ew.sum(x).item() == N + 2
        assert ew.argmax(x).item() == N - 2
        assert numbacc.asnumpy(ew.sum(x.reshape(8, -1), axis=1)).tolist() == [N // 8] * 7 + [N // 8 + 2]

    def test_scan(self):
        room(3 * N)
        found = ew.cumsum(numbacc.full(N, 1, "int8"), dtype="int8")
        wanted = np.arange(N - 99, N + 1).astype(np.int8)
        np.testing.assert_array_equal(numbacc.asnumpy(found[-100:]), wanted)

    def test_gather(self):
        room(6 * N)
        rows = (1 << 20) + 8
        table = numbacc.zeros((rows, 2048), "float16")
        for k in (0, rows // 2, rows - 1):
            table[k] = 1 + k % 1000
        indices = numbacc.asarray(np.array([rows - 1, 0, -1, rows // 2, 5]))
        found = numbacc.asnumpy(ew.take(table, indices, axis=0))
        last, middle = 1 + (rows - 1) % 1000, 1 + rows // 2 % 1000
        np.testing.assert_array_equal(found, np.repeat([[last], [1], [last], [middle], [0]], 2048, 1))

    def test_dropout(self):
        room(6 * N)
        x = numbacc.full(N, 1, "float16")
        assert ew.dropout(x, 0.5, seed=7, offset=8, out=x) is x
        tail = 400
        mask = Generator("philox", 7, device="cpu", offset=8 + N - tail).dropout_mask(0.5, tail, dtype="bool")
        np.testing.assert_array_equal(numbacc.asnumpy(x[-tail:]), 2.0 * mask)
