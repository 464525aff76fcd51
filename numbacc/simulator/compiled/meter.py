"""Count a traced kernel's memory accesses in machine code: requests of warps, sectors, bank conflicts and races.

`touch` records one access. A **place** is an access in the source. The accesses of a warp's threads at one place form a
request, and a **slot** keeps their addresses. A place has a chain of slots, one for each time that a thread reaches it
between two barriers. At a barrier, `_digest` counts the requests and empties the slots.

Each **cell** of memory looks for races at three levels: among the threads of a warp between the warp's barriers, among
the warps of a block between the block's barriers, and among the blocks of a launch. At each level, a cell stores the
kinds of access so far, whether they had several owners, and the set of their places.

In a grid that synchronizes, each phase runs all blocks. `enter_block` goes to a block: it counts the requests of the
block before, and takes the new block's state, shared memory and cells.

The functions get the address of a `Meter`'s numbers. `integers` compiles them once, and keeps them on disk. A kernel
finds their addresses among the numbers, so it compiles without them.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
import numpy as np
from llvmlite import ir

from . import integers
from .alignment import MISALIGNED
from .integers import call as _call
from .integers import load as _load
from .integers import store as _store
from .loops import STOP

READ, WRITE, ATOMIC = range(3)
WARP, SECTOR = 32, 32
_BANKS, _WORD = 32, 4

#: The numbers of a meter.
(
    PLACES, WORDS, USED, CAPACITY, POOL, CURSORS, HEADS, LOG, LOG_AT, LOG_END, CALL, TABLE, ARRAYS, ARRAY_COUNT, COUNTS,
    PHASE, WARPS, BLOCK, TAG, PHASE_TAG, THREADS, RACED, BLOCKS, UNWRITTEN, UNWRITTEN_COUNT, CLASSES, CLASS_COUNT,
    SCRATCH, FULL, SEEN, BARRIERS, GLOBAL_RACED, TOUCH, AT_BARRIER, BEFORE_WARPS, AT_WARP, BEGIN_BLOCK, PLACE_ARRAY,
    END_LAUNCH, GRID, STATES, LAUNCH_TAG, ENTER_BLOCK, AT_GRID, LENGTH,
) = range(45)  # fmt: skip
#: The numbers of a place: bytes, kind, array (-1: found by address), alignment, the first of its places by array,
#: whether it reads memory that may be unwritten, and the number of its line.
NBYTES, KIND, ARRAY, ALIGNMENT, FIRST, READS, LINE, _PLACE = range(8)
#: The numbers of an array: its first address, the one after the last, the difference of its addresses on the host and
#: on a GPU, the address of its cells, the address of memory where they begin, the logarithm of a cell's bytes, whether
#: the array is shared, the number of cells, and how many bytes the arrays and the cells of two blocks lie apart.
LOW, HIGH, DELTA, CELLS, CELLS_LOW, SHIFT, SHARED, CELL_COUNT, STEP, CELLS_STEP, _ARRAY = range(11)
#: The numbers of a slot: the next slot, the mask of lanes, place, time, warp, and 32 addresses.
_NEXT, _MASK, _OF, _STEP, _ITS_WARP, _ADDRESSES, _SLOT = 0, 1, 2, 3, 4, 5, 37
#: The numbers of a cell: the states of the three levels, the last writer, and then five sets of places: places that
#: race, the places of the three levels, and the places whose accesses begin here.
_BY_WARP, _BY_BLOCK, _BY_LAUNCH, _WRITER, _SETS = range(5)
#: A warp has three numbers: how many barriers it has passed, its group, and its last barrier.
_WARP = 3
#: A block of a grid that synchronizes has two numbers, its phase and the tag of the phase, and then its warps' numbers.
_STATE = 2
#: The counts of a place.
ACCESSES, REQUESTS, BYTES, SECTORS, USED_BYTES, CONFLICTS, COUNTED = range(7)
#: A record has eight numbers: block, thread, place, address on a GPU, time, and barriers of the block, of the warp and
#: of the grid.
RECORD = 8
#: A class of places has two numbers, whether they are in shared memory and its races, and then the set of places.
_CLASS = 2
_OWNER_BITS, _TAG_AT = 32, 36
_UNWRITTEN_MOST = 256
_RECORDS = 1 << 14
_SLOTS, _MOST_SLOTS = 1 << 10, 1 << 19


def _get(base, k):  # type: ignore[no-untyped-def]
    return _load(base + 8 * k)


def _put(base, k, value):  # type: ignore[no-untyped-def]
    _store(base + 8 * k, value)


# ---------------------------------------------------------------- one access


def _level(cell, state, places, words, tag, owner, kind, word, bit):  # type: ignore[no-untyped-def]
    """Record an access to a cell in one level's group. Return whether the group's accesses race."""
    old = _get(cell, state)
    if old >> _TAG_AT != tag:
        old = tag << _TAG_AT | owner << 4
        for w in range(words):
            _put(cell, places + w, 0)
    if (old >> 4) & ((1 << _OWNER_BITS) - 1) != owner:
        old |= 8
    old |= 1 << kind
    _put(cell, state, old)
    _put(cell, places + word, _get(cell, places + word) | bit)
    if old & 8 == 0 or not (old & (1 << WRITE) or old & 5 == 5):
        return 0
    for w in range(words):  # races: several owners, and a write or mixed kinds
        _put(cell, _SETS + w, _get(cell, _SETS + w) | _get(cell, places + w))
    return 1


def _follow(m, row, site, t, address, nbytes, kind, reads):  # type: ignore[no-untyped-def]
    """Record an access in the cells of its memory."""
    words = _get(m, WORDS)
    size = 8 * (_SETS + 5 * words)
    shift, shared = _get(row, SHIFT), _get(row, SHARED)
    first = (address - _get(row, CELLS_LOW)) >> shift
    last = (address + nbytes - 1 - _get(row, CELLS_LOW)) >> shift
    word, bit = site >> 6, 1 << (site & 63)
    warp_tag = _get(_get(m, WARPS), _WARP * (t >> 5) + 1)
    for k in range(first, last + 1):
        cell = _get(row, CELLS) + size * k
        raced = _level(cell, _BY_WARP, _SETS + words, words, warp_tag, t, kind, word, bit)
        raced |= _level(cell, _BY_BLOCK, _SETS + 2 * words, words, _get(m, PHASE_TAG), t >> 5, kind, word, bit)
        if shared == 0:
            tag = _get(m, LAUNCH_TAG)
            wide = _level(cell, _BY_LAUNCH, _SETS + 3 * words, words, tag, _get(m, BLOCK), kind, word, bit)
            if raced | wide:
                _put(m, GLOBAL_RACED, 1)
        else:
            if raced:
                _put(m, RACED, 1)
            block = _get(m, BLOCKS)
            if reads and _get(cell, _WRITER) >> 16 != block and _get(m, UNWRITTEN_COUNT) < _UNWRITTEN_MOST:
                entry = _get(m, UNWRITTEN) + 32 * _get(m, UNWRITTEN_COUNT)
                _put(entry, 0, cell)
                _put(entry, 1, site)
                _put(entry, 2, t)
                _put(entry, 3, address - _get(row, DELTA))
                _put(m, UNWRITTEN_COUNT, _get(m, UNWRITTEN_COUNT) + 1)
            if kind != READ:
                _put(cell, _WRITER, block << 16 | t)
        if k == first:
            starts = _SETS + 4 * words + word
            _put(cell, starts, _get(cell, starts) | bit)


def touch(m, site, t, address):  # type: ignore[no-untyped-def]
    """Record an access by a thread. Return an error code, or 0."""
    if _get(m, FULL):
        return 0
    table = _get(m, TABLE) + 8 * _PLACE * site
    array = _get(table, ARRAY)
    if array < 0:
        for k in range(_get(m, ARRAY_COUNT)):
            row = _get(m, ARRAYS) + 8 * _ARRAY * k
            if array < 0 and _get(row, LOW) <= address and address < _get(row, HIGH):
                array = k
        if array < 0:  # local memory, or a constant
            return 0
        site = _get(table, FIRST) + array
    row = _get(m, ARRAYS) + 8 * _ARRAY * array
    place, nbytes, kind = address - _get(row, DELTA), _get(table, NBYTES), _get(table, KIND)
    if _get(m, USED) == _get(m, CAPACITY):
        _call(_get(m, CALL), 0)
        if _get(m, FULL):
            return 0
    places, pool = _get(m, PLACES), _get(m, POOL)
    cursor = _get(m, CURSORS) + 8 * (t * places + site)
    before = _load(cursor)
    link = pool + 8 * (_SLOT * before + _NEXT)
    if before < 0:
        link = _get(m, HEADS) + 8 * ((t >> 5) * places + site)
    slot = _load(link)
    if slot < 0:
        slot = _get(m, USED)
        _put(m, USED, slot + 1)
        _store(link, slot)
        made = pool + 8 * _SLOT * slot
        _put(made, _NEXT, -1)
        _put(made, _MASK, 0)
        _put(made, _OF, site)
        _put(made, _STEP, 0 if before < 0 else _get(pool + 8 * _SLOT * before, _STEP) + 1)
        _put(made, _ITS_WARP, t >> 5)
    _store(cursor, slot)
    base = pool + 8 * _SLOT * slot
    _put(base, _MASK, _get(base, _MASK) | 1 << (t & 31))
    _put(base, _ADDRESSES + (t & 31), place)
    if _get(m, LOG):
        if _get(m, LOG_AT) == _get(m, LOG_END):
            _call(_get(m, CALL), 1)
        if _get(m, LOG):
            record = _get(m, LOG) + 8 * RECORD * _get(m, LOG_AT)
            _put(record, 0, _get(m, BLOCK))
            _put(record, 1, t)
            _put(record, 2, site)
            _put(record, 3, place)
            _put(record, 4, _get(base, _STEP))
            _put(record, 5, _get(m, PHASE))
            _put(record, 6, _get(_get(m, WARPS), _WARP * (t >> 5)))
            _put(record, 7, _get(m, LAUNCH_TAG) - 1)
            _put(m, LOG_AT, _get(m, LOG_AT) + 1)
    if _get(row, CELLS):
        _follow(m, row, site, t, address, nbytes, kind, _get(table, READS))
    return MISALIGNED if place & (_get(table, ALIGNMENT) - 1) else 0


# ---------------------------------------------------------------- requests


def _is_new(found, count, value):  # type: ignore[no-untyped-def]
    """Add a value to a set of `count` values, and return whether it is new. Their maximum comes first."""
    if count == 0 or value > _get(found, 0):
        _put(found, 0, value)
        _put(found, count + 1, value)
        return True
    for k in range(count, 0, -1):
        if _get(found, k) == value:
            return False
    _put(found, count + 1, value)
    return True


def _sectors(base, found, nbytes):  # type: ignore[no-untyped-def]
    count, mask = 0, _get(base, _MASK)
    for lane in range(WARP):
        if mask >> lane & 1:
            address = _get(base, _ADDRESSES + lane)
            for sector in range(address // SECTOR, (address + nbytes - 1) // SECTOR + 1):
                if _is_new(found, count, sector):
                    count += 1
    return count


def _addresses(base, found):  # type: ignore[no-untyped-def]
    """Return how many addresses differ."""
    count, mask = 0, _get(base, _MASK)
    for lane in range(WARP):
        if mask >> lane & 1 and _is_new(found, count, _get(base, _ADDRESSES + lane)):
            count += 1
    return count


def _turns(base):  # type: ignore[no-untyped-def]
    """Return the largest number of threads that use the same address."""
    most, mask = 0, _get(base, _MASK)
    for lane in range(WARP):
        if mask >> lane & 1:
            same = 1
            for other in range(lane):
                if mask >> other & 1 and _get(base, _ADDRESSES + other) == _get(base, _ADDRESSES + lane):
                    same += 1
            most = max(most, same)
    return most


def _passes(base, found, nbytes, kind):  # type: ignore[no-untyped-def]
    """Return the extra shared-memory passes beyond those that the bytes need.

    Half a warp is served at once where threads access 8 bytes, and a quarter for 16 bytes. Threads that read or write
    the same word are served together. Atomic operations are serialized.
    """
    banks, words = found, found + 8 * _BANKS
    count, most, part, extra, mask = 0, 0, -1, 0, _get(base, _MASK)
    for lane in range(WARP):
        if mask >> lane & 1 == 0:
            continue
        mine = lane * max(nbytes, _WORD) // (_BANKS * _WORD)
        if mine != part:
            extra += max(most - 1, 0)
            part, most, count = mine, 0, 0
            for bank in range(_BANKS):
                _put(banks, bank, 0)
        address = _get(base, _ADDRESSES + lane)
        for word in range(address // _WORD, (address + nbytes - 1) // _WORD + 1):
            if kind == ATOMIC or _is_new(words, count, word):
                count += 1
                passes = _get(banks, word % _BANKS) + 1
                _put(banks, word % _BANKS, passes)
                most = max(most, passes)
    return extra + max(most - 1, 0)


def _digest(m):  # type: ignore[no-untyped-def]
    """Count the requests since the last barrier of the block."""
    places, scratch = _get(m, PLACES), _get(m, SCRATCH)
    for slot in range(_get(m, USED)):
        base = _get(m, POOL) + 8 * _SLOT * slot
        site, mask, warp = _get(base, _OF), _get(base, _MASK), _get(base, _ITS_WARP)
        table = _get(m, TABLE) + 8 * _PLACE * site
        nbytes, kind = _get(table, NBYTES), _get(table, KIND)
        counts = _get(m, COUNTS) + 8 * COUNTED * site
        lanes = 0
        _put(_get(m, HEADS), warp * places + site, -1)
        for lane in range(WARP):
            if mask >> lane & 1:
                lanes += 1
                _put(_get(m, CURSORS), (32 * warp + lane) * places + site, -1)
        _put(counts, ACCESSES, _get(counts, ACCESSES) + lanes)
        _put(counts, REQUESTS, _get(counts, REQUESTS) + 1)
        _put(counts, BYTES, _get(counts, BYTES) + lanes * nbytes)
        _put(counts, USED_BYTES, _get(counts, USED_BYTES) + nbytes * _addresses(base, scratch))
        if _get(_get(m, ARRAYS) + 8 * _ARRAY * _get(table, ARRAY), SHARED):
            _put(counts, CONFLICTS, _get(counts, CONFLICTS) + _passes(base, scratch, nbytes, kind))
        else:
            _put(counts, SECTORS, _get(counts, SECTORS) + _sectors(base, scratch, nbytes))
            if kind == ATOMIC:
                _put(counts, CONFLICTS, _get(counts, CONFLICTS) + _turns(base) - 1)
    _put(m, USED, 0)


# ---------------------------------------------------------------- barriers and blocks


def _new_groups(m):  # type: ignore[no-untyped-def]
    """Begin a new phase of the block, and a new one for each warp."""
    warps = (_get(m, THREADS) + WARP - 1) // WARP
    tag = _get(m, TAG)
    for warp in range(warps):
        _put(_get(m, WARPS), _WARP * warp + 1, tag + warp)
    _put(m, PHASE_TAG, tag + warps)
    _put(m, TAG, tag + warps + 1)


def _look_for_unwritten(m):  # type: ignore[no-untyped-def]
    """Record shared memory read since the last barrier that no other thread wrote, once for each place."""
    for k in range(_get(m, UNWRITTEN_COUNT)):
        entry = _get(m, UNWRITTEN) + 32 * k
        site, t, writer = _get(entry, 1), _get(entry, 2), _get(_get(entry, 0), _WRITER)
        seen = _get(m, SEEN) + 32 * site
        if _get(seen, 0) == 0 and (writer >> 16 != _get(m, BLOCKS) or writer & 0xFFFF == t):
            _put(seen, 0, 1)
            _put(seen, 1, t)
            _put(seen, 2, _get(m, BLOCK))
            _put(seen, 3, _get(entry, 3))
    _put(m, UNWRITTEN_COUNT, 0)


def at_barrier(m):  # type: ignore[no-untyped-def]
    """End a phase at a barrier of the block."""
    _digest(m)
    _look_for_unwritten(m)
    _put(m, PHASE, _get(m, PHASE) + 1)
    _new_groups(m)
    return 0


def at_grid(m):  # type: ignore[no-untyped-def]
    """Record a barrier of the grid, which orders what blocks do."""
    _put(m, LAUNCH_TAG, _get(m, LAUNCH_TAG) + 1)
    return 0


def _enter(m, block):  # type: ignore[no-untyped-def]
    before = _get(m, BLOCK)
    if block == before and _get(m, BLOCKS):
        return
    _digest(m)
    _look_for_unwritten(m)
    size = _STATE + _WARP * ((_get(m, THREADS) + WARP - 1) // WARP)
    state = _get(m, STATES) + 8 * size * before
    _put(state, 0, _get(m, PHASE))
    _put(state, 1, _get(m, PHASE_TAG))
    state = _get(m, STATES) + 8 * size * block
    _put(m, PHASE, _get(state, 0))
    _put(m, PHASE_TAG, _get(state, 1))
    _put(m, WARPS, state + 8 * _STATE)
    _put(m, BLOCK, block)
    _put(m, BLOCKS, block + 1)
    for k in range(_get(m, ARRAY_COUNT)):
        row = _get(m, ARRAYS) + 8 * _ARRAY * k
        if _get(row, SHARED):
            moved = (block - before) * _get(row, STEP)
            _put(row, LOW, _get(row, LOW) + moved)
            _put(row, HIGH, _get(row, HIGH) + moved)
            _put(row, DELTA, _get(row, DELTA) + moved)
            _put(row, CELLS_LOW, _get(row, LOW))
            if _get(row, CELLS):
                _put(row, CELLS, _get(row, CELLS) + (block - before) * _get(row, CELLS_STEP))


def enter_block(m, block):  # type: ignore[no-untyped-def]
    """Go to a block of a grid that synchronizes."""
    _enter(m, block)
    return 0


def before_warps(m):  # type: ignore[no-untyped-def]
    """Prepare a barrier of warps, before any thread reaches it."""
    _put(m, BARRIERS, _get(m, BARRIERS) + 1)
    return 0


def at_warp(m, t):  # type: ignore[no-untyped-def]
    """Record that a thread reaches a barrier of warps. The first one begins a new phase for its warp."""
    warp, places = t >> 5, _get(m, PLACES)
    state = _get(m, WARPS) + 8 * _WARP * warp
    if _get(state, 2) != _get(m, BARRIERS):
        _put(state, 0, _get(state, 0) + 1)
        _put(state, 1, _get(m, TAG))
        _put(state, 2, _get(m, BARRIERS))
        _put(m, TAG, _get(m, TAG) + 1)
        for site in range(places):
            _put(_get(m, HEADS), warp * places + site, -1)
        for k in range(32 * warp * places, 32 * (warp + 1) * places):
            _put(_get(m, CURSORS), k, -1)
    return 0


def _count_races(m, row):  # type: ignore[no-untyped-def]
    """Add to each class of places how many different addresses race in an array's memory."""
    words, cells, shared, shift = _get(m, WORDS), _get(row, CELLS), _get(row, SHARED), _get(row, SHIFT)
    size = 8 * (_SETS + 5 * words)
    for k in range(_get(row, CELL_COUNT)):
        cell = cells + size * k
        for c in range(_get(m, CLASS_COUNT)):
            members = _get(m, CLASSES) + 8 * (_CLASS + words) * c
            hit = 0
            if _get(members, 0) == shared:
                for w in range(words):
                    here = _get(cell, _SETS + 4 * words + w) & _get(members, _CLASS + w)
                    for b in range(64):
                        if hit == 0 and here >> b & 1:
                            nbytes = _get(_get(m, TABLE) + 8 * _PLACE * (64 * w + b), NBYTES)
                            for more in range(max(1, nbytes >> shift)):
                                hit |= _get(cell + size * more, _SETS + w) >> b & 1
            if hit:
                _put(members, 1, _get(members, 1) + 1)


def _end_block(m):  # type: ignore[no-untyped-def]
    """Count the races of a block that ends."""
    _digest(m)
    _look_for_unwritten(m)
    words = _get(m, WORDS)
    size = _SETS + 5 * words
    if _get(m, RACED):
        for k in range(_get(m, ARRAY_COUNT)):
            row = _get(m, ARRAYS) + 8 * _ARRAY * k
            if _get(row, SHARED) and _get(row, CELLS):
                _count_races(m, row)
    for k in range(_get(m, ARRAY_COUNT)):
        row = _get(m, ARRAYS) + 8 * _ARRAY * k
        if _get(m, RACED) and _get(row, SHARED) and _get(row, CELLS):
            for cell in range(_get(row, CELL_COUNT)):
                for w in range(words):
                    _put(_get(row, CELLS), size * cell + _SETS + w, 0)
                    _put(_get(row, CELLS), size * cell + _SETS + 4 * words + w, 0)
    _put(m, RACED, 0)


def begin_block(m, block):  # type: ignore[no-untyped-def]
    """Prepare a block that starts."""
    if _get(m, GRID):
        _enter(m, block)
    else:
        if _get(m, BLOCKS):
            _end_block(m)
        _put(m, BLOCK, block)
        _put(m, BLOCKS, _get(m, BLOCKS) + 1)
    _put(m, PHASE, 0)
    for warp in range((_get(m, THREADS) + WARP - 1) // WARP):
        _put(_get(m, WARPS), _WARP * warp, 0)
    _new_groups(m)
    return 0


def place_array(m, number, address, step):  # type: ignore[no-untyped-def]
    """Record where an array in shared memory begins, and the distance in bytes to the next block's array."""
    row = _get(m, ARRAYS) + 8 * _ARRAY * number
    start = _get(row, DELTA)  # the address in a GPU's shared memory, until here
    _put(row, LOW, address)
    _put(row, HIGH, address + _get(row, HIGH))
    _put(row, DELTA, address - start)
    _put(row, CELLS_LOW, address)
    _put(row, STEP, step)
    return 0


def end_launch(m):  # type: ignore[no-untyped-def]
    """Count what remains at the end of a launch."""
    raced = _get(m, RACED)
    for block in range(_get(m, GRID)):
        _enter(m, block)
        _put(m, RACED, raced)
        _end_block(m)
    if _get(m, GRID) == 0:
        _end_block(m)
    if _get(m, GLOBAL_RACED):
        for k in range(_get(m, ARRAY_COUNT)):
            row = _get(m, ARRAYS) + 8 * _ARRAY * k
            if _get(row, SHARED) == 0 and _get(row, CELLS) and _get(row, CELL_COUNT):
                _count_races(m, row)
    return 0


# ---------------------------------------------------------------- machine code

#: The functions that kernels call, by the numbers that hold their addresses.
FUNCTIONS: dict[int, Any] = {
    TOUCH: touch,
    AT_BARRIER: at_barrier,
    BEFORE_WARPS: before_warps,
    AT_WARP: at_warp,
    BEGIN_BLOCK: begin_block,
    ENTER_BLOCK: enter_block,
    AT_GRID: at_grid,
    PLACE_ARRAY: place_array,
    END_LAUNCH: end_launch,
}


@functools.cache
def machine_code() -> tuple[dict[int, int], Any]:
    """Return the addresses of the functions, whose machine code is kept on disk, and an object that keeps it alive."""
    digest = hashlib.sha256(f"{sys.version} {numba.__version__} {llvmlite.__version__} {MISALIGNED}".encode())
    for file in (__file__, integers.__file__):
        digest.update(Path(file).read_bytes())
    return integers.addresses(FUNCTIONS, f"meter-{digest.hexdigest()[:16]}")


def call(builder: Any, number: int, args: list[Any]) -> Any:
    """Call a function of `FUNCTIONS` in generated code; the first argument is the meter's address."""
    word = args[0].type
    place = builder.inttoptr(builder.add(args[0], word(8 * number)), word.as_pointer())
    kind = ir.FunctionType(word, [word] * len(args))
    return builder.call(builder.inttoptr(builder.load(place), kind.as_pointer()), args)


# ---------------------------------------------------------------- a launch


class AccessPlace(NamedTuple):
    """An access in the source of a kernel.

    Attributes:
        array: the number of its array; -1 if only the address identifies it.
        nbytes: the bytes of one access; for a complex number, of one part.
        alignment: a number that divides its address.
        reads: whether the access must not reach unwritten shared memory.
        line: the number of its line among the kernel's lines.
        source_line: the line in the file.
    """

    array: int
    kind: int
    nbytes: int
    alignment: int
    reads: bool
    line: int
    source_line: int


@dataclass
class Memory:
    """An array of a launch.

    Attributes:
        low, high: the first address on the host and the one after the last; of shared memory, 0 and its bytes.
        start: the address on a GPU of the array's first element, and on the host.
        unit: a power of two that divides the addresses of its elements.
    """

    name: str
    low: int
    high: int
    start: int
    host_start: int
    shared: bool
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    unit: int

    def index_of(self, offset: int) -> tuple[int, ...]:
        """Return the index of the element at a distance in bytes from the first."""
        index = []
        for stride in self.strides:
            place, offset = divmod(offset, stride) if stride else (0, offset)
            index.append(place)
        return tuple(index)


class Meter:
    """The counters of a traced launch.

    Args:
        keep: how many single accesses to keep.
        grid: the number of blocks of a grid that synchronizes; 0 of others.

    Attributes:
        header: the numbers that are passed to the kernel.
        places: the places of the kernel, and for places with an unknown array one for each array.
        unwritten: for each place, (1, thread, block, address) of a read of shared memory that no thread wrote.
        counts: for each place, accesses, requests, bytes, sectors, used bytes and conflicts.
    """

    def __init__(self, places: Sequence[AccessPlace], arrays: Sequence[Memory], threads: int, keep: int, grid: int = 0):
        self.arrays, self._room = [*arrays], keep
        #: The launch's array of errors: a full meter stops the launch.
        self.error: Any = None
        self.places, firsts = [*places], []
        for each in places:
            firsts.append(len(self.places))
            if each.array < 0:
                self.places += [each._replace(array=k) for k in range(len(arrays))]
        count, warps = len(self.places), -(-threads // WARP)
        words = max(1, -(-count // 64))
        self._held: dict[int, Any] = {}
        self.header = np.zeros(LENGTH, np.int64)
        self._numbers(PLACES=count, WORDS=words, THREADS=threads, TAG=2, ARRAY_COUNT=len(arrays))
        self._numbers(GRID=grid, LAUNCH_TAG=1)
        table = np.zeros((max(count, 1), _PLACE), np.int64)
        for k, each in enumerate(self.places):
            first = firsts[k] if k < len(firsts) else 0
            table[k] = each.nbytes, each.kind, each.array, each.alignment, first, each.reads, each.line
        self._hold(TABLE, table)
        self.counts = self._hold(COUNTS, np.zeros((max(count, 1), COUNTED), np.int64))
        self._hold(CURSORS, np.full(32 * warps * max(count, 1), -1, np.int64))
        self._hold(HEADS, np.full(warps * max(count, 1), -1, np.int64))
        states = self._hold(STATES, np.zeros((max(grid, 1), _STATE + warps * _WARP), np.int64))
        self.header[WARPS] = states.ctypes.data + 8 * _STATE
        self._hold(UNWRITTEN, np.zeros((_UNWRITTEN_MOST, 4), np.int64))
        widest = max((each.nbytes for each in self.places), default=1)
        self._hold(SCRATCH, np.zeros(2 * _BANKS + WARP * (widest // _WORD + 2), np.int64))
        self.unwritten = self._hold(SEEN, np.zeros((max(count, 1), 4), np.int64))
        self._pool = self._hold(POOL, np.empty((_SLOTS, _SLOT), np.int64))
        self.header[CAPACITY] = _SLOTS
        self._logs: list[Any] = []
        if keep:
            self._new_log()
        self._follow_memory(words)
        self._classify(words)
        self._callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(self._called)
        for number, address in machine_code()[0].items():
            self.header[number] = address
        self.header[CALL] = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def _numbers(self, **numbers: int) -> None:
        for name, value in numbers.items():
            self.header[globals()[name]] = value

    def _hold(self, place: int, array: Any) -> Any:
        """Store an array's address in the header."""
        self._held[place] = array
        self.header[place] = array.ctypes.data
        return array

    def _called(self, which: int) -> int:
        """Allocate slots (0) or records (1), when machine code asks for more."""
        try:
            if which:
                self._logs.append(self._log[: self.header[LOG_END]])
                self._room -= _RECORDS
                self._new_log()
            elif len(self._pool) >= _MOST_SLOTS:
                self._fill()
            else:
                pool = np.empty((2 * len(self._pool), _SLOT), np.int64)
                pool[: len(self._pool)] = self._pool
                self._pool = self._hold(POOL, pool)
                self.header[CAPACITY] = len(pool)
        except MemoryError:
            self._fill()
        return 0

    def _fill(self) -> None:
        self.header[FULL] = 1
        if self.error is not None:
            self.error[STOP] = 1

    def _new_log(self) -> None:
        if self._room <= 0:
            self.header[LOG] = 0
            return
        self._log = self._hold(LOG, np.empty((_RECORDS, RECORD), np.int64))
        self.header[LOG_AT], self.header[LOG_END] = 0, min(_RECORDS, self._room)

    def _follow_memory(self, words: int) -> None:
        """Make the cells for memory that a kernel writes."""
        rows = np.zeros((max(len(self.arrays), 1), _ARRAY), np.int64)
        written = {each.array for each in self.places if each.kind != READ}
        size = _SETS + 5 * words
        # Arrays that share memory share cells.
        spans: list[list[int]] = []
        order = sorted((k for k, a in enumerate(self.arrays) if not a.shared), key=lambda k: self.arrays[k].low)
        for k in order:
            if spans and self.arrays[k].low < max(self.arrays[j].high for j in spans[-1]):
                spans[-1].append(k)
            else:
                spans.append([k])
        spans += [[k] for k, a in enumerate(self.arrays) if a.shared]
        self._cells = []
        for span in spans:
            members = [self.arrays[k] for k in span]
            low, high = min(a.low for a in members), max(a.high for a in members)
            units = [a.unit for a in members] + [a.host_start - low for a in members if not a.shared]
            units += [each.nbytes for each in self.places if each.array in span]
            unit = math.gcd(*units)
            shift = (unit & -unit).bit_length() - 1
            cells = (high - low >> shift) + 1
            for k, a in zip(span, members, strict=True):
                delta = a.start if a.shared else a.host_start - a.start
                rows[k, [LOW, HIGH, DELTA]] = a.low, a.high, delta
                rows[k, [CELLS_LOW, SHIFT, SHARED]] = low, shift, a.shared
            if (written & {*span} or members[0].shared) and high > low:
                widest = max((each.nbytes for each in self.places), default=1) >> shift
                blocks = max(int(self.header[GRID]), 1) if members[0].shared else 1
                made = np.zeros((blocks, cells + widest, size), np.int64)
                self._cells.append(made)
                rows[span, CELLS], rows[span, CELLS_STEP] = made.ctypes.data, made.strides[0]
                rows[span[0], CELL_COUNT] = cells
        self._hold(ARRAYS, rows)

    def _classify(self, words: int) -> None:
        """Make the classes of places whose races are counted together: one for each line, and one for all lines."""
        self._classes: dict[tuple[int, int, int], int] = {}
        members: list[list[int]] = []
        for k, each in enumerate(self.places):
            if each.array >= 0:
                for key in ((each.array, each.kind, each.source_line), (each.array, each.kind, 0)):
                    if key not in self._classes:
                        self._classes[key] = len(members)
                        members.append([])
                    members[self._classes[key]].append(k)
        table = np.zeros((max(len(members), 1), _CLASS + words), np.uint64)
        for c, each_class in enumerate(members):
            table[c, 0] = self.arrays[self.places[each_class[0]].array].shared
            for k in each_class:
                table[c, _CLASS + k // 64] |= np.uint64(1 << k % 64)
        self._class_table = self._hold(CLASSES, table)
        self.header[CLASS_COUNT] = len(members)

    def array_at(self, address: int) -> tuple[int, int]:
        """Return the array at a host address, and the address on a GPU."""
        for k, (low, high, delta) in enumerate(self._held[ARRAYS][:, [LOW, HIGH, DELTA]].tolist()):
            if low <= address < high:
                return k, address - delta
        raise LookupError(address)

    @property
    def full(self) -> bool:
        """Whether there were too many accesses between two barriers."""
        return bool(self.header[FULL])

    @property
    def kept(self) -> bool:
        """Whether all accesses were kept."""
        return int(self.counts[:, ACCESSES].sum()) == len(self.records())

    def races(self, array: int, kind: int, source_line: int = 0) -> int:
        """Return how many elements race, for an array, a kind of access, and a line unless it is 0."""
        return int(self._class_table[self._classes[array, kind, source_line], 1])

    def records(self) -> Any:
        """Return the accesses that were kept, in order; `RECORD` explains their columns."""
        last = [self._log[: self.header[LOG_AT]]] if self.header[LOG] else []
        return np.concatenate([np.empty((0, RECORD), np.int64), *self._logs, *last])
