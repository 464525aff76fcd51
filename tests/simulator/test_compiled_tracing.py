"""Traces of compiled kernels: the counts of the interpreter on the same kernels, large launches, and mistakes."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import refused
from entering import ENTERING, HOW, says
from numba import float32
from skips import skip_if
from traced import traced
from traced_programs import PROGRAMS, counted

import numbacc
from numbacc import cuda
from numbacc.base.dispatch import simulated

pytestmark = skip_if(simulated(), "not simulated")


@functools.cache
def interpreted():
    """Return the counts of the interpreter, which runs in another process."""
    script = Path(__file__).with_name("traced_programs.py")
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    run = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", PROGRAMS)
def test_counts_are_the_interpreters(name):
    found, wanted = json.loads(json.dumps(counted(*PROGRAMS[name]))), interpreted()[name]
    for by_line in (False, True):
        assert found["rows"][by_line] == wanted["rows"][by_line]
    assert found["races"] == wanted["races"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_counts_are_those_of_the_records(name):
    """Counted once more, in NumPy, from the accesses that are kept one by one."""
    function, grid, block, dynamic_bytes, arrays = PROGRAMS[name]
    with numbacc.trace() as t:
        function[grid, block, 0, dynamic_bytes](*[make() for make in arrays])
    for by_line in (False, True):
        assert sorted(t.table(by_line=by_line).rows) == sorted(t._rows_of_records(by_line))


@cuda.jit
def shifted_views(x, y):
    i = cuda.grid(1)
    wide = x[1:33].view(np.float64)
    y[i] = wide[i]  # here


@cuda.jit
def shifted_vectors(x, y):
    i = cuda.grid(1)
    y.view(np.complex64)[i] = x.view(np.complex64)[i]
    y[i : i + 2].view(np.float64)[0] = 2  # here


#: The two modes that find mistakes.
WAYS = (numbacc.trace, functools.partial(numbacc.simulate, checked=True))


def line_of(kernel):
    code = kernel.py_func.__code__
    lines = Path(__file__).read_text().splitlines()
    return next(k for k, text in enumerate(lines, 1) if k > code.co_firstlineno and text.endswith("# here"))


@pytest.mark.parametrize("kernel, thread", [(shifted_views, 0), (shifted_vectors, 1)])
@pytest.mark.parametrize(
    "way", [numbacc.trace, functools.partial(numbacc.simulate, checked=True)], ids=["traced", "checked"]
)
def test_misaligned_views(kernel, thread, way):
    def run():
        with way():
            kernel[1, 16](np.zeros(64, "f4"), np.zeros(64, "f4"))

    words = (
        f"test_compiled_tracing.py:{line_of(kernel)}: an access to 8 bytes at element",
        f"thread ({thread}, 0, 0)",
    )
    refused(numbacc.KernelError, *words, "block (0, 0, 0)", "not a multiple of 8", run=run)


@cuda.jit
def aligned_views(x, y):
    i = cuda.grid(1)
    wide = x[2:].view(np.float64)
    y.view(np.float64)[i] = wide[i] + x.view(np.complex128)[i // 2].real


@pytest.mark.parametrize(
    "way", [numbacc.trace, functools.partial(numbacc.simulate, checked=True)], ids=["traced", "checked"]
)
def test_aligned_views_are_right(way):
    memory = np.zeros(66, "f4")
    x, y = memory[1:65], np.zeros(64, "f4")
    with way():
        aligned_views[1, 31](x, y)  # a GPU gets a copy, which begins at a multiple of 256 bytes
    with way():
        aligned_views[1, 31](cuda.to_device(memory)[2:], y)


@pytest.mark.parametrize(
    "way", [numbacc.trace, functools.partial(numbacc.simulate, checked=True)], ids=["traced", "checked"]
)
def test_misaligned_parts_of_arrays_on_a_device(way):
    def run():
        with way():
            aligned_views[1, 31](cuda.to_device(np.zeros(66, "f4"))[1:65], np.zeros(64, "f4"))

    refused(numbacc.KernelError, "an access to 8 bytes at element", "not a multiple of 8", run=run)


@cuda.jit
def product(x, y, z):
    a, b = cuda.shared.array((16, 16), float32), cuda.shared.array((16, 16), float32)
    i, j = cuda.grid(2)
    row, column = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range(x.shape[1] // 16):
        a[row, column] = x[i, 16 * k + column]
        b[row, column] = y[16 * k + row, j]
        cuda.syncthreads()
        for m in range(16):
            total += a[row, m] * b[m, column]
        cuda.syncthreads()
    z[i, j] = total


def test_large_launches_are_counted_without_records():
    """64 blocks of 8 warps: in each of 8 steps, a warp writes 32 words to each tile. It writes z to 16 rows."""
    x = np.random.default_rng(0).standard_normal((128, 128)).astype("f4")
    z = np.full((128, 128), np.nan, "f4")
    with numbacc.trace(max_accesses=1000) as t:
        product[(8, 8), (16, 16)](x, x, z)
    np.testing.assert_allclose(z, x @ x, rtol=1e-4, atol=1e-4)
    assert len(t.records) == 1000 and not t.races
    written = t.counts("a", "write")
    assert (written.accesses, written.requests, written.bytes) == (64 * 8 * 256, 64 * 8 * 8, 64 * 8 * 1024)
    read = t.counts("a", "read")
    assert (read.accesses, read.requests) == (16 * 64 * 8 * 256, 16 * 64 * 8 * 8)
    # Half a warp's rows, 64 bytes apart, lie in two banks: eight passes.
    assert t.counts("a", "write").conflicts == 64 * 8 * 8 * 7 and t.counts("z").sectors == 64 * 8 * 16
    assert t.plot("a", threads=64).axes[0].get_title() == "a (shared), write\nfirst request: 32 elements, 7 conflicts"
    refused(numbacc.OptionError, "array='z'", "first 1,000 accesses", "max_accesses", run=lambda: t.plot("z"))


@cuda.jit
def ten_for_each(x):
    for k in range(10):
        x[cuda.grid(1)] += k


def test_a_launch_of_many_threads():
    x = np.zeros(1 << 17, "f4")
    t = traced(ten_for_each, 1 << 9, 256, x)
    counted = t.counts("x", "write")
    assert (counted.accesses, counted.requests, counted.sectors) == (10 << 17, 10 << 12, 10 << 14)
    assert not t.races and counted.used == 1


HALF = """
    fixed[k] = {x}[i]
    if k < 8: free[k] = fixed[k]
    cuda.syncthreads()
    many = cuda.syncthreads_count(1 if fixed[k] > 20 else 0)
    if cuda.blockIdx.x > 0:
        for _ in range(2):
            cuda.syncwarp()
            fixed[k ^ 1] += 1
    cuda.syncthreads()
    {y}[40 * cuda.blockIdx.x + 39 - k] = fixed[39 - k] + free[k % 8] + many
"""


def turning(folder, *halves):
    """Return a kernel that turns the rows of blocks in shared memory, once for each of the halves."""
    start = "def turn(x, y):\n    fixed, free = cuda.shared.array(40, float32), cuda.shared.array(0, float32)\n"
    start += "    i, k = cuda.grid(1), cuda.threadIdx.x\n"
    file = folder / f"{'_'.join(halves)}.py"
    middle = "    cuda.syncthreads()\n    cuda.cg.this_grid().sync()\n"
    file.write_text(start + middle.join(HALF.format(x=a, y=b) for a, b in halves))
    names = {"cuda": cuda, "float32": float32, "__name__": __name__}
    exec(compile(file.read_text(), str(file), "exec"), names)
    return cuda.jit(names["turn"])


def test_grids_that_synchronize(tmp_path):
    """A launch with a barrier of the grid counts what two launches count."""
    first = np.random.default_rng(0).integers(0, 40, 120).astype("f4")
    found = []
    for kernels in ([("xy", "yx")], [("xy",), ("yx",)]):
        x, y = first.copy(), np.zeros(120, "f4")
        with numbacc.trace() as t:
            for halves in kernels:
                turning(tmp_path, *halves)[3, 40, 0, 34](x, y)  # dynamic memory of 34 bytes
        assert sorted(t.table().rows) == sorted(t._rows_of_records(False))
        assert not t.unwritten
        sums = {}
        for row in t.table().rows:
            key = row.array, row.memory, row.access
            sums[key] = sums.get(key, 0) + np.array([row.requests, row.bytes, row.sectors, row.conflicts, row.races])
        found.append((x.tolist(), y.tolist(), {key: each.tolist() for key, each in sums.items()}))
    assert found[0] == found[1] and found[0][2]["fixed", "shared", "write"][0] > 0


@cuda.jit
def after_a_barrier_of_the_grid(x, y):
    i, last = cuda.grid(1), x.size - 1
    x[i] = i
    cuda.cg.this_grid().sync()
    y[i] = x[last - i]
    y[last - i] = 1


def test_barriers_of_the_grid_order_blocks():
    x, y = np.zeros(64, "f4"), np.zeros(64, "f4")
    with numbacc.trace() as t:
        after_a_barrier_of_the_grid[2, 32](x, y)
    assert t.counts("x").races == 0 and t.counts("y").races == 64
    assert {race.array for race in t.races} == {"y"}


def test_races_between_blocks_are_counted_beyond_the_records():
    from traced_kernels import blocks_at_one_element

    x, y = np.ones(128, "f4"), np.zeros(1, "f4")
    with numbacc.trace(max_accesses=2) as t:
        blocks_at_one_element[4, 32](x, y)
    assert t.counts("y").races == 1 and t.counts("x").races == 0


def test_kernels_that_cannot_be_compiled_say_how_to_trace_them():
    @cuda.jit
    def with_a_list(x):
        found = []
        found.append({1: x})
        raise ValueError(found)

    refused(numbacc.UnsupportedError, "NUMBA_ENABLE_CUDASIM=1", run=lambda: traced(with_a_list, 1, 1, np.zeros(1)))


def test_simulate_within_a_trace_is_traced():
    with numbacc.trace() as t, numbacc.simulate(checked=False):
        ten_for_each[1, 64](np.zeros(64, "f4"))
    with numbacc.simulate(), numbacc.trace():
        ten_for_each[1, 64](np.zeros(64, "f4"))
    assert t.counts("x", "read").accesses == 640


def test_launches_after_a_trace_are_not_counted():
    x = np.zeros(64, "f4")
    t = traced(ten_for_each, 1, 64, x)
    ten_for_each[1, 64](x)
    assert t.counts("x", "read").accesses == 640 and [each.kernel for each in t.launches] == ["ten_for_each"]


TRACING = """
import numpy as np
from numbacc import cuda

@cuda.jit
def doubled(x):
    x[cuda.grid(1)] *= 2

with numbacc.trace() as t:
    doubled[1, 32](np.ones(32, "f4"))
print(t.counts("x").sectors)
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "before",
    [
        "import numbacc",
        "import numba, os; os.environ['NUMBA_ENABLE_CUDASIM'] = '1'; import numbacc",
        "import sys; sys.modules['numba.cuda'] = None; import numbacc",
    ],
    ids=["no simulator", "asked for too late", "no numba.cuda"],
)
def test_processes_that_trace_compiled_kernels(before, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(before + TRACING)
    assert says(f"import runpy, warnings; warnings.simplefilter('ignore'); runpy.run_path({str(script)!r})") == "8\n"


def test_without_numba():
    code = ENTERING.replace("debug", "trace")
    printed = says("import sys; sys.modules['numba'] = None; import numbacc" + code)
    assert "numbacc.trace() needs Numba" in printed and HOW in printed


@pytest.mark.gpu
def test_arrays_on_a_gpu():
    """They are copied to the host and back, and count from where they begin on the GPU."""
    x = numbacc.asarray(np.ones(65, "f4"))
    t = traced(ten_for_each, 1, 64, x[1:])
    assert (numbacc.asnumpy(x)[1:] == 46).all() and t.counts("x", "read").sectors == 10 * (5 + 5)


MISALIGNED = """
import numpy as np
import numbacc
from numba import cuda

@cuda.jit
def shifted(x, y):
    i = cuda.grid(1)
    y[i] = x[1:33].view(np.float64)[i]

y = cuda.to_device(np.zeros(16))
shifted[1, 16](cuda.to_device(np.zeros(64, "f4")), y)
try:
    cuda.synchronize()
    print("nothing")
except Exception as error:
    print(error)
"""


@pytest.mark.gpu
def test_a_gpu_stops_at_misaligned_views(tmp_path):
    """The test starts another process, because the mistake destroys the CUDA context."""
    script = tmp_path / "script.py"
    script.write_text(MISALIGNED)
    assert "MISALIGNED" in says(f"import runpy; runpy.run_path({str(script)!r})").upper()
