"""device.jit: arguments, options, errors, order, graphs, the disk cache, and the launcher for numbacc's own kernels."""

from __future__ import annotations

import copy
import ctypes
import gc
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
import weakref
from contextlib import nullcontext
from types import SimpleNamespace
from typing import NamedTuple

import ml_dtypes
import numpy as np
import persistent_product as persistent
import pytest
from conftest import RUNS_KERNELS
from skips import needed, skip, skip_if
from threads import run_threads

import numbacc
from numbacc import cuda, device
from numbacc.base.dispatch import compiles_own_kernels, has_gpu, runtime, simulated, tensor_launcher_class
from numbacc.runtime import disk_cache, kernel_code, launch, tensor_launch, tensor_maps
from numbacc.runtime.launch_order import AddressOf, MapOf, Scalar, Spec, TensorOrder
from numbacc_bindings.driver import FunctionAttribute

pytestmark = RUNS_KERNELS

DESCRIPTOR = device.wgmma_descriptor()


def on_device(x):
    return numbacc.asarray(np.ascontiguousarray(x))


@device.jit(reads="x")
def scale(x, y, factor, offset):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = x[i, j] * factor + offset


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "float16"])
def test_arrays_of_any_layout(dtype):
    h = np.arange(24 * 20).reshape(24, 20).astype(dtype)
    x = on_device(h)
    for of in (lambda a: a, lambda a: a.T, lambda a: a[::2, 3:], lambda a: a[::-1, ::-2], lambda a: a[1:2]):
        y = numbacc.zeros(of(h).shape, dtype=dtype)
        scale[(3, 3), (8, 8)](
            of(x), y, np.dtype(dtype).type(2), np.int64(1) if dtype[0] in "iu" else np.dtype(dtype).type(1)
        )
        assert np.array_equal(numbacc.asnumpy(y), of(h) * np.dtype(dtype).type(2) + np.dtype(dtype).type(1)), dtype


def test_numbers_and_blocks():
    @device.jit
    def run(out, flag, whole, real, small):
        x, y, z = cuda.grid(3)
        if flag and x + y + z == 0:
            out[0], out[1], out[2] = whole, real, small
        if cuda.threadIdx.x == 0 and cuda.threadIdx.y == 0 and cuda.threadIdx.z == 0:
            b = cuda.blockIdx
            out[3 + b.x + 2 * (b.y + 3 * b.z)] = cuda.gridDim.x * 100 + cuda.blockDim.z

    out = numbacc.zeros(3 + 12, dtype="float64")
    run[(2, 3, 2), (4, 2, 2)](out, True, 2**40, 0.1, np.float32(0.1))
    assert numbacc.asnumpy(out)[:3].tolist() == [2**40, 0.1, float(np.float32(0.1))]
    assert (numbacc.asnumpy(out)[3:] == 202).all()


def test_wrong_launches():
    x = numbacc.zeros((4, 4))
    for wrong, error, message in (
        (lambda: scale(x, x, 1.0, 0.0), numbacc.OptionError, "launch it as"),
        (lambda: scale[1](x), numbacc.OptionError, "write kernel"),
        (lambda: scale[1, 2048](x, x, 1.0, 0.0), numbacc.OptionError, "block"),
        (lambda: scale[3, 32, None, 0, 2](x, x, 1.0, 0.0), numbacc.OptionError, "divisible by clusters"),
        (lambda: scale[(5, 4), 32, None, 0, (5, 4)](x, x, 1.0, 0.0), numbacc.OptionError, "more than 16 blocks"),
        (lambda: scale[1, 32, None, 1 << 20](x, x, 1.0, 0.0), numbacc.OptionError, "at most 232448"),
        (lambda: scale[1, 32](x, x), TypeError, "takes 4 arguments, and was given 2"),
        (lambda: device.jit(reads="w")(scale.py_func), numbacc.OptionError, "no such parameters"),
        (lambda: device.jit(launch_bounds=0)(scale.py_func), numbacc.OptionError, "launch_bounds"),
        (lambda: device.jit(3), numbacc.OptionError, "needs a Python function"),
    ):
        with pytest.raises(error, match=message):
            wrong()


def test_clusters_that_a_gpu_cannot_run(monkeypatch):
    """Asked with a driver that is replaced: of a GPU without clusters, and of one that has room for 8 or 12 blocks."""
    allowed = []

    def ask(most):
        def occupancy(result, function, config):
            ctypes.c_int.from_address(result).value = most

        fake = SimpleNamespace(
            cuFuncSetAttribute=lambda *given: allowed.append(given), cuOccupancyMaxPotentialClusterSize=occupancy
        )
        monkeypatch.setattr(tensor_launch, "driver", fake)

    call = SimpleNamespace(config=0)
    for capability, most, blocks, message in (
        ((8, 0), 0, 2, r"run is launched in clusters of 2 blocks, which need compute capability 9.0.*has 8.0"),
        ((9, 0), 8, 16, r"of 16 blocks; .* at most 8 blocks in a cluster. Every GPU that has clusters runs 8"),
        ((9, 0), 12, 12, None),
        ((9, 0), 0, 8, None),
    ):  # fmt: skip
        ask(most)
        monkeypatch.setattr(tensor_launch.runtime, "capability", lambda device, found=capability: found)
        with pytest.raises(numbacc.DeviceError, match=message) if message else nullcontext():
            tensor_launch.check_cluster(7, call, blocks, "run", 0)
    assert allowed == [(7, FunctionAttribute.NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)] * 2


def _doubles(x, y):
    y[cuda.threadIdx.x] = 2 * x[cuda.threadIdx.x]


def test_float8_arrays_are_bytes():
    x = np.arange(8, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)
    y = numbacc.zeros(8, dtype="int32")
    device.jit(_doubles)[1, 8](on_device(x), y)
    assert numbacc.asnumpy(y).tolist() == [0, 2, 4, 6, 8, 10, 12, 14]


def test_keywords_and_copies():
    assert scale.__name__ == "scale" and scale.py_func.__wrapped__ if hasattr(scale.py_func, "__wrapped__") else True
    assert copy.copy(scale).py_func is scale.py_func
    assert pickle.loads(pickle.dumps(device.mbarrier_init)) is device.mbarrier_init
    assert pickle.loads(pickle.dumps(scale)) is scale
    alone = pickle.loads(pickle.dumps(device.jit(_doubles, launch_bounds=64, reads="x")))
    assert alone.py_func is _doubles and alone._bounds == (64, 1) and alone._reads == {"x"}
    x = np.arange(64.0).reshape(8, 8)
    m = pickle.loads(pickle.dumps(device.tensor_map(x, (8, 2), 0)))
    assert m.fields.address == m.array.ctypes.data and (m.array == x).all() and m.box == (8, 2) and m.swizzle == 0
    assert "mbarrier" in device.mbarrier_init.__doc__


def test_host_arrays_need_a_copy_on_a_gpu():
    x = np.zeros((4, 4), np.float32)
    if has_gpu() and not simulated():
        with pytest.raises(numbacc.DeviceError, match=r"numbacc.asarray\(x\)"):
            scale[1, (4, 4)](x, x, np.float32(1), np.float32(1))
    else:
        scale[1, (4, 4)](x, x, np.float32(1), np.float32(1))
        assert (x == 1).all()


# ---------------------------------------------------------------- order


@device.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


def test_streams_threads_and_graphs():
    x = numbacc.zeros(1 << 16)
    streams = [numbacc.stream() for _ in range(3)] if has_gpu() else [None] * 3
    for k in range(12 if not simulated() and has_gpu() else 1):
        add_one[1 if not has_gpu() or simulated() else 256, 256, streams[k % 3]](x)
    if not has_gpu() or simulated():
        return
    assert (numbacc.asnumpy(x) == 12).all()
    turn = threading.Lock()  # without it, calls of several threads may overlap

    def add_five(k):
        for _ in range(5):
            with turn:
                add_one[256, 256, streams[k]](x)

    run_threads(add_five, 3)
    assert (numbacc.asnumpy(x) == 27).all()
    g = numbacc.graph()
    with g:
        add_one[256, 256](x)
        add_one[256, 256](x)
    for _ in range(3):
        g.launch()
    assert (numbacc.asnumpy(x) == 33).all()


@pytest.mark.gpu
def test_foreign_arrays_and_large_shared_memory():
    torch = needed("torch", "torch")

    @device.jit(reads="m")
    def run(m, y):
        t, shared = cuda.threadIdx.x, device.dynamic_shared()
        bar = shared + 200 * 1024
        if t == 0:
            device.mbarrier_init(bar, 1)
            device.fence_mbarrier_init()
        cuda.syncthreads()
        if t == 0:
            device.mbarrier_arrive_expect_tx(bar, 32768)
            device.tma_load(shared + 131072, m, (0, 128), bar)
        device.mbarrier_wait_parity(bar, 0)
        for k in range(t, 8192, 128):
            y[k] = device.ld_shared_b32(shared + 131072 + 4 * k)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.arange(512 * 64, device="cuda").reshape(512, 64).to(torch.bfloat16)
        y = torch.zeros(8192, dtype=torch.int32, device="cuda")
        run[1, 128, stream, 220 * 1024](device.tensor_map(x, (256, 64), 0), y)
        got = y.cpu().view(torch.bfloat16)
    stream.synchronize()
    assert torch.equal(got.reshape(256, 64), x[128:384].cpu())


@pytest.mark.gpu
def test_launches_keep_no_maps_alive():
    """Kept launches do not hold arrays. Arrays of CuPy and JAX work, too."""

    @device.jit(reads="m")
    def run(m, x, y):
        t, shared = cuda.threadIdx.x, device.dynamic_shared()
        if t == 0:
            device.mbarrier_init(shared + 4096, 1)
            device.fence_mbarrier_init()
            device.mbarrier_arrive_expect_tx(shared + 4096, 4096)
            device.tma_load(shared, m, (0, 0), shared + 4096)
        cuda.syncthreads()
        device.mbarrier_wait_parity(shared + 4096, 0)
        y[t] = device.ld_shared_b32(shared + 128 * t + 4 * t) + x[t]

    cupy, jax = needed("cupy", "cupy"), needed("jax", "jax")
    if jax.default_backend() != "gpu":
        skip("jax with a gpu")
    h = np.arange(1024, dtype=np.int32).reshape(32, 32)
    numbers = np.arange(32)
    with cupy.cuda.Device(0):  # JAX has made the last GPU the current one
        pairs = (
            (numbacc.asarray(h, device=0), cupy.arange(32)),
            (cupy.asarray(h), jax.numpy.arange(32)),
            (jax.numpy.asarray(h), numbacc.asarray(numbers, device=0)),
        )
    for x, other in pairs:
        y = numbacc.zeros(32, dtype="int64", device=0)
        m = device.tensor_map(x, (32, 32), 0)
        run[1, 32, None, 4200](m, other, y)
        assert np.array_equal(numbacc.asnumpy(y), 34 * numbers)
        kept = weakref.ref(m)
        del m, x
        gc.collect()
        assert kept() is None


@device.function
def add(x, y):
    return x + y


@cuda.jit
def of_numba(x, y, seed):
    t, shared = cuda.threadIdx.x, device.dynamic_shared()
    device.st_shared_b32(shared + 4 * t, t)
    cuda.syncthreads()
    y[t] = device.block_reduce(add, x[t]) + device.ld_shared_b32(shared + 4 * (t ^ 1))
    x[t] = device.philox_random(seed, t)


@cuda.jit
def of_numba_with_barriers(x):
    device.mbarrier_init(device.dynamic_shared(), 1)
    x[cuda.threadIdx.x] = 1


def test_kernels_of_numba_call_device_functions():
    run = of_numba
    x, y = numbacc.full(128, 2.0), numbacc.zeros(128)
    if not has_gpu() or compiles_own_kernels():
        with pytest.raises(numbacc.UnsupportedError, match=r"make the kernel by @device.jit instead of @cuda.jit"):
            of_numba_with_barriers[1, 32, 0, 1024](x)
    run[1, 128, 0, 1024](x, y, np.uint64(5))
    assert numbacc.asnumpy(y).tolist() == [256 + (t ^ 1) for t in range(128)]
    assert np.array_equal(numbacc.asnumpy(x), numbacc.random.Generator(5, device="cpu").random(128, dtype="float32"))


#: A process with a kernel that waits in line 8 for an arrival that never comes.
_HANGING = """
import numpy as np
import numbacc
from numbacc import cuda, device

@device.function
def wait(bar):
    device.{0}(bar, 0)

@{1}
def hang(x):
    bar = device.dynamic_shared() + 64
    if cuda.threadIdx.x == 0:
        device.mbarrier_init(bar, 1)
        device.fence_mbarrier_init()
    cuda.syncthreads()
    if cuda.threadIdx.x == 5 and cuda.blockIdx.x == 1:
        wait(bar)
    x[0] = 1

@device.jit
def good(x):
    if cuda.threadIdx.x == 2000:
        device.mbarrier_wait_parity(device.dynamic_shared(), 0)

x = numbacc.zeros(4)
good[2, 32, None, 1024](x)
hang[2, 32, {2}](x)
try:
    numbacc.asnumpy(x)
except (numbacc.Error, RuntimeError) as error:
    print(error)
"""


@pytest.mark.gpu
def test_a_wait_that_never_ends_is_reported(tmp_path):
    """With the kernel, the line, the thread and the mbarrier; also if Numba launches the kernel."""
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", _HANGING.format(*words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for words in (
            ("mbarrier_wait_parity", "device.jit", "None, 1024"),
            ("mbarrier_wait_parity_cluster", "device.jit", "None, 1024, 2"),
            ("mbarrier_wait_parity", "cuda.jit", "0, 1024"),
        )
    ]
    for number, run in enumerate(runs):
        said, errors = run.communicate(timeout=120)
        assert re.search(r"thread \(5, 0, 0\) of block \(1, 0, 0\) waited 4 seconds in line 8 for parity 0 of", said), (
            said, errors[-2000:],
        )  # fmt: skip
        assert ("kernel hang:" in said and "dynamic_shared() + 64:" in said) or number == 2, said


@pytest.mark.gpu
def test_two_gpus():
    if runtime().device_count() < 2:
        skip("two gpus")
    for number in (1, 0, 1):
        x = numbacc.zeros(256, device=number)
        add_one[1, 256](x)
        assert (numbacc.asnumpy(x) == 1).all()
    with pytest.raises(numbacc.DeviceError, match="several GPUs"):
        scale[1, (4, 4)](numbacc.zeros((4, 4), device=0), numbacc.zeros((4, 4), device=1), np.float32(1), np.float32(1))


# ---------------------------------------------------------------- compiling, without a GPU

COMPILED = skip_if(simulated(), "not simulated")


def tensor_cores(shuffled=False):
    @device.jit(launch_bounds=(128, 1))
    def run(m, c):
        t, shared = cuda.threadIdx.x, device.dynamic_shared()
        bar = shared + 32768
        if t == 0:
            device.mbarrier_init(bar, 1)
            device.fence_mbarrier_init()
        cuda.syncthreads()
        if t == 0:
            device.mbarrier_arrive_expect_tx(bar, 8192)
            device.tma_load(shared, m, (0, 0), bar)
        device.setmaxnreg_inc(160)
        device.mbarrier_wait_parity(bar, 0)
        at = DESCRIPTOR + (shared >> 4)
        sums = device.fill_fragment(0.0, 32)
        for k in range(8 if shuffled else 1):
            sums = device.wgmma_bf16(sums, at, at, 4, 2, 2, 0, 0)
            if shuffled:
                c[t, k] = sums[3]
            sums = device.wgmma_wait_group(sums, 0)
        for k in range(32):
            c[t, k] = sums[k]

    return run


def arguments():
    x = np.zeros((64, 64), ml_dtypes.bfloat16)
    return device.tensor_map(x, (64, 64)), np.zeros((128, 32), np.float32)


@COMPILED
def test_machine_code_keeps_what_it_is_for(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, cubin = tensor_cores().compile(*arguments(), block=128)
    text = instructions(cubin)
    if text is not None:
        assert len(re.findall(r"\bHGMMA\b", text)) == 4 and len(re.findall(r"\bUTMALDG\b", text)) == 1
        assert len(re.findall(r"WARPGROUP\.ARRIVE", text)) == 1 and "USETMAXREG" in text
        assert not re.search(r"\b(STL|LDL)\b", text)
    # Slow code is reported, in each process.
    for _ in range(2):
        with pytest.warns(numbacc.PerformanceWarning, match="wait for each other.*C7514"):
            tensor_cores(True).compile(*arguments(), block=128)


def test_a_persistent_product():
    m, n, k, grid = (1024, 1024, 512, 16) if has_gpu() and not simulated() else (256, 256, 128, 1)
    r = np.random.default_rng(0)
    a, b = (on_device(r.standard_normal((x, k)).astype(ml_dtypes.bfloat16)) for x in (m, n))
    c = on_device(np.full((m, n), np.nan, ml_dtypes.bfloat16))
    sizes = np.int32(m), np.int32(n), np.int32(k // persistent.DEPTH)
    persistent.product[grid, persistent.THREADS, None, persistent.SHARED](*persistent.maps(a, b, c), *sizes)
    want = numbacc.asnumpy(a).astype(float) @ numbacc.asnumpy(b).astype(float).T
    assert np.abs(numbacc.asnumpy(c).astype(float) - want).max() < 5e-3 * np.abs(want).max()


@COMPILED
def test_the_machine_code_of_the_persistent_product(monkeypatch, tmp_path):
    """Four HGMMA without a wait between them, one wait for the stage before; no register is spilled."""
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    x = [np.zeros((256, 256), ml_dtypes.bfloat16) for _ in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sizes = [np.int32(1)] * 3
        _, cubin = persistent.product.compile(*persistent.maps(*x), *sizes, block=persistent.THREADS)
    text = instructions(cubin)
    if text is None:
        return
    assert not re.search(r"\b(STL|LDL)\b", text)
    names = re.findall(r"\b(HGMMA|WARPGROUP\.ARRIVE|WARPGROUP\.DEPBAR)\b", text)
    assert names == ["WARPGROUP.ARRIVE", *["HGMMA"] * 4, "WARPGROUP.DEPBAR", "WARPGROUP.DEPBAR"]
    assert len(re.findall(r"\bSTSM\b", text)) == 16 and len(re.findall(r"\bUTMASTG\b", text)) == 4


def instructions(cubin):
    """The disassembly of machine code; None without a disassembler."""
    program = shutil.which("nvdisasm")
    if program is None:
        return None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([program, "-c", file.name], capture_output=True, text=True, check=True).stdout


@COMPILED
def test_the_disk_cache_knows_globals(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    made = []
    own = launch.linked
    monkeypatch.setattr(launch, "linked", lambda *args: made.append(1) or own(*args))

    def kernel(factor):
        @device.function
        def inner(x):
            return x * factor

        @device.jit
        def run(x):
            x[cuda.threadIdx.x] = inner(x[cuda.threadIdx.x])

        return run

    x = np.zeros(4, np.float32)
    first = kernel(2).compile(x, block=4)
    assert kernel(2).compile(x, block=4) == first and len(made) == 1
    assert kernel(3).compile(x, block=4) != first and len(made) == 2
    kernel(2).compile(x, block=8)
    kernel(2).compile(np.zeros((2, 2)), block=4) if False else kernel(2).compile(np.zeros(4), block=4)
    assert len(made) == 4
    assert kernel(2).compile(x, block=4, capability=(8, 0)) != first


def test_the_disk_cache_knows_the_lines_of_waits():
    """Errors name them. Other kernels stay the same if they move within their file."""
    source = "@device.jit\ndef run(x):\n    {}(device.dynamic_shared(), 0)\n"

    def identity(call, lines, **names):
        scope = {"device": device, "__name__": "moved", **names}
        exec("\n" * lines + source.format(call), scope)
        return scope["run"]._identity()

    wait = device.mbarrier_wait_parity
    for call, names, is_moved in (
        ("device.mbarrier_wait_parity", {}, True), ("device.mbarrier_wait_parity_cluster", {}, True),
        ("wait", {"wait": wait}, True), ("device.ld_shared_b32", {}, False),
    ):  # fmt: skip
        assert identity(call, 0, **names) == identity(call, 0, **names) is not None
        assert (identity(call, 0, **names) != identity(call, 3, **names)) == is_moved, call


@device.jit
def of_many_gpus(x, y):
    """What every GPU since Ampere has."""
    t, shared = cuda.threadIdx.x, device.dynamic_shared()
    device.cp_async(shared + 16 * t, device.address_of(x) + 16 * t, 16)
    device.cp_async_commit_group()
    device.cp_async_wait_group(0)
    cuda.syncthreads()
    left = device.ldmatrix_x4(shared + 16 * t, 1, 0)
    sums = device.mma_f16(device.fill_fragment(0.0, 8), left, left)
    y[t] = device.block_reduce(add, sums[0]) + device.philox_random(1, t)


@COMPILED
def test_machine_code_of_other_generations(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    for capability in ((8, 0), (8, 9), (10, 0), (12, 0)):
        _, cubin = of_many_gpus.compile(np.zeros(256, np.float16), np.zeros(32), block=32, capability=capability)
        assert cubin[:4] == b"\x7fELF"


@COMPILED
@pytest.mark.parametrize(
    ("capability", "name", "needs"),
    [
        ((8, 0), "wgmma", "9.0 exactly"),
        ((10, 0), "wgmma", "9.0 exactly"),
        ((8, 0), "cp.async.bulk", "9.0 or newer"),
        ((7, 5), "cp.async", "8.0"),
    ],
)
def test_what_a_gpu_lacks_is_named(capability, name, needs):
    @device.jit
    def bulk(x):
        device.cp_async_bulk_commit_group()

    @device.jit
    def asynchronous(x):
        device.cp_async_commit_group()

    kernel, args = {
        "wgmma": (tensor_cores(), arguments()),
        "cp.async.bulk": (bulk, [np.zeros(4)]),
        "cp.async": (asynchronous, [np.zeros(4)]),
    }[name]
    with pytest.raises(numbacc.DeviceError, match=rf"uses .*, which needs compute capability .*{needs}"):
        kernel.compile(*args, block=128, capability=capability)


_ALONE = """
import sys
sys.modules.update(dict.fromkeys(("cuda", "numba_cuda")))  # nothing of NVIDIA's is installed
import warnings
warnings.simplefilter("ignore")
import numpy as np, numbacc
from numbacc import cuda, device

@device.function
def add(x, y):
    return x + y

@device.jit
def total(x, y):
    t = cuda.threadIdx.x
    y[t] = device.block_reduce(add, x[t]) + device.philox_random(3, t)

x, y = np.arange(64.0), np.zeros(64)
total[1, 64](x, y)
z = numbacc.random.Generator(3, device="cpu").random(64, dtype="float32").astype(float)
print(bool((y == 2016 + z).all()))
"""


@COMPILED
def test_kernels_run_without_nvidias_packages():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBACC_")}
    run = subprocess.run([sys.executable, "-c", _ALONE], capture_output=True, text=True, env=environment)
    assert run.stdout == "True\n", run.stderr


# ---------------------------------------------------------------- the launcher for numbacc's own kernels


class Fields(NamedTuple):
    stages: int


class PairSpec(Fields, Spec):
    module = "tests/pair"
    is_specific, is_dynamic, launch_bounds = True, True, (64, 1)


def make(spec):
    def pair(m, source, target, count, scalar):
        t, shared = cuda.threadIdx.x, device.dynamic_shared()
        bar = shared + 4096
        if t == 0:
            device.mbarrier_init(bar, 1)
            device.fence_mbarrier_init()
        cuda.syncthreads()
        if t == 0:
            device.mbarrier_arrive_expect_tx(bar, 2048)
            device.tma_load(shared, m, (0, 4), bar)
        device.mbarrier_wait_parity(bar, 0)
        for k in range(t, count, 64):
            device.st_global_b32(
                target + 4 * k, device.ld_shared_b32(shared + 4 * k) + device.ld_global_b32(source + 4 * k) + scalar
            )

    return pair


def parameters(spec):
    return [("tensor_map", None), ("int64", None), ("int64", None), ("int32", None), ("int32", None)]


def test_launcher_of_own_kernels(monkeypatch):
    if not has_gpu():
        skip("device")
    monkeypatch.setattr(kernel_code, "module_of", lambda spec: SimpleNamespace(make=make, parameters=parameters))
    monkeypatch.setattr(disk_cache, "load", lambda key: None)
    monkeypatch.setattr(disk_cache, "save", lambda *args: None)
    monkeypatch.setattr(disk_cache, "key", lambda *args: "")
    for order in range(2):
        h = np.arange(32 * 32, dtype=np.int32).reshape(32, 32) + order
        x, y, z = on_device(h), on_device(h * 10), numbacc.zeros(512, dtype="int32")
        fields = tensor_maps.fields_of("int32", 4, (32, 32), (128, 4), (16, 32), 0)
        made = TensorOrder(
            PairSpec(2), 0, (1, 1, 1), (64, 1, 1), (1, 1, 1), 8192,
            (MapOf(0, fields), AddressOf(1, 128), AddressOf(2), 512, Scalar(0)),
        )  # fmt: skip
        launcher = tensor_launcher_class()(made)
        stream = 0
        with runtime().using(stream, 0, [x, y], [z]):
            launcher.check(launcher.launch(stream, 0, (x._address, y._address, z._address), (7,)))
        want = h.ravel()[128:640] + 10 * h.ravel()[32:544] + 7
        want = h[4:20].ravel() + (h * 10).ravel()[32:544] + 7
        assert np.array_equal(numbacc.asnumpy(z), want)
