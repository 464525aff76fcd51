"""A matrix product with an epilogue for Hopper: the copy engine loads, tensor cores multiply, the engine stores.

Blocks stay on their multiprocessors and compute one tile of the result after the other. One warpgroup lets the copy
engine (TMA) fill a ring of stages: 128 bytes along K of the tile's rows of A and columns of B. The other warpgroups
multiply 64 rows each (wgmma) and apply the epilogue. Meanwhile the engine loads the next tile.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ..primitives import device
from .epilogue import finish, moving
from .spec import COLUMNS, MAPS, PART, ROW, ROWS, GemmSpec
from .tiles import tiles_of

#: The first of two barriers of the warpgroups that alternate; those before it are the epilogue's.
ORDER = 4
_PRODUCTS = {
    "bfloat16": device.wgmma_bf16, "float16": device.wgmma_f16, "float8_e4m3fn": device.wgmma_e4m3,
    "float8_e5m2": device.wgmma_e5m2,
}  # fmt: skip


def parameters(spec: GemmSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters: maps; addresses and steps of operands and results; numbers, sizes, lengths."""
    operands, outs = [("int64", len(spec.operands) or 1)] * 3, [("int64", len(spec.outs))] * 3
    numbers = ("float32", spec.numbers)
    return [*[("tensor_map", None)] * (2 + MAPS), *operands, numbers, *outs, *[("int64", None)] * 7]


def make(spec: GemmSpec) -> Any:
    """Return the kernel."""
    (TALL, WIDE), STAGES, WARPGROUPS, GROUPED = spec.tile, spec.stages, spec.groups, spec.is_grouped
    DEPTH = ROW // TABLE[spec.dtype].itemsize
    A_BYTES, STAGE, RESULTS = ROW * TALL, spec.stage_bytes, spec.stages * spec.stage_bytes
    BARRIERS = RESULTS + spec.staging_bytes
    A_DOWN, B_DOWN = int(spec.a_down), int(spec.b_down)
    A_STEP, B_STEP = (128 if down else 2 for down in (A_DOWN, B_DOWN))
    A_MATRIX = device.wgmma_descriptor(128, 16, 1024)
    B_MATRIX = device.wgmma_descriptor(128, PART if B_DOWN else 16, 1024)
    SUMS, PARTS, OUT_WIDE = WIDE // 2, WIDE // COLUMNS // spec.sums, WIDE // spec.sums
    # B arrives in bricks: of 64 columns if its rows are contiguous, else of all columns of a half.
    BRICKS = WIDE // COLUMNS if B_DOWN else spec.sums
    IN_HALF, BRICK_BYTES, BRICK_WIDE = BRICKS // spec.sums, ROW * WIDE // BRICKS, WIDE // BRICKS
    TOGETHER, TURNS, SKIPPED = TALL // ROWS, spec.turns, spec.turns - 1
    FEW, MANY = (40, 232) if WARPGROUPS == 2 else (40, 240)
    multiply, (begin, finish_part) = _PRODUCTS[spec.dtype], finish(spec)
    keep, find, locate = tiles_of(TALL, OUT_WIDE, GROUPED, spec.threads)
    operands_at, outs_at = moving(len(spec.operands) or 1), moving(len(spec.outs))

    def kernel(
        map_a, map_b, map_0, map_1, map_2, operands, pitches, batches, numbers, outs, out_pitches, out_batches,
        sizes, m, n, k, count, a_batches, b_batches,
    ):  # fmt: skip
        group, thread, lane = device.warp_uniform(cuda.threadIdx.x >> 7), cuda.threadIdx.x & 127, cuda.threadIdx.x & 31
        shared = device.dynamic_shared()
        full, empty = shared + BARRIERS, shared + BARRIERS + 8 * STAGES
        if cuda.threadIdx.x == 0:
            for stage in range(STAGES):
                device.mbarrier_init(full + 8 * stage, 1)
                device.mbarrier_init(empty + 8 * stage, TOGETHER)
            device.fence_mbarrier_init()
        sizes = keep(sizes, empty + 8 * STAGES, count, cuda.threadIdx.x)
        cuda.syncthreads()
        across, depth = (n + OUT_WIDE - 1) // OUT_WIDE, (k + DEPTH - 1) // DEPTH
        # Each warpgroup that multiplies skips the tiles of the other turn, and their stages.
        turn, share = (group // TOGETHER, group % TOGETHER) if group < WARPGROUPS else (0, 0)
        stage, phase = turn * depth % STAGES, turn * depth // STAGES & 1
        tile, nothing = np.int64(cuda.blockIdx.x + turn * cuda.gridDim.x), np.int64(0)
        place = find(tile, (nothing - GROUPED, nothing, nothing, nothing), m, across, count, sizes)
        if group == WARPGROUPS:
            device.setmaxnreg_dec(FEW)
            while thread == 0 and place[0] < count:
                matrix, first, start, rows = place
                top, left = locate(tile - first, rows, across)
                for step in range(depth):
                    at, done, along = shared + stage * STAGE, full + 8 * stage, DEPTH * step
                    device.mbarrier_wait_parity(empty + 8 * stage, phase ^ 1)
                    device.mbarrier_arrive_expect_tx(done, STAGE)
                    if A_DOWN:
                        for brick in range(TOGETHER):
                            line = start + top + ROWS * brick
                            device.tma_load(at + brick * PART, map_a, (line, along, matrix * a_batches), done)
                    else:
                        device.tma_load(at, map_a, (along, start + top, matrix * a_batches), done)
                    for brick in range(BRICKS):
                        to = at + A_BYTES + brick * BRICK_BYTES
                        line = left + brick % IN_HALF * BRICK_WIDE + brick // IN_HALF * n
                        if B_DOWN:
                            device.tma_load(to, map_b, (line, along, matrix * b_batches), done)
                        else:
                            device.tma_load(to, map_b, (along, line, matrix * b_batches), done)
                    phase ^= stage == STAGES - 1
                    stage = 0 if stage == STAGES - 1 else stage + 1
                tile += cuda.gridDim.x
                place = find(tile, place, m, across, count, sizes)
        else:
            device.setmaxnreg_inc(MANY)
            a, b = A_MATRIX + ((shared + share * PART) >> 4), B_MATRIX + ((shared + A_BYTES) >> 4)
            staging = shared + RESULTS + group * 2 * PART
            # Where this thread's row of an 8 x 8 matrix goes in a part of a result, swizzled.
            at = staging + ROW * (16 * (thread >> 5) + (lane & 15)) + (((lane >> 4) ^ (lane & 7)) << 4)
            if TURNS > 1 and turn == 1:
                device.bar_arrive(ORDER, 256)  # turn 0 begins
            while place[0] < count:
                matrix, first, start, rows = place
                top, left = locate(tile - first, rows, across)
                if TURNS > 1:  # until all stages of the other turn have arrived: their parity shows no more than that
                    device.bar_sync(ORDER + turn, 256)
                sums, before = device.fill_fragment(0.0, SUMS), -1
                for _ in range(depth):
                    device.mbarrier_wait_parity(full + 8 * stage, phase)
                    to = stage * (STAGE // 16)
                    sums = multiply(sums, a + to, b + to, 4, A_STEP, B_STEP, A_DOWN, B_DOWN)
                    sums = device.wgmma_wait_group(sums, 1)
                    if before >= 0 and thread == 0:
                        device.mbarrier_arrive(empty + 8 * before)
                    before = stage
                    phase ^= stage == STAGES - 1
                    stage = 0 if stage == STAGES - 1 else stage + 1
                if TURNS > 1:
                    device.bar_arrive(ORDER + 1 - turn, 256)
                end, top = min(start + rows, m), start + top + ROWS * share
                is_whole = top + ROWS <= end
                row, column = top + 16 * (thread >> 5) + (lane >> 2), left + 2 * (lane & 3)
                starts, targets = operands_at(operands, batches, matrix), outs_at(outs, out_batches, matrix)
                # The epilogue's operands are on their way while the last products are computed.
                words = begin(starts, pitches, row, column, end - row, n - column)
                sums = device.wgmma_wait_group(sums, 0)
                if before >= 0 and thread == 0:
                    device.mbarrier_arrive(empty + 8 * before)
                layer = nothing if GROUPED else matrix
                context = (
                    starts, pitches, numbers, targets, out_pitches, map_0, map_1, map_2, staging, at, left, top, row,
                    column, end - row, n - column, layer, thread, group, is_whole,
                )  # fmt: skip
                device.unroll(finish_part, PARTS, (sums, *words), context)
                tile += TURNS * cuda.gridDim.x
                stage += SKIPPED * depth
                phase, stage = phase ^ (stage // STAGES & 1), stage % STAGES
                place = find(tile, place, m, across, count, sizes)
            if thread == 0:
                device.cp_async_bulk_wait_group(0)

    return kernel
