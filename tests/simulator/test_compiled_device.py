"""Functions of `numbacc.device` in plain `@cuda.jit` kernels that the compiled simulator runs, against NumPy."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from compiled_device import BLOCKS, THREADS, applied_twice, collectives, matrices, pipeline, product, scalars, totals
from numba import cuda, float32
from skips import skip_if

import numbacc
from numbacc import device
from numbacc.base.dispatch import simulated
from numbacc.errors import KernelError, UnsupportedError
from numbacc.simulator.compiled.kernel import Kernel

pytestmark = skip_if(simulated(), "not simulated")


def test_a_reduction():
    x, y = np.random.default_rng(1).integers(-50, 50, 256), np.zeros(BLOCKS, np.int64)
    with numbacc.simulate(checked=True):
        totals[BLOCKS, THREADS](x, y)
    np.testing.assert_array_equal(y, 3 * x.reshape(BLOCKS, THREADS).max(1))


@pytest.mark.slow  # compiling takes seconds
@pytest.mark.parametrize("checked", [False, True], ids=["unchecked", "checked"])
def test_collectives(checked):
    x = np.random.default_rng(0).integers(-50, 50, BLOCKS * THREADS).astype(np.float32)
    n = x.size
    sums, scans, warps = np.full(BLOCKS, np.nan), np.full((2, n), np.nan), np.full((4, n), np.nan)
    pairs, top = np.full((2, n), np.nan), np.full(n, np.nan)
    made = Kernel(collectives, checked=checked)
    made.launch((BLOCKS, 1, 1), (THREADS, 1, 1), 0, (x, sums, scans, warps, pairs, top))
    blocks, lanes = x.reshape(BLOCKS, THREADS), x.reshape(-1, 32)
    np.testing.assert_array_equal(sums, blocks.sum(1))
    np.testing.assert_array_equal(scans[0], blocks.cumsum(1).ravel())
    np.testing.assert_array_equal(scans[1], (blocks.cumsum(1) - blocks).ravel())
    np.testing.assert_array_equal(warps[0], np.repeat(lanes.max(1), 32))
    np.testing.assert_array_equal(warps[1], (lanes.cumsum(1) - lanes).ravel())
    np.testing.assert_array_equal(warps[2], np.repeat(lanes[:, 3], 32) + 3 * x)
    np.testing.assert_array_equal(warps[3], np.repeat(blocks[:, 77], THREADS))
    order = np.stack([np.lexsort((np.arange(THREADS), -row)) for row in blocks])
    np.testing.assert_array_equal(pairs[0], np.take_along_axis(blocks, order, 1).ravel())
    np.testing.assert_array_equal(pairs[1], order.ravel())
    np.testing.assert_array_equal(top.reshape(BLOCKS, THREADS)[:, :8], -np.sort(-blocks, 1)[:, :8])


def test_scalar_functions_and_random_numbers():
    x = np.linspace(0.01, 4, 64).astype(np.float32)
    y, drawn = np.full((16, 64), np.nan, np.float32), np.full((2, 64), np.nan)
    normals, words = np.full(256, np.nan, np.float32), np.zeros(256, np.uint32)
    Kernel(scalars).launch((1, 1, 1), (64, 1, 1), 0, (x, y, 7, drawn, normals, words))
    v = x.astype(np.float64)
    once = (x * x + np.float32(1)).astype(np.float64)
    wanted = [
        2**v, np.log2(v), 1 / v, 1 / np.sqrt(v), np.sqrt(v), np.sin(v), np.cos(v), np.tanh(v), v / 3, np.maximum(v, 1),
        np.minimum(v, 1), once, v / 7, 1 / v, np.sqrt(v), v * v + 1,
    ]  # fmt: skip
    for k, answer in enumerate(wanted):
        np.testing.assert_allclose(y[k], answer, rtol=2e-7, err_msg=str(k))
    np.testing.assert_array_equal(y[11], once.astype(np.float32))
    np.testing.assert_array_equal(y[15], (v * v + 1).astype(np.float32))  # exact in float64

    def generator():
        return numbacc.random.Generator(7)

    np.testing.assert_array_equal(drawn[0], numbacc.asnumpy(generator().random(64, dtype="float32")))
    np.testing.assert_array_equal(drawn[1], numbacc.asnumpy(generator().integers(1000, size=64)))
    np.testing.assert_allclose(normals, numbacc.asnumpy(generator().normal(size=256, dtype="float32")), atol=1e-6)
    np.testing.assert_array_equal(words, numbacc.asnumpy(generator().bits(256)))


@pytest.mark.parametrize("checked", [False, True], ids=["unchecked", "checked"])
def test_copies_and_accesses_by_address(checked):
    n = 1500
    x = np.arange(n, dtype=np.float32)
    sums, mirrored, words = np.zeros(128, np.float32), np.full(1536, np.nan, np.float32), np.zeros(352, np.float32)
    with numbacc.simulate(checked=checked):
        pipeline[1, 128, 0, 4096](x, sums, mirrored, words)
    padded = np.pad(x, (0, 36))
    np.testing.assert_array_equal(mirrored, padded.reshape(3, 128, 4)[:, ::-1].ravel())
    np.testing.assert_array_equal(sums, padded.reshape(3, 512)[:, :128].sum(0) + x[:128])
    np.testing.assert_array_equal(words[:256], x[:256].reshape(128, 2)[:, ::-1].ravel())
    np.testing.assert_array_equal(words[256:], np.concatenate([x[128 * k : 128 * k + 32] for k in range(3)]))


@cuda.jit
def wrong_copies(which, x, y):
    s = cuda.shared.array(128, float32)
    k = cuda.threadIdx.x
    at, source = device.shared_address(s) + 16 * k, device.address_of(x) + 16 * k
    if which == 0:  # nobody waits
        device.cp_async(at, source, 16)
        device.cp_async_commit_group()
        cuda.syncthreads()
        y[k] = s[k]
    if which == 1:  # a wait for a group that has not ended
        device.cp_async(at, source, 16)
        device.cp_async_wait_group(0)
        y[k] = s[4 * k]
    if which == 2:  # the newest group is not waited for
        device.cp_async(at, source, 16)
        device.cp_async_commit_group()
        device.cp_async(device.shared_address(s) + 4 * (k ^ 1), source, 4)
        device.cp_async_commit_group()
        device.cp_async_wait_group(1)
        y[k] = device.ld_shared_v4(at)[0]
    if which == 3:  # the copy may still write
        device.cp_async(at, source, 16)
        s[4 * k] = 1
    if which == 4:  # no barrier
        device.cp_async(at, source, 16)
        device.cp_async_commit_group()
        device.cp_async_wait_group(0)
        y[k] = device.ld_shared_b32(device.shared_address(s) + 16 * (31 - k))
    if which == 5:
        device.cp_async(at + 16, source, 16)
    if which == 6:
        device.cp_async(at, source + 16, 16)
    if which == 7:
        y[k] = device.ld_global_v4(source - 8)[0]
    if which == 8:
        y[k] = device.ld_shared_v4(at + 4)[0]
    if which == 9:
        device.st_global_b32(device.address_of(y) + 4 * (k // 2), 1)
    if which == 10:
        y[k] = device.ld_shared_v4(at)[0]


def test_wrong_copies_and_addresses():
    text, first = inspect.getsourcelines(wrong_copies.py_func)
    kernel = Kernel(wrong_copies, checked=True)
    early = r"(reads|writes) s at element \d+ before the copy arrived that thread \(\d+, 0, 0\) began in line \d+: that"
    wanted = (
        early, early, early, early, "a race on element", "writes 16 bytes at byte 512 of s, which has 512",
        "byte 512 of an allocation of 512", "before all memory|at an address that no array|not a multiple of 16",
        "byte 4 of s, an address that is not a multiple of 16",
        "a race on element 0 of y", "s, shared memory, is read",
    )  # fmt: skip
    for which, message in enumerate(wanted):
        x, y = np.zeros(128, np.float32), np.zeros(32, np.float32)
        with pytest.raises(KernelError, match=message) as raised:
            kernel.launch((1, 1, 1), (32, 1, 1), 0, (which, x, y))
        before = "".join(text[: raised.value.line - first])
        assert before.rindex("    if which ==") == before.rindex(f"    if which == {which}:")
    if not numbacc.has_gpu():  # an array that begins in the middle of an allocation
        with pytest.raises(KernelError, match="not a multiple of 16"), numbacc.simulate(checked=True):
            wrong_copies[1, 16](6, numbacc.cuda.to_device(np.zeros(200, np.float32))[1:], y)
        with numbacc.simulate(checked=True):
            wrong_copies[1, 16](6, numbacc.cuda.to_device(np.zeros(200, np.float32))[4:], y)
            wrong_copies[1, 16](6, np.zeros(201, np.float32)[1:], y)  # a GPU copies it to the start of an allocation


@pytest.mark.slow  # compiling takes seconds
@pytest.mark.parametrize("checked", [False, True], ids=["unchecked", "checked"])
def test_a_product_by_tensor_cores(checked):
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((128, 64)).astype(np.float16) for _ in range(2))
    c = np.full((128, 128), np.nan, np.float32)
    with numbacc.simulate(checked=checked):
        product[(2, 2), 128, 0, 16384](a, b, c)
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float).T, atol=1e-4)


def words_of(matrix, parts, per_word):
    """Return the words that each lane has of a factor: `parts` words of a tile, from its rows of 16 or 8."""
    lane, which = np.indices((32, parts))
    half = matrix.shape[1] // 2
    row = lane // 4 + (which % 2 * 8 if parts == 4 else 0)
    column = lane % 4 * per_word + (which // 2 if parts == 4 else which) * half
    chosen = matrix[row[..., None], column[..., None] + np.arange(per_word)]
    return np.ascontiguousarray(chosen).view(np.uint32)[..., 0]


def inputs_of_matrices():
    rng, factors = np.random.default_rng(4), []
    for dtype, depth in ((np.float16, 16), (numbacc.bfloat16, 16), (np.float32, 8), (np.int8, 32), (np.uint8, 32)):
        pair = [rng.integers(0 if dtype == np.uint8 else -9, 100, (n, depth)).astype(dtype) for n in (16, 8)]
        if dtype == np.float16:
            pair[0][:3, :2] = 2.0**-24, -0.0  # subnormal
        factors.append(pair)
    per_word = [4 // np.dtype(pair[0].dtype).itemsize for pair in factors]
    a = np.stack([words_of(pair[0], 4, n) for pair, n in zip(factors, per_word, strict=True)])
    b = np.stack([words_of(pair[1], 2, n) for pair, n in zip(factors, per_word, strict=True)])
    matrix = rng.integers(0, 1 << 32, (2, 32, 4), dtype=np.uint32)
    out = np.zeros((3, 32, 4), np.float32), np.zeros((2, 32, 4), np.int32), matrix, np.zeros((4, 32, 8), np.uint32)
    return factors, (a, b, *out)


@pytest.mark.slow  # compiling takes seconds
@pytest.mark.parametrize("checked", [False, True], ids=["unchecked", "checked"])
def test_products_of_all_kinds(checked):
    factors, arguments = inputs_of_matrices()
    with numbacc.simulate(checked=checked):
        matrices[1, 32](*arguments)
    _, _, floats, integers, matrix, words = arguments
    lane, k = np.indices((32, 4))
    row, column = lane // 4 + k // 2 * 8, lane % 4 * 2 + k % 2
    for n, (a, b) in enumerate(factors):
        exact = (a.astype(float) @ b.astype(float).T)[row, column]
        if n < 3:
            np.testing.assert_allclose(floats[n], exact + 0.5, rtol=1e-5)
        else:
            np.testing.assert_array_equal(integers[n - 3], exact - 3)
    rows = matrix.view(np.uint16).reshape(2, 4, 8, 8)
    for turned, found in ((False, words[0]), (True, words[1])):
        wanted = np.ascontiguousarray(rows.swapaxes(2, 3) if turned else rows).view(np.uint32).reshape(8, 32).T
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(words[2][:, :4], words[0][:, :4])
    np.testing.assert_array_equal(words[3][:, :4], words[1][:, :4])
    swapped = rows[0].reshape(16, 2, 8)[:, ::-1].reshape(4, 8, 8)  # neighbouring rows change places
    wanted = np.ascontiguousarray(swapped.swapaxes(1, 2)).view(np.uint32).reshape(4, 32).T
    np.testing.assert_array_equal(words[3][:, 4:], wanted)


def test_functions_that_run_in_python_only():
    def kernel(y):
        shared = device.dynamic_shared()
        device.mbarrier_init(shared, 1)

    with pytest.raises(UnsupportedError, match=r"device\.mbarrier_init is not compiled for the CPU: .*@device\.jit"):
        Kernel(kernel).launch((1, 1, 1), (32, 1, 1), 0, (np.zeros(8),))

    def recursion(y):
        y[0] = applied_twice(applied_twice, y[1])

    with pytest.raises(UnsupportedError, match="recursion"):
        Kernel(recursion).launch((1, 1, 1), (32, 1, 1), 0, (np.zeros(8),))
