"""Run by test_order.py with the driver replaced by a recorder: what kernels of random numbers are launched with."""

from __future__ import annotations

import pytest
import recorder
from recorder import only, streams

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc.device import launch
from numbacc.device.operation import Operation
from numbacc.random import Generator


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


def test_a_captured_draw_is_launched_into_the_graph():
    stream = numbacc.stream()
    out = numbacc.empty(64, "float64", stream=stream)
    g = Generator("philox", 1)
    g.normal(out=out, stream=stream)
    log = recorder.Log()
    with numbacc.graph(stream):
        g.normal(out=out)
    assert only(log.named("launch")).graph
    assert g.state.position == 2 * 524288
