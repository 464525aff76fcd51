"""The CUDA driver replaced by numbacc's stand-in, with which cuDNN makes plans on a machine that has none.

cuDNN loads its engines only where there is a libcuda. In the process of other tests the stand-in would be taken for a
driver, so `run` starts one, which this module is imported into first; where there is a driver, that is used.
"""

from __future__ import annotations

import ctypes.util

import pytest
from replaced_driver import CC, Replacement

from numbacc.libraries import stand_in

_DRIVER = Replacement("stubbed")
run, installed = _DRIVER.run, _DRIVER.installed

#: Whether this machine has a driver of its own.
HAS_DRIVER = ctypes.util.find_library("cuda") is not None
#: Whether `run` can work.
POSSIBLE = HAS_DRIVER or CC is not None

if installed():
    stand_in.load()


def needed():
    """Skip the module unless `run` has started this process, and cuDNN tells all that it asks for."""
    if not installed():
        pytest.skip("runs in a process of its own, started by test_cudnn.py", allow_module_level=True)
    from numbacc_bindings.cudnn import cudnn

    # 9.8, the first that makes plans without a handle, has no text for them, and says less of what is wrong.
    if cudnn.version() < 91900:
        pytest.skip("needs cuDNN 9.19 or newer", allow_module_level=True)


@pytest.fixture
def made():
    """A maker of cuDNN's descriptors, which are destroyed after the test."""
    from cudnn_graphs import Made

    found = Made()
    yield found
    found.destroy()
