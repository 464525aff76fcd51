"""Run by test_order.py with the driver replaced by a recorder: what makes way for libraries, forked children."""

from __future__ import annotations

import weakref

import pytest
import recorder
from recorder import FAKE

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc.base.dispatch import runtime
from numbacc.libraries.handles import Handle
from numbacc.runtime import contexts, launch, workspace
from numbacc.runtime.launch_order import Spec
from numbacc_bindings.driver import DriverError, Status, driver
from numbacc_bindings.errors import LibraryError

#: As it is without the fixture that stands for a compiler, and uncached.
load_function = launch.load_function.__wrapped__


class Scarce:
    """A function of a library's that finds memory short so many times."""

    def __init__(self, times, error=None):
        self.times, self.calls = times, 0
        self.error = error or LibraryError("no memory", out_of_memory=True)

    def __call__(self, *arguments):
        self.calls += 1
        if self.calls <= self.times:
            raise self.error


def test_scratch_memory_makes_way_for_libraries(log):
    numbacc.release_memory()
    before = FAKE.fake_used()
    workspace.run(lambda address: None, 900_000, 0, 0)
    create = Scarce(2)
    made = Handle(create, lambda value: None, 0)
    assert create.calls == 3 and FAKE.fake_used() == before
    assert made.value == 0


def test_garbage_makes_way_first():
    class Cycle:
        pass

    cycle = Cycle()
    cycle.itself, seen = cycle, weakref.ref(cycle)
    del cycle
    held = FAKE.fake_used()
    workspace.run(lambda address: None, 900_000, 0, 0)
    Handle(Scarce(1), lambda value: None, 0)
    assert seen() is None and FAKE.fake_used() > held


@pytest.mark.parametrize("create", [Scarce(3), Scarce(1, LibraryError("another reason"))])
def test_what_a_library_says_in_the_end_is_raised(create):
    with pytest.raises(LibraryError) as caught:
        Handle(create, lambda value: None, 0)
    assert caught.value is create.error
    assert create.calls == (3 if create.error.out_of_memory else 1)


def test_machine_code_is_loaded_when_memory_has_made_way(monkeypatch):
    load = Scarce(1, DriverError("full", status=Status.ERROR_OUT_OF_MEMORY, out_of_memory=True))
    monkeypatch.setattr(driver, "cuModuleLoadData", load)
    monkeypatch.setattr(driver, "cuModuleGetFunction", lambda *arguments: None)
    monkeypatch.setattr(launch.disk_cache, "key", lambda *arguments: "0" * 64)
    monkeypatch.setattr(launch.disk_cache, "load", lambda key: ("entry", b"code"))
    named = type("Named", (Spec,), {"module": "kernels/test"})
    load_function(named(), 0)
    assert load.calls == 2


def test_the_child_of_a_process_in_which_another_library_used_cuda_is_told(monkeypatch):
    """numbacc itself had not, so that its hook did not run; CUDA says that it is not initialized."""
    monkeypatch.setattr(driver, "cuInit", Scarce(9, DriverError("", status=Status.ERROR_NOT_INITIALIZED)))
    contexts.device_count.cache_clear()
    try:
        for call in (numbacc.has_gpu, lambda: numbacc.zeros(3), lambda: numbacc.stream()):
            with pytest.raises(numbacc.DeviceError, match="forked"):
                call()
    finally:
        driver._refusal = None
        contexts.device_count.cache_clear()
    assert numbacc.gated.forward(numbacc.asarray([[1.0, 2.0]], device="cpu")).shape == (1, 1)
    assert runtime().device_count() == 2
