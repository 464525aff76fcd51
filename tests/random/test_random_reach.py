"""How far sequences can be entered: Sobol's points by their definition up to the last, and what takes too long."""

from __future__ import annotations

import pickle
import signal
import time

import numpy as np
import pytest
from host_curand import HostCurand, sobol

import numbacc
from numbacc.libraries.curand import FAR
from numbacc.random import Generator
from numbacc_bindings.curand import curand


def generator(place, *args, **kw):
    return Generator(*args, device=None if place.is_device else "cpu", **kw)


# ---------------------------------------------------------------- quasi-random points

#: Around these, at most 10 points each.
STARTS_32 = (0, 1, 2**16 - 3, 2**31 - 5, 2**31, 2**32 - 10)
STARTS_64 = (2**32 - 3, 2**32, 2**33 - 2, 2**40 + 7, 2**48 + 1, 2**62 - 5, 2**63 - 4, 2**63 + 9, 2**64 - 10)


@pytest.mark.parametrize(
    "kind, starts",
    [
        ("sobol32", STARTS_32),
        ("scrambled_sobol32", STARTS_32),
        ("sobol64", STARTS_32 + STARTS_64),
        ("scrambled_sobol64", STARTS_32),
    ],
)
def test_points_are_what_their_definition_says(place, kind, starts):
    for first in starts:
        g = generator(place, kind, offset=first, dimensions=3)
        got = place.get(g.bits((3, 10), dtype=f"uint{kind[-2:]}"))
        np.testing.assert_array_equal(got, sobol(kind, 3, first, 10), err_msg=str(first))


def test_scrambled_points_that_curands_host_generator_has_wrong_are_refused():
    wrong = HostCurand("scrambled_sobol64", offset=2**32)("GenerateLongLong", 1)
    if wrong == sobol("scrambled_sobol64", 1, 2**32, 1)[0]:
        pytest.fail("this cuRAND has them right: look at host_outputs")
    for offset in (2**32 + 1, 2**40):
        with pytest.raises(numbacc.UnsupportedError, match=f"offset={offset} is beyond the 4294967296 points"):
            Generator("scrambled_sobol64", offset=offset, device="cpu")
    g = Generator("scrambled_sobol64", offset=2**32 - 3, device="cpu")
    for call in (lambda: g.random(4), lambda: g.normal(0, 1, 4)):
        with pytest.raises(numbacc.UnsupportedError, match="4 values from position 4294967293 on is beyond"):
            call()
    np.testing.assert_array_equal(g.bits(3, dtype="uint64"), sobol("scrambled_sobol64", 1, 2**32 - 3, 3)[0])
    with pytest.raises(numbacc.UnsupportedError, match="position=4294967299"):
        g.state = g.state._replace(position=2**32 + 3)
    assert g.state.position == 2**32


@pytest.mark.gpu
def test_a_gpu_has_scrambled_points_right_beyond_2_to_the_32():
    for first in STARTS_32 + STARTS_64:
        got = Generator("scrambled_sobol64", offset=first, dimensions=3).bits((3, 10), dtype="uint64")
        np.testing.assert_array_equal(
            numbacc.asnumpy(got), sobol("scrambled_sobol64", 3, first, 10), err_msg=str(first)
        )


# ---------------------------------------------------------------- kinds that cannot skip


@pytest.mark.parametrize("kind", ["mtgp32", "mt19937"])
def test_what_would_take_years_is_refused_at_once(kind):
    start = time.process_time()  # the machine may be busy
    for offset in (FAR + 1, 2**60):
        with pytest.raises(numbacc.OptionError, match=f"offset={offset} is too far: {kind} .* at most {FAR}"):
            Generator(kind, offset=offset, device="cpu")
    g = Generator(kind, device="cpu")
    with pytest.raises(numbacc.OptionError, match="position=1152921504606846976 is too far"):
        g.state = g.state._replace(position=2**60)
    assert g.state.position == 0
    assert Generator(kind, offset=FAR, device="cpu").state.position == FAR
    assert time.process_time() - start < 1


def test_a_generator_that_is_far_may_go_on_from_there():
    """Drawing so many is fine, and so is to set its state again where it is."""
    g = Generator("mtgp32", device="cpu")
    g.bits(3)
    g._engine.at = FAR + 10  # as if they had been drawn
    state = g.state._replace(position=FAR + 12)
    g.state = state
    g.bits(5)
    assert g.state.position == FAR + 17 == g._engine.at
    with pytest.raises(numbacc.OptionError, match="too far"):
        g.state = g.state._replace(position=FAR + 16)  # it would have to begin anew
    with pytest.raises(numbacc.OptionError, match="too far"):
        pickle.loads(pickle.dumps(g))


def test_skipping_can_be_interrupted():
    def interrupt(*_):
        raise KeyboardInterrupt

    g = Generator("mtgp32", 5, offset=2**33, device="cpu")
    before = signal.signal(signal.SIGALRM, interrupt)
    start = time.perf_counter()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            g.bits(3)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.perf_counter() - start < 30
    assert g.state.position == 2**33


def test_what_was_interrupted_is_not_lost(monkeypatch):
    """The next numbers are those of their position, though cuRAND's generator was left on the way."""
    g = Generator("mtgp32", 5, device="cpu")
    g.bits(10)
    state = g.state._replace(position=2**19 + 10)
    g.state = state
    generate, calls = curand.curandGenerate, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return generate(*arguments)

    monkeypatch.setattr(curand, "curandGenerate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        g.bits(4)
    assert g.state == state
    theirs = HostCurand("mtgp32", 5)
    theirs("Generate", 2**19 + 10)
    np.testing.assert_array_equal(g.bits(4), theirs("Generate", 4))
