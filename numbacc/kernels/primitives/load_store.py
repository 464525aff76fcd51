"""Loads and stores of elements, one by one and in runs, as LLVM code: see `operands.operands`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base._numba import intrinsic, ir, types
from . import formats
from .formats import I16, I32, I64, number_type

# Offsets never overflow, because the plan chose integers wide enough. Saying so lets the compiler move invariant code
# out of loops.
NO_OVERFLOW = ("nsw",)


def resized(builder: Any, number: Any, word: Any) -> Any:
    """Return a signed integer in as many bits as `word` has."""
    if number.type.width > word.width:
        return builder.trunc(number, word)
    return builder.sext(number, word) if number.type.width < word.width else number


def aggregate(context: Any, builder: Any, numba_type: Any, items: dict[Any, Any]) -> Any:
    """Return a tuple, or a tuple of tuples, with the items at their indices."""
    value = ir.Constant(context.get_value_type(numba_type), ir.Undefined)
    for index, item in items.items():
        value = builder.insert_value(value, item, index)
    return value


def row_of(rows: Sequence[Any], k: int) -> Any:
    """Return operand k; a single row may describe all operands."""
    return rows[k] if len(rows) > 1 else rows[0]


def address_of(builder: Any, args: Any, k: int, itemsize: int) -> Any:
    """Return the address of operand k's element, given all addresses and all offsets."""
    address, offset = (builder.extract_value(arg, k) for arg in args[:2])
    return builder.add(address, builder.mul(resized(builder, offset, I64), I64(itemsize), flags=NO_OVERFLOW))


def place_of(builder: Any, args: Any, k: int, operand: Any) -> Any:
    """Return `address_of`; for a counter return the offset, treated as an address with one-byte elements."""
    if operand.counted:
        return resized(builder, builder.extract_value(args[1], k), I64)
    return address_of(builder, args, k, operand.itemsize)


def behind(builder: Any, address: Any, step: Any, count: int, itemsize: int) -> Any:
    """Return the address that is `count` steps of `step` elements after another address.

    A step that is a compile-time constant becomes part of the access and costs nothing.
    """
    return builder.add(address, builder.mul(resized(builder, step, I64), I64(count * itemsize), flags=NO_OVERFLOW))


def lane_address(builder: Any, address: Any, step: Any, lane: int, width: int, itemsize: int) -> Any:
    """Return the address of a lane, for runs of `width` elements that are `step` elements apart."""
    start = behind(builder, address, step, lane // width, itemsize)
    return builder.add(start, I64(lane % width * itemsize))


def pointer_to(builder: Any, address: Any, pointee: Any) -> Any:
    """Return an address as a pointer to global memory."""
    return builder.inttoptr(address, ir.PointerType(pointee, addrspace=1))


def alignment_of(operand: Any) -> int:
    """Return the alignment of a single element; a complex one is aligned as its parts are."""
    return int(operand.dtype.itemsize // operand.dtype.parts)


#: The constraint letters of assembly's registers.
_LETTERS = {I16: "h", I32: "r", I64: "l", ir.FloatType(): "f", ir.DoubleType(): "d"}


def under_way(builder: Any, loaded: Sequence[Any]) -> None:
    """Make the compiler issue all these loads before any use; otherwise it loads each number where it is used."""
    given = []
    for each in loaded:
        parts = [builder.extract_element(each, I32(j)) for j in range(each.type.count)] if _is_vector(each) else [each]
        for part in parts:
            if isinstance(part.type, ir.HalfType):
                part = builder.bitcast(part, I16)
            given.append(builder.zext(part, I16) if part.type == ir.IntType(8) else part)
    kind = ir.FunctionType(ir.VoidType(), [each.type for each in given])
    letters = ",".join(_LETTERS[each.type] for each in given)
    builder.call(ir.InlineAsm(kind, "", letters, side_effect=True), given)


def _is_vector(value: Any) -> bool:
    return isinstance(value.type, ir.VectorType)


def bits_at(builder: Any, operand: Any, address: Any) -> Any:
    """Return the element at an address in its memory format; for a counter, return the address."""
    if operand.counted:
        return address
    pointer = pointer_to(builder, address, formats.memory_type(operand.dtype))
    return builder.load(pointer, align=alignment_of(operand))


def load_one(context: Any, builder: Any, operand: Any, address: Any) -> Any:
    """Return the element at an address as a number of the formula."""
    return formats.widen(context, builder, operand, bits_at(builder, operand, address))


def store_one(builder: Any, operand: Any, address: Any, bits: Any) -> None:
    """Store an element in its memory format to an address."""
    builder.store(bits, pointer_to(builder, address, bits.type), align=alignment_of(operand))


def make_numbers(rows: Sequence[Any]) -> dict[str, Any]:
    """Return the intrinsics `load` and `store`: one element of each operand."""

    @intrinsic
    def load(typing: Any, addresses: Any, at: Any) -> Any:
        result = types.Tuple([number_type(row_of(rows, k)) for k in range(len(addresses))])

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            items = {}
            for k in range(len(addresses)):
                operand = row_of(rows, k)
                items[k] = load_one(context, builder, operand, place_of(builder, args, k, operand))
            return aggregate(context, builder, result, items)

        return result(addresses, at), generate

    @intrinsic
    def store(typing: Any, addresses: Any, at: Any, values: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            for k, kind in enumerate(values):
                operand, number = row_of(rows, k), builder.extract_value(args[2], k)
                bits = formats.narrow(context, builder, operand.dtype, kind, number)
                store_one(builder, operand, address_of(builder, args, k, operand.dtype.itemsize), bits)
            return context.get_dummy_value()

        return types.void(addresses, at, values), generate

    return {"load": load, "store": store}


def lanes_type(rows: Sequence[Any], count: int, lanes: int) -> Any:
    """Return the type of `lanes` elements of each of `count` operands."""
    return types.Tuple([types.UniTuple(number_type(row_of(rows, k)), lanes) for k in range(count)])


def make_lanes(rows: Sequence[Any], lanes: int, width: int) -> dict[str, Any]:
    """Return the intrinsics `load_lanes` and `store_lanes`: elements of each operand, in runs of `width`."""

    def run_pointer(builder: Any, args: Any, k: int, start: int) -> Any:
        """Return a pointer to the access that holds lane `start` of operand k."""
        dtype, access = row_of(rows, k).dtype, row_of(rows, k).access
        first = address_of(builder, args, k, dtype.itemsize)
        address = lane_address(builder, first, args[2], start, width, dtype.itemsize)
        return pointer_to(builder, address, formats.access_type(dtype, access))

    @intrinsic
    def load_lanes(typing: Any, addresses: Any, at: Any, step: Any) -> Any:
        result = lanes_type(rows, len(addresses), lanes)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            items: dict[Any, Any] = {}
            for k in range(len(addresses)):
                operand = row_of(rows, k)
                itemsize, access, first = operand.itemsize, operand.access, place_of(builder, args, k, operand)
                if operand.repeated:
                    number = load_one(context, builder, operand, first)
                    items |= {(k, lane): number for lane in range(lanes)}
                    continue
                if operand.counted:
                    there = [lane_address(builder, first, args[2], lane, width, itemsize) for lane in range(lanes)]
                    items |= {(k, lane): load_one(context, builder, operand, at) for lane, at in enumerate(there)}
                    continue
                for start in range(0, lanes, access):
                    vector = builder.load(run_pointer(builder, args, k, start), align=access * itemsize)
                    numbers = formats.unpack(context, builder, operand, vector)
                    items |= {(k, start + j): number for j, number in enumerate(numbers)}
            return aggregate(context, builder, result, items)

        return result(addresses, at, step), generate

    @intrinsic
    def store_lanes(typing: Any, addresses: Any, at: Any, step: Any, values: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            for k, kind in enumerate(values):
                dtype, access = row_of(rows, k).dtype, row_of(rows, k).access
                for start in range(0, lanes, access):
                    numbers = [builder.extract_value(args[3], (k, start + j)) for j in range(access)]
                    vector = formats.pack(context, builder, dtype, kind.dtype, numbers)
                    builder.store(vector, run_pointer(builder, args, k, start), align=access * dtype.itemsize)
            return context.get_dummy_value()

        return types.void(addresses, at, step, values), generate

    return {"load_lanes": load_lanes, "store_lanes": store_lanes}


def make_some(rows: Sequence[Any], lanes: int) -> dict[str, Any]:
    """Return the intrinsics `load_some` and `store_some`: the first few elements of each operand, one by one."""

    def there(builder: Any, args: Any, count: Any, k: int, lane: int) -> tuple[Any, Any]:
        """Return (whether that lane exists, its address or else the first lane's)."""
        itemsize = row_of(rows, k).itemsize
        first = place_of(builder, args, k, row_of(rows, k))
        is_there = builder.icmp_signed(">", count, count.type(lane))
        return is_there, builder.select(is_there, behind(builder, first, args[2], lane, itemsize), first)

    @intrinsic
    def load_some(typing: Any, addresses: Any, at: Any, step: Any, count: Any) -> Any:
        result = lanes_type(rows, len(addresses), lanes)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            bits = {}
            for k in range(len(addresses)):
                for lane in range(lanes):
                    _, address = there(builder, args, args[3], k, lane if not row_of(rows, k).repeated else 0)
                    bits[k, lane] = bits_at(builder, row_of(rows, k), address)
            under_way(builder, list(bits.values()))
            items = {at: formats.widen(context, builder, row_of(rows, at[0]), found) for at, found in bits.items()}
            return aggregate(context, builder, result, items)

        return result(addresses, at, step, count), generate

    @intrinsic
    def store_some(typing: Any, addresses: Any, at: Any, step: Any, values: Any, count: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            for k, kind in enumerate(values):
                operand = row_of(rows, k)
                for lane in range(lanes):
                    is_there, address = there(builder, args, args[4], k, lane)
                    with builder.if_then(is_there):
                        number = builder.extract_value(args[3], (k, lane))
                        store_one(
                            builder,
                            operand,
                            address,
                            formats.narrow(context, builder, operand.dtype, kind.dtype, number),
                        )
            return context.get_dummy_value()

        return types.void(addresses, at, step, values, count), generate

    return {"load_some": load_some, "store_some": store_some}
