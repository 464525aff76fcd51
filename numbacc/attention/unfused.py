"""Attention without cuDNN: `gemm` computes the products, and numbacc's kernels run between them.

The forward pass computes

    S = scale q kᵀ,  then weights and statistics of S,  then o = weights v

and the backward pass

    S again,  weights of S and the statistics,  dv = weightsᵀ do,  spread = do vᵀ,  dS of all these,
    dq = scale dS k,  dk = scale dSᵀ q

A score or mask function is one more kernel between the product and the weights, and its gradient one after dS.

Scores are in scratch memory, so they are computed in slices that stay within workspace_limit, see `slices`. Query heads
that share one key head are next to each other: they are the rows of one matrix. Slices that share keys accumulate dk
and dv in the dtype of the arithmetic, slice after slice, and the last one rounds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.dtypes import words
from ..base.layout import Layout, layout, view
from ..functions.formula import COPY, Formula
from ..gemm.plan import MatmulPlan
from ..gemm.problem import GemmCall as Product
from ..kernels.elementwise.launch import MapExecutable, MapTask
from ..libraries.products import bits
from ..runtime.launch_order import MAX_THREADS
from . import slices
from .problem import AttentionProblem, scalars_of
from .slices import PRODUCTS, Slice
from .staging import Array, Stage, Unchecked, bounds, dense, packed, steps_of, unpacked

#: Output -> the input of the same form.
_GRADIENTS = {"dq": "q", "dk": "k", "dv": "v"}


class Unfused:
    """The steps of unfused attention.

    Args:
        stage: receives the steps.
    """

    def __init__(self, stage: Stage):
        self._stage, self._problem = stage, stage.problem
        self._plans: dict[Any, Unchecked] = {}
        self._maps: dict[Any, MapExecutable] = {}
        found = self._problem.geometry
        self._group, self._rows, self._keys = found.group, found.queries, found.keys

    def build(self) -> str:
        """Add all steps.

        Returns:
            A text with the number of slices; empty if there is only one.

        Raises:
            UnsupportedError: one query needs more scratch memory than may be used.
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
        scoring = problem.call.scoring
        for name in () if scoring is None else scoring.gradients():
            stage.zero(stage.part(f"{name}_sums", stage.arrays[name].lies.shape, problem.compute))
        real, item = int(problem.compute.itemsize), int(problem.dtype.itemsize)
        cell = 2 * real + item if backward else real + item
        if scoring is not None:
            cell += real * (1 + len(scoring.wanted))
        parts = slices.of_keys(problem, cell, stage.scratch.nbytes)
        if not parts:
            if backward and problem.dtype != problem.compute:
                for name in ("dk", "dv"):
                    shape = (1, 1, self._keys, stage.arrays[name].lies.shape[3])
                    stage.part(f"{name}_sums", shape, problem.compute)
            parts = slices.of_queries(problem, cell, stage.scratch.nbytes)
        most = max(part.batches * part.heads * part.rows for part in parts), self._keys
        stage.part("scores", most, problem.compute)
        stage.part("weights", most, problem.dtype)
        if backward:
            stage.part("spread", most, problem.compute)
        if scoring is not None:
            for name in ("raw", *scoring.gradients()):
                stage.part(f"{name}_scores", most, problem.compute)
        for part in parts:
            self._backward(part) if backward else self._forward(part)
        for name in (name for name in problem.outputs if stage.has(f"{name}_sums") and name not in _GRADIENTS):
            source, target = stage.arrays[f"{name}_sums"], stage.arrays[name]
            copy = stage.mapped(COPY, source, target)
            stage.add(copy, source, target)
        what = "queries" if parts[0].rows < self._rows else "heads"
        return f"{len(parts)} slices of {what}" if len(parts) > 1 else ""

    def mask(self) -> None:
        """Add the steps that write the dropout mask, from scores that are all 0."""
        stage, found = self._stage, self._problem.geometry
        source = stage.part("scores", found.scores, self._problem.compute)
        stage.zero(source)
        target = stage.arrays["kept"]
        self._kernel("kept", slices.whole(found), {"scores": source}, {"kept": target}, {})

    # ------------------------------------------------------------ arrays

    def _bring(self, name: str) -> None:
        """Put an input where products can use it: a matrix for each key head."""
        stage = self._stage
        source = stage.arrays[name]
        if self._problem.has_lengths:
            # Elements after a sequence's end may be NaN, and must not be multiplied by a weight of 0.
            unpacked(stage, name)
        elif not self._fits(source.lies, name in ("q", "do", "o")):
            stage.copied(name)

    def _prepare(self, name: str) -> None:
        """Make sure that products can write an output: directly, or to scratch memory that is copied afterwards."""
        stage, found = self._stage, self._problem.geometry
        own = stage.arrays[name]
        if found.is_packed:
            packed(stage, name)
        elif not self._fits(own.lies, name in ("out", "dq")):
            stage.returned(name)

    def _fits(self, lies: Layout, has_groups: bool) -> bool:
        """Return whether the heads that share one key head form one row-major matrix."""
        (_, heads, length, width), (batch_step, head_step, step, unit) = lies.shape, lies.strides
        row = width * lies.itemsize
        if (width > 1 and unit != lies.itemsize) or (length > 1 and step < row) or step % lies.itemsize:
            return False
        if min(batch_step, head_step) < 0 or (heads > 1 and not head_step) or not batch_step:
            return False
        return not has_groups or self._group == 1 or head_step == length * step

    def _matrices(self, name: str, part: Slice) -> tuple[Array, Layout, int]:
        """Return an array, the layout of its matrices in a slice, and the offset in bytes."""
        array, found = self._stage.arrays[name], self._problem.geometry
        lies = array.lies
        (_, heads, length, width), (batch_step, head_step, step, unit) = lies.shape, lies.strides
        group = heads // found.heads_kv
        row = step if length > 1 or group == 1 else head_step
        rows, first = length, part.head // found.group * head_step
        if name in ("q", "do", "o", "out", "dq"):
            rows, first = part.shares(found) * part.rows, part.head * head_step + part.row * row
        shape = (part.batches, part.keys_heads(found), rows, width)
        made = layout(shape, (batch_step, group * head_step, row, unit), lies.dtype, lies.device)
        return array, made, part.batch * batch_step + first

    def _scored(self, name: str, part: Slice) -> tuple[Array, Layout, int]:
        """Return a matrix of scores in the form of `_matrices`."""
        array, found = self._stage.arrays[name], self._problem.geometry
        shape = (part.batches, part.keys_heads(found), part.shares(found) * part.rows, self._keys)
        return array, dense(shape, array.lies.dtype, self._stage.device), 0

    # ------------------------------------------------------------ products

    def _product(self, a: Any, b: Any, out: Any, alpha: float = 1.0, adds: bool = False) -> None:
        """Compute out = alpha a b, or add that to out; each is (array, layout, offset in bytes)."""
        stage = self._stage
        if not alpha:
            # cuBLASLt may leave the output unwritten.
            if not adds:
                stage.clear(*out)
            return
        arrays, layouts, offsets = zip(a, b, *[out] * adds, out, strict=True)
        known = tuple(stage.address(array.number, offset) for array, offset in zip(arrays, offsets, strict=True))
        key = (layouts, known, alpha)
        if key not in self._plans:
            left = self._problem.limit - stage.scratch.nbytes
            limit = None if left >= PRODUCTS else max(left, 1)
            plan = MatmulPlan(_product_of(layouts[0], layouts[1], layouts[-1], adds, limit))
            found = plan.choose(known)
            kind = self._problem.compute.name
            scalars = () if alpha == 1.0 and not adds else (bits(alpha, kind), bits(float(adds), kind))
            self._plans[key] = Unchecked(found, scalars)
        stage.add(self._plans[key], *arrays, offsets=offsets)

    def _added(self, name: str, part: Slice, a: Any, b: Any, alpha: float = 1.0) -> None:
        """Compute a slice of dk or dv, alpha a b, and add it to the sum of earlier slices with the same keys."""
        stage, found, out = self._stage, self._problem.geometry, self._matrices(name, part)
        if part.has_all_queries(found):
            self._product(a, b, out, alpha)
            return
        is_rounded = stage.has(f"{name}_sums")
        sums = stage.arrays[f"{name}_sums"] if is_rounded else out[0]
        self._product(a, b, (sums, sums.lies, 0) if is_rounded else out, alpha, not part.is_first(found))
        if is_rounded and part.is_last(found):
            array, lies, offset = out
            copy = stage.mapped(COPY, sums, Array(array.number, lies))
            stage.add(copy, sums, array, offsets=(0, offset))

    # ------------------------------------------------------------ kernels

    def _kernel(
        self,
        algorithm: str,
        part: Slice,
        inputs: dict[str, Array],
        outputs: dict[str, Array],
        more: dict[str, tuple[Sequence[int], int]],
        *numbers: int,
    ) -> None:
        """Add a kernel over rows of scores.

        Args:
            more: strides and byte offsets of the arrays that are not scores.
        """
        stage, problem, found = self._stage, self._problem, self._problem.geometry
        heads, rows = part.heads, part.rows
        scored = (heads * rows * self._keys, rows * self._keys, self._keys, 1)
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
            steps[name], offsets[name] = self._extra(name, array, part)
        shape = (part.batches, heads, rows, self._keys)
        first = (part.batch * found.heads + part.head) * self._rows + part.row
        threads = min(MAX_THREADS, 1 << (self._keys - 1).bit_length())
        stage.kernel(
            algorithm,
            inputs,
            outputs,
            steps,
            (*shape, *bounds(problem), first, part.row, self._rows, *numbers),
            part.batches * heads * rows,
            threads,
            compute=problem.compute.name,
            scalars=scalars_of(problem),
            offsets=offsets,
        )

    @staticmethod
    def _extra(name: str, array: Array, part: Slice) -> tuple[tuple[int, ...], int]:
        """Return the strides and the byte offset of an array that kernels read together with the scores."""
        own, size = steps_of(array), array.lies.itemsize
        if name == "bias":
            return own, (part.batch * own[0] + part.head * own[1] + part.row * own[2]) * size
        if name == "alibi":
            return (0, own[0], 0, 0), part.head * own[0] * size
        if name == "offset":
            return (0, 0, 0, 0), 0
        return (1, 0, 0, 0), part.batch * size

    def _rows_of(self, name: str, part: Slice, number: int = 0) -> tuple[Sequence[int], int]:
        """Return the strides and the byte offset of statistics, or of rows of the output or its gradient.

        Args:
            number: which of the two parts of the statistics, if they are in two parts.
        """
        array, first = self._stage.arrays[name], 0
        own = steps_of(array)
        if name == "stats" and len(own) == 4:
            first, own = number * own[0], own[1:]
        first += part.batch * own[0] + part.head * own[1] + part.row * own[2]
        return (*own, 0)[:4], first * array.lies.itemsize

    def _scores(self, part: Slice) -> None:
        q, k = self._matrices("q", part), self._matrices("k", part)
        scoring = self._problem.call.scoring
        target = "scores" if scoring is None else "raw_scores"
        self._product(q, _turned(k), self._scored(target, part), self._problem.scale)
        if scoring is not None:
            self._mapped(scoring.function.formula, part, ("raw_scores",), ("scores",))

    def _mapped(self, formula: Formula, part: Slice, sources: Sequence[str], targets: Sequence[str]) -> None:
        """Add a kernel that applies a function to scores, the elements of operands and positions.

        Args:
            sources, targets: arrays of scores.
        """
        stage, scoring = self._stage, self._problem.call.scoring
        assert scoring is not None
        shape = (part.batches, part.heads, part.rows, self._keys)
        names = (*sources, *scoring.names, *targets)
        arrays = [stage.arrays[name] for name in names]
        layouts, offsets = [], []
        for name, array in zip(names, arrays, strict=True):
            lies = array.lies
            if name in scoring.names:
                lengths = [1 if n == 1 else m for n, m in zip(lies.shape, shape, strict=True)]
                layouts.append(layout(tuple(lengths), lies.strides, lies.dtype, lies.device))
                offsets.append(self._extra("bias", array, part)[1])
            else:
                layouts.append(dense(shape, lies.dtype, stage.device))
                offsets.append(0)
        key = formula, tuple(layouts)
        if key not in self._maps:
            count, compute = len(layouts) - len(targets), self._problem.compute.name
            self._maps[key] = MapExecutable(score_task(formula, layouts[:count], layouts[count:], shape, compute))
        starts = tuple(word for each in (part.batch, part.head, part.row) for word in words(each, "int64"))
        stage.add(Unchecked(self._maps[key], starts), *arrays, offsets=offsets)

    @property
    def _has_two_stats(self) -> bool:
        """Whether the statistics are in two parts, see `reference.attention`."""
        scoring = self._problem.call.scoring
        return scoring is not None and scoring.function.has_score

    def _levels(self, part: Slice) -> tuple[dict[str, Array], dict[str, tuple[Sequence[int], int]]]:
        """Return the statistics as inputs of a kernel, with strides and offsets."""
        stats = self._stage.arrays["stats"]
        inputs, more = {"level": stats}, {"level": self._rows_of("stats", part)}
        if self._has_two_stats:
            inputs["rest"], more["rest"] = stats, self._rows_of("stats", part, 1)
        return inputs, more

    def _forward(self, part: Slice) -> None:
        arrays = self._stage.arrays
        self._scores(part)
        outputs, more = {"weights": arrays["weights"]}, {}
        if "stats" in self._problem.outputs:
            outputs["stats"], more["stats"] = arrays["stats"], self._rows_of("stats", part)
            if self._has_two_stats:
                outputs["rest"], more["rest"] = arrays["stats"], self._rows_of("stats", part, 1)
        self._kernel("softmax", part, {"scores": arrays["scores"]}, outputs, more)
        self._product(self._scored("weights", part), self._matrices("v", part), self._matrices("out", part))

    def _backward(self, part: Slice) -> None:
        arrays, scale = self._stage.arrays, self._problem.scale
        self._scores(part)
        levels, more = self._levels(part)
        inputs = {"scores": arrays["scores"], **levels}
        self._kernel("weights", part, dict(inputs), {"weights": arrays["weights"]}, dict(more))
        weights, do = self._scored("weights", part), self._matrices("do", part)
        self._added("dv", part, _turned(weights), do)
        self._product(do, _turned(self._matrices("v", part)), self._scored("spread", part))
        inputs |= {"spread": arrays["spread"], "do": arrays["do"], "o": arrays["o"]}
        more |= {"do": self._rows_of("do", part), "o": self._rows_of("o", part)}
        outputs = {"slopes": arrays["weights"]}
        scoring = self._problem.call.scoring
        if scoring is not None or self._stage.has("dbias_sums"):
            # Each element is read and written by one thread.
            outputs["sums"] = arrays["spread"]
        self._kernel("slopes", part, inputs, outputs, more, self._problem.geometry.value_width)
        if self._stage.has("dbias_sums"):
            self._summed("dbias", "spread", part)
        if scoring is not None:
            found = [f"{name}_scores" for name in scoring.gradients()]
            formula = scoring.function.gradient_formula(scoring.wanted)
            self._mapped(formula, part, ("spread", "raw_scores"), ("weights", *found))
            for name in scoring.gradients():
                self._summed(name, f"{name}_scores", part)
        self._product(weights, self._matrices("k", part), self._matrices("dq", part), scale)
        self._added("dk", part, _turned(weights), self._matrices("q", part), scale)

    def _summed(self, name: str, source: str, part: Slice) -> None:
        """Add a slice's gradients of all scores to the sums for an array that broadcasts to the scores."""
        stage, sums = self._stage, self._stage.arrays[f"{name}_sums"]
        whole = (part.batches, part.heads, part.rows, self._keys)
        own = steps_of(sums)
        shape = [1 if n == 1 else m for n, m in zip(sums.lies.shape, whole, strict=True)]
        counts = [m if n == 1 else 1 for n, m in zip(sums.lies.shape, whole, strict=True)]
        scored = (part.heads * part.rows * self._keys, part.rows * self._keys, self._keys, 1)
        size = int(np.prod(shape))
        offset = self._rows_of(f"{name}_sums", part)[1]
        stage.kernel(
            "sums",
            {"slopes": stage.arrays[source], "before": sums},
            {"after": sums},
            {"slopes": scored, "before": own, "after": own},
            (*shape, *counts, size),
            *stage.flat(size),
            compute=self._problem.compute.name,
            offsets={"before": offset, "after": offset},
        )


def score_task(
    formula: Formula, inputs: Sequence[Layout], outputs: Sequence[Layout], shape: tuple[int, ...], compute: str
) -> MapTask:
    """Return the task of a kernel that applies a function to scores, elements of operands and positions.

    Args:
        formula: its last arguments are the position, and the first batch, head and query.
        inputs: arrays that broadcast to the scores.
        outputs: arrays of the scores' shape.
        shape: (batch, heads, queries, keys) of a launch.
        compute: the name of the dtype of the arithmetic.
    """
    reads = [
        view(k, 0, [0 if n == 1 else step for n, step in zip(each.shape, each.strides, strict=True)], shape)
        for k, each in enumerate(inputs)
    ]
    return MapTask(
        op=formula.name,
        formula=formula,
        reference=formula.reference,
        names=(*(f"inputs[{k}]" for k in range(len(inputs))), *(f"outputs[{k}]" for k in range(len(outputs)))),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        shape=shape,
        reads=tuple(reads),
        writes=tuple(view(k, 0, each.strides, shape) for k, each in enumerate(outputs)),
        out_given=True,
        compute=compute,
        scalars=("int64",) * 3,
        counters=tuple(tuple(int(d == axis) for d in range(4)) for axis in range(4)),
        indices=tuple(k for k, each in enumerate(inputs) if each.dtype.kind in "biu"),
    )


def _product_of(a: Layout, b: Layout, out: Layout, adds: bool, limit: int | None) -> Product:
    """Return the call of a matrix product, or of one that adds to its output, with a limit of scratch memory."""
    nothing: dict[str, Any] = dict.fromkeys(Product._fields)
    asked = {
        "a": a,
        "b": b,
        "c": out if adds else None,
        "out": out,
        "epilogue": "none",
        "has_beta": adds,
        "tune": False,
    }
    return Product(**{**nothing, **asked, "workspace_limit": limit})


def _turned(matrices: tuple[Array, Layout, int]) -> tuple[Array, Layout, int]:
    """Return matrices transposed."""
    array, lies, offset = matrices
    (*shape, rows, columns), (*steps, step, unit) = lies.shape, lies.strides
    return array, layout((*shape, columns, rows), (*steps, unit, step), lies.dtype, lies.device), offset


def build(stage: Stage, problem: AttentionProblem) -> str:
    """Add the steps of a problem to a stage; see `Unfused.build`."""
    made = Unfused(stage)
    if problem.call.direction == "dropout_mask":
        made.mask()
        return ""
    return made.build()
