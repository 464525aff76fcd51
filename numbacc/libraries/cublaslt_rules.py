"""Rules that choose among the proposals of cuBLASLt's heuristics without a measurement, and their known faults.

For 92 of 100 products, the first proposal is faster than torch's cuBLAS or within 2 % of it. The rules below correct
cases where another proposal is better. They were found on 1,330 measured products (an H200, cuBLASLt 13.1, the L2 cache
flushed) and confirmed on 250 others; they made no product of either set slower by more than 1 %. docs/gemm.md has the
figures. The numbers of algorithms, tiles and options are the library's own, so the rules apply only where they were
measured, on GPUs of compute capability 9.0.

"Waves" is how often an algorithm's blocks fill the GPU. If sums over k are split into parts, it counts the blocks of
one part for the kernels `_HOPPER` and `_SIMT`, and the blocks of all parts for `_IN_PLACE` and `_SIMT_SMALL`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..base.dtypes import dtype
from .choices import Algorithm, Wrong
from .products import Product

#: Kernels for Hopper's tensor cores ("nvjet"), and persistent kernels that stay on the GPU in clusters of blocks.
_HOPPER, _PERSISTENT = 66, 39
#: Kernels for float32 without tensor cores: in tiles, and in tiles for small matrices.
_SIMT, _SIMT_SMALL = 55, 20
#: Kernels that split sums over k and add the parts up in D, in no fixed order, so they are not deterministic.
_IN_PLACE = 10
#: Kernels for a few columns ("gemmSN"), and for one ("gemv").
_FEW_COLUMNS, _ONE_COLUMN = 11, 13
#: Slower kernels that stand in where others lack an epilogue: for 16 bits, and on float64's older tensor cores.
_STAND_INS = {16, 41, 42, 56}
_OLD_FLOAT64 = {11, 22}

#: Options of `_ONE_COLUMN`: blocks of many rows, and of fewer rows. Options of `_FEW_COLUMNS`: two variants.
_MANY_ROWS, _FEWER_ROWS = 11, 73
_FIRST_VARIANT, _SECOND_VARIANT = 0, 1

#: cuBLASLt 13.1's kernels for one column, which it proposes for 16-bit products with BGRADB, return sums over k that
#: are unrelated to B.
WRONG = (Wrong(_ONE_COLUMN, lambda product: product.epilogue.startswith("BGRAD"), seen=130100),)

_MEASURED = (9, 0)


class Told(NamedTuple):
    """Properties of a proposal that cuBLASLt reports.

    Attributes:
        waves: how often its blocks fill the GPU.
        parts: number of parts of a sum over k; 1 if it does not split sums, or if the kernel itself decides.
        cluster: the library's number for the shape of its clusters of blocks.
        option: the kernel's variant.
    """

    waves: float
    parts: int = 1
    cluster: int = 0
    option: int = 0


def best(
    product: Product,
    proposed: Sequence[Algorithm],
    again: Callable[[int], Sequence[Algorithm]],
    capability: tuple[int, int],
    multiprocessors: int,
) -> Algorithm | None:
    """Return the proposal to use, or None without proposals. If the first is deterministic, so is the result.

    Args:
        product: the product to compute.
        proposed: the heuristics' proposals, best first.
        again: asks the heuristics again, for algorithms with at most this many bytes of scratch memory.
        capability, multiprocessors: properties of the GPU.
    """
    if not proposed:
        return None
    first = proposed[0]
    rule = _RULES.get(first.kind[0])
    if rule is None or capability != _MEASURED:
        return first

    def alike(found: Sequence[Algorithm]) -> list[Algorithm]:
        return [each for each in found if each.deterministic or not first.deterministic]

    return rule(product, alike(proposed), lambda limit: alike(again(limit)), multiprocessors) or first


def _busy_clusters(
    product: Product, proposed: Sequence[Algorithm], again: object, multiprocessors: int
) -> Algorithm | None:
    """Return a variant of the first proposal whose clusters leave no multiprocessor idle.

    Persistent kernels run as many blocks as the GPU holds. If the first proposal's clusters do not divide the number of
    multiprocessors, and the same kernel is proposed with clusters that do, the latter is faster: by 4 to 15 %, for
    DGELU of large matrices.
    """
    first = proposed[0]
    if first.told.waves > _ONE_WAVE:
        return None
    full = (each for each in proposed if each.kind == first.kind and abs(each.told.waves - 1) < 1 - _ONE_WAVE)
    return next(full, None)


_ONE_WAVE = 0.999


def _filled(product: Product, proposed: Sequence[Algorithm], again: object, multiprocessors: int) -> Algorithm | None:
    """Return a proposal with more parts for a sum in place that leaves two thirds of the GPU idle.

    Parts that are added up in order are best (1.2 to 1.8 times as fast, and deterministic). Otherwise more parts in
    place help (by 8 to 16 %).
    """
    first = proposed[0]
    waves = first.told.waves
    if waves >= _THIRD:
        return None
    ordered = [
        each
        for each in proposed
        if each.kind[0] in (_SIMT, _SIMT_SMALL) and each.deterministic
        and 1 < each.told.parts <= _MOST_PARTS and waves <= each.told.waves <= 1
    ]  # fmt: skip
    alike = [each for each in proposed if each.kind == first.kind and waves < each.told.waves <= _HALF]
    return max(ordered or alike, key=lambda each: each.told.waves, default=None)


_THIRD, _HALF = 1 / 3, 1 / 2
#: From about 70 parts on, adding them up takes longer than the time gained.
_MOST_PARTS = 33


def _simt(
    product: Product, proposed: Sequence[Algorithm], again: Callable[[int], Sequence[Algorithm]], multiprocessors: int
) -> Algorithm | None:
    """Return the result of the first rule below that applies to float32 without tensor cores."""
    for rule in (_short_parts, _few_columns, _small_tiles, _even_tiles):
        found = rule(product, proposed, again, multiprocessors)
        if found is not None:
            return found
    return None


def _short_parts(
    product: Product, proposed: Sequence[Algorithm], again: Callable[[int], Sequence[Algorithm]], multiprocessors: int
) -> Algorithm | None:
    """Return a proposal with unsplit sums over k, if the parts would have a few products each.

    A second kernel that adds up such parts takes longer than the whole product without them: 0.5 of the time for 33
    parts of a sum over 64.
    """
    parts = proposed[0].told.parts
    if parts == 1 or _length(product) >= _SHORT_PART * parts:
        return None
    return next((each for each in again(0) if each.told.parts == 1), None)


_SHORT_PART = 32


def _few_columns(
    product: Product, proposed: Sequence[Algorithm], again: Callable[[int], Sequence[Algorithm]], multiprocessors: int
) -> Algorithm | None:
    """Return a kernel made for a few columns instead of large tiles in parts.

    These kernels add up all of k in one block. That is faster (1.3 to 1.9 times) than a second kernel that adds up
    parts, as long as k is short and all blocks run at once.
    """
    if proposed[0].told.parts == 1 or min(product.d.rows, product.d.columns) > _FEW or _length(product) > _SHORT:
        return None
    for each in (*proposed, *again(0)):
        if each.kind[0] == _FEW_COLUMNS and each.told.parts == 1 and each.told.waves < 1:
            return each
    return None


_FEW, _SHORT = 16, 2048


def _small_tiles(
    product: Product, proposed: Sequence[Algorithm], again: Callable[[int], Sequence[Algorithm]], multiprocessors: int
) -> Algorithm | None:
    """Return tiles of 32 x 32 in as many parts, for few columns and long sums whose 128 x 32 tiles leave the GPU idle.

    The heuristics propose them only with little scratch memory. They take 0.71 to 0.92 of the time, but more time if
    the larger tiles keep a tenth of the GPU busy.
    """
    first = proposed[0]
    if first.kind != (_SIMT, _TILE_128_32) or first.told.parts == 1 or first.told.waves >= _TENTH:
        return None
    small = [each for each in again(_LITTLE_SCRATCH) if each.kind == (_SIMT, _TILE_32_32) and each.told.parts > 1]
    return max(small, key=lambda each: each.told.waves, default=None)


#: The library's numbers for tiles.
_TILE_32_32, _TILE_128_32, _TILE_128_128 = 11, 16, 20
_TENTH, _LITTLE_SCRATCH = 0.1, 2**20


def _even_tiles(
    product: Product, proposed: Sequence[Algorithm], again: Callable[[int], Sequence[Algorithm]], multiprocessors: int
) -> Algorithm | None:
    """Return tiles of 128 x 128 with unsplit sums, for large matrices where they keep the GPU busy to the end.

    This kernel is the fastest per tile, and the heuristics rarely propose it first. If nine tenths of the GPU are busy
    all the time, it takes 0.91 to 0.98 of the time (0.92 to 1.00 for a transposed B). If few are busy, it takes up to
    four times as long.
    """
    rows, columns, k = product.d.rows, product.d.columns, _length(product)
    if product.a.dtype != "float32" or product.batch > 1 or product.transpose_b or k < _LONG:
        return None
    blocks = -(-rows // _TILE) * -(-columns // _TILE)
    if product.transpose_a and blocks <= multiprocessors:
        return None
    busy = rows * columns / _TILE**2 / (multiprocessors * _rounds(blocks, multiprocessors))
    if busy < _BUSY:
        return None
    kind = (_SIMT, _TILE_128_128)
    return next((each for each in again(0) if each.kind == kind and each.told.parts == 1), None)


def _simt_small(
    product: Product, proposed: Sequence[Algorithm], again: Callable[[int], Sequence[Algorithm]], multiprocessors: int
) -> Algorithm | None:
    """Return the result of the rules that apply to float32's tiles for small matrices."""
    found = _short_parts(product, proposed, again, multiprocessors)
    return _even_tiles(product, proposed, again, multiprocessors) if found is None else found


def _rounds(blocks: int, multiprocessors: int) -> int:
    """Return how many block times a multiprocessor needs, when two blocks share it and each then takes twice as long.

    At first, blocks are spread over the multiprocessors. Later, the remaining ones go in pairs to the next free one.
    """
    pairs, left = divmod(blocks, 2 * multiprocessors)
    if not pairs:
        return 1 if left <= multiprocessors else 2
    return 2 * (pairs + (left > 0))


_TILE, _BUSY = 128, 0.9


def _spread(product: Product, proposed: Sequence[Algorithm], again: object, multiprocessors: int) -> Algorithm | None:
    """Return a proposal with smaller blocks, for one column or a few, if the first proposal leaves the GPU idle.

    If less than a twentieth of the GPU works on long sums, any proposal that uses a tenth is faster (1.6 to 2.8 times).
    Among float32's kernels for a few columns, the first variant is slower than the second if both are proposed (by 3 to
    36 %). Among the kernels for one column, in float32 and float64, the variant with many rows in a block is 5 to 25 %
    slower than the one with fewer. Matrices so large that both fill the GPU many times are an exception.
    """
    first = proposed[0]
    if first.told.waves < _IDLE and first.told.parts == 1 and _length(product) >= _LONG:
        return next((each for each in proposed if each.told.waves >= 2 * _IDLE), None)
    if first.kind[0] == _FEW_COLUMNS:
        if product.a.dtype != "float32" or first.told.option != _FIRST_VARIANT:
            return None
        return next((each for each in proposed if each.kind[0] == _FEW_COLUMNS and _is_second(each.told)), None)
    wide = dtype(product.a.dtype).itemsize >= 4
    if first.told.option == _MANY_ROWS and wide:
        return next((each for each in proposed if _is_spread(each)), None)
    return None


def _is_second(told: Told) -> bool:
    return told.option == _SECOND_VARIANT and told.parts == 1


def _is_spread(each: Algorithm) -> bool:
    told = each.told
    return each.kind[0] == _ONE_COLUMN and told.option == _FEWER_ROWS and told.parts == 1 and told.waves < _MANY_WAVES


_IDLE, _LONG, _MANY_WAVES = 0.05, 256, 10


def _undivided(
    product: Product, proposed: Sequence[Algorithm], again: Callable[[int], Sequence[Algorithm]], multiprocessors: int
) -> Algorithm | None:
    """Return a proposal with unsplit sums over k for long and narrow matrices.

    With parts, more multiprocessors read the matrices, at the price of a second kernel. But blocks of 64 rows that
    cover 0.4 of the multiprocessors already saturate memory bandwidth, so nothing is gained from 25 rows per
    multiprocessor on: without parts such products take 0.84 to 1.01 of the time. Wide products are not limited by
    memory bandwidth, so parts pay there.
    """
    narrow, long = sorted((product.d.rows, product.d.columns))
    if proposed[0].told.parts == 1 or product.batch > 1 or long < _ROWS * multiprocessors or narrow > _NARROW:
        return None
    whole = next(iter(again(0)), None)
    return whole if whole is not None and whole.kind[0] == _HOPPER and whole.told.parts == 1 else None


_ROWS, _NARROW = 25, 192

_RULES = {
    _PERSISTENT: _busy_clusters,
    _IN_PLACE: _filled,
    _SIMT: _simt,
    _SIMT_SMALL: _simt_small,
    _FEW_COLUMNS: _spread,
    _ONE_COLUMN: _spread,
    _HOPPER: _undivided,
}


def is_stand_in(product: Product, algorithm: Algorithm, capability: tuple[int, int]) -> bool:
    """Return True if an algorithm is a slower kernel, so that the product without epilogue may have a faster one.

    If 16-bit rows are not aligned, GELU uses kernels without tensor cores, or older ones: they are 1.1 to 4 times
    slower than the plain product and a kernel for GELU. float64 with a bias uses older tensor-core kernels, which are
    up to twice as slow. For small float64 products, the extra kernel takes longer than it saves, unless they have long
    sums and few blocks.
    """
    if capability != _MEASURED:
        return False
    number, k = algorithm.kind[0], _length(product)
    m, n = product.d.rows, product.d.columns
    operations, numbers = 2 * m * n * k * product.batch, (m * k + k * n + m * n) * product.batch
    if product.a.dtype == "float64":
        told = algorithm.told
        idle = told is not None and told.parts == 1 and told.waves < _FIFTH and k >= _LONG_SUMS
        return number in _OLD_FLOAT64 and (operations >= _LONG_FLOAT64 or numbers >= _MANY_NUMBERS or idle)
    return number in _STAND_INS and operations >= _LONGER_THAN_A_LAUNCH


_LONG_FLOAT64, _MANY_NUMBERS, _LONGER_THAN_A_LAUNCH = 2**29, 2**23, 2**20
_FIFTH, _LONG_SUMS = 0.2, 2000


def _length(product: Product) -> int:
    """Return how many products are added up for each element."""
    return product.a.rows if product.transpose_a else product.a.columns
