"""The search for the first of the best of several elements at once: see `reduction_formula.Place`.

Numba's simulator runs plain Python instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import SIMULATED, cuda, types
from ...base.dtypes import TABLE
from ...functions.reduction_formula import Place
from .operands import Operand
from .specialize import specialize


def finding(place: Place, read: str, compute: str, narrow: bool, is_even: bool, names: Sequence[str]) -> Any:
    """Return the function (lanes, width, in_words) -> the device function (values, step) -> the partial results.

    A partial result is an element and its index, for each lane. Values come in runs of `width`; consecutive values of a
    run have indices `step` apart.

    Args:
        place: the functions that find the element and its index.
        read: the dtype of the input.
        compute, narrow: as in `specialize`.
        is_even: True if all runs are the same distance apart, as along one dimension.
        names: the partial results' dtypes.
    """
    best, places = specialize(place.best, compute, narrow), make_places(place, read, compute, is_even, names)
    has_nan = places.has_nan

    def find(lanes: int, width: int, in_words: bool) -> Any:
        equal, nan = places.among(lanes, width, in_words)

        def of_some(values, step):
            found = equal(best, values, step)
            if has_nan(found):
                # A NaN equals nothing, so search for it separately.
                found = nan(found, values, step)
            return found

        return cuda.jit(device=True)(of_some)

    return find


if SIMULATED:
    from ...base.casts import cast
    from .simulated import _apply

    def make_places(place: Any, read: str, compute: str, is_even: bool, names: Sequence[str]) -> SimpleNamespace:
        """Return the functions that `finding` uses."""
        dtypes = [np.dtype(name) for name in names]

        def tree(merge: Any, numbers: Sequence[Any]) -> Any:
            if len(numbers) == 1:
                return numbers[0]
            return _apply(merge, (tree(merge, numbers[::2]), tree(merge, numbers[1::2])), ())[0]

        def among(lanes: int, width: int, in_words: bool) -> Any:
            def equal(best: Any, values: Any, step: int) -> Any:
                ends = []
                for lane in range(lanes):
                    numbers, at = (row[lane::lanes] for row in values)
                    whole = tree(best, numbers)
                    where = at[numbers.index(whole)] if whole in numbers else at[-1]
                    ends.append([cast(value, dtype)[()] for value, dtype in zip((whole, where), dtypes, strict=True)])
                return tuple(zip(*ends, strict=True))

            def nan(parts: Any, values: Any, step: int) -> Any:
                wheres = list(parts[1])
                for lane in range(lanes):
                    if parts[0][lane] != parts[0][lane]:
                        numbers, at = (row[lane::lanes] for row in values)
                        wheres[lane] = dtypes[1].type(next(i for x, i in zip(numbers, at, strict=True) if x != x))
                return parts[0], tuple(wheres)

            return equal, nan

        def has_nan(parts: Any) -> bool:
            return any(number != number for number in parts[0])

        return SimpleNamespace(among=among, has_nan=has_nan)

else:
    from ...base._numba import intrinsic, ir
    from . import packed_16bit
    from .block_partials import FormulaCall, tree
    from .casts import converted
    from .formats import I32, numba_type, number_type
    from .load_store import aggregate, resized

    I1 = ir.IntType(1)

    def make_places(place: Any, read: str, compute: str, is_even: bool, names: Sequence[str]) -> SimpleNamespace:
        kind, index = map(numba_type, names)
        operand = Operand(TABLE[read], compute, 1, False)
        # Only these dtypes are handled as packed words.
        pair: Any = packed_16bit.PAIRS.get(read)

        def is_nan(builder: Any, x: Any) -> Any:
            return I1(0) if isinstance(x.type, ir.IntType) else builder.fcmp_unordered("uno", x, x)

        def is_equal(builder: Any, x: Any, y: Any) -> Any:
            compare = builder.icmp_signed if isinstance(x.type, ir.IntType) else builder.fcmp_ordered
            return compare("==", x, y)

        def first_true(builder: Any, truths: Sequence[Any]) -> Any:
            """Return the position of the first true value; there must be one."""
            found = I32(len(truths) - 1)
            for j in reversed(range(len(truths) - 1)):
                found = builder.select(truths[j], I32(j), found)
            return found

        def picked(builder: Any, starts: Sequence[Any], run: Any) -> Any:
            """Return the start of a run, given its number."""
            if len(starts) == 1:
                return starts[0]
            if is_even:
                apart = builder.sub(starts[1], starts[0])
                return builder.add(starts[0], builder.mul(resized(builder, run, apart.type), apart))
            half = builder.lshr(run, I32(1))
            both = (picked(builder, starts[k::2], half) for k in (1, 0))
            return builder.select(builder.trunc(run, I1), *both)

        def among(lanes: int, width: int, in_words: bool) -> Any:
            result = types.Tuple([types.UniTuple(each, lanes) for each in (kind, index)])
            # Elements of a run in each lane; columns: words with separate lanes, or lanes.
            each, columns = width // lanes, -(-lanes // 2) if in_words else lanes

            def index_of(builder: Any, args: Any, lane: int, every: int, which: Any) -> Any:
                """Return the index of a lane's element, given its position in the lane."""
                starts = [builder.extract_value(args[1], (1, j)) for j in range(lane, every, width)]
                place = picked(builder, starts, builder.lshr(which, I32(each.bit_length() - 1)))
                inside, step = (resized(builder, n, place.type) for n in (builder.and_(which, I32(each - 1)), args[2]))
                return builder.add(place, builder.mul(inside, step))

            def loaded(builder: Any, args: Any, count: int) -> list[Any]:
                return [builder.extract_value(args[1], (0, j)) for j in range(count)]

            def numbers(context: Any, builder: Any, args: Any, count: int, column: int) -> list[list[Any]]:
                """Return the elements of a lane, or of each lane of a column of words."""
                found = loaded(builder, args, count)[column::columns]
                if not in_words:
                    return [found]
                # Unpack them again each time: kept unpacked, they would need twice the registers.
                found = packed_16bit.numbers_in(
                    context, builder, operand, packed_16bit.anew(builder, found), len(found)
                )
                return [found] if lanes == 1 else [found[half::2] for half in range(2)]

            def first_marked(builder: Any, masks: Sequence[Any]) -> list[Any]:
                """Return the position of the first element with an all-ones mask, for one lane or two."""
                marks = I32(0)
                for k, mask in enumerate(masks):
                    marks = builder.or_(marks, builder.and_(mask, I32(0x10001 << 15 - k)))
                low = builder.shl(marks, I32(16))
                if lanes > 1:
                    return [packed_16bit.first_bit(builder, each) for each in (low, marks)]
                word = packed_16bit.first_bit(builder, builder.or_(low, marks))
                is_low = builder.and_(builder.lshr(builder.shl(marks, word), I32(15)), I32(1))
                return [builder.sub(builder.or_(builder.shl(word, I32(1)), I32(1)), is_low)]

            def compares() -> bool:
                return in_words and packed_16bit.are_compared(pair)

            @intrinsic
            def equal(typing: Any, best: Any, values: Any, step: Any) -> Any:
                merge, count, every = (
                    FormulaCall(typing, best, [number_type(operand)] * 2),
                    len(values[0]),
                    len(values[1]),
                )

                def of_words(context: Any, builder: Any, args: Any) -> list[tuple[Any, Any]]:
                    def better(one: Any, other: Any) -> Any:
                        return packed_16bit.extreme(builder, pair, place.instruction, one, other)

                    words: Sequence[Any] = loaded(builder, args, count)
                    found: list[tuple[Any, Any]] = []
                    for column in range(columns):
                        own = words[column::columns]
                        whole = packed_16bit.tree(better, own)
                        if lanes == 1:
                            whole = better(whole, packed_16bit.turned(builder, whole))
                        whiches = first_marked(
                            builder, [packed_16bit.compared(builder, pair, "eq", n, whole) for n in own]
                        )
                        wholes = packed_16bit.numbers_in(context, builder, operand, [whole], 1)
                        found += zip(wholes[: len(whiches)], whiches, strict=True)
                    return found

                def of_numbers(context: Any, builder: Any, args: Any) -> list[tuple[Any, Any]]:
                    found = []
                    for column in range(columns):
                        lanes_of = numbers(context, builder, args, count, column)
                        wholes = [tree(context, builder, merge, [[number] for number in own])[0] for own in lanes_of]
                        for own, whole in zip(numbers(context, builder, args, count, column), wholes, strict=True):
                            found.append((whole, first_true(builder, [is_equal(builder, n, whole) for n in own])))
                    return found

                def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                    found, items = (of_words if compares() else of_numbers)(context, builder, args), {}
                    for lane, (whole, which) in enumerate(found):
                        items[0, lane] = converted(context, builder, whole, merge.kinds[0], kind)
                        items[1, lane] = index_of(builder, args, lane, every, which)
                    return aggregate(context, builder, result, items)

                return result(best, values, step), generate

            @intrinsic
            def nan(typing: Any, parts: Any, values: Any, step: Any) -> Any:
                count, every = len(values[0]), len(values[1])

                def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                    found = args[0]
                    if compares():
                        words = loaded(builder, args, count)
                        masks = [packed_16bit.compared(builder, pair, "nan", word, word) for word in words]
                        whiches = [n for k in range(columns) for n in first_marked(builder, masks[k::columns])]
                    else:
                        all_lanes = [each for k in range(columns) for each in numbers(context, builder, args, count, k)]
                        whiches = [first_true(builder, [is_nan(builder, n) for n in own]) for own in all_lanes]
                    for lane, which in enumerate(whiches):
                        where = index_of(builder, args, lane, every, which)
                        best, known = (builder.extract_value(args[0], (k, lane)) for k in range(2))
                        where = builder.select(is_nan(builder, best), where, known)
                        found = builder.insert_value(found, where, (1, lane))
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
