"""Run by test_order.py with a recorder as driver: the waits, the memory and the frees of compiled steps."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import recorder
from recorder import TheirArray, TheirStream, array, only, settle, streams, work

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc import gated
from numbacc.runtime import captures


@pytest.fixture
def step():
    made = numbacc.compiled(lambda x: gated.forward(x))
    yield made
    made.cache_clear()
    gc.collect()
    assert not captures._captures


def test_arguments_are_copied_between_their_producer_and_the_launch(log, step):
    s, t, u = streams(3)
    for _ in range(3):
        x = array(s)
        with s:
            x[...] = 2.0
        with t:
            y = step(x)
    filled, launched = log.named("fill")[-1], log.named("launch graph")[-1]
    copied = [call for call in log.named("launch") if log.before(filled, call) and log.before(call, launched)]
    assert copied and all(call.stream == t.handle for call in copied)
    with s:
        x[...] = 3.0  # the copy may still read it
    assert any(log.before(call, log.named("fill")[-1]) for call in copied)
    numbacc.asnumpy(y, stream=u)
    assert log.before(launched, log.named("copy out")[-1])


def test_results_are_copied_before_the_next_launch(log, step):
    s, t = streams(2)
    x = array()
    for stream in (s, s, s, t):
        with stream:
            step(x)
    first, second = log.named("launch graph")[-2:]
    copy_out = only([call for call in log.named("copy") if first.number < call.number < second.number])
    assert log.before(first, copy_out) and log.before(copy_out, second)


def test_an_argument_that_stays_is_not_copied(log, step):
    x = array()
    for _ in range(5):
        step(x)
    launched = log.named("launch graph")
    between = [call for call in log.calls if launched[0].number < call.number < launched[-1].number]
    assert (
        len(launched) == 4
        and [call.name for call in between if call.name in ("launch", "copy", "fill")] == ["copy"] * 3
    )


def test_host_arguments_are_copied_into_the_graphs_input(log, step):
    hosts = [np.full((4, 8), k, np.float32) for k in range(5)]
    for host in hosts:
        step(host)
    targets = [call.arguments[0] for call in log.named("copy in")]
    assert len(targets) == 6 and len(set(targets[-4:])) == 1  # one plain call; at the recording twice


def test_arguments_of_another_library_are_in_its_order(log, step):
    theirs = TheirStream()
    memories = [array() for _ in range(3)]
    written = []
    for memory in memories:
        given = TheirArray(memory, theirs.handle)
        written.append(work(theirs, memory))
        step(given)
    launched = log.named("launch graph")[-1]
    assert log.before(written[-1], launched)
    later = work(theirs, memories[-1])
    copied = [call for call in log.named("launch") if log.before(written[-1], call) and log.before(call, launched)]
    assert copied and any(log.before(call, later) for call in copied)


def test_a_second_gpu(log, step):
    x = array(device=1)
    for _ in range(3):
        assert step(x).device == 1
        x = array(device=1)
    assert step.cache_info().currsize == 1
    step(array(device=0)), step(array(device=0))
    assert step.cache_info().currsize == 2
    there = numbacc.compiled(lambda x: gated.forward(x), device=1)
    assert [there(np.ones((4, 8), np.float32)).device for _ in range(3)] == [1, 1, 1]
    made = []
    making = numbacc.compiled(lambda x: (made.append(numbacc.empty(3)), gated.forward(x))[1])
    for _ in range(2):  # plain, then recorded
        making(x)
    assert [each.device for each in made] == [1, 1]


def test_memory_is_freed_with_the_graph(log, step):
    used = recorder.FAKE.fake_used()
    for k in range(5):
        step(np.full((1000, 8), k, np.float32))
    assert recorder.FAKE.fake_used() > used
    step.cache_clear()
    gc.collect()
    settle()
    assert recorder.FAKE.fake_used() <= used and not log.named("free of what is not allocated")
