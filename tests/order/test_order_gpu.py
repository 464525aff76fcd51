"""Memory has one history, on a real GPU: whoever uses an array next waits for what was queued on it before.

Producers are slow, and memory is poisoned before: a wait that is missing shows in the values.
"""

from __future__ import annotations

import gc

import numpy as np
import pytest
from gpu_work import WORK, Slow, draw, poison
from skips import needed, skip
from threads import run_threads

import numbacc
from numbacc import gated, gemm
from numbacc.runtime import device

pytestmark = pytest.mark.gpu

ROWS, COLUMNS = 64, 256


@pytest.fixture(scope="module")
def slow():
    return Slow()


@pytest.fixture(scope="module")
def values():
    return np.random.default_rng(5).standard_normal((ROWS, COLUMNS)).astype(np.float32)


@pytest.fixture(scope="module")
def foreign():
    """A stream of another library, torch's if it is there."""
    torch = needed("torch", "torch")
    return torch.cuda.Stream()


@pytest.fixture(scope="module")
def expected(values):
    """What each family's work gives, and its layout; waited for."""
    x = numbacc.asarray(values)
    found = {name: numbacc.asnumpy(work(x, None, None)) for name, work in WORK.items()}
    assert all(np.isfinite(result).all() for result in found.values())
    return found


def stream_of(kind, foreign):
    return {"default": None, "own": numbacc.stream(), "foreign": foreign}[kind]


KINDS = ("default", "own", "foreign")


@pytest.mark.parametrize("writer", KINDS)
@pytest.mark.parametrize("home", KINDS)
@pytest.mark.parametrize("name", WORK)
def test_every_family_on_every_pair_of_streams(slow, values, foreign, expected, name, home, writer):
    work, want = WORK[name], expected[name]
    homes, writers = stream_of(home, foreign), stream_of(writer, foreign)
    for reader in (stream_of(kind, foreign) for kind in KINDS):
        x = numbacc.asarray(np.full_like(values, np.nan), stream=homes)
        out = numbacc.empty(want.shape, want.dtype, stream=homes)
        poison(out, homes)
        slow(homes)
        x_here = numbacc.asarray(values, stream=homes)
        with numbacc.stream(homes) if homes is not None else numbacc.stream(0):
            x[...] = x_here  # behind the slow work
        slow(writers, 5)
        work(x, out, writers)
        got = numbacc.asnumpy(out, stream=reader)
        np.testing.assert_array_equal(got, want)
        # The input is overwritten on a third stream, at once; the result is computed again from what it was.
        slow(writers)
        work(x, out, writers)
        with numbacc.stream(reader) if reader is not None else numbacc.stream(0):
            x[...] = np.nan
        np.testing.assert_array_equal(numbacc.asnumpy(out), want)


def test_random_numbers_wait(slow):
    want = numbacc.asnumpy(draw(numbacc.empty((64, 64)), None))
    s = numbacc.stream()
    out = numbacc.empty((64, 64))
    slow(None)
    poison(out)
    draw(out, s)
    np.testing.assert_array_equal(numbacc.asnumpy(out), want)


def test_memory_is_not_reused_while_others_read_it(slow, values, expected):
    streams = [numbacc.stream() for _ in range(3)]
    outs = [numbacc.empty((ROWS, COLUMNS // 2), stream=s) for s in streams]
    for _ in range(5):
        x = numbacc.asarray(values)
        device.synchronize(0, 0)
        for s, out in zip(streams, outs, strict=True):
            slow(s, 5)
            gated.forward(x, out=out, stream=s)
        del x
        trash = [numbacc.full((ROWS, COLUMNS), np.nan) for _ in range(4)]
        for out in outs:
            np.testing.assert_array_equal(numbacc.asnumpy(out), expected["gated"])
        del trash


def test_a_copy_to_pinned_memory_outlives_its_array(slow, values):
    from numba import cuda

    s = numbacc.stream()
    pinned = cuda.pinned_array(values.shape, np.float32)
    for _ in range(5):
        x = numbacc.asarray(values)
        pinned[:] = 0
        slow(s)
        numbacc.asnumpy(x, out=pinned, stream=s)
        del x
        trash = numbacc.full(values.shape, np.nan)
        s.synchronize()
        np.testing.assert_array_equal(pinned, values)
        del trash


def test_two_readers_run_side_by_side(slow, values):
    """A reader does not wait for another that is slow."""
    first, second = numbacc.stream(), numbacc.stream()
    x = numbacc.asarray(values)
    outs = [numbacc.empty((ROWS, COLUMNS // 2), stream=s) for s in (first, second)]
    for s, out in zip((first, second), outs, strict=True):
        gated.forward(x, out=out, stream=s)
    device.synchronize(first.handle, 0)
    slow(first, 100)
    gated.forward(x, out=outs[0], stream=first)
    gated.forward(x, out=outs[1], stream=second)
    mark, late = device.DriverEvent(0), device.DriverEvent(0)
    mark.record(second.handle)
    late.record(first.handle)
    mark.synchronize()
    assert not late.is_done()
    first.synchronize()


# ---------------------------------------------------------------- other libraries


def test_exports_wait_for_other_streams(slow, values, expected, torch, cupy):
    s = numbacc.stream()
    for take in (torch.from_dlpack, cupy.from_dlpack, cupy.asarray):
        x, y = numbacc.asarray(values), numbacc.empty((ROWS, COLUMNS // 2))
        poison(y)
        slow(s)
        gated.forward(x, out=y, stream=s)
        taken = take(y)
        got = taken.cpu().numpy() if take is torch.from_dlpack else cupy.asnumpy(taken)
        np.testing.assert_array_equal(got, expected["gated"])


def test_torch_reads_on_when_all_arrays_are_gone(slow, values, torch):
    side = torch.cuda.Stream()
    for _ in range(5):
        x = numbacc.asarray(values)
        with torch.cuda.stream(side):
            tensor = torch.from_dlpack(x)
            slow(side)
            copied = tensor.clone()
        del tensor, x
        trash = [numbacc.full(values.shape, np.nan) for _ in range(4)]
        side.synchronize()
        np.testing.assert_array_equal(copied.cpu().numpy(), values)
        del trash


def test_our_work_and_torchs_share_one_order(slow, values, torch):
    """torch writes a tensor on its stream, we read and write it on ours, torch reads it again: no one synchronizes."""
    ours = numbacc.stream()
    x = numbacc.asarray(values, stream=ours)
    ours.synchronize()
    tensor = torch.from_dlpack(x)
    for k in range(1, 4):
        torch.cuda._sleep(20_000_000)
        tensor.fill_(k)
        y = numbacc.empty(x.shape, stream=ours)
        with ours:
            y[...] = x
            slow(ours)
            x[...] = -k
        assert (tensor == -k).all().item()
        assert (numbacc.asnumpy(y) == k).all()


def test_a_tensor_given_as_out_is_waited_for_by_torch(slow, values, expected, torch):
    ours = numbacc.stream()
    x = torch.from_numpy(values).cuda()
    for _ in range(5):
        out = torch.full((ROWS, COLUMNS // 2), float("nan"), device="cuda")
        slow(ours)
        gated.forward(x, out=out, stream=ours)
        np.testing.assert_array_equal(out.cpu().numpy(), expected["gated"])


def test_torchs_memory_is_not_reused_while_we_read_it(slow, values, expected, torch):
    ours = numbacc.stream()
    for _ in range(5):
        x = torch.from_numpy(values).cuda()
        torch.cuda.synchronize()
        slow(ours)
        y = gated.forward(x, stream=ours)
        del x
        trash = [torch.full(values.shape, float("nan"), device="cuda") for _ in range(4)]
        np.testing.assert_array_equal(numbacc.asnumpy(y), expected["gated"])
        del trash


def test_a_cupy_stream_may_end(values, cupy):
    for _ in range(20):
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            x = cupy.asarray(values)
            taken = cupy.from_dlpack(gated.forward(x, stream=stream))
            doubled = 2 * taken
        del stream, taken
        y = gated.forward(doubled)
        assert np.isfinite(numbacc.asnumpy(y)).all()
        del doubled, y
    gc.collect()
    numbacc.asnumpy(numbacc.zeros(3))


def test_jaxs_memory_is_kept_until_our_work_is_done(slow, values, expected):
    jax = needed("jax", "jax")
    if jax.default_backend() != "gpu":
        skip("jax with a gpu")
    ours = numbacc.stream(device=0)  # JAX leaves the last GPU the current one
    for _ in range(5):
        x = jax.device_put(values)
        x.block_until_ready()
        slow(ours)
        y = gated.forward(x, stream=ours)
        del x
        trash = [jax.numpy.full(values.shape, np.nan).block_until_ready() for _ in range(4)]
        np.testing.assert_array_equal(numbacc.asnumpy(y), expected["gated"])
        del trash


# ---------------------------------------------------------------- threads


@pytest.mark.parametrize("name", WORK)
def test_eight_threads_share_an_array(busy_collector, values, expected, name):
    shared = numbacc.asarray(values)

    def work(k):
        with numbacc.stream():
            own = numbacc.asarray(values)
            for _ in range(15):
                for x in (shared, own):
                    got = numbacc.asnumpy(WORK[name](x, None, None))
                    np.testing.assert_array_equal(got, expected[name])

    run_threads(work)


def test_a_new_thread_takes_foreign_arrays_first(torch, cupy, values, expected):
    made = [torch.from_numpy(values).cuda(), cupy.asarray(values), cupy.asarray(values)[::-1][::-1]]
    torch.cuda.synchronize()
    for x in made:
        results = []
        run_threads(lambda k, x=x, results=results: results.append(numbacc.asnumpy(gated.forward(x))), 1)
        np.testing.assert_array_equal(results[0], expected["gated"])


def test_threads_that_end_leave_nothing(values):
    def work(k):
        with numbacc.stream():
            gemm.matmul(numbacc.asarray(values), numbacc.asarray(values).T)

    run_threads(work)
    gc.collect()
    device.synchronize(0, 0)
    numbacc.release_memory()
    before = device.pool_bytes(0)[1]
    for _ in range(5):
        run_threads(work)
    gc.collect()
    numbacc.release_memory()
    assert device.pool_bytes(0)[1] <= before
