"""The calls of every operation - launch, allocate, free, and those of libraries - compiled by Numba for the host.

Through ctypes a launch costs a microsecond more than the driver itself takes, and checking and packing its
arguments in Python several more; here they are machine code. Everything is an integer: addresses of the
driver's functions, handles, pointers. Each function first compares the thread's current context with the one
wanted, and returns `WRONG_CONTEXT` where it differs, or `CAPTURING` where the stream is being captured into a graph,
which must be told what it uses. A negative result means that nothing was done, and why: see `codes`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from ..base.codes import (
    ALIGNED,
    ARRAYS,
    CAPTURING,
    FAILED,
    MANY_ARRAYS,
    MATMUL_ARRAYS,
    MAY_OVERLAP,
    WRONG_ALIGNMENT,
    WRONG_CONTEXT,
)
from .host_cache import compiled

#: Bytes of packed kernel arguments, at most: what every GPU takes.
ARGUMENT_BYTES = 4096

#: A launch template is a row of 64-bit words: these,
#: (IS_CAPTURING is 0 where the stream has been checked.)
GET_CURRENT, CONTEXT, IS_CAPTURING, LAUNCH, FUNCTION, COUNT, POINTERS, CONSTANTS, SCALARS, SIZE, PAIRS = range(11)
#: then the CUlaunchConfig, each of COUNT arrays' address modulo 16, (array, bytes into it) for each of the kernel's
#: POINTERS, the packed constants as 64-bit words, and for each two arrays that may not share bytes
#: (array, low, high, output, low, high, allowed to be equal). Scalar arguments follow the arrays in each call.
CONFIG = PAIRS + 1
CONFIG_WORDS = 7
ALIGNMENT = CONFIG + CONFIG_WORDS
PAIR_WORDS = 7
_STREAM_IN_CONFIG = 4  # CUlaunchConfig.hStream is at byte 32

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
    def allocate(typing: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            memory = cgutils.alloca_once(builder, ir.ArrayType(_I64, words))
            return builder.ptrtoint(memory, _I64)

        return _int(), generate

    return allocate


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
_many_words = _stack(MANY_ARRAYS)
_extra_words = _stack(5)


@njit(inline="always")
def _is_current(get_current, context):
    found = _one_word()
    _store(found, 0, 0)
    _invoke(get_current, (found,))
    return _load(found, 0) == context


@njit(inline="always")
def _may_overlap(pair, count, arrays):
    """True if two arrays that may not share bytes may do so: `count` rows of PAIR_WORDS words."""
    for _ in range(count):
        source = _load(arrays, _load(pair, 0))
        target = _load(arrays, _load(pair, 3))
        apart = target + _load(pair, 5) <= source + _load(pair, 1) or source + _load(pair, 2) <= target + _load(pair, 4)
        if not apart and not (source == target and _load(pair, 6)):
            return True
        pair += 8 * PAIR_WORDS
    return False


@njit(inline="always")
def _is_capturing(is_capturing, stream):
    state = _one_more_word()
    _store(state, 0, 0)
    # Where asking is forbidden, another stream captures. A capture that was broken refuses all work, too, till it is
    # ended.
    return _invoke(is_capturing, (stream, state)) != 0 or _load(state, 0) & 0xFFFFFFFF != 0


@njit(inline="always")
def _launch(template, stream, arrays):
    """As `launch`, with the arrays' addresses and the scalars in memory."""
    if not _is_current(_load(template, GET_CURRENT), _load(template, CONTEXT)):
        return WRONG_CONTEXT
    count = _load(template, COUNT)
    for k in range(count):
        if _load(arrays, k) & 15 != _load(template, ALIGNMENT + k):
            return WRONG_ALIGNMENT
    pointers, words, scalars = _load(template, POINTERS), _load(template, CONSTANTS), _load(template, SCALARS)
    starts = ALIGNMENT + count
    constants = starts + 2 * pointers
    if _may_overlap(template + 8 * (constants + words), _load(template, PAIRS), arrays):
        return MAY_OVERLAP
    is_capturing = _load(template, IS_CAPTURING)
    if is_capturing != 0 and _is_capturing(is_capturing, stream):
        return CAPTURING
    arguments = _argument_words()
    for k in range(pointers):
        start = starts + 2 * k
        base = _load(arrays, _load(template, start))
        _store(arguments, k, base + _load(template, start + 1))
    for k in range(words):
        _store(arguments, pointers + k, _load(template, constants + k))
    for k in range(scalars):
        _store(arguments, pointers + words + k, _load(arrays, count + k))
    config = _config_words()
    for k in range(CONFIG_WORDS):
        _store(config, k, _load(template, CONFIG + k))
    _store(config, _STREAM_IN_CONFIG, stream)
    size_word = _one_more_word()
    _store(size_word, 0, _load(template, SIZE))
    extra = _extra_words()
    for k, word in enumerate((_PARAM_BUFFER, arguments, _PARAM_SIZE, size_word, _PARAM_END)):
        _store(extra, k, word)
    return _invoke(_load(template, LAUNCH), (config, _load(template, FUNCTION), 0, extra))


@compiled(_int(*[_int] * (2 + ARRAYS)))
def launch(template, stream, a0, a1, a2, a3, a4, a5):
    """Launch a template's kernel on arrays at the addresses a0 ..., scalars behind them: a CUresult, or a code."""
    arrays = _array_words()
    for k, word in enumerate((a0, a1, a2, a3, a4, a5)):
        _store(arrays, k, word)
    return _launch(template, stream, arrays)


@compiled(_int(*[_int] * (2 + MANY_ARRAYS)))
def launch_many(
    template, stream, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20,
    a21, a22, a23,
):  # fmt: skip
    """`launch` with more arrays and scalars."""
    words = (
        a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, a23,
    )  # fmt: skip
    arrays = _many_words()
    for k, word in enumerate(words):
        _store(arrays, k, word)
    return _launch(template, stream, arrays)


@compiled(_int(*[_int] * 9))
def execute(get_current, context, is_capturing, function, handle, stream, source, target, option):
    """Call a library's function that works from one address to another, on a stream that it knows.

    Its status, WRONG_CONTEXT, or, unless is_capturing is 0, CAPTURING. An int parameter takes the low half of its word;
    a function with fewer parameters leaves the last unread, as C's calling conventions let it.
    """
    if not _is_current(get_current, context):
        return WRONG_CONTEXT
    if is_capturing != 0 and _is_capturing(is_capturing, stream):
        return CAPTURING
    return _invoke(function, (handle, source, target, option))


@compiled(_int(_int, _int))
def is_current(get_current, context):
    """1 where the context is the thread's current one, else 0."""
    return 1 if _is_current(get_current, context) else 0


@compiled(_int(_int, _int))
def is_capturing(is_capturing, stream):
    """1 where the stream is being captured, or may not even be asked since another is, else 0."""
    return 1 if _is_capturing(is_capturing, stream) else 0


#: What allocating and freeing need of a GPU: a row of these words.
POOL_GET_CURRENT, POOL_CONTEXT, POOL_IS_CAPTURING, POOL_ALLOCATE, POOL_FREE, POOL = range(6)


@njit(inline="always")
def _refusal(gpu, stream):
    """Why nothing can be allocated or freed on a stream now: WRONG_CONTEXT, CAPTURING, or 0."""
    if not _is_current(_load(gpu, POOL_GET_CURRENT), _load(gpu, POOL_CONTEXT)):
        return WRONG_CONTEXT
    return CAPTURING if _is_capturing(_load(gpu, POOL_IS_CAPTURING), stream) else 0


@compiled(_int(*[_int] * 3))
def allocate(gpu, nbytes, stream):
    """Allocate from a GPU's pool: the address, WRONG_CONTEXT, CAPTURING, or FAILED - CUresult."""
    refusal = _refusal(gpu, stream)
    if refusal != 0:
        return refusal
    result = _one_more_word()
    _store(result, 0, 0)
    status = _invoke(_load(gpu, POOL_ALLOCATE), (result, nbytes, _load(gpu, POOL), stream))
    return FAILED - status if status else _load(result, 0)


@compiled(_int(*[_int] * 3))
def free(gpu, pointer, stream):
    """Free in the order of a stream: a CUresult, WRONG_CONTEXT, or CAPTURING."""
    refusal = _refusal(gpu, stream)
    return refusal if refusal != 0 else _invoke(_load(gpu, POOL_FREE), (pointer, stream))


#: A matmul template is a row of 64-bit words: these,
(
    MATMUL_GET_CURRENT,
    MATMUL_CONTEXT,
    MATMUL_FUNCTION,
    MATMUL_SET_ATTRIBUTE,
    MATMUL_IS_CAPTURING,  # 0: the arrays and the stream have been checked
    MATMUL_HANDLE,
    MATMUL_DESCRIPTOR,
    MATMUL_ALGO,
    MATMUL_WORKSPACE_BYTES,
    MATMUL_ONE,  # the bits of 1 and 0 in the scale type
    MATMUL_ZERO,
    MATMUL_FIRST,  # which array is cuBLASLt's A: 0 or 1; B is the other
    MATMUL_LAYOUTS,  # of A, B, C, D
) = range(13)
MATMUL_POINTERS = MATMUL_LAYOUTS + 4  # how many pointers are attributes of the descriptor
MATMUL_PAIRS = MATMUL_POINTERS + 1
MATMUL_ALIGNMENT = MATMUL_PAIRS + 1
#: the greatest power of two up to ALIGNED that divides each of the first ARRAYS arrays' addresses, and then for each
#: pointer in the descriptor (array, attribute, the value it has), and the pairs as in a launch template.
MATMUL_ATTRIBUTES = MATMUL_ALIGNMENT + ARRAYS

_matmul_words = _stack(MATMUL_ARRAYS)
_alpha_word = _stack(1)
_beta_word = _stack(1)
_value_word = _stack(1)


@njit(inline="always")
def _queue_matmul(template, stream, workspace, alpha_address, beta_address, arrays):
    """As `matmul`, with the arrays' addresses and the two factors in memory."""
    if not _is_current(_load(template, MATMUL_GET_CURRENT), _load(template, MATMUL_CONTEXT)):
        return WRONG_CONTEXT
    is_capturing = _load(template, MATMUL_IS_CAPTURING)
    for k in range(ARRAYS):
        address = _load(arrays, k) | ALIGNED
        if is_capturing != 0 and address & -address != _load(template, MATMUL_ALIGNMENT + k):
            return WRONG_ALIGNMENT
    pointers = _load(template, MATMUL_POINTERS)
    attribute = template + 8 * MATMUL_ATTRIBUTES
    if _may_overlap(attribute + 24 * pointers, _load(template, MATMUL_PAIRS), arrays):
        return MAY_OVERLAP
    if is_capturing != 0 and _is_capturing(is_capturing, stream):
        return CAPTURING
    workspace_bytes = _load(template, MATMUL_WORKSPACE_BYTES)
    descriptor = _load(template, MATMUL_DESCRIPTOR)
    for _ in range(pointers):
        value = _load(arrays, _load(attribute, 0))
        if value != _load(attribute, 2):
            word = _value_word()
            _store(word, 0, value)
            status = _invoke(_load(template, MATMUL_SET_ATTRIBUTE), (descriptor, _load(attribute, 1), word, 8))
            if status:
                return status
            _store(attribute, 2, value)
        attribute += 24
    first = _load(template, MATMUL_FIRST)
    layouts = template + 8 * MATMUL_LAYOUTS
    return _invoke(
        _load(template, MATMUL_FUNCTION),
        (
            _load(template, MATMUL_HANDLE),
            descriptor,
            alpha_address,
            _load(arrays, first),
            _load(layouts, 0),
            _load(arrays, 1 - first),
            _load(layouts, 1),
            beta_address,
            _load(arrays, 2),
            _load(layouts, 2),
            _load(arrays, 3),
            _load(layouts, 3),
            _load(template, MATMUL_ALGO),
            workspace,
            workspace_bytes,
            stream,
        ),
    )


@compiled(_int(*[_int] * (5 + MATMUL_ARRAYS)))
def matmul(template, stream, workspace, alpha, beta, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10):
    """Queue a template's product of arrays at the addresses a0 ...: a cublasStatus_t, or a code.

    Alpha and beta come as the bits of the scale type's numbers. The descriptor belongs to the calling thread.
    """
    arrays = _matmul_words()
    for k, address in enumerate((a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10)):
        _store(arrays, k, address)
    alpha_address, beta_address = _alpha_word(), _beta_word()
    _store(alpha_address, 0, alpha)
    _store(beta_address, 0, beta)
    return _queue_matmul(template, stream, workspace, alpha_address, beta_address, arrays)


@compiled(_int(*[_int] * 7))
def matmul_plain(template, stream, a, b, out, bias, aux):
    """`matmul` with alpha 1, beta 0, no scales and no scratch memory: every argument less makes a call cheaper."""
    arrays = _matmul_words()
    for k, address in enumerate((a, b, out, out, bias, aux, 0, 0, 0, 0, 0)):
        _store(arrays, k, address)
    one, zero = template + 8 * MATMUL_ONE, template + 8 * MATMUL_ZERO
    return _queue_matmul(template, stream, 0, one, zero, arrays)
