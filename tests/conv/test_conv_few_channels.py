"""Convolutions and gradients of images with few channels, computed as others of many: their values."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from conftest import bits, memory_layouts
from conv_call import Call
from conv_oracle import DIRECTIONS
from few_channels import BFLOAT16, HALF, NAMES, check, few, is_other, preferring
from hypothesis import given, settings
from hypothesis import strategies as st
from skips import skip

import numbacc
from numbacc import conv
from numbacc.base.dispatch import graph_library
from numbacc.conv import space_to_depth, windowed
from numbacc.conv.problem import OPERANDS

pytestmark = pytest.mark.usefixtures("poison")
each_direction = pytest.mark.parametrize("direction", DIRECTIONS)


@pytest.fixture
def preferred():
    with preferring():
        yield


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
    "patches that fill": ((12, 8), (4, 4), 4, 0, 1),
    "patches apart": ((13, 12), (2, 3), (5, 4), 1, 1),
    "strides that leave rows": ((8, 8), (2, 2), 3, 0, 1),
    "one tap": ((3, 5), (1, 1), 1, 0, 1),
    "a column": ((7, 1), (3, 1), 2, (1, 0), 1),
    "a row": ((1, 9), (1, 5), 1, (0, 2), 1),
    "many rows": ((39, 3), (3, 3), 2, 1, 1),
}


#: Those whose gradients of images are computed as others: with a stride, without dilation, and all is met by windows.
DEEP = ("a first layer", "no padding", "uneven padding", "more padding than taps", "patches that fill")
DEEP += ("strides that leave rows", "a column", "many rows")


@pytest.mark.parametrize("window", WINDOWS)
@each_direction
def test_windows(place, preferred, direction, window):
    lengths, taps, stride, padding, dilation = WINDOWS[window]
    for flip in (False, True):
        geometry = {"stride": stride, "padding": padding, "dilation": dilation, "flip": flip}
        taken = direction != "backward_data" or window in DEEP
        check(place, few(direction, lengths=lengths, taps=taps, **geometry), taken=taken)


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
    """What is added to a gradient of kernels goes its way, too; nothing is added to one of deeper images."""
    for alpha, beta in ((0.5, 0.0), (1.0, 1.0), (-1.5, 0.5)):
        taken = direction != "backward_data" or not beta
        check(place, few(direction, alpha=alpha, beta=beta, stride=2, flip=flip, taps=(3, 3)), taken=taken)


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
    for number, name in enumerate((*OPERANDS[direction], "out")):
        if lying == "repeated" and name == "out":
            continue
        check(place, few(direction, stride=2, seed=number), {name: LYING[lying]})


def drawn_call(data, place, case):
    """A call with operands that lie anyhow."""
    draw = data.draw
    layouts = {name: draw(memory_layouts(4, False)) for name in OPERANDS[case.direction]}
    if case.beta or draw(st.booleans()):
        layouts["out"] = draw(memory_layouts(4, True))
    return Call(place, case, layouts)


#: What is drawn of all cases.
DRAWN = {
    "channels": st.integers(1, 7),
    "filters": st.integers(1, 9),
    "dtype": st.sampled_from((HALF, BFLOAT16)),
    "flip": st.booleans(),
    "alpha": st.sampled_from((1.0, 0.5)),
    "seed": st.integers(0, 9),
}
SMALL, LENGTH, ZEROS = st.integers(1, 3), st.integers(1, 9), st.integers(0, 4)


@settings(max_examples=40)
@given(data=st.data(), more=st.fixed_dictionaries(DRAWN))
def test_drawn(place, data, more):
    if not place.is_device:
        skip("device")
    draw = data.draw
    lengths, taps = draw(st.tuples(LENGTH, LENGTH)), draw(st.tuples(st.integers(1, 5), st.integers(1, 4)))
    apart = (1 if taps[0] > 1 else draw(SMALL), draw(SMALL))
    zeros = draw(st.tuples(*[st.tuples(ZEROS, ZEROS)] * 2))
    missing = [max((r - 1) * d + 1 - n - sum(z), 0) for r, d, n, z in zip(taps, apart, lengths, zeros, strict=True)]
    padding = tuple((before, after + more) for (before, after), more in zip(zeros, missing, strict=True))
    direction = draw(st.sampled_from(("forward", "backward_filter")))
    case = few(
        direction, lengths=lengths, taps=taps, padding=padding, dilation=apart,
        stride=draw(st.tuples(st.integers(1, 6), SMALL)), beta=draw(st.sampled_from((0.0, 2.0))), **more,
    )  # fmt: skip
    with preferring():
        call = drawn_call(data, place, case)
        call.check()
        assert is_other(call) or call.plan().info.algorithm.startswith("depthwise")


@settings(max_examples=60)
@given(data=st.data(), more=st.fixed_dictionaries({**DRAWN, "filters": st.integers(2, 9)}))
def test_drawn_gradients_of_images(place, data, more):
    """The last window ends where the padding does, so that all strides are reached."""
    if not place.is_device:
        skip("device")
    draw = data.draw
    stride = draw(st.tuples(st.integers(1, 6), st.integers(1, 4)).filter(lambda steps: max(steps) > 1))
    taps, places = draw(st.tuples(st.integers(1, 7), st.integers(1, 5))), draw(st.tuples(SMALL, SMALL))
    full = [(p - 1) * s + t for p, s, t in zip(places, stride, taps, strict=True)]
    before = [draw(st.integers(0, min(4, n - 1))) for n in full]
    after = [draw(st.integers(0, min(4, n - 1 - lead))) for n, lead in zip(full, before, strict=True)]
    lengths = tuple(n - lead - trail for n, lead, trail in zip(full, before, after, strict=True))
    case = few(
        "backward_data",
        lengths=lengths,
        taps=taps,
        padding=tuple(zip(before, after, strict=True)),
        stride=stride,
        **more,
    )
    pixels = -(-prod(stride) * case.channels // 8) * 8
    deep = prod(-(-(t + -lead % s) // s) for t, lead, s in zip(taps, before, stride, strict=True)) * pixels
    with preferring():
        call = drawn_call(data, place, case)
        call.check()
        assert is_other(call) is (deep <= 2 * (8 if case.channels <= 4 else 16) * prod(taps))


@each_direction
def test_a_plan_of_many(device_place, preferred, direction):
    """One plan, other arrays that start elsewhere, again and again."""
    plan = Call(device_place, few(direction), {"out": {}}).plan()
    for seed in range(3):
        call = Call(device_place, few(direction, seed=seed), {"out": {}})
        call.verify(plan(*call.views, out=call.out.view))
    info = plan.info
    assert info.algorithm.startswith(f"{NAMES[direction]}: ") and info.backend.endswith("+kernel")


@each_direction
def test_empty_batches_and_factors_of_0(place, preferred, direction):
    for more in ({"batch": 0}, {"batch": 0, "beta": 1.0}, {"alpha": 0.0, "beta": 0.5}):
        check(place, few(direction, **more), taken=False)


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
    assert call.plan().info.deterministic and is_other(call) is place.is_device


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
    for module in (windowed, space_to_depth):
        monkeypatch.setattr(module, "is_faster", lambda problem, other: comes_first)
    while not names or winner < seen[-1]:
        conv.cache_clear()
        call = Call(device_place, few(direction), {"out": {}}, tune=True)
        call.check()
        names.append(is_other(call))
        winner += 1
    conv.cache_clear()
    assert names == [False, True]


@each_direction
def test_they_are_taken_for_arrays_that_start_anywhere(device_place, preferred, direction):
    lies = {OPERANDS[direction][0]: {"margins": ((0, 0), (0, 0), (0, 0), (1, 0))}}
    check(device_place, few(direction), lies)
    Call(device_place, few(direction), lies, tune=True).check()


@each_direction
def test_a_graph(device_place, preferred, direction):
    """Its operands change between launches."""
    case = few(direction, stride=2)
    plan = Call(device_place, case, {"out": {}}).plan()
    first, second = (Call(device_place, case._replace(seed=seed), {"out": {}}) for seed in (1, 2))
    plan(*first.views, out=first.out.view)
    with numbacc.graph() as graph:
        plan(*first.views, out=first.out.view)
    for mine, other in zip(first.views, second.views, strict=True):
        mine[...] = other
    graph.launch()
    second.out.view[...] = first.out.view
    second.verify(second.out.view)
