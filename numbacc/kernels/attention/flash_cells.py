"""States and bits of blocks of scores, as in `flash_blocks`, from an array of truth values.

A block of the kernel looks at 128 x 128 scores. A thread loads 64 truth values of a query and packs them into two words
in shared memory. Then it collects the bits of the scores that it has in registers in the flash attention kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base._numba import cuda
from ..primitives import device
from ..primitives.device.attention_tiles import larger, ld_uint8, smaller
from ..primitives.device.emitting import composed
from .flash_spec import BLOCK, BLOCK_WORDS, FlashSpec

#: The factor that moves bits 0, 8, 16 and 24 of a word to bits 24, 25, 26 and 27.
_GATHER = 0x01020408
_ALL = 0xFFFFFFFF


def parameters(spec: FlashSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters: addresses, steps, sizes."""
    return [("int64", None)] * 10


def make(spec: FlashSpec) -> Any:
    """Return the kernel."""
    DOWN = spec.direction == "cells_down"

    @composed
    def packed(k, word, values):
        """Add the bits of four truth values, the bytes of a word."""
        return word | ((values[k] * _GATHER >> 24 & 15) << (4 * k))

    @composed
    def words_of(address, step, count):
        """Return the bits of `count` truth values in two words."""
        low, high = np.int64(0), np.int64(0)
        if step == 1 and count >= 64 and address & 15 == 0:
            a, b = device.ld_global_v4(address), device.ld_global_v4(address + 16)
            c, d = device.ld_global_v4(address + 32), device.ld_global_v4(address + 48)
            low = device.unroll(packed, 4, low, (a,)) | device.unroll(packed, 4, np.int64(0), (b,)) << 16
            high = device.unroll(packed, 4, high, (c,)) | device.unroll(packed, 4, np.int64(0), (d,)) << 16
        else:
            for k in range(min(count, 32)):
                low |= np.int64(ld_uint8(address + k * step)) << k
            for k in range(min(count - 32, 32)):
                high |= np.int64(ld_uint8(address + (k + 32) * step)) << k
        return low, high

    @composed
    def along_queries(at, row, column):
        """Return 16 bits of 32 keys: two bits of each group of 8, and of the query 8 further."""
        x = device.ld_shared_b32(at + 16 * row) >> column & 0x03030303
        y = device.ld_shared_b32(at + 16 * (row + 8)) >> column & 0x03030303
        z = np.int64(x) | np.int64(y) << 2
        z = (z | z >> 4) & 0x00FF00FF
        return (z | z >> 8) & 0xFFFF

    @composed
    def along_keys(k, word, at, shift):
        """Add the bits of the k-th query, for a key and the key 8 further."""
        found = np.int64(device.ld_shared_b32(at + 16 * (k // 2 * 8 + k % 2))) >> shift
        return word | ((found & 1) | (found >> 6 & 4)) << (k // 2 * 4 + k % 2)

    def cells(target, bits, array, batch_step, head_step, query_step, key_step, heads, queries, keys):
        number, thread, lane = np.int64(cuda.blockIdx.z), cuda.threadIdx.x, cuda.threadIdx.x & 31
        shared, place = device.dynamic_shared(), number * cuda.gridDim.y + cuda.blockIdx.y
        place = place * cuda.gridDim.x + cuda.blockIdx.x
        along, across = np.int64(cuda.blockIdx.x) * BLOCK, np.int64(cuda.blockIdx.y) * BLOCK
        query, key = (along, across) if DOWN else (across, along)
        query, key = query + (thread >> 1), key + 64 * (thread & 1)
        low, high = np.int64(0), np.int64(0)
        if query < queries:
            address = array + number // heads * batch_step + number % heads * head_step
            low, high = words_of(address + query * query_step + key * key_step, key_step, keys - key)
        device.st_shared_b32(shared + 8 * thread, np.uint32(low))
        device.st_shared_b32(shared + 8 * thread + 4, np.uint32(high))
        cuda.syncthreads()
        row, column = 64 * (thread >> 7) + 16 * (thread >> 5 & 3) + (lane >> 2), 2 * (lane & 3)
        some, every = np.int32(0), np.int32(1)
        for half in range(2):
            if DOWN:
                at = shared + 16 * (64 * half + column) + 4 * (row >> 5)
                word = device.unroll(along_keys, 16, np.int64(0), (at, row & 31))
            else:
                at = shared + 8 * half
                word = along_queries(at, row, column) | along_queries(at + 4, row, column) << 16
            some, every = max(some, np.int32(word != 0)), min(every, np.int32(word == _ALL))
            own = 256 * half + thread if DOWN else 2 * thread + half
            device.st_global_b32(bits + 4 * (BLOCK_WORDS * place + own), np.uint32(word))
            if DOWN or half > 0:
                some, every = device.block_reduce(larger, some), device.block_reduce(smaller, every)
                if thread == 0:
                    device.st_global_b32(target + 4 * (2 * place + half if DOWN else place), some + every * some)
                some, every = np.int32(0), np.int32(1)

    return cells
