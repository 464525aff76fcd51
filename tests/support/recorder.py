"""The CUDA driver replaced by a recorder: what numbacc queues, in which order, on a machine without a GPU.

In a process that `run` or `run_code` starts this module, imported first, compiles fake_cuda.c and loads it under the
driver's name, before numbacc looks for one. `Log` then tells what was called, and what comes before what; the fixtures
at the end are there for all tests of such a process, since it is pytest's plugin.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from replaced_driver import Replacement

_DRIVER = Replacement("recorder", "fake_cuda.c")
run, run_code, installed = _DRIVER.run, _DRIVER.run_code, _DRIVER.installed


def _install() -> ctypes.CDLL:
    """The recorder, as this process's CUDA driver."""
    fake = _DRIVER.load()
    fake.fake_name.restype = ctypes.c_char_p
    for name in ("fake_count", "fake_argument", "fake_used"):
        getattr(fake, name).restype = ctypes.c_uint64
    fake.fake_argument.argtypes = [ctypes.c_uint64, ctypes.c_int]
    fake.fake_name.argtypes = fake.fake_limit.argtypes = [ctypes.c_uint64]
    return fake


#: The recorder, in a process that `run` started.
FAKE = _install() if installed() else None


class Call(NamedTuple):
    """A call of the driver: its number, its name, the stream, other arguments, the graph that it is captured into."""

    number: int
    name: str
    stream: int
    arguments: tuple[int, ...]
    graph: int


#: Name and first two arguments of the driver's calls, as far as a log has looked at them.
_KNOWN: list[tuple[str, int, int]] = []


class Log:
    """The calls since the log was made."""

    def __init__(self) -> None:
        assert FAKE is not None
        self._fake, self._start = FAKE, FAKE.fake_count()

    @property
    def calls(self) -> list[Call]:
        found = []
        for k in range(self._start, self._fake.fake_count()):
            stream, *others, graph = (self._fake.fake_argument(k, n) for n in range(5))
            found.append(Call(k, self._fake.fake_name(k).decode(), stream, tuple(others), graph))
        return found

    def named(self, *names: str) -> list[Call]:
        return [call for call in self.calls if call.name in names]

    def before(self, first: Call, second: Call) -> bool:
        """True if the GPU has finished the first call when it starts the second, whatever its streams' speed.

        Each stream does its work in order; a wait puts all behind it after what its event was recorded behind; what the
        host waits for comes before all it queues later.
        """
        return first.number in self._past(second)

    def _past(self, last: Call) -> set[int]:
        streams: dict[int, set[int]] = {}
        events: dict[int, set[int]] = {}
        host: set[int] = set()
        for k in range(len(_KNOWN), last.number + 1):
            first, second = self._fake.fake_argument(k, 0), self._fake.fake_argument(k, 1)
            _KNOWN.append((self._fake.fake_name(k).decode(), first, second))
        for k, (name, stream, argument) in enumerate(_KNOWN):
            if name == "host waits":
                host |= events.get(stream, set())
                continue
            past = streams.setdefault(stream, set())
            past |= host
            if k == last.number:
                return past
            if name == "record":
                events[argument] = set(past)
            elif name == "wait":
                past |= events.get(argument, set())
            elif name == "synchronize":
                host |= past
            past.add(k)
        raise AssertionError("the call is not in the log")


# ---------------------------------------------------------------- for the tests


@pytest.fixture
def recycles():
    """Whether small blocks are kept for the next allocation: tests count what the driver is asked for."""
    return False


@pytest.fixture(autouse=True)
def as_asked(monkeypatch, recycles):
    from numbacc.runtime import memory

    for device in list(memory._kept_blocks):
        memory._give_up_blocks(device)
    if not recycles:
        monkeypatch.setattr(memory, "KEPT_BYTES", 0)


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch, as_asked):
    from numbacc.runtime import foreign_owners, launch

    monkeypatch.setattr(launch, "load_function", lambda spec, device: 4096)
    FAKE.fake_clear()
    _KNOWN.clear()
    yield
    gc.collect()
    foreign_owners.collect()
    gc.freeze()  # so that later collections skip the objects that are left


@pytest.fixture
def log():
    return Log()


def array(stream=None, device=None):
    import numbacc

    return numbacc.full((4, 8), 1.5, stream=stream, device=device)


def streams(count):
    import numbacc

    return [numbacc.stream() for _ in range(count)]


class TheirStream:
    """A stream that another library has made, one that the legacy default stream waits for."""

    def __init__(self):
        from numbacc.base.dispatch import runtime

        made = ctypes.c_uint64()
        with runtime().on_device(0):
            FAKE.cuStreamCreate(ctypes.byref(made), 0)
        self.handle = self.ptr = made.value

    def __cuda_stream__(self):
        return 0, self.handle


class TheirArray:
    """An array of another library, over our memory, with what it says of its stream by the CUDA array interface."""

    def __init__(self, array, stream=None):
        self._array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "stream": stream}


def work(stream, array):
    """Work that another library queues on memory, as a call of the log."""
    log = Log()
    FAKE.cuMemsetD8Async(ctypes.c_uint64(array._address), 7, ctypes.c_size_t(4), ctypes.c_void_p(stream.handle))
    return only(log.named("fill"))


def only(calls):
    (call,) = calls
    return call


@contextmanager
def foreign_capture(stream):
    """As another library captures: by the driver itself."""
    FAKE.cuStreamBeginCapture_v2(ctypes.c_void_p(stream.handle), 0)
    found = {}
    yield found
    graph = ctypes.c_void_p()
    FAKE.cuStreamEndCapture(ctypes.c_void_p(stream.handle), ctypes.byref(graph))
    executable = ctypes.c_void_p()
    FAKE.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_uint64(0))
    FAKE.cuGraphDestroy(graph)
    found["destroy"] = lambda: FAKE.cuGraphExecDestroy(executable)


def settle():
    """Let the GPU have done everything, and what waits for that be let go of."""
    import numbacc

    FAKE.fake_pending(0)
    numbacc.empty(3)
    FAKE.fake_pending(1)


class Consumer:
    """What takes a DLPack capsule, as another library does in C."""

    def __init__(self, exporter, stream, version=(1, 0)):
        from numbacc.arrays import dlpack

        capsule = exporter.__dlpack__(stream=stream, max_version=version)
        name = dlpack.NEW if version else dlpack.OLD
        self.address = dlpack.pointer(capsule, name)
        dlpack.set_name(capsule, dlpack.USED[name])
        self.structure = dlpack.STRUCTURES[name].from_address(self.address)

    def drop(self):
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.structure.deleter)(self.address)
