"""Everything that the code of a flash attention kernel depends on."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...runtime.launch_order import WarpgroupSpec

#: Bytes of a row of a brick in shared memory, and the elements of 16 bits in it.
ROW, WIDE = 128, 64
#: Queries and keys of a block of a block map.
BLOCK = 128
#: Words of 32 bits for the scores of a block: two for each of 256 threads.
BLOCK_WORDS = 512
#: Queries that a warpgroup of the forward kernel has, and keys that one of the backward kernel has.
ROWS = 64
#: Tiles of keys and of values that the forward kernel has in shared memory.
STAGES = 2


class WarpTiles(NamedTuple):
    """The tiles of a kernel whose warps multiply on their own, by mma.sync.

    Attributes:
        rows: queries of a warp, 16 or 32; in the backward kernel 16 keys.
        warps: warps of a block; 8 in the backward kernel.
        columns: keys of a tile, in the backward kernel queries: 32 or 64.
        blocks: blocks that should fit a multiprocessor together.
    """

    rows: int
    warps: int
    columns: int
    blocks: int


#: Tiles by direction and head dimension: for GPUs whose blocks may have 163 KiB of shared memory (compute capability
#: 8.0, 9.0, 10.0) and for those with 99 KiB (8.6, 8.9, 12.0).
WARP_TILES = {
    ("forward", 64): (WarpTiles(32, 4, 64, 2), WarpTiles(32, 4, 64, 2)),
    ("forward", 128): (WarpTiles(32, 4, 64, 2), WarpTiles(32, 4, 32, 2)),
    ("forward", 256): (WarpTiles(16, 8, 64, 1), WarpTiles(16, 8, 32, 1)),
    ("backward", 64): (WarpTiles(16, 8, 64, 1), WarpTiles(16, 8, 64, 1)),
    ("backward", 128): (WarpTiles(16, 8, 64, 1), WarpTiles(16, 8, 32, 1)),
}
_LARGE = 163 * 1024


def warp_tiles(direction: str, head_dim: int, shared: int) -> WarpTiles:
    """Return the tiles of a kernel with mma.sync for a GPU whose blocks may have `shared` bytes of shared memory."""
    large, small = WARP_TILES[direction, head_dim]
    return large if shared >= _LARGE else small


#: The end of the module's name, where it is not the direction.
_MODULES = {
    "prepare": "rows", "finish": "rows", "states": "blocks", "states_down": "blocks", "lists": "blocks",
    "cells_down": "cells",
}  # fmt: skip


class _FlashFields(NamedTuple):
    direction: str
    dtype: str
    head_dim: int
    score: Any = None
    slopes: Any = None
    mask: Any = None
    operands: tuple[tuple[str, str], ...] = ()
    gradients: tuple[tuple[int, str], ...] = ()
    is_real: bool = False
    is_causal: bool = False
    has_map: bool = False
    has_bits: bool = False
    has_lengths: bool = False
    tiles: WarpTiles | None = None


class FlashSpec(_FlashFields, WarpgroupSpec):
    """A kernel of flash attention.

    Attributes:
        direction: "forward", "backward"; "prepare" and "finish" before and after the latter; "states" (in the
            order of the forward kernel) or "states_down", and "lists", of the blocks that a mask leaves; "cells" or
            "cells_down" instead of states if an array is the mask.
        dtype: of queries, keys, values and results: "bfloat16" or "float16".
        head_dim: 64, 128 or 256.
        score: the formula of (score, *elements, batch, head, query, key) -> (new score,), or None. Scores are float32,
            and elements of integers have the array's dtype. The score is scale * (query . key).
        slopes: the formula of its gradients, (gradient, score, *elements, batch, head, query, key) -> (gradient of the
            score, *gradients of elements). None in the forward kernel.
        mask: the formula of (*elements, batch, head, query, key) -> (whether the query sees the key,), or None. The
            indices are int32.
        operands: the dtype of each array of elements, and a letter each for queries and keys: "0" if all share an
            element, "1" if neighbours are next to each other in memory, otherwise "n".
        gradients: (operand, its letters) of those whose gradients are computed.
        is_real: whether the indices of a score function are float32, not int32.
        is_causal: whether queries see only keys up to their own position plus a shift.
        has_map: whether lists of the blocks that are not empty are given.
        has_bits: whether bits say which scores of the blocks that the mask cuts are visible.
        has_lengths: whether batch elements have their own numbers of queries and keys.
        tiles: of the kernel with mma.sync, for GPUs without wgmma; None for the kernel with wgmma. The kernel
            "finish" has the same as the backward kernel.
    """

    __slots__ = ()

    @property
    def module(self) -> str:
        name, kind = _MODULES.get(self.direction, self.direction), ""
        if name == self.direction:
            kind = "_mma" if self.tiles else "_wide" if name == "backward" and self.head_dim > 128 else ""
        return f"kernels/attention/flash_{name}{kind}"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.dtype, *[dtype for dtype, _ in self.operands])

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.dtype,)

    @property
    def narrow(self) -> bool:
        return True

    @property
    def is_specific(self) -> bool:
        return self.tiles is None

    @property
    def launch_bounds(self) -> tuple[int, int]:
        return (self.threads, self.tiles.blocks if self.tiles else 1)

    @property
    def threads(self) -> int:
        """Threads of a block: two warpgroups multiply; in the forward kernel, a third one loads."""
        if self.tiles and self.direction not in _MODULES:
            return 32 * self.tiles.warps
        return {"forward": 384, "lists": 128}.get(self.direction, 256)

    @property
    def keys(self) -> int:
        """Number of keys of a tile."""
        if self.tiles and self.direction == "forward":
            return self.tiles.columns
        return BLOCK if self.head_dim <= 128 else 64

    @property
    def queries(self) -> int:
        """Number of queries of a tile."""
        if self.tiles:
            return self.tiles.rows * self.tiles.warps if self.direction == "forward" else self.tiles.columns
        return BLOCK if self.direction == "forward" else 64

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block."""
        row = 2 * self.head_dim
        if self.direction.startswith("cells"):  # a bit for each score
            return BLOCK * BLOCK // 8
        if self.tiles and self.direction == "forward":  # queries; a tile of keys and one of values
            return row * (self.queries + 2 * self.keys)
        if self.tiles:  # keys and values; two tiles of queries, one of their gradients; gradients of scores; statistics
            return row * (2 * BLOCK + 3 * self.queries) + 2 * self.queries * BLOCK + 2 * 768
        if self.direction == "forward":  # queries, which results replace; stages of keys and values; mbarriers
            return row * (self.queries + 2 * STAGES * self.keys) + 128
        # Keys and values; two stages of queries, their gradients and statistics; two of gradients of scores.
        stage, scores = 2 * row * self.queries + 1024, self.queries * self.keys
        wide = 4 * scores if self.head_dim > 128 else 0  # products of keys and queries
        return 2 * row * self.keys + 2 * stage + 4 * scores + wide + 128

    def described(self, launch: str) -> str:
        product = "mma.sync" if self.tiles else "wgmma"
        return f"flash attention {self.direction}, {product}, head dimension {self.head_dim}, {launch}"
