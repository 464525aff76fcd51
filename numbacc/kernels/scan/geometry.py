"""Which kernel scans an array along an axis, on what grid, and how many blocks share a row.

Nothing here depends on which GPU it is: results have the same bits on all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from ...base.dtypes import TABLE
from ...base.layout import Merged
from ...runtime.launch_order import MAX_THREADS, VECTOR_BYTES, WARP
from ..elementwise.geometry import power_of_two

#: Blocks that keep an H200 busy; where there are a quarter as many, several share a row, and it is read twice.
_BLOCKS, _FEW = 1056, 4
#: The part of their threads that keeps it busy too.
_ENOUGH = 0.9
#: Bytes that a thread loads at once, and those of the parts in all its lanes, at most: they stay in registers.
_LOADED_BYTES, _PARTS_BYTES = 64, 128
#: Bytes of the parts that a thread merges with other threads': of its accesses of a row, or of its columns.
_MERGED_BYTES = 16
#: Threads of a row, and of neighbouring columns, where there are enough others: a warp needs no barrier, and what it
#: has of one element of each column is merged with nobody's.
_NEAR = WARP
#: Where there are fewer columns than keep a GPU busy so, blocks take fewer of them, down to so many bytes of a row, and
#: have more threads, up to so many times as many. Where that is not enough several share a column, which is read twice
#: then, unless one is through with it in so many tiles.
_SEGMENT_BYTES, _MORE_THREADS, _FEW_TILES = 64, 8, 8
#: Tiles that a block has at least where blocks share a row.
_SHARED_ROUNDS = 4
#: Threads that blocks of long columns have at most where none share a column; more wait for each other in every tile.
_LONE_THREADS = MAX_THREADS
#: Of blocks that share columns and read them once: threads; bytes of shared memory for the piece that each keeps and
#: its threads' parts, of which a multiprocessor has three times as many; bytes of a row that it takes, at least and at
#: most; pieces of a group and groups of a unit: see `kernels.scan.chained`.
_CHAINED_THREADS, _CHAINED_BYTES, _STRIP_BYTES, _FAN = 256, 61440, (32, 128), 16


class Walk(NamedTuple):
    """How a kernel walks its operands, inputs first: the dimensions of the rows and those that are scanned, with each
    operand's steps in elements.

    Attributes:
        outer, inner: the dimensions; those that are scanned in their order, from the first element on.
        sizes: bytes of the elements.
        alignments: the addresses modulo 16.
        inputs: how many operands are inputs.
    """

    outer: Merged
    inner: Merged
    sizes: Sequence[int]
    alignments: Sequence[int]
    inputs: int

    @property
    def is_straight(self) -> bool:
        """True where all operands are contiguous along what is scanned, all from front to back or all backwards."""
        return {*self.inner.strides} in ({(1,)}, {(-1,)})


class Launch(NamedTuple):
    """A kernel and its grid.

    Attributes:
        algorithm, width, runs: as in `ScanSpec`.
        grid, block: blocks and threads.
        outer: the dimensions of the rows that the kernel unravels.
        scalars: the integers that follow the dimensions, but for `whole`.
        shared: bytes of shared memory of each block, beside what the kernel has always.
    """

    algorithm: str
    width: int
    runs: int
    grid: tuple[int, int]
    block: tuple[int, int]
    outer: tuple[int, ...]
    scalars: tuple[int, ...]
    shared: int = 0


def told_rows(items: int, piece: int, bits: int) -> int:
    """Rows of words by which blocks that share columns tell each other: of pieces, groups and units."""
    pieces = -(-items // piece)
    groups = -(-pieces >> bits)
    return pieces + groups - (-groups >> bits)


def launch_of(walk: Walk, parts: Sequence[str], shares: bool) -> Launch:
    """The kernel and its grid, given the names of the parts' dtypes, and whether blocks may share a row."""
    nbytes = sum(TABLE[part].itemsize for part in parts)
    width = VECTOR_BYTES // max(walk.sizes[: walk.inputs])
    while width > 1 and width * max(nbytes, *walk.sizes) > 2 * VECTOR_BYTES:
        width //= 2
    items = prod(walk.inner.shape)
    most = _BLOCKS if shares else 0
    if walk.is_straight:
        own = _aligned(walk, width, _row_starts_alike)
        if items >= 2 * own:
            return _rows(walk, own, min(_runs(walk, own, nbytes), max(_MERGED_BYTES // nbytes, 1)), most)
    own = _column_access(walk, min(width, max(_MERGED_BYTES // nbytes, 1)))
    return _columns(
        walk, own, min(_runs(walk, own, nbytes), power_of_two(items)), most, nbytes, _column_access(walk, width)
    )


def _column_access(walk: Walk, width: int) -> int:
    """Columns of an access, at most `width`."""
    outer = walk.outer
    if outer.shape[-1] == 1 or any(step[-1] != 1 for step in outer.strides):
        return 1
    while outer.shape[-1] % width:
        width //= 2
    return _aligned(walk, width, _column_is_aligned)


def _runs(walk: Walk, width: int, nbytes: int) -> int:
    """As in `ScanSpec`, given the bytes of an element's parts."""
    loaded = _LOADED_BYTES // (width * sum(walk.sizes[: walk.inputs]))
    return _below(max(min(loaded, _PARTS_BYTES // (width * nbytes)), 1))


def _aligned(walk: Walk, width: int, fits: Callable[[Walk, int, int], bool]) -> int:
    """Elements of an access, at most `width`, such that each operand's own accesses fit."""
    while width > 1 and not all(fits(walk, k, _access(walk, k, width)) for k in range(len(walk.sizes))):
        width //= 2
    return width


def _access(walk: Walk, k: int, width: int) -> int:
    """Elements of one of operand k's accesses of at most 16 bytes."""
    return min(width, VECTOR_BYTES // walk.sizes[k])


def _row_starts_alike(walk: Walk, k: int, access: int) -> bool:
    """True if operand k's accesses begin where those of the first operand do, in all rows."""
    starts = [walk.alignments[j] // walk.sizes[j] for j in (0, k)]
    pairs = [starts, *zip(walk.outer.strides[0], walk.outer.strides[k], strict=True)]
    return all((one - other) % access == 0 for one, other in pairs)


def _column_is_aligned(walk: Walk, k: int, access: int) -> bool:
    """True if operand k's columns start at accesses, in all rows of columns."""
    steps = [*walk.outer.strides[k][:-1], *walk.inner.strides[k]]
    return all(n % access == 0 for n in (walk.alignments[k] // walk.sizes[k], *steps))


def _rows(walk: Walk, width: int, runs: int, most: int) -> Launch:
    columns, positions = walk.inner.shape[0], prod(walk.outer.shape)
    vectors = -(-columns // width)
    # As few threads a row as have all their accesses, a warp at most; more where rows are few.
    x = min(_below(max(vectors // runs, 1)), _NEAR, MAX_THREADS)
    while x < min(MAX_THREADS, vectors) and positions * x < _BLOCKS * MAX_THREADS:
        x *= 2
    y = MAX_THREADS // x
    blocks = -(-positions // y)
    # Rows that share a block are not taken in pieces.
    piece = _piece(columns, x * width * runs, blocks, most if y == 1 else 0)
    # Elements that each row has in whole accesses, wherever it starts; all where they start at accesses.
    first = walk.alignments[0] // walk.sizes[0] - (columns - 1 if walk.inner.strides[0] == (-1,) else 0)
    begins_alike = all(n % width == 0 for n in (first, *walk.outer.strides[0]))
    sure = columns // width * width if begins_alike else max(columns - 2 * width + 2, 0)
    scalars = (positions, columns, piece, sure)
    grid = (blocks, -(-columns // piece))
    return Launch("scan_rows", width, runs, grid, (x, y), walk.outer.shape, scalars)


def _columns(walk: Walk, width: int, runs: int, most: int, part_bytes: int, widest: int) -> Launch:
    """As `launch_of`, of parts of so many bytes; `widest` is the access of blocks that share columns."""
    outer, inner = walk.outer, walk.inner
    items, positions = prod(inner.shape), prod(outer.shape) // width
    near = abs(outer.strides[0][-1]) <= abs(inner.strides[0][-1])
    # Neighbouring threads take what lies next to each other in memory.
    x = min(power_of_two(positions), _NEAR, MAX_THREADS) if near else 1
    few, threads = _alone(positions, x, width * max(walk.sizes[: walk.inputs]))
    is_enough = -(-positions // few) * threads >= _ENOUGH * MAX_THREADS * most
    is_short = items * few <= _FEW_TILES * threads * runs
    if near and most and not is_short and (not is_enough or threads > _LONE_THREADS):
        chained = _chained(walk, widest, part_bytes)
        if chained is not None:
            return chained
    if is_enough or is_short:
        x = few
    else:
        threads = MAX_THREADS
    y = min(threads // x, power_of_two(-(-items // runs)))
    x = max(MAX_THREADS // y, x)
    blocks = -(-positions // x)
    piece = _piece(items, y * runs, blocks, most if x * y == MAX_THREADS else 0)
    shape = (*outer.shape[:-1], outer.shape[-1] // width)
    grid, scalars = (blocks, -(-items // piece)), (positions, items, piece, 0)
    return Launch("scan_columns", width, runs, grid, (x, y), shape, scalars)


def _chained(walk: Walk, width: int, part_bytes: int) -> Launch | None:
    """Blocks that share columns and read them once; None where less of a row lies together than memory brings."""
    outer, items, nbytes = walk.outer, prod(walk.inner.shape), width * max(walk.sizes[: walk.inputs])
    positions, (least, most) = prod(outer.shape) // width, _STRIP_BYTES
    is_together = all(step[-1] == 1 for step in outer.strides)
    if not is_together or outer.shape[-1] * max(walk.sizes[: walk.inputs]) < least:
        return None
    x = min(power_of_two(positions), max(most // nbytes, 1), _NEAR)
    y, each = _CHAINED_THREADS // x, width * sum(walk.sizes[: walk.inputs])
    runs = max((_CHAINED_BYTES // _CHAINED_THREADS - width * part_bytes) // each, 1)
    piece = y * runs
    shape, strips = (*outer.shape[:-1], outer.shape[-1] // width), -(-positions // x)
    scalars, shared = (positions, items, piece, _FAN.bit_length() - 1), _CHAINED_THREADS * runs * each
    return Launch("scan_chained", width, runs, (strips * -(-items // piece), 1), (x, y), shape, scalars, shared)


def _alone(positions: int, x: int, nbytes: int) -> tuple[int, int]:
    """(accesses of a row that a block takes, its threads) such that no two blocks need share a column, given how many
    there are, how many a block would take, and their bytes."""
    threads, wanted = MAX_THREADS, _ENOUGH * MAX_THREADS * _BLOCKS
    while x * nbytes > _SEGMENT_BYTES and -(-positions // x) * 2 * threads < wanted:
        x //= 2
    while threads < _MORE_THREADS * MAX_THREADS and -(-positions // x) * threads < wanted:
        threads *= 2
    return x, threads


def _piece(items: int, tile: int, blocks: int, most: int) -> int:
    """Elements of a row that a block takes, whole tiles, where so many blocks take a row each."""
    tiles = -(-items // tile)
    shares = min(-(-most // blocks), tiles // _SHARED_ROUNDS) if _FEW * blocks < most else 1
    return -(-tiles // max(shares, 1)) * tile


def _below(number: int) -> int:
    """The greatest power of two that is not more."""
    return 1 << number.bit_length() - 1
