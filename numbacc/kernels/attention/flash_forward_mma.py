"""Flash attention without wgmma: softmax(f(scale Q K^T)) V by mma.sync, for compute capability 8.0 and newer.

Each warp has 16 or 32 queries of a head, which stay in shared memory. All warps of a block read the same tiles of keys
and of values, which threads copy into stages asynchronously. Sums and weights stay in registers; packed weights already
lie as the left factor of the second product.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base._numba import cuda
from ..primitives import device
from ..primitives.device.attention_tiles import cp_async_tile, ld_int32, plus, times, unroll_columns
from ..primitives.device.emitting import composed
from .flash_scores import NOTHING, starts_of, tiles_of, warp_product
from .flash_softmax import masking, softmax
from .flash_spec import BLOCK, BLOCK_WORDS, FlashSpec


def parameters(spec: FlashSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters: addresses and steps, lists of blocks, lengths, sizes and scales."""
    operands = [("int64", max(len(spec.operands), 1))] * 5
    return [*[("int64", 4)] * 4, ("int64", None), *operands, *[("int64", None)] * 18, *[("float32", None)] * 2]


def make(spec: FlashSpec) -> Any:
    """Return the kernel."""
    assert spec.tiles is not None
    ROWS, TALL, HIGH, D = spec.tiles.rows, spec.queries, spec.keys, spec.head_dim
    PARTS, HEIGHT, ROW, CHUNKS, TILE = ROWS // 16, ROWS // 8, 2 * D, D // 8, 2 * D * HIGH
    STEP = spec.threads // CHUNKS  # rows that all threads copy at once
    COPIES_Q, COPIES, NEXT, RING, SIXTEEN = TALL // STEP, HIGH // STEP, STEP * ROW, TALL * ROW, 16 * ROW
    OUT_TILES, OUT, SUMS, WORDS = D // 8, PARTS * D // 2, PARTS * HIGH // 2, D // 4
    WIDE, DEEP, KEY_TILES = D // 16, HIGH // 16, HIGH // 8
    NONE = np.int32(0)
    HAS_MAP, HAS_LENGTHS, CAUSAL = spec.has_map, spec.has_lengths, spec.is_causal
    tile_at, starts_at, (bits_of, scored) = tiles_of(spec, BLOCK // HIGH), starts_of(spec.operands), masking(spec)
    (multiply, pack), (softened, inverses, store_stats) = warp_product(spec), softmax(spec)

    @composed
    def add_scores(k, sums, q, keys):
        rows = device.ldmatrix_x4(q ^ (k << 5), PARTS, SIXTEEN)
        return multiply(sums, rows, device.ldmatrix_x4(keys ^ (k << 5), DEEP, SIXTEEN))

    @composed
    def add_values(k, out, weights, values):
        return multiply(out, weights, device.ldmatrix_x4_trans_xor(values + k * SIXTEEN, WIDE, 32))

    @composed
    def copy(k, tiles, lists, shared, base, pitch, rows, width):
        """Begin a thread's part of the copy of the k-th tile, if there is one."""
        if k < tiles:
            thread, (tile, _) = cuda.threadIdx.x, tile_at(k, lists)
            line, chunk, above = thread // CHUNKS, thread % CHUNKS, tile * HIGH
            left = np.int32(rows - above) - line if 8 * chunk < width else NONE
            source = base + (above + line) * pitch + 16 * chunk
            cp_async_tile(shared + ROW * line + ((chunk ^ (line & 7)) << 4), source, COPIES, STEP, NEXT, pitch, left)
        device.cp_async_commit_group()

    def storing(PART):
        """Return the device function that stores 16 rows of a warp and their statistics."""

        @composed
        def store(out, place, pitch, width, highest, total, base, factor, scale, to, stats_step, row):
            words = device.fragment_part(out, PART, WORDS)
            device.st_global_part(words, place + 16 * PART * pitch, pitch, OUT_TILES, 4, row - 16 * PART, width)
            if cuda.threadIdx.x & 3 == 0:
                highest, total = device.fragment_part(highest, PART, 2), device.fragment_part(total, PART, 2)
                base = device.fragment_part(base, PART, 2)
                store_stats(highest, total, base, factor, scale, to + 64 * PART, stats_step, row - 16 * PART)

        return store

    store_first, store_last = storing(0), storing(PARTS - 1)

    def kernel(
        q, k, v, o, stats, addresses, batch_steps, head_steps, query_steps, key_steps, counts, lists, bits, map_batch,
        map_head, map_width, lengths_q, lengths_kv, rows, keys, heads, group_heads, shift, right, width, value_width,
        neighbours, stats_step, scale, factor,
    ):  # fmt: skip
        thread, lane, warp = cuda.threadIdx.x, cuda.threadIdx.x & 31, cuda.threadIdx.x >> 5
        # Long blocks come first, and 2^neighbours heads take turns.
        block = np.int64((cuda.gridDim.x - 1 - cuda.blockIdx.x) >> neighbours)
        head = np.int64((cuda.blockIdx.y << neighbours) + (cuda.blockIdx.x & ((1 << neighbours) - 1)))
        batch, kv_head, first, queries = np.int64(cuda.blockIdx.z), head // group_heads, block * TALL, rows
        if HAS_LENGTHS:
            queries, keys = np.int64(ld_int32(lengths_q + 4 * batch)), np.int64(ld_int32(lengths_kv + 4 * batch))
        shift += right * (keys - queries)
        tiles, own = (keys + HIGH - 1) // HIGH, first + ROWS * warp
        if CAUSAL:
            tiles = min(tiles, (first + TALL + shift + HIGH - 1) // HIGH)
        if HAS_MAP:
            row = batch * map_batch + head * map_head + first // BLOCK
            tiles = np.int64(ld_int32(counts + 4 * row)) * (BLOCK // HIGH)
            lists, bits = lists + 4 * row * map_width, bits + 4 * BLOCK_WORDS * row * map_width
            bits += 8 * (own % BLOCK * 2 + lane)
        tiles = np.int32(max(tiles, 1))
        # A thread copies 16 bytes of rows STEP apart. 16 bytes c of row r lie at c ^ (r % 8): no bank conflicts.
        shared, line, chunk = device.dynamic_shared(), thread // CHUNKS, thread % CHUNKS
        to = shared + ROW * line + ((chunk ^ (line & 7)) << 4)
        from_q = q[0] + batch * q[1] + head * q[2] + (first + line) * q[3] + 16 * chunk
        from_k, from_v = k[0] + batch * k[1] + kv_head * k[2], v[0] + batch * v[1] + kv_head * v[2]
        rows_q = np.int32(rows - first - line) if 8 * chunk < width else NONE
        cp_async_tile(to, from_q, COPIES_Q, STEP, NEXT, q[3], rows_q)
        copy(0, tiles, lists, shared + RING, from_k, k[3], keys, width)
        at_q = shared + ROW * (ROWS * warp + (lane & 15)) + (((lane >> 4) ^ (lane & 7)) << 4)
        at_keys = shared + RING + ROW * ((lane & 7) + ((lane >> 4) << 3)) + ((((lane >> 3) & 1) ^ (lane & 7)) << 4)
        at_values = shared + RING + TILE + ROW * (lane & 15) + (((lane >> 4) ^ (lane & 7)) << 4)
        own, first_query = np.int32(own), np.int32(own + (lane >> 2))
        place = (
            np.int32(queries), np.int32(keys), np.int32(shift), batch, head,
            starts_at(addresses, batch_steps, head_steps, batch, head), query_steps, key_steps, scale, first_query,
            np.int32(2 * (lane & 3)),
        )  # fmt: skip
        out, total = device.fill_fragment(0.0, OUT), device.fill_fragment(0.0, HEIGHT)
        highest = device.fill_fragment(NOTHING, HEIGHT)
        base = highest
        for number in range(tiles):
            tile, is_listed = tile_at(number, lists)
            words = bits_of(tile, is_listed, bits)
            device.cp_async_wait_group(0)
            cuda.syncthreads()  # the keys have arrived, and no warp needs the values of the tile before
            copy(number, tiles, lists, shared + RING + TILE, from_v, v[3], keys, value_width)
            sums = device.unroll(add_scores, WIDE, device.fill_fragment(0.0, SUMS), (at_q, at_keys))
            device.cp_async_wait_group(0)
            cuda.syncthreads()  # the values have arrived, and no warp needs the keys
            copy(number + 1, tiles, lists, shared + RING, from_k, k[3], keys, width)
            sums = scored(sums, tile, is_listed, words, place, own)
            weights, highest, base, total, shrink, changes = softened(sums, highest, base, total, factor)
            if changes > 0:
                out = device.fragment_map_rows(times, out, shrink, OUT_TILES)
            out = unroll_columns(add_values, KEY_TILES, out, pack(weights), (at_values,))
        total = device.quad_reduce(plus, total)
        out = device.fragment_map_rows(times, out, inverses(total), OUT_TILES)
        to_o = o[0] + batch * o[1] + head * o[2] + first_query * o[3] + 4 * (lane & 3)
        to_stats = stats + 4 * ((batch * heads + head) * rows + first_query)
        row, words = rows - first_query, pack(out)
        store_first(words, to_o, o[3], value_width, highest, total, base, factor, scale, to_stats, stats_step, row)
        if PARTS > 1:
            store_last(words, to_o, o[3], value_width, highest, total, base, factor, scale, to_stats, stats_step, row)

    return kernel
