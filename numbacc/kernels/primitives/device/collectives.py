"""What the threads of a warp or a block compute together: shuffles, reductions, scans, broadcasts, sorting.

The functions of blocks use 8 KB of shared memory, and barriers before and after. All threads of the block call them; it
has a multiple of 32 threads, in up to three axes. Values are integers or floats of 32 or 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base import _numba
from ....base._numba import cuda, types
from .block_state import block, thread, together
from .emitting import Emitter, composed, generated

__all__ = [
    "block_broadcast", "block_exclusive_scan", "block_reduce", "block_scan", "block_sort", "block_top_k", "shfl_bfly",
    "shfl_down", "shfl_idx", "shfl_up", "thread_rank", "warp_broadcast", "warp_exclusive_scan", "warp_reduce",
    "warp_scan",
]  # fmt: skip


# ---------------------------------------------------------------- values as 32-bit words


def _check(kind: Any) -> Any:
    """Return the type of values that threads exchange."""
    kind = types.unliteral(kind)
    if getattr(kind, "bitwidth", 0) not in (32, 64) or not isinstance(kind, (types.Integer, types.Float)):
        raise TypeError(f"threads exchange integers and floats of 32 or 64 bits, not {kind}")
    return kind


def _words_of(e: Emitter, value: Any) -> list[Any]:
    """Return a value as one or two words."""
    if value.type in (e.i32, e.f32):
        return [e.builder.bitcast(value, e.i32)]
    whole = e.builder.bitcast(value, e.i64)
    upper = e.builder.lshr(whole, e.constant(32, e.i64))
    return [e.builder.trunc(whole, e.i32), e.builder.trunc(upper, e.i32)]


def _of_words(e: Emitter, words: list[Any], kind: Any) -> Any:
    """Return the value of an LLVM type that consists of one or two words."""
    if len(words) == 1:
        return e.builder.bitcast(words[0], kind)
    low, high = (e.builder.zext(word, e.i64) for word in words)
    return e.builder.bitcast(e.builder.or_(low, e.builder.shl(high, e.constant(32, e.i64))), kind)


def _shuffle(mode: str, clamp: str) -> Any:
    def typed(x: Any, lane: Any) -> Any:
        kind = _check(x)

        def emit(e: Emitter, value: Any, lane: Any) -> Any:
            text = f"shfl.sync.{mode}.b32 $0, $1, $2, {clamp}, 0xffffffff;"
            return _of_words(e, [e.asm(text, [word, lane], e.i32) for word in _words_of(e, value)], e.llvm(kind))

        return kind(kind, types.uint32), emit

    return typed


def _from_lane(x: Any, source: Callable[[int], int], what: str) -> Any:
    lane = thread().thread_id % 32
    values = together(32, x, lambda values: [values] * 32, what)
    wanted = source(lane)
    return values[wanted] if 0 <= wanted < 32 else x


@generated(_shuffle("bfly", "0x1f"), literals=False, since=(7, 0))
def shfl_bfly(x: Any, mask: int) -> Any:
    """Return x of the thread whose lane differs by the bits of `mask`."""
    return _from_lane(x, lambda lane: lane ^ int(mask), "shfl_bfly")


@generated(_shuffle("up", "0x0"), literals=False, since=(7, 0))
def shfl_up(x: Any, delta: int) -> Any:
    """Return x of the thread `delta` lanes before; the first lanes keep their own."""
    return _from_lane(x, lambda lane: lane - int(delta), "shfl_up")


@generated(_shuffle("down", "0x1f"), literals=False, since=(7, 0))
def shfl_down(x: Any, delta: int) -> Any:
    """Return x of the thread `delta` lanes after; the last lanes keep their own."""
    return _from_lane(x, lambda lane: lane + int(delta), "shfl_down")


@generated(_shuffle("idx", "0x1f"), literals=False, since=(7, 0))
def shfl_idx(x: Any, lane: int) -> Any:
    """Return x of the thread with this lane."""
    return _from_lane(x, lambda _: int(lane) % 32, "shfl_idx")


# The shuffles in the compiled simulator.


@cuda.jit(device=True)
def _bfly(x, mask):
    return cuda.shfl_xor_sync(0xFFFFFFFF, x, mask)


@cuda.jit(device=True)
def _up(x, delta):
    return cuda.shfl_up_sync(0xFFFFFFFF, x, delta)


@cuda.jit(device=True)
def _down(x, delta):
    return cuda.shfl_down_sync(0xFFFFFFFF, x, delta)


@cuda.jit(device=True)
def _idx(x, lane):
    return cuda.shfl_sync(0xFFFFFFFF, x, lane)


for _shuffle_of, _twin in ((shfl_bfly, _bfly), (shfl_up, _up), (shfl_down, _down), (shfl_idx, _idx)):
    _shuffle_of.numbacc_twin = _twin


#: The name of the memory that threads exchange values in, and its slots of 8 bytes.
_BOARD, _SLOTS = "numbacc_board", 1024


def _slot(e: Emitter, slot: Any) -> Any:
    ir, module = _numba.ir, e.builder.module
    if _BOARD in module.globals:
        board = module.globals[_BOARD]
    else:
        board = ir.GlobalVariable(module, ir.ArrayType(e.i64, _SLOTS), _BOARD, addrspace=3)
        board.linkage, board.align = "linkonce_odr", 8
        board.initializer = ir.Constant(board.type.pointee, ir.Undefined)
    return e.builder.gep(board, [e.constant(0), slot])


def _put_code(slot: Any, x: Any) -> Any:
    kind = _check(x)

    def emit(e: Emitter, slot: Any, value: Any) -> None:
        words = _words_of(e, value)
        place = _slot(e, slot)
        if len(words) == 1:
            e.builder.store(words[0], e.builder.bitcast(place, _numba.ir.PointerType(e.i32, 3)))
        else:
            e.builder.store(e.builder.bitcast(value, e.i64), place)

    return types.void(types.uint32, kind), emit


@generated(_put_code, literals=False, since=(5, 0))
def _put(slot: int, x: Any) -> None:
    """Store a value for the other threads of the block."""
    block().board[int(slot)] = x


def _get_code(slot: Any, like: Any) -> Any:
    kind = _check(like)

    def emit(e: Emitter, slot: Any, _: Any) -> Any:
        place, wanted = _slot(e, slot), e.llvm(kind)
        word = e.i32 if wanted in (e.i32, e.f32) else e.i64
        found = e.builder.load(e.builder.bitcast(place, _numba.ir.PointerType(word, 3)))
        return e.builder.bitcast(found, wanted)

    return kind(types.uint32, kind), emit


@generated(_get_code, literals=False, since=(5, 0))
def _get(slot: int, like: Any) -> Any:
    """Return the value in a slot, of the type of `like`."""
    return block().board[int(slot)]


# The compiled simulator replaces these calls.
_put.numbacc_board, _get.numbacc_board = "put", "get"


# ---------------------------------------------------------------- in Python, for GPU and simulator alike


@composed
def thread_rank() -> Any:
    """Return the thread's number in its block, counted along x first."""
    return cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)


@composed
def _warps() -> Any:
    return (cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z) >> 5


@composed
def warp_broadcast(x: Any, lane: int) -> Any:
    """Return x of the thread with this lane of the warp."""
    return shfl_idx(x, lane)


@composed
def warp_reduce(function: Callable[..., Any], x: Any) -> Any:
    """Combine x of all threads of the warp by function(x, y); all threads get the result.

    The function is a device function that is associative and commutative, such as a sum; all threads get the same bits.
    """
    x = function(x, shfl_bfly(x, 16))
    x = function(x, shfl_bfly(x, 8))
    x = function(x, shfl_bfly(x, 4))
    x = function(x, shfl_bfly(x, 2))
    return function(x, shfl_bfly(x, 1))


@composed
def warp_scan(function: Callable[..., Any], x: Any) -> Any:
    """Combine x of all lanes up to the thread's own, in their order, by an associative function(x, y)."""
    lane = thread_rank() & 31
    for k in range(5):
        before = shfl_up(x, 1 << k)
        if lane >= 1 << k:
            x = function(before, x)
    return x


@composed
def warp_exclusive_scan(function: Callable[..., Any], x: Any, initial: Any) -> Any:
    """Combine `initial` and x of all lanes before the thread's own, in their order, by an associative function."""
    before = shfl_up(warp_scan(function, x), 1)
    return initial if thread_rank() & 31 == 0 else function(initial, before)


@composed
def block_broadcast(x: Any, rank: int) -> Any:
    """Return x of the thread with this number in the block."""
    cuda.syncthreads()  # nobody reads the board any more
    if thread_rank() == rank:
        _put(0, x)
    cuda.syncthreads()
    return _get(0, x)


@composed
def block_reduce(function: Callable[..., Any], x: Any) -> Any:
    """Combine x of all threads of the block by function(x, y); all threads get the result, with the same bits.

    The function is a device function that is associative and commutative.
    """
    x = warp_reduce(function, x)
    rank, warps = thread_rank(), _warps()
    lane = rank & 31
    cuda.syncthreads()
    if lane == 0:
        _put(rank >> 5, x)
    cuda.syncthreads()
    x = _get(min(lane, warps - 1), x)
    for k in range(5):
        after = shfl_down(x, 1 << k)
        if lane + (1 << k) < warps:
            x = function(x, after)
    return shfl_idx(x, 0)


@composed
def _of_warps_before(function: Callable[..., Any], total: Any) -> Any:
    """Return the totals of all warps before the thread's own, combined; anything in the first warp.

    Args:
        total: the scan of the warp, of which the last lane has the total.
    """
    rank, warps = thread_rank(), _warps()
    cuda.syncthreads()
    if rank & 31 == 31:
        _put(rank >> 5, total)
    cuda.syncthreads()
    found = warp_scan(function, _get(min(rank & 31, warps - 1), total))
    return shfl_idx(found, max((rank >> 5) - 1, 0))


@composed
def block_scan(function: Callable[..., Any], x: Any) -> Any:
    """Combine x of all threads up to the thread's own, in their order, by an associative function(x, y)."""
    x = warp_scan(function, x)
    before = _of_warps_before(function, x)
    return function(before, x) if thread_rank() >> 5 else x


@composed
def block_exclusive_scan(function: Callable[..., Any], x: Any, initial: Any) -> Any:
    """Combine `initial` and x of all threads before the thread's own, in their order, by an associative function."""
    x = warp_scan(function, x)
    rank = thread_rank()
    found, mine = function(initial, _of_warps_before(function, x)), shfl_up(x, 1)
    if rank >> 5 == 0:
        found = initial
    return found if rank & 31 == 0 else function(found, mine)


@composed
def _is_before(key: Any, value: Any, other: Any, others_value: Any) -> Any:
    """Return whether a pair comes first in ascending order. NaN comes last; equal keys are ordered by their values."""
    if key < other or (other != other and key == key):
        return True
    if other < key or (key != key and other == other):
        return False
    return value < others_value


@composed
def block_sort(key: Any, value: Any, descending: bool) -> Any:
    """Sort the pairs (key, value) of all threads: thread k of the block gets the k-th pair, as a tuple.

    The block has a power of two of threads, at least 32. Equal keys are ordered by their values, ascending, so that
    thread numbers as values make the result unique. NaN comes last.
    """
    rank, threads = thread_rank(), _warps() << 5
    size = 2
    while size <= threads:  # a bitonic network (Batcher 1968)
        distance = size >> 1
        while distance > 0:
            if distance >= 32:
                cuda.syncthreads()
                _put(rank, key)
                cuda.syncthreads()
                other = _get(rank ^ distance, key)
                cuda.syncthreads()
                _put(rank, value)
                cuda.syncthreads()
                others_value = _get(rank ^ distance, value)
            else:
                other, others_value = shfl_bfly(key, distance), shfl_bfly(value, distance)
            if descending and key == key and other == other and key != other:
                first = other < key
            else:
                first = _is_before(key, value, other, others_value)
            if first != ((rank & distance == 0) == (rank & size == 0)):
                key, value = other, others_value
            distance >>= 1
        size <<= 1
    return key, value


@composed
def block_top_k(key: Any, value: Any, k: int) -> Any:
    """Find the k largest keys of a block: thread j < k gets the j-th largest and its value.

    The other threads get their own (key, value).

    The block has a power of two of threads, at least 32. Of equal keys the smaller value comes first. NaN comes last.
    """
    found, founds_value = block_sort(key, value, True)
    return (found, founds_value) if thread_rank() < k else (key, value)
