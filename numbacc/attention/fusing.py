"""Fused attention: the arrays of cuDNN's graph, the copies made before it, and the corrections made after it.

cuDNN would silently misread some arrays: those with an address or rows not aligned to 16 bytes, or with vectors whose
size is not a multiple of 16 bytes. Such arrays are copied, and each vector is padded with zeros.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..base.layout import Layout, is_dense, layout
from ..functions.formula import COPY
from ..kernels.attention.varlen import clamped, kept, raised
from ..kernels.elementwise import copy
from ..libraries.cudnn_graph import ALIGNED
from ..runtime.steps import FillWords, Step
from . import biases, versions
from .fused import Drawn, Form, Shape, Sketch, backward, forward
from .fused import dense as dense_form
from .problem import OPERANDS, SCALES, AttentionProblem
from .staging import Array, Stage, bounds, cropped, dense, steps_of

#: Arrays with one vector for each query and each query head.
_OF_QUERIES = ("q", "do", "o", "out", "dq")

#: Queries in a tile of cuDNN's float8 kernels.
_TILE = 128
#: Four NaNs, in either float8 format.
_NANS = b"\x7f" * 4


def is_worth_trying(problem: AttentionProblem) -> bool:
    """Return whether cuDNN may have a fused kernel: for 16-bit and 8-bit floats, without Python functions of scores."""
    return problem.dtype.itemsize <= 2 and problem.geometry.batch > 0 and problem.call.scoring is None


class Fused:
    """The arrays of a graph, and the graph itself.

    Args:
        problem: the call to compute.
        key: `staging.key_of` the addresses of the plan's operands.
    """

    def __init__(self, problem: AttentionProblem, key: Sequence[int]):
        self.problem, self.stage = problem, Stage(problem, key)
        found = problem.geometry
        multiple = ALIGNED // problem.dtype.itemsize
        self._widths = tuple(-(-n // multiple) * multiple for n in (found.width, found.value_width))
        self._forms: dict[str, Form] = {}
        self._arrays: dict[str, Array] = {}
        self.is_backward = problem.call.direction == "backward"
        #: Whether a product writes dq itself: this is deterministic, but takes memory for the gradients of all scores.
        self.is_direct = problem.options.deterministic or problem.options.bias_grad
        #: The sign of the scale, which multiplies q. cuDNN's kernels find the largest score of a row before they scale
        #: it, which only works with a scale above 0. (-scale) (-q) kᵀ is the same; for a scale of 0, q becomes 0.
        self._sign = int(np.sign(np.float32(problem.scale)))
        #: Queries of the graph, and its band. In amax_o, cuDNN 9.19 counts the rows after the last query in the last
        #: tile as if their queries were 0; and on Hopper it lacks a kernel for one float8 query. So the tile is filled
        #: with NaN queries. A maximum ignores their results.
        self._queries, self._band = found.queries, problem.band
        is_filled = problem.is_scaled and (problem.options.return_amax or found.queries == 1)
        if is_filled and not problem.band.shift(found.queries, found.keys):
            self._queries = -(-found.queries // _TILE) * _TILE
            self._band = replace(problem.band, bottom_right=False)
        self._place()

    # ------------------------------------------------------------ arrays

    def _place(self) -> None:
        """Put all arrays where cuDNN can use them; keep the order of the plan's operands if no copy is needed."""
        stage, problem = self.stage, self.problem
        found = problem.geometry
        stage.lengths()
        if versions.needs_lengths(problem):
            for name, longest in (("lengths_q", found.queries), ("lengths_kv", found.keys)):
                word = longest.to_bytes(4, "little")
                stage.add(FillWords(word, found.batch, stage.device), stage.part(name, (found.batch,), np.int32))
        for name in OPERANDS[problem.call.direction]:
            self._level() if name == "stats" else self._rows(name, False)
        if stage.has("bias"):
            self._bias("bias", False)
        if stage.has("alibi"):
            lies = stage.arrays["alibi"].lies
            self._plain("alibi", "alibi", lies.shape, (1, found.heads, 1, 1))
        for name in ("lengths_q", "lengths_kv"):
            if stage.has(name):
                self._take(name, stage.arrays[name], dense_form("int32", found.batch, 1, 1, 1))
        for name in ("page_table_k", "page_table_v"):
            if stage.has(name):
                table = stage.part(f"sheets_{name}", (found.batch, found.pages), np.int32)
                stage.map(clamped(0, found.sheets - 1), stage.arrays[name], table)
                self._take(name, table, dense_form("int32", found.batch, 1, found.pages, 1))
        if problem.options.dropout:
            self._take("seed", stage.word("seed", 0), dense_form("int64", 1, 1, 1, 1))
            self._start()
        if self.is_backward:
            self._outputs_backward()
        else:
            self._outputs_forward()
        if problem.is_scaled:
            for name, array in _numbers(stage):
                self._take(name, array, dense_form("float32", 1, 1, 1, 1))

    def _take(self, name: str, array: Array, form: Form) -> None:
        self._arrays[name], self._forms[name] = array, form

    def _start(self) -> None:
        """Add the start position of dropout's random sequence."""
        stage = self.stage
        if stage.has("offset"):
            source, made = stage.arrays["offset"], stage.part("start", (1,), np.int64)
            one = layout((1,), (8,), np.dtype(np.int64), stage.device)
            stage.add(copy.executable(one, made.lies), source, made)
        else:
            made = stage.word("start", 1)
        self._take("start", made, dense_form("int64", 1, 1, 1, 1))

    def _rows(self, name: str, is_output: bool) -> None:
        """Add queries, keys, values, or an array of the same form."""
        stage, found = self.stage, self.problem.geometry
        array = stage.arrays[name]
        width = self._widths[0 if name in ("q", "k", "dq", "dk") else 1]
        sign = self._sign if name in ("q", "dq") else 1
        is_filled = name in _OF_QUERIES and self._queries > found.queries
        fits = sign == 1 and array.lies.shape[3] == width and stage.is_aligned(array) and _fits(array.lies)
        if is_output and (is_filled or not fits):
            array = stage.returned(name, width, sign, queries=self._queries if is_filled else 0)
        elif not fits:
            array = stage.copied(name, width, sign)
        if is_filled and not is_output:
            array = self._filled(array)
        if not found.is_packed:
            self._take(name, array, _form(array.lies))
            return
        if is_output:
            if not is_dense(array.lies):
                array = stage.returned(name, width)
            # cuDNN does not write tokens that belong to no sequence.
            stage.zero(array)
        _, heads, tokens, _ = array.lies.shape
        head = array.lies.strides[1] // array.lies.itemsize if heads > 1 else width
        # The stride of an axis of length 1 is arbitrary.
        step = array.lies.strides[2] // array.lies.itemsize if tokens > 1 else heads * head
        starts = stage.starts(name, step, np.int64)
        known = f"starts_{'q' if name in _OF_QUERIES else 'kv'}_{step}"
        self._take(known, starts, dense_form("int64", found.batch + 1, 1, 1, 1))
        longest = found.queries if name in _OF_QUERIES else found.keys
        form = Form(array.lies.dtype.name, (found.batch, heads, longest, width), (longest * step, head, step, 1), known)
        self._take(name, array, form)

    def _filled(self, queries: Array) -> Array:
        """Return a copy of the queries, padded with queries of NaN."""
        stage, (batch, heads, _, width) = self.stage, queries.lies.shape
        made = stage.part("filled", (batch, heads, self._queries, width), queries.lies.dtype)
        stage.add(FillWords(_NANS, made.lies.nbytes // len(_NANS), stage.device), made)
        stage.copy(queries, made)
        return made

    def _plain(self, name: str, own: str, shape: Sequence[int], seen: Shape) -> None:
        """Add an input, contiguous."""
        array = self.stage.plain(own, shape)
        self._take(name, array, dense_form(array.lies.dtype.name, *seen))

    def _level(self) -> None:
        """Add the statistics for the gradients. Where rows may be without a key, replace -inf."""
        stage, shape = self.stage, self.problem.geometry.stats_shape
        if not self.problem.rows_may_be_empty:
            self._plain("stats", "stats", shape, (*shape, 1))
            return
        source, made = stage.arrays["stats"], stage.part("level", shape, np.float32)
        stage.add(stage.mapped(raised, source, made), source, made)
        self._take("stats", made, dense_form("float32", *shape, 1))

    @property
    def _runs_once(self) -> bool:
        """Whether the graph runs once, on whole arrays. Slices may start at addresses that are not aligned."""
        return not (self.is_backward and self.is_direct)

    def _bias(self, name: str, is_output: bool) -> None:
        stage, array = self.stage, self.stage.arrays[name]
        if biases.are_misread(array, self.problem.geometry, self.is_backward, is_output):
            array = biases.summed(stage, name) if is_output else biases.spread(stage, name, self.is_backward)
        elif is_output and array.lies.dtype != self.problem.dtype:
            # cuDNN writes the gradient of a bias only in q's dtype.
            own, array = array, stage.part(name, array.lies.shape, self.problem.dtype)
            stage.behind.append(Step(stage.mapped(COPY, array, own), (array.number, own.number)))
        # cuDNN requires a gradient without padding between rows, even if the rows are then not aligned. 9.19 also reads
        # a bias of one query and one key as if it had no padding.
        is_gapless = is_output or array.lies.shape[2:] == (1, 1)
        is_read = self._runs_once and array.lies.itemsize == 2 and versions.reads_unaligned_biases(stage.device)
        multiple = array.lies.itemsize if is_read else ALIGNED
        fits = is_dense(array.lies) if is_gapless else _fits(array.lies, multiple)
        if not (stage.is_aligned(array) and fits):
            pitch = 1 if is_gapless else ALIGNED
            array = stage.returned(name, pitch=pitch) if is_output else stage.copied(name, pitch=pitch)
        self._take(name, array, _form(array.lies))

    def _outputs_forward(self) -> None:
        stage, problem = self.stage, self.problem
        found, shape = problem.geometry, problem.geometry.stats_shape
        if problem.call.direction == "dropout_mask":
            stage.part("out", (*found.scores[:3], self._widths[1]), problem.dtype)
            self._take("out", stage.arrays["out"], _form(stage.arrays["out"].lies))
            self._take("kept", stage.part("factors", found.scores, np.float32), dense_form("float32", *found.scores))
            return
        self._rows("out", True)
        shape = (*shape[:2], self._queries)
        form = dense_form("float32", *shape, 1)
        own = stage.arrays.get("stats")
        if own is not None and stage.is_aligned(own) and own.lies == dense(shape, np.float32, stage.device):
            self._take("stats", own, form)
        elif own is not None or self.is_mended:
            made = stage.part("level", shape, np.float32)
            self._take("stats", made, form)
            if own is not None:
                part = cropped(made.lies, own.lies.shape)
                stage.behind.append(Step(copy.executable(part, own.lies), (made.number, own.number)))

    def _outputs_backward(self) -> None:
        stage, found = self.stage, self.problem.geometry
        for name in ("dq", "dk", "dv"):
            self._rows(name, True)
            # Packed gradients are zeroed already.
            if self.problem.has_lengths and not found.is_packed:
                # cuDNN 9.19 does not write the gradients of a sequence without queries or keys.
                stage.clear(self._arrays[name])
        if stage.has("dbias"):
            self._bias("dbias", True)
        shape = found.stats_shape
        if not self.is_direct:
            # First, at the start of the scratch block: it is the larger array, and kernels accumulate into it.
            whole = (*shape, self._widths[0])
            self._take("dq_sums", stage.part("dq_sums", whole, np.float32), dense_form("float32", *whole))
            if versions.needs_zeros(self.problem):
                stage.zero(stage.arrays["dq_sums"])
        self._take("sums", stage.part("sums", shape, np.float32), dense_form("float32", *shape, 1))

    # ------------------------------------------------------------ the graph

    def drawn(self, heads: int = 0, batches: int = 0) -> Drawn:
        """Draw the graph for a number of key heads, with their query heads, and of sequences; 0 means all."""
        problem, found = self.problem, self.problem.geometry
        count, sequences = heads or found.heads_kv, batches or found.batch
        names = sorted(self._arrays, key=lambda name: not name.startswith("starts"))
        sketch = Sketch(
            scores=(sequences, count * found.group, self._queries, found.keys),
            band=self._band,
            arrays=tuple((name, self._of_slice(name, count, sequences)) for name in names),
            scale=abs(problem.scale) if self._sign else 1.0,
            dropout=problem.options.dropout,
            paged=bool(found.page),
            hides_again=versions.hides_again(problem),
            clamps=versions.clamps_biased_scores(self.stage.device),
        )
        return backward(sketch, self.is_direct) if self.is_backward else forward(sketch)

    def _of_slice(self, name: str, count: int, sequences: int) -> Form:
        form, found = self._forms[name], self.problem.geometry
        if name.startswith("lengths") and not self.problem.has_lengths:
            return form._replace(shape=(sequences, *form.shape[1:]))
        if name.startswith(("lengths", "starts", "page", "seed")):
            return form
        batch, heads, *rest = form.shape
        if heads > 1 and count < found.heads_kv:
            heads = count if name in ("k", "v", "dk", "dv") else count * found.group
        if batch > 1 and sequences < found.batch:
            batch = sequences
        return form._replace(shape=(batch, heads, *rest))

    def operands(self) -> list[int]:
        """Return the operand numbers of the graph's arrays."""
        names = sorted(self._arrays, key=lambda name: not name.startswith("starts"))
        return [self._arrays[name].number for name in names]

    def runs(self, heads: int, batches: int) -> list[tuple[int, ...]]:
        """Return byte offsets into the graph's arrays for each slice of so many key heads and sequences."""
        found = self.problem.geometry
        names = sorted(self._arrays, key=lambda name: not name.startswith("starts"))
        starts = [(b, h) for b in range(0, found.batch, batches) for h in range(0, found.heads_kv, heads)]
        return [tuple([self._bytes_to(name, *start, heads, batches) for name in names]) for start in starts]

    def _bytes_to(self, name: str, sequence: int, head: int, heads: int, batches: int) -> int:
        form, part = self._forms[name], self._of_slice(name, heads, batches)
        if name in ("sums", "dq_sums") or name.startswith("lengths"):
            return 0
        first = head if name in ("k", "v", "dk", "dv") else head * self.problem.geometry.group
        steps = (part.shape[0] != form.shape[0]) * sequence * form.strides[0]
        steps += (part.shape[1] != form.shape[1]) * first * form.strides[1]
        return steps * self._arrays[name].lies.itemsize

    def heads_within(self, limit: int, batches: int = 0) -> int:
        """Return how many key heads can run at once so that the gradients of their scores fit into a limit; 0 if none.

        The number is chosen so that each slice of each array starts at a multiple of 16 bytes.

        Args:
            limit: in bytes.
            batches: sequences that run at once; 0 for all.
        """
        found, sequences = self.problem.geometry, batches or self.problem.geometry.batch
        each = found.group * found.queries * found.keys * self.problem.dtype.itemsize
        counts = [n for n in range(1, found.heads_kv + 1) if found.heads_kv % n == 0 and n * sequences * each <= limit]
        return max([n for n in counts if self._are_aligned(n, sequences)], default=0)

    def _are_aligned(self, heads: int, batches: int) -> bool:
        starts = ((batches, 0), (0, heads))
        return not any(
            self._bytes_to(name, *start, heads, batches) % ALIGNED for name in self._arrays for start in starts
        )

    # ------------------------------------------------------------ after the graph

    @property
    def is_mended(self) -> bool:
        """Whether a kernel corrects rows without a key."""
        problem = self.problem
        if self.is_backward or not problem.rows_may_be_empty:
            return False
        # Kernels correct rows of -inf themselves; keys that a band hides have a finite score.
        return not problem.band.is_full or problem.has_lengths or versions.clamps_biased_scores(self.stage.device)

    def mend(self) -> None:
        """Write zeros into rows without a key, and -inf into their statistics."""
        stage, problem, found = self.stage, self.problem, self.problem.geometry
        if problem.call.direction == "dropout_mask":
            source, target = self._arrays["kept"], stage.arrays["kept"]
            stage.add(stage.mapped(kept, source, target), source, target)
            return
        if not self.is_mended:
            return
        out, stats = self._arrays["out"], self._arrays["stats"]
        inputs = {"level": stats}
        column = (*steps_of(stats), 0)
        steps: dict[str, Sequence[int]] = {"level": column, "stats": column, "out": steps_of(out)}
        for name in ("lengths_q", "lengths_kv"):
            if stage.has(name):
                inputs[name], steps[name] = stage.arrays[name], (1, 0, 0, 0)
        if found.is_packed:
            inputs["starts"], steps["starts"] = stage.starts("q", 1, np.int64), (1, 0, 0, 0)
        size = int(np.prod(found.stats_shape))
        numbers = (*found.scores, *bounds(problem), size, found.value_width)
        outputs = {"out": out, "stats": stats}
        stage.kernel("mend", inputs, outputs, steps, numbers, *stage.flat(size), compute="float32", follows=True)


def _fits(lies: Layout, multiple: int = ALIGNED) -> bool:
    """Return whether cuDNN can read an array in place: contiguous vectors, each at a multiple of so many bytes."""
    (*shape, last), (*strides, unit) = lies.shape, lies.strides
    steps = [step for n, step in zip(shape, strides, strict=True) if n > 1]
    return (last == 1 or unit == lies.itemsize) and all(step > 0 and step % multiple == 0 for step in steps)


def _form(lies: Layout) -> Form:
    """Return the form of an array in place. cuDNN also checks strides along axes of length 1, so they are set here."""
    strides, reach = [], 1
    for n, step in zip(reversed(lies.shape), reversed(lies.strides), strict=True):
        strides.append(reach if n == 1 else step // lies.itemsize)
        reach = max(reach, n * strides[-1])
    return Form(lies.dtype.name, lies.shape, tuple(reversed(strides)))


def _numbers(stage: Stage) -> Iterator[tuple[str, Array]]:
    """Yield the arrays of one float32 that a float8 graph has, by name: scales, and the largest weight and result.

    Scales that are not given share one array with a 1. Outputs start from 0, since cuDNN's kernels only raise them.
    amax_o is always included, requested or not.
    """
    for name in SCALES:
        if stage.has(name):
            yield name, stage.plain(name, stage.arrays[name].lies.shape)
            continue
        if not stage.has("one"):
            stage.add(FillWords(struct.pack("<f", 1.0), 1, stage.device), stage.part("one", (1,), np.float32))
        yield name, stage.arrays["one"]
    for name in ("amax_s", "amax_o"):
        if stage.has(name):
            made = stage.arrays[name] if stage.is_aligned(stage.arrays[name]) else stage.returned(name)
        elif name == "amax_o":
            made = stage.part(name, (1,), np.float32)
        else:
            continue
        stage.zero(made)
        yield name, made
