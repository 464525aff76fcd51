"""Memory accesses and index arithmetic for kernels, as Numba intrinsics.

Kernels receive addresses as unsigned integers, one tuple for the inputs and one for the outputs. Thus a kernel is
written once for any number of arguments, each with its own dtype. `load`, `store` and their 128-bit counterparts
convert between memory, given addresses and element offsets, and numbers of the compute dtype. In Numba's simulator the
same names are plain Python (see `simulated`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import SIMULATED, cuda, types
from ...base.dtypes import TABLE, DTypeInfo
from ...runtime.launch_order import VECTOR_BYTES
from ..specs import TILE_STEP

if SIMULATED:
    from .simulated import make_accessors, make_scalar_reader
else:
    from ...base._numba import intrinsic
    from . import formats
    from .load_store import NO_OVERFLOW, aggregate, make_lanes, make_numbers, make_some, resized
    from .transposed_tiles import make_tiles
    from .unaligned_vector import make_uneven

__all__ = ["Operand", "accessors", "operands", "scalar_reader", "splitter"]


class Operand:
    """A kernel's view of an array: the format of an element in memory, and as a number.

    Attributes:
        dtype: its row of the table.
        number: name of the dtype that its elements have in the formula.
        access: elements of one load or store in a run of `width` elements, at most 16 bytes.
        repeated: True if one element stands for a whole row.
        counted: True if the operand is not in memory: its elements are the offsets themselves.
        as_it_is: True if a number consists of an element's bits, because conversions would not preserve all of them.
        itemsize: bytes from one element to the next; 1 for offsets.
    """

    __slots__ = ("access", "as_it_is", "counted", "dtype", "itemsize", "number", "repeated")

    def __init__(self, dtype: DTypeInfo, compute: str, width: int, repeated: bool, seen: str = ""):
        """`seen` is "counted", "kept", "index" (int64 independent of the compute dtype), or "" for all others."""
        self.dtype, self.repeated, self.counted = dtype, repeated, seen == "counted"
        self.itemsize = 1 if self.counted else dtype.itemsize
        self.as_it_is = seen == "kept" and dtype.is_converted
        own = f"uint{dtype.bits}" if self.as_it_is else str(dtype.number)
        # A bool stays a bool, and a complex number never becomes real.
        stays = own == "bool" or (dtype.parts == 2 and not compute.startswith("complex")) or compute == "bool"
        self.number = own if stays or seen == "kept" or not compute else compute
        if seen in ("counted", "index"):
            self.number = "int64"
        self.access = max(min(width, VECTOR_BYTES // dtype.itemsize), 1)


@lru_cache(maxsize=256)
def operands(
    dtypes: tuple[DTypeInfo, ...],
    lanes: int,
    width: int,
    compute: str = "",
    transposed: tuple[int, ...] = (),
    repeated: tuple[int, ...] = (),
    counted: tuple[int, ...] = (),
    indices: tuple[int, ...] = (),
    kept: tuple[int, ...] = (),
) -> SimpleNamespace:
    """Return the intrinsics of a kernel over arrays of these dtypes, one dtype per operand.

    Args:
        dtypes: rows of the dtype table; a single row stands for any number of operands.
        lanes: elements that one thread handles at once.
        width: consecutive elements in memory that it handles together, a power of two.
        compute: name of the dtype that elements are converted to; "" for each operand's own.
        transposed: the inputs that `stage` and `fetch` transpose.
        repeated: the inputs that are constant over all lanes.
        counted: the inputs whose elements are their offsets.
        indices: the inputs whose elements are int64.
        kept: as in `Formula`; `stage` and `fetch` do not transpose these inputs.

    Returns:
        a namespace of
        ``real``: Numba's type of the first operand's numbers; ``lanes``; ``width``;
        ``cell``: the type of one element in a tile of shared memory, as wide as the widest;
        ``unravel(index, shape)``: the coordinates of a C-ordered index;
        ``offsets(coordinates, strides)``: the element offset into each operand, given its strides;
        ``load(addresses, offsets)``, ``store(addresses, offsets, values)``: one number per operand;
        ``load_lanes(addresses, offsets, step)``, ``store_lanes(addresses, offsets, step, values)``: `lanes` numbers per
        operand, in runs of `width` that are `step` elements apart;
        ``load_some(addresses, offsets, step, count)``, ``store_some(addresses, offsets, step, values, count)``: the
        first `count` of `lanes` numbers that are `step` elements apart, at least one;
        ``load_uneven(addresses, offsets, step)``, ``store_uneven(addresses, offsets, step, values, thread)``: as
        `load_lanes`, for runs that may start anywhere. All threads of a warp call the latter, with adjacent runs;
        `thread` is their number in the warp;
        ``apply(formula, values, scalars)``, ``map_lanes(formula, values, scalars)``: the formula applied to one number
        per operand, or lane by lane; its results are a tuple;
        ``scalars(words)``: numbers passed at launch as 64-bit words, see `scalar_types`;
        ``stage(tile, column, row, addresses, offsets)``: copy an element of each transposed input to the tile;
        ``fetch(tile, column, row, addresses, offsets)``: one number per operand, read from the tile for transposed
        inputs;
        ``stage_lanes(tile, column, cell, addresses, offsets, strides)``: the same for a cell, `width` elements of a
        column, in `lanes` / `width` columns, TILE_STEP apart;
        ``load_down(addresses, offsets, strides)``, ``store_down(addresses, offsets, strides, values)``: `lanes` numbers
        of each operand, in blocks of `width` rows and columns; transposed inputs are not loaded;
        ``fetch_lanes(tile, column, cell, loaded)``: `lanes` numbers per operand, given the result of `load_down`.
    """
    seen = dict.fromkeys(kept, "kept") | dict.fromkeys(indices, "index") | dict.fromkeys(counted, "counted")
    found = tuple(Operand(dtype, compute, width, k in repeated, seen.get(k, "")) for k, dtype in enumerate(dtypes))
    widest = max((dtype for dtype in dtypes), key=lambda dtype: dtype.itemsize)
    return SimpleNamespace(
        real=getattr(types, "boolean" if found[0].number == "bool" else found[0].number),
        lanes=lanes,
        width=width,
        cell=_cell_type([each for k, each in enumerate(found) if k not in kept], width),
        cell_bytes=width * widest.itemsize,
        **make_accessors(found, lanes, width, transposed),
    )


def accessors(dtype: DTypeInfo, lanes: int, access_bytes: int) -> SimpleNamespace:
    """Return the `operands` of one dtype, in accesses of `access_bytes`."""
    return operands((dtype,), lanes, access_bytes // dtype.itemsize)


@lru_cache(maxsize=256)
def scalar_reader(names: tuple[str, ...]) -> Any:
    """Return the device function that converts the words of scalar arguments to numbers.

    Args:
        names: the numbers' dtypes. A 64-bit word holds one number, or one part of a complex number.
    """
    return make_scalar_reader(names)


@lru_cache(maxsize=1)
def splitter() -> Any:
    """Return the device function (number, outer, inner) -> the coordinates of a C-ordered index.

    The lengths are any, `outer` and `inner`. All values are less than 2^31, because 64-bit division takes several times
    as long.
    """
    unravel, none = operands((TABLE["uint8"],), 1, 1).unravel, np.int32(0)

    def split(number, outer, inner):
        first, second, third = unravel(np.int32(number), (none, np.int32(outer), np.int32(inner)))
        return np.int64(np.uint32(first)), np.int64(np.uint32(second)), np.int64(np.uint32(third))

    return cuda.jit(device=True)(split)


def _cell_type(rows: Sequence[Operand], width: int) -> Any:
    """Return the type of a tile's cells: `width` elements in the arrays' format; in the simulator, a number."""
    if SIMULATED:
        # For several dtypes, use one that can hold all of their numbers.
        (name, *others) = {row.number for row in rows}
        return getattr(types, str(np.result_type(name, *others)).replace("bool", "boolean"))
    nbytes = width * max(row.dtype.itemsize for row in rows)
    return types.complex128 if nbytes >= 16 else getattr(types, f"uint{8 * nbytes}")


if not SIMULATED:

    @intrinsic
    def _unravel(typing: Any, index: Any, shape: Any) -> Any:
        result = shape

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            rest, items = resized(builder, args[0], context.get_value_type(shape.dtype)), {}
            # Indices are not negative, so use unsigned division, which is cheaper.
            for d in reversed(range(1, len(shape))):
                n = builder.extract_value(args[1], d)
                quotient = builder.udiv(rest, n)
                items[d] = builder.sub(rest, builder.mul(quotient, n))
                rest = quotient
            items[0] = rest
            return aggregate(context, builder, result, items)

        return result(index, shape), generate

    @intrinsic
    def _offsets(typing: Any, coordinates: Any, steps: Any) -> Any:
        result = types.UniTuple(steps.dtype.dtype, len(steps))

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word, items = context.get_value_type(steps.dtype.dtype), {}
            for k in range(len(steps)):
                total = word(0)
                for d in range(len(coordinates)):
                    x = resized(builder, builder.extract_value(args[0], d), word)
                    step = builder.extract_value(args[1], (k, d))
                    total = builder.add(total, builder.mul(x, step, flags=NO_OVERFLOW), flags=NO_OVERFLOW)
                items[k] = total
            return aggregate(context, builder, result, items)

        return result(coordinates, steps), generate

    def call_of(formula: Any, typing: Any, numbers: Sequence[Any]) -> tuple[Any, Any]:
        """Return (signature of a formula's call with arguments of these types, the types of its results)."""
        call = formula.get_call_type(typing, tuple(numbers), {})
        result = call.return_type
        return call, tuple(result) if isinstance(result, types.BaseTuple) else (result,)

    def results_of(builder: Any, call: Any, answer: Any) -> list[Any]:
        """Return the numbers that such a call returns."""
        if not isinstance(call.return_type, types.BaseTuple):
            return [answer]
        return [builder.extract_value(answer, k) for k in range(len(call.return_type))]

    @intrinsic
    def _map_lanes(typing: Any, formula: Any, values: Any, scalars: Any) -> Any:
        lanes = len(values[0])
        call, results = call_of(formula, typing, [*(row.dtype for row in values), *scalars])
        result = types.Tuple([types.UniTuple(kind, lanes) for kind in results])

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            function, items = context.get_function(formula, call), {}
            more = [builder.extract_value(args[2], k) for k in range(len(scalars))]
            for lane in range(lanes):
                numbers = [builder.extract_value(args[1], (k, lane)) for k in range(len(values))]
                for k, number in enumerate(results_of(builder, call, function(builder, [*numbers, *more]))):
                    items[k, lane] = number
            return aggregate(context, builder, result, items)

        return result(formula, values, scalars), generate

    @intrinsic
    def _apply(typing: Any, formula: Any, values: Any, scalars: Any) -> Any:
        call, results = call_of(formula, typing, [*values, *scalars])
        result = types.Tuple(results)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            numbers = [builder.extract_value(args[1], k) for k in range(len(values))]
            numbers += [builder.extract_value(args[2], k) for k in range(len(scalars))]
            found = results_of(builder, call, context.get_function(formula, call)(builder, numbers))
            return aggregate(context, builder, result, dict(enumerate(found)))

        return result(formula, values, scalars), generate

    def make_scalar_reader(names: tuple[str, ...]) -> Any:
        kinds = [formats.numba_type(name) for name in names]

        @intrinsic
        def scalars(typing: Any, words: Any) -> Any:
            result = types.Tuple(kinds)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                found = iter(builder.extract_value(args[0], k) for k in range(len(words)))
                items = {k: formats.number_of_words(builder, TABLE[name], found) for k, name in enumerate(names)}
                return aggregate(context, builder, result, items)

            return result(words), generate

        return scalars

    def make_accessors(rows: tuple[Any, ...], lanes: int, width: int, transposed: tuple[int, ...]) -> dict[str, Any]:
        found = {"unravel": _unravel, "offsets": _offsets, "map_lanes": _map_lanes, "apply": _apply}
        found |= make_numbers(rows) | make_lanes(rows, lanes, width) | make_some(rows, lanes)
        found |= make_uneven(rows, lanes, width)
        return found | make_tiles(rows, lanes, width, transposed, TILE_STEP)
