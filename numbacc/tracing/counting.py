"""Compute what a GPU does for the accesses of a trace: requests, sectors, shared-memory passes and races.

A warp is 32 threads of a block with consecutive numbers (x first, then y, then z). A **request** is all accesses of a
warp at one instruction. GPU memory moves **sectors** of 32 bytes. Shared memory has 32 **banks** of 4 bytes; each
serves one word a pass (CUDA C++ Programming Guide, "Device Memory Accesses", "Shared Memory").
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .recording import ATOMIC, READ, WRITE

Integers = np.ndarray[Any, np.dtype[Any]]
Columns = dict[str, Integers]

WARP = 32
SECTOR = 32
_BANKS, _WORD = 32, 4


class Requests(NamedTuple):
    """The requests of warps, and the request that each access belongs to.

    Attributes:
        of: the request of each record.
        first: for each request, one of its records.
        sectors: how many 32-byte sectors each request touches; 0 in shared memory.
        used: how many different bytes each request touches.
        conflicts: for each request, the extra passes caused by bank conflicts. For atomics, also the passes that
            threads wait for others at the same address or bank.
    """

    of: Integers
    first: Integers
    sectors: Integers
    used: Integers
    conflicts: Integers


def requests(columns: Columns, is_shared: Integers) -> Requests:
    """Group the records of a trace by request."""
    warp = columns["thread"] // WARP
    of = _groups(
        *(columns[name] for name in ("launch", "block")),
        warp,
        *(columns[name] for name in ("array", "access", "instruction", "phase", "warp_phase", "step")),
    )
    count = int(of.max()) + 1 if of.size else 0
    first = np.unique(of, return_index=True)[1]
    address, nbytes = columns["address"], columns["nbytes"]
    used = _distinct(of, count, address) * nbytes[first]

    record, sector = _cells(address, nbytes, SECTOR)
    sectors = _distinct(of[record], count, sector)
    sectors[is_shared[first]] = 0

    conflicts = _passes_too_many(columns, is_shared, of, count)
    # Atomics on one address of global memory are serialized, too.
    alone = np.flatnonzero((columns["access"] == ATOMIC) & ~is_shared)
    conflicts += np.maximum(_most(of[alone], count, address[alone]) - 1, 0)
    return Requests(of, first, sectors, used, conflicts)


def _passes_too_many(columns: Columns, is_shared: Integers, of: Integers, count: int) -> Integers:
    """Return, for each request, the shared-memory passes beyond those that its bytes need."""
    shared = np.flatnonzero(is_shared)
    # With 8 bytes per thread, the hardware serves half a warp at once; with 16, a quarter.
    lane, nbytes = columns["thread"][shared] % WARP, columns["nbytes"][shared]
    part = lane * np.maximum(nbytes, _WORD) // (_BANKS * _WORD)
    record, word = _cells(columns["address"][shared], nbytes, _WORD)
    group, bank = _groups(of[shared], part)[record], word % _BANKS
    parts = int(group.max()) + 1 if group.size else 0
    # Threads that read or write the same word are served together; atomics are serialized.
    is_atomic = columns["access"][shared][record] == ATOMIC
    turn = np.where(is_atomic, columns["thread"][shared][record], -1)
    once = _firsts(group, bank, word, turn)
    passes = _most(group[once], parts, bank[once])
    request_of_part = np.zeros(parts, np.int64)
    request_of_part[group] = of[shared][record]
    return np.bincount(request_of_part, passes - 1, count).astype(np.int64)


class Races(NamedTuple):
    """Accesses of different threads without a barrier between them, where at least one writes.

    Attributes:
        records: a boolean for each record that says whether it races.
        pairs: one racing pair (record, record) for each element; the first of the two writes.
    """

    records: Integers
    pairs: list[tuple[int, int]]


def races(columns: Columns, is_shared: Integers) -> Races:
    """Find races within warps and blocks, in shared and global memory, and races between blocks in global memory."""
    if not is_shared.size:
        return Races(is_shared, [])
    size = int(np.gcd.reduce(np.concatenate([columns["address"], columns["nbytes"]])))
    record, cell = _cells(columns["address"], columns["nbytes"], size)
    launch, block, phase, warp_phase, thread, access = (
        columns[name][record] for name in ("launch", "block", "phase", "warp_phase", "thread", "access")
    )
    shared, everywhere, outside = is_shared[record], np.arange(record.size), np.flatnonzero(~is_shared[record])
    place, warp = (shared, launch, block, phase, cell), thread // WARP
    found = (
        (everywhere, _groups(*place, warp, warp_phase), thread),
        (everywhere, _groups(*place), warp),
        (outside, _groups(launch[outside], columns["grid_phase"][record][outside], cell[outside]), block[outside]),
    )
    taking = np.zeros(is_shared.size, bool)
    pairs: dict[tuple[int, ...], tuple[int, int]] = {}
    for among, group, owner in found:
        within, more = _conflicts(group, owner, access[among])
        taking[record[among[within]]] = True
        for a, b in more:
            one = int(among[a])
            # Report one race per element: of each block in shared memory, else of the whole memory.
            key = int(launch[one]), bool(shared[one]), int(cell[one]), int(block[one]) * bool(shared[one])
            pairs.setdefault(key, (int(record[one]), int(record[among[b]])))
    return Races(taking, sorted({*pairs.values()}))


def _conflicts(group: Integers, owner: Integers, access: Integers) -> tuple[Integers, list[tuple[int, int]]]:
    """Find races: accesses of one group by different owners that are neither all reads nor all atomic."""
    if not group.size:
        return np.zeros(0, bool), []
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    lengths = np.diff(starts, append=group.size)
    several = np.minimum.reduceat(owner[order], starts) != np.maximum.reduceat(owner[order], starts)
    reads, writes, atomics = (np.logical_or.reduceat(access[order] == kind, starts) for kind in (READ, WRITE, ATOMIC))
    racing = several & (writes | (atomics & reads))
    taking = np.zeros(group.size, bool)
    taking[order] = np.repeat(racing, lengths)
    members = (order[start : start + n] for start, n in zip(starts[racing], lengths[racing], strict=True))
    return taking, [_pair(each, owner, access) for each in members]


def _pair(members: Integers, owner: Integers, access: Integers) -> tuple[int, int]:
    """Return two accesses of a group that race, the writing one first."""
    plain = members[access[members] == WRITE]
    for one in plain if plain.size else members[access[members] == ATOMIC]:
        others = members[owner[members] != owner[one]]
        if access[one] == ATOMIC:
            others = others[access[others] != ATOMIC]
        if others.size:
            return int(one), int(others[0])
    raise AssertionError("these accesses do not race")


def _cells(address: Integers, nbytes: Integers, size: int) -> tuple[Integers, Integers]:
    """Return (record, cell) for every cell of `size` bytes that a record touches."""
    first = address // size
    count = (address + nbytes - 1) // size - first + 1
    record = np.repeat(np.arange(address.size), count)
    within = np.arange(record.size) - np.repeat(np.cumsum(count) - count, count)
    return record, first[record] + within


def _sorted(*keys: Integers) -> tuple[Integers, Integers]:
    """Return the order that sorts by the keys, and where in that order each new combination begins."""
    order = np.lexsort(keys[::-1])
    begins = np.zeros(order.size, bool)
    begins[:1] = True
    for key in keys:
        begins[1:] |= np.diff(key[order].astype(np.int64)) != 0
    return order, begins


def _groups(*keys: Integers) -> Integers:
    """Number the combinations of keys."""
    order, begins = _sorted(*keys)
    group = np.empty(order.size, np.int64)
    group[order] = np.cumsum(begins) - 1
    return group


def _firsts(*keys: Integers) -> Integers:
    """Return one index for each combination of keys."""
    order, begins = _sorted(*keys)
    return order[begins]


def _distinct(group: Integers, count: int, key: Integers) -> Integers:
    """Return how many different keys each group has."""
    return np.bincount(group[_firsts(group, key)], minlength=count)


def _most(group: Integers, count: int, key: Integers) -> Integers:
    """Return, for each group, how often its most frequent key occurs."""
    order, begins = _sorted(group, key)
    starts = np.flatnonzero(begins)
    most = np.zeros(count, np.int64)
    np.maximum.at(most, group[order[starts]], np.diff(starts, append=order.size))
    return most
