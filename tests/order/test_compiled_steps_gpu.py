"""Compiled steps on a real GPU: other libraries' arrays, streams with slow work, and the time of a call."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_work import WORK, Slow, poison
from graph_work import COLUMNS, ROWS, assert_usable, direct, normal
from skips import needed, skip_if
from threads import run_threads

import numbacc
from numbacc import elementwise as ew
from numbacc import gated, gemm
from numbacc.runtime import device

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def slow():
    return Slow()


def test_every_family_between_slow_streams(slow):
    """New and old arrays as arguments, each call on another stream; the results of all calls are right at the end."""
    for name, work in WORK.items():
        step = numbacc.compiled(lambda x, work=work: work(x, None, None))
        streams, kept = [numbacc.stream(0), numbacc.stream(), numbacc.stream()], numbacc.empty((ROWS, COLUMNS))
        hosts, results = [normal(ROWS, COLUMNS) for _ in range(8)], []
        for k, host in enumerate(hosts):
            with streams[k % 3]:
                slow(streams[k % 3], 2)
                x = kept if k % 4 else numbacc.empty((ROWS, COLUMNS))
                x[...] = host
            with streams[(k + 1) % 3]:
                results.append(step(x))
            with streams[(k + 2) % 3]:
                poison(x, streams[(k + 2) % 3])
        assert step.cache_info().currsize == 1, name
        for host, found in zip(hosts, results, strict=True):
            np.testing.assert_array_equal(numbacc.asnumpy(found), direct(name, host), err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_arrays_of_other_libraries(slow, dtype):
    torch = needed("torch", "torch")
    step = numbacc.compiled(lambda w, x: ew.add(w, x, out=w))
    kept, total = torch.zeros(64, 64, device="cuda", dtype=getattr(torch, dtype)), 0
    stream = torch.cuda.Stream()
    for k in range(6):
        with torch.cuda.stream(stream if k % 2 else torch.cuda.default_stream()):
            torch.cuda._sleep(2_000_000)
            x = torch.full((64, 64), float(k), device="cuda", dtype=kept.dtype).T
            kept.mul_(1)
            with numbacc.stream(stream if k % 3 else 0):
                assert step(kept, x) is not None
            x.fill_(float("nan"))
            torch.cuda.default_stream().wait_stream(stream)
            stream.wait_stream(torch.cuda.default_stream())
        total += k
    assert (kept == total).all() and step.cache_info().currsize == 1
    with pytest.raises(numbacc.DTypeError, match="args\\[1\\] requires gradients"):
        step(kept, torch.ones(64, 64, device="cuda", dtype=kept.dtype, requires_grad=True))
    cupy = needed("cupy", "cupy")
    if dtype == "float32":
        for k in range(4):
            assert numbacc.asnumpy(step(cupy.zeros((2, 3), "f4"), cupy.full((2, 3), k, "f4"))).tolist() == [[k] * 3] * 2


def test_a_training_step_is_the_plain_one(slow):
    """Weights, moments and a counter as arguments, a rate that changes, dropout; 12 steps, bit for bit."""

    def step(state, x, rate):
        w, m, v, count, offset = state["w"], state["m"], state["v"], state["count"], state["offset"]
        ew.add(count, 1, out=count)
        ew.add(offset, 4096, out=offset)
        h = ew.dropout(gemm.matmul(x, w, epilogue="gelu"), 0.1, seed=3, offset=offset)
        grad = gemm.matmul(x.T, h)
        ew.adamw_step(w, grad, m, v, count, rate=rate)
        return ew.sum(ew.square(h))

    def state():
        w = np.random.default_rng(1).standard_normal((256, 128)).astype(np.float32)
        made = {"w": numbacc.asarray(w), "m": numbacc.zeros((256, 128)), "v": numbacc.zeros((256, 128))}
        return made | {"count": numbacc.zeros(1, "int64"), "offset": numbacc.zeros(1, "int64")}

    ends = []
    for run in (step, numbacc.compiled(step)):
        held, losses = state(), []
        for k in range(12):
            x = np.random.default_rng(k).standard_normal((64, 256)).astype(np.float32)
            rate = numbacc.asarray(np.array([0.1 / (k + 1)], np.float32))
            losses.append(run(held, numbacc.asarray(x), rate))
        ends.append([numbacc.asnumpy(each) for each in (*losses, *held.values())])
    for one, other in zip(*ends, strict=True):
        np.testing.assert_array_equal(one, other)
    assert run.cache_info() == (10, 2, 8, 1)


def test_errors_inside_leave_everything_usable():
    x = numbacc.asarray(normal(ROWS, COLUMNS))

    def reads(x):
        y = gated.forward(x)
        return y if numbacc.asnumpy(y).any() else x

    step = numbacc.compiled(reads)
    step(x)
    for _ in range(2):
        with pytest.raises(numbacc.UnsupportedError, match=r"test_compiled_steps_gpu.py, `return y if numbacc.asnumpy"):
            step(x)
    assert_usable()
    torch = needed("torch", "torch")
    synchronizing = numbacc.compiled(lambda x: (torch.cuda.synchronize(), gated.forward(x))[1])
    synchronizing(x)
    with pytest.raises(RuntimeError):
        synchronizing(x)
    assert_usable()


def test_threads():
    step = numbacc.compiled(lambda x: gated.forward(x, "reglu"))

    def work(k):
        with numbacc.stream():
            for n in range(100):
                found = step(numbacc.full((64, 128), float(1 + k + 10 * n)))
                if n % 10 == k:
                    assert (numbacc.asnumpy(found) == float(1 + k + 10 * n) ** 2).all()

    run_threads(work, 6)


@skip_if(device.device_count() < 2, "two gpus")
def test_a_second_gpu():
    w, wanted = numbacc.zeros(64, device=1), 0
    step = numbacc.compiled(lambda x: ew.add(w, x, out=w))
    for k in range(5):
        host = np.full(64, k, np.float32)
        step(numbacc.asarray(host, device=1))
        wanted += k
    assert (numbacc.asnumpy(w) == wanted).all()
    there = numbacc.compiled(lambda x: x + 1, device=1)
    assert [there(np.ones(3, np.float32)).device for _ in range(3)] == [1] * 3
