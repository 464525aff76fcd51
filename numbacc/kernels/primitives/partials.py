"""The partial results of reductions: computed from elements, merged among lanes and in shared memory, and finished.

A lane is one of the elements that a thread loads at once. `parts` is a tuple with one tuple for each value of a partial
result, which holds this value in all lanes. In Numba's simulator the same names are plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import SIMULATED, types
from ...base.dtypes import TABLE


def parts_intrinsics(names: Sequence[str], starts: Sequence[Any], count: str) -> SimpleNamespace:
    """Return the intrinsics for the partial results of a reduction.

    Args:
        names: the dtypes of a partial result's values.
        starts: the partial result of no elements.
        count: name of the dtype of the count that `finish` receives.

    Returns:
        a namespace of
        ``start(lanes)()``: the partial results of no elements, in this many lanes;
        ``first(function, values, scalars)``: the partial results of elements, lane by lane;
        ``reduce_lanes(lanes)(merge, parts)``: lanes merged to this many, with adjacent lanes merged last;
        ``reduce_some(merge, parts, inside)``: equally long runs of lanes merged to one, if the run is inside;
        ``join(merge, parts, others)``: two sets merged lane by lane;
        ``put(cells, lane, thread, parts)``, ``take(cells, lane, thread)``: store to shared memory, starting at this
        lane, and load a single lane from there;
        ``gain(merge, cells, thread, parts)``: merge into shared memory, starting at the first lane;
        ``finish(function, parts, count, scalars)``: the final results of the first lane;
        ``cell``: the type of a cell of shared memory;
        ``names``, ``starts``, ``count``: as given.
    """
    size = max(TABLE[name].itemsize for name in names)
    cell = object if SIMULATED else types.complex128 if size > 8 else types.uint64 if size > 4 else types.uint32
    return SimpleNamespace(
        cell=cell, names=tuple(names), starts=starts, count=count, **make_parts(names, starts, count)
    )


if SIMULATED:
    from ...base.casts import cast
    from .simulated import _apply

    def make_parts(names: Sequence[str], starts: Sequence[Any], count: str) -> dict[str, Any]:
        """Return the functions of `parts_intrinsics`."""
        dtypes = [np.dtype(name) for name in names]

        def called(formula: Callable[..., Any], numbers: Sequence[Any], scalars: Sequence[Any] = ()) -> tuple[Any, ...]:
            found = _apply(formula, tuple(numbers), tuple(scalars))
            return tuple([number(value, dtype) for value, dtype in zip(found, dtypes, strict=True)])

        def number(value: Any, dtype: Any) -> Any:
            return value if getattr(value, "dtype", None) is dtype and not value.ndim else cast(value, dtype)[()]

        def by_part(lanes: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], ...]:
            return tuple(zip(*lanes, strict=True))

        def by_lane(parts: Any) -> list[tuple[Any, ...]]:
            return list(zip(*parts, strict=True))

        def start(lanes: int) -> Any:
            return lambda: by_part([tuple(starts)] * lanes)

        def first(function: Any, values: Any, scalars: Any) -> Any:
            if function is None:
                return values
            return by_part([called(function, numbers, scalars) for numbers in by_lane(values)])

        def join(merge: Any, parts: Any, others: Any) -> Any:
            pairs = zip(by_lane(parts), by_lane(others), strict=True)
            return by_part([called(merge, one + other) for one, other in pairs])

        def merged(merge: Any, numbers: list[tuple[Any, ...]]) -> tuple[Any, ...]:
            if len(numbers) == 1:
                return numbers[0]
            return called(merge, merged(merge, numbers[::2]) + merged(merge, numbers[1::2]))

        def reduce_lanes(lanes: int) -> Any:
            def reduced(merge: Any, parts: Any) -> Any:
                found = by_lane(parts)
                return by_part([merged(merge, found[lane::lanes]) for lane in range(lanes)])

            return reduced

        def reduce_some(merge: Any, parts: Any, inside: Any) -> Any:
            found = by_lane(parts)
            each = len(found) // len(inside)
            runs = [merged(merge, found[run * each : (run + 1) * each]) for run in range(len(inside))]
            return by_part(
                [merged(merge, [run if is_in else tuple(starts) for run, is_in in zip(runs, inside, strict=True)])]
            )

        def put(cells: Any, lane: int, thread: int, parts: Any) -> None:
            for k, numbers in enumerate(by_lane(parts)):
                cells[lane + k, thread] = numbers

        def take(cells: Any, lane: int, thread: int) -> Any:
            return by_part([cells[lane, thread]])

        def gain(merge: Any, cells: Any, thread: int, parts: Any) -> None:
            for lane, numbers in enumerate(by_lane(parts)):
                cells[lane, thread] = called(merge, cells[lane, thread] + numbers)

        def finish(function: Any, parts: Any, number: int, scalars: Any) -> Any:
            own = tuple(part[0] for part in parts)
            return own if function is None else _apply(function, (*own, cast(number, np.dtype(count))[()]), scalars)

        return {
            "tools": SimpleNamespace(called=called, by_part=by_part, by_lane=by_lane, starts=tuple(starts)),
            "start": start,
            "first": first,
            "reduce_lanes": reduce_lanes,
            "reduce_some": reduce_some,
            "join": join,
            "put": put,
            "gain": gain,
            "take": take,
            "finish": finish,
        }

else:
    from ...base._numba import intrinsic, ir
    from .casts import converted
    from .formats import I64, numba_type
    from .load_store import aggregate, resized

    I1, I8 = ir.IntType(1), ir.IntType(8)

    def make_parts(names: Sequence[str], starts: Sequence[Any], count: str) -> dict[str, Any]:
        kinds = [numba_type(name) for name in names]

        def parts_type(lanes: int) -> Any:
            return types.Tuple([types.UniTuple(kind, lanes) for kind in kinds])

        def constants(context: Any, builder: Any) -> list[Any]:
            return [
                context.get_constant_generic(builder, kind, value.item())
                for kind, value in zip(kinds, starts, strict=True)
            ]

        def unpacked(builder: Any, parts: Any, lanes: int) -> list[list[Any]]:
            """Return the partial result of each lane."""
            return [[builder.extract_value(parts, (p, lane)) for p in range(len(kinds))] for lane in range(lanes)]

        def packed(context: Any, builder: Any, lanes: list[list[Any]]) -> Any:
            items = {(p, lane): number for lane, numbers in enumerate(lanes) for p, number in enumerate(numbers)}
            return aggregate(context, builder, parts_type(len(lanes)), items)

        def called(context: Any, builder: Any, formula: Any, call: Any, numbers: list[Any]) -> list[Any]:
            """Return the partial result that a formula returns."""
            answer, result = context.get_function(formula, call)(builder, numbers), call.return_type
            if not isinstance(result, types.BaseTuple):
                return [converted(context, builder, answer, result, kinds[0])]
            found = [builder.extract_value(answer, p) for p in range(len(result))]
            return [converted(context, builder, *each) for each in zip(found, result, kinds, strict=True)]

        def start(lanes: int) -> Any:
            @intrinsic
            def nothing(typing: Any) -> Any:
                def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                    return packed(context, builder, [constants(context, builder)] * lanes)

                return parts_type(lanes)(), generate

            return nothing

        @intrinsic
        def first(typing: Any, function: Any, values: Any, scalars: Any) -> Any:
            lanes = len(values[0])
            call = None
            if not isinstance(function, types.NoneType):
                call = function.get_call_type(typing, (*(row.dtype for row in values), *scalars), {})

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                if call is None:  # the values are partial results
                    return args[1]
                more, found = [builder.extract_value(args[2], k) for k in range(len(scalars))], []
                for lane in range(lanes):
                    numbers = [builder.extract_value(args[1], (k, lane)) for k in range(len(values))]
                    found.append(called(context, builder, function, call, [*numbers, *more]))
                return packed(context, builder, found)

            return parts_type(lanes)(function, values, scalars), generate

        def merging(typing: Any, merge: Any) -> Any:
            return merge.get_call_type(typing, (*kinds, *kinds), {})

        def merged(context: Any, builder: Any, merge: Any, call: Any, numbers: list[list[Any]]) -> list[Any]:
            """Return partial results merged in a tree, branch by branch, so that few are held in registers."""
            if len(numbers) == 1:
                return numbers[0]
            one, other = (merged(context, builder, merge, call, each) for each in (numbers[::2], numbers[1::2]))
            return called(context, builder, merge, call, [*one, *other])

        def reduce_lanes(lanes: int) -> Any:
            @intrinsic
            def reduced(typing: Any, merge: Any, parts: Any) -> Any:
                call = merging(typing, merge)

                def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                    found = unpacked(builder, args[1], len(parts[0]))
                    ends = [merged(context, builder, merge, call, found[lane::lanes]) for lane in range(lanes)]
                    return packed(context, builder, ends)

                return parts_type(lanes)(merge, parts), generate

            return reduced

        @intrinsic
        def reduce_some(typing: Any, merge: Any, parts: Any, inside: Any) -> Any:
            call, each = merging(typing, merge), len(parts[0]) // len(inside)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                found, nothing = unpacked(builder, args[1], len(parts[0])), constants(context, builder)
                ends = []
                for run in range(len(inside)):
                    own = merged(context, builder, merge, call, found[run * each : (run + 1) * each])
                    is_in = builder.extract_value(args[2], run)
                    ends.append([builder.select(is_in, *both) for both in zip(own, nothing, strict=True)])
                return packed(context, builder, [merged(context, builder, merge, call, ends)])

            return parts_type(1)(merge, parts, inside), generate

        @intrinsic
        def join(typing: Any, merge: Any, parts: Any, others: Any) -> Any:
            call, lanes = merging(typing, merge), len(parts[0])

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                pairs = zip(unpacked(builder, args[1], lanes), unpacked(builder, args[2], lanes), strict=True)
                found = [called(context, builder, merge, call, [*one, *other]) for one, other in pairs]
                return packed(context, builder, found)

            return parts(merge, parts, others), generate

        def cell(context: Any, builder: Any, cells: Any, args: Any, part: int, kind: Any) -> Any:
            """Return a pointer to a value in shared memory; lane and thread follow the cells in `args`."""
            array = context.make_array(cells)(context, builder, args[0])
            lanes = builder.sdiv(builder.extract_value(array.shape, 0), I64(len(kinds)))
            lane, thread = (resized(builder, each, I64) for each in args[1:3])
            slot = builder.add(builder.mul(I64(part), lanes), lane)
            threads = builder.extract_value(array.shape, 1)
            pointer = builder.gep(array.data, [builder.add(builder.mul(slot, threads), thread)])
            return builder.bitcast(pointer, kind.as_pointer())

        def given(context: Any, builder: Any, cells: Any, at: Any, numbers: list[Any]) -> None:
            for p, number in enumerate(numbers):
                value = builder.zext(number, I8) if number.type == I1 else number
                builder.store(value, cell(context, builder, cells, at, p, value.type))

        @intrinsic
        def put(typing: Any, cells: Any, lane: Any, thread: Any, parts: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                for k, numbers in enumerate(unpacked(builder, args[3], len(parts[0]))):
                    at = (args[0], builder.add(resized(builder, args[1], I64), I64(k)), args[2])
                    given(context, builder, cells, at, numbers)
                return context.get_dummy_value()

            return types.void(cells, lane, thread, parts), generate

        def taken(context: Any, builder: Any, cells: Any, at: Any) -> list[Any]:
            found = []
            for p, kind in enumerate(kinds):
                stored = I8 if kind == types.boolean else context.get_value_type(kind)
                value = builder.load(cell(context, builder, cells, at, p, stored))
                found.append(builder.trunc(value, I1) if kind == types.boolean else value)
            return found

        @intrinsic
        def take(typing: Any, cells: Any, lane: Any, thread: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                return packed(context, builder, [taken(context, builder, cells, args)])

            return parts_type(1)(cells, lane, thread), generate

        @intrinsic
        def gain(typing: Any, merge: Any, cells: Any, thread: Any, parts: Any) -> Any:
            call = merging(typing, merge)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                for lane, numbers in enumerate(unpacked(builder, args[3], len(parts[0]))):
                    at = (args[1], I64(lane), args[2])
                    both = [*taken(context, builder, cells, at), *numbers]
                    given(context, builder, cells, at, called(context, builder, merge, call, both))
                return context.get_dummy_value()

            return types.void(merge, cells, thread, parts), generate

        @intrinsic
        def finish(typing: Any, function: Any, parts: Any, count: Any, scalars: Any) -> Any:
            real = numba_type(counted)
            call = None
            if not isinstance(function, types.NoneType):
                call = function.get_call_type(typing, (*kinds, real, *scalars), {})
            answer = types.Tuple(kinds) if call is None else call.return_type
            result = answer if isinstance(answer, types.BaseTuple) else types.Tuple([answer])

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                numbers = [builder.extract_value(args[1], (p, 0)) for p in range(len(kinds))]
                if call is not None:
                    numbers.append(converted(context, builder, args[2], count, real))
                    numbers += [builder.extract_value(args[3], k) for k in range(len(scalars))]
                    found = context.get_function(function, call)(builder, numbers)
                    if isinstance(answer, types.BaseTuple):
                        return found
                    numbers = [found]
                return aggregate(context, builder, result, dict(enumerate(numbers)))

            return result(function, parts, count, scalars), generate

        counted = count

        return {
            # Other intrinsics for partial results use these.
            "tools": SimpleNamespace(
                parts_type=parts_type,
                constants=constants,
                unpacked=unpacked,
                packed=packed,
                called=called,
                merging=merging,
                taken=taken,
            ),
            "start": start,
            "first": first,
            "reduce_lanes": reduce_lanes,
            "reduce_some": reduce_some,
            "join": join,
            "put": put,
            "gain": gain,
            "take": take,
            "finish": finish,
        }
