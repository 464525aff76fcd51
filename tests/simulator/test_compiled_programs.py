"""Random kernels with barriers give the same in the compiled simulator and in a reference of generators."""

from __future__ import annotations

import linecache

import numpy as np
import pytest
from compiled_launch import three
from compiled_programs import BLOCKS, THREADS, Program, reference
from numba import cuda, int64

from numbacc.simulator.compiled.kernel import Kernel


def compiled(text, name, **options):
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names = {"cuda": cuda, "int64": int64, "THREADS": THREADS}
    exec(compile(text, name, "exec"), names)
    return Kernel(names["kernel"], **options)


@pytest.mark.parametrize("seed", [2, 3, 5, 11, 17, 23])
def test_random_programs(seed):
    text = Program(seed).text()
    x = np.random.default_rng(seed).integers(1, 50, THREADS * BLOCKS)
    wanted, found = np.full(x.size, 77), np.full(x.size, 77)
    reference(text, x.copy(), wanted)
    kernel = compiled(text, f"<program {seed}>")
    kernel.launch(three(BLOCKS), three(THREADS), 0, (x.copy(), found))
    np.testing.assert_array_equal(found, wanted, err_msg=text)
    assert found.min() < found.max()
