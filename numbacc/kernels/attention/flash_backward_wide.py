"""Gradients of flash attention on Hopper for heads of 256 elements, with a different task for each warpgroup.

A block has 64 keys. A thread's registers have room for the sums of dV = P^T dO or of dK = dS^T Q, not for both. So the
first warpgroup computes S^T = K Q^T and adds to dV. The second one computes dP^T = V dO^T and adds to dK. S^T goes
through shared memory, so that both compute P^T. Each adds half of the columns of dQ = dS K in global memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base._numba import cuda
from ..primitives import device
from ..primitives.device.attention_tiles import (
    ld_shared_fragment,
    red_fragment,
    st_shared_fragment,
    store_bricks,
    times,
)
from .flash_backward import parameters
from .flash_gradients import weighing
from .flash_scores import products, starts_of, warpgroup_product
from .flash_spec import BLOCK, ROW, ROWS, WIDE, FlashSpec
from .flash_tiles import keys_loading, reaching, row_place, storing, visiting

__all__ = ["make", "parameters"]

#: Named barriers: for both warpgroups; after the store of S^T; for results of the first warpgroup (then the second).
BOTH, SCORED, RESULT = 1, 2, 3


def make(spec: FlashSpec) -> Any:
    """Return the kernel."""
    HIGH, D = spec.queries, spec.head_dim
    PARTS, OUT, HALF, SUMS, STEPS = D // WIDE, D // 2, D // 4, HIGH // 2, HIGH // 16
    BRICK, TILE = ROW * ROWS, ROW * ROWS * PARTS  # 64 columns of 64 rows; all columns
    STAGE, K, V, RING = 2 * TILE + 1024, 0, TILE, 2 * TILE
    SLOPES = RING + 2 * STAGE  # gradients of scores, twice: 64 keys of 64 queries
    SCORES = SLOPES + 2 * BRICK  # products of keys and queries in float32
    BARRIERS, DQ_BYTES = SCORES + 2 * BRICK, 4 * WIDE * HIGH * PARTS // 2
    BY_ROWS, DOWN = device.wgmma_descriptor(128, 16, 1024), device.wgmma_descriptor(128, BRICK, 1024)
    CAUSAL, ONE = spec.is_causal, np.float32(1)
    multiply, pack = warpgroup_product(spec)
    (advance, tile_of, bits_of, load), (weights, gradients) = visiting(spec), weighing(spec)
    reach, load_keys = reaching(spec), keys_loading(spec, BRICK)
    starts_at, transposed, store = starts_of(spec.operands), products(spec, SUMS, BRICK, BRICK), storing(spec, BRICK)

    def kernel(
        map_q, map_k, map_v, map_do, map_dk, map_dv, prepared, dq, addresses, batch_steps, head_steps, query_steps,
        key_steps, ends, end_batches, end_heads, end_queries, end_keys, counts, lists, bits, map_batch, map_head,
        map_width, lengths_q, lengths_kv, rows, keys, heads, group_heads, shift, right, scale, factor,
    ):  # fmt: skip
        group, thread, lane = device.warp_uniform(cuda.threadIdx.x >> 7), cuda.threadIdx.x & 127, cuda.threadIdx.x & 31
        shared = device.dynamic_shared()
        ring, arrived, full = shared + RING, shared + BARRIERS, shared + BARRIERS + 8
        block, kv_head, batch = np.int64(cuda.blockIdx.x), np.int64(cuda.blockIdx.y), np.int64(cuda.blockIdx.z)
        first, all_tiles = block * ROWS, (rows + BLOCK - 1) // BLOCK * 2
        if cuda.threadIdx.x == 0:  # loads begin before this thread looks at lists of blocks
            load_keys(map_k, map_v, shared + K, arrived, first, kv_head, batch)
        queries, keys, shift, tiles, begin = reach(lengths_q, lengths_kv, batch, rows, keys, first, shift, right)
        last = (kv_head + 1) * group_heads
        # A block of the block map has 128 keys.
        blocks = (counts, lists, batch * map_batch + (block >> 1), map_head, map_width)
        head, k = advance(kv_head * group_heads, np.int64(0), last, tiles, blocks)
        if cuda.threadIdx.x == 0 and head < last:
            tile, _ = tile_of(head, k, begin, blocks)
            load(map_q, map_do, prepared, ring, full, head, tile, batch, (batch * heads + head) * all_tiles)
        cuda.syncthreads()
        key, bits = first + 16 * (thread >> 5) + (lane >> 2), bits + 4 * (128 * (block & 1) + thread)
        scores = shared + SCORES + 16 * thread
        sums, step = device.fill_fragment(0.0, OUT), 0  # of dV, or of dK
        device.mbarrier_wait_parity(arrived, 0)
        while head < last:
            tile, is_listed = tile_of(head, k, begin, blocks)
            stage, top = step & 1, tile * HIGH
            at, done = ring + stage * STAGE, full + 16 * stage
            is_partial = is_listed > 0 or top + HIGH > queries or first + ROWS > keys
            if CAUSAL:
                is_partial = is_partial or first + ROWS - 1 > top + shift
            query, stats = top + 2 * (lane & 3), at + 2 * TILE + 8 * (lane & 3)
            starts = starts_at(addresses, batch_steps, head_steps, batch, head)
            where = (query, key, batch, head, starts, query_steps, key_steps, scale, queries - query, keys - key)
            given = where + (query + shift - key, bits_of(head, tile, is_listed, bits, blocks))
            if group == 0:
                device.mbarrier_wait_parity(done, step >> 1 & 1)
                s = device.wgmma_wait_group(transposed(BY_ROWS + ((shared + K) >> 4), BY_ROWS + (at >> 4)), 0)
                st_shared_fragment(scores, s, 16 * 128)
                device.bar_arrive(SCORED, 256)
                words = pack(weights(s, is_partial, given, stats, factor))
                device.mbarrier_wait_parity(done + 8, step >> 1 & 1)
            else:
                device.mbarrier_wait_parity(done + 8, step >> 1 & 1)
                dp = transposed(BY_ROWS + ((shared + V) >> 4), BY_ROWS + ((at + TILE) >> 4))
                device.mbarrier_wait_parity(done, step >> 1 & 1)
                device.bar_sync(SCORED, 256)
                s = ld_shared_fragment(scores, SUMS, 16 * 128)
                p = weights(s, is_partial, given, stats, factor)
                # Without a branch here, the compiler would wait for dP before it computes P.
                device.mbarrier_wait_parity(done, step >> 1 & 1)
                dp, to = device.wgmma_wait_group(dp, 0), (ends, end_batches, end_heads, end_queries, end_keys)
                words = pack(gradients(s, p, dp, is_partial, where, to, stats, lane))
                store_bricks(shared + SLOPES + stage * BRICK + row_place(thread), words, BRICK)
                device.fence_proxy_async()
            sums = multiply(sums, words, DOWN + ((at + TILE - group * TILE) >> 4), STEPS, 0, 128, 0, 1)
            device.bar_sync(BOTH, 256)  # dS is stored, and both warpgroups have finished the tile before, and its stage
            target = dq + 16 * thread + ((batch * heads + head) * all_tiles + tile) * (4 * D * HIGH) + group * DQ_BYTES
            head, k = advance(head, k + 1, last, tiles, blocks)
            if cuda.threadIdx.x == 0 and head < last:
                tile, other, place = tile_of(head, k, begin, blocks)[0], 1 - stage, (batch * heads + head) * all_tiles
                load(map_q, map_do, prepared, ring + other * STAGE, full + 16 * other, head, tile, batch, place)
            a = DOWN + ((shared + SLOPES + stage * BRICK) >> 4)
            b = DOWN + ((shared + K + group * (TILE // 2)) >> 4)
            part = multiply(HALF, a, b, STEPS, 128, 128, 1, 1)
            sums = device.wgmma_wait_group(sums, 1)
            red_fragment(device.wgmma_wait_group(part, 0), target, 16 * 128)
            step += 1
        sums = device.fragment_map(times, (sums, device.fill_fragment(scale if group > 0 else ONE, OUT)))
        device.bar_sync(BOTH, 256)  # nobody reads keys and values any more
        if group == 0:
            store(map_dv, shared + V, pack(sums), first, 1, kv_head, batch, RESULT, thread)
        else:
            store(map_dk, shared + K, pack(sums), first, 1, kv_head, batch, RESULT + 1, thread)
        if thread == 0:
            device.cp_async_bulk_wait_group_read(0)

    return kernel
