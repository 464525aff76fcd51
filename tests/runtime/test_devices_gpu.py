"""Two GPUs of one host: every family on each of them, whichever is current, and clear words where they meet."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from few_channels import NAMES, preferring
from gpu_work import WORK, Slow, draw, poison
from skips import needed, skip_if
from threads import run_threads

import numbacc
from numbacc import conv, gated, gemm, random
from numbacc.base.dispatch import has_gpu, simulated
from numbacc.runtime import device as runtime

pytestmark = [
    pytest.mark.gpu,
    skip_if(simulated() or not has_gpu() or runtime.device_count() < 2, "two gpus"),
]

ROWS, COLUMNS = 64, 256
BOTH = pytest.mark.parametrize("device, current", [(0, 1), (1, 0), (0, 0), (1, 1)])


@pytest.fixture(scope="module")
def slow():
    made = {}
    return lambda device: made.setdefault(device, Slow(device))


@pytest.fixture(scope="module")
def values():
    return np.random.default_rng(5).standard_normal((ROWS, COLUMNS)).astype(np.float32)


@pytest.fixture(scope="module")
def expected(values):
    return {name: numbacc.asnumpy(work(numbacc.asarray(values, device=0), None, None)) for name, work in WORK.items()}


@pytest.fixture
def on():
    """Make a GPU the current one of this thread until the test ends."""
    held = []

    def make_current(device):
        held.append(runtime.on_device(device))
        held[-1].__enter__()
        assert runtime.current_device() == device

    yield make_current
    for context in reversed(held):
        context.__exit__()


@BOTH
@pytest.mark.parametrize("name", WORK)
def test_every_family_runs_where_its_arrays_are(on, slow, values, expected, device, current, name):
    on(current)
    s = numbacc.stream(device=device)
    for home, writer in ((None, None), (None, s), (s, None), (s, s)):
        x = numbacc.asarray(values, device=device, stream=home)
        out = numbacc.empty(expected[name].shape, expected[name].dtype, device=device, stream=home)
        poison(out, home)
        slow(device)(home, 5)
        got = WORK[name](x, out, writer)
        assert got.device == device
        np.testing.assert_array_equal(numbacc.asnumpy(got), expected[name])
        if name != "copy":
            allocated = WORK[name](x, None, writer)
            assert allocated.device == device
            np.testing.assert_array_equal(numbacc.asnumpy(allocated), expected[name])
    assert runtime.current_device() == current


@BOTH
def test_draws(on, device, current):
    on(current)
    want = numbacc.asnumpy(draw(numbacc.empty((64, 64), device=0), None))
    got = draw(numbacc.empty((64, 64), device=device), numbacc.stream(device=device))
    np.testing.assert_array_equal(numbacc.asnumpy(got), want)
    for kind in ("xorwow", "sobol32"):
        numbers = random.Generator(kind, device=device).random(1000)
        assert numbers.device == device
        np.testing.assert_array_equal(numbacc.asnumpy(numbers), random.Generator(kind, device="cpu").random(1000))


@BOTH
def test_default_streams_wait_for_others_of_their_gpu(on, slow, values, expected, device, current):
    on(current)
    s = numbacc.stream(device=device)
    for _ in range(3):
        x, y = numbacc.asarray(values, device=device), numbacc.empty((ROWS, COLUMNS // 2), device=device)
        poison(y)
        slow(device)(s)
        gated.forward(x, out=y, stream=s)
        z = gated.forward(y)  # on the default stream
        np.testing.assert_array_equal(numbacc.asnumpy(y), expected["gated"])
        assert np.isfinite(numbacc.asnumpy(z)).all()
        del x, y


@pytest.mark.parametrize("first, second", [(0, 1), (1, 0)])
def test_streams_of_two_gpus_wait_for_each_other(slow, first, second):
    s, t = numbacc.stream(device=first), numbacc.stream(device=second)
    slow(first)(s, 50)
    t.wait(s)
    mark, late = runtime.DriverEvent(second), runtime.DriverEvent(first)
    late.record(s.handle)
    mark.record(t.handle)
    mark.synchronize()
    assert late.is_done()
    numbacc.stream(0, device=second).wait(s)
    t.synchronize()


@BOTH
def test_graphs(on, values, expected, device, current):
    on(current)
    x = numbacc.asarray(np.zeros_like(values), device=device)
    with numbacc.graph(device=device) as g:
        assert numbacc.empty(3).device == device
        y, z = gated.forward(x), gemm.matmul(x, x.T)
    with numbacc.stream(device=device):
        x[...] = values
    g.launch(numbacc.stream(device=device))
    np.testing.assert_array_equal(numbacc.asnumpy(y), expected["gated"])
    np.testing.assert_array_equal(numbacc.asnumpy(z), expected["matmul"])


@BOTH
def test_torch_tensors(on, values, expected, device, current):
    torch = needed("torch", "torch")
    with torch.cuda.device(current):
        x = torch.from_numpy(values).to(f"cuda:{device}")
        y = gated.forward(x)
        assert y.device == device
        taken = torch.from_dlpack(y)
        assert taken.device.index == device
        np.testing.assert_array_equal(taken.cpu().numpy(), expected["gated"])
        out = torch.empty_like(taken)
        gated.forward(x, out=out, stream=numbacc.stream(device=device))
        np.testing.assert_array_equal(out.cpu().numpy(), expected["gated"])


@BOTH
def test_cupy_arrays(values, expected, device, current):
    cupy = needed("cupy", "cupy")
    with cupy.cuda.Device(device):
        x = cupy.asarray(values)
    with cupy.cuda.Device(current):
        y = gated.forward(x)
        assert y.device == device
        np.testing.assert_array_equal(numbacc.asnumpy(y), expected["gated"])


@BOTH
def test_numbas_own_kernels_and_arrays(values, expected, device, current):
    """In a thread of its own: `cuda.gpus[1]` leaves its context behind."""
    from numba import cuda

    @cuda.jit
    def double(source, target):
        i, j = cuda.grid(2)
        if i < source.shape[0] and j < source.shape[1]:
            target[i, j] = 2 * source[i, j]

    def work(_):
        x, y = numbacc.asarray(values, device=device), numbacc.zeros(values.shape, device=device)
        with cuda.gpus[device]:
            double[(8, 32), (8, 8)](x, y)
            theirs = cuda.to_device(values)
        with cuda.gpus[current]:
            np.testing.assert_array_equal(numbacc.asnumpy(y), 2 * values)
            got = gated.forward(theirs)
            assert got.device == device
            np.testing.assert_array_equal(numbacc.asnumpy(got), expected["gated"])

    run_threads(work, 1)
    assert runtime.current_device() == 0


def test_asking_for_the_current_device_opens_no_other():
    """In a process of its own, in which cuda:1 alone is used."""
    import subprocess
    import sys

    code = (
        "import numpy as np, numbacc\n"
        "from numbacc import gated; from numbacc.runtime import contexts\n"
        "from numba import cuda\n"
        "s = numbacc.stream(device=1)\n"
        "with s:\n"
        "    numbacc.asnumpy(gated.forward(numbacc.asarray(np.ones((2, 4), 'f4'))))\n"
        "contexts.current_device()\n"
        "from cuda.bindings import driver\n"
        "print([driver.cuDevicePrimaryCtxGetState(k)[2] for k in (0, 1)])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[0, 1]", (done.stdout, done.stderr)


def test_arrays_of_two_gpus_are_refused(values):
    x, y = numbacc.asarray(values, device=0), numbacc.asarray(values, device=1)
    for call in (
        lambda: gated.backward(x[:, :128], y),
        lambda: gemm.matmul(x, y.T),
        lambda: gated.forward(x, out=numbacc.empty((ROWS, COLUMNS // 2), device=1)),
        lambda: x.__setitem__(Ellipsis, y),
    ):
        with pytest.raises(numbacc.DeviceError, match="cuda:1"):
            call()
    moved = numbacc.asarray(x, device=1)
    assert moved.device == 1
    np.testing.assert_array_equal(numbacc.asnumpy(moved), values)


def test_streams_of_the_other_gpu_are_refused(values):
    x, s = numbacc.asarray(values, device=0), numbacc.stream(device=1)
    for call in (
        lambda: gated.forward(x, stream=s),
        lambda: gemm.matmul(x, x.T, stream=s),
        lambda: numbacc.asarray(values, device=0, stream=s),
        lambda: numbacc.asnumpy(x, stream=s),
    ):
        with pytest.raises(numbacc.DeviceError, match="cuda:1"):
            call()
    np.testing.assert_array_equal(numbacc.asnumpy(x), values)


def test_release_memory_is_for_all_gpus():
    numbacc.release_memory()
    for device in (0, 1):
        numbacc.empty(1 << 26, "uint8", device=device)
    gc.collect()
    held = [runtime.pool_bytes(device)[0] for device in (0, 1)]
    numbacc.release_memory()
    now = [runtime.pool_bytes(device)[0] for device in (0, 1)]
    assert all(after <= before - (1 << 26) for before, after in zip(held, now, strict=True))


def test_threads_on_both_gpus(values, expected):
    def work(k):
        with numbacc.stream(device=k % 2):
            x = numbacc.asarray(values)
            assert x.device == k % 2
            for _ in range(20):
                for name in WORK:
                    np.testing.assert_array_equal(numbacc.asnumpy(WORK[name](x, None, None)), expected[name])

    run_threads(work)


@BOTH
def test_convolutions_computed_as_others_run_where_their_arrays_are(on, device, current):
    """What moves windows and pixels into channels is launched there, too."""
    on(current)
    rng = np.random.default_rng(6)
    x, w, dy = (rng.standard_normal(shape).astype(np.float16) for shape in ((2, 12, 10, 3), (8, 3, 3, 3), (2, 6, 5, 8)))
    options = {"layout": "NHWC", "stride": 2, "padding": 1}

    def results(device):
        first, second, third = (numbacc.asarray(each, device=device) for each in (x, w, dy))
        plans = (
            conv.forward.plan(first, second, **options),
            conv.backward_data.plan(third, second, x.shape, **options),
            conv.backward_filter.plan(first, third, w.shape, **options),
        )
        told = [plan.info.algorithm.partition(": ")[0] for plan in plans]
        assert told == list(NAMES.values())
        pairs = (first, second), (third, second), (first, third)
        found = [plan(*pair) for plan, pair in zip(plans, pairs, strict=True)]
        assert all(each.device == device for each in found)
        return [numbacc.asnumpy(each) for each in found]

    with preferring():
        for found, expected in zip(results(device), results(0), strict=True):
            np.testing.assert_array_equal(found, expected)
    assert runtime.current_device() == current


def test_copies_stay_on_their_gpu(values):
    import copy
    import pickle

    x = numbacc.asarray(values, device=1)
    assert copy.deepcopy(x).device == copy.copy(x).device == 1
    assert pickle.loads(pickle.dumps(x)).device == runtime.current_device()
    np.testing.assert_array_equal(numbacc.asnumpy(copy.deepcopy(x)), values)
