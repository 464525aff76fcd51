"""cuDNN's plans on GPUs of this process: chosen once for a graph, stored on disk, and run on arrays' addresses.

A `Runner` belongs to the thread that made it, like its handle and its plan; choices are shared.
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
from ..runtime.steps import CompiledStep
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
#: How many plans with kernels compiled at run time are measured: each takes a second or more to build.
_COMPILED = 2


class _Words(NotCopied, threading.local):
    """The calling thread's words (handle, stream it works on) for each device."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}

    def get(self, handle: Handle) -> Any:
        found = self._made.get(handle.device)
        if found is None:
            # No stream has the number -1, so the first call sets the stream.
            found = self._made[handle.device] = (ctypes.c_int64 * 2)(handle.value, -1)
        return found


_words = _Words()


class GraphChoice(NamedTuple):
    """The problem that a plan was chosen for: the key of `algorithms`.

    Attributes:
        others: algorithms that were measured together with the library's plans, and may have been chosen.
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
    """Return the index of a plan's graph among the graphs that `tune` was given."""
    return algorithm.kind[1] // 2


class _Restored(NotCopied, threading.local):
    """The plan that the calling thread has restored to check that it can be; the plan's executable is made next."""

    plan: tuple[bytes, int, cudnn_plans.Built] | None = None

    def taken(self, algorithm: Algorithm, device: int) -> cudnn_plans.Built:
        """Return this plan if it is the one for the algorithm, else restore another."""
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
    """Return a check of plans from disk: they may be known to be wrong since, or belong to another driver."""

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
    """Return the first plan that meets the requirements, or with `many` all that the heuristics propose.

    For float32 without tensor cores the heuristics propose few plans; then `many` includes all engines.

    Raises:
        UnsupportedError: there is no plan; the message says why each engine is unsuitable.
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
    """Return the first plan of cuDNN's heuristics that meets the requirements, preferably a precompiled one.

    The choice is stored.

    Raises:
        UnsupportedError: there is no plan.
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
    """Return the fastest plan of all that cuDNN's heuristics propose. The choice is stored.

    Args:
        graphs: one or several equivalent graphs; `number_of` returns which of them a plan belongs to.
        wants: requirements for each graph.
        device: as in `choose`.
        stream, trial: `trial(algorithm)` returns a function that queues the work with a plan on the stream. The first
            call waits for the GPU.
        others: algorithms outside of the library with the same result, which are measured, too, by the same function.

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
                continue  # this graph has no engine, but the first one has
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
    """Return the host memory of a graph's scalars, 8 bytes apart."""
    found = (ctypes.c_int64 * max(len(graph.numbers), 1))()
    for k, (place, value) in enumerate(zip(graph.numbers, values, strict=True)):
        kind = {"float32": ctypes.c_float, "float64": ctypes.c_double, "int32": ctypes.c_int32}
        kind[graph.tensors[place].dtype].from_buffer(found, 8 * k).value = value  # type: ignore[attr-defined]
    return found


class Runner(NotCopied):
    """A plan as an executable of the thread that made it.

    Args:
        graph: the graph to compute.
        algorithm: the plan, as it is stored.
        device: the GPU.
        operands: for each tensor of the graph with memory, the number of the operand whose address it gets; by default
            they are in the same order.
        pairs: operands that must not share memory, as `Operation._pairs` returns them.
        values: the graph's scalars; None for a plan that is not run.

    Raises:
        ShapeError: the graph has more tensors than a call supports.
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
        #: Compiled code can check for shared memory if each tensor is an operand. A plan for any alignment must not be
        #: launched first on arrays with a better alignment.
        aligned = all(graph.tensors[place].alignment >= ALIGNED for place in graph.memory)
        self.direct = aligned and self._pick == tuple(range(len(graph.memory)))
        #: cuDNN reads scalars from host memory when it is called.
        self._numbers = numbers_of(graph, (0,) * len(graph.numbers) if values is None else values)
        check_count(len(self._pick) + len(graph.numbers))
        self._handle = _handles.get(device)
        self._plan = _restored.taken(algorithm, device)
        self._template = self._filled(graph, device, pairs)
        kept = self._words, self._numbers, self._plan
        #: As `Executable.launch`, without scalars. An attribute instead of a method, since it is compiled code.
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
        """Do nothing: the plan holds its kernels."""

    def launch_unchecked(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> int:
        """Launch without checks; see `Executable.launch_unchecked`."""
        return self._execute(stream, scratch, [addresses[k] for k in self._pick], ())

    def compiled_steps(
        self, places: tuple[tuple[int, int], ...], scratch: int, scalars: tuple[int, ...]
    ) -> list[CompiledStep]:
        """Return the compiled call of the plan."""
        arrays = tuple(places[k] for k in self._pick)
        own = scratch if self.workspace_bytes else None
        return [CompiledStep(native_graphs.execute, self._template, arrays, (), own)]

    def check(self, status: int) -> None:
        """Raise CudnnError if a launch's status is an error."""
        cudnn.check("cudnnBackendExecute", status)

    def __del__(self) -> None:
        template = getattr(self, "_template", None)
        if template is not None and template[native_graphs.PACK]:
            try:
                cudnn.cudnnBackendDestroyDescriptor(template[native_graphs.PACK])
            except Exception:
                pass  # at interpreter exit the library may be unloaded
