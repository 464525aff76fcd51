"""Values of convolutions and their gradients, of arrays anywhere in memory, against SciPy's sums in a wider dtype."""

from __future__ import annotations

import conv_oracle
import numpy as np
import pytest
from conftest import memory_layouts, sentinel
from conv_call import Call, shape_of_gradient, small, taken, without_engines
from conv_oracle import ACTIVATIONS, DIRECTIONS, FLOATS, INT8, LAYOUTS, Case, Inputs, cases
from hypothesis import given, settings
from hypothesis import strategies as st
from skips import skip

from numbacc import conv
from numbacc.base.dispatch import simulated

pytestmark = pytest.mark.usefixtures("poison")

each_direction = pytest.mark.parametrize("direction", DIRECTIONS)
each_layout = pytest.mark.parametrize("layout", LAYOUTS)
each_dtype = pytest.mark.parametrize("dtype", FLOATS, ids=str)
SINGLE, DOUBLE, HALF, BFLOAT16 = FLOATS
#: Rows that start an element behind a multiple of 16 bytes.
MISALIGNED = {4: ((0, 0), (0, 0), (0, 0), (1, 2)), 3: ((0, 0), (0, 0), (1, 2)), 1: ((1, 0),)}


def float_case(direction, layout="NCHW", dtype=SINGLE, **more):
    return small(direction, layout, dtype=dtype, out_dtype=dtype, **more)


# ---------------------------------------------------------------- drawn


@settings(max_examples=30 if simulated() else 100)
@given(case=cases(largest=5 if simulated() else 12), data=st.data())
def test_drawn(place, case, data):
    """Of every kind, with operands anywhere."""
    case = taken(case)
    rank = len(case.layout)
    names = {"forward": "xw", "backward_data": ("dy", "w"), "backward_filter": ("x", "dy")}[case.direction]
    layouts = {name: data.draw(memory_layouts(rank, False)) for name in names}
    layouts["bias"] = data.draw(memory_layouts(1, False))
    if case.beta or data.draw(st.booleans()):
        layouts["out"] = data.draw(memory_layouts(rank, True))
    Call(place, case, layouts).check()


@settings(max_examples=20 if simulated() else 50)
@given(case=cases(largest=4 if simulated() else 8))
def test_drawn_and_contiguous(place, case):
    """As most arrays are."""
    Call(place, taken(case)).check()


# ---------------------------------------------------------------- one by one


@each_dtype
@each_layout
@each_direction
def test_every_layout_and_dtype(place, direction, layout, dtype):
    Call(place, float_case(direction, layout, dtype)).check()
    Call(place, float_case(direction, layout, dtype, stride=2, dilation=2, padding="same", flip=True)).check()


@each_dtype
@pytest.mark.parametrize("layout", ["NCW", "NCHW", "NHWC", "NDHWC"])
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_activations(place, layout, dtype, activation):
    """With a bias, and without: of this cuDNN fuses what it can."""
    for biased in (False, True):
        Call(place, float_case("forward", layout, dtype, activation=activation, biased=biased)).check()


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_nan_is_kept(place, activation):
    """Behind all that it is a term of; a GPU's plans may say otherwise (`test_conv_gpu`)."""
    if place.name == "gpu":
        skip("no gpu")
    for layout, dtype in (("NCHW", SINGLE), ("NHWC", HALF), ("NHWC", BFLOAT16)):
        case = float_case("forward", layout, dtype, activation=activation, biased=True)
        given = conv_oracle.inputs(case)
        x = given.first.copy()
        x[(0, 3, 3, 1) if layout == "NHWC" else (0, 1, 3, 3)] = np.nan
        found = np.isnan(place.get(Call(place, case, given=given._replace(first=x)).run()).astype(np.float32))
        reached = np.any(found[0], axis=-1 if layout == "NHWC" else 0)
        assert reached[2:5, 3:5].all() and reached.sum() == 6 and not found[1].any()


def test_what_our_kernel_does_behind_is_named(device_place):
    """Of float32 a hyperbolic tangent, wherever channels lie."""
    case = float_case("forward", "NHWC", biased=True, activation="tanh")
    for asked, compute, left in (
        (case, None, "tanh"),
        (case._replace(layout="NCHW"), None, "tanh"),
        (case._replace(activation="gelu_tanh", biased=False), "float32_fft", "gelu_tanh"),
        (case._replace(dtype=DOUBLE, out_dtype=DOUBLE), None, "bias and tanh"),
        (case, "tf32", "tanh"),
        (case._replace(activation="silu"), None, ""),
        (small("forward", "NHWC", dtype=INT8, out_dtype=SINGLE, biased=True, alpha=0.5), None, "alpha and bias"),
    ):
        info = Call(device_place, asked, **({"compute": compute} if compute else {})).plan().info
        assert info.algorithm.partition("; then a kernel: ")[2] == left
        assert info.backend.endswith("+kernel") is bool(left)


@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE, BFLOAT16], ids=str)
def test_factors_before_what_follows(place, layout, activation, biased, dtype):
    for alpha, beta in ((0.5, 0.0), (1.0, -2.0), (-1.5, 0.5), (0.0, 0.25), (0.0, 0.0)):
        more = {"activation": activation, "biased": biased, "alpha": alpha, "beta": beta}
        Call(place, float_case("forward", layout, dtype, **more)).check()


@each_dtype
@each_direction
def test_factors(place, direction, dtype):
    for alpha, beta in ((0.5, 0.0), (1.0, 1.0), (-1.5, 0.5), (0.0, 1.0), (0.0, 0.25), (0.0, 0.0)):
        Call(place, float_case(direction, dtype=dtype, alpha=alpha, beta=beta)).check()
        Call(
            place, float_case(direction, dtype=dtype, alpha=alpha, beta=beta), {"out": {"steps": (1, 2, -1, 1)}}
        ).check()


@each_direction
def test_what_has_the_factor_0_is_not_read(place, direction):
    case = float_case(direction, beta=2.0, alpha=0.0)
    values = conv_oracle.inputs(case)
    wrong = Inputs(np.full_like(values.first, np.nan), np.full_like(values.second, np.inf), None, values.before)
    np.testing.assert_array_equal(place.get(Call(place, case, given=wrong).run()), 2 * values.before)
    # What lies in the result's place is the sentinel, a NaN.
    Call(place, case._replace(alpha=1.0, beta=0.0), {"out": {}}).check()


@pytest.mark.parametrize("out_dtype", ["int32", "float32"])
@pytest.mark.parametrize("layout", ["NWC", "NCHW", "NHWC", "NDHWC"])
def test_int8(place, layout, out_dtype):
    case = small("forward", layout, dtype=INT8, out_dtype=np.dtype(out_dtype), channels=8)
    Call(place, case).check()
    Call(place, case, {"out": {}}).check(out_dtype=None)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_what_follows_int8(place, layout, activation, biased):
    """In the result's dtype: of int32 no more than ReLU, and no factor."""
    floats = {"activation": activation, "biased": biased, "out_dtype": SINGLE, "dtype": INT8}
    for alpha in (1.0, 0.02, 0.0):
        Call(place, small("forward", layout, **floats, alpha=alpha)).check()
    Call(place, small("forward", layout, **floats, alpha=0.02), {"out": {"steps": (1, -1, 2, 1)}}).check()
    if activation in (None, "relu"):
        integers = {**floats, "out_dtype": np.dtype(np.int32)}
        for where in ({}, {"out": {}, "bias": {"steps": (-1,)}}):
            Call(place, small("forward", layout, **integers), where).check()


def test_int8_becomes_int32_by_default(place):
    case = small("forward", dtype=INT8, out_dtype=np.dtype(np.int32))
    assert Call(place, case).run().dtype == np.int32


@pytest.mark.parametrize("channels, dtype", [(8, "float32"), (171, "float64")])
def test_int8_without_an_engine_for_int32(device_place, monkeypatch, channels, dtype):
    """By floats that hold the largest sums."""
    without_engines(monkeypatch, lambda graph: graph.tensors[0].dtype == "int8")
    case = small("forward", dtype=INT8, out_dtype=np.dtype(np.int32), groups=1, channels=channels)
    values = conv_oracle.inputs(case)
    extreme = values._replace(first=np.full_like(values.first, -128), second=np.full_like(values.second, -128))
    for each in (values, extreme):
        call = Call(device_place, case, {"x": {"steps": (1, 1, -1, 2)}, "out": {"margins": MISALIGNED[4]}}, each)
        call.check()
        assert f"in {dtype}" in call.plan().info.algorithm
    case = case._replace(biased=True, activation="relu")
    Call(device_place, case, {"bias": {"steps": (2,)}}).check()
    call = Call(device_place, case._replace(out_dtype=SINGLE, activation="gelu", alpha=0.01))
    call.check()
    assert f"in {dtype}" in call.plan().info.algorithm
    conv.cache_clear()


@pytest.mark.parametrize("layout", ["NWC", "NCHW", "NHWC", "NDHWC"])
@each_direction
def test_without_an_engine_for_where_channels_are(device_place, monkeypatch, direction, layout):
    """By copies with the channels elsewhere, which the plan names."""
    has_channels_last = layout.endswith("C")
    without_engines(monkeypatch, lambda graph: (graph.tensors[graph.memory[0]].strides[1] == 1) is has_channels_last)
    forward = {"activation": "gelu", "biased": True} if direction == "forward" else {}
    for more, where in (
        (forward, {}),
        ({**forward, "beta": 0.5}, {}),
        (forward, {name: {"steps": (-1, *(1,) * (len(layout) - 1))} for name in ("x", "w", "dy", "out")}),
    ):
        call = Call(device_place, float_case(direction, layout, **more), where)
        call.check()
        assert call.plan().info.algorithm.startswith("channels first: " if layout.endswith("C") else "channels last: ")
        assert call.plan().info.backend.endswith("+kernel")
    conv.cache_clear()


@each_direction
def test_depthwise(place, direction):
    for layout in ("NCHW", "NHWC"):
        Call(place, float_case(direction, layout, groups=6, channels=1, filters=2)).check()


@each_direction
def test_one_dimension_is_two_of_which_one_is_1(place, direction):
    """It is what cuDNN gets."""
    for layout, wide in (("NCW", "NCHW"), ("NWC", "NHWC")):
        row = Case(direction, layout, 2, 2, 3, 2, (9,), (3,), 2, [(1, 2)], 2, dtype=DOUBLE, out_dtype=DOUBLE)
        image = row._replace(
            layout=wide, lengths=(1, 9), taps=(1, 3), stride=(1, 2), padding=(0, (1, 2)), dilation=(1, 2)
        )
        values = conv_oracle.inputs(row)
        lifted = Inputs(*(a.reshape(s) for a, s in zip(values[:2], shapes_of(image), strict=True)))
        one = place.get(Call(place, row, given=values).run())
        other = place.get(Call(place, image, given=lifted).run())
        np.testing.assert_allclose(one, other.reshape(one.shape), rtol=1e-13, atol=1e-13)


def shapes_of(case):
    x, w, y = case.shapes
    return {"forward": (x, w), "backward_data": (y, w), "backward_filter": (x, y)}[case.direction]


# ---------------------------------------------------------------- an empty batch


@pytest.mark.parametrize("dtype", [SINGLE, HALF], ids=str)
@each_direction
def test_an_empty_batch(place, direction, dtype):
    """Its result is empty, and of kernels the gradient is 0."""
    for beta in (0.0, 1.0, -0.5):
        case = float_case(direction, dtype=dtype, batch=0, beta=beta)
        Call(place, case).check()
        Call(place, case, {"out": {"steps": (2, 1, 1, -1)}}).check()


def test_an_empty_batch_with_all_that_follows(place):
    Call(place, float_case("forward", batch=0, activation="gelu", biased=True)).check()


# ---------------------------------------------------------------- arrays anywhere

#: The memory order of images and kernels in the other layout.
AS_OTHER = {"NCHW": (0, 2, 3, 1), "NHWC": (0, 3, 1, 2)}
LYING = {
    "in the other layout": lambda layout: {"order": AS_OTHER[layout]},
    "as views of wider rows": lambda layout: {"margins": ((0, 0), (1, 1), (0, 2), (2, 3))},
    "every other element": lambda layout: {"steps": (1, 2, 1, 2)},
    "backwards": lambda layout: {"steps": (1, -1, 1, -1)},
    "misaligned": lambda layout: {"margins": MISALIGNED[4]},
    "all in disorder": lambda layout: {"order": (3, 1, 0, 2), "steps": (2, 1, -1, 1), "margins": ((1, 1),) * 4},
}


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE, BFLOAT16], ids=str)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("lying", LYING)
@each_direction
def test_operands_and_results_that_lie(place, direction, lying, layout, dtype):
    case, where = float_case(direction, layout, dtype), LYING[lying](layout)
    names = ("x", "w", "dy")
    for named in ((names), (*names, "out"), ("out",), names[:1]):
        Call(place, case, dict.fromkeys(named, where)).check()


def flat(place, shape, dtype, offset):
    """(a view of this shape into a flat buffer, from so many elements on; the buffer, poisoned)."""
    buffer = place.put(np.full(int(np.prod(shape)) + 32, np.nan).astype(dtype))
    return buffer[offset : offset + int(np.prod(shape))].reshape(shape), buffer


@pytest.mark.parametrize("offset", [0, 1, 3])
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE, HALF, BFLOAT16], ids=str)
@pytest.mark.parametrize("layout", ["NWC", "NCHW", "NHWC", "NDHWC"])
@each_direction
def test_views_of_flat_buffers(place, direction, layout, dtype, offset):
    """Which start anywhere, as parameters and their gradients do; nothing beside the result is written."""
    case = float_case(direction, layout, dtype, channels=4, filters=4)
    given = conv_oracle.inputs(case)
    views = []
    for values in (given.first, given.second):
        view, _ = flat(place, values.shape, dtype, offset)
        view[...] = place.put(values)
        views.append(view)
    out, buffer = flat(place, case.result_shape, dtype, offset)
    called = getattr(conv, direction)(*views, *shape_of_gradient(case), **case.geometry, out=out)
    assert called is out
    conv_oracle.assert_right(case, given, np.array(place.get(out)), in_any_order=place.name == "gpu")
    around = np.ones(len(place.get(buffer)), bool)
    around[offset : offset + int(np.prod(case.result_shape))] = False
    assert np.isnan(place.get(buffer).astype(np.float32)[around]).all()


@pytest.mark.parametrize("activation", ["silu", "elu", "gelu", "tanh", "sigmoid"])
@pytest.mark.parametrize("channels", [12, 3])
@pytest.mark.parametrize("layout", ["NCW", "NCHW", "NHWC", "NCDHW"])
def test_depthwise_of_16_bits_is_rounded_once(place, layout, channels, activation):
    """Whatever computes it: our kernels, on copies, or cuDNN in float32."""
    for dtype, beta, biased in ((BFLOAT16, 0.5, False), (HALF, 0.0, True), (BFLOAT16, -0.5, True)):
        case = float_case(
            "forward", layout, dtype, groups=channels, channels=1, filters=1, alpha=0.25, beta=beta, biased=biased,
            activation=activation, padding="same",
        )  # fmt: skip
        call = Call(place, case)
        call.check()
        assert "then a kernel" not in call.plan().info.algorithm


@pytest.mark.parametrize("lying", LYING)
@pytest.mark.parametrize("activation", ["relu", "silu"])
def test_what_follows_of_arrays_that_lie(place, lying, activation):
    for layout in ("NCHW", "NHWC"):
        case = float_case("forward", layout, HALF, activation=activation, biased=True, beta=0.5, alpha=2.0)
        where = LYING[lying](layout)
        Call(
            place, case, {**dict.fromkeys(("x", "w", "out"), where), "bias": {"steps": (2,), "margins": ((1, 0),)}}
        ).check()
        Call(place, case, {"bias": {"margins": ((1, 0),)}}).check()
        Call(place, case, {"bias": {"steps": (-1,)}}).check()
        Call(place, case, {"bias": {"steps": (0,)}}).check()


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE, BFLOAT16], ids=str)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("groups", [1, 2])
@each_direction
def test_one_channel_lies_anywhere(place, direction, groups, layout, dtype):
    """Where the step between channels says nothing, and cuDNN may take it for what it is not."""
    case = float_case(direction, layout, dtype, groups=groups, channels=1, filters=3)
    for order in ((1, 2, 3, 0), (2, 3, 1, 0), (3, 2, 0, 1), (0, 2, 1, 3)):
        for named in (("x", "w", "dy", "out"), ("x",), ("w",), ("out",)):
            Call(place, case, {name: {"order": order} for name in named}).check()


@pytest.mark.parametrize("axis", range(4))
@each_direction
def test_broadcast_operands(place, direction, axis):
    steps = tuple(0 if d == axis else 1 for d in range(4))
    Call(place, float_case(direction), {key: {"steps": steps} for key in ("x", "w", "dy")}).check()
    Call(place, float_case(direction), {key: {"steps": (0,) * 4} for key in ("x", "w", "dy")}).check()


def test_alignments_come_and_go(place):
    """One plan, of arrays that start on a multiple of 16 bytes, then elsewhere, then there again."""
    case = float_case("forward", dtype=HALF, biased=True, activation="relu")
    plan = Call(place, case, {"out": {}}).plan()
    for shift in (0, 1, 3, 8, 0, 1):
        layouts = {name: {"margins": ((shift, 8 - shift), (0, 0), (0, 0), (0, 0))} for name in ("x", "w", "out")}
        call = Call(place, case, {**layouts, "bias": {"margins": ((shift, 0),)}})
        call.verify(plan(*call.views, out=call.out.view))


def test_results_are_poisoned_before(place):
    """These tests would see an element that is not written."""
    out = place.empty((2, 3), SINGLE)
    assert np.isnan(out.now()).all() and np.isnan(sentinel(SINGLE))
    with pytest.raises(AssertionError, match="was not written"):
        out.assert_written_only()
