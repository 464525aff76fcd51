"""Stencils: sums of products of a tile's neighbors and weights, as in depthwise convolutions, with unrolled loops.

A thread handles some adjacent channels and a tile of positions. It loads each element that the tile needs once, and
accumulates in registers. In Numba's simulator the same names are plain Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import prod
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ...base._numba import SIMULATED, types
from ...base.casts import cast, quietly
from ...base.dtypes import TABLE
from .operands import Operand

if SIMULATED:
    from .runs import put_numbers
    from .simulated import _element, _map_lanes
else:
    from ...base._numba import intrinsic, ir
    from . import formats
    from .formats import I16, I32, I64, numba_type
    from .load_store import NO_OVERFLOW, aggregate, resized

__all__ = ["Stencil", "tiles_of"]

#: Along an axis: (element, ((position in the tile, tap), ...)) lists the pairs that use an element.
Meetings = tuple[tuple[int, tuple[tuple[int, int], ...]], ...]


class Stencil(NamedTuple):
    """The parameters of a stencil on a tile.

    Attributes:
        dtype: name of the images' dtype.
        compute: name of the dtype of sums.
        taps: rows and columns of weights.
        tile: rows and columns of positions.
        rows, columns: the elements that a tile needs, and where it uses them.
        width: adjacent channels of a thread.
        across: threads of a block with adjacent channels.
        threads: threads of a block.
        keeps_weights: True if a thread keeps its weights in registers throughout.
        adds: whether the formula receives the elements of the second of three images.
        biased: whether the formula receives a bias.
        scaled: whether the formula receives two factors.
        span: adjacent columns that one access loads or stores. Images begin at multiples of it and have multiples of it
            as their columns. It divides a tile's columns, and is 1 unless `width` is 1.
        lead: such an access may start at this column of the elements that a tile needs, and every `span` columns.
    """

    dtype: str
    compute: str
    taps: tuple[int, int]
    tile: tuple[int, int]
    rows: Meetings
    columns: Meetings
    width: int
    across: int
    threads: int
    keeps_weights: bool
    adds: bool
    biased: bool
    scaled: bool
    span: int = 1
    lead: int = 0


class Pieces:
    """The layout of a block's weights in shared memory: adjacent 16-byte pieces of all threads, for each tap.

    Attributes:
        size: elements of a piece.
        count: pieces of a tap for each thread.
        channels: channels of a block.
    """

    def __init__(self, spec: Stencil):
        self._across, self._width = spec.across, spec.width
        self.size = min(spec.width, 16 // TABLE[spec.compute].itemsize)
        self.count, self.channels = spec.width // self.size, spec.across * spec.width

    def start(self, tap: int, piece: int) -> int:
        """Return the start of a tap's pieces."""
        return tap * self.channels + piece * self._across * self.size

    def split(self, channel: Any) -> tuple[Any, Any, Any]:
        """Return (thread, piece, number in it) of a block's channel."""
        lane, rest = channel // self._width, channel % self._width
        return lane, rest // self.size, rest % self.size


@lru_cache(maxsize=64)
def tiles_of(spec: Stencil) -> SimpleNamespace:
    """Return the intrinsics of a stencil kernel.

    The sums of "filter" are a tuple in the order (row of taps, column of taps, channel). Elements outside an image
    count as 0, and nothing is stored there.

    Returns:
        a namespace of
        ``shared(n)``: (how many cells of shared memory hold n elements, their type, their alignment);
        ``put(cells, tap, channel, number)``: store a weight, or after them a bias, to shared memory;
        ``sweep(formula, addresses, offsets, start, place, x_sizes, y_sizes, x_steps, y_steps, cells, lane, factors)``:
        compute and store a tile's results: the formula of its sums, of the elements of `addresses[1]` if there are
        three addresses, of the biases and of the factors. Elements of the first address begin at the first offset,
        which is at row and column `start` of the image; results begin at the second offset, at `place`;
        ``nothing()``: the sums of "filter", all 0;
        ``collect(sums, addresses, offsets, start, place, x_sizes, ...)``: the sums, including the terms of a tile that
        is completely inside dy; the other arguments as in `sweep`;
        ``put_sums(cells, thread, sums)``, ``gain(cells, thread, sums)``: store sums to shared memory; add those there;
        ``store_sums(address, offset, step, sums)``: store sums to memory, with taps `step` apart.
    """
    operand = Operand(TABLE[spec.dtype], spec.compute, spec.width, False)
    return SimpleNamespace(**make_tiles(spec, operand, Pieces(spec)))


if SIMULATED:

    def make_tiles(spec: Stencil, operand: Any, pieces: Any) -> dict[str, Any]:
        """Return the functions of `tiles_of`."""
        real, width, half = getattr(np, spec.compute), spec.width, spec.threads // 2
        rows, columns = dict(spec.rows), dict(spec.columns)
        places = list(product(*map(range, spec.tile)))

        def there(offset: int, place: Any, sizes: Any, steps: Any, row: int, column: int) -> int | None:
            """Return the offset of the element this many rows and columns after a position; None outside the image."""
            if not (0 <= place[0] + row < sizes[0] and 0 <= place[1] + column < sizes[1]):
                return None
            return int(offset) + row * int(steps[1]) + column * int(steps[2])

        def numbers(address: int, at: int | None) -> Any:
            if at is None:
                return np.zeros(width, real)
            return cast(_element(address, at, operand.dtype, width), np.dtype(real))

        def flat(found: Any) -> tuple[Any, ...]:
            return tuple(real(number) for each in found for number in each)

        #: (row, column) of each element -> the positions and the taps that use it.
        taps_met = {
            (i, j): [((p, q), r * spec.taps[1] + s) for (p, r), (q, s) in product(down, across)]
            for (i, down), (j, across) in product(rows.items(), columns.items())
        }

        def slot(tap: int, lane: int, k: int) -> Any:
            return pieces.start(tap, k // pieces.size) + lane * pieces.size + k % pieces.size

        def weight(cells: Any, tap: int, lane: int) -> Any:
            return np.array([cells[slot(tap, lane, k)] for k in range(width)], real)

        def put(cells: Any, tap: int, channel: int, number: Any) -> None:
            lane, piece, rest = pieces.split(int(channel))
            cells[slot(int(tap), lane, piece * pieces.size + rest)] = number

        def sweep(
            formula: Any, addresses: Any, offsets: Any, start: Any, place: Any, x_sizes: Any, y_sizes: Any,
            x_steps: Any, y_steps: Any, cells: Any, lane: int, factors: Any,
        ) -> None:  # fmt: skip
            sums = {each: np.zeros(width, real) for each in places}
            weights = [weight(cells, tap, lane) for tap in range(prod(spec.taps))]
            with quietly():
                for (i, j), met in taps_met.items():
                    x = numbers(addresses[0], there(offsets[0], start, x_sizes, x_steps, i, j))
                    for each, tap in met:
                        sums[each] = sums[each] + x * weights[tap]
            for (p, q), total in sums.items():
                at = there(offsets[1], place, y_sizes, y_steps, p, q)
                if at is not None:
                    own = [total]
                    if spec.adds:
                        own.append(numbers(addresses[1], at))
                    if spec.biased:
                        own.append(weight(cells, prod(spec.taps), lane))
                    found = _map_lanes(formula, tuple(map(tuple, own)), factors if spec.scaled else ())[0]
                    put_numbers(operand, addresses[-1], at, found)

        def nothing() -> Any:
            return (real(0),) * (prod(spec.taps) * width)

        def collect(
            sums: Any, addresses: Any, offsets: Any, start: Any, place: Any, x_sizes: Any, y_sizes: Any, x_steps: Any,
            y_steps: Any,
        ) -> Any:  # fmt: skip
            found = np.array(sums, real).reshape(-1, width)
            dy = {each: numbers(addresses[1], there(offsets[1], place, y_sizes, y_steps, *each)) for each in places}
            with quietly():
                for (i, j), met in taps_met.items():
                    x = numbers(addresses[0], there(offsets[0], start, x_sizes, x_steps, i, j))
                    for each, tap in met:
                        found[tap] += x * dy[each]
            return flat(found)

        def put_sums(cells: Any, thread: int, sums: Any) -> None:
            for k, number in enumerate(sums):
                cells[k * half + thread] = number

        def gain(cells: Any, thread: int, sums: Any) -> Any:
            with quietly():
                return tuple(number + cells[k * half + thread] for k, number in enumerate(sums))

        def store_sums(address: int, offset: int, step: int, sums: Any) -> None:
            own = Operand(TABLE[spec.compute], spec.compute, width, False)
            for tap in range(prod(spec.taps)):
                put_numbers(own, address, offset + tap * step, sums[tap * width : (tap + 1) * width])

        return {
            "shared": lambda count: (count, getattr(types, spec.compute), None),
            "put": put,
            "sweep": sweep,
            "nothing": nothing,
            "collect": collect,
            "put_sums": put_sums,
            "gain": gain,
            "store_sums": store_sums,
        }

else:

    class Image:
        """An image in memory with accesses to rows and columns around a position."""

        def __init__(self, context: Any, builder: Any, operand: Any, address: Any, offset: Any):
            self.context, self.builder, self.operand = context, builder, operand
            nbytes = operand.access * operand.dtype.itemsize
            #: Words of an access, and their type. An element of 2 bytes is a word by itself.
            self.words: int = max(nbytes // 4, 1)
            self.word = I32 if nbytes >= 4 else I16
            self.first = builder.add(address, self._bytes(offset))

        @property
        def _register(self) -> str:
            """The letter of a word's registers in assembly."""
            return "h" if self.word == I16 else "r"

        def _bytes(self, elements: Any) -> Any:
            wide = resized(self.builder, elements, I64)
            return self.builder.mul(wide, I64(self.operand.dtype.itemsize), flags=NO_OVERFLOW)

        def along(self, step: Any, numbers: Any) -> dict[int, Any]:
            """Return the byte offset for each number of steps."""
            step = self._bytes(step)
            return {n: self.builder.mul(step, I64(n), flags=NO_OVERFLOW) for n in numbers}

        def inside(self, start: Any, size: Any, numbers: Any) -> dict[int, Any]:
            """Return, for each number, whether the element that far after the start is inside the image."""
            first, length = (resized(self.builder, each, I32) for each in (start, size))
            places = {n: self.builder.add(first, I32(n)) for n in numbers}
            return {n: self.builder.icmp_unsigned("<", place, length) for n, place in places.items()}

        def _where(self, condition: int, access: str, first: int) -> str:
            """Return an access's assembly, predicated by operand `condition`; its words start at operand `first`."""
            names = [f"${first + k}" for k in range(self.words)]
            vector = f"v{self.words}." if self.words > 1 else ""
            words = f"{{{', '.join(names)}}}" if self.words > 1 else names[0]
            access = access.replace("VECTOR", f"{vector}b{self.word.width}").replace("WORDS", words)
            return f"{{.reg .pred %p0;\n\tsetp.ne.b32 %p0, ${condition}, 0;\n\t@%p0 {access}\n\t}}"

        def load(self, address: Any, is_inside: Any, is_constant: bool = True) -> list[Any]:
            """Return the numbers of one access, 0 outside; `is_constant` if the kernel does not write to the image."""
            builder, words = self.builder, self.words
            zeros = "".join(f"mov.b{self.word.width} ${k}, 0;\n\t" for k in range(words))
            text = zeros + self._where(words + 1, f"ld.global{'.nc' * is_constant}.VECTOR WORDS, [${words}];", 0)
            result = ir.LiteralStructType([self.word] * words) if words > 1 else self.word
            kind = ir.FunctionType(result, [I64, I32])
            call = ir.InlineAsm(kind, text, ",".join([f"=&{self._register}"] * words + ["l", "r"]))
            found = builder.call(call, [address, builder.zext(is_inside, I32)], attrs=("readnone",))
            vector = ir.Constant(formats.access_type(self.operand.dtype, self.operand.access), ir.Undefined)
            for k in range(words):
                word = builder.extract_value(found, k) if words > 1 else found
                word = builder.bitcast(word, vector.type.element)
                vector = builder.insert_element(vector, word, I32(k))
            return list(formats.unpack(self.context, builder, self.operand, vector))

        def store(self, address: Any, is_inside: Any, kind: Any, numbers: list[Any]) -> None:
            """Store numbers of Numba's type `kind` in one access, if it is inside."""
            builder = self.builder
            vector = formats.pack(self.context, builder, self.operand.dtype, kind, numbers)
            text = self._where(1, "st.global.VECTOR [$0], WORDS;", 2)
            function = ir.FunctionType(ir.VoidType(), [I64, I32] + [self.word] * self.words)
            constraints = ",".join(["l", "r", *[self._register] * self.words])
            call = ir.InlineAsm(function, text, constraints, side_effect=True)
            given = [builder.bitcast(builder.extract_element(vector, I32(k)), self.word) for k in range(self.words)]
            builder.call(call, [address, builder.zext(is_inside, I32), *given])

    def _barrier(builder: Any) -> None:
        """Make the compiler reload values from memory instead of reusing earlier ones."""
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.call(ir.InlineAsm(kind, "", "~{memory}", side_effect=True), [])

    def _pair(builder: Any, value: Any) -> tuple[Any, Any]:
        return builder.extract_value(value, 0), builder.extract_value(value, 1)

    def make_tiles(spec: Stencil, operand: Any, pieces: Any) -> dict[str, Any]:
        real, width = numba_type(spec.compute), spec.width
        tile, (_, tap_columns) = spec.tile, spec.taps
        places = [(p, q) for p in range(tile[0]) for q in range(tile[1])]
        taps = types.UniTuple(real, prod(spec.taps) * width)
        rows, columns = dict(spec.rows), dict(spec.columns)
        broad = Operand(operand.dtype, spec.compute, width * spec.span, False)
        #: For each row of positions, the last row of elements that it uses.
        last_rows = {p: i for i, met in rows.items() for p, _ in met}

        def accesses(columns: Any, lead: int) -> Iterator[range]:
            """Yield the columns of each access. Columns that do not fill one are loaded one by one."""
            left = list(columns)
            while left:
                found = range(left[0], left[0] + spec.span)
                if (left[0] - lead) % spec.span or list(found) != left[: spec.span]:
                    found = range(left[0], left[0] + 1)
                yield found
                left = left[len(found) :]

        def loads(
            context: Any, builder: Any, args: Any, met: tuple[Any, Any], lead: int
        ) -> Iterator[tuple[Any, dict[int, Any]]]:
            """Yield, for each row of an image, (row, {column: numbers}) of the elements that are used.

            `args` is (address, offset, start, sizes, steps); `met` lists the rows and columns that are used.
            """
            images = {
                1: Image(context, builder, operand, *args[:2]),
                spec.span: Image(context, builder, broad, *args[:2]),
            }
            _, row_step, column_step = (builder.extract_value(args[4], k) for k in range(3))
            starts, sizes = _pair(builder, args[2]), _pair(builder, args[3])
            down, across = images[1].along(row_step, met[0]), images[1].along(column_step, met[1])
            inside = [images[1].inside(starts[k], sizes[k], met[k]) for k in range(2)]
            for i in met[0]:
                row = builder.add(images[1].first, down[i], flags=NO_OVERFLOW)
                found: dict[int, Any] = {}
                for some in accesses(met[1], lead):
                    there = builder.add(row, across[some[0]], flags=NO_OVERFLOW)
                    is_in = builder.and_(inside[0][i], inside[1][some[0]])
                    numbers = images[len(some)].load(there, is_in)
                    found |= {j: numbers[n * width : (n + 1) * width] for n, j in enumerate(some)}
                yield i, found

        def base(context: Any, builder: Any, cells: tuple[Any, Any], lane: Any, each: int) -> Any:
            """Return a pointer to a thread's first number in shared memory, given the cells' type and value."""
            data = context.make_array(cells[0])(context, builder, cells[1]).data
            first = builder.bitcast(data, context.get_value_type(real).as_pointer())
            return builder.gep(first, [builder.mul(resized(builder, lane, I64), I64(each))])

        class Weights:
            """A thread's weights, loaded from shared memory when they are needed."""

            def __init__(self, context: Any, builder: Any, first: Any):
                self._builder, self._first, self._known = builder, first, {}  # type: ignore[var-annotated]
                self._vector = ir.VectorType(context.get_value_type(real), pieces.size)

            def forget(self) -> None:
                """Load weights again from now on, if there are too many to keep in registers."""
                if not spec.keeps_weights:
                    self._known.clear()
                    _barrier(self._builder)

            def of(self, tap: int) -> list[Any]:
                """Return the weights of a tap."""
                if tap not in self._known:
                    self._known[tap] = []
                    for piece in range(pieces.count):
                        there = self._builder.gep(self._first, [I64(pieces.start(tap, piece))])
                        align = pieces.size * TABLE[spec.compute].itemsize
                        vector = self._builder.bitcast(there, self._vector.as_pointer())
                        loaded = self._builder.load(vector, align=align)
                        self._known[tap] += [self._builder.extract_element(loaded, I32(k)) for k in range(pieces.size)]
                found: list[Any] = self._known[tap]
                return found

        def around(context: Any, builder: Any, args: Any) -> tuple[Image, list[Any], list[Any]]:
            """Return (the image, byte offsets of a tile's rows and columns, which are inside); `args` as in `loads`."""
            image = Image(context, builder, broad, *args[:2])
            starts, sizes = _pair(builder, args[2]), _pair(builder, args[3])
            steps = [builder.extract_value(args[4], 1 + k) for k in range(2)]
            numbers = [range(n) for n in tile]
            moves = [image.along(*each) for each in zip(steps, numbers, strict=True)]
            return image, moves, [image.inside(*each) for each in zip(starts, sizes, numbers, strict=True)]

        @intrinsic
        def put(typing: Any, cells: Any, tap: Any, channel: Any, number: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                tap, channel = (resized(builder, arg, I64) for arg in args[1:3])
                parts = []
                for size in (width, pieces.size):
                    parts.append(builder.udiv(channel, I64(size)))
                    channel = builder.urem(channel, I64(size))
                across = I64(pieces.start(0, 1))
                place = builder.mul(tap, I64(pieces.channels))
                place = builder.add(place, builder.mul(parts[1], across))
                place = builder.add(builder.add(place, builder.mul(parts[0], I64(pieces.size))), channel)
                builder.store(args[3], builder.gep(base(context, builder, (cells, args[0]), I64(0), 0), [place]))
                return context.get_dummy_value()

            return types.void(cells, tap, channel, number), generate

        @intrinsic
        def sweep(
            typing: Any, formula: Any, addresses: Any, offsets: Any, start: Any, place: Any, x_sizes: Any,
            y_sizes: Any, x_steps: Any, y_steps: Any, cells: Any, lane: Any, factors: Any,
        ) -> Any:  # fmt: skip
            given = [real] * (1 + spec.adds + spec.biased) + [real] * (2 * spec.scaled)
            call = formula.get_call_type(typing, tuple(given), {})

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                function, number = context.get_function(formula, call), context.get_value_type(real)
                x, *before, out = (builder.extract_value(args[1], k) for k in range(len(addresses)))
                there, at = _pair(builder, args[2])
                weight = Weights(context, builder, base(context, builder, (cells, args[9]), args[10], pieces.size))
                bias = weight.of(prod(spec.taps)) if spec.biased else []
                scalars = list(_pair(builder, args[11])) if spec.scaled else []
                target, moves, inside = around(context, builder, (out, at, args[4], args[6], args[8]))
                source = around(context, builder, (before[0], at, args[4], args[6], args[8])) if before else None
                sums = {each: [number(0.0)] * width for each in places}

                def finish(p: int) -> None:
                    """Store the results of a row of positions."""
                    for q in range(0, tile[1], spec.span):
                        own = [[total for n in range(spec.span) for total in sums.pop((p, q + n))]]
                        is_in = builder.and_(inside[0][p], inside[1][q])
                        where = builder.add(builder.add(target.first, moves[0][p]), moves[1][q])
                        if source is not None:
                            there = builder.add(builder.add(source[0].first, moves[0][p]), moves[1][q])
                            own.append(source[0].load(there, is_in, False))
                        own += [bias * spec.span] * spec.biased
                        found = [function(builder, [*each, *scalars]) for each in zip(*own, strict=True)]
                        target.store(where, is_in, real, [builder.extract_value(each, 0) for each in found])

                for p in range(tile[0]):
                    if p not in last_rows:  # no tap uses it
                        finish(p)
                x_rows = loads(context, builder, (x, there, args[3], args[5], args[7]), (rows, columns), spec.lead)
                for i, found in x_rows:
                    weight.forget()
                    for (p, r), (j, meeting) in ((pr, each) for pr in rows[i] for each in columns.items()):
                        for q, s in meeting:
                            factors = zip(found[j], weight.of(r * tap_columns + s), sums[p, q], strict=True)
                            sums[p, q] = [builder.fma(*each) for each in factors]
                    for p in [p for p, last in last_rows.items() if last == i]:
                        finish(p)
                return context.get_dummy_value()

            arguments = (formula, addresses, offsets, start, place, x_sizes, y_sizes, x_steps, y_steps, cells, lane)
            return types.void(*arguments, factors), generate

        @intrinsic
        def nothing(typing: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                zero = context.get_value_type(real)(0.0)
                return aggregate(context, builder, taps, dict.fromkeys(range(len(taps)), zero))

            return taps(), generate

        @intrinsic
        def collect(
            typing: Any, sums: Any, addresses: Any, offsets: Any, start: Any, place: Any, x_sizes: Any,
            y_sizes: Any, x_steps: Any, y_steps: Any,
        ) -> Any:  # fmt: skip
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                (x, y), (there, at) = (_pair(builder, args[k]) for k in (1, 2))
                found = [builder.extract_value(args[0], k) for k in range(len(taps))]
                # Load a row of dy when the first row of x uses it.
                own = loads(context, builder, (y, at, args[4], args[6], args[8]), (range(tile[0]), range(tile[1])), 0)
                slopes: dict[int, dict[int, Any]] = {}
                x_rows = loads(context, builder, (x, there, args[3], args[5], args[7]), (rows, columns), spec.lead)
                for i, row in x_rows:
                    for p, r in rows[i]:
                        while p not in slopes:
                            slopes |= (next(own),)
                        for j, (q, s) in ((j, each) for j, met in columns.items() for each in met):
                            first = (r * tap_columns + s) * width
                            for k, both in enumerate(zip(row[j], slopes[p][q], strict=True), first):
                                found[k] = builder.fma(*both, found[k])
                return aggregate(context, builder, taps, dict(enumerate(found)))

            given = (sums, addresses, offsets, start, place, x_sizes, y_sizes, x_steps, y_steps)
            return taps(*given), generate

        def slots(context: Any, builder: Any, cells: Any, args: Any) -> list[Any]:
            """Return pointers to a thread's sums in shared memory, where the sums of all threads are adjacent."""
            first, side = base(context, builder, (cells, args[0]), args[1], 1), spec.threads // 2
            return [builder.gep(first, [I64(k * side)]) for k in range(len(taps))]

        @intrinsic
        def put_sums(typing: Any, cells: Any, thread: Any, sums: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                for k, slot in enumerate(slots(context, builder, cells, args)):
                    builder.store(builder.extract_value(args[2], k), slot)
                return context.get_dummy_value()

            return types.void(cells, thread, sums), generate

        @intrinsic
        def gain(typing: Any, cells: Any, thread: Any, sums: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                own = [builder.extract_value(args[2], k) for k in range(len(taps))]
                there = slots(context, builder, cells, args)
                found = [builder.fadd(one, builder.load(slot)) for one, slot in zip(own, there, strict=True)]
                return aggregate(context, builder, taps, dict(enumerate(found)))

            return taps(cells, thread, sums), generate

        @intrinsic
        def store_sums(typing: Any, address: Any, offset: Any, step: Any, sums: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                own = Operand(TABLE[spec.compute], spec.compute, width, False)
                image, size = Image(context, builder, own, *args[:2]), TABLE[spec.compute].itemsize
                moves = image.along(args[2], range(prod(spec.taps)))
                for k in range(0, len(taps), own.access):
                    there = builder.add(builder.add(image.first, moves[k // width]), I64(k % width * size))
                    numbers = [builder.extract_value(args[3], k + n) for n in range(own.access)]
                    image.store(there, ir.IntType(1)(1), real, numbers)
                return context.get_dummy_value()

            return types.void(address, offset, step, sums), generate

        return {
            "shared": lambda count: (-(-count * TABLE[spec.compute].itemsize // 16), types.complex128, 16),
            "put": put,
            "sweep": sweep,
            "nothing": nothing,
            "collect": collect,
            "put_sums": put_sums,
            "gain": gain,
            "store_sums": store_sums,
        }
