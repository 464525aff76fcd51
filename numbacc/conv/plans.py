"""The plan of a convolution: it chooses cuDNN's plan, the copies before it, and numbacc's kernel after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ..base.dispatch import graph_library, runtime
from ..base.layout import Layout, view
from ..errors import UnsupportedError
from ..kernels.conv.epilogue import epilogue
from ..kernels.elementwise import copy
from ..kernels.elementwise.launch import MapExecutable, mapped
from ..libraries.choices import Algorithm
from ..libraries.cudnn_graph import ALIGNED, Wants
from ..plan.base import Plan, Result
from ..reference import conv as reference
from ..runtime import workspace
from ..runtime.operation import Trial
from ..runtime.steps import Scratch, Step, Steps, ZeroBytes
from . import depthwise
from .interleaved import FAST, Interleaved, pays
from .lowering import (
    LoweredConv,
    Way,
    cudnn_layout,
    forms,
    is_proven,
    lower,
    lower_other,
    others,
    packed,
    prefers_rearranged,
    room,
    told_copies,
    ways,
    widened,
)
from .operand_copies import PLAIN, Copies
from .problem import ConvCall, resolve

#: Between these numbers of pixels, cuDNN's engines move channels as fast as numbacc's kernels, or faster. On an H100,
#: 64 images of 64 channels at 56 x 56, with 3 x 3 taps, took 0.107 ms with cuDNN's and 0.088 with numbacc's; of 128
#: channels at 28 x 28 0.063 and 0.065; of 256 at 14 x 14 0.055 both; of 512 at 7 x 7 0.059 and 0.053.
_FEW_PIXELS, _MANY_PIXELS = 64, 1024


class ConvPlan(Plan[Result]):
    """A plan of a convolution, or of one of its gradients. Call it with arrays that have the layouts it was made for.

    cuDNN's plans belong to a thread: each thread that runs this plan restores its own once.
    """

    per_thread = True
    backend = "cudnn"

    def __init__(self, call: ConvCall):
        problem = self.problem = resolve(call)
        super().__init__(f"conv.{call.direction}", problem.names, problem.inputs, (problem.out,))
        self._check_writable()
        self.out_given = call.out is not None
        self.math_dtype, self.accumulator_dtype = problem.compute, problem.accumulator
        self.tunes = bool(call.tune)
        self.empty = not problem.out.size
        self._is_planar = depthwise.is_ours(problem) and depthwise.is_planar(problem)

    # ------------------------------------------------------------ choosing

    def _key(self, addresses: Sequence[int]) -> tuple[int, ...]:
        """Return a number for each operand: 0 if it is aligned. Planar kernels have launches for each alignment."""
        if self._is_planar:
            return tuple([address % ALIGNED for address in addresses])
        return tuple([int(address % ALIGNED > 0) for address in addresses])

    def _make(self, key: tuple[int, ...], trial: Trial | None) -> Any:
        if self.problem.sums_nothing:
            return self._rest(key)
        ours = self._depthwise(key)
        if ours is not None and trial is None:
            return ours
        untaken, rounds_once = None, self._rounds_once
        for lowered in forms(self.problem, _aligned(key), trial is not None):
            if room(self.problem, lowered) < 0:
                continue
            if rounds_once and not lowered.way.activation:
                rounds_once = False
                try:
                    return self._by_floats(key)
                except UnsupportedError:
                    pass  # fall back to rounding the result twice
            try:
                return self._chosen(lowered, trial, key, ours)
            except UnsupportedError as error:
                # Report the error of the convolution that the user called.
                untaken = untaken or (None if lowered.name else error)
        if ours is not None:
            return ours
        assert untaken is not None
        if self.problem.call.a.dtype.name == "int8":
            try:
                return self._by_floats(key)
            except UnsupportedError as error:
                raise untaken from error
        raise untaken

    def _depthwise(self, key: tuple[int, ...]) -> Any:
        """Return numbacc's depthwise kernels as an executable, or None if they do not support this convolution.

        They need contiguous channels, or contiguous columns. Other operands are copied.
        """
        scratch = Scratch()
        is_read = self._is_planar or not any(key)
        steps = depthwise.launches(self.problem, self._pairs(), scratch, key) if is_read else []
        if len(steps) == 1:
            return steps[0].executable
        if steps:
            return self._steps(steps, scratch, key, None, steps[0].executable.algorithm)
        last, named_last = len(self.inputs), self.problem.geometry.window.channels_last
        channels_last = named_last is not prefers_rearranged(self.problem, _aligned(key))
        wanted = [cudnn_layout(array, named_last, channels_last) for array in (*self.inputs, *self.outputs)]
        call = self.problem.call._replace(a=wanted[0], b=wanted[1], bias=wanted[2] if last == 3 else None)
        other = replace(self.problem, call=call, out=wanted[-1])
        if not depthwise.is_ours(other):
            return None
        places = zip((*self.inputs, *self.outputs), wanted, _aligned(key), strict=True)
        copies = [(k, to) for k, (own, to, starts) in enumerate(places) if not is_proven(own, starts, to)]
        scratch = Scratch()
        numbers, into, back = self._copied(copies, PLAIN, scratch)
        launches = depthwise.launches(other, (), scratch, (0,) * (last + 1))
        if not launches or scratch.nbytes > (self.problem.wants.workspace_limit or 0):
            return None
        steps = [
            step._replace(operands=tuple(numbers[k] if k <= last else k for k in step.operands)) for step in launches
        ]
        told = steps[0].executable.algorithm + told_copies(self.problem.names, [number for number, _ in copies])
        return self._steps([*into, *steps, *back], scratch, key, None, told)

    @property
    def _rounds_once(self) -> bool:
        """Whether a kernel must not round a 16-bit sum again after cuDNN.

        This holds for depthwise convolutions with an activation. Other convolutions keep both roundings, as torch does.
        ReLU does not round.
        """
        found, call = self.problem.geometry, self.problem.call
        is_depthwise = found.window.groups == found.channels
        return is_depthwise and call.a.itemsize == 2 and call.activation not in (None, "relu")

    def _by_floats(self, key: tuple[int, ...]) -> Steps:
        """Return a convolution in wider floats, for int8 without an engine, or for 16 bits with one final rounding.

        Raises:
            UnsupportedError: cuDNN does not support it in floats either.
        """
        problem, library, scratch = self.problem, graph_library(), Scratch()
        other, last, nothing = widened(problem), len(self.inputs), Way(False, False)
        lowered = lower(other, nothing, (True,) * 3)
        algorithm = library.choose(lowered.graphs[0], other.wants, self.device)
        floats = (*other.inputs, other.out)
        parts = [last + 1 + scratch.part(array.nbytes) for array in floats]
        into = [Step(converted(self.inputs[k], floats[k]), (k, parts[k])) for k in range(2)]
        if other.call.beta:
            into.append(Step(converted(problem.out, other.out), (last, parts[-1])))
        runner = library.Runner(lowered.graphs[0], algorithm, self.device)
        if problem.call.a.dtype.kind == "i":
            # The epilogue computes in the result's dtype.
            whole = Step(converted(other.out, problem.out), (parts[-1], last))
            behind = [whole, *self._behind(nothing, problem.factors[2])]
        else:
            behind = self._behind(nothing, 1.0, other.out, parts[-1])
        steps = [*into, Step(runner, tuple(parts[k] for k in lowered.operands)), *behind]
        return self._steps(steps, scratch, key, runner, f"in {other.compute}: {runner.algorithm}")

    def _copied(
        self, copies: Sequence[tuple[int, Layout]], made: Copies, scratch: Scratch
    ) -> tuple[list[int], list[Step], list[Step]]:
        """Return the numbers of the operands or their copies, inputs first, and the steps that copy in and back."""
        last = len(self.inputs)
        numbers, into, back = list(range(last + 1)), [], []
        for number, dense in copies:
            numbers[number] = last + 1 + scratch.part(dense.nbytes)
            own = (*self.inputs, *self.outputs)[number]
            if number < last or self.problem.call.beta:
                if number in made.filled:
                    into.append(Step(ZeroBytes(dense.nbytes, self.device), (numbers[number],)))
                parts = made.into(number, own, dense)
                into += [Step(part.executable, (number, numbers[number]), (part.offsets,)) for part in parts]
            if number == last:
                parts = made.back(number, dense, own)
                back += [Step(part.executable, (numbers[number], number), (part.offsets,)) for part in parts]
        return numbers, into, back

    def _steps(
        self, steps: Sequence[Step], scratch: Scratch, key: tuple[int, ...], runner: Any, algorithm: str
    ) -> Steps:
        """Return an executable of steps. One of them runs cuDNN's plan, unless `runner` is None."""
        return Steps(
            steps,
            scratch,
            self.close,
            lambda addresses: self._key(addresses) == key,
            backend="kernel" if runner is None else runner.backend + "+kernel",
            algorithm=algorithm,
            deterministic=runner is None or runner.deterministic,
        )

    def _chosen(self, lowered: LoweredConv, trial: Trial | None, key: tuple[int, ...], ours: Any = None) -> Any:
        """Return cuDNN's plan as an executable: the first that fits, or with a trial the fastest.

        Args:
            ours: numbacc's kernels, which are measured together with cuDNN's plans.
        """
        library = graph_library()
        if trial is None:
            algorithm = library.choose(lowered.graphs[0], self._wants(lowered), self.device)
            for other, engines in self._faster(lowered, algorithm, _aligned(key)):
                try:
                    better = library.choose(other.graphs[0], self._wants(other), self.device)
                except UnsupportedError:
                    continue
                if engines is None or better.kind[0] in engines:
                    return self._assembled(other, better, key)
            return self._assembled(lowered, algorithm, key)
        alike: list[LoweredConv] = [lowered, *(() if lowered.made.name else self._others(lowered, _aligned(key)))]
        asked = [(each, graph) for each in alike for graph in each.graphs]

        own = [] if ours is None else [Algorithm(b"depthwise", ours.workspace_bytes, ours.algorithm)]

        def made(algorithm: Algorithm) -> Any:
            if algorithm.data in [each.data for each in own]:
                return ours
            return self._assembled(asked[library.number_of(algorithm)][0], algorithm, key)

        addresses = list(trial.addresses)
        memory: list[Any] = []

        def tried(algorithm: Algorithm) -> Callable[[], None]:
            if not memory:  # for the results of all trials
                out = self.problem.out
                memory.append(runtime().allocate(out.high - out.low, self.device, trial.stream))
                addresses[len(self.inputs)] = memory[0].address - out.low
            return self._tried(made(algorithm), trial.stream, addresses)

        graphs, wants = [graph for _, graph in asked], [self._wants(each) for each, _ in asked]
        return made(library.tune(graphs, wants, self.device, trial.stream, tried, own))

    def _faster(
        self, lowered: LoweredConv, algorithm: Algorithm, aligned: Sequence[bool]
    ) -> Iterator[tuple[LoweredConv, Sequence[int] | None]]:
        """Yield forms that replace one whose operands cuDNN reads in place, each with the engines that it needs.

        With channels first in 16 bits, cuDNN's engines for tensor cores move the channels themselves, with scratch
        memory for both images. Engines that read channels first, as some do for kernels of one tap, need less memory.
        For some images numbacc's kernels are faster.
        """
        problem, nbytes = self.problem, sum(array.nbytes for array in self.problem.images)
        if lowered.name or problem.call.a.itemsize != 2:
            return
        found: list[tuple[LoweredConv, Sequence[int] | None]] = []
        pixels = max(prod(problem.geometry.lengths), prod(problem.geometry.places))
        is_moved = not problem.geometry.window.channels_last and algorithm.workspace_bytes >= nbytes
        if is_moved and not _FEW_PIXELS < pixels < _MANY_PIXELS:
            found.append((lower(problem, lowered.way, aligned, True), None))
        nothing, fast = Way(False, False), FAST[problem.call.direction]
        some = [other for other in others(problem) if isinstance(other.made, Interleaved)] if pays(problem) else []
        if some and len(lowered.graphs[0].nodes) > 1:
            # With an epilogue, engines have other numbers. A kernel applies it to the results of interleaved images.
            alone = lower(problem, nothing, aligned)
            algorithm = graph_library().choose(alone.graphs[0], self._wants(alone), self.device)
        if some and algorithm.kind[0] not in fast:
            found += [(lower_other(other, nothing, aligned), fast) for other in some]
        yield from (each for each in found if room(problem, each[0]) >= 0)

    def _wants(self, lowered: LoweredConv) -> Wants:
        return self.problem.wants._replace(workspace_limit=room(self.problem, lowered))

    def _others(self, first: LoweredConv, aligned: Sequence[bool]) -> Iterator[LoweredConv]:
        """Yield the alternatives that `tune=True` measures in addition to the first."""
        problem, is_elsewhere = self.problem, bool(first.rearranged)
        # Fused activations that do not come first, since their compiled engines come after precompiled ones.
        some = [way for way in ways(problem, is_elsewhere) if way.activation and way != first.way]
        found = [lower(problem, way, aligned, is_elsewhere) for way in some]
        # In float32 without tensor cores, cuDNN's engines are old, and some support only one position of channels.
        orders = (False, True) if problem.wants.inputs in ("exact", "fft") else (False,)
        if problem.call.a.itemsize == 2 and not problem.geometry.window.channels_last:
            found.append(lower(problem, first.way, aligned, not is_elsewhere))
        if len(orders) > 1:
            # Try every part of the epilogue: those without an engine are skipped later.
            found += [lower(problem, way, aligned, not is_elsewhere) for way in ways(problem, not is_elsewhere)]
        for other in others(problem):
            if other.is_measured:
                best, *more = ways(other.problem)
                some = [best, *(way for way in more if way.activation)]
                found += [lower_other(other, way, aligned, rearranged) for way in some for rearranged in orders]
        return (each for each in found if room(problem, each) >= 0)

    def _assembled(self, lowered: LoweredConv, algorithm: Any, key: tuple[int, ...]) -> Any:
        """Return cuDNN's plan as an executable: alone, or with copies before it and numbacc's kernel after it."""
        problem, library = self.problem, graph_library()
        behind = self._behind(lowered.way, problem.factors[2])
        if not lowered.copies and not behind:
            return library.Runner(lowered.graphs[0], algorithm, self.device, lowered.operands, self._pairs())
        scratch = Scratch()
        numbers, steps, back = self._copied(lowered.copies, lowered.made, scratch)
        runner = library.Runner(lowered.graphs[0], algorithm, self.device)
        steps.append(Step(runner, tuple(numbers[k] for k in lowered.operands)))
        algorithm = lowered.describe(runner.algorithm, problem.names)
        left = problem.left(lowered.way.bias, lowered.way.activation)
        algorithm = f"{algorithm}; then a kernel: {left}" if left else algorithm
        return self._steps([*steps, *back, *behind], scratch, key, runner, algorithm)

    def _behind(
        self, way: Way, factor: float = 1.0, source: Layout | None = None, number: int | None = None
    ) -> list[Step]:
        """Return the step that applies the rest of the epilogue, in place or from `source`, operand `number`."""
        call, out, last = self.problem.call, self.problem.out, len(self.inputs)
        bias = None if way.bias else call.bias
        activation = None if way.activation else call.activation
        if bias is None and activation is None and factor == 1 and source is None:
            return []
        first = out if source is None else source
        reads, inputs, numbers = [view(0, 0, first.strides, out.shape)], [first], [last if number is None else number]
        if bias is not None:
            axis = out.ndim - 1 if self.problem.geometry.window.channels_last else 1
            steps = tuple(bias.strides[0] if k == axis else 0 for k in range(out.ndim))
            reads.append(view(1, 0, steps, out.shape))
            inputs.append(bias)
            numbers.append(last - 1)
        formula = epilogue(activation, bias is not None, factor, out.dtype.kind == "i")
        names = (*("out", "bias")[: len(inputs)], "out")
        return [Step(mapped(formula, inputs, out, names, reads), (*numbers, last))]

    def _rest(self, key: tuple[int, ...]) -> Steps:
        """Return an executable without a convolution: it writes beta out, or 0, and applies the epilogue."""
        out, beta = self.problem.out, float(self.problem.call.beta)
        last, scratch, steps = len(self.inputs), Scratch(), []
        if not beta:
            dense = packed(out)
            part = last + 1 + scratch.part(dense.nbytes)
            steps.append(Step(ZeroBytes(dense.nbytes, self.device), (part,)))
            steps.append(Step(copy.executable(dense, out), (part, last)))
        behind = self._behind(Way(False, False), beta or 1.0)
        return self._steps([*steps, *behind], scratch, key, None, "nothing is summed")

    def _tried(self, executable: Any, stream: int, addresses: Sequence[int]) -> Callable[[], None]:
        """Return a function that queues the work of an executable."""

        def launch(scratch: int) -> None:
            status = executable.launch_unchecked(stream, scratch, addresses, ())
            if status:
                executable.check(status)

        return lambda: workspace.run(launch, executable.workspace_bytes, self.device, stream)

    # ------------------------------------------------------------ NumPy

    def _compute(self, inputs: Sequence[Any], outs: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
        problem, call = self.problem, self.problem.call
        window, (a, b, *bias), (out,) = problem.geometry.window, inputs, outs
        options = {"out_dtype": problem.out.dtype, "alpha": float(call.alpha), "beta": float(call.beta), "before": out}
        if call.direction == "forward":
            found = reference.forward(
                a, b, window, **options, bias=bias[0] if bias else None, activation=call.activation
            )
        elif call.direction == "backward_data":
            found = reference.backward_data(a, b, problem.geometry.x_shape, window, **options)
        else:
            found = reference.backward_filter(a, b, problem.geometry.w_shape, window, **options)
        if out is None:
            return (found,)
        np.copyto(out, found)
        return outs


def _aligned(key: Sequence[int]) -> tuple[bool, ...]:
    """Return which operands are aligned, given a key of `ConvPlan`."""
    return tuple([not each for each in key])


def converted(source: Layout, target: Layout) -> MapExecutable:
    """Return a copy to another dtype, for integers that both dtypes represent."""
    return mapped(epilogue(None, False), [source], target, ("x", "out"))
