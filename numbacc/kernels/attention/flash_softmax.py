"""The scores of a tile and their softmax, in the registers of the flash attention kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..primitives import device
from ..primitives.device.attention_tiles import ld_int32, plus, times, warp_any
from ..primitives.device.emitting import composed
from .flash_scores import NOTHING, scoring
from .flash_spec import BLOCK, BLOCK_WORDS, ROWS, FlashSpec

#: Numbers are rescaled once a weight exceeds this power of 2. So most tiles need no rescaling.
GROWTH = np.float32(8)
ZERO, ONE, LN_2 = np.float32(0), np.float32(1), np.float32(math.log(2))


def masking(spec: FlashSpec) -> tuple[Any, Any]:
    """Return two device functions: the bits of the mask in a tile, and the tile's scores after functions and mask."""
    HIGH, TILES = spec.keys, spec.keys // 8
    HAS_SCORE, HAS_BITS, CAUSAL, ALL = spec.score is not None, spec.has_bits, spec.is_causal, np.int32(-1)
    score, partial_score = scoring(spec, False), scoring(spec, True)
    # The second word of a thread is for the next 64 columns, or for the next 16 rows of a warp.
    NEXT, HAS_SECOND = (256, spec.tiles.rows > 16) if spec.tiles else (4, HIGH > 64)

    @composed
    def bits_of(tile, is_listed, bits):
        """Return the bits of the thread's scores. `bits` is the address of the thread's words of the first block."""
        words = (ALL, ALL)
        if HAS_BITS and is_listed > 0:
            column = tile * HIGH
            at = bits + 4 * BLOCK_WORDS * (column // BLOCK) + 4 * (column % BLOCK // 64)
            words = (ld_int32(at), ld_int32(at + NEXT) if HAS_SECOND else ALL)
            if HIGH < 64:  # the bits of the tile's columns come first
                shift = np.int32(column % 64 // 2)
                words = (words[0] >> shift, words[1] >> shift)
        return words

    @composed
    def scored(sums, tile, is_listed, words, place, own):
        """Apply the score function, and the mask in tiles that it cuts. Other tiles need neither."""
        queries, keys, shift, batch, head, starts, query_steps, key_steps, scale, first_query, first_key = place
        column, rows = tile * HIGH, queries - own
        is_partial = is_listed > 0 or rows < ROWS or column + HIGH > keys
        if CAUSAL:
            is_partial = is_partial or column + HIGH - 1 > own + shift
        given = (
            first_query, column + first_key, batch, head, starts, query_steps, key_steps, scale,
            queries - first_query, keys - column - first_key, first_query + shift - column - first_key, words,
        )  # fmt: skip
        if is_partial:
            return device.fragment_map_positions(partial_score, sums, TILES, given)
        if HAS_SCORE:
            return device.fragment_map_positions(score, sums, TILES, given)
        return sums

    return bits_of, scored


def softmax(spec: FlashSpec) -> tuple[Any, Any, Any]:
    """Return device functions: the weights of a tile, the reciprocals of sums, and the store of a row's statistics."""
    TILES, HAS_SCORE = spec.keys // 8, spec.score is not None
    HEIGHT = spec.tiles.rows // 8 if spec.tiles else 2  # rows of a thread
    SUMS = HEIGHT * spec.keys // 4

    @composed
    def larger(x, y):
        return device.max_f32(x, y)

    @composed
    def second(x, y):
        return y

    @composed
    def finite(base):
        return base if base > NOTHING else ZERO  # a row that sees no key

    @composed
    def weight(x, factor, base):
        return device.ex2_approx(device.fma_rn(x, factor, -base))  # rounded once: right for scores of any size

    @composed
    def ratio(old, new):
        return device.ex2_approx(old - new)

    @composed
    def has_grown(wanted, base):
        return ONE if wanted - base > GROWTH else ZERO

    @composed
    def any_of_two(found):
        return found[0] + found[1] > ZERO

    @composed
    def any_of_four(found):
        return (found[0] + found[1]) + (found[2] + found[3]) > ZERO

    any_of = any_of_two if HEIGHT == 2 else any_of_four

    @composed
    def softened(sums, highest, base, total, factor):
        """Return (weights, maxima, bases, sums of weights, the factor of older numbers, whether it is not 1).

        Weights are powers of 2 that count from a base: the maximum times the factor, at the time when it was set. The
        bases of a warp's rows are set again when a weight of one of them would exceed 2^8.
        """
        factors = device.fill_fragment(factor, HEIGHT)
        found = device.quad_reduce(larger, device.fragment_reduce_rows(larger, sums, TILES))
        highest = device.fragment_map(larger, (highest, found))
        wanted = device.fragment_map(times, (highest, factors))
        grown = device.fragment_map(has_grown, (wanted, base))
        changes = warp_any(np.int32(1) if any_of(grown) else np.int32(0))
        shrink = device.fill_fragment(1.0, HEIGHT)
        if changes > 0:
            shrink = device.fragment_map(ratio, (base, device.fragment_map(finite, (wanted,))))
            base = wanted
        bases = device.fragment_map_rows(second, sums, device.fragment_map(finite, (base,)), TILES)
        weights = device.fragment_map(weight, (sums, device.fill_fragment(factor, SUMS), bases))
        added = device.fragment_reduce_rows(plus, weights, TILES)
        total = device.fragment_map(plus, (device.fragment_map(times, (total, shrink)), added))
        return weights, highest, base, total, shrink, changes

    @composed
    def inverse(total):
        return ONE / total if total > ZERO else ZERO

    @composed
    def inverses(total):
        return device.fragment_map(inverse, (total,))

    @composed
    def level_of(highest, unit):
        """Return the largest score, or -inf."""
        return highest * unit if highest > NOTHING else NOTHING

    @composed
    def rest_of(highest, total, factor, base):
        """Return log(sum of exp(score - largest)): the sum is of powers of 2 that count from the base."""
        if highest > NOTHING:
            return (device.lg2_approx(total) - device.fma_rn(highest, factor, -base)) * LN_2
        return ZERO

    @composed
    def store(highest, total, base, factor, scale, to, step, count):
        """Store the statistics of two rows, 8 apart. `count` rows exist from the first one on.

        With a score function, `step` is the distance of both statistics in bytes. Otherwise their sum is stored.
        """
        levels = device.fragment_map(level_of, (highest, device.fill_fragment(ONE if HAS_SCORE else scale, 2)))
        rests = device.fragment_map(rest_of, (highest, total, device.fill_fragment(factor, 2), base))
        if not HAS_SCORE:
            levels = device.fragment_map(plus, (levels, rests))
        levels, rests = device.fragment_bits(levels), device.fragment_bits(rests)
        if count > 0:
            device.st_global_b32(to, levels[0])
            if HAS_SCORE:
                device.st_global_b32(to + step, rests[0])
        if count > 8:
            device.st_global_b32(to + 32, levels[1])
            if HAS_SCORE:
                device.st_global_b32(to + step + 32, rests[1])

    return softened, inverses, store
