"""Exchanges between the threads of a warp: shuffles, votes and matches.

Each thread writes its value on a board and records that it came. Then each thread calls a function of `EXCHANGES` with
(board, came, thread, threads of the block, mask, ...): the values of all threads of the block, which threads came, and
the call's other arguments without the value. `came` is None if all threads of the block come. Results have the types
that they have on a GPU.

A lane that did not come takes no part even if the mask names it. A shuffle from a lane that does not exist or did not
come gives the thread's own value (on a GPU it is undefined).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from .arithmetic import Compiler

#: Functions that only compiled code calls need no wrappers.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
OPTIONS["pipeline_class"] = Compiler

#: Exchanges with a board of booleans, stored as bytes.
VOTES = ("ballot", "any", "all", "eq", "activemask")


@intrinsic
def _same_bits(typingctx: Any, a: Any, b: Any) -> Any:
    """Return whether two numbers of one type have the same bits. Matches compare NaN and zeros this way."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(8 * context.get_abi_sizeof(args[0].type))
        return builder.icmp_unsigned("==", *[builder.bitcast(v, word) for v in args])

    return types.boolean(a, b), codegen


@intrinsic
def word_of(typingctx: Any, value: Any) -> Any:
    """Return the bits of a number of 32 or 64 bits as int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = 8 * context.get_abi_sizeof(args[0].type)
        return builder.zext(builder.bitcast(args[0], ir.IntType(size)), ir.IntType(64))

    return types.int64(value), codegen


@intrinsic
def of_word(typingctx: Any, word: Any, like: Any) -> Any:
    """Return the number with these bits, of the type of another number."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = context.get_value_type(signature.return_type)
        return builder.bitcast(builder.trunc(args[0], ir.IntType(8 * context.get_abi_sizeof(kind))), kind)

    return types.unliteral(like)(types.int64, types.unliteral(like)), codegen


@njit(forceinline=True, **OPTIONS)
def _lane(board, came, t, threads, source):  # type: ignore[no-untyped-def]
    """Return the value of a lane of the thread's warp."""
    other = (t & ~31) + source
    other = other if other < threads else t
    if came is not None:  # None: all threads of the block came
        other = other if came[other] != 0 else t
    return board[other]


@njit(forceinline=True, **OPTIONS)
def _shfl(board, came, t, threads, mask, source, width=32):  # type: ignore[no-untyped-def]
    lane = t & 31
    return _lane(board, came, t, threads, (lane & ~(width - 1)) | (source & (width - 1)))


@njit(forceinline=True, **OPTIONS)
def _shfl_up(board, came, t, threads, mask, delta, width=32):  # type: ignore[no-untyped-def]
    lane = t & 31
    source = lane - (delta & 31)
    return _lane(board, came, t, threads, source if source >= lane & ~(width - 1) else lane)


@njit(forceinline=True, **OPTIONS)
def _shfl_down(board, came, t, threads, mask, delta, width=32):  # type: ignore[no-untyped-def]
    lane = t & 31
    source = lane + (delta & 31)
    return _lane(board, came, t, threads, source if source <= (lane | (width - 1)) else lane)


@njit(forceinline=True, **OPTIONS)
def _shfl_xor(board, came, t, threads, mask, bits, width=32):  # type: ignore[no-untyped-def]
    lane = t & 31
    source = lane ^ (bits & 31)
    return _lane(board, came, t, threads, source if source <= (lane | (width - 1)) else lane)


@njit(forceinline=True, **OPTIONS)
def _bits(board, came, t, threads, mask):  # type: ignore[no-untyped-def]
    """Return the lanes of a mask that came with a true value."""
    first, bits = t & ~31, 0
    if board is None:
        return ((1 << min(32, threads - first)) - 1) & mask
    if came is None:
        for lane in range(min(32, threads - first)):
            bits |= (1 if board[first + lane] != 0 else 0) << lane
        return bits & mask
    for lane in range(min(32, threads - first)):
        bits |= (1 if board[first + lane] != 0 and came[first + lane] != 0 else 0) << lane
    return bits & mask


@njit(forceinline=True, **OPTIONS)
def _ballot(board, came, t, threads, mask):  # type: ignore[no-untyped-def]
    return types.int32(_bits(board, came, t, threads, mask))


@njit(forceinline=True, **OPTIONS)
def _active(board, came, t, threads):  # type: ignore[no-untyped-def]
    return types.uint32(_bits(came, came, t, threads, 0xFFFFFFFF))


@njit(forceinline=True, **OPTIONS)
def _any(board, came, t, threads, mask):  # type: ignore[no-untyped-def]
    return _bits(board, came, t, threads, mask) != 0


@njit(forceinline=True, **OPTIONS)
def _all(board, came, t, threads, mask):  # type: ignore[no-untyped-def]
    return _bits(board, came, t, threads, mask) == _bits(came, came, t, threads, mask)


@njit(forceinline=True, **OPTIONS)
def _eq(board, came, t, threads, mask):  # type: ignore[no-untyped-def]
    bits = _bits(board, came, t, threads, mask)
    return bits == 0 or bits == _bits(came, came, t, threads, mask)


@njit(forceinline=True, **OPTIONS)
def _match(board, came, t, threads, mask):  # type: ignore[no-untyped-def]
    """Return the lanes of a mask that came and have the thread's value."""
    first, bits, mine = t & ~31, 0, board[t]
    if came is None:
        for lane in range(min(32, threads - first)):
            bits |= (1 if _same_bits(board[first + lane], mine) else 0) << lane
        return bits & mask
    for lane in range(min(32, threads - first)):
        bits |= (1 if came[first + lane] != 0 and _same_bits(board[first + lane], mine) else 0) << lane
    return bits & mask


@njit(forceinline=True, **OPTIONS)
def _match_any(board, came, t, threads, mask):  # type: ignore[no-untyped-def]
    return types.int32(_match(board, came, t, threads, mask))


@njit(forceinline=True, **OPTIONS)
def _match_all(board, came, t, threads, mask):  # type: ignore[no-untyped-def]
    same, here = _match(board, came, t, threads, mask), _bits(came, came, t, threads, mask)
    return types.int32(here if same == here else 0), same == here


#: Name of a call without `_sync` -> its function.
EXCHANGES: dict[str, Any] = {
    "shfl": _shfl, "shfl_up": _shfl_up, "shfl_down": _shfl_down, "shfl_xor": _shfl_xor, "ballot": _ballot, "any": _any,
    "all": _all, "eq": _eq, "match_any": _match_any, "match_all": _match_all, "activemask": _active,
}  # fmt: skip
