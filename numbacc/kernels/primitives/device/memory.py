"""Loads and stores by address, and asynchronous copies of threads (cp.async)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base import _numba
from ....base._numba import types
from .block_state import RANK_SHIFT, SHARED_BASE, block, global_bytes, local, thread
from .emitting import Emitter, generated, literal, ptx, tuple_type

__all__ = [
    "address_of", "cp_async", "cp_async_commit_group", "cp_async_mbarrier_arrive", "cp_async_rows",
    "cp_async_wait_group", "cp_async_zfill", "dynamic_shared", "ld_global_b32", "ld_global_v2", "ld_global_v4",
    "ld_global_v4_cs", "ld_global_v4_nc", "ld_shared_b32", "ld_shared_v4", "shared_address", "st_global_b32",
    "st_global_v2", "st_global_v4", "st_global_v4_cs", "st_shared_b32", "st_shared_v4",
]  # fmt: skip

_AMPERE = (8, 0)


# ---------------------------------------------------------------- addresses


def _dynamic_shared() -> Any:
    def emit(e: Emitter) -> Any:
        ir, module, name = _numba.ir, e.builder.module, "numbacc_dynamic_shared"
        if name in module.globals:
            place = module.globals[name]
        else:
            place = ir.GlobalVariable(module, ir.ArrayType(ir.IntType(8), 0), name, addrspace=3)
            place.linkage, place.align = "external", 1024
        return e.builder.trunc(e.builder.ptrtoint(place, e.i64), e.i32)

    return types.uint32(), emit


@generated(_dynamic_shared, literals=False, since=(5, 0))
def dynamic_shared() -> int:
    """Return the address of the block's dynamic shared memory: a multiple of 1024. The launch sets its size."""
    return SHARED_BASE | block().rank << RANK_SHIFT


def _address_of(array: Any) -> Any:
    def emit(e: Emitter, value: Any) -> Any:
        return e.builder.ptrtoint(e.context.make_array(array)(e.context, e.builder, value).data, e.i64)

    return types.int64(array), emit


@generated(_address_of, literals=False, since=(5, 0))
def address_of(array: Any) -> int:
    """Return the address of an array's first element in global memory, as int64."""
    return int(getattr(array, "_view", array).ctypes.data)


def _shared_address(array: Any) -> Any:
    def emit(e: Emitter, value: Any) -> Any:
        data = e.context.make_array(array)(e.context, e.builder, value).data
        text = "{ .reg .u64 t; cvta.to.shared.u64 t, $1; cvt.u32.u64 $0, t; }"
        return e.asm(text, [e.builder.ptrtoint(data, e.i64)], e.i32, pure=True)

    return types.uint32(array), emit


@generated(_shared_address, literals=False, since=(5, 0))
def shared_address(array: Any) -> int:
    """Return the 32-bit address of an array of `cuda.shared.array`."""
    return block().address_of(getattr(array, "_view", array))


# ---------------------------------------------------------------- loads and stores


def _vector(kind: str, count: int, how: str) -> Any:
    """Return the typing of a load of `count` 32-bit words."""
    result = tuple_type("u32", count)
    registers = "{" + ",".join(f"${k}" for k in range(count)) + "}"
    text = f"ld.{how}.v{count}.b32 {registers}, [${count}];"
    address = types.int64 if kind == "global" else types.uint32

    def typed(place: Any) -> Any:
        def emit(e: Emitter, place: Any) -> Any:
            return e.tuple(result, e.asm_many(text, [place], e.i32, count))

        return result(address), emit

    return typed


def _vector_store(kind: str, count: int, how: str) -> Any:
    """Return the typing of a store of `count` 32-bit words."""
    registers = "{" + ",".join(f"${k + 1}" for k in range(count)) + "}"
    address = types.int64 if kind == "global" else types.uint32

    def typed(place: Any, words: Any) -> Any:
        def emit(e: Emitter, place: Any, words: Any) -> None:
            e.asm(f"st.{how}.v{count}.b32 [$0], {registers};", [place, *e.items(words)])

        return types.void(address, tuple_type("u32", count)), emit

    return typed


def _words(place: Any, count: int) -> tuple[int, ...]:
    _aligned(place, 4 * count)
    return tuple(int(x) for x in global_bytes(place, 4 * count).view(np.uint32))


def _put_words(place: Any, words: Any) -> None:
    _aligned(place, 4 * len(words))
    global_bytes(place, 4 * len(words)).view(np.uint32)[:] = _u32(words)


def _u32(words: Any) -> np.ndarray[Any, Any]:
    """Return integers of any sign as 32-bit words."""
    return np.array([int(x) & 0xFFFFFFFF for x in words], np.uint32)


def _aligned(place: Any, nbytes: int) -> None:
    if int(place) % nbytes:
        raise ValueError(f"the address {int(place):#x} must be a multiple of {nbytes}")


@ptx("ld.global.b32 $0, [$1];", "i64", result="u32", since=(5, 0))
def ld_global_b32(address: int) -> int:
    """Load a 32-bit word from global memory."""
    return _words(address, 1)[0]


@ptx("st.global.b32 [$0], $1;", "i64", "u32", since=(5, 0))
def st_global_b32(address: int, word: int) -> None:
    """Store a 32-bit word to global memory."""
    _put_words(address, (word,))


@generated(_vector("global", 2, "global"), literals=False, since=(5, 0))
def ld_global_v2(address: int) -> tuple[int, ...]:
    """Load 8 bytes of global memory as two words."""
    return _words(address, 2)


@generated(_vector("global", 4, "global"), literals=False, since=(5, 0))
def ld_global_v4(address: int) -> tuple[int, ...]:
    """Load 16 bytes of global memory as four words."""
    return _words(address, 4)


@generated(_vector("global", 4, "global.nc.L1::no_allocate.L2::128B"), literals=False, since=(8, 0))
def ld_global_v4_nc(address: int) -> tuple[int, ...]:
    """Load 16 bytes that no kernel writes meanwhile, without keeping them in the L1 cache."""
    return _words(address, 4)


@generated(_vector("global", 4, "global.cs"), literals=False, since=(5, 0))
def ld_global_v4_cs(address: int) -> tuple[int, ...]:
    """Load 16 bytes that are used only once: they leave the caches first."""
    return _words(address, 4)


@generated(_vector_store("global", 2, "global"), literals=False, since=(5, 0))
def st_global_v2(address: int, words: tuple[int, ...]) -> None:
    """Store two words to global memory."""
    _put_words(address, words)


@generated(_vector_store("global", 4, "global"), literals=False, since=(5, 0))
def st_global_v4(address: int, words: tuple[int, ...]) -> None:
    """Store four words to global memory."""
    _put_words(address, words)


@generated(_vector_store("global", 4, "global.cs"), literals=False, since=(5, 0))
def st_global_v4_cs(address: int, words: tuple[int, ...]) -> None:
    """Store four words that nobody reads soon: they leave the caches first."""
    _put_words(address, words)


@ptx("ld.shared.b32 $0, [$1];", "u32", result="u32", since=(5, 0))
def ld_shared_b32(address: int) -> int:
    """Load a 32-bit word from shared memory."""
    _aligned(address, 4)
    at = local(address)
    block().watch("ld_shared_b32", "read", (at,), 4)
    return int(block().read(slice(at, at + 4), "ld_shared_b32").view(np.uint32)[0])


@ptx("st.shared.b32 [$0], $1;", "u32", "u32", since=(5, 0))
def st_shared_b32(address: int, word: int) -> None:
    """Store a 32-bit word to shared memory."""
    _aligned(address, 4)
    at = local(address)
    block().watch("st_shared_b32", "write", (at,), 4)
    block().write(slice(at, at + 4), _u32((word,)).view(np.uint8), thread().thread_id, "st_shared_b32")


@generated(_vector("shared", 4, "shared"), literals=False, since=(5, 0))
def ld_shared_v4(address: int) -> tuple[int, ...]:
    """Load 16 bytes of shared memory as four words."""
    _aligned(address, 16)
    at = local(address)
    block().watch("ld_shared_v4", "read", (at,), 16)
    return tuple(int(x) for x in block().read(slice(at, at + 16), "ld_shared_v4").view(np.uint32))


@generated(_vector_store("shared", 4, "shared"), literals=False, since=(5, 0))
def st_shared_v4(address: int, words: tuple[int, ...]) -> None:
    """Store four words to shared memory."""
    _aligned(address, 16)
    at = local(address)
    block().watch("st_shared_v4", "write", (at,), 16)
    block().write(slice(at, at + 16), _u32(words).view(np.uint8), thread().thread_id, "st_shared_v4")


# ---------------------------------------------------------------- cp.async


def _begin(shared: Any, source: Any, count: int, valid: int | None = None) -> None:
    """Begin a thread's copy: it lands when the thread waits for its group."""
    _aligned(shared, count)
    _aligned(source, count)
    state, number, at = block(), thread().thread_id, local(shared)
    state.check_writable(slice(at, at + count), "cp_async")
    state.watch("cp_async", "write", (at,), count)
    copied = count if valid is None else int(valid)
    state.copies[number][-1].append((at, count, int(source), copied))
    state.memory[at : at + count] = 0xFF
    state.on_the_way[at : at + count] = -1 - number


def _land(group: list[Any]) -> None:
    state, number = block(), thread().thread_id
    for at, count, source, copied in group:
        values = np.zeros(count, np.uint8)
        if copied:
            values[:copied] = global_bytes(source, copied)
        state.write(slice(at, at + count), values, number, "cp_async")


def _cp_async(shared: Any, source: Any, nbytes: Any) -> Any:
    size = literal(nbytes, "nbytes", (4, 8, 16))

    def emit(e: Emitter, shared: Any, source: Any, _: Any) -> None:
        e.asm(f"cp.async.{'cg' if size == 16 else 'ca'}.shared.global [$0], [$1], {size};", [shared, source])

    return types.void(types.uint32, types.int64, nbytes), emit


@generated(_cp_async, since=_AMPERE)
def cp_async(shared: int, source: int, nbytes: int) -> None:
    """Begin a copy of 4, 8 or 16 bytes from global memory to shared memory; `nbytes` is a constant.

    The bytes may be read after `cp_async_wait_group`, and by other threads after a barrier. Both addresses are
    multiples of `nbytes`.
    """
    _begin(shared, source, nbytes)


@ptx("cp.async.cg.shared.global [$0], [$1], 16, $2;", "u32", "i64", "u32", since=_AMPERE)
def cp_async_zfill(shared: int, source: int, valid: int) -> None:
    """Begin a copy of 16 bytes like `cp_async`, of which only the first `valid` are read; the rest become zero."""
    _begin(shared, source, 16, valid)


def _cp_async_rows(shared: Any, source: Any, count: Any, shared_step: Any, source_step: Any) -> Any:
    n, step = literal(count, "count"), literal(shared_step, "shared_step")

    def emit(e: Emitter, shared: Any, source: Any, _: Any, __: Any, source_step: Any) -> None:
        lines = [f"{{ .reg .u64 a<{n + 1}>;", "mov.u64 a0, $1;"]
        for k in range(n):
            lines.append(f"cp.async.cg.shared.global [$0+{k * step}], [a{k}], 16;")
            if k + 1 < n:
                lines.append(f"add.u64 a{k + 1}, a{k}, $2;")
        e.asm("\n".join([*lines, "}"]), [shared, source, source_step])

    return types.void(types.uint32, types.int64, count, shared_step, types.int64), emit


@generated(_cp_async_rows, since=_AMPERE)
def cp_async_rows(shared: int, source: int, count: int, shared_step: int, source_step: int) -> None:
    """Begin `count` copies of 16 bytes, the k-th to shared + k shared_step from source + k source_step.

    `count` and `shared_step` are constants.
    """
    for k in range(count):
        _begin(shared + k * shared_step, source + k * source_step, 16)


@ptx("cp.async.commit_group;", since=_AMPERE)
def cp_async_commit_group() -> None:
    """End a group: the thread's copies since the last group."""
    block().copies[thread().thread_id].append([])


def _cp_async_wait_group(pending: Any) -> Any:
    n = literal(pending, "pending")
    return types.void(pending), lambda e, _: e.asm(f"cp.async.wait_group {n};") and None


@generated(_cp_async_wait_group, since=_AMPERE)
def cp_async_wait_group(pending: int) -> None:
    """Wait until at most `pending` (a constant) of the thread's newest groups have not arrived."""
    groups = block().copies[thread().thread_id]
    while len(groups) - 1 > pending:
        _land(groups.pop(0))


@ptx("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [$0];", "u32", since=_AMPERE)
def cp_async_mbarrier_arrive(mbarrier: int) -> None:
    """Arrive at an mbarrier when all of the thread's earlier copies have arrived."""
    state = block()
    for group in state.copies.pop(thread().thread_id, []):
        _land(group)
    state.mbarrier(local(mbarrier)).change(1)
    state.changed()
