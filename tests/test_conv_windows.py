"""Convolutions of images with few channels as such of their windows: what is copied, values, when they are taken."""

from __future__ import annotations

from contextlib import contextmanager

import conv_oracle
import numpy as np
import pytest
from conftest import bits, memory_layouts
from conv_call import Call
from conv_oracle import FLOATS, Case
from hypothesis import given, settings
from hypothesis import strategies as st
from skips import skip

import numbacc
from numbacc import conv
from numbacc.base.dispatch import graph_library
from numbacc.base.layout import layout
from numbacc.conv import windowed
from numbacc.conv.lowering import forms, lower_windowed, room, ways
from numbacc.conv.problem import resolve
from numbacc.conv.windowed import Windowed, is_faster

pytestmark = pytest.mark.usefixtures("poison")
SINGLE, DOUBLE, HALF, BFLOAT16 = FLOATS
DIRECTIONS = ("forward", "backward_filter")
each_direction = pytest.mark.parametrize("direction", DIRECTIONS)
NAME = "windows as channels"
FIRST_LAYER = ((64, 224, 224, 3), (64, 7, 7, 3), {"stride": 2, "padding": 3})


def request(x, w, **options):
    return conv.request(x, w, **{"layout": "NHWC", "dtype": "float16", **options}).problem


@contextmanager
def preferring():
    """Inside it every convolution that can be one of windows is computed as one."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(windowed, "is_faster", lambda problem, other: True)
        conv.cache_clear()
        yield
    conv.cache_clear()


@pytest.fixture
def preferred():
    with preferring():
        yield


def few(direction="forward", **more):
    """A convolution of two images of three channels, uneven in its lengths."""
    fixed = {"batch": 2, "groups": 1, "channels": 3, "filters": 5, "lengths": (9, 8), "taps": (3, 2), "seed": 3}
    dtype = {"dtype": more.get("dtype", HALF), "out_dtype": more.get("dtype", HALF)}
    return Case(direction, "NHWC", **{**fixed, "padding": 1, **more, **dtype})


def is_of_windows(call):
    return NAME in call.plan().info.algorithm


def check(place, case, layouts=None, taken=True, **options):
    call = Call(place, case, layouts, **options)
    call.check()
    assert is_of_windows(call) == (taken and place.is_device)
    return call


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
        made.into(number, source._numbacc_layout, dense).run((source,), (target,), target, 0)
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
    ],
    ids=str,
)
@each_direction
def test_large_ones_are_taken_unmeasured(direction, x, w, options, taken):
    """As they were faster on an H200, forward and as gradients of kernels."""
    problem, taken = request(x, w, direction=direction, **options), taken[DIRECTIONS.index(direction)]
    assert is_faster(problem, windowed.windowed(problem)) is taken
    found = [each.name for each in forms(problem, (True,) * 3)]
    assert (found[0] if taken else found[-1]) == NAME and found.count(NAME) == 1
    measured = [each.name for each in forms(problem, (True,) * 3, measured=True)]
    assert measured[0] == "" and measured[-1] == NAME


def test_what_follows_is_fused_as_ever():
    x, w, options = FIRST_LAYER
    problem = request(x, w, bias=True, activation="gelu", **options)
    found = list(forms(problem, (True,) * 4))
    assert [each.way for each in found if each.name == NAME] == ways(problem)
    assert len(found[0].graphs[0].nodes) == 3 and [number for number, _ in found[0].copies] == [0, 1]


@each_direction
def test_copies_count_as_scratch_memory(direction):
    nbytes = 256 * -(-2 * 2 * 9 * 7 * 8 // 256) + 256 * -(-2 * 5 * 3 * 8 // 256)
    for limit in (nbytes - 1, nbytes):
        problem = request((2, 9, 8, 3), (5, 3, 2, 3), direction=direction, workspace_limit=limit)
        other = windowed.windowed(problem)
        assert room(problem, lower_windowed(problem, other, ways(other)[0], (True,) * 3)) == limit - nbytes


def test_what_has_no_room_is_not_asked_about():
    x, w, options = FIRST_LAYER
    for limit, first in ((2**20, x), (2**30, (64, 115, 112, 64))):
        asked = conv.request(x, w, layout="NHWC", dtype="float16", workspace_limit=limit, **options)
        batch, height, width, channels = first
        assert asked.graphs()[0].tensors[0].shape == (batch, channels, height, width)


# ---------------------------------------------------------------- values

#: (lengths, taps, stride, padding, dilation).
WINDOWS = {
    "a first layer": ((15, 17), (7, 7), 2, 3, 1),
    "no stride": ((7, 6), (3, 3), 1, 1, 1),
    "no padding": ((9, 10), (3, 2), 2, 0, 1),
    "uneven padding": ((8, 9), (4, 3), (3, 2), ((0, 2), (3, 1)), 1),
    "more padding than taps": ((4, 5), (2, 2), (1, 2), 3, 1),
    "dilation of columns": ((9, 11), (5, 3), (2, 1), 1, (1, 3)),
    "dilation of rows that have one tap": ((6, 7), (1, 3), 1, 0, (4, 2)),
    "patches": ((13, 12), (4, 4), 4, 0, 1),
    "patches apart": ((13, 12), (2, 3), (5, 4), 1, 1),
    "strides that leave rows": ((8, 8), (2, 2), 3, 0, 1),
    "one tap": ((3, 5), (1, 1), 1, 0, 1),
    "a column": ((7, 1), (3, 1), 2, (1, 0), 1),
    "a row": ((1, 9), (1, 5), 1, (0, 2), 1),
    "many rows": ((39, 3), (3, 3), 2, 1, 1),
}


@pytest.mark.parametrize("window", WINDOWS)
@each_direction
def test_windows(place, preferred, direction, window):
    lengths, taps, stride, padding, dilation = WINDOWS[window]
    for flip in (False, True):
        geometry = {"stride": stride, "padding": padding, "dilation": dilation, "flip": flip}
        check(place, few(direction, lengths=lengths, taps=taps, **geometry))


@pytest.mark.parametrize("channels", range(1, 8))
@each_direction
def test_numbers_of_channels(place, preferred, direction, channels):
    for dtype in (HALF, BFLOAT16):
        check(place, few(direction, channels=channels, dtype=dtype, stride=(2, 1), filters=channels + 1))


@pytest.mark.parametrize("activation", [None, "relu", "gelu", "sigmoid"])
def test_what_follows(place, preferred, activation):
    for biased in (False, True):
        for alpha, beta in ((1.0, 0.0), (0.5, 0.0), (-1.5, 0.5)):
            check(place, few(activation=activation, biased=biased, alpha=alpha, beta=beta, stride=2))


@pytest.mark.parametrize("flip", [False, True])
@each_direction
def test_factors(place, preferred, direction, flip):
    """What is added to a gradient goes its way, too."""
    for alpha, beta in ((0.5, 0.0), (1.0, 1.0), (-1.5, 0.5)):
        check(place, few(direction, alpha=alpha, beta=beta, stride=2, flip=flip, taps=(3, 3)))


#: How operands may lie.
LYING = {
    "three of five channels": {"margins": ((0, 0), (0, 0), (0, 0), (0, 2))},
    "channels first": {"order": (0, 3, 1, 2)},
    "off 16 bytes": {"margins": ((0, 0), (0, 0), (0, 0), (1, 0))},
    "every other one": {"steps": (2, 2, 2, 2)},
    "backwards": {"steps": (-1, -1, -1, -1)},
    "repeated": {"steps": (0, 1, 0, 1)},
}


@pytest.mark.parametrize("lying", LYING)
@each_direction
def test_arrays_that_lie(place, preferred, direction, lying):
    names = {"forward": ("x", "w", "out"), "backward_filter": ("x", "dy", "out")}[direction]
    for number, name in enumerate(names):
        if lying == "repeated" and name == "out":
            continue
        check(place, few(direction, stride=2, seed=number), {name: LYING[lying]})


@settings(max_examples=40)
@given(data=st.data())
def test_drawn(place, data):
    if not place.is_device:
        skip("device")
    draw, small, length = data.draw, st.integers(1, 3), st.integers(1, 9)
    lengths, taps = draw(st.tuples(length, length)), draw(st.tuples(st.integers(1, 5), st.integers(1, 4)))
    apart = (1 if taps[0] > 1 else draw(small), draw(small))
    zeros = tuple(draw(st.tuples(st.integers(0, 4), st.integers(0, 4))) for _ in range(2))
    missing = [max((r - 1) * d + 1 - n - sum(z), 0) for r, d, n, z in zip(taps, apart, lengths, zeros, strict=True)]
    padding = tuple((before, after + more) for (before, after), more in zip(zeros, missing, strict=True))
    case = few(
        draw(st.sampled_from(DIRECTIONS)), lengths=lengths, taps=taps, padding=padding, dilation=apart,
        stride=draw(st.tuples(st.integers(1, 6), small)), channels=draw(st.integers(1, 7)),
        filters=draw(st.integers(1, 9)), dtype=draw(st.sampled_from((HALF, BFLOAT16))), flip=draw(st.booleans()),
        alpha=draw(st.sampled_from((1.0, 0.5))), beta=draw(st.sampled_from((0.0, 2.0))), seed=draw(st.integers(0, 9)),
    )  # fmt: skip
    first, second = {"forward": "xw", "backward_filter": ("x", "dy")}[case.direction]
    layouts = {name: draw(memory_layouts(4, False)) for name in (first, second)}
    if case.beta or draw(st.booleans()):
        layouts["out"] = draw(memory_layouts(4, True))
    with preferring():
        call = Call(place, case, layouts)
        call.check()
        assert call.plan().info.algorithm.startswith((NAME, "depthwise"))


@each_direction
def test_a_plan_of_many(device_place, preferred, direction):
    """One plan, other arrays that start elsewhere, again and again."""
    plan = Call(device_place, few(direction), {"out": {}}).plan()
    for seed in range(3):
        call = Call(device_place, few(direction, seed=seed), {"out": {}})
        call.verify(plan(*call.views, out=call.out.view))
    info = plan.info
    assert info.algorithm.startswith(f"{NAME}: ") and info.backend.endswith("+kernel")


@each_direction
def test_empty_batches_and_factors_of_0(place, preferred, direction):
    for more in ({"batch": 0}, {"batch": 0, "beta": 1.0}, {"alpha": 0.0, "beta": 0.5}):
        check(place, few(direction, **more), taken=False)


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


@each_direction
def test_without_room_it_is_the_convolution(device_place, preferred, direction):
    if device_place.name == "simulator":  # whose engines need none
        check(device_place, few(direction), taken=False, workspace_limit=1024)
        call = check(device_place, few(direction), workspace_limit=2**20)
        nbytes = call.plan().info.workspace_bytes
        check(device_place, few(direction), workspace_limit=nbytes)
        check(device_place, few(direction), taken=False, workspace_limit=nbytes - 256)


@each_direction
def test_they_repeat_their_bits(place, preferred, direction):
    call = Call(place, few(direction), deterministic=True)
    first = bits(place.get(call.run()))
    for _ in range(2):
        np.testing.assert_array_equal(bits(place.get(call.run())), first)
    assert call.plan().info.deterministic and is_of_windows(call) is place.is_device


@pytest.mark.parametrize("comes_first", [False, True])
@each_direction
def test_both_are_measured(device_place, monkeypatch, direction, comes_first):
    """Each form that is measured can win, and is what then runs, whichever comes first unmeasured."""
    seen, winner, names = [], 0, []
    library = graph_library()

    def tune(graphs, wants, device, stream, trial, others):
        assert not others
        seen.append(len(graphs))
        for number, (graph, wanted) in enumerate(zip(graphs, wants, strict=True)):
            trial(library.choose(graph, wanted, device)._replace(kind=(number, 2 * number)))()
        return library.choose(graphs[winner], wants[winner], device)._replace(kind=(winner, 2 * winner))

    monkeypatch.setattr(library, "tune", tune)
    monkeypatch.setattr(library, "number_of", lambda algorithm: algorithm.kind[1] // 2)
    monkeypatch.setattr(windowed, "is_faster", lambda problem, other: comes_first)
    while not names or winner < seen[-1]:
        conv.cache_clear()
        call = Call(device_place, few(direction), {"out": {}}, tune=True)
        call.check()
        names.append(is_of_windows(call))
        winner += 1
    conv.cache_clear()
    assert names == [False, True]


def test_it_is_taken_for_arrays_that_start_anywhere(device_place, preferred):
    lies = {"x": {"margins": ((0, 0), (0, 0), (0, 0), (1, 0))}}
    for tune in (False, True):
        check(device_place, few(), lies, tune=tune)


def test_a_graph(device_place, preferred):
    x, w = (numbacc.asarray(np.ones(shape, np.float16)) for shape in ((1, 5, 6, 3), (4, 3, 3, 3)))
    options = {"layout": "NHWC", "padding": 1, "out": numbacc.empty((1, 5, 6, 4), "float16")}
    conv.forward(x, w, **options)
    with numbacc.graph() as graph:
        conv.forward(x, w, **options)
    x[...] = 2.0
    graph.launch()
    assert numbacc.asnumpy(options["out"])[0, 2, 2, 0] == 54.0
