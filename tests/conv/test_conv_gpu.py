"""What only a real cuDNN shows: measured plans, precision, determinism, sizes that have kernels of their own."""

from __future__ import annotations

from itertools import product

import conv_oracle
import numpy as np
import pytest
from conftest import Place
from conv_call import Call, small
from conv_oracle import ACTIVATIONS, DIRECTIONS, FLOATS, Case

import numbacc
from numbacc import conv
from numbacc.libraries import cudnn as library
from numbacc.libraries import measuring
from numbacc_bindings.cudnn import cudnn

pytestmark = pytest.mark.gpu

PLACE = Place("gpu")
SINGLE, DOUBLE, HALF, BFLOAT16 = FLOATS
each_direction = pytest.mark.parametrize("direction", DIRECTIONS)
each_dtype = pytest.mark.parametrize("dtype", FLOATS, ids=str)


def large(direction, layout="NHWC", dtype=SINGLE, **more):
    """Of so many channels that engines for tensor cores are proposed first."""
    sizes = {"batch": 2, "groups": 1, "channels": 32, "filters": 32, "lengths": (14, 14), "taps": (3, 3)}
    return small(direction, layout, dtype=dtype, out_dtype=dtype, **{**sizes, **more})


@each_dtype
@each_direction
def test_many_channels(direction, dtype):
    for layout in ("NCHW", "NHWC"):
        Call(PLACE, large(direction, layout, dtype)).check()


@each_direction
def test_measured_plans(direction):
    """Of several proposals one is kept, and taken at the next call."""
    conv.cache_clear()
    for dtype in (SINGLE, HALF):
        call = Call(PLACE, large(direction, dtype=dtype), {"out": {}}, tune=True)
        call.check()
        chosen = call.plan().info.algorithm
        call.check()
        assert call.plan().info.algorithm == chosen
        # A plan that was asked for before its first call is measured by that.
        conv.cache_clear()
        again = Call(PLACE, large(direction, dtype=dtype), {"out": {}}, tune=True)
        again.verify(again.plan()(*again.views, out=again.out.view))


def test_measured_plans_of_one_dimension_and_of_arrays_that_are_copied():
    for direction in DIRECTIONS:
        case = small(direction, "NWC", channels=16, filters=16, lengths=(200,), dilation=8)
        Call(PLACE, case, tune=True).check()
        Call(PLACE, case, {name: {"steps": (1, -1, 1)} for name in ("x", "dy", "out")}, tune=True).check()
        Call(PLACE, case, {name: {"margins": ((0, 0), (0, 0), (1, 0))} for name in ("x", "dy")}, tune=True).check()


def test_measuring_leaves_what_is_added_to():
    """The result's memory is not written by trials."""
    case = large("backward_filter", beta=1.0)
    call = Call(PLACE, case, tune=True)
    conv.cache_clear()
    call.check()


@each_direction
def test_float32_is_exact_unless_tf32_is_asked_for(direction):
    case = large(direction, channels=256, filters=64)
    given = conv_oracle.inputs(case)
    wanted = conv_oracle.evaluate(case, given, np.float64).value
    errors = [
        np.abs(PLACE.get(Call(PLACE, case, given=given, compute=compute).run()) - wanted).max() / np.abs(wanted).max()
        for compute in (None, "tf32")
    ]
    assert errors[0] < 2e-6
    assert errors[1] < 2e-3
    Call(PLACE, case, compute="tf32").check()


@each_dtype
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NDHWC"])
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_nan_is_kept_or_the_plan_says_that_it_is_lost(layout, activation, dtype):
    """And what is infinite stays so, where it says nothing."""
    dimensions = len(layout) - 2
    sizes = {"lengths": (12, 11, 6)[:dimensions], "taps": (3,) * dimensions}
    for biased, compute in ((True, None), (False, None), *([(True, "tf32")] if dtype == SINGLE else [])):
        case = large("forward", layout, dtype, **sizes, activation=activation, biased=biased)
        given = conv_oracle.inputs(case)
        x = given.first.copy()
        channels_last = layout.endswith("C")
        for image, value in enumerate((np.nan, np.inf)):
            spoilt = (image, *(5, 4, 3)[:dimensions])
            x[(*spoilt, 7) if channels_last else (image, 7, *spoilt[1:])] = value
        call = Call(PLACE, case, given=given._replace(first=x), **({"compute": compute} if compute else {}))
        wanted = np.asarray(call_in_numpy(call)).astype(np.float64)
        found = PLACE.get(call.run()).astype(np.float64)
        algorithm = call.plan().info.algorithm
        assert np.isnan(wanted[0]).any() and not np.isnan(wanted[0]).all()
        if "NaN" not in algorithm:
            assert not (np.isnan(wanted[0]) & ~np.isnan(found[0])).any(), algorithm
            if activation in (None, "relu", "leaky_relu"):  # others have limits, or products of 0 with what is infinite
                assert not (np.isinf(wanted[1]) & np.isfinite(found[1])).any(), algorithm


def call_in_numpy(call):
    """The reference's result of a call's values."""
    case, (a, b, *bias) = call.case, [operand.values for operand in call.operands.values()]
    options = {**case.geometry, "activation": case.activation, "bias": bias[0] if bias else None}
    with np.errstate(invalid="ignore", over="ignore"):
        return conv.forward(np.ascontiguousarray(a), np.ascontiguousarray(b), **options)


@pytest.mark.parametrize("tune", [False, True])
@each_direction
def test_float32_by_fourier_transforms_is_small_beside_the_largest(direction, tune):
    for layout in ("NCHW", "NHWC"):
        case = large(direction, layout, channels=64, filters=64, lengths=(28, 28))
        given = conv_oracle.inputs(case)
        wanted = conv_oracle.evaluate(case, given, np.float64).value
        call = Call(PLACE, case, {"out": {}}, given, compute="float32_fft", tune=tune)
        found = PLACE.get(call.run())
        assert np.isfinite(found).all()  # the result was poisoned
        assert np.abs(found - wanted).max() < 4e-6 * np.abs(wanted).max()
        assert call.plan().info.math_dtype == "float32_fft"


@each_direction
def test_copies_with_the_channels_elsewhere_may_be_measured(direction, monkeypatch, tmp_path):
    """The plan that wins is run as it was measured, and found again."""
    for layout in ("NCHW", "NHWC"):
        for wins in (False, True):

            def fastest(works, first, device, stream, wins=wins):
                for launch in works.values():
                    launch()
                # Behind what is as the arrays lie comes what has the channels elsewhere, with as much of an epilogue as
                # there is an engine for.
                return min((each for each in works if bool(library.number_of(each)) is wins), key=library.number_of)

            monkeypatch.setattr(measuring, "fastest", fastest)
            conv.cache_clear()
            monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path / f"{layout} {wins}"))
            forward = {"biased": True, "activation": "gelu", "beta": 0.5} if direction == "forward" else {}
            for _ in range(2):
                call = Call(PLACE, large(direction, layout, **forward), {"out": {}}, tune=True)
                call.check()
                assert call.plan().info.algorithm.startswith("channels ") is wins
                conv.cache_clear()


@pytest.mark.parametrize("compute", [None, "tf32"])
def test_gradients_as_convolutions_may_be_measured(compute, monkeypatch, tmp_path):
    """The plan that wins is run as it was measured, and found again."""
    for layout in ("NCHW", "NHWC"):
        for number in (2, 3) if compute is None else (1,):

            def fastest(works, first, device, stream, number=number):
                for launch in works.values():
                    launch()
                return next(each for each in works if library.number_of(each) == number)

            monkeypatch.setattr(measuring, "fastest", fastest)
            monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path / f"{layout} {number}"))
            for _ in range(2):
                conv.cache_clear()
                call = Call(PLACE, large("backward_data", layout, beta=0.5), {"out": {}}, tune=True, compute=compute)
                call.check()
                name = call.plan().info.algorithm.partition(": ")[0]
                assert name.endswith("as a convolution of dy") and name.startswith("channels ") is (number == 3)
    conv.cache_clear()


@pytest.mark.parametrize("compute", [None, "tf32", "float32_fft"])
@each_direction
def test_large_layers_of_float32_take_the_plans_that_are_ranked_first(direction, compute):
    """Where the order of engines is ours: right, and what the rules say."""
    rng, options = np.random.default_rng(4), {"layout": "NHWC", "padding": 1, "compute": compute}
    shapes = {"image": (16, 56, 56, 128), "kernels": (128, 3, 3, 128)}
    names = {"backward_filter": ("image", "image")}.get(direction, ("image", "kernels"))
    a, b = (rng.standard_normal(shapes[name], np.float32) for name in names)
    shape = {"forward": [], "backward_data": [shapes["image"]], "backward_filter": [shapes["kernels"]]}[direction]
    out = numbacc.full(shapes["kernels" if direction == "backward_filter" else "image"], np.nan)
    operands = [numbacc.asarray(a), numbacc.asarray(b), *shape]
    found = numbacc.asnumpy(getattr(conv, direction)(*operands, **options, out=out))
    around, wanted = np.pad(a.astype(np.float64), [(0, 0), (1, 1), (1, 1), (0, 0)]), np.zeros(found.shape)
    for i, j in np.ndindex(3, 3):
        if direction == "backward_filter":
            wanted[:, i, j] = np.tensordot(b, around[:, i : i + 56, j : j + 56], ([0, 1, 2], [0, 1, 2]))
        elif direction == "forward":
            wanted += around[:, i : i + 56, j : j + 56] @ b[:, i, j].T
        else:
            wanted += around[:, 2 - i : 58 - i, 2 - j : 58 - j] @ b[:, i, j]
    assert np.abs(found - wanted).max() < (2e-3 if compute == "tf32" else 1e-5) * np.abs(wanted).max()
    info = getattr(conv, direction).plan(*operands, **options, out=out).info
    assert info.algorithm.startswith("as a convolution of dy: ") is (
        direction == "backward_data" and compute != "float32_fft"
    )
    if cudnn.version() == 91900 and compute != "tf32" and direction != "backward_filter":
        engines = ("engine 70, tile_size=4", "engine 1") if compute is None else ("engine 4", "engine 5", "engine 50")
        assert info.algorithm.removeprefix("as a convolution of dy: ").startswith(engines)


@each_dtype
@each_direction
def test_deterministic_plans_repeat_their_bits(direction, dtype):
    for layout in ("NCHW", "NHWC"):
        call = Call(PLACE, large(direction, layout, dtype), deterministic=True)
        first = numbacc.asnumpy(call.run()).tobytes()
        for _ in range(5):
            assert numbacc.asnumpy(call.run()).tobytes() == first
        assert call.plan().info.deterministic


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
@pytest.mark.parametrize("dtype", [SINGLE, BFLOAT16], ids=str)
def test_what_is_fused(activation, dtype):
    for layout in ("NCHW", "NHWC"):
        for biased in (False, True):
            Call(PLACE, large("forward", layout, dtype, activation=activation, biased=biased)).check()


def test_scratch_memory_is_limited():
    for limit in (0, 1 << 20):
        for direction in DIRECTIONS:
            call = Call(PLACE, large(direction), workspace_limit=limit)
            try:
                call.check()
            except numbacc.UnsupportedError as error:
                assert "workspace" in str(error)
            else:
                assert call.plan().info.workspace_bytes <= limit


def test_a_batch_of_more_than_2_to_the_16():
    case = small("forward", batch=70_000, groups=1, channels=1, filters=1, lengths=(3, 3), taps=(2, 2), padding=0)
    x, w = (np.random.default_rng(0).integers(-3, 4, shape).astype(np.float32) for shape in case.shapes[:2])
    found = numbacc.asnumpy(conv.forward(numbacc.asarray(x), numbacc.asarray(w)))
    wanted = sum(w[0, 0, i, j] * x[:, :, i : i + 2, j : j + 2] for i in range(2) for j in range(2))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("layout, groups", [("NHWC", 1), ("NCHW", 64)])
@each_direction
def test_more_than_2_to_the_31_elements(direction, layout, groups):
    """Images of zeros but for some: the first and last, and that of element 2^31. In groups they are depthwise."""
    count, marked = 518, [0, 512, 517]  # of 2^22 elements each
    sizes = {"lengths": (256, 256), "taps": (3, 1), "padding": (1, 0), "dtype": HALF, "out_dtype": HALF}
    case = Case(direction, layout, len(marked), groups, 64 // groups, 2 if groups == 1 else 1, **sizes)
    given = conv_oracle.inputs(case)

    def spread(values):
        found = numbacc.zeros((count, *values.shape[1:]), HALF)
        for place, image in zip(marked, values, strict=True):
            found[place] = PLACE.put(image)
        return found

    first = spread(given.first)
    assert direction == "backward_data" or first.size > 2**31
    second = spread(given.second) if direction == "backward_filter" else PLACE.put(given.second)
    x, w, _ = case.shapes
    shape = {"forward": [], "backward_data": [(count, *x[1:])], "backward_filter": [w]}[direction]
    found = getattr(conv, direction)(first, second, *shape, **case.geometry)
    if direction != "backward_filter":
        assert direction == "forward" or found.size > 2**31
        assert not numbacc.asnumpy(found[256]).any()
        found = np.stack([numbacc.asnumpy(found[place]) for place in marked])
    conv_oracle.assert_right(
        case, given, found if isinstance(found, np.ndarray) else PLACE.get(found), in_any_order=True
    )


# ---------------------------------------------------------------- what was reported


def moved(values, offset=0, order=None):
    """An array on the GPU that starts so many elements into a buffer, its axes in an order in memory."""
    order = tuple(range(values.ndim)) if order is None else order
    buffer = numbacc.empty(values.size + 8, values.dtype)
    view = buffer[offset : offset + values.size].reshape([values.shape[k] for k in order])
    view = view.transpose(tuple(int(k) for k in np.argsort(order)))
    view[...] = values
    return view


@pytest.mark.parametrize(
    "case, options, offsets",
    [
        (
            large("backward_filter", batch=16, channels=48, filters=32, lengths=(43, 30), taps=(5, 2), dilation=(1, 2),
                  padding=((5, 8), (5, 2))),
            {"deterministic": True}, (1, 1, 0),
        ),
        (
            large("backward_filter", "NDHWC", batch=1, channels=16, filters=16, lengths=(31, 13, 22), taps=(3, 3, 3),
                  stride=2, padding=1),
            {}, (0, 0, 1),
        ),
        (
            large("backward_filter", "NWC", batch=8, channels=4, filters=8, lengths=(235,), taps=(4,), dilation=3,
                  padding=((6, 8),)),
            {"tune": True}, (0, 0, 1),
        ),
        (
            large("backward_filter", "NCW", batch=8, channels=80, filters=512, lengths=(3155,), taps=(25,),
                  padding=((0, 12),), alpha=-1.25),
            {"deterministic": True}, (0, 0, 1),
        ),
    ],
    ids=["NHWC", "NDHWC", "NWC", "NCW"],
)  # fmt: skip
def test_gradients_of_kernels_of_misaligned_arrays(case, options, offsets):
    """cuDNN ended the context: status 716, misaligned address."""
    given = conv_oracle.inputs(case)
    x, dy = (moved(each, offset) for each, offset in zip((given.first, given.second), offsets, strict=False))
    out = moved(np.full(case.result_shape, np.nan, case.dtype), offsets[2])
    found = conv.backward_filter(x, dy, case.result_shape, **case.geometry, alpha=case.alpha, out=out, **options)
    conv_oracle.assert_right(case, given, PLACE.get(found), in_any_order=True)


def test_gradients_of_kernels_into_a_permuted_result():
    """Engine 0 wrote 646 of 680 results wrongly."""
    case = large(
        "backward_filter", dtype=HALF, batch=8, channels=8, filters=17, lengths=(47, 60), taps=(5, 1), stride=3,
        dilation=2, padding=((11, 4), (1, 2)),
    )  # fmt: skip
    given = conv_oracle.inputs(case)
    images = []
    for values, pitch in ((given.first, 9), (given.second, 17)):
        wide = numbacc.empty((*values.shape[:-1], pitch), HALF)[..., : values.shape[-1]]
        wide[...] = values
        images.append(wide)
    out = moved(np.full(case.result_shape, np.nan, HALF), order=(0, 3, 2, 1))
    found = conv.backward_filter(*images, case.result_shape, **case.geometry, out=out)
    conv_oracle.assert_right(case, given, PLACE.get(found), in_any_order=True)


@pytest.mark.parametrize(
    "case",
    [
        large("forward", "NCHW", HALF, batch=16, channels=6, filters=16, lengths=(16, 7), taps=(4, 4), stride=(1, 3),
              padding=((3, 4), (1, 4))),
        large("forward", "NHWC", HALF, channels=3, filters=12, lengths=(29, 36), dilation=(3, 1), padding=(3, 1)),
        large("forward", "NHWC", HALF, channels=64, filters=64),
        large("backward_data", "NCHW", HALF, channels=3, filters=64),
        large("backward_filter", "NHWC", HALF, channels=3, taps=(7, 7), lengths=(21, 22), stride=2, padding=3),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("biased", [False, True])
def test_sums_beyond_float16_are_infinities(case, biased):
    if biased and case.direction != "forward":
        return
    case = case._replace(biased=biased)
    given = conv_oracle.inputs(case)
    scale = HALF.type(np.sqrt(65504 / np.sqrt(case.terms)))
    given = given._replace(first=given.first * scale, second=given.second * scale)
    wanted = conv_oracle.evaluate(case, given, np.float64).value
    found = PLACE.get(Call(PLACE, case, given=given).run())
    beyond, within = np.abs(wanted) > 66000, np.abs(wanted) < 65000
    assert 0.05 < beyond.mean() < 0.95
    np.testing.assert_array_equal(found[beyond], np.copysign(np.inf, wanted[beyond]))
    assert np.isfinite(found[within]).all()


@each_direction
@pytest.mark.parametrize("channels", [4, 8])
def test_what_reaches_other_groups_is_told(direction, channels):
    """Either no group sees another's NaN, or the plan says so."""
    for layout, dtype in product(("NCHW", "NHWC"), (SINGLE, HALF, BFLOAT16)):
        case = large(direction, layout, dtype, groups=8, channels=channels, filters=channels)
        given = conv_oracle.inputs(case)
        axis = layout.index("C")
        moved_axis = np.moveaxis(given.first, axis, 0)
        moved_axis[0] = np.nan
        call = Call(PLACE, case, given=given)
        found = PLACE.get(call.run()).astype(np.float32)
        others = np.moveaxis(found, 0 if direction == "backward_filter" else axis, 0)[channels:]
        assert np.isfinite(others).all() or "other groups" in call.plan().info.algorithm, (layout, dtype)
