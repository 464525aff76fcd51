"""Launches of the flash attention kernels: tensor maps, tuples of addresses, grids."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ...base.dtypes import TABLE
from ...runtime import tensor_maps
from ...runtime.launch_order import AddressOf, MapOf, TensorOrder
from .flash_spec import BLOCK, BLOCK_WORDS, ROWS, WIDE, FlashSpec, WarpTiles

DTYPES, HEAD_DIMS = ("bfloat16", "float16"), {"forward": (64, 128, 256), "backward": (64, 128, 256)}


class Matrices(NamedTuple):
    """An array (batch, heads, rows, head dimension), whose last axis is contiguous.

    Attributes:
        number: the array's number in the launch.
        steps: bytes from one batch element, head and row to the next: multiples of 16. The address is one, too.
    """

    number: int
    steps: tuple[int, int, int]


class Elements(NamedTuple):
    """An array of elements for (batch, head, query, key).

    Attributes:
        number: the array's number in the launch.
        dtype: float32, bfloat16, float16 or int32.
        steps: bytes from one batch element, head, query and key to the next; 0 where the array broadcasts.
    """

    number: int
    dtype: str
    steps: tuple[int, int, int, int]


class BlockMap(NamedTuple):
    """Lists of blocks of 128 queries (backward: 64) and 128 keys that are not empty.

    A row is a block of queries in the forward pass, and one of keys in the backward pass. Its list has the numbers of
    blocks along the other axis: 2 number + 1 if the mask cuts the block, 2 number if all pairs are visible. The rest
    of a list is 1.

    Attributes:
        counts: the int32 array with the length of each list: an AddressOf, or an address.
        lists: the same for the int32 array of the lists, each `width` long.
        steps: rows from one batch element and head to the next; 0 where the map broadcasts.
        width: blocks of a row.
        bits: the int32 array of the bits of all blocks, see `flash_blocks`, or 0. It replaces the mask.
    """

    counts: Any
    lists: Any
    steps: tuple[int, int]
    width: int
    bits: Any = 0


class FlashProblem(NamedTuple):
    """A call of flash attention.

    Attributes:
        dtype: of all matrices.
        shape: (batch, heads, heads of keys and values, queries, keys, head dimension). Arrays may have fewer elements.
        scale: factor of the scores, positive.
        score, slopes, mask: as in `FlashSpec`.
        is_causal: whether a query sees only keys up to its own position + shift + right (keys - queries).
        shift, right: integers.
        operands: arrays of elements.
        gradients: (operand, float32 array of its gradient), to which the backward kernel adds.
        blocks: lists of blocks, or None.
        lengths: numbers of the int32 arrays of queries and keys of each batch element, or None.
        widths: elements of a query or key, and of a value: multiples of 8, at most the head dimension; None if they
            are equal to it.
        is_real: as in `FlashSpec`.
    """

    dtype: str
    shape: tuple[int, int, int, int, int, int]
    scale: float
    score: Any = None
    slopes: Any = None
    mask: Any = None
    is_causal: bool = False
    shift: int = 0
    right: int = 0
    operands: tuple[Elements, ...] = ()
    gradients: tuple[tuple[int, Elements], ...] = ()
    blocks: BlockMap | None = None
    lengths: tuple[int, int] | None = None
    widths: tuple[int, int] | None = None
    is_real: bool = True

    @property
    def stats_step(self) -> int:
        """Bytes from the largest score of a row to log(sum of exp(score - largest)); 0 if their sum is stored."""
        batch, heads, _, queries, *_ = self.shape
        return 4 * batch * heads * queries if self.score is not None else 0


def supports(problem: FlashProblem, direction: str) -> bool:
    """Return whether the kernel computes a problem. Its matrices need aligned addresses and steps, too."""
    is_scaled = problem.scale > 0 or problem.score is not None
    return problem.dtype in DTYPES and problem.shape[5] in HEAD_DIMS[direction] and is_scaled


def spec_of(problem: FlashProblem, direction: str, tiles: WarpTiles | None = None) -> FlashSpec:
    """Return the spec of a kernel: of one with mma.sync, if its tiles are given."""
    if direction in ("prepare", "finish"):
        score = problem.score if direction == "prepare" else None
        return FlashSpec(direction, problem.dtype, problem.shape[5], score, tiles=tiles)
    is_backward = direction == "backward"
    return FlashSpec(
        direction, problem.dtype, problem.shape[5], problem.score, problem.slopes if is_backward else None,
        problem.mask, tuple([(each.dtype, _along(each)) for each in problem.operands]),
        tuple([(number, _along(each)) for number, each in problem.gradients]) if is_backward else (),
        problem.is_real, problem.is_causal, problem.blocks is not None,
        problem.blocks is not None and problem.blocks.bits != 0, problem.lengths is not None, tiles,
    )  # fmt: skip


def _along(view: Elements) -> str:
    """Return the letters of `FlashSpec.operands`."""
    adjacent = TABLE[view.dtype].itemsize
    return "".join("0" if not step else "1" if step == adjacent else "n" for step in view.steps[2:])


def forward_order(
    problem: FlashProblem, q: Matrices, k: Matrices, v: Matrices, out: Matrices, stats: int, device: int,
    tiles: WarpTiles | None = None,
) -> TensorOrder:  # fmt: skip
    """Return the launch of the forward pass.

    Args:
        tiles: of the kernel with mma.sync; None for the kernel with wgmma.
        stats: number of a contiguous float32 array (2, batch, heads, queries): the largest score of each row, and
            log(sum of exp(score - largest)); -inf and 0 if the row sees no key. Without a score function,
            (batch, heads, queries): their sum.
    """
    spec, (batch, heads, kv_heads, queries, keys, _) = spec_of(problem, "forward", tiles), problem.shape
    # Heads that are computed at once share the L2 cache: few, but enough for the last blocks to be short.
    neighbours = max(n for n in range(3) if heads % (1 << n) == 0)
    matrices: tuple[Any, ...] = (
        _map(problem, q, heads, queries, ROWS), _map(problem, k, kv_heads, keys, spec.keys),
        _map(problem, v, kv_heads, keys, spec.keys, 1), _map(problem, out, heads, queries, ROWS, 1),
    ) if tiles is None else _addresses(q, k, v, out)  # fmt: skip
    parameters = (
        *matrices, AddressOf(stats), *_elements(problem.operands), *_rest(problem), *_widths(problem, tiles),
        neighbours, problem.stats_step, *scales(problem),
    )  # fmt: skip
    grid = -(-queries // spec.queries) << neighbours, heads >> neighbours, batch
    return TensorOrder(spec, device, grid, (spec.threads, 1, 1), (1, 1, 1), spec.shared_bytes, parameters)


def _map(problem: FlashProblem, view: Matrices, heads: int, rows: int, high: int, which: int = 0) -> MapOf:
    """Return the tensor map of queries or keys (0), or of values or results (1). The engine reads 0 beyond them."""
    shape, steps = (problem.shape[0], heads, rows, _width(problem, which)), (*view.steps, 2)
    return MapOf(view.number, tensor_maps.fields_of(problem.dtype, 2, shape, steps, (1, 1, high, WIDE), 128))


def _addresses(*views: Matrices) -> tuple[Any, ...]:
    """Return the address of each array, with its steps."""
    return tuple([[AddressOf(each.number), *each.steps] for each in views])


def _widths(problem: FlashProblem, tiles: WarpTiles | None) -> tuple[int, ...]:
    """Return the elements of a query and of a value, which kernels without tensor maps need."""
    return () if tiles is None else (_width(problem, 0), _width(problem, 1))


def _width(problem: FlashProblem, which: int) -> int:
    return problem.shape[5] if problem.widths is None else problem.widths[which]


def _elements(views: tuple[Elements, ...]) -> list[list[Any]]:
    """Return addresses, and steps along batch, heads, queries and keys, of at least one array."""
    if not views:
        return [[0]] * 5
    return [[AddressOf(each.number) for each in views], *[[each.steps[axis] for each in views] for axis in range(4)]]


def _rest(problem: FlashProblem) -> list[Any]:
    """Return the parameters for lists of blocks, lengths, sizes and the causal mask."""
    _, heads, kv_heads, queries, keys, _ = problem.shape
    found, lengths = problem.blocks, problem.lengths
    lists: list[Any] = [0] * 6
    if found is not None:
        lists = [found.counts, found.lists, found.bits, *found.steps, found.width]
    sizes = [0, 0] if lengths is None else [AddressOf(lengths[0]), AddressOf(lengths[1])]
    return [*lists, *sizes, queries, keys, heads, heads // kv_heads, problem.shift, problem.right]


def scales(problem: FlashProblem) -> tuple[float, float]:
    """Return the scale of scores for the score function, and the factor that makes exponents of base 2 after it."""
    log2e = math.log2(math.e)
    return problem.scale, log2e if problem.score is not None else problem.scale * log2e


def rows_of(n: int) -> int:
    """Return the number of rows of a block map."""
    return -(-n // BLOCK)


def backward_order(
    problem: FlashProblem,
    q: Matrices,
    k: Matrices,
    v: Matrices,
    dout: Matrices,
    dk: Matrices,
    dv: Matrices,
    prepared: int,
    dq: int,
    device: int,
    tiles: WarpTiles | None = None,
) -> TensorOrder:
    """Return the launch of the backward pass, after that of `prepare_order`.

    Args:
        prepared: number of the array that `prepare_order` fills.
        dq: number of a contiguous float32 array (batch, heads, queries rounded up to a multiple of 128, head dim).
            The kernel adds the gradient of queries divided by the scale; `finish_order` multiplies and converts it.
            64 queries lie as the kernel's threads have them: 64 columns, then 8 columns, then four numbers of a thread.
            With mma.sync: 8 columns, then 16 queries, then a number of each of 32 threads.
        tiles: as in `forward_order`.
    """
    spec, (batch, heads, kv_heads, queries, keys, _) = spec_of(problem, "backward", tiles), problem.shape
    grid = -(-keys // spec.keys), kv_heads, batch
    matrices: tuple[Any, ...] = (
        _map(problem, q, heads, queries, ROWS), _map(problem, k, kv_heads, keys, spec.keys),
        _map(problem, v, kv_heads, keys, spec.keys, 1), _map(problem, dout, heads, queries, ROWS, 1),
        _map(problem, dk, kv_heads, keys, ROWS), _map(problem, dv, kv_heads, keys, ROWS, 1),
    ) if tiles is None else _addresses(q, k, v, dout, dk, dv)  # fmt: skip
    parameters = (
        *matrices, AddressOf(prepared), AddressOf(dq), *_elements(problem.operands),
        *_elements(tuple([view for _, view in problem.gradients])), *_rest(problem), *_widths(problem, tiles),
        *scales(problem),
    )  # fmt: skip
    return TensorOrder(spec, device, grid, (spec.threads, 1, 1), (1, 1, 1), spec.shared_bytes, parameters)


def prepare_order(
    problem: FlashProblem, out: Matrices, dout: Matrices, stats: int, prepared: int, dq: int, device: int
) -> TensorOrder:
    """Return the launch that computes rowsum(out * dout), and sets the sums of gradients of queries to zero.

    Args:
        stats: number of the array of the forward pass.
        prepared: number of a float32 array (batch, heads, blocks of 128 queries, 2, 3, 64). For each query it gets the
            maximum, the reciprocal of the sum, and rowsum(out * dout); zeros beyond the last query.
        dq: as in `backward_order`.
    """
    spec, (batch, heads, _, queries, *_) = spec_of(problem, "prepare"), problem.shape
    count = batch * heads * rows_of(queries) * BLOCK
    steps = [AddressOf(out.number), *out.steps, AddressOf(dout.number), *dout.steps]
    parameters = (
        *steps, AddressOf(stats), AddressOf(prepared), AddressOf(dq), queries, rows_of(queries) * BLOCK, heads,
        problem.stats_step, _width(problem, 1),
    )  # fmt: skip
    grid = count * problem.shape[5] // 8 // spec.threads
    return TensorOrder(spec, device, (grid, 1, 1), (spec.threads, 1, 1), (1, 1, 1), 0, parameters)


def finish_order(
    problem: FlashProblem, sums: int, dq: Matrices, device: int, tiles: WarpTiles | None = None
) -> TensorOrder:
    """Return the launch that multiplies the sums of gradients of queries by the scale, and converts them.

    Args:
        tiles: the same as of the backward kernel.
    """
    spec, (batch, heads, _, queries, *_) = spec_of(problem, "finish", tiles), problem.shape
    count = batch * heads * rows_of(queries) * BLOCK // 2
    parameters = (
        AddressOf(sums),
        AddressOf(dq.number),
        *dq.steps,
        queries,
        rows_of(queries) * BLOCK,
        heads,
        count,
        _width(problem, 0),
        problem.scale,
    )
    grid = count * problem.shape[5] // 8 // spec.threads
    return TensorOrder(spec, device, (grid, 1, 1), (spec.threads, 1, 1), (1, 1, 1), 0, parameters)


# ---------------------------------------------------------------- lists of blocks


def map_shape(
    scores: tuple[int, int, int, int], dependent: tuple[bool, bool], is_backward: bool
) -> tuple[int, int, int, int]:
    """Return the shape of the states of all blocks: batch and heads, or 1, then rows and columns of blocks.

    Args:
        scores: (batch, heads, queries, keys).
        dependent: whether the mask depends on the batch element, and on the head.
        is_backward: whether a row is a block of keys, as in the backward kernel.
    """
    batch, heads = (n if depends else 1 for n, depends in zip(scores, dependent, strict=False))
    queries, keys = (rows_of(n) for n in scores[2:])
    return (batch, heads, keys, 2 * queries) if is_backward else (batch, heads, queries, keys)


def map_words(shape: tuple[int, int, int, int], is_backward: bool) -> int:
    """Return the number of words of the bits of a row of a block map."""
    return shape[3] * BLOCK_WORDS // (2 if is_backward else 1)


def block_map(shape: tuple[int, int, int, int], counts: Any, lists: Any, bits: Any) -> BlockMap:
    """Return the map whose arrays `map_orders` fills: (batch, heads, rows) counts, and a list and bits for each."""
    batch, heads, rows, columns = shape
    return BlockMap(counts, lists, (heads * rows if batch > 1 else 0, rows if heads > 1 else 0), columns, bits)


def map_orders(
    mask: Any, scores: tuple[int, int, int, int], shape: tuple[int, int, int, int], cells: Elements | None,
    states: Any, blocks: BlockMap, is_backward: bool, device: int,
) -> tuple[TensorOrder, TensorOrder]:  # fmt: skip
    """Return the launches that find out which blocks a mask leaves, and that list them.

    Args:
        mask: the formula of (batch, head, query, key) -> (whether the query sees the key,); not used with cells.
        scores: (batch, heads, queries, keys).
        shape: as `map_shape` returns it.
        cells: an array that has a truth value for each score as uint8, or None. It needs bits.
        states: an int32 array of this shape, as in `BlockMap`.
    """
    name, views = ("states", ()) if cells is None else ("cells", (AddressOf(cells.number), *cells.steps))
    name = f"{name}_down" if is_backward else name
    spec = FlashSpec(name, "bfloat16", 64, mask=mask if cells is None else None)
    batch, heads, rows, columns = shape
    grid = columns // 2 if is_backward else columns, rows, batch * heads
    first = TensorOrder(
        spec, device, grid, (spec.threads, 1, 1), (1, 1, 1), 0 if cells is None else spec.shared_bytes,
        (states, blocks.bits, *views, heads, scores[2], scores[3]),
    )  # fmt: skip
    spec = FlashSpec("lists", "bfloat16", 64)
    parameters = (states, blocks.counts, blocks.lists, columns, blocks.width)
    grid = batch * heads * rows, 1, 1
    return first, TensorOrder(spec, device, grid, (spec.threads, 1, 1), (1, 1, 1), 0, parameters)
