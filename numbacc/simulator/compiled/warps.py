"""Exchanges between the threads of a warp: shuffles, votes and matches.

Each thread writes its value on a board and notes that it came. Then each thread calls a function of `EXCHANGES` with
(board, came, thread, threads of the block, mask, ...): of the block's threads the values and who came; what follows are the other
arguments of the call, without the value.
"""

from __future__ import annotations

from typing import Any

from numba import njit

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}

#: Exchanges whose board holds truth values, as bytes.
VOTES = ("ballot", "any", "all", "eq", "activemask")


@njit(forceinline=True, **OPTIONS)
def _lane(board, t, source, threads):  # type: ignore[no-untyped-def]
    first = t - t % 32
    here = 0 <= source < 32 and first + source < threads
    return board[first + source] if here else board[t]


@njit(forceinline=True, **OPTIONS)
def _ballot(board, came, t, threads, mask):  # type: ignore[no-untyped-def]
    first, bits = t - t % 32, 0
    for lane in range(min(32, threads - first)):
        bits |= (1 if board[first + lane] and came[first + lane] else 0) << lane
    return bits & mask


@njit(forceinline=True, **OPTIONS)
def _active(board, came, t, threads, mask=0xFFFFFFFF):  # type: ignore[no-untyped-def]
    return _ballot(came, came, t, threads, mask)


@njit(forceinline=True, **OPTIONS)
def _any(board, came, t, threads, mask):  # type: ignore[no-untyped-def]
    return _ballot(board, came, t, threads, mask) != 0


@njit(forceinline=True, **OPTIONS)
def _all(board, came, t, threads, mask):  # type: ignore[no-untyped-def]
    return _ballot(board, came, t, threads, mask) == _active(board, came, t, threads, mask)


@njit(forceinline=True, **OPTIONS)
def _shfl(board, came, t, threads, mask, source, width=32):  # type: ignore[no-untyped-def]
    return _lane(board, t, source % 32, threads)


@njit(forceinline=True, **OPTIONS)
def _up(board, came, t, threads, mask, delta, width=32):  # type: ignore[no-untyped-def]
    return _lane(board, t, t % 32 - delta, threads)


@njit(forceinline=True, **OPTIONS)
def _down(board, came, t, threads, mask, delta, width=32):  # type: ignore[no-untyped-def]
    return _lane(board, t, t % 32 + delta, threads)


@njit(forceinline=True, **OPTIONS)
def _xor(board, came, t, threads, mask, bits, width=32):  # type: ignore[no-untyped-def]
    return _lane(board, t, (t % 32) ^ bits, threads)


#: Name of a call without `_sync` -> its function.
EXCHANGES: dict[str, Any] = {
    "shfl": _shfl, "shfl_up": _up, "shfl_down": _down, "shfl_xor": _xor,
    "ballot": _ballot, "any": _any, "all": _all, "activemask": _active,
}  # fmt: skip
