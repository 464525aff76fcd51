"""Numba compiles kernels for the CPU with less work: one module of machine code, the same results, Numba unchanged."""

from __future__ import annotations

import math

import numpy as np
import pytest
from llvmlite.binding import newpassmanagers
from numba import njit
from numba.core import codegen, cpu, event, postproc, ssa
from numba.core.types.functions import BaseFunction
from numba.core.typing.templates import _OverloadFunctionTemplate
from skips import skip_if

from numbacc import cuda
from numbacc.base.dispatch import simulated
from numbacc.simulator.compiled.kernel import Kernel
from numbacc.simulator.compiled.short_cuts import short_cuts

pytestmark = skip_if(simulated(), "not simulated")
OWNERS = (
    codegen.CPUCodeLibrary,
    cpu.CPUContext,
    event,
    postproc.PostProcessor,
    ssa,
    BaseFunction,
    _OverloadFunctionTemplate,
    newpassmanagers.FunctionPassManager,
    newpassmanagers.ModulePassManager,
)


def numba_as_it_is():
    return [dict(vars(owner)) for owner in OWNERS]


def test_numba_is_left_as_it_was():
    before = numba_as_it_is()
    with short_cuts():
        assert all(now != old for now, old in zip(numba_as_it_is(), before, strict=True))
    assert numba_as_it_is() == before
    with pytest.raises(ZeroDivisionError), short_cuts():
        raise ZeroDivisionError
    assert numba_as_it_is() == before


def test_pass_managers_are_freed(monkeypatch, tmp_path):
    """llvmlite frees none by itself: compiled kernels would keep half a megabyte each."""
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    made, freed = [], []

    def count(owner, name, calls):
        method = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *args, **options: calls.append(name) or method(*args, **options))

    count(codegen.CPUCodegen, "_function_pass_manager", made)
    count(codegen.CPUCodegen, "_module_pass_manager", made)
    count(newpassmanagers.NewPassManager, "_dispose", freed)
    kernel, _ = fractions_of(6.25)
    Kernel(kernel).launch((1, 1, 1), (32, 1, 1), 0, (np.ones(32),))
    assert len(freed) == len(made) > 3


def test_unknown_versions_of_numba_are_left_alone(monkeypatch):
    monkeypatch.setattr("numba.__version__", "99.0")
    before = numba_as_it_is()
    with short_cuts():
        assert numba_as_it_is() == before
    kernel, meaning = fractions_of(5.75)
    x = np.linspace(-9, 9, 32)
    wanted = [meaning(each) for each in x.tolist()]
    Kernel(kernel, checked=True).launch((1, 1, 1), (32, 1, 1), 0, (x,))
    np.testing.assert_array_equal(x, wanted)


def fractions_of(seed):
    """Return a kernel that is not on disk, and its meaning."""

    @cuda.jit
    def kernel(x):
        i = cuda.grid(1)
        whole, rest = math.modf(x[i])[1], math.fmod(x[i], seed)
        x[i] = max(min(whole, 100), -100) + math.remainder(rest, 2.5)

    def meaning(x):
        return max(min(math.modf(x)[1], 100), -100) + math.remainder(math.fmod(x, seed), 2.5)

    return kernel, meaning


@pytest.mark.parametrize("checked", [False, True])
def test_one_module_of_a_kernel_is_translated(checked, monkeypatch, tmp_path):
    """The modules of functions that it calls, and of the checks, become part of it."""
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    first, _ = fractions_of(1.5)
    Kernel(first).launch((1, 1, 1), (32, 1, 1), 0, (np.ones(32),))  # it loads Numba's runtime
    added, add = [], codegen.JITCPUCodegen._add_module

    def counted(own, module):
        added.append(module.name)
        return add(own, module)

    monkeypatch.setattr(codegen.JITCPUCodegen, "_add_module", counted)
    kernel, meaning = fractions_of(7.5 + checked)
    x = np.linspace(-300, 300, 64)
    wanted = [meaning(each) for each in x.tolist()]
    Kernel(kernel, checked=checked).launch((2, 1, 1), (32, 1, 1), 0, (x,))
    np.testing.assert_array_equal(x, wanted)
    assert len(added) == 1, added


def test_numba_can_use_what_kernels_left_untranslated():
    kernel, meaning = fractions_of(3.25)
    Kernel(kernel).launch((1, 1, 1), (32, 1, 1), 0, (np.linspace(-9, 9, 32),))
    # The options of kernels, so that Numba takes the functions that it has compiled for them.
    options = {"error_model": "numpy", "nogil": True, "fastmath": {"contract"}}

    @njit(**options)
    def outside(x):
        return math.modf(x)[1] + math.remainder(math.fmod(x, 3.25), 2.5), math.fmod(x, 2.0)

    for x in (-8.75, 0.5, 1e3 + 0.125):
        assert outside(x) == (math.modf(x)[1] + math.remainder(math.fmod(x, 3.25), 2.5), math.fmod(x, 2.0))
    assert meaning(2.0) == 2.0 + math.remainder(2.0, 2.5)


def test_users_functions_in_a_kernel_can_be_called_from_python():
    @njit
    def squared(x):
        return x * x + 0.25

    @cuda.jit
    def kernel(x):
        x[cuda.grid(1)] = squared(x[cuda.grid(1)])

    x = np.arange(32.0)
    Kernel(kernel).launch((1, 1, 1), (32, 1, 1), 0, (x,))
    np.testing.assert_array_equal(x, np.arange(32.0) ** 2 + 0.25)
    assert squared(3.0) == 9.25
