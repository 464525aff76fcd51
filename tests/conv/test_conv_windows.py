"""Convolutions of images with few channels as such of their windows: what is copied, and when."""

from __future__ import annotations

import conv_oracle
import numpy as np
import pytest
from conftest import bits
from conv_call import Call
from few_channels import FIRST_LAYER, HALF, WINDOWS, few, preferring, request

import numbacc
from numbacc import conv
from numbacc.base.layout import layout
from numbacc.conv import windowed
from numbacc.conv.lowering import forms, lower_other, others, room, ways
from numbacc.conv.problem import resolve
from numbacc.conv.windowed import Windowed, is_faster

pytestmark = pytest.mark.usefixtures("poison")
DIRECTIONS = ("forward", "backward_filter")
each_direction = pytest.mark.parametrize("direction", DIRECTIONS)


@pytest.fixture
def preferred():
    with preferring():
        yield


# ---------------------------------------------------------------- what it is


def expected(x, rows, columns, channels, pitch, window, lead, shape):
    """The copy of an image, element by element."""
    found = np.zeros((*shape, pitch), x.dtype)
    (down, across, apart), (top, left) = window, lead
    for n, i, j, a, t, c in np.ndindex(*shape, rows, columns, channels):
        row, column = i * down + a - top, j * across + t * apart - left
        if 0 <= row < x.shape[1] and 0 <= column < x.shape[2]:
            found[n, i, j, (a * columns + t) * channels + c] = x[n, row, column, c]
    return found


@pytest.mark.parametrize(
    "options",
    [
        {"stride": 2, "padding": 3},
        {"stride": (3, 1), "padding": ((0, 2), (3, 1)), "dilation": (1, 2)},
        {"stride": (9, 2), "padding": 0},
        {"stride": 1, "padding": 9},
    ],
    ids=str,
)
def test_what_is_copied(device_place, options):
    """Bit for bit, NaN and what it carries too; kernels are images of one column of windows."""
    x, w = (2, 19, 11, 3), (3, 7, 4, 3)
    problem = request(x, w, **options)
    other = windowed.windowed(problem)
    window, made = problem.geometry.window, Windowed(problem)
    spec = windowed._spec(problem.geometry)
    walks = {
        0: ((*window.stride, window.dilation[1]), [before for before, _ in window.padding]),
        1: ((spec.rows, 1, 1), (0, 0)),
    }
    rng = np.random.default_rng(0)
    for number, (own, dense) in enumerate(zip(problem.inputs, other.inputs, strict=True)):
        host = rng.integers(0, 2**16, own.shape).astype(np.uint16).view(HALF)
        source, target = device_place.put(host), numbacc.full(dense.shape, np.nan, dtype="float16")
        (part,) = made.into(number, source._numbacc_layout, dense)
        part.executable.run((source,), (target,), target, 0)
        wanted = expected(host.view(np.uint16), *spec, *walks[number], dense.shape[:3])
        np.testing.assert_array_equal(bits(device_place.get(target)), wanted)


def test_shapes():
    (x, w, options) = FIRST_LAYER
    other = windowed.windowed(request(x, w, **options))
    assert (other.geometry.x_shape, other.geometry.w_shape) == ((64, 115, 112, 64), (64, 4, 1, 64))
    window = other.geometry.window
    assert window.places(other.geometry.lengths, other.geometry.taps) == (112, 112)
    # Patches: each is one tap, and what lies between them is not copied.
    other = windowed.windowed(request((8, 224, 224, 3), (768, 14, 14, 3), stride=16))
    assert (other.geometry.x_shape, other.geometry.w_shape) == ((8, 14, 14, 608), (768, 1, 1, 608))
    assert windowed.windowed(request((8, 224, 224, 1), (8, 3, 3, 1))).geometry.w_shape == (8, 3, 1, 8)


@pytest.mark.parametrize(
    "x, w, options",
    [
        ((2, 9, 9, 8), (4, 3, 3, 8), {}),
        ((2, 9, 9, 4), (4, 3, 3, 2), {"groups": 2}),
        ((2, 9, 9, 3), (4, 3, 3, 3), {"dtype": "float32"}),
        ((2, 9, 9, 3), (4, 3, 3, 3), {"dilation": (2, 1)}),
        ((2, 9, 9, 3), (4, 3, 3, 3), {"direction": "backward_data"}),
        ((2, 3, 9, 9), (4, 3, 3, 3), {"layout": "NCHW"}),
        ((2, 9, 3), (4, 3, 3), {"layout": "NWC"}),
        ((2, 9, 9, 9, 3), (4, 3, 3, 3, 3), {"layout": "NDHWC"}),
        ((1, 1, 1, 3), (4, 1, 1, 3), {"padding": 2**29, "stride": 2**29}),
        ((2**19, 100, 100, 3), (4, 3, 3, 3), {}),
    ],
    ids=str,
)
def test_what_is_none(x, w, options):
    assert windowed.windowed(request(x, w, **options)) is None


def test_elements_far_apart_are_none():
    """32 bits count what lies within an image; from image to image there are 64."""
    call = request((4, 64, 64, 3), (4, 3, 3, 3)).call
    for apart, taken in ((2**23, True), (2**24, False)):
        strides = (2**40, 2 * apart, 2 * 3 * 64, 2)
        problem = resolve(call._replace(a=layout(call.a.shape, strides, call.a.dtype, 0)))
        assert (windowed.windowed(problem) is not None) is taken
    assert windowed.windowed(request((4, 15000, 20000, 3), (4, 3, 3, 3))) is not None


# ---------------------------------------------------------------- when it is taken


@pytest.mark.parametrize(
    "x, w, options, taken",
    [
        (*FIRST_LAYER, (True, True)),
        ((4, *FIRST_LAYER[0][1:]), *FIRST_LAYER[1:], (True, True)),
        ((1, *FIRST_LAYER[0][1:]), *FIRST_LAYER[1:], (False, False)),
        ((64, 224, 224, 3), (768, 16, 16, 3), {"stride": 16}, (True, True)),
        ((1, 224, 224, 3), (768, 16, 16, 3), {"stride": 16}, (True, False)),
        ((64, 224, 224, 3), (64, 1, 1, 3), {}, (False, False)),
        ((64, 224, 224, 3), (32, 3, 3, 3), {"stride": 2, "padding": 1}, (False, True)),
        ((64, 224, 224, 3), (8, 3, 3, 3), {"padding": 1}, (False, True)),
        ((32, 128, 128, 6), (64, 3, 3, 6), {"padding": 1}, (True, False)),
        ((1024, 28, 28, 1), (32, 5, 5, 1), {"padding": 2}, (False, True)),
        ((8, 256, 256, 2), (64, 7, 7, 2), {"padding": 3}, (True, True)),
        ((16, 512, 512, 1), (1, 9, 9, 1), {"padding": 4}, (True, True)),
    ],
    ids=str,
)
@each_direction
def test_large_ones_are_taken_unmeasured(direction, x, w, options, taken):
    """As they were faster on an H200, forward and as gradients of kernels."""
    problem, taken = request(x, w, direction=direction, **options), taken[DIRECTIONS.index(direction)]
    assert is_faster(problem, windowed.windowed(problem)) is taken
    found = [each.name for each in forms(problem, (True,) * 3)]
    assert (found[0] if taken else found[-1]) == WINDOWS and found.count(WINDOWS) == 1
    measured = [each.name for each in forms(problem, (True,) * 3, measured=True)]
    assert measured[0] == "" and measured[-1] == WINDOWS


def test_what_follows_is_fused_as_ever():
    x, w, options = FIRST_LAYER
    problem = request(x, w, bias=True, activation="gelu", **options)
    found = list(forms(problem, (True,) * 4))
    assert [each.way for each in found if each.name == WINDOWS] == ways(problem)
    assert len(found[0].graphs[0].nodes) == 3 and [number for number, _ in found[0].copies] == [0, 1]


@each_direction
def test_copies_count_as_scratch_memory(direction):
    nbytes = 256 * -(-2 * 2 * 9 * 7 * 8 // 256) + 256 * -(-2 * 5 * 3 * 8 // 256)
    for limit in (nbytes - 1, nbytes):
        problem = request((2, 9, 8, 3), (5, 3, 2, 3), direction=direction, workspace_limit=limit)
        (other,) = others(problem)
        assert room(problem, lower_other(other, ways(other.problem)[0], (True,) * 3)) == limit - nbytes


def test_what_has_no_room_is_not_asked_about():
    x, w, options = FIRST_LAYER
    for limit, first in ((2**20, x), (2**30, (64, 115, 112, 64))):
        asked = conv.forward.request(x, w, layout="NHWC", dtype="float16", workspace_limit=limit, **options)
        batch, height, width, channels = first
        assert asked.graphs()[0].tensors[0].shape == (batch, channels, height, width)


# ---------------------------------------------------------------- values


@each_direction
def test_what_no_tap_meets_has_no_say_in_a_gradient(device_place, preferred, direction):
    """Nor in a convolution where the rows of kernels are a multiple of the stride, or it is 1."""
    case = few(direction, lengths=(8, 9), taps=(4, 2), stride=(2, 3), padding=0)
    values = conv_oracle.inputs(case)
    wrong = values.first.copy()
    wrong[:, :, 2::3] = np.nan
    if direction == "backward_filter":
        # Met by a tap that the kernels do not have.
        case = case._replace(taps=(3, 2))
        wrong[:, 7] = np.nan
    found, exact = (Call(device_place, case, given=values._replace(first=x)).run() for x in (wrong, values.first))
    np.testing.assert_array_equal(bits(device_place.get(found)), bits(device_place.get(exact)))
