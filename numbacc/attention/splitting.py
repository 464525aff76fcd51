"""Attention of few queries to many keys: cuDNN attends to parts of the keys in parallel, and a kernel joins the parts.

cuDNN's fused kernels give each multiprocessor some queries of a head, and it loops over all keys. If most
multiprocessors would be idle, parts of the keys take the role of sequences of a batch. Each part gives an output and
the log of its sum:

    o = Σ_p exp(stats_p - stats) o_p      stats = log Σ_p exp(stats_p)

The keys that remain after parts of equal length form one more part. A causal mask applies to that part alone. Without
a mask, one launch processes all parts, and cuDNN reads the length of each part from memory.

Source of the formula: "Flash-Decoding" (Dao, Haziza, Massa, Sizov 2023).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.attention_band import Band
from ..base.dispatch import graph_library, launcher_class, runtime
from ..base.layout import round_up
from ..kernels.attention.spec import JOINED
from ..libraries.cudnn_graph import ALIGNED, CudnnGraph, Wants, packed
from ..runtime.steps import ABSENT, CompiledStep, Step, Steps, compiled_steps
from . import versions
from .fused import Drawn, Form, Sketch, dense, forward
from .fusing import Fused
from .geometry import ordered
from .problem import AttentionProblem
from .staging import Array, Constants, Unchecked, steps_of

#: The first cuDNN version, and the compute capability, whose kernels passed tests with queries that a batch shares.
_TESTED, _CAPABILITY = 91900, (9, 0)
#: Queries of a head that one multiprocessor processes.
_TILE = 128
#: The length of a part is a multiple of _MULTIPLE keys and at least _SHORTEST; shorter parts cost more than they save.
_MULTIPLE, _SHORTEST = 64, 256
#: Parts of other lengths take so many times as long for each key, because kernels mask their last tile.
_RAGGED = 1.12
#: Keys are split where the estimated time falls to this fraction or less.
_WORTH = 0.8
#: Keys that a multiprocessor processes in the time of a launch, and of the launch for the keys that remain.
_LAUNCH, _REST = 384, 768


#: The arrays of the lengths of parts, in this order.
_LENGTHS = ("lengths_q", "lengths_kv")


class Cut(NamedTuple):
    """How keys are split.

    Attributes:
        full: number of parts of equal length.
        keys: keys in each of them.
        rest: keys that remain: one more part.
        together: whether cuDNN processes all sequences at once, as heads of one sequence.
        at_once: whether one launch processes the rest, too, which then has at least as many keys. cuDNN reads the
            lengths of the parts as if each part were a sequence of a batch.
    """

    full: int
    keys: int
    rest: int
    together: bool = False
    at_once: bool = False

    @property
    def parts(self) -> int:
        """Number of parts, including the rest."""
        return self.full + bool(self.rest)

    @property
    def most(self) -> int:
        """The most keys of a part in the first launch."""
        return self.rest if self.at_once else self.keys


def cut_of(problem: AttentionProblem, multiprocessors: int) -> Cut | None:
    """Return how the keys are split, or None if they are not."""
    found, band = problem.geometry, problem.band
    is_causal = band.upper == 0 and band.bottom_right and found.queries <= found.keys
    if (
        problem.call.direction != "forward"
        or problem.options.dropout
        or problem.is_scaled
        or problem.has_lengths
        or found.is_packed
        or found.page
        or "alibi" in problem.inputs
        or band.lower is not None
        or not (band.upper is None or is_causal)
        or found.queries == 1  # cuDNN splits the keys of one query itself
    ):
        return None
    hidden = found.queries if is_causal else 0
    together = found.batch > 1 and all(_is_one_sequence(problem, name) for name in ("q", "k", "v", "bias"))
    launches, sequences = (1, found.batch) if together else (found.batch, 1)
    tiles = found.heads * -(-found.queries // _TILE)
    before = -(-found.batch * tiles // multiprocessors) * found.keys + _LAUNCH
    # Heads that share keys read them from memory once.
    read = sequences * found.heads_kv
    multiple = ALIGNED // problem.dtype.itemsize if "bias" in problem.inputs else 1
    best, least = None, _WORTH * before
    for count in range(2, min(multiprocessors // (sequences * tiles), (found.keys - hidden) // _SHORTEST) + 1):
        length = (found.keys - hidden) // count // _MULTIPLE * _MULTIPLE
        cuts = [Cut(count, length, found.keys - count * length, together)]
        if not hidden and cuts[0].rest and found.keys % (count * multiple) == 0:
            cuts.append(Cut(count, found.keys // count, 0, together))
        elif not hidden and cuts[0].rest:
            length = found.keys // (count * multiple) * multiple
            cuts.append(Cut(count - 1, length, found.keys - (count - 1) * length, together, at_once=True))
        for cut in cuts:
            # Half of the multiprocessors saturate memory bandwidth, so more of them save no time.
            slower = _RAGGED if cut.most % _MULTIPLE else 1
            walked = max(cut.most * slower, 2 * found.keys * read // multiprocessors)
            rest = cut.rest + _REST if cut.rest and not cut.at_once else 0
            after = launches * (walked + _LAUNCH) + rest + _LAUNCH
            if after <= least:
                best, least = cut, after
    return best


def _is_one_sequence(problem: AttentionProblem, name: str) -> bool:
    """Return whether an array's heads of all sequences are like the heads of one sequence."""
    if name not in problem.inputs:
        return True
    lies, found = problem.inputs[name], problem.geometry
    if name == "bias":
        shape, strides = ((*(least,) * (4 - lies.ndim), *each) for least, each in ((1, lies.shape), (0, lies.strides)))
        if shape[:2] == (1, 1):
            return True
        if shape[:2] != (found.batch, found.heads):
            return False
    else:
        own = ordered(lies, problem.options.layout)
        shape, strides = own.shape, own.strides
    return shape[1] == 1 or strides[0] == shape[1] * strides[1]


def cut_on(problem: AttentionProblem, device: int) -> Cut | None:
    """Return how the keys are split on a GPU, or None if they are not."""
    if graph_library().version() < _TESTED or runtime().capability(device) != _CAPABILITY:
        return None
    return cut_of(problem, launcher_class().limits(device).multiprocessors)


def graphs(problem: AttentionProblem, cut: Cut) -> list[CudnnGraph]:
    """Return the graphs of a problem whose keys are split, for aligned arrays."""
    key = (0,) * (len(problem.inputs) + len(problem.outputs))
    return [drawn.graph for drawn, _ in Split(problem, key, cut).graphs()]


class Split(Fused):
    """The arrays and graphs of attention to parts of the keys.

    Args:
        problem, key: as in `Fused`.
        cut: how the keys are split.
    """

    def __init__(self, problem: AttentionProblem, key: Sequence[int], cut: Cut):
        self._cut = cut
        found = problem.geometry
        #: Sequences and heads as cuDNN sees them.
        self._sequences, self._heads = (1, found.batch * found.heads) if cut.together else (found.batch, found.heads)
        super().__init__(problem, key)

    @property
    def _runs_once(self) -> bool:
        """Whether there is one run. The rest of the keys starts at a multiple of 16 bytes, too."""
        return self._sequences == 1

    def _outputs_forward(self) -> None:
        stage, found = self.stage, self.problem.geometry
        width, column = self._widths[1], (self._heads, found.queries, 1)
        #: Elements of a part's output, and of its statistics; each part starts at a multiple of 16 bytes.
        self._sizes = {"out": int(np.prod(column)) * width, "stats": round_up(int(np.prod(column)), ALIGNED // 4)}
        for name, kind, each in (("out", self.problem.dtype, width), ("stats", np.dtype(np.float32), 1)):
            made = stage.part(f"{name}_parts", (self._sequences, self._cut.parts, self._sizes[name]), kind)
            shape = (*column[:2], each)
            self._take(name, made, Form(kind.name, (1, *shape), (self._sizes[name], *packed(shape))))

    def _in_one(self, name: str) -> Form:
        """Return an array's form, with the heads of all sequences in one if they are processed together."""
        own = self._forms[name]
        (batch, heads, *lengths), (apart, between, *steps) = own.shape, own.strides
        if batch == 1 or not self._cut.together:
            return own
        step = apart if heads == 1 else between
        return own._replace(shape=(1, batch * heads, *lengths), strides=(batch * heads * step, step, *steps))

    def _seen(self, name: str, is_rest: bool) -> tuple[Form, int, int]:
        """Return an array in the graph of the parts, or of the rest, with its offset and the step between sequences.

        The offset and the step are in elements.
        """
        cut, own, batch = self._cut, self._in_one(name), self._sequences
        (first, *lengths), (step, *steps) = own.shape, own.strides
        parts = cut.parts if cut.at_once else cut.full
        if name in self._sizes:
            size = self._sizes[name]
            each, start = (cut.parts * size, cut.full * size) if is_rest else (size, 0)
            return Form(own.dtype, (batch if is_rest else parts, *lengths), (each, *steps)), start, cut.parts * size
        axis, between, start = 1 if name in ("k", "v") else 2, step if first > 1 else 0, 0
        if name == "q" or lengths[axis] == 1:
            # The parts share queries, and a bias that is the same for all keys.
            count, each = (parts, 0) if name == "q" else (1, step)
        else:
            lengths[axis] = cut.rest if is_rest else cut.most
            count, each = parts, cut.keys * steps[axis]
            start = cut.full * each if is_rest else 0
        if is_rest:
            count, each = first, step
        return Form(own.dtype, (count, *lengths), (each, *steps)), start, between

    def graph(self, is_rest: bool) -> tuple[Drawn, list[tuple[int, ...]]]:
        """Return the graph of the parts, or of the rest, and byte offsets into its arrays for each run."""
        problem, cut, found = self.problem, self._cut, self.problem.geometry
        forms = {name: self._seen(name, is_rest) for name in self._arrays}
        batch = self._sequences if is_rest else forms["q"][0].shape[0]
        lengths = [(name, dense("int32", batch, 1, 1, 1)) for name in _LENGTHS[: 2 * cut.at_once]]
        sketch = Sketch(
            scores=(batch, self._heads, found.queries, cut.rest if is_rest else cut.most),
            band=problem.band if is_rest else Band(),
            arrays=(*((name, form) for name, (form, _, _) in forms.items()), *lengths),
            scale=abs(problem.scale) if self._sign else 1.0,
            dropout=problem.options.dropout,
            clamps=versions.clamps_biased_scores(self.stage.device),
        )
        sizes = [self._arrays[name].lies.itemsize for name in forms]
        runs = [
            tuple([(start + b * step) * size for (_, start, step), size in zip(forms.values(), sizes, strict=True)])
            for b in range(1 if is_rest else self._sequences)
        ]
        return forward(sketch), runs

    def graphs(self) -> list[tuple[Drawn, list[tuple[int, ...]]]]:
        """Return the graph of the parts, and of the rest if there is one, each with its runs."""
        has_rest = self._cut.rest and not self._cut.at_once
        return [self.graph(is_rest) for is_rest in (False, True)[: 1 + bool(has_rest)]]

    def join(self) -> None:
        """Add the step that joins the parts into the results."""
        stage, found, sizes = self.stage, self.problem.geometry, self._sizes
        arrays = {name: stage.arrays[name] for name in self.problem.outputs}
        steps: dict[str, Sequence[int]] = {name: (*steps_of(array), 0)[:4] for name, array in arrays.items()}
        for name, seen in (("parts", "out"), ("levels", "stats")):
            head, row, _ = self._forms[seen].strides[1:]
            between = found.heads * head if self._cut.together else self._cut.parts * sizes[seen]
            steps[name] = (between, head, row, 1)
        runs = -(-found.value_width // JOINED)
        size = int(np.prod(found.stats_shape)) * runs
        if self._stores_vectors(arrays["out"]):
            arrays = {"vectors": arrays["out"], **{name: each for name, each in arrays.items() if name != "out"}}
            steps["vectors"] = steps["out"]
        stage.kernel(
            "join",
            {"parts": self._arrays["out"], "levels": self._arrays["stats"]},
            arrays,
            steps,
            (*found.stats_shape, runs, self._cut.parts, sizes["out"], sizes["stats"], found.value_width, size),
            *stage.flat(size),
            compute="float32",
            follows=True,
        )

    def _stores_vectors(self, out: Array) -> bool:
        """Return whether the output consists of whole, contiguous, aligned runs."""
        lies, nbytes = out.lies, JOINED * self.problem.dtype.itemsize
        *steps, unit = lies.strides
        is_whole = lies.shape[3] % JOINED == 0 and unit == lies.itemsize
        return is_whole and self.stage.is_aligned(out) and not any(step % nbytes for step in steps)


#: Lengths of parts in device memory, and the lock of this table. They are small and live until the process ends.
#: Otherwise each call would have to record its stream, which took 13 µs.
_KEPT: dict[tuple[int, int, Cut], Constants] = {}
_LOCK = threading.Lock()


def _lengths_of(cut: Cut, queries: int, device: int) -> tuple[int, int]:
    """Return the addresses of the lengths of parts: of their queries, and of their keys."""
    size, step = np.dtype(np.int32).itemsize, round_up(np.dtype(np.int32).itemsize * cut.parts, ALIGNED)
    words = ((0, cut.parts, queries), (step, cut.full, cut.keys), (step + size * cut.full, 1, cut.rest))

    def write(handle: int, start: int) -> None:
        for offset, count, length in words:
            runtime().fill(start + offset, length.to_bytes(size, "little"), count, device, handle)

    with _LOCK:
        if (device, queries, cut) not in _KEPT:
            _KEPT[device, queries, cut] = Constants(2 * step, device, write)
        kept = _KEPT[device, queries, cut]
    return kept.address, kept.address + step


class _WithLengths(Unchecked):
    """A run of cuDNN whose last two arrays are the lengths of parts.

    Args:
        runner: the run, for all arrays in their order.
        lengths: the addresses of the lengths.
    """

    def __init__(self, runner: Any, lengths: tuple[int, int]):
        super().__init__(runner)
        self._lengths, self.direct = lengths, runner.direct

    def launch(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Do what `Executable.launch` does. The addresses of the lengths are scalars, which follow the arrays."""
        status: int = self.inner.launch(stream, scratch, addresses, self._lengths)
        return status

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """Do what `Executable.launch_unchecked` does."""
        return self.inner.launch_unchecked(stream, scratch, [*addresses, *self._lengths], ())

    def compiled_steps(
        self, places: tuple[tuple[int, int], ...], scratch: int, scalars: tuple[int, ...]
    ) -> list[CompiledStep] | None:
        """Return the run, if it is compiled."""
        found = compiled_steps(self.inner, (*places, *[(ABSENT, 0) for _ in self._lengths]), scratch, ())
        return found and [each._replace(places=places, scalars=self._lengths) for each in found]


def executable(
    problem: AttentionProblem,
    key: Sequence[int],
    cut: Cut,
    close: Sequence[tuple[int, ...]],
    fits: Callable[[Sequence[int]], bool],
) -> Any:
    """Return the executable of a problem whose keys are split.

    Raises:
        UnsupportedError: cuDNN does not support it.
    """
    library, device = graph_library(), problem.inputs["q"].device
    split = Split(problem, key, cut)
    stage, texts, backend = split.stage, [], ""
    for drawn, runs in split.graphs():
        algorithm = library.choose(drawn.graph, Wants(), device)
        runner = library.Runner(drawn.graph, algorithm, device, values=drawn.values)
        run = _WithLengths(runner, _lengths_of(cut, problem.geometry.queries, device)) if cut.at_once else runner
        stage.steps.append(Step(run, tuple(split.operands()), runs))
        texts.append(runner.algorithm)
        backend = runner.backend
    split.join()
    return Steps(
        stage.steps,
        stage.scratch,
        close,
        fits,
        backend=f"{backend}+kernel",
        algorithm=f"{texts[0]}, {cut.parts} parts of the keys",
    )
