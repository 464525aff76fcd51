"""Compiled functions as builtins of Python: what they get, what they answer, and whom they let run meanwhile."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
import time
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st
from skips import skip

from numbacc.base.codes import MANY_ARRAYS, WRONG_CONTEXT
from numbacc.base.dispatch import simulated

if simulated():
    skip("not simulated", allow_module_level=True)

from numbacc.runtime import native
from numbacc.runtime.builtin import bound, bound_to_arrays, bound_to_words

word = ctypes.c_uint64
CONTEXT = 0x7F12_3456_7890


def address_of(function):
    return ctypes.cast(function, ctypes.c_void_p).value


@pytest.fixture(scope="module")
def execute():
    """`native.execute` where CONTEXT is the current context, and the C function that tells."""

    @ctypes.CFUNCTYPE(ctypes.c_int, word)
    def current(place):
        word.from_address(place).value = CONTEXT
        return 0

    made = bound(native.execute, address_of(current))
    yield made
    del current  # a fixture's locals live as long as its tests


words = st.integers(-(2**63), 2**64 - 1)


@given(st.tuples(words, words, words, words))
def test_arguments_arrive_in_order_and_whole(execute, numbers):
    seen = []

    @ctypes.CFUNCTYPE(ctypes.c_int, word, word, word, word)
    def note(*arguments):
        seen.append(arguments)
        return 7

    handle, source, target, option = numbers
    assert execute(CONTEXT, 0, address_of(note), handle, 16, source, target, option) == 7
    assert seen == [tuple(number % 2**64 for number in numbers)]


def test_negative_answers_stay_negative(execute):
    assert execute(CONTEXT + 8, 0, 0, 0, 0, 0, 0, 0) == WRONG_CONTEXT


def test_a_call_is_that_of_numbas_dispatcher():
    get = address_of(ctypes.CDLL(None).abs)  # writes no context
    for context in (0, 1, 2**63 - 1):
        assert bound(native.is_current, get)(context) == native.is_current(get, context)


@pytest.mark.parametrize("wrong", ["x", 1.5, None, [1]])
def test_what_is_no_integer_is_refused(execute, wrong):
    for place in (0, 7):
        arguments = [0] * 8
        arguments[place] = wrong
        with pytest.raises(TypeError, match="integer"):
            execute(*arguments)


class Five:
    def __index__(self):
        return 5


def test_minus_one_is_a_number(execute):
    """It is also what Python answers where there is none."""
    seen = []
    note = ctypes.CFUNCTYPE(ctypes.c_int, word)(lambda handle: seen.append(handle) or 0)
    for number in (-1, 2**64 - 1, Five()):
        assert execute(CONTEXT, 0, address_of(note), number, 0, 0, 0, 0) == 0
    assert seen == [2**64 - 1, 2**64 - 1, 5]


def test_other_threads_run_meanwhile():
    """A driver's call may wait for a callback, which needs Python's lock."""
    sleep = bound(native.is_capturing, address_of(ctypes.CDLL(None).usleep))
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    sleep(300_000)
    after = counted[0]
    done.set()
    thread.join()
    assert after - before > 3  # of 300; a busy machine gives it few turns


def test_a_call_may_come_when_the_interpreter_ends():
    """A finalizer's, when modules and the functions that Numba has compiled are gone."""
    code = """
import ctypes, os, sys
from numbacc.runtime import native
from numbacc.runtime.builtin import bound, bound_to_arrays

class Last:
    def __init__(self):
        get = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p).value
        self.ask = bound(native.is_current, get)

    def __del__(self, write=os.write):
        write(1, b"%d" % self.ask(5))

sys.last_of_all = Last()  # sys is the last module to go
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "0" and done.stderr == ""


# ---------------------------------------------------------------- lists of arrays


@pytest.fixture(scope="module")
def told():
    """What is called as executables are, and answers with what its compiled function found: stream, scratch, words."""
    import numba

    from numbacc.runtime.native import load_word, store_word

    seen = (ctypes.c_int64 * (3 + MANY_ARRAYS))()

    @numba.njit(numba.int64(*[numba.int64] * 4), nogil=True)
    def note(first, stream, scratch, arrays):
        store_word(first, 0, stream)
        store_word(first, 1, scratch)
        for k in range(MANY_ARRAYS):
            store_word(first, 2 + k, load_word(arrays, k))
        return -5

    call, spread = bound_to_arrays(note, seen), bound_to_words(note, seen)

    def answer(*arguments, call=call):
        seen[:] = [7] * len(seen)
        assert call(*arguments) == -5
        return [number % 2**64 for number in seen[:-1]]

    answer.call, answer.spread, answer.seen = call, spread, seen
    return answer


@given(words, words, st.lists(words, max_size=14), st.lists(words, max_size=10))
def test_addresses_and_scalars_are_one_behind_the_other(told, stream, scratch, addresses, scalars):
    wanted = [stream, scratch, *addresses, *scalars, *[0] * (MANY_ARRAYS - len(addresses) - len(scalars))]
    for one, other in ((addresses, tuple(scalars)), (tuple(addresses), scalars)):
        assert told(stream, scratch, one, other) == [number % 2**64 for number in wanted]
    given = (stream, scratch, *addresses, *scalars)
    assert told(*given, call=told.spread) == [number % 2**64 for number in wanted]


def test_more_words_than_there_is_room_for(told):
    told(0, 0, [1] * (MANY_ARRAYS - 1), (2,))
    for addresses, scalars in (([1] * MANY_ARRAYS, (2,)), ([1] * (MANY_ARRAYS + 1), ()), ([1], [2] * 1000)):
        told.seen[:] = [7] * len(told.seen)
        with pytest.raises(TypeError):
            told.call(0, 0, addresses, scalars)
        with pytest.raises(TypeError):
            told.spread(0, 0, *addresses, *scalars)
        assert list(told.seen) == [7] * len(told.seen)


@pytest.mark.parametrize(
    "wrong",
    [
        *((), (0, 0, ()), (0, 0, (), (), ())),
        *(("x", 0, (), ()), (0, None, (), ()), (0, 0, 5, ()), (0, 0, [None], ()), (0, 0, (), (1, "x"))),
    ],
)
def test_what_is_no_list_of_integers_is_refused(told, wrong):
    with pytest.raises(TypeError):
        told.call(*wrong)


@pytest.mark.parametrize("wrong", [(), (0,), ("x", 0), (0, None), (0, 0, [1]), (0, 0, 1, "x")])
def test_words_are_integers(told, wrong):
    with pytest.raises(TypeError):
        told.spread(*wrong)


def test_a_builtin_keeps_its_template_and_no_more(told):
    """Launchers come and go with the plans that they belong to, also while they are called."""

    class Kept:
        pass

    template, kept = (ctypes.c_uint64 * 2)(), Kept()
    alive = weakref.ref(kept)
    launch = bound_to_arrays(native.launch, template, kept)
    before = sys.getrefcount(template)
    del kept
    assert alive()
    del launch
    assert not alive() and sys.getrefcount(template) == before - 1
    numbers = [5_000_000_001, 5_000_000_002]
    counts = [sys.getrefcount(number) for number in numbers]
    for _ in range(100):
        told(0, 0, numbers, numbers)
    assert [sys.getrefcount(number) for number in numbers] == counts
