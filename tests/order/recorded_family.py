"""Run by test_order.py with the driver replaced by a recorder: every kind of kernel of `elementwise` in the order of
its arrays' memory, and what it allocates for itself.
"""

from __future__ import annotations

import pytest
import recorder
from library_order import lives_as_long_as_its_graph
from recorder import streams

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

from family_work import FAMILY

import numbacc
from numbacc import elementwise as ew

each_kind = pytest.mark.parametrize("kind", FAMILY)


def drawn(stream=None):
    """An array of so many elements that blocks share results of few."""
    return numbacc.full((64, 256), 1.5, stream=stream)


@each_kind
def test_what_stays_on_its_stream_waits_for_nothing(kind):
    x = drawn()
    FAMILY[kind](x, None, None)
    log = recorder.Log()
    for _ in range(2):
        y = FAMILY[kind](x, None, None)
    del x, y
    assert log.named("launch") and not log.named("record", "wait")


@each_kind
def test_every_pair_of_streams(kind):
    """All of its launches come behind what made x, before whoever reads the result and whoever overwrites x."""
    s, t = streams(2)
    like = FAMILY[kind](drawn(), None, None)
    for home, writer, reader in ((None, s, t), (s, None, t), (s, t, None), (None, s, None)):
        log = recorder.Log()
        x, y = drawn(home), numbacc.empty(like.shape, like.dtype, stream=home)
        filled = log.named("fill")[-1]
        assert FAMILY[kind](x, y, writer) is y
        launches = log.named("launch")
        numbacc.asnumpy(y, stream=reader)
        x[...] = 2.0
        addresses = {x._address, y._address}
        del x, y
        copied, overwrite = log.named("copy out")[-1], log.named("fill")[-1]
        assert log.before(filled, launches[0]) and log.before(launches[-1], copied)
        assert all(log.before(launched, overwrite) for launched in launches)
        freed = [free for free in log.named("free") if free.arguments[0] in addresses]
        assert len(freed) == 2
        assert all(log.before(launched, free) for launched in launches for free in freed)


@each_kind
def test_what_a_graph_uses_lives_as_long_as_it(kind):
    lives_as_long_as_its_graph(FAMILY[kind], drawn, ew.cache_clear, ("allocate", "free", "record", "wait"))
