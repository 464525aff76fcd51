"""Mistakes that kernels make with asynchronous copies and products: Python finds them and names the missing call."""

from __future__ import annotations

import numpy as np
import pytest
from skips import skip_if

import numbacc
from numbacc import cuda, device
from numbacc.base.dispatch import compiles_own_kernels
from numbacc.simulator import calls

STAGES, STAGE = 2, 8192 + 16384
OUT, BARRIERS = STAGES * STAGE, STAGES * STAGE + 16384
DESCRIPTOR = device.wgmma_descriptor(128, 16, 1024)


def product(mistake=""):
    """A product of 64 rows and 128 columns: TMA brings stages of 64 columns, wgmma multiplies, TMA stores."""
    EXPECTED = STAGE - 512 if mistake == "too few bytes expected" else STAGE + 512 if mistake == "too many" else STAGE
    PARITY = 0 if mistake == "wrong parity" else 1
    ARRIVALS = 2 if mistake == "arrivals missing" else 1

    @device.jit(launch_bounds=256)
    def run(map_a, map_b, map_c, depth):
        t, shared = cuda.threadIdx.x, device.dynamic_shared()
        full, empty = shared + BARRIERS, shared + BARRIERS + 64
        if t == 0:
            for s in range(STAGES):
                device.mbarrier_init(full + 8 * s, 1)
                device.mbarrier_init(empty + 8 * s, ARRIVALS)
            device.fence_mbarrier_init()
        cuda.syncthreads()
        if t >= 128:
            if t == 128:
                for k in range(depth):
                    stage = k % STAGES
                    at = shared + stage * STAGE
                    if mistake != "producer does not wait":
                        device.mbarrier_wait_parity(empty + 8 * stage, k // STAGES & 1 ^ PARITY)
                    device.mbarrier_arrive_expect_tx(full + 8 * stage, EXPECTED)
                    device.tma_load(at, map_a, (64 * k, 0), full + 8 * stage)
                    device.tma_load(at + 8192, map_b, (64 * k, 0), full + 8 * stage)
        else:
            sums = device.fill_fragment(0.0, 64)
            for k in range(depth):
                stage = k % STAGES
                if mistake != "consumer does not wait":
                    device.mbarrier_wait_parity(full + 8 * stage, k // STAGES & 1)
                at = DESCRIPTOR + (shared + stage * STAGE >> 4)
                if mistake != "quarter of a warpgroup" or t < 96:
                    sums = device.wgmma_bf16(sums, at, at + 512, 4, 2, 2, 0, 0)
                if mistake == "stage released too early":
                    if t == 0:
                        device.mbarrier_arrive(empty + 8 * stage)
                    device.bar_sync(1, 128)
                if mistake == "sums read too early":
                    sums = device.fragment_map(device.add_rn, (sums, sums))
                sums = device.wgmma_wait_group(sums, 0)
                if mistake != "stage released too early" and t == 0:
                    device.mbarrier_arrive(empty + 8 * stage)
            words = device.pack_bf16(sums)
            row, lane = 16 * (t >> 5) + (t & 15), t & 31
            for part in range(2):
                place = shared + OUT + 8192 * part + 128 * row + (((lane >> 4) ^ (lane & 7)) << 4)
                if part == 0:
                    device.stmatrix_x4_xor(place, device.fragment_part(words, 0, 16), 32)
                else:
                    device.stmatrix_x4_xor(place, device.fragment_part(words, 1, 16), 32)
            if mistake != "no fence":
                device.fence_proxy_async()
            if mistake != "no barrier":
                device.bar_sync(1, 128)
            if t == 0:
                device.tma_store(map_c, (0, 0), shared + OUT)
                device.tma_store(map_c, (64, 0), shared + OUT + 8192)
                device.cp_async_bulk_commit_group()
                if mistake == "output overwritten":
                    device.st_shared_b32(shared + OUT, 0)
                device.cp_async_bulk_wait_group(0)

    return run


def run_product(mistake):
    r = np.random.default_rng(0)
    a, b = (r.standard_normal((n, 256)).astype(np.float32).astype(numbacc.bfloat16) for n in (64, 128))
    c = np.zeros((64, 128), numbacc.bfloat16)
    swizzle = 64 if mistake == "wrong swizzle" else 128
    boxes = ((a, (64, 32 if swizzle == 64 else 64)), (b, (128, 64)), (c, (64, 64)))
    maps = [device.tensor_map(numbacc.asarray(x), box, swizzle if x is a else 128) for x, box in boxes]
    with numbacc.simulate():
        product(mistake)[1, 256, None, BARRIERS + 128](*maps, np.int32(4))
    got, want = numbacc.asnumpy(maps[2].array).astype(float), a.astype(float) @ b.astype(float).T
    return np.abs(got - want).max() / np.abs(want).max()


def test_the_product_without_a_mistake():
    assert run_product("") < 5e-3


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("no fence", r"tma_store reads shared memory that thread \d+ has written: call fence_proxy_async"),
        ("no barrier", r"tma_store reads shared memory that thread \d+ has written"),
        (
            "consumer does not wait",
            r"before it has arrived|before anybody has waited for the last copy to it, at the mbarrier \d+",
        ),
        ("producer does not wait", "tma_load overwrites shared memory before anybody has waited for the last copy"),
        ("too few bytes expected", "before it has arrived|more arrived in this phase"),
        (
            "too many",
            r"deadlock.*threads 0 to 127 wait at the mbarrier at shared address \d+.*0 of 1 arrivals and 512 bytes are",
        ),
        ("wrong parity", r"deadlock.*thread 128 waits at the mbarrier at shared address \d+.*1 of 1 arrivals"),
        ("arrivals missing", r"thread 128 waits at the mbarrier at shared address \d+.*1 of 2 arrivals"),
        (
            "quarter of a warpgroup",
            "threads 0 to 95 wait at wgmma_bf16 for other threads of the warpgroup; |different instr",
        ),
        ("stage released too early", "tma_load overwrites shared memory that wgmma still reads: a stage was released"),
        ("sums read too early", "reads wgmma's sums before it has waited for them"),
        ("wrong swizzle", "reads a matrix with the swizzle of 128 bytes that TMA has written with 64|arrivals"),
        ("output overwritten", "overwritten while a bulk store could still read it"),
    ],
)
def test_mistakes_are_named(mistake, message):
    with pytest.raises(RuntimeError, match=f"(?s)tid=.*({message})"):
        run_product(mistake)


def copy_kernel(mistake):
    @device.jit
    def run(x, y):
        t, shared = cuda.threadIdx.x, device.dynamic_shared()
        device.cp_async(shared + 16 * t, device.address_of(x) + 16 * t, 16)
        device.cp_async_commit_group()
        if mistake != "no wait":
            device.cp_async_wait_group(1 if mistake == "a group too few" else 0)
        cuda.syncthreads()
        y[t] = device.ld_shared_b32(shared + 16 * (t ^ 1))
        if mistake == "no mbarrier":
            device.mbarrier_arrive(shared + 4096)
        if mistake == "half a warp" and t < 16:
            device.ldmatrix_x4(shared + 16 * t, 1, 0)
        if mistake == "two instructions":
            if t < 16:
                device.ldmatrix_x4(shared + 16 * t, 1, 0)
            else:
                device.bar_warp_sync()
        if mistake == "misaligned":
            device.ldmatrix_x4(shared + 8 * t, 1, 0)
        if mistake == "out of bounds":
            cuda.syncthreads()
            device.cp_async(shared + 16 * t, device.address_of(x) + 16 * (t + 1), 16)
            device.cp_async_commit_group()
            device.cp_async_wait_group(0)

    return run


@pytest.mark.parametrize(
    ("mistake", "error", "message"),
    [
        ("no wait", RuntimeError, "ld_shared_b32 reads shared memory before it has arrived: thread 1 copies it"),
        ("a group too few", RuntimeError, "before it has arrived: thread 1 copies it"),
        ("no mbarrier", RuntimeError, "no mbarrier was initialized at shared address 5120"),
        (
            "half a warp",
            RuntimeError,
            "deadlock, no thread can go on: threads 0 to 15 wait at ldmatrix for other threads of the warp",
        ),
        ("two instructions", RuntimeError, "threads of one warp execute different instructions"),
        ("misaligned", ValueError, "not a multiple of 16"),
        ("out of bounds", IndexError, "beyond the end of an array"),
    ],
)
def test_mistakes_of_threads_are_named(mistake, error, message):
    x, y = np.arange(128, dtype=np.int32), np.zeros(32, np.int64)
    if mistake == "out of bounds":
        with numbacc.simulate():
            copy_kernel("")[1, 32, None, 8192](x, y)
    with numbacc.simulate(), pytest.raises(error, match=f"tid=.*{message}"):
        copy_kernel(mistake)[1, 32, None, 8192](x, y)


def test_boxes_begin_at_multiples_of_16_bytes():
    @device.jit
    def run(m, first):
        shared = device.dynamic_shared()
        device.mbarrier_init(shared + 4096, 1)
        device.tma_load(shared, m, (first, 0), shared + 4096)

    @device.jit
    def store(m, first):
        device.tma_store(m, (first, 0), device.dynamic_shared())

    m = device.tensor_map(np.zeros((8, 64), np.float32), (8, 8), 32)
    with numbacc.simulate():
        run[1, 1, None, 8192](m, 4)
        with pytest.raises(ValueError, match=r"begins at element 5 of 4 bytes.*multiple of 16 bytes"):
            run[1, 1, None, 8192](m, 5)
        with pytest.raises(ValueError, match=r"tma_store at \(-4, 0\): a store begins inside"):
            store[1, 1, None, 8192](m, -4)


@skip_if(compiles_own_kernels(), "not simulated")
@pytest.mark.parametrize(("pitch", "conflicts"), [(16, 0), (128, 28), (144, 0)])
def test_a_trace_counts_bank_conflicts(pitch, conflicts):
    """Four matrices whose rows lie `pitch` bytes apart: 128 puts all rows of a matrix into the same banks."""

    @device.jit
    def run(m, y):
        t, shared = cuda.threadIdx.x, device.dynamic_shared()
        bar = shared + 16384
        if t == 0:
            device.mbarrier_init(bar, 1)
            device.fence_mbarrier_init()
        cuda.syncthreads()
        if t == 0:
            device.mbarrier_arrive_expect_tx(bar, 1024)
            device.tma_load(shared + 8192, m, (0, 0), bar)
        device.mbarrier_wait_parity(bar, 0)
        for k in range(32):
            device.st_shared_b32(shared + pitch * k + 4 * (t & 3), 4 * k)
        cuda.syncthreads()
        y[t] = device.ldmatrix_x4(shared + pitch * t, 1, 0)[0]

    y = np.zeros(32, np.int64)
    with numbacc.simulate(), numbacc.trace() as t:
        run[1, 32, None, 16400](device.tensor_map(np.zeros((8, 64), np.float32), (8, 32)), y)
    assert y.tolist() == [4 * (k // 4) for k in range(32)]
    of = {(row.array, row.access): row for row in t._rows(False) if row.memory == "shared"}
    assert of["ldmatrix", "read"].requests == 1 and of["ldmatrix", "read"].conflicts == conflicts
    box = of["tma_load", "write"]
    assert (box.requests, box.bytes, box.conflicts) == (8, 1024, 0)
    # Four threads write a word; the others write the same words.
    assert of["st_shared_b32", "write"].requests == 32 and of["st_shared_b32", "write"].conflicts == 0
    assert t.counts("ldmatrix").conflicts == conflicts


def test_device_functions_outside_of_kernels():
    with pytest.raises(RuntimeError, match="work inside a kernel only"):
        device.mbarrier_arrive(1024)
    assert calls.running() is None
