"""C functions that stand in for cuDNN and the driver."""

from __future__ import annotations

import ctypes

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


def pair(source, target, nbytes, same_allowed):
    """Two arrays of so many bytes from their addresses on, which must not share any, but may be the same."""
    row = (source, 0, nbytes, target, 0, nbytes, same_allowed)
    assert len(row) == PAIR_WORDS
    return row
