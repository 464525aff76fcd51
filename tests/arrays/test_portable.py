"""Portable arrays raise the errors of device arrays without a GPU, and have NumPy's results."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import refused
from numpy_calls import HOST, LINES, answer, difference, on_host
from paths import ROOT
from skips import skip, skip_if

import numbacc
from numbacc import attention, conv, fft, gated, gemm
from numbacc import elementwise as ew
from numbacc.arrays import operands, portable
from numbacc.base.dispatch import has_gpu, simulated
from numbacc.base.layout import PORTABLE

HERE = Path(__file__).parent
ROWS = np.array([[1.0, 2.0, -3.0], [4.0, 5.0, 6.0]], np.float32)
on_laptop = skip_if(has_gpu(), "no gpu")


def put(host):
    return operands.to_device(host, PORTABLE, 0)


def outcome(line, put):
    """The values that a line gives, or its error and the message."""
    with np.errstate(all="ignore"):
        found = answer(line, {name: put(array.copy()) for name, array in HOST.items()})
    if isinstance(found, Exception):
        return type(found), str(found).replace("PortableArray", "DeviceArray")
    return on_host(found)


@pytest.mark.parametrize("part", [pytest.param(k, marks=[pytest.mark.slow] * (k >= 8)) for k in range(16)])
@pytest.mark.filterwarnings("ignore")
@pytest.mark.sampled(simulated=2)
def test_as_on_a_device(device_place, part):
    """Every line has the result that it has of a device's arrays, or the same error with the same message."""
    if device_place.name == "portable":
        skip("device")
    wrong = {}
    for line in LINES[part :: 16 * 25]:
        found, wanted = outcome(line, put), outcome(line, device_place.put)
        same = found == wanted if isinstance(wanted, tuple) else not difference(found, wanted, 64)
        if not same:
            wrong[line] = (found, wanted)
    assert not wrong


REFUSED = {
    "x[x > 0]": numbacc.LayoutError, "x + host": numbacc.DeviceError, "ew.add(x, host)": numbacc.DeviceError,
    "host @ x": numbacc.DeviceError, "np.sort(x)": numbacc.DTypeError, "np.asarray(x)": numbacc.DTypeError,
    "np.array(x)": numbacc.DTypeError, "np.linalg.inv(x)": numbacc.DTypeError, "2 in x": numbacc.DTypeError,
    "x + [1, 2, 3]": numbacc.DTypeError, "x.tolist()": AttributeError, "x[[0, 1]]": numbacc.LayoutError,
    "gemm.matmul(x, host.T)": numbacc.DeviceError, "ew.exp(host, out=x)": numbacc.DeviceError,
    "np.nonzero(x)": numbacc.DTypeError, "np.unique(x)": numbacc.DTypeError, "x.sort()": AttributeError,
    "x.__setitem__(..., x.astype('float64'))": numbacc.DTypeError, "hash(x)": TypeError,
}  # fmt: skip


@pytest.mark.parametrize("line", REFUSED)
def test_what_a_gpu_refuses(line):
    names = {"x": put(ROWS), "host": ROWS, "np": np, "ew": ew, "gemm": gemm}
    with pytest.raises(REFUSED[line]):
        eval(line, names)


@on_laptop
def test_inside_and_outside():
    before = numbacc.asarray(ROWS)
    assert type(before) is np.ndarray and type(numbacc.zeros(3)) is np.ndarray
    with numbacc.portable():
        x, y = numbacc.asarray(ROWS), numbacc.zeros((2, 3))
        assert {type(x), type(y), type(numbacc.empty_like(x)), type(numbacc.full(2, 1.5))} == {portable.PortableArray}
        assert x.device == 0 and type(numbacc.zeros(2, device="cuda:0")) is portable.PortableArray
        assert type(numbacc.zeros(2, device="cpu")) is np.ndarray is type(numbacc.asarray(x, device="cpu"))
    # They stay what they are, and so do results.
    assert type(x + y) is portable.PortableArray and type(numbacc.zeros(3)) is np.ndarray
    assert type(np.zeros_like(x)) is type(np.append(x, 5)) is type(x.copy("C")) is portable.PortableArray
    refused(numbacc.DeviceError, "cuda:0", "host memory", "numbacc.asarray", run=lambda: ew.add(x, before))
    x[0] = 7.0
    np.testing.assert_array_equal(before, ROWS)  # a copy, as on a GPU


@on_laptop
def test_every_family_gives_portable_arrays():
    with numbacc.portable():
        x, places = numbacc.asarray(ROWS), numbacc.asarray(np.array([1, 0]))
        heads, image = numbacc.full((1, 2, 4, 8), 0.5), numbacc.full((1, 4, 8), 1.0)
        w = numbacc.full((3, 4), 0.5)
        y, saved = gemm.linear(x, w, activation="gelu")
        draws = numbacc.random.Generator(1)
        found = [
            ew.softmax(x), ew.layer_norm(x), ew.cross_entropy(x, places), ew.take(x, places, axis=1), ew.sum(x, axis=0),
            ew.concatenate([x, x]), ew.stack([x, x]), ew.cumsum(x, axis=1), ew.exp_backward(x, x), ew.tril(x),
            ew.eye(2), ew.arange(3), ew.linspace(0, 1, 3), *ew.adamw_step(x, x + 1, x * 0, x * 0, 1),
            gated.forward(x[:, :2]), gated.backward(x[:, :1], x[:, :2]), y, *gemm.linear_backward(y, saved),
            gemm.matmul(x, w), fft.fft(x), fft.fftshift(x), fft.fftfreq(4),
            conv.forward(image, numbacc.full((2, 4, 3), 1.0), layout="NCW"),
            attention.forward(heads, heads, heads), draws.normal(size=3), draws.integers(9, size=3),
        ]  # fmt: skip
    for k, each in enumerate(found):
        assert each is None or type(each) is portable.PortableArray, k
    assert type(draws.normal()) in (float, np.float32, np.float64)


def test_values_and_copies():
    x = put(ROWS)
    np.testing.assert_array_equal(numbacc.asnumpy(x.T[1:]), ROWS.T[1:])
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), x.copy(), ew.copy(x)):
        other[...] = 0
        assert type(other) is portable.PortableArray
    view = copy.copy(x)
    view[0, 1] = 9
    assert x[0, 1] == 9 and x[0, 1].dtype == np.float32
    x[1:] = x[:1]
    x[:, ::-1] = x
    assert numbacc.asnumpy(x).tolist() == [[-3, 9, 1]] * 2
    fixed = x.broadcast_to((4, 2, 3))
    refused(numbacc.LayoutError, run=lambda: ew.exp(fixed, out=fixed))
    host = np.zeros(2, np.float32)
    assert x[0, :2].copy_to_host(host) is host and host.tolist() == [-3, 9]
    assert np.from_dlpack(x).tolist() == [[-3, 9, 1]] * 2


SCRIPT = """
import numpy as np, numbacc
x = numbacc.asarray(np.arange(3.0))
try:
    x[x > 1]
except numbacc.LayoutError:
    print("refused")
else:
    print("taken")
"""


@skip_if(simulated() or has_gpu(), "no gpu")
@pytest.mark.parametrize(("value", "printed"), [("1", "refused"), ("0", "taken"), ("", "taken"), (None, "taken")])
def test_the_environment(value, printed):
    environment = {name: each for name, each in os.environ.items() if name != "NUMBACC_PORTABLE"}
    environment |= {} if value is None else {"NUMBACC_PORTABLE": value}
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True)
    assert run.stdout.split() == [printed], run.stderr


@pytest.mark.slow
@skip_if(simulated() or has_gpu(), "no gpu")
def test_the_tests_of_numpys_functions_pass():
    """The tests of device arrays pass on portable arrays, in a process of their own."""
    files = "test_numpy_calls test_numpy_functions test_array_methods test_operators"
    command = [sys.executable, "-m", "pytest", "-q", "--disable-warnings", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, *(str(HERE / f"{name}.py") for name in files.split())],
        env={**os.environ, "NUMBACC_PORTABLE": "1"}, cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0 and " passed" in run.stdout, run.stdout[-4000:]
