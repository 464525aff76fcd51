"""The memory that a launch can access, and the stamps of an access that is known by its address.

Kernels whose arguments hold addresses, numbacc's own, load and store in intrinsics, which generate a GPU's LLVM code.
In checked mode each of these loads and stores first calls `_reached` (see `watching`), which looks for the address in
the launch's memory: the live allocations, and the kernel's shared and local arrays. A wrong access is recorded and goes
to scratch memory instead.

Other kernels use it where an expression does not say which array it accesses: a variable that is one of several arrays,
an array in a tuple, the field of a record. `element` and `field` check these.

Arrays have the stamps that index expressions use, so that both see each other's accesses. An allocation has stamps for
each of its pieces. A piece has the bytes of the narrowest access so far.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable

from . import watching
from .arguments import offset, placement
from .integers import call as _call
from .integers import load as _load
from .integers import store as _store
from .stamps import (
    MISALIGNED_ADDRESS,
    ON_THE_WAY,
    OUTSIDE,
    SITE,
    UNINITIALIZED,
    call,
    data_address,
    integers,
    note,
    touch,
)

__all__ = ["WORDS", "LaunchMemory"]

# The words of a launch's memory: see `LaunchMemory`.
_COUNT, _STARTS, _ENDS, _SCRATCH, _ERROR, _PLACE, _REGIONS, _STAMPS, _FUNCTION, _STATE, _FIRST = (
    0, 8, 16, 24, 32, 40, 96, 104, 112, 120, 168,
)  # fmt: skip
_FOUND, _STAMP_FOUND, _AT, _SIZE, _COPIES = 128, 136, 144, 152, 160
#: The bytes of an allocation's stamps: addresses of the writers and of the readers, and the bytes of a piece.
_STAMP = 24
#: The largest piece: no access is wider.
_WIDEST = 16
#: The bytes of a region: start, end, bytes of a piece, stamps of writers and readers, state (0 for an array in global
#: memory), number of the array.
_REGION = 56
_MOST_REGIONS = 64
#: Scratch memory is wide enough for any access of a thread.
_SCRATCH_BYTES = 256
#: The words of a thread's asynchronous copies: the block's era, how many copies are on the way, how many groups have
#: ended, and of each copy its address, bytes and group. Copies beyond the most count as arrived.
_QUEUE, _MOST_COPIES, _MOST_THREADS = 3, 1 << 10, 1 << 10
_SITES = 255 << SITE
_QUEUE_BYTES = 8 * (_QUEUE + 3 * _MOST_COPIES)
#: The 64-bit words of a launch's memory.
WORDS = (_FIRST + _MOST_REGIONS * _REGION) // 8


class LaunchMemory:
    """The memory that a launch can access.

    `words` holds the number of allocations, the addresses of their sorted starts and of their ends, the address of
    scratch memory and of the array of errors; the current place in the source, thread, block, and era, as `touch`
    takes them; the number of regions; the addresses of the allocations' stamps, of the function that makes these, and
    of the block's state; what `_look` found; and the regions, the kernel's own arrays, which the compiled function
    adds.

    Args:
        allocations: address of each allocation -> its bytes. They must live as long as the launch.
        error: the array of errors.
    """

    _queues: np.ndarray[Any, Any]

    def __init__(self, allocations: Mapping[int, Any], error: np.ndarray[Any, Any]):
        self._list([(start, start + each.nbytes) for start, each in list(allocations.items())], error)

    @classmethod
    def of(cls, arguments: Any, everything: bool = False) -> LaunchMemory:
        """Return the memory of the arguments whose accesses are followed.

        Args:
            everything: whether these are all arguments, not only records and arrays in tuples.
        """
        made = cls.__new__(cls)
        made._list(_united(spans_of(arguments, everything)), np.zeros(0, np.int64))
        return made

    @classmethod
    def of_launch(cls, arguments: Any, given: Any, error: np.ndarray[Any, Any]) -> LaunchMemory:
        """Return the memory of all arguments, for a kernel that loads and stores by address.

        Args:
            given: the arguments as the user passed them.
        """
        spans: list[tuple[int, int]] = []
        for own, each in zip(given, arguments, strict=True):
            for begin, end in spans_of([each], True):
                start = begin - (offset(own, each) if isinstance(each, np.ndarray) else 0)
                spans.append((start, end))
        made = cls.__new__(cls)
        made._list(_united(spans), error)
        made._queues = np.zeros(_MOST_THREADS * _QUEUE_BYTES // 8, np.int64)  # untouched memory costs nothing
        made.words[_COPIES // 8] = made._queues.ctypes.data
        return made

    def _list(self, spans: list[tuple[int, int]], error: np.ndarray[Any, Any]) -> None:
        found = sorted(spans)
        self._starts, self._ends = np.array(found, np.int64).reshape(-1, 2).T.copy()
        scratch = np.zeros(2 * _SCRATCH_BYTES, np.uint8)
        aligned = -(-scratch.ctypes.data // _SCRATCH_BYTES) * _SCRATCH_BYTES
        self.words = np.zeros(WORDS, np.int64)
        self.words[:5] = len(found), self._starts.ctypes.data, self._ends.ctypes.data, aligned, error.ctypes.data
        self._kept = scratch, error
        self._stamps: dict[int, np.ndarray[Any, Any]] = {}
        self._table = np.zeros((len(found), _STAMP // 8), np.int64)
        self._function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(self._divide)
        self.words[_STAMPS // 8] = self._table.ctypes.data
        self.words[_FUNCTION // 8] = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def _divide(self, k: int, nbytes: int) -> int:
        """Make an allocation's stamps for pieces of some bytes. Compiled code calls this."""
        size = int(self._ends[k] - self._starts[k])
        old = self._stamps.get(k)
        if old is None:
            made = np.zeros((2, -(-size // nbytes)), np.int64)
        else:
            made = np.repeat(old, int(self._table[k, 2]) // nbytes, axis=1)
        self._stamps[k] = made
        self._table[k] = made[0].ctypes.data, made[1].ctypes.data, nbytes
        return 0

    @property
    def address(self) -> int:
        return int(self.words.ctypes.data)


def _united(given: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans of memory, those that overlap as one."""
    spans: list[tuple[int, int]] = []
    for begin, end in sorted(given):
        if spans and begin < spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((begin, end))
    return spans


def spans_of(value: Any, inside: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the first address, and the one after the last, of each array or record to follow.

    Args:
        value: arguments, or the elements of a tuple.
        inside: whether all arrays are followed, as in a tuple.
    """
    for each in value:
        if isinstance(each, tuple):
            yield from spans_of(each, True)
        elif isinstance(each, (np.ndarray, np.void)) and (inside or each.dtype.names):
            extent = placement(each).extent()
            if extent[1] > extent[0]:
                yield extent


# ---------------------------------------------------------------- an access


def _region_of(memory, address):  # type: ignore[no-untyped-def]
    """Return the address of the words of the region that an address is in, or 0."""
    region = memory + _FIRST
    for _ in range(_load(memory + _REGIONS)):
        if _load(region) <= address < _load(region + 8):
            return region
        region += _REGION
    return 0


def _allocation_of(memory, address):  # type: ignore[no-untyped-def]
    """Return the number of the last allocation that starts at or before an address, or -1."""
    starts = _load(memory + _STARTS)
    low, high = 0, _load(memory)
    while low < high:
        middle = (low + high) // 2
        if _load(starts + 8 * middle) <= address:
            low = middle + 1
        else:
            high = middle
    return low - 1


def _stamps_of(memory, k, offset, nbytes):  # type: ignore[no-untyped-def]
    """Return the address of an allocation's stamps, for pieces that an access covers exactly.

    Args:
        k: the number of the allocation.
        offset, nbytes: the bytes from its start to the access, and the access's.
    """
    stamps = _load(memory + _STAMPS) + _STAMP * k
    finest = offset | nbytes | _WIDEST
    finest &= -finest
    if _load(stamps + 16) == 0 or _load(stamps + 16) > finest:
        _call(_load(memory + _FUNCTION), k, finest)
    return stamps


def _look(memory, address, nbytes, state, mode, era, since, begin, until, site, t):  # type: ignore[no-untyped-def]
    """Record an access to some bytes in their stamps, if they have stamps. Return 1 if it is a mistake, else 0.

    The memory's words then hold the code of the first error and the other access, as `touch` returns them, the other
    access's stamp, the number of the piece and its bytes.

    Args:
        state: of the block, for arrays in global memory; the following ones as in `touch`.
    """
    region = _region_of(memory, address)
    shared = 0
    if region:
        wrote, read, size = _load(region + 24), _load(region + 32), _load(region + 16)
        offset = address - _load(region)
        if _load(region + 40) != 0:
            state, shared = _load(region + 40), 1
    else:
        k = _allocation_of(memory, address)
        if k < 0 or address + nbytes > _load(_load(memory + _ENDS) + 8 * k):
            return 0
        offset = address - _load(_load(memory + _STARTS) + 8 * k)
        stamps = _stamps_of(memory, k, offset, nbytes)
        wrote, read, size = _load(stamps), _load(stamps + 8), _load(stamps + 16)
    if wrote == 0:
        return 0
    bad = 0
    for n in range(offset // size, (offset + nbytes - 1) // size + 1):
        found = touch(wrote + 8 * n, read + 8 * n, state, mode, shared, era, since, begin, until, site, t)
        race_instead = _load(memory + _FOUND) & 15 == UNINITIALIZED and found & 15 != UNINITIALIZED
        if found != 0 and (bad == 0 or race_instead):
            bad = 1
            _store(memory + _FOUND, found)
            _store(memory + _STAMP_FOUND, _load(state + 8))
            _store(memory + _AT, n)
            _store(memory + _SIZE, size)
    return bad


def _origin(memory, region, start):  # type: ignore[no-untyped-def]
    """Return the address that a GPU would align: of an array in global memory, the start of its allocation."""
    if region and _load(region + 40) == 0:
        k = _allocation_of(memory, start)
        if k >= 0 and start < _load(_load(memory + _ENDS) + 8 * k):
            return _load(_load(memory + _STARTS) + 8 * k)
    return start


def _reached(memory, address, nbytes, alignment, mode):  # type: ignore[no-untyped-def]
    """Return the address that an access may use: the given one, or that of scratch memory if it is a mistake."""
    place = memory + _PLACE
    line, t, b = _load(place), _load(place + 8), _load(place + 16)
    error = _load(memory + _ERROR)
    if address == _load(memory + _SCRATCH):  # the access does not happen
        return address
    region = _region_of(memory, address)
    name = k = -1
    if region:
        start, end, name = _load(region), _load(region + 8), _load(region + 48)
    else:
        start = end = 0
        k = _allocation_of(memory, address)
        if k >= 0:
            start, end = _load(_load(memory + _STARTS) + 8 * k), _load(_load(memory + _ENDS) + 8 * k)
    if address + nbytes > end:
        note(error, line, name, t, b, OUTSIDE, mode, 0, 4, address - start, nbytes, end - start, 0)
        return _load(memory + _SCRATCH)
    if (address - _origin(memory, region, start)) % alignment:
        note(error, line, name, t, b, MISALIGNED_ADDRESS, mode, 0, 4, address - start, nbytes, end - start, alignment)
        return _load(memory + _SCRATCH)
    if _look(
        memory, address, nbytes, _load(memory + _STATE), mode, _load(place + 24), _load(place + 32),
        _load(place + 40), _load(place + 48), min(line, 255), t,
    ):  # fmt: skip
        size, found, at = _load(memory + _SIZE), _load(memory + _FOUND), _load(memory + _AT)
        count = 1 if region else 3
        note(
            error, line, name, t, b, found & 15, found >> 4, _load(memory + _STAMP_FOUND), count,
            at if region else at * size, size, end - start, 0,
        )  # fmt: skip
    return address


def in_array(memory, start, offset, nbytes, alignment, mode):  # type: ignore[no-untyped-def]
    """Return the address that an access to a shared array may use, given the array's address and the bytes to it."""
    region = _region_of(memory, start)
    if region and offset + nbytes > _load(region + 8) - start:
        place, size = memory + _PLACE, _load(region + 8) - start
        line, t, b = _load(place), _load(place + 8), _load(place + 16)
        note(_load(memory + _ERROR), line, _load(region + 48), t, b, OUTSIDE, mode, 0, 4, offset, nbytes, size, 0)
        return _load(memory + _SCRATCH)
    return _reached(memory, start + offset, nbytes, alignment, mode)


# ---------------------------------------------------------------- asynchronous copies


def _queue_of(memory):  # type: ignore[no-untyped-def]
    """Return the address of the current thread's copies. A new block starts without copies."""
    place = memory + _PLACE
    queue = _load(memory + _COPIES) + _QUEUE_BYTES * _load(place + 8)
    if _load(queue) != _load(place + 40):
        _store(queue, _load(place + 40))
        _store(queue + 8, 0)
        _store(queue + 16, 0)
    return queue


def _mark(memory, address, nbytes, arrived):  # type: ignore[no-untyped-def]
    """Change the stamps of a copy's bytes: it begins, or it arrived and this thread has written them now."""
    region = _region_of(memory, address)
    if region == 0:
        return 0
    wrote, size, offset = _load(region + 24), _load(region + 16), address - _load(region)
    place = memory + _PLACE
    for n in range(offset // size, (offset + nbytes - 1) // size + 1):
        stamp = _load(wrote + 8 * n)
        if arrived:
            _store(wrote + 8 * n, _load(place + 24) | stamp & _SITES | _load(place + 8))
        else:
            _store(wrote + 8 * n, stamp | ON_THE_WAY)
    return 0


def begin_copy(memory, address, nbytes):  # type: ignore[no-untyped-def]
    """Record that a copy to some bytes of shared memory begins."""
    if address == _load(memory + _SCRATCH):  # it was a mistake
        return 0
    queue = _queue_of(memory)
    count = _load(queue + 8)
    if count == _MOST_COPIES:
        return 0
    entry = queue + 8 * (_QUEUE + 3 * count)
    _store(entry, address)
    _store(entry + 8, nbytes)
    _store(entry + 16, _load(queue + 16))
    _store(queue + 8, count + 1)
    _mark(memory, address, nbytes, 0)
    return 0


def end_group(memory):  # type: ignore[no-untyped-def]
    """End the thread's group of copies."""
    queue = _queue_of(memory)
    _store(queue + 16, _load(queue + 16) + 1)
    return 0


def wait_group(memory, pending):  # type: ignore[no-untyped-def]
    """Wait for all but the thread's newest groups: the bytes of the others have arrived."""
    queue = _queue_of(memory)
    kept, last = 0, _load(queue + 16) - pending
    for k in range(_load(queue + 8)):
        entry, to = queue + 8 * (_QUEUE + 3 * k), queue + 8 * (_QUEUE + 3 * kept)
        if _load(entry + 16) < last:
            _mark(memory, _load(entry), _load(entry + 8), 1)
        else:
            for word in range(3):
                _store(to + 8 * word, _load(entry + 8 * word))
            kept += 1
    _store(queue + 8, kept)
    return 0


def _reach(context: Any, builder: Any, memory: Any, *access: Any) -> Any:
    """Return the address that an access may use, in generated code."""
    return call(builder, _reached, [memory, *access])


def _scratch(builder: Any, memory: Any) -> Any:
    """Return the address of scratch memory, in generated code."""
    place = builder.add(memory, memory.type(_SCRATCH))
    return builder.load(builder.inttoptr(place, memory.type.as_pointer()))


watching.reach, watching.scratch = _reach, _scratch


# ---------------------------------------------------------------- what the generated code says


@intrinsic
def at(typingctx: Any, memory: Any, numbers: Any) -> Any:
    """Record the current place: its number, the thread, the block and the era."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = context.get_value_type(types.int64)
        for k, number in enumerate(integers(context, builder, signature.args[1], args[1])):
            place = builder.inttoptr(builder.add(args[0], word(_PLACE + 8 * k)), word.as_pointer())
            builder.store(number, place)
        return context.get_dummy_value()

    return types.void(types.int64, numbers), codegen


@intrinsic
def known(typingctx: Any, memory: Any, name: Any, array: Any, piece: Any, stamps: Any) -> Any:
    """Add an array to the memory that a kernel can access, unless its elements are not in C order.

    Args:
        name: the number of the array.
        piece: the bytes of a piece, which has stamps; 0 for an element.
        stamps: its writers, its readers and, in shared memory, its state, as `touch` takes them; () for a local array.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, name_kind, kind, _, stamp_kinds = signature.args
        word = context.get_value_type(types.int64)
        made = context.make_array(kind)(context, builder, args[2])
        start = builder.ptrtoint(made.data, word)
        count = builder.inttoptr(builder.add(args[0], word(_REGIONS)), word.as_pointer())
        number = builder.load(count)
        region = builder.add(args[0], builder.add(word(_FIRST), builder.mul(number, word(_REGION))))
        addresses = [word(0)] * 3
        if len(stamp_kinds):
            given = zip(stamp_kinds, cgutils.unpack_tuple(builder, args[4]), strict=True)
            addresses = [*(data_address(context, builder, k, v) for k, v in given), *addresses][:3]
        size = builder.select(builder.icmp_signed("==", args[3], word(0)), made.itemsize, args[3])
        end = builder.add(start, builder.mul(made.itemsize, made.nitems))
        named = context.cast(builder, args[1], name_kind, types.int64)
        for k, value in enumerate([start, end, size, *addresses, named]):
            builder.store(value, builder.inttoptr(builder.add(region, word(8 * k)), word.as_pointer()))
        fits = builder.icmp_signed("<", number, word(_MOST_REGIONS - 1))
        step = made.itemsize
        strides, shape = cgutils.unpack_tuple(builder, made.strides), cgutils.unpack_tuple(builder, made.shape)
        for stride, n in zip(reversed(strides), reversed(shape), strict=True):
            fits = builder.and_(fits, builder.icmp_signed("==", stride, step))
            step = builder.mul(step, n)
        builder.store(builder.add(number, builder.zext(fits, word)), count)
        return context.get_dummy_value()

    return types.void(types.int64, name, array, types.int64, stamps), codegen


@intrinsic
def forget(typingctx: Any, memory: Any, state: Any) -> Any:
    """Forget the arrays of earlier calls. `state` is the block's state for allocations, as `_touch` takes it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = context.get_value_type(types.int64)
        address = data_address(context, builder, signature.args[1], args[1])
        for place, value in ((_REGIONS, word(0)), (_STATE, address)):
            builder.store(value, builder.inttoptr(builder.add(args[0], word(place)), word.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, state), codegen


@intrinsic
def kept(typingctx: Any, arrays: Any) -> Any:
    """Do nothing but use the arrays. Numba frees an array after its last use, and ignores uses of its address."""
    return types.void(arrays), lambda context, *_: context.get_dummy_value()


def _checked_bytes(
    context: Any, builder: Any, address: Any, nbytes: Any, numbers: list[Any], given: list[Any], index: list[Any]
) -> None:
    """Emit code that records an access by its address.

    Args:
        numbers: the memory, the block's state and the array of errors, as addresses.
        given: place, number of the array, thread and block, for errors; mode, era, since, start, end, as in `touch`.
        index: the element, for errors.
    """
    word = context.get_value_type(types.int64)
    memory, state, error = numbers
    where, how = given[:4], given[4:]
    site = builder.select(builder.icmp_signed("<", where[0], word(255)), where[0], word(255))
    bad = call(builder, _look, [memory, address, nbytes, state, *how, site, where[2]])
    with builder.if_then(builder.icmp_signed("!=", bad, word(0)), likely=False):

        def found(place: int) -> Any:
            return builder.load(builder.inttoptr(builder.add(memory, word(place)), word.as_pointer()))

        code = found(_FOUND)
        parts = [word(len(index)), *index[:4], *[word(0)] * (4 - len(index))]
        other = builder.ashr(code, word(4))
        call(builder, note, [error, *where, builder.and_(code, word(15)), other, found(_STAMP_FOUND), *parts])


@intrinsic
def element(typingctx: Any, array: Any, index: Any, memory: Any, state: Any, error: Any, numbers: Any) -> Any:
    """Return an index, and record an access to an array's element there.

    Args:
        state: of the block.
        numbers: `given` of `_checked_bytes`.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        made = context.make_array(kinds[0])(context, builder, args[0])
        parts = cgutils.unpack_tuple(builder, args[1])
        pointer = cgutils.get_item_pointer(context, builder, kinds[0], made, parts)
        word = context.get_value_type(types.int64)
        held = [args[2], *(data_address(context, builder, kinds[k], args[k]) for k in (3, 4))]
        given = integers(context, builder, kinds[5], args[5])
        _checked_bytes(context, builder, builder.ptrtoint(pointer, word), made.itemsize, held, given, parts)
        return args[1]

    return index(array, index, types.int64, state, error, numbers), codegen


@intrinsic
def field(typingctx: Any, record: Any, memory: Any, state: Any, error: Any, span: Any, numbers: Any) -> Any:
    """Return a record, and record an access to some of its bytes.

    Args:
        state, numbers: as in `element`.
        span: the offset of the bytes, and how many they are.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        word = context.get_value_type(types.int64)
        held = [args[1], *(data_address(context, builder, kinds[k], args[k]) for k in (2, 3))]
        offset, nbytes = integers(context, builder, kinds[4], args[4])
        given = integers(context, builder, kinds[5], args[5])
        address = builder.add(builder.ptrtoint(args[0], word), offset)
        _checked_bytes(context, builder, address, nbytes, held, given, [])
        return args[0]

    return record(record, types.int64, state, error, span, numbers), codegen


def _extents(context: Any, builder: Any, kind: Any, value: Any) -> list[tuple[Any, Any]]:
    """Return the first address, and the one after the last, of each array or record in an argument."""
    word = context.get_value_type(types.int64)
    if isinstance(kind, types.BaseTuple):
        parts = cgutils.unpack_tuple(builder, value)
        return [each for k, v in zip(kind, parts, strict=True) for each in _extents(context, builder, k, v)]
    if isinstance(kind, types.Record):
        start = builder.ptrtoint(value, word)
        return [(start, builder.add(start, word(kind.size)))]
    if not isinstance(kind, types.Array):
        return []
    made = context.make_array(kind)(context, builder, value)
    start = builder.ptrtoint(made.data, word)
    end = builder.add(start, made.itemsize)
    if kind.layout == "C":
        end = builder.add(start, builder.mul(made.itemsize, made.nitems))
    else:
        sizes, strides = (cgutils.unpack_tuple(builder, each) for each in (made.shape, made.strides))
        for n, stride in zip(sizes, strides, strict=True):
            reach = builder.mul(builder.sub(n, word(1)), stride)
            negative = builder.icmp_signed("<", reach, word(0))
            start = builder.add(start, builder.select(negative, reach, word(0)))
            end = builder.add(end, builder.select(negative, word(0), reach))
    empty = builder.icmp_signed("==", made.nitems, word(0))
    return [(start, builder.select(empty, start, end))]


@intrinsic
def overlap(typingctx: Any, first: Any, second: Any) -> Any:
    """Return whether the memory of two arguments may overlap: the spans of their addresses do."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = cgutils.false_bit
        a, b = (_extents(context, builder, k, v) for k, v in zip(signature.args, args, strict=True))
        for begin, end in a:
            for low, high in b:
                both = [builder.icmp_unsigned("<", p, q) for p, q in ((begin, high), (low, end))]
                full = [builder.icmp_unsigned("<", p, q) for p, q in ((begin, end), (low, high))]
                found = builder.or_(found, builder.and_(builder.and_(*both), builder.and_(*full)))
        return found

    return types.boolean(first, second), codegen


@register_jitable
def unraveled(shape, k):  # type: ignore[no-untyped-def]
    """Return the index of an array's element k, in C order; an index out of bounds if the array has fewer elements."""
    size = 1
    for n in shape:
        size *= n
    rest = k + size if k < 0 else k
    index = shape
    for axis in range(len(shape) - 1, 0, -1):
        index = _with(index, axis, rest % max(shape[axis], 1))
        rest //= max(shape[axis], 1)
    return _with(index, 0, rest)


@intrinsic
def _with(typingctx: Any, index: Any, axis: Any, value: Any) -> Any:
    """Return a tuple with another value on an axis."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = context.get_value_type(types.int64)
        parts = cgutils.unpack_tuple(builder, args[0])
        kept = [
            builder.select(builder.icmp_signed("==", args[1], word(k)), args[2], part) for k, part in enumerate(parts)
        ]
        return context.make_tuple(builder, signature.return_type, kept)

    return index(index, types.int64, types.int64), codegen
