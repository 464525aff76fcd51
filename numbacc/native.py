"""The three driver calls of every operation - launch, allocate, free - compiled by Numba for the host.

Through ctypes a launch costs a microsecond more than the driver itself takes, and checking and packing its
arguments in Python several more; here they are machine code. Everything is an integer: addresses of the
driver's functions, handles, pointers. Each function first compares the thread's current context with the one
wanted, and returns `WRONG_CONTEXT` where it differs. A negative result means that nothing was done, and why: see
`codes`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from .codes import ARRAYS, CAPTURING, FAILED, MAY_OVERLAP, WRONG_ALIGNMENT, WRONG_CONTEXT

#: Bytes of packed kernel arguments, at most.
ARGUMENT_BYTES = 1024

#: A launch template is a row of 64-bit words: these,
GET_CURRENT, CONTEXT, LAUNCH, FUNCTION, POINTERS, SIZE, PAIRS = range(7)
#: then the CUlaunchConfig, each array's address modulo 16, (array, bytes into it) for each of the kernel's
#: pointers, the packed constants as 64-bit words, and for each two arrays that may not share bytes
#: (array, low, high, output, low, high, allowed to be equal).
CONFIG = PAIRS + 1
CONFIG_WORDS = 7
ALIGNMENT = CONFIG + CONFIG_WORDS
PLACES = ALIGNMENT + ARRAYS
PAIR_WORDS = 7
_STREAM_IN_CONFIG = 4  # CUlaunchConfig.hStream is at byte 32

_CAPTURE_ACTIVE = 1
_PARAM_END, _PARAM_BUFFER, _PARAM_SIZE = 0, 1, 2  # CU_LAUNCH_PARAM_*
_I32, _I64 = ir.IntType(32), ir.IntType(64)
_int = types.int64


@intrinsic
def _load(typing: Any, address: Any, index: Any) -> Any:
    """The 64-bit word number `index` behind an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words = builder.inttoptr(args[0], _I64.as_pointer())
        return builder.load(builder.gep(words, [args[1]]))

    return _int(_int, _int), generate


@intrinsic
def _store(typing: Any, address: Any, index: Any, value: Any) -> Any:
    """Write the 64-bit word number `index` behind an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words = builder.inttoptr(args[0], _I64.as_pointer())
        builder.store(args[2], builder.gep(words, [args[1]]))
        return context.get_dummy_value()

    return types.void(_int, _int, _int), generate


def _stack(words: int) -> Any:
    """A function that returns the address of so many 64-bit words on the caller's stack."""

    @intrinsic
    def place(typing: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            memory = cgutils.alloca_once(builder, ir.ArrayType(_I64, words))
            return builder.ptrtoint(memory, _I64)

        return _int(), generate

    return place


@intrinsic
def _invoke(typing: Any, function: Any, arguments: Any) -> Any:
    """Call the C function at an address with 64-bit arguments: its CUresult."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I32, [_I64] * len(arguments))
        values = [builder.extract_value(args[1], k) for k in range(len(arguments))]
        result = builder.call(builder.inttoptr(args[0], kind.as_pointer()), values)
        return builder.zext(result, _I64)

    return _int(_int, types.UniTuple(_int, len(arguments))), generate


_one_word = _stack(1)
_one_more_word = _stack(1)
_config_words = _stack(CONFIG_WORDS)
_argument_words = _stack(ARGUMENT_BYTES // 8)
_array_words = _stack(ARRAYS)
_extra_words = _stack(5)


@njit(inline="always")
def _is_current(get_current, context):
    found = _one_word()
    _store(found, 0, 0)
    _invoke(get_current, (found,))
    return _load(found, 0) == context


@njit([_int(*[_int] * (2 + ARRAYS))], nogil=True, cache=True)
def launch(template, stream, a0, a1, a2, a3, a4, a5):
    """Launch a template's kernel on arrays at the addresses a0 ...: a CUresult, or a code."""
    if not _is_current(_load(template, GET_CURRENT), _load(template, CONTEXT)):
        return WRONG_CONTEXT
    arrays = _array_words()
    for k, address in enumerate((a0, a1, a2, a3, a4, a5)):
        _store(arrays, k, address)
        if address & 15 != _load(template, ALIGNMENT + k):
            return WRONG_ALIGNMENT
    pointers, size = _load(template, POINTERS), _load(template, SIZE)
    constants = PLACES + 2 * pointers
    words = (size + 7) // 8 - pointers
    pair = constants + words
    for _ in range(_load(template, PAIRS)):
        source = _load(arrays, _load(template, pair))
        target = _load(arrays, _load(template, pair + 3))
        apart = target + _load(template, pair + 5) <= source + _load(template, pair + 1) or source + _load(
            template, pair + 2
        ) <= target + _load(template, pair + 4)
        if not apart and not (source == target and _load(template, pair + 6)):
            return MAY_OVERLAP
        pair += PAIR_WORDS
    arguments = _argument_words()
    for k in range(pointers):
        place = PLACES + 2 * k
        base = _load(arrays, _load(template, place))
        _store(arguments, k, base + _load(template, place + 1))
    for k in range(words):
        _store(arguments, pointers + k, _load(template, constants + k))
    config = _config_words()
    for k in range(CONFIG_WORDS):
        _store(config, k, _load(template, CONFIG + k))
    _store(config, _STREAM_IN_CONFIG, stream)
    size_place = _one_more_word()
    _store(size_place, 0, size)
    extra = _extra_words()
    for k, word in enumerate((_PARAM_BUFFER, arguments, _PARAM_SIZE, size_place, _PARAM_END)):
        _store(extra, k, word)
    function = _load(template, FUNCTION)
    return _invoke(_load(template, LAUNCH), (config, function, 0, extra))


@njit([_int(*[_int] * 6)], nogil=True, cache=True)
def allocate(get_current, context, function, pool, nbytes, stream):
    """Allocate from a pool: the address, WRONG_CONTEXT, or FAILED - CUresult."""
    if not _is_current(get_current, context):
        return WRONG_CONTEXT
    result = _one_more_word()
    _store(result, 0, 0)
    status = _invoke(function, (result, nbytes, pool, stream))
    return FAILED - status if status else _load(result, 0)


@njit([_int(*[_int] * 6)], nogil=True, cache=True)
def free(get_current, context, is_capturing, function, pointer, stream):
    """Free in the order of a stream: a CUresult, WRONG_CONTEXT, or CAPTURING."""
    if not _is_current(get_current, context):
        return WRONG_CONTEXT
    state = _one_more_word()
    # Where asking is forbidden, another stream captures: the state then stays at "active".
    _store(state, 0, _CAPTURE_ACTIVE)
    _invoke(is_capturing, (stream, state))
    if _load(state, 0) & 0xFFFFFFFF == _CAPTURE_ACTIVE:
        return CAPTURING
    return _invoke(function, (pointer, stream))
