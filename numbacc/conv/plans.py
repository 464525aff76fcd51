"""The plan of a convolution: which of cuDNN's plans, what is copied before it, and what our kernel adds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from ..base.dispatch import graph_library, runtime
from ..base.layout import Layout, view
from ..device import copying, workspace
from ..device.map_executable import MapExecutable, mapped
from ..device.operation import Trial
from ..device.steps import Scratch, Step, Steps, ZeroBytes
from ..errors import UnsupportedError
from ..kernels.convolved import epilogue
from ..libraries.choices import Algorithm
from ..libraries.cudnn_graph import ALIGNED
from ..libraries.cudnn_plans import Wants
from ..plan.base import Plan
from ..reference import conv as reference
from . import depthwise
from .lowering import Lowered, Way, forms, lower, lower_other, others, packed, room, ways, widened
from .problem import Call, activations_of, resolve


class ConvPlan(Plan):
    """A planned convolution, or gradient of one. Call it with arrays laid out as those it was made for.

    Plans of cuDNN belong to a thread: each thread that runs this one restores its own, once.
    """

    per_thread = True
    backend = "cudnn"

    def __init__(self, call: Call):
        problem = self.problem = resolve(call)
        super().__init__(f"conv.{call.direction}", problem.names, problem.inputs, (problem.out,))
        self._check_writable()
        self.out_given = call.out is not None
        self.math_dtype, self.accumulator_dtype = problem.compute, problem.accumulator
        self.tunes = bool(call.tune)
        self.empty = not problem.out.size

    # ------------------------------------------------------------ choosing

    def _key(self, addresses: Sequence[int]) -> tuple[bool, ...]:
        return tuple([address % ALIGNED == 0 for address in addresses])

    def _make(self, key: tuple[bool, ...], trial: Trial | None) -> Any:
        if self.problem.sums_nothing:
            return self._rest(key)
        ours = self._depthwise(key) if all(key) else None
        if ours is not None and trial is None:
            return ours
        untaken = None
        for lowered in forms(self.problem, key, trial is not None and all(key)):
            if room(self.problem, lowered) < 0:
                continue
            try:
                return self._chosen(lowered, trial, key, ours)
            except UnsupportedError as error:
                # What is said is said of the convolution as it was asked for.
                untaken = untaken or (None if lowered.name else error)
        if ours is not None:
            return ours
        assert untaken is not None
        if self.problem.call.a.dtype.name == "int8":
            return self._by_floats(key, untaken)
        raise untaken

    def _depthwise(self, key: tuple[bool, ...]) -> Any:
        """Our own kernels as an executable; None where they are not for this convolution."""
        scratch = Scratch()
        steps = depthwise.launches(self.problem, self._pairs(), scratch)
        if len(steps) < 2:
            return steps[0].executable if steps else None
        return self._steps(steps, scratch, key, None, steps[0].executable.algorithm)

    def _by_floats(self, key: tuple[bool, ...], untaken: UnsupportedError) -> Steps:
        """Sums of int8 for which there is no engine, by way of floats that hold them exactly."""
        problem, library, scratch = self.problem, graph_library(), Scratch()
        other, last, nothing = widened(problem), len(self.inputs), Way(False, False)
        lowered = lower(other, nothing, (True,) * 3)
        try:
            algorithm = library.choose(lowered.graphs[0], other.wants, self.device)
        except UnsupportedError as error:
            raise untaken from error
        floats = (*other.inputs, other.out)
        parts = [last + 1 + scratch.part(array.nbytes) for array in floats]
        into = [Step(_converted(self.inputs[k], floats[k]), (k, parts[k])) for k in range(2)]
        runner = library.Runner(lowered.graphs[0], algorithm, self.device)
        steps = [
            *into,
            Step(runner, tuple(parts[k] for k in lowered.operands)),
            Step(_converted(other.out, problem.out), (parts[-1], last)),
            *self._behind(nothing, problem.factors[2]),
        ]
        return self._steps(steps, scratch, key, runner, f"in {other.compute}: {runner.algorithm}")

    def _steps(
        self, steps: Sequence[Step], scratch: Scratch, key: tuple[bool, ...], runner: Any, algorithm: str
    ) -> Steps:
        """Steps of which a plan of cuDNN's is one, or, where there is no runner, none."""
        return Steps(
            steps,
            scratch,
            self.close,
            lambda addresses: self._key(addresses) == key,
            backend="kernel" if runner is None else runner.backend + "+kernel",
            algorithm=algorithm,
            deterministic=runner is None or runner.deterministic,
        )

    def _chosen(self, lowered: Lowered, trial: Trial | None, key: tuple[bool, ...], ours: Any = None) -> Any:
        """cuDNN's plan as an executable: the first that fits, or, where there is a trial, the fastest.

        Args:
            ours: our own kernels, which are measured beside cuDNN's plans.
        """
        library = graph_library()
        if trial is None:
            return self._assembled(lowered, library.choose(lowered.graphs[0], self._wants(lowered), self.device), key)
        alike: list[Lowered] = [lowered, *(self._others() if all(key) and not lowered.name else ())]
        asked = [(each, graph) for each in alike for graph in each.graphs]

        own = [] if ours is None else [Algorithm(b"depthwise", ours.workspace_bytes, ours.algorithm)]

        def made(algorithm: Algorithm) -> Any:
            if algorithm.data in [each.data for each in own]:
                return ours
            return self._assembled(asked[library.number_of(algorithm)][0], algorithm, key)

        addresses = list(trial.addresses)
        memory: list[Any] = []

        def tried(algorithm: Algorithm) -> Callable[[], None]:
            if not memory:  # for results, of all trials
                out = self.problem.out
                memory.append(runtime().allocate(out.high - out.low, self.device, trial.stream))
                addresses[len(self.inputs)] = memory[0].address - out.low
            return self._tried(made(algorithm), trial.stream, addresses)

        graphs, wants = [graph for _, graph in asked], [self._wants(each) for each, _ in asked]
        return made(library.tune(graphs, wants, self.device, trial.stream, tried, own))

    def _wants(self, lowered: Lowered) -> Wants:
        return self.problem.wants._replace(workspace_limit=room(self.problem, lowered))

    def _others(self) -> Iterator[Lowered]:
        """What is measured with arrays as they lie, where these start on multiples of 16 bytes."""
        problem = self.problem
        aligned = (True,) * (len(self.inputs) + 1)
        # Activations that are fused, but not first, since what is compiled for them is not what comes first.
        found = [lower(problem, way, aligned) for way in ways(problem)[1:] if way.activation]
        # What of float32 is not for tensor cores are old engines, some of them of one order of channels alone.
        orders = (False, True) if problem.wants.inputs in ("exact", "fft") else (False,)
        if len(orders) > 1:
            # With as much of an epilogue as there is an engine for: those without one are left out.
            found += [lower(problem, way, aligned, rearranged=True) for way in ways(problem, rearranged=True)]
        for other in others(problem):
            if other.is_measured:
                best, *more = ways(other.problem)
                some = [best, *(way for way in more if way.activation)]
                found += [lower_other(other, way, aligned, rearranged) for way in some for rearranged in orders]
        return (each for each in found if room(problem, each) >= 0)

    def _assembled(self, lowered: Lowered, algorithm: Any, key: tuple[bool, ...]) -> Any:
        """cuDNN's plan as an executable: alone, or with copies before it and our kernel behind."""
        problem, library = self.problem, graph_library()
        behind = self._behind(lowered.way, problem.factors[2])
        if not lowered.copies and not behind:
            return library.Runner(lowered.graphs[0], algorithm, self.device, lowered.operands, self._pairs())
        scratch, last = Scratch(), len(self.inputs)
        numbers, steps, back = list(range(last + 1)), [], []
        for number, dense in lowered.copies:
            numbers[number] = last + 1 + scratch.part(dense.nbytes)
            own = (*self.inputs, *self.outputs)[number]
            if number < last or problem.call.beta:
                steps.append(Step(lowered.made.into(number, own, dense), (number, numbers[number])))
            if number == last:
                parts = lowered.made.back(number, dense, own)
                back += [Step(part.executable, (numbers[number], number), (part.offsets,)) for part in parts]
        runner = library.Runner(lowered.graphs[0], algorithm, self.device)
        steps.append(Step(runner, tuple(numbers[k] for k in lowered.operands)))
        algorithm = f"{lowered.name}: {runner.algorithm}" if lowered.name else runner.algorithm
        left = problem.left(lowered.way.bias, lowered.way.activation)
        told = f"{algorithm}; then a kernel: {left}" if left else algorithm
        return self._steps([*steps, *back, *behind], scratch, key, runner, told)

    def _behind(self, way: Way, factor: float = 1.0) -> list[Step]:
        """What cuDNN leaves of a factor, the bias and the activation, in place."""
        call, out, last = self.problem.call, self.problem.out, len(self.inputs)
        bias = None if way.bias else call.bias
        activation = None if way.activation else call.activation
        if bias is None and activation is None and factor == 1:
            return []
        reads, inputs, numbers = [view(0, 0, out.strides, out.shape)], [out], [last]
        if bias is not None:
            axis = out.ndim - 1 if self.problem.geometry.window.channels_last else 1
            steps = tuple(bias.strides[0] if k == axis else 0 for k in range(out.ndim))
            reads.append(view(1, 0, steps, out.shape))
            inputs.append(bias)
            numbers.append(last - 1)
        formula = epilogue(activation, bias is not None, factor, out.dtype.kind == "i")
        names = (*("out", "bias")[: len(inputs)], "out")
        return [Step(mapped(formula, inputs, out, names, reads), (*numbers, last))]

    def _rest(self, key: tuple[bool, ...]) -> Steps:
        """The executable of what is left without sums: beta out, or 0, and what follows."""
        out, beta = self.problem.out, float(self.problem.call.beta)
        last, scratch, steps = len(self.inputs), Scratch(), []
        if not beta:
            dense = packed(out)
            part = last + 1 + scratch.part(dense.nbytes)
            steps.append(Step(ZeroBytes(dense.nbytes, self.device), (part,)))
            steps.append(Step(copying.executable(dense, out), (part, last)))
        behind = self._behind(Way(False, False), beta or 1.0)
        return self._steps([*steps, *behind], scratch, key, None, "nothing is summed")

    def _tried(self, executable: Any, stream: int, addresses: Sequence[int]) -> Callable[[], None]:
        """A function that queues the work by an executable."""

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


def everyday(call: Call) -> Iterator[MapExecutable]:
    """Our kernels behind a convolution: with its bias or none, each activation, and as much done by cuDNN as may be.

    Of int8 those around it, too.
    """
    problem = resolve(call)
    for activation, bias in product((None, *activations_of(problem.out)), (None, call.bias)):
        plan = ConvPlan(call._replace(activation=activation, bias=bias))
        for way in ways(plan.problem):
            yield from (step.executable for step in plan._behind(way))
    if call.a.dtype.name == "int8":
        for name in ("float32", "float64"):
            other = widened(problem, name)
            yield from map(_converted, (*problem.inputs[:2], other.out), (*other.inputs, problem.out))


def _converted(source: Layout, target: Layout) -> MapExecutable:
    """A copy with another dtype, of whole numbers that both hold."""
    return mapped(epilogue(None, False), [source], target, ("x", "out"))
