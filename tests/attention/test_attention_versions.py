"""What attention does with versions of cuDNN that are known to be wrong, which are said to be there."""

from __future__ import annotations

import attention_oracle
import numpy as np
import pytest
from attention_call import Call, small
from attention_graphs import BOTH, CASES, LONG, Q, plan
from attention_oracle import BFLOAT16, HALF
from conftest import refused
from cudnn_cases import convolution, need_planning
from requested import requested
from skips import skip, skip_if

from numbacc import attention
from numbacc.attention import versions
from numbacc.attention.fusing import Fused
from numbacc.attention.masks import CausalSlidingWindow, SlidingWindow
from numbacc.base.dispatch import graph_library, runtime, simulated
from numbacc.errors import UnsupportedError
from numbacc.libraries.cudnn_rules import NEWEST, REFUSED, dotted, refusal
from numbacc.runtime import workspace
from numbacc.runtime.steps import FillWords, ZeroBytes

pytestmark = pytest.mark.usefixtures("poison")


@pytest.fixture
def pretend(monkeypatch):
    """Say that a version of cuDNN is there."""
    library = graph_library()
    attention.cache_clear()
    yield lambda version: monkeypatch.setattr(library, "version", lambda: version)
    attention.cache_clear()


def asked(q=Q, k=LONG, v=None, **options):
    return requested(attention, q, k, v, **options)


SHIFTED = {"mask": "causal_bottom_right"}
FORWARD, BACKWARD = ({"direction": direction} for direction in BOTH)
THD = {"q": (300, 8, 64), "k": (500, 2, 64), "layout": "THD", "batch": 3, "max_len_q": 128, "max_len_kv": 256}
PAGED = {"q": (4, 8, 8, 128), "k": (64, 2, 64, 128), "pages": 8}
WIDE_PAGES = {"q": (4, 8, 8, 256), "k": (64, 2, 64, 256), "pages": 8}
#: (the first version that runs it, the last that does not, what is asked for); in both directions where it says none.
FAULTY = [
    (91401, 91400, {"k": (2, 8, 1032, 64), "mask": SlidingWindow(16)}),
    (91300, 91200, {"q": (2, 8, 128, 160), "k": (2, 8, 256, 160), "v": (2, 8, 256, 96), **BACKWARD}),
    (91300, 91100, {"q": (2, 8, 128, 184), "k": (2, 8, 256, 184), "v": (2, 8, 256, 120), **BACKWARD}),
    (91002, 90900, {"mask": SlidingWindow(16)}),
    (91002, 90900, {"mask": CausalSlidingWindow(16), "dropout": 0.1}),
    (91002, 90900, {"mask": CausalSlidingWindow(16), "bias_shape": (1, 8, 128, 256)}),
    (90901, 90900, {"k": Q, "mask": CausalSlidingWindow(16, bottom_right=True), "lengths": True}),
    (90901, 90900, {"q": (2, 8, 1, 64), "mask": "causal", **FORWARD}),
    (90600, 90501, SHIFTED),
    (90600, 90501, {**THD, **BACKWARD}),
    (90500, 90400, {"bias_shape": (1, 8, 128, 256), "lengths": True, "bias_grad": True, **BACKWARD}),
    (90500, 90400, {"k": (2, 8, 250, 64), "bias_shape": (1, 8, 128, 250), "bias_grad": True, **BACKWARD}),
    (90500, 90400, {**PAGED, **FORWARD}),
    (90100, 90000, {"dtype": "float8_e4m3fn", **FORWARD}),
    (91900, 91801, {**SHIFTED, "bias_shape": (1, 8, 128, 256)}),
    (91900, 91801, {**SHIFTED, "dropout": 0.1}),
    (91900, 91801, {**SHIFTED, "alibi": True, "lengths": True}),
    (91900, 91801, {"q": LONG, "k": Q, **SHIFTED}),
    (91900, 91801, {"q": LONG, "k": Q, "mask": CausalSlidingWindow(16)}),
    (91900, 91801, {"alibi": True}),
    (91900, 91801, {"q": (2, 8, 1, 64), "k": (2, 8, 1, 64), **BACKWARD}),
]


def test_rows_of_minus_infinity_in_other_versions(device_place, pretend):
    """Only the kernels that were checked get scores of -inf; with others, a kernel of numbacc corrects the rows."""
    case = small(dtype=HALF, bias=(1, 2, 5, 7))
    values = attention_oracle.inputs(case)
    values.bias[:, :, 1] = -np.inf
    for version in (91800, 91900):
        pretend(version)
        call, is_corrected = Call(device_place, case, values=values), versions.clamps_biased_scores(0)
        call.check()
        plan = attention.forward.plan(*call.views("q", "k", "v"), **call.keywords)
        assert plan.info.backend.endswith("+kernel") == is_corrected >= (version < 91900)
        attention.cache_clear()


@pytest.mark.parametrize(("first", "last", "options"), FAULTY, ids=str)
def test_faulty_versions_are_left_alone(pretend, first, last, options):
    for direction in BOTH:
        if options.get("direction", direction) != direction:
            continue
        request = asked(**{**options, "direction": direction})
        pretend(last)
        words = (f"is disabled with cuDNN {dotted(last)}", f"{dotted(first)} and newer")
        refused(UnsupportedError, *words, run=request.graphs)
        for version in (first, 91900, NEWEST):
            pretend(version)
            assert request.graphs()


def test_every_fault_has_a_case(pretend):
    """That no other fault stands for."""
    found = set()
    for _, last, options in FAULTY:
        problem = asked(**{"direction": "forward", **options}).problem
        (*_, fault) = [each for each in versions.FAULTS if each.since <= last < each.mended and each.case(problem)]
        found.add(fault.text)
    assert found == {each.text for each in versions.FAULTS}


def test_a_window_is_wrong_in_9_14_0_alone(pretend):
    for version, keys, mask in (
        (91400, 1024, SlidingWindow(16)), (91400, 1032, CausalSlidingWindow(16)), (91400, 1032, "causal"),
        (91300, 1032, SlidingWindow(16)), (91401, 1032, SlidingWindow(16)),
    ):  # fmt: skip
        pretend(version)
        assert asked(k=(2, 8, keys, 64), mask=mask).graphs()


@pytest.mark.parametrize("direction", BOTH)
@pytest.mark.parametrize("name", CASES)
def test_newer_versions_are_asked_for_the_same_graphs(pretend, name, direction):
    options = dict(CASES[name])
    request = asked(options.pop("q", Q), options.pop("k", Q), direction=direction, **options)
    wanted = request.graphs()
    for version in (91900, 91901, 92800, NEWEST):
        pretend(version)
        assert request.graphs() == wanted
        assert not any(refusal(graph, version, gpu) for graph in wanted for gpu in ((8, 0), (9, 0), (10, 0)))


@pytest.mark.parametrize(
    ("since", "first", "gpus", "options"),
    [
        (91000, 91002, {(8, 0), (9, 0), (10, 0)}, {}),
        (90000, 91801, {(8, 0), (8, 9)}, THD),
        (90600, 91800, {(10, 0)}, {"deterministic": True, **BACKWARD}),
        (90600, 91800, {(10, 0)}, {"k": (2, 2, 128, 64), "deterministic": True, **BACKWARD}),
        (90600, 91800, {(10, 3)}, {"k": Q, "deterministic": True, "dropout": 0.1, **BACKWARD}),
        (90000, 90901, {(8, 0), (8, 6)}, {"q": (2, 8, 128, 192), "k": (2, 8, 256, 192), "v": LONG}),
        (90000, 90901, {(8, 0), (8, 9)}, {"v": (2, 8, 256, 192)}),
        (90500, 90901, {(9, 0), (10, 0)}, WIDE_PAGES),
    ],
    ids=str,
)
def test_faults_of_some_gpus(since, first, gpus, options):
    (graph,) = asked(**options).graphs()
    every = {(8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3)}
    for version in (since, first - 1):
        found = {gpu for gpu in every if dotted(version) in refusal(graph, version, gpu)}
        assert gpus <= found and found in (every, {gpu for gpu in every if gpu[0] in {major for major, _ in gpus}})
    assert not any(refusal(graph, first, gpu) for gpu in every)


def test_gradients_of_biases_are_not_deterministic_ones():
    """Though they, too, write dq as it is; of heads that share keys there are other sums."""
    for k in (LONG, Q, (2, 2, 128, 64)):
        bias = {"bias_shape": (1, 8, 128, k[2]), "bias_grad": True}
        (graph,) = asked(k=k, **BACKWARD, **bias).graphs()
        assert not refusal(graph, 91400, (10, 0))
    (usual,) = asked(**BACKWARD).graphs()
    assert not refusal(usual, 91400, (10, 0))


def test_every_fault_of_some_gpus_has_a_case():
    graphs = [asked(**options).graphs()[0] for options in (THD, {"v": (2, 8, 256, 192)}, WIDE_PAGES)]
    graphs += [convolution(pixels=(6, 6, 6)), *asked(deterministic=True, **BACKWARD).graphs()]
    assert all(any(each.case(graph, gpu) for graph in graphs for gpu in ((8, 0), (10, 0))) for each in REFUSED)


# ---------------------------------------------------------------- what is done instead


def test_what_is_left_alone_runs_in_other_kernels(pretend, device_place):
    """With dropout both ways, though only one of them is at fault: they drop the same."""
    cases = [
        (91002, 90900, {"mask": "window"}, BOTH),
        (91900, 91801, {"queries": 1, "keys": 1}, ("backward",)),
        (91900, 91801, {"queries": 1, "keys": 1, "dropout": 0.3}, BOTH),
    ]
    for first, last, options, ways in cases:
        call = Call(device_place, small(dtype=HALF, **options))
        for version in (last, first):
            pretend(version)
            attention.cache_clear()
            call.check()
            arrays, more = call.views("q", "k", "v"), {k: x for k, x in call.keywords.items() if k != "seed"}
            plans = {"forward": attention.forward.plan(*arrays, **more, return_stats=True)}
            o, stats = call.forward()
            plans["backward"] = attention.backward.plan(*call.views("do"), *arrays, o, stats, **more)
            for way, made in plans.items():
                is_other = made.info.algorithm.startswith(("unfused", "flash"))
                assert is_other is (version == last and way in ways), (version, way, options)


def fused_of(request):
    problem = request.problem
    return Fused(problem, (0,) * (len(problem.inputs) + len(problem.outputs)))


@pytest.mark.parametrize("version", [90000, 90501, 90600, 91900])
@pytest.mark.parametrize("options", [{}, {"deterministic": True}, {"bias_shape": (1, 8, 128, 256), "bias_grad": True}])
def test_sums_of_dq_are_zeroed_for_versions_that_do_not(pretend, version, options):
    pretend(version)
    fused = fused_of(asked(direction="backward", **options))
    stage = fused.stage
    if options:
        assert not stage.has("dq_sums")
        return
    sums = stage.arrays["dq_sums"]
    zeroed = [step for step in stage.steps if isinstance(step.executable, ZeroBytes) and sums.number in step.operands]
    assert len(zeroed) == (version < 90600)
    assert all(step.executable._nbytes == sums.lies.nbytes for step in zeroed)


@pytest.mark.parametrize("options", [{}, {"groups": 2}, {"dropout": 0.3}, {"lengths": ((5, 7), (2, 0))}], ids=str)
def test_sums_of_dq_are_added_to(pretend, device_place, monkeypatch, options):
    """By cuDNN before 9.6: here by what stands for it, on scratch memory full of NaN."""
    if not simulated():
        skip("simulator")
    from numbacc.simulator import cudnn

    apply, run = cudnn._APPLY["matmul"], workspace.run

    def adding(node, reads, tensor, before):
        found = apply(node, reads, tensor, before)
        return found if tensor.virtual or tensor.dtype != "float32" else found + before

    def dirty(launch, nbytes, device, stream, clear=False):
        def launched(address):
            runtime().fill(address, b"\xff", nbytes, device, stream)
            return launch(address)

        return run(launched if nbytes and not clear else launch, nbytes, device, stream, clear)

    monkeypatch.setitem(cudnn._APPLY, "matmul", adding)
    monkeypatch.setattr(workspace, "run", dirty)
    call = Call(device_place, small(dtype=HALF, **options))
    pretend(90501)
    call.check()
    attention.cache_clear()
    pretend(90600)
    # Of fresh memory, which tests fill with NaN.
    assert np.isnan(device_place.get(call.backward(*call.forward())["dq"]).astype(float)).any()


def is_told(graph):
    """Whether a graph is told where keys end."""
    return any("n" in dict(node.tensors) for node in graph.nodes if node.kind == "matmul")


@pytest.mark.parametrize(
    "options", [{}, {"mask": "causal"}, SHIFTED, {"dropout": 0.1}, {"deterministic": True}], ids=str
)
def test_gradients_are_told_where_keys_end(pretend, options):
    """Up to 9.15.0, where the last tile of 128 keys is not full."""

    def graph(keys, version, **more):
        pretend(version)
        (found, *_) = asked(k=(2, 8, keys, 64), **{"direction": "backward", **options, **more}).graphs()
        return found

    assert is_told(graph(250, 91500)) and not is_told(graph(250, 91501))
    assert graph(250, 91501) == graph(250, NEWEST) and not is_told(graph(256, 91500))
    assert not is_told(graph(250, 91500, **FORWARD))
    pretend(91500)
    stage = fused_of(asked(k=(2, 8, 250, 64), direction="backward")).stage
    words = [step.executable._word for step in stage.steps if isinstance(step.executable, FillWords)]
    assert [int.from_bytes(word, "little") for word in words] == [128, 250]


@pytest.mark.parametrize("version", [91900, 92800, NEWEST])
@pytest.mark.parametrize(
    ("queries", "keys", "options", "wanted"),
    [
        (64, 64, {}, True),
        (200, 192, {"dropout": 0.1}, True),
        (8, 320, {"bias_shape": (1, 8, 8, 320)}, True),
        (64, 192, {"deterministic": True}, True),
        (1, 64, {}, True),
        (1, 128, {}, True),
        (1, 256, {"mask": SlidingWindow(1000)}, True),
        (1, 100, {}, False),
        (2, 128, {}, False),
        (64, 200, {}, False),
        (64, 64, {"mask": "causal"}, False),
        (64, 64, FORWARD, False),
    ],
    ids=str,
)
def test_gradients_of_very_negative_scores(pretend, version, queries, keys, options, wanted):
    """What a tile has beyond the keys, or one query, is masked: else its scores are 0, and exp(0 - stats) infinite."""
    pretend(version)
    request = asked((2, 8, queries, 64), (2, 8, keys, 64), **{"direction": "backward", **options})
    (graph, *_) = request.graphs()
    assert is_told(graph) is wanted


@skip_if(simulated(), "slow")
@pytest.mark.parametrize("dtype", [HALF, BFLOAT16], ids=str)
@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ({"queries": 64, "keys": 64}, {}),
        ({"queries": 192, "keys": 192}, {"bias": (2, 2, 192, 192)}),
        ({"queries": 1, "keys": 64}, {}),
        ({"queries": 1, "keys": 128}, {"groups": 2}),
        ({"queries": 1, "keys": 192}, {"mask": "causal_bottom_right"}),
        ({"queries": 100, "keys": 320}, {}),
        ({"queries": 192, "keys": 192}, {"mask": "causal"}),
        ({"queries": 192, "keys": 192}, {"mask": "window", "window": 50}),
    ],
    ids=str,
)
@pytest.mark.parametrize("deterministic", [False, True], ids=["", "deterministic"])
def test_gradients_of_very_negative_scores_are_finite(device_place, sizes, options, dtype, deterministic):
    """Softmax does not care about a constant, here about -120, and so do its gradients."""
    case = small(dtype=dtype, width=64, value_width=64, scale=0.125, **sizes, **options)
    values = attention_oracle.inputs(case)
    for array, number in ((values.q, 8), (values.k, -120)):
        array[...] = (array.astype(np.float32) / 4).astype(dtype)
        array[..., 0] = number
    call = Call(device_place, case, values=values, bias_grad=False, deterministic=deterministic)
    o, stats = call.forward()
    assert device_place.get(stats).max() < -88
    # Without the constant.
    moved = values._replace(k=values.k.copy())
    moved.k[..., 0] = 0
    other = Call(device_place, case, values=moved, bias_grad=False, deterministic=deterministic)
    found, wanted = call.backward(o, stats), other.backward(*other.forward())
    for name in ("dk", "dv"):
        one, two = (device_place.get(each[name]).astype(float) for each in (found, wanted))
        np.testing.assert_allclose(one, two, atol=0.03 * np.abs(two).max())
    dq = device_place.get(found["dq"]).astype(float)
    assert np.isfinite(dq).all()
    wanted_dq = device_place.get(wanted["dq"]).astype(float)[..., 1:]
    np.testing.assert_allclose(dq[..., 1:], wanted_dq, atol=0.03 * np.abs(wanted_dq).max())


@pytest.mark.parametrize("version", [90501, 90900, 91500])
@pytest.mark.parametrize(
    "options",
    [{}, {"mask": "causal"}, {"bias": (2, 2, 5, 7)}, {"groups": 2, "dropout": 0.3}, {"lengths": ((5, 7), (2, 3))}],
    ids=str,
)
def test_old_versions_graphs_are_right(pretend, device_place, version, options):
    """Zeroed sums, lengths, and what is hidden once more behind the statistics."""
    pretend(version)
    call = Call(device_place, small(dtype=HALF, **options))
    call.check()
    if simulated():
        o, stats = call.forward()
        more = {name: each for name, each in call.keywords.items() if name != "seed"}
        made = attention.backward.plan(*call.views("do", "q", "k", "v"), o, stats, **more)
        assert "unfused" not in made.info.algorithm


def test_what_is_hidden_is_hidden_again(pretend):
    """Behind the statistics, of rows and columns that are not there; from 9.0 to 9.9."""

    def selects(version, **options):
        pretend(version)
        (graph,) = asked(direction="backward", lengths=True, **options).graphs()
        return sum(dict(node.settings).get("mode") == "BINARY_SELECT" for node in graph.nodes)

    assert selects(90900) == selects(90000) == 2 and selects(91000) == selects(NEWEST) == 1
    assert selects(90900, mask="causal") == 3


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version, device", [(90900, "A100"), (91500, "H200"), (90900, "B200"), (91500, "A100")])
def test_old_versions_graphs_have_plans(pretend, version, device):
    """Of the version that is there: that they are graphs of cuDNN's."""
    if simulated():
        skip("not simulated")
    need_planning()
    pretend(version)
    for options in ({}, {"mask": "causal"}, {"lengths": True}, {"dropout": 0.1}):
        found = plan(device, k=(2, 8, 250, 64), direction="backward", **options)
        assert found, found.reason
