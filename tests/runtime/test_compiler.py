"""What is left out when kernels are compiled, which must show neither in their PTX nor in Numba."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from ptx import pretended, spec
from row_ptx import dense, orders_of
from skips import skip_if

from numbacc.base import _numba
from numbacc.base.dispatch import simulated
from numbacc.elementwise import norms, reduction_plan, scans
from numbacc.functions.formula import Formula
from numbacc.kernels.primitives.instructions import hardware
from numbacc.kernels.specs import KernelSpec
from numbacc.runtime import kernel_code

pytestmark = skip_if(simulated(), "not simulated")

KERNELS = {
    "a map": lambda: [spec("vector", "gated.backward.geglu", "bfloat16")],
    "a sum": lambda: [
        order.kernel for order in orders_of(reduction_plan.planned("sum", dense((64, 4096), "float32"), 1, None))
    ],
    "a scan": lambda: [order.kernel for order in orders_of(scans.planned("cumsum", dense((64, 64), "float16"), 0))],
    "rows": lambda: [order.kernel for order in orders_of(norms.planned("softmax", (dense((64, 4096), "bfloat16"),)))],
}


def compiled(kernel, capability=(9, 0)):
    """PTX in words, without the names that Numba makes up, and without the variables of functions that are inlined."""
    with pretended(capability):
        made = kernel_code.make(kernel)
        ptx, _ = _numba.compile_ptx(made, kernel_code.signature(kernel), capability, kernel.launch_bounds)
    text, names = re.sub(r"^\.common .*$|//.*$", "", ptx, flags=re.MULTILINE), {}
    return re.sub(
        r"(?:\b_ZN|_cudapy_smem)\w+", lambda name: names.setdefault(name.group(), f"name{len(names)}"), text
    ).split()


@lru_cache(maxsize=8)
def words(kind):
    """The words of a kind's kernels, registers without their numbers; sorted, as the order of functions, and with it
    that of independent instructions, is another one in each process."""
    return [sorted(re.sub(r"%\w*\d+", "%", word) for word in compiled(kernel)) for kernel in KERNELS[kind]()]


def by_numba_alone(kind):
    """`words` of a process in which Numba is of a version that numbacc does not know from within."""
    script = (
        "import json, numba_cuda; numba_cuda.__version__ = '99.0'; "
        "import sys, test_compiler; assert 'numbacc.base._compiler' not in sys.modules; "
        f"print(json.dumps(test_compiler.words({kind!r})))"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    found = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(found.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KERNELS)
def test_the_ptx_is_that_of_numba_alone(kind):
    assert words(kind) == by_numba_alone(kind)


@pytest.mark.parametrize("first, then", [((7, 5), (9, 0)), ((9, 0), (7, 5))])
def test_a_process_compiles_for_several_gpus(first, then):
    """A device function that all kernels share has other instructions on each: the maximum is one from 8.0 on."""

    greatest = hardware.greatest

    def kernel(seed):
        @_numba.cuda.jit(device=True)
        def largest(x, y):
            return greatest(x, y) + seed

        def kernel(x):
            x[0] = largest(x[1], x[2])

        return kernel

    found = {}
    made = kernel(first[0])
    for capability in (first, then):
        with pretended(capability):
            found[capability], _ = _numba.compile_ptx(
                made, _numba.types.void(_numba.types.float32[::1]), capability, (32, 1)
            )
    assert "max.NaN.f32" in found[9, 0] and "max.NaN.f32" not in found[7, 5]


def numba_as_it_is():
    from numbacc.base import _compiler

    owners = (
        _compiler.CUDACompiler,
        _compiler.CUDADispatcher,
        _compiler.CUDATypingContext,
        _compiler.CUDATargetContext,
        _compiler.CUDACodeLibrary,
        _compiler.CUDABytecodeInterpreter,
        _compiler.PassManager,
        _compiler.PostProcessor,
        _compiler._BaseFunction,
        _compiler.config,
        _compiler.nvvm,
        _compiler.ssa,
        _compiler.utils,
    )
    return [dict(vars(owner)) for owner in owners]


def test_numba_is_left_as_it_was():
    before = numba_as_it_is()
    with _numba.short_cuts((9, 0)):
        assert numba_as_it_is() != before
    assert numba_as_it_is() == before
    with pytest.raises(ZeroDivisionError), _numba.short_cuts((9, 0)):
        raise ZeroDivisionError
    assert numba_as_it_is() == before


@pytest.mark.parametrize("missing", [True, False])
def test_what_numba_cannot_type_is_tried_again_with_all_that_it_knows(missing, monkeypatch):
    tried = []

    def compiled(*kernel):
        tried.append(kernel)
        if len(tried) == 1 or not missing:
            raise _numba.NumbaError("unknown")
        return ".visible .entry kernel()"

    monkeypatch.setattr(_numba, "_compiled", compiled)
    monkeypatch.setattr(_numba, "load_all", lambda: missing)
    if missing:
        assert _numba.compile_ptx(None, None, (9, 0), (1, 1)) == (".visible .entry kernel()", "kernel")
    else:
        with pytest.raises(_numba.NumbaError):
            _numba.compile_ptx(None, None, (9, 0), (1, 1))
    assert len(tried) == 1 + missing


def test_all_that_numba_knows_is_loaded_once():
    _numba.load_all()
    assert not _numba.load_all()

    def kernel(x):
        x[0] = np.float16(x[0]) + np.float16(1)

    ptx, _ = _numba.compile_ptx(kernel, _numba.types.void(_numba.types.float32[::1]), (9, 0), (32, 1))
    assert "f16" in ptx


def test_an_element_at_a_known_place_is_none_at_another():
    """Numba has a function for each known place of a tuple: in `while` it is known where k begins, and only there."""
    table = (1.5, 2.5, 3.5)

    def looked_up(x):
        for k in range(4):
            x = x + table[k % 3] * k
        return x

    def added_up(x):
        k = 0
        while k < 3:
            x = x + table[k] * k
            k = k + 1
        return x

    for formula in (looked_up, added_up):
        found = compiled(
            KernelSpec("scalar", Formula("own", formula), ("float32",), ("float32",), 1, False, compute="float32")
        )
    assert "0f40200000;" in found and "0f3FC00000;" not in found  # 2.5 is added, 1.5 is not


def returning(value):
    def function():
        return value

    return _numba.cuda.jit(device=True)(function)


def first(dispatcher, capability=(9, 0)):
    from numbacc.base import _compiler

    with _numba.short_cuts(capability):
        return _compiler._functions.first(dispatcher)


VALUES = (0, 1, True, 0.0, -0.0, 1.0, np.float32(1), np.float64(1), "1", (1,), (1.0,), [1], {1: 2}, {1: 3}, None, int)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_equal_functions_are_one(value):
    kept = returning(value)
    assert first(returning(value)) is first(kept)
    assert first(returning(returning(value))) is first(returning(kept))
    for other in VALUES:
        if other is not value:
            assert first(returning(other)) is not first(kept)
            assert first(returning(returning(other))) is not first(returning(kept))


def test_other_functions_are_not():
    """Those for other GPUs, of objects that nothing is known of, and those that call themselves."""
    kept = returning(1)
    assert first(returning(1), (8, 0)) is not first(kept)
    assert first(returning(object())) is not first(returning(object()))

    def recursive():
        def function(n):
            return n and function(n - 1)

        return _numba.cuda.jit(device=True)(function)

    assert first(recursive()) is not first(recursive())
