"""The choice between a GPU and Numba's simulator, and the messages where the choice comes too late."""

from __future__ import annotations

import re

import pytest
from entering import ENTERING, HOW, says


@pytest.mark.parametrize(
    "before, words",
    [
        # numba-cuda may be missing.
        ("import numbacc", "compiles kernels for a GPU|target cannot even be imported"),
        ("import numba, os; os.environ['NUMBA_ENABLE_CUDASIM'] = '1'; import numbacc", "too late"),
        ("import numba.cuda, os; os.environ['NUMBA_ENABLE_CUDASIM'] = '1'; import numbacc", "too late"),
        ("import sys; sys.modules['numba'] = None; import numbacc", "pip install numba"),
        ("import sys; sys.modules['numba.cuda.core'] = None; import numbacc", "target cannot even be imported"),
    ],
    ids=["compiled", "too late", "too late for its target", "no numba", "no target"],
)
def test_without_a_simulator(before, words):
    printed = says(before + ENTERING)
    assert re.search(words, printed) and HOW in printed, printed


WORKING = """
import numpy as np
x = numbacc.asarray(np.array([1.0, 2.0], "f4"))
print(numbacc.asnumpy(x + 1), numbacc.base.dispatch.simulated())
"""


@pytest.mark.parametrize("module", ["numba", "numba.cuda"])
@pytest.mark.parametrize("value", ["1", "0"])
def test_the_environment_changes_after_numba_was_imported(module, value):
    """Numba reads the environment when it is imported, and its decision counts."""
    before = f"import {module}, os; os.environ['NUMBA_ENABLE_CUDASIM'] = '{value}'; import numbacc"
    assert says(before + WORKING, simulate=str(1 - int(value))) == f"[2. 3.] {value == '0'}\n"


def test_a_simulator_that_is_asked_for_too_late_warns():
    code = "import numba.cuda, os, warnings; os.environ['NUMBA_ENABLE_CUDASIM'] = '1'; import numbacc\n"
    code += "with warnings.catch_warnings(record=True) as found:\n    numbacc.has_gpu(); numbacc.has_gpu()\n"
    printed = says(code + "print(len(found), found[0].message)")
    assert printed.startswith("1 ") and "after Numba had been imported" in printed and HOW in printed


@pytest.mark.parametrize("value", ["1", "0"])
def test_the_environment_changes_between_numbacc_and_numba(value):
    code = f"import numbacc, os; numbacc.has_gpu(); os.environ['NUMBA_ENABLE_CUDASIM'] = '{value}'; import numba.cuda"
    printed = says(code + ENTERING, simulate=str(1 - int(value)))
    assert "changed after numbacc" in printed and "Restart" in printed


@pytest.mark.parametrize("value", ["", "0", "off"])
def test_values_that_do_not_ask_for_the_simulator(value):
    assert says("import numbacc" + WORKING, simulate=value) == "[2. 3.] False\n"


def test_without_numba_in_the_simulator():
    printed = says("import sys; sys.modules['numba'] = None; import numbacc" + ENTERING, simulate="1")
    assert "pip install numba" in printed


PLAIN = """
import threading
import numpy as np

@cuda.jit
def who(x):
    cuda.syncthreads()
    x[cuda.threadIdx.x] = threading.get_ident() == caller

x, caller = np.zeros(4), threading.get_ident()
who[1, 4](x)
print(x.sum())
"""


@pytest.mark.parametrize(
    "before",
    [
        "import numbacc\nfrom numba import cuda",
        "from numba import cuda\nimport numbacc",
        "from numba import cuda\nimport numbacc\nnumbacc.asnumpy(numbacc.asarray([1.0]) + 1)",
        "import numbacc, os\nos.environ['NUMBA_ENABLE_CUDASIM'] = '1'\nfrom numba import cuda",
    ],
    ids=["numbacc first", "numba first", "after numbacc's own", "chosen in between"],
)
def test_plain_kernels_run_on_numbaccs_scheduler(before):
    assert says(before + PLAIN, simulate=str(int("os.environ" not in before))) == "4.0\n"


def test_importing_numbacc_imports_neither_numba_nor_greenlet():
    code = "import sys, numbacc; print({'numba', 'greenlet', 'numbacc.simulator'} & sys.modules.keys())"
    assert says(code, simulate="1") == "set()\n"


def test_a_plain_kernel_where_the_choices_differ():
    """numbacc cannot be used there, but Numba can."""
    code = "import numbacc, os; numbacc.has_gpu(); os.environ['NUMBA_ENABLE_CUDASIM'] = '1'\nfrom numba import cuda"
    assert says(code + PLAIN, simulate="0") == "0.0\n"


def test_without_greenlet():
    """Numba's own scheduler runs all kernels, and a warning says so once."""
    code = "import sys, warnings; sys.modules['greenlet'] = None; import numbacc; from numba import cuda\n"
    code += "with warnings.catch_warnings(record=True) as found:\n    warnings.simplefilter('always')\n"
    code += PLAIN.replace("\n", "\n    ") + "\n    who[1, 4](x)\n    y = numbacc.asarray(np.ones((3, 4), 'f4'))"
    code += "\n    print(numbacc.asnumpy(y.sum(axis=1)))\nprint(len(found), found[0].message)" + ENTERING
    first, own, warning, debug = says(code, simulate="1").splitlines()
    assert (first, own) == ("0.0", "[4. 4. 4.]")
    assert warning.startswith("1 greenlet is not installed, so") and warning.endswith("pip install greenlet")
    assert debug.startswith("numbacc.debug() needs greenlet") and debug.endswith("pip install greenlet")
