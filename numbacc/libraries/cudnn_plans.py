"""From a graph to a plan: cuDNN's proposals, a check which of them may be used, and the plan that is built.

An engine is a kernel or a family of kernels; a configuration is an engine with its knobs. The heuristics rank
configurations that may fit; whether one does is only known when its plan is built. Plans are stored as JSON that cuDNN
writes. From it another thread or process restores the plan in a millisecond, while compiling the engine's kernel takes
seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from numbacc_bindings import cudnn as api
from numbacc_bindings.cudnn import AttributeName as Name
from numbacc_bindings.cudnn import (
    AttributeType,
    BehaviorNote,
    CudnnError,
    DescriptorType,
    HeurMode,
    KnobType,
    NumericalNote,
)

from .choices import Algorithm
from .cudnn_descriptors import Descriptor, Site
from .cudnn_graph import Wants

#: Upper bounds for the configurations of a graph, the knobs of an engine, and either kind of notes.
_CONFIGURATIONS, _KNOBS, _NOTES = 512, 64, 32


class Configuration:
    """An engine and its knobs, as proposed for a graph.

    Attributes:
        engine: its number among the engines for this kind of graph.
        knobs: pairs of a `KnobType` and a value.
        notes: its numerical properties, of `NumericalNote`.
        behavior: its other properties, of `BehaviorNote`.
    """

    def __init__(self, descriptor: Descriptor):
        self.descriptor = descriptor
        (found,) = api.get_descriptors(descriptor.value, Name.ENGINECFG_ENGINE, DescriptorType.ENGINE_DESCRIPTOR)
        engine = Descriptor(value=found)
        self.engine = api.get_int64(found, Name.ENGINE_GLOBAL_INDEX)
        self.notes = frozenset(_notes(engine, Name.ENGINE_NUMERICAL_NOTE, AttributeType.NUMERICAL_NOTE))
        self.behavior = frozenset(_notes(engine, Name.ENGINE_BEHAVIOR_NOTE, AttributeType.BEHAVIOR_NOTE))
        kind = DescriptorType.KNOB_CHOICE_DESCRIPTOR
        chosen = api.get_descriptors(descriptor.value, Name.ENGINECFG_KNOB_CHOICES, kind, _KNOBS)
        self.knobs = tuple(sorted(_knob(Descriptor(value=each)) for each in chosen))

    @property
    def compiled_late(self) -> bool:
        """Whether its kernel is compiled when the plan is built."""
        return BehaviorNote.RUNTIME_COMPILATION in self.behavior

    @property
    def deterministic(self) -> bool:
        return NumericalNote.NONDETERMINISTIC not in self.notes

    def unwanted(self, wants: Wants) -> str:
        """Return why the configuration may not be used, "" if it may."""
        has = self.notes.__contains__
        if wants.deterministic and not self.deterministic:
            return "not deterministic"
        if has(NumericalNote.REDUCED_PRECISION_REDUCTION):
            return "adds up in the inputs' precision"
        if wants.inputs != "any" and has(NumericalNote.DOWN_CONVERT_INPUTS):
            return "rounds float32 to 16 bits"
        if wants.inputs in ("exact", "fft") and has(NumericalNote.TENSOR_CORE):
            return "rounds float32 for tensor cores"
        transforms = has(NumericalNote.WINOGRAD) or has(NumericalNote.FFT)
        if transforms and wants.inputs in ("exact", "tf32", "whole", "double"):
            return "uses Winograd or Fourier transforms"
        if wants.inputs == "fft" and has(NumericalNote.WINOGRAD):
            return "uses Winograd transforms, whose errors are larger"
        return ""

    def __str__(self) -> str:
        knobs = [f"{_name(KnobType, kind)}={value}" for kind, value in self.knobs]
        return ", ".join((f"engine {self.engine}", *knobs, *(["compiled at run time"] if self.compiled_late else [])))


def _name(enum: Any, number: int) -> str:
    """Return the name of an enum's member, or the number if a newer library has more members."""
    try:
        return str(enum(number).name).lower()
    except ValueError:
        return str(number)


def _notes(engine: Descriptor, name: Name, kind: AttributeType) -> list[int]:
    return api.get_numbers(engine.value, name, kind, _NOTES)


def _knob(choice: Descriptor) -> tuple[int, int]:
    (kind,) = api.get_numbers(choice.value, Name.KNOB_CHOICE_KNOB_TYPE, AttributeType.KNOB_TYPE)
    return kind, api.get_int64(choice.value, Name.KNOB_CHOICE_KNOB_VALUE)


def proposals(graph: Descriptor, site: Site, mode: HeurMode) -> list[Configuration]:
    """Return the heuristics' proposals for a graph, best first; an empty list if they propose nothing."""
    asked = Descriptor(DescriptorType.ENGINEHEUR_DESCRIPTOR)
    asked.put(Name.ENGINEHEUR_OPERATION_GRAPH, graph)
    api.set_number(asked.value, Name.ENGINEHEUR_MODE, AttributeType.HEUR_MODE, mode)
    site.tell(asked, None, Name.ENGINEHEUR_DEVICEPROP)
    try:
        asked.done()
        kind = DescriptorType.ENGINECFG_DESCRIPTOR
        found = api.get_descriptors(asked.value, Name.ENGINEHEUR_RESULTS, kind, _CONFIGURATIONS)
    except CudnnError:
        return []
    made = [Descriptor(value=each) for each in found]
    for each in made:
        each.hold(graph)
    return [Configuration(each) for each in made]


def all_engines(graph: Descriptor, site: Site) -> Iterator[Configuration]:
    """Yield every engine that supports this kind of graph with its default knobs, even if no heuristic proposes it."""
    for number in range(api.get_int64(graph.value, Name.OPERATIONGRAPH_ENGINE_GLOBAL_COUNT)):
        engine = Descriptor(DescriptorType.ENGINE_DESCRIPTOR)
        engine.put(Name.ENGINE_OPERATION_GRAPH, graph)
        api.set_int64s(engine.value, Name.ENGINE_GLOBAL_INDEX, (number,))
        site.tell(engine, None, Name.ENGINE_DEVICEPROP)
        configuration = Descriptor(DescriptorType.ENGINECFG_DESCRIPTOR)
        try:
            configuration.put(Name.ENGINECFG_ENGINE, engine.done())
            yield Configuration(configuration.done())
        except CudnnError:
            continue  # the engine does not support these tensors


class Built(NamedTuple):
    """A plan.

    Attributes:
        descriptor: its owner.
        workspace_bytes: scratch memory that it needs.
    """

    descriptor: Descriptor
    workspace_bytes: int


def build(configuration: Configuration, site: Site) -> Built:
    """Build the plan of a configuration.

    Raises:
        CudnnError: the engine does not support this graph after all, or its kernel cannot be compiled.
    """
    plan = _plan(site)
    plan.put(Name.EXECUTION_PLAN_ENGINE_CONFIG, configuration.descriptor)
    return _finished(plan)


def restore(data: bytes, site: Site) -> Built:
    """Restore the plan that `keep` wrote.

    Raises:
        CudnnError: another version of cuDNN wrote it, or it was written for another GPU.
    """
    plan = _plan(site)
    api.set_text(plan.value, Name.EXECUTION_PLAN_JSON_REPRESENTATION, data)
    return _finished(plan)


def _plan(site: Site) -> Descriptor:
    made = Descriptor(DescriptorType.EXECUTION_PLAN_DESCRIPTOR)
    # This must come first: cuDNN 9.28 crashes if the text is set before it.
    site.tell(made, Name.EXECUTION_PLAN_HANDLE, Name.EXECUTION_PLAN_DEVICEPROP)
    return made


def _finished(plan: Descriptor) -> Built:
    plan.done()
    return Built(plan, api.get_int64(plan.value, Name.EXECUTION_PLAN_WORKSPACE_SIZE))


def keep(configuration: Configuration, built: Built) -> Algorithm:
    """Return a plan in the form that is stored in memory and on disk."""
    data = api.get_text(built.descriptor.value, Name.EXECUTION_PLAN_JSON_REPRESENTATION)
    kind = (configuration.engine, int(configuration.compiled_late))
    return Algorithm(data, built.workspace_bytes, str(configuration), kind, configuration.deterministic)


class Rejected(NamedTuple):
    """A configuration that was rejected, and the reason.

    Attributes:
        engine: its number; None for the reason of a heuristic that proposes nothing.
        reason: a text from cuDNN or numbacc.
    """

    engine: int | None
    reason: str


#: The beginnings of reasons that only name a function which passed on another reason (cuDNN's C++), or a heuristic.
_PASSED_ON = (
    "check_",
    "!isValid",
    "(CUDNN_STATUS",
    "no search results",
    "The specified engine with",
    "CUDNN_HEUR_MODE",
)
#: How many reasons of a heuristic are kept: it gives one for each family of engines.
_TOLD = 6


def _told(said: Sequence[str]) -> list[str]:
    return [each for each in dict.fromkeys(said) if not each.startswith(_PASSED_ON)][:_TOLD]


def candidates(
    graph: Descriptor,
    site: Site,
    wants: Wants,
    wrong: frozenset[int],
    rejected: list[Rejected],
    *modes: HeurMode,
    ahead: Iterable[Configuration] = (),
    order: Callable[[Sequence[Configuration]], Sequence[Configuration]] = tuple,
    every: bool = False,
) -> Iterator[tuple[Configuration, Built]]:
    """Yield configurations that meet the requirements, with their plans: precompiled ones first, each kind best first.

    Args:
        graph, site, wants: the graph, its GPU, and the requirements.
        wrong: numbers of engines known to be wrong here.
        rejected: receives the rejected configurations.
        modes: the heuristics to ask, in this order.
        ahead: configurations to check before all that the heuristics propose.
        order: reorders the proposals of a heuristic.
        every: whether to continue with precompiled engines that no heuristic proposes, with their default knobs.
    """
    late: list[Configuration] = []
    seen: set[Any] = set()

    def fitting(some: Sequence[Configuration]) -> Iterator[tuple[Configuration, Built]]:
        for each in some:
            with api.reasons() as said:
                try:
                    built = build(each, site)
                except CudnnError as error:
                    rejected.append(Rejected(each.engine, "; ".join(dict.fromkeys(said)) or str(error)))
                    continue
            if wants.workspace_limit is not None and built.workspace_bytes > wants.workspace_limit:
                needed = f"needs {built.workspace_bytes} bytes of workspace, the limit is {wants.workspace_limit}"
                rejected.append(Rejected(each.engine, needed))
                continue
            yield each, built

    def wanted(some: Iterable[Configuration]) -> Iterator[Configuration]:
        for each in some:
            reason = "known to be wrong here" if each.engine in wrong else each.unwanted(wants)
            if reason:
                rejected.append(Rejected(each.engine, reason))
            elif (each.engine, each.knobs) not in seen:
                seen.add((each.engine, each.knobs))
                yield each

    def precompiled(some: Iterable[Configuration]) -> Iterator[tuple[Configuration, Built]]:
        for each in wanted(some):
            if each.compiled_late:
                late.append(each)
            else:
                yield from fitting([each])

    yield from precompiled(ahead)
    for mode in modes:
        with api.reasons() as said:
            proposed = proposals(graph, site, mode)
        if not proposed:
            rejected += [Rejected(None, reason) for reason in _told(said)]
        yield from precompiled(order(proposed))
    if every:
        yield from fitting([each for each in wanted(all_engines(graph, site)) if not each.compiled_late])
    yield from fitting(late)


def describe_rejected(rejected: Sequence[Rejected]) -> str:
    """Return a text about rejected configurations: each reason once, with the engines that it concerns."""
    engines: dict[str, set[int]] = {}
    for engine, reason in rejected:
        engines.setdefault(reason, set()).update(() if engine is None else (engine,))
    return "; ".join(_of_engines(sorted(some)) + reason for reason, some in engines.items())


def _of_engines(numbers: Sequence[int]) -> str:
    return f"engine{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}: " if numbers else ""
