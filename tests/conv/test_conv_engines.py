"""Which of cuDNN's engines convolutions take: plans for GPUs that are not there, and what a GPU's check has shown."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from conv_plans import NOTHING, PLAIN, call_of, engine_of, modes
from cudnn_cases import Request, convolution, need_planning
from paths import ROOT
from requested import requested
from skips import skip_if

from numbacc import conv, cudnn
from numbacc.base.dispatch import simulated
from numbacc.conv.lowering import Way, forms, lower, ways
from numbacc.conv.problem import resolve
from numbacc.libraries import cudnn_search
from numbacc.libraries.choices import Algorithm
from numbacc.libraries.cudnn_graph import Wants
from numbacc.libraries.cudnn_order import modes as modes_of
from numbacc.libraries.cudnn_order import reordered
from numbacc.libraries.cudnn_rules import nan_lost, shortens_wrongly
from numbacc.libraries.cudnn_support import _left
from numbacc_bindings.cudnn import HeurMode, NumericalNote
from tools.check.__main__ import findings
from tools.check.conv_cases import cases
from tools.check.conv_worker import request_of

pytestmark = skip_if(simulated(), "not simulated")

CHECKS = ROOT / "benchmarks" / "checks"
FOUND = {case: found for path in sorted(CHECKS.glob("*-conv.json")) for case, found in findings(path).items()}
CASES = [case for case in cases() if case.has_engines]


def graphs_by_way(case):
    """Pairs (what is fused, as findings name it; the graph) of the images as they lie."""
    problem = request_of(case).problem
    aligned = (True,) * (len(problem.inputs) + 1)
    for way in ways(problem, rough=True):
        found = lower(problem, way, aligned)
        if not found.copies:
            yield "+".join(name for name, is_done in way._asdict().items() if is_done), found.graphs[0]


# ---------------------------------------------------------------- what is known


def test_a_plan_from_disk_is_taken_only_if_it_is_still_trusted():
    """Kept before it was known that float16's overflow disappears, by its engine's number, compiled or not."""
    for dtype, is_fine in (("float16", False), ("bfloat16", True)):
        graph = convolution(dtype)
        for variant in range(4):
            assert cudnn_search.is_trusted(Algorithm(b"", 0, "", (47, variant)), graph) is is_fine
            assert cudnn_search.is_trusted(Algorithm(b"", 0, "", (41, variant)), graph)


@pytest.mark.each_alone(paired=True)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("direction", ["forward", "backward_data", "backward_filter"])
def test_plans_tell_where_what_is_not_finite_reaches_other_groups(direction, layout):
    """Of narrow groups nearly all engines for tensor cores; of one group none."""
    engine = {"forward": 62, "backward_data": 78, "backward_filter": 1}[direction]
    for channels, groups in ((32, 8), (32, 32), (64, 8), (512, 8), (64, 1)):
        w = (channels, channels // groups, 3, 3)
        x = (2, channels, 9, 9)
        if layout == "NHWC":
            x, w = ((shape[0], *shape[2:], shape[1]) for shape in (x, w))
        asked = requested(conv, x, w, dtype="float16", groups=groups, padding=1, layout=layout, direction=direction)
        graph = lower(asked.problem, Way(False, False), (True,) * 3).graphs[0]
        is_narrow = groups > 1 and channels // groups < 64 and direction != "backward_filter"
        assert ("other groups" in nan_lost(graph, engine)) is is_narrow
        assert "other groups" not in nan_lost(graph, 0)


# ---------------------------------------------------------------- transforms


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "compute, device, direction, layout",
    [
        ("tf32", "T4", "backward_data", "NCHW"),
        (None, "T4", "backward_data", "NCHW"),
        ("tf32", "T4", "backward_data", "NHWC"),
        ("tf32", "L4", "forward", "NCHW"),
        ("tf32", "RTX3090", "backward_data", "NCHW"),
    ],
)
def test_tensor_cores_of_float32_allow_no_transforms(compute, device, direction, layout):
    """The heuristics of smaller GPUs rank Winograd's first."""
    need_planning()
    shapes = ((8, 64, 28, 28), (64, 64, 3, 3)) if layout == "NCHW" else ((8, 28, 28, 64), (64, 3, 3, 64))
    options = {"direction": direction, "layout": layout, "padding": 1}
    found = cudnn.supports(requested(conv, *shapes, **options, compute=compute), device)
    assert found and "wino_tile" not in found.engine
    spoilt = {engine for engine, reason in found.rejected if reason == "uses Winograd or Fourier transforms"}
    assert engine_of(found) not in spoilt and (spoilt or compute is None)


# ---------------------------------------------------------------- which come first

VOLUMES = ((2, 32, 32, 64, 64), (64, 32, 3, 3, 3))


@pytest.mark.parametrize(
    "direction, x, w, options, wanted",
    [
        ("backward_data", (8, 64, 56, 56), (64, 64, 3, 3), {"dtype": "float64"}, "engine 1"),
        ("backward_data", (8, 64, 32, 32), (64, 16, 3, 3), {"dtype": "float64", "groups": 4}, "engine 1"),
        ("backward_data", (8, 64, 1024), (64, 64, 3), {"dtype": "float64", "layout": "NCW"}, "engine 1"),
        ("backward_filter", *VOLUMES, {"layout": "NCDHW"}, "engine 1"),
        ("backward_filter", (2, 128, 16, 16, 16), (128, 128, 3, 3, 3), {"layout": "NCDHW"}, "engine 67"),
    ],
    ids=str,
)
def test_engines_that_come_first(direction, x, w, options, wanted):
    """Other ones than cuDNN's heuristics propose first, on GPUs like an H100."""
    need_planning()
    found = cudnn.supports(requested(conv, x, w, direction=direction, padding=1, **options), "H100")
    assert found.engine.split(",")[0] == wanted and found.deterministic


@pytest.mark.parametrize(
    "x, w, more, is_one",
    [
        ((8, 64, 32, 32), (64, 64, 3, 3), {"dilation": 2, "padding": 2}, True),
        ((2, 16, 8, 8, 8), (32, 16, 3, 3, 3), {"layout": "NCDHW", "padding": 1}, True),
        ((8, 64, 32, 32), (64, 64, 3, 3), {"padding": 1}, False),
        ((8, 64, 32, 32), (64, 64, 1, 1), {}, False),
    ],
    ids=str,
)
def test_gradients_of_float64_that_are_convolutions(x, w, more, is_one):
    found = requested(conv, x, w, direction="backward_data", dtype="float64", **more)
    assert (found.graphs()[0].nodes[0].kind == "convolve_forward") is is_one


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("direction", ["forward", "backward_data", "backward_filter"])
def test_16_bits_take_tensor_cores_before_other_engines(direction, dtype):
    """Also where the first heuristic proposes none: with dilation the second one proposes a direct engine."""
    configurations = [SimpleNamespace(engine=n, notes=notes, unwanted=lambda wants: "") for n, notes in NOTED]
    wide = convolution(dtype, direction, channels=64)
    assert [each.engine for each in reordered(wide, Wants(), configurations)] == [33, 49, 1, 0]
    assert modes_of(wide) == (HeurMode.A, HeurMode.B, HeurMode.FALLBACK)
    for other in (convolution("float32", direction), convolution("float32", "forward")):
        assert reordered(other, Wants(), configurations) is configurations
        assert modes_of(other) == (HeurMode.A, HeurMode.FALLBACK, HeurMode.B)


NOTED = [(1, ()), (33, (NumericalNote.TENSOR_CORE,)), (0, ()), (49, (NumericalNote.TENSOR_CORE,))]

# ---------------------------------------------------------------- activations


@pytest.mark.sampled(1)
@pytest.mark.parametrize("activation, device", [("tanh", "H200"), ("gelu_tanh", "A100"), ("gelu_tanh", "B200")])
def test_float32_leaves_hyperbolic_tangents_to_our_kernel(activation, device):
    """What it fuses of them is compiled with the hardware's: in the plan there is the bias alone, precompiled."""
    need_planning()
    options = {"layout": "NHWC", "padding": 1, "bias": True, "activation": activation}
    shapes = ((2, 8, 8, 32), (32, 3, 3, 32))
    for compute in (None, "tf32"):
        found = cudnn.supports(conv.forward.request(*shapes, **options, compute=compute), device)
        assert found and not found.compiled
    narrow = conv.forward.request(*shapes, **options, dtype="float16")
    assert len(narrow.graphs()[0].nodes) > 2 and cudnn.supports(narrow.graphs()[0], device).compiled


@pytest.mark.each_alone(paired=True)
@pytest.mark.parametrize("activation, mode", [("sigmoid", "SIGMOID_FWD"), ("elu", "ELU_FWD")])
@pytest.mark.parametrize("more", [{"dtype": "float16"}, {"compute": "tf32"}, {}], ids=str)
def test_activations_that_are_slow_behind_a_bias_come_after_our_kernel(activation, mode, more):
    """Only the generic engine is precompiled for them. Without a bias it has no part in them."""
    asked = {"named": "NHWC", "activation": activation, **more}
    biased = [*PLAIN, "ADD"]
    assert modes(**asked, biased=True) == [biased, [*biased, mode], PLAIN]
    assert modes(**asked, biased=True, beta=0.5) == [[*biased, "ADD"], [*biased, "ADD", mode], PLAIN]
    assert modes(**asked) == [[*PLAIN, mode], PLAIN]
    first = resolve(call_of("forward", **{**asked, "named": "NCHW"}, biased=True))
    assert ways(first) == [Way(True, False), NOTHING]
    assert ways(first, rearranged=True) == [Way(True, False), Way(True, True), NOTHING]


@pytest.mark.each_alone(paired=True)
@pytest.mark.parametrize("device", ["T4", "A100", "H200", "B200"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("activation", ["relu", "sigmoid", "elu"])
def test_activations_behind_a_bias_leave_the_generic_engine_alone(activation, layout, device):
    """Those of which something is precompiled; of others see `planned_cudnn.py`."""
    need_planning()
    kinds = [{"dtype": "float16"}, {"dtype": "bfloat16"}, {"compute": "tf32"}, {}]
    for more in kinds if device != "T4" else [kind for kind in kinds if kind.get("dtype") != "bfloat16"]:
        for channels, taps in ((256, 3), (64, 1)):
            shapes = (64, 56, 56, channels), (256, taps, taps, channels)
            if layout == "NCHW":
                shapes = [(first, last, *pixels) for first, *pixels, last in shapes]
            options = {"layout": layout, "padding": taps // 2, "bias": True, "activation": activation, **more}
            found = cudnn.supports(conv.forward.request(*shapes, **options), device)
            assert found and not found.compiled and engine_of(found) != 0, (options, found)


def test_what_float32_fuses_was_as_exact_as_our_kernel():
    """Where least is added up, so that the function shows: engines 0 and 8 are those that leave tensor cores alone."""
    for activation in ("gelu", "silu", "elu", "tanh"):
        told = FOUND[f"forward 2-d depthwise NHWC float32 {activation}"]
        errors = {key: float(finding.split()[1]) for key, finding in told.items() if finding.startswith("right")}
        engine = "bias+activation 0" if activation == "elu" else "bias+activation 8"
        assert (errors[engine] > 30 * errors["numbacc"]) is (activation == "tanh")
        assert activation == "tanh" or errors[engine] < 1.2 * errors["numbacc"]


# ---------------------------------------------------------------- what is left to our kernel


@pytest.mark.parametrize(
    "options, then",
    [
        ({"dtype": "float64", "bias": True, "activation": "relu"}, "bias and relu"),
        ({"bias": True, "activation": "gelu"}, "gelu"),
        ({"activation": "gelu"}, "gelu"),
        ({"bias": True, "activation": "relu"}, ""),
        ({"layout": "NHWC", "dtype": "float16", "bias": True, "activation": "gelu"}, ""),
        ({"dtype": "int8", "bias": True, "alpha": 0.5, "out_dtype": "float32"}, "alpha and bias"),
        ({"direction": "backward_data", "beta": 1.0}, ""),
        ({}, ""),
    ],
)
def test_an_answer_says_what_its_plan_leaves_to_our_kernel(options, then):
    need_planning()
    shapes = ((2, 32, 8, 8), (32, 32, 3, 3)) if "layout" not in options else ((2, 8, 8, 32), (32, 3, 3, 32))
    asked = requested(conv, *shapes, padding=1, **options)
    found = cudnn.supports(asked, "A100")
    assert found and found.then == then and (f"; then a kernel: {then}>" in repr(found)) is bool(then)
    assert cudnn.supports(asked.graphs(), "A100").then == ""  # graphs are asked for as they are


def test_what_an_answer_leaves_to_our_kernel_is_what_plans_leave():
    seen = set()
    for case in CASES[::3]:
        asked = request_of(case)
        for lowered in forms(asked.problem, (True,) * (len(asked.problem.inputs) + 1)):
            left = asked.problem.left(*lowered.way)
            seen.add(left)
            assert {_left(asked, graph) for graph in lowered.graphs} == {left}, case.name
    assert len(seen) > 10


# ---------------------------------------------------------------- NaN

BIASED = ("bias", "RELU_FWD")


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_engines_that_are_known_to_lose_nan(dtype, last):
    """As an H200 and an H100 showed: with a bias and ReLU, or with channels that are not the innermost axis."""
    every = range(100)

    def losing(*epilogue, direction="forward"):
        graph = convolution(dtype, direction, epilogue=epilogue, last=last)
        return {engine for engine in every if nan_lost(graph, engine)}

    rows = set() if last else {14}
    rectified = {0, 11, 12, 13, 35, 36, *([39] if dtype == "float32" else [])}
    assert losing(*BIASED) == losing("add", *BIASED) == rectified | rows
    assert losing("RELU_FWD") == losing("bias", "GELU_FWD") == rows
    # These lose infinities. numbacc never uses them for float16, where sums beyond 65504 are wrong.
    assert losing("bias") == rows | ({32} if dtype == "float32" else set())
    assert losing() == (set() if last else {6}) | ({47} if dtype == "float32" else set())
    is_single = dtype == "float32" and not last
    assert losing(direction="backward_data") == ({7} if is_single else set())
    assert losing(direction="backward_filter") == set()


def test_what_is_behind_other_activations_is_no_relu():
    """A slope and clips are settings of cuDNN's ReLU."""
    for activation in ("leaky_relu", "tanh", "gelu", None):
        options = {"layout": "NHWC", "bias": True, "activation": activation, "dtype": "float16"}
        graphs = conv.forward.request((2, 8, 8, 32), (32, 3, 3, 32), **options).graphs()
        assert not any(nan_lost(graph, 0) for graph in graphs)


@pytest.mark.parametrize("device", ["A100", "H200", "B200"])
def test_relus_are_fused_whatever_becomes_of_nan(device):
    """A pass over the result less. Of float32 some take engines that lose it; those of tensor cores do not."""
    need_planning()
    for dtype in ("float32", "float16"):
        options = {"layout": "NHWC", "padding": 1, "bias": True, "activation": "relu", "dtype": dtype}
        asked = conv.forward.request((64, 56, 56, 256), (256, 3, 3, 256), **options)
        graph = asked.graphs()[0]
        found = cudnn.supports(Request((graph,), asked.wants), device)
        assert len(graph.nodes) == 3 and found and not found.compiled
        losing = engine_of(found) in (0, 11, 12, 13, 35, 36)
        assert nan_lost(graph, engine_of(found)) == ("its ReLU gives 0 for NaN" if losing else "")
        assert not (losing and dtype == "float16") and (losing or dtype == "float16" or device == "H200")


# ---------------------------------------------------------------- versions


@pytest.mark.parametrize("version, bad", [(91001, False), (91002, True), (91599, True), (91600, False)])
def test_tensor_cores_are_left_alone_for_volumes_where_a_version_has_a_wrong_kernel(version, bad, monkeypatch):
    volume = {"pixels": (6, 6, 6)}
    monkeypatch.setattr(type(cudnn_search.cudnn), "version", lambda self: version)
    for direction in ("forward", "backward_data", "backward_filter"):
        graph = convolution("float32", direction, **volume)
        assert shortens_wrongly(graph, version) is bad
        kept = cudnn_search.kept_to(graph, Wants(inputs="tf32", workspace_limit=5))
        assert kept == Wants(inputs="exact" if bad else "tf32", workspace_limit=5)
        for inputs in ("exact", "fft", "any"):
            assert cudnn_search.kept_to(graph, Wants(inputs=inputs)).inputs == inputs
    assert shortens_wrongly(convolution("float32", epilogue=("bias",), **volume), version) is bad
    for other in (convolution("float32"), convolution("float16", **volume)):
        assert not shortens_wrongly(other, version)
        assert cudnn_search.kept_to(other, Wants(inputs="tf32")).inputs == "tf32"
