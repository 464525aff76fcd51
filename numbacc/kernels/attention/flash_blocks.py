"""Which blocks of 128 queries (backward: 64) and 128 keys a mask leaves, and lists of them for flash attention.

A block of the kernel looks at 128 x 128 scores. Its threads look at those scores that the threads of flash attention
will have in registers, and store them as bits: 64 scores in two words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base._numba import cuda
from ..primitives import device
from ..primitives.device.attention_tiles import ELEMENT_LOADS, ld_int32, plus
from ..primitives.device.emitting import composed
from ..primitives.specialize import specialize
from .flash_spec import BLOCK, BLOCK_WORDS, FlashSpec

#: The states of a block.
EMPTY, PARTIAL, FULL = 0, 1, 2


def parameters(spec: FlashSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters: addresses, steps, sizes."""
    return [("int64", None)] * (5 if spec.direction == "lists" else 10)


def make(spec: FlashSpec) -> Any:
    """Return the kernel."""
    THREADS, DOWN = spec.threads, spec.direction == "states_down"

    @composed
    def larger(x, y):
        return max(x, y)

    @composed
    def smaller(x, y):
        return min(x, y)

    visible: Any = _visible(spec) if spec.mask is not None else None
    HAS_CELLS = bool(spec.operands)

    @composed
    def look(k, found, cells, query_step, key_step, batch, head, row, column, queries, keys):
        """Look at the thread's k-th score. Return its bit in the word, whether one is visible, and whether all are."""
        own_row, own_column = row + k % 4 // 2 * 8, column + k // 4 * 8 + k % 2
        query, key = (own_column, own_row) if DOWN else (own_row, own_column)
        # Elements beyond the arrays do not exist. Without a branch, all elements are loaded at once.
        near, close = min(query, queries - 1), min(key, keys - 1)
        seen = visible(cells + near * query_step + close * key_step, batch, head, near, close)
        is_seen = seen if (query < queries) & (key < keys) else np.int32(0)
        return found[0] | (is_seen << np.int32(k)), max(found[1], is_seen), min(found[2], is_seen)

    def states(target, bits, cells, batch_step, head_step, query_step, key_step, heads, queries, keys):
        number, thread, lane = np.int64(cuda.blockIdx.z), cuda.threadIdx.x, cuda.threadIdx.x & 31
        batch, head, place = number // heads, number % heads, number * cuda.gridDim.y + cuda.blockIdx.y
        place = place * cuda.gridDim.x + cuda.blockIdx.x
        cells += batch * batch_step + head * head_step
        row = np.int64(cuda.blockIdx.y) * BLOCK + 64 * (thread >> 7) + 16 * ((thread & 127) >> 5) + (lane >> 2)
        some, every = np.int32(0), np.int32(1)
        for half in range(2):
            column = np.int64(cuda.blockIdx.x) * BLOCK + 64 * half + 2 * (lane & 3)
            found = (np.int32(0), some, every)
            if HAS_CELLS:
                more = (cells, query_step, key_step, batch, head, row, column, queries, keys)
                found = device.unroll(look, 32, found, more)
            else:
                for k in range(32):
                    found = look(k, found, cells, query_step, key_step, batch, head, row, column, queries, keys)
            word, some, every = found
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
    """Return the device function (address of the element, batch, head, query, key) -> 1 if the query sees the key."""
    space: dict[str, Any] = {"mask": specialize(spec.mask.function, "float32", True, inline=True), "whole": np.int32}
    element = ""
    if spec.operands:
        space["load"], element = ELEMENT_LOADS[spec.operands[0][0]], "load(address), "
    given = ", ".join(f"whole({each})" for each in ("batch", "head", "query", "key"))
    lines = [
        "def visible(address, batch, head, query, key):",
        f"    return whole(1) if bool(mask({element}{given})[0]) else whole(0)",
    ]
    exec("\n".join([*lines, ""]), space)
    return composed(space["visible"])
