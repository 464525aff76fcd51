"""What families that run on libraries owe to streams and graphs, for tests with a recorded driver."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import recorder
from recorder import streams

import numbacc
from numbacc.base.dispatch import runtime


class Runner:
    """A plan of what stands in for cuDNN, which fills its result. Those of a family say which of the memory it is.

    Attributes:
        place: among the graph's memory.
        nbytes: of the result, no more than it has.
    """

    backend = algorithm = "stand-in"
    library_bytes, workspace_bytes, deterministic, direct = 0, 512, True, False

    def __init__(self, graph, algorithm, device, operands=None, pairs=(), values=()):
        self._device = device
        self.place, self.nbytes = self.result(graph)
        self._operand = self.place if operands is None else operands[self.place]

    def ready(self, addresses):
        pass

    def launch_unchecked(self, stream, scratch, addresses, scalars):
        assert scratch
        runtime().fill(addresses[self._operand], b"\1", self.nbytes, self._device, stream)
        return 0

    def check(self, status):
        raise AssertionError(status)


def stand_in(runner):
    """What `graph_library` gives, with such runners."""
    return SimpleNamespace(Runner=runner, choose=lambda *arguments: None, algorithms=SimpleNamespace(clear=list))


def lives_as_long_as_its_graph(work, drawn, forget, quiet):
    """What a graph uses is given back when the graph goes, and not before; within it there are no such calls."""
    x = drawn()
    work(x, None, None)
    log = recorder.Log()
    with numbacc.graph() as graph:
        y = work(x, None, None)
    addresses = {x._address, y._address}
    assert not [call for call in log.named(*quiet) if call.graph]
    del x, y
    forget()
    gc.collect()
    graph.launch()
    assert not addresses & {call.arguments[0] for call in log.named("free")}
    del graph
    gc.collect()
    recorder.settle()
    assert addresses <= {call.arguments[0] for call in log.named("free")}


class Order:
    """Tests of a family. Their fixtures are its module's.

    Fixtures:
        work: a call of the family, as work(x, out, stream).
        drawn: makes x, as drawn(stream).
        forget: drops the family's plans.
    """

    def test_what_stays_on_its_stream_waits_for_nothing(self, work, drawn):
        x = drawn()
        work(x, None, None)
        log = recorder.Log()
        for _ in range(2):
            y = work(x, None, None)
        del x, y
        assert log.named("launch", "fill") and not log.named("record", "wait")

    def test_every_pair_of_streams(self, work, drawn):
        """All of its work comes behind what made x, before whoever reads the result and whoever overwrites x."""
        s, t = streams(2)
        like = work(drawn(), None, None)
        for home, writer, reader in ((None, s, t), (s, None, t), (s, t, None), (None, s, None)):
            x, y = drawn(home), numbacc.empty(like.shape, like.dtype, stream=home)
            log = recorder.Log()
            assert work(x, y, writer) is y
            done = log.named("launch", "fill", "copy")
            assert done
            numbacc.asnumpy(y, stream=reader)
            y[...] = 2.0
            copied, overwrite = log.named("copy out")[-1], log.named("fill")[-1]
            assert all(log.before(each, copied) and log.before(each, overwrite) for each in done)

    def test_what_a_graph_uses_lives_as_long_as_it(self, work, drawn, forget):
        lives_as_long_as_its_graph(work, drawn, forget, ("free", "record", "wait"))
