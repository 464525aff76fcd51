"""Tiles in shared memory that transpose arrays, as LLVM code: see `operands.operands`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base._numba import intrinsic, types
from . import formats
from .formats import I64, number_type
from .load_store import (
    aggregate,
    alignment_of,
    behind,
    bits_at,
    lanes_type,
    load_one,
    place_of,
    pointer_to,
    resized,
    row_of,
    under_way,
)


def make_tiles(rows: Sequence[Any], lanes: int, width: int, transposed: tuple[int, ...], step: int) -> dict[str, Any]:
    """Return the intrinsics that copy inputs to and from a tile, and access operands that need no transposition.

    A thread handles blocks of `width` x `width` elements, `lanes` elements in total. One load or store moves `width`
    elements: of a column for transposed inputs, which a cell of the tile holds; of a row for the others.

    Args:
        lanes, width, transposed: as in `operands.operands`.
        step: threads of a block along y.
    """
    straight = [k for k in range(len(rows)) if k not in transposed]
    blocks = lanes // width**2
    #: Cells between a thread's blocks in a column of the tile.
    apart = step * width

    def access(k: int) -> tuple[Any, int]:
        """Return (the type that one load or store of operand k moves, its alignment)."""
        operand = row_of(rows, k)
        if width == 1:
            return formats.memory_type(operand.dtype), alignment_of(operand)
        return formats.access_type(operand.dtype, width), width * operand.dtype.itemsize

    def load(builder: Any, k: int, address: Any) -> Any:
        if row_of(rows, k).counted:
            return address
        kind, align = access(k)
        return builder.load(pointer_to(builder, address, kind), align=align)

    def numbers_of(context: Any, builder: Any, k: int, bits: Any) -> list[Any]:
        if width == 1:
            return [formats.widen(context, builder, rows[k], bits)]
        return list(formats.unpack(context, builder, rows[k], bits))

    def cell(context: Any, builder: Any, tile: Any, args: Any, k: int, column: Any, row: Any, kind: Any) -> Any:
        """Return a pointer to operand k's element in the tile; `row` counts elements of type `kind`."""
        array = context.make_array(tile)(context, builder, args[0])
        _, height, length = (builder.extract_value(array.shape, d) for d in range(3))
        line = builder.add(builder.mul(I64(transposed.index(k)), height), column)
        if kind is None:  # whole cells
            pointer = builder.gep(array.data, [builder.add(builder.mul(line, length), row)])
            return builder.bitcast(pointer, access(k)[0].as_pointer())
        data = builder.bitcast(array.data, kind.as_pointer()) if width > 1 else array.data
        pointer = builder.gep(data, [builder.add(builder.mul(line, builder.mul(length, I64(width))), row)])
        return builder.bitcast(pointer, kind.as_pointer())

    def plus(builder: Any, number: Any, more: int) -> Any:
        return builder.add(resized(builder, number, I64), I64(more))

    def element(context: Any, builder: Any, tile: Any, args: Any, k: int) -> Any:
        """Return a pointer to the element at the column and row that follow the tile in `args`."""
        column, row = (plus(builder, each, 0) for each in args[1:3])
        return cell(context, builder, tile, args, k, column, row, formats.memory_type(rows[k].dtype))

    @intrinsic
    def stage(typing: Any, tile: Any, column: Any, row: Any, addresses: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            for k in transposed:
                bits = bits_at(builder, rows[k], place_of(builder, args[3:5], k, rows[k]))
                builder.store(bits, element(context, builder, tile, args, k), align=alignment_of(rows[k]))
            return context.get_dummy_value()

        return types.void(tile, column, row, addresses, at), generate

    @intrinsic
    def fetch(typing: Any, tile: Any, column: Any, row: Any, addresses: Any, at: Any) -> Any:
        result = types.Tuple([number_type(each) for each in rows])

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            items = {}
            for k, each in enumerate(rows):
                if k in transposed:
                    bits = builder.load(element(context, builder, tile, args, k), align=alignment_of(each))
                    items[k] = formats.widen(context, builder, each, bits)
                else:
                    items[k] = load_one(context, builder, each, place_of(builder, args[3:5], k, each))
            return aggregate(context, builder, result, items)

        return result(tile, column, row, addresses, at), generate

    @intrinsic
    def stage_lanes(typing: Any, tile: Any, column: Any, cells: Any, addresses: Any, at: Any, strides: Any) -> Any:
        across = len(strides.dtype) - 1

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            found = {}
            for k in transposed:
                itemsize, stride = rows[k].itemsize, builder.extract_value(args[5], (k, across))
                first = place_of(builder, args[3:5], k, rows[k])
                for n in range(lanes // width):
                    found[k, n] = load(builder, k, behind(builder, first, stride, n * step, itemsize))
            under_way(builder, list(found.values()))
            for (k, n), bits in found.items():
                where = plus(builder, args[1], n * step), plus(builder, args[2], 0)
                builder.store(bits, cell(context, builder, tile, args, k, *where, None), align=access(k)[1])
            return context.get_dummy_value()

        return types.void(tile, column, cells, addresses, at, strides), generate

    def rows_at(builder: Any, args: Any, k: int, down: int) -> dict[tuple[int, int], Any]:
        """Return (block, row in it) -> the address of its elements there, given addresses, offsets and strides."""
        itemsize, stride = row_of(rows, k).itemsize, builder.extract_value(args[2], (k, down))
        first = place_of(builder, args, k, row_of(rows, k))
        return {
            (n, i): behind(builder, first, stride, n * apart * width + i, itemsize)
            for n in range(blocks)
            for i in range(width)
        }

    @intrinsic
    def load_down(typing: Any, addresses: Any, at: Any, strides: Any) -> Any:
        down = len(strides.dtype) - 2
        result = types.Tuple([types.UniTuple(number_type(rows[k]), lanes) for k in straight])

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            found = {
                (order, *where): load(builder, k, address)
                for order, k in enumerate(straight)
                for where, address in rows_at(builder, args, k, down).items()
            }
            items = {}
            if found:
                under_way(builder, list(found.values()))
            for (order, n, i), bits in found.items():
                for j, number in enumerate(numbers_of(context, builder, straight[order], bits)):
                    items[order, (n * width + i) * width + j] = number
            return aggregate(context, builder, result, items)

        return result(addresses, at, strides), generate

    @intrinsic
    def fetch_lanes(typing: Any, tile: Any, column: Any, cells: Any, loaded: Any) -> Any:
        result = lanes_type(rows, len(rows), lanes)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            items = {}
            for k in transposed:
                for n in range(blocks):
                    for j in range(width):
                        where = plus(builder, args[1], j), plus(builder, args[2], n * apart)
                        pointer = cell(context, builder, tile, args, k, *where, None)
                        bits = builder.load(pointer, align=access(k)[1])
                        for i, number in enumerate(numbers_of(context, builder, k, bits)):
                            items[k, (n * width + i) * width + j] = number
            for order, k in enumerate(straight):
                items |= {(k, lane): builder.extract_value(args[3], (order, lane)) for lane in range(lanes)}
            return aggregate(context, builder, result, items)

        return result(tile, column, cells, loaded), generate

    @intrinsic
    def store_down(typing: Any, addresses: Any, at: Any, strides: Any, values: Any) -> Any:
        down = len(strides.dtype) - 2

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            for k, kind in enumerate(values):
                dtype = row_of(rows, k).dtype
                for (n, i), address in rows_at(builder, args, k, down).items():
                    first = (n * width + i) * width
                    numbers = [builder.extract_value(args[3], (k, first + j)) for j in range(width)]
                    bits = (
                        formats.narrow(context, builder, dtype, kind.dtype, numbers[0])
                        if width == 1
                        else formats.pack(context, builder, dtype, kind.dtype, numbers)
                    )
                    builder.store(bits, pointer_to(builder, address, bits.type), align=access(k)[1])
            return context.get_dummy_value()

        return types.void(addresses, at, strides, values), generate

    return {
        "stage": stage,
        "fetch": fetch,
        "stage_lanes": stage_lanes,
        "load_down": load_down,
        "fetch_lanes": fetch_lanes,
        "store_down": store_down,
    }
