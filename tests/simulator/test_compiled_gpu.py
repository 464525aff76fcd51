"""Kernels give the same results on a CPU and a GPU: equal integers, and equal float32 where both contract."""

from __future__ import annotations

import copy
import json
import subprocess
import sys

import compiled_calls as calls
import numpy as np
import pytest
from compiled_device import BLOCKS, THREADS, collectives, matrices, pipeline, product, scalars
from compiled_language import CASES
from skips import skip_if
from test_compiled_device import inputs_of_matrices

import numbacc
from benchmarks.simulate_kernels import USUAL
from numbacc.base.dispatch import has_gpu, simulated

pytestmark = [pytest.mark.gpu, skip_if(simulated() or not has_gpu(), "gpu")]

#: Kernels that numba-cuda 0.30 does not compile, or that a GPU need not run to their end.
NOT_ON_A_GPU = {
    "loops_over_tuples", "named_expressions", "constants_of_float16_and_bfloat16",  # not compiled
    "divergent_jumps_around_exchanges",  # lanes that a mask names do not come
    "device_function_that_some_threads_leave", "divisions_of_integers",  # undefined, -(2**63) // -1
    "operands_are_read_from_left_to_right",  # not compiled: it assigns a variable inside an expression that reads it
    "floats_beyond_bytes",  # undefined: a GPU's uint8 may hold 65535 until it is stored in 8 bits
}  # fmt: skip
#: Kernels whose floats differ in their last bits, and by how much. A GPU has another `exp`, and adds in any order.
TOLERANCE = {"softmax of rows of 512": 2e-6, "warp shuffles in a device function": 2e-6}


def assert_same(here, there, tolerance=0.0, absolute=0.0):
    assert here.dtype == there.dtype
    if tolerance:
        np.testing.assert_allclose(here, there, rtol=tolerance, atol=absolute)
    else:
        np.testing.assert_array_equal(here, there)


def both(kernel, launch, arguments, tolerance=0.0, absolute=0.0):
    """Run a kernel in both places; compare all of its arrays."""
    here, there = (copy.deepcopy(arguments) for _ in range(2))
    kernel[launch](*there)
    with numbacc.simulate():
        kernel[launch](*here)
    for a, b in zip(here, there, strict=True):
        if isinstance(a, np.ndarray):
            assert_same(a, b, tolerance, absolute)
    return there


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_ON_A_GPU])
def test_constructs(name):
    make, grid, block, dynamic = CASES[name]
    kernel, arguments, answer = make()
    there = both(kernel, (grid, block, 0, dynamic), arguments)
    np.testing.assert_allclose(there[-1], answer, rtol=1e-6)


@pytest.mark.parametrize("name", USUAL)
def test_usual_kernels(name):
    case = USUAL[name].make(4096)
    args = both(case.kernel, case.launch, case.fresh(), TOLERANCE.get(name, 0.0))
    assert case.is_right(args)


def test_warps():
    x = np.random.default_rng(0).integers(0, 12, 128)
    x[32:64], x[64:96] = 8, 2 * (x[64:96] // 2)
    both(calls.warp_calls, (2, 64), (x, np.full((13, 128), -99, np.int64)))


def test_float16():
    x = np.random.default_rng(1).standard_normal(192).astype(np.float16)
    arguments = (x, np.full(192, np.nan, np.float16), np.float16(1.3), np.full(3, np.nan, np.float32))
    # A GPU rounds `value * other + x` once, the simulator twice; the difference is 2**-11 of the product.
    both(calls.half_tile, (3, 64), arguments, 2e-3, absolute=2e-3)


def test_atomics():
    x = np.random.default_rng(3).integers(0, 8, 256).astype(np.int32)
    results = []
    for simulates in (False, True):
        counts, most = np.zeros((2, 8), np.int32), np.full(1, -1, np.float32)
        slots, order = np.array([0, 5], np.uint32), np.full(256, -1)
        if simulates:
            with numbacc.simulate():
                calls.counted[4, 64](x, counts, most, slots, order)
        else:
            calls.counted[4, 64](x, counts, most, slots, order)
        results.append((counts.tolist(), most.tolist(), slots.tolist(), sorted(order)))  # blocks come in any order
    assert results[0] == results[1]


def test_libdevice():
    x, y = np.linspace(0.25, 3.0, 64).astype(np.float32), np.full((7, 64), np.nan)
    here, there = y.copy(), y.copy()
    calls.library[2, 32](x, there)
    with numbacc.simulate():
        calls.library[2, 32](x, here)
    for row in (1, 2, 3, 6):  # fma, fadd_rd, selp and fmod are exact
        np.testing.assert_array_equal(here[row], there[row])
    np.testing.assert_allclose(here, there, rtol=1e-6, atol=1e-6)


def test_copies_by_address():
    x = np.random.default_rng(3).standard_normal(1500).astype(np.float32)
    rest = np.zeros(128, np.float32), np.zeros(1536, np.float32), np.zeros(352, np.float32)
    both(pipeline, (1, 128, 0, 4096), (x, *rest))


def test_products_by_tensor_cores():
    """Tensor cores may add in another order and with other roundings."""
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((128, 64)).astype(np.float16) for _ in range(2))
    both(product, ((2, 2), 128, 0, 16384), (a, b, np.zeros((128, 128), np.float32)), 1e-4, 1e-4)
    _, arguments = inputs_of_matrices()
    both(matrices, (1, 32), arguments, 1e-5)


def test_functions_of_device():
    """Collectives of integers and random numbers are the same. Approximate functions are close."""
    x = np.random.default_rng(0).integers(-50, 50, BLOCKS * THREADS).astype(np.float32)
    shapes = BLOCKS, (2, x.size), (4, x.size), (2, x.size), x.size
    both(collectives, (BLOCKS, THREADS), (x, *(np.full(shape, np.nan) for shape in shapes)))
    v, y, drawn = np.linspace(0.01, 4, 64).astype(np.float32), np.full((16, 64), np.nan, np.float32), np.zeros((2, 64))
    normals, words = np.zeros(256, np.float32), np.zeros(256, np.uint32)
    here, there = ([copy.deepcopy(each) for each in (v, y, 7, drawn, normals, words)] for _ in range(2))
    scalars[1, 64](*there)
    with numbacc.simulate():
        scalars[1, 64](*here)
    for k in (3, 5):
        np.testing.assert_array_equal(here[k], there[k])
    np.testing.assert_array_equal(here[1][9:], there[1][9:])  # these are rounded correctly
    np.testing.assert_allclose(here[1], there[1], rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(here[4], there[4], atol=1e-5)


#: Times launches of a kernel without numbacc, after its import, or after a use of `simulate`, as the argument says.
LAUNCHES = """
import json, sys, time, warnings
import numpy as np
if not hasattr(np, "row_stack"):  # NumPy 2.5 has none; numba-cuda needs one, which numbacc gives it
    np.row_stack = np.vstack
warnings.simplefilter("ignore")
if sys.argv[1] != "numba":
    import numbacc
from numba import cuda
from numba.cuda.dispatcher import CUDADispatcher

@cuda.jit
def nothing(x):
    pass

x = cuda.to_device(np.zeros(1))
nothing[1, 32](x)
if sys.argv[1] == "simulate":
    with numbacc.simulate():
        nothing[1, 32](x)
made, best = nothing[1, 32], [1e9, 1e9]
for _ in range(30):
    for k, launch in enumerate((lambda: nothing[1, 32](x), lambda: made(x))):
        cuda.synchronize()
        start = time.perf_counter()
        for _ in range(200):
            launch()
        best[k] = min(best[k], (time.perf_counter() - start) / 200 * 1e6)
        cuda.synchronize()
own = "numbacc" not in getattr(CUDADispatcher.configure, "__globals__", {}).get("__name__", "")  # Numba caches its own
print(json.dumps({"configured": best[0], "launched": best[1], "own": own}))
"""


def test_the_cost_of_a_launch(tmp_path, record_property):
    """An import of numbacc costs launches of users' kernels nothing; `simulate`, once used, at most 2 us."""
    path, found = tmp_path / "script.py", {}
    path.write_text(LAUNCHES)
    for what in ("numba", "import", "simulate") * 3:  # the best of three processes: others use the machine, too
        run = subprocess.run([sys.executable, str(path), what], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        new = json.loads(run.stdout)
        found[what] = {name: min(value, found.get(what, new)[name]) for name, value in new.items()}
        record_property(what, found[what])
        print(what, found[what])
    assert found["numba"]["own"] and found["import"]["own"], "numbacc left its own methods in Numba's classes"
    for name in ("configured", "launched"):
        before = found["numba"][name]
        assert found["import"][name] < 1.25 * before + 0.5, found
        assert found["simulate"][name] < 1.25 * before + 2, found
