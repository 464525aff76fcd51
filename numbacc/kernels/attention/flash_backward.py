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
from ..primitives.device.attention_tiles import red_fragment, store_bricks, times
from .flash_gradients import weighing
from .flash_scores import products, starts_of, warpgroup_product
from .flash_spec import BLOCK, ROW, ROWS, WIDE, FlashSpec
from .flash_tiles import keys_loading, reaching, row_place, storing, visiting


def parameters(spec: FlashSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters: maps, addresses, steps, lists of blocks, lengths, sizes and scales."""
    arrays = [*[("int64", max(len(spec.operands), 1))] * 5, *[("int64", max(len(spec.gradients), 1))] * 5]
    return [
        *[("tensor_map", None)] * 6, *[("int64", None)] * 2, *arrays, *[("int64", None)] * 14,
        *[("float32", None)] * 2,
    ]  # fmt: skip


def make(spec: FlashSpec) -> Any:
    """Return the kernel."""
    HIGH, D = spec.queries, spec.head_dim
    PARTS, OUT, SUMS, STEPS = D // WIDE, D // 2, HIGH // 2, HIGH // 16
    BRICK, OWN, TILE = ROW * BLOCK, ROW * ROWS, ROW * ROWS * PARTS  # of 128 keys; of 64 rows; of 64 queries
    STAGE, K, V, RING = 2 * TILE + 1024, 0, PARTS * BRICK, 2 * PARTS * BRICK
    SCORES = RING + 2 * STAGE  # gradients of scores, twice: 128 keys of 64 queries
    BARRIERS, DQ_BYTES = SCORES + 2 * ROW * BLOCK, 4 * WIDE * HIGH
    BY_ROWS, DOWN, DOWN_K = (device.wgmma_descriptor(128, leading, 1024) for leading in (16, OWN, BRICK))
    CAUSAL = spec.is_causal
    # Products for dQ: each warpgroup has half of the columns, or (D = 64) half of the keys.
    DQ_STEPS, DQ_A, DQ_B, DQ_OWN = (8, 0, BRICK, DQ_BYTES) if PARTS == 2 else (4, OWN, OWN, 0)
    multiply, pack = warpgroup_product(spec)
    (advance, tile_of, bits_of, load), (weights, gradients) = visiting(spec), weighing(spec)
    reach, load_keys = reaching(spec), keys_loading(spec, BRICK)
    starts_at, transposed, store = starts_of(spec.operands), products(spec, SUMS, BRICK, OWN), storing(spec, BRICK)

    def kernel(
        map_q, map_k, map_v, map_do, map_dk, map_dv, prepared, dq, addresses, batch_steps, head_steps, query_steps,
        key_steps, ends, end_batches, end_heads, end_queries, end_keys, counts, lists, bits, map_batch, map_head,
        map_width, lengths_q, lengths_kv, rows, keys, heads, group_heads, shift, right, scale, factor,
    ):  # fmt: skip
        group, thread, lane = device.warp_uniform(cuda.threadIdx.x >> 7), cuda.threadIdx.x & 127, cuda.threadIdx.x & 31
        shared = device.dynamic_shared()
        ring, arrived, full = shared + RING, shared + BARRIERS, shared + BARRIERS + 8
        block, kv_head, batch = np.int64(cuda.blockIdx.x), np.int64(cuda.blockIdx.y), np.int64(cuda.blockIdx.z)
        first, all_tiles = block * BLOCK, (rows + BLOCK - 1) // BLOCK * 2
        if cuda.threadIdx.x == 0:  # loads begin before this thread looks at lists of blocks
            load_keys(map_k, map_v, shared + K, arrived, first, kv_head, batch)
        queries, keys, shift, tiles, begin = reach(lengths_q, lengths_kv, batch, rows, keys, first, shift, right)
        last = (kv_head + 1) * group_heads
        blocks = (counts, lists, batch * map_batch + block, map_head, map_width)
        head, k = advance(kv_head * group_heads, np.int64(0), last, tiles, blocks)
        if cuda.threadIdx.x == 0 and head < last:
            tile, _ = tile_of(head, k, begin, blocks)
            load(map_q, map_do, prepared, ring, full, head, tile, batch, (batch * heads + head) * all_tiles)
        cuda.syncthreads()
        own, row = first + ROWS * group, 16 * (thread >> 5) + (lane >> 2)
        place_of_row = row_place(thread)
        k_rows, v_rows = BY_ROWS + ((shared + K + group * OWN) >> 4), BY_ROWS + ((shared + V + group * OWN) >> 4)
        dk, dv, step = device.fill_fragment(0.0, OUT), device.fill_fragment(0.0, OUT), 0
        device.mbarrier_wait_parity(arrived, 0)
        while head < last:
            tile, is_listed = tile_of(head, k, begin, blocks)
            stage, top = step & 1, tile * HIGH
            at, done = ring + stage * STAGE, full + 16 * stage
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
            words = bits_of(head, tile, is_listed, bits + 4 * cuda.threadIdx.x, blocks)
            s, stats = device.wgmma_wait_group(s, PARTS), at + 2 * TILE + 8 * (lane & 3)
            p = weights(s, is_partial, where + (query + shift - key, words), stats, factor)
            # dV is computed while this warpgroup computes dS.
            dv = multiply(dv, pack(p), DOWN + ((at + TILE) >> 4), STEPS, 0, 128, 0, 1)
            # Without a branch here, the compiler would wait for dP before it computes P; the same below.
            device.mbarrier_wait_parity(done, step >> 1 & 1)
            dp = device.wgmma_wait_group(dp, 1)
            to = (ends, end_batches, end_heads, end_queries, end_keys)
            words = pack(gradients(s, p, dp, is_partial, where, to, stats, lane))
            store_bricks(shared + SCORES + stage * BRICK + group * OWN + place_of_row, words, OWN)
            device.fence_proxy_async()
            device.bar_sync(1, 256)  # dS is stored, and both warpgroups have finished the tile before, and its stage
            target = dq + 16 * thread + ((batch * heads + head) * all_tiles + tile) * (4 * D * HIGH) + group * DQ_OWN
            head, k = advance(head, k + 1, last, tiles, blocks)
            if cuda.threadIdx.x == 0 and head < last:
                tile, other, place = tile_of(head, k, begin, blocks)[0], 1 - stage, (batch * heads + head) * all_tiles
                load(map_q, map_do, prepared, ring + other * STAGE, full + 16 * other, head, tile, batch, place)
            a = DOWN + ((shared + SCORES + stage * BRICK + group * DQ_A) >> 4)
            b = DOWN_K + ((shared + K + group * DQ_B) >> 4)
            sums = multiply(device.fill_fragment(0.0, SUMS), a, b, DQ_STEPS, 128, 128, 1, 1)
            dk = multiply(dk, words, DOWN + (at >> 4), STEPS, 0, 128, 0, 1)
            red_fragment(device.wgmma_wait_group(sums, 1), target, 16 * 128)
            device.mbarrier_wait_parity(done, step >> 1 & 1)
            dk, dv, step = device.wgmma_wait_group(dk, 0), device.wgmma_wait_group(dv, 0), step + 1
        dk = device.fragment_map(times, (dk, device.fill_fragment(scale, OUT)))
        device.bar_sync(1, 256)  # nobody reads keys and values any more
        store(map_dk, shared + K + group * OWN, pack(dk), own, 1, kv_head, batch, 2 + group, thread)
        store(map_dv, shared + V + group * OWN, pack(dv), own, 1, kv_head, batch, 2 + group, thread)
        if thread == 0:
            device.cp_async_bulk_wait_group_read(0)

    return kernel
