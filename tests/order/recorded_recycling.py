"""Run by test_order.py with the driver replaced by a recorder: small blocks that the next allocation gets."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import recorder
from recorder import FAKE, Consumer, array, streams, work
from threads import run_threads

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc import gated
from numbacc.runtime import memory


@pytest.fixture
def recycles():
    return True


@pytest.fixture(autouse=True)
def known():
    """Sizes are kept once they were asked for in a context."""
    for _ in range(2):
        numbacc.empty((4, 8))
        numbacc.empty((4, 4))
    for nbytes in (128, 64):
        assert len(memory._kept_blocks[0][nbytes]) == 1
    yield


def test_the_next_array_of_a_size_gets_the_block(log):
    x = numbacc.empty((4, 8))
    address = x._address
    del x
    assert numbacc.empty((8, 4))._address == address
    assert not log.named("allocate", "free")


def test_results_use_blocks_behind_the_work_that_used_them(log):
    """All of it is queued on one stream."""
    x = array()
    for _ in range(3):
        gated.forward(x)
    launches = log.named("launch")
    assert len(launches) == 3 and not log.named("allocate", "free", "wait", "record")
    assert log.before(launches[0], launches[1]) and log.before(launches[1], launches[2])


def test_blocks_of_other_streams_are_freed(log):
    (s,) = streams(1)
    x = numbacc.empty((4, 8), stream=s)
    address = x._address
    del x
    assert address in [call.arguments[0] for call in log.named("free")]
    assert numbacc.empty((4, 8), stream=s)._address not in memory._kept_blocks[0][128]


def test_a_block_that_two_streams_used_is_freed_behind_both(log):
    (s,) = streams(1)
    x = array()
    address = x._address
    gated.forward(x, stream=s)
    used = log.named("launch")[-1]
    del x
    gc.collect()
    (freed,) = (call for call in log.named("free") if call.arguments[0] == address)
    assert log.before(used, freed)


def test_what_a_consumer_holds_is_kept_when_it_lets_go(log):
    x = array()
    address = x._address
    held = Consumer(x, 0)
    del x
    gc.collect()
    assert address not in memory._kept_blocks[0][128]
    held.drop()
    numbacc.empty(3)
    assert address in memory._kept_blocks[0][128] and not log.named("free")


def test_what_a_consumer_uses_on_its_own_stream_is_freed_behind_that(log):
    theirs = numbacc.stream()
    x = array()
    address = x._address
    held = Consumer(x, theirs.handle)
    used = work(theirs, x)
    del x
    held.drop()
    numbacc.empty(3)
    (freed,) = (call for call in log.named("free") if call.arguments[0] == address)
    assert log.before(used, freed)


def test_captures_take_no_blocks(log):
    """A graph's memory is its own: it is used when the graph is launched."""
    kept = list(memory._kept_blocks[0][128])
    assert kept
    with numbacc.graph() as g:
        y = numbacc.empty((4, 8))
    assert y._address not in kept and memory._kept_blocks[0][128] == kept
    del y, g


def test_what_a_graph_uses_is_not_given_away(log):
    x = array()
    address = x._address
    with numbacc.graph() as g:
        gated.forward(x)
    del x
    gc.collect()
    assert address not in memory._kept_blocks[0][128]
    made = [numbacc.empty((4, 8)) for _ in range(6)]
    assert address not in [each._address for each in made]
    g.launch()


def test_beside_a_capture_of_others_the_driver_decides(log):
    """It refuses the default stream there, as it does without blocks."""
    theirs = recorder.TheirStream()
    with recorder.foreign_capture(theirs) as graph, pytest.raises(numbacc.UnsupportedError, match="legacy default"):
        numbacc.empty((4, 8))
    graph["destroy"]()


def test_releasing_memory_frees_the_blocks(log):
    kept = {address for blocks in memory._kept_blocks[0].values() for address in blocks}
    assert kept
    numbacc.release_memory()
    assert kept <= {call.arguments[0] for call in log.named("free")}
    assert not memory.kept_bytes(0)


def test_blocks_make_way_where_memory_is_short(log):
    kept = {address for blocks in memory._kept_blocks[0].values() for address in blocks}
    FAKE.fake_limit(1)
    try:
        with pytest.raises(numbacc.DeviceError, match="out of memory"):
            numbacc.empty(1 << 20)
    finally:
        FAKE.fake_limit(2**63)
    assert kept <= {call.arguments[0] for call in log.named("free")}


def test_few_blocks_of_few_sizes_are_kept():
    made = [numbacc.empty((4, 8)) for _ in range(3 * memory.KEPT_BLOCKS)]
    made.clear()
    assert len(memory._kept_blocks[0][128]) == memory.KEPT_BLOCKS
    for n in range(1, 3 * memory.KEPT_SIZES):
        numbacc.empty(n, "uint8")
        assert len(memory._kept_blocks.get(0, ())) <= memory.KEPT_SIZES
    # Sizes that are asked for no more make way.
    addresses = [numbacc.empty(1000, "uint8")._address for _ in range(4)]
    assert addresses[2] == addresses[3]
    large = numbacc.empty(memory.KEPT_BYTES + 1, "uint8")
    nbytes = large.nbytes
    del large
    assert nbytes not in memory._kept_blocks.get(0, ())
    assert memory.kept_bytes(0) <= memory.KEPT_SIZES * memory.KEPT_BLOCKS * memory.KEPT_BYTES


def test_what_is_kept_while_sizes_are_given_up_is_not_lost(monkeypatch):
    """Another thread gives them up between two steps of `keep`."""

    class Racing(list):
        def append(self, address):
            super().append(address)
            drained.extend(memory.kept_given_up(0) if drains else [])
            if not drains:
                memory._kept_blocks.pop(0)

    for drains in (False, True):
        drained, blocks = [], Racing()
        memory._kept_blocks[0] = {128: blocks}
        assert memory.keep_block(0, 128, 4096) == drains
        assert drained == ([(128, 4096)] if drains else []) and not blocks


def test_the_pools_figures_leave_blocks_out(monkeypatch):
    monkeypatch.setattr(memory, "_read_pool", lambda device, attribute: 1000)
    assert memory.pool_bytes(0) == (1000, 1000 - memory.kept_bytes(0))


def test_gpus_have_blocks_of_their_own(log):
    x = numbacc.empty((4, 8), device=1)
    address = x._address
    del x
    assert memory._kept_blocks[1][128] == [address]
    assert numbacc.empty((4, 8), device=0)._address != address
    assert numbacc.empty((4, 8), device=1)._address == address


def test_threads_never_share_a_block():
    """What one thread holds, no other gets."""
    live, clashes = set(), []

    def use(number):
        rng = np.random.default_rng(number)
        for _ in range(300):
            made = [numbacc.empty((4, 8)) for _ in range(rng.integers(1, 6))]
            for each in made:
                if each._address in live:
                    clashes.append(each._address)
                live.add(each._address)
            for each in made:
                live.discard(each._address)
            del each
            made.clear()

    run_threads(use, 8)
    assert not clashes
