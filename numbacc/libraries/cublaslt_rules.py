"""Which of the proposals of cuBLASLt's heuristics to take without measuring, and what they are known to get wrong.

Their first proposal is within 2 % of what torch's cuBLAS takes, or faster, for 92 of 100 products. The rules below put
right what it was seen to miss. They were found on 1,330 measured products (an H200, cuBLASLt 13.1, the L2 cache
flushed) and held on 250 others; none made a product of either slower by more than 1 %. docs/gemm.md has the figures.
Numbers of algorithms, tiles and options are the library's own, so the rules are asked where they were measured only, on
GPUs of compute capability 9.0.

"Waves" is how often an algorithm's blocks fill the GPU. For the kernels of `_HOPPER` and `_SIMT` that is said of one
part of a sum over k, for those of `_IN_PLACE` and `_SIMT_SMALL` of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..base.dtypes import dtype
from .choices import Algorithm, Wrong
from .products import Product

#: Kernels of Hopper's tensor cores ("nvjet"), and those that stay on the GPU in clusters of blocks ("persistent").
_HOPPER, _PERSISTENT = 66, 39
#: float32 without tensor cores: in tiles, in tiles for small matrices.
_SIMT, _SIMT_SMALL = 55, 20
#: Sums over k in parts that are added up in D, in no order: not deterministic.
_IN_PLACE = 10
#: A few columns ("gemmSN"), and one ("gemv").
_FEW_COLUMNS, _ONE_COLUMN = 11, 13
#: Slower kernels that stand in where others lack an epilogue: of 16 bits, and of float64's older tensor cores.
_STAND_INS = {16, 41, 42, 56}
_OLD_FLOAT64 = {11, 22}

#: Options of `_ONE_COLUMN`: blocks of many rows, and of fewer. Options of `_FEW_COLUMNS`.
_MANY_ROWS, _FEWER_ROWS = 11, 73
_FIRST_VARIANT, _SECOND_VARIANT = 0, 1

#: cuBLASLt 13.1's kernels for one column, proposed for 16-bit products with BGRADB, give sums over k that have nothing
#: to do with B.
WRONG = (Wrong(_ONE_COLUMN, lambda product: product.epilogue.startswith("BGRAD"), seen=130100),)

_MEASURED = (9, 0)


class Told(NamedTuple):
    """Properties of a proposal that cuBLASLt tells.

    Attributes:
        waves: how often its blocks fill the GPU.
        parts: into how many parts it splits sums over k; 1 where it does not, or the kernel itself decides.
        cluster: the library's number of the shape of its clusters of blocks.
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
    """The proposal to take; None where there is none. Where the first is deterministic, so is it.

    Args:
        product: what is computed.
        proposed: what the heuristics propose, best first.
        again: asks them anew, for algorithms with at most so many bytes of scratch memory.
        capability, multiprocessors: the GPU's.
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
    """The first's twin whose clusters leave no multiprocessor idle.

    Persistent kernels run as many blocks as the GPU holds. Where the first's clusters do not divide its
    multiprocessors, and the same kernel is proposed with clusters that do, that one is faster: by 4 to 15 %, for DGELU
    of large matrices.
    """
    first = proposed[0]
    if first.told.waves > _ONE_WAVE:
        return None
    full = (each for each in proposed if each.kind == first.kind and abs(each.told.waves - 1) < 1 - _ONE_WAVE)
    return next(full, None)


_ONE_WAVE = 0.999


def _filled(product: Product, proposed: Sequence[Algorithm], again: object, multiprocessors: int) -> Algorithm | None:
    """For a sum in place that leaves two thirds of the GPU idle: more parts.

    Best are parts that are added up in order (1.2 to 1.8 times as fast, and deterministic), or else more parts in
    place (by 8 to 16 %).
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
#: From some 70 parts on, adding them up takes longer than was gained.
_MOST_PARTS = 33


def _simt(
    product: Product, proposed: Sequence[Algorithm], again: Callable[[int], Sequence[Algorithm]], multiprocessors: int
) -> Algorithm | None:
    """For float32 without tensor cores: the first of the rules below that has something to say."""
    for rule in (_few_columns, _small_tiles, _even_tiles):
        found = rule(product, proposed, again, multiprocessors)
        if found is not None:
            return found
    return None


def _few_columns(
    product: Product, proposed: Sequence[Algorithm], again: Callable[[int], Sequence[Algorithm]], multiprocessors: int
) -> Algorithm | None:
    """For a few columns: the kernels made for them, instead of large tiles in parts.

    They add up all of k in one block, which is faster (1.3 to 1.9 times) than a second kernel that adds up parts, as
    long as k is short and all blocks run at once.
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
    """For few columns and long sums in tiles of 128 x 32 that leave the GPU idle: tiles of 32 x 32, in as many parts.

    The heuristics propose them only where scratch memory is short. They take 0.71 to 0.92 of the time; where the larger
    tiles keep a tenth of the GPU busy, more.
    """
    first = proposed[0]
    if first.kind != (_SIMT, _TILE_128_32) or first.told.parts == 1 or first.told.waves >= _TENTH:
        return None
    small = [each for each in again(_LITTLE_SCRATCH) if each.kind == (_SIMT, _TILE_32_32) and each.told.parts > 1]
    return max(small, key=lambda each: each.told.waves, default=None)


#: The library's numbers of tiles.
_TILE_32_32, _TILE_128_32, _TILE_128_128 = 11, 16, 20
_TENTH, _LITTLE_SCRATCH = 0.1, 2**20


def _even_tiles(
    product: Product, proposed: Sequence[Algorithm], again: Callable[[int], Sequence[Algorithm]], multiprocessors: int
) -> Algorithm | None:
    """For large matrices: tiles of 128 x 128 and sums in one part, where these keep the GPU busy to the end.

    That kernel is the fastest per tile, and the heuristics rarely propose it first. It takes 0.91 to 0.98 of the time
    where nine tenths of the GPU are busy all the time (0.92 to 1.00 for B that is transposed), and up to four times as
    long where few are.
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


def _rounds(blocks: int, multiprocessors: int) -> int:
    """How often a multiprocessor works off a block, where two share it, which takes each twice as long.

    At first blocks are spread; later those that are left go in pairs to whichever is free.
    """
    pairs, left = divmod(blocks, 2 * multiprocessors)
    if not pairs:
        return 1 if left <= multiprocessors else 2
    return 2 * (pairs + (left > 0))


_TILE, _BUSY = 128, 0.9


def _spread(product: Product, proposed: Sequence[Algorithm], again: object, multiprocessors: int) -> Algorithm | None:
    """For one column, or a few: smaller blocks where the first's leave the GPU idle.

    Where less than a twentieth of the GPU works at long sums, any proposal that uses a tenth is faster (1.6 to 2.8
    times). Of float32's kernels for a few columns, the first variant is slower than the second where both are proposed
    (by 3 to 36 %). Of those for one column, in float32 and float64, the variant that gives a block many rows is slower,
    by 5 to 25 %, than the one that gives it fewer, but for matrices so large that either fills the GPU many times.
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
    """For long and narrow matrices: sums over k in one part.

    Parts put more multiprocessors to work at reading the matrices, at the price of a second kernel. Blocks of 64 rows
    that cover 0.4 of the multiprocessors read as fast as the memory can, so that from 25 rows per multiprocessor on
    nothing is gained: without parts such products take 0.84 to 1.01 of the time. Wide ones are no longer bound by
    reading: there parts pay.
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
    _SIMT_SMALL: _even_tiles,
    _FEW_COLUMNS: _spread,
    _ONE_COLUMN: _spread,
    _HOPPER: _undivided,
}


def is_stand_in(product: Product, algorithm: Algorithm, capability: tuple[int, int]) -> bool:
    """True where an algorithm is a slower kernel, so that the product without epilogue may have a faster one.

    Where rows of 16 bits are not aligned, GELU is on kernels without tensor cores, or on older ones: 1.1 to 4 times
    slower than the plain product and a kernel for GELU. float64 with a bias is on the tensor cores' older kernels, up
    to twice slower; of small products, unless they have long sums and few blocks, the kernel behind takes longer.
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
    """How many products each element is the sum of."""
    return product.a.rows if product.transpose_a else product.a.columns
