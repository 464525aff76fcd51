"""Loads, stores and copies of numbacc.device: on a GPU, or in Python."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from conftest import RUNS_KERNELS

import numbacc
from numbacc import cuda, device
from numbacc.base.dispatch import has_gpu, simulated

pytestmark = RUNS_KERNELS

i32 = np.int32
WORDS = np.random.default_rng(5).integers(0, 2**32, 4096, np.uint32)


def on_device(x):
    return numbacc.asarray(np.ascontiguousarray(x))


def poisoned(shape, dtype="uint32"):
    return on_device(np.full(shape, 0xEE, np.uint8).view(dtype) if isinstance(shape, int) else _poison(shape, dtype))


def _poison(shape, dtype):
    kind = np.dtype(dtype)
    return np.full((*shape, kind.itemsize), 0xEE, np.uint8).view(kind)[..., 0]


@device.jit(reads="x")
def loads(x, y, z):
    """Words 0 to 4095 by all widths of loads and stores, in parts of 16 bytes for each of 128 threads."""
    t = cuda.threadIdx.x
    source, target, shared = device.address_of(x), device.address_of(y), device.dynamic_shared()
    at = 16 * t
    device.st_global_v4(target + at, device.ld_global_v4(source + at))
    device.st_global_v4_cs(target + 2048 + at, device.ld_global_v4_cs(source + 2048 + at))
    device.st_global_v4(target + 4096 + at, device.ld_global_v4_nc(source + 4096 + at))
    device.st_global_v2(target + 6144 + 8 * t, device.ld_global_v2(source + 6144 + 8 * t))
    device.st_global_b32(target + 7168 + 4 * t, device.ld_global_b32(source + 7168 + 4 * t))
    device.st_shared_v4(shared + at, device.ld_global_v4(source + at))
    cuda.syncthreads()
    device.st_global_b32(target + 7680 + 4 * t, device.ld_shared_b32(shared + 4 * t))
    device.st_shared_b32(shared + 2048 + 4 * t, t)
    cuda.syncthreads()
    words = device.ld_shared_v4(shared + 2048 + 16 * (t // 4))
    z[t] = words[0] + words[3]


def test_loads_and_stores():
    x, y, z = on_device(WORDS), poisoned((2048,)), poisoned((128,), "int64")
    loads[1, 128, None, 8192](x, y, z)
    got = numbacc.asnumpy(y)
    assert np.array_equal(got[:1920], WORDS[:1920])
    assert np.array_equal(got[1920:2048], WORDS[:128])
    assert np.array_equal(numbacc.asnumpy(z), 8 * (np.arange(128) // 4) + 3)


@device.jit
def copies(x, y, z):
    t = cuda.threadIdx.x
    source, shared = device.address_of(x), device.dynamic_shared()
    device.cp_async_rows(shared + 16 * t, source + 16 * t, 2, 2048, 4096)
    device.cp_async_commit_group()
    device.cp_async(shared + 4096 + 4 * t, source + 512 + 4 * t, 4)
    device.cp_async(shared + 4608 + 8 * t, source + 1024 + 8 * t, 8)
    device.cp_async_commit_group()
    device.cp_async_wait_group(1)
    cuda.syncthreads()
    y[t] = device.ld_shared_b32(shared + 4 * t)
    y[128 + t] = device.ld_shared_b32(shared + 2048 + 4 * t)
    device.cp_async(shared + 5632 + 16 * t, source + 16 * t, 16)
    device.cp_async_zfill(shared + 7680 + 16 * t, source + 16 * t, 4 * (t % 5))
    bar = shared + 16384
    if t == 0:
        device.mbarrier_init(bar, 128)
        device.fence_mbarrier_init()
    cuda.syncthreads()
    device.cp_async_mbarrier_arrive(bar)
    device.mbarrier_wait_parity(bar, 0)
    for k in range(4):
        z[512 * k // 512, t] = 0
    for k in range(4):
        z[k, t] = device.ld_shared_b32(shared + 4096 + 512 * k + 4 * t)
        z[4 + k, t] = device.ld_shared_b32(shared + 7680 + 16 * t + 4 * k)


def test_cp_async():
    x, y, z = on_device(WORDS), poisoned((256,)), poisoned((8, 128))
    copies[1, 128, None, 16400](x, y, z)
    first, second = numbacc.asnumpy(y).reshape(2, 128)
    assert np.array_equal(first, WORDS[:128]) and np.array_equal(second, WORDS[1024:1152])
    got = numbacc.asnumpy(z)
    assert np.array_equal(got[:3].ravel(), np.concatenate([WORDS[128:256], WORDS[256:512]]))
    assert np.array_equal(got[3], WORDS[:128])
    k, t = np.mgrid[:4, :128]
    assert np.array_equal(got[4:], np.where(k < t % 5, WORDS[4 * t + k], 0))


@device.jit
def bulk(x, y):
    t, shared = cuda.threadIdx.x, device.dynamic_shared()
    bar = shared + 8192
    if t == 0:
        device.mbarrier_init(bar, 1)
        device.fence_mbarrier_init()
    cuda.syncthreads()
    if t == 0:
        device.mbarrier_expect_tx(bar, 2048)
        device.cp_async_bulk_load(shared, device.address_of(x), 2048, bar)
        device.mbarrier_arrive_expect_tx(bar, 2048)
        device.cp_async_bulk_load(shared + 2048, device.address_of(x) + 4096, 2048, bar)
    while device.mbarrier_try_wait_parity(bar, 0) == 0:
        pass
    if t == 0:
        device.cp_async_bulk_store(device.address_of(y), shared + 16, 4064)
        device.cp_async_bulk_commit_group()
        device.cp_async_bulk_wait_group(0)


def test_bulk_copies():
    x, y = on_device(WORDS), poisoned((1024,))
    bulk[1, 64, None, 8200](x, y)
    got, want = numbacc.asnumpy(y), np.concatenate([WORDS[:512], WORDS[1024:1536]])[4:1020]
    assert np.array_equal(got[:1016], want) and (got[1016:] == 0xEEEEEEEE).all()


# ---------------------------------------------------------------- boxes


def box_kernel(rank, what):
    """A kernel that loads a box to shared memory and shows its bytes, or stores bytes as a box."""

    @device.function
    def at(c):
        if rank == 1:
            return (c[0],)
        if rank == 2:
            return (c[0], c[1])
        if rank == 3:
            return (c[0], c[1], c[2])
        if rank == 4:
            return (c[0], c[1], c[2], c[3])
        return (c[0], c[1], c[2], c[3], c[4])

    @device.jit(reads="c")
    def load(tensor_map, c, image, nbytes):
        t, shared = cuda.threadIdx.x, device.dynamic_shared()
        bar = shared + 65536
        if t == 0:
            device.mbarrier_init(bar, 1)
            device.fence_mbarrier_init()
        cuda.syncthreads()
        if t == 0:
            device.prefetch_tensormap(tensor_map)
            device.mbarrier_arrive_expect_tx(bar, nbytes)
            device.tma_load(shared, tensor_map, at(c), bar)
        device.mbarrier_wait_parity(bar, 0)
        for k in range(t, nbytes // 4, 64):
            image[k] = device.ld_shared_b32(shared + 4 * k)

    @device.jit(reads=("c", "image"))
    def store(tensor_map, c, image, nbytes):
        t, shared = cuda.threadIdx.x, device.dynamic_shared()
        for k in range(t, nbytes // 4, 64):
            device.st_shared_b32(shared + 4 * k, image[k])
        device.fence_proxy_async()
        cuda.syncthreads()
        if t == 0:
            if what == "add":
                device.tma_reduce_add(tensor_map, at(c), shared)
            else:
                device.tma_store(tensor_map, at(c), shared)
            device.cp_async_bulk_commit_group()
            device.cp_async_bulk_wait_group_read(0)
            device.cp_async_bulk_wait_group(0)

    return load if what == "load" else store


#: dtype, shape, box, swizzle, first element: boxes inside, and over the edges.
BOXES = (
    ("bfloat16", (96, 192), (64, 64), 128, (16, 64)),
    ("float16", (96, 192), (40, 32), 64, (60, 8)),
    ("uint8", (96, 192), (16, 32), 32, (90, 176)),
    ("float32", (96, 192), (24, 20), 0, (-3, -4)),
    ("float64", (64,), (48,), 0, (32,)),
    ("int32", (6, 5, 64), (3, 2, 32), 128, (2, 4, 16)),
    ("uint16", (2, 3, 5, 32), (2, 2, 3, 8), 0, (0, 1, 3, 24)),
    ("float8_e4m3fn", (3, 2, 3, 5, 64), (2, 1, 2, 3, 64), 64, (1, 1, 2, -1, 0)),
)


def numbers(dtype, shape, seed=1):
    values = np.random.default_rng(seed).integers(0, 100, shape)
    return values.astype(
        ml_dtypes.float8_e4m3fn if dtype.startswith("float8") else numbacc.bfloat16 if dtype == "bfloat16" else dtype
    )


def cut(x, first, box):
    """The box of an array, with zeros outside of it."""
    padded = np.pad(x, [(b, b) for b in box])
    return padded[tuple(slice(f + b, f + 2 * b) for f, b in zip(first, box, strict=True))]


def swizzled(image, swizzle):
    """The bytes of rows as they lie in shared memory: of 16-byte column c of row r, in units of the swizzle's rows."""
    if not swizzle:
        return image
    out, units = np.empty_like(image), image.reshape(-1, 16)
    for k, unit in enumerate(units):
        row = 16 * k // 128
        out.reshape(-1, 16)[k ^ (row % (swizzle // 16))] = unit
    return out


@pytest.mark.parametrize(("dtype", "shape", "box", "swizzle", "first"), BOXES)
def test_boxes(dtype, shape, box, swizzle, first):
    x = numbers(dtype, shape)
    part = np.ascontiguousarray(cut(x, first, box))
    image = swizzled(np.frombuffer(part.tobytes(), np.uint8).copy(), swizzle)
    corner = on_device(np.array(first[::-1], np.int32))
    found = poisoned((image.size // 4,))
    source = on_device(x)
    box_kernel(len(shape), "load")[1, 64, None, 65600](
        device.tensor_map(source, box, swizzle), corner, found, i32(image.size)
    )
    assert np.array_equal(numbacc.asnumpy(found).view(np.uint8), image)

    # Stores begin inside of the array.
    first = tuple(map(abs, first))
    corner = on_device(np.array(first[::-1], np.int32))
    target = numbers(dtype, shape, 2)
    for what in ("store", "add") if dtype in ("bfloat16", "float16", "int32", "float32") else ("store",):
        want = target.copy()
        for index in np.ndindex(*box):
            place = tuple(f + i for f, i in zip(first, index, strict=True))
            if all(0 <= p < n for p, n in zip(place, shape, strict=True)):
                want[place] = part[index] if what == "store" else want[place] + part[index]
        out = on_device(target)
        box_kernel(len(shape), what)[1, 64, None, 65600](
            device.tensor_map(out, box, swizzle), corner, on_device(image.view(np.uint32)), i32(image.size)
        )
        assert np.array_equal(numbacc.asnumpy(out).view(np.uint8), want.view(np.uint8)), what


@device.jit(reads="words")
def by_address(words, y):
    """Bring a box into an array of `cuda.shared.array`, with a tensor map in global memory."""
    t, tile = cuda.threadIdx.x, cuda.shared.array((8, 32), np.int32, alignment=128)
    bars = cuda.shared.array(1, np.int64)
    at, bar, in_memory = device.shared_address(tile), device.shared_address(bars), device.address_of(words)
    if t == 0:
        device.mbarrier_init(bar, 1)
        device.fence_mbarrier_init()
        device.fence_tensormap(in_memory)
        device.mbarrier_arrive_expect_tx(bar, 1024)
        device.tma_load(at, in_memory, (32, 8), bar)
    cuda.syncthreads()
    device.mbarrier_wait_parity(bar, 0)
    for row in range(8):
        y[row, t] = tile[row, t] + device.ld_shared_b32(at + 128 * row + 4 * t)


def test_a_map_in_global_memory():
    x = np.arange(64 * 64, dtype=np.int32).reshape(64, 64)
    source, y = on_device(x), poisoned((8, 32), "int64")
    if not has_gpu() or simulated():
        with pytest.raises(NotImplementedError, match=r"work on a GPU only: pass the result of device.tensor_map"):
            by_address[1, 32](on_device(np.zeros(16, np.int64)), y)
        return
    words = on_device(np.frombuffer(device.tensor_map(source, (8, 32), 0).encoded(), np.int64))
    by_address[1, 32](words, y)
    assert np.array_equal(numbacc.asnumpy(y), 2 * x[8:16, 32:].astype(np.int64))


@device.jit
def static_arrays(y):
    """Words of an array of `cuda.shared.array` by its address, and the reverse. It follows another array."""
    t, other, words = cuda.threadIdx.x, cuda.shared.array(3, np.int8), cuda.shared.array(32, np.int32)
    at = device.shared_address(words)
    other[t % 3], words[t] = 1, 7 * t
    cuda.syncthreads()
    y[0, t] = device.ld_shared_b32(at + 4 * (t ^ 5))
    cuda.syncthreads()
    device.st_shared_b32(at + 4 * t, 9 * t + at % 4)
    cuda.syncthreads()
    y[1, t] = words[t ^ 3]


def test_addresses_of_static_arrays():
    y, t = poisoned((2, 32), "int64"), np.arange(32)
    static_arrays[1, 32](y)
    assert np.array_equal(numbacc.asnumpy(y), [7 * (t ^ 5), 9 * (t ^ 3)])


def test_maps_of_views_and_their_errors():
    x = numbacc.asarray(np.arange(64 * 64, dtype=np.float32).reshape(64, 64))
    found = poisoned((16 * 8,))
    box_kernel(2, "load")[1, 64, None, 65600](
        device.tensor_map(x[::2, 4:], (16, 8), 32), on_device(np.array([8, 4], np.int32)), found, i32(512)
    )
    want = numbacc.asnumpy(x)[::2, 4:][4:20, 8:16]
    image = swizzled(np.frombuffer(np.ascontiguousarray(want).tobytes(), np.uint8).copy(), 32)
    assert np.array_equal(numbacc.asnumpy(found).view(np.uint8), image)
    for wrong, message in (
        (lambda: device.tensor_map(x, (16, 64)), "may have at most 128"),
        (lambda: device.tensor_map(x, (16,)), "each of the array's 2 axes"),
        (lambda: device.tensor_map(x, (16, 8), 96), "128, 64, 32 or 0"),
        (lambda: device.tensor_map(x, (512, 8)), "1 to 256"),
        (lambda: device.tensor_map(x, (16, 6), 0), "multiple of 16"),
        (lambda: device.tensor_map(x, 16), "tuple of lengths"),
    ):
        with pytest.raises(numbacc.OptionError, match=message):
            wrong()
    for wrong, message in (
        (lambda: device.tensor_map(x.T, (8, 8), 0), "contiguous"),
        (lambda: device.tensor_map(numbacc.zeros((64, 63)), (8, 8), 0), "multiple of 16"),
        (lambda: device.tensor_map(x.reshape(2, 2, 2, 2, 4, 64), (1,) * 6, 0), "1 to 5 axes"),
    ):
        with pytest.raises(numbacc.LayoutError, match=message):
            wrong()
