"""Loads and stores of the kernels that normalize rows: of what a thread keeps in registers or in shared memory.

Each thread reads there only what it has put there itself, so that it waits for none. In Numba's simulator the same
names are plain Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from ...base._numba import SIMULATED, cuda, types
from ...base.dtypes import TABLE
from ...runtime.launch_order import VECTOR_BYTES
from ..primitives.operands import Operand
from .spec import RowSpec

if SIMULATED:
    from .simulated import kept_memory, make_keeping
else:
    from ...base._numba import intrinsic, ir
    from ..primitives import formats
    from ..primitives.formats import I32
    from ..primitives.instructions import copies_ahead, copy_ahead, tell_copies
    from ..primitives.load_store import address_of, aggregate, lanes_type, pointer_to, resized
    from ..primitives.runs import numbers_of, put_run, run_at

    I8 = ir.IntType(8)

    @cuda.jit(device=True)
    def kept_memory():
        """What the simulator's shared memory is passed on as; a GPU's has a name."""
        return 0

    def kept_place(builder: Any) -> Any:
        """The shared memory that a launch asks for."""
        module, name = builder.module, "numbacc_kept"
        if name in module.globals:
            return module.globals[name]
        memory = ir.GlobalVariable(module, ir.ArrayType(I8, 0), name, addrspace=3)
        memory.linkage, memory.align = "external", VECTOR_BYTES
        return memory


__all__ = ["keeping", "kept_memory"]


@lru_cache(maxsize=256)
def keeping(spec: RowSpec, runs: int) -> SimpleNamespace:
    """The intrinsics of a kernel that takes so many accesses at a time.

    Returns:
        a namespace of
        ``load(addresses, at, tile, slot, step)``: `runs` times `width` numbers of each input, given for each run the
        offsets into all; ``again``: the same, with what is kept out of the tile: access `slot` of it and the next of
        each input and run, `step` behind one another;
        ``bring(addresses, at, tile, slot, step)``: begin to copy there what is kept; ``arrived()``: until all of a
        thread's is there;
        ``first(addresses, at)``, ``rest(addresses, at)``: numbers of the inputs that are kept, and of the others;
        ``store(addresses, at, values, inside)``: as many numbers of each output, of the runs that are inside: one truth
        value for each, or one for all;
        ``note(addresses, at, values)``: one number of each of the last outputs, which have one a row; of those behind
        the first where that has one in all, which ``note_total`` stores.
    """
    reads, writes = (
        tuple(Operand(TABLE[name], compute, spec.width, False) for name in names)
        for names, compute in ((spec.reads, spec.compute), (spec.writes, ""))
    )
    return SimpleNamespace(**make_keeping(spec, reads, writes, runs))


if not SIMULATED:

    def make_keeping(spec: Any, reads: Sequence[Any], writes: Sequence[Any], runs: int) -> dict[str, Any]:
        width, kept, results = spec.width, spec.kept, len(spec.writes) - spec.stats

        def kept_at(builder: Any, args: Any, k: int, run: int, kind: Any) -> Any:
            """A pointer to what the tile has of a run of input k."""
            slot, step = (resized(builder, each, I32) for each in args[3:5])
            slot = builder.add(slot, builder.mul(step, I32(run * kept + k)))
            start = builder.gep(kept_place(builder), [I32(0), builder.mul(slot, I32(spec.access_bytes))])
            return builder.bitcast(start, ir.PointerType(kind, addrspace=3))

        def kind_of(operand: Any) -> Any:
            """The type of one access."""
            whole = formats.access_type(operand.dtype, width) if width > 1 else None
            return whole or formats.memory_type(operand.dtype)

        def bits_of(builder: Any, operand: Any, address: Any) -> Any:
            return builder.load(pointer_to(builder, address, kind_of(operand)), align=spec.access_bytes)

        def loaded(context: Any, builder: Any, which: Any, args: Any, get: Any) -> Any:
            """The numbers of these inputs, of each run; `get` brings those that are kept."""
            items: dict[Any, Any] = {}
            for run in range(runs):
                offsets = builder.extract_value(args[1], run)
                for k in which:
                    operand = reads[k]
                    address = address_of(builder, (args[0], offsets), k, operand.dtype.itemsize)
                    if k >= kept:
                        numbers = run_at(context, builder, operand, address, width, False)
                    else:
                        numbers = numbers_of(context, builder, operand, get(operand, address, k, run), width)
                    items |= {(k - which.start, run * width + j): number for j, number in enumerate(numbers)}
            return aggregate(context, builder, lanes_of(which), items)

        def lanes_of(which: Any) -> Any:
            chosen = [reads[k] for k in which]
            return lanes_type(chosen, len(chosen), runs * width)

        def loading(takes: bool) -> Any:
            every = range(len(reads))

            @intrinsic
            def load(typing: Any, addresses: Any, at: Any, tile: Any, slot: Any, step: Any) -> Any:
                def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                    def get(operand: Any, address: Any, k: int, run: int) -> Any:
                        if takes:
                            return builder.load(kept_at(builder, args, k, run, kind_of(operand)))
                        return bits_of(builder, operand, address)

                    return loaded(context, builder, every, args, get)

                return lanes_of(every)(addresses, at, tile, slot, step), generate

            return load

        @intrinsic
        def bring(typing: Any, addresses: Any, at: Any, tile: Any, slot: Any, step: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                found = []
                for run in range(runs):
                    offsets = builder.extract_value(args[1], run)
                    for k, operand in enumerate(reads[:kept]):
                        address = address_of(builder, (args[0], offsets), k, operand.dtype.itemsize)
                        target = kept_at(builder, args, k, run, kind_of(operand))
                        if copies_ahead(spec.access_bytes):
                            copy_ahead(builder, address, target, spec.access_bytes)
                        else:
                            found.append((bits_of(builder, operand, address), target))
                for bits, target in found:
                    builder.store(bits, target)
                return context.get_dummy_value()

            return types.void(addresses, at, tile, slot, step), generate

        @intrinsic
        def arrived(typing: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                if copies_ahead(spec.access_bytes):
                    tell_copies(builder, "cp.async.wait_all;")
                return context.get_dummy_value()

            return types.void(), generate

        def loading_some(which: range) -> Any:
            @intrinsic
            def load(typing: Any, addresses: Any, at: Any) -> Any:
                def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                    def get(operand: Any, address: Any, k: int, run: int) -> Any:
                        return bits_of(builder, operand, address)

                    return loaded(context, builder, which, args, get)

                return lanes_of(which)(addresses, at), generate

            return load

        @intrinsic
        def store(typing: Any, addresses: Any, at: Any, values: Any, inside: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                for part in range(len(inside)):
                    with builder.if_then(builder.extract_value(args[3], part)):
                        for run in range(part, part + 1 if len(inside) > 1 else runs):
                            offsets = builder.extract_value(args[1], run)
                            for k, operand in enumerate(writes[:results]):
                                address = address_of(builder, (args[0], offsets), k, operand.dtype.itemsize)
                                lanes = [builder.extract_value(args[2], (k, run * width + j)) for j in range(width)]
                                put_run(context, builder, operand, values[k].dtype, address, lanes)
                return context.get_dummy_value()

            return types.void(addresses, at, values, inside), generate

        def noting(which: range) -> Any:
            @intrinsic
            def note(typing: Any, addresses: Any, at: Any, values: Any) -> Any:
                def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                    for k in which:
                        dtype, number = writes[k].dtype, builder.extract_value(args[2], k - results)
                        bits = formats.narrow(context, builder, dtype, values[k - results], number)
                        pointer = pointer_to(builder, address_of(builder, args, k, dtype.itemsize), bits.type)
                        builder.store(bits, pointer, align=dtype.itemsize)
                    return context.get_dummy_value()

                return types.void(addresses, at, values), generate

            return note

        return {
            "load": loading(False),
            "again": loading(True),
            "bring": bring,
            "arrived": arrived,
            "first": loading_some(range(kept)),
            "rest": loading_some(range(kept, len(reads))),
            "store": store,
            "note": noting(range(results + (spec.total is not None), len(writes))),
            "note_total": noting(range(results, results + 1)),
        }
