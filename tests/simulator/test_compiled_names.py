"""`from numbacc import cuda`: the names of numba.cuda, with it and without it, and arrays without a GPU."""

from __future__ import annotations

import inspect
import sys

import numpy as np
import pytest
from compiled_scripts import runs
from skips import skip_if

import numbacc
from numbacc import cuda
from numbacc.base.dispatch import has_gpu, simulated
from numbacc.simulator.compiled import host

SIMULATED = simulated()
BY_DEFAULT = not SIMULATED and not has_gpu()

SCRIPT = """
import sys
for name in {blocked}:
    sys.modules[name] = None
import numpy as np
import numbacc
assert "numba" not in sys.modules
from numbacc import cuda
from numbacc.cuda import threadIdx, blockDim, float32
import numbacc.cuda
assert numbacc.cuda is cuda

N = 64

@cuda.jit(device=True)
def half(a):
    return a / 2

@cuda.jit
def reverse(x, y, total):
    s = cuda.shared.array(N, float32)
    k, i = threadIdx.x, cuda.grid(1)
    s[k] = x[i]
    cuda.syncthreads()
    y[i] = half(s[blockDim.x - 1 - k])
    cuda.atomic.add(total, 0, 1)

@cuda.jit("void(float32[:], int32)", fastmath=True)
def add(x, n):
    i = cuda.grid(1)
    if i < n:
        x[i] += 1

host = np.arange(128, dtype=np.float32)
stream = cuda.stream()
x, total = cuda.to_device(host, stream=stream), cuda.to_device(np.zeros(1, np.int32))
y = cuda.device_array_like(x)
begin, end = cuda.event(), cuda.event()
begin.record(stream)
with cuda.pinned(host):
    reverse[2, N, stream](x, y, total)
end.record(stream)
end.synchronize()
assert begin.elapsed_time(end) > 0 and cuda.event_elapsed_time(begin, end) > 0
wanted = np.concatenate([host[63::-1], host[:63:-1]]) / 2
assert y.copy_to_host().tolist() == wanted.tolist() and total.copy_to_host().tolist() == [128]
add.forall(128)(y, 3)
reverse[2, N](cuda.In(host), y, total)
cuda.synchronize()
assert host.tolist() == list(range(128)) and total[0] == 256
with numbacc.simulate(checked=True):
    add[1, 32](y, 2)
out = np.full(128, 99, np.float32)
y.copy_to_host(out)
wanted[:2] += 1
assert out.tolist() == wanted.tolist()
x.copy_to_device(out)
assert float(cuda.reduce(lambda a, b: a + b)(x)) == wanted.sum()
assert (x + 1).copy_to_host().tolist() == (wanted + 1).tolist()  # numbacc's functions take them
assert cuda.is_available() and cuda.get_current_device().WARP_SIZE == 32 and len(cuda.gpus) == 1
assert {{"threadIdx", "shared", "jit", "to_device", "stream", "float32"}} <= {{*dir(cuda)}}
for wrong in ("no_such_name", "threadidx"):
    try:
        getattr(cuda, wrong)
    except AttributeError as error:
        assert wrong in str(error)
    else:
        raise AssertionError(wrong)
print(type(reverse).__name__)
"""


@pytest.mark.sampled(1)
@skip_if(not BY_DEFAULT, "no gpu")
@pytest.mark.parametrize(
    "blocked, kernel",
    [
        ((), "CUDADispatcher"),
        (("numba.cuda", "numba_cuda", "cuda"), "StubKernel"),
        (("cuda",), "StubKernel"),  # numba-cuda needs cuda.bindings
    ],
    ids=["with numba.cuda", "nothing of CUDA", "numba.cuda cannot be imported"],
)
def test_a_script_without_a_gpu(blocked, kernel, tmp_path):
    assert runs(tmp_path, SCRIPT.format(blocked=blocked)) == f"{kernel}\n"


#: Without numba-cuda, as on macOS, Numba uses its older built-in CUDA target.
BUILT_IN = """
import sys
sys.meta_path = [each for each in sys.meta_path if "numba_cuda" not in type(each).__module__]
"""


@skip_if(not BY_DEFAULT, "no gpu")
def test_a_script_with_the_target_in_numba_itself(tmp_path):
    printed = runs(tmp_path, BUILT_IN + SCRIPT.format(blocked=("numba_cuda",)))
    assert printed == "CUDADispatcher\n"


RANDOM = """
import numpy as np
import numbacc
from numbacc import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

@cuda.jit
def draw(states, out):
    i = cuda.grid(1)
    total = 0
    for _ in range(100):
        total += xoroshiro128p_uniform_float32(states, i)
    out[i] = total / 100

out = np.full(1024, 99, np.float32)
draw[8, 128](create_xoroshiro128p_states(1024, seed=1), out)
assert abs(out.mean() - 0.5) < 0.01 and 0.3 < out.min() < out.max() < 0.7 and len(set(out.tolist())) > 900
print("drawn")
"""


@skip_if(not BY_DEFAULT, "no gpu")
def test_numbas_random_numbers_without_a_gpu(tmp_path):
    assert runs(tmp_path, RANDOM) == "drawn\n"


MISTAKES = """
import sys
sys.modules["numba.cuda"] = None
import numpy as np
import numbacc
from numbacc import cuda

@cuda.jit
def kernel(x):
    x[cuda.grid(1)] = 1

@cuda.jit(device=True)
def function(x):
    return x

for wrong in (
    lambda: kernel(np.zeros(3)), lambda: function(3), lambda: cuda.grid(1), lambda: kernel[3](np.zeros(3)),
    lambda: cuda.external_stream(1), lambda: cuda.select_device(1), lambda: cuda.threadIdx._x,
):
    try:
        wrong()
    except (numbacc.Error, AttributeError) as error:
        print(error)
"""


def test_mistakes_where_numba_cuda_is_missing(tmp_path):
    lines = runs(tmp_path, MISTAKES).splitlines()
    words = [
        "kernel[blocks, threads]",
        "device function",
        "only inside a kernel",
        "kernel[grid, block",
        "no GPU",
        "device 0",
    ]
    for line, word in zip(lines, [*words, "has no attribute"], strict=True):
        assert word in line


COMPILED = """
import numbacc
from numbacc import cuda
from numbacc.base._numba import pretending
import numba.cuda
assert cuda is not numba.cuda and cuda.threadIdx is numba.cuda.threadIdx

@cuda.jit(device=True)
def half(a):
    return a / 2

def kernel(x, y):
    s = cuda.shared.array(64, cuda.float32)
    i = cuda.grid(1)
    s[cuda.threadIdx.x] = x[i]
    cuda.syncthreads()
    y[i] = half(s[63 - cuda.threadIdx.x]) + cuda.shfl_down_sync(0xFFFFFFFF, x[i], 1) + cuda.laneid
    cuda.atomic.add(y, 0, cuda.libdevice.rsqrtf(x[0]))

with pretending((8, 0)):
    kind = cuda.float32[:]
    ptx, _ = cuda.compile_ptx(kernel, cuda.types.void(kind, kind), cc=(8, 0))
for word in ("shfl.sync", "bar.sync", "atom.", "rsqrt", "laneid"):
    assert word in ptx, word
print("compiled")
"""


@skip_if(SIMULATED, "not simulated")
def test_numba_compiles_kernels_that_use_these_names(tmp_path):
    assert runs(tmp_path, COMPILED) == "compiled\n"


def test_names_in_numbas_simulator_and_on_a_gpu():
    numbas = sys.modules["numba.cuda"] if SIMULATED else __import__("numba.cuda").cuda
    assert cuda.jit is numbas.jit and cuda.shared is numbas.shared if not SIMULATED else cuda is numbas
    if not BY_DEFAULT:
        assert cuda.to_device is numbas.to_device


@cuda.jit
def halves(x, y):
    s = cuda.shared.array(32, cuda.types.float32)
    k = cuda.threadIdx.x
    s[k] = x[k] / 2
    cuda.syncthreads()
    y[k] = s[cuda.blockDim.x - 1 - k]
    cuda.syncthreads()
    cuda.atomic.add(y, 0, 1)


@pytest.mark.gpu
@skip_if(SIMULATED or BY_DEFAULT, "gpu")
def test_a_script_on_a_gpu():
    host, stream = np.arange(32, dtype=np.float32), cuda.stream()
    x, y = cuda.to_device(host, stream=stream), cuda.device_array(32, np.float32)
    halves[1, 32, stream](x, y)
    stream.synchronize()
    here, wanted = np.full(32, 99, np.float32), host[::-1] / 2 + 32 * (host == 0)
    with numbacc.simulate():
        halves[1, 32, stream](host, here)
        halves.forall(32, tpb=32)(x, y)
    np.testing.assert_array_equal(here, wanted)
    np.testing.assert_array_equal(y.copy_to_host(), wanted)
    assert (
        isinstance(cuda.pinned_array(3), np.ndarray) and cuda.is_available() and type(x).__module__.startswith("numba")
    )


@skip_if(not BY_DEFAULT, "no gpu")
def test_all_of_numbas_functions_for_the_host_exist_without_a_gpu():
    """With arguments of the same names."""
    from numba.cuda import api

    here = {name for name, each in vars(api).items() if inspect.isfunction(each) and each.__module__ == api.__name__}
    missing = {name for name in here if name[0] != "_"} - host.FUNCTIONS.keys()
    assert missing == {"from_cuda_array_interface", "open_ipc_array"}, "of a GPU's memory"
    for name in here & host.FUNCTIONS.keys() - {"mapped", "pinned", "stream", "event", "detect"}:
        theirs, own = (inspect.signature(each).parameters for each in (getattr(api, name), host.FUNCTIONS[name]))
        assert {*theirs} <= {*own} or not own or name.endswith("_stream"), name


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, "float16", "complex64", [("a", "i4")]], ids=str)
def test_arrays_without_a_gpu(dtype, order):
    made = host.FUNCTIONS["device_array"]((3, 4), dtype, order=order)
    wanted = np.empty((3, 4), dtype, order)
    assert made.dtype == wanted.dtype and made.strides == wanted.strides
    like = host.FUNCTIONS["device_array_like"](wanted)
    assert like.strides == wanted.strides and host.FUNCTIONS["device_array_like"](like).dtype == wanted.dtype
    for name in ("pinned_array", "mapped_array", "managed_array"):
        assert isinstance(host.FUNCTIONS[name]((3, 4), dtype), np.ndarray)


def test_copies_without_a_gpu():
    to_device, given = host.FUNCTIONS["to_device"], np.arange(6.0).reshape(2, 3)
    x = to_device(given)
    given[...] = 0
    np.testing.assert_array_equal(x.copy_to_host(), np.arange(6.0).reshape(2, 3))
    assert to_device(x) is x and to_device(given, copy=False).shape == (2, 3)
    assert to_device(given, to=x) is x
    np.testing.assert_array_equal(x.copy_to_host(), given)
    assert host.FUNCTIONS["is_cuda_array"](x) and not host.FUNCTIONS["is_cuda_array"](given)
    strided = host.FUNCTIONS["device_array"](3, np.int16, strides=(6,))
    assert strided.strides == (6,)
    with pytest.raises(TypeError, match="to_device"):
        host.FUNCTIONS["as_cuda_array"](given)
    assert numbacc.asnumpy(x).shape == (2, 3)
