"""The benches report nothing of a wrong result: what their checks see, on arrays of the CPU."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from conftest import doubled
from skips import needed

from numbacc import gated
from numbacc.bench import gated as bench
from numbacc.bench import peers

#: The exact result by NumPy, and by torch.
LIBRARIES = ("numpy", "torch")


@pytest.fixture(params=LIBRARIES)
def library(request):
    return None if request.param == "numpy" else needed("torch", "torch")


def arguments(case, dtype):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(case.shape[::-1] if case.transposed else case.shape)
    dy = rng.standard_normal(bench._half(case))
    return (x.T if case.transposed else x).astype(dtype), dy.astype(dtype)


def small(shape, axis, transposed=False):
    return bench.Case("small", shape, axis, 1.0, (), False, transposed)


def run(case, kind, direction, x, dy):
    if direction == "forward":
        return gated.forward(x, kind, axis=case.axis)
    return gated.backward(dy, x, kind, axis=case.axis)


CASES = [small((60, 34), -1), small((34, 5, 4), 0), small((7, 12, 4), 1), small((40, 20), -1, True)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.shape} {case.axis}")
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("kind", oracle.KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_every_element_is_checked(library, case, direction, kind, dtype):
    """Wherever a single one is wrong, by little or not a number, also where the part's end is no round one."""
    x, dy = arguments(case, dtype)
    check = bench._Check(case, kind, direction, x, dy, library)
    check._step = 7
    y = run(case, kind, direction, x, dy)
    error, right = check(y)
    assert right and error < 2 * bench._eps(dtype)
    rng = np.random.default_rng(0)
    for value in (np.nan, np.inf, 9.0):
        for index in (0, -1, *rng.integers(0, y.size, 3)):
            wrong = y.copy()
            wrong.flat[index] = value
            assert not check(wrong)[1]
    wrong = y.copy()
    largest = np.abs(y.astype(np.float64)).argmax()
    wrong.flat[largest] *= 1 + (4 if dtype == "float16" else 200) * bench._eps(dtype)  # of a number above 1
    assert not check(wrong)[1]
    assert not check(np.zeros_like(y))[1]


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("kind", oracle.KINDS)
def test_torchs_exact_results_are_the_oracles(direction, kind):
    torch = needed("torch", "torch")
    case = small((6, 8), -1)
    x, dy = arguments(case, "float32")
    found = peers.exact_gated(torch, direction, kind, -1, *map(torch.from_dlpack, (dy, x))).numpy()
    a, b = np.split(x, 2, -1)
    wanted = oracle.forward(a, b, kind) if direction == "forward" else oracle.backward(dy, a, b, kind)
    wanted = wanted if direction == "forward" else np.concatenate(wanted, -1)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)


def test_cases_are_split_in_two():
    for case in bench.CASES:
        assert doubled(bench._half(case), case.axis) == case.shape
