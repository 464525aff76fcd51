"""Messages in the user's words: what to write instead of other libraries' names, and which frames a traceback shows."""

from __future__ import annotations

import copy
import json
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import refused
from skips import skip_if

import numbacc
from numbacc import elementwise as ew
from numbacc.base.dispatch import simulated


@pytest.fixture
def x(device_place):
    return device_place.put(np.arange(6, dtype=np.float32).reshape(2, 3))


# ---------------------------------------------------------------- names of other libraries' methods


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("exp", "numbacc.elementwise.exp(x"), ("softmax", "numbacc.elementwise.softmax(x"), ("relu", "relu(x"),
        ("arctan2", "elementwise.atan2(x"), ("mul", "elementwise.multiply(x"), ("exp_", "exp(x, ..., out=x)"),
        ("mul_", "elementwise.multiply(x, ..., out=x)"), ("numpy", "numbacc.asnumpy(x)"), ("cpu", "numbacc.asnumpy(x)"),
        ("clone", "x.copy()"), ("half", 'x.astype("float16")'), ("permute", "x.transpose"), ("mm", "gemm.matmul"),
        ("unsqueeze", "x[:, None]"), ("backward", "_backward"), ("gather", "take_along_axis"), ("zero_", "x[...] = 0"),
    ],
)  # fmt: skip
def test_methods_that_are_functions(x, name, instead):
    with pytest.raises(AttributeError, match=re.escape(instead)) as caught:
        getattr(x, name)
    assert name in str(caught.value) and caught.value.name == name
    assert not hasattr(x, name)


@pytest.mark.parametrize("name", ["argsort", "tobytes", "nothing", "cache_info", "kernel", "__array_interface__", "_x"])
def test_other_names_are_no_functions(x, name):
    with pytest.raises(AttributeError, match="no attribute") as caught:
        getattr(x, name)
    assert "elementwise" not in str(caught.value)


def test_what_messages_name_exists(x):
    """Every function that a message may name is one."""
    from numbacc.arrays import lookup

    for name in lookup._FUNCTIONS.values():
        assert callable(getattr(ew, name)) and hasattr(getattr(ew, name), "plan")
    for code in ("x.T", "x.ndim", "x.size", "x.copy()", "x[:, None]", "numbacc.asnumpy(x)", 'x.astype("bool")'):
        assert code in lookup._INSTEAD.values()
        eval(code, {"x": x, "numbacc": numbacc})


# ---------------------------------------------------------------- truth, shapes


def test_the_truth_of_an_array_is_ambiguous(x):
    for array in (x, x[:0], x == x):
        refused(numbacc.ShapeError, "ambiguous", "x.any() or x.all()", array.shape, run=lambda array=array: bool(array))
    with pytest.raises(ValueError, match="ambiguous"):
        assert x == x
    assert bool(x[:1, :1]) is False and bool(x[1:, :1]) is True


@pytest.mark.parametrize("make", [numbacc.zeros, numbacc.empty])
@pytest.mark.parametrize("numbers", [(3, 4), (np.int64(3), np.int32(4))])
def test_lengths_that_are_no_tuple(make, numbers):
    refused(numbacc.DTypeError, "tuple", "(3, 4)", run=lambda: make(*numbers))
    refused(numbacc.DTypeError, "dtype=4", run=lambda: make((3,), 4))


# ---------------------------------------------------------------- tracebacks

SHELL = """
import contextlib, io, json, re, sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()

def printed(code):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        shell.run_cell(code)
    return re.sub(r"\\x1b\\[[0-9;]*m", "", out.getvalue())

printed("import numpy as np, numbacc; from numbacc import gated, gemm, elementwise as ew")
print(json.dumps([printed(code) for code in json.loads(sys.argv[1])]))
"""
CELLS = {
    "gated": "gated.forward(np.ones(3))",
    "product": "gemm.matmul(np.ones((2, 3)), np.ones((2, 3)))",
    "function": "ew.add(np.ones(3), np.ones(4))",
    "caused by another": "numbacc.asarray([[1], [2, 3]])",
    "two of the user's": "def f(x):\n    return ew.softmax(x, axis=7)\nf(np.ones(3))",
    "the user's": "@ew.kernel\ndef f(x):\n    return x + undefined\nf(np.ones(3))",
}


@pytest.fixture(scope="module")
def shown():
    """Return the text that IPython prints for each cell."""
    command = [sys.executable, "-c", SHELL, json.dumps([*CELLS.values()])]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(zip(CELLS, json.loads(run.stdout), strict=True))


in_a_shell = skip_if(simulated(), "not simulated")


@in_a_shell
@pytest.mark.parametrize("name", [name for name in CELLS if name != "the user's"])
def test_ipython_shows_the_users_frames(shown, name):
    """And the frame that raises; those in between are counted."""
    text = shown[name]
    files = re.findall(r"^File (\S+):\d+", text, re.MULTILINE)
    assert len(files) <= text.count("Traceback (") and "numbacc" in "".join(files), text
    assert re.search("skipping hidden [0-9]+ frame", text) and "Error: " in text
    assert text.count("Cell In[") == 1 + (name == "two of the user's")


@in_a_shell
def test_ipython_shows_all_frames_of_others_errors(shown):
    text = shown["the user's"]
    assert "NameError" in text and "Cell In[" in text and "return x + undefined" in text


def test_frames_are_left_alone_elsewhere():
    with pytest.raises(numbacc.ShapeError) as caught:
        numbacc.gated.forward(np.ones(3))
    trace = caught.value.__traceback__
    while trace is not None:
        assert "__tracebackhide__" not in trace.tb_frame.f_locals
        trace = trace.tb_next


@pytest.mark.parametrize("kind", [numbacc.ShapeError, numbacc.LibraryError, numbacc.errors.AxisError])
def test_errors_are_copied_and_pickled(kind):
    error = kind("words")
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is kind and str(twin) == "words"
