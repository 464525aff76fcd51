"""The compiled call of a plan of cuDNN's, with C functions made here standing in for cuDNN and the driver.

`planned_cudnn.py` has it make cuDNN's own variant packs.
"""

from __future__ import annotations

import pytest
from fake_cudnn import (
    CONTEXT,
    SCRATCH,
    STREAM,
    Call,
    Fake,
    pair,
)
from skips import skip

from numbacc.base.codes import CAPTURING, MANY_ARRAYS, MAY_OVERLAP, WRONG_ALIGNMENT, WRONG_CONTEXT
from numbacc.base.dispatch import simulated

if simulated():
    skip("not simulated", allow_module_level=True)

from numbacc.runtime import native_graphs

A, B, C, D = (0x7F00_0000_0000 + 4096 * k for k in range(4))


@pytest.fixture
def fake():
    return Fake()


def test_the_first_call_makes_a_pack(fake):
    call = Call(fake)
    assert call(A, B, C) == 0
    (pack,) = fake.packs
    assert call.pack == pack and fake.given(pack) == ((1, 2, 3), (A, B, C), SCRATCH)
    assert fake.calls == [("asked", STREAM), ("create",), ("stream", STREAM), ("execute", pack)]


def test_the_same_addresses_keep_the_pack(fake):
    call = Call(fake)
    for _ in range(3):
        assert call(A, B, C) == 0
    (pack,) = fake.packs
    assert fake.named("create", "destroy", "execute") == [("create",), *[("execute", pack)] * 3]


@pytest.mark.parametrize("addresses, scratch", [((D, B, C), SCRATCH), ((A, B, D), SCRATCH), ((A, B, C), SCRATCH + 16)])
def test_others_make_a_new_one_and_destroy_the_old(fake, addresses, scratch):
    call = Call(fake)
    call(A, B, C)
    (old,) = fake.packs
    assert call(*addresses, scratch=scratch) == 0
    (new,) = fake.packs
    assert new != old and call.pack == new and fake.given(new) == ((1, 2, 3), addresses, scratch)
    assert fake.named("destroy", "execute") == [("execute", old), ("destroy", old), ("execute", new)]
    assert call(*addresses, scratch=scratch) == call(A, B, C) == 0
    assert fake.named("execute")[2:] == [("execute", new), ("execute", call.pack)] and len(fake.packs) == 1


@pytest.mark.parametrize("count", [1, 2, MANY_ARRAYS - 1, MANY_ARRAYS])
def test_any_number_of_tensors(fake, count):
    addresses = [A + 4096 * k for k in range(count)]
    call = Call(fake, [16] * count)
    assert call(*addresses) == 0
    assert fake.given(call.pack) == (tuple(range(1, count + 1)), tuple(addresses), SCRATCH)
    addresses[-1] += 16
    assert call(*addresses) == 0
    assert fake.given(call.pack)[1] == tuple(addresses) and len(fake.packs) == 1


@pytest.mark.parametrize("count, behind", [(1, 2), (MANY_ARRAYS - 1, 1), (2, MANY_ARRAYS - 2)])
def test_numbers_are_where_they_were(fake, count, behind):
    """Calls do not tell their addresses, which every pack has."""
    arrays, numbers = ([start + 4096 * k + 1 for k in range(n)] for start, n in ((A, count), (B << 4, behind)))
    call = Call(fake, [1] * count, numbers=numbers)
    for _ in range(2):
        for _ in range(2):
            assert call(*arrays) == 0
        assert fake.given(call.pack) == (tuple(range(1, count + behind + 1)), (*arrays, *numbers), SCRATCH)
        arrays[0] += 8
    assert len(fake.named("create")) == 2 and len(fake.packs) == 1


@pytest.mark.parametrize("function", ["create", "set_attribute", "finalize"])
@pytest.mark.parametrize("known", [False, True])
def test_what_fails_is_destroyed_and_said(fake, function, known):
    call = Call(fake)
    if known:
        call(A, B, C)
    old = call.pack
    fake.failing = {function: 2000}
    assert call(D, B, C) == 2000
    # What was kept before is still there, for the addresses that it has.
    assert call.pack == old and {*fake.packs} == {old} - {0}
    fake.failing = {}
    assert call(A, B, C) == 0
    assert call.pack == old or not known
    assert call(D, B, C) == 0 and fake.given(call.pack)[1] == (D, B, C) and len(fake.packs) == 1


@pytest.mark.parametrize("function", ["set_stream", "execute"])
def test_calls_that_fail(fake, function):
    call = Call(fake)
    fake.failing = {function: 5000}
    assert call(A, B, C) == 5000
    # The stream is not taken for set where that failed.
    assert call.handle[1] == (-1 if function == "set_stream" else STREAM)
    fake.failing = {}
    assert call(A, B, C) == 0
    assert len(fake.named("create")) == 1 and fake.named("stream") == [("stream", STREAM)]


def test_the_stream_is_set_when_it_changes(fake):
    call, other = Call(fake), Call(fake)
    for stream in (STREAM, STREAM, 0, 0, STREAM):
        assert call(A, B, C, stream=stream) == 0
    # Plans of a thread share its handle.
    other.words[native_graphs.HANDLE] = call.words[native_graphs.HANDLE]
    assert other(A, B, C) == 0
    assert [stream for _, stream in fake.named("stream")] == [STREAM, 0, STREAM]


def test_another_context(fake):
    call = Call(fake)
    for checks in (0, 1):
        for context in (0, CONTEXT + 1):
            fake.context = context
            assert call(A, B, C, checks=checks) == WRONG_CONTEXT
    assert fake.calls == []


@pytest.mark.parametrize("alignment", [1, 2, 4, 16])
def test_alignment(fake, alignment):
    call = Call(fake, (16, alignment, 16))
    for off in range(1, 17):
        for checks in (0, 1):
            expected = WRONG_ALIGNMENT if off % alignment else 0
            assert call(A, B + off, C, checks=checks) == expected
    assert call(A + 8, B, C) == call(A, B, C + 1) == WRONG_ALIGNMENT


@pytest.mark.parametrize("same", [0, 1])
def test_overlaps(fake, same):
    call = Call(fake, pairs=[pair(0, 2, 64, same), pair(1, 2, 64, 0)])
    for off, overlaps in ((-64, False), (-48, True), (0, not same), (48, True), (64, False)):
        assert call(A, B, A + off) == (MAY_OVERLAP if overlaps else 0)
        assert call(A, B, A + off, checks=0) == 0
    assert call(A, B, B) == MAY_OVERLAP and call(B, B, C) == 0


@pytest.mark.parametrize("state", [1, 2, None])
def test_captures(fake, state):
    """1 and 2: the stream is captured, or its capture was broken. None: another stream captures."""
    call = Call(fake)
    fake.capturing = state
    assert call(A, B, C) == CAPTURING and fake.calls == [("asked", STREAM)]
    # Whoever calls unchecked has looked.
    assert call(A, B, C, checks=0) == 0 and len(fake.named("asked")) == 1
