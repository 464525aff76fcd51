"""CUDA graphs: work that is recorded once, and then launched many times with one call each."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from ..base.dispatch import has_gpu, runtime
from ..base.observing import observable
from ..base.ownership import NotCopied
from ..errors import DeviceError, OptionError
from .streams import Stream, device_of, handle_of, target_of
from .streams import stream as make_stream


class Graph(NotCopied):
    """A CUDA graph: the calls inside its `with` block, recorded to be launched any number of times.

    `numbacc.graph()` makes one. The graph keeps everything that it uses alive: arrays, plans, scratch memory. It owns
    the memory of arrays made inside; these stay valid, and every launch overwrites them.

    Attributes:
        stream: the stream that is captured; inside the block it is this thread's default stream.

    Example:
        >>> if numbacc.has_gpu():
        ...     with numbacc.graph() as g:
        ...         ones = numbacc.full(3, 1)
        ...     g.launch()
        >>> numbacc.asnumpy(ones if numbacc.has_gpu() else np.ones(3, "float32"))
        array([1., 1., 1.], dtype=float32)
    """

    _instead = "share it, threads may; in another process capture it again"

    def __init__(self, stream: Stream, device: int):
        self.stream = stream
        self._device = device
        self._recording: Any = None
        self._state = "new"

    def __enter__(self) -> Graph:
        if self._state != "new":
            raise OptionError(f"this graph is {self._state}: each graph is captured once")
        self._recording = runtime().Recording(self.stream.handle, self._device)
        self._state = "being captured"
        self.stream.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._state != "being captured":
            raise OptionError(f"this graph is {self._state}: its with block has not begun")
        self.stream.__exit__(kind, error, trace)
        self._state = "broken: an error ended its capture"
        if error is not None:
            self._recording.abandon()
            return
        self._recording.end()
        self._state = "captured"

    def writes(self, storage: Any) -> bool:
        """Return whether the graph writes to memory."""
        return bool(self._recording.writes(storage))

    @property
    def is_empty(self) -> bool:
        """Whether nothing was recorded."""
        return bool(self._recording.is_empty)

    @observable("call", "Graph.launch")
    def launch(self, stream: Any = None) -> None:
        """Queue everything that was captured, with one call.

        On the GPU, the graph waits for earlier work on the arrays that it uses, and later work on them waits for the
        graph. So you can change inputs in place before a launch and read results after it, on any stream and in any
        thread. Launches of one graph run one after the other.

        Args:
            stream: where to queue the graph; the default stream if None. If that stream is being captured, this graph
                becomes part of the other one.

        Raises:
            OptionError: the graph is not captured yet, or its capture failed.
        """
        if self._state != "captured":
            raise OptionError(f"this graph is {self._state}; launch it after its with block has ended without an error")
        self._recording.launch(handle_of(stream))

    def __repr__(self) -> str:
        return f"numbacc.Graph({self._state}, device=cuda:{self._device})"


def graph(stream: Any = None, *, device: int | str | None = None) -> Graph:
    """Capture the calls inside a `with` block into a CUDA graph.

    Args:
        stream: the stream to capture; by default a new one. Inside the block it is the default stream, and work queued
            on it is recorded instead of run. CUDA's legacy default stream cannot be captured.
        device: the GPU of a new stream, by default the current one; or the one that `stream` belongs to.

    Returns:
        Graph, to be used in `with` once, and then launched.

    Raises:
        DeviceError: the machine has no GPU (calls on NumPy arrays are not recorded), the named GPU does not exist, or
            stream belongs to another one.
        OptionError: stream is not a stream, or it is the legacy default stream.

    Inside the block no values exist yet. Calls that need values on the host (`numbacc.asnumpy`, printing an array,
    `Stream.synchronize`) raise UnsupportedError. So do calls that a graph cannot hold, such as draws through cuRAND's
    state. Other random numbers are new at every launch; see `numbacc.random`. The graph keeps host arrays that are
    copied to the GPU inside, and reads them at every launch.

    Example:
        >>> x = numbacc.asarray(np.array([3.0, -2.0, 1.0, 2.0]))
        >>> if numbacc.has_gpu():
        ...     with numbacc.graph() as g:
        ...         y = gated.forward(x, "reglu")  # recorded, not run
        ...     g.launch()  # y holds the results for the values that x has now
        >>> numbacc.asnumpy(y if numbacc.has_gpu() else gated.forward(x, "reglu"))
        array([ 3., -4.])
    """
    if not has_gpu():
        raise DeviceError("numbacc.graph needs a GPU: calls on NumPy arrays are not recorded. Call them directly")
    if stream is None:
        target = target_of(device)
        if target < 0:
            raise DeviceError('device="cpu": numbacc.graph needs a GPU')
        return Graph(make_stream(device=target), target)
    found = make_stream(stream, device=device)
    if not found.handle:
        raise OptionError(
            "stream is CUDA's legacy default stream, which cannot be captured: leave stream out, or pass one"
        )
    return Graph(found, device_of(found))
