"""What functions compiled for the host are made of: words of memory, calls of C functions, and looks before a call."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_int = types.int64


@intrinsic
def load_word(typing: Any, address: Any, index: Any) -> Any:
    """The 64-bit word number `index` behind an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words = builder.inttoptr(args[0], _I64.as_pointer())
        return builder.load(builder.gep(words, [args[1]]))

    return _int(_int, _int), generate


@intrinsic
def store_word(typing: Any, address: Any, index: Any, value: Any) -> Any:
    """Write the 64-bit word number `index` behind an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words = builder.inttoptr(args[0], _I64.as_pointer())
        builder.store(args[2], builder.gep(words, [args[1]]))
        return context.get_dummy_value()

    return types.void(_int, _int, _int), generate


def stack_words(words: int) -> Any:
    """A function that returns the address of so many 64-bit words on the caller's stack."""

    @intrinsic
    def allocate(typing: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            memory = cgutils.alloca_once(builder, ir.ArrayType(_I64, words))
            return builder.ptrtoint(memory, _I64)

        return _int(), generate

    return allocate


@intrinsic
def invoke(typing: Any, function: Any, arguments: Any) -> Any:
    """Call the C function at an address with 64-bit arguments: its CUresult."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I32, [_I64] * len(arguments))
        values = [builder.extract_value(args[1], k) for k in range(len(arguments))]
        result = builder.call(builder.inttoptr(args[0], kind.as_pointer()), values)
        return builder.zext(result, _I64)

    return _int(_int, types.UniTuple(_int, len(arguments))), generate


#: Rows of words that name a pair of arrays which may not share bytes: see `arrays_may_overlap`.
PAIR_WORDS = 7

_context_word = stack_words(1)
_state_word = stack_words(1)


@njit(inline="always")
def context_is_current(get_current, context):
    found = _context_word()
    store_word(found, 0, 0)
    invoke(get_current, (found,))
    return load_word(found, 0) == context


@njit(inline="always")
def arrays_may_overlap(pair, count, arrays):
    """True if two arrays that may not share bytes may do so: `count` rows of PAIR_WORDS words."""
    for _ in range(count):
        source = load_word(arrays, load_word(pair, 0))
        target = load_word(arrays, load_word(pair, 3))
        apart = target + load_word(pair, 5) <= source + load_word(pair, 1) or source + load_word(
            pair, 2
        ) <= target + load_word(pair, 4)
        if not apart and not (source == target and load_word(pair, 6)):
            return True
        pair += 8 * PAIR_WORDS
    return False


@njit(inline="always")
def stream_is_capturing(is_capturing, stream):
    state = _state_word()
    store_word(state, 0, 0)
    # Where asking is forbidden, another stream captures. A capture that was broken refuses all work, too, till it is
    # ended.
    return invoke(is_capturing, (stream, state)) != 0 or load_word(state, 0) & 0xFFFFFFFF != 0
