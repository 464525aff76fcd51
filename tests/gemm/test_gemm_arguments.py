"""Arguments of the wrong kind: on GPU and CPU alike one of numbacc's errors, which names what the user wrote."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import refused

from numbacc import gemm
from numbacc.base import dtypes
from numbacc.errors import DeviceError, DTypeError, OptionError, ShapeError

F32 = np.dtype(np.float32)


class Equal:
    """Equal to everything, and not to be hashed."""

    __hash__ = None

    def __eq__(self, other):
        return True

    def __repr__(self):
        return "Equal()"


def ones(place, *shape, dtype="float32"):
    return place.put(np.ones(shape, dtypes.dtype(dtype)))


@pytest.fixture
def pair(place):
    return ones(place, 4, 8), ones(place, 8, 16)


ARRAY = np.array([1.0])
#: Option, value, error.
OPTIONS = [
    ("epilogue", [], OptionError), ("epilogue", np.array(["relu"]), OptionError), ("epilogue", Equal(), OptionError),
    ("compute", [], OptionError), ("compute", np.array(["tf32"]), OptionError), ("compute", 1.5, OptionError),
    ("compute", Equal(), OptionError),
    ("out_dtype", ["float32"], DTypeError), ("out_dtype", {}, DTypeError), ("out_dtype", ARRAY, DTypeError),
    ("out_dtype", [("a", "f4")], DTypeError),
    ("tune", "x", OptionError), ("tune", 1, OptionError), ("tune", 0, OptionError), ("tune", None, OptionError),
    ("tune", [True], OptionError), ("tune", np.array([True]), OptionError), ("tune", 1.0, OptionError),
    ("workspace_limit", "1", OptionError), ("workspace_limit", ARRAY, OptionError),
    ("workspace_limit", 2**64, OptionError), ("workspace_limit", {}, OptionError),
    ("alpha", ARRAY, OptionError), ("alpha", np.array(1.0), OptionError), ("alpha", 10**400, OptionError),
    ("alpha", "1", OptionError), ("alpha", Equal(), OptionError), ("alpha", -(10**400), OptionError),
    ("beta", np.array([0.0]), OptionError), ("beta", 10**400, OptionError), ("beta", [], OptionError),
    ("beta", np.zeros(2), OptionError),
]  # fmt: skip


@pytest.mark.parametrize("name, value, error", OPTIONS, ids=lambda value: repr(value)[:40])
def test_options_of_the_wrong_kind(place, pair, name, value, error):
    """Also where a plan for the right option is kept."""
    gemm.matmul(*pair)
    gemm.matmul(*pair, tune=True)
    refused(error, name, run=lambda: gemm.matmul(*pair, **{name: value}))
    if name != "alpha":
        refused(error, name, run=lambda: gemm.matmul.plan(*pair, **{name: value}))
    else:
        plan = gemm.matmul.plan(*pair)
        refused(error, name, run=lambda: plan(*pair, alpha=value))


@pytest.mark.parametrize("dtype", [">f4", "O", np.longdouble, "U3"], ids=str)
def test_dtypes_that_numbacc_has_not(numpy_place, dtype):
    """NumPy calls >f4 float32 too."""
    a, b = np.ones((4, 8), np.float32), np.ones((8, 16), np.float32)
    refused(DTypeError, "a has dtype", run=lambda: gemm.matmul(a.astype(dtype), b.astype(dtype)))
    refused(DTypeError, "out has dtype", run=lambda: gemm.matmul(a, b, out=np.ones((4, 16)).astype(dtype)))
    refused(DTypeError, "out_dtype", run=lambda: gemm.matmul(a, b, out_dtype=dtype))


@pytest.mark.parametrize("number", [1, True, np.float32(1), np.int8(1), 1.0], ids=repr)
def test_numbers_that_are_1_are_no_less(place, pair, number):
    np.testing.assert_array_equal(place.get(gemm.matmul(*pair, alpha=number, beta=0)), 8)


@pytest.mark.parametrize("name", ["scale_a", "scale_b"])
def test_scales_are_no_larger_than_numbers_are(place, name):
    a, w = ones(place, 16, 16, dtype="float8_e4m3fn"), ones(place, 16, 16, dtype="float8_e4m3fn")
    refused(OptionError, name, run=lambda: gemm.matmul(a, w.T, **{name: 10**400}))
    plan = gemm.matmul.plan(a, w.T, **{name: 2.0})
    refused(OptionError, name, run=lambda: plan(a, w.T, **{name: 10**400}))


@pytest.mark.parametrize("activation", [[], {}, np.array(["relu"]), np.array(["relu", "gelu"]), Equal()], ids=repr)
def test_activations_of_the_wrong_kind(place, activation):
    x, w, b = ones(place, 3, 4), ones(place, 4, 4), ones(place, 4)
    refused(OptionError, "activation", run=lambda: gemm.linear(x, w, b, activation))
    refused(OptionError, "activation", run=lambda: gemm.mlp(x, w, b, w, b, activation))


@pytest.mark.parametrize("tune", ["x", 1, []], ids=repr)
def test_layers_pass_their_options_on(place, tune):
    x, w, b = ones(place, 3, 4), ones(place, 4, 4), ones(place, 4)
    refused(OptionError, "tune", run=lambda: gemm.linear(x, w, b, tune=tune))
    refused(OptionError, "tune", run=lambda: gemm.mlp(x, w, b, w, b, tune=tune))


@pytest.mark.parametrize("saved", [None, 3, (), [1, 2], {}, "x"], ids=repr)
def test_what_was_not_saved(place, saved):
    dy = ones(place, 3, 4)
    refused(DTypeError, "saved", "gemm.linear", run=lambda: gemm.linear_backward(dy, saved))
    refused(DTypeError, "saved", "gemm.mlp", run=lambda: gemm.mlp_backward(dy, saved))


def test_what_the_other_layer_saved(place):
    x, w, b = ones(place, 3, 4), ones(place, 4, 4), ones(place, 4)
    _, one = gemm.linear(x, w, b)
    _, other = gemm.mlp(x, w, b, w, b)
    refused(DTypeError, "saved is a SavedMlp", run=lambda: gemm.linear_backward(x, other))
    refused(DTypeError, "saved is a SavedLinear", run=lambda: gemm.mlp_backward(x, one))


# ---------------------------------------------------------------- layers name their own arguments

LINEAR = ("x", "w", "bias")
MLP = ("x", "w1", "b1", "w2", "b2")


def linear(arguments):
    return gemm.linear(**arguments)


def mlp(arguments):
    return gemm.mlp(**arguments)


def arguments_of(place, names):
    shapes = {"x": (3, 4), "w": (4, 5), "bias": (5,), "w1": (4, 5), "b1": (5,), "w2": (5, 6), "b2": (6,)}
    return {name: ones(place, *shapes[name]) for name in names}


each_argument = pytest.mark.parametrize(
    "run, names, name",
    [
        pytest.param(run, names, name, id=f"{run.__name__}-{name}")
        for run, names in ((linear, LINEAR), (mlp, MLP))
        for name in names
    ],
)


@each_argument
@pytest.mark.parametrize("value", [[1.0], 2.0, "x", (1, 2), np.float32(3)], ids=repr)
def test_no_array(place, run, names, name, value):
    given = arguments_of(place, names) | {name: value}
    refused(DTypeError, f"{name} is a {type(value).__name__}", run=lambda: run(given))


@each_argument
def test_dtypes_are_one(place, run, names, name):
    given = arguments_of(place, names)
    given[name] = place.put(place.get(given[name]).astype(np.float64))
    refused(DTypeError, "w1" if name == "x" and run is mlp else "w" if name == "x" else name, run=lambda: run(given))


@each_argument
def test_shapes_fit(place, run, names, name):
    given = arguments_of(place, names)
    given[name] = ones(place, *(n + 1 for n in given[name].shape))
    words = {"w2": "the hidden layer is rows of shape (3, 5)"}.get(name, name)
    refused(ShapeError, words, run=lambda: run(given))


@each_argument
def test_devices_are_one(device_place, run, names, name):
    given = arguments_of(device_place, names)
    given[name] = device_place.get(given[name])
    refused(DeviceError, "x" if name == "x" else name, "NumPy", run=lambda: run(given))


def test_an_mlp_has_biases(place):
    given = arguments_of(place, MLP)
    for name in ("b1", "b2"):
        refused(OptionError, name, "bias", run=lambda name=name: gemm.mlp(**given | {name: None}))
