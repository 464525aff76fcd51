"""The kernels of depthwise convolutions, compiled without a GPU."""

from __future__ import annotations

import numpy as np
import ptx
import pytest
from requested import requested

from numbacc import compiling, conv
from numbacc.base import dtypes
from numbacc.base.dispatch import launching_by
from numbacc.conv.plans import ConvPlan
from numbacc.errors import UnsupportedError
from numbacc.kernels.conv.depthwise_spec import DepthwiseSpec, meetings
from numbacc.kernels.conv.transposition_spec import TranspositionSpec
from numbacc.kernels.inspection import Noted

pytestmark = pytest.mark.each_alone(paired=True, in_pairs=True)
DTYPES = ("float32", "float64", "float16", "bfloat16")


def kernels(direction="forward", dtype="float16", taps=(3, 3), batch=64, side=56, channels=256, **options):
    """The specs of the kernels that a depthwise convolution launches; with a factor, cuDNN has none of its own."""
    given = {"alpha": 0.5, "padding": 1, "groups": channels, "layout": "NHWC" if len(taps) == 2 else "NWC", **options}
    lengths = (side,) * len(taps)
    if given["layout"].endswith("C"):
        shapes = (batch, *lengths, channels), (channels, *taps, 1)
    else:
        shapes = (batch, channels, *lengths), (channels, 1, *taps)
    plan = ConvPlan(requested(conv, *shapes, direction=direction, dtype=dtype, **given).problem.call)
    found = []
    with launching_by(Noted.into(found)):
        plan.choose([0] * (len(plan.inputs) + 1))
    return found


def moved(found, operation, space="global"):
    """The widths of accesses."""
    return {access.nbytes for access in found.accesses if (access.operation, access.space) == (operation, space)}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("direction", ["forward", "backward_data"])
def test_images_are_moved_in_vectors(direction, dtype):
    (spec,) = kernels(direction, dtype)
    found = ptx.compiled(spec)
    wide = 8 if dtype in ("float16", "bfloat16") else 16
    assert moved(found, "st") == {wide} == {spec.access_bytes}
    # Beside weights, one by one.
    assert moved(found, "ld") - {wide} == {wide // spec.width}
    assert moved(found, "ld", "shared") == {16}
    assert dtype == "float64" or "fma.rn.f64" not in found.text
    # Each element that a tile meets is loaded once.
    loads = [access for access in found.accesses if access == ("ld", "global", wide)]
    assert len(loads) == (spec.tile[0] + 2) * (spec.tile[1] + 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("side, span", [(56, 4), (54, 2), (55, 1)])
@pytest.mark.parametrize("direction", ["forward", "backward_data"])
def test_columns_of_images_are_moved_together(direction, side, span, dtype):
    """As many columns as divide rows into accesses of at most 16 bytes, and others one by one."""
    (spec,) = kernels(direction, dtype, layout="NCHW", side=side)
    found = ptx.compiled(spec)
    size = np.dtype(dtypes.dtype(dtype)).itemsize
    span = min(span, 16 // size)
    assert (spec.planar, spec.span, spec.access_bytes) == (True, span, span * size)
    assert moved(found, "st") == {span * size}
    # Each element that a tile meets is loaded once. Each weight is loaded to be stored to shared memory.
    rows, columns = spec.tile[0] + 2, spec.tile[1]
    loads = [access for access in found.accesses if (access.operation, access.space) == ("ld", "global")]
    weights = [access for access in found.accesses if (access.operation, access.space) == ("st", "shared")]
    assert len(loads) == rows * (columns // span + 2) + len(weights)
    assert sum(access.nbytes == span * size for access in loads) >= rows * columns // span


@pytest.mark.sampled(1)
@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("direction", ["forward", "backward_data", "backward_filter"])
def test_nothing_is_spilled(direction, layout, dtype, capability):
    for batch in (1, 64):
        for spec in kernels(direction, dtype, batch=batch, layout=layout):
            registers, spilled = ptx.compiled(spec, capability).usage(capability)
            threads, blocks = spec.launch_bounds
            assert (spilled, registers * threads * blocks <= 65536) == (0, True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "options",
    [{"bias": True, "activation": "gelu"}, {"alpha": 0.5, "beta": 2.0, "bias": True, "activation": "silu"}],
    ids=["gelu", "all"],
)
def test_what_follows_is_fused(options):
    (spec,) = kernels(**options)
    found = ptx.compiled(spec)
    assert moved(found, "st") == {8}
    _, spilled = found.usage((9, 0))
    assert spilled < 256


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("taps", [(5, 5), (7, 7), (9,)], ids=str)
@pytest.mark.parametrize("is_last", [True, False], ids=["last", "first"])
@pytest.mark.parametrize("direction", ["forward", "backward_data", "backward_filter"])
def test_many_taps_compile(direction, is_last, taps, dtype):
    layout = ("NCW", "NCHW")[len(taps) - 1] if not is_last else ("NWC", "NHWC")[len(taps) - 1]
    for spec in kernels(direction, dtype, taps, layout=layout):
        _, spilled = ptx.compiled(spec).usage((9, 0))
        assert spilled <= 64


def test_strides_meet_each_tap_once():
    """Of a gradient of the input all places together meet what the taps of a convolution meet."""
    up = DepthwiseSpec("convolve", "float32", "float32", (3, 4), (2, 3), (1, 2), upward=True, tile=(2, 3))
    down = up._replace(upward=False, tile=(8, 8))
    for axis in range(2):
        step = up.stride[axis]
        pairs = {
            (place + step * n, tap, e + n)
            for e, met in meetings(up, axis).items()
            for place, tap in met
            for n in range(9)
        }
        wanted = {(e, tap, place) for e, met in meetings(down, axis).items() for place, tap in met if e < 12}
        assert wanted <= pairs


def test_they_are_compiled_ahead():
    ahead = set(compiling.kernels(["conv"]))
    plain = {"alpha": 1.0, "batch": 128}
    for dtype in DTYPES:
        for direction in ("forward", "backward_data", "backward_filter"):
            if dtype in ("float32", "float64") or direction == "backward_filter":
                assert set(kernels(direction, dtype, channels=64, **plain)) <= ahead
            assert set(kernels(direction, dtype, channels=64, layout="NCHW", **plain)) <= ahead
        assert set(kernels("forward", dtype, bias=True, activation="relu", **plain)) <= ahead
    assert {TranspositionSpec("gather"), TranspositionSpec("scatter")} <= ahead


@pytest.mark.parametrize(
    "options, ours",
    [
        ({}, True),
        ({"alpha": 1.0}, False),
        ({"alpha": 1.0, "direction": "backward_data"}, False),
        ({"alpha": 1.0, "direction": "backward_filter"}, True),
        ({"alpha": 1.0, "activation": "relu"}, True),
        ({"alpha": 1.0, "dilation": 2}, True),
        ({"alpha": 1.0, "dtype": "float32"}, True),
        ({"taps": (7, 7), "padding": 3}, True),
        ({"taps": (8, 7), "padding": 3}, False),
        ({"groups": 128}, False),
        ({"layout": "NCHW"}, True),
        ({"layout": "NCHW", "alpha": 1.0}, True),
        ({"layout": "NCHW", "taps": (8, 7), "padding": 3}, False),
        ({"dtype": "int8", "alpha": 1.0}, False),
        ({"direction": "backward_data", "stride": 4}, True),
        ({"direction": "backward_data", "stride": 5}, False),
    ],
    ids=str,
)
def test_which_are_ours(options, ours, monkeypatch):
    def refuse(*given):
        raise UnsupportedError("left to cuDNN")

    for name in ("_chosen", "_by_floats"):
        monkeypatch.setattr(ConvPlan, name, refuse)
    given = {"channels": 256, "side": 56, **options}
    if "groups" in given:
        x, w = (8, 56, 56, 256), (256, 3, 3, 2)
        asked = conv.forward.request(x, w, padding=1, **{"layout": "NHWC", "groups": 256, **options})
        found = []
        with launching_by(Noted.into(found)), pytest.raises(UnsupportedError):
            ConvPlan(asked.problem.call).choose([0, 0, 0])
        assert not found
    elif ours:
        assert all(isinstance(each, DepthwiseSpec) for each in kernels(**given))
    else:
        with pytest.raises(UnsupportedError, match="left to cuDNN"):
            kernels(**given)
