"""Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw 2011 (doi 10.1145/2063384.2063405).

Its state does not advance from number to number: four words of output are a function of four words of counter and two
of key, and it scrambles them so thoroughly that a simple counter is enough. Thus any thread can compute any part of the
sequence, and a kernel generates its numbers in registers, where it needs them.
"""

from __future__ import annotations

import numpy as np

from ...base._numba import cuda
from ..primitives.instructions import hardware

product = hardware.product

ROUNDS = 10
#: The round's multipliers, and the constants that are added to the key's words after each round.
_A, _B = np.uint32(0xD2511F53), np.uint32(0xCD9E8D57)
_V, _W = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
#: cuRAND distributes the sequence to 2^16 threads, 4 words at a time.
_THREADS_LOG2, _THREAD = np.uint64(16), np.uint64(2**16 - 1)
#: The bits of a group's number that count pairs of turns.
_ONE, _EVEN_TURNS = np.uint64(1), np.uint64(2**64 - 2**17)


@cuda.jit(device=True)
def low(x):
    """Return the low 32 bits of a 64-bit integer."""
    return np.uint32(x & _LOW)


@cuda.jit(device=True)
def high(x):
    """Return the high 32 bits of a 64-bit integer."""
    return np.uint32(x >> _32)


@cuda.jit(device=True)
def join(lower, upper):
    """Return the 64-bit integer that consists of two words."""
    return np.uint64(lower) | np.uint64(upper) << _32


@cuda.jit(device=True)
def philox(c0, c1, c2, c3, k0, k1):
    """Return four 32-bit words from a counter of four words and a key of two.

    A round multiplies two of the counter's words by constants, to 64 bits each; the high halves are mixed with the
    other two words and the key, and all four are permuted.
    """
    for _ in range(ROUNDS):
        p = product(c0, _A)
        q = product(c2, _B)
        c0, c1, c2, c3 = np.uint32(high(q) ^ c1 ^ k0), low(q), np.uint32(high(p) ^ c3 ^ k1), low(p)
        k0 = low(np.uint64(k0) + _V)
        k1 = low(np.uint64(k1) + _W)
    return c0, c1, c2, c3


@cuda.jit(device=True)
def words(seed, group):
    """Return the words 4 `group` to 4 `group` + 3 of the output of cuRAND's `curandGenerate` for a seed.

    The seed is the key. The counter's high half is the number of one of cuRAND's threads, its low half is the number of
    that thread's earlier turns: 65536 threads take turns.
    """
    turn = group >> _THREADS_LOG2
    return philox(low(turn), high(turn), low(group & _THREAD), np.uint32(0), low(seed), high(seed))


@cuda.jit(device=True)
def words_in_turns(seed, group):
    """Return the words of pair number `group` of cuRAND's float64 normals, counted from the sequence's start.

    One of cuRAND's threads makes two adjacent pairs (four normals) from the words of two turns. The second pair uses
    the words of the same thread's next turn.
    """
    turn = group & _ONE
    thread = group >> _ONE & _THREAD
    return words(seed, (group & _EVEN_TURNS) | turn << _THREADS_LOG2 | thread)
