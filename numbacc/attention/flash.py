"""Attention with score and mask functions by numbacc's flash kernels, which do not store scores.

Hopper has kernels with wgmma. Other GPUs run kernels with mma.sync.

The forward pass is one kernel. The backward pass has three: the sums of do o, then all gradients, then dq in q's dtype.
A mask function is evaluated on the GPU once. Kernels skip blocks of 128 queries and 128 keys that it leaves empty, and
read bits of the mask in blocks that it cuts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..base.attention_band import Band
from ..base.dispatch import launcher_class, runtime, simulated, tensor_launcher_class
from ..base.layout import row_major_strides
from ..functions.formula import COPY
from ..kernels.attention import flash_launch as launch
from ..kernels.attention.flash_launch import BlockMap, Elements, FlashProblem, Matrices
from ..kernels.attention.flash_spec import BLOCK, WARP_TILES, WarpTiles, warp_tiles
from ..kernels.primitives.device.attention_tiles import ELEMENT_LOADS
from ..libraries.cudnn_graph import ALIGNED
from ..runtime.launch_order import AddressOf
from .masks import band_of
from .problem import AttentionProblem
from .score_functions import FusedScore, ScoreFunction, Scoring, band_function, depends_on, named_mask
from .staging import Array, Constants, Stage, Unchecked, packed, unpacked

#: True lets the simulator run the kernels, too. That takes seconds for a few tiles.
simulates_kernels = False
#: False lets Hopper run the kernels of other GPUs, for tests.
prefers_wgmma = True
#: Kernels count positions in float32 below this length, if the score function allows it.
_MOST_REAL = 2**17
#: Larger lengths and numbers of blocks are not supported.
_MOST, _MOST_BLOCKS = 2**30, 2**16
#: Bytes of the bits of a mask function. Kernels evaluate functions that need more, for each score.
_MOST_BITS = 2**27


@lru_cache(maxsize=1)
def _without_functions() -> Scoring:
    return Scoring(ScoreFunction(None, None, False), ())


def runs(problem: AttentionProblem) -> bool:
    """Return whether the flash kernels compute a problem."""
    scoring, found, call = problem.call.scoring or _without_functions(), problem.geometry, problem.call
    is_backward = call.direction == "backward"
    if call.direction not in launch.HEAD_DIMS or problem.options.dropout:
        return False
    if not (simulates_kernels or not simulated()):
        return False
    if "bias" in problem.inputs or "alibi" in problem.inputs or (is_backward and problem.options.deterministic):
        return False
    if problem.dtype.name not in launch.DTYPES or not _head_dim(problem):
        return False
    if problem.scale <= 0 and not scoring.function.has_score:
        return False
    if max(found.queries, found.keys) > _MOST or found.batch * found.heads >= _MOST_BLOCKS:
        return False
    if -(-found.queries // BLOCK) >= _MOST_BLOCKS:
        return False
    if (found.is_packed or found.page) and (found.width % 8 or found.value_width % 8):
        return False
    band = problem.band
    if band.lower is not None and band.bottom_right and problem.has_lengths:
        return False  # where the window is depends on the lengths
    return all(_loaded(each.dtype) in ELEMENT_LOADS for each in scoring.operands)


def has_wgmma(problem: AttentionProblem) -> bool:
    """Return whether the kernels with wgmma run a problem, not those with mma.sync."""
    return prefers_wgmma and runtime().capability(problem.inputs["q"].device) == (9, 0)


def _tiles(problem: AttentionProblem) -> WarpTiles | None:
    """Return the tiles of the kernel with mma.sync; None for the kernel with wgmma."""
    if has_wgmma(problem):
        return None
    shared = launcher_class().limits(problem.inputs["q"].device).shared
    return warp_tiles(problem.call.direction, _head_dim(problem), shared)


def _loaded(dtype: np.dtype[Any]) -> str:
    """Return the name of the dtype that elements are loaded as: truth values as integers."""
    return "uint8" if dtype == np.bool_ else dtype.name


def _padded(width: int) -> int:
    return -(-width // 8) * 8


def _head_dim(problem: AttentionProblem) -> int:
    """Return the head dimension of the kernel, or 0 if there is none for the arrays' widths."""
    width = _padded(max(problem.geometry.width, problem.geometry.value_width))
    direction = problem.call.direction
    found = launch.HEAD_DIMS[direction] if has_wgmma(problem) else [dim for way, dim in WARP_TILES if way == direction]
    return min((each for each in found if each >= width), default=0)


class Flash:
    """The steps of attention by flash kernels.

    Args:
        stage: receives the steps.
    """

    def __init__(self, stage: Stage):
        problem = self._problem = stage.problem
        self._stage, self._found = stage, problem.geometry
        self._scoring = problem.call.scoring or _without_functions()
        self._is_backward = problem.call.direction == "backward"
        self._band, self._parts = self._functions()
        self._arrays: list[Array] = []
        self._keep: Any = None

    def build(self) -> str:
        """Add all steps, and return a text that describes the kernels."""
        stage, found = self._stage, self._found
        stage.lengths()
        for name in ("do", "q", "k", "v", "o") if self._is_backward else ("q", "k", "v"):
            self._bring(name)
        for name in ("dq", "dk", "dv") if self._is_backward else ("out",):
            self._prepare(name)
        self._backward() if self._is_backward else self._forward()
        product = "wgmma" if has_wgmma(self._problem) else "mma.sync"
        return (
            f"flash kernels of numbacc: {product}, head dimension {_head_dim(self._problem)}"
            + (", blocks that the mask leaves" if self._parts.mask_alone is not None else "")
            + (f", {found.group} query heads for each key head" if found.group > 1 else "")
        )

    # ------------------------------------------------------------ functions

    def _functions(self) -> tuple[Band, FusedScore]:
        """Return the causal mask, or none, and the functions. A window becomes a mask function."""
        function, found, band = self._scoring.function, self._found, self._problem.band
        mask = function.mask
        if mask is not None and (named := named_mask(mask, found.queries, found.keys)) is not None:
            band, mask = band_of(named[0]).within(found.queries, found.keys), None
        if band.lower is not None:
            shift = band.shift(found.queries, found.keys)
            mask = band_function(band.lower + shift, None if band.upper is None else band.upper + shift)
            band = Band()
        return band if mask is None else Band(), function.parts(mask)

    # ------------------------------------------------------------ arrays

    def _bring(self, name: str) -> None:
        """Make sure that the kernels can read an input: 16 bytes at a time."""
        stage = self._stage
        if self._found.is_packed or (self._found.page and name in ("k", "v")):
            unpacked(stage, name)
        elif not self._fits(name):
            stage.copied(name, _padded(stage.arrays[name].lies.shape[3]))

    def _prepare(self, name: str) -> None:
        """Make sure that the kernels can write an output, or write scratch memory that is copied at the end."""
        stage = self._stage
        if self._found.is_packed:
            packed(stage, name)
        elif not self._fits(name):
            stage.returned(name, _padded(stage.arrays[name].lies.shape[3]))

    def _fits(self, name: str) -> bool:
        array = self._stage.arrays[name]
        (*shape, width), (*steps, unit), item = array.lies.shape, array.lies.strides, array.lies.itemsize
        if width % 8 or unit != item or self._stage.address(array.number) % ALIGNED:
            return False
        return all(n == 1 or (step > 0 and step % ALIGNED == 0) for n, step in zip(shape, steps, strict=True))

    def _number(self, array: Array) -> int:
        """Return the number of an array in the launches."""
        for number, each in enumerate(self._arrays):
            if each.number == array.number:
                return number
        self._arrays.append(array)
        return len(self._arrays) - 1

    def _matrices(self, name: str) -> Matrices:
        array = self._stage.arrays[name]
        batch_step, head_step, step, _ = array.lies.strides
        return Matrices(self._number(array), (batch_step, head_step, step))

    def _elements(self, name: str) -> Elements:
        array = self._stage.arrays[name]
        steps = [0 if n == 1 else step for n, step in zip(array.lies.shape, array.lies.strides, strict=True)]
        return Elements(self._number(array), _loaded(array.lies.dtype), tuple(steps))  # type: ignore[arg-type]

    def _stats(self) -> int:
        """Return the number of the array of statistics, which is contiguous."""
        stage, found = self._stage, self._found
        shape = ((2,) if self._scoring.function.has_score else ()) + found.stats_shape
        if not self._is_backward and not stage.has("stats"):
            stage.part("stats", shape, np.float32)
        elif self._is_backward:
            return self._number(stage.plain("stats", shape))
        elif stage.arrays["stats"].lies.strides != row_major_strides(shape, np.dtype(np.float32).itemsize):
            stage.returned("stats", pitch=1)
        return self._number(stage.arrays["stats"])

    def _flash_problem(self) -> FlashProblem:
        problem, found, stage, scoring = self._problem, self._found, self._stage, self._scoring
        names = scoring.names[: len(scoring.names) - scoring.function.has_cells]
        kinds = [each.dtype for each in scoring.operands[: len(names)]]
        has_floats = all(each.kind == "f" or each.name == "bfloat16" for each in kinds)
        is_real = self._parts.is_real and has_floats and max(found.scores) <= _MOST_REAL
        gradients = []
        if self._is_backward:
            for k, name in zip(scoring.wanted, scoring.gradients(), strict=True):
                made = stage.part(f"{name}_sums", stage.arrays[name].lies.shape, np.float32)
                stage.zero(made)
                gradients.append((k, self._elements(f"{name}_sums")))
        band, lengths, blocks = self._band, None, self._blocks()
        mask = None if blocks is not None and blocks.bits != 0 else self._parts.mask
        if problem.has_lengths:
            lengths = self._number(stage.arrays["lengths_q"]), self._number(stage.arrays["lengths_kv"])
        return FlashProblem(
            problem.dtype.name,
            (found.batch, found.heads, found.heads_kv, found.queries, found.keys, _head_dim(problem)),
            problem.scale, self._parts.score, self._parts.slopes if self._is_backward else None, mask,
            band.upper is not None, band.upper or 0, int(band.bottom_right),
            tuple([self._elements(name) for name in names]), tuple(gradients), blocks, lengths,
            (_padded(found.width), _padded(found.value_width)), is_real,
        )  # fmt: skip

    # ------------------------------------------------------------ lists of blocks

    def _blocks(self) -> BlockMap | None:
        """Return the lists of the blocks that a mask leaves, and add steps that make them if an array is the mask."""
        parts, scores, stage = self._parts, self._found.scores, self._stage
        if parts.mask_alone is None:
            return None
        if not self._scoring.function.has_cells:
            shape = launch.map_shape(scores, depends_on(parts.traced_mask), self._is_backward)
            self._keep, blocks = _constant_lists(parts.mask_alone, scores, shape, self._is_backward, stage.device)
            return blocks
        name = self._scoring.names[-1]
        lies = stage.arrays[name].lies
        shape = launch.map_shape(scores, (lies.shape[0] > 1, lies.shape[1] > 1), self._is_backward)
        *outer, _ = shape
        cells = self._elements(name)._replace(number=0)
        arrays = [stage.part("block_states", shape, np.int32), stage.part("block_counts", outer, np.int32)]
        arrays += [stage.part("block_lists", shape, np.int32)]
        arrays += [stage.part("block_bits", (*outer, launch.map_words(shape, self._is_backward)), np.int32)]
        blocks = launch.block_map(shape, *(AddressOf(k) for k in (2, 3, 4)))
        for order in launch.map_orders(
            parts.mask_alone, scores, shape, cells, AddressOf(1), blocks, self._is_backward, stage.device
        ):
            self._launched(order, [stage.arrays[name], *arrays])
        return launch.block_map(shape, *(AddressOf(self._number(each)) for each in arrays[1:]))

    # ------------------------------------------------------------ kernels

    def _launched(self, order: Any, arrays: Sequence[Array], keep: Any = None) -> None:
        launcher = tensor_launcher_class()(order)
        self._stage.add(Unchecked(launcher) if keep is None else _WithLists(launcher, keep), *arrays)

    def _forward(self) -> None:
        device = self._stage.device
        q, k, v, out = (self._matrices(name) for name in ("q", "k", "v", "out"))
        stats, problem = self._stats(), self._flash_problem()
        order = launch.forward_order(problem, q, k, v, out, stats, device, _tiles(self._problem))
        self._launched(order, self._arrays, self._keep)

    def _backward(self) -> None:
        stage, found, device = self._stage, self._found, self._stage.device
        do, q, k, v, o, dq, dk, dv = (self._matrices(name) for name in ("do", "q", "k", "v", "o", "dq", "dk", "dv"))
        rows = launch.rows_of(found.queries)
        stats, problem = self._stats(), self._flash_problem()
        prepared = self._number(stage.part("prepared", (found.batch, found.heads, rows, 2, 3, 64), np.float32))
        shape = (found.batch, found.heads, rows * BLOCK, _head_dim(self._problem))
        sums = self._number(stage.part("dq_sums", shape, np.float32))
        tiles = _tiles(self._problem)
        self._launched(launch.prepare_order(problem, o, do, stats, prepared, sums, device), self._arrays)
        order = launch.backward_order(problem, q, k, v, do, dk, dv, prepared, sums, device, tiles)
        self._launched(order, self._arrays, self._keep)
        self._launched(launch.finish_order(problem, sums, dq, device, tiles), self._arrays)
        for name in self._scoring.gradients():
            source, target = stage.arrays[f"{name}_sums"], stage.arrays[name]
            stage.add(stage.mapped(COPY, source, target), source, target)


def _constant_lists(
    mask: Any, scores: tuple[int, int, int, int], shape: tuple[int, int, int, int], is_backward: bool, device: int,
) -> tuple[Constants, BlockMap]:  # fmt: skip
    """Make lists of the blocks that a mask function leaves. They do not depend on arrays."""
    count, rows = math.prod(shape), math.prod(shape[:3])
    words = rows * launch.map_words(shape, is_backward)
    words = words if 4 * words <= _MOST_BITS else 0

    def blocks(start: int) -> BlockMap:
        counts = start + 4 * words
        return launch.block_map(shape, counts, counts + 4 * rows, start if words else 0)

    def write(handle: int, start: int) -> Any:
        states = runtime().allocate(4 * count, device, handle)
        for order in launch.map_orders(mask, scores, shape, None, states.address, blocks(start), is_backward, device):
            made = tensor_launcher_class()(order)
            made.check(made.launch(handle, 0, (), ()))
        return states

    made = Constants(4 * (words + rows + count), device, write)
    return made, blocks(made.address)


class _WithLists(Unchecked):
    """A launch that reads constant lists, which must live until it has finished."""

    def __init__(self, inner: Any, lists: Constants):
        super().__init__(inner)
        self._lists = lists

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """Launch the inner executable, and note that it reads the lists. A graph keeps this executable."""
        status = super().launch_unchecked(stream, scratch, addresses, ())
        if not runtime().is_capturing(stream):
            runtime().note(stream, self._lists.device, (self._lists,), ())
        return status


def build(stage: Stage) -> str:
    """Add all steps of a problem to a stage; see `Flash.build`."""
    return Flash(stage).build()
