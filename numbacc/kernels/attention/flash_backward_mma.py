"""Gradients of flash attention without wgmma: scores are computed again, transposed, for 16 keys of a warp.

A block has 128 keys. For a tile of queries, a warp computes S^T = K Q^T and dP^T = V dO^T, then P^T and dS^T in
registers, and adds to dV = P^T dO and dK = dS^T Q there. dQ = dS K needs dS the other way round: it goes through shared
memory, and each warp adds some of its products in global memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base._numba import cuda
from ..primitives import device
from ..primitives.device.attention_tiles import cp_async_tile, red_columns, store_rows, times, unroll_columns
from ..primitives.device.emitting import composed
from .flash_gradients import weighing
from .flash_scores import starts_of, warp_product
from .flash_spec import BLOCK, FlashSpec
from .flash_tiles import reaching, visiting


def parameters(spec: FlashSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters: addresses and steps, lists of blocks, lengths, sizes and scales."""
    arrays = [*[("int64", max(len(spec.operands), 1))] * 5, *[("int64", max(len(spec.gradients), 1))] * 5]
    return [*[("int64", 4)] * 6, *[("int64", None)] * 2, *arrays, *[("int64", None)] * 16, *[("float32", None)] * 2]


def make(spec: FlashSpec) -> Any:
    """Return the kernel."""
    HIGH, D, ROW, CHUNKS = spec.queries, spec.head_dim, 2 * spec.head_dim, spec.head_dim // 8
    TILES, OUT_TILES, OUT, SUMS, WIDE, DEEP = HIGH // 8, D // 8, D // 2, HIGH // 2, D // 16, HIGH // 16
    STEP, TILE, SIXTEEN, EIGHT_SCORES, PIECE = spec.threads // CHUNKS, ROW * HIGH, 16 * ROW, 16 * HIGH, HIGH // 4
    # Keys, values, two tiles of queries, one of output gradients, gradients of scores, two times statistics.
    V, Q, DO, SCORES = ROW * BLOCK, 2 * ROW * BLOCK, 2 * ROW * BLOCK + 2 * TILE, 2 * ROW * BLOCK + 3 * TILE
    STATS, NEXT, COPIES = SCORES + 2 * HIGH * BLOCK, STEP * ROW, HIGH // STEP
    # Warps share the products of a tile for dQ: each has 16 queries and a part of the columns.
    DQ_ROWS, DQ_STEPS, DQ_PAIRS, DQ_SUMS, DQ_PART = HIGH // 16, 8, D * HIGH // 2048, D * HIGH // 256, D * HIGH // 1024
    # 16 bytes c of row r lie at c ^ (r % 8); of gradients of scores at c ^ (r / 2 % 4), if their rows have 64 bytes.
    HALF, MASK = (0, 7) if HIGH == 64 else (1, 3)
    CAUSAL = spec.is_causal
    (advance, tile_of, bits_of, _), (weights, gradients) = visiting(spec), weighing(spec)
    starts_at, (multiply, pack), reach = starts_of(spec.operands), warp_product(spec), reaching(spec)

    @composed
    def add_transposed(k, sums, own, tile):
        rows = device.ldmatrix_x4(own ^ (k << 5), 1, SIXTEEN)
        return multiply(sums, rows, device.ldmatrix_x4(tile ^ (k << 5), DEEP, SIXTEEN))

    @composed
    def add_product(k, out, rows, tile):
        return multiply(out, rows, device.ldmatrix_x4_trans_xor(tile + k * SIXTEEN, WIDE, 32))

    @composed
    def add_dq(k, sums, scores, keys):
        rows = device.ldmatrix_x4_trans(scores + 2 * k * EIGHT_SCORES, 1, 16)
        return multiply(sums, rows, device.ldmatrix_x4_trans_xor(keys + k * SIXTEEN, DQ_PAIRS, 32))

    @composed
    def copy(to, array, batch, head, row, rows, width):
        """Begin a thread's part of the copy of a tile's rows of an array."""
        line, chunk = cuda.threadIdx.x // CHUNKS, cuda.threadIdx.x % CHUNKS
        source = array[0] + batch * array[1] + head * array[2] + (row + line) * array[3] + 16 * chunk
        left = np.int32(rows - row - line) if 8 * chunk < width else np.int32(0)
        cp_async_tile(to + ROW * line + ((chunk ^ (line & 7)) << 4), source, COPIES, STEP, NEXT, array[3], left)

    @composed
    def load(shared, stage, q, do, prepared, batch, head, tile, rows, width, value_width, first):
        """Begin the copies of queries, output gradients and statistics. `first` is the number of the head's first."""
        row, thread = tile * HIGH, cuda.threadIdx.x
        copy(shared + Q + stage * TILE, q, batch, head, row, rows, width)
        copy(shared + DO, do, batch, head, row, rows, value_width)
        if thread < 3 * PIECE:
            at = prepared + 768 * (first + row // 64) + 4 * (row % 64)
            own = 256 * (thread // PIECE) + 16 * (thread % PIECE)
            device.cp_async(shared + STATS + 768 * stage + own, at + own, 16)
        device.cp_async_commit_group()

    def kernel(
        q, k, v, do, dk_to, dv_to, prepared, dq, addresses, batch_steps, head_steps, query_steps, key_steps, ends,
        end_batches, end_heads, end_queries, end_keys, counts, lists, bits, map_batch, map_head, map_width, lengths_q,
        lengths_kv, rows, keys, heads, group_heads, shift, right, width, value_width, scale, factor,
    ):  # fmt: skip
        lane, warp, shared = cuda.threadIdx.x & 31, device.warp_uniform(cuda.threadIdx.x >> 5), device.dynamic_shared()
        block, kv_head, batch = np.int64(cuda.blockIdx.x), np.int64(cuda.blockIdx.y), np.int64(cuda.blockIdx.z)
        first, all_keys, all_tiles = block * BLOCK, keys, (rows + BLOCK - 1) // BLOCK * 2
        queries, keys, shift, tiles, begin = reach(lengths_q, lengths_kv, batch, rows, keys, first, shift, right)
        last = (kv_head + 1) * group_heads
        blocks = (counts, lists, batch * map_batch + block, map_head, map_width)
        head, number = advance(kv_head * group_heads, np.int64(0), last, tiles, blocks)
        if head < last:
            for piece in range(BLOCK // HIGH):
                row, at = first + piece * HIGH, shared + piece * TILE
                copy(at, k, batch, kv_head, row, keys, width)
                copy(at + V, v, batch, kv_head, row, keys, value_width)
            tile, place = tile_of(head, number, begin, blocks)[0], (batch * heads + head) * all_tiles
            load(shared, 0, q, do, prepared, batch, head, tile, rows, width, value_width, place)
        # Where a warp's rows of a left factor begin, rows of a right one, and the factors and products for dQ.
        own, row, bits = first + 16 * warp, lane >> 2, bits + 4 * cuda.threadIdx.x
        down, part, dq_row = (lane & 7) + 8 * (lane >> 4), warp // DQ_ROWS, warp % DQ_ROWS
        left = ROW * (lane & 15) + (((lane >> 4) ^ (lane & 7)) << 4)
        columns = ROW * down + ((((lane >> 3) & 1) ^ (lane & 7)) << 4)
        dq_scores = 2 * HIGH * down + (((((lane >> 3) & 1) + 2 * dq_row) ^ ((down >> HALF) & MASK)) << 4)
        dq_keys = shared + ROW * (lane & 15) + ((((lane >> 4) + DQ_PART * part) ^ (lane & 7)) << 4)
        to_scores = 2 * HIGH * (16 * warp + row) + (((row >> HALF) & MASK) << 4) + 4 * (lane & 3)
        dk, dv, stage = device.fill_fragment(0.0, OUT), device.fill_fragment(0.0, OUT), 0
        while head < last:
            tile, is_listed = tile_of(head, number, begin, blocks)
            top, at = tile * HIGH, shared + Q + stage * TILE
            is_partial = is_listed > 0 or top + HIGH > queries or own + 16 > keys
            if CAUSAL:
                is_partial = is_partial or own + 15 > top + shift
            query, key, stats = top + 2 * (lane & 3), own + row, shared + STATS + 768 * stage + 8 * (lane & 3)
            starts = starts_at(addresses, batch_steps, head_steps, batch, head)
            where = (query, key, batch, head, starts, query_steps, key_steps, scale, queries - query, keys - key)
            given = where + (query + shift - key, bits_of(head, tile, is_listed, bits, blocks))
            device.cp_async_wait_group(0)
            cuda.syncthreads()  # the tile has arrived, and no warp needs the gradients of scores of the one before
            zeros, own_rows = device.fill_fragment(0.0, SUMS), shared + SIXTEEN * warp + left
            s = device.unroll(add_transposed, WIDE, zeros, (own_rows, at + columns))
            p = weights(s, is_partial, given, stats, factor)
            dv = unroll_columns(add_product, TILES, dv, pack(p), (shared + DO + left,))
            dp = device.unroll(add_transposed, WIDE, zeros, (own_rows + V, shared + DO + columns))
            to = (ends, end_batches, end_heads, end_queries, end_keys)
            words = pack(gradients(s, p, dp, is_partial, where, to, stats, lane))
            store_rows(shared + SCORES + to_scores, words, EIGHT_SCORES)
            target = dq + 4 * lane + ((batch * heads + head) * all_tiles + top // 64) * (256 * D)
            target += 2048 * DQ_PART * part + 512 * (dq_row + top % 64 // 16)
            cuda.syncthreads()  # all gradients of scores are stored, and no warp needs the output gradients
            head, number = advance(head, number + 1, last, tiles, blocks)
            if head < last:
                tile, place = tile_of(head, number, begin, blocks)[0], (batch * heads + head) * all_tiles
                load(shared, 1 - stage, q, do, prepared, batch, head, tile, rows, width, value_width, place)
            sums, more = device.fill_fragment(0.0, DQ_SUMS), (shared + SCORES + dq_scores, dq_keys)
            red_columns(device.unroll(add_dq, DQ_STEPS, sums, more), target)
            dk, stage = unroll_columns(add_product, TILES, dk, words, (at + left,)), 1 - stage
        dk, key, at = device.fragment_map(times, (dk, device.fill_fragment(scale, OUT))), own + row, 4 * (lane & 3)
        at_k = dk_to[0] + batch * dk_to[1] + kv_head * dk_to[2] + key * dk_to[3] + at
        at_v = dv_to[0] + batch * dv_to[1] + kv_head * dv_to[2] + key * dv_to[3] + at
        device.st_global_part(pack(dk), at_k, dk_to[3], OUT_TILES, 4, all_keys - key, width)
        device.st_global_part(pack(dv), at_v, dv_to[3], OUT_TILES, 4, all_keys - key, value_width)

    return kernel
