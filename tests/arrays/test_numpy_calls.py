"""NumPy's functions, methods and operators of device arrays against NumPy: its result, or an error of numbacc's."""

# ruff: noqa: E501
from __future__ import annotations

import re

import numpy as np
import pytest
from conftest import refused
from numpy_calls import HOST, LINES, compared, is_known

import numbacc
from numbacc import numpy_functions
from numbacc.arrays import methods, protocols
from numbacc.base.dispatch import simulated

pytestmark = pytest.mark.filterwarnings("ignore")
#: Parts that all lines are run in. In the simulator, and on a GPU, which compiles kernels, one line in so many is run.
#: In the simulator half of the parts are slow.
PARTS, FEWER = 16, 7 if simulated() else 11


@pytest.mark.parametrize(
    "part", [pytest.param(k, marks=[pytest.mark.slow] * (simulated() and k >= 8)) for k in range(PARTS)]
)
@pytest.mark.sampled(simulated=2)
def test_numpys_result_or_an_error(device_place, part):
    wrong = {}
    for line in LINES[part :: PARTS * FEWER]:
        found, _ = compared(line, device_place.put, 64)
        if found and not is_known(line, found):
            wrong[line] = found
    assert not wrong


def test_every_function_is_called():
    text = "\n".join(LINES)
    for table in (numpy_functions.FUNCTIONS, protocols._FUNCTIONS, protocols._ANSWERS):
        for function in {*table} - {np.empty_like}:
            assert re.search(rf"\b{function.__name__}\(", text), function
    for name in {*protocols.METHODS, *vars(methods.Methods)} - {"__module__", "__doc__", "__slots__", "__round__"}:
        assert re.search(rf"\.{name}\b", text) or name in ("to_device",), name


#: Lines that must have a result, not an error.
WORKS = """
    np.average(x, 0, weights=w[:2]) | np.average(x, axis=1, weights=w) | np.average(a, (2, 0), weights=q[:2, :2])
    np.average(u, weights=u) | np.average(l, axis=-1, weights=w) | np.average(f, 1, w, keepdims=True)
    np.isclose(j, b) | np.isclose(l, l) | np.allclose(k, k) | np.allclose(x, 1.0) | np.isclose(x, 2) | np.isclose(2, x)
    (z.real.fill(0), z) | (z.imag.fill(5), z) | (setattr(z, 'imag', 2), z) | (z.T.real[1:].fill(7), z) | x[::2].ravel()
    v[::2].ravel() | x.T.ravel() | np.copyto(x, i) | (np.copyto(x, 1.5, where=b), x) | (x.fill(s), x) | x.reshape(-1, copy=True)
    np.append(x, 5) | np.append(f, 5) | np.append(f, np.float32(5)) | np.append(v, v) | np.heaviside(2, x) | np.heaviside(x, 2)
    np.heaviside(0, f) | np.heaviside(np.float64(2), f) | np.outer(x, 3) | np.dot(x, 2) | np.dot(2, x) | np.vdot(v[:1], 2.0)
    np.hstack([v, 2]) | np.vstack([o, 2]) | np.column_stack([o, 2]) | np.dstack([s, 2]) | np.meshgrid(v, 2.0)
    np.broadcast_arrays(x, 2) | np.atleast_1d(x, 5) | np.atleast_2d(5, v) | np.atleast_3d(x, 2.0) | np.roll(x, [1, 1], axis=(0, 1))
    np.roll(x, [1, 2]) | np.roll(x, (1, 2), axis=0) | np.tile(x, np.int64(2)) | np.tile(x, np.array([2, 1])) | np.inner(2, x)
    np.array_split(v, np.int64(2)) | np.angle(b) | np.round(b) | x.conj() | np.vecdot(a, a, axis=0) | np.hypot(u, k)
"""


@pytest.mark.parametrize("line", [each.strip() for each in WORKS.replace("\n", "|").split("|") if each.strip()])
def test_what_works(device_place, line):
    assert compared(line, device_place.put, 8) == ("", True)


@pytest.mark.parametrize(
    "line",
    [
        "np.average(x, weights=w)", "np.average(x, 0, weights=w)", "np.diff(x, -1)", "np.copyto(k, 1.5)", "np.copyto(k, i > 0.5, where=i)",
        "np.copyto(i, x)", "np.copyto(f, 1j)", "x.fill(v)", "x.fill([1.0, 2.0, 3.0])", "np.outer(x, [1, 2])", "np.dot(x, [1, 2, 3])",
        "np.append(x, [1.0])", "np.hstack([v, [1.0]])", "np.vdot(x, 2)", "np.vdot(x, [2])", "np.heaviside([2.0], x)", "np.heaviside(x, None)",
        "np.meshgrid(v, [1, 2])", "np.broadcast_arrays(x, [1])", "np.broadcast_arrays(x, v[:2])", "np.atleast_1d(x, [5])", "np.isclose(x, [1, 2, 3])",
        "np.allclose(x, None)", "np.isclose(x, x, rtol='a')", "np.roll(x, 1.0)", "np.tile(x, 1.5)", "np.split(v, 3.0)", "i ** -1", "b ** 2",
        "np.isposinf(z)", "np.vsplit(v, 1)", "np.linalg.outer(x, v)", "np.matvec(v, v)", "np.ldexp(x, 2.5)", "np.round(x, 400)", "np.append(x, 'a')",
        "np.dot(x, np.array([1.0, 2.0, 3.0]))", "np.append(x, np.array([1.0]))", "x.imag.fill(1)", "np.rot90(x, 1, (0,))",
    ],
)  # fmt: skip
def test_what_is_an_error(device_place, line):
    here = {name: device_place.put(each) for name, each in HOST.items()}
    with pytest.raises(numbacc.Error):
        eval(line, {"np": np, **here})


@pytest.mark.parametrize("shuffle", [np.random.shuffle, np.random.default_rng(0).shuffle])
def test_shuffles(device_place, shuffle):
    """Numbers are exchanged as in NumPy. Rows are views, so an exchange would make two copies of one row."""
    x = device_place.put(np.arange(8.0).reshape(4, 2))
    refused(numbacc.LayoutError, "shuffle", "take", run=lambda: shuffle(x))
    v = device_place.put(np.arange(8.0))
    shuffle(v)
    assert sorted(device_place.get(v)) == [*range(8)]
    x[0] = x[1]  # an assignment of Python's
    x[1:] = x[:-1]
    x[0] += x[3]
    assert device_place.get(x)[2].tolist() == [2, 3]
