"""A matrix product with an epilogue for Hopper: the copy engine loads, tensor cores multiply, the engine stores.

Blocks stay on their multiprocessors and compute one tile of the result after the other. One warpgroup lets the copy
engine (TMA) fill a ring of stages: 128 bytes along K of the tile's rows of A and columns of B. The other warpgroups
multiply 64 rows each (wgmma) and apply the epilogue. Meanwhile the engine loads the next tile.
"""

from __future__ import annotations

from typing import Any

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ..primitives.device import (
    cp_async_bulk_wait_group,
    dynamic_shared,
    fence_mbarrier_init,
    fill_fragment,
    mbarrier_arrive,
    mbarrier_arrive_expect_tx,
    mbarrier_init,
    mbarrier_wait_parity,
    setmaxnreg_dec,
    setmaxnreg_inc,
    tma_load,
    unroll,
    warp_uniform,
    wgmma_bf16,
    wgmma_descriptor,
    wgmma_e4m3,
    wgmma_e5m2,
    wgmma_f16,
    wgmma_wait_group,
)
from .epilogue import finish, inlined, moving
from .spec import COLUMNS, MAPS, PART, ROW, ROWS, GemmSpec

_PRODUCTS = {
    "bfloat16": wgmma_bf16, "float16": wgmma_f16, "float8_e4m3fn": wgmma_e4m3, "float8_e5m2": wgmma_e5m2,
}  # fmt: skip
#: Rows of tiles that blocks compute together, so that they find columns of B in the L2 cache.
BAND = 8


def parameters(spec: GemmSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters: maps, addresses and steps of operands and results, numbers, lengths."""
    operands, outs = [("int64", len(spec.operands) or 1)] * 3, [("int64", len(spec.outs))] * 3
    return [
        *[("tensor_map", None)] * (2 + MAPS), *operands, ("float32", spec.numbers), *outs, *[("int64", None)] * 6
    ]  # fmt: skip


def make(spec: GemmSpec) -> Any:
    """Return the kernel."""
    (TALL, WIDE), STAGES, GROUPS = spec.tile, spec.stages, spec.groups
    DEPTH = ROW // TABLE[spec.dtype].itemsize
    A_BYTES, STAGE, RESULTS = ROW * TALL, spec.stage_bytes, spec.stages * spec.stage_bytes
    BARRIERS = RESULTS + spec.staging_bytes
    A_DOWN, B_DOWN = int(spec.a_down), int(spec.b_down)
    A_STEP, B_STEP = (128 if down else 2 for down in (A_DOWN, B_DOWN))
    A_MATRIX = wgmma_descriptor(128, 16, 1024)
    B_MATRIX = wgmma_descriptor(128, PART if B_DOWN else 16, 1024)
    SUMS, PARTS, OUT_WIDE = WIDE // 2, WIDE // COLUMNS // spec.sums, WIDE // spec.sums
    BRICKS = WIDE // COLUMNS if B_DOWN else spec.sums
    IN_HALF, BRICK_BYTES = BRICKS // spec.sums, ROW * WIDE // BRICKS
    BRICK_WIDE = WIDE // BRICKS
    FEW, MANY = (40, 232) if GROUPS == 2 else (40, 240)
    multiply, finish_part = _PRODUCTS[spec.dtype], finish(spec)
    operands_at, outs_at = moving(len(spec.operands) or 1), moving(len(spec.outs))

    @inlined
    def locate(tile, down, across):
        """Return (batch, tile's row, tile's column)."""
        batch, tile = tile // (down * across), tile % (down * across)
        band, within = tile // (BAND * across), tile % (BAND * across)
        high = min(BAND, down - BAND * band)
        return batch, BAND * band + within % high, within // high

    def kernel(
        map_a, map_b, map_0, map_1, map_2, operands, pitches, batches, numbers, outs, out_pitches, out_batches, m, n, k,
        count, a_batches, b_batches,
    ):  # fmt: skip
        group, thread, lane = warp_uniform(cuda.threadIdx.x >> 7), cuda.threadIdx.x & 127, cuda.threadIdx.x & 31
        shared = dynamic_shared()
        full, empty = shared + BARRIERS, shared + BARRIERS + 8 * STAGES
        if cuda.threadIdx.x == 0:
            for stage in range(STAGES):
                mbarrier_init(full + 8 * stage, 1)
                mbarrier_init(empty + 8 * stage, GROUPS)
            fence_mbarrier_init()
        cuda.syncthreads()
        down, across, depth = (m + TALL - 1) // TALL, (n + OUT_WIDE - 1) // OUT_WIDE, (k + DEPTH - 1) // DEPTH
        stage, phase = 0, 0
        if group == GROUPS:
            setmaxnreg_dec(FEW)
            if thread == 0:
                for tile in range(cuda.blockIdx.x, count * down * across, cuda.gridDim.x):
                    batch, i, j = locate(tile, down, across)
                    for step in range(depth):
                        at, done = shared + stage * STAGE, full + 8 * stage
                        mbarrier_wait_parity(empty + 8 * stage, phase ^ 1)
                        mbarrier_arrive_expect_tx(done, STAGE)
                        if A_DOWN:
                            for brick in range(GROUPS):
                                place = at + brick * PART
                                tma_load(place, map_a, (i * TALL + ROWS * brick, DEPTH * step, batch * a_batches), done)
                        else:
                            tma_load(at, map_a, (DEPTH * step, i * TALL, batch * a_batches), done)
                        for brick in range(BRICKS):
                            place = at + A_BYTES + brick * BRICK_BYTES
                            column = j * OUT_WIDE + brick % IN_HALF * BRICK_WIDE + brick // IN_HALF * n
                            if B_DOWN:
                                tma_load(place, map_b, (column, DEPTH * step, batch * b_batches), done)
                            else:
                                tma_load(place, map_b, (DEPTH * step, column, batch * b_batches), done)
                        phase ^= stage == STAGES - 1
                        stage = 0 if stage == STAGES - 1 else stage + 1
        else:
            setmaxnreg_inc(MANY)
            a = A_MATRIX + ((shared + group * PART) >> 4)
            b = B_MATRIX + ((shared + A_BYTES) >> 4)
            staging = shared + RESULTS + group * 2 * PART
            # Where this thread's row of an 8 x 8 matrix goes in a part of a result, swizzled.
            at = staging + ROW * (16 * (thread >> 5) + (lane & 15)) + (((lane >> 4) ^ (lane & 7)) << 4)
            for tile in range(cuda.blockIdx.x, count * down * across, cuda.gridDim.x):
                batch, i, j = locate(tile, down, across)
                sums, before = fill_fragment(0.0, SUMS), -1
                for _ in range(depth):
                    mbarrier_wait_parity(full + 8 * stage, phase)
                    step = stage * (STAGE // 16)
                    sums = multiply(sums, a + step, b + step, 4, A_STEP, B_STEP, A_DOWN, B_DOWN)
                    sums = wgmma_wait_group(sums, 1)
                    if before >= 0 and thread == 0:
                        mbarrier_arrive(empty + 8 * before)
                    before = stage
                    phase ^= stage == STAGES - 1
                    stage = 0 if stage == STAGES - 1 else stage + 1
                sums = wgmma_wait_group(sums, 0)
                if before >= 0 and thread == 0:
                    mbarrier_arrive(empty + 8 * before)
                top, left = i * TALL + ROWS * group, j * OUT_WIDE
                row, column = top + 16 * (thread >> 5) + (lane >> 2), left + 2 * (lane & 3)
                starts, out_starts = operands_at(operands, batches, batch), outs_at(outs, out_batches, batch)
                unroll(
                    finish_part, PARTS, sums,
                    (starts, pitches, numbers, out_starts, out_pitches, map_0, map_1, map_2, staging, at, column, row,
                     left, top, m - row, n - column, batch, thread, group),
                )  # fmt: skip
            if thread == 0:
                cp_async_bulk_wait_group(0)

    return kernel
