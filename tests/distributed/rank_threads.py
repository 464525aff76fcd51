"""Run several ranks as threads of one process. Each thread has its own communicator."""

from __future__ import annotations

import threading

import pytest
from threads import run_threads

from numbacc import RankError
from numbacc.distributed.communicator import Communicator
from numbacc.distributed.environment import Ranks


def together(size, folder, work, *, ranks=None, call_timeout=None):
    """Return the results of `work(communicator)` of all ranks, in their order. Raise the first error of a rank.

    All ranks claim to be the first of their host. Ranks that share a GPU use sockets only.
    """
    results = [None] * size
    own = threading.local()

    def rank(number):
        place = Ranks(number, size, 0, run="test", file=str(folder / "meet")) if ranks is None else ranks(number)
        team = Communicator(place, 20.0, call_timeout)
        team._control._main = threading.current_thread()
        own.notice = team._control.notice
        try:
            results[number] = work(team)
        except BaseException as error:
            team._control.fail(repr(error))
            raise
        team._control._done = True
        team._control.send(kind="done", numbers=team._control._numbers())
        for function in team._control.on_finish:
            function()

    # `init` sets the message of errors from outside for the one rank of a process. Here each thread is a rank.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RankError, "news", staticmethod(lambda: own.notice()))
        run_threads(rank, size)
    return results
