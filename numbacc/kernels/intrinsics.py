"""What kernels are written with: memory accesses and index arithmetic, as Numba intrinsics.

Kernels get addresses as unsigned integers, one tuple for the inputs and one for the outputs, so that a kernel is
written once for maps of any number of arguments. `load`, `store` and their 128-bit counterparts turn addresses and
element offsets into numbers of the compute dtype and back. In Numba's simulator the same names are plain Python (see
`simulated`).
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from ..base._numba import SIMULATED, capability_compiled_for, types
from ..base.dtypes import DTypeInfo

if SIMULATED:
    from .simulated import make_accessors
else:
    from ..base._numba import intrinsic, ir
    from .instructions import assembly

__all__ = ["accessors"]


@lru_cache(maxsize=256)
def accessors(
    dtype: DTypeInfo,
    lanes: int,
    access_bytes: int,
    inputs: int = 0,
    turned: tuple[int, ...] = (),
) -> SimpleNamespace:
    """What a kernel over arrays of `dtype` is written with.

    Args:
        dtype: a row of the dtype table that has a compute dtype.
        lanes: elements that one thread handles at once.
        access_bytes: width of one load or store, from the dtype's size to 16.
        inputs: how many inputs `stage` and `fetch` take.
        turned: the inputs that `stage` and `fetch` turn around.

    Returns:
        a namespace of
        ``real``: the compute dtype as Numba names it; ``lanes``; ``width``: elements an access;
        ``cell``: the type of one element in a tile of shared memory;
        ``unravel(index, shape)``: the coordinates of a C-ordered index;
        ``offsets(coordinates, steps)``: the element offset into each operand, one tuple of steps an operand;
        ``load(addresses, offsets)``, ``store(addresses, offsets, values)``: one number an operand;
        ``load_lanes(addresses, offsets, step)``, ``store_lanes(addresses, offsets, step, values)``: `lanes`
        numbers an operand, in accesses of `access_bytes` that lie `step` elements apart;
        ``map_lanes(formula, values)``: the formula applied lane by lane;
        ``stage(tile, i, j, addresses, straight, turned)``: each input k copied to ``tile[k, i, j]``, from the
        offset in `turned` for the turned ones, else from that in `straight`;
        ``fetch(tile, i, j)``: the inputs, the turned ones from ``tile[k, j, i]``, the others from
        ``tile[k, i, j]``.
    """
    return SimpleNamespace(
        real=getattr(types, dtype.compute or "float32"),
        lanes=lanes,
        width=access_bytes // dtype.itemsize,
        cell=_cell_type(dtype),
        **make_accessors(dtype, lanes, access_bytes, inputs, turned),
    )


def _cell_type(dtype: DTypeInfo) -> Any:
    """Tiles hold the arrays' own bits; the simulator's hold numbers."""
    return getattr(types, str(dtype.compute) if SIMULATED else f"uint{dtype.bits}")


if not SIMULATED:
    _I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
    _HALF, _FLOAT, _DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()

    # How each dtype sits in memory and becomes a number: the type of its bits, widen (bits -> number) and
    # narrow (number -> bits, rounded to nearest even).
    def _same(builder: Any, value: Any) -> Any:
        return value

    def _widen_bfloat16(builder: Any, bits: Any) -> Any:
        return builder.bitcast(builder.shl(builder.zext(bits, _I32), _I32(16)), _FLOAT)

    def _narrow_bfloat16(builder: Any, value: Any) -> Any:
        return assembly(builder, _I16, "cvt.rn.bf16.f32 $0, $1;", "=h,f", [value])

    _FORMATS: dict[str, tuple[Any, Any, Any]] = {
        "float64": (_DOUBLE, _same, _same),
        "float32": (_FLOAT, _same, _same),
        "float16": (
            _HALF,
            lambda builder, half: builder.fpext(half, _FLOAT),
            lambda builder, value: builder.fptrunc(value, _HALF),
        ),
        "bfloat16": (_I16, _widen_bfloat16, _narrow_bfloat16),
        **{f"{sign}int{n}": (ir.IntType(n), _same, _same) for sign in ("", "u") for n in (8, 16, 32, 64)},
    }

    # Two numbers rounded and packed into one word by one instruction (from capability 8.0 on), the first in the low
    # half.
    _PACK_PAIR = {
        "bfloat16": "cvt.rn.bf16x2.f32 $0, $2, $1;",
        "float16": "cvt.rn.f16x2.f32 $0, $2, $1;",
    }

    def _unpack(builder: Any, dtype: DTypeInfo, vector: Any, count: int) -> list[Any]:
        """The numbers in the words of one access."""
        bits, widen, _ = _FORMATS[dtype.name]
        if vector.type.element != _I32 or dtype.itemsize >= 4:
            items = builder.bitcast(vector, ir.VectorType(bits, count))
            return [widen(builder, builder.extract_element(items, _I32(j))) for j in range(count)]
        numbers = []
        for j in range(vector.type.count):
            word = builder.extract_element(vector, _I32(j))
            if dtype.name == "bfloat16":
                # A bfloat16 is the upper half of a float32: one instruction a number.
                numbers.append(builder.bitcast(builder.shl(word, _I32(16)), _FLOAT))
                numbers.append(builder.bitcast(builder.and_(word, _I32(0xFFFF0000)), _FLOAT))
            elif dtype.name == "float16":
                halves = (builder.trunc(w, _I16) for w in (word, builder.lshr(word, _I32(16))))
                numbers += [widen(builder, builder.bitcast(half, bits)) for half in halves]
            else:
                numbers.append(word)  # small integers are only copied, a word at a time
        return numbers

    def _packed(builder: Any, dtype: DTypeInfo, numbers: list[Any], kind: Any) -> Any:
        """The words of one access, as a vector of type `kind`."""
        bits, _, narrow = _FORMATS[dtype.name]
        vector = ir.Constant(kind, ir.Undefined)
        if kind.element != _I32 or dtype.itemsize >= 4:
            items = ir.Constant(ir.VectorType(bits, len(numbers)), ir.Undefined)
            for j, number in enumerate(numbers):
                items = builder.insert_element(items, narrow(builder, number), _I32(j))
            return builder.bitcast(items, kind)
        for j in range(kind.count):
            if dtype.name not in _PACK_PAIR:
                word = numbers[j]
            elif capability_compiled_for() >= (8, 0):
                pair = numbers[2 * j : 2 * j + 2]
                word = assembly(builder, _I32, _PACK_PAIR[dtype.name], "=r,f,f", pair)
            else:
                low, high = (
                    builder.zext(builder.bitcast(narrow(builder, number), _I16), _I32)
                    for number in numbers[2 * j : 2 * j + 2]
                )
                word = builder.or_(low, builder.shl(high, _I32(16)))
            vector = builder.insert_element(vector, word, _I32(j))
        return vector

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
        offset = _resize(builder, offset, _I64)
        target = builder.add(address, builder.mul(offset, _I64(itemsize), flags=_NSW))
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

    @intrinsic
    def _map_lanes(typing: Any, formula: Any, values: Any) -> Any:
        lanes, real = len(values[0]), values[0].dtype
        call = formula.get_call_type(typing, (real,) * len(values), {})
        outputs = len(call.return_type)
        result = types.UniTuple(types.UniTuple(real, lanes), outputs)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            function, items = context.get_function(formula, call), {}
            for lane in range(lanes):
                operands = [builder.extract_value(args[1], (k, lane)) for k in range(len(values))]
                answer = function(builder, operands)
                for k in range(outputs):
                    items[k, lane] = builder.extract_value(answer, k)
            return _aggregate(context, builder, result, items)

        return result(formula, values), generate

    def make_accessors(
        dtype: DTypeInfo, lanes: int, access_bytes: int, inputs: int, turned: tuple[int, ...]
    ) -> dict[str, Any]:
        bits, widen, narrow = _FORMATS[dtype.name]
        real = getattr(types, dtype.compute or "float32")
        itemsize = dtype.itemsize
        # Integers narrower than a word are only copied, so their lanes are words where an access has words.
        word_lanes = dtype.name in ("uint8", "uint16") and access_bytes >= 4
        lane = types.uint32 if word_lanes else real
        per_access = access_bytes // (4 if word_lanes else itemsize)
        count = lanes * itemsize // 4 if word_lanes else lanes
        # What one access moves: 32-bit words, or the elements themselves where it is narrower.
        kind = ir.VectorType(_I32, access_bytes // 4) if access_bytes >= 4 else ir.VectorType(bits, per_access)

        def load_one(builder: Any, addresses: Any, at: Any, k: int) -> Any:
            address, offset = builder.extract_value(addresses, k), builder.extract_value(at, k)
            pointer = _pointer(builder, address, offset, itemsize, bits)
            return widen(builder, builder.load(pointer, align=itemsize))

        @intrinsic
        def load(typing: Any, addresses: Any, at: Any) -> Any:
            result = types.UniTuple(real, len(addresses))

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                items = {k: load_one(builder, args[0], args[1], k) for k in range(len(addresses))}
                return _aggregate(context, builder, result, items)

            return result(addresses, at), generate

        @intrinsic
        def store(typing: Any, addresses: Any, at: Any, values: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                for k in range(len(addresses)):
                    address, offset, value = (builder.extract_value(arg, k) for arg in args)
                    pointer = _pointer(builder, address, offset, itemsize, bits)
                    builder.store(narrow(builder, value), pointer, align=itemsize)
                return context.get_dummy_value()

            return types.void(addresses, at, values), generate

        def access_pointer(builder: Any, args: Any, k: int, start: int) -> Any:
            """A pointer to the access that holds lane `start` of operand k."""
            address, offset = (builder.extract_value(arg, k) for arg in args[:2])
            step = _resize(builder, args[2], offset.type)
            past = builder.mul(step, offset.type(start // per_access), flags=_NSW)
            offset = _add(builder, offset, past)
            return _pointer(builder, address, offset, itemsize, kind)

        @intrinsic
        def load_lanes(typing: Any, addresses: Any, at: Any, step: Any) -> Any:
            result = types.UniTuple(types.UniTuple(lane, count), len(addresses))

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                items: dict[Any, Any] = {}
                for k in range(len(addresses)):
                    for start in range(0, count, per_access):
                        pointer = access_pointer(builder, args, k, start)
                        vector = builder.load(pointer, align=access_bytes)
                        numbers = _unpack(builder, dtype, vector, per_access)
                        items |= {(k, start + j): number for j, number in enumerate(numbers)}
                return _aggregate(context, builder, result, items)

            return result(addresses, at, step), generate

        @intrinsic
        def store_lanes(typing: Any, addresses: Any, at: Any, step: Any, values: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                for k in range(len(addresses)):
                    for start in range(0, count, per_access):
                        numbers = [builder.extract_value(args[3], (k, start + j)) for j in range(per_access)]
                        vector = _packed(builder, dtype, numbers, kind)
                        pointer = access_pointer(builder, args, k, start)
                        builder.store(vector, pointer, align=access_bytes)
                return context.get_dummy_value()

            return types.void(addresses, at, step, values), generate

        def slot(context: Any, builder: Any, tile: Any, args: Any, place: tuple[int, Any, Any]) -> Any:
            """A pointer to tile[k, i, j] as the arrays' own bits."""
            k, *indices = place
            array = context.make_array(tile)(context, builder, args[0])
            _, height, width = (builder.extract_value(array.shape, d) for d in range(3))
            i, j = (_resize(builder, x, _I64) for x in indices)
            row = builder.add(builder.mul(_I64(k), height), i)
            pointer = builder.gep(array.data, [builder.add(builder.mul(row, width), j)])
            return builder.bitcast(pointer, bits.as_pointer())

        @intrinsic
        def stage(typing, tile, i, j, addresses, straight, crosswise):
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                for k in range(len(addresses)):
                    at = builder.extract_value(args[5 if k in turned else 4], k)
                    address = builder.extract_value(args[3], k)
                    pointer = _pointer(builder, address, at, itemsize, bits)
                    value = builder.load(pointer, align=itemsize)
                    builder.store(value, slot(context, builder, tile, args, (k, *args[1:3])))
                return context.get_dummy_value()

            return types.void(tile, i, j, addresses, straight, crosswise), generate

        @intrinsic
        def fetch(typing: Any, tile: Any, i: Any, j: Any) -> Any:
            result = types.UniTuple(real, inputs)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                items = {}
                for k in range(inputs):
                    order = (2, 1) if k in turned else (1, 2)
                    place = (k, *(args[d] for d in order))
                    value = builder.load(slot(context, builder, tile, args, place))
                    items[k] = widen(builder, value)
                return _aggregate(context, builder, result, items)

            return result(tile, i, j), generate

        return {
            "unravel": _unravel,
            "offsets": _offsets,
            "load": load,
            "store": store,
            "load_lanes": load_lanes,
            "store_lanes": store_lanes,
            "map_lanes": _map_lanes,
            "stage": stage,
            "fetch": fetch,
        }
