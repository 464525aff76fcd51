"""What kernels are written with: memory accesses and index arithmetic, as Numba intrinsics.

Kernels get addresses as unsigned integers, one tuple for the inputs and one for the outputs, so that a kernel is
written once for maps of any number of arguments, each of a dtype of its own. `load`, `store` and their 128-bit
counterparts turn addresses and element offsets into numbers of the compute dtype and back. In Numba's simulator the
same names are plain Python (see `simulated`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..base._numba import SIMULATED, types
from ..base.dtypes import TABLE, DTypeInfo
from .specs import VECTOR_BYTES

if SIMULATED:
    from .simulated import make_accessors, make_scalar_reader
else:
    from ..base._numba import intrinsic, ir
    from . import formats
    from .formats import I64, number_type

__all__ = ["Operand", "accessors", "operands"]


class Operand:
    """How a kernel sees an array: what an element is in memory, and as a number.

    Attributes:
        dtype: its row of the table.
        number: name of the dtype that its numbers have in the formula.
        access: elements of one load or store in a run of `width` elements: as many as 16 bytes hold.
        repeated: True where one element stands for all of a row.
    """

    __slots__ = ("access", "dtype", "number", "repeated")

    def __init__(self, dtype: DTypeInfo, compute: str, width: int, repeated: bool):
        self.dtype, self.repeated = dtype, repeated
        own = str(dtype.compute)
        # A truth value stays one; a complex number becomes no real one.
        stays = own == "bool" or (dtype.parts == 2 and not compute.startswith("complex")) or compute == "bool"
        self.number = own if stays or not compute else compute
        self.access = max(min(width, VECTOR_BYTES // dtype.itemsize), 1)


@lru_cache(maxsize=256)
def operands(
    dtypes: tuple[DTypeInfo, ...],
    lanes: int,
    width: int,
    compute: str = "",
    turned: tuple[int, ...] = (),
    repeated: tuple[int, ...] = (),
) -> SimpleNamespace:
    """What a kernel over arrays of these dtypes is written with, one of them an operand.

    Args:
        dtypes: rows of the dtype table that have a compute dtype; one alone stands for any number of operands.
        lanes: elements that one thread handles at once.
        width: elements next to each other in memory that it takes together, a power of two.
        compute: name of the dtype that numbers are loaded in; "" for each operand's own.
        turned: the inputs that `stage` and `fetch` turn around.
        repeated: the inputs that are the same for all lanes.

    Returns:
        a namespace of
        ``real``: the first operand's compute dtype as Numba names it; ``lanes``; ``width``;
        ``cell``: the type of one element in a tile of shared memory, as wide as the widest;
        ``unravel(index, shape)``: the coordinates of a C-ordered index;
        ``offsets(coordinates, steps)``: the element offset into each operand, one tuple of steps an operand;
        ``load(addresses, offsets)``, ``store(addresses, offsets, values)``: one number an operand;
        ``load_lanes(addresses, offsets, step)``, ``store_lanes(addresses, offsets, step, values)``: `lanes`
        numbers an operand, in runs of `width` that lie `step` elements apart;
        ``apply(formula, values, scalars)``, ``map_lanes(formula, values, scalars)``: the formula of one number an
        operand, or lane by lane, as a tuple of its results;
        ``scalars(words)``: numbers passed at launch as words of 64 bits, see `scalar_types`;
        ``stage(tile, i, j, addresses, straight, turned)``: each input k copied to ``tile[k, i, j]``, from the
        offset in `turned` for the turned ones, else from that in `straight`;
        ``fetch(tile, i, j)``: the inputs, the turned ones from ``tile[k, j, i]``, the others from
        ``tile[k, i, j]``.
    """
    found = tuple(Operand(dtype, compute, width, k in repeated) for k, dtype in enumerate(dtypes))
    widest = max((dtype for dtype in dtypes), key=lambda dtype: dtype.itemsize)
    return SimpleNamespace(
        real=getattr(types, "boolean" if found[0].number == "bool" else found[0].number),
        lanes=lanes,
        width=width,
        cell=_cell_type(found),
        cell_bytes=widest.itemsize,
        **make_accessors(found, lanes, width, turned),
    )


def accessors(dtype: DTypeInfo, lanes: int, access_bytes: int) -> SimpleNamespace:
    """`operands` of one dtype, in accesses of `access_bytes`."""
    return operands((dtype,), lanes, access_bytes // dtype.itemsize)


@lru_cache(maxsize=256)
def scalar_reader(names: tuple[str, ...]) -> Any:
    """The device function that makes numbers of the words that scalar arguments are passed in.

    Args:
        names: the numbers' dtypes. A word of 64 bits holds one, or a part of a complex one.
    """
    return make_scalar_reader(names)


def _cell_type(rows: Sequence[Operand]) -> Any:
    """Tiles hold the arrays' own bits; the simulator's hold numbers."""
    if SIMULATED:
        # Of different dtypes the one that holds all of their numbers.
        (name, *others) = {row.number for row in rows}
        return getattr(types, str(np.result_type(name, *others)).replace("bool", "boolean"))
    nbytes = max(row.dtype.itemsize for row in rows)
    return types.complex128 if nbytes == 16 else getattr(types, f"uint{8 * nbytes}")


if not SIMULATED:
    # Offsets never overflow: the plan chose integers wide enough. Saying so lets the compiler move what does not
    # change out of loops.
    _NSW = ("nsw",)

    def _add(builder: Any, x: Any, y: Any) -> Any:
        return builder.add(x, y, flags=_NSW)

    def _resize(builder: Any, number: Any, word: Any) -> Any:
        """A signed integer in as many bits as `word`."""
        if number.type.width > word.width:
            return builder.trunc(number, word)
        return builder.sext(number, word) if number.type.width < word.width else number

    def _pointer(builder: Any, address: Any, offset: Any, itemsize: int, pointee: Any) -> Any:
        """address + offset * itemsize as a pointer to global memory."""
        offset = _resize(builder, offset, I64)
        target = builder.add(address, builder.mul(offset, I64(itemsize), flags=_NSW))
        return builder.inttoptr(target, ir.PointerType(pointee, addrspace=1))

    def _aggregate(context: Any, builder: Any, numba_type: Any, items: dict[Any, Any]) -> Any:
        value = ir.Constant(context.get_value_type(numba_type), ir.Undefined)
        for index, item in items.items():
            value = builder.insert_value(value, item, index)
        return value

    @intrinsic
    def _unravel(typing: Any, index: Any, shape: Any) -> Any:
        result = shape

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            rest, items = _resize(builder, args[0], context.get_value_type(shape.dtype)), {}
            # Indices are not negative: unsigned division is the cheaper one.
            for d in reversed(range(1, len(shape))):
                n = builder.extract_value(args[1], d)
                quotient = builder.udiv(rest, n)
                items[d] = builder.sub(rest, builder.mul(quotient, n))
                rest = quotient
            items[0] = rest
            return _aggregate(context, builder, result, items)

        return result(index, shape), generate

    @intrinsic
    def _offsets(typing: Any, coordinates: Any, steps: Any) -> Any:
        result = types.UniTuple(steps.dtype.dtype, len(steps))

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word, items = context.get_value_type(steps.dtype.dtype), {}
            for k in range(len(steps)):
                total = word(0)
                for d in range(len(coordinates)):
                    x = _resize(builder, builder.extract_value(args[0], d), word)
                    step = builder.extract_value(args[1], (k, d))
                    total = _add(builder, total, builder.mul(x, step, flags=_NSW))
                items[k] = total
            return _aggregate(context, builder, result, items)

        return result(coordinates, steps), generate

    def _call(formula: Any, typing: Any, numbers: Sequence[Any]) -> tuple[Any, Any]:
        """(signature of a formula's call with numbers of these types, the types of its results)."""
        call = formula.get_call_type(typing, tuple(numbers), {})
        result = call.return_type
        return call, tuple(result) if isinstance(result, types.BaseTuple) else (result,)

    def _results(builder: Any, call: Any, answer: Any) -> list[Any]:
        if not isinstance(call.return_type, types.BaseTuple):
            return [answer]
        return [builder.extract_value(answer, k) for k in range(len(call.return_type))]

    @intrinsic
    def _map_lanes(typing: Any, formula: Any, values: Any, scalars: Any) -> Any:
        lanes = len(values[0])
        call, results = _call(formula, typing, [*(row.dtype for row in values), *scalars])
        result = types.Tuple([types.UniTuple(kind, lanes) for kind in results])

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            function, items = context.get_function(formula, call), {}
            more = [builder.extract_value(args[2], k) for k in range(len(scalars))]
            for lane in range(lanes):
                numbers = [builder.extract_value(args[1], (k, lane)) for k in range(len(values))]
                for k, number in enumerate(_results(builder, call, function(builder, [*numbers, *more]))):
                    items[k, lane] = number
            return _aggregate(context, builder, result, items)

        return result(formula, values, scalars), generate

    @intrinsic
    def _apply(typing: Any, formula: Any, values: Any, scalars: Any) -> Any:
        call, results = _call(formula, typing, [*values, *scalars])
        result = types.Tuple(results)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            numbers = [builder.extract_value(args[1], k) for k in range(len(values))]
            numbers += [builder.extract_value(args[2], k) for k in range(len(scalars))]
            found = _results(builder, call, context.get_function(formula, call)(builder, numbers))
            return _aggregate(context, builder, result, dict(enumerate(found)))

        return result(formula, values, scalars), generate

    def make_scalar_reader(names: tuple[str, ...]) -> Any:
        kinds = [formats.numba_type(name) for name in names]

        @intrinsic
        def scalars(typing: Any, words: Any) -> Any:
            result = types.Tuple(kinds)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                found = iter(builder.extract_value(args[0], k) for k in range(len(words)))
                items = {k: formats.number_of_words(builder, TABLE[name], found) for k, name in enumerate(names)}
                return _aggregate(context, builder, result, items)

            return result(words), generate

        return scalars

    def _row(rows: Sequence[Any], k: int) -> Any:
        """Operand k, where one row may stand for all."""
        return rows[k] if len(rows) > 1 else rows[0]

    def _element(builder: Any, operand: Any, addresses: Any, at: Any, k: int) -> Any:
        """A pointer to one element of operand k as it lies in memory."""
        address, offset = builder.extract_value(addresses, k), builder.extract_value(at, k)
        dtype = operand.dtype
        return _pointer(builder, address, offset, dtype.itemsize, formats.memory_type(dtype))

    def _alignment(operand: Any) -> int:
        """What an element alone is aligned to: a complex one to its parts."""
        return int(operand.dtype.itemsize // operand.dtype.parts)

    def _load_one(context: Any, builder: Any, operand: Any, addresses: Any, at: Any, k: int) -> Any:
        bits = builder.load(_element(builder, operand, addresses, at, k), align=_alignment(operand))
        return formats.widen(context, builder, operand, bits)

    def _numbers(rows: Sequence[Any]) -> dict[str, Any]:
        """What loads and stores one number of each operand."""

        @intrinsic
        def load(typing: Any, addresses: Any, at: Any) -> Any:
            result = types.Tuple([number_type(_row(rows, k)) for k in range(len(addresses))])

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                items = {
                    k: _load_one(context, builder, _row(rows, k), args[0], args[1], k) for k in range(len(addresses))
                }
                return _aggregate(context, builder, result, items)

            return result(addresses, at), generate

        @intrinsic
        def store(typing: Any, addresses: Any, at: Any, values: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                for k, kind in enumerate(values):
                    dtype, number = _row(rows, k).dtype, builder.extract_value(args[2], k)
                    bits = formats.narrow(context, builder, dtype, kind, number)
                    builder.store(
                        bits, _element(builder, _row(rows, k), args[0], args[1], k), align=_alignment(_row(rows, k))
                    )
                return context.get_dummy_value()

            return types.void(addresses, at, values), generate

        return {"load": load, "store": store}

    def _lanes(rows: Sequence[Any], lanes: int, width: int) -> dict[str, Any]:
        """What loads and stores `lanes` numbers of each operand, in runs of `width`."""

        def run_pointer(builder: Any, args: Any, k: int, start: int) -> Any:
            """A pointer to the access that holds lane `start` of operand k."""
            address, offset = (builder.extract_value(arg, k) for arg in args[:2])
            step = _resize(builder, args[2], offset.type)
            past = builder.mul(step, offset.type(start // width), flags=_NSW)
            offset = _add(builder, _add(builder, offset, past), offset.type(start % width))
            dtype, access = _row(rows, k).dtype, _row(rows, k).access
            return _pointer(builder, address, offset, dtype.itemsize, formats.access_type(dtype, access))

        @intrinsic
        def load_lanes(typing: Any, addresses: Any, at: Any, step: Any) -> Any:
            result = types.Tuple([types.UniTuple(number_type(_row(rows, k)), lanes) for k in range(len(addresses))])

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                items: dict[Any, Any] = {}
                for k in range(len(addresses)):
                    dtype, access = _row(rows, k).dtype, _row(rows, k).access
                    if _row(rows, k).repeated:
                        number = _load_one(context, builder, _row(rows, k), args[0], args[1], k)
                        items |= {(k, lane): number for lane in range(lanes)}
                        continue
                    for start in range(0, lanes, access):
                        pointer = run_pointer(builder, args, k, start)
                        vector = builder.load(pointer, align=access * dtype.itemsize)
                        numbers = formats.unpack(context, builder, _row(rows, k), vector)
                        items |= {(k, start + j): number for j, number in enumerate(numbers)}
                return _aggregate(context, builder, result, items)

            return result(addresses, at, step), generate

        @intrinsic
        def store_lanes(typing: Any, addresses: Any, at: Any, step: Any, values: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                for k, kind in enumerate(values):
                    dtype, access = _row(rows, k).dtype, _row(rows, k).access
                    for start in range(0, lanes, access):
                        numbers = [builder.extract_value(args[3], (k, start + j)) for j in range(access)]
                        vector = formats.pack(context, builder, dtype, kind.dtype, numbers)
                        pointer = run_pointer(builder, args, k, start)
                        builder.store(vector, pointer, align=access * dtype.itemsize)
                return context.get_dummy_value()

            return types.void(addresses, at, step, values), generate

        return {"load_lanes": load_lanes, "store_lanes": store_lanes}

    def _tiles(rows: Sequence[Any], turned: tuple[int, ...]) -> dict[str, Any]:
        """What copies the inputs to a tile of shared memory, and takes them from there."""

        def slot(context: Any, builder: Any, tile: Any, args: Any, place: tuple[int, Any, Any]) -> Any:
            """A pointer to tile[k, i, j] as operand k's own bits."""
            k, *indices = place
            array = context.make_array(tile)(context, builder, args[0])
            _, height, length = (builder.extract_value(array.shape, d) for d in range(3))
            i, j = (_resize(builder, x, I64) for x in indices)
            line = builder.add(builder.mul(I64(k), height), i)
            pointer = builder.gep(array.data, [builder.add(builder.mul(line, length), j)])
            return builder.bitcast(pointer, formats.memory_type(_row(rows, k).dtype).as_pointer())

        @intrinsic
        def stage(typing, tile, i, j, addresses, straight, crosswise):
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                for k in range(len(addresses)):
                    operand, at = _row(rows, k), args[5 if k in turned else 4]
                    align = _alignment(operand)
                    bits = builder.load(_element(builder, operand, args[3], at, k), align=align)
                    builder.store(bits, slot(context, builder, tile, args, (k, *args[1:3])), align=align)
                return context.get_dummy_value()

            return types.void(tile, i, j, addresses, straight, crosswise), generate

        @intrinsic
        def fetch(typing: Any, tile: Any, i: Any, j: Any) -> Any:
            result = types.Tuple([number_type(each) for each in rows])

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                items = {}
                for k, each in enumerate(rows):
                    order = (2, 1) if k in turned else (1, 2)
                    place = (k, *(args[d] for d in order))
                    bits = builder.load(slot(context, builder, tile, args, place), align=_alignment(each))
                    items[k] = formats.widen(context, builder, each, bits)
                return _aggregate(context, builder, result, items)

            return result(tile, i, j), generate

        return {"stage": stage, "fetch": fetch}

    def make_accessors(rows: tuple[Any, ...], lanes: int, width: int, turned: tuple[int, ...]) -> dict[str, Any]:
        index = {"unravel": _unravel, "offsets": _offsets, "map_lanes": _map_lanes, "apply": _apply}
        return index | _numbers(rows) | _lanes(rows, lanes, width) | _tiles(rows, turned)
