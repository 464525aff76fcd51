"""The stamps of checked mode, and the code that checks an access to an element.

Each element of an array that the kernel writes has two stamps: its last writer and its last reader. A stamp holds an
era (which grows at each barrier and with each block), the number of the access in the kernel, and the thread.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .integers import Translation
from .integers import load as _load
from .integers import store as _store
from .watching import ACQUIRE, ATOMIC, BOTH, EXCHANGE, OBSERVE, READ, WRITE

#: Codes of errors, stored in the first element of the array of errors.
OUT, RACE, UNINITIALIZED, DIVERGENT = 1, 2, 3, 4
#: Codes of errors that `addresses` finds. `alignment` and `loops` have other codes.
OUTSIDE, MISALIGNED_ADDRESS = 8, 9
#: The code of a launch that must follow accesses to its arguments by address, because they share memory.
ALIASED = 10
#: The code of an access to bytes that an asynchronous copy has not brought yet.
UNARRIVED = 11
#: The length of the array of errors: code, line, array, thread, block, count, other or axis, the other's stamp, number
#: of indices, indices.
ERRORS = 16
# In checked mode, the same array goes on: the address of the launch's memory, the offsets of arrays from aligned
# addresses, and for each array with stamps the stamps of its writers and of its readers.
FOLLOWED = ERRORS
OFFSETS = FOLLOWED + 1
# The bits of a stamp: thread, flag, flag, access, era.
THREAD, WARP, MANY, BLOCKS, SITE, ERA = (1 << 10) - 1, ((1 << 10) - 1) & ~31, 1 << 10, 1 << 11, 12, 20
# The flags of a writer's stamp: it was an atomic operation; it was a copy that nobody has waited for.
STAMP_ATOMIC, ON_THE_WAY = MANY, BLOCKS
#: The bits of an era for the barriers of a block between two barriers of the grid.
_COOPERATIVE_BITS = 18


def era_bits(blocks: int, cooperative: bool) -> int:
    """Return how many bits an era needs for the barriers of a block.

    Args:
        cooperative: whether the grid synchronizes. Between two of its barriers, each block has another number.
    """
    return _COOPERATIVE_BITS if cooperative else 43 - (blocks + 1).bit_length()


def has_stamps(kind: types.Array) -> bool:
    """Return whether each element of an array has one pair of stamps. Each field of a record has its own pair."""
    return not isinstance(kind.dtype, types.Record)


def has_memory(kind: Any) -> bool:
    """Return whether an argument is, or contains, an array or a record."""
    if isinstance(kind, types.BaseTuple):
        return any(map(has_memory, kind))
    return isinstance(kind, (types.Array, types.Record))


def is_followed(kind: types.Type) -> bool:
    """Return whether accesses to an argument are followed by their addresses: to records, and to arrays in tuples."""
    if isinstance(kind, types.BaseTuple):
        return has_memory(kind)
    return isinstance(kind, types.Record) or (isinstance(kind, types.Array) and not has_stamps(kind))


def piece_of(dtype: Any) -> int:
    """Return the largest number of bytes that divides a dtype's size, and the offset and size of each of its fields."""
    if dtype.subdtype:
        return piece_of(dtype.base)
    parts = [dtype.fields[name] for name in dtype.names or ()]
    return math.gcd(dtype.itemsize, *(math.gcd(part[1], piece_of(part[0])) for part in parts))


def header(arrays: list[Any], count: int, offsets: list[int] | None, memory: int) -> np.ndarray[Any, Any]:
    """Return the array of errors, followed by the data for the checks of a launch. Untouched memory costs nothing.

    Args:
        arrays: the arrays with stamps.
        count: how many arguments are arrays.
        offsets: the distance in bytes from an address that a GPU aligns to the start of each argument that is an array;
            None for 0.
        memory: the address of the launch's memory, if accesses are followed by their addresses; else 0.
    """
    size = OFFSETS + count
    for each in arrays:
        size += 2 * each.size
    made = np.zeros(size, np.int64)
    if memory:
        made[FOLLOWED] = memory
    if offsets is not None:
        made[OFFSETS : OFFSETS + count] = offsets
    return made


@intrinsic
def stamps_of(typingctx: Any, header: Any, start: Any, array: Any) -> Any:
    """Return the array of stamps, one for each of an array's elements, that starts at an index of the header."""
    made = types.Array(types.int64, array.ndim, "C")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        from numba.np import arrayobj  # slow to import

        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        of = context.make_array(signature.args[2])(context, builder, args[2])
        shape = cgutils.unpack_tuple(builder, of.shape)
        word = context.get_value_type(types.int64)
        strides: list[Any] = [word(8)]
        for n in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], n))
        found = context.make_array(made)(context, builder)
        arrayobj.populate_array(
            found, data=builder.gep(data, [args[1]]), shape=shape, strides=strides[: len(shape)], itemsize=word(8),
            meminfo=None,
        )  # fmt: skip
        return found._getvalue()

    return made(header, types.int64, array), codegen


# The functions below compute with 64-bit integers only: an address stands for an array.


def note(error, line, name, t, b, code, other, stamp, count, i0, i1, i2, i3):  # type: ignore[no-untyped-def]
    """Record an error."""
    old = _load(error)
    if old == 0 or (old == UNINITIALIZED and code != UNINITIALIZED):  # a race explains an uninitialized read
        _store(error, code)
        _store(error + 8, line)
        _store(error + 16, name)
        _store(error + 24, t)
        _store(error + 32, b)
        _store(error + 48, other)
        _store(error + 56, stamp)
        _store(error + 64, count)
        _store(error + 72, i0)
        _store(error + 80, i1)
        _store(error + 88, i2)
        _store(error + 96, i3)
    return 0


def _is_race_of_blocks(stamp, mode, did):  # type: ignore[no-untyped-def]
    """Return whether an access of another block is a race: no atomic operation orders it before this one."""
    if did == 2 or (mode >= ATOMIC and stamp & STAMP_ATOMIC):
        return False
    return not (did == 1 and stamp & STAMP_ATOMIC)


def touch(wrote, read, state, mode, shared, era, since, start, end, site, t):  # type: ignore[no-untyped-def]
    """Record an access in the stamps of its element, at `wrote` and `read`.

    Args:
        state: the address of the block's state: atomic operations on global arrays (2: used a result), or for a shared
            array the elements written. The next words are the stamp that revealed a race, and the oldest stamp that
            matters: of a shared array, for whether an element was written.
        era: since the last barrier; since: since the last barrier of the block; start: of this block; end: of the next.

    Returns:
        The code of an error, and 16 times the other access for explain(); 0 if there is no error.
    """
    me = era | (site << SITE) | t
    w = _load(wrote)
    found = 0
    stamps = True
    if shared and w & ON_THE_WAY and start <= w < end:
        _store(state + 8, w)
        return UNARRIVED | mode << 4
    if since <= w < end:
        other = (w ^ me) & THREAD != 0 and (w >= era or (w ^ me) & WARP != 0)
        if other and not (mode >= ATOMIC and w & STAMP_ATOMIC):
            found = RACE | mode << 4
            _store(state + 8, w)
    elif w < start or w >= end:
        if shared:
            if w < _load(state + 16):
                if mode != WRITE and mode != EXCHANGE:
                    found = UNINITIALIZED
                if mode != READ and mode != OBSERVE:
                    _store(state, _load(state) + 1)
        elif w >= _load(state + 16) and _is_race_of_blocks(w, mode, _load(state)):
            found = RACE | mode << 4
            _store(state + 8, w)
    if mode != READ and mode != OBSERVE:
        r = _load(read)
        if r >= _load(state + 16):
            here = start <= r < end
            others = (r >= era and (r & MANY or (r ^ me) & THREAD)) or (r ^ me) & WARP
            if found & 15 != RACE and here and r >= since and others:
                found = RACE | (mode | 8) << 4
                _store(state + 8, r)
            far = not shared and (r & BLOCKS or not here)
            if found & 15 != RACE and far and _is_race_of_blocks(0, mode, _load(state)):
                found = RACE | (mode | (24 if here else 8)) << 4
                _store(state + 8, r)
        own = era <= w < end and not (w ^ me) & (THREAD | STAMP_ATOMIC)  # this thread wrote it, without a barrier since
        _store(wrote, (w if own else me | STAMP_ATOMIC) if mode >= ATOMIC else me)
    if not shared and mode == READ and _load(state) != 0:
        stamps = _load(state) == 1 and w & STAMP_ATOMIC == 0  # atomic operations order later accesses
    if mode in (READ, BOTH) and stamps:
        r = _load(read)
        flags = 0
        if start <= r < end:
            flags = r & BLOCKS
            if r >= era and (r & MANY or (r ^ me) & THREAD):
                flags |= MANY
        elif not shared and r >= _load(state + 16):
            flags = BLOCKS
        _store(read, me | flags)
    if mode >= ATOMIC and not shared:
        _store(state, max(_load(state), 2 if mode in (ACQUIRE, OBSERVE) else 1))
    return found


def call(builder: Any, function: Any, args: list[Any]) -> Any:
    """Call a function of 64-bit integers from generated code. It is not inlined, to keep compilation fast."""
    return builder.call(Translation.of(builder.module).function(function), args, attrs=("noinline",))


def integers(context: Any, builder: Any, kind: Any, value: Any) -> list[Any]:
    """Return the elements of a tuple as int64."""
    parts = cgutils.unpack_tuple(builder, value)
    return [context.cast(builder, p, k, types.int64) for p, k in zip(parts, kind, strict=True)]


def data_address(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return builder.ptrtoint(context.make_array(kind)(context, builder, value).data, context.get_value_type(types.int64))


def check(context: Any, builder: Any, kinds: Any, args: Any, where: list[Any], inner: Any) -> Any:
    """Return an index, or zeros if it is out of bounds. `inner(index)` adds checks for an index in bounds.

    Args:
        kinds, args: the types and values of (shape, index, error).
        where: line, number of the array, thread, block.
    """
    shape = integers(context, builder, kinds[0], args[0])
    index = integers(context, builder, kinds[1], args[1])
    error = data_address(context, builder, kinds[2], args[2])
    zero = context.get_constant(types.int64, 0)
    wrapped, good, axis = [], cgutils.true_bit, context.get_constant(types.int64, 0)
    for d, (i, n) in enumerate(zip(index, shape, strict=False)):
        wrapped.append(builder.select(builder.icmp_signed("<", i, zero), builder.add(i, n), i))
        fits = builder.icmp_unsigned("<", wrapped[-1], n)
        axis = builder.select(builder.and_(good, builder.not_(fits)), context.get_constant(types.int64, d), axis)
        good = builder.and_(good, fits)

    def four(values: list[Any]) -> list[Any]:
        return [context.get_constant(types.int64, len(values)), *(values + [zero] * 4)[:4]]

    with builder.if_else(good, likely=True) as (yes, no):
        with yes:
            inner(wrapped, error, four(wrapped))
        with no:
            code = context.get_constant(types.int64, OUT)
            call(builder, note, [error, *where, code, axis, zero, *four(index)])
            for n in shape[: len(index)]:
                with builder.if_then(builder.icmp_signed("==", n, zero), likely=False):
                    context.call_conv.return_user_exc(builder, IndexError, ("an empty array",))
    kept = [builder.select(good, i, zero) for i in wrapped]
    return context.make_tuple(builder, types.UniTuple(types.int64, len(kept)), kept)


@intrinsic
def inside(typingctx: Any, shape: Any, index: Any, error: Any, where: Any) -> Any:
    """Return the index, or zeros if it is out of bounds. `where`: line, number of the array, thread, block."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        numbers = integers(context, builder, signature.args[3], args[3])
        return check(context, builder, signature.args, args, numbers, lambda *_: None)

    return types.UniTuple(types.int64, len(index))(shape, index, error, where), codegen


@intrinsic
def access(
    typingctx: Any, shape: Any, index: Any, error: Any, where: Any, wrote: Any, read: Any, state: Any, how: Any
) -> Any:
    """Return the index, or zeros if it is out of bounds. Also look for races and uninitialized elements.

    `how`: the last arguments of `touch`, from `mode` to `site`.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        where_values = integers(context, builder, kinds[3], args[3])
        numbers = integers(context, builder, kinds[7], args[7])

        def more(wrapped: list[Any], error_address: Any, four: list[Any]) -> None:
            word = context.get_value_type(types.int64)
            addresses = []
            for k in (4, 5):
                made = context.make_array(kinds[k])(context, builder, args[k])
                pointer = cgutils.get_item_pointer(context, builder, kinds[k], made, wrapped)
                addresses.append(builder.ptrtoint(pointer, word))
            held = data_address(context, builder, kinds[6], args[6])
            found = call(builder, touch, [*addresses, held, *numbers, where_values[2]])
            with builder.if_then(builder.icmp_signed("!=", found, word(0)), likely=False):
                code, other = builder.and_(found, word(15)), builder.ashr(found, word(4))
                behind = builder.inttoptr(builder.add(held, word(8)), word.as_pointer())
                stamp = builder.load(behind)
                call(builder, note, [error_address, *where_values, code, other, stamp, *four])

        return check(context, builder, kinds, args, where_values, more)

    result = types.UniTuple(types.int64, len(index))
    return result(shape, index, error, where, wrote, read, state, how), codegen
