"""The kernels that apply a scalar formula to arrays, element by element: y[i] = formula(x[i], ...).

Read `scalar` first: it is the kernel one writes on the first day, and the others compute the same. `vector`
is what replaces it: each thread moves 16 bytes at a time, and in `batched` a few times 16, which is what it takes
to keep an H200's memory busy. `uneven`, `strided` and `tiled` serve the arrays that `vector` cannot.

A kernel here only indexes, loads, calls and stores. `load` and `store` convert between each array's dtype and
the compute dtype; the formula (from `formulas`) knows nothing of arrays. Offsets are in elements; `steps`
holds one tuple of strides for each array. `words` are the scalar arguments, as 64 bits each; the formula has them
behind the arrays' numbers.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ...base._numba import SIMULATED, cuda
from ...base.dtypes import TABLE
from ...runtime.launch_order import WARP
from ..primitives.operands import operands, scalar_reader
from ..primitives.specialize import specialize
from ..specs import TILE, TILE_STEP, Kernel, KernelSpec, map_parameters, pieces_each


def scalar(formula: Any, io: Any) -> Kernel:
    """One thread per element. The last dimension runs along x, all others, `outer`, along y."""
    load, store, offsets, unravel = io.load, io.store, io.offsets, io.unravel
    apply, scalars = io.apply, io.scalars

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, words):
        more = scalars(words)
        column, row = cuda.grid(2)
        if column < columns:
            while row < rows:
                coordinates = unravel(row, outer) + (column,)
                values = load(ins, offsets(coordinates, in_steps))
                store(outs, offsets(coordinates, out_steps), apply(formula, values, more))
                row += cuda.gridsize(2)[1]

    return kernel


def vector(formula: Any, io: Any) -> Kernel:
    """One thread per 16 bytes of a row: one load per input, one store per output; or a few times that, see `batched`.

    The rows' first `head` elements lie before the first 16-byte boundary, and what follows the last whole 16 bytes is
    the tail; both are items behind the row's `vectors` whole ones, one per element.
    """
    if io.lanes > io.width:
        return batched(formula, io)
    load, store, offsets, unravel = io.load, io.store, io.offsets, io.unravel
    apply, scalars = io.apply, io.scalars
    load_lanes, store_lanes, map_lanes = io.load_lanes, io.store_lanes, io.map_lanes
    width = io.width

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, head, vectors, words):
        more = scalars(words)
        item, row = cuda.grid(2)
        body = vectors * width
        while row < rows:
            first = unravel(row, outer)
            if item < vectors:
                coordinates = first + (head + item * width,)
                values = load_lanes(ins, offsets(coordinates, in_steps), 0)
                store_lanes(outs, offsets(coordinates, out_steps), 0, map_lanes(formula, values, more))
            elif item < vectors + columns - body:
                column = item - vectors
                if column >= head:
                    column += body
                coordinates = first + (column,)
                values = load(ins, offsets(coordinates, in_steps))
                store(outs, offsets(coordinates, out_steps), apply(formula, values, more))
            row += cuda.gridsize(2)[1]

    return kernel


def batched(formula: Any, io: Any) -> Kernel:
    """`vector` with several loads per input and thread, a block's width apart, all under way before the first is used.

    Threads at a row's end, where not all of theirs are there, take them one by one.
    """
    load, store, offsets, unravel = io.load, io.store, io.offsets, io.unravel
    apply, scalars = io.apply, io.scalars
    load_lanes, store_lanes, map_lanes = io.load_lanes, io.store_lanes, io.map_lanes
    load_vector, store_vector = io.single.load_lanes, io.single.store_lanes
    width, pieces = io.width, io.lanes // io.width

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, head, vectors, words):
        more = scalars(words)
        threads = cuda.blockDim.x
        start = cuda.blockIdx.x * threads * pieces + cuda.threadIdx.x
        row = cuda.grid(2)[1]
        body = vectors * width
        while row < rows:
            first = unravel(row, outer)
            if start + (pieces - 1) * threads < vectors:
                coordinates = first + (head + start * width,)
                values = load_lanes(ins, offsets(coordinates, in_steps), threads * width)
                store_lanes(outs, offsets(coordinates, out_steps), threads * width, map_lanes(formula, values, more))
            else:
                for item in range(start, start + pieces * threads, threads):
                    if item < vectors:
                        coordinates = first + (head + item * width,)
                        values = load_vector(ins, offsets(coordinates, in_steps), 0)
                        store_vector(outs, offsets(coordinates, out_steps), 0, map_lanes(formula, values, more))
                    elif item < vectors + columns - body:
                        column = item - vectors
                        if column >= head:
                            column += body
                        coordinates = first + (column,)
                        values = load(ins, offsets(coordinates, in_steps))
                        store(outs, offsets(coordinates, out_steps), apply(formula, values, more))
            row += cuda.gridsize(2)[1]

    return kernel


def uneven(formula: Any, io: Any) -> Kernel:
    """For rows that no common shift brings to 16-byte boundaries: a warp takes `lanes` times 32 neighbouring elements.

    Neighbouring threads touch neighbouring memory, each a run of `width` elements at a time, and all of a thread's
    loads are under way before the first is used. A warp takes `pieces_each` such pieces of a row in turn. What a row
    has behind its `pieces`, its `rest`, has a warp of its own; where that are few elements, they share it with those
    of other rows, and it is one that has pieces, too.
    """
    load, store, offsets, unravel = io.load, io.store, io.offsets, io.unravel
    apply, scalars = io.apply, io.scalars
    load_uneven, store_uneven, map_lanes = io.load_uneven, io.store_uneven, io.map_lanes
    load_some, store_some, some = io.few.load_some, io.few.store_some, io.few.lanes
    width, piece, step, each = io.width, WARP * io.lanes, WARP * io.width, io.pieces_each

    def take_one(ins, outs, at, to, count, thread, more):
        results = map_lanes(formula, load_uneven(ins, at, 0, step, thread), more)
        store_uneven(outs, to, 0, step, results, thread)

    def take_several(ins, outs, at, to, count, thread, more):
        for start in range(0, count * piece, piece):
            results = map_lanes(formula, load_uneven(ins, at, start, step, thread), more)
            store_uneven(outs, to, start, step, results, thread)

    take = cuda.jit(device=True)(take_one if each == 1 else take_several)

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, pieces, rest, words):
        more = scalars(words)
        warp, row = cuda.grid(2)
        warp, thread = warp // WARP, cuda.threadIdx.x % WARP
        warps = (pieces + each - 1) // each
        while row < rows:
            if warp < warps:
                coordinates = unravel(row, outer) + (warp * each * piece + thread * width,)
                count = min(each, pieces - warp * each)
                take(ins, outs, offsets(coordinates, in_steps), offsets(coordinates, out_steps), count, thread, more)
            elif rest > WARP and warp == warps:
                for column in range(pieces * piece + thread, columns, WARP * some):
                    coordinates, count = unravel(row, outer) + (column,), (columns - column + WARP - 1) // WARP
                    values = load_some(ins, offsets(coordinates, in_steps), WARP, count)
                    results = map_lanes(formula, values, more)
                    store_some(outs, offsets(coordinates, out_steps), WARP, results, count)
            if rest <= WARP and warp == warps - 1 and row * WARP + thread < rows * rest:
                its_row, column = unravel(row * WARP + thread, (rows, rest))
                coordinates = unravel(its_row, outer) + (pieces * piece + column,)
                values = load(ins, offsets(coordinates, in_steps))
                store(outs, offsets(coordinates, out_steps), apply(formula, values, more))
            row += cuda.gridsize(2)[1]

    return kernel


def strided(formula: Any, io: Any) -> Kernel:
    """One thread per element of arrays with any strides."""
    load, store, offsets, unravel = io.load, io.store, io.offsets, io.unravel
    apply, scalars = io.apply, io.scalars

    def kernel(ins, outs, in_steps, out_steps, shape, size, words):
        more = scalars(words)
        index = cuda.grid(1)
        if index < size:
            coordinates = unravel(index, shape)
            values = load(ins, offsets(coordinates, in_steps))
            store(outs, offsets(coordinates, out_steps), apply(formula, values, more))

    return kernel


def tiled(formula: Any, io: Any) -> Kernel:
    """For inputs that lie transposed to the outputs: tiles of them turn around in shared memory.

    The outputs have consecutive columns, and so have some inputs; the transposed inputs have consecutive rows. Each
    is read along its own consecutive dimension: neighbouring threads read neighbouring columns of the former, and
    neighbouring rows of the latter. Of two bytes each, two elements are taken at once, and a thread turns blocks of
    two by two. Where `whole_tiles` is 0, all are treated as those at the edges are, element by element. The last two of
    `outer` count tiles.
    """
    store, offsets, unravel, map_lanes = io.store, io.offsets, io.unravel, io.map_lanes
    apply, scalars = io.apply, io.scalars
    stage, fetch, stage_lanes, fetch_lanes = io.stage, io.fetch, io.stage_lanes, io.fetch_lanes
    load_down, store_down = io.load_down, io.store_down
    cell, count, width, tall = io.cell, io.transposed, io.width, TILE * io.width
    # Padding by a word: the threads that read a row of the tile then meet different banks.
    pitch, abreast = io.cells + max(4 // io.cell_bytes, 1), TILE // io.width

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, whole_tiles, words):
        more = scalars(words)
        tile = cuda.shared.array((count, TILE, pitch), cell)
        block = unravel(cuda.blockIdx.x, outer)
        first, top, left = block[:-2], block[-2] * tall, block[-1] * TILE
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        if whole_tiles and top + tall <= rows and left + TILE <= columns:
            column, down = x % abreast * width, x // abreast + y * width
            across = offsets(first + (top + x * width, left + y), in_steps)
            corner = first + (top + down * width, left + column)
            loaded = load_down(ins, offsets(corner, in_steps), in_steps)
            stage_lanes(tile, y, x, ins, across, in_steps)
            cuda.syncthreads()
            results = map_lanes(formula, fetch_lanes(tile, column, down, loaded), more)
            store_down(outs, offsets(corner, out_steps), out_steps, results)
        else:
            for column in range(y, TILE, TILE_STEP):
                for row in range(x, tall, TILE):
                    if top + row < rows and left + column < columns:
                        stage(tile, column, row, ins, offsets(first + (top + row, left + column), in_steps))
            cuda.syncthreads()
            for row in range(y, tall, TILE_STEP):
                if top + row < rows and left + x < columns:
                    coordinates = first + (top + row, left + x)
                    values = fetch(tile, x, row, ins, offsets(coordinates, in_steps))
                    store(outs, offsets(coordinates, out_steps), apply(formula, values, more))

    return kernel


#: Beside arrays and steps: how many dimensions inside `outer`, and how many scalars follow it.
_INNER = {"scalar": 1, "vector": 1, "uneven": 1, "strided": 0, "tiled": 0}
_SCALARS = {"scalar": 2, "vector": 4, "uneven": 4, "strided": 1, "tiled": 3}
_MAKERS = {f.__name__: f for f in (scalar, vector, uneven, strided, tiled)}


def make(spec: KernelSpec) -> Kernel:
    """See `kernel_code.make`."""
    reads, writes = (tuple(TABLE[name] for name in names) for names in (spec.reads, spec.writes))
    single = _accessors(reads, writes, spec, spec.width)
    io = _accessors(reads, writes, spec, spec.lanes)
    io.few = _accessors(reads, writes, spec._replace(width=1), max(spec.lanes // 2, 1))
    io.single, io.transposed = single, len(spec.transposed)
    io.pieces_each = pieces_each(spec.loaded, spec.width)
    # The simulator's cells hold one number each.
    io.cells = TILE * spec.width if SIMULATED else TILE
    io.scalars = scalar_reader(tuple(spec.scalars))
    assert spec.formula is not None
    return _MAKERS[spec.algorithm](specialize(spec.formula.function, spec.compute, spec.narrow), io)


def _kept(spec: KernelSpec) -> tuple[int, ...]:
    return () if spec.formula is None else spec.formula.kept


def _accessors(reads: Any, writes: Any, spec: KernelSpec, lanes: int) -> SimpleNamespace:
    """The intrinsics that load the inputs and store the outputs."""
    kinds = (spec.transposed, spec.repeated, spec.counted, spec.indices, _kept(spec))
    found = vars(operands(reads, lanes, spec.width, spec.compute, *kinds))
    out = operands(writes, lanes, spec.width)
    theirs = {name: call for name, call in vars(out).items() if name.startswith("store")}
    return SimpleNamespace(**(found | theirs))


def parameters(spec: KernelSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters: see `runtime.kernel_code`."""
    return map_parameters(spec, _INNER[spec.algorithm], _SCALARS[spec.algorithm])
