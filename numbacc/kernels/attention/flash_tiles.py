"""Which tiles a block of a flash attention kernel visits, and how the copy engine (TMA) loads and stores them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitives import device
from ..primitives.device.attention_tiles import ld_int32, store_bricks
from ..primitives.device.emitting import composed
from .flash_scores import tiles_of
from .flash_spec import BLOCK, BLOCK_WORDS, ROW, ROWS, STAGES, WIDE, FlashSpec

__all__ = ["feeding", "keys_loading", "reaching", "row_place", "storing", "visiting"]

#: Bytes of the statistics of a tile: maxima, reciprocals of sums, and rowsum(o do).
STATS = 768


def feeding(spec: FlashSpec) -> tuple[Any, Any]:
    """Return device functions of the forward kernel that load queries, and all tiles of keys and values.

    Barriers follow the stages in shared memory. A stage has a slot for keys and one for values. A slot has two
    barriers: it is full, it is empty. The last barrier is for the queries.
    """
    HIGH, D, PARTS = spec.keys, spec.head_dim, spec.head_dim // WIDE
    BRICK, TILE, OWN_BRICK, OWN = ROW * HIGH, 2 * D * HIGH, ROW * ROWS, 2 * D * ROWS
    RING, BARRIERS, tile_at = 2 * OWN, 2 * OWN + 2 * STAGES * TILE, tiles_of(spec, BLOCK // HIGH)

    @composed
    def load_queries(map_q, shared, first, head, batch):
        """Initialize the barriers, and load queries. One thread does this."""
        full, empty, arrived = shared + BARRIERS, shared + BARRIERS + 16 * STAGES, shared + BARRIERS + 32 * STAGES
        device.mbarrier_init(arrived, 1)
        for slot in range(2 * STAGES):
            device.mbarrier_init(full + 8 * slot, 1)
            device.mbarrier_init(empty + 8 * slot, 2)
        device.fence_mbarrier_init()
        device.mbarrier_arrive_expect_tx(arrived, 2 * OWN)
        for part in range(2 * PARTS):
            corner = (WIDE * (part % PARTS), first + ROWS * (part // PARTS), head, batch)
            device.tma_load(shared + OWN_BRICK * part, map_q, corner, arrived)

    @composed
    def load(tensor_map, shared, slot, phase, tile, head, batch):
        """Load a tile of keys or values into a slot once that is free."""
        at, full = shared + RING + slot * TILE, shared + BARRIERS + 8 * slot
        device.mbarrier_wait_parity(full + 16 * STAGES, phase ^ 1)
        device.mbarrier_arrive_expect_tx(full, TILE)
        for part in range(PARTS):
            device.tma_load(at + part * BRICK, tensor_map, (WIDE * part, tile * HIGH, head, batch), full)

    @composed
    def feed(map_k, map_v, shared, tiles, lists, head, batch):
        """Load all tiles of a block, in turn as stages become free. One thread does this."""
        stage, phase, tile, slot, last_phase, last_tile = 0, 0, np.int64(0), 0, 0, np.int64(0)
        for k in range(tiles + 1):  # keys are needed before the values of the tile before
            if k < tiles:
                tile, _ = tile_at(k, lists)
                load(map_k, shared, 2 * stage, phase, tile, head, batch)
            if k > 0:
                load(map_v, shared, slot, last_phase, last_tile, head, batch)
            slot, last_phase, last_tile = 2 * stage + 1, phase, tile
            phase ^= stage == STAGES - 1
            stage = 0 if stage == STAGES - 1 else stage + 1

    return load_queries, feed


@composed
def row_place(thread):
    """Return the offset of a thread of a warpgroup for `store_bricks` with bricks of 64 rows."""
    lane = thread & 31
    return ROW * (16 * (thread >> 5) + (lane & 15)) + (((lane >> 4) ^ (lane & 7)) << 4)


def storing(spec: FlashSpec, brick: int) -> Any:
    """Return the device function that stores a warpgroup's packed results through shared memory.

    Args:
        brick: bytes of 64 columns in shared memory.
    """
    PARTS = spec.head_dim // WIDE

    @composed
    def store(tensor_map, at, words, row, rows, head, batch, barrier, thread):
        """Store 64 rows if `rows` is above 0. `at` is the address of shared memory that no thread reads."""
        store_bricks(at + row_place(thread), words, brick)
        device.fence_proxy_async()
        device.bar_sync(barrier, 128)
        if thread == 0:
            if rows > 0:
                for part in range(PARTS):
                    device.tma_store(tensor_map, (WIDE * part, row, head, batch), at + brick * part)
            device.cp_async_bulk_commit_group()

    return store


def keys_loading(spec: FlashSpec, brick: int) -> Any:
    """Return the device function of backward kernels that initializes barriers, and loads a block's keys and values.

    Args:
        brick: bytes of 64 columns of the block in shared memory.
    """
    PARTS = spec.head_dim // WIDE

    @composed
    def load_keys(map_k, map_v, at, arrived, first, head, batch):
        """Load keys to shared memory, and values after them. One thread does this."""
        for number in range(5):
            device.mbarrier_init(arrived + 8 * number, 1)
        device.fence_mbarrier_init()
        device.mbarrier_arrive_expect_tx(arrived, 2 * PARTS * brick)
        for part in range(PARTS):
            corner = (WIDE * part, first, head, batch)
            device.tma_load(at + part * brick, map_k, corner, arrived)
            device.tma_load(at + (PARTS + part) * brick, map_v, corner, arrived)

    return load_keys


def reaching(spec: FlashSpec) -> Any:
    """Return the device function of backward kernels that says which tiles of a head see a block of keys."""
    HIGH, HAS_MAP, HAS_LENGTHS, CAUSAL = spec.queries, spec.has_map, spec.has_lengths, spec.is_causal

    @composed
    def reach(lengths_q, lengths_kv, batch, rows, keys, first, shift, right):
        """Return the lengths of queries and keys, the causal mask's shift, the number of tiles, and the first one.

        Args:
            first: the block's first key.
        """
        queries = rows
        if HAS_LENGTHS:
            queries, keys = np.int64(ld_int32(lengths_q + 4 * batch)), np.int64(ld_int32(lengths_kv + 4 * batch))
        shift += right * (keys - queries)
        tiles, begin = (queries + HIGH - 1) // HIGH, np.int64(0)
        if CAUSAL and not HAS_MAP:
            begin = min(max((first - shift) // HIGH, begin), tiles)
        return queries, keys, shift, tiles - begin, begin

    return reach


def visiting(spec: FlashSpec) -> tuple[Any, Any, Any, Any]:
    """Return device functions of backward kernels: the next tile, which tile that is, its bits, and its load.

    A block visits tiles of 64 queries, of all heads that share its keys. `lists` are (counts, lists, row, map_head,
    map_width): addresses, and the row of the block map for head 0.
    """
    HIGH, PARTS, FINE = spec.queries, spec.head_dim // WIDE, BLOCK // 2 // spec.queries  # tiles of 64 queries
    tile_at = tiles_of(spec, FINE)
    HAS_MAP, HAS_BITS, BRICK, TILE = spec.has_map, spec.has_bits, ROW * ROWS, ROW * ROWS * PARTS
    ALL, TILE_WORDS = np.int32(-1), BLOCK_WORDS // 2

    @composed
    def advance(head, k, last, tiles, lists):
        """Return the k-th tile of a head, or else the first one of the next head that has any."""
        if HAS_MAP:
            while head < last and k >= FINE * np.int64(ld_int32(lists[0] + 4 * (lists[2] + head * lists[3]))):
                head, k = head + 1, np.int64(0)
        elif k >= tiles:
            head, k = (head + 1 if tiles > 0 else last), np.int64(0)
        return head, k

    @composed
    def tile_of(head, k, begin, lists):
        """Return the number of a head's k-th tile, and whether the mask cuts it."""
        tile, is_listed = tile_at(k, lists[1] + 4 * (lists[2] + head * lists[3]) * lists[4])
        return tile + begin, is_listed

    @composed
    def bits_of(head, tile, is_listed, bits, lists):
        """Return words with the bits of the thread's scores. `bits` is the address of its word of the first tile."""
        word = ALL
        if HAS_BITS and is_listed > 0:
            word = ld_int32(bits + 4 * TILE_WORDS * ((lists[2] + head * lists[3]) * lists[4] + tile // FINE))
            if FINE > 1:  # the bits of the tile's queries come first
                word = word >> np.int32(16 * (tile % FINE))
        return word, ALL

    @composed
    def load(map_q, map_do, prepared, at, done, head, tile, batch, first):
        """Load queries and statistics of a tile, then output gradients. `first` is the number of the head's first."""
        device.mbarrier_arrive_expect_tx(done, TILE + STATS)
        device.mbarrier_arrive_expect_tx(done + 8, TILE)
        device.cp_async_bulk_load(at + 2 * TILE, prepared + STATS * (first + tile), STATS, done)
        for part in range(PARTS):
            corner = (WIDE * part, tile * HIGH, head, batch)
            device.tma_load(at + part * BRICK, map_q, corner, done)
            device.tma_load(at + TILE + part * BRICK, map_do, corner, done + 8)

    return advance, tile_of, bits_of, load
