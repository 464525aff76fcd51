"""Mistakes that kernels make with asynchronous copies and products: Python finds them and names the missing call."""

from __future__ import annotations

import re

import numpy as np
import pytest
from conftest import RUNS_KERNELS
from skips import skip_if

import numbacc
from numbacc import cuda, device
from numbacc.base.dispatch import compiles_own_kernels
from numbacc.simulator import calls

pytestmark = RUNS_KERNELS

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
            r"before it has arrived|before anybody has waited for the last copy to it, at the mbarrier at "
            r"dynamic_shared\(\) \+ 65536",
        ),
        ("producer does not wait", "tma_load overwrites shared memory before anybody has waited for the last copy"),
        ("too few bytes expected", "before it has arrived|more arrived in this phase"),
        (
            "too many",
            r"deadlock.*threads 0 to 127 wait at the mbarrier at dynamic_shared\(\) \+ 65536.*0 of 1 arrivals and 512 "
            r"bytes are missing \(line \d+ of run\)",
        ),
        ("wrong parity", r"deadlock.*thread 128 waits at the mbarrier at dynamic_shared\(\) \+ 65600.*1 of 1 arrivals"),
        ("arrivals missing", r"thread 128 waits at the mbarrier at dynamic_shared\(\) \+ 65600.*1 of 2 arrivals"),
        (
            "quarter of a warpgroup",
            r"threads 0 to 95 wait at wgmma_bf16 for other threads of the warpgroup \(line \d+ of run\); "
            "|different instr",
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
        if mistake == "no barrier":
            if t == 0:
                device.mbarrier_init(shared + 4096, 32)
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
        ("no mbarrier", RuntimeError, r"no mbarrier was initialized at dynamic_shared\(\) \+ 4096"),
        (
            "no barrier",
            RuntimeError,
            r"thread 1 uses the mbarrier at dynamic_shared\(\) \+ 4096 without a barrier after thread 0 has init",
        ),
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


@device.function
def wait_in_a_function(bar):
    device.mbarrier_wait_parity(bar, 0)


def test_a_deadlock_names_all_who_wait():
    @device.jit
    def run(x):
        t, shared = cuda.threadIdx.x, device.dynamic_shared()
        if t == 0:
            device.mbarrier_init(shared + 64, 1)
        cuda.syncthreads()
        if t < 32:
            wait_in_a_function(shared + 64)
        elif t < 64:
            device.bar_sync(3, 64)
        cuda.syncthreads()

    line = run.py_func.__code__.co_firstlineno
    with numbacc.simulate(), pytest.raises(RuntimeError) as error:
        run[1, 96, None, 128](np.zeros(1))
    words = str(error.value)
    for said in (
        r"threads 0 to 31 wait at the mbarrier at dynamic_shared\(\) \+ 64 for phase 0 \(parity 0\) to complete: "
        r"1 of 1 arrivals and 0 bytes are missing \(line \d+ of wait_in_a_function\)",
        rf"threads 32 to 63 wait at barrier 3 for 32 more of 64 threads \(line {line + 9} of run\)",
        rf"threads 64 to 95 wait at cuda.syncthreads\(\) \(line {line + 10} of run\)",
    ):
        assert re.search(said, words), words


# ---------------------------------------------------------------- clusters


def cluster_kernel(mistake):
    """Two blocks: each has half of B, transposed, from the copy engine; sums go from the second to the first."""

    @device.jit(launch_bounds=128)
    def run(map_a, map_b, c):
        t, rank, shared = cuda.threadIdx.x, device.cluster_ctarank(), device.dynamic_shared()
        full, sent, at_b, partial = shared + 32768, shared + 32776, shared + 8192, shared + 24576
        if t == 0:
            device.mbarrier_init(full, 1)
            device.mbarrier_init(sent, 128)
            if mistake != "no fence":
                device.fence_mbarrier_init()
        if mistake == "start":
            cuda.syncthreads()
        else:
            device.cluster_sync()
        if t == 0:
            device.mbarrier_arrive_expect_tx(full, 24576)
            device.tma_load(shared, map_a, (64 * rank, 0), full)
            device.tma_load(at_b, map_b, (0, 64 * rank), full)
            device.tma_load(at_b + 8192, map_b, (64, 64 * rank), full)
        device.mbarrier_wait_parity(full, 0)
        if mistake == "unmasked descriptor":
            a, b = ROWS + (shared >> 4), COLUMNS + (at_b >> 4)
        else:
            a, b = ROWS + ((shared & 0x3FFFF) >> 4), COLUMNS + ((at_b & 0x3FFFF) >> 4)
        sums = device.wgmma_wait_group(device.wgmma_bf16(64, a, b, 4, 2, 128, 0, 1), 0)
        row, column = 16 * (t >> 5) + ((t & 31) >> 2), 2 * (t & 3)
        if rank == 1:
            if mistake == "address of another block":
                device.st_shared_b32(device.mapa(partial, 0) + 4 * t, 0)
            bits = device.fragment_bits(sums)
            for k in range(16):
                device.st_shared_cluster_b32(partial + 512 * k + 4 * t, 0, bits[k])
            if mistake == "relaxed arrival":
                device.mbarrier_arrive_cluster_relaxed(sent, 0)
            else:
                device.mbarrier_arrive_cluster(sent, 0)
        else:
            if mistake == "scope of the block":
                device.mbarrier_wait_parity(sent, 0)
            elif mistake not in ("no wait", "end"):
                device.mbarrier_wait_parity_cluster(sent, 0)
            for k in range(0 if mistake == "end" else 16):
                other = device.fragment_floats((device.ld_shared_b32(partial + 512 * k + 4 * t),))[0]
                c[row + device.fragment_row(k, 16), column + device.fragment_column(k, 16)] = sums[k] + other
        if mistake != "end":
            device.cluster_sync()

    return run


ROWS, COLUMNS = device.wgmma_descriptor(128, 16, 1024), device.wgmma_descriptor(128, 8192, 1024)


def run_cluster(mistake):
    r = np.random.default_rng(0)
    a, b = (r.standard_normal(shape).astype(np.float32).astype(numbacc.bfloat16) for shape in ((64, 128), (128, 128)))
    c = np.zeros((64, 32), np.float32)
    maps = device.tensor_map(a, (64, 64)), device.tensor_map(b, (64, 64))
    with numbacc.simulate():
        cluster_kernel(mistake)[2, 128, None, 32784, 2](*maps, c)
    want = (a.astype(float) @ b.astype(float))[:, :32]
    return np.abs(c - want).max() / np.abs(want).max()


def test_mistakes_in_clusters_are_named():
    assert run_cluster("") < 1e-4
    assert np.isnan(run_cluster("no wait"))  # nobody has written yet
    for mistake, message in (
        ("no fence", "need not be visible to the copy engine and to other blocks yet: thread 0"),
        ("unmasked descriptor", r"a shared address of block 1 of the cluster.*add \(address & 0x3ffff\) >> 4"),
        ("address of another block", "does not belong to this block, which has rank 1"),
        ("start", "uses shared memory of block 0, which may not have started yet: call cluster_sync"),
        ("end", "uses shared memory of block 0, which has ended: call cluster_sync"),
        ("relaxed arrival", r"reads what block 1 of the cluster has written.*\(not _relaxed\)"),
        ("scope of the block", "reads what block 1 .*waits with mbarrier_wait_parity_cluster"),
    ):
        with pytest.raises(RuntimeError, match=message):
            run_cluster(mistake)


def test_boxes_begin_at_multiples_of_16_bytes():
    @device.jit
    def run(m, first, is_fenced):
        shared = device.dynamic_shared()
        device.mbarrier_init(shared + 4096, 1)
        if is_fenced:
            device.fence_mbarrier_init()
        device.tma_load(shared, m, (first, 0), shared + 4096)

    @device.jit
    def store(m, first):
        device.tma_store(m, (first, 0), device.dynamic_shared())

    m = device.tensor_map(np.zeros((8, 64), np.float32), (8, 8), 32)
    with numbacc.simulate():
        run[1, 1, None, 8192](m, 4, True)
        with pytest.raises(ValueError, match=r"begins at element 5 of 4 bytes.*multiple of 16 bytes"):
            run[1, 1, None, 8192](m, 5, True)
        with pytest.raises(
            RuntimeError, match=r"dynamic_shared\(\) \+ 4096 need not be.*thread 0.*fence_mbarrier_init"
        ):
            run[1, 1, None, 8192](m, 4, False)
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
