"""What is left out when kernels are compiled, which must show neither in their PTX nor in Numba."""

from __future__ import annotations

import re
from contextlib import nullcontext

import numpy as np
import pytest
from ptx import pretended, spec
from skips import skip_if
from test_reductions_ptx import dense, orders_of

from numbacc.base import _numba
from numbacc.base.dispatch import simulated
from numbacc.elementwise import normalizing, reducing, scanning
from numbacc.kernels import registry
from numbacc.kernels.specs import launch_bounds

pytestmark = skip_if(simulated(), "not simulated")

KERNELS = {
    "a map": lambda: [spec("vector", "gated.backward.geglu", "bfloat16")],
    "a sum": lambda: [
        order.kernel for order in orders_of(reducing.planned("sum", dense((64, 4096), "float32"), 1, None))
    ],
    "a scan": lambda: [order.kernel for order in orders_of(scanning.planned("cumsum", dense((64, 64), "float16"), 0))],
    "rows": lambda: [
        order.kernel for order in orders_of(normalizing.planned("softmax", (dense((64, 4096), "bfloat16"),)))
    ],
}


def compiled(kernel, capability=(9, 0)):
    """PTX in words, without the names that Numba makes up, and without the variables of functions that are inlined."""
    with pretended(capability):
        made = registry.make(kernel)
        ptx, _ = _numba.compile_ptx(made, registry.signature(kernel), capability, launch_bounds(kernel))
    text, names = re.sub(r"^\.common .*$|//.*$", "", ptx, flags=re.MULTILINE), {}
    return re.sub(
        r"(?:\b_ZN|_cudapy_smem)\w+", lambda name: names.setdefault(name.group(), f"name{len(names)}"), text
    ).split()


@pytest.mark.parametrize("kind", KERNELS)
def test_the_ptx_is_that_of_all_passes(kind, monkeypatch):
    for kernel in KERNELS[kind]():
        found = compiled(kernel)
        with monkeypatch.context() as patch:
            patch.setattr(_numba, "short_cuts", lambda capability: nullcontext())
            wanted = compiled(kernel)
        # The order of functions, and with it that of independent instructions, is another one in each process.
        assert sorted(re.sub(r"%\w*\d+", "%", word) for word in found) == sorted(
            re.sub(r"%\w*\d+", "%", word) for word in wanted
        )


def numba_as_it_is():
    from numbacc.base import _compiler

    owners = (
        _compiler.CUDACompiler,
        _compiler.CUDADispatcher,
        _compiler.CUDATypingContext,
        _compiler.CUDATargetContext,
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
