"""What cuDNN is asked for, and what is left to our kernel: seen in graphs, layouts and PTX, without a GPU."""

from __future__ import annotations

import re
from itertools import permutations, product

import ptx
import pytest
from conv_oracle import ACTIVATIONS, DIRECTIONS
from conv_plans import NOTHING, PLAIN, SHAPES, array, call_of, graphs_of, kinds, modes
from in_one import in_one
from skips import skip_if

from numbacc import conv
from numbacc.base import dtypes
from numbacc.base.dispatch import launching_by, simulated
from numbacc.base.layout import layout, row_major_strides
from numbacc.compiling import Noted
from numbacc.conv.lowering import Way, forms, lower, prefers_rearranged, ways, widened
from numbacc.conv.plans import ConvPlan
from numbacc.conv.problem import resolve

each_direction = pytest.mark.parametrize("direction", DIRECTIONS)


def lowered(call, way=NOTHING, aligned=True, **more):
    problem = resolve(call)
    count = len(problem.inputs) + 1
    return lower(problem, way, (aligned,) * count if isinstance(aligned, bool) else aligned, **more)


# ---------------------------------------------------------------- tensors


@each_direction
@pytest.mark.parametrize("named", SHAPES)
def test_images_are_batch_channels_pixels(named, direction):
    """Whatever their layout, which is in the strides."""
    (graph, *others) = lowered(call_of(direction, named)).graphs
    assert len(others) == (1 if len(named) == 3 else 0)
    sizes = dict(zip("NKC", (8, 32, 16), strict=True))
    for place in graph.memory:
        tensor = graph.tensors[place]
        assert len(tensor.shape) == max(len(named), 4)
        assert tensor.shape[0] in (sizes["N"], sizes["K"]) and tensor.shape[1] in (sizes["K"], sizes["C"])
        assert (tensor.strides[1] == 1) is named.endswith("C")
        # Packed: whatever the order, the longest step is that between images.
        assert tensor.strides[0] == max(tensor.strides)
        assert tensor.alignment == 16


@pytest.mark.parametrize("named", ["NCW", "NWC"])
def test_one_dimension_is_lifted_in_two_ways(named):
    call = call_of("forward", named)._replace(out=None, stride=2, dilation=3, padding=((7, 8),))
    one, other = lowered(call).graphs
    first, second = (dict(graph.nodes[0].settings) for graph in (one, other))
    assert (first["stride"], first["dilation"], first["before"], first["after"]) == ((1, 2), (1, 3), (0, 7), (0, 8))
    assert (second["stride"], second["dilation"], second["before"], second["after"]) == ((2, 1), (3, 1), (7, 0), (8, 0))
    assert one.tensors[0].shape == (8, 16, 1, 9) and other.tensors[0].shape == (8, 16, 9, 1)
    assert one.memory == other.memory


@each_direction
@pytest.mark.parametrize("named", ["NCHW", "NHWC"])
def test_what_has_gaps_is_copied(named, direction):
    """Rows that are further apart than they are long: engines have been checked with packed arrays alone."""
    found = lowered(call_of(direction, named, steps=(2, 2, 2, 1)))
    assert [number for number, _ in found.copies] == [0, 1, 2]
    plain = lowered(call_of(direction, named))
    assert not plain.copies and found.graphs == plain.graphs


def lying_in(order, shape):
    """The layout of float32 that lies in memory with these axes from the outermost to the innermost."""
    steps = dict(zip(order, row_major_strides([shape[k] for k in order], 4), strict=True))
    return layout(tuple(shape), tuple(steps[k] for k in range(len(shape))), dtypes.TABLE["float32"].numpy, 0)


@each_direction
@pytest.mark.parametrize("named", ["NCHW", "NHWC"])
@pytest.mark.parametrize("number", range(3))
@in_one("order", list(permutations(range(4))))
def test_an_array_in_another_order_is_copied(named, direction, number, order):
    """Whichever it is: all operands have their channels in one place in memory."""
    call = call_of(direction, named)
    names = ("a", "b", "out")
    call = call._replace(**{names[number]: lying_in(order, getattr(call, names[number]).shape)})
    found = lowered(call)
    assert [k for k, _ in found.copies] == ([] if order == (0, 1, 2, 3) else [number])
    assert found.graphs == lowered(call_of(direction, named)).graphs


@each_direction
@pytest.mark.parametrize("named", ["NCHW", "NHWC"])
def test_channels_are_where_fewer_bytes_are_copied(named, direction):
    """Memory in NHWC given as NCHW, or the other way round, as torch's channels_last tensors are."""
    call, names = call_of(direction, named), ("a", "b", "out")
    other = (0, 3, 1, 2) if named == "NHWC" else (0, 2, 3, 1)
    images = {"forward": (0, 2), "backward_data": (0, 2), "backward_filter": (0, 1)}[direction]
    (kernels,) = {0, 1, 2} - {*images}
    for moved, copied in (((0, 1, 2), []), (images, [kernels])):
        each = call._replace(**{names[k]: lying_in(other, getattr(call, names[k]).shape) for k in moved})
        problem = resolve(each)
        assert prefers_rearranged(problem, (True,) * 3) and not prefers_rearranged(resolve(call), (True,) * 3)
        first = next(forms(problem, (True,) * 3))
        assert first.rearranged == ("channels first" if named == "NHWC" else "channels last")
        assert [number for number, _ in first.copies] == copied


@each_direction
@pytest.mark.parametrize("named", ["NCHW", "NHWC"])
def test_arrays_of_one_channel_that_lie_as_no_layout_has_it_are_copied(named, direction):
    """Kernels, and images, that are not the outermost in memory."""
    x, w, y = ([8, 1, 10, 12], [32, 1, 3, 5], [8, 32, 8, 8])
    if named == "NHWC":
        x, w, y = ([shape[0], *shape[2:], shape[1]] for shape in (x, w, y))
    shapes = {"forward": (x, w, y), "backward_data": (y, w, x), "backward_filter": (x, y, w)}[direction]
    plain = call_of(direction, named)._replace(shape=None if direction == "forward" else tuple(shapes[2]))
    for order, wanted in (((1, 2, 3, 0), [0, 1, 2]), ((0, 1, 2, 3), [])):
        lying = [lying_in(order, shape) for shape in shapes]
        call = plain._replace(**dict(zip(("a", "b", "out"), lying, strict=True)))
        assert [number for number, _ in lowered(call).copies] == wanted


@pytest.mark.parametrize("steps", [(1, 1, 1, -1), (0, 1, 1, 1), (1, -1, 1, 1)], ids=str)
def test_what_runs_backwards_or_is_repeated_is_copied(steps):
    call = call_of("backward_filter")
    call = call._replace(a=array(call.a.shape, "float32", steps))
    ((number, dense),) = lowered(call).copies
    assert number == 0 and dense.shape == call.a.shape and dense.strides == row_major_strides(call.a.shape, 4)


def test_a_bias_with_gaps_is_copied():
    """cuDNN's kernels read it as a vector."""
    for step, copied in ((1, []), (2, [2]), (-1, [2]), (0, [2])):
        found = lowered(call_of("forward", biased=True, bias_step=step), Way(True, False))
        assert [number for number, _ in found.copies] == copied
        (bias,) = [t for t in found.graphs[0].tensors if t.shape == (1, 32, 1, 1)]
        assert bias.strides[1] == 1


@each_direction
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_what_starts_anywhere_is_copied(direction, dtype):
    """float32 gradients of kernels of arrays at multiples of 4 bytes ended the CUDA context."""
    call = call_of(direction, dtype=dtype)
    for aligned in product((False, True), repeat=3):
        found = lowered(call, aligned=aligned)
        assert [number for number, _ in found.copies] == [k for k in range(3) if not aligned[k]]
        assert {found.graphs[0].tensors[k].alignment for k in found.graphs[0].memory} == {16}
        told = " and ".join(resolve(call).names[k] for k in range(3) if not aligned[k])
        assert found.describe("engine 1", resolve(call).names) == "engine 1" + (f"; copies {told}" if told else "")
    if direction == "forward":
        found = lowered(call_of(direction, biased=True, activation="relu"), Way(True, True), (True, True, False, True))
        assert [number for number, _ in found.copies] == [2]


# ---------------------------------------------------------------- channels elsewhere


@each_direction
@pytest.mark.parametrize("named", SHAPES)
def test_copies_with_the_channels_elsewhere(named, direction):
    """All of images and kernels, and none but these; cuDNN gets the same convolution."""
    call = call_of(direction, named, biased=direction == "forward")
    found, (plain_graph, *_) = lowered(call, rearranged=True), lowered(call).graphs
    assert found.rearranged == ("channels first" if named.endswith("C") else "channels last")
    result = 2 + (direction == "forward")
    assert [number for number, _ in found.copies] == [0, 1, result]
    for number, dense in found.copies:
        array = (call.a, call.b, call.bias, call.out)[number] if result == 3 else (call.a, call.b, call.out)[number]
        assert dense.shape == array.shape and dense.high - dense.low == array.size * 4
    (graph, *others), shapes = found.graphs, [plain_graph.tensors[place].shape for place in plain_graph.memory]
    assert [graph.tensors[place].shape for place in graph.memory] == shapes
    assert graph.nodes == plain_graph.nodes and len(others) == (1 if len(named) == 3 else 0)
    for place in graph.memory:
        assert (graph.tensors[place].strides[1] == 1) is not named.endswith("C")


def test_what_has_its_channels_there_is_not_copied():
    """Memory in NHWC given as NCHW."""
    call = call_of("forward")
    order = [0, 2, 3, 1]
    steps = row_major_strides([call.a.shape[k] for k in order], 4)
    strides = tuple(dict(zip(order, steps, strict=True))[k] for k in range(4))
    call = call._replace(a=layout(call.a.shape, strides, call.a.dtype, 0))
    assert [number for number, _ in lowered(call, rearranged=True).copies] == [1, 2]
    assert [number for number, _ in lowered(call, aligned=(False, True, True), rearranged=True).copies] == [0, 1, 2]


def test_what_is_fused_of_copies_with_the_channels_elsewhere():
    first, last = (resolve(call_of("forward", named, biased=True, activation="gelu")) for named in ("NCHW", "NHWC"))
    assert ways(first, rearranged=True) == ways(last) == [Way(True, True), Way(True, False), NOTHING]
    assert ways(last, rearranged=True) == ways(first) == [Way(True, False), NOTHING]


# ---------------------------------------------------------------- what is fused


def test_what_is_fused_where_channels_are_innermost():
    assert modes(named="NHWC") == [PLAIN]
    assert modes(named="NHWC", biased=True) == [[*PLAIN, "ADD"], PLAIN]
    assert modes(named="NHWC", activation="silu") == [[*PLAIN, "SWISH_FWD"], PLAIN]
    whole = [*PLAIN, "ADD", "ADD", "GELU_FWD"]
    assert modes(named="NHWC", biased=True, activation="gelu", beta=0.5) == [whole, whole[:-1], PLAIN]


def test_what_is_fused_where_they_are_not():
    assert modes(biased=True) == [[*PLAIN, "ADD"], PLAIN]
    assert modes(biased=True, activation="relu") == [[*PLAIN, "ADD", "RELU_FWD"], [*PLAIN, "ADD"], PLAIN]
    assert modes(biased=True, activation="tanh") == [[*PLAIN, "ADD"], PLAIN]
    for activation in ACTIVATIONS:
        assert modes(activation=activation) == [PLAIN]


def test_nothing_is_fused_where_fourier_transforms_pay():
    """They are for convolutions alone."""
    wide = {"bias": True, "activation": "relu", "layout": "NHWC", "compute": "float32_fft"}
    (graph, *others) = conv.forward.request((64, 56, 56, 256), (256, 3, 3, 256), padding=1, **wide).graphs()
    assert kinds(graph) == PLAIN and len(others) == 1
    few = conv.forward.request((64, 56, 56, 256), (256, 1, 1, 256), **wide).graphs()
    assert [kinds(graph) for graph in few[:3]] == [[*PLAIN, "ADD", "RELU_FWD"], [*PLAIN, "ADD"], PLAIN]


def test_the_hardware_s_hyperbolic_tangent_is_not_for_float32():
    """It has 11 bits. Floats of 16 bits keep no more; products shortened to 10 bits may be few, or exact."""
    for activation, of_tanh in (("tanh", ["RELU_FWD", "TANH_FWD"]), ("gelu_tanh", ["GELU_APPROX_TANH_FWD"])):
        for biased, before in ((False, PLAIN), (True, [*PLAIN, "ADD"])):
            asked = {"named": "NHWC", "activation": activation, "biased": biased}
            left = [before, PLAIN] if biased else [PLAIN]
            for compute in (None, "float32_fft", "tf32"):
                assert modes(**asked, compute=compute) == left
            fused = [[*before, *of_tanh], *left]
            assert modes(**asked, dtype="float16") == fused
            assert [
                kinds(lowered(call_of("forward", **asked), way).graphs[0])
                for way in ways(resolve(call_of("forward", **asked)), rough=True)
            ] == fused
    # Copies with the channels innermost are fused no more.
    first = resolve(call_of("forward", biased=True, activation="tanh"))
    assert ways(first, rearranged=True) == [Way(True, False), NOTHING]


def test_nothing_is_fused_of_float64():
    assert modes(dtype="float64", named="NHWC", biased=True, activation="relu") == [PLAIN]


def test_factors():
    """A convolution in company has none; additions have them."""
    call = call_of("forward", alpha=2.0, beta=0.5, biased=True)
    alone, together = lowered(call).graphs[0], lowered(call, Way(True, False)).graphs[0]
    settings = dict(alone.nodes[0].settings)
    assert (settings["alpha"], settings["beta"]) == (2.0, 0.5)
    first, second, third = (dict(node.settings) for node in together.nodes)
    assert (first["alpha"], first["beta"]) == (1.0, 0.0)
    assert (second["alpha1"], second["alpha2"]) == (2.0, 0.5) and "alpha1" not in third
    call = call_of("forward", alpha=2.0, biased=True)
    assert dict(lowered(call, Way(True, False)).graphs[0].nodes[1].settings)["alpha1"] == 2.0
    # There is no addition that would take the factor.
    assert modes(named="NHWC", activation="silu", alpha=2.0) == [PLAIN]


def test_one_result_and_no_other_has_memory():
    for call in (
        call_of("forward", biased=True, activation="relu", beta=1.0),
        call_of("forward", named="NHWC", biased=True),
    ):
        for graphs in graphs_of(resolve(call)):
            written = {place for node in graphs[0].nodes for name, place in node.tensors if name == "y"}
            assert len([place for place in written if not graphs[0].tensors[place].virtual]) == 1


def test_integers_are_not_transformed():
    """As integers, and as the floats that hold their sums."""
    problem = resolve(call_of("forward", dtype="int8", out_dtype="int32", biased=False))
    assert problem.wants.inputs == widened(problem).wants.inputs == "whole"


@each_direction
def test_float32_is_exact_unless_asked(direction):
    assert resolve(call_of(direction)).wants.inputs == "exact"
    assert resolve(call_of(direction, compute="tf32")).wants.inputs == "tf32"
    assert resolve(call_of(direction, compute="float32_fft")).wants.inputs == "fft"
    for dtype, inputs in (("float16", "any"), ("bfloat16", "any"), ("float64", "double")):
        assert resolve(call_of(direction, dtype=dtype)).wants.inputs == inputs
    wants = resolve(call_of(direction, deterministic=True, workspace_limit=5)).wants
    assert (wants.deterministic, wants.workspace_limit) == (True, 5)
    assert resolve(call_of(direction)).wants.workspace_limit == 1 << 30


# ---------------------------------------------------------------- our kernel


@pytest.mark.sampled(4)
@skip_if(simulated(), "not simulated")
@pytest.mark.each_alone(in_pairs=True)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("named", ["NCHW", "NHWC"])
@pytest.mark.parametrize("activation, factor", [*((name, 1.0) for name in ACTIVATIONS), (None, 0.3), ("gelu", 0.3)])
def test_what_follows_is_compiled(activation, factor, named, biased, dtype):
    """In float32 without a number of float64, and with 16 bytes loaded at once."""
    plan = ConvPlan(call_of("forward", named, dtype, biased=biased, activation=activation))
    (step,) = plan._behind(NOTHING, factor)
    found = []
    with launching_by(Noted.into(found)):
        step.executable.choose([0] * len(step.operands))
    for capability in ((9, 0), *[(8, 0)] * (dtype == "bfloat16" and biased)):
        compiled = ptx.compiled(found[-1], capability)
        assert 16 in {access.nbytes for access in compiled.accesses if access.operation == "ld"}
        assert not [access for access in compiled.accesses if access.space == "local"]
        assert dtype == "float64" or not re.search(r"\.f64", compiled.text), "float64 in float32's arithmetic"


@skip_if(simulated(), "not simulated")
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("named", ["NCHW", "NHWC"])
def test_what_follows_integers_is_compiled(named, biased):
    """In integers alone, and with 16 bytes loaded at once."""
    call = call_of("forward", named, "int8", "int32", activation="relu")
    channels = call.out.shape[-1 if named == "NHWC" else 1]
    plan = ConvPlan(call._replace(bias=array((channels,), "int32") if biased else None))
    (step,) = plan._behind(NOTHING)
    found = []
    with launching_by(Noted.into(found)):
        step.executable.choose([0] * len(step.operands))
    compiled = ptx.compiled(found[-1], (7, 5))
    assert 16 in {access.nbytes for access in compiled.accesses if access.operation == "ld"}
    assert not [access for access in compiled.accesses if access.space == "local"]
    assert not re.search(r"\.f(32|64)", compiled.text), "floats in the arithmetic of integers"
