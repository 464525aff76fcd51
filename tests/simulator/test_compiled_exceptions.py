"""`raise` and `assert` in kernels of the compiled simulator."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from skips import skip_if

import numbacc
from numbacc import cuda
from numbacc.base.dispatch import simulated
from numbacc.errors import KernelError, UnsupportedError

CHECKED = pytest.mark.parametrize("checked", [False, True], ids=["unchecked", "checked"])


class Negative(ArithmeticError):
    """An exception of users'."""


class Special(UnicodeDecodeError):
    """An exception whose constructor takes other arguments."""


@cuda.jit
def asserts(x, y):
    s = cuda.shared.array(32, cuda.int64)
    k = cuda.threadIdx.x
    s[k] = x[cuda.grid(1)]
    cuda.syncthreads()
    assert s[31 - k] < 50, "too large"
    cuda.syncthreads()
    y[cuda.grid(1)] = s[31 - k]


@cuda.jit(device=True)
def root(v):
    if v < 0:
        raise Negative("no real root", 2)
    return v**0.5


@cuda.jit
def roots(x, y):
    i = cuda.grid(1)
    if x[i] == 5:
        raise ValueError
    for turn in range(3):
        y[i] = root(x[i]) + turn


@cuda.jit
def specials(x):
    if x[0]:
        raise Special("utf-8")


@cuda.jit
def of_an_object(x):
    raise x


def line(kernel, text):
    lines = __import__("inspect").getsource(kernel.py_func).splitlines()
    return kernel.py_func.__code__.co_firstlineno + next(k for k, each in enumerate(lines) if text in each)


@CHECKED
def test_an_assertion_that_holds_and_one_that_does_not(checked):
    x, y = np.arange(64) % 32, np.full(64, -1)
    with numbacc.simulate(checked=checked):
        asserts[2, 32](x, y)
        np.testing.assert_array_equal(y, 31 - x)
        x[32 + 20] = 50
        with pytest.raises(AssertionError, match="too large") as caught:
            asserts[2, 32](x, y)
    assert isinstance(caught.value, KernelError) and isinstance(caught.value, numbacc.Error)
    assert (caught.value.thread, caught.value.block) == ((11, 0, 0), (1, 0, 0))
    assert caught.value.line == line(asserts, "assert s") and caught.value.file == __file__
    assert "test_compiled_exceptions.py:" in str(caught.value) and "(11, 0, 0)" in str(caught.value)


@CHECKED
def test_exceptions_of_device_functions(checked):
    x, y = np.arange(6.0, 22.0), np.full(16, -1.0)
    with numbacc.simulate(checked=checked):
        roots[2, 8](x, y)
        np.testing.assert_allclose(y, np.sqrt(x) + 2)
        x[3] = -4
        with pytest.raises(Negative, match="no real root, 2") as caught:
            roots[2, 8](x, y)
        assert caught.value.thread == (3, 0, 0)
        x[3] = 5
        with pytest.raises(ValueError, match="raised ValueError"):
            roots[2, 8](x, y)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert type(copied) is KernelError and str(copied) == str(caught.value) and copied.thread == (3, 0, 0)


def test_classes_with_constructors_of_their_own():
    with numbacc.simulate(), pytest.raises(KernelError, match="raised Special: utf-8"):
        specials[1, 1](np.ones(1))


def test_only_classes_can_be_raised():
    with numbacc.simulate(), pytest.raises(UnsupportedError, match=r"raise an exception by its class|not a constant"):
        of_an_object[1, 1](np.ones(1))


@cuda.jit
def counts(x, y):
    y[cuda.grid(1)] = cuda.syncthreads_count(x[cuda.grid(1)] > 3)


def test_votes_of_a_block_need_integers_as_on_a_gpu():
    with numbacc.simulate(), pytest.raises(UnsupportedError, match="syncthreads_count, _and and _or need an integer"):
        counts[1, 32](np.arange(32), np.zeros(32))


@cuda.jit("void(int32[:], int32, uint8)")
def stores(y, a, b):
    y[0], y[1] = a, b


@skip_if(simulated(), "not simulated")
def test_integers_beyond_a_signature_lose_their_upper_bits():
    y = np.full(2, -1, np.int32)
    with numbacc.simulate():
        stores[1, 1](y, 0xFFFF_FFF0, -1)
    assert y.tolist() == [-16, 255]


@cuda.jit
def moves(x, y):
    x = x[1:]
    y[cuda.grid(1)] = x[cuda.grid(1)]


def test_messages_name_parameters_that_are_assigned():
    with numbacc.simulate(checked=True), pytest.raises(KernelError, match="index 7 is out of bounds of axis 0 of x"):
        moves[1, 8](np.arange(8), np.zeros(8))
