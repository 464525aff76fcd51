"""Run by test_order.py with the driver replaced by a recorder: NCCL's work in the order of its arrays' memory.

A stand-in for NCCL fills memory, on the stream that a real communicator would use.
"""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import pytest
import recorder
from recorder import only, streams

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc import distributed
from numbacc.base.dispatch import runtime
from numbacc.distributed.communicator import Communicator
from numbacc.distributed.environment import Ranks

#: The stand-in fills memory with this byte.
MARK = b"\7"


class Library:
    """A stand-in for `NcclCommunicator`: each call fills its target."""

    device = calls = 0

    def add(self, number):
        self.calls += number

    def _fill(self, target, nbytes, stream):
        runtime().fill(target, MARK, nbytes, 0, stream)

    def all_reduce(self, source, target, count, dtype, op, stream):
        self._fill(target, 4 * count, stream)

    reduce_scatter = all_reduce

    def all_to_all(self, source, target, nbytes, dtype, stream):
        self._fill(target, 2 * nbytes, stream)

    def allocate(self, nbytes):
        """Return memory that is never freed."""
        self.kept = getattr(self, "kept", ()) + (numbacc.empty(nbytes, "uint8"),)
        return self.kept[-1]._address

    def all_gather(self, source, target, nbytes, dtype, stream):
        self._fill(target, 2 * nbytes, stream)

    def broadcast(self, source, target, nbytes, dtype, root, stream):
        self._fill(target, nbytes, stream)


@pytest.fixture
def team():
    """Rank 0 of two, without the other."""
    made = Communicator(Ranks(), 1.0)
    made.world_size, made._nccl = 2, Library()
    made._control = SimpleNamespace(check=lambda: None, send=lambda **message: None)
    return made


#: name -> a call of a communicator.
CALLS = {
    "all_reduce": lambda team, x, out, stream: team.all_reduce(x, out=out, stream=stream),
    "reduce_scatter": lambda team, x, out, stream: team.reduce_scatter(x, out=out, stream=stream),
    "all_gather": lambda team, x, out, stream: team.all_gather(x, out=out, stream=stream),
    "broadcast": lambda team, x, out, stream: team.broadcast(x, out=out, stream=stream),
}
each_call = pytest.mark.parametrize("name", CALLS)


def drawn(stream=None):
    return numbacc.full((8, 256), 1.5, stream=stream)


def marks(log):
    """Return the calls of the stand-in."""
    return [call for call in log.named("fill") if call.arguments[1] == MARK[0]]


@each_call
def test_every_pair_of_streams(team, name):
    """NCCL's work comes after the work on x and y before it. Readers, writers and frees come after NCCL's work."""
    s, t, u = streams(3)
    rows = CALLS[name](team, drawn(), None, None).shape[0]
    for home, writer, reader in ((None, s, t), (s, None, t), (s, t, None), (None, s, None)):
        log = recorder.Log()
        x, y = drawn(home), numbacc.full((rows, 256), 9, stream=u)
        filled = log.named("fill")[-2:]
        assert CALLS[name](team, x, y, writer) is y
        work = only(marks(log))
        x[...] = 2.0
        overwrite = log.named("fill")[-1]
        numbacc.asnumpy(y, stream=reader)
        addresses = {x._address, y._address}
        del x, y
        assert all(log.before(call, work) for call in filled)
        assert log.before(work, log.named("copy out")[-1]) and log.before(work, overwrite)
        freed = [free for free in log.named("free") if free.arguments[0] in addresses]
        assert len(freed) == 2 and all(log.before(work, free) for free in freed)


@each_call
def test_what_stays_on_its_stream_waits_for_nothing(team, name):
    x = drawn()
    CALLS[name](team, x, None, None)
    log = recorder.Log()
    for _ in range(2):
        y = CALLS[name](team, x, None, None)
    del x, y
    assert len(marks(log)) == 2 and not log.named("record", "wait")


@each_call
def test_a_graph_keeps_arrays_and_communicator(team, name):
    x = drawn()
    CALLS[name](team, x, None, None)
    log = recorder.Log()
    with numbacc.graph() as graph:
        y = CALLS[name](team, x, None, None)
    assert only(marks(log)).graph
    library, addresses = weakref.ref(team._nccl), {x._address, y._address}
    team._nccl = None
    del x, y
    gc.collect()
    graph.launch()
    assert library().calls == 1
    assert library() is not None and not addresses & {call.arguments[0] for call in log.named("free")}
    del graph
    gc.collect()
    recorder.settle()
    assert library() is None and addresses <= {call.arguments[0] for call in log.named("free")}


# ---------------------------------------------------------------- gradients in buckets

LENGTH = 1024


def trained(team, log, overlap, registered=False):
    """A step with four layers: their writes, NCCL's work, and each update, as calls of the log."""
    gradients, parameters = ((team.registered_empty if registered else numbacc.empty)(LENGTH) for _ in range(2))
    gradients[...], parameters[...] = 0.0, 0.0
    parallel = distributed.DataParallel(team, gradients, parameters, shard=True, overlap=overlap, bucket_bytes=1024)
    assert (parallel._pieces is not None) == registered
    writes, updates = [], []
    for low in reversed(range(0, LENGTH, 256)):
        gradients[low : low + 256] = 2.0
        writes.append(log.named("fill")[-1])
        parallel.ready(low, low + 256)
    for part in parallel.reduced():
        parameters[part.whole] = 3.0
        updates.append(log.named("fill")[-1])
    return parallel, gradients, parameters, writes, updates


@pytest.mark.parametrize("registered", [False, True], ids=["kernels", "copies"])
@pytest.mark.parametrize("overlap", ["backward", "update"])
@pytest.mark.parametrize("captured", [False, True], ids=["queued", "captured"])
def test_buckets_overlap_what_computes(team, captured, overlap, registered):
    """NCCL's stream reduces a bucket after its writes. Later writes or updates do not wait for it."""
    team._can_register, team._copier = True, Library()
    if registered:  # memory and plans are made outside of the capture
        trained(team, recorder.Log(), overlap, registered)
    log = recorder.Log()
    with numbacc.stream() as main:
        if captured:
            with numbacc.graph(main):
                parallel, gradients, parameters, writes, updates = trained(team, log, overlap, registered)
        else:
            parallel, gradients, parameters, writes, updates = trained(team, log, overlap, registered)
        work = marks(log)
        reduces, gathers = work[:4], work[4:]
        assert len(gathers) == 4 and {call.stream for call in work} == {parallel._stream.handle} != {main.handle}
        assert {bool(call.graph) for call in (*work, *writes, *updates)} == {captured}
        for number in range(4):
            assert log.before(writes[number], reduces[number]) and log.before(reduces[number], updates[number])
            assert log.before(updates[number], gathers[number])
            for later in range(number + 1, 4):
                if overlap == "backward":
                    assert not log.before(reduces[number], writes[later]), "the backward pass waits for NCCL"
                else:
                    assert log.before(writes[later], reduces[number])
                assert not log.before(reduces[later], updates[number]), "an update waits for the other buckets"
                assert not log.before(gathers[number], updates[later]), "the update waits for the gathering"
        if registered:
            means = log.named("launch")
            assert len(means) == 4
            for number in range(4):
                assert log.before(reduces[number], means[number]) and log.before(means[number], updates[number])
        if captured or registered:
            return
        # Whoever comes later, on any stream, waits for all of it. Memory is kept until NCCL is done.
        (other,) = streams(1)
        numbacc.asnumpy(parameters, stream=other)
        assert all(log.before(call, log.named("copy out")[-1]) for call in work)
        addresses = {gradients._address, parameters._address}
        del parallel, gradients, parameters
        assert not addresses & {call.arguments[0] for call in log.named("free")}
        recorder.settle()
        assert addresses <= {call.arguments[0] for call in log.named("free")}


def test_gradients_freed_before_the_step_ends(team):
    """An error in the backward pass: NCCL still works on the memory."""
    log = recorder.Log()
    gradients = numbacc.full(LENGTH, 0)
    parallel = distributed.DataParallel(team, gradients, bucket_bytes=1024)
    parallel.ready(768, 1024)
    work, address = only(marks(log)), gradients._address
    del gradients, parallel
    gc.collect()
    assert address not in {call.arguments[0] for call in log.named("free")}
    recorder.settle()
    freed = only([call for call in log.named("free") if call.arguments[0] == address])
    assert work.number < freed.number
