"""Run by test_order.py with the driver replaced by a recorder: operands of several dtypes, with a scalar."""

from __future__ import annotations

import copy
import gc
import pickle

import mixed
import numpy as np
import pytest
import recorder
from mixed import DTYPES, SHAPE, hosts, put, run
from recorder import TheirArray, TheirStream, only, settle, streams, work
from threads import run_threads

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc.base.dtypes import words
from numbacc.runtime import launch


def made(**where):
    """(plan, arrays, out)."""
    arrays, out = put(hosts(), **where), numbacc.empty(SHAPE, "float16", **where)
    return mixed.plan(arrays, out), arrays, out


def scalar_of(call):
    """The last argument of a launch."""
    return call.arguments[-1]


def bits(scale):
    return words(scale, "float32")[0] % 2**64


@pytest.mark.parametrize("late", range(3))
def test_each_operand_is_waited_for(log, late):
    plan, arrays, out = made()
    (s,) = streams(1)
    with s:
        arrays[late][...] = hosts(1)[late]
    run(plan, arrays, out, 2.5)
    *_, written, launched = log.named("copy in", "launch")
    assert written.stream == s.handle != launched.stream
    assert log.before(written, launched)
    assert scalar_of(launched) == bits(2.5)


@pytest.mark.parametrize("late", range(3))
def test_others_arrays_are_waited_for_each_on_its_stream(log, late):
    plan, arrays, out = made()
    theirs = [TheirStream() for _ in arrays]
    written = work(theirs[late], arrays[late])
    given = [TheirArray(a, s.handle) for a, s in zip(arrays, theirs, strict=True)]
    run(plan, given, out, 1.0)
    assert log.before(written, only(log.named("launch")))


def test_a_graph_holds_the_scalar_and_keeps_the_arrays(log):
    plan, arrays, out = made()
    addresses = {a._address for a in (*arrays, out)}
    run(plan, arrays, out, 1.0)
    with numbacc.graph() as g:
        run(plan, arrays, out, -0.0)
    run(plan, arrays, out, 0.0)
    first, captured, last = log.named("launch")
    assert (first.graph, last.graph) == (0, 0) and captured.graph
    assert [scalar_of(each) for each in (first, captured, last)] == [bits(v) for v in (1.0, -0.0, 0.0)]
    del arrays, out, plan
    gc.collect()
    g.launch()
    assert not addresses & {call.arguments[0] for call in log.named("free")}
    del g
    gc.collect()
    settle()
    assert addresses <= {call.arguments[0] for call in log.named("free")}


@pytest.mark.parametrize("moved", range(4))
def test_a_new_alignment_compiles_nothing_inside_a_capture(log, monkeypatch, moved):
    loaded = []

    def load(spec, device):
        loaded.append(spec)
        launch._loaded.add((spec, device))
        return 4096

    monkeypatch.setattr(launch, "load_function", load)
    monkeypatch.setattr(launch, "_loaded", set())
    plan, arrays, out = made()
    run(plan, arrays, out, 1.0)
    before = list(loaded)
    kinds = (*DTYPES, "float16")
    *others, target = (mixed.moved(SHAPE, dtype, k == moved) for k, dtype in enumerate(kinds))
    with numbacc.graph():
        run(plan, others, target, 2.5)
    assert set(loaded) == set(before)
    assert scalar_of(log.named("launch")[-1]) == bits(2.5)


def test_threads_bring_scalars_of_their_own(busy_collector):
    plan, shared, _ = made()
    log, held = recorder.Log(), streams(8)

    def each(k):
        out = numbacc.empty(SHAPE, "float16", stream=held[k])
        for _ in range(50):
            run(plan, shared, out, float(k), held[k])

    run_threads(each)
    for k, s in enumerate(held):
        own = [call for call in log.named("launch") if call.stream == s.handle]
        assert [scalar_of(call) for call in own] == [bits(float(k))] * 50


def test_the_other_gpu(log):
    plan, arrays, out = made(device=1)
    assert plan.device == 1
    run(plan, arrays, out, 1.0)
    assert scalar_of(only(log.named("launch"))) == bits(1.0)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_plan_is_not_copied(way):
    with pytest.raises(numbacc.DTypeError, match="share"):
        way(made()[0])


def test_what_it_computes_in():
    info = made()[0].info
    assert (info.math_dtype, info.dtypes) == ("float32", (*DTYPES, "float16"))


def test_numpy_takes_the_scalar():
    arrays, out = hosts(), np.full(SHAPE, np.nan, np.float16)
    plan = mixed.plan(arrays, out)
    assert plan.run(arrays, [out], out, 0, (2.5,)) is out
    np.testing.assert_array_equal(out, mixed.expected(arrays, 2.5))
