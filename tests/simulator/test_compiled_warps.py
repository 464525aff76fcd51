"""Shuffles, votes and matches of the compiled simulator, against Python loops over the lanes."""

from functools import cache

import numpy as np
import pytest
from numba import njit

from numbacc.simulator.compiled.warps import EXCHANGES

FULL = 0xFFFFFFFF
THREADS = 75  # two warps and a part of a third
DTYPES = (np.int32, np.int64, np.uint64, np.float32, np.float64)


def board_of(dtype):
    rng = np.random.default_rng(3)
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(THREADS).astype(dtype)
    return rng.integers(0, np.iinfo(dtype).max, THREADS, dtype)


def came_of(share):
    return (np.random.default_rng(4).random(THREADS) < share).astype(np.uint8)


@cache
def compiled(name):
    """Return a function of `EXCHANGES` that Python can call; it is compiled once for each dtype."""
    function = EXCHANGES[name]
    return njit(lambda board, came, t, threads, mask, *rest: function(board, came, t, threads, mask, *rest))


def everywhere(name, board, came, mask, *rest):
    """Return the result of each thread; the other arguments may differ between threads."""
    run = compiled(name)
    return [run(board, came, t, board.size, mask, *(each[t] for each in rest)) for t in range(board.size)]


def source_of(name, lane, b, width):
    """Return the lane that PTX's shfl reads, by the rules of its manual, or None for the thread's own value."""
    first, last = lane & ~(width - 1), lane | (width - 1)
    b &= 31
    if name == "shfl":
        return first | (b & (width - 1))
    if name == "shfl_up":
        return lane - b if lane - b >= first else None
    source = lane + b if name == "shfl_down" else lane ^ b
    return source if source <= last else None


@pytest.mark.each_alone
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ("shfl", "shfl_up", "shfl_down", "shfl_xor"))
@pytest.mark.sampled(2)
def test_shuffles(name, dtype):
    board, came = board_of(dtype), came_of(0.9)
    rng = np.random.default_rng(5)
    for width in (32, 8, 1) if dtype is np.int32 else (32,):
        by = rng.integers(-40, 40, THREADS)
        found = everywhere(name, board, came, FULL, by, *([np.full(THREADS, width)] if width != 32 else []))
        for t in range(THREADS):
            source = source_of(name, t % 32, int(by[t]), width)
            other = t if source is None else t - t % 32 + source
            other = other if other < THREADS and came[other] else t
            assert found[t] == board[other]


def signed(bits):
    return bits - (1 << 32) if bits >> 31 else bits


def lanes(t, mask, came, holds):
    """Return the bits of the lanes of a thread's warp that came, are in the mask, and for which `holds`."""
    first = t - t % 32
    return sum(
        1 << k for k in range(32) if first + k < THREADS and mask >> k & 1 and came[first + k] and holds(first + k)
    )


@pytest.mark.each_alone(paired=True)
@pytest.mark.parametrize("mask", (FULL, 0x0F0F00FF))
@pytest.mark.parametrize("share", (1.0, 0.8))
@pytest.mark.sampled(1)
def test_votes(mask, share):
    came = came_of(share)
    for board in ((came_of(0.5) * 3).astype(np.uint8), np.ones(THREADS, np.uint8), np.zeros(THREADS, np.uint8)):
        found = {n: everywhere(n, board, came, mask) for n in ("ballot", "any", "all", "eq")}
        for t in range(THREADS):
            yes, here = lanes(t, mask, came, lambda k, b=board: b[k]), lanes(t, mask, came, lambda k: True)
            assert found["ballot"][t] == signed(yes)
            assert found["any"][t] == (yes != 0)
            assert found["all"][t] == (yes == here)
            assert found["eq"][t] == (yes in (0, here))


def test_active_lanes():
    came, function = came_of(0.6), EXCHANGES["activemask"]

    @njit
    def run(came):
        return [function(came, came, t, came.size) for t in range(came.size)]

    assert run(came) == [lanes(t, FULL, came, lambda k: True) for t in range(THREADS)]


@pytest.mark.parametrize("dtype", (np.int64, np.float64))
def test_matches(dtype):
    came, mask = came_of(0.8), 0xFFFF7FFF
    board = np.random.default_rng(6).integers(-1, 2, THREADS).astype(dtype)
    if dtype is np.float64:
        board[::7] = np.nan
        board[3::7] = -0.0
    words = board.view(np.int64)
    found = everywhere("match_any", board, came, mask)
    for t in range(THREADS):
        assert found[t] == signed(lanes(t, mask, came, lambda k, t=t: words[k] == words[t]))
    for each in (board, np.full(THREADS, 5, dtype)):
        found, bits = everywhere("match_all", each, came, mask), each.view(np.int64)
        for t in range(THREADS):
            here = lanes(t, mask, came, lambda k: True)
            same = lanes(t, mask, came, lambda k, t=t, w=bits: w[k] == w[t]) == here
            assert found[t] == (signed(here) if same else 0, same)
