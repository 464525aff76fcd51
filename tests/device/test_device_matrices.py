"""Each form of ldmatrix, stmatrix, mma.sync and wgmma against layouts that are written down here."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from conftest import RUNS_KERNELS

import numbacc
from numbacc import cuda, device

pytestmark = RUNS_KERNELS

KINDS = {
    "bf16": (ml_dtypes.bfloat16, np.float32), "f16": (np.float16, np.float32), "tf32": (np.float32, np.float32),
    "e4m3": (ml_dtypes.float8_e4m3fn, np.float32), "e5m2": (ml_dtypes.float8_e5m2, np.float32),
    "s8": (np.int8, np.int32), "u8": (np.uint8, np.int32),
}  # fmt: skip


def whole(kind, *shape, seed=1):
    """Small whole numbers, whose products are exact in every kind."""
    low = 0 if kind == "u8" else -2
    return np.random.default_rng(seed).integers(low, 3, shape).astype(KINDS[kind][0])


def on_device(x):
    return numbacc.asarray(np.ascontiguousarray(x))


def poisoned(shape, dtype):
    kind = np.dtype(dtype)
    return on_device(np.full((*shape, kind.itemsize), 0xEE, np.uint8).view(kind)[..., 0])


def as_words(x):
    return on_device(np.ascontiguousarray(x).view(np.uint8).reshape(-1, 4).view(np.uint32).ravel())


# ---------------------------------------------------------------- ldmatrix, stmatrix


@pytest.mark.parametrize(
    "form", ["x1", "x1_trans", "x2", "x2_trans", "x4", "x4_trans", "x4_xor", "x4_trans_xor"]
)  # fmt: skip
def test_ldmatrix_and_stmatrix(form):
    load, store = getattr(device, f"ldmatrix_{form}"), getattr(device, f"stmatrix_{form}")
    COUNT, STEP = 8 // int(form[1]), 128 * int(form[1])

    @device.jit(reads="x")
    def run(x, registers, image):
        lane, shared = cuda.threadIdx.x, device.dynamic_shared()
        for k in range(32):  # 8 matrices of 8 rows of 16 bytes
            at = 4 * (lane + 32 * k)
            device.st_shared_b32(shared + at, x[lane + 32 * k])
            device.st_shared_b32(shared + 4096 + at, 0)
        cuda.syncthreads()
        words = load(shared + 16 * lane, COUNT, STEP)
        for k in range(8):
            registers[k, lane] = words[k]
        store(shared + 4096 + 16 * lane, words, STEP)
        cuda.syncthreads()
        for k in range(8):
            image[lane + 32 * k] = device.ld_shared_b32(shared + 4096 + 4 * (lane + 32 * k))

    matrices = np.arange(512, dtype=np.uint16).reshape(8, 8, 8)
    registers, image = poisoned((8, 32), "uint32"), poisoned((256,), "uint32")
    whole_memory = np.zeros(1024, np.uint32)
    whole_memory[:256] = matrices.reshape(-1, 2).view(np.uint32).ravel()
    run[1, 32, None, 8192](on_device(whole_memory), registers, image)
    seen = matrices.swapaxes(1, 2) if "trans" in form else matrices
    lane = np.arange(32)
    want = np.stack([m[lane // 4, lane % 4 * 2] | m[lane // 4, lane % 4 * 2 + 1].astype(np.uint32) << 16 for m in seen])
    assert np.array_equal(numbacc.asnumpy(registers), want)
    assert np.array_equal(numbacc.asnumpy(image), whole_memory[:256])


# ---------------------------------------------------------------- mma.sync


@pytest.mark.parametrize("kind", KINDS)
def test_mma(kind):
    """Two tiles of 16 rows and two of 8 columns, with operands straight from memory."""
    factor, total = KINDS[kind]
    multiply, depth = getattr(device, f"mma_{kind}"), 32 // np.dtype(factor).itemsize
    zero = 0 if total is np.int32 else 0.0

    @device.jit(reads=("a", "b"))
    def run(a, b, c):
        lane = cuda.threadIdx.x
        row, word = lane >> 2, lane & 3
        left = (
            a[8 * row + word], a[8 * (row + 8) + word], a[8 * row + word + 4], a[8 * (row + 8) + word + 4],
            a[8 * (row + 16) + word], a[8 * (row + 24) + word], a[8 * (row + 16) + word + 4],
            a[8 * (row + 24) + word + 4],
        )  # fmt: skip
        right = (b[8 * row + word], b[8 * row + word + 4], b[8 * (row + 8) + word], b[8 * (row + 8) + word + 4])
        sums = multiply(device.fill_fragment(zero, 16), left, right)
        sums = multiply(sums, left, right)
        for k in range(16):
            i, j = k // 8 * 16 + k % 4 // 2 * 8 + row, k // 4 % 2 * 8 + 2 * word + k % 2
            c[i, j] = sums[k]

    a, b = whole(kind, 32, depth), whole(kind, 16, depth, seed=2)
    c = poisoned((32, 16), total)
    run[1, 32](as_words(a), as_words(b), c)
    assert np.array_equal(numbacc.asnumpy(c), 2 * (a.astype(float) @ b.astype(float).T))


# ---------------------------------------------------------------- wgmma

ROOM = 32768


def image_of(x, swizzle, transposed=False):
    """Bytes of a matrix (lines, depth) as it lies in shared memory, and the descriptor's leading and stride bytes."""
    size, (lines, depth) = x.itemsize, x.shape
    image = np.zeros(ROOM, np.uint8)
    line, k = np.mgrid[:lines, :depth]
    if transposed:
        leading, stride = 8192, 1024  # 64 lines of 8 k-rows each are a brick of 1024 bytes; bricks along k follow
        places = line // 64 * leading + k // 8 * stride + k % 8 * 128 + line % 64 * size
    elif swizzle:
        leading, stride = 16, 8 * swizzle
        places = line * swizzle + k * size
    else:
        leading, stride = 128, 8 * depth * size
        places = line // 8 * stride + k // (16 // size) * leading + line % 8 * 16 + k % (16 // size) * size
    bits = {128: 7, 64: 3, 32: 1, 0: 0}[swizzle]
    for part in range(size):
        at = places + part
        at = at ^ ((at >> 7 & bits) << 4)
        image[at] = np.ascontiguousarray(x).view(np.uint8).reshape(lines, depth, size)[..., part]
    return image, leading, stride


def wgmma_kernel(kind, n, steps, a_step, b_step, a_trans, b_trans, in_registers, is_new):
    multiply = getattr(device, f"wgmma_{kind}")
    zero = 0 if KINDS[kind][1] is np.int32 else 0.0
    size = n // 2

    @device.function
    def registers_of(shared, row, word):
        """Rows of 32 bytes for each step, one matrix of 64 rows after the other."""
        at, next_step = shared + 32 * row + 4 * word, 2048
        first = (
            device.ld_shared_b32(at), device.ld_shared_b32(at + 256), device.ld_shared_b32(at + 16),
            device.ld_shared_b32(at + 272),
        )  # fmt: skip
        at += next_step
        if steps == 1:
            return first
        return (
            *first, device.ld_shared_b32(at), device.ld_shared_b32(at + 256), device.ld_shared_b32(at + 16),
            device.ld_shared_b32(at + 272),
        )  # fmt: skip

    @device.function
    def product(left, right):
        if is_new:
            return multiply(size, left, right, steps, a_step, b_step, a_trans, b_trans)
        sums = device.fill_fragment(zero, size)
        return multiply(sums, left, right, steps, a_step, b_step, a_trans, b_trans)

    @device.jit(reads="image", launch_bounds=128)
    def run(image, c, a, b):
        t, shared = cuda.threadIdx.x, device.dynamic_shared()
        source = device.address_of(image)
        for k in range(2 * ROOM // 2048):
            device.cp_async(shared + 16 * t + 2048 * k, source + 16 * t + 2048 * k, 16)
        device.cp_async_commit_group()
        device.cp_async_wait_group(0)
        device.fence_proxy_async()
        cuda.syncthreads()
        row, word = 16 * (t >> 5) + ((t & 31) >> 2), t & 3
        right = b + ((shared + ROOM) >> 4)
        left = registers_of(shared, row, word) if in_registers else a + (shared >> 4)
        sums = device.wgmma_wait_group(product(left, right), 0)
        for k in range(size):
            c[row + k % 4 // 2 * 8, k // 4 * 8 + 2 * word + k % 2] = sums[k]

    return run


def wgmma_case(kind, n, swizzle, a_trans=False, b_trans=False, in_registers=False, steps=None, is_new=False):
    size = np.dtype(KINDS[kind][0]).itemsize
    per_step = 32 // size
    steps = steps or max((swizzle or 64) // 32, 1)
    x, y = whole(kind, 64, steps * per_step), whole(kind, n, steps * per_step, seed=3)
    left, leading_a, stride_a = image_of(x, 128 if a_trans else swizzle, a_trans)
    right, leading_b, stride_b = image_of(y, 128 if b_trans else swizzle, b_trans)
    if in_registers:
        left[: 2048 * steps] = np.concatenate(
            [np.ascontiguousarray(p).view(np.uint8).ravel() for p in np.split(x, steps, 1)]
        )
    step = 2 if swizzle else 16
    a_step, b_step = (128 if trans else step for trans in (a_trans, b_trans))
    a = device.wgmma_descriptor(128 if a_trans else swizzle, leading_a, stride_a)
    b = device.wgmma_descriptor(128 if b_trans else swizzle, leading_b, stride_b)
    c = poisoned((64, n), KINDS[kind][1])
    kernel = wgmma_kernel(kind, n, steps, a_step, b_step, int(a_trans), int(b_trans), in_registers, is_new)
    kernel[1, 128, None, 2 * ROOM](on_device(np.concatenate([left, right])), c, a, b)
    got, want = numbacc.asnumpy(c), x.astype(float) @ y.astype(float).T
    assert np.array_equal(got, want), (kind, n, swizzle, a_trans, b_trans, in_registers)


@pytest.mark.parametrize("kind", KINDS)
def test_wgmma_of_each_kind(kind):
    wgmma_case(kind, 64, 128)
    wgmma_case(kind, 8, 32, in_registers=True, is_new=True)


@pytest.mark.parametrize("swizzle", [128, 64, 32, 0])
def test_wgmma_of_each_layout(swizzle):
    wgmma_case("bf16", 64, swizzle, is_new=True)
    wgmma_case("f16", 32, swizzle, in_registers=True, steps=1)


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_wgmma_of_transposed_operands(kind):
    wgmma_case(kind, 128, 128, b_trans=True)
    wgmma_case(kind, 64, 128, a_trans=True)
    wgmma_case(kind, 128, 128, a_trans=True, b_trans=True)
    wgmma_case(kind, 64, 128, b_trans=True, in_registers=True, steps=2)


def test_wgmma_of_the_widest_tile():
    wgmma_case("e4m3", 256, 64)


def test_descriptors():
    assert device.wgmma_descriptor(128, 16, 1024) == (1 << 62 | 64 << 32 | 1 << 16)
    assert device.wgmma_descriptor(64, 16, 512) == (2 << 62 | 32 << 32 | 1 << 16) - 2**64
