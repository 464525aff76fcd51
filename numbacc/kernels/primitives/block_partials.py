"""Partial results of several elements computed together, see `reduction_formula.Chunk`; simulated in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import SIMULATED, cuda, types
from ...functions.reduction_formula import Chunk
from .specialize import specialize


def chunked(
    chunk: Chunk, merge: Any, compute: str, narrow: bool, parts: Sequence[str], starts: Sequence[Any], count: str
) -> Any:
    """Return the function (lanes, most) -> the device function (values, scalars) -> the partial results of all values.

    There is one partial result for each of `lanes` lanes. At most `most` values of a lane are processed at a time; all
    of them if it is None.

    Args:
        chunk: the functions that compute partial results.
        merge: the device function that merges partial results.
        compute, narrow: as in `specialize`.
        parts, starts, count: as in `partials.parts_intrinsics`.
    """
    functions = SimpleNamespace(
        **{name: specialize(each, compute, narrow) for name, each in chunk._asdict().items()},
    )
    make = make_chunks(parts, starts, count)

    def reduce_lanes(lanes: int, most: int | None = None) -> Any:
        reduced = make(lanes, most)
        first, merge_first, middle = functions.first, functions.merge_first, functions.middle
        second, merge_second, finish = functions.second, functions.merge_second, functions.finish

        def of_some(values, scalars):
            return reduced(first, merge_first, middle, second, merge_second, finish, merge, values, scalars)

        return cuda.jit(device=True)(of_some)

    return reduce_lanes


if SIMULATED:
    from functools import reduce

    from ...base.casts import cast
    from .simulated import _apply

    def make_chunks(names: Sequence[str], starts: Sequence[Any], count: str) -> Any:
        """Return the function (lanes, most) -> the function that computes the partial results of all values."""
        dtypes, real = [np.dtype(name) for name in names], np.dtype(count)

        def tree(merge: Any, rows: list[tuple[Any, ...]]) -> tuple[Any, ...]:
            return rows[0] if len(rows) == 1 else _apply(merge, (*tree(merge, rows[::2]), *tree(merge, rows[1::2])), ())

        def as_parts(function: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
            found = zip(_apply(function, given, ()), dtypes, strict=True)
            return tuple(cast(value, dtype)[()] for value, dtype in found)

        def make(lanes: int, most: int | None) -> Any:
            def reduced(
                first: Any, merge_first: Any, middle: Any, second: Any, merge_second: Any, finish: Any, join: Any,
                values: Any, scalars: Any,
            ) -> Any:  # fmt: skip
                def of_some(rows: list[Any]) -> tuple[Any, ...]:
                    how_many = real.type(len(rows))
                    firsts = [_apply(first, row, scalars) for row in rows]
                    known = _apply(middle, (*tree(merge_first, firsts), how_many), ())
                    seconds = [_apply(second, (*row, *known, *starts), ()) for row in rows]
                    return as_parts(finish, (*known, *tree(merge_second, seconds), how_many))

                all_rows, found = list(zip(*values, strict=True)), []
                for lane in range(lanes):
                    rows = all_rows[lane::lanes]
                    step = most or len(rows)
                    own = [of_some(rows[k : k + step]) for k in range(0, len(rows), step)]
                    found.append(reduce(lambda one, other: as_parts(join, one + other), own))
                return tuple(zip(*found, strict=True))

            return reduced

        return make

else:
    from ...base._numba import intrinsic
    from . import packed_16bit
    from .casts import converted
    from .formats import numba_type
    from .load_store import aggregate

    class FormulaCall:
        """A call of a formula with arguments of given types."""

        def __init__(self, typing: Any, formula: Any, given: Sequence[Any]):
            self.formula, self.call = formula, formula.get_call_type(typing, tuple(given), {})
            self.kinds = tuple(self.call.return_type)

        def __call__(self, context: Any, builder: Any, numbers: Sequence[Any]) -> list[Any]:
            found = context.get_function(self.formula, self.call)(builder, list(numbers))
            return [builder.extract_value(found, k) for k in range(len(self.kinds))]

    def tree(context: Any, builder: Any, merge: FormulaCall, rows: list[list[Any]]) -> list[Any]:
        """Return the rows merged in a tree, branch by branch, also for an odd number of rows."""
        whole: list[Any] = packed_16bit.tree(lambda one, other: merge(context, builder, [*one, *other]), rows)
        return whole

    def make_chunks(names: Sequence[str], starts: Sequence[Any], count: str) -> Any:
        kinds, real = [numba_type(name) for name in names], numba_type(count)

        def make(lanes: int, most: int | None) -> Any:
            @intrinsic
            def reduced(
                typing: Any, first: Any, merge_first: Any, middle: Any, second: Any, merge_second: Any, finish: Any,
                join: Any, values: Any, scalars: Any,
            ) -> Any:  # fmt: skip
                numbers = [row.dtype for row in values]
                begin = FormulaCall(typing, first, [*numbers, *scalars])
                merging = FormulaCall(typing, merge_first, begin.kinds * 2)
                between = FormulaCall(typing, middle, [*begin.kinds, real])
                go_on = FormulaCall(typing, second, [*numbers, *between.kinds, *kinds])
                merging_on = FormulaCall(typing, merge_second, go_on.kinds * 2)
                end = FormulaCall(typing, finish, [*between.kinds, *go_on.kinds, real])
                joining = FormulaCall(typing, join, kinds * 2)
                every = len(values[0])
                result = types.Tuple([types.UniTuple(kind, lanes) for kind in kinds])

                def as_parts(context: Any, builder: Any, call: FormulaCall, given: Sequence[Any]) -> list[Any]:
                    found = zip(call(context, builder, given), call.kinds, kinds, strict=True)
                    return [converted(context, builder, *each) for each in found]

                def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                    given, more = args[7], [builder.extract_value(args[8], k) for k in range(len(scalars))]
                    nothing = [
                        context.get_constant_generic(builder, kind, start.item())
                        for kind, start in zip(kinds, starts, strict=True)
                    ]

                    def of_some(rows: list[list[Any]]) -> list[Any]:
                        how_many = context.get_constant_generic(builder, real, len(rows))
                        firsts = [begin(context, builder, [*row, *more]) for row in rows]
                        whole = tree(context, builder, merging, firsts)
                        known = between(context, builder, [*whole, how_many])
                        seconds = [go_on(context, builder, [*row, *known, *nothing]) for row in rows]
                        whole = tree(context, builder, merging_on, seconds)
                        return as_parts(context, builder, end, [*known, *whole, how_many])

                    items: dict[Any, Any] = {}
                    for lane in range(lanes):
                        rows = [
                            [builder.extract_value(given, (k, j)) for k in range(len(values))]
                            for j in range(lane, every, lanes)
                        ]
                        step = most or len(rows)
                        found = of_some(rows[:step])
                        for k in range(step, len(rows), step):
                            own = of_some(rows[k : k + step])
                            found = as_parts(context, builder, joining, [*found, *own])
                        items |= {(p, lane): number for p, number in enumerate(found)}
                    return aggregate(context, builder, result, items)

                call = result(first, merge_first, middle, second, merge_second, finish, join, values, scalars)
                return call, generate

            return reduced

        return make
