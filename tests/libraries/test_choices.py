"""Choices among a library's algorithms: what is kept, in memory and on disk, and what may be measured."""

from __future__ import annotations

import threading
from typing import NamedTuple

import pytest
from skips import skip

from numbacc.base.dispatch import simulated
from numbacc.libraries import choices, measuring
from numbacc.libraries.choices import Algorithm, Choices, Proposals, Wrong
from numbacc_bindings.errors import LibraryError

if simulated():
    skip("not simulated", allow_module_level=True)


class Key(NamedTuple):
    what: str
    version: int = 1


def algorithm(name, deterministic=True, number=0):
    return Algorithm(name.encode(), len(name), f"algorithm {name}", (number, 7), deterministic)


A, B, LOOSE = algorithm("a"), algorithm("b"), algorithm("loose", deterministic=False)


@pytest.fixture
def fastest(monkeypatch, tmp_path):
    """The name of the one that is measured as the fastest, and what was measured."""
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    found = {"name": "b", "measured": []}

    def measure(works, first, device, stream):
        found["measured"].append({each.text[10:] for each in works})
        for launch in works.values():
            launch()
        return next((each for each in works if each.text[10:] == found["name"]), first)

    monkeypatch.setattr(measuring, "fastest", measure)
    return found


X = Key("x")


def tune(store, proposals, key=X, usable=lambda each: True, trial=lambda each: lambda: None):
    return store.tune(key, lambda: proposals, usable, trial, 0, 0)


def test_a_choice_is_made_once():
    store, made = Choices("test"), []

    def find():
        made.append(1)
        return A

    assert store.choose(Key("x"), find) is store.choose(Key("x"), find) is A
    assert len(made) == 1 and store.items() == [(Key("x"), A)]
    store.clear()
    assert store.items() == [] and store.choose(Key("x"), find) is A and len(made) == 2


def test_that_there_is_none_is_kept_too():
    store = Choices("test")
    assert store.choose(Key("x"), lambda: None) is None
    assert store.choose(Key("x"), lambda: pytest.fail("asked again")) is None


def test_the_choice_used_longest_ago_goes_first():
    store = Choices("test", size=2)
    for name in ("x", "y", "x", "z"):
        store.choose(Key(name), lambda: A)
    assert [key.what for key, _ in store.items()] == ["x", "z"]


def test_threads_share_a_store():
    store, go = Choices("test", size=8), threading.Barrier(4)

    def work(k):
        go.wait()
        for number in range(500):
            store.choose(Key(str((number * (k + 1)) % 16)), lambda: A)
            assert len(store.items()) <= 9

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.items()) == 8 and all(found is A for _, found in store.items())


def test_the_fastest_is_kept_on_disk(fastest):
    assert tune(Choices("test"), Proposals(A, [A, B, B])) == B
    # Another process.
    assert tune(Choices("test"), None) == B
    assert fastest["measured"] == [{"a", "b"}]


def test_a_measurement_is_good_for_its_key_only(fastest):
    tune(Choices("test"), Proposals(A, [B]))
    for store, key in ((Choices("test"), Key("y")), (Choices("test"), Key("x", 2)), (Choices("other"), Key("x"))):
        fastest["name"] = "a"
        assert tune(store, Proposals(A, [B]), key) == A
    assert len(fastest["measured"]) == 4


def test_nothing_deterministic_is_measured_against_what_is_not(fastest):
    fastest["name"] = "loose"
    assert tune(Choices("test"), Proposals(A, [B, LOOSE])) == A
    assert tune(Choices("test"), Proposals(LOOSE, [A, B]), Key("y")) == LOOSE
    assert fastest["measured"] == [{"a", "b"}, {"a", "b", "loose"}]
    assert choices.load("0" * 64) is None


def test_nothing_is_measured_where_nothing_is_proposed(fastest):
    assert tune(Choices("test"), Proposals(None)) is None
    assert fastest["measured"] == []


def test_what_is_known_to_be_wrong_is_taken_from_nowhere(fastest):
    wrong = algorithm("b", number=13)
    tune(Choices("test"), Proposals(A, [A, wrong]))
    assert tune(Choices("test"), None) == wrong
    store = Choices("test", [Wrong(13, lambda what: what == "sum", 1)])
    assert store.right([A, wrong], "sum", 1) == [A]
    assert store.right([A, wrong], "other", 1) == [A, wrong]
    fastest["name"] = "a"
    # On disk it is still the fastest.
    assert tune(store, Proposals(A, [A]), usable=lambda each: bool(store.right([each], "sum", 1))) == A


@pytest.mark.parametrize("version, wrong", [(1, True), (4, True), (5, False)])
def test_what_was_mended_is_right_again(version, wrong):
    store = Choices("test", [Wrong(13, lambda what: True, seen=1, mended=5)])
    assert store.right([algorithm("b", number=13)], "sum", version) == ([] if wrong else [algorithm("b", number=13)])


# ---------------------------------------------------------------- measuring


class Clock:
    """A GPU on which each work takes the milliseconds of its name."""

    def __init__(self, monkeypatch):
        self.now, self.rounds = 0.0, []
        monkeypatch.setattr(measuring, "_flush", lambda device, stream: lambda: self.spend("flush", 1.0))
        clock = self

        class Event:
            def __init__(self, device, flag):
                pass

            def record(self, stream):
                self.time = clock.now

            def synchronize(self):
                pass

            def elapsed_ms(self, start):
                return self.time - start.time

        monkeypatch.setattr(measuring.runtime(), "DriverEvent", Event)

    def spend(self, name, span):
        self.rounds.append(name)
        self.now += span

    def work(self, name, span):
        return lambda: self.spend(name, span)


def test_the_fastest_is_found(monkeypatch):
    clock = Clock(monkeypatch)
    works = {name: clock.work(name, span) for name, span in {"a": 3.0, "b": 1.0, "c": 2.0}.items()}
    assert measuring.fastest(works, "a", 0, 0) == "b"
    # Each behind a flush of the cache, but when it is tried.
    assert clock.rounds[3:9] == ["flush", "a", "flush", "b", "flush", "c"]


def test_who_is_hardly_faster_does_not_replace_the_first(monkeypatch):
    clock = Clock(monkeypatch)
    assert measuring.fastest({"a": clock.work("a", 1.0), "b": clock.work("b", 0.99)}, "a", 0, 0) == "a"
    assert measuring.fastest({"a": clock.work("a", 1.0), "b": clock.work("b", 0.98)}, "a", 0, 0) == "b"
    # Of short works, by less than can be told.
    assert measuring.fastest({"a": clock.work("a", 0.008), "b": clock.work("b", 0.0077)}, "a", 0, 0) == "a"
    assert measuring.fastest({"a": clock.work("a", 0.008), "b": clock.work("b", 0.0075)}, "a", 0, 0) == "b"


def test_times_at_high_and_at_limited_clocks_count(monkeypatch):
    clock = Clock(monkeypatch)

    def hot(cool, late):
        return lambda: clock.spend("work", cool if clock.now < 30 else late)

    works = {"a": hot(1.0, 1.3), "b": hot(1.04, 1.26)}
    assert measuring.fastest(works, "a", 0, 0) == "a"
    clock.now = 0.0
    assert measuring.fastest({**works, "c": hot(1.0, 1.25)}, "a", 0, 0) == "c"


def test_what_is_hopeless_is_tried_once(monkeypatch):
    clock = Clock(monkeypatch)
    spans = {"a": 10.0, "b": 9.0, "slow": 46.0, "slower": 60.0}
    assert measuring.fastest({name: clock.work(name, span) for name, span in spans.items()}, "a", 0, 0) == "b"
    assert clock.rounds.count("slower") == 1 < clock.rounds.count("slow")
    # The one that would be taken unmeasured, too.
    clock = Clock(monkeypatch)
    assert measuring.fastest({"a": clock.work("a", 90.0), "b": clock.work("b", 1.0)}, "a", 0, 0) == "b"
    assert clock.rounds.count("a") == 1


def test_what_takes_long_is_measured_less_often(monkeypatch):
    counts = {}
    for span in (0.1, 30.0, 900.0):
        clock = Clock(monkeypatch)
        assert measuring.fastest({"a": clock.work("a", 2 * span), "b": clock.work("b", span)}, "a", 0, 0) == "b"
        counts[span] = clock.rounds.count("b")
    assert counts[0.1] == 1 + 6 + 42 and counts[30.0] == 1 + 6 + 12 and counts[900.0] == 1 + 4 + 4


def test_what_is_refused_is_not_measured(monkeypatch):
    clock = Clock(monkeypatch)

    def refused():
        raise LibraryError("not supported")

    assert measuring.fastest({"a": refused, "b": clock.work("b", 5.0)}, "a", 0, 0) == "b"
    assert measuring.fastest({"a": refused}, "a", 0, 0) == "a"
