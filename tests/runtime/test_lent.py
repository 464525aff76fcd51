"""What foreign code holds and gives back, from any thread, by functions that know nothing of Python."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
import weakref

import pytest
from threads import run_threads

from numbacc.runtime import foreign_owners


class Lent:
    """An object with memory that foreign code is given."""

    def __init__(self):
        self.words = (ctypes.c_uint64 * 8)()


@pytest.mark.parametrize("offset", [0, *foreign_owners.CAPSULES.values()])
def test_what_is_given_back_is_let_go_of(offset):
    owners = [Lent() for _ in range(20)]
    alive = [weakref.ref(owner) for owner in owners]
    nodes = [ctypes.addressof(owner.words) for owner in owners]
    functions = [foreign_owners.lend(node, offset, owner) for node, owner in zip(nodes, owners, strict=True)]
    del owners
    foreign_owners.collect()
    gc.collect(1)  # all of them are young
    assert all(ref() for ref in alive)
    give_back = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(functions[0])
    for node in nodes[:10]:
        give_back(node)
    assert all(ref() for ref in alive) and foreign_owners.head.value
    foreign_owners.collect()
    assert [ref() is None for ref in alive] == [True] * 10 + [False] * 10 and not foreign_owners.head.value
    for node in nodes[10:]:
        give_back(node)
    foreign_owners.collect()
    assert not any(ref() for ref in alive)


def test_what_is_not_given_back_outlives_the_interpreter():
    """The function may be called, and write to the owner's words, when Python has ended."""
    code = """
import ctypes, os
from numbacc.runtime import foreign_owners as lent

class Owner:
    def __init__(self):
        self.words = (ctypes.c_uint64 * 2)()

    def __del__(self, write=os.write):
        write(1, b"gone")

owner = Owner()
lent.lend(ctypes.addressof(owner.words), 8, owner)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b""


def test_threads_give_back_at_once():
    """ctypes lets the lock of Python go during a call: the pushes meet."""
    before = len(foreign_owners._lent)
    owners = [Lent() for _ in range(4000)]
    nodes = [ctypes.addressof(owner.words) for owner in owners]
    functions = {foreign_owners.lend(node, 8, owner) for node, owner in zip(nodes, owners, strict=True)}
    give_back = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(*functions)

    def work(k):
        while nodes:
            try:
                give_back(nodes.pop())
            except IndexError:
                return

    run_threads(work)
    foreign_owners.collect()
    assert len(foreign_owners._lent) == before


def test_threads_that_lend_first_push_on_one_list(monkeypatch):
    """What another list gets would never be let go of."""
    monkeypatch.setattr(foreign_owners, "_made", [])
    monkeypatch.setattr(foreign_owners, "head", foreign_owners.head)
    together, found = threading.Barrier(4), []

    def work(k):
        together.wait()
        found.append(foreign_owners._code())

    run_threads(work, 4)
    assert len(found) == 4 and len(set(map(id, found))) == 1
