"""Launches of the Hopper kernel: which products it can compute, tiles, tensor maps and parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ...base.layout import Layout
from ...functions.formula import Formula
from ...runtime import tensor_maps
from ...runtime.launch_order import AddressOf, MapOf, Scalar, TensorOrder
from .spec import COLUMNS, MAPS, MOST_GROUPS, ROW, ROWS, GemmSpec

#: The dtypes of the matrices, and of operands.
MATRICES = ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
_OPERANDS = ("float32", "bfloat16", "float16")


class Tile(NamedTuple):
    """A tile.

    Attributes:
        tall, wide: its rows, and its columns of B.
        turns, cluster, transposed: as in `GemmSpec`.
    """

    tall: int
    wide: int
    turns: int = 1
    cluster: int = 1
    transposed: int = 0


class Card(NamedTuple):
    """A model of GPUs, for the choice of a tile.

    Attributes:
        multiprocessors: their number.
        name: a key of `COSTS`.
    """

    multiprocessors: int
    name: str = "H100"


TILES: tuple[Sequence[int], ...] = (
    (128, 256), (128, 256, 1, 2), (128, 192), (128, 192, 2), (128, 128, 2), (128, 128), (64, 256), (64, 128, 2),
    (64, 128), (64, 64), (128, 160, 1, 1, 1), (128, 200, 1, 1, 1), (128, 208, 1, 1, 1), (128, 240, 1, 1, 1),
    (256, 136, 1, 1, 1), (256, 160, 1, 1, 1), (256, 176, 1, 1, 1),
)  # fmt: skip
#: Costs of transposed tiles on an H200, which stand for those on an H100, too.
_TRANSPOSED: dict[Sequence[int], tuple[float, float, float]] = {
    (128, 160, 1, 1, 1): (0.468, 0.55, 6.1), (128, 200, 1, 1, 1): (0.503, 2.4, 6.4),
    (128, 208, 1, 1, 1): (0.569, 1.18, 6.5), (128, 240, 1, 1, 1): (0.654, 1.62, 5.6),
    (256, 136, 1, 1, 1): (0.7, 3.0, 5.7), (256, 160, 1, 1, 1): (0.815, 3.2, 5.6),
    (256, 176, 1, 1, 1): (0.905, 3.7, 5.6),
}  # fmt: skip
#: Card -> tile -> microseconds of a stage, of the rest of each tile, and of a launch, if all multiprocessors work. From
#: the times of 42 products of bfloat16 with relu(x + b)² on each card. Its power limits the speed of large products.
COSTS: dict[str, dict[Sequence[int], tuple[float, float, float]]] = {
    "H100": {
        (128, 256): (0.618, 2.85, 5.5), (128, 256, 1, 2): (0.6245, 2.4, 8.2), (128, 192): (0.513, 1.55, 5.5),
        (128, 192, 2): (0.485, 0.6, 9.0), (128, 128, 2): (0.405, 0.24, 7.2), (128, 128): (0.39, 0.66, 6.8),
        (64, 256): (0.375, 1.48, 7.1), (64, 128, 2): (0.299, 0.0, 6.7), (64, 128): (0.291, 0.0, 6.5),
        (64, 64): (0.26, 0.1, 7.0), **_TRANSPOSED,
    },
    "H200": {
        (128, 256): (0.675, 2.0, 5.6), (128, 256, 1, 2): (0.685, 2.03, 5.5), (128, 192): (0.53, 1.12, 6.2),
        (128, 192, 2): (0.525, 0.0, 8.0), (128, 128, 2): (0.352, 0.0, 7.4), (128, 128): (0.378, 0.42, 6.4),
        (64, 256): (0.351, 1.39, 7.3), (64, 128, 2): (0.247, 0.42, 6.4), (64, 128): (0.249, 0.45, 6.2),
        (64, 64): (0.24, 0.0, 6.6), **_TRANSPOSED,
    },
}  # fmt: skip
#: The most rows of a result for transposed tiles.
_MOST_TRANSPOSED = 2048
#: Microseconds more for a tile of 128 x 256 if the epilogue calls `math` while no other warpgroup multiplies.
_HEAVY = 2.0
#: The power of the GPU limits products that take more microseconds. There tiles cost so much more if their warpgroups
#: do not alternate, as measured on both cards.
_LONG, _POWER = 1000.0, 1.03
#: The library's product in float32 and an elementwise kernel, for at most so many rows: microseconds of a call, of 1e9
#: multiplications, of 1e6 results, and of 1e6 elements of the matrices.
_MOST_ROWS = 1024
_LIBRARY = {"H100": (10.5, 1.324, 3.0, 0.692), "H200": (10.14, 1.682, 2.3, 0.461)}


class MatrixView(NamedTuple):
    """An array as a batch of matrices.

    Attributes:
        number: the array's number in the launch.
        dtype: its dtype, by name.
        itemsize: bytes of an element.
        steps: bytes from one element to the next along the batch's dimensions, rows and columns.
    """

    number: int
    dtype: str
    itemsize: int
    steps: tuple[int, ...]


class KernelProduct(NamedTuple):
    """A product with an epilogue, as a batch of matrices.

    Attributes:
        shape: (*batch, rows, columns) of the results, and K.
        a, b: the matrices; `a` has steps along (*batch, m, k), and `b` along (*batch, n, k).
        c: the matrix C, or None.
        factors: scales of the sums.
        operands: the operands that are arrays.
        outs: the results.
        numbers: how many operands are numbers.
        sums: as in `GemmSpec`.
        formula: the epilogue.
        is_heavy: whether it calls a function of `math`.
        sizes: the number of the array with the sizes of groups, or -1. With groups, the shape has one dimension of the
            batch, which is that of `b` and of operands that groups have for themselves.
        by_k: whether groups divide K instead, which is then the sum of their sizes: each group has its own result, and
            `a` and `b` have no batch.
        reduces: for each result "" or a reduction of its rows: the kernel stores one for every 64 columns, as the
            result's columns. () for none.
    """

    shape: tuple[int, ...]
    k: int
    a: MatrixView
    b: MatrixView
    c: MatrixView | None
    factors: tuple[MatrixView, ...]
    operands: tuple[MatrixView, ...]
    outs: tuple[MatrixView, ...]
    numbers: int
    sums: int
    formula: Formula
    is_heavy: bool = False
    sizes: int = -1
    by_k: bool = False
    reduces: tuple[str, ...] = ()


def steps_of(array: Layout, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the steps of an array that broadcasts to a shape."""
    own = [0 if n == 1 else step for n, step in zip(array.shape, array.strides, strict=True)]
    return (*[0] * (len(shape) - array.ndim), *own)


def order_of(
    found: KernelProduct,
    alignments: Sequence[int],
    device: int,
    card: Card,
    tile: Sequence[int] | None = None,
) -> TensorOrder | None:
    """Return the launch of a product; None if the kernel does not support it.

    Args:
        alignments: the arrays' addresses modulo 16, by their numbers.
        card: the GPU's.
        tile: one of `tiles_for`, maybe without its last numbers; by default the first of them.
    """
    flat = found if found.sizes >= 0 else _flattened(found)
    if flat is None or found.a.dtype not in MATRICES or found.b.dtype != found.a.dtype:
        return None
    tiles = _tiles(flat, card) if tile is None else [Tile(*tile)]
    orders = (_order(flat, alignments, device, card, each) for each in tiles)
    return next((order for order in orders if order is not None), None)


def _order(flat: KernelProduct, alignments: Sequence[int], device: int, card: Card, tile: Tile) -> TensorOrder | None:
    """Return the launch of a product with at most one dimension of its batch; None if the tile does not support it."""
    tall, wide, turns, cluster, transposed = tile
    outs = flat.outs
    if transposed:
        flat = _transposed(flat)
    (count, m, n), k = flat.shape, flat.k
    item = flat.a.itemsize
    a_down, b_down = (each.steps[2] != item for each in (flat.a, flat.b))
    if not all(_is_readable(each, alignments, down) for each, down in ((flat.a, a_down), (flat.b, b_down))):
        return None
    kinds = [_kind(each, alignments, n) for each in (*flat.factors, *([flat.c] if flat.c else []), *flat.operands)]
    reduces = flat.reduces or ("",) * len(flat.outs)
    ways = [
        "direct" if reduction else _way(each, alignments, m if transposed else n)
        for each, reduction in zip(outs, reduces, strict=True)
    ]
    mapped = [k for k, way in enumerate(ways) if way == "map"]
    operands = tuple(each for each in kinds if each is not None)
    if len(operands) < len(kinds) or None in ways or len(mapped) > MAPS or not (m and n and k and count):
        return None
    if transposed and not mapped:
        return None
    has_sizes, by_k = flat.sizes >= 0, flat.by_k
    is_grouped = has_sizes and not by_k
    if (has_sizes and (n % 2 or count > MOST_GROUPS)) or (by_k and not (a_down and b_down)):
        return None
    spec = GemmSpec(
        dtype=flat.a.dtype, a_down=a_down, b_down=b_down, tile=(tall, wide), formula=flat.formula,
        operands=operands, outs=tuple((each.dtype, way == "map") for each, way in zip(flat.outs, ways, strict=True)),
        numbers=1 + (flat.c is not None) + flat.numbers, factors=len(flat.factors), has_c=flat.c is not None,
        sums=flat.sums, is_grouped=is_grouped, turns=turns, by_k=by_k, reduces=flat.reduces if any(reduces) else (),
        cluster=cluster, transposed=bool(transposed),
    )  # fmt: skip
    depth, below, beside = ROW // item, spec.below, flat.sums // spec.below
    maps = [
        _map(flat.a, (count, m * below, k), a_down, tall if below == 1 else ROWS, depth),
        _map(flat.b, (count, n * beside, k), b_down, wide // beside // cluster, depth, COLUMNS // cluster),
    ]
    if transposed:  # whole parts, and the rest
        maps += [_map(outs[0], (count, n, m), False, high, COLUMNS) for high in (COLUMNS, spec.rest or COLUMNS)]
    else:
        maps += [_map(outs[each], (count, m, n), False, 16, COLUMNS) for each in mapped]  # 16 rows of a warp
    maps += [maps[0]] * (2 + MAPS - len(maps))
    arrays = (*flat.factors, *([flat.c] if flat.c else []), *flat.operands)
    sizes: Any = AddressOf(flat.sizes) if has_sizes else 0
    high = _up(m * below, tall * cluster)
    tiles = count * high * _up(n * beside, wide)
    band = _up(high, _up(high, spec.band))  # bands of equal height
    blocks = card.multiprocessors if is_grouped else cluster * min(card.multiprocessors // cluster, tiles)
    parameters: tuple[Any, ...] = (
        *maps, *_places(arrays), [Scalar(number) for number in range(spec.numbers)], *_places(flat.outs), sizes,
        m, n, k, count, int(flat.a.steps[0] != 0), int(flat.b.steps[0] != 0), band,
    )  # fmt: skip
    grid, block = (blocks, 1, 1), (spec.threads, 1, 1)
    return TensorOrder(spec, device, grid, block, (cluster, 1, 1), spec.shared_bytes, parameters)


def _transposed(flat: KernelProduct) -> KernelProduct:
    """Return the transposed product, whose factors are Bᵀ and Aᵀ."""

    def turned(views: tuple[MatrixView, ...]) -> tuple[MatrixView, ...]:
        return tuple([each._replace(steps=(each.steps[0], each.steps[2], each.steps[1])) for each in views])

    count, m, n = flat.shape
    return flat._replace(
        shape=(count, n, m), a=flat.b, b=flat.a, factors=turned(flat.factors), operands=turned(flat.operands),
        outs=turned(flat.outs),
    )  # fmt: skip


def _up(n: int, step: int) -> int:
    return -(-n // step)


def _flattened(found: KernelProduct) -> KernelProduct | None:
    """Return the product with at most one dimension of its batch, or None if it needs more.

    If all matrices share B, the rows of all of them become the rows of one.
    """
    arrays = [found.a, found.b, found.c, *found.factors, *found.operands, *found.outs]
    lengths = found.shape[:-2]
    axes = [d for d, length in enumerate(lengths) if length > 1]
    folds = axes and not any(found.b.steps[d] for d in axes)
    every = [each for each in arrays if each is not None]
    if folds and all(_merge(each, found.shape, [*axes, len(lengths)]) for each in every if each is not found.b):
        rows, kept = math.prod(found.shape[:-1]), []
    elif all(_merge(each, found.shape, axes) for each in every):
        rows, kept = found.shape[-2], axes[-1:]
    else:
        return None
    count = math.prod(lengths) if kept else 1

    def flat(view: MatrixView) -> MatrixView:
        steps = (view.steps[kept[0]] if kept else 0, *view.steps[-2:])
        return view._replace(steps=steps)

    def several(views: tuple[MatrixView, ...]) -> tuple[MatrixView, ...]:
        return tuple(map(flat, views))

    return found._replace(
        shape=(count, rows, found.shape[-1]), a=flat(found.a), b=flat(found.b), c=None if found.c is None else
        flat(found.c), factors=several(found.factors), operands=several(found.operands), outs=several(found.outs),
    )  # fmt: skip


def _merge(view: MatrixView, shape: tuple[int, ...], axes: Sequence[int]) -> bool:
    """Return whether dimensions can be merged into one for an array."""
    return all(view.steps[outer] == shape[inner] * view.steps[inner] for outer, inner in pairwise(axes))


def _is_readable(view: MatrixView, alignments: Sequence[int], down: bool) -> bool:
    """Return whether the copy engine can read a matrix: aligned, with steps that are multiples of 16 bytes."""
    batch, line, along = view.steps
    if down:
        line, along = along, line
        if view.itemsize != 2:
            return False
    aligned = alignments[view.number] % 16 == 0 and batch % 16 == 0 and line % 16 == 0
    return aligned and along == view.itemsize and batch >= 0 and 0 < line < 2**40


def _kind(view: MatrixView, alignments: Sequence[int], n: int) -> tuple[str, str] | None:
    """Return how the kernel reads an operand; None if it cannot."""
    batch, line, along = view.steps
    if view.dtype not in _OPERANDS:
        return None
    if not along:
        if view.dtype == "float32":
            return ("column" if line else "scalar"), view.dtype
        return ("column", view.dtype) if line else None
    pair = 2 * view.itemsize
    if along != view.itemsize or n % 2 or any(step % pair for step in (alignments[view.number], batch, line)):
        return None
    return ("whole" if line else "row"), view.dtype


def _way(view: MatrixView, alignments: Sequence[int], n: int) -> str | None:
    """Return how the kernel stores a result: by the copy engine ("map"), "direct", or None if it cannot."""
    batch, line, along = view.steps
    if view.dtype not in (*_OPERANDS, "float8_e4m3fn", "float8_e5m2") or along != view.itemsize:
        return None
    steps = (alignments[view.number], batch, line)
    if view.itemsize <= 2 and not any(step % 16 for step in steps) and batch >= 0 and line > 0:
        return "map"
    return None if n % 2 or any(step % (2 * view.itemsize) for step in steps) else "direct"


def tiles_for(found: KernelProduct, card: Card) -> list[Tile]:
    """Return the tiles for a product that the kernel supports, those that should be fastest first."""
    flat = found if found.sizes >= 0 else _flattened(found)
    return [] if flat is None else _tiles(flat, card)


def library_is_faster(found: KernelProduct, card: Card) -> bool:
    """Return whether the library's product and an elementwise kernel should be faster than the kernel.

    cuBLASLt splits sums if there are few tiles.
    """
    flat = _flattened(found)
    if flat is None or found.shape[-2] > _MOST_ROWS:
        return False
    (count, m, n), k = flat.shape, flat.k
    n *= flat.sums
    sizes = 1.0, 1e-9 * count * m * n * k, 1e-6 * count * m * n, 1e-6 * count * (m * k + k * n)
    library = sum(part * size for part, size in zip(_LIBRARY[card.name], sizes, strict=True))
    own = _microseconds(flat, card, _tiles(flat, card)[0])
    return math.isfinite(own) and library < own


def _microseconds(flat: KernelProduct, card: Card, tile: Tile) -> float:
    """Return the time that a product should take with a tile; infinity if the tile was not measured."""
    length = 5 if tile.transposed else 4 if tile.cluster > 1 else 3 if tile.turns > 1 else 2
    cost = COSTS[card.name].get(tuple(tile[:length]))
    if cost is None:
        return float("inf")
    (count, m, n), k, (stage, rest, launch) = flat.shape, flat.k, cost
    # Groups of equal size are the likeliest.
    if flat.by_k:
        k = _up(k, count)
    elif flat.sizes >= 0:
        m = _up(m, count)
    m, n = (n * flat.sums, m) if tile.transposed else (m, n * flat.sums)
    tiles = count * _up(m, tile.tall * tile.cluster) * _up(n, tile.wide)
    rounds = _up(tiles, max(card.multiprocessors // tile.cluster, 1))
    if flat.is_heavy and tile.turns == 1:
        rest += _HEAVY * tile.tall * tile.wide / (128 * 256 * flat.sums)
    time = rounds * (_up(k * flat.a.itemsize, ROW) * stage + rest) + launch
    return time * _POWER if time > _LONG and tile.turns == 1 else time


def _tiles(flat: KernelProduct, card: Card) -> list[Tile]:
    """Return the tiles, sorted by the time that they should take."""
    return sorted(
        [each for each in (Tile(*given) for given in TILES) if _fits(flat, each)],
        key=lambda tile: _microseconds(flat, card, tile),
    )


def _fits(flat: KernelProduct, tile: Tile) -> bool:
    """Return whether the kernel can compute a product with a tile.

    Two halves need 128 columns. Groups that divide K have different numbers of stages, so they take no turns. No groups
    have pairs of blocks. A warpgroup with 128 x 192 sums has registers for few words of operands, and not for groups.
    Stores of transposed results are of one result of 16 bits, whose operands are rows, columns or scalars. With many
    rows they gain nothing.
    """
    operands = [*flat.factors, *([flat.c] if flat.c else []), *flat.operands]
    if tile.transposed:
        plain = flat.sizes < 0 and not any(flat.reduces) and flat.c is None and len(flat.outs) == 1
        whole = flat.sums == 1 or tile.turns > 1 or tile.tall > 2 * ROWS  # a warpgroup has sums of both halves
        few = flat.shape[-2] <= _MOST_TRANSPOSED
        lines = not any(each.steps[-2] and each.steps[-1] for each in operands)
        held = sum(4 * each.itemsize if each.steps[-2] else 2 for each in operands) <= 24 or tile.tall <= 2 * ROWS
        # wgmma is slow with odd multiples of 8 columns if columns of A are contiguous, the rows of its operand B.
        fast = tile.wide % 16 == 0 or flat.a.steps[-1] == flat.a.itemsize
        return plain and whole and few and lines and held and fast and flat.outs[0].itemsize == 2
    # A thread has 16 columns of a part, in one row of an operand or in two.
    words = sum(4 * each.itemsize * (2 if each.steps[-2] else 1) if each.steps[-1] else 2 for each in operands)
    few = words <= 12 and flat.sizes < 0
    return (
        (flat.sums == 1 or tile.wide % (2 * COLUMNS) == 0)
        and not (flat.by_k and tile.turns > 1)
        and not (flat.sizes >= 0 and tile.cluster > 1)
        and (few or tile.turns == 1 or tile.tall * tile.wide <= 128 * 128)
    )


def _map(
    view: MatrixView, shape: tuple[int, int, int], down: bool, high: int, depth: int, deep: int = COLUMNS
) -> MapOf:
    """Return the tensor map of a matrix: boxes of `high` rows of `depth` elements; if `down`, of `deep` x 64."""
    (count, rows, along), (batch, line, step) = shape, view.steps
    box = (1, high, depth)
    if down:
        rows, along, line, step, box = along, rows, step, line, (1, deep, ROWS)
    count = count if batch else 1
    fields = tensor_maps.fields_of(
        view.dtype, view.itemsize, (count, rows, along), (batch, line, step), box, box[-1] * view.itemsize
    )  # fmt: skip
    return MapOf(view.number, fields)


def _places(views: Sequence[MatrixView]) -> list[list[Any]]:
    """Return addresses, and steps along rows and batch, of at least one array."""
    if not views:
        return [[0], [0], [0]]
    return [
        [AddressOf(each.number) for each in views],
        [each.steps[1] for each in views],
        [each.steps[0] for each in views],
    ]
