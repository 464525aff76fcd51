"""Depthwise convolutions, of which each channel has a kernel of its own: by kernels of ours, or by cuDNN."""

from __future__ import annotations

import conv_oracle
import numpy as np
import pytest
from conftest import bits
from conv_call import Call, small
from conv_oracle import ACTIVATIONS, DIRECTIONS, FLOATS, Inputs

import numbacc
from numbacc import conv
from numbacc.base.dispatch import graph_library, simulated
from numbacc.conv import depthwise

pytestmark = pytest.mark.usefixtures("poison")

SINGLE, DOUBLE, HALF, BFLOAT16 = FLOATS
each_direction = pytest.mark.parametrize("direction", DIRECTIONS)
each_layout = pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
each_dtype = pytest.mark.parametrize("dtype", FLOATS, ids=str)


def deep(direction, layout="NHWC", dtype=SINGLE, channels=8, **more):
    """A convolution of two small images whose channels have a kernel each."""
    sizes = {"groups": channels, "channels": 1, "filters": 1}
    return small(direction, layout, dtype=dtype, out_dtype=dtype, **{**sizes, **more})


def is_ours(call):
    """Whether a kernel of ours does it all; on the CPU there is none."""
    return call.plan().info.algorithm.startswith("depthwise")


def check(place, case, layouts=None, ours=True, **options):
    call = Call(place, case, layouts, **options)
    call.check()
    assert is_ours(call) == (ours and place.is_device)


#: What lies how far from what: (lengths, taps, stride, padding, dilation).
WINDOWS = {
    "same": ((7, 6), (3, 3), 1, 1, 1),
    "of tiles of two by four": ((6, 8), (3, 3), 1, "same", 1),
    "no padding": ((6, 7), (3, 2), 1, 0, 1),
    "uneven padding": ((5, 6), (2, 3), 1, ((0, 2), (3, 1)), 1),
    "more padding than taps": ((4, 5), (2, 2), 1, 3, 1),
    "strides": ((8, 9), (3, 3), (2, 3), (1, 2), 1),
    "strides that leave elements": ((8, 8), (2, 2), (3, 4), 0, 1),
    "dilation": ((7, 9), (3, 2), 1, (2, 1), (2, 3)),
    "stride and dilation": ((9, 8), (2, 3), (2, 3), ((1, 0), (2, 3)), (3, 2)),
    "one tap": ((3, 5), (1, 1), 1, 0, 1),
    "a column": ((7, 1), (3, 1), 1, (1, 0), 1),
    "a row": ((1, 9), (1, 5), 1, (0, 2), 1),
}


@pytest.mark.parametrize("window", WINDOWS)
@each_layout
@each_direction
def test_windows(place, direction, layout, window):
    lengths, taps, stride, padding, dilation = WINDOWS[window]
    # Blocks that add up take the simulator long.
    for flip in (True,) if simulated() and direction == "backward_filter" else (False, True):
        geometry = {"stride": stride, "padding": padding, "dilation": dilation, "flip": flip}
        check(place, deep(direction, layout, lengths=lengths, taps=taps, **geometry))


@each_dtype
@each_layout
@each_direction
def test_dtypes(place, direction, layout, dtype):
    check(place, deep(direction, layout, dtype=dtype))
    check(place, deep(direction, layout, dtype=dtype, stride=2, flip=True, padding="same"))


@pytest.mark.parametrize("stride, dilation", [(1, 1), (2, 1), (1, 3), (3, 2)])
@pytest.mark.parametrize("layout", ["NWC", "NCW"])
@each_direction
def test_one_dimension(place, direction, layout, stride, dilation):
    for taps, padding in ((3, 1), (4, [(5, 0)]), (7, "same")):
        case = deep(direction, layout, lengths=(21,), taps=(taps,), padding=padding, stride=stride, dilation=dilation)
        check(place, case)


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
@pytest.mark.parametrize("dtype", [SINGLE, HALF], ids=str)
@each_layout
def test_activations(place, layout, dtype, activation):
    """In the same launch, rounded once."""
    for more in ({"biased": True}, {"biased": True, "alpha": -1.5, "beta": 0.5}):
        check(place, deep("forward", layout, dtype=dtype, lengths=(4, 5), activation=activation, **more))


@each_dtype
@each_layout
def test_what_follows(place, layout, dtype):
    for biased in (False, True):
        for alpha, beta in ((1.0, 0.0), (0.5, 0.0), (1.0, 1.0), (-1.5, 0.5)):
            more = {"activation": "relu", "biased": biased, "alpha": alpha, "beta": beta}
            check(place, deep("forward", layout, dtype=dtype, lengths=(4, 5), **more))


@each_layout
@each_direction
def test_factors(place, direction, layout):
    for alpha, beta in ((0.5, 0.0), (1.0, 1.0), (-1.5, 0.5)):
        for dtype in FLOATS[-1:] if simulated() else FLOATS:
            check(place, deep(direction, layout, dtype=dtype, alpha=alpha, beta=beta, lengths=(5, 4)))


@pytest.mark.parametrize(
    "channels, dtype, ours",
    [
        (2, SINGLE, True),
        (12, SINGLE, True),
        (20, HALF, True),
        (40, BFLOAT16, True),
        (36, DOUBLE, True),
        (3, SINGLE, False),
        (6, HALF, False),
        (5, DOUBLE, True),
    ],
    ids=str,
)
@each_direction
def test_numbers_of_channels(place, direction, channels, dtype, ours):
    """A thread takes up to 16 bytes of sums, and not less than 8 bytes of an image."""
    check(place, deep(direction, dtype=dtype, channels=channels, lengths=(4, 5)), ours=ours)


@pytest.mark.parametrize("channels", [1, 3, 5, 9])
@each_dtype
@each_direction
def test_numbers_of_channels_with_channels_first(place, direction, dtype, channels):
    """Blocks handle several channels if these have few tiles."""
    check(place, deep(direction, "NCHW", dtype=dtype, channels=channels, lengths=(4, 5)))


@each_layout
@each_direction
def test_many_blocks(place, direction, layout):
    """Of channels, and of places: on a GPU so many that tiles are large, and that a thread takes several."""
    side, channels = (60, 328) if place.name == "gpu" else (6, 36)
    check(place, deep(direction, layout, channels=channels, lengths=(side, side + 1), taps=(3, 3), batch=3))


@each_dtype
@each_layout
@each_direction
def test_large_tiles(place, direction, layout, dtype, monkeypatch):
    """As where there are many images."""
    monkeypatch.setattr(depthwise, "_BUSY", 0)
    monkeypatch.setattr(depthwise, "_BLOCKS", 1)
    conv.cache_clear()
    for lengths in ((7, 6),) if simulated() else ((8, 8), (7, 6), (13, 5)):
        # With a factor: without one and in 16 bits cuDNN has a kernel of its own.
        case = deep(
            direction, layout, dtype=dtype, lengths=lengths, taps=(3, 3), batch=3, padding=((1, 0), 2), alpha=0.5
        )
        check(place, case)
    conv.cache_clear()


@pytest.mark.parametrize("taps, ours", [((7, 7), True), ((5, 5), True), ((8, 7), False)], ids=str)
@pytest.mark.parametrize("dtype", [SINGLE, HALF], ids=str)
@each_layout
@each_direction
def test_many_taps(place, direction, layout, taps, ours, dtype):
    check(place, deep(direction, layout, dtype=dtype, taps=taps, padding=3, lengths=(8, 9)), ours=ours)


#: How operands may lie, and whether the kernels take them without a copy.
LYING = {
    "as views of wider rows": ({"margins": ((0, 0), (1, 1), (0, 2), (4, 8))}, True),
    "every other row and column": ({"steps": (1, 2, 2, 1)}, True),
    "backwards": ({"steps": (1, -1, -1, 1)}, True),
    "columns before rows": ({"order": (0, 2, 1, 3)}, True),
    "off 16 bytes": ({"margins": ((0, 0), (0, 0), (0, 0), (1, 3))}, False),
    "rows that are no multiples of 16 bytes": ({"margins": ((0, 0), (0, 0), (0, 0), (0, 1))}, False),
    "every other channel": ({"steps": (1, 1, 1, 2)}, False),
}


@pytest.mark.parametrize("lying", LYING)
@each_direction
def test_images_that_lie(place, direction, lying):
    where, ours = LYING[lying]
    images = {"forward": ("x", "out"), "backward_data": ("dy", "out"), "backward_filter": ("x", "dy")}[direction]
    case = deep(direction)
    for names in (images, images[:1], images[1:]):
        call = Call(place, case, dict.fromkeys(names, where))
        call.check()
        if place.is_device:
            arrays = [*call.views, *([call.out.view] if call.out else [])]
            # A plan that was run tells of these arrays, wherever they start.
            aligned = all(array._address % 16 == 0 for array in arrays)
            assert is_ours(call)
            assert ("copies" in call.plan().info.algorithm) is not (ours and aligned)


#: How images with channels first may lie, and whether the kernels take them without a copy.
LYING_FIRST = {
    "as views of wider rows": ({"margins": ((0, 0), (1, 1), (1, 0), (1, 2))}, True),
    "off 16 bytes": ({"margins": ((0, 0), (0, 0), (0, 0), (1, 3))}, True),
    "every other channel and row": ({"steps": (1, 2, 2, 1)}, True),
    "rows and channels backwards": ({"steps": (1, -1, -1, 1)}, True),
    "every other column": ({"steps": (1, 1, 1, 2)}, False),
    "rows before columns": ({"order": (0, 1, 3, 2)}, False),
    "channels last": ({"order": (0, 2, 3, 1)}, False),
}


@pytest.mark.parametrize("lying", LYING_FIRST)
@pytest.mark.parametrize("dtype", [SINGLE, BFLOAT16], ids=str)
@each_direction
def test_images_that_lie_with_channels_first(place, direction, dtype, lying):
    """With contiguous columns, every address and every stride is supported; other images are copied."""
    where, ours = LYING_FIRST[lying]
    images = {"forward": ("x", "out"), "backward_data": ("dy", "out"), "backward_filter": ("x", "dy")}[direction]
    case = deep(direction, "NCHW", dtype=dtype)
    # If both images have channels last, the other kernels compute it.
    for names in (images[:1], images[1:]) if lying == "channels last" else (images, images[:1], images[1:]):
        call = Call(place, case, dict.fromkeys(names, where))
        call.check()
        if place.is_device:
            assert is_ours(call)
            assert ("copies" in call.plan().info.algorithm) is not ours


#: Windows over rows that an access of several columns divides: (columns, taps, stride, padding, dilation).
ACCESSES = {
    "same": (8, (3, 3), 1, 1, 1),
    "pairs": (6, (3, 3), 1, 1, 1),
    "large taps": (12, (5, 7), 1, (2, 3), 1),
    "even taps": (8, (2, 4), 1, ((0, 1), (2, 1)), 1),
    "wide padding": (4, (3, 3), 1, 6, 1),
    "stride": (16, (3, 3), 2, 1, 1),
    "stride of rows": (8, (3, 3), (3, 1), 1, 1),
    "long stride": (12, (2, 2), 3, 0, 1),
    "dilation": (8, (3, 3), 1, (2, 4), (2, 4)),
    "one tap": (8, (1, 1), 1, 0, 1),
}


@pytest.mark.each_alone
@pytest.mark.parametrize("window", ACCESSES)
@each_dtype
@each_direction
def test_accesses_of_several_columns(place, direction, dtype, window):
    """With channels first, rows begin at 16 bytes, at 8, at the next element, or all differently."""
    columns, taps, stride, padding, dilation = ACCESSES[window]
    geometry = {"taps": taps, "stride": stride, "padding": padding, "dilation": dilation}
    images = {"forward": ("x", "out"), "backward_data": ("dy", "out"), "backward_filter": ("x", "dy")}[direction]
    case = deep(direction, "NCHW", dtype=dtype, lengths=(5, columns), batch=2, channels=3, **geometry)
    ways = [(0, 0), (2, 2), (1, 3), (0, 4), (4, 0), (0, 1)]
    if place.is_slow:  # each way with every second window
        ways = ways[[*ACCESSES].index(window) % 2 :: 2]
    for before, after in ways:
        where = {"margins": ((0, 0), (0, 0), (0, 0), (before, after))}
        for names in (images, images[:1]):
            check(place, case, dict.fromkeys(names, where))
    if direction != "backward_filter":
        check(place, case._replace(alpha=0.5, beta=-1.5), {"out": {"margins": ((0, 0), (0, 0), (0, 0), (4, 0))}})


@each_layout
@each_direction
def test_kernels_and_biases_that_lie(place, direction, layout):
    """They are taken one by one."""
    for where in ({"steps": (2, 1, 1, 1)}, {"order": (3, 1, 2, 0)}, {"margins": ((0, 0), (0, 0), (0, 0), (1, 2))}):
        check(place, deep(direction, layout, alpha=2.0), {("out" if direction == "backward_filter" else "w"): where})
    case = deep("forward", layout, biased=True)
    for steps in ((2,), (0,)):
        check(place, case, {"bias": {"steps": steps}})


def test_channels_last_memory_as_channels_first(place):
    for direction in DIRECTIONS:
        order = {"order": (0, 2, 3, 1)}
        case = deep(direction, "NCHW")
        check(place, case, dict.fromkeys(("x", "dy", "out"), order))


@pytest.mark.parametrize("dtype", [SINGLE, HALF], ids=str)
def test_what_no_window_reaches_has_no_say(place, dtype):
    """Infinite elements that a stride leaves out; and of the gradient of kernels those that some taps do not meet."""
    case = deep("forward", dtype=dtype, lengths=(6, 6), taps=(2, 2), stride=3, padding=0)
    values = conv_oracle.inputs(case)
    wrong = values.first.copy()
    wrong[:, 2::3], wrong[:, :, 2::3] = np.inf, np.nan
    found = place.get(Call(place, case, given=values._replace(first=wrong)).run())
    np.testing.assert_array_equal(bits(found), bits(place.get(Call(place, case, given=values).run())))
    # The last column of x meets the last tap alone.
    case = deep("backward_filter", dtype=dtype, lengths=(5, 7), taps=(2, 2), padding=0)
    values = conv_oracle.inputs(case)
    wrong = values.first.copy()
    wrong[:, :, -1] = np.inf
    found = place.get(Call(place, case, given=Inputs(wrong, values.second)).run()).astype(np.float64)
    assert np.isfinite(found[:, :, 0]).all()
    assert not np.isfinite(found[:, :, 1]).any()


@each_direction
def test_empty_batches_and_factors_of_0(place, direction):
    for more in ({"batch": 0}, {"batch": 0, "beta": 1.0}, {"alpha": 0.0, "beta": 0.5}):
        Call(place, deep(direction, **more)).check()


@each_direction
def test_they_repeat_their_bits(place, direction):
    call = Call(place, deep(direction, lengths=(5, 6)), deterministic=True, tune=True)
    first = bits(place.get(call.run()))
    for _ in range(2):
        np.testing.assert_array_equal(bits(place.get(call.run())), first)
    assert call.plan().info.deterministic


def test_scratch_memory_is_limited(device_place):
    """The gradient of kernels is added up in fewer shares, and without any it is left to cuDNN."""
    case = deep("backward_filter", lengths=(9, 9), batch=4)
    nbytes = 4 * 8 * 6
    for limit in (nbytes, 3 * nbytes):
        call = Call(device_place, case, workspace_limit=limit)
        call.check()
        assert is_ours(call) and call.plan().info.workspace_bytes <= 256 * -(-limit // 256)
    assert not is_ours(Call(device_place, case, workspace_limit=nbytes - 1))


def test_a_graph(device_place):
    x, w = (numbacc.asarray(np.ones(shape, np.float32)) for shape in ((1, 5, 6, 4), (4, 3, 3, 1)))
    out = numbacc.empty((1, 5, 6, 4), "float32")
    options = {"groups": 4, "layout": "NHWC", "padding": 1, "out": out}
    conv.forward(x, w, **options)
    with numbacc.graph() as graph:
        conv.forward(x, w, **options)
    x[...] = 2.0
    graph.launch()
    assert numbacc.asnumpy(out)[0, 2, 2, 0] == 18.0


@each_direction
def test_they_are_measured_beside_cudnns(device_place, monkeypatch, direction):
    """With `tune` either may win, and is what then runs."""
    library = graph_library()
    tune, given = library.tune, []

    def seen(graphs, wants, device, stream, trial, others=()):
        (own,) = others
        given.append(own)
        for each in (own, library.choose(graphs[0], wants[0], device)):
            trial(each)()
        return own if wins else library.choose(graphs[0], wants[0], device)

    monkeypatch.setattr(library, "tune", seen)
    for wins in (True, False):
        conv.cache_clear()
        call = Call(device_place, deep(direction, beta=0.5), tune=True)
        call.check()
        assert is_ours(call) is wins and len(given) == 1 + (not wins)
    assert given[0].text.startswith("depthwise") and given[0].deterministic
    # What is left to cuDNN has no kernel of ours to be measured.
    monkeypatch.setattr(library, "tune", tune)
    conv.cache_clear()
    Call(device_place, deep(direction, layout="NCHW"), tune=True).check()
    conv.cache_clear()
