"""Graphs of fused attention: what they say, and that cuDNN builds plans of them for GPUs that are not there."""

from __future__ import annotations

import numpy as np
import pytest
from attention_call import Call, small
from attention_graphs import BOTH, CASES, DEVICES, LONG, Q, plan
from attention_oracle import HALF
from conftest import refused
from cudnn_cases import need_planning
from requested import requested
from skips import skip

from numbacc import attention, cudnn
from numbacc.attention.fused_calls import _on_dense
from numbacc.attention.fusing import Fused
from numbacc.attention.masks import SlidingWindow
from numbacc.attention.problem import EXTRAS, resolve
from numbacc.attention.splitting import Cut, graphs
from numbacc.attention.staging import dense
from numbacc.base.dispatch import graph_library, simulated
from numbacc.errors import DeviceError, DTypeError, OptionError, ShapeError, UnsupportedError
from numbacc.libraries.cudnn import numbers_of
from numbacc.libraries.cudnn_rules import refusal


@pytest.fixture(scope="module")
def planner():
    if simulated():
        skip("not simulated")
    need_planning()


#: Each graph on one GPU, and each case on two of the three: a case's two graphs have most of their nodes in common.
GRAPHS = [
    (name, direction, DEVICES[(number + turn) % 3])
    for number, name in enumerate(CASES)
    for turn, direction in enumerate(BOTH)
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name, direction, device", GRAPHS)
def test_there_is_a_plan(planner, name, direction, device):
    found = plan(device, direction=direction, **CASES[name])
    assert found, found.reason


def test_a_gpu_that_is_too_old(planner):
    found = plan("T4", dtype="float16")
    assert not found and "fused attention needs compute capability 8.0; Tesla T4 has 7.5" in found.reason


@pytest.mark.sampled(1)
@pytest.mark.parametrize("heads, device", [(8, "A100"), (2, "H200"), (8, "B200")])
def test_memory_is_linear_in_the_length(planner, heads, device):
    for direction in BOTH:
        one, other = (
            plan(device, (2, 8, n, 64), (2, heads, n, 64), direction=direction, mask="causal").workspace_bytes
            for n in (1024, 4096)
        )
        assert other <= 4 * one + 4096


@pytest.mark.sampled(1)
@pytest.mark.parametrize("device", DEVICES)
def test_longer_vectors(planner, device):
    for width, value_width in ((192, 128), (256, 256)):
        shapes = ((2, 8, 128, width), (2, 8, 256, width), (2, 8, 256, value_width))
        assert plan(device, *shapes)
        backward = plan(device, *shapes, direction="backward")
        # These run unfused.
        lacks = device == "A100" or (device == "B200" and width == 256)
        assert bool(backward) is not lacks, backward


@pytest.mark.sampled(1)
@pytest.mark.parametrize("page, device", [(16, "A100"), (64, "H200"), (128, "B200")])
def test_pages(planner, page, device):
    """The length of a page is a dimension of the graph, which no rule for a GPU names."""
    for queries in (1, 8):
        found = plan(device, (4, 8, queries, 128), (64, 2, page, 128), pages=512 // page)
        assert found, found.reason


@pytest.mark.sampled(1)
@pytest.mark.parametrize("device", DEVICES)
def test_deterministic_gradients(planner, device):
    """Their memory is quadratic; so is that of a bias's gradient."""
    usual = plan(device, k=LONG, direction="backward")
    for options in ({"deterministic": True}, {"bias_shape": (1, 8, 128, 256), "bias_grad": True}):
        found = plan(device, k=LONG, direction="backward", **options)
        assert found and found.workspace_bytes >= 2 * 2 * 8 * 128 * 256 > usual.workspace_bytes, options
    dropped = plan(device, k=LONG, direction="backward", deterministic=True, dropout=0.1)
    assert bool(dropped) is (device != "B200")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("direction, device", [*zip(BOTH * 2, (*DEVICES, DEVICES[0]), strict=True)])
def test_biases_of_float32(planner, direction, device):
    """Their gradient is cuDNN's in 16 bits, and converted: it has no other."""
    grad = {"bias_grad": True} if direction == "backward" else {}
    asked = requested(attention, Q, LONG, direction=direction, bias_shape=(1, 8, 128, 256), **grad).problem
    extras = list(asked.call.extras)
    extras[EXTRAS.index("bias")] = dense((1, 8, 128, 256), np.float32, 0)
    fused = Fused(resolve(asked.call._replace(extras=tuple(extras))), (0,) * 10)
    found = cudnn.supports(fused.drawn().graph, device)
    assert found, found.reason
    assert len(fused.stage.behind) == (direction == "backward")


def test_parts_of_keys(planner):
    """Graphs of the parts and of the rest, whose queries all parts share; one graph with a bias and lengths."""
    bias = {"mask": "causal_bottom_right", "bias_shape": (1, 8, 3, 4000)}
    odd = {"bias_shape": (2, 8, 128, 16383)}
    for q, k, cut, options in (
        ((2, 8, 128, 128), (2, 2, 16383, 128), Cut(15, 1016, 1143, at_once=True), odd),
        ((1, 8, 3, 64), (1, 8, 4000, 64), Cut(3, 1024, 928), bias),
    ):
        found = graphs(attention.forward.request(q, k, **options).problem, cut)
        assert len(found) == 2 - cut.at_once
        for graph in found:
            assert cudnn.supports(graph, "H200")


def test_masks_can_be_dumped(planner):
    problem = _on_dense(attention.forward.request(Q, LONG, dropout=0.1).problem, "forward")
    call = problem.call._replace(direction="dropout_mask", options=problem.options._replace(return_stats=False))
    dump = resolve(call)
    for device in DEVICES:
        assert cudnn.supports(Fused(dump, (0,) * 4).drawn().graph, device)


# ---------------------------------------------------------------- what graphs say


def graph_of(**options):
    return requested(attention, **{"q_shape": Q, "k_shape": LONG, **options}).graphs()[0]


def modes(graph):
    return [dict(node.settings).get("mode", node.kind) for node in graph.nodes]


def test_the_order_of_operations():
    assert modes(graph_of()) == ["matmul", "MUL", "MAX", "SUB", "EXP", "ADD", "LOG", "ADD", "DIV", "matmul"]
    assert modes(graph_of(mask="causal"))[2:6] == ["GEN_INDEX", "GEN_INDEX", "CMP_GE", "BINARY_SELECT"]
    assert modes(graph_of(direction="backward"))[:4] == ["MUL", "ADD", "MUL", "matmul"]


@pytest.mark.parametrize("direction", BOTH)
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_given_that_is_not_read(name, direction):
    """cuDNN 9.19 executes no such graph."""
    options = dict(CASES[name])
    q = options.pop("q", Q)
    asked = requested(attention, q, options.pop("k", q), options.pop("v", None), direction=direction, **options)
    for graph in asked.graphs():
        named = {place for node in graph.nodes for _, place in node.tensors}
        named |= {graph.tensors[place].offsets for place in named}
        assert {*graph.memory, *graph.numbers} <= named


def test_arrays_come_in_the_order_of_operands():
    """So that a call hands over its addresses as they are."""
    graph = graph_of(return_stats=True)
    shapes = [graph.tensors[place].shape for place in graph.memory]
    assert shapes == [Q, (2, 8, 64, 256), LONG, Q, (2, 8, 128, 1)]
    # Keys are turned by their strides: nothing is moved.
    assert graph.tensors[1].strides[-2:] == (1, 64)


def test_a_number_is_no_part_of_a_graph():
    """Another scale, or window, needs no other plan."""
    assert graph_of(scale=0.5) == graph_of(scale=0.25)
    assert graph_of(mask=SlidingWindow(5)) == graph_of(mask=SlidingWindow(9))
    assert graph_of(dropout=0.1) != graph_of(dropout=0.2)


@pytest.mark.parametrize("layout", ["BHSD", "THD"])
@pytest.mark.parametrize("direction", BOTH)
@pytest.mark.parametrize("scale", [-0.75, 0.0, 0.75])
def test_cudnn_sees_scales_above_0(scale, direction, layout):
    """It takes the largest score of a row before it scales it: the sign is q's, which is copied, and dq's."""
    shapes = ((300, 8, 64), (500, 8, 64)) if layout == "THD" else (Q, LONG)
    asked = requested(
        attention, *shapes, direction=direction, scale=scale, layout=layout, batch=3 if layout == "THD" else None
    )
    problem = asked.problem
    names = [*problem.inputs, *problem.outputs]
    fused = Fused(problem, (0,) * len(names))
    values = fused.drawn().values
    assert (abs(scale) or 1.0) in values and -0.75 not in values and 0.0 not in values
    taken, turned = fused.operands(), {"q", "dq"} & {*names}
    for name in names:
        if name not in ("seq_len_q", "seq_len_kv", "stats"):
            assert (names.index(name) in taken) is (scale > 0 or name not in turned)
    made = [(step.executable, step.operands) for step in (*fused.stage.steps, *fused.stage.behind)]
    negated = [numbers for step, numbers in made if getattr(step, "op", "") == "attention.negated"]
    ends = {names.index(name) for name in turned} if scale < 0 else set()
    assert {k for numbers in negated for k in numbers if k < len(names)} == ends and len(negated) == len(ends)


def test_vectors_are_padded():
    graph = graph_of(q_shape=(2, 8, 128, 20), k_shape=(2, 8, 256, 20), v_shape=(2, 8, 256, 12))
    shapes = [graph.tensors[place].shape for place in graph.memory]
    assert shapes[:4] == [(2, 8, 128, 24), (2, 8, 24, 256), (2, 8, 256, 16), (2, 8, 128, 16)]


def test_numbers_lie_on_the_host_where_cudnn_reads_them():
    from numbacc.libraries.cudnn_graph import Drawing

    draw = Drawing("float32")
    draw.number(1.5), draw.number(-7, "int32"), draw.number(2.5, "float64")
    found = np.frombuffer(numbers_of(draw.graph(), draw.values), np.uint8).reshape(-1, 8)
    assert found[0, :4].view(np.float32) == 1.5 and found[1, :4].view(np.int32) == -7
    assert found[2].view(np.float64) == 2.5


def test_requests_are_checked():
    refused(ShapeError, "same batch size", run=lambda: attention.forward.request(Q, (3, 8, 64, 64)))
    refused(OptionError, "return_stats=1", run=lambda: attention.forward.request(Q, Q, return_stats=1))
    refused(OptionError, "bias_grad=1", run=lambda: attention.backward.request(Q, Q, bias_grad=1))
    refused(OptionError, "needs batch", run=lambda: attention.forward.request((9, 2, 8), (9, 2, 8), layout="THD"))
    refused(OptionError, 'batch needs layout="THD"', run=lambda: attention.forward.request(Q, Q, batch=2))
    refused(UnsupportedError, "runs unfused", run=lambda: attention.forward.request(Q, Q, dtype="float32").graphs())
    refused(
        UnsupportedError, "batch is empty", run=lambda: attention.forward.request((0, *Q[1:]), (0, *Q[1:])).graphs()
    )
    refused(ShapeError, "q has shape ()", "rank 4", run=lambda: attention.forward.request((), Q, lengths=True))
    refused(ShapeError, "q has shape (8, 64)", "rank 4", run=lambda: attention.forward.request(Q[1::2], Q, alibi=True))
    packed = {"layout": "THD", "batch": 2**70}
    refused(OptionError, "batch=1180591620717411303424", run=lambda: attention.forward.request(Q[1:], Q[1:], **packed))
    refused(OptionError, "pages=1180591620717411303424", run=lambda: attention.forward.request(Q, Q, pages=2**70))
    refused(
        ShapeError,
        "q_shape=",
        "too large",
        run=lambda: attention.forward.request((2**60, 8, 1, 1), Q, dtype="float32"),
    )


def test_what_is_prepared():
    """One request, or any number of them, which are looked at before the GPU is."""
    refused(DTypeError, "has a int", run=lambda: attention.prepare([3]))
    for other in (None, 3):
        refused(DTypeError, f"requests={other} is neither a request", run=lambda other=other: attention.prepare(other))
    assert attention.prepare(iter(())) is None


def test_one_request_or_what_makes_them_is_prepared(device_place, monkeypatch):
    library, asked = graph_library(), []
    monkeypatch.setattr(library, "choose", lambda graph, *more: asked.append(graph))
    one, other = (requested(attention, Q, Q, direction=direction) for direction in BOTH)
    attention.prepare(one)
    assert asked == one.graphs()
    attention.prepare(each for each in (one, other))
    assert {*asked} == {*one.graphs(), *other.graphs()}


def test_what_runs_without_cudnn_is_told_so():
    """supports answers; it does not raise."""
    for options, words in (
        ({"dtype": "float32"}, "runs unfused"),
        ({"direction": "backward", "deterministic": True, "workspace_limit": 100}, "more than workspace_limit=100"),
    ):
        found = cudnn.supports(requested(attention, Q, Q, **options), "H200")
        assert not found and words in found.reason and found.device == "NVIDIA H200"


@pytest.mark.parametrize("bias_shape", [(1, 8, 1, 256), (2, 1, 128, 1), (1, 1, 1, 1), ()])
def test_gradients_of_repeated_biases_are_asked_for(bias_shape):
    """Kernels of ours add them up behind cuDNN's, and are made where there is a GPU."""
    asked = attention.backward.request(Q, LONG, bias_shape=bias_shape, bias_grad=True)
    (graph,) = asked.graphs()
    assert (*(bias_shape or (1, 1))[:2], 128, 256) in [graph.tensors[k].shape for k in graph.memory]


@pytest.mark.sampled(1)
@pytest.mark.each_alone(paired=True, in_pairs=True)
@pytest.mark.parametrize("bias_shape", [(2, 8, 128, 255), (1, 8, 128, 255), (2, 1, 1, 255)])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("device", ["A100", "H200"])
def test_gradients_of_biases_of_an_odd_number_of_keys(planner, bias_shape, dropout, device):
    options = {"direction": "backward", "bias_shape": bias_shape, "bias_grad": True, "dropout": dropout}
    found = plan(device, k=(2, 8, 255, 64), **options)
    assert found, found.reason


@pytest.mark.parametrize("keys, heads", [(256, 1), (255, 8), (252, 2), (250, 4)])
def test_slices_of_a_biass_gradient_start_at_multiples_of_16_bytes(keys, heads):
    """It has no gaps: of 127 queries heads are as far apart as they are long. Of statistics four heads are."""
    asked = {"workspace_limit": 2**20}
    shapes = (2, 8, 127, 64), (2, 8, keys, 64)
    biased = attention.backward.request(*shapes, bias_shape=(2, 8, 127, keys), bias_grad=True, **asked).problem
    fused = Fused(biased, (0,) * 20)
    each = 2 * 2 * 127 * keys
    found, most = [n for n in (1, 2, 4, 8) if fused.heads_within(n * each) == n], max(heads, 4)
    assert found == [n for n in (1, 2, 4, 8) if n >= most]
    assert fused.heads_within(each * most - 1) == 0
    plain = Fused(attention.backward.request(*shapes, deterministic=True, **asked).problem, (0,) * 20)
    assert [plain.heads_within(n * each) for n in (1, 2, 4, 8)] == [0, 0, 4, 8]


def test_gradients_in_slices_are_asked_for_as_they_are_called(planner):
    asked = {"direction": "backward", "deterministic": True}
    whole = plan("H200", **asked)
    sliced = plan("H200", **asked, workspace_limit=2**17)
    assert whole and sliced and sliced.workspace_bytes <= 2**17 < whole.workspace_bytes


@pytest.mark.parametrize("options", [
    {}, {"dropout": 0.3}, {"deterministic": True, "workspace_limit": 6000}, {"mask": "causal", "return_stats": False},
], ids=str)  # fmt: skip
def test_calls_take_no_plan_of_cudnns_but_those_prepared(device_place, monkeypatch, options):
    library, asked = graph_library(), []
    choose = library.choose
    monkeypatch.setattr(library, "choose", lambda graph, *more: asked.append(graph) or choose(graph, *more))
    place, wide = device_place, {"heads": 4, "groups": 2, "queries": 16, "keys": 16, "dtype": HALF}
    call = Call(place, small(**wide))
    q, k, v, do = call.views("q", "k", "v", "do")
    more = {name: each for name, each in options.items() if name != "return_stats"}
    o, stats = attention.forward(q, k, v, **more, return_stats=True)
    for direction in ("forward", "backward"):
        given = options if direction == "forward" else more
        attention.prepare([requested(attention, q.shape, k.shape, direction=direction, dtype=HALF, **given)], threads=1)
        prepared = {*asked}
        asked.clear()
        attention.cache_clear()
        if direction == "forward":
            attention.forward(q, k, v, **{"return_stats": True, **options})
        else:
            attention.backward(do, q, k, v, o, stats, **more)
        assert asked and {*asked} <= prepared
        asked.clear()


def test_preparing_needs_a_gpu(numpy_place):
    from numbacc.base.dispatch import has_gpu

    if not has_gpu():
        refused(DeviceError, "no GPU was found", run=lambda: attention.prepare([attention.forward.request(Q, Q)]))


def test_versions_that_are_left_alone():
    for direction in BOTH:
        graph = graph_of(direction=direction)
        assert "cudnn-frontend" in refusal(graph, 91000, (9, 0)) and refusal(graph, 91001, (9, 0))
        assert not refusal(graph, 91002, (9, 0)) and not refusal(graph, 90800, (9, 0))
