"""Stages: 128 bytes along K of a tile's rows of A and columns of B, loaded, cleared after a group, multiplied."""

from __future__ import annotations

from typing import Any

from ...base.dtypes import TABLE
from ..primitives import device
from ..primitives.device.emitting import composed
from .spec import COLUMNS, PART, ROW, ROWS, GemmSpec

_PRODUCTS = {
    "bfloat16": device.wgmma_bf16, "float16": device.wgmma_f16, "float8_e4m3fn": device.wgmma_e4m3,
    "float8_e5m2": device.wgmma_e5m2,
}  # fmt: skip


def depth_of(spec: GemmSpec) -> int:
    """Return the number of elements along K of a stage."""
    return ROW // TABLE[spec.dtype].itemsize


def loading(spec: GemmSpec) -> Any:
    """Return load(at, done, map_a, map_b, top, left, along, m, n, ...), which lets the engine fill a stage.

    B arrives in bricks: of 64 columns if its rows are contiguous, else of all columns of a half. Each block of a
    cluster loads a part of every brick, for all its blocks.
    """
    TALL, WIDE, STAGE, A_DOWN, B_DOWN = spec.tile[0], spec.loaded, spec.stage_bytes, spec.a_down, spec.b_down
    CLUSTER = spec.cluster
    BELOW, BESIDE = spec.below, spec.sums // spec.below
    BRICKS = WIDE // COLUMNS if B_DOWN else BESIDE
    IN_HALF, BRICK_BYTES, BRICK_WIDE = BRICKS // BESIDE, ROW * WIDE // BRICKS, WIDE // BRICKS
    PART_BYTES, PART_WIDE, PART_DEPTH = BRICK_BYTES // CLUSTER, BRICK_WIDE // CLUSTER, depth_of(spec) // CLUSTER

    @composed
    def load(at, done, map_a, map_b, top, left, along, m, n, layer_a, layer_b, rank):
        device.mbarrier_arrive_expect_tx(done, STAGE)
        if A_DOWN or BELOW == 2:
            for brick in range(TALL // ROWS):
                line = top + brick // BELOW * ROWS + brick % BELOW * m
                place = (line, along, layer_a) if A_DOWN else (along, line, layer_a)
                device.tma_load(at + brick * PART, map_a, place, done)
        else:
            device.tma_load(at, map_a, (along, top, layer_a), done)
        for brick in range(BRICKS):
            to = at + ROW * TALL + brick * BRICK_BYTES + rank * PART_BYTES
            line = left + brick % IN_HALF * BRICK_WIDE + brick // IN_HALF * n
            if CLUSTER > 1 and B_DOWN:
                device.tma_load_multicast(to, map_b, (line, along + rank * PART_DEPTH, layer_b), done, 3)
            elif CLUSTER > 1:
                device.tma_load_multicast(to, map_b, (along, line + rank * PART_WIDE, layer_b), done, 3)
            elif B_DOWN:
                device.tma_load(to, map_b, (line, along, layer_b), done)
            else:
                device.tma_load(to, map_b, (along, line, layer_b), done)

    return load


def releasing(CLUSTER: int) -> Any:
    """Return release(empty, if_there, thread): it lets all blocks that write to a stage fill it again."""

    @composed
    def release(empty, if_there, thread):
        if CLUSTER > 1:
            if if_there and thread < CLUSTER:
                device.mbarrier_arrive_cluster_relaxed(empty, thread)
        elif if_there and thread == 0:
            device.mbarrier_arrive(empty)

    return release


def clearing(spec: GemmSpec) -> Any:
    """Return clear(at, valid, thread, group): it sets rows of a stage to 0 that belong to the next group.

    All warpgroups that multiply call it. The stage consists of parts of 64 rows along K, of 128 bytes.
    """
    PARTS, WARPGROUPS = spec.stage_bytes // PART, spec.groups

    @composed
    def clear(at, valid, thread, group, barrier):
        for chunk in range(8 * valid + thread, 8 * ROWS, 128):
            for part in range(group, PARTS, WARPGROUPS):
                device.st_shared_v4(at + PART * part + 16 * chunk, (0, 0, 0, 0))
        device.fence_proxy_async()
        device.bar_sync(barrier, 128 * WARPGROUPS)

    return clear


def multiplying(spec: GemmSpec) -> tuple[Any, ...]:
    """Return factors(shared, share), zeros(), multiplied(sums, a, b) and waited(sums).

    Sums are one or two fragments of 64 rows each. `factors` makes the descriptors of A and B in the first stage.
    `multiplied` begins the products of a stage and waits for the previous stage. `waited` waits for all stages, and
    returns the sums of each 64 rows of results.
    """
    A_DOWN, B_DOWN, multiply, SUMS = int(spec.a_down), int(spec.b_down), _PRODUCTS[spec.dtype], spec.tile[1] // 2
    # Steps along K, and from the first 64 rows of A to the next, are in units of 16 bytes.
    A_STEP, B_STEP, LOWER, A_BYTES = 128 if A_DOWN else 2, 128 if B_DOWN else 2, PART // 16, ROW * spec.tile[0]
    OWN, BOTH = PART * spec.halves, spec.below == 2
    A_MATRIX = device.wgmma_descriptor(128, 16, 1024)
    B_MATRIX = device.wgmma_descriptor(128, PART if B_DOWN else 16, 1024)

    @composed
    def one(sums, a, b):
        return multiply(sums, a, b, 4, A_STEP, B_STEP, A_DOWN, B_DOWN)

    @composed
    def factors(shared, share):
        # The addresses of a cluster's second block are too large for a descriptor: their higher bits are left out.
        first = shared & 0x3FFFF
        return A_MATRIX + ((first + share * OWN) >> 4), B_MATRIX + ((first + A_BYTES) >> 4)

    if spec.halves == 1:

        @composed
        def zeros():
            return (device.fill_fragment(0.0, SUMS),)

        @composed
        def multiplied(sums, a, b):
            return (device.wgmma_wait_group(one(sums[0], a, b), 1),)

        @composed
        def waited(sums):
            return (device.wgmma_wait_group(sums[0], 0),)

    else:

        @composed
        def zeros():
            return device.fill_fragment(0.0, SUMS), device.fill_fragment(0.0, SUMS)

        @composed
        def multiplied(sums, a, b):
            upper, lower = one(sums[0], a, b), one(sums[1], a + LOWER, b)
            return device.wgmma_wait_group(upper, 2), device.wgmma_wait_group(lower, 2)

        @composed
        def waited(sums):
            upper, lower = device.wgmma_wait_group(sums[0], 0), device.wgmma_wait_group(sums[1], 0)
            if BOTH:
                return (upper + lower,)
            return upper, lower

    return factors, zeros, multiplied, waited
