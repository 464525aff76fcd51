"""Run by test_cudnn.py with a stub for the driver: whose cuDNN's descriptors are, and that none is forgotten."""

from __future__ import annotations

from collections import Counter

import pytest
import stubbed
from cudnn_graphs import Made, failing

from numbacc_bindings.cudnn import (
    AttributeName,
    AttributeType,
    CudnnError,
    DescriptorType,
    cudnn,
    get_count,
    get_descriptors,
    set_int64s,
)

stubbed.needed()

DESCRIPTOR = AttributeType.BACKEND_DESCRIPTOR


@pytest.fixture
def alive(monkeypatch):
    """How many descriptors there are of each address that was made meanwhile."""
    counts = Counter()
    make, destroy = cudnn.cudnnBackendCreateDescriptor, cudnn.cudnnBackendDestroyDescriptor

    def counted(kind, place):
        make(kind, place)
        counts[place._obj.value] += 1

    def discounted(descriptor):
        destroy(descriptor)
        counts[descriptor] -= 1

    monkeypatch.setattr(cudnn, "cudnnBackendCreateDescriptor", counted)
    monkeypatch.setattr(cudnn, "cudnnBackendDestroyDescriptor", discounted)
    return lambda: {address for address, count in counts.items() if count}


def test_spare_descriptors_are_destroyed(made, alive):
    heuristics = made.heuristics(made.graph(), made.device())
    before, name, kind = alive(), AttributeName.ENGINEHEUR_RESULTS, DescriptorType.ENGINECFG_DESCRIPTOR
    count = get_count(heuristics, name, DESCRIPTOR)
    for limit in (0, 1, count, count + 5):
        found = get_descriptors(heuristics, name, kind, limit)
        assert len(found) == min(limit, count)
        assert alive() == before | set(found)
        made.keep(*found)
        before = alive()


def test_descriptors_are_destroyed_after_errors(made, alive):
    tensor = made.tensor(1, [1, 1, 1, 1])
    before = alive()
    with pytest.raises(CudnnError):
        get_descriptors(tensor, AttributeName.ENGINEHEUR_RESULTS, DescriptorType.ENGINECFG_DESCRIPTOR, 3)
    with pytest.raises(CudnnError):
        get_descriptors(tensor, AttributeName.ENGINEHEUR_RESULTS, 9999, 3)
    assert alive() == before


def test_variant_packs(made, alive):
    """They cannot be changed."""
    pack = made.pack([1, 3, -2], [2**63 + 16, 2**64 - 16, 0], 2**48)
    with failing("BAD_PARAM", function="cudnnBackendSetAttribute"):
        set_int64s(pack, AttributeName.VARIANT_PACK_UNIQUE_IDS, [2])
    made.destroy()
    assert not alive()


def test_destroyed_memory_is_free():
    def pages():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1])

    made = Made()
    for part in range(6):
        if part == 1:
            before = pages()
        for _ in range(2000):
            made.pack(range(64), range(64), 0)
            made.destroy()
    assert pages() - before < 400  # kept, ten thousand packs were 2,500 at least
