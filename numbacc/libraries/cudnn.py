"""Plans of cuDNN's on GPUs of this process: chosen once for a graph, kept on disk, run with the arrays' addresses.

A `Runner` belongs to the thread that made it, as its handle and its plan do; what was chosen is shared.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from numbacc_bindings.cudnn import CudnnError, cudnn
from numbacc_bindings.driver import driver

from ..base.codes import check_count
from ..base.ownership import NotCopied
from ..errors import UnsupportedError
from ..runtime import device as runtime
from ..runtime import native_graphs
from ..runtime.builtin import bound_to_arrays
from ..runtime.contexts import relaxed
from ..runtime.memory import with_room
from . import cudnn_plans, cudnn_search
from .choices import Algorithm, Proposals, gpu_model
from .cudnn_descriptors import Site, uid_of
from .cudnn_graph import ALIGNED, CudnnGraph, Wants
from .cudnn_plans import Rejected
from .cudnn_rules import nan_lost
from .cudnn_search import algorithms, is_trusted, kept_to, none_left, refuse, search
from .handles import Handle, Handles

_handles = Handles(cudnn, "cudnnCreate", "cudnnDestroy")
version = cudnn_search.version
#: How many plans whose kernels are compiled for the occasion are measured: each takes a second or more to build.
_COMPILED = 2


class _Words(NotCopied, threading.local):
    """For each device the words (handle, stream that it works on) of the calling thread."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}

    def get(self, handle: Handle) -> Any:
        found = self._made.get(handle.device)
        if found is None:
            # No stream has the handle -1: the first call sets it.
            found = self._made[handle.device] = (ctypes.c_int64 * 2)(handle.value, -1)
        return found


_words = _Words()


class GraphChoice(NamedTuple):
    """What a plan was chosen for: the key of `algorithms`.

    Attributes:
        others: what was measured beside the library's plans, and may have been chosen.
    """

    graphs: tuple[CudnnGraph, ...]
    wants: Wants | tuple[Wants, ...]
    device: str
    capability: tuple[int, int]
    multiprocessors: int
    version: int
    tuned: bool = False
    others: tuple[bytes, ...] = ()


def _choice(graphs: Sequence[CudnnGraph], wants: Wants | tuple[Wants, ...], device: int, **tuned: Any) -> GraphChoice:
    return GraphChoice(tuple(graphs), wants, *gpu_model(device), cudnn.version(), **tuned)


def number_of(algorithm: Algorithm) -> int:
    """Which of the graphs that `tune` was given a plan is of."""
    return algorithm.kind[1] // 2


class _Restored(NotCopied, threading.local):
    """The plan that the calling thread has restored to see whether it can be: its executable is made next."""

    plan: tuple[bytes, int, cudnn_plans.Built] | None = None

    def taken(self, algorithm: Algorithm, device: int) -> cudnn_plans.Built:
        """The plan, if it is this one, else a new one."""
        kept, self.plan = self.plan, None
        if kept is not None and kept[:2] == (algorithm.data, device):
            return kept[2]
        return _restore(algorithm, device)


_restored = _Restored()


def _restore(algorithm: Algorithm, device: int) -> cudnn_plans.Built:
    with runtime.on_device(device), relaxed():
        site = Site(_handles.get(device))
        return with_room(partial(cudnn_plans.restore, algorithm.data, site), device)


def _usable(graphs: Sequence[CudnnGraph], device: int) -> Callable[[Algorithm], bool]:
    """Whether a plan from disk may be taken: it may be known to be wrong now, or of another driver."""

    def usable(algorithm: Algorithm) -> bool:
        graph = graphs[number_of(algorithm)]
        if not is_trusted(algorithm, graph):
            return False
        try:
            _restored.plan = algorithm.data, device, _restore(algorithm, device)
        except CudnnError:
            return False
        return True

    return usable


def _find(graph: CudnnGraph, wants: Wants, device: int, many: bool = False) -> list[Algorithm]:
    """The first plan that keeps to what is wanted, or, where many are, all that the heuristics propose.

    Of float32 that tensor cores must not shorten they propose few; then it is all that there are.

    Raises:
        UnsupportedError: there is none, and why each engine is none.
    """
    rejected: list[Rejected] = []
    found: list[Algorithm] = []
    late = 0
    with runtime.on_device(device), relaxed():
        every = many and wants.inputs in ("exact", "fft")
        for configuration, built in search(graph, Site(_handles.get(device)), wants, rejected, every):
            found.append(cudnn_plans.keep(configuration, built))
            late += configuration.compiled_late
            if not many or late == _COMPILED:
                break
    if not found:
        raise UnsupportedError(none_left(graph, runtime.device_name(device), runtime.capability(device), rejected))
    return found


def choose(graph: CudnnGraph, wants: Wants, device: int) -> Algorithm:
    """The first plan of cuDNN's heuristics that keeps to what is wanted, a precompiled one if there is one. Kept.

    Raises:
        UnsupportedError: there is none.
    """
    refuse(graph, gpu_model(device).capability)
    kept = kept_to(graph, wants)
    found = algorithms.keep(
        _choice((graph,), kept, device), lambda: _find(graph, kept, device)[0], _usable((graph,), device)
    )
    assert found is not None
    return found


def tune(
    graphs: Sequence[CudnnGraph],
    wants: Sequence[Wants],
    device: int,
    stream: int,
    trial: Callable[[Algorithm], Callable[[], None]],
    others: Sequence[Algorithm] = (),
) -> Algorithm:
    """The fastest plan of all that cuDNN's heuristics propose. Kept.

    Args:
        graphs: what is computed, in one or several ways; `number_of` tells which of them a plan is of.
        wants: of each of them.
        device: as in `choose`.
        stream, trial: `trial(algorithm)` gives a function that queues the work by a plan on the stream. The first time
            this waits for the GPU.
        others: what computes the same without the library, is measured, too, and tried by the same function.

    Raises:
        UnsupportedError: there is no plan.
    """
    first, kept, own = graphs[0], _usable(graphs, device), tuple(each.data for each in others)
    wants = list(map(kept_to, graphs, wants))
    refuse(first, gpu_model(device).capability)

    def propose() -> Proposals:
        found = _find(first, wants[0], device, many=True)
        for number, (other, wanted) in enumerate(zip(graphs[1:], wants[1:], strict=True), 1):
            try:
                refuse(other, gpu_model(device).capability)
                more = _find(other, wanted, device, many=True)
            except UnsupportedError:
                continue  # this way has no engine; the first has
            found += [each._replace(kind=(each.kind[0], 2 * number + each.kind[1])) for each in more]
        return Proposals(found[0], [*found, *others])

    def usable(algorithm: Algorithm) -> bool:
        return algorithm.data in own or kept(algorithm)

    chosen = algorithms.tune(
        _choice(graphs, tuple(wants), device, tuned=True, others=own),
        propose,
        usable,
        trial,
        device,
        stream,
    )
    assert chosen is not None
    return chosen


def numbers_of(graph: CudnnGraph, values: Sequence[float]) -> Any:
    """The numbers of a graph in memory, 8 bytes apart."""
    found = (ctypes.c_int64 * max(len(graph.numbers), 1))()
    for k, (place, value) in enumerate(zip(graph.numbers, values, strict=True)):
        kind = {"float32": ctypes.c_float, "float64": ctypes.c_double, "int32": ctypes.c_int32}
        kind[graph.tensors[place].dtype].from_buffer(found, 8 * k).value = value  # type: ignore[attr-defined]
    return found


class Runner(NotCopied):
    """A plan as an executable of the thread that made it.

    Args:
        graph: what is computed.
        algorithm: the plan, as it is kept.
        device: the GPU.
        operands: for each tensor of the graph that has memory, the number of the operand whose address it gets; by
            default they come in the same order.
        pairs: operands that must not share bytes, as `Operation._pairs` gives them.
        values: of the graph's numbers; None for a plan that is only looked at.

    Raises:
        ShapeError: the graph has more tensors than a call takes.
    """

    backend = "cudnn"
    library_bytes = 0

    def __init__(
        self,
        graph: CudnnGraph,
        algorithm: Algorithm,
        device: int,
        operands: Sequence[int] | None = None,
        pairs: Sequence[tuple[int, ...]] = (),
        values: Sequence[float] | None = None,
    ):
        lost = nan_lost(graph, algorithm.kind[0])
        self.algorithm = f"{algorithm.text}; {lost}" if lost else algorithm.text
        self.deterministic, self.workspace_bytes = algorithm.deterministic, algorithm.workspace_bytes
        self._pick = tuple(range(len(graph.memory)) if operands is None else operands)
        #: Compiled code can look at what shares memory where each tensor is an operand. What is for any alignment is
        #: not tried on arrays that have a better one.
        aligned = all(graph.tensors[place].alignment >= ALIGNED for place in graph.memory)
        self.direct = aligned and self._pick == tuple(range(len(graph.memory)))
        #: cuDNN reads numbers where they are on the host, when it is called.
        self._numbers = numbers_of(graph, (0,) * len(graph.numbers) if values is None else values)
        check_count(len(self._pick) + len(graph.numbers))
        self._handle = _handles.get(device)
        self._plan = _restored.taken(algorithm, device)
        self._template = self._filled(graph, device, pairs)
        kept = self._words, self._numbers, self._plan
        #: As `Executable.launch`; scalars are none. No method: it is compiled code that is called.
        self.launch = bound_to_arrays(native_graphs.execute, self._template, kept)
        self._execute = bound_to_arrays(native_graphs.execute_unchecked, self._template, kept)

    def _filled(self, graph: CudnnGraph, device: int, pairs: Sequence[tuple[int, ...]]) -> Any:
        gpu, places = runtime.gpu(device), (*graph.memory, *graph.numbers)
        self._words, numbers = _words.get(self._handle), ctypes.addressof(self._numbers)
        words = (
            gpu.get_current,
            gpu.context,
            driver.address("cuStreamIsCapturing"),
            cudnn.address("cudnnBackendCreateDescriptor"),
            cudnn.address("cudnnBackendSetAttribute"),
            cudnn.address("cudnnBackendFinalize"),
            cudnn.address("cudnnBackendDestroyDescriptor"),
            cudnn.address("cudnnSetStream"),
            cudnn.address("cudnnBackendExecute"),
            ctypes.addressof(self._words),
            self._plan.descriptor.value,
            len(places),
            len(graph.numbers),
            len(pairs),
            0,
            0,
            *(uid_of(place) for place in places),
            *(graph.tensors[place].alignment - 1 for place in graph.memory),
            *(0 for _ in graph.numbers),
            *(0 for _ in graph.memory),
            *(numbers + 8 * k for k in range(len(graph.numbers))),
            *(word for pair in pairs for word in pair),
        )
        return (ctypes.c_int64 * len(words))(*words)

    def ready(self, addresses: Sequence[int]) -> None:
        """The plan holds its kernels."""

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """As `Executable.launch_unchecked`."""
        return self._execute(stream, scratch, [addresses[k] for k in self._pick], ())

    def check(self, status: int) -> None:
        """Raise CudnnError of a launch's status."""
        cudnn.check("cudnnBackendExecute", status)

    def __del__(self) -> None:
        template = getattr(self, "_template", None)
        if template is not None and template[native_graphs.PACK]:
            try:
                cudnn.cudnnBackendDestroyDescriptor(template[native_graphs.PACK])
            except Exception:
                pass  # at interpreter exit the library may be gone
