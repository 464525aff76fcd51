"""Few queries on many keys: keys in parts, and what joins them."""

from __future__ import annotations

import numpy as np
import pytest
from attention_call import Call, small
from attention_oracle import BFLOAT16, HALF, inputs
from requested import requested
from skips import skip_if

from numbacc import attention
from numbacc.attention import splitting
from numbacc.attention.splitting import Cut, cut_of
from numbacc.base.dispatch import graph_library, runtime, simulated

pytestmark = pytest.mark.usefixtures("poison")


@pytest.fixture
def cut(monkeypatch, device_place):
    """Cut keys of small attention, too: into parts of 64 keys at least."""
    attention.cache_clear()
    monkeypatch.setattr(splitting, "_SHORTEST", 64)
    monkeypatch.setattr(splitting, "_WORTH", 1e9)
    yield device_place
    attention.cache_clear()


def few(**more):
    """Attention of 3 queries to 203 keys: 67, 67 and 69, or 64 in each of 3 parts and a rest of 11, if causal."""
    return small(**{"queries": 3, "keys": 203, "dtype": HALF, **more})


CASES = {
    "plain": {},
    "bfloat16": {"dtype": BFLOAT16},
    "no rest": {"keys": 192},
    "parts of odd lengths": {"keys": 201},
    "parts of any length, with a bias": {"keys": 208, "bias": (2, 2, 3, 208)},
    "one sequence, a head": {"batch": 1, "heads": 1},
    "shared heads": {"groups": 2, "heads": 1},
    "wide values": {"value_width": 24, "width": 16},
    "odd widths": {"value_width": 5, "width": 7},
    "bias": {"bias": (2, 2, 3, 203)},
    "bias of a sequence": {"bias": (1, 1, 3, 203)},
    "bias of keys": {"bias": (2, 1, 1, 203)},
    "bias of queries": {"bias": (1, 2, 3, 1)},
    "causal": {"mask": "causal_bottom_right"},
    "causal, a rest of more": {"mask": "causal_bottom_right", "queries": 70, "keys": 264},
    "causal, with a bias": {"mask": "causal_bottom_right", "bias": (2, 2, 3, 203)},
    "more parts than are read at once": {"keys": 523},
    "bias of heads": {"bias": (1, 2, 3, 203)},
    "one head of keys": {"groups": 4, "heads": 1},
    "a scale below 0": {"scale": -0.5},
    "a scale of 0": {"scale": 0.0},
}


@pytest.mark.parametrize("layout", ["BHSD", "BSHD"])
@pytest.mark.parametrize("name", CASES)
def test_parts_give_what_all_keys_give(cut, name, layout):
    call = Call(cut, few(**CASES[name]), layout)
    plan = attention.forward.plan(*call.views("q", "k", "v"), **call.keywords)
    assert "parts of the keys" in plan.info.algorithm and plan.info.backend.endswith("+kernel")
    call.check()


def test_results_anywhere(cut):
    """Written by the kernel that joins, so that none is copied."""
    layouts = {"out": {"order": (3, 1, 0, 2), "margins": ((1, 0), (0, 1), (2, 1), (1, 2))}}
    Call(cut, few(), layouts=layouts).check()
    Call(cut, few(), layouts={name: {"margins": ((0, 0), (0, 0), (0, 0), (1, 0))} for name in ("q", "k", "v")}).check()


@pytest.mark.parametrize("hidden", [(0, 64), (64, 192), (192, 203), (3, 203), (0, 203)], ids=str)
def test_parts_without_a_key(cut, hidden):
    """A bias of -inf hides whole parts, or all keys of a row."""
    case = few(bias=(2, 2, 3, 203))
    values = inputs(case)
    values.bias[:, :, 1, slice(*hidden)] = -np.inf
    Call(cut, case, values=values, bias_grad=False).check()


def test_not_a_number(cut):
    """A NaN in a part reaches the queries that see it."""
    case = few()
    values = inputs(case)
    values.q[0, 0, 1] = np.nan
    values.v[1, :, 70, 3] = np.nan
    o, stats = attention.forward(*(cut.put(getattr(values, name)) for name in ("q", "k", "v")), return_stats=True)
    o, stats = cut.get(o), cut.get(stats)
    wanted = np.zeros(o.shape, bool)
    wanted[0, 0, 1], wanted[1, ..., 3] = True, True
    np.testing.assert_array_equal(np.isnan(o), wanted)
    assert np.isnan(stats[0, 0, 1]) and np.isnan(stats).sum() == 1


def test_very_different_parts(cut):
    """Scores of the parts differ by more than a float holds of exponentials."""
    case = few(width=8)
    values = inputs(case)
    values.k[:, :, 64:128] += 60
    values.q[...] = np.abs(values.q) + 1
    o, stats = attention.forward(
        *(cut.put(getattr(values, name)) for name in ("q", "k", "v")), scale=1.0, return_stats=True
    )
    q, k, v = (getattr(values, name).astype(np.float64) for name in ("q", "k", "v"))
    scores = np.einsum("bhid,bhjd->bhij", q, k)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(cut.get(stats), (top + np.log(total))[..., 0], rtol=1e-5)
    np.testing.assert_allclose(cut.get(o).astype(np.float64), weights / total @ v, atol=4e-3)


def test_prepare_plans_the_parts(cut, monkeypatch):
    library, seen = graph_library(), []
    choose = library.choose
    monkeypatch.setattr(library, "choose", lambda graph, *more: seen.append(graph) or choose(graph, *more))
    q, k = (cut.put(np.zeros((1, 2, n, 16), HALF)) for n in (3, 203))
    for mask, count in (("causal_bottom_right", 2), (None, 1)):
        seen.clear()
        attention.prepare(attention.forward.request((1, 2, 3, 16), (1, 2, 203, 16), dtype="float16", mask=mask))
        prepared = seen[:]
        seen.clear()
        attention.forward(q, k, k, mask=mask)
        assert len(seen) == count and set(seen) == set(prepared)


@skip_if(not simulated(), "simulator")
def test_other_gpus_and_versions_cut_nothing(monkeypatch):
    """Queries that a batch shares were right where they were tried."""
    asked = problem((1, 8, 128, 128), (1, 8, 16384, 128))
    assert splitting.cut_on(asked, 0)
    for version, capability in ((91801, (9, 0)), (92800, (8, 0)), (92800, (10, 0))):
        monkeypatch.setattr(graph_library(), "version", lambda version=version: version)
        monkeypatch.setattr(runtime(), "capability", lambda device, capability=capability: capability)
        assert splitting.cut_on(asked, 0) is None


def problem(q, k, *, dtype="float16", **options):
    return requested(attention, q, k, dtype=dtype, **options).problem


def test_which_calls_cut_keys():
    long = (1, 8, 16384, 128)
    assert cut_of(problem((1, 8, 128, 128), long), 132) == Cut(16, 1024, 0)
    assert cut_of(problem((1, 32, 128, 128), (1, 32, 16384, 128)), 132) == Cut(4, 4096, 0)
    assert cut_of(problem((1, 8, 128, 128), (1, 2, 16383, 128)), 132) == Cut(15, 1023, 1038, at_once=True)
    found = cut_of(problem((1, 8, 128, 128), long, mask="causal_bottom_right"), 132)
    assert found.rest >= 128 and found.full * found.keys + found.rest == 16384
    # Sequences whose heads are evenly apart in memory are heads of one.
    two = ((2, 4, 128, 64), (2, 4, 8192, 64))
    assert cut_of(problem(*two), 132) == Cut(16, 512, 0, together=True)
    assert not cut_of(problem(*((n, s, h, d) for n, h, s, d in two), layout="BSHD"), 132).together
    assert cut_of(problem(*two, bias_shape=(2, 4, 128, 8192)), 132).together
    assert not cut_of(problem(*two, bias_shape=(1, 4, 128, 8192)), 132).together
    # Parts of any length, if no keys remain; a bias starts at multiples of 16 bytes.
    odd = ((1, 32, 64, 128), (1, 8, 5000, 128))
    assert cut_of(problem(*odd), 132) == Cut(4, 1250, 0)
    assert cut_of(problem(*odd, bias_shape=(1, 32, 64, 5000)), 132) == Cut(3, 1248, 1256, at_once=True)
    assert cut_of(problem((1, 8, 128, 128), (1, 8, 1024, 128)), 132) == Cut(4, 256, 0)
    # Keys that heads share are read once.
    assert cut_of(problem((1, 32, 128, 128), (1, 8, 4096, 128)), 132) == Cut(4, 1024, 0)
    for q, k, options in (
        ((1, 64, 256, 128), (1, 64, 16384, 128), {}),  # multiprocessors are busy
        ((1, 64, 128, 128), (1, 64, 16384, 128), {}),  # memory is
        ((1, 8, 128, 128), (1, 8, 512, 128), {}),  # few keys
        ((32, 8, 128, 128), (32, 8, 16384, 128), {}),  # a launch for each sequence
        ((1, 8, 1, 128), long, {}),
        ((1, 8, 128, 128), long, {"mask": "causal"}),
        ((1, 8, 128, 128), long, {"mask": attention.SlidingWindow(64)}),
        ((1, 8, 128, 128), long, {"dropout": 0.5}),
        ((1, 8, 128, 128), long, {"lengths": True}),
        ((1, 8, 128, 128), long, {"alibi": True}),
        ((1, 8, 128, 128), long, {"direction": "backward"}),
        ((1, 8, 128, 128), long, {"dtype": "float8_e4m3fn"}),
        ((128, 8, 128), (16384, 8, 128), {"layout": "THD", "batch": 1}),
    ):
        assert cut_of(problem(q, k, **options), 132) is None, (q, k, options)


@skip_if(simulated(), "slow")
@pytest.mark.parametrize("keys", [9000, 8192])
@pytest.mark.parametrize("options", [{}, {"mask": "causal_bottom_right"}, {"bias": True}, {"groups": 2}], ids=str)
def test_on_a_gpu_as_they_are(device_place, options, keys):
    more = {"bias": (1, 4, 100, keys)} if "bias" in options else options
    case = small(batch=2, heads=4, queries=100, keys=keys, width=64, value_width=64, dtype=HALF, **more)
    call = Call(device_place, case)
    plan = attention.forward.plan(*call.views("q", "k", "v"), **call.keywords)
    assert "parts of the keys" in plan.info.algorithm
    call.check(gradients=False)
