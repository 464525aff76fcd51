"""Several ranks in one process: threads, each with a communicator of its own, for tests that need no processes."""

from __future__ import annotations

import threading

from threads import run_threads

from numbacc.distributed.communicator import Communicator
from numbacc.distributed.environment import Ranks


def together(size, folder, work, *, ranks=None):
    """What `work(communicator)` returns in each of `size` ranks, in their order. The first error of a rank is raised.

    All say that they are the first of their host: ranks that share a GPU have no connection between GPUs.
    """
    results = [None] * size

    def rank(number):
        place = Ranks(number, size, 0, run="test", file=str(folder / "meet")) if ranks is None else ranks(number)
        team = Communicator(place, 20.0)
        team._control._main = threading.current_thread()
        try:
            results[number] = work(team)
        except BaseException as error:
            team._control.fail(repr(error))
            raise
        team._control._done = True
        team._control.send(kind="done")

    run_threads(rank, size)
    return results
