"""The compiled simulator names the line of a kernel that it cannot compile."""

from __future__ import annotations

import math

import numpy as np
import pytest
from compiled_launch import three
from numba import cuda, float32

from numbacc import KernelError, UnsupportedError
from numbacc.simulator.compiled.kernel import Kernel


def line_of(function, text):
    """The line of a kernel that holds this text."""
    import inspect

    lines, first = inspect.getsourcelines(getattr(function, "py_func", None) or getattr(function, "fn", function))
    return first + next(k for k, each in enumerate(lines) if text in each)


@cuda.jit(device=True)
def countdown(n):
    return 0 if n == 0 else countdown(n - 1)


@cuda.jit(device=True)
def odd(n, s):
    cuda.syncthreads()
    return 0 if n == 0 else even(n - 1, s)


@cuda.jit(device=True)
def even(n, s):
    return 1 if n == 0 else odd(n - 1, s)


@cuda.jit(device=True)
def with_a_barrier(x):
    which = 3
    if cuda.threadIdx.x:
        which = x
    cuda.syncthreads()
    return which[0]


@cuda.jit(device=True)
def out_of_bounds(x, i):
    part = x[4:]
    return part[i]


def kernels():
    @cuda.jit
    def recursion(x):
        x[0] = countdown(x[0])

    yield recursion, "recursion", None

    @cuda.jit
    def mutual_recursion(x):
        x[0] = odd(3, x)

    yield mutual_recursion, "recursion", None

    @cuda.jit
    def unknown_name(x):
        cuda.syncthreads()
        x[0] = cuda.no_such_thing(1)

    yield unknown_name, "cuda.no_such_thing", "no_such_thing"

    @cuda.jit
    def shape_that_is_not_constant(x):
        n = x.size
        s = cuda.shared.array(n, float32)
        x[0] = s[0]

    yield shape_that_is_not_constant, "not a constant", "shared.array"

    @cuda.jit
    def types_that_do_not_fit(x):
        k = cuda.threadIdx.x
        x[k] = "text" + k

    yield types_that_do_not_fit, "", '"text"'

    @cuda.jit
    def a_with_statement(x):
        with open("file"):
            cuda.syncthreads()

    yield a_with_statement, "with open", "with open"

    @cuda.jit
    def a_comprehension(x):
        x[0] = sum([i + 1 for i in range(3)])

    yield a_comprehension, "i + 1 for i in range(3)", "for i in"

    @cuda.jit
    def _nb_name(x):
        _nb_t = 3
        x[0] = _nb_t

    yield _nb_name, "_nb_t", None

    @cuda.jit
    def nowhere(x):
        x[0] = missing_name + math.sin(1)  # noqa: F821

    yield nowhere, "missing_name", "missing_name"

    @cuda.jit
    def list_across_barrier(x):
        a = [x[0], 2]
        cuda.syncthreads()
        x[0] = a[cuda.threadIdx.x]

    yield list_across_barrier, "", None

    @cuda.jit
    def a_number_or_an_array(x):
        value = 3
        if cuda.threadIdx.x:
            value = 4
            value = x[1:]
        x[0] = value[1]

    yield a_number_or_an_array, "for 'value'", "value = x[1:]"

    @cuda.jit
    def a_variable_of_a_device_function(x):
        x[0] = with_a_barrier(x)

    yield a_variable_of_a_device_function, "for 'which'", None


@pytest.mark.parametrize(("function", "words", "text"), [pytest.param(*k, id=k[0].__name__) for k in kernels()])
def test_errors_name_the_line(function, words, text):
    with pytest.raises(UnsupportedError) as caught:
        Kernel(function).launch(three(1), three(32), 0, (np.zeros(32, np.int64),))
    message = str(caught.value)
    assert words in message and "test_compiled_mistakes.py:" in message and "NUMBA_ENABLE_CUDASIM=1" in message
    if text:
        assert f"test_compiled_mistakes.py:{line_of(function, text)}:" in message


def test_errors_name_variables_as_the_user_does():
    @cuda.jit
    def kernel(x, y):
        x = x[1:]
        y[cuda.threadIdx.x] = out_of_bounds(x, cuda.threadIdx.x)

    @cuda.jit
    def of_several_types(x, y):
        value = 1
        y[cuda.threadIdx.x] = value
        value = x[1:]
        y[cuda.threadIdx.x] = value[cuda.threadIdx.x]

    for function, name in ((kernel, "part"), (of_several_types, "value")):
        with pytest.raises(KernelError, match=rf"out of bounds of axis 0 of {name}, in thread"):
            Kernel(function, checked=True).launch(three(1), three(32), 0, (np.zeros(32), np.zeros(32)))


def test_arguments_are_counted():
    @cuda.jit
    def kernel(x):
        x[0] = 1

    with pytest.raises(TypeError, match="kernel takes 1 argument"):
        Kernel(kernel).launch(three(1), three(1), 0, (np.zeros(3), 1))
