"""Where kernels come from, and where compiled ones are kept."""

from __future__ import annotations

import gc
import linecache
import os
import pickle
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from compiled_launch import three
from numba import cuda
from paths import ROOT
from skips import skip_if

import numbacc
import numbacc.errors
from benchmarks.simulate_kernels import saxpy
from numbacc.simulator.compiled.kernel import Kernel

TEXT = """
from numba import cuda

@cuda.jit
def add_one(x):
    k = cuda.threadIdx.x
    cuda.syncthreads()
    x[k] += {n}
"""


@pytest.fixture
def cell():
    """Define a kernel as IPython does."""

    def define(n, name):
        text = TEXT.format(n=n)
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        names = {"__name__": "__main__"}
        exec(compile(text, name, "exec"), names)
        return names["add_one"]

    return define


@pytest.mark.parametrize("n", [1, 5])
def test_kernels_of_notebook_cells(cell, n):
    x = np.zeros(8, np.int64)
    Kernel(cell(n, f"<ipython-input-{n}-abc>")).launch(three(1), three(8), 0, (x,))
    assert (x == n).all()


def test_kernels_of_generated_files(tmp_path):
    path = tmp_path / "made.py"
    path.write_text(TEXT.format(n=7))
    names = {"__name__": "made"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    x = np.zeros(8, np.int64)
    Kernel(names["add_one"]).launch(three(1), three(8), 0, (x,))
    assert (x == 7).all()


def test_kernels_without_source():
    names = {}
    exec(TEXT.format(n=1), names)
    with pytest.raises(numbacc.UnsupportedError, match="source of add_one cannot be found"):
        Kernel(names["add_one"])


def test_plain_functions_and_lambdas():
    def kernel(x):
        x[cuda.grid(1)] = 3

    x = np.zeros(4)
    Kernel(kernel).launch(three(1), three(4), 0, (x,))
    assert (x == 3).all()
    square = cuda.jit(device=True)(lambda v: v * v)

    @cuda.jit
    def squares(x):
        x[cuda.grid(1)] = square(x[cuda.grid(1)])

    Kernel(squares).launch(three(1), three(4), 0, (x,))
    assert (x == 9).all()
    one, _ = lambda x: 1, lambda x: 2
    with pytest.raises(numbacc.UnsupportedError, match=r"one of several lambdas in a line .*write it with `def`"):
        Kernel(one)


def test_types_of_arguments_are_compiled_once_each():
    kernel = Kernel(saxpy)
    for dtype in ("f4", "f8", "f4", "i8"):
        x, y = np.arange(9, dtype=dtype), np.ones(9, dtype)
        kernel.launch(three(1), three(32), 0, (2, x, y))
        np.testing.assert_array_equal(y, 2 * x + 1)
    kernel.launch(three(1), three(32), 0, (2, np.arange(18.0)[::2], y))
    assert len(kernel._compiled) == 4


LAUNCH = """
import sys, time
import numpy as np
from numbacc.simulator.compiled import kernel as compiled
sys.path[:0] = {folders!r}
from benchmarks.simulate_kernels import block_sum
from compiled_launch import launch
x, y = np.ones(1000, "f4"), np.full(4, 77, "f4")
made = compiled.Kernel(block_sum)
if {found}:
    made._tree = None  # neither inferred nor compiled
launch(made, (4, 256), (x, y))
assert y.tolist() == [256, 256, 256, 232], y
"""


def run(found, prelude="", **environment):
    text = LAUNCH.format(folders=[str(ROOT), str(Path(__file__).parent)], found=found)
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", prelude + text],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def test_compiled_kernels_are_kept_on_disk(tmp_path):
    """For one that is kept, neither the compiler is loaded nor other modules that take long."""
    slow = ["numba.np.arrayobj", "numba.np.linalg", "numpy.ma"]
    code = f"import atexit, sys; atexit.register(lambda: print(*{{*{slow}}} & {{*sys.modules}}))\n"
    first = run(False, code, NUMBACC_CACHE_DIR=str(tmp_path))
    assert first.returncode == 0 and "numba.np.linalg" in first.stdout, first.stderr
    again = run(True, code, NUMBACC_CACHE_DIR=str(tmp_path))
    assert (again.returncode, again.stdout) == (0, "\n"), again.stderr
    for path in tmp_path.rglob("*.nbc"):
        path.write_bytes(b"damaged")
    damaged = run(False, NUMBACC_CACHE_DIR=str(tmp_path))
    assert damaged.returncode == 0, damaged.stderr


@pytest.mark.slow
def test_a_folder_that_cannot_be_written(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    found = run(False, NUMBACC_CACHE_DIR=str(path))
    assert found.returncode == 0, found.stderr
    assert "CacheWarning" in found.stderr


@skip_if(sys.platform != "linux", "linux")
def test_read_only_home():
    found = run(False, HOME="/proc/home", XDG_CACHE_HOME="", NUMBACC_CACHE_DIR="")
    assert found.returncode == 0, found.stderr
    assert found.stderr.count("CacheWarning") == 1


# Python ignores the signal, so that a write which goes further fails as on a full disk.
FULL_DISK = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"


@skip_if(sys.platform == "win32", "posix")
@pytest.mark.slow
def test_full_disk(tmp_path):
    found = run(False, FULL_DISK, NUMBACC_CACHE_DIR=str(tmp_path))
    assert found.returncode == 0, found.stderr
    assert found.stderr.count("CacheWarning") == 1
    room = run(False, NUMBACC_CACHE_DIR=str(tmp_path))  # a file that was cut off does no harm
    assert room.returncode == 0 and "CacheWarning" not in room.stderr, room.stderr
    assert run(True, NUMBACC_CACHE_DIR=str(tmp_path)).returncode == 0


@pytest.mark.slow
def test_two_processes_fill_the_cache_at_once(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        found = [*pool.map(lambda _: run(False, NUMBACC_CACHE_DIR=str(tmp_path)), range(2))]
    for each in found:
        assert each.returncode == 0, each.stderr
        assert "CacheWarning" not in each.stderr
    again = run(True, NUMBACC_CACHE_DIR=str(tmp_path))
    assert again.returncode == 0, again.stderr
    assert len([*tmp_path.rglob("_nb_run*.nbi")]) == 1
    assert not [path for path in tmp_path.rglob("*") if "tmp" in path.name]


def test_constants_are_part_of_the_key(cell, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))

    def made(scale, table):
        @cuda.jit(device=True)
        def inner(v):
            return v * scale + table[0]

        @cuda.jit
        def kernel(x):
            x[0] = inner(1) + table[1]

        return kernel

    for scale, table in ((2, (3, 4)), (5, (3, 4)), (5, (8, 9)), (2, (3, 4))):
        for kind in (tuple, np.array):
            x = np.zeros(1, np.int64)
            Kernel(made(scale, kind(table))).launch(three(1), three(1), 0, (x,))
            assert x[0] == scale + sum(table)


def test_eight_threads(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    kernel = Kernel(saxpy)
    wrong = []

    def work(k):
        x, y = np.arange(50_000, dtype="f4"), np.ones(50_000, "f4")
        for _ in range(20):
            y[:] = 1
            kernel.launch(three(200), three(256), 0, (np.float32(k), x, y), workers=2)
            if not np.array_equal(y, np.float32(k) * x + 1):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert not wrong and len(kernel._compiled) == 1


def test_a_compilation_leaves_no_garbage():
    """Numba's objects refer to each other, so that only the garbage collector frees them."""

    def compiled(scale):
        @cuda.jit
        def kernel(x):
            x[cuda.grid(1)] *= scale

        Kernel(kernel).launch(three(1), three(8), 0, (np.ones(8),))

    compiled(1.5)
    gc.collect(1)  # all objects count as old now
    gc.disable()
    try:
        compiled(2.5)
        assert gc.collect(1) < 2000
    finally:
        gc.enable()


@skip_if(not hasattr(os, "fork"), "posix")
def test_a_forked_process_has_threads_of_its_own():
    kernel = Kernel(saxpy)
    x, y = np.ones(50_000, "f4"), np.ones(50_000, "f4")
    arguments = (three(200), three(256), 0, (np.float32(1), x, y))
    kernel.launch(*arguments, workers=2)
    if (child := os.fork()) == 0:
        kernel.launch(*arguments, workers=2)
        os._exit(0 if (y == 3).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_kernel_errors_can_be_pickled():
    error = numbacc.errors.KernelError("text", file="a.py", line=3, thread=(1, 0, 0), block=(0, 0, 0))
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == "text" and vars(again) == vars(error)
