"""The kernel that makes channels of windows: where an image has few, its neighbours become channels, too.

    y[n, i, j, (a, t, c)] = x[n, i * down + a - top, j * across + t * apart - left, c]

and 0 where that is outside of the image, and in channels behind the last. Elements of 16 bits are moved as they are.

A thread has 8 channels of one column, which it writes in one access, and does so for some rows, one below the other:
where in a window its elements lie is found out once. Neighbouring threads write neighbouring accesses.
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from ...base._numba import SIMULATED, cuda
from ..specs import Kernel
from .im2col_spec import WINDOW_LANES, WINDOW_THREADS, WindowsSpec

if SIMULATED:
    from .simulated_im2col import make_moves
else:
    from ...base._numba import intrinsic, ir, types
    from ..primitives.formats import I16, I32
    from ..primitives.instructions import assembly
    from ..primitives.load_store import aggregate, pointer_to, resized

__all__ = ["NOWHERE", "make", "moves_of", "parameters"]

#: A row that no image has: images have fewer than 2^30, and so do steps to any of them.
NOWHERE = 2**30


@lru_cache(maxsize=64)
def moves_of(spec: WindowsSpec) -> SimpleNamespace:
    """The intrinsics of the kernel.

    Returns:
        a namespace of
        ``split(number, outer, inner)``: (image, strip, cell) of a thread: so many strips and cells there are;
        ``look(cell, width, steps, across, apart, left)``: for each of a thread's elements its row, counted from that
        of the window, NOWHERE where it is 0 in all rows, and behind them their offsets from the window's first row;
        ``move(source, row, height, places, target)``: the elements from the address of a window's first row to that of
        an access, given what `look` found;
        ``below(row)``: the next row, in a way that hides from the compiler how many there are: it would do several at
        once, for which there are no registers.
    """
    return SimpleNamespace(**make_moves(spec))


if not SIMULATED:

    def make_moves(spec: WindowsSpec) -> dict[str, Any]:
        """See `moves_of`."""
        pieces, row = spec.pitch // WINDOW_LANES, spec.columns * spec.channels

        @intrinsic
        def split(typing: Any, number: Any, outer: Any, inner: Any) -> Any:
            result = types.UniTuple(types.int32, 3)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                rest, tall, wide = (resized(builder, arg, I32) for arg in args)
                over = builder.udiv(rest, wide)
                cell = builder.sub(rest, builder.mul(over, wide))
                image = builder.udiv(over, tall)
                strip = builder.sub(over, builder.mul(image, tall))
                return aggregate(context, builder, result, {0: image, 1: strip, 2: cell})

            return result(number, outer, inner), generate

        @intrinsic
        def look(typing: Any, cell: Any, width: Any, steps: Any, across: Any, apart: Any, left: Any) -> Any:
            result = types.UniTuple(types.int32, 2 * WINDOW_LANES)

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                own, length, over, between, lead = (resized(builder, args[k], I32) for k in (0, 1, 3, 4, 5))
                down, aside, along = (resized(builder, builder.extract_value(args[2], k), I32) for k in range(3))
                column = builder.udiv(own, I32(pieces))
                first = builder.mul(builder.sub(own, builder.mul(column, I32(pieces))), I32(WINDOW_LANES))
                start, items = builder.sub(builder.mul(column, over), lead), {}
                for lane in range(WINDOW_LANES):
                    channel = builder.add(first, I32(lane))
                    a = builder.udiv(channel, I32(row))
                    rest = builder.sub(channel, builder.mul(a, I32(row)))
                    t = builder.udiv(rest, I32(spec.channels))
                    c = builder.sub(rest, builder.mul(t, I32(spec.channels)))
                    there = builder.add(start, builder.mul(t, between))
                    is_there = builder.and_(
                        builder.icmp_unsigned("<", there, length), builder.icmp_unsigned("<", a, I32(spec.rows))
                    )
                    offset = builder.add(builder.mul(a, down), builder.mul(there, aside))
                    items[lane] = builder.select(is_there, a, I32(NOWHERE))
                    items[WINDOW_LANES + lane] = builder.add(offset, builder.mul(c, along))
                return aggregate(context, builder, result, items)

            return result(cell, width, steps, across, apart, left), generate

        @intrinsic
        def move(typing: Any, source: Any, row: Any, height: Any, places: Any, target: Any) -> Any:
            # Where it is inside of the image an element is loaded; nothing branches, so that all are under way at once.
            text = "{.reg .pred %p0;\n\t.reg .b64 %rd0;\n\tsetp.lt.u32 %p0, $3, $4;\n\tmad.wide.s32 %rd0, $2, 2, $1;"
            text += "\n\tmov.b16 $0, 0;\n\t@%p0 ld.global.nc.b16 $0, [%rd0];\n\t}"

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                first, top, length, _, written = args
                top, length = resized(builder, top, I32), resized(builder, length, I32)
                found = []
                for lane in range(WINDOW_LANES):
                    below, offset = (builder.extract_value(args[3], k) for k in (lane, WINDOW_LANES + lane))
                    given = [first, offset, builder.add(top, below), length]
                    found.append(assembly(builder, I16, text, "=&h,l,r,r,r", given, "readnone"))
                words = ir.Constant(ir.VectorType(I32, WINDOW_LANES // 2), ir.Undefined)
                for k in range(WINDOW_LANES // 2):
                    pair = found[2 * k : 2 * k + 2]
                    word = assembly(builder, I32, "mov.b32 $0, {$1, $2};", "=r,h,h", pair)
                    words = builder.insert_element(words, word, I32(k))
                builder.store(words, pointer_to(builder, written, words.type), align=2 * WINDOW_LANES)
                return context.get_dummy_value()

            return types.void(source, row, height, places, target), generate

        @intrinsic
        def below(typing: Any, number: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                kind = args[0].type
                return assembly(builder, kind, "add.s64 $0, $1, 1;", "=l,l", list(args), "convergent")

            return number(number), generate

        return {"split": split, "look": look, "move": move, "below": below}


def make(spec: WindowsSpec) -> Kernel:
    """See `kernel_code.make`.

    `steps` are those from image to image, row to row, column to column, channel to channel, in elements, behind them
    the offset of the first element; `sizes` the image's rows and columns; `window` is (down, across, apart), `lead`
    (top, left); `counts` are the images, and of what is written the rows, columns, strips of rows and rows of a strip.
    """
    moves = moves_of(spec)
    split, look, move, below = moves.split, moves.look, moves.move, moves.below
    pieces, pitch, nbytes = spec.pitch // WINDOW_LANES, spec.pitch, 2 * WINDOW_LANES

    def kernel(ins, outs, steps, sizes, window, lead, counts):
        thread = cuda.blockIdx.x * WINDOW_THREADS + cuda.threadIdx.x
        image, strip, cell = split(thread, counts[3], counts[2] * pieces)
        if image < counts[0]:
            places = look(cell, sizes[1], steps[1:4], window[1], window[2], lead[1])
            begin = strip * counts[4]
            end = min(begin + counts[4], counts[1])
            row = begin * window[0] - lead[0]
            source = ins[0] + 2 * (steps[4] + image * steps[0] + row * steps[1])
            target = outs[0] + 2 * (image * counts[1] + begin) * counts[2] * pitch + cell * nbytes
            while begin < end:
                move(source, row, sizes[0], places, target)
                row += window[0]
                source += 2 * window[0] * steps[1]
                target += 2 * counts[2] * pitch
                begin = below(begin)

    return kernel


def parameters(spec: WindowsSpec) -> list[tuple[str, Any]]:
    """See `kernel_code.parameters`."""
    return [("uint64", 1), ("uint64", 1), *(("int64", count) for count in (5, 2, 3, 2, 5))]
