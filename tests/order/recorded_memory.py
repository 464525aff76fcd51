"""Run by test_order.py with the driver replaced by a recorder: memory that is short, foreign streams that it ends on,
processes that end or fork."""

from __future__ import annotations

import gc
import weakref

import pytest
import recorder
from recorder import FAKE, TheirArray, TheirStream, array, foreign_capture, streams

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc.runtime import memory
from numbacc.runtime.streams import foreign

# ---------------------------------------------------------------- a GPU that is full

MOST = 900_000


@pytest.fixture
def small_gpu():
    """A GPU that has room for one array of MOST bytes, and no garbage collector but ours."""
    numbacc.release_memory()
    FAKE.fake_limit(FAKE.fake_used() + (1 << 20))
    gc.disable()
    yield
    gc.enable()
    FAKE.fake_limit(1 << 30)


def test_garbage_makes_way_for_arrays(small_gpu):
    cycle = [numbacc.empty(MOST, "uint8")]
    cycle.append(cycle)
    del cycle
    assert numbacc.empty(MOST, "uint8").size == MOST


def test_what_the_gpu_is_still_at_makes_way_for_arrays(small_gpu):
    """Memory that was freed on a stream is another one's when the host has waited for that."""
    (s,) = streams(1)
    x = numbacc.empty(MOST, "uint8", stream=s)
    del x
    assert numbacc.empty(MOST, "uint8").size == MOST


def test_the_pool_holds_what_is_freed_until_it_is_released():
    numbacc.release_memory()
    x = numbacc.empty(MOST, "uint8")
    held, _ = memory.pool_bytes(0)
    del x
    numbacc.asnumpy(array())  # the host waits, which is when CUDA's own pool lets go
    assert memory.pool_bytes(0)[0] >= held
    numbacc.release_memory()
    assert memory.pool_bytes(0)[0] <= held - MOST


@pytest.mark.parametrize("recycles", [False, True])
def test_the_most_bytes_at_once():
    """Counted from a reset, on each GPU; blocks that were kept for later arrays end with the reset."""
    x = numbacc.empty(MOST, "uint8")
    del x
    kept = [numbacc.empty(1000, "uint8") for _ in range(4)]
    del kept
    numbacc.peak_memory(reset=True)
    start = numbacc.peak_memory()
    assert start == memory.pool_bytes(0)[1] and not memory.kept_bytes(0)
    x = numbacc.empty(MOST, "uint8")
    y = numbacc.empty(MOST // 2, "uint8")
    del x, y
    z = numbacc.empty(MOST // 2, "uint8", device=1)
    assert numbacc.peak_memory() == start + MOST + MOST // 2 == numbacc.peak_memory("cuda:0", reset=True)
    assert numbacc.peak_memory() == start and numbacc.peak_memory(1) >= z.nbytes


# ---------------------------------------------------------------- foreign streams


def allocated(stream):
    return numbacc.empty(3, stream=stream)


def written(stream):
    x = array()
    with numbacc.stream(stream):
        x[...] = 2.0
    return x


def borrowed(stream):
    return numbacc.asarray(TheirArray(array()), stream=stream)


@pytest.mark.parametrize("make", [allocated, written, borrowed])
def test_a_foreign_stream_lives_as_long_as_memory_that_ends_on_it(make):
    theirs = TheirStream()
    x = make(theirs)
    assert x._storage.stream == theirs.handle
    alive = weakref.ref(theirs)
    del theirs
    foreign.clear()  # where the last few are remembered anyway
    gc.collect()
    assert alive() is not None
    del x
    gc.collect()
    assert alive() is None


def test_a_foreign_stream_lives_until_what_waits_to_be_freed_on_it_is():
    theirs = TheirStream()
    alive = weakref.ref(theirs)
    x = allocated(theirs)
    with foreign_capture(theirs) as graph:
        del x  # freed after the capture
    del theirs
    foreign.clear()
    gc.collect()
    assert alive() is not None
    graph["destroy"]()
    numbacc.empty(3)
    assert alive() is None


# ---------------------------------------------------------------- processes


def test_nothing_is_freed_after_the_end():
    """The compiled code that frees may be gone by then."""
    recorder.run_code("""
import atexit, os, recorder

@atexit.register
def after_numbaccs_own():
    log = recorder.Log()
    kept.clear()
    os._exit(len(log.named("free")))

import numbacc
kept = [recorder.array()]
""")


def test_a_forked_child_is_told():
    recorder.run_code("""
import os, sys, recorder, numbacc
numbacc.empty(3)
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    numbacc.empty(3)
except numbacc.DeviceError as error:
    os._exit("was forked" not in str(error))
os._exit(1)
""")
