"""Choice of an elementwise operation's kernel and grid, from strides and alignment.

Dimensions that all arrays step through alike are merged first. Then the first kernel that fits is chosen:

* `vector` if every array's rows are contiguous and reach a 16-byte boundary at the same element. For one row it is the
  kernel `flat`, or `tabulated` if the row is long, with 16-bit elements, and the formula expensive (`_tabulated`);
* `uneven` if rows are contiguous but reach a boundary at different elements;
* `scalar` if rows are contiguous but too short for either;
* `tiled` if some inputs are transposed relative to the outputs;
* `strided` for everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, prod
from typing import Any, NamedTuple

from ...base.dispatch import launcher_class
from ...base.dtypes import TABLE, info
from ...base.layout import MAX_RANK, Merged, merge_dimensions, round_up
from ...functions.symbolic.arithmetic_intensity import is_long
from ...runtime.launch_order import BUSY_BLOCKS as _BLOCKS
from ...runtime.launch_order import MAX_THREADS, VECTOR_BYTES, WARP, LaunchOrder
from ..specs import (
    FLAT_THREADS,
    MAP,
    PATTERN_BITS,
    TABLE_BYTES,
    THREAD_BYTES,
    TILE,
    TILE_STEP,
    KernelSpec,
    compute_dtype,
    pieces_each,
    vector_thread_bytes,
    words_of,
)

#: The ranks that kernels unravel: the usual ones, and one for all others.
RANKS = (1, 2, 3, 4, MAX_RANK)
#: CUDA's limit on blocks along y; the kernels process further rows in a grid-stride loop.
_MAX_GRID_Y = 65535
#: Below this length along either dimension a tile is mostly empty.
_SHORTEST_TILE = 16
#: Shared memory that the tiles of all transposed inputs may use.
_TILED_BYTES = 48 * 1024
#: The least number of elements for a table: building it takes as long as computing some millions of elements.
_TABLE_LEAST = 2**25
#: Bytes that a thread has in flight, and threads of a block, which has a multiprocessor to itself.
_TABLE_THREAD_BYTES, _TABLE_THREADS = 64, 1024
#: The most blocks that build a table together: larger clusters leave multiprocessors idle.
_TABLE_CLUSTER = 2


class Geometry(NamedTuple):
    """A kernel and its launch dimensions.

    Attributes:
        algorithm: name of the kernel.
        grid, block: blocks and threads along x and y.
        outer: the dimensions that the kernel unravels.
        scalars: the integers that follow `outer`.
        width, lanes, transposed, repeated, counted: as in `KernelSpec`.
        shared, cluster: as in `LaunchOrder`.
        module: as in `KernelSpec`.
    """

    algorithm: str
    grid: tuple[int, int]
    block: tuple[int, int]
    outer: tuple[int, ...]
    scalars: tuple[int, ...]
    width: int = 1
    lanes: int = 1
    transposed: tuple[int, ...] = ()
    repeated: tuple[int, ...] = ()
    counted: tuple[int, ...] = ()
    shared: int = 0
    cluster: int = 1
    module: str = MAP


#: Pairs of arrays, in the format of `LaunchOrder`.
Pairs = tuple[tuple[int, ...], ...]


def make_order(task: Any, key: tuple[int, ...], pairs: Pairs = ()) -> LaunchOrder:
    """Return the launch of a `launch.MapTask` for arguments with these addresses modulo 16."""
    loaded, alignments = len(task.reads), task.alignments(key)
    sizes, walks = list(task.sizes), list(task.steps)
    # Counters follow the inputs. They need neither memory nor alignment.
    inputs = loaded + len(task.counters)
    counted = tuple(range(loaded, inputs))
    walks[loaded:loaded] = task.counters
    sizes[loaded:loaded] = alignments[loaded:loaded] = [0] * len(counted)
    merged = _with_outer_dimension(merge_dimensions(task.shape, walks, 1, leader=inputs))
    heavy = {} if task.formula is None else task.formula.heavy
    geometry = choose(merged, inputs, sizes, alignments, heavy, counted)
    steps = merged.strides
    if geometry.transposed:
        row = _row_dimension(merged, geometry.transposed)
        steps = tuple(_move_row(step, row) for step in steps)
    return order_of(task, geometry, steps, _needs_wide(merged, geometry), key, pairs)


def order_of(
    task: Any, geometry: Geometry, steps: Sequence[Sequence[int]], wide: bool, key: tuple[int, ...], pairs: Pairs
) -> LaunchOrder:
    """Return the launch of a `launch.MapTask` with a given geometry.

    Args:
        geometry: the kernel and its grid.
        steps: each operand's strides in elements, along `geometry.outer` and the kernel's inner dimensions.
        wide: as in `KernelSpec`.
        task, key, pairs: as in `make_order`.
    """
    rows = [info(array.dtype) for array in task.operands]
    names = [row.bits_name if task.as_bits else row.name for row in rows]
    counters = len(task.counters)
    reads, writes = (*names[: len(task.reads)], *["int64"] * counters), tuple(names[len(task.reads) :])
    outer = geometry.outer
    is_flat = geometry.module == MAP and geometry.algorithm == "vector" and outer == (1,) and not wide
    if is_flat:
        outer, steps = (), [step[1:] for step in steps]
    elif geometry.block[0] > MAX_THREADS and geometry.algorithm == "vector":
        # Counters with large strides need 64 bits, and another kernel.
        _, columns, _, vectors = geometry.scalars
        items = columns - vectors * (geometry.width - 1)
        geometry = geometry._replace(block=(MAX_THREADS, 1), grid=row_grid(items, 1, 1, MAX_THREADS)[0])
    # Kernels are compiled for few ranks: dimensions of length 1 fill up the others.
    rank = 0 if is_flat else next(rank for rank in RANKS if rank >= len(outer))
    more = rank - len(outer)
    kernel = KernelSpec(
        algorithm=geometry.algorithm,
        formula=task.formula,
        reads=reads,
        writes=writes,
        rank=rank,
        wide=wide,
        width=geometry.width,
        lanes=geometry.lanes,
        transposed=geometry.transposed,
        repeated=geometry.repeated,
        compute=task.compute or compute_dtype(reads, writes),
        scalars=task.scalars,
        counted=geometry.counted,
        indices=task.indices,
        module=geometry.module,
    )
    device = task.outputs[0].device
    kernel, geometry = _tabulated(kernel, geometry, device)
    return LaunchOrder(
        kernel=kernel,
        device=device,
        grid=geometry.grid,
        block=geometry.block,
        alignment=key,
        # Counters do not use memory, so their address is ignored.
        pointers=(*task.pointers[: len(task.reads)], *((0, 0),) * counters, *task.pointers[len(task.reads) :]),
        constants=(
            *(n for step in steps for n in (*[0] * more, *step)),
            *[1] * more,
            *outer,
            *geometry.scalars,
        ),
        pairs=pairs,
        words=words_of(kernel.scalars),
        shared=geometry.shared,
        cluster=geometry.cluster,
        follows=kernel.is_flat,
    )


def for_any_alignment(order: LaunchOrder, alignment: Sequence[int]) -> LaunchOrder:
    """Return the launch of the same kernel on the same arrays for any alignment, element by element if needed.

    Captures use it, because nothing should be compiled during a capture.
    """
    grid, constants, kernel = order.grid, order.constants, order.kernel
    if isinstance(kernel, KernelSpec) and kernel.algorithm in ("vector", "tabulated"):
        rows, columns, *_ = constants[-4:]
        # All columns belong to the head, and the number of vectors is 0.
        constants = (*constants[:-2], columns, 0)
        if kernel.algorithm == "vector":
            grid, _ = row_grid(columns, rows, kernel.lanes // kernel.width, order.block[0])
    elif kernel.needs_alignment:
        constants = (*constants[:-1], 0)
    return order._replace(grid=grid, constants=constants, alignment=tuple(alignment))


def choose(
    merged: Merged,
    inputs: int,
    sizes: Sequence[int],
    alignments: Sequence[int],
    heavy: Mapping[int, int | None],
    counted: tuple[int, ...],
) -> Geometry:
    """Return the kernel and grid for merged dimensions (at least two).

    Args:
        merged: the dimensions, and the operands' strides, inputs first.
        inputs: number of operands that are inputs.
        sizes: bytes of each operand's elements.
        alignments: the operands' addresses modulo 16.
        heavy: as in `Formula`.
        counted: as in `KernelSpec`.
    """
    repeated = tuple(k for k, step in enumerate(merged.strides[:inputs]) if step[-1] == 0)
    if all(step[-1] == 1 or k in repeated for k, step in enumerate(merged.strides)):
        return _rows(merged, inputs, sizes, alignments, repeated, heavy, counted)._replace(counted=counted)
    transposed = tuple(k for k, step in enumerate(merged.strides) if step[-1] != 1)
    tiles = len(transposed) * TILE * (TILE + 1) * max(sizes[k] for k in transposed)
    if transposed[-1] < inputs and tiles <= _TILED_BYTES and _row_dimension(merged, transposed) is not None:
        return _tiles(merged, transposed, sizes, alignments)._replace(counted=counted)
    size = prod(merged.shape)
    blocks = -(-size // MAX_THREADS)
    return Geometry("strided", (blocks, 1), (MAX_THREADS, 1), merged.shape, (size,), counted=counted)


def _rows(
    merged: Merged,
    inputs: int,
    sizes: Sequence[int],
    alignments: Sequence[int],
    repeated: tuple[int, ...],
    heavy: Mapping[int, int | None],
    counted: tuple[int, ...],
) -> Geometry:
    """Return the geometry for contiguous rows.

    Operands that are constant along rows count only by their strides, and counters not at all.
    """
    columns, outer = merged.shape[-1], merged.shape[:-1]
    rows = prod(outer)
    straight = [k for k in range(len(sizes)) if k not in repeated and k not in counted]
    loaded = inputs - len({*repeated, *counted})
    own = [sizes[k] for k in straight]
    widest, usual = max(own), max(set(own), key=lambda size: (own.count(size), size))
    #: Row pitch of each operand in bytes, reduced to the largest power of two up to 16 that divides all its strides.
    pitches = [
        gcd(VECTOR_BYTES, *(n * size for n in step[:-1])) for step, size in zip(merged.strides, sizes, strict=True)
    ]
    # Use full accesses of the most common element size, for example bfloat16 next to float32 tables, which then need
    # two accesses each. More accesses per operand would not fit into registers.
    for size in (usual, widest) if 2 * usual == widest else (widest,):
        width = VECTOR_BYTES // size
        # A run of `width` elements must start at an access boundary in every operand, at the same element for all.
        accesses = {k: min(width * sizes[k], VECTOR_BYTES) for k in straight}
        starts = {(-alignments[k] % nbytes) / sizes[k] for k, nbytes in accesses.items()}
        if len(starts) == 1 and all(pitches[k] % nbytes == 0 for k, nbytes in accesses.items()):
            (first,) = starts
            head = min(int(first), columns)
            vectors = (columns - head) // width
            if vectors and first == int(first):
                items = columns - vectors * (width - 1)
                lanes = vector_thread_bytes(loaded, size, widest in heavy, heavy.get(widest)) // size
                # A single row has all threads along x: the kernel `flat` has no other rows for them.
                x = MAX_THREADS if rows == 1 else None
                if widest in heavy and rows * vectors * width < _BLOCKS * MAX_THREADS * lanes:
                    lanes = width  # so that an array which does not fill the GPU has more threads
                    # The GPU starts a limited number of blocks at a time.
                    x = x and FLAT_THREADS
                grid, block = row_grid(items, rows, lanes // width, x)
                scalars = (rows, columns, head, vectors)
                return Geometry("vector", grid, block, outer, scalars, width, lanes, (), repeated)
    lanes = vector_thread_bytes(loaded, widest) // widest
    width = max(4 // widest, 1)
    if width > 1 and columns >= WARP * THREAD_BYTES // widest:
        # Each word is loaded once, which leaves registers for more of them.
        lanes = THREAD_BYTES // widest
    if columns >= WARP * lanes:
        # Place the warps of a block side by side along a row, or one per row if there are enough rows.
        x = WARP if rows >= MAX_THREADS // WARP else MAX_THREADS
        pieces = columns // (WARP * lanes)
        rest = columns - pieces * WARP * lanes
        warps = -(-pieces // pieces_each(loaded, width)) + (rest > WARP)
        grid, block = row_grid(warps * WARP, rows, 1, x)
        return Geometry("uneven", grid, block, outer, (rows, columns, pieces, rest), width, lanes, (), repeated)
    return Geometry("scalar", *row_grid(columns, rows, 1), outer, (rows, columns))


def row_grid(items: int, rows: int, each: int, x: int | None = None) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the blocks and threads for `rows` rows of `items` items, with `each` items per thread.

    `x` is the number of threads along a row. By default it leaves few threads idle; short rows share a block.
    """
    if x is None:
        # Use at least a warp along a row that fills one, so that accesses are coalesced.
        narrowest = min(32, 1 << (-(-items // each) - 1).bit_length())
        sizes = [n for k in range(MAX_THREADS.bit_length()) if (n := MAX_THREADS >> k) >= narrowest]
        x = max(sizes, key=lambda size: (min(items / round_up(items, size * each), 0.9), size))
    y = max(MAX_THREADS // x, 1)
    return (round_up(items, x * each) // (x * each), min(-(-rows // y), _MAX_GRID_Y)), (x, y)


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is at least `number` and at least 1."""
    return 1 << max(number - 1, 0).bit_length()


def _tiles(merged: Merged, transposed: tuple[int, ...], sizes: Sequence[int], alignments: Sequence[int]) -> Geometry:
    row = _row_dimension(merged, transposed)
    outer = [n for d, n in enumerate(merged.shape[:-1]) if d != row]
    rows, columns = merged.shape[row or 0], merged.shape[-1]
    # Handle two elements at once if all are 16-bit and word-aligned.
    width = 2 if set(sizes) == {2} else 1
    for k, (step, alignment) in enumerate(zip(merged.strides, alignments, strict=True)):
        own = row if k in transposed else len(step) - 1
        if alignment % 4 or any(n % 2 for d, n in enumerate(step) if d != own):
            width = 1
    tiles = (*outer, -(-rows // (TILE * width)), -(-columns // TILE))
    lanes = TILE // TILE_STEP * width
    return Geometry(
        "tiled",
        (prod(tiles), 1),
        (TILE, TILE_STEP),
        tiles,
        (rows, columns, 1),
        width=width,
        lanes=lanes,
        transposed=transposed,
    )


def _row_dimension(merged: Merged, transposed: Sequence[int]) -> int | None:
    """Return the one dimension along which all `transposed` operands are contiguous; None if tiles do not pay."""
    for d in range(len(merged.shape) - 1):
        if all(merged.strides[k][d] == 1 for k in transposed):
            return d if min(merged.shape[d], merged.shape[-1]) >= _SHORTEST_TILE else None
    return None


def _move_row(step: tuple[int, ...], row: int | None) -> tuple[int, ...]:
    """Return strides with the row dimension moved to the second last position."""
    assert row is not None
    return (*(n for d, n in enumerate(step[:-1]) if d != row), step[row], step[-1])


def _with_outer_dimension(merged: Merged) -> Merged:
    """Return the dimensions with at least one outer dimension, as the kernels unravel at least one."""
    if len(merged.shape) > 1:
        return merged
    return Merged((1, *merged.shape), tuple((0, *step) for step in merged.strides))


def _needs_wide(merged: Merged, geometry: Geometry) -> bool:
    """Return True if an offset, an index or a thread's number could exceed 2^31."""
    reach = max(sum((n - 1) * abs(step) for n, step in zip(merged.shape, row, strict=True)) for row in merged.strides)
    threads = geometry.grid[0] * geometry.block[0]
    # The grid's last block may extend beyond the end.
    return max(reach, prod(merged.shape), threads * geometry.lanes) >= 2**31 - 1


def _tabulated(kernel: KernelSpec, geometry: Geometry, device: int) -> tuple[KernelSpec, Geometry]:
    """Return a kernel and its geometry, with `vector` replaced by `tabulated` if a table pays off."""
    if not _pays(kernel, geometry):
        return kernel, geometry
    limits = launcher_class().limits(device)
    if limits.shared < TABLE_BYTES:
        return kernel, geometry
    cluster = min(_TABLE_CLUSTER, limits.cluster)
    _, columns, head, vectors = geometry.scalars
    lanes = 8 * _TABLE_THREAD_BYTES // PATTERN_BITS
    found = geometry._replace(
        algorithm="tabulated",
        grid=(limits.multiprocessors // cluster * cluster, 1),
        block=(_TABLE_THREADS, 1),
        scalars=(cluster, columns, head, vectors),
        lanes=lanes,
        shared=TABLE_BYTES,
        cluster=cluster,
    )
    return kernel._replace(algorithm="tabulated", lanes=lanes, module="kernels/elementwise/lookup_table"), found


def _pays(kernel: KernelSpec, geometry: Geometry) -> bool:
    """Return True for large contiguous 16-bit arrays, one in and one out, if the formula takes longer than memory."""
    if geometry.algorithm != "vector" or kernel.formula is None or kernel.formula.kept:
        return False
    rows, columns, *_ = geometry.scalars
    if rows > 1 or columns < _TABLE_LEAST or len(kernel.reads) != 1 or len(kernel.writes) != 1 or kernel.repeated:
        return False
    return all(TABLE[name].bits == PATTERN_BITS for name in kernel.dtypes) and is_long(
        kernel.formula.function, kernel.compute, kernel.narrow
    )
