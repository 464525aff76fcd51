"""Library handles: one per device and thread, made on first use, destroyed when the thread ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..base.dispatch import runtime
from ..base.ownership import NotCopied
from ..runtime.contexts import call, on_device, relaxed


@contextmanager
def _current(device: int) -> Iterator[None]:
    """Make the device's context current, and allow libraries to allocate and free memory during captures."""
    if device < 0:
        yield
        return
    with on_device(device), relaxed():
        yield


class Handle(NotCopied):
    """A handle or a descriptor: an address that a library created and destroys. Its device may be CPU."""

    __slots__ = ("_destroy", "device", "value")

    _instead = "make another"

    def __init__(self, create: Any, destroy: Any, device: int, *arguments: Any):
        self.value = 0
        self.device = device
        self._destroy = destroy
        with _current(device):
            if device < 0:
                self.value = call(create, *arguments)
            else:
                self.value = runtime().with_room(lambda: call(create, *arguments), device)

    def __del__(self) -> None:
        if self.value:
            try:
                with _current(self.device):
                    self._destroy(self.value)
            except Exception:
                pass  # at interpreter exit the library may be unloaded, and its handles with it


class Handles(NotCopied, threading.local):
    """A library's handles of the calling thread.

    Args:
        library: the bindings.
        create: name of the function that makes a handle; its first parameter receives it.
        destroy: name of the function that destroys it.
    """

    def __init__(self, library: Any, create: str, destroy: str):
        # Run once in every thread that uses the object.
        self._library, self._names = library, (create, destroy)
        self._made: dict[int, Handle] = {}

    def get(self, device: int) -> Handle:
        """Return this thread's handle on a device. Keep the object, not the number: the thread's end destroys it."""
        found = self._made.get(device)
        if found is None:
            create, destroy = (getattr(self._library, name) for name in self._names)
            found = self._made[device] = Handle(create, destroy, device)
        return found
