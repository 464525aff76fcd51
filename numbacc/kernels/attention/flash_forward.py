"""Flash attention on Hopper: softmax(f(scale Q K^T)) V, with a Python function f and a mask, without storing scores.

A block has 128 queries of a head. One warpgroup lets the copy engine (TMA) load tiles of keys and values into stages.
Two others have 64 queries each. They multiply with wgmma, in turns: one computes the weights of a tile while the tensor
cores multiply for the other. Row maxima and sums are kept in float32, apart from each other, so weights are right also
where all scores of a row are very negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base._numba import cuda
from ..primitives import device
from ..primitives.device.attention_tiles import ld_int32, plus, times
from .flash_scores import NOTHING, products, starts_of, tiles_of, warpgroup_product
from .flash_softmax import masking, softmax
from .flash_spec import BLOCK, BLOCK_WORDS, ROW, ROWS, STAGES, FlashSpec
from .flash_tiles import feeding, storing

#: Registers of a thread that loads, and of one that multiplies.
FEW, MANY = 24, 240
#: The first named barriers of the two warpgroups: for results, and for turns.
RESULT, TURN = 1, 3


def parameters(spec: FlashSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters: maps, addresses, steps, lists of blocks, lengths, sizes and scales."""
    operands = [("int64", max(len(spec.operands), 1))] * 5
    return [*[("tensor_map", None)] * 4, ("int64", None), *operands, *[("int64", None)] * 16, *[("float32", None)] * 2]


def make(spec: FlashSpec) -> Any:
    """Return the kernel."""
    TALL, HIGH, D = spec.queries, spec.keys, spec.head_dim
    OUT_TILES, OUT, STEPS = D // 8, D // 2, HIGH // 16
    BRICK, TILE, OWN_BRICK, OWN = ROW * HIGH, 2 * D * HIGH, ROW * ROWS, 2 * D * ROWS
    RING, BARRIERS = 2 * OWN, 2 * OWN + 2 * STAGES * TILE
    TILE_16 = TILE // 16
    BY_ROWS, DOWN = device.wgmma_descriptor(128, 16, 1024), device.wgmma_descriptor(128, BRICK, 1024)
    HAS_MAP, HAS_LENGTHS, CAUSAL = spec.has_map, spec.has_lengths, spec.is_causal
    multiply, pack = warpgroup_product(spec)
    tile_at, starts_at, (bits_of, scored) = tiles_of(spec, BLOCK // HIGH), starts_of(spec.operands), masking(spec)
    (load_queries, feed), (softened, inverses, store_stats) = feeding(spec), softmax(spec)
    scores, store = products(spec, HIGH // 2, OWN_BRICK, BRICK), storing(spec, OWN_BRICK)

    def kernel(
        map_q, map_k, map_v, map_o, stats, addresses, batch_steps, head_steps, query_steps, key_steps, counts, lists,
        bits, map_batch, map_head, map_width, lengths_q, lengths_kv, rows, keys, heads, group_heads, shift, right,
        neighbours, stats_step, scale, factor,
    ):  # fmt: skip
        group, thread, lane = device.warp_uniform(cuda.threadIdx.x >> 7), cuda.threadIdx.x & 127, cuda.threadIdx.x & 31
        shared = device.dynamic_shared()
        full, empty, arrived = shared + BARRIERS, shared + BARRIERS + 16 * STAGES, shared + BARRIERS + 32 * STAGES
        # Long blocks come first, and 2^neighbours heads take turns.
        block = np.int64((cuda.gridDim.x - 1 - cuda.blockIdx.x) >> neighbours)
        head = np.int64((cuda.blockIdx.y << neighbours) + (cuda.blockIdx.x & ((1 << neighbours) - 1)))
        batch, first, queries = np.int64(cuda.blockIdx.z), block * TALL, rows
        if cuda.threadIdx.x == 256:
            load_queries(map_q, shared, first, head, batch)
        if HAS_LENGTHS:
            queries, keys = np.int64(ld_int32(lengths_q + 4 * batch)), np.int64(ld_int32(lengths_kv + 4 * batch))
        shift += right * (keys - queries)
        tiles, row = (keys + HIGH - 1) // HIGH, batch * map_batch + head * map_head + block
        if CAUSAL:
            tiles = min(tiles, (first + TALL + shift + HIGH - 1) // HIGH)
        if HAS_MAP:
            tiles = np.int64(ld_int32(counts + 4 * row)) * (BLOCK // HIGH)
            lists, bits = lists + 4 * row * map_width, bits + 4 * BLOCK_WORDS * row * map_width
        tiles = max(tiles, 1)
        cuda.syncthreads()
        stage, phase, after, turned = 0, 0, 1, 0
        if group == 2:
            device.setmaxnreg_dec(FEW)
            if thread == 0:
                feed(map_k, map_v, shared, tiles, lists, head // group_heads, batch)
        else:
            device.setmaxnreg_inc(MANY)
            q, results = BY_ROWS + ((shared + group * OWN) >> 4), shared + group * OWN
            keys_at, values_at = BY_ROWS + ((shared + RING) >> 4), DOWN + ((shared + RING + TILE) >> 4)
            own, bits = first + ROWS * group, bits + 8 * (128 * group + thread)
            first_query = own + 16 * (thread >> 5) + (lane >> 2)
            place = (
                queries, keys, shift, batch, head, starts_at(addresses, batch_steps, head_steps, batch, head),
                query_steps, key_steps, scale, first_query, np.int64(2 * (lane & 3)),
            )  # fmt: skip
            out, total = device.fill_fragment(0.0, OUT), device.fill_fragment(0.0, 2)
            highest = device.fill_fragment(NOTHING, 2)
            tile, is_listed = tile_at(0, lists)
            words = bits_of(tile, is_listed, bits)
            if group == 0:
                device.bar_arrive(TURN, 256)
            device.mbarrier_wait_parity(arrived, 0)
            device.mbarrier_wait_parity(full, 0)
            device.bar_sync(TURN + group, 256)
            sums = device.wgmma_wait_group(scores(q, keys_at), 0)
            device.bar_arrive(TURN + 1 - group, 256)
            if thread == 0:
                device.mbarrier_arrive(empty)
            sums = scored(sums, tile, is_listed, words, place, own)
            weights, highest, base, total, shrink, _ = softened(sums, highest, highest, total, factor)
            packed = pack(weights)
            if tiles > 1:
                device.mbarrier_wait_parity(full + 16 * after, turned)
            for k in range(1, tiles):
                tile, is_listed = tile_at(k, lists)
                device.bar_sync(TURN + group, 256)
                sums = scores(q, keys_at + 2 * TILE_16 * after)
                device.mbarrier_wait_parity(full + 16 * stage + 8, phase)
                out = multiply(out, packed, values_at + 2 * TILE_16 * stage, STEPS, 0, 128, 0, 1)
                words = bits_of(tile, is_listed, bits)
                sums = device.wgmma_wait_group(sums, 1)
                device.bar_arrive(TURN + 1 - group, 256)
                if thread == 0:
                    device.mbarrier_arrive(empty + 16 * after)
                sums = scored(sums, tile, is_listed, words, place, own)
                weights, highest, base, total, shrink, changes = softened(sums, highest, base, total, factor)
                used, stage, phase = stage, after, turned
                after, turned = (0, phase ^ 1) if stage == STAGES - 1 else (stage + 1, phase)
                # This wait also keeps the compiler from waiting for the products before the weights are computed.
                if k + 1 < tiles:
                    device.mbarrier_wait_parity(full + 16 * after, turned)
                out = device.wgmma_wait_group(out, 0)
                if thread == 0:
                    device.mbarrier_arrive(empty + 16 * used + 8)
                if changes > 0:
                    out = device.fragment_map_rows(times, out, shrink, OUT_TILES)
                packed = pack(weights)
            device.mbarrier_wait_parity(full + 16 * stage + 8, phase)
            out = multiply(out, packed, values_at + 2 * TILE_16 * stage, STEPS, 0, 128, 0, 1)
            total = device.quad_reduce(plus, total)
            out = device.wgmma_wait_group(out, 0)
            out = device.fragment_map_rows(times, out, inverses(total), OUT_TILES)
            # The results replace the warpgroup's queries, which no product reads any more.
            device.bar_sync(RESULT + group, 128)
            store(map_o, results, pack(out), own, rows - own, head, batch, RESULT + group, thread)
            if lane & 3 == 0:
                to = stats + 4 * ((batch * heads + head) * rows + first_query)
                store_stats(highest, total, base, factor, scale, to, stats_step, rows - first_query)
            if thread == 0:
                device.cp_async_bulk_wait_group_read(0)

    return kernel
