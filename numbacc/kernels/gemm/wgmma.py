"""A matrix product with an epilogue for Hopper: the copy engine loads, tensor cores multiply, the engine stores.

Blocks stay on their multiprocessors and compute one tile of the result after the other. One warpgroup lets the copy
engine (TMA) fill a ring of stages: 128 bytes along K of the tile's rows of A and columns of B. The other warpgroups
multiply 64 rows each (wgmma) and apply the epilogue. Meanwhile the engine loads the next tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base._numba import cuda
from ..primitives import device
from .epilogue import finish
from .operands import moving
from .spec import PART, ROW, ROWS, GemmSpec
from .stages import clearing, depth_of, loading, multiplying, releasing
from .tiles import tiles_of

#: The first of two barriers of the warpgroups that alternate; those before it are the epilogue's.
ORDER = 4


def parameters(spec: GemmSpec) -> Sequence[tuple[str, Any]]:
    """Return the kernel's parameters."""
    return spec.parameters


def make(spec: GemmSpec) -> Any:
    """Return the kernel."""
    STAGES, STAGE, DEPTH, WARPGROUPS = spec.stages, spec.stage_bytes, depth_of(spec), spec.groups
    RESULTS, BARRIERS = STAGES * STAGE, STAGES * STAGE + spec.staging_bytes
    GROUPED, BY_K, PARTS, HALVES = spec.is_grouped, spec.by_k, spec.parts + (spec.rest > 0), spec.halves // spec.below
    (TALL, WIDE), TOGETHER, TURNS, SKIPPED = spec.own, WARPGROUPS // spec.turns, spec.turns, spec.turns - 1
    CLUSTER, TRANSPOSED, release = spec.cluster, spec.transposed, releasing(spec.cluster)
    SLOTS, FEW, MANY = spec.slots, 40, 232 if WARPGROUPS == 2 else 240
    keep, find, span, locate = tiles_of(spec)
    load, clear, (factors, zeros, multiplied, waited) = loading(spec), clearing(spec), multiplying(spec)
    begin, finish_rows = finish(spec)
    operands_at, outs_at = moving(len(spec.operands) or 1), moving(len(spec.outs))

    def kernel(
        map_a, map_b, map_0, map_1, map_2, operands, pitches, batches, numbers, outs, out_pitches, out_batches,
        sizes, m, n, k, count, a_batches, b_batches, band,
    ):  # fmt: skip
        group, thread, lane = device.warp_uniform(cuda.threadIdx.x >> 7), cuda.threadIdx.x & 127, cuda.threadIdx.x & 31
        shared = device.dynamic_shared()
        full, empty = shared + BARRIERS, shared + BARRIERS + 8 * STAGES
        if cuda.threadIdx.x == 0:
            for stage in range(STAGES):
                device.mbarrier_init(full + 8 * stage, 1)
                device.mbarrier_init(empty + 8 * stage, TOGETHER * CLUSTER)
            device.fence_mbarrier_init()
        sizes = keep(sizes, empty + 8 * STAGES, count, cuda.threadIdx.x)
        rank = device.cluster_ctarank() if CLUSTER > 1 else 0
        if CLUSTER > 1:
            device.cluster_sync()
        else:
            cuda.syncthreads()
        across, depth = (n + WIDE - 1) // WIDE, (k + DEPTH - 1) // DEPTH
        # Each warpgroup that multiplies skips the tiles of the other turn, and their stages.
        turn, share = (group // TOGETHER, group % TOGETHER) if group < WARPGROUPS else (0, 0)
        stage, phase = turn * depth % STAGES, turn * depth // STAGES & 1
        tile, nothing = np.int64(cuda.blockIdx.x // CLUSTER + turn * (cuda.gridDim.x // CLUSTER)), np.int64(0)
        place = find(tile, (nothing - (GROUPED or BY_K), nothing, nothing, nothing), m, across, count, sizes)
        if group == WARPGROUPS:
            device.setmaxnreg_dec(FEW)
            while thread == 0 and place[0] < count:
                matrix, (start, rows, begin_k, length) = place[0], span(place, m, k)
                top, left = locate(tile - place[1], rows, across, band)
                for step in range((length + DEPTH - 1) // DEPTH):
                    at, done, along = shared + stage * STAGE, full + 8 * stage, begin_k + DEPTH * step
                    device.mbarrier_wait_parity(empty + 8 * stage, phase ^ 1)
                    line, layers = start + top + TALL * rank, (matrix * a_batches, matrix * b_batches)
                    load(at, done, map_a, map_b, line, left, along, m, n, *layers, rank)
                    phase ^= stage == STAGES - 1
                    stage = 0 if stage == STAGES - 1 else stage + 1
                tile += cuda.gridDim.x // CLUSTER
                place = find(tile, place, m, across, count, sizes)
        else:
            device.setmaxnreg_inc(MANY)
            a, b = factors(shared, share)
            staging = shared + RESULTS + group * SLOTS * PART
            # Where this thread's row of an 8 x 8 matrix goes in a part of a result, swizzled.
            line, chunk = 16 * (thread >> 5) + (lane & 15), lane >> 4
            if TRANSPOSED:
                line, chunk = 8 * (lane >> 4) + (lane & 7), 2 * (thread >> 5) + ((lane >> 3) & 1)
            at = staging + ROW * line + ((chunk ^ (lane & 7)) << 4)
            if TURNS > 1 and turn == 1:
                device.bar_arrive(ORDER, 256)  # turn 0 begins
            top, left = locate(tile - place[1], span(place, m, k)[1], across, band)
            while place[0] < count:
                matrix, (start, rows, _, length) = place[0], span(place, m, k)
                end, top = min(start + rows, m), start + top + TALL * rank + ROWS * HALVES * share
                starts, targets = operands_at(operands, batches, matrix), outs_at(outs, out_batches, matrix)
                layer = nothing if GROUPED else matrix
                more = (
                    starts, pitches, numbers, targets, out_pitches, map_0, map_1, map_2, staging, at, left, end, n,
                    layer, thread, group,
                )  # fmt: skip
                words = begin(starts, pitches, top, left, end, n, thread)
                if TURNS > 1:  # until all stages of the other turn have arrived: their parity shows no more than that
                    device.bar_sync(ORDER + turn, 256)
                sums, before = zeros(), -1
                for step in range((length + DEPTH - 1) // DEPTH):
                    device.mbarrier_wait_parity(full + 8 * stage, phase)
                    if BY_K and length - DEPTH * step < DEPTH:
                        clear(shared + stage * STAGE, length - DEPTH * step, thread, group, ORDER)
                    to = stage * (STAGE // 16)
                    sums = multiplied(sums, a + to, b + to)
                    release(empty + 8 * before, before >= 0, thread)
                    before = stage
                    phase ^= stage == STAGES - 1
                    stage = 0 if stage == STAGES - 1 else stage + 1
                if TURNS > 1:
                    device.bar_arrive(ORDER + 1 - turn, 256)
                # The next tile is found while the last products are computed.
                tile += TURNS * (cuda.gridDim.x // CLUSTER)
                place = find(tile, place, m, across, count, sizes)
                next_top, next_left = locate(tile - place[1], span(place, m, k)[1], across, band)
                results = waited(sums)
                release(empty + 8 * before, before >= 0, thread)
                finish_rows(results[0], words, top, 0, *more)
                if HALVES == 2:
                    words = begin(starts, pitches, top + ROWS, left, end, n, thread)
                    finish_rows(results[-1], words, top + ROWS, PARTS, *more)
                top, left = next_top, next_left
                stage += SKIPPED * depth
                phase, stage = phase ^ (stage // STAGES & 1), stage % STAGES
            if lane == 0:
                device.cp_async_bulk_wait_group(0)
        if CLUSTER > 1:  # the other block may still write to this one's shared memory
            device.bar_warp_sync()
            device.cluster_sync()

    return kernel
