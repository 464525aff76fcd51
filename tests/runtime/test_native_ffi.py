"""The compiled handler of XLA's calls, on frames that are made here: which calls run without Python."""

import ctypes
import threading

import pytest
from numba import types

from numbacc.runtime import builtin, host_cache
from numbacc.runtime import native_ffi as words
from numbacc.runtime.native import load_word, store_word

_Function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_Python = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
CONTEXT, STREAM, FLOAT32, PLACES = 0xC0, 0x5555, 11, 64
int64 = types.int64


@host_cache.compiled(int64(int64, int64, int64, int64))
def noting(template, stream, scratch, arrays):
    """Write six words, the stream and the scratch memory to the template; fail if its last word is not 0."""
    for k in range(6):
        store_word(template, k, load_word(arrays, k))
    store_word(template, 6, stream)
    store_word(template, 7, scratch)
    return load_word(template, 8)


class Handler:
    """A handler with a new table. `seen` holds the words that Python got."""

    def __init__(self):
        self.seen, self._kept, self.template = [], [], (ctypes.c_int64 * 9)()
        self.table, self.state = (ctypes.c_int64 * PLACES)(), (ctypes.c_int64 * 5)()
        self.state[words.GET_CURRENT] = self._address(_Function(self._context))
        self.state[words.GET_THREAD] = self._address(ctypes.pythonapi.PyThread_get_thread_ident)
        self.state[words.MASK], self.state[words.TABLE] = PLACES - 1, ctypes.addressof(self.table)
        self.door = builtin.Door()
        self._stream_of, self._error = self._address(_Function(self._stream)), self._address(_Function(lambda _: 0xE))
        python = self._address(_Python(self._python))
        self.call = _Function(builtin.handler(self.door, python, words.OUT_WORDS, words.handle, self.state))

    def _address(self, function):
        self._kept.append(function)
        return ctypes.cast(function, ctypes.c_void_p).value

    def memory(self, *numbers):
        made = (ctypes.c_int64 * max(len(numbers), 1))(*numbers)
        self._kept.append(made)
        return ctypes.addressof(made)

    @staticmethod
    def _context(word):
        ctypes.c_int64.from_address(word).value = CONTEXT
        return 0

    @staticmethod
    def _stream(arguments):
        given = (ctypes.c_int64 * 4).from_address(arguments)
        assert list(given)[:3] == [32, 0, 77]
        given[3] = STREAM

    def _python(self, frame, out):
        self.seen.append(list((ctypes.c_int64 * words.OUT_WORDS).from_address(out)))

    def frame(self, *shapes, addresses=(0x1000, 0x2000), key=0x1234, stage=words.EXECUTE, extension=0):
        """A frame with one argument; the other arrays are results."""
        arrays = [
            self.memory(48, 0, FLOAT32, address, len(shape), self.memory(*shape))
            for shape, address in zip(shapes, addresses, strict=True)
        ]
        api = self.memory(200, 0, 24, 0, 3 << 32, 0, self._error, 0, 0, 0, self._stream_of)
        scalar = self.memory(5, self.memory(key))
        lists = [n for each in (arrays[:1], arrays[1:]) for n in (40, 0, len(each), 0, self.memory(*each))]
        attributes = (48, 0, 2, 0, 0, self.memory(0, scalar))
        return self.memory(168, extension, api, 77, stage, *lists, *attributes, 0)

    def record(self, out, number=9):
        """Add a record for the words that Python got."""
        length = out[words.OUT_KEY]
        first = words.OUT_KEY + 1
        made = (ctypes.c_int64 * (words.RECORD_KEY + length))(number, 0, length, *out[first : first + length])
        place = out[words.OUT_PLACE]
        while self.table[place]:
            place = (place + 1) % PLACES
        self.table[place] = self.memory_of(made)
        return made

    def memory_of(self, made):
        self._kept.append(made)
        return ctypes.addressof(made)

    def step(self, pairs, scalars=(), scratch=0):
        code, count = builtin.address_of(noting), len(pairs)
        flat = [n for pair in pairs for n in pair]
        return [code, ctypes.addressof(self.template), scratch, count, len(scalars), *flat, *scalars]

    def program(self, steps, thread=0, stream=-1, arrays=()):
        return self.memory(thread, stream, len(arrays) // 2, len(steps), *arrays, *[n for each in steps for n in each])


@pytest.fixture
def handler():
    return Handler()


SHAPES = (3, 8), (3, 4)


def test_an_unknown_call_is_pythons(handler):
    assert handler.call(handler.frame(*SHAPES)) is None
    (out,) = handler.seen
    assert out[: words.OUT_ARRAYS + 2] == [0, STREAM, out[words.OUT_PLACE], 2, 0x1000, 0x2000]
    length = out[words.OUT_KEY]
    key = out[words.OUT_KEY + 1 : words.OUT_KEY + 1 + length]
    assert key == [0x1234, CONTEXT, FLOAT32, 2, 3, 8, FLOAT32, 2, 3, 4]


def test_a_record_without_a_program_is_pythons(handler):
    handler.call(handler.frame(*SHAPES))
    handler.record(handler.seen[0])
    handler.call(handler.frame(*SHAPES))
    assert handler.seen[1][words.OUT_NUMBER] == 9


def test_calls_that_differ_are_told_apart(handler):
    """In a table where many records have the same place."""
    frames = [handler.frame(shape, (2,), key=key) for shape in ((1, 6), (6, 1), (6,), (1, 1, 6)) for key in range(8)]
    for number, each in enumerate(frames, 1):
        handler.call(each)
        assert handler.seen[-1][words.OUT_NUMBER] == 0
        handler.record(handler.seen[-1], number)
    for number, each in enumerate(frames, 1):
        handler.call(each)
        assert handler.seen[-1][words.OUT_NUMBER] == number


def test_a_program_runs_without_python(handler):
    frame = handler.frame(*SHAPES)
    handler.call(frame)
    record = handler.record(handler.seen[0])
    record[words.PROGRAM] = handler.program([handler.step([(1, 0), (0, 16), (-1, 0xBEEF)], (5, 6), 0xAA)])
    assert handler.call(frame) is None and len(handler.seen) == 1
    assert list(handler.template)[:5] == [0x2000, 0x1010, 0xBEEF, 5, 6]
    assert list(handler.template)[6:8] == [STREAM, 0xAA]
    assert handler.call(handler.frame(*SHAPES, addresses=(0x3000, 0x4000))) is None
    assert list(handler.template)[:2] == [0x4000, 0x3010]
    steps = [handler.step([(0, 0)]), handler.step([(1, 32), (0, 8)])]
    record[words.PROGRAM] = handler.program(steps, threading.get_ident(), STREAM, (0, 0, 1, 0))
    assert handler.call(frame) is None and len(handler.seen) == 1
    assert list(handler.template)[:2] == [0x2020, 0x1008]


def test_other_threads_streams_alignments_and_failures_are_pythons(handler):
    frame = handler.frame(*SHAPES)
    handler.call(frame)
    record, step = handler.record(handler.seen[0]), handler.step([(0, 0)])
    programs = [
        handler.program([step], thread=threading.get_ident() + 1),
        handler.program([step], stream=STREAM + 1),
        handler.program([step], arrays=(1, 16)),
    ]
    for each in programs:
        record[words.PROGRAM] = each
        handler.call(frame)
    assert not any(handler.template)
    record[words.PROGRAM] = handler.program([step])
    handler.template[8] = -3
    handler.call(frame)
    handler.template[8] = 0
    handler.state[words.OBSERVED] = 1
    handler.call(frame)
    assert [out[words.OUT_NUMBER] for out in handler.seen] == [0, 9, 9, 9, 9, 0]


def test_other_stages_and_questions(handler):
    handler.call(handler.frame(*SHAPES, stage=1))
    assert not handler.seen
    handler.call(handler.frame(*SHAPES, extension=handler.memory(24, 1, 0)))
    assert len(handler.seen) == 1


def test_arrays_that_do_not_fit_are_pythons(handler):
    """More than a launch supports, or of too many dimensions together."""
    many = [(1,)] * (words.MANY_ARRAYS + 1)
    handler.call(handler.frame(*many, addresses=range(len(many))))
    handler.call(handler.frame(*[(1,) * 20] * 10, addresses=range(10)))
    assert [out[words.OUT_KEY] for out in handler.seen] == [0, 0]


def test_a_closed_door():
    """Threads that are inside finish; others get an error of XLA's."""
    begun, go_on = threading.Event(), threading.Event()
    other = Handler()

    def slow(frame, out):
        begun.set()
        assert go_on.wait(10)

    python = other._address(_Python(slow))
    call = _Function(builtin.handler(other.door, python, 1))
    frame = other.frame(*SHAPES)
    inside = threading.Thread(target=call, args=(frame,))
    inside.start()
    assert begun.wait(10)
    closing = threading.Thread(target=other.door.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    assert call(frame) == 0xE
    go_on.set()
    for each in (closing, inside):
        each.join(10)
        assert not each.is_alive()
    assert call(frame) == 0xE
