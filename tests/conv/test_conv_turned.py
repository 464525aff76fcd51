"""Gradients of images as convolutions of dy: their kernels, values anywhere in memory, and when they are taken."""

from __future__ import annotations

from math import prod

import conv_oracle
import numpy as np
import pytest
from conftest import memory_layouts
from conv_call import Call, small, taken, without_engines
from conv_oracle import FLOATS, LAYOUTS, cases
from conv_plans import call_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from requested import requested
from skips import skip

from numbacc import conv
from numbacc.base.dispatch import graph_library
from numbacc.base.layout import row_major_strides
from numbacc.conv import lowering, plans
from numbacc.conv.dgrad_as_fprop import copied, is_faster, turned
from numbacc.conv.lowering import Way, forms, lower_other, others, room
from numbacc.conv.problem import resolve

pytestmark = pytest.mark.usefixtures("poison")
SINGLE, DOUBLE, HALF, BFLOAT16 = FLOATS
DIRECTION = "backward_data"


def request(x, w, **options):
    return conv.backward_data.request(x, w, **options).problem


@pytest.fixture
def preferred(monkeypatch):
    """Every gradient that is a convolution is computed as one."""
    monkeypatch.setattr(lowering, "is_faster", lambda problem: True)
    conv.cache_clear()
    yield
    conv.cache_clear()


# ---------------------------------------------------------------- what it is


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("named, taps", [("NCW", (4,)), ("NHWC", (3, 2)), ("NCDHW", (2, 1, 3))])
def test_kernels_are_exchanged_and_counted_from_the_last(named, taps, groups, flip):
    """Followed on the host, byte by byte: w'[c, k, q] = w[k, c, R - 1 - q], in each group."""
    last = named.endswith("C")

    def ordered(first, second):
        return (first, *taps, second) if last else (first, second, *taps)

    filters, channels = 3, 5
    lengths = (6, 7, 5)[: len(taps)]
    x = (2, *lengths, groups * channels) if last else (2, groups * channels, *lengths)
    shape = ordered(groups * filters, channels)
    problem = request(x, shape, layout=named, groups=groups, flip=flip)
    w = np.random.default_rng(0).standard_normal(shape).astype(SINGLE)
    kernels = turned(problem).call.b
    assert kernels.shape == ordered(groups * channels, filters)
    written, read = copied(problem, kernels)
    at = np.indices(written.shape).reshape(len(written.shape), -1)
    found = np.full(kernels.size, np.nan, SINGLE)
    sources = (read.offset + np.array(read.strides) @ at) // 4
    found[np.array(written.strides) @ at // 4] = w.ravel()[sources]
    wanted = np.moveaxis(w, -1, 1) if last else w
    wanted = wanted.reshape(groups, filters, channels, *taps).swapaxes(1, 2).reshape(groups * channels, filters, *taps)
    if not flip:
        wanted = np.flip(wanted, tuple(range(2, wanted.ndim)))
    np.testing.assert_array_equal(found.reshape(kernels.shape), np.moveaxis(wanted, 1, -1) if last else wanted)


def test_shapes_and_padding():
    problem = request((2, 4, 9, 8), (6, 4, 3, 2), padding=((2, 0), (1, 3)), dilation=(1, 3))
    other = turned(problem)
    assert other.geometry.window.padding == ((0, 2), (2, 0))
    assert other.geometry.x_shape == problem.geometry.y_shape and other.geometry.y_shape == (2, 4, 9, 8)
    window, lengths = other.geometry.window, other.geometry.lengths
    assert window.places(lengths, other.geometry.taps) == (9, 8)


def test_strides_other_directions_and_more_padding_than_taps_are_none():
    assert turned(request((2, 4, 9, 8), (6, 4, 3, 2), stride=(1, 2))) is None
    assert turned(request((2, 4, 9, 8), (6, 4, 3, 2), padding=2)) is None
    assert turned(request((2, 4, 9, 8), (6, 4, 3, 3), padding=2)) is not None
    for direction in ("forward", "backward_filter"):
        assert turned(requested(conv, (2, 4, 9, 8), (6, 4, 3, 2), direction=direction).problem) is None


# ---------------------------------------------------------------- when it is taken


WIDE = ((64, 56, 56, 256), (256, 3, 3, 256))


@pytest.mark.parametrize("compute, first", [(None, True), ("tf32", True), ("float32_fft", False)])
def test_large_ones_of_float32_are_taken_unmeasured(compute, first):
    problem = request(*WIDE, layout="NHWC", padding=1, compute=compute)
    assert is_faster(problem) is first
    found = list(forms(problem, (True,) * 3))
    assert ["convolution" in each.name for each in found] == [True] * first + [False, False] + [True] * (not first)
    measured = list(forms(problem, (True,) * 3, measured=True))
    assert not measured[0].name and measured[-1].name == "as a convolution of dy"
    assert conv.backward_data.request(*WIDE, layout="NHWC", padding=1, compute=compute).graphs()[0].nodes[0].kind == (
        "convolve_forward" if first else "convolve_backward_data"
    )


@pytest.mark.parametrize(
    "x, w, options",
    [
        (*WIDE, {"dtype": "float16"}),
        (*WIDE, {"dtype": "float64"}),
        (*WIDE, {"dilation": 2}),
        ((64, 56, 56, 256), (256, 1, 1, 256), {"padding": 0}),
        ((64, 56, 56, 256), (256, 3, 3, 64), {"groups": 4}),
        ((1, 56, 56, 256), (256, 3, 3, 256), {}),
        ((64, 224, 224, 3), (64, 3, 3, 3), {}),
    ],
)
def test_others_are_not(x, w, options):
    problem = request(x, w, layout="NHWC", **{"padding": 1, **options})
    assert turned(problem) is not None and not is_faster(problem)


def test_its_kernels_count_as_scratch_memory():
    x, w = (2, 8, 8, 16), (16, 3, 3, 16)
    nbytes = 4 * prod(w)
    for limit in (nbytes - 1, nbytes):
        problem = request(x, w, layout="NHWC", padding=1, workspace_limit=limit)
        assert room(problem, lower_other(*others(problem), Way(False, False), (True,) * 3)) == limit - nbytes
    # Those of a copy with the channels elsewhere are one copy.
    found = lower_other(*others(problem), Way(False, False), (True,) * 3, rearranged=True)
    assert [number for number, _ in found.copies] == [0, 1, 2]
    assert found.name == "channels first, as a convolution of dy"


def test_its_graph_is_a_convolution():
    call = call_of(DIRECTION, "NHWC", beta=0.5, alpha=2.0)
    problem = resolve(call)
    found = lower_other(*others(problem), Way(False, False), (True,) * 3)
    (node,) = found.graphs[0].nodes
    settings = dict(node.settings)
    assert node.kind == "convolve_forward" and (settings["alpha"], settings["beta"]) == (2.0, 0.5)
    assert (settings["before"], settings["after"], settings["flip"]) == ((2, 4), (2, 4), False)
    assert [number for number, _ in found.copies] == [1]


def test_strided_kernels_are_read_where_they_lie():
    """The copy takes the place of the one that cuDNN would need."""
    call = call_of(DIRECTION, "NHWC", steps=(1, 1, 1, 2))
    problem = resolve(call)
    found = lower_other(*others(problem), Way(False, False), (True,) * 3)
    dense = dict(found.copies)[1]
    assert dense.strides == row_major_strides(dense.shape, 4)
    _, read = copied(problem, dense)
    assert read.strides[2] == call.b.strides[0] and read.offset == 2 * call.b.strides[1] + 4 * call.b.strides[2]


# ---------------------------------------------------------------- values


def gradients(draw, largest):
    """Drawn cases as gradients of images with stride 1, of little enough padding."""
    case = taken(draw(cases(largest=largest)))
    float_dtype = SINGLE if case.dtype.kind == "i" else case.dtype
    case = case._replace(
        direction=DIRECTION, stride=1, dtype=float_dtype, out_dtype=float_dtype, biased=False, activation=None
    )
    zeros = [(min(a, r - 1), min(b, r - 1)) for (a, b), r in zip(case.zeros, case.reach, strict=True)]
    return case._replace(padding=tuple(zeros))


def is_possible(case):
    return all(n >= reach for n, reach in zip(case.padded, case.reach, strict=True))


@settings(max_examples=50)
@given(data=st.data())
def test_drawn(place, data):
    """Groups, dilation, padding, flips, factors, dtypes; operands anywhere."""
    if not place.is_device:
        skip("device")
    case = gradients(data.draw, 5)
    assume(is_possible(case) and case.batch and case.alpha)
    rank = len(case.layout)
    layouts = {name: data.draw(memory_layouts(rank, False)) for name in ("dy", "w")}
    if case.beta or data.draw(st.booleans()):
        layouts["out"] = data.draw(memory_layouts(rank, True))
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(lowering, "is_faster", lambda problem: True)
        conv.cache_clear()
        call = Call(place, case, layouts)
        call.check()
        assert call.plan().info.algorithm.startswith(("as a convolution of dy", "depthwise"))
    conv.cache_clear()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("named", LAYOUTS)
def test_every_layout_and_dtype(device_place, preferred, named, dtype):
    for more in ({}, {"dilation": 2, "padding": "same", "flip": True}, {"alpha": 0.5, "beta": -1.0}):
        call = Call(device_place, small(DIRECTION, named, dtype=dtype, out_dtype=dtype, **more))
        call.check()
        info = call.plan().info
        assert info.algorithm.startswith("as a convolution of dy: ") and info.backend.endswith("+kernel")


def test_a_plan_of_many(device_place, preferred):
    """One plan, other arrays, again and again."""
    case = small(DIRECTION)
    plan = Call(device_place, case, {"out": {}}).plan()
    for seed in range(3):
        call = Call(device_place, case._replace(seed=seed), {"out": {}})
        call.verify(plan(*call.views, out=call.out.view))


def test_without_room_for_its_kernels_it_is_a_gradient(device_place, preferred):
    call = Call(device_place, small(DIRECTION), workspace_limit=1 << 20)
    assert "as a convolution" in call.plan().info.algorithm
    if device_place.name == "simulator":
        few = Call(device_place, small(DIRECTION), workspace_limit=16)
        few.check()
        assert "as a convolution" not in few.plan().info.algorithm


def test_it_takes_the_place_of_an_engine_that_is_not_there(device_place, monkeypatch):
    without_engines(monkeypatch, lambda graph: graph.nodes[0].kind == "convolve_backward_data")
    call = Call(device_place, small(DIRECTION, dtype=DOUBLE, out_dtype=DOUBLE))
    call.check()
    assert "as a convolution of dy" in call.plan().info.algorithm
    strided = Call(device_place, small(DIRECTION, stride=2))
    with pytest.raises(plans.UnsupportedError, match="no engine"):
        strided.run()
    conv.cache_clear()


@pytest.mark.parametrize("named", ["NCHW", "NWC"])
def test_it_is_measured_beside_the_gradient(device_place, monkeypatch, named):
    """Each form that is measured can win, and is what then runs."""
    seen = []
    library = graph_library()

    def tune(graphs, wants, device, stream, trial, others):
        assert len(graphs) == len(wants) and not others
        seen.append([graph.nodes[0].kind for graph in graphs])
        for number, (graph, wanted) in enumerate(zip(graphs, wants, strict=True)):
            found = library.choose(graph, wanted, device)._replace(kind=(number, 2 * number))
            trial(found)()
        return library.choose(graphs[winner], wants[winner], device)._replace(kind=(winner, 2 * winner))

    monkeypatch.setattr(library, "tune", tune)
    monkeypatch.setattr(library, "number_of", lambda algorithm: algorithm.kind[1] // 2)
    count, names = 1, set()
    winner = 0
    while winner < count:
        conv.cache_clear()
        call = Call(device_place, small(DIRECTION, named), {"out": {}}, tune=True)
        call.check()
        names.add(call.plan().info.algorithm.rpartition(": ")[0])
        count, winner = len(seen[-1]), winner + 1
    conv.cache_clear()
    elsewhere = "channels last" if named == "NCHW" else "channels first"
    turned_name = "as a convolution of dy"
    assert {name.split(": ")[0] for name in names} == {"", elsewhere, turned_name, f"{elsewhere}, {turned_name}"}
    assert set(seen[-1]) == {"convolve_backward_data", "convolve_forward"}


def test_it_is_taken_for_arrays_that_start_anywhere(device_place, preferred):
    """With `tune` either may win."""
    lies = {"dy": {"margins": ((0, 0), (0, 0), (0, 0), (1, 0))}}
    call = Call(device_place, small(DIRECTION), lies)
    call.check()
    assert "as a convolution of dy" in call.plan().info.algorithm
    Call(device_place, small(DIRECTION), lies, tune=True).check()


def test_adjoint(device_place, preferred):
    """<x * w, dy> = <x, dgrad>, of what is computed as it."""
    case = small("forward", dtype=DOUBLE, out_dtype=DOUBLE, padding=((2, 0), (1, 1)), dilation=(1, 2), lengths=(9, 8))
    values = conv_oracle.inputs(case)
    x, w = values.first, values.second
    options = case.geometry
    y = device_place.get(conv.forward(device_place.put(x), device_place.put(w), **options))
    dy = np.random.default_rng(5).standard_normal(y.shape)
    dx = device_place.get(conv.backward_data(device_place.put(dy), device_place.put(w), x.shape, **options))
    np.testing.assert_allclose((y * dy).sum(), (x * dx).sum(), rtol=1e-12)
