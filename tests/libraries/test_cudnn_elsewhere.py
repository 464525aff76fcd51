"""Plans for GPUs that are not there, made by cuDNN in a process of its own."""

from __future__ import annotations

import pickle
import re

import pytest
from cudnn_cases import CASES, Request, convolution, need_planning
from skips import skip

import numbacc
from numbacc import conv, cudnn
from numbacc.base.dispatch import simulated
from numbacc.libraries import cudnn_elsewhere, cudnn_needs
from numbacc.libraries.cudnn_devices import GPUS, gpu_named
from numbacc.libraries.cudnn_graph import Drawing, Wants
from numbacc.libraries.cudnn_plans import Rejected
from numbacc.reference.conv import ACTIVATIONS
from tools.check.conv_cases import DIRECTIONS, cases
from tools.check.conv_worker import request_of


@pytest.fixture
def planner():
    """The worker's desk."""
    if simulated():
        skip("not simulated")
    need_planning()
    return cudnn_elsewhere._desk


needs_planner = pytest.mark.usefixtures("planner")


# ---------------------------------------------------------------- what is supported


@pytest.mark.each_alone(paired=True)
@needs_planner
@pytest.mark.parametrize("device", ["T4", "A100", "H200", "B200"])
@pytest.mark.parametrize("name", CASES)
def test_convolutions_have_plans(name, device):
    graph = CASES[name]
    found = cudnn.supports(graph, device)
    if device == "T4" and "bfloat16" in name:
        assert not found and found.engine == "" and found.workspace_bytes == 0
        assert "bfloat16 needs compute capability 8.0; Tesla T4 has 7.5" in found.reason
        assert "is_bf16" in found.reason
        return
    if device == "T4" and name == "int8 to int32":
        assert not found and "engines 0, 28: known to be wrong here" in found.reason
        return
    assert found and found.reason == "", found
    assert found.device == GPUS[device].name
    assert found.engine.startswith("engine ") and found.workspace_bytes >= 0
    assert found.tried == 1 + sum(each.engine is not None for each in found.rejected)
    assert found.compiled == ("compiled at run time" in found.engine)


@pytest.mark.sampled(2)
@pytest.mark.each_alone(paired=True)
@needs_planner
@pytest.mark.parametrize("device", ["T4", "A100", "H200", "B200"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("channels, dtype", [(96, "float32"), (128, "float64")])
def test_sums_of_int8_have_plans_everywhere(channels, dtype, layout, device):
    """Where no engine is right by one of floats that hold the largest sum, 128 x 128 x 9 times the channels."""
    shapes = [(2, channels, 8, 8), (16, channels, 3, 3)]
    if layout == "NHWC":
        shapes = [(a, c, d, b) for a, b, c, d in shapes]
    asked = conv.forward.request(*shapes, dtype="int8", layout=layout, padding=1, bias=True, activation="relu")
    assert asked.graphs()[-1].tensors[0].dtype == dtype
    found = cudnn.supports(asked, device)
    assert found, found
    if device == "T4":
        assert not cudnn.supports(asked.graphs()[0], device)
        alone = cudnn.supports(Request((asked.graphs()[-1],), asked.wants), device)
        assert alone.then == "" and found == alone._replace(then="bias and relu")


@pytest.mark.sampled(1)
@needs_planner
@pytest.mark.parametrize("device", ["T4", "A100", "H200", "B200"])
def test_all_kinds_of_convolutions_have_plans(device):
    """Those whose engines `python -m tools.check conv` runs, as `numbacc.conv` asks for them: each on two GPUs."""
    part = [case for case in cases() if case.has_engines][::11]
    kinds = {(case.direction, case.dtype, case.options["layout"].endswith("C")) for case in part}
    assert len(kinds) > 25 and {case.epilogue for case in part} >= {"", "bias", "relu", "gelu", "tanh", "elu"}
    first = ["T4", "H200", "A100", "B200"].index(device) % 2  # one of the older GPUs and one of the newer
    part = [case for case in part[first::2] if not (device == "T4" and case.dtype == "bfloat16")]
    assert {case.direction for case in part} == set(DIRECTIONS) and len({case.dtype for case in part}) > 3
    without = [case.name for case in part if not cudnn.supports(request_of(case), device)]
    assert not without


@needs_planner
@pytest.mark.parametrize("device", ["T4", "A100", "H200", "B200"])
def test_gradients_as_convolutions_have_plans(device):
    options = {"layout": "NHWC", "padding": 1}
    asked = conv.backward_data.request((64, 56, 56, 256), (256, 3, 3, 256), **options)
    assert asked.graphs()[0].nodes[0].kind == "convolve_forward"
    assert cudnn.supports(asked, device)
    assert cudnn.supports(
        conv.backward_data.request((2, 9, 8, 12), (6, 3, 2, 4), groups=3, **options).graphs()[-1], device
    )


@pytest.mark.sampled(2)
@needs_planner
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_is_fused_where_channels_are_innermost(activation):
    options = {"layout": "NHWC", "padding": 1, "bias": True, "activation": activation, "dtype": "float16"}
    fused = max(
        conv.forward.request((2, 8, 8, 32), (32, 3, 3, 32), **options).graphs(), key=lambda graph: len(graph.nodes)
    )
    found = cudnn.supports(fused, "H200")
    assert len(fused.nodes) > 2 and found, found


@needs_planner
def test_kernels_that_are_compiled_for_the_occasion():
    found = cudnn.supports(convolution(epilogue=("bias", "GELU_FWD")), "A100")
    assert found and found.compiled and "compiled at run time" in found.engine


@pytest.mark.each_alone(paired=True)
@needs_planner
@pytest.mark.parametrize("device", ["T4", "A100", "H200", "B200"])
@pytest.mark.parametrize("direction", ["forward", "backward_data", "backward_filter"])
def test_exact_float32_leaves_tensor_cores_alone(direction, device):
    """The notes themselves are looked at in `planned_cudnn.py`."""
    graph = CASES[f"{direction}-float32"]
    found = cudnn.supports(Request((graph,), Wants(inputs="exact")), device)
    spoilt = {engine for engine, reason in found.rejected if reason.startswith("rounds")}
    assert found and int(found.engine.split(",")[0].removeprefix("engine ")) not in spoilt
    if direction == "forward" and device in ("A100", "H200"):
        assert spoilt


@needs_planner
def test_deterministic():
    graph = CASES["backward_filter-volume"]
    found = {flag: cudnn.supports(graph, "T4", deterministic=flag) for flag in (False, True)}
    assert found[True].deterministic
    asked = cudnn.supports(Request((graph,), Wants(deterministic=True)), "T4")
    assert asked == found[True]
    if not found[False].deterministic:
        assert any(each.reason == "not deterministic" for each in found[True].rejected)
        assert repr(found[False]).endswith(" bytes of workspace, not deterministic>")


@needs_planner
def test_workspace_limit():
    graph = CASES["backward_data-float64"]
    free = cudnn.supports(graph, "H200")
    assert free.workspace_bytes > 0
    for limit in (0, free.workspace_bytes - 1, free.workspace_bytes):
        found = cudnn.supports(graph, "H200", workspace_limit=limit)
        assert found and found.workspace_bytes <= limit
    assert found == free
    # The request's own limit holds as well.
    found = cudnn.supports(Request((graph,), Wants(workspace_limit=0)), "H200", workspace_limit=2**40)
    assert found.workspace_bytes == 0 and any("the limit is 0" in each.reason for each in found.rejected)
    # No plan needs less than nothing.
    none = cudnn.supports(Request((graph,), Wants(workspace_limit=-1)), "H200")
    assert not none and f"needs {free.workspace_bytes} bytes of workspace, the limit is -1" in none.reason


@needs_planner
def test_the_first_way_with_a_plan_counts():
    no, yes, also = CASES["forward-bfloat16"], CASES["forward-float16"], CASES["forward-float32"]
    assert cudnn.supports([no, yes, also], "T4") == cudnn.supports(yes, "T4")
    none = cudnn.supports((no, CASES["backward_data-bfloat16"]), "T4")
    assert not none and none == cudnn.supports(no, "T4")


#: Each costs a process that plans, and one is enough where time counts.
NAMES = [name for name in GPUS if name not in ("T4", "A100", "H200", "B200")]
NAMES = [pytest.param(name, marks=[pytest.mark.slow] * (number > 0)) for number, name in enumerate(NAMES)]


@needs_planner
@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_planned_for(name):
    found = cudnn.supports(CASES["forward-bfloat16"], name.lower())
    assert found and found.device == gpu_named(name).name


def test_devices():
    assert cudnn.devices() == list(GPUS) and "H200" in cudnn.devices()


@pytest.mark.gpu
@pytest.mark.usefixtures("planner")
def test_gpus_of_this_process():
    from numbacc.libraries.cudnn_devices import gpu_here
    from numbacc.runtime import device

    gpu = gpu_here(0)
    assert gpu.capability == device.capability(0) and gpu.name == device.device_name(0)
    (known,) = [each for each in GPUS.values() if each.name == gpu.name] or [gpu]
    # What engines depend on; clocks, memory and the width of its bus differ from board to board.
    for field in ("capability", "multiprocessors", "threads", "blocks", "shared"):
        assert getattr(gpu, field) == getattr(known, field), field
    graph = CASES["forward-float16"]
    found = cudnn.supports(graph, 0)
    assert found and found == cudnn.supports(graph, "cuda:0") and found.device == gpu.name


# ---------------------------------------------------------------- why there is none

#: Graphs without an engine -> the device, and the beginning of why.
UNMET = {
    "float8": (convolution("float8_e4m3fn"), "T4", "float8 needs compute capability 8.9; Tesla T4 has 7.5"),
    "bfloat16": (convolution("bfloat16"), "T4", "bfloat16 needs compute capability 8.0; Tesla T4 has 7.5"),
    "gelu": (
        convolution(epilogue=("bias", "GELU_FWD"), last=False),
        "H200",
        "after a convolution with channels first cuDNN fuses only a bias and relu: put the channels last",
    ),
    "alpha": (
        convolution(epilogue=("bias", "RELU_FWD"), alpha=2.0),
        "H200",
        "a convolution with fused operations must have alpha 1 and beta 0",
    ),
    "alignment": (
        convolution("int8", math="int32", out="int32", alignment=1),
        "H200",
        "int8 with 32-bit results needs addresses that are multiples of 4",
    ),
}


def aligned_result(graph):
    """A result of 32 bits is at a multiple of 4 whatever its operands are at."""
    some = tuple(
        each._replace(alignment=max(each.alignment, 4)) if "32" in each.dtype else each for each in graph.tensors
    )
    return graph._replace(tensors=some)


@needs_planner
@pytest.mark.parametrize("name", UNMET)
def test_unmet_needs_are_named_first(name):
    graph, device, why = UNMET[name]
    found = cudnn.supports(aligned_result(graph), device)
    assert not found
    assert f" has no engine for this on {GPUS[device].name}: {why}" in found.reason
    assert repr(found) == f"<no plan: {found.reason}>"


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["gelu", "alpha"])
def test_the_same_is_said_where_there_is_a_gpu(name):
    from numbacc.libraries import cudnn as library

    graph, _, why = UNMET[name]
    with pytest.raises(numbacc.UnsupportedError, match=re.escape(why)):
        library.choose(graph, Wants(), 0)


def attention(dtype, length):
    draw = Drawing("float32")
    q, k = draw.tensor(dtype, (1, 1, 16, length)), draw.tensor(dtype, (1, 1, length, 16), (16 * length, 1, 1, length))
    p = draw.matmul(q, k, draw.between((1, 1, 16, 16), dtype=dtype))
    v, o = draw.tensor(dtype, (1, 1, 16, length)), draw.tensor(dtype, (1, 1, 16, length))
    draw.matmul(p, v, o)
    return draw.graph()


def needs(graph, device):
    gpu = GPUS[device]
    return [each.partition(" needs")[0] for each in cudnn_needs.unmet(graph, gpu.name, gpu.capability)]


def test_needs(monkeypatch):
    monkeypatch.setattr(cudnn_needs.installed, "find", lambda name: name)
    assert not any(needs(graph, "H200") for graph in CASES.values())
    for name, graph in CASES.items():
        assert needs(graph, "T4") == ["bfloat16"] * ("bfloat16" in name)
    assert needs(attention("float8_e4m3fn", 64), "T4") == ["fused attention", "float8", "attention in float8"]
    assert needs(attention("float8_e4m3fn", 64), "L4") == ["attention in float8"]
    assert needs(attention("float8_e5m2", 64), "H200") == needs(attention("float16", 64), "A100") == []
    assert needs(attention("float16", 64), "T4") == ["fused attention"]
    assert needs(attention("float16", 60), "H200") == ["attention"]
    for epilogue, served in {
        ("bias",): True, ("bias", "RELU_FWD"): True, ("add", "bias", "RELU_FWD"): True, ("add", "bias"): False,
        ("RELU_FWD",): False, ("bias", "TANH_FWD"): False,
    }.items():  # fmt: skip
        assert bool(needs(convolution(epilogue=epilogue, last=False), "H200")) != served
        assert needs(convolution(epilogue=epilogue), "H200") == []


@pytest.mark.parametrize("error", [ImportError, RuntimeError])
def test_a_missing_compiler_is_named(monkeypatch, error):
    def find(name):
        raise error(name)

    monkeypatch.setattr(cudnn_needs.installed, "find", find)
    (need,) = cudnn_needs.unmet(CASES["forward-float16"], "NVIDIA H200", (9, 0))
    assert need.startswith("engines that compile their kernel need NVRTC, which was not found: pip install")


@needs_planner
def test_descriptors_that_do_not_fit():
    found = cudnn.supports(convolution(alignment=1))
    assert not found and found.tried == 0 and "BAD_PARAM" in found.reason and "alignment" in found.reason


def test_wrong_arguments():
    graph = CASES["forward-float16"]
    for wrong in ("x", [], [graph, None], None, 3):
        with pytest.raises(numbacc.DTypeError, match=r"^request is a "):
            cudnn.supports(wrong)
    with pytest.raises(numbacc.OptionError, match=r"^device='H2000' is unknown; it is one of T4, "):
        cudnn.supports(graph, "H2000")
    with pytest.raises(numbacc.OptionError, match=r"^deterministic=1 is neither"):
        cudnn.supports(graph, deterministic=1)
    for limit in (-1, 1.5, "x"):
        with pytest.raises(numbacc.OptionError, match=r"^workspace_limit="):
            cudnn.supports(graph, workspace_limit=limit)
    for device in (99, "cuda:99"):
        with pytest.raises((numbacc.DeviceError, numbacc.UnsupportedError), match="99"):
            cudnn.supports(graph, device)


def test_other_systems(monkeypatch):
    monkeypatch.setattr(cudnn_elsewhere.sys, "platform", "darwin")
    with pytest.raises(numbacc.UnsupportedError, match="only on Linux"):
        cudnn.supports(CASES["forward-float16"])


def test_answers_are_plain_data():
    found = cudnn.Support("Tesla T4", "engine 1", 8, rejected=(Rejected(3, "x"),))
    assert pickle.loads(pickle.dumps(found)) == found and found
    assert repr(found) == "<a plan on Tesla T4: engine 1; 8 bytes of workspace, not deterministic>"
    assert repr(found._replace(then="bias")) == repr(found)[:-1] + "; then a kernel: bias>"
    assert not cudnn.Support("Tesla T4", reason="x")
