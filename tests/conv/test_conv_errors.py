"""What convolutions refuse, with which error and message, and that nothing is written then."""

from __future__ import annotations

import inspect
from functools import partial

import ml_dtypes
import numpy as np
import pytest
from conftest import refused
from conv_call import Call, small
from conv_oracle import DIRECTIONS, FLOATS

from numbacc import conv, cudnn
from numbacc.errors import ArgumentsError, DeviceError, DTypeError, LayoutError, OptionError, ShapeError

each_direction = pytest.mark.parametrize("direction", DIRECTIONS)
OPERANDS = {"forward": ("x", "w"), "backward_data": ("dy", "w"), "backward_filter": ("x", "dy")}


def everywhere(place, error, *words, directions=DIRECTIONS, layouts=None, case=None, **options):
    """The functions and their plans refuse, and write nothing."""
    for direction in directions:
        made = (case or small)(direction)
        call = Call(place, made, layouts)
        refused(error, *words, run=lambda c=call: c.run(**options))
        if "stream" not in options:
            refused(error, *words, run=lambda c=call: c.plan(**options))
        for operand in (*call.operands.values(), *([call.out] if call.out else [])):
            operand.assert_untouched()


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layout": "nchw"}, ["layout='nchw'", "NCHW, NHWC"]),
        ({"stride": 0}, ["stride=0", "at least 1"]),
        ({"stride": 1.0}, ["stride=1.0 is not an integer"]),
        ({"stride": (1, 1.0)}, ["stride=1.0 is not an integer"]),
        ({"stride": "2"}, ["stride='2' is not an integer"]),
        ({"stride": (1, 1, 1)}, ["stride=(1, 1, 1) is for 3"]),
        ({"dilation": [0, 1]}, ["dilation=0", "at least 1"]),
        ({"dilation": None}, ["dilation=None is not an integer"]),
        ({"padding": "full"}, ["padding='full'", '"same", "valid"']),
        ({"padding": -1}, ["padding=-1", "at least 0"]),
        ({"padding": {1}}, ["padding={1} is not an integer"]),
        ({"groups": 2.0}, ["groups=2.0 is not an integer"]),
        ({"groups": 0}, ["groups=0", "at least 1"]),
        ({"flip": 1}, ["flip=1 is neither True nor False"]),
        ({"deterministic": 0}, ["deterministic=0 is neither True nor False"]),
        ({"tune": "yes"}, ["tune='yes' is neither True nor False"]),
        ({"workspace_limit": -1}, ["workspace_limit=-1", "0 or more, or None"]),
        ({"workspace_limit": 1.5}, ["workspace_limit=1.5"]),
        ({"workspace_limit": True}, ["workspace_limit=True"]),
        ({"workspace_limit": 2**63}, ["workspace_limit="]),
        ({"alpha": "1"}, ["alpha='1' is not a number"]),
        ({"alpha": None}, ["alpha=None is not a number"]),
        ({"alpha": 1j}, ["alpha=1j is not a number"]),
        ({"alpha": float("nan")}, ["alpha=nan must be finite"]),
        ({"alpha": 10**400}, ["alpha=", "too large"]),
        ({"beta": [1.0]}, ["beta=[1.0] is not a number"]),
        ({"beta": float("inf")}, ["beta=inf must be finite"]),
        ({"beta": 1.0}, ["beta=1.0 scales and adds the values of out", "pass out"]),
        ({"compute": "fast"}, ["compute='fast'", "float32, tf32"]),
        ({"compute": ["tf32"]}, ["compute=", "float32, tf32"]),
        ({"compute": 32}, ["compute=32"]),
    ],
    ids=str,
)
def test_options(place, options, words):
    everywhere(place, OptionError, *words, **options)


@pytest.mark.parametrize("activation", ["selu", "ReLU", 1, ["relu"], b"relu", {}], ids=repr)
def test_activations(place, activation):
    words = ("activation=", "is unknown", "relu, leaky_relu, gelu, gelu_tanh, silu, sigmoid, tanh, elu")
    everywhere(place, OptionError, *words, directions=["forward"], activation=activation)


@pytest.mark.parametrize("stream", ["0", -1, 1.5, True, object], ids=repr)
def test_streams(place, stream):
    everywhere(place, OptionError, "stream", stream=stream)


def test_what_equals_an_option_does_not_find_its_plan(place):
    """1.0 is equal to 1, and 1 to True: their plans are there."""
    for direction in DIRECTIONS:
        for flip in (False, True):
            Call(place, small(direction, groups=1, flip=flip)).run(workspace_limit=1)
        call = Call(place, small(direction, groups=1))
        for options in (
            {"stride": 1.0}, {"dilation": 1.0}, {"padding": 1.0}, {"groups": 1.0}, {"groups": np.float64(1)},
            {"flip": 1}, {"flip": 0}, {"tune": 0}, {"deterministic": 0.0}, {"workspace_limit": True},
            {"workspace_limit": 1.0},
        ):  # fmt: skip
            options = {"workspace_limit": 1, **options}
            refused(OptionError, *options.keys() - {"workspace_limit"}, run=lambda c=call, o=options: c.run(**o))


def test_tf32_is_for_float32_alone(place):
    for dtype in FLOATS:
        for direction in DIRECTIONS:
            call = Call(place, small(direction, dtype=dtype, out_dtype=dtype), compute="tf32")
            if dtype == np.float32:
                assert call.plan().info.math_dtype == "tf32"
                assert Call(place, call.case).plan().info.math_dtype == "float32"
                call.check()
            else:
                refused(OptionError, "compute='tf32' is not supported with", dtype, run=call.run)


# ---------------------------------------------------------------- shapes


def test_shapes(place):
    x, w = (place.put(np.ones(shape, np.float32)) for shape in ((2, 6, 7, 6), (4, 3, 3, 2)))
    refused(ShapeError, "x has shape (6, 7, 6)", "rank 3", run=lambda: conv.forward(x[0], w, groups=2))
    refused(ShapeError, "w has shape (3, 3, 2)", run=lambda: conv.forward(x, w[0], groups=2))
    refused(ShapeError, "kernels have 3 channels", "need kernels of 6", run=lambda: conv.forward(x, w))
    refused(ShapeError, "cannot be divided into groups=4", run=lambda: conv.forward(x, w, groups=4))
    refused(ShapeError, "spatial dimension 0", "reach over 9", run=lambda: conv.forward(x, w, groups=2, dilation=4))
    refused(ShapeError, "only the batch", run=lambda: conv.forward(x[:, :0], w, groups=2))
    refused(ShapeError, "at least one tap", run=lambda: conv.forward(x, w[:0], groups=2))
    refused(ShapeError, "no memory holds", run=lambda: conv.forward(x, w, groups=2, padding=2**31 - 1))


def test_gradients_of_other_shapes(place):
    x, w, dy = (place.put(np.ones(shape, np.float32)) for shape in ((2, 6, 7, 6), (4, 3, 3, 2), (2, 4, 5, 5)))
    options = {"groups": 2}
    assert conv.backward_data(dy, w, [2, 6, 7, 6], **options).shape == (2, 6, 7, 6)
    assert conv.backward_filter(x, dy, np.array([4, 3, 3, 2]), **options).shape == (4, 3, 3, 2)
    for wrong in (dy[:1], dy[:, :2], dy[:, :, :4], dy[..., None]):
        for run in (conv.backward_data, conv.backward_data.plan):
            refused(
                ShapeError, "dy has shape", "(2, 4, 5, 5)", run=lambda r=run, d=wrong: r(d, w, (2, 6, 7, 6), groups=2)
            )
        for run in (conv.backward_filter, conv.backward_filter.plan):
            refused(ShapeError, "dy has shape", run=lambda r=run, d=wrong: r(x, d, (4, 3, 3, 2), groups=2))


NO_SHAPES = [
    3,
    "2677",
    (2, 6, 7),
    (2, 6, 7, 6.0),
    (2, 6, -7, 6),
    (2**40,) * 4,
    (2, 0, 7, 6),
    pytest.param(object(), id="object"),
]


@pytest.mark.parametrize("shape", NO_SHAPES, ids=str)
def test_what_is_no_shape(place, shape):
    x, w, dy = (place.put(np.ones(s, np.float32)) for s in ((2, 6, 7, 6), (4, 3, 3, 2), (2, 4, 5, 5)))
    refused(ShapeError, "x_shape=", run=lambda: conv.backward_data(dy, w, shape, groups=2))
    refused(ShapeError, "w_shape=", run=lambda: conv.backward_filter(x, dy, shape, groups=2))


def test_bias(place):
    case = small("forward")
    for error, words, bias in (
        (ShapeError, ["bias has shape (3,)", "(4,)"], np.ones(3, np.float32)),
        (ShapeError, ["bias has shape (4, 1)"], np.ones((4, 1), np.float32)),
        (ShapeError, ["bias has shape ()"], np.ones((), np.float32)),
        (DTypeError, ["bias has dtype float64", "float32"], np.ones(4)),
    ):
        everywhere(place, error, *words, directions=["forward"], case=lambda d: case, bias=place.put(bias))
    for wrong in (3, [1.0] * 4, "x"):
        everywhere(place, DTypeError, "bias is a", directions=["forward"], bias=wrong)


# ---------------------------------------------------------------- dtypes


@pytest.mark.parametrize(
    "dtype", ["int32", "bool", "complex64", ml_dtypes.float8_e4m3fn, "uint8"], ids=lambda d: np.dtype(d).name
)
def test_dtypes_that_are_not_convolved(place, dtype):
    x, w = place.put(np.ones((1, 1, 5), dtype)), place.put(np.ones((1, 1, 3), dtype))
    for run in (conv.forward, conv.forward.plan):
        words = ("x has dtype", "float32, float64, float16, bfloat16, int8")
        refused(DTypeError, *words, run=lambda r=run: r(x, w, layout="NCW"))
    refused(DTypeError, "dy has dtype", run=lambda: conv.backward_data(w, w, (1, 1, 5), layout="NCW"))
    refused(DTypeError, "x has dtype", run=lambda: conv.backward_filter(x, w, (1, 1, 3), layout="NCW"))


@each_direction
def test_operands_of_two_dtypes(place, direction):
    call = Call(place, small(direction))
    (a, b, *shape), options = call.arguments
    first, second = OPERANDS[direction]
    other = place.put(call.place.get(b).astype(np.float64))
    words = (f"{second} has dtype float64", f"{first} has float32")
    refused(DTypeError, *words, run=lambda: getattr(conv, direction)(a, other, *shape, **options))


def test_int8_has_no_gradients_and_little_that_follows(place):
    x, w, dy = (place.put(np.ones(shape, np.int8)) for shape in ((1, 1, 5), (1, 1, 3), (1, 1, 3)))
    refused(DTypeError, "gradients do not support int8", run=lambda: conv.backward_data(dy, w, (1, 1, 5), layout="NCW"))
    refused(
        DTypeError, "gradients do not support int8", run=lambda: conv.backward_filter(x, dy, (1, 1, 3), layout="NCW")
    )
    out, single = place.put(np.zeros((1, 1, 3), np.int32)), place.put(np.zeros((1, 1, 3), np.float32))
    for options, words in (
        ({"alpha": 2.0}, ("alpha=2.0", "int32", "float32")),
        ({"activation": "gelu"}, ("activation='gelu'", "only relu", "float32")),
        ({"beta": 1.0, "out": out}, ("beta=1.0 is not supported with int8",)),
        ({"beta": 1.0, "out": single}, ("beta=1.0 is not supported with int8",)),
    ):
        refused(OptionError, *words, run=lambda o=options: conv.forward(x, w, layout="NCW", **o))
    for dtype, result in (("int8", "int32"), ("int8", "float32"), ("float32", "int32"), ("int32", "float32")):
        options = {"bias": place.put(np.ones(1, dtype)), "out_dtype": result, "layout": "NCW"}
        words = (f"bias has dtype {dtype}", f"the dtype of the result, {result}")
        refused(DTypeError, *words, run=lambda o=options: conv.forward(x, w, **o))
    for dtype in ("int8", "int64", "float64"):
        words = (f"out_dtype is {dtype}", "int32 or float32")
        refused(DTypeError, *words, run=lambda d=dtype: conv.forward(x, w, layout="NCW", out_dtype=d))


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32"])
def test_results_of_other_dtypes(place, dtype):
    everywhere(place, DTypeError, f"out_dtype is {dtype}", "result of float32", directions=["forward"], out_dtype=dtype)
    for direction in DIRECTIONS:
        call = Call(place, small(direction))
        out = place.put(np.zeros(call.case.result_shape, dtype))
        refused(DTypeError, f"out has dtype {dtype}", "result of float32", run=lambda c=call, o=out: c.run(out=o))


@pytest.mark.parametrize("dtype", ["nonsense", 3.5, [], "O", pytest.param(object(), id="object")], ids=repr)
def test_what_is_no_dtype(place, dtype):
    everywhere(place, DTypeError, "out_dtype=", directions=["forward"], out_dtype=dtype)


@pytest.mark.parametrize("wrong", [None, 3, [1.0, 2.0], "x"], ids=repr)
@each_direction
def test_no_array(place, direction, wrong):
    call = Call(place, small(direction))
    (a, b, *shape), options = call.arguments
    first, second = OPERANDS[direction]
    for run in (getattr(conv, direction), getattr(conv, direction).plan):
        refused(DTypeError, f"{first} is a", run=lambda r=run: r(wrong, b, *shape, **options))
        refused(DTypeError, f"{second} is a", run=lambda r=run: r(a, wrong, *shape, **options))
        if wrong is not None:
            refused(DTypeError, "out is a", run=lambda r=run: r(a, b, *shape, **options, out=wrong))


# ---------------------------------------------------------------- out


@each_direction
def test_out_of_another_shape(place, direction):
    call = Call(place, small(direction))
    shape = call.case.result_shape
    out = place.empty((*shape[:-1], shape[-1] + 1), FLOATS[0])
    for run in (call.run, call.plan):
        refused(ShapeError, "out has shape", shape, run=lambda r=run: r(out=out.view))
    out.assert_untouched()


@each_direction
def test_out_that_overlaps(place, direction):
    """In part, or wholly: nothing is computed in place."""
    call = Call(place, small(direction, groups=1, channels=4, filters=4, lengths=(5, 5), taps=(5, 5), padding=2))
    for number, name in enumerate(call.operands):
        base = place.operand(np.ones(2000, np.float32))
        operand = call.views[number]
        size = operand.size
        inside = base.view[:size].reshape(operand.shape)
        (a, b, *shape), options = call.arguments
        given = [inside, b] if number == 0 else [a, inside]
        for start in (0, 1, size - 1):
            length = int(np.prod(call.case.result_shape))
            out = base.view[start : start + length].reshape(call.case.result_shape)
            run = getattr(conv, direction)
            words = (f"out overlaps {name}", "does not overlap it")
            refused(LayoutError, *words, run=lambda g=given, o=out, r=run, s=shape, k=options: r(*g, *s, **k, out=o))
        base.assert_untouched()
        apart = base.view[size : size + length].reshape(call.case.result_shape)
        assert getattr(conv, direction)(*given, *shape, **options, out=apart) is apart


def test_out_that_overlaps_the_bias(place):
    call = Call(place, small("forward", biased=True))
    base = place.put(np.ones(int(np.prod(call.case.result_shape)), np.float32))
    out = base.reshape(call.case.result_shape)
    refused(LayoutError, "out overlaps bias", run=lambda: call.run(bias=base[3:7], out=out))


@each_direction
def test_out_with_elements_that_share_memory(place, direction):
    call = Call(place, small(direction))
    out = place.operand(np.ones(call.case.result_shape, np.float32), steps=(1, 0, 1, 1))
    for run in (call.run, call.plan):
        refused(LayoutError, "out", "share memory", run=lambda r=run: r(out=out.view))


@each_direction
def test_out_that_is_read_only(place, direction):
    call = Call(place, small(direction))
    out = place.put(np.ones(call.case.result_shape, np.float32))
    if place.is_device:
        out._readonly = True
    else:
        out.flags.writeable = False
    for _ in range(2):
        refused(LayoutError, "out is read-only", run=lambda: call.run(out=out))


@each_direction
def test_host_and_device_do_not_mix(device_place, direction):
    call = Call(device_place, small(direction, biased=direction == "forward"))
    (a, b, *shape), options = call.arguments
    run, (first, second) = getattr(conv, direction), OPERANDS[direction]
    host = np.ones(call.case.result_shape, np.float32)
    refused(DeviceError, first, second, run=lambda: run(device_place.get(a), b, *shape, **options))
    refused(DeviceError, second, run=lambda: run(a, device_place.get(b), *shape, **options))
    refused(DeviceError, "out", run=lambda: run(a, b, *shape, **options, out=host))
    if direction == "forward":
        refused(DeviceError, "bias", run=lambda: run(a, b, **{**options, "bias": np.ones(4, np.float32)}))


# ---------------------------------------------------------------- what Python refuses


@each_direction
def test_options_are_named(numpy_place, direction):
    call = Call(numpy_place, small(direction))
    (a, b, *shape), _ = call.arguments
    run = getattr(conv, direction)
    for arguments in ((a,), (a, b, *shape, None, 1, 1)):
        with pytest.raises(TypeError):
            run(*arguments)


@each_direction
def test_plans_take_what_the_functions_take(direction):
    theirs = inspect.signature(getattr(conv, direction).plan).parameters
    ours = dict(inspect.signature(getattr(conv, direction)).parameters)
    del ours["stream"]
    ours.pop("return_saved", None)
    assert theirs == ours


def test_requests_are_of_what_can_be_called():
    shapes = (2, 3, 8, 8), (4, 3, 3, 3)
    refused(OptionError, "bias=1 is neither True nor False", run=lambda: conv.forward.request(*shapes, bias=1))
    for function in (conv.backward_data, conv.backward_filter):
        for more in ({"bias": True}, {"activation": "relu"}):
            refused(ArgumentsError, f"no argument {next(iter(more))}", run=partial(function.request, *shapes, **more))
        assert "backward" in repr(function.request(*shapes))


def test_what_needs_no_plan_is_told_so():
    """supports answers; it does not raise, nor has cudnn refuse what runs."""
    for x, options in (((0, 3, 8, 8), {}), ((2, 3, 8, 8), {"alpha": 0})):
        found = cudnn.supports(conv.forward.request(x, (4, 3, 3, 3), **options), "A100")
        assert not found and "nothing is summed" in found.reason and "A100" in found.device
