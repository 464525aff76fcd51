"""Calls of cuDNN's plans, compiled for the host like the functions of `native`.

cuDNN takes the tensors' addresses in a variant pack, which cannot be changed. One pack is kept between calls, and
replaced when an address differs.
"""

from __future__ import annotations

from numba import njit, types

from ..base.codes import CAPTURING, MAY_OVERLAP, WRONG_ALIGNMENT, WRONG_CONTEXT
from .host_cache import compiled
from .native import (
    arrays_may_overlap,
    context_is_current,
    invoke,
    load_word,
    stack_words,
    store_word,
    stream_is_capturing,
)

#: A plan's template is a row of 64-bit words. First come these:
(
    GET_CURRENT,
    CONTEXT,
    IS_CAPTURING,
    CREATE,  # cudnnBackendCreateDescriptor, and so on
    SET_ATTRIBUTE,
    FINALIZE,
    DESTROY,
    SET_STREAM,
    EXECUTE,
    HANDLE,  # the address of two words: the handle, and its current stream
    PLAN,
    COUNT,  # number of tensors
    NUMBERS,  # how many of these, the last ones, are scalars on the host, which calls do not pass
    PAIRS,
    PACK,  # the kept variant pack, 0 at first
    SCRATCH,  # the workspace of that pack
) = range(16)
#: Then come, for each of COUNT tensors: cuDNN's number of the tensor; the bits of its address that must be 0; the
#: address in the kept pack (for scalars from the start). The pairs follow, as in a launch template.
TENSORS = SCRATCH + 1

#: Constants of cudnn_graph.h: a variant pack, its attributes, and their types.
_VARIANT_PACK, _UNIQUE_IDS, _POINTERS, _WORKSPACE, _INT64, _VOID_PTR = 16, 1000, 1001, 1003, 3, 6

_int = types.int64
_pack_word = stack_words(1)
_scratch_word = stack_words(1)


@njit(inline="always")
def _fill(template, pack, scratch, arrays):
    """Set a variant pack's attributes and finalize it. Return cuDNN's status."""
    put, count = load_word(template, SET_ATTRIBUTE), load_word(template, COUNT)
    workspace = _scratch_word()
    store_word(workspace, 0, scratch)
    status = invoke(put, (pack, _UNIQUE_IDS, _INT64, count, template + 8 * TENSORS))
    if status == 0:
        status = invoke(put, (pack, _POINTERS, _VOID_PTR, count, arrays))
    if status == 0:
        status = invoke(put, (pack, _WORKSPACE, _VOID_PTR, 1, workspace))
    if status == 0:
        status = invoke(load_word(template, FINALIZE), (pack,))
    return status


@njit(inline="always")
def _renew(template, scratch, arrays):
    """Replace the kept variant pack by one with these addresses. Return cuDNN's status."""
    count, numbers = load_word(template, COUNT), load_word(template, NUMBERS)
    for k in range(count - numbers, count):
        store_word(arrays, k, load_word(template, TENSORS + 2 * count + k))
    made = _pack_word()
    store_word(made, 0, 0)
    status = invoke(load_word(template, CREATE), (_VARIANT_PACK, made))
    if status:
        return status
    pack = load_word(made, 0)
    status = _fill(template, pack, scratch, arrays)
    if status:
        invoke(load_word(template, DESTROY), (pack,))
        return status
    if load_word(template, PACK):
        invoke(load_word(template, DESTROY), (load_word(template, PACK),))
    store_word(template, PACK, pack)
    store_word(template, SCRATCH, scratch)
    for k in range(count - numbers):
        store_word(template, TENSORS + 2 * count + k, load_word(arrays, k))
    return 0


@njit(inline="always")
def _execute(template, checks, stream, scratch, arrays):
    """Do what `execute` does. `arrays` has room for all addresses that cuDNN gets, including those of scalars."""
    if not context_is_current(load_word(template, GET_CURRENT), load_word(template, CONTEXT)):
        return WRONG_CONTEXT
    count = load_word(template, COUNT)
    known = load_word(template, PACK) != 0 and load_word(template, SCRATCH) == scratch
    for k in range(count - load_word(template, NUMBERS)):
        address = load_word(arrays, k)
        if address & load_word(template, TENSORS + count + k):
            return WRONG_ALIGNMENT
        known = known and address == load_word(template, TENSORS + 2 * count + k)
    if checks:
        if arrays_may_overlap(template + 8 * (TENSORS + 3 * count), load_word(template, PAIRS), arrays):
            return MAY_OVERLAP
        if stream_is_capturing(load_word(template, IS_CAPTURING), stream):
            return CAPTURING
    if not known:
        status = _renew(template, scratch, arrays)
        if status:
            return status
    handle = load_word(template, HANDLE)
    if load_word(handle, 1) != stream:
        status = invoke(load_word(template, SET_STREAM), (load_word(handle, 0), stream))
        if status:
            return status
        store_word(handle, 1, stream)
    return invoke(
        load_word(template, EXECUTE), (load_word(handle, 0), load_word(template, PLAN), load_word(template, PACK))
    )


@compiled(_int(*[_int] * 4))
def execute(template, stream, scratch, arrays):
    """Queue a template's plan on tensors, and return a cudnnStatus_t or a code.

    The tensors' addresses are in memory, with room for MANY_ARRAYS. This first checks whether tensors overlap, and
    whether the stream is being captured. The template belongs to the calling thread, as its handle does.
    """
    return _execute(template, 1, stream, scratch, arrays)


@compiled(_int(*[_int] * 4))
def execute_unchecked(template, stream, scratch, arrays):
    """Queue a template's plan like `execute`, on tensors and a stream that were checked before."""
    return _execute(template, 0, stream, scratch, arrays)
