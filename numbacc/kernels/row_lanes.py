"""Loads and stores of the kernels that normalize rows: of what a thread keeps in shared memory from stage to stage.

Each thread reads there only what it has put there itself, so that it waits for none. In Numba's simulator the same
names are plain Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from ..base._numba import SIMULATED, types
from ..base.dtypes import TABLE
from .intrinsics import Operand
from .specs import KEPT_BYTES, VECTOR_BYTES, RowSpec

if SIMULATED:
    from .simulated_folds import make_keeping
else:
    from ..base._numba import intrinsic, ir
    from . import formats
    from .access import address_of, aggregate, lanes_type, pointer_to, resized
    from .fold_lanes import numbers_of, run_at
    from .formats import I64

    I8 = ir.IntType(8)


@lru_cache(maxsize=256)
def keeping(spec: RowSpec, runs: int) -> SimpleNamespace:
    """The intrinsics of a kernel that takes so many accesses at a time.

    Returns:
        a namespace of
        ``load(addresses, at, tile, slot, step)``: `runs` times `width` numbers of each input, given for each run the
        offsets into all; ``keep``: the same, and what is kept is put in the tile, a run into `slot`, the next `step`
        behind; ``again``: the same from there;
        ``store(addresses, at, values)``: as many numbers of each output; ``note(addresses, at, values)``: one number of
        each of the last outputs, which have one a row;
        ``tile``, ``cell``: how many cells the tile has, and their type.
    """
    reads, writes = (
        tuple(Operand(TABLE[name], compute, spec.width, False) for name in names)
        for names, compute in ((spec.reads, spec.compute), (spec.writes, ""))
    )
    cells = KEPT_BYTES // (spec.access_bytes if SIMULATED else VECTOR_BYTES)
    made = make_keeping(spec, reads, writes, runs, KEPT_BYTES // spec.access_bytes // spec.kept)
    return SimpleNamespace(tile=cells, cell=object if SIMULATED else types.complex128, **made)


if not SIMULATED:

    def make_keeping(spec: Any, reads: Sequence[Any], writes: Sequence[Any], runs: int, most: int) -> dict[str, Any]:
        width, results = spec.width, len(spec.writes) - spec.stats

        def kept_at(context: Any, builder: Any, tile: Any, args: Any, k: int, run: int, kind: Any) -> Any:
            """A pointer to what the tile has of a run of input k."""
            array = context.make_array(tile)(context, builder, args[2])
            slot, step = (resized(builder, each, I64) for each in args[3:5])
            slot = builder.add(slot, builder.mul(step, I64(run)))
            at = builder.mul(builder.add(slot, I64(k * most)), I64(spec.access_bytes))
            start = builder.gep(builder.bitcast(array.data, I8.as_pointer()), [at])
            return builder.bitcast(start, kind.as_pointer())

        def loading(puts: bool, takes: bool) -> Any:
            @intrinsic
            def load(typing: Any, addresses: Any, at: Any, tile: Any, slot: Any, step: Any) -> Any:
                result = lanes_type(reads, len(reads), runs * width)

                def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                    items: dict[Any, Any] = {}
                    for run in range(runs):
                        offsets = builder.extract_value(args[1], run)
                        for k, operand in enumerate(reads):
                            address = address_of(builder, (args[0], offsets), k, operand.dtype.itemsize)
                            whole = formats.access_type(operand.dtype, width) if width > 1 else None
                            kind = whole or formats.memory_type(operand.dtype)
                            if k >= spec.kept:
                                numbers = run_at(context, builder, operand, address, width, False)
                            elif takes:
                                bits = builder.load(kept_at(context, builder, tile, args, k, run, kind))
                                numbers = numbers_of(context, builder, operand, bits, width)
                            else:
                                bits = builder.load(pointer_to(builder, address, kind), align=spec.access_bytes)
                                if puts:
                                    builder.store(bits, kept_at(context, builder, tile, args, k, run, kind))
                                numbers = numbers_of(context, builder, operand, bits, width)
                            items |= {(k, run * width + lane): number for lane, number in enumerate(numbers)}
                    return aggregate(context, builder, result, items)

                return result(addresses, at, tile, slot, step), generate

            return load

        @intrinsic
        def store(typing: Any, addresses: Any, at: Any, values: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                for run in range(runs):
                    offsets = builder.extract_value(args[1], run)
                    for k, operand in enumerate(writes[:results]):
                        dtype, kind = operand.dtype, values[k].dtype
                        address = address_of(builder, (args[0], offsets), k, dtype.itemsize)
                        for start in range(0, width, operand.access):
                            first = run * width + start
                            lanes = [builder.extract_value(args[2], (k, first + j)) for j in range(operand.access)]
                            if operand.access == 1:
                                bits = formats.narrow(context, builder, dtype, kind, lanes[0])
                            else:
                                bits = formats.pack(context, builder, dtype, kind, lanes)
                            place = builder.add(address, I64(start * dtype.itemsize))
                            nbytes = operand.access * dtype.itemsize
                            builder.store(bits, pointer_to(builder, place, bits.type), align=nbytes)
                return context.get_dummy_value()

            return types.void(addresses, at, values), generate

        @intrinsic
        def note(typing: Any, addresses: Any, at: Any, values: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                for k in range(results, len(writes)):
                    dtype, number = writes[k].dtype, builder.extract_value(args[2], k - results)
                    bits = formats.narrow(context, builder, dtype, values[k - results], number)
                    pointer = pointer_to(builder, address_of(builder, args, k, dtype.itemsize), bits.type)
                    builder.store(bits, pointer, align=dtype.itemsize)
                return context.get_dummy_value()

            return types.void(addresses, at, values), generate

        return {
            "load": loading(False, False),
            "keep": loading(True, False),
            "again": loading(False, True),
            "store": store,
            "note": note,
        }
