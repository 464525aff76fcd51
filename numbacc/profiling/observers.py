"""Calls under way and the kernels inside, as `numbacc.record` notes them while it is active.

`OBSERVERS` has a function for each kind of `base.observing`. It makes the call and reads the clock before and after it.
Work on a GPU is also put between two timed events. They are read only when somebody asks for the entry, so that
recording does not synchronize. The time that recording itself takes on the host is subtracted.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from numbacc_bindings.driver import DriverError, EventFlag
from numbacc_bindings.nvtx import Nvtx

from ..base import observing
from ..base.dispatch import runtime, simulated
from ..base.layout import Layout, name_of

#: The logs that this context's calls are noted in, the outermost first.
logs_here: ContextVar[tuple[Any, ...]] = ContextVar("logs_here", default=())
#: The user's call that is under way in this context.
_open: ContextVar[OpenCall | None] = ContextVar("_open", default=None)
#: NVTX's functions, if a profiler wants ranges.
_ranges: list[Nvtx] = []

ON_HOST = "it ran on the CPU"
_CAPTURED = "it was captured into a graph, whose launches are timed instead"


class ArrayArgument(NamedTuple):
    """An array that a call or a kernel got or returned.

    Attributes:
        name: the parameter's name; "" for results.
        dtype: the name of its dtype.
        shape: its shape.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.dtype} {self.shape}".lstrip()


class OpenKernel:
    """One kernel, library call or copy inside a call, under way or done.

    Attributes:
        operation: an operation's names, layouts of inputs and outputs, and numbers of inputs that are also written;
            `describe` turns them into arrays.
        events: the timed events before and after it on its stream, until they are read.
        base: an event of the same GPU; the start is measured from it.
        gpu_us, gpu_start_us: its time on the GPU, and its start after `base`; None if unknown.
        note: why its time on the GPU is unknown.
    """

    def __init__(
        self,
        name: str,
        device: int,
        stream: int,
        backend: str,
        algorithm: str,
        inputs: Sequence[ArrayArgument] = (),
        outputs: Sequence[ArrayArgument] = (),
        nbytes: int = 0,
    ):
        self.name, self.device, self.stream = name, device, stream
        self.backend, self.algorithm = backend, algorithm
        self.inputs, self.outputs, self.nbytes = tuple(inputs), tuple(outputs), nbytes
        self.operation: tuple[Any, ...] | None = None
        self.events: tuple[Any, ...] = ()
        self.base: Any = None
        self.gpu_us: float | None = None
        self.gpu_start_us: float | None = None
        self.note = ON_HOST if device < 0 or simulated() else "nothing was queued"
        self.start = self.end = 0

    def describe(self) -> None:
        """Describe an operation's arrays; this is done late, so that recording takes less time."""
        if self.operation is not None:
            (names, inputs, outputs, overwritten), self.operation = self.operation, None
            self.inputs = tuple(_of_layouts(names, inputs))
            self.outputs = tuple(_of_layouts(names[len(inputs) :], outputs))
            self.nbytes = sum(map(_moved, (*inputs, *outputs, *[inputs[k] for k in overwritten])))

    def read(self) -> None:
        """Wait for the events, read them and drop them."""
        if not self.events:
            return
        (first, last), self.events = self.events, ()
        try:
            last.synchronize()
            self.gpu_us = 1000 * last.elapsed_ms(first)
            self.gpu_start_us = 0.0 if self.base is first else 1000 * first.elapsed_ms(self.base)
        except DriverError as error:
            self.gpu_us, self.note = None, f"its events could not be read: {error}"


class OpenCall:
    """A user's call, under way or done: a context manager around it.

    Attributes:
        name: the function's name.
        logs: the logs that it is noted in.
        start, end: nanoseconds of `time.perf_counter_ns`.
        setup: nanoseconds of making plans, which includes the compilation of kernels.
        own: nanoseconds that recording took.
        kernels: its kernels, in order.
        busy: the kernel that is under way.
        error: the name of the exception that it raised, or "".
    """

    def __init__(self, name: str, logs: Sequence[Any]):
        self.name, self.logs = name, logs
        self.start = self.end = self.setup = self.own = 0
        self.kernels: list[OpenKernel] = []
        self.busy: OpenKernel | None = None
        self.is_setting_up = self.is_kept = False
        self.error = ""
        self.thread = threading.get_ident()
        self.inputs: tuple[ArrayArgument, ...] = ()
        self.outputs: tuple[ArrayArgument, ...] = ()
        self._range: Nvtx | None = None

    def __enter__(self) -> OpenCall:
        self._token = _open.set(self)
        if _ranges:
            name = self.name if self.name.startswith("numbacc.") else f"numbacc.{self.name}"
            self._range = _ranges[0]
            self._range.push(name.encode())
        self.start = perf_counter_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self.end = perf_counter_ns()
        if self._range is not None:
            self._range.pop()
        _open.reset(self._token)
        if kind is not None:
            self.error = kind.__name__
        if self.kernels or self.error or self.is_kept:
            for log in self.logs:
                log.add(self)

    def run(self, kernel: OpenKernel, began: int, work: Callable[[], Any], *, is_timed: bool = False) -> Any:
        """Do the work of a kernel, and note it.

        Args:
            kernel: the kernel.
            began: when recording began to look at this kernel, by `perf_counter_ns`.
            work: does it, and returns its result.
            is_timed: whether events are recorded around all of the work. Otherwise the work calls `timed` itself.
        """
        self.busy = kernel
        kernel.start = perf_counter_ns()
        self.own += kernel.start - began
        own = self.own
        try:
            return self.timed(work, kernel.stream) if is_timed else work()
        finally:
            end = perf_counter_ns()
            kernel.end = end - (self.own - own)
            self.busy = None
            self.kernels.append(kernel)
            self.own += perf_counter_ns() - end

    def timed(self, work: Callable[[], Any], stream: int) -> Any:
        """Do work of the kernel that is under way, between two events on its stream.

        Work that returns something that is true, a status, has queued nothing.
        """
        kernel = self.busy
        if kernel is None or kernel.device < 0 or simulated():
            return work()
        start = perf_counter_ns()
        first = last = None
        try:
            if runtime().is_capturing(stream):
                kernel.note = _CAPTURED
            else:
                first, last = (runtime().DriverEvent(kernel.device, EventFlag.DEFAULT) for _ in range(2))
                first.record(stream)
        except Exception as error:  # if this is the fault of the work, it raises the error itself
            kernel.note, last = f"no events: {error}", None
        self.own += perf_counter_ns() - start
        result = work()
        if last is not None and not result:
            start = perf_counter_ns()
            try:
                last.record(stream)
                kernel.events, kernel.note = (first, last), ""
                kernel.base = self.logs[0].bases.setdefault(kernel.device, first)
            except DriverError as error:
                kernel.note = f"no events: {error}"
            self.own += perf_counter_ns() - start
        return result


def _logs() -> list[Any]:
    return [log for log in logs_here.get() if log.is_active]


def _noted(
    name: str, describe: Callable[[OpenCall], OpenKernel], work: Callable[[], Any], *, is_timed: bool = False
) -> Any:
    """Do work, and note it as a kernel of the call that is under way, or else as a call of this name.

    It is not noted outside of logs, and inside a kernel that is noted already.
    """
    began, call = perf_counter_ns(), _open.get()
    if call is not None:
        if not call.logs or call.busy is not None:
            return work()
        return call.run(describe(call), began, work, is_timed=is_timed)
    logs = _logs()
    if not (logs or _ranges):
        return work()
    with OpenCall(name, logs) as call:
        return call.run(describe(call), call.start, work, is_timed=is_timed) if logs else work()


def _queued(work: Callable[[], Any], stream: int, chosen: Any = None) -> Any:
    """Do work on a stream, and time it if it belongs to the kernel that is under way.

    `chosen` has the backend and the algorithm that run; None if they are known already.
    """
    call = _open.get()
    if call is None or call.busy is None:
        return work()
    if chosen is not None:
        call.busy.backend, call.busy.algorithm = chosen.backend, chosen.algorithm
    return call.timed(work, stream)


# ---------------------------------------------------------------- descriptions of arrays


def _described(name: str, array: Any) -> ArrayArgument | None:
    """Return the description of an array of any library; None of other objects."""
    if isinstance(array, np.generic):
        return None  # a scalar
    try:
        shape, dtype = array.shape, array.dtype
        return ArrayArgument(name, getattr(dtype, "name", None) or str(dtype).rpartition(".")[2], tuple(shape))
    except Exception:  # attributes of foreign objects may raise anything
        return None


def _arrays(pairs: Iterable[tuple[str, Any]]) -> tuple[ArrayArgument, ...]:
    """Return the descriptions of the arrays among these values, and of those in tuples and lists among them."""
    found = []
    for name, value in pairs:
        several = [(f"{name}[{k}]" if name else "", each) for k, each in enumerate(value)] if _is_list(value) else None
        for own, each in several or [(name, value)]:
            if (array := _described(own, each)) is not None:
                found.append(array)
    return tuple(found)


def _is_list(value: Any) -> bool:
    return isinstance(value, (tuple, list))


def _moved(layout: Layout) -> int:
    """Return the bytes of an array's elements; elements that a broadcast repeats count once."""
    count = layout.itemsize
    for length, step in zip(layout.shape, layout.strides, strict=True):
        count *= length if step or not length else 1
    return count


def _of_layouts(names: Sequence[str], layouts: Sequence[Layout]) -> list[ArrayArgument]:
    return [ArrayArgument(name, each.dtype.name, each.shape) for name, each in zip(names, layouts, strict=False)]


# ---------------------------------------------------------------- observers


def _call(before: Callable[..., Any], label: str) -> Callable[..., Any]:
    attribute, _, suffix = label[1:].partition(".") if label.startswith(".") else ("", "", "")
    names = before.__code__.co_varnames[: before.__code__.co_argcount]

    def observer(*args: Any, **kwargs: Any) -> Any:
        if _open.get() is not None:
            return before(*args, **kwargs)
        logs = _logs()
        if not (logs or _ranges):
            return before(*args, **kwargs)
        name = label
        if attribute:
            name = ".".join([str(getattr(args[0], attribute)), *([suffix] if suffix else [])])
        call = OpenCall(name, logs)
        with call:
            result = before(*args, **kwargs)
        if logs and len(call.kernels) > 1:
            # Some arrays of several kernels are intermediate, so the user's own are described.
            pairs = itertools.zip_longest(names, args, fillvalue="") if len(names) >= len(args) else (("", args),)
            call.inputs = _arrays([*pairs, *kwargs.items()])
            call.outputs = _arrays([("", result)])
        return result

    return observer


class _TimedLaunch:
    """The executable that an operation tries first, with events around its launch. Other threads may use it, too."""

    __slots__ = ("_direct", "workspace_bytes")

    def __init__(self, direct: Any):
        self._direct, self.workspace_bytes = direct, direct.workspace_bytes

    def launch(self, stream: int, scratch: int, addresses: Sequence[int], scalars: Sequence[int]) -> Any:
        """Do what `Executable.launch` does."""
        return _queued(lambda: self._direct.launch(stream, scratch, addresses, scalars), stream, self._direct)


def _operation(operation: Any, stream: int) -> OpenKernel:
    """Return the description of an operation's run, before it is known which executable fits."""
    device = operation.device
    backend, algorithm = getattr(operation, "backend", "kernel"), "no launch: the result is empty"
    if device < 0:
        info = getattr(operation, "info", None)
        backend, algorithm = ("numpy", "reference") if info is None else (info.backend, info.algorithm)
    kernel = OpenKernel(operation.op, device, stream, backend, algorithm)
    kernel.operation = operation.names, operation.inputs, operation.outputs, operation.overwritten
    return kernel


def _run(before: Callable[..., Any], label: str) -> Callable[..., Any]:
    def observer(operation: Any, inputs: Any, outs: Any, out: Any, stream: int, scalars: Sequence[Any] = ()) -> Any:
        chosen, timed = operation.chosen, None

        def describe(call: OpenCall) -> OpenKernel:
            nonlocal timed
            direct = chosen.direct
            if direct is not None and type(direct) is not _TimedLaunch:
                chosen.direct = timed = _TimedLaunch(direct)
            return _operation(operation, stream)

        try:
            return _noted(operation.op, describe, lambda: before(operation, inputs, outs, out, stream, scalars))
        finally:
            if timed is not None and chosen.direct is timed:
                chosen.direct = timed._direct

    return observer


def _launch(before: Callable[..., Any], label: str) -> Callable[..., Any]:
    def observer(operation: Any, found: Any, stream: int, addresses: Any, scalars: Any, scratch: int) -> Any:
        return _queued(lambda: before(operation, found, stream, addresses, scalars, scratch), stream, found)

    return observer


def _run_at(before: Callable[..., Any], label: str) -> Callable[..., Any]:
    def observer(plan: Any, position: Any, array: Any, stream: int) -> Any:
        return _noted(plan.op, lambda call: _operation(plan, stream), lambda: before(plan, position, array, stream))

    return observer


def _queue_at(before: Callable[..., Any], label: str) -> Callable[..., Any]:
    def observer(plan: Any, position: Any, stream: int, address: int, capture: Any) -> Any:
        return _queued(lambda: before(plan, position, stream, address, capture), stream, plan.drawing_from_gpu)

    return observer


def _setup(before: Callable[..., Any], label: str) -> Callable[..., Any]:
    def observer(owner: Any, *args: Any) -> Any:
        call = _open.get()
        if call is None or call.is_setting_up:
            return before(owner, *args)
        chosen = getattr(owner, "chosen", None)  # of an operation; a cache of plans is asked only to make one
        known = 0 if chosen is None else len(chosen.made)
        call.is_setting_up, start = True, perf_counter_ns()
        try:
            return before(owner, *args)
        finally:
            call.is_setting_up = False
            if chosen is None or len(chosen.made) > known:
                call.setup += perf_counter_ns() - start

    return observer


def _copy(
    describe: Callable[..., tuple[str, int, int, int]],
) -> Callable[[Callable[..., Any], str], Callable[..., Any]]:
    """Return the observer of a copy or a fill; `describe` returns (what it is, device, stream, bytes)."""

    def make(before: Callable[..., Any], label: str) -> Callable[..., Any]:
        def observer(*args: Any, **kwargs: Any) -> Any:
            def kernel(call: OpenCall) -> OpenKernel:
                what, device, stream, nbytes = describe(*args)
                return OpenKernel(label, device, stream, "copy", what, nbytes=nbytes)

            return _noted(label, kernel, lambda: before(*args, **kwargs), is_timed=True)

        return observer

    return make


def _from_host(storage: Any, address: int, host: Any, stream: int) -> tuple[str, int, int, int]:
    return "from the host to the GPU", storage.device, stream, host.nbytes


def _to_host(host: Any, address: int, device: int, stream: int, *more: Any) -> tuple[str, int, int, int]:
    return "from the GPU to the host", device, stream, host.nbytes


def _on_device(target: int, source: int, nbytes: int, device: int, stream: int) -> tuple[str, int, int, int]:
    return "on the GPU", device, stream, 2 * nbytes


def _filled(address: int, pattern: bytes, count: int, device: int, stream: int) -> tuple[str, int, int, int]:
    return "fill", device, stream, len(pattern) * count


def _cleared(address: int, nbytes: int, device: int, stream: int) -> tuple[str, int, int, int]:
    return "fill", device, stream, nbytes


def _graph(before: Callable[..., Any], label: str) -> Callable[..., Any]:
    def observer(recording: Any, stream: int) -> Any:
        def kernel(call: OpenCall) -> OpenKernel:
            return OpenKernel(
                "Graph.launch", getattr(recording, "_device", 0), stream, "graph", "all that was captured"
            )

        return _noted("Graph.launch", kernel, lambda: before(recording, stream))

    return observer


def _queue(before: Callable[..., Any], label: str) -> Callable[..., Any]:
    def observer(recording: Any, stream: int) -> Any:
        return _queued(lambda: before(recording, stream), stream)

    return observer


def _lists(before: Callable[..., Any], label: str) -> Callable[..., Any]:
    def observer(
        owner: Any, work: Any, arrays: Sequence[Any], singles: Any, stream: int, words: Any, *more: Any, **options: Any
    ) -> Any:
        made: list[OpenKernel] = []

        def kernel(call: OpenCall) -> OpenKernel:
            read = owner.task.reads * owner.task.rows
            nbytes = sum(_moved(arrays[k]._numbacc_layout) * ((k < read) + written) for k, written in owner._order)
            device = arrays[0]._numbacc_layout.device
            made.append(OpenKernel(call.name, device, stream, "kernel", "list_maps", nbytes=nbytes))
            return made[0]

        def run() -> Any:
            before(owner, work, arrays, singles, stream, words, *more, **options)
            for each in made:
                last = getattr(owner, "last", None)
                each.backend = getattr(last, "backend", each.backend)
                each.algorithm = getattr(last, "algorithm", each.algorithm)

        return _noted("lists of arrays", kernel, run, is_timed=True)

    return observer


def _simulated_kernel(function: Any, grid: Any, block: Any, given: Sequence[Any]) -> OpenKernel:
    inputs = _arrays(zip(function.__code__.co_varnames, given, strict=False))
    nbytes = sum(getattr(each, "nbytes", 0) for each in given if _described("", each))
    return OpenKernel(function.__name__, -1, 0, "simulator", f"grid {grid}, block {block}", inputs, (), nbytes)


def _user_kernel(before: Callable[..., Any], label: str) -> Callable[..., Any]:
    def observer(function: Any, grid: Any, block: Any, dynamic_bytes: int, given: Any, *more: Any) -> Any:
        return _noted(
            function.__name__,
            lambda call: _simulated_kernel(function, grid, block, given),
            lambda: before(function, grid, block, dynamic_bytes, given, *more),
        )

    return observer


def _interpreted_kernel(before: Callable[..., Any], label: str) -> Callable[..., Any]:
    def observer(launch: Any, given: Sequence[Any]) -> Any:
        return _noted(
            launch.function.__name__,
            lambda call: _simulated_kernel(launch.function, launch.grid, launch.block, given),
            lambda: before(launch, given),
        )

    return observer


def _device_kernel(before: Callable[..., Any], label: str) -> Callable[..., Any]:
    """A kernel of `device.jit` on a GPU."""

    def observer(launch: Any, prepared: Any, stream: int, reads: Sequence[Any], writes: Sequence[Any]) -> Any:
        def kernel(call: OpenCall) -> OpenKernel:
            nbytes = sum(_moved(each._numbacc_layout) for each in (*reads, *writes))
            read, written = (
                _arrays(zip(*pair, strict=True)) for pair in zip(prepared.names, (reads, writes), strict=True)
            )
            how = f"grid {launch.grid}, block {launch.block}"
            return OpenKernel(launch.kernel.__name__, prepared.device, stream, "kernel", how, read, written, nbytes)

        return _noted(
            launch.kernel.__name__, kernel, lambda: before(launch, prepared, stream, reads, writes), is_timed=True
        )

    return observer


def _wait(before: Callable[..., Any], label: str) -> Callable[..., Any]:
    def observer(*args: Any) -> Any:
        logs = _logs()
        if _open.get() is not None or not (logs or _ranges):
            return before(*args)
        with OpenCall(label, logs) as call:
            call.is_kept = True
            return before(*args)

    return observer


OBSERVERS = {
    "call": _call,
    "run": _run,
    "launch": _launch,
    "run_at": _run_at,
    "queue_at": _queue_at,
    "setup": _setup,
    "copy_from_host": _copy(_from_host),
    "copy_to_host": _copy(_to_host),
    "copy_on_device": _copy(_on_device),
    "fill": _copy(_filled),
    "clear": _copy(_cleared),
    "graph": _graph,
    "queue": _queue,
    "lists": _lists,
    "user_kernel": _user_kernel,
    "interpreted_kernel": _interpreted_kernel,
    "device_kernel": _device_kernel,
    "wait": _wait,
}

# ---------------------------------------------------------------- who observes

#: How many logs and profilers observe at the moment.
_count = 0
_lock = threading.Lock()


def begin() -> None:
    """Observe calls, until `end` has been called as often as this."""
    global _count
    with _lock:
        _count += 1
        if _count == 1:
            observing.observe(OBSERVERS)


def end() -> None:
    """Undo one call of `begin`."""
    global _count
    with _lock:
        _count -= 1
        if not _count:
            observing.stop()


def name_ranges(nvtx: Nvtx | None) -> None:
    """Push a range of NVTX around each call from now on, or with None no longer."""
    if _ranges:
        _ranges.clear()
        end()
    if nvtx is not None:
        _ranges.append(nvtx)
        begin()


def place_of(kernel: OpenKernel) -> str:
    """Return where a kernel ran, for users: "cuda:0", "cpu"."""
    return "cpu" if kernel.device < 0 or simulated() else str(name_of(kernel.device))
