"""The only door to `numba.cuda` and its extension API.

When Numba's CUDA target is replaced by its announced successor, this is the file that changes. It offers
the `cuda` module, the class that device arrays derive from, `compile_ptx`, and the intrinsics that kernels are
written with. In Numba's simulator the same names are plain Python (see `_simulated`).

Kernels get addresses as unsigned integers, one tuple for the inputs and one for the outputs, so that a kernel
is written once for maps of any number of arguments. `load`, `store` and their 128-bit counterparts turn
addresses and element offsets into numbers of the compute dtype and back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from numba import config, cuda

from .dtypes import DTypeInfo

SIMULATED = bool(config.ENABLE_CUDASIM)

if SIMULATED:
    from numba import types
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray as DeviceNDArray

    from ._simulated import hardware, make_accessors
else:
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.cudadrv import devices, dummyarray
    from numba.cuda.cudadrv.devicearray import DeviceNDArray
    from numba.cuda.cudadrv.driver import MemoryPointer, binding
    from numba.cuda.extending import intrinsic

__all__ = [
    "SIMULATED",
    "DeviceNDArray",
    "accessors",
    "compile_ptx",
    "cuda",
    "dummy_array",
    "external_stream",
    "hardware",
    "kernel_signature",
    "memory_pointer",
    "place_of",
]


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
    make = make_accessors if SIMULATED else _make_accessors
    return SimpleNamespace(
        real=getattr(types, dtype.compute or "float32"),
        lanes=lanes,
        width=access_bytes // dtype.itemsize,
        cell=_cell_type(dtype),
        **make(dtype, lanes, access_bytes, inputs, turned),
    )


def _cell_type(dtype: DTypeInfo) -> Any:
    """Tiles hold the arrays' own bits; the simulator's hold numbers."""
    return getattr(types, str(dtype.compute) if SIMULATED else f"uint{dtype.bits}")


def kernel_signature(groups: Sequence[tuple[str, Any]]) -> Any:
    """The Numba signature of a kernel: ("uint64", 3) is a tuple of three, ("int32", None) a scalar,
    ("int32", (2, 3)) a tuple of two tuples of three."""

    def build(name: str, shape: Any) -> Any:
        scalar = getattr(types, name)
        if shape is None:
            return scalar
        if isinstance(shape, tuple):
            return types.UniTuple(types.UniTuple(scalar, shape[1]), shape[0])
        return types.UniTuple(scalar, shape)

    return types.void(*(build(name, shape) for name, shape in groups))


def compile_ptx(
    kernel: Callable[..., None], signature: Any, capability: tuple[int, int], threads: int
) -> tuple[str, str]:
    """(PTX, entry name) of a kernel for a compute capability; blocks have at most `threads` threads."""
    ptx, _ = cuda.compile(kernel, signature, device=False, abi="numba", cc=capability, launch_bounds=threads)
    entry = re.search(r"\.visible\s+\.entry\s+([\w$]+)", ptx)
    assert entry is not None
    return ptx, entry.group(1)


def dummy_array(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Any:
    """Numba's description of an array's memory, from which `DeviceNDArray.flags` are read."""
    return dummyarray.Array.from_desc(0, shape, strides, itemsize)


def external_stream(handle: int) -> Any:
    """A stream handle as Numba takes it: 0 is its default stream."""
    return cuda.external_stream(handle) if handle else 0


def place_of(array: Any) -> tuple[int, int]:
    """(device, address) of an array that Numba allocated."""
    if SIMULATED:
        return 0, array._ary.ctypes.data
    return array.gpu_data.context.device.id, array.device_ctypes_pointer.value or 0


def memory_pointer(address: int, nbytes: int, owner: object) -> Any:
    """The memory object that Numba expects in `DeviceNDArray.gpu_data`; it keeps `owner` alive."""
    pointer = MemoryPointer(context=devices.get_context(), pointer=binding.CUdeviceptr(address), size=nbytes)
    pointer._numbacc_owner = owner  # lives as long as the pointer does
    return pointer


if not SIMULATED:
    _I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
    _HALF, _FLOAT, _DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()

    def _assembly(builder: Any, result: Any, text: str, constraints: str, args: list[Any]) -> Any:
        kind = ir.FunctionType(result, [arg.type for arg in args])
        return builder.call(ir.InlineAsm(kind, text, constraints), args)

    # How each dtype sits in memory and becomes a number: the type of its bits, widen (bits -> number) and
    # narrow (number -> bits, rounded to nearest even).
    def _same(builder: Any, value: Any) -> Any:
        return value

    def _widen_bfloat16(builder: Any, bits: Any) -> Any:
        return builder.bitcast(builder.shl(builder.zext(bits, _I32), _I32(16)), _FLOAT)

    def _narrow_bfloat16(builder: Any, value: Any) -> Any:
        return _assembly(builder, _I16, "cvt.rn.bf16.f32 $0, $1;", "=h,f", [value])

    _FORMATS: dict[str, tuple[Any, Any, Any]] = {
        "float64": (_DOUBLE, _same, _same),
        "float32": (_FLOAT, _same, _same),
        "float16": (
            _HALF,
            lambda builder, half: builder.fpext(half, _FLOAT),
            lambda builder, value: builder.fptrunc(value, _HALF),
        ),
        "bfloat16": (_I16, _widen_bfloat16, _narrow_bfloat16),
        **{f"uint{n}": (ir.IntType(n), _same, _same) for n in (8, 16, 32, 64)},
    }

    # Two numbers rounded and packed into one word by one instruction, the first in the low half.
    _PACK_PAIR = {
        "bfloat16": "cvt.rn.bf16x2.f32 $0, $2, $1;",
        "float16": "cvt.rn.f16x2.f32 $0, $2, $1;",
    }

    def _unpack(builder: Any, dtype: DTypeInfo, vector: Any, count: int) -> list[Any]:
        """The numbers in the words of one access."""
        if dtype.name == "bfloat16" and vector.type.element == _I32:
            # A bfloat16 is the upper half of a float32: one instruction a number.
            numbers = []
            for j in range(vector.type.count):
                word = builder.extract_element(vector, _I32(j))
                numbers.append(builder.bitcast(builder.shl(word, _I32(16)), _FLOAT))
                numbers.append(builder.bitcast(builder.and_(word, _I32(0xFFFF0000)), _FLOAT))
            return numbers
        bits, widen, _ = _FORMATS[dtype.name]
        items = builder.bitcast(vector, ir.VectorType(bits, count))
        return [widen(builder, builder.extract_element(items, _I32(j))) for j in range(count)]

    def _packed(builder: Any, dtype: DTypeInfo, numbers: list[Any], kind: Any) -> Any:
        """The words of one access, as a vector of type `kind`."""
        if dtype.name in _PACK_PAIR and kind.element == _I32:
            text, vector = _PACK_PAIR[dtype.name], ir.Constant(kind, ir.Undefined)
            for j in range(kind.count):
                word = _assembly(builder, _I32, text, "=r,f,f", numbers[2 * j : 2 * j + 2])
                vector = builder.insert_element(vector, word, _I32(j))
            return vector
        bits, _, narrow = _FORMATS[dtype.name]
        items = ir.Constant(ir.VectorType(bits, len(numbers)), ir.Undefined)
        for j, number in enumerate(numbers):
            items = builder.insert_element(items, narrow(builder, number), _I32(j))
        return builder.bitcast(items, kind)

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

    def _make_accessors(
        dtype: DTypeInfo, lanes: int, access_bytes: int, inputs: int, turned: tuple[int, ...]
    ) -> dict[str, Any]:
        bits, widen, narrow = _FORMATS[dtype.name]
        real = getattr(types, dtype.compute or "float32")
        itemsize = dtype.itemsize
        per_access = access_bytes // itemsize
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
            result = types.UniTuple(types.UniTuple(real, lanes), len(addresses))

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                items: dict[Any, Any] = {}
                for k in range(len(addresses)):
                    for start in range(0, lanes, per_access):
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
                    for start in range(0, lanes, per_access):
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
        def stage(typing, tile, i, j, addresses, straight, crosswise):  # type: ignore[no-untyped-def]
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

    def _instruction(text: str, operands: int, real: Any = None) -> Any:
        """A floating-point instruction of the GPU as a function of `operands` numbers."""
        real = real or types.float32
        kind, letter = (_FLOAT, "f") if real == types.float32 else (_DOUBLE, "d")
        constraints = ",".join([f"={letter}", *[letter] * operands])

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _assembly(builder, kind, text, constraints, list(args))

        if operands == 1:

            @intrinsic
            def instruction(typing: Any, x: Any) -> Any:
                return real(real), generate

        else:

            @intrinsic
            def instruction(typing: Any, x: Any, y: Any, z: Any) -> Any:
                return real(real, real, real), generate

        return instruction

    @cuda.jit(device=True)
    def _exp(x):  # type: ignore[no-untyped-def]
        return math.exp(x)

    hardware = SimpleNamespace(
        exp=_exp,
        fma=_instruction("fma.rn.f32 $0, $1, $2, $3;", 3),
        fma_double=_instruction("fma.rn.f64 $0, $1, $2, $3;", 3, types.float64),
        # e^x as 2^(x log2 e): the constant is 0x3FB8AA3B.
        exp_approximate=_instruction("{ .reg .f32 t; mul.ftz.f32 t, $1, 0f3FB8AA3B; ex2.approx.ftz.f32 $0, t; }", 1),
        reciprocal_approximate=_instruction("rcp.approx.ftz.f32 $0, $1;", 1),
    )
