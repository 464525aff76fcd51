"""What a GPU makes of the accesses of a trace: requests of warps, sectors, passes through shared memory, races.

A warp is 32 threads of a block with neighbouring numbers (x first, then y, then z). A **request** is what its threads
access at one instruction together. The memory of a GPU moves **sectors** of 32 bytes; shared memory has 32 **banks** of
4 bytes, each of which serves one word a pass (CUDA C++ Programming Guide, "Device Memory Accesses", "Shared Memory").
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
    """The requests of warps, and which each access belongs to.

    Attributes:
        of: the request of each record.
        first: a record of each request.
        sectors: of 32 bytes that each touches, 0 in shared memory.
        used: different bytes that each touches.
        conflicts: passes that each takes beyond those it would take without bank conflicts; of atomics, the turns that
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
    # Atomics on one address of global memory take turns, too.
    alone = np.flatnonzero((columns["access"] == ATOMIC) & ~is_shared)
    conflicts += np.maximum(_most(of[alone], count, address[alone]) - 1, 0)
    return Requests(of, first, sectors, used, conflicts)


def _passes_too_many(columns: Columns, is_shared: Integers, of: Integers, count: int) -> Integers:
    """Of each request, the passes through shared memory beyond those that its bytes need."""
    shared = np.flatnonzero(is_shared)
    # Of 8 bytes a thread, half a warp is served at once; of 16, a quarter.
    lane, nbytes = columns["thread"][shared] % WARP, columns["nbytes"][shared]
    part = lane * np.maximum(nbytes, _WORD) // (_BANKS * _WORD)
    record, word = _cells(columns["address"][shared], nbytes, _WORD)
    group, bank = _groups(of[shared], part)[record], word % _BANKS
    parts = int(group.max()) + 1 if group.size else 0
    # Threads that read or write the same word are served together; of atomics, each takes a turn.
    is_atomic = columns["access"][shared][record] == ATOMIC
    turn = np.where(is_atomic, columns["thread"][shared][record], -1)
    once = _firsts(group, bank, word, turn)
    passes = _most(group[once], parts, bank[once])
    request_of_part = np.zeros(parts, np.int64)
    request_of_part[group] = of[shared][record]
    return np.bincount(request_of_part, passes - 1, count).astype(np.int64)


class Races(NamedTuple):
    """Accesses of different threads that no barrier orders, at least one of which writes.

    Attributes:
        records: which records take part, as booleans.
        pairs: (record, record) of one such pair for each place, a writing one first.
    """

    records: Integers
    pairs: list[tuple[int, int]]


def races(columns: Columns, is_shared: Integers) -> Races:
    """Find the races within warps and blocks, in memory of both kinds, and between blocks, in global memory."""
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
        (outside, _groups(launch[outside], cell[outside]), block[outside]),
    )
    taking = np.zeros(is_shared.size, bool)
    pairs: dict[tuple[int, ...], tuple[int, int]] = {}
    for among, group, owner in found:
        within, more = _conflicts(group, owner, access[among])
        taking[record[among[within]]] = True
        for a, b in more:
            one = int(among[a])
            # One of each element of each block, or of global memory.
            key = int(launch[one]), bool(shared[one]), int(cell[one]), int(block[one]) * bool(shared[one])
            pairs.setdefault(key, (int(record[one]), int(record[among[b]])))
    return Races(taking, sorted({*pairs.values()}))


def _conflicts(group: Integers, owner: Integers, access: Integers) -> tuple[Integers, list[tuple[int, int]]]:
    """Where accesses of one group, by different owners, are not all reads and not all atomic; a pair of each group."""
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
    """Two accesses that race, of a group where some do; a writing one first."""
    plain = members[access[members] == WRITE]
    for one in plain if plain.size else members[access[members] == ATOMIC]:
        others = members[owner[members] != owner[one]]
        if access[one] == ATOMIC:
            others = others[access[others] != ATOMIC]
        if others.size:
            return int(one), int(others[0])
    raise AssertionError("there is no race among these")


def _cells(address: Integers, nbytes: Integers, size: int) -> tuple[Integers, Integers]:
    """(record, cell) of every cell of so many bytes that each record touches."""
    first = address // size
    count = (address + nbytes - 1) // size - first + 1
    record = np.repeat(np.arange(address.size), count)
    within = np.arange(record.size) - np.repeat(np.cumsum(count) - count, count)
    return record, first[record] + within


def _sorted(*keys: Integers) -> tuple[Integers, Integers]:
    """The order that sorts by keys, and where in it a new combination begins."""
    order = np.lexsort(keys[::-1])
    begins = np.zeros(order.size, bool)
    begins[:1] = True
    for key in keys:
        begins[1:] |= np.diff(key[order].astype(np.int64)) != 0
    return order, begins


def _groups(*keys: Integers) -> Integers:
    """A number of each combination of keys."""
    order, begins = _sorted(*keys)
    group = np.empty(order.size, np.int64)
    group[order] = np.cumsum(begins) - 1
    return group


def _firsts(*keys: Integers) -> Integers:
    """An index of each combination of keys."""
    order, begins = _sorted(*keys)
    return order[begins]


def _distinct(group: Integers, count: int, key: Integers) -> Integers:
    """How many different keys each group has."""
    return np.bincount(group[_firsts(group, key)], minlength=count)


def _most(group: Integers, count: int, key: Integers) -> Integers:
    """How often each group has the key that it has most often."""
    order, begins = _sorted(group, key)
    starts = np.flatnonzero(begins)
    most = np.zeros(count, np.int64)
    np.maximum.at(most, group[order[starts]], np.diff(starts, append=order.size))
    return most
