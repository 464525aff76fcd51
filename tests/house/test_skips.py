"""Skips have names, all in `skips`: a report says what a test needs. Slow tests repeat fast ones."""

from __future__ import annotations

import ast
import re
from itertools import combinations, product
from types import SimpleNamespace

import pytest
import skips
from conftest import LEFT_OUT, REPEATED, beyond_pairs, beyond_sample, leave_out, slow_ones, without_new_pairs
from paths import TESTS
from skips import skip_if

from numbacc.base.dispatch import has_gpu

#: Files that run in processes of their own, or are what names the skips.
OTHERS = re.compile(r"skips|recorded_\w+|stubbed\w*")
SOURCES = [
    path
    for path in sorted([*TESTS.glob("*.py"), *TESTS.glob("*/*.py")])
    if not OTHERS.fullmatch(path.stem) and path.parent.name != "fuzz"
]

#: What skips in pytest's words.
PYTESTS = {"skip", "skipif", "importorskip", "xfail"}
#: Our functions, and which of their arguments is the name.
OURS = {"skip": 0, "skip_if": 1, "needed": 1}
#: Sources without this text have no such call.
CALLED = re.compile(rf"\b({'|'.join({*PYTESTS, *OURS})})\s*\(")


def calls(source):
    """The function's name, whether it is pytest's, and its arguments, of every call in a source that could skip."""
    if not CALLED.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr in PYTESTS:
            yield node.func.attr, True, node.args
        elif isinstance(node.func, ast.Name) and node.func.id in OURS:
            yield node.func.id, False, node.args


def names_in(source):
    """The names of skips, each a constant; None of what is skipped without one."""
    names = [None if is_pytests else arguments[OURS[function]] for function, is_pytests, arguments in calls(source)]
    return [name.value if isinstance(name, ast.Constant) else None for name in names]


def test_each_skip_has_a_name_and_every_name_is_used():
    found = {path.stem: {*names_in(path.read_text())} for path in SOURCES}
    assert not {stem: names for stem, names in found.items() if not names <= skips.REASONS.keys()}
    assert set().union(*found.values()) == skips.REASONS.keys()


@pytest.mark.parametrize(
    "source, found",
    [
        ("pytest.skip('needs luck')", [None]),
        ("@pytest.mark.skipif(simulated(), reason='slow')\ndef f(): pass", [None]),
        ("torch = pytest.importorskip('torch')", [None]),
        ("skip('gpu' if x else 'device')", [None]),
        ("if x:\n    skip('gpu')\nneeded('torch', 'torch')\nmark = skip_if(x, 'slow')", ["gpu", "torch", "slow"]),
    ],
)
def test_names_are_found(source, found):
    assert sorted(map(str, names_in(source))) == sorted(map(str, found))


def test_fast_cases_have_each_value_beside_the_first_ones():
    cases = [set(case) for case in product("abc", "xyz", "12")]
    slow = [*slow_ones(cases)]
    fast = [case for k, case in enumerate(cases) if k not in slow]
    assert fast == [set("ax1"), set("ax2"), set("ay1"), set("az1"), set("bx1"), set("cx1")]


def test_cases_with_new_values_are_fast():
    """Also where a value never comes with the first ones."""
    cases = [set("ax"), set("ay"), set("bx"), set("by"), set("cz"), set("cy"), set("dy")]
    assert [*slow_ones(cases)] == [3, 5]


def test_of_pairs_those_are_fast_that_have_each_value_once():
    """And each about as often as the others."""
    cases = [set(case) for case in product("abcd", "xy", "12")]
    slow = [*beyond_pairs(cases)]
    fast = [case for k, case in enumerate(cases) if k not in slow]
    assert fast == [set("ax1"), set("by2"), set("cx1"), set("dy2")] and len(slow) == 12


@pytest.mark.parametrize(
    "size, fast", [(1, [0]), (2, [0, 9]), (4, [0, 3, 6, 9]), (10, [*range(10)]), (11, [*range(10)])]
)
def test_of_a_sample_the_fast_cases_are_spread_evenly(size, fast):
    slow = beyond_sample(10, size)
    assert sorted([*fast, *slow]) == [*range(10)] and len(fast) == min(size, 10)


@pytest.mark.parametrize("values", [("abcd", "xyz", "12"), ("abc", "xy", "12", "+-"), ("abc", "xyz"), ("abc",)])
def test_cases_that_run_have_each_pair_of_values(values):
    """With the fast ones, and nothing is left out where a case has at most two values."""
    cases = [frozenset(case) for case in product(*values)]
    fast = [number not in {*slow_ones(cases)} for number in range(len(cases))]
    left = {*without_new_pairs(cases, fast)}
    assert not any(fast[number] for number in left)
    found = {pair for number, case in enumerate(cases) if number not in left for pair in combinations(sorted(case), 2)}
    assert found == {pair for case in cases for pair in combinations(sorted(case), 2)}
    assert (len(left) > 0) is (len(values) > 2)


class Item:
    """As much of a test as `leave_out` looks at."""

    def __init__(self, *marks, fixturenames=()):
        self.marks, self.fixturenames = marks, fixturenames

    def iter_markers(self, name):
        return (mark for mark in self.marks if mark.name == name)

    def get_closest_marker(self, name):
        return next(self.iter_markers(name), None)


def test_what_would_be_skipped_is_left_out_and_counted():
    """If there is nothing else it stays and is skipped, so that a report is never empty."""
    torch, kept = skip_if(True, "torch"), skip_if(False, "torch")
    here, others = [Item(), Item(kept)], [Item(torch), Item(kept, torch)]
    others += [Item(pytest.mark.repeated)]
    if not has_gpu():
        others += [Item(pytest.mark.gpu)] * 3
    config, items = SimpleNamespace(stash=pytest.Stash(), workeroutput={}), [*others, *here]
    leave_out(config, items)
    assert items == here
    wanted = {skips.REASONS["torch"]: 2, REPEATED: 1} | ({} if has_gpu() else {skips.REASONS["gpu"]: 3})
    assert config.stash[LEFT_OUT] == config.workeroutput["left out"] == wanted
    items, config.stash = [*others], pytest.Stash()
    leave_out(config, items)
    assert items == others and LEFT_OUT not in config.stash
