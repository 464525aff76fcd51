"""The handler of XLA's custom calls, compiled for the host like the functions of `native`.

XLA describes a call by a frame (xla/ffi/api/c_api.h): arrays with dtypes and shapes, attributes, a context. The handler
looks for a record of the call in a table. If the record has a compiled function, the handler calls it with the arrays'
addresses and XLA's stream, without Python. Otherwise Python gets what the handler has found.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from ..base.codes import MANY_ARRAYS
from .host_cache import compiled
from .native import invoke, load_word, stack_words, store_word

#: 64-bit words of XLA's structures that the handler reads: of a frame,
FRAME_EXTENSION, FRAME_API, FRAME_CONTEXT, FRAME_STAGE = 1, 2, 3, 4
ARGUMENTS, RESULTS, ATTRIBUTES = 7, 12, 17  # a count, then types, then for attributes names, then pointers
#: of the API, an array, and a scalar attribute.
API_STREAM = 10
ARRAY_DTYPE, ARRAY_DATA, ARRAY_RANK, ARRAY_SHAPE = 2, 3, 4, 5
SCALAR_VALUE = 1
#: The number of the stage that computes.
EXECUTE = 3

#: The handler's own words: whether Python wants to see all calls; cuCtxGetCurrent; PyThread_get_thread_ident, which
#: does not need Python's lock; the number of the table's places, less 1; the table, which has the addresses of records.
OBSERVED, GET_CURRENT, GET_THREAD, MASK, TABLE = range(5)
#: A record's words. A key of KEY_LENGTH words follows. PROGRAM is the address of the record's program, or 0 if Python
#: must run the call.
NUMBER, PROGRAM, KEY_LENGTH = range(3)
RECORD_KEY = KEY_LENGTH + 1
#: A program's words. THREAD is the only thread that may run it, 0 for any; STREAM the only stream, -1 for any. ARRAYS
#: pairs follow: the number of an array in the frame, and the remainder of its address by ALIGNMENT. Then come STEPS
#: steps, each with these words; COUNT pairs (number of an array in the frame, byte offset in it; or -1, the word
#: itself); and SCALARS words.
THREAD, STREAM, ARRAYS, STEPS = range(4)
PROGRAM_ARRAYS = STEPS + 1
FUNCTION, TEMPLATE, SCRATCH, COUNT, SCALARS = range(5)
STEP_PAIRS = SCALARS + 1
ALIGNMENT = 256
#: The words that the handler passes to Python: the number of the record or 0; the stream; the first place to look at in
#: the table; the number of arrays and their addresses; the length of the key, and the key.
OUT_NUMBER, OUT_STREAM, OUT_PLACE, OUT_COUNT, OUT_ARRAYS = range(5)
OUT_KEY = OUT_ARRAYS + MANY_ARRAYS
MOST_KEY = 192
OUT_WORDS = OUT_KEY + 1 + MOST_KEY

_FACTOR = -7046029254386353131  # 2^64 divided by the golden ratio, as in Fibonacci hashing
_int = types.int64
_word = stack_words(1)
_array_words = stack_words(MANY_ARRAYS)
_asked_words = stack_words(4)


@intrinsic
def invoke_word(typing: Any, function: Any, argument: Any) -> Any:
    """Call the C function at an address with one 64-bit argument, and return its 64-bit result."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        return builder.call(builder.inttoptr(args[0], ir.FunctionType(word, [word]).as_pointer()), [args[1]])

    return _int(_int, _int), generate


@intrinsic
def invoke_compiled(typing: Any, function: Any, template: Any, stream: Any, scratch: Any, arrays: Any) -> Any:
    """Call a function that Numba has compiled, given its address, and return its result; it raises no exception."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, pointer = ir.IntType(64), ir.IntType(64).as_pointer()
        kind = ir.FunctionType(ir.IntType(32), [pointer, pointer.as_pointer(), *[word] * 4])
        result, raised = builder.alloca(word), builder.alloca(pointer)
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), [result, raised, *args[1:]])
        return builder.load(result)

    return _int(*[_int] * 5), generate


@njit(inline="always")
def _is_at(record, key, length):
    """Return whether a record has this key."""
    if load_word(record, KEY_LENGTH) != length:
        return False
    for k in range(length):  # noqa: SIM110 - Numba compiles no generators here
        if load_word(record, RECORD_KEY + k) != load_word(key, k):
            return False
    return True


@njit(inline="always")
def _run(state, program, stream, out):
    """Run a program and return 0, or return 1 if Python must run it, also after a part of it."""
    if load_word(program, STREAM) != -1 and load_word(program, STREAM) != stream:
        return 1
    thread = load_word(program, THREAD)
    if thread != 0 and thread != invoke_word(load_word(state, GET_THREAD), 0):
        return 1
    count = load_word(program, ARRAYS)
    for k in range(count):
        address = load_word(out, OUT_ARRAYS + load_word(program, PROGRAM_ARRAYS + 2 * k))
        if address % ALIGNMENT != load_word(program, PROGRAM_ARRAYS + 2 * k + 1):
            return 1
    step = program + 8 * (PROGRAM_ARRAYS + 2 * count)
    words = _array_words()
    for _ in range(load_word(program, STEPS)):
        used = load_word(step, COUNT)
        for k in range(used):
            number = load_word(step, STEP_PAIRS + 2 * k)
            start = 0 if number < 0 else load_word(out, OUT_ARRAYS + number)
            store_word(words, k, start + load_word(step, STEP_PAIRS + 2 * k + 1))
        scalars = load_word(step, SCALARS)
        for k in range(scalars):
            store_word(words, used + k, load_word(step, STEP_PAIRS + 2 * used + k))
        template, scratch = load_word(step, TEMPLATE), load_word(step, SCRATCH)
        if invoke_compiled(load_word(step, FUNCTION), template, stream, scratch, words) != 0:
            return 1
        step += 8 * (STEP_PAIRS + 2 * used + scalars)
    return 0


@compiled(_int(*[_int] * 3))
def handle(state, frame, out):
    """Run the call of a frame and return 0, or return 1 if Python must do it; `out` is for Python."""
    store_word(out, OUT_NUMBER, 0)
    store_word(out, OUT_KEY, 0)
    if load_word(frame, FRAME_EXTENSION) != 0:
        return 1
    if load_word(frame, FRAME_STAGE) & 0xFFFFFFFF != EXECUTE:
        return 0
    if load_word(frame, ATTRIBUTES) != 2:
        return 1
    context = _word()
    store_word(context, 0, 0)
    invoke(load_word(state, GET_CURRENT), (context,))
    key = out + 8 * (OUT_KEY + 1)
    # Attributes are in the order of their names: call, key.
    scalar = load_word(load_word(frame, ATTRIBUTES + 3), 1)
    store_word(key, 0, load_word(load_word(scalar, SCALAR_VALUE), 0))
    store_word(key, 1, load_word(context, 0))
    length, count = 2, 0
    for start in (ARGUMENTS, RESULTS):
        arrays = load_word(frame, start + 2)
        for k in range(load_word(frame, start)):
            array = load_word(arrays, k)
            rank = load_word(array, ARRAY_RANK)
            if length + 2 + rank > MOST_KEY or count == MANY_ARRAYS:
                return 1
            store_word(key, length, load_word(array, ARRAY_DTYPE) & 0xFFFFFFFF)
            store_word(key, length + 1, rank)
            shape = load_word(array, ARRAY_SHAPE)
            for d in range(rank):
                store_word(key, length + 2 + d, load_word(shape, d))
            length += 2 + rank
            store_word(out, OUT_ARRAYS + count, load_word(array, ARRAY_DATA))
            count += 1
    asked = _asked_words()
    store_word(asked, 0, 32)
    store_word(asked, 1, 0)
    store_word(asked, 2, load_word(frame, FRAME_CONTEXT))
    store_word(asked, 3, 0)
    if invoke_word(load_word(load_word(frame, FRAME_API), API_STREAM), asked) != 0:
        return 1
    stream = load_word(asked, 3)
    mixed = 0
    for k in range(length):
        mixed = (mixed ^ load_word(key, k)) * _FACTOR
        mixed ^= (mixed >> 29) & 0x7FFFFFFFF
    mask, table = load_word(state, MASK), load_word(state, TABLE)
    place = mixed & mask
    store_word(out, OUT_STREAM, stream)
    store_word(out, OUT_PLACE, place)
    store_word(out, OUT_COUNT, count)
    store_word(out, OUT_KEY, length)
    record = load_word(table, place)
    while record != 0 and not _is_at(record, key, length):
        place = (place + 1) & mask
        record = load_word(table, place)
    if record == 0 or load_word(state, OBSERVED) != 0:
        return 1
    store_word(out, OUT_NUMBER, load_word(record, NUMBER))
    program = load_word(record, PROGRAM)
    if program == 0:
        return 1
    return _run(state, program, stream, out)
