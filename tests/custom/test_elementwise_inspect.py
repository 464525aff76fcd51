"""What kernels of one's own say of themselves: `inspect` and `benchmark`."""

from __future__ import annotations

import math
import sys
import types

import numpy as np
import pytest
from conftest import refused
from own_kernels import DTYPES, bent, capped, close
from skips import skip_if

import numbacc
from numbacc import elementwise as ew
from numbacc.base.dispatch import simulated
from numbacc.elementwise import signatures
from numbacc.errors import DeviceError, DTypeError, OptionError, ShapeError

pytestmark = pytest.mark.usefixtures("poison")


@pytest.mark.parametrize("name, lanes", [("float32", 8), ("float64", 4), ("bfloat16", 8)])
def test_inspect(place, name, lanes):
    """Of arrays on a GPU, or of NumPy's in their place: PTX, registers, local memory, bytes a thread."""
    x = place.put(np.ones((64, 512), DTYPES[name]))
    found = capped.inspect(x, 30.0)
    assert str(found).startswith(found.source) and "capped" in repr(found)
    assert found.bytes_per_thread == 2 * lanes * DTYPES[name].itemsize and "vector" in repr(found)
    assert (
        capped.inspect(place.put(np.ones((64, 512), DTYPES[name]))[:, ::3], 30.0).bytes_per_thread
        == 2 * DTYPES[name].itemsize
    )
    if place.is_slow:
        assert found.ptx is None is found.registers and "simulator" in str(found)
        return
    major, minor = found.capability
    assert ".entry" in found.ptx and f".target sm_{major}{minor}" in found.ptx
    assert (".f64" in found.ptx) is (name == "float64")
    if found.registers is not None:
        assert 16 <= found.registers <= 64 and found.local_bytes == found.spilled_bytes == 0
        assert f"{found.registers} registers" in str(found)
    assert capped.inspect(x, s=30.0).ptx == found.ptx


def test_inspect_of_a_formula_that_takes_longer_than_memory(place):
    """A thread has more elements, if there are then still enough blocks for a GPU."""
    for shape, lanes in (((64, 512), 8), ((2048, 4096), 32)):
        found = capped.inspect(place.put(np.ones(shape, DTYPES["bfloat16"])), 30.0)
        assert found.bytes_per_thread == 2 * lanes * 2


def test_inspect_by_default_and_of_what_runs(place):
    found = capped.inspect()
    assert found.bytes_per_thread == 3 * 8 * 4
    ones = place.put(np.ones(4096, np.float32))
    close(place, capped(ones, 1.0), np.tanh(1))  # what was inspected is in no cache of what runs
    repeated = capped.inspect(place.put(np.ones((64, 4096), np.float32)), place.put(np.ones((64, 1), np.float32)))
    assert repeated.bytes_per_thread == 2 * 8 * 4 + 4
    assert "no launch" in str(capped.inspect(place.put(np.ones((0, 3))), 1.0))
    refused(DTypeError, "only scalars", run=lambda: capped.inspect(1.0, 2.0))
    with pytest.raises(TypeError, match="argument"):
        capped.inspect(ones)


def test_inspect_without_an_assembler(numpy_place, monkeypatch):
    """PTX all the same, and why there is nothing else."""
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    found = ew.kernel(lambda x: x * 5).inspect()
    assert found.ptx and found.registers is None and "assembler" in found.kernels[0].reason
    monkeypatch.setattr("numbacc.runtime.launch.ptx_of", lambda *more: 1 / 0)
    found = ew.kernel(lambda x: x * 6).inspect()
    assert found.ptx is None and "ZeroDivisionError" in str(found) and "def " in found.source


@pytest.fixture
def stopwatch(monkeypatch):
    """What measures time on a GPU, where there is none."""
    timing = types.ModuleType("timing")
    timing.copy_of = lambda nbytes: lambda: None
    timing.gpu_ms = lambda works, repeats: [work() for work in works.values()] and {"ours": 0.2, "copy": 0.1}
    monkeypatch.setitem(sys.modules, "numbacc.runtime.timing", timing)
    monkeypatch.setattr(signatures, "simulated", lambda: False)
    monkeypatch.setattr(signatures, "has_gpu", lambda: True)


def test_benchmarks_check_what_they_measure(place, stopwatch):
    found = capped.benchmark((20, 30), "bfloat16", s=30.0)
    assert (found.nbytes, found.bandwidth, found.shape, found.dtype) == (2400, 0.5, (20, 30), "bfloat16")
    assert "0.50 of a copy" in str(found) and "capped" in str(found)
    assert bent.benchmark(50).nbytes == 50 * (3 * 4 + 1)
    own = ew.kernel(lambda x: x)
    for wrong in (lambda x: x + 1, lambda x: np.where(x == x[0], np.nan, x)):
        with pytest.raises(numbacc.Error, match="NumPy"):
            signatures.check("it", np.arange(4.0), wrong(np.arange(4.0)))
    signatures.check("it", np.array([1.0, np.nan, np.inf]), np.array([1.0 + 1e-15, np.nan, np.inf]))
    with pytest.raises(numbacc.Error, match="NumPy"):
        signatures.check("it", np.array([True, False]), np.array([True, True]))
    refused(ShapeError, "shape", run=lambda: own.benchmark((0, 3)))
    refused(DTypeError, "dtype", "int32", run=lambda: own.benchmark(3, "int32"))
    refused(OptionError, "repeats", run=lambda: own.benchmark(3, repeats=0))
    refused(OptionError, "s is not a parameter", run=lambda: own.benchmark(3, s=1.0))
    refused(OptionError, "array", run=lambda: own.benchmark(3, x=1.0))
    refused(OptionError, "number", run=lambda: capped.benchmark(3, s="a"))


def test_a_benchmark_needs_a_gpu(place):
    if place.name != "gpu":
        refused(DeviceError, "GPU", run=lambda: capped.benchmark((20, 30)))
        return
    found = capped.benchmark((1024, 2048), s=30.0, repeats=3)
    assert found.nbytes == 2 * 1024 * 2048 * 4 and 0 < found.bandwidth < 20 and found.ms > 0


@skip_if(simulated(), "not simulated")
def test_what_kernels_of_16_bits_compile_to():
    """Quick divisions and roots, and as many elements a thread as fit into registers."""

    def adam(p, g, m, v, rate=0.1):
        m = m + 0.1 * (g - m)
        v = v + 0.01 * (g * g - v)
        return p - rate * m / (math.sqrt(v) + 1e-8), m, v

    x = np.ones((512, 1024), np.float16)
    found = ew.kernel(adam).inspect(x, x, x, x)
    assert "div.full" in found.ptx and "div.rn" not in found.ptx
    assert "sqrt.approx" in found.ptx and "sqrt.rn" not in found.ptx
    assert not found.local_bytes and found.bytes_per_thread == 7 * 16
    wide = ew.kernel(adam).inspect(*[x.astype(np.float32)] * 4)
    assert "div.rn" in wide.ptx and "div.full" not in wide.ptx
