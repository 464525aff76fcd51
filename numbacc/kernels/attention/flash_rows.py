"""Prepare and finish the backward kernel of flash attention, with accesses of 16 bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base._numba import cuda
from ..primitives import device
from ..primitives.device.attention_tiles import ld_float32
from ..primitives.device.emitting import composed
from .flash_scores import NOTHING
from .flash_spec import FlashSpec


def parameters(spec: FlashSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters: addresses, steps, sizes."""
    if spec.direction == "prepare":
        return [("int64", None)] * 16
    return [*[("int64", None)] * 10, ("float32", None)]


def make(spec: FlashSpec) -> Any:
    """Return the kernel."""
    D, LANES, ROWS = spec.head_dim, spec.head_dim // 8, 8 * spec.threads // spec.head_dim
    is_bfloat16 = spec.dtype == "bfloat16"
    unpack, pack = (device.unpack_bf16, device.cvt_bf16x2) if is_bfloat16 else (device.unpack_f16, device.cvt_f16x2)
    BY_NUMBER, NEXT = spec.tiles is not None, 128 if spec.tiles else 16
    ZERO, LOG2_E = np.float32(0), np.float32(math.log2(math.e))
    ZEROS = (0, 0, 0, 0)

    @composed
    def word_of(x):
        return device.fragment_bits((x,))[0]

    @composed
    def product(x, y):
        a, b = unpack(x), unpack(y)
        return (
            (a[0] * b[0] + a[1] * b[1]) + (a[2] * b[2] + a[3] * b[3])
            + ((a[4] * b[4] + a[5] * b[5]) + (a[6] * b[6] + a[7] * b[7]))
        )  # fmt: skip

    @composed
    def sums_of(place, scale):
        """Return eight numbers of a row, and of the row 8 further, as words."""
        a, b, c, d = (
            device.fragment_floats(device.ld_global_v4(place)),
            device.fragment_floats(device.ld_global_v4(place + NEXT)),
            device.fragment_floats(device.ld_global_v4(place + 2 * NEXT)),
            device.fragment_floats(device.ld_global_v4(place + 3 * NEXT)),
        )
        if BY_NUMBER:  # each has a number of four threads, instead of the four numbers of a thread
            a, b, c, d = (
                (a[0], b[0], c[0], d[0]), (a[1], b[1], c[1], d[1]), (a[2], b[2], c[2], d[2]), (a[3], b[3], c[3], d[3]),
            )  # fmt: skip
        return (
            (
                pack(a[0] * scale, a[1] * scale), pack(b[0] * scale, b[1] * scale), pack(c[0] * scale, c[1] * scale),
                pack(d[0] * scale, d[1] * scale),
            ),
            (
                pack(a[2] * scale, a[3] * scale), pack(b[2] * scale, b[3] * scale), pack(c[2] * scale, c[3] * scale),
                pack(d[2] * scale, d[3] * scale),
            ),
        )  # fmt: skip

    def prepare(
        out, out_batch, out_head, out_row, dout, dout_batch, dout_head, dout_row, stats, prepared, dq, rows, all_rows,
        heads, stats_step, width,
    ):  # fmt: skip
        lane, place = cuda.threadIdx.x % LANES, np.int64(cuda.blockIdx.x) * ROWS + cuda.threadIdx.x // LANES
        number, row = place // all_rows, place % all_rows
        batch, head, delta, top, inverse = number // heads, number % heads, ZERO, ZERO, ZERO
        device.st_global_v4(dq + 4 * place * D + 32 * lane, ZEROS)
        device.st_global_v4(dq + 4 * place * D + 32 * lane + 16, ZEROS)
        if row < rows and 8 * lane < width:
            x = out + batch * out_batch + head * out_head + row * out_row + 16 * lane
            y = dout + batch * dout_batch + head * dout_head + row * dout_row + 16 * lane
            delta = product(device.ld_global_v4(x), device.ld_global_v4(y))
        for bit in range(BITS):
            delta += device.shfl_bfly(delta, 1 << bit)
        if lane == 0:
            if row < rows:
                to = stats + 4 * (number * rows + row)
                level, rest = ld_float32(to), ZERO
                if stats_step > 0:
                    rest = ld_float32(to + stats_step)
                if level > NOTHING:
                    # exp(x - level - rest) is 2^(x log2 e - top) times this reciprocal, although `top` is rounded.
                    top = level * LOG2_E
                    inverse = device.ex2_approx(-device.fma_rn(level, LOG2_E, -top) - rest * LOG2_E)
            to = prepared + 4 * (place // 64 * 192 + place % 64)
            device.st_global_b32(to, word_of(top))
            device.st_global_b32(to + 256, word_of(inverse))
            device.st_global_b32(to + 512, word_of(delta))

    def finish(sums, dq, dq_batch, dq_head, dq_row, rows, all_rows, heads, count, width, scale):
        # A thread has eight columns of two rows. The sums of 64 rows lie as the backward kernel's threads have them.
        lane, pair = cuda.threadIdx.x % LANES, np.int64(cuda.blockIdx.x) * ROWS + cuda.threadIdx.x // LANES
        if pair < count and 8 * lane < width:
            tile, own = pair // 32, pair % 32
            place = sums + 4 * D * 64 * tile + 2048 * lane
            place += 512 * (own // 8) + 16 * (own % 8) if BY_NUMBER else 64 * own
            first, second = sums_of(place, scale)
            number, row = 64 * tile // all_rows, 64 * tile % all_rows + 16 * (own // 8) + own % 8
            to = dq + number // heads * dq_batch + number % heads * dq_head + row * dq_row + 16 * lane
            if row < rows:
                device.st_global_v4(to, first)
            if row + 8 < rows:
                device.st_global_v4(to + 8 * dq_row, second)

    BITS = LANES.bit_length() - 1
    return prepare if spec.direction == "prepare" else finish
