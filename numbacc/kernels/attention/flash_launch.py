"""Launches of the flash attention kernels for Hopper: tensor maps, tuples of addresses, grids."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ...runtime import tensor_maps
from ...runtime.launch_order import AddressOf, MapOf, TensorOrder
from .flash_spec import BLOCK, ROWS, WIDE, FlashSpec

DTYPES, HEAD_DIMS = ("bfloat16", "float16"), {"forward": (64, 128, 256), "backward": (64, 128)}


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
    """Lists of blocks of 128 queries and 128 keys that are not empty.

    A row is a block of queries in the forward pass, and one of keys in the backward pass. Its list has the numbers of
    blocks along the other axis: 2 number + 1 if the mask cuts the block, 2 number if all pairs are visible. The rest
    of a list is 1.

    Attributes:
        counts: number of the int32 array with the length of each list.
        lists: number of the int32 array of the lists, each `width` long.
        steps: rows from one batch element and head to the next; 0 where the map broadcasts.
    """

    counts: int
    lists: int
    steps: tuple[int, int]
    width: int


class FlashProblem(NamedTuple):
    """A call of flash attention.

    Attributes:
        dtype: of all matrices.
        shape: (batch, heads, heads of keys and values, queries, keys, head dimension).
        scale: factor of the scores, positive.
        score, slopes, mask: as in `FlashSpec`.
        is_causal: whether a query sees only keys up to its own position + shift + right (keys - queries).
        shift, right: integers.
        operands: arrays of elements.
        gradients: (operand, float32 array of its gradient), to which the backward kernel adds.
        blocks: lists of blocks, or None.
        lengths: numbers of the int32 arrays of queries and keys of each batch element, or None.
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


def supports(problem: FlashProblem, direction: str) -> bool:
    """Return whether the kernel computes a problem. Its matrices need aligned addresses and steps, too."""
    return problem.dtype in DTYPES and problem.shape[5] in HEAD_DIMS[direction] and problem.scale > 0


def spec_of(problem: FlashProblem, direction: str) -> FlashSpec:
    """Return the spec of a kernel."""
    gradients = tuple([(number, _kind(each)) for number, each in problem.gradients])
    gradients = gradients if direction == "backward" else ()
    return FlashSpec(
        direction, problem.dtype, problem.shape[5], problem.score,
        problem.slopes if direction == "backward" else None, problem.mask,
        tuple([each.dtype for each in problem.operands]), gradients, problem.is_causal, problem.blocks is not None,
        problem.lengths is not None,
    )  # fmt: skip


def _kind(view: Elements) -> str:
    along_queries, along_keys = view.steps[2:]
    return "each" if along_queries else "key" if along_keys else "head"


def forward_order(
    problem: FlashProblem, q: Matrices, k: Matrices, v: Matrices, out: Matrices, stats: int, device: int
) -> TensorOrder:
    """Return the launch of the forward pass.

    Args:
        stats: number of a contiguous float32 array (2, batch, heads, queries). The kernel stores the row maximum in
            base 2 (the maximum of score * log2 e, or 0 if the row sees no key), and the sum of
            exp2(score * log2 e - maximum).
    """
    spec, (batch, heads, kv_heads, queries, keys, _) = spec_of(problem, "forward"), problem.shape
    grid = -(-queries // spec.queries) * batch * heads
    parameters = (
        _map(problem, q, heads, queries, ROWS), _map(problem, k, kv_heads, keys, spec.keys),
        _map(problem, v, kv_heads, keys, spec.keys), _map(problem, out, heads, queries, ROWS), AddressOf(stats),
        *_elements(problem.operands), *_rest(problem), 4 * batch * heads * queries, *scales(problem),
    )  # fmt: skip
    return TensorOrder(spec, device, (grid, 1, 1), (spec.threads, 1, 1), (1, 1, 1), spec.shared_bytes, parameters)


def _map(problem: FlashProblem, view: Matrices, heads: int, rows: int, high: int) -> MapOf:
    shape, steps = (problem.shape[0], heads, rows, problem.shape[5]), (*view.steps, 2)
    return MapOf(view.number, tensor_maps.fields_of(problem.dtype, 2, shape, steps, (1, 1, high, WIDE), 128))


def _elements(views: tuple[Elements, ...]) -> list[list[Any]]:
    """Return addresses, and steps along batch, heads, queries and keys, of at least one array."""
    if not views:
        return [[0]] * 5
    return [[AddressOf(each.number) for each in views], *[[each.steps[axis] for each in views] for axis in range(4)]]


def _rest(problem: FlashProblem) -> list[Any]:
    """Return the parameters for lists of blocks, lengths, sizes and the causal mask."""
    _, heads, kv_heads, queries, keys, _ = problem.shape
    found, lengths = problem.blocks, problem.lengths
    lists = [0] * 5 if found is None else [AddressOf(found.counts), AddressOf(found.lists), *found.steps, found.width]
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
) -> TensorOrder:
    """Return the launch of the backward pass, after that of `prepare_order`.

    Args:
        prepared: number of the array that `prepare_order` fills.
        dq: number of a contiguous float32 array (batch, heads, queries rounded up to a multiple of 128, head dim).
            The kernel adds the gradient of queries divided by the scale; `finish_order` multiplies and converts it.
    """
    spec, (batch, heads, kv_heads, queries, keys, _) = spec_of(problem, "backward"), problem.shape
    grid = rows_of(keys) * batch * kv_heads
    parameters = (
        _map(problem, q, heads, queries, ROWS), _map(problem, k, kv_heads, keys, BLOCK),
        _map(problem, v, kv_heads, keys, BLOCK), _map(problem, dout, heads, queries, ROWS),
        _map(problem, dk, kv_heads, keys, ROWS), _map(problem, dv, kv_heads, keys, ROWS),
        AddressOf(prepared), AddressOf(dq), *_elements(problem.operands),
        *_elements(tuple([view for _, view in problem.gradients])), *_rest(problem), *scales(problem),
    )  # fmt: skip
    return TensorOrder(spec, device, (grid, 1, 1), (spec.threads, 1, 1), (1, 1, 1), spec.shared_bytes, parameters)


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
        4 * batch * heads * queries,
    )  # fmt: skip
    return TensorOrder(spec, device, (count // 8, 1, 1), (spec.threads, 1, 1), (1, 1, 1), 0, parameters)


def finish_order(problem: FlashProblem, sums: int, dq: Matrices, device: int) -> TensorOrder:
    """Return the launch that multiplies the sums of gradients of queries by the scale, and converts them."""
    spec, (batch, heads, _, queries, *_) = spec_of(problem, "finish"), problem.shape
    count = batch * heads * queries
    parameters = (
        AddressOf(sums),
        AddressOf(dq.number),
        *dq.steps,
        queries,
        rows_of(queries) * BLOCK,
        heads,
        count,
        problem.scale,
    )
    return TensorOrder(spec, device, (-(-count // 8), 1, 1), (spec.threads, 1, 1), (1, 1, 1), 0, parameters)
