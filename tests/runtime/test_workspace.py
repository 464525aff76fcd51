"""Scratch memory is one thread's, so that no other's work on the same stream writes there in between."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from conftest import held_bytes

from numbacc.runtime import workspace

STREAM = 7


@pytest.fixture(autouse=True)
def blocks(monkeypatch):
    """The blocks that were allocated, and none held."""
    made = []

    def allocate(nbytes, device, stream):
        made.append(SimpleNamespace(address=4096 * (len(made) + 1), nbytes=nbytes))
        return made[-1]

    fake = SimpleNamespace(is_capturing=lambda stream: stream < 0, allocate=allocate)
    monkeypatch.setattr(workspace, "runtime", lambda: fake)
    workspace._held.clear()
    yield made
    workspace._held.clear()


def address(nbytes, stream=STREAM, device=0):
    return workspace.run(lambda place: place, nbytes, device, stream)


def test_one_block_serves_a_stream():
    assert [address(64), address(32), address(64)] == [4096] * 3
    assert workspace.held(64, 0, STREAM).address == 4096
    assert workspace.held(65, 0, STREAM) is None
    assert address(65) == 8192
    assert address(65, STREAM + 1) == 12288 and address(65, device=1) == 16384
    assert held_bytes(0) == 130
    workspace.release(0)
    assert held_bytes(0) == 0 and held_bytes(1) == 65


def test_a_block_that_has_grown_is_the_last_to_go():
    assert address(64) == 4096 and address(64, STREAM + 1) == 8192
    assert address(workspace._limit - 64) == 12288
    assert address(64, STREAM + 2) == 16384
    assert workspace.held(64, 0, STREAM + 1) is None
    assert workspace.held(64, 0, STREAM) is not None and workspace.held(64, 0, STREAM + 2) is not None


def test_none_and_captured(blocks):
    """Memory of a capture is its graph's: it is not kept here, nor is what is kept lent to it."""
    assert address(0) == 0
    assert address(64, -1) == 4096
    assert not workspace._held
    assert address(64) == 8192
    assert address(64, -1) == 12288


def test_more_than_the_limit_is_kept_by_nobody():
    assert address(workspace._limit + 1) == 4096
    assert not workspace._held
    assert address(64, 1) == 8192 and address(workspace._limit, 2) == 12288
    assert workspace.held(64, 0, 1) is None, "the one used longest ago goes"


def test_blocks_of_dead_threads_go():
    threads = [threading.Thread(target=address, args=(64, stream)) for stream in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not workspace._held


def test_the_block_used_longest_ago_is_dropped():
    for stream in range(workspace.MAX_BLOCKS):
        address(1, stream)
    assert workspace.held(1, 0, 0)
    address(1, workspace.MAX_BLOCKS)
    assert workspace.held(1, 0, 0) and not workspace.held(1, 0, 1)


def test_two_threads_have_two_blocks():
    used, begun, done = [], threading.Event(), threading.Event()

    def work(place):
        used.append(place)
        begun.set()
        assert done.wait(60)

    first = threading.Thread(target=workspace.run, args=(work, 64, 0, STREAM))
    first.start()
    assert begun.wait(60)
    assert workspace.held(64, 0, STREAM) is None
    used.append(address(64))  # while the first thread is still queueing
    done.set()
    first.join()
    assert used == [4096, 8192]
    assert address(64) == 8192
