"""Streams and graphs: their arguments, and blocks that end without a begin."""

from __future__ import annotations

import pytest
from conftest import refused
from wrong_arguments import STREAMS

import numbacc
from numbacc.errors import shown
from numbacc.runtime.streams import _MAX_FOREIGN, foreign, handle_of, owner_of

GIVEN = {"Stream": numbacc.stream, "default": lambda: 0, "handle": lambda: numbacc.stream().handle}


def short(value):
    return shown(value)[:30]


@pytest.fixture(params=GIVEN.values(), ids=GIVEN)
def given(request, place):
    return request.param()


@pytest.mark.parametrize("device", [[], {}, "x", "cuda:x", -1, 1.5, True], ids=short)
def test_devices_of_given_streams_that_are_none(place, given, device):
    refused(numbacc.DeviceError, "device=", run=lambda: numbacc.stream(given, device=device))
    if place.is_device:
        refused(numbacc.DeviceError, "device=", run=lambda: numbacc.graph(numbacc.stream(), device=device))


@pytest.mark.parametrize("device", [99, "cuda:99", "cpu"])
def test_devices_of_given_streams_that_do_not_exist(device_place, given, device):
    words = ("device=",) if device == "cpu" else ("cuda:99",)
    refused(numbacc.DeviceError, *words, run=lambda: numbacc.stream(given, device=device))
    refused(numbacc.DeviceError, *words, run=lambda: numbacc.graph(numbacc.stream(), device=device))


@pytest.mark.parametrize("device", [None, 0, "cuda:0", "cuda"])
def test_devices_of_given_streams(place, given, device):
    found = numbacc.stream(given, device=device)
    handle = given.handle if isinstance(given, numbacc.Stream) else given
    assert found.handle == handle
    if place.is_device and device is not None:
        assert found.device == 0
    if isinstance(given, numbacc.Stream):
        assert found is given


def test_streams_of_another_gpu(device_place, monkeypatch):
    """Seen without a second GPU: streams say which they are of."""
    from numbacc.base.dispatch import runtime

    elsewhere = numbacc.Stream(numbacc.stream().handle, 1)
    refused(numbacc.DeviceError, "cuda:1", "cuda:0", run=lambda: numbacc.stream(elsewhere, device=0))
    refused(numbacc.DeviceError, "cuda:1", "cuda:0", run=lambda: numbacc.stream(numbacc.Stream(0, 1), device=0))
    refused(numbacc.DeviceError, "cuda:1", "cuda:0", run=lambda: numbacc.graph(elsewhere, device=0))
    monkeypatch.setattr(runtime(), "device_of_stream", lambda stream: 1)
    refused(numbacc.DeviceError, "cuda:1", "cuda:0", run=lambda: numbacc.stream(elsewhere.handle, device=0))


@pytest.mark.parametrize("other", [*STREAMS, 2], ids=short)
def test_streams_to_wait_for_that_are_none(place, other):
    refused(numbacc.OptionError, "stream", run=lambda: numbacc.stream().wait(other))


def test_streams_that_are_waited_for(place):
    for other in (None, 0, 1, numbacc.stream()):
        numbacc.stream().wait(other)


def test_blocks_of_streams_end_after_their_begin(place):
    s, t = numbacc.stream(), numbacc.stream()
    refused(numbacc.OptionError, "with block", run=lambda: s.__exit__(None, None, None))
    with t:
        refused(numbacc.OptionError, "with block", run=lambda: s.__exit__(None, None, None))
        assert numbacc.current_stream() is t
    assert numbacc.current_stream().handle == 0
    refused(numbacc.OptionError, "with block", run=lambda: t.__exit__(None, None, None))


def test_blocks_of_graphs_end_after_their_begin(device_place):
    g = numbacc.graph()
    refused(numbacc.OptionError, "this graph is new", run=lambda: g.__exit__(None, None, None))
    with g:
        x = numbacc.zeros(3)
    refused(numbacc.OptionError, "this graph is captured", run=lambda: g.__exit__(None, None, None))
    g.launch()
    assert numbacc.asnumpy(x).tolist() == [0, 0, 0]


def test_a_graph_is_captured_once(device_place):
    g = numbacc.graph()
    refused(numbacc.OptionError, "this graph is new", run=g.launch)
    with g:
        refused(numbacc.OptionError, "this graph is being captured", run=g.__enter__)
        refused(numbacc.OptionError, "this graph is being captured", run=g.launch)
        x = numbacc.full(2, 5)
    refused(numbacc.OptionError, "this graph is captured", run=g.__enter__)
    g.launch()
    assert numbacc.asnumpy(x).tolist() == [5, 5]


class TheirStream:
    """A stream of another library."""

    def __init__(self, handle):
        self._handle = handle

    def __cuda_stream__(self):
        return (0, self._handle)


def test_the_last_owner_of_a_foreign_handle_is_kept():
    """A stream that has ended may have left its number to another one, which is to live on."""
    handle = 0x7F00_1234_0040
    try:
        first, second = TheirStream(handle), TheirStream(handle)
        for stream in (first, first, second):
            assert handle_of(stream) == handle and owner_of(handle) is stream
        assert owner_of(handle + 64) is None
        for k in range(_MAX_FOREIGN):
            handle_of(TheirStream(handle + 64 * (k + 1)))
        assert owner_of(handle) is None and len(foreign) <= _MAX_FOREIGN
    finally:
        foreign.clear()


@pytest.mark.parametrize("handle", [1, 0])
def test_the_legacy_default_stream_has_two_names(handle):
    assert handle_of(handle) == handle_of(TheirStream(handle)) == 0


@pytest.mark.parametrize("nbytes", [-1, True, False, 1.5, "1", []], ids=repr)
def test_limits_of_scratch_memory_that_are_none(nbytes):
    kept = numbacc.scratch_limit()
    refused(numbacc.OptionError, f"nbytes={nbytes!r}", run=lambda: numbacc.scratch_limit(nbytes))
    assert numbacc.scratch_limit() == kept
