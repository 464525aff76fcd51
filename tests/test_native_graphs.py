"""The compiled call of a plan of cuDNN's, with C functions made here standing in for cuDNN and the driver.

`planned_cudnn.py` has it make cuDNN's own variant packs.
"""

from __future__ import annotations

import ctypes

import pytest
from skips import skip

from numbacc.base.codes import CAPTURING, MANY_ARRAYS, MAY_OVERLAP, WRONG_ALIGNMENT, WRONG_CONTEXT
from numbacc.base.dispatch import simulated

if simulated():
    skip("not simulated", allow_module_level=True)

from numbacc.runtime import native_graphs
from numbacc.runtime.builtin import bound_to_arrays
from numbacc.runtime.native import PAIR_WORDS
from numbacc_bindings.cudnn import AttributeName, AttributeType, DescriptorType

CONTEXT, PLAN, HANDLE, SCRATCH, STREAM = 0x7F12_3456_7890, 0x7F00_0000_1110, 0x5550, 0x7F00_8000_0000, 0x7F12_0000_0040
word = ctypes.c_uint64
number = ctypes.c_int
c_function = {
    "cuCtxGetCurrent": ctypes.CFUNCTYPE(number, word),
    "cuStreamIsCapturing": ctypes.CFUNCTYPE(number, word, word),
    "create": ctypes.CFUNCTYPE(number, number, word),
    "set_attribute": ctypes.CFUNCTYPE(number, word, number, number, ctypes.c_int64, word),
    "finalize": ctypes.CFUNCTYPE(number, word),
    "destroy": ctypes.CFUNCTYPE(number, word),
    "set_stream": ctypes.CFUNCTYPE(number, word, word),
    "execute": ctypes.CFUNCTYPE(number, word, word, word),
}


class Fake:
    """Functions with C addresses, which note what they are called with.

    Attributes:
        context: the current one.
        capturing: what `cuStreamIsCapturing` writes; None if it may not be asked.
        failing: (name of a function, how many calls succeed before) -> the status of all further ones.
        packs: address of each pack that is not destroyed -> {attribute: what it was set to}.
        finalized: the packs that were.
        calls: names of the functions called, with their arguments; of packs their addresses and workspace.
    """

    def __init__(self):
        self.context, self.capturing, self.failing, self.made = CONTEXT, 0, {}, 0
        self.packs, self.finalized, self.calls = {}, set(), []
        self._functions = {name: kind(self._guarded(name)) for name, kind in c_function.items()}

    def address(self, name):
        return ctypes.cast(self._functions[name], ctypes.c_void_p).value

    def _guarded(self, name):
        def call(*arguments):
            status = self.failing.get(name, 0)
            if status:
                self.calls.append((name, "failed"))
                return status
            return getattr(self, name)(*arguments)

        return call

    def cuCtxGetCurrent(self, result):
        word.from_address(result).value = self.context
        return 0

    def cuStreamIsCapturing(self, stream, result):
        self.calls.append(("asked", stream))
        if self.capturing is None:
            return 906
        number.from_address(result).value = self.capturing
        return 0

    def create(self, kind, result):
        assert kind == DescriptorType.VARIANT_PACK_DESCRIPTOR
        self.made += 1
        pack = 0x6600_0000_0000 + 64 * self.made
        word.from_address(result).value = pack
        self.packs[pack] = {}
        self.calls.append(("create",))
        return 0

    def set_attribute(self, pack, name, kind, count, values):
        types = {AttributeName.VARIANT_PACK_UNIQUE_IDS: AttributeType.INT64}
        assert kind == types.get(name, AttributeType.VOID_PTR) and pack not in self.finalized
        self.packs[pack][name] = tuple((word * count).from_address(values))
        return 0

    def finalize(self, pack):
        self.finalized.add(pack)
        return 0

    def destroy(self, pack):
        del self.packs[pack]
        self.calls.append(("destroy", pack))
        return 0

    def set_stream(self, handle, stream):
        assert handle == HANDLE
        self.calls.append(("stream", stream))
        return 0

    def execute(self, handle, plan, pack):
        assert (handle, plan) == (HANDLE, PLAN) and pack in self.finalized
        self.calls.append(("execute", pack))
        return 0

    def named(self, *names):
        return [call for call in self.calls if call[0] in names]

    def given(self, pack):
        """(numbers, addresses, workspace) of a pack."""
        names = ["UNIQUE_IDS", "DATA_POINTERS", "WORKSPACE"]
        uids, pointers, (workspace,) = (self.packs[pack][AttributeName[f"VARIANT_PACK_{name}"]] for name in names)
        return uids, pointers, workspace


class Call:
    """A template of words, as `libraries.cudnn.Runner` fills it, and calls with it.

    Args:
        fake: whose functions it calls.
        alignments: of each tensor.
        pairs: rows of words, as in a launch template.
        numbers: addresses of numbers on the host.
        functions: addresses of cuDNN's own functions in place of the fake's.
    """

    def __init__(self, fake, alignments=(16, 16, 16), pairs=(), functions=None, numbers=()):
        names = ("create", "set_attribute", "finalize", "destroy", "set_stream", "execute")
        found = {name: fake.address(name) for name in names} | (functions or {})
        self.count, count = len(alignments), len(alignments) + len(numbers)
        self.handle = (ctypes.c_int64 * 2)(HANDLE, -1)
        words = (
            fake.address("cuCtxGetCurrent"), CONTEXT, fake.address("cuStreamIsCapturing"), *(found[n] for n in names),
            ctypes.addressof(self.handle), PLAN, count, len(numbers), len(pairs), 0, 0,
            *range(1, count + 1), *(each - 1 for each in alignments), *[0] * len(numbers),
            *[0] * self.count, *numbers,
            *(each for pair in pairs for each in pair),
        )  # fmt: skip
        self.words = (ctypes.c_int64 * len(words))(*words)

    @property
    def pack(self):
        return self.words[native_graphs.PACK]

    def __call__(self, *addresses, stream=STREAM, scratch=SCRATCH, checks=1):
        function = native_graphs.execute if checks else native_graphs.execute_unchecked
        return bound_to_arrays(function, self.words)(stream, scratch, addresses, ())


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


def pair(source, target, nbytes, same_allowed):
    """Two arrays of so many bytes from their addresses on, which must not share any, but may be the same."""
    row = (source, 0, nbytes, target, 0, nbytes, same_allowed)
    assert len(row) == PAIR_WORDS
    return row


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
