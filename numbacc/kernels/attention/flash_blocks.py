"""Which blocks of 128 queries (backward: 64) and 128 keys a mask leaves, and lists of them for flash attention.

A block of the kernel looks at 128 x 128 scores. Its threads look at those scores that the threads of flash attention
will have in registers, and store them as bits: 64 scores in two words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base._numba import cuda
from ..primitives import device
from ..primitives.device.attention_tiles import larger, ld_int32, plus, smaller
from ..primitives.device.emitting import composed
from ..primitives.specialize import specialize
from .flash_spec import BLOCK, BLOCK_WORDS, FlashSpec

#: The states of a block.
EMPTY, PARTIAL, FULL = 0, 1, 2


def parameters(spec: FlashSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters: addresses, steps, sizes."""
    return [("int64", None)] * 5


def make(spec: FlashSpec) -> Any:
    """Return the kernel."""
    THREADS, DOWN = spec.threads, spec.direction == "states_down"

    visible: Any = _visible(spec) if spec.mask is not None else None

    def states(target, bits, heads, queries, keys):
        number, thread, lane = np.int64(cuda.blockIdx.z), cuda.threadIdx.x, cuda.threadIdx.x & 31
        batch, head = number // heads, number % heads
        some, every, warp = np.int32(0), np.int32(1), (thread & 127) >> 5
        row = number * cuda.gridDim.y + cuda.blockIdx.y
        place = row * cuda.gridDim.x + cuda.blockIdx.x
        for half in range(2):
            word = np.int32(0)
            for k in range(32):
                own_row, own_column = k % 4 // 2 * 8 + 16 * warp + (lane >> 2), k // 4 * 8 + k % 2 + 2 * (lane & 3)
                own_row += 64 * (thread >> 7)
                own_column += 64 * half
                row_of = np.int64(cuda.blockIdx.y) * BLOCK + own_row
                column_of = np.int64(cuda.blockIdx.x) * BLOCK + own_column
                query, key = (column_of, row_of) if DOWN else (row_of, column_of)
                found = np.int32(0)
                if query < queries and key < keys:
                    found = visible(batch, head, query, key)
                some, every = max(some, found), min(every, found)
                word = word | (found << np.int32(k))
            if bits != 0:
                own = 256 * half + thread if DOWN else 2 * thread + half
                device.st_global_b32(bits + 4 * (BLOCK_WORDS * place + own), word)
            if DOWN or half > 0:
                some, every = device.block_reduce(larger, some), device.block_reduce(smaller, every)
                if thread == 0:
                    device.st_global_b32(target + 4 * (2 * place + half if DOWN else place), some + every * some)
                some, every = np.int32(0), np.int32(1)

    def lists(source, counts, target, columns, width):
        row, thread = np.int64(cuda.blockIdx.x), cuda.threadIdx.x
        total = np.int32(0)
        for first in range(0, columns, THREADS):
            column, state = first + thread, np.int32(0)
            if column < columns:
                state = ld_int32(source + 4 * (row * columns + column))
            is_left = np.int32(1) if state > 0 else np.int32(0)
            place = total + device.block_exclusive_scan(plus, is_left, np.int32(0))
            if is_left > 0:
                is_cut = np.int32(1) if state == PARTIAL else np.int32(0)
                device.st_global_b32(target + 4 * (row * width + place), np.int32(2 * column) + is_cut)
            total += device.block_reduce(plus, is_left)
        if thread == 0:
            device.st_global_b32(counts + 4 * row, total)

    return lists if spec.direction == "lists" else states


def _visible(spec: FlashSpec) -> Any:
    """Return the device function (batch, head, query, key) -> 1 if the query sees the key."""
    space: dict[str, Any] = {"mask": specialize(spec.mask.function, "float32", True, inline=True), "whole": np.int32}
    given = ", ".join(f"whole({each})" for each in ("batch", "head", "query", "key"))
    lines = [
        "def visible(batch, head, query, key):",
        f"    return whole(1) if bool(mask({given})[0]) else whole(0)",
    ]
    exec("\n".join([*lines, ""]), space)
    return composed(space["visible"])
