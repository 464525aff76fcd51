"""Graphs of cuDNN's as plain data, and in `planned_cudnn.py` as descriptors and plans."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from cudnn_cases import CASES, convolution, need_planning, strides_of
from skips import skip_if

from numbacc.base.dispatch import simulated
from numbacc.libraries.cudnn_devices import GPUS, gpu_named
from numbacc.libraries.cudnn_graph import (
    CudnnGraph,
    Drawing,
    Node,
    Spatial,
    Tensor,
    Wants,
    packed,
    plain,
    transforms_pay,
)
from numbacc.libraries.cudnn_nodes import KINDS
from numbacc.libraries.cudnn_order import reordered
from numbacc.libraries.cudnn_plans import Rejected, describe_rejected
from numbacc.libraries.cudnn_rules import WRONG, refusal
from numbacc_bindings.cudnn import KnobType, NumericalNote

OPEN = Spatial((1,), (1,), (0,), (0,))


def drawn(dtype="float16"):
    """A line's convolution with a bias and a ReLU."""
    draw = Drawing("float32")
    x, w = draw.tensor(dtype, (2, 3, 8)), draw.tensor(dtype, (4, 3, 1))
    bias = draw.tensor("float32", (1, 4, 1))
    y = draw.tensor(dtype, (2, 4, 8), (32, 1, 4), alignment=4)
    draw.pointwise("RELU_FWD", draw.pointwise("ADD", draw.convolve("forward", x, w, OPEN, draw.like(y)), bias), out=y)
    return draw.graph()


def test_drawing_gives_tensors_and_nodes():
    graph = drawn()
    assert graph.memory == (0, 1, 2, 3)
    assert graph.tensors[0] == Tensor("float16", (2, 3, 8), (24, 8, 1))
    assert graph.tensors[3] == Tensor("float16", (2, 4, 8), (32, 1, 4), alignment=4)
    # What has no memory has the dtype of the arithmetic, and lies as what it becomes.
    assert graph.tensors[4:] == (Tensor("float32", (2, 4, 8), (32, 1, 4), virtual=True),) * 2
    convolve, add, relu = graph.nodes
    assert convolve.tensors == (("x", 0), ("w", 1), ("y", 4)) and dict(convolve.settings)["stride"] == (1,)
    assert add == Node("pointwise", (("x", 4), ("b", 2), ("y", 5)), (("mode", "ADD"), ("math", "float32")))
    assert relu.tensors == (("x", 5), ("y", 3))


def test_graphs_are_plain_data():
    graph = drawn()
    assert graph == drawn() and hash(graph) == hash(drawn()) and graph != drawn("bfloat16")
    assert pickle.loads(pickle.dumps(graph)) == graph and isinstance(pickle.loads(pickle.dumps(graph)), CudnnGraph)
    # The keys of what is kept on disk are made of it.
    assert eval(repr(graph), {each.__name__: each for each in (CudnnGraph, Node, Tensor)}) == graph
    assert len({*CASES.values()}) == len(CASES)


def test_graphs_are_shown_a_line_for_each_thing():
    lines = str(drawn()).splitlines()
    assert lines[0] == "t0: float16 (2, 3, 8) strides (24, 8, 1)"
    assert lines[4].startswith("t4 = convolve_forward(x=t0, w=t1, stride=(1,), dilation=(1,), before=(0,), after=(0,)")
    assert lines[5:] == [
        "t5 = pointwise(x=t4, b=t2, mode=ADD, math=float32)",
        "t3 = pointwise(x=t5, mode=RELU_FWD, math=float32)",
    ]


def test_other_operations():
    draw = Drawing("float32")
    a, b = draw.tensor("float16", (2, 8, 16)), draw.tensor("float16", (2, 16, 8))
    product = draw.matmul(a, b, draw.between((2, 8, 8), dtype="float16"))
    one = draw.number(0.5)
    picked = draw.pointwise("BINARY_SELECT", product, one, draw.tensor("bool", (2, 8, 8)), axis=2)
    draw.reduce("MAX", picked, draw.tensor("float32", (2, 8, 1)))
    graph = draw.graph()
    assert [node.kind for node in graph.nodes] == ["matmul", "pointwise", "reduce"]
    assert {node.kind for node in graph.nodes} <= KINDS.keys()
    assert graph.tensors[product].virtual and graph.tensors[product].dtype == "float16"
    assert graph.tensors[one].by_value and graph.numbers == (one,) and one not in graph.memory and draw.values == [0.5]
    assert [name for name, _ in graph.nodes[1].tensors] == ["x", "b", "t", "y"]
    for node in graph.nodes:
        assert {name for name, _ in node.tensors} <= KINDS[node.kind].tensors.keys()
        assert {name for name, _ in node.settings} <= KINDS[node.kind].settings.keys()


def test_strides():
    assert packed((2, 3, 4)) == (12, 4, 1) and packed(()) == ()
    assert strides_of((2, 3, 4, 5), last=True) == (60, 1, 15, 3)


@pytest.mark.parametrize("name", ["h200", "H200", "rtx 4090", "RTX-4090", "a100"])
def test_gpus_have_names(name):
    assert gpu_named(name) in GPUS.values()


def test_rejections_are_told_once_with_their_engines():
    rejected = [Rejected(3, "a"), Rejected(None, "b"), Rejected(1, "a"), Rejected(3, "a"), Rejected(2, "c")]
    assert describe_rejected(rejected) == "engines 1, 3: a; b; engine 2: c"


def test_rules_know_their_graphs():
    def wrong(graph):
        return {each.kind for each in WRONG if each.case(graph)}

    uneven = {"before": 0, "after": 2}
    for dtype, math in (("float64", "float64"), ("float32", "float32")):
        transforms = {17} if dtype == "float32" else set()
        assert wrong(convolution(dtype, "backward_filter", math=math, **uneven)) == {1, 18, 20} | transforms
        assert wrong(convolution(dtype, "backward_data", math=math, **uneven)) == {50}
        for direction in ("forward", "backward_data", "backward_filter"):
            unsaid = {"backward_filter": transforms, "forward": {72} if dtype == "float32" else set()}
            assert wrong(convolution(dtype, direction, math=math, last=False)) == unsaid.get(direction, set())
    for direction, transform in (("forward", 4), ("backward_data", 5)):
        rows = {"pixels": (40,), "channels": 8, "filters": 8}
        assert wrong(convolution("float64", direction, math="float64", **rows, groups=8)) == {transform}
        assert wrong(convolution("float64", direction, math="float64", **rows)) == set()
    assert wrong(convolution("int8", out="float32", last=False)) == {71, 72}
    assert wrong(convolution("int8", out="float32")) == set() and wrong(CASES["int8 to int32"]) == {0, 28}
    everywhere = {
        ("forward", "float16"): {47}, ("forward", "bfloat16"): set(),
        ("backward_data", "float16"): {2}, ("backward_data", "bfloat16"): set(),
        ("backward_filter", "float16"): {61}, ("backward_filter", "bfloat16"): {47},
    }  # fmt: skip
    rows = {"forward": 72, "backward_data": 78, "backward_filter": 70}
    for (direction, dtype), engines in everywhere.items():
        assert wrong(convolution(dtype, direction)) == engines
        assert wrong(convolution(dtype, direction, last=False)) == {*engines, rows[direction]}
    # Channels that do not fill 16 bytes.
    assert wrong(convolution("float16", "backward_filter", channels=12)) == {47, 61}
    assert wrong(CASES["bias-float16"]) == {26, 29, 32, 33} and wrong(CASES["bias-float32"]) == set()


@pytest.mark.parametrize("version, bad", [(90700, False), (90800, True), (91002, True), (91100, False)])
def test_versions_that_compute_volumes_wrongly(version, bad):
    for dtype in ("float16", "bfloat16"):
        assert bool(refusal(convolution(dtype, pixels=(6, 6, 6)), version, (9, 0))) == bad
    for graph in (convolution("float32", pixels=(6, 6, 6)), CASES["bias-float16"]):
        assert not refusal(graph, version, (9, 0))


@skip_if(simulated(), "not simulated")
@pytest.mark.parametrize("which", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_descriptors_and_plans(which):
    """In a process of its own: this one may want to use a GPU."""
    need_planning()
    command = [sys.executable, "-m", "pytest", "-q", "-m", which, "-p", "no:cacheprovider", "planned_cudnn.py"]
    run = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr


# ---------------------------------------------------------------- where Fourier transforms pay


def pays(direction="forward", **more):
    given = {"pixels": (56, 56), "channels": 256, "filters": 256, "batch": 64, **more}
    return transforms_pay(plain(convolution("float32", direction, **given)))


@pytest.mark.parametrize("direction", ["forward", "backward_data", "backward_filter"])
def test_transforms_pay_for_many_taps_channels_and_places(direction):
    assert pays(direction)
    assert pays(direction, kernel=7, before=3, after=3, pixels=(28, 28))
    assert not pays(direction, kernel=1, before=0, after=0)
    assert not pays(direction, kernel=2, before=0, after=0)
    assert not pays(direction, kernel=31, before=15, after=15)  # of a tile nearly nothing is left
    assert not pays(direction, pixels=(14, 14))
    assert not pays(direction, channels=32) and not pays(direction, filters=32)
    assert not pays(direction, batch=8) and pays(direction, batch=16)


@pytest.mark.parametrize("direction", ["forward", "backward_data", "backward_filter"])
def test_what_a_plain_convolution_is(direction):
    found = plain(convolution("float32", direction, pixels=(9, 8), channels=6, filters=4, batch=2, before=0, after=0))
    places = (9, 8) if direction == "backward_data" else (7, 6)
    assert found == (direction, "float32", 2, 6, 4, places, (3, 3))
    for more in ({"stride": 2}, {"dilation": 2}, {"groups": 2}, {"pixels": (9, 8, 9)}):
        assert (
            plain(convolution("float32", direction, **{"pixels": (9, 8), "channels": 6, "filters": 4, **more})) is None
        )
    assert plain(convolution("float32", epilogue=("bias",))) is None


# ---------------------------------------------------------------- what the heuristics' first is exchanged for


def proposed(*shapes, engine=62, unwanted=""):
    """Configurations of (tile, depth of a tile, clusters each way), or that tell nothing of these."""
    kinds = KnobType.TILE_SIZE, KnobType.TILEK, KnobType.TILE_CGA_M, KnobType.TILE_CGA_N
    knobs = [tuple(zip(map(int, kinds), shape, strict=False)) for shape in shapes]
    notes = {NumericalNote.TENSOR_CORE}
    return [SimpleNamespace(engine=engine, knobs=each, notes=notes, unwanted=lambda wants: unwanted) for each in knobs]


@pytest.mark.parametrize("engine", [62, 67])
@pytest.mark.parametrize(
    "shapes, first",
    [
        (((1, 1, 7, 1), (4, 1, 8, 1), (1, 0, 8, 1), (1, 1, 8, 1)), 3),
        (((4, 1, 1, 2), (0, 0, 1, 1), (0, 1, 1, 2), (0, 1, 1, 1)), 3),
        (((3, 0, 1, 2), (9, 0, 4, 1), (0, 0, 1, 2)), 2),
        (((0, 1, 1, 2), (0, 1, 1, 1), (0, 1, 8, 1)), None),
        (((1, 1, 7, 1), (4, 1, 8, 1)), None),
        (((), (1, 1, 8, 1)), None),
    ],
    ids=str,
)
def test_what_comes_first(engine, shapes, first):
    refused = proposed((5, 1, 1, 1), engine=engine, unwanted="it may not be taken")
    some = [*refused, *proposed(*shapes, engine=engine)]
    for direction in ("forward", "backward_data"):
        found = reordered(convolution("float16", direction), Wants(), some)
        assert found == ([] if first is None else [some[1 + first]]) + some
    for other in (convolution("float16", "backward_filter"), convolution("float16", epilogue=("bias",))):
        assert reordered(other, Wants(), some) is some
    others = proposed(*shapes, engine=65)
    assert reordered(convolution("float16"), Wants(), others) is others
    assert reordered(convolution("float16"), Wants(), ()) == ()
