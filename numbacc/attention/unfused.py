"""Attention without cuDNN: products by `gemm`, and kernels of ours between them; forward

    S = scale q kᵀ,  then weights and statistics of S,  then o = weights v

and backward

    S again,  weights of S and the statistics,  dv = weightsᵀ do,  spread = do vᵀ,  dS of all these,
    dq = scale dS k,  dk = scale dSᵀ q

All scores of a head are in scratch memory, so heads are taken in slices that keep to the workspace limit. Heads of
queries that share one of keys lie next to each other: they are the rows of one matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.layout import Layout, layout
from ..errors import UnsupportedError
from ..gemm.plan import MatmulPlan
from ..gemm.problem import Call as Product
from ..kernels.formulas import FORMULAS
from ..kernels.lengths import clamped
from ..kernels.specs import MAX_THREADS
from ..libraries.products import bits
from .problem import Problem, scalars_of
from .staging import Array, Stage, Unchecked, bounds, dense, steps_of

#: Outputs by the input that each is like.
_GRADIENTS = {"dq": "q", "dk": "k", "dv": "v"}
#: Scratch memory that a product may use where there is enough.
_PRODUCTS = 2**25


class _Slice(NamedTuple):
    """Heads that are taken together: all of several sequences, or some of one.

    Attributes:
        batch, batches: the first sequence, and how many.
        head, heads: the first head of keys, and how many.
    """

    batch: int
    batches: int
    head: int
    heads: int


class Unfused:
    """The steps of unfused attention.

    Args:
        stage: what they are added to.
    """

    def __init__(self, stage: Stage):
        self._stage, self._problem = stage, stage.problem
        self._plans: dict[Any, Unchecked] = {}
        found = self._problem.geometry
        self._group, self._heads, self._rows, self._keys = found.group, found.heads, found.queries, found.keys

    def build(self) -> None:
        """Add all steps.

        Raises:
            UnsupportedError: one head needs more scratch memory than may be used.
        """
        stage, problem = self._stage, self._problem
        stage.lengths()
        backward = problem.call.direction == "backward"
        for name in ("do", "q", "k", "v", "o") if backward else ("q", "k", "v"):
            self._bring(name)
        for name in ("dq", "dk", "dv") if backward else ("out",):
            self._prepare(name)
        if "dbias" in problem.outputs:
            made = stage.part("dbias_sums", stage.arrays["dbias"].lies.shape, problem.compute)
            stage.zero(made)
        real, item = int(problem.compute.itemsize), int(problem.dtype.itemsize)
        unit = self._group * self._rows * self._keys
        each = unit * (2 * real + item) if backward else unit * (real + item)
        slices = list(self._slices(each))
        most = max(part.batches * part.heads for part in slices)
        shape = (most * self._group, self._rows, self._keys)
        stage.part("scores", shape, problem.compute)
        stage.part("weights", shape, problem.dtype)
        if backward:
            stage.part("spread", shape, problem.compute)
        for part in slices:
            self._backward(part) if backward else self._forward(part)
        if "dbias" in problem.outputs:
            source, target = stage.arrays["dbias_sums"], stage.arrays["dbias"]
            copy = stage.mapped(FORMULAS["copy"], source, target)
            stage.add(copy, source, target)

    def mask(self) -> None:
        """Add the steps of what dropout keeps: of scores that are all 0."""
        stage, found = self._stage, self._problem.geometry
        source = stage.part("scores", found.scores, self._problem.compute)
        stage.zero(source)
        whole = _Slice(0, found.batch, 0, found.heads_kv)
        target = stage.arrays["kept"]
        self._kernel("kept", whole, {"scores": source}, {"kept": target}, {})

    def _slices(self, each: int) -> Iterator[_Slice]:
        found, problem = self._problem.geometry, self._problem
        # Parts start at multiples of 256 bytes. Where a head fits anyway products have scratch memory of their own.
        free = problem.limit - self._stage.scratch.nbytes - 3 * 256
        room = max((free - min(_PRODUCTS, free // 8)) // each, min(free // each, 1))
        if room < 1:
            raise UnsupportedError(
                f"workspace_limit={problem.limit} leaves no room: unfused, one head of {found.queries} queries and "
                f"{found.keys} keys needs {each + self._stage.scratch.nbytes} bytes of scratch memory"
            )
        if room >= found.heads_kv:
            step = min(room // found.heads_kv, found.batch)
            for start in range(0, found.batch, step):
                yield _Slice(start, min(step, found.batch - start), 0, found.heads_kv)
            return
        for batch in range(found.batch):
            for head in range(0, found.heads_kv, room):
                yield _Slice(batch, 1, head, min(room, found.heads_kv - head))

    # ------------------------------------------------------------ arrays

    def _bring(self, name: str) -> None:
        """Put an input where products can take it: a matrix for each head of keys."""
        stage, found = self._stage, self._problem.geometry
        source = stage.arrays[name]
        if self._problem.has_lengths:
            # What lies behind a sequence's end may be NaN, and must not be multiplied with a weight of 0.
            length = self._rows if name in ("q", "do", "o") else self._keys
            heads, width = source.lies.shape[1], source.lies.shape[3]
            target = stage.part(name, (found.batch, heads, length, width), source.lies.dtype)
            is_paged = found.page > 0 and name in ("k", "v")
            self._move("unpage" if is_paged else "unpack", name, source, target)
        elif not self._fits(source.lies, name in ("q", "do", "o")):
            stage.copied(name)

    def _prepare(self, name: str) -> None:
        """See that an output is where products can write it, or put it in place behind them."""
        stage, found = self._stage, self._problem.geometry
        own = stage.arrays[name]
        if found.is_packed:
            whole = own
            if own.lies.strides[1:] != dense(own.lies.shape, own.lies.dtype, stage.device).strides[1:]:
                whole = stage.returned(name)
            stage.zero(whole)
            length = self._rows if name in ("out", "dq") else self._keys
            made = stage.part(name, (found.batch, own.lies.shape[1], length, own.lies.shape[3]), own.lies.dtype)
            steps = stage.steps
            stage.steps = []
            self._move("pack", name, made, whole)
            stage.behind[:0], stage.steps = stage.steps, steps
        elif not self._fits(own.lies, name in ("out", "dq")):
            stage.returned(name)

    def _move(self, algorithm: str, name: str, source: Array, target: Array) -> None:
        stage, found = self._stage, self._problem.geometry
        which = "q" if name in ("q", "do", "o", "out", "dq") else "kv"
        inputs = {"source": source, "lengths": stage.arrays[f"lengths_{which}"]}
        steps: dict[str, Sequence[int]] = {
            "source": steps_of(source),
            "lengths": (1, 0, 0, 0),
            "target": steps_of(target),
        }
        rows = source if algorithm == "pack" else target
        numbers = [*rows.lies.shape, rows.lies.size]
        if algorithm == "unpage":
            table = stage.part(f"table_{name}", (found.batch, found.pages), np.int32)
            stage.map(clamped(0, found.sheets - 1), stage.arrays[f"page_table_{name}"], table)
            inputs["table"], steps["table"] = table, (found.pages, 0, 1, 0)
            numbers.append(found.page)
        elif found.is_packed:
            inputs["starts"], steps["starts"] = stage.starts(name, 1, np.int64), (1, 0, 0, 0)
        compute = self._problem.compute.name
        blocks = stage.flat(rows.lies.size)
        stage.kernel(algorithm, inputs, {"target": target}, steps, numbers, *blocks, compute=compute)

    def _fits(self, lies: Layout, has_groups: bool) -> bool:
        """Whether the rows of heads that share one are those of a matrix, stored by rows."""
        (_, heads, length, width), (batch_step, head_step, step, unit) = lies.shape, lies.strides
        row = width * lies.itemsize
        if (width > 1 and unit != lies.itemsize) or (length > 1 and step < row) or step % lies.itemsize:
            return False
        if min(batch_step, head_step) < 0 or (heads > 1 and not head_step) or not batch_step:
            return False
        return not has_groups or self._group == 1 or head_step == length * step

    def _matrices(self, name: str, part: _Slice) -> tuple[Array, Layout, int]:
        """(an array, the layout of its matrices in a slice, bytes into it)."""
        array = self._stage.arrays[name]
        lies = array.lies
        (_, heads, length, width), (batch_step, head_step, step, unit) = lies.shape, lies.strides
        group = heads // self._problem.geometry.heads_kv
        shape = (part.batches, part.heads, group * length, width)
        row = step if length > 1 or group == 1 else head_step
        found = layout(shape, (batch_step, group * head_step, row, unit), lies.dtype, lies.device)
        return array, found, part.batch * batch_step + part.head * group * head_step

    def _scored(self, name: str, part: _Slice) -> tuple[Array, Layout, int]:
        """The same of a matrix of scores."""
        array = self._stage.arrays[name]
        shape = (part.batches, part.heads, self._group * self._rows, self._keys)
        return array, dense(shape, array.lies.dtype, self._stage.device), 0

    # ------------------------------------------------------------ products

    def _product(self, a: Any, b: Any, out: Any, alpha: float = 1.0) -> None:
        """out = alpha a b, of (array, layout, bytes into it)."""
        stage = self._stage
        arrays, layouts, offsets = zip(a, b, out, strict=True)
        if not alpha:
            # cuBLASLt may leave the result as it was.
            stage.clear(*out)
            return
        known = tuple(stage.address(array.number, offset) for array, offset in zip(arrays, offsets, strict=True))
        key = (layouts, known, alpha)
        if key not in self._plans:
            left = self._problem.limit - stage.scratch.nbytes
            plan = MatmulPlan(_product_of(*layouts, None if left >= _PRODUCTS else max(left, 1)))
            found = plan.choose(known)
            kind = self._problem.compute.name
            scalars = () if alpha == 1.0 else (bits(alpha, kind), bits(0.0, kind))
            self._plans[key] = Unchecked(found, scalars)
        stage.add(self._plans[key], *arrays, offsets=offsets)

    # ------------------------------------------------------------ kernels

    def _kernel(
        self,
        algorithm: str,
        part: _Slice,
        inputs: dict[str, Array],
        outputs: dict[str, Array],
        more: dict[str, tuple[Sequence[int], int]],
        *numbers: int,
    ) -> None:
        """A kernel over rows of scores.

        Args:
            more: steps and bytes of the arrays that are not scores.
        """
        stage, problem, found = self._stage, self._problem, self._problem.geometry
        heads, first = part.heads * self._group, part.head * self._group
        scored = (heads * self._rows * self._keys, self._rows * self._keys, self._keys, 1)
        steps: dict[str, Sequence[int]] = dict.fromkeys((*inputs, *outputs), scored)
        offsets = dict.fromkeys(steps, 0)
        for name, (own, offset) in more.items():
            steps[name], offsets[name] = own, offset
        extra = {
            "bias": "bias",
            "alibi": "alibi",
            "lengths_q": "lengths_q",
            "lengths_kv": "lengths_kv",
            "offset": "offset",
        }
        for name, own_name in extra.items():
            if not stage.has(own_name):
                continue
            array = stage.arrays[own_name]
            inputs[name] = array
            steps[name], offsets[name] = self._extra(name, array, part, first)
        shape = (part.batches, heads, self._rows, self._keys)
        row = (part.batch * found.heads + first) * self._rows
        threads = min(MAX_THREADS, 1 << (self._keys - 1).bit_length())
        stage.kernel(
            algorithm,
            inputs,
            outputs,
            steps,
            (*shape, *bounds(problem), row, *numbers),
            part.batches * heads * self._rows,
            threads,
            compute=problem.compute.name,
            scalars=scalars_of(problem),
            offsets=offsets,
        )

    @staticmethod
    def _extra(name: str, array: Array, part: _Slice, first: int) -> tuple[tuple[int, ...], int]:
        """(steps, bytes into it) of an array beside the scores."""
        own, size = steps_of(array), array.lies.itemsize
        if name == "bias":
            return own, (part.batch * own[0] + first * own[1]) * size
        if name == "alibi":
            return (0, own[0], 0, 0), first * own[0] * size
        if name == "offset":
            return (0, 0, 0, 0), 0
        return (1, 0, 0, 0), part.batch * size

    def _column(self, name: str, part: _Slice) -> tuple[Sequence[int], int]:
        """(steps, bytes) of statistics."""
        array = self._stage.arrays[name]
        own = steps_of(array)
        return (*own, 0), (part.batch * own[0] + part.head * self._group * own[1]) * array.lies.itemsize

    def _row(self, name: str, part: _Slice) -> tuple[Sequence[int], int]:
        """(steps, bytes) of rows of the output, or its gradient."""
        array = self._stage.arrays[name]
        own = steps_of(array)
        return own, (part.batch * own[0] + part.head * self._group * own[1]) * array.lies.itemsize

    def _scores(self, part: _Slice) -> None:
        q, k = self._matrices("q", part), self._matrices("k", part)
        self._product(q, _turned(k), self._scored("scores", part), self._problem.scale)

    def _forward(self, part: _Slice) -> None:
        arrays = self._stage.arrays
        self._scores(part)
        outputs, more = {"weights": arrays["weights"]}, {}
        if "stats" in self._problem.outputs:
            outputs["stats"], more["stats"] = arrays["stats"], self._column("stats", part)
        self._kernel("softmax", part, {"scores": arrays["scores"]}, outputs, more)
        self._product(self._scored("weights", part), self._matrices("v", part), self._matrices("out", part))

    def _backward(self, part: _Slice) -> None:
        arrays, scale = self._stage.arrays, self._problem.scale
        self._scores(part)
        more = {"level": self._column("stats", part)}
        inputs = {"scores": arrays["scores"], "level": arrays["stats"]}
        self._kernel("weights", part, dict(inputs), {"weights": arrays["weights"]}, dict(more))
        weights, do = self._scored("weights", part), self._matrices("do", part)
        self._product(_turned(weights), do, self._matrices("dv", part))
        self._product(do, _turned(self._matrices("v", part)), self._scored("spread", part))
        inputs |= {"spread": arrays["spread"], "do": arrays["do"], "o": arrays["o"]}
        more |= {"do": self._row("do", part), "o": self._row("o", part)}
        outputs = {"slopes": arrays["weights"]}
        if self._stage.has("dbias_sums"):
            # Each element is read by the thread that writes it.
            outputs["sums"] = arrays["spread"]
        self._kernel("slopes", part, inputs, outputs, more, self._problem.geometry.value_width)
        if self._stage.has("dbias_sums"):
            self._bias_gradient(part)
        self._product(weights, self._matrices("k", part), self._matrices("dq", part), scale)
        self._product(_turned(weights), self._matrices("q", part), self._matrices("dk", part), scale)

    def _bias_gradient(self, part: _Slice) -> None:
        stage, sums = self._stage, self._stage.arrays["dbias_sums"]
        heads, first = part.heads * self._group, part.head * self._group
        whole = (part.batches, heads, self._rows, self._keys)
        own = steps_of(sums)
        shape = [1 if n == 1 else m for n, m in zip(sums.lies.shape, whole, strict=True)]
        counts = [m if n == 1 else 1 for n, m in zip(sums.lies.shape, whole, strict=True)]
        scored = (heads * self._rows * self._keys, self._rows * self._keys, self._keys, 1)
        size = int(np.prod(shape))
        offset = (part.batch * own[0] + first * own[1]) * sums.lies.itemsize
        stage.kernel(
            "sums",
            {"slopes": stage.arrays["spread"], "before": sums},
            {"after": sums},
            {"slopes": scored, "before": own, "after": own},
            (*shape, *counts, size),
            *stage.flat(size),
            compute=self._problem.compute.name,
            offsets={"before": offset, "after": offset},
        )


def _product_of(a: Layout, b: Layout, out: Layout, limit: int | None) -> Product:
    """The call of a plain product, with so much scratch memory."""
    nothing: dict[str, Any] = dict.fromkeys(Product._fields)
    asked = {"a": a, "b": b, "out": out, "epilogue": "none", "has_beta": False, "tune": False, "workspace_limit": limit}
    return Product(**{**nothing, **asked})


def _turned(matrices: tuple[Array, Layout, int]) -> tuple[Array, Layout, int]:
    """Matrices transposed."""
    array, lies, offset = matrices
    (*shape, rows, columns), (*steps, step, unit) = lies.shape, lies.strides
    return array, layout((*shape, columns, rows), (*steps, unit, step), lies.dtype, lies.device), offset


def build(stage: Stage, problem: Problem) -> None:
    """Add the steps of a problem to a stage."""
    made = Unfused(stage)
    made.mask() if problem.call.direction == "dropout_mask" else made.build()
