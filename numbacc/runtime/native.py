"""Compiled host code for the calls of every operation: launch, allocate, free, and calls of libraries.

Through ctypes, a launch takes a microsecond more than the driver itself, and checking and packing its arguments in
Python takes several more. Here they are machine code, compiled by Numba. Everything is an integer: addresses of the
driver's functions, handles, pointers. Each function first compares the thread's current context with the required one,
and returns `WRONG_CONTEXT` if they differ. It returns `CAPTURING` if the stream is being captured into a graph, because
the capture must then record what the call uses. A negative result means that nothing was done; `codes` lists the
reasons.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from ..base.codes import ALIGNED, ARRAYS, CAPTURING, FAILED, MATMUL_ARRAYS, MAY_OVERLAP, WRONG_ALIGNMENT, WRONG_CONTEXT
from .host_cache import compiled

# ---------------------------------------------------------------- words, calls of C functions, checks before a call

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_int = types.int64


@intrinsic
def load_word(typing: Any, address: Any, index: Any) -> Any:
    """Load the 64-bit word number `index` after an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words = builder.inttoptr(args[0], _I64.as_pointer())
        return builder.load(builder.gep(words, [args[1]]))

    return _int(_int, _int), generate


@intrinsic
def store_word(typing: Any, address: Any, index: Any, value: Any) -> Any:
    """Store the 64-bit word number `index` after an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words = builder.inttoptr(args[0], _I64.as_pointer())
        builder.store(args[2], builder.gep(words, [args[1]]))
        return context.get_dummy_value()

    return types.void(_int, _int, _int), generate


def stack_words(words: int) -> Any:
    """Return a function that allocates `words` 64-bit words on its caller's stack and returns their address."""

    @intrinsic
    def allocate(typing: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            memory = cgutils.alloca_once(builder, ir.ArrayType(_I64, words))
            return builder.ptrtoint(memory, _I64)

        return _int(), generate

    return allocate


@intrinsic
def invoke(typing: Any, function: Any, arguments: Any) -> Any:
    """Call the C function at an address with 64-bit arguments, and return its CUresult."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I32, [_I64] * len(arguments))
        values = [builder.extract_value(args[1], k) for k in range(len(arguments))]
        result = builder.call(builder.inttoptr(args[0], kind.as_pointer()), values)
        return builder.zext(result, _I64)

    return _int(_int, types.UniTuple(_int, len(arguments))), generate


#: Words of a row that describes a pair of arrays that may not share bytes; see `arrays_may_overlap`.
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
    """Return True if two arrays that may not share bytes might do so, given `count` rows of PAIR_WORDS words."""
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
    # An error means that another stream is capturing. A broken capture also rejects all work until it is ended.
    return invoke(is_capturing, (stream, state)) != 0 or load_word(state, 0) & 0xFFFFFFFF != 0


# ---------------------------------------------------------------- functions that operations call

#: The most bytes of packed kernel arguments, supported by every GPU.
ARGUMENT_BYTES = 4096

#: A launch template is a row of 64-bit words. First come these; IS_CAPTURING is 0 if the stream was checked before.
#: LAUNCH is cuLaunchKernelEx if there are attributes, else cuLaunchKernel.
GET_CURRENT, CONTEXT, IS_CAPTURING, LAUNCH, FUNCTION, COUNT, POINTERS, CONSTANTS, SCALARS, SIZE, PAIRS = range(11)
#: Then come: the CUlaunchConfig; the address modulo 16 of each of COUNT arrays; (array, byte offset in it) for each of
#: the kernel's POINTERS; the packed constants as 64-bit words; and for each two arrays that may not share bytes (array,
#: low, high, output, low, high, allowed to be equal). In each call, scalar arguments follow the arrays.
CONFIG = PAIRS + 1
CONFIG_WORDS = 7
ALIGNMENT = CONFIG + CONFIG_WORDS
_STREAM_IN_CONFIG = 4  # CUlaunchConfig.hStream is at byte 32
_ATTRIBUTES_IN_CONFIG = 5  # CUlaunchConfig.attrs

_PARAM_END, _PARAM_BUFFER, _PARAM_SIZE = 0, 1, 2  # CU_LAUNCH_PARAM_*


_word = stack_words(1)
_config_words = stack_words(CONFIG_WORDS)
_argument_words = stack_words(ARGUMENT_BYTES // 8)
_extra_words = stack_words(5)


@compiled(_int(*[_int] * 4))
def launch(template, stream, scratch, arrays):
    """Launch a template's kernel, and return a CUresult or a code.

    `arrays` is the address of the arrays' addresses, followed by the scalars. Kernels have no scratch memory.
    """
    if not context_is_current(load_word(template, GET_CURRENT), load_word(template, CONTEXT)):
        return WRONG_CONTEXT
    count = load_word(template, COUNT)
    for k in range(count):
        if load_word(arrays, k) & 15 != load_word(template, ALIGNMENT + k):
            return WRONG_ALIGNMENT
    pointers, words, scalars = (
        load_word(template, POINTERS),
        load_word(template, CONSTANTS),
        load_word(template, SCALARS),
    )
    starts = ALIGNMENT + count
    constants = starts + 2 * pointers
    if arrays_may_overlap(template + 8 * (constants + words), load_word(template, PAIRS), arrays):
        return MAY_OVERLAP
    is_capturing = load_word(template, IS_CAPTURING)
    if is_capturing != 0 and stream_is_capturing(is_capturing, stream):
        return CAPTURING
    arguments = _argument_words()
    for k in range(pointers):
        start = starts + 2 * k
        base = load_word(arrays, load_word(template, start))
        store_word(arguments, k, base + load_word(template, start + 1))
    for k in range(words):
        store_word(arguments, pointers + k, load_word(template, constants + k))
    for k in range(scalars):
        store_word(arguments, pointers + words + k, load_word(arrays, count + k))
    size_word = _word()
    store_word(size_word, 0, load_word(template, SIZE))
    extra = _extra_words()
    for k, word in enumerate((_PARAM_BUFFER, arguments, _PARAM_SIZE, size_word, _PARAM_END)):
        store_word(extra, k, word)
    function, call = load_word(template, FUNCTION), load_word(template, LAUNCH)
    if load_word(template, CONFIG + _ATTRIBUTES_IN_CONFIG) == 0:
        # Parameters of 32 bits use the lower half of their words.
        first, second, third, shared = (
            load_word(template, CONFIG),
            load_word(template, CONFIG + 1),
            load_word(template, CONFIG + 2),
            load_word(template, CONFIG + 3),
        )
        lengths = (first, first >> 32, second, second >> 32, third, third >> 32)
        return invoke(call, (function, *lengths, shared, stream, 0, extra))
    config = _config_words()
    for k in range(CONFIG_WORDS):
        store_word(config, k, load_word(template, CONFIG + k))
    store_word(config, _STREAM_IN_CONFIG, stream)
    return invoke(call, (config, function, 0, extra))


@compiled(_int(*[_int] * 9))
def execute(get_current, context, is_capturing, function, handle, stream, source, target, option):
    """Call a library's function that works from one address to another, on a stream that its handle already has.

    Return its status, WRONG_CONTEXT, or, unless is_capturing is 0, CAPTURING. An int parameter uses the lower half of
    its word. A function with fewer parameters leaves the last ones unread, as C's calling conventions allow.
    """
    if not context_is_current(get_current, context):
        return WRONG_CONTEXT
    if is_capturing != 0 and stream_is_capturing(is_capturing, stream):
        return CAPTURING
    return invoke(function, (handle, source, target, option))


@compiled(_int(_int, _int))
def is_current(get_current, context):
    """Return 1 if the context is the thread's current one, else 0."""
    return 1 if context_is_current(get_current, context) else 0


@compiled(_int(_int, _int))
def is_capturing(is_capturing, stream):
    """Return 1 if the stream is being captured, or if another stream's capture forbids the query, else 0."""
    return 1 if stream_is_capturing(is_capturing, stream) else 0


#: The words that allocating and freeing need of a GPU.
POOL_GET_CURRENT, POOL_CONTEXT, POOL_IS_CAPTURING, POOL_ALLOCATE, POOL_FREE, POOL = range(6)


@njit(inline="always")
def _refusal(gpu, stream):
    """Return why nothing can be allocated or freed on a stream now: WRONG_CONTEXT, CAPTURING, or 0."""
    if not context_is_current(load_word(gpu, POOL_GET_CURRENT), load_word(gpu, POOL_CONTEXT)):
        return WRONG_CONTEXT
    return CAPTURING if stream_is_capturing(load_word(gpu, POOL_IS_CAPTURING), stream) else 0


@compiled(_int(*[_int] * 3))
def allocate(gpu, nbytes, stream):
    """Allocate from a GPU's pool, and return the address, WRONG_CONTEXT, CAPTURING, or FAILED - CUresult."""
    refusal = _refusal(gpu, stream)
    if refusal != 0:
        return refusal
    result = _word()
    store_word(result, 0, 0)
    status = invoke(load_word(gpu, POOL_ALLOCATE), (result, nbytes, load_word(gpu, POOL), stream))
    return FAILED - status if status else load_word(result, 0)


@compiled(_int(*[_int] * 3))
def free(gpu, pointer, stream):
    """Free memory in the order of a stream, and return a CUresult, WRONG_CONTEXT, or CAPTURING."""
    refusal = _refusal(gpu, stream)
    return refusal if refusal != 0 else invoke(load_word(gpu, POOL_FREE), (pointer, stream))


#: A matmul template is a row of 64-bit words. First come these:
(
    MATMUL_GET_CURRENT,
    MATMUL_CONTEXT,
    MATMUL_FUNCTION,
    MATMUL_SET_ATTRIBUTE,
    MATMUL_IS_CAPTURING,  # 0: the arrays and the stream were checked before
    MATMUL_HANDLE,
    MATMUL_DESCRIPTOR,
    MATMUL_ALGO,
    MATMUL_WORKSPACE_BYTES,
    MATMUL_ONE,  # the bits of 1 and 0 in the scale type
    MATMUL_ZERO,
    MATMUL_FIRST,  # the array that is cuBLASLt's A: 0 or 1; B is the other
    MATMUL_LAYOUTS,  # of A, B, C, D
) = range(13)
MATMUL_POINTERS = MATMUL_LAYOUTS + 4  # number of pointers that are attributes of the descriptor
MATMUL_PAIRS = MATMUL_POINTERS + 1
MATMUL_ALIGNMENT = MATMUL_PAIRS + 1
#: Then come: the greatest power of two up to ALIGNED that divides the address, for each of the first ARRAYS arrays; for
#: each pointer in the descriptor (array, attribute, its current value); and the pairs as in a launch template.
MATMUL_ATTRIBUTES = MATMUL_ALIGNMENT + ARRAYS

_matmul_words = stack_words(MATMUL_ARRAYS)
_alpha_word = stack_words(1)
_beta_word = stack_words(1)
_value_word = stack_words(1)


@njit(inline="always")
def _queue_matmul(template, stream, workspace, alpha_address, beta_address, arrays):
    """Do what `matmul` does, with the arrays' addresses and the two factors in memory."""
    if not context_is_current(load_word(template, MATMUL_GET_CURRENT), load_word(template, MATMUL_CONTEXT)):
        return WRONG_CONTEXT
    is_capturing = load_word(template, MATMUL_IS_CAPTURING)
    for k in range(ARRAYS):
        address = load_word(arrays, k) | ALIGNED
        if is_capturing != 0 and address & -address != load_word(template, MATMUL_ALIGNMENT + k):
            return WRONG_ALIGNMENT
    pointers = load_word(template, MATMUL_POINTERS)
    attribute = template + 8 * MATMUL_ATTRIBUTES
    if arrays_may_overlap(attribute + 24 * pointers, load_word(template, MATMUL_PAIRS), arrays):
        return MAY_OVERLAP
    if is_capturing != 0 and stream_is_capturing(is_capturing, stream):
        return CAPTURING
    workspace_bytes = load_word(template, MATMUL_WORKSPACE_BYTES)
    descriptor = load_word(template, MATMUL_DESCRIPTOR)
    for _ in range(pointers):
        value = load_word(arrays, load_word(attribute, 0))
        if value != load_word(attribute, 2):
            word = _value_word()
            store_word(word, 0, value)
            status = invoke(load_word(template, MATMUL_SET_ATTRIBUTE), (descriptor, load_word(attribute, 1), word, 8))
            if status:
                return status
            store_word(attribute, 2, value)
        attribute += 24
    first = load_word(template, MATMUL_FIRST)
    layouts = template + 8 * MATMUL_LAYOUTS
    return invoke(
        load_word(template, MATMUL_FUNCTION),
        (
            load_word(template, MATMUL_HANDLE),
            descriptor,
            alpha_address,
            load_word(arrays, first),
            load_word(layouts, 0),
            load_word(arrays, 1 - first),
            load_word(layouts, 1),
            beta_address,
            load_word(arrays, 2),
            load_word(layouts, 2),
            load_word(arrays, 3),
            load_word(layouts, 3),
            load_word(template, MATMUL_ALGO),
            workspace,
            workspace_bytes,
            stream,
        ),
    )


@compiled(_int(*[_int] * (5 + MATMUL_ARRAYS)))
def matmul(template, stream, workspace, alpha, beta, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10):
    """Queue a template's matrix product of arrays at addresses a0, a1, ..., and return a cublasStatus_t or a code.

    Alpha and beta are passed as the bits of values of the scale type. The descriptor belongs to the calling thread.
    """
    arrays = _matmul_words()
    for k, address in enumerate((a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10)):
        store_word(arrays, k, address)
    alpha_address, beta_address = _alpha_word(), _beta_word()
    store_word(alpha_address, 0, alpha)
    store_word(beta_address, 0, beta)
    return _queue_matmul(template, stream, workspace, alpha_address, beta_address, arrays)


@compiled(_int(*[_int] * 4))
def matmul_arrays(template, stream, workspace, arrays):
    """Queue `matmul` with alpha 1 and beta 0, for MATMUL_ARRAYS addresses in memory."""
    one, zero = template + 8 * MATMUL_ONE, template + 8 * MATMUL_ZERO
    return _queue_matmul(template, stream, workspace, one, zero, arrays)


@compiled(_int(*[_int] * 7))
def matmul_plain(template, stream, a, b, out, bias, aux):
    """Queue `matmul` with alpha 1, beta 0, no scales and no scratch memory. Fewer arguments make the call cheaper."""
    arrays = _matmul_words()
    for k, address in enumerate((a, b, out, out, bias, aux, 0, 0, 0, 0, 0)):
        store_word(arrays, k, address)
    one, zero = template + 8 * MATMUL_ONE, template + 8 * MATMUL_ZERO
    return _queue_matmul(template, stream, 0, one, zero, arrays)
