"""Gradients of flash attention without wgmma: scores are computed again, transposed, for 16 keys of a warp.

A block has 128 keys of a head of keys and values, and each warp has 16 of them. Threads copy tiles of queries of all
heads that share the keys, with their output gradients and statistics. For a tile, a warp computes S^T = K Q^T and
dP^T = V dO^T, then P^T and dS^T in registers, and adds to dV = P^T dO and dK = dS^T Q there. dQ = dS K needs dS the
other way round: it goes through shared memory, and each warp adds some of its products in global memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base._numba import cuda
from ..primitives import device
from ..primitives.device.attention_tiles import (
    cp_async_tile,
    ld_int32,
    map_tile,
    red_columns,
    st_shared_rows,
    times,
    unroll_columns,
)
from ..primitives.device.emitting import composed
from .flash_gradients import adding, chain
from .flash_scores import scoring, starts_of, tiles_of
from .flash_spec import BLOCK, BLOCK_WORDS, FlashSpec


def parameters(spec: FlashSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters: addresses and steps, lists of blocks, lengths, sizes and scales."""
    arrays = [*[("int64", max(len(spec.operands), 1))] * 5, *[("int64", max(len(spec.gradients), 1))] * 5]
    return [*[("int64", 4)] * 6, *[("int64", None)] * 2, *arrays, *[("int64", None)] * 16, *[("float32", None)] * 2]


def make(spec: FlashSpec) -> Any:
    """Return the kernel."""
    HIGH, D, ROW, CHUNKS = spec.queries, spec.head_dim, 2 * spec.head_dim, spec.head_dim // 8
    TILES, OUT_TILES, OUT, SUMS, WIDE, DEEP = HIGH // 8, D // 8, D // 2, HIGH // 2, D // 16, HIGH // 16
    STEP, SIXTEEN, TILE, ROW_OF_SCORES = spec.threads // CHUNKS, 16 * ROW, ROW * HIGH, 2 * HIGH
    NEXT, COPIES, COPIES_K = STEP * ROW, HIGH // STEP, BLOCK // STEP
    V, Q, DO, SCORES = ROW * BLOCK, 2 * ROW * BLOCK, 2 * ROW * BLOCK + 2 * TILE, 2 * ROW * BLOCK + 3 * TILE
    STATS, STATS_BYTES = SCORES + ROW_OF_SCORES * BLOCK, 12 * HIGH
    # Warps share the products of a tile for dQ: each has 16 queries and a part of the columns.
    DQ_ROWS, DQ_PAIRS, DQ_STEPS = HIGH // 16, D * HIGH // 16 // 128, BLOCK // 16
    DQ_SUMS, DQ_PART, EIGHT_SCORES = 8 * DQ_PAIRS, 2 * DQ_PAIRS, 8 * ROW_OF_SCORES
    # 16 bytes c of row r of a tile lie at c ^ (r % 8); of gradients of scores at c ^ (r / 2 % 4) if rows have 64 bytes.
    HALF, MASK = (0, 7) if HIGH == 64 else (1, 3)
    ALL, HAS_BITS, NONE = np.int32(-1), spec.has_bits, np.int32(0)
    HAS_SCORE, HAS_MAP, HAS_LENGTHS, CAUSAL = spec.score is not None, spec.has_map, spec.has_lengths, spec.is_causal
    multiply, pack = (
        (device.mma_bf16, device.pack_bf16) if spec.dtype == "bfloat16" else (device.mma_f16, device.pack_f16)
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
    def advance(head, k, last, tiles, counts, batch_row, map_head):
        """Return the k-th tile of a head, or else the first one of the next head that has any."""
        if HAS_MAP:
            while head < last and k >= BLOCK // HIGH * np.int64(ld_int32(counts + 4 * (batch_row + head * map_head))):
                head, k = head + 1, np.int64(0)
        elif k >= tiles:
            head, k = (head + 1 if tiles > 0 else last), np.int64(0)
        return head, k

    @composed
    def load(shared, to, stage, q, do, prepared, from_q, from_do, rows_q, rows_do, head, tile, first_tile):
        """Begin a thread's part of the copies of a tile of queries, of their gradients, and of their statistics."""
        above, thread = tile * HIGH, cuda.threadIdx.x
        at = from_q + head * q[2] + above * q[3]
        cp_async_tile(to + Q + stage * np.uint32(TILE), at, COPIES, STEP, NEXT, q[3], rows_q - np.int32(above))
        at = from_do + head * do[2] + above * do[3]
        cp_async_tile(to + DO, at, COPIES, STEP, NEXT, do[3], rows_do - np.int32(above))
        if thread < 3 * HIGH // 4:
            piece, part = thread // (HIGH // 4), thread % (HIGH // 4)
            above += 64 * first_tile
            at = prepared + 768 * (above // 64) + 256 * piece + 4 * (above % 64) + 16 * part
            device.cp_async(shared + STATS + stage * np.uint32(STATS_BYTES) + 16 * thread, at, 16)

    def kernel(
        q, k, v, do, dk_to, dv_to, prepared, dq, addresses, batch_steps, head_steps, query_steps, key_steps, ends,
        end_batches, end_heads, end_queries, end_keys, counts, lists, bits, map_batch, map_head, map_width, lengths_q,
        lengths_kv, rows, keys, heads, group_heads, shift, right, width, value_width, scale, factor,
    ):  # fmt: skip
        thread, lane, warp = cuda.threadIdx.x, cuda.threadIdx.x & 31, device.warp_uniform(cuda.threadIdx.x >> 5)
        block, kv_head, batch = np.int64(cuda.blockIdx.x), np.int64(cuda.blockIdx.y), np.int64(cuda.blockIdx.z)
        first, queries, all_keys, all_blocks = block * BLOCK, rows, keys, (rows + BLOCK - 1) // BLOCK * 2
        if HAS_LENGTHS:
            queries, keys = np.int64(ld_int32(lengths_q + 4 * batch)), np.int64(ld_int32(lengths_kv + 4 * batch))
        shift += right * (keys - queries)
        tiles, begin = (queries + HIGH - 1) // HIGH, np.int64(0)
        if CAUSAL and not HAS_MAP:
            begin = min(max((first - shift) // HIGH, begin), tiles)
        tiles, batch_row, last = tiles - begin, batch * map_batch + block, (kv_head + 1) * group_heads
        head, number = advance(kv_head * group_heads, np.int64(0), last, tiles, counts, batch_row, map_head)
        line, chunk, shared = thread // CHUNKS, thread % CHUNKS, device.dynamic_shared()
        to = shared + ROW * line + ((chunk ^ (line & 7)) << 4)
        has_key, has_value = 8 * chunk < width, 8 * chunk < value_width
        from_q, from_do = (
            q[0] + batch * q[1] + line * q[3] + 16 * chunk,
            do[0] + batch * do[1] + line * do[3] + 16 * chunk,
        )
        from_k = k[0] + batch * k[1] + kv_head * k[2] + (first + line) * k[3] + 16 * chunk
        from_v = v[0] + batch * v[1] + kv_head * v[2] + (first + line) * v[3] + 16 * chunk
        rows_q, rows_do = np.int32(rows - line) if has_key else NONE, np.int32(rows - line) if has_value else NONE
        rows_k = np.int32(keys - first - line)
        cp_async_tile(to, from_k, COPIES_K, STEP, NEXT, k[3], rows_k if has_key else NONE)
        cp_async_tile(to + V, from_v, COPIES_K, STEP, NEXT, v[3], rows_k if has_value else NONE)
        if head < last:
            tile = begin + tile_at(number, lists + 4 * (batch_row + head * map_head) * map_width)[0]
            place = (batch * heads + head) * all_blocks
            load(shared, to, np.uint32(0), q, do, prepared, from_q, from_do, rows_q, rows_do, head, tile, place)
        device.cp_async_commit_group()
        own, row = first + 16 * warp, lane >> 2
        # Where a warp's rows of a left factor, rows and columns of a right one, and parts for dQ begin.
        left = ROW * (lane & 15) + (((lane >> 4) ^ (lane & 7)) << 4)
        right_rows = ROW * ((lane & 7) + ((lane >> 4) << 3)) + ((((lane >> 3) & 1) ^ (lane & 7)) << 4)
        at_k, at_v = shared + SIXTEEN * warp + left, shared + V + SIXTEEN * warp + left
        part, down = warp // DQ_ROWS, (lane & 7) + 8 * (lane >> 4)
        dq_keys = shared + ROW * (lane & 15) + ((((lane >> 4) + DQ_PART * part) ^ (lane & 7)) << 4)
        dq_chunk = ((lane >> 3) & 1) + 2 * (warp % DQ_ROWS)
        dq_scores = shared + SCORES + ROW_OF_SCORES * down + ((dq_chunk ^ ((down >> HALF) & MASK)) << 4)
        to_scores = shared + SCORES + ROW_OF_SCORES * (16 * warp + row) + (((row >> HALF) & MASK) << 4) + 4 * (lane & 3)
        dk, dv, stage = device.fill_fragment(0.0, OUT), device.fill_fragment(0.0, OUT), np.uint32(0)
        while head < last:
            tile, is_listed = tile_at(number, lists + 4 * (batch_row + head * map_head) * map_width)
            tile += begin
            at, top, stats = (
                shared + Q + stage * np.uint32(TILE),
                tile * HIGH,
                shared + STATS + stage * np.uint32(STATS_BYTES),
            )
            is_partial = is_listed > 0 or top + HIGH > queries or own + 16 > keys
            if CAUSAL:
                is_partial = is_partial or own + 15 > top + shift
            query, key = top + 2 * (lane & 3), own + row
            starts = starts_at(addresses, batch_steps, head_steps, batch, head)
            where = (query, key, batch, head, starts, query_steps, key_steps, scale, queries - query, keys - key)
            words = (ALL, ALL)
            if HAS_BITS and is_listed > 0:
                place = (batch_row + head * map_head) * map_width * BLOCK_WORDS + top // 64 * (BLOCK_WORDS // 2)
                words = (ld_int32(bits + 4 * (place + thread)) >> np.int32(top % 64 // 2), ALL)
            given = where + (query + shift - key, words)
            device.cp_async_wait_group(0)
            cuda.syncthreads()  # the tile has arrived, and no warp needs the gradients of the scores before
            s = device.unroll(add_transposed, WIDE, device.fill_fragment(0.0, SUMS), (at_k, at + right_rows))
            y = s
            if is_partial:
                y = device.fragment_map_positions(partial_score, s, TILES, given)
            elif HAS_SCORE:
                y = device.fragment_map_positions(score, s, TILES, given)
            column = stats + 8 * (lane & 3)
            p = map_tile(probability, (y,), (column, column + 4 * HIGH), TILES, (factor,))[0]
            do_at = shared + DO
            dv = unroll_columns(add_product, TILES, dv, pack(p), (do_at + left,))
            dp = device.unroll(add_transposed, WIDE, device.fill_fragment(0.0, SUMS), (at_v, do_at + right_rows))
            ds = map_tile(slope, (p, dp), (column + 8 * HIGH,), TILES, ())[0]
            if HAS_SCORE:
                to_ends = ends_at(ends, end_batches, end_heads, batch, head)
                more = where + (to_ends, end_queries, end_keys)
                if is_partial:
                    found = map_tile(partial_graded, (s, ds), (), TILES, more)
                else:
                    found = map_tile(graded, (s, ds), (), TILES, more)
                ds = found[0]
                add_sums(found, to_ends, end_keys, key, keys - key, lane)
            packed = pack(ds)
            st_shared_rows(to_scores, packed, EIGHT_SCORES)
            target = dq + 4 * lane + ((batch * heads + head) * all_blocks + top // 64) * (256 * D)
            target += 2048 * DQ_PART * part + 512 * (warp % DQ_ROWS + top % 64 // 16)
            cuda.syncthreads()  # gradients of scores are there, and no warp needs the output gradients
            head, number = advance(head, number + 1, last, tiles, counts, batch_row, map_head)
            if head < last:
                tile = begin + tile_at(number, lists + 4 * (batch_row + head * map_head) * map_width)[0]
                place = (batch * heads + head) * all_blocks
                load(
                    shared,
                    to,
                    stage ^ np.uint32(1),
                    q,
                    do,
                    prepared,
                    from_q,
                    from_do,
                    rows_q,
                    rows_do,
                    head,
                    tile,
                    place,
                )
            device.cp_async_commit_group()
            sums = device.unroll(add_dq, DQ_STEPS, device.fill_fragment(0.0, DQ_SUMS), (dq_scores, dq_keys))
            red_columns(sums, target)
            dk = unroll_columns(add_product, TILES, dk, packed, (at + left,))
            stage ^= np.uint32(1)
        dk = device.fragment_map(times, (dk, device.fill_fragment(scale, OUT)))
        key, column = own + row, 4 * (lane & 3)
        place = dk_to[0] + batch * dk_to[1] + kv_head * dk_to[2] + key * dk_to[3] + column
        device.st_global_part(pack(dk), place, dk_to[3], OUT_TILES, 4, all_keys - key, width)
        place = dv_to[0] + batch * dv_to[1] + kv_head * dv_to[2] + key * dv_to[3] + column
        device.st_global_part(pack(dv), place, dv_to[3], OUT_TILES, 4, all_keys - key, value_width)

    return kernel
