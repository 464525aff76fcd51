"""Run by test_order.py with the driver replaced by a recorder: threads, scratch memory, several GPUs."""

from __future__ import annotations

import gc
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import recorder
from recorder import FAKE, array, only
from threads import run_threads

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc import gated
from numbacc.base.dispatch import runtime
from numbacc.runtime import contexts, memory
from numbacc.runtime.streams import _MAX_FOREIGN, foreign, handle_of
from numbacc_bindings.driver import driver

# ---------------------------------------------------------------- threads


def test_threads_share_an_array(busy_collector):
    weights = [array()]
    address = weights[0]._address
    numbacc.asnumpy(weights[0])
    log = recorder.Log()

    def work(k):
        with numbacc.stream():
            out = numbacc.empty((4, 4))
            for _ in range(100):
                gated.forward(weights[0], out=out)

    run_threads(work)
    weights.clear()
    gc.collect()
    free = only([call for call in log.named("free") if call.arguments[0] == address])
    past = log._past(free)
    assert all(call.number in past for call in log.named("launch"))


def test_an_array_that_leaves_while_a_call_is_under_way(log):
    """Between a call's look at its arrays and its launch, another thread reads one of them on another stream."""
    t = numbacc.stream()
    x, out = array(), numbacc.empty((4, 4))
    plan = gated.forward.plan(x, out=out)
    plan(x, out=out)
    kernel, elsewhere = plan.last, numbacc.empty((4, 4), stream=t)

    def late(*arguments):
        run_threads(lambda k: gated.forward(x, out=elsewhere, stream=t), 1)
        return kernel.launch(*arguments)

    plan.chosen.direct = SimpleNamespace(launch=late, workspace_bytes=0)
    plan(x, out=out)
    with t:
        x[...] = 2.0
    assert log.before(log.named("launch")[-1], log.named("fill")[-1])


def test_an_array_that_leaves_while_work_is_queued(log):
    t = numbacc.stream()
    x, y = array(), array()
    with runtime().using(0, 0, (x,), (y,)):
        run_threads(lambda k: numbacc.asnumpy(x, stream=t), 1)
        runtime().copy_on_device(y._address, x._address, 16, 0, 0)
    with t:
        x[...] = 2.0
    assert log.before(only(log.named("copy")), log.named("fill")[-1])


def test_writes_that_overtake_each_other_are_both_waited_for(log):
    """Two threads write at once, which is their fault; whoever is next still waits for both."""
    s, t, u = (numbacc.stream() for _ in range(3))
    x, y = array(), array()
    with runtime().using(s.handle, 0, (y,), (x,)):

        def write(k):
            with t:
                x[...] = 2.0

        run_threads(write, 1)
        runtime().copy_on_device(x._address, y._address, 16, 0, s.handle)
    numbacc.asnumpy(x, stream=u)
    for call in (only(log.named("copy")), log.named("fill")[-1]):
        assert log.before(call, log.named("copy out")[-1])


def test_threads_free_deferred_memory(busy_collector):
    """Memory dropped while its stream is captured is freed by the next allocation, once, whichever thread's that is."""
    log = recorder.Log()
    for _ in range(20):
        s = numbacc.stream()
        arrays = [numbacc.empty(64, stream=s) for _ in range(16)]
        addresses = {a._address for a in arrays}
        with numbacc.graph(s):
            del arrays
        assert memory._deferred
        run_threads(lambda k: [numbacc.empty(8, stream=0) for _ in range(10)])
        gc.collect()
        freed = [call.arguments[0] for call in log.named("free")]
        assert all(freed.count(address) == 1 for address in addresses)
    assert not log.named("free of what is not allocated")


def test_threads_meet_many_foreign_streams(busy_collector):
    """Those seen last are remembered, and others forgotten, while other threads do the same."""

    class Foreign:
        def __init__(self, handle):
            self.handle = handle

        def __cuda_stream__(self):
            return 0, self.handle

    kept, interval = dict(foreign), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        run_threads(lambda k: [handle_of(Foreign(4096 + 8 * k + 64 * j)) for j in range(4000)])
        assert len(foreign) <= _MAX_FOREIGN
    finally:
        sys.setswitchinterval(interval)
        foreign.clear()
        foreign.update(kept)


def test_results_of_calls_survive_finalizers(busy_collector):
    """A finalizer that makes driver calls between a call and the look at its result."""

    class Cycle:
        def __init__(self):
            self.own = self

        def __del__(self):
            runtime().call(driver.cuDeviceGetCount)

    runtime().current_device()
    context = runtime().gpu(0).context
    for _ in range(5000):
        Cycle()
        assert runtime().call(driver.cuCtxGetCurrent) in (context, 0)


def test_a_threads_scratch_memory_goes_with_it(log):
    from numbacc.runtime import workspace

    s = numbacc.stream()

    def work(k):
        workspace.run(lambda address: None, 4096, 0, s.handle)

    run_threads(work, 4)
    gc.collect()
    blocks = {call.arguments[0] for call in log.named("allocate") if call.arguments[1] == 4096}
    assert len(blocks) == 4
    assert blocks <= {call.arguments[0] for call in log.named("free")}


def test_scratch_memory_has_a_limit():
    from numbacc.runtime import workspace

    kept = numbacc.scratch_limit()
    try:
        assert numbacc.scratch_limit(10_000) == 10_000
        log = recorder.Log()
        for nbytes in (6000, 6001, 20_000):
            s = numbacc.stream()
            workspace.run(lambda address: None, nbytes, 0, s.handle)
            held = sum(block.nbytes for block in workspace._held.values())
            assert held <= 10_000
        assert 20_000 in [call.arguments[1] for call in log.named("free")]
        for wrong in (-1, 1.5, "1", True):
            with pytest.raises(numbacc.OptionError):
                numbacc.scratch_limit(wrong)
    finally:
        numbacc.scratch_limit(kept)


def test_scratch_memory_makes_way_for_arrays():
    from numbacc.runtime import workspace

    numbacc.release_memory()
    FAKE.fake_limit(FAKE.fake_used() + (1 << 20))
    try:
        workspace.run(lambda address: None, 900_000, 0, 0)
        x = numbacc.empty(800_000, "uint8")
        assert x.size == 800_000
        with pytest.raises(numbacc.DeviceError, match="out of memory"):
            numbacc.empty(1 << 20, "uint8")
    finally:
        FAKE.fake_limit(1 << 30)


# ---------------------------------------------------------------- devices


def test_streams_of_another_gpu(log):
    """cuda:0 is current all the time."""
    numbacc.asnumpy(array(device=0))
    s = numbacc.stream(device=1)
    x, y = array(device=1), numbacc.empty((4, 4), device=1, stream=s)
    gated.forward(x, out=y, stream=s)
    numbacc.asnumpy(y)
    first, launched, copied = log.named("fill")[-1], only(log.named("launch")), log.named("copy out")[-1]
    assert log.before(first, launched) and log.before(launched, copied)
    assert y.device == 1 and runtime().current_device() == 0
    del x, y
    assert len(log.named("free")) >= 2


def test_work_on_another_gpu_leaves_a_new_thread_where_it_is(log):
    """The first call of a thread, which has no context then, is on cuda:1."""

    def work(k):
        assert runtime().call(driver.cuCtxGetCurrent) == 0
        gated.forward(array(device=1))
        numbacc.stream(device=1)
        assert numbacc.empty(4).device == 0

    run_threads(work, 1)
    assert log.named("launch")


def test_streams_of_two_gpus_wait_for_each_other(log):
    s, t = numbacc.stream(device=0), numbacc.stream(device=1)
    x, y = array(stream=s, device=0), array(stream=t, device=1)
    t.wait(s)
    with t:
        y[...] = 4.0
    fills = log.named("fill")
    assert log.before(fills[0], fills[-1])
    s.wait(t)
    with s:
        x[...] = 4.0
    assert log.before(fills[-1], log.named("fill")[-1])


def test_a_stream_makes_its_gpu_the_default():
    with numbacc.stream(device=1):
        assert numbacc.empty(3).device == 1
        with numbacc.stream(device=0):
            assert numbacc.empty(3).device == 0
        assert numbacc.zeros(3).device == 1
    assert numbacc.empty(3).device == 0


def test_arrays_on_two_gpus_are_refused():
    with pytest.raises(numbacc.DeviceError, match="cuda:1"):
        gated.backward(numbacc.empty((4, 4), device=1), array(device=0))


def test_streams_of_the_other_gpu_are_refused():
    x, s, theirs = array(device=0), numbacc.stream(device=1), runtime().create_stream(1)
    del contexts.stream_devices[theirs]  # a stream of another library
    for stream in (s, theirs):
        for call in (
            lambda stream: gated.forward(x, stream=stream),
            lambda stream: numbacc.full((4, 8), 1.0, device=0, stream=stream),
            lambda stream: numbacc.asarray(np.ones(3), device=0, stream=stream),
            lambda stream: numbacc.asnumpy(x, stream=stream),
        ):
            with pytest.raises(numbacc.DeviceError, match="belongs to cuda:1"):
                call(stream)
    assert (numbacc.asnumpy(x) == 1.5).all()


def test_a_thread_that_has_used_no_gpu_may_ask_for_captures():
    found = []
    run_threads(lambda k: found.append(runtime().is_capturing(0)), 1)
    assert found == [False]


def test_release_memory_is_for_all_gpus():
    numbacc.empty(3, device=0), numbacc.empty(3, device=1)
    log = recorder.Log()
    numbacc.release_memory()
    assert len(log.named("trim")) == 2
    numbacc.release_memory(1)
    assert len(log.named("trim")) == 3
