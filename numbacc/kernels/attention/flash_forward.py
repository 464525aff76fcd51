"""Flash attention on Hopper: softmax(f(scale Q K^T)) V, with a Python function f and a mask, without storing scores.

A block has 128 queries of a head. One warpgroup lets the copy engine (TMA) load tiles of keys and values into two
stages. Two others have 64 queries each: they multiply with wgmma, and compute the weights of a tile while the tensor
cores compute the scores of the next. Row maxima and sums are kept in float32, apart from each other: so weights are
right also where all scores of a row are very negative.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base._numba import cuda
from ..primitives import device
from ..primitives.device.attention_tiles import ld_int32, store_bricks
from ..primitives.device.emitting import composed
from .flash_scores import NOTHING, scoring, starts_of, tiles_of
from .flash_spec import BLOCK, BLOCK_WORDS, ROW, ROWS, WIDE, FlashSpec

STAGES = 2


def parameters(spec: FlashSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters: maps, addresses, steps, lists of blocks, lengths, sizes and scales."""
    operands = [("int64", max(len(spec.operands), 1))] * 5
    return [*[("tensor_map", None)] * 4, ("int64", None), *operands, *[("int64", None)] * 16, *[("float32", None)] * 2]


def make(spec: FlashSpec) -> Any:
    """Return the kernel."""
    TALL, HIGH, D = spec.queries, spec.keys, spec.head_dim
    PARTS, TILES, OUT_TILES, SUMS, OUT, STEPS = D // WIDE, HIGH // 8, D // 8, HIGH // 2, D // 2, HIGH // 16
    BRICK, TILE, OWN_BRICK, OWN = ROW * HIGH, 2 * D * HIGH, ROW * ROWS, 2 * D * ROWS
    APART = spec.has_room_for_results
    RING, RESULTS = 2 * OWN, 2 * OWN + 2 * STAGES * TILE if APART else 0
    BARRIERS, TILE_16, BRICK_16 = 2 * OWN + 2 * STAGES * TILE + 2 * OWN * APART, TILE // 16, BRICK // 16
    BY_ROWS, DOWN = device.wgmma_descriptor(128, 16, 1024), device.wgmma_descriptor(128, BRICK, 1024)
    HAS_SCORE, HAS_MAP, HAS_LENGTHS, CAUSAL = spec.score is not None, spec.has_map, spec.has_lengths, spec.is_causal
    multiply, pack = (
        (device.wgmma_bf16, device.pack_bf16) if spec.dtype == "bfloat16" else (device.wgmma_f16, device.pack_f16)
    )
    score, partial_score, tile_at = scoring(spec, False), scoring(spec, True), tiles_of(spec, HIGH)
    ZERO, ONE, LN_2 = np.float32(0), np.float32(1), np.float32(math.log(2))
    starts_at = starts_of(spec.operands)
    FEW, MANY, ALL, HAS_BITS = 24, 240, np.int32(-1), spec.has_bits

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
    def level_of(highest, unit):
        """Return the largest score, or -inf."""
        return highest * unit if highest > NOTHING else NOTHING

    @composed
    def rest_of(highest, total, factor):
        """Return log(sum of exp(score - largest)): the sum is of powers of 2 that count from a rounded number."""
        if highest > NOTHING:
            return (device.lg2_approx(total) - device.fma_rn(highest, factor, -(highest * factor))) * LN_2
        return ZERO

    @composed
    def multiply_part(part, sums, q, keys):
        return multiply(sums, q + part * (OWN_BRICK // 16), keys + part * BRICK_16, 4, 2, 2, 0, 0)

    @composed
    def scores(q, keys):
        return device.unroll(multiply_part, PARTS, device.fill_fragment(0.0, SUMS), (q, keys))

    @composed
    def scored(sums, tile, is_listed, place, own):
        """Apply the score function, and the mask in tiles that it cuts. Both are skipped elsewhere."""
        queries, keys, shift, batch, head, starts, query_steps, key_steps, scale, first_query, first_key, bits = place
        column, rows = tile * HIGH, queries - own
        is_partial = is_listed > 0 or rows < ROWS or column + HIGH > keys
        if CAUSAL:
            is_partial = is_partial or column + HIGH - 1 > own + shift
        given = (
            first_query, column + first_key, batch, head, starts, query_steps, key_steps, scale,
            queries - first_query, keys - column - first_key, first_query + shift - column - first_key,
        )  # fmt: skip
        if is_partial:
            words = (ALL, ALL)
            if HAS_BITS and is_listed > 0:
                at = bits + 4 * BLOCK_WORDS * (column // BLOCK) + 4 * (column % BLOCK // 64)
                words = (ld_int32(at), ld_int32(at + 4) if HIGH > 64 else ALL)
            return device.fragment_map_positions(partial_score, sums, TILES, given + (words,))
        if HAS_SCORE:
            return device.fragment_map_positions(score, sums, TILES, given + ((ALL, ALL),))
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

    @composed
    def place_in(item, sizes):
        """Return what the block with this number computes: where it is, its lengths, and its tiles."""
        blocks, heads, rows, keys, shift, right, lengths_q, lengths_kv, counts, lists, bits = sizes[:11]
        map_batch, map_head, map_width = sizes[11], sizes[12], sizes[13]
        number, block = item // blocks, blocks - 1 - item % blocks  # long ones first
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
            bits += 4 * BLOCK_WORDS * row * map_width
        return number, batch, head, first, queries, keys, shift, max(tiles, 1), lists, bits

    def kernel(
        map_q, map_k, map_v, map_o, stats, addresses, batch_steps, head_steps, query_steps, key_steps, counts, lists,
        bits, map_batch, map_head, map_width, lengths_q, lengths_kv, rows, keys, heads, group_heads, shift, right,
        items, stats_step, scale, factor,
    ):  # fmt: skip
        group, thread, lane = device.warp_uniform(cuda.threadIdx.x >> 7), cuda.threadIdx.x & 127, cuda.threadIdx.x & 31
        shared = device.dynamic_shared()
        arrived, freed = shared + BARRIERS, shared + BARRIERS + 8  # the queries; their memory is free again
        full, empty = shared + BARRIERS + 16, shared + BARRIERS + 16 + 16 * STAGES
        if cuda.threadIdx.x == 0:
            device.mbarrier_init(arrived, 1)
            device.mbarrier_init(freed, 2)
            for slot in range(2 * STAGES):
                device.mbarrier_init(full + 8 * slot, 1)
                device.mbarrier_init(empty + 8 * slot, 2)
            device.fence_mbarrier_init()
        cuda.syncthreads()
        sizes = (
            (rows + TALL - 1) // TALL, heads, rows, keys, shift, right, lengths_q, lengths_kv, counts, lists, bits,
            map_batch, map_head, map_width,
        )  # fmt: skip
        item, stage, phase, after, turned, turn = np.int64(cuda.blockIdx.x), 0, 0, 1, 0, 0
        if group == 2:
            device.setmaxnreg_dec(FEW)
            if thread == 0:
                while item < items:
                    _, batch, head, first, _, _, _, tiles, own_lists, _ = place_in(item, sizes)
                    for k in range(tiles):
                        tile, _ = tile_at(k, own_lists)
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
                            if k == 0 and slot & 1 == 0:
                                device.mbarrier_wait_parity(freed, turn ^ 1)
                                device.mbarrier_arrive_expect_tx(arrived, 2 * OWN)
                                for part in range(2 * PARTS):
                                    corner = (WIDE * (part % PARTS), first + ROWS * (part // PARTS), head, batch)
                                    device.tma_load(shared + OWN_BRICK * part, map_q, corner, arrived)
                        phase ^= stage == STAGES - 1
                        stage = 0 if stage == STAGES - 1 else stage + 1
                    item, turn = item + cuda.gridDim.x, turn ^ 1
        else:
            device.setmaxnreg_inc(MANY)
            q = BY_ROWS + ((shared + group * OWN) >> 4)
            keys_at, values_at = BY_ROWS + ((shared + RING) >> 4), DOWN + ((shared + RING + TILE) >> 4)
            own_row, results = 16 * (thread >> 5) + (lane >> 2), shared + RESULTS + group * OWN
            if group == 0:
                device.bar_arrive(3, 256)
            while item < items:
                number, batch, head, first, queries, own_keys, own_shift, tiles, own_lists, own_bits = place_in(
                    item, sizes
                )
                own = first + ROWS * group
                first_query = own + own_row
                place = (
                    queries, own_keys, own_shift, batch, head,
                    starts_at(addresses, batch_steps, head_steps, batch, head), query_steps, key_steps, scale,
                    first_query, np.int64(2 * (lane & 3)), own_bits + 8 * (128 * group + thread),
                )  # fmt: skip
                out, highest = device.fill_fragment(0.0, OUT), device.fill_fragment(NOTHING, 2)
                total = device.fill_fragment(0.0, 2)
                tile, is_listed = tile_at(0, own_lists)
                device.mbarrier_wait_parity(arrived, turn)
                device.mbarrier_wait_parity(full + 16 * stage, phase)
                sums = device.wgmma_wait_group(scores(q, keys_at + 2 * TILE_16 * stage), 0)
                if thread == 0:
                    device.mbarrier_arrive(empty + 16 * stage)
                    if APART and tiles == 1:
                        device.mbarrier_arrive(freed)
                sums = scored(sums, tile, is_listed, place, own)
                weights, highest, total, shrink = softened(sums, highest, total, factor)
                words = pack(weights)
                if tiles > 1:
                    device.mbarrier_wait_parity(full + 16 * after, turned)
                for k in range(1, tiles):
                    tile, is_listed = tile_at(k, own_lists)
                    device.bar_sync(3 + group, 256)  # one warpgroup computes weights while the other multiplies
                    sums = scores(q, keys_at + 2 * TILE_16 * after)
                    device.mbarrier_wait_parity(full + 16 * stage + 8, phase)
                    out = multiply(out, words, values_at + 2 * TILE_16 * stage, STEPS, 0, 128, 0, 1)
                    device.bar_arrive(4 - group, 256)
                    sums = device.wgmma_wait_group(sums, 1)
                    if thread == 0:
                        device.mbarrier_arrive(empty + 16 * after)
                        if APART and k + 1 == tiles:
                            device.mbarrier_arrive(freed)
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
                if thread == 0:
                    device.cp_async_bulk_wait_group_read(0)
                out = device.wgmma_wait_group(out, 0)
                if thread == 0:
                    device.mbarrier_arrive(empty + 16 * stage + 8)
                out = device.fragment_map_rows(times, out, device.fragment_map(inverse, (total,)), OUT_TILES)
                device.bar_sync(group + 1, 128)  # the memory for results is free
                at = results + ROW * (16 * (thread >> 5) + (lane & 15)) + (((lane >> 4) ^ (lane & 7)) << 4)
                store_bricks(at, pack(out), OWN_BRICK)
                device.fence_proxy_async()
                device.bar_sync(group + 1, 128)
                if thread == 0:
                    if own < rows:
                        for part in range(PARTS):
                            target = (WIDE * part, own, head, batch)
                            device.tma_store(map_o, target, results + OWN_BRICK * part)
                    device.cp_async_bulk_commit_group()
                    if not APART:
                        device.cp_async_bulk_wait_group_read(0)
                        device.mbarrier_arrive(freed)
                levels = device.fragment_map(level_of, (highest, device.fill_fragment(ONE if HAS_SCORE else scale, 2)))
                rests = device.fragment_map(rest_of, (highest, total, device.fill_fragment(factor, 2)))
                joined = device.fragment_bits(device.fragment_map(plus, (levels, rests)))
                levels, rests = device.fragment_bits(levels), device.fragment_bits(rests)
                for half in range(2):
                    row = first_query + 8 * half
                    if lane & 3 == 0 and row < rows:
                        to = stats + 4 * (number * rows + row)
                        if stats_step > 0:
                            device.st_global_b32(to, levels[1] if half else levels[0])
                            device.st_global_b32(to + stats_step, rests[1] if half else rests[0])
                        else:
                            device.st_global_b32(to, joined[1] if half else joined[0])
                item, turn, stage, phase = item + cuda.gridDim.x, turn ^ 1, after, turned
                after, turned = (0, phase ^ 1) if stage == STAGES - 1 else (stage + 1, phase)
            if thread == 0:
                device.cp_async_bulk_wait_group(0)

    return kernel
