"""The search for a plan, of a process with a GPU and of one without, and what is said where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from numbacc_bindings.cudnn import CudnnError, HeurMode, cudnn

from ..errors import UnsupportedError
from .choices import Algorithm, Choices
from .cudnn_descriptors import Site, describe
from .cudnn_graph import CudnnGraph, Wants
from .cudnn_needs import unmet
from .cudnn_order import ahead, reordered
from .cudnn_plans import Built, Configuration, Rejected, candidates, describe_rejected
from .cudnn_rules import NEWEST, WRONG, refusal, shortens_wrongly

#: Choices made. Some hold a compiled kernel of 150 KB.
algorithms = Choices("cudnn", WRONG, size=512)

#: The heuristics, in the order in which they are asked: the fastest, what nearly always works, the slowest.
_MODES = (HeurMode.A, HeurMode.FALLBACK, HeurMode.B)


def version() -> int:
    """The version of cuDNN that makes plans; where there is none, one that is newer than all."""
    try:
        return cudnn.version()
    except CudnnError:
        return NEWEST


def refuse(graph: CudnnGraph, capability: tuple[int, int]) -> None:
    """Raise UnsupportedError where no engine of the loaded version is to be trusted on such a GPU."""
    reason = refusal(graph, cudnn.version(), capability)
    if reason:
        raise UnsupportedError(reason)


def kept_to(graph: CudnnGraph, wants: Wants) -> Wants:
    """What a plan must keep to with the loaded version: no tensor cores where these are not to be trusted."""
    if wants.inputs == "tf32" and shortens_wrongly(graph, cudnn.version()):
        return wants._replace(inputs="exact")
    return wants


def is_trusted(algorithm: Algorithm, graph: CudnnGraph) -> bool:
    """Whether a plan that was kept may be taken by what is known now."""
    return bool(algorithms.right([algorithm], graph, cudnn.version()))


def search(
    graph: CudnnGraph, site: Site, wants: Wants, rejected: list[Rejected], every: bool = False
) -> Iterator[tuple[Configuration, Built]]:
    """Configurations that keep to what is wanted and are not known to be wrong, as `candidates` gives them.

    Where every one is asked for they are to be measured, and their order does not count.

    Raises:
        CudnnError: cuDNN knows no such operation, or its tensors do not fit.
    """
    wrong = frozenset(algorithms.wrong(graph, cudnn.version()))
    described = describe(graph, site)
    first = () if every else ahead(graph, described, site, wants)
    order = partial(reordered, graph, wants)
    return candidates(described, site, wants, wrong, rejected, *_MODES, ahead=first, order=order, every=every)


def none_left(graph: CudnnGraph, gpu: str, capability: tuple[int, int], rejected: list[Rejected]) -> str:
    """What to say where a search on a GPU found nothing: the needs that it does not meet, then cuDNN's reasons."""
    reasons = [*unmet(graph, gpu, capability), describe_rejected(rejected) or "its heuristics propose none"]
    return f"cuDNN {cudnn.version()} has no engine for this on {gpu}: " + "; ".join(reasons)
