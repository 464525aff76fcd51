"""Fragments, conversions, float32 functions, barriers, clusters, and what warps and blocks compute together."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from conftest import RUNS_KERNELS

import numbacc
from numbacc import cuda, device
from numbacc.base.dispatch import has_gpu, simulated
from numbacc.random import Generator

pytestmark = RUNS_KERNELS

f32 = np.float32
#: Where the generator draws: on a GPU, as the kernels do.
WHERE = 0 if has_gpu() and not simulated() else "cpu"


def on_device(x):
    return numbacc.asarray(np.ascontiguousarray(x))


def poisoned(shape, dtype):
    kind = np.dtype(dtype)
    return on_device(np.full((*shape, kind.itemsize), 0xEE, np.uint8).view(kind)[..., 0])


@device.function
def add(x, y):
    return x + y


# ---------------------------------------------------------------- fragments


@device.function
def shifted(x, row, column, by):
    return x + f32(100) * f32(row) + f32(column) + f32(by)


@device.function
def accumulate(k, carried, more):
    return device.fragment_map(add, (carried, device.fragment_part(more, k, 2)))


@device.jit
def fragments(sums, rows, parts, matrix):
    lane = cuda.threadIdx.x
    x = device.fragment_map_positions(shifted, device.fill_fragment(0.0, 16), 2, (0.5,))  # 32 rows, 16 columns
    total = device.fragment_reduce_rows(add, x, 2)
    everything = device.quad_reduce(add, total)
    y = device.fragment_map_rows(add, x, everything, 2)
    for k in range(16):
        parts[lane, 5] += (device.fragment_row(k, 2) * 100 + device.fragment_column(k, 2) + f32(0.5) == x[k]) / f32(16)
        sums[0, lane, k] = x[k]
        sums[1, lane, k] = y[k]
    for k in range(4):
        rows[0, lane, k] = total[k]
        rows[1, lane, k] = everything[k]
    two = device.unroll(accumulate, 8, device.fill_fragment(1.0, 2), (x,))
    parts[lane, 0] = two[0]
    parts[lane, 1] = two[1]
    words = device.pack_bf16(x)
    left = device.accumulator_as_a(words, 0, 2)
    parts[lane, 2] = device.unpack_bf16(left)[13]
    parts[lane, 3] = device.fragment_floats(device.fragment_bits(x))[7]
    parts[lane, 4] = device.unpack_f16(device.pack_f16(x))[9]
    device.st_global_fragment(words, device.address_of(matrix) + 32 * (lane // 4) + 4 * (lane % 4), 32, 2)


def test_fragments():
    sums, rows = poisoned((2, 32, 16), "float32"), poisoned((2, 32, 4), "float32")
    parts, matrix = numbacc.zeros((32, 6)), poisoned((32, 16), ml_dtypes.bfloat16)
    fragments[1, 32](sums, rows, parts, matrix)
    k = np.arange(16)
    x = 100.0 * (k // 8 * 16 + k % 4 // 2 * 8) + k // 4 % 2 * 8 + k % 2 + 0.5
    row = k // 8 * 2 + k % 4 // 2
    total = np.bincount(row, x)
    got = numbacc.asnumpy(sums)
    assert (got[0] == x).all() and (got[1] == x + 4 * total[row]).all()
    assert (numbacc.asnumpy(rows)[0] == total).all() and (numbacc.asnumpy(rows)[1] == 4 * total).all()
    bf = x.astype(f32).astype(ml_dtypes.bfloat16).astype(float)
    got = numbacc.asnumpy(parts)
    # Register 6 of A is the first pair of the second tile of columns in the second half of rows.
    want = [1 + x[::2].sum(), 1 + x[1::2].sum(), bf[13], x[7], np.float16(x[9]), 1]
    assert (got == np.array(want, f32)).all(), got[0] - want
    lane, k = np.mgrid[:32, :16]
    want = np.empty((32, 16))
    want[k // 8 * 16 + k % 4 // 2 * 8 + lane // 4, k // 4 % 2 * 8 + 2 * (lane % 4) + k % 2] = bf[k]
    assert (numbacc.asnumpy(matrix).astype(float) == want).all()


@device.jit(reads="x")
def parts_of_matrices(x, y, z, wide, bytes_):
    """A matrix of 13 rows and 22 columns in its place among others: as 16-bit and 32-bit words, and as float8."""
    lane, shared = cuda.threadIdx.x, device.dynamic_shared()
    row, column = lane >> 2, 2 * (lane & 3)
    at = row * 64 + column * 2
    words = device.ld_global_part(device.address_of(x) + at, 64, 3, 4, 13 - row, 22 - column, 0)
    device.st_global_part(words, device.address_of(y) + at, 64, 3, 4, 13 - row, 22 - column)
    numbers = device.unpack_bf16(words)
    bits = device.fragment_bits(numbers)
    device.st_global_part(bits, device.address_of(z) + 2 * at, 128, 3, 8, 13 - row, 22 - column)
    again = device.ld_global_part(device.address_of(x) + at, 64, 3, 4, 1, 22 - column, 1)
    for k in range(6):
        wide[k, lane] = again[k]
    rows = row * 32 + column
    device.st_global_part(device.pack_e4m3(numbers), device.address_of(bytes_) + rows, 32, 3, 2, 13 - row, 22 - column)
    first = shared + 64 * row + 16 * (row // 2 % 4) + column
    device.st_shared_part_8bit(device.pack_e5m2(device.fill_fragment(3.0, 32)), first)
    cuda.syncthreads()
    for k in range(8):
        bytes_[16 + k, lane] = device.ld_shared_b32(shared + 4 * lane + 128 * k) & 255


def test_parts_of_matrices():
    x = np.random.default_rng(4).integers(-8, 8, (16, 32)).astype(ml_dtypes.bfloat16)
    y, z = poisoned((16, 32), ml_dtypes.bfloat16), poisoned((16, 32), "float32")
    wide, bytes_ = poisoned((6, 32), "uint32"), poisoned((24, 32), "uint8")
    parts_of_matrices[1, 32, None, 1024](on_device(x), y, z, wide, bytes_)
    inside = (np.arange(16) < 13)[:, None] & (np.arange(32) < 22)
    want = np.where(inside, x.view(np.uint16), 0xEEEE)
    assert np.array_equal(numbacc.asnumpy(y).view(np.uint16), want)
    found = numbacc.asnumpy(z)
    assert np.array_equal(found[inside], x.astype(f32)[inside])
    assert (found.view(np.uint32)[~inside] == 0xEEEEEEEE).all()
    found = numbacc.asnumpy(bytes_)
    want = np.where(inside, x.astype(ml_dtypes.float8_e4m3fn).view(np.uint8), 0xEE)
    assert np.array_equal(found[:16], want)
    assert (found[16:] == np.array(3, ml_dtypes.float8_e5m2).view(np.uint8)).all()
    lane = np.arange(32)
    pairs = x.view(np.uint16).astype(np.uint32)
    pairs = pairs[:, ::2] | pairs[:, 1::2] << 16
    for j in range(3):
        place = 4 * j + lane % 4
        exists = 8 * j + 2 * (lane % 4) < 22
        assert np.array_equal(numbacc.asnumpy(wide)[2 * j], np.where(exists, pairs[lane // 4, place], 0))


# ---------------------------------------------------------------- numbers

SPECIAL = np.array(
    [0, -0.0, 1, -1.5, 3e-3, 65504, 65520, 448, 464, 500, 57344, 1e6, 1e-8, np.inf, -np.inf, np.nan], f32
)


@device.jit
def conversions(x, words):
    t = cuda.threadIdx.x
    words[0, t] = device.cvt_bf16x2(x[t], f32(2))
    words[1, t] = device.cvt_f16x2(x[t], f32(2))
    words[2, t] = device.cvt_e4m3x2(x[t], f32(2))
    words[3, t] = device.cvt_e5m2x2(x[t], f32(2))


def test_conversions():
    x = np.concatenate([SPECIAL, np.random.default_rng(0).standard_normal(112).astype(f32) * 100])
    words = poisoned((4, 128), "uint32")
    conversions[1, 128](on_device(x), words)
    got = numbacc.asnumpy(words)
    with np.errstate(over="ignore"):
        for row, kind in ((0, ml_dtypes.bfloat16), (1, np.float16)):
            low = (got[row] & 0xFFFF).astype(np.uint16).view(kind)
            assert np.array_equal(low.astype(float), x.astype(kind).astype(float), equal_nan=True)
            assert ((got[row] >> 16).astype(np.uint16).view(kind) == 2).all()
    for row, kind, most in ((2, ml_dtypes.float8_e4m3fn, 448), (3, ml_dtypes.float8_e5m2, 57344)):
        low = (got[row] & 0xFF).astype(np.uint8).view(kind).astype(float)
        want = np.clip(x, -most, most).astype(kind).astype(float)
        assert np.array_equal(low, want, equal_nan=True), kind
        assert ((got[row] >> 8).astype(np.uint8).view(kind) == 2).all() and (got[row] < 65536).all()


#: Function -> (meaning in float64, largest error in units in the last place, or absolute, domain).
ONE = {
    "ex2_approx": (np.exp2, 2, 0, (-20, 20)), "lg2_approx": (np.log2, 1, 2.0**-22, (0.01, 100)),
    "rcp_approx": (lambda x: 1 / x, 1, 0, (0.01, 100)), "rsqrt_approx": (lambda x: 1 / np.sqrt(x), 2, 0, (0.01, 100)),
    "sqrt_approx": (np.sqrt, 1.5, 0, (0.01, 100)), "sin_approx": (np.sin, 0, 2.0**-20.5, (-3.14, 3.14)),
    "cos_approx": (np.cos, 0, 2.0**-20.5, (-3.14, 3.14)), "tanh_approx": (np.tanh, 2.0**13, 0, (-3, 3)),
    "rcp_rn": (lambda x: 1 / x, 0.5, 0, (0.01, 100)), "sqrt_rn": (np.sqrt, 0.5, 0, (0.01, 100)),
}  # fmt: skip
TWO = {
    "div_full": (np.divide, 2), "max_f32": (np.fmax, 0), "min_f32": (np.fmin, 0), "add_rn": (np.add, 0.5),
    "mul_rn": (np.multiply, 0.5), "div_rn": (np.divide, 0.5),
}  # fmt: skip


@device.jit
def arithmetic(x, y, z, one, two, fused):
    i = cuda.grid(1)
    one[0, i] = device.ex2_approx(x[0, i])
    one[1, i] = device.lg2_approx(x[1, i])
    one[2, i] = device.rcp_approx(x[2, i])
    one[3, i] = device.rsqrt_approx(x[3, i])
    one[4, i] = device.sqrt_approx(x[4, i])
    one[5, i] = device.sin_approx(x[5, i])
    one[6, i] = device.cos_approx(x[6, i])
    one[7, i] = device.tanh_approx(x[7, i])
    one[8, i] = device.rcp_rn(x[8, i])
    one[9, i] = device.sqrt_rn(x[9, i])
    two[0, i] = device.div_full(y[i], z[i])
    two[1, i] = device.max_f32(y[i], z[i])
    two[2, i] = device.min_f32(y[i], z[i])
    two[3, i] = device.add_rn(y[i], z[i])
    two[4, i] = device.mul_rn(y[i], z[i])
    two[5, i] = device.div_rn(y[i], z[i])
    fused[i] = device.fma_rn(y[i], z[i], -device.mul_rn(y[i], z[i]))


def test_arithmetic():
    r = np.random.default_rng(3)
    n = 256
    x = np.stack([r.uniform(*domain, n) for *_, domain in ONE.values()]).astype(f32)
    y, z = (r.uniform(0.1, 10, n) * r.choice([-1, 1], n)).astype(f32), r.uniform(0.1, 10, n).astype(f32)
    one, two, fused = poisoned((len(ONE), n), "float32"), poisoned((len(TWO), n), "float32"), poisoned((n,), "float32")
    arithmetic[n // 64, 64](on_device(x), on_device(y), on_device(z), one, two, fused)
    for k, (name, (meaning, units, absolute, _)) in enumerate(ONE.items()):
        want = meaning(x[k].astype(float))
        error = np.abs(numbacc.asnumpy(one)[k].astype(float) - want)
        assert (error <= units * np.spacing(np.abs(want).astype(f32)) + absolute).all(), name
    for k, (name, (meaning, units)) in enumerate(TWO.items()):
        want = meaning(y.astype(float), z.astype(float))
        error = np.abs(numbacc.asnumpy(two)[k].astype(float) - want)
        assert (error <= units * np.spacing(np.abs(want).astype(f32))).all(), name
    # What rounding took from the product is a float32 itself.
    want = y.astype(float) * z - (y * z).astype(float)
    assert (numbacc.asnumpy(fused) == want.astype(f32)).all()


def test_fma_rounds_once_in_python():
    # z is half a unit in the last place of the product 1 + 2^-23, plus a little: float64 alone would round it to even.
    x, y, z = f32(1 + 2.0**-23), f32(1), f32(2.0**-24)
    assert device.fma_rn(x, y, z) == f32(1 + 2.0**-22)
    assert device.fma_rn(x, y, f32(2.0**-24 * (1 - 2.0**-20))) == x
    assert device.fma_rn(f32(2), f32(3), f32(np.inf)) == np.inf


# ---------------------------------------------------------------- barriers, warps, clusters


@device.jit(launch_bounds=384)
def warpgroups(out):
    """A producer and two consumers by named barriers and mbarriers; registers move from one to the others."""
    t, shared = cuda.threadIdx.x, device.dynamic_shared()
    group = device.warp_uniform(t >> 7)
    full, empty = shared + 4096, shared + 4104
    if t == 0:
        device.mbarrier_init(full, 128)
        device.mbarrier_init(empty, 256)
        device.fence_mbarrier_init()
    cuda.syncthreads()
    if group == 2:
        device.setmaxnreg_dec(40)
        for k in range(6):
            device.mbarrier_wait_parity(empty, (k & 1) ^ 1)
            device.st_shared_b32(shared + 4 * (t & 127), 1000 * k + (t & 127))
            device.mbarrier_arrive(full)
    else:
        device.setmaxnreg_inc(232)
        total = 0
        for k in range(6):
            device.mbarrier_wait_parity(full, k & 1)
            total += device.ld_shared_b32(shared + 4 * ((t + 1) & 127))
            device.mbarrier_arrive(empty)
        out[t] = total
        # One group after the other by two barriers of 256 threads.
        if group == 0:
            device.st_shared_b32(shared + 1024 + 4 * t, 7 * t)
            device.bar_arrive(1, 256)
        else:
            device.bar_sync(1, 256)
            out[128 + t] = device.ld_shared_b32(shared + 1024 + 4 * (255 - t))
    device.bar_warp_sync()
    if device.elect_sync():
        out[384 + (t >> 5)] = 1


def test_warpgroups():
    out = poisoned((396,), "int64")
    warpgroups[1, 384, None, 8192](out)
    got, t = numbacc.asnumpy(out), np.arange(256)
    assert (got[:256] == 15000 + 6 * ((t + 1) % 128)).all()
    assert (got[256:384] == 7 * np.arange(127, -1, -1)).all()
    assert (got[384:] == 1).all()


@device.jit
def clusters(tensor_map, out):
    t, shared = cuda.threadIdx.x, device.dynamic_shared()
    rank, many = device.cluster_ctarank(), device.cluster_nctarank()
    bar, later, sent = shared + 8192, shared + 8200, shared + 8208
    if t == 0:
        device.mbarrier_init(bar, 1)
        device.mbarrier_init(later, many)
        device.mbarrier_init(sent, 32)
        device.fence_mbarrier_init()
    device.st_shared_b32(shared + 4096 + 4 * t, 1000 * rank + t)
    device.cluster_sync()
    out[0, cuda.blockIdx.x, t] = device.ld_shared_cluster_b32(shared + 4096 + 4 * t, (rank + 1) % many)
    device.cluster_arrive()
    device.cluster_wait()
    device.st_shared_cluster_b32(shared + 4096 + 4 * t, (rank + 1) % many, 7000 + 100 * rank + t)
    if t == 0:
        device.mbarrier_arrive_expect_tx(bar, 128 * many)
        device.tma_load_multicast(shared + 128 * rank, tensor_map, (0, rank), bar, (1 << many) - 1)
    device.mbarrier_wait_parity(bar, 0)
    device.cluster_sync()
    out[1, cuda.blockIdx.x, t] = device.ld_shared_b32(shared + 4096 + 4 * t)
    total = 0
    for k in range(many):
        total += device.ld_shared_b32(shared + 128 * k + 4 * t)
    out[2, cuda.blockIdx.x, t] = total
    device.cluster_sync()
    # Each thread publishes its own word: racecheck reports a race if it is another thread that arrives after a barrier.
    device.st_shared_cluster_b32(shared + 4096 + 4 * t, (rank + 3) % many, 9000 + 100 * rank + t)
    device.mbarrier_arrive_cluster(sent, (rank + 3) % many)
    device.mbarrier_wait_parity_cluster(sent, 0)
    out[4, cuda.blockIdx.x, t] = device.ld_shared_b32(shared + 4096 + 4 * t)
    if t < many:
        device.mbarrier_arrive_cluster(later, t)
    device.mbarrier_wait_parity(later, 0)
    device.cluster_sync()
    if t < many:
        device.mbarrier_arrive_cluster_relaxed(later, t)
    device.mbarrier_wait_parity(later, 1)
    out[3, cuda.blockIdx.x, t] = device.mapa(shared, rank) == device.mapa(shared, 0)
    device.cluster_sync()


@pytest.mark.parametrize("many", [2, 8, 16])
def test_clusters(many):
    x = np.random.default_rng(0).integers(0, 1000, (many, 32)).astype(np.int32)
    out = poisoned((5, 2 * many, 32), "int64")
    clusters[2 * many, 32, None, 8216, many](device.tensor_map(on_device(x), (1, 32), 0), out)
    got, (block, t) = numbacc.asnumpy(out), np.mgrid[: 2 * many, :32]
    rank = block % many
    assert (got[0] == (rank + 1) % many * 1000 + t).all()
    assert (got[1] == 7000 + (rank - 1) % many * 100 + t).all()
    assert (got[2] == x.sum(0)).all()
    assert (got[3] == (rank == 0)).all()
    assert (got[4] == 9000 + (rank - 3) % many * 100 + t).all()


# ---------------------------------------------------------------- warps and blocks


@device.jit
def collectives(x, ints, values, indices):
    t = device.thread_rank()
    a = x[t]
    values[0, t] = device.warp_reduce(add, a)
    values[1, t] = device.warp_scan(add, a)
    values[2, t] = device.warp_exclusive_scan(add, a, f32(5))
    values[3, t] = device.block_reduce(add, a)
    values[4, t] = device.block_reduce(device.max_f32, a)
    values[5, t] = device.block_scan(add, a)
    values[6, t] = device.block_exclusive_scan(add, a, f32(5))
    values[7, t] = device.block_broadcast(a, 33)
    values[8, t] = device.warp_broadcast(a, 3)
    indices[0, t] = device.shfl_up(ints[t], 3)
    indices[1, t] = device.shfl_down(ints[t], 3)
    indices[2, t] = device.shfl_bfly(ints[t], 5)
    indices[3, t] = device.shfl_idx(ints[t], 9)
    indices[4, t] = device.block_reduce(add, ints[t])


@pytest.mark.parametrize("block", [32, (16, 6), (8, 8, 16)])
def test_warps_and_blocks(block):
    n = int(np.prod(block))
    r = np.random.default_rng(n)
    x, ints = r.integers(-20, 20, n).astype(f32), r.integers(-(2**62), 2**62, n)
    if n == 32:
        x = np.concatenate([x, np.full(2, 7, f32)])  # thread 33 does not exist: take 1 instead
        return run_collectives(x[:32], ints, block, None)
    return run_collectives(x, ints, block, x[33])


def run_collectives(x, ints, block, thread_33):
    n = x.size
    values, indices = poisoned((9, n), "float32"), poisoned((5, n), "int64")
    collectives[1, block](on_device(x), on_device(ints), values, indices)
    got, warps = numbacc.asnumpy(values), x.reshape(-1, 32)
    scan = warps.cumsum(1)
    want = [
        np.repeat(warps.sum(1), 32), scan.ravel(), (scan - warps + 5).ravel(), np.full(n, x.sum()), np.full(n, x.max()),
        x.cumsum(), x.cumsum() - x + 5,
    ]  # fmt: skip
    assert (got[:7] == want).all()
    if thread_33 is not None:
        assert (got[7] == thread_33).all()
    assert (got[8] == np.repeat(warps[:, 3], 32)).all()
    lane, rows, got = np.arange(32), ints.reshape(-1, 32), numbacc.asnumpy(indices)
    for k, source in enumerate(
        (np.where(lane < 3, lane, lane - 3), np.where(lane > 28, lane, lane + 3), lane ^ 5, 0 * lane + 9)
    ):
        assert (got[k] == rows[:, source].ravel()).all()
    assert (got[4] == ints.sum()).all()


@device.jit
def sort(x, keys, values, descending, k):
    t = cuda.threadIdx.x
    if k == 0:
        key, value = device.block_sort(x[t], t, descending)
    else:
        key, value = device.block_top_k(x[t], t, k)
    keys[t] = key
    values[t] = value


@pytest.mark.parametrize("n", [32, 256])
def test_block_sort_and_top_k(n):
    r = np.random.default_rng(n)
    for x in (r.integers(0, n // 4, n).astype(f32), r.integers(-(2**60), 2**60, n)):
        if x.dtype == f32:
            x[::17] = np.nan
        numbers, missing = x, np.isnan(x.astype(float))
        for descending, k in ((False, 0), (True, 0), (False, 7)):
            down = descending or k > 0
            order = np.lexsort((np.arange(n), -numbers if down else numbers, missing))
            keys, values = poisoned((n,), x.dtype), poisoned((n,), "int64")
            sort[1, n](on_device(x), keys, values, descending, k)
            kept = k or n
            assert np.array_equal(numbacc.asnumpy(keys)[:kept], x[order][:kept], equal_nan=x.dtype == f32)
            assert np.array_equal(numbacc.asnumpy(values)[:kept], order[:kept])


@device.jit
def draws(seed, out, ints):
    i = cuda.grid(1)
    a, b = device.philox_random_v4(seed, i), device.philox_normal_v4(seed, i)
    w = device.philox_words(seed, i)
    for k in range(4):
        out[0, 4 * i + k] = a[k]
        out[1, 4 * i + k] = b[k]
        out[2, 4 * i + k] = device.philox_random(seed, 4 * i + k)
        ints[0, 4 * i + k] = device.philox_integers(seed, 4 * i + k, 1_000_003)
        ints[1, 4 * i + k] = w[k]


def test_philox_is_the_generators():
    for seed in (0, 2**63 + 12345):
        n = 4 * 256
        out, ints = poisoned((3, n), "float32"), poisoned((2, n), "int64")
        draws[4, 64](np.uint64(seed), out, ints)
        got, whole = numbacc.asnumpy(out), numbacc.asnumpy(ints)
        uniform = numbacc.asnumpy(Generator(seed=seed, device=WHERE).random(n, dtype="float32"))
        assert (got[0] == uniform).all() and (got[2] == uniform).all()
        assert (got[1] == numbacc.asnumpy(Generator(seed=seed, device=WHERE).normal(size=n, dtype="float32"))).all()
        assert (whole[0] == numbacc.asnumpy(Generator(seed=seed, device=WHERE).integers(1_000_003, size=n))).all()
        assert (whole[1] == numbacc.asnumpy(Generator(seed=seed, device=WHERE).bits(n, dtype="uint32"))).all()
