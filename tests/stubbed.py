"""The CUDA driver replaced by a stub: with tests/stub_cuda.c cuDNN makes plans on a machine that has none.

cuDNN loads its engines only where there is a libcuda. In the process of other tests the stub would be taken for a
driver, so `run` starts one, which this module is imported into first; where there is a driver, that is used.
"""

from __future__ import annotations

import ctypes.util

import pytest
from replaced_driver import CC, Replacement

_DRIVER = Replacement("stubbed", "stub_cuda.c")
run, installed = _DRIVER.run, _DRIVER.installed

#: Whether this machine has a driver of its own.
HAS_DRIVER = ctypes.util.find_library("cuda") is not None
#: Whether `run` can work.
POSSIBLE = HAS_DRIVER or CC is not None

if installed() and not HAS_DRIVER:
    _DRIVER.load()


@pytest.fixture
def made():
    """A maker of cuDNN's descriptors, which are destroyed after the test."""
    from cudnn_graphs import Made

    found = Made()
    yield found
    found.destroy()
