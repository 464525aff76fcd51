"""CUDA graphs, by the driver's own Python bindings."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import numbacc
from numbacc.runtime import device


@contextmanager
def captured(stream):
    """Capture what is queued on a stream; afterwards `replay()` runs it and waits."""
    from cuda.bindings import driver as cuda

    def check(result):
        assert int(result[0]) == 0, result
        return result[1] if len(result) > 1 else None

    found, handle = SimpleNamespace(), cuda.CUstream(stream.handle)
    stream.synchronize()
    device.synchronize(0, 0)
    check(cuda.cuStreamBeginCapture(handle, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    yield found
    graph = check(cuda.cuStreamEndCapture(handle))
    instance = check(cuda.cuGraphInstantiate(graph, 0))

    def replay():
        check(cuda.cuGraphLaunch(instance, handle))
        stream.synchronize()

    found.replay = replay


def overwrite(array, values, stream):
    """New values in the memory of an array, there when this returns."""
    fresh = numbacc.asarray(values)
    device.synchronize(0, 0)
    device.copy_on_device(array._address, fresh._address, fresh.nbytes, 0, stream.handle)
    stream.synchronize()
