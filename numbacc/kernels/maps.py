"""The kernels that apply a scalar formula to arrays, element by element: y[i] = formula(x[i], ...).

Read `scalar` first: it is the kernel one writes on the first day, and the others compute the same. `vector`
is what replaces it: each thread moves 16 bytes at a time, and in `batched` a few times 16, which is what it takes
to keep an H200's memory busy. `spread`, `strided` and `tiled` serve the arrays that `vector` cannot.

A kernel here only indexes, loads, calls and stores. `load` and `store` convert between each array's dtype and
the compute dtype; the formula (from `formulas`) knows nothing of arrays. Offsets are in elements; `steps`
holds one tuple of strides for each array. `words` are the scalar arguments, as 64 bits each; the formula has them
behind the arrays' numbers.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ..base._numba import cuda
from ..base.dtypes import TABLE
from .intrinsics import operands, scalar_reader
from .specialize import specialize
from .specs import MAX_THREADS, TILE, Kernel, KernelSpec


def scalar(formula: Any, io: Any) -> Kernel:
    """One thread an element. The last dimension runs along x, all others, `outer`, along y."""
    load, store, offsets, unravel = io.load, io.store, io.offsets, io.unravel
    apply, scalars = io.apply, io.scalars

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, words):
        more = scalars(words)
        column, row = cuda.grid(2)
        if column < columns:
            while row < rows:
                place = unravel(row, outer) + (column,)
                values = load(ins, offsets(place, in_steps))
                store(outs, offsets(place, out_steps), apply(formula, values, more))
                row += cuda.gridsize(2)[1]

    return kernel


def vector(formula: Any, io: Any) -> Kernel:
    """One thread 16 bytes of a row, in one load an input and one store an output; or a few times that, see `batched`.

    The rows' first `head` elements lie before the first 16-byte boundary, and what follows the last whole 16 bytes is
    the tail; both are items behind the row's `vectors` whole ones, an element each.
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
                place = first + (head + item * width,)
                values = load_lanes(ins, offsets(place, in_steps), 0)
                store_lanes(outs, offsets(place, out_steps), 0, map_lanes(formula, values, more))
            elif item < vectors + columns - body:
                column = item - vectors
                if column >= head:
                    column += body
                place = first + (column,)
                values = load(ins, offsets(place, in_steps))
                store(outs, offsets(place, out_steps), apply(formula, values, more))
            row += cuda.gridsize(2)[1]

    return kernel


def batched(formula: Any, io: Any) -> Kernel:
    """`vector` with several loads an input a thread, a block's width apart, all under way before the first is used.

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
                place = first + (head + start * width,)
                values = load_lanes(ins, offsets(place, in_steps), threads * width)
                store_lanes(outs, offsets(place, out_steps), threads * width, map_lanes(formula, values, more))
            else:
                for item in range(start, start + pieces * threads, threads):
                    if item < vectors:
                        place = first + (head + item * width,)
                        values = load_vector(ins, offsets(place, in_steps), 0)
                        store_vector(outs, offsets(place, out_steps), 0, map_lanes(formula, values, more))
                    elif item < vectors + columns - body:
                        column = item - vectors
                        if column >= head:
                            column += body
                        place = first + (column,)
                        values = load(ins, offsets(place, in_steps))
                        store(outs, offsets(place, out_steps), apply(formula, values, more))
            row += cuda.gridsize(2)[1]

    return kernel


def spread(formula: Any, io: Any) -> Kernel:
    """For rows that no shift brings to 16-byte boundaries: each thread takes as many elements as in `vector`,
    but in accesses as wide as the alignment allows, a block's width apart.

    Neighbouring threads touch neighbouring elements, and all of a thread's loads are under way before the
    first is used: that keeps memory busy where single elements would not. Columns from `reach` on, of which not all
    of a block are there, are taken one by one: with a `reach` of 0 all of them, whatever the alignment.
    """
    load, store, offsets, unravel = io.load, io.store, io.offsets, io.unravel
    apply, scalars = io.apply, io.scalars
    load_lanes, store_lanes, map_lanes = io.load_lanes, io.store_lanes, io.map_lanes
    lanes, width = io.lanes, io.width

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, reach, words):
        more = scalars(words)
        threads = cuda.blockDim.x
        start = cuda.blockIdx.x * threads * lanes
        row = cuda.grid(2)[1]
        while row < rows:
            first = unravel(row, outer)
            if start + threads * lanes <= reach:
                place = first + (start + cuda.threadIdx.x * width,)
                values = load_lanes(ins, offsets(place, in_steps), threads * width)
                results = map_lanes(formula, values, more)
                store_lanes(outs, offsets(place, out_steps), threads * width, results)
            else:
                column = start + cuda.threadIdx.x
                while column < columns:
                    place = first + (column,)
                    values = load(ins, offsets(place, in_steps))
                    store(outs, offsets(place, out_steps), apply(formula, values, more))
                    column += threads
            row += cuda.gridsize(2)[1]

    return kernel


def strided(formula: Any, io: Any) -> Kernel:
    """One thread an element of arrays with any strides."""
    load, store, offsets, unravel = io.load, io.store, io.offsets, io.unravel
    apply, scalars = io.apply, io.scalars

    def kernel(ins, outs, in_steps, out_steps, shape, size, words):
        more = scalars(words)
        index = cuda.grid(1)
        if index < size:
            place = unravel(index, shape)
            values = load(ins, offsets(place, in_steps))
            store(outs, offsets(place, out_steps), apply(formula, values, more))

    return kernel


def tiled(formula: Any, io: Any) -> Kernel:
    """For inputs that lie transposed to the outputs: square tiles of them turn around in shared memory.

    The outputs have consecutive columns, and so have some inputs; the turned inputs have consecutive rows. Each
    is read along its own consecutive dimension: a thread's first number is the column it reads of the former,
    and the row it reads of the latter. Threads beyond the edge read the last row or column again.
    """
    store, offsets, unravel = io.store, io.offsets, io.unravel
    apply, scalars = io.apply, io.scalars
    stage, fetch, cell, inputs = io.stage, io.fetch, io.cell, io.inputs
    # Padding by a word: the threads that read a column of the tile then meet different banks.
    pitch = TILE + io.padding
    step = MAX_THREADS // TILE

    def kernel(ins, outs, in_steps, out_steps, outer, rows, columns, words):
        more = scalars(words)
        tile = cuda.shared.array((inputs, TILE, pitch), cell)
        across = (columns + TILE - 1) // TILE
        down = (rows + TILE - 1) // TILE
        block = cuda.blockIdx.x
        first = unravel(block // (across * down), outer)
        left = block % across * TILE
        top = block // across % down * TILE
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        whole = top + TILE <= rows and left + TILE <= columns
        if whole:
            for k in range(0, TILE, step):
                straight = offsets(first + (top + y + k, left + x), in_steps)
                turned = offsets(first + (top + x, left + y + k), in_steps)
                stage(tile, y + k, x, ins, straight, turned)
        else:
            bottom, right = rows - 1, columns - 1
            for k in range(0, TILE, step):
                place = first + (min(top + y + k, bottom), min(left + x, right))
                straight = offsets(place, in_steps)
                place = first + (min(top + x, bottom), min(left + y + k, right))
                turned = offsets(place, in_steps)
                stage(tile, y + k, x, ins, straight, turned)
        cuda.syncthreads()
        for k in range(0, TILE, step):
            if whole or (top + y + k < rows and left + x < columns):
                place = first + (top + y + k, left + x)
                store(outs, offsets(place, out_steps), apply(formula, fetch(tile, y + k, x), more))

    return kernel


#: Beside arrays and steps: how many dimensions inside `outer`, and how many scalars follow it.
INNER = {"scalar": 1, "vector": 1, "spread": 1, "strided": 0, "tiled": 2}
SCALARS = {"scalar": 2, "vector": 4, "spread": 3, "strided": 1, "tiled": 2}
_MAKERS = {f.__name__: f for f in (scalar, vector, spread, strided, tiled)}


def make(spec: KernelSpec) -> Kernel:
    """See `registry.make`."""
    reads, writes = (tuple(TABLE[name] for name in names) for names in (spec.reads, spec.writes))
    single = _accessors(reads, writes, spec, spec.width)
    io = _accessors(reads, writes, spec, spec.lanes)
    io.single, io.inputs, io.padding = single, len(reads), max(4 // io.cell_bytes, 1)
    io.scalars = scalar_reader(tuple(spec.scalars))
    assert spec.formula is not None
    return _MAKERS[spec.algorithm](specialize(spec.formula.function, spec.compute, spec.narrow), io)


def _accessors(reads: Any, writes: Any, spec: KernelSpec, lanes: int) -> SimpleNamespace:
    """What loads the inputs, and stores the outputs."""
    found = vars(operands(reads, lanes, spec.width, spec.compute, spec.turned, spec.repeated))
    out = operands(writes, lanes, spec.width)
    return SimpleNamespace(**(found | {"store": out.store, "store_lanes": out.store_lanes}))
