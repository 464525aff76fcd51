"""Run by test_order.py with the driver replaced by a recorder: what kernels of random numbers are launched with."""

from __future__ import annotations

import gc
import itertools
import threading

import pytest
import recorder
from recorder import only, streams

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc.random import Generator
from numbacc.runtime import foreign_owners, launch
from numbacc.runtime.operation import Operation


@pytest.mark.parametrize("seed", [0, 5, 2**32 + 17, 2**63 + 21, 2**64 - 1])
@pytest.mark.parametrize("offset", [0, 4, 12, 4 * (2**61 + 7)])
def test_a_launch_has_the_seed_the_first_group_and_the_address(seed, offset):
    """At the first call, and at the next by the short way."""
    out = numbacc.empty(64)
    for _ in range(3):
        g = Generator("philox", seed, offset)
        for start in range(3):
            log = recorder.Log()
            g.random(out=out)
            last = only(log.named("launch"))
            assert last.arguments == (out._address, seed, offset // 4 + 16 * start)


def test_one_kernel_is_loaded_for_each_place_in_a_group(monkeypatch):
    """Whatever the seed, and wherever in the sequence: a draw begins with one of a group's four words."""
    loaded = []
    monkeypatch.setattr(launch, "load_function", lambda spec, device: loaded.append(spec) or 4096)
    numbacc.random.cache_clear()
    out = numbacc.empty(64)
    for seed in (0, 1, 2**63, 2**64 - 1):
        for offset in range(0, 4 * 16, 3):
            Generator("philox", seed, offset).random(out=out)
    assert len(loaded) == 4
    loaded.clear()
    for number in range(64):
        Generator("philox", number, 16 * number).random(out=out)
    assert not loaded


def test_arrays_of_any_alignment_take_the_short_way(monkeypatch):
    whole, g = numbacc.empty(70), Generator("philox", 1)
    outs = [whole[k : k + 64] for k in range(4)]
    for out in outs:
        g.random(out=out)
    monkeypatch.setattr(Operation, "_queue", None)
    log = recorder.Log()
    for out in outs:
        g.random(out=out)
    assert [call.arguments[0] for call in log.named("launch")] == [out._address for out in outs]


def test_a_draw_into_memory_of_another_stream_waits():
    one, other = streams(2)
    out = numbacc.empty(64, stream=one)
    g = Generator("philox", 1)
    g.random(out=out, stream=one)
    log = recorder.Log()
    g.random(out=out, stream=other)
    last = only(log.named("launch"))
    assert last.stream == other.handle and len(log.named("wait")) == 1
    log = recorder.Log()
    g.random(out=out, stream=other)
    assert [call.name for call in log.calls] == ["launch"]


def test_captured_draws_move_the_position_first(log):
    """Two launches for each draw, and none of the position's own memory in the graph."""
    stream = numbacc.stream()
    out = numbacc.empty(64, "float64", stream=stream)
    g = Generator("philox", 1, 8)
    g.normal(out=out, stream=stream)
    log = recorder.Log()
    with numbacc.graph(stream) as graph:
        for _ in range(2):
            g.normal(out=out)
    (position,) = (call.arguments[0] for call in log.named("allocate"))
    launched = log.named("launch")
    assert all(call.graph and call.stream == stream.handle for call in launched)
    assert [call.arguments[0] for call in launched] == [position, out._address] * 2
    assert [call.arguments[1] for call in launched[1::2]] == [position] * 2
    (written,) = log.named("copy in")
    assert not written.graph and written.arguments[0] == position
    for stream in streams(2):
        graph.launch(stream)
    first, second = log.named("launch graph")
    assert log.before(written, first) and log.before(first, second)
    address = out._address
    del g, out
    gc.collect()
    assert not {position, address} & freed(log)
    del graph
    gc.collect()
    recorder.settle()
    assert {position, address} <= freed(log)


def test_draws_and_launches_come_one_after_the_other(log):
    """On any streams, in the order of the calls, as do states."""
    one, other, third = streams(3)
    g = Generator("philox", 1)
    with numbacc.graph() as graph:
        x = g.random(8)
    y = numbacc.empty(8, stream=other)
    log = recorder.Log()
    graph.launch(one)
    g.random(out=y, stream=other)
    graph.launch(third)
    g.state = g.state
    graph.launch(other)
    drawn = log.named("launch")
    graphs = log.named("launch graph")
    (read,), (written,) = log.named("copy out"), log.named("copy in")
    in_order = [graphs[0], *drawn, graphs[1], read, written, graphs[2]]
    assert len(drawn) == 2 and len(in_order) == 7 and x.shape == (8,)
    for before, after in itertools.pairwise(in_order):
        assert log.before(before, after), (before, after)


def test_a_draw_on_one_stream_records_nothing_once_the_position_is_there(log):
    stream = numbacc.stream()
    g = Generator("philox", 1)
    out = numbacc.empty(8, stream=stream)
    with numbacc.graph(stream):
        g.random(out=out)
    g.random(out=out, stream=stream)
    log = recorder.Log()
    for _ in range(3):
        g.random(out=out, stream=stream)
    assert [call.name for call in log.calls] == ["launch"] * 6


def test_graphs_of_others_find_the_position_written(log):
    """Nobody waits for what is queued on numbacc's streams when they launch."""
    stream = numbacc.stream()
    g = Generator("philox", 1)
    with recorder.foreign_capture(stream) as graph:
        x = g.random(8, stream=stream)
        with pytest.raises(numbacc.UnsupportedError, match="pass size"):
            g.random(stream=stream)
    (written,), (waited,) = log.named("copy in"), log.named("synchronize")
    assert written.number < waited.number and written.stream == waited.stream != stream.handle
    assert len(log.named("launch")) == 2 and all(call.graph for call in log.named("launch"))
    position = log.named("launch")[0].arguments[0]
    del g, x
    gc.collect()
    assert position not in freed(log)
    graph["destroy"]()
    foreign_owners.collect()
    gc.collect()
    numbacc.empty(3)
    assert position in freed(log)


def test_a_generator_is_moved_once(log):
    stream = numbacc.stream()
    g = Generator("philox", 1)
    for _ in range(3):
        with numbacc.graph(stream):
            g.random(8)
    assert len(log.named("copy in")) == 1
    assert len({call.arguments[0] for call in log.named("launch")[::2]}) == 1


def test_launches_hold_what_draws_hold(log):
    """While one thread draws, another's launch waits: else neither would wait for the other's work on the GPU."""
    a, b = Generator("philox", 1), Generator("philox", 2)
    with numbacc.graph() as inner:
        a.random(8)
        b.random(8)
    with numbacc.graph() as outer:
        inner.launch()
    for graph in (inner, outer):
        for held in (a, b):
            log = recorder.Log()
            thread = threading.Thread(target=graph.launch)
            with held._lock:
                thread.start()
                thread.join(0.2)
                assert thread.is_alive() and not log.named("launch graph")
            thread.join()
            assert len(log.named("launch graph")) == 1


def freed(log):
    return {call.arguments[0] for call in log.named("free")}
