"""Errors of a GPU's compiler in kernels that run in the simulator, and calls with a wrong number of arguments."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import refused
from skips import skip_if

import numbacc
from numbacc import gated
from numbacc.base.dispatch import simulated
from numbacc.errors import ArgumentsError, UnsupportedError

pytestmark = skip_if(not simulated(), "simulator")

if simulated():
    from numba import cuda, float32, float64

    from numbacc.tracing import compile_errors

    #: In a kernel, a global that is compiled in.
    COUNT, WEIGHTS = 8, (0.25, 0.5)

    @cuda.jit(device=True)
    def twice(value):
        return helper(value) * 2

    @cuda.jit(device=True)
    def helper(value):
        return value + WEIGHTS[1]

    def over(kind):
        """A kernel that has a closure."""

        @cuda.jit
        def made(x, y):
            s = cuda.shared.array(COUNT, kind)
            s[cuda.threadIdx.x] = x[cuda.threadIdx.x]
            cuda.syncthreads()
            y[cuda.threadIdx.x] = s[COUNT - 1 - cuda.threadIdx.x]

        return made

    @cuda.jit
    def fine(x, y, scale):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = twice(x[i]) * scale

    @cuda.jit
    def with_a_list(x, y):
        i = cuda.grid(1)
        pair = [x[i], x[i]]
        y[i] = pair[0] + pair[1]

    @cuda.jit
    def with_a_comprehension(x, y):
        i = cuda.grid(1)
        y[i] = len([k for k in range(2) if x[k] > 0])

    @cuda.jit
    def with_a_set(x, y):
        i = cuda.grid(1)
        y[i] = len({x[i], x[0]})

    @cuda.jit
    def with_a_dict(x, y):
        i = cuda.grid(1)
        found = {0: x[i]}
        y[i] = found[0]

    @cuda.jit
    def with_dot(x, y):
        i = cuda.grid(1)
        y[i] = np.dot(x, x)

    @cuda.jit
    def with_exp(x, y):
        i = cuda.grid(1)
        y[i] = np.exp(x[i])

    @cuda.jit
    def with_zeros(x, y):
        i = cuda.grid(1)
        part = np.zeros(4, np.float32)
        y[i] = part[0]

    @cuda.jit
    def with_any_shape(x, y):
        i = cuda.grid(1)
        s = cuda.shared.array(x.size, float32)
        s[i] = x[i]
        y[i] = s[i]

    @cuda.jit
    def with_except(x, y):
        i = cuda.grid(1)
        try:
            y[i] = x[i]
        except IndexError:
            pass

    @cuda.jit
    def with_text(x, y):
        i = cuda.grid(1)
        print(f"{x[i]}")

    @cuda.jit
    def with_slices(x, y):
        i = cuda.grid(1)
        if i == 0:
            y[:] = x[:]

    @cuda.jit
    def returning(x, y):
        i = cuda.grid(1)
        y[i] = x[i]
        return y[i]

    def plain(value):
        return value + 1

    @cuda.jit
    def with_a_plain_function(x, y):
        i = cuda.grid(1)
        y[i] = plain(x[i])

    #: (kernel, lines from its `def`, words of the message)
    ERRORS = [
        (with_a_list, 2, "makes a list, and a kernel cannot allocate memory"),
        (with_a_comprehension, 2, "makes a list"),
        (with_a_set, 2, "makes a set"),
        (with_a_dict, 2, "makes a dict"),
        (with_dot, 2, "kernels have no dot of arrays"),
        (with_exp, 2, "use math.exp"),
        (with_zeros, 2, "makes an array by np.zeros"),
        (with_any_shape, 2, "the shape of cuda.shared.array must be known when the kernel is compiled"),
        (with_except, None, "catches exceptions"),
        (with_text, 2, "formats a string"),
        (with_slices, 3, "makes an array"),
        (with_a_plain_function, 2, "calls plain, a plain Python function: decorate it with @cuda.jit(device=True)"),
        (returning, 3, "returns a value"),
    ]
else:
    ERRORS = [(None, 0, "")]


def run(kernel, *arguments, grid=1, block=8):
    with numbacc.trace() as t:
        kernel[grid, block](*arguments)
    return t


def arrays():
    return np.ones(8, np.float32), np.zeros(8, np.float32)


@pytest.mark.parametrize("kernel, line, words", ERRORS, ids=[getattr(each[0], "__name__", "none") for each in ERRORS])
def test_errors_have_their_line(kernel, line, words):
    (found,) = run(kernel, *arrays()).compile_errors
    assert found.kernel == kernel.__name__ and words in found.words
    first = kernel.fn.__code__.co_firstlineno + 1  # the decorator is one line
    assert found.line > first if line is None else found.line == first + line
    assert f"{kernel.__name__} cannot be compiled for a GPU: line {found.line}: " in str(found)


def test_kernels_that_compile_have_none():
    x, y = arrays()
    assert run(fine, x, y, 2.0).compile_errors == []
    assert run(over(float64), x, y).compile_errors == []
    wide = numbacc.asarray(np.ones((4, 6), np.float32))
    with numbacc.trace() as t:
        fine[1, 8](numbacc.asarray(x), numbacc.asarray(y), 3)
        fine[1, 8](wide[0, ::2], wide[1, ::2], np.float32(1))
        gated.forward(numbacc.asarray(x))  # numbacc's own are not compiled
    assert t.compile_errors == []


def test_other_types_of_arguments_are_compiled_too():
    @cuda.jit
    def shifted(x, y):
        i = cuda.grid(1)
        y[i] = x[i] << 1 if i < 0 else x[i]

    x, y = arrays()
    assert run(shifted, x.astype(np.int32), y).compile_errors == []
    t = run(shifted, x, y)
    assert [each.kernel for each in t.compile_errors] == ["shifted"]
    with t:
        shifted[1, 8](x.astype(np.int32), y)
    assert len(t.compile_errors) == 1


def test_without_a_compiler_it_says_so(monkeypatch):
    t = run(fine, *arrays(), 2.0)
    monkeypatch.setattr(compile_errors._compiler, "answer", lambda job: ("unable", "OSError: no libnvvm\nmore"))
    refused(
        UnsupportedError,
        "fine was not compiled for a GPU: OSError: no libnvvm. ",
        "pip install",
        run=lambda: t.compile_errors,
    )


def test_a_kernel_that_cannot_be_sent_says_so():
    import threading

    lock = threading.Lock()

    @cuda.jit
    def locked(x, y):
        if lock is not None:
            y[0] = x[0]

    refused(UnsupportedError, "locked was not compiled", "lock", run=lambda: run(locked, *arrays()).compile_errors)


def test_another_process_takes_the_place_of_one_that_ended():
    t = run(fine, *arrays(), 2.0)
    assert t.compile_errors == []
    compile_errors._compiler._process.kill()
    compile_errors._compiler._process.wait()
    assert t.compile_errors == []


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize("inside", [numbacc.trace, numbacc.debug])
@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_a_wrong_number_of_arguments(inside, count):
    given = [np.ones(8, np.float32)] * count
    with inside():
        words = "fine(x, y, scale) takes 3 arguments, and was given " + str(count)
        refused(ArgumentsError, words, run=lambda: fine[1, 8](*given))
        x, y = arrays()
        fine[1, 8](x, y, 2.0)
    np.testing.assert_array_equal(y, 6.0)
