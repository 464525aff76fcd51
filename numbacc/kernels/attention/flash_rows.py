"""What happens before and after the backward kernel of flash attention: a warp has a row of a head."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base._numba import cuda
from ..primitives import device
from ..primitives.device.attention_tiles import ld_float32
from ..primitives.device.emitting import composed
from .flash_spec import FlashSpec


def parameters(spec: FlashSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters: addresses, steps, sizes."""
    if spec.direction == "prepare":
        return [("int64", None)] * 15
    return [*[("int64", None)] * 9, ("float32", None)]


def make(spec: FlashSpec) -> Any:
    """Return the kernel."""
    D, WORDS = spec.head_dim, spec.head_dim // 64
    is_bfloat16 = spec.dtype == "bfloat16"
    unpack, pack = (device.unpack_bf16, device.cvt_bf16x2) if is_bfloat16 else (device.unpack_f16, device.cvt_f16x2)
    ZERO, ONE = np.float32(0), np.float32(1)

    @composed
    def word_of(x):
        return device.fragment_bits((x,))[0]

    def prepare(
        out, out_batch, out_head, out_row, dout, dout_batch, dout_head, dout_row, stats, prepared, dq, rows, all_rows,
        heads, stats_step,
    ):  # fmt: skip
        lane, place = cuda.threadIdx.x & 31, cuda.blockIdx.x * 8 + (cuda.threadIdx.x >> 5)
        number, row = place // all_rows, place % all_rows
        batch, head, delta, top, inverse = number // heads, number % heads, ZERO, ZERO, ZERO
        for k in range(WORDS):
            device.st_global_v2(dq + 4 * place * D + 8 * (lane + 32 * k), (0, 0))
        if row < rows:
            x = out + batch * out_batch + head * out_head + row * out_row
            y = dout + batch * dout_batch + head * dout_head + row * dout_row
            for k in range(WORDS):
                at = 4 * (lane + 32 * k)
                left, right = unpack((device.ld_global_b32(x + at),)), unpack((device.ld_global_b32(y + at),))
                delta += left[0] * right[0] + left[1] * right[1]
            for bit in range(5):
                delta += device.shfl_bfly(delta, 1 << bit)
            to = stats + 4 * (number * rows + row)
            top, total = ld_float32(to), ld_float32(to + stats_step)
            inverse = ONE / total if total > ZERO else ZERO
        if lane == 0:
            to = prepared + 4 * (place // 64 * 192 + place % 64)
            device.st_global_b32(to, word_of(top))
            device.st_global_b32(to + 256, word_of(inverse))
            device.st_global_b32(to + 512, word_of(delta))

    def finish(sums, dq, dq_batch, dq_head, dq_row, rows, all_rows, heads, count, scale):
        lane, place = cuda.threadIdx.x & 31, cuda.blockIdx.x * 8 + (cuda.threadIdx.x >> 5)
        number, row = place // rows, place % rows
        if place < count:
            to = dq + number // heads * dq_batch + number % heads * dq_head + row * dq_row
            for k in range(WORDS):
                at = lane + 32 * k
                two = device.fragment_floats(device.ld_global_v2(sums + 4 * (number * all_rows + row) * D + 8 * at))
                device.st_global_b32(to + 4 * at, pack(two[0] * scale, two[1] * scale))

    return prepare if spec.direction == "prepare" else finish
