"""Flash attention on Hopper: softmax(f(scale Q K^T)) V, with a Python function f and a mask, without storing scores.

A block has 128 queries of a head. One warpgroup lets the copy engine (TMA) load tiles of keys and values into two
stages. Two others have 64 queries each: they multiply with wgmma, and compute the weights of a tile while the tensor
cores compute the scores of the next. Row maxima and sums are kept in float32, apart from each other: so weights are
right also where all scores of a row are very negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base._numba import cuda
from ..primitives import device
from ..primitives.device.attention_tiles import ld_int32, store_bricks
from ..primitives.device.emitting import composed
from .flash_scores import NOTHING, scoring, starts_of, tiles_of
from .flash_spec import BLOCK, ROW, ROWS, WIDE, FlashSpec

STAGES = 2


def parameters(spec: FlashSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters: maps, addresses, steps, lists of blocks, lengths, sizes and scales."""
    operands = [("int64", max(len(spec.operands), 1))] * 5
    return [*[("tensor_map", None)] * 4, ("int64", None), *operands, *[("int64", None)] * 14, *[("float32", None)] * 2]


def make(spec: FlashSpec) -> Any:
    """Return the kernel."""
    TALL, HIGH, D = spec.queries, spec.keys, spec.head_dim
    PARTS, TILES, OUT_TILES, SUMS, OUT, STEPS = D // WIDE, HIGH // 8, D // 8, HIGH // 2, D // 2, HIGH // 16
    BRICK, TILE, OWN_BRICK, OWN = ROW * HIGH, 2 * D * HIGH, ROW * ROWS, 2 * D * ROWS
    RING, BARRIERS, TILE_16, BRICK_16 = 2 * OWN, 2 * OWN + 2 * STAGES * TILE, TILE // 16, BRICK // 16
    BY_ROWS, DOWN = device.wgmma_descriptor(128, 16, 1024), device.wgmma_descriptor(128, BRICK, 1024)
    HAS_SCORE, HAS_MAP, HAS_LENGTHS, CAUSAL = spec.score is not None, spec.has_map, spec.has_lengths, spec.is_causal
    multiply, pack = (
        (device.wgmma_bf16, device.pack_bf16) if spec.dtype == "bfloat16" else (device.wgmma_f16, device.pack_f16)
    )
    score, partial_score, tile_at = scoring(spec, False), scoring(spec, True), tiles_of(spec, HIGH)
    ZERO, ONE = np.float32(0), np.float32(1)
    starts_at = starts_of(max(len(spec.operands), 1))
    FEW, MANY = 24, 240

    @composed
    def larger(x, y):
        return device.max_f32(x, y)

    @composed
    def plus(x, y):
        return x + y

    @composed
    def times(x, y):
        return x * y

    @composed
    def limit(x, factor):
        return x * factor if x > NOTHING else ZERO  # a row that sees no key

    @composed
    def second(x, y):
        return y

    @composed
    def weight(x, factor, top):
        return device.ex2_approx(device.fma_rn(x, factor, -top))  # rounded once: right for scores of any size

    @composed
    def inverse(total):
        return ONE / total if total > ZERO else ZERO

    @composed
    def multiply_part(part, sums, q, keys):
        return multiply(sums, q + part * (OWN_BRICK // 16), keys + part * BRICK_16, 4, 2, 2, 0, 0)

    @composed
    def scores(q, keys):
        return device.unroll(multiply_part, PARTS, device.fill_fragment(0.0, SUMS), (q, keys))

    @composed
    def scored(sums, tile, is_listed, place, own):
        """Apply the score function, and the mask in tiles that it cuts. Both are skipped elsewhere."""
        queries, keys, shift, batch, head, arrays, query_steps, key_steps, scale, first_query, first_key = place
        column, rows, starts = tile * HIGH, queries - own, starts_at(*arrays, batch, head)
        is_partial = is_listed > 0 or rows < ROWS or column + HIGH > keys
        if CAUSAL:
            is_partial = is_partial or column + HIGH - 1 > own + shift
        given = (
            first_query, column + first_key, batch, head, starts, query_steps, key_steps, scale,
            queries - first_query, keys - column - first_key, first_query + shift - column - first_key,
        )  # fmt: skip
        if is_partial:
            return device.fragment_map_positions(partial_score, sums, TILES, given)
        if HAS_SCORE:
            return device.fragment_map_positions(score, sums, TILES, given)
        return sums

    @composed
    def softened(sums, highest, total, factor):
        """Return (weights, new maxima, new sums, what older numbers shrink by)."""
        factors = device.fill_fragment(factor, 2)
        higher = device.quad_reduce(larger, device.fragment_reduce_rows(larger, sums, TILES))
        higher = device.fragment_map(larger, (highest, higher))
        top = device.fragment_map(limit, (higher, factors))
        shrink = device.fragment_map(weight, (highest, factors, top))
        tops = device.fragment_map_rows(second, sums, top, TILES)
        weights = device.fragment_map(weight, (sums, device.fill_fragment(factor, SUMS), tops))
        added = device.fragment_reduce_rows(plus, weights, TILES)
        total = device.fragment_map(plus, (device.fragment_map(times, (total, shrink)), added))
        return weights, higher, total, shrink

    def kernel(
        map_q, map_k, map_v, map_o, stats, addresses, batch_steps, head_steps, query_steps, key_steps, counts, lists,
        map_batch, map_head, map_width, lengths_q, lengths_kv, rows, keys, heads, group_heads, shift, right, stats_step,
        scale, factor,
    ):  # fmt: skip
        group, thread, lane = device.warp_uniform(cuda.threadIdx.x >> 7), cuda.threadIdx.x & 127, cuda.threadIdx.x & 31
        shared = device.dynamic_shared()
        arrived, full, empty = shared + BARRIERS, shared + BARRIERS + 8, shared + BARRIERS + 8 + 16 * STAGES
        if cuda.threadIdx.x == 0:
            device.mbarrier_init(arrived, 1)
            for slot in range(2 * STAGES):
                device.mbarrier_init(full + 8 * slot, 1)
                device.mbarrier_init(empty + 8 * slot, 2)
            device.fence_mbarrier_init()
        cuda.syncthreads()
        blocks = (rows + TALL - 1) // TALL
        number, block = cuda.blockIdx.x // blocks, blocks - 1 - cuda.blockIdx.x % blocks  # long ones first
        batch, head, first, queries = number // heads, number % heads, block * TALL, rows
        if HAS_LENGTHS:
            queries, keys = np.int64(ld_int32(lengths_q + 4 * batch)), np.int64(ld_int32(lengths_kv + 4 * batch))
        shift += right * (keys - queries)
        tiles = (keys + HIGH - 1) // HIGH
        if CAUSAL:
            tiles = min(tiles, (first + TALL + shift + HIGH - 1) // HIGH)
        if HAS_MAP:
            row = batch * map_batch + head * map_head + block
            tiles, lists = np.int64(ld_int32(counts + 4 * row)) * (BLOCK // HIGH), lists + 4 * row * map_width
        tiles = max(tiles, 1)
        stage, phase = 0, 0
        if group == 2:
            device.setmaxnreg_dec(FEW)
            if thread == 0:
                device.mbarrier_arrive_expect_tx(arrived, 2 * OWN)
                for part in range(2 * PARTS):
                    corner = (WIDE * (part % PARTS), first + ROWS * (part // PARTS), head, batch)
                    device.tma_load(shared + OWN_BRICK * part, map_q, corner, arrived)
                for k in range(tiles):
                    tile, _ = tile_at(k, lists)
                    for slot in range(2 * stage, 2 * stage + 2):  # keys, then values
                        at, done = shared + RING + slot * TILE, full + 8 * slot
                        device.mbarrier_wait_parity(empty + 8 * slot, phase ^ 1)
                        device.mbarrier_arrive_expect_tx(done, TILE)
                        for part in range(PARTS):
                            corner = (WIDE * part, tile * HIGH, head // group_heads, batch)
                            if slot & 1:
                                device.tma_load(at + part * BRICK, map_v, corner, done)
                            else:
                                device.tma_load(at + part * BRICK, map_k, corner, done)
                    phase ^= stage == STAGES - 1
                    stage = 0 if stage == STAGES - 1 else stage + 1
        else:
            device.setmaxnreg_inc(MANY)
            q = BY_ROWS + ((shared + group * OWN) >> 4)
            keys_at, values_at = BY_ROWS + ((shared + RING) >> 4), DOWN + ((shared + RING + TILE) >> 4)
            own = first + ROWS * group
            first_query = own + 16 * (thread >> 5) + (lane >> 2)
            place = (
                queries, keys, shift, batch, head, (addresses, batch_steps, head_steps), query_steps, key_steps, scale,
                first_query, np.int64(2 * (lane & 3)),
            )  # fmt: skip
            out, highest = device.fill_fragment(0.0, OUT), device.fill_fragment(NOTHING, 2)
            total = device.fill_fragment(0.0, 2)
            tile, is_listed = tile_at(0, lists)
            device.mbarrier_wait_parity(arrived, 0)
            device.mbarrier_wait_parity(full, 0)
            sums = device.wgmma_wait_group(scores(q, keys_at), 0)
            if thread == 0:
                device.mbarrier_arrive(empty)
            sums = scored(sums, tile, is_listed, place, own)
            weights, highest, total, shrink = softened(sums, highest, total, factor)
            words = pack(weights)
            after, turned = 1, 0
            if tiles > 1:
                device.mbarrier_wait_parity(full + 16, 0)
            for k in range(1, tiles):
                tile, is_listed = tile_at(k, lists)
                sums = scores(q, keys_at + 2 * TILE_16 * after)
                device.mbarrier_wait_parity(full + 16 * stage + 8, phase)
                out = multiply(out, words, values_at + 2 * TILE_16 * stage, STEPS, 0, 128, 0, 1)
                sums = device.wgmma_wait_group(sums, 1)
                if thread == 0:
                    device.mbarrier_arrive(empty + 16 * after)
                sums = scored(sums, tile, is_listed, place, own)
                weights, highest, total, shrink = softened(sums, highest, total, factor)
                used, stage, phase = stage, after, turned
                after, turned = (0, phase ^ 1) if stage == STAGES - 1 else (stage + 1, phase)
                # This wait also keeps the compiler from waiting for the products before the weights are computed.
                if k + 1 < tiles:
                    device.mbarrier_wait_parity(full + 16 * after, turned)
                out = device.wgmma_wait_group(out, 0)
                if thread == 0:
                    device.mbarrier_arrive(empty + 16 * used + 8)
                out = device.fragment_map_rows(times, out, shrink, OUT_TILES)
                words = pack(weights)
            device.mbarrier_wait_parity(full + 16 * stage + 8, phase)
            out = multiply(out, words, values_at + 2 * TILE_16 * stage, STEPS, 0, 128, 0, 1)
            total = device.quad_reduce(plus, total)
            out = device.wgmma_wait_group(out, 0)
            out = device.fragment_map_rows(times, out, device.fragment_map(inverse, (total,)), OUT_TILES)
            device.bar_sync(group + 1, 128)  # the queries have been read, and their place is free
            at = shared + group * OWN + ROW * (16 * (thread >> 5) + (lane & 15)) + (((lane >> 4) ^ (lane & 7)) << 4)
            store_bricks(at, pack(out), OWN_BRICK)
            device.fence_proxy_async()
            device.bar_sync(group + 1, 128)
            if thread == 0 and own < rows:
                for part in range(PARTS):
                    target = (WIDE * part, own, head, batch)
                    device.tma_store(map_o, target, shared + group * OWN + OWN_BRICK * part)
                device.cp_async_bulk_commit_group()
            tops = device.fragment_map(limit, (highest, device.fill_fragment(factor, 2)))
            tops, totals = device.fragment_bits(tops), device.fragment_bits(total)
            for half in range(2):
                row = first_query + 8 * half
                if lane & 3 == 0 and row < rows:
                    to = stats + 4 * (number * rows + row)
                    device.st_global_b32(to, tops[1] if half else tops[0])
                    device.st_global_b32(to + stats_step, totals[1] if half else totals[0])
            if thread == 0:
                device.cp_async_bulk_wait_group(0)

    return kernel
