"""Storage of several accesses of each thread of a block in shared memory.

Each thread reads only what it has stored itself, so it waits for no other thread. In Numba's simulator the same names
are plain Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ...base._numba import SIMULATED, types
from ...base.casts import cast
from ...base.dtypes import TABLE
from .operands import Operand

if SIMULATED:
    from .simulated import _element
else:
    from ...base._numba import intrinsic, ir
    from . import formats
    from .formats import I32, I64
    from .instructions import copies_ahead, copy_ahead, kept_pointer, tell_copies
    from .load_store import address_of, aggregate, lanes_type, pointer_to, resized
    from .runs import numbers_of

__all__ = ["keeping"]


class Cell(NamedTuple):
    """An access of one input.

    Attributes:
        operand: the input's number.
        start, many: number of its first element, and of its elements.
        before: bytes of the thread's accesses that precede it.
        nbytes: bytes of this access.
    """

    operand: int
    start: int
    many: int
    before: int
    nbytes: int


@lru_cache(maxsize=64)
def keeping(names: tuple[str, ...], compute: str, width: int, threads: int) -> SimpleNamespace:
    """Return the intrinsics that keep `width` elements of each of these arrays for each of a block's threads.

    Returns:
        a namespace of
        ``bring(addresses, at, tile, slot, thread)``: start to copy a thread's access of each input, at these offsets,
        to slot number `slot`; ``bring_loose``: the same without alignment; ``arrived()``: wait until all of a thread's
        copies are complete;
        ``take(tile, slot, thread)``: return `width` elements of each input from that slot.
    """
    rows, cells, before = [Operand(TABLE[name], compute, width, False) for name in names], [], 0
    for k, operand in enumerate(rows):
        for start in range(0, width, operand.access):
            cells.append(Cell(k, start, operand.access, before, operand.access * operand.dtype.itemsize))
            before += cells[-1].nbytes
    return SimpleNamespace(**make_pieces(rows, cells, width, threads))


if SIMULATED:

    def make_pieces(rows: Sequence[Any], cells: Sequence[Any], width: int, threads: int) -> dict[str, Any]:
        """Return the functions of `keeping`. Copies are complete at once."""
        whole = sum(cell.nbytes for cell in cells)

        def kept(tile: Any, slot: int, thread: int, cell: Any) -> Any:
            start = threads * (slot * whole + cell.before) + thread * cell.nbytes
            return tile[start : start + cell.nbytes].view(rows[cell.operand].dtype.numpy)

        def bring(addresses: Any, at: Any, tile: Any, slot: int, thread: int, is_loose: bool = False) -> None:
            for cell in cells:
                target, count = kept(tile, slot, thread, cell), 1 if is_loose else cell.many
                for start in range(0, cell.many, count):
                    offset, dtype = at[cell.operand] + cell.start + start, rows[cell.operand].dtype
                    target[start : start + count] = _element(addresses[cell.operand], offset, dtype, count)

        def take(tile: Any, slot: int, thread: int) -> Any:
            found: list[list[Any]] = [[] for _ in rows]
            for cell in cells:
                number = np.dtype(rows[cell.operand].number)
                found[cell.operand] += [cast(value, number)[()] for value in kept(tile, slot, thread, cell)]
            return tuple(map(tuple, found))

        return {"bring": bring, "bring_loose": partial(bring, is_loose=True), "arrived": lambda: None, "take": take}

else:

    def make_pieces(rows: Sequence[Any], cells: Sequence[Any], width: int, threads: int) -> dict[str, Any]:
        whole = sum(cell.nbytes for cell in cells)

        def pointer(builder: Any, slot: Any, thread: Any, cell: Cell, kind: Any) -> Any:
            """Return a pointer to an access in shared memory, where accesses of adjacent threads are adjacent."""
            slot, thread = (resized(builder, each, I32) for each in (slot, thread))
            before = builder.add(builder.mul(slot, I32(threads * whole)), I32(threads * cell.before))
            start = builder.add(before, builder.mul(thread, I32(cell.nbytes)))
            return kept_pointer(builder, start, kind)

        def kind_of(cell: Cell) -> Any:
            return formats.moved_type(rows[cell.operand].dtype, cell.many)

        def copied(builder: Any, source: Any, target: Any, kind: Any, align: int, nbytes: int) -> None:
            if copies_ahead(align):
                for start in range(0, nbytes, align):
                    place = builder.add(builder.ptrtoint(target, I64), I64(start))
                    place = builder.inttoptr(place, ir.PointerType(kind, addrspace=3))
                    copy_ahead(builder, builder.add(source, I64(start)), place, align)
            else:
                builder.store(builder.load(pointer_to(builder, source, kind), align=align), target, align=align)

        def bringing(is_loose: bool) -> Any:
            @intrinsic
            def bring(typing: Any, addresses: Any, at: Any, tile: Any, slot: Any, thread: Any) -> Any:
                def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                    for cell in cells:
                        dtype, kind = rows[cell.operand].dtype, kind_of(cell)
                        address = address_of(builder, args[:2], cell.operand, dtype.itemsize)
                        source = builder.add(address, I64(cell.start * dtype.itemsize))
                        target = pointer(builder, args[3], args[4], cell, kind)
                        # A complex element is aligned as its parts are.
                        least = dtype.itemsize // dtype.parts
                        if not is_loose or cell.many == 1:
                            copied(builder, source, target, kind, cell.nbytes if cell.many > 1 else least, cell.nbytes)
                            continue
                        one = formats.memory_type(dtype)
                        first = builder.bitcast(target, ir.PointerType(one, addrspace=3))
                        for k in range(cell.many):
                            place = builder.gep(first, [I32(k)])
                            there = builder.add(source, I64(k * dtype.itemsize))
                            copied(builder, there, place, one, least, dtype.itemsize)
                    return context.get_dummy_value()

                return types.void(addresses, at, tile, slot, thread), generate

            return bring

        @intrinsic
        def arrived(typing: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                tell_copies(builder, "cp.async.wait_all;")
                return context.get_dummy_value()

            return types.void(), generate

        @intrinsic
        def take(typing: Any, tile: Any, slot: Any, thread: Any) -> Any:
            result = lanes_type(rows, len(rows), width)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                items: dict[Any, Any] = {}
                for cell in cells:
                    operand = rows[cell.operand]
                    bits = builder.load(pointer(builder, args[1], args[2], cell, kind_of(cell)), align=cell.nbytes)
                    numbers = numbers_of(context, builder, operand, bits, cell.many)
                    items |= {(cell.operand, cell.start + j): number for j, number in enumerate(numbers)}
                return aggregate(context, builder, result, items)

            return result(tile, slot, thread), generate

        return {"bring": bringing(False), "bring_loose": bringing(True), "arrived": arrived, "take": take}
