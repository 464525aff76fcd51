"""Search for a plan, in a process with a GPU or without one, and write the message if the search fails."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from numbacc_bindings.cudnn import CudnnError, cudnn

from ..errors import UnsupportedError
from .choices import Algorithm, Choices
from .cudnn_descriptors import Site, describe
from .cudnn_graph import CudnnGraph, Wants
from .cudnn_needs import unmet
from .cudnn_order import ahead, modes, reordered
from .cudnn_plans import Built, Configuration, Rejected, candidates, describe_rejected
from .cudnn_rules import NEWEST, WRONG, refusal, shortens_wrongly

#: The choices made so far. Some hold a compiled kernel of 150 KB.
algorithms = Choices("cudnn", WRONG, size=512)


def version() -> int:
    """Return the version of cuDNN that makes plans; without cuDNN, a version above all existing ones."""
    try:
        return cudnn.version()
    except CudnnError:
        return NEWEST


def refuse(graph: CudnnGraph, capability: tuple[int, int]) -> None:
    """Raise UnsupportedError if no engine of the loaded version can be trusted on such a GPU."""
    reason = refusal(graph, cudnn.version(), capability)
    if reason:
        raise UnsupportedError(reason)


def kept_to(graph: CudnnGraph, wants: Wants) -> Wants:
    """Return the requirements on a plan with the loaded version: no tensor cores where they cannot be trusted."""
    if wants.inputs == "tf32" and shortens_wrongly(graph, cudnn.version()):
        return wants._replace(inputs="exact")
    return wants


def is_trusted(algorithm: Algorithm, graph: CudnnGraph) -> bool:
    """Return whether a stored plan may still be used, given the known faults."""
    return bool(algorithms.right([algorithm], graph, cudnn.version()))


def search(
    graph: CudnnGraph, site: Site, wants: Wants, rejected: list[Rejected], every: bool = False
) -> Iterator[tuple[Configuration, Built]]:
    """Yield the configurations of `candidates` that meet the requirements and are not known to be wrong.

    With `every`, they are going to be measured, so their order does not matter.

    Raises:
        CudnnError: cuDNN does not know an operation, or its tensors do not fit.
    """
    wrong = frozenset(algorithms.wrong(graph, cudnn.version()))
    described = describe(graph, site)
    first = () if every else ahead(graph, described, site, wants)
    order = partial(reordered, graph, wants)
    return candidates(described, site, wants, wrong, rejected, *modes(graph), ahead=first, order=order, every=every)


def none_left(graph: CudnnGraph, gpu: str, capability: tuple[int, int], rejected: list[Rejected]) -> str:
    """Return a message for a search without a result: the needs that the GPU does not meet, then cuDNN's reasons."""
    reasons = [*unmet(graph, gpu, capability), describe_rejected(rejected) or "its heuristics propose none"]
    return f"cuDNN {cudnn.version()} has no engine for this on {gpu}: " + "; ".join(reasons)
