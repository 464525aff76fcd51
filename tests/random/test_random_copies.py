"""Copies of generators, and threads that share them while the garbage collector runs at every turn."""

from __future__ import annotations

import copy
import gc
import pickle
import threading

import numpy as np
import pytest
from host_curand import philox
from threads import run_threads

import numbacc
from numbacc.random import Generator
from numbacc.random import generator as module


def generator(place, *args, **kw):
    return Generator(*args, device=None if place.is_device else "cpu", **kw)


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda g: pickle.loads(pickle.dumps(g)),
    "in a list": lambda g: copy.deepcopy([g, g])[1],
}


@pytest.mark.each_alone(paired=True)
@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("kind", ["philox", "xorwow", "mtgp32", "sobol64"])
def test_copies_go_on_from_the_same_place_on_their_own(place, kind, how):
    g = generator(place, kind)
    g.bits(5)
    g.normal(0, 1, 4)
    other = COPIES[how](g)
    assert other is not g and other.state == g.state and other.device == g.device
    first, second = (place.get(g.bits(n)).tolist() for n in (7, 9))
    assert place.get(other.bits(7)).tolist() == first  # the other one has moved on meanwhile
    del g
    gc.collect(1)
    assert place.get(other.bits(9)).tolist() == second


def test_several_copies_in_one_object_are_one():
    a, b = copy.deepcopy([Generator(device="cpu")] * 2)
    assert a is b


def test_copies_and_children_stay_on_the_device(monkeypatch):
    """Where none was asked for it is the one that was current when the first was made; what is unpickled looks anew."""
    current = 1

    def target_of(device):
        return current if device is None else int(device[-1])

    monkeypatch.setattr(module, "target_of", target_of)
    g, current = Generator(), 0
    for made in (copy.copy(g), copy.deepcopy(g), *g.spawn(2)):
        assert made.device == "cuda:1"
        assert pickle.loads(pickle.dumps(made)).device == "cuda:0"


def test_eight_threads_and_the_garbage_collector(place, busy_collector):
    """One generator for all and one each: every number is drawn once, in whatever order, copies and states among it."""
    turns, n = (2, 12) if place.is_slow else (40, 200)
    shared, found, begin = generator(place, "philox", 3), [[] for _ in range(8)], threading.Barrier(8)

    def work(number):
        begin.wait()
        own = generator(place, "xorwow" if number % 2 else "philox", number)
        for _ in range(turns):
            found[number].append(shared.bits(n))
            one, other = copy.copy(own), pickle.loads(pickle.dumps(own.state))
            values = place.get(own.bits(n))
            assert (place.get(one.bits(n)) == values).all()
            assert other.position + n == own.state.position

    run_threads(work)
    parts = sorted(place.get(part).tobytes() for row in found for part in row)
    assert parts == sorted(row.tobytes() for row in philox(3, 0, 8 * turns * n).reshape(-1, n))
    assert shared.state.position == 8 * turns * n


@pytest.mark.gpu
def test_a_copy_on_a_gpu_has_an_engine_of_its_own():
    for kind in ("xorwow", "mtgp32", "scrambled_sobol64"):
        g = Generator(kind)
        g.random(1000)
        other = copy.deepcopy(g)
        want = numbacc.asnumpy(g.random(5000))
        np.testing.assert_array_equal(numbacc.asnumpy(other.random(5000)), want)
