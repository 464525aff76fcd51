"""Everything that the code of a flash attention kernel for Hopper depends on."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...runtime.launch_order import WarpgroupSpec

#: Bytes of a row of a brick in shared memory, and the elements of 16 bits in it.
ROW, WIDE = 128, 64
#: Queries and keys of a block of a block map.
BLOCK = 128
#: Queries that a warpgroup of the forward kernel has, and keys that one of the backward kernel has.
ROWS = 64


class _FlashFields(NamedTuple):
    direction: str
    dtype: str
    head_dim: int
    score: Any = None
    slopes: Any = None
    mask: Any = None
    operands: tuple[str, ...] = ()
    gradients: tuple[tuple[int, str], ...] = ()
    is_causal: bool = False
    has_map: bool = False
    has_lengths: bool = False


class FlashSpec(_FlashFields, WarpgroupSpec):
    """A kernel of flash attention.

    Attributes:
        direction: "forward", "backward"; "prepare" and "finish" before and after the latter.
        dtype: of queries, keys, values and results: "bfloat16" or "float16".
        head_dim: 64, 128 or 256.
        score: the formula of (score, *elements, batch, head, query, key) -> (new score,), or None. All are float32,
            but elements of int32 arrays. The score is scale * (query . key).
        slopes: the formula of its gradients, (gradient, score, *elements, batch, head, query, key) -> (gradient of the
            score, *gradients of elements). None in the forward kernel.
        mask: the formula of (*elements, batch, head, query, key) -> (whether the query sees the key,), or None. The
            indices are int32.
        operands: dtypes of the arrays of elements.
        gradients: (operand, kind) of those whose gradients are computed. The kind is "head" if the array has one
            element for all queries and keys, "key" if it has one for all queries, and otherwise "each".
        is_causal: whether queries see only keys up to their own position plus a shift.
        has_map: whether lists of the blocks that are not empty are given.
        has_lengths: whether batch elements have their own numbers of queries and keys.
    """

    __slots__ = ()

    @property
    def module(self) -> str:
        return f"kernels/attention/flash_{'rows' if self.direction in ('prepare', 'finish') else self.direction}"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.dtype, *self.operands)

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.dtype,)

    @property
    def narrow(self) -> bool:
        return True

    @property
    def threads(self) -> int:
        """Threads of a block: two warpgroups multiply; in the forward kernel, a third one loads."""
        return 384 if self.direction == "forward" else 256

    @property
    def keys(self) -> int:
        """Number of keys of a tile."""
        return BLOCK if self.head_dim <= 128 else 64

    @property
    def queries(self) -> int:
        """Number of queries of a tile."""
        return BLOCK if self.direction == "forward" else 64

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block."""
        row = 2 * self.head_dim
        if self.direction == "forward":  # queries; two stages of keys and values; mbarriers
            return row * (self.queries + 4 * self.keys) + 128
        # Keys and values; two stages of queries, their gradients and statistics; two of gradients of scores.
        stage = 2 * row * self.queries + 1024
        return 2 * row * self.keys + 2 * stage + 4 * self.queries * self.keys + 128

    def described(self, launch: str) -> str:
        return f"flash attention {self.direction}, wgmma, head dimension {self.head_dim}, {launch}"
