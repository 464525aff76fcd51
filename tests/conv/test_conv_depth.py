"""Gradients of images with few channels as those of deeper images: what these are, what is copied, and when."""

from __future__ import annotations

import conv_oracle
import numpy as np
import pytest
from conftest import bits
from conv_call import Call
from conv_plans import engine_of
from cudnn_cases import need_planning
from few_channels import DEPTH, FIRST_LAYER, HALF, few, is_other, preferring, request
from skips import skip_if

import numbacc
from numbacc import compiling, conv, cudnn
from numbacc.base.dispatch import launching_by, simulated
from numbacc.base.layout import layout
from numbacc.conv.lowering import Way, copies, forms, lower_other, others, room, ways
from numbacc.conv.problem import resolve
from numbacc.conv.space_to_depth import Deepened, deepened, is_faster
from numbacc.kernels.conv.im2col_spec import WindowsSpec
from numbacc.kernels.elementwise import copy as copying
from numbacc.kernels.inspection import Noted

pytestmark = pytest.mark.usefixtures("poison")
PATCHES = ((64, 224, 224, 3), (768, 16, 16, 3), {"stride": 16})


def gradient(x, w, options, **more):
    return request(x, w, direction="backward_data", **options, **more)


def test_shapes():
    other = deepened(gradient(*FIRST_LAYER))
    # 3 zeros before rows and columns: one more, and the kernels' first are shifted by it.
    assert (other.geometry.x_shape, other.geometry.w_shape) == ((64, 112, 112, 16), (64, 4, 4, 16))
    assert other.geometry.window.padding == ((2, 1), (2, 1)) and other.geometry.window.stride == (1, 1)
    other = deepened(gradient(*PATCHES))
    assert (other.geometry.x_shape, other.geometry.w_shape) == ((64, 14, 14, 768), (768, 1, 1, 768))
    assert other.geometry.window.padding == ((0, 0), (0, 0))
    other = deepened(gradient((8, 9, 13, 5), (4, 3, 3, 5), {"stride": (1, 3), "padding": ((2, 0), (1, 1))}))
    assert (other.geometry.x_shape, other.geometry.w_shape) == ((8, 9, 5, 16), (4, 3, 2, 16))
    assert other.geometry.window.padding == ((2, 0), (1, 0))


@pytest.mark.parametrize(
    "x, w, options",
    [
        ((2, 9, 9, 8), (4, 3, 3, 8), {"stride": 2}),
        ((2, 9, 9, 4), (4, 3, 3, 2), {"stride": 2, "groups": 2}),
        ((2, 9, 9, 3), (4, 3, 3, 3), {"stride": 2, "dtype": "float32"}),
        ((2, 9, 9, 3), (4, 3, 3, 3), {"stride": 2, "dilation": (2, 1)}),
        ((2, 9, 9, 3), (4, 3, 3, 3), {}),
        ((2, 9, 9, 3), (4, 2, 2, 3), {"stride": 2}),  # no window reaches the last row
        ((2, 9, 9, 3), (4, 2, 2, 3), {"stride": 8}),  # most of a stride meets no tap
        ((2, 5, 5, 3), (4, 2, 2, 3), {"stride": 5}),  # 80 products, an engine spends 32
        ((1, 7, 7, 3), (2**27, 7, 7, 3), {"stride": 2, "padding": 3}),  # more kernels than 32 bits count
        ((2, 3, 9, 9), (4, 3, 3, 3), {"stride": 2, "layout": "NCHW"}),
        ((2, 9, 3), (4, 3, 3), {"stride": 2, "layout": "NWC"}),
        ((2, 9, 9, 9, 3), (4, 3, 3, 3, 3), {"stride": 2, "layout": "NDHWC"}),
    ],
    ids=str,
)
def test_what_is_none(x, w, options):
    assert deepened(gradient(x, w, options)) is None


def test_what_is_just_one():
    assert deepened(gradient((2, 4, 4, 4), (4, 2, 2, 4), {"stride": 4})).geometry.w_shape == (4, 1, 1, 64)
    assert deepened(gradient((1, 7, 7, 3), (2**27 - 1, 7, 7, 3), {"stride": 2, "padding": 3})) is not None


def test_other_directions_and_additions_are_none():
    x, w, options = FIRST_LAYER
    assert all(deepened(request(x, w, direction=name, **options)) is None for name in ("forward", "backward_filter"))
    found = gradient(x, w, options)
    assert deepened(resolve(found.call._replace(beta=1.0, out=found.out))) is None
    assert deepened(resolve(found.call._replace(alpha=0.5, out=found.out))) is not None


def test_kernels_far_apart_are_none():
    """32 bits count what lies within a kernel; from kernel to kernel there are 64."""
    call = gradient(*FIRST_LAYER).call
    for apart, is_near in ((2**26, True), (2**27, False)):
        strides = (2**40, 2 * apart, 2 * 3, 2)
        far = call._replace(b=layout(call.b.shape, strides, call.b.dtype, 0))
        assert (deepened(resolve(far)) is not None) is is_near


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("stride, padding", [(2, 3), ((3, 1), ((1, 2), (3, 1))), ((2, 4), 0)], ids=str)
def test_kernels_that_are_copied(device_place, stride, padding, flip):
    """Bit for bit, NaN and what it carries too."""
    problem = gradient((2, 20, 16, 3), (5, 7, 4, 3), {"stride": stride, "padding": padding, "flip": flip})
    own, dense = problem.call.b, deepened(problem).call.b
    (down, across), ((top, _), (left, _)) = problem.geometry.window.stride, problem.geometry.window.padding
    host = np.random.default_rng(0).integers(0, 2**16, own.shape).astype(np.uint16).view(HALF)
    source, target = device_place.put(host), numbacc.full(dense.shape, np.nan, dtype="float16")
    (part,) = Deepened(problem).into(1, source._numbacc_layout, dense)
    part.executable.run((source,), (target,), target, 0)
    wanted = np.zeros(dense.shape, np.uint16)
    w = host.view(np.uint16)[:, ::-1, ::-1] if flip else host.view(np.uint16)
    for row, column in np.ndindex(7, 4):
        (u, a), (v, b) = divmod(row + -top % down, down), divmod(column + -left % across, across)
        first = (a * across + b) * 3
        wanted[:, u, v, first : first + 3] = w[:, row, column]
    np.testing.assert_array_equal(bits(device_place.get(target)), wanted)


@pytest.mark.parametrize(
    "x, w, options, taken",
    [
        (*FIRST_LAYER, True),
        ((4, *FIRST_LAYER[0][1:]), *FIRST_LAYER[1:], True),
        ((1, *FIRST_LAYER[0][1:]), *FIRST_LAYER[1:], False),
        (*PATCHES, True),
        ((64, 224, 224, 3), (32, 3, 3, 3), {"stride": 2, "padding": 1}, True),
        ((64, 224, 224, 3), (96, 11, 11, 3), {"stride": 4, "padding": 2}, True),
        ((64, 224, 224, 6), (64, 3, 3, 6), {"stride": 2, "padding": 1}, True),
        ((64, 224, 224, 3), (64, 1, 1, 3), {"stride": 2, "padding": 1}, False),
        ((4, 224, 224, 3), (8, 7, 7, 3), {"stride": 2, "padding": 3}, True),  # else by cuDNN's generic engine
        ((4, 224, 224, 3), (16, 7, 7, 3), {"stride": 2, "padding": 3}, False),
        ((64, 224, 224, 4), (64, 2, 2, 4), {"stride": 4}, False),
    ],
    ids=str,
)
def test_large_ones_are_taken_unmeasured(x, w, options, taken):
    problem = gradient(x, w, options)
    other = deepened(problem)
    assert (other is not None and is_faster(problem, other)) is taken
    found = [each.name for each in forms(problem, (True,) * 3)]
    assert (found[0] == DEPTH) is taken and found.count(DEPTH) == (other is not None)
    assert next(forms(problem, (True,) * 3, measured=True)).name == ""


def test_copies_count_as_scratch_memory():
    nbytes = 256 * -(-2 * 2 * 5 * 4 * 16 // 256) + 256 * -(-2 * 5 * 2 * 2 * 16 // 256)
    for limit in (nbytes - 1, nbytes):
        problem = gradient((2, 10, 8, 3), (5, 3, 3, 3), {"stride": 2, "padding": 1}, workspace_limit=limit)
        (other,) = others(problem)
        (way,) = ways(other.problem)
        lowered = lower_other(other, way, (True,) * 3)
        assert lowered.way == Way(False, False) and room(problem, lowered) == limit - nbytes


def test_what_an_infinity_spoils(device_place):
    """Where taps and what shifts them fill no strides, images get NaN one step beyond what it meets, and no further."""
    case = few("backward_data", lengths=(12, 12), taps=(3, 3), padding=1)
    values = conv_oracle.inputs(case)
    spoilt = values.first.copy()
    spoilt[0, 3, 3] = np.inf
    with preferring():
        calls = [Call(device_place, case, given=values._replace(first=each)) for each in (spoilt, values.first)]
        found, exact = (device_place.get(call.run()) for call in calls)
        assert all(map(is_other, calls))
    met = np.zeros((12, 12), bool)
    met[5:8, 5:8] = True
    around = np.zeros((12, 12), bool)
    around[4:8, 4:8] = True
    assert not np.isfinite(found[0][met]).any()
    np.testing.assert_array_equal(bits(found[0][~around]), bits(exact[0][~around]))
    np.testing.assert_array_equal(bits(found[1]), bits(exact[1]))


# ---------------------------------------------------------------- without a GPU


def launched(x, w, options):
    found = []
    with launching_by(Noted.into(found)):
        problem = gradient(x, w, options)
        for copy in copies(problem, *others(problem)):
            copy.choose((0, 0))
    copying.executable.cache_clear()  # of those that launch nothing
    return found


@skip_if(simulated(), "not simulated")
def test_they_are_compiled_ahead():
    ahead = set(compiling.kernels(["conv"]))
    for x, w, options in (FIRST_LAYER, PATCHES):
        specs = launched(x, w, options)
        assert isinstance(specs[0], WindowsSpec) and {*specs} <= ahead


@pytest.mark.each_alone(paired=True)
@skip_if(simulated(), "not simulated")
@pytest.mark.parametrize("device", ["A100", "H200", "B200"])
@pytest.mark.parametrize("x, w, options", [FIRST_LAYER, PATCHES], ids=["first layer", "patches"])
def test_there_are_engines_that_need_not_be_compiled(x, w, options, device):
    need_planning()
    asked = conv.backward_data.request(x, w, layout="NHWC", dtype="float16", **options)
    assert asked.graphs()[0].tensors[-1].shape[1] in (16, 768)
    found = cudnn.supports(asked, device)
    assert found and not found.compiled and engine_of(found) != 0
