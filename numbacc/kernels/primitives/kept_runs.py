"""Loads and stores of several accesses at once, and elements that a thread keeps in registers or in shared memory.

A thread reads only what it has stored itself, so it waits for no other thread. In Numba's simulator the same names are
plain Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import SIMULATED, types
from ...base.casts import cast, quietly
from ...base.dtypes import TABLE
from .operands import Operand

if SIMULATED:
    from .runs import numbers_at
    from .simulated import _element
else:
    from ...base._numba import intrinsic
    from . import formats
    from .formats import I32
    from .instructions import copies_ahead, copy_ahead, kept_pointer, tell_copies
    from .load_store import address_of, aggregate, lanes_type, pointer_to, resized
    from .runs import numbers_of, put_run, run_at

__all__ = ["kept_runs"]


@lru_cache(maxsize=256)
def kept_runs(
    reads: tuple[str, ...], writes: tuple[str, ...], compute: str, width: int, runs: int, kept: int, stats: int,
    is_totalled: bool,
) -> SimpleNamespace:  # fmt: skip
    """Return the intrinsics of a kernel that makes `runs` accesses of `width` elements at a time.

    Args:
        reads, writes: names of the inputs' and outputs' dtypes.
        compute: name of the dtype that elements are converted to.
        width, runs: see above.
        kept: number of inputs, counted from the first, that are kept. Their elements have the same size.
        stats: number of outputs, counted from the last, that have one element per row.
        is_totalled: True if the first of these has a single element.

    Returns:
        a namespace of
        ``load(addresses, at, tile, slot, step)``: `runs` times `width` elements of each input, given the offsets into
        all inputs for each run; ``again``: the same, but kept inputs are read from the tile, at access `slot` and
        further ones, `step` apart, for each input and run;
        ``bring(addresses, at, tile, slot, step)``: start to copy the kept inputs there; ``arrived()``: wait until all
        of a thread's copies are complete;
        ``first(addresses, at)``, ``rest(addresses, at)``: elements of the kept inputs, and of the others;
        ``store(addresses, at, values, inside)``: store as many elements of each output, for runs that are inside;
        `inside` has one bool for each run, or one for all;
        ``note(addresses, at, values)``: store one element of each output with one element per row, except the first of
        them if that has a single element, which ``note_total`` stores.
    """
    loaded = tuple(Operand(TABLE[name], compute, width, False) for name in reads)
    stored = tuple(Operand(TABLE[name], "", width, False) for name in writes)
    return SimpleNamespace(**make_kept(loaded, stored, width, runs, kept, len(writes) - stats, is_totalled))


if SIMULATED:
    #: The shared memory of rows that are kept in registers: none.
    _NOTHING = np.empty(0, np.uint8)

    def make_kept(
        reads: Sequence[Any], writes: Sequence[Any], width: int, runs: int, kept: int, results: int, is_totalled: bool
    ) -> dict[str, Any]:
        """Return the functions of `kept_runs`."""
        access_bytes = width * reads[0].dtype.itemsize

        def kept_at(tile: Any, slot: int, step: int, k: int, run: int, operand: Any) -> Any:
            """Return the tile's part for a run of input k."""
            start = (slot + (run * kept + k) * step) * access_bytes
            return tile[start : start + access_bytes].view(operand.dtype.numpy)

        def bring(addresses: Any, at: Any, tile: Any, slot: int, step: int) -> None:
            for run, offsets in enumerate(at):
                for k, operand in enumerate(reads[:kept]):
                    source = _element(addresses[k], offsets[k], operand.dtype, width, False)
                    kept_at(tile, slot, step, k, run, operand)[:] = source

        def loading(which: range, takes: bool = False) -> Any:
            def load(addresses: Any, at: Any, tile: Any = _NOTHING, slot: int = 0, step: int = 0) -> Any:
                found: list[list[Any]] = [[] for _ in which]
                for run, offsets in enumerate(at):
                    for k, operand in enumerate(reads):
                        if k not in which:
                            continue
                        if takes and k < kept:
                            cell = kept_at(tile, slot, step, k, run, operand)
                            values = [cast(value, np.dtype(operand.number))[()] for value in cell]
                        else:
                            values = numbers_at(operand, addresses[k], offsets[k], width, False)
                        found[k - which.start] += values
                return tuple(map(tuple, found))

            return load

        def put(address: int, offset: int, dtype: Any, values: Sequence[Any]) -> None:
            target = _element(address, offset, dtype, len(values), True)
            with quietly():
                target[...] = cast(np.asarray(values), target.dtype)

        def store(addresses: Any, at: Any, values: Any, inside: Any) -> None:
            for run, offsets in enumerate(at):
                for k, operand in enumerate(writes[:results]):
                    for start in range(0, width, operand.access):
                        first = run * width + start
                        if inside[run if len(inside) > 1 else 0]:
                            own = values[k][first : first + operand.access]
                            put(addresses[k], offsets[k] + start, operand.dtype, own)

        def noting(which: range) -> Any:
            def note(addresses: Any, at: Any, values: Any) -> None:
                for k in which:
                    put(addresses[k], at[k], writes[k].dtype, values[k - results : k - results + 1])

            return note

        every = range(len(reads))
        return {
            "load": loading(every),
            "again": loading(every, takes=True),
            "bring": bring,
            "arrived": lambda: None,
            "first": loading(range(kept)),
            "rest": loading(range(kept, len(reads))),
            "store": store,
            "note": noting(range(results + is_totalled, len(writes))),
            "note_total": noting(range(results, results + 1)),
        }

else:

    def make_kept(
        reads: Sequence[Any], writes: Sequence[Any], width: int, runs: int, kept: int, results: int, is_totalled: bool
    ) -> dict[str, Any]:
        access_bytes = width * reads[0].dtype.itemsize

        def kept_at(builder: Any, args: Any, k: int, run: int, kind: Any) -> Any:
            """Return a pointer to the tile's part for a run of input k."""
            slot, step = (resized(builder, each, I32) for each in args[3:5])
            slot = builder.add(slot, builder.mul(step, I32(run * kept + k)))
            return kept_pointer(builder, builder.mul(slot, I32(access_bytes)), kind)

        def kind_of(operand: Any) -> Any:
            """Return the type of one access."""
            return formats.moved_type(operand.dtype, width)

        def bits_of(builder: Any, operand: Any, address: Any) -> Any:
            return builder.load(pointer_to(builder, address, kind_of(operand)), align=access_bytes)

        def loaded(context: Any, builder: Any, which: Any, args: Any, get: Any) -> Any:
            """Return the elements of these inputs for each run; `get` loads the elements of kept inputs."""
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
                        if copies_ahead(access_bytes):
                            copy_ahead(builder, address, target, access_bytes)
                        else:
                            found.append((bits_of(builder, operand, address), target))
                for bits, target in found:
                    builder.store(bits, target)
                return context.get_dummy_value()

            return types.void(addresses, at, tile, slot, step), generate

        @intrinsic
        def arrived(typing: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                if copies_ahead(access_bytes):
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
            "note": noting(range(results + is_totalled, len(writes))),
            "note_total": noting(range(results, results + 1)),
        }
