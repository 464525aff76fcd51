"""Gradients of flash attention on Hopper, for 64 keys of a warpgroup: scores are computed again, transposed.

A block has 128 keys of a head of keys and values. The copy engine (TMA) loads tiles of 64 queries of all heads that
share the keys, with their output gradients and statistics. Both warpgroups have 64 keys. For a tile they compute
S^T = K Q^T and dP^T = V dO^T, then P^T and dS^T in registers, and add to dV = P^T dO and dK = dS^T Q there.
dQ = dS K needs dS the other way round: it goes through shared memory, and its products are added in global memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base._numba import cuda
from ..primitives import device
from ..primitives.device.attention_tiles import ld_int32, map_tile, red_fragment, store_bricks, times
from ..primitives.device.emitting import composed
from .flash_gradients import adding, chain
from .flash_scores import scoring, starts_of, tiles_of
from .flash_spec import BLOCK, BLOCK_WORDS, ROW, ROWS, WIDE, FlashSpec


def parameters(spec: FlashSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters: maps, addresses, steps, lists of blocks, lengths, sizes and scales."""
    arrays = [*[("int64", max(len(spec.operands), 1))] * 5, *[("int64", max(len(spec.gradients), 1))] * 5]
    return [
        *[("tensor_map", None)] * 6,
        *[("int64", None)] * 2,
        *arrays,
        *[("int64", None)] * 14,
        *[("float32", None)] * 2,
    ]


def make(spec: FlashSpec) -> Any:
    """Return the kernel."""
    HIGH, D = spec.queries, spec.head_dim
    PARTS, TILES, OUT, SUMS, STEPS = D // WIDE, HIGH // 8, D // 2, HIGH // 2, HIGH // 16
    BRICK, OWN, TILE = ROW * BLOCK, ROW * ROWS, ROW * ROWS * PARTS  # of 128 keys; of 64 rows; of 64 queries
    STAGE, K, V = 2 * TILE + 1024, 0, PARTS * BRICK
    RING, STATS = 2 * PARTS * BRICK, 2 * TILE
    SCORES = RING + 2 * STAGE  # gradients of scores, twice: 128 keys of 64 queries
    BARRIERS, DQ_BYTES = SCORES + 2 * ROW * BLOCK, 4 * WIDE * HIGH
    BY_ROWS, DOWN, DOWN_K = (device.wgmma_descriptor(128, leading, 1024) for leading in (16, OWN, BRICK))
    ALL, HAS_BITS = np.int32(-1), spec.has_bits
    HAS_SCORE, HAS_MAP, HAS_LENGTHS, CAUSAL = spec.score is not None, spec.has_map, spec.has_lengths, spec.is_causal
    # Products for dQ: each warpgroup has half of the columns, or (D = 64) half of the keys.
    DQ_STEPS, DQ_A, DQ_B = (8, 0, BRICK) if PARTS == 2 else (4, OWN, OWN)
    multiply, pack = (
        (device.wgmma_bf16, device.pack_bf16) if spec.dtype == "bfloat16" else (device.wgmma_f16, device.pack_f16)
    )
    score, partial_score, tile_at = scoring(spec, False), scoring(spec, True), tiles_of(spec, HIGH)
    starts_at, ends_at = starts_of(spec.operands), starts_of([("", along) for _, along in spec.gradients])
    graded, partial_graded, add_sums = chain(spec, False), chain(spec, True), adding(spec, TILES)

    @composed
    def probability(y, top, inverse, key, query, factor):
        return (device.ex2_approx(device.fma_rn(y, factor, -top)) * inverse,)

    @composed
    def slope(p, dp, delta, key, query):
        return (p * (dp - delta),)

    @composed
    def multiply_part(part, sums, a, b):
        return multiply(sums, a + part * (BRICK // 16), b + part * (OWN // 16), 4, 2, 2, 0, 0)

    @composed
    def transposed(a, b):
        return device.unroll(multiply_part, PARTS, device.fill_fragment(0.0, SUMS), (a, b))

    @composed
    def advance(head, k, last, tiles, counts, batch_row, map_head):
        """Return the k-th tile of a head, or else the first one of the next head that has any."""
        if HAS_MAP:
            while head < last and k >= 2 * np.int64(ld_int32(counts + 4 * (batch_row + head * map_head))):
                head, k = head + 1, np.int64(0)
        elif k >= tiles:
            head, k = (head + 1 if tiles > 0 else last), np.int64(0)
        return head, k

    @composed
    def load(map_q, map_do, prepared, at, done, head, tile, batch, number):
        device.mbarrier_arrive_expect_tx(done, TILE + 768)
        device.mbarrier_arrive_expect_tx(done + 8, TILE)
        device.cp_async_bulk_load(at + STATS, prepared + 768 * number, 768, done)
        for part in range(PARTS):
            corner = (WIDE * part, tile * HIGH, head, batch)
            device.tma_load(at + part * OWN, map_q, corner, done)
            device.tma_load(at + TILE + part * OWN, map_do, corner, done + 8)

    def kernel(
        map_q, map_k, map_v, map_do, map_dk, map_dv, prepared, dq, addresses, batch_steps, head_steps, query_steps,
        key_steps, ends, end_batches, end_heads, end_queries, end_keys, counts, lists, bits, map_batch, map_head,
        map_width, lengths_q, lengths_kv, rows, keys, heads, group_heads, shift, right, scale, factor,
    ):  # fmt: skip
        group, thread, lane = device.warp_uniform(cuda.threadIdx.x >> 7), cuda.threadIdx.x & 127, cuda.threadIdx.x & 31
        shared = device.dynamic_shared()
        ring, arrived, full = shared + RING, shared + BARRIERS, shared + BARRIERS + 8
        all_tiles = (rows + BLOCK - 1) // BLOCK * 2
        block, kv_head, batch = np.int64(cuda.blockIdx.x), np.int64(cuda.blockIdx.y), np.int64(cuda.blockIdx.z)
        first, queries = block * BLOCK, rows
        if cuda.threadIdx.x == 0:  # loads begin before this thread looks at lists of blocks
            for number in range(5):
                device.mbarrier_init(arrived + 8 * number, 1)
            device.fence_mbarrier_init()
            device.mbarrier_arrive_expect_tx(arrived, 2 * PARTS * BRICK)
            for part in range(PARTS):
                corner = (WIDE * part, first, kv_head, batch)
                device.tma_load(shared + K + part * BRICK, map_k, corner, arrived)
                device.tma_load(shared + V + part * BRICK, map_v, corner, arrived)
        if HAS_LENGTHS:
            queries, keys = np.int64(ld_int32(lengths_q + 4 * batch)), np.int64(ld_int32(lengths_kv + 4 * batch))
        shift += right * (keys - queries)
        tiles, begin = (queries + HIGH - 1) // HIGH, np.int64(0)
        if CAUSAL and not HAS_MAP:
            begin = min(max((first - shift) // HIGH, begin), tiles)
        tiles, batch_row, last = tiles - begin, batch * map_batch + block, (kv_head + 1) * group_heads
        head, k = advance(kv_head * group_heads, np.int64(0), last, tiles, counts, batch_row, map_head)
        if cuda.threadIdx.x == 0 and head < last:
            tile = begin + tile_at(k, lists + 4 * (batch_row + head * map_head) * map_width)[0]
            load(map_q, map_do, prepared, ring, full, head, tile, batch, (batch * heads + head) * all_tiles + tile)
        cuda.syncthreads()
        own, row = first + ROWS * group, 16 * (thread >> 5) + (lane >> 2)
        place_of_row = ROW * (16 * (thread >> 5) + (lane & 15)) + (((lane >> 4) ^ (lane & 7)) << 4)
        k_rows, v_rows = BY_ROWS + ((shared + K + group * OWN) >> 4), BY_ROWS + ((shared + V + group * OWN) >> 4)
        dk, dv, step = device.fill_fragment(0.0, OUT), device.fill_fragment(0.0, OUT), 0
        device.mbarrier_wait_parity(arrived, 0)
        while head < last:
            tile, is_listed = tile_at(k, lists + 4 * (batch_row + head * map_head) * map_width)
            tile, stage = tile + begin, step & 1
            at, done, top = ring + stage * STAGE, full + 16 * stage, tile * HIGH
            is_partial = is_listed > 0 or top + HIGH > queries or own + ROWS > keys
            if CAUSAL:
                is_partial = is_partial or own + ROWS - 1 > top + shift
            device.mbarrier_wait_parity(done, step >> 1 & 1)
            s = transposed(k_rows, BY_ROWS + (at >> 4))
            device.mbarrier_wait_parity(done + 8, step >> 1 & 1)
            dp = transposed(v_rows, BY_ROWS + ((at + TILE) >> 4))
            query, key = top + 2 * (lane & 3), own + row
            starts = starts_at(addresses, batch_steps, head_steps, batch, head)
            where = (query, key, batch, head, starts, query_steps, key_steps, scale, queries - query, keys - key)
            words = (ALL, ALL)
            if HAS_BITS and is_listed > 0:
                place = (batch_row + head * map_head) * map_width * BLOCK_WORDS + tile * (BLOCK_WORDS // 2)
                words = (ld_int32(bits + 4 * (place + cuda.threadIdx.x)), ALL)
            given = where + (query + shift - key, words)
            s = device.wgmma_wait_group(s, PARTS)
            y = s
            if is_partial:
                y = device.fragment_map_positions(partial_score, s, TILES, given)
            elif HAS_SCORE:
                y = device.fragment_map_positions(score, s, TILES, given)
            stats = at + STATS + 8 * (lane & 3)
            p = map_tile(probability, (y,), (stats, stats + 256), TILES, (factor,))[0]
            # dV is computed while this warpgroup computes dS.
            dv = multiply(dv, pack(p), DOWN + ((at + TILE) >> 4), STEPS, 0, 128, 0, 1)
            # Without a branch here, the compiler would wait for dP before it computes P; the same below.
            device.mbarrier_wait_parity(done, step >> 1 & 1)
            dp = device.wgmma_wait_group(dp, 1)
            ds = map_tile(slope, (p, dp), (stats + 512,), TILES, ())[0]
            if HAS_SCORE:
                to = ends_at(ends, end_batches, end_heads, batch, head)
                more = where + (to, end_queries, end_keys)
                if is_partial:
                    found = map_tile(partial_graded, (s, ds), (), TILES, more)
                else:
                    found = map_tile(graded, (s, ds), (), TILES, more)
                ds = found[0]
                add_sums(found, to, end_keys, key, keys - key, lane)
            words = pack(ds)
            store_bricks(shared + SCORES + stage * BRICK + group * OWN + place_of_row, words, OWN)
            device.fence_proxy_async()
            device.bar_sync(1, 256)  # dS is there; and both warpgroups have finished the tile before, and its stage
            target = dq + 16 * thread + ((batch * heads + head) * all_tiles + tile) * (4 * D * HIGH)
            if PARTS == 2:
                target += group * DQ_BYTES
            head, k = advance(head, k + 1, last, tiles, counts, batch_row, map_head)
            if cuda.threadIdx.x == 0 and head < last:
                tile = begin + tile_at(k, lists + 4 * (batch_row + head * map_head) * map_width)[0]
                other, place = 1 - stage, (batch * heads + head) * all_tiles + tile
                load(map_q, map_do, prepared, ring + other * STAGE, full + 16 * other, head, tile, batch, place)
            a = DOWN + ((shared + SCORES + stage * BRICK + group * DQ_A) >> 4)
            b = DOWN_K + ((shared + K + group * DQ_B) >> 4)
            sums = multiply(device.fill_fragment(0.0, SUMS), a, b, DQ_STEPS, 128, 128, 1, 1)
            dk = multiply(dk, words, DOWN + (at >> 4), STEPS, 0, 128, 0, 1)
            sums = device.wgmma_wait_group(sums, 1)
            red_fragment(sums, target, 16 * 128)
            device.mbarrier_wait_parity(done, step >> 1 & 1)
            dk, dv = device.wgmma_wait_group(dk, 0), device.wgmma_wait_group(dv, 0)
            step += 1
        dk = device.fragment_map(times, (dk, device.fill_fragment(scale, OUT)))
        device.bar_sync(1, 256)  # nobody reads keys and values any more
        store_bricks(shared + K + group * OWN + place_of_row, pack(dk), BRICK)
        store_bricks(shared + V + group * OWN + place_of_row, pack(dv), BRICK)
        device.fence_proxy_async()
        device.bar_sync(2 + group, 128)
        if thread == 0:
            for part in range(PARTS):
                corner = (WIDE * part, own, kv_head, batch)
                device.tma_store(map_dk, corner, shared + K + part * BRICK + group * OWN)
                device.tma_store(map_dv, corner, shared + V + part * BRICK + group * OWN)
            device.cp_async_bulk_commit_group()
            device.cp_async_bulk_wait_group_read(0)

    return kernel
