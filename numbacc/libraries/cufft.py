"""Plans of cuFFT, made and run through its bindings.

A plan belongs to the thread that made it, and works on one stream at a time. It holds its own tables, but no work area:
each call provides one.
"""

from __future__ import annotations

import ctypes
from functools import partial
from typing import Any

from numbacc_bindings.cufft import FORWARD, INVERSE, Type, cufft
from numbacc_bindings.driver import driver

from ..runtime import device as runtime
from ..runtime import native
from ..runtime.contexts import relaxed
from ..runtime.memory import with_room
from .advanced_layout import AdvancedLayout
from .handles import Handle

_EXECUTE = {kind: f"cufftExec{kind.name}" for kind in Type}


class Transform:
    """A plan of cuFFT: transforms of one layout in one direction, on one GPU, in the thread that made it.

    Attributes:
        work_bytes: size of the work area that it needs.
        stream: the stream that it currently works on.
        execute: (stream, address of input, address of output, direction) -> 0, or an error of `codes` or cuFFT. This is
            compiled code. The stream must be the one that is set.
    """

    backend = "cufft"

    def __init__(self, layout: AdvancedLayout, inverse: bool, device: int):
        self.direction = INVERSE if inverse else FORWARD
        self.stream, self._area, self._device = 0, 0, device
        with runtime.on_device(device), relaxed():
            self._handle, self.work_bytes = with_room(partial(_plan, layout, device), device)
        handle = self._handle.value
        self._function = _EXECUTE[layout.type]
        gpu = runtime.gpu(device)
        function, is_capturing = cufft.address(self._function), driver.address("cuStreamIsCapturing")
        self.execute: Any = partial(native.execute, gpu.get_current, gpu.context, is_capturing, function, handle)
        #: `execute` without a check for graph capture, for streams that have been checked.
        self.execute_unchecked: Any = partial(native.execute, gpu.get_current, gpu.context, 0, function, handle)

    def set_stream(self, stream: int) -> None:
        """Work on this stream from now on."""
        with runtime.on_device(self._device):
            cufft.cufftSetStream(self._handle.value, stream)
        self.stream = stream

    def set_area(self, address: int) -> None:
        """Set the work area of `work_bytes`, which is used until another is set."""
        if address != self._area:
            cufft.cufftSetWorkArea(self._handle.value, address)
            self._area = address

    def check(self, status: int) -> None:
        """Raise CufftError unless an execution's status is 0."""
        cufft.check(self._function, status)


def _plan(layout: AdvancedLayout, device: int) -> tuple[Handle, int]:
    """Return a new plan, and the bytes of its work area. The device's context must be current."""
    made = Handle(cufft.cufftCreate, cufft.cufftDestroy, device)
    words = [ctypes.c_longlong * layout.rank] * 3
    lengths, in_embed, out_embed = (
        kind(*numbers) for kind, numbers in zip(words, (layout.lengths, layout.in_embed, layout.out_embed), strict=True)
    )
    work = ctypes.c_size_t()
    cufft.cufftSetAutoAllocation(made.value, 0)
    cufft.cufftMakePlanMany64(
        made.value,
        layout.rank,
        ctypes.addressof(lengths),
        ctypes.addressof(in_embed),
        layout.in_stride,
        layout.in_dist,
        ctypes.addressof(out_embed),
        layout.out_stride,
        layout.out_dist,
        layout.type,
        layout.batch,
        ctypes.addressof(work),
    )
    return made, work.value
