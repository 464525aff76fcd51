"""The kernels that apply a scalar formula to arrays, element by element: y[i] = formula(x[i], ...).

Read `scalar` first: it is the kernel that one writes on the first day. The others compute the same. `vector` replaces
it: each thread moves 16 bytes at a time. In `batched` a thread moves a few times 16 bytes, which an H200 needs to keep
its memory busy. `flat` does so for arrays that are one row. `uneven`, `strided` and `tiled` handle the arrays that
`vector` cannot.

A kernel here only indexes, loads, calls and stores. `load` and `store` convert between each array's dtype and the
compute dtype; the formula (from `functions`) knows nothing of arrays. Offsets are in elements; `steps` holds one tuple
of strides for each array. `words` are the scalar arguments, as 64 bits each; the formula receives them after the
arrays' elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import SIMULATED, cuda
from ...base.dtypes import TABLE
from ...runtime.launch_order import WARP
from ..primitives.instructions import let_next_start, wait_for_previous
from ..primitives.operands import operands, scalar_reader
from ..primitives.specialize import specialize
from ..specs import TILE, TILE_STEP, Kernel, KernelSpec, map_parameters, pieces_each


def scalar(formula: Any, io: Any) -> Kernel:
    """Return the kernel with one thread per element; the last dimension runs along x, the `outer` ones along y."""
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
    """Return the kernel with one thread per 16 bytes of a row: one load per input, one store per output.

    The first `head` elements of a row are before the first 16-byte boundary; the tail follows the last complete 16
    bytes. Threads process both element by element, as items after the row's `vectors` complete accesses. For several
    accesses per thread, see `batched`.
    """
    if io.is_flat:
        return flat(formula, io)
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
    """Return `vector` with several loads per input and thread, all in flight before the first is used.

    The loads of a thread are a block's width apart. At a row's end, threads without a full set of loads process them
    one by one.
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


def flat(formula: Any, io: Any) -> Kernel:
    """Return `batched` for a single row, whose indices fit into 32 bits. It takes a third of the instructions.

    The kernel knows its strides: 1, or 0 for an operand that is constant along the row. It may start before the
    stream's previous kernel has ended, which saves most of the time between two small kernels, and waits before it uses
    memory. Measured on an H200, the next kernel should start at once after a kernel with several loads per thread, and
    when its loads have come after a compute-bound kernel, which has one.
    """
    load, store, offsets, apply, scalars = io.load, io.store, io.offsets, io.apply, io.scalars
    read_steps, write_steps = io.steps
    load_lanes, store_lanes, map_lanes = io.load_lanes, io.store_lanes, io.map_lanes
    load_vector, store_vector = io.single.load_lanes, io.single.store_lanes
    width, pieces = io.width, io.lanes // io.width

    def small(ins, outs, in_steps, out_steps, outer, rows, columns, head, vectors, words):
        more = scalars(words)
        in_steps, out_steps = read_steps(in_steps), write_steps(out_steps)
        item = np.int32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
        wait_for_previous()
        if item < vectors:
            place = (np.int32(head + item * width),)
            values = load_vector(ins, offsets(place, in_steps), 0)
            let_next_start()
            store_vector(outs, offsets(place, out_steps), 0, map_lanes(formula, values, more))
        else:
            column = np.int32(item - vectors)
            if column >= head:
                column = np.int32(column + vectors * width)
            if column < columns:
                place = (column,)
                values = load(ins, offsets(place, in_steps))
                store(outs, offsets(place, out_steps), apply(formula, values, more))

    if pieces == 1:
        return small

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, head, vectors, words):
        more = scalars(words)
        in_steps, out_steps = read_steps(in_steps), write_steps(out_steps)
        threads = cuda.blockDim.x
        start = np.int32(cuda.blockIdx.x * threads * pieces + cuda.threadIdx.x)
        last = np.int32(start + (pieces - 1) * threads)
        let_next_start()
        wait_for_previous()
        if last < vectors:
            place = (np.int32(head + start * width),)
            values = load_lanes(ins, offsets(place, in_steps), threads * width)
            store_lanes(outs, offsets(place, out_steps), threads * width, map_lanes(formula, values, more))
        else:
            body = vectors * width
            for item in range(start, start + pieces * threads, threads):
                if item < vectors:
                    place = (head + item * width,)
                    values = load_vector(ins, offsets(place, in_steps), 0)
                    store_vector(outs, offsets(place, out_steps), 0, map_lanes(formula, values, more))
                elif item < vectors + columns - body:
                    column = item - vectors
                    if column >= head:
                        column += body
                    place = (column,)
                    values = load(ins, offsets(place, in_steps))
                    store(outs, offsets(place, out_steps), apply(formula, values, more))

    return kernel


def uneven(formula: Any, io: Any) -> Kernel:
    """Return the kernel for rows that no common shift aligns to 16 bytes: each warp loads `lanes` times 32 elements.

    Accesses are coalesced: adjacent threads load adjacent runs of `width` elements, and all of a thread's loads are in
    flight before the first is used. A warp processes `pieces_each` such pieces of a row one after the other. The last,
    incomplete piece of a row (`rest`) is processed by a separate warp. If it is short, a warp that also processes
    pieces handles it, together with the rests of other rows.
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
    """Return the kernel with one thread per element, for arrays with any strides."""
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
    """Return the kernel for inputs that are transposed relative to the outputs; it transposes tiles in shared memory.

    The outputs have consecutive columns, and so have some inputs; the transposed inputs have consecutive rows. Reads
    are coalesced for both: adjacent threads read adjacent columns of the former and adjacent rows of the latter. 16-bit
    elements are read in pairs, and a thread transposes blocks of two by two. If `whole_tiles` is 0, all tiles are
    processed element by element, like those at the edges. The last two of `outer` count tiles.
    """
    store, offsets, unravel, map_lanes = io.store, io.offsets, io.unravel, io.map_lanes
    apply, scalars = io.apply, io.scalars
    stage, fetch, stage_lanes, fetch_lanes = io.stage, io.fetch, io.stage_lanes, io.fetch_lanes
    load_down, store_down = io.load_down, io.store_down
    cell, count, width, tall = io.cell, io.transposed, io.width, TILE * io.width
    # Padding by a word avoids bank conflicts: threads that read a row of the tile access different banks.
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


#: In addition to arrays and steps: the number of dimensions inside `outer`, and of scalars after it.
_INNER = {"scalar": 1, "vector": 1, "uneven": 1, "strided": 0, "tiled": 0}
_SCALARS = {"scalar": 2, "vector": 4, "uneven": 4, "strided": 1, "tiled": 3}
_MAKERS = {f.__name__: f for f in (scalar, vector, uneven, strided, tiled)}


def make(spec: KernelSpec) -> Kernel:
    """Build the kernel, as `kernel_code.make` describes."""
    reads, writes = (tuple(TABLE[name] for name in names) for names in (spec.reads, spec.writes))
    single = _accessors(reads, writes, spec, spec.width)
    io = _accessors(reads, writes, spec, spec.lanes)
    io.few = _accessors(reads, writes, spec._replace(width=1), max(spec.lanes // 2, 1))
    io.single, io.transposed = single, len(spec.transposed)
    io.pieces_each, io.is_flat = pieces_each(spec.loaded, spec.width), spec.rank == 0
    # In the simulator a cell holds one element.
    io.cells = TILE * spec.width if SIMULATED else TILE
    io.scalars = scalar_reader(tuple(spec.scalars))
    # The offsets of counters are their values, so that their strides matter.
    steps = None if spec.counted else [(np.int32(k not in spec.repeated),) for k in range(len(reads))]
    io.steps = _known(steps), _known([(np.int32(1),)] * len(writes))
    assert spec.formula is not None
    return _MAKERS[spec.algorithm](specialize(spec.formula.function, spec.compute, spec.narrow), io)


def _known(steps: Sequence[tuple[Any, ...]] | None) -> Any:
    """Return a device function that replaces the strides that a kernel is given by known ones, if there are any."""
    known = steps and tuple(steps)

    def given(steps):
        return steps

    def replaced(steps):
        return known

    return cuda.jit(device=True)(given if known is None else replaced)


def _kept(spec: KernelSpec) -> tuple[int, ...]:
    return () if spec.formula is None else spec.formula.kept


def _accessors(reads: Any, writes: Any, spec: KernelSpec, lanes: int) -> SimpleNamespace:
    """Return the intrinsics that load the inputs and store the outputs."""
    kinds = (spec.transposed, spec.repeated, spec.counted, spec.indices, _kept(spec))
    found = vars(operands(reads, lanes, spec.width, spec.compute, *kinds))
    out = operands(writes, lanes, spec.width)
    theirs = {name: call for name, call in vars(out).items() if name.startswith("store")}
    return SimpleNamespace(**(found | theirs))


def parameters(spec: KernelSpec) -> list[tuple[str, Any]]:
    """Return the kernel's parameters, in the form of `runtime.kernel_code`."""
    return map_parameters(spec, _INNER[spec.algorithm], _SCALARS[spec.algorithm])
