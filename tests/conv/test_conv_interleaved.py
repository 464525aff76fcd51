"""Dilated convolutions as convolutions of interleaved images: shapes, copies, and conditions."""

from __future__ import annotations

import conv_oracle
import numpy as np
import pytest
from conftest import bits
from conv_call import Call
from conv_oracle import DIRECTIONS, FLOATS, Case
from requested import requested

import numbacc
from numbacc import conv
from numbacc.conv import plans
from numbacc.conv.interleaved import Interleaved, factors, interleaved, pays
from numbacc.conv.lowering import lower_other, others, ways
from numbacc.conv.plans import ConvPlan
from numbacc.libraries.choices import Algorithm

pytestmark = pytest.mark.usefixtures("poison")
_SINGLE, _DOUBLE, HALF, BFLOAT16 = FLOATS
NAME = "interleaved images"
DEEPLAB = ((8, 33, 33, 2048), (256, 3, 3, 2048), {"padding": 12, "dilation": 12})
each_direction = pytest.mark.parametrize("direction", DIRECTIONS)


def request(x, w, direction="forward", **options):
    return requested(conv, x, w, direction=direction, **{"layout": "NHWC", "dtype": "float16", **options}).problem


def only(problem, aligned, measured=False):
    """The forms of interleaved images."""
    for other in others(problem):
        if isinstance(other.made, Interleaved):
            yield from (lower_other(other, way, aligned) for way in ways(other.problem))


@pytest.fixture
def preferred(monkeypatch):
    """Every convolution that can be computed on interleaved images is."""
    monkeypatch.setattr(plans, "forms", only)
    conv.cache_clear()
    yield
    conv.cache_clear()


def dilated(direction="forward", **more):
    """A convolution of two images with dilation, uneven in its lengths."""
    fixed = {"batch": 2, "groups": 1, "channels": 8, "filters": 16, "lengths": (13, 10), "taps": (3, 2), "seed": 3}
    fixed |= {"padding": (6, 5), "dilation": (6, 5), "dtype": HALF, "out_dtype": HALF}
    return Case(direction, "NHWC", **{**fixed, **more})


def check(place, case, layouts=None, **options):
    call = Call(place, case, layouts, **options)
    call.check()
    assert call.plan().info.algorithm.startswith(NAME) == place.is_device
    return call


# ---------------------------------------------------------------- what it is


W = (8, 3, 3, 8)


@pytest.mark.parametrize(
    "x, w, options, wanted",
    [
        (*DEEPLAB, ((72, 11, 11, 2048), (72, 11, 11, 256), (4, 4), ((4, 4), (4, 4)))),
        # 65 rows: with three images 66, with four 68.
        (
            (2, 65, 64, 8),
            W,
            {"padding": 12, "dilation": 12},
            ((24, 22, 16, 8), (24, 22, 16, 8), (4, 3), ((4, 4), (3, 3))),
        ),
        # Columns have little dilation.
        (
            (2, 30, 9, 8),
            W,
            {"padding": (10, 2), "dilation": (10, 2)},
            ((10, 6, 9, 8), (10, 6, 9, 8), (2, 2), ((2, 2), (2, 2))),
        ),
        ((1, 30, 30, 8), (8, 2, 2, 8), {"dilation": 6}, ((4, 15, 15, 8), (4, 12, 12, 8), (3, 3), ((0, 0), (0, 0)))),
    ],
    ids=str,
)
@each_direction
def test_shapes(direction, x, w, options, wanted):
    other = interleaved(request(x, w, direction, **options))
    found, window = other.geometry, other.geometry.window
    assert (found.x_shape, found.y_shape, window.dilation, window.padding) == wanted
    assert window.places(found.lengths, found.taps) == found.places
    images = [found.x_shape, found.y_shape]
    assert [array.shape for array in other.images] == (images[::-1] if direction == "backward_data" else images)


@pytest.mark.parametrize(
    "x, w, options",
    [
        ((2, 40, 40, 8), (8, 3, 3, 8), {"dilation": 4}),
        ((2, 40, 40, 8), (8, 3, 3, 8), {"dilation": 5, "padding": 2}),  # rows of a window are in different images
        ((2, 40, 40, 8), (8, 3, 3, 8), {"dilation": 12, "stride": 2}),
        ((2, 40, 40, 8), (8, 3, 3, 4), {"dilation": 12, "groups": 2}),
        ((2, 40, 40, 8), (8, 3, 3, 8), {"dilation": 12, "dtype": "float32"}),
        ((2, 8, 40, 40), (8, 8, 3, 3), {"dilation": 12, "layout": "NCHW"}),
        ((2, 40, 8), (8, 3, 8), {"dilation": 12, "layout": "NWC"}),
    ],
    ids=str,
)
def test_what_is_none(x, w, options):
    assert interleaved(request(x, w, **options)) is None


def test_more_zeros_are_avoided():
    assert factors(request(*DEEPLAB[:2], padding=12, dilation=12).geometry) == (3, 3)
    assert factors(request((1, 32, 65, 8), (8, 3, 3, 8), padding=12, dilation=12).geometry) == (4, 3)


@pytest.mark.parametrize(
    "x, w, dilation, wanted",
    [
        (DEEPLAB[0], DEEPLAB[1], 12, True),
        (DEEPLAB[0], DEEPLAB[1], 36, False),  # images of 3 rows
        ((16, 33, 33, 320), (256, 3, 3, 320), 12, True),
        ((32, 28, 28, 64), (64, 3, 3, 64), 12, False),
        ((4, 33, 33, 512), (128, 3, 3, 512), 12, False),
    ],
)
def test_what_pays(x, w, dilation, wanted):
    assert pays(request(x, w, "backward_filter", padding=dilation, dilation=dilation)) is wanted


@pytest.mark.parametrize("first, second, taken", [(10, 65, True), (65, 65, False), (10, 33, False), (10, None, False)])
def test_it_needs_a_faster_engine(first, second, taken, monkeypatch):
    """Only with an engine of this GPU that the convolution itself does not have."""
    plan = ConvPlan(request(*DEEPLAB[:2], "backward_filter", **DEEPLAB[2]).call)
    asked, made = [], []

    class Library:
        @staticmethod
        def choose(graph, wants, device):
            asked.append(graph)
            number = first if len(asked) == 1 else second
            if number is None:
                raise numbacc.UnsupportedError("no engine")
            return Algorithm(b"", 0, "", (number, 0))

    monkeypatch.setattr(plans, "graph_library", lambda: Library)
    monkeypatch.setattr(ConvPlan, "_assembled", lambda self, lowered, *given: made.append(lowered.name))
    plan._make((0, 0, 0), None)
    assert made == [NAME if taken else ""]


def test_an_epilogue_is_applied_by_a_kernel(monkeypatch):
    """If the convolution without it gets a faster engine on interleaved images."""
    x, w, options = DEEPLAB
    plan = ConvPlan(request(x, w, bias=True, activation="relu", **options).call)
    made = []

    class Library:
        @staticmethod
        def choose(graph, wants, device):
            is_interleaved = graph.tensors[0].shape[0] == 72
            return Algorithm(b"", 0, "", (62 if is_interleaved or len(graph.nodes) > 1 else 45, 0))

    monkeypatch.setattr(plans, "graph_library", lambda: Library)
    monkeypatch.setattr(ConvPlan, "_assembled", lambda self, lowered, *given: made.append((lowered.name, lowered.way)))
    plan._make((0,) * 4, None)
    assert made == [(NAME, (False, False))]


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("dtype", [HALF, BFLOAT16], ids=str)
@each_direction
def test_values(device_place, preferred, direction, dtype):
    for lengths in ((12, 10), (13, 11), (15, 14)):
        check(device_place, dilated(direction, lengths=lengths, dtype=dtype, out_dtype=dtype))


@each_direction
def test_padding_flip_and_factors(device_place, preferred, direction):
    for more in (
        {"padding": ((6, 3), (0, 7))},
        {"padding": 0, "lengths": (17, 12)},
        {"flip": True},
        {"dilation": (6, 1), "padding": (0, 1)},
        {"alpha": 0.5, "beta": -1.5},
    ):
        check(device_place, dilated(direction, **more))


def test_what_follows(device_place, preferred):
    for more in ({"biased": True}, {"biased": True, "activation": "relu"}):
        check(device_place, dilated(**more))


#: How images may lie.
LYING = {
    "off 16 bytes": {"margins": ((0, 0), (0, 0), (0, 0), (1, 2))},
    "every other row": {"steps": (1, 2, 1, 1)},
    "backwards": {"steps": (1, -1, -1, 1)},
    "channels first in memory": {"order": (0, 3, 1, 2)},
}


@pytest.mark.parametrize("lying", LYING)
@each_direction
def test_images_that_lie(device_place, preferred, direction, lying):
    names = {"forward": ("x", "out"), "backward_data": ("dy", "out"), "backward_filter": ("x", "dy")}[direction]
    check(device_place, dilated(direction), dict.fromkeys(names, LYING[lying]))


@each_direction
def test_rows_after_the_last_are_zeros(device_place, preferred, direction):
    """Scratch memory holds NaN where nothing was written: none reaches the result."""
    case = dilated(direction, lengths=(13, 11))
    for _ in range(2):
        found = device_place.get(check(device_place, case).run())
        assert np.isfinite(np.asarray(found, np.float64)).all()


def test_a_graph(device_place, preferred):
    case = dilated("backward_filter")
    values = conv_oracle.inputs(case)
    x, dy = numbacc.asarray(values.first), numbacc.asarray(values.second)
    out = numbacc.empty(case.result_shape, "float16")

    def call():
        conv.backward_filter(x, dy, case.shapes[1], out=out, **case.geometry)

    call()
    wanted = bits(numbacc.asnumpy(out))
    with numbacc.graph() as graph:
        call()
    out._fill(float("nan"), 0)
    graph.launch()
    np.testing.assert_array_equal(bits(numbacc.asnumpy(out)), wanted)
