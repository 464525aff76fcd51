"""Run by test_order.py with the driver replaced by a recorder: what kernels of random numbers are launched with."""

from __future__ import annotations

import pytest
import recorder
from recorder import only, streams

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc.random import Generator


@pytest.mark.parametrize("seed", [0, 5, 2**32 + 17, 2**63 + 21, 2**64 - 1])
@pytest.mark.parametrize("offset", [0, 4, 12, 4 * (2**61 + 7)])
def test_a_launch_has_the_seed_the_first_group_and_the_address(seed, offset):
    """At the first call, and at the next by the short way; the seed's highest bit is among what stays."""
    out = numbacc.empty(64)
    for _ in range(3):
        g = Generator("philox", seed, offset)
        for start in range(3):
            log = recorder.Log()
            g.random(out=out)
            launch = only(log.named("launch"))
            assert launch.arguments == (seed % 2**63, offset // 4 + 16 * start, out._address)


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
