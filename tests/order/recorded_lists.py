"""Run by test_order.py with the driver replaced by a recorder: lists of arrays, their tables, their order."""

from __future__ import annotations

import gc
import itertools
import time

import numpy as np
import pytest
import recorder
from recorder import foreign_capture, only, settle
from threads import run_threads

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc import elementwise as ew
from numbacc.kernels.elementwise import multi_tensor_launch, multi_tensor_tables
from numbacc.runtime import foreign_owners


@pytest.fixture(autouse=True)
def no_plans():
    ew.cache_clear()
    yield
    ew.cache_clear()
    gc.collect()
    foreign_owners.collect()


def lists(count=5, stream=None):
    """p, g, m and v."""
    return [[numbacc.full(10 + k, 1.5, stream=stream) for k in range(count)] for _ in range(4)]


def freed(log):
    return {call.arguments[0] for call in log.named("free")}


def test_one_launch_and_one_table(log):
    given = lists()
    ew.adamw_step(*given, 1)
    launched = only(log.named("launch"))
    copies = log.named("copy in")
    assert len(copies) == 2, "which array a block's chunk is of, and where arrays are"
    assert all(log.before(copy, launched) for copy in copies)
    again = recorder.Log()
    for t in (2, 3):
        ew.adamw_step(*given, t)
        ew.adamw_step(*map(tuple, given), t)
    assert len(again.named("launch")) == 4
    assert not again.named("copy in", "record", "wait", "allocate", "free", "synchronize")


def test_new_gradients_are_a_new_table(log):
    p, g, m, v = lists()
    ew.adamw_step(p, g, m, v, 1)
    others = lists()[1]
    again = recorder.Log()
    ew.adamw_step(p, others, m, v, 2)
    copy, launched = only(again.named("copy in")), only(again.named("launch"))
    assert again.before(copy, launched) and not again.named("record", "wait", "synchronize")
    for each in (g, others, g):
        ew.adamw_step(p, each, m, v, 3)
    assert len(again.named("copy in")) == 1


def test_tables_are_few_and_go_with_the_plan(log, monkeypatch):
    monkeypatch.setattr(multi_tensor_tables, "MOST_TABLES", 2)
    p, g, m, v = lists()
    gradients = [g, *(lists()[1] for _ in range(4))]
    before = recorder.Log()
    for each in gradients:
        ew.adamw_step(p, each, m, v, 1)
    tables = {call.arguments[0] for call in before.named("copy in")}
    assert len(tables) == 6 and len(freed(before)) == 3 and freed(before) <= tables
    for call in before.named("free"):
        assert before.before(before.named("launch")[1], call)
    ew.cache_clear()
    gc.collect()
    assert freed(before) == tables


def test_a_table_is_of_addresses_not_of_arrays(log):
    """What lies where other arrays lay finds their table; it keeps no array alive."""
    given = lists()
    ew.adamw_step(*given, 1)
    addresses = {x._address for each in given for x in each}
    again = recorder.Log()
    ew.adamw_step(*[[x[:] for x in each] for each in given], 2)
    assert not again.named("copy in")
    del given
    gc.collect()
    assert addresses <= freed(log)


@pytest.mark.parametrize("moved", range(4))
def test_what_other_streams_queued_comes_first(log, moved):
    """Writers for all, readers for what is written; and who is next waits for the step."""
    s, t = numbacc.stream(), numbacc.stream()
    given = lists()
    ew.adamw_step(*given, 1)
    here = recorder.Log()
    given[moved][2].copy_to_device(np.ones(12, np.float32), stream=s)
    written = here.named("launch", "copy in", "fill", "copy")[-1]
    ew.adamw_step(*given, 2)
    launched = here.named("launch")[-1]
    assert launched.stream != s.handle and here.before(written, launched)
    numbacc.asnumpy(given[moved][2], stream=t)
    copied = here.named("copy out")[-1]
    assert here.before(launched, copied) == (moved != 1), "gradients are read beside it"
    with t:
        given[1][3][...] = 2.0
    assert here.before(launched, here.named("fill")[-1])


def test_a_counter_is_in_order(log):
    s = numbacc.stream()
    given, count = lists(), numbacc.zeros(1, "int64")
    ew.adamw_step(*given, count)
    here = recorder.Log()
    ew.add(count, 1, out=count, stream=s)
    ew.adamw_step(*given, count)
    ew.add(count, 1, out=count, stream=s)
    first, step, second = here.named("launch")
    assert here.before(first, step) and here.before(step, second)


def test_arrays_that_leave_a_stream_together_share_an_event(log):
    s = numbacc.stream()
    given = lists(50)
    here = recorder.Log()
    ew.adamw_step(*given, 1, stream=s)
    fills = log.named("fill")
    launched = only(here.named("launch"))
    assert len(fills) == 200 and all(log.before(call, launched) for call in fills)
    waits = [call for call in here.named("wait") if call.stream == s.handle]
    assert len(waits) == 1 and len(here.named("record")) <= 3
    # Each array's writer is waited for, be they of several streams.
    streams = [numbacc.stream() for _ in range(3)]
    for each, stream in zip(given[1], itertools.cycle(streams)):
        with stream:
            each[...] = 2.0
    fills = here.named("fill")
    ew.adamw_step(*given, 2, stream=s)
    last = here.named("launch")[-1]
    assert all(here.before(call, last) for call in fills)


def test_arrays_on_other_streams_are_freed_behind_the_step(log):
    s = numbacc.stream()
    given = lists(stream=s)
    with s:
        ew.adamw_step(*given, 1)
    ew.adamw_step(*given, 2)
    launched = log.named("launch")
    addresses = {x._address for each in given for x in each}
    del given
    gc.collect()
    settle()
    for call in log.named("free"):
        if call.arguments[0] in addresses:
            addresses.discard(call.arguments[0])
            assert all(log.before(each, call) for each in launched)
    assert not addresses


def test_each_stream_has_tables_of_its_own(log):
    """So that none waits for another's, and what a stream has written it frees."""
    s = numbacc.stream()
    given = lists()
    for stream in (None, s, None, s):
        ew.adamw_step(*given, 1, stream=stream)
    copies = log.named("copy in")
    assert len(copies) == 4 and sum(call.stream == s.handle for call in copies) == 2
    ew.cache_clear()
    gc.collect()
    where = {call.arguments[0]: call.stream for call in copies}
    for call in log.named("free"):
        if call.arguments[0] in where:
            assert call.stream == where.pop(call.arguments[0])
    assert not where


def test_overlap_is_looked_for_wherever_arrays_lie(log):
    _, g, m, v = lists(2)
    base = numbacc.full(64, 1.5)
    for _ in range(2):
        with pytest.raises(numbacc.LayoutError, match="overlaps"):
            ew.adamw_step([base[:10], base[9:20]], g, m, v, 1)
        ew.adamw_step([base[:10], base[10:21]], g, m, v, 1)
    assert len(log.named("launch")) == 2


def test_a_launch_that_fails_is_told(monkeypatch):
    given = lists()
    ew.adamw_step(*given, 1)
    (plan,) = ew.optimizers.plans.known.values()
    monkeypatch.setattr(plan._lists.last, "launch", lambda *words: 700)
    monkeypatch.setattr(multi_tensor_launch.LaunchExecutable, "launch_unchecked", lambda *words: 700)
    with pytest.raises(numbacc.LibraryError):
        ew.adamw_step(*given, 2)


def test_another_threads_use_meanwhile_is_noted(log, monkeypatch):
    """The short way looks at arrays before and behind the launch."""
    s, given = numbacc.stream(), lists()
    ew.adamw_step(*given, 1)
    (plan,) = ew.optimizers.plans.known.values()
    launch = plan._lists.last.launch

    def meanwhile(*words):
        numbacc.asnumpy(given[1][0], stream=s)
        given[0][0].copy_to_device(np.ones(10, np.float32), stream=s)
        return launch(*words)

    monkeypatch.setattr(plan._lists.last, "launch", meanwhile)
    ew.adamw_step(*given, 2)
    launched = log.named("launch")[-1]
    with s:
        given[0][0][...] = 1.0
        given[1][0][...] = 1.0
    assert all(log.before(launched, call) for call in log.named("fill")[-2:])


def test_eight_threads_share_a_plan(log):
    rounds = 20

    def work(k):
        given = lists()
        stream = numbacc.stream() if k % 2 else None
        for t in range(1, rounds + 1):
            ew.adamw_step(*given, t, stream=stream)

    run_threads(work)
    assert len(log.named("launch")) == 8 * rounds
    assert not log.named("free of what is not allocated")


def test_threads_that_hand_arrays_to_each_other(log):
    """Each step comes behind the one before, on whatever stream: arrays leave together while others use them."""
    given, streams = lists(20), [numbacc.stream() for _ in range(4)]

    def work(k):
        for t in range(1, 10):
            ew.adamw_step(*given, t, stream=streams[k])
            time.sleep(0)

    run_threads(work, 4)
    launched = log.named("launch")
    assert len(launched) == 36
    assert not log.named("free of what is not allocated")


# ---------------------------------------------------------------- graphs


def test_a_graph_has_its_own_tables(log):
    """Written beside the capture, once; they live as long as the graph, and no longer."""
    given, count = lists(), numbacc.zeros(1, "int64")
    ew.adamw_step(*given, count)
    inside = recorder.Log()
    with numbacc.graph() as g:
        ew.adamw_step(*given, count)
    copies = inside.named("copy in")
    assert len(copies) == 2 and not any(call.graph for call in copies)
    assert only(inside.named("launch")).graph
    tables = {call.arguments[0] for call in copies}
    ew.cache_clear()
    addresses = {x._address for each in given for x in each}
    del given
    gc.collect()
    for _ in range(3):
        g.launch()
    launches = inside.named("launch graph")
    assert all(inside.before(copy, launch) for copy in copies for launch in launches)
    assert not (tables | addresses) & freed(inside)
    del g
    gc.collect()
    settle()
    assert tables | addresses <= freed(inside)
    for call in inside.named("free"):
        if call.arguments[0] in tables:
            assert inside.before(launches[-1], call)


def test_a_graph_of_others_has_its_tables_when_the_capture_ends(log):
    """Nobody waits at its launches: the host has waited."""
    s = numbacc.stream()
    given = lists(stream=s)
    inside = recorder.Log()
    with foreign_capture(s) as graph:
        ew.adamw_step(*given, 1, stream=s)
    copies, waited = inside.named("copy in"), inside.named("synchronize")
    assert len(copies) == 2 and not any(call.graph for call in copies)
    assert waited and all(call.stream == waited[-1].stream for call in copies)
    tables = {call.arguments[0] for call in copies}
    del given
    gc.collect()
    numbacc.empty(3)
    assert not tables & freed(inside)
    graph["destroy"]()
    foreign_owners.collect()
    gc.collect()
    numbacc.empty(3)
    assert tables <= freed(inside)


def test_arrays_of_a_stream_that_others_capture_stay_there(log):
    """What was queued on them before cannot be waited for now; afterwards it is."""
    s = numbacc.stream()
    given = lists(stream=s)
    fills = log.named("fill")
    with foreign_capture(s) as graph, pytest.raises(numbacc.UnsupportedError, match="captured"):
        ew.adamw_step(*given, 1)
    graph["destroy"]()
    assert {x._storage.sole for each in given for x in each} == {s.handle} and not log.named("launch")
    ew.adamw_step(*given, 1)
    assert all(log.before(fill, only(log.named("launch"))) for fill in fills)


def test_gradients_that_a_graph_makes(log):
    """Arrays made inside, with a step on them."""
    p, g, m, v = lists()
    with numbacc.graph() as graph:
        made = [ew.multiply(x, 2.0) for x in g]
        ew.adamw_step(p, made, m, v, 1)
    graph.launch()
    graph.launch()
    numbacc.asnumpy(p[0])
    assert log.before(log.named("launch graph")[-1], log.named("copy out")[-1])
    del graph, made
    gc.collect()
    settle()
    assert not log.named("free of what is not allocated")
