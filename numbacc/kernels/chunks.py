"""Parts of several elements made together: see `formula.Chunk`, `formula.Place`. In Numba's simulator the same is plain
Python."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from ..base._numba import SIMULATED, cuda, types
from .formula import Chunk, Place
from .specialize import specialize

if SIMULATED:
    from .simulated_folds import make_chunks, make_places
else:
    from ..base._numba import intrinsic, ir
    from .access import aggregate, resized
    from .casts import converted
    from .fold_lanes import I1
    from .formats import I32, numba_type


def chunked(chunk: Chunk, compute: str, narrow: bool, parts: Sequence[str], starts: Sequence[Any], count: str) -> Any:
    """The function (lanes) -> the device function (values, scalars) -> the parts of all values, in so many lanes.

    Args:
        chunk: what makes them.
        compute, narrow: as in `specialize`.
        parts, starts, count: as in `fold_lanes.parts_intrinsics`.
    """
    functions = SimpleNamespace(
        **{name: specialize(each, compute, narrow) for name, each in chunk._asdict().items()},
    )
    make = make_chunks(parts, starts, count)

    def fold(lanes: int) -> Any:
        folded = make(lanes)
        first, merge_first, middle = functions.first, functions.merge_first, functions.middle
        second, merge_second, finish = functions.second, functions.merge_second, functions.finish

        def of_some(values, scalars):
            return folded(first, merge_first, middle, second, merge_second, finish, values, scalars)

        return cuda.jit(device=True)(of_some)

    return fold


def finding(place: Place, compute: str, narrow: bool, parts: SimpleNamespace) -> Any:
    """The function (lanes, width) -> the device function (values, step) -> the parts of all values, in so many lanes: a
    number and its index. Values are runs of `width`, whose indices are `step` apart.

    Args:
        place: what finds them.
        compute, narrow: as in `specialize`.
        parts: `fold_lanes.parts_intrinsics`.
    """
    best, places = specialize(place.best, compute, narrow), make_places(parts.names)
    has_nan = places.has_nan

    def find(lanes: int, width: int) -> Any:
        equal, nan = places.among(lanes, width)

        def of_some(values, step):
            found = equal(best, values, step)
            if has_nan(found):
                # It equals nothing.
                found = nan(found, values, step)
            return found

        return cuda.jit(device=True)(of_some)

    return find


if not SIMULATED:

    class Call:
        """A formula's call with numbers of given types."""

        def __init__(self, typing: Any, formula: Any, given: Sequence[Any]):
            self.formula, self.call = formula, formula.get_call_type(typing, tuple(given), {})
            self.kinds = tuple(self.call.return_type)

        def __call__(self, context: Any, builder: Any, numbers: Sequence[Any]) -> list[Any]:
            found = context.get_function(self.formula, self.call)(builder, list(numbers))
            return [builder.extract_value(found, k) for k in range(len(self.kinds))]

    def tree(context: Any, builder: Any, merge: Call, rows: list[list[Any]]) -> list[Any]:
        """Merged in a tree, branch by branch; of an odd number as it comes."""
        if len(rows) == 1:
            return rows[0]
        one, other = (tree(context, builder, merge, each) for each in (rows[::2], rows[1::2]))
        return merge(context, builder, [*one, *other])

    def make_chunks(names: Sequence[str], starts: Sequence[Any], count: str) -> Any:
        kinds, real = [numba_type(name) for name in names], numba_type(count)

        def make(lanes: int) -> Any:
            @intrinsic
            def folded(
                typing: Any, first: Any, merge_first: Any, middle: Any, second: Any, merge_second: Any, finish: Any,
                values: Any, scalars: Any,
            ) -> Any:  # fmt: skip
                numbers = [row.dtype for row in values]
                begin = Call(typing, first, [*numbers, *scalars])
                merging = Call(typing, merge_first, begin.kinds * 2)
                between = Call(typing, middle, [*begin.kinds, real])
                go_on = Call(typing, second, [*numbers, *between.kinds, *kinds])
                merging_on = Call(typing, merge_second, go_on.kinds * 2)
                end = Call(typing, finish, [*between.kinds, *go_on.kinds, real])
                every = len(values[0])
                result = types.Tuple([types.UniTuple(kind, lanes) for kind in kinds])

                def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                    given, more = args[6], [builder.extract_value(args[7], k) for k in range(len(scalars))]
                    nothing = [
                        context.get_constant_generic(builder, kind, start.item())
                        for kind, start in zip(kinds, starts, strict=True)
                    ]
                    how_many, items = context.get_constant_generic(builder, real, every // lanes), {}
                    for lane in range(lanes):
                        rows = [
                            [builder.extract_value(given, (k, j)) for k in range(len(values))]
                            for j in range(lane, every, lanes)
                        ]
                        firsts = [begin(context, builder, [*row, *more]) for row in rows]
                        whole = tree(context, builder, merging, firsts)
                        known = between(context, builder, [*whole, how_many])
                        seconds = [go_on(context, builder, [*row, *known, *nothing]) for row in rows]
                        whole = tree(context, builder, merging_on, seconds)
                        found = end(context, builder, [*known, *whole, how_many])
                        for p, (number, kind, wanted) in enumerate(zip(found, end.kinds, kinds, strict=True)):
                            items[p, lane] = converted(context, builder, number, kind, wanted)
                    return aggregate(context, builder, result, items)

                call = result(first, merge_first, middle, second, merge_second, finish, values, scalars)
                return call, generate

            return folded

        return make

    def make_places(names: Sequence[str]) -> SimpleNamespace:
        kind, index = map(numba_type, names)

        def is_nan(builder: Any, x: Any) -> Any:
            return I1(0) if isinstance(x.type, ir.IntType) else builder.fcmp_unordered("uno", x, x)

        def is_equal(builder: Any, x: Any, y: Any) -> Any:
            compare = builder.icmp_signed if isinstance(x.type, ir.IntType) else builder.fcmp_ordered
            return compare("==", x, y)

        def first_of(builder: Any, truths: Sequence[Any], numbers: Sequence[Any]) -> Any:
            """The number of the first that is true, where one is."""
            found = numbers[-1]
            for is_it, number in zip(truths[-2::-1], numbers[-2::-1], strict=True):
                found = builder.select(is_it, number, found)
            return found

        def place(builder: Any, args: Any, truths: Sequence[Any], at: Sequence[Any], width: int) -> Any:
            """The index of the first that is true, given all indices: runs of `width`, a step apart."""
            if width == 1:
                return first_of(builder, truths, at)
            # Which it is needs no register for each index.
            every = len(truths)
            which, starts = first_of(builder, truths, [I32(j) for j in range(every)]), at[::width]
            are_before = [builder.icmp_signed("<", which, I32(end)) for end in range(width, every + 1, width)]
            lane, step = (resized(builder, n, starts[0].type) for n in (builder.and_(which, I32(width - 1)), args[2]))
            return builder.add(first_of(builder, are_before, starts), builder.mul(lane, step))

        def among(lanes: int, width: int) -> Any:
            result = types.Tuple([types.UniTuple(each, lanes) for each in (kind, index)])

            def of_lane(builder: Any, args: Any, every: int, lane: int) -> list[list[Any]]:
                return [[builder.extract_value(args[1], (k, j)) for j in range(lane, every, lanes)] for k in range(2)]

            @intrinsic
            def equal(typing: Any, best: Any, values: Any, step: Any) -> Any:
                merge = Call(typing, best, [values[0].dtype] * 2)

                def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                    items: dict[Any, Any] = {}
                    for lane in range(lanes):
                        numbers, at = of_lane(builder, args, len(values[0]), lane)
                        (whole,) = tree(context, builder, merge, [[number] for number in numbers])
                        truths = [is_equal(builder, number, whole) for number in numbers]
                        items[0, lane] = converted(context, builder, whole, merge.kinds[0], kind)
                        items[1, lane] = place(builder, args, truths, at, width // lanes)
                    return aggregate(context, builder, result, items)

                return result(best, values, step), generate

            @intrinsic
            def nan(typing: Any, parts: Any, values: Any, step: Any) -> Any:
                def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                    found = args[0]
                    for lane in range(lanes):
                        numbers, at = of_lane(builder, args, len(values[0]), lane)
                        where = place(
                            builder, args, [is_nan(builder, number) for number in numbers], at, width // lanes
                        )
                        best, known = (builder.extract_value(args[0], (k, lane)) for k in range(2))
                        found = builder.insert_value(
                            found, builder.select(is_nan(builder, best), where, known), (1, lane)
                        )
                    return found

                return result(parts, values, step), generate

            return equal, nan

        @intrinsic
        def has_nan(typing: Any, parts: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                found = I1(0)
                for lane in range(len(parts[0])):
                    found = builder.or_(found, is_nan(builder, builder.extract_value(args[0], (0, lane))))
                return found

            return types.boolean(parts), generate

        return SimpleNamespace(among=among, has_nan=has_nan)
