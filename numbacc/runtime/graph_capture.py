"""Capture and launch of CUDA graphs on the GPU."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from numbacc_bindings.driver import STREAM_SET_CAPTURE_DEPENDENCIES, CaptureMode, DriverError, driver

from ..base.observing import observable
from ..errors import UnsupportedError
from . import captures
from .captures import Capture
from .contexts import call, on_device, relaxed
from .memory import keep_until, with_room
from .memory_order import DriverEvent, home_of_captures, using, wait


class Recording:
    """A capture in progress, and after its end the recorded graph, ready to be launched."""

    def __init__(self, stream: int, device: int):
        self._stream, self._device = stream, device
        self._graph = self._executable = 0
        # The driver requires that launches of one graph are queued one after the other.
        self._lock: Any = threading.Lock()
        #: The point after the last launch.
        self._last: DriverEvent | None = None
        with on_device(device):
            if captures.capture_on(stream)[0]:
                raise UnsupportedError(f"stream {stream:#x} is being captured already: end that graph first")
            before = DriverEvent(device)
            before.record(stream)
            self._capture = Capture(device, home_of_captures(device), stream, wait, before)
            # Relaxed mode: this thread may load kernels and make plans meanwhile. No other work gets into the capture,
            # since no other stream waits for this one implicitly.
            driver.cuStreamBeginCapture_v2(stream, CaptureMode.RELAXED)
            self._number = captures.capture_on(stream)[0]
        captures.begun(self._number, self._capture)

    def end(self) -> None:
        """End the capture, and instantiate the graph that it recorded.

        Raises:
            UnsupportedError: a call inside the capture broke it.
        """
        try:
            with on_device(self._device):
                try:
                    graph = self._end_capture()
                except DriverError as error:
                    raise UnsupportedError(
                        f"the capture recorded no graph ({error}): either a call inside broke it, or another stream "
                        "joined by waiting for the captured stream, which did not wait for that stream before the end"
                    ) from error
                # Kept together with the executable, for captures that include this graph.
                self._graph = graph
                with relaxed():
                    self._executable = with_room(
                        lambda: call(driver.cuGraphInstantiateWithFlags, graph, 0), self._device
                    )
        finally:
            self._finish()

    def abandon(self) -> None:
        """End the capture and discard its result."""
        try:
            with on_device(self._device):
                driver.cuGraphDestroy(self._end_capture())
        except DriverError:
            pass  # the capture was broken, which caused the exception in progress
        finally:
            self._finish()

    def _end_capture(self) -> int:
        graph = ctypes.c_uint64()
        driver.cuStreamEndCapture(self._stream, ctypes.addressof(graph))
        return graph.value

    def _finish(self) -> None:
        self._capture.end()
        self._lock = self._capture.locked(self._lock)
        captures.ended(self._number)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was recorded."""
        count = ctypes.c_size_t()
        driver.cuGraphGetNodes(self._graph, 0, ctypes.addressof(count))
        return not count.value

    def writes(self, storage: Any) -> bool:
        """Return whether the graph writes to memory."""
        return self._capture.writes(storage)

    @observable("graph")
    def launch(self, stream: int) -> None:
        """Queue the graph, ordered with all other work on the memory that it uses."""
        used = self._capture.used.values()
        with self._lock, using(stream, self._device, storages=used) as outer:
            if outer is not None:
                outer.include(self, self._capture)
                self._join(stream)
                return
            self._queue(stream)
            self._capture.launched()
            self._last = DriverEvent(self._device)
            driver.cuEventRecord(self._last.handle, stream)

    @observable("queue")
    def _queue(self, stream: int) -> None:
        driver.cuGraphLaunch(self._executable, stream)

    def _join(self, stream: int) -> None:
        """Add this graph as a node to the graph that is being captured on a stream."""
        words = (ctypes.c_uint64 * 6)()
        status, number, graph, nodes, count, node = (ctypes.addressof(words) + 8 * k for k in range(6))
        driver.cuStreamGetCaptureInfo_v2(stream, status, number, graph, nodes, count)
        driver.cuGraphAddChildGraphNode(node, words[2], words[3], words[4], self._graph)
        driver.cuStreamUpdateCaptureDependencies(stream, node, 1, STREAM_SET_CAPTURE_DEPENDENCIES)

    def __del__(self) -> None:
        try:
            if self._executable:
                # A launch that is in progress continues.
                driver.cuGraphExecDestroy(self._executable)
                if self._last is not None:
                    keep_until(self._last, self._capture)
            if self._graph:
                driver.cuGraphDestroy(self._graph)
        except Exception:
            pass  # interpreter exit, as in Storage
